// SPDX-License-Identifier: Apache-2.0
//! Versions of the library and of the ABI of component libraries.

use std::ffi::{CStr, c_char};

const VERSION: &CStr =
    match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
        Ok(v) => v,
        Err(_) => c"",
    };

/// Version of the ABI between component libraries and their host. A library built for another one
/// is refused; the error names the library.
pub const DL_COMPONENT_ABI: u32 = 1;

/// Version of the library, such as "0.1.0". Static.
#[unsafe(no_mangle)]
pub extern "C" fn dl_version() -> *const c_char {
    VERSION.as_ptr()
}
