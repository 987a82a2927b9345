// SPDX-License-Identifier: Apache-2.0
//! Runs: their output, what other commands show of them, and their end.

use crate::fixture::{Background, Fixture, GRAPH, host};
use driveline::{Context, ContextOptions, PublisherOptions, Reach};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

#[test]
fn a_run_prints_its_modules_and_leaves_figures_and_a_report() {
    let f = Fixture::new(GRAPH);
    let run = || {
        f.run(&[
            "run",
            "g.yaml",
            "--report",
            "out/x",
            "--speed-kmh",
            "100",
            "--set",
            "counter.limit=30",
        ])
    };
    // If a module gets no processor for 0.3 s at the end of a run, the launcher considers its work
    // done. So the run is repeated until all numbers are printed.
    let of_all = |(_, out, _): &(i32, String, String)| out.contains("printer got 30\n");
    let (code, out, err) = (0..4).map(|_| run()).find(of_all).unwrap_or_else(run);
    assert_eq!(code, 0, "{out}{err}");
    for part in [
        "Z the domain in ",
        "rest      | printer got 1\n",
        "rest      | printer got 30\n",
        "demo: ",
        "30 samples of sources",
        "a → printer",
        "WAY AT 100 km/h",
        "'counter' has finished",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}{err}");
    }
    assert!(!out.contains('\x1b'), "no colours in a pipe");
    assert!(std::fs::read_to_string(f.path("out/x/report.html")).unwrap().contains("<html"));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/x/summary.json")).unwrap())
            .unwrap();
    assert_eq!(summary["frames_published"], 30);
    assert_eq!(summary["facts"][0]["text"], "none, this is a test");
    assert_eq!(
        (&summary["ended"]["reason"], &summary["ended"]["ok"]),
        (&"finished".into(), &true.into())
    );
    let printer = summary["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["stage"] == "printer")
        .unwrap();
    assert_eq!((&printer["received"], &printer["missed"]), (&Value::from(30), &Value::from(0)));
    let age = &summary["end_to_end"][0];
    let parts: f64 = ["communication_us", "computation_us", "idle_us"]
        .iter()
        .map(|p| age["p50"][p].as_f64().unwrap())
        .sum();
    assert!((parts - age["age_us"]["p50"].as_f64().unwrap()).abs() < 0.01, "{age}");
}

#[test]
fn published_samples_count_without_readers() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["run", "g.yaml", "--module", "source", "--report", "out"]);
    assert_eq!(code, 0, "{out}{err}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert_eq!(
        (&summary["frames_published"], &summary["published"]["a"]),
        (&20.into(), &20.into()),
        "{summary}"
    );
}

#[test]
fn a_run_in_json_is_one_record_per_line() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["run", "g.yaml", "--json"]);
    assert_eq!(code, 0, "{err}");
    let records: Vec<Value> = out.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let kinds: Vec<&str> = records.iter().map(|r| r["kind"].as_str().unwrap()).collect();
    assert!(kinds.contains(&"event") && kinds.contains(&"output"), "{kinds:?}");
    let end = records.last().unwrap();
    assert_eq!(
        (&end["kind"], &end["exit_code"], &end["summary"]["frames_published"]),
        (&"end".into(), &0.into(), &20.into())
    );
}

#[test]
fn failed_calls_of_callbacks_and_timers_are_counted_and_reported_at_the_end() {
    let f = Fixture::new(GRAPH);
    let settings =
        ["--set", "counter.fail_on=3", "--set", "counter.panic_on=4", "--set", "relay.fail_on=5"];
    let (code, out, err) = f.run(&[&["run", "g.yaml", "--report", "out"], &settings[..]].concat());
    assert_eq!(code, 6, "{out}{err}");
    assert!(
        err.contains("error: work was not done: 2 of ")
            && err.contains(" calls of counter failed, 1 of "),
        "{err}"
    );
    assert!(err.contains(" calls of relay failed; first "), "{err}");
    assert!(out.contains(", 3 failures\n"), "{out}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    let failed = |stage: &str| {
        let stages = summary["stages"].as_array().unwrap();
        stages.iter().find(|s| s["stage"] == stage).unwrap()["failed"].clone()
    };
    assert_eq!(
        (failed("counter"), failed("relay"), failed("printer")),
        (2.into(), 1.into(), 0.into())
    );
    let text = summary["failures"].to_string();
    for part in ["counter: asked to fail", "counter: panicked: asked to panic", "relay at a #5: "] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(
        std::fs::read_to_string(f.path("out/report.html"))
            .unwrap()
            .contains("Calls failed in this run.")
    );
}

