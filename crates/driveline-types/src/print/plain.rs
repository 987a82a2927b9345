// SPDX-License-Identifier: Apache-2.0
//! Samples of plain types, read by their layout.

use super::{Printer, SampleError, Scalar};
use crate::plain::{Element, Field, PlainLayout, Primitive};
use std::fmt;

/// Minimum length of a fixed array of bytes that may be text (`docs/protocols/plain-types.md`).
const TEXT_FROM: usize = 8;

impl PlainLayout {
    /// Checks the length of a payload of this type. Any contents are valid.
    ///
    /// # Errors
    /// [`SampleError::Length`]
    pub fn check(&self, payload: &[u8]) -> Result<(), SampleError> {
        let len = payload.len();
        let no = |what: String| Err(SampleError::Length { len, what });
        let Some(tail) = &self.tail else {
            return if len == self.size {
                Ok(())
            } else {
                no(format!("there should be {}", self.size))
            };
        };
        let element = tail.element.size().max(1);
        match len.checked_sub(self.tail_offset()) {
            None => no(format!("there should be {} at least", self.tail_offset())),
            Some(rest) if rest % element != 0 => {
                no(format!("{rest} are no whole number of '{}' of {element} bytes each", tail.name))
            }
            Some(_) => Ok(()),
        }
    }

    /// Prints a payload: nested structs and arrays of them as they were before they were flattened.
    /// A fixed array of at least 8 bytes is shown as text if it contains text, and after the text
    /// only zeros. If the payload is too short, a single number that is not complete is shown as 0,
    /// and an array without its missing elements.
    ///
    /// # Errors
    /// Errors of the printer's output.
    pub fn print(&self, payload: &[u8], p: &mut Printer<'_>) -> fmt::Result {
        p.fields(|p| {
            let all: Vec<Leaf<'_>> =
                self.fields.iter().map(|f| Leaf { field: f, rest: &f.name }).collect();
            group(&all, payload, p)?;
            let Some(tail) = &self.tail else { return Ok(()) };
            p.field(&tail.name)?;
            let elements = payload.get(self.tail_offset()..).unwrap_or_default();
            match &tail.element {
                Element::Primitive(of) => {
                    p.numbers(elements.chunks_exact(of.size()).map(|b| number(*of, b)))
                }
                Element::Struct { size, fields, .. } => {
                    let leaves: Vec<Leaf<'_>> =
                        fields.iter().map(|f| Leaf { field: f, rest: &f.name }).collect();
                    let size = (*size).max(1);
                    p.list(elements.len() / size, |p, i| {
                        let element = elements.get(i * size..).unwrap_or_default();
                        p.fields(|p| group(&leaves, element, p))
                    })
                }
            }
        })
    }
}

/// Field and the remaining part of its name: `outer[0].inner` becomes `inner` inside of `outer[0]`.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    field: &'a Field,
    rest: &'a str,
}

/// First part of a name.
enum Head<'a> {
    Leaf,
    /// Struct and remaining name.
    Member(&'a str, &'a str),
    /// Array of structs and remaining name, index included.
    Array(&'a str, &'a str),
}

/// Splits a name. Every name is of one of these kinds, also an unusual one.
fn head(name: &str) -> Head<'_> {
    match name.find(['.', '[']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'.') => {
            Head::Member(&name[..at], &name[at + 1..])
        }
        Some(at) if index(&name[at..]).is_some() => Head::Array(&name[..at], &name[at..]),
        _ => Head::Leaf,
    }
}

/// Splits `[3].x` into `[3]` and the remaining name.
fn index(name: &str) -> Option<(&str, &str)> {
    let end = name.strip_prefix('[')?.find(']')? + 2;
    Some(name.split_at(end))
}

