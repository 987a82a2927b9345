// SPDX-License-Identifier: Apache-2.0
//! Status, its detail, and the checks that every C function makes.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Result of a call. For anything but `DL_OK`, `dl_last_error()` has the reason and the remedy.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum dl_status {
    /// Done.
    DL_OK = 0,
    /// An argument is NULL where it must not be, not UTF-8, or out of range; or a handle was used
    /// after it was moved.
    DL_ERROR_ARGUMENT = 1,
    /// The domain could not be joined.
    DL_ERROR_OPEN = 2,
    /// The name of a node, topic or service breaks the rules.
    DL_ERROR_NAME = 3,
    /// A publisher, subscription, client or service could not be created.
    DL_ERROR_ENDPOINT = 4,
    /// A payload is longer than its publisher, client or service was created for.
    DL_ERROR_TOO_LONG = 5,
    /// All loans are in use, or samples that readers hold occupy all buffers.
    DL_ERROR_LOANS_OUT = 6,
    /// The subscription holds as many samples as permitted.
    DL_ERROR_HELD_LIMIT = 7,
    /// The topic carries another kind of payload, or the loan is another publisher's.
    DL_ERROR_WRONG_KIND = 8,
    /// The transport refused.
    DL_ERROR_TRANSPORT = 9,
    /// A value could not be serialised.
    DL_ERROR_ENCODE = 10,
    /// Bytes could not be read as the type that they should have.
    DL_ERROR_DECODE = 11,
    /// The kernel refused a resource for waiting.
    DL_ERROR_WAIT = 12,
    /// There is no such parameter, it has another type, or the value was refused.
    DL_ERROR_PARAMETER = 13,
    /// A schema is malformed.
    DL_ERROR_SCHEMA = 14,
    /// Another thread uses this handle right now.
    DL_ERROR_BUSY = 15,
    /// A component reported failure.
    DL_ERROR_COMPONENT = 16,
    /// A component library could not be used.
    DL_ERROR_LIBRARY = 17,
    /// A defect of Driveline itself. The library stays usable; the handle in question may not be.
    DL_ERROR_INTERNAL = 18,
    /// No server offers the service, none that matches, or more than one.
    DL_ERROR_NO_SERVER = 19,
    /// The client has its maximum number of calls in flight, or the server's queue is full. Nothing
    /// was sent.
    DL_ERROR_SERVER_BUSY = 20,
    /// No response within the time-out.
    DL_ERROR_TIMED_OUT = 21,
    /// The other end of a service has ended: the server without a response, or the client that was
    /// to get the answer.
    DL_ERROR_PEER_GONE = 22,
    /// The server refused, dropped the request, or has no room; the text is the server's.
    DL_ERROR_REFUSED = 23,
    /// A blocking call would wait for a server that the calling thread keeps from running.
    DL_ERROR_WOULD_DEADLOCK = 24,
    /// The component is inactive: nothing is published until its next `on_activate`.
    DL_ERROR_INACTIVE = 25,
    /// The graph has no such mode, or the module has no launcher that could switch to it.
    DL_ERROR_MODE = 26,
}

pub(crate) use dl_status::*;

thread_local! {
    static LAST_ERROR: RefCell<CString> = RefCell::new(CString::default());
}

/// A failure to be returned to C.
pub(crate) struct Failure {
    pub(crate) status: dl_status,
    pub(crate) text: String,
}

impl Failure {
    pub(crate) fn new(status: dl_status, text: impl Display) -> Self {
        Self { status, text: text.to_string() }
    }

    pub(crate) fn argument(text: impl Display) -> Self {
        Self::new(DL_ERROR_ARGUMENT, text)
    }
}

pub(crate) type Outcome<T = ()> = Result<T, Failure>;

/// Runs the body of a function: panics become a status, failures leave their text behind.
pub(crate) fn guard(body: impl FnOnce() -> Outcome) -> dl_status {
    let failure = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => return DL_OK,
        Ok(Err(failure)) => failure,
        Err(panic) => Failure::new(
            DL_ERROR_INTERNAL,
            format_args!(
                "internal error: {}; please report it with what led to it",
                panic_text(panic.as_ref())
            ),
        ),
    };
    set_last_error(failure.text);
    failure.status
}

/// Runs the body of a function that cannot fail. After a panic, returns the fallback.
pub(crate) fn guard_value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

pub(crate) fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("panic without a message")
}

