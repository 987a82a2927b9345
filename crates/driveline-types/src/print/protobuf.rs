// SPDX-License-Identifier: Apache-2.0
//! Protobuf messages, read by the definition in their topic's schema:
//! `docs/protocols/protobuf-definition.md`.

use super::{Printer, SampleError, Scalar};
use crate::schema::Schema;
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

const FIRST_LINE: &str = "driveline protobuf 1";
/// Maximum depth of nested messages; protobuf's own readers allow 100.
const MAX_DEPTH: usize = 64;

/// The definition of a protobuf message and of all types that it refers to. It can print messages
/// without generated code.
#[derive(Clone, Debug)]
pub struct ProtobufDefinition {
    /// The first one is the type of the samples.
    messages: Vec<Message>,
    enums: Vec<HashMap<i32, String>>,
}

#[derive(Clone, Debug, Default)]
struct Message {
    /// In order of number.
    fields: Vec<Field>,
}

#[derive(Clone, Debug)]
struct Field {
    number: u32,
    name: String,
    repeated: bool,
    ty: Type,
}

#[derive(Clone, Copy, Debug)]
enum Type {
    Varint(Varint),
    /// Index in `enums`.
    Enum(usize),
    Fixed32(Fixed),
    Fixed64(Fixed),
    String,
    Bytes,
    /// Index in `messages`.
    Message(usize),
}

#[derive(Clone, Copy, Debug)]
enum Varint {
    Bool,
    Int32,
    Int64,
    UInt32,
    UInt64,
    SInt32,
    SInt64,
}

#[derive(Clone, Copy, Debug)]
enum Fixed {
    Float,
    Unsigned,
    Signed,
}

/// Text that is not a definition.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("line {line} of a protobuf definition is not understood: {reason}")]
pub struct ProtobufSyntaxError {
    /// Line number, from 1.
    pub line: usize,
    /// Mistake in it.
    pub reason: &'static str,
}

impl FromStr for ProtobufDefinition {
    type Err = ProtobufSyntaxError;

