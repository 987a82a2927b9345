// SPDX-License-Identifier: Apache-2.0
//! Control frames: any packet decodes to a message with numbers in range, or to an error.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| driveline_shm::fuzzing::control_frame(packet));
