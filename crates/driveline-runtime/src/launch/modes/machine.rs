// SPDX-License-Identifier: Apache-2.0
//! Decides which components are active: a pure state machine.
//!
//! The launcher reports events and carries out actions; this file has no clock, no processes and no
//! I/O. `docs/protocols/modes.md` describes the states, the events, and what holds in each state.

use std::collections::VecDeque;
use std::time::Duration;

/// Time between two checks of an entry condition.
pub(in crate::launch) const CHECK_AGAIN: Duration = Duration::from_millis(20);

/// Rules of one mode. Components and modules are indices.
#[derive(Clone, Debug, Default)]
pub(in crate::launch) struct ModeRules {
    /// Components that are active in it, sorted.
    pub(in crate::launch) active: Vec<usize>,
    /// Modules with parameters that it sets.
    pub(in crate::launch) sets: Vec<usize>,
    /// Time for the entry condition and the activations together, and again for the deactivations;
    /// with `deactivate_first`, for each of the three.
    pub(in crate::launch) enter_within: Duration,
    /// Modes to try if it cannot be entered, in order.
    pub(in crate::launch) fallback: Vec<usize>,
    /// True if only a command leaves the mode, or a reaction that leads to one of its fallbacks.
    pub(in crate::launch) latch: bool,
    /// Commands and components cannot leave it earlier.
    pub(in crate::launch) min_dwell: Duration,
    /// Old components stop before new ones become active.
    pub(in crate::launch) deactivate_first: bool,
    /// Sources that may request it; all if `None`.
    pub(in crate::launch) switched_by: Option<Vec<SourceRule>>,
}

/// A source that may request a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum SourceRule {
    Command,
    Reaction,
    /// A component, by name.
    Component(String),
}

/// Source of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Source {
    /// The start of the run.
    Start,
    /// A component, by name.
    Component(String),
    /// `driveline mode`.
    Command,
    /// A declared reaction; the text names its cause.
    Reaction(String),
}

impl Source {
    /// A request does not replace a switch of higher rank that is in flight.
    fn rank(&self) -> u8 {
        match self {
            Self::Start | Self::Component(_) => 0,
            Self::Command => 1,
            Self::Reaction(_) => 2,
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Input {
    /// The module's process is ready and waits for the states of its components.
    ModuleReady(usize),
    /// The module's process has ended.
    ModuleEnded(usize),
    /// The graph runs: the initial mode is entered.
    GraphRuns,
    /// A switch to this mode is requested.
    Request { mode: usize, by: Source },
    /// A component has changed its state, or failed to.
    Acknowledged { component: usize, switch: u64, ok: bool },
    /// The run ends: no component gets a message from here on.
    Stop,
    /// Time has passed without an event.
    Time,
}

/// Reason to refuse a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Refusal {
    /// The graph does not run yet, or the run ends.
    NotRunning,
    /// `switched_by` does not name the source.
    NotAllowed,
    /// The current mode is latched.
    Latched,
    /// The current mode cannot be left for this long.
    Dwell(Duration),
    /// A switch of higher rank is in flight. It leads to the mode with this index.
    Busy(usize),
}

/// Reason why a mode was not entered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Failure {
    /// The entry condition did not hold in time.
    Condition,
    /// The component failed to become active.
    Component(usize),
    /// The component did not acknowledge in time.
    Hung(usize),
    /// The component did not acknowledge in time, because its module is suspended.
    Suspended(usize),
    /// The module of the component ended.
    Ended(usize),
    /// A later request took the place of this one.
    Replaced,
}

/// Reason to kill the module of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::launch) enum KillReason {
    /// It did not acknowledge in time that it is active (true) or inactive (false).
    Late { active: bool },
    /// It failed to become active, and no other mode can be tried.
    Failed,
}