pub(crate) fn c_text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes = text.into();
    bytes.retain(|b| *b != 0);
    CString::new(bytes).unwrap_or_default()
}

fn set_last_error(text: impl Into<Vec<u8>>) {
    let text = c_text(text);
    // While the thread ends, no code remains to request the text.
    let _ = LAST_ERROR.try_with(|e| *e.borrow_mut() = text);
}

pub(crate) fn take_last_error() -> Option<String> {
    let text = LAST_ERROR.try_with(|e| std::mem::take(&mut *e.borrow_mut())).ok()?;
    (!text.is_empty()).then(|| text.to_string_lossy().into_owned())
}

/// The text of the calling thread's last failure; empty if there was none. Never NULL.
///
/// Borrowed: valid until the thread's next call that fails. Successful calls do not change it.
#[unsafe(no_mangle)]
pub extern "C" fn dl_last_error() -> *const c_char {
    guard_value(c"".as_ptr(), || {
        LAST_ERROR.try_with(|e| e.borrow().as_ptr()).unwrap_or(c"".as_ptr())
    })
}

/// Sets the text that `dl_last_error()` returns on this thread. For callbacks that report failure,
/// such as a component's.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_set_last_error(text: *const c_char) {
    guard_value((), || {
        // SAFETY: the caller promises what this function's contract requires; NULL is checked for.
        let text = if text.is_null() { c"" } else { unsafe { CStr::from_ptr(text) } };
        set_last_error(text.to_bytes());
    });
}

/// A string argument.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string that outlives `'a`.
pub(crate) unsafe fn text<'a>(name: &str, text: *const c_char) -> Outcome<&'a str> {
    if text.is_null() {
        return Err(Failure::argument(format_args!("argument '{name}' is NULL")));
    }
    // SAFETY: not NULL, and by this function's contract NUL-terminated and alive for 'a.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|e| Failure::argument(format_args!("argument '{name}' is not UTF-8: {e}")))
}

/// A string argument that may be NULL.
///
/// # Safety
/// As [`text`].
pub(crate) unsafe fn optional_text<'a>(
    name: &str,
    value: *const c_char,
) -> Outcome<Option<&'a str>> {
    if value.is_null() {
        return Ok(None);
    }
    // SAFETY: this function's contract is that of `text`.
    unsafe { text(name, value) }.map(Some)
}

/// Borrows a handle or struct.
///
/// # Safety
/// `pointer` is NULL or points to a live `T` that is not changed during `'a`.
pub(crate) unsafe fn borrow<'a, T>(name: &str, pointer: *const T) -> Outcome<&'a T> {
    // SAFETY: `as_ref` checks for NULL; the rest is this function's contract.
    unsafe { pointer.as_ref() }.ok_or_else(|| null(name))
}

/// Writes a result.
///
/// # Safety
/// `pointer` is NULL or valid for writing a `T`, and not used elsewhere during the call.
pub(crate) unsafe fn put<T>(name: &str, pointer: *mut T, value: T) -> Outcome {
    if pointer.is_null() {
        return Err(null(name));
    }
    // SAFETY: not NULL and by contract valid for writing. The previous content is not dropped: C
    // has no destructors.
    unsafe { pointer.write(value) };
    Ok(())
}

/// Refuses a NULL place for a result before any work is done.
pub(crate) fn place<T>(name: &str, pointer: *mut T) -> Outcome {
    if pointer.is_null() { Err(null(name)) } else { Ok(()) }
}

/// Takes a handle out of the caller's variable and leaves NULL there.
///
/// # Safety
/// `pointer` is NULL or points to a variable that is NULL or holds a handle made by `Box::into_raw`
/// and not freed.
pub(crate) unsafe fn take<T>(pointer: *mut *mut T) -> Option<Box<T>> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: not NULL; by contract a variable that only the caller uses.
    let handle = unsafe { pointer.replace(std::ptr::null_mut()) };
    if handle.is_null() {
        return None;
    }
    // SAFETY: by contract made by `Box::into_raw`; the variable gave it up, so it cannot be freed
    // again through it.
    Some(unsafe { Box::from_raw(handle) })
}

/// Frees a handle, if there is one, and catches panics.
///
/// # Safety
/// As [`take`].
pub(crate) unsafe fn release<T>(pointer: *mut *mut T) {
    // SAFETY: this function's contract is that of `take`.
    guard_value((), || drop(unsafe { take(pointer) }));
}

fn null(name: &str) -> Failure {
    Failure::argument(format_args!("argument '{name}' is NULL"))
}
