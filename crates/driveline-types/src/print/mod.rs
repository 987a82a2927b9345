// SPDX-License-Identifier: Apache-2.0
//! Samples for people and their tools: as text in the manner of `ros2 topic echo`, or as JSON.
//!
//! A reader of samples passes names and values to a [`Printer`], in order. The printer formats
//! them, shortens long values, and limits the total. [`PlainLayout`](crate::PlainLayout) and
//! [`ProtobufDefinition`] read samples by the definition in their topic's schema;
//! `driveline-rosidl` reads those of ROS 2.
//!
//! ```
//! use driveline_types::print::{Limits, Printer, Style};
//! let print = |style| {
//!     let mut out = String::new();
//!     let mut p = Printer::new(&mut out, style, Limits { each: 2, ..Limits::default() });
//!     p.fields(|p| {
//!         p.field("name")?;
//!         p.text("a\tb")?;
//!         p.field("position")?;
//!         p.numbers([0.5, 1.0, 2.0].into_iter())
//!     })
//!     .unwrap();
//!     out
//! };
//! assert_eq!(
//!     print(Style::Text),
//!     "name: \"a\\t\"… (3 in all)\nposition: [0.5, 1.0, … (3 in all)]\n"
//! );
//! assert_eq!(
//!     print(Style::Json),
//!     concat!(
//!         r#"{"name":{"length":3,"head":"a\t"},"#,
//!         r#""position":{"length":3,"head":[0.5,1.0]}}"#,
//!     )
//! );
//! ```

mod plain;
mod protobuf;

pub use protobuf::{ProtobufDefinition, ProtobufSyntaxError};

use crate::text::misleads;
use std::fmt;
use thiserror::Error;

/// Purpose of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One line for each member, with nested members indented.
    Text,
    /// One JSON value without line feeds. Numbers that are not finite are the texts `NaN`,
    /// `Infinity` and `-Infinity`. A shortened value is an object of `length` and `head`, and a
    /// message that is not shown at all is an object of `not_shown`.
    Json,
}

/// Limits of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of elements of one list, and of characters of one string.
    pub each: usize,
    /// Maximum number of list elements and nested messages in the whole sample.
    pub all: usize,
}

impl Limits {
    /// No limits.
    pub const NONE: Self = Self { each: usize::MAX, all: usize::MAX };
}

impl Default for Limits {
    /// 128 of each, as `ros2 topic echo`; 20 000 in all.
    fn default() -> Self {
        Self { each: 128, all: 20_000 }
    }
}

/// Reason why bytes are not a sample of their type.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SampleError {
    /// A plain type whose payload has a length that it cannot have.
    #[error("{len} bytes, of which {what}; the publisher wrote another type or half a sample")]
    Length {
        /// Length of the payload in bytes.
        len: usize,
        /// Mistake in the length.
        what: String,
    },
    /// Bytes that are not a protobuf message, or a message of another type.
    #[error(
        "at byte {at}: {what}; the sample is broken, or the sender has another definition of the \
         type"
    )]
    Protobuf {
        /// Offset from the beginning of the payload, in bytes.
        at: usize,
        /// Mistake at that place.
        what: String,
    },
}

/// A number or a truth value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Scalar {
    Bool(bool),
    Int(i64),
    UInt(u64),
    F32(f32),
    F64(f64),
}

macro_rules! scalars {
    ($($ty:ty => $variant:ident),+) => {$(
        impl From<$ty> for Scalar {
            fn from(v: $ty) -> Self { Self::$variant(v.into()) }
        }
    )+};
}
scalars!(
    bool => Bool, i8 => Int, i16 => Int, i32 => Int, i64 => Int, u8 => UInt, u16 => UInt,
    u32 => UInt, u64 => UInt, f32 => F32, f64 => F64
);

/// Writes one sample. Names are written unchanged: the caller has checked them. Text of samples is
/// escaped, so that it cannot control a terminal. Does not allocate. Errors are those of the
/// output.
pub struct Printer<'a> {
    out: &'a mut dyn fmt::Write,
    style: Style,
    limits: Limits,
    /// Elements and messages that may still be shown.
    left: usize,
    /// True if the message that begins now is a list element, which was counted already.
    granted: bool,
    /// Number of open messages.
    depth: usize,
    /// True if nothing was written yet in the open JSON object.
    first: bool,
}

