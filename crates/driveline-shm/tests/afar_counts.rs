// SPDX-License-Identifier: Apache-2.0
//! A gateway reports in its segment which samples of a publisher of another host are missing here.
//! So losses count even if no sample follows, and unknown numbers are reported as unknown.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod domain;
mod patience;

use domain::{Domain, publisher, subscription};
use driveline_shm::*;
use driveline_types::{SampleHeader, Uncounted};
use patience::eventually;
use proptest::prelude::*;

/// A gateway brings the samples of one publisher of another host.
struct Gateway {
    of: u64,
    publisher: Publisher,
    published: u64,
    before: Option<u64>,
    /// Number of the remote publisher's newest sample that arrived here.
    newest: u64,
    state: AfarState,
}

impl Gateway {
    fn begin(a: &Participant, s: &Subscription, of: u64) -> Self {
        let expected = s.matched() + 1;
        let publisher = publisher(a, |c| c.qos.depth = 4);
        let gateway =
            Self { of, publisher, published: 0, before: None, newest: 0, state: AfarState::There };
        gateway.say();
        eventually(|| gateway.publisher.matched() >= 1 && s.matched() == expected);
        gateway
    }

    fn missing(&self) -> u64 {
        self.newest - self.published
    }

    fn say(&self) {
        let (publisher, before, state) = (self.of, self.before, self.state);
        self.publisher.count_afar(&AfarCount { publisher, before, missing: self.missing(), state });
    }

    fn bring(&mut self, number: u64) {
        self.before.get_or_insert(number - 1);
        (self.newest, self.published) = (number, self.published + 1);
        self.say();
        let remote = Some(driveline_types::Remote {
            publisher: self.of,
            lost: self.missing(),
            ..Default::default()
        });
        let loan = self.publisher.loan(1).unwrap();
        self.publisher
            .publish_numbered(
                loan,
                &mut SampleHeader { sequence: number, remote, ..SampleHeader::stamped_now() },
            )
            .unwrap();
    }

    /// Reports that the remote publisher has ended, and that `last` was its last sample.
    fn ended(&mut self, last: u64) {
        (self.newest, self.state) = (last, AfarState::Ended);
        self.say();
    }

    fn is(&mut self, state: AfarState) {
        self.state = state;
        self.say();
    }

    fn end(self, s: &Subscription) {
        let expected = s.matched() - 1;
        drop(self);
        eventually(|| s.matched() == expected);
    }
}

fn accounted(s: &Subscription) -> u64 {
    let s = s.stats();
    s.received + s.missed + s.lost_on_the_way + s.not_read
}

fn uncounted(s: &Subscription) -> (u64, Option<Uncounted>) {
    (s.stats().uncounted, s.stats().uncounted_reason)
}

#[test]
fn what_was_lost_after_the_last_sample_counts_when_its_publisher_has_ended() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 4);
    let mut gateway = Gateway::begin(&a, &s, 9);
    [5, 6, 8].into_iter().for_each(|n| gateway.bring(n));
    assert_eq!(
        (s.stats().lost_on_the_way, s.stats().not_read, accounted(&s)),
        (1, 3, 4),
        "counted before a read notices"
    );
    while s.take_next().unwrap().is_some() {}
    assert_eq!((s.stats().lost_on_the_way, s.stats().received), (1, 3));
    gateway.ended(10);
    assert_eq!((s.stats().lost_on_the_way, accounted(&s), uncounted(&s)), (3, 6, (0, None)));
    gateway.end(&s);
    assert_eq!((s.stats().lost_on_the_way, uncounted(&s)), (3, (0, None)));
    assert!(s.take_next().unwrap().is_none());
    assert_eq!(
        (s.stats().lost_on_the_way, accounted(&s), uncounted(&s)),
        (3, 6, (0, None)),
        "also once its edge is gone"
    );
}

#[test]
fn of_a_publisher_whose_samples_were_all_lost_the_gateway_says_where_counting_begins() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    let mut gateway = Gateway::begin(&a, &s, 9);
    gateway.before = Some(100);
    gateway.ended(103);
    gateway.end(&s);
    assert!(s.take_next().unwrap().is_none());
    assert_eq!((s.stats().lost_on_the_way, uncounted(&s)), (3, (0, None)));
}

#[test]
fn a_last_number_alone_says_nothing_but_to_who_knows_where_counting_began() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut knows = subscription(&b, |_| {});
    let mut gateway = Gateway::begin(&a, &knows, 9);
    gateway.bring(5);
    gateway.end(&knows);
    assert!(knows.take_next().unwrap().is_some());
    assert!(knows.take_next().unwrap().is_none());
    let mut new = subscription(&b, |_| {});
    let mut gateway = Gateway::begin(&a, &knows, 9);
    eventually(|| new.matched() == 1);
    gateway.ended(8);
    assert_eq!([&knows, &new].map(|s| s.stats().lost_on_the_way), [3, 0]);
    assert_eq!([&knows, &new].map(uncounted), [(0, None), (1, Some(Uncounted::NotAnnounced))]);
    gateway.end(&knows);
    eventually(|| new.matched() == 0);
    assert!(knows.take_next().unwrap().is_none() && new.take_next().unwrap().is_none());
    assert_eq!([&knows, &new].map(|s| s.stats().lost_on_the_way), [3, 0]);
    assert_eq!(
        [&knows, &new].map(uncounted),
        [(0, None), (1, Some(Uncounted::NotAnnounced))],
        "also once its edge is gone"
    );
}

