// SPDX-License-Identifier: Apache-2.0
//! Text of others in pages and pictures.

/// Text made safe for HTML and SVG, in elements and in quoted attributes. What no such document may contain, a control character
/// other than line end and tab, becomes a space. Allocates.
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
            c if c.is_control() && c != '\n' && c != '\t' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_gets_out_of_its_place() {
        assert_eq!(escape("<a href='x' b=\"&\">\n\u{1}"), "&lt;a href=&#39;x&#39; b=&quot;&amp;&quot;&gt;\n ");
    }
}
