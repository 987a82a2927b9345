// SPDX-License-Identifier: Apache-2.0
//! Takes values out of bytes, one after the other.

use super::error::{CdrError, Fault};
use super::{ByteOrder, HEADER_LEN, Number};
use std::ops::Range;

type Result<T, E = CdrError> = std::result::Result<T, E>;

/// Reads a sample from its beginning to its end. Copies nothing of its own accord and allocates
/// nothing but for errors.
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
    /// Sample without its encapsulation, or the beginning of it.
    body: &'a [u8],
    /// Its end, if something between them is elsewhere.
    end: &'a [u8],
    /// Bytes of all of it.
    len: usize,
    at: usize,
    order: ByteOrder,
}

impl<'a> Decoder<'a> {
    /// Of a sample with its encapsulation.
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

    /// Reads a sample of `len` bytes of which only the beginning, with the encapsulation, and the
    /// end are available. The part between can be [passed over](Self::pass_over); reading it is a
    /// fault.
    ///
    /// # Errors
    /// [`Fault::NoHeader`], [`Fault::Encapsulation`].
    pub fn of_ends(beginning: &'a [u8], end: &'a [u8], len: usize) -> Result<Self> {
        let of_beginning = Self::new(beginning)?;
        Ok(Self { end, len: len.saturating_sub(HEADER_LEN).max(of_beginning.len), ..of_beginning })
    }

    /// As the encapsulation says.
    #[must_use]
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Bytes from the beginning of the sample, encapsulation included.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at + HEADER_LEN
    }

    /// Bytes that were not read yet.
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

    /// The next `len` bytes, behind the gap that aligns them to `align`, a power of two.
    pub(super) fn take(&mut self, len: u64, align: usize) -> Result<&'a [u8]> {
        let gap = self.at.wrapping_neg() & (align - 1);
        let needed = len.saturating_add(gap as u64);
        if needed > self.left() as u64 {
            return Err(self.truncated(needed));
        }
        // It fits, so it fits a usize.
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

    /// Passes over `count` bytes without looking at them, and says where in the sample they are,
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

    /// A number.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn number<T: Number>(&mut self) -> Result<T> {
        self.take(T::LEN as u64, T::LEN).map(|b| T::from_bytes(b, self.order))
    }

    /// `count` numbers without a length before them, as an array. Allocates for them once it knows
    /// that they are there.
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

    /// `count` bytes without a length before them, as an array.
    ///
    /// # Errors
    /// [`Fault::Truncated`]
    pub fn bytes(&mut self, count: u32) -> Result<&'a [u8]> {
        self.take(count.into(), 1)
    }

    /// A truth value.
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

    /// `count` truth values without a length before them.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Bool`]
    pub fn bools(&mut self, count: u32) -> Result<Vec<bool>> {
        Ok(self.bool_bytes(count)?.iter().map(|b| *b == 1).collect())
    }

    /// As [`bools`](Self::bools), where they lie.
    pub(super) fn bool_bytes(&mut self, count: u32) -> Result<&'a [u8]> {
        let from = self.offset();
        let bytes = self.bytes(count)?;
        // All together first, which takes a tenth of the time.
        if bytes.iter().fold(0, |all, b| all | b) <= 1 {
            return Ok(bytes);
        }
        match bytes.iter().position(|b| *b > 1) {
            Some(at) => Err(CdrError::new(Fault::Bool(bytes[at]), from + at).in_element(at)),
            None => Ok(bytes),
        }
    }

    /// The length of a sequence whose elements take `min_len` bytes each, or more; of a string
    /// with 1.
    ///
    /// # Errors
    /// [`Fault::Truncated`]; [`Fault::Length`] and [`Fault::ByteOrder`] if there are not enough
    /// bytes for so many.
    pub fn length(&mut self, min_len: u64) -> Result<u32> {
        let mut ahead = self.clone();
        let declared: u32 = ahead.number()?;
        let left = ahead.left();
        let fits = |n: u32| u64::from(n).saturating_mul(min_len) <= left as u64;
        if !fits(declared) {
            let swapped = declared.swap_bytes();
            // Small lengths are the usual ones. A great one that fits by accident says nothing.
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

    /// The bytes of a string, without its NUL.
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

    /// The UTF-16 units of a wstring.
    ///
    /// # Errors
    /// [`Fault::Truncated`], [`Fault::Length`], [`Fault::ByteOrder`], [`Fault::WideUnit`]
    pub fn wstring(&mut self) -> Result<Vec<u16>> {
        self.wide_units()?.collect()
    }

    /// As [`wstring`](Self::wstring), one after the other.
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

    /// At the end of the sample.
    ///
    /// # Errors
    /// [`Fault::Trailing`], but for padding.
    pub fn finish(&self) -> Result<()> {
        match self.left() {
            left @ 0..4 if left == 0 || self.len.is_multiple_of(4) => Ok(()),
            left => Err(self.error(Fault::Trailing(left))),
        }
    }
}
