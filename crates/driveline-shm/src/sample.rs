// SPDX-License-Identifier: Apache-2.0
//! One borrowed message.
#![allow(unsafe_code)]

use crate::inlet::Edge;
use crate::protocol::reader;
use driveline_types::EndpointId;
use driveline_types::header::SampleHeader;
use std::sync::Arc;

/// A message that is read where the publisher wrote it. Holding it keeps its memory from being reused; dropping it, on
/// any thread, gives the memory back. It may outlive subscription and participant.
///
/// The bytes do not change while it is held, whatever the publisher does, as long as the publisher's process runs this
/// library; a hostile publisher of another user can change them at any time, so check what you read where that matters.
/// In a forked child it is empty.
pub struct Sample {
    edge: Arc<Edge>,
    cell: usize,
    offset: usize,
    header: SampleHeader,
    missed: u64,
}

impl Sample {
    /// Takes over a pin: `cell` holds `slot` and was validated.
    pub(crate) fn pinned(edge: Arc<Edge>, cell: usize, slot: usize) -> Self {
        let offset = edge.segment.payload_at(slot);
        Self { edge, cell, offset, header: SampleHeader::default(), missed: 0 }
    }

    /// `payload_len` was checked against the slot's length.
    pub(crate) fn set_header(&mut self, header: SampleHeader) {
        self.header = header;
    }

    pub(crate) fn set_missed(&mut self, missed: u64) {
        self.missed = missed;
    }

    /// The bytes, aligned to 64.
    #[must_use]
    #[inline]
    pub fn payload(&self) -> &[u8] {
        if !self.edge.page_is_here() {
            return &[];
        }
        // SAFETY: the slot is pinned and its sequence was validated behind the protocol's fence, so no honest publisher
        // writes to it before the pin is gone, which is in `drop`. Bounds are checked by `bytes`.
        unsafe { self.edge.segment.map.bytes(self.offset, self.header.payload_len as usize) }
    }

    /// The header, copied when the sample was taken.
    #[must_use]
    #[inline]
    pub fn header(&self) -> &SampleHeader {
        &self.header
    }

    /// How many samples of this publisher were published to this subscription and not taken since the one taken before.
    #[must_use]
    #[inline]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Who published it.
    #[must_use]
    pub fn publisher(&self) -> EndpointId {
        self.edge.publisher
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        if self.edge.page_is_here()
            && let Some(cell) = self.edge.cells().get(self.cell)
        {
            reader::unpin(cell);
        }
    }
}

impl std::fmt::Debug for Sample {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sample").field("header", &self.header).field("missed", &self.missed).finish_non_exhaustive()
    }
}

/// What a copy brought.
#[derive(Clone, Debug)]
pub struct Copied {
    /// Header of the copied sample; its `payload_len` says how much of the buffer is filled.
    pub header: SampleHeader,
    /// As [`Sample::missed`].
    pub missed: u64,
    /// Who published it.
    pub publisher: EndpointId,
}
