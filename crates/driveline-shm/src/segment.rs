// SPDX-License-Identifier: Apache-2.0
//! A segment's words and payloads, from either side.
#![allow(unsafe_code, reason = "payloads lie in a mapping")]

use crate::afar_count::AfarCount;
use crate::layout::{
    AFAR_BEFORE_AT, AFAR_COUNT_AT, AFAR_PUBLISHER_AT, CACHE_LINE, HEARTBEAT_AT, LATEST_AT, Layout,
    MAGIC, MAGIC_AT, MAX_INTERVAL_AT, META_LEN, PROTOCOL_VERSION, Places, SEQUENCE_WORD,
    VERSION_AT, WAITING_AT,
};
use crate::protocol;
use crate::protocol::pack::{pack, unpack};
use crate::sys::admission::admit_at_once;
use crate::sys::blocking_tasks::Foreign;
use crate::sys::fork::GuardedFd;
use crate::sys::mapping::Mapping;
use crate::sys::memfd;
use driveline_types::header::{HEADER_WORDS, HeaderError, SampleHeader};
use std::io;
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence,
};

/// A mapped segment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) map: Mapping,
    pub(crate) layout: Layout,
    places: Places,
}

impl Segment {
    /// Makes, reserves and prefaults a segment; the layout must have been checked.
    pub(crate) fn create(name: &str, layout: Layout) -> io::Result<(GuardedFd, Self)> {
        let (fd, map) = memfd::create(name, layout.len())?;
        map.word(VERSION_AT).store(u64::from(PROTOCOL_VERSION), Relaxed);
        map.word(MAGIC_AT).store(MAGIC, Relaxed);
        Ok((fd, Self { map, layout, places: layout.places() }))
    }

    /// Maps a publisher's segment, and trusts nothing in it.
    pub(crate) fn open(fd: &mut Foreign, layout: Layout) -> io::Result<Self> {
        let bad = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
        layout.check().map_err(bad)?;
        let map = memfd::open(fd, layout.len())?;
        let (magic, version) =
            (map.word(MAGIC_AT).load(Relaxed), map.word(VERSION_AT).load(Relaxed));
        if magic != MAGIC || version != u64::from(PROTOCOL_VERSION) {
            return Err(bad(format!(
                "the memory is not a segment of version {PROTOCOL_VERSION} (magic {magic:#x}, \
                 version {version})"
            )));
        }
        Ok(Self { map, layout, places: layout.places() })
    }

    /// Copies the `count` newest samples of an ended publisher, up to `newest`, into a new segment.
    /// A sample is left out if its ring entry does not lead to a slot that holds it, if its header
    /// is not valid, or if its payload is too long. Readers find it missing in the copy.
    pub(crate) fn copy_of_newest(&self, newest: u64, count: u64) -> io::Result<Self> {
        use protocol::Segment as _;
        let mut samples = Vec::new();
        for sequence in (newest + 1).saturating_sub(count)..=newest {
            let word = self.ring((sequence % self.ring_len() as u64) as usize).load(Relaxed);
            // Pairs with the Release of the ring entry.
            fence(Acquire);
            let (found, slot) = unpack(word);
            let mut header = SampleHeader::default();
            let whole = found == sequence
                && slot < self.slots()
                && self.seqw(slot).load(Relaxed) == sequence
                && self.read_header(slot, sequence, &mut header).is_ok()
                && header.payload_len <= self.layout.max_payload;
            samples.push((sequence, whole.then_some((slot, header))));
        }
        let longest =
            samples.iter().filter_map(|(_, s)| s.as_ref()).map(|(_, h)| h.payload_len).max();
        let slots = u32::try_from(samples.len().max(1)).unwrap_or(u32::MAX);
        let layout = Layout { slots, max_payload: longest.unwrap_or(0), ..self.layout };
        layout.check().map_err(|text| io::Error::new(io::ErrorKind::InvalidData, text))?;
        // This runs on the control thread, which does not wait.
        let admission = admit_at_once(layout.len() as u64).map_err(io::Error::other)?;
        let (_fd, copy) = Self::create("driveline-left", layout)?;
        drop(admission);
        for (to, (sequence, found)) in (0u16..).zip(&samples) {
            let slot = usize::from(to);
            if let Some((from, header)) = found {
                let len = header.payload_len as usize;
                // SAFETY: the publisher has ended, so nothing honest writes to its payloads any
                // more; both ranges are checked.
                let payload = unsafe { self.map.bytes(self.payload_at(*from), len) };
                // SAFETY: the copy is this function's alone, and nothing else refers to its
                // payloads.
                unsafe { copy.map.bytes_mut(copy.payload_at(slot), len) }.copy_from_slice(payload);
                copy.write_header(slot, *sequence, header);
                copy.seqw(slot).store(*sequence, Release);
            }
            let index = (*sequence % copy.ring_len() as u64) as usize;
            copy.ring(index).store(pack(*sequence, to), Release);
            copy.latest().store(pack(*sequence, to), Release);
        }
        if let Some(said) = AfarCount::read(self) {
            said.write(&copy);
        }
        Ok(copy)
    }

    pub(crate) fn heartbeat(&self) -> &AtomicU64 {
        self.map.word(HEARTBEAT_AT)
    }

    pub(crate) fn max_interval(&self) -> &AtomicU64 {
        self.map.word(MAX_INTERVAL_AT)
    }

    /// Non-zero while the publisher waits for reliable subscriptions.
    pub(crate) fn waiting(&self) -> &AtomicU32 {
        self.map.half_word(WAITING_AT)
    }

