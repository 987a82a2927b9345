// SPDX-License-Identifier: Apache-2.0
//! Decides which module starts, restarts or stays down: a pure state machine.
//!
//! The launcher reports events and carries out actions; this file has no clock, no processes and no
//! I/O. `docs/protocols/supervision.md` describes the states, the events, and what holds in each
//! state.

use driveline_graph::{OnExhausted, ResolvedRestart, RestartPolicy};
use std::collections::VecDeque;
use std::time::Duration;

/// Longest pause before a restart, however often a module fails in a row.
pub(super) const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A module that was ready for this long has recovered: the pauses begin with the shortest again.
pub(super) const STEADY: Duration = Duration::from_secs(1);

/// Rules for one process.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) restart: ResolvedRestart,
    /// Time from the start of the process until it must be ready.
    pub(super) ready_within: Duration,
    /// Time from SIGTERM to SIGKILL.
    pub(super) grace: Duration,
    /// Processes that must be ready before this one starts.
    pub(super) depends_on: Vec<usize>,
    /// Processes whose restart restarts this one as well.
    pub(super) restart_with: Vec<usize>,
    /// True for a gateway: it is restarted only while the graph runs, and does not keep the run
    /// alive.
    pub(super) gateway: bool,
}

/// An event of process `usize`, or of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Input {
    /// The process has initialised its components.
    Ready(usize),
    /// The process has ended. `ok: false`: it failed, or could not be started.
    Ended { process: usize, ok: bool },
    /// The process cannot be started, and another attempt would not change that.
    Unstartable(usize),
    /// The process violates what the graph declares, and is restarted regardless of its policy.
    /// `killed`: it was killed already, because it hangs.
    Faulty { process: usize, killed: bool },
    /// Every process is ready or down; the callbacks start.
    GraphRuns,
    /// The run ends: nothing is started from here on.
    Stop,
    /// Time has passed without an event.
    Time,
}

/// Reason for a module to stay down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DownReason {
    /// Its policy does not restart it, or it cannot be started.
    Policy,
    /// It was restarted as often as its limit allows.
    Exhausted,
    /// It depends on this process, which is down.
    Dependency(usize),
    /// The run ended before it was ready again.
    RunStops,
}

/// Actions for the launcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Start the process.
    Start(usize),
    /// Send SIGTERM.
    Terminate(usize),
    /// Send SIGKILL: it did not end within its grace period.
    Kill(usize),
    /// Report that it was not ready in time. `Terminate` or `StopRun` follows.
    NotReady(usize),
    /// Report a restart that follows after a pause. `Start` or `Down` comes next. A process that is
    /// restarted together with another one has no pause; for it, `Terminate` comes after this
    /// action and before `Start` or `Down`.
    Restart { process: usize, after: Duration },
    /// Report that it stays down.
    Down { process: usize, why: DownReason },
    /// End the run because of this process.
    StopRun(usize),
}

/// State of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Starts as soon as its dependencies are ready.
    Waiting,
    /// Started, not ready; fails at `until`.
    Starting { until: Duration },
    /// Ready since `since`.
    Ready { since: Duration },
    /// Was asked to end. `failed: false`: it is restarted because another process is
    /// (`restart_with`), and goes to `Waiting` without a pause. `failed: true`: it starts again
    /// after a pause, if its policy or [`Input::Faulty`] says so. It gets SIGKILL at `until`;
    /// `None`: that time has passed, and it got SIGKILL.
    Ending { until: Option<Duration>, failed: bool },
    /// Has ended; starts again at `until`.
    Restarting { until: Duration },
    /// Stays down.
    Down,
}

#[derive(Debug)]
struct Process {
    rules: Rules,
    state: State,
    /// Restarts in a row.
    row: u32,
    /// Times of the restarts within the window.
    restarts: VecDeque<Duration>,
    /// It is ended because of a fault, and restarted regardless of its policy.
    faulty: bool,
    /// A restart was reported and has ended neither in `Ready` nor in `Down`.
    announced: bool,
}

/// All processes of a run.
#[derive(Debug)]
pub(super) struct Supervisor {
    processes: Vec<Process>,
    running: bool,
    stopping: bool,
}

impl Supervisor {
    pub(super) fn new(rules: Vec<Rules>) -> Self {
        let process = |rules| Process {
            rules,
            state: State::Waiting,
            row: 0,
            restarts: VecDeque::new(),
            faulty: false,
            announced: false,
        };
        Self {
            processes: rules.into_iter().map(process).collect(),
            running: false,
            stopping: false,
        }
    }

