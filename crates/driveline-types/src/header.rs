// SPDX-License-Identifier: Apache-2.0
//! Header that travels with every sample, and its lineage.
//!
//! Layout, writers and rules: `docs/protocols/sample-header.md`. The header is [`HEADER_WORDS`]
//! little-endian 64-bit words. Version 1 is frozen: new facts go into the reserved words, never
//! into those in use.

use crate::id::TopicId;
use crate::time::{MonotonicNs, wall_offset_ns};
use thiserror::Error;

/// Version written by this library.
pub const HEADER_VERSION: u16 = 1;
/// Length of an encoded header in 64-bit words.
pub const HEADER_WORDS: usize = 64;
/// Maximum number of origins that one sample can name; more are counted in
/// [`SampleHeader::origins_dropped`].
pub const MAX_ORIGINS: usize = 8;

const ORIGIN_WORDS: usize = 6;
const FIRST_ORIGIN: usize = 8;
const FLAG_CHECKSUM: u64 = 1;
const FLAG_MORE_SEQUENCE: u64 = 2;
const FLAG_CLOCK_ERROR: u64 = 4;
const FLAG_REMOTE: u64 = 8;
const FLAG_SERVICE: u64 = 16;
const FLAG_REMOTE_PUBLISHER: u64 = 32;
const CLOCK_ERROR: usize = FIRST_ORIGIN + MAX_ORIGINS * ORIGIN_WORDS;
const REMOTE: usize = CLOCK_ERROR + 1;
const SERVICE: usize = REMOTE + 4;
const REMOTE_PUBLISHER: usize = SERVICE + 1;

/// A source that a sample descends from, with the parts of its age.
///
/// For the oldest source time: `publish_time - source_oldest = communication + computation + idle`.
/// A part may be negative in two cases: the data came from another host, whose clock is known only
/// within [`SampleHeader::clock_error_ns`], or a source time is in the future.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// The source topic.
    pub topic: TopicId,
    /// Source time of the oldest data that contributed, on the source host's `CLOCK_MONOTONIC`.
    pub source_oldest: MonotonicNs,
    /// Source time of the newest data that contributed.
    pub source_newest: MonotonicNs,
    /// Time from a publish to the start of the callback that it triggered, and time in conversions;
    /// in nanoseconds, summed over the hops.
    pub communication_ns: i64,
    /// Time from the start of a callback (at the source: from the source time) to the publish,
    /// without conversions; in nanoseconds, summed over the hops.
    pub computation_ns: i64,
    /// Time that data waited until a timer or another input caused it to be read; in nanoseconds,
    /// summed over the hops.
    pub idle_ns: i64,
}

impl Origin {
    /// Age of the oldest contribution at `now`, in nanoseconds; negative if its source time is in
    /// the future, for example because the clocks of two hosts disagree.
    #[must_use]
    pub fn age_ns(&self, now: MonotonicNs) -> i64 {
        now.signed_since(self.source_oldest)
    }
}

/// A bounded list of origins, at most one per source topic. No allocation.
#[derive(Clone, Copy, Default)]
pub struct Origins {
    list: [Origin; MAX_ORIGINS],
    len: u16,
    dropped: u32,
}

impl PartialEq for Origins {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice() && self.dropped == other.dropped
    }
}

impl Eq for Origins {}

impl std::fmt::Debug for Origins {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.as_slice()).finish()?;
        if self.dropped == 0 { Ok(()) } else { write!(f, " and {} more", self.dropped) }
    }
}

impl Origins {
    /// The origins, in the order in which they were first seen.
    #[must_use]
    pub fn as_slice(&self) -> &[Origin] {
        &self.list[..usize::from(self.len)]
    }

    /// Number of origins that did not fit. An origin that arrives several times is counted each
    /// time.
    #[must_use]
    pub fn dropped(&self) -> u32 {
        self.dropped
    }

