// SPDX-License-Identifier: Apache-2.0
//! Modes under random schedules of switches, deaths, hangs, failures and late acknowledgements.

use super::*;
use proptest::prelude::*;

const MS: Duration = Duration::from_millis(1);
const MANUAL: usize = 0;
const AUTONOMOUS: usize = 1;
const SAFE_STOP: usize = 2;
/// Components, each in a module of its own.
const JOYSTICK: usize = 0;
const PLANNER: usize = 1;
const BRAKE: usize = 2;

fn mode(active: &[usize], fallback: &[usize]) -> ModeRules {
    ModeRules {
        active: active.to_vec(),
        enter_within: 200 * MS,
        fallback: fallback.to_vec(),
        ..ModeRules::default()
    }
}

/// The vehicle of the documentation.
fn vehicle() -> Vec<ModeRules> {
    vec![
        mode(&[JOYSTICK], &[]),
        mode(&[PLANNER], &[SAFE_STOP]),
        ModeRules { latch: true, ..mode(&[BRAKE], &[]) },
    ]
}

fn met(_: usize) -> bool {
    true
}

fn not_met(_: usize) -> bool {
    false
}

/// No module is suspended.
fn runs(_: usize) -> bool {
    false
}

fn request(mode: usize, by: Source) -> Input {
    Input::Request { mode, by }
}

fn command(mode: usize) -> Input {
    request(mode, Source::Command)
}

fn reaction(mode: usize) -> Input {
    request(mode, Source::Reaction("'camera' stays down".into()))
}

fn ok(component: usize, switch: u64) -> Input {
    Input::Acknowledged { component, switch, ok: true }
}

fn nok(component: usize, switch: u64) -> Input {
    Input::Acknowledged { component, switch, ok: false }
}

fn sent(
    module: usize,
    switch: u64,
    mode: usize,
    activate: &[usize],
    deactivate: &[usize],
) -> Action {
    let (activate, deactivate) = (activate.to_vec(), deactivate.to_vec());
    Action::SendStates { module, switch, mode, activate, deactivate }
}

/// Modes of a run whose modules are ready and whose initial mode was entered.
fn running(rules: Vec<ModeRules>) -> Modes {
    let mut m = Modes::new(rules, MANUAL, &[0, 1, 2], 3);
    for module in 0..3 {
        m.step(Duration::ZERO, Input::ModuleReady(module), &met, &runs);
    }
    m.step(Duration::ZERO, Input::GraphRuns, &met, &runs);
    let entered = m.step(Duration::ZERO, ok(JOYSTICK, 0), &met, &runs);
    let initial = Action::Entered { switch: 0, from: None, mode: MANUAL, after: Duration::ZERO };
    assert_eq!(entered, [initial]);
    assert!(m.switch().is_none());
    m
}

fn entered(switch: u64, from: usize, mode: usize, after: Duration) -> Action {
    Action::Entered { switch, from: Some(from), mode, after }
}

#[test]
fn components_of_the_initial_mode_are_active_from_the_start() {
    let mut m = Modes::new(vehicle(), MANUAL, &[0, 1, 2], 3);
    assert_eq!(
        m.step(Duration::ZERO, Input::ModuleReady(JOYSTICK), &met, &runs),
        [sent(JOYSTICK, 0, MANUAL, &[JOYSTICK], &[])]
    );
    assert_eq!(
        m.step(Duration::ZERO, Input::ModuleReady(PLANNER), &met, &runs),
        [sent(PLANNER, 0, MANUAL, &[], &[])]
    );
}

#[test]
fn new_components_are_active_before_the_old_ones_stop() {
    let mut m = running(vehicle());
    let began =
        Action::Began { switch: 1, from: Some(MANUAL), mode: AUTONOMOUS, by: Source::Command };
    assert_eq!(
        m.step(MS, command(AUTONOMOUS), &met, &runs),
        [began, sent(1, 1, AUTONOMOUS, &[PLANNER], &[])]
    );
    assert_eq!(m.current().unwrap().0, MANUAL);
    assert_eq!(
        m.step(11 * MS, ok(PLANNER, 1), &met, &runs),
        [entered(1, MANUAL, AUTONOMOUS, 10 * MS), sent(0, 1, AUTONOMOUS, &[], &[JOYSTICK])]
    );
    assert_eq!(m.step(12 * MS, ok(JOYSTICK, 1), &met, &runs), []);
    assert!(m.switch().is_none());
    assert_eq!(m.current(), Some((AUTONOMOUS, 11 * MS)));
}

