// SPDX-License-Identifier: Apache-2.0
//! Publishers and loans.

use crate::context::dl_node;
use crate::event::dl_event;
use crate::object::{CppObject, dl_object_vtable};
use crate::options::{dl_publisher_options, publisher_options};
use crate::recycle::{Handle, Recycler, Spare};
use crate::schema::dl_schema;
use crate::sized::{SizedStruct, read_known, write_result};
use crate::status::*;
use driveline::{EndpointError, LoanError, PublishError, RawLoan, RawPublisher};
use driveline_types::MonotonicNs;
use std::cell::Cell;
use std::ffi::{c_char, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::LocalKey;

/// The sending end of a topic. Any thread; calls from several threads are made one after another.
pub struct dl_publisher {
    raw: Mutex<RawPublisher>,
}

/// Memory for one payload that only the holder can see, until it is published. One thread at a
/// time.
#[derive(Default)]
pub struct dl_loan {
    value: Option<RawLoan>,
}

impl Handle for dl_loan {
    type Value = RawLoan;
    fn value(&mut self) -> &mut Option<RawLoan> {
        &mut self.value
    }
    fn spare() -> &'static LocalKey<Spare<Self>> {
        &SPARE
    }
}

thread_local! {
    static SPARE: Spare<dl_loan> = const { Cell::new(None) };
}

static LOANS: Recycler<dl_loan> = Recycler::new();

impl dl_publisher {
    pub(crate) fn new(raw: RawPublisher) -> Self {
        Self { raw: Mutex::new(raw) }
    }

    fn raw(&self) -> MutexGuard<'_, RawPublisher> {
        self.raw.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a handle for a loan of a client or a responder.
pub(crate) fn loan_handle(raw: RawLoan) -> *mut dl_loan {
    Box::into_raw(LOANS.fill(raw))
}

/// Takes a loan out of the caller's variable.
///
/// # Safety
/// `loan` is NULL or points to NULL or to an owned handle.
pub(crate) unsafe fn taken_loan(loan: *mut *mut dl_loan) -> Outcome<RawLoan> {
    // SAFETY: this function's contract.
    let raw = unsafe { take(loan) }.and_then(|handle| LOANS.empty(handle));
    raw.ok_or_else(|| {
        Failure::argument("argument 'loan' is NULL: it was published, dropped or never taken")
    })
}

/// Reads a C++ value given as an argument. The value is moved if the vtable is valid.
///
/// # Safety
/// `object` is a value that `vtable` is for; `vtable` is NULL or static.
pub(crate) unsafe fn object_argument(
    object: *mut c_void,
    vtable: *const dl_object_vtable,
) -> Outcome<Arc<CppObject>> {
    // SAFETY: this function's contract says NULL or static.
    let vtable = unsafe { read_known("vtable", vtable)? };
    if vtable.type_id.is_null() || vtable.clone.is_none() || vtable.drop.is_none() {
        return Err(Failure::argument("the vtable needs type_id, clone and drop"));
    }
    place("object", object)?;
    // SAFETY: this function's contract; the vtable was checked.
    Ok(Arc::new(unsafe { CppObject::new(object, vtable) }))
}

impl From<EndpointError> for Failure {
    fn from(e: EndpointError) -> Self {
        let status = match e {
            EndpointError::Name(_) => DL_ERROR_NAME,
            _ => DL_ERROR_ENDPOINT,
        };
        Self::new(status, e)
    }
}

impl From<LoanError> for Failure {
    fn from(e: LoanError) -> Self {
        let status = match &e {
            LoanError::TooLong { .. }
            | LoanError::Host { source: driveline_shm::LoanError::TooLong { .. }, .. } => {
                DL_ERROR_TOO_LONG
            }
            LoanError::AllHeld { .. } => DL_ERROR_LOANS_OUT,
            LoanError::AllOut { .. }
            | LoanError::Host { source: driveline_shm::LoanError::TooManyLoans { .. }, .. } => {
                DL_ERROR_LOANS_OUT
            }
            LoanError::NotBytes { .. } => DL_ERROR_WRONG_KIND,
            LoanError::Host { .. } => DL_ERROR_TRANSPORT,
        };
        Self::new(status, e)
    }
}

impl From<PublishError> for Failure {
    fn from(e: PublishError) -> Self {
        let status = match e {
            PublishError::Loan(e) => return e.into(),
            PublishError::ForeignLoan { .. } | PublishError::NotObject { .. } => {
                DL_ERROR_WRONG_KIND
            }
            PublishError::Encode { .. } => DL_ERROR_ENCODE,
            PublishError::Inactive { .. } => DL_ERROR_INACTIVE,
            PublishError::Host { .. } => DL_ERROR_TRANSPORT,
        };
        Self::new(status, e)
    }
}

/// Creates a publisher and reserves all its memory. `options`: NULL takes the defaults.
/// `*publisher`: owned by the caller, to be given to `dl_publisher_drop`; it may outlive node,
/// context and schema.
///
/// # Safety
/// Handles are NULL or live; `topic` is NULL or NUL-terminated; `options` is NULL or its `size`
/// bytes are readable; `publisher` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_new(
    node: *const dl_node,
    topic: *const c_char,
    schema: *const dl_schema,
    options: *const dl_publisher_options,
    publisher: *mut *mut dl_publisher,
) -> dl_status {
    guard(|| {
        place("publisher", publisher)?;
        // SAFETY: this function's contract.
        let (node, topic, schema, options) = unsafe {
            (
                borrow("node", node)?,
                text("topic", topic)?,
                borrow("schema", schema)?,
                publisher_options(options)?,
            )
        };
        let raw = node.node.raw_publisher(topic, schema.schema.clone(), options)?;
        // SAFETY: this function's contract.
        unsafe { put("publisher", publisher, Box::into_raw(Box::new(dl_publisher::new(raw)))) }
    })
}

