// SPDX-License-Identifier: Apache-2.0
//! Components that hang or crash, and processes that are stopped or killed: tests of their reports,
//! and that no process remains.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::Record;
use driveline_runtime::host::exit;
use driveline_runtime::launch::{End, Event, Interrupt, Interrupter, Sink, Stream, run};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use support::{Fixture, GRACE, Seen, graph, host};

/// A host process that a test starts without a launcher.
struct Host {
    process: Child,
    out: BufReader<std::process::ChildStdout>,
}

impl Host {
    /// Starts the module of `graph()` that contains the relay. `stdin` stands for the socket to a
    /// launcher.
    fn start(f: &Fixture, more: &[&str], stdin: Option<OwnedFd>) -> Self {
        let mut command = Command::new(host());
        command.args(["run", "--module", "one", "--graph"]).arg(&f.graph.file).args(more);
        command
            .env("DRIVELINE_DOMAIN_DIR", f.dir.path().join("domain"))
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        match stdin {
            Some(fd) => command.arg("--account-stdin").stdin(fd),
            None => command.stdin(Stdio::null()),
        };
        let mut process = command.spawn().unwrap();
        let out = BufReader::new(process.stdout.take().unwrap());
        Self { process, out }
    }

    fn wait_for(&mut self, text: &str) -> String {
        self.out
            .by_ref()
            .lines()
            .map(Result::unwrap)
            .find(|l| l.contains(text))
            .unwrap_or_else(|| panic!("{text} is never said"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.process.id().cast_signed()).unwrap(), signal).unwrap();
    }

