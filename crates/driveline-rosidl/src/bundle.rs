// SPDX-License-Identifier: Apache-2.0
//! A definition with all its references in one text, as in MCAP and Foxglove (`ros2msg`,
//! `ros2idl`). The schema of a topic is described in `docs/protocols/ros2-schema.md`.

use crate::MAX_TEXT_LEN;
use crate::catalog::{Catalog, MAX_REFERENCES};
use crate::definition::{Element, Field, FieldType, Literal, Message, Shape};
use crate::error::{DefinitionError, Place, shown};
use crate::idl::{self, Interface};
use crate::name::{self, Namespace, TypeName};
use crate::{literal, msg};
use driveline_types::Schema;
use std::fmt::Write as _;
use std::sync::Arc;

/// Value of [`Schema::encoding`] for samples in CDR.
pub const CDR_ENCODING: &str = "cdr";

/// Detail of a written definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Parts that publishers and subscriptions of a topic must agree on: names and types of fields.
    Wire,
    /// Constants and defaults as well, for people and tools.
    Full,
}

const SEPARATOR: &str =
    "================================================================================";

impl Catalog {
    /// Returns the message with all its references, as `.msg` texts with separators. `None` if one
    /// of them cannot be written as a `.msg`: it has a `char` or `wchar` of IDL, a field with a
    /// name that only IDL allows, or a reference to a type that is not a message.
    ///
    /// # Errors
    /// If a definition is missing, or the message contains itself, is nested too deeply or refers
    /// to too many others.
    pub fn ros2msg(
        &self,
        name: &TypeName,
        detail: Detail,
    ) -> Result<Option<String>, DefinitionError> {
        let mut text = String::new();
        for (i, message) in self.in_order(name)?.into_iter().enumerate() {
            if i > 0 {
                if message.name.namespace() != Namespace::Msg {
                    return Ok(None);
                }
                let _ = write!(
                    text,
                    "{SEPARATOR}\nMSG: {}/{}\n",
                    message.name.package(),
                    message.name.name()
                );
            }
            if write_msg(&mut text, message, detail).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(text))
    }

    /// Returns the message with all its references, as IDL texts with separators.
    ///
    /// # Errors
    /// If a definition is missing, or the message contains itself, is nested too deeply or refers
    /// to too many others.
    pub fn ros2idl(&self, name: &TypeName, detail: Detail) -> Result<String, DefinitionError> {
        let mut text = String::new();
        for message in self.in_order(name)? {
            let _ = write!(text, "{SEPARATOR}\nIDL: {}\n", message.name);
            write_idl(&mut text, message, detail);
        }
        Ok(text)
    }

    /// Returns the message, then the types that it refers to, by name.
    fn in_order(&self, name: &TypeName) -> Result<Vec<&Message>, DefinitionError> {
        let mut all = self.closure(name)?;
        all.sort_by_key(|m| (m.name != *name, &m.name));
        Ok(all)
    }

    /// Returns the schema of a topic that carries the message in CDR. Its definition is `ros2msg`
    /// if that can express the message and `ros2idl` otherwise ([`Catalog::from_schema`] reads
    /// both). It has no constants and defaults: these differ between releases of ROS 2 although the
    /// samples have the same bytes.
    ///
    /// # Errors
    /// As [`Catalog::ros2idl`], or if the text is too long for a schema.
    pub fn schema(&self, name: &TypeName) -> Result<Schema, DefinitionError> {
        let text = match self.ros2msg(name, Detail::Wire)? {
            Some(text) => text,
            None => self.ros2idl(name, Detail::Wire)?,
        };
        if text.len() > Schema::MAX_DEFINITION_LEN {
            let problem = format!(
                "{} bytes of definition, a topic carries at most {}",
                text.len(),
                Schema::MAX_DEFINITION_LEN
            );
            return Err(DefinitionError::new(
                Place { file: name.to_string().into(), line: 0 },
                problem,
                "split the message",
            ));
        }
        Ok(Schema::bytes(name.to_string(), CDR_ENCODING, text))
    }

