// SPDX-License-Identifier: Apache-2.0
//! Bytes as ROS 2's implementations send them, and invalid bytes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use driveline_rosidl::cdr::{self, ByteOrder, Decoder, Fault, ReadLimits};
use driveline_rosidl::{Catalog, Layout, Text, Value, parse_msg};

fn layout(texts: &[(&str, &str)]) -> Layout {
    let mut catalog = Catalog::new();
    let mut last = None;
    for (name, text) in texts {
        let name = last.insert(name.parse().unwrap());
        catalog.add_message(parse_msg(name, "test", text).unwrap()).unwrap();
    }
    catalog.layout(&last.unwrap()).unwrap()
}

fn one(text: &str) -> Layout {
    layout(&[("p/M", text)])
}

/// Puts the encapsulation for little endian before the bytes.
fn le(body: &[u8]) -> Vec<u8> {
    [&[0, 1, 0, 0], body].concat()
}

/// Returns the fault in these bytes. `read` and `check` must report the same fault.
fn fault(layout: &Layout, body: &[u8]) -> Fault {
    let error = cdr::read(layout, &le(body)).unwrap_err();
    assert_eq!(cdr::check(layout, &le(body)).unwrap_err(), error);
    error.fault
}

#[test]
fn alignment_counts_from_behind_the_encapsulation() {
    let l = one("uint8 a\nfloat64 b\nuint16 c\nint32 d\n");
    let bytes = le(&[
        7, 9, 9, 9, 9, 9, 9, 9, 0, 0, 0, 0, 0, 0, 0xf0, 0x3f, 2, 1, 9, 9, 0xff, 0xff, 0xff, 0xff,
    ]);
    let value = cdr::read(&l, &bytes).unwrap();
    assert_eq!(
        value,
        Value::Struct(vec![Value::U8(7), Value::F64(1.0), Value::U16(0x102), Value::I32(-1)])
    );
    let big = cdr::write(&l, &value, ByteOrder::Big).unwrap();
    assert_eq!(
        big,
        [
            0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0xff,
            0xff, 0xff, 0xff
        ]
    );
}

#[test]
fn the_middle_of_a_sample_can_be_elsewhere() {
    let body: Vec<u8> = [&100u32.to_le_bytes()[..], &[7; 100], &[1, 0, 0, 0]].concat();
    let sample = le(&body);
    for (beginning, end) in [(8, 4), (50, 60), (108, 8), (112, 0)] {
        let mut from =
            Decoder::of_ends(&sample[..beginning], &sample[112 - end..], sample.len()).unwrap();
        let len = from.length(1).unwrap();
        assert_eq!(
            (from.left(), from.pass_over(len).unwrap(), from.bool().unwrap()),
            (104, 8..108, true),
            "{beginning} {end}"
        );
        from.finish().unwrap();
        assert_eq!(from.pass_over(4).unwrap_err().fault, Fault::Truncated { needed: 4, left: 3 });
    }
    let mut from = Decoder::of_ends(&sample[..8], &sample[108..], sample.len()).unwrap();
    let len = from.length(1).unwrap();
    assert!(from.bytes(0).unwrap().is_empty());
    assert_eq!(
        from.bytes(len).unwrap_err().fault,
        Fault::Truncated { needed: 100, left: 0 },
        "none of it is at hand"
    );
    assert_eq!(
        Decoder::of_ends(&sample[..3], &sample[108..], sample.len()).unwrap_err().fault,
        Fault::NoHeader { len: 3 }
    );
}

#[test]
fn an_empty_sequence_aligns_nothing() {
    let l = one("uint64[] many\nuint32 after\n");
    let value = Value::Struct(vec![Value::U64s(vec![]), Value::U32(5)]);
    let bytes = le(&[0, 0, 0, 0, 5, 0, 0, 0]);
    assert_eq!(cdr::write(&l, &value, ByteOrder::Little).unwrap(), bytes);
    assert_eq!(cdr::read(&l, &bytes).unwrap(), value);
    let nested = layout(&[("p/In", "float64 x\n"), ("p/M", "In[] many\nuint8 after\n")]);
    let value = Value::Struct(vec![Value::List(vec![]), Value::U8(5)]);
    assert_eq!(cdr::read(&nested, &le(&[0, 0, 0, 0, 5])).unwrap(), value);
}

#[test]
fn a_wstring_is_four_bytes_a_unit_without_nul() {
    let l = one("wstring s\n");
    let bytes = le(&[2, 0, 0, 0, b'h', 0, 0, 0, 0xac, 0x20, 0, 0]);
    let value = Value::Struct(vec![Value::WString(vec![0x68, 0x20ac])]);
    assert_eq!(cdr::read(&l, &bytes).unwrap(), value);
    assert_eq!(cdr::write(&l, &value, ByteOrder::Little).unwrap(), bytes);
    assert_eq!(fault(&l, &[1, 0, 0, 0, 0, 0, 1, 0]), Fault::WideUnit(0x10000));
}

