// SPDX-License-Identifier: Apache-2.0
//! Text as HTML.

pub(super) use driveline_analyze::{escape, sentence};
use std::fmt::Write as _;

/// Returns JSON for a script element: nothing in it can end the element.
pub(super) fn json(text: &str) -> String {
    text.replace('<', "\\u003c")
}

/// Returns a section with an anchor.
pub(super) fn section(anchor: &str, title: &str, content: &str) -> String {
    format!("<section id=\"{}\"><h2>{}</h2>\n{content}</section>\n", escape(anchor), escape(title))
}

/// Table whose cells are HTML. The first cell of each row names it; the others are numbers if
/// `numbers`.
pub(super) struct Table {
    head: String,
    body: String,
    numbers: bool,
    many: bool,
}

impl Table {
    pub(super) fn new(caption: &str, head: &[&str], numbers: bool) -> Self {
        if head.iter().all(|h| h.is_empty()) {
            return Self::with_head(caption, "", numbers);
        }
        let cells: String = head.iter().map(|h| format!("<th scope=col>{h}</th>")).collect();
        Self::with_head(caption, &format!("<tr>{cells}</tr>"), numbers)
    }

    /// Makes a table with a head of several rows.
    pub(super) fn with_head(caption: &str, rows: &str, numbers: bool) -> Self {
        let caption = if caption.is_empty() {
            String::new()
        } else {
            format!("<caption>{}</caption>", escape(caption))
        };
        let head = if rows.is_empty() { String::new() } else { format!("<thead>{rows}</thead>") };
        Self { head: caption + &head, body: String::new(), numbers, many: false }
    }

    /// Sets the columns closer together, for many columns of numbers.
    pub(super) fn of_many_columns(self) -> Self {
        Self { many: true, ..self }
    }

    /// Adds a row over the whole width.
    pub(super) fn group(&mut self, title: &str, columns: usize) {
        let _ = write!(
            self.body,
            "<tr class=group><th colspan={columns} scope=colgroup><span>{}</span></th></tr>",
            escape(title)
        );
    }

    pub(super) fn row(&mut self, name: &str, cells: &[String]) {
        let _ = write!(self.body, "<tr><th scope=row>{name}</th>");
        for cell in cells {
            let _ = write!(self.body, "<td>{cell}</td>");
        }
        self.body.push_str("</tr>");
    }

    pub(super) fn is_empty(&self) -> bool {
        self.body.is_empty()
    }

    pub(super) fn finish(self) -> String {
        let class = match (self.numbers, self.many) {
            (true, true) => " class=\"numbers many\"",
            (true, false) => " class=numbers",
            (false, _) => "",
        };
        // Wide tables scroll on their own, also by keyboard.
        format!(
            "<div class=wide tabindex=0 role=group \
             aria-label=Table><table{class}>{}<tbody>{}</tbody></table></div>\n",
            self.head, self.body
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_ends_a_script() {
        assert_eq!(json("\"</script>\""), "\"\\u003c/script>\"");
    }
}
