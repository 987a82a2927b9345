// SPDX-License-Identifier: Apache-2.0
//! Reads values from bytes, one after the other.

use super::error::{CdrError, Fault};
use super::{ByteOrder, HEADER_LEN, Number};
use std::ops::Range;

type Result<T, E = CdrError> = std::result::Result<T, E>;

/// Reads a sample from its beginning to its end. It copies and allocates only where a method
/// returns a vector, and for errors.
///
/// ```
/// use driveline_rosidl::cdr::Decoder;
/// let sample = [0, 1, 0, 0, 3, 0, 0, 0, b'h', b'i', 0];
/// let mut decoder = Decoder::new(&sample)?;
/// assert_eq!(decoder.string()?, b"hi");
/// decoder.finish()?;
/// # Ok::<(), driveline_rosidl::cdr::CdrError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    /// The sample without its encapsulation. If only parts of the sample are available, its
    /// beginning.
    body: &'a [u8],
    /// The end of the sample, if the part between `body` and `end` is not available; else empty.
    end: &'a [u8],
    /// Length of the complete body in bytes.
    len: usize,
    at: usize,
    order: ByteOrder,
}

impl<'a> Decoder<'a> {
    /// Returns a decoder of a sample with its encapsulation.
    ///
    /// # Errors
    /// [`Fault::NoHeader`], [`Fault::Encapsulation`].
    pub fn new(sample: &'a [u8]) -> Result<Self> {
        let Some((header, body)) = sample.split_first_chunk::<HEADER_LEN>() else {
            return Err(CdrError::new(Fault::NoHeader { len: sample.len() }, 0));
        };
        // The other two bytes are options, which receivers ignore.
        let order = match u16::from_be_bytes([header[0], header[1]]) {
            0 => ByteOrder::Big,
            1 => ByteOrder::Little,
            other => return Err(CdrError::new(Fault::Encapsulation(other), 0)),
        };
        Ok(Self { body, end: &[], len: body.len(), at: 0, order })
    }

    /// Returns a decoder of a sample of `len` bytes of which only the beginning, with the
    /// encapsulation, and the end are available. The part between can be
    /// [skipped](Self::pass_over); reading it is a fault.
    ///
    /// # Errors
    /// [`Fault::NoHeader`], [`Fault::Encapsulation`].
    pub fn of_ends(beginning: &'a [u8], end: &'a [u8], len: usize) -> Result<Self> {
        let of_beginning = Self::new(beginning)?;
        Ok(Self { end, len: len.saturating_sub(HEADER_LEN).max(of_beginning.len), ..of_beginning })
    }

