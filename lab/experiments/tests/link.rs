// SPDX-License-Identifier: Apache-2.0
//! Tests of `bench link` with tiny numbers of samples: the runs that it makes, stores, prints and
//! refuses, but not their speed.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use driveline_lab::archive::{Archive, Case, Role, Run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Maximum number of measurements until one is not disturbed by the hypervisor.
const ATTEMPTS: usize = 20;
const TINY: &str = "--messages 20 --warm-up 5 --cpus any";
const BENCH: &str = env!("CARGO_BIN_EXE_driveline-bench");

/// Returns the command, run in `dir`, which is also the directory of its peers.
fn command(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(BENCH);
    command.arg("link").args(args.split_whitespace());
    command.current_dir(dir).env("DRIVELINE_PEERS", dir).stdin(Stdio::null());
    command
}

/// Makes a directory of peers with one peer called `test`: the Python peer of the tests of
/// `driveline-bench`.
fn with_peer() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/tests/peer.py");
    std::os::unix::fs::symlink(peer, dir.path().join("test")).unwrap();
    dir
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Measures, until no run is invalid because of the hypervisor.
fn until_undisturbed(run: impl Fn() -> Output) -> Output {
    let is_taken_away = |out: &Output| text(&out.stdout).contains("% of the processor time");
    (1..ATTEMPTS).map(|_| run()).find(|out| !is_taken_away(out)).unwrap_or_else(run)
}

/// A measurement: its summary, and its archive.
struct Measured {
    summary: Value,
    archive: Archive,
}

/// Measures into a new directory in `dir`.
fn measured(dir: &Path, args: &str, code: i32) -> Measured {
    let directory = Cell::new(PathBuf::new());
    let out = until_undisturbed(|| {
        let made = tempfile::tempdir_in(dir).unwrap().keep();
        let out = format!("{TINY} {args} --json --out {}", made.display());
        directory.set(made);
        command(dir, &out).output().unwrap()
    });
    let (stdout, stderr) = (text(&out.stdout), text(&out.stderr));
    if !stdout.contains("% of the processor time") {
        assert_eq!(out.status.code(), Some(code), "{stderr}\n{stdout}");
    }
    let summary = serde_json::from_str(&stdout).unwrap_or_else(|e| panic!("{e}: {stderr}"));
    Measured { summary, archive: Archive::open(&directory.take()).unwrap() }
}

impl Measured {
    fn cases(&self) -> impl Iterator<Item = (&Case, Vec<Run>)> {
        let e = &self.archive.manifest.experiments[0];
        e.cases.iter().map(|c| (c, self.archive.runs(e, c).unwrap()))
    }

    fn case(&self, id: &str) -> (&Case, Vec<Run>) {
        let ids = || self.cases().map(|(c, _)| c.id.clone()).collect::<Vec<_>>();
        self.cases().find(|(c, _)| c.id == id).unwrap_or_else(|| panic!("no '{id}' in {:?}", ids()))
    }

    fn results(&self) -> &Vec<Value> {
        self.summary["experiments"][0]["cases"].as_array().unwrap()
    }

    fn result(&self, id: &str) -> &Value {
        self.results().iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no '{id}'"))
    }
}

/// Checks that every run of every case is valid, has closed accounts, and has the right number of
/// samples.
fn check(m: &Measured, rounds: usize) {
    assert_eq!((&m.summary["complete"], m.archive.manifest.experiments.len()), (&true.into(), 1));
    for (c, runs) in m.cases() {
        assert_eq!(runs.len(), rounds, "{}", c.id);
        for r in runs {
            assert_eq!(r.reasons().collect::<Vec<_>>(), Vec::<&str>::new(), "{}", c.id);
            if c.is_copy() {
                continue;
            }
            let [a] = r.accounts.as_slice() else { panic!("{}: {r:?}", c.id) };
            assert_eq!((a.scheduled, a.sent + a.not_sent.values().sum::<u64>()), (20, 20));
            for (received, missed) in a.received.iter().zip(&a.missed) {
                assert_eq!(received + missed, a.sent, "{}", c.id);
            }
            // The archive has the stamps of every counted sample.
            let stamps = m.archive.samples("link", c, &r).unwrap();
            assert_eq!(stamps.len() as u64, a.sent * a.received.len() as u64, "{}", c.id);
        }
    }
}