    /// Takes an event at time `now` since the start of the run and returns the actions, in order.
    pub(super) fn step(&mut self, now: Duration, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        match input {
            Input::Ready(i) => {
                if let State::Starting { .. } = self.processes[i].state {
                    self.processes[i].state = State::Ready { since: now };
                    self.processes[i].announced = false;
                }
            }
            Input::Faulty { process, killed } => self.faulty(process, killed, now, &mut actions),
            Input::Ended { process, ok } => self.ended(process, ok, now, &mut actions),
            Input::Unstartable(i) if !self.stopping => {
                self.down(i, DownReason::Policy, &mut actions);
            }
            Input::Unstartable(i) => self.ended(i, false, now, &mut actions),
            Input::GraphRuns => self.running = true,
            Input::Stop => self.stop(&mut actions),
            Input::Time => {}
        }
        self.time(now, &mut actions);
        self.start_waiting(now, &mut actions);
        actions
    }

    /// Returns the time when [`Input::Time`] is due, if nothing happens before.
    pub(super) fn next(&self) -> Option<Duration> {
        let due = |p: &Process| match p.state {
            State::Starting { until } if !self.stopping => Some(until),
            State::Restarting { until } => Some(until),
            State::Ending { until, .. } if !self.stopping => until,
            _ => None,
        };
        self.processes.iter().filter_map(due).min()
    }

    pub(super) fn state(&self, process: usize) -> State {
        self.processes[process].state
    }

    /// Returns true if the graph can run: every process is ready or down.
    pub(super) fn settled(&self) -> bool {
        self.processes.iter().all(|p| matches!(p.state, State::Ready { .. } | State::Down))
    }

    /// Returns true if a process that does not exist now will still be started.
    pub(super) fn pending(&self) -> bool {
        !self.stopping
            && self
                .processes
                .iter()
                .any(|p| matches!(p.state, State::Waiting | State::Restarting { .. }))
    }

    fn stop(&mut self, actions: &mut Vec<Action>) {
        self.stopping = true;
        for (i, p) in self.processes.iter_mut().enumerate() {
            let away = matches!(p.state, State::Waiting | State::Restarting { .. });
            if away {
                p.state = State::Down;
            }
            // A restarted process that is not ready yet has not recovered either.
            let starting = matches!(p.state, State::Starting { .. });
            if (away || starting) && std::mem::take(&mut p.announced) {
                actions.push(Action::Down { process: i, why: DownReason::RunStops });
            }
        }
    }

    fn faulty(&mut self, i: usize, killed: bool, now: Duration, actions: &mut Vec<Action>) {
        let p = &mut self.processes[i];
        if self.stopping || !matches!(p.state, State::Starting { .. } | State::Ready { .. }) {
            return;
        }
        // If the process was ready for at least STEADY, this fault is the first in a row.
        if matches!(p.state, State::Ready { since } if now.saturating_sub(since) >= STEADY) {
            p.row = 0;
        }
        p.faulty = true;
        p.state = State::Ending { until: Some(now + p.rules.grace), failed: true };
        if !killed {
            actions.push(Action::Terminate(i));
        }
    }

    fn ended(&mut self, i: usize, ok: bool, now: Duration, actions: &mut Vec<Action>) {
        let failed = match self.processes[i].state {
            State::Ending { failed: false, .. } => {
                self.processes[i].state = if self.stopping { State::Down } else { State::Waiting };
                if self.stopping && std::mem::take(&mut self.processes[i].announced) {
                    actions.push(Action::Down { process: i, why: DownReason::RunStops });
                }
                return;
            }
            State::Ending { failed: true, .. } => true,
            State::Starting { .. } | State::Ready { .. } => !ok,
            State::Waiting | State::Restarting { .. } | State::Down => return,
        };
        if self.stopping {
            self.processes[i].state = State::Down;
            if std::mem::take(&mut self.processes[i].announced) {
                actions.push(Action::Down { process: i, why: DownReason::RunStops });
            }
            return;
        }
        let faulty = std::mem::take(&mut self.processes[i].faulty);
        if !faulty && !self.restarts(i, failed) {
            return self.down(i, DownReason::Policy, actions);
        }
        if !self.count_restart(i, now) {
            return self.down(i, DownReason::Exhausted, actions);
        }
        let p = &mut self.processes[i];
        let steady =
            matches!(p.state, State::Ready { since } if now.saturating_sub(since) >= STEADY);
        p.row = if steady { 0 } else { p.row };
        let after = p.rules.restart.backoff.saturating_mul(1 << p.row.min(16)).min(MAX_PAUSE);
        p.row = p.row.saturating_add(1);
        p.state = State::Restarting { until: now + after };
        p.announced = true;
        actions.push(Action::Restart { process: i, after });
        self.end_companions(i, now, actions);
    }

    /// Returns true if the policy restarts a process that ended in this way.
    fn restarts(&self, i: usize, failed: bool) -> bool {
        let rules = &self.processes[i].rules;
        let wanted = match rules.restart.policy {
            RestartPolicy::Never => false,
            RestartPolicy::OnFailure => failed,
            RestartPolicy::Always => true,
        };
        wanted && (self.running || !rules.gateway)
    }

