// SPDX-License-Identifier: Apache-2.0
//! Wraps words to the width of the terminal. Tables are not wrapped:
//! [`Columns`](crate::table::Columns) prints them.

use std::io::IsTerminal as _;

/// Maximum width of wrapped lines, on a terminal of any width: longer ones are hard to read.
const WIDEST: usize = 110;
/// Minimum width of wrapped lines. A terminal that reports a smaller width breaks them again.
const NARROWEST: usize = 20;
/// Units that stay on the line of their value.
const UNITS: [&str; 23] = [
    "ns", "µs", "ms", "s", "min", "h", "days", "Hz", "kHz", "MHz", "GHz", "B", "KiB", "MiB", "GiB",
    "kB", "MB", "GB", "MB/s", "GB/s", "m", "km/h", "%",
];

/// Returns the width of wrapped lines on standard output: that of the terminal, within limits.
/// Without a terminal they are not wrapped, so that `grep` finds whole statements.
#[must_use]
pub fn width() -> usize {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return usize::MAX;
    }
    let columns = rustix::termios::tcgetwinsize(&stdout).map_or(0, |size| usize::from(size.ws_col));
    if columns == 0 { WIDEST } else { columns.clamp(NARROWEST, WIDEST) }
}

/// Wraps a line to lines of at most `width` characters, each ending with a newline. Further lines
/// are indented by two characters more than the first. A longer word stays whole.
#[must_use]
pub fn wrapped(line: &str, width: usize) -> String {
    let indent = line.len() - line.trim_start().len();
    lines(line.trim_start(), " ".repeat(indent), &" ".repeat(indent + 2), width)
}

/// Joins items with commas and wraps them between items. Each line is indented by `indent`. An item
/// that is longer than a line is itself wrapped, as by [`wrapped`].
#[must_use]
pub fn listed(items: &[String], indent: usize, width: usize) -> String {
    let indent = " ".repeat(indent);
    let room = width.saturating_sub(indent.len());
    let mut text = String::new();
    let mut line = String::new();
    for (i, item) in items.iter().enumerate() {
        let item = if i + 1 < items.len() { format!("{item},") } else { item.clone() };
        if !line.is_empty() && line.chars().count() + 1 + item.chars().count() > room {
            text += &wrapped(&format!("{indent}{line}"), width);
            line.clear();
        }
        line += if line.is_empty() { "" } else { " " };
        line += &item;
    }
    text + &wrapped(&format!("{indent}{line}"), width)
}

fn lines(words: &str, first: String, further: &str, width: usize) -> String {
    let mut text = first;
    let mut used = text.chars().count();
    let mut begun = false;
    for piece in pieces(words) {
        let letters = piece.chars().count();
        if begun && used + 1 + letters > width {
            text = text.trim_end().to_owned() + "\n" + further;
            used = further.len();
        } else if begun {
            text.push(' ');
            used += 1;
        }
        text += &piece;
        used += letters;
        begun = true;
    }
    text + "\n"
}

/// Splits text into words. A number and the unit after it are one word.
fn pieces(words: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for word in words.split(' ') {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', '.', ';', ':', ')', ']']));
        match all.last_mut() {
            Some(value) if is_unit && value.ends_with(|c: char| c.is_ascii_digit()) => {
                *value = format!("{value} {word}")
            }
            _ => all.push(word.to_owned()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_broken_where_there_is_room_for_them_and_indented_as_they_began() {
        assert_eq!(wrapped("  one two three four", 11), "  one two\n    three\n    four\n");
        assert_eq!(wrapped("one two", usize::MAX), "one two\n");
        assert_eq!(wrapped("unbreakable", 4), "unbreakable\n");
        assert_eq!(wrapped("", 10), "\n");
        // A double space stays as it is.
        assert_eq!(wrapped("left out  a peer", 40), "left out  a peer\n");
    }

    #[test]
    fn a_value_keeps_its_unit() {
        for width in 6..40 {
            let text = wrapped("it took 12.5 ms (of 30 s), 0.20 m at 100 km/h and 5 % more", width);
            let torn = text.lines().any(|l| {
                UNITS.iter().any(|u| l.trim_start().split([' ', ')', ',']).next() == Some(u))
            });
            assert!(!torn, "{text}");
            assert_eq!(text.split_whitespace().count(), 16, "{text}");
        }
        assert_eq!(wrapped("part s", 4), "part\n  s\n");
    }

    #[test]
    fn items_are_broken_between_them() {
        let items: Vec<String> = (0..40).map(|i| format!("counter {i} {}", i * 1000)).collect();
        let text = listed(&items, 4, 60);
        assert!(
            text.lines().count() > 3
                && text.lines().all(|l| l.chars().count() <= 60 && l.starts_with("    counter ")),
            "{text}"
        );
        assert!(text.ends_with("counter 39 39000\n"), "{text}");
        assert_eq!(listed(&items, 4, usize::MAX).lines().count(), 1);
    }
}
