// SPDX-License-Identifier: Apache-2.0
//! Sample headers: any words decode to a header or to an error. A decoded header that is encoded
//! again decodes to itself.
#![no_main]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic is a finding")]

use driveline_types::header::{HEADER_WORDS, SampleHeader};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut words = [0; HEADER_WORDS];
    for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = u64::from_le_bytes(chunk.try_into().expect("8 bytes"));
    }
    if let Ok(header) = SampleHeader::decode(&words) {
        assert!(header.origins.as_slice().len() <= driveline_types::MAX_ORIGINS);
        assert_eq!(SampleHeader::decode(&header.encode()).as_ref(), Ok(&header));
    }
});
