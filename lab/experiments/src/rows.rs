// SPDX-License-Identifier: Apache-2.0
//! Table of figures of systems in cells, the same on the terminal, the page and in Markdown.

use driveline_terminal::table::Columns;

/// Rows under the names of their cells.
pub(crate) struct Rows {
    /// Subject of the rows.
    pub(crate) about: &'static str,
    pub(crate) head: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// Row of the table, with a text for each column of the head; the text is empty if there is no
/// value.
pub(crate) struct Row {
    /// Name of its cell, as a heading above the cell's rows; empty for none.
    pub(crate) cell: String,
    pub(crate) name: String,
    pub(crate) cells: Vec<String>,
}

impl Rows {
    /// Makes a table without the columns that are empty except for their head.
    pub(crate) fn new(about: &'static str, head: &[&str], mut rows: Vec<Row>) -> Self {
        let says: Vec<bool> = (0..head.len())
            .map(|c| rows.iter().any(|r| r.cells.get(c).is_some_and(|t| !t.is_empty())))
            .collect();
        let is_present = |c: usize| says.get(c).copied().unwrap_or(false);
        for row in &mut rows {
            row.cells.resize(head.len(), String::new());
            row.cells = std::mem::take(&mut row.cells)
                .into_iter()
                .enumerate()
                .filter(|(c, _)| is_present(*c))
                .map(|(_, t)| t)
                .collect();
        }
        let head = head
            .iter()
            .enumerate()
            .filter(|(c, _)| is_present(*c))
            .map(|(_, h)| (*h).to_owned())
            .collect();
        Self { about, head, rows }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn terminal(&self) -> Columns {
        let mut table = Columns::new(
            &[self.about]
                .into_iter()
                .chain(self.head.iter().map(String::as_str))
                .collect::<Vec<_>>(),
        );
        let mut cell = None;
        for row in &self.rows {
            if cell.replace(&row.cell) != Some(&row.cell) && !row.cell.is_empty() {
                table.heading(row.cell.clone());
            }
            table.named(format!("  {}", row.name), row.cells.clone());
        }
        table
    }

    pub(crate) fn markdown(&self) -> String {
        let mut table = Columns::new(
            &[self.about, "system"]
                .into_iter()
                .chain(self.head.iter().map(String::as_str))
                .collect::<Vec<_>>(),
        );
        for row in &self.rows {
            table.named(
                row.cell.clone(),
                [row.name.clone()].into_iter().chain(row.cells.iter().cloned()).collect(),
            );
        }
        table.markdown()
    }
}
