// SPDX-License-Identifier: Apache-2.0
//! Graphs run by real processes: start, output, account, the ways to end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

use driveline_runtime::account::Record;
use driveline_runtime::graph::{Colour, LoadOptions, ResolvedGraph, load};
use driveline_runtime::launch::{Death, End, Event, HostDescriber, Interrupt, Interrupter, LaunchOptions, Outcome, Sink, Stream, run};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// The host with components compiled in.
fn host() -> PathBuf {
    env!("CARGO_BIN_EXE_driveline-test-host").into()
}

struct Fixture {
    dir: TempDir,
    graph: ResolvedGraph,
    options: LaunchOptions,
}

impl Fixture {
    fn new(text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("g.yaml");
        std::fs::write(&path, text).unwrap();
        std::fs::write(dir.path().join("lib"), "").unwrap();
        let describer = HostDescriber::new(host());
        let loaded = load(&path, &LoadOptions::new(&describer));
        let graph = loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
        let options = LaunchOptions::new(host(), dir.path().join("domain"));
        Self { dir, graph, options }
    }

    fn run(&self, seen: &mut Seen) -> Outcome {
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

/// Keeps what it gets, and interrupts when told to.
#[derive(Default)]
struct Seen {
    lines: Vec<(String, Stream, String)>,
    records: Vec<(String, Record)>,
    events: Vec<Event>,
    pids: Vec<u32>,
    interrupter: Option<Interrupter>,
    interrupt_at: Option<&'static str>,
    kill_at: Option<&'static str>,
}

impl Seen {
    fn line(&mut self, line: &str) {
        if self.interrupt_at.is_some_and(|at| line.contains(at)) {
            self.interrupter.as_ref().unwrap().interrupt();
        }
        if self.kill_at.is_some_and(|at| line.contains(at)) {
            let pid = rustix::process::Pid::from_raw(self.pids[0].cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            self.kill_at = None;
        }
    }

    fn printed(&self, module: &str) -> Vec<&str> {
        self.lines.iter().filter(|(m, s, _)| m == module && *s == Stream::Out).map(|(_, _, l)| l.as_str()).collect()
    }

    fn said(&self, text: &str) -> bool {
        self.lines.iter().any(|(_, _, l)| l.contains(text))
    }

    fn ended(&self) -> Vec<&str> {
        self.events.iter().filter_map(|e| if let Event::Ended { death, .. } = e { Some(death.module.as_str()) } else { None }).collect()
    }
}

impl Sink for Seen {
    fn output(&mut self, module: &str, stream: Stream, line: &str) {
        self.lines.push((module.to_owned(), stream, line.to_owned()));
        self.line(line);
    }

    fn record(&mut self, module: &str, record: Record) {
        self.records.push((module.to_owned(), record));
    }

    fn event(&mut self, event: &Event) {
        if let Event::Spawned { pid, .. } = event {
            self.pids.push(*pid);
        }
        self.events.push(event.clone());
        self.line(&event.to_string());
    }
}

/// Two modules, each a chain of its own: so these tests are about processes and not about what is between them.
fn graph(limit: u32, relay: &str, printer: &str) -> String {
    format!(
        "driveline: 1\nname: demo\ntopics:\n  a: {{max_payload: 8}}\n  b: {{max_payload: 8}}\n  c: {{max_payload: 8}}\nmodules:\n  one:\n    environment: {{GREETING: hello}}\n    components:\n      counter: {{library: lib, class: Counter, parameters: {{limit: {limit}}}, outputs: {{count: a}}}}\n      relay: {{library: lib, class: Relay, parameters: {{{relay}}}, inputs: {{in: {{topic: a, qos: {{depth: 16}}}}}}, outputs: {{out: b}}}}\n      printer: {{library: lib, class: Printer, inputs: {{count: {{topic: b, qos: {{depth: 16}}}}}}}}\n  two:\n    components:\n      other: {{library: lib, class: Counter, parameters: {{period_ms: 5}}, outputs: {{count: c}}}}\n      other_printer: {{library: lib, class: Printer, parameters: {{{printer}}}, inputs: {{count: c}}}}\n"
    )
}

#[test]
fn a_finished_component_ends_the_run_when_its_samples_are_processed() {
    let f = Fixture::new(&graph(20, "", ""));
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    assert!(outcome.killed.is_empty());

    let printed = seen.printed("one");
    assert_eq!(printed[0], "printer is ready");
    assert_eq!(printed[1], "printer got 1", "nothing is published before everybody is ready");
    assert!(printed.contains(&"printer got 20"), "{printed:?}");
    assert_eq!(printed.last(), Some(&"printer is shut down"));
    assert_eq!(seen.ended(), ["two", "one"], "stopped in reverse order");

    let calls: Vec<_> =
        seen.records.iter().filter_map(|(m, r)| if let Record::Callback(c) = r { Some((m.as_str(), c)) } else { None }).collect();
    let relayed: Vec<_> = calls.iter().filter(|(m, c)| *m == "one" && c.component == "relay").collect();
    assert_eq!(relayed.len(), 20);
    let input = &relayed[0].1.inputs[0];
    assert_eq!((input.input.as_str(), input.sequence, input.triggered, input.fresh), ("in", 1, true, true));
    assert!(input.publish_ns <= relayed[0].1.start_ns && relayed[0].1.start_ns <= relayed[0].1.end_ns);
    let at_the_end = calls.iter().find(|(_, c)| c.component == "printer").unwrap().1;
    assert_eq!(at_the_end.inputs[0].origins[0].topic, "a".parse::<driveline::types::TopicName>().unwrap().id());
    assert!(calls.iter().any(|(_, c)| c.component == "counter"), "a component's own timer is accounted to it");
    let published = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Output { component, output, published, .. } if component == "counter" => Some((output.as_str(), *published)),
        _ => None,
    });
    assert_eq!(published, Some(("count", 20)));
    let counted = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Counters { component, stats } if component == "relay" => Some(stats.invocations),
        _ => None,
    });
    assert_eq!(counted, Some(20));
    let received = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Input { component, input, stats, .. } if component == "relay" && input == "in" => Some((stats.received, stats.missed)),
        _ => None,
    });
    assert_eq!(received, Some((20, 0)));
    let fact = Record::Fact { component: "printer".into(), name: "detector".into(), text: "none, this is a test".into() };
    assert!(seen.records.contains(&("one".into(), fact)));
}