    /// Returns the definitions in a schema, and the name of its type.
    ///
    /// # Errors
    /// If its encoding is not CDR, its name is not that of a ROS 2 type, or its definition has a
    /// mistake. For a mistake in the definition, the place is a line of it.
    pub fn from_schema(schema: &Schema) -> Result<(TypeName, Self), DefinitionError> {
        let error = |problem: String, remedy| {
            DefinitionError::new(
                Place { file: format!("schema {}", shown(&schema.name)).into(), line: 0 },
                problem,
                remedy,
            )
        };
        if schema.encoding != CDR_ENCODING {
            return Err(error(
                format!("the encoding is '{}', not cdr", shown(&schema.encoding)),
                "read it with what its encoding names",
            ));
        }
        let name: TypeName = schema
            .name
            .parse()
            .map_err(|e| error(format!("{e}"), "name the schema after its ROS 2 type"))?;
        let catalog = Self::from_text(&name, &schema.definition)?;
        Ok((name, catalog))
    }

    /// Returns the definitions in a text of type `ros2msg` or `ros2idl`; in `ros2msg`, `name` is
    /// the name of the first one.
    ///
    /// # Errors
    /// Returns the first mistake; the place is a line of the text.
    pub fn from_text(name: &TypeName, text: &str) -> Result<Self, DefinitionError> {
        let file: Arc<str> = format!("definition of {name}").into();
        let place = |line| Place { file: file.clone(), line };
        if text.len() > MAX_TEXT_LEN {
            let problem =
                format!("{} bytes of definition, at most {MAX_TEXT_LEN} are read", text.len());
            return Err(DefinitionError::new(place(0), problem, "split the message"));
        }
        let mut catalog = Self::new();
        for (i, section) in sections(text).enumerate() {
            if i > MAX_REFERENCES {
                return Err(DefinitionError::new(
                    place(section.first),
                    "too many definitions in one",
                    "split the message",
                ));
            }
            let named = |kind: &str| {
                section
                    .head
                    .strip_prefix(kind)
                    .ok_or(())
                    .and_then(|n| n.trim().parse::<TypeName>().map_err(|_| ()))
                    .map_err(|()| {
                        let problem = format!("'{}' behind a separator", shown(section.head));
                        DefinitionError::new(
                            place(section.first - 1),
                            problem,
                            "write MSG: package/Name, or IDL: package/msg/Name",
                        )
                    })
            };
            if section.head.starts_with("IDL:") {
                named("IDL:")?;
                match idl::parse_at(&file, &section.lines.join("\n"), section.first)? {
                    Interface::Message(message) => catalog.add_message(message)?,
                    Interface::Service(service) => catalog.add_service(service)?,
                }
            } else {
                let name =
                    if i == 0 && section.head.is_empty() { name.clone() } else { named("MSG:")? };
                catalog.add_message(msg::parse_lines(
                    &name,
                    &file,
                    section.lines.iter().copied(),
                    section.first,
                )?)?;
            }
        }
        Ok(catalog)
    }
}

/// Text between two separators.
struct Section<'a> {
    /// The line after the separator; empty for a text that does not begin with a separator.
    head: &'a str,
    /// Line number of the first line, from 1.
    first: u32,
    lines: Vec<&'a str>,
}

fn sections(text: &str) -> impl Iterator<Item = Section<'_>> {
    let is_separator =
        |line: &str| line.len() >= SEPARATOR.len() && line.trim_end().bytes().all(|b| b == b'=');
    let mut lines = (1..).zip(msg::lines_of(text)).peekable();
    let mut begins = true;
    std::iter::from_fn(move || {
        let (mut head, mut first) = ("", 1);
        if lines.next_if(|(_, l)| is_separator(l)).is_some() {
            (first, head) = lines.next().map_or((1, ""), |(n, l): (u32, &str)| (n + 1, l.trim()));
        } else if !begins {
            return None;
        }
        begins = false;
        let mut within = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, l)| !is_separator(l)) {
            within.push(line);
        }
        Some(Section { head, first, lines: within })
    })
}

/// Returns the type as written in a `.msg`; `None` if a `.msg` cannot express it.
fn msg_type(ty: &FieldType) -> Option<String> {
    let element = match &ty.element {
        Element::Primitive(p) => p.msg_name()?.to_owned(),
        Element::String { bound: None } => "string".to_owned(),
        Element::String { bound: Some(n) } => format!("string<={n}"),
        Element::WString { bound: None } => "wstring".to_owned(),
        Element::WString { bound: Some(n) } => format!("wstring<={n}"),
        Element::Nested(name) if name.namespace() == Namespace::Msg => {
            format!("{}/{}", name.package(), name.name())
        }
        Element::Nested(_) => return None,
    };
    Some(match ty.shape {
        Shape::Single => element,
        Shape::Array(n) => format!("{element}[{n}]"),
        Shape::Sequence { bound: None } => format!("{element}[]"),
        Shape::Sequence { bound: Some(n) } => format!("{element}[<={n}]"),
    })
}

