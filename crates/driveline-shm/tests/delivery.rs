// SPDX-License-Identifier: Apache-2.0
//! Publishing and reading within one process: every path but the process border.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod domain;
mod patience;

use domain::{Domain, publisher, schema, subscription};
use driveline_shm::*;
use driveline_types::{Durability, MonotonicNs, Qos, Reliability, SampleHeader, Schema};
use patience::{PATIENCE, eventually};
use std::os::unix::net::UnixListener;
use std::time::Duration;

#[track_caller]
fn say(p: &mut Publisher, text: &str) -> u64 {
    let mut loan = p.loan(text.len()).unwrap();
    loan.payload_mut().copy_from_slice(text.as_bytes());
    p.publish(loan, &mut SampleHeader::stamped_now()).unwrap()
}

/// Publishes a sample that claims to have been published at time `t`.
fn say_at(p: &mut Publisher, t: u64, text: &str) {
    let mut loan = p.loan(text.len()).unwrap();
    loan.payload_mut().copy_from_slice(text.as_bytes());
    p.publish(
        loan,
        &mut SampleHeader { publish_time: MonotonicNs(t), ..SampleHeader::stamped_now() },
    )
    .unwrap();
}

fn text(s: &Sample) -> &str {
    std::str::from_utf8(s.payload()).unwrap()
}

#[test]
fn a_sample_is_read_in_place_with_header_and_sequence() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut p = publisher(&a, |_| {});
    let mut s = subscription(&b, |_| {});
    eventually(|| p.matched() == 1 && s.matched() == 1);
    assert!(s.take_latest().unwrap().is_none());
    let mut loan = p.loan(5).unwrap();
    loan.payload_mut().copy_from_slice(b"hello");
    let meta = &mut SampleHeader { trace_id: 77, ..SampleHeader::stamped_now() };
    assert_eq!(p.publish(loan, meta).unwrap(), 1);
    assert!(s.has_unread());
    let sample = s.take_latest().unwrap().unwrap();
    assert_eq!(text(&sample), "hello");
    assert_eq!((sample.header().sequence, sample.header().trace_id, sample.missed()), (1, 77, 0));
    assert_eq!(sample.header().publish_time, meta.publish_time);
    assert_eq!(sample.publisher(), p.id());
    assert_eq!(sample.payload().as_ptr() as usize % 64, 0);
    assert!(!s.has_unread());
    assert!(s.take_next().unwrap().is_none());
}

#[test]
fn newest_wins_and_missed_are_counted() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |_| {});
    let mut s = subscription(&a, |_| {});
    eventually(|| p.matched() == 1 && s.matched() == 1);
    for i in 0..10 {
        say(&mut p, &format!("m{i}"));
    }
    let sample = s.take_next().unwrap().unwrap();
    assert_eq!((text(&sample), sample.missed()), ("m9", 9), "depth 1: only the newest is left");
    assert_eq!((s.stats().received, s.stats().missed), (1, 9));
}

#[test]
fn history_is_read_in_order_up_to_the_lesser_depth() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |c| c.qos.depth = 4);
    let mut deep = subscription(&a, |c| c.qos.depth = 10);
    let mut flat = subscription(&a, |c| c.qos.depth = 2);
    eventually(|| p.matched() == 2 && deep.matched() == 1 && flat.matched() == 1);
    for i in 0..6 {
        say(&mut p, &i.to_string());
    }
    let all = |s: &mut Subscription| {
        std::iter::from_fn(|| s.take_next().unwrap())
            .map(|x| (text(&x).to_owned(), x.missed()))
            .collect::<Vec<_>>()
    };
    let expect =
        |v: &[(&str, u64)]| v.iter().map(|(t, m)| ((*t).to_owned(), *m)).collect::<Vec<_>>();
    assert_eq!(all(&mut deep), expect(&[("2", 2), ("3", 0), ("4", 0), ("5", 0)]));
    assert_eq!(all(&mut flat), expect(&[("4", 4), ("5", 0)]));
}