impl fmt::Debug for Printer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Printer")
            .field("style", &self.style)
            .field("left", &self.left)
            .finish_non_exhaustive()
    }
}

impl<'a> Printer<'a> {
    /// Creates a printer for one sample, which begins with [`Printer::fields`].
    pub fn new(out: &'a mut dyn fmt::Write, style: Style, limits: Limits) -> Self {
        Self { out, style, limits, left: limits.all, granted: false, depth: 0, first: true }
    }

    /// Writes a message: `members` writes its fields, each name followed by its value.
    ///
    /// # Errors
    /// See the type.
    pub fn fields(&mut self, members: impl FnOnce(&mut Self) -> fmt::Result) -> fmt::Result {
        let granted = std::mem::take(&mut self.granted);
        if self.depth > 0 {
            if !granted {
                let Some(left) = self.left.checked_sub(1) else {
                    return self.either(" …\n", r#"{"not_shown":true}"#);
                };
                self.left = left;
            }
            self.either("\n", "")?;
        }
        self.either("", "{")?;
        self.first = true;
        self.depth += 1;
        members(self)?;
        self.depth -= 1;
        self.first = false;
        self.either("", "}")
    }

    /// Writes a message without fields.
    ///
    /// # Errors
    /// See the type.
    pub fn no_fields(&mut self) -> fmt::Result {
        self.either(if self.depth == 0 { "{}\n" } else { " {}\n" }, "{}")
    }

    /// Writes the name of a field, before its value.
    ///
    /// # Errors
    /// See the type.
    pub fn field(&mut self, name: &str) -> fmt::Result {
        match self.style {
            Style::Text => {
                let indent = self.indent();
                write!(self.out, "{:indent$}{name}:", "")
            }
            Style::Json => {
                if !std::mem::take(&mut self.first) {
                    self.out.write_char(',')?;
                }
                json_text(self.out, name.chars())?;
                self.out.write_char(':')
            }
        }
    }

    /// A number or a truth value.
    ///
    /// # Errors
    /// See the type.
    pub fn scalar(&mut self, value: impl Into<Scalar>) -> fmt::Result {
        self.either(" ", "")?;
        self.bare(value.into())?;
        self.either("\n", "")
    }

    /// Writes many numbers or truth values, in a line.
    ///
    /// # Errors
    /// See the type.
    pub fn numbers<S: Into<Scalar>>(
        &mut self,
        values: impl ExactSizeIterator<Item = S>,
    ) -> fmt::Result {
        let len = values.len();
        let shown = self.take(len);
        match self.style {
            Style::Text => self.out.write_str(" [")?,
            Style::Json => self.open_json_list(shown, len)?,
        }
        for (i, value) in values.take(shown).enumerate() {
            if i > 0 {
                self.either(", ", ",")?;
            }
            self.bare(value.into())?;
        }
        match self.style {
            Style::Text if shown == len => self.out.write_str("]\n"),
            Style::Text => {
                writeln!(self.out, "{}… ({len} in all)]", if shown == 0 { "" } else { ", " })
            }
            Style::Json => self.close_json_list(shown, len),
        }
    }

    /// Writes a list of messages or texts: `element` writes the value with the given number, from
    /// 0.
    ///
    /// # Errors
    /// See the type.
    pub fn list(
        &mut self,
        len: usize,
        mut element: impl FnMut(&mut Self, usize) -> fmt::Result,
    ) -> fmt::Result {
        if len == 0 {
            return self.either(" []\n", "[]");
        }
        let shown = self.take(len);
        match self.style {
            Style::Text => self.out.write_char('\n')?,
            Style::Json => self.open_json_list(shown, len)?,
        }
        let indent = self.indent();
        for i in 0..shown {
            match self.style {
                Style::Text => write!(self.out, "{:indent$}-", "")?,
                Style::Json if i > 0 => self.out.write_char(',')?,
                Style::Json => {}
            }
            self.granted = true;
            element(self, i)?;
            self.granted = false;
        }
        match self.style {
            Style::Text if shown == len => Ok(()),
            Style::Text => writeln!(self.out, "{:indent$}… ({len} in all)", ""),
            Style::Json => self.close_json_list(shown, len),
        }
    }

    /// A text.
    ///
    /// # Errors
    /// See the type.
    pub fn text(&mut self, text: &str) -> fmt::Result {
        let len = text.chars().count();
        let is_cut = len > self.limits.each;
        let shown = text.chars().take(self.limits.each);
        if self.style == Style::Json {
            if is_cut {
                write!(self.out, r#"{{"length":{len},"head":"#)?;
            }
            json_text(self.out, shown)?;
            return self.out.write_str(if is_cut { "}" } else { "" });
        }
        // Text that YAML or a reader could misinterpret is quoted.
        let plain = text.chars().all(|c| !misleads(c) && c != '"' && c != '\'')
            && text.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '_')
            && !text.ends_with(' ')
            && !text.contains(": ");
        self.out.write_char(' ')?;
        if plain {
            shown.into_iter().try_for_each(|c| self.out.write_char(c))?;
        } else {
            self.out.write_char('"')?;
            for c in shown {
                match c {
                    '"' | '\\' => write!(self.out, "\\{c}")?,
                    c if misleads(c) => write!(self.out, "{}", c.escape_default())?,
                    c => self.out.write_char(c)?,
                }
            }
            self.out.write_char('"')?;
        }
        if is_cut { writeln!(self.out, "… ({len} in all)") } else { self.out.write_char('\n') }
    }

    /// Writes a remark in place of a value.
    ///
    /// # Errors
    /// See the type.
    pub fn remark(&mut self, remark: &str) -> fmt::Result {
        match self.style {
            Style::Text => writeln!(self.out, " ({remark})"),
            Style::Json => json_text(self.out, remark.chars()),
        }
    }

    fn either(&mut self, text: &str, json: &str) -> fmt::Result {
        self.out.write_str(if self.style == Style::Text { text } else { json })
    }

    fn indent(&self) -> usize {
        2 * self.depth.saturating_sub(1)
    }

    /// Returns the number of elements shown of `len`.
    fn take(&mut self, len: usize) -> usize {
        let shown = len.min(self.limits.each).min(self.left);
        self.left -= shown;
        shown
    }

    fn bare(&mut self, value: Scalar) -> fmt::Result {
        match value {
            Scalar::Bool(v) => write!(self.out, "{v}"),
            Scalar::Int(v) => write!(self.out, "{v}"),
            Scalar::UInt(v) => write!(self.out, "{v}"),
            Scalar::F32(v) if self.style == Style::Text || v.is_finite() => {
                write!(self.out, "{v:?}")
            }
            Scalar::F64(v) if self.style == Style::Text || v.is_finite() => {
                write!(self.out, "{v:?}")
            }
            Scalar::F32(v) => self.endless(v.into()),
            Scalar::F64(v) => self.endless(v),
        }
    }

    fn endless(&mut self, v: f64) -> fmt::Result {
        self.out.write_str(if v.is_nan() {
            r#""NaN""#
        } else if v > 0.0 {
            r#""Infinity""#
        } else {
            r#""-Infinity""#
        })
    }

    fn open_json_list(&mut self, shown: usize, len: usize) -> fmt::Result {
        if shown < len {
            write!(self.out, r#"{{"length":{len},"head":"#)?;
        }
        self.out.write_char('[')
    }

    fn close_json_list(&mut self, shown: usize, len: usize) -> fmt::Result {
        self.out.write_str(if shown < len { "]}" } else { "]" })
    }
}

/// Writes a JSON string. Characters that a terminal could misinterpret are escaped.
fn json_text(out: &mut dyn fmt::Write, text: impl Iterator<Item = char>) -> fmt::Result {
    out.write_char('"')?;
    for c in text {
        match c {
            '"' | '\\' => write!(out, "\\{c}")?,
            '\n' => out.write_str("\\n")?,
            '\t' => out.write_str("\\t")?,
            // All of them are below 2^16.
            c if misleads(c) => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
