// SPDX-License-Identifier: Apache-2.0
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]
use super::*;
use crate::{Context, ContextOptions, Node, PublisherOptions, RawPublisher, SubscriptionOptions};
use driveline_types::header::Arrival;
use driveline_types::{MonotonicNs, Qos, VirtualClock};
use std::sync::atomic::{AtomicUsize, Ordering};

mod counters;
mod saturated;
mod stopping;

/// Only a failure takes that long.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Rig {
    pub(super) node: Node,
    pub(super) executor: Executor,
    _dir: tempfile::TempDir,
}

pub(super) fn rig(threads: usize) -> Rig {
    let dir = tempfile::tempdir().unwrap();
    let context = Context::new(ContextOptions {
        name: "test".into(),
        domain_dir: Some(dir.path().join("domain")),
    })
    .unwrap();
    let executor = Executor::new(ExecutorOptions { threads, ..Default::default() }).unwrap();
    Rig { node: context.node("test").unwrap(), executor, _dir: dir }
}

impl Rig {
    pub(super) fn publisher(&self, topic: &str) -> RawPublisher {
        self.node.bytes_publisher(topic, "raw", PublisherOptions::default()).unwrap()
    }
    fn input(&self, topic: &str, depth: u32) -> (String, RawSubscription) {
        let o = SubscriptionOptions {
            qos: Qos { depth, ..Qos::default() },
            max_held: 8,
            ..Default::default()
        };
        (topic.to_owned(), self.node.bytes_subscription(topic, "raw", o).unwrap())
    }
    pub(super) fn callback(
        &self,
        trigger: Trigger,
        inputs: Vec<(String, RawSubscription)>,
        f: impl Fn(&Invocation<'_>) + Send + Sync + 'static,
    ) -> CallbackHandle {
        let group = self.executor.group(GroupKind::MutuallyExclusive);
        self.executor
            .add_callback(CallbackOptions { name: "callback".into(), group, trigger, inputs }, f)
            .unwrap()
    }
}

pub(super) fn send(publisher: &mut RawPublisher, value: u8, source: u64) {
    let mut loan = publisher.loan(1).unwrap();
    loan.payload_mut()[0] = value;
    loan.set_source_time(MonotonicNs(source));
    publisher.publish(loan).unwrap();
}

fn values(invocation: &Invocation<'_>, inputs: usize) -> Vec<Option<u8>> {
    (0..inputs).map(|i| invocation.sample(i).and_then(|s| s.payload()).map(|p| p[0])).collect()
}

type Calls = Arc<Mutex<Vec<Vec<Option<u8>>>>>;

fn collector() -> (Calls, impl Fn(&Invocation<'_>, usize) + Send + Sync + 'static) {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    (seen, move |invocation: &Invocation<'_>, inputs| {
        sink.lock().unwrap().push(values(invocation, inputs))
    })
}

#[test]
fn any_takes_every_sample_in_order() {
    let r = rig(1);
    let (mut a, mut b) = (r.publisher("a"), r.publisher("b"));
    let (seen, push) = collector();
    let inputs = vec![r.input("a", 4), r.input("b", 4)];
    let handle = r.callback(Trigger::any(), inputs, move |i| push(i, 2));
    send(&mut a, 1, 1);
    send(&mut a, 2, 2);
    send(&mut b, 9, 3);
    assert_eq!(r.executor.run_ready(), 3);
    let seen = seen.lock().unwrap();
    assert_eq!(*seen, vec![vec![Some(1), None], vec![None, Some(9)], vec![Some(2), None]]);
    assert_eq!(handle.stats().invocations, 3);
}

#[test]
fn inputs_outside_the_trigger_do_not_call_but_can_be_read_again_and_again() {
    let r = rig(1);
    let (mut image, mut boxes) = (r.publisher("image"), r.publisher("boxes"));
    let read = Arc::new(Mutex::new(Vec::new()));
    let sink = read.clone();
    let inputs = vec![r.input("image", 4), r.input("boxes", 1)];
    r.callback(Trigger::Any { on: vec![0], max_age: None }, inputs, move |i| {
        sink.lock().unwrap().push(i.read(1).and_then(|s| s.payload().map(|p| p[0])));
    });
    send(&mut boxes, 7, 1);
    assert_eq!(r.executor.run_ready(), 0);
    send(&mut image, 1, 1);
    send(&mut image, 2, 1);
    assert_eq!(r.executor.run_ready(), 2);
    send(&mut boxes, 8, 1);
    send(&mut image, 3, 1);
    assert_eq!(r.executor.run_ready(), 1);
    assert_eq!(*read.lock().unwrap(), vec![Some(7), Some(7), Some(8)]);
}

#[test]
fn all_latest_waits_for_every_input_and_counts_what_it_skips() {
    let r = rig(1);
    let (mut lanes, mut boxes) = (r.publisher("lanes"), r.publisher("boxes"));
    let (seen, push) = collector();
    let inputs = vec![r.input("lanes", 4), r.input("boxes", 1)];
    let handle =
        r.callback(Trigger::AllLatest { on: 0, max_age: None }, inputs, move |i| push(i, 2));
    send(&mut lanes, 1, 1);
    assert_eq!(r.executor.run_ready(), 0);
    assert_eq!(handle.stats().skipped_missing, 1);
    send(&mut boxes, 5, 1);
    assert_eq!(r.executor.run_ready(), 0, "the second input does not trigger");
    send(&mut lanes, 2, 1);
    send(&mut lanes, 3, 1);
    assert_eq!(r.executor.run_ready(), 2);
    assert_eq!(*seen.lock().unwrap(), vec![vec![Some(2), Some(5)], vec![Some(3), Some(5)]]);
}

#[test]
fn all_latest_refuses_stale_samples_by_source_time() {
    let r = rig(1);
    let (mut lanes, mut boxes) = (r.publisher("lanes"), r.publisher("boxes"));
    let inputs = vec![r.input("lanes", 4), r.input("boxes", 1)];
    let handle = r.callback(
        Trigger::AllLatest { on: 0, max_age: Some(Duration::from_secs(3600)) },
        inputs,
        |_| {},
    );
    let now = MonotonicNs::now().0;
    let two_hours_ago = now.wrapping_sub(7_200_000_000_000);
    if two_hours_ago < now {
        send(&mut boxes, 5, two_hours_ago);
        send(&mut lanes, 1, now);
        assert_eq!(r.executor.run_ready(), 0);
        assert_eq!(handle.stats().skipped_stale, 1);
    }
    send(&mut boxes, 6, now);
    send(&mut lanes, 2, now);
    assert_eq!(r.executor.run_ready(), 1);
}

#[test]
fn exact_and_approximate_pair_by_source_time() {
    let r = rig(1);
    let (mut a, mut b) = (r.publisher("a"), r.publisher("b"));
    let (exact, push_exact) = collector();
    let (near, push_near) = collector();
    r.callback(
        Trigger::Exact { queue: 4, max_age: None },
        vec![r.input("a", 8), r.input("b", 8)],
        move |i| push_exact(i, 2),
    );
    let approximate = Trigger::Approximate { queue: 4, max_interval: None, max_age: None };
    r.callback(approximate, vec![r.input("a", 8), r.input("b", 8)], move |i| push_near(i, 2));
    for (value, stamp) in [(1, 100), (2, 200), (3, 300)] {
        send(&mut a, value, stamp);
    }
    for (value, stamp) in [(11, 110), (12, 200), (13, 310)] {
        send(&mut b, value, stamp);
    }
    r.executor.run_ready();
    assert_eq!(*exact.lock().unwrap(), vec![vec![Some(2), Some(12)]]);
    assert_eq!(near.lock().unwrap()[..2], [vec![Some(1), Some(11)], vec![Some(2), Some(12)]]);
}

#[test]
fn a_panic_is_counted_and_the_callback_stays_in_service() {
    let r = rig(1);
    let mut a = r.publisher("a");
    let handle = r.callback(Trigger::any(), vec![r.input("a", 4)], |i| {
        assert!(i.sample(0).unwrap().payload().unwrap()[0] != 1, "boom");
        i.fail();
    });
    send(&mut a, 1, 1);
    send(&mut a, 2, 2);
    assert_eq!(r.executor.run_ready(), 2);
    assert_eq!(handle.stats().failed, 2);
}

#[test]
fn timers_keep_their_grid_and_count_overruns() {
    let clock = VirtualClock::starting_at(MonotonicNs(1 << 40));
    let _entered = clock.enter();
    let r = rig(1);
    let ticks = Arc::new(Mutex::new(Vec::new()));
    let sink = ticks.clone();
    let group = r.executor.group(GroupKind::MutuallyExclusive);
    let period = Duration::from_millis(2);
    let handle = r
        .executor
        .add_timer(TimerOptions { name: "tick".into(), group, period }, move |t| {
            sink.lock().unwrap().push(*t)
        })
        .unwrap();
    while ticks.lock().unwrap().len() < 3 {
        r.executor.run_ready();
        clock.advance(Duration::from_millis(1));
    }
    let before = ticks.lock().unwrap().len();
    clock.advance(Duration::from_millis(7));
    r.executor.run_ready();
    let ticks = ticks.lock().unwrap();
    let grid = period.as_nanos() as u64;
    for pair in ticks.windows(2) {
        let step = pair[1].scheduled.0 - pair[0].scheduled.0;
        assert_eq!(step, grid * (1 + pair[1].overruns));
    }
    assert!(ticks[before].overruns >= 2);
    assert_eq!(handle.stats().overruns, ticks.iter().map(|t| t.overruns).sum::<u64>());
}

#[test]
fn the_first_tick_comes_when_requested_and_the_grid_begins_there() {
    let r = rig(1);
    let ticks: Arc<Mutex<Vec<(&str, TimerTick)>>> = Arc::default();
    let period = Duration::from_millis(8);
    let add = |name: &'static str, after: Option<Duration>| {
        let (group, sink) = (r.executor.group(GroupKind::MutuallyExclusive), ticks.clone());
        let options = TimerOptions { name: name.into(), group, period };
        let handle =
            r.executor.add_timer(options, move |t| sink.lock().unwrap().push((name, *t))).unwrap();
        after.into_iter().for_each(|after| handle.first_tick_after(after));
        handle
    };
    let (usual, early) = (add("usual", None), add("early", Some(Duration::from_millis(3))));
    while ticks.lock().unwrap().len() < 5 {
        r.executor.run_ready();
        // The executor runs already, so this call has no effect.
        early.first_tick_after(Duration::from_secs(1000));
    }
    let ticks = ticks.lock().unwrap();
    let grid = |name: &str| {
        let of: Vec<_> = ticks.iter().filter(|(n, _)| *n == name).map(|(_, t)| t).collect();
        of[0].scheduled.0 - of[0].overruns * 8_000_000
    };
    assert_eq!(grid("usual") - grid("early"), 5_000_000);
    assert_eq!(usual.stats().failed, 0);
}

