// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{Plain, PlainLayout, plain_type};
use proptest::prelude::*;

#[plain_type(name = "test/Point")]
#[derive(Debug, PartialEq, Default)]
struct Point {
    x: f32,
    y: f32,
}

#[plain_type(name = "test/Scan", tail(points: Point))]
#[derive(Debug, PartialEq, Default)]
struct Scan {
    time_ns: u64,
    corners: [Point; 2],
    origin: Point,
    frame_id: [u8; 16],
    flags: [u8; 4],
    small: i32,
}

fn printed(
    style: Style,
    limits: Limits,
    f: impl FnOnce(&mut Printer<'_>) -> fmt::Result,
) -> String {
    let mut out = String::new();
    f(&mut Printer::new(&mut out, style, limits)).unwrap();
    out
}

fn scan(tail: usize) -> Vec<u8> {
    let mut frame_id = [0; 16];
    frame_id[..6].copy_from_slice(b"camera");
    let point = |x, y| Point { x, y };
    let head = Scan {
        time_ns: u64::MAX,
        corners: [point(0.5, 1.0), point(f32::NAN, -0.0)],
        origin: point(f32::INFINITY, 1e30),
        frame_id,
        flags: [1, 2, 3, 0],
        small: -7,
    };
    let mut bytes = vec![0; crate::plain::payload_len::<Scan>(tail).unwrap() + 8];
    let at = bytes.as_ptr().align_offset(8);
    let payload = &mut bytes[at..at + crate::plain::payload_len::<Scan>(tail).unwrap()];
    crate::PlainMut::<Scan>::write(payload, &head, &vec![point(2.0, 3.0); tail]).unwrap();
    payload.to_vec()
}

const SCAN: &str = "time_ns: 18446744073709551615
corners:
-
  x: 0.5
  y: 1.0
-
  x: NaN
  y: -0.0
origin:
  x: inf
  y: 1e30
frame_id: camera
flags: [1, 2, 3, 0]
small: -7
points:
-
  x: 2.0
  y: 3.0
… (2 in all)
";

#[test]
fn a_plain_type_is_shown_as_it_was_before_it_was_flattened() {
    let layout = Scan::layout();
    layout.check(&scan(2)).unwrap();
    // Two corners, the origin, four flags, then one of the points.
    let limits = Limits { all: 8, ..Limits::default() };
    assert_eq!(printed(Style::Text, limits, |p| layout.print(&scan(2), p)), SCAN);
    let json = printed(Style::Json, Limits::default(), |p| layout.print(&scan(1), p));
    assert_eq!(
        json,
        concat!(
            r#"{"time_ns":18446744073709551615,"corners":[{"x":0.5,"y":1.0},{"x":"NaN","#,
            r#""y":-0.0}],"origin":{"x":"Infinity","y":1e30},"frame_id":"camera","flags":[1,2,3,"#,
            r#"0],"small":-7,"points":[{"x":2.0,"y":3.0}]}"#,
        )
    );
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}

#[test]
fn a_payload_of_another_length_says_what_there_should_be() {
    let told = |payload: &[u8]| Scan::layout().check(payload).unwrap_err().to_string();
    assert!(
        told(&[0; 10]).starts_with("10 bytes, of which there should be 64 at least; the publisher"),
        "{}",
        told(&[0; 10])
    );
    assert!(
        told(&[0; 67])
            .starts_with("67 bytes, of which 3 are no whole number of 'points' of 8 bytes each"),
        "{}",
        told(&[0; 67])
    );
    assert!(
        Point::layout()
            .check(&[0; 9])
            .unwrap_err()
            .to_string()
            .starts_with("9 bytes, of which there should be 8;")
    );
    assert!(Point::layout().check(&[0; 8]).is_ok());
}

#[test]
fn exhausted_limits_are_reported() {
    let limits = Limits { each: 1, all: 2 };
    let print = |style| {
        printed(style, limits, |p| {
            p.fields(|p| {
                p.field("a")?;
                p.list(3, |p, _| {
                    p.fields(|p| {
                        p.field("b")?;
                        p.numbers([1_u8, 2].into_iter())
                    })
                })?;
                p.field("c")?;
                p.numbers([true, false].into_iter())?;
                p.field("d")?;
                p.fields(|p| p.field("never"))?;
                p.field("e")?;
                p.no_fields()
            })
        })
    };
    assert_eq!(
        print(Style::Text),
        "a:\n-\n  b: [1, … (2 in all)]\n… (3 in all)\nc: [… (2 in all)]\nd: …\ne: {}\n"
    );
    let json = concat!(
        r#"{"a":{"length":3,"head":[{"b":{"length":2,"head":[1]}}]},"c":{"length":2,"head":[]},"#,
        r#""d":{"not_shown":true},"e":{}}"#,
    );
    assert_eq!(print(Style::Json), json);
}

const DEFINITION: &str = "driveline protobuf 1
message test.All
field 1 a optional int32
field 2 b optional sint64
field 3 c repeated uint32
field 4 d optional message test.Part
field 5 e repeated message test.Part
field 6 f optional enum test.Mode
field 7 g optional string oneof choice
field 8 h optional bytes
field 9 i repeated double
field 10 j optional sfixed32
field 11 k repeated enum test.Mode
field 12 l optional bool
field 13 never optional float
message test.Part
field 1 name optional string
field 2 inner optional message test.Part
enum test.Mode
value 0 MODE_OFF
value 1 MODE_ON
";

#[test]
fn a_protobuf_message_is_read_by_its_definition() {
    let definition: ProtobufDefinition = DEFINITION.parse().unwrap();
    let mut bytes = vec![0x08, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]; // a: -1
    bytes.extend([0x10, 0x03]); // b: -2
    bytes.extend([0x18, 0x05, 0x1a, 0x02, 0x06, 0x07]); // c: one alone, two packed
    bytes.extend([0x22, 0x03, 0x0a, 0x01, b'x', 0x22, 0x02, 0x12, 0x00]); // d, in two pieces
    bytes.extend([0x2a, 0x00, 0x2a, 0x03, 0x0a, 0x01, b'y']); // e
    bytes.extend([0x30, 0x01, 0x3a, 0x02, 0x1b, b'"', 0x42, 0x02, 1, 2]); // f, g, h
    bytes.extend([0x49, 0, 0, 0, 0, 0, 0, 0xf8, 0x3f]); // i: 1.5
    bytes.extend([0x55, 0xfe, 0xff, 0xff, 0xff]); // j: -2
    bytes.extend([0x5a, 0x02, 0x00, 0x09, 0x60, 0x01]); // k: packed, one of them unknown; l
    bytes.extend([0xa0, 0x06, 0x01]); // 100: of a later definition
    definition.check(&bytes).unwrap();
    let text = printed(Style::Text, Limits::default(), |p| definition.print(&bytes, p));
    let expected = "a: -1\nb: -2\nc: [5, 6, 7]\nd:\n  name: x\n  inner: {}\ne:\n- {}\n-\n  name: \
         y\nf: MODE_ON\ng: \"\\u{1b}\\\"\"\nh: [1, 2]\ni: [1.5]\nj: -2\nk:\n- MODE_OFF\n- 9\nl: \
         true\n";
    assert_eq!(text, expected);
    let json = printed(Style::Json, Limits::default(), |p| definition.print(&bytes, p));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["k"][0], &json["g"], &json["d"]["inner"]),
        (&"MODE_OFF".into(), &"\u{1b}\"".into(), &serde_json::json!({}))
    );
    for end in 0..bytes.len() {
        // A message cut at the end of a field is a valid message; cut elsewhere, it is invalid.
        if let Err(e) = definition.check(&bytes[..end]) {
            assert!(e.to_string().starts_with("at byte "), "{e}");
        }
    }
    for (bad, says) in [
        (&[0x0b_u8][..], "at byte 0: the bytes are not a field"),
        (&[0x0a, 0x01, 0x00], "at byte 0: field 1 ('a') does not have its defined type"),
        (&[0x22, 0x02, 0x0a, 0x05], "at byte 2: the bytes are not a field, or the field is cut"),
        (&[0x22, 0xff, 0xff, 0xff, 0xff, 0x0f], "at byte 0: the bytes are not a field"),
    ] {
        let told = definition.check(bad).unwrap_err().to_string();
        assert!(told.starts_with(says), "{told}");
    }
    let deep = (0..70).fold(Vec::new(), |inner: Vec<u8>, _| {
        let mut outer = vec![0x12, 0x80 | (inner.len() & 0x7f) as u8, (inner.len() >> 7) as u8];
        outer.extend(inner);
        outer
    });
    let deep =
        [&[0x22, 0x80 | (deep.len() & 0x7f) as u8, (deep.len() >> 7) as u8], &deep[..]].concat();
    assert!(definition.check(&deep).unwrap_err().to_string().contains("nested more than 64 deep"));
}

