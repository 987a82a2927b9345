// SPDX-License-Identifier: Apache-2.0
//! Parses tokens into messages and services.

use super::Interface;
use super::lexer::{Kind, Token};
use crate::definition::{
    Constant, Element, Field, FieldType, Literal, Message, Primitive, Service, Shape,
};
use crate::error::{DefinitionError, Place, shown};
use crate::literal;
use crate::name::{Namespace, TypeName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Maximum nesting of modules. ROS 2 nests three: package, kind, constants.
const MAX_MODULES: usize = 8;
/// Maximum nesting of parentheses in annotations.
const MAX_PARENTHESES: usize = 16;
/// Maximum nesting of templates. A sequence of strings has two levels.
const MAX_TEMPLATES: usize = 4;

type Result<T> = std::result::Result<T, DefinitionError>;

pub(super) struct Parser<'a> {
    file: Arc<str>,
    tokens: std::iter::Peekable<std::slice::Iter<'a, Token<'a>>>,
    line: u32,
    modules: Vec<String>,
    typedefs: BTreeMap<String, FieldType>,
    /// Constants by the module that contains them.
    constants: BTreeMap<String, Vec<Constant>>,
    structs: Vec<Message>,
}

/// Content of the annotations before a definition or a member.
#[derive(Default)]
struct Notes {
    default: Option<Literal>,
    comment: Vec<String>,
}

