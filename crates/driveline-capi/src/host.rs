// SPDX-License-Identifier: Apache-2.0
//! The program that runs one module of a graph, as a function.

use crate::loader::Loader;
use crate::status::guard_value;
use std::ffi::{CStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStringExt;

/// Exit status after a defect of Driveline itself.
const INTERNAL: c_int = 70;

/// Runs the host with the arguments of its `main` and returns its exit status. Blocks until the
/// module has ended, and takes over SIGINT and SIGTERM. The executable that calls it must share
/// this library with the components.
///
/// # Safety
/// `argv` is NULL or points to `argc` NUL-terminated strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dl_host_main(argc: c_int, argv: *const *const c_char) -> c_int {
    guard_value(INTERNAL, || {
        let count = if argv.is_null() { 0 } else { usize::try_from(argc).unwrap_or(0) };
        let arguments = (1..count).filter_map(|i| {
            // SAFETY: below `argc`, this function's contract.
            let argument = unsafe { *argv.add(i) };
            (!argument.is_null()).then(|| {
                // SAFETY: NUL-terminated by contract.
                OsString::from_vec(unsafe { CStr::from_ptr(argument) }.to_bytes().to_vec())
            })
        });
        crate::log::to_stderr_unless_set("info");
        c_int::from(driveline_runtime::host::main(arguments, &Loader))
    })
}