    /// Time and memory are bounded by [`Schema::MAX_DEFINITION_LEN`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = |line, reason| Err(ProtobufSyntaxError { line, reason });
        if text.len() > Schema::MAX_DEFINITION_LEN {
            return error(1, "the text is longer than 32 KiB");
        }
        let mut lines = (1..).zip(text.lines());
        if lines.next().map(|(_, l)| l) != Some(FIRST_LINE) {
            return error(
                1,
                "it must be 'driveline protobuf 1'; the other end runs another release",
            );
        }
        let lines: Vec<(usize, Vec<&str>)> =
            lines.map(|(n, l)| (n, l.split(' ').take(9).collect())).collect();
        // A type may be defined after the types that refer to it.
        let (mut messages, mut enums) = (HashMap::new(), HashMap::new());
        for (line, words) in &lines {
            let is_new = match words.as_slice() {
                ["message", name] => messages.insert(*name, messages.len()).is_none(),
                ["enum", name] => enums.insert(*name, enums.len()).is_none(),
                _ => true,
            };
            if !is_new {
                return error(*line, "this was defined before");
            }
        }
        let mut definition = Self { messages: Vec::new(), enums: Vec::new() };
        let mut in_message = true;
        for (line, words) in &lines {
            match words.as_slice() {
                ["message", _] => {
                    in_message = true;
                    definition.messages.push(Message::default());
                }
                ["enum", _] => {
                    in_message = false;
                    definition.enums.push(HashMap::new());
                }
                ["field", number, name, label, ty @ ..] if in_message => {
                    let Some(message) = definition.messages.last_mut() else {
                        return error(*line, "no message stands before it");
                    };
                    let Ok(number @ 1..=0x1fff_ffff) = number.parse::<u32>() else {
                        return error(*line, "the field number is not between 1 and 536870911");
                    };
                    if !is_name(name) {
                        return error(
                            *line,
                            "the name has other characters than letters, digits and '_'",
                        );
                    }
                    let repeated = match *label {
                        "repeated" => true,
                        "optional" | "required" => false,
                        _ => {
                            return error(
                                *line,
                                "the label is none of optional, repeated and required",
                            );
                        }
                    };
                    let ty = match ty {
                        ["message", name, ..] => messages.get(name).map(|m| Type::Message(*m)),
                        ["enum", name, ..] => enums.get(name).map(|e| Type::Enum(*e)),
                        [name, ..] => scalar_type(name),
                        [] => None,
                    };
                    let Some(ty) = ty else {
                        return error(*line, "its type is not known, or not defined here");
                    };
                    message.fields.push(Field { number, name: (*name).to_owned(), repeated, ty });
                }
                ["value", number, name] if !in_message => {
                    let (Ok(number), true) = (number.parse::<i32>(), is_name(name)) else {
                        return error(*line, "it is no value of an enum");
                    };
                    if let Some(values) = definition.enums.last_mut() {
                        // Of several names for a value, tools show the first.
                        values.entry(number).or_insert_with(|| (*name).to_owned());
                    }
                }
                _ => {
                    return error(
                        *line,
                        "it must be 'message NAME', 'field NUMBER NAME LABEL TYPE', 'enum NAME' or \
                         'value NUMBER NAME'",
                    );
                }
            }
        }
        if definition.messages.is_empty() {
            return error(2, "no message is defined");
        }
        for message in &mut definition.messages {
            message.fields.sort_by_key(|f| f.number);
            message.fields.dedup_by_key(|f| f.number);
        }
        Ok(definition)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

fn scalar_type(name: &str) -> Option<Type> {
    Some(match name {
        "bool" => Type::Varint(Varint::Bool),
        "int32" => Type::Varint(Varint::Int32),
        "int64" => Type::Varint(Varint::Int64),
        "uint32" => Type::Varint(Varint::UInt32),
        "uint64" => Type::Varint(Varint::UInt64),
        "sint32" => Type::Varint(Varint::SInt32),
        "sint64" => Type::Varint(Varint::SInt64),
        "float" => Type::Fixed32(Fixed::Float),
        "fixed32" => Type::Fixed32(Fixed::Unsigned),
        "sfixed32" => Type::Fixed32(Fixed::Signed),
        "double" => Type::Fixed64(Fixed::Float),
        "fixed64" => Type::Fixed64(Fixed::Unsigned),
        "sfixed64" => Type::Fixed64(Fixed::Signed),
        "string" => Type::String,
        "bytes" => Type::Bytes,
        _ => return None,
    })
}

/// A value as encoded in the payload.
#[derive(Clone, Copy, Debug)]
enum Wire<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Fixed32([u8; 4]),
    Bytes(&'a [u8]),
}

/// Takes a field from the front. `None`: the bytes are invalid, or there are none.
fn next<'a>(bytes: &mut &'a [u8]) -> Option<(u32, Wire<'a>)> {
    let key = u32::try_from(varint(bytes)?).ok()?;
    let wire = match key & 7 {
        0 => Wire::Varint(varint(bytes)?),
        1 => Wire::Fixed64(fixed(bytes)?),
        2 => {
            let len = usize::try_from(varint(bytes)?).ok()?;
            let (taken, rest) = bytes.split_at_checked(len)?;
            *bytes = rest;
            Wire::Bytes(taken)
        }
        5 => Wire::Fixed32(fixed(bytes)?),
        _ => return None,
    };
    (key >> 3 != 0).then_some((key >> 3, wire))
}

fn fixed<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*taken)
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn of_varint(ty: Varint, v: u64) -> Scalar {
    // Wider numbers are truncated, as in other implementations.
    match ty {
        Varint::Bool => Scalar::Bool(v != 0),
        Varint::Int32 => Scalar::Int((v as i32).into()),
        Varint::Int64 => Scalar::Int(v as i64),
        Varint::UInt32 => Scalar::UInt((v as u32).into()),
        Varint::UInt64 => Scalar::UInt(v),
        Varint::SInt32 => Scalar::Int((((v as u32) >> 1) as i32 ^ -((v & 1) as i32)).into()),
        Varint::SInt64 => Scalar::Int((v >> 1) as i64 ^ -((v & 1) as i64)),
    }
}

