// SPDX-License-Identifier: Apache-2.0
//! Tables as text and as Markdown.

use std::fmt::Write as _;

/// A table. As text, each column is as wide as its widest cell; the first column is aligned to the
/// left, the others to the right.
#[derive(Clone, Debug)]
pub struct Columns {
    rows: Vec<Vec<String>>,
}

impl Columns {
    /// Creates a table with the heads of its columns.
    #[must_use]
    pub fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|h| (*h).to_owned()).collect()] }
    }

    /// Adds a row of cells, from the left; missing ones are empty. A row of one cell is a heading.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Adds a row: its first cell, and the other cells.
    pub fn named(&mut self, name: String, cells: Vec<String>) {
        self.row(std::iter::once(name).chain(cells).collect());
    }

    /// Adds a heading over the whole width.
    pub fn heading(&mut self, text: String) {
        self.rows.push(vec![text]);
    }

    /// Returns true if there are no rows, only head and headings.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.iter().skip(1).all(|r| r.len() < 2)
    }

    /// Returns the rows that are not headings. A row of one cell is a heading, and may be wider
    /// than the columns.
    fn wide(&self) -> impl Iterator<Item = &Vec<String>> {
        self.rows.iter().filter(|r| r.len() > 1)
    }

    /// Returns true if a column has more than its head. The first one is always shown.
    fn says(&self, column: usize) -> bool {
        column == 0 || self.wide().skip(1).any(|r| r.get(column).is_some_and(|t| !t.is_empty()))
    }

    /// Returns the table in Markdown, without columns that have no content below their head.
    #[must_use]
    pub fn markdown(&self) -> String {
        let columns: Vec<usize> = (0..self.rows.iter().map(Vec::len).max().unwrap_or(0))
            .filter(|c| self.says(*c))
            .collect();
        let mut text = String::new();
        for (i, row) in self.rows.iter().enumerate() {
            for c in &columns {
                // Line ends and markup in names of others must not break the table.
                let cell = row
                    .get(*c)
                    .map_or("", String::as_str)
                    .replace('|', "\\|")
                    .replace('<', "\\<")
                    .replace('\n', " ");
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

    /// Appends the table as text, without columns that have no content below their head.
    pub fn write(&self, into: &mut String) {
        let columns: Vec<usize> = (0..self.rows.iter().map(Vec::len).max().unwrap_or(0))
            .filter(|c| self.says(*c))
            .collect();
        let align: Vec<Align> =
            columns.iter().map(|c| if *c == 0 { Align::Left } else { Align::Right }).collect();
        let pick = |row: &Vec<String>| {
            columns.iter().map(|c| row.get(*c).cloned().unwrap_or_default()).collect()
        };
        let mut wide = aligned(&align, &self.wide().map(pick).collect::<Vec<_>>()).into_iter();
        for row in &self.rows {
            let line = if let [heading] = row.as_slice() {
                heading.clone()
            } else {
                wide.next().unwrap_or_default()
            };
            let _ = writeln!(into, "{}", format!("  {line}").trim_end());
        }
    }
}

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Its text begins at the same place in each line.
    Left,
    /// Its text ends at the same place in each line: for numbers.
    Right,
}

/// Returns the lines of a table. Each column is as wide as its widest cell, with two spaces between
/// columns. A row may have fewer cells than there are columns.
#[must_use]
pub fn aligned(align: &[Align], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| {
        rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..align.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (i, ((cell, width), align)) in row.iter().zip(&widths).zip(align).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            text += if i == 0 { "" } else { "  " };
            text += &match align {
                Align::Left => format!("{cell}{pad}"),
                Align::Right => format!("{pad}{cell}"),
            };
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(
            c.markdown(),
            "| a | µs |\n|---|---|\n| longer than the columns | |\n| ÄÖ | 10.0 |\n| a\\|b | |\n"
        );
        assert!(!c.is_empty());
    }

    #[test]
    fn each_column_is_aligned_its_way() {
        let rows = [["stage", "runs", "of"], ["lane µ", "7", "a"], ["x", "1234", "bc"]]
            .map(|r| r.map(str::to_owned).to_vec());
        let align = [Align::Left, Align::Right, Align::Left];
        assert_eq!(
            aligned(&align, &rows),
            ["stage   runs  of", "lane µ     7  a", "x       1234  bc"]
        );
    }
}
