// SPDX-License-Identifier: Apache-2.0
//! Type descriptions and type hashes, as REP 2011 and `rosidl_generator_type_description` define
//! them.
//!
//! The hash is the SHA-256 of the type description as JSON: the type itself, then all types that it
//! refers to, sorted by name, without default values, with the separators `", "` and `": "`.
//! Constants and comments are not part of it.

use crate::catalog::Catalog;
use crate::definition::{Element, Field, FieldType, Message, Primitive, Shape};
use crate::error::{DefinitionError, Place};
use crate::msg;
use crate::name::{Namespace, TypeName};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::str::FromStr;
use thiserror::Error;

/// The identity of a type in ROS 2 since Iron. Its text reads `RIHS01_` and 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TypeHash(pub [u8; 32]);

const PREFIX: &str = "RIHS01_";

impl fmt::Display for TypeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(PREFIX)?;
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

/// Error for a text that is not a type hash of version 1.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("'{0}' is no type hash of ROS 2; one reads RIHS01_ and 64 lower-case hexadecimal digits")]
pub struct TypeHashError(String);

impl FromStr for TypeHash {
    type Err = TypeHashError;

    fn from_str(text: &str) -> Result<Self, TypeHashError> {
        let error = || TypeHashError(crate::error::shown(text));
        let digits = text.strip_prefix(PREFIX).ok_or_else(error)?;
        let lower = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
        if digits.len() != 64 || !digits.bytes().all(lower) {
            return Err(error());
        }
        let mut hash = [0; 32];
        for (byte, pair) in hash.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        Ok(Self(hash))
    }
}

impl Catalog {
    /// Returns the hash of the service of this name if there is one, else of the message.
    ///
    /// # Errors
    /// If a definition is missing, or the message contains itself, is nested too deeply or refers
    /// to too many others.
    pub fn type_hash(&self, name: &TypeName) -> Result<TypeHash, DefinitionError> {
        Ok(TypeHash(Sha256::digest(self.type_description(name)?).into()))
    }

    /// Returns the type description that is hashed: JSON in one line, without default values.
    ///
    /// # Errors
    /// If a definition is missing, or the message contains itself, is nested too deeply or refers
    /// to too many others.
    pub fn type_description(&self, name: &TypeName) -> Result<String, DefinitionError> {
        if self.service(name).is_some() {
            return self.service_description(name);
        }
        let closure = self.closure(name)?;
        let Some((message, references)) = closure.split_last() else { return Ok(String::new()) };
        Ok(description(name, &message.fields, references.iter().copied()))
    }

    /// Returns the description of a service: a type with request, response and event, which ROS 2
    /// adds for introspection.
    fn service_description(&self, name: &TypeName) -> Result<String, DefinitionError> {
        let nested = |n: &str, name: &TypeName, shape| Field {
            name: n.to_owned(),
            ty: FieldType { element: Element::Nested(name.clone()), shape },
            default: None,
            comment: Vec::new(),
            line: 0,
        };
        let one = Shape::Sequence { bound: Some(1) };
        let [request, response, event] =
            ["_Request", "_Response", "_Event"].map(|s| name.with_suffix(s));
        let info = well_known("service_msgs", "ServiceEventInfo")?;
        let event = Message {
            fields: vec![
                nested("info", &info, Shape::Single),
                nested("request", &request, one),
                nested("response", &response, one),
            ],
            name: event,
            constants: Vec::new(),
            comment: Vec::new(),
            file: format!("{name} (event)").into(),
        };
        let fields = [
            nested("request_message", &request, Shape::Single),
            nested("response_message", &response, Shape::Single),
            nested("event_message", &event.name, Shape::Single),
        ];
        let mut all = self.clone();
        all.add_event_types(&info)?;
        all.add_message(event.clone())?;
        let references = all.closure(&event.name)?;
        Ok(description(name, &fields, references.into_iter()))
    }

