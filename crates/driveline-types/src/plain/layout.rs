// SPDX-License-Identifier: Apache-2.0
//! The layout descriptor of a plain type, its canonical text, and the difference of two.

use super::TAIL_ALIGN;
use crate::id::MAX_NAME_LEN;
use crate::schema::Schema;
use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Maximum number of fields of a plain type after flattening, and of the element of its trailing
/// array.
pub const MAX_FIELDS: usize = 256;

const FIRST_LINE: &str = "driveline plain 1";

/// Primitive types of plain types. Multi-byte values are little endian, as on every supported
/// machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Primitive {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Primitive {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::I8,
        Self::I16,
        Self::I32,
        Self::I64,
        Self::F32,
        Self::F64,
    ];

    /// Canonical name: `u8` … `f64`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::I8 => "i8",
            Self::I16 => "i16",
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Size in bytes.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// One field of a plain struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name; nested structs are flattened as `outer.inner`, arrays of structs as `outer[0].inner`.
    pub name: Cow<'static, str>,
    /// Type, or type of the elements of a fixed array.
    pub primitive: Primitive,
    /// Number of elements: 1, or the length of a fixed array.
    pub count: usize,
    /// Offset in bytes.
    pub offset: usize,
}

impl Field {
    /// Size of the whole field in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        self.count.saturating_mul(self.primitive.size())
    }

    fn type_text(&self) -> String {
        match self.count {
            1 => self.primitive.name().to_owned(),
            n => format!("{}[{n}]", self.primitive.name()),
        }
    }
}

/// Element type of a trailing array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A number.
    Primitive(Primitive),
    /// A plain struct without a trailing array.
    Struct {
        /// Type name.
        name: Cow<'static, str>,
        /// Size in bytes.
        size: usize,
        /// Alignment in bytes.
        align: usize,
        /// Fields in order of offset.
        fields: Vec<Field>,
    },
}

impl Element {
    /// Size of one element in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        match self {
            Self::Primitive(p) => p.size(),
            Self::Struct { size, .. } => *size,
        }
    }

    fn type_name(&self) -> &str {
        match self {
            Self::Primitive(p) => p.name(),
            Self::Struct { name, .. } => name,
        }
    }
}

/// A trailing array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tail {
    /// Name.
    pub name: Cow<'static, str>,
    /// Element type.
    pub element: Element,
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
    /// Fields in order of offset, without gaps.
    pub fields: Vec<Field>,
    /// Trailing array, if any.
    pub tail: Option<Tail>,
}

impl PlainLayout {
    /// Offset of the trailing array in a payload, in bytes.
    #[must_use]
    pub fn tail_offset(&self) -> usize {
        self.size.next_multiple_of(TAIL_ALIGN)
    }

    /// Returns a text about the first difference from `other` (the subscription's); `None` if there
    /// is none.
    ///
    /// Fields are compared before sizes: if the size differs because a field differs, the text is
    /// about the field.
    #[must_use]
    pub fn first_difference(&self, other: &PlainLayout) -> Option<String> {
        if self.name != other.name {
            return Some(format!(
                "the publisher's type is called '{}', the subscription's '{}'",
                self.name, other.name
            ));
        }
        field_difference("field", &self.fields, &other.fields)
            .or_else(|| number_difference("the struct", "size", self.size, other.size))
            .or_else(|| number_difference("the struct", "alignment", self.align, other.align))
            .or_else(|| tail_difference(self.tail.as_ref(), other.tail.as_ref()))
    }
}

fn field_difference(what: &str, ours: &[Field], theirs: &[Field]) -> Option<String> {
    for (i, pair) in
        (1..).zip((0..ours.len().max(theirs.len())).map(|i| (ours.get(i), theirs.get(i))))
    {
        return Some(match pair {
            (Some(a), Some(b)) if a == b => continue,
            (Some(a), Some(b)) if a.name != b.name => format!(
                "{what} {i} is '{}' ({} at offset {}) in the publisher's type, '{}' ({} at offset \
                 {}) in the subscription's",
                a.name,
                a.type_text(),
                a.offset,
                b.name,
                b.type_text(),
                b.offset
            ),
            (Some(a), Some(b)) => format!(
                "{what} {i} '{}' is {} at offset {} in the publisher's type, {} at offset {} in \
                 the subscription's",
                a.name,
                a.type_text(),
                a.offset,
                b.type_text(),
                b.offset
            ),
            (Some(a), None) => format!(
                "{what} {i} '{}' ({} at offset {}) of the publisher's type is missing in the \
                 subscription's",
                a.name,
                a.type_text(),
                a.offset
            ),
            (None, Some(b)) => format!(
                "{what} {i} '{}' ({} at offset {}) of the subscription's type is missing in the \
                 publisher's",
                b.name,
                b.type_text(),
                b.offset
            ),
            (None, None) => continue,
        });
    }
    None
}

