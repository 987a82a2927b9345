// SPDX-License-Identifier: Apache-2.0
//! One borrowed message.
#![allow(unsafe_code, reason = "payloads lie in a mapping")]

use crate::inlet::Edge;
use crate::protocol::reader;
use driveline_types::EndpointId;
use driveline_types::header::SampleHeader;
use std::sync::Arc;

/// A message that is read where the publisher wrote it. Holding it keeps its memory from being
/// reused; dropping it, on any thread, releases the memory. It may outlive subscription and
/// participant.
///
/// The bytes do not change while it is held, as long as the publisher's process runs this library.
/// A hostile publisher of another user can change them at any time: copy and check them where that
/// matters. In a forked child it is empty.
///
/// Clones are handles to the same memory, which counts as held once until the last of them is
/// dropped.
pub struct Sample {
    edge: Arc<Edge>,
    cell: usize,
    offset: usize,
    len: usize,
    missed: u64,
    written: u64,
}

impl Sample {
    /// Takes over a pin: `cell` pins `slot`, the sample was validated, and the cell has an open
    /// entry with one handle in the edge's `HeldSamples`.
    pub(crate) fn pinned(edge: Arc<Edge>, cell: usize, slot: usize, written: u64) -> Self {
        let offset = edge.segment.payload_at(slot);
        Self { edge, cell, offset, len: 0, missed: 0, written }
    }

    /// Sets the length of the payload: the header's, after a check against the slot's length.
    pub(crate) fn set_len(&mut self, len: usize) {
        self.len = len;
    }

    pub(crate) fn set_missed(&mut self, missed: u64) {
        self.missed = missed;
    }

    pub(crate) fn edge(&self) -> &Edge {
        &self.edge
    }

    /// The bytes, aligned to 64.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &[u8] {
        if !self.edge.page_is_here() {
            return &[];
        }
        // SAFETY: the slot is pinned and its sequence was validated behind the protocol's fence, so
        // no honest publisher writes to it before the pin is gone, which is when the last handle is
        // dropped. Bounds are checked by `bytes`.
        unsafe { self.edge.segment.map.bytes(self.offset, self.len) }
    }

    /// The header, copied when the sample was taken.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &SampleHeader {
        // SAFETY: this is a handle to the entry, and the reference lives no longer than it.
        unsafe { self.edge.held_samples.header(self.cell) }
    }

    /// Returns the number of this publisher's samples between the sample taken before and this one:
    /// samples that were missed, dropped (for example expired ones), or lost on the way to this
    /// host.
    #[must_use]
    #[inline]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Returns the number of this sample among the samples that its publisher has written into its
    /// segment, from 1, without gaps. The header's sequence is greater if some samples passed as
    /// pointers.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Returns the number of the first sample that this subscription reads, among the samples that
    /// its publisher has written.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.edge.first
    }

    /// Publisher of the sample.
    #[must_use]
    pub fn publisher(&self) -> EndpointId {
        self.edge.publisher
    }

    /// Strength of the publisher as owner of the topic; 0 if it has none.
    #[must_use]
    pub fn strength(&self) -> u32 {
        self.edge.qos.strength.unwrap_or(0)
    }
}

impl Clone for Sample {
    fn clone(&self) -> Self {
        self.edge.held_samples.add_handle(self.cell);
        Self { edge: Arc::clone(&self.edge), ..*self }
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if self.edge.held_samples.drop_handle(self.cell)
            && self.edge.page_is_here()
            && let Some(cell) = self.edge.cells().get(self.cell)
        {
            reader::unpin(cell);
            self.edge.release_watch.given_back();
        }
    }
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sample")
            .field("header", self.header())
            .field("missed", &self.missed)
            .finish_non_exhaustive()
    }
}

/// Result of a copy.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Header of the copied sample; its `payload_len` is the number of bytes filled.
    pub header: SampleHeader,
    /// As [`Sample::missed`].
    pub missed: u64,
    /// Publisher of the sample.
    pub publisher: EndpointId,
}
