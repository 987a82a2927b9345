// SPDX-License-Identifier: Apache-2.0
//! Formats counts, and text from other processes, for tables and lines. Figures with units are in
//! `driveline_terminal::figures`.

use driveline_types::text::misleads;

/// Formats a count, such as `1 sample` or `2 samples`.
pub(crate) fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Replaces control characters other than tabs, and characters without a visible shape; cuts the
/// text to a number of characters, each of which counts as one column.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let clean = text.chars().map(|c| if misleads(c) && c != '\t' { '\u{fffd}' } else { c });
    let long = text.chars().count() > columns;
    let mut short: String =
        clean.take(if long { columns.saturating_sub(1) } else { columns }).collect();
    if long {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_cannot_move_the_cursor() {
        assert_eq!(cut("a\x1b[2Jb", 10), "a\u{fffd}[2Jb");
        assert_eq!(cut("a\u{202e}b", 10), "a\u{fffd}b");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
