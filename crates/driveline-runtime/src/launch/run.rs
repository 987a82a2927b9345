// SPDX-License-Identifier: Apache-2.0
//! The launcher's loop.

mod changes;
mod deaths;
mod interrupts;
mod leftovers;
mod matches;
mod modes;
mod parameters;
mod program;
mod reactions;
mod remaining;
mod settling;
mod state;
mod watching;

use super::child::{Child, Source, Start};
use super::control::{RunPhase, Server};
use super::death::{Death, When};
use super::gateway::carried;
use super::health::Observed;
use super::health_topic::HealthTopic;
use super::matching::{self, Unconnected};
use super::modes::ModeControl;
use super::options::LaunchOptions;
use super::remote::Remote;
use super::service_manager::ServiceManager;
use super::supervisor::{Action, Input, State, Supervisor};
use super::{CutOff, Down, End, Event, Interrupt, Outcome, Sink, Stream};
use crate::account::{Record, build_id, graph_digest};
use crate::cores::{self, KeptOff};
use crate::time_namespace;
use changes::Changes;
use driveline_graph::ResolvedGraph;
use program::{Program, rules, slowest_timer};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use settling::Settling;
use state::Past;
use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};
use thiserror::Error;
use watching::Watching;

/// Margin after the launcher's time-out before a module's process ends itself.
const STOP_BEHIND: Duration = Duration::from_secs(1);
/// A module that is not ready after this is reported.
const WAITING: Duration = Duration::from_secs(3);
/// Time between two checks for missing connections of the modules.
const MATCH_AGAIN: Duration = Duration::from_millis(10);
/// Time between two such checks while the graph runs without some of the connections.
const MATCH_LATER: Duration = Duration::from_secs(1);

/// A run could not be started or watched. Processes that were started have been ended.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// The launcher cannot wait for its processes.
    #[error("cannot watch the modules: {0}")]
    Watch(#[from] io::Error),
    /// The health of the run cannot be published.
    #[error("{0}")]
    Health(String),
    /// There is nothing to start.
    #[error(
        "the graph has no modules to run, and nothing that a gateway carries: `driveline validate` \
         says more"
    )]
    Nothing,
}

/// Keeps this process off the exclusive cores of executors, until the result is dropped.
fn kept_off(graph: &ResolvedGraph, sink: &mut dyn Sink) -> Option<KeptOff> {
    let exclusive = graph.exclusive_cpus();
    if exclusive.is_empty() {
        return None;
    }
    let kept = cores::keep_off(&exclusive, None);
    kept.map_err(|reason| {
        let line = format!("warning: the launcher runs on exclusive cores: {reason}");
        sink.output("driveline", Stream::Err, &line);
    })
    .ok()
}

/// Starts the modules, watches them and returns when all have ended. Blocks.
///
/// # Errors
/// [`LaunchError`]. A failed module is no error but an [`Outcome`].
pub fn run<'a>(
    graph: &'a ResolvedGraph,
    options: &'a LaunchOptions,
    interrupt: &Interrupt,
    sink: &mut dyn Sink,
) -> Result<Outcome, LaunchError> {
    let wanted = |name: &str| options.modules.as_ref().is_none_or(|m| m.iter().any(|w| w == name));
    let mut programs: Vec<Program<'a>> = options.gateways.iter().map(Program::Gateway).collect();
    programs.extend(graph.modules.iter().filter(|m| wanted(m.name.as_str())).map(Program::Module));
    if programs.is_empty() {
        return Err(LaunchError::Nothing);
    }
    // Gateways inherit the launcher's CPUs. A module's process reads the exclusive cores from the
    // graph itself.
    let _kept_off = kept_off(graph, sink);
    let began = Instant::now();
    let process = |program: &Program<'a>| Process {
        program: *program,
        child: None,
        death: None,
        late: None,
        ended_at: None,
        past: Past::new(began),
        watching: Watching::default(),
        observed: Observed::default(),
    };
    let processes = programs.iter().map(process).collect();
    let place = |module: &str| {
        let runs = |p: &Program<'_>| matches!(p, Program::Module(m) if m.name.as_str() == module);
        programs.iter().position(runs)
    };
    let health_topic =
        HealthTopic::open(graph, &options.domain_dir).map_err(LaunchError::Health)?;
    let launcher = Launcher {
        graph,
        options,
        interrupt,
        sink,
        supervisor: Supervisor::new(
            programs.iter().map(|p| rules(p, &programs, options)).collect(),
        ),
        processes,
        phase: Phase::Starting,
        end: None,
        interrupted_at: None,
        killed: Vec::new(),
        down: Vec::new(),
        unreadable: 0,
        unconnected: Vec::new(),
        rejoining: Vec::new(),
        other_build: false,
        match_at: Instant::now(),
        suspended: Vec::new(),
        refused: None,
        settling: Settling::default(),
        cut_off: Vec::new(),
        slowest: Duration::ZERO,
        slowest_timer: slowest_timer(graph, wanted),
        began,
        tick_at: began,
        service_manager: ServiceManager::new(),
        phase_since: (RunPhase::Starting, began),
        server: options.control.clone().map(Server::new),
        changes: Changes::default(),
        health_topic,
        modes: ModeControl::new(graph, programs.len(), place),
    };
    launcher.run()
}

