// SPDX-License-Identifier: Apache-2.0
//! The hunt for lost wake-ups between processes: each of two processes sleeps until the other has
//! published.

use crate::support::follower::pause;
use crate::support::peer::{publish, schema};
use crate::support::{Domain, PATIENCE, Random, eventually};
use driveline_shm::*;
use driveline_types::MonotonicNs;
use std::time::Duration;

/// A lost wake-up hangs this function; the deadline reports which one was lost.
fn ping_pong(backend: WaitBackend, word: &str, rounds: u64) {
    let d = Domain::new();
    let mut peer = d.peer("echo");
    peer.ask("subscription ping topic=ping");
    peer.ask("publisher pong topic=pong");
    peer.ask(&format!("echo ping pong {word}"));
    let own = Participant::open(ParticipantConfig {
        domain_dir: Some(d.path().into()),
        name: "ping".into(),
    })
    .unwrap();
    let mut ping = own
        .create_publisher(PublisherConfig::new(
            "ping".parse().unwrap(),
            "ping".parse().unwrap(),
            schema(),
            1024,
        ))
        .unwrap();
    let mut pong = own
        .create_subscription(SubscriptionConfig::new(
            "pong".parse().unwrap(),
            "ping".parse().unwrap(),
            schema(),
        ))
        .unwrap();
    eventually("both topics match", || ping.matched() == 1 && pong.matched() == 1);
    let mut set = WaitSet::new(backend).unwrap();
    set.attach(&pong).unwrap();
    let mut random = Random::new(4);
    for round in 1..=rounds {
        publish(&mut ping, 32);
        pause(&mut random);
        let deadline = Some(MonotonicNs::now() + PATIENCE);
        let answer = loop {
            assert_ne!(
                set.wait(deadline, Duration::ZERO),
                Wake::TimedOut,
                "a wake-up was lost in round {round}; echo lives: {}",
                peer.lives()
            );
            if let Some(s) = pong.take_next().unwrap() {
                break s;
            }
        };
        assert_eq!((answer.header().sequence, answer.missed()), (round, 0));
    }
    drop((set, pong, ping));
    peer.ask("halt ping");
    peer.quit();
}

#[test]
fn no_wake_up_is_lost_by_futex_waitv() {
    ping_pong(WaitBackend::FutexWaitv, "waitv", 70_000);
}

#[test]
fn no_wake_up_is_lost_by_helper_threads() {
    ping_pong(WaitBackend::Threads, "threads", 30_000);
}

/// Minimum number of wake-ups by data, and of those by kicks.
const ENOUGH: u64 = 500;

/// One waiter with two writers of its topic, kicks and short deadlines at the same time.
#[test]
fn data_kicks_and_deadlines_at_once_lose_nothing() {
    for backend in [WaitBackend::Auto, WaitBackend::Threads] {
        let d = Domain::new();
        let own = Participant::open(ParticipantConfig {
            domain_dir: Some(d.path().into()),
            name: "own".into(),
        })
        .unwrap();
        let mut s = own
            .create_subscription(SubscriptionConfig::new(
                "t".parse().unwrap(),
                "own".parse().unwrap(),
                schema(),
            ))
            .unwrap();
        let mut writers = [d.peer("one"), d.peer("two")];
        for w in &mut writers {
            w.ask("publisher p");
            w.ask("await p 1");
        }
        eventually("both match", || s.matched() == 2);
        let mut set = WaitSet::new(backend).unwrap();
        set.attach(&s).unwrap();
        let kicker = set.kicker();
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let told = std::sync::Arc::clone(&stop);
        let kicks = std::thread::spawn(move || {
            let mut n = 0u32;
            while !told.load(std::sync::atomic::Ordering::SeqCst) {
                kicker.kick();
                n += 1;
                // time: paces the kicks
                std::thread::sleep(Duration::from_micros(700));
            }
            n
        });
        for w in &mut writers {
            w.ask("flood p 500 300");
        }
        let (mut data, mut kicked) = (0u64, 0u32);
        let mut last = std::collections::HashMap::new();
        let end = MonotonicNs::now() + PATIENCE;
        while (data < ENOUGH || kicked < ENOUGH as u32) && MonotonicNs::now() < end {
            // time: waits that time out belong to the mixture
            match set.wait(Some(MonotonicNs::now() + Duration::from_millis(1)), Duration::ZERO) {
                Wake::Kicked => kicked += 1,
                Wake::Data => data += 1,
                Wake::TimedOut => {}
            }
            while let Some(x) = s.take_next().unwrap() {
                let before = last.insert(x.publisher(), x.header().sequence).unwrap_or(0);
                assert_eq!(x.header().sequence, before + 1 + x.missed());
            }
        }
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let sent = kicks.join().unwrap();
        assert!(data >= ENOUGH && kicked >= ENOUGH as u32, "{data} {kicked} {sent}");
        assert!(kicked <= sent + 20, "{kicked} wake-ups after {sent} kicks");
        // Kicks have ended. From now on only data wakes the waiter, and none of its wake-ups may be
        // lost.
        let published: u64 = writers.iter_mut().map(|w| w.number("halt p")).sum();
        let deadline = Some(MonotonicNs::now() + PATIENCE);
        while last.values().sum::<u64>() < published {
            assert_ne!(set.wait(deadline, Duration::ZERO), Wake::TimedOut);
            while let Some(x) = s.take_next().unwrap() {
                last.insert(x.publisher(), x.header().sequence);
            }
        }
        assert_eq!(s.stats().received + s.stats().missed, published);
    }
}
