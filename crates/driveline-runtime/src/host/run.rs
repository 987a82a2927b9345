// SPDX-License-Identifier: Apache-2.0
//! The life of a module's process: load, bring up, wait for the command to start, run, stop.

use super::crash;
use super::injected_faults;
use super::instance::{Bringup, Instance, place};
use super::launcher_socket;
use super::output;
use super::pulse::{AccountSocket, Pulse};
use super::real_time::RealTime;
use super::watch::{Subject, Watch};
use super::without_launcher;
use super::words::{ModeWord, Word, Words, drop_replaced};
use crate::account::{
    Call, CallPlace, ComponentWork, FORMAT, Record, WRITE_WITHIN, Writer, build_id, graph_digest,
};
use crate::activity::Seen;
use crate::component::{ComponentLibrary, ComponentLoader, LoadError, StopControl};
use crate::domain;
use crate::heartbeats::{Heartbeats, Layout};
use crate::launch::control::{is_closed, remove_of_dead_launcher};
use crate::time_namespace;
use driveline::{Context, ContextOptions, Executor, ExecutorOptions};
use driveline_graph::{
    DescribeError, Diagnostics, LoadOptions, Registered, ResolvedExecutor, ResolvedGraph,
    ResolvedModule, load,
};
use driveline_shm::WaitBackend;
use driveline_types::MonotonicNs;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::RecvFlags;
use std::collections::HashMap;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Period at which changing counters are sent, and events of outputs logged.
const COUNTERS: Duration = Duration::from_secs(1);
/// Shorter period, used only if an output has a deadline or a lease, or if the entry condition of a
/// mode names its topic. At this period, events of outputs are polled, and counters are sent of the
/// outputs whose topics such a condition names.
const EVENTS: Duration = Duration::from_millis(100);
/// Without a launcher: time from the finish of a component until the module ends, if the other
/// components have no work left.
const SETTLE: Duration = Duration::from_millis(500);
/// Maximum time for the work that is left after [`SETTLE`]. Other processes may publish for ever,
/// and the module cannot know whether their samples matter.
const SETTLE_AT_MOST: Duration = Duration::from_secs(3);

/// Parameters of `driveline-host`.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// Graph file.
    pub graph: PathBuf,
    /// Module of the graph.
    pub module: String,
    /// Assignments `component.parameter=value`.
    pub set: Vec<String>,
    /// Topics that a gateway reads because a rule in its keys of the graph selects them. A launcher
    /// that has checked the whole graph knows them. `None`: they are unknown, so if the graph has
    /// keys of gateways, a gateway may read any topic that leaves the process.
    pub carried: Option<Vec<String>>,
    /// Standard input is a socket for the account.
    pub account_stdin: bool,
    /// The launcher's socket for the account. The module waits until it exists.
    pub account_socket: Option<PathBuf>,
    /// User of modules for which the graph names none. `None`: all modules run as one user.
    pub default_user: Option<u32>,
    /// Control socket of the launcher, removed at the end if the launcher has died.
    pub control: Option<PathBuf>,
    /// Time for the module to stop. After that it ends without waiting for hanging calls.
    pub stop_within: Duration,
}

