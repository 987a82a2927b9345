// SPDX-License-Identifier: Apache-2.0
//! Memory that a publisher lends out to be filled.
#![allow(unsafe_code, reason = "payloads lie in a mapping")]

use crate::publication::Publication;
use std::sync::Arc;
use std::sync::atomic::Ordering::Release;

/// Memory of one payload that will be published. Dropping it returns the memory, on any thread.
///
/// It keeps the publisher's memory mapped, so it may outlive the publisher. In a forked child it is
/// empty.
pub struct Loan {
    publication: Arc<Publication>,
    slot: u16,
    offset: usize,
    len: usize,
}

impl Loan {
    /// Creates a loan. `slot` was taken off the free list and belongs to this loan only.
    pub(crate) fn new(publication: Arc<Publication>, slot: u16, len: usize) -> Self {
        let offset = publication.segment.payload_at(usize::from(slot));
        let len = len.min(publication.max_payload);
        Self { publication, slot, offset, len }
    }

    pub(crate) fn is_of(&self, publication: &Arc<Publication>) -> bool {
        Arc::ptr_eq(&self.publication, publication)
    }

    /// Ends the loan without returning the slot.
    pub(crate) fn into_parts(self) -> (u16, Arc<Publication>) {
        let this = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once out of a value that is never used or dropped again.
        (this.slot, unsafe { std::ptr::read(&raw const this.publication) })
    }

    /// Returns the bytes; at first, the previous content of the slot.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        if !self.publication.segment.map.is_here() {
            return &[];
        }
        // SAFETY: the slot is off the free list, so this process's publisher does not touch it, and
        // no reader reads it: its sequence is 0. Writing needs `&mut self`.
        unsafe { self.publication.segment.map.bytes(self.offset, self.len) }
    }

    /// The bytes, for writing.
    #[must_use]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        if !self.publication.segment.map.is_here() {
            return &mut [];
        }
        // SAFETY: as for `payload`; `&mut self` makes this the only access. The mapping is the
        // publisher's own, so it is writable.
        unsafe { self.publication.segment.map.bytes_mut(self.offset, self.len) }
    }

    /// Length of the payload in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the payload has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shortens the payload; a greater length changes nothing.
    pub fn shrink(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if let Some(bits) = self.publication.returned.get(usize::from(self.slot) / 64) {
            // Release pairs with the Acquire of the publisher that collects it.
            bits.fetch_or(1 << (self.slot % 64), Release);
        }
    }
}

impl std::fmt::Debug for Loan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loan")
            .field("topic", &self.publication.topic)
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}