    /// Merges one origin: widens the time span, and keeps the parts of the origin with the oldest
    /// source time.
    pub fn merge(&mut self, origin: Origin) {
        let used = usize::from(self.len);
        if let Some(have) = self.list[..used].iter_mut().find(|o| o.topic == origin.topic) {
            let newest = if origin.source_newest.signed() > have.source_newest.signed() {
                origin.source_newest
            } else {
                have.source_newest
            };
            if origin.source_oldest.signed() < have.source_oldest.signed() {
                *have = origin;
            }
            have.source_newest = newest;
        } else if let Some(free) = self.list.get_mut(used) {
            *free = origin;
            self.len += 1;
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    /// Sets the list to one origin: data of `topic`, measured at `source` and published at
    /// `publish_time`.
    pub fn begin(&mut self, topic: TopicId, source: MonotonicNs, publish_time: MonotonicNs) {
        let computation_ns = publish_time.signed_since(source);
        self.list[0] = Origin {
            topic,
            source_oldest: source,
            source_newest: source,
            computation_ns,
            ..Origin::default()
        };
        self.len = 1;
        self.dropped = 0;
    }

    /// Sets the list to these origins and the number of origins that did not fit. Origins that do
    /// not fit now are added to that number.
    pub fn set(&mut self, origins: impl IntoIterator<Item = Origin>, dropped: u32) {
        self.len = 0;
        self.dropped = dropped;
        for origin in origins {
            match self.list.get_mut(usize::from(self.len)) {
                Some(free) => {
                    *free = origin;
                    self.len += 1;
                }
                None => self.dropped = self.dropped.saturating_add(1),
            }
        }
    }

    /// Returns the origins for changes in place.
    pub fn as_mut_slice(&mut self) -> &mut [Origin] {
        &mut self.list[..usize::from(self.len)]
    }

    /// Copies another list; only used entries are copied.
    fn copy_from(&mut self, other: &Self) {
        let used = usize::from(other.len);
        self.list[..used].copy_from_slice(&other.list[..used]);
        self.len = other.len;
        self.dropped = other.dropped;
    }

    fn each(&mut self, mut f: impl FnMut(&mut Origin)) {
        for o in &mut self.list[..usize::from(self.len)] {
            f(o);
        }
    }
}

/// Path by which a sample arrived in a callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// Its publication started the callback. The time since its publish is communication.
    Triggered,
    /// It was available and was read. The time since its publish is idle.
    Read,
}

/// Origins consumed by a callback so far; its samples inherit them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lineage {
    origins: Origins,
    trace_id: u64,
    /// Maximum of the inherited values.
    clock_error_ns: u64,
    since: MonotonicNs,
    /// Part of the time since then that was spent in conversions, and end of the last conversion.
    converted_ns: u64,
    converted_until: MonotonicNs,
}

impl Lineage {
    /// A lineage with no ancestors, for a callback that starts at `start`.
    #[must_use]
    pub fn start(start: MonotonicNs) -> Self {
        Self { since: start, converted_until: start, ..Self::default() }
    }

    /// Adds a sample that triggered the callback or was read by it.
    ///
    /// The first sample with a trace id passes it on.
    pub fn inherit(&mut self, header: &SampleHeader, arrival: Arrival) {
        if self.trace_id == 0 {
            self.trace_id = header.trace_id;
        }
        self.clock_error_ns = self.clock_error_ns.max(header.clock_error_ns);
        // All arithmetic wraps. Parts may be negative, and a header may have any words; modulo 2^64
        // the sum is exact in all cases.
        let waited = self.since.signed_since(header.publish_time);
        let converted = self.converted_ns.cast_signed();
        for &origin in header.origins.as_slice() {
            let mut o = origin;
            match arrival {
                Arrival::Triggered => o.communication_ns = o.communication_ns.wrapping_add(waited),
                Arrival::Read if waited >= 0 => o.idle_ns = o.idle_ns.wrapping_add(waited),
                Arrival::Read => {
                    // It was published after this callback began. `stamp` will add the whole time
                    // of the callback, with all its conversions as communication. Corrected here:
                    // the time before this publication does not count, and the conversions until
                    // now did not concern this sample.
                    o.computation_ns =
                        o.computation_ns.wrapping_add(waited).wrapping_add(converted);
                    o.communication_ns = o.communication_ns.wrapping_sub(converted);
                }
            }
            self.origins.merge(o);
        }
        self.origins.dropped = self.origins.dropped.saturating_add(header.origins.dropped);
    }

