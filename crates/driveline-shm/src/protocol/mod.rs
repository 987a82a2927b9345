// SPDX-License-Identifier: Apache-2.0
//! Lock-free core, over atomics owned by its caller: mapped memory in the product, loom's in the
//! models.
//!
//! | module | side | state |
//! |---|---|---|
//! | [`pack`] | both | one word: sequence and slot |
//! | [`writer`] | publishing thread | which slots are free, published, retired |
//! | [`reader`] | consuming thread | pin, validate, choose |
//! | [`sleep`] | both | announce sleep, decide about waking |
//! | [`cursor`] | both | read position of a subscription, for which reliable publishers wait |
//! | [`kick`] | threads of one process | a word that ends a wait |
//! | [`newest_time`] | threads of one process | number and time of the newest sample |
//! | [`epoch`] | publishing and control thread of one process | the list of matches |
//!
//! Each value that a peer can write is read once, and its range is checked before it is used as an
//! index.

pub mod cursor;
pub mod epoch;
pub mod kick;
pub mod newest_time;
pub mod pack;
pub mod reader;
pub mod sleep;
pub mod writer;

use crate::sync::{AtomicU32, AtomicU64};

/// The words of a segment that the protocol works on. Written by the publisher only.
pub trait Segment {
    /// Newest sample, packed; 0 before the first.
    fn latest(&self) -> &AtomicU64;
    /// The sample with sequence `s` is at `ring(s % ring_len)`, packed.
    fn ring(&self, index: usize) -> &AtomicU64;
    /// Sequence of the sample in a slot; 0 while it is retired or being filled.
    fn seqw(&self, slot: usize) -> &AtomicU64;
    /// Number of slots.
    fn slots(&self) -> usize;
    /// Number of ring entries.
    fn ring_len(&self) -> usize;
    /// Begins to fetch header and payload of an existing slot, which are read as soon as the slot
    /// is pinned.
    fn prefetch(&self, _slot: usize) {}
}

/// The words of one match that the publisher looks at.
pub trait Match {
    /// Slot + 1 of each held sample, or 0. Written by the subscriber.
    fn pins(&self) -> &[AtomicU32];
    /// 0, or the sequence that the sleeping subscriber waits for. Written by the subscriber.
    fn armed(&self) -> &AtomicU64;
    /// Value of `armed` for which the publisher last woke the subscriber. Private to the publishing
    /// thread.
    fn woken(&self) -> &AtomicU64;
    /// Number of its trust group (the readers of one user), below 64. No two groups in one list
    /// have the same number.
    fn group(&self) -> usize;
    /// Sequence up to which the subscription reads no more samples: its cursor, or its first
    /// sequence − 1 if that is greater. At most `newest`; 0 while unknown.
    fn position(&self, newest: u64) -> u64;
}

impl<M: Match> Match for std::sync::Arc<M> {
    fn pins(&self) -> &[AtomicU32] {
        (**self).pins()
    }
    fn armed(&self) -> &AtomicU64 {
        (**self).armed()
    }
    fn woken(&self) -> &AtomicU64 {
        (**self).woken()
    }
    fn group(&self) -> usize {
        (**self).group()
    }
    fn position(&self, newest: u64) -> u64 {
        (**self).position(newest)
    }
}
