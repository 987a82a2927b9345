// SPDX-License-Identifier: Apache-2.0
//! The supervisor under random schedules of deaths, hangs, slow starts, failed spawns and stops.

use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
/// Longer than all pauses and time-outs of a schedule together, so that each process reaches its
/// limit.
const WINDOW: Duration = Duration::from_secs(3600);

fn rules() -> Rules {
    Rules {
        restart: ResolvedRestart {
            policy: RestartPolicy::OnFailure,
            backoff: 100 * MS,
            max: Some(3),
            window: 60_000 * MS,
            on_exhausted: None,
        },
        ready_within: 1000 * MS,
        grace: 50 * MS,
        depends_on: Vec::new(),
        restart_with: Vec::new(),
        gateway: false,
    }
}

fn with(policy: RestartPolicy) -> Rules {
    Rules { restart: ResolvedRestart { policy, ..rules().restart }, ..rules() }
}

/// A supervisor whose processes all run.
fn running(rules: Vec<Rules>) -> Supervisor {
    let n = rules.len();
    let mut s = Supervisor::new(rules);
    s.step(Duration::ZERO, Input::Time);
    for _ in 0..n {
        for i in 0..n {
            if matches!(s.state(i), State::Starting { .. }) {
                s.step(Duration::ZERO, Input::Ready(i));
            }
        }
    }
    assert!(s.settled());
    s.step(Duration::ZERO, Input::GraphRuns);
    s
}

fn died(process: usize) -> Input {
    Input::Ended { process, ok: false }
}

#[test]
fn a_faulty_module_is_started_again_whatever_its_policy_within_its_limit() {
    let mut s = running(vec![Rules {
        restart: ResolvedRestart { max: Some(2), ..with(RestartPolicy::Never).restart },
        ..rules()
    }]);
    let restart = |after| Action::Restart { process: 0, after };
    // It ends in order, with success, as it was asked to.
    assert_eq!(s.step(MS, Input::Faulty { process: 0, killed: false }), [Action::Terminate(0)]);
    assert_eq!(s.step(2 * MS, Input::Faulty { process: 0, killed: true }), [], "it ends already");
    assert_eq!(s.step(3 * MS, Input::Ended { process: 0, ok: true }), [restart(100 * MS)]);
    assert_eq!(s.step(103 * MS, Input::Time), [Action::Start(0)]);
    s.step(104 * MS, Input::Ready(0));
    // Killed by the launcher, because it hangs.
    assert_eq!(s.step(105 * MS, Input::Faulty { process: 0, killed: true }), []);
    assert_eq!(s.step(106 * MS, died(0)), [restart(200 * MS)]);
    assert_eq!(s.step(306 * MS, Input::Time), [Action::Start(0)]);
    s.step(307 * MS, Input::Ready(0));
    s.step(308 * MS, Input::Faulty { process: 0, killed: true });
    assert!(
        s.step(309 * MS, died(0))
            .contains(&Action::Down { process: 0, why: DownReason::Exhausted })
    );
}

#[test]
fn a_process_that_cannot_be_started_stays_down_whatever_its_policy() {
    let mut s = running(vec![with(RestartPolicy::Always), with(RestartPolicy::Always)]);
    let after = s.step(MS, died(0));
    assert!(matches!(after[..], [Action::Restart { process: 0, .. }]), "{after:?}");
    assert_eq!(s.step(1000 * MS, Input::Time), [Action::Start(0)]);
    let down = Action::Down { process: 0, why: DownReason::Policy };
    assert_eq!(s.step(1000 * MS, Input::Unstartable(0)), [down]);
    assert_eq!(s.step(5000 * MS, Input::Time), []);
}

#[test]
fn a_module_without_a_policy_stays_down_and_the_others_go_on() {
    let mut s = running(vec![with(RestartPolicy::Never), with(RestartPolicy::Never)]);
    assert_eq!(s.step(MS, died(0)), [Action::Down { process: 0, why: DownReason::Policy }]);
    assert!(matches!(s.state(1), State::Ready { .. }));
    // No process is left.
    assert_eq!(
        s.step(2 * MS, died(1)),
        [Action::Down { process: 1, why: DownReason::Policy }, Action::StopRun(1)]
    );
}

#[test]
fn a_failed_start_ends_the_run_unless_the_graph_goes_on_without_the_module() {
    for (on_exhausted, ends) in
        [(None, true), (Some(OnExhausted::Stop), true), (Some(OnExhausted::ContinueWithout), false)]
    {
        let mut first = with(RestartPolicy::Never);
        first.restart.on_exhausted = on_exhausted.clone();
        let mut s = Supervisor::new(vec![first, rules()]);
        assert_eq!(s.step(Duration::ZERO, Input::Time), [Action::Start(0), Action::Start(1)]);
        assert_eq!(s.step(MS, died(0)).contains(&Action::StopRun(0)), ends, "{on_exhausted:?}");
    }
}