/// Phase of a run.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Starting,
    /// All modules are ready or down; `next` is the time of the next check that their topics are
    /// matched.
    Matching {
        next: Instant,
        until: Instant,
    },
    Running,
    /// A component has finished, and the modules do the remaining work.
    Settling,
    /// Process `at` was asked to end; the processes after it have ended.
    Stopping {
        at: usize,
        until: Instant,
    },
}

/// One process of the run, and its predecessor's end.
struct Process<'a> {
    program: Program<'a>,
    /// The newest child process. It stays here after its end, until the next one is started.
    child: Option<Child>,
    /// The last end, if it was a failure: not requested, or requested because of a fault or
    /// time-out.
    death: Option<Death>,
    /// Set if it is being ended because it was not ready in time, or because of a fault.
    late: Option<Death>,
    /// Time when the last child process ended; cleared when the next one is ready.
    ended_at: Option<Instant>,
    past: Past,
    watching: Watching<'a>,
    /// State of its components.
    observed: Observed,
}

impl Process<'_> {
    /// The process, if it has not ended.
    fn alive(&mut self) -> Option<&mut Child> {
        self.child.as_mut().filter(|c| c.ended.is_none())
    }

    fn is_alive(&self) -> bool {
        self.child.as_ref().is_some_and(|c| c.ended.is_none())
    }
}

struct Launcher<'a> {
    graph: &'a ResolvedGraph,
    options: &'a LaunchOptions,
    interrupt: &'a Interrupt,
    sink: &'a mut dyn Sink,
    supervisor: Supervisor,
    processes: Vec<Process<'a>>,
    phase: Phase,
    end: Option<End>,
    /// The mode and the cause of the request that was refused last, and the time of its report.
    refused: Option<((String, String), Instant)>,
    /// Time of the last request to end.
    interrupted_at: Option<Instant>,
    killed: Vec<String>,
    down: Vec<Down>,
    /// Unreadable lines of processes that were replaced.
    unreadable: u64,
    /// Connections that are missing while the graph runs: never made so far, or not restored after
    /// a restart.
    unconnected: Vec<Unconnected>,
    /// Connections that a restarted module must restore, and the time until which their absence is
    /// no fault.
    rejoining: Vec<(Unconnected, Instant)>,
    /// True if a program of another build was reported.
    other_build: bool,
    /// Time of the next check for missing connections.
    match_at: Instant,
    /// Modules that were suspended when the run was to end.
    suspended: Vec<String>,
    settling: Settling,
    cut_off: Vec<CutOff>,
    /// The longest call of a callback so far.
    slowest: Duration,
    /// The longest period of the timers that trigger components with inputs.
    slowest_timer: Duration,
    began: Instant,
    tick_at: Instant,
    service_manager: ServiceManager,
    /// The phase as tools see it, and its beginning.
    phase_since: (RunPhase, Instant),
    /// Responds to tools.
    server: Option<Server>,
    /// Changes of parameters and logs.
    changes: Changes,
    health_topic: Option<HealthTopic>,
    modes: Option<ModeControl<'a>>,
}

