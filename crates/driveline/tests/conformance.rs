// SPDX-License-Identifier: Apache-2.0
//! Requirements that each transport must meet: inside a process, and over shared memory.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use driveline::types::{Durability, MonotonicNs, Qos, Reliability, Schema, VirtualClock};
use driveline::{
    Context, ContextOptions, EndpointEvent, LoanError, Node, PublisherOptions, RawPublisher,
    RawSubscription, Reach, SubscriptionOptions, TakeError, WaitMode,
};
use std::time::Duration;

/// Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(60);

struct Rig {
    /// At host reach, two contexts represent two processes. At process reach there is one context.
    sender: Node,
    receiver: Node,
    reach: Reach,
    _dir: tempfile::TempDir,
}

fn rig(reach: Reach) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let context = |name: &str| {
        Context::new(ContextOptions {
            name: name.into(),
            domain_dir: Some(dir.path().join("domain")),
        })
        .unwrap()
    };
    let first = context("sender");
    let second = if reach == Reach::Host { context("receiver") } else { first.clone() };
    Rig {
        sender: first.node("sender").unwrap(),
        receiver: second.node("receiver").unwrap(),
        reach,
        _dir: dir,
    }
}

fn bytes() -> Schema {
    Schema::bytes("test", "raw", "")
}

impl Rig {
    fn publisher(&self, qos: Qos) -> RawPublisher {
        self.publisher_of(bytes(), qos)
    }
    fn publisher_of(&self, schema: Schema, qos: Qos) -> RawPublisher {
        let options = PublisherOptions {
            reach: self.reach,
            qos,
            max_payload: 4096,
            pins: 16,
            ..Default::default()
        };
        self.sender.raw_publisher("topic", schema, options).unwrap()
    }
    fn subscription(&self, qos: Qos) -> RawSubscription {
        self.subscription_of(bytes(), qos)
    }
    fn subscription_of(&self, schema: Schema, qos: Qos) -> RawSubscription {
        self.receiver
            .raw_subscription(
                "topic",
                schema,
                SubscriptionOptions { reach: self.reach, qos, ..Default::default() },
            )
            .unwrap()
    }
    fn pair(&self, publisher: Qos, subscription: Qos) -> (RawPublisher, RawSubscription) {
        let mut p = self.publisher(publisher);
        let s = self.subscription(subscription);
        until("matched", || p.matched() == 1 && s.matched() == 1);
        (p, s)
    }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = MonotonicNs::real_now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::real_now() < deadline, "not {what} within {PATIENCE:?}");
        // time: a pause between polls; the test fails only after 60 s
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Waits until a thread of this process sleeps in the kernel.
fn asleep(thread: rustix::process::Pid) {
    let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    until("asleep", || {
        std::fs::read_to_string(&stat)
            .is_ok_and(|s| s.rsplit(')').next().is_some_and(|s| s.starts_with(" S")))
    });
}

/// Sends a sample to a reader that waits for it already.
fn wakes_a_waiting_reader(p: &mut RawPublisher, s: &mut RawSubscription, mode: WaitMode) {
    let (begins, begun) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(move || {
            begins.send(rustix::thread::gettid()).unwrap();
            s.wait(Some(PATIENCE), mode).unwrap()
        });
        let thread = begun.recv_timeout(PATIENCE).unwrap();
        // A reader that spins never sleeps.
        if mode != WaitMode::Spin {
            asleep(thread);
        }
        send(p, 1);
        assert!(waiting.join().unwrap());
    });
}

/// Returns the number of waits for reliable readers so far, and of waits that timed out.
fn waits(publisher: &RawPublisher) -> (u64, u64) {
    let blocked = publisher.published_counter().blocked();
    (blocked.waits, blocked.timeouts)
}

fn depth(depth: u32) -> Qos {
    Qos { depth, ..Qos::default() }
}

fn send(publisher: &mut RawPublisher, value: u8) -> u64 {
    let mut loan = publisher.loan(3).unwrap();
    loan.payload_mut().copy_from_slice(&[value; 3]);
    publisher.publish(loan).unwrap()
}

