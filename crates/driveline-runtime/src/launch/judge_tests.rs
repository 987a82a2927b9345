// SPDX-License-Identifier: Apache-2.0
//! Findings and false alarms, on a clock that the test sets.

use super::*;
use crate::heartbeats::{ComponentSnapshot, PERIOD};
use driveline_graph::model::GroupSpec;
use driveline_graph::{
    ResolvedBudget, ResolvedComponent, ResolvedInput, ResolvedOutput, ResolvedRestart,
    ResolvedTrigger, ResolvedWatch, RestartPolicy,
};
use driveline_types::Qos;

/// A module with one component, one input and one output.
pub(crate) fn module() -> ResolvedModule {
    let component = ResolvedComponent {
        name: "lane".parse().unwrap(),
        library: "lib".into(),
        class: "Lane".into(),
        executor: "main".into(),
        callback_group: GroupSpec::MutuallyExclusive,
        parameters: Default::default(),
        ranges: Default::default(),
        live: Default::default(),
        inputs: vec![ResolvedInput {
            port: "image".into(),
            topic: "camera/image".parse().unwrap(),
            schema: None,
            qos: Qos::default(),
            max_held: 2,
            on_deadline: Some(Reaction::Event),
        }],
        outputs: vec![ResolvedOutput {
            port: "lanes".into(),
            topic: "lanes".parse().unwrap(),
            schema: None,
            qos: Qos::default(),
            rate: Some(ResolvedRate { min: Some(9.0), max: Some(12.0), reaction: Reaction::Stop }),
        }],
        trigger: ResolvedTrigger::Own,
        budget: Some(ResolvedBudget {
            time: Duration::from_millis(500),
            reaction: Reaction::Event,
        }),
    };
    ResolvedModule {
        name: "perception".parse().unwrap(),
        environment: Default::default(),
        executors: Vec::new(),
        components: vec![component],
        restart: ResolvedRestart {
            policy: RestartPolicy::Never,
            backoff: Duration::ZERO,
            max: None,
            window: Duration::ZERO,
            on_exhausted: None,
        },
        ready_within: None,
        depends_on: Vec::new(),
        restart_with: Vec::new(),
        deployment: Default::default(),
        watch: ResolvedWatch {
            hang: Some((Duration::from_secs(2), Reaction::Restart)),
            ..ResolvedWatch::default()
        },
        real_time: Default::default(),
    }
}

/// The graph runs.
const RUNS: Conditions<'_> = Conditions {
    suspended: false,
    ending: false,
    mode: None,
    asked_at: Duration::ZERO,
    runs: true,
    stood_still: false,
};

/// A module that beats and publishes, and a launcher that checks its heartbeats.
struct World<'a> {
    judge: Judge<'a>,
    now: Duration,
    words: Snapshot,
    hz: f64,
    published: f64,
    found: Vec<Finding>,
}

impl<'a> World<'a> {
    fn new(module: &'a ResolvedModule) -> Self {
        let words = ComponentSnapshot { inputs: vec![0], outputs: vec![0], ..Default::default() };
        let words = Snapshot { beat: 0, components: vec![words] };
        let now = Duration::from_secs(1000);
        Self { judge: Judge::new(module), now, words, hz: 10.0, published: 0.0, found: Vec::new() }
    }

    fn component(&mut self) -> &mut ComponentSnapshot {
        &mut self.words.components[0]
    }

    fn beat(&mut self) {
        let beat = u64::try_from(self.now.as_nanos()).unwrap();
        let since = beat.saturating_sub(self.words.beat);
        if self.words.beat > 0 {
            self.published += self.hz * since as f64 / 1e9;
        }
        self.words.beat = beat;
        self.words.components[0].outputs[0] = self.published as u64;
    }

    fn look(&mut self, on: Conditions<'_>) {
        let found = self.judge.look(self.now, &self.words, on);
        self.found.extend(found);
    }

    /// Beats and looks for some time.
    fn runs(&mut self, time: Duration) -> Vec<Finding> {
        let end = self.now + time;
        while self.now < end {
            self.now += PERIOD;
            self.beat();
            self.look(RUNS);
        }
        std::mem::take(&mut self.found)
    }
}