/// Drops a publisher and notifies its subscriptions. `*publisher` (moved) becomes NULL; NULL is
/// permitted.
///
/// # Safety
/// `publisher` is NULL or points to NULL or to an owned handle that no other thread uses.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_drop(publisher: *mut *mut dl_publisher) {
    // SAFETY: this function's contract.
    unsafe { release(publisher) }
}

/// Memory for a payload of `len` bytes (plain and bytes), aligned to 64. `*loan`: owned by the
/// caller, to be given to `dl_publisher_publish` or `dl_loan_drop`. Its content is an earlier
/// sample's. Does not allocate, except for the first handles of a thread. Blocks only while another
/// thread uses this publisher.
///
/// # Safety
/// `publisher` is NULL or a live handle; `loan` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_loan(
    publisher: *const dl_publisher,
    len: usize,
    loan: *mut *mut dl_loan,
) -> dl_status {
    guard(|| {
        place("loan", loan)?;
        // SAFETY: this function's contract.
        let raw = unsafe { borrow("publisher", publisher)? }.raw().loan(len)?;
        // SAFETY: this function's contract.
        unsafe { put("loan", loan, Box::into_raw(LOANS.fill(raw))) }
    })
}

/// The loan's memory. Borrowed: valid until the loan is moved; may be written.
///
/// # Safety
/// `loan` is NULL or a live handle; `data` and `len` are NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_loan_payload(
    loan: *mut dl_loan,
    data: *mut *mut u8,
    len: *mut usize,
) -> dl_status {
    guard(|| {
        place("len", len)?;
        // SAFETY: this function's contract.
        let payload = unsafe { live(loan)? }.payload_mut();
        // SAFETY: this function's contract.
        unsafe {
            put("len", len, payload.len()).and_then(|()| put("data", data, payload.as_mut_ptr()))
        }
    })
}

/// Makes the payload shorter; a longer `len` changes nothing.
///
/// # Safety
/// `loan` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_loan_shrink(loan: *mut dl_loan, len: usize) -> dl_status {
    // SAFETY: this function's contract.
    guard(|| unsafe { live(loan) }.map(|l| l.shrink(len)))
}

/// Sets the time of measurement, in nanoseconds of `CLOCK_MONOTONIC`. Effective only at a source:
/// samples that descend from others inherit their times.
///
/// # Safety
/// `loan` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_loan_set_source_time(
    loan: *mut dl_loan,
    source_time_ns: u64,
) -> dl_status {
    // SAFETY: this function's contract.
    guard(|| unsafe { live(loan) }.map(|l| l.set_source_time(MonotonicNs(source_time_ns))))
}

/// # Safety
/// `loan` is NULL, or a live handle that is not used elsewhere during `'a`.
unsafe fn live<'a>(loan: *mut dl_loan) -> Outcome<&'a mut RawLoan> {
    // SAFETY: this function's contract; `as_mut` checks for NULL.
    let handle = unsafe { loan.as_mut() };
    handle.and_then(|l| l.value.as_mut()).ok_or_else(|| {
        Failure::argument("argument 'loan' is NULL: it was published, dropped or never taken")
    })
}

/// Returns a loan unpublished. `*loan` (moved) becomes NULL; NULL is permitted.
///
/// # Safety
/// `loan` is NULL or points to NULL or to an owned handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_loan_drop(loan: *mut *mut dl_loan) {
    guard_value((), || {
        // SAFETY: this function's contract.
        if let Some(handle) = unsafe { take(loan) } {
            LOANS.clear(handle);
        }
    });
}

