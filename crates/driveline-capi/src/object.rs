// SPDX-License-Identifier: Apache-2.0
//! Values of C++ that move inside the process as pointers.

use driveline::{EncodeError, Language, LocalObject};
use std::any::Any;
use std::ffi::{CStr, c_char, c_int, c_void};

/// What can be done with a value of C or C++. Static: it and what it names live as long as the process.
///
/// The functions are called on any thread, `drop` exactly once, after everything else. They must not let exceptions out.
#[repr(C)]
pub struct dl_object_vtable {
    /// `sizeof(dl_object_vtable)`.
    pub size: usize,
    /// Identity of the type: the pointer passes only to readers that ask for the same. Never NULL.
    pub type_id: *const c_char,
    /// Destroys the value.
    pub drop: Option<unsafe extern "C" fn(object: *mut c_void)>,
    /// Length when serialised, in bytes; negative if it cannot be. NULL for objects that never leave the process.
    pub encoded_len: Option<unsafe extern "C" fn(object: *const c_void) -> i64>,
    /// Serialises into exactly `len` bytes and returns 0; anything else is a failure whose text was given to
    /// `dl_set_last_error`.
    pub encode: Option<unsafe extern "C" fn(object: *const c_void, into: *mut u8, len: usize) -> c_int>,
}

// SAFETY: a vtable is static and never written; its functions may be called from any thread.
unsafe impl Sync for dl_object_vtable {}

/// An owned value of C++.
pub(crate) struct CppObject {
    pointer: *mut c_void,
    vtable: &'static dl_object_vtable,
}

// SAFETY: whoever publishes a value gives up every way to change it (contract of `dl_publisher_publish_object`); from
// then on it is only read through const pointers, which C++ types permit from several threads, and dropped once.
unsafe impl Send for CppObject {}
// SAFETY: as above.
unsafe impl Sync for CppObject {}

impl CppObject {
    /// Takes over a value.
    ///
    /// # Safety
    /// `pointer` is a value that `vtable` is for, owned by nobody else; the vtable and its functions live for ever.
    pub(crate) unsafe fn new(pointer: *mut c_void, vtable: &'static dl_object_vtable) -> Self {
        Self { pointer, vtable }
    }

    /// The value, if it is of this type.
    pub(crate) fn pointer(&self, type_id: &CStr) -> Option<*const c_void> {
        // SAFETY: a valid vtable has a NUL-terminated static text there (checked for NULL by who accepts vtables).
        let own = unsafe { CStr::from_ptr(self.vtable.type_id) };
        (own == type_id).then_some(self.pointer.cast_const())
    }
}

impl Drop for CppObject {
    fn drop(&mut self) {
        if let Some(drop) = self.vtable.drop {
            // SAFETY: the value is owned and of the vtable's type; this is the only call.
            unsafe { drop(self.pointer) };
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
        let len = unsafe { self.vtable.encoded_len?(self.pointer) };
        usize::try_from(len).ok()
    }

    fn encode(&self, into: &mut [u8]) -> Result<(), EncodeError> {
        let Some(encode) = self.vtable.encode else {
            return Err(EncodeError { reason: "values of this type cannot be serialised".into() });
        };
        // SAFETY: the value is alive and of the vtable's type, and the buffer has the length that is given.
        match unsafe { encode(self.pointer, into.as_mut_ptr(), into.len()) } {
            0 => Ok(()),
            _ => Err(EncodeError { reason: crate::status::take_last_error().unwrap_or_else(|| "the serialiser gave no reason".into()) }),
        }
    }
}