#[test]
fn held_samples_stay_whole_while_the_publisher_runs_on() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |_| {});
    let mut s = subscription(&a, |c| c.max_held = 3);
    eventually(|| p.matched() == 1 && s.matched() == 1);
    let mut held = Vec::new();
    for i in 0..3 {
        say(&mut p, &format!("held {i}"));
        held.push(s.take_latest().unwrap().unwrap());
    }
    for i in 0..1000 {
        say(&mut p, &format!("other {i}"));
    }
    for (i, h) in held.iter().enumerate() {
        assert_eq!(text(h), format!("held {i}"));
    }
    assert_eq!(s.take_latest().unwrap_err(), TakeError::AllHeld { max_held: 3 });
    drop(held.pop());
    assert_eq!(text(&s.take_latest().unwrap().unwrap()), "other 999");
    // A held sample outlives its subscription, and another thread can read it.
    drop(s);
    for i in 0..1000 {
        say(&mut p, &format!("again {i}"));
    }
    std::thread::spawn(move || assert_eq!(text(&held[0]), "held 0")).join().unwrap();
    eventually(|| p.matched() == 0);
}

#[test]
fn held_samples_of_all_publishers_count_together_also_of_those_that_ended() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |c| c.max_held = 2);
    let mut first = publisher(&a, |_| {});
    let mut second = publisher(&a, |_| {});
    eventually(|| s.matched() == 2);
    say(&mut first, "first");
    let mut held = vec![s.take_next().unwrap().unwrap()];
    say(&mut second, "second");
    held.push(s.take_next().unwrap().unwrap());
    say(&mut first, "third");
    let refused = TakeError::AllHeld { max_held: 2 };
    assert_eq!(s.take_next().unwrap_err(), refused);
    drop((first, second));
    eventually(|| s.matched() == 0);
    assert_eq!(s.take_next().unwrap_err(), refused);
    assert_eq!(s.held(), 2);
    held.remove(0);
    let third = s.take_next().unwrap().unwrap();
    assert_eq!((text(&third), s.held()), ("third", 2));
    drop((held, third));
    assert_eq!((s.take_next().unwrap().is_none(), s.held()), (true, 0));
}

#[test]
fn loans_are_bounded_and_come_back() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |c| c.loans = 2);
    assert_eq!(p.loan(257).unwrap_err(), LoanError::TooLong { len: 257, max_payload: 256 });
    for _ in 0..100 {
        let x = p.loan(1).unwrap();
        let y = p.loan(1).unwrap();
        assert_eq!(p.loan(1).unwrap_err(), LoanError::TooManyLoans { loans: 2 });
        std::thread::spawn(move || drop(x)).join().unwrap();
        p.publish(y, &mut SampleHeader::stamped_now()).unwrap();
    }
    let mut q = publisher(&a, |_| {});
    let foreign = p.loan(1).unwrap();
    assert_eq!(
        q.publish(foreign, &mut SampleHeader::stamped_now()).unwrap_err(),
        PublishError::ForeignLoan
    );
    drop((p.loan(1).unwrap(), p.loan(1).unwrap()));
    let mut l = p.loan(200).unwrap();
    l.shrink(300);
    assert_eq!(l.len(), 200);
    l.shrink(3);
    assert_eq!(l.payload().len(), 3);
    drop(p);
    l.payload_mut().fill(1);
}

#[test]
fn copies_need_room_and_hold_nothing() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |_| {});
    let mut s = subscription(&a, |c| c.max_held = 1);
    eventually(|| p.matched() == 1 && s.matched() == 1);
    let mut buffer = [0; 8];
    assert!(s.copy_latest(&mut buffer).unwrap().is_none());
    say(&mut p, "0123456789");
    assert_eq!(
        s.copy_next(&mut buffer).unwrap_err(),
        TakeError::BufferTooShort { needed: 10, len: 8 }
    );
    assert!(s.has_unread(), "a copy that does not fit takes nothing");
    let mut buffer = [0; 16];
    let c = s.copy_next(&mut buffer).unwrap().unwrap();
    assert_eq!(&buffer[..c.header.payload_len as usize], b"0123456789");
    say(&mut p, "x");
    assert!(s.copy_latest(&mut buffer).unwrap().is_some());
}

#[test]
fn several_publishers_are_merged_by_publish_time() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |c| c.qos.depth = 4);
    let mut q = publisher(&a, |c| c.qos.depth = 4);
    let mut s = subscription(&a, |c| c.qos.depth = 4);
    eventually(|| p.matched() == 1 && q.matched() == 1 && s.matched() == 2);
    say_at(&mut p, 10, "p10");
    say_at(&mut p, 30, "p30");
    say_at(&mut q, 20, "q20");
    say_at(&mut q, 40, "q40");
    let order: Vec<String> =
        std::iter::from_fn(|| s.take_next().unwrap()).map(|x| text(&x).to_owned()).collect();
    assert_eq!(order, ["p10", "q20", "p30", "q40"]);
    say_at(&mut p, 50, "p50");
    say_at(&mut q, 60, "q60");
    assert_eq!(text(&s.take_latest().unwrap().unwrap()), "q60");
    assert!(s.take_latest().unwrap().is_none(), "what is older than the newest counts as missed");
    assert_eq!((s.stats().received, s.stats().missed), (5, 1));
}