#[test]
fn links_are_measured_next_to_their_floors_and_kept_with_machine_rule_and_stamps() {
    let dir = tempfile::tempdir().unwrap();
    let args = "--size 64,64k --wait block --take borrow,copy --payload untouched,filled";
    let m = measured(dir.path(), &format!("{args} --rounds 2"), 0);
    check(&m, 2);
    let id = "64 KiB · copy · filled · driveline";
    let (figures, ratios) = (&m.result(id)["figures"], &m.result(id)["ratios"]);
    for figure in ["transport", "fill_and_transport", "fill", "copy", "read"] {
        assert!(figures[figure]["n"].as_u64().unwrap() >= 40, "{figure}: {figures}");
    }
    let to: Vec<_> = ratios.as_array().unwrap().iter().map(|r| r["to"].as_str().unwrap()).collect();
    assert_eq!(to.len(), 2, "{to:?}");
    assert!(to[0].starts_with("floor: futex · processes · ping-pong"), "{to:?}");
    assert!(to[1].starts_with("floor: memcpy into shared slots in turn · 64 KiB"), "{to:?}");
    assert!(ratios[0]["p50"]["estimate"].as_f64().unwrap() > 0.0);
    // 40 samples are too few for a 99th percentile.
    assert_eq!((&figures["transport"]["p99"], &ratios[0]["p99"]), (&Value::Null, &Value::Null));
    let manifest = &m.archive.manifest;
    let known = &manifest.machine;
    for field in [&known.cpu, &known.kernel, &known.clock_source, &known.governor] {
        assert!(!field.is_empty(), "{known:?}");
    }
    assert!(manifest.validity_rule.contains("account does not close"));
    assert!(!manifest.commit.is_empty());
    assert_eq!(manifest.command[..3], ["driveline", "bench", "link"]);
    for file in ["report.html", "results.csv", "summary.json"] {
        assert!(m.archive.directory().join(file).is_file(), "{file}");
    }
}

/// A ping-pong sends nothing until the answer has come. It therefore has no schedule-relative
/// figure, and its report says that it is a ping-pong.
#[test]
fn only_an_open_loop_is_called_one_and_has_figures_of_its_schedule() {
    let dir = tempfile::tempdir().unwrap();
    for (args, title, label, has_schedule) in [
        ("", "Links in ping-pong", "ping-pong", false),
        ("--rate 500", "Links in an open loop at 500 Hz", "1→1 at 500 Hz", true),
    ] {
        let m = measured(dir.path(), &format!("--size 64 --wait block --rounds 1 {args}"), 0);
        check(&m, 1);
        assert!(m.summary["experiments"][0]["title"].as_str().unwrap().starts_with(title));
        for case in m.results().iter().filter(|c| c["system"] != "memcpy") {
            let (id, figures) = (case["id"].as_str().unwrap(), &case["figures"]);
            let is_floor = case["role"] != "measured";
            assert!(!is_floor || id.contains(label) && id.contains("ping-pong") != has_schedule);
            // A busy machine may run the reader of an open loop only after its end mark, which
            // replaces the last sample. A ping-pong loses none.
            let received = case["totals"]["received"].as_u64().unwrap() > 0;
            assert!(received || has_schedule, "{case}");
            assert_eq!(!figures["transport"]["n"].is_null(), received, "{case}");
            let of_schedule = !figures["schedule_relative"].is_null();
            assert_eq!(of_schedule, has_schedule && received, "{case}");
        }
    }
}

#[test]
fn a_seed_repeats_the_order_and_is_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let args = "--reach process --size 64,128,256 --wait block --rounds 2 --seed 5";
    let places = |m: &Measured| -> Vec<usize> {
        m.cases().flat_map(|(_, runs)| runs.into_iter().map(|r| r.place)).collect()
    };
    let a = measured(dir.path(), args, 0);
    check(&a, 2);
    let b = measured(dir.path(), args, 0);
    assert_eq!((a.archive.manifest.seed, places(&a)), (5, places(&b)));
}

