// SPDX-License-Identifier: Apache-2.0
//! The publishing thread's side: states of slots, and the passes that free them. A *pass* reads all
//! pin cells and frees the retired slots that no cell pins.
//!
//! A slot is, in this order: free → loaned → published → retired → free. Only the publishing thread
//! moves it (a loan that is dropped elsewhere comes back through a bitmap that this thread
//! collects). A sample is retired when newer ones have replaced it, or earlier, when all
//! subscriptions have read it (`withdraw`). With `kept + loans + pins` slots, the free list cannot
//! be empty while a loan is permitted: `kept` are published, at most `loans - 1` others are loaned,
//! and a pass leaves at most one slot retired per pin cell, because it reads each cell exactly
//! once. A publish that leaves `loans` slots free needs no pass.

use super::epoch::Scans;
use super::pack::pack;
use super::sleep::must_wake;
use super::{Match, Segment};
use crate::fault;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{Mutant, fence, mutant};

/// Minimum number of slots with which publishing never waits.
#[must_use]
pub fn slots_needed(kept: usize, loans: usize, pins: usize) -> usize {
    kept + loans + pins - usize::from(mutant(Mutant::OneSlotFewer))
}

/// Bytes of retired slots' payloads that may wait in the caches: a part of one processor core's
/// private cache.
pub const WARM: usize = 256 * 1024;

/// The publishing thread's private record of the slots.
#[derive(Debug)]
pub struct Slots {
    /// Last in, first out: the slot whose cache lines are warmest is used next.
    free: Vec<u16>,
    retired: Vec<u16>,
    /// Slots of the `kept` newest samples, by sequence.
    published: Box<[Option<u16>]>,
    /// Scratch: one bit per slot seen pinned in the running pass.
    pinned: Box<[u64]>,
    sequence: u64,
    /// `sequence % ring_len` and `sequence % published.len()`, kept to avoid divisions.
    ring_at: usize,
    published_at: usize,
    /// Maximum number of loans. A publish makes a pass if fewer slots than this are free.
    loans: usize,
    /// See [`Slots::set_weight`].
    weight: usize,
}

/// Wakes sleeping subscriptions.
pub trait Wakers<M> {
    /// Called when the sample is published. Words in the cache line of `latest` are written here,
    /// not before: a reader that spins on `latest` takes the line away after the first store, so
    /// each store before that of `latest` would cost one more transfer of the line.
    fn announced(&mut self) {}
    /// Sets the wake word of a match's group to the sequence, and wakes the threads that sleep on
    /// it.
    fn wake(&mut self, m: &M, sequence: u64);
}

impl Slots {
    /// Creates the record with all `slots` free. The newest `kept` samples stay published; at most
    /// `loans` slots are lent at a time.
    #[must_use]
    pub fn new(slots: u16, kept: usize, loans: usize) -> Self {
        Self {
            free: (0..slots).rev().collect(),
            retired: Vec::with_capacity(usize::from(slots)),
            published: vec![None; kept].into_boxed_slice(),
            pinned: vec![0; usize::from(slots).div_ceil(64)].into_boxed_slice(),
            sequence: 0,
            ring_at: 0,
            published_at: 0,
            loans,
            weight: usize::MAX,
        }
    }

