// SPDX-License-Identifier: Apache-2.0
//! The canonical definition text of a message: `docs/protocols/protobuf-definition.md`.
//! `sdk/cpp/include/driveline/protobuf.hpp` writes the same text from C++ descriptors.

use crate::Error;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

enum Named<'a> {
    Message(&'a DescriptorProto),
    Enum(&'a EnumDescriptorProto),
}

/// The canonical definition of the message with the full name `root`, and of everything that it
/// refers to.
///
/// # Errors
/// [`Error::Missing`] if `set` does not define all of it.
pub fn definition(set: &FileDescriptorSet, root: &str) -> Result<String, Error> {
    let mut known = BTreeMap::new();
    for file in &set.file {
        let package =
            if file.package().is_empty() { String::new() } else { format!("{}.", file.package()) };
        known.extend(
            file.enum_type.iter().map(|e| (format!("{package}{}", e.name()), Named::Enum(e))),
        );
        file.message_type.iter().for_each(|m| collect(&package, m, &mut known));
    }
    let mut reached = BTreeSet::new();
    let mut open = vec![(root.to_owned(), root.to_owned())];
    while let Some((name, by)) = open.pop() {
        let Some(found) = known.get(&name) else {
            return Err(Error::Missing { message: by, missing: name });
        };
        if !reached.insert(name.clone()) {
            continue;
        }
        if let Named::Message(message) = found {
            open.extend(
                message
                    .field
                    .iter()
                    .filter(|f| !f.type_name().is_empty())
                    .map(|f| (reference(f), name.clone())),
            );
        }
    }
    reached.remove(root);
    let mut text = String::from("driveline protobuf 1\n");
    for name in std::iter::once(root).chain(reached.iter().map(String::as_str)) {
        match known.get(name) {
            Some(Named::Message(m)) => write_message(&mut text, name, m),
            Some(Named::Enum(e)) => write_enum(&mut text, name, e),
            None => {}
        }
    }
    Ok(text)
}

fn collect<'a>(
    prefix: &str,
    message: &'a DescriptorProto,
    known: &mut BTreeMap<String, Named<'a>>,
) {
    let name = format!("{prefix}{}", message.name());
    let inner = format!("{name}.");
    known
        .extend(message.enum_type.iter().map(|e| (format!("{inner}{}", e.name()), Named::Enum(e))));
    message.nested_type.iter().for_each(|m| collect(&inner, m, known));
    known.insert(name, Named::Message(message));
}

fn reference(field: &FieldDescriptorProto) -> String {
    field.type_name().trim_start_matches('.').to_owned()
}

// Writing to a String cannot fail.
fn write_message(text: &mut String, name: &str, message: &DescriptorProto) {
    let _ = writeln!(text, "message {name}");
    let mut fields: Vec<_> = message.field.iter().collect();
    fields.sort_by_key(|f| f.number());
    for f in fields {
        let label = match f.label() {
            Label::Optional => "optional",
            Label::Required => "required",
            Label::Repeated => "repeated",
        };
        let _ = write!(text, "field {} {} {label} {}", f.number(), f.name(), type_name(f.r#type()));
        if !f.type_name().is_empty() {
            let _ = write!(text, " {}", reference(f));
        }
        // For each `optional` of proto3, the parser adds a oneof, which is not in the file.
        if let Some(oneof) = f
            .oneof_index
            .filter(|_| !f.proto3_optional())
            .and_then(|i| message.oneof_decl.get(usize::try_from(i).ok()?))
        {
            let _ = write!(text, " oneof {}", oneof.name());
        }
        text.push('\n');
    }
}

fn write_enum(text: &mut String, name: &str, definition: &EnumDescriptorProto) {
    let _ = writeln!(text, "enum {name}");
    let mut values: Vec<_> = definition.value.iter().map(|v| (v.number(), v.name())).collect();
    values.sort_unstable();
    for (number, name) in values {
        let _ = writeln!(text, "value {number} {name}");
    }
}

fn type_name(ty: Type) -> &'static str {
    match ty {
        Type::Double => "double",
        Type::Float => "float",
        Type::Int64 => "int64",
        Type::Uint64 => "uint64",
        Type::Int32 => "int32",
        Type::Fixed64 => "fixed64",
        Type::Fixed32 => "fixed32",
        Type::Bool => "bool",
        Type::String => "string",
        Type::Group => "group",
        Type::Message => "message",
        Type::Bytes => "bytes",
        Type::Uint32 => "uint32",
        Type::Enum => "enum",
        Type::Sfixed32 => "sfixed32",
        Type::Sfixed64 => "sfixed64",
        Type::Sint32 => "sint32",
        Type::Sint64 => "sint64",
    }
}
