// SPDX-License-Identifier: Apache-2.0
//! `driveline mode`, during a run.

use crate::fixture::{Background, Fixture, GRAPH};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;
use std::process::Stdio;
use std::time::{Duration, Instant};

const MODES: &str = "\
modes:
  drive: {active: [relay, printer], enter_within_ms: 60000}
  quiet: {active: [relay], enter_within_ms: 60000, parameters: {printer: {mark: 7}}}
  fly: {active: [printer], enter_within_ms: 50, entry: {rates: {b: 1000000}}, fallback: [quiet]}
  locked: {active: [], switched_by: [reaction]}
";

fn start(f: &Fixture) -> Background {
    let mut command = f.command(&["run", "g.yaml", "--set", "counter.limit=0", "--report", "out"]);
    let run = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let (code, out, err) = f.run(&["health", "--wait", "ready", "--timeout", "60"]);
    assert_eq!(code, 0, "{out}{err}");
    Background(run)
}

#[test]
fn a_run_is_switched_and_its_report_says_what_happened() {
    let f = Fixture::new(&format!("{GRAPH}{MODES}"));
    let mut run = start(&f);
    assert_eq!(f.run(&["mode", "--names"]).1, "drive\nquiet\nfly\nlocked\n");
    // The first mode is entered after all modules are ready. Until then, requests for another mode
    // are refused.
    f.json_until(&["mode", "--json"], |mode| mode["current"] == "drive");
    let (code, out, err) = f.run(&["mode", "quiet"]);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains(" is in mode 'quiet', ") && out.ends_with(" ms after the request\n"),
        "{out}"
    );
    let (_, out, _) = f.run(&["mode"]);
    assert!(out.contains(": mode 'quiet' for "), "{out}");
    assert!(out.contains("active: relay; inactive: printer"), "{out}");
    assert!(
        out.contains("'drive' → 'quiet' in ") && out.contains("requested by a command"),
        "{out}"
    );
    let (_, out, _) = f.run(&["status"]);
    assert!(out.contains("mode 'quiet' for "), "{out}");
    assert_eq!(f.json(&["mode", "--json"])["current"], "quiet");

    // The list shows the value in effect, and the mode that set it.
    let (_, out, _) = f.asked(&["param", "list"], &["mode quiet"]);
    let line = |name: &str| out.lines().find(|l| l.starts_with(name)).unwrap_or_default();
    let words: Vec<_> = line("printer.mark").split_whitespace().collect();
    assert_eq!(words[..5], ["printer.mark", "7", "mode", "quiet", "yes"], "{out}");
    assert!(line("counter.limit").contains(" start "), "{out}");
    let mark = f.json(&["param", "get", "printer.mark", "--json"]);
    assert_eq!((&mark["value"], &mark["mode"]), (&Value::from(7), &Value::from("quiet")));
    let set = f.json(&["param", "set", "printer.mark", "9", "--json"]);
    assert_eq!((&set["name"], &set["value"]), (&Value::from("mark"), &Value::from(9)));
    let (code, out, err) = f.run(&["param", "set", "printer.mark", "8"]);
    assert_eq!(code, 0, "{out}{err}");
    let mark = f.json(&["param", "get", "printer.mark", "--json"]);
    assert_eq!((&mark["value"], mark.get("mode")), (&Value::from(8), None), "a command set it");

    f.run(&["mode", "drive"]);
    let (code, out, err) = f.run(&["mode", "fly"]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(
        err.contains(
            " is in mode 'quiet', not 'fly': mode 'fly': its entry condition did not \
         hold within 50 ms: topic 'b' has "
        ),
        "{err}"
    );
    let (code, _, err) = f.run(&["mode", "locked"]);
    assert!(code == 1 && err.contains("mode 'locked' is refused: `switched_by`"), "{err}");
    let (code, _, err) = f.run(&["mode", "swim"]);
    assert!(
        code == 1 && err.contains("there is no mode \"swim\"; this run has: drive, quiet"),
        "{err}"
    );

    f.run(&["stop", "--timeout", "60"]);
    assert_eq!(run.0.wait().unwrap().code(), Some(0), "an inactive component is no problem");
    let text = std::fs::read_to_string(f.path("out/summary.json")).unwrap();
    let summary: Value = serde_json::from_str(&text).unwrap();
    let modes = summary["modes"].as_array().unwrap();
    let shown: Vec<_> =
        modes.iter().map(|m| (m["requested"].as_str().unwrap(), m["entered"].as_str())).collect();
    assert_eq!(
        shown,
        [
            ("drive", Some("drive")),
            ("quiet", Some("quiet")),
            ("drive", Some("drive")),
            ("fly", Some("quiet")),
            ("locked", None)
        ],
        "{modes:?}"
    );
    assert!(summary["inactive"].as_u64().unwrap() > 0);
    // The counts of the input, `inactive` included, add up to the number of published samples. None
    // is `not_connected`: the publisher is in the same module, and ends together with the input.
    let subscriptions = summary["subscriptions"].as_array().unwrap();
    let printer = subscriptions.iter().find(|s| s["stage"] == "printer").unwrap();
    assert!(printer["inactive"].as_u64().unwrap() > 0);
    let parts = ["received", "missed", "expired", "corrupt", "refused", "lost_on_the_way"];
    let parts = parts.iter().chain(&["not_read", "inactive"]);
    let sum: u64 = parts.map(|p| printer[p].as_u64().unwrap()).sum();
    assert_eq!(summary["published"]["b"], sum, "{printer}");
    let report = std::fs::read_to_string(f.path("out/report.html")).unwrap();
    assert!(report.contains("<h2>Modes</h2>") && report.contains("printer inactive"), "no table");
}

