// SPDX-License-Identifier: Apache-2.0
//! Text of others in pages and pictures.

use driveline_types::text::misleads;

/// Text made safe for HTML and SVG, in elements and in quoted attributes. What no such document may
/// contain, a control character other than line end and tab, becomes a space, and so does what
/// turns the direction of writing or is not seen. Allocates.
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

/// Sentences as HTML: what stands between backticks is what people type, and becomes code.
/// Allocates.
#[must_use]
pub fn sentence(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // The last of an odd number of backticks is one.
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
