// SPDX-License-Identifier: Apache-2.0
//! Appends values to bytes, one after the other.

use super::error::{CdrError, Fault};
use super::{ByteOrder, HEADER_LEN, Number};

/// Writes a sample from its beginning to its end. Padding is zeros. Allocates as it grows.
///
/// ```
/// use driveline_rosidl::cdr::{ByteOrder, Encoder};
/// let mut encoder = Encoder::new(ByteOrder::Little);
/// encoder.string(b"hi")?;
/// assert_eq!(encoder.finish(), [0, 1, 0, 0, 3, 0, 0, 0, b'h', b'i', 0]);
/// # Ok::<(), driveline_rosidl::cdr::CdrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Encoder {
    out: Vec<u8>,
    order: ByteOrder,
}

impl Encoder {
    /// Returns an encoder that begins with the encapsulation of this byte order.
    #[must_use]
    pub fn new(order: ByteOrder) -> Self {
        Self { out: vec![0, u8::from(order == ByteOrder::Little), 0, 0], order }
    }

    pub(crate) fn error(&self, fault: Fault) -> CdrError {
        CdrError::new(fault, self.out.len())
    }

    fn align(&mut self, align: usize) {
        let gap = (self.out.len() - HEADER_LEN).wrapping_neg() & (align - 1);
        self.out.resize(self.out.len() + gap, 0);
    }

    /// Writes a number.
    pub fn number<T: Number>(&mut self, value: T) {
        self.align(T::LEN);
        value.append(&mut self.out, self.order);
    }

    /// Writes the numbers of an array, without a length before them.
    pub fn numbers<T: Number>(&mut self, values: &[T]) {
        if values.is_empty() {
            return;
        }
        self.align(T::LEN);
        self.out.reserve(values.len().saturating_mul(T::LEN));
        for value in values {
            value.append(&mut self.out, self.order);
        }
    }

    /// Writes the bytes of an array, without a length before them.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Writes the length of a sequence.
    ///
    /// # Errors
    /// [`Fault::TooLong`]
    pub fn length(&mut self, len: usize) -> Result<(), CdrError> {
        let len = u32::try_from(len).map_err(|_| self.error(Fault::TooLong(len)))?;
        self.number(len);
        Ok(())
    }

    /// Writes a string, given without its NUL.
    ///
    /// # Errors
    /// [`Fault::TooLong`]
    pub fn string(&mut self, text: &[u8]) -> Result<(), CdrError> {
        self.length(text.len().saturating_add(1))?;
        self.bytes(text);
        self.out.push(0);
        Ok(())
    }

    /// Writes a wstring of these UTF-16 units.
    ///
    /// # Errors
    /// [`Fault::TooLong`]
    pub fn wstring(&mut self, units: &[u16]) -> Result<(), CdrError> {
        self.length(units.len())?;
        units.iter().for_each(|u| self.number(u32::from(*u)));
        Ok(())
    }

    /// Returns the sample with its encapsulation, without padding after it.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.out
    }
}
