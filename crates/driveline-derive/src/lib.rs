// SPDX-License-Identifier: Apache-2.0
//! Declares plain types: C-layout structs that Driveline carries between processes without copying
//! or encoding.
//!
//! ```
//! use driveline_derive::plain_type;
//!
//! /// Wheel speeds in metres per second.
//! #[plain_type(name = "demo/WheelSpeeds")]
//! struct WheelSpeeds {
//!     source_time_ns: u64,
//!     speed_m_s: [f32; 4],
//! }
//!
//! /// A head that an array of bytes follows.
//! #[plain_type(name = "demo/Blob", tail(data: u8))]
//! struct Blob {
//!     source_time_ns: u64,
//! }
//! # let _ = (WheelSpeeds { source_time_ns: 0, speed_m_s: [0.0; 4] }, Blob { source_time_ns: 0 });
//! ```
//!
//! A field is an integer of fixed size, a float, a plain struct, or an array of these. Other types
//! are refused:
//!
//! ```compile_fail,E0277
//! #[repr(u32)] #[derive(Clone, Copy)] enum Gear { Park }
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { gear: Gear }
//! ```
//!
//! A plain struct can be a field, or the element of a trailing array, only if it has no trailing
//! array itself:
//!
//! ```
//! #[driveline_derive::plain_type(name = "demo/Blob")] struct Blob { id: u32 }
//! #[driveline_derive::plain_type(name = "demo/T", tail(blobs: Blob))] struct T { blob: Blob }
//! ```
//! ```compile_fail,E0271
//! #[driveline_derive::plain_type(name = "demo/Blob", tail(data: u8))] struct Blob { id: u32 }
//! #[driveline_derive::plain_type(name = "demo/T", tail(blobs: u8))] struct T { blob: Blob }
//! ```
//! ```compile_fail,E0271
//! #[driveline_derive::plain_type(name = "demo/Blob", tail(data: u8))] struct Blob { id: u32 }
//! #[driveline_derive::plain_type(name = "demo/T", tail(blobs: Blob))] struct T { blob: u32 }
//! ```
//!
//! Padding between fields and at the end is refused. An explicit field can fill the gap:
//!
//! ```
//! #[driveline_derive::plain_type(name = "demo/T")]
//! struct T { id: u32, _reserved: [u8; 4], speed_m_s: f64 }
//! ```
//! ```compile_fail,E0277
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { id: u32, speed_m_s: f64 }
//! ```
//! ```compile_fail,E0277
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { speed_m_s: f64, id: u32 }
//! ```
//!
//! More than 256 fields are refused, and so are empty arrays. In an array of structs, each field of
//! each element counts, so 128 points of two fields are just permitted:
//!
//! ```
//! #[driveline_derive::plain_type(name = "demo/Point")] struct Point { x: f32, y: f32 }
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { points: [Point; 128] }
//! ```
//! ```compile_fail,E0080
//! #[driveline_derive::plain_type(name = "demo/Point")] struct Point { x: f32, y: f32 }
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { points: [Point; 129] }
//! ```
//! ```compile_fail,E0080
//! #[driveline_derive::plain_type(name = "demo/T")] struct T { id: u32, values: [f32; 0] }
//! ```
//!
//! Users reach both macros through the `driveline` crate; it (or `driveline-types`) is all they
//! depend on.

mod derive;
mod options;

use proc_macro::TokenStream;

/// Makes a struct a plain type.
///
/// It adds `#[repr(C)]` and derives `Clone`, `Copy`, `Plain` and what that rests on (zerocopy's
/// `FromBytes`, `IntoBytes`, `Immutable`, `KnownLayout`).
///
/// Options, as for [`macro@Plain`]: `name = "package/Type"` (required), `tail(NAME: TYPE)` for a
/// trailing array, `crate = PATH` with the path of the crate `driveline_types`, such as
/// `driveline::types`, where the macro does not find it through the dependencies in `Cargo.toml`.
///
/// Put it above other attributes such as `#[derive(Debug)]`.
#[proc_macro_attribute]
pub fn plain_type(options: TokenStream, item: TokenStream) -> TokenStream {
    derive::plain_type(options.into(), item.into()).into()
}

/// Implements `driveline::Plain` for a `#[repr(C)]` struct that also derives `Clone`, `Copy`,
/// `FromBytes`, `IntoBytes`, `Immutable` and `KnownLayout`. [`macro@plain_type`] writes all of that
/// in one line.
///
/// `#[plain(name = "package/Type")]` names the type; with `tail(NAME: TYPE)` an array of `TYPE` (a
/// primitive or a plain struct) follows the struct in each payload. Fields are `u8` to `u64`, `i8`
/// to `i64`, `f32`, `f64`, plain structs without a trailing array, and fixed arrays of all these.
/// Padding is refused: add explicit fields instead.
#[proc_macro_derive(Plain, attributes(plain))]
pub fn derive_plain(item: TokenStream) -> TokenStream {
    derive::derive_plain(item.into()).unwrap_or_else(|e| e.into_compile_error()).into()
}
