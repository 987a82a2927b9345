// SPDX-License-Identifier: Apache-2.0
//! Exclusive ownership under random jitter, silences, deaths and returns of the stronger publisher.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const STRONG: u64 = 1;
const WEAK: u64 = 2;
const DEADLINE: Duration = Duration::from_millis(100);

fn offer(publisher: u64, at_ms: u64, frame: i64) -> Offer {
    let strength = if publisher == STRONG { 2 } else { 1 };
    Offer { publisher, strength, published: MonotonicNs(at_ms * MS), source: frame }
}

fn alive() -> bool {
    false
}

#[test]
fn the_stronger_is_delivered_and_takes_over_at_once() {
    let mut o = Ownership::new(DEADLINE);
    assert!(o.admit(offer(WEAK, 1, 1), alive));
    assert!(!o.admit(offer(STRONG, 2, 1), alive), "the same frame");
    assert!(!o.admit(offer(WEAK, 31, 2), alive), "not the owner any more");
    assert!(o.admit(offer(STRONG, 32, 2), alive));
    assert_eq!(o.owner(), Some(STRONG));
}

#[test]
fn the_weaker_takes_over_before_the_gap_exceeds_the_deadline() {
    let mut o = Ownership::new(DEADLINE);
    for (at, frame) in [(0, 0), (30, 1), (60, 2)] {
        assert!(o.admit(offer(STRONG, at, frame), alive));
        assert!(!o.admit(offer(WEAK, at + 10, frame), alive));
    }
    // The stronger publisher's last sample was at 60 ms, so the next delivered sample must come by
    // 160 ms. The weaker publishes every 30 ms: its first sample after 130 ms must be delivered.
    assert!(!o.admit(offer(WEAK, 100, 3), alive));
    assert!(o.admit(offer(WEAK, 131, 4), alive));
    // The stronger publisher hung, and continues with a frame that was already delivered.
    assert!(!o.admit(offer(STRONG, 135, 4), alive));
    assert!(o.admit(offer(STRONG, 150, 5), alive));
    assert!(!o.admit(offer(WEAK, 161, 5), alive));
}

#[test]
fn the_weaker_takes_over_with_its_next_sample_if_the_owner_is_gone() {
    let mut o = Ownership::new(DEADLINE);
    assert!(o.admit(offer(STRONG, 0, 0), alive));
    assert!(!o.admit(offer(WEAK, 1, 0), alive));
    assert!(!o.admit(offer(WEAK, 5, 0), || true), "its readers have the frame");
    assert!(o.admit(offer(WEAK, 31, 1), || true));
}

#[test]
fn of_equal_strength_the_first_stays() {
    let mut o = Ownership::new(DEADLINE);
    let same = |publisher, at, frame| Offer { strength: 1, ..offer(publisher, at, frame) };
    assert!(o.admit(same(1, 0, 0), alive));
    assert!(!o.admit(same(2, 1, 1), alive));
    assert!(o.admit(same(1, 2, 2), alive));
}

#[test]
fn a_source_time_from_the_future_does_not_silence_the_other_for_ever() {
    let mut o = Ownership::new(DEADLINE);
    assert!(o.admit(offer(STRONG, 0, i64::MAX), alive));
    assert!(!o.admit(offer(WEAK, 150, 1), alive));
    assert!(o.admit(offer(WEAK, 250, 2), alive));
}

#[test]
fn many_publishers_are_bounded() {
    let mut o = Ownership::new(DEADLINE);
    for publisher in 0..100 {
        o.admit(Offer { strength: 1, ..offer(publisher, publisher, 0) }, alive);
    }
    assert_eq!(o.heard.len(), REMEMBERED);
}

/// Action of the stronger publisher on a frame.
#[derive(Clone, Copy, Debug)]
enum Act {
    Publish(u64),
    /// The publisher hangs or is dead, and publishes nothing for this frame.
    Silent {
        dead: bool,
    },
}

fn acts() -> impl Strategy<Value = Vec<(Act, u64)>> {
    let strong = prop_oneof![
        12 => (0u64..5).prop_map(Act::Publish),
        1 => any::<bool>().prop_map(|dead| Act::Silent { dead }),
    ];
    // A silence lasts for 1 to 11 frames.
    prop::collection::vec((strong, 0u64..5, 1usize..12), 1..40).prop_map(|runs| {
        let mut all = Vec::new();
        for (act, jitter, times) in runs {
            let times = if let Act::Silent { .. } = act { times } else { 1 };
            all.extend(std::iter::repeat_n((act, jitter), times));
        }
        all
    })
}

proptest! {
    #[test]
    fn no_frame_comes_twice_and_no_gap_exceeds_the_deadline(acts in acts()) {
        // 25 Hz each, and up to 5 ms of jitter: the deadline is more than both periods together.
        let mut offers = Vec::new();
        for (frame, (act, weak_jitter)) in acts.iter().enumerate() {
            let (frame, at) = (i64::try_from(frame).unwrap(), 40 * frame as u64);
            let mut both = vec![(offer(WEAK, at + 5 + weak_jitter, frame), false)];
            match act {
                Act::Publish(jitter) => both.push((offer(STRONG, at + jitter, frame), false)),
                Act::Silent { dead } => both[0].1 = *dead,
            }
            both.sort_by_key(|(o, _)| o.published);
            offers.extend(both);
        }
        let mut o = Ownership::new(DEADLINE);
        let mut delivered: Vec<Offer> = Vec::new();
        let mut last_strong: Option<MonotonicNs> = None;
        for (offer, dead) in offers {
            let owner = o.owner();
            let admitted = o.admit(offer, || dead && owner == Some(STRONG));
            if admitted && offer.publisher == WEAK && !dead {
                let silence = last_strong.map_or(Duration::MAX, |at| offer.published.since(at));
                prop_assert!(silence > DEADLINE / 2, "{silence:?} after a sample of the stronger");
            }
            if offer.publisher == STRONG {
                last_strong = Some(offer.published);
            }
            if admitted {
                delivered.push(offer);
            }
        }
        for pair in delivered.windows(2) {
            prop_assert!(pair[0].source < pair[1].source, "{pair:?}");
            let gap = pair[1].published.since(pair[0].published);
            prop_assert!(gap <= DEADLINE, "{gap:?} between {pair:?}");
        }
    }
}
