// SPDX-License-Identifier: Apache-2.0
//! A loan uses the memory of the newest sample again once no subscription can read that sample. It
//! never uses the memory of a sample that a subscription may still read.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use driveline_shm::*;
use driveline_types::{Durability, Qos, SampleHeader, Schema};
use std::time::{Duration, Instant};

const LEN: usize = limits::WITHDRAW_FROM;

struct Scene {
    _dir: tempfile::TempDir,
    participant: Participant,
    publisher: Publisher,
}

impl Scene {
    fn new(qos: Qos) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let participant = Participant::open(ParticipantConfig {
            domain_dir: Some(dir.path().into()),
            name: "p".into(),
        })
        .unwrap();
        let schema = Schema::bytes("test/Fill", "noise", "");
        let mut c =
            PublisherConfig::new("t".parse().unwrap(), "talker".parse().unwrap(), schema, LEN);
        c.qos = qos;
        let publisher = participant.create_publisher(c).unwrap();
        Self { _dir: dir, participant, publisher }
    }

    fn subscription(&mut self, qos: Qos) -> Subscription {
        let schema = Schema::bytes("test/Fill", "noise", "");
        let mut c =
            SubscriptionConfig::new("t".parse().unwrap(), "listener".parse().unwrap(), schema);
        c.qos = qos;
        let before = self.publisher.matched();
        let s = self.participant.create_subscription(c).unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        while self.publisher.matched() == before || s.matched() == 0 {
            assert!(Instant::now() < end, "no match");
            std::thread::yield_now();
        }
        s
    }

    /// Publishes a sample in which all bytes are `byte`. Returns the address of its payload.
    fn say(&mut self, len: usize, byte: u8) -> usize {
        let mut loan = self.publisher.loan(len).unwrap();
        loan.payload_mut().fill(byte);
        let at = loan.payload().as_ptr().addr();
        self.publisher.publish(loan, &mut SampleHeader::stamped_now()).unwrap();
        at
    }
}

#[track_caller]
fn whole(sample: &Sample, byte: u8) {
    assert!(sample.payload().iter().all(|b| *b == byte), "sample {byte}");
}

#[test]
fn what_everybody_has_read_and_given_back_is_filled_again() {
    let mut w = Scene::new(Qos::default());
    let (mut a, mut b) = (w.subscription(Qos::default()), w.subscription(Qos::default()));
    let first = w.say(LEN, 1);
    for byte in 2..10 {
        for s in [&mut a, &mut b] {
            whole(&s.take_latest().unwrap().unwrap(), byte - 1);
        }
        assert_eq!(w.say(LEN, byte), first, "sample {byte}");
    }
    for s in [a, b] {
        assert_eq!((s.stats().missed, s.stats().corrupt_index), (0, 0));
    }
}

#[test]
fn without_readers_one_slot_is_enough() {
    let mut w = Scene::new(Qos { depth: 5, ..Qos::default() });
    let first = w.say(LEN, 1);
    assert!((2..20).all(|byte| w.say(LEN, byte) == first));
}

#[test]
fn unread_samples_stay() {
    let mut w = Scene::new(Qos { depth: 2, ..Qos::default() });
    let qos = Qos { depth: 2, ..Qos::default() };
    let (mut quick, mut slow) = (w.subscription(qos.clone()), w.subscription(qos));
    w.say(LEN, 1);
    whole(&quick.take_next().unwrap().unwrap(), 1);
    w.say(LEN, 2);
    whole(&quick.take_next().unwrap().unwrap(), 2);
    let loan = w.publisher.loan(LEN).unwrap();
    whole(&slow.take_next().unwrap().unwrap(), 1);
    drop(loan);
    // Now only the second sample is unread.
    let mut loan = w.publisher.loan(LEN).unwrap();
    loan.payload_mut().fill(9);
    whole(&slow.take_next().unwrap().unwrap(), 2);
    assert_eq!((slow.stats().missed, slow.stats().corrupt_index), (0, 0));
}

#[test]
fn what_is_held_stays_and_is_filled_again_when_it_is_given_back() {
    let mut w = Scene::new(Qos::default());
    let mut s = w.subscription(Qos::default());
    let first = w.say(LEN, 1);
    let held = s.take_latest().unwrap().unwrap();
    let second = w.say(LEN, 2);
    assert_ne!(first, second);
    let copy = held.clone();
    drop(held);
    drop(s.take_latest().unwrap().unwrap());
    assert_eq!(w.say(LEN, 3), second);
    whole(&copy, 1);
    drop(copy);
    drop(s.take_latest().unwrap().unwrap());
    assert!((4..8).all(|byte| {
        let at = w.say(LEN, byte);
        drop(s.take_latest().unwrap().unwrap());
        at == first || at == second
    }));
}

#[test]
fn what_is_passed_over_counts_as_read() {
    let mut w = Scene::new(Qos { depth: 3, ..Qos::default() });
    let mut s = w.subscription(Qos { depth: 3, ..Qos::default() });
    w.say(LEN, 1);
    w.say(LEN, 2);
    let third = w.say(LEN, 3);
    let sample = s.take_latest().unwrap().unwrap();
    assert_eq!(sample.missed(), 2);
    drop(sample);
    assert_eq!(w.say(LEN, 4), third);
}

#[test]
fn who_comes_late_gets_what_it_is_entitled_to() {
    let transient = Qos { depth: 2, durability: Durability::TransientLocal, ..Qos::default() };
    let mut w = Scene::new(transient.clone());
    let mut s = w.subscription(Qos::default());
    let first = w.say(LEN, 1);
    drop(s.take_latest().unwrap().unwrap());
    assert_ne!(w.say(LEN, 2), first);
    drop(s.take_latest().unwrap().unwrap());
    // A transient-local publisher keeps its history even while a loan is out.
    let loan = w.publisher.loan(LEN).unwrap();
    let mut late = w.subscription(transient);
    for byte in [1, 2] {
        whole(&late.take_next().unwrap().unwrap(), byte);
    }
    drop(loan);

    let mut w = Scene::new(Qos::default());
    w.say(LEN, 1);
    let mut late = w.subscription(Qos::default());
    assert!(late.take_latest().unwrap().is_none(), "volatile: earlier samples do not come");
    w.say(LEN, 2);
    whole(&late.take_latest().unwrap().unwrap(), 2);
    assert_eq!((late.stats().missed, late.stats().corrupt_index), (0, 0));
}

#[test]
fn a_loan_that_is_dropped_or_too_much_costs_nothing() {
    let mut w = Scene::new(Qos::default());
    let mut s = w.subscription(Qos::default());
    w.say(LEN, 1);
    drop(s.take_latest().unwrap().unwrap());
    drop(w.publisher.loan(LEN).unwrap());
    assert!(s.take_latest().unwrap().is_none(), "nothing is new, and nothing is damaged");
    let all: Vec<_> = std::iter::from_fn(|| w.publisher.loan(LEN).ok()).collect();
    assert_eq!(all.len(), limits::DEFAULT_LOANS as usize);
    drop(all);
    w.say(LEN, 2);
    whole(&s.take_latest().unwrap().unwrap(), 2);
    assert_eq!((s.stats().missed, s.stats().corrupt_index), (0, 0));
}

#[test]
fn short_loans_do_not_look_at_what_readers_have_read() {
    let mut w = Scene::new(Qos::default());
    let mut s = w.subscription(Qos::default());
    let first = w.say(LEN - 1, 1);
    drop(s.take_latest().unwrap().unwrap());
    assert_ne!(w.say(LEN - 1, 2), first);
}