#[test]
fn old_components_stop_first_where_the_mode_says_so() {
    let mut rules = vehicle();
    rules[AUTONOMOUS].deactivate_first = true;
    let mut m = running(rules);
    let actions = m.step(MS, command(AUTONOMOUS), &met, &runs);
    assert_eq!(actions[1..], [sent(0, 1, AUTONOMOUS, &[], &[JOYSTICK])]);
    assert_eq!(
        m.step(2 * MS, ok(JOYSTICK, 1), &met, &runs),
        [sent(1, 1, AUTONOMOUS, &[PLANNER], &[])]
    );
    assert_eq!(
        m.step(3 * MS, ok(PLANNER, 1), &met, &runs),
        [entered(1, MANUAL, AUTONOMOUS, 2 * MS)]
    );
    assert!(m.switch().is_none());
}

#[test]
fn a_mode_whose_condition_does_not_hold_in_time_gives_way_to_its_fallback() {
    let mut m = running(vehicle());
    let stop_only = |mode: usize| mode == SAFE_STOP;
    m.step(Duration::ZERO, command(AUTONOMOUS), &stop_only, &runs);
    assert_eq!(m.next(Duration::ZERO), Some(CHECK_AGAIN));
    assert_eq!(m.step(199 * MS, Input::Time, &stop_only, &runs), []);
    assert_eq!(
        m.step(200 * MS, Input::Time, &stop_only, &runs),
        [
            Action::Failed {
                switch: 1,
                mode: AUTONOMOUS,
                why: Failure::Condition,
                next: Some(SAFE_STOP)
            },
            sent(2, 1, SAFE_STOP, &[BRAKE], &[])
        ]
    );
    let actions = m.step(201 * MS, ok(BRAKE, 1), &stop_only, &runs);
    assert_eq!(actions[0], entered(1, MANUAL, SAFE_STOP, 201 * MS));
}

#[test]
fn without_a_fallback_the_mode_before_stays() {
    let mut rules = vehicle();
    rules[AUTONOMOUS].fallback.clear();
    let mut m = running(rules);
    m.step(Duration::ZERO, command(AUTONOMOUS), &not_met, &runs);
    let failed =
        Action::Failed { switch: 1, mode: AUTONOMOUS, why: Failure::Condition, next: Some(MANUAL) };
    assert_eq!(
        m.step(200 * MS, Input::Time, &not_met, &runs),
        [failed, entered(1, MANUAL, MANUAL, 200 * MS)]
    );
    assert!(m.switch().is_none());
    assert_eq!(m.current(), Some((MANUAL, Duration::ZERO)), "it never left");
}

#[test]
fn a_component_that_hangs_is_killed_and_the_fallback_is_tried() {
    let mut m = running(vehicle());
    m.step(Duration::ZERO, command(AUTONOMOUS), &met, &runs);
    assert_eq!(m.next(Duration::ZERO), Some(200 * MS));
    let actions = m.step(200 * MS, Input::Time, &met, &runs);
    assert_eq!(
        actions,
        [
            Action::Kill { component: PLANNER, why: KillReason::Late { active: true } },
            Action::Failed {
                switch: 1,
                mode: AUTONOMOUS,
                why: Failure::Hung(PLANNER),
                next: Some(SAFE_STOP)
            },
            sent(2, 1, SAFE_STOP, &[BRAKE], &[])
        ]
    );
    // The planner acknowledges too late.
    assert_eq!(m.step(201 * MS, ok(PLANNER, 1), &met, &runs), []);
    let actions = m.step(202 * MS, ok(BRAKE, 1), &met, &runs);
    assert_eq!(
        actions,
        [
            entered(1, MANUAL, SAFE_STOP, 202 * MS),
            sent(0, 1, SAFE_STOP, &[], &[JOYSTICK]),
            sent(1, 1, SAFE_STOP, &[], &[PLANNER])
        ]
    );
}

#[test]
fn a_component_that_hangs_in_its_deactivation_does_not_delay_the_mode() {
    let mut m = running(vehicle());
    m.step(Duration::ZERO, command(AUTONOMOUS), &met, &runs);
    m.step(MS, ok(PLANNER, 1), &met, &runs);
    assert_eq!(m.current().unwrap().0, AUTONOMOUS);
    let kill = Action::Kill { component: JOYSTICK, why: KillReason::Late { active: false } };
    assert_eq!(m.step(201 * MS, Input::Time, &met, &runs), [kill]);
    assert!(m.switch().is_none());
}

