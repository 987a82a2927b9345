// SPDX-License-Identifier: Apache-2.0
//! Liveliness tokens and attachments of rmw_zenoh: any input decodes or gives an error. A decoded
//! input is encoded so that it reads the same. The first byte chooses token or attachment.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_gateway_ros2::rmw_zenoh::{Attachment, Token, TokenQos};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    if choice & 1 == 0 {
        match Attachment::decode(bytes) {
            Ok(read) => assert_eq!(read.encode(), bytes),
            Err(e) => assert!(!e.to_string().is_empty()),
        }
        return;
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(qos) = TokenQos::parse(text) {
        assert_eq!(TokenQos::parse(&qos.to_string()), Some(qos));
    }
    match text.parse::<Token>() {
        Ok(token) => assert_eq!(token.to_string().parse(), Ok(token)),
        Err(e) => assert!(!e.to_string().is_empty()),
    }
});