#[test]
fn a_process_that_ends_well_is_restarted_only_by_always() {
    for (policy, restarts) in [
        (RestartPolicy::Never, false),
        (RestartPolicy::OnFailure, false),
        (RestartPolicy::Always, true),
    ] {
        let mut s = running(vec![with(policy), rules()]);
        let actions = s.step(MS, Input::Ended { process: 0, ok: true });
        assert_eq!(
            actions.contains(&Action::Restart { process: 0, after: 100 * MS }),
            restarts,
            "{policy:?}: {actions:?}"
        );
    }
}

#[test]
fn pauses_double_until_a_module_has_recovered_and_end_with_the_limit() {
    let mut s = running(vec![rules(), rules()]);
    let mut now = 5000 * MS;
    for after in [100, 200] {
        assert_eq!(s.step(now, died(0)), [Action::Restart { process: 0, after: after * MS }]);
        now += after * MS;
        assert_eq!(s.step(now - MS, Input::Time), []);
        assert_eq!(s.step(now, Input::Time), [Action::Start(0)]);
        s.step(now, Input::Ready(0));
    }
    now += STEADY;
    assert_eq!(
        s.step(now, died(0)),
        [Action::Restart { process: 0, after: 100 * MS }],
        "it had recovered"
    );
    s.step(now + 100 * MS, Input::Time);
    assert_eq!(
        s.step(now + 101 * MS, died(0)),
        [Action::Down { process: 0, why: DownReason::Exhausted }],
        "the fourth in a minute"
    );
}

#[test]
fn a_module_that_is_not_ready_in_time_is_terminated_killed_and_restarted() {
    let mut s = running(vec![rules(), rules()]);
    s.step(MS, died(0));
    assert_eq!(s.step(101 * MS, Input::Time), [Action::Start(0)]);
    assert_eq!(s.step(1101 * MS, Input::Time), [Action::NotReady(0), Action::Terminate(0)]);
    assert_eq!(s.next(), Some(1151 * MS));
    assert_eq!(s.step(1151 * MS, Input::Time), [Action::Kill(0)]);
    assert_eq!(s.step(1152 * MS, died(0)), [Action::Restart { process: 0, after: 200 * MS }]);
}

#[test]
fn companions_restart_together_and_those_of_companions_too() {
    let companion = |of: usize| Rules { restart_with: vec![of], ..rules() };
    let mut s = running(vec![rules(), companion(0), companion(1), rules()]);
    let zero = Duration::ZERO;
    let expected = [
        Action::Restart { process: 0, after: 100 * MS },
        Action::Restart { process: 1, after: zero },
        Action::Terminate(1),
        Action::Restart { process: 2, after: zero },
        Action::Terminate(2),
    ];
    assert_eq!(s.step(MS, died(0)), expected);
    assert_eq!(
        s.step(2 * MS, Input::Ended { process: 1, ok: true }),
        [],
        "it waits for the failed process"
    );
    assert_eq!(s.step(3 * MS, Input::Ended { process: 2, ok: true }), [Action::Start(2)]);
    assert_eq!(s.step(101 * MS, Input::Time), [Action::Start(0), Action::Start(1)]);
}

#[test]
fn a_module_starts_when_what_it_depends_on_is_ready_and_never_without_it() {
    let dependent = Rules { depends_on: vec![0], ..rules() };
    let mut s = Supervisor::new(vec![with(RestartPolicy::Never), dependent.clone(), rules()]);
    assert_eq!(s.step(Duration::ZERO, Input::Time), [Action::Start(0), Action::Start(2)]);
    assert_eq!(s.step(MS, Input::Ready(0)), [Action::Start(1)]);
    let mut continuing = with(RestartPolicy::Never);
    continuing.restart.on_exhausted = Some(OnExhausted::ContinueWithout);
    let dependent = Rules {
        restart: ResolvedRestart {
            on_exhausted: Some(OnExhausted::ContinueWithout),
            ..rules().restart
        },
        ..dependent
    };
    let mut s = Supervisor::new(vec![continuing, dependent, rules()]);
    s.step(Duration::ZERO, Input::Time);
    let down = |process, why| Action::Down { process, why };
    assert_eq!(
        s.step(MS, died(0)),
        [down(0, DownReason::Policy), down(1, DownReason::Dependency(0))]
    );
}

#[test]
fn a_stop_during_a_pause_starts_nothing_and_ends_what_was_announced() {
    let mut s = running(vec![rules(), rules()]);
    s.step(MS, died(0));
    assert_eq!(
        s.step(2 * MS, Input::Stop),
        [Action::Down { process: 0, why: DownReason::RunStops }]
    );
    assert_eq!(s.step(10_000 * MS, Input::Time), []);
    assert!(s.next().is_none() && !s.pending());
}

