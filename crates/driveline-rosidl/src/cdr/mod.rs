// SPDX-License-Identifier: Apache-2.0
//! CDR as ROS 2 sends it: XCDR version 1, plain, in either byte order, after four bytes of
//! encapsulation.
//!
//! - A primitive is aligned to its size, at most 8, counted from the end of the encapsulation.
//!   Padding is ignored when read, and written as zeros.
//! - A string is its length with its NUL as `u32`, its bytes, and the NUL. A length of 0 is read as
//!   an empty string, as rmw_cyclonedds and Fast CDR do; a missing NUL is an error.
//! - A wstring is the number of its UTF-16 units as `u32`, then each unit as `u32`, without NUL.
//!   rmw_cyclonedds and rmw_fastrtps agree on this, although the specification differs.
//! - A bool is 0 or 1.
//! - An empty sequence is its length alone, without padding for the alignment of elements.
//! - After the sample, up to three bytes of any value may pad its length to a multiple of four, as
//!   some implementations do. More bytes are an error, because they indicate a sample of another
//!   type.
//!
//! Every length is compared with the number of remaining bytes before memory is allocated.

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