#[test]
fn a_timer_can_end_from_within_its_own_tick_and_before_the_start() {
    let r = rig(1);
    let group = r.executor.group(GroupKind::MutuallyExclusive);
    let options = |name: &str| TimerOptions {
        name: name.into(),
        group: group.clone(),
        period: Duration::from_millis(1),
    };
    let own: Arc<Mutex<Option<TimerEnd>>> = Arc::default();
    let inside = own.clone();
    let ends = r
        .executor
        .add_timer(options("ends"), move |_| inside.lock().unwrap().take().unwrap().end())
        .unwrap();
    *own.lock().unwrap() = Some(ends.timer_end());
    let never = r.executor.add_timer(options("never"), |_| {}).unwrap();
    never.timer_end().end();
    let goes_on = r.executor.add_timer(options("goes on"), |_| {}).unwrap();
    while goes_on.stats().invocations < 5 {
        r.executor.run_ready();
    }
    assert_eq!(
        (ends.stats().invocations, ends.stats().failed, never.stats().invocations),
        (1, 0, 0)
    );
}

#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Observer for Log {
    fn callback(&self, r: &CallbackRecord<'_>) {
        assert!(r.end >= r.start);
        let inputs: Vec<_> = r
            .inputs
            .iter()
            .map(|i| {
                format!(
                    "{}#{}{}",
                    i.input,
                    i.header.sequence,
                    if i.arrival == Arrival::Triggered { "!" } else { "" }
                )
            })
            .collect();
        self.0.lock().unwrap().push(format!("{} {}", r.callback, inputs.join(" ")));
    }
}

