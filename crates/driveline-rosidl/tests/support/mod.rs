// SPDX-License-Identifier: Apache-2.0
//! Random definitions and samples for tests.

// Each test program uses only a part of this module.
#![allow(dead_code, reason = "shared by tests that need different parts")]

use driveline_rosidl::{Catalog, Kind, Layout, Primitive, Shape, StructId, Value, parse_msg};
use proptest::prelude::*;
use std::fmt::Write as _;

/// Small random number generator with the same results on every machine: SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Returns a random sample. Strings are UTF-8 and keep their bounds.
pub(crate) fn sample(layout: &Layout, random: &mut Random) -> Value {
    message(layout, layout.root(), random, 0)
}

fn message(layout: &Layout, id: StructId, random: &mut Random, depth: u64) -> Value {
    let members = &layout.get(id).members;
    Value::Struct(
        members
            .iter()
            .map(|m| {
                let count = match m.shape {
                    Shape::Single => return single(layout, m.kind, random, depth),
                    Shape::Array(n) => n as usize,
                    // Fewer elements at greater depths, so that deep trees stay small.
                    Shape::Sequence { bound } => (random.below(6 / (depth + 1) + 2) as usize)
                        .min(bound.map_or(usize::MAX, |b| b as usize)),
                };
                many(layout, m.kind, count, random, depth)
            })
            .collect(),
    )
}

fn text(bound: Option<u32>, random: &mut Random) -> String {
    let alphabet = ['a', 'B', '7', '_', '/', ' ', 'é', '→', '😀'];
    let len = random.below(9).min(bound.unwrap_or(u32::MAX).into());
    (0..len).map(|_| alphabet[random.below(alphabet.len() as u64) as usize]).collect()
}

fn single(layout: &Layout, kind: Kind, random: &mut Random, depth: u64) -> Value {
    let bits = random.next();
    match kind {
        Kind::Primitive(p) => match p {
            Primitive::Bool => Value::Bool(bits & 1 == 1),
            Primitive::Byte | Primitive::Char | Primitive::U8 => Value::U8(bits as u8),
            Primitive::I8 => Value::I8(bits as i8),
            Primitive::I16 => Value::I16(bits as i16),
            Primitive::U16 | Primitive::WChar => Value::U16(bits as u16),
            Primitive::I32 => Value::I32(bits as i32),
            Primitive::U32 => Value::U32(bits as u32),
            Primitive::I64 => Value::I64(bits as i64),
            Primitive::U64 => Value::U64(bits),
            Primitive::F32 => Value::F32(f32(bits)),
            Primitive::F64 => Value::F64(f64(bits)),
        },
        Kind::String(bound) => Value::String(text(bound, random).into_bytes()),
        Kind::WString(bound) => {
            let units: Vec<u16> = text(bound, random).encode_utf16().collect();
            Value::WString(units.into_iter().take(bound.unwrap_or(u32::MAX) as usize).collect())
        }
        Kind::Struct(id) => message(layout, id, random, depth + 1),
    }
}

/// Returns the number with these bits. Not-a-number is replaced, because it does not equal itself.
fn f32(bits: u64) -> f32 {
    let value = f32::from_bits(bits as u32);
    if value.is_nan() { f32::INFINITY } else { value }
}

fn f64(bits: u64) -> f64 {
    let value = f64::from_bits(bits);
    if value.is_nan() { f64::NEG_INFINITY } else { value }
}

fn many(layout: &Layout, kind: Kind, count: usize, random: &mut Random, depth: u64) -> Value {
    let mut bits = || (0..count).map(|_| random.next()).collect::<Vec<_>>().into_iter();
    let Kind::Primitive(p) = kind else {
        return Value::List((0..count).map(|_| single(layout, kind, random, depth)).collect());
    };
    match p {
        Primitive::Bool => Value::Bools(bits().map(|b| b & 1 == 1).collect()),
        Primitive::Byte | Primitive::Char | Primitive::U8 => {
            Value::U8s(bits().map(|b| b as u8).collect())
        }
        Primitive::I8 => Value::I8s(bits().map(|b| b as i8).collect()),
        Primitive::I16 => Value::I16s(bits().map(|b| b as i16).collect()),
        Primitive::U16 | Primitive::WChar => Value::U16s(bits().map(|b| b as u16).collect()),
        Primitive::I32 => Value::I32s(bits().map(|b| b as i32).collect()),
        Primitive::U32 => Value::U32s(bits().map(|b| b as u32).collect()),
        Primitive::I64 => Value::I64s(bits().map(|b| b as i64).collect()),
        Primitive::U64 => Value::U64s(bits().collect()),
        Primitive::F32 => Value::F32s(bits().map(f32).collect()),
        Primitive::F64 => Value::F64s(bits().map(f64).collect()),
    }
}

/// Messages `invented/msg/M0`, `invented_more/msg/M1`, …, each of which may refer to those before
/// it; the last is the one to test.
#[derive(Clone, Debug)]
pub(crate) struct Invented {
    /// Texts of `.msg` files.
    pub(crate) texts: Vec<String>,
}

