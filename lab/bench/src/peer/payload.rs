// SPDX-License-Identifier: Apache-2.0
//! Payloads that show whether they arrived undamaged.
//!
//! A filled payload begins with four words: magic number, sequence number, length, and the XXH3-64
//! of everything after them, seeded with the sequence number. The rest is random bytes, which
//! repeat only after 61 samples, so that a mixture of two samples is detected. The checksum is
//! computed before the clock starts. Filling then corresponds to an application that has its data
//! elsewhere: one copy.

use crate::stats::Random;
use anyhow::{Result, bail};
use twox_hash::XxHash3_64;

/// Minimum size of a payload that can be filled.
pub const MIN_FILLED: usize = HEAD;
const HEAD: usize = 32;
/// Length of the head of every payload: magic and sequence number.
const MARK: usize = 16;
const MAGIC: u64 = u64::from_le_bytes(*b"drvbench");
/// Distance between the stretches of random bytes, and their number.
const STEP: usize = 64;
const STRETCHES: u64 = 61;

/// Generator of the sender's data.
pub(crate) struct Source {
    bytes: Vec<u8>,
    body_len: usize,
    head: [u8; HEAD],
    start: usize,
}

impl Source {
    pub(crate) fn new(size: usize) -> Result<Self> {
        let Some(body_len) = size.checked_sub(HEAD) else {
            bail!(
                "a filled payload needs at least {MIN_FILLED} bytes, for its sequence number and \
                 checksum; this has {size}: take a larger --size, or --payload untouched"
            );
        };
        let mut random = Random::new(0x6472_6976_656c_696e);
        let len = (body_len + STEP * STRETCHES as usize).next_multiple_of(8);
        let bytes = (0..len / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        Ok(Self { bytes, body_len, head: [0; HEAD], start: 0 })
    }

    /// Chooses the bytes of a sample and computes their checksum. Called before the clock starts.
    pub(crate) fn prepare(&mut self, sequence: u64) {
        self.start = (sequence % STRETCHES) as usize * STEP;
        let sum = XxHash3_64::oneshot_with_seed(sequence, self.body());
        for (place, word) in
            self.head.chunks_exact_mut(8).zip([MAGIC, sequence, (HEAD + self.body_len) as u64, sum])
        {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Writes the prepared sample.
    pub(crate) fn fill(&self, payload: &mut [u8]) {
        if let Some((head, body)) = payload.split_at_mut_checked(HEAD)
            && body.len() == self.body_len
        {
            head.copy_from_slice(&self.head);
            body.copy_from_slice(self.body());
        }
    }

    fn body(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.body_len]
    }
}

/// Writes the head of an unfilled payload as every program of the harness does, so that all systems
/// touch the same bytes. Does nothing without a payload.
#[inline]
pub(crate) fn mark(payload: &mut [u8], number: u64) {
    if let Some(head) = payload.first_chunk_mut::<MARK>() {
        let (magic, place) = head.split_at_mut(8);
        magic.copy_from_slice(&MAGIC.to_le_bytes());
        place.copy_from_slice(&number.to_le_bytes());
    }
}

/// Returns true if a payload, filled or not, begins with the head of this number, or is too short
/// for a head.
#[inline]
pub(crate) fn is_marked(payload: &[u8], number: u64) -> bool {
    payload.first_chunk::<MARK>().is_none_or(|head| {
        let (magic, place) = head.split_at(8);
        magic == MAGIC.to_le_bytes() && place == number.to_le_bytes()
    })
}

/// Returns the number in the head of a payload, filled or not.
pub(crate) fn number(payload: &[u8]) -> Option<u64> {
    payload
        .first_chunk::<MARK>()
        .and_then(|head| head.last_chunk())
        .map(|word| u64::from_le_bytes(*word))
}

/// Checks a whole payload and returns its defect as an error.
pub(crate) fn verify(payload: &[u8], sequence: u64) -> Result<(), String> {
    let Some((head, body)) = payload.split_at_checked(HEAD) else {
        return Err(format!("sample {sequence}: {} bytes are too few", payload.len()));
    };
    let word = |i: usize| head[i * 8..].first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
    if word(0) != MAGIC {
        return Err(format!("sample {sequence}: the payload does not begin as one"));
    }
    if word(1) != sequence {
        return Err(format!("sample {sequence}: the payload is that of sample {}", word(1)));
    }
    if word(2) != payload.len() as u64 {
        return Err(format!("sample {sequence}: {} bytes came of {}", payload.len(), word(2)));
    }
    if word(3) != XxHash3_64::oneshot_with_seed(sequence, body) {
        return Err(format!(
            "sample {sequence}: the checksum does not fit, so the payload is torn or damaged"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_filled_passes_and_what_was_tampered_with_does_not() {
        for size in [32, 33, 64, 1000, 65_536] {
            let mut source = Source::new(size).unwrap();
            let mut payload = vec![0; size];
            for sequence in [1, 2, 70] {
                source.prepare(sequence);
                source.fill(&mut payload);
                assert_eq!(verify(&payload, sequence), Ok(()));
                assert!(verify(&payload, sequence + 1).unwrap_err().contains("that of sample"));
                for at in [0, 8, 16, 24, size - 1] {
                    payload[at] ^= 1;
                    assert!(verify(&payload, sequence).is_err(), "byte {at} of {size}");
                    payload[at] ^= 1;
                }
            }
        }
    }

    #[test]
    fn a_mixture_of_two_samples_does_not_pass() {
        let size = 4096;
        let mut source = Source::new(size).unwrap();
        let (mut a, mut b) = (vec![0; size], vec![0; size]);
        source.prepare(5);
        source.fill(&mut a);
        source.prepare(6);
        source.fill(&mut b);
        for cut in [HEAD, 64, 2048, size - 64] {
            let mixed: Vec<u8> = a[..cut].iter().chain(&b[cut..]).copied().collect();
            assert!(verify(&mixed, 5).is_err() && verify(&mixed, 6).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_size_without_room_for_the_checksum_is_explained() {
        let text = Source::new(31).err().unwrap().to_string();
        assert!(
            text.contains("at least 32 bytes") && text.contains("--payload untouched"),
            "{text}"
        );
        assert!(verify(&[0; 31], 1).unwrap_err().contains("too few"));
    }
}