#[test]
fn a_subscription_that_joins_late_counts_from_its_match() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let first = subscription(&b, |c| c.qos.depth = 4);
    let mut gateway = Gateway::begin(&a, &first, 9);
    [1, 4].into_iter().for_each(|n| gateway.bring(n));
    let mut late = subscription(&b, |c| c.qos.depth = 4);
    eventually(|| late.matched() == 1 && gateway.publisher.matched() == 2);
    gateway.bring(6);
    assert_eq!(late.take_next().unwrap().unwrap().missed(), 1, "5 was lost");
    gateway.ended(7);
    assert_eq!(
        [&late, &first].map(|s| s.stats().lost_on_the_way),
        [2, 4],
        "5 and 7; the first subscription also counts 2 and 3"
    );
}

#[test]
fn a_count_that_cannot_be_known_says_so_until_another_gateway_goes_on_with_it() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 4);
    let mut gateway = Gateway::begin(&a, &s, 9);
    gateway.bring(1);
    assert_eq!(uncounted(&s), (0, None));
    gateway.is(AfarState::Unknown(Uncounted::OutOfReach));
    assert_eq!(uncounted(&s), (1, Some(Uncounted::OutOfReach)));
    gateway.is(AfarState::There);
    assert_eq!(uncounted(&s), (0, None));
    assert!(s.take_next().unwrap().is_some());
    gateway.end(&s);
    assert_eq!(uncounted(&s), (1, Some(Uncounted::GatewayGone)));
    assert!(s.take_next().unwrap().is_none());
    assert_eq!(uncounted(&s), (1, Some(Uncounted::GatewayGone)), "also once its edge is gone");
    let mut gateway = Gateway::begin(&a, &s, 9);
    assert_eq!(uncounted(&s), (0, None));
    gateway.bring(5);
    assert_eq!(s.stats().lost_on_the_way, 3);
    gateway.is(AfarState::Unknown(Uncounted::HostGone));
    gateway.end(&s);
    while s.take_next().unwrap().is_some() {}
    assert_eq!((uncounted(&s), accounted(&s)), ((1, Some(Uncounted::HostGone)), 5));
}

#[test]
fn of_many_that_stay_unknown_none_is_forgotten() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.qos.depth = 4);
    for of in 1..=70 {
        let mut gateway = Gateway::begin(&a, &s, of);
        gateway.bring(1);
        gateway.end(&s);
        while s.take_next().unwrap().is_some() {}
    }
    assert_eq!(uncounted(&s), (70, Some(Uncounted::GatewayGone)));
}

#[test]
fn a_gateway_of_an_earlier_release_announces_no_last_number() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    let mut p = publisher(&a, |_| {});
    eventually(|| p.matched() == 1 && s.matched() == 1);
    let remote = Some(driveline_types::Remote { publisher: 9, lost: 3, ..Default::default() });
    let loan = p.loan(1).unwrap();
    p.publish_numbered(
        loan,
        &mut SampleHeader { sequence: 4, remote, ..SampleHeader::stamped_now() },
    )
    .unwrap();
    assert!(s.take_next().unwrap().is_some());
    assert_eq!(uncounted(&s), (0, None));
    drop(p);
    eventually(|| s.matched() == 0);
    assert_eq!(uncounted(&s), (1, Some(Uncounted::NotAnnounced)));
}

#[derive(Clone, Debug)]
enum Step {
    Bring,
    Lose,
    Take,
    Latest,
    /// Another gateway takes over. This many samples are published while there is no gateway.
    Gateway(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Bring), 3 => Just(Step::Lose), 3 => Just(Step::Take),
        2 => Just(Step::Latest), 1 => (0..3u64).prop_map(Step::Gateway),
    ];
    prop::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() }
    )]

    #[test]
    fn each_number_that_a_gateway_knows_of_is_accounted_for_once(
        steps in steps(),
        lost_at_the_end in 0..3u64,
        first in 1..5u64,
    ) {
        let d = Domain::new();
        let (a, b) = (d.join("a"), d.join("b"));
        let mut s = subscription(&b, |c| c.qos.depth = 4);
        let mut gateway = Gateway::begin(&a, &s, 9);
        let mut number = first;
        gateway.bring(number);
        // Number of samples that the gateways here know of.
        let mut known = 1;
        for step in &steps {
            match step {
                Step::Bring => {
                    number += 1;
                    gateway.bring(number);
                    known = number + 1 - first;
                }
                Step::Lose => number += 1,
                Step::Take => drop(s.take_next().unwrap()),
                Step::Latest => drop(s.take_latest().unwrap()),
                Step::Gateway(meanwhile) => {
                    gateway.end(&s);
                    number += meanwhile;
                    gateway = Gateway::begin(&a, &s, 9);
                }
            }
            prop_assert_eq!(accounted(&s), known, "after {:?}: {:?}", step, s.stats());
        }
        number += lost_at_the_end;
        gateway.before.get_or_insert(number);
        gateway.ended(number);
        let in_all = number + 1 - first;
        prop_assert_eq!((accounted(&s), uncounted(&s)), (in_all, (0, None)), "{:?}", s.stats());
        gateway.end(&s);
        while s.take_next().unwrap().is_some() {}
        prop_assert_eq!(
            (accounted(&s), s.stats().not_read, uncounted(&s)),
            (in_all, 0, (0, None)),
            "{:?}",
            s.stats()
        );
    }
}
