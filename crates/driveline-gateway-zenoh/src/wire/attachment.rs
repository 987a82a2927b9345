// SPDX-License-Identifier: Apache-2.0
//! Data attached to a sample, acknowledgements, and answers to requests for the time.

use super::VERSION;
use driveline_types::header::MAX_ORIGINS;
use driveline_types::{EndpointId, MonotonicNs, Origin, SampleHeader, TopicId};
use thiserror::Error;

const SENT_AGAIN: u16 = 1;
const HAS_CHECKSUM: u16 = 2;
const HEAD_LEN: usize = 104;
const ORIGIN_LEN: usize = 48;
const ACK_LEN: usize = 40;
const TIME_LEN: usize = 24;
/// Maximum length of a sample's attachment, in bytes.
pub const MAX_ATTACHMENT_LEN: usize = HEAD_LEN + MAX_ORIGINS * ORIGIN_LEN;

/// Reason why bytes of another gateway were refused.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The version differs, or the sender is not a gateway.
    #[error("version {found} is not {VERSION}: the other host runs another release")]
    Version {
        /// Version in the bytes.
        found: u16,
    },
    /// The length does not match the content.
    #[error("{found} bytes instead of {expected}")]
    Length {
        /// Length of the bytes.
        found: usize,
        /// Length that they should have.
        expected: usize,
    },
    /// There are more origins than a header can have.
    #[error("{found} origins, and a header has at most {MAX_ORIGINS}")]
    Origins {
        /// Count in the bytes.
        found: u16,
    },
    /// An outcome that this release does not know.
    #[error("outcome {found} is not known")]
    Outcome {
        /// Number in the bytes.
        found: u16,
    },
}

/// Reads little-endian words. The caller has checked the length; beyond the end it reads zeros.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u16(&self, at: usize) -> u16 {
        self.array(at).map_or(0, u16::from_le_bytes)
    }
    fn u32(&self, at: usize) -> u32 {
        self.array(at).map_or(0, u32::from_le_bytes)
    }
    fn u64(&self, at: usize) -> u64 {
        self.array(at).map_or(0, u64::from_le_bytes)
    }
    fn array<const N: usize>(&self, at: usize) -> Option<[u8; N]> {
        self.0.get(at..at + N)?.try_into().ok()
    }
}

/// Data attached to a sample: the parts of its header that another host needs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SampleHead {
    /// The sample was sent before and was not acknowledged.
    pub sent_again: bool,
    /// Place among samples that must be accepted in order: 1 for the oldest in flight, 2 for the
    /// next one, and so on. 0: order does not matter.
    pub place: u16,
    /// Number of the sample on this route.
    pub number: u64,
    /// The publisher's id on its host.
    pub publisher: u128,
    /// Number of the sample, counted by its publisher.
    pub written: u64,
    /// Number of earlier samples of this publisher that the route had to send to the receiving
    /// host. 0 from earlier releases.
    pub owed: u32,
    /// Time of the hand-over to Zenoh, on the sending host's clock.
    pub sent: MonotonicNs,
    /// Header on the sending host: sequence, publish time, wall offset, trace id, checksum, clock
    /// error and origins. The payload's length comes from the payload; `remote` is not sent.
    pub header: SampleHeader,
}

impl SampleHead {
    /// The publisher's id.
    #[must_use]
    pub fn publisher(&self) -> EndpointId {
        EndpointId(self.publisher)
    }

    /// Encodes the head.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let h = &self.header;
        let origins = h.origins.as_slice();
        let mut out = Vec::with_capacity(HEAD_LEN + origins.len() * ORIGIN_LEN);
        let flags = if self.sent_again { SENT_AGAIN } else { 0 }
            | if h.checksum.is_some() { HAS_CHECKSUM } else { 0 };
        for half in [VERSION, flags, origins.len() as u16, self.place] {
            out.extend(half.to_le_bytes());
        }
        out.extend(self.number.to_le_bytes());
        out.extend(self.publisher.to_le_bytes());
        let times = [
            h.sequence,
            self.written,
            self.sent.0,
            h.publish_time.0,
            h.wall_offset_ns as u64,
            h.trace_id,
        ];
        for word in times.into_iter().chain([
            h.checksum.unwrap_or(0),
            h.clock_error_ns,
            u64::from(h.origins_dropped()) | u64::from(self.owed) << 32,
        ]) {
            out.extend(word.to_le_bytes());
        }
        for o in origins {
            let [communication, computation, idle] =
                [o.communication_ns, o.computation_ns, o.idle_ns].map(i64::cast_unsigned);
            for word in
                [o.topic.0, o.source_oldest.0, o.source_newest.0, communication, computation, idle]
            {
                out.extend(word.to_le_bytes());
            }
        }
        out
    }

    /// Decodes untrusted bytes.
    ///
    /// # Errors
    /// [`WireError`] if the version differs, there are too many origins, or the length does not
    /// match the content.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let words = Words(bytes);
        if bytes.len() < HEAD_LEN {
            return Err(WireError::Length { found: bytes.len(), expected: HEAD_LEN });
        }
        let found = words.u16(0);
        if found != VERSION {
            return Err(WireError::Version { found });
        }
        let count = words.u16(4);
        if usize::from(count) > MAX_ORIGINS {
            return Err(WireError::Origins { found: count });
        }
        let expected = HEAD_LEN + usize::from(count) * ORIGIN_LEN;
        if bytes.len() != expected {
            return Err(WireError::Length { found: bytes.len(), expected });
        }
        let mut header = SampleHeader {
            sequence: words.u64(32),
            publish_time: MonotonicNs(words.u64(56)),
            wall_offset_ns: words.u64(64) as i64,
            trace_id: words.u64(72),
            checksum: (words.u16(2) & HAS_CHECKSUM != 0).then(|| words.u64(80)),
            clock_error_ns: words.u64(88),
            ..SampleHeader::default()
        };
        let origins = (0..usize::from(count)).map(|i| HEAD_LEN + i * ORIGIN_LEN).map(|at| Origin {
            topic: TopicId(words.u64(at)),
            source_oldest: MonotonicNs(words.u64(at + 8)),
            source_newest: MonotonicNs(words.u64(at + 16)),
            communication_ns: words.u64(at + 24).cast_signed(),
            computation_ns: words.u64(at + 32).cast_signed(),
            idle_ns: words.u64(at + 40).cast_signed(),
        });
        header.origins.set(origins, words.u32(96));
        Ok(Self {
            sent_again: words.u16(2) & SENT_AGAIN != 0,
            place: words.u16(6),
            number: words.u64(8),
            publisher: words.array(16).map_or(0, u128::from_le_bytes),
            written: words.u64(40),
            owed: words.u32(100),
            sent: MonotonicNs(words.u64(48)),
            header,
        })
    }
}

