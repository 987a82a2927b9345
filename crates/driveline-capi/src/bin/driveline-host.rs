// SPDX-License-Identifier: Apache-2.0
//! Program that runs one module of a graph.
//!
//! The program contains no part of Driveline itself, but loads `libdriveline.so`. Component
//! libraries are linked to the same library, so a process contains Driveline only once. The program
//! searches for the library next to itself (as cargo builds it) and in the directories of an
//! installation.
#![expect(unsafe_code, reason = "loads a library and calls its C function")]

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::ffi::{CString, OsString, c_char, c_int};
use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

type HostMain = unsafe extern "C" fn(argc: c_int, argv: *const *const c_char) -> c_int;

/// Exit status if the library is missing or invalid.
const UNUSABLE: u8 = 69;

/// Name of the library for the dynamic linker.
const SONAME: &str = "libdriveline.so.0";

/// Candidate places of the library, relative to the directory of the program.
const PLACES: [&str; 4] = [
    "libdriveline.so",
    "../lib/libdriveline.so.0",
    "../../lib/libdriveline.so.0",
    "../lib64/libdriveline.so.0",
];

fn main() -> ExitCode {
    match run() {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(u8::MAX)),
        Err(text) => {
            // Standard error may be closed.
            let _ = writeln!(std::io::stderr(), "error: {text}");
            ExitCode::from(UNUSABLE)
        }
    }
}

fn run() -> Result<c_int, String> {
    let program = std::env::current_exe()
        .map_err(|e| format!("cannot find out where this program is: {e}"))?;
    let path = library_next_to(&program);
    // SAFETY: this program was built or installed with this library; its initialisers are Rust's.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_GLOBAL) }.map_err(|e| {
        let reason =
            std::error::Error::source(&e).map_or_else(|| e.to_string(), ToString::to_string);
        format!("cannot load {}: {reason}", path.display())
    })?;
    // SAFETY: `dl_host_main` has this type in every release with this SONAME.
    let main = unsafe { library.get::<HostMain>(b"dl_host_main\0") }
        .map_err(|e| format!("{} is not Driveline's: {e}", path.display()))?;
    let arguments: Vec<CString> =
        std::env::args_os().map(OsString::into_vec).filter_map(|a| CString::new(a).ok()).collect();
    let pointers: Vec<*const c_char> = arguments.iter().map(|a| a.as_ptr()).collect();
    let count = c_int::try_from(pointers.len()).map_err(|_| "too many arguments".to_owned())?;
    // SAFETY: `count` NUL-terminated strings, alive until the function returns.
    let status = unsafe { main(count, pointers.as_ptr()) };
    // Threads of components may still run, so the library stays loaded until the process ends.
    std::mem::forget(library);
    Ok(status)
}

fn library_next_to(program: &Path) -> PathBuf {
    let directory = program.parent().unwrap_or(Path::new("/"));
    let candidates = PLACES.map(|p| directory.join(p));
    // If no candidate exists, the dynamic linker searches its own paths.
    candidates.into_iter().find(|p| p.exists()).unwrap_or_else(|| PathBuf::from(SONAME))
}