/// A module could not be run.
#[derive(Debug, Error)]
pub enum HostError {
    /// The graph has errors.
    #[error("the graph has {} error{}", .0.errors(), if .0.errors() == 1 { "" } else { "s" })]
    Graph(Diagnostics),
    /// A component could not be brought up.
    #[error("component '{component}' cannot start: {text}")]
    Component {
        /// The component.
        component: String,
        /// Reason.
        text: String,
    },
    /// The domain cannot be joined.
    #[error(transparent)]
    Open(#[from] driveline::OpenError),
    /// The domain's directory is not usable.
    #[error(transparent)]
    Domain(#[from] domain::DomainError),
    /// An executor cannot be made.
    #[error(transparent)]
    Executor(#[from] driveline::ExecutorError),
    /// The launcher has ended, or has refused the connection, before the module ended.
    #[error("the launcher at {} has closed the connection", socket.display())]
    LauncherLost {
        /// The launcher's socket.
        socket: PathBuf,
    },
    /// The system refused something.
    #[error("{what}: {source}")]
    Os {
        /// Operation that failed.
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
}

fn os<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> HostError {
    move |e| HostError::Os { what, source: e.into() }
}

type Libraries = Mutex<HashMap<PathBuf, Arc<dyn ComponentLibrary>>>;

/// Runs a module until it is asked to end, until its launcher is lost (unless `on_launcher_lost` of
/// the graph names a mode), or, without a launcher, until a component has finished. Takes over
/// SIGINT, SIGTERM and the fatal signals; with a launcher also SIGHUP, and standard input where it
/// is the account's.
///
/// # Errors
/// [`HostError`] if the graph has errors, something cannot be brought up, or the launcher at
/// [`HostOptions::account_socket`] is lost.
pub fn run(options: &HostOptions, loader: &dyn ComponentLoader) -> Result<(), HostError> {
    let signals = signals().map_err(os("cannot listen for signals"))?;
    let socket = match &options.account_socket {
        Some(path) => {
            let connected = launcher_socket::connect(path, &signals)
                .map_err(os("cannot use the launcher's socket (`--account-socket`)"))?;
            match connected {
                Some(socket) => Some(socket),
                // A signal requested the end before the launcher listened.
                None => return Ok(()),
            }
        }
        None if options.account_stdin => {
            Some(take_stdin().map_err(os("standard input is not a socket"))?)
        }
        None => None,
    };
    if socket.is_some() {
        survive_the_launcher().map_err(os("cannot listen for SIGHUP"))?;
    }
    let mut handed = None;
    let account = match &socket {
        Some(socket) => {
            let out = socket.try_clone().map_err(os("cannot use the account's socket"))?;
            // A suspended launcher must not keep this process from ending.
            out.set_write_timeout(Some(WRITE_WITHIN))
                .map_err(os("cannot set the time-out of the account's socket"))?;
            let (out, next) = AccountSocket::new(out);
            handed = Some(next);
            let writer = Writer::new(out).map_err(|e| HostError::Os {
                what: "cannot start the account",
                source: std::io::Error::other(e),
            })?;
            writer.send(Record::Hello {
                format: FORMAT,
                module: options.module.clone(),
                pid: std::process::id(),
                build: build_id().to_owned(),
                clock_offset_ns: time_namespace::clock_offset_ns(),
            });
            Some(Arc::new(writer))
        }
        None => None,
    };
    let again = |s: &UnixStream| s.try_clone().map_err(os("cannot use the account's socket"));
    crash::report_crashes(socket.as_ref().map(again).transpose()?)
        .map_err(os("cannot listen for fatal signals"))?;
    let stop = StopControl::new().map_err(os("cannot make a socket pair"))?;
    let subject = Subject {
        module: options.module.clone(),
        signals,
        socket: socket.as_ref().map(again).transpose()?,
        account: account.clone(),
        stop: stop.switch(),
        stop_within: options.stop_within,
        control: options.control.clone(),
    };
    let watch = Watch::start(subject).map_err(os("cannot start the thread that watches"))?;
    let module = Module {
        options,
        loader,
        account: &account,
        socket: socket.as_ref(),
        stop: &stop,
        watch: &watch,
        handed: handed.as_deref(),
    };
    let mut ran = module.run();
    // A living launcher closes its side of the socket only after the account has ended.
    let lost = socket.as_ref().is_some_and(is_closed) && !watch.goes_on();
    if let (Some(path), true, true) = (&options.account_socket, lost, ran.is_ok()) {
        ran = Err(HostError::LauncherLost { socket: path.clone() });
    }
    if let (Some(account), Err(e)) = (&account, &ran) {
        account.send_vital(Record::Failed { call: None, text: e.to_string() });
    }
    if let Some(account) = &account {
        account.close();
    }
    if let Some(launcher) = &socket {
        remove_of_dead_launcher(options.control.as_deref(), launcher);
    }
    watch.end_the_rest();
    ran
}

/// A module from its libraries to its end.
struct Module<'a> {
    options: &'a HostOptions,
    loader: &'a dyn ComponentLoader,
    account: &'a Option<Arc<Writer>>,
    socket: Option<&'a UnixStream>,
    stop: &'a StopControl,
    watch: &'a Watch,
    /// Place for the heartbeats' descriptor, which goes to the launcher.
    handed: Option<&'a Mutex<Option<OwnedFd>>>,
}

impl Module<'_> {
    /// Returns the heartbeats, which are words in shared memory that the launcher reads, if there
    /// is a launcher and the graph declares anything that needs them.
    fn heartbeats(&self, module: &ResolvedModule) -> Result<Option<Arc<Heartbeats>>, HostError> {
        let Some((layout, handed)) = Layout::of(module).zip(self.handed) else { return Ok(None) };
        let cannot = || os("cannot make the words of its heartbeats");
        let beats = Heartbeats::new(layout).map_err(cannot())?;
        let fd = beats.fd().try_clone_to_owned().map_err(cannot())?;
        *handed.lock().unwrap_or_else(PoisonError::into_inner) = Some(fd);
        Ok(Some(Arc::new(beats)))
    }

    fn run(&self) -> Result<(), HostError> {
        let libraries = Libraries::default();
        let entered = |call| {
            if let Some(account) = self.account {
                account.send(Record::Entered { call });
            }
        };
        let graph = resolve(self.options, self.loader, &libraries, &entered)?;
        if let Some(account) = self.account
            && let Some(digest) = graph_digest(&graph.files, &self.options.set)
        {
            account.send(Record::Graph { digest });
        }
        let Some(module) = graph.module(&self.options.module) else { return Ok(()) };
        injected_faults::enable(module.name.as_str());
        // The kernel keeps 15 bytes.
        let _ = rustix::thread::set_name(
            &std::ffi::CString::new(module.name.as_str()).unwrap_or_default(),
        );
        // Before memory for topics is reserved, and before further threads exist.
        let real_time = RealTime::apply(&graph, module);
        let context = Context::new(ContextOptions {
            name: process_name(&graph, module),
            domain_dir: Some(domain::prepare_for(&graph.domain, graph.domain_group)?),
        })?;
        context.set_description(description(&graph, module));
        self.watch.names(context.names());
        let beats = self.heartbeats(module)?;
        let mut executors = Vec::new();
        for spec in &module.executors {
            let executor = Arc::new(executor(spec)?);
            if let Some(account) = self.account {
                executor.set_observer(account.clone());
            }
            executors.push((spec.name.as_str(), executor));
        }
        let mut instances: Vec<Instance> = Vec::new();
        let brought_up = module.components.iter().enumerate().try_for_each(|(place, spec)| {
            if self.stop.is_stopping() {
                return Ok(());
            }
            let library = library_of(&libraries, &spec.library);
            let executor =
                executors.iter().find(|(name, _)| *name == spec.executor).map(|(_, e)| e.clone());
            let (Some(library), Some(executor)) = (library, executor) else {
                return Err(HostError::Component {
                    component: spec.name.to_string(),
                    text: "its library or executor is gone".into(),
                });
            };
            let stop = self.stop.handle(spec.name.as_str());
            let with = Bringup {
                graph: &graph,
                context: &context,
                library: &*library,
                executor,
                stop,
                account: self.account.clone(),
                beats: beats.clone().map(|beats| (beats, place)),
                failures: None,
            };
            instances.push(Instance::bring_up(spec, with)?);
            Ok(())
        });
        if let Some(beats) = beats.filter(|_| brought_up.is_ok()) {
            let words = instances.iter().zip(&module.components).map(|(i, c)| i.pulse(&c.inputs));
            self.watch.pulse(Pulse::new(beats, words.collect()));
        }
        let mut drained = false;
        let ran = brought_up.and_then(|()| {
            let mut host = Running {
                loader: self.loader,
                stop: self.stop,
                word: &self.watch.word,
                socket: self.socket,
                account: self.account.as_deref(),
                instances: &mut instances,
                draining: false,
                words: Words::default(),
                initial: initial_word(&graph),
                lost: without_launcher::word(&graph, module),
                watch: self.watch,
                control: self.options.control.as_deref(),
                real_time: &real_time,
            };
            let ran = host.run(module, &executors);
            drained = host.draining;
            ran
        });
        self.stop.stop();
        self.watch.ending();
        for (_, executor) in &executors {
            executor.stop();
        }
        for instance in instances.iter_mut().rev() {
            instance.log_events(self.account.as_deref());
            if let Some(account) = self.account.as_deref().filter(|_| drained) {
                instance.report_stalls(account);
            }
            instance.shutdown();
            if let Some(account) = self.account {
                instance.counters().into_iter().for_each(|c| account.send(c));
            }
        }
        ran
    }
}

/// Name under which tools see the process of a module.
#[must_use]
pub fn process_name(graph: &ResolvedGraph, module: &ResolvedModule) -> String {
    format!("{}/{}", graph.name, module.name)
}

fn library_of(libraries: &Libraries, path: &Path) -> Option<Arc<dyn ComponentLibrary>> {
    libraries.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned()
}

fn resolve(
    options: &HostOptions,
    loader: &dyn ComponentLoader,
    libraries: &Libraries,
    entered: &dyn Fn(CallPlace),
) -> Result<ResolvedGraph, HostError> {
    let describe = |path: &Path| {
        entered(place(&path.display().to_string(), Call::Load));
        let seen =
            Seen::new(&path.display().to_string(), &[]).enter(Call::Load, MonotonicNs::now(), None);
        let library = loader
            .load(path)
            .map_err(|LoadError { text }| DescribeError { reason: text, help: None })?;
        let classes = library.classes();
        drop(seen);
        libraries
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(path.to_owned(), Arc::from(library));
        Ok(classes)
    };
    let load_options = LoadOptions {
        set: options.set.clone(),
        modules: Some(vec![options.module.clone()]),
        registered: Registered::Elsewhere { carried: options.carried.clone() },
        ..LoadOptions::new(&describe)
    };
    let loaded = load(&options.graph, &load_options);
    let mut graph = loaded.graph.ok_or(HostError::Graph(loaded.diagnostics))?;
    if let Some(user) = options.default_user {
        graph.admit_users(user);
    }
    Ok(graph)
}

fn executor(spec: &ResolvedExecutor) -> Result<Executor, HostError> {
    Ok(Executor::new(ExecutorOptions {
        name: spec.name.clone(),
        threads: spec.threads as usize,
        schedule: spec.schedule.clone(),
        spin: Duration::from_micros(u64::from(spec.spin_us)),
    })?)
}

/// Returns the description of the process that tools show.
fn description(graph: &ResolvedGraph, module: &ResolvedModule) -> String {
    let components: Vec<_> = module
        .components
        .iter()
        .map(|c| {
            serde_json::json!(
                { "name": c.name, "class": c.class, "library": c.library, "executor": c.executor }
            )
        })
        .collect();
    serde_json::json!({ "graph": graph.name, "module": module.name, "components": components })
        .to_string()
}

/// Replaces the default action of SIGHUP, which the kernel sends to a suspended module whose
/// launcher ends: the module handles the end of the launcher itself. Not ignored, because programs
/// that a component starts would ignore it, too.
fn survive_the_launcher() -> std::io::Result<()> {
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::default())?;
    Ok(())
}

pub(super) fn signals() -> std::io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    reader.set_nonblocking(true)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::low_level::pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Takes the socket at standard input, which becomes `/dev/null`, so that no component reads from
/// it.
fn take_stdin() -> std::io::Result<UnixStream> {
    let owned = rustix::stdio::stdin().try_clone_to_owned()?;
    let is_socket = rustix::fs::FileType::from_raw_mode(rustix::fs::fstat(&owned)?.st_mode)
        == rustix::fs::FileType::Socket;
    if !is_socket {
        return Err(std::io::Error::other("`--account-stdin` is only for launchers"));
    }
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(UnixStream::from(owned))
}

/// Maximum number of further reads for the words of one wake-up.
const READS: usize = 64;
/// Time between two checks of the remaining work.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Remaining work after a component has finished, in a module without a launcher.
#[derive(Default)]
struct WorkLeft {
    /// Number of calls that had ended at the last check.
    calls: Option<u64>,
    /// Time of the first check.
    since: Option<Instant>,
}

impl WorkLeft {
    fn is_over(&mut self, now: Instant, instances: &[Instance]) -> bool {
        let work: Vec<_> = instances.iter().map(Instance::work).collect();
        let calls = work.iter().fold(0u64, |sum, w| sum.wrapping_add(w.calls));
        let same = self.calls.replace(calls) == Some(calls);
        let since = *self.since.get_or_insert(now);
        let soon = |ms: u64| Duration::from_millis(ms) <= SETTLE;
        let busy =
            |w: &ComponentWork| w.running > 0 || w.tick_ms.map_or(!w.unread.is_empty(), soon);
        same && !work.iter().any(busy) || now >= since + SETTLE_AT_MOST
    }
}

struct Running<'a> {
    loader: &'a dyn ComponentLoader,
    stop: &'a StopControl,
    word: &'a UnixStream,
    socket: Option<&'a UnixStream>,
    account: Option<&'a Writer>,
    instances: &'a mut [Instance],
    /// True if a component of the run has finished.
    draining: bool,
    words: Words,
    /// The initial mode, for a module without a launcher.
    initial: Option<ModeWord>,
    /// The mode that the module enters by itself if its launcher is lost.
    lost: Option<ModeWord>,
    watch: &'a Watch,
    /// The launcher's control socket.
    control: Option<&'a Path>,
    real_time: &'a RealTime,
}

