// SPDX-License-Identifier: Apache-2.0
//! Samples that gateways carry from other hosts: each is received or counts as missed once, over
//! deaths and restarts of the gateways.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod domain;
mod patience;

use domain::{Domain, publisher, subscription};
use driveline_shm::*;
use driveline_types::SampleHeader;
use patience::eventually;

/// Returns the number of samples that were replaced here or lost on the way to this host.
fn missed_in_all(s: &Subscription) -> u64 {
    s.stats().missed + s.stats().lost_on_the_way
}

#[test]
fn what_was_lost_on_the_way_to_this_host_counts_as_missed() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut p = publisher(&a, |c| c.qos.depth = 8);
    let mut s = subscription(&b, |c| c.qos.depth = 8);
    eventually(|| p.matched() == 1 && s.matched() == 1);
    // `lost` is the gateway's total since its first sample. Counting begins with the first sample
    // read. A total that decreases is impossible and counts as no loss.
    for (sequence, lost) in [(5, 3), (6, 3), (10, 6), (11, 5), (12, 7)] {
        let remote = Some(driveline_types::Remote { lost, ..Default::default() });
        let loan = p.loan(1).unwrap();
        p.publish_numbered(
            loan,
            &mut SampleHeader { sequence, remote, ..SampleHeader::stamped_now() },
        )
        .unwrap();
    }
    let mut read =
        || s.take_next().unwrap().map(|x| (x.header().sequence, x.written(), x.missed()));
    let taken: Vec<_> = std::iter::from_fn(&mut read).collect();
    assert_eq!(taken, [(5, 1, 0), (6, 2, 0), (10, 3, 3), (11, 4, 0), (12, 5, 2)]);
    assert_eq!(missed_in_all(&s), 5);
}

/// Publishes sample `number` of publisher `of` on another host, as a gateway does that has brought
/// `published` samples of this publisher before.
fn bring(p: &mut Publisher, published: &mut u64, of: u64, number: u64) {
    *published += 1;
    let remote = Some(driveline_types::Remote {
        publisher: of,
        lost: number - *published,
        ..Default::default()
    });
    let loan = p.loan(1).unwrap();
    p.publish_numbered(
        loan,
        &mut SampleHeader { sequence: number, remote, ..SampleHeader::stamped_now() },
    )
    .unwrap();
}

/// A gateway begins to bring samples here.
fn gateway(a: &Participant, s: &Subscription) -> Publisher {
    let p = publisher(a, |c| c.qos.depth = 8);
    eventually(|| p.matched() == 1 && s.matched() == 1);
    p
}

#[test]
fn what_another_host_publishes_while_no_gateway_is_here_counts_as_missed() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 8);
    // Publisher, number of the sample there, and number of samples missing before it.
    let starts: [&[(u64, u64, u64)]; 5] = [
        &[(9, 5, 0), (9, 6, 0), (9, 8, 1)],
        &[(9, 12, 3), (9, 13, 0)],
        // Samples that are kept for late subscriptions arrive again.
        &[(9, 11, 0), (9, 12, 0), (9, 13, 0), (9, 14, 0)],
        &[(7, 100, 0)],
        &[(9, 16, 1)],
    ];
    for samples in starts {
        let (mut p, mut published) = (gateway(&a, &s), 0);
        for (of, number, missing) in samples {
            bring(&mut p, &mut published, *of, *number);
            let taken = s.take_next().unwrap().unwrap();
            assert_eq!((taken.header().sequence, taken.missed()), (*number, *missing));
        }
        drop(p);
        eventually(|| s.matched() == 0);
        assert!(s.take_next().unwrap().is_none());
    }
    assert_eq!(missed_in_all(&s), 5);
    let mut late = subscription(&b, |_| {});
    let (mut p, mut published) = (publisher(&a, |_| {}), 0);
    eventually(|| late.matched() == 1);
    bring(&mut p, &mut published, 9, 50);
    assert_eq!(
        late.take_next().unwrap().unwrap().missed(),
        0,
        "samples from before the match do not count as missed"
    );
}