#[test]
fn a_definition_with_a_mistake_says_where() {
    for (from, to, line) in [
        ("driveline protobuf 1", "driveline protobuf 2", 1),
        ("field 1 a", "field 0 a", 3),
        ("field 1 a", "field 1 a\u{1b}", 3),
        ("optional int32", "optional int33", 3),
        ("sint64", "message test.None", 4),
        ("enum test.Mode\nvalue", "message test.Part\nvalue", 19),
        ("value 0", "field 0", 20),
    ] {
        assert_eq!(
            DEFINITION.replacen(from, to, 1).parse::<ProtobufDefinition>().unwrap_err().line,
            line,
            "{to}"
        );
    }
    assert!("driveline protobuf 1\n".parse::<ProtobufDefinition>().is_err());
}

/// Checks the length of a text. The bound generously allows the longest name with its indentation
/// for each shown element.
fn bounded(text: &str, limits: Limits) {
    assert!(text.len() < 2_000_000 + limits.all.saturating_mul(1000), "{}", text.len());
}

proptest! {
    #[test]
    fn any_bytes_of_a_plain_type_are_shown_and_bounded(
        bytes in proptest::collection::vec(any::<u8>(), 0..4096),
    ) {
        let layout = Scan::layout();
        let limits = Limits { each: 5, all: 30 };
        bounded(&printed(Style::Text, limits, |p| layout.print(&bytes, p)), limits);
        let json = printed(Style::Json, limits, |p| layout.print(&bytes, p));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", json);
    }

    #[test]
    fn any_names_of_fields_are_shown(
        names in proptest::collection::vec("[ab\\.\\[\\]0:]{1,12}", 1..12),
        bytes in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let mut text = format!("driveline plain 1\ntype t size {} align 1\n", names.len());
        names.iter().enumerate().for_each(|(i, n)| text += &format!("field {n} u8 offset {i}\n"));
        let layout: PlainLayout = text.parse().unwrap();
        let json = printed(Style::Json, Limits::default(), |p| layout.print(&bytes, p));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", json);
        printed(Style::Text, Limits::default(), |p| layout.print(&bytes, p));
    }

    #[test]
    fn any_bytes_are_a_protobuf_message_or_an_error(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0_u8..0x70], 0..300),
    ) {
        let definition: ProtobufDefinition = DEFINITION.parse().unwrap();
        let _ = definition.check(&bytes);
        let limits = Limits { each: 5, all: 30 };
        bounded(&printed(Style::Text, limits, |p| definition.print(&bytes, p)), limits);
        let json = printed(Style::Json, limits, |p| definition.print(&bytes, p));
        prop_assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok(), "{}", json);
    }

    #[test]
    fn any_text_is_a_definition_of_protobuf_or_an_error(
        lines in proptest::collection::vec(
            "(message|field|enum|value|[0-9]|a|optional|repeated|int32| ){0,9}", 0..12
        ),
    ) {
        let text = format!("driveline protobuf 1\n{}", lines.join("\n"));
        if let Err(e) = text.parse::<ProtobufDefinition>() {
            prop_assert!(e.line >= 1);
        }
    }

    #[test]
    fn any_text_is_text_of_json(text in ".{0,200}") {
        let json = printed(Style::Json, Limits::NONE, |p| p.text(&text));
        prop_assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
