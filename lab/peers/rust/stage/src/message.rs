// SPDX-License-Identifier: Apache-2.0
//! Head of every message.

/// Size of a head in bytes.
pub(crate) const HEAD: usize = 48;
const SAMPLE: u64 = u64::from_le_bytes(*b"drvbench");
const END: u64 = u64::from_le_bytes(*b"drvbend!");

/// Head of a message, with times in nanoseconds on `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) is_end: bool,
    /// Number of the message on its edge, from 1.
    pub(crate) number: u64,
    /// Number of the source's sample, from 1.
    pub(crate) origin: u64,
    pub(crate) source_time_ns: u64,
    pub(crate) publish_time_ns: u64,
    /// Length in bytes, with the head.
    pub(crate) length: u64,
}

impl Head {
    /// Reads the head of a payload; none if it is not a message, or shorter than its length field.
    pub(crate) fn find(payload: &[u8]) -> Option<Self> {
        let (words, _) = payload.first_chunk::<HEAD>()?.as_chunks::<8>();
        let [mark, number, origin, source_time_ns, publish_time_ns, length] =
            words.try_into().ok().map(|w: [[u8; 8]; 6]| w.map(u64::from_le_bytes))?;
        let is_end = mark == END;
        let head = Self { is_end, number, origin, source_time_ns, publish_time_ns, length };
        ((is_end || mark == SAMPLE) && (HEAD as u64..=payload.len() as u64).contains(&length))
            .then_some(head)
    }

    /// Writes the head into a payload, which has room for it.
    pub(crate) fn write(&self, payload: &mut [u8]) {
        let mark = if self.is_end { END } else { SAMPLE };
        let words = [
            mark,
            self.number,
            self.origin,
            self.source_time_ns,
            self.publish_time_ns,
            self.length,
        ];
        for (place, word) in payload.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// Counts of received, missing and damaged messages of an edge.
#[derive(Debug)]
pub(crate) struct Tally {
    expected: u64,
    pub(crate) received: u64,
    pub(crate) missed: u64,
    pub(crate) damaged: u64,
    pub(crate) has_ended: bool,
}

impl Tally {
    pub(crate) fn new() -> Self {
        Self { expected: 1, received: 0, missed: 0, damaged: 0, has_ended: false }
    }

    /// Counts a message and returns its head; none if it is damaged or repeated.
    pub(crate) fn note(&mut self, payload: &[u8]) -> Option<Head> {
        let Some(head) = Head::find(payload) else {
            // A damaged message counts as the expected one.
            self.damaged += 1;
            self.received += 1;
            self.expected += 1;
            return None;
        };
        self.missed += head.number.checked_sub(self.expected)?;
        self.expected = head.number + 1;
        self.received += 1;
        self.has_ended = head.is_end;
        Some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(number: u64, is_end: bool) -> Vec<u8> {
        let mut payload = vec![7; 60];
        Head { is_end, number, origin: 3, source_time_ns: 4, publish_time_ns: 5, length: 50 }
            .write(&mut payload);
        payload
    }

    #[test]
    fn heads_come_back_and_what_is_none_is_refused() {
        let whole = message(9, false);
        assert_eq!(
            Head::find(&whole),
            Some(Head {
                is_end: false,
                number: 9,
                origin: 3,
                source_time_ns: 4,
                publish_time_ns: 5,
                length: 50
            })
        );
        assert!(Head::find(&message(9, true)).is_some_and(|h| h.is_end));
        assert_eq!(whole[48..], [7; 12]);
        // Shorter than its length field, shorter than a head, another mark, a length below that of
        // a head.
        assert_eq!(Head::find(&whole[..49]), None);
        assert_eq!(Head::find(&whole[..47]), None);
        for at in [0, 40] {
            let mut bad = whole.clone();
            bad[at] = 1;
            assert_eq!(Head::find(&bad), None, "byte {at}");
        }
    }

    #[test]
    fn gaps_repetitions_and_damage_are_counted() {
        let mut tally = Tally::new();
        assert!(tally.note(&message(1, false)).is_some());
        assert!(tally.note(&message(4, false)).is_some());
        assert!(tally.note(&message(4, false)).is_none());
        assert!(tally.note(&[0; 60]).is_none());
        assert!(tally.note(&message(6, true)).is_some());
        assert_eq!((tally.received, tally.missed, tally.damaged, tally.has_ended), (4, 2, 1, true));
    }
}