/// The numbers in a packed list, or in one value. `None`: it is something else.
fn numbers(ty: Type, wire: Wire<'_>, out: &mut Vec<Scalar>) -> Option<()> {
    match (ty, wire) {
        (Type::Varint(ty), Wire::Varint(v)) => out.push(of_varint(ty, v)),
        (Type::Enum(_), Wire::Varint(v)) => out.push(of_varint(Varint::Int32, v)),
        (Type::Fixed32(ty), Wire::Fixed32(b)) => out.push(match ty {
            Fixed::Float => Scalar::F32(f32::from_le_bytes(b)),
            Fixed::Unsigned => u32::from_le_bytes(b).into(),
            Fixed::Signed => i32::from_le_bytes(b).into(),
        }),
        (Type::Fixed64(ty), Wire::Fixed64(b)) => out.push(match ty {
            Fixed::Float => Scalar::F64(f64::from_le_bytes(b)),
            Fixed::Unsigned => u64::from_le_bytes(b).into(),
            Fixed::Signed => i64::from_le_bytes(b).into(),
        }),
        (Type::Varint(_) | Type::Enum(_), Wire::Bytes(mut b)) => {
            while !b.is_empty() {
                let v = varint(&mut b)?;
                numbers(ty, Wire::Varint(v), out)?;
            }
        }
        (Type::Fixed32(_), Wire::Bytes(mut b)) => {
            while !b.is_empty() {
                let v = fixed(&mut b)?;
                numbers(ty, Wire::Fixed32(v), out)?;
            }
        }
        (Type::Fixed64(_), Wire::Bytes(mut b)) => {
            while !b.is_empty() {
                let v = fixed(&mut b)?;
                numbers(ty, Wire::Fixed64(v), out)?;
            }
        }
        _ => return None,
    }
    Some(())
}

impl ProtobufDefinition {
    /// Checks that a payload is one message of this type. Fields outside of the definition are
    /// skipped.
    ///
    /// # Errors
    /// [`SampleError::Protobuf`]
    pub fn check(&self, payload: &[u8]) -> Result<(), SampleError> {
        self.check_message(0, payload, 0, 0)
    }

    fn check_message(
        &self,
        message: usize,
        bytes: &[u8],
        from: usize,
        depth: usize,
    ) -> Result<(), SampleError> {
        let fault = |at: usize, what: String| Err(SampleError::Protobuf { at, what });
        if depth > MAX_DEPTH {
            return fault(from, format!("messages nested more than {MAX_DEPTH} deep"));
        }
        let mut rest = bytes;
        let mut scratch = Vec::new();
        while !rest.is_empty() {
            let at = from + (bytes.len() - rest.len());
            let Some((number, wire)) = next(&mut rest) else {
                return fault(at, "the bytes are not a field, or the field is cut off".into());
            };
            let Some(field) = self.field(message, number) else { continue };
            let fits = match (field.ty, wire) {
                (Type::String | Type::Bytes, Wire::Bytes(_)) => true,
                (Type::Message(inner), Wire::Bytes(b)) => {
                    self.check_message(
                        inner,
                        b,
                        from + (bytes.len() - rest.len() - b.len()),
                        depth + 1,
                    )?;
                    true
                }
                // Only repeated numbers can be packed.
                (_, Wire::Bytes(_)) if !field.repeated => false,
                (ty, wire) => {
                    scratch.clear();
                    numbers(ty, wire, &mut scratch).is_some()
                }
            };
            if !fits {
                return fault(
                    at,
                    format!("field {number} ('{}') does not have its defined type", field.name),
                );
            }
        }
        Ok(())
    }

    fn field(&self, message: usize, number: u32) -> Option<&Field> {
        let fields = &self.messages.get(message)?.fields;
        fields.binary_search_by_key(&number, |f| f.number).ok().and_then(|i| fields.get(i))
    }

