// SPDX-License-Identifier: Apache-2.0
//! Corruptions, counted for each control field and each kind of message.

use super::{PATIENCE, repeat};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Counts of one attack.
pub(crate) struct Tally {
    what: String,
    counts: RefCell<BTreeMap<&'static str, u64>>,
}

impl Tally {
    /// Creates a table of counts, all 0. Each of `fields` must be corrupted.
    pub(crate) fn new(what: impl Into<String>, fields: &[&'static str]) -> Self {
        let counts = RefCell::new(fields.iter().map(|f| (*f, 0)).collect());
        Self { what: what.into(), counts }
    }

    #[track_caller]
    pub(crate) fn add(&self, field: &'static str, n: u64) {
        let mut counts = self.counts.borrow_mut();
        let count = counts.get_mut(field).unwrap_or_else(|| panic!("{field} is not in the table"));
        *count += n;
    }

    pub(crate) fn count(&self, field: &'static str) {
        self.add(field, 1);
    }

    /// The field with the fewest corruptions.
    pub(crate) fn least(&self) -> (&'static str, u64) {
        let counts = self.counts.borrow();
        counts.iter().map(|(field, n)| (*field, *n)).min_by_key(|(_, n)| *n).unwrap()
    }

    /// Prints the table; the last line has the smallest count.
    pub(crate) fn print(&self) {
        let total: u64 = self.counts.borrow().values().sum();
        for (field, n) in self.counts.borrow().iter() {
            println!("CORRUPTIONS: {}: {field}: {n}", self.what);
        }
        let (field, n) = self.least();
        println!("CORRUPTIONS: {}: {total} in all, least: {n} of '{field}'", self.what);
        assert!(n > 0, "{}: '{field}' was not corrupted", self.what);
    }
}

/// Minimum number of corruptions of each field: 1, or `DRIVELINE_CORRUPTIONS`.
pub(crate) fn wanted() -> u64 {
    std::env::var("DRIVELINE_CORRUPTIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

/// As [`repeat`], and until each field has `wanted` corruptions.
#[track_caller]
pub(crate) fn repeat_counted(
    usual: Duration,
    (tally, wanted): (&Tally, u64),
    mut step: impl FnMut(),
    enough: impl FnMut() -> Result<(), String>,
) {
    let (mut most, mut grown) = (0, Instant::now());
    while tally.least().1 < wanted {
        step();
        let (field, n) = tally.least();
        if n > most {
            (most, grown) = (n, Instant::now());
        }
        // time: only an attack that stands still takes so long
        assert!(grown.elapsed() < PATIENCE, "'{field}' has only {n} corruptions");
    }
    repeat(usual, &mut step, enough);
}