    /// Notes that the callback decoded or encoded messages from `began` to `ended`, which counts as
    /// communication and not as computation.
    ///
    /// Returns the counted nanoseconds: none from before the start of the callback, and none twice.
    pub fn convert(&mut self, began: MonotonicNs, ended: MonotonicNs) -> u64 {
        let spent = ended.0.saturating_sub(began.max(self.converted_until).0);
        self.converted_ns = self.converted_ns.saturating_add(spent);
        self.converted_until = self.converted_until.max(ended);
        spent
    }

    /// Sets the origins and the trace id of a sample of `topic` that is published at
    /// `header.publish_time`.
    ///
    /// Without ancestors, the sample is an origin itself. Its source time is the given one, or else
    /// its publish time. Works in place, because a list of origins is long and mostly empty.
    pub fn stamp(
        &self,
        header: &mut SampleHeader,
        topic: TopicId,
        source_time: Option<MonotonicNs>,
        fresh_trace: u64,
    ) {
        header.trace_id = if self.trace_id == 0 { fresh_trace } else { self.trace_id };
        header.clock_error_ns = self.clock_error_ns;
        if self.has_ancestors() {
            let (computing, converted) =
                (header.publish_time.signed_since(self.since), self.converted_ns.cast_signed());
            header.origins.copy_from(&self.origins);
            header.origins.each(|o| {
                o.communication_ns = o.communication_ns.wrapping_add(converted);
                o.computation_ns = o.computation_ns.wrapping_add(computing).wrapping_sub(converted);
            });
        } else {
            header.origins.begin(
                topic,
                source_time.unwrap_or(header.publish_time),
                header.publish_time,
            );
        }
    }

    /// Returns true if any origin was inherited.
    #[must_use]
    pub fn has_ancestors(&self) -> bool {
        self.origins.len != 0
    }
}

/// The header of one sample, as read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SampleHeader {
    /// 1 for the first sample of a publisher, then one more for each; never reused.
    pub sequence: u64,
    /// Time of publication.
    pub publish_time: MonotonicNs,
    /// The publisher's `CLOCK_REALTIME - CLOCK_MONOTONIC` at that time, in nanoseconds.
    pub wall_offset_ns: i64,
    /// Shared by all samples that descend from one source sample; never 0.
    pub trace_id: u64,
    /// Payload length in bytes.
    pub payload_len: u64,
    /// XXH3-64 of the payload, if the publisher's QoS offers checksums.
    pub checksum: Option<u64>,
    /// Maximum error of the origins' times in nanoseconds, caused by the clocks of other hosts. 0
    /// if all data is from this host.
    pub clock_error_ns: u64,
    /// Record of the gateway, if another host published the sample.
    pub remote: Option<Remote>,
    /// Only in requests and responses. In a request: the server to which it is addressed. In a
    /// response: the number of the answered request, and its outcome ([`crate::service`]).
    pub service: Option<u64>,
    /// Source topics that this sample descends from.
    pub origins: Origins,
}

/// Record that a gateway adds to a sample from another host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Remote {
    /// Random number of the other host's gateway; each start has a new one.
    pub host: u64,
    /// Number of samples of this publisher that did not arrive here, since the first that arrived;
    /// since its first sample if `publisher` is not 0.
    pub lost: u64,
    /// Part of the publisher's id on its host, the same for each gateway that carries its samples.
    /// 0: not given.
    pub publisher: u64,
    /// Time from the publication there to the one here, in nanoseconds, by the estimated clock
    /// offset. Negative if the estimate is wrong by more than the transit time.
    pub transit_ns: i64,
    /// Maximum error of the estimated offset, in nanoseconds.
    pub offset_error_ns: u64,
}

