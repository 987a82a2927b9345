// SPDX-License-Identifier: Apache-2.0
//! Faults in bytes and in values.

use std::fmt;
use thiserror::Error;

/// Kinds of faults.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Fewer bytes than an encapsulation.
    #[error(
        "{len} bytes, too few for the 4 that state the encoding; the sample was cut off, or is \
         not CDR"
    )]
    NoHeader {
        /// Number of bytes.
        len: usize,
    },
    /// An encoding that ROS 2 does not use for topics.
    #[error(
        "encapsulation {0:04x}; only plain CDR of version 1 is read (0000, 0001): set the sender's \
         data representation to XCDR1"
    )]
    Encapsulation(u16),
    /// The bytes end within a value.
    #[error(
        "{needed} more bytes needed, {left} left; the sample was cut off, or the sender has \
         another definition of the type"
    )]
    Truncated {
        /// Bytes needed, padding included.
        needed: u64,
        /// Bytes left.
        left: usize,
    },
    /// An impossible length.
    #[error(
        "length {declared}, for which {left} bytes cannot be enough; the sample is broken, or the \
         sender has another definition of the type"
    )]
    Length {
        /// Declared number of elements, or of bytes of a string.
        declared: u32,
        /// Bytes left after the length.
        left: usize,
    },
    /// An impossible length that would be possible in the other byte order.
    #[error(
        "length {declared}, which would be {swapped} in the other byte order; the sender's \
         encapsulation contradicts its bytes"
    )]
    ByteOrder {
        /// The length as read.
        declared: u32,
        /// The length in the other byte order.
        swapped: u32,
    },
    /// More elements or characters than the type allows.
    #[error(
        "{len} elements or characters, the type allows {bound}; the sender has another definition \
         of the type"
    )]
    Bound {
        /// Number of elements or characters.
        len: usize,
        /// Maximum number of them.
        bound: u32,
    },
    /// Neither 0 nor 1.
    #[error(
        "a bool with the value {0}; the sample is broken, or the sender has another definition of \
         the type"
    )]
    Bool(u8),
    /// A string without its NUL.
    #[error(
        "a string that does not end in NUL; the sample is broken, or the sender has another \
         definition of the type"
    )]
    Terminator,
    /// A unit of a wstring above 16 bits.
    #[error(
        "a unit of a wstring with the value {0}, which does not fit 16 bits; the sender must send \
         surrogates"
    )]
    WideUnit(u32),
    /// More bytes than the type has.
    #[error("{0} bytes after the end of the sample; the sender has another definition of the type")]
    Trailing(usize),
    /// More values than a reader may create from one sample.
    #[error("more than {0} values in one sample; read it with a greater limit if that is right")]
    TooManyValues(usize),
    /// Written value of another type, or with another number of members or elements.
    #[error("{found} where {expected} belongs; make the value after the type's layout")]
    Mismatch {
        /// Type in the layout, or its number of members or elements.
        expected: String,
        /// Type of the value, or its number of members or elements.
        found: String,
    },
    /// Written length beyond 32 bits.
    #[error("{0} elements or bytes; a length in CDR has 32 bits")]
    TooLong(usize),
}

impl Fault {
    /// Returns a short name, for counters.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoHeader { .. } => "no_header",
            Self::Encapsulation(_) => "encapsulation",
            Self::Truncated { .. } => "truncated",
            Self::Length { .. } => "length",
            Self::ByteOrder { .. } => "byte_order",
            Self::Bound { .. } => "bound",
            Self::Bool(_) => "bool",
            Self::Terminator => "terminator",
            Self::WideUnit(_) => "wide_unit",
            Self::Trailing(_) => "trailing",
            Self::TooManyValues(_) => "too_many_values",
            Self::Mismatch { .. } => "mismatch",
            Self::TooLong(_) => "too_long",
        }
    }
}

/// A step from a message to a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathPart {
    /// To a member.
    Member(String),
    /// To an element, from 0.
    Index(usize),
}

/// A fault, and where it is.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub struct CdrError {
    /// Kind of the fault.
    pub fault: Fault,
    /// Bytes from the beginning of the sample, encapsulation included, to where it was found.
    pub offset: usize,
    /// Path from the faulty part to the message; see [`CdrError::path`].
    inside_out: Vec<PathPart>,
}

impl CdrError {
    pub(crate) fn new(fault: Fault, offset: usize) -> Self {
        Self { fault, offset, inside_out: Vec::new() }
    }

    /// Returns the path from the message to the faulty part; empty if the fault concerns the whole
    /// sample.
    pub fn path(&self) -> impl Iterator<Item = &PathPart> {
        self.inside_out.iter().rev()
    }

    pub(crate) fn in_member(mut self, name: &str) -> Self {
        self.inside_out.push(PathPart::Member(name.to_owned()));
        self
    }

    pub(crate) fn in_element(mut self, index: usize) -> Self {
        self.inside_out.push(PathPart::Index(index));
        self
    }
}

impl fmt::Display for CdrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.path().enumerate() {
            match part {
                PathPart::Member(name) if i == 0 => write!(f, "{name}")?,
                PathPart::Member(name) => write!(f, ".{name}")?,
                PathPart::Index(index) => write!(f, "[{index}]")?,
            }
        }
        if self.inside_out.is_empty() {
            write!(f, "at byte {}: {}", self.offset, self.fault)
        } else {
            write!(f, " at byte {}: {}", self.offset, self.fault)
        }
    }
}
