// SPDX-License-Identifier: Apache-2.0
//! Reasons for dropping a sample.

use driveline_msgs::{CloudError, ImageError, TextError};
use driveline_rosidl::cdr::CdrError;
use driveline_types::PayloadError;
use thiserror::Error;

pub(super) type Result<T, E = ConvertError> = std::result::Result<T, E>;

/// Reason for dropping a sample.
#[derive(Clone, Debug, Error, PartialEq)]
#[non_exhaustive]
pub enum ConvertError {
    /// The sample is broken, or not of the type that its writer announces.
    #[error("{0}")]
    Cdr(#[from] CdrError),
    /// The sample is longer than permitted.
    #[error("{len} bytes, at most {max} are permitted; raise `max_payload`")]
    TooLong {
        /// Its length in bytes.
        len: usize,
        /// Permitted length in bytes.
        max: usize,
    },
    /// The stamp cannot be expressed on the other side.
    #[error(
        "the stamp {0} has no time on the other side; for replayed recordings, the rule can have \
         `source_time: arrival`"
    )]
    Stamp(String),
    /// The name of the frame does not fit.
    #[error("header.{0}")]
    FrameId(TextError),
    /// Another text of detections or of health cannot be converted.
    #[error("{0}")]
    Text(TextError),
    /// The name of a compressed image's format does not fit.
    #[error("the image's {0}")]
    Format(TextError),
    /// The image has sizes or an encoding that Driveline does not have.
    #[error("{0}")]
    Image(#[from] ImageError),
    /// The cloud has fields or sizes that do not fit.
    #[error("{0}")]
    Cloud(#[from] CloudError),
    /// The name of a point's field does not fit.
    #[error("field {index} of the points: {source}")]
    FieldName {
        /// Index, from 0.
        index: usize,
        /// Mistake in it.
        source: TextError,
    },
    /// Points or pixels are big endian.
    #[error(
        "points or pixels are big endian; Driveline's are little endian: have the publisher write \
         these"
    )]
    BigEndian,
    /// A detection has no hypothesis or several.
    #[error("detection {index} has {count} hypotheses; one fits: have the detector send its best")]
    Hypotheses {
        /// Index of the detection, from 0.
        index: usize,
        /// Number of hypotheses.
        count: u32,
    },
    /// A detection has a value without a place on the other side.
    #[error(
        "detection {index} has {what}, for which Driveline has no field; carry the topic with \
         `as: cdr`"
    )]
    Detection {
        /// Index, from 0.
        index: usize,
        /// Name of the count.
        reason: &'static str,
        /// Description of the value, such as `a rotated box`.
        what: &'static str,
    },
    /// The payload does not match its schema.
    #[error("the payload is no such message: {0}")]
    Payload(String),
}

impl From<PayloadError> for ConvertError {
    fn from(e: PayloadError) -> Self {
        Self::Payload(e.to_string())
    }
}

impl ConvertError {
    /// Returns the name of the count for this reason.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cdr(e) => e.fault.name(),
            Self::TooLong { .. } => "too_long",
            Self::Stamp(_) => "stamp",
            Self::FrameId(_) => "frame_id",
            Self::Text(_) => "text",
            Self::Format(_) => "format",
            Self::Image(ImageError::Encoding { .. } | ImageError::EncodingName { .. }) => {
                "encoding"
            }
            Self::Image(_) => "image",
            Self::Cloud(CloudError::FieldCount { .. }) => "fields",
            Self::Cloud(_) => "cloud",
            Self::FieldName { .. } => "field_name",
            Self::BigEndian => "big_endian",
            Self::Hypotheses { .. } => "hypotheses",
            Self::Detection { reason, .. } => reason,
            Self::Payload(_) => "payload",
        }
    }
}
