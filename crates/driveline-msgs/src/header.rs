// SPDX-License-Identifier: Apache-2.0
//! The header of the plain messages, and text of fixed size.

use driveline_types::{MonotonicNs, plain_type};
use std::fmt;
use thiserror::Error;

/// Time and coordinate frame of a message's data.
#[plain_type(name = "driveline/Header")]
#[derive(Debug, PartialEq, Eq)]
pub struct Header {
    /// Time of measurement on the source host's `CLOCK_MONOTONIC`, in nanoseconds.
    pub source_time_ns: u64,
    /// Number of the source frame, from 0; the same in everything that is derived from it.
    pub frame_index: u64,
    /// Coordinate frame of the data: at most 47 bytes of UTF-8, then zeros. See
    /// [`frame_id`](Self::frame_id).
    pub frame_id: [u8; 48],
}

impl Default for Header {
    fn default() -> Self {
        Self { source_time_ns: 0, frame_index: 0, frame_id: [0; 48] }
    }
}

impl Header {
    /// Returns a header.
    ///
    /// # Errors
    /// [`TextError`] if `frame_id` is longer than 47 bytes or contains a zero byte.
    pub fn new(source_time_ns: u64, frame_id: &str, frame_index: u64) -> Result<Self, TextError> {
        Ok(Self { source_time_ns, frame_index, frame_id: to_fixed_text("frame_id", frame_id)? })
    }

    /// Returns the time of measurement.
    #[must_use]
    pub fn source_time(&self) -> MonotonicNs {
        MonotonicNs(self.source_time_ns)
    }

    /// Returns a copy of the coordinate frame: another process could change the text in the payload
    /// after it was checked.
    ///
    /// # Errors
    /// [`TextError`] if the publisher did not write text.
    pub fn frame_id(&self) -> Result<FrameId, TextError> {
        // Read once; see `PlainRef::copy_head`.
        let bytes = std::hint::black_box(self.frame_id);
        let len = fixed_text("frame_id", &bytes)?.len();
        Ok(FrameId { bytes, len })
    }
}

/// Name of a coordinate frame. Dereferences to the text; allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FrameId {
    bytes: [u8; 48],
    len: usize,
}

impl FrameId {
    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Length and UTF-8 were checked when the value was created.
        self.bytes.get(..self.len).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default()
    }
}

impl std::ops::Deref for FrameId {
    type Target = str;
    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self)
    }
}

impl fmt::Debug for FrameId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// Reason why a text does not fit a field of fixed size, or why the field contains no text.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum TextError {
    /// Too long.
    #[error("{field} is {len} bytes long where at most {max} fit: shorten it")]
    TooLong {
        /// The field.
        field: &'static str,
        /// Length of the text in bytes.
        len: usize,
        /// Maximum length of the text in bytes.
        max: usize,
    },
    /// The text contains a zero byte, which readers take as its end.
    #[error("{field} contains a zero byte, where its readers would end it")]
    ZeroByte {
        /// The field.
        field: &'static str,
    },
    /// The bytes are not text.
    #[error("{field} is not zero-terminated UTF-8: the publisher wrote something else there")]
    NotText {
        /// The field.
        field: &'static str,
    },
}

/// Returns the text in a zero-terminated field; `field` names it in errors.
///
/// # Errors
/// [`TextError::NotText`] if there is no zero byte, or no UTF-8 before it.
pub fn fixed_text<'a>(field: &'static str, bytes: &'a [u8]) -> Result<&'a str, TextError> {
    let len = bytes.iter().position(|&b| b == 0).ok_or(TextError::NotText { field })?;
    std::str::from_utf8(&bytes[..len]).map_err(|_| TextError::NotText { field })
}

/// Returns a zero-terminated field that contains `text`; `field` names it in errors.
///
/// # Errors
/// [`TextError`] if `text` is longer than `N - 1` bytes or contains a zero byte.
pub fn to_fixed_text<const N: usize>(
    field: &'static str,
    text: &str,
) -> Result<[u8; N], TextError> {
    if text.bytes().any(|b| b == 0) {
        return Err(TextError::ZeroByte { field });
    }
    let mut bytes = [0; N];
    match bytes.get_mut(..text.len()) {
        Some(start) if text.len() < N => start.copy_from_slice(text.as_bytes()),
        _ => return Err(TextError::TooLong { field, len: text.len(), max: N.saturating_sub(1) }),
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frame_ids_up_to_the_limit_fit_and_longer_ones_are_refused() {
        let longest = "a".repeat(47);
        assert_eq!(Header::new(1, &longest, 2).unwrap().frame_id().unwrap().as_str(), longest);
        assert_eq!(
            Header::new(1, &"a".repeat(48), 2),
            Err(TextError::TooLong { field: "frame_id", len: 48, max: 47 })
        );
        assert_eq!(Header::new(1, "a\0b", 2), Err(TextError::ZeroByte { field: "frame_id" }));
        assert_eq!(&*Header::default().frame_id().unwrap(), "");
    }

    #[test]
    fn a_frame_id_that_never_ends_is_refused() {
        let h = Header { frame_id: [b'a'; 48], ..Header::default() };
        assert_eq!(h.frame_id(), Err(TextError::NotText { field: "frame_id" }));
    }

    proptest! {
        #[test]
        fn any_bytes_are_text_or_an_error(bytes: [u8; 16], text in "\\PC{0,8}") {
            if let Ok(t) = fixed_text("f", &bytes) {
                prop_assert_eq!(t.as_bytes(), &bytes[..t.len()]);
            }
            if let Ok(fixed) = to_fixed_text::<16>("f", &text) {
                prop_assert_eq!(fixed_text("f", &fixed), Ok(text.as_str()));
            } else {
                prop_assert!(text.len() > 15);
            }
        }
    }
}