#[test]
fn the_observer_sees_every_call_and_published_samples_inherit_their_origins() {
    let r = rig(1);
    let log = Arc::new(Log::default());
    r.executor.set_observer(log.clone());
    let (mut camera, lanes) = (r.publisher("camera"), Mutex::new(r.publisher("lanes")));
    let (_, mut sink) = r.input("lanes", 1);
    r.callback(Trigger::any(), vec![r.input("camera", 1)], move |_| {
        send(&mut lanes.lock().unwrap(), 1, 5)
    });
    send(&mut camera, 1, 1000);
    assert_eq!(r.executor.run_ready(), 1);
    let sample = sink.latest().unwrap().unwrap();
    let origins = sample.header().origins;
    assert_eq!(origins.as_slice()[0].source_oldest, MonotonicNs(1000));
    assert_eq!(origins.as_slice()[0].topic, camera.topic().id());
    assert_eq!(*log.0.lock().unwrap(), vec!["callback camera#1!"]);
}

/// Inputs that could not be connected.
#[derive(Default)]
struct Refusals(Mutex<Vec<String>>);

impl Observer for Refusals {
    fn callback(&self, _: &CallbackRecord<'_>) {}

    fn event(&self, callback: &str, input: &str, event: &crate::EndpointEvent) {
        if let crate::EndpointEvent::Refused { text } = event {
            self.0.lock().unwrap().push(format!("{callback} {input}: {text}"));
        }
    }
}

#[test]
fn the_observer_is_notified_of_inputs_that_cannot_be_connected() {
    let r = rig(1);
    let refusals = Arc::new(Refusals::default());
    r.executor.set_observer(refusals.clone());
    let _other = r.node.bytes_publisher("camera", "another", PublisherOptions::default()).unwrap();
    // A sleeping executor checks for refusals only after a wake-up. The timer wakes it.
    r.callback(
        Trigger::Timer { period: Duration::from_millis(5), max_age: None },
        vec![r.input("camera", 1)],
        |_| {},
    );
    r.executor.start().unwrap();
    let end = std::time::Instant::now() + PATIENCE;
    while refusals.0.lock().unwrap().is_empty() && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    r.executor.stop();
    let refusals = refusals.0.lock().unwrap();
    assert!(
        refusals.len() == 1 && refusals[0].starts_with("callback camera: topic 'camera'"),
        "{refusals:?}"
    );
}

/// Start and conversions of each call.
#[derive(Default)]
struct Conversions(Mutex<Vec<(MonotonicNs, crate::Conversions)>>);

impl Observer for Conversions {
    fn callback(&self, r: &CallbackRecord<'_>) {
        assert!(r.conversions.own_ns + r.conversions.publish_ns <= r.end.0 - r.start.0);
        self.0.lock().unwrap().push((r.start, r.conversions));
    }
}

/// A message whose conversions are all slow.
struct Slow;

impl crate::Value for Slow {
    type Inner = u8;
    fn schema() -> driveline_types::Schema {
        driveline_types::Schema {
            kind: driveline_types::PayloadKind::Protobuf,
            ..driveline_types::Schema::bytes("test.Slow", "", "")
        }
    }
    fn encoded_len(_: &u8) -> Option<usize> {
        Some(1)
    }
    fn encode(inner: &u8, into: &mut [u8]) -> Result<(), crate::EncodeError> {
        // time: makes a slow conversion; its figures are only compared with each other
        std::thread::sleep(SLOW);
        into[0] = *inner;
        Ok(())
    }
    fn decode(bytes: &[u8]) -> Result<u8, String> {
        // time: makes a slow conversion; its figures are only compared with each other
        std::thread::sleep(SLOW);
        Ok(bytes[0])
    }
}

const SLOW: Duration = Duration::from_millis(3);

/// The test compares its figures only with each other, so actual durations do not matter.
#[test]
fn slow_conversions_are_communication_and_not_computation() {
    let r = rig(1);
    // Messages from another context arrive as bytes.
    let outside = Context::new(ContextOptions {
        name: "other".into(),
        domain_dir: Some(r._dir.path().join("domain")),
    })
    .unwrap();
    let outside = outside.node("other").unwrap();
    let p = || PublisherOptions { reach: crate::Reach::Host, ..Default::default() };
    let s = || SubscriptionOptions {
        reach: crate::Reach::Host,
        qos: Qos { depth: 4, ..Qos::default() },
        max_held: 4,
        ..Default::default()
    };
    let mut source = outside.value_publisher::<Slow>("in", p()).unwrap();
    let mut sink = outside.value_subscription::<Slow>("second", s()).unwrap().into_raw();
    let outputs =
        Mutex::new(["first", "second"].map(|t| r.node.value_publisher::<Slow>(t, p()).unwrap()));
    let mut first = outside.value_subscription::<Slow>("first", s()).unwrap().into_raw();
    let input = r.node.value_subscription::<Slow>("in", s()).unwrap().into_raw();
    while first.matched() == 0 || sink.matched() == 0 {
        std::thread::yield_now();
    }
    let log = Arc::new(Conversions::default());
    r.executor.set_observer(log.clone());
    let handle = r.callback(Trigger::any(), vec![("in".into(), input)], move |invocation| {
        let value = crate::ValueSample::<Slow>::new(invocation.sample(0).unwrap().clone()).unwrap();
        let mut outputs = outputs.lock().unwrap();
        while outputs.iter_mut().any(|o| o.raw().matched() == 0) {
            std::thread::yield_now();
        }
        for output in outputs.iter_mut() {
            output.publish(*value + 1).unwrap();
        }
    });
    while source.raw().matched() == 0 {
        std::thread::yield_now();
    }
    source.publish(1).unwrap();
    while handle.stats().invocations == 0 {
        r.executor.run_ready();
    }
    let (start, conversions) = log.0.lock().unwrap()[0];
    let slow = SLOW.as_nanos() as u64;
    assert!(conversions.own_ns >= slow && conversions.publish_ns >= 2 * slow, "{conversions:?}");

    let (first, second) = (first.take().unwrap().unwrap(), sink.take().unwrap().unwrap());
    let split = |s: &crate::RawSample| {
        let o = s.header().origins.as_slice()[0];
        assert_eq!(
            o.communication_ns + o.computation_ns + o.idle_ns,
            o.age_ns(s.header().publish_time)
        );
        (o.communication_ns - o.age_ns(start), o.computation_ns)
    };
    // The first sample is encoded after its publish time, so this time counts as communication of
    // the second sample only.
    let [own_ns, publish_ns, slow] =
        [conversions.own_ns, conversions.publish_ns, slow].map(u64::cast_signed);
    assert_eq!(split(&first).0, own_ns);
    let (converted, computed) = split(&second);
    assert!(converted >= own_ns + slow && converted < own_ns + publish_ns);
    assert_eq!(converted + computed, second.header().publish_time.signed_since(start));
}

#[test]
fn conversions_outside_of_callbacks_are_attributed_to_none() {
    assert_eq!(crate::conversion::begin(), None);
    assert_eq!(crate::conversion::during(|| 7), 7);
}

#[derive(Default)]
struct Freshness(Mutex<Vec<Vec<(u64, bool)>>>);

impl Observer for Freshness {
    fn callback(&self, r: &CallbackRecord<'_>) {
        self.0
            .lock()
            .unwrap()
            .push(r.inputs.iter().map(|i| (i.header.sequence, i.fresh)).collect());
    }
}

#[test]
fn a_sample_is_fresh_in_one_call_only_and_inputs_count_what_no_call_saw() {
    let r = rig(1);
    let log = Arc::new(Freshness::default());
    r.executor.set_observer(log.clone());
    let (mut lanes, mut boxes) = (r.publisher("lanes"), r.publisher("boxes"));
    let inputs = vec![r.input("lanes", 4), r.input("boxes", 1)];
    let handle = r.callback(Trigger::AllLatest { on: 0, max_age: None }, inputs, |_| {});
    // This call is skipped because `boxes` has no sample yet. The inputs of the next call are fresh
    // all the same.
    send(&mut lanes, 1, 1);
    assert_eq!(r.executor.run_ready(), 0);
    for value in 1..=3 {
        send(&mut boxes, value, 1);
    }
    for value in 2..=3 {
        send(&mut lanes, value, 1);
    }
    assert_eq!(r.executor.run_ready(), 2);
    send(&mut boxes, 4, 1);
    send(&mut lanes, 4, 1);
    assert_eq!(r.executor.run_ready(), 1);
    let calls = log.0.lock().unwrap();
    assert_eq!(
        *calls,
        [vec![(2, true), (3, true)], vec![(3, true), (3, false)], vec![(4, true), (4, true)]]
    );
    let counted: Vec<_> = handle
        .inputs()
        .into_iter()
        .map(|i| (i.input, i.stats.received, i.stats.missed, i.stats.superseded))
        .collect();
    assert_eq!(
        counted,
        [("lanes".to_owned(), 4, 0, 0), ("boxes".to_owned(), 2, 0, 2)],
        "of boxes only the newest is wanted"
    );
}

#[test]
fn threads_share_the_work_and_an_exclusive_group_never_overlaps() {
    let r = rig(3);
    let total = 300u32;
    let (inside, most, done) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let group = r.executor.group(GroupKind::MutuallyExclusive);
    for topic in ["a", "b"] {
        let (inside, most, done) = (inside.clone(), most.clone(), done.clone());
        let options = CallbackOptions {
            name: topic.into(),
            group: group.clone(),
            trigger: Trigger::any(),
            inputs: vec![r.input(topic, 512)],
        };
        r.executor
            .add_callback(options, move |_| {
                most.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                inside.fetch_sub(1, Ordering::SeqCst);
                done.fetch_add(1, Ordering::SeqCst);
            })
            .unwrap();
    }
    let (mut a, mut b) = (r.publisher("a"), r.publisher("b"));
    r.executor.start().unwrap();
    for _ in 0..total {
        for p in [&mut a, &mut b] {
            let loan = p.loan(1).unwrap();
            p.publish(loan).unwrap();
        }
    }
    while done.load(Ordering::SeqCst) < 2 * total as usize {
        std::thread::yield_now();
    }
    r.executor.stop();
    assert_eq!(most.load(Ordering::SeqCst), 1);
}

#[test]
fn a_reentrant_group_runs_one_callback_on_several_threads() {
    let r = rig(2);
    let meet = Arc::new(std::sync::Barrier::new(2));
    let group = r.executor.group(GroupKind::Reentrant);
    let at = meet.clone();
    let options = CallbackOptions {
        name: "meet".into(),
        group,
        trigger: Trigger::any(),
        inputs: vec![r.input("a", 8)],
    };
    // Ends only if two calls run at the same time.
    let handle = r
        .executor
        .add_callback(options, move |_| {
            at.wait();
        })
        .unwrap();
    let mut a = r.publisher("a");
    r.executor.start().unwrap();
    for i in 0..8 {
        send(&mut a, i, 1);
    }
    while handle.stats().invocations < 8 {
        std::thread::yield_now();
    }
}

#[test]
fn impossible_set_ups_are_refused_with_the_reason() {
    let r = rig(1);
    assert!(Executor::new(ExecutorOptions { threads: 0, ..Default::default() }).is_err());
    let add = |trigger, inputs| {
        let group = r.executor.group(GroupKind::Reentrant);
        r.executor
            .add_callback(CallbackOptions { name: "x".into(), group, trigger, inputs }, |_| {})
            .err()
            .map(|e| e.to_string())
    };
    assert!(
        add(Trigger::AllLatest { on: 3, max_age: None }, vec![r.input("a", 1)])
            .unwrap()
            .contains("input 3")
    );
    assert!(
        add(Trigger::Exact { queue: 2, max_age: None }, vec![r.input("a", 1)])
            .unwrap()
            .contains("at least 2")
    );
    assert!(
        add(Trigger::Timer { period: Duration::ZERO, max_age: None }, vec![])
            .unwrap()
            .contains("period")
    );
    r.executor.run_ready();
    assert!(add(Trigger::any(), vec![]).unwrap().contains("runs already"));
}

/// The kernel lets a thread wait for at most 128 futexes at once.
#[test]
fn one_executor_serves_more_topics_than_the_kernel_waits_for_at_once() {
    const TOPICS: usize = 140;
    let dir = tempfile::tempdir().unwrap();
    let node = |name: &str| {
        let options =
            ContextOptions { name: name.into(), domain_dir: Some(dir.path().join("domain")) };
        Context::new(options).unwrap().node(name).unwrap()
    };
    let (sender, receiver) = (node("sender"), node("receiver"));
    let executor = Executor::new(ExecutorOptions::default()).unwrap();
    let host = crate::Reach::Host;
    let (called, calls) = mpsc::channel();
    let mut publishers: Vec<_> = (0..TOPICS)
        .map(|i| {
            let name = format!("topic{i}");
            let o = PublisherOptions { reach: host, max_payload: 64, ..Default::default() };
            let publisher = sender.bytes_publisher(&name, "raw", o).unwrap();
            let o = SubscriptionOptions { reach: host, ..Default::default() };
            let inputs =
                vec![(name.clone(), receiver.bytes_subscription(&name, "raw", o).unwrap())];
            let called = called.clone();
            let group = executor.group(GroupKind::MutuallyExclusive);
            executor
                .add_callback(
                    CallbackOptions { name, group, trigger: Trigger::any(), inputs },
                    move |_| called.send(i).unwrap(),
                )
                .unwrap();
            publisher
        })
        .collect();
    executor.start().unwrap();
    let deadline = MonotonicNs::now() + PATIENCE;
    while publishers.iter_mut().any(|p| p.matched() == 0) {
        assert!(MonotonicNs::now() < deadline, "not matched within {PATIENCE:?}");
        std::thread::yield_now();
    }
    // Publishes one sample at a time, so each sample must wake the sleeping executor.
    for (i, publisher) in publishers.iter_mut().enumerate() {
        send(publisher, 1, 1);
        assert_eq!(calls.recv_timeout(PATIENCE), Ok(i));
    }
}

#[test]
fn an_input_that_may_hold_one_sample_is_read_anew_at_every_reach() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let rig = rig(1);
        let o = PublisherOptions { reach, ..Default::default() };
        let mut publisher = rig.node.bytes_publisher("data", "raw", o).unwrap();
        let o = SubscriptionOptions { reach, max_held: 1, ..Default::default() };
        let data = rig.node.bytes_subscription("data", "raw", o).unwrap();
        while publisher.matched() == 0 || data.matched() == 0 {
            std::thread::yield_now();
        }
        let inputs = vec![rig.input("tick", 1), ("data".to_owned(), data)];
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        let handle = rig.callback(Trigger::Any { on: vec![0], max_age: None }, inputs, move |i| {
            sink.lock().unwrap().push(i.read(1).map(|s| s.payload().unwrap()[0]));
        });
        let mut tick = rig.publisher("tick");
        for v in 1..=3 {
            send(&mut publisher, v, 1);
            send(&mut tick, 0, 1);
            assert_eq!(rig.executor.run_ready(), 1);
        }
        assert_eq!(*seen.lock().unwrap(), [Some(1), Some(2), Some(3)], "{reach:?}");
        assert_eq!(handle.stats().held_limit, 0);
    }
}

