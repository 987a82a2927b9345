// SPDX-License-Identifier: Apache-2.0
//! Decodes samples of any topic by their schema.

use crate::cloud;
use driveline_msgs::CloudView;
use driveline_rosidl::{CDR_ENCODING, Catalog, Layout, Text, Value, cdr};
use driveline_types::print::{Printer, ProtobufDefinition};
use driveline_types::{PayloadKind, PlainLayout, Schema};
use std::fmt;

/// Number of bytes shown of a payload that cannot be decoded.
const HEAD: usize = 32;

/// Type of point clouds.
const CLOUD: &str = "driveline/PointCloud";

/// Decoder of one publisher's samples.
pub(crate) enum Decoder {
    Cdr(Layout),
    Plain(PlainLayout),
    /// `driveline/PointCloud`.
    Cloud(PlainLayout),
    Protobuf(ProtobufDefinition),
    /// The payload is a text.
    Text,
    /// The format of the payload is unknown.
    Bytes,
}

/// A sample that can be printed.
pub(crate) enum Decoded<'a> {
    Cdr(&'a Layout, Value),
    Plain(&'a PlainLayout, &'a [u8]),
    Cloud { cloud: Box<CloudView<'a>>, full: bool },
    Protobuf(&'a ProtobufDefinition, &'a [u8]),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Decoder {
    /// Creates a decoder for samples with this schema. Also returns the reason if the samples are
    /// shown as bytes.
    pub(crate) fn of(schema: &Schema) -> (Self, Option<String>) {
        let broken = |why: String| (Self::Bytes, Some(why));
        match schema.kind {
            PayloadKind::Plain => match schema.definition.parse() {
                Ok(layout) if schema.name == CLOUD => (Self::Cloud(layout), None),
                Ok(layout) => (Self::Plain(layout), None),
                Err(e) => broken(format!("{e}")),
            },
            PayloadKind::Protobuf => match schema.definition.parse() {
                Ok(definition) => (Self::Protobuf(definition), None),
                Err(e) => broken(format!("{e}; build both ends from the same release")),
            },
            PayloadKind::Bytes if schema.encoding == CDR_ENCODING => {
                match Catalog::from_schema(schema).and_then(|(name, catalog)| catalog.layout(&name))
                {
                    Ok(layout) => (Self::Cdr(layout), None),
                    Err(e) => broken(e.to_string()),
                }
            }
            PayloadKind::Bytes if is_text(&schema.encoding) => (Self::Text, None),
            PayloadKind::Bytes | PayloadKind::Object => broken(format!(
                "its encoding '{}' is not known here; plain types, protobuf, cdr with its \
                 definition, json and text are",
                schema.encoding
            )),
        }
    }

    /// Decodes a sample. With `full`, all points of a cloud are shown, else a summary.
    pub(crate) fn read<'a>(&'a self, payload: &'a [u8], full: bool) -> Result<Decoded<'a>, String> {
        match self {
            Self::Cdr(layout) => cdr::read(layout, payload)
                .map(|value| Decoded::Cdr(layout, value))
                .map_err(|e| e.to_string()),
            Self::Plain(layout) => layout
                .check(payload)
                .map(|()| Decoded::Plain(layout, payload))
                .map_err(|e| e.to_string()),
            // A type of this name with another definition is decoded by its own definition.
            Self::Cloud(layout) => match CloudView::of_bytes(payload) {
                Ok(cloud) => Ok(Decoded::Cloud { cloud: Box::new(cloud), full }),
                Err(_) => layout
                    .check(payload)
                    .map(|()| Decoded::Plain(layout, payload))
                    .map_err(|e| e.to_string()),
            },
            Self::Protobuf(d) => {
                d.check(payload).map(|()| Decoded::Protobuf(d, payload)).map_err(|e| e.to_string())
            }
            Self::Text => std::str::from_utf8(payload)
                .map(Decoded::Text)
                .map_err(|e| format!("no text in UTF-8: {e}")),
            Self::Bytes => Ok(Decoded::Bytes(payload)),
        }
    }
}

impl Decoded<'_> {
    pub(crate) fn print(&self, p: &mut Printer<'_>) -> fmt::Result {
        match self {
            Self::Cdr(layout, value) => Text::new(layout, value).print(p),
            Self::Plain(layout, payload) => layout.print(payload, p),
            Self::Cloud { cloud, full } => cloud::print(cloud, *full, p),
            Self::Protobuf(definition, payload) => definition.print(payload, p),
            Self::Text(text) => p.fields(|p| {
                p.field("text")?;
                p.text(text)
            }),
            Self::Bytes(payload) => p.fields(|p| {
                p.field("payload")?;
                p.text(&head(payload))
            }),
        }
    }
}

/// Returns the beginning of a payload in hexadecimal digits.
pub(crate) fn head(payload: &[u8]) -> String {
    let hex: Vec<String> = payload.iter().take(HEAD).map(|b| format!("{b:02x}")).collect();
    let more = if payload.len() > HEAD {
        format!(" … ({} bytes in all)", payload.len())
    } else {
        String::new()
    };
    hex.join(" ") + &more
}

fn is_text(encoding: &str) -> bool {
    ["text", "utf-8", "utf8", "json", "yaml"].iter().any(|e| encoding.eq_ignore_ascii_case(e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::print::{Limits, Style};

    fn shown(schema: &Schema, payload: &[u8]) -> (String, Option<String>) {
        let (decoder, why) = Decoder::of(schema);
        let mut out = String::new();
        match decoder.read(payload, false) {
            Ok(sample) => {
                sample.print(&mut Printer::new(&mut out, Style::Text, Limits::default())).unwrap()
            }
            Err(e) => out = e,
        }
        (out, why)
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let (text, why) = shown(&Schema::bytes("demo/Count", "raw", ""), &[0xab; 40]);
        assert!(
            text.starts_with("payload: ab ab ") && text.ends_with("ab … (40 bytes in all)\n"),
            "{text}"
        );
        assert!(why.unwrap().contains("encoding 'raw' is not known here"));
        for (schema, says) in [
            (Schema::bytes("p/msg/M", "cdr", "Other o\n"), "p/msg/Other"),
            (Schema::bytes("p/msg/M", "cdr", "int9 o\n"), ":1: "),
            (
                Schema { kind: PayloadKind::Plain, ..Schema::bytes("p", "plain", "x") },
                "line 1 of a plain layout",
            ),
            (Schema::protobuf("p.M", "x"), "line 1 of a protobuf definition"),
        ] {
            let (text, why) = shown(&schema, b"ab");
            assert!(
                text == "payload: \"61 62\"\n" && why.as_ref().unwrap().contains(says),
                "{why:?}"
            );
        }
    }

    #[test]
    fn text_is_text_unless_it_is_none() {
        let schema = Schema::bytes("greeting", "utf-8", "");
        assert_eq!(shown(&schema, b"hello"), ("text: hello\n".into(), None));
        assert!(shown(&schema, &[0xff]).0.contains("no text in UTF-8"));
    }
}
