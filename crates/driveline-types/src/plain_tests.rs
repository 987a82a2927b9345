// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::plain_type;
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
    matrix: [[f64; 3]; 2],
    flags: [u8; 8],
}

#[plain_type(name = "test/Bytes", tail(data: u8))]
#[derive(Debug, PartialEq, Default)]
struct Bytes {
    count: u32,
}

const SCAN_TEXT: &str = "driveline plain 1
type test/Scan size 80 align 8
field time_ns u64 offset 0
field corners[0].x f32 offset 8
field corners[0].y f32 offset 12
field corners[1].x f32 offset 16
field corners[1].y f32 offset 20
field matrix f64[6] offset 24
field flags u8[8] offset 72
tail points test/Point size 8 align 4
element x f32 offset 0
element y f32 offset 4
";

#[test]
fn the_canonical_text_is_as_documented() {
    assert_eq!(Scan::layout().to_string(), SCAN_TEXT);
    assert_eq!(Scan::layout().fields.len(), <Scan as Plain>::FIELD_COUNT);
    assert_eq!(SCAN_TEXT.parse::<PlainLayout>().unwrap(), Scan::layout());
    assert_eq!(
        Bytes::layout().to_string(),
        "driveline plain 1\ntype test/Bytes size 4 align 4\nfield count u32 offset 0\ntail data \
         u8\n"
    );
}

#[test]
fn a_type_with_more_fields_than_any_is_refused_at_the_field() {
    let text = |fields: usize| {
        let lines: String = (0..fields).map(|i| format!("field f{i} u8 offset {i}\n")).collect();
        format!("driveline plain 1\ntype a size {fields} align 1\n{lines}")
    };
    assert!(text(MAX_FIELDS).parse::<PlainLayout>().is_ok());
    let e = text(MAX_FIELDS + 1).parse::<PlainLayout>().unwrap_err().to_string();
    assert!(e.contains("more than 256 fields") && e.contains("259"), "{e}");
}

#[test]
fn texts_that_are_not_canonical_are_refused_at_the_line() {
    let cases = [
        ("driveline plain 1", "driveline plain 2", 1),
        ("size 80", "size 80 ", 2),
        ("size 80 align 8", "size 80 align 3", 2),
        ("size 80 align 8", "size 88 align 8", 10),
        ("corners[0].x f32", "corners[0].x f31", 4),
        ("corners[0].x f32", "corners[0]\u{e4} f32", 4),
        ("f32 offset 12", "f32 offset 13", 5),
        ("f32 offset 12", "f32 offset 012", 5),
        ("f64[6]", "f64[06]", 8),
        ("f64[6]", "f64[1]", 8),
        ("f64[6]", "f64[99999999]", 8),
        ("tail points", "tale points", 10),
        ("test/Point size 8", "test/Point size 4", 12),
        ("element y f32 offset 4\n", "element y f32 offset 4", 12),
        ("element y f32 offset 4\n", "", 12),
        ("offset 4\n", "offset 4\nelement z f32 offset 8\n", 13),
    ];
    for (good, bad, line) in cases {
        let text = SCAN_TEXT.replacen(good, bad, 1);
        assert_ne!(text, SCAN_TEXT);
        let e = text.parse::<PlainLayout>().expect_err(bad);
        assert_eq!(e.line, line, "{bad}: {e}");
    }
    assert_eq!("".parse::<PlainLayout>().unwrap_err().line, 1);
}

