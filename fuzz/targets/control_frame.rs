// SPDX-License-Identifier: Apache-2.0
//! Any packet on a control socket is a message with numbers in range, or an error.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| driveline_shm::fuzzing::control_frame(packet));
