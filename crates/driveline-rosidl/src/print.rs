// SPDX-License-Identifier: Apache-2.0
//! Prints samples in the manner of `ros2 topic echo`.

use crate::definition::Shape;
use crate::layout::{Kind, Layout, Member, StructId};
use crate::value::Value;
use driveline_types::print::{Limits, Printer, Style};
use std::fmt;

/// Shows a value: each member on a line, with its content indented. Names come from the layout with
/// which the value was read.
///
/// Long lists and strings end in `…` and their number of elements. Control characters of strings
/// are escaped, so that a sample cannot control the terminal. [`Text::print`] does the same in
/// other styles and with other limits.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    layout: &'a Layout,
    value: &'a Value,
    max_elements: usize,
}

impl<'a> Text<'a> {
    /// Returns a printer of up to 128 elements of each list and characters of each string, like
    /// `ros2 topic echo`.
    #[must_use]
    pub fn new(layout: &'a Layout, value: &'a Value) -> Self {
        Self { layout, value, max_elements: 128 }
    }

    /// Sets the maximum number of elements of each list and of characters of each string.
    #[must_use]
    pub fn max_elements(self, max_elements: usize) -> Self {
        Self { max_elements, ..self }
    }

    /// Prints the value. The limits of the printer apply.
    ///
    /// # Errors
    /// Errors of the printer's output.
    pub fn print(&self, p: &mut Printer<'_>) -> fmt::Result {
        self.message(p, self.layout.root(), self.value)
    }

    // Recursion is bounded: layouts are nested at most MAX_NESTING deep.
    fn message(&self, p: &mut Printer<'_>, id: StructId, value: &Value) -> fmt::Result {
        let Value::Struct(values) = value else { return p.remark(value.describe()) };
        p.fields(|p| {
            for (member, value) in self.layout.get(id).members.iter().zip(values) {
                p.field(&member.name)?;
                self.member(p, member, value)?;
            }
            Ok(())
        })
    }

    fn member(&self, p: &mut Printer<'_>, member: &Member, value: &Value) -> fmt::Result {
        match (member.kind, member.shape, value) {
            (Kind::Struct(id), Shape::Single, _) => self.message(p, id, value),
            (kind, _, Value::List(values)) => {
                p.list(values.len(), |p, i| match (kind, values.get(i)) {
                    (Kind::Struct(id), Some(value)) => self.message(p, id, value),
                    (_, Some(value)) => scalar(p, value),
                    (_, None) => Ok(()),
                })
            }
            _ => scalar(p, value),
        }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.print(&mut Printer::new(
            f,
            Style::Text,
            Limits { each: self.max_elements, ..Limits::NONE },
        ))
    }
}

fn scalar(p: &mut Printer<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Bool(v) => p.scalar(*v),
        Value::I8(v) => p.scalar(*v),
        Value::U8(v) => p.scalar(*v),
        Value::I16(v) => p.scalar(*v),
        Value::U16(v) => p.scalar(*v),
        Value::I32(v) => p.scalar(*v),
        Value::U32(v) => p.scalar(*v),
        Value::I64(v) => p.scalar(*v),
        Value::U64(v) => p.scalar(*v),
        Value::F32(v) => p.scalar(*v),
        Value::F64(v) => p.scalar(*v),
        Value::String(v) => p.text(&String::from_utf8_lossy(v)),
        Value::WString(v) => p.text(&String::from_utf16_lossy(v)),
        Value::Bools(v) => p.numbers(v.iter().copied()),
        Value::I8s(v) => p.numbers(v.iter().copied()),
        Value::U8s(v) => p.numbers(v.iter().copied()),
        Value::I16s(v) => p.numbers(v.iter().copied()),
        Value::U16s(v) => p.numbers(v.iter().copied()),
        Value::I32s(v) => p.numbers(v.iter().copied()),
        Value::U32s(v) => p.numbers(v.iter().copied()),
        Value::I64s(v) => p.numbers(v.iter().copied()),
        Value::U64s(v) => p.numbers(v.iter().copied()),
        Value::F32s(v) => p.numbers(v.iter().copied()),
        Value::F64s(v) => p.numbers(v.iter().copied()),
        Value::Struct(_) | Value::List(_) => p.remark(value.describe()),
    }
}
