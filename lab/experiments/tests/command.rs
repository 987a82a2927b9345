// SPDX-License-Identifier: Apache-2.0
//! The lab from the command line: checks its function, not its speed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

#[path = "../../../tools/skipped.rs"]
mod skipped;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use skipped::skipped;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const SCENARIO: &str = "scenario: 1
id: mine
title: A small link
source: a test
question: Does it arrive?
systems: [driveline]
link: {size: 1 KiB, rate_hz: 100, cpus: any}
cases:
  small: {}
run: {rounds: 5, messages: 20, warm_up: 2}
";

fn bench(dir: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_driveline-bench"));
    // Excludes the peers that are installed on this machine.
    command.args(arguments).current_dir(dir).env("DRIVELINE_PEERS", dir).stdin(Stdio::null());
    command
}

fn ended(dir: &Path, arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = bench(dir, arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Returns the number of accounts of runs.
fn runs(archive: &Path) -> usize {
    let entries = |path: &Path| {
        std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(|e| Some(e.ok()?.path()))
            .collect::<Vec<_>>()
    };
    let cases = entries(&archive.join("runs/mine"));
    cases
        .iter()
        .flat_map(|c| entries(c))
        .filter(|p| p.extension().is_some_and(|e| e == "json"))
        .count()
}

/// Works on any machine: the gateway is missing, and the user may not be root.
#[test]
fn impossible_measurements_are_reported_once_in_a_dry_run_and_in_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let of = |arguments: &[&str]| {
        let out =
            bench(dir.path(), arguments).env("DRIVELINE_GATEWAY", "/nowhere").output().unwrap();
        (
            out.status.code(),
            String::from_utf8(out.stdout).unwrap(),
            String::from_utf8(out.stderr).unwrap(),
        )
    };
    let (planned, run) =
        (of(&["run", "W10", "--quick", "--dry-run"]), of(&["run", "W10", "--quick"]));
    assert_eq!(planned, run);
    let (code, out, err) = run;
    assert!(
        code == Some(1) && out.is_empty() && err.contains("there is nothing to measure; left out:"),
        "{code:?} {out} {err}"
    );
    assert!(err.matches("make gateways").count() <= 1, "{err}");
    // All missing peers are in one line.
    assert!(
        err.matches("not installed").count() == 1 && err.contains("iceoryx, iceoryx2"),
        "{err}"
    );
    assert!(err.contains("`driveline bench peers NAME`"), "{err}");
}

/// A variable that names a missing file is refused before anything is measured or written.
#[test]
fn a_file_of_the_environment_that_is_not_there_is_refused_before_the_first_run() {
    let dir = tempfile::tempdir().unwrap();
    let [absent, here] = ["no/such.file", "."];
    for (experiment, variable, value, remedy) in [
        ("W9", "COMP_VIDEO", absent, "a video or a folder of images"),
        ("W9", "COMP_MODEL", here, "it is a directory: name a file that can be read"),
        ("S7", "S7_CLOUD", absent, "a file that can be read"),
    ] {
        for dry in [&["--dry-run"][..], &[]] {
            let arguments = [&["run", experiment, "--quick"], dry].concat();
            let out = bench(dir.path(), &arguments).env(variable, value).output().unwrap();
            let err = String::from_utf8(out.stderr).unwrap();
            assert!(out.status.code() == Some(1) && out.stdout.is_empty(), "{err}");
            let words = [
                &format!("error: experiment {experiment}: case "),
                &format!("{variable}={value} (looked from"),
                remedy,
                "unset",
            ];
            assert!(words.iter().all(|w| err.contains(*w)), "{err}");
        }
        // Another experiment does not use the variable.
        assert!(
            bench(dir.path(), &["run", "W1", "--quick", "--dry-run"])
                .env(variable, value)
                .output()
                .unwrap()
                .status
                .success()
        );
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// Waits until a run can be interrupted.
fn wait_for_a_run(archive: &Path) {
    let began = Instant::now();
    while runs(archive) == 0 {
        assert!(began.elapsed() < Duration::from_secs(60), "no run within a minute");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupted_measurement_has_a_report_and_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO).unwrap();
    let archive = dir.path().join("a");
    let child = bench(dir.path(), &["run", "./mine.yaml", "--out", "a", "--seed", "7"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_a_run(&archive);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(130), "{text}{}", String::from_utf8_lossy(&out.stderr));
    let made = runs(&archive);
    assert!((1..20).contains(&made), "{made} runs");
    assert!(text.contains(&format!("PARTIAL: {made} of 20 runs")), "{text}");
    assert!(std::fs::read_to_string(archive.join("report.html")).unwrap().contains("PARTIAL"));

    let (code, text, err) = ended(dir.path(), &["run", "--resume", "a"]);
    // A hypervisor may invalidate a run.
    assert!(code == 0 || code == 1, "{text}{err}");
    assert!(runs(&archive) == 20 && !text.contains("PARTIAL"), "{text}");
    // Without a terminal, progress is printed as lines; the first line comes immediately.
    assert!(err.starts_with(&format!("{made} of 20 runs made, about ")), "{err}");
    let report = std::fs::read_to_string(archive.join("report.html")).unwrap();
    assert!(!report.contains("PARTIAL") && report.contains("Does it arrive?"));

    let (code, _, err) = ended(dir.path(), &["run", "--resume", "a"]);
    assert!(
        code == 1 && err.contains("the measurement in a is complete") && err.contains("report"),
        "{code} {err}"
    );

    let (code, text, err) =
        ended(dir.path(), &["report", "a", "--out", "elsewhere.html", "--json"]);
    let summary: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}{err}"));
    assert_eq!((code, &summary["complete"], &summary["made"]), (0, &true.into(), &20.into()));
    assert!(dir.path().join("elsewhere.html").is_file());
    let copy = summary["experiments"][0]["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["system"] == "memcpy")
        .unwrap();
    assert!(
        copy["figures"]["copy"]["n"].as_u64() > Some(0)
            || report.contains("% of the processor time"),
        "{copy}"
    );

    let (code, _, err) = ended(dir.path(), &["compare", "a", "a"]);
    assert!(code == 2 && err.contains("the same measurement"), "{code} {err}");
    // The copy has the same figures.
    assert!(
        Command::new("cp")
            .args(["-r", "a", "b"])
            .current_dir(dir.path())
            .status()
            .unwrap()
            .success()
    );
    let (code, text, err) = ended(dir.path(), &["compare", "a", "b"]);
    if err.contains("no case in common") && report.contains("% of the processor time") {
        return skipped(
            "compare",
            "the hypervisor took processor time during every run",
            "run it once more",
        );
    }
    assert!(code == 0 && text.contains("0 faster, 0 slower"), "{text}{err}");
    let (code, text, _) = ended(dir.path(), &["--json", "compare", "a", "b"]);
    let comparison: Value = serde_json::from_str(&text).unwrap();
    let of_debug_builds = if cfg!(debug_assertions) { 2 } else { 0 };
    // The warnings also include disturbances; they are left out here.
    let rendered = comparison["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|w| w.to_string().contains("debug build"))
        .count();
    assert_eq!((code, rendered), (0, of_debug_builds), "{text}");
}

#[test]
fn a_measurement_whose_terminal_closes_is_reported_and_no_other_uses_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO.replace("messages: 20", "messages: 200"))
        .unwrap();
    let archive = dir.path().join("a");
    // Resets SIGHUP: without a terminal, the tests may ignore it, and the command would do so too.
    let child = Command::new("env")
        .args([
            "--default-signal=HUP",
            env!("CARGO_BIN_EXE_driveline-bench"),
            "run",
            "./mine.yaml",
            "--out",
            "a",
        ])
        .current_dir(dir.path())
        .env("DRIVELINE_PEERS", dir.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_a_run(&archive);
    let (code, _, err) = ended(dir.path(), &["run", "--resume", "a"]);
    assert!(code == 1 && err.contains("another process measures into a: wait"), "{code} {err}");
    kill_process(Pid::from_child(&child), Signal::HUP).unwrap();
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(std::fs::read_to_string(archive.join("report.html")).unwrap().contains("PARTIAL"));
}

/// Adds a peer with this description.
fn add_peer(dir: &Path, name: &str) {
    let variant = |name: &str| {
        json!({
            "name": name, "title": format!("over {name}"),
            "reach": ["host"], "waits": ["block"], "reliability": ["best_effort"],
            "loans": false, "min_size": 32, "max_size": 65536, "max_subscribers": 4,
            "settings": [{ "name": "depth", "value": "1", "why": "small messages" }],
        })
    };
    let says = json!({
        "protocol": 1, "name": name, "title": "My own", "version": "2.5",
        "variants": [variant("tcp"), variant("udp")],
    });
    let path = dir.join(name);
    // Another process writes it: a child of a parallel test could inherit the file while it is
    // open, and a file that is open for writing cannot be started.
    let write = ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#];
    assert!(
        Command::new("sh")
            .args(write)
            .arg(&path)
            .arg(format!("cat <<'END'\n{says}\nEND"))
            .status()
            .unwrap()
            .success()
    );
}

#[test]
fn each_peer_has_one_line_and_more_where_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    add_peer(dir.path(), "mine");
    let of = |arguments: &[&str]| {
        let (code, out, err) = ended(dir.path(), &[&["peers"], arguments].concat());
        assert!(code == 0 && err.is_empty(), "{arguments:?}: {code} {err}");
        out
    };
    let list = of(&[]);
    let known: Vec<Value> = serde_json::from_str(&of(&["--json"])).unwrap();
    for peer in &known {
        let name = peer["name"].as_str().unwrap();
        assert_eq!(
            list.lines().filter(|l| l.split(' ').next() == Some(name)).count(),
            1,
            "{name}: {list}"
        );
    }
    assert!(list.lines().count() <= known.len() + 5, "{list}");
    let line = |name: &str| {
        list.lines()
            .find(|l| l.starts_with(name))
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("mine "), "mine installed My own · 2.5 · tcp, udp");
    assert_eq!(line("zenoh "), "zenoh not installed Eclipse Zenoh · make peers");
    assert!(
        list.contains("driveline bench peers NAME") && !list.contains("small messages"),
        "{list}"
    );
    // For a named peer, the command prints its complete description, or how to add it; with
    // `--settings`, it does so for every peer.
    let mine = of(&["mine"]);
    assert!(
        mine.contains("mine/udp: over udp")
            && mine.contains("depth = 1: small messages")
            && !mine.contains("zenoh"),
        "{mine}"
    );
    assert!(
        of(&["zenoh", "ros2_inter"]).contains("install ROS 2")
            && of(&["mine/udp"]).contains("mine/udp")
    );
    let all = of(&["--settings"]);
    assert!(all.contains("depth = 1: small messages") && all.contains("install ROS 2"), "{all}");
    let one: Vec<Value> = serde_json::from_str(&of(&["mine", "--json"])).unwrap();
    assert!(matches!(one.as_slice(), [only] if only["name"] == "mine"), "{one:?}");
    let (code, _, err) = ended(dir.path(), &["peers", "mime"]);
    assert!(code == 2 && err.contains("did you mean `mine`?"), "{code} {err}");
}

#[test]
fn what_takes_weeks_is_not_begun_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let long = format!("{SCENARIO}paper: {{rounds: 100, seconds: 3600}}\n");
    std::fs::write(dir.path().join("mine.yaml"), long).unwrap();
    let (code, text, err) = ended(dir.path(), &["run", "./mine.yaml", "--paper", "--dry-run"]);
    assert!(code == 0 && text.contains("about 13 days in all"), "{text}{err}");
    let (code, text, err) = ended(dir.path(), &["run", "./mine.yaml", "--paper", "--out", "a"]);
    assert!(
        code == 1 && err.contains("about 13 days") && err.contains("--yes"),
        "{code} {text}{err}"
    );
    assert!(!dir.path().join("a").exists());
}

#[test]
fn the_described_command_line_has_experiments_and_peers() {
    let dir = tempfile::tempdir().unwrap();
    let (code, text, err) = ended(dir.path(), &["command-line"]);
    let described: Value = serde_json::from_str(&text).unwrap();
    let commands = described["commands"].as_array().unwrap();
    let names: Vec<&str> = commands.iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(names, ["list", "run", "report", "compare", "link", "peers"]);
    assert!(["refsys", "headline", "cyclonedds"].iter().all(|word| text.contains(word)), "{text}");
    // Commands of `bench` are not offered twice.
    assert!(!text.contains("bench-peer") && !text.contains("bench-workload"), "{text}");
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO).unwrap();
    let full = std::fs::File::create("/dev/full").unwrap();
    let out =
        bench(dir.path(), &["run", "./mine.yaml", "--dry-run"]).stdout(full).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert!(
        out.status.code() == Some(1) && err.contains("No space left") && !err.contains("panicked"),
        "{} {err}",
        out.status
    );
}

#[test]
fn a_mistake_in_a_scenario_is_reported_once_and_cannot_write_over_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    for (text, says) in [
        (SCENARIO.replace("A small link", "\"\\e[2Jgone\""), "has control characters"),
        (SCENARIO.replace("  small: {}", "  \"\\e[2J\": {}"), "has control characters"),
        (SCENARIO.replace("rounds: 5", "rounds: 0"), "rounds"),
    ] {
        std::fs::write(dir.path().join("mine.yaml"), text).unwrap();
        let (code, _, err) = ended(dir.path(), &["run", "./mine.yaml", "--dry-run"]);
        assert!(code == 1 && err.contains(says) && !err.contains('\x1b'), "{code} {err}");
        assert!(err.starts_with("error: ") && !err.contains("error: error:"), "{err}");
    }
}

