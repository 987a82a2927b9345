// SPDX-License-Identifier: Apache-2.0
//! The launcher's loop.

use super::child::{Child, Source, Start};
use super::death::{Death, When, help, how_it_ended};
use super::gateway::is_gateway;
use super::matching::{self, Unconnected};
use super::options::LaunchOptions;
use super::restarts::Restarts;
use super::{End, Event, Interrupt, Outcome, Sink};
use crate::account::{InputAccount, Record};
use crate::graph::{ResolvedComponent, ResolvedGraph, ResolvedModule, ResolvedTrigger};
use crate::host;
use driveline_types::TopicId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How much later than the launcher a module's process gives itself up.
const STOP_BEHIND: Duration = Duration::from_secs(1);
/// A module that is not ready after this is told of.
const WAITING: Duration = Duration::from_secs(3);
/// Time between two looks at whether the modules have found each other.
const MATCH_AGAIN: Duration = Duration::from_millis(10);
/// The same while the graph runs without some of the connections.
const MATCH_LATER: Duration = Duration::from_secs(1);

/// A run could not be started or watched. Processes that were started have been ended.
#[derive(Debug, Error)]
pub enum LaunchError {
    /// A process could not be started.
    #[error("cannot start module '{module}' with {}: {source}", host.display())]
    Spawn {
        /// Module.
        module: String,
        /// The program.
        host: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The launcher cannot wait for its processes.
    #[error("cannot watch the modules: {0}")]
    Watch(#[from] io::Error),
    /// There is nothing to start.
    #[error("the graph has no modules to run, and nothing that a gateway carries: `driveline validate` says more")]
    Nothing,
}

/// Starts the modules, watches them and returns when all have ended. Blocks.
///
/// # Errors
/// [`LaunchError`]; a module that fails is not one but an [`Outcome`].
pub fn run(graph: &ResolvedGraph, options: &LaunchOptions, interrupt: &Interrupt, sink: &mut dyn Sink) -> Result<Outcome, LaunchError> {
    let wanted = |name: &str| options.modules.as_ref().is_none_or(|m| m.iter().any(|w| w == name));
    let mut children = Vec::new();
    for gateway in &options.gateways {
        match Child::start_gateway(gateway) {
            Ok(child) => {
                sink.event(&Event::Spawned { module: child.module.clone(), pid: child.pid() });
                children.push(child);
            }
            Err(source) => return Err(LaunchError::Spawn { module: gateway.name.into(), host: gateway.program.clone(), source }),
        }
    }
    let gateways = children.len();
    for module in graph.modules.iter().filter(|m| wanted(m.name.as_str())) {
        let start = Start {
            host: &options.host,
            host_arguments: &options.host_arguments,
            graph: &graph.file,
            module: module.name.as_str(),
            set: &options.set,
            domain_dir: &options.domain_dir,
            environment: &module.environment,
            // The launcher's own patience ends first, so that it can say so.
            stop_within: options.grace + STOP_BEHIND,
        };
        match Child::start(&start) {
            Ok(child) => {
                sink.event(&Event::Spawned { module: child.module.clone(), pid: child.pid() });
                children.push(child);
            }
            // The children that exist are ended as they are dropped.
            Err(source) => return Err(LaunchError::Spawn { module: module.name.to_string(), host: options.host.clone(), source }),
        }
    }
    if children.is_empty() {
        return Err(LaunchError::Nothing);
    }
    let phase = Phase::Starting { until: Instant::now() + options.ready_within };
    let launcher = Launcher {
        graph,
        options,
        interrupt,
        sink,
        children,
        phase,
        end: None,
        interrupted_at: None,
        killed: Vec::new(),
        unconnected: Vec::new(),
        match_at: Instant::now(),
        stopped: Vec::new(),
        finished: Vec::new(),
        slowest: Duration::ZERO,
        slowest_timer: slowest_timer(graph, wanted),
        restarts: Restarts::new(gateways),
        began: Instant::now(),
        tick_at: Instant::now(),
    };
    launcher.run()
}

/// Other modules that publish what a module reads, in the order of the graph.
fn feeders<'a>(graph: &'a ResolvedGraph, module: &str) -> Vec<&'a str> {
    let read: Vec<_> = graph.module(module).into_iter().flat_map(|m| &m.components).flat_map(|c| &c.inputs).map(|i| &i.topic).collect();
    let feeds = |m: &ResolvedModule| m.components.iter().flat_map(|c| &c.outputs).any(|o| read.contains(&&o.topic));
    graph.modules.iter().filter(|m| m.name.as_str() != module && feeds(m)).map(|m| m.name.as_str()).collect()
}