const S: Duration = Duration::from_secs(1);

#[test]
fn a_module_that_works_makes_no_finding() {
    let module = module();
    let mut world = World::new(&module);
    for call in 0..600 {
        world.component().since = if call % 2 == 0 { 1_000 + call } else { 0 };
        assert_eq!(world.runs(Duration::from_millis(400)), [], "call {call}");
    }
}

#[test]
fn a_call_that_does_not_end_is_an_overrun_and_then_hangs_once() {
    let module = module();
    let mut world = World::new(&module);
    world.runs(S);
    world.component().since = 77;
    let found = world.runs(60 * S);
    let kinds: Vec<_> = found.iter().map(|f| (f.reaction.clone(), f.what.to_string())).collect();
    assert_eq!(kinds.len(), 2, "{kinds:?}");
    assert_eq!(kinds[0].0, Reaction::Event);
    assert_eq!(
        kinds[0].1,
        "component 'lane': a call took longer than `budget_ms: 500` (longest call since the start: \
         600.0 ms)"
    );
    assert_eq!(kinds[1].0, Reaction::Restart);
    assert_eq!(
        kinds[1].1,
        "component 'lane' hangs: a call has not ended for 2.1 s (`hang_ms: 2000`)"
    );
    // The call ends after all, which its thread counts before the next beat. It is the overrun that
    // was reported already; the next one is new.
    world.component().overruns = 1;
    assert_eq!(world.runs(Duration::from_millis(100)), []);
    world.component().since = 0;
    assert_eq!(world.runs(20 * S), []);
    (world.component().overruns, world.component().worst_ns) = (3, 900_000_000);
    let found = world.runs(S);
    assert!(
        found[0].what.to_string().contains("2 calls took longer than `budget_ms: 500`"),
        "{found:?}"
    );
}

/// SIGSTOP, a debugger: no beats, a call that seems to take a minute, and no samples.
#[test]
fn a_process_that_is_stopped_for_a_minute_does_not_hang() {
    for known in [true, false] {
        let module = module();
        let mut world = World::new(&module);
        world.runs(3 * S);
        world.component().since = 77;
        world.runs(Duration::from_millis(300));
        for _ in 0..600 {
            world.now += PERIOD;
            world.look(Conditions { suspended: known, ..RUNS });
        }
        assert_eq!(world.found, [], "the launcher knows of the suspension: {known}");
        // The first beats after the suspension come before the call ends and the samples flow.
        world.published -= world.hz * 60.0;
        assert_eq!(world.runs(Duration::from_millis(100)), []);
        world.component().since = 0;
        assert_eq!(world.runs(10 * S), [], "the launcher knows of the suspension: {known}");
    }
}

/// The reader of the deadline and its publisher are in the suspended module.
#[test]
fn deadlines_missed_while_the_module_was_suspended_have_no_reaction() {
    for known in [true, false] {
        let mut module = module();
        module.components[0].inputs[0].on_deadline = Some(Reaction::Restart);
        let mut world = World::new(&module);
        world.runs(3 * S);
        for _ in 0..30 {
            world.now += PERIOD;
            world.look(Conditions { suspended: known, ..RUNS });
        }
        world.beat();
        world.component().inputs[0] = 29;
        world.look(RUNS);
        let found = std::mem::take(&mut world.found);
        assert_eq!(found[0].reaction, Reaction::Event, "the launcher knows: {known}");
        assert_eq!(world.runs(S), []);
        world.component().inputs[0] = 30;
        assert_eq!(world.runs(S)[0].reaction, Reaction::Restart, "a new one");
    }
}

/// `CLOCK_MONOTONIC` stands still while the machine is suspended. So the launcher's checks are far
/// apart in real time, but not on this clock.
#[test]
fn a_machine_that_is_suspended_makes_no_finding() {
    let module = module();
    let mut world = World::new(&module);
    world.runs(3 * S);
    world.component().since = 77;
    for _ in 0..60 {
        // A minute passes between two checks, but only a millisecond of it on CLOCK_MONOTONIC.
        world.now += Duration::from_millis(1);
        world.look(RUNS);
    }
    assert_eq!(world.runs(Duration::from_millis(300)), []);
}