/// The program that runs instead of `driveline-host` prints before it runs a module, as a component
/// may do.
#[test]
fn what_modules_print_cannot_turn_the_direction_of_a_line() {
    let f = Fixture::new(GRAPH);
    let prints = "printf 'left\u{202e}right\\n'; printf 'a\u{202e}b\\n' >&2";
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = run ] && {{ {prints}; }}\nexec '{}' \"$@\"\n",
        host().display()
    );
    // A file that this process holds open for writing cannot be started.
    let write = ["-c", r#"printf '%s' "$1" > "$0" && chmod 755 "$0""#];
    let made = Command::new("sh").args(write).arg(f.path("host")).arg(text).status().unwrap();
    assert!(made.success());
    let mut command = f.command(&["run", "g.yaml"]);
    let Output { status, stdout, stderr } =
        command.env("DRIVELINE_HOST", f.path("host")).output().unwrap();
    let (out, err) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
    assert_eq!(status.code(), Some(0), "{out}{err}");
    assert!(out.contains("rest      | left\u{fffd}right\n"), "{out}");
    assert!(err.contains("rest      | a\u{fffd}b\n"), "{err}");
    assert!(!out.contains('\u{202e}') && !err.contains('\u{202e}'), "{out}{err}");
}

/// Makes the relay keep the last two samples: as many as its input may hold (`max_held`).
const KEEPS: &str = "--set=relay.keep=2";

#[test]
fn a_report_that_cannot_be_written_does_not_hide_the_end_of_the_run() {
    for (set, expected) in
        [(&["--set", "counter.limit=250"][..], 1), (&[KEEPS, "--set", "counter.limit=250"], 6)]
    {
        let f = Fixture::new(&GRAPH.replace("qos: {depth: 64}", "qos: {depth: 1}"));
        std::fs::create_dir_all(f.path("out/summary.json")).unwrap();
        let arguments: Vec<&str> =
            ["run", "g.yaml", "--report", "out"].iter().chain(set).copied().collect();
        let (code, out, err) = f.run(&arguments);
        assert_eq!(code, expected, "{out}{err}");
        assert!(out.ends_with("ended: 'counter' has finished\n"), "{out}");
        assert!(err.contains("cannot write") && err.contains("summary.json"), "{err}");
        assert_eq!(err.contains("work was not done"), expected == 6, "{err}");
    }
}

#[test]
fn a_component_that_keeps_its_samples_is_named_on_the_screen_in_the_report_and_by_the_exit_code() {
    let one_module =
        GRAPH.replace("  rest:\n    components:\n", "").replace("reach: host", "reach: process");
    for graph in [GRAPH, &one_module] {
        let f = Fixture::new(&graph.replace("qos: {depth: 64}", "qos: {depth: 1}"));
        let arguments = [
            "run",
            "g.yaml",
            KEEPS,
            "--set",
            "counter.limit=250",
            "--report",
            "out",
            "--interval",
            "1",
        ];
        let (code, out, err) = f.run(&arguments);
        assert_eq!(code, 6, "{out}{err}");
        let text = "relay was not called for topic 'a' while it kept 2 of its samples";
        for part in [
            "247 missed by triggers, 1 not read",
            "NOT READ",
            "relay keeps 2 samples of 'a', which is max_held of its input 'in'",
            text,
        ] {
            assert!(out.contains(part), "{part:?} is not in\n{out}{err}");
        }
        assert!(out.ends_with("ended: 'counter' has finished\n"), "{out}");
        assert!(err.ends_with(&format!("error: work was not done: {text}\n")), "{err}");
        let summary: Value =
            serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
                .unwrap();
        let problem = &summary["problems"][0];
        assert_eq!(
            (&problem["kind"], &problem["stage"], &problem["topic"]),
            (&"samples_kept".into(), &"relay".into(), &"a".into())
        );
        let relay = summary["subscriptions"]
            .as_array()
            .unwrap()
            .iter()
            .find(|s| s["stage"] == "relay")
            .unwrap();
        assert_eq!(
            [&relay["received"], &relay["missed"], &relay["not_read"]],
            [&Value::from(2), &247.into(), &1.into()]
        );
        assert!(
            std::fs::read_to_string(f.path("out/report.html"))
                .unwrap()
                .contains("This run did not do all of its work.")
        );
    }
}

