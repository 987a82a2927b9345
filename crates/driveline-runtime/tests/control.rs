// SPDX-License-Identifier: Apache-2.0
//! Responses of a run on its control socket, by real processes. The socket itself is tested next
//! to its code.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at the first surprise")]

mod support;

use driveline_runtime::account::Record;
use driveline_runtime::host::exit;
use driveline_runtime::launch::control::{
    ClaimError, ControlSocket, ProcessState, RunPhase, RunStatus, Taken, Verb, claim,
};
use driveline_runtime::launch::{Down, End};
use rustix::process::Signal;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::tool::{is_ready, process, while_running};
use support::{Fixture, graph, host};

/// The graph of the other tests, where `one` is no reason to end the run.
fn without_end(relay: &str, printer: &str, one: &str) -> String {
    graph(0, relay, printer).replace("    restart: {on_exhausted: stop}\n", &format!("    {one}\n"))
}

#[test]
fn a_run_says_what_it_is_and_stops_in_order_when_it_is_asked() {
    let (seen, outcome) = while_running(&without_end("", "", "restart: {}"), |tool| {
        let run = tool.until(Verb::Health, is_ready);
        assert_eq!(
            (run.graph.as_str(), run.domain.as_str(), &run.phase),
            ("demo", "test", &RunPhase::Running)
        );
        assert_eq!((run.pid, run.reason), (std::process::id(), None));
        assert!(run.age_ms >= run.since_ms);
        let run = tool.ask(Verb::Status).unwrap();
        assert_eq!(
            (run.ready, &run.reason),
            (None, &None),
            "a verdict is for those who ask for one"
        );
        assert_eq!(
            run.processes.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(),
            ["one", "two"]
        );
        let one = process(&run, "one");
        assert_eq!(
            (&one.state, one.restarts, &one.last_fault, one.suspended),
            (&ProcessState::Ready, 0, &None, false)
        );
        assert_eq!(one.components, ["counter", "relay", "printer"]);
        let topics: Vec<_> = one
            .topics
            .iter()
            .map(|t| (t.name.as_str(), t.publishes, t.subscribes, t.inside))
            .collect();
        assert_eq!(topics, [("a", true, true, true), ("b", true, true, true)]);
        assert!(one.pid.is_some());
        let run = tool.ask(Verb::Stop).unwrap();
        assert_eq!(run.phase, RunPhase::Ending);
        while tool.ask(Verb::Status).is_ok() {}
    });
    assert_eq!(
        (outcome.end, outcome.killed, outcome.down),
        (End::Interrupted, vec![], vec![]),
        "{:?}",
        seen.events
    );
    assert_eq!(seen.ended(), ["two", "one"]);
    assert_eq!(seen.printed("one").last(), Some(&"printer is shut down"));
}

#[test]
fn a_second_stop_kills_as_a_second_interrupt_does() {
    // The hanging module never stops by itself, and its grace outlasts the test.
    let (seen, outcome) = while_running(&without_end("", "hang: 1", "restart: {}"), |tool| {
        tool.until(Verb::Health, is_ready);
        tool.ask(Verb::Stop).unwrap();
        let run = tool.until(Verb::Health, |run| process(run, "two").state == ProcessState::Ending);
        assert!(
            run.reason
                .as_ref()
                .is_some_and(|r| r.starts_with("the run is ending; module 'two' is ending")),
            "{:?}",
            run.reason
        );
        tool.stop();
    });
    assert_eq!(outcome.killed, ["one", "two"], "{:?}", seen.events);
}

#[test]
fn a_module_that_is_down_is_named_with_its_fault_and_cause() {
    let (seen, outcome) = while_running(&without_end("abort_on: 3", "", "restart: {}"), |tool| {
        let run = tool
            .until(Verb::Health, |run| run.processes.iter().any(|p| p.state == ProcessState::Down));
        assert_eq!((run.ready, &run.phase), (Some(false), &RunPhase::Running));
        assert_eq!(
            run.reason.as_deref(),
            Some("module 'one' is down: the graph does not restart it (`restart:`)")
        );
        let (one, two) = (process(&run, "one"), process(&run, "two"));
        assert_eq!((one.ready, one.pid, two.ready), (Some(false), None, Some(true)));
        let fault = &one.last_fault.as_ref().unwrap().text;
        assert!(
            fault.contains("was killed by SIGABRT")
                && fault.contains("in component 'relay' in on_trigger on sample 3"),
            "{fault}"
        );
    });
    assert!(
        matches!(outcome.down.as_slice(), [Down { module, .. }] if module == "one"),
        "{:?}",
        seen.events
    );
}