/// Another thread may check a callback's inputs at the very moment when a sample arrives.
#[test]
fn a_sample_is_not_forgotten_because_the_inputs_are_being_looked_at() {
    let rig = rig(2);
    let (called, calls) = mpsc::channel();
    let handle = rig.callback(Trigger::any(), vec![rig.input("topic", 1)], move |i| {
        called.send(i.sample(0).unwrap().payload().unwrap()[0]).unwrap()
    });
    let mut publisher = rig.publisher("topic");
    rig.executor.start().unwrap();
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let looking = {
        let (handle, done) = (handle.clone(), done.clone());
        std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                let _ = handle.inputs();
            }
        })
    };
    for round in 0..2000u32 {
        send(&mut publisher, round as u8, 1);
        assert_eq!(calls.recv_timeout(PATIENCE), Ok(round as u8), "round {round}");
    }
    done.store(true, Ordering::Relaxed);
    looking.join().unwrap();
}

/// A value whose destructor is given.
struct OnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(f) = self.0.take() {
            f();
        }
    }
}

fn on_drop(f: impl FnOnce() + Send + Sync + 'static) -> OnDrop {
    OnDrop(Some(Box::new(f)))
}

#[test]
fn a_destructor_may_publish_subscribe_and_panic() {
    for durability in
        [driveline_types::Durability::Volatile, driveline_types::Durability::TransientLocal]
    {
        let rig = rig(1);
        let qos = Qos { depth: 1, durability, ..Qos::default() };
        let o = PublisherOptions { qos: qos.clone(), ..Default::default() };
        let other = Arc::new(Mutex::new(
            rig.node.value_publisher::<crate::Object<OnDrop>>("topic", o.clone()).unwrap(),
        ));
        let mut publisher = rig.node.value_publisher::<crate::Object<OnDrop>>("topic", o).unwrap();
        let s = SubscriptionOptions { qos, ..Default::default() };
        let mut subscription =
            rig.node.value_subscription::<crate::Object<OnDrop>>("topic", s.clone()).unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let (node, ran_too) = (rig.node.clone(), ran.clone());
        publisher
            .publish(on_drop(move || {
                ran_too.fetch_add(1, Ordering::Relaxed);
                other.lock().unwrap().publish(OnDrop(None)).unwrap();
                drop(node.value_subscription::<crate::Object<OnDrop>>("topic", s).unwrap());
                panic!("in a destructor");
            }))
            .unwrap();
        // Replaces the first value, in the queue and in the history for late subscriptions.
        publisher.publish(OnDrop(None)).unwrap();
        assert_eq!(ran.load(Ordering::Relaxed), 1, "{durability:?}");
        assert!(subscription.latest().unwrap().is_some());
    }
}