#[test]
fn a_publisher_that_lies_about_its_times_does_not_displace_others() {
    let d = Domain::new();
    let a = d.join("a");
    let mut honest = publisher(&a, |c| c.qos.depth = 4);
    let mut liar = publisher(&a, |c| c.qos.depth = 4);
    let mut s = subscription(&a, |c| c.qos.depth = 4);
    eventually(|| honest.matched() == 1 && liar.matched() == 1 && s.matched() == 2);
    // The liar always claims to be the newest.
    for _ in 0..3 {
        say(&mut honest, "honest");
        say_at(&mut liar, u64::MAX, "lie");
        assert_eq!(text(&s.take_latest().unwrap().unwrap()), "honest");
    }
    while s.take_latest().unwrap().is_some() {}
    say_at(&mut liar, u64::MAX, "lie");
    assert_eq!(text(&s.take_latest().unwrap().unwrap()), "lie", "it is read if no other is unread");
    say(&mut honest, "honest");
    assert_eq!(text(&s.take_latest().unwrap().unwrap()), "honest", "still read after a lie");
    // The liar always claims to be the oldest, and always has another sample.
    say(&mut honest, "honest");
    let mut order = Vec::new();
    for i in 0..12 {
        say_at(&mut liar, 1 + i, "lie");
        order.extend(s.take_next().unwrap().map(|x| text(&x).to_owned()));
    }
    assert!(order.iter().any(|t| t == "honest"), "{order:?}");
}

#[test]
fn transient_local_gives_history_to_those_who_ask_for_it() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |c| {
        c.qos = Qos { depth: 3, durability: Durability::TransientLocal, ..Qos::default() }
    });
    for i in 0..5 {
        say(&mut p, &i.to_string());
    }
    let mut late = subscription(&a, |c| {
        c.qos = Qos { depth: 2, durability: Durability::TransientLocal, ..Qos::default() }
    });
    let mut volatile = subscription(&a, |c| c.qos.depth = 3);
    eventually(|| late.matched() == 1 && volatile.matched() == 1);
    let x = late.take_next().unwrap().unwrap();
    assert_eq!((text(&x), x.missed()), ("3", 0));
    assert_eq!(text(&late.take_next().unwrap().unwrap()), "4");
    assert!(volatile.take_next().unwrap().is_none());
}

#[test]
fn a_dead_publishers_last_samples_can_still_be_read() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut p = publisher(&a, |c| c.qos.depth = 3);
    let mut s = subscription(&b, |c| c.qos.depth = 3);
    eventually(|| p.matched() == 1 && s.matched() == 1);
    say(&mut p, "1");
    say(&mut p, "2");
    drop(p);
    eventually(|| s.matched() == 0);
    assert_eq!(text(&s.take_next().unwrap().unwrap()), "1");
    let mut q = publisher(&a, |_| {});
    eventually(|| q.matched() == 1 && s.matched() == 1);
    say(&mut q, "3");
    assert_eq!(text(&s.take_next().unwrap().unwrap()), "2");
    assert_eq!(text(&s.take_next().unwrap().unwrap()), "3");
    assert!(s.take_next().unwrap().is_none());
    assert_eq!(
        (s.stats().received, s.stats().missed),
        (3, 0),
        "the counters of a publisher that is gone are kept"
    );
}

/// Mappings of publishers' segments in this process with payloads of about `len` bytes.
fn mapped_segments(len: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let size = |line: &str| {
        let (from, to) = line.split_whitespace().next()?.split_once('-')?;
        Some(usize::from_str_radix(to, 16).ok()? - usize::from_str_radix(from, 16).ok()?)
    };
    maps.lines()
        .filter(|l| l.contains("driveline-segment") && size(l).is_some_and(|s| s >= len))
        .count()
}

