// SPDX-License-Identifier: Apache-2.0
//! Reads `.msg` and `.srv` as `rosidl_adapter` does (`rosidl_adapter/parser.py` of ros2/rosidl).

use crate::MAX_TEXT_LEN;
use crate::definition::{Constant, Element, Field, FieldType, Message, Primitive, Service, Shape};
use crate::error::{DefinitionError, Place, shown};
use crate::literal;
use crate::name::{self, Namespace, TypeName};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Reads the text of a `.msg`. `file` is named in errors.
///
/// # Errors
/// Returns the first mistake, with its line.
pub fn parse_msg(name: &TypeName, file: &str, text: &str) -> Result<Message, DefinitionError> {
    check_len(file, text)?;
    parse_lines(name, &Arc::from(file), lines_of(text), 1)
}

/// Returns the lines of a text as Python's `splitlines`, which ROS 2 uses: a line also ends at a
/// lone carriage return, a vertical tab, a form feed, the ASCII separators 0x1c to 0x1e, and the
/// next-line, line-separator and paragraph-separator characters of Unicode. A comment ends there,
/// too.
pub(crate) fn lines_of(text: &str) -> impl Iterator<Item = &str> {
    const ENDS: [char; 10] = [
        '\n', '\r', '\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}',
        '\u{2029}',
    ];
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let line;
        (line, rest) = match rest.find(ENDS) {
            None => (rest, ""),
            Some(at) => {
                let end = &rest[at..];
                let after = end.strip_prefix("\r\n").unwrap_or_else(|| {
                    let mut chars = end.chars();
                    chars.next();
                    chars.as_str()
                });
                (&rest[..at], after)
            }
        };
        Some(line)
    })
}

/// Reads the text of a `.srv`. `file` is named in errors.
///
/// # Errors
/// Returns the first mistake, with its line.
pub fn parse_srv(name: &TypeName, file: &str, text: &str) -> Result<Service, DefinitionError> {
    check_len(file, text)?;
    let file: Arc<str> = Arc::from(file);
    let lines: Vec<&str> = lines_of(text).collect();
    let mut separators = lines.iter().enumerate().filter(|(_, l)| **l == "---").map(|(i, _)| i);
    let Some(at) = separators.next() else {
        let near = lines.iter().position(|l| l.trim().starts_with("---"));
        return Err(DefinitionError::new(
            Place { file, line: near.map_or(0, line_number) },
            "a service without the line --- between request and response",
            "write --- in a line of its own without blanks, also if one half is empty",
        ));
    };
    if let Some(second) = separators.next() {
        return Err(DefinitionError::new(
            Place { file, line: line_number(second) },
            "a second separator line ---",
            "a service has two parts; one with three is an action, which is not read here",
        ));
    }
    let request =
        parse_lines(&name.with_suffix("_Request"), &file, lines[..at].iter().copied(), 1)?;
    let response = parse_lines(
        &name.with_suffix("_Response"),
        &file,
        lines[at + 1..].iter().copied(),
        line_number(at + 1),
    )?;
    Ok(Service { name: name.clone(), request, response })
}

fn check_len(file: &str, text: &str) -> Result<(), DefinitionError> {
    if text.starts_with('\u{feff}') {
        return Err(DefinitionError::new(
            Place { file: file.into(), line: 1 },
            "the file begins with a byte order mark",
            "save it as UTF-8 without one: ROS 2 takes the mark for a part of the first word",
        ));
    }
    if text.len() <= MAX_TEXT_LEN {
        return Ok(());
    }
    let problem = format!("{} bytes of definition, at most {MAX_TEXT_LEN} are read", text.len());
    Err(DefinitionError::new(
        Place { file: file.into(), line: 0 },
        problem,
        "split the message, or check that this is one",
    ))
}