#[test]
fn a_callback_goes_on_after_values_that_panic_when_they_are_dropped() {
    let rig = rig(2);
    let o = SubscriptionOptions { max_held: 8, ..Default::default() };
    let input = rig
        .node
        .raw_subscription("topic", <crate::Object<OnDrop> as crate::Value>::schema(), o)
        .unwrap();
    let (called, calls) = mpsc::channel();
    rig.callback(Trigger::any(), vec![("topic".into(), input)], move |_| {
        called.send(()).unwrap();
        std::panic::panic_any(on_drop(|| panic!("in what was thrown")));
    });
    let mut publisher = rig
        .node
        .value_publisher::<crate::Object<OnDrop>>("topic", PublisherOptions::default())
        .unwrap();
    rig.executor.start().unwrap();
    for _ in 0..5 {
        publisher.publish(on_drop(|| panic!("in a destructor"))).unwrap();
        calls.recv_timeout(PATIENCE).unwrap();
    }
}

#[test]
fn an_executor_can_be_stopped_by_its_own_callback_and_not_started_again() {
    let rig = rig(2);
    let executor =
        Arc::new(Executor::new(ExecutorOptions { threads: 2, ..Default::default() }).unwrap());
    let (stopped, wait) = mpsc::channel();
    let weak = Arc::downgrade(&executor);
    let group = executor.group(GroupKind::MutuallyExclusive);
    let o = CallbackOptions {
        name: "stop".into(),
        group,
        trigger: Trigger::any(),
        inputs: vec![rig.input("topic", 1)],
    };
    executor
        .add_callback(o, move |_| {
            weak.upgrade().unwrap().stop();
            stopped.send(()).unwrap();
        })
        .unwrap();
    executor.start().unwrap();
    send(&mut rig.publisher("topic"), 1, 1);
    wait.recv_timeout(PATIENCE).unwrap();
    assert!(executor.start().unwrap_err().to_string().contains("stopped"));
}