    /// Prints a message: the fields that it contains, by number. Absent fields are not printed;
    /// protobuf does not write zeros. Stops at the first byte that is not part of a message.
    /// Allocates.
    ///
    /// # Errors
    /// Errors of the printer's output.
    pub fn print(&self, payload: &[u8], p: &mut Printer<'_>) -> fmt::Result {
        self.print_message(0, payload, 0, p)
    }

    fn print_message(
        &self,
        message: usize,
        mut bytes: &[u8],
        depth: usize,
        p: &mut Printer<'_>,
    ) -> fmt::Result {
        let Some(definition) = self.messages.get(message).filter(|_| depth <= MAX_DEPTH) else {
            return p.no_fields();
        };
        let mut found: Vec<Vec<Wire<'_>>> = vec![Vec::new(); definition.fields.len()];
        while let Some((number, wire)) = next(&mut bytes) {
            let at = definition.fields.binary_search_by_key(&number, |f| f.number).ok();
            if let (Some(values), Some(field)) =
                at.map_or((None, None), |i| (found.get_mut(i), definition.fields.get(i)))
            {
                // A field that is not repeated may occur several times. The last value counts, but
                // occurrences of a message are pieces of one message and are printed together.
                if !field.repeated && !matches!(field.ty, Type::Message(_)) {
                    values.clear();
                }
                values.push(wire);
            }
        }
        if found.iter().all(Vec::is_empty) {
            return p.no_fields();
        }
        p.fields(|p| {
            for (field, values) in
                definition.fields.iter().zip(&found).filter(|(_, v)| !v.is_empty())
            {
                p.field(&field.name)?;
                self.print_field(field, values, depth, p)?;
            }
            Ok(())
        })
    }

    fn print_field(
        &self,
        field: &Field,
        values: &[Wire<'_>],
        depth: usize,
        p: &mut Printer<'_>,
    ) -> fmt::Result {
        let payload = |i: usize| if let Some(Wire::Bytes(b)) = values.get(i) { *b } else { &[] };
        match field.ty {
            Type::Message(inner) if field.repeated => {
                p.list(values.len(), |p, i| self.print_message(inner, payload(i), depth + 1, p))
            }
            Type::Message(inner) if values.len() == 1 => {
                self.print_message(inner, payload(0), depth + 1, p)
            }
            Type::Message(inner) => {
                let pieces: Vec<u8> = (0..values.len()).flat_map(payload).copied().collect();
                self.print_message(inner, &pieces, depth + 1, p)
            }
            Type::String if field.repeated => {
                p.list(values.len(), |p, i| p.text(&String::from_utf8_lossy(payload(i))))
            }
            Type::String => p.text(&String::from_utf8_lossy(payload(0))),
            Type::Bytes if field.repeated => {
                p.list(values.len(), |p, i| p.numbers(payload(i).iter().copied()))
            }
            Type::Bytes => p.numbers(payload(0).iter().copied()),
            ty => {
                let mut all = Vec::new();
                for value in values {
                    let _ = numbers(ty, *value, &mut all);
                }
                let name = |v: Scalar| match (ty, v) {
                    (Type::Enum(e), Scalar::Int(v)) => {
                        i32::try_from(v).ok().and_then(|v| self.enums.get(e)?.get(&v))
                    }
                    _ => None,
                };
                let one = |p: &mut Printer<'_>, v: Scalar| match name(v) {
                    Some(name) => p.text(name),
                    None => p.scalar(v),
                };
                match (field.repeated, all.as_slice()) {
                    (true, all) if matches!(ty, Type::Enum(_)) => {
                        p.list(all.len(), |p, i| match all.get(i) {
                            Some(v) => one(p, *v),
                            None => p.remark("nothing"),
                        })
                    }
                    (true, all) => p.numbers(all.iter().copied()),
                    (false, [.., v]) => one(p, *v),
                    (false, []) => p.remark("nothing"),
                }
            }
        }
    }
}