/// A gateway brings the samples of two publishers of another host, 9 and 7.
struct Bringing {
    of: [(Publisher, u64); 2],
}

impl Bringing {
    fn begin(a: &Participant, s: &Subscription) -> Self {
        let before = s.matched();
        let of = [(publisher(a, |c| c.qos.depth = 8), 0), (publisher(a, |c| c.qos.depth = 8), 0)];
        eventually(|| s.matched() == before + 2 && of.iter().all(|(p, _)| p.matched() == 1));
        Self { of }
    }

    /// Ends this gateway, and starts another one.
    fn started_again(self, a: &Participant, s: &Subscription) -> Self {
        drop(self);
        eventually(|| s.matched() == 0);
        Self::begin(a, s)
    }

    fn bring(&mut self, which: usize, number: u64) {
        let (p, published) = &mut self.of[which];
        bring(p, published, [9, 7][which], number);
    }
}

fn publisher_of(taken: &Sample) -> u64 {
    taken.header().remote.unwrap().publisher
}

#[test]
fn what_was_passed_over_for_a_newer_sample_of_another_publisher_counts_once_whatever_gateways_do() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 8);
    let mut gateway = Bringing::begin(&a, &s);
    gateway.bring(0, 1);
    gateway.bring(1, 1);
    assert!([9, 7].map(|of| publisher_of(&s.take_next().unwrap().unwrap()) == of) == [true; 2]);
    [2, 3].into_iter().for_each(|n| gateway.bring(0, n));
    gateway.bring(1, 2);
    assert_eq!(publisher_of(&s.take_latest().unwrap().unwrap()), 7);
    let mut gateway = gateway.started_again(&a, &s);
    gateway.bring(0, 5);
    gateway.bring(1, 3);
    assert_eq!(publisher_of(&s.take_latest().unwrap().unwrap()), 7);
    assert_eq!(missed_in_all(&s), 3, "2, 3 and 5; the loss of 4 is not known yet");
    let mut gateway = gateway.started_again(&a, &s);
    gateway.bring(0, 7);
    let taken = s.take_next().unwrap().unwrap();
    assert_eq!(
        (publisher_of(&taken), taken.header().sequence, taken.missed()),
        (9, 7, 2),
        "4 and 6"
    );
    assert_eq!(missed_in_all(&s), 5);
}