#[test]
fn a_plan_and_the_mistakes_of_a_scenario_are_json_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("mine.yaml"),
        SCENARIO.replace("systems: [driveline]", "systems: [driveline, fastdds]"),
    )
    .unwrap();
    let json = |arguments: &[&str]| {
        let (code, text, err) = ended(dir.path(), arguments);
        (
            code,
            serde_json::from_str::<Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}{err}")),
            err,
        )
    };
    let (code, plan, err) = json(&["run", "./mine.yaml", "--dry-run", "--json"]);
    assert!(code == 0 && err.is_empty(), "{err}");
    let e = &plan["experiments"][0];
    assert_eq!(
        (&e["id"], &e["title"], &e["rounds"]),
        (&"mine".into(), &"A small link".into(), &5.into()),
        "{plan}"
    );
    let cases = e["cases"].as_array().unwrap();
    let own = cases.iter().find(|c| c["system"] == "driveline").unwrap();
    assert_eq!(
        (cases.len(), &own["id"], &own["role"]),
        (4, &"small · driveline".into(), &"measured".into()),
        "{plan}"
    );
    // 22 samples at 100 Hz, in each of 5 rounds.
    assert!(
        own["expected_s"].as_f64().is_some_and(|s| s > 0.2) && e["expected_s"].as_f64() > Some(1.0),
        "{plan}"
    );
    assert_eq!(plan["expected_s"], e["expected_s"]);
    let left_out = e["left_out"].as_array().unwrap();
    assert!(
        left_out
            .iter()
            .any(|l| l["what"] == "fastdds"
                && l["reason"].as_str().unwrap().contains("not installed")),
        "{plan}"
    );

    for (change, line, help) in [("fastdds", 6, "did you mean"), ("rounds: 5", 10, "")] {
        let wrong = SCENARIO
            .replace("[driveline]", "[driveline, fastds]")
            .replace("rounds: 5", "rounds: 0");
        let wrong = if change == "fastdds" {
            wrong.replace("rounds: 0", "rounds: 5")
        } else {
            wrong.replace(", fastds", "")
        };
        std::fs::write(dir.path().join("mine.yaml"), wrong).unwrap();
        for arguments in
            [&["--json", "run", "./mine.yaml", "--dry-run"][..], &["run", "./mine.yaml", "--json"]]
        {
            let (code, found, err) = json(arguments);
            assert_eq!(
                (code, &found["kind"], err.as_str()),
                (1, &"diagnostics".into(), ""),
                "{found}"
            );
            let first = &found["diagnostics"][0];
            assert_eq!(
                (&first["severity"], &first["place"]["line"]),
                (&"error".into(), &line.into()),
                "{found}"
            );
            assert!(
                help.is_empty() || first["help"].as_str().is_some_and(|h| h.contains(help)),
                "{found}"
            );
        }
    }
}