impl Invented {
    pub(crate) fn name(i: usize) -> String {
        format!("{}/msg/M{i}", package(i))
    }

    pub(crate) fn last(&self) -> String {
        Self::name(self.texts.len() - 1)
    }

    pub(crate) fn catalog(&self) -> Catalog {
        let mut catalog = Catalog::new();
        for (i, text) in self.texts.iter().enumerate() {
            let name = Self::name(i).parse().unwrap();
            catalog.add_message(parse_msg(&name, &format!("M{i}.msg"), text).unwrap()).unwrap();
        }
        catalog
    }
}

/// Alternates between two packages, so that messages refer to types of their own package and of
/// another one.
fn package(i: usize) -> &'static str {
    if i.is_multiple_of(2) { "invented" } else { "invented_more" }
}

/// Returns true if the layout has a member of this kind.
pub(crate) fn has(layout: &Layout, id: StructId, kind: &impl Fn(Kind) -> bool) -> bool {
    layout.get(id).members.iter().any(|member| match member.kind {
        Kind::Struct(id) => has(layout, id, kind),
        of => kind(of),
    })
}

/// Up to five messages, each with up to eight fields and constants. They cover all that a `.msg`
/// may have, except wchar.
pub(crate) fn invented() -> impl Strategy<Value = Invented> {
    let field = (0..18_usize, 0..6_usize, 1..6_u32, any::<u64>(), any::<bool>());
    proptest::collection::vec((proptest::collection::vec(field, 0..8), any::<u16>()), 1..6)
        .prop_map(move |messages| {
            let texts = messages
                .iter()
                .enumerate()
                .map(|(i, (fields, constants))| {
                    let mut text = String::from("# invented\n\n");
                    let chosen =
                        CONSTANTS.iter().enumerate().filter(|(k, _)| constants >> k & 1 == 1);
                    chosen.for_each(|(_, constant)| text += &format!("{constant} # a constant\n"));
                    for (k, (ty, shape, n, bits, comment)) in fields.iter().enumerate() {
                        let (ty, values) = element(*ty, i, *n, *bits);
                        let (suffix, count) = match shape {
                            0..2 => (String::new(), None),
                            2 => (format!("[{n}]"), Some(*n)),
                            // rosbags does not read a default without elements.
                            3 => ("[]".to_owned(), Some(1 + (bits >> 8) as u32 % 4)),
                            _ => (format!("[<={n}]"), Some(1 + (bits >> 8) as u32 % n)),
                        };
                        let default = match (values, count) {
                            (Some([one, _]), None) if bits & 2 == 2 => format!(" {one}"),
                            (Some(of), Some(count)) if bits & 2 == 2 => {
                                let list: Vec<_> = of
                                    .iter()
                                    .cycle()
                                    .take(count as usize)
                                    .map(String::as_str)
                                    .collect();
                                format!(" [{}]", list.join(", "))
                            }
                            _ => String::new(),
                        };
                        let comment = if *comment { " # said of it" } else { "" };
                        let _ = writeln!(text, "{ty}{suffix} field_{k}{default}{comment}");
                    }
                    text
                })
                .collect();
            Invented { texts }
        })
}

/// Constants of each type that a constant may have, with the minimum and maximum of each integer
/// type.
const CONSTANTS: [&str; 15] = [
    "bool ON=true",
    "byte BYTE=255",
    "char CHAR=65",
    "int8 LEAST_8=-128",
    "uint8 MOST_8=255",
    "int16 LEAST_16=-32768",
    "uint16 MOST_16 = 65535",
    "int32 LEAST_32=-2147483648",
    "uint32 MOST_32=4294967295",
    "int64 LEAST_64=-9223372036854775808",
    "uint64 MOST_64=18446744073709551615",
    "float32 HALF=0.5",
    "float64 SMALL=-1.5e-7",
    "string TEXT=\"a b\"",
    "string QUOTED='it is \"so\"'",
];

/// Returns a type as written in a `.msg`, and two values of it if it may have a default.
fn element(ty: usize, message: usize, n: u32, bits: u64) -> (String, Option<[String; 2]>) {
    let names = [
        "bool", "byte", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
        "float32", "float64", "char",
    ];
    let values = |one: &str, other: &str| Some([one.to_owned(), other.to_owned()]);
    match ty {
        0 => ("bool".into(), values("true", "False")),
        6 => ("int32".into(), values(&(bits as i32).to_string(), "-7")),
        11 => ("float64".into(), values("-2.5e3", ".5")),
        1..13 => (names[ty].into(), values("0", "100")),
        13 => ("string".into(), values("\"a b\"", "'c'")),
        14 => (
            if bits & 1 == 1 { format!("wstring<={n}") } else { "wstring".into() },
            values("\"é\"", "\"\""),
        ),
        15 if message > 0 => {
            let of = bits as usize % message;
            (format!("{}/M{of}", package(of)), None)
        }
        16 if message > 1 => (format!("M{}", message - 2), None),
        _ => (format!("string<={n}"), values("\"x\"", "''")),
    }
}