impl Launcher<'_> {
    fn run(mut self) -> Result<Outcome, LaunchError> {
        let mut records = Vec::new();
        self.step(Input::Time);
        while self.processes.iter().any(Process::is_alive) || self.supervisor.pending() {
            let (ready, asked) = self.wait()?;
            if self.interrupt.take() > 0 {
                self.interrupted();
            }
            if self.interrupt.take_hang_up() {
                self.hung_up();
            }
            if self.interrupt.take_suspend() {
                self.sink.event(&Event::NotSuspended);
            }
            for (process, source) in ready {
                if source == Source::Death {
                    self.death(process, &mut records)?;
                } else if let Some(child) = &mut self.processes[process].child {
                    child.read(source, self.sink, &mut records);
                }
                for record in records.drain(..) {
                    self.record(process, record);
                }
            }
            self.advance();
            self.note_states(Instant::now());
            if asked {
                self.serve();
            }
        }
        self.remove_leftovers();
        let unreadable = self.unreadable
            + self
                .processes
                .iter()
                .filter_map(|p| p.child.as_ref())
                .map(Child::unreadable)
                .sum::<u64>();
        let end = self.end.unwrap_or(End::Interrupted);
        let Self { killed, down, unconnected, suspended, cut_off, .. } = self;
        Ok(Outcome { end, killed, down, unreadable, unconnected, suspended, cut_off })
    }

    /// Responds to requests of tools.
    fn serve(&mut self) {
        if let (Some(mut server), Some(socket)) =
            (self.server.take(), self.options.control.as_deref())
        {
            server.serve(Instant::now(), &mut |ask| self.asked(ask, socket));
            self.server = Some(server);
        }
    }

    /// Reports an event to the supervisor and carries out its actions.
    fn step(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            let actions = self.supervisor.step(self.began.elapsed(), input);
            let stops = actions.iter().any(|action| matches!(action, Action::StopRun(_)));
            for action in actions {
                match action {
                    Action::Start(i) => {
                        if let Err(source) = self.start(i) {
                            self.not_started(i, &source);
                            // If others start the process, this launcher only listens, and does not
                            // try again after a pause.
                            inputs.push_back(if self.only_listens(i) {
                                Input::Unstartable(i)
                            } else {
                                Input::Ended { process: i, ok: false }
                            });
                        }
                    }
                    Action::Terminate(i) => self.terminate(i),
                    Action::Kill(i) => {
                        self.kill(i, &format!("did not stop within {:?}", self.options.grace))
                    }
                    Action::NotReady(i) => self.not_ready(i),
                    Action::Restart { process, after } => {
                        let module = self.name(process);
                        let after_ms = u64::try_from(after.as_millis()).unwrap_or(u64::MAX);
                        self.sink.event(&Event::Restarts { module, after_ms });
                    }
                    Action::Down { process, why } => self.stays_down(process, why, !stops),
                    Action::StopRun(i) => {
                        self.end_because_of(i);
                        self.stop();
                    }
                }
            }
        }
    }

    fn name(&self, process: usize) -> String {
        self.processes[process].program.name().to_owned()
    }

    fn start(&mut self, process: usize) -> io::Result<()> {
        self.processes[process].past.started();
        self.processes[process].observed = Observed::default();
        let control = self.options.control.as_ref().map(|socket| socket.path());
        let child = match (self.processes[process].program, &self.options.placement) {
            (Program::Gateway(gateway), _) => Child::start_gateway(gateway, control)?,
            (Program::Module(module), Some(placement)) => {
                Child::remote(module.name.as_str(), Remote::start(placement, module)?)
            }
            (Program::Module(module), None) => Child::start(&Start {
                host: &self.options.host,
                host_arguments: &self.options.host_arguments,
                graph: &self.graph.file,
                module: module.name.as_str(),
                set: &self.options.set,
                carried: carried(self.graph, module),
                domain_dir: &self.options.domain_dir,
                environment: &module.environment,
                control,
                // The launcher's time-out ends first, so that the launcher can report it.
                stop_within: self.options.grace + STOP_BEHIND,
            })?,
        };
        self.sink.event(&match child.place() {
            Some(place) => Event::Placed { module: child.module.clone(), place },
            None => Event::Spawned { module: child.module.clone(), pid: child.pid() },
        });
        self.processes[process].watching = Watching::default();
        let old = self.processes[process].child.replace(child);
        self.unreadable += old.map_or(0, |old| old.unreadable());
        Ok(())
    }

    /// Returns true if others start this process.
    fn only_listens(&self, process: usize) -> bool {
        let is_module = matches!(self.processes[process].program, Program::Module(_));
        is_module && self.options.placement.as_ref().is_some_and(|p| p.starter.is_none())
    }

    fn terminate(&mut self, process: usize) {
        if let Some(child) = self.processes[process].alive() {
            child.end_requested = true;
            child.signal(Signal::TERM);
            if child.suspended {
                child.signal(Signal::CONT);
            }
        }
    }

    /// Sleeps until an event. Returns the ready sources, and true if [`Self::serve`] is due.
    fn wait(&mut self) -> io::Result<(Vec<(usize, Source)>, bool)> {
        let next = match self.phase {
            Phase::Running | Phase::Starting => self.tick_at,
            Phase::Stopping { until, .. } => until.min(self.tick_at),
            Phase::Matching { next, .. } => next.min(self.tick_at),
            Phase::Settling => self.settling.next(self.began).min(self.tick_at),
        };
        let next = self.supervisor.next().map_or(next, |due| next.min(self.began + due));
        let next = self.mode_due().map_or(next, |due| next.min(due));
        let asked_at = self.server.as_ref().and_then(Server::next);
        let next = asked_at.map_or(next, |due| next.min(due));
        let left = next.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut what = Vec::new();
        let mut fds: Vec<PollFd<'_>> =
            self.interrupt.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let of_children = fds.len()..;
        for (i, child) in
            self.processes.iter().enumerate().filter_map(|(i, p)| Some((i, p.child.as_ref()?)))
        {
            for (source, fd, flags) in child.sources() {
                what.push((i, source));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        let of_tools = fds.len()..;
        fds.extend(self.server.iter().flat_map(Server::polled));
        match poll(&mut fds, Some(&left)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok((Vec::new(), false)),
            Err(e) => return Err(e.into()),
        }
        let happened = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let asked =
            fds[of_tools].iter().any(happened) || asked_at.is_some_and(|due| Instant::now() >= due);
        let ready = what
            .into_iter()
            .zip(&fds[of_children])
            .filter(|(_, fd)| happened(fd))
            .map(|(w, _)| w)
            .collect();
        Ok((ready, asked))
    }

    fn record(&mut self, process: usize, mut record: Record) {
        let only_listens = self.only_listens(process);
        if let Record::Busy { for_ms, .. } = &mut record {
            // A module can send any number; no call has lasted longer than the run.
            *for_ms =
                (*for_ms).min(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
        self.mode_record(process, &record);
        if let Program::Module(module) = self.processes[process].program {
            self.processes[process].observed.take(module, &record, Instant::now());
        }
        let Some(child) = &mut self.processes[process].child else { return };
        let module = child.module.clone();
        match &record {
            Record::Changed { change, error } => {
                let (change, error) = (*change, error.clone());
                self.changed(process, change, error);
            }
            Record::ParameterSet { component, name, value, mode, error } => {
                let (mode, error) = (mode.clone(), error.clone());
                self.parameter_set(process, (component, name), value, mode, error);
            }
            Record::Held { .. } => self.holds_too_much(process, &record),
            Record::Ready => {
                child.ready = true;
                self.ready(process);
            }
            Record::Asked => child.words.asked = true,
            Record::Failed { call, text } => {
                child.words.failed = Some((call.clone(), text.clone()))
            }
            Record::Crash { signal, call } => child.words.crash = Some((*signal, call.clone())),
            Record::Hello { build, clock_offset_ns, .. } => {
                child.words.greeted = true;
                if let Some(why) = time_namespace::refused(*clock_offset_ns) {
                    child.words.failed = Some((None, why));
                    child.signal(Signal::KILL);
                }
                if build != build_id() && !std::mem::replace(&mut self.other_build, true) {
                    self.sink.event(&Event::OtherBuild {
                        module: module.clone(),
                        program: self.options.host.display().to_string(),
                        build: build.clone(),
                    });
                }
            }
            // A module that the launcher has started has the launcher's files and settings, so only
            // modules that others have started are checked.
            Record::Graph { digest }
                if only_listens
                    && graph_digest(&self.graph.files, &self.options.set)
                        .is_some_and(|own| own != *digest) =>
            {
                self.sink.event(&Event::OtherGraph { module: module.clone() });
            }
            Record::Entered { call } => child.starting_in = Some(call.clone()),
            Record::Busy { call, for_ms } if child.busy(call, *for_ms) => {
                let (call, when) = (call.clone(), self.when());
                self.sink.event(&Event::Busy {
                    module: module.clone(),
                    call,
                    for_s: for_ms / 1000,
                    when,
                });
            }
            Record::Finished { component } => {
                self.sink.event(&Event::Finished {
                    module: module.clone(),
                    component: component.clone(),
                });
                self.finished(component);
            }
            Record::Work { round, components } => self.settling.answer(process, *round, components),
            Record::Matched { component, port, peer } => self.matched(component, port, peer),
            Record::Callback(call) => {
                self.slowest = self
                    .slowest
                    .max(Duration::from_nanos(call.end_ns.saturating_sub(call.start_ns)));
                if let Phase::Settling = self.phase {
                    self.settling.called(self.began.elapsed(), call);
                }
            }
            _ => {}
        }
        self.sink.record(&module, record);
    }

    fn ready(&mut self, process: usize) {
        self.step(Input::Ready(process));
        if !matches!(self.phase, Phase::Running | Phase::Settling) {
            return;
        }
        let settling = matches!(self.phase, Phase::Settling);
        // The other modules run already, so this one starts at once.
        self.send_mode(process);
        self.send_parameters(process);
        let p = &mut self.processes[process];
        let Some(child) = p.child.as_mut() else { return };
        child.go();
        if settling {
            child.drain();
        }
        // A module that has never run before has nothing to recover from.
        let Some(after) = p.ended_at.take().map(|at| at.elapsed()) else { return };
        let event = Event::Recovered {
            module: child.module.clone(),
            pid: child.pid(),
            after_ms: after.as_millis() as u64,
        };
        self.sink.event(&event);
        self.matches_again(process);
    }

    fn stop(&mut self) {
        self.look_for_late_matches(Instant::now());
        self.look_at_children();
        self.suspended = self
            .processes
            .iter_mut()
            .filter_map(Process::alive)
            .filter(|c| c.suspended)
            .map(|c| c.module.clone())
            .collect();
        self.sink.event(&Event::Stopping);
        self.service_manager.stopping();
        self.phase = Phase::Stopping { at: self.processes.len(), until: Instant::now() };
        let _ = self.switch(super::modes::Input::Stop);
        self.step(Input::Stop);
    }

    fn kill(&mut self, process: usize, why: &str) {
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let Some(c) = self.processes[process].alive().filter(|c| !c.killed) else { return };
        (c.end_requested, c.killed) = (true, true);
        c.signal(Signal::KILL);
        let doing = c.busy_call().map_or_else(String::new, |call| format!(" ({call})"));
        let module = c.module.clone();
        self.sink.event(&Event::Killed { module: module.clone(), why: format!("{why}{doing}") });
        if stopping {
            self.killed.push(module);
        }
    }

    fn when(&self) -> When {
        match self.phase {
            Phase::Starting | Phase::Matching { .. } => When::Starting,
            Phase::Running | Phase::Settling => When::Running,
            Phase::Stopping { .. } => When::Stopping,
        }
    }

    /// Reports modules that were suspended or continued, and modules that are not ready for long
    /// and do not report what they do. Also sends lines for which a socket had no space.
    fn look_at_children(&mut self) {
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        for c in self.processes.iter_mut().filter_map(Process::alive) {
            let (module, pid) = (c.module.clone(), c.pid());
            c.send_more();
            match c.look_for_stops() {
                Some(true) => self.sink.event(&Event::Suspended { module: module.clone(), pid }),
                Some(false) => self.sink.event(&Event::Continued { module: module.clone() }),
                None => {}
            }
            let age = c.since.elapsed();
            if !stopping
                && !c.ready
                && !c.suspended
                && age >= WAITING
                && c.busy_call().is_none()
                && c.is_due(age)
            {
                self.sink.event(&Event::Waiting { module, pid, for_s: age.as_secs() });
            }
        }
    }

    /// Takes the steps that are due by time or by the state of the processes.
    fn advance(&mut self) {
        let now = Instant::now();
        self.service_manager.alive(now);
        if now >= self.tick_at {
            self.look_at_children();
            self.look_at_modules(now);
            if now >= self.match_at {
                self.look_for_late_matches(now);
            }
            self.sink.tick();
            self.publish_health(now);
            self.tick_at = now + self.options.tick;
        }
        self.step(Input::Time);
        let _ = self.switch(super::modes::Input::Time);
        match self.phase {
            Phase::Starting if self.supervisor.settled() => {
                self.phase =
                    Phase::Matching { next: now, until: now + self.options.matched_within };
                self.look_for_matches(now);
            }
            Phase::Matching { next, .. } if now >= next => self.look_for_matches(now),
            Phase::Settling => self.settle(now),
            Phase::Stopping { .. } => self.advance_stop(now),
            _ => {}
        }
    }

    fn look_for_matches(&mut self, now: Instant) {
        let Phase::Matching { until, .. } = self.phase else { return };
        let ready = |i: usize| matches!(self.supervisor.state(i), State::Ready { .. });
        let here = |module: &str| {
            self.processes.iter().enumerate().any(|(i, p)| p.program.name() == module && ready(i))
        };
        let missing = matching::unmatched(self.graph, here, &self.options.domain_dir);
        if !missing.is_empty() && now < until {
            self.phase = Phase::Matching { next: now + MATCH_AGAIN, until };
            return;
        }
        for edge in &missing {
            self.sink.event(&Event::Unmatched { edge: edge.to_string() });
        }
        (self.unconnected, self.match_at) = (missing, now + MATCH_LATER);
        for i in 0..self.processes.len() {
            if self.processes[i].alive().is_some_and(|c| c.ready) {
                self.send_mode(i);
            }
        }
        self.processes
            .iter_mut()
            .filter_map(Process::alive)
            .filter(|c| c.ready)
            .for_each(Child::go);
        let down = self
            .processes
            .iter()
            .enumerate()
            .filter(|(i, _)| self.supervisor.state(*i) == State::Down);
        let down = down.map(|(_, p)| p.program.name().to_owned()).collect();
        self.sink.event(&Event::Running { down });
        self.service_manager.running();
        self.phase = Phase::Running;
        self.step(Input::GraphRuns);
        let _ = self.switch(super::modes::Input::GraphRuns);
    }

    /// Requests the end of the last running process, once the ones after it have ended; kills it
    /// when its time-out has passed.
    fn advance_stop(&mut self, now: Instant) {
        let Phase::Stopping { at, until } = self.phase else { return };
        if self.processes.get(at).is_some_and(Process::is_alive) {
            if now >= until {
                self.kill(at, &format!("did not stop within {:?}", self.options.grace));
                // Only the kernel can delay the end of a killed process.
                self.phase = Phase::Stopping { at, until: now + self.options.grace };
            }
            return;
        }
        let Some(next) = (0..at).rev().find(|i| self.processes[*i].is_alive()) else { return };
        self.terminate(next);
        self.phase = Phase::Stopping { at: next, until: now + self.options.grace };
    }
}