#[test]
fn a_graph_is_no_scenario_and_one_line_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let graph = "driveline: 1\nname: g\ntopics: {a: {}}\nmodules: {m: {components: {c: {library: \
         l, class: C}}}}\n";
    std::fs::write(dir.path().join("g.yaml"), graph).unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO).unwrap();
    let (code, out, err) = ended(dir.path(), &["run", "./g.yaml", "--dry-run"]);
    assert!(
        code == 1 && out.is_empty() && err.matches("error: ").count() == 1,
        "{code} {out}{err}"
    );
    assert!(
        err.starts_with("error: this is a graph, not a scenario\n")
            && err.contains("`driveline validate ./g.yaml` checks it"),
        "{err}"
    );
}

#[test]
fn a_wrong_command_line_ends_with_2_and_what_cannot_be_done_with_1() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO.replace("[driveline]", "[fastds]"))
        .unwrap();
    std::fs::write(dir.path().join("own.yaml"), SCENARIO.replace("id: mine", "id: S1")).unwrap();
    for (line, ends_with, says) in [
        ("run S1 --dry-run --systems fastds", 2, "did you mean `fastdds`?"),
        ("run S99 --dry-run", 2, "there is no experiment 'S99'"),
        ("run S1 s1 --dry-run", 2, "S1 is named twice: name it once"),
        ("run all S2 --dry-run", 2, "S2 is named twice: name it once"),
        ("run ./own.yaml own.yaml --dry-run", 2, "S1 is named twice: name it once"),
        (
            "run S1 ./own.yaml --dry-run",
            2,
            "two of the experiments are called S1: give one of them another id",
        ),
        ("list --show S99", 2, "there is no experiment 'S99'. `driveline bench list` shows them\n"),
        ("report . --markdown --json", 2, "choose one"),
        ("link --peers fastds", 2, "did you mean `fastdds`?"),
        ("link --subscribers 3", 2, "add --rate"),
        ("link --processing-us 5", 2, "--rate"),
        ("link --wait poll", 2, "spin:US"),
        ("link --size big", 2, "e.g. 64,1k,4M"),
        // The command line is right, but the file is wrong or the machine is too small.
        ("run ./mine.yaml --dry-run", 1, "did you mean `fastdds`?"),
        ("run ./none.yaml --dry-run", 1, "none.yaml"),
        (
            "run refsys --systems fastdds --dry-run",
            1,
            "the workload refsys: no chosen peer runs it: name driveline as well",
        ),
        (
            "run ./own.yaml --out mine.yaml/a",
            1,
            "mine.yaml/a: Not a directory (os error 20): name a directory that may be made with \
             --out\n",
        ),
        ("link --size 64G --wait block", 1, "MiB are available"),
        ("link --size 8 --payload filled", 1, "at least 32 bytes"),
        ("link --subscribers 100 --rate 10 --wait spin", 1, "100 spinning readers need"),
    ] {
        let (code, out, err) = ended(dir.path(), &line.split(' ').collect::<Vec<_>>());
        assert!(
            code == ends_with && out.is_empty() && err.starts_with("error: ") && err.contains(says),
            "{line}: {code} {out}{err}"
        );
    }
}

