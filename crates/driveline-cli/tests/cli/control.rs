// SPDX-License-Identifier: Apache-2.0
//! `driveline status`, `stop` and `health`, during a run.

use crate::fixture::{Background, Fixture, GRAPH};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use serde_json::Value;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Starts a run that does not end by itself.
fn start(f: &Fixture, graph: &str, more: &[&str]) -> Background {
    let mut command = f.command(&[&["run", graph, "--set", "counter.limit=0"], more].concat());
    Background(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

fn ready(f: &Fixture) {
    let (code, out, err) = f.run(&["health", "--wait", "ready", "--timeout", "60"]);
    assert_eq!(code, 0, "{out}{err}");
}

fn pid(value: &Value) -> Pid {
    Pid::from_raw(i32::try_from(value.as_i64().unwrap()).unwrap()).unwrap()
}

/// The process of a module.
fn module(run: &Value, name: &str) -> Pid {
    pid(&run["processes"].as_array().unwrap().iter().find(|p| p["name"] == name).unwrap()["pid"])
}

fn left(f: &Fixture) -> Vec<String> {
    let entries = std::fs::read_dir(f.path("domain")).unwrap();
    entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_run_is_shown_is_healthy_and_ends_in_good_order_when_it_is_stopped() {
    let f = Fixture::new(GRAPH);
    let mut run = start(&f, "g.yaml", &["--report", "out"]);
    // `health --wait` also waits for a run that does not exist yet.
    ready(&f);
    let (code, out, err) = f.run(&["status"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<&str> = out.lines().collect();
    let domain = f.path("domain");
    let head = format!(
        "run 'demo' (process {}) in domain '{}': running for ",
        run.0.id(),
        domain.display()
    );
    assert!(lines[0].starts_with(&head), "{out}");
    assert_eq!(
        lines[1].split_whitespace().collect::<Vec<_>>(),
        ["MODULE", "STATE", "FOR", "PROCESS", "RESTARTS", "COMPONENTS"]
    );
    assert!(lines[2].starts_with("source  ready") && lines[2].ends_with("counter"), "{out}");
    assert!(lines[3].starts_with("rest    ready") && lines[3].ends_with("relay, printer"), "{out}");
    let status = f.json(&["status", "--json"]);
    assert_eq!((&status["phase"], &status["ready"]), (&"running".into(), &Value::Null));
    let (code, out, err) = f.run(&["health"]);
    assert!(
        code == 0 && out.lines().next().unwrap().ends_with(", ready") && err.is_empty(),
        "{out}{err}"
    );
    assert_eq!(f.json(&["health", "--json"])["ready"], true);
    // Completion gets these names from the run, without a graph file. A process that is too busy to
    // answer at once is not in the first answer.
    let modules = f.asked(&["complete", "modules"], &["rest\n", "source\n"]).1;
    assert_eq!(modules, "rest\nsource\n");
    f.asked(&["complete", "parameters"], &["counter.limit\n"]);
    assert_eq!(f.asked(&["complete", "topics"], &["a\n", "b\n"]).1, "a\nb\n");

    let (code, out, err) = f.run(&["stop", "--timeout", "60"]);
    assert_eq!(
        (code, out, err),
        (0, format!("run 'demo' (process {}) has ended\n", run.0.id()), String::new())
    );
    assert!(f.path("out/summary.json").exists(), "its report is written by then");
    assert_eq!(run.0.wait().unwrap().code(), Some(0));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert_eq!(
        (&summary["ended"]["ok"], &summary["ended"]["reason"]),
        (&true.into(), &"interrupted".into())
    );
    assert_eq!(left(&f), Vec::<String>::new());
}

/// The commands would work on the domain of the environment, not on the one that is named.
#[test]
fn a_named_domain_is_refused_if_the_environment_names_a_directory() {
    let f = Fixture::new(GRAPH);
    for command in [&["stop"][..], &["status"], &["param", "list"], &["topic", "list"]] {
        let (code, out, err) = f.run(&[command, &["--domain", "other"]].concat());
        let directory = f.path("domain");
        let text = format!("DRIVELINE_DOMAIN_DIR={} already selects", directory.display());
        assert_eq!((code, out.as_str()), (2, ""), "{command:?}: {err}");
        assert!(err.contains(&text) && err.contains("leave out `--domain`"), "{err}");
    }
}

#[test]
fn without_a_run_the_commands_say_so_and_where() {
    let f = Fixture::new(GRAPH);
    for command in [
        &["status"][..],
        &["stop"],
        &["health"],
        &["health", "--wait", "ready", "--timeout", "0.01"],
        &["status", "--json"],
    ] {
        let (code, out, err) = f.run(command);
        let domain = f.path("domain");
        let text = format!(
            "error: no run in the domain in {} (DRIVELINE_DOMAIN_DIR); `driveline run GRAPH` \
             starts one\n",
            domain.display()
        );
        assert_eq!((code, out, err), (1, String::new(), text), "{command:?}");
    }
    let (code, _, err) = f.run(&["health", "--timeout", "1"]);
    assert!(code == 2 && err.contains("--wait"), "{err}");
    let (code, _, err) = f.run(&["health", "--wait", "ended"]);
    assert!(code == 2 && err.contains("ready"), "{err}");
    let (_, bash, _) = f.run(&["completion", "bash"]);
    assert!(["status", "stop", "health", "--wait", "--run"].iter().all(|word| bash.contains(word)));
}

#[test]
fn a_module_that_is_down_or_suspended_makes_health_fail_with_its_name() {
    let f = Fixture::new(GRAPH);
    let mut run = start(&f, "g.yaml", &[]);
    ready(&f);
    let status = f.json(&["status", "--json"]);
    let source = module(&status, "source");
    kill_process(source, Signal::STOP).unwrap();
    let suspended = |f: &Fixture| f.json(&["health", "--json"])["ready"] == false;
    while !suspended(&f) {}
    let (code, out, err) = f.run(&["health", "--wait", "ready", "--timeout", "0.01"]);
    assert!(
        code == 1
            && err.contains("is not ready within 0.01 s: module 'source' is suspended by SIGSTOP"),
        "{out}{err}"
    );
    assert!(out.contains("ready, suspended"), "{out}");
    let is_suspended =
        format!("is suspended (`kill -CONT {}` lets it go on)", source.as_raw_nonzero());
    let blamed = format!("'a': module 'source' publishes it and {is_suspended}\n");
    // Module 'rest' may be too busy to answer at once.
    let (_, out, _) = f.asked(&["topic", "info", "a"], &[&blamed]);
    assert!(!out.contains("process reach"), "{out}");
    let missing = format!("module 'source' {is_suspended}: its ends of 'a' are missing here\n");
    f.asked(&["topic", "list"], &[&blamed, &missing]);
    let (_, _, err) = f.run(&["topic", "echo", "a", "--timeout", "0.01"]);
    assert!(err.contains("module 'source' publishes it and is suspended"), "{err}");
    kill_process(source, Signal::CONT).unwrap();
    ready(&f);

    kill_process(module(&status, "rest"), Signal::KILL).unwrap();
    // A module that stays down ends the wait.
    while f.json(&["status", "--json"])["processes"][1]["state"] != "down" {}
    let (code, out, err) = f.run(&["health", "--wait", "ready", "--timeout", "600"]);
    assert_eq!(code, 1);
    let why = format!(
        "error: run 'demo' (process {}) is not ready: module 'rest' is down: the graph does not \
         restart it",
        run.0.id()
    );
    assert!(err.starts_with(&why), "{err}");
    assert!(
        out.contains("last fault of 'rest', ") && out.contains("was killed by SIGKILL"),
        "{out}"
    );
    assert_eq!(f.run(&["stop"]).0, 0, "the run has ended");
    assert_eq!(run.0.wait().unwrap().code(), Some(4), "the run itself ends as after Ctrl-C");
}

#[test]
fn of_several_runs_in_a_domain_one_is_named() {
    let f = Fixture::new(GRAPH);
    std::fs::write(
        f.path("other.yaml"),
        GRAPH.replace("name: demo", "name: other").replace("a: {", "c: {").replace(": a}", ": c}"),
    )
    .unwrap();
    let mut demo = start(&f, "g.yaml", &[]);
    ready(&f);
    let mut other = start(&f, "other.yaml", &[]);
    let (code, out, err) =
        f.run(&["health", "--run", "other", "--wait", "ready", "--timeout", "60"]);
    assert_eq!(code, 0, "{out}{err}");
    for command in ["status", "health", "stop"] {
        let (code, out, err) = f.run(&[command]);
        assert!(
            code == 1
                && err.contains("there are several runs in the domain in ")
                && err.contains("add `--run`"),
            "{err}"
        );
        let lines: Vec<Vec<&str>> = out.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[0], ["RUN", "ID", "PROCESS", "PHASE", "FOR", "MODULES"]);
        assert!(
            ["demo", "other"].iter().all(|name| lines[1..].iter().any(|l| l[0] == *name)),
            "{out}"
        );
    }
    let id = f.json(&["status", "--run", "demo", "--json"])["id"].as_str().unwrap().to_owned();
    assert_eq!(f.json(&["status", "--run", &id[..8], "--json"])["graph"], "demo");
    let (code, _, err) = f.run(&["stop", "--run", &id[..3]]);
    assert!(code == 1 && err.contains("; write at least 4 digits of an id: "), "{err}");
    let (code, _, err) = f.run(&["stop", "--run", "third"]);
    assert!(
        code == 1
            && err.contains("no run 'third' in")
            && err.contains("'demo'")
            && err.contains("'other'"),
        "{err}"
    );

    assert_eq!(f.run(&["stop", "--run", "other"]).0, 0);
    assert_eq!(other.0.wait().unwrap().code(), Some(0));
    ready(&f);
    assert_eq!(f.run(&["stop"]).0, 0);
    assert_eq!(demo.0.wait().unwrap().code(), Some(0));
}

#[test]
fn a_run_that_does_not_end_is_named_with_what_holds_it_up_and_a_second_stop_kills() {
    let f =
        Fixture::new(&GRAPH.replace("class: Printer,", "class: Printer, parameters: {hang: 1},"));
    let mut run = start(&f, "g.yaml", &[]);
    ready(&f);
    let (code, _, err) = f.run(&["stop", "--timeout", "0.6"]);
    assert_eq!(code, 1);
    assert!(
        err.contains("has not ended within 0.6 s: the run is ending; module 'rest' is ending"),
        "{err}"
    );
    assert!(err.contains("a second `driveline stop` kills"), "{err}");
    assert_eq!(f.run(&["stop"]).0, 0);
    assert_eq!(run.0.wait().unwrap().code(), Some(5));
}

/// Also if a module is suspended: the kernel lets it go on.
#[test]
fn a_killed_launcher_leaves_an_empty_directory_once_its_modules_have_ended() {
    for suspended in [false, true] {
        let f = Fixture::new(GRAPH);
        let mut run = start(&f, "g.yaml", &[]);
        ready(&f);
        let status = f.json(&["status", "--json"]);
        let modules = ["source", "rest"].map(|name| module(&status, name));
        let ends = modules.map(|m| pidfd_open(m, PidfdFlags::empty()).unwrap());
        if suspended {
            kill_process(modules[0], Signal::STOP).unwrap();
            f.json_until(&["status", "--json"], |run| run["processes"][0]["suspended"] == true);
        }
        run.0.kill().unwrap();
        run.0.wait().unwrap();
        for module in &ends {
            poll(&mut [PollFd::new(module, PollFlags::IN)], None).unwrap();
        }
        assert_eq!(left(&f), Vec::<String>::new());
        assert_eq!(f.run(&["status"]).0, 1);
    }
}

#[test]
fn a_launcher_that_is_suspended_is_named() {
    let f = Fixture::new(GRAPH);
    let run = start(&f, "g.yaml", &[]);
    ready(&f);
    let launcher = Pid::from_raw(run.0.id().cast_signed()).unwrap();
    kill_process(launcher, Signal::STOP).unwrap();
    let (code, _, err) = f.run(&["status"]);
    assert!(
        code == 1
            && err.contains(&format!(
                "did not respond within 2 s: process {} may be suspended",
                run.0.id()
            )),
        "{err}"
    );
    kill_process(launcher, Signal::CONT).unwrap();
    ready(&f);
}

#[test]
fn a_client_that_sends_half_a_line_does_not_disturb_a_run() {
    let f = Fixture::new(GRAPH);
    let mut run = start(&f, "g.yaml", &[]);
    ready(&f);
    let name = left(&f).into_iter().find(|name| name.ends_with(".control")).unwrap();
    let clients: Vec<UnixStream> =
        (0..17).map(|_| UnixStream::connect(f.path("domain").join(&name)).unwrap()).collect();
    clients.iter().for_each(|mut client| drop(client.write_all(b"{\"verb\":")));
    ready(&f);
    // Tools do not mistake the control socket for a node: the list has only the nodes of the run,
    // once both processes answer in time.
    let nodes = f.asked(&["node", "list", "--json"], &["counter", "relay", "printer"]).1;
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    assert_eq!(nodes.as_array().unwrap().len(), 3, "{nodes}");
    assert_eq!(f.run(&["stop"]).0, 0);
    assert_eq!(run.0.wait().unwrap().code(), Some(0));
}

#[test]
fn of_two_launchers_that_start_together_one_is_refused_and_names_the_other() {
    let f = Fixture::new(&GRAPH.replace("limit: 20", "limit: 0"));
    let start = || {
        let mut command = f.command(&["run", "g.yaml"]);
        Background(command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut both = [start(), start()];
    let pids = [both[0].0.id(), both[1].0.id()];
    let end = Instant::now() + Duration::from_secs(60);
    let (refused, code) = loop {
        let ended = both.iter_mut().map(|run| run.0.try_wait().unwrap());
        if let Some((i, status)) = ended.enumerate().find_map(|(i, s)| Some((i, s?))) {
            break (i, status.code());
        }
        assert!(Instant::now() < end, "both run");
        std::thread::yield_now();
    };
    assert_eq!(code, Some(1));
    let mut text = String::new();
    both[refused].0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    let other = pids[1 - refused];
    let expected =
        format!("another launcher, process {other}, runs graph 'demo' in this domain already");
    assert!(text.contains(&expected), "{text}");
    let (code, _, err) = f.run(&["stop"]);
    assert_eq!(code, 0, "{err}");
}
