// SPDX-License-Identifier: Apache-2.0
//! Samples of ROS 2 types: any bytes decode or give an error. A decoded sample can be printed, and
//! encoded so that it reads the same. The first byte chooses the type.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_rosidl::cdr::{self, ByteOrder};
use driveline_rosidl::{Catalog, Layout, Text, parse_msg};
use driveline_types::print::{Limits, Printer, Style};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

const TYPES: [(&str, &str); 6] = [
    (
        "p/Scalars",
        "bool a\nbyte b\nint16 c\nuint32 d\nint64 e\nfloat32 f\nfloat64 g\nstring h\nwstring \
         i\nstring<=3 j\nwstring<=3 k\n",
    ),
    (
        "p/Arrays",
        "bool[3] a\nint8[] b\nuint16[<=4] c\nfloat64[2] d\nstring[2] e\nwstring[] f\nuint64[] g\n",
    ),
    ("p/Empty", ""),
    ("p/Nested", "Scalars[] a\nArrays b\nEmpty[] c\nEmpty[5] d\n"),
    ("p/Wide", "Nested[<=3] a\nScalars[2] b\n"),
    ("p/Huge", "Scalars[4294967295] a\n"),
];

static LAYOUTS: LazyLock<Vec<Layout>> = LazyLock::new(|| {
    let mut catalog = Catalog::new();
    let names = TYPES.map(|(name, text)| {
        let name = name.parse().expect("a name");
        catalog
            .add_message(parse_msg(&name, "fuzz", text).expect("a definition"))
            .expect("one of each");
        name
    });
    names.iter().map(|n| catalog.layout(n).expect("all are there")).collect()
});

fuzz_target!(|input: &[u8]| {
    let Some((choice, sample)) = input.split_first() else { return };
    let layout = &LAYOUTS[usize::from(*choice) % LAYOUTS.len()];
    let read = cdr::read(layout, sample);
    // `check` and `read` agree: inputs of the fuzzer are too short to exceed the limit of values.
    assert_eq!(cdr::check(layout, sample).as_ref().err(), read.as_ref().err());
    match read {
        Ok(value) => {
            let _ = Text::new(layout, &value).to_string();
            for style in [Style::Text, Style::Json] {
                let mut out = String::new();
                let limits = Limits { each: 5, all: 100 };
                Text::new(layout, &value)
                    .print(&mut Printer::new(&mut out, style, limits))
                    .expect("a String takes everything");
                // At most 100 elements of 12 fields, each with its name.
                assert!(
                    out.len() < 1 << 20 && !out.chars().any(|c| c.is_control() && c != '\n'),
                    "{out:?}"
                );
            }
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let bytes =
                    cdr::write(layout, &value, order).expect("it was read with this layout");
                // Bytes are compared, since NaN does not equal itself.
                let again = cdr::read(layout, &bytes).expect("it was written with this layout");
                assert_eq!(cdr::write(layout, &again, order).ok(), Some(bytes));
            }
        }
        Err(e) => assert!(e.offset <= sample.len() && !e.to_string().is_empty()),
    }
});