    /// Returns the byte order that the encapsulation specifies.
    #[must_use]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Returns the position in bytes from the beginning of the sample, encapsulation included.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at + HEADER_LEN
    }

    /// Returns the number of bytes not read yet.
    #[must_use]
    pub fn left(&self) -> usize {
        self.len - self.at
    }

    pub(crate) fn error(&self, fault: Fault) -> CdrError {
        CdrError::new(fault, self.offset())
    }

    fn truncated(&self, needed: u64) -> CdrError {
        self.error(Fault::Truncated { needed, left: self.left() })
    }

    /// Returns the next `len` bytes, after the padding that aligns them to `align`, a power of two.
    pub(super) fn take(&mut self, len: u64, align: usize) -> Result<&'a [u8]> {
        let gap = self.at.wrapping_neg() & (align - 1);
        let needed = len.saturating_add(gap as u64);
        if needed > self.left() as u64 {
            return Err(self.truncated(needed));
        }
        // `needed` is at most `left()`, so it fits a usize.
        let (from, to) = (self.at + gap, self.at + needed as usize);
        let found = match (self.body.get(from..to), self.len.saturating_sub(self.end.len())) {
            (Some(found), _) => found,
            (None, _) if from == to => &[],
            (None, end) => {
                let found = from.checked_sub(end).and_then(|from| self.end.get(from..to - end));
                found.ok_or_else(|| {
                    self.error(Fault::Truncated {
                        needed,
                        left: self.body.len().saturating_sub(self.at),
                    })
                })?
            }
        };
        self.at = to;
        Ok(found)
    }

    /// Skips `count` bytes without reading them and returns their range in the sample,
    /// encapsulation included.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn pass_over(&mut self, count: u32) -> Result<Range<usize>> {
        if u64::from(count) > self.left() as u64 {
            return Err(self.truncated(count.into()));
        }
        let from = self.offset();
        self.at += count as usize;
        Ok(from..self.offset())
    }

    /// Reads a number.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn number<T: Number>(&mut self) -> Result<T> {
        self.take(T::LEN as u64, T::LEN).map(|b| T::from_bytes(b, self.order))
    }

    /// Reads `count` numbers of an array, which has no length before it. Allocates for them after a
    /// check that they are present.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn numbers<T: Number>(&mut self, count: u32) -> Result<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        let bytes = self.take(u64::from(count) * T::LEN as u64, T::LEN)?;
        Ok(bytes.chunks_exact(T::LEN).map(|b| T::from_bytes(b, self.order)).collect())
    }

    /// Returns `count` bytes of an array, which has no length before it.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn bytes(&mut self, count: u32) -> Result<&'a [u8]> {
        self.take(count.into(), 1)
    }

    /// Reads a boolean.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Bool`]
    pub fn bool(&mut self) -> Result<bool> {
        let before = self.clone();
        match self.number::<u8>()? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(before.error(Fault::Bool(other))),
        }
    }

    /// Reads `count` booleans of an array, which has no length before it.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Bool`]
    pub fn bools(&mut self, count: u32) -> Result<Vec<bool>> {
        Ok(self.bool_bytes(count)?.iter().map(|b| *b == 1).collect())
    }

    /// As [`bools`](Self::bools), without a copy.
    pub(super) fn bool_bytes(&mut self, count: u32) -> Result<&'a [u8]> {
        let from = self.offset();
        let bytes = self.bytes(count)?;
        // Check all of them at once first, which takes a tenth of the time.
        if bytes.iter().fold(0, |all, b| all | b) <= 1 {
            return Ok(bytes);
        }
        match bytes.iter().position(|b| *b > 1) {
            Some(at) => Err(CdrError::new(Fault::Bool(bytes[at]), from + at).in_element(at)),
            None => Ok(bytes),
        }
    }

    /// Reads the length of a sequence whose elements take at least `min_len` bytes each; for a
    /// string, `min_len` is 1.
    ///
    /// # Errors
    /// [`Fault::Truncated`]; [`Fault::Length`] and [`Fault::ByteOrder`] if there are not enough
    /// bytes for that length.
    pub fn length(&mut self, min_len: u64) -> Result<u32> {
        let mut ahead = self.clone();
        let declared: u32 = ahead.number()?;
        let left = ahead.left();
        let fits = |n: u32| u64::from(n).saturating_mul(min_len) <= left as u64;
        if !fits(declared) {
            let swapped = declared.swap_bytes();
            // Usual lengths are small, so if the swapped length fits, the byte order is the likely
            // cause.
            let fault = if fits(swapped) {
                Fault::ByteOrder { declared, swapped }
            } else {
                Fault::Length { declared, left }
            };
            return Err(self.error(fault));
        }
        *self = ahead;
        Ok(declared)
    }

    /// Reads the bytes of a string, without its NUL.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Length`], [`Fault::ByteOrder`], [`Fault::Terminator`]
    pub fn string(&mut self) -> Result<&'a [u8]> {
        let len = self.length(1)?;
        match self.bytes(len)? {
            [] => Ok(&[]),
            [text @ .., 0] => Ok(text),
            _ => Err(self.error(Fault::Terminator)),
        }
    }

    /// Reads the UTF-16 units of a wstring.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Length`], [`Fault::ByteOrder`], [`Fault::WideUnit`]
    pub fn wstring(&mut self) -> Result<Vec<u16>> {
        self.wide_units()?.collect()
    }

    /// As [`wstring`](Self::wstring), as an iterator.
    pub(super) fn wide_units(&mut self) -> Result<impl Iterator<Item = Result<u16>> + use<'a>> {
        let len = self.length(4)?;
        let (from, order) = (self.offset(), self.order);
        let bytes = self.take(u64::from(len) * 4, 4)?;
        let unit = move |(i, b)| {
            let unit: u32 = super::number::sealed::Number::from_bytes(b, order);
            u16::try_from(unit).map_err(|_| CdrError::new(Fault::WideUnit(unit), from + i * 4))
        };
        Ok(bytes.chunks_exact(4).enumerate().map(unit))
    }

    /// Checks that the sample ends here.
    ///
    /// # Errors
    /// [`Fault::Trailing`], except for padding.
    pub fn finish(&self) -> Result<()> {
        match self.left() {
            left @ 0..4 if left == 0 || self.len.is_multiple_of(4) => Ok(()),
            left => Err(self.error(Fault::Trailing(left))),
        }
    }
}