fn receive(subscription: &mut RawSubscription) -> Option<(u8, u64, u64)> {
    let sample = subscription.take().unwrap()?;
    let payload = sample.payload().unwrap();
    assert_eq!(payload, [payload[0]; 3]);
    assert_eq!(sample.header().payload_len, 3);
    Some((payload[0], sample.header().sequence, sample.missed()))
}

macro_rules! conformance {
    ($($(#[$doc:meta])* fn $name:ident($rig:ident: &Rig) $body:block)*) => {
        $(fn $name($rig: &Rig) $body)*
        mod process_reach {
            $(#[test] fn $name() { super::$name(&super::rig(super::Reach::Process)); })*
        }
        mod host_reach { $(#[test] fn $name() { super::$name(&super::rig(super::Reach::Host)); })* }
    };
}

conformance! {
    fn samples_arrive_in_order_with_their_numbers(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(8), depth(8));
        for v in 1..=5 {
            assert_eq!(send(&mut p, v), u64::from(v));
        }
        for v in 1..=5u8 {
            assert_eq!(receive(&mut s), Some((v, u64::from(v), 0)));
        }
        assert_eq!(receive(&mut s), None);
    }

    fn the_newest_wins_and_what_was_missed_is_said(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(1), depth(1));
        for v in 1..=7 {
            send(&mut p, v);
        }
        assert_eq!(receive(&mut s), Some((7, 7, 6)));
        assert_eq!(s.stats().missed, 6);
        assert_eq!(s.stats().received, 1);
    }

    fn latest_skips_and_counts(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(8), depth(8));
        for v in 1..=3 {
            send(&mut p, v);
        }
        let sample = s.latest().unwrap().unwrap();
        assert_eq!((sample.payload().unwrap()[0], sample.missed()), (3, 2));
        assert!(s.latest().unwrap().is_none());
    }

    fn a_subscription_lags_no_further_than_its_own_depth(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(8), depth(2));
        for v in 1..=6 {
            send(&mut p, v);
        }
        assert_eq!(receive(&mut s), Some((5, 5, 4)));
        assert_eq!(receive(&mut s), Some((6, 6, 0)));
    }

    fn held_samples_stay_whole_and_only_so_many_may_be_held(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(4), depth(4));
        send(&mut p, 1);
        let first = s.take().unwrap().unwrap();
        let again = first.clone();
        send(&mut p, 2);
        let second = s.take().unwrap().unwrap();
        for v in 3..100 {
            send(&mut p, v);
        }
        let refused = s.take().unwrap_err();
        assert!(refused.to_string().contains("held"), "{refused}");
        assert!(s.has_unread(), "nothing is lost by it");
        assert_eq!((first.payload().unwrap()[0], second.payload().unwrap()[0]), (1, 2));
        drop(first);
        assert!(s.take().is_err(), "a clone still holds it");
        drop(again);
        assert_eq!(receive(&mut s).unwrap().0, 96);
        drop(s);
        assert_eq!(second.payload().unwrap(), [2; 3], "a sample outlives its subscription");
    }

    fn a_late_volatile_subscription_starts_with_the_next_sample(r: &Rig) {
        let mut p = r.publisher(depth(4));
        send(&mut p, 1);
        let mut s = r.subscription(depth(4));
        until("matched", || p.matched() == 1 && s.matched() == 1);
        assert_eq!(receive(&mut s), None);
        send(&mut p, 2);
        assert_eq!(receive(&mut s), Some((2, 2, 0)));
    }

    fn a_late_transient_local_subscription_gets_the_last_samples_once(r: &Rig) {
        let history =
            |depth| Qos { depth, durability: Durability::TransientLocal, ..Qos::default() };
        let mut p = r.publisher(history(3));
        for v in 1..=5 {
            send(&mut p, v);
        }
        let mut s = r.subscription(history(3));
        until("matched", || p.matched() == 1 && s.matched() == 1);
        for v in 3..=5u8 {
            assert_eq!(receive(&mut s), Some((v, u64::from(v), 0)));
        }
        assert_eq!(receive(&mut s), None);
        send(&mut p, 6);
        assert_eq!(receive(&mut s), Some((6, 6, 0)));
    }

    fn a_reliable_publisher_waits_a_bounded_time_and_then_goes_on(r: &Rig) {
        let reliable = Qos {
            depth: 2,
            reliability: Reliability::Reliable,
            max_blocking_ms: 30,
            ..Qos::default()
        };
        let (mut p, mut s) = r.pair(reliable.clone(), reliable);
        send(&mut p, 1);
        send(&mut p, 2);
        send(&mut p, 3);
        let first = receive(&mut s).unwrap();
        assert_eq!((first.0, first.2), (2, 1), "the oldest gave way, and is counted");
        let blocked = p.published_counter().blocked();
        assert_eq!((blocked.waits, blocked.timeouts), (1, 1));
        assert!(blocked.blocked_ns >= 30_000_000, "it waited for the reader: {blocked:?}");
        until("reported to the publisher", || match p.poll_event() {
            Some(EndpointEvent::ReliableTimeout { text, timeouts, total }) => {
                assert_eq!((timeouts, total), (1, 1));
                for part in [
                    "topic 'topic'",
                    "30 ms (`max_blocking_ms`)",
                    "'receiver'",
                    "raise `qos.depth`",
                ] {
                    assert!(text.contains(part), "{part} is missing: {text}");
                }
                true
            }
            _ => false,
        });
    }

    fn a_reader_that_was_waited_for_in_vain_is_not_waited_for_again_before_it_reads(r: &Rig) {
        let reliable = Qos {
            depth: 1,
            reliability: Reliability::Reliable,
            max_blocking_ms: 50,
            ..Qos::default()
        };
        let (mut p, mut s) = r.pair(reliable.clone(), reliable);
        for v in 0..60 {
            send(&mut p, v);
        }
        assert_eq!(waits(&p), (1, 1));
        assert_eq!(receive(&mut s), Some((59, 60, 59)));
        send(&mut p, 60);
        send(&mut p, 61);
        assert_eq!(waits(&p), (2, 2), "it reads again, so it is waited for again");
    }

    fn a_reader_that_crawls_costs_one_wait_and_not_one_for_every_step(r: &Rig) {
        let reliable = Qos {
            depth: 3,
            reliability: Reliability::Reliable,
            max_blocking_ms: 50,
            ..Qos::default()
        };
        let (mut p, mut s) = r.pair(reliable.clone(), reliable);
        for v in 0..4 {
            send(&mut p, v);
        }
        for v in 4..44 {
            assert!(receive(&mut s).is_some());
            send(&mut p, v);
            send(&mut p, v);
        }
        assert_eq!(waits(&p), (1, 1));
    }

    fn the_parts_of_an_age_add_up_also_when_the_publisher_had_to_wait(r: &Rig) {
        let reliable = Qos {
            depth: 1,
            reliability: Reliability::Reliable,
            max_blocking_ms: 20,
            ..Qos::default()
        };
        let (mut p, mut s) = r.pair(reliable.clone(), reliable);
        for v in 0..3 {
            let mut loan = p.loan(1).unwrap();
            loan.payload_mut()[0] = v;
            loan.set_source_time(MonotonicNs(MonotonicNs::now().0 - 1_000_000));
            p.publish(loan).unwrap();
            if v == 0 {
                continue;
            }
            let sample = s.take().unwrap().unwrap();
            let (header, origin) = (sample.header(), sample.header().origins.as_slice()[0]);
            let parts = origin.communication_ns + origin.computation_ns + origin.idle_ns;
            assert_eq!(parts, origin.age_ns(header.publish_time));
        }
    }

    fn a_reliable_publisher_goes_on_as_soon_as_there_is_room(r: &Rig) {
        let reliable = Qos {
            depth: 1,
            reliability: Reliability::Reliable,
            max_blocking_ms: 60_000,
            ..Qos::default()
        };
        let (mut p, mut s) = r.pair(reliable.clone(), reliable);
        let reader = std::thread::spawn(move || {
            let mut got = Vec::new();
            while got.len() < 50 {
                assert!(s.wait(Some(PATIENCE), WaitMode::Block).unwrap());
                while let Some((v, _, missed)) = receive(&mut s) {
                    assert_eq!(missed, 0);
                    got.push(v);
                }
            }
            got
        });
        for v in 0..50 {
            send(&mut p, v);
        }
        assert_eq!(reader.join().unwrap(), (0..50).collect::<Vec<u8>>());
    }

    fn a_waiting_reader_is_woken_and_a_time_out_is_kept(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(1), depth(1));
        // time: nothing is sent, so only the time-out ends it
        assert!(!s.wait(Some(Duration::from_millis(5)), WaitMode::Block).unwrap());
        for mode in
            [WaitMode::Block, WaitMode::Spin, WaitMode::SpinThenBlock(Duration::from_micros(50))]
        {
            wakes_a_waiting_reader(&mut p, &mut s, mode);
            assert!(receive(&mut s).is_some());
        }
    }

    fn the_descriptor_is_readable_exactly_while_samples_wait(r: &Rig) {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let (mut p, mut s) = r.pair(depth(4), depth(4));
        let readable = |s: &mut RawSubscription, ms: i64| {
            let fd = s.fd().unwrap();
            let timeout = Timespec { tv_sec: ms / 1000, tv_nsec: ms % 1000 * 1_000_000 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
        };
        assert!(!readable(&mut s, 5));
        for round in 0..20 {
            send(&mut p, round);
            send(&mut p, round);
            assert!(readable(&mut s, 60_000));
            receive(&mut s).unwrap();
            assert!(readable(&mut s, 60_000), "one is left");
            receive(&mut s).unwrap();
            assert_eq!(receive(&mut s), None);
            assert!(!readable(&mut s, 3));
        }
    }

    fn the_descriptor_stays_when_the_reader_waits_by_other_means(r: &Rig) {
        use std::os::fd::AsRawFd;
        let (mut p, mut s) = r.pair(depth(4), depth(4));
        let before = s.fd().unwrap().as_raw_fd();
        // time: nothing is sent, so only the time-out ends it
        assert!(!s.wait(Some(Duration::from_millis(5)), WaitMode::Block).unwrap());
        for mode in [WaitMode::Block, WaitMode::SpinThenBlock(Duration::from_micros(50))] {
            wakes_a_waiting_reader(&mut p, &mut s, mode);
            assert!(receive(&mut s).is_some());
        }
        assert_eq!(s.fd().unwrap().as_raw_fd(), before);
    }

    fn a_reader_that_holds_its_last_sample_gets_the_next_after_it_lets_go(r: &Rig) {
        let mut p = r.publisher(depth(1));
        let options = SubscriptionOptions { reach: r.reach, max_held: 1, ..Default::default() };
        let mut s = r.receiver.raw_subscription("topic", bytes(), options).unwrap();
        until("matched", || p.matched() == 1 && s.matched() == 1);
        send(&mut p, 1);
        let held = s.latest().unwrap().unwrap();
        send(&mut p, 2);
        assert!(
            s.latest().is_err_and(|e| e.to_string().contains("topic")),
            "one is all it may hold"
        );
        send(&mut p, 3);
        drop(held);
        assert_eq!(
            s.latest().unwrap().map(|x| (x.payload().unwrap()[0], x.missed())),
            Some((3, 1))
        );
    }

    fn two_publishers_are_merged_by_time(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(8), depth(8));
        let mut q = r.publisher(depth(8));
        until("matched", || q.matched() == 1 && s.matched() == 2);
        for v in 0..6 {
            send(if v % 2 == 0 { &mut p } else { &mut q }, v);
        }
        let got: Vec<_> =
            std::iter::from_fn(|| receive(&mut s)).map(|(v, _, missed)| (v, missed)).collect();
        assert_eq!(got, (0..6).map(|v| (v, 0)).collect::<Vec<_>>());
        send(&mut p, 10);
        send(&mut q, 11);
        assert_eq!(s.latest().unwrap().unwrap().payload().unwrap()[0], 11);
    }

    fn every_subscription_of_a_topic_gets_every_sample(r: &Rig) {
        let mut p = r.publisher(depth(4));
        let mut all: Vec<_> = (0..5).map(|_| r.subscription(depth(4))).collect();
        until("matched", || p.matched() == 5);
        send(&mut p, 1);
        send(&mut p, 2);
        for s in &mut all {
            until("matched", || s.matched() == 1);
            assert_eq!((receive(s), receive(s)), (Some((1, 1, 0)), Some((2, 2, 0))));
        }
    }

    fn silence_beyond_the_deadline_is_reported_at_both_ends(r: &Rig) {
        let qos = Qos { deadline_ms: Some(30), ..depth(1) };
        let (mut p, mut s) = r.pair(qos.clone(), qos);
        let missed = |e: Option<EndpointEvent>| match e {
            Some(EndpointEvent::DeadlineMissed { text, missed, total }) => {
                assert!(missed > 0 && missed <= total);
                assert!(text.starts_with("topic 'topic': ") && text.contains("30 ms"), "{text}");
                true
            }
            _ => false,
        };
        send(&mut p, 1);
        receive(&mut s).unwrap();
        until("reported to the publisher", || missed(p.poll_event()));
        until("reported to the subscription", || missed(s.poll_event()));
    }

    fn a_publisher_without_signs_of_life_is_lost_and_comes_back(r: &Rig) {
        let qos = Qos {
            liveliness: driveline::types::Liveliness::ManualByTopic,
            lease_ms: Some(40),
            ..depth(1)
        };
        let (mut p, mut s) = r.pair(qos.clone(), qos);
        send(&mut p, 1);
        until("lost", || matches!(s.poll_event(), Some(EndpointEvent::LivelinessLost { .. })));
        until("reported to the publisher", || {
            matches!(p.poll_event(), Some(EndpointEvent::LivelinessLost { .. }))
        });
        until("back", || {
            p.assert_liveliness();
            matches!(s.poll_event(), Some(EndpointEvent::LivelinessGained { .. }))
        });
    }

    fn a_type_mismatch_is_refused_at_both_ends_by_name(r: &Rig) {
        let mut p = r.publisher_of(Schema::bytes("test", "json", ""), depth(1));
        let mut s = r.subscription(depth(1));
        let mut texts = Vec::new();
        until("refused at both ends", || {
            let events = [p.poll_event(), s.poll_event()];
            texts.extend(events.into_iter().flatten().filter_map(|e| {
                if let EndpointEvent::Refused { text } = e { Some(text) } else { None }
            }));
            texts.len() >= 2
        });
        for text in texts {
            assert!(
                text.contains("'topic'") && text.contains("json") && text.contains("raw"),
                "{text}"
            );
        }
        assert_eq!((p.matched(), s.matched()), (0, 0));
    }

    fn a_qos_mismatch_is_refused_at_both_ends_by_policy(r: &Rig) {
        let mut p = r.publisher(depth(1));
        let mut s = r.subscription(Qos { reliability: Reliability::Reliable, ..depth(1) });
        let mut texts = Vec::new();
        until("refused at both ends", || {
            let events = [p.poll_event(), s.poll_event()];
            texts.extend(events.into_iter().flatten().filter_map(|e| {
                if let EndpointEvent::Refused { text } = e { Some(text) } else { None }
            }));
            texts.len() >= 2
        });
        assert!(texts.iter().all(|t| t.contains("RELIABILITY")), "{texts:?}");
    }

    fn a_publisher_without_checksums_is_refused_at_both_ends_where_they_are_asked_for(r: &Rig) {
        let asks = Qos { checksum: true, ..depth(1) };
        let mut p = r.publisher(depth(1));
        let mut s = r.subscription(asks.clone());
        let mut texts = Vec::new();
        until("refused at both ends", || {
            let events = [p.poll_event(), s.poll_event()];
            texts.extend(events.into_iter().flatten().filter_map(|e| {
                if let EndpointEvent::Refused { text } = e { Some(text) } else { None }
            }));
            texts.len() >= 2
        });
        for part in [
            "'topic'",
            "CHECKSUM",
            "offers none",
            "requests XXH3-64",
            "`qos.checksum: true` at the publisher",
        ] {
            assert!(texts.iter().all(|t| t.contains(part)), "{part} is missing: {texts:?}");
        }
        assert_eq!((p.matched(), s.matched()), (0, 0));
        drop((p, s));
        let (mut p, mut s) = rig(r.reach).pair(asks.clone(), asks);
        send(&mut p, 4);
        let sample = s.take().unwrap().unwrap();
        assert_eq!(sample.payload().unwrap(), [4; 3]);
        assert_eq!(
            sample.header().checksum.is_some(),
            r.reach == Reach::Host,
            "no bytes travel inside a process"
        );
    }

    fn matches_come_and_go_with_events(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(1), depth(1));
        until("reported to the subscription", || {
            s.poll_event() == Some(EndpointEvent::Matched { peer: "sender".into() })
        });
        until("reported to the publisher", || {
            p.poll_event() == Some(EndpointEvent::Matched { peer: "receiver".into() })
        });
        drop(p);
        until("unmatched", || s.matched() == 0);
        until("told", || {
            s.poll_event() == Some(EndpointEvent::Unmatched { peer: "sender".into() })
        });
        let mut again = r.publisher(depth(1));
        until("matched again", || again.matched() == 1 && s.matched() == 1);
        send(&mut again, 9);
        until("delivered", || s.has_unread());
        assert_eq!(receive(&mut s), Some((9, 1, 0)));
    }

    fn loans_are_bounded_and_come_back(r: &Rig) {
        let (mut p, mut s) = r.pair(depth(1), depth(1));
        let (a, b) = (p.loan(1).unwrap(), p.loan(1).unwrap());
        assert!(p.loan(1).is_err());
        drop(a);
        drop(b);
        assert!(p.loan(4097).is_err_and(|e: LoanError| e.to_string().contains("4096")));
        for v in 0..50 {
            drop(p.loan(8).unwrap());
            send(&mut p, v);
        }
        assert_eq!(receive(&mut s).map(|x| x.0), Some(49));
    }

    fn an_expired_sample_is_not_delivered(r: &Rig) {
        let clock = VirtualClock::starting_at(MonotonicNs(1 << 40));
        let _entered = clock.enter();
        for (lifespan_ms, delivered) in [(20, None), (3_600_000, Some((1, 1, 0)))] {
            let qos = Qos { lifespan_ms: Some(lifespan_ms), ..depth(4) };
            let (mut p, mut s) = rig(r.reach).pair(qos.clone(), qos);
            send(&mut p, 1);
            clock.advance(Duration::from_millis(40));
            assert_eq!(receive(&mut s), delivered, "{lifespan_ms} ms");
        }
    }

    fn receiving_goes_on_when_only_an_expired_sample_waits(r: &Rig) {
        let clock = VirtualClock::starting_at(MonotonicNs(1 << 40));
        let _entered = clock.enter();
        let qos = Qos { lifespan_ms: Some(20), ..depth(4) };
        for _ in 0..20 {
            let (mut p, mut s) = rig(r.reach).pair(qos.clone(), qos.clone());
            send(&mut p, 1);
            clock.advance(Duration::from_millis(40));
            assert!(s.wait(Some(PATIENCE), WaitMode::Block).unwrap(), "unread, expired or not");
            let begin = std::sync::Barrier::new(2);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    let _entered = clock.enter();
                    begin.wait();
                    send(&mut p, 2);
                });
                begin.wait();
                let sample = s.receive(Some(PATIENCE), WaitMode::Block).unwrap().unwrap();
                assert_eq!(sample.payload(), Some(&[2; 3][..]));
            });
            send(&mut p, 3);
            clock.advance(Duration::from_millis(40));
            let none = s.receive(Some(Duration::ZERO), WaitMode::Block).unwrap();
            assert!(none.is_none() && s.stats().expired >= 1, "{:?}", s.stats());
        }
    }
}

#[test]
fn take_errors_name_the_topic() {
    let e = TakeError::HeldLimit { topic: "camera".into(), held: 2 };
    assert!(e.to_string().contains("'camera'") && e.to_string().contains("max_held"));
}
