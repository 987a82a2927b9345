// SPDX-License-Identifier: Apache-2.0
//! Behaviour beyond each limit, at both ends. `docs/protocols/shm.md` section 8 lists the limits
//! and these tests.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod domain;
mod patience;

use domain::{Domain, publisher, subscription};
use driveline_shm::limits::*;
use driveline_shm::*;
use driveline_types::{MonotonicNs, Qos, Remote, SampleHeader, Schema, VirtualClock};
use patience::eventually;
use std::time::Duration;

fn refusal_of_subscription(s: &mut Subscription) -> Option<(RefusalCode, String)> {
    std::iter::from_fn(|| s.poll_event()).find_map(|e| match e {
        SubscriptionEvent::Refused { code, text } => Some((code, text)),
        _ => None,
    })
}

fn refusal_of_publisher(p: &mut Publisher) -> Option<(RefusalCode, String)> {
    std::iter::from_fn(|| p.poll_event()).find_map(|e| match e {
        PublisherEvent::Refused { code, text } => Some((code, text)),
        _ => None,
    })
}

/// Waits for a refusal.
#[track_caller]
fn awaited(mut poll: impl FnMut() -> Option<(RefusalCode, String)>) -> (RefusalCode, String) {
    let mut found = None;
    eventually(|| {
        found = found.take().or_else(&mut poll);
        found.is_some()
    });
    found.unwrap()
}

fn say(p: &mut Publisher) {
    let loan = p.loan(1).unwrap();
    p.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

/// MAX_MATCHES.
#[test]
fn the_257th_publisher_of_a_topic_is_refused_at_both_ends_and_matched_when_another_has_ended() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    let mut all: Vec<Publisher> =
        (0..MAX_MATCHES).map(|_| publisher(&a, |c| (c.pins, c.loans) = (2, 1))).collect();
    eventually(|| s.matched() == MAX_MATCHES);
    let mut beyond = publisher(&a, |_| {});
    let (code, text) = awaited(|| refusal_of_subscription(&mut s));
    assert_eq!(code, RefusalCode::Limit);
    assert!(
        text.contains("topic 't'")
            && text.contains("at most 256")
            && text.contains("topic of their own"),
        "{text}"
    );
    let (code, text) = awaited(|| refusal_of_publisher(&mut beyond));
    assert_eq!(code, RefusalCode::Limit);
    assert!(
        text.contains("node 'listener' cannot be matched") && text.contains("at most 256"),
        "{text}"
    );
    assert_eq!((beyond.matched(), s.matched()), (0, MAX_MATCHES), "both ends count no match");
    // Samples of the matched publishers are received. Those of the refused publisher are received
    // after another one has ended.
    say(&mut all[MAX_MATCHES - 1]);
    eventually(|| s.take_next().unwrap().is_some());
    all.remove(0);
    eventually(|| beyond.matched() == 1);
    say(&mut beyond);
    eventually(|| s.take_next().unwrap().is_some());
}

/// MAX_MATCHES: publishers that answer all at once count like publishers that come one after the
/// other.
#[test]
fn of_300_publishers_that_are_there_already_256_are_matched_and_the_others_refused_at_both_ends() {
    const ALL: usize = 300;
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut all: Vec<Publisher> =
        (0..ALL).map(|_| publisher(&a, |c| (c.pins, c.loans) = (2, 1))).collect();
    let mut s = subscription(&b, |_| {});
    let mut refused = vec![false; ALL];
    eventually(|| {
        assert!(s.matched() <= MAX_MATCHES, "{}", s.matched());
        for (told, p) in refused.iter_mut().zip(&mut all) {
            *told |= refusal_of_publisher(p).is_some_and(|(code, _)| code == RefusalCode::Limit);
        }
        refused.iter().filter(|told| **told).count() == ALL - MAX_MATCHES
    });
    assert_eq!(s.matched(), MAX_MATCHES);
    // The subscription notifies the publisher of the refusal before it reports its own event.
    assert_eq!(awaited(|| refusal_of_subscription(&mut s)).0, RefusalCode::Limit);
    // Each of the matched ones is received.
    all.iter_mut().for_each(say);
    let mut received = 0;
    eventually(|| {
        received += std::iter::from_fn(|| s.take_next().unwrap()).count();
        received == MAX_MATCHES
    });
    assert!(all.iter().zip(&refused).all(|(p, told)| (p.matched() == 0) == *told));
}