#[test]
fn an_empty_message_is_one_byte() {
    let l = one("");
    assert_eq!(
        cdr::write(&l, &Value::Struct(vec![Value::U8(0)]), ByteOrder::Little).unwrap(),
        [0, 1, 0, 0, 0]
    );
}

#[test]
fn the_empty_string_has_two_forms() {
    let l = one("string s\n");
    for body in [[0, 0, 0, 0, 0].as_slice(), &[1, 0, 0, 0, 0]] {
        let read = cdr::read(&l, &le(&body[..4 + usize::from(body[0])])).unwrap();
        assert_eq!(read, Value::Struct(vec![Value::String(vec![])]));
    }
}

#[test]
fn each_fault_has_its_own_error() {
    let string = one("string s\n");
    let l = one("uint8 a\nbool b\n");
    assert_eq!(cdr::read(&l, &[0, 1]).unwrap_err().fault, Fault::NoHeader { len: 2 });
    for id in [2, 3, 6, 7, 10, 0x100] {
        let [hi, lo] = u16::to_be_bytes(id);
        assert_eq!(
            cdr::read(&l, &[hi, lo, 0, 0, 1, 1]).unwrap_err().fault,
            Fault::Encapsulation(id)
        );
    }
    assert_eq!(fault(&l, &[1]), Fault::Truncated { needed: 1, left: 0 });
    assert_eq!(fault(&l, &[1, 2]), Fault::Bool(2));
    assert_eq!(fault(&string, &[3, 0, 0, 0, b'h', b'i', b'!', 0]), Fault::Terminator);
    assert_eq!(
        fault(&string, &[0xff, 0xff, 0xff, 0xff, 0]),
        Fault::Length { declared: u32::MAX, left: 1 }
    );
    assert_eq!(
        fault(&string, &[0, 0, 0, 3, b'h', b'i', 0]),
        Fault::ByteOrder { declared: 0x300_0000, swapped: 3 }
    );
    assert_eq!(
        fault(&one("float64[] v\n"), &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Fault::Length { declared: 3, left: 8 }
    );
    assert_eq!(
        fault(&one("int8[<=2] v\n"), &[3, 0, 0, 0, 1, 2, 3]),
        Fault::Bound { len: 3, bound: 2 }
    );
    assert_eq!(
        fault(&one("string<=1 v\n"), &[3, 0, 0, 0, b'h', b'i', 0]),
        Fault::Bound { len: 2, bound: 1 }
    );
    // One character of two bytes.
    assert!(cdr::read(&one("string<=1 v\n"), &le(&[3, 0, 0, 0, 0xc3, 0xa9, 0])).is_ok());
    assert_eq!(fault(&l, &[1, 1, 0]), Fault::Trailing(1));
    assert_eq!(fault(&l, &[1, 1, 0, 0, 0, 0, 0, 0]), Fault::Trailing(6));
    assert!(cdr::read(&l, &le(&[1, 1, 0x5a, 0x5a])).is_ok());
}

#[test]
fn an_error_names_the_member_and_the_byte() {
    let l = layout(&[("p/In", "int8 x\nbool[2] flags\n"), ("p/M", "In[] list\n")]);
    let error = cdr::read(&l, &le(&[2, 0, 0, 0, 1, 0, 1, 1, 1, 7])).unwrap_err();
    assert!(
        error.to_string().starts_with("list[1].flags[1] at byte 13: a bool with the value 7; "),
        "{error}"
    );
    let error =
        cdr::write(&l, &Value::Struct(vec![Value::List(vec![Value::U8(1)])]), ByteOrder::Little)
            .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("list[0] at byte 8: an uint8 where a message p/msg/In belongs; "),
        "{error}"
    );
}

#[test]
fn a_huge_length_costs_no_memory() {
    // Room for 2³¹ elements of 32 bytes each would be 64 GiB.
    let l = layout(&[("p/In", "string a\nstring b\n"), ("p/M", "In[] list\n")]);
    assert_eq!(
        fault(&l, &[0xff, 0xff, 0xff, 0x7f, 1, 2, 3]),
        Fault::Length { declared: 0x7fff_ffff, left: 3 }
    );
    // The sample is just long enough for this number of elements, but each element takes more
    // memory than bytes.
    let deep = layout(&[("p/A", ""), ("p/B", "A a\n"), ("p/C", "B b\n"), ("p/M", "C[] list\n")]);
    let sample = le(&[&u32::to_le_bytes(1 << 20)[..], &[0; 1 << 20]].concat());
    for (layout, sample, max_values) in
        [(&l, le(&[0xff, 0xff, 0xff, 0x7f, 1, 2, 3]), 1000), (&deep, sample, 1000)]
    {
        let used = allocation_counter::measure(|| {
            let result = cdr::read_with(layout, &sample, ReadLimits { max_values });
            assert!(result.is_err());
        });
        assert!(
            used.bytes_max <= 32 * max_values as u64 + 1000,
            "{} bytes for {}",
            used.bytes_max,
            sample.len()
        );
    }
    let array = layout(&[
        ("p/In", "string a\n"),
        ("p/Mid", "In[100000] list\n"),
        ("p/M", "Mid[4294967295] list\n"),
    ]);
    assert!(matches!(
        fault(&array, &[0; 64]),
        Fault::Truncated { needed: 1_717_986_918_000_000.., left: 64 }
    ));
    assert!(matches!(
        fault(&one("float64[4294967295] v\n"), &[0; 64]),
        Fault::Truncated { needed: 34_359_738_360, left: 64 }
    ));
    let many = layout(&[("p/In", ""), ("p/M", "In[] list\n")]);
    let body = [&u32::to_le_bytes(1000)[..], &[0; 1000]].concat();
    assert!(cdr::read(&many, &le(&body)).is_ok());
    let limited = cdr::read_with(&many, &le(&body), ReadLimits { max_values: 1000 });
    assert_eq!(limited.unwrap_err().fault, Fault::TooManyValues(1000));
}