/// Compares the lines that the components print with three counts of `summary.json`: received,
/// missed and not read. No other test does this.
#[test]
fn counts_of_both_ends_are_what_the_components_print() {
    for (reach, depth) in [("host", 64), ("host", 2), ("process", 2)] {
        let graph = GRAPH.replace("depth: 64", &format!("depth: {depth}"));
        let graph = if reach == "host" {
            graph
        } else {
            graph.replace("reach: host", "reach: process").replace("  rest:\n    components:\n", "")
        };
        let f = Fixture::new(&graph);
        let set = ["--set", "counter.limit=60", "--set", "relay.take_ms=25"];
        let (code, out, err) = f.run(&[&["run", "g.yaml", "--report", "out"], &set[..]].concat());
        assert_eq!(code, 0, "{out}{err}");
        let printed = out.lines().filter(|l| l.contains("printer got ")).count() as u64;
        let summary = std::fs::read_to_string(f.path("out/summary.json")).unwrap();
        let summary: Value = serde_json::from_str(&summary).unwrap();
        let inputs = summary["subscriptions"].as_array().unwrap();
        let of = |stage: &str, key: &str| {
            inputs.iter().find(|s| s["stage"] == stage).unwrap()[key].clone()
        };
        let n = |stage: &str, key: &str| of(stage, key).as_u64().unwrap();
        let what = format!("{reach}, depth {depth}: {inputs:?}");
        // Each call of the relay publishes a number, and the printer has time for all of them.
        assert_eq!(
            (n("relay", "received"), n("printer", "received")),
            (printed, printed),
            "{what}"
        );
        assert_eq!(n("relay", "missed") + n("relay", "not_read"), 60 - printed, "{what}");
        // Inside one process, one thread runs the components in turn, so the relay misses nothing.
        assert_eq!(n("relay", "missed") > 0, (reach, depth) == ("host", 2), "{what}");
        for stage in ["relay", "printer"] {
            assert_eq!(
                (n(stage, "not_connected"), of(stage, "checked")),
                (0, true.into()),
                "{what}"
            );
        }
    }
}

#[test]
fn what_waits_at_ctrl_c_is_not_read_and_leaves_the_exit_code_alone() {
    let f = Fixture::new(GRAPH);
    let settings = ["--set", "counter.limit=0", "--set", "relay.take_ms=300", "--report", "out"];
    let mut command = f.command(&[&["run", "g.yaml"], &settings[..]].concat());
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    // Numbers come thirty times as fast as the relay takes them.
    assert!(lines.by_ref().any(|l| l.contains("printer got 3")));
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out: String = lines.map(|l| l + "\n").collect();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "{out}");
    assert!(
        out.contains(" not read, ")
            && out.contains("NOT READ")
            && out.ends_with("ended as asked\n"),
        "{out}"
    );
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert!(
        summary["not_read_by_triggers"].as_u64() > Some(0)
            && summary["problems"] == Value::Array(vec![]),
        "{summary}"
    );
    assert!(
        !std::fs::read_to_string(f.path("out/report.html"))
            .unwrap()
            .contains("Every sample that was to be worked on")
    );
}

#[test]
fn ctrl_c_while_the_work_of_a_finished_component_is_done_ends_the_run_as_asked() {
    // The relay has 18 seconds of work left when its source has finished.
    let f = Fixture::new(&GRAPH.replace("in: a", "in: {topic: a, qos: {depth: 64}}"));
    let settings = ["--set", "counter.limit=60", "--set", "relay.take_ms=300", "--report", "out"];
    let mut command = f.command(&[&["run", "g.yaml"], &settings[..]].concat());
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("has finished; the run ends")));
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out: String = lines.map(|l| l + "\n").collect();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "{out}");
    assert!(out.contains(" not read, ") && out.ends_with("ended as asked\n"), "{out}");
    let summary = std::fs::read_to_string(f.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    assert_eq!(summary["ended"]["reason"], "interrupted", "{summary}");
    assert!(summary["not_read_by_triggers"].as_u64() > Some(0), "{summary}");
}

#[test]
fn another_run_that_uses_the_same_topics_is_named() {
    let f = Fixture::new(GRAPH);
    let mut command = f.command(&["run", "g.yaml", "--set", "counter.limit=0"]);
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("printer got 1")));
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    std::fs::write(f.path("h.yaml"), GRAPH.replace("name: demo", "name: second")).unwrap();
    let (code, _, err) = f.run(&["run", "h.yaml", "--module", "source"]);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert_eq!(code, 0, "{err}");
    assert!(
        err.contains(&format!("warning: topic 'a': run 'demo' (process {})", child.0.id())),
        "{err}"
    );
    child.0.wait().unwrap();
}

/// Sends the signal to the whole process group, as a terminal does.
#[test]
fn ctrl_c_at_each_step_of_a_start_ends_the_run_as_asked() {
    let steps = ["the domain in ", "'source' started", "'rest' started", "printer is ready"];
    for step in [&steps[..], &["running", "printer got 1"]].concat() {
        let f = Fixture::new(GRAPH);
        let mut command = f.command(&["run", "g.yaml", "--set", "counter.limit=0"]);
        command.process_group(0).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Background(command.spawn().unwrap());
        let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.by_ref().any(|l| l.contains(step)), "{step}");
        let group = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
        let out: String = lines.map(|l| l + "\n").collect();
        let mut err = String::new();
        child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
        assert_eq!((child.0.wait().unwrap().code(), err.as_str()), (Some(0), ""), "{step}: {out}");
        assert!(out.ends_with("ended as asked\n") && !out.contains("SIGINT"), "{step}: {out}");
    }
}