#[test]
fn a_suspended_module_is_not_killed_and_the_fallback_is_tried() {
    let mut m = running(vehicle());
    m.step(Duration::ZERO, command(AUTONOMOUS), &met, &runs);
    let suspended = |module| module == 1;
    let actions = m.step(200 * MS, Input::Time, &met, &suspended);
    let (why, next) = (Failure::Suspended(PLANNER), Some(SAFE_STOP));
    assert_eq!(
        actions,
        [
            Action::Failed { switch: 1, mode: AUTONOMOUS, why, next },
            sent(2, 1, SAFE_STOP, &[BRAKE], &[])
        ]
    );
    let actions = m.step(202 * MS, ok(BRAKE, 1), &met, &suspended);
    assert_eq!(actions[0], entered(1, MANUAL, SAFE_STOP, 202 * MS));
    assert!(actions.contains(&sent(1, 1, SAFE_STOP, &[], &[PLANNER])), "{actions:?}");
    m.step(203 * MS, ok(JOYSTICK, 1), &met, &suspended);
    assert!(m.switch().is_some(), "the planner has its time to become inactive");
    let due = m.next(203 * MS).unwrap();
    assert_eq!(m.step(due, Input::Time, &met, &suspended), []);
    assert!(m.switch().is_none());
}

/// The module of the initial mode is suspended during the activation of its component.
#[test]
fn an_activation_that_was_suspended_has_its_time_again() {
    let suspended = |module| module == JOYSTICK;
    for acknowledges in [true, false] {
        let mut m = Modes::new(vehicle(), MANUAL, &[0, 1, 2], 3);
        for module in 0..3 {
            m.step(Duration::ZERO, Input::ModuleReady(module), &met, &runs);
        }
        m.step(Duration::ZERO, Input::GraphRuns, &met, &runs);
        let mut now = Duration::ZERO;
        for _ in 0..10 {
            now = m.next(now).unwrap();
            let actions = m.step(now, Input::Time, &met, &suspended);
            assert!(!actions.iter().any(|a| matches!(a, Action::Kill { .. })), "{actions:?}");
        }
        assert!(m.switch().is_none() && m.is_activating(JOYSTICK), "entered without it");
        let goes_on = now;
        if acknowledges {
            assert_eq!(m.step(now + MS, ok(JOYSTICK, 0), &met, &runs), []);
            assert!(!m.is_activating(JOYSTICK) && m.next(now).is_none());
            continue;
        }
        let mut killed = Vec::new();
        while killed.is_empty() {
            now = m.next(now).unwrap();
            killed = m.step(now, Input::Time, &met, &runs);
        }
        let why = KillReason::Late { active: true };
        assert_eq!(killed, [Action::Kill { component: JOYSTICK, why }]);
        let within = vehicle()[MANUAL].enter_within;
        assert!(now - goes_on >= within && now - goes_on <= 2 * within);
    }
}

#[test]
fn a_failed_activation_and_the_death_of_a_module_lead_to_the_fallback() {
    for (input, why) in [
        (nok(PLANNER, 1), Failure::Component(PLANNER)),
        (Input::ModuleEnded(1), Failure::Ended(PLANNER)),
    ] {
        let mut m = running(vehicle());
        m.step(Duration::ZERO, command(AUTONOMOUS), &met, &runs);
        let actions = m.step(MS, input, &met, &runs);
        let failed = Action::Failed { switch: 1, mode: AUTONOMOUS, why, next: Some(SAFE_STOP) };
        assert_eq!(actions, [failed, sent(2, 1, SAFE_STOP, &[BRAKE], &[])]);
    }
}

#[test]
fn a_latched_mode_is_left_by_a_command_only() {
    let mut m = running(vehicle());
    m.step(Duration::ZERO, reaction(SAFE_STOP), &met, &runs);
    m.step(Duration::ZERO, ok(BRAKE, 1), &met, &runs);
    m.step(Duration::ZERO, ok(JOYSTICK, 1), &met, &runs);
    for by in [Source::Component("planner".into()), Source::Reaction("rate".into())] {
        let refused = Action::Refused { mode: MANUAL, by: by.clone(), why: Refusal::Latched };
        assert_eq!(m.step(MS, request(MANUAL, by), &met, &runs), [refused]);
    }
    assert!(matches!(m.step(MS, command(MANUAL), &met, &runs)[0], Action::Began { .. }));
}