    /// Sets the sequence number alone, for tests of a single publish after `sequence`.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn go_on_after(&mut self, sequence: u64) {
        self.sequence = sequence;
    }

    /// Sets the number of cache bytes that each retired slot occupies until a pass frees it.
    /// Publishing makes no pass while the retired slots together occupy at most [`WARM`] and enough
    /// other slots are free. The cache line of the pins is then read rarely, and mostly stays with
    /// its reader. Without this call, each publish with a retired slot makes a pass.
    pub fn set_weight(&mut self, bytes: usize) {
        self.weight = bytes;
    }

    /// Returns true if this publish makes a pass, which frees retired slots without a pin.
    #[inline]
    fn is_pass(&self) -> bool {
        let short = self.free.len() < self.loans && !mutant(Mutant::PatienceWithoutEnd);
        short || self.retired.len().saturating_mul(self.weight) > WARM
    }

    /// Sequence of the newest published sample.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Returns a free slot to fill.
    pub fn pop_free(&mut self) -> Option<u16> {
        self.free.pop()
    }

    /// Gives back a slot that was popped and not published. No other process has seen its content.
    pub fn push_free(&mut self, slot: u16) {
        self.free.push(slot);
    }

    /// Withdraws published samples that no subscription can read any more: each matched one has
    /// read them, or begins after them. Slots without a pin are free at once; the newest is used
    /// first, because its memory is in the caches. Bounded by the number of matches and pin cells;
    /// never waits.
    ///
    /// Not for publishers that must keep samples for late subscriptions.
    ///
    /// The subscriptions' cursors decide which samples are withdrawn, but not which slots are
    /// filled: as in [`publish`](Self::publish), that rests on `seqw`, fence and scan. A
    /// subscription with a wrong cursor loses samples, and reads no torn one.
    pub fn withdraw<S: Segment, M: Match>(&mut self, segment: &S, matches: &mut Scans<Vec<M>>) {
        if self.retired.is_empty() && self.published.iter().all(Option::is_none) {
            return;
        }
        let scan = matches.enter();
        if !mutant(Mutant::NoWithdrawListFence) {
            // Pairs with the fence in epoch::Changes::replace (list, fence, scans): the list is not
            // freed during this scan. A subscription that enters the list later begins after the
            // samples published until now: each of these publishes had a fence, so the subscription
            // reads a `latest` that is at least as new.
            fence(SeqCst);
        }
        let list = scan.load();
        let newest = self.sequence;
        let mut read_by_all = newest;
        for m in list {
            read_by_all = read_by_all.min(m.position(newest));
        }
        if mutant(Mutant::WithdrawUnread) {
            read_by_all = newest;
        }
        let kept = self.published.len() as u64;
        // Oldest first: the newest then lies on top of the free ones.
        for sequence in (newest + 1).saturating_sub(kept).max(1)..=read_by_all {
            if let Some(slot) = self.published[(sequence % kept) as usize].take() {
                // Relaxed as in `publish`.
                segment.seqw(usize::from(slot)).store(0, Relaxed);
                self.retired.push(slot);
            }
        }
        fault::point("loan.after_withdraw");
        if self.retired.is_empty() {
            return;
        }
        if !mutant(Mutant::NoWithdrawFence) {
            // Pairs with the fence in reader::pin (pin, fence, seqw), as in `publish`.
            fence(SeqCst);
        }
        self.pinned.fill(0);
        for m in list {
            mark_pinned(&mut self.pinned, m);
        }
        self.free_unpinned();
    }

    /// Frees the retired slots that the pass has not seen pinned.
    #[inline]
    fn free_unpinned(&mut self) {
        let (pinned, free) = (&self.pinned, &mut self.free);
        self.retired.retain(|&slot| {
            let held = pinned[usize::from(slot) / 64] >> (slot % 64) & 1 == 1;
            if !held {
                free.push(slot);
            }
            held
        });
    }

    /// Publishes a filled slot as the next sequence, retires the oldest, frees slots without a pin
    /// if slots run short or the retired ones occupy more than [`WARM`] bytes, and wakes sleepers.
    /// Bounded by the number of matches and pin cells; never waits.
    pub fn publish<S: Segment, M: Match, W: Wakers<M>>(
        &mut self,
        segment: &S,
        matches: &mut Scans<Vec<M>>,
        wakers: &mut W,
        slot: u16,
    ) -> u64 {
        self.sequence += 1;
        let sequence = self.sequence;
        self.ring_at = next_of(self.ring_at, segment.ring_len());
        self.published_at = next_of(self.published_at, self.published.len());
        fault::point("publish.filled");
        // Release: a reader that loads this sequence (reader::pin) sees payload and header.
        segment.seqw(usize::from(slot)).store(sequence, Release);
        fault::point("publish.after_seqw");
        let packed = pack(sequence, slot);
        segment.ring(self.ring_at).store(packed, Release);
        fault::point("publish.after_ring");
        // Release: a reader that loads it (reader::newest) sees seqw and ring.
        segment.latest().store(packed, Release);
        wakers.announced();
        fault::point("publish.after_latest");

        // The oldest is retired only now. If the process dies before, one complete sample too many
        // remains, never one too few.
        if let Some(old) = self.published[self.published_at].replace(slot) {
            // Relaxed: ordered by the fence below against the borrow's fence; a borrow sees 0 or is
            // seen pinning.
            segment.seqw(usize::from(old)).store(0, Relaxed);
            self.retired.push(old);
        }
        fault::point("publish.after_retire");

        let scan = matches.enter();
        let early = if mutant(Mutant::ListBeforeFence) { Some(scan.load()) } else { None };
        if !mutant(Mutant::NoWriterFence) {
            // Pairs with the fences in reader::pin (pin, fence, seqw), sleep::arm (armed, fence,
            // latest) and epoch::Changes::replace (list, fence, scans): of two such store-then-load
            // pairs, one sees the other.
            fence(SeqCst);
        }
        fault::point("publish.after_fence");
        let list = early.unwrap_or_else(|| scan.load());
        let pass = self.is_pass();
        if pass {
            self.pinned.fill(0);
        }
        let mut groups: u64 = 0;
        for m in list {
            if pass {
                mark_pinned(&mut self.pinned, m);
            }
            if must_wake(m, sequence) {
                groups |= 1 << (m.group() % 64);
            }
        }
        fault::point("publish.after_scan");
        if pass {
            self.free_unpinned();
        }
        // Still within the scan: a group lives as long as its matches do.
        for m in list {
            if groups == 0 {
                break;
            }
            let group = 1 << (m.group() % 64);
            if groups & group != 0 {
                groups &= !group;
                wakers.wake(m, sequence);
                fault::point("publish.after_wake");
            }
        }
        drop(scan);
        sequence
    }
}

/// Returns the position after `place` in a ring of `count` positions.
#[inline]
fn next_of(place: usize, count: usize) -> usize {
    if place + 1 >= count { 0 } else { place + 1 }
}

/// Sets a bit for each slot that a match pins.
#[inline]
fn mark_pinned<M: Match>(pinned: &mut [u64], m: &M) {
    for pin in m.pins() {
        // One load per cell and pass: so a cell excludes at most one slot. Read-only mappings
        // permit no other ordering than Relaxed plus a fence.
        let slot = pin.load(Relaxed).wrapping_sub(1) as usize;
        if let Some(word) = pinned.get_mut(slot / 64) {
            *word |= 1 << (slot % 64);
        }
    }
    if !mutant(Mutant::RelaxedScan) {
        // Pairs with the Release of pin and unpin: what the reader read from an earlier slot of a
        // cell is over before that slot is filled again.
        fence(Acquire);
    }
}