#[test]
fn a_launcher_that_is_stopped_for_a_minute_makes_no_finding() {
    let module = module();
    let mut world = World::new(&module);
    world.runs(3 * S);
    world.component().since = 77;
    // The module has worked meanwhile. The launcher cannot know whether its call ended and another
    // one began, so this minute does not count.
    world.now += 60 * S;
    world.beat();
    world.look(RUNS);
    assert_eq!(world.found, []);
    assert_eq!(world.runs(Duration::from_millis(400)), []);
}

/// A machine that is so busy that a process gets one slice each second: none of its calls can be
/// judged.
#[test]
fn a_busy_machine_makes_no_finding() {
    let module = module();
    let mut world = World::new(&module);
    world.component().since = 77;
    for look in 1..3600 {
        world.now += PERIOD;
        if look % 10 == 0 {
            world.beat();
        }
        world.look(RUNS);
    }
    assert_eq!(world.found, []);
}

#[test]
fn rates_are_judged_over_windows_and_reported_at_most_every_ten_seconds() {
    let module = module();
    for (hz, finds) in [(8.0, 6), (9.2, 0), (12.0, 0), (14.0, 6), (0.0, 6)] {
        let mut world = World::new(&module);
        world.hz = hz;
        let found = world.runs(60 * S);
        assert_eq!(found.len(), finds, "{hz} Hz: {found:?}");
        assert!(found.iter().all(|f| f.reaction == Reaction::Stop));
    }
    let mut world = World::new(&module);
    world.hz = 0.0;
    let found = world.runs(3 * S);
    assert_eq!(
        found[0].what.to_string(),
        "output 'lanes' of component 'lane' publishes at 0.0 Hz (topic 'lanes', `rate_hz: {min: 9, \
         max: 12}`)"
    );
    let mut world = World::new(&module);
    world.hz = 0.0;
    for _ in 0..600 {
        world.now += PERIOD;
        world.beat();
        world.look(Conditions { ending: true, ..RUNS });
    }
    assert_eq!(world.found, [], "sources have finished");
}

#[test]
fn missed_deadlines_are_counted() {
    let module = module();
    let mut world = World::new(&module);
    world.runs(S);
    world.component().inputs[0] = 2;
    world.runs(S);
    world.component().inputs[0] = 5;
    assert_eq!(world.runs(S), [], "reported a second ago");
    let found = world.runs(10 * S);
    let text = found[0].what.to_string();
    assert!(text.contains("missed its deadline 3 times (topic 'camera/image'"), "{text}");
}

#[test]
fn the_silence_of_an_inactive_component_is_no_finding() {
    let module = module();
    let mut world = World::new(&module);
    world.runs(S);
    world.judge.note_inactive(|name| name == "lane");
    world.hz = 0.0;
    assert_eq!(world.runs(30 * S), []);
    // Active again: the window begins anew.
    world.judge.note_inactive(|_| false);
    world.hz = 10.0;
    assert_eq!(world.runs(10 * S), []);
    world.hz = 0.0;
    assert_eq!(world.runs(10 * S).len(), 1);
}

/// The launcher can check before the module has written its first beat after a suspension.
#[test]
fn no_rate_contains_a_suspension() {
    let module = module();
    for checks in 0..5 {
        let mut world = World::new(&module);
        assert_eq!(world.runs(3 * S), []);
        for _ in 0..20 {
            world.now += PERIOD;
            world.look(Conditions { suspended: true, ..RUNS });
        }
        for _ in 0..checks {
            world.now += PERIOD / 5;
            world.look(RUNS);
        }
        // Nothing was published meanwhile.
        world.words.beat = u64::try_from(world.now.as_nanos()).unwrap();
        assert_eq!(world.runs(10 * S), [], "{checks} checks before the first beat");
    }
}

