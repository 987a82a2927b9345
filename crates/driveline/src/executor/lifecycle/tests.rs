// SPDX-License-Identifier: Apache-2.0
//! A component that becomes active and inactive.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::*;
use crate::executor::tests::{PATIENCE, Rig, rig, send};
use crate::executor::{CallbackHandle, CallbackOptions, GroupKind};
use crate::{
    CallbackGroup, PublishError, RawPublisher, RawSubscription, SubscriptionOptions,
    SubscriptionStats, Trigger,
};
use driveline_types::{Durability, Qos, Reliability, VirtualClock};
use std::sync::mpsc;

type Outcomes = Arc<Mutex<Vec<StateOutcome>>>;

/// Effects of the transitions in a test.
#[derive(Default)]
struct Script {
    calls: Mutex<Vec<bool>>,
    outcomes: Outcomes,
    fails: AtomicBool,
}

struct Change(Arc<Script>);

impl StateChange for Change {
    fn change(&self, _: &Invocation<'_>, active: bool) -> Result<(), String> {
        lock(&self.0.calls).push(active);
        if self.0.fails.load(Ordering::Relaxed) { Err("no camera".into()) } else { Ok(()) }
    }

    fn done(&self, outcome: StateOutcome) {
        lock(&self.0.outcomes).push(outcome);
    }
}

struct Component {
    rig: Rig,
    group: CallbackGroup,
    lifecycle: Lifecycle,
    script: Arc<Script>,
}

impl Component {
    fn new(threads: usize, kind: GroupKind) -> Self {
        let rig = rig(threads);
        let group = rig.executor.group(kind);
        let (lifecycle, script) = (Lifecycle::inactive(), Arc::<Script>::default());
        rig.executor
            .add_lifecycle("component", group.clone(), &lifecycle, Change(script.clone()))
            .unwrap();
        Self { rig, group, lifecycle, script }
    }

    fn subscription(&self, topic: &str, qos: Qos) -> (String, RawSubscription) {
        let o = SubscriptionOptions { qos, max_held: 8, ..Default::default() };
        (topic.to_owned(), self.rig.node.bytes_subscription(topic, "raw", o).unwrap())
    }

    fn callback(
        &self,
        trigger: Trigger,
        inputs: Vec<(String, RawSubscription)>,
        f: impl Fn(&Invocation<'_>) + Send + Sync + 'static,
    ) -> CallbackHandle {
        let (name, group) = ("component".into(), self.group.clone());
        let options = CallbackOptions { name, group, trigger, inputs };
        let handle = self.rig.executor.add_callback(options, f).unwrap();
        handle.follow(&self.lifecycle);
        handle
    }

    fn set(&self, active: bool) {
        self.lifecycle.request(StateRequest { active, number: 7 });
        self.rig.executor.run_ready();
    }
}

fn depth(depth: u32) -> Qos {
    Qos { depth, ..Qos::default() }
}

fn stats(handle: &CallbackHandle) -> SubscriptionStats {
    handle.inputs()[0].stats
}

/// Publishes `n` samples and runs the executor after each.
fn publish(c: &Component, publisher: &mut RawPublisher, values: std::ops::Range<u8>) {
    for value in values {
        send(publisher, value, 1);
        c.rig.executor.run_ready();
    }
}

#[test]
fn an_inactive_component_is_not_called_and_its_samples_count_as_inactive() {
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let mut image = c.rig.publisher("image");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let inputs = vec![c.subscription("image", depth(2))];
    let handle = c.callback(Trigger::any(), inputs, move |i| {
        let sample = i.sample(0).unwrap();
        lock(&sink).push((sample.payload().unwrap()[0], sample.missed()));
    });
    publish(&c, &mut image, 0..3);
    // These samples are not taken before the component becomes active. Newer ones replace some of
    // them.
    (10..15).for_each(|value| send(&mut image, value, 1));
    assert_eq!(stats(&handle).inactive + stats(&handle).not_read, 8);
    c.set(true);
    assert_eq!(*lock(&seen), []);
    publish(&c, &mut image, 20..22);
    assert_eq!(*lock(&seen), [(20, 0), (21, 0)], "what passed before is not missed");
    c.set(false);
    publish(&c, &mut image, 30..34);
    let s = stats(&handle);
    assert_eq!((s.received, s.missed, s.not_read, s.inactive), (2, 0, 0, 12));
    c.set(true);
    send(&mut image, 40, 1);
    assert_eq!(c.rig.executor.run_ready(), 1);
    let s = stats(&handle);
    assert_eq!((s.received, s.missed, s.not_read, s.inactive), (3, 0, 0, 12));
    assert_eq!(*lock(&c.script.calls), [true, false, true]);
}

#[test]
fn unread_samples_of_a_component_that_becomes_inactive_count_as_inactive() {
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let mut image = c.rig.publisher("image");
    let handle = c.callback(Trigger::any(), vec![c.subscription("image", depth(8))], |_| {});
    c.set(true);
    (0..5).for_each(|value| send(&mut image, value, 1));
    c.lifecycle.request(StateRequest { active: false, number: 1 });
    c.rig.executor.run_ready();
    let s = stats(&handle);
    assert_eq!((s.received, s.not_read, s.inactive), (0, 0, 5));
    assert_eq!(handle.stats().invocations, 0, "no call begins after the request");
}

#[test]
fn timers_stop_and_begin_a_new_grid() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let period = Duration::from_millis(10);
    let ticks = c.callback(Trigger::Timer { period, max_age: None }, Vec::new(), |_| {});
    let run = |ms: u64| {
        clock.advance(Duration::from_millis(ms));
        c.rig.executor.run_ready();
        (ticks.stats().invocations, ticks.stats().overruns)
    };
    c.rig.executor.run_ready();
    assert_eq!(run(100), (0, 0));
    c.set(true);
    assert_eq!((run(9), run(1)), ((0, 0), (1, 0)));
    c.set(false);
    assert_eq!(run(100), (1, 0));
    c.set(true);
    assert_eq!((run(9), run(1)), ((1, 0), (2, 0)), "silence is no overrun");
}