/// The longest period with which a component of these modules reads its inputs.
fn slowest_timer(graph: &ResolvedGraph, wanted: impl Fn(&str) -> bool) -> Duration {
    let period = |c: &ResolvedComponent| match c.trigger {
        ResolvedTrigger::Timer { period, .. } if !c.inputs.is_empty() => Some(period),
        _ => None,
    };
    graph.components().filter(|(m, _)| wanted(m.name.as_str())).filter_map(|(_, c)| period(c)).max().unwrap_or_default()
}

/// Where a run stands.
#[derive(Clone, Copy, Debug)]
enum Phase {
    Starting {
        until: Instant,
    },
    /// All are ready; `next` is when to look again whether they have found each other.
    Matching {
        next: Instant,
        until: Instant,
    },
    Running,
    /// A component has finished. `active` is when something that descends from it was last triggered.
    Settling {
        active: Instant,
        until: Instant,
    },
    /// Child `at` was told to end; the ones after it have ended.
    Stopping {
        at: usize,
        until: Instant,
    },
}

struct Launcher<'a> {
    graph: &'a ResolvedGraph,
    options: &'a LaunchOptions,
    interrupt: &'a Interrupt,
    sink: &'a mut dyn Sink,
    children: Vec<Child>,
    phase: Phase,
    end: Option<End>,
    /// When somebody wanted the end last.
    interrupted_at: Option<Instant>,
    killed: Vec<String>,
    /// Connections that have not existed so far, and when to look again.
    unconnected: Vec<Unconnected>,
    match_at: Instant,
    /// Modules that were stopped when the run was to end.
    stopped: Vec<String>,
    /// What finished components publish.
    finished: Vec<TopicId>,
    /// The longest call of a callback so far.
    slowest: Duration,
    /// The longest period of timers that read inputs.
    slowest_timer: Duration,
    /// Of gateways, which are the first children.
    restarts: Restarts,
    began: Instant,
    tick_at: Instant,
}

