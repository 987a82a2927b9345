// SPDX-License-Identifier: Apache-2.0
//! Reader's table of the samples that it holds: one entry per pin cell, with the header and a count
//! of handles.
//!
//! Transitions of an entry, and the threads that make them:
//! - free → held: the consuming thread, after it pinned the cell; it writes the header before the
//!   first handle exists.
//! - held → held: any thread clones or drops a handle; the header is only read.
//! - held → free: the thread that drops the last handle. It then clears the pin cell (Release), and
//!   the consuming thread uses the entry again only when it has seen the cell cleared (Acquire).
//!
//! A death of the process ends table and handles together; the publisher releases the pins.
#![allow(unsafe_code, reason = "a header that one thread writes and others read afterwards")]

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};
use crate::sync::{AtomicU32, Mutant, Turns, mutant};
use driveline_types::header::SampleHeader;

struct Entry {
    handles: AtomicU32,
    header: Turns<SampleHeader>,
}

/// Table of held samples; see the module.
pub struct HeldSamples(Box<[Entry]>);

// SAFETY: headers are plain values. They are written only while an entry is free, by the one
// consuming thread, and read only through handles, which exist only while it is held; the pin
// cell's Release and Acquire order the two.
unsafe impl Sync for HeldSamples {}

impl std::fmt::Debug for HeldSamples {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|e| e.handles.load(Relaxed))).finish()
    }
}

impl HeldSamples {
    pub fn new(cells: usize) -> Self {
        let free =
            || Entry { handles: AtomicU32::new(0), header: Turns::new(SampleHeader::default()) };
        Self((0..cells).map(|_| free()).collect())
    }

    /// Opens an entry for a sample, with one handle, once `write` has filled its header.
    ///
    /// # Safety
    /// Only by the consuming thread, for an existing cell that it has seen cleared with Acquire and
    /// has pinned since.
    pub unsafe fn open<R>(&self, cell: usize, write: impl FnOnce(&mut SampleHeader) -> R) -> R {
        let entry = &self.0[cell];
        // SAFETY: the entry is free and the caller the only one who may open it, so no other thread
        // accesses the header.
        let result = entry.header.with_mut(|header| write(unsafe { &mut *header }));
        // Relaxed: other threads get handles only from this one, and the hand-over makes the
        // earlier writes visible to them.
        entry.handles.store(1, Relaxed);
        result
    }

    /// The header of a held sample.
    ///
    /// # Safety
    /// Only while a handle to this entry exists, and no longer than it.
    pub unsafe fn header(&self, cell: usize) -> &SampleHeader {
        // SAFETY: while a handle exists, no thread writes.
        self.0[cell].header.with(|header| unsafe { &*header })
    }

    /// Adds a handle. The caller must have one.
    pub fn add_handle(&self, cell: usize) {
        // Relaxed as in Arc: the new handle comes from an existing one.
        self.0[cell].handles.fetch_add(1, Relaxed);
    }

    /// Drops a handle and returns true if it was the last. The caller must own it, and no thread
    /// may be cloning it.
    pub fn drop_handle(&self, cell: usize) -> bool {
        let handles = &self.0[cell].handles;
        // A thread that sees that its handle is the only one can rely on it: another handle could
        // only be cloned from this one, which is in use here. So the usual end of a sample needs no
        // locked instruction. Acquire pairs with the Release of threads that dropped their handles
        // before: all their reads are over before the pin is released.
        if handles.load(if mutant(Mutant::RelaxedLastHandle) { Relaxed } else { Acquire }) == 1 {
            return true;
        }
        // AcqRel as in Arc: all reads through other handles are over before the last one releases
        // the pin.
        let order = if mutant(Mutant::RelaxedHandleDrop) { Relaxed } else { AcqRel };
        handles.fetch_sub(1, order) == 1
    }
}
