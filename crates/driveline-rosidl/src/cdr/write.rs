// SPDX-License-Identifier: Apache-2.0
//! Writes values as bytes.

use super::error::{CdrError, Fault};
use super::read::{characters, check_bound};
use super::{ByteOrder, Encoder};
use crate::definition::{Primitive, Shape};
use crate::layout::{Kind, Layout, Member, StructId};
use crate::value::Value;

/// Returns a sample with its encapsulation, without padding after it. Allocates.
///
/// # Errors
/// [`Fault::Mismatch`] and [`Fault::Bound`] if the value does not match the layout;
/// [`Fault::TooLong`].
pub fn write(layout: &Layout, value: &Value, order: ByteOrder) -> Result<Vec<u8>, CdrError> {
    let mut writer = Writer { layout, to: Encoder::new(order) };
    writer.message(layout.root(), value)?;
    Ok(writer.to.finish())
}

struct Writer<'a> {
    layout: &'a Layout,
    to: Encoder,
}

type Result<T, E = CdrError> = std::result::Result<T, E>;

impl Writer<'_> {
    fn mismatch<T>(&self, expected: impl Into<String>, found: impl Into<String>) -> Result<T> {
        Err(self.to.error(Fault::Mismatch { expected: expected.into(), found: found.into() }))
    }

    // Recursion is bounded: layouts are nested at most MAX_NESTING deep.
    fn message(&mut self, id: StructId, value: &Value) -> Result<()> {
        let layout = self.layout.get(id);
        let Value::Struct(values) = value else {
            return self.mismatch(format!("a message {}", layout.name), value.describe());
        };
        if values.len() != layout.members.len() {
            let expected =
                format!("a message {} with {} members", layout.name, layout.members.len());
            return self.mismatch(expected, format!("one with {}", values.len()));
        }
        for (member, value) in layout.members.iter().zip(values) {
            self.member(member, value).map_err(|e| e.in_member(&member.name))?;
        }
        Ok(())
    }

    fn member(&mut self, member: &Member, value: &Value) -> Result<()> {
        match member.shape {
            Shape::Single => self.single(member.kind, value),
            Shape::Array(len) => {
                let found = count(value).unwrap_or(1);
                if found != len as usize {
                    return self.mismatch(
                        format!("an array of {len}"),
                        format!("{} of {found}", value.describe()),
                    );
                }
                self.many(member.kind, value)
            }
            Shape::Sequence { bound } => {
                let Some(found) = count(value) else {
                    return self.mismatch("a sequence", value.describe());
                };
                check_bound(bound, found).map_err(|f| self.to.error(f))?;
                self.to.length(found)?;
                self.many(member.kind, value)
            }
        }
    }

    fn single(&mut self, kind: Kind, value: &Value) -> Result<()> {
        use Primitive as P;
        let to = &mut self.to;
        match (kind, value) {
            (Kind::Primitive(P::Bool), Value::Bool(v)) => to.number(u8::from(*v)),
            (Kind::Primitive(P::U8 | P::Byte | P::Char), Value::U8(v)) => to.number(*v),
            (Kind::Primitive(P::I8), Value::I8(v)) => to.number(*v),
            (Kind::Primitive(P::I16), Value::I16(v)) => to.number(*v),
            (Kind::Primitive(P::U16), Value::U16(v)) => to.number(*v),
            (Kind::Primitive(P::I32), Value::I32(v)) => to.number(*v),
            (Kind::Primitive(P::U32), Value::U32(v)) => to.number(*v),
            (Kind::Primitive(P::I64), Value::I64(v)) => to.number(*v),
            (Kind::Primitive(P::U64), Value::U64(v)) => to.number(*v),
            (Kind::Primitive(P::F32), Value::F32(v)) => to.number(*v),
            (Kind::Primitive(P::F64), Value::F64(v)) => to.number(*v),
            (Kind::String(bound), Value::String(text)) => {
                check_bound(bound, characters(text)).map_err(|f| to.error(f))?;
                to.string(text)?;
            }
            (Kind::WString(bound), Value::WString(units)) => {
                check_bound(bound, units.len()).map_err(|f| to.error(f))?;
                to.wstring(units)?;
            }
            (Kind::Struct(id), value) => self.message(id, value)?,
            (kind, value) => return self.mismatch(format!("{kind:?}"), value.describe()),
        }
        Ok(())
    }

    /// Writes the elements, without a length.
    fn many(&mut self, kind: Kind, value: &Value) -> Result<()> {
        use Primitive as P;
        let to = &mut self.to;
        match (kind, value) {
            (Kind::Primitive(P::Bool), Value::Bools(v)) => {
                v.iter().for_each(|b| to.number(u8::from(*b)))
            }
            (Kind::Primitive(P::U8 | P::Byte | P::Char), Value::U8s(v)) => to.bytes(v),
            (Kind::Primitive(P::I8), Value::I8s(v)) => to.numbers(v),
            (Kind::Primitive(P::I16), Value::I16s(v)) => to.numbers(v),
            (Kind::Primitive(P::U16), Value::U16s(v)) => to.numbers(v),
            (Kind::Primitive(P::I32), Value::I32s(v)) => to.numbers(v),
            (Kind::Primitive(P::U32), Value::U32s(v)) => to.numbers(v),
            (Kind::Primitive(P::I64), Value::I64s(v)) => to.numbers(v),
            (Kind::Primitive(P::U64), Value::U64s(v)) => to.numbers(v),
            (Kind::Primitive(P::F32), Value::F32s(v)) => to.numbers(v),
            (Kind::Primitive(P::F64), Value::F64s(v)) => to.numbers(v),
            (Kind::Primitive(p), value) => {
                return self.mismatch(format!("many {p:?}"), value.describe());
            }
            (kind, Value::List(values)) => {
                for (i, value) in values.iter().enumerate() {
                    self.single(kind, value).map_err(|e| e.in_element(i))?;
                }
            }
            (kind, value) => return self.mismatch(format!("a list of {kind:?}"), value.describe()),
        }
        Ok(())
    }
}

/// Returns the number of elements of an array or a sequence; `None` for another value.
fn count(value: &Value) -> Option<usize> {
    Some(match value {
        Value::Bools(v) => v.len(),
        Value::I8s(v) => v.len(),
        Value::U8s(v) => v.len(),
        Value::I16s(v) => v.len(),
        Value::U16s(v) => v.len(),
        Value::I32s(v) => v.len(),
        Value::U32s(v) => v.len(),
        Value::I64s(v) => v.len(),
        Value::U64s(v) => v.len(),
        Value::F32s(v) => v.len(),
        Value::F64s(v) => v.len(),
        Value::List(v) => v.len(),
        _ => return None,
    })
}
