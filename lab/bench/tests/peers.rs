// SPDX-License-Identifier: Apache-2.0
//! Other programs, measured by the same engine: a peer in Python, whose variants break the rules
//! for peers.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

/// Returns a directory of peers with one peer, `test`.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.py"),
        dir.path().join("test"),
    )
    .unwrap();
    dir
}

/// Maximum number of attempts until the hypervisor takes no time during a measurement.
const ATTEMPTS: usize = 20;

fn bench(args: &str) -> Output {
    let dir = directory();
    let run = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"));
        command.args(args.split_whitespace()).env("DRIVELINE_PEERS", dir.path()).output().unwrap()
    };
    let is_taken_away =
        |out: &Output| String::from_utf8_lossy(&out.stdout).contains("% of the processor time");
    (1..ATTEMPTS).map(|_| run()).find(|out| !is_taken_away(out)).unwrap_or_else(run)
}

fn measured(args: &str, status: i32) -> Value {
    measured_in(2, args, status)
}

fn measured_in(rounds: u64, args: &str, status: i32) -> Value {
    let fixed = "--json --wait block --extra none --messages 20 --warm-up 5 --publisher-cpu any \
         --subscriber-cpus any";
    let out = bench(&format!("link {args} {fixed} --rounds {rounds}"));
    let text = String::from_utf8_lossy(&out.stdout);
    if !text.contains("% of the processor time") {
        assert_eq!(
            out.status.code(),
            Some(status),
            "{}\n{text}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
    serde_json::from_slice(&out.stdout).unwrap()
}

fn runs<'a>(m: &'a Value, system: &str) -> Vec<&'a Value> {
    let of = |c: &&Value| c["kind"] == "link" && c["system"] == system;
    let runs: Vec<_> = m["cases"]
        .as_array()
        .unwrap()
        .iter()
        .filter(of)
        .flat_map(|c| c["runs"].as_array().unwrap())
        .collect();
    assert!(!runs.is_empty(), "{system} is not in {m}");
    runs
}

/// Returns the reasons why a run is invalid, without the hypervisor's share, which is no fault of
/// the tested code.
fn reasons(run: &Value) -> Vec<&str> {
    run["invalid"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r.as_str().unwrap())
        .filter(|r| !r.contains("hypervisor"))
        .collect()
}

