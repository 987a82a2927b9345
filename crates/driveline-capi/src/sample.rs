// SPDX-License-Identifier: Apache-2.0
//! Received samples.

use crate::object::{CppObject, dl_shared_object};
use crate::recycle::{Handle, Recycler, Spare};
use crate::schema::dl_text;
use crate::sized::{SizedStruct, check_result, write_result};
use crate::status::*;
use driveline::RawSample;
use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;
use std::thread::LocalKey;

/// One received message. Immutable; any thread may read it, one thread drops it. Holding it keeps
/// its memory.
#[derive(Default)]
pub struct dl_sample {
    value: Option<Held>,
}

pub(crate) struct Held {
    raw: RawSample,
    /// Bytes of a value that came as a pointer of another language, once they were requested.
    encoded: OnceLock<Vec<u8>>,
}

impl Handle for dl_sample {
    type Value = Held;
    fn value(&mut self) -> &mut Option<Held> {
        &mut self.value
    }
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }
}

thread_local! {
    static SPARE: Spare<dl_sample> = const { Cell::new(None) };
}

static HANDLES: Recycler<dl_sample> = Recycler::new();

impl dl_sample {
    pub(crate) fn into_handle(raw: RawSample) -> *mut Self {
        Box::into_raw(HANDLES.fill(Held { raw, encoded: OnceLock::new() }))
    }

    pub(crate) fn raw(&self) -> Outcome<&RawSample> {
        self.held().map(|h| &h.raw)
    }

    fn object(&self) -> Outcome<Option<&CppObject>> {
        Ok(self.raw()?.object().and_then(|o| o.as_any().downcast_ref()))
    }

    fn held(&self) -> Outcome<&Held> {
        self.value.as_ref().ok_or_else(|| Failure::argument("argument 'sample' was dropped before"))
    }
}

impl Held {
    fn bytes(&self) -> Outcome<&[u8]> {
        if let Some(bytes) = self.raw.payload() {
            return Ok(bytes);
        }
        if let Some(bytes) = self.encoded.get() {
            return Ok(bytes);
        }
        let fail = |reason: &dyn std::fmt::Display| {
            Failure::new(
                DL_ERROR_ENCODE,
                format_args!("sample {}: {reason}", self.raw.header().sequence),
            )
        };
        let object =
            self.raw.object().ok_or_else(|| fail(&"it holds neither bytes nor a value"))?;
        let len = object.encoded_len().ok_or_else(|| {
            fail(&"an object cannot be read as bytes; read it in the language that published it")
        })?;
        let mut bytes = vec![0; len];
        driveline::conversion::during(|| object.encode(&mut bytes)).map_err(|e| fail(&e))?;
        // Another thread may have been faster; both have the same bytes.
        Ok(self.encoded.get_or_init(|| bytes))
    }
}

/// Metadata of a sample. Times are `CLOCK_MONOTONIC` of this host, in nanoseconds; the gateway
/// converts those of other hosts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_sample_header {
    /// `sizeof(dl_sample_header)`, set by the caller; no more is written.
    pub size: usize,
    /// 1 for a publisher's first sample, then one more each.
    pub sequence: u64,
    /// Time of publication.
    pub publish_time_ns: u64,
    /// The publisher's `CLOCK_REALTIME - CLOCK_MONOTONIC` at that time.
    pub wall_offset_ns: i64,
    /// Shared by everything that descends from one source sample; never 0.
    pub trace_id: u64,
    /// Payload length in bytes; 0 for a pointer.
    pub payload_len: u64,
    /// XXH3-64 of the payload if `has_checksum`.
    pub checksum: u64,
    /// 1 if the header has a checksum.
    pub has_checksum: u32,
    /// Number of origins, see `dl_sample_get_origin`.
    pub origin_count: u32,
    /// Number of origins that did not fit.
    pub origins_dropped: u32,
    /// Zero.
    pub reserved: u32,
    /// Number of this publisher's samples missed since the previous one.
    pub missed: u64,
}