/// Actions for the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Action {
    /// Send the states of components to a module. If the module has just become ready: before `go`.
    SendStates {
        module: usize,
        switch: u64,
        mode: usize,
        activate: Vec<usize>,
        deactivate: Vec<usize>,
    },
    /// Kill the module because of this component.
    Kill { component: usize, why: KillReason },
    /// Report that a request was refused.
    Refused { mode: usize, by: Source, why: Refusal },
    /// Report that a switch began.
    Began { switch: u64, from: Option<usize>, mode: usize, by: Source },
    /// Report that a mode was not entered, and the mode that is tried next.
    Failed { switch: u64, mode: usize, why: Failure, next: Option<usize> },
    /// Report that a mode was entered, and the time since the request.
    Entered { switch: u64, from: Option<usize>, mode: usize, after: Duration },
}

/// Step of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::launch) enum Stage {
    /// The entry condition does not hold yet.
    Waiting,
    /// Components become active.
    Activating,
    /// Components become inactive.
    Deactivating,
}

/// A switch in flight.
#[derive(Clone, Debug)]
pub(in crate::launch) struct Switch {
    pub(in crate::launch) number: u64,
    pub(in crate::launch) target: usize,
    pub(in crate::launch) by: Source,
    pub(in crate::launch) stage: Stage,
    /// The mode before it.
    pub(in crate::launch) from: Option<usize>,
    /// Modes that are tried if this one cannot be entered.
    fallback: VecDeque<usize>,
    /// True while the previous mode is entered again as a last resort: if this fails, nothing else
    /// is tried.
    last_resort: bool,
    began: Duration,
    /// End of the time for condition and activations.
    until: Duration,
    /// The stages that are over.
    activated: bool,
    deactivated: bool,
}

impl Switch {
    /// Returns the mode to enter if neither the target nor a fallback can be entered: the one
    /// before the switch, or the initial mode if it was still being entered. `None` for the switch
    /// that enters the initial mode.
    fn last_mode(&self, initial: usize) -> Option<usize> {
        self.from.or((self.by != Source::Start).then_some(initial))
    }
}

#[derive(Clone, Debug)]
struct Pending {
    switch: u64,
    active: bool,
    until: Duration,
    /// The switch does not wait for it any longer, because its module was suspended at `until`.
    late: bool,
    /// Its module was suspended at the last check.
    suspended: bool,
}

impl Pending {
    fn new(switch: u64, active: bool, until: Duration) -> Self {
        Self { switch, active, until, late: false, suspended: false }
    }
}

#[derive(Clone, Debug)]
struct Component {
    module: usize,
    /// Last state sent, or to be sent when its module is ready.
    active: bool,
    pending: Option<Pending>,
    /// Its module is being killed because of it.
    killed: bool,
}

/// The modes of a run.
#[derive(Clone, Debug)]
pub(in crate::launch) struct Modes {
    rules: Vec<ModeRules>,
    components: Vec<Component>,
    /// Readiness of each module's process.
    ready: Vec<bool>,
    mode: Option<usize>,
    since: Duration,
    initial: usize,
    switch: Option<Switch>,
    /// A module was sent states since the last switch ended.
    sent_since: bool,
    /// Number of the last switch.
    number: u64,
    running: bool,
    stopping: bool,
}

impl Modes {
    /// Creates the modes. `components`: the module of each modal component, which is one that a
    /// mode names in `active`.
    pub(in crate::launch) fn new(
        rules: Vec<ModeRules>,
        initial: usize,
        components: &[usize],
        modules: usize,
    ) -> Self {
        let active = |i: usize| rules[initial].active.contains(&i);
        let component = |(i, module): (usize, &usize)| Component {
            module: *module,
            active: active(i),
            pending: None,
            killed: false,
        };
        Self {
            components: components.iter().enumerate().map(component).collect(),
            ready: vec![false; modules],
            rules,
            mode: None,
            since: Duration::ZERO,
            initial,
            switch: None,
            sent_since: false,
            number: 0,
            running: false,
            stopping: false,
        }
    }