/// Prints fields; fields of one nested struct are printed together. Bounded: each level consumes at
/// least one byte of the names, which have at most 200.
fn group(fields: &[Leaf<'_>], bytes: &[u8], p: &mut Printer<'_>) -> fmt::Result {
    let mut left = fields;
    while let Some(first) = left.first() {
        let (within, others) = match head(first.rest) {
            Head::Leaf => {
                p.field(first.rest)?;
                leaf(first.field, bytes, p)?;
                left = left.get(1..).unwrap_or_default();
                continue;
            }
            Head::Member(name, _) => {
                together(left, |l| matches!(head(l.rest), Head::Member(other, _) if other == name))
            }
            Head::Array(name, _) => {
                together(left, |l| matches!(head(l.rest), Head::Array(other, _) if other == name))
            }
        };
        left = others;
        let inner: Vec<Leaf<'_>> = within
            .iter()
            .map(|l| match head(l.rest) {
                Head::Member(_, rest) | Head::Array(_, rest) => Leaf { rest, ..*l },
                Head::Leaf => *l,
            })
            .collect();
        match head(first.rest) {
            Head::Member(name, _) => {
                p.field(name)?;
                p.fields(|p| group(&inner, bytes, p))?;
            }
            Head::Array(name, _) => {
                p.field(name)?;
                array(&inner, bytes, p)?;
            }
            Head::Leaf => {}
        }
    }
    Ok(())
}

/// Prints the elements of an array: names begin with an index.
fn array(fields: &[Leaf<'_>], bytes: &[u8], p: &mut Printer<'_>) -> fmt::Result {
    let mut elements: Vec<Vec<Leaf<'_>>> = Vec::new();
    let mut before = None;
    for l in fields {
        let Some((number, rest)) = index(l.rest) else { continue };
        if before != Some(number) {
            elements.push(Vec::new());
            before = Some(number);
        }
        if let Some(element) = elements.last_mut() {
            element.push(Leaf { rest, ..*l });
        }
    }
    p.list(elements.len(), |p, i| {
        let element = elements.get(i).map(Vec::as_slice).unwrap_or_default();
        let Some(first) = element.first() else { return p.no_fields() };
        if index(first.rest).is_some() {
            return array(element, bytes, p);
        }
        let members: Vec<Leaf<'_>> = element
            .iter()
            .map(|l| Leaf { rest: l.rest.strip_prefix('.').unwrap_or(l.rest), ..*l })
            .collect();
        p.fields(|p| group(&members, bytes, p))
    })
}

fn together<'a, 'b>(
    fields: &'b [Leaf<'a>],
    belongs: impl Fn(&Leaf<'a>) -> bool,
) -> (&'b [Leaf<'a>], &'b [Leaf<'a>]) {
    let n = fields.iter().position(|l| !belongs(l)).unwrap_or(fields.len());
    fields.split_at(n)
}

fn leaf(field: &Field, bytes: &[u8], p: &mut Printer<'_>) -> fmt::Result {
    let size = field.primitive.size();
    let bytes = bytes.get(field.offset..).unwrap_or_default();
    let bytes = bytes.get(..field.size()).unwrap_or(bytes);
    if field.count == 1 {
        return p.scalar(number(field.primitive, bytes));
    }
    if field.primitive == Primitive::U8
        && field.count >= TEXT_FROM
        && let Some(text) = text(bytes)
    {
        return p.text(text);
    }
    p.numbers(bytes.chunks_exact(size).map(|b| number(field.primitive, b)))
}

/// Text, then zeros to the end.
fn text(bytes: &[u8]) -> Option<&str> {
    let (text, zeros) = bytes.split_at(bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len()));
    let text = std::str::from_utf8(text).ok()?;
    (zeros.iter().all(|b| *b == 0) && !text.chars().any(char::is_control)).then_some(text)
}

fn number(of: Primitive, bytes: &[u8]) -> Scalar {
    macro_rules! read {
        ($ty:ty) => {
            <$ty>::from_le_bytes(bytes.first_chunk().copied().unwrap_or_default()).into()
        };
    }
    match of {
        Primitive::U8 => read!(u8),
        Primitive::U16 => read!(u16),
        Primitive::U32 => read!(u32),
        Primitive::U64 => read!(u64),
        Primitive::I8 => read!(i8),
        Primitive::I16 => read!(i16),
        Primitive::I32 => read!(i32),
        Primitive::I64 => read!(i64),
        Primitive::F32 => read!(f32),
        Primitive::F64 => read!(f64),
    }
}