#[test]
fn a_mode_is_not_left_before_its_time_but_by_a_reaction() {
    let mut rules = vehicle();
    rules[MANUAL].min_dwell = 50 * MS;
    let mut m = running(rules);
    let why = Refusal::Dwell(40 * MS);
    let refused = Action::Refused { mode: AUTONOMOUS, by: Source::Command, why };
    assert_eq!(m.step(10 * MS, command(AUTONOMOUS), &met, &runs), [refused]);
    assert!(matches!(
        m.clone().step(10 * MS, reaction(SAFE_STOP), &met, &runs)[0],
        Action::Began { .. }
    ));
    assert!(matches!(m.step(50 * MS, command(AUTONOMOUS), &met, &runs)[0], Action::Began { .. }));
}

#[test]
fn a_mode_is_requested_by_those_that_it_names() {
    let mut rules = vehicle();
    rules[AUTONOMOUS].switched_by =
        Some(vec![SourceRule::Command, SourceRule::Component("planner".into())]);
    let m = running(rules);
    let asked = |by: Source| m.clone().step(MS, request(AUTONOMOUS, by), &met, &runs).remove(0);
    assert!(matches!(asked(Source::Command), Action::Began { .. }));
    assert!(matches!(asked(Source::Component("planner".into())), Action::Began { .. }));
    for by in [Source::Component("camera".into()), Source::Reaction("rate".into())] {
        let why = Refusal::NotAllowed;
        assert_eq!(asked(by.clone()), Action::Refused { mode: AUTONOMOUS, by, why });
    }
}

#[test]
fn a_switch_is_replaced_by_sources_of_its_rank_and_higher() {
    let mut m = running(vehicle());
    m.step(Duration::ZERO, reaction(SAFE_STOP), &met, &runs);
    let refused = m.step(MS, command(AUTONOMOUS), &met, &runs);
    let why = Refusal::Busy(SAFE_STOP);
    assert_eq!(refused, [Action::Refused { mode: AUTONOMOUS, by: Source::Command, why }]);
    let mut m = running(vehicle());
    m.step(Duration::ZERO, command(AUTONOMOUS), &met, &runs);
    let actions = m.step(MS, reaction(SAFE_STOP), &met, &runs);
    let replaced = Action::Failed {
        switch: 1,
        mode: AUTONOMOUS,
        why: Failure::Replaced,
        next: Some(SAFE_STOP),
    };
    assert_eq!(actions[0], replaced);
    assert_eq!(actions[2], sent(2, 2, SAFE_STOP, &[BRAKE], &[]));
    // The planner becomes active too late, and is asked to stop.
    assert_eq!(m.step(2 * MS, ok(PLANNER, 1), &met, &runs), []);
    let actions = m.step(3 * MS, ok(BRAKE, 2), &met, &runs);
    assert!(actions.contains(&sent(1, 2, SAFE_STOP, &[], &[PLANNER])), "{actions:?}");
}

#[test]
fn every_source_replaces_the_start() {
    let starting = || {
        let mut m = Modes::new(vehicle(), MANUAL, &[0, 1, 2], 3);
        for module in 0..3 {
            m.step(Duration::ZERO, Input::ModuleReady(module), &met, &runs);
        }
        m.step(Duration::ZERO, Input::GraphRuns, &met, &runs);
        m
    };
    let component = Source::Component("planner".into());
    for by in [component, Source::Command, Source::Reaction("rate".into())] {
        let mut m = starting();
        let why = Failure::Replaced;
        let replaced = Action::Failed { switch: 0, mode: MANUAL, why, next: Some(SAFE_STOP) };
        let actions = m.step(MS, request(SAFE_STOP, by), &met, &runs);
        assert_eq!(actions[0], replaced);
        let actions = m.step(2 * MS, ok(BRAKE, 1), &met, &runs);
        let after = MS;
        let entered = Action::Entered { switch: 1, from: None, mode: SAFE_STOP, after };
        assert_eq!(actions[0], entered);
        assert_eq!(actions[1], sent(JOYSTICK, 1, SAFE_STOP, &[], &[JOYSTICK]));
    }
}