/// Returns the line number, from 1, of an index from 0. Texts are bounded, so it always fits.
fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// Parses one message; `first` is the number of the first line.
pub(crate) fn parse_lines<'a>(
    name: &TypeName,
    file: &Arc<str>,
    lines: impl Iterator<Item = &'a str>,
    first: u32,
) -> Result<Message, DefinitionError> {
    let mut message = Message {
        name: name.clone(),
        fields: Vec::new(),
        constants: Vec::new(),
        comment: Vec::new(),
        file: file.clone(),
    };
    let mut known = BTreeSet::new();
    let mut pending: Vec<String> = Vec::new();
    // The comment at the head ends before the first line that is not a comment.
    let mut at_head = true;
    let mut last = None;
    for (line, text) in (first..).zip(lines) {
        let text = text.replace('\t', " ");
        let (code, comment) = match text.split_once('#') {
            Some((code, comment)) => {
                (code.trim_end(), Some(comment.trim_start_matches('#').trim().to_owned()))
            }
            None => (text.trim_end(), None),
        };
        if code.starts_with(' ') {
            return Err(DefinitionError::new(
                message.place(line),
                format!("'{}' begins with blanks", shown(code)),
                "begin the line with the type: ROS 2 refuses blanks and tabs before it",
            ));
        }
        let indented = text.starts_with(char::is_whitespace) && code.is_empty();
        if at_head {
            match comment {
                Some(comment) if code.is_empty() && !indented => {
                    message.comment.push(comment);
                    continue;
                }
                _ => at_head = false,
            }
        }
        // An indented comment continues that of the statement before it.
        if indented {
            if let (Some(comment), Some(last)) = (comment, last_comment(&mut message, last)) {
                last.push(comment);
            }
            continue;
        }
        pending.extend(comment);
        if code.is_empty() {
            continue;
        }
        let place = || message.place(line);
        let comment = std::mem::take(&mut pending);
        let name = match statement(name, code)
            .map_err(|(problem, remedy)| DefinitionError::new(place(), problem, remedy))?
        {
            Statement::Field(mut field) => {
                (field.line, field.comment) = (line, comment);
                last = Some(Kind::Field);
                message.fields.push(field);
                message.fields.last().map(|f| f.name.clone())
            }
            Statement::Constant(mut constant) => {
                (constant.line, constant.comment) = (line, comment);
                last = Some(Kind::Constant);
                message.constants.push(constant);
                message.constants.last().map(|c| c.name.clone())
            }
        };
        // Fields are lower-case and constants upper-case, so that one set serves both.
        if let Some(name) = name
            && !known.insert(name.clone())
        {
            return Err(DefinitionError::new(
                message.place(line),
                format!("'{name}' is defined twice"),
                "give one of them another name",
            ));
        }
    }
    message.fill_if_empty();
    Ok(message)
}

#[derive(Clone, Copy)]
enum Kind {
    Field,
    Constant,
}

fn last_comment(message: &mut Message, last: Option<Kind>) -> Option<&mut Vec<String>> {
    match last? {
        Kind::Field => message.fields.last_mut().map(|f| &mut f.comment),
        Kind::Constant => message.constants.last_mut().map(|c| &mut c.comment),
    }
}

enum Statement {
    Field(Field),
    Constant(Constant),
}

type Mistake = (String, String);

fn mistake(problem: impl Into<String>, remedy: impl Into<String>) -> Mistake {
    (problem.into(), remedy.into())
}

/// Parses one line without its comment.
fn statement(of: &TypeName, code: &str) -> Result<Statement, Mistake> {
    if code.starts_with('@') {
        return Err(mistake(
            format!("the annotation '{}'", shown(code)),
            "remove it: optional fields are not carried by ROS 2's plain CDR",
        ));
    }
    let Some((ty, rest)) = code.split_once(' ') else {
        let problem = if code == "---" {
            "the line ---, which belongs into services".to_owned()
        } else {
            format!("'{}' has no name", shown(code))
        };
        return Err(mistake(
            problem,
            "write a type, a space and a name, such as `float32 speed_mps`",
        ));
    };
    let (ty, rest) = (field_type(of, ty)?, rest.trim_start());
    match rest.split_once('=') {
        Some((name, value)) => constant(ty, name.trim_end(), value.trim()).map(Statement::Constant),
        None => {
            let (name, default) = rest.split_once(' ').unwrap_or((rest, ""));
            field(ty, name, default.trim()).map(Statement::Field)
        }
    }
}

fn field(ty: FieldType, name: &str, default: &str) -> Result<Field, Mistake> {
    if !name::is_package_name(name) {
        return Err(mistake(
            format!("'{}' is no name of a field", shown(name)),
            "a field is lower-case letters, digits and single underscores, and begins with a \
             letter",
        ));
    }
    let default =
        match default {
            "" => None,
            text => Some(literal::parse(&ty, text).map_err(|e| {
                mistake(format!("the default of '{name}' {e}"), "correct the value")
            })?),
        };
    Ok(Field { name: name.to_owned(), ty, default, comment: Vec::new(), line: 0 })
}

