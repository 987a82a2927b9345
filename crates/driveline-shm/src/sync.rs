// SPDX-License-Identifier: Apache-2.0
//! The atomics of the protocol: the processor's, or loom's when the models run.
//!
//! The models execute the source that ships. What they must be able to break is asked for with [`mutant`], which is
//! constant `false` outside the models.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// A deliberate mistake that a model must notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(loom), allow(dead_code, reason = "only the models make mistakes"))]
pub enum Mutant {
    /// The publisher scans without its full fence.
    NoWriterFence,
    /// A borrow validates without its full fence.
    NoBorrowFence,
    /// A waiter re-checks without its full fence.
    NoArmFence,
    /// The pin is stored Relaxed.
    RelaxedPin,
    /// The pins are scanned Relaxed.
    RelaxedScan,
    /// The list of matches is loaded before the publisher's fence.
    ListBeforeFence,
    /// There is one slot fewer than the protocol needs.
    OneSlotFewer,
    /// Who waits for a later sample is woken, too, which uses up the wake-up that it gets for that one.
    WakeTooEarly,
    /// A list is freed as soon as it is replaced.
    FreeListAtOnce,
}

/// Whether the running model asks for this mistake.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(loom)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Whether the running model asks for this mistake.
#[cfg(loom)]
pub fn mutant(m: Mutant) -> bool {
    ACTIVE.with(|a| a.get() == Some(m))
}

/// Makes the models on this thread contain a mistake. (loom runs all threads of a model on the calling thread.)
#[cfg(loom)]
pub fn set_mutant(m: Option<Mutant>) {
    ACTIVE.with(|a| a.set(m));
}