/// A mode that was requested during the start has a condition that does not hold.
#[test]
fn the_initial_mode_is_the_last_resort_of_a_switch_during_the_start() {
    let mut m = Modes::new(vehicle(), MANUAL, &[0, 1, 2], 3);
    for module in 0..3 {
        m.step(Duration::ZERO, Input::ModuleReady(module), &met, &runs);
    }
    m.step(Duration::ZERO, Input::GraphRuns, &met, &runs);
    m.step(MS, command(AUTONOMOUS), &not_met, &runs);
    let (mut now, mut entered) = (MS, Vec::new());
    while entered.is_empty() {
        now = m.next(now).unwrap();
        let actions = m.step(now, Input::Time, &not_met, &runs);
        entered.extend(actions.into_iter().filter(|a| matches!(a, Action::Entered { .. })));
    }
    assert!(matches!(entered[..], [Action::Entered { mode: MANUAL, .. }]), "{entered:?}");
}

#[test]
fn a_module_that_comes_back_gets_the_mode() {
    let mut m = running(vehicle());
    assert_eq!(m.step(MS, Input::ModuleEnded(JOYSTICK), &met, &runs), []);
    assert_eq!(
        m.step(2 * MS, Input::ModuleReady(JOYSTICK), &met, &runs),
        [sent(JOYSTICK, 0, MANUAL, &[JOYSTICK], &[])]
    );
    // The current mode needs the joystick, and no switch is in flight that could try another mode.
    let kill = Action::Kill { component: JOYSTICK, why: KillReason::Failed };
    assert_eq!(m.step(3 * MS, nok(JOYSTICK, 0), &met, &runs), [kill]);
}

#[test]
fn parameters_come_with_a_mode_and_not_when_it_was_not_left() {
    let mut rules = vehicle();
    (rules[MANUAL].sets, rules[AUTONOMOUS].sets) = (vec![BRAKE], vec![BRAKE]);
    rules[AUTONOMOUS].fallback.clear();
    let mut m = running(rules);
    let actions = m.step(MS, command(AUTONOMOUS), &not_met, &runs);
    assert_eq!(actions.len(), 1, "nothing before the condition holds: {actions:?}");
    let actions = m.step(201 * MS, Input::Time, &not_met, &runs);
    assert_eq!(actions[1..], [entered(1, MANUAL, MANUAL, 200 * MS)]);
    let actions = m.step(300 * MS, command(AUTONOMOUS), &met, &runs);
    let planner = sent(1, 2, AUTONOMOUS, &[PLANNER], &[]);
    assert_eq!(actions[1..], [planner, sent(2, 2, AUTONOMOUS, &[], &[])]);
    // The run goes back to `MANUAL` because the activation failed. The brake has the values of
    // `AUTONOMOUS` already, so it gets those of `MANUAL` again.
    let actions = m.step(301 * MS, nok(PLANNER, 2), &met, &runs);
    assert!(actions.contains(&sent(2, 2, MANUAL, &[], &[])), "{actions:?}");
}

#[derive(Clone, Debug)]
enum Event {
    Request(usize, u8),
    /// A component carries out the oldest message that it has.
    Answer(usize, bool),
    /// An answer that was sent for an earlier message.
    Stale(usize),
    Death(usize),
    Ready(usize),
    Condition(usize, bool),
    Time(u16),
}

const COMPONENTS: usize = 5;
const MODULES: usize = 3;
const MODES: usize = 4;

fn any_rules() -> impl Strategy<Value = ModeRules> {
    let parts = (
        prop::collection::btree_set(0..COMPONENTS, 0..COMPONENTS),
        1u64..300,
        prop::collection::vec(0..MODES, 0..3),
        any::<bool>(),
        0u64..200,
        any::<bool>(),
        prop::collection::vec(0..MODULES, 0..3),
    );
    parts.prop_map(|(active, within, fallback, latch, dwell, deactivate_first, sets)| ModeRules {
        active: active.into_iter().collect(),
        sets,
        enter_within: Duration::from_millis(within),
        fallback,
        latch,
        min_dwell: Duration::from_millis(dwell),
        deactivate_first,
        switched_by: None,
    })
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => (0..MODES, 0u8..3).prop_map(|(m, by)| Event::Request(m, by)),
        8 => (0..COMPONENTS, prop::bool::weighted(0.9)).prop_map(|(c, ok)| Event::Answer(c, ok)),
        1 => (0..COMPONENTS).prop_map(Event::Stale),
        1 => (0..MODULES).prop_map(Event::Death),
        3 => (0..MODULES).prop_map(Event::Ready),
        2 => (0..MODES, any::<bool>()).prop_map(|(m, met)| Event::Condition(m, met)),
        4 => (0u16..150).prop_map(Event::Time),
    ]
}