/// Reason why header words were refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// The words are of a newer library, or are not a header.
    #[error(
        "sample header version {found} is not {HEADER_VERSION}: the publisher runs another \
         release, or its memory is damaged"
    )]
    Version {
        /// Version in the words.
        found: u16,
    },
    /// The list of origins claims more entries than fit.
    #[error(
        "sample header claims {found} origins where {MAX_ORIGINS} fit: the publisher's memory is \
         damaged"
    )]
    Origins {
        /// Count in the words.
        found: u16,
    },
}

impl SampleHeader {
    /// Makes a header with the present time on both clocks, without sequence, trace and origins.
    #[must_use]
    pub fn stamped_now() -> Self {
        Self {
            publish_time: MonotonicNs::now(),
            wall_offset_ns: wall_offset_ns(),
            ..Self::default()
        }
    }

    /// Copies another header; of the origins, only used ones are copied.
    pub fn copy_from(&mut self, other: &Self) {
        let Self {
            sequence,
            publish_time,
            wall_offset_ns,
            trace_id,
            payload_len,
            checksum,
            clock_error_ns,
            remote,
            service,
            origins,
        } = other;
        self.sequence = *sequence;
        self.publish_time = *publish_time;
        self.wall_offset_ns = *wall_offset_ns;
        self.trace_id = *trace_id;
        self.payload_len = *payload_len;
        self.checksum = *checksum;
        self.clock_error_ns = *clock_error_ns;
        self.remote = *remote;
        self.service = *service;
        self.origins.copy_from(origins);
    }

    /// Returns the source time of the oldest data in it; `None` if the sample has no origins.
    #[must_use]
    pub fn oldest_source_time(&self) -> Option<MonotonicNs> {
        self.origins.as_slice().iter().map(|o| o.source_oldest).min_by_key(|t| t.signed())
    }

    /// Number of origins that did not fit into the list, on all hops.
    #[must_use]
    pub fn origins_dropped(&self) -> u32 {
        self.origins.dropped
    }

    /// Passes each used word and its index to `store`; unused words need not be written. `written`
    /// is the number of samples written so far, this one included; at most `sequence`.
    pub fn write(&self, written: u64, mut store: impl FnMut(usize, u64)) {
        let more = u32::try_from(self.sequence.saturating_sub(written)).unwrap_or(u32::MAX);
        let mut flags = if self.checksum.is_some() { FLAG_CHECKSUM } else { 0 }
            | if more == 0 { 0 } else { FLAG_MORE_SEQUENCE };
        if self.clock_error_ns != 0 {
            flags |= FLAG_CLOCK_ERROR;
            store(CLOCK_ERROR, self.clock_error_ns);
        }
        if let Some(r) = &self.remote {
            flags |= FLAG_REMOTE;
            let words = [r.host, r.lost, r.transit_ns as u64, r.offset_error_ns];
            words.into_iter().enumerate().for_each(|(i, w)| store(REMOTE + i, w));
            if r.publisher != 0 {
                flags |= FLAG_REMOTE_PUBLISHER;
                store(REMOTE_PUBLISHER, r.publisher);
            }
        }
        if let Some(word) = self.service {
            flags |= FLAG_SERVICE;
            store(SERVICE, word);
        }
        store(0, u64::from(HEADER_VERSION) | u64::from(self.origins.len) << 16 | flags << 32);
        store(1, written);
        store(2, self.publish_time.0);
        store(3, self.wall_offset_ns as u64);
        store(4, self.trace_id);
        store(5, self.payload_len);
        store(6, u64::from(self.origins.dropped) | u64::from(more) << 32);
        store(7, self.checksum.unwrap_or(0));
        for (i, o) in self.origins.as_slice().iter().enumerate() {
            let at = FIRST_ORIGIN + i * ORIGIN_WORDS;
            let [communication, computation, idle] =
                [o.communication_ns, o.computation_ns, o.idle_ns].map(i64::cast_unsigned);
            let words =
                [o.topic.0, o.source_oldest.0, o.source_newest.0, communication, computation, idle];
            words.into_iter().enumerate().for_each(|(j, w)| store(at + j, w));
        }
    }

