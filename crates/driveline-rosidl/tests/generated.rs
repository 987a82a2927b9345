// SPDX-License-Identifier: Apache-2.0
//! Properties of every definition and every sample.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod support;

use driveline_rosidl::cdr::{self, ByteOrder, ReadLimits};
use driveline_rosidl::{Catalog, Detail, Text, TypeName};
use driveline_types::print::{Limits, Printer, Style};
use proptest::prelude::*;
use support::{Random, invented, sample};

/// Defaults of lists have a notation of their own in IDL, which is neither read nor written.
fn without_lists(msg: &str) -> String {
    let field = |line: &str| match line.match_indices(' ').nth(1) {
        Some((at, _)) if line[at..].starts_with(" [") => format!("{}\n", &line[..at]),
        _ => format!("{line}\n"),
    };
    msg.lines().map(field).collect()
}

proptest! {
    #[test]
    fn samples_come_back_in_both_byte_orders(invented in invented(), seed in any::<u64>()) {
        let layout = invented.catalog().layout(&invented.last().parse().unwrap()).unwrap();
        let value = sample(&layout, &mut Random(seed));
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let bytes = cdr::write(&layout, &value, order).unwrap();
            prop_assert_eq!(&cdr::read(&layout, &bytes).unwrap(), &value);
            // Up to three bytes that fill up a multiple of four are padding.
            let mut padded = bytes.clone();
            padded.resize(bytes.len().next_multiple_of(4), 0xa5);
            prop_assert_eq!(&cdr::read(&layout, &padded).unwrap(), &value);
            prop_assert_eq!(
                (cdr::check(&layout, &bytes), cdr::check(&layout, &padded)),
                (Ok(()), Ok(()))
            );
            padded.extend([0; 4]);
            prop_assert_eq!(cdr::read(&layout, &padded).unwrap_err().fault.name(), "trailing");
        }
        prop_assert!(!Text::new(&layout, &value).to_string().is_empty());
    }

    #[test]
    fn a_sample_that_is_cut_off_is_an_error(
        invented in invented(),
        seed in any::<u64>(),
        at in any::<prop::sample::Index>(),
    ) {
        let layout = invented.catalog().layout(&invented.last().parse().unwrap()).unwrap();
        let bytes =
            cdr::write(&layout, &sample(&layout, &mut Random(seed)), ByteOrder::Little).unwrap();
        let cut = &bytes[..at.index(bytes.len())];
        let error = cdr::read(&layout, cut).unwrap_err();
        prop_assert_eq!(cdr::check(&layout, cut), Err(error.clone()));
        prop_assert!(
            ["no_header", "truncated", "length", "byte_order"].contains(&error.fault.name()),
            "{error}"
        );
    }

    #[test]
    fn the_texts_for_recordings_mean_the_same(invented in invented()) {
        let name: TypeName = invented.last().parse().unwrap();
        let catalog = invented.catalog();
        let hash = catalog.type_hash(&name).unwrap();
        for detail in [Detail::Wire, Detail::Full] {
            let msg = catalog.ros2msg(&name, detail).unwrap().unwrap();
            let idl = catalog.ros2idl(&name, detail).unwrap();
            for text in [&msg, &idl] {
                let again = Catalog::from_text(&name, text).unwrap();
                prop_assert_eq!(again.type_hash(&name).unwrap(), hash, "{}", text);
                let expected = if text == &msg { msg.clone() } else { without_lists(&msg) };
                prop_assert_eq!(again.ros2msg(&name, detail).unwrap().unwrap(), expected);
                prop_assert_eq!(&again.ros2idl(&name, detail).unwrap(), &idl);
            }
        }
        let (named, again) = Catalog::from_schema(&catalog.schema(&name).unwrap()).unwrap();
        prop_assert_eq!(named, name.clone());
        prop_assert_eq!(again.type_hash(&name).unwrap(), hash);
    }

    #[test]
    fn any_bytes_are_a_sample_or_an_error(
        invented in invented(),
        header in prop::sample::select(vec![[0, 0, 0, 0], [0, 1, 0, 0], [0, 7, 0, 0]]),
        body in proptest::collection::vec(prop_oneof![3 => 0..4_u8, 1 => any::<u8>()], 0..400),
    ) {
        let layout = invented.catalog().layout(&invented.last().parse().unwrap()).unwrap();
        let bytes: Vec<u8> = header.into_iter().chain(body).collect();
        prop_assert_eq!(cdr::check(&layout, &bytes), cdr::read(&layout, &bytes).map(drop));
        if let Ok(value) = cdr::read(&layout, &bytes) {
            let order = if header[1] == 1 { ByteOrder::Little } else { ByteOrder::Big };
            // Gaps, padding and empty strings have several valid forms in CDR, so the written bytes
            // may differ from `bytes`. Writing the value a second time must give the same bytes.
            // Values are not compared, because not-a-number does not equal itself.
            let written = cdr::write(&layout, &value, order).unwrap();
            let again = cdr::read(&layout, &written).unwrap();
            prop_assert_eq!(cdr::write(&layout, &again, order).unwrap(), written);
            let _ = Text::new(&layout, &value).to_string();
            for (style, limits) in [
                (Style::Text, Limits { each: 3, all: 20 }),
                (Style::Json, Limits { each: 3, all: 20 }),
                (Style::Json, Limits::NONE),
            ] {
                let mut out = String::new();
                Text::new(&layout, &value)
                    .print(&mut Printer::new(&mut out, style, limits))
                    .unwrap();
                prop_assert!(
                    limits == Limits::NONE
                        || out.len() < 100_000 && !out.chars().any(|c| c.is_control() && c != '\n'),
                    "{}",
                    out
                );
                prop_assert!(
                    style == Style::Text || serde_json::from_str::<serde_json::Value>(&out).is_ok(),
                    "{}",
                    out
                );
            }
        }
        let few = cdr::read_with(&layout, &bytes, ReadLimits { max_values: 0 });
        prop_assert!(few.is_err());
    }

    #[test]
    fn any_text_is_a_definition_or_an_error(
        text in "(([a-z]{1,3}|u?int8|string|M|#|@|=|<=|[\\[\\]{}<>;:,\"'/0-9]| |\n|=){0,40})",
    ) {
        let name: TypeName = "p/msg/M".parse().unwrap();
        if let Err(e) = driveline_rosidl::parse_msg(&name, "M.msg", &text) {
            prop_assert!(e.to_string().starts_with("M.msg") && !e.remedy.is_empty());
        }
        let _ = driveline_rosidl::parse_srv(&"p/srv/M".parse().unwrap(), "M.srv", &text);
        let _ = driveline_rosidl::parse_idl(
            "M.idl",
            &format!(
                "module p {{ module msg {{ struct M \
             {{ {text} }}; }}; }};"
            ),
        );
        let _ = driveline_rosidl::parse_idl("M.idl", &text);
        let _ = Catalog::from_text(&name, &text);
    }
}