#[test]
fn restarts_are_counted_and_a_restarted_module_is_ready_again() {
    let (_, outcome) = while_running(
        &without_end("", "", "restart: {policy: on_failure, backoff_ms: 1}"),
        |tool| {
            tool.until(Verb::Health, is_ready);
            for restarts in 1..=2 {
                tool.signal("one", Signal::KILL);
                let again =
                    |run: &RunStatus| is_ready(run) && process(run, "one").restarts == restarts;
                let run = tool.until(Verb::Health, again);
                assert!(
                    process(&run, "one")
                        .last_fault
                        .as_ref()
                        .is_some_and(|f| f.text.contains("SIGKILL")),
                    "{run:?}"
                );
                assert_eq!(process(&run, "two").restarts, 0);
            }
        },
    );
    assert_eq!((outcome.end, outcome.down), (End::Interrupted, vec![]));
}

#[test]
fn a_suspended_module_is_not_ready_until_it_goes_on() {
    while_running(&without_end("", "", "restart: {}"), |tool| {
        tool.until(Verb::Health, is_ready);
        tool.signal("two", Signal::STOP);
        let run = tool.until(Verb::Health, |run| !is_ready(run));
        let pid = process(&run, "two").pid.unwrap();
        let reason =
            format!("module 'two' is suspended by SIGSTOP; `kill -CONT {pid}` lets it go on");
        assert_eq!(
            (run.reason, process(&tool.ask(Verb::Status).unwrap(), "two").suspended),
            (Some(reason), true)
        );
        tool.signal("two", Signal::CONT);
        tool.until(Verb::Health, is_ready);
    });
}

#[test]
fn a_module_that_waits_for_another_says_for_which() {
    let text = without_end("hang_init: 1", "", "restart: {}")
        .replace("  two:\n", "  two:\n    depends_on: [one]\n");
    let (seen, outcome) = while_running(&text, |tool| {
        // The call that its start has reached: the last one, which does not end.
        let reason = "is starting: component 'relay' in init";
        let run =
            tool.until(Verb::Health, |run| process(run, "one").reason.as_deref() == Some(reason));
        assert_eq!((run.ready, &run.phase), (Some(false), &RunPhase::Starting));
        assert_eq!(
            process(&run, "two").reason.as_deref(),
            Some("waits for 'one' to be ready (`depends_on`)")
        );
        assert_eq!(
            (&process(&run, "two").state, process(&run, "two").pid),
            (&ProcessState::Waiting, None)
        );
    });
    assert_eq!(outcome.end, End::Interrupted);
    assert!(seen.pid_of("two").is_none(), "{:?}", seen.events);
}

#[test]
fn clients_that_do_not_read_or_send_half_a_line_disturb_neither_the_run_nor_others() {
    let (seen, outcome) = while_running(&without_end("", "", "restart: {}"), |tool| {
        tool.until(Verb::Health, is_ready);
        let entry = std::fs::read_dir(&tool.domain).unwrap().map(|e| e.unwrap().path());
        let path =
            entry.into_iter().find(|p| p.extension().is_some_and(|e| e == "control")).unwrap();
        let silent: Vec<UnixStream> = (0..40)
            .map(|i| {
                let mut client = UnixStream::connect(&path).unwrap();
                client
                    .write_all([&b"{\"verb\""[..], b"{\"verb\":\"status\"}\n", b""][i % 3])
                    .unwrap();
                client
            })
            .collect();
        assert!(tool.ask(Verb::Health).unwrap().ready.is_some());
        // The first client has sent half a line only, and other clients took its place.
        let mut text = String::new();
        (&silent[0]).read_to_string(&mut text).unwrap();
        assert!(text.contains("\"code\":\"busy\"") && text.ends_with('\n'), "{text}");
        assert!(is_ready(&tool.ask(Verb::Health).unwrap()));
        // A repeated request would kill modules that take long to end.
        tool.end();
    });
    assert_eq!(
        (outcome.end, outcome.killed, outcome.down),
        (End::Interrupted, vec![], vec![]),
        "{:?}",
        seen.events
    );
    assert_eq!(seen.ended(), ["two", "one"]);
}

