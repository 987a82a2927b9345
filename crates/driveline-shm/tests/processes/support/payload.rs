// SPDX-License-Identifier: Apache-2.0
//! Payloads that a reader can verify: the writer puts a checksum in before it publishes.
//!
//! `number:u64 | publisher:u64 | length:u64 | xxh3 of the body, seeded with number and
//! publisher:u64 | body`.

use driveline_types::EndpointId;
use std::sync::OnceLock;
use twox_hash::XxHash3_64;

pub(crate) const LEAST: usize = 32;
const NOISE: usize = 64 * 1024;

/// Random bytes. Each sample begins at another place in them, so no two samples have equal bytes at
/// the same offset for long.
fn noise() -> &'static [u8] {
    static BYTES: OnceLock<Vec<u8>> = OnceLock::new();
    BYTES.get_or_init(|| {
        let mut random = super::Random::new(1);
        (0..NOISE / 8).flat_map(|_| random.next().to_le_bytes()).collect()
    })
}

fn mark(id: EndpointId) -> u64 {
    id.0 as u64
}

fn sum(number: u64, publisher: u64, body: &[u8]) -> u64 {
    XxHash3_64::oneshot_with_seed(number.rotate_left(32) ^ publisher, body)
}

/// Fills a payload of at least [`LEAST`] bytes.
pub(crate) fn fill(payload: &mut [u8], number: u64, publisher: EndpointId) {
    let len = payload.len() as u64;
    let (head, body) = payload.split_at_mut(LEAST);
    let mut at = (number as usize).wrapping_mul(4099) % NOISE;
    let mut rest = &mut *body;
    while !rest.is_empty() {
        let n = rest.len().min(NOISE - at);
        let (part, more) = rest.split_at_mut(n);
        part.copy_from_slice(&noise()[at..at + n]);
        (rest, at) = (more, 0);
    }
    let words = [number, mark(publisher), len, sum(number, mark(publisher), body)];
    for (place, word) in head.chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

/// Returns the mistake in a payload, if there is one.
pub(crate) fn examine(payload: &[u8], number: u64, publisher: EndpointId) -> Result<(), String> {
    let Some((head, body)) = payload.split_at_checked(LEAST) else {
        return Err(format!("{} bytes only", payload.len()));
    };
    let mut words = [0u64; 4];
    for (word, place) in words.iter_mut().zip(head.chunks_exact(8)) {
        *word = u64::from_le_bytes(place.try_into().unwrap());
    }
    let expected =
        [number, mark(publisher), payload.len() as u64, sum(number, mark(publisher), body)];
    if words == expected {
        Ok(())
    } else {
        Err(format!("sample {number} is torn: head {words:x?}, expected {expected:x?}"))
    }
}

#[test]
fn a_single_wrong_byte_is_noticed_anywhere() {
    let id = EndpointId(77);
    let mut whole = vec![0; 3000];
    fill(&mut whole, 5, id);
    assert_eq!(examine(&whole, 5, id), Ok(()));
    assert!(
        examine(&whole, 6, id).is_err()
            && examine(&whole, 5, EndpointId(78)).is_err()
            && examine(&whole[..2999], 5, id).is_err()
    );
    let mut other = vec![0; 3000];
    fill(&mut other, 6, id);
    for at in (0..3000).step_by(7) {
        let mut torn = whole.clone();
        torn[at] ^= 1;
        assert!(examine(&torn, 5, id).is_err(), "byte {at}");
        torn[..at].copy_from_slice(&other[..at]);
        assert!(examine(&torn, 5, id).is_err() && examine(&torn, 6, id).is_err(), "cut at {at}");
    }
}
