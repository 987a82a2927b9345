// SPDX-License-Identifier: Apache-2.0
//! The command on a small graph of Rust components: its faults, checks and refusals.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const GRAPH: &str = "\
driveline: 1
name: demo
topics:
  a: {reach: host, max_payload: 8, qos: {depth: 64}}
  b: {reach: host, max_payload: 8, qos: {depth: 64}}
modules:
  source:
    components:
      counter: {library: lib, class: Counter, outputs: {count: a}}
  rest:
    restart: {policy: on_failure, backoff_ms: 0, max: 1000}
    components:
      relay: {library: lib, class: Relay, inputs: {in: a}, outputs: {out: b}}
      printer: {library: lib, class: Printer, inputs: {count: b}}
";

/// Returns the path of a program of another crate; `cargo test --workspace` builds it.
fn built(name: &str) -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_driveline-chaos")).with_file_name(name);
    let remedy = "run `cargo build -p driveline-cli -p driveline-runtime --bins`";
    assert!(program.exists(), "{} is missing; {remedy}", program.display());
    program
}

fn command(dir: &Path, arguments: &[&str]) -> Command {
    let _ = built("driveline");
    std::fs::write(dir.join("g.yaml"), GRAPH).unwrap();
    std::fs::write(dir.join("lib"), "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_driveline-chaos"));
    command.arg("g.yaml").args(arguments).current_dir(dir);
    command.env("DRIVELINE_HOST", built("driveline-test-host"));
    command.env_remove("DRIVELINE_COMPONENT_PATH").stdin(Stdio::null());
    command
}

fn chaos(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command(dir, arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn fault<'a>(report: &'a Value, kind: &str) -> impl Iterator<Item = &'a Value> {
    let all = report["faults"].as_array().unwrap().iter();
    let kind = kind.to_owned();
    all.filter(move |f| f["kind"] == kind.as_str())
}

#[test]
fn three_kills_and_exceptions_are_caused_answered_and_in_the_report() {
    let dir = tempfile::tempdir().unwrap();
    let arguments = [
        ["--kill", "rest"],
        // Exceptions go to another module than the kills: a killed module's last records may be
        // lost.
        ["--exception", "source"],
        ["--times", "3"],
        ["--seed", "7"],
        ["--pause", "0"],
        ["--quiet", "0"],
    ];
    let (code, out, err) = chaos(dir.path(), &[&arguments.concat()[..], &["--json"]].concat());
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    for (key, expected) in
        [("kills", 3), ("restarts", 3), ("unaccounted", 0), ("torn", 0), ("leaked", 0)]
    {
        assert_eq!(report[key], expected, "{key}: {out}");
    }
    assert_eq!(report["ok"], true);
    for kill in fault(&report, "kill") {
        assert!(kill["reported"].as_str().unwrap().contains("SIGKILL"), "{kill}");
        assert!(kill["ready_after_ms"].is_number() && kill["module"] == "rest", "{kill}");
    }
    assert_eq!(fault(&report, "exception").filter(|f| f["answer"] == "failed").count(), 3);
    assert!(report["modules"]["rest"]["cold_start_ms"].is_number(), "{out}");
    assert!(report["gaps"]["b"]["faults"]["samples"].as_u64().unwrap() > 0, "{out}");
    // The report is also stored as a file, next to the run's own report.
    let out = dir.path().join("out/chaos");
    let stored = std::fs::read_to_string(out.join("chaos.txt")).unwrap();
    assert!(stored.contains("works again after"), "{stored}");
    assert!(out.join("chaos.json").exists() && out.join("run-1/summary.json").exists());
}

#[test]
fn a_fault_that_the_graph_cannot_get_is_refused_with_those_that_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let (code, out, err) = chaos(dir.path(), &["--kill", "source"]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("restart: { policy: on_failure }"), "{err}");
    assert!(err.contains("module 'source' can get: stop, exception"), "{err}");
    let (code, _, err) = chaos(dir.path(), &["--kill", "lane"]);
    assert!(code == 2 && err.contains("it has: source, rest"), "{err}");
    let (code, _, err) = chaos(dir.path(), &[]);
    assert!(code == 2 && err.contains("the run can get: directory, suspend, launcher"), "{err}");
}

#[test]
fn a_topic_to_watch_that_the_graph_does_not_have_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (code, _, error) = chaos(dir.path(), &["--stop", "source", "--watch", "nix"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("has no topic 'nix'; it has: "), "{error}");
}

#[test]
fn ctrl_c_ends_the_run_in_order_and_what_was_done_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = command(dir.path(), &["--kill", "rest", "--pause", "3600"]);
    let campaign = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let output = dir.path().join("out/chaos/run-1/output.txt");
    let end = Instant::now() + Duration::from_secs(60);
    while !std::fs::read_to_string(&output).is_ok_and(|t| t.contains("all modules are ready")) {
        assert!(Instant::now() < end, "the graph does not run");
        std::thread::yield_now();
    }
    let pid = Pid::from_raw(campaign.id().cast_signed()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let Output { status, stdout, stderr } = campaign.wait_with_output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(130), "{out}{err}");
    assert!(out.contains("nothing (interrupted)"), "{out}");
    assert!(dir.path().join("out/chaos/run-1/summary.json").exists());
}
