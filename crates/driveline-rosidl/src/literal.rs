// SPDX-License-Identifier: Apache-2.0
//! Values of constants and defaults in the notation of `.msg` files.

use crate::definition::{Element, FieldType, Literal, Primitive, Shape};
use crate::error::shown;

/// Reads the value of a constant or the default of a field. An error is the second half of a
/// sentence that begins "the value …".
pub(crate) fn parse(ty: &FieldType, text: &str) -> Result<Literal, String> {
    match ty.shape {
        Shape::Single => single(&ty.element, text),
        Shape::Array(_) | Shape::Sequence { .. } => many(ty, text),
    }
}

/// Checks that a value in an `.idl` fits its type. Integers are valid for floating-point types.
/// Values of arrays and sequences are not checked.
pub(crate) fn checked(ty: &FieldType, value: Literal) -> Result<Literal, String> {
    let Shape::Single = ty.shape else { return Ok(value) };
    match (&ty.element, value) {
        (Element::Primitive(Primitive::F32 | Primitive::F64), Literal::Int(i)) => {
            Ok(Literal::Float(i as f64))
        }
        (Element::Primitive(Primitive::F32 | Primitive::F64), v @ Literal::Float(_))
        | (Element::Primitive(Primitive::Bool), v @ Literal::Bool(_)) => Ok(v),
        (Element::Primitive(Primitive::Bool), Literal::Int(i @ (0 | 1))) => {
            Ok(Literal::Bool(i == 1))
        }
        (Element::Primitive(p), Literal::Int(i)) => in_range(*p, i).map(Literal::Int),
        (Element::String { bound } | Element::WString { bound }, Literal::Text(t)) => {
            in_bound(*bound, t).map(Literal::Text)
        }
        (_, v) => Err(format!("{} does not fit its type", shown(&format!("{v:?}")))),
    }
}

fn single(element: &Element, text: &str) -> Result<Literal, String> {
    match element {
        Element::Primitive(Primitive::Bool) => match text.to_ascii_lowercase().as_str() {
            "true" | "1" => Ok(Literal::Bool(true)),
            "false" | "0" => Ok(Literal::Bool(false)),
            _ => Err(format!("'{}' is neither true / 1 nor false / 0", shown(text))),
        },
        Element::Primitive(Primitive::F32 | Primitive::F64) => {
            text.parse().map(Literal::Float).map_err(|_| {
                format!("'{}' is no number with a point before its fraction", shown(text))
            })
        }
        Element::Primitive(p) => integer(text)
            .ok_or_else(|| format!("'{}' is no integer", shown(text)))
            .and_then(|i| in_range(*p, i))
            .map(Literal::Int),
        Element::String { bound } | Element::WString { bound } => {
            unquoted(text).and_then(|t| in_bound(*bound, t)).map(Literal::Text)
        }
        Element::Nested(_) => {
            Err("cannot be given for a message: only primitives and strings have defaults"
                .to_owned())
        }
    }
}

fn in_range(p: Primitive, value: i128) -> Result<i128, String> {
    match p.range() {
        Some((least, greatest)) if (least..=greatest).contains(&value) => Ok(value),
        Some((least, greatest)) => Err(format!("{value} is not between {least} and {greatest}")),
        None => Err(format!("{value} is an integer, but its type is not an integer type")),
    }
}

fn in_bound(bound: Option<u32>, text: String) -> Result<String, String> {
    match bound {
        Some(bound) if text.chars().count() > bound as usize => {
            Err(format!("has more than {bound} characters"))
        }
        _ => Ok(text),
    }
}

/// Reads an integer: decimal, or with 0x, 0o or 0b; single underscores are allowed between digits.
fn integer(text: &str) -> Option<i128> {
    let text = text.trim();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = [("0x", 16), ("0o", 8), ("0b", 2)]
        .into_iter()
        .find_map(|(prefix, radix)| Some((radix, lower.strip_prefix(prefix)?)))
        .unwrap_or((10, &lower));
    let well_formed = digits.starts_with(|c: char| c.is_ascii_hexdigit())
        && !digits.contains("__")
        && !digits.ends_with('_');
    let value =
        i128::from_str_radix(&digits.replace('_', ""), radix).ok().filter(|_| well_formed)?;
    Some(if negative { -value } else { value })
}

/// Returns a text without the quotes around it, if it has any.
fn unquoted(text: &str) -> Result<String, String> {
    for quote in ['"', '\''] {
        let Some(inner) = text.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) else {
            continue;
        };
        let mut escaped = false;
        for c in inner.chars() {
            if c == quote && !escaped {
                return Err(format!("has a {quote} inside its quotes; write \\{quote}"));
            }
            escaped = c == '\\';
        }
        return Ok(inner.replace(&format!("\\{quote}"), &quote.to_string()));
    }
    Ok(text.to_owned())
}

