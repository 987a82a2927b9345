// SPDX-License-Identifier: Apache-2.0
//! Values of C++ that move inside the process as pointers.

use crate::sized::SizedStruct;
use crate::status::*;
use driveline::{EncodeError, Language, LocalObject};
use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};

/// Functions of a value of C or C++. Static: its pointers are valid as long as the process.
///
/// Only these functions access an object, whichever library it is in; its content is private to its
/// maker. They are called on any thread and must not throw.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct dl_object_vtable {
    /// `sizeof(dl_object_vtable)`.
    pub size: usize,
    /// Identity of the value's type, including everything that separately compiled code must agree
    /// on to read it. The pointer passes only to readers with the same identity. Never NULL.
    pub type_id: *const c_char,
    /// The value in an object, valid as long as the object. NULL: the object is the value.
    pub value: Option<unsafe extern "C" fn(object: *const c_void) -> *const c_void>,
    /// A second object with the same value, which needs no copy; it may outlive the first one. NULL
    /// is a failure whose text was given to `dl_set_last_error`.
    pub clone: Option<unsafe extern "C" fn(object: *const c_void) -> *mut c_void>,
    /// Destroys an object: exactly once for each, after everything else.
    pub drop: Option<unsafe extern "C" fn(object: *mut c_void)>,
    /// Length when serialised, in bytes; negative if it cannot be. NULL for objects that never
    /// leave the process.
    pub encoded_len: Option<unsafe extern "C" fn(object: *const c_void) -> i64>,
    /// Serialises into exactly `len` bytes and returns 0; anything else is a failure whose text was
    /// given to `dl_set_last_error`.
    pub encode:
        Option<unsafe extern "C" fn(object: *const c_void, into: *mut u8, len: usize) -> c_int>,
}

// SAFETY: a vtable is static and never written; its functions may be called from any thread.
unsafe impl Sync for dl_object_vtable {}

// SAFETY: `repr(C)`, `size` is first, pointers may be NULL and functions absent.
unsafe impl SizedStruct for dl_object_vtable {
    const NAME: &'static str = "dl_object_vtable";
    const FIRST: usize = 56;
}

/// A value that may outlive the sample that it came with.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct dl_shared_object {
    /// `sizeof(dl_shared_object)`, set by the caller.
    pub size: usize,
    /// The value; not to be changed. NULL if there was none of the type.
    pub value: *const c_void,
    /// Keeps the value alive. Owned: to be given to `drop`, once, on any thread.
    pub owner: *mut c_void,
    /// Releases the value. A function of the library that published it.
    pub drop: Option<unsafe extern "C" fn(owner: *mut c_void)>,
}

// SAFETY: `repr(C)`, `size` is first, pointers may be NULL and functions absent.
unsafe impl SizedStruct for dl_shared_object {
    const NAME: &'static str = "dl_shared_object";
    const FIRST: usize = 32;
}

/// An owned object of C++.
pub(crate) struct CppObject {
    object: *mut c_void,
    vtable: dl_object_vtable,
}

// SAFETY: the publisher of a value gives up every way to change it (contract of
// `dl_publisher_publish_object`); from then on it is only read through const pointers, which C++
// types permit from several threads, and dropped once.
unsafe impl Send for CppObject {}
// SAFETY: as above.
unsafe impl Sync for CppObject {}

impl CppObject {
    /// Takes over an object.
    ///
    /// # Safety
    /// `object` is an object of the vtable's type and has no other owner; the vtable has a type,
    /// `clone` and `drop`, and its pointers are valid for ever.
    pub(crate) unsafe fn new(object: *mut c_void, vtable: dl_object_vtable) -> Self {
        Self { object, vtable }
    }

    /// Identity of the value's type.
    pub(crate) fn type_id(&self) -> &CStr {
        // SAFETY: a valid vtable has a NUL-terminated static text there (code that accepts a vtable
        // checks it for NULL).
        unsafe { CStr::from_ptr(self.vtable.type_id) }
    }

    /// Returns the value, if it is of this type. The pointer is valid as long as `self`.
    pub(crate) fn value(&self, type_id: &CStr) -> Option<*const c_void> {
        (self.type_id() == type_id).then(|| self.value_in(self.object))
    }

    fn value_in(&self, object: *const c_void) -> *const c_void {
        // SAFETY: an object of the vtable's type, which is alive.
        self.vtable.value.map_or(object, |value| unsafe { value(object) })
    }

    /// Returns the value with an owner of its own, if it is of this type.
    pub(crate) fn share(&self, type_id: &CStr) -> Outcome<Option<dl_shared_object>> {
        if self.type_id() != type_id {
            return Ok(None);
        }
        let clone = self
            .vtable
            .clone
            .ok_or_else(|| Failure::new(DL_ERROR_INTERNAL, "an object without a clone function"))?;
        // SAFETY: the object is alive and of the vtable's type.
        let owner = unsafe { clone(self.object) };
        if owner.is_null() {
            let reason = take_last_error().unwrap_or_else(|| "it gave no reason".into());
            return Err(Failure::new(
                DL_ERROR_COMPONENT,
                format_args!("the publisher's library cannot share its value: {reason}"),
            ));
        }
        Ok(Some(dl_shared_object {
            size: 0,
            value: self.value_in(owner),
            owner,
            drop: self.vtable.drop,
        }))
    }
}

impl Drop for CppObject {
    fn drop(&mut self) {
        if let Some(drop) = self.vtable.drop {
            // SAFETY: the object is owned and of the vtable's type; this is the only call.
            unsafe { drop(self.object) };
        }
    }
}

impl LocalObject for CppObject {
    fn language(&self) -> Language {
        Language::Cpp
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn encoded_len(&self) -> Option<usize> {
        // SAFETY: the value is alive and of the vtable's type.
        let len = unsafe { self.vtable.encoded_len?(self.object) };
        usize::try_from(len).ok()
    }

    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError> {
        let Some(encode) = self.vtable.encode else {
            return Err(EncodeError { reason: "values of this type cannot be serialised".into() });
        };
        // SAFETY: the value is alive and of the vtable's type, and the buffer has the length that
        // is given.
        match unsafe { encode(self.object, into.as_mut_ptr(), into.len()) } {
            0 => Ok(()),
            _ => Err(EncodeError {
                reason: take_last_error().unwrap_or_else(|| "the serialiser gave no reason".into()),
            }),
        }
    }
}