// Writing to a String cannot fail.
fn write_msg(out: &mut String, message: &Message, detail: Detail) -> Option<()> {
    if detail == Detail::Full {
        for c in &message.constants {
            // A constant that a .msg cannot express is omitted: the bytes sent do not depend on it.
            let unbounded = !matches!(
                c.element,
                Element::String { bound: Some(_) } | Element::WString { bound: Some(_) }
            );
            let ty = msg_type(&FieldType { element: c.element.clone(), shape: Shape::Single });
            let ty = ty.filter(|_| unbounded && name::is_constant_name(&c.name));
            if let (Some(ty), Some(value)) = (ty, literal::to_msg(&c.value)) {
                let _ = writeln!(out, "{ty} {}={value}", c.name);
            }
        }
    }
    if message.is_empty() {
        return Some(());
    }
    for f in &message.fields {
        if !name::is_package_name(&f.name) {
            return None;
        }
        let _ = write!(out, "{} {}", msg_type(&f.ty)?, f.name);
        if let Some(value) =
            f.default.as_ref().filter(|_| detail == Detail::Full).and_then(|v| msg_default(f, v))
        {
            let _ = write!(out, " {value}");
        }
        out.push('\n');
    }
    Some(())
}

/// Returns a default as written in a `.msg`; `None` if a `.msg` cannot express it. The default of a
/// list in an `.idl` is kept as a text in another notation, which is not converted.
fn msg_default(field: &Field, value: &Literal) -> Option<String> {
    let is_list = matches!(value, Literal::List(_));
    literal::to_msg(value).filter(|_| is_list == (field.ty.shape != Shape::Single))
}

fn idl_type(element: &Element) -> String {
    match element {
        Element::Primitive(p) => p.idl_name().to_owned(),
        Element::String { bound: None } => "string".to_owned(),
        Element::String { bound: Some(n) } => format!("string<{n}>"),
        Element::WString { bound: None } => "wstring".to_owned(),
        Element::WString { bound: Some(n) } => format!("wstring<{n}>"),
        Element::Nested(n) => format!("{}::{}::{}", n.package(), n.namespace().as_str(), n.name()),
    }
}

fn idl_value(value: &Literal) -> Option<String> {
    Some(match value {
        Literal::Bool(b) => if *b { "TRUE" } else { "FALSE" }.to_owned(),
        Literal::Int(i) => i.to_string(),
        Literal::Float(f) if f.is_finite() => format!("{f:?}"),
        Literal::Text(t) => {
            let t = t
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n")
                .replace('\t', "\\t")
                .replace('\r', "\\r");
            format!("\"{t}\"")
        }
        Literal::Float(_) | Literal::List(_) => return None,
    })
}

// Writing to a String cannot fail.
fn write_idl(out: &mut String, message: &Message, detail: Detail) {
    let name = &message.name;
    let _ =
        writeln!(out, "module {} {{\n  module {} {{", name.package(), name.namespace().as_str());
    if detail == Detail::Full && !message.constants.is_empty() {
        let _ = writeln!(out, "    module {}_Constants {{", name.name());
        for c in &message.constants {
            if let Some(value) = idl_value(&c.value) {
                let _ = writeln!(out, "      const {} {} = {value};", idl_type(&c.element), c.name);
            }
        }
        out.push_str("    };\n");
    }
    let _ = writeln!(out, "    struct {} {{", name.name());
    for f in &message.fields {
        if let Some(value) =
            f.default.as_ref().filter(|_| detail == Detail::Full).and_then(idl_value)
        {
            let _ = writeln!(out, "      @default (value={value})");
        }
        let mut element = idl_type(&f.ty.element);
        // Some readers take >> for one token.
        if element.ends_with('>') && matches!(f.ty.shape, Shape::Sequence { bound: None }) {
            element.push(' ');
        }
        let _ = match f.ty.shape {
            Shape::Single => writeln!(out, "      {element} {};", f.name),
            Shape::Array(n) => writeln!(out, "      {element} {}[{n}];", f.name),
            Shape::Sequence { bound: None } => {
                writeln!(out, "      sequence<{element}> {};", f.name)
            }
            Shape::Sequence { bound: Some(n) } => {
                writeln!(out, "      sequence<{element}, {n}> {};", f.name)
            }
        };
    }
    out.push_str("    };\n  };\n};\n");
}
