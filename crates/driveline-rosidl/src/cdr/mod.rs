// SPDX-License-Identifier: Apache-2.0
//! CDR as ROS 2 sends it: XCDR version 1, plain, in either byte order, behind the four bytes of
//! encapsulation.
//!
//! - Alignment is to the size of a primitive, at most 8, and counts from behind the encapsulation.
//!   What lies in gaps is ignored, and written as zeros.
//! - A string is its length with its NUL as `u32`, its bytes, and the NUL. A length of 0 is read as
//!   an empty string, as rmw_cyclonedds and Fast CDR do; a missing NUL is an error.
//! - A wstring is the number of its UTF-16 units as `u32`, then each unit as `u32`, without NUL:
//!   what rmw_cyclonedds and rmw_fastrtps agree on, though the specification says otherwise.
//! - A bool is 0 or 1.
//! - An empty sequence is its length alone: nothing is aligned for elements that are not there.
//! - Behind the sample there may be up to three bytes, of any value, if they fill up a multiple of
//!   four: some implementations pad. More is an error, because it is another type's sample.
//!
//! Every length is compared with the bytes that are left before anything is allocated.

mod check;
mod decoder;
mod encoder;
mod error;
mod number;
mod read;
mod write;

pub use check::check;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{CdrError, Fault, PathPart};
pub use number::{ByteOrder, HEADER_LEN, Number};
pub use read::{ReadLimits, read, read_with};
pub use write::write;
