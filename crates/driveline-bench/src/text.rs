// SPDX-License-Identifier: Apache-2.0
//! How figures and tables are written for people.

use crate::stats::Interval;
use std::fmt::Write as _;

/// A size as people read it; exact.
#[must_use]
pub fn bytes(size: usize) -> String {
    for (shift, unit) in [(30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if size >= 1 << shift && size.is_multiple_of(1 << shift) {
            return format!("{} {unit}", size >> shift);
        }
    }
    format!("{size} B")
}

pub(crate) fn microseconds(ns: f64) -> String {
    let us = ns / 1000.0;
    if us < 9.995 {
        format!("{us:.2}")
    } else if us < 99.95 {
        format!("{us:.1}")
    } else {
        format!("{us:.0}")
    }
}

pub(crate) fn interval(i: Option<Interval>) -> String {
    i.map_or_else(|| "n too small".to_owned(), |i| format!("{:.2} ({:.2}–{:.2})", i.estimate, i.low, i.high))
}

/// A table as text: as wide as its cells are, the first column to the left, the others to the right.
#[derive(Clone, Debug)]
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// With these words above its columns.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// The cells of a row, from the left; those that are missing are empty.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// A row with its first cell, and the others.
    pub fn named(&mut self, name: String, cells: Vec<String>) {
        self.row(std::iter::once(name).chain(cells).collect());
    }

    /// A row over the whole width.
    pub fn heading(&mut self, text: String) {
        self.rows.push(vec![text]);
    }

    /// Whether there is nothing but the head, and headings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.iter().skip(1).all(|r| r.len() < 2)
    }

    /// Rows that are no headings: a row of one cell is a heading, and may be as long as it likes.
    fn wide(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rows.iter().filter(|r| r.len() > 1)
    }

    /// Whether a column has more than its head. The first one always stands there.
    fn says(&self, column: usize) -> bool {
        column == 0 || self.wide().skip(1).any(|r| r.get(column).is_some_and(|t| !t.is_empty()))
    }

    /// As a table in Markdown, without the columns in which there is nothing but their head.
    #[must_use]
    pub fn markdown(&self) -> String {
        let columns: Vec<usize> = (0..self.rows.iter().map(Vec::len).max().unwrap_or(0)).filter(|c| self.says(*c)).collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            for c in &columns {
                let cell = row.get(*c).map_or("", String::as_str).replace('|', "\\|");
                text += &if cell.is_empty() { "| ".to_owned() } else { format!("| {cell} ") };
            }
            text += "|\n";
            if i == 0 {
                text += &"|---".repeat(columns.len());
                text += "|\n";
            }
        }
        text
    }

    /// Appends it, without the columns in which there is nothing but their head.
    pub fn write(&self, into: &mut String) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |c: usize| self.wide().filter_map(|r| r.get(c)).map(|t| t.chars().count()).max().unwrap_or(0);
        let widths: Vec<Option<usize>> = (0..columns).map(|c| self.says(c).then(|| width(c))).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (i, (text, width)) in row.iter().zip(&widths).enumerate() {
                let Some(width) = width else { continue };
                let gap = " ".repeat(width.saturating_sub(text.chars().count()));
                let _ = if i == 0 { write!(line, "  {text}{gap}") } else { write!(line, "  {gap}{text}") };
            }
            let _ = writeln!(into, "{}", line.trim_end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_well() {
        assert_eq!([64, 1024, 1 << 20, (1 << 20) + 1, 921_600].map(bytes), ["64 B", "1 KiB", "1 MiB", "1048577 B", "900 KiB"]);
    }

    #[test]
    fn microseconds_keep_three_digits() {
        assert_eq!([131.0, 31_400.0, 314_000.0].map(microseconds), ["0.13", "31.4", "314"]);
        assert_eq!([9_994.0, 9_996.0, 99_940.0, 99_960.0].map(microseconds), ["9.99", "10.0", "99.9", "100"]);
    }

    #[test]
    fn columns_line_up_though_letters_have_several_bytes() {
        let mut c = Columns::new(&["a", "nothing", "µs"]);
        assert!(c.is_empty());
        c.heading("longer than the columns".into());
        assert!(c.is_empty());
        c.row(vec!["ÄÖ".into(), String::new(), "10.0".into()]);
        let mut text = String::new();
        c.write(&mut text);
        assert_eq!(text, "  a     µs\n  longer than the columns\n  ÄÖ  10.0\n");
        c.row(vec!["a|b".into(), String::new(), String::new()]);
        assert_eq!(c.markdown(), "| a | µs |\n|---|---|\n| longer than the columns | |\n| ÄÖ | 10.0 |\n| a\\|b | |\n");
        assert!(!c.is_empty());
    }
}