/// Outcome of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// It was published, now or before.
    #[default]
    Published,
    /// It was older than its lifespan.
    Expired,
    /// It is too long or damaged, or lacks a promised checksum, or no slot is free for it.
    Damaged,
    /// Its publisher was refused here, or the sample does not fit the publisher: it has another
    /// topic, offer or host.
    Unknown,
    /// Its publisher has no remote publisher here yet, or the receiver does not know the outcomes
    /// of the samples before it. It may be sent again.
    NotYet,
    /// The sample was not accepted, because one before it is missing. `number` is the last one
    /// before the gap. Never the outcome of a sample without a place.
    Gap,
}

/// Acknowledgement: all samples of the route up to `number` have arrived. With [`Outcome::NotYet`],
/// it only states that the samples before `number` have arrived; for a sample with a place, it
/// states nothing about other samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Outcome of the sample `number`.
    pub outcome: Outcome,
    /// Number of ordered samples that the receiver accepts before the first is acknowledged. 0
    /// counts as 1: an earlier release, without places.
    pub accepts: u32,
    /// The sample's number on its route.
    pub number: u64,
    /// Time of sending, from the sample.
    pub sent: MonotonicNs,
    /// Time of arrival, on the receiving host's clock.
    pub received: MonotonicNs,
    /// Time at which this acknowledgement was sent, on the receiving host's clock.
    pub answered: MonotonicNs,
}

impl Ack {
    /// Encodes the acknowledgement.
    #[must_use]
    pub fn encode(&self) -> [u8; ACK_LEN] {
        let mut out = [0; ACK_LEN];
        out[..2].copy_from_slice(&VERSION.to_le_bytes());
        out[2..4].copy_from_slice(&(self.outcome as u16).to_le_bytes());
        out[4..8].copy_from_slice(&self.accepts.to_le_bytes());
        let words = [self.number, self.sent.0, self.received.0, self.answered.0];
        for (to, word) in out[8..].chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes untrusted bytes.
    ///
    /// # Errors
    /// [`WireError`] if they are not an acknowledgement of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let words = Words(bytes);
        if bytes.len() != ACK_LEN {
            return Err(WireError::Length { found: bytes.len(), expected: ACK_LEN });
        }
        let found = words.u16(0);
        if found != VERSION {
            return Err(WireError::Version { found });
        }
        let outcome = match words.u16(2) {
            0 => Outcome::Published,
            1 => Outcome::Expired,
            2 => Outcome::Damaged,
            3 => Outcome::Unknown,
            4 => Outcome::NotYet,
            5 => Outcome::Gap,
            found => return Err(WireError::Outcome { found }),
        };
        Ok(Self {
            outcome,
            accepts: words.u32(4),
            number: words.u64(8),
            sent: MonotonicNs(words.u64(16)),
            received: MonotonicNs(words.u64(24)),
            answered: MonotonicNs(words.u64(32)),
        })
    }
}

/// Answer to a time request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Arrival of the request, on the clock of the answering host.
    pub received: MonotonicNs,
    /// Time of the answer, on the same clock.
    pub answered: MonotonicNs,
    /// Number of changes of its publisher lists until then.
    pub changes: u64,
}

impl Time {
    /// Encodes the answer.
    #[must_use]
    pub fn encode(&self) -> [u8; TIME_LEN] {
        let mut out = [0; TIME_LEN];
        for (to, word) in
            out.chunks_exact_mut(8).zip([self.received.0, self.answered.0, self.changes])
        {
            to.copy_from_slice(&word.to_le_bytes());
        }
        out
    }

    /// Decodes untrusted bytes. `None`: wrong length.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let words = Words(bytes);
        let all = || Self {
            received: MonotonicNs(words.u64(0)),
            answered: MonotonicNs(words.u64(8)),
            changes: words.u64(16),
        };
        (bytes.len() == TIME_LEN).then(all)
    }
}