#[test]
fn a_request_replaces_one_that_still_waits() {
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let mut image = c.rig.publisher("image");
    let handle = c.callback(Trigger::any(), vec![c.subscription("image", depth(8))], |_| {});
    let requests = |all: &[(bool, u64)]| {
        for (active, number) in all {
            c.lifecycle.request(StateRequest { active: *active, number: *number });
        }
        c.rig.executor.run_ready();
        let outcomes = std::mem::take(&mut *lock(&c.script.outcomes));
        outcomes.iter().map(|o| (o.request.number, o.request.active)).collect::<Vec<_>>()
    };
    assert_eq!(requests(&[(true, 1), (false, 2)]), [(2, false)]);
    assert!(lock(&c.script.calls).is_empty(), "what is not to be active is not activated");
    assert_eq!(requests(&[(true, 3)]), [(3, true)]);
    assert_eq!(requests(&[(false, 4), (true, 5)]), [(5, true)]);
    assert_eq!(*lock(&c.script.calls), [true], "it stays active");
    send(&mut image, 1, 1);
    c.rig.executor.run_ready();
    assert_eq!(handle.stats().invocations, 1);
}

#[test]
fn nothing_is_published_while_inactive_except_in_the_transitions() {
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let mut publisher = c.rig.publisher("command");
    publisher.follow(&c.lifecycle);
    let refused = |publisher: &mut RawPublisher| {
        let loan = publisher.loan(1).unwrap();
        matches!(publisher.publish(loan), Err(PublishError::Inactive { .. }))
    };
    assert!(refused(&mut publisher));
    c.set(true);
    assert!(!refused(&mut publisher));
    c.set(false);
    assert!(refused(&mut publisher));
    assert_eq!(publisher.stats().published, 1);
    c.script.fails.store(true, Ordering::Relaxed);
    c.set(true);
    assert!(refused(&mut publisher), "it did not become active");
}

#[test]
fn outcomes_carry_the_number_and_the_error() {
    let c = Component::new(1, GroupKind::MutuallyExclusive);
    let image = c.rig.publisher("image");
    let handle = c.callback(Trigger::any(), vec![c.subscription("image", depth(8))], |_| {});
    c.script.fails.store(true, Ordering::Relaxed);
    c.lifecycle.request(StateRequest { active: true, number: 3 });
    c.rig.executor.run_ready();
    c.script.fails.store(false, Ordering::Relaxed);
    for (active, number) in [(false, 4), (true, 5), (true, 6)] {
        c.lifecycle.request(StateRequest { active, number });
        c.rig.executor.run_ready();
    }
    let outcomes = lock(&c.script.outcomes);
    let all: Vec<_> =
        outcomes.iter().map(|o| (o.request.number, o.request.active, o.error.as_deref())).collect();
    assert_eq!(
        all,
        [(3, true, Some("no camera")), (4, false, None), (5, true, None), (6, true, None)]
    );
    assert_eq!(*lock(&c.script.calls), [true, true], "no call where the state is as requested");
    assert!(c.lifecycle.is_active());
    drop((image, handle));
}

