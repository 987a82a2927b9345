// SPDX-License-Identifier: Apache-2.0
//! Images in a compressed format.

use crate::header::{Header, TextError, fixed_text, to_fixed_text};
use driveline_types::plain_type;

/// Head of an image in a compressed format; the file's bytes follow as `data`. It corresponds to
/// ROS's `sensor_msgs/CompressedImage`.
#[plain_type(name = "driveline/CompressedImage", tail(data: u8))]
#[derive(Debug, PartialEq, Eq)]
pub struct CompressedImage {
    /// Source time, frame number and camera frame.
    pub header: Header,
    /// Format as in ROS, such as `jpeg` or `bgr8; jpeg compressed bgr8`: at most 63 bytes of UTF-8,
    /// then zeros.
    pub format: [u8; 64],
}

impl CompressedImage {
    /// Returns a head.
    ///
    /// # Errors
    /// [`TextError`] if `format` is longer than 63 bytes or contains a zero byte.
    pub fn new(header: Header, format: &str) -> Result<Self, TextError> {
        Ok(Self { header, format: to_fixed_text("format", format)? })
    }

    /// Returns the format.
    ///
    /// # Errors
    /// [`TextError`] if the publisher did not write text.
    pub fn format(&self) -> Result<&str, TextError> {
        fixed_text("format", &self.format)
    }
}

impl Default for CompressedImage {
    fn default() -> Self {
        Self { header: Header::default(), format: [0; 64] }
    }
}