fn constant(ty: FieldType, name: &str, value: &str) -> Result<Constant, Mistake> {
    if !name::is_constant_name(name) {
        return Err(mistake(
            format!("'{}' is no name of a constant", shown(name)),
            "a constant is capitals, digits and single underscores; a default cannot contain =, \
             not even in quotes",
        ));
    }
    let unbounded = matches!(
        ty.element,
        Element::Primitive(_) | Element::String { bound: None } | Element::WString { bound: None }
    );
    if !unbounded || ty.shape != Shape::Single {
        return Err(mistake(
            format!("the constant '{name}' has no primitive type"),
            "constants are numbers, bool or unbounded strings",
        ));
    }
    let value = literal::parse(&ty, value)
        .map_err(|e| mistake(format!("the value of '{name}' {e}"), "correct the value"))?;
    Ok(Constant { name: name.to_owned(), element: ty.element, value, comment: Vec::new(), line: 0 })
}

/// Parses a type such as `geometry_msgs/Point32[<=4]`.
fn field_type(of: &TypeName, text: &str) -> Result<FieldType, Mistake> {
    let (element, shape) = match text.strip_suffix(']') {
        None => (text, Shape::Single),
        Some(open) => {
            let (element, len) = open.rsplit_once('[').ok_or_else(|| {
                mistake(format!("'{}' has ] without [", shown(text)), "write [], [4] or [<=4]")
            })?;
            let shape = match len.strip_prefix("<=") {
                Some(bound) => Shape::Sequence { bound: Some(positive(bound, text)?) },
                None if len.is_empty() => Shape::Sequence { bound: None },
                None => Shape::Array(positive(len, text)?),
            };
            (element, shape)
        }
    };
    Ok(FieldType { element: element_type(of, element)?, shape })
}

fn positive(text: &str, of: &str) -> Result<u32, Mistake> {
    text.parse().ok().filter(|n| *n > 0).ok_or_else(|| {
        mistake(
            format!("'{}' in '{}' is no length", shown(text), shown(of)),
            "write an integer between 1 and 4294967295",
        )
    })
}

fn element_type(of: &TypeName, text: &str) -> Result<Element, Mistake> {
    Ok(match text {
        "bool" => Element::Primitive(Primitive::Bool),
        "byte" => Element::Primitive(Primitive::Byte),
        "int8" => Element::Primitive(Primitive::I8),
        // ROS 2 maps char of .msg to uint8 of IDL, for the hash as well.
        "uint8" | "char" => Element::Primitive(Primitive::U8),
        "int16" => Element::Primitive(Primitive::I16),
        "uint16" => Element::Primitive(Primitive::U16),
        "int32" => Element::Primitive(Primitive::I32),
        "uint32" => Element::Primitive(Primitive::U32),
        "int64" => Element::Primitive(Primitive::I64),
        "uint64" => Element::Primitive(Primitive::U64),
        "float32" => Element::Primitive(Primitive::F32),
        "float64" => Element::Primitive(Primitive::F64),
        "string" => Element::String { bound: None },
        "wstring" => Element::WString { bound: None },
        "time" => return Err(mistake("the type 'time' of ROS 1", "write builtin_interfaces/Time")),
        "duration" => {
            return Err(mistake(
                "the type 'duration' of ROS 1",
                "write builtin_interfaces/Duration",
            ));
        }
        _ => {
            if let Some(bound) = text.strip_prefix("string<=") {
                return Ok(Element::String { bound: Some(positive(bound, text)?) });
            }
            if let Some(bound) = text.strip_prefix("wstring<=") {
                return Ok(Element::WString { bound: Some(positive(bound, text)?) });
            }
            if let Some(meant) = meant(text) {
                return Err(mistake(
                    format!("'{}' is not a valid type", shown(text)),
                    format!("did you mean {meant}?"),
                ));
            }
            if let [package, "msg", name] = text.split('/').collect::<Vec<_>>()[..] {
                return Err(mistake(
                    format!("'{}' is not a valid type", shown(text)),
                    format!(
                        "write {}/{}, without msg: ROS 2 refuses three parts",
                        shown(package),
                        shown(name)
                    ),
                ));
            }
            let name = if text.contains('/') {
                text.parse()
            } else {
                TypeName::new(of.package(), Namespace::Msg, text)
            };
            Element::Nested(name.map_err(|e| {
                mistake(
                    format!("'{}' is not a valid type: {}", shown(text), e.reason),
                    "write a primitive type, Name, or package/Name",
                )
            })?)
        }
    })
}

