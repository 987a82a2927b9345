// SPDX-License-Identifier: Apache-2.0
//! Reads values from bytes.

use super::Decoder;
use super::error::{CdrError, Fault};
use crate::definition::{Primitive, Shape};
use crate::layout::{Kind, Layout, Member, StructId};
use crate::value::Value;

/// Limits on the memory that one sample may use as values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadLimits {
    /// Maximum number of values in the tree: scalars, strings, messages, lists, and vectors of
    /// primitives, which count once each. A value takes 32 bytes in addition to its content.
    pub max_values: usize,
}

impl Default for ReadLimits {
    /// Returns a limit of four million values: more than the points of any marker or path that a
    /// person views.
    fn default() -> Self {
        Self { max_values: 4 << 20 }
    }
}

/// Reads a sample with its encapsulation. Allocates memory for its strings and numbers, and 32
/// bytes for each value; see [`ReadLimits`].
///
/// # Errors
/// Returns the first [`Fault`] and its place. Does not panic for any bytes.
pub fn read(layout: &Layout, sample: &[u8]) -> Result<Value, CdrError> {
    read_with(layout, sample, ReadLimits::default())
}

/// As [`read`], with other limits.
///
/// # Errors
/// As [`read`].
pub fn read_with(layout: &Layout, sample: &[u8], limits: ReadLimits) -> Result<Value, CdrError> {
    let mut reader = Reader { layout, from: Decoder::new(sample)?, limits, made: 0 };
    let value = reader.message(layout.root())?;
    reader.from.finish()?;
    Ok(value)
}

struct Reader<'a> {
    layout: &'a Layout,
    from: Decoder<'a>,
    limits: ReadLimits,
    /// Number of values so far, including announced ones.
    made: usize,
}

type Result<T, E = CdrError> = std::result::Result<T, E>;

impl Reader<'_> {
    /// Counts values before memory for them is allocated.
    fn announce(&mut self, values: usize) -> Result<()> {
        self.made = self.made.saturating_add(values);
        if self.made > self.limits.max_values {
            return Err(self.from.error(Fault::TooManyValues(self.limits.max_values)));
        }
        Ok(())
    }

    // Recursion is bounded: layouts are nested at most MAX_NESTING deep.
    fn message(&mut self, id: StructId) -> Result<Value> {
        let layout = self.layout;
        let members = &layout.get(id).members;
        self.announce(members.len())?;
        let mut values = Vec::with_capacity(members.len());
        for member in members {
            values.push(self.member(member).map_err(|e| e.in_member(&member.name))?);
        }
        Ok(Value::Struct(values))
    }

    fn member(&mut self, member: &Member) -> Result<Value> {
        let (count, has_bound) = match member.shape {
            Shape::Single => return self.single(member.kind),
            Shape::Array(count) => (count, None),
            Shape::Sequence { bound } => {
                let before = self.from.clone();
                let count = self.from.length(self.layout.min_len(member.kind))?;
                (
                    count,
                    bound
                        .filter(|b| count > *b)
                        .map(|bound| before.error(Fault::Bound { len: count as usize, bound })),
                )
            }
        };
        match has_bound {
            Some(error) => Err(error),
            None => self.many(member.kind, count),
        }
    }

    fn single(&mut self, kind: Kind) -> Result<Value> {
        let from = &mut self.from;
        Ok(match kind {
            Kind::Primitive(p) => match p {
                Primitive::Bool => Value::Bool(from.bool()?),
                Primitive::Byte | Primitive::Char | Primitive::U8 => Value::U8(from.number()?),
                Primitive::I8 => Value::I8(from.number()?),
                Primitive::I16 => Value::I16(from.number()?),
                Primitive::U16 | Primitive::WChar => Value::U16(from.number()?),
                Primitive::I32 => Value::I32(from.number()?),
                Primitive::U32 => Value::U32(from.number()?),
                Primitive::I64 => Value::I64(from.number()?),
                Primitive::U64 => Value::U64(from.number()?),
                Primitive::F32 => Value::F32(from.number()?),
                Primitive::F64 => Value::F64(from.number()?),
            },
            Kind::String(bound) => {
                let before = from.clone();
                let text = from.string()?;
                check_bound(bound, characters(text)).map_err(|f| before.error(f))?;
                Value::String(text.to_vec())
            }
            Kind::WString(bound) => {
                let before = from.clone();
                let units = from.wstring()?;
                check_bound(bound, units.len()).map_err(|f| before.error(f))?;
                Value::WString(units)
            }
            Kind::Struct(id) => self.message(id)?,
        })
    }

    fn many(&mut self, kind: Kind, count: u32) -> Result<Value> {
        let from = &mut self.from;
        let Kind::Primitive(p) = kind else { return self.list(kind, count) };
        Ok(match p {
            Primitive::Bool => Value::Bools(from.bools(count)?),
            Primitive::Byte | Primitive::Char | Primitive::U8 => {
                Value::U8s(from.bytes(count)?.to_vec())
            }
            Primitive::I8 => Value::I8s(from.numbers(count)?),
            Primitive::I16 => Value::I16s(from.numbers(count)?),
            Primitive::U16 | Primitive::WChar => Value::U16s(from.numbers(count)?),
            Primitive::I32 => Value::I32s(from.numbers(count)?),
            Primitive::U32 => Value::U32s(from.numbers(count)?),
            Primitive::I64 => Value::I64s(from.numbers(count)?),
            Primitive::U64 => Value::U64s(from.numbers(count)?),
            Primitive::F32 => Value::F32s(from.numbers(count)?),
            Primitive::F64 => Value::F64s(from.numbers(count)?),
        })
    }

    fn list(&mut self, kind: Kind, count: u32) -> Result<Value> {
        // `length` has checked the size of a sequence. The size of an array is not checked yet.
        let needed = u64::from(count).saturating_mul(self.layout.min_len(kind));
        if needed > self.from.left() as u64 {
            return Err(self.from.error(Fault::Truncated { needed, left: self.from.left() }));
        }
        self.announce(count as usize)?;
        let mut values = Vec::with_capacity(count as usize);
        for i in 0..count as usize {
            values.push(self.single(kind).map_err(|e| e.in_element(i))?);
        }
        Ok(Value::List(values))
    }
}

/// Returns the number of characters of a string. ROS 2 bounds strings in characters (Python) or not
/// at all (C++). A string within a bound in bytes is also within this bound in characters.
pub(super) fn characters(text: &[u8]) -> usize {
    text.iter().filter(|b| **b & 0xc0 != 0x80).count()
}

pub(super) fn check_bound(bound: Option<u32>, len: usize) -> Result<(), Fault> {
    match bound {
        Some(bound) if len > bound as usize => Err(Fault::Bound { len, bound }),
        _ => Ok(()),
    }
}
