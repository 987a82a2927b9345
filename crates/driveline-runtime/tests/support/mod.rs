// SPDX-License-Identifier: Apache-2.0
//! A graph in its own directory, run by real processes, and all output and events of the run.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    unreachable_pub,
    dead_code,
    reason = "shared by tests that need different parts"
)]

pub mod tool;

use driveline_graph::{Colour, LoadOptions, ResolvedGraph, load};
use driveline_runtime::account::Record;
use driveline_runtime::launch::{
    Event, HostDescriber, Interrupt, Interrupter, LaunchOptions, Outcome, Sink, Stream, run,
};
use rustix::process::{Pid, Signal, kill_process};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// The host with components compiled in.
pub fn host() -> PathBuf {
    env!("CARGO_BIN_EXE_driveline-test-host").into()
}

/// Time-out that no passing test reaches.
pub const PATIENCE: Duration = Duration::from_secs(60);
/// Grace for runs with a module that never stops: long enough for the other modules to stop in
/// time.
pub const GRACE: Duration = Duration::from_secs(5);

/// Makes an executable script. Another process writes it: a file cannot be executed while it is
/// open for writing, in this process or in a process that another test forks meanwhile.
pub fn script(path: &Path, text: &str) {
    let write = ["-c", r#"cat > "$0" && chmod 755 "$0""#];
    let mut child = Command::new("sh").args(write).arg(path).stdin(Stdio::piped()).spawn().unwrap();
    write!(child.stdin.take().unwrap(), "#!/bin/sh\n{text}\n").unwrap();
    assert!(child.wait().unwrap().success());
}

pub struct Fixture {
    pub dir: TempDir,
    pub graph: ResolvedGraph,
    pub options: LaunchOptions,
}

impl Fixture {
    pub fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("lib"), "").unwrap();
        let describer = HostDescriber::new(host());
        let loaded = load(&path, &LoadOptions::new(&describer));
        let graph =
            loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
        let mut options = LaunchOptions::new(host(), dir.path().join("domain"));
        // These times are long: if the machine stands still for a moment, the launcher must not
        // conclude that all work is done, nor that a match is missing.
        options.quiet = Duration::from_secs(3);
        (options.settle, options.matched_within) = (PATIENCE, PATIENCE);
        Self { dir, graph, options }
    }

    pub fn run(&self, seen: &mut Seen) -> Outcome {
        let (interrupt, interrupter) = Interrupt::by_hand().unwrap();
        seen.interrupter = Some(interrupter);
        let outcome = run(&self.graph, &self.options, &interrupt, seen).unwrap();
        assert_eq!(outcome.unreadable, 0);
        for pid in &seen.pids {
            assert!(!Path::new(&format!("/proc/{pid}")).exists(), "process {pid} is left behind");
        }
        outcome
    }
}

/// Called with each event.
pub type OnEvent = Box<dyn FnMut(&Event) + Send>;

/// A sink that keeps all that it receives. At given lines or records, it interrupts the run or
/// signals a process.
#[derive(Default)]
pub struct Seen {
    pub lines: Vec<(String, Stream, String)>,
    pub records: Vec<(String, Record)>,
    pub events: Vec<Event>,
    pub pids: Vec<u32>,
    pub interrupter: Option<Interrupter>,
    pub interrupt_at: Option<&'static str>,
    /// As `interrupt_at`, for a record for which this returns true.
    pub interrupt_at_record: Option<fn(&Record) -> bool>,
    pub kill_at: Option<&'static str>,
    /// At this line, all processes are asked to end at the same time, twice, as systemd and scripts
    /// do.
    pub terminate_all_at: Option<&'static str>,
    /// As `kill_at`, with SIGTERM.
    pub terminate_at: Option<&'static str>,
    /// As `kill_at`, with SIGSEGV.
    pub crash_at: Option<&'static str>,
    /// As `kill_at`, with SIGSTOP.
    pub stop_at: Option<&'static str>,
    /// The module that `stop_at` stops. If empty: module `one`, or else the first process.
    pub stops: &'static str,
    /// Modules of `pids`.
    pub modules: Vec<String>,
    /// Called with each event.
    pub on_event: Option<OnEvent>,
}

