// SPDX-License-Identifier: Apache-2.0
//! Printed samples. The input is the definition of a plain type or a protobuf message, a NUL, and
//! any payload. The output is bounded and has no control characters.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_types::PlainLayout;
use driveline_types::print::{Limits, Printer, ProtobufDefinition, Style};
use libfuzzer_sys::fuzz_target;
use std::fmt;

fn printed(print: impl Fn(&mut Printer<'_>) -> fmt::Result) {
    for style in [Style::Text, Style::Json] {
        let mut out = String::new();
        print(&mut Printer::new(&mut out, style, Limits { each: 5, all: 30 }))
            .expect("a String takes everything");
        assert!(!out.chars().any(|c| c.is_control() && c != '\n'), "{out:?}");
        // 30 elements of 256 fields, each with its name.
        assert!(out.len() < 8 << 20, "{} bytes", out.len());
    }
}

fuzz_target!(|bytes: &[u8]| {
    let at = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let (text, payload) = bytes.split_at(at);
    let payload = payload.get(1..).unwrap_or_default();
    let Ok(text) = std::str::from_utf8(text) else { return };
    if let Ok(layout) = text.parse::<PlainLayout>() {
        let _ = layout.check(payload);
        printed(|p| layout.print(payload, p));
    }
    if let Ok(definition) = text.parse::<ProtobufDefinition>() {
        let _ = definition.check(payload);
        printed(|p| definition.print(payload, p));
    }
});
