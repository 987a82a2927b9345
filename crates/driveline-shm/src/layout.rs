// SPDX-License-Identifier: Apache-2.0
//! Offsets within a segment and a subscription page. The numbers are part of the protocol:
//! `docs/protocols/shm.md`.

use crate::limits::{MAX_HELD, MAX_PAYLOAD, MAX_SLOTS, OBSERVER_PINS};
use crate::protocol::writer::slots_needed;
use driveline_types::header::HEADER_WORDS;
use serde::{Deserialize, Serialize};

/// Length of a cache line, in bytes.
pub(crate) const CACHE_LINE: usize = 64;

/// First word of every segment.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"DRVLNSEG");
/// Newest version of segment, page and messages that this release speaks.
pub(crate) const PROTOCOL_VERSION: u16 = 1;
/// Oldest version that this release speaks. A release that no longer serves readers of a version,
/// in memory or messages, raises it.
pub(crate) const OLDEST_PROTOCOL_VERSION: u16 = 1;

pub(crate) const MAGIC_AT: usize = 0;
pub(crate) const VERSION_AT: usize = 8;
pub(crate) const LATEST_AT: usize = 64;
/// In the cache line of `latest`: both are written together, so one transfer of the line carries
/// both to a reader.
pub(crate) const HEARTBEAT_AT: usize = 72;
pub(crate) const MAX_INTERVAL_AT: usize = 80;
/// Non-zero while the publisher waits for reliable subscriptions.
pub(crate) const WAITING_AT: usize = 128;
/// Gateway's report on a remote publisher. In the cache line of `waiting`, on which no reader
/// spins.
pub(crate) const AFAR_PUBLISHER_AT: usize = 144;
pub(crate) const AFAR_BEFORE_AT: usize = 152;
pub(crate) const AFAR_COUNT_AT: usize = 160;
pub(crate) const RING_AT: usize = 192;

/// Bytes of a slot's header.
pub(crate) const META_LEN: usize = HEADER_WORDS * 8;
/// The header word that holds the sequence; 0 while the slot is retired or being filled.
pub(crate) const SEQUENCE_WORD: usize = 1;

/// Bytes of a wake word's memory.
pub(crate) const WAKE_LEN: usize = 4096;
/// Bytes of a subscription page.
pub(crate) const PAGE_LEN: usize = 4096;
pub(crate) const ARMED_AT: usize = 0;
pub(crate) const CURSOR_AT: usize = 8;
pub(crate) const PINS_AT: usize = 16;
/// Offset of `armed` if both ends set `armed_apart`: in a cache line with no other writes.
pub(crate) const ARMED_APART_AT: usize = 4032;

const _: () = {
    assert!(OLDEST_PROTOCOL_VERSION >= 1 && OLDEST_PROTOCOL_VERSION <= PROTOCOL_VERSION);
    assert!(
        LATEST_AT.is_multiple_of(64)
            && HEARTBEAT_AT == LATEST_AT + 8
            && MAX_INTERVAL_AT == HEARTBEAT_AT + 8
    );
    assert!(
        VERSION_AT + 8 <= LATEST_AT
            && MAX_INTERVAL_AT + 8 <= WAITING_AT
            && WAITING_AT + 8 <= AFAR_PUBLISHER_AT
    );
    assert!(
        AFAR_BEFORE_AT == AFAR_PUBLISHER_AT + 8
            && AFAR_COUNT_AT == AFAR_BEFORE_AT + 8
            && AFAR_COUNT_AT + 8 <= RING_AT
    );
    assert!(
        RING_AT.is_multiple_of(64) && META_LEN.is_multiple_of(64) && SEQUENCE_WORD < HEADER_WORDS
    );
    assert!(
        PINS_AT + MAX_HELD as usize * 4 <= ARMED_APART_AT
            && ARMED_APART_AT.is_multiple_of(64)
            && ARMED_APART_AT + 64 <= PAGE_LEN
    );
    assert!(CURSOR_AT == ARMED_AT + 8 && PINS_AT == CURSOR_AT + 8);
};

/// Slots in addition to the number that the protocol needs: a reserve, at the cost of one payload.
const SPARE_SLOTS: usize = 1;

/// Bytes of shared memory that a publisher reserves at host reach for a declared depth, loans and
/// pins; 0 if these numbers are not possible. Touches nothing.
#[must_use]
pub fn reserved_bytes(depth: u32, loans: u32, pins: u32, max_payload: u64) -> u64 {
    let pins = pins.saturating_add(OBSERVER_PINS) as usize;
    let layout = usize::try_from(max_payload)
        .map_err(|e| e.to_string())
        .and_then(|max| Layout::new(depth as usize, loans as usize, pins, max));
    layout.map_or(0, |l| l.len() as u64)
}

/// The numbers that determine every offset. Sent to each subscription, which checks them before
/// use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Layout {
    /// Number of slots.
    pub(crate) slots: u32,
    /// Number of ring entries: one more than the samples that stay published.
    pub(crate) ring_len: u32,
    /// Largest payload in bytes.
    pub(crate) max_payload: u64,
}