impl Seen {
    fn line(&mut self, line: &str) {
        if self.interrupt_at.is_some_and(|at| line.contains(at)) {
            self.interrupt_at = None;
            // As `timeout` does, which interrupts the process and then its group: both count as one
            // request.
            self.interrupter.as_ref().unwrap().interrupt();
            self.interrupter.as_ref().unwrap().interrupt();
        }
        if self.terminate_all_at.is_some_and(|at| line.contains(at)) {
            self.terminate_all_at = None;
            self.interrupter.as_ref().unwrap().interrupt();
            for pid in self.pids.iter().flat_map(|pid| [pid, pid]) {
                kill_process(Pid::from_raw(pid.cast_signed()).unwrap(), Signal::TERM).unwrap();
            }
        }
        let stops = self.pid_of(self.stops);
        let Some(pid) = self.pid_of("one").or(self.pids.first().copied()) else { return };
        for (at, signal) in [
            (&mut self.kill_at, Signal::KILL),
            (&mut self.terminate_at, Signal::TERM),
            (&mut self.crash_at, Signal::SEGV),
            (&mut self.stop_at, Signal::STOP),
        ] {
            if at.is_some_and(|at| line.contains(at)) {
                *at = None;
                let stopped = stops.filter(|_| signal == Signal::STOP);
                kill_process(Pid::from_raw(stopped.unwrap_or(pid).cast_signed()).unwrap(), signal)
                    .unwrap();
            }
        }
    }

    /// The newest process of a module.
    pub fn pid_of(&self, module: &str) -> Option<u32> {
        let spawned = |e: &Event| {
            if let Event::Spawned { module: m, pid } = e {
                (m == module).then_some(*pid)
            } else {
                None
            }
        };
        self.events.iter().rev().find_map(spawned)
    }

    pub fn printed(&self, module: &str) -> Vec<&str> {
        self.lines
            .iter()
            .filter(|(m, s, _)| m == module && *s == Stream::Out)
            .map(|(_, _, l)| l.as_str())
            .collect()
    }

    pub fn said(&self, text: &str) -> bool {
        self.lines.iter().any(|(_, _, l)| l.contains(text))
    }

    pub fn ended(&self) -> Vec<&str> {
        self.events
            .iter()
            .filter_map(|e| {
                if let Event::Ended { death, .. } = e { Some(death.module.as_str()) } else { None }
            })
            .collect()
    }
}

impl Sink for Seen {
    fn output(&mut self, module: &str, stream: Stream, line: &str) {
        self.lines.push((module.to_owned(), stream, line.to_owned()));
        self.line(line);
    }

    fn record(&mut self, module: &str, record: Record) {
        if self.interrupt_at_record.is_some_and(|is| is(&record)) {
            self.interrupt_at_record = None;
            self.interrupter.as_ref().unwrap().interrupt();
        }
        self.records.push((module.to_owned(), record));
    }

    fn event(&mut self, event: &Event) {
        if let Event::Spawned { pid, module } = event {
            self.pids.push(*pid);
            self.modules.push(module.clone());
        }
        if let Some(call) = &mut self.on_event {
            call(event);
        }
        self.events.push(event.clone());
        self.line(&event.to_string());
    }
}

/// Returns a graph of two modules. Each is a chain of its own, so that these tests are about
/// processes and not about the topics between them. The run ends when `one` fails.
pub fn graph(limit: u32, relay: &str, printer: &str) -> String {
    format!(
        "driveline: 1\nname: demo\ntopics:\n  a: {{max_payload: 8}}\n  b: {{max_payload: 8}}\n  c: \
         {{max_payload: 8}}\nmodules:\n  one:\n    restart: {{on_exhausted: stop}}\n    \
         environment: {{GREETING: hello}}\n    components:\n      counter: {{library: lib, class: \
         Counter, parameters: {{limit: {limit}}}, outputs: {{count: a}}}}\n      relay: {{library: \
         lib, class: Relay, parameters: {{{relay}}}, inputs: {{in: {{topic: a, qos: {{depth: \
         16}}}}}}, outputs: {{out: b}}}}\n      printer: {{library: lib, class: Printer, inputs: \
         {{count: {{topic: b, qos: {{depth: 16}}}}}}}}\n  two:\n    components:\n      other: \
         {{library: lib, class: Counter, parameters: {{period_ms: 5}}, outputs: {{count: \
         c}}}}\n      other_printer: {{library: lib, class: Printer, parameters: {{{printer}}}, \
         inputs: {{count: c}}}}\n"
    )
}