#[test]
fn what_is_no_measurement_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["report", "."][..], &["compare", ".", "."]] {
        let (code, _, err) = ended(dir.path(), arguments);
        assert_eq!(code, 1);
        assert!(err.contains("manifest.json") && err.contains("run"), "{err}");
    }
}

#[test]
fn what_a_damaged_measurement_says_cannot_write_over_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), SCENARIO.replace("rounds: 5", "rounds: 1"))
        .unwrap();
    let (code, _, err) = ended(dir.path(), &["run", "./mine.yaml", "--out", "a"]);
    assert!(code == 0 || code == 1, "{err}");
    let manifest = dir.path().join("a/manifest.json");
    let text = std::fs::read_to_string(&manifest).unwrap();
    for (from, to) in [
        ("\"measured\"", "\"\\u001b[2Jgone\""),
        ("\"extent\"", "\"\\u001b[2Jgone\": 1, \"extents\""),
        ("\"rounds\": 1", "\"rounds\": \"\u{9b}2J\""),
    ] {
        assert!(text.contains(from));
        std::fs::write(&manifest, text.replace(from, to)).unwrap();
        let (code, out, err) = ended(dir.path(), &["report", "a"]);
        let moves = err.chars().find(|c| c.is_control() && *c != '\n');
        assert!(
            code == 1
                && out.is_empty()
                && moves.is_none()
                && err.contains("a/manifest.json is damaged"),
            "{code} {moves:?} {err}"
        );
    }
    // The name comes from the archive. The user who unpacks the archive did not choose it.
    std::fs::write(&manifest, text).unwrap();
    let wild = "\u{1b}[2Jgone";
    std::fs::rename(dir.path().join("a"), dir.path().join(wild)).unwrap();
    let (code, out, err) = ended(dir.path(), &["report", wild]);
    assert!(
        code == 0 && out.contains("[2Jgone/report.html") && !out.contains('\x1b') && err.is_empty(),
        "{code} {out}{err}"
    );
}

#[test]
fn what_standard_output_does_not_take_is_a_failure() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [["list"].as_slice(), &["peers"], &["list", "--schema"], &["--json", "list"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = bench(dir.path(), arguments).stdout(full).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert!(
            out.status.code() == Some(1) && err.contains("cannot write to standard output"),
            "{arguments:?}: {err}"
        );
    }
}