#[test]
fn a_check_makes_nothing_and_passes_over_numbers_at_once() {
    let points = layout(&[
        ("p/Point", "float32 x\nuint8 kind\n"),
        ("p/Pair", "Point[2] of\nuint16 n\n"),
        ("p/M", "uint8 a\nPair[] pairs\nbool b\nstring s\n"),
    ]);
    let pair = |n| {
        Value::Struct(vec![
            Value::List(vec![Value::Struct(vec![Value::F32(0.5), Value::U8(n)]); 2]),
            Value::U16(7),
        ])
    };
    for (count, order) in [
        (0, ByteOrder::Little),
        (1, ByteOrder::Big),
        (2, ByteOrder::Little),
        (100_000, ByteOrder::Little),
    ] {
        let pairs = (0..count).map(|n| pair(n as u8)).collect();
        let value = Value::Struct(vec![
            Value::U8(1),
            Value::List(pairs),
            Value::Bool(true),
            Value::String(b"end".to_vec()),
        ]);
        let bytes = cdr::write(&points, &value, order).unwrap();
        let used = allocation_counter::measure(|| cdr::check(&points, &bytes).unwrap());
        assert_eq!(used.count_total, 0, "{used:?}");
        // Breaks the bool after the list. That this is noticed shows that the list ends at the
        // right place.
        let at = bytes.len() - 4 - 4 - 1;
        let mut broken = bytes.clone();
        let bool_at = (0..4).map(|gap| at - gap).find(|at| broken[*at] == 1).unwrap();
        broken[bool_at] = 7;
        assert_eq!(cdr::check(&points, &broken).unwrap_err().fault, Fault::Bool(7));
        assert_eq!(cdr::check(&points, &broken), cdr::read(&points, &broken).map(drop));
        for cut in [bytes.len() - 1, bytes.len() / 2, 8, 5, 3] {
            assert_eq!(
                cdr::check(&points, &bytes[..cut]),
                cdr::read(&points, &bytes[..cut]).map(drop),
                "{cut} of {}",
                bytes.len()
            );
            assert!(cdr::check(&points, &bytes[..cut]).is_err());
        }
    }
}

#[test]
fn a_value_of_another_type_is_not_written() {
    let l = one("int8[2] v\nstring<=2 s\n");
    let write = |v, s: &str| {
        cdr::write(&l, &Value::Struct(vec![v, Value::String(s.into())]), ByteOrder::Little)
    };
    assert!(write(Value::I8s(vec![1, 2]), "ab").is_ok());
    for (v, s, name) in [
        (Value::I8s(vec![1]), "", "mismatch"),
        (Value::U8s(vec![1, 2]), "", "mismatch"),
        (Value::I8(1), "", "mismatch"),
        (Value::List(vec![Value::I8(1), Value::I8(2)]), "", "mismatch"),
        (Value::I8s(vec![1, 2]), "abc", "bound"),
    ] {
        assert_eq!(write(v.clone(), s).unwrap_err().fault.name(), name, "{v:?}");
    }
    assert_eq!(
        cdr::write(&l, &Value::Struct(vec![]), ByteOrder::Little).unwrap_err().fault.name(),
        "mismatch"
    );
}

#[test]
fn what_is_printed_is_bounded_and_harmless() {
    let l = layout(&[
        ("p/In", "int8 x\n"),
        ("p/M", "string s\nuint8[] data\nIn[] list\nIn one\nfloat32 f\nstring[] names\n"),
    ]);
    let value = Value::Struct(vec![
        Value::String(b"\x1b[2J\"x\xff".to_vec()),
        Value::U8s(vec![1; 5]),
        Value::List(vec![Value::Struct(vec![Value::I8(1)]); 4]),
        Value::Struct(vec![Value::I8(-1)]),
        Value::F32(0.5),
        Value::List(vec![Value::String(b"yes: no".to_vec())]),
    ]);
    let text = Text::new(&l, &value).max_elements(3).to_string();
    let expected = "s: \"\\u{1b}[2\"… (7 in all)\ndata: [1, 1, 1, … (5 in all)]\nlist:\n-\n  x: \
         1\n-\n  x: 1\n-\n  x: 1\n… (4 in all)\none:\n  x: -1\nf: 0.5\nnames:\n- \"yes\"… (7 in \
         all)\n";
    assert_eq!(text, expected);
}