/// MAX_HELD, MAX_PINS: a publisher grants only the pins that it has declared.
#[test]
fn a_subscription_beyond_the_pins_is_refused_at_both_ends() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut p = publisher(&a, |c| c.pins = 2);
    let _first = subscription(&b, |c| c.max_held = 2);
    eventually(|| p.matched() == 1);
    let mut s = subscription(&b, |c| c.max_held = 1);
    let (code, text) = awaited(|| refusal_of_subscription(&mut s));
    assert!(
        code == RefusalCode::Pins && text.contains("raise the topic's pins to at least 3"),
        "{text}"
    );
    let (code, told) = awaited(|| refusal_of_publisher(&mut p));
    assert_eq!((code, told), (RefusalCode::Pins, text));
    // Tools have separate pins and separate limits.
    let mut observers: Vec<Subscription> = (0..=OBSERVER_PINS)
        .map(|_| {
            subscription(&b, |c| {
                (c.max_held, c.observer) = (1, true);
            })
        })
        .collect();
    eventually(|| p.matched() == 1 + OBSERVER_PINS as usize);
    let (code, text) = awaited(|| observers.iter_mut().find_map(refusal_of_subscription));
    assert!(code == RefusalCode::Pins && text.contains("pins for tools"), "{text}");
}

/// MAX_SLOTS, MAX_PAYLOAD, MAX_DEPTH, MAX_LOANS, MAX_PINS, MAX_HELD, MAX_DEFINITION_LEN.
#[test]
fn numbers_beyond_their_range_are_refused_at_creation_with_the_range() {
    type Change<'a> = &'a dyn Fn(&mut PublisherConfig);
    let d = Domain::new();
    let a = d.join("a");
    let refused = |f: Change<'_>| {
        let mut c =
            PublisherConfig::new("t".parse().unwrap(), "n".parse().unwrap(), domain::schema(), 64);
        f(&mut c);
        a.create_publisher(c).map(drop).unwrap_err().to_string()
    };
    let cases: [(Change<'_>, &str); 6] = [
        (&|c| c.qos.depth = Qos::MAX_DEPTH + 1, "depth is 1025 and must be between 1 and 1024"),
        (&|c| c.loans = MAX_LOANS + 1, "loans is 257 and must be between 1 and 256"),
        (&|c| c.pins = MAX_PINS + 1, "pins is 8193 and must be at most 8192"),
        (&|c| c.max_payload = MAX_PAYLOAD + 1, "longer than 68719476736; lower max_payload"),
        (
            &|c| c.schema = Schema::bytes("a", "b", "x".repeat(Schema::MAX_DEFINITION_LEN + 1)),
            "has 32769 bytes and may have 32768",
        ),
        (
            &|c| c.schema = Schema::bytes("a", "b", "\u{1}".repeat(Schema::MAX_DEFINITION_LEN)),
            "need escaping: shorten it",
        ),
    ];
    for (f, expected) in cases {
        let text = refused(f);
        assert!(text.starts_with("topic 't': ") && text.contains(expected), "{text}");
    }
    let mut c =
        SubscriptionConfig::new("t".parse().unwrap(), "n".parse().unwrap(), domain::schema());
    c.max_held = MAX_HELD + 1;
    let text = a.create_subscription(c).map(drop).unwrap_err().to_string();
    assert!(text.contains("max_held is 1001 and must be between 1 and 1000"), "{text}");
}

