// SPDX-License-Identifier: Apache-2.0
//! Requested cases that are not measured, so that none is missing without a reason.

use serde::{Deserialize, Serialize};

/// A requested case that is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// The case.
    pub what: String,
    /// Cause and remedy.
    pub reason: String,
    /// Names of the cells in which the case is left out; empty: all cells.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
}

impl LeftOut {
    /// A case that is left out everywhere.
    #[must_use]
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into(), cells: Vec::new() }
    }

    /// Returns the entries without cells that are in more than one of these lists. They are printed
    /// once, with the names of those lists in place of cells.
    #[must_use]
    pub fn shared<'a>(lists: impl IntoIterator<Item = (&'a str, &'a [Self])>) -> Vec<Self> {
        let mut shared: Vec<Self> = Vec::new();
        for (name, list) in lists {
            for left in list.iter().filter(|l| l.cells.is_empty()) {
                match shared.iter_mut().find(|s| left.is_among(std::slice::from_ref(s))) {
                    Some(rendered) => rendered.cells.push(name.to_owned()),
                    None => shared.push(Self { cells: vec![name.to_owned()], ..left.clone() }),
                }
            }
        }
        shared.retain(|s| s.cells.len() > 1);
        shared
    }

    /// Returns true if this entry is printed with the [`shared`](Self::shared) entries.
    #[must_use]
    pub fn is_among(&self, shared: &[Self]) -> bool {
        self.cells.is_empty()
            && shared.iter().any(|s| s.what == self.what && s.reason == self.reason)
    }

    /// Returns cause and cells as a shortened text.
    #[must_use]
    pub fn rendered(&self) -> String {
        const SHOWN: usize = 4;
        let names: Vec<&str> = self.cells.iter().take(SHOWN).map(String::as_str).collect();
        match self.cells.len() {
            0 => self.reason.clone(),
            n if n > SHOWN => {
                format!("{} (in {}; and {} more)", self.reason, names.join("; "), n - SHOWN)
            }
            _ => format!("{} (in {})", self.reason, names.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_of_several_places_are_printed_once() {
        let [a, b, c] = ["a", "b", "c"].map(|what| LeftOut::new(what, "not installed"));
        let in_a_cell = LeftOut { cells: vec!["cell".into()], ..b.clone() };
        let lists = [
            ("W1", vec![a.clone(), b.clone(), c.clone()]),
            ("W2", vec![c, in_a_cell.clone(), a]),
            ("refsys", Vec::new()),
        ];
        let shared = LeftOut::shared(lists.iter().map(|(name, list)| (*name, list.as_slice())));
        let rendered: Vec<_> =
            shared.iter().map(|l| format!("{}: {}", l.what, l.rendered())).collect();
        assert_eq!(rendered, ["a: not installed (in W1; W2)", "c: not installed (in W1; W2)"]);
        let own: Vec<_> =
            lists.iter().flat_map(|(_, list)| list).filter(|l| !l.is_among(&shared)).collect();
        assert_eq!(own, [&b, &in_a_cell]);
    }

    #[test]
    fn a_few_places_are_named_and_many_are_counted() {
        let of = |n: usize| {
            LeftOut {
                cells: (0..n).map(|i| format!("c{i}")).collect(),
                ..LeftOut::new("x", "cannot")
            }
            .rendered()
        };
        assert_eq!(
            [of(0), of(1), of(4), of(9)],
            [
                "cannot",
                "cannot (in c0)",
                "cannot (in c0; c1; c2; c3)",
                "cannot (in c0; c1; c2; c3; and 5 more)"
            ]
        );
    }
}
