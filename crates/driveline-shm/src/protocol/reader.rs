// SPDX-License-Identifier: Apache-2.0
//! The consuming thread's side: choose a sample, pin it, check that the slot still holds it.

use super::Segment;
use super::pack::unpack;
use crate::fault;
use crate::limits::BORROW_TRIES;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, Mutant, fence, mutant};

/// Unread sample to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// The oldest that the history depth still covers.
    Next,
    /// The newest.
    Latest,
}

/// Outcome of an attempt to borrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Borrow {
    /// There is no unread sample.
    Nothing,
    /// Pinned by the given cell until `unpin`.
    Pinned {
        /// Sequence number.
        sequence: u64,
        /// Slot, checked to exist.
        slot: usize,
    },
    /// The publisher overtook every attempt; try again.
    Overrun,
    /// The sample is announced but missing, although the publisher publishes nothing meanwhile:
    /// skip up to this sequence.
    Vanished {
        /// Last sequence to skip.
        sequence: u64,
    },
    /// An impossible slot number: skip up to this sequence.
    BadSlot {
        /// Last sequence to skip.
        sequence: u64,
    },
}

/// Sequence and slot (unchecked) of the newest sample; `(0, _)` before the first.
#[inline]
pub fn newest<S: Segment>(segment: &S) -> (u64, usize) {
    // Read-only mappings permit no other ordering than Relaxed plus a fence.
    let word = segment.latest().load(Relaxed);
    // Pairs with the Release of latest: ring, seqw, header and payload of that sample are visible.
    fence(Acquire);
    unpack(word)
}

/// Pins `slot` and returns true if it still holds `sequence`; otherwise removes the pin.
#[inline]
pub fn pin<S: Segment>(segment: &S, cell: &AtomicU32, sequence: u64, slot: usize) -> bool {
    // Between the choice and the pin, the publisher may reuse the slot: hence the validation.
    fault::point("borrow.before_pin");
    // Release: a scan that sees this pin sees that all reads under the cell's earlier pins are
    // over.
    let order = if mutant(Mutant::RelaxedPin) { Relaxed } else { Release };
    cell.store(slot as u32 + 1, order);
    fault::point("borrow.after_pin");
    if !mutant(Mutant::NoBorrowFence) {
        // Pairs with the fence in Slots::publish (seqw = 0, fence, scan): either that scan sees the
        // pin, or the load below sees 0 (or a later sequence).
        fence(SeqCst);
    }
    if segment.seqw(slot).load(Relaxed) == sequence {
        // Pairs with the Release of seqw: header and payload of this very sequence are visible.
        fence(Acquire);
        fault::point("borrow.after_validate");
        true
    } else {
        unpin(cell);
        false
    }
}

/// Releases a pinned slot. Call it after the last read of header and payload.
#[inline]
pub fn unpin(cell: &AtomicU32) {
    fault::point("borrow.before_unpin");
    // Release pairs with the scan's Acquire: all reads are over before the slot is filled again.
    cell.store(0, Release);
}

/// Borrows the wanted sample among those with sequence ≥ `next`, of which at most the newest
/// `depth` count. Bounded; never waits.
#[inline]
pub fn borrow<S: Segment>(
    segment: &S,
    cell: &AtomicU32,
    want: Want,
    next: u64,
    depth: u64,
) -> Borrow {
    let mut last_newest = 0;
    let mut target = 0;
    let mut moved = false;
    for attempt in 0..BORROW_TRIES {
        let (newest, newest_slot) = newest(segment);
        if newest < next {
            return Borrow::Nothing;
        }
        moved |= attempt > 0 && newest != last_newest;
        last_newest = newest;
        target = match want {
            Want::Latest => newest,
            Want::Next => next.max((newest + 1).saturating_sub(depth)),
        };
        let slot = if target == newest {
            newest_slot
        } else {
            let word = segment.ring((target % segment.ring_len() as u64) as usize).load(Relaxed);
            // Pairs with the Release of the ring entry.
            fence(Acquire);
            let (sequence, slot) = unpack(word);
            if sequence != target {
                continue;
            }
            slot
        };
        if slot >= segment.slots() {
            return Borrow::BadSlot { sequence: target };
        }
        segment.prefetch(slot);
        if pin(segment, cell, target, slot) {
            return Borrow::Pinned { sequence: target, slot };
        }
    }
    if moved { Borrow::Overrun } else { Borrow::Vanished { sequence: target } }
}
