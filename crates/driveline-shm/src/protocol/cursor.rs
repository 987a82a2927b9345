// SPDX-License-Identifier: Apache-2.0
//! A publisher that waits for reliable subscriptions, and how they end its wait.
//!
//! The publisher says that it waits, fences, and looks at the cursors; the subscriber moves its cursor, fences, and looks
//! whether somebody waits. One of the two sees the other. What the publisher sleeps on is the cursor itself, compared with
//! the value that it looked at: it moves between the look and the sleep, or the subscriber wakes.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, Mutant, fence, mutant};

/// The publisher is about to look at the cursors and to sleep. Then [`settle`], then [`position`] of each.
#[inline]
pub fn begin_waiting(waiting: &AtomicU32) {
    waiting.store(1, Relaxed);
}

/// Between announcing to wait, or entering a scan, and looking.
#[inline]
pub fn settle() {
    if !mutant(Mutant::NoWaitingFence) {
        // Pairs with the fence in `advance` (cursor, fence, waiting).
        fence(SeqCst);
    }
}

/// How far a subscription has read, as it says.
#[inline]
pub fn position(cursor: &AtomicU64) -> u64 {
    // Acquire: nothing is read under it, but the wake-up protocol reads better with a pair for the Release.
    cursor.load(Acquire)
}

/// The publisher looks at cursors and sleeps no more.
#[inline]
pub fn end_waiting(waiting: &AtomicU32) {
    waiting.store(0, Relaxed);
}

/// The subscriber has read up to `sequence`. Whether the publisher may sleep on the cursor and must be woken.
#[inline]
pub fn advance(cursor: &AtomicU64, waiting: &AtomicU32, sequence: u64) -> bool {
    cursor.store(sequence, Release);
    if !mutant(Mutant::NoCursorFence) {
        // Pairs with the fence in `settle` (waiting, fence, cursor).
        fence(SeqCst);
    }
    waiting.load(Relaxed) != 0
}