    /// Returns the mode that was entered last, and its time.
    pub(in crate::launch) fn current(&self) -> Option<(usize, Duration)> {
        Some((self.mode?, self.since))
    }

    /// Returns the mode whose states a module gets when it becomes ready, and its time. For a mode
    /// that is being entered, the time is later than any other.
    pub(in crate::launch) fn mode_to_send(&self) -> Option<(usize, Duration)> {
        let entering = self.switch.as_ref().filter(|s| s.stage != Stage::Waiting);
        entering.map(|s| (s.target, Duration::MAX)).or(self.current())
    }

    pub(in crate::launch) fn switch(&self) -> Option<&Switch> {
        self.switch.as_ref()
    }

    /// Returns true if a component is to be active.
    pub(in crate::launch) fn is_active(&self, component: usize) -> bool {
        self.components[component].active
    }

    /// Returns true if a module's process is ready.
    pub(in crate::launch) fn module_is_ready(&self, module: usize) -> bool {
        self.ready[module]
    }

    /// Returns true if the process of a component is ready and not being killed.
    pub(in crate::launch) fn component_is_there(&self, component: usize) -> bool {
        self.is_there(self.components[component].module)
    }

    /// Returns the components whose acknowledgement a switch waits for.
    pub(in crate::launch) fn pending(&self) -> impl Iterator<Item = usize> + '_ {
        let waits = |c: &Component| c.pending.as_ref().is_some_and(|p| !p.late);
        (0..self.components.len()).filter(move |i| waits(&self.components[*i]))
    }

    /// Returns true if a component was asked to become active and has not acknowledged.
    pub(in crate::launch) fn is_activating(&self, component: usize) -> bool {
        self.components[component].pending.as_ref().is_some_and(|p| p.active)
    }

    /// Returns the time when [`Input::Time`] is due, if nothing happens before.
    pub(in crate::launch) fn next(&self, now: Duration) -> Option<Duration> {
        if self.stopping {
            return None;
        }
        let overdue = |c: &Component| c.pending.as_ref().map(|p| p.until);
        let waiting = self.switch.as_ref().and_then(|s| match s.stage {
            Stage::Waiting => Some(s.until.min(now + CHECK_AGAIN)),
            Stage::Activating | Stage::Deactivating => None,
        });
        self.components.iter().filter_map(overdue).chain(waiting).min()
    }

    /// Takes an event at time `now` since the start of the run and returns the actions, in order.
    /// `met` returns whether the declared entry condition of a mode holds now; `is_suspended`,
    /// whether the process of a module is stopped by SIGSTOP or a debugger.
    pub(in crate::launch) fn step(
        &mut self,
        now: Duration,
        input: Input,
        met: &dyn Fn(usize) -> bool,
        is_suspended: &dyn Fn(usize) -> bool,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        if self.stopping {
            if let Input::Request { mode, by } = input {
                actions.push(Action::Refused { mode, by, why: Refusal::NotRunning });
            }
            return actions;
        }
        match input {
            Input::ModuleReady(module) => self.module_ready(module, now, &mut actions),
            Input::ModuleEnded(module) => self.module_ended(module, now, &mut actions),
            Input::GraphRuns => self.run(now, &mut actions),
            Input::Request { mode, by } => self.request(mode, by, now, &mut actions),
            Input::Acknowledged { component, switch, ok } => {
                self.acknowledged(component, switch, ok, now, &mut actions);
            }
            Input::Stop => {
                (self.stopping, self.switch) = (true, None);
                return actions;
            }
            Input::Time => {}
        }
        self.overdue(now, is_suspended, &mut actions);
        self.advance(now, met, &mut actions);
        actions
    }

    fn run(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.running = true;
        let rules = &self.rules[self.initial];
        self.switch = Some(Switch {
            number: 0,
            target: self.initial,
            by: Source::Start,
            stage: Stage::Activating,
            from: None,
            fallback: rules.fallback.iter().copied().collect(),
            last_resort: false,
            began: now,
            until: now + rules.enter_within,
            activated: false,
            deactivated: true,
        });
        actions.push(Action::Began {
            switch: 0,
            from: None,
            mode: self.initial,
            by: Source::Start,
        });
    }

    fn module_ready(&mut self, module: usize, now: Duration, actions: &mut Vec<Action>) {
        self.ready[module] = true;
        let mode = self.mode_to_send().map_or(self.initial, |(mode, _)| mode);
        let until = now + self.rules[mode].enter_within;
        let number = self.number;
        let mut activate = Vec::new();
        for (i, c) in self.components.iter_mut().enumerate().filter(|(_, c)| c.module == module) {
            (c.pending, c.killed) = (None, false);
            if c.active {
                c.pending = Some(Pending::new(number, true, until));
                activate.push(i);
            }
        }
        let deactivate = Vec::new();
        actions.push(Action::SendStates { module, switch: number, mode, activate, deactivate });
    }

    fn module_ended(&mut self, module: usize, now: Duration, actions: &mut Vec<Action>) {
        self.ready[module] = false;
        let mut lost = None;
        for (i, c) in self.components.iter_mut().enumerate().filter(|(_, c)| c.module == module) {
            c.killed = false;
            if c.pending.take().is_some_and(|p| p.active) {
                lost = lost.or(Some(i));
            }
        }
        if let Some(component) = lost.filter(|c| self.is_awaited(*c)) {
            self.failed(Failure::Ended(component), now, actions);
        }
    }

    /// Returns true if the switch in flight waits for this component to become active.
    fn is_awaited(&self, component: usize) -> bool {
        self.switch.as_ref().is_some_and(|s| {
            s.stage == Stage::Activating && self.rules[s.target].active.contains(&component)
        })
    }

    fn request(&mut self, mode: usize, by: Source, now: Duration, actions: &mut Vec<Action>) {
        if let Err(why) = self.admit(mode, &by, now) {
            return actions.push(Action::Refused { mode, by, why });
        }
        match &self.switch {
            // The mode is entered already, or being entered.
            Some(s) if s.target == mode && !s.last_resort => return,
            None if self.mode == Some(mode) => return,
            _ => {}
        }
        if let Some(old) = self.switch.take() {
            let why = Failure::Replaced;
            let (switch, old) = (old.number, old.target);
            actions.push(Action::Failed { switch, mode: old, why, next: Some(mode) });
        }
        self.number += 1;
        let rules = &self.rules[mode];
        let (number, from) = (self.number, self.mode);
        self.switch = Some(Switch {
            number,
            target: mode,
            by: by.clone(),
            stage: Stage::Waiting,
            from,
            fallback: rules.fallback.iter().copied().collect(),
            last_resort: false,
            began: now,
            until: now + rules.enter_within,
            activated: false,
            deactivated: false,
        });
        actions.push(Action::Began { switch: number, from, mode, by });
    }

    fn admit(&self, mode: usize, by: &Source, now: Duration) -> Result<(), Refusal> {
        if !self.running {
            return Err(Refusal::NotRunning);
        }
        let named = |rule: &SourceRule| match (rule, by) {
            (SourceRule::Command, Source::Command)
            | (SourceRule::Reaction, Source::Reaction(_)) => true,
            (SourceRule::Component(name), Source::Component(component)) => name == component,
            _ => false,
        };
        if self.rules[mode].switched_by.as_ref().is_some_and(|rules| !rules.iter().any(named)) {
            return Err(Refusal::NotAllowed);
        }
        if let Some(s) = &self.switch
            && by.rank() < s.by.rank()
            && s.target != mode
        {
            return Err(Refusal::Busy(s.target));
        }
        let Some(current) = self.mode.filter(|current| *current != mode) else { return Ok(()) };
        let rules = &self.rules[current];
        let may_leave = match by {
            Source::Command | Source::Start => true,
            Source::Reaction(_) => rules.fallback.contains(&mode),
            Source::Component(_) => false,
        };
        if rules.latch && !may_leave {
            return Err(Refusal::Latched);
        }
        let left = (self.since + rules.min_dwell).saturating_sub(now);
        if !left.is_zero() && !matches!(by, Source::Reaction(_)) {
            return Err(Refusal::Dwell(left));
        }
        Ok(())
    }

    fn acknowledged(
        &mut self,
        component: usize,
        switch: u64,
        ok: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let c = &mut self.components[component];
        // An acknowledgement of an earlier switch is ignored: a later message has been sent to the
        // component, which will acknowledge that one as well.
        let Some(pending) = c.pending.take_if(|p| p.switch == switch) else { return };
        if ok || !pending.active {
            return;
        }
        if self.is_awaited(component) && self.has_alternative() {
            self.components[component].active = false;
            self.failed(Failure::Component(component), now, actions);
            return;
        }
        let awaited = self.is_awaited(component);
        self.kill(component, KillReason::Failed, actions);
        if awaited {
            self.failed(Failure::Component(component), now, actions);
        }
    }

    /// Returns true if another mode is tried when the target of the switch cannot be entered.
    fn has_alternative(&self) -> bool {
        let has = |s: &Switch| {
            !s.last_resort && (!s.fallback.is_empty() || s.last_mode(self.initial).is_some())
        };
        self.switch.as_ref().is_some_and(has)
    }

    fn kill(&mut self, component: usize, why: KillReason, actions: &mut Vec<Action>) {
        if !std::mem::replace(&mut self.components[component].killed, true) {
            actions.push(Action::Kill { component, why });
        }
    }

    /// Kills the modules of components that have not acknowledged in time, unless they are
    /// suspended. No switch waits for these components any longer. A module that was suspended gets
    /// the same time again when it is found running.
    fn overdue(
        &mut self,
        now: Duration,
        is_suspended: &dyn Fn(usize) -> bool,
        actions: &mut Vec<Action>,
    ) {
        let mut failure = None;
        for i in 0..self.components.len() {
            let suspended = is_suspended(self.components[i].module);
            let within = self.mode_to_send().map(|(mode, _)| self.rules[mode].enter_within);
            let again = now + within.unwrap_or_default().max(CHECK_AGAIN);
            let pending = &mut self.components[i].pending;
            let Some(p) = pending.as_mut().filter(|p| now >= p.until) else { continue };
            let (active, awaited) = (p.active, !p.late);
            let why = if suspended || p.suspended {
                (p.until, p.late, p.suspended) = (again, true, suspended);
                Failure::Suspended(i)
            } else {
                *pending = None;
                self.kill(i, KillReason::Late { active }, actions);
                Failure::Hung(i)
            };
            if awaited && active && self.is_awaited(i) {
                failure = failure.or(Some(why));
            }
        }
        if let Some(why) = failure {
            self.failed(why, now, actions);
        }
    }

    /// Continues with the next mode of the fallback list, or goes back to the previous mode.
    fn failed(&mut self, why: Failure, now: Duration, actions: &mut Vec<Action>) {
        let initial = self.initial;
        let Some(s) = &mut self.switch else { return };
        if s.last_resort {
            // Missing components stay missing.
            return;
        }
        let next = s.fallback.pop_front().or_else(|| {
            s.last_resort = true;
            s.last_mode(initial)
        });
        actions.push(Action::Failed { switch: s.number, mode: s.target, why, next });
        // At the start of the run: this mode is entered without the failed components.
        let Some(next) = next else { return };
        s.target = next;
        s.stage = Stage::Waiting;
        s.until = now + self.rules[next].enter_within;
        (s.activated, s.deactivated) = (false, false);
    }

    fn advance(&mut self, now: Duration, met: &dyn Fn(usize) -> bool, actions: &mut Vec<Action>) {
        // Each round ends a stage, or tries another mode of the list.
        loop {
            let Some(s) = self.switch.clone() else { return };
            match s.stage {
                Stage::Waiting => {
                    let complete = self.rules[s.target]
                        .active
                        .iter()
                        .all(|c| self.is_there(self.components[*c].module));
                    if s.last_resort || complete && met(s.target) {
                        self.enter_stage(now, actions);
                    } else if now >= s.until {
                        self.failed(Failure::Condition, now, actions);
                    } else {
                        return;
                    }
                }
                stage if self.is_pending(stage, s.target) => return,
                stage => {
                    if stage == Stage::Activating {
                        self.entered(now, actions);
                    }
                    if let Some(s) = &mut self.switch {
                        s.activated |= stage == Stage::Activating;
                        s.deactivated |= stage == Stage::Deactivating;
                    }
                    self.enter_stage(now, actions);
                }
            }
        }
    }

    /// Returns true if a module's process is ready and not being killed.
    fn is_there(&self, module: usize) -> bool {
        self.ready[module] && !self.components.iter().any(|c| c.module == module && c.killed)
    }

    /// Returns true if an acknowledgement that this stage waits for is missing.
    fn is_pending(&self, stage: Stage, target: usize) -> bool {
        let wanted = stage == Stage::Activating;
        let waits = |(i, c): (usize, &Component)| {
            c.pending.as_ref().is_some_and(|p| p.active == wanted && !p.late)
                && self.rules[target].active.contains(&i) == wanted
        };
        self.components.iter().enumerate().any(waits)
    }

    /// Begins the next stage of the switch, or ends it.
    fn enter_stage(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(s) = &mut self.switch else { return };
        let rules = &self.rules[s.target];
        let activate_next = !s.activated && (!rules.deactivate_first || s.deactivated);
        if activate_next {
            s.stage = Stage::Activating;
            // Condition and activations share the time, unless deactivations came first.
            let until =
                if s.deactivated || s.last_resort { now + rules.enter_within } else { s.until };
            self.send(true, until, actions);
        } else if !s.deactivated {
            s.stage = Stage::Deactivating;
            let until = now + rules.enter_within;
            self.send(false, until, actions);
        } else {
            self.switch = None;
            self.sent_since = false;
        }
    }

    fn entered(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(s) = &self.switch else { return };
        if self.mode != Some(s.target) {
            self.since = now;
        }
        self.mode = Some(s.target);
        actions.push(Action::Entered {
            switch: s.number,
            from: s.from,
            mode: s.target,
            after: now.saturating_sub(s.began),
        });
    }

    /// Sends a message to the components whose state differs in the target mode. The parameters of
    /// the target mode come with the activations.
    fn send(&mut self, active: bool, until: Duration, actions: &mut Vec<Action>) {
        let Some(s) = &self.switch else { return };
        let (number, mode) = (s.number, s.target);
        let rules = &self.rules[mode];
        // Returning to a mode that was not left sets no parameters.
        let enters = active && (self.sent_since || self.mode != Some(mode));
        for module in 0..self.ready.len() {
            let mut changed = Vec::new();
            for (i, c) in self.components.iter_mut().enumerate() {
                let wanted = rules.active.contains(&i);
                if c.module != module || wanted != active || c.active == active {
                    continue;
                }
                c.active = active;
                if self.ready[module] {
                    c.pending = Some(Pending::new(number, active, until));
                    changed.push(i);
                }
            }
            let sets = enters && self.ready[module] && rules.sets.contains(&module);
            if !changed.is_empty() || sets {
                self.sent_since = true;
                let (activate, deactivate) =
                    if active { (changed, Vec::new()) } else { (Vec::new(), changed) };
                actions.push(Action::SendStates {
                    module,
                    switch: number,
                    mode,
                    activate,
                    deactivate,
                });
            }
        }
    }
}

#[cfg(test)]
#[path = "machine_tests.rs"]
mod tests;