#[test]
fn the_first_difference_is_named_in_words() {
    let scan = Scan::layout();
    let differs = |change: fn(&mut PlainLayout)| {
        let mut other = Scan::layout();
        change(&mut other);
        scan.first_difference(&other).expect("a difference")
    };
    assert_eq!(scan.first_difference(&scan), None);
    assert_eq!(
        differs(|o| (o.fields[2].primitive, o.fields[2].offset) = (Primitive::U64, 16)),
        "field 3 'corners[0].y' is f32 at offset 12 in the publisher's type, u64 at offset 16 in \
         the subscription's"
    );
    assert_eq!(
        differs(|o| o.fields[6].name = "flag".into()),
        "field 7 is 'flags' (u8[8] at offset 72) in the publisher's type, 'flag' (u8[8] at offset \
         72) in the subscription's"
    );
    assert_eq!(
        differs(|o| drop(o.fields.pop())),
        "field 7 'flags' (u8[8] at offset 72) of the publisher's type is missing in the \
         subscription's"
    );
    assert!(
        differs(|o| o.fields.push(o.fields[0].clone()))
            .contains("of the subscription's type is missing in the publisher's")
    );
    assert_eq!(
        differs(|o| o.size = 96),
        "the size of the struct is 80 bytes in the publisher's type, 96 in the subscription's"
    );
    assert!(differs(|o| o.align = 16).starts_with("the alignment of the struct is 8 bytes"));
    assert!(
        differs(|o| o.tail = None)
            .contains("trailing array 'points' (test/Point) of the publisher's type is missing")
    );
    assert!(differs(|o| o.name = "test/Scan2".into()).contains("called 'test/Scan'"));
    assert_eq!(
        differs(|o| o.tail =
            Some(Tail { name: "points".into(), element: Element::Primitive(Primitive::U8) })),
        "the elements of the trailing array 'points' are test/Point in the publisher's type, u8 in \
         the subscription's"
    );
    assert_eq!(
        differs(|o| {
            let Some(Tail { element: Element::Struct { fields, .. }, .. }) = &mut o.tail else {
                panic!()
            };
            fields[1].name = "z".into();
        }),
        "in the elements of the trailing array 'points', field 2 is 'y' (f32 at offset 4) in the \
         publisher's type, \
         'z' (f32 at offset 4) in the subscription's"
    );
}

#[test]
fn a_mismatch_names_topic_types_and_field() {
    let mut other = Scan::layout();
    other.fields[0].name = "stamp_ns".into();
    let e = Schema::check("lidar/scan", &Scan::schema(), &Schema::plain(&other))
        .unwrap_err()
        .to_string();
    for part in ["'lidar/scan'", "'test/Scan'", "field 1 is 'time_ns'", "'stamp_ns'"] {
        assert!(e.contains(part), "{part}: {e}");
    }
    assert_ne!(Scan::schema().hash(), Schema::plain(&other).hash());
}

#[repr(C, align(64))]
struct Aligned([u8; 256]);

#[test]
fn what_is_written_in_place_is_read_in_place() {
    let mut memory = Aligned([0xaa; 256]);
    let points = [Point { x: 1.0, y: 2.0 }, Point { x: 3.0, y: 4.0 }];
    let len = payload_len::<Scan>(2).unwrap();
    assert_eq!(len, 128 + 16);
    let head = Scan { time_ns: 7, ..Scan::default() };
    let mut scan = PlainMut::<Scan>::write(&mut memory.0[..len], &head, &points).unwrap();
    scan.time_ns = 8;
    scan.tail_mut()[1].x = 9.0;
    assert!(memory.0[80..128].iter().all(|&b| b == 0), "the gap carries nothing from before");
    let scan = PlainRef::<Scan>::new(&memory.0[..len]).unwrap();
    assert_eq!((scan.time_ns, scan.tail()), (8, [points[0], Point { x: 9.0, y: 4.0 }].as_slice()));
    assert_eq!(scan.tail().as_ptr().addr(), memory.0[128..].as_ptr().addr());
}

#[test]
fn payloads_that_do_not_fit_are_refused_by_reason() {
    let memory = Aligned([0; 256]);
    let bytes = &memory.0;
    let error = |e: Result<PlainRef<'_, Scan>, PayloadError>| e.unwrap_err();
    assert_eq!(
        error(PlainRef::new(&bytes[..127])),
        PayloadError::Short { type_name: "test/Scan", len: 127, min: 128 }
    );
    assert_eq!(
        error(PlainRef::new(&bytes[..130])),
        PayloadError::Ragged { type_name: "test/Scan", tail_len: 2, element: 8 }
    );
    assert_eq!(
        error(PlainRef::new(&bytes[4..4 + 128])),
        PayloadError::Misaligned { type_name: "test/Scan", align: 8 }
    );
    assert!(PlainRef::<Scan>::new(&bytes[..128]).unwrap().tail().is_empty());
    assert!(PlainRef::<Point>::new(&bytes[..8]).unwrap().tail().is_empty());
    assert!(matches!(PlainRef::<Point>::new(&bytes[..9]), Err(PayloadError::Long { size: 8, .. })));
    assert!(matches!(PlainRef::<Point>::new(&[]), Err(PayloadError::Short { min: 8, .. })));
    assert_eq!(payload_len::<Point>(0), Ok(8));
    assert!(matches!(payload_len::<Point>(1), Err(PayloadError::TooLong { .. })));
    assert!(matches!(payload_len::<Scan>(usize::MAX / 4), Err(PayloadError::TooLong { .. })));
    let mut memory = memory;
    assert!(matches!(
        PlainMut::<Bytes>::write(&mut memory.0[..66], &Bytes::default(), &[1]),
        Err(PayloadError::Long { size: 65, .. })
    ));
    assert!(matches!(
        PlainMut::<Bytes>::write(&mut memory.0[..64], &Bytes::default(), &[1]),
        Err(PayloadError::Short { min: 65, .. })
    ));
}

