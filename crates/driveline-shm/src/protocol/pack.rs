// SPDX-License-Identifier: Apache-2.0
//! `sequence:48 | slot:16` in one word, so that both are always read together.

/// Packs both into a word; `sequence` must be below 2^48.
#[inline]
#[must_use]
pub fn pack(sequence: u64, slot: u16) -> u64 {
    sequence << 16 | u64::from(slot)
}

/// Returns sequence and slot of a packed word. Any word is valid; 0 gives sequence 0, which no
/// sample has.
#[inline]
#[must_use]
pub fn unpack(word: u64) -> (u64, usize) {
    (word >> 16, (word & 0xffff) as usize)
}
