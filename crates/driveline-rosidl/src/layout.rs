// SPDX-License-Identifier: Apache-2.0
//! A message with all references resolved, for reading and writing its bytes.

use crate::catalog::Catalog;
use crate::definition::{Element, Primitive, Shape};
use crate::error::DefinitionError;
use crate::name::TypeName;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Byte layout of a message. Created by [`Catalog::layout`]; cheap to clone.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    structs: Arc<[StructLayout]>,
    root: usize,
}

/// One message in a [`Layout`].
#[derive(Clone, Debug, PartialEq)]
pub struct StructLayout {
    /// Its name.
    pub name: TypeName,
    /// Members in the order in which they are sent; never empty.
    pub members: Vec<Member>,
    /// Minimum size in bytes, without padding; at least 1.
    min_len: u64,
    /// Set if its length does not depend on its content and every content of its bytes is valid.
    pub(crate) span: Option<Span>,
}

/// Size of a message in bytes, padding included. The padding depends on the offset of the message
/// modulo 8 (the largest alignment), so there is one size for each remainder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span([u64; 8]);

impl Span {
    /// Returns the size of `count` consecutive messages from this offset on; saturates at 64 bits.
    pub(crate) fn of(&self, offset: usize, count: u32) -> u64 {
        let Some(others) = count.checked_sub(1) else { return 0 };
        let first = self.one(offset as u64);
        // All messages after the first have the same size. The distance from the member with the
        // largest alignment to the end of the message does not depend on where the message starts.
        // So each message after the first starts at the same remainder modulo that alignment.
        let other = self.one((offset as u64).saturating_add(first));
        first.saturating_add(other.saturating_mul(others.into()))
    }

    fn one(&self, offset: u64) -> u64 {
        self.0[(offset % 8) as usize]
    }

    /// Computes the span of members; `structs` has the types that they may refer to.
    fn new(members: &[Member], structs: &[StructLayout]) -> Option<Self> {
        let mut spans = [0; 8];
        for (begin, span) in spans.iter_mut().enumerate() {
            let mut at = begin as u64;
            for member in members {
                let count = match member.shape {
                    Shape::Single => 1,
                    Shape::Array(count) => count,
                    Shape::Sequence { .. } => return None,
                };
                let len = match member.kind {
                    Kind::Primitive(Primitive::Bool) | Kind::String(_) | Kind::WString(_) => {
                        return None;
                    }
                    Kind::Primitive(_) if count == 0 => 0,
                    Kind::Primitive(p) => {
                        let size = size_of(p) as u64;
                        (at.wrapping_neg() & (size - 1))
                            .saturating_add(size.saturating_mul(count.into()))
                    }
                    Kind::Struct(StructId(i)) => structs.get(i)?.span?.of(at as usize, count),
                };
                at = at.saturating_add(len);
            }
            *span = at - begin as u64;
        }
        Some(Self(spans))
    }
}

/// A field in a [`StructLayout`].
#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Element type.
    pub kind: Kind,
    /// Number of elements.
    pub shape: Shape,
}

/// Element type of a [`Member`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A number, a boolean or a byte; never [`Primitive::WChar`].
    Primitive(Primitive),
    /// A string with its maximum number of characters; `None` if unbounded.
    String(Option<u32>),
    /// A string with its maximum number of UTF-16 units; `None` if unbounded.
    WString(Option<u32>),
    /// A message: see [`Layout::get`].
    Struct(StructId),
}

/// A message within a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StructId(usize);

impl Layout {
    /// Returns the id of the message itself.
    #[must_use]
    pub fn root(&self) -> StructId {
        StructId(self.root)
    }

    /// Returns a message of the layout.
    ///
    /// # Panics
    /// Possible with the id of another layout; otherwise such an id returns an unrelated message.
    #[must_use]
    pub fn get(&self, id: StructId) -> &StructLayout {
        &self.structs[id.0]
    }

    /// Returns the message's name.
    #[must_use]
    pub fn name(&self) -> &TypeName {
        &self.structs[self.root].name
    }

    /// Returns the minimum size in bytes of a value of this kind, without padding; at least 1.
    pub(crate) fn min_len(&self, kind: Kind) -> u64 {
        min_len(&self.structs, kind)
    }
}

fn min_len(structs: &[StructLayout], kind: Kind) -> u64 {
    match kind {
        Kind::Primitive(p) => size_of(p) as u64,
        // The length.
        Kind::String(_) | Kind::WString(_) => 4,
        Kind::Struct(StructId(i)) => structs.get(i).map_or(1, |s| s.min_len),
    }
}

/// Returns the size of a primitive in bytes, which is its alignment too.
pub(crate) fn size_of(p: Primitive) -> usize {
    match p {
        Primitive::Bool | Primitive::Byte | Primitive::Char | Primitive::I8 | Primitive::U8 => 1,
        Primitive::I16 | Primitive::U16 | Primitive::WChar => 2,
        Primitive::I32 | Primitive::U32 | Primitive::F32 => 4,
        Primitive::I64 | Primitive::U64 | Primitive::F64 => 8,
    }
}

impl Catalog {
    /// Returns the layout of a message. Allocates; create it once for each topic.
    ///
    /// # Errors
    /// If a definition is missing, if the message contains itself, is nested too deeply or refers
    /// to too many others, or if it has a `wchar`, which ROS 2's implementations send in different
    /// sizes.
    pub fn layout(&self, name: &TypeName) -> Result<Layout, DefinitionError> {
        let closure = self.closure(name)?;
        let index: BTreeMap<&TypeName, usize> =
            closure.iter().enumerate().map(|(i, m)| (&m.name, i)).collect();
        let mut structs: Vec<StructLayout> = Vec::with_capacity(closure.len());
        for message in &closure {
            let mut members = Vec::with_capacity(message.fields.len());
            let mut least: u64 = 0;
            for field in &message.fields {
                let kind = match &field.ty.element {
                    Element::Primitive(Primitive::WChar) => {
                        return Err(DefinitionError::new(
                            message.place(field.line),
                            format!(
                                "'{}' is a wchar, which ROS 2's implementations send in two or in \
                                 four bytes",
                                field.name
                            ),
                            "use uint16 or wstring",
                        ));
                    }
                    Element::Primitive(p) => Kind::Primitive(*p),
                    Element::String { bound } => Kind::String(*bound),
                    Element::WString { bound } => Kind::WString(*bound),
                    // A referenced message comes before the messages that refer to it.
                    Element::Nested(name) => {
                        Kind::Struct(StructId(index.get(name).copied().unwrap_or(usize::MAX)))
                    }
                };
                let one = min_len(&structs, kind);
                least = least.saturating_add(match field.ty.shape {
                    Shape::Single => one,
                    Shape::Array(n) => one.saturating_mul(n.into()),
                    Shape::Sequence { .. } => 4,
                });
                members.push(Member { name: field.name.clone(), kind, shape: field.ty.shape });
            }
            let span = Span::new(&members, &structs);
            structs.push(StructLayout {
                name: message.name.clone(),
                members,
                min_len: least.max(1),
                span,
            });
        }
        let root = structs.len().saturating_sub(1);
        Ok(Layout { structs: structs.into(), root })
    }
}