/// Publishes a loan. `*loan` (moved) becomes NULL, whatever the result. `sequence`: NULL, or
/// receives the sample's number. Waits for readers only if the topic is reliable, at most
/// `max_blocking_ms`; also waits while another thread publishes with this publisher. In a
/// component's callback the sample inherits the origins of what the callback consumed.
///
/// # Safety
/// `publisher` is NULL or a live handle; `loan` is NULL or points to NULL or to an owned handle;
/// `sequence` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_publish(
    publisher: *const dl_publisher,
    loan: *mut *mut dl_loan,
    sequence: *mut u64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let (raw, publisher) = unsafe { (taken_loan(loan), borrow("publisher", publisher)?) };
        let number = publisher.raw().publish(raw?)?;
        // SAFETY: this function's contract.
        if sequence.is_null() { Ok(()) } else { unsafe { put("sequence", sequence, number) } }
    })
}

/// Publishes a value (protobuf and object). Readers inside the process get the pointer. Readers
/// outside get its bytes, which are serialised once, if there is such a reader or the topic is
/// transient-local.
///
/// `object` is moved, whatever the result, unless `vtable` is not valid; it must not be changed any
/// more. `source_time_ns`: time of measurement, 0 if it is not a source. `sequence`: NULL, or
/// receives the sample's number.
///
/// # Safety
/// `publisher` is NULL or a live handle; `object` is a value that `vtable` is for; `vtable` is NULL
/// or static; `sequence` is NULL or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_publish_object(
    publisher: *const dl_publisher,
    object: *mut c_void,
    vtable: *const dl_object_vtable,
    source_time_ns: u64,
    sequence: *mut u64,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let object = unsafe { object_argument(object, vtable)? };
        // If no reader keeps the value, `_last` is its last owner, so its destructor runs after the
        // lock was released.
        let _last = object.clone();
        // SAFETY: this function's contract.
        let publisher = unsafe { borrow("publisher", publisher)? };
        let source = (source_time_ns != 0).then_some(MonotonicNs(source_time_ns));
        let (published, displaced) = {
            let mut raw = publisher.raw();
            (raw.publish_object(object, source), raw.take_displaced())
        };
        // Dropped after the lock was released: a destructor may publish to this publisher.
        drop(displaced);
        let number = published?;
        // SAFETY: this function's contract.
        if sequence.is_null() { Ok(()) } else { unsafe { put("sequence", sequence, number) } }
    })
}

/// Counters of a publisher since its creation.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_publisher_stats {
    /// `sizeof(dl_publisher_stats)`, set by the caller.
    pub size: usize,
    /// Samples published.
    pub published: u64,
    /// Samples that newer ones replaced before they were read, over all subscriptions to which this
    /// publisher passes pointers.
    pub overwritten: u64,
    /// Values that were serialised for readers outside.
    pub serialised: u64,
    /// Periods of the offered deadline that ended without a sample, from the first sample on.
    pub deadlines_missed: u64,
}

// SAFETY: `repr(C)`, `size` is first, integers may be zero.
unsafe impl SizedStruct for dl_publisher_stats {
    const NAME: &'static str = "dl_publisher_stats";
    const FIRST: usize = 32;
}

/// Reads the counters.
///
/// # Safety
/// `publisher` is NULL or a live handle; `stats` is NULL or points to a `dl_publisher_stats` whose
/// `size` is set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_get_stats(
    publisher: *const dl_publisher,
    stats: *mut dl_publisher_stats,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let s = unsafe { borrow("publisher", publisher)? }.raw().stats();
        let value = dl_publisher_stats {
            size: 0,
            published: s.published,
            overwritten: s.overwritten,
            serialised: s.serialised,
            deadlines_missed: s.deadlines_missed,
        };
        // SAFETY: this function's contract.
        unsafe { write_result("stats", stats, value) }
    })
}

/// Number of subscriptions that are matched now; 0 for NULL.
///
/// # Safety
/// `publisher` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_matched(publisher: *const dl_publisher) -> usize {
    // SAFETY: this function's contract.
    guard_value(0, || unsafe { publisher.as_ref() }.map_or(0, |p| p.raw().matched()))
}

/// Takes the next event; its kind is `DL_EVENT_NONE` if there is none.
///
/// # Safety
/// `publisher` is NULL or a live handle; `event` is NULL or points to a `dl_event` whose `size`,
/// `text` and `text_capacity` are set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_poll_event(
    publisher: *const dl_publisher,
    event: *mut dl_event,
) -> dl_status {
    guard(|| {
        // SAFETY: this function's contract.
        let mut raw = unsafe { borrow("publisher", publisher)? }.raw();
        // SAFETY: this function's contract.
        unsafe { crate::event::poll(event, || raw.poll_event()) }
    })
}

/// Asserts liveliness for `DL_LIVELINESS_MANUAL_BY_TOPIC`. Publishing asserts it as well.
///
/// # Safety
/// `publisher` is NULL or a live handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_publisher_assert_liveliness(
    publisher: *const dl_publisher,
) -> dl_status {
    // SAFETY: this function's contract.
    guard(|| unsafe { borrow("publisher", publisher) }.map(|p| p.raw().assert_liveliness()))
}