#[test]
fn an_interrupt_stops_in_reverse_order() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { interrupt_at: Some("printer got 3"), ..Seen::default() };
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Interrupted);
    assert_eq!(seen.ended(), ["two", "one"]);
    assert!(seen.printed("one").last() == Some(&"printer is shut down"), "{:?}", seen.lines);
}

#[test]
fn failures_are_reported_with_topic_and_sequence_and_the_run_goes_on() {
    let f = Fixture::new(&graph(9, "fail_on: 4", ""));
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert!(matches!(outcome.end, End::Finished { .. }));
    assert!(seen.said("error: component 'relay' failed on sample 4 of 'a': this number was forbidden"), "{:?}", seen.lines);
    assert!(seen.printed("one").contains(&"printer got 9"));
    let failures: Vec<_> = seen.records.iter().filter(|(_, r)| matches!(r, Record::Failure { .. })).collect();
    let expected = Record::Failure {
        component: "relay".into(),
        topic: Some("a".into()),
        sequence: Some(4),
        text: "this number was forbidden".into(),
        count: 1,
    };
    assert_eq!(failures, [&("one".into(), expected)]);
}

#[test]
fn a_crash_ends_the_run_and_is_named() {
    let f = Fixture::new(&graph(0, "abort_on: 3", ""));
    let mut seen = Seen::default();
    let End::Died(Death { module, how, .. }) = f.run(&mut seen).end else { panic!("{:?}", seen.events) };
    assert_eq!(module, "one");
    assert!(how.starts_with("was killed by SIGABRT"), "{how}");
    assert!(seen.printed("one").contains(&"printer got 2"), "what it said before is not lost: {:?}", seen.lines);
    assert_eq!(seen.ended(), ["one", "two"]);
}

#[test]
fn a_module_killed_from_outside_ends_the_run() {
    let f = Fixture::new(&graph(0, "", ""));
    let mut seen = Seen { kill_at: Some("printer got 2"), ..Seen::default() };
    let End::Died(Death { module, how, .. }) = f.run(&mut seen).end else { panic!() };
    assert_eq!(module, "one");
    assert!(how.contains("SIGKILL"), "{how}");
}

