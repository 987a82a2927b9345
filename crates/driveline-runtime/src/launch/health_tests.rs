// SPDX-License-Identifier: Apache-2.0
//! States and rates from records, at times that the test sets.

use super::super::judge::tests::module;
use super::*;
use crate::account::{Call, CallbackCounters, HeldEnd, InputCounters};
use driveline_types::TopicId;

const S: Duration = Duration::from_secs(1);

struct World {
    module: ResolvedModule,
    observed: Observed,
    began: Instant,
}

impl World {
    /// A module whose threads have just started.
    fn new() -> Self {
        let mut module = module();
        module.executors = ["main", "main2"]
            .map(|name| ResolvedExecutor {
                name: name.into(),
                threads: 1,
                spin_us: 0,
                schedule: Default::default(),
            })
            .into();
        let mut world = Self { module, observed: Observed::default(), began: Instant::now() };
        let threads = vec!["thread main/0: Normal".to_owned(), "thread main2/0: Fifo".to_owned()];
        world.record(0, &Record::Started { threads, waits: None, settings: Vec::new() });
        world
    }

    fn record(&mut self, s: u32, record: &Record) {
        self.observed.take(&self.module, record, self.began + S * s);
    }

    fn published(&mut self, s: u32, n: u64) {
        self.record(
            s,
            &Record::Output {
                component: "lane".into(),
                output: "lanes".into(),
                topic: TopicId::default(),
                published: n,
                deadlines_missed: 7,
                blocked: Default::default(),
                newest_ns: 0,
            },
        );
    }

    fn at(&self, s: u32, active: Option<bool>) -> ModuleHealth {
        let process = ProcessNow { alive: true, since: self.began, busy: None };
        self.observed.health(&self.module, process, self.began + S * s, |_| active)
    }

    fn lanes(&self, s: u32) -> TopicEnd {
        self.at(s, None).components[0].outputs[0].clone()
    }
}

#[test]
fn counters_and_faults_of_components_and_their_ends_are_shown() {
    let mut w = World::new();
    let stats = InputCounters { received: 40, missed: 2, ..InputCounters::default() };
    let (component, input) = ("lane".to_owned(), "image".to_owned());
    let topic = TopicId::default();
    w.record(1, &Record::Input { component: component.clone(), input, topic, stats });
    let stats = CallbackCounters { invocations: 41, failed: 1, ..CallbackCounters::default() };
    w.record(1, &Record::Counters { component: component.clone(), stats });
    let text = "too dark".to_owned();
    w.record(1, &Record::Failure { component, topic: None, sequence: None, text, count: 1 });
    (1..=10).for_each(|s| w.published(s, u64::from(s) * 10));
    let health = w.at(10, Some(true));
    let lane = &health.components[0];
    assert_eq!((lane.calls, lane.failed, &lane.state), (41, 1, &ComponentState::Active));
    let fault = lane.last_fault.as_ref();
    assert_eq!(fault.map(|f| (f.text.as_str(), f.ago_ms)), Some(("too dark", 9000)));
    let image = &lane.inputs[0];
    assert_eq!((image.samples, image.missed, &image.state), (40, 2, &EndState::Silent));
    assert_eq!(image.since_ms, 9000);
    let lanes = &lane.outputs[0];
    assert_eq!((lanes.samples, lanes.rate_hz, lanes.deadlines_missed), (100, 10.0, 7));
    assert_eq!((lanes.min_hz, lanes.max_hz), (Some(9.0), Some(12.0)));
    assert_eq!((&lanes.state, lanes.since_ms), (&EndState::Flowing, 9000));
    let fault = lanes.last_fault.as_ref().unwrap();
    assert_eq!((fault.text.as_str(), fault.ago_ms), ("missed its deadline; 7 so far", 9000));
}

#[test]
fn a_rate_out_of_its_range_and_a_silence_are_states_with_their_times() {
    let mut w = World::new();
    assert_eq!(w.lanes(1).state, EndState::Waiting);
    (1..=10).for_each(|s| w.published(s, u64::from(s) * 10));
    (11..=20).for_each(|s| w.published(s, 100 + u64::from(s - 10) * 4));
    let slow = w.lanes(20);
    assert_eq!((&slow.state, slow.rate_hz), (&EndState::Slow, 4.0));
    assert!((8000..=9000).contains(&slow.since_ms), "{slow:?}");
    assert_eq!(w.lanes(22).state, EndState::Slow, "a report is late");
    let silent = w.lanes(23);
    assert_eq!((&silent.state, silent.rate_hz, silent.since_ms), (&EndState::Silent, 0.0, 3000));
    (30..=40).for_each(|s| w.published(s, 140 + u64::from(s - 29) * 20));
    let fast = w.lanes(40);
    assert_eq!((&fast.state, fast.rate_hz), (&EndState::Fast, 20.0));
}

