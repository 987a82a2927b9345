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
mod read;
mod write;

pub use check::check;
pub use decoder::Decoder;
pub use encoder::Encoder;
pub use error::{CdrError, Fault, PathPart};
pub use read::{ReadLimits, read, read_with};
pub use write::write;

/// Bytes of encapsulation before a sample.
pub const HEADER_LEN: usize = 4;

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The greatest; encapsulation `00 00`.
    Big,
    /// The least; encapsulation `00 01`. What practically everybody sends.
    Little,
}

/// Numbers that are sent as they lie in memory, perhaps reversed.
pub trait Number: Copy + sealed::Number {}

impl<T: Copy + sealed::Number> Number for T {}

mod sealed {
    use super::ByteOrder;

    pub trait Number: Sized {
        const LEN: usize;
        /// From the first `LEN` bytes; zero if there are fewer.
        fn from_bytes(bytes: &[u8], order: ByteOrder) -> Self;
        fn append(self, out: &mut Vec<u8>, order: ByteOrder);
    }

    macro_rules! number {
        ($($t:ty)*) => {$(
            impl Number for $t {
                const LEN: usize = size_of::<$t>();

                fn from_bytes(bytes: &[u8], order: ByteOrder) -> Self {
                    let bytes = bytes.first_chunk().copied().unwrap_or_default();
                    match order {
                        ByteOrder::Big => Self::from_be_bytes(bytes),
                        ByteOrder::Little => Self::from_le_bytes(bytes),
                    }
                }

                fn append(self, out: &mut Vec<u8>, order: ByteOrder) {
                    match order {
                        ByteOrder::Big => out.extend_from_slice(&self.to_be_bytes()),
                        ByteOrder::Little => out.extend_from_slice(&self.to_le_bytes()),
                    }
                }
            }
        )*};
    }

    number!(u8 i8 u16 i16 u32 i32 u64 i64 f32 f64);
}