#[test]
fn a_mode_is_requested_at_each_fault_and_never_after_it() {
    let mut module = module();
    module.components[0].inputs[0].on_deadline = Some(Reaction::Mode("late".into()));
    let mut world = World::new(&module);
    // Looks for some time. Each look finds `misses` more. `asked_at`: when the mode was commanded.
    let mut look = |seconds: f64, misses: u64, mode: &'static str, asked_at: Duration| {
        let asked_at = asked_at.min(world.now);
        let end = world.now + Duration::from_secs_f64(seconds);
        while world.now < end {
            world.now += PERIOD;
            world.beat();
            world.component().inputs[0] += misses;
            world.look(Conditions { mode: Some(mode), asked_at, ..RUNS });
        }
        let found = std::mem::take(&mut world.found).into_iter();
        found.filter(|f| f.reaction == Reaction::Mode("late".into())).count()
    };
    let never = Duration::ZERO;
    assert_eq!(look(0.1, 1, "drive", never), 1, "at once");
    assert_eq!(look(30.0, 1, "late", never), 0, "the mode is in force");
    assert_eq!(look(0.4, 0, "late", never), 0);
    assert_eq!(look(60.0, 0, "drive", S), 0, "a fault that is over causes nothing");
    assert_eq!(look(0.1, 1, "drive", S), 1, "the next fault");
    assert_eq!(look(9.0, 1, "drive", S), 0, "a refused request is not repeated at once");
    assert_eq!(look(2.0, 1, "drive", S), 1, "but later, as long as the fault lasts");
    assert_eq!(look(0.3, 1, "stop", S), 0, "nor if another reaction has changed the mode");
    assert_eq!(look(0.1, 1, "drive", 2 * S), 1, "a command has changed the mode meanwhile");
    assert_eq!(look(9.0, 1, "late", 2 * S), 0);
    let now = Duration::MAX;
    assert_eq!(look(0.1, 1, "drive", now), 0, "it may have been missed before the command");
    assert_eq!(look(20.0, 0, "drive", 3 * S), 0);
}

#[test]
fn a_call_that_still_hangs_leads_back_to_the_mode() {
    let mut module = module();
    module.components[0].budget = None;
    module.components[0].outputs[0].rate = None;
    module.watch.hang = Some((2 * S, Reaction::Mode("stop".into())));
    let mut world = World::new(&module);
    world.component().since = 77;
    let mut requests = |seconds: u32, mode: &'static str, asked_at: Duration| {
        let end = world.now + seconds * S;
        while world.now < end {
            world.now += PERIOD;
            world.beat();
            world.look(Conditions { mode: Some(mode), asked_at, ..RUNS });
        }
        let found = std::mem::take(&mut world.found).into_iter();
        found.filter(|f| matches!(f.reaction, Reaction::Mode(_))).count()
    };
    assert_eq!(requests(3, "drive", Duration::ZERO), 1);
    assert_eq!(requests(30, "stop", Duration::ZERO), 0, "the mode is in force");
    assert_eq!(requests(1, "drive", S), 1, "a command has left the mode");
    assert_eq!(requests(8, "drive", S), 0, "refused");
    assert_eq!(requests(2, "drive", S), 1, "again after 10 s");
}

#[test]
fn a_fault_of_a_time_in_which_the_launcher_stood_still_has_no_reaction() {
    for wanted in [Reaction::Mode("late".into()), Reaction::Restart] {
        let mut module = module();
        module.components[0].inputs[0].on_deadline = Some(wanted.clone());
        let mut world = World::new(&module);
        world.runs(S);
        world.now += 3 * S;
        world.beat();
        world.component().inputs[0] = 20;
        world.look(RUNS);
        let found = std::mem::take(&mut world.found);
        assert_eq!(found[0].reaction, Reaction::Event, "the fault may be over");
        assert_eq!(world.runs(20 * S), []);
        world.component().inputs[0] = 21;
        assert_eq!(world.runs(S)[0].reaction, wanted, "a new one");
        // One that lasts.
        world.runs(20 * S);
        world.now += 3 * S;
        world.beat();
        world.component().inputs[0] = 40;
        world.look(RUNS);
        assert_eq!(std::mem::take(&mut world.found)[0].reaction, Reaction::Event);
        world.component().inputs[0] = 41;
        assert_eq!(world.runs(S)[0].reaction, wanted);
    }
}
