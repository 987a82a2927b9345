// SPDX-License-Identifier: Apache-2.0
//! Samples towards ROS 2.

use super::error::{ConvertError, Result};
use driveline_rosidl::cdr::HEADER_LEN;

/// Sample for ROS 2, in three consecutive parts: the encapsulation is at the beginning, padding at
/// the end.
#[derive(Debug)]
pub struct ToRos<'a> {
    head: Vec<u8>,
    body: &'a [u8],
    tail: [u8; 4],
    tail_len: usize,
}

impl<'a> ToRos<'a> {
    /// Wraps a payload that is already a sample of ROS 2.
    ///
    /// # Errors
    /// [`ConvertError`] if its encapsulation is not plain CDR, or it is too long.
    pub fn of_cdr(payload: &'a [u8], max_len: usize) -> Result<Self> {
        driveline_rosidl::cdr::Decoder::new(payload)?;
        let (encapsulation, body) = payload.split_at(HEADER_LEN);
        // The options, the last two bytes of the encapsulation, may state padding that the payload
        // does not have any more.
        Self::of(vec![encapsulation[0], encapsulation[1], 0, 0], body, &[]).bounded(max_len)
    }

    /// `head` begins with an encapsulation. `behind`: data after the body, at most one byte.
    pub(super) fn of(head: Vec<u8>, body: &'a [u8], behind: &[u8]) -> Self {
        let mut sample = Self { head, body, tail: [0; 4], tail_len: 0 };
        // The tail: at most one byte of data, then up to three zeros.
        for (to, from) in sample.tail.iter_mut().zip(behind) {
            *to = *from;
        }
        let len = sample.head.len() + body.len() + behind.len();
        let padding = len.wrapping_neg() & 3;
        sample.tail_len = (behind.len() + padding).min(4);
        if let Some(options) = sample.head.get_mut(3) {
            *options = padding as u8;
        }
        sample
    }

    pub(super) fn bounded(self, max: usize) -> Result<Self> {
        let len = self.len();
        if len > max { Err(ConvertError::TooLong { len, max }) } else { Ok(self) }
    }

    /// Length in bytes, a multiple of 4.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "there is always an encapsulation")]
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len() + self.tail_len
    }

    /// Returns the parts.
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, self.body, self.tail.get(..self.tail_len).unwrap_or_default()]
    }
}
