// SPDX-License-Identifier: Apache-2.0
//! Threads of a peer that take all samples and verify each of them.

use super::payload;
use super::peer::publish;
use driveline_shm::*;
use driveline_types::{EndpointId, MonotonicNs};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

/// Samples that a following thread has seen so far.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) stop: AtomicBool,
    received: AtomicU64,
    missed: AtomicU64,
    last: AtomicU64,
    publishers: AtomicU64,
    pub(crate) matched: AtomicU64,
    /// Time when the first sample of the newest publisher was taken.
    since_ns: AtomicU64,
}

impl Progress {
    /// Returns the numbers `received missed last publishers matched since_ns`.
    pub(crate) fn text(&self) -> String {
        let all = [
            &self.received,
            &self.missed,
            &self.last,
            &self.publishers,
            &self.matched,
            &self.since_ns,
        ];
        all.map(|n| n.load(SeqCst).to_string()).join(" ")
    }
}

/// Reads one subscription until it is stopped.
pub(crate) struct Follower {
    pub(crate) sub: Subscription,
    pub(crate) set: WaitSet,
    pub(crate) progress: Arc<Progress>,
    pub(crate) next: bool,
    /// Memory for copies. Empty: samples are read in place.
    pub(crate) buffer: Vec<u8>,
    pub(crate) hold: usize,
    pub(crate) stall: Duration,
    pub(crate) spin: Duration,
    /// The one publisher whose samples must be whole; 0: all.
    pub(crate) trusted: EndpointId,
    pub(crate) sequences: HashMap<EndpointId, u64>,
}

impl Follower {
    pub(crate) fn run(&mut self) {
        let mut held = std::collections::VecDeque::new();
        while !self.progress.stop.load(SeqCst) {
            self.set.wait(None, self.spin);
            self.progress.matched.store(self.sub.matched() as u64, SeqCst);
            // A bound, so that a very fast publisher cannot keep this thread from being halted.
            for _ in 0..1000 {
                if self.buffer.is_empty() {
                    let taken =
                        if self.next { self.sub.take_next() } else { self.sub.take_latest() };
                    let Some(s) = taken.expect("a sample can be taken") else { break };
                    self.note(s.payload(), s.header().sequence, s.publisher(), s.missed());
                    if !self.stall.is_zero() {
                        // time: makes a slow reader
                        std::thread::sleep(self.stall);
                        self.verify(s.payload(), s.header().sequence, s.publisher());
                    }
                    held.push_back(s);
                    while held.len() > self.hold {
                        let Some(s) = held.pop_front() else { break };
                        self.verify(s.payload(), s.header().sequence, s.publisher());
                    }
                } else {
                    let mut buffer = std::mem::take(&mut self.buffer);
                    let taken = if self.next {
                        self.sub.copy_next(&mut buffer)
                    } else {
                        self.sub.copy_latest(&mut buffer)
                    };
                    let c = taken.expect("a sample can be copied");
                    if let Some(c) = &c {
                        self.note(
                            &buffer[..c.header.payload_len as usize],
                            c.header.sequence,
                            c.publisher,
                            c.missed,
                        );
                        // time: makes a slow reader
                        std::thread::sleep(self.stall);
                    }
                    self.buffer = buffer;
                    if c.is_none() {
                        break;
                    }
                }
                if self.progress.stop.load(SeqCst) {
                    break;
                }
            }
        }
        for s in held {
            self.verify(s.payload(), s.header().sequence, s.publisher());
        }
    }

    fn verify(&self, payload: &[u8], sequence: u64, publisher: EndpointId) {
        if self.trusted == EndpointId(0) || self.trusted == publisher {
            whole(payload, sequence, publisher);
        } else {
            // A liar's payload need not be whole, but reading it must do no harm.
            std::hint::black_box(payload.iter().fold(0u8, |a, b| a ^ b));
        }
    }

    fn note(&mut self, payload: &[u8], sequence: u64, publisher: EndpointId, missed: u64) {
        self.verify(payload, sequence, publisher);
        let p = &self.progress;
        let before = self.sequences.insert(publisher, sequence);
        assert!(before.is_none_or(|b| b < sequence), "sample {sequence} comes after {before:?}");
        if self.trusted != EndpointId(0) && self.trusted != publisher {
            return;
        }
        match before {
            Some(before) => {
                assert_eq!(missed, sequence - before - 1, "samples between {before} and {sequence}")
            }
            None => {
                p.since_ns.store(MonotonicNs::now().0, SeqCst);
                p.publishers.fetch_add(1, SeqCst);
            }
        }
        p.missed.fetch_add(missed, SeqCst);
        p.received.fetch_add(1, SeqCst);
        // Stored last: tests wait for this number and then compare the others.
        p.last.store(sequence, SeqCst);
    }
}

pub(crate) fn whole(payload: &[u8], sequence: u64, publisher: EndpointId) {
    if let Err(e) = payload::examine(payload, sequence, publisher) {
        panic!("{e}");
    }
}

pub(crate) fn check(s: &Sample) {
    whole(s.payload(), s.header().sequence, s.publisher());
}

/// Sleeps until a sample of one topic arrives, and answers it with a sample of another topic, again
/// and again, with irregular pauses.
pub(crate) fn echo(
    sub: &mut Subscription,
    publisher: &mut Publisher,
    set: &mut WaitSet,
    stop: &AtomicBool,
) {
    let mut random = super::Random::new(3);
    while !stop.load(SeqCst) {
        set.wait(None, Duration::ZERO);
        while let Some(s) = sub.take_next().expect("a sample can be taken") {
            assert_eq!(s.missed(), 0, "each ping is answered before the next");
            check(&s);
            pause(&mut random);
            publish(publisher, payload::LEAST);
        }
        pause(&mut random);
    }
}

/// Spins for up to some microseconds, so that the two sides meet at every point of their code.
pub(crate) fn pause(random: &mut super::Random) {
    for _ in 0..random.below(300) {
        std::hint::spin_loop();
    }
}