/// MAX_ENDED: dropped samples are counted, and the remaining ones can be read.
#[test]
fn samples_of_more_publishers_that_ended_than_are_kept_count_as_missed() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    for _ in 0..MAX_ENDED + 3 {
        let mut p = publisher(&a, |_| {});
        eventually(|| p.matched() == 1 && s.matched() == 1);
        say(&mut p);
        drop(p);
        eventually(|| s.matched() == 0);
    }
    assert_eq!((s.stats().missed, s.stats().not_read), (3, MAX_ENDED as u64));
    let read = std::iter::from_fn(|| s.take_next().unwrap()).count();
    assert_eq!((read, s.stats().missed, s.stats().not_read), (MAX_ENDED, 3, 0));
}

/// MAX_LEFT_BYTES: the same for the bytes of unread samples. The samples of the publisher that
/// ended last are always kept.
#[test]
fn bytes_of_publishers_that_ended_beyond_what_is_kept_count_as_missed() {
    const EACH: usize = 40 << 20;
    const { assert!(2 * EACH > MAX_LEFT_BYTES) };
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    for _ in 0..2 {
        let mut p = publisher(&a, |c| (c.max_payload, c.pins, c.loans) = (EACH, 2, 1));
        eventually(|| p.matched() == 1 && s.matched() == 1);
        let loan = p.loan(EACH).unwrap();
        p.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
        drop(p);
        eventually(|| s.matched() == 0);
    }
    assert_eq!((s.stats().missed, s.stats().not_read), (1, 1));
    assert_eq!(s.take_next().unwrap().unwrap().payload().len(), EACH);
}

/// The order of the ends counts, not that of the matches.
#[test]
fn of_ended_publishers_the_one_that_ended_first_gives_way() {
    const EACH: usize = 40 << 20;
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    let big = || {
        let p = publisher(&a, |c| (c.max_payload, c.pins, c.loans) = (EACH, 2, 1));
        eventually(|| p.matched() == 1);
        p
    };
    let (mut first, mut second) = (big(), big());
    for p in [&mut first, &mut second] {
        let loan = p.loan(EACH).unwrap();
        p.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
    }
    let last = first.id();
    drop(second);
    eventually(|| s.matched() == 1);
    drop(first);
    eventually(|| s.matched() == 0);
    assert_eq!((s.stats().missed, s.stats().not_read), (1, 1));
    assert_eq!(s.take_next().unwrap().unwrap().publisher(), last);
}

/// MAX_KNOWN_AFAR.
#[test]
fn more_departed_publishers_of_other_hosts_than_are_remembered_are_reported_once() {
    const AT_ONCE: usize = 205;
    const { assert!(5 * AT_ONCE == MAX_KNOWN_AFAR + 1) };
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    for round in 0..5 {
        assert_eq!(refusal_of_subscription(&mut s), None);
        let mut gateways: Vec<Publisher> =
            (0..AT_ONCE).map(|_| publisher(&a, |c| (c.pins, c.loans) = (2, 1))).collect();
        eventually(|| s.matched() == AT_ONCE && gateways.iter().all(|p| p.matched() == 1));
        for (i, p) in gateways.iter_mut().enumerate() {
            let remote =
                Some(Remote { publisher: (1 + round * AT_ONCE + i) as u64, ..Default::default() });
            let loan = p.loan(1).unwrap();
            p.publish_numbered(
                loan,
                &mut SampleHeader { sequence: 1, remote, ..SampleHeader::stamped_now() },
            )
            .unwrap();
        }
        assert_eq!(std::iter::from_fn(|| s.take_next().unwrap()).count(), AT_ONCE);
        drop(gateways);
        eventually(|| s.matched() == 0);
        assert!(s.take_next().unwrap().is_none());
    }
    let (code, text) = awaited(|| refusal_of_subscription(&mut s));
    assert!(
        code == RefusalCode::Limit
            && text.contains("more than 1024 publishers of other hosts have ended"),
        "{text}"
    );
    assert!(text.contains("are not counted"), "{text}");
    assert_eq!(refusal_of_subscription(&mut s), None, "once");
}