#[test]
fn a_module_that_still_starts_again_when_the_run_stops_is_down() {
    let mut s = running(vec![rules(), rules()]);
    s.step(MS, died(0));
    assert_eq!(s.step(101 * MS, Input::Time), [Action::Start(0)]);
    let down = [Action::Down { process: 0, why: DownReason::RunStops }];
    assert_eq!(s.step(102 * MS, Input::Stop), down);
    assert_eq!(s.step(103 * MS, Input::Ended { process: 0, ok: true }), [], "reported once");
}

#[test]
fn gateways_are_restarted_while_the_graph_runs_and_do_not_keep_it_running() {
    let gateway = || Rules {
        restart: ResolvedRestart { max: None, ..with(RestartPolicy::Always).restart },
        gateway: true,
        ..rules()
    };
    let mut s = Supervisor::new(vec![gateway(), with(RestartPolicy::Never)]);
    s.step(Duration::ZERO, Input::Time);
    assert!(
        s.step(MS, died(0)).contains(&Action::StopRun(0)),
        "a gateway that cannot start fails the start"
    );
    let mut s = running(vec![gateway(), with(RestartPolicy::Never)]);
    assert_eq!(s.step(MS, died(0)), [Action::Restart { process: 0, after: 100 * MS }]);
    assert!(s.step(2 * MS, died(1)).contains(&Action::StopRun(1)));
}

/// One event of a random schedule.
#[derive(Clone, Debug)]
enum Event {
    Ready(usize),
    Ends { process: usize, ok: bool },
    Faulty { process: usize, killed: bool },
    Time,
    Stop,
}

fn events(n: usize) -> impl Strategy<Value = Vec<(u64, bool, Event)>> {
    let event = prop_oneof![
        6 => (0..n).prop_map(Event::Ready),
        4 => (0..n, any::<bool>()).prop_map(|(process, ok)| Event::Ends { process, ok }),
        2 => (0..n, any::<bool>()).prop_map(|(process, killed)| Event::Faulty { process, killed }),
        4 => Just(Event::Time),
        1 => Just(Event::Stop),
    ];
    // The flag: a spawn that is due in this step fails.
    prop::collection::vec((0..700u64, prop::bool::weighted(0.1), event), 0..60)
}

fn any_rules(n: usize) -> impl Strategy<Value = Rules> {
    let policy = prop_oneof![
        Just(RestartPolicy::Never),
        Just(RestartPolicy::OnFailure),
        Just(RestartPolicy::Always)
    ];
    let exhausted = prop_oneof![
        1 => Just(None), 1 => Just(Some(OnExhausted::Stop)),
        3 => Just(Some(OnExhausted::ContinueWithout))
    ];
    let others = prop::collection::vec(0..n, 0..2);
    (
        policy,
        exhausted,
        prop::option::of(1..4u32),
        others.clone(),
        others,
        prop::bool::weighted(0.2),
    )
        .prop_map(|(policy, on_exhausted, max, depends_on, restart_with, gateway)| Rules {
            restart: ResolvedRestart {
                policy,
                max,
                on_exhausted,
                window: WINDOW,
                ..rules().restart
            },
            depends_on,
            restart_with,
            gateway,
            ..rules()
        })
}

fn schedules() -> impl Strategy<Value = (Vec<Rules>, Vec<(u64, bool, Event)>)> {
    (1..5usize).prop_flat_map(|n| {
        let acyclic = prop::collection::vec(any_rules(n), n).prop_map(|mut all| {
            for (i, rules) in all.iter_mut().enumerate() {
                rules.depends_on.retain(|d| *d < i);
                rules.restart_with.retain(|d| *d != i);
            }
            all
        });
        (acyclic, events(n))
    })
}

/// Processes as the launcher has them, and what must hold at each action.
struct World {
    supervisor: Supervisor,
    now: Duration,
    alive: Vec<bool>,
    terminated: Vec<Option<Duration>>,
    announced: Vec<bool>,
    restarts: Vec<Vec<Duration>>,
    stopped: bool,
    graph_runs: bool,
}

impl World {
    fn new(rules: Vec<Rules>) -> Self {
        let n = rules.len();
        Self {
            supervisor: Supervisor::new(rules),
            now: Duration::ZERO,
            alive: vec![false; n],
            terminated: vec![None; n],
            announced: vec![false; n],
            restarts: vec![Vec::new(); n],
            stopped: false,
            graph_runs: false,
        }
    }