    /// Replaces this header by the words of `load`, which another process may have written. Any
    /// words give a header or an error. Each used word is loaded once. After an error, the header
    /// has no meaning.
    ///
    /// # Errors
    /// [`HeaderError`] if the words are not a header of this version.
    pub fn read(&mut self, mut load: impl FnMut(usize) -> u64) -> Result<(), HeaderError> {
        let first = load(0);
        let version = first as u16;
        if version != HEADER_VERSION {
            return Err(HeaderError::Version { found: version });
        }
        let len = (first >> 16) as u16;
        if usize::from(len) > MAX_ORIGINS {
            return Err(HeaderError::Origins { found: len });
        }
        let sixth = load(6);
        let more = if (first >> 32) & FLAG_MORE_SEQUENCE == 0 { 0 } else { sixth >> 32 };
        self.sequence = load(1).saturating_add(more);
        self.publish_time = MonotonicNs(load(2));
        self.wall_offset_ns = load(3) as i64;
        self.trace_id = load(4);
        self.payload_len = load(5);
        self.checksum = ((first >> 32) & FLAG_CHECKSUM != 0).then(|| load(7));
        self.clock_error_ns =
            if (first >> 32) & FLAG_CLOCK_ERROR == 0 { 0 } else { load(CLOCK_ERROR) };
        self.remote = ((first >> 32) & FLAG_REMOTE != 0).then(|| Remote {
            host: load(REMOTE),
            lost: load(REMOTE + 1),
            publisher: if (first >> 32) & FLAG_REMOTE_PUBLISHER == 0 {
                0
            } else {
                load(REMOTE_PUBLISHER)
            },
            transit_ns: load(REMOTE + 2) as i64,
            offset_error_ns: load(REMOTE + 3),
        });
        self.service = ((first >> 32) & FLAG_SERVICE != 0).then(|| load(SERVICE));
        // Entries beyond `len` are ignored everywhere, so they need not be cleared.
        self.origins.len = len;
        self.origins.dropped = sixth as u32;
        for (i, o) in self.origins.list[..usize::from(len)].iter_mut().enumerate() {
            let at = FIRST_ORIGIN + i * ORIGIN_WORDS;
            *o = Origin {
                topic: TopicId(load(at)),
                source_oldest: MonotonicNs(load(at + 1)),
                source_newest: MonotonicNs(load(at + 2)),
                communication_ns: load(at + 3).cast_signed(),
                computation_ns: load(at + 4).cast_signed(),
                idle_ns: load(at + 5).cast_signed(),
            };
        }
        Ok(())
    }

    /// The header as words; those not in use are zero.
    #[must_use]
    pub fn encode(&self) -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        self.write(self.sequence, |i, w| words[i] = w);
        words
    }

    /// Reads words that another process wrote; any words give a header or an error.
    ///
    /// # Errors
    /// [`HeaderError`] if the words are not a header of this version.
    pub fn decode(words: &[u64; HEADER_WORDS]) -> Result<Self, HeaderError> {
        let mut header = Self::default();
        header.read(|i| words[i])?;
        Ok(header)
    }
}

// Free words for later releases are part of the contract.
const _: () = assert!(REMOTE_PUBLISHER + 1 < HEADER_WORDS);

#[cfg(test)]
#[path = "header_tests.rs"]
mod tests;