/// A source that a sample descends from, and where its age went: `publish_time_ns -
/// source_oldest_ns = communication_ns + computation_ns + idle_ns`. Age and parts are signed: they
/// can be negative if the data came from another host, whose clock is known only approximately, or
/// if a source time is in the future.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_origin {
    /// `sizeof(dl_origin)`, set by the caller; no more is written.
    pub size: usize,
    /// Id of the source topic, see `dl_topic_id`.
    pub topic_id: u64,
    /// Source time of the oldest data that contributed; wraps (as an `int64_t` it is negative) if
    /// it came from another host and was seen before this host's clock began.
    pub source_oldest_ns: u64,
    /// Source time of the newest data that contributed; may wrap as well.
    pub source_newest_ns: u64,
    /// From a publish to the start of the callback that it triggered, summed over the hops.
    pub communication_ns: i64,
    /// From the start of a callback (at the source: from the source time) to the publish, summed.
    pub computation_ns: i64,
    /// Time that data waited until a timer or another input caused it to be read, summed.
    pub idle_ns: i64,
}

// SAFETY: `repr(C)`, `size` is first, integers may be zero.
unsafe impl SizedStruct for dl_sample_header {
    const NAME: &'static str = "dl_sample_header";
    const FIRST: usize = 80;
}
// SAFETY: `repr(C)`, `size` is first, integers may be zero.
unsafe impl SizedStruct for dl_origin {
    const NAME: &'static str = "dl_origin";
    const FIRST: usize = 56;
}

/// Reads a sample's header.
///
/// # Safety
/// `sample` is NULL or a live handle; `header` is NULL or points to a `dl_sample_header` whose
/// `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_get_header(
    sample: *const dl_sample,
    header: *mut dl_sample_header,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let raw = unsafe { borrow("sample", sample)? }.raw()?;
        let h = raw.header();
        let value = dl_sample_header {
            size: 0,
            sequence: h.sequence,
            publish_time_ns: h.publish_time.0,
            wall_offset_ns: h.wall_offset_ns,
            trace_id: h.trace_id,
            payload_len: h.payload_len,
            checksum: h.checksum.unwrap_or(0),
            has_checksum: u32::from(h.checksum.is_some()),
            origin_count: h.origins.as_slice().len() as u32,
            origins_dropped: h.origins_dropped(),
            reserved: 0,
            missed: raw.missed(),
        };
        // SAFETY: this function's contract.
        unsafe { write_result("header", header, value) }
    })
}

/// Reads one of the sample's origins, `index` from 0 to `origin_count - 1`.
///
/// # Safety
/// `sample` is NULL or a live handle; `origin` is NULL or points to a `dl_origin` whose `size` is
/// set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_get_origin(
    sample: *const dl_sample,
    index: usize,
    origin: *mut dl_origin,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let origins = unsafe { borrow("sample", sample)? }.raw()?.header().origins;
        let have = origins.as_slice();
        let o = have.get(index).ok_or_else(|| {
            Failure::argument(format_args!(
                "origin {index} was asked for; the sample has {}",
                have.len()
            ))
        })?;
        let value = dl_origin {
            size: 0,
            topic_id: o.topic.0,
            source_oldest_ns: o.source_oldest.0,
            source_newest_ns: o.source_newest.0,
            communication_ns: o.communication_ns,
            computation_ns: o.computation_ns,
            idle_ns: o.idle_ns,
        };
        // SAFETY: this function's contract.
        unsafe { write_result("origin", origin, value) }
    })
}

