// SPDX-License-Identifier: Apache-2.0
//! Samples written and taken.

use super::unacknowledged::{Unacknowledged, Written};
use super::{DdsError, Entity, Result, checked};
use cyclors as c;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

/// Taken sample, freed when this value is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    data: *mut c::ddsi_serdata,
    reference: c::ddsrt_iovec_t,
    /// Handle of its writer in discovery.
    pub(crate) writer: u64,
    /// Time of writing, on the writer's wall clock, in nanoseconds.
    pub(crate) source_timestamp: i64,
}

impl Taken {
    /// Returns the sample with its encapsulation.
    pub(crate) fn bytes(&self) -> &[u8] {
        if self.reference.iov_base.is_null() {
            return &[];
        }
        // SAFETY: `reference` covers all bytes of `data` (`cdds_to_ser_ref`: a pointer into the one
        // block in which the sample was assembled, and its length). The block is written once,
        // before the sample can be taken, and lives as long as `data`, of which we hold a reference
        // until this value is dropped. `take` excludes lengths above isize::MAX.
        unsafe {
            std::slice::from_raw_parts(self.reference.iov_base.cast(), self.reference.iov_len)
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // SAFETY: the first call gives back the reference that `ddsi_serdata_to_ser_ref` took, with
        // the result of that call. The second call gives back the reference that `dds_takecdr`
        // took. Neither is used afterwards.
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
        // SAFETY: the structure has only numbers and a bool, for which zeros are valid.
        let mut info: c::dds_sample_info_t = unsafe { std::mem::zeroed() };
        // SAFETY: there is room for one pointer and one info, as passed; the call writes both
        // before it reports a sample.
        let count =
            unsafe { c::dds_takecdr(reader.0, &raw mut data, 1, &raw mut info, c::DDS_ANY_STATE) };
        if checked("take a sample", count)? == 0 || data.is_null() {
            return Ok(None);
        }
        let empty = c::ddsrt_iovec_t { iov_base: std::ptr::null_mut(), iov_len: 0 };
        // From here on, dropping `taken` releases it.
        let mut taken = Taken {
            data,
            reference: empty,
            writer: info.publication_handle,
            source_timestamp: info.source_timestamp,
        };
        if !info.valid_data {
            // An entry without data reports the end of a writer; its bytes must not be requested.
            continue;
        }
        // SAFETY: `data` is a valid sample of a topic made by `cdds_create_blob_topic`. Its size is
        // that of its block, and the reference spans exactly that. The size is a u32, so no length
        // is above isize::MAX.
        unsafe {
            let size = c::ddsi_serdata_size(data) as usize;
            if size > 0 {
                c::ddsi_serdata_to_ser_ref(data, 0, size, &raw mut taken.reference);
            }
        }
        return Ok(Some(taken));
    }
}

/// Reference to a written sample, which keeps the sample in memory.
#[derive(Debug)]
pub(super) struct Reference(*mut c::ddsi_serdata);

// SAFETY: CycloneDDS counts references atomically and passes samples between its own threads;
// nothing else of a sample is used here.
unsafe impl Send for Reference {}

impl Reference {
    /// # Safety
    /// `data` is a sample of type `sertype`, and both live during the call.
    unsafe fn new(sertype: *const c::ddsi_sertype, data: *mut c::ddsi_serdata) -> Self {
        // SAFETY: by the contract of this function. For a sample of the same type the call makes no
        // new sample, but counts one more reference.
        Self(unsafe { c::ddsi_serdata_ref_as_type(sertype, data) })
    }
}

impl Written for Reference {
    fn is_in_history(&self) -> bool {
        // SAFETY: this reference keeps the sample in memory. CycloneDDS reads and writes the count
        // with atomic operations only.
        let count = unsafe { AtomicU32::from_ptr(&raw mut (*self.0).refc.v) };
        // Relaxed: the count is only compared; no other memory is read because of it.
        count.load(Ordering::Relaxed) > 1
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // SAFETY: this is the reference that `new` took; it is not used afterwards. Freeing a
        // sample needs only the sample (`cdds_serdata_free`).
        unsafe { c::ddsi_serdata_unref(self.0) };
    }
}

/// Writes a sample. Returns the number of samples replaced since the last call although a reader
/// had not acknowledged them; 0 without `unacknowledged`.
pub(super) fn write(
    writer: &Entity,
    parts: &[&[u8]],
    unacknowledged: Option<&mut Unacknowledged<Reference>>,
) -> Result<u64> {
    const ACTION: &str = "write a sample";
    let len: usize = parts.iter().map(|p| p.len()).sum();
    // CycloneDDS sends multiples of 4 bytes; for other lengths it would read past the end.
    if !len.is_multiple_of(4) || len == 0 || i32::try_from(len).is_err() {
        return Err(DdsError { action: ACTION, reason: format!("{len} bytes") });
    }
    let pointed =
        |p: &&[u8]| c::ddsrt_iovec_t { iov_base: p.as_ptr().cast_mut().cast(), iov_len: p.len() };
    let iov: Vec<_> = parts.iter().map(pointed).collect();
    let mut sertype: *const c::ddsi_sertype = std::ptr::null();
    // SAFETY: there is room for one pointer. It points to the type of the writer's topic
    // (CycloneDDS derives another type for a writer only if the type requests it, and types of
    // `cdds_create_blob_topic` do not), and the topic holds its own reference. Another thread may
    // close the writer at any moment; but its topic outlives the `Writer` (see there), and the
    // `Writer` outlives this call. Otherwise only the participant could end the topic, and it is
    // dropped last.
    checked(ACTION, unsafe { c::dds_get_entity_sertype(writer.0, &raw mut sertype) })?;
    // SAFETY: `sertype` is that of a topic made by `cdds_create_blob_topic`. `iov` has the given
    // number of entries, whose lengths add up to `len`, below 2^31. They are only read (C does not
    // say const) and copied into the sample's own block before the call returns.
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
        // SAFETY: `data` is the sample made above, of this type; we still hold its own reference.
        samples.push(unsafe { Reference::new(sertype, data) });
        replaced
    });
    // SAFETY: `data` is a sample of the writer's type; the call takes over one reference. (If the
    // writer is gone, it leaks.)
    checked(ACTION, unsafe { c::dds_writecdr(writer.0, data) }).map(|_| replaced.unwrap_or(0))
}