fn number_difference(what: &str, property: &str, ours: usize, theirs: usize) -> Option<String> {
    (ours != theirs).then(|| {
        format!(
            "the {property} of {what} is {ours} bytes in the publisher's \
         type, {theirs} in the subscription's"
        )
    })
}

fn tail_difference(ours: Option<&Tail>, theirs: Option<&Tail>) -> Option<String> {
    let (a, b) = match (ours, theirs) {
        (None, None) => return None,
        (Some(a), None) => {
            return Some(format!(
                "the trailing array '{}' ({}) of the publisher's type is missing in the \
                 subscription's",
                a.name,
                a.element.type_name()
            ));
        }
        (None, Some(b)) => {
            return Some(format!(
                "the trailing array '{}' ({}) of the subscription's type is missing in the \
                 publisher's",
                b.name,
                b.element.type_name()
            ));
        }
        (Some(a), Some(b)) => (a, b),
    };
    if a.name != b.name {
        return Some(format!(
            "the trailing array is called '{}' in the publisher's type, '{}' in the subscription's",
            a.name, b.name
        ));
    }
    let what = format!("elements of the trailing array '{}'", a.name);
    match (&a.element, &b.element) {
        (x, y) if x == y => None,
        (
            Element::Struct { name: n, size: s, align: l, fields: f },
            Element::Struct { name: other_n, size: other_s, align: other_l, fields: other_f },
        ) if n == other_n => field_difference(&format!("in the {what}, field"), f, other_f)
            .or_else(|| number_difference(&format!("the {what}"), "size", *s, *other_s))
            .or_else(|| number_difference(&format!("the {what}"), "alignment", *l, *other_l)),
        (x, y) => Some(format!(
            "the {what} are {} in the publisher's type, {} in the subscription's",
            x.type_name(),
            y.type_name()
        )),
    }
}

impl fmt::Display for PlainLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = |f: &mut fmt::Formatter<'_>, word: &str, fields: &[Field]| {
            fields.iter().try_for_each(|x| {
                writeln!(f, "{word} {} {} offset {}", x.name, x.type_text(), x.offset)
            })
        };
        writeln!(f, "{FIRST_LINE}")?;
        writeln!(f, "type {} size {} align {}", self.name, self.size, self.align)?;
        fields(f, "field", &self.fields)?;
        match &self.tail {
            None => Ok(()),
            Some(Tail { name, element: Element::Primitive(p) }) => {
                writeln!(f, "tail {name} {}", p.name())
            }
            Some(Tail {
                name,
                element: Element::Struct { name: element, size, align, fields: inner },
            }) => {
                writeln!(f, "tail {name} {element} size {size} align {align}")?;
                fields(f, "element", inner)
            }
        }
    }
}

/// Text that is not a layout.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line} of a plain layout ({text:?}) is not understood: {reason}")]
pub struct LayoutSyntaxError {
    /// Line number, from 1.
    pub line: usize,
    /// The line, cut to 80 characters.
    pub text: String,
    /// Mistake in it.
    pub reason: &'static str,
}

impl FromStr for PlainLayout {
    type Err = LayoutSyntaxError;

    /// Accepts exactly the texts that `Display` writes for gapless layouts within the bounds. Time
    /// and memory are bounded by [`Schema::MAX_DEFINITION_LEN`].
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > Schema::MAX_DEFINITION_LEN {
            return Err(LayoutSyntaxError {
                line: 1,
                text: cut(text),
                reason: "the text is longer than 32 KiB",
            });
        }
        let mut lines = Lines { rest: text, number: 0, text };
        if lines.next()? != Some(FIRST_LINE) {
            return lines
                .fail("it must be 'driveline plain 1'; the other end runs another release");
        }
        let Some(line) = lines.next()? else {
            return lines.fail("the line 'type NAME size BYTES align BYTES' is missing");
        };
        let (name, size, align) = match *words(line).as_slice() {
            ["type", name, "size", size, "align", align] => lines.checked(name, size, align)?,
            _ => return lines.fail("it must be 'type NAME size BYTES align BYTES'"),
        };
        let (fields, next) = lines.fields("field", size)?;
        let mut tail = None;
        if let Some(line) = next {
            let (tail_name, element, end) = match *words(line).as_slice() {
                ["tail", tail_name, primitive] => {
                    let Some(p) = primitive_named(primitive) else {
                        return lines.fail("the element's type is not a primitive");
                    };
                    (tail_name, Element::Primitive(p), lines.next()?)
                }
                ["tail", tail_name, element, "size", size, "align", align] => {
                    let (name, size, align) = lines.checked(element, size, align)?;
                    let (fields, end) = lines.fields("element", size)?;
                    (
                        tail_name,
                        Element::Struct { name: Cow::Owned(name), size, align, fields },
                        end,
                    )
                }
                _ => {
                    return lines
                        .fail("it must be 'field NAME TYPE offset BYTES' or 'tail NAME TYPE'");
                }
            };
            if end.is_some() {
                return lines.fail("nothing may follow the trailing array");
            }
            if !is_name(tail_name) {
                return lines.fail(
                    "the trailing array's name has other characters than letters, \
                     digits and '_./:[]-', or is too long",
                );
            }
            tail = Some(Tail { name: Cow::Owned(tail_name.to_owned()), element });
        }
        Ok(Self { name: Cow::Owned(name), size, align, fields, tail })
    }
}

