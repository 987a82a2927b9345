// SPDX-License-Identifier: Apache-2.0
//! Definitions as data: created by the parsers and used by all other modules.

use crate::error::Place;
use crate::name::TypeName;
use std::sync::Arc;

/// The member that ROS 2 adds to a message without members, because IDL has no empty struct.
pub const EMPTY_MEMBER: &str = "structure_needs_at_least_one_member";

const EMPTY_TYPE: FieldType =
    FieldType { element: Element::Primitive(Primitive::U8), shape: Shape::Single };

/// Primitive types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Primitive {
    /// One byte, 0 or 1.
    Bool,
    /// `byte` in `.msg`, `octet` in `.idl`.
    Byte,
    /// `char` of an `.idl`. That of a `.msg` is [`Primitive::U8`], as in ROS 2.
    Char,
    /// `wchar` of an `.idl`. It can be described and hashed but not read or written:
    /// implementations differ in its size.
    WChar,
    /// `int8`
    I8,
    /// `uint8`, and `char` of a `.msg`.
    U8,
    /// `int16`
    I16,
    /// `uint16`
    U16,
    /// `int32`
    I32,
    /// `uint32`
    U32,
    /// `int64`
    I64,
    /// `uint64`
    U64,
    /// `float32`
    F32,
    /// `float64`
    F64,
}

impl Primitive {
    /// Returns its name in a `.msg`; `None` for types of `.idl` only.
    #[must_use]
    pub fn msg_name(self) -> Option<&'static str> {
        Some(match self {
            Self::Bool => "bool",
            Self::Byte => "byte",
            Self::Char | Self::WChar => return None,
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::F32 => "float32",
            Self::F64 => "float64",
        })
    }

    /// Returns its name in an `.idl`.
    #[must_use]
    pub fn idl_name(self) -> &'static str {
        match self {
            Self::Bool => "boolean",
            Self::Byte => "octet",
            Self::Char => "char",
            Self::WChar => "wchar",
            Self::I8 => "int8",
            Self::U8 => "uint8",
            Self::I16 => "int16",
            Self::U16 => "uint16",
            Self::I32 => "int32",
            Self::U32 => "uint32",
            Self::I64 => "int64",
            Self::U64 => "uint64",
            Self::F32 => "float",
            Self::F64 => "double",
        }
    }

    /// Returns minimum and maximum of an integer type.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        Some(match self {
            Self::Byte | Self::Char | Self::U8 => (0, u8::MAX.into()),
            Self::I8 => (i8::MIN.into(), i8::MAX.into()),
            Self::I16 => (i16::MIN.into(), i16::MAX.into()),
            Self::U16 | Self::WChar => (0, u16::MAX.into()),
            Self::I32 => (i32::MIN.into(), i32::MAX.into()),
            Self::U32 => (0, u32::MAX.into()),
            Self::I64 => (i64::MIN.into(), i64::MAX.into()),
            Self::U64 => (0, u64::MAX.into()),
            Self::Bool | Self::F32 | Self::F64 => return None,
        })
    }
}

/// Element type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Element {
    /// A number, a boolean or a byte.
    Primitive(Primitive),
    /// A string of at most `bound` characters.
    String {
        /// `None` if unbounded.
        bound: Option<u32>,
    },
    /// A string of at most `bound` UTF-16 units.
    WString {
        /// `None` if unbounded.
        bound: Option<u32>,
    },
    /// Another message.
    Nested(TypeName),
}

/// Number of elements of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Exactly one.
    Single,
    /// Exactly this number; at least 1.
    Array(u32),
    /// Any number, up to `bound`.
    Sequence {
        /// `None` if unbounded.
        bound: Option<u32>,
    },
}

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldType {
    /// Element type.
    pub element: Element,
    /// Number of elements.
    pub shape: Shape,
}

/// The value of a constant or a default.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `true`, `false`
    Bool(bool),
    /// An integer, in the range of its type.
    Int(i128),
    /// A floating-point number as read, in double precision also for `float32`.
    Float(f64),
    /// Text without quotes.
    Text(String),
    /// Elements of an array or a sequence.
    List(Vec<Literal>),
}

/// A field.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: FieldType,
    /// Initial value in a new message. It is not sent and not part of the type's identity.
    pub default: Option<Literal>,
    /// Comment lines before and after it, without the comment marker.
    pub comment: Vec<String>,
    /// Line in the message's file, from 1; 0 for [`EMPTY_MEMBER`] of an empty message.
    pub line: u32,
}

/// A constant. It is not sent and not part of the type's identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Constant {
    /// Its name.
    pub name: String,
    /// A primitive or a string.
    pub element: Element,
    /// Its value.
    pub value: Literal,
    /// Comment lines before and after it, without the comment marker.
    pub comment: Vec<String>,
    /// Line in the message's file, from 1.
    pub line: u32,
}

/// Message of a topic, or request or response of a service.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// Its full name.
    pub name: TypeName,
    /// Fields in the order in which they are sent; never empty ([`EMPTY_MEMBER`]).
    pub fields: Vec<Field>,
    /// Constants in the order of the file.
    pub constants: Vec<Constant>,
    /// Comment lines at the head of a `.msg`, or of this part of a `.srv`; in an `.idl`, those
    /// before the struct.
    pub comment: Vec<String>,
    /// Path of the file, or the name under which the text was given.
    pub file: Arc<str>,
}

impl Message {
    pub(crate) fn place(&self, line: u32) -> Place {
        Place { file: self.file.clone(), line }
    }

    /// Returns true if its only field is the placeholder of ROS 2.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self.fields.as_slice(), [f] if f.name == EMPTY_MEMBER && f.ty == EMPTY_TYPE)
    }

    /// Adds the placeholder field of ROS 2 to a message without fields.
    pub(crate) fn fill_if_empty(&mut self) {
        if self.fields.is_empty() {
            self.fields.push(Field {
                name: EMPTY_MEMBER.to_owned(),
                ty: EMPTY_TYPE,
                default: None,
                comment: Vec::new(),
                line: 0,
            });
        }
    }

    /// Returns true if the definitions are equal, apart from comments and places.
    #[must_use]
    pub fn same_as(&self, other: &Self) -> bool {
        self.name == other.name
            && self.fields.len() == other.fields.len()
            && self.constants.len() == other.constants.len()
            && self
                .fields
                .iter()
                .zip(&other.fields)
                .all(|(a, b)| a.name == b.name && a.ty == b.ty && a.default == b.default)
            && self
                .constants
                .iter()
                .zip(&other.constants)
                .all(|(a, b)| a.name == b.name && a.element == b.element && a.value == b.value)
    }
}

/// A service: the request of a client and the response to it.
#[derive(Clone, Debug, PartialEq)]
pub struct Service {
    /// Its full name, such as `example_interfaces/srv/AddTwoInts`.
    pub name: TypeName,
    /// The request, named `…_Request`.
    pub request: Message,
    /// The response, named `…_Response`.
    pub response: Message,
}
