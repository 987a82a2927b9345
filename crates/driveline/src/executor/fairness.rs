// SPDX-License-Identifier: Apache-2.0
//! The order in which callbacks are searched for a due call.
//!
//! Groups take turns, and so do the callbacks of a group. A group's turn is one round: each of its
//! due callbacks is called once, in order. The cursor over the groups only moves forward. Each
//! group remembers the callback that it called last; only a thread that has entered the group's
//! gate changes this. So a thread that skips a busy group does not cost that group's callbacks
//! their turn.
//!
//! The choice depends only on the cursor, the callbacks called last and the callbacks that are due.
//! So a due callback of an exclusive group waits for at most one call of each other callback of its
//! group, and a due group for at most one call of each callback of other groups. Concurrent
//! searches may all choose the same reentrant callback. `fairness/tests.rs` checks these bounds in
//! simulated time; `tests/loom_gate.rs` runs this file under every interleaving.

use super::gate::Gate;
#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::ops::Range;
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// All groups of an executor. A callback of a reentrant group is a group of its own.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    groups: Vec<Turns>,
    /// Number of turns so far. Modulo the number of groups, it is the index of the group whose turn
    /// it is. Never decreases.
    cursor: AtomicU64,
}

/// Callbacks of one group, by their indices.
#[derive(Debug)]
pub(crate) struct Turns {
    /// `None`: one reentrant callback.
    gate: Option<Arc<Gate>>,
    members: Range<usize>,
    /// Index of the member called last, within the group. Read and written only with the gate
    /// entered.
    last: AtomicUsize,
}

/// A group whose gate was entered, to search its callbacks.
pub(crate) struct Entered<'a> {
    turns: &'a Turns,
    last: usize,
}

/// The part of a group that is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From the member after the one called last, to the end.
    RestOfRound,
    /// Every member, beginning after the one called last.
    Everyone,
}

impl Rotation {
    pub(crate) fn new(groups: Vec<Turns>) -> Self {
        Self { groups, cursor: AtomicU64::new(0) }
    }

    /// Tries groups in the order of their turns until one returns a call. The group whose turn it
    /// is comes first, with the remaining members of its round. It comes again at the end, with all
    /// of its members.
    pub(crate) fn search<T>(
        &self,
        mut try_group: impl FnMut(&Turns, Part) -> Option<T>,
    ) -> Option<T> {
        let n = self.groups.len() as u64;
        // Relaxed: the cursor orders nothing but the search.
        let start = self.cursor.load(Ordering::Relaxed);
        for at in start..=start + n {
            let Some(turns) = self.groups.get((at % n.max(1)) as usize) else { continue };
            let part = if at == start { Part::RestOfRound } else { Part::Everyone };
            if part == Part::RestOfRound && turns.members.len() == 1 {
                continue;
            }
            if let Some(found) = try_group(turns, part) {
                if at != start {
                    // Not a store: a slow search must not set the cursor back after a later search.
                    self.cursor.fetch_max(at, Ordering::Relaxed);
                }
                return Some(found);
            }
        }
        None
    }
}

impl Turns {
    pub(crate) fn new(gate: Option<Arc<Gate>>, members: Range<usize>) -> Self {
        let last = AtomicUsize::new(members.len().saturating_sub(1));
        Self { gate, members, last }
    }

    /// Enters the group, if its gate is open.
    pub(crate) fn enter(&self) -> Option<Entered<'_>> {
        if self.gate.as_ref().is_some_and(|gate| !gate.enter()) {
            return None;
        }
        // Relaxed: the gate orders the accesses to `last`.
        Some(Entered { turns: self, last: self.last.load(Ordering::Relaxed) })
    }
}

impl Entered<'_> {
    /// Returns the call of the first due member; the group stays entered for this call. If no
    /// member is due, leaves the group and returns `Err`. It contains true if the waiting thread
    /// has passed the group over meanwhile and must be kicked.
    pub(crate) fn first_due<T>(
        self,
        part: Part,
        due: impl Fn(usize) -> Option<T>,
    ) -> Result<T, bool> {
        let Self { turns, last } = self;
        for member in order(last, turns.members.len(), part) {
            if let Some(found) = due(turns.members.start + member) {
                turns.last.store(member, Ordering::Relaxed);
                return Ok(found);
            }
        }
        // The round is over: the next one begins with the first member.
        turns.last.store(turns.members.len().saturating_sub(1), Ordering::Relaxed);
        Err(turns.gate.as_ref().is_some_and(|gate| gate.leave()))
    }
}

/// The order of a group's members in a search.
fn order(last: usize, members: usize, part: Part) -> impl Iterator<Item = usize> {
    let again = if part == Part::Everyone { last + 1 } else { 0 };
    (last + 1..members).chain(0..again)
}

#[cfg(all(test, not(loom)))]
mod tests;