#[test]
fn a_component_that_becomes_active_gets_the_newest_sample_of_a_transient_local_topic() {
    for trigger in [Trigger::any(), Trigger::AllLatest { on: 0, max_age: None }] {
        let c = Component::new(1, GroupKind::MutuallyExclusive);
        let qos = Qos { durability: Durability::TransientLocal, ..depth(1) };
        let o = crate::PublisherOptions { qos: qos.clone(), ..Default::default() };
        let mut map = c.rig.node.bytes_publisher("map", "raw", o).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let handle = c.callback(trigger, vec![c.subscription("map", qos)], move |i| {
            lock(&sink).push(i.sample(0).unwrap().payload().unwrap()[0]);
        });
        publish(&c, &mut map, 1..4);
        c.set(true);
        assert_eq!(*lock(&seen), [3]);
        let s = stats(&handle);
        assert_eq!((s.received, s.missed, s.inactive), (1, 0, 2));
        c.set(false);
        c.set(true);
        let s = stats(&handle);
        assert_eq!((s.received, s.missed, s.inactive), (1, 0, 2), "the kept sample counts once");
    }
}

#[test]
fn reliable_inputs_that_do_not_wake_the_executor_are_drained_by_time() {
    let clock = VirtualClock::starting_at(MonotonicNs(1_000_000_000));
    let _entered = clock.enter();
    for (reliability, wakes) in [(Reliability::Reliable, true), (Reliability::BestEffort, false)] {
        let c = Component::new(1, GroupKind::MutuallyExclusive);
        let qos = Qos { reliability, ..depth(1) };
        let inputs = vec![c.subscription("image", depth(1)), c.subscription("map", qos)];
        let handle = c.callback(Trigger::Any { on: vec![0], max_age: None }, inputs, |_| {});
        c.rig.executor.run_ready();
        let due = clock.now() + crate::executor::entry::DRAIN_AGAIN;
        assert_eq!(handle.entry.deadline(), wakes.then_some(due));
        c.set(true);
        assert_eq!(handle.entry.deadline(), None);
    }
}

#[test]
fn a_transition_waits_for_calls_of_a_reentrant_group() {
    // Threads of the test act as threads of the executor. A thread that is choosing a call when the
    // request arrives may still make this call.
    let c = Component::new(2, GroupKind::Reentrant);
    let mut image = c.rig.publisher("image");
    let (began, begins) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    let released = Mutex::new(released);
    c.callback(Trigger::any(), vec![c.subscription("image", depth(8))], move |_| {
        began.send(()).unwrap();
        lock(&released).recv_timeout(PATIENCE).unwrap();
    });
    c.set(true);
    assert_eq!(lock(&c.script.outcomes).len(), 1);
    send(&mut image, 1, 1);
    std::thread::scope(|scope| {
        let calling = scope.spawn(|| c.rig.executor.run_ready());
        begins.recv_timeout(PATIENCE).unwrap();
        c.lifecycle.request(StateRequest { active: false, number: 2 });
        send(&mut image, 2, 1);
        assert_eq!(c.rig.executor.run_ready(), 0, "neither a call nor the transition");
        assert_eq!(lock(&c.script.outcomes).len(), 1);
        release.send(()).unwrap();
        assert_eq!(calling.join().unwrap(), 2, "the call, and the transition after it");
    });
    assert_eq!(lock(&c.script.outcomes).len(), 2);
    assert!(begins.try_recv().is_err(), "a call began after the request");
}

/// Blocks in its activation.
struct Slow {
    script: Arc<Script>,
    began: mpsc::Sender<()>,
    released: Mutex<mpsc::Receiver<()>>,
}

impl StateChange for Slow {
    fn change(&self, invocation: &Invocation<'_>, active: bool) -> Result<(), String> {
        if active {
            self.began.send(()).unwrap();
            lock(&self.released).recv_timeout(PATIENCE).unwrap();
        }
        Change(self.script.clone()).change(invocation, active)
    }

    fn done(&self, outcome: StateOutcome) {
        Change(self.script.clone()).done(outcome);
    }
}

#[test]
fn transitions_of_a_reentrant_group_never_overlap() {
    let rig = rig(2);
    let (lifecycle, script) = (Lifecycle::inactive(), Arc::<Script>::default());
    let (began, begins) = mpsc::channel();
    let (release, released) = mpsc::channel();
    let slow = Slow { script: script.clone(), began, released: Mutex::new(released) };
    let group = rig.executor.group(GroupKind::Reentrant);
    rig.executor.add_lifecycle("component", group, &lifecycle, slow).unwrap();
    lifecycle.request(StateRequest { active: true, number: 1 });
    std::thread::scope(|scope| {
        let changing = scope.spawn(|| rig.executor.run_ready());
        begins.recv_timeout(PATIENCE).unwrap();
        lifecycle.request(StateRequest { active: false, number: 2 });
        assert_eq!(rig.executor.run_ready(), 0, "the first transition has not ended");
        release.send(()).unwrap();
        assert_eq!(changing.join().unwrap(), 2);
    });
    assert!(!lifecycle.is_active());
    assert_eq!(*lock(&script.calls), [true, false]);
    assert_eq!(lock(&script.outcomes).iter().map(|o| o.request.number).collect::<Vec<_>>(), [1, 2]);
}
