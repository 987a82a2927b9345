// SPDX-License-Identifier: Apache-2.0
//! Sleeping and being woken, by both backends.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

mod patience;

use driveline_shm::*;
use driveline_types::{MonotonicNs, SampleHeader, Schema};
use patience::{PATIENCE, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

const BACKENDS: [WaitBackend; 2] = [WaitBackend::Auto, WaitBackend::Threads];

fn participant(d: &tempfile::TempDir) -> Participant {
    Participant::open(ParticipantConfig { domain_dir: Some(d.path().into()), name: "test".into() })
        .unwrap()
}

fn schema() -> Schema {
    Schema::bytes("test/Number", "le", "")
}

fn publisher(p: &Participant, topic: &str) -> Publisher {
    let mut c =
        PublisherConfig::new(topic.parse().unwrap(), "talker".parse().unwrap(), schema(), 64);
    c.qos.depth = 4;
    p.create_publisher(c).unwrap()
}

fn subscription(p: &Participant, topic: &str) -> Subscription {
    let mut c =
        SubscriptionConfig::new(topic.parse().unwrap(), "listener".parse().unwrap(), schema());
    c.qos.depth = 4;
    p.create_subscription(c).unwrap()
}

/// Waits until the wake-ups of a match are over. A control thread wakes the waiters of a match and
/// then answers tools, one after the other. So after its answer, the next wake-up has another
/// cause.
fn settled(d: &tempfile::TempDir, w: &mut WaitSet) {
    let all = list(d.path(), Duration::from_secs(60)).unwrap();
    assert!(!all.is_empty() && all.iter().all(|p| p.name == "test"));
    while w.wait(in_ms(1), Duration::ZERO) == Wake::Kicked {}
}

fn publish(p: &mut Publisher) {
    let loan = p.loan(8).unwrap();
    p.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
}

fn in_time() -> Option<MonotonicNs> {
    Some(MonotonicNs::now() + PATIENCE)
}

fn in_ms(ms: u64) -> Option<MonotonicNs> {
    Some(MonotonicNs::now() + Duration::from_millis(ms))
}

#[test]
fn time_kicks_and_data_end_a_wait() {
    for backend in BACKENDS {
        let d = tempfile::tempdir().unwrap();
        let a = participant(&d);
        let (mut p, mut s) = (publisher(&a, "t"), subscription(&a, "t"));
        let mut w = WaitSet::new(backend).unwrap();
        assert_eq!(w.wait(in_ms(1), Duration::ZERO), Wake::TimedOut);
        w.attach(&s).unwrap();
        w.attach(&s).unwrap();
        assert!(WaitSet::new(backend).unwrap().attach(&s).is_err());
        eventually(|| p.matched() == 1 && s.matched() == 1);
        settled(&d, &mut w);
        assert_eq!(w.wait(in_ms(2), Duration::ZERO), Wake::TimedOut);
        assert_eq!(w.wait(in_ms(2), Duration::MAX), Wake::TimedOut);
        let kicker = w.kicker();
        kicker.kick();
        kicker.kick();
        assert_eq!(w.wait(None, Duration::ZERO), Wake::Kicked);
        assert_eq!(w.wait(in_ms(2), Duration::ZERO), Wake::TimedOut);
        let t = std::thread::spawn(move || {
            // time: lets the wait begin; a wait that begins later must end as well
            std::thread::sleep(Duration::from_millis(20));
            kicker.kick();
        });
        assert_eq!(w.wait(None, Duration::ZERO), Wake::Kicked);
        t.join().unwrap();
        publish(&mut p);
        assert_eq!(w.wait(None, Duration::ZERO), Wake::Data);
        assert_eq!(w.wait(None, Duration::ZERO), Wake::Data, "as long as it is unread");
        w.set_muted(&s, true);
        assert_eq!(w.wait(in_ms(2), Duration::ZERO), Wake::TimedOut);
        w.set_muted(&s, false);
        assert_eq!(w.wait(None, Duration::MAX), Wake::Data);
        assert!(s.take_next().unwrap().is_some());
        let t = std::thread::spawn(move || {
            // time: lets the wait begin; a wait that begins later must end as well
            std::thread::sleep(Duration::from_millis(20));
            publish(&mut p);
            p
        });
        assert_eq!(w.wait(None, Duration::ZERO), Wake::Data);
        let p = t.join().unwrap();
        w.detach(&s);
        assert_eq!(w.wait(in_ms(2), Duration::ZERO), Wake::TimedOut);
        assert!(WaitSet::new(backend).unwrap().attach(&s).is_ok());
        drop(p);
    }
}

/// No wake-up is ever lost: reader and writer hand a turn back and forth through sleeping waits,
/// thousands of times.
#[test]
fn ping_pong_never_hangs() {
    for backend in BACKENDS {
        let d = tempfile::tempdir().unwrap();
        let (a, b) = (participant(&d), participant(&d));
        let (mut ping, mut pong) = (publisher(&a, "ping"), publisher(&b, "pong"));
        let (mut on_pong, mut on_ping) = (subscription(&a, "pong"), subscription(&b, "ping"));
        eventually(|| {
            ping.matched() == 1
                && pong.matched() == 1
                && on_ping.matched() == 1
                && on_pong.matched() == 1
        });
        const ROUNDS: u64 = 3000;
        let peer = std::thread::spawn(move || {
            let mut w = WaitSet::new(backend).unwrap();
            w.attach(&on_ping).unwrap();
            let mut n = 0;
            while n < ROUNDS {
                assert_ne!(w.wait(in_time(), Duration::ZERO), Wake::TimedOut, "round {n}");
                while let Some(s) = on_ping.take_next().unwrap() {
                    assert_eq!(s.missed(), 0);
                    n += 1;
                    publish(&mut pong);
                }
            }
            pong
        });
        let mut w = WaitSet::new(backend).unwrap();
        w.attach(&on_pong).unwrap();
        publish(&mut ping);
        let mut n = 0;
        while n < ROUNDS {
            assert_ne!(w.wait(in_time(), Duration::ZERO), Wake::TimedOut, "round {n}");
            while on_pong.take_next().unwrap().is_some() {
                n += 1;
                if n < ROUNDS {
                    publish(&mut ping);
                }
            }
        }
        peer.join().unwrap();
    }
}

/// Several sleepers on one word, and a writer that continues only when all have read: a lost
/// wake-up hangs the test.
#[test]
fn many_sleepers_are_all_woken_by_one_call() {
    for backend in BACKENDS {
        let d = tempfile::tempdir().unwrap();
        let a = participant(&d);
        let mut c =
            PublisherConfig::new("t".parse().unwrap(), "talker".parse().unwrap(), schema(), 64);
        c.pins = 16;
        let mut p = a.create_publisher(c).unwrap();
        const READERS: u64 = 6;
        const ROUNDS: u64 = 300;
        let done = Arc::new(AtomicU64::new(0));
        let readers: Vec<_> = (0..READERS)
            .map(|_| {
                let mut s = subscription(&a, "t");
                let done = Arc::clone(&done);
                std::thread::spawn(move || {
                    let mut w = WaitSet::new(backend).unwrap();
                    w.attach(&s).unwrap();
                    let mut last = 0;
                    while last < ROUNDS {
                        assert_ne!(
                            w.wait(in_time(), Duration::ZERO),
                            Wake::TimedOut,
                            "after {last}"
                        );
                        if let Some(x) = s.take_latest().unwrap() {
                            last = x.header().sequence;
                            done.fetch_add(1, SeqCst);
                        }
                    }
                })
            })
            .collect();
        eventually(|| p.matched() == READERS as usize);
        for round in 1..=ROUNDS {
            publish(&mut p);
            let end = Instant::now() + PATIENCE;
            while done.load(SeqCst) < round * READERS {
                assert!(Instant::now() < end, "a reader sleeps through sample {round}");
                std::thread::yield_now();
            }
        }
        for r in readers {
            r.join().unwrap();
        }
        assert!(
            p.stats().wake_calls <= ROUNDS,
            "{} calls for {ROUNDS} samples",
            p.stats().wake_calls
        );
    }
}

#[test]
fn no_sleeper_means_no_system_call() {
    let d = tempfile::tempdir().unwrap();
    let a = participant(&d);
    let (mut p, mut s) = (publisher(&a, "t"), subscription(&a, "t"));
    eventually(|| p.matched() == 1 && s.matched() == 1);
    for _ in 0..100 {
        publish(&mut p);
        s.take_latest().unwrap().unwrap();
    }
    assert_eq!(p.stats().wake_calls, 0);
}

#[test]
fn more_topics_than_one_call_can_wait_for() {
    const TOPICS: usize = 140;
    for backend in BACKENDS {
        let d = tempfile::tempdir().unwrap();
        let (a, b) = (participant(&d), participant(&d));
        let mut publishers: Vec<_> = (0..TOPICS).map(|i| publisher(&a, &format!("t{i}"))).collect();
        let mut subscriptions: Vec<_> =
            (0..TOPICS).map(|i| subscription(&b, &format!("t{i}"))).collect();
        eventually(|| {
            publishers.iter().all(|p| p.matched() == 1)
                && subscriptions.iter().all(|s| s.matched() == 1)
        });
        let mut w = WaitSet::new(backend).unwrap();
        for s in &subscriptions {
            w.attach(s).unwrap();
        }
        settled(&d, &mut w);
        let kicker = w.kicker();
        for i in [0, 1, 77, TOPICS - 1] {
            let mut p = publishers.remove(i);
            let t = std::thread::spawn(move || {
                // time: lets the wait begin; a wait that begins later must end as well
                std::thread::sleep(Duration::from_millis(5));
                publish(&mut p);
                p
            });
            assert_eq!(w.wait(in_time(), Duration::ZERO), Wake::Data);
            assert!(subscriptions[i].take_next().unwrap().is_some());
            publishers.insert(i, t.join().unwrap());
            assert_eq!(w.wait(in_ms(2), Duration::ZERO), Wake::TimedOut);
            kicker.kick();
            assert_eq!(w.wait(None, Duration::ZERO), Wake::Kicked);
        }
        // A muted one is passed over, by the wait threads too.
        w.set_muted(&subscriptions[5], true);
        publish(&mut publishers[5]);
        assert_eq!(w.wait(in_ms(10), Duration::ZERO), Wake::TimedOut);
        w.set_muted(&subscriptions[5], false);
        assert_eq!(w.wait(in_time(), Duration::ZERO), Wake::Data);
    }
}