    /// Counts a restart. Returns false if the limit within the window is reached.
    fn count_restart(&mut self, i: usize, now: Duration) -> bool {
        let p = &mut self.processes[i];
        let Some(max) = p.rules.restart.max else { return true };
        while p.restarts.front().is_some_and(|at| now.saturating_sub(*at) >= p.rules.restart.window)
        {
            p.restarts.pop_front();
        }
        if p.restarts.len() >= max as usize {
            return false;
        }
        p.restarts.push_back(now);
        true
    }

    /// Ends the processes that restart together with `i`, and those that restart with them.
    fn end_companions(&mut self, i: usize, now: Duration, actions: &mut Vec<Action>) {
        let mut changed = vec![i];
        while let Some(source) = changed.pop() {
            for (j, p) in self.processes.iter_mut().enumerate() {
                let live = matches!(p.state, State::Starting { .. } | State::Ready { .. });
                if live && p.rules.restart_with.contains(&source) {
                    p.state = State::Ending { until: Some(now + p.rules.grace), failed: false };
                    p.announced = true;
                    actions.push(Action::Restart { process: j, after: Duration::ZERO });
                    actions.push(Action::Terminate(j));
                    changed.push(j);
                }
            }
        }
    }

    fn down(&mut self, i: usize, why: DownReason, actions: &mut Vec<Action>) {
        self.processes[i].state = State::Down;
        self.processes[i].announced = false;
        actions.push(Action::Down { process: i, why });
        let left = |p: &Process| !p.rules.gateway && p.state != State::Down;
        if self.ends_run(i)
            || !self.processes.iter().any(left) && self.processes.iter().any(|p| !p.rules.gateway)
        {
            return self.stop_run(i, actions);
        }
        let waits = |p: &Process| p.state == State::Waiting && p.rules.depends_on.contains(&i);
        while let Some(j) = self.processes.iter().position(waits) {
            self.down(j, DownReason::Dependency(i), actions);
        }
    }

    /// Returns true if the run ends when this process stays down. Before the graph runs, the run
    /// always ends, unless `on_exhausted` lets it continue without this module.
    fn ends_run(&self, i: usize) -> bool {
        match &self.processes[i].rules.restart.on_exhausted {
            Some(OnExhausted::Stop) => true,
            Some(OnExhausted::ContinueWithout) => false,
            // A start that fails ends the run: no mode was entered yet.
            Some(OnExhausted::Mode(_)) | None => !self.running,
        }
    }

    fn stop_run(&mut self, i: usize, actions: &mut Vec<Action>) {
        if !self.stopping {
            actions.push(Action::StopRun(i));
            self.stop(actions);
        }
    }

    fn time(&mut self, now: Duration, actions: &mut Vec<Action>) {
        for i in 0..self.processes.len() {
            if self.stopping {
                return;
            }
            let p = &mut self.processes[i];
            match p.state {
                State::Restarting { until } if now >= until => p.state = State::Waiting,
                State::Ending { until: Some(until), failed } if now >= until => {
                    p.state = State::Ending { until: None, failed };
                    actions.push(Action::Kill(i));
                }
                State::Starting { until } if now >= until => {
                    actions.push(Action::NotReady(i));
                    if !self.restarts(i, true) && self.ends_run(i) {
                        // The stop of the run also ends this process.
                        self.stop_run(i, actions);
                    } else {
                        let p = &mut self.processes[i];
                        p.state = State::Ending { until: Some(now + p.rules.grace), failed: true };
                        actions.push(Action::Terminate(i));
                    }
                }
                _ => {}
            }
        }
    }

    /// Starts processes whose dependencies are ready. Processes that wait for a dependency that is
    /// down become `Down`.
    fn start_waiting(&mut self, now: Duration, actions: &mut Vec<Action>) {
        for i in 0..self.processes.len() {
            if self.stopping || self.processes[i].state != State::Waiting {
                continue;
            }
            let rules = &self.processes[i].rules;
            if let Some(down) =
                rules.depends_on.iter().copied().find(|d| self.processes[*d].state == State::Down)
            {
                self.down(i, DownReason::Dependency(down), actions);
                continue;
            }
            let ready = |d: &usize| matches!(self.processes[*d].state, State::Ready { .. });
            let away = |d: &usize| {
                matches!(self.processes[*d].state, State::Restarting { .. } | State::Ending { .. })
            };
            if rules.depends_on.iter().all(ready) && !rules.restart_with.iter().any(away) {
                let until = now + rules.ready_within;
                self.processes[i].state = State::Starting { until };
                actions.push(Action::Start(i));
            }
        }
    }
}

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;