impl<'a> Parser<'a> {
    pub(super) fn new(file: Arc<str>, tokens: &'a [Token<'a>]) -> Self {
        let tokens = tokens.iter().peekable();
        Self {
            file,
            tokens,
            line: 0,
            modules: vec![],
            typedefs: BTreeMap::new(),
            constants: BTreeMap::new(),
            structs: vec![],
        }
    }

    pub(super) fn interface(mut self) -> Result<Interface> {
        while self.tokens.peek().is_some() {
            self.definition()?;
        }
        self.line = 0;
        for message in &mut self.structs {
            let module = format!("{}_Constants", message.name.name());
            message.constants = self.constants.remove(&module).unwrap_or_default();
            message.fill_if_empty();
        }
        let mut structs = std::mem::take(&mut self.structs).into_iter();
        match (structs.next(), structs.next(), structs.next()) {
            (Some(message), None, None) => Ok(Interface::Message(message)),
            (Some(request), Some(response), None) => self.service(request, response),
            (None, _, _) => {
                Err(self.error("no struct", "define one for a message, or two for a service"))
            }
            _ => Err(self.error(
                "more than two structs",
                "one makes a message, two a service; actions (three) are not read here",
            )),
        }
    }

    fn service(&self, request: Message, response: Message) -> Result<Interface> {
        let stem = |m: &Message, suffix| m.name.name().strip_suffix(suffix).map(str::to_owned);
        let name = match (stem(&request, "_Request"), stem(&response, "_Response")) {
            (Some(a), Some(b)) if a == b && request.name.namespace() == Namespace::Srv => {
                TypeName::new(request.name.package(), Namespace::Srv, &a).ok()
            }
            _ => None,
        };
        match name {
            Some(name) => Ok(Interface::Service(Service { name, request, response })),
            None => Err(self.error(
                "two structs that are no service",
                "name them Name_Request and Name_Response in a module srv, in this order",
            )),
        }
    }

    fn error(&self, problem: impl Into<String>, remedy: impl Into<String>) -> DefinitionError {
        DefinitionError::new(Place { file: self.file.clone(), line: self.line }, problem, remedy)
    }

    fn next(&mut self, wanted: &str) -> Result<&'a Kind<'a>> {
        match self.tokens.next() {
            Some(token) => {
                self.line = token.line;
                Ok(&token.kind)
            }
            None => {
                Err(self.error(format!("the file ends where {wanted} was expected"), "complete it"))
            }
        }
    }

    fn unexpected(&self, found: &Kind<'_>, wanted: &str) -> DefinitionError {
        let found = match found {
            Kind::Word(t) | Kind::Sign(t) => shown(t),
            Kind::Int(i) => i.to_string(),
            Kind::Float(f) => f.to_string(),
            Kind::Text(t) => format!("\"{}\"", shown(t)),
        };
        self.error(
            format!("'{found}' where {wanted} was expected"),
            "correct it; ROS 2 reads only a part of IDL",
        )
    }

    /// Consumes the punctuation if it is the next token.
    fn takes(&mut self, sign: &str) -> bool {
        let next = self.tokens.next_if(|t| t.kind == Kind::Sign(sign));
        if let Some(token) = next {
            self.line = token.line;
        }
        next.is_some()
    }

    fn expect(&mut self, sign: &'static str) -> Result<()> {
        match self.next(sign)? {
            Kind::Sign(found) if *found == sign => Ok(()),
            other => Err(self.unexpected(other, &format!("'{sign}'"))),
        }
    }

    fn word(&mut self, wanted: &str) -> Result<&'a str> {
        match self.next(wanted)? {
            Kind::Word(word) => Ok(word),
            other => Err(self.unexpected(other, wanted)),
        }
    }

    fn definition(&mut self) -> Result<()> {
        let notes = self.annotations()?;
        match self.word("a definition")? {
            "module" => self.module(),
            "const" => self.constant(notes),
            "typedef" => self.typedef(),
            "struct" => self.structure(notes),
            word @ ("enum" | "union" | "bitset" | "bitmask" | "interface" | "valuetype") => {
                Err(self.error(
                    format!("the keyword '{word}'"),
                    "ROS 2 knows no such types; use a struct, and constants for an enumeration",
                ))
            }
            word => Err(self.unexpected(&Kind::Word(word), "module, const, typedef or struct")),
        }
    }

    fn module(&mut self) -> Result<()> {
        let name = self.word("the module's name")?;
        if self.modules.len() == MAX_MODULES {
            return Err(self.error(
                "modules nested too deeply",
                "ROS 2 nests package, msg or srv, and a module of constants",
            ));
        }
        self.modules.push(name.to_owned());
        self.expect("{")?;
        while !self.takes("}") {
            self.definition()?;
        }
        self.modules.pop();
        self.takes(";");
        Ok(())
    }

    fn constant(&mut self, notes: Notes) -> Result<()> {
        let ty = self.type_spec(0)?;
        let name = self.word("the constant's name")?.to_owned();
        let line = self.line;
        self.expect("=")?;
        let value = self.value()?;
        self.expect(";")?;
        if ty.shape != Shape::Single || matches!(ty.element, Element::Nested(_)) {
            return Err(self.error(
                format!("the constant '{name}' has no primitive type"),
                "constants are numbers, boolean or strings",
            ));
        }
        let value = literal::checked(&ty, value)
            .map_err(|e| self.error(format!("the value of '{name}' {e}"), "correct the value"))?;
        let module = self.modules.last().cloned().unwrap_or_default();
        let known = self.constants.entry(module).or_default();
        let twice = known.iter().any(|c| c.name == name);
        known.push(Constant { name, element: ty.element, value, comment: notes.comment, line });
        if twice {
            Err(self.error("a constant that is defined twice", "give one of them another name"))
        } else {
            Ok(())
        }
    }

    fn typedef(&mut self) -> Result<()> {
        let ty = self.type_spec(0)?;
        let (name, ty) = self.declarator(&ty)?;
        self.expect(";")?;
        match self.typedefs.insert(name.clone(), ty.clone()) {
            Some(before) if before != ty => Err(self.error(
                format!("'{name}' is defined twice, differently"),
                "give one of them another name",
            )),
            _ => Ok(()),
        }
    }

    fn structure(&mut self, notes: Notes) -> Result<()> {
        let name = self.word("the struct's name")?;
        let name = match self.modules.as_slice() {
            [package, kind] => {
                format!("{package}/{kind}/{name}").parse::<TypeName>().map_err(|e| e.to_string())
            }
            _ => Err(format!("the struct '{}' does not stand in two modules", shown(name))),
        };
        let name = name.map_err(|e| {
            self.error(e, "write module package { module msg { struct Name { … }; }; };")
        })?;
        let mut message = Message {
            name,
            fields: Vec::new(),
            constants: Vec::new(),
            comment: notes.comment,
            file: self.file.clone(),
        };
        let mut known = BTreeSet::new();
        if self.takes(":") {
            return Err(self.error(
                "a struct that inherits",
                "ROS 2 knows no inheritance; repeat the members or nest the struct",
            ));
        }
        self.expect("{")?;
        while !self.takes("}") {
            let mut notes = self.annotations()?;
            let ty = self.type_spec(0)?;
            loop {
                let (name, ty) = self.declarator(&ty)?;
                if !known.insert(name.clone()) {
                    return Err(self.error(
                        format!("'{name}' is defined twice"),
                        "give one of them another name",
                    ));
                }
                let default = match notes.default.clone() {
                    Some(value) => Some(literal::checked(&ty, value).map_err(|e| {
                        self.error(format!("the default of '{name}' {e}"), "correct the value")
                    })?),
                    None => None,
                };
                message.fields.push(Field {
                    name,
                    ty,
                    default,
                    comment: std::mem::take(&mut notes.comment),
                    line: self.line,
                });
                if !self.takes(",") {
                    break;
                }
            }
            self.expect(";")?;
        }
        self.takes(";");
        self.structs.push(message);
        Ok(())
    }

    /// Reads a name, optionally followed by an array length.
    fn declarator(&mut self, ty: &FieldType) -> Result<(String, FieldType)> {
        let name = self.word("a name")?.to_owned();
        if !self.takes("[") {
            return Ok((name, ty.clone()));
        }
        let len = self.length()?;
        self.expect("]")?;
        if ty.shape != Shape::Single || self.takes("[") {
            return Err(self.error(
                format!("'{name}' is an array of arrays or of sequences"),
                "ROS 2 knows one dimension; put the inner one into a message of its own",
            ));
        }
        Ok((name, FieldType { element: ty.element.clone(), shape: Shape::Array(len) }))
    }

    fn length(&mut self) -> Result<u32> {
        match self.next("a length")? {
            Kind::Int(i) => match u32::try_from(*i) {
                Ok(len) if len > 0 => Ok(len),
                _ => Err(self
                    .error(format!("the length {i}"), "write an integer between 1 and 4294967295")),
            },
            Kind::Word(w) => Err(self.error(
                format!("the length '{}' is no number", shown(w)),
                "write the number itself",
            )),
            other => Err(self.unexpected(other, "a length")),
        }
    }

    /// Reads `<` length `>`, if it comes next.
    fn bound(&mut self) -> Result<Option<u32>> {
        if !self.takes("<") {
            return Ok(None);
        }
        let bound = self.length()?;
        self.expect(">")?;
        Ok(Some(bound))
    }

    fn type_spec(&mut self, depth: usize) -> Result<FieldType> {
        use Primitive::{Bool, Byte, Char, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64, WChar};
        if depth == MAX_TEMPLATES {
            return Err(self.error(
                "types nested too deeply",
                "ROS 2 knows sequences of simple types and of messages",
            ));
        }
        let word = self.word("a type")?;
        let primitive = match word {
            "boolean" => Bool,
            "octet" => Byte,
            "char" => Char,
            "wchar" => WChar,
            "int8" => I8,
            "uint8" => U8,
            "short" | "int16" => I16,
            "uint16" => U16,
            "int32" => I32,
            "uint32" => U32,
            "int64" => I64,
            "uint64" => U64,
            "float" => F32,
            "double" => F64,
            "long" => match self.tokens.peek().map(|t| &t.kind) {
                Some(Kind::Word("double")) => {
                    return Err(self
                        .error("the type 'long double'", "ROS 2 cannot describe it; use double"));
                }
                Some(Kind::Word("long")) => {
                    self.word("long")?;
                    I64
                }
                _ => I32,
            },
            "unsigned" => match self.word("short or long")? {
                "short" => U16,
                "long" if self.tokens.next_if(|t| t.kind == Kind::Word("long")).is_some() => U64,
                "long" => U32,
                other => return Err(self.unexpected(&Kind::Word(other), "short or long")),
            },
            "string" => return Ok(single(Element::String { bound: self.bound()? })),
            "wstring" => return Ok(single(Element::WString { bound: self.bound()? })),
            "sequence" => return self.sequence(depth),
            "fixed" | "map" | "any" | "Object" | "ValueBase" => {
                return Err(self.error(
                    format!("the type '{word}'"),
                    "ROS 2 knows no such type; use a message",
                ));
            }
            name => return self.named(name),
        };
        Ok(single(Element::Primitive(primitive)))
    }

    fn sequence(&mut self, depth: usize) -> Result<FieldType> {
        self.expect("<")?;
        let inner = self.type_spec(depth + 1)?;
        let bound = if self.takes(",") { Some(self.length()?) } else { None };
        self.expect(">")?;
        if inner.shape != Shape::Single {
            return Err(self.error(
                "a sequence of arrays or of sequences",
                "ROS 2 knows one dimension; put the inner one into a message",
            ));
        }
        Ok(FieldType { element: inner.element, shape: Shape::Sequence { bound } })
    }

    /// Reads the name of a typedef of this file, or the full name of a message.
    fn named(&mut self, first: &str) -> Result<FieldType> {
        let mut parts = vec![first];
        while self.takes("::") {
            parts.push(self.word("a name")?);
        }
        match parts.as_slice() {
            [name] => self.typedefs.get(*name).cloned().ok_or_else(|| {
                self.error(
                    format!("the type '{}' is not defined here", shown(name)),
                    "define it with typedef, or write package::msg::Name",
                )
            }),
            parts => {
                let text = parts.join("/");
                let name = text.parse().map_err(|e: crate::TypeNameError| {
                    self.error(
                        format!("'{}' is not a valid type: {}", shown(&parts.join("::")), e.reason),
                        "write package::msg::Name",
                    )
                })?;
                Ok(single(Element::Nested(name)))
            }
        }
    }

    /// Reads a literal. Like ROS 2, this does not evaluate expressions.
    fn value(&mut self) -> Result<Literal> {
        let negative = self.takes("-");
        match (self.next("a value")?, negative) {
            (Kind::Int(i), _) => Ok(Literal::Int(if negative { -i } else { *i })),
            (Kind::Float(f), _) => Ok(Literal::Float(if negative { -f } else { *f })),
            (Kind::Word("TRUE" | "true" | "True"), false) => Ok(Literal::Bool(true)),
            (Kind::Word("FALSE" | "false" | "False"), false) => Ok(Literal::Bool(false)),
            (Kind::Text(text), false) => {
                let mut text = text.clone();
                // Adjacent strings are one string.
                while let Some(Token { kind: Kind::Text(more), .. }) =
                    self.tokens.next_if(|t| matches!(t.kind, Kind::Text(_)))
                {
                    text.push_str(more);
                }
                Ok(Literal::Text(text))
            }
            (other, _) => Err(self.unexpected(other, "a number, a string, TRUE or FALSE")),
        }
    }

    /// Reads all annotations before a definition or a member. Keeps only `@default` and comments,
    /// which ROS 2 uses.
    fn annotations(&mut self) -> Result<Notes> {
        let mut notes = Notes::default();
        while self.takes("@") {
            let name = self.word("the annotation's name")?;
            if name == "optional" {
                return Err(self.error(
                    "the annotation @optional",
                    "remove it: optional members are not carried by ROS 2's plain CDR",
                ));
            }
            if !self.takes("(") {
                continue;
            }
            match name {
                "default" | "verbatim" => {
                    let parameters = self.parameters()?;
                    let text =
                        |of: &str| parameters.iter().find(|(n, _)| n == of).map(|(_, v)| v.clone());
                    match (name, text("value"), text("language"), text("text")) {
                        ("default", value, _, _) => notes.default = value,
                        (_, _, Some(Literal::Text(l)), Some(Literal::Text(t)))
                            if l == "comment" =>
                        {
                            notes.comment.extend(t.lines().map(|l| l.trim().to_owned()));
                        }
                        _ => {}
                    }
                }
                _ => self.skip_parentheses()?,
            }
        }
        Ok(notes)
    }

    /// Reads `name = value, …)`, after the opening parenthesis.
    fn parameters(&mut self) -> Result<Vec<(String, Literal)>> {
        let mut out = Vec::new();
        loop {
            let name = self.word("the parameter's name")?.to_owned();
            self.expect("=")?;
            out.push((name, self.value()?));
            if self.takes(")") {
                return Ok(out);
            }
            self.expect(",")?;
        }
    }

    /// Skips to the closing parenthesis; the opening one has been read.
    fn skip_parentheses(&mut self) -> Result<()> {
        let mut depth = 1;
        while depth > 0 {
            match self.next("')'")? {
                Kind::Sign("(") if depth == MAX_PARENTHESES => {
                    return Err(
                        self.error("parentheses nested too deeply", "simplify the annotation")
                    );
                }
                Kind::Sign("(") => depth += 1,
                Kind::Sign(")") => depth -= 1,
                _ => {}
            }
        }
        Ok(())
    }
}

fn single(element: Element) -> FieldType {
    FieldType { element, shape: Shape::Single }
}
