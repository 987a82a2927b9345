// SPDX-License-Identifier: Apache-2.0
//! Loss is never silent. At every reach, after every step of any schedule: published after the
//! match = received + missed + superseded + expired + corrupt + refused + lost on the way + not
//! read. (Here no component is inactive and no publisher is a standby.) `missed` of a sample counts
//! only samples of the same publisher.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use driveline::types::{MonotonicNs, Qos, Schema, VirtualClock};
use driveline::{
    CallbackOptions, Context, ContextOptions, Executor, ExecutorOptions, GroupKind, Node,
    PublisherOptions, RawPublisher, RawSample, RawSubscription, Reach, SubscriptionOptions,
    SubscriptionStats, Trigger,
};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Only a failure takes that long.
const PATIENCE: Duration = Duration::from_secs(60);
const LIFESPAN_MS: u32 = 10;

/// Place of the publishers of a schedule, relative to the subscription.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Placement {
    Process,
    Host,
    /// Publishers with an even index are in the subscription's process, at process reach; the
    /// others are in another process.
    Mixed,
    /// As [`Self::Mixed`], all at host reach.
    Own,
}

fn placements() -> impl Strategy<Value = Placement> {
    prop_oneof![
        Just(Placement::Process),
        Just(Placement::Host),
        Just(Placement::Mixed),
        Just(Placement::Own),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Publish(usize),
    Take,
    Latest,
    /// Releases all held samples.
    Release,
    /// The publisher ends and another one begins in its place.
    Restart(usize),
    Advance,
}

fn steps(publishers: usize, restarts: bool) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..publishers).prop_map(Step::Publish),
        4 => Just(Step::Take),
        3 => Just(Step::Latest),
        2 => Just(Step::Release),
        1 => Just(Step::Advance),
        u32::from(restarts) => (0..publishers).prop_map(Step::Restart),
    ];
    prop::collection::vec(step, 1..60)
}

struct World {
    near: Node,
    far: Node,
    placement: Placement,
    qos: Qos,
    publishers: Vec<RawPublisher>,
    /// Number of samples published after the match by all publishers, ended ones included.
    published: u64,
    /// Last sequence received, by the publisher's number in the payload.
    last: HashMap<u8, u64>,
    numbers: Vec<u8>,
    next_number: u8,
    _dir: tempfile::TempDir,
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = MonotonicNs::real_now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::real_now() < end, "not {what} within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

fn total(s: &SubscriptionStats) -> u64 {
    s.received
        + s.missed
        + s.superseded
        + s.expired
        + s.corrupt
        + s.refused
        + s.lost_on_the_way
        + s.not_read
}

impl World {
    fn new(placement: Placement, depth: u32, lifespan: bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let context = |name: &str| {
            let options =
                ContextOptions { name: name.into(), domain_dir: Some(dir.path().join("domain")) };
            Context::new(options).unwrap().node(name).unwrap()
        };
        let qos = Qos { depth, lifespan_ms: lifespan.then_some(LIFESPAN_MS), ..Qos::default() };
        let (near, far) = (context("near"), context("far"));
        let (publishers, last, numbers) = (Vec::new(), HashMap::new(), Vec::new());
        Self {
            near,
            far,
            placement,
            qos,
            publishers,
            published: 0,
            last,
            numbers,
            next_number: 0,
            _dir: dir,
        }
    }

    fn subscription(&self, topic: &str, max_held: u32) -> RawSubscription {
        let reach = if self.placement == Placement::Process { Reach::Process } else { Reach::Host };
        let options =
            SubscriptionOptions { reach, qos: self.qos.clone(), max_held, ..Default::default() };
        self.near.raw_subscription(topic, Schema::bytes("test", "raw", ""), options).unwrap()
    }

    fn publisher(&mut self, index: usize, topic: &str) -> RawPublisher {
        let even = index.is_multiple_of(2);
        let (node, reach) = match self.placement {
            Placement::Process => (&self.near, Reach::Process),
            Placement::Mixed if even => (&self.near, Reach::Process),
            Placement::Own if even => (&self.near, Reach::Host),
            _ => (&self.far, Reach::Host),
        };
        let options = PublisherOptions {
            reach,
            qos: self.qos.clone(),
            max_payload: 64,
            pins: 8,
            ..Default::default()
        };
        node.raw_publisher(topic, Schema::bytes("test", "raw", ""), options).unwrap()
    }

    fn add_publisher(&mut self, index: usize, topic: &str, matched: impl Fn() -> usize) {
        let mut publisher = self.publisher(index, topic);
        let expected = self.publishers.len() + 1;
        until("matched", || publisher.matched() == 1 && matched() == expected);
        self.publishers.insert(index, publisher);
        self.numbers.insert(index, self.next_number);
        self.next_number += 1;
    }

    fn restart(&mut self, index: usize, topic: &str, matched: impl Fn() -> usize) {
        drop(self.publishers.remove(index));
        self.numbers.remove(index);
        let left = self.publishers.len();
        until("the end noticed", || matched() == left);
        self.add_publisher(index, topic, matched);
    }

    fn publish(&mut self, index: usize) {
        let number = self.numbers[index];
        let p = &mut self.publishers[index];
        let mut loan = p.loan(1).unwrap();
        loan.payload_mut()[0] = number;
        p.publish(loan).unwrap();
        self.published += 1;
    }

    /// Checks that `missed` of a sample is the gap in the sequence numbers of its publisher.
    fn check_sample(&mut self, s: &RawSample) {
        let number = s.payload().unwrap()[0];
        let sequence = s.header().sequence;
        let last = self.last.insert(number, sequence).unwrap_or(0);
        assert!(sequence > last, "publisher {number}: {sequence} after {last}");
        assert_eq!(
            s.missed(),
            sequence - last - 1,
            "publisher {number}, sample {sequence} after {last}"
        );
    }