/// Guesses the intended primitive type: names of other languages, and swapped letters.
fn meant(text: &str) -> Option<String> {
    const ALL: [&str; 12] = [
        "bool", "byte", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "string", "wstring",
    ];
    let letters = |text: &str| {
        let mut letters: Vec<char> = text.chars().take(16).collect();
        letters.sort_unstable();
        letters
    };
    match text {
        "float" | "double" => Some("`float32` or `float64`".to_owned()),
        _ => ALL.iter().find(|of| letters(of) == letters(text)).map(|of| format!("`{of}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::Literal;

    fn read(text: &str) -> Result<Message, DefinitionError> {
        parse_msg(&"p/msg/M".parse().unwrap(), "p/msg/M.msg", text)
    }

    #[test]
    fn a_message_with_everything() {
        let text = "# head\n# of it\n\n# about X\nint32 X=-5 # behind\nstring NAME = \"a \
             b\"\nstd_msgs/Header header\nPoint[<=4] corners\nfloat64[3] v [1, 2.5, 3]\nstring<=10 \
             id \"x\"\nwstring[] texts\nuint8\tlow\t 0x10\nchar c\n";
        let m = read(text).unwrap();
        assert_eq!(m.comment, ["head", "of it"]);
        assert_eq!(m.constants[0].comment, ["about X", "behind"]);
        assert_eq!((m.constants[0].value.clone(), m.constants[0].line), (Literal::Int(-5), 5));
        assert_eq!(m.constants[1].value, Literal::Text("a b".into()));
        let types: Vec<_> =
            m.fields.iter().map(|f| (f.name.as_str(), &f.ty.element, f.ty.shape)).collect();
        assert_eq!(
            types[0],
            ("header", &Element::Nested("std_msgs/msg/Header".parse().unwrap()), Shape::Single)
        );
        assert_eq!(
            types[1],
            (
                "corners",
                &Element::Nested("p/msg/Point".parse().unwrap()),
                Shape::Sequence { bound: Some(4) }
            )
        );
        assert_eq!(types[2], ("v", &Element::Primitive(Primitive::F64), Shape::Array(3)));
        assert_eq!(types[3], ("id", &Element::String { bound: Some(10) }, Shape::Single));
        assert_eq!(
            types[4],
            ("texts", &Element::WString { bound: None }, Shape::Sequence { bound: None })
        );
        assert_eq!(m.fields[5].default, Some(Literal::Int(16)));
        assert_eq!(types[6].1, &Element::Primitive(Primitive::U8));
    }

    /// A comment belongs to the same field or constant as in `parse_message_string` of
    /// rosidl_adapter.
    #[test]
    fn an_indented_comment_goes_on_with_the_statement_before_it() {
        let m = read("  # of none\n# about a\nint32 a # behind\n  # more\n# b\nint8 X=1\n\t# x\n");
        let m = m.unwrap();
        assert!(m.comment.is_empty(), "{:?}", m.comment);
        assert_eq!(m.fields[0].comment, ["about a", "behind", "more"]);
        assert_eq!(m.constants[0].comment, ["b", "x"]);
    }

    #[test]
    fn an_empty_message_has_the_member_that_ros_invents() {
        for text in ["", "\n# only a comment\n", "int32 X=1\n"] {
            let m = read(text).unwrap();
            assert!(m.is_empty() && m.fields.len() == 1, "{text:?}");
            assert_eq!(m.fields[0].ty.element, Element::Primitive(Primitive::U8));
        }
    }

    #[test]
    fn mistakes_are_reported_with_file_line_and_remedy() {
        for (text, line, says) in [
            ("int32 a\nint32 a\n", 2, "'a' is defined twice"),
            ("\nfloat x\n", 2, "'float' is not a valid type; did you mean `float32` or `float64`?"),
            ("unit32 x\n", 1, "'unit32' is not a valid type; did you mean `uint32`?"),
            ("int12 x\n", 1, "'int12' is not a valid type: a name begins with a capital letter"),
            ("int32 Speed\n", 1, "'Speed' is no name of a field"),
            ("int32\n", 1, "'int32' has no name"),
            ("---\n", 1, "belongs into services"),
            ("time t\n", 1, "builtin_interfaces/Time"),
            ("int8 X=200\n", 1, "between -128 and 127"),
            ("int8 x=1\n", 1, "no name of a constant"),
            ("string<=0 s\n", 1, "no length"),
            ("int8[99999999999] s\n", 1, "no length"),
            ("int8] s\n", 1, "] without ["),
            ("Point P=1\n", 1, "no primitive type"),
            ("Point p 1\n", 1, "only primitives and strings have defaults"),
            ("@optional\nint32 a\n", 1, "annotation"),
            ("int32[2] a [1]\n", 1, "exactly 2"),
            ("a/b/c/D d\n", 1, "is not a valid type"),
            ("int32 a\n  int32 b\n", 2, "'  int32 b' begins with blanks"),
            ("\tint32 b\n", 1, "begins with blanks"),
            ("\u{feff}int32 a\n", 1, "begins with a byte order mark"),
            (
                "std_msgs/msg/Header h\n",
                1,
                "'std_msgs/msg/Header' is not a valid type; write std_msgs/Header",
            ),
            ("int32 a\r# x\u{85}int12 b\n", 3, "'int12' is not a valid type"),
        ] {
            let e = read(text).unwrap_err();
            let told = e.to_string();
            assert!(
                told.starts_with(&format!("p/msg/M.msg:{line}: "))
                    && told.contains(says)
                    && !e.remedy.is_empty(),
                "{text:?}: {told}"
            );
        }
    }

    /// `parse_message_string` reads a file in text mode and splits it with `str.splitlines`, which
    /// uses these line ends. It treats tabs as blanks. The type is the text before the first blank
    /// of a line, so a line that begins with a blank has no type and is refused.
    #[test]
    fn lines_end_where_they_end_in_ros() {
        let fields = |text: &str| {
            let m = read(text).unwrap();
            m.fields.into_iter().map(|f| f.name).collect::<Vec<_>>()
        };
        assert_eq!(fields("int32 a\rint32 b"), ["a", "b"]);
        assert_eq!(fields("int32 a\r\nint32 b\r\n"), ["a", "b"]);
        for end in
            ['\u{b}', '\u{c}', '\u{1c}', '\u{1d}', '\u{1e}', '\u{85}', '\u{2028}', '\u{2029}']
        {
            let text = format!("# a{end}int32 shown\nint32 b # c{end}int32 d\n");
            assert_eq!(fields(&text), ["shown", "b", "d"], "{end:?}");
        }
        assert_eq!(fields("int32 a\n   # indented comment\n   \nint32   b   5  \n"), ["a", "b"]);
        assert_eq!(lines_of("a\n\nb\n").collect::<Vec<_>>(), ["a", "", "b"]);
        let request =
            parse_srv(&"p/srv/S".parse().unwrap(), "S.srv", "int64 a\r---\rint64 b").unwrap();
        assert_eq!(request.response.fields[0].line, 3);
    }

    #[test]
    fn services_have_two_halves_with_lines_of_the_file() {
        let name = "p/srv/S".parse().unwrap();
        let s = parse_srv(&name, "S.srv", "int64 a\n---\n\nint64 sum\n").unwrap();
        assert_eq!(
            (s.request.name.to_string().as_str(), s.request.fields[0].line),
            ("p/srv/S_Request", 1)
        );
        assert_eq!(
            (s.response.name.to_string().as_str(), s.response.fields[0].line),
            ("p/srv/S_Response", 4)
        );
        assert!(parse_srv(&name, "S.srv", "---").unwrap().request.is_empty());
        // `parse_service_string` compares whole lines.
        for text in ["int64 a\n--- \nint64 b\n", "int64 a\n--- # response\n"] {
            let told = parse_srv(&name, "S.srv", text).unwrap_err().to_string();
            assert!(told.starts_with("S.srv:2: a service without the line ---"), "{told}");
        }
        assert!(
            parse_srv(&name, "S.srv", "int64 a\n")
                .unwrap_err()
                .to_string()
                .contains("without the line ---")
        );
        let told = parse_srv(&name, "S.srv", "---\n---\n").unwrap_err().to_string();
        assert!(told.starts_with("S.srv:2: ") && told.contains("action"), "{told}");
        let told = parse_srv(&name, "S.srv", "---\nbad\n").unwrap_err().to_string();
        assert!(told.starts_with("S.srv:2: "), "{told}");
    }

    #[test]
    fn a_text_without_end_is_refused() {
        let told = read(&"#\n".repeat(MAX_TEXT_LEN)).unwrap_err().to_string();
        assert!(told.contains("at most"), "{told}");
    }
}