/// The world around the machine: messages sent, and the modules' behaviour.
struct World {
    modes: Modes,
    rules: Vec<ModeRules>,
    module_of: Vec<usize>,
    now: Duration,
    met: Vec<bool>,
    /// Messages that a component has not carried out: switch, active.
    inbox: Vec<VecDeque<(u64, bool)>>,
    /// Last state sent to each component, since its process exists.
    last_sent: Vec<Option<bool>>,
    /// Mode whose parameters were sent to each module last, since its process exists.
    values: Vec<Option<usize>>,
    /// Time of the message that each component has not answered.
    since: Vec<Option<Duration>>,
    ready: Vec<bool>,
    /// The launcher kills it.
    killed: Vec<bool>,
    failed: Vec<bool>,
    began: Option<Duration>,
    stopped: bool,
}

impl World {
    fn new(rules: Vec<ModeRules>, module_of: Vec<usize>) -> Self {
        let modes = Modes::new(rules.clone(), 0, &module_of, MODULES);
        Self {
            modes,
            rules,
            module_of,
            now: Duration::ZERO,
            met: vec![true; MODES],
            inbox: vec![VecDeque::new(); COMPONENTS],
            last_sent: vec![None; COMPONENTS],
            values: vec![None; MODULES],
            since: vec![None; COMPONENTS],
            ready: vec![false; MODULES],
            killed: vec![false; MODULES],
            failed: vec![false; COMPONENTS],
            began: None,
            stopped: false,
        }
    }

    fn step(&mut self, input: Input) {
        let met = self.met.clone();
        if let Input::ModuleReady(m) = &input {
            self.ready[*m] = true;
        }
        let actions = self.modes.step(self.now, input.clone(), &|mode| met[mode], &runs);
        for action in actions {
            self.check(&action, &input);
        }
        // Longest time that a switch can take: all fallbacks, the mode before, and a stage after
        // each.
        let bound: Duration = self.rules.iter().map(|r| r.enter_within * 3).sum::<Duration>() * 2;
        match (self.modes.switch(), self.began) {
            (None, _) => self.began = None,
            (Some(_), None) => self.began = Some(self.now),
            (Some(s), Some(began)) => {
                assert!(
                    self.now - began <= bound,
                    "switch {} has lasted {:?}",
                    s.number,
                    self.now - began
                );
            }
        }
        self.stopped |= input == Input::Stop;
        if !self.stopped
            && self.modes.switch().is_none()
            && let Some((mode, _)) = self.modes.current()
        {
            for c in 0..COMPONENTS {
                let wanted = self.rules[mode].active.contains(&c);
                assert_eq!(self.modes.is_active(c), wanted, "component {c} in mode {mode}");
                if self.answers(self.module_of[c]) {
                    assert_eq!(
                        self.last_sent[c].unwrap_or(false),
                        wanted,
                        "component {c} in mode {mode}"
                    );
                }
            }
            for module in self.rules[mode].sets.iter().filter(|m| self.answers(**m)) {
                assert_eq!(self.values[*module], Some(mode), "parameters of module {module}");
            }
        }
    }

    fn answers(&self, module: usize) -> bool {
        self.ready[module] && !self.killed[module]
    }