#[test]
fn a_rate_is_measured_from_the_activation_on() {
    // With samples of an earlier activation, and without.
    for before in [10, 0] {
        let mut w = World::new();
        if before > 0 {
            w.published(1, before);
        }
        let (component, error) = ("lane".to_owned(), None);
        let active = true;
        w.record(20, &Record::Transition { component, active, switch: 1, took_ns: 0, error });
        assert_eq!((w.lanes(20).rate_hz, w.lanes(20).state), (0.0, EndState::Waiting));
        w.published(21, before + 10);
        assert_eq!((w.lanes(21).rate_hz, w.lanes(21).state), (10.0, EndState::Flowing));
    }
}

#[test]
fn a_topic_of_one_sample_in_ten_seconds_is_not_silent() {
    let mut w = World::new();
    w.module.components[0].outputs[0].rate = None;
    (1..=3).for_each(|n| w.published(n * 10, u64::from(n)));
    assert_eq!((w.lanes(30).rate_hz, w.lanes(30).state), (0.1, EndState::Flowing));
    assert_eq!(w.lanes(50).state, EndState::Flowing);
    assert_eq!(w.lanes(51).state, EndState::Silent);
}

#[test]
fn states_follow_process_mode_and_end() {
    let mut w = World::new();
    w.published(1, 10);
    let state = |h: &ModuleHealth| {
        let lane = &h.components[0];
        (lane.state.clone(), lane.outputs[0].state.clone())
    };
    assert_eq!(state(&w.at(1, Some(false))), (ComponentState::Inactive, EndState::Off));
    let process = ProcessNow { alive: false, since: w.began + S, busy: None };
    let down = w.observed.health(&w.module, process, w.began + 3 * S, |_| None);
    assert_eq!(state(&down), (ComponentState::Down, EndState::Off));
    assert_eq!(down.components[0].since_ms, 2000);
    let just_down = w.observed.health(&w.module, process, w.began + 2 * S, |_| None);
    assert_eq!(just_down.components[0].outputs[0].rate_hz, 0.0);
    let starting = Observed::default().health(
        &w.module,
        ProcessNow { alive: true, ..process },
        w.began + 3 * S,
        |_| None,
    );
    assert_eq!(state(&starting), (ComponentState::Starting, EndState::Off));
    w.record(2, &Record::Finished { component: "lane".into() });
    assert_eq!(state(&w.at(2, None)), (ComponentState::Finished, EndState::Flowing));
}

#[test]
fn an_executor_has_its_threads_and_the_call_that_lasts() {
    let w = World::new();
    let call =
        CallPlace { component: "lane".into(), call: Call::Timer, topic: None, sequence: None };
    let process = ProcessNow { alive: true, since: w.began, busy: Some(&call) };
    let health = w.observed.health(&w.module, process, w.began + S, |_| None);
    let [main, main2] = health.executors.as_slice() else { panic!("{health:?}") };
    assert_eq!(main.schedules, ["thread main/0: Normal"]);
    assert_eq!(main2.schedules, ["thread main2/0: Fifo"]);
    assert!(main.busy.as_ref().is_some_and(|b| b.contains("lane")), "{main:?}");
    assert_eq!(main2.busy, None);
    assert_eq!((&main.state, main.since_ms), (&ComponentState::Active, 1000));
}

#[test]
fn an_end_that_fits_no_other_is_refused_and_strangers_are_not_kept() {
    let mut w = World::new();
    let refused = |component: &str, port: &str| Record::Refused {
        component: component.into(),
        port: port.into(),
        text: "other schema".into(),
    };
    w.record(1, &refused("lane", "lanes"));
    let lanes = w.lanes(3);
    assert_eq!((&lanes.state, lanes.since_ms), (&EndState::Refused, 2000));
    w.record(1, &refused("lane", "door"));
    w.record(1, &refused(&"x".repeat(1000), "lanes"));
    assert_eq!(w.observed.components.len(), 1);
    let lane = &w.observed.components["lane"];
    assert_eq!((lane.inputs.len(), lane.outputs.len()), (0, 1));
}

#[test]
fn an_input_whose_component_keeps_its_samples_says_so() {
    let mut w = World::new();
    let held = |end| Record::Held {
        component: "lane".into(),
        input: "image".into(),
        topic: "camera/image".into(),
        held: 2,
        triggers: true,
        end,
    };
    let fault = |w: &World| w.at(9, None).components[0].inputs[0].last_fault.clone().unwrap();
    w.record(1, &held(None));
    assert_eq!(
        (fault(&w).text.as_str(), fault(&w).ago_ms),
        ("gets no samples: the component keeps 2, which is its max_held", 8000)
    );
    w.record(4, &held(Some(HeldEnd { lasted_ms: 3500, missed: 7 })));
    assert_eq!(
        fault(&w).text,
        "got no samples for 3.5 s: the component kept 2, which is its max_held"
    );
}