impl Launcher<'_> {
    fn run(mut self) -> Result<Outcome, LaunchError> {
        let mut records = Vec::new();
        while self.children.iter().any(|c| c.ended.is_none()) || self.restarts_again() {
            let ready = self.wait()?;
            if self.interrupt.take() > 0 {
                self.interrupted();
            }
            if self.interrupt.take_hang_up() {
                self.hung_up();
            }
            if self.interrupt.take_suspend() {
                self.sink.event(&Event::NotSuspended);
            }
            for (child, source) in ready {
                if source == Source::Death {
                    self.death(child, &mut records)?;
                } else {
                    self.children[child].read(source, self.sink, &mut records);
                }
                for record in records.drain(..) {
                    self.record(child, record);
                }
            }
            self.advance();
        }
        let unreadable = self.children.iter().map(Child::unreadable).sum();
        let end = self.end.unwrap_or(End::Interrupted);
        let Self { killed, unconnected, stopped, .. } = self;
        Ok(Outcome { end, killed, unreadable, unconnected, stopped })
    }

    /// How long nothing must happen until a run is over whose source has finished: a timer may still have to read it.
    fn quiet(&self) -> Duration {
        self.options.quiet + self.slowest + self.slowest_timer
    }

    /// Sleeps until something happens and says what.
    fn wait(&mut self) -> io::Result<Vec<(usize, Source)>> {
        let next = match self.phase {
            Phase::Running => self.tick_at,
            Phase::Starting { until } | Phase::Stopping { until, .. } => until.min(self.tick_at),
            Phase::Matching { next, .. } => next.min(self.tick_at),
            Phase::Settling { active, until } => until.min(active + self.quiet()).min(self.tick_at),
        };
        let left = next.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let mut what = Vec::new();
        let mut fds: Vec<PollFd<'_>> = self.interrupt.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        let of_children = fds.len()..;
        for (i, child) in self.children.iter().enumerate() {
            for (source, fd, flags) in child.sources() {
                what.push((i, source));
                fds.push(PollFd::from_borrowed_fd(fd, flags));
            }
        }
        match poll(&mut fds, Some(&left)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
            Err(e) => return Err(e.into()),
        }
        Ok(what.into_iter().zip(&fds[of_children]).filter(|(_, fd)| !fd.revents().is_empty()).map(|(w, _)| w).collect())
    }

    fn record(&mut self, child: usize, mut record: Record) {
        if let Record::Busy { for_ms, .. } = &mut record {
            // A module can say anything, and nothing has lasted longer than the run.
            *for_ms = (*for_ms).min(u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX));
        }
        let module = self.children[child].module.clone();
        match &record {
            Record::Ready => self.children[child].ready = true,
            Record::Asked => self.children[child].words.asked = true,
            Record::Failed { call, text } => self.children[child].words.failed = Some((call.clone(), text.clone())),
            Record::Crash { signal, call } => self.children[child].words.crash = Some((*signal, call.clone())),
            Record::Busy { call, for_ms } if self.children[child].busy(call, *for_ms) => {
                let (call, when) = (call.clone(), self.when());
                self.sink.event(&Event::Busy { module: module.clone(), call, for_s: for_ms / 1000, when });
            }
            Record::Finished { component } => {
                self.sink.event(&Event::Finished { module: module.clone(), component: component.clone() });
                let outputs = self.graph.components().filter(|(_, c)| c.name.as_str() == component).flat_map(|(_, c)| &c.outputs);
                self.finished.extend(outputs.map(|o| o.topic.id()));
                if matches!(self.phase, Phase::Starting { .. } | Phase::Matching { .. } | Phase::Running) {
                    self.end = Some(End::Finished { component: component.clone() });
                    if matches!(self.phase, Phase::Running) {
                        self.children.iter_mut().filter(|c| !is_gateway(&c.module)).for_each(Child::drain);
                    }
                    let now = Instant::now();
                    self.phase = Phase::Settling { active: now, until: now + self.options.settle + self.slowest };
                }
            }
            Record::Matched { component, port, peer } => self.matched(component, port, peer),
            Record::Callback(call) => {
                self.slowest = self.slowest.max(Duration::from_nanos(call.end_ns.saturating_sub(call.start_ns)));
                // What a timer reads again is nothing new.
                let from_finished =
                    |i: &InputAccount| (i.triggered || i.fresh) && i.origins.iter().any(|o| self.finished.contains(&o.topic));
                if let Phase::Settling { active, .. } = &mut self.phase
                    && call.inputs.iter().any(from_finished)
                {
                    *active = Instant::now();
                }
            }
            _ => {}
        }
        self.sink.record(&module, record);
    }

    fn death(&mut self, child: usize, records: &mut Vec<Record>) -> io::Result<()> {
        let Some(status) = self.children[child].reap(self.sink, records)? else { return Ok(()) };
        let when = self.when();
        // Its last words may have been waiting in the socket.
        for record in records.drain(..) {
            self.record(child, record);
        }
        let c = &self.children[child];
        // Its own patience with a component has ended just before the launcher's.
        let gave_up = c.told && status.code() == Some(i32::from(host::exit::STUCK));
        if gave_up && !self.killed.contains(&c.module) {
            self.killed.push(c.module.clone());
        }
        let killed = self.killed.contains(&c.module) && (gave_up || status.signal() == Some(Signal::KILL.as_raw()));
        // Told to end, a module still fails if it ends in any other way than it should. The signal itself ends it only
        // before it has come so far as to listen for it. Who ends all processes of a run at once, as systemd does, has told it as well.
        let with_the_run = matches!((self.phase, &self.end), (Phase::Stopping { .. }, Some(End::Interrupted)));
        let expected = killed || (c.told || with_the_run) && (status.success() || status.signal() == Some(Signal::TERM.as_raw()));
        let set: String = self.options.set.iter().map(|s| format!(" --set '{}'", s.replace('\'', "'\\''"))).collect();
        let (host, file) = (self.options.host.display(), self.graph.file.display());
        let feeders: String = feeders(self.graph, &c.module).into_iter().map(|module| format!(" --module {module}")).collect();
        let mut gdb = format!("gdb --args {host} run --graph {file} --module {}{set}", c.module);
        if !feeders.is_empty() {
            gdb += &format!("; what it reads comes from `driveline run {file}{feeders}{set}`, in another shell");
        }
        let how = if killed {
            "was killed because it did not stop".to_owned()
        } else if c.told && status.signal() == Some(Signal::TERM.as_raw()) {
            "was told to end while it was still starting".to_owned()
        } else {
            how_it_ended(status)
        };
        let death = Death {
            module: c.module.clone(),
            pid: c.pid(),
            how,
            exit_code: status.code(),
            signal: status.signal(),
            when,
            cause: if killed { None } else { c.words.cause(status, c.told, is_gateway(&c.module)) },
            help: help(status, c.pid(), &gdb),
        };
        self.sink.event(&Event::Ended { death: death.clone(), expected });
        // Without the network the vehicle goes on.
        let goes_on = matches!(self.phase, Phase::Running | Phase::Settling { .. });
        let pause = if !expected && goes_on { self.restarts.ended(child, Instant::now()) } else { None };
        if let Some(pause) = pause {
            self.sink.event(&Event::Restarts { module: death.module, after_s: pause.as_secs() });
        } else if !expected {
            // The first cause counts, but a crash at the end matters more than that the end was asked for.
            if !matches!(self.end, Some(End::Died(_) | End::NotReady { .. })) {
                self.end = Some(End::Died(death));
            }
            if !matches!(self.phase, Phase::Stopping { .. }) {
                self.stop();
            }
        }
        Ok(())
    }

    fn interrupted(&mut self) {
        if self.interrupted_at.is_some_and(|at| at.elapsed() < host::ONE_INTERRUPT) {
            return;
        }
        self.interrupted_at = Some(Instant::now());
        if let Phase::Stopping { .. } = self.phase {
            // Asked again: no more patience.
            for i in 0..self.children.len() {
                self.kill(i, "was interrupted again");
            }
        } else {
            self.end.get_or_insert(End::Interrupted);
            self.stop();
        }
    }

    fn hung_up(&mut self) {
        if !matches!(self.phase, Phase::Stopping { .. }) {
            self.end.get_or_insert(End::Interrupted);
            self.stop();
        }
    }

    /// Looks whether connections exist by now.
    fn look_for_late_matches(&mut self, now: Instant) {
        let found = if self.unconnected.is_empty() { Vec::new() } else { matching::found(&mut self.unconnected, &self.options.domain_dir) };
        self.report_matches(found);
        self.match_at = now + MATCH_LATER;
    }

    /// An end reports a match, also in a directory that is not the launcher's.
    fn matched(&mut self, component: &str, port: &str, peer: &str) {
        let found = matching::reported(&mut self.unconnected, self.graph, component, port, peer);
        self.report_matches(found);
    }

    fn report_matches(&mut self, found: Vec<Unconnected>) {
        for Unconnected { topic, publisher, subscription, .. } in found {
            self.sink.event(&Event::Matched { topic, publisher, subscription });
        }
    }

    fn stop(&mut self) {
        self.look_for_late_matches(Instant::now());
        self.look_at_children();
        self.stopped = self.children.iter().filter(|c| c.ended.is_none() && c.stopped).map(|c| c.module.clone()).collect();
        self.sink.event(&Event::Stopping);
        self.phase = Phase::Stopping { at: self.children.len(), until: Instant::now() };
    }

    fn kill(&mut self, child: usize, why: &str) {
        let c = &mut self.children[child];
        if c.ended.is_none() && !self.killed.contains(&c.module) {
            c.told = true;
            c.signal(Signal::KILL);
            let doing = c.busy_call().map_or_else(String::new, |call| format!(" ({call})"));
            let module = c.module.clone();
            self.sink.event(&Event::Killed { module: module.clone(), why: format!("{why}{doing}") });
            self.killed.push(module);
        }
    }

    fn when(&self) -> When {
        match self.phase {
            Phase::Starting { .. } | Phase::Matching { .. } => When::Starting,
            Phase::Running | Phase::Settling { .. } => When::Running,
            Phase::Stopping { .. } => When::Stopping,
        }
    }

    /// Whether a gateway is to be started again: without modules there may be no process until then.
    fn restarts_again(&self) -> bool {
        let goes_on = matches!(self.phase, Phase::Running | Phase::Settling { .. });
        goes_on && self.restarts.pending()
    }

    /// Starts gateways that have ended again, if it is time.
    fn restart(&mut self, now: Instant) {
        for i in self.restarts.due(now) {
            match Child::start_gateway(&self.options.gateways[i]) {
                Ok(child) => {
                    self.sink.event(&Event::Spawned { module: child.module.clone(), pid: child.pid() });
                    self.children[i] = child;
                    self.restarts.started(i);
                }
                Err(_) => self.restarts.failed(i, now),
            }
        }
    }

    /// Tells of modules that do nothing although they should.
    fn look_at_children(&mut self) {
        let starting = matches!(self.phase, Phase::Starting { .. });
        for c in self.children.iter_mut().filter(|c| c.ended.is_none()) {
            let module = || c.module.clone();
            let (module, pid) = (module(), c.pid());
            match c.look_for_stops() {
                Some(true) => self.sink.event(&Event::Stopped { module: module.clone(), pid }),
                Some(false) => self.sink.event(&Event::Continued { module: module.clone() }),
                None => {}
            }
            let age = self.began.elapsed();
            if starting && !c.ready && !c.stopped && age >= WAITING && c.busy_call().is_none() && c.is_due(age) {
                self.sink.event(&Event::Waiting { module, pid, for_s: age.as_secs() });
            }
        }
    }

    /// Does what time or the state of the children calls for.
    fn advance(&mut self) {
        let now = Instant::now();
        if now >= self.tick_at {
            self.look_at_children();
            if now >= self.match_at {
                self.look_for_late_matches(now);
            }
            self.sink.tick();
            self.tick_at = now + self.options.tick;
        }
        let running = matches!(self.phase, Phase::Running | Phase::Settling { .. });
        if running {
            self.restart(now);
        }
        match self.phase {
            Phase::Starting { .. } if self.children.iter().all(|c| c.ready) => {
                self.phase = Phase::Matching { next: now, until: now + self.options.matched_within };
                self.look_for_matches(now);
            }
            Phase::Matching { next, .. } if now >= next => self.look_for_matches(now),
            Phase::Starting { until } if now >= until => {
                let doing = |c: &Child| match c.busy_call() {
                    Some(call) => format!("{} ({call})", c.module),
                    None => c.module.clone(),
                };
                let modules = self.children.iter().filter(|c| !c.ready).map(doing).collect();
                self.end = Some(End::NotReady { modules });
                self.stop();
                self.advance_stop(now);
            }
            Phase::Settling { active, until } if now >= until || now >= active + self.quiet() => {
                self.stop();
                self.advance_stop(now);
            }
            Phase::Stopping { .. } => self.advance_stop(now),
            _ => {}
        }
    }

    fn look_for_matches(&mut self, now: Instant) {
        let Phase::Matching { until, .. } = self.phase else { return };
        let here = |module: &str| self.children.iter().any(|c| c.module == module);
        let missing = matching::unmatched(self.graph, here, &self.options.domain_dir);
        if !missing.is_empty() && now < until {
            self.phase = Phase::Matching { next: now + MATCH_AGAIN, until };
            return;
        }
        for edge in &missing {
            self.sink.event(&Event::Unmatched { edge: edge.to_string() });
        }
        (self.unconnected, self.match_at) = (missing, now + MATCH_LATER);
        self.children.iter_mut().for_each(Child::go);
        self.sink.event(&Event::Running);
        self.phase = Phase::Running;
    }

    /// Tells the last child that still runs to end, once those after it have; kills it when its time is up.
    fn advance_stop(&mut self, now: Instant) {
        let Phase::Stopping { at, until } = self.phase else { return };
        let current = self.children.get(at).filter(|c| c.ended.is_none());
        if current.is_some() {
            if now >= until {
                self.kill(at, &format!("did not stop within {:?}", self.options.grace));
                // A killed process can take its time only in the kernel.
                self.phase = Phase::Stopping { at, until: now + self.options.grace };
            }
            return;
        }
        let Some(next) = (0..at).rev().find(|i| self.children[*i].ended.is_none()) else { return };
        self.children[next].told = true;
        self.children[next].signal(Signal::TERM);
        if self.children[next].stopped {
            self.children[next].signal(Signal::CONT);
        }
        self.phase = Phase::Stopping { at: next, until: now + self.options.grace };
    }
}