#[test]
fn a_peer_runs_next_to_driveline_with_its_account_its_ratios_and_its_settings() {
    let m = measured("--size 64,4k --payload untouched,filled --peers test/sound,test/kept", 0);
    for system in ["test/sound", "test/kept", "driveline"] {
        for r in runs(&m, system) {
            assert_eq!(
                (&r["failure"], reasons(r), &r["sent"]),
                (&Value::Null, vec![], &Value::from(20)),
                "{r}"
            );
        }
    }
    let case = m["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["id"] == "test/sound · processes · ping-pong · block · 64 B")
        .unwrap();
    let to: Vec<_> =
        case["ratios"].as_array().unwrap().iter().map(|r| r["to"].as_str().unwrap()).collect();
    assert_eq!(
        to,
        [
            "floor: futex · processes · ping-pong",
            "driveline · processes · ping-pong · block · 64 B"
        ]
    );
    assert_eq!(m["peers"][0]["variants"][0]["settings"][0]["name"], "SO_SNDBUF");
    let m = measured("--size 64 --rate 500 --subscribers 2 --payload filled --peers test/sound", 0);
    for r in runs(&m, "test/sound") {
        // The first sample, five of warm-up, and twenty, at two subscribers.
        assert_eq!(
            (&r["received"], &r["verified"]),
            (&serde_json::json!([20, 20]), &Value::from(52)),
            "{r}"
        );
    }
}

#[test]
fn a_peer_that_loses_tears_or_dies_is_shown_so() {
    let m = measured(
        "--size 64 --rate 500 --payload filled --peers test/forgets,test/tears,test/dies",
        1,
    );
    for r in runs(&m, "test/forgets") {
        assert!(r["invalid"].to_string().contains("lost without a word"), "{r}");
    }
    for r in runs(&m, "test/tears") {
        assert!(
            r["invalid"].to_string().contains("payload mismatch")
                && r["torn"].as_u64().unwrap() >= 6,
            "{r}"
        );
    }
    for r in runs(&m, "test/dies") {
        assert!(r["failure"].as_str().unwrap().contains("exit status: 7"), "{r}");
    }
    for r in runs(&m, "driveline") {
        assert_eq!(reasons(r), Vec::<&str>::new(), "{r}");
    }
}

/// Its earlier reports may be right; the message about its end is not lost.
#[test]
fn a_peer_that_fails_once_it_is_done_is_shown_with_its_reason() {
    for pace in ["--rate 500", ""] {
        let m = measured(&format!("--size 64 --peers test/fails {pace}"), 1);
        for r in runs(&m, "test/fails") {
            let failure = r["failure"].as_str().unwrap();
            let parts = [
                "the publisher was done, and then failed",
                "exit status: 3",
                "the daemon does not answer",
            ];
            assert!(parts.iter().all(|part| failure.contains(part)), "{r}");
        }
    }
}

/// Without bounds, both would go on for an hour.
#[test]
fn a_peer_that_falls_silent_or_leaves_processes_behind_delays_no_other() {
    let left = tempfile::tempdir().unwrap();
    let peers = directory();
    let fixed = "--json --wait block --extra none --rounds 1 --messages 20 --warm-up 5 \
         --publisher-cpu any --subscriber-cpus any";
    let out = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .args(
            "link --size 64 --rate 500 --peers test/silent,test/leaves"
                .split(' ')
                .chain(fixed.split(' ')),
        )
        .env("DRIVELINE_PEERS", peers.path())
        .env("LEFT_BEHIND", left.path())
        .output()
        .unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    for r in runs(&m, "test/silent") {
        let failure = r["failure"].as_str().unwrap();
        assert!(failure.contains("subscriber") && failure.contains("closed its output"), "{r}");
    }
    for r in runs(&m, "test/leaves") {
        assert_eq!((&r["failure"], reasons(r)), (&Value::Null, vec![]), "{r}");
    }
    let pids: Vec<_> =
        std::fs::read_dir(left.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(pids.len(), 2, "one of each end");
    for pid in pids {
        // Killed; its new parent may not have waited for it yet.
        let status =
            std::fs::read_to_string(Path::new("/proc").join(&pid).join("stat")).unwrap_or_default();
        assert!(status.is_empty() || status.contains(") Z "), "{pid:?} goes on: {status}");
    }
}

/// The keeper cannot clean up.
#[test]
fn what_a_killed_keeper_leaves_in_shared_memory_is_removed_by_its_list() {
    let (noted, peers) = (tempfile::tempdir().unwrap(), directory());
    let fixed = "--json --wait block --extra none --rounds 1 --messages 20 --warm-up 5 \
         --publisher-cpu any --subscriber-cpus any";
    let out = Command::new(env!("CARGO_BIN_EXE_driveline-bench-link"))
        .args("link --size 64 --rate 500 --peers test/orphans".split(' ').chain(fixed.split(' ')))
        .env("DRIVELINE_PEERS", peers.path())
        .env("LEFT_BEHIND", noted.path())
        .output()
        .unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    for r in runs(&m, "test/orphans") {
        assert!(
            r["failure"].as_str().unwrap().contains("the keeper ended too early (signal: 9"),
            "{r}"
        );
    }
    let names: Vec<_> = std::fs::read_dir(noted.path())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(!names.is_empty());
    for name in names.into_iter().flat_map(|name| [format!("{name}_lock"), name]) {
        let path = Path::new("/dev/shm").join(name);
        // This test does not leave it there either.
        assert!(std::fs::remove_file(&path).is_err(), "{} was left", path.display());
    }
}

/// The twentieth question and the twentieth answer that arrive are dropped: of 25 questions, and of
/// 24 answers. With room for more than one question, none replaces another if the machine stands
/// still.
#[test]
fn a_ping_pong_that_loses_goes_on_and_shows_what_it_lost() {
    let m = measured(
        "--size 64 --payload untouched,filled --peers test/loses --lose-every 20 --reach host \
         --depth 16",
        0,
    );
    for system in ["test/loses", "driveline"] {
        for r in runs(&m, system) {
            assert_eq!((&r["failure"], reasons(r)), (&Value::Null, vec![]), "{system}: {r}");
            let (lost, one) = (&r["lost_rounds"], Value::from(1));
            assert_eq!(
                (&lost["questions"], &lost["answers"], &lost["unsent_answers"]),
                (&one, &one, &serde_json::json!({})),
                "{system}: {r}"
            );
            // On a machine that stands still for a second, an answer may also be late.
            let (late, missed) = (lost["late"].as_u64().unwrap(), r["missed"][0].as_u64().unwrap());
            assert!((2..=2 + late).contains(&missed), "{system}: {r}");
            assert_eq!(
                r["received"][0].as_u64().unwrap() + missed,
                r["sent"].as_u64().unwrap(),
                "{system}: {r}"
            );
        }
    }
    let out = bench(
        "link --size 64 --peers test/loses --lose-every 20 --wait block --extra none --rounds 1 \
         --messages 20 --warm-up 5 --publisher-cpu any --subscriber-cpus any",
    );
    let text = String::from_utf8_lossy(&out.stdout);
    // Runs that the hypervisor disturbed are invalid and not listed.
    let disturbed = text.lines().any(|l| l.starts_with("INVALID") && l.contains("hypervisor"));
    assert!(
        disturbed
            || text.contains("LOST: test/loses")
                && text.contains("1 questions lost, 1 answers lost"),
        "{text}"
    );
}

#[test]
fn what_cannot_be_measured_is_a_row_with_a_reason() {
    let m = measured("--size 64,1M --peers test/sound,ros2_inter", 0);
    let rows: Vec<String> = m["left_out"]
        .as_array()
        .unwrap()
        .iter()
        .map(|l| format!("{}: {}", l["what"], l["reason"]))
        .collect();
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(
        rows[0].contains("ros2_inter") && rows[0].contains("not installed: install ROS 2"),
        "{rows:?}"
    );
    assert!(rows[1].contains("1 MiB") && rows[1].contains("carries 32 to 65536 bytes"), "{rows:?}");
    let out = bench("link --size 64 --peers tset --json");
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("did you mean `test`?"));
}

#[test]
fn a_row_that_the_middlewares_own_tool_contradicts_is_invalid() {
    let m = measured_in(
        5,
        "--size 64 --own-tools --peers test/sound,test/confirmed,test/contradicted",
        1,
    );
    let row = |system: &str, kind: &str| {
        m["cases"].as_array().unwrap().iter().find(|c| c["system"] == system && c["kind"] == kind)
    };
    let confirmed = &row("test/confirmed", "link").unwrap()["own_tool"];
    assert_eq!(
        (&confirmed["tool_p50_ns"], &confirmed["ours_p50_ns"]),
        (&Value::from(105_000), &Value::from(100_000))
    );
    assert_eq!(
        (&confirmed["concord"], &confirmed["tool_n"]),
        (&Value::from("agrees"), &Value::from(100)),
        "five runs of 20"
    );
    let contradicted = &row("test/contradicted", "link").unwrap()["own_tool"];
    assert_eq!(
        (&contradicted["concord"], &contradicted["tool"]),
        (&Value::from("differs"), &Value::from("perf"))
    );
    // The tool's result is also in its own case.
    let tool = row("test/confirmed", "own_tool").unwrap();
    assert_eq!(tool["id"], "own tool perf · test/confirmed · processes · ping-pong · block · 64 B");
    assert_eq!(
        (&tool["runs"][0]["own_tool"]["mean_ns"], &tool["runs"][0]["unset"][0]),
        (&Value::from(110_000), &Value::from("a wish of the tool"))
    );
    assert!(
        m["left_out"].to_string().contains("own latency tool of test/sound"),
        "{}",
        m["left_out"]
    );
    assert!(
        row("test/sound", "own_tool").is_none()
            && row("test/sound", "link").unwrap()["own_tool"].is_null()
    );

    let fixed = "--own-tools --wait block --extra none --messages 20 --publisher-cpu any \
         --subscriber-cpus any";
    let out = bench(&format!(
        "link --size 64 --peers test/confirmed,test/contradicted {fixed} --rounds 5"
    ));
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(1), "{text}");
    let line = "test/confirmed · processes · ping-pong · block · 64 B: own tool perf: 105 µs, ours \
         100 µs, 0.95 (0.95–0.95): agrees within 20 %";
    assert!(text.contains(line), "{text}");
    let wrong = text
        .lines()
        .find(|l| l.starts_with("INVALID: test/contradicted"))
        .unwrap_or_else(|| panic!("{text}"));
    assert!(
        wrong.contains("own tool perf") && wrong.contains("differs by more than 20 %"),
        "{wrong}"
    );

    // With few rounds there is no verdict, and nothing is invalid.
    let out = bench(&format!("link --size 64 --peers test/contradicted {fixed} --rounds 1"));
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(
        text.contains("n too small: it takes 5 rounds to say whether they agree, and there are 1"),
        "{text}"
    );

    // They need a peer, and the kind of link that tools measure.
    let error = |args: &str| String::from_utf8(bench(args).stderr).unwrap();
    assert!(error("link --own-tools").contains("--peers"));
    assert!(
        error("link --own-tools --peers test/sound --rate 10")
            .contains("leave out --own-tools or --rate")
    );
}

#[test]
fn peers_are_listed() {
    let printed = |args: &str| String::from_utf8(bench(args).stdout).unwrap();
    let (all, one) = (printed("peers"), printed("peers test"));
    for line in [["test ", "Test peer"], ["ecal ", "Eclipse eCAL"]] {
        assert!(
            all.lines().any(|l| l.starts_with(line[0]) && l.contains(line[1])),
            "{line:?} in {all}"
        );
    }
    for words in ["test/tears", "Unix datagrams, tears", "SO_SNDBUF = default"] {
        assert!(one.contains(words), "{words} in {one}");
    }
    let m: Value = serde_json::from_slice(&bench("peers --json").stdout).unwrap();
    assert!(
        m.as_array().unwrap().iter().any(
            |p| p["name"] == "test" && p["state"]["installed"]["description"]["version"] == "0"
        )
    );
}