#[test]
fn an_idle_reader_keeps_the_samples_of_the_dead_but_not_their_segments() {
    // No other test of this program has segments as long.
    let len = 12 << 20;
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut s = subscription(&b, |_| {});
    for i in 0..20 {
        let mut p = publisher(&a, |c| c.max_payload = 4 << 20);
        eventually(|| p.matched() == 1 && s.matched() == 1);
        say(&mut p, &i.to_string());
        drop(p);
        eventually(|| s.matched() == 0 && mapped_segments(len) == 0);
    }
    let stats = s.stats();
    assert_eq!((stats.received, stats.missed, stats.not_read), (0, 4, 16), "without a read");
    let read: Vec<_> =
        std::iter::from_fn(|| s.take_next().unwrap().map(|s| text(&s).to_owned())).collect();
    assert_eq!(read, (4..20).map(|i| i.to_string()).collect::<Vec<_>>());
    let stats = s.stats();
    assert_eq!((stats.received, stats.missed, stats.not_read), (16, 4, 0));
}

#[test]
fn mismatches_are_refused_at_both_ends_with_the_same_words() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |_| {});
    let mut wrong_type =
        subscription(&a, |c| c.schema = Schema::bytes("test/Other", "utf-8", "").into());
    let mut wrong_qos = subscription(&a, |c| c.qos.reliability = Reliability::Reliable);
    let mut too_hungry = subscription(&a, |c| c.max_held = 9);
    let any = subscription(&a, |c| c.schema = SchemaRequest::Any);
    let mut refused = Vec::new();
    eventually(|| {
        while let Some(e) = p.poll_event() {
            if let PublisherEvent::Refused { code, text } = e {
                refused.push((code, text));
            }
        }
        refused.len() >= 3
    });
    for (s, code, words) in [
        (&mut wrong_type, RefusalCode::Type, ["topic 't'", "test/Text", "test/Other"]),
        (&mut wrong_qos, RefusalCode::Qos, ["topic 't'", "RELIABILITY", "best_effort"]),
        (&mut too_hungry, RefusalCode::Pins, ["topic 't'", "9 pins", "of 8"]),
    ] {
        let mut event = None;
        eventually(|| {
            event = s.poll_event();
            event.is_some()
        });
        let Some(SubscriptionEvent::Refused { code: c, text }) = event else { panic!("{event:?}") };
        assert_eq!(c, code);
        for word in words {
            assert!(text.contains(word), "{text}");
        }
        assert!(refused.contains(&(code, text)));
    }
    eventually(|| any.matched() == 1);
    assert_eq!((p.stats().refused_type, p.stats().refused_qos), (1, 1));
}

#[test]
fn publishers_that_offer_something_else_are_passed_over_in_silence() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let reliable = |c: &mut PublisherConfig| c.qos.reliability = Reliability::Reliable;
    let (mut meant, mut other) = (publisher(&a, reliable), publisher(&a, |_| {}));
    let offering = |reliability| {
        move |c: &mut SubscriptionConfig| c.offering = Some((reliability, Durability::Volatile))
    };
    // The requested QoS is satisfied by both publishers, but `offering` selects only one.
    let mut of_reliable = subscription(&b, offering(Reliability::Reliable));
    let mut of_best_effort = subscription(&b, offering(Reliability::BestEffort));
    eventually(|| of_reliable.matched() == 1 && of_best_effort.matched() == 1);
    // A publisher counts a match only after its answer.
    eventually(|| meant.matched() == 1 && other.matched() == 1);
    say(&mut meant, "reliable");
    say(&mut other, "best effort");
    for (s, expected) in [(&mut of_reliable, "reliable"), (&mut of_best_effort, "best effort")] {
        assert_eq!(text(&s.take_next().unwrap().unwrap()), expected);
        assert!(s.take_next().unwrap().is_none());
        while let Some(e) = s.poll_event() {
            assert!(matches!(e, SubscriptionEvent::Matched { .. }), "{e:?}");
        }
        assert_eq!(s.refusal_source()(), [""; 0]);
    }
    for p in [&mut meant, &mut other] {
        while let Some(e) = p.poll_event() {
            assert!(matches!(e, PublisherEvent::Matched { .. }), "{e:?}");
        }
        assert_eq!((p.stats().refused_qos, p.stats().refused_other, p.matched()), (0, 0, 1));
    }
}

#[test]
fn freed_pins_are_given_to_those_who_were_refused() {
    let d = Domain::new();
    let a = d.join("a");
    let p = publisher(&a, |c| c.pins = 2);
    let first = subscription(&a, |_| {});
    eventually(|| p.matched() == 1 && first.matched() == 1);
    let second = subscription(&a, |_| {});
    let tool = subscription(&a, |c| {
        c.observer = true;
        c.max_held = 1;
    });
    eventually(|| tool.matched() == 1 && p.stats().refused_pins > 0);
    assert_eq!(second.matched(), 0);
    drop(first);
    eventually(|| second.matched() == 1);
}

