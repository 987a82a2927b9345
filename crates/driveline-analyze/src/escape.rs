// SPDX-License-Identifier: Apache-2.0
//! Makes external text safe for pages and pictures.

use driveline_types::text::misleads;

/// Returns text made safe for HTML and SVG, in elements and in quoted attributes. Control
/// characters become spaces, because such documents may not contain them; line ends and tabs stay.
/// Invisible characters and characters that change the writing direction become spaces, too.
/// Allocates.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if misleads(c) && c != '\n' && c != '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// Returns sentences as HTML. Text between backticks becomes code. Allocates.
#[must_use]
pub fn sentence(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // If the number of backticks is odd, the last one is ordinary text.
    let whole = parts.len() - 1 + parts.len() % 2;
    let part = |(i, part): (usize, &&str)| match i {
        i if i >= whole => format!("`{}", escape(part)),
        i if i % 2 == 1 => format!("<code>{}</code>", escape(part)),
        _ => escape(part),
    };
    parts.iter().enumerate().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_type_is_code_and_the_rest_of_a_sentence_is_not() {
        for (text, html) in [
            ("make peers", "make peers"),
            ("", ""),
            (
                "`make peers` builds <it>; `a & b`",
                "<code>make peers</code> builds &lt;it&gt;; <code>a &amp; b</code>",
            ),
            ("a `b` c ` d", "a <code>b</code> c ` d"),
            ("`", "`"),
        ] {
            assert_eq!(sentence(text), html);
        }
    }

    #[test]
    fn nothing_gets_out_of_its_place() {
        assert_eq!(
            escape("<a href='x' b=\"&\">\n\u{1}\u{202e}"),
            "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;\n  "
        );
    }
}
