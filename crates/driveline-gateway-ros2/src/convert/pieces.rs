// SPDX-License-Identifier: Apache-2.0
//! Samples in one piece or in several. Zenoh splits a long sample into pieces for its links, and
//! the sample arrives in these pieces. Its long parts are copied once, from the pieces to their
//! destination.

use super::error::{ConvertError, Result};
use driveline_rosidl::cdr::{Decoder, HEADER_LEN};
use std::borrow::Cow;
use std::ops::Range;

/// Number of bytes at the beginning of a sample that are joined for reading, if the first piece is
/// shorter. In a sample that can be converted, the pixels, points or returns begin within these
/// bytes.
const BEGINNING: usize = 1024;
/// Number of bytes at the end that are joined. The data after the pixels, points or returns is
/// shorter.
const END: usize = 8;

/// Sample with its encapsulation, in borrowed pieces.
#[derive(Clone, Copy, Debug)]
pub struct Pieces<'a> {
    pieces: Of<'a>,
    len: usize,
}

#[derive(Clone, Copy, Debug)]
enum Of<'a> {
    One([&'a [u8]; 1]),
    Several(&'a [&'a [u8]]),
}

impl<'a> From<&'a [u8]> for Pieces<'a> {
    fn from(sample: &'a [u8]) -> Self {
        Self { pieces: Of::One([sample]), len: sample.len() }
    }
}

impl<'a> From<&'a [&'a [u8]]> for Pieces<'a> {
    fn from(pieces: &'a [&'a [u8]]) -> Self {
        Self { pieces: Of::Several(pieces), len: pieces.iter().map(|p| p.len()).sum() }
    }
}

impl<'a> Pieces<'a> {
    /// Length of the sample, in bytes.
    #[must_use]
    #[expect(
        clippy::len_without_is_empty,
        reason = "an empty one is broken, as are others that are too short"
    )]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns the pieces of a range of the sample; fewer bytes if the sample ends earlier.
    pub fn part(&self, range: Range<usize>) -> impl Iterator<Item = &'a [u8]> {
        let (one, several) = match self.pieces {
            Of::One([piece]) => (Some(piece), &[][..]),
            Of::Several(pieces) => (None, pieces),
        };
        let mut begin = 0_usize;
        one.into_iter().chain(several.iter().copied()).filter_map(move |piece| {
            let within = |at: usize| at.saturating_sub(begin).min(piece.len());
            let part = piece.get(within(range.start)..within(range.end));
            begin += piece.len();
            part.filter(|part| !part.is_empty())
        })
    }

    /// Copies a range of the sample to a buffer of the same length.
    pub(super) fn copy(&self, range: Range<usize>, to: &mut [u8]) -> Result<()> {
        let (room, len) = (to.len(), range.len());
        let mut rest = to;
        for part in self.part(range) {
            let Some((now, later)) = std::mem::take(&mut rest).split_at_mut_checked(part.len())
            else {
                return Err(ConvertError::Payload(format!(
                    "there are {len} bytes of data, and the message has room for {room}"
                )));
            };
            now.copy_from_slice(part);
            rest = later;
        }
        if rest.is_empty() {
            Ok(())
        } else {
            Err(ConvertError::Payload(format!(
                "there are {len} bytes of data, and the message has room for {room}"
            )))
        }
    }

    /// Copies the whole sample to a buffer of the same length.
    ///
    /// # Errors
    /// [`ConvertError::Payload`] if it has another length.
    pub fn copy_to(&self, to: &mut [u8]) -> Result<()> {
        self.copy(0..self.len, to)
    }

    /// Returns the whole sample in one piece: borrowed if it arrived in one piece, else a copy.
    #[must_use]
    pub fn whole(&self) -> Cow<'a, [u8]> {
        self.one().map_or_else(
            || self.part(0..self.len).collect::<Vec<_>>().concat().into(),
            Cow::Borrowed,
        )
    }

    /// Returns its encapsulation, which is plain CDR.
    ///
    /// # Errors
    /// [`ConvertError::Cdr`] if it is not plain CDR.
    pub fn encapsulation(&self) -> Result<[u8; HEADER_LEN]> {
        let mut head = [0; HEADER_LEN];
        let there = head.get_mut(..self.len.min(HEADER_LEN)).unwrap_or_default();
        self.copy(0..there.len(), there)?;
        Decoder::new(there)?;
        Ok(head)
    }

    /// Returns the sample if it arrived in one piece.
    #[must_use]
    pub fn one(&self) -> Option<&'a [u8]> {
        match self.pieces {
            Of::One([piece]) => Some(piece),
            Of::Several(pieces) => match pieces {
                [] => Some(&[]),
                [piece] => Some(piece),
                _ => None,
            },
        }
    }

    /// Parses the sample. `parse` skips the long parts, and reads only the beginning and the end.
    /// If parsing these fails, the whole sample is joined and parsed: it is broken, or its type
    /// must be read in full.
    pub(super) fn read<T>(&self, parse: impl Fn(Decoder<'_>) -> Result<T>) -> Result<T> {
        if let Some(sample) = self.one() {
            return parse(Decoder::new(sample)?);
        }
        let (mut beginning, mut end) = ([0; BEGINNING], [0; END]);
        let first = self.part(0..self.len).next().unwrap_or_default();
        let beginning = if first.len() >= BEGINNING {
            first
        } else {
            let there = beginning.get_mut(..self.len.min(BEGINNING)).unwrap_or_default();
            self.copy(0..there.len(), there)?;
            there
        };
        if let Some(from) = self.len.checked_sub(END) {
            self.copy(from..self.len, &mut end)?;
            if let Ok(read) = parse(Decoder::of_ends(beginning, &end, self.len)?) {
                return Ok(read);
            }
        }
        parse(Decoder::new(&self.whole())?)
    }
}

/// Sample of ROS 2 that is forwarded unchanged.
#[derive(Debug)]
pub struct PassedOn<'a> {
    head: [u8; HEADER_LEN],
    sample: Pieces<'a>,
    padding: usize,
}

impl<'a> PassedOn<'a> {
    /// Pads the sample to a multiple of 4 bytes, at most `max_len`.
    ///
    /// # Errors
    /// [`ConvertError`] if its encapsulation is not plain CDR, or it is too long.
    pub fn new(sample: Pieces<'a>, max_len: usize) -> Result<Self> {
        let [first, second, ..] = sample.encapsulation()?;
        let padding = sample.len().wrapping_neg() & 3;
        let len = sample.len().saturating_add(padding);
        if len > max_len {
            return Err(ConvertError::TooLong { len, max: max_len });
        }
        // The options, the last two bytes of the encapsulation, may state padding that the sample
        // does not have any more.
        Ok(Self { head: [first, second, 0, padding as u8], sample, padding })
    }

    /// Returns its parts in order.
    #[must_use]
    pub fn parts(&self) -> Vec<&[u8]> {
        const ZEROS: &[u8] = &[0; 3];
        let padding = ZEROS.get(..self.padding).unwrap_or_default();
        let head = std::iter::once(self.head.as_slice());
        head.chain(self.sample.part(HEADER_LEN..self.sample.len()))
            .chain(std::iter::once(padding))
            .collect()
    }
}