#[test]
fn own_publishers_can_be_left_out() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut own = publisher(&a, |_| {});
    let mut s = subscription(&a, |c| c.own_process = OwnProcess::Exclude);
    let mut other = publisher(&b, |_| {});
    eventually(|| s.matched() == 1);
    // A publisher that was created later is matched, so the own one was skipped.
    let _later = publisher(&b, |_| {});
    eventually(|| s.matched() == 2);
    say(&mut own, "own");
    say(&mut other, "other");
    assert_eq!(text(&s.take_next().unwrap().unwrap()), "other");
    assert!(s.take_next().unwrap().is_none());
    assert_eq!((own.matched(), s.matched()), (0, 2));
}

#[test]
fn a_subscription_that_asks_for_checksums_matches_only_publishers_that_offer_them() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut without = publisher(&a, |_| {});
    let mut s = subscription(&b, |c| c.qos.checksum = true);
    let (mut told, mut said) = (None, None);
    eventually(|| {
        if let Some(PublisherEvent::Refused { code, text }) = without.poll_event() {
            told = Some((code, text));
        }
        if let Some(SubscriptionEvent::Refused { code, text }) = s.poll_event() {
            said = Some((code, text));
        }
        told.is_some() && said.is_some()
    });
    assert_eq!(told, said, "both ends read the same reason");
    let (code, text) = said.unwrap();
    assert_eq!(code, RefusalCode::Qos);
    for part in [
        "topic 't'",
        "'CHECKSUM'",
        "offers none",
        "requests XXH3-64",
        "set `qos.checksum: true` at the publisher",
    ] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert_eq!((without.matched(), s.matched(), without.stats().refused_qos), (0, 0, 1));
    let mut with = publisher(&a, |c| c.qos.checksum = true);
    eventually(|| with.matched() == 1 && s.matched() == 1);
    say(&mut without, "unverified");
    say(&mut with, "verified");
    assert_eq!(text_of_next(&mut s).as_deref(), Some("verified"));
    assert_eq!(text_of_next(&mut s), None);
    let plain = subscription(&b, |_| {});
    eventually(|| plain.matched() == 2);
}

fn text_of_next(s: &mut Subscription) -> Option<String> {
    s.take_next().unwrap().map(|x| text(&x).to_owned())
}

#[test]
fn lifespan_and_checksum_are_kept() {
    let d = Domain::new();
    let a = d.join("a");
    let mut p = publisher(&a, |c| {
        c.qos = Qos { depth: 3, lifespan_ms: Some(60_000), checksum: true, ..Qos::default() }
    });
    let mut s = subscription(&a, |c| c.qos = Qos { depth: 3, checksum: true, ..Qos::default() });
    eventually(|| p.matched() == 1 && s.matched() == 1);
    let loan = p.loan(10).unwrap();
    let old = MonotonicNs(MonotonicNs::now().0.saturating_sub(61_000_000_000).max(1));
    p.publish(loan, &mut SampleHeader { publish_time: old, ..SampleHeader::stamped_now() })
        .unwrap();
    say(&mut p, "young");
    let x = s.take_next().unwrap().unwrap();
    assert_eq!(text(&x), "young");
    assert!(x.header().checksum.is_some());
    if old.0 > 1 {
        assert_eq!((s.stats().expired, x.missed()), (1, 1));
    }
    assert_eq!(s.stats().corrupt_checksum, 0);
}

#[test]
fn nonsense_is_refused_at_creation() {
    let d = Domain::new();
    let a = d.join("a");
    let config = |f: &dyn Fn(&mut PublisherConfig)| {
        let mut c = PublisherConfig::new("t".parse().unwrap(), "n".parse().unwrap(), schema(), 10);
        f(&mut c);
        a.create_publisher(c).unwrap_err().to_string()
    };
    assert!(config(&|c| c.loans = 0).contains("loans"));
    assert!(config(&|c| c.qos.depth = 0).contains("depth"));
    assert!(config(&|c| c.pins = 1_000_000).contains("pins"));
    let e = config(&|c| c.max_payload = 1 << 35);
    assert!(e.contains("MiB are available") && e.contains("limit"), "{e}");
    let mut c = SubscriptionConfig::new("t".parse().unwrap(), "n".parse().unwrap(), schema());
    c.max_held = 0;
    assert!(a.create_subscription(c).unwrap_err().to_string().contains("max_held"));
}

