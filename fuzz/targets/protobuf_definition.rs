// SPDX-License-Identifier: Apache-2.0
//! Definitions of protobuf messages: each message of any set of descriptors has a canonical text or
//! an error, and always the same one.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use libfuzzer_sys::fuzz_target;
use prost::Message as _;
use prost_types::FileDescriptorSet;

fuzz_target!(|bytes: &[u8]| {
    let Ok(set) = FileDescriptorSet::decode(bytes) else { return };
    for file in &set.file {
        for message in &file.message_type {
            let package = file.package();
            let name = if package.is_empty() {
                message.name().to_owned()
            } else {
                format!("{package}.{}", message.name())
            };
            let text = driveline_build::definition(&set, &name);
            if let Ok(text) = &text {
                assert!(text.starts_with("driveline protobuf 1\n"));
            }
            assert_eq!(text.ok(), driveline_build::definition(&set, &name).ok());
        }
    }
});
