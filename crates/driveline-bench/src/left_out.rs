// SPDX-License-Identifier: Apache-2.0
//! What is not measured, so that nothing is missing silently.

use serde::{Deserialize, Serialize};

/// Something that was asked for and is not measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why, and what to do about it.
    pub reason: String,
    /// Where, by name; empty: everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cells: Vec<String>,
}

impl LeftOut {
    /// Something that is left out everywhere.
    #[must_use]
    pub fn new(what: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { what: what.into(), reason: reason.into(), cells: Vec::new() }
    }

    /// Why, and where: for people, who need not see a hundred names.
    #[must_use]
    pub fn told(&self) -> String {
        const SHOWN: usize = 4;
        let names: Vec<&str> = self.cells.iter().take(SHOWN).map(String::as_str).collect();
        match self.cells.len() {
            0 => self.reason.clone(),
            n if n > SHOWN => format!("{} (in {}; and {} more)", self.reason, names.join("; "), n - SHOWN),
            _ => format!("{} (in {})", self.reason, names.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_places_are_named_and_many_are_counted() {
        let of = |n: usize| LeftOut { cells: (0..n).map(|i| format!("c{i}")).collect(), ..LeftOut::new("x", "cannot") }.told();
        assert_eq!(
            [of(0), of(1), of(4), of(9)],
            ["cannot", "cannot (in c0)", "cannot (in c0; c1; c2; c3)", "cannot (in c0; c1; c2; c3; and 5 more)"]
        );
    }
}