/// The signal also ends the process that describes a library.
#[test]
fn ctrl_c_while_the_graph_is_checked_ends_the_run_as_asked() {
    let f = Fixture::new(GRAPH);
    let write =
        ["-c", r#"printf '#!/bin/sh\nkill -INT 0\nexec sleep 60\n' > host && chmod 755 host"#];
    assert!(Command::new("sh").args(write).current_dir(f.dir.path()).status().unwrap().success());
    let mut command = f.command(&["run", "g.yaml"]);
    let run = command.env("DRIVELINE_HOST", f.path("host")).process_group(0).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    assert_eq!(
        (run.status.code(), text(run.stdout), text(run.stderr)),
        (Some(0), "ended as asked\n".into(), String::new())
    );
}

#[test]
fn a_module_that_is_suspended_until_the_run_ends_is_named_and_all_it_did_not_read_is_counted() {
    for interrupted in [false, true] {
        suspended_until_the_end(interrupted);
    }
}

fn suspended_until_the_end(interrupted: bool) {
    let f = Fixture::new(&GRAPH.replace("qos: {depth: 64}", "qos: {depth: 4}"));
    let limit = if interrupted { "counter.limit=0" } else { "counter.limit=300" };
    let mut command = f.command(&["run", "g.yaml", "--set", limit, "--report", "out"]);
    let mut child =
        Background(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let started = lines.by_ref().find(|l| l.contains("module 'rest' started as process ")).unwrap();
    assert!(lines.by_ref().any(|l| l.contains("printer got 1")));
    let rest: i32 = started.rsplit(' ').next().unwrap().parse().unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(rest).unwrap(),
        rustix::process::Signal::STOP,
    )
    .unwrap();
    assert!(lines.by_ref().any(|l| l.contains("module 'rest' is suspended and does nothing")));
    if interrupted {
        let launcher = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
        rustix::process::kill_process(launcher, rustix::process::Signal::INT).unwrap();
    }
    let out: String = lines.map(|l| l + "\n").collect();
    let mut err = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(6), "{out}{err}");
    assert!(
        err.ends_with("error: work was not done: 'rest' was suspended when the run ended\n"),
        "{err}"
    );
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    let relay = summary["subscriptions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|s| s["stage"] == "relay")
        .unwrap();
    let of = |key: &str| relay[key].as_u64().unwrap();
    // Readers end before publishers: a source without an end publishes on for a moment.
    let all = ["received", "missed", "not_read", "not_connected"].map(of).iter().sum::<u64>();
    assert_eq!(summary["published"]["a"].as_u64(), Some(all), "{relay}");
    assert!(interrupted || (all, of("not_connected")) == (300, 0), "{relay}");
    assert!((interrupted || of("missed") > 0) && relay["unknown"].is_null(), "{relay}");
}

#[test]
fn a_connection_that_never_existed_is_named_and_ends_the_run_with_exit_code_6() {
    let private = tempfile::tempdir().unwrap();
    let environment = format!(
        "  rest:\n    environment: {{DRIVELINE_DOMAIN_DIR: {}/domain}}\n",
        private.path().display()
    );
    let f = Fixture::new(&GRAPH.replace("  rest:\n", &environment));
    let (code, out, err) = f.run(&["run", "g.yaml", "--report", "out"]);
    assert_eq!(code, 6, "{out}{err}");
    let text = "error: work was not done: relay never received topic 'a' from counter; relay was \
         never called; printer was never called\n";
    assert!(err.ends_with(text), "{err}");
    assert!(
        out.contains("relay never received topic 'a' from counter: 'relay' is not seen in "),
        "{out}"
    );
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert_eq!(summary["problems"][0]["kind"], "not_connected", "{summary}");
}

/// Two runs in the directory of a group; `DRIVELINE_DOMAIN_DIR` is not set.
#[test]
fn runs_share_the_directory_of_a_group_which_only_members_can_enter() {
    use std::os::unix::fs::MetadataExt;
    // Root may give a directory to any group, but graphs must not name root's own group.
    let group = match rustix::process::getegid().as_raw() {
        0 => 4000,
        group => group,
    };
    let domain = format!("shared-{}", std::process::id());
    let place = std::path::PathBuf::from(format!("/dev/shm/driveline-group-{group}-{domain}"));
    let keys = format!("name: demo\ndomain: {domain}\ndomain_group: {group}\n");
    let f = Fixture::new(&GRAPH.replace("name: demo\n", &keys));
    for _ in 0..2 {
        let mut command = f.command(&["run", "g.yaml"]);
        let Output { status, stdout, stderr } =
            command.env_remove("DRIVELINE_DOMAIN_DIR").output().unwrap();
        let out = String::from_utf8_lossy(&stdout);
        assert!(status.success(), "{out}{}", String::from_utf8_lossy(&stderr));
        let list = format!("DRIVELINE_DOMAIN_DIR={} driveline topic list", place.display());
        assert!(out.contains(&list) && out.contains("printer got 20"), "{out}");
        let meta = std::fs::metadata(&place).unwrap();
        assert_eq!((meta.gid(), meta.mode() & 0o7777), (group, 0o1770));
    }
    std::fs::remove_dir_all(&place).unwrap();
}

#[test]
fn calls_of_services_are_counted_by_what_became_of_them() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["run", "g.yaml", "--report", "out", "--set", "relay.ask=5"]);
    assert_eq!(code, 0, "{out}{err}");
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<String> = out.lines().map(words).collect();
    for line in [
        "SERVICE CALLS ANSWERED FAILED TIMED OUT",
        "relay calls odd 5 3 2 0",
        "relay serves odd 5 3 2 -",
    ] {
        assert!(lines.iter().any(|l| l == line), "{line} is not in\n{out}");
    }
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    let [client, server] = summary["services"].as_array().unwrap().as_slice() else {
        panic!("{summary}")
    };
    assert_eq!(
        (&client["end"], &server["end"], &client["service"]),
        (&"client".into(), &"server".into(), &"odd".into())
    );
    assert_eq!(
        (&client["calls"], &client["answered"], &client["refused"]),
        (&5.into(), &3.into(), &2.into()),
        "{client}"
    );
    assert!(
        std::fs::read_to_string(f.path("out/report.html"))
            .unwrap()
            .contains("<th>relay</th><th>odd</th><th>client</th><td>5</td>")
    );
}

