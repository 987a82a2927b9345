// SPDX-License-Identifier: Apache-2.0
//! Reading position of a subscription, and the wait of a reliable publisher for it.
//!
//! The publisher announces that it waits, fences, and reads the cursors. The subscriber moves its
//! cursor, fences, and checks for a waiting publisher. One of the two sees the other. The publisher
//! sleeps on the cursor itself, compared with the value it has read: either the cursor moves before
//! the sleep, or the subscriber wakes the publisher.

use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, Mutant, fence, mutant};

/// Announces that the publisher is about to check the cursors and to sleep. Then call [`settle`],
/// then [`position`] for each match.
#[inline]
pub fn begin_waiting(waiting: &AtomicU32) {
    waiting.store(1, Relaxed);
}

/// Fence between the announcement of a wait and the reading of the cursors. It is also the fence
/// that a scan needs before it loads its list.
#[inline]
pub fn settle() {
    if !mutant(Mutant::NoWaitingFence) {
        // Pairs with the fence in `advance` (cursor, fence, waiting).
        fence(SeqCst);
    }
}

/// Position up to which a subscription claims to have read.
#[inline]
pub fn position(cursor: &AtomicU64) -> u64 {
    // Read-only mappings permit no other ordering than Relaxed plus a fence.
    let position = cursor.load(Relaxed);
    // Pairs with the Release of `store` and `advance`: the subscription's pins on samples up to
    // this position are visible.
    fence(Acquire);
    position
}

/// Stores that a subscription has read up to `sequence`. The samples that it still holds must be
/// pinned already. Only for a subscription that no publisher waits for.
#[inline]
pub fn store(cursor: &AtomicU64, sequence: u64) {
    cursor.store(sequence, Release);
}

/// Notes that the publisher does not wait any more.
#[inline]
pub fn end_waiting(waiting: &AtomicU32) {
    waiting.store(0, Relaxed);
}

/// Moves the reading position to `sequence`. Returns true if the publisher may sleep on the cursor
/// and must be woken.
#[inline]
pub fn advance(cursor: &AtomicU64, waiting: &AtomicU32, sequence: u64) -> bool {
    cursor.store(sequence, Release);
    if !mutant(Mutant::NoCursorFence) {
        // Pairs with the fence in `settle` (waiting, fence, cursor).
        fence(SeqCst);
    }
    waiting.load(Relaxed) != 0
}