/// Starts a process of a run, with the launcher's end of its socket, and waits until it is ready.
fn started(f: &Fixture, arguments: &[&str], control: &Path) -> (Child, UnixStream) {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    ours.write_all(b"go\n").unwrap();
    let child = Command::new(host())
        .args(arguments)
        .arg("--control")
        .arg(control)
        .env("DRIVELINE_DOMAIN_DIR", f.dir.path().join("domain"))
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let ready = |line: std::io::Result<String>| {
        serde_json::from_str::<Record>(&line.unwrap()).unwrap() == Record::Ready
    };
    assert!(BufReader::new(&ours).lines().any(ready));
    (child, ours)
}

/// Starts two processes of a run. For the first one, only the account's socket closes, and the
/// launcher lives on. For the second one, the launcher dies.
fn removes_the_socket_of_its_dead_launcher(code: u8, arguments: impl Fn(&Fixture) -> Vec<String>) {
    let f = Fixture::new(&graph(0, "", ""));
    let arguments = arguments(&f);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let domain = f.dir.path().join("domain");
    std::fs::create_dir(&domain).unwrap();
    // The listener stands for a launcher, which is alive as long as it listens.
    let path = ControlSocket::new(&domain, "test", "g").unwrap().path().to_owned();
    let listener = UnixListener::bind(&path).unwrap();
    let (mut first, to_first) = started(&f, &arguments, &path);
    drop(to_first);
    assert_eq!(first.wait().unwrap().code(), Some(i32::from(code)));
    assert!(path.exists(), "its owner lives");
    let (mut second, to_second) = started(&f, &arguments, &path);
    // In this order: a process that hangs checks only once whether the listener is gone.
    drop((listener, to_second));
    assert_eq!(second.wait().unwrap().code(), Some(i32::from(code)));
    assert_eq!(std::fs::read_dir(&domain).unwrap().count(), 0);
}

fn one(f: &Fixture, more: &[&str]) -> Vec<String> {
    let file = f.graph.file.display().to_string();
    let first = ["run", "--account-stdin", "--module", "one", "--graph", &file];
    first.iter().chain(more).map(|a| (*a).to_owned()).collect()
}

#[test]
fn a_module_removes_the_socket_of_its_dead_launcher() {
    removes_the_socket_of_its_dead_launcher(exit::DONE, |f| one(f, &[]));
}

#[test]
fn a_module_that_hangs_removes_it_as_well() {
    removes_the_socket_of_its_dead_launcher(exit::STUCK, |f| {
        one(f, &["--set", "printer.hang=1", "--stop-within-ms", "50"])
    });
}

#[test]
fn a_second_launcher_is_refused_even_while_a_module_is_away() {
    let away = "restart: {policy: on_failure, backoff_ms: 30000}";
    let (_, outcome) = while_running(&without_end("", "", away), |tool| {
        tool.until(Verb::Health, is_ready);
        let claimed = |graph: &str, modules: &[&str]| {
            let modules: Vec<String> = modules.iter().map(ToString::to_string).collect();
            claim(&tool.domain, "test", graph, &modules)
        };
        let taken = |modules: &[&str]| match claimed("demo", modules) {
            Err(ClaimError::Taken(Taken { pid, modules, graph })) => {
                assert_eq!((pid, graph.as_str()), (Some(std::process::id()), "demo"));
                modules
            }
            other => panic!("{other:?}"),
        };
        assert_eq!(taken(&["one", "three"]), ["one"]);
        tool.signal("one", Signal::KILL);
        tool.until(Verb::Status, |run| process(run, "one").state == ProcessState::Restarting);
        assert_eq!(taken(&["one", "two"]), ["one", "two"]);
        assert!(claimed("demo", &["three"]).is_ok(), "another part of the graph");
        assert!(claimed("other", &["one"]).is_ok());
    });
    assert_eq!(outcome.down.len(), 1, "{outcome:?}");
}
