// SPDX-License-Identifier: Apache-2.0
//! Payloads in which every byte can be verified.

const MAGIC: u64 = 0x6674_6c75_6166_7664;
const HEAD: usize = 4;

/// Contents of a whole payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) epoch: u64,
    pub(super) number: u64,
}

fn word(stamp: Stamp, i: usize) -> u64 {
    (stamp.epoch << 48 ^ stamp.number << 20 ^ i as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Fills a payload.
pub(super) fn fill(payload: &mut [u8], stamp: Stamp) {
    let (words, tail) = payload.as_chunks_mut::<8>();
    let head = [MAGIC, stamp.epoch, stamp.number, !stamp.number];
    for (i, w) in words.iter_mut().enumerate() {
        *w = head.get(i).copied().unwrap_or_else(|| word(stamp, i)).to_le_bytes();
    }
    tail.fill(stamp.number as u8);
}

/// Returns the stamp of a payload if all of it comes from one filling.
pub(super) fn verify(payload: &[u8]) -> Option<Stamp> {
    let (words, tail) = payload.as_chunks::<8>();
    let at = |i: usize| words.get(i).map(|w| u64::from_le_bytes(*w));
    let stamp = Stamp { epoch: at(1)?, number: at(2)? };
    let whole = at(0)? == MAGIC
        && at(3)? == !stamp.number
        && words
            .iter()
            .enumerate()
            .skip(HEAD)
            .all(|(i, w)| u64::from_le_bytes(*w) == word(stamp, i))
        && tail.iter().all(|b| *b == stamp.number as u8);
    whole.then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_changed_byte_and_any_mixture_is_seen() {
        for len in [32, 33, 100, 4096] {
            let (mut a, mut b) = (vec![0; len], vec![0; len]);
            let stamp = Stamp { epoch: 3, number: 7 };
            fill(&mut a, stamp);
            fill(&mut b, Stamp { epoch: 3, number: 8 });
            assert_eq!(verify(&a), Some(stamp));
            for i in 0..len {
                let mut changed = a.clone();
                changed[i] ^= 1;
                // In a payload that consists only of its head, a changed epoch would be a valid
                // other epoch.
                assert!(verify(&changed) != Some(stamp), "byte {i} of {len}");
            }
            for i in 16..len - 1 {
                let torn: Vec<u8> = b[..i].iter().chain(&a[i..]).copied().collect();
                assert!(torn == a || torn == b || verify(&torn).is_none(), "torn at {i} of {len}");
            }
        }
        assert_eq!(verify(&[]), None);
    }
}