    fn check(&mut self, action: &Action, input: &Input) {
        match action {
            Action::SendStates { module, switch, mode, activate, deactivate } => {
                assert!(self.ready[*module], "module {module} has no process");
                if deactivate.is_empty() && self.rules[*mode].sets.contains(module) {
                    self.values[*module] = Some(*mode);
                }
                if !deactivate.is_empty()
                    && let Some(s) = self.modes.switch()
                    && !self.rules[s.target].deactivate_first
                {
                    let mut awaited = self.rules[s.target].active.iter();
                    assert!(
                        awaited.all(|c| !self.modes.pending().any(|p| p == *c)),
                        "stopped too early"
                    );
                }
                for (list, active) in [(activate, true), (deactivate, false)] {
                    for c in list {
                        self.inbox[*c].push_back((*switch, active));
                        (self.last_sent[*c], self.since[*c]) = (Some(active), Some(self.now));
                    }
                }
            }
            Action::Kill { component, .. } => {
                let waited = self.since[*component].map(|since| self.now - since);
                let failed = self.failed[*component];
                let shortest = self.rules.iter().map(|r| r.enter_within).min().unwrap();
                // Condition and activations share the time of a mode, so that less than all of it
                // may be left for the activations.
                let overdue = waited.is_some()
                    && (self.modes.switch().is_some()
                        || waited.unwrap() >= shortest
                        || *input == Input::Time);
                self.killed[self.module_of[*component]] = true;
                assert!(failed || overdue, "component {component} was killed after {waited:?}");
            }
            Action::Began { from: Some(from), mode, by, .. } if self.rules[*from].latch => {
                let may = match by {
                    Source::Command | Source::Start => true,
                    Source::Reaction(_) => self.rules[*from].fallback.contains(mode),
                    Source::Component(_) => false,
                };
                assert!(may || from == mode, "{from} is latched and was left by {by:?}");
            }
            Action::Entered { mode, .. } => {
                for c in &self.rules[*mode].active {
                    let module = self.module_of[*c];
                    assert!(!self.answers(module) || self.last_sent[*c] == Some(true));
                }
            }
            _ => {}
        }
    }

    /// Moves time on to the next event of the machine until `to`.
    fn time(&mut self, to: Duration) {
        while let Some(due) = self.modes.next(self.now).filter(|due| *due <= to) {
            self.now = self.now.max(due);
            self.step(Input::Time);
        }
        self.now = to;
        self.step(Input::Time);
    }

    fn apply(&mut self, event: Event) {
        match event {
            Event::Request(mode, by) => {
                let by = match by {
                    0 => Source::Component("c".into()),
                    1 => Source::Command,
                    _ => Source::Reaction("r".into()),
                };
                self.step(Input::Request { mode, by });
            }
            Event::Answer(component, ok) => {
                if let Some((switch, active)) = self.inbox[component].pop_front() {
                    self.failed[component] = !ok && active;
                    if self.failed[component] && self.inbox[component].is_empty() {
                        self.last_sent[component] = Some(false);
                    }
                    self.step(Input::Acknowledged { component, switch, ok });
                    self.failed[component] = false;
                }
            }
            Event::Stale(component) => {
                if let Some((switch, _)) = self.inbox[component].front()
                    && let Some(switch) = switch.checked_sub(1)
                {
                    self.step(Input::Acknowledged { component, switch, ok: false });
                }
            }
            Event::Death(module) if self.ready[module] => {
                (self.ready[module], self.killed[module]) = (false, false);
                for c in (0..COMPONENTS).filter(|c| self.module_of[*c] == module) {
                    self.inbox[c].clear();
                    (self.last_sent[c], self.since[c]) = (None, None);
                }
                self.values[module] = None;
                self.step(Input::ModuleEnded(module));
            }
            Event::Ready(module) if !self.ready[module] => self.step(Input::ModuleReady(module)),
            Event::Condition(mode, met) => {
                self.met[mode] = met;
                self.step(Input::Time);
            }
            Event::Time(ms) => self.time(self.now + Duration::from_millis(ms.into())),
            Event::Death(_) | Event::Ready(_) => {}
        }
    }
}

proptest! {
    #[test]
    fn a_switch_ends_and_leaves_what_the_mode_says(
        mut rules in prop::collection::vec(any_rules(), MODES),
        module_of in prop::collection::vec(0..MODULES, COMPONENTS),
        events in prop::collection::vec(any_event(), 0..60),
        stop in any::<bool>(),
    ) {
        for (i, r) in rules.iter_mut().enumerate() {
            r.fallback.retain(|f| *f != i);
        }
        let mut world = World::new(rules, module_of);
        for module in 0..MODULES {
            world.step(Input::ModuleReady(module));
        }
        world.step(Input::GraphRuns);
        for event in events {
            world.apply(event);
        }
        if stop {
            world.step(Input::Stop);
            let was = world.last_sent.clone();
            world.apply(Event::Request(1, 1));
            world.time(world.now + Duration::from_secs(60));
            prop_assert_eq!(was, world.last_sent);
            prop_assert_eq!(world.modes.next(world.now), None);
        } else {
            // Nothing more comes: time alone ends the switch.
            world.time(world.now + Duration::from_secs(60));
            prop_assert!(world.modes.switch().is_none());
            prop_assert!(world.modes.current().is_some());
        }
    }
}