    /// Publisher of another host whose samples a gateway publishes here; 0: not reported.
    pub(crate) fn afar_publisher(&self) -> &AtomicU64 {
        self.map.word(AFAR_PUBLISHER_AT)
    }

    /// Number of that publisher's last sample before the first one that counts here, plus one; 0:
    /// unknown.
    pub(crate) fn afar_before(&self) -> &AtomicU64 {
        self.map.word(AFAR_BEFORE_AT)
    }

    /// Packed `missing:48 | state:16`; 0: not reported.
    pub(crate) fn afar_count(&self) -> &AtomicU64 {
        self.map.word(AFAR_COUNT_AT)
    }

    /// The header words of an existing slot.
    pub(crate) fn meta(&self, slot: usize) -> &[AtomicU64] {
        self.map.words(self.places.meta_at(slot), HEADER_WORDS)
    }

    /// Offset of an existing slot's payload.
    pub(crate) fn payload_at(&self, slot: usize) -> usize {
        self.places.payload_at(slot)
    }

    /// Writes the header of this segment's sample number `sequence`, except the sequence word: the
    /// protocol stores it to make the sample valid.
    pub(crate) fn write_header(&self, slot: usize, sequence: u64, header: &SampleHeader) {
        let meta = self.meta(slot);
        header.write(sequence, |i, word| {
            if i != SEQUENCE_WORD {
                // Relaxed: made visible by the Release of the sequence.
                meta[i].store(word, Relaxed);
            }
        });
    }

    /// Reads the header of a pinned slot into `header`, each word once; `sequence` was read by the
    /// protocol.
    pub(crate) fn read_header(
        &self,
        slot: usize,
        sequence: u64,
        header: &mut SampleHeader,
    ) -> Result<(), HeaderError> {
        let meta = self.meta(slot);
        header.read(|i| if i == SEQUENCE_WORD { sequence } else { meta[i].load(Relaxed) })
    }

    /// Unchecked publish time in a slot, for choosing among publishers and for deadlines.
    pub(crate) fn peek_publish_time(&self, slot: usize) -> u64 {
        self.meta(slot)[2].load(Relaxed)
    }

    /// Begins to fetch the parts of a slot that are written before the publish: its header (two
    /// cache lines if it has one origin) and the beginning of its payload. Until then they are in
    /// the readers' caches.
    #[inline]
    pub(crate) fn prefetch_to_fill(&self, slot: usize) {
        let meta = self.places.meta_at(slot);
        self.map.prefetch_to_write(meta);
        self.map.prefetch_to_write(meta + CACHE_LINE);
        self.map.prefetch_to_write(self.places.payload_at(slot));
    }
}

impl protocol::Segment for Segment {
    #[inline]
    fn latest(&self) -> &AtomicU64 {
        self.map.word(LATEST_AT)
    }
    #[inline]
    fn ring(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.layout.ring_len as usize, "no such ring entry");
        self.map.word(Layout::ring_at(index))
    }
    #[inline]
    fn seqw(&self, slot: usize) -> &AtomicU64 {
        self.map.word(self.places.meta_at(slot) + SEQUENCE_WORD * 8)
    }
    #[inline]
    fn slots(&self) -> usize {
        self.layout.slots as usize
    }
    #[inline]
    fn ring_len(&self) -> usize {
        self.layout.ring_len as usize
    }
    #[inline]
    fn prefetch(&self, slot: usize) {
        let meta = self.places.meta_at(slot);
        self.map.prefetch(meta);
        self.map.prefetch(meta + CACHE_LINE);
        // The thread that takes a sample reads it next.
        self.map.prefetch(self.places.payload_at(slot));
    }
}

const _: () = assert!(META_LEN == HEADER_WORDS * 8);

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::{MAX_ORIGINS, MonotonicNs, Origin, TopicId};

    #[test]
    fn headers_survive_the_segment_with_only_the_words_in_use_copied() {
        let layout = Layout::new(1, 1, 1, 100).unwrap();
        let (fd, own) = Segment::create("driveline-test", layout).unwrap();
        let peer = Segment::open(&mut Foreign::copy_of(&fd), layout).unwrap();
        for origins in [0, 1, MAX_ORIGINS] {
            let mut h = SampleHeader {
                sequence: 9,
                publish_time: MonotonicNs(5),
                payload_len: 3,
                trace_id: 8,
                ..Default::default()
            };
            for i in 0..origins {
                h.origins.merge(Origin {
                    topic: TopicId(i as u64 + 1),
                    computation_ns: 77,
                    ..Default::default()
                });
            }
            own.write_header(1, 9, &h);
            let mut read = SampleHeader::default();
            peer.read_header(1, 9, &mut read).unwrap();
            assert_eq!(read, h);
        }
        own.meta(1)[0].store(u64::MAX, Relaxed);
        assert!(peer.read_header(1, 9, &mut SampleHeader::default()).is_err());
    }

    #[test]
    fn memory_that_is_no_segment_is_refused() {
        let layout = Layout::new(1, 1, 1, 100).unwrap();
        let (fd, own) = Segment::create("driveline-test", layout).unwrap();
        assert!(
            Segment::open(&mut Foreign::copy_of(&fd), Layout { slots: 70_000, ..layout }).is_err()
        );
        assert!(
            Segment::open(&mut Foreign::copy_of(&fd), Layout { slots: 60_000, ..layout }).is_err()
        );
        own.map.word(MAGIC_AT).store(0, Relaxed);
        assert!(
            Segment::open(&mut Foreign::copy_of(&fd), layout)
                .unwrap_err()
                .to_string()
                .contains("magic")
        );
    }
}
