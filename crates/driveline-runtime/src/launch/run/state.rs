// SPDX-License-Identifier: Apache-2.0
//! Status of a run for tools (`docs/protocols/control.md`).

use super::super::child::Child;
use super::super::control::{
    Ask, ControlSocket, Fault, ModuleTopic, ProcessKind, ProcessState, ProcessStatus, RequestError,
    RunPhase, RunStatus, Verb,
};
use super::super::gateway::Called;
use super::super::health::ProcessNow;
use super::super::supervisor::State;
use super::{Launcher, Phase, Program};
use driveline::Reach;
use driveline_graph::ResolvedModule;
use driveline_types::TopicName;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Maximum number of processes that a verdict on the whole run names.
const MOST_NAMED: usize = 8;

/// History of a process, for status requests.
pub(super) struct Past {
    state: ProcessState,
    since: Instant,
    /// Attempts to start it.
    starts: u64,
    fault: Option<(String, Instant)>,
    /// Reason why it stays down, for people.
    why_down: Option<String>,
}

impl Past {
    pub(super) fn new(now: Instant) -> Self {
        Self { state: ProcessState::Waiting, since: now, starts: 0, fault: None, why_down: None }
    }

    pub(super) fn started(&mut self) {
        self.starts += 1;
        // The time is set even if the state was `Starting` before, as after a failed attempt.
        (self.state, self.since) = (ProcessState::Starting, Instant::now());
    }

    pub(super) fn failed(&mut self, text: String) {
        self.fault = Some((text, Instant::now()));
    }

