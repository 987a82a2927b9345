// SPDX-License-Identifier: Apache-2.0
//! The atomics of the protocol: the processor's, or loom's when the models run.
//!
//! The models execute the source that ships. Code that a model breaks on purpose asks [`mutant`],
//! which is constant `false` outside the models.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

/// Memory that several threads use in turns, ordered by the atomics; the models check that order.
#[cfg(loom)]
pub(crate) use loom::cell::UnsafeCell as Turns;

/// Memory that several threads use in turns, ordered by the atomics; the models check that order.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct Turns<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> Turns<T> {
    pub(crate) const fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline(always)]
    pub(crate) fn with<R>(&self, f: impl FnOnce(*const T) -> R) -> R {
        f(self.0.get())
    }

    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, f: impl FnOnce(*mut T) -> R) -> R {
        f(self.0.get())
    }
}

/// A deliberate mistake that a model must detect.
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
    /// Retired slots wait for a pass although no other is free.
    PatienceWithoutEnd,
    /// Waking also waiters for a later sample, which uses up their wake-up for it.
    WakeTooEarly,
    /// Withdrawing samples that a subscription has not read.
    WithdrawUnread,
    /// The pins are scanned for withdrawn samples without the full fence.
    NoWithdrawFence,
    /// The list of matches is scanned for reading positions without the full fence before it.
    NoWithdrawListFence,
    /// A list is freed as soon as it is replaced.
    FreeListAtOnce,
    /// The number that ends a scan is stored Relaxed.
    RelaxedScanEnd,
    /// The number that begins a scan is stored Relaxed.
    RelaxedScanBegin,
    /// The number of the scans is read Relaxed before a list is freed.
    RelaxedReclaim,
    /// A subscriber checks for a waiting publisher without its full fence.
    NoCursorFence,
    /// A waiting publisher reads the cursors without its full fence.
    NoWaitingFence,
    /// A kick is stored Relaxed.
    RelaxedKick,
    /// A look overwrites any state.
    LookOverwrites,
    /// The end of a wait clears a kick.
    EndForgetsKick,
    /// A handle to a held sample is dropped Relaxed.
    RelaxedHandleDrop,
    /// The thread that drops the last handle checks that with a Relaxed load, so reads through
    /// other handles may come after the release of the pin.
    RelaxedLastHandle,
    /// The time of each sample takes the place of the one before it.
    OneTimeOnly,
}

/// Returns true if the running model makes this mistake.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn mutant(_: Mutant) -> bool {
    false
}

#[cfg(loom)]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

/// Returns true if the running model makes this mistake.
#[cfg(loom)]
pub fn mutant(m: Mutant) -> bool {
    ACTIVE.with(|a| a.get() == Some(m))
}

/// Makes the models on this thread contain a mistake. (loom runs all threads of a model on the
/// calling thread.)
#[cfg(loom)]
pub fn set_mutant(m: Option<Mutant>) {
    ACTIVE.with(|a| a.set(m));
}