fn any_fields() -> impl Strategy<Value = (Vec<Field>, usize)> {
    let field = ("[a-z][a-z0-9_.\\[\\]]{0,8}", 0..Primitive::ALL.len(), 1usize..40);
    proptest::collection::vec(field, 1..12).prop_map(|list| {
        let mut offset = 0;
        let fields = list.into_iter().map(|(name, primitive, count)| {
            let field =
                Field { name: name.into(), primitive: Primitive::ALL[primitive], count, offset };
            offset += field.size();
            field
        });
        let fields: Vec<_> = fields.collect();
        (fields, offset)
    })
}

fn any_layout() -> impl Strategy<Value = PlainLayout> {
    let element = prop_oneof![
        (0..Primitive::ALL.len()).prop_map(|p| Element::Primitive(Primitive::ALL[p])),
        ("[a-z]{1,4}/[A-Z]{1,4}", any_fields()).prop_map(|(name, (fields, size))| {
            Element::Struct { name: name.into(), size, align: 1, fields }
        }),
    ];
    let tail = proptest::option::of(
        ("[a-z_]{1,8}", element).prop_map(|(name, element)| Tail { name: name.into(), element }),
    );
    ("[a-z]{1,4}/[A-Z]{1,4}", any_fields(), tail).prop_map(|(name, (fields, size), tail)| {
        PlainLayout { name: name.into(), size, align: 1, fields, tail }
    })
}

proptest! {
    #[test]
    fn layouts_round_trip(layout in any_layout()) {
        prop_assert_eq!(layout.to_string().parse::<PlainLayout>(), Ok(layout));
    }

    #[test]
    fn different_layouts_have_a_difference_and_different_texts(
        a in any_layout(),
        b in any_layout(),
    ) {
        prop_assert_eq!(a == b, a.first_difference(&b).is_none());
        prop_assert_eq!(a == b, a.to_string() == b.to_string());
    }

    #[test]
    fn a_text_is_canonical_or_refused(
        layout in any_layout(),
        at in any::<prop::sample::Index>(),
        with in any::<char>(),
        cut: bool,
    ) {
        let mut text = layout.to_string();
        let at = at.index(text.len());
        text.replace_range(at..=at, if cut { String::new() } else { with.to_string() }.as_str());
        if let Ok(parsed) = text.parse::<PlainLayout>() {
            prop_assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn any_text_is_a_layout_or_an_error(text in "(driveline plain 1\n)?(type a/B size [0-9]{1,3} \
         align [0-9]\n)?([a-z0-9 \\[\\]\n]|\\PC){0,200}") {
        if let Ok(parsed) = text.parse::<PlainLayout>() {
            prop_assert_eq!(parsed.to_string(), text);
        }
    }

    #[test]
    fn any_bytes_are_a_payload_or_an_error(len in 0usize..256, start in 0usize..128, fill: u8) {
        let memory = Aligned([fill; 256]);
        let bytes = memory.0.get(start..start + len).unwrap_or_default();
        if let Ok(scan) = PlainRef::<Scan>::new(bytes) {
            prop_assert_eq!(128 + scan.tail().len() * 8, bytes.len());
        }
        if let Ok(blob) = PlainRef::<Bytes>::new(bytes) {
            prop_assert_eq!(64 + blob.tail().len(), bytes.len());
        }
    }
}