/// The payload's bytes, in place. Borrowed: valid until the handle is dropped. A value that came as
/// a pointer is serialised into memory of this handle at the first call, which allocates.
///
/// # Safety
/// `sample` is NULL or a live handle; `data` and `len` are NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_payload(
    sample: *const dl_sample,
    data: *mut *const u8,
    len: *mut usize,
) -> dl_status {
    guard(|| {
        place("len", len)?;
        // SAFETY: this function's contract.
        let bytes = unsafe { borrow("sample", sample)? }.held()?.bytes()?;
        // SAFETY: this function's contract.
        unsafe { put("data", data, bytes.as_ptr()).and_then(|()| put("len", len, bytes.len())) }
    })
}

/// The value, if it came as a pointer to the type `type_id` of C++; else `*value` is NULL, and the
/// payload has the bytes if it is a message (objects have none). Borrowed: valid until the handle
/// is dropped; not to be changed.
///
/// # Safety
/// `sample` is NULL or a live handle; `type_id` is NULL or NUL-terminated; `value` is NULL or valid
/// for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_object(
    sample: *const dl_sample,
    type_id: *const c_char,
    value: *mut *const c_void,
) -> dl_status {
    guard(|| {
        place("value", value)?;
        // SAFETY: this function's contract.
        let (object, type_id) =
            unsafe { (borrow("sample", sample)?.object()?, type_name(type_id)?) };
        // SAFETY: this function's contract.
        unsafe {
            put("value", value, object.and_then(|o| o.value(type_id)).unwrap_or(std::ptr::null()))
        }
    })
}

/// As `dl_sample_object`, but the value may outlive the sample and then no longer counts as held.
/// Allocates.
///
/// # Safety
/// `sample` is NULL or a live handle; `type_id` is NULL or NUL-terminated; `shared` is NULL or
/// points to a `dl_shared_object` whose `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_share(
    sample: *const dl_sample,
    type_id: *const c_char,
    shared: *mut dl_shared_object,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (object, type_id) = unsafe {
            check_result("shared", shared)?;
            (borrow("sample", sample)?.object()?, type_name(type_id)?)
        };
        let made = object.map(|o| o.share(type_id)).transpose()?.flatten();
        let none = dl_shared_object {
            size: 0,
            value: std::ptr::null(),
            owner: std::ptr::null_mut(),
            drop: None,
        };
        // SAFETY: this function's contract.
        unsafe { write_result("shared", shared, made.unwrap_or(none)) }
    })
}

/// Type of the C++ value that the sample came with, as its publisher names it; empty if there is
/// none. Borrowed from the sample.
///
/// # Safety
/// `sample` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_object_type(sample: *const dl_sample) -> dl_text {
    // SAFETY: this function's contract.
    let object = unsafe { sample.as_ref() }.and_then(|s| s.object().ok().flatten());
    dl_text::of(object.and_then(|o| o.type_id().to_str().ok()).unwrap_or_default())
}

/// # Safety
/// `type_id` is NULL or NUL-terminated, and outlives `'a`.
unsafe fn type_name<'a>(type_id: *const c_char) -> Outcome<&'a CStr> {
    place("type_id", type_id.cast_mut())?;
    // SAFETY: not NULL, this function's contract.
    Ok(unsafe { CStr::from_ptr(type_id) })
}

/// A second handle to the same message; no payload is copied, and it counts as held once. `*clone`:
/// owned.
///
/// # Safety
/// `sample` is NULL or a live handle; `clone` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_clone(
    sample: *const dl_sample,
    clone: *mut *mut dl_sample,
) -> dl_status {
    guard(|| {
        place("clone", clone)?;
        // SAFETY: this function's contract.
        let raw = unsafe { borrow("sample", sample)? }.raw()?.clone();
        // SAFETY: this function's contract.
        unsafe { put("clone", clone, dl_sample::into_handle(raw)) }
    })
}

/// Releases a sample. `*sample` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `sample` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_sample_drop(sample: *mut *mut dl_sample) {
    guard_value((), || {
        // SAFETY: this function's contract.
        if let Some(handle) = unsafe { take(sample) } {
            HANDLES.clear(handle);
        }
    });
}

#[cfg(test)]
#[path = "sample_tests.rs"]
mod tests;