#[test]
fn an_input_whose_samples_are_all_held_goes_on_when_one_is_given_back() {
    for reach in [crate::Reach::Process, crate::Reach::Host] {
        let rig = rig(1);
        let mut publisher = rig
            .node
            .bytes_publisher("topic", "raw", PublisherOptions { reach, ..Default::default() })
            .unwrap();
        let o = SubscriptionOptions { reach, max_held: 1, ..Default::default() };
        let inputs =
            vec![("topic".to_owned(), rig.node.bytes_subscription("topic", "raw", o).unwrap())];
        let (called, calls) = mpsc::channel();
        let handle = rig.callback(Trigger::any(), inputs, move |i| {
            called.send(i.sample(0).unwrap().clone()).unwrap()
        });
        while publisher.matched() == 0 {
            std::thread::yield_now();
        }
        rig.executor.start().unwrap();
        for round in 0..200u8 {
            send(&mut publisher, round, 1);
            let held = calls.recv_timeout(PATIENCE).unwrap();
            assert_eq!(held.payload().unwrap()[0], round);
            // The test holds this sample, so the next sample waits until the held one is released.
            send(&mut publisher, round, 1);
            if round % 2 == 0 {
                while handle.stats().held_limit <= u64::from(round / 2) {
                    std::thread::yield_now();
                }
            }
            drop(held);
            drop(calls.recv_timeout(PATIENCE).unwrap());
        }
    }
}