struct Lines<'a> {
    rest: &'a str,
    number: usize,
    text: &'a str,
}

impl<'a> Lines<'a> {
    fn next(&mut self) -> Result<Option<&'a str>, LayoutSyntaxError> {
        self.number += 1;
        if self.rest.is_empty() {
            self.text = "";
            return Ok(None);
        }
        let Some((line, rest)) = self.rest.split_once('\n') else {
            self.text = self.rest;
            return self.fail("the line does not end");
        };
        (self.text, self.rest) = (line, rest);
        Ok(Some(line))
    }

    fn fail<T>(&self, reason: &'static str) -> Result<T, LayoutSyntaxError> {
        Err(LayoutSyntaxError { line: self.number, text: cut(self.text), reason })
    }

    fn checked(
        &self,
        name: &str,
        size: &str,
        align: &str,
    ) -> Result<(String, usize, usize), LayoutSyntaxError> {
        let (Some(size), Some(align)) = (number(size), number(align)) else {
            return self.fail("a size or alignment is not a decimal number below 2^31");
        };
        if !is_name(name) {
            return self.fail(
                "the type's name has other characters than letters, digits and \
                 '_./:[]-', or is too long",
            );
        }
        if !align.is_power_of_two() || align > TAIL_ALIGN {
            return self.fail("an alignment is a power of two up to 64");
        }
        if size == 0 || size % align != 0 {
            return self.fail("a size is a multiple of the alignment, and not 0");
        }
        Ok((name.to_owned(), size, align))
    }

    /// Reads field lines up to the next line of another kind, and returns that line.
    fn fields(
        &mut self,
        word: &str,
        struct_size: usize,
    ) -> Result<(Vec<Field>, Option<&'a str>), LayoutSyntaxError> {
        let mut fields = Vec::new();
        let mut end = 0usize;
        loop {
            let line = self.next()?;
            let parts = line.map(words).unwrap_or_default();
            let [first, name, ty, "offset", offset] = *parts.as_slice() else {
                return self.finish(fields, end, struct_size, line);
            };
            if first != word {
                return self.finish(fields, end, struct_size, line);
            }
            let Some((primitive, count)) = type_of(ty) else {
                return self.fail(
                    "the type is not a primitive or an array 'PRIMITIVE[LENGTH]' of \
                     at least two elements",
                );
            };
            if !is_name(name) {
                return self.fail(
                    "the field's name has other characters than letters, digits and \
                     '_./:[]-', or is too long",
                );
            }
            if number(offset) != Some(end) {
                return self.fail("the field does not start where the one before it ends");
            }
            let field = Field { name: Cow::Owned(name.to_owned()), primitive, count, offset: end };
            end = end.saturating_add(field.size());
            if end > struct_size {
                return self.fail("the field ends beyond the struct");
            }
            if fields.len() == MAX_FIELDS {
                return self.fail("there are more than 256 fields");
            }
            fields.push(field);
        }
    }

    fn finish<T>(
        &self,
        fields: Vec<Field>,
        end: usize,
        struct_size: usize,
        line: T,
    ) -> Result<(Vec<Field>, T), LayoutSyntaxError> {
        if end != struct_size {
            return self.fail("the fields before it do not fill the struct");
        }
        Ok((fields, line))
    }
}

fn cut(text: &str) -> String {
    text.chars().take(80).collect()
}

// Single spaces exactly: two texts that parse to the same layout are the same text.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').take(8).collect()
}

fn number(text: &str) -> Option<usize> {
    let canonical =
        text.bytes().all(|b| b.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|&n: &usize| canonical && n < 1 << 31)
}

fn primitive_named(name: &str) -> Option<Primitive> {
    Primitive::ALL.into_iter().find(|p| p.name() == name)
}

fn type_of(text: &str) -> Option<(Primitive, usize)> {
    match text.split_once('[') {
        None => Some((primitive_named(text)?, 1)),
        Some((name, rest)) => {
            Some((primitive_named(name)?, number(rest.strip_suffix(']')?).filter(|&n| n > 1)?))
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_./:[]-".contains(&b);
    !name.is_empty() && name.len() <= MAX_NAME_LEN && name.bytes().all(allowed)
}