    fn check_ledger(&self, stats: &SubscriptionStats, after: &Step) {
        assert_eq!(total(stats), self.published, "after {after:?}: {stats:?}");
        assert!(stats.overwritten <= stats.missed + stats.superseded, "{stats:?}");
    }
}

/// Reader's view of a schedule.
#[derive(Debug, PartialEq)]
enum Seen {
    Sample(u64, u64),
    Nothing,
    Held,
    Stats(SubscriptionStats),
}

fn run(
    placement: Placement,
    publishers: usize,
    depth: u32,
    max_held: u32,
    lifespan: bool,
    steps: &[Step],
) -> Vec<Seen> {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let mut w = World::new(placement, depth, lifespan);
    let mut s = w.subscription("t", max_held);
    for i in 0..publishers {
        w.add_publisher(i, "t", || s.matched());
    }
    let (mut held, mut seen) = (Vec::new(), Vec::new());
    for step in steps {
        match step {
            Step::Publish(i) => w.publish(*i),
            Step::Take | Step::Latest => {
                let read = if matches!(step, Step::Take) { s.take() } else { s.latest() };
                seen.push(match read {
                    Ok(Some(sample)) => {
                        w.check_sample(&sample);
                        let saw = Seen::Sample(sample.header().sequence, sample.missed());
                        held.push(sample);
                        assert!(held.len() <= max_held as usize, "{} held", held.len());
                        saw
                    }
                    Ok(None) => Seen::Nothing,
                    Err(_) => {
                        assert_eq!(held.len(), max_held as usize, "refused");
                        Seen::Held
                    }
                });
            }
            Step::Release => held.clear(),
            Step::Restart(i) => w.restart(*i, "t", || s.matched()),
            Step::Advance => clock.advance(Duration::from_millis(u64::from(LIFESPAN_MS) + 1)),
        }
        w.check_ledger(&s.stats(), step);
        seen.push(Seen::Stats(s.stats()));
    }
    held.clear();
    while let Some(sample) = s.take().unwrap() {
        w.check_sample(&sample);
    }
    w.check_ledger(&s.stats(), &Step::Take);
    assert_eq!(s.stats().not_read, 0, "everything is read");
    seen
}

#[test]
fn a_sample_that_waited_for_another_reach_counts_as_missed_when_its_publisher_is_gone() {
    use Step::{Latest, Publish, Release, Restart, Take};
    run(
        Placement::Mixed,
        2,
        1,
        1,
        false,
        &[Publish(0), Take, Publish(1), Publish(0), Take, Restart(1), Release, Latest],
    );
}

proptest! {
    #![proptest_config(
        ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() }
    )]

    #[test]
    fn every_sample_is_accounted_for_once(
        placement in placements(),
        (publishers, steps) in (1..=4usize).prop_flat_map(|n| (Just(n), steps(n, true))),
        depth in 1..=4u32,
        max_held in 1..=3u32,
        lifespan: bool,
    ) {
        run(placement, publishers, depth, max_held, lifespan, &steps);
    }

    #[test]
    fn one_publisher_is_read_and_counted_alike_at_both_reaches(
        steps in steps(1, false), depth in 1..=4u32, max_held in 1..=3u32, lifespan: bool,
    ) {
        let process = run(Placement::Process, 1, depth, max_held, lifespan, &steps);
        let host = run(Placement::Host, 1, depth, max_held, lifespan, &steps);
        prop_assert_eq!(process, host);
    }

    #[test]
    fn inputs_of_callbacks_are_accounted_for_as_well(
        placement in placements(),
        steps in steps(2, true), depth in 1..=3u32, keep: bool, lifespan: bool,
    ) {
        let clock = VirtualClock::starting_at(MonotonicNs::real_now());
        let _entered = clock.enter();
        let mut w = World::new(placement, depth, lifespan);
        let (a, b) = (w.subscription("t", 2), w.subscription("t", 2));
        for i in 0..2 {
            let mut publisher = w.publisher(i, "t");
            until(
                "matched by both \
                 inputs",
                || publisher.matched() == 2 && a.matched() == i + 1 && b.matched() == i + 1,
            );
            w.publishers.push(publisher);
            w.numbers.push(0);
        }
        let executor = Executor::new(ExecutorOptions::default()).unwrap();
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keeps = kept.clone();
        let options = CallbackOptions {
            name: "callback".into(),
            group: executor.group(GroupKind::MutuallyExclusive),
            trigger: Trigger::Any { on: vec![0], max_age: None },
            inputs: vec![("triggers".into(), a), ("read".into(), b)],
        };
        let handle = executor
            .add_callback(options, move |call| {
                let _ = call.read(1);
                if keep {
                    keeps.lock().unwrap().extend(call.sample(0).cloned());
                }
            })
            .unwrap();
        for step in &steps {
            match step {
                Step::Publish(i) => w.publish(*i),
                Step::Take | Step::Latest => {
                    executor.run_ready();
                }
                Step::Release => kept.lock().unwrap().clear(),
                Step::Advance => clock.advance(Duration::from_millis(u64::from(LIFESPAN_MS) + 1)),
                Step::Restart(_) => {}
            }
            for input in handle.inputs() {
                w.check_ledger(&input.stats, step);
            }
        }
        let inputs = handle.inputs();
        prop_assert_eq!(inputs[0].stats.superseded, 0);
        prop_assert_eq!(
            inputs[1].stats.missed,
            0,
            "of an input that does not trigger only the \
             newest is wanted"
        );
        kept.lock().unwrap().clear();
        while executor.run_ready() > 0 {
            kept.lock().unwrap().clear();
        }
        prop_assert_eq!(handle.inputs()[0].stats.not_read, 0);
    }
}