#[test]
fn a_component_that_cannot_start_ends_the_run_before_anything_runs() {
    let f = Fixture::new(&graph(0, "fail_init: 1", ""));
    let mut seen = Seen::default();
    let End::Died(Death { module, how, .. }) = f.run(&mut seen).end else { panic!() };
    assert_eq!((module.as_str(), how.as_str()), ("one", "exited with code 1"));
    assert!(seen.said("component 'relay' cannot start: told to fail"), "{:?}", seen.lines);
    assert!(!seen.said("got"), "{:?}", seen.lines);
}

#[test]
fn a_module_that_does_not_stop_is_killed() {
    let mut f = Fixture::new(&graph(3, "", "hang: 1"));
    f.options.grace = Duration::from_millis(300);
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.killed, ["two"]);
    assert!(matches!(outcome.end, End::Finished { .. }));
    assert!(seen.printed("one").contains(&"printer is shut down"), "the others still end in good order");
}

#[test]
fn modules_that_never_get_ready_are_named() {
    let mut f = Fixture::new(&graph(3, "", ""));
    let deaf = f.dir.path().join("deaf");
    std::fs::write(&deaf, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    std::fs::set_permissions(&deaf, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    f.options.host = deaf;
    f.options.ready_within = Duration::from_millis(50);
    let mut seen = Seen::default();
    assert_eq!(f.run(&mut seen).end, End::NotReady { modules: vec!["one".into(), "two".into()] });
}

#[test]
fn one_module_can_run_alone_and_parameters_are_passed_on() {
    let mut f = Fixture::new(&graph(0, "", ""));
    f.options.modules = Some(vec!["one".into()]);
    f.options.set = vec!["counter.limit=2".into()];
    let mut seen = Seen::default();
    assert!(matches!(f.run(&mut seen).end, End::Finished { .. }));
    assert_eq!(seen.printed("one"), ["printer is ready", "printer got 1", "printer got 2", "printer is shut down"]);
    assert_eq!(seen.ended(), ["one"]);
}

#[test]
fn modules_end_when_their_launcher_is_gone() {
    let f = Fixture::new(&graph(0, "", ""));
    let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
    let mut host = std::process::Command::new(host())
        .args(["run", "--account-stdin", "--module", "one", "--graph"])
        .arg(&f.graph.file)
        .env("DRIVELINE_DOMAIN_DIR", f.dir.path().join("domain"))
        .stdin(std::os::fd::OwnedFd::from(theirs))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    drop(ours);
    assert!(host.wait().unwrap().success());
}

#[test]
fn modules_exchange_samples_over_host_topics_from_the_first_one_on() {
    let f = Fixture::new(
        "driveline: 1\nname: demo\ntopics:\n  a: {reach: host, max_payload: 8, qos: {depth: 64}}\n  b: {reach: host, max_payload: 8, qos: {depth: 64}}\nmodules:\n  source:\n    components:\n      counter: {library: lib, class: Counter, parameters: {limit: 20}, outputs: {count: a}}\n  middle:\n    components:\n      relay: {library: lib, class: Relay, inputs: {in: a}, outputs: {out: b}}\n  sink:\n    components:\n      printer: {library: lib, class: Printer, inputs: {count: b}}\n      second: {library: lib, class: Printer, inputs: {count: a}}\n",
    );
    let mut seen = Seen::default();
    let outcome = f.run(&mut seen);
    assert_eq!(outcome.end, End::Finished { component: "counter".into() }, "{:?}", seen.lines);
    let printed = seen.printed("sink");
    for n in 1..=20 {
        assert!(
            printed.contains(&format!("printer got {n}").as_str()) && printed.contains(&format!("second got {n}").as_str()),
            "{n}: {printed:?}"
        );
    }
    let end = seen.records.iter().rev().find_map(|(_, r)| match r {
        Record::Callback(c) if c.component == "printer" => Some(c.clone()),
        _ => None,
    });
    let header = end.unwrap().inputs[0].header();
    let origin = header.origins.as_slice()[0];
    assert_eq!(origin.topic, "a".parse::<driveline::types::TopicName>().unwrap().id(), "the lineage crosses processes");
    assert_eq!(origin.communication_ns + origin.computation_ns + origin.idle_ns, header.publish_time.0 - origin.source_oldest.0);
}