#[test]
fn people_get_a_table_and_a_directory_named_by_the_time() {
    let dir = tempfile::tempdir().unwrap();
    let args = format!("{TINY} --reach process --size 64 --wait block --rounds 1");
    let out = until_undisturbed(|| {
        let own = tempfile::tempdir_in(dir.path()).unwrap();
        command(own.path(), &args).output().unwrap()
    });
    let said = text(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{said}");
    for word in [
        "link · Links in ping-pong, half round trips",
        "ping-pong (transport)",
        "n too small",
        "of 1 round",
        "Report: bench-link-",
    ] {
        assert!(said.contains(word), "no '{word}' in:\n{said}");
    }
}

#[test]
fn the_printed_scenario_is_measured() {
    let dir = with_peer();
    let args = "--size 64,1k --wait block,spin:20 --rate 500 --subscribers 1,2 --peers test/sound \
         --payload filled --priority 1";
    let out = command(dir.path(), &format!("{args} --print")).output().unwrap();
    std::fs::write(dir.path().join("mine.yaml"), &out.stdout).unwrap();
    let plan = |command: &mut Command| -> Value {
        let out = command.args(["--dry-run", "--json"]).output().unwrap();
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {out:?}"))
    };
    let mut run = Command::new(BENCH);
    run.args(["run", "./mine.yaml"]).current_dir(dir.path()).env("DRIVELINE_PEERS", dir.path());
    let of_options = plan(&mut command(dir.path(), args));
    assert_eq!(of_options, plan(&mut run));
    let cases = of_options["experiments"][0]["cases"].as_array().unwrap();
    for id in ["1 KiB · 1→2 · spin:20 · driveline", "64 B · 1→1 · block · test/sound"] {
        assert!(cases.iter().any(|c| c["id"] == id), "no '{id}' in {cases:?}");
    }
    // Neither command measures anything.
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
}

/// Runs the command without the right to real-time priorities: it has neither the capability nor a
/// limit that permits them.
fn without_priorities(dir: &Path, args: &str) -> Output {
    // Root regains its capabilities with each program that it starts, unless the bounding set
    // excludes them.
    let bounds: &[&str] = if rustix::process::geteuid().is_root() {
        &["setpriv", "--bounding-set=-sys_nice", "--"]
    } else {
        &[]
    };
    let limits = ["prlimit", "--rtprio=0", "--", BENCH, "link"];
    let all: Vec<&str> =
        bounds.iter().copied().chain(limits).chain(args.split_whitespace()).collect();
    Command::new(all[0])
        .args(&all[1..])
        .current_dir(dir)
        .env("DRIVELINE_PEERS", dir)
        .output()
        .unwrap()
}

#[test]
fn a_refused_priority_is_reported_in_every_run_and_by_the_machine() {
    let args = format!("{TINY} --size 64 --wait block --rounds 2");
    for (i, more) in ["", "--rate 500 --subscribers 2"].into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let of = |more: &str, out: &str| {
            let out = format!("{out}{i}");
            let ended = without_priorities(dir.path(), &format!("{args} {more} --out {out}"));
            let archive =
                Archive::open(&dir.path().join(out)).unwrap_or_else(|e| panic!("{e:#} {ended:?}"));
            // The refusal is printed once, and only if a priority was requested.
            let printed = text(&ended.stdout).matches("NOT SET  class Fifo priority 60: ").count();
            assert_eq!(printed, usize::from(more.contains("--priority")), "{ended:?}");
            Measured { summary: Value::Null, archive }
        };
        let not_allowed = |m: &Measured| {
            let not_set = m.archive.manifest.machine.not_set.join(" ");
            not_set.contains("real-time scheduling is not allowed to this user")
        };
        let m = of(&format!("{more} --priority 60"), "a");
        let mut runs = 0;
        for (c, of_case) in m.cases().filter(|(c, _)| !c.is_copy()) {
            for run in of_case {
                let refused = |u: &&String| {
                    u.starts_with("class Fifo priority 60: ") && u.contains("rtprio limit")
                };
                // A refusal is stored once, even if several ends report it.
                let all = run.unset.iter().chain(run.accounts.iter().flat_map(|a| &a.unset));
                assert_eq!(all.filter(refused).count(), 1, "{}: {run:?}", c.id);
                runs += 1;
            }
        }
        assert!(runs >= 4, "{runs} runs");
        assert!(not_allowed(&m), "{:?}", m.archive.manifest.machine);
        let page = std::fs::read_to_string(m.archive.directory().join("report.html")).unwrap();
        assert!(page.to_lowercase().contains("<li>class fifo priority 60: "), "{page}");
        // A setting that was not requested is not reported as refused.
        let m = of(more, "b");
        let page = std::fs::read_to_string(m.archive.directory().join("report.html")).unwrap();
        assert!(not_allowed(&m) && !page.contains("Fifo"), "{page}");
    }
}