#[test]
fn a_run_without_modes_and_completion_say_so() {
    let f = Fixture::new(GRAPH);
    let _run = start(&f);
    let (code, _, err) = f.run(&["mode", "drive"]);
    assert!(code == 1 && err.contains("its graph has no section `modes:`"), "{err}");
    let (_, bash, _) = f.run(&["completion", "bash"]);
    assert!(bash.contains("mode --names"), "names of modes are completed");
}

#[test]
fn modules_enter_the_declared_mode_by_themselves_when_their_launcher_is_killed() {
    let modes = "on_launcher_lost: {mode: limp}
modes:
  drive: {active: [printer], enter_within_ms: 60000}
  limp: {active: [relay], enter_within_ms: 60000}
";
    let f = Fixture::new(&format!("{GRAPH}{modes}"));
    let mut run = start(&f);
    // A module starts its components after all modules are ready. Only a module that has started
    // them continues without its launcher.
    let status = f.json_until(&["health", "--json"], |run| {
        let counter = &run["processes"][0]["health"]["components"][0];
        run["mode"]["current"] == "drive" && counter["state"] == "active"
    });
    let modules: Vec<Pid> = status["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| Pid::from_raw(i32::try_from(p["pid"].as_i64().unwrap()).unwrap()).unwrap())
        .collect();
    run.0.kill().unwrap();
    run.0.wait().unwrap();
    // The relay publishes only in the mode that the module has entered.
    let (code, out, err) = f.run(&["topic", "echo", "b", "--count", "3", "--timeout", "60"]);
    assert_eq!(code, 0, "{out}{err}");
    let (code, _, err) = f.run(&["run", "g.yaml"]);
    assert!(
        code == 1 && err.contains("modules of this graph run already: 'source' (process "),
        "{err}"
    );
    let pids: Vec<_> = modules.iter().map(|m| m.as_raw_nonzero().to_string()).collect();
    let mut ends = [pids.join(" "), pids.iter().rev().cloned().collect::<Vec<_>>().join(" ")];
    ends.iter_mut().for_each(|pids| *pids = format!("end them with `kill {pids}`, or"));
    for ask in ["status", "health", "stop"] {
        let (code, _, err) = f.run(&[ask]);
        let alone = "these modules continue without their launcher, which has ended: ";
        let named = ends.iter().any(|end| err.contains(end));
        assert!(code == 1 && err.contains(alone) && named, "{ask}: {err}");
    }
    for module in &modules {
        kill_process(*module, Signal::TERM).unwrap();
    }
    let end = Instant::now() + Duration::from_secs(60);
    while modules.iter().any(|m| test_kill_process(*m).is_ok()) {
        assert!(Instant::now() < end, "modules do not end");
        std::thread::yield_now();
    }
    let (code, _, err) = f.run(&["status"]);
    assert!(code == 1 && err.contains("no run"), "{err}");
}