    /// Adds `info` and the time that it contains, unless they are defined: the hash of a service
    /// needs them, and releases before Iron do not define `info`.
    fn add_event_types(&mut self, info: &TypeName) -> Result<(), DefinitionError> {
        let time = well_known("builtin_interfaces", "Time")?;
        let event = "uint8 event_type\nbuiltin_interfaces/Time stamp\nchar[16] client_gid\nint64 \
             sequence_number\n";
        for (name, text) in [(info, event), (&time, "int32 sec\nuint32 nanosec\n")] {
            if self.message(name).is_none() {
                self.add_message(msg::parse_msg(name, &name.to_string(), text)?)?;
            }
        }
        Ok(())
    }
}

fn well_known(package: &str, name: &str) -> Result<TypeName, DefinitionError> {
    TypeName::new(package, Namespace::Msg, name).map_err(|e| {
        DefinitionError::new(Place { file: package.into(), line: 0 }, e.to_string(), "report this")
    })
}

/// Names are ASCII without quotes, so that nothing needs to be escaped.
fn description<'a>(
    name: &TypeName,
    fields: &[Field],
    references: impl Iterator<Item = &'a Message>,
) -> String {
    let by_name: BTreeMap<String, &Message> = references.map(|m| (m.name.to_string(), m)).collect();
    let mut out = String::from("{\"type_description\": ");
    individual(&mut out, &name.to_string(), fields);
    out.push_str(", \"referenced_type_descriptions\": [");
    for (i, (name, message)) in by_name.iter().enumerate() {
        out.push_str(if i == 0 { "" } else { ", " });
        individual(&mut out, name, &message.fields);
    }
    out.push_str("]}");
    out
}

// Writing to a String cannot fail.
fn individual(out: &mut String, name: &str, fields: &[Field]) {
    let _ = write!(out, "{{\"type_name\": \"{name}\", \"fields\": [");
    for (i, field) in fields.iter().enumerate() {
        let (capacity, string_capacity, nested) = capacities(&field.ty);
        let _ = write!(
            out,
            "{}{{\"name\": \"{}\", \"type\": {{\"type_id\": {}, \"capacity\": {capacity}, \
             \"string_capacity\": {string_capacity}, \
             \"nested_type_name\": \"{nested}\"}}}}",
            if i == 0 { "" } else { ", " },
            field.name,
            type_id(&field.ty),
        );
    }
    out.push_str("]}");
}

fn capacities(ty: &FieldType) -> (u32, u32, String) {
    let capacity = match ty.shape {
        Shape::Single | Shape::Sequence { bound: None } => 0,
        Shape::Array(n) | Shape::Sequence { bound: Some(n) } => n,
    };
    let (string_capacity, nested) = match &ty.element {
        Element::String { bound } | Element::WString { bound } => {
            (bound.unwrap_or(0), String::new())
        }
        Element::Nested(name) => (0, name.to_string()),
        Element::Primitive(_) => (0, String::new()),
    };
    (capacity, string_capacity, nested)
}

/// Returns the number of a type in `type_description_interfaces/msg/FieldType`.
fn type_id(ty: &FieldType) -> u8 {
    let element = match &ty.element {
        Element::Nested(_) => 1,
        Element::Primitive(p) => match p {
            Primitive::I8 => 2,
            Primitive::U8 => 3,
            Primitive::I16 => 4,
            Primitive::U16 => 5,
            Primitive::I32 => 6,
            Primitive::U32 => 7,
            Primitive::I64 => 8,
            Primitive::U64 => 9,
            Primitive::F32 => 10,
            Primitive::F64 => 11,
            Primitive::Char => 13,
            Primitive::WChar => 14,
            Primitive::Bool => 15,
            Primitive::Byte => 16,
        },
        Element::String { bound: None } => 17,
        Element::WString { bound: None } => 18,
        Element::String { bound: Some(_) } => 21,
        Element::WString { bound: Some(_) } => 22,
    };
    element
        + match ty.shape {
            Shape::Single => 0,
            Shape::Array(_) => 48,
            Shape::Sequence { bound: Some(_) } => 96,
            Shape::Sequence { bound: None } => 144,
        }
}