/// Returns the measured processes of a command.
fn children(pid: u32) -> Vec<Pid> {
    let list =
        std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    list.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().unwrap())).collect()
}

/// Interrupts the command as soon as its first measured process exists.
#[test]
fn an_interruption_leaves_a_partial_result_that_can_be_resumed() {
    let dir = tempfile::tempdir().unwrap();
    let args = "--reach process --size 64 --wait block --rounds 1000 --messages 1000 --json";
    let child =
        command(dir.path(), &format!("{args} --out a")).stdout(Stdio::piped()).spawn().unwrap();
    while children(child.id()).is_empty() {
        // time: a pause between polls
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..2 {
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    }
    let out = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((out.status.code(), &summary["complete"]), (Some(130), &false.into()), "{summary}");
    let archive = Archive::open(&dir.path().join("a")).unwrap();
    let e = &archive.manifest.experiments[0];
    assert!(e.cases.iter().all(|c| archive.runs(e, c).unwrap().len() < 1000));
    assert!(archive.manifest.finished_at.is_none());
}

#[test]
fn a_measured_process_that_dies_makes_the_run_invalid_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let args = "--size 64 --wait block --rounds 1 --messages 1000 --rate 20 --json --out a";
    let mut child = command(dir.path(), args).stdout(Stdio::piped()).spawn().unwrap();
    // Kills every measured process as soon as it appears, before it can end by itself.
    while child.try_wait().unwrap().is_none() {
        for measured in children(child.id()) {
            let _ = kill_process(measured, Signal::KILL);
        }
        // time: a pause between polls
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = child.wait_with_output().unwrap();
    let summary: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1), "{summary}");
    let archive = Archive::open(&dir.path().join("a")).unwrap();
    let e = &archive.manifest.experiments[0];
    for c in &e.cases {
        let failure = archive.runs(e, c).unwrap()[0].failure.clone().unwrap();
        assert!(failure.contains("ended too early") && failure.contains("signal: 9"), "{failure}");
    }
    for c in summary["experiments"][0]["cases"].as_array().unwrap() {
        assert_eq!(c["figures"].as_object().unwrap().len(), 0, "{c}");
        assert!(c["runs"][0]["reasons"].to_string().contains("signal: 9"), "{c}");
    }
}

#[test]
fn what_a_peer_cannot_do_is_left_out_with_a_reason() {
    let dir = with_peer();
    let args = "--size 64,1M --wait block --rounds 2 --peers test/sound,ros2_inter";
    let m = measured(dir.path(), args, 0);
    check(&m, 2);
    let left_out: Vec<String> = m.archive.manifest.experiments[0]
        .left_out
        .iter()
        .map(|l| format!("{} {:?}: {}", l.what, l.cells, l.reason))
        .collect();
    let has = |words: [&str; 2]| left_out.iter().any(|l| words.iter().all(|w| l.contains(w)));
    assert!(has(["ros2_inter", "not installed: install ROS 2"]), "{left_out:?}");
    assert!(has(["1 MiB", "carries 32 to 65536 bytes"]), "{left_out:?}");
    // The peer is reported next to Driveline, with its ratios and its settings.
    let ratios = m.result("64 B · test/sound")["ratios"].as_array().unwrap();
    let to: Vec<_> = ratios.iter().map(|r| r["to"].as_str().unwrap()).collect();
    assert!(
        to[0] == "64 B · driveline" && to[1].starts_with("floor: futex · processes · ping-pong"),
        "{to:?}"
    );
    let peers = serde_json::to_value(&m.archive.manifest.peers).unwrap();
    assert_eq!(peers[0]["variants"][0]["settings"][0]["name"], "SO_SNDBUF");
    assert_eq!(m.cases().filter(|(c, _)| c.role == Role::Measured).count(), 3);
    assert!(m.case("64 B · test/sound").1.iter().all(|r| r.accounts[0].sent == 20));
}

