// SPDX-License-Identifier: Apache-2.0
//! Samples as text for people, in the manner of `ros2 topic echo`.

use crate::definition::Shape;
use crate::layout::{Kind, Layout, Member, StructId};
use crate::value::Value;
use std::fmt;

/// Shows a value: each member in a line, what is in it indented. Names are those of the layout with which the value was read.
///
/// Long lists and strings end in `…` and how many there are. Control characters of strings are escaped, so that a stranger's sample cannot
/// steer a terminal.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    layout: &'a Layout,
    value: &'a Value,
    max_elements: usize,
}

impl<'a> Text<'a> {
    /// With up to 128 elements of each list, as `ros2 topic echo`.
    #[must_use]
    pub fn new(layout: &'a Layout, value: &'a Value) -> Self {
        Self { layout, value, max_elements: 128 }
    }

    /// With up to so many elements of each list and characters of each string.
    #[must_use]
    pub fn max_elements(self, max_elements: usize) -> Self {
        Self { max_elements, ..self }
    }
}

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.message(f, self.layout.root(), self.value, 0)
    }
}

impl Text<'_> {
    fn message(&self, f: &mut fmt::Formatter<'_>, id: StructId, value: &Value, indent: usize) -> fmt::Result {
        let Value::Struct(values) = value else { return writeln!(f, "{:indent$}({})", "", value.describe()) };
        for (member, value) in self.layout.get(id).members.iter().zip(values) {
            write!(f, "{:indent$}{}:", "", member.name)?;
            self.member(f, member, value, indent)?;
        }
        Ok(())
    }

    fn member(&self, f: &mut fmt::Formatter<'_>, member: &Member, value: &Value, indent: usize) -> fmt::Result {
        match (member.kind, member.shape, value) {
            (Kind::Struct(id), Shape::Single, _) => {
                writeln!(f)?;
                self.message(f, id, value, indent + 2)
            }
            (_, _, Value::List(values)) if values.is_empty() => writeln!(f, " []"),
            (kind, _, Value::List(values)) => {
                writeln!(f)?;
                for value in values.iter().take(self.max_elements) {
                    write!(f, "{:indent$}-", "")?;
                    match kind {
                        Kind::Struct(id) => {
                            writeln!(f)?;
                            self.message(f, id, value, indent + 2)?;
                        }
                        _ => self.scalar(f, value)?,
                    }
                }
                if values.len() > self.max_elements {
                    writeln!(f, "{:indent$}… ({} in all)", "", values.len())?;
                }
                Ok(())
            }
            _ => self.scalar(f, value),
        }
    }

    fn scalar(&self, f: &mut fmt::Formatter<'_>, value: &Value) -> fmt::Result {
        match value {
            Value::Bool(v) => writeln!(f, " {v}"),
            Value::I8(v) => writeln!(f, " {v}"),
            Value::U8(v) => writeln!(f, " {v}"),
            Value::I16(v) => writeln!(f, " {v}"),
            Value::U16(v) => writeln!(f, " {v}"),
            Value::I32(v) => writeln!(f, " {v}"),
            Value::U32(v) => writeln!(f, " {v}"),
            Value::I64(v) => writeln!(f, " {v}"),
            Value::U64(v) => writeln!(f, " {v}"),
            Value::F32(v) => writeln!(f, " {v:?}"),
            Value::F64(v) => writeln!(f, " {v:?}"),
            Value::String(v) => self.string(f, &String::from_utf8_lossy(v)),
            Value::WString(v) => self.string(f, &String::from_utf16_lossy(v)),
            Value::Bools(v) => self.numbers(f, v),
            Value::I8s(v) => self.numbers(f, v),
            Value::U8s(v) => self.numbers(f, v),
            Value::I16s(v) => self.numbers(f, v),
            Value::U16s(v) => self.numbers(f, v),
            Value::I32s(v) => self.numbers(f, v),
            Value::U32s(v) => self.numbers(f, v),
            Value::I64s(v) => self.numbers(f, v),
            Value::U64s(v) => self.numbers(f, v),
            Value::F32s(v) => self.numbers(f, v),
            Value::F64s(v) => self.numbers(f, v),
            Value::Struct(_) | Value::List(_) => writeln!(f, " ({})", value.describe()),
        }
    }

    fn numbers<T: fmt::Debug>(&self, f: &mut fmt::Formatter<'_>, values: &[T]) -> fmt::Result {
        f.write_str(" [")?;
        for (i, value) in values.iter().take(self.max_elements).enumerate() {
            write!(f, "{}{value:?}", if i == 0 { "" } else { ", " })?;
        }
        if values.len() > self.max_elements { writeln!(f, ", … ({} in all)]", values.len()) } else { writeln!(f, "]") }
    }

    fn string(&self, f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
        let len = text.chars().count();
        // What YAML or the eye could take for something else stands in quotes.
        let plain = text.chars().all(|c| !c.is_control() && c != '"' && c != '\'')
            && text.starts_with(|c: char| c.is_alphabetic() || c == '/' || c == '_')
            && !text.ends_with(' ')
            && !text.contains(": ");
        f.write_str(" ")?;
        let shown = text.chars().take(self.max_elements);
        if plain {
            shown.into_iter().try_for_each(|c| write!(f, "{c}"))?;
        } else {
            f.write_str("\"")?;
            for c in shown {
                match c {
                    '"' | '\\' => write!(f, "\\{c}")?,
                    c if c.is_control() => write!(f, "{}", c.escape_default())?,
                    c => write!(f, "{c}")?,
                }
            }
            f.write_str("\"")?;
        }
        if len > self.max_elements { writeln!(f, "… ({len} in all)") } else { writeln!(f) }
    }
}
