// SPDX-License-Identifier: Apache-2.0
//! Other programs, measured by the same engine: a peer in Python, whose variants do what peers must
//! not do.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod engine;

use driveline_bench::harness::{Job, Pace, Payload};
use driveline_bench::{Account, Kind, Trial};
use engine::{check, job, link, peers_in, trial};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// Makes a directory of peers with the peer `test`, and the directory `left` in which that peer
/// notes what it leaves behind.
fn directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let peer = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peer.py");
    std::os::unix::fs::symlink(peer, dir.path().join("test")).unwrap();
    std::fs::create_dir(dir.path().join("left")).unwrap();
    dir
}

/// Names of the files and processes that the peer leaves behind, as it noted them.
fn left(directory: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(directory.join("left")).unwrap();
    entries.map(|e| e.unwrap().file_name()).collect()
}

/// The same job over another system.
fn over(system: &str, job: &Job) -> Job {
    Job { system: system.parse().unwrap(), ..job.clone() }
}

/// Runs a link over a variant of the peer.
fn run(variant: &str, job: &Job) -> Result<Account, String> {
    let (dir, system) = (directory(), format!("test/{variant}"));
    link(&over(&system, job), &peers_in(dir.path(), &[&system]))
}

/// A stream of 500 samples a second.
fn stream() -> Job {
    Job { pace: Pace::RateHz(500.0), ..job() }
}

#[test]
fn a_peer_runs_with_an_account_that_closes() {
    for variant in ["sound", "kept"] {
        for size in [64, 4096] {
            for payload in [Payload::Untouched, Payload::Filled] {
                let account = run(variant, &Job { size, payload, ..job() }).unwrap();
                check(&account, 20);
                assert_eq!(account.sent, 20, "{account:?}");
            }
        }
    }
    let to_two = Job { subscribers: 2, payload: Payload::Filled, ..stream() };
    let account = run("sound", &to_two).unwrap();
    check(&account, 20);
    // Each of two subscribers verifies the first sample, 5 samples of warm-up and 20 counted
    // samples.
    assert_eq!((&account.received, account.verified), (&vec![20, 20], 52), "{account:?}");
}

#[test]
fn a_peer_that_loses_tears_or_dies_is_shown_so() {
    let filled = Job { payload: Payload::Filled, ..stream() };
    let account = run("forgets", &filled).unwrap();
    assert!(account.invalid.join("; ").contains("lost and in no count"), "{account:?}");
    let account = run("tears", &filled).unwrap();
    assert!(account.invalid.join("; ").contains("payload mismatch"), "{account:?}");
    assert!(account.torn >= 6, "{account:?}");
    let failure = run("dies", &filled).unwrap_err();
    assert!(failure.contains("exit status: 7"), "{failure}");
}

/// The earlier reports of the peer may be correct, but its failure at the end must be shown.
#[test]
fn a_peer_that_fails_once_it_is_done_is_shown_with_its_reason() {
    for job in [job(), stream()] {
        let failure = run("fails", &job).unwrap_err();
        for part in
            ["publisher was done, and then failed", "exit status: 3", "the daemon does not answer"]
        {
            assert!(failure.contains(part), "no '{part}' in {failure}");
        }
    }
}

/// Without time limits, both runs would take an hour.
#[test]
fn a_peer_that_falls_silent_or_leaves_processes_behind_delays_no_other() {
    let failure = run("silent", &stream()).unwrap_err();
    assert!(failure.contains("subscriber") && failure.contains("closed its output"), "{failure}");
    let dir = directory();
    let peers = peers_in(dir.path(), &["test/leaves"]);
    let account = link(&over("test/leaves", &stream()), &peers).unwrap();
    check(&account, 20);
    let pids = left(dir.path());
    assert_eq!(pids.len(), 2, "one of each end");
    for pid in pids {
        // The process was killed. On a busy machine it may not have ended yet, or its new parent
        // may not have waited for it.
        let stat = Path::new("/proc").join(&pid).join("stat");
        let ended = || match std::fs::read_to_string(&stat) {
            Ok(status) => status.contains(") Z ") || status.contains(") X "),
            Err(_) => true,
        };
        let since = Instant::now();
        while !ended() {
            // time: only a bug keeps the process alive for so long
            assert!(since.elapsed() < Duration::from_secs(60), "{pid:?} goes on");
            std::thread::sleep(Duration::from_millis(5)); // time: polls for an end
        }
    }
}

/// The keeper is killed, so it cannot clean up.
#[test]
fn what_a_killed_keeper_leaves_in_shared_memory_is_removed_by_its_list() {
    let dir = directory();
    let peers = peers_in(dir.path(), &["test/orphans"]);
    let failure = link(&over("test/orphans", &stream()), &peers).unwrap_err();
    assert!(failure.contains("the keeper ended too early (signal: 9"), "{failure}");
    let names = left(dir.path());
    assert!(!names.is_empty());
    for name in names.into_iter().map(|name| name.into_string().unwrap()) {
        for file in [format!("{name}_lock"), name] {
            let path = Path::new("/dev/shm").join(file);
            // If the file exists, this call also removes it, so that the test leaves nothing.
            assert!(std::fs::remove_file(&path).is_err(), "{} was left", path.display());
        }
    }
}

/// The twentieth of the 25 questions and the twentieth of the 24 answers that arrive are dropped.
/// With a depth above 1, no question replaces another one when the machine stands still.
#[test]
fn a_ping_pong_that_loses_goes_on_and_shows_what_it_lost() {
    let dir = directory();
    let peers = peers_in(dir.path(), &["test/loses"]);
    for payload in [Payload::Untouched, Payload::Filled] {
        let lossy = Job { payload, lose_every: 20, depth: 16, ..job() };
        for system in ["test/loses", "driveline"] {
            let account = link(&over(system, &lossy), &peers).unwrap();
            assert_eq!(account.invalid, Vec::<String>::new(), "{system}");
            let lost = account.lost_rounds.as_ref().unwrap();
            assert_eq!(
                (lost.questions, lost.answers, &lost.unsent_answers),
                (1, 1, &BTreeMap::new()),
                "{system}: {account:?}"
            );
            // If the machine stands still for a second, another answer may be late.
            let missed = account.missed[0];
            assert!((2..=2 + lost.late).contains(&missed), "{system}: {account:?}");
            assert_eq!(account.received[0] + missed, account.sent, "{system}: {account:?}");
        }
    }
}

#[test]
fn what_a_middlewares_own_tool_says_is_its_account() {
    let dir = directory();
    let tool = |variant: &str| {
        let system = format!("test/{variant}");
        let of_tool = Trial::new(Kind::OwnTool, over(&system, &job()));
        trial(&of_tool, &peers_in(dir.path(), &[&system]), &AtomicBool::new(false))
    };
    let account = tool("confirmed").unwrap();
    let said = account.own_tool.unwrap();
    assert_eq!((said.name.as_str(), said.p50_ns, said.mean_ns), ("perf", 105_000, Some(110_000)));
    assert_eq!((said.n, account.unset), (20, vec!["a wish of the tool".to_owned()]));
    assert!(tool("contradicted").unwrap().own_tool.is_some());
}