/// The initial mode as a launcher would send it, with all components that are active in it.
fn initial_word(graph: &ResolvedGraph) -> Option<ModeWord> {
    let modes = graph.modes.as_ref()?;
    let mode = modes.modes.get(modes.initial)?;
    Some(ModeWord {
        switch: 0,
        mode: mode.name.clone(),
        activate: mode.active.clone(),
        deactivate: Vec::new(),
        parameters: mode.parameters.clone(),
    })
}

/// Reason for a wake-up of the process.
enum Woken {
    Stop,
    /// Lines from the launcher.
    Words(Vec<Word>),
    /// The launcher is gone.
    Lost,
    Finished(Vec<Arc<str>>),
    Time,
}

impl Running<'_> {
    fn send(&self, record: Record) {
        if let Some(account) = self.account {
            account.send(record);
        }
    }

    fn send_vital(&self, record: Record) {
        if let Some(account) = self.account {
            account.send_vital(record);
        }
    }

    fn run(
        &mut self,
        module: &ResolvedModule,
        executors: &[(&str, Arc<Executor>)],
    ) -> Result<(), HostError> {
        let mut drain_at_once = false;
        if self.socket.is_some() {
            self.send_vital(Record::Ready);
            let mut go = false;
            while !go {
                match self.wait(None)? {
                    Woken::Stop | Woken::Lost => return Ok(()),
                    Woken::Words(words) => {
                        for word in words {
                            match word {
                                Word::Go => go = true,
                                // `go` and `drain` may arrive in one read.
                                Word::Drain => drain_at_once = true,
                                Word::Work(round) => self.report_work(round),
                                Word::Mode(mode) => self.mode(&mode),
                                other => self.obey(&other),
                            }
                        }
                    }
                    Woken::Finished(components) => self.finished(components),
                    Woken::Time => {}
                }
            }
        } else if let Some(initial) = self.initial.take() {
            self.mode(&initial);
        }
        self.instances.iter().try_for_each(Instance::activate)?;
        if self.lost.is_some() {
            self.watch.go_on_without_launcher();
        }
        self.start(module, executors)?;
        let watched = self.instances.iter().any(|i| i.promises() || i.is_watched());
        if drain_at_once {
            self.drain();
        }
        let (mut counters_at, mut events_at) = (Instant::now() + COUNTERS, Instant::now() + EVENTS);
        let mut end: Option<Instant> = None;
        let mut left = WorkLeft::default();
        loop {
            let now = Instant::now();
            if end.is_some_and(|end| end <= now) {
                if left.is_over(now, self.instances) {
                    return Ok(());
                }
                end = Some(now + LOOK_AGAIN);
            }
            let next = [end, watched.then_some(events_at)]
                .into_iter()
                .flatten()
                .fold(counters_at, Instant::min);
            match self.wait(Some(next.saturating_duration_since(now)))? {
                Woken::Stop => {
                    // If the launcher sends the line `drain`, it does so before it sends the
                    // signal. This process may not have read the line yet.
                    if self.has_word_to_drain() {
                        self.drain();
                    }
                    return Ok(());
                }
                Woken::Finished(components) => {
                    self.finished(components);
                    if self.socket.is_none() {
                        self.drain();
                        end.get_or_insert(Instant::now() + SETTLE);
                    }
                }
                Woken::Words(words) => words.iter().for_each(|word| self.obey(word)),
                Woken::Lost => match self.lost.take() {
                    Some(mode) => self.launcher_lost(&mode),
                    None => return Ok(()),
                },
                Woken::Time
                    if watched && Instant::now() >= events_at && Instant::now() < counters_at =>
                {
                    for i in 0..self.instances.len() {
                        self.instances[i].log_events(self.account);
                        self.instances[i].outputs(true).into_iter().for_each(|r| self.send(r));
                    }
                    events_at = Instant::now() + EVENTS;
                }
                Woken::Time if Instant::now() >= counters_at => {
                    for i in 0..self.instances.len() {
                        self.instances[i].log_events(self.account);
                        for record in self.instances[i].counters() {
                            self.send(record);
                        }
                    }
                    counters_at = Instant::now() + COUNTERS;
                }
                Woken::Time => {}
            }
        }
    }

    /// Starts the executors and reports what the kernel granted.
    fn start(
        &self,
        module: &ResolvedModule,
        executors: &[(&str, Arc<Executor>)],
    ) -> Result<(), HostError> {
        // If the log is enabled for warnings, refusals are reported there.
        let is_logged = tracing::event_enabled!(tracing::Level::WARN);
        let mut reports = Vec::new();
        for (spec, (_, executor)) in module.executors.iter().zip(executors) {
            for report in executor.start()? {
                if !report.refused.is_empty() && !is_logged {
                    output::log(format_args!("warning: {report}"));
                }
                reports.push((&spec.schedule, report));
            }
        }
        let threads = reports.iter().map(|(_, report)| report.to_string()).collect();
        let settings = self.real_time.settings(&reports);
        for refusal in RealTime::refusals(&settings) {
            if is_logged {
                tracing::warn!("{refusal}");
            } else {
                output::log(format_args!("warning: {refusal}"));
            }
        }
        let waits = Some(WaitBackend::available().into());
        self.send(Record::Started { threads, waits, settings });
        Ok(())
    }

    /// Enters a mode and continues without the launcher, which has ended: nothing can request
    /// another mode.
    fn launcher_lost(&mut self, mode: &ModeWord) {
        without_launcher::close_outputs();
        self.mode(mode);
        if let Some(launcher) = self.socket.take() {
            remove_of_dead_launcher(self.control, launcher);
        }
    }

    fn obey(&mut self, word: &Word) {
        match word {
            Word::Go => {}
            Word::Drain => self.drain(),
            Word::Work(round) => self.report_work(*round),
            Word::Mode(mode) => self.mode(mode),
            Word::Parameter(word) => {
                match self.instances.iter().find(|i| i.name() == word.component) {
                    Some(instance) => instance.change(word, self.account),
                    None => self.changed(word.change, Err("there is no such component".into())),
                }
            }
            Word::Log(word) => self.changed(word.change, self.loader.set_log_level(&word.filter)),
        }
    }

    fn report_work(&self, round: u64) {
        let components = self.instances.iter().map(Instance::work).collect();
        self.send_vital(Record::Work { round, components });
    }

    fn changed(&self, change: u64, outcome: Result<(), String>) {
        self.send_vital(Record::Changed { change, error: outcome.err() });
    }

    /// Passes the parameters and the transitions of a mode to the components. Each transition is
    /// made on the component's executor.
    fn mode(&self, word: &ModeWord) {
        for instance in self.instances.iter() {
            if let Some(values) = word.parameters.get(instance.name()) {
                instance.set_parameters(&word.mode, values);
            }
        }
        for (names, active) in [(&word.activate, true), (&word.deactivate, false)] {
            let named = |i: &&Instance| names.iter().any(|name| name == i.name());
            self.instances.iter().filter(named).for_each(|i| i.request(active, word.switch));
        }
    }

    /// Drains timers: no new data comes from finished components, and timers must not repeat the
    /// last samples.
    fn drain(&mut self) {
        if !std::mem::replace(&mut self.draining, true) {
            self.instances.iter().for_each(Instance::drain);
            self.send_vital(Record::Draining { at_ns: MonotonicNs::now().0 });
        }
    }

    fn finished(&self, components: Vec<Arc<str>>) {
        for component in components {
            self.send_vital(Record::Finished { component: component.to_string() });
        }
    }

    fn has_word_to_drain(&mut self) -> bool {
        let Some(mut socket) = self.socket else { return false };
        let mut fds = [PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN)];
        let waits = poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0);
        let mut bytes = [0u8; 4096];
        let read = if waits { socket.read(&mut bytes).unwrap_or(0) } else { 0 };
        self.words.feed(&bytes[..read]).contains(&Word::Drain)
    }

    /// Returns the words in `bytes` and in what else has arrived. A process that was suspended then
    /// obeys the newest of several requests for a component, and does not enter a mode that the run
    /// has left meanwhile.
    fn words_from(&mut self, bytes: &[u8]) -> Vec<Word> {
        let mut words = self.words.feed(bytes);
        let mut more = [0u8; 4096];
        for _ in 0..READS {
            let Some(socket) = self.socket else { break };
            match rustix::net::recv(socket, &mut more, RecvFlags::DONTWAIT) {
                Ok((_, n)) if n > 0 => words.extend(self.words.feed(&more[..n])),
                _ => break,
            }
        }
        drop_replaced(&mut words);
        words
    }

    fn wait(&mut self, timeout: Option<Duration>) -> Result<Woken, HostError> {
        let mut fds = vec![
            PollFd::new(self.word, PollFlags::IN),
            PollFd::new(&self.stop.finished, PollFlags::IN),
        ];
        if let Some(socket) = self.socket {
            fds.push(PollFd::from_borrowed_fd(socket.as_fd(), PollFlags::IN));
        }
        let timeout = timeout
            .map(|t| Timespec { tv_sec: t.as_secs() as i64, tv_nsec: i64::from(t.subsec_nanos()) });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(os("cannot wait")(e)),
        }
        let ready: Vec<bool> = fds.iter().map(|f| !f.revents().is_empty()).collect();
        let mut bytes = [0u8; 4096];
        let mut word = self.word;
        if ready[0] && word.read(&mut bytes).is_ok_and(|n| n > 0) {
            return Ok(Woken::Stop);
        }
        if ready[1] {
            return Ok(Woken::Finished(self.stop.take_finished()));
        }
        if let Some(mut socket) = self.socket.filter(|_| ready.get(2) == Some(&true)) {
            return match socket.read(&mut bytes) {
                Ok(n) if n > 0 => Ok(Woken::Words(self.words_from(&bytes[..n]))),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(Woken::Time),
                // The launcher is gone.
                _ => Ok(Woken::Lost),
            };
        }
        Ok(Woken::Time)
    }
}