fn many(ty: &FieldType, text: &str) -> Result<Literal, String> {
    let inner = text
        .strip_prefix('[')
        .and_then(|t| t.strip_suffix(']'))
        .ok_or_else(|| "of an array must stand in [ and ]".to_owned())?
        .trim();
    let parts = match ty.element {
        Element::Nested(_) => {
            return Err("cannot be given for messages: only primitives and strings have defaults"
                .to_owned());
        }
        Element::String { .. } | Element::WString { .. } => split_strings(inner)?,
        Element::Primitive(_) if inner.is_empty() => Vec::new(),
        Element::Primitive(_) => inner.split(',').map(str::trim).collect(),
    };
    match ty.shape {
        Shape::Array(len) if parts.len() != len as usize => {
            return Err(format!("has {} elements, its type exactly {len}", parts.len()));
        }
        Shape::Sequence { bound: Some(bound) } if parts.len() > bound as usize => {
            return Err(format!("has {} elements, its type at most {bound}", parts.len()));
        }
        _ => {}
    }
    parts.into_iter().map(|p| single(&ty.element, p)).collect::<Result<_, _>>().map(Literal::List)
}

/// Splits a text at commas that are not in quotes.
fn split_strings(text: &str) -> Result<Vec<&str>, String> {
    let mut parts = Vec::new();
    let (mut start, mut quote, mut escaped) = (0, None, false);
    for (at, c) in text.char_indices() {
        match quote {
            Some(q) if c == q && !escaped => quote = None,
            None if c == ',' => {
                parts.push(text[start..at].trim());
                start = at + 1;
            }
            None if (c == '"' || c == '\'') && text[start..at].trim().is_empty() => quote = Some(c),
            _ => {}
        }
        escaped = c == '\\';
    }
    if quote.is_some() {
        return Err("has a quote that does not end".to_owned());
    }
    if !text.is_empty() {
        parts.push(text[start..].trim());
    }
    if parts.iter().any(|p| p.is_empty()) {
        return Err("has a comma too many".to_owned());
    }
    Ok(parts)
}

/// Returns a value in the notation of a `.msg`; `None` if that cannot express it.
pub(crate) fn to_msg(value: &Literal) -> Option<String> {
    Some(match value {
        Literal::Bool(b) => b.to_string(),
        Literal::Int(i) => i.to_string(),
        Literal::Float(f) => format!("{f:?}"),
        // In a .msg, # begins a comment and = marks a constant, also in quotes.
        Literal::Text(t) if t.contains(['#', '=', '\n', '\r', '\t', '\\']) => return None,
        Literal::Text(t) => format!("\"{}\"", t.replace('"', "\\\"")),
        Literal::List(l) => {
            format!("[{}]", l.iter().map(to_msg).collect::<Option<Vec<_>>>()?.join(", "))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(element: Element, shape: Shape, text: &str) -> Result<Literal, String> {
        parse(&FieldType { element, shape }, text)
    }

    #[test]
    fn integers_are_read_as_python_reads_them() {
        let read = |p, t| value(Element::Primitive(p), Shape::Single, t);
        for (text, expected) in [
            ("5", 5),
            ("-128", -128),
            ("+7", 7),
            ("0x1F", 31),
            ("0b11", 3),
            ("0o17", 15),
            ("007", 7),
            ("1_00", 100),
        ] {
            assert_eq!(read(Primitive::I8, text), Ok(Literal::Int(expected)), "{text}");
        }
        for bad in ["", "-", "0x", "1__0", "_1", "1_", "128", "-129", "1.0", "eins", "--1"] {
            assert!(read(Primitive::I8, bad).is_err(), "{bad}");
        }
        assert_eq!(read(Primitive::U64, "18446744073709551615"), Ok(Literal::Int(u64::MAX.into())));
        assert!(read(Primitive::U64, "18446744073709551616").is_err());
    }

    #[test]
    fn strings_lose_their_quotes_and_keep_their_spaces() {
        let read = |t| value(Element::String { bound: Some(7) }, Shape::Single, t);
        assert_eq!(read("\" a b \""), Ok(Literal::Text(" a b ".into())));
        assert_eq!(read("plain"), Ok(Literal::Text("plain".into())));
        assert_eq!(read("'it\\'s'"), Ok(Literal::Text("it's".into())));
        assert!(read("\"a\"b\"").unwrap_err().contains("inside its quotes"));
        assert!(read("12345678").unwrap_err().contains("more than 7"));
        assert_eq!(read("\""), Ok(Literal::Text("\"".into())));
    }

    #[test]
    fn lists_have_as_many_elements_as_their_type() {
        let int = Element::Primitive(Primitive::I32);
        assert_eq!(
            value(int.clone(), Shape::Array(3), "[1, -2,3]"),
            Ok(Literal::List(vec![Literal::Int(1), Literal::Int(-2), Literal::Int(3)]))
        );
        assert_eq!(
            value(int.clone(), Shape::Sequence { bound: None }, "[]"),
            Ok(Literal::List(vec![]))
        );
        for bad in ["[1, 2]", "1, 2, 3", "[1,,3]", "[1,2,3"] {
            assert!(value(int.clone(), Shape::Array(3), bad).is_err(), "{bad}");
        }
        let text = Element::String { bound: None };
        let several = value(text.clone(), Shape::Sequence { bound: Some(2) }, r#"["a, b", 'c']"#);
        assert_eq!(
            several,
            Ok(Literal::List(vec![Literal::Text("a, b".into()), Literal::Text("c".into())]))
        );
        for bad in [r#"["a]"#, "[a,]", "[a, b, c]"] {
            assert!(value(text.clone(), Shape::Sequence { bound: Some(2) }, bad).is_err(), "{bad}");
        }
    }
}