#[test]
fn a_publish_that_has_waited_elsewhere_does_not_wait_again() {
    let d = Domain::new();
    let a = d.join("a");
    // Longer than `PATIENCE`: with a time-out of its own, the second publish would not return.
    let reliable = Qos {
        depth: 1,
        reliability: Reliability::Reliable,
        max_blocking_ms: 3_600_000,
        ..Qos::default()
    };
    let mut p = publisher(&a, |c| c.qos = reliable.clone());
    let s = subscription(&a, |c| c.qos = reliable.clone());
    eventually(|| p.matched() == 1 && s.matched() == 1);
    let now = MonotonicNs::now();
    for sequence in 1..=2 {
        let loan = p.loan(1).unwrap();
        let mut header = SampleHeader { sequence, ..SampleHeader::default() };
        p.publish_until(loan, &mut header, Some(now)).unwrap();
    }
    assert_eq!(p.stats().reliable_timeouts, 1);
}

#[test]
fn reliable_waits_for_the_reader_and_not_forever() {
    let d = Domain::new();
    let a = d.join("a");
    let reliable = Qos {
        depth: 2,
        reliability: Reliability::Reliable,
        max_blocking_ms: 60_000,
        ..Qos::default()
    };
    let mut p = publisher(&a, |c| c.qos = reliable.clone());
    let mut s = subscription(&a, |c| c.qos = reliable.clone());
    eventually(|| p.matched() == 1 && s.matched() == 1);
    const N: u64 = 2000;
    let writer = std::thread::spawn(move || {
        for i in 0..N {
            say(&mut p, &i.to_string());
        }
        p
    });
    let mut expected = 0;
    eventually(|| {
        while let Some(x) = s.take_next().unwrap() {
            assert_eq!((text(&x), x.missed()), (expected.to_string().as_str(), 0));
            expected += 1;
        }
        expected == N
    });
    let p = writer.join().unwrap();
    assert_eq!(p.stats().reliable_timeouts, 0);
    assert_eq!(s.stats().missed, 0);
    drop((p, s));

    let mut p = publisher(&a, |c| c.qos = Qos { max_blocking_ms: 10, ..reliable.clone() });
    let mut s = subscription(&a, |c| c.qos = reliable.clone());
    eventually(|| p.matched() == 1 && s.matched() == 1);
    for i in 0..20 {
        say(&mut p, &i.to_string());
    }
    assert_eq!(
        p.stats().reliable_timeouts,
        1,
        "a reader that does not read is waited for once, then not again until it reads"
    );
    assert_eq!(text(&s.take_next().unwrap().unwrap()), "18");
    // A slow reader that reads one sample for each published one never catches up.
    for i in 20..40 {
        say(&mut p, &i.to_string());
        s.take_next().unwrap().unwrap();
    }
    assert_eq!(
        p.stats().reliable_timeouts,
        1,
        "a reader that never reads everything is not waited for again"
    );
    while s.take_next().unwrap().is_some() {}
    for i in 40..50 {
        say(&mut p, &i.to_string());
    }
    assert_eq!(p.stats().reliable_timeouts, 2, "a reader that has read everything is");
    s.take_next().unwrap().unwrap();
    // A reader that leaves ends the wait.
    let mut p = publisher(&a, |c| c.qos = Qos { max_blocking_ms: 3_600_000, ..reliable.clone() });
    eventually(|| p.matched() == 1 && s.matched() == 2);
    let writer = std::thread::spawn(move || {
        for i in 0..3 {
            say(&mut p, &i.to_string());
        }
        p.stats().reliable_timeouts
    });
    // time: lets the writer begin its wait; a writer that waits later must not time out either
    std::thread::sleep(Duration::from_millis(20));
    drop(s);
    assert_eq!(writer.join().unwrap(), 0);
}

#[test]
fn deadlines_and_leases_are_watched() {
    let d = Domain::new();
    let a = d.join("a");
    let qos = Qos {
        deadline_ms: Some(20),
        liveliness: driveline_types::Liveliness::ManualByTopic,
        lease_ms: Some(30),
        ..Qos::default()
    };
    let mut p = publisher(&a, |c| c.qos = qos.clone());
    let mut s = subscription(&a, |c| c.qos = qos.clone());
    eventually(|| p.matched() == 1 && s.matched() == 1);
    say(&mut p, "the first deadline begins here");
    let (mut deadline, mut lost, mut gained) = (false, false, false);
    eventually(|| {
        if lost {
            p.assert_liveliness();
        }
        while let Some(e) = s.poll_event() {
            match e {
                SubscriptionEvent::DeadlineMissed { missed, total } => {
                    deadline |= missed > 0 && missed <= total
                }
                SubscriptionEvent::LivelinessLost { .. } => lost = true,
                SubscriptionEvent::LivelinessGained { .. } => gained |= lost,
                _ => {}
            }
        }
        deadline && lost && gained
    });
    assert!(p.stats().deadlines_missed > 0 && s.stats().deadlines_missed > 0);
}

