// SPDX-License-Identifier: Apache-2.0
//! Splits a text into words, numbers, strings and punctuation.

use crate::error::{DefinitionError, Place, shown};
use std::sync::Arc;

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind<'a> {
    Word(&'a str),
    Int(i128),
    Float(f64),
    Text(String),
    /// Punctuation; `::` is one token.
    Sign(&'a str),
}

#[derive(Clone, Debug)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind<'a>,
    pub(super) line: u32,
}

struct Lexer<'a> {
    file: &'a Arc<str>,
    rest: &'a str,
    line: u32,
}

pub(super) fn tokens<'a>(
    file: &'a Arc<str>,
    text: &'a str,
    first: u32,
) -> Result<Vec<Token<'a>>, DefinitionError> {
    let mut lexer = Lexer { file, rest: text, line: first };
    let mut out = Vec::new();
    loop {
        lexer.skip_blank()?;
        if lexer.rest.is_empty() {
            return Ok(out);
        }
        let line = lexer.line;
        out.push(Token { kind: lexer.token()?, line });
    }
}

impl<'a> Lexer<'a> {
    fn error(&self, problem: impl Into<String>, remedy: &str) -> DefinitionError {
        DefinitionError::new(Place { file: self.file.clone(), line: self.line }, problem, remedy)
    }

    /// Takes the first `len` bytes.
    fn take(&mut self, len: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(len);
        self.line = self
            .line
            .saturating_add(u32::try_from(taken.matches('\n').count()).unwrap_or(u32::MAX));
        self.rest = rest;
        taken
    }

    fn take_line(&mut self) {
        self.take(self.rest.find('\n').map_or(self.rest.len(), |at| at + 1));
    }

    /// Skips blanks, comments and `#include`s. Included types are found by their names.
    fn skip_blank(&mut self) -> Result<(), DefinitionError> {
        loop {
            let blank = self.rest.len() - self.rest.trim_start().len();
            self.take(blank);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.take_line();
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.error("a comment /* that does not end", "close it with */"));
                };
                self.take(end + 2);
            } else {
                return Ok(());
            }
        }
    }

    fn token(&mut self) -> Result<Kind<'a>, DefinitionError> {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let Some(c) = self.rest.chars().next() else { return Ok(Kind::Sign("")) };
        let after = self.rest.chars().nth(1);
        if c.is_ascii_alphabetic() || c == '_' {
            let len = self.rest.find(|c| !is_word(c)).unwrap_or(self.rest.len());
            let word = self.take(len);
            // A wide string is written L"…".
            return if word == "L" && self.rest.starts_with('"') {
                self.string()
            } else {
                Ok(Kind::Word(word))
            };
        }
        if c.is_ascii_digit() || (c == '.' && after.is_some_and(|d| d.is_ascii_digit())) {
            return self.number();
        }
        match c {
            '"' => self.string(),
            ':' if after == Some(':') => Ok(Kind::Sign(self.take(2))),
            '{' | '}' | '<' | '>' | '[' | ']' | '(' | ')' | ',' | ';' | '=' | '@' | '-' | '+'
            | ':' => Ok(Kind::Sign(self.take(1))),
            _ => Err(self.error(
                format!("the character '{}'", c.escape_default()),
                "ROS 2 reads no such sign in an .idl; remove it",
            )),
        }
    }

    fn number(&mut self) -> Result<Kind<'a>, DefinitionError> {
        let mut len = 0;
        let mut before = ' ';
        for c in self.rest.chars() {
            let exponent_sign = (c == '-' || c == '+') && matches!(before, 'e' | 'E');
            if !(c.is_ascii_alphanumeric() || c == '.' || exponent_sign) {
                break;
            }
            (before, len) = (c, len + 1);
        }
        let text = self.take(len);
        let hexadecimal = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let octal = text
            .strip_prefix('0')
            .filter(|t| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit()));
        let integer = match (hexadecimal, octal) {
            (Some(digits), _) => {
                i128::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))
            }
            (None, Some(digits)) => i128::from_str_radix(digits, 8).ok(),
            (None, None) => text.parse::<i128>().ok(),
        };
        let float =
            || text.parse::<f64>().ok().filter(|_| hexadecimal.is_none() && octal.is_none());
        match (integer, float()) {
            (Some(i), _) => Ok(Kind::Int(i)),
            (None, Some(f)) => Ok(Kind::Float(f)),
            (None, None) => {
                Err(self.error(format!("'{}' is no number", shown(text)), "write a decimal number"))
            }
        }
    }

    /// Reads a string, beginning at its first quote.
    fn string(&mut self) -> Result<Kind<'a>, DefinitionError> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.take(at + 1);
                    return Ok(Kind::Text(out));
                }
                '\\' => match chars.next() {
                    Some((_, 'n')) => out.push('\n'),
                    Some((_, 't')) => out.push('\t'),
                    Some((_, 'r')) => out.push('\r'),
                    Some((_, c @ ('"' | '\\' | '\'' | '?'))) => out.push(c),
                    // ROS 2 keeps other escapes unchanged.
                    Some((_, c)) => out.extend(['\\', c]),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.error("a string that does not end", "close it with \""))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<(Kind<'_>, u32)>, String> {
        let file = Arc::from("f.idl");
        // The returned tokens borrow the file's name, so it must outlive this function.
        let leaked: &'static Arc<str> = Box::leak(Box::new(file));
        tokens(leaked, text, 1)
            .map(|t| t.into_iter().map(|t| (t.kind, t.line)).collect())
            .map_err(|e| e.to_string())
    }

    #[test]
    fn tokens_know_their_lines() {
        let text = "#include \"x.idl\"\nmodule a_1 { // b\n/* c\n d */ x::Y<3>; @k(v=-0x10, \
             f=1.5e-3, s=\"a\\\"b\"\n\"c\") L\"w\" 010 .5";
        let read = kinds(text).unwrap();
        assert_eq!(read[0], (Kind::Word("module"), 2));
        assert_eq!(read[3], (Kind::Word("x"), 4));
        assert_eq!(read[4].0, Kind::Sign("::"));
        for wanted in [
            Kind::Int(16),
            Kind::Float(1.5e-3),
            Kind::Text("a\"b".into()),
            Kind::Text("w".into()),
            Kind::Int(8),
            Kind::Float(0.5),
        ] {
            assert!(read.iter().any(|(k, _)| *k == wanted), "{wanted:?}");
        }
        assert!(read.contains(&(Kind::Text("c".into()), 5)));
    }

    #[test]
    fn unterminated_tokens_are_reported() {
        for (text, says) in [
            ("\n/* x", "f.idl:2: a comment"),
            ("\"abc", "a string"),
            ("\"\\", "a string"),
            ("1x2", "'1x2' is no number"),
            ("é", "the character"),
        ] {
            assert!(kinds(text).unwrap_err().contains(says), "{text}");
        }
    }
}