/// MAX_EVENTS.
#[test]
fn events_beyond_those_that_wait_are_counted() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    // Each publisher causes two events: matched and unmatched.
    for _ in 0..3 {
        let all: Vec<Publisher> =
            (0..50).map(|_| publisher(&a, |c| (c.pins, c.loans) = (2, 1))).collect();
        eventually(|| s.matched() == all.len());
        drop(all);
        eventually(|| s.matched() == 0);
    }
    assert_eq!(s.poll_event(), Some(SubscriptionEvent::Dropped { count: 300 - MAX_EVENTS as u64 }));
    assert_eq!(std::iter::from_fn(|| s.poll_event()).count(), MAX_EVENTS);
}

/// MAX_DESCRIPTION_LEN.
#[test]
fn a_description_that_is_too_long_says_so() {
    let d = Domain::new();
    let a = d.join("a");
    let _p = publisher(&a, |_| {});
    for (len, whole) in [(MAX_DESCRIPTION_LEN, true), (MAX_DESCRIPTION_LEN + 1, false)] {
        a.set_description("x".repeat(len));
        let described = list(d.0.path(), Duration::from_secs(60)).unwrap().remove(0).description;
        assert_eq!(described.len() == len, whole);
        assert!(whole || described.contains("has 65537 bytes and may have 65536"), "{described}");
    }
}

/// MAX_LISTING_LEN.
#[test]
fn a_listing_that_is_too_long_leaves_definitions_out_and_says_so() {
    let d = Domain::new();
    let a = d.join("a");
    let long = || Schema::bytes("a", "b", "d".repeat(Schema::MAX_DEFINITION_LEN));
    let most = MAX_LISTING_LEN / Schema::MAX_DEFINITION_LEN;
    let _all: Vec<Publisher> = (0..most)
        .map(|_| publisher(&a, |c| (c.pins, c.loans, c.schema) = (2, 1, long())))
        .collect();
    let listed = || list(d.0.path(), Duration::from_secs(60)).unwrap().remove(0);
    eventually(|| listed().publishers.len() == most);
    let info = listed();
    assert!(
        info.incomplete.contains("may have 8388608: the definitions of its types are left out"),
        "{}",
        info.incomplete
    );
    assert!(info.publishers.iter().all(|p| p.schema.definition.is_empty() && p.schema.name == "a"));
}

/// MAX_DIRECTORY_ENTRIES.
#[test]
fn a_domain_directory_with_more_entries_than_are_read_is_reported_at_both_ends() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    for n in 0..MAX_DIRECTORY_ENTRIES {
        std::fs::write(d.0.path().join(n.to_string()), "").unwrap();
    }
    let mut p = publisher(&a, |_| {});
    for (code, text) in
        [awaited(|| refusal_of_publisher(&mut p)), awaited(|| refusal_of_subscription(&mut s))]
    {
        assert_eq!(code, RefusalCode::System);
        assert!(
            text.contains("more than 65536 entries")
                && text.contains("remove files of processes that have ended"),
            "{text}"
        );
    }
}

/// MAX_SKIPS.
#[test]
fn a_take_that_passes_over_as_many_samples_as_it_may_returns_and_the_next_goes_on() {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let depth = Qos::MAX_DEPTH;
    let mut all: Vec<Publisher> = (0..3)
        .map(|_| {
            publisher(&a, |c| (c.qos.depth, c.pins, c.loans, c.max_payload) = (depth, 2, 1, 1))
        })
        .collect();
    let mut s = subscription(&b, |c| (c.qos.depth, c.qos.lifespan_ms) = (depth, Some(1)));
    eventually(|| s.matched() == 3 && all.iter().all(|p| p.matched() == 1));
    all.iter_mut().for_each(|p| (0..depth).for_each(|_| say(p)));
    clock.advance(Duration::from_millis(2));
    assert!(s.take_next().unwrap().is_none());
    assert_eq!(s.stats().expired, MAX_SKIPS as u64);
    assert!(s.has_unread() && s.take_next().unwrap().is_none());
    assert_eq!(s.stats().expired, 3 * u64::from(depth));
}