    pub(super) fn stays_down(&mut self, why: &str) {
        self.why_down = Some(why.to_owned());
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Launcher<'_> {
    /// Notes when processes and the run change their states.
    pub(super) fn note_states(&mut self, now: Instant) {
        for i in 0..self.processes.len() {
            let state = self.shown_state(i);
            let past = &mut self.processes[i].past;
            if past.state != state {
                (past.state, past.since) = (state, now);
            }
        }
        let phase = self.shown_phase();
        if self.phase_since.0 != phase {
            self.phase_since = (phase, now);
        }
    }

    pub(super) fn shown_phase(&self) -> RunPhase {
        match self.phase {
            Phase::Starting | Phase::Matching { .. } => RunPhase::Starting,
            Phase::Running | Phase::Settling => RunPhase::Running,
            Phase::Stopping { .. } => RunPhase::Ending,
        }
    }

    fn shown_state(&self, process: usize) -> ProcessState {
        // When the run stops, the launcher ends the processes one by one, and the supervisor does
        // not know which of them is ending.
        if self.processes[process]
            .child
            .as_ref()
            .is_some_and(|c| c.ended.is_none() && c.end_requested)
        {
            return ProcessState::Ending;
        }
        match self.supervisor.state(process) {
            State::Waiting => ProcessState::Waiting,
            State::Starting { .. } => ProcessState::Starting,
            State::Ready { .. } => ProcessState::Ready,
            State::Ending { .. } => ProcessState::Ending,
            State::Restarting { .. } => ProcessState::Restarting,
            State::Down => ProcessState::Down,
        }
    }

    /// Carries out a request of a tool.
    pub(super) fn asked(
        &mut self,
        ask: Ask,
        socket: &ControlSocket,
    ) -> Result<RunStatus, RequestError> {
        let Ask { verb, mode, change } = ask;
        if verb == Verb::Stop {
            self.interrupted();
        }
        if let Some(mode) = mode {
            self.mode_requested(&mode)?;
        }
        let change = change.map(|ask| self.change_requested(&ask)).transpose()?;
        let with_parameters = change.is_some() || verb == Verb::Param;
        let now = Instant::now();
        self.note_states(now);
        Ok(RunStatus {
            id: socket.id().to_owned(),
            domain: socket.domain().to_owned(),
            parameters: with_parameters.then(|| self.parameters_status()),
            change,
            ..self.run_status(now, verb == Verb::Health)
        })
    }

    /// Publishes the health of the run, if that is due.
    pub(super) fn publish_health(&mut self, now: Instant) {
        let Some(mut topic) = self.health_topic.take() else { return };
        self.note_states(now);
        let of = |p: &super::Process<'_>| p.past.state.to_string();
        let mut states: Vec<String> = self.processes.iter().map(of).collect();
        states.push(self.phase_since.0.to_string());
        states.extend(self.modes.as_ref().and_then(|m| m.status(self.began.elapsed()).current));
        if topic.is_due(now, states) {
            topic.publish(self.run_status(now, true));
        }
        self.health_topic = Some(topic);
    }

    /// Returns the state of the run, without the socket's fields. `verdict`: with verdicts and
    /// health.
    fn run_status(&self, now: Instant, verdict: bool) -> RunStatus {
        let processes: Vec<ProcessStatus> =
            (0..self.processes.len()).map(|i| self.process_status(i, now, verdict)).collect();
        let reason = self.not_ready_because(&processes);
        RunStatus {
            id: String::new(),
            graph: self.graph.name.clone(),
            domain: String::new(),
            pid: std::process::id(),
            phase: self.phase_since.0.clone(),
            since_ms: ms(now.saturating_duration_since(self.phase_since.1)),
            age_ms: ms(now.saturating_duration_since(self.began)),
            ready: verdict.then_some(reason.is_none()),
            reason: reason.filter(|_| verdict),
            processes,
            mode: self.modes.as_ref().map(|m| m.status(self.began.elapsed())),
            parameters: None,
            change: None,
        }
    }

    fn process_status(&self, process: usize, now: Instant, verdict: bool) -> ProcessStatus {
        let p = &self.processes[process];
        let child = p.child.as_ref().filter(|c| c.ended.is_none());
        let (kind, components, topics) = match p.program {
            Program::Module(module) => (
                ProcessKind::Module,
                module.components.iter().map(|c| c.name.to_string()).collect(),
                self.topics_of(module),
            ),
            Program::Gateway(_) => (ProcessKind::Gateway, Vec::new(), Vec::new()),
        };
        let ago = |at: Instant| ms(now.saturating_duration_since(at));
        let reason = self.why_not_ready(process);
        ProcessStatus {
            name: p.program.name().to_owned(),
            kind,
            pid: child.map(Child::pid),
            state: p.past.state.clone(),
            since_ms: ago(p.past.since),
            restarts: p.past.starts.saturating_sub(1),
            suspended: child.is_some_and(|c| c.suspended),
            busy: child.and_then(Child::busy_call).map(ToString::to_string),
            last_fault: p
                .past
                .fault
                .as_ref()
                .map(|(text, at)| Fault { text: text.clone(), ago_ms: ago(*at) }),
            components,
            topics,
            ready: verdict.then_some(reason.is_none()),
            reason: reason.filter(|_| verdict),
            health: match p.program {
                Program::Module(module) if verdict => {
                    let modes = self.modes.as_ref();
                    let active = |name: &str| modes.and_then(|m| m.is_active(name));
                    let busy = child.and_then(Child::busy_call);
                    let process = ProcessNow { alive: child.is_some(), since: p.past.since, busy };
                    Some(p.observed.health(module, process, now, active))
                }
                _ => None,
            },
        }
    }

    fn topics_of(&self, module: &ResolvedModule) -> Vec<ModuleTopic> {
        let mut topics = BTreeMap::<&TopicName, (bool, bool)>::new();
        for component in &module.components {
            component.outputs.iter().for_each(|o| topics.entry(&o.topic).or_default().0 = true);
            component.inputs.iter().for_each(|i| topics.entry(&i.topic).or_default().1 = true);
        }
        let topic = |(name, (publishes, subscribes)): (&TopicName, (bool, bool))| ModuleTopic {
            name: name.to_string(),
            publishes,
            subscribes,
            inside: self.graph.topics.get(name).is_none_or(|t| t.reach == Reach::Process),
            external: self.graph.topics.get(name).is_some_and(|t| t.external),
        };
        topics.into_iter().map(topic).collect()
    }

    /// Returns the reason why a process is not ready, as the end of a sentence for people.
    fn why_not_ready(&self, process: usize) -> Option<String> {
        let p = &self.processes[process];
        let child = p.child.as_ref().filter(|c| c.ended.is_none());
        let suspended = child.filter(|c| c.suspended).map(|c| {
            let pid = c.pid();
            format!("is suspended by SIGSTOP; `kill -CONT {pid}` lets it go on")
        });
        let doing = || {
            child.and_then(Child::busy_call).map_or_else(String::new, |call| format!(": {call}"))
        };
        match p.past.state {
            ProcessState::Waiting => Some(self.waits_for(process)),
            ProcessState::Restarting => {
                let left = match self.supervisor.state(process) {
                    State::Restarting { until } => until.saturating_sub(self.began.elapsed()),
                    _ => Duration::ZERO,
                };
                Some(format!("is started again in {:.1} s", left.as_secs_f64()))
            }
            ProcessState::Down => Some(
                p.past
                    .why_down
                    .as_ref()
                    .map_or_else(|| "has ended".to_owned(), |why| format!("is down: {why}")),
            ),
            ProcessState::Ready => suspended,
            ProcessState::Starting => suspended.or_else(|| Some(format!("is starting{}", doing()))),
            ProcessState::Ending | ProcessState::Other(_) => {
                suspended.or_else(|| Some(format!("is ending{}", doing())))
            }
        }
    }

    fn waits_for(&self, process: usize) -> String {
        let Program::Module(module) = self.processes[process].program else {
            return "waits".to_owned();
        };
        let named = |names: &[String], wanted: fn(&ProcessState) -> bool| -> Vec<String> {
            let here =
                self.processes.iter().filter(|p| wanted(&p.past.state)).map(|p| p.program.name());
            here.filter(|name| names.iter().any(|n| n == name))
                .map(|name| format!("'{name}'"))
                .collect()
        };
        let needed = named(&module.depends_on, |state| *state != ProcessState::Ready);
        let away = named(&module.restart_with, |state| {
            matches!(state, ProcessState::Restarting | ProcessState::Ending)
        });
        match (needed.as_slice(), away.as_slice()) {
            ([], []) => "waits".to_owned(),
            ([], away) => format!("waits for the restart of {} (`restart_with`)", away.join(", ")),
            (needed, _) => format!("waits for {} to be ready (`depends_on`)", needed.join(", ")),
        }
    }

    /// Returns the reason why the run is not ready, for people.
    fn not_ready_because(&self, processes: &[ProcessStatus]) -> Option<String> {
        let whole = match self.phase {
            Phase::Matching { .. } => Some("the modules have not found each other yet"),
            Phase::Stopping { .. } => Some("the run is ending"),
            Phase::Running if self.modes.as_ref().is_some_and(|m| !m.has_entered()) => {
                Some("its first mode is being entered")
            }
            _ => None,
        };
        let one = |(i, p): (usize, &ProcessStatus)| {
            self.why_not_ready(i).map(|why| format!("{} {why}", Called(&p.name)))
        };
        let mut reasons: Vec<String> = processes.iter().enumerate().filter_map(one).collect();
        if let Some(more) = reasons.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            reasons.truncate(MOST_NAMED);
            reasons.push(format!("{more} more are not ready"));
        }
        let reasons: Vec<String> = whole.map(str::to_owned).into_iter().chain(reasons).collect();
        match (reasons.is_empty(), &self.phase) {
            (true, Phase::Starting) => Some("the run is starting".to_owned()),
            (true, _) => None,
            (false, _) => Some(reasons.join("; ")),
        }
    }
}
