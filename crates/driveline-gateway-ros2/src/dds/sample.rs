// SPDX-License-Identifier: Apache-2.0
//! Samples on their way in and out.

use super::unacknowledged::{Unacknowledged, Written};
use super::{DdsError, Entity, Result, checked};
use cyclors as c;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// A sample that was taken. It is freed with this value.
#[derive(Debug)]
pub(crate) struct Taken {
    data: *mut c::ddsi_serdata,
    reference: c::ddsrt_iovec_t,
    /// Writer, by its number in discovery.
    pub(crate) writer: u64,
    /// Time of writing, on that host's wall clock, in nanoseconds.
    pub(crate) source_timestamp: i64,
}

impl Taken {
    /// The sample with its encapsulation.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.reference.iov_base.is_null() {
            return &[];
        }
        // SAFETY: `reference` was given for all bytes of `data` (`cdds_to_ser_ref`: a pointer into
        // the one block in which the sample was assembled, and its length). The block is written
        // once, before the sample can be taken, and lives as long as `data`, of which we hold a
        // reference until this value is dropped. Lengths above isize::MAX are excluded in `take`.
        unsafe {
            std::slice::from_raw_parts(self.reference.iov_base.cast(), self.reference.iov_len)
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: gives back the reference of `ddsi_serdata_to_ser_ref`, with what it gave, and
        // then the one of `dds_takecdr`; neither is used afterwards.
        unsafe {
            if !self.reference.iov_base.is_null() {
                c::ddsi_serdata_to_ser_unref(self.data, &raw const self.reference);
            }
            c::ddsi_serdata_unref(self.data);
        }
    }
}

pub(super) fn take(reader: &Entity) -> Result<Option<Taken>> {
    loop {
        let mut data: *mut c::ddsi_serdata = std::ptr::null_mut();
        // SAFETY: plain numbers and a bool, for which zeros are good.
        let mut info: c::dds_sample_info_t = unsafe { std::mem::zeroed() };
        // SAFETY: room for one pointer and one info, as passed; both are written before the call
        // reports that there was one.
        let count =
            unsafe { c::dds_takecdr(reader.0, &raw mut data, 1, &raw mut info, c::DDS_ANY_STATE) };
        if checked("take a sample", count)? == 0 || data.is_null() {
            return Ok(None);
        }
        let empty = c::ddsrt_iovec_t { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // From here on it is given back, whatever happens.
        let mut taken = Taken {
            data,
            reference: empty,
            writer: info.publication_handle,
            source_timestamp: info.source_timestamp,
        };
        if !info.valid_data {
            // Reports the end of a writer; has no bytes, which must not be requested.
            continue;
        }
        // SAFETY: `data` is a valid sample of a topic made by `cdds_create_blob_topic`, whose size
        // is that of its block; the reference spans exactly that. It is a u32, so no length above
        // isize::MAX.
        unsafe {
            let size = c::ddsi_serdata_size(data) as usize;
            if size > 0 {
                c::ddsi_serdata_to_ser_ref(data, 0, size, &raw mut taken.reference);
            }
        }
        return Ok(Some(taken));
    }
}

/// A reference to a sample that was written. It keeps the sample in memory.
#[derive(Debug)]
pub(super) struct Reference(*mut c::ddsi_serdata);

// SAFETY: CycloneDDS counts references atomically and passes samples between threads of its own;
// nothing else of a sample is used here.
unsafe impl Send for Reference {}

impl Reference {
    /// # Safety
    /// `data` is a sample of type `sertype`, and both are there during the call.
    unsafe fn new(sertype: *const c::ddsi_sertype, data: *mut c::ddsi_serdata) -> Self {
        // SAFETY: as the caller says. Of a sample of that type it makes no other one, but counts
        // one more reference.
        Self(unsafe { c::ddsi_serdata_ref_as_type(sertype, data) })
    }
}

impl Written for Reference {
    fn is_in_history(&self) -> bool {
        // SAFETY: this reference keeps the sample in memory. CycloneDDS reads and writes the count
        // with atomic operations only.
        let count = unsafe { AtomicU32::from_ptr(&raw mut (*self.0).refc.v) };
        // Relaxed: it is counted, and nothing else is read on its strength.
        count.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: the reference that `new` took, which is not used afterwards. What frees a sample
        // needs nothing but the sample (`cdds_serdata_free`).
        unsafe { c::ddsi_serdata_unref(self.0) };
    }
}

/// Writes a sample. Returns how many samples were replaced, since the last call, that a reader has
/// not acknowledged, where `unacknowledged` says what was written.
pub(super) fn write(
    writer: &Entity,
    parts: &[&[u8]],
    unacknowledged: Option<&mut Unacknowledged<Reference>>,
) -> Result<u64> {
    const ACTION: &str = "write a sample";
    let len: usize = parts.iter().map(|p| p.len()).sum();
    // CycloneDDS sends multiples of 4 bytes and would read what lies behind others.
    if !len.is_multiple_of(4) || len == 0 || i32::try_from(len).is_err() {
        return Err(DdsError { action: ACTION, reason: format!("{len} bytes") });
    }
    let pointed =
        |p: &&[u8]| c::ddsrt_iovec_t { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() };
    let iov: Vec<_> = parts.iter().map(pointed).collect();
    let mut sertype: *const c::ddsi_sertype = std::ptr::null();
    // SAFETY: room for one pointer. It points to the type of the writer's topic (CycloneDDS derives
    // another type for a writer only if the type requests it, and types of `cdds_create_blob_topic`
    // do not), and the topic has a reference of its own. Another thread may close the writer
    // at any moment; its topic outlives the value (see `Writer`), and the value this function. Only
    // its participant could end the topic otherwise, and that is dropped last.
    checked(ACTION, unsafe { c::dds_get_entity_sertype(writer.0, &raw mut sertype) })?;
    // SAFETY: `sertype` is that of a topic made by `cdds_create_blob_topic`. `iov` has as many
    // entries as is said, whose lengths add up to `len`, below 2^31; they are only read (mutable by
    // C's habit) and copied into a block of the sample's own before the call returns.
    let data = unsafe {
        c::ddsi_serdata_from_ser_iov(
            sertype,
            c::ddsi_serdata_kind_SDK_DATA,
            iov.len(),
            iov.as_ptr(),
            len,
        )
    };
    if data.is_null() {
        return Err(DdsError { action: ACTION, reason: "no memory".into() });
    }
    let replaced = unacknowledged.map(|samples| {
        let replaced = samples.make_room(Instant::now());
        // SAFETY: the sample that was just made, of this type; its own reference is still ours.
        samples.push(unsafe { Reference::new(sertype, data) });
        replaced
    });
    // SAFETY: a sample of the writer's type, of which one reference goes over to the call. (Where
    // the writer is gone, it leaks.)
    checked(ACTION, unsafe { c::dds_writecdr(writer.0, data) }).map(|_| replaced.unwrap_or(0))
}
