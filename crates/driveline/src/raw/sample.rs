// SPDX-License-Identifier: Apache-2.0
//! A received sample.

use crate::local::{AlignedBytes, Body, HeldToken, LocalObject, LocalSample};
use driveline_types::SampleHeader;
use driveline_types::service::ShortId;
use std::fmt;
use std::sync::Arc;

/// One received message. Immutable and shared: clones see the same memory, any thread may read and
/// drop it.
///
/// A held sample keeps its memory in use. A subscription may hold `max_held` samples at once.
#[derive(Clone)]
pub struct RawSample {
    source: Source,
    missed: u64,
}

#[derive(Clone)]
enum Source {
    Host(driveline_shm::Sample),
    Local { sample: Arc<LocalSample>, _held: Option<HeldToken> },
}

impl RawSample {
    #[inline]
    pub(crate) fn host(sample: driveline_shm::Sample) -> Self {
        let missed = sample.missed();
        Self { source: Source::Host(sample), missed }
    }

    pub(crate) fn local(sample: Arc<LocalSample>, missed: u64, held: HeldToken) -> Self {
        Self { source: Source::Local { sample, _held: Some(held) }, missed }
    }

    /// The header as the publisher wrote it.
    #[must_use]
    pub fn header(&self) -> &SampleHeader {
        match &self.source {
            Source::Host(s) => s.header(),
            Source::Local { sample, .. } => &sample.header,
        }
    }

    /// Returns the id of its publisher in a service.
    pub(crate) fn publisher(&self) -> ShortId {
        match &self.source {
            Source::Host(s) => s.publisher().into(),
            Source::Local { sample, .. } => ShortId(sample.publisher),
        }
    }

    /// Strength of its publisher as owner of the topic.
    pub(crate) fn strength(&self) -> u32 {
        match &self.source {
            Source::Host(s) => s.strength(),
            Source::Local { sample, .. } => sample.strength,
        }
    }

    /// Returns true if it came from inside the process.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.source, Source::Local { .. })
    }

    /// Returns a sample of the same content that does not count as held by the subscription: bytes
    /// are copied, a value that moved as a pointer is shared. Allocates.
    #[must_use]
    pub fn detached(&self) -> Self {
        let body = match (self.object(), self.payload()) {
            (Some(object), _) => Body::Object(object.clone()),
            (None, bytes) => {
                let bytes = bytes.unwrap_or_default();
                let mut buffer = AlignedBytes::zeroed(bytes.len());
                buffer.as_bytes_mut()[..bytes.len()].copy_from_slice(bytes);
                Body::Bytes { buffer, len: bytes.len() }
            }
        };
        let publisher = self.publisher().0;
        let strength = self.strength();
        let sample = Arc::new(LocalSample { header: *self.header(), publisher, strength, body });
        Self { source: Source::Local { sample, _held: None }, missed: self.missed }
    }

    /// Returns the number of this publisher's samples missed since the previous one.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// The payload's bytes in place; `None` if it is a pointer.
    #[must_use]
    pub fn payload(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Host(s) => Some(s.payload()),
            Source::Local { sample, .. } => sample.payload(),
        }
    }

    /// The value, if it moved as a pointer.
    #[must_use]
    pub fn object(&self) -> Option<&Arc<dyn LocalObject>> {
        match &self.source {
            Source::Host(_) => None,
            Source::Local { sample, .. } => sample.object(),
        }
    }
}

impl fmt::Debug for RawSample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let h = self.header();
        f.debug_struct("RawSample")
            .field("sequence", &h.sequence)
            .field("len", &h.payload_len)
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}