    fn step(&mut self, input: Input, spawn_fails: bool) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            match input {
                Input::Ended { process, .. } => {
                    (self.alive[process], self.terminated[process]) = (false, None)
                }
                Input::Ready(i) if matches!(self.supervisor.state(i), State::Starting { .. }) => {
                    self.announced[i] = false
                }
                Input::Stop => self.stopped = true,
                Input::Faulty { process, killed: true } => {
                    self.terminated[process] = Some(self.now);
                }
                _ => {}
            }
            for action in self.supervisor.step(self.now, input) {
                match action {
                    Action::Start(i) => {
                        assert!(
                            !self.stopped && !self.alive[i],
                            "started twice, or after the stop"
                        );
                        let ready =
                            |d: &usize| matches!(self.supervisor.state(*d), State::Ready { .. });
                        assert!(self.supervisor.processes[i].rules.depends_on.iter().all(ready));
                        if spawn_fails {
                            inputs.push_back(Input::Ended { process: i, ok: false });
                        } else {
                            self.alive[i] = true;
                        }
                    }
                    Action::Terminate(i) => {
                        let spawn_failed = inputs.iter().any(
                            |input| matches!(input, Input::Ended { process, .. } if *process == i),
                        );
                        assert!((self.alive[i] || spawn_failed) && !self.stopped);
                        self.terminated[i] = Some(self.now);
                    }
                    Action::Kill(i) => {
                        let since = self.terminated[i].expect("killed without SIGTERM before");
                        assert!(self.now >= since + 50 * MS);
                        inputs.push_back(Input::Ended { process: i, ok: false });
                    }
                    Action::NotReady(i) => assert!(self.alive[i]),
                    Action::Restart { process, after } => {
                        assert!(!self.stopped && after <= MAX_PAUSE);
                        self.announced[process] = true;
                        if after > Duration::ZERO {
                            self.restarts[process].push(self.now);
                        }
                    }
                    Action::Down { process, why } => {
                        // When a run ends, a process may still be starting; it is then ended.
                        assert!(!self.alive[process] || why == DownReason::RunStops);
                        self.announced[process] = false;
                    }
                    Action::StopRun(_) => {
                        assert!(!self.stopped, "the run was stopped twice");
                        self.stopped = true;
                    }
                }
            }
            if !self.graph_runs && !self.stopped && self.supervisor.settled() {
                self.graph_runs = true;
                inputs.push_back(Input::GraphRuns);
            }
        }
    }

    /// Lets every due time pass; no process ends by itself, none becomes ready.
    fn drain(&mut self) {
        for _ in 0..1000 {
            let Some(next) = self.supervisor.next() else { return };
            self.now = self.now.max(next);
            self.step(Input::Time, false);
        }
        panic!("the supervisor never comes to rest");
    }
}

proptest! {
    #[test]
    fn every_restart_ends_ready_or_down_and_nothing_starts_after_a_stop(
        (rules, events) in schedules(),
    ) {
        let limits: Vec<_> = rules.iter().map(|r| r.restart.max).collect();
        let mut world = World::new(rules);
        world.step(Input::Time, false);
        for (after, spawn_fails, event) in events {
            world.now += Duration::from_millis(after);
            match event {
                Event::Ready(i) if world.alive[i] => world.step(Input::Ready(i), spawn_fails),
                Event::Ends { process, ok } if world.alive[process] => {
                    world.step(Input::Ended { process, ok }, spawn_fails)
                }
                Event::Faulty { process, killed }
                    if world.alive[process]
                        && !world.stopped
                        && world.terminated[process].is_none() =>
                {
                    world.step(Input::Faulty { process, killed }, spawn_fails);
                }
                Event::Stop if !world.stopped => world.step(Input::Stop, spawn_fails),
                _ => world.step(Input::Time, spawn_fails),
            }
            for (restarts, max) in world.restarts.iter().zip(&limits) {
                let recent = restarts.iter().filter(|at| world.now - **at < WINDOW).count();
                prop_assert!(
                    max.is_none_or(|max| recent <= max as usize),
                    "more restarts than the limit"
                );
            }
        }
        // Processes with an unlimited number of restarts never give up by themselves.
        if limits.iter().all(Option::is_some) {
            world.drain();
            let at_rest = |i| {
                matches!(world.supervisor.state(i), State::Ready { .. } | State::Down)
                    || world.stopped
            };
            prop_assert!((0..limits.len()).all(at_rest), "{:?}", world.supervisor);
        }
        if !world.stopped {
            world.step(Input::Stop, false);
        }
        for process in 0..limits.len() {
            if world.alive[process] {
                world.step(Input::Ended { process, ok: true }, false);
            }
        }
        prop_assert!(!world.supervisor.pending() && world.supervisor.next().is_none());
        prop_assert!(
            world.announced.iter().all(|a| !a),
            "a restart was announced that ended neither ready nor down"
        );
    }
}
