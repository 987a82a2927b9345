// SPDX-License-Identifier: Apache-2.0
//! Output about modules that end while the graph runs.

use crate::fixture::{Background, Fixture, GRAPH};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::Stdio;

/// Runs a graph until a line of its output contains `until`, and then Ctrl-C. Returns exit code,
/// output and `summary.json`.
fn run_until(f: &Fixture, set: &str, until: &str) -> (i32, Vec<String>, Value) {
    let mut command =
        f.command(&["run", "g.yaml", "--set", "counter.limit=0", "--set", set, "--report", "out"]);
    // Both streams use one pipe, so that their lines keep their order.
    let (reader, writer) = std::io::pipe().unwrap();
    let child = command
        .stdout(Stdio::from(std::os::fd::OwnedFd::from(writer.try_clone().unwrap())))
        .stderr(Stdio::from(std::os::fd::OwnedFd::from(writer)))
        .spawn()
        .unwrap();
    drop(command);
    let mut child = Background(child);
    let mut lines = Vec::new();
    for line in BufReader::new(reader).lines().map(Result::unwrap) {
        if line.contains(until) && !lines.iter().any(|l: &String| l.contains(until)) {
            let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        }
        lines.push(line);
    }
    let code = child.0.wait().unwrap().code().unwrap();
    let summary =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    (code, lines, summary)
}

#[test]
fn a_dead_module_is_named_and_the_run_goes_on_and_ends_with_code_4() {
    let f = Fixture::new(GRAPH);
    let (code, lines, summary) = run_until(&f, "relay.abort_on=5", "stays down");
    let text = lines.join("\n");
    assert_eq!(code, 4, "{text}");
    assert!(
        text.contains(
            "module 'rest' stays down: the graph does not restart it (`restart:`); the others go on"
        ),
        "{text}"
    );
    assert!(text.contains("error: failed: module 'rest' was killed by SIGABRT"), "{text}");
    let fault = &summary["faults"][0];
    assert_eq!(
        (&fault["module"], &fault["down"], &fault["ready_after_ms"]),
        (&"rest".into(), &true.into(), &Value::Null)
    );
    assert_eq!(
        (&summary["ended"]["ok"], &summary["ended"]["module"]),
        (&false.into(), &"rest".into())
    );
    assert!(
        std::fs::read_to_string(f.path("out/report.html"))
            .unwrap()
            .contains("<h2>Modules that ended</h2>")
    );
}

#[test]
fn a_module_for_which_the_run_ends_is_down_in_the_report() {
    let graph =
        GRAPH.replace("  rest:\n", "  rest:\n    restart: {policy: never, on_exhausted: stop}\n");
    let f = Fixture::new(&graph);
    let set = "relay.abort_on=5";
    let (code, out, err) = f.run(&["run", "g.yaml", "--set", set, "--report", "out"]);
    assert_eq!(code, 4, "{out}{err}");
    assert!(out.contains("it stays down"), "{out}");
    assert_eq!(std::fs::read_dir(f.path("domain")).unwrap().count(), 0, "its sockets are removed");
    let summary = std::fs::read_to_string(f.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(
        (&summary["faults"][0]["module"], &summary["faults"][0]["down"]),
        (&"rest".into(), &true.into())
    );
}

#[test]
fn a_restarted_module_works_again_and_the_run_ends_well() {
    let graph =
        GRAPH.replace("  rest:\n", "  rest:\n    restart: {policy: on_failure, backoff_ms: 1}\n");
    let f = Fixture::new(&graph);
    let (code, lines, summary) = run_until(&f, "relay.abort_on=5", "works again as process");
    let text = lines.join("\n");
    assert_eq!(code, 0, "{text}");
    assert!(lines.last().is_some_and(|l| l == "ended as asked"), "{text}");
    let fault = &summary["faults"][0];
    assert_eq!((&fault["module"], &fault["down"]), (&"rest".into(), &false.into()));
    assert!(
        fault["ready_after_ms"].is_number()
            && fault["cause"].as_str().is_some_and(|c| c.contains("SIGABRT")),
        "{fault}"
    );
    assert_eq!(summary["ended"]["ok"], true);
}

#[test]
fn a_service_manager_is_notified_when_the_graph_runs_lives_and_stops() {
    let f = Fixture::new(GRAPH);
    let socket = std::os::unix::net::UnixDatagram::bind(f.path("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(60))).unwrap();
    let mut command = f.command(&["run", "g.yaml", "--set", "counter.limit=0"]);
    command
        .env("NOTIFY_SOCKET", f.path("notify"))
        .env("WATCHDOG_USEC", "20000")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = Background(command.spawn().unwrap());
    let until = |wanted: &str| {
        let mut buffer = [0; 4096];
        loop {
            let n = socket.recv(&mut buffer).unwrap();
            if String::from_utf8_lossy(&buffer[..n]).lines().any(|line| line == wanted) {
                return;
            }
        }
    };
    until("READY=1");
    until("WATCHDOG=1");
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    until("STOPPING=1");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
}