#[test]
fn a_report_that_could_not_be_written_is_known_before_the_run() {
    let f = Fixture::new(GRAPH);
    let (code, out, err) = f.run(&["run", "g.yaml", "--report", "lib"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert_eq!(
        err,
        "error: --report lib: this is a file; name the directory into which report.html and \
         summary.json are to go\n"
    );
    let (code, out, err) = f.run(&["run", "g.yaml", "--report", "lib/out"]);
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(
        err.contains("--report lib/out: the directory cannot be made: Not a directory"),
        "{err}"
    );
}

#[test]
fn a_crash_has_an_exit_code_and_a_reason() {
    let f = Fixture::new(GRAPH);
    let (code, _, err) = f.run(&["run", "g.yaml", "--set", "relay.abort_on=5"]);
    assert_eq!(code, 4, "{err}");
    assert!(err.contains("error: failed: module 'rest' was killed by SIGABRT"), "{err}");
    assert!(
        err.contains(
            "while running: in component 'relay' in on_trigger on sample 5 of 'a'\nhelp: "
        ),
        "{err}"
    );
    let debugged = "--module rest --set 'relay.abort_on=5'; what it reads comes from `driveline \
         run g.yaml --module source --set 'relay.abort_on=5'`";
    assert!(err.contains(debugged), "{err}");
    let (code, out, err) =
        f.run(&["run", "g.yaml", "--set", "relay.fail_init=1", "--report", "out"]);
    assert_eq!(code, 4);
    let last = "error: failed: module 'rest' exited with code 1 while starting: component 'relay' \
         cannot start: asked to fail\n";
    assert!(err.ends_with(last), "{err}");
    assert!(!out.contains("COMPONENT"), "no table of zeros: {out}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    let ended = &summary["ended"];
    assert_eq!(
        (&ended["ok"], &ended["module"], &ended["exit_code"]),
        (&false.into(), &"rest".into(), &1.into())
    );
    assert!(
        std::fs::read_to_string(f.path("out/report.html")).unwrap().contains("This run failed.")
    );
}

#[test]
fn what_runs_is_listed_and_ctrl_c_ends_it_in_good_order() {
    let f = Fixture::new(GRAPH);
    let child = f
        .command(&["run", "g.yaml", "--set", "counter.limit=0"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Background(child);
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("printer got 3")));
    // A full pipe would stop the launcher, which then answers no command.
    let rest = std::thread::spawn(move || lines.collect::<Vec<String>>());

    let (code, out, _) = f.asked(&["topic", "list"], &["2 host topics"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("TOPIC  TYPE") && out.contains("demo/Count"), "{out}");
    assert!(
        out.ends_with(&format!(
            "2 host topics in the domain in {} (DRIVELINE_DOMAIN_DIR)\n",
            f.path("domain").display()
        )),
        "{out}"
    );
    // The publisher of 'a' and its subscription are in two processes, which answer separately.
    let both = |list: &Value| list[0]["publishers"] == 1 && list[0]["subscriptions"] == 1;
    let list = f.json_until(&["topic", "list", "--json"], both);
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|t| t["topic"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b"]);

    let words = [
        "type demo/Count (bytes, ",
        "publisher counter in process",
        "demo/source",
        "depth 64",
        "→ relay (process",
        "subscription relay",
        "← counter",
    ];
    f.asked(&["topic", "info", "a"], &words);
    f.asked(&["topic", "info", "/a"], &words);
    let (code, _, err) = f.run(&["topic", "info", "c"]);
    assert_eq!(code, 1);
    assert!(err.contains("did you mean 'a'? there are: a, b"), "{err}");

    let (_, nodes, _) = f.asked(&["node", "list", "--json"], &["\"counter\"", "\"relay\""]);
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    let relay = nodes.as_array().unwrap().iter().find(|n| n["node"] == "relay").unwrap();
    assert_eq!(
        (&relay["subscribes"][0], &relay["publishes"][0], &relay["about"]["module"]),
        (&"a".into(), &"b".into(), &"rest".into())
    );

    let (code, _, err) = f.run(&["run", "g.yaml"]);
    assert_eq!(code, 1);
    let launcher = child.0.id();
    let other = format!(
        "another launcher, process {launcher}, runs graph 'demo' in this domain already, with \
         modules 'source', 'rest'; `driveline stop --run 'demo'` ends that run"
    );
    assert!(err.contains(&other), "{err}");

    // A suspended module does not vanish from the list.
    let pid = nodes.as_array().unwrap().iter().find(|n| n["node"] == "relay").unwrap()["pid"]
        .as_i64()
        .unwrap();
    let pid = rustix::process::Pid::from_raw(pid as i32).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let (code, out, err) = f.asked(&["node", "list"], &["counter"]);
    assert_eq!((code, out.contains("relay")), (0, false), "{out}");
    assert!(
        err.contains(&format!(
            "warning: rest (pid {pid}): is suspended; `kill -CONT {pid}` lets it go on\n"
        )),
        "{err}"
    );
    assert!(f.run(&["topic", "list"]).2.contains("warning: rest (pid"));
    rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();

    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let rest = rest.join().unwrap();
    let at = |text: &str| {
        rest.iter()
            .position(|l| l.contains(text))
            .unwrap_or_else(|| panic!("{text} is not in {rest:#?}"))
    };
    assert!(at("module 'rest' has ended") < at("module 'source' has ended"));
    at("ended as asked");
    assert_eq!(child.0.wait().unwrap().code(), Some(0));

    let place = format!("the domain in {} (DRIVELINE_DOMAIN_DIR)", f.path("domain").display());
    assert_eq!(
        f.run(&["topic", "list"]).1,
        format!("no host topics in {place}: the domain is empty now\n")
    );
    assert_eq!(f.json(&["node", "list", "--json"]), Value::Array(vec![]));
}

#[test]
fn topics_with_one_side_only_say_what_cannot_be_seen() {
    let graph = GRAPH.replace("  a: {reach: host,", "  a: {reach: host, external: true,");
    let f = Fixture::new(&graph);
    let mut command = f.command(&["run", "g.yaml", "--module", "rest"]);
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut lines = lines;
    assert!(lines.any(|l| l.contains("all modules are ready")));
    let line = "no process publishes 'a' here, unless with `reach: process`, which other processes \
         cannot see\n";
    let (code, out, _) = f.asked(&["topic", "list"], &[line]);
    assert!(code == 0 && !out.contains("listens to"), "{out}");
    assert!(f.asked(&["topic", "info", "a"], &[line]).1.ends_with(line));
    assert!(!f.asked(&["topic", "info", "b"], &["printer"]).1.contains("no process "));
}

#[test]
fn a_run_in_which_nothing_arrives_has_lasted_all_the_same() {
    let f =
        Fixture::new(&GRAPH.replace("  a: {reach: host,", "  a: {reach: host, external: true,"));
    let mut command = f.command(&["run", "g.yaml", "--module", "rest", "--report", "out"]);
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("all modules are ready")));
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(lines.any(|l| l.contains("relay was never called: nothing came on topic 'a'")));
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert!(summary["duration_s"].as_f64() > Some(0.0), "{summary}");
}

#[test]
fn a_refused_connection_is_reported_at_the_end_and_in_the_report() {
    let f =
        Fixture::new(&GRAPH.replace("  a: {reach: host,", "  a: {reach: host, external: true,"));
    let context = Context::new(ContextOptions {
        name: "elsewhere".into(),
        domain_dir: Some(f.path("domain")),
    })
    .unwrap();
    let options = PublisherOptions { reach: Reach::Host, ..PublisherOptions::default() };
    let _publisher = context.node("camera").unwrap().bytes_publisher("a", "raw", options).unwrap();
    let mut command =
        f.command(&["run", "g.yaml", "--module", "rest", "--report", "out", "--interval", "1"]);
    let mut child = Background(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(
        lines.by_ref().any(|l| l.starts_with("relay reports a connection problem: topic 'a': ")),
        "it is shown while the run goes on"
    );
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let out: String = lines.map(|l| l + "\n").collect();
    assert_eq!(child.0.wait().unwrap().code(), Some(0), "{out}");
    assert!(
        out.contains(
            "relay was never called: nothing came on topic 'a', and a connection of \
         its was refused\n"
        ),
        "{out}"
    );
    let note = "The port 'in' of relay reports a connection problem: topic 'a': ";
    assert!(out.contains(note) && out.contains("connect one of them to another topic"), "{out}");
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert!(summary["notes"][0].as_str().unwrap().starts_with(note), "{summary}");
    assert!(
        std::fs::read_to_string(f.path("out/report.html"))
            .unwrap()
            .contains("of relay reports a connection problem")
    );
}

#[test]
fn what_hangs_is_shown_as_long_as_it_does_and_can_be_ended() {
    let f = Fixture::new(GRAPH);
    let settings = [
        "--set",
        "relay.hang_on=3",
        "--set",
        "counter.limit=0",
        "--interval",
        "1",
        "--report",
        "out",
    ];
    let mut command = f.command(&[&["run", "g.yaml"], &settings[..]].concat());
    let mut child =
        Background(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let line = lines.by_ref().find(|l| l.starts_with("no result from ")).unwrap();
    let inside = "s (in on_trigger on sample 3 of 'a'; ";
    assert!(line.starts_with("no result from relay for ") && line.contains(inside), "{line}");
    assert!(line.contains(" newer published since, waiting or missed)"), "{line}");
    let pid = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TSTP).unwrap();
    assert!(
        lines.by_ref().any(|l| l.contains("a run cannot be suspended")),
        "Ctrl-Z must not leave the modules without a launcher"
    );
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    assert!(lines.by_ref().any(|l| l.contains("stopping")));
    // time: a second signal that comes sooner counts as the first one; a later one is fine
    std::thread::sleep(Duration::from_millis(600));
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let errors = BufReader::new(child.0.stderr.take().unwrap()).lines().map(Result::unwrap);
    let rest: Vec<String> = lines.chain(errors).collect();
    let killed = "module 'rest' was interrupted again (component 'relay' in on_trigger on sample 3 \
         of 'a'): killed";
    assert!(rest.iter().any(|l| l.ends_with(killed)), "{rest:#?}");
    let last = "error: killed because they had not stopped: ";
    assert!(rest.last().is_some_and(|l| l.starts_with(last) && l.contains("rest")), "{rest:#?}");
    assert!(rest.iter().all(|l| !l.contains("from outside")), "{rest:#?}");
    assert_eq!(child.0.wait().unwrap().code(), Some(5));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert_eq!(
        (&summary["ended"]["reason"], &summary["ended"]["ok"]),
        (&"interrupted".into(), &false.into())
    );
    // More than two seconds of numbers came after the third.
    assert!(summary["not_read_by_triggers"].as_u64() > Some(0), "{summary}");
    let html = std::fs::read_to_string(f.path("out/report.html")).unwrap();
    assert!(
        html.contains("samples of &#39;a&#39; were not read by relay")
            || html.contains("samples of 'a' were not read by relay"),
        "{html}"
    );
    assert!(!html.contains("Every sample that was to be worked on was worked on."), "{html}");
}

#[test]
fn a_component_that_hangs_in_its_first_call_was_called_and_did_not_return() {
    let f = Fixture::new(GRAPH);
    let settings = ["--set", "relay.hang_on=1", "--set", "counter.limit=0", "--interval", "1"];
    let mut command = f.command(&[&["run", "g.yaml"], &settings[..]].concat());
    let mut child =
        Background(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let hangs = "no result from relay for ";
    assert!(lines.by_ref().any(|l| l.starts_with(hangs)), "it is shown while it hangs");
    let status = f.json(&["status", "--json"]);
    let rest = status["processes"].as_array().unwrap().iter().find(|p| p["name"] == "rest");
    let pid = i32::try_from(rest.unwrap()["pid"].as_i64().unwrap()).unwrap();
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    assert!(lines.by_ref().any(|l| l.contains("(module 'rest' is down")), "the run goes on");
    let launcher = rustix::process::Pid::from_raw(child.0.id().cast_signed()).unwrap();
    rustix::process::kill_process(launcher, rustix::process::Signal::INT).unwrap();
    let out: String = lines.map(|l| l + "\n").collect();
    assert_eq!(child.0.wait().unwrap().code(), Some(4), "{out}");
    let line = "\nrelay did not return from its first call, on_trigger on sample 1 of 'a'\n";
    assert!(out.contains(line), "{out}");
    assert!(!out.contains("relay was never called"), "{out}");
}

/// Checks the report of a run that does not end by itself, and returns its summary.
fn ended(f: &Fixture) -> Value {
    assert!(std::fs::read_to_string(f.path("out/report.html")).unwrap().contains("</html>"));
    let summary: Value =
        serde_json::from_str(&std::fs::read_to_string(f.path("out/summary.json")).unwrap())
            .unwrap();
    assert!(summary["stages"].as_array().unwrap().iter().all(|s| s["runs"].as_u64() > Some(0)));
    summary
}

#[test]
fn without_a_reader_a_run_ends_in_good_order() {
    let f = Fixture::new(GRAPH);
    let mut command = f.command(&["run", "g.yaml", "--report", "out", "--set", "counter.limit=0"]);
    let mut child =
        Background(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    // Closes the output after some lines, as `| head` does.
    let out = BufReader::new(child.0.stdout.take().unwrap());
    assert!(out.lines().map(Result::unwrap).any(|l| l.contains("printer got 3")));
    let mut err = String::new();
    child.0.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert_eq!((child.0.wait().unwrap().code(), err.as_str()), (Some(0), ""));
    let end = &ended(&f)["ended"];
    assert_eq!((&end["reason"], &end["ok"]), (&"interrupted".into(), &true.into()));
    assert_eq!(end["text"], "because its output has no reader any more");
}

#[test]
fn a_full_disk_under_the_output_ends_no_run() {
    let f = Fixture::new(GRAPH);
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command =
        f.command(&["run", "g.yaml", "--report", "out", "--set", "counter.fail_on=1"]);
    assert_eq!(command.stdout(full()).stderr(full()).status().unwrap().code(), Some(6));
    let summary = ended(&f);
    assert_eq!(summary["ended"]["reason"], "finished");
    assert!(
        summary["notes"][0]
            .as_str()
            .unwrap()
            .contains("cannot write to standard output: No space left on device"),
        "{summary}"
    );

    let out = f.command(&["validate", "g.yaml"]).stdout(full()).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&out.stderr).starts_with("error: cannot write to standard output")
    );
    for arguments in [
        &["validate", "none.yaml"][..],
        &["graph", "none.yaml"],
        &["describe", "none"],
        &["run", "none.yaml"],
    ] {
        let status = f.command(arguments).stdout(full()).stderr(full()).status().unwrap();
        assert!(matches!(status.code(), Some(1 | 3)), "{arguments:?}: {status}");
    }
}

#[test]
fn when_the_terminal_goes_a_run_ends_in_good_order() {
    let f = Fixture::new(GRAPH);
    // The process of `script` holds the other end of the run's terminal.
    let program = env!("CARGO_BIN_EXE_driveline");
    // Under nohup, a test ignores SIGHUP; the run would inherit this and respect it. `env` restores
    // the default.
    let run = format!(
        "exec env --default-signal=HUP '{program}' run g.yaml --report out --set counter.limit=0"
    );
    let environment = f.command(&[]);
    let terminal = Command::new("script")
        .args(["-qfec", &run, "/dev/null"])
        .current_dir(f.dir.path())
        .envs(environment.get_envs().filter_map(|(k, v)| Some((k, v?))))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn();
    let mut terminal = Background(terminal.unwrap());
    let mut lines = BufReader::new(terminal.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.by_ref().any(|l| l.contains("printer got 3")));
    terminal.0.kill().unwrap();
    terminal.0.wait().unwrap();
    // The limit of 60 s is far longer than a run takes to end on an idle machine.
    for _ in 0..6000 {
        // The files appear only when they are complete.
        if f.path("out/report.html").exists() && f.path("out/summary.json").exists() {
            break;
        }
        // time: a pause between polls; they end with the condition
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let summary = ended(&f);
    assert_eq!(
        (&summary["ended"]["reason"], &summary["ended"]["ok"]),
        (&"interrupted".into(), &true.into())
    );
}

#[test]
fn looking_makes_no_directory_and_trusts_none_that_others_can_change() {
    use std::os::unix::fs::PermissionsExt;
    let f = Fixture::new(GRAPH);
    for arguments in [
        &["topic", "list"][..],
        &["node", "list"],
        &["topic", "info", "a"],
        &["topic", "list", "--json"],
    ] {
        f.run(arguments);
        assert!(!f.path("domain").exists(), "{arguments:?}");
    }
    std::fs::create_dir(f.path("domain")).unwrap();
    std::fs::set_permissions(f.path("domain"), std::fs::Permissions::from_mode(0o777)).unwrap();
    let (code, _, err) = f.run(&["topic", "list"]);
    assert_eq!(code, 1);
    assert!(err.contains("everybody can replace names in it; chmod"), "{err}");
}