#[test]
fn what_another_gateway_that_is_still_there_has_brought_is_not_missing() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 8);
    let first = {
        let (mut p, mut published) = (gateway(&a, &s), 0);
        bring(&mut p, &mut published, 9, 1);
        s.take_next().unwrap().unwrap().header().sequence
    };
    eventually(|| s.matched() == 0);
    let (mut second, mut published) = (gateway(&a, &s), 0);
    (2..=4).for_each(|n| bring(&mut second, &mut published, 9, n));
    let read =
        |s: &mut Subscription| s.take_next().unwrap().map(|x| (x.header().sequence, x.missed()));
    assert_eq!((first, [read(&mut s), read(&mut s)]), (1, [Some((2, 0)), Some((3, 0))]));
    let mut third = publisher(&a, |c| c.qos.depth = 8);
    eventually(|| third.matched() == 1 && s.matched() == 2);
    bring(&mut third, &mut 0, 9, 6);
    let newest = s.take_latest().unwrap().unwrap();
    assert_eq!((newest.header().sequence, newest.missed()), (6, 1), "5; 4 is unread elsewhere");
    assert_eq!(missed_in_all(&s), 2, "4 was passed over");
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 12, failure_persistence: None, ..Default::default()
    })]

    /// Steps: 0 replaces the gateway; with 1 to 3 a sample is lost on the way; 4 and 5 read the
    /// next sample; 6 reads the newest; with 7 to 9 a sample arrives.
    #[test]
    fn each_sample_of_another_host_is_received_or_missed_whatever_gateways_do(
        steps in proptest::collection::vec(0u8..10, 1..120),
    ) {
        let d = Domain::new();
        let (a, b) = (d.join("a"), d.join("b"));
        let mut s = subscription(&b, |c| c.qos.depth = 8);
        let (mut p, mut published, mut number) = (gateway(&a, &s), 0, 1);
        bring(&mut p, &mut published, 9, number);
        let mut received = vec![s.take_next().unwrap().unwrap().header().sequence];
        let mut missed = 0;
        for step in steps.into_iter().chain([7]) {
            match step {
                0 => {
                    drop(p);
                    eventually(|| s.matched() == 0);
                    number += 1;
                    (p, published) = (gateway(&a, &s), 0);
                }
                1..=3 => number += 1,
                4..=6 => {
                    let taken = if step == 6 { s.take_latest() } else { s.take_next() };
                    if let Some(taken) = taken.unwrap() {
                        received.push(taken.header().sequence);
                        missed += taken.missed();
                    }
                }
                _ => {
                    number += 1;
                    bring(&mut p, &mut published, 9, number);
                }
            }
        }
        while let Some(taken) = s.take_next().unwrap() {
            received.push(taken.header().sequence);
            missed += taken.missed();
        }
        proptest::prop_assert!(received.is_sorted_by(|a, b| a < b), "{:?}", received);
        proptest::prop_assert_eq!(
            (received.last().copied(), received.len() as u64 + missed),
            (Some(number), number)
        );
        proptest::prop_assert_eq!(missed_in_all(&s), missed);
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config {
        cases: 24, failure_persistence: None, ..Default::default()
    })]

    /// Steps, each for one of the two publishers: 0 replaces the gateway; with 1 and 2 a sample is
    /// lost on the way; 3 reads the next sample; 4 and 5 read the newest; with 6 to 9 a sample
    /// arrives.
    #[test]
    fn each_sample_of_two_publishers_of_another_host_is_received_or_missed_once(
        steps in proptest::collection::vec((0u8..10, 0usize..2), 1..120)
    ) {
        let d = Domain::new();
        let (a, b) = (d.join("a"), d.join("b"));
        let mut s = subscription(&b, |c| c.qos.depth = 8);
        let mut gateway = Bringing::begin(&a, &s);
        let (mut numbers, mut received) = ([1, 1], [vec![], vec![]]);
        let mut note = |taken: Option<Sample>| {
            let taken = taken?;
            received[usize::from(publisher_of(&taken) == 7)].push(taken.header().sequence);
            Some(())
        };
        for which in [0, 1] {
            gateway.bring(which, 1);
            note(s.take_next().unwrap());
        }
        for (step, which) in steps.into_iter().chain([(9, 0), (9, 1)]) {
            match step {
                0 => {
                    numbers[which] += 1;
                    gateway = gateway.started_again(&a, &s);
                }
                1 | 2 => numbers[which] += 1,
                3 => _ = note(s.take_next().unwrap()),
                4 | 5 => _ = note(s.take_latest().unwrap()),
                _ => {
                    numbers[which] += 1;
                    gateway.bring(which, numbers[which]);
                }
            }
        }
        while note(s.take_next().unwrap()).is_some() {}
        proptest::prop_assert!(
            received.iter().all(|r| r.is_sorted_by(|a, b| a < b)),
            "{:?}",
            received
        );
        proptest::prop_assert_eq!([0, 1].map(|n| received[n].last().copied()), numbers.map(Some));
        let in_all: u64 = numbers.iter().sum();
        proptest::prop_assert_eq!(
            received.concat().len() as u64 + missed_in_all(&s),
            in_all,
            "{:?} of {:?}",
            received,
            numbers
        );
    }
}