#[test]
fn too_old_samples_neither_trigger_nor_are_read_and_are_counted() {
    let rig = rig(1);
    let max_age = Some(Duration::from_secs(60));
    let (seen, see) = collector();
    let on = vec![0];
    let inputs = || vec![rig.input("a", 4), rig.input("b", 4)];
    let any = rig.callback(Trigger::Any { on, max_age }, inputs(), move |i| {
        assert!(i.read(1).is_none(), "stale");
        see(i, 1);
    });
    let period = Duration::from_nanos(1);
    let ticks = Arc::new(AtomicUsize::new(0));
    let read = ticks.clone();
    let timer = rig.callback(Trigger::Timer { period, max_age }, inputs(), move |i| {
        if i.read(0).is_some() && i.read(1).is_none() {
            read.fetch_add(1, Ordering::Relaxed);
        }
    });
    let (mut a, mut b) = (rig.publisher("a"), rig.publisher("b"));
    let now = || MonotonicNs::now().0;
    // Assumes that the machine has been up for more than a minute.
    let old = now().checked_sub(Duration::from_secs(61).as_nanos() as u64).unwrap();
    send(&mut b, 1, old);
    send(&mut a, 1, old);
    send(&mut a, 2, now());
    while ticks.load(Ordering::Relaxed) == 0 {
        rig.executor.run_ready();
    }
    assert_eq!(*seen.lock().unwrap(), [vec![Some(2)]]);
    assert_eq!(any.stats().skipped_stale, 2, "one that did not trigger, one that was not read");
    assert!(timer.stats().skipped_stale > 0);
}