    /// Returns its exit status and its standard error.
    fn end(mut self) -> (ExitStatus, String) {
        let mut err = String::new();
        self.process.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        (self.process.wait().unwrap(), err)
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns true if a process runs; an ended process that was not reaped does not.
fn runs(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

fn gone(pid: &str) {
    while runs(pid) {
        // time: a pause between polls
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_a_module_whose_callback_hangs() {
    let f = Fixture::new(&graph(0, "hang_on: 3", ""));
    let mut host = Host::start(&f, &["--stop-within-ms", "200"], None);
    host.wait_for("relay hangs");
    host.signal(Signal::TERM);
    let (status, err) = host.end();
    assert_eq!(status.code(), Some(i32::from(exit::STUCK)), "{err}");
    let said = "error: module 'one' did not stop within 200ms: component 'relay' in on_trigger on \
                sample 3 of 'a' for ";
    assert!(err.contains(said), "{err}");
}

#[test]
fn a_signal_ends_a_module_whose_initialisation_hangs_and_a_second_one_at_once() {
    let f = Fixture::new(&graph(0, "hang_init: 1", ""));
    for (within, again) in [("100", false), ("3600000", true)] {
        let mut host = Host::start(&f, &["--stop-within-ms", within], None);
        host.wait_for("init hangs");
        host.signal(Signal::INT);
        // Several pending signals of one kind are one signal.
        while again && host.process.try_wait().unwrap().is_none() {
            // time: a pause between polls
            std::thread::sleep(Duration::from_millis(5));
            host.signal(Signal::INT);
        }
        let (status, err) = host.end();
        assert_eq!(status.code(), Some(i32::from(exit::STUCK)), "{err}");
        assert!(err.contains("component 'relay' in init"), "{err}");
    }
}

#[test]
fn a_hung_module_and_what_it_started_do_not_outlive_their_launcher() {
    for hang in ["hang_init: 1", "hang_on: 3"] {
        // The component that starts a process is not the component whose initialisation hangs.
        let spawning = graph(0, hang, "").replace(
            "printer: {library: lib, class: Printer, inputs: {count: {topic: b",
            "sink: {library: lib, class: Relay, parameters: {spawn: 1}, inputs: {in: {topic: b",
        );
        let spawning =
            spawning.replace("      relay:", "      last:").replace("      sink:", "      relay:");
        let f = Fixture::new(&spawning);
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let mut host = Host::start(&f, &["--stop-within-ms", "200"], Some(theirs.into()));
        ours.write_all(b"go\n").unwrap();
        let mut child = None;
        let hangs = if hang.starts_with("hang_init") { "init hangs" } else { "relay hangs" };
        for line in host.out.by_ref().lines().map(Result::unwrap) {
            child = line.strip_prefix("spawned ").map(str::to_owned).or(child);
            if line == hangs {
                break;
            }
        }
        drop(ours);
        let (status, err) = host.end();
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()), "with all of its group: {err}");
        assert!(err.contains("did not stop within 200ms"), "{err}");
        if let Some(child) = child {
            gone(&child);
        } else {
            assert_eq!(hang, "hang_init: 1", "only a hanging init precedes the spawn");
        }
    }
}

#[test]
fn a_long_callback_is_reported_and_a_second_interrupt_kills() {
    let mut f = Fixture::new(&graph(0, "hang_on: 3", ""));
    f.options.grace = GRACE;
    // The report says three seconds, or more on a machine that stands still meanwhile.
    let mut seen = Seen {
        interrupt_at: Some("component 'relay' has been in on_trigger on sample 3 of 'a' for "),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.killed), (End::Interrupted, vec!["one".to_owned()]));
    let why = seen
        .events
        .iter()
        .find_map(|e| if let Event::Killed { why, .. } = e { Some(why.clone()) } else { None });
    assert_eq!(
        why.unwrap(),
        format!(
            "did not stop within {GRACE:?} (component 'relay' in on_trigger on sample 3 of 'a')"
        )
    );
    let ended: Vec<_> = seen
        .events
        .iter()
        .filter_map(|e| if let Event::Ended { death, .. } = e { Some(death) } else { None })
        .collect();
    assert_eq!(ended[1].how, "was killed because it did not stop", "and not by another process");
}

#[test]
fn an_initialisation_that_takes_long_is_what_everybody_waits_for() {
    let mut f = Fixture::new(&graph(0, "hang_init: 1", ""));
    f.options.grace = GRACE;
    let mut seen = Seen {
        interrupt_at: Some("waiting for module 'one': component 'relay' has been in init for "),
        ..Seen::default()
    };
    assert_eq!(f.run(&mut seen).killed, ["one"]);
}

#[test]
fn a_stack_overflow_is_reported_and_ends_the_process_as_ever() {
    let f = Fixture::new(&graph(0, "overflow_on: 3", ""));
    let mut seen = Seen::default();
    let End::Died(death) = f.run(&mut seen).end else { panic!("{:?}", seen.events) };
    assert_eq!(
        death.cause.as_deref(),
        Some("in component 'relay' in on_trigger on sample 3 of 'a'"),
        "{death}"
    );
    // The previous handler decides what follows. Here it is Rust's own handler, which reports the
    // overflow and aborts.
    assert!(seen.said("error: SIGSEGV (invalid memory access, address 0x"), "{:?}", seen.lines);
    assert!(seen.said("has overflowed its stack"), "{:?}", seen.lines);
    assert!(death.help.is_some_and(|h| h.contains("gdb --args")));
}

#[test]
fn what_a_module_started_and_left_is_ended_with_it() {
    let f = Fixture::new(&graph(5, "spawn: 1", ""));
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    let printed = seen.printed("one");
    gone(printed.iter().find_map(|l| l.strip_prefix("spawned ")).unwrap());
}

#[test]
fn a_stopped_module_is_reported_and_still_ends_gracefully() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen {
        stop_at: Some("printer got 2"),
        interrupt_at: Some("is suspended and does nothing; `kill -CONT"),
        ..Seen::default()
    };
    let outcome = f.run(&mut seen);
    assert_eq!((outcome.end, outcome.killed), (End::Interrupted, vec![]));
    assert_eq!(seen.printed("one").last(), Some(&"printer is shut down"));
}

/// A sink that reports a closed terminal when a component hangs, and again at every tick.
struct Nobody {
    interrupter: Interrupter,
    hangs: bool,
    killed: Vec<String>,
}

impl Sink for Nobody {
    fn output(&mut self, _: &str, _: Stream, line: &str) {
        self.hangs |= line == "init hangs";
    }

    fn record(&mut self, _: &str, _: Record) {}

    fn tick(&mut self) {
        if self.hangs {
            self.interrupter.hang_up();
        }
    }

    fn event(&mut self, event: &Event) {
        if let Event::Killed { why, .. } = event {
            self.killed.push(why.clone());
        }
    }
}

#[test]
fn a_closed_terminal_is_no_second_interrupt_however_often_it_is_signalled() {
    let mut f = Fixture::new(&graph(0, "hang_init: 1", ""));
    f.options.grace = GRACE;
    let (interrupt, interrupter) = Interrupt::by_hand().unwrap();
    let mut nobody = Nobody { interrupter, hangs: false, killed: Vec::new() };
    let outcome = run(&f.graph, &f.options, &interrupt, &mut nobody).unwrap();
    assert_eq!((outcome.end, outcome.killed), (End::Interrupted, vec!["one".to_owned()]));
    assert!(
        matches!(nobody.killed.as_slice(), [why] if why.starts_with("did not stop within")),
        "{:?}",
        nobody.killed
    );
}
