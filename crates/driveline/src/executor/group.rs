// SPDX-License-Identifier: Apache-2.0
//! Groups of callbacks: which may run at the same time.

use super::gate::Gate;
use std::sync::Arc;

/// Concurrency of a group's callbacks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupKind {
    /// One callback of the group at a time.
    #[default]
    MutuallyExclusive,
    /// Any number at a time, the same callback included.
    Reentrant,
}

/// A set of callbacks that share a rule of concurrency. Clones are the same group.
#[derive(Clone, Debug)]
pub struct CallbackGroup {
    kind: GroupKind,
    gate: Arc<Gate>,
}

impl CallbackGroup {
    pub(super) fn new(kind: GroupKind) -> Self {
        Self { kind, gate: Arc::default() }
    }

    /// Returns the gate that the group's callbacks share, if they exclude each other.
    pub(super) fn gate(&self) -> Option<Arc<Gate>> {
        (self.kind == GroupKind::MutuallyExclusive).then(|| self.gate.clone())
    }

    /// Returns true if callbacks of the two groups exclude each other.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        self.kind == GroupKind::MutuallyExclusive && Arc::ptr_eq(&self.gate, &other.gate)
    }

    /// Opens the gate. Returns true if the waiting thread has excluded the group from its wait and
    /// must be kicked.
    #[must_use]
    pub(super) fn leave(&self) -> bool {
        self.kind == GroupKind::MutuallyExclusive && self.gate.leave()
    }

    /// Returns true if the waiting thread must exclude the group from its wait. The thread is then
    /// kicked when the running call ends.
    pub(super) fn pass_over(&self) -> bool {
        self.kind == GroupKind::MutuallyExclusive && self.gate.pass_over()
    }
}