#[test]
fn a_peer_that_loses_tears_or_dies_makes_its_runs_invalid_and_no_others() {
    let dir = with_peer();
    let args = "--size 64 --wait block --rounds 1 --rate 500 --payload filled --peers \
         test/forgets,test/tears,test/dies";
    let m = measured(dir.path(), args, 1);
    for (system, reason) in [
        ("test/forgets", "lost and in no count"),
        ("test/tears", "payload mismatch"),
        ("test/dies", "exit status: 7"),
    ] {
        let reasons = &m.result(&format!("stream · {system}"))["runs"][0]["reasons"];
        assert!(reasons.to_string().contains(reason), "{system}: {reasons}");
    }
    let own = &m.result("stream · driveline")["runs"][0]["reasons"];
    assert!(own.as_array().unwrap().is_empty() || own.to_string().contains("hypervisor"), "{own}");
}

#[test]
fn a_row_that_the_middlewares_own_tool_contradicts_is_invalid() {
    let dir = with_peer();
    let fixed = "--size 64 --wait block --own-tools --peers";
    let args = format!("{fixed} test/sound,test/confirmed,test/contradicted --rounds 5");
    let m = measured(dir.path(), &args, 1);
    let confirmed = &m.result("ping-pong · test/confirmed")["own_tool"];
    let value = |n: u64| Value::from(n);
    assert_eq!(
        (&confirmed["tool_p50_ns"], &confirmed["ours_p50_ns"], &confirmed["tool_n"]),
        (&value(105_000), &value(100_000), &value(100)),
        "five runs of 20"
    );
    assert_eq!(confirmed["concord"], "agrees");
    let contradicted = &m.result("ping-pong · test/contradicted")["own_tool"];
    assert_eq!(
        (&contradicted["concord"], &contradicted["tool"]),
        (&"differs".into(), &"perf".into())
    );
    // The result of the tool is also in a case of its own.
    let (tool, runs) = m.case("own tool perf · ping-pong · test/confirmed");
    assert_eq!(tool.role, Role::OwnTool);
    let account = &runs[0].accounts[0];
    assert_eq!(account.own_tool.as_ref().unwrap().mean_ns, Some(110_000));
    assert_eq!(account.unset, ["a wish of the tool"]);
    // A variant without a tool has no result and no case of a tool.
    assert!(m.result("ping-pong · test/sound")["own_tool"].is_null());
    let tools = m.cases().filter(|(c, _)| c.role == Role::OwnTool);
    assert!(tools.map(|(c, _)| c.system.to_string()).all(|system| system != "test/sound"));
    let printed = |arguments: &[&str]| {
        text(&Command::new(BENCH).args(arguments).current_dir(dir.path()).output().unwrap().stdout)
    };
    let said = printed(&["report", m.archive.directory().to_str().unwrap()]);
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "ping-pong · test/confirmed: own tool perf: 105 µs, ours 100 µs, 0.95 (0.95–0.95): agrees \
         within 20 %",
        "INVALID ping-pong · test/contradicted: own tool perf",
        "differs by more than 20 %",
    ] {
        assert!(said.contains(words), "no '{words}' in:\n{said}");
    }

    // With few rounds the tool's result is not compared, and no run is invalid.
    let m = measured(dir.path(), &format!("{fixed} test/contradicted --rounds 1"), 0);
    let left_out = serde_json::to_string(&m.archive.manifest.experiments[0].left_out).unwrap();
    assert!(left_out.contains("it takes 5 rounds to say whether it agrees"), "{left_out}");
}

#[test]
fn peers_are_listed() {
    let dir = with_peer();
    let printed = |arguments: &[&str]| {
        let mut command = Command::new(BENCH);
        command.arg("peers").args(arguments).env("DRIVELINE_PEERS", dir.path());
        text(&command.output().unwrap().stdout)
    };
    let (all, one) = (printed(&[]), printed(&["test"]));
    for line in [["test ", "Test peer"], ["ecal ", "Eclipse eCAL"]] {
        assert!(
            all.lines().any(|l| l.starts_with(line[0]) && l.contains(line[1])),
            "{line:?} in {all}"
        );
    }
    for words in ["test/tears", "Unix datagrams, tears", "SO_SNDBUF = default"] {
        assert!(one.contains(words), "{words} in {one}");
    }
    let m: Value = serde_json::from_str(&printed(&["--json"])).unwrap();
    let is_described =
        |p: &Value| p["name"] == "test" && p["state"]["installed"]["description"]["version"] == "0";
    assert!(m.as_array().unwrap().iter().any(is_described), "{m}");
}