/// Waits for counts, without a bound on time: as long as nothing is published, one deadline after
/// the other is missed.
#[test]
fn deadlines_count_from_the_first_sample_until_the_other_end_is_gone() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let qos = Qos { deadline_ms: Some(1), ..Qos::default() };
    let mut early = publisher(&a, |c| c.qos = qos.clone());
    say(&mut early, "from before the match");
    let mut silent = publisher(&a, |c| c.qos = qos.clone());
    let mut s = subscription(&b, |c| c.qos = qos.clone());
    eventually(|| s.matched() == 2 && early.stats().deadlines_missed > 20);
    assert_eq!(
        (silent.stats().deadlines_missed, s.stats().deadlines_missed),
        (0, 0),
        "nothing was published after the match"
    );
    say(&mut silent, "first");
    let (mut missed, mut total) = ((0, 0), (0, 0));
    eventually(|| {
        while let Some(e) = s.poll_event() {
            if let SubscriptionEvent::DeadlineMissed { missed: since, total: all } = e {
                missed.0 += since;
                total.0 = all;
            }
        }
        while let Some(e) = silent.poll_event() {
            if let PublisherEvent::DeadlineMissed { missed: since, total: all } = e {
                missed.1 += since;
                total.1 = all;
            }
        }
        total.0 > 150 && total.1 > 150
    });
    assert_eq!(missed, total, "each is reported once");
    drop(silent);
    eventually(|| s.matched() == 1);
    let ended = s.stats().deadlines_missed;
    assert!(ended >= total.0);
    let before = early.stats().deadlines_missed;
    eventually(|| early.stats().deadlines_missed > before + 20);
    assert_eq!(s.stats().deadlines_missed, ended, "a publisher that is gone misses none");
}

/// No bound on time: counts are compared with the periods that have passed.
#[test]
fn a_sample_of_any_publisher_meets_the_deadline() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    const LENGTH: Duration = Duration::from_millis(20);
    let qos = Qos { deadline_ms: Some(20), ..Qos::default() };
    let [mut silent, mut busy] = [(); 2].map(|()| publisher(&a, |c| c.qos = qos.clone()));
    let s = subscription(&b, |c| c.qos = qos.clone());
    eventually(|| s.matched() == 2);
    let missed = || s.stats().deadlines_missed;
    let periods = |since: std::time::Instant| since.elapsed().div_duration_f64(LENGTH) as u64;

    let (mut longest, mut last) = (0, std::time::Instant::now());
    say(&mut silent, "once");
    for _ in 0..100 {
        // time: the other publisher is silent for ten deadlines
        std::thread::sleep(Duration::from_millis(2));
        let now = std::time::Instant::now();
        say(&mut busy, "again");
        longest += periods(last);
        last = now;
    }
    assert!(missed() <= longest + periods(last), "a sample came every 2 ms");

    let before = missed();
    eventually(|| missed() >= before + 20);
    assert!(missed() <= before + periods(last), "both are silent: one miss in each period");
    let before = missed();
    drop(busy);
    eventually(|| s.matched() == 1 && missed() >= before + 5);
    assert!(missed() <= longest + periods(last), "silent since the start, yet no jump");
    let last = std::time::Instant::now();
    let before = missed();
    drop(silent);
    eventually(|| s.matched() == 0);
    let ended = missed();
    assert!(ended <= before + 1 + periods(last));
    // time: no publisher misses these deadlines
    std::thread::sleep(3 * LENGTH);
    assert_eq!(missed(), ended, "the count pauses");
}

#[test]
fn a_subscription_that_is_gone_misses_no_deadlines() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let qos = Qos { deadline_ms: Some(1), ..Qos::default() };
    let mut p = publisher(&a, |c| c.qos = qos.clone());
    let s = subscription(&b, |c| c.qos = qos.clone());
    eventually(|| s.matched() == 1);
    say(&mut p, "once");
    let view = s.publishers_view();
    let missed = || view.stats().deadlines_missed;
    eventually(|| missed() > 20);
    drop(s);
    eventually(|| view.list().is_empty());
    let ended = missed();
    eventually(|| p.stats().deadlines_missed > ended + 20);
    assert_eq!(missed(), ended);
}

