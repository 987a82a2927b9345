// SPDX-License-Identifier: Apache-2.0
//! Runs of single links, driven in this process as the laboratory drives them.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses some of it, and may stop at a surprise"
)]

use driveline_bench::harness::{
    Job, PROTOCOL, Pace, Payload, Reach, Reliability, Role, System, Take, Wait,
};
use driveline_bench::peers::{self, Selection};
use driveline_bench::{
    Account, Beside, Kind, PEER_COMMAND, Program, RunDirectory, Runner, Scratch, Trial,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

/// The program of the measured processes.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_driveline-bench-end");

/// A blocking ping-pong of Driveline between processes: 20 samples of 64 untouched bytes, after 5.
pub(crate) fn job() -> Job {
    Job {
        protocol: PROTOCOL,
        role: Role::Publisher,
        system: System::Driveline,
        reach: Reach::Host,
        domain_dir: PathBuf::new(),
        topic: "link".into(),
        size: 64,
        wait: Wait::Block,
        take: Take::Borrow,
        payload: Payload::Untouched,
        pace: Pace::PingPong,
        warm_up: 5,
        messages: 20,
        depth: 1,
        reliability: Reliability::BestEffort,
        subscribers: 1,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: vec![],
        priority: 0,
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
        raw_dir: PathBuf::new(),
    }
}

/// The floor of a link: a bare word in the same shape.
pub(crate) fn floor(link: &Job) -> Job {
    let (take, payload) = (Take::Borrow, Payload::Untouched);
    Job { system: link.floor(), size: 0, take, payload, lose_every: 0, ..link.clone() }
}

/// Selects the named peers of a directory; all must be available.
pub(crate) fn peers_in(directory: &Path, names: &[&str]) -> Selection {
    let found = peers::discover(Some(directory)).unwrap();
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let selection = peers::select(&found, &names).unwrap();
    assert!(selection.unavailable.is_empty(), "{:?}", selection.unavailable);
    selection
}

/// Runs a trial until it ends, or until it is interrupted.
///
/// # Errors
/// The failure of the run, as an archive has it.
pub(crate) fn trial(
    trial: &Trial,
    peers: &Selection,
    interrupted: &AtomicBool,
) -> Result<Account, String> {
    let program = Program { path: PROGRAM.into(), args: vec![PEER_COMMAND.into()] };
    let runner = Runner { program: &program, peers, interrupted, gateway: None };
    let scratch = Scratch::new().unwrap();
    let dir = RunDirectory::within(scratch.path()).unwrap();
    let job = &trial.job;
    // The laboratory runs a stream between processes in this way.
    let is_stream =
        trial.kind == Kind::Link && job.pace != Pace::PingPong && job.reach == Reach::Host;
    let ended = if is_stream {
        runner.run_links(std::slice::from_ref(job), &Beside::default(), dir.path())
    } else {
        runner.run(trial, dir.path())
    };
    ended.map(|mut run| run.accounts.remove(0)).map_err(|e| format!("{e:#}"))
}

/// Runs a link.
///
/// # Errors
/// The failure of the run.
pub(crate) fn link(job: &Job, peers: &Selection) -> Result<Account, String> {
    trial(&Trial::new(Kind::Link, job.clone()), peers, &AtomicBool::new(false))
}

/// Runs a trial of Driveline, or of the machine's limits, which must not fail.
pub(crate) fn own(kind: Kind, job: &Job) -> Account {
    let trial_of_it = Trial::new(kind, job.clone());
    trial(&trial_of_it, &Selection::default(), &AtomicBool::new(false))
        .unwrap_or_else(|e| panic!("{kind:?} of {job:?}: {e}"))
}

/// Checks that a run is valid, and that its account closes with that many samples.
pub(crate) fn check(account: &Account, samples: u64) {
    assert_eq!(account.invalid, Vec::<String>::new());
    assert_eq!(account.scheduled, samples);
    assert_eq!(account.sent + account.not_sent.values().sum::<u64>(), samples);
    for (received, missed) in account.received.iter().zip(&account.missed) {
        assert_eq!(received + missed, account.sent);
    }
    // The stamps of every counted sample are there.
    assert_eq!(account.stamps.len() as u64, account.sent * account.received.len() as u64);
}
