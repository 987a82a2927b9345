// SPDX-License-Identifier: Apache-2.0
//! Numbers in either byte order.

/// Bytes of encapsulation before a sample.
pub const HEADER_LEN: usize = 4;

/// Byte order of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Big-endian: most significant byte first; encapsulation `00 00`.
    Big,
    /// Little-endian: least significant byte first; encapsulation `00 01`. Almost all
    /// implementations send it.
    Little,
}

/// Numbers that are sent as in memory, or with reversed bytes.
pub trait Number: Copy + sealed::Number {}

impl<T: Copy + sealed::Number> Number for T {}

pub(super) mod sealed {
    use super::ByteOrder;

    pub trait Number: Sized {
        const LEN: usize;
        /// Returns the number in the first `LEN` bytes; zero if there are fewer.
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