#[test]
fn tools_see_everything() {
    let d = Domain::new();
    let (a, b) = (d.join("camera"), d.join("lane"));
    a.set_description("{\"x\":1}".into());
    let mut p = publisher(&a, |_| {});
    let mut s = subscription(&b, |_| {});
    let _bad = subscription(&b, |c| c.schema = Schema::bytes("other", "", "").into());
    eventually(|| p.matched() == 1 && s.matched() == 1 && p.stats().refused_type == 1);
    say(&mut p, "1");
    say(&mut p, "2");
    let held = s.take_latest().unwrap().unwrap();
    std::fs::write(d.0.path().join("stranger"), "x").unwrap();
    eventually(|| {
        let all = list(d.0.path(), PATIENCE).unwrap();
        let [camera, lane] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!(
            (camera.name.as_str(), camera.description.as_str(), lane.name.as_str()),
            ("camera", "{\"x\":1}", "lane")
        );
        assert_eq!(camera.id, a.id());
        let info = &camera.publishers[0];
        assert_eq!(
            (info.topic.as_str(), info.sequence, info.stats.published, info.pins_granted),
            ("t", 2, 2, 2)
        );
        let m = &info.matches[0];
        assert_eq!(
            (m.held.as_slice(), m.missed, m.subscription),
            ([2].as_slice(), Some(1), s.id())
        );
        assert_eq!(lane.subscriptions.len(), 2);
        lane.subscriptions.iter().any(|s| s.refusals.iter().any(|r| r.contains("other")))
    });
    drop(held);
}

#[test]
fn leftovers_of_the_dead_are_removed_and_nothing_of_ours_stays() {
    let d = Domain::new();
    for name in [
        "p-0000000000000001-000000000000000000000000000000aa",
        "r-000000000000000000000000000000aa",
        "i-000000000000000000000000000000aa",
        "t-000000000000000000000000000000aa",
    ] {
        // A socket whose owner is gone.
        drop(std::os::unix::net::UnixListener::bind(d.0.path().join(name)).unwrap());
    }
    std::fs::write(d.0.path().join("r-000000000000000000000000000000bb"), "not a socket").unwrap();
    let a = d.join("a");
    let p = publisher(&a, |_| {});
    let names = || {
        let mut n: Vec<String> = std::fs::read_dir(d.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        n.sort();
        n
    };
    // One in 256 of the participant's own names ends with "aa", too.
    eventually(|| !names().iter().any(|n| n.ends_with("0000aa")));
    drop((p, a));
    assert_eq!(names().iter().filter(|n| !n.ends_with("bb")).count(), 0, "{:?}", names());
}

#[test]
fn a_launcher_removes_the_leftovers_of_the_dead_and_nothing_else() {
    let d = Domain::new();
    let names = || std::fs::read_dir(d.0.path()).unwrap().count();
    let listen = |name: &str| UnixListener::bind(d.0.path().join(name)).unwrap();
    // No participant is alive, since it would remove names as well.
    let _alive = [
        listen("p-0000000000000001-000000000000000000000000000000bb"),
        listen("i-000000000000000000000000000000bb"),
    ];
    drop(listen("p-0000000000000001-000000000000000000000000000000aa"));
    drop(listen("i-000000000000000000000000000000aa"));
    assert_eq!((names(), remove_dead(d.0.path()).unwrap(), names()), (4, 2, 2));
    assert!(remove_dead(&d.0.path().join("none")).is_err());
}

#[test]
fn a_publisher_s_events_end_a_wait() {
    let d = Domain::new();
    let (a, b) = (d.join("a"), d.join("b"));
    let mut p = publisher(&a, |_| {});
    let mut set = WaitSet::new(WaitBackend::Auto).unwrap();
    p.kick_on_event(set.kicker());
    let s = subscription(&b, |_| {});
    let late = || MonotonicNs::now() + PATIENCE;
    assert_eq!(set.wait(Some(late()), Duration::ZERO), Wake::Kicked);
    assert!(matches!(p.poll_event(), Some(PublisherEvent::Matched { .. })));
    drop(s);
    assert_eq!(set.wait(Some(late()), Duration::ZERO), Wake::Kicked);
    assert!(matches!(p.poll_event(), Some(PublisherEvent::Unmatched { .. })));
}
