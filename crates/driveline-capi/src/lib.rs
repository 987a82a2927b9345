// SPDX-License-Identifier: Apache-2.0
//! The C ABI of Driveline: `libdriveline.so` and `driveline.h`.
//!
//! Everything that C++ and other languages use goes through here; the header is generated from this
//! source and compared with the committed one by a test. Rules of the whole ABI:
//! - every function returns a [`dl_status`] or cannot fail (`dl_host_main` returns an exit status);
//!   the detail of a failure is text in `dl_last_error()`;
//! - no panic and no exception crosses the ABI, and no function ends the process. One exception:
//!   functions that load a component library end the process if an initialiser of it throws
//!   ([`loader`]);
//! - handles are opaque. A function that consumes one takes `T **`, marked "moved", and leaves NULL
//!   behind, so that using it twice is an error and not a crash. A "borrowed" result stays the
//!   callee's; each function documents how long it is valid;
//! - structs that may grow start with `size`, which their maker sets to `sizeof` (module `sized`).
//!
//! Not here: any behaviour of the middleware. This crate converts, checks and forwards.
#![expect(
    unsafe_code,
    reason = "a C ABI is made of raw pointers; this crate is where they are checked"
)]
// The loom model (tests/loom_turn.rs) includes a single file and needs nothing else of the crate.
#![cfg(not(loom))]
#![allow(non_camel_case_types, reason = "the names of types are those of the C header")]

pub mod component;
pub mod context;
pub mod conversion;
pub mod event;
mod exclusive;
pub mod host;
pub mod loader;
pub mod log;
pub mod object;
pub mod options;
pub mod parameter;
pub mod publisher;
pub mod recycle;
pub mod sample;
pub mod schema;
pub mod service;
mod sized;
pub mod status;
pub mod subscription;
pub mod testing;
mod turn;
pub mod version;

#[cfg(test)]
mod header_tests;
#[cfg(test)]
mod live_view_tests;