impl Layout {
    /// Returns the layout for a publisher with this declared depth and these loans and pins (the
    /// observers' pins included).
    pub(crate) fn new(
        depth: usize,
        loans: usize,
        pins: usize,
        max_payload: usize,
    ) -> Result<Self, String> {
        let kept = kept(depth);
        let slots = slots_needed(kept, loans, pins) + SPARE_SLOTS;
        let layout = Self {
            slots: u32::try_from(slots).unwrap_or(u32::MAX),
            ring_len: u32::try_from(kept + 1).unwrap_or(u32::MAX),
            max_payload: max_payload as u64,
        };
        layout.check()?;
        Ok(layout)
    }

    /// Checks that all offsets can be computed without overflow. Must hold before any other method
    /// is called.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.slots == 0 || self.slots as usize > MAX_SLOTS {
            return Err(format!(
                "{} slots are not between 1 and {MAX_SLOTS}; lower pins, loans or depth",
                self.slots
            ));
        }
        if self.ring_len < 2 || self.ring_len as usize > MAX_SLOTS {
            return Err(format!(
                "a ring of {} entries is not between 2 and {MAX_SLOTS}; lower depth",
                self.ring_len
            ));
        }
        if self.max_payload > MAX_PAYLOAD as u64 {
            return Err(format!(
                "a payload of {} bytes is longer than {MAX_PAYLOAD}; lower max_payload",
                self.max_payload
            ));
        }
        Ok(())
    }

    /// Distance between two payloads in bytes: whole pages from a payload of 4096 bytes, else whole
    /// cache lines.
    pub(crate) fn stride(&self) -> usize {
        let len = (self.max_payload as usize).max(1);
        if len >= 4096 { len.next_multiple_of(4096) } else { len.next_multiple_of(64) }
    }

    pub(crate) fn ring_at(index: usize) -> usize {
        RING_AT + index * 8
    }

    fn metas_at(&self) -> usize {
        (RING_AT + self.ring_len as usize * 8).next_multiple_of(64)
    }

    pub(crate) fn meta_at(&self, slot: usize) -> usize {
        self.metas_at() + slot * META_LEN
    }

    fn payloads_at(&self) -> usize {
        self.meta_at(self.slots as usize).next_multiple_of(4096)
    }

    pub(crate) fn payload_at(&self, slot: usize) -> usize {
        self.payloads_at() + slot * self.stride()
    }

    /// Length of the segment in bytes: whole pages.
    pub(crate) fn len(&self) -> usize {
        self.payload_at(self.slots as usize).next_multiple_of(4096)
    }

    /// Returns the positions of headers and payloads, computed once.
    pub(crate) fn places(&self) -> Places {
        Places {
            slots: self.slots as usize,
            metas: self.metas_at(),
            payloads: self.payloads_at(),
            stride: self.stride(),
        }
    }
}

/// Returns the number of samples that stay published. At least two: a reader that has just read
/// `latest` then has a whole publish interval to pin it.
pub(crate) fn kept(depth: usize) -> usize {
    depth.max(2)
}

/// Offset of the word in which a subscription announces its sleep.
pub(crate) fn armed_at(apart: bool) -> usize {
    if apart { ARMED_APART_AT } else { ARMED_AT }
}

/// Values from which the data path computes the offset of a header or payload with one
/// multiplication.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places {
    slots: usize,
    metas: usize,
    payloads: usize,
    stride: usize,
}

impl Places {
    #[inline]
    fn check(&self, slot: usize) {
        assert!(slot < self.slots, "no such slot");
    }

    /// Offset of an existing slot's header.
    #[inline]
    pub(crate) fn meta_at(&self, slot: usize) -> usize {
        self.check(slot);
        self.metas + slot * META_LEN
    }

    /// Offset of an existing slot's payload.
    #[inline]
    pub(crate) fn payload_at(&self, slot: usize) -> usize {
        self.check(slot);
        self.payloads + slot * self.stride
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_numbers_are_refused_by_name() {
        assert!(Layout::new(1, 1, 70_000, 1).unwrap_err().contains("slots"));
        assert!(Layout::new(1, 1, 1, MAX_PAYLOAD + 1).unwrap_err().contains("payload"));
        assert!(
            Layout { slots: 3, ring_len: 0, max_payload: 0 }.check().unwrap_err().contains("ring")
        );
    }

    proptest! {
        #[test]
        fn regions_never_overlap(slots: u32, ring_len: u32, max_payload: u64) {
            let l = Layout {
                slots: slots % 70_000,
                ring_len: ring_len % 70_000,
                max_payload: max_payload >> (max_payload % 64),
            };
            if l.check().is_ok() {
                let n = l.slots as usize;
                prop_assert!(Layout::ring_at(l.ring_len as usize) <= l.meta_at(0));
                prop_assert!(l.meta_at(n) <= l.payload_at(0));
                prop_assert!(l.payload_at(n - 1) + l.max_payload as usize <= l.len());
                let places = l.places();
                prop_assert_eq!(places.meta_at(n - 1), l.meta_at(n - 1));
                prop_assert_eq!(places.payload_at(n - 1), l.payload_at(n - 1));
                prop_assert_eq!(l.payload_at(0) % 4096, 0);
                prop_assert_eq!(l.payload_at(n - 1) % 64, 0);
                prop_assert!(l.stride() as u64 >= l.max_payload);
                prop_assert_eq!(l.len() % 4096, 0);
            }
        }
    }
}
