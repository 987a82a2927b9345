// SPDX-License-Identifier: Apache-2.0
//! Runs each variant of every installed peer through the harness protocol with few messages. Checks
//! the function, not the speed. `make peers-test` runs these tests on the peers that `make peers`
//! built; `make measure ONLY=peers` runs a part of them.
//!
//! Parts: `PEERS_TEST_ONLY` names a peer or variant, `PEERS_TEST_CHECK` one of the checks.
//! `PEERS_TEST_USUAL` leaves out tuning variants, whose small datagrams are lost on a busy machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod engine;
mod processes;
mod traces;

use driveline_bench::harness::{Job, Pace, Payload, Reach, Reliability, Take, Wait};
use driveline_bench::peers::{self, Selection, State, Variant, WaitKind};
use driveline_bench::{Account, Kind, Metric, Sample, Trial};
use engine::{job, link, peers_in, trial};
use processes::STALL;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use traces::{adopt_orphans, files, left_behind};

/// A variant of an installed peer.
struct Subject {
    system: String,
    about: Variant,
    peers: Selection,
}

fn subjects() -> Vec<Subject> {
    let Some(directory) = std::env::var_os("DRIVELINE_PEERS") else {
        panic!("DRIVELINE_PEERS must name the directory of peers: run `make peers-test`")
    };
    let mut subjects = Vec::new();
    for peer in peers::discover(Some(Path::new(&directory))).unwrap() {
        let description = match peer.state {
            State::Installed { description, .. } => description,
            State::Broken { program, reason } => panic!("{}: {reason}", program.display()),
            State::NotInstalled { .. } => continue,
        };
        for about in description.variants {
            let system = format!("{}/{}", peer.name, about.name);
            let peers = peers_in(Path::new(&directory), &[&system]);
            subjects.push(Subject { system, about, peers });
        }
    }
    assert!(!subjects.is_empty(), "no peer is installed: run `make peers`");
    if std::env::var_os("PEERS_TEST_USUAL").is_some() {
        subjects.retain(|s| !s.about.tuning);
    }
    if let Ok(only) = std::env::var("PEERS_TEST_ONLY") {
        subjects.retain(|s| s.system == only || s.system.starts_with(&format!("{only}/")));
    }
    subjects
}

impl Subject {
    fn reaches(&self) -> impl Iterator<Item = Reach> {
        [Reach::Host, Reach::Process].into_iter().filter(|r| self.about.reach.contains(r))
    }

    fn reach(&self) -> Reach {
        self.reaches().next().unwrap()
    }

    /// Returns a small payload size and a large one.
    fn sizes(&self) -> [usize; 2] {
        [64, self.about.max_size.min(1 << 20)]
    }

    fn waits(&self, open: bool) -> Vec<Wait> {
        // Two spinning readers and a sender need more CPUs than a small machine has.
        [Wait::Block, Wait::Spin, Wait::SpinThenBlock(20)]
            .into_iter()
            .filter(|wait| self.about.waits.contains(&WaitKind::from(*wait)))
            .filter(|wait| !(open && *wait == Wait::Spin))
            .collect()
    }

    /// Returns a wait mode that leaves a CPU to others, if the variant has one.
    fn wait(&self) -> Wait {
        self.waits(true).first().copied().unwrap_or(Wait::Spin)
    }

    /// A ping-pong of 20 samples of 64 bytes, after 5.
    fn job(&self) -> Job {
        let offered = &self.about.reliability;
        let reliability = if offered.contains(&Reliability::BestEffort) {
            Reliability::BestEffort
        } else {
            Reliability::Reliable
        };
        Job { system: self.system.parse().unwrap(), reliability, ..job() }
    }

    /// Returns true if a process runs its program.
    fn is_run_by(&self, pid: i32) -> bool {
        let file = self.system.split('/').next().unwrap();
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|p| p.file_name().is_some_and(|n| n == file))
    }

    /// Returns the measured ends among its processes. The keeper was started first.
    fn ends(&self) -> Vec<i32> {
        let all = processes::children(std::process::id()).into_iter();
        all.filter(|pid| self.is_run_by(*pid)).skip(usize::from(self.about.keeper)).collect()
    }

    /// Runs jobs, and returns their faults.
    fn faults(&self, jobs: impl IntoIterator<Item = Job>) -> Vec<String> {
        jobs.into_iter().flat_map(|job| self.run(&job).err().unwrap_or_default()).collect()
    }

    /// Runs a job.
    ///
    /// # Errors
    /// Its faults.
    fn run(&self, job: &Job) -> Result<Account, Vec<String>> {
        if let Some(reason) = self.about.refuses(job) {
            return Err(vec![format!("{}: {reason}", name(job))]);
        }
        self.judged(job, link(job, &self.peers))
    }

    fn judged(&self, job: &Job, ended: Result<Account, String>) -> Result<Account, Vec<String>> {
        let account = ended.map_err(|failure| vec![format!("{}: {failure}", name(job))])?;
        // Processor time that the hypervisor takes is not the peer's fault.
        let mut faults: Vec<String> =
            account.invalid.iter().filter(|r| !r.contains("hypervisor")).cloned().collect();
        if account.received.iter().sum::<u64>() == 0 {
            faults.push("nothing was received".into());
        }
        // The peer's description must announce lost rounds.
        if account.lost_rounds.is_some()
            && job.lose_every == 0
            && !self.about.note.contains("loses")
        {
            faults.push(format!("lost {:?}", account.lost_rounds));
        }
        if faults.is_empty() {
            return Ok(account);
        }
        Err(faults.into_iter().map(|fault| format!("{}: {fault}", name(job))).collect())
    }
}

/// Names a job in a fault.
fn name(job: &Job) -> String {
    let Job { reach, size, wait, take, payload, pace, subscribers, .. } = job;
    format!("{reach:?} {size} B {wait} {take:?} {payload:?} {pace:?} to {subscribers}")
}

/// Held by the test that runs processes of peers: only one test does so at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// Number of checks that have run.
static LOOKED: AtomicUsize = AtomicUsize::new(0);

/// Runs one check for every peer and returns the faults.
fn check(what: &str, of: impl Fn(&Subject) -> Vec<String>) -> Vec<String> {
    if std::env::var("PEERS_TEST_CHECK").is_ok_and(|only| only != what) {
        return Vec::new();
    }
    LOOKED.fetch_add(1, Ordering::Relaxed);
    let mut failed = Vec::new();
    for subject in subjects() {
        let name = subject.system.split('/').next().unwrap();
        let (before, start) = (files(name), Instant::now());
        let mut faults = of(&subject);
        faults.extend(
            left_behind(name, &before).into_iter().map(|what| format!("{what} is left behind")),
        );
        eprintln!(
            "{what}: {}: {} ({:.0} s)",
            subject.system,
            if faults.is_empty() { "ok" } else { "FAILED" },
            start.elapsed().as_secs_f64()
        );
        failed.extend(faults.into_iter().map(|f| format!("{what}: {}: {f}", subject.system)));
    }
    failed
}

/// A reader whose processing takes longer than the interval between samples. With a depth of 1,
/// samples are replaced, the account closes, and the last read sample is the newest. The kernel's
/// pipes and sockets (`baseline`) replace nothing: all samples are read, some of them late.
fn falls_behind(s: &Subject) -> Vec<String> {
    let mut faults = Vec::new();
    for reach in s.reaches() {
        let job = Job {
            reach,
            wait: s.wait(),
            pace: Pace::RateHz(200.0),
            processing_us: 20_000,
            messages: 40,
            ..s.job()
        };
        let account = match s.run(&job) {
            Ok(account) => account,
            Err(faults) => return faults,
        };
        let (missed, received) = (account.missed[0], account.received[0]);
        if s.system.starts_with("baseline/") {
            if (missed, received) != (0, 40) {
                faults.push(format!(
                    "{}: {received} received and {missed} missed, though nothing is replaced",
                    name(&job)
                ));
            }
        } else if missed == 0 {
            faults.push(format!("{}: no sample is replaced: {account:?}", name(&job)));
        }
        let last = account.stamps.iter().max_by_key(|s| s.sent.sequence).unwrap();
        if last.received.is_none() {
            faults.push(format!(
                "{}: the newest sample is not the last one read: {last:?}",
                name(&job)
            ));
        }
        // The processor time is reported per sample that was sent.
        let cpu = account
            .subscriber_cpu_ns_per_sample
            .map(|ns| ns * (received + missed) as f64 / received as f64);
        if cpu.is_some_and(|ns| ns < 19e6) {
            faults.push(format!(
                "{}: a sample cost {cpu:?} ns of processor time instead of 20 ms",
                name(&job)
            ));
        }
    }
    faults
}

/// The twentieth question and the twentieth answer that arrive are dropped. Both ends continue, and
/// both losses are reported.
fn loses(s: &Subject) -> Vec<String> {
    let mut faults = Vec::new();
    for reach in s.reaches() {
        for wait in s.waits(false) {
            for payload in [Payload::Untouched, Payload::Filled] {
                let job = Job { reach, wait, payload, lose_every: 20, ..s.job() };
                match s.run(&job).map(|account| account.lost_rounds.unwrap_or_default()) {
                    Ok(lost) if lost.questions == 0 || lost.answers == 0 => {
                        faults.push(format!("{}: losses are not reported: {lost:?}", name(&job)));
                    }
                    Ok(_) => {}
                    Err(more) => faults.extend(more),
                }
            }
        }
    }
    faults
}

/// The receiving end is stopped repeatedly. The reported latency of samples that are due meanwhile
/// must include the stop, whichever program keeps the schedule, and whichever takes the stamps.
fn stalled(s: &Subject) -> Vec<String> {
    const PERIOD: Duration = Duration::from_millis(10);
    let ns = |d: Duration| d.as_nanos() as u64;
    // Room for all samples that are due in two stalls.
    let job = Job {
        reach: s.reach(),
        wait: s.wait(),
        pace: Pace::RateHz(100.0),
        depth: 64,
        messages: 400,
        ..s.job()
    };
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut stalls = Vec::new();
    let ended = while_it_runs(s, &job, |interrupted| {
        let ends = s.ends();
        // At reach `process`, both ends are in one process.
        if ends.len() == if job.reach == Reach::Process { 1 } else { 2 } {
            stalls.extend(processes::stall(ends[0], || Instant::now() > deadline));
        }
        interrupted.store(Instant::now() > deadline, Ordering::Relaxed);
    });
    let account = match s.judged(&job, ended) {
        Ok(account) => account,
        Err(faults) => return faults,
    };
    let mut faults = Vec::new();
    let due = |sample: &Sample| sample.sent.scheduled;
    let in_hand = |sample: &Sample| sample.received.map(|r| r.in_hand);
    let first = account.stamps.iter().map(due).min().unwrap();
    let last = account.stamps.iter().map(due).max().unwrap();
    stalls.retain(|s| s.from > first && s.to < last);
    if stalls.is_empty() {
        return vec![format!("{}: it never stood still while samples were due", name(&job))];
    }
    let (mut longest, mut gone) = (0, 0);
    for stall in &stalls {
        let during = |s: &&Sample| due(s) > stall.from && due(s) < stall.to;
        let stalled: Vec<&Sample> = account.stamps.iter().filter(during).collect();
        if (stalled.len() as u64) < ns(STALL) / ns(PERIOD) - 2 {
            faults.push(format!(
                "{}: only {} samples were due in {stall:?}",
                name(&job),
                stalled.len()
            ));
        }
        if let Some(early) = stalled.iter().find(|s| in_hand(s).is_some_and(|at| at < stall.to)) {
            faults.push(format!(
                "{}: {early:?} was received while no reader could take it, in {stall:?}",
                name(&job)
            ));
        }
        gone += stalled.iter().filter(|s| in_hand(s).is_none()).count() as u64;
        let late = stalled.iter().find(|s| in_hand(s).is_some()).map_or(0, |s| stall.to - due(s));
        longest = longest.max(late);
    }
    // SIM, the protocol of a paper, has two buffers, whatever the depth of the job.
    let replaces = s.system.starts_with("as_published/sim");
    if gone > 0 && !replaces || gone > account.missed[0] {
        faults.push(format!("{}: {gone} of the samples due meanwhile did not come", name(&job)));
    }
    if !replaces && longest < ns(STALL) - 2 * ns(PERIOD) {
        faults.push(format!(
            "{}: what was due at the beginning of {stalls:?} came {longest} ns late at least",
            name(&job)
        ));
    }
    let reported = account.samples.get(&Metric::ScheduleRelative).cloned().unwrap_or_default();
    if reported.len() as u64 != account.received[0]
        || reported.iter().max().is_none_or(|max| *max < longest.max(1))
    {
        faults.push(format!(
            "{}: a sample was at least {longest} ns late, and {} figures have at most {:?}",
            name(&job),
            reported.len(),
            reported.iter().max()
        ));
    }
    faults
}

/// A middleware's own latency tool runs and has a result. Its agreement depends on speed and is not
/// checked.
fn own_tool(s: &Subject) -> Vec<String> {
    if s.about.own_tool.is_empty() {
        return Vec::new();
    }
    let job = Job { size: 1024, ..s.job() };
    let of = |reliability| Job { reliability, ..job.clone() };
    let measured = [job.reliability, Reliability::Reliable]
        .map(of)
        .into_iter()
        .find(|job| s.about.has_own_tool_for(job));
    let Some(job) = measured else {
        return vec!["its own tool measures no blocking ping-pong of 1 KiB".into()];
    };
    let interrupted = AtomicBool::new(false);
    match trial(&Trial::new(Kind::OwnTool, job), &s.peers, &interrupted) {
        Ok(Account { own_tool: Some(said), .. })
            if said.name == s.about.own_tool && said.p50_ns > 0 && said.n > 0 =>
        {
            Vec::new()
        }
        other => vec![format!("{other:?}")],
    }
}

/// SIM's protocol tears a sample if the writer publishes twice while a reader copies. So the test
/// sends large payloads, faster than they can be copied, to three readers on two CPUs. If no sample
/// were reported as torn, the harness would not detect torn samples.
fn tears(s: &Subject) -> Vec<String> {
    if !s.system.starts_with("as_published/sim") {
        return Vec::new();
    }
    let job = Job {
        size: 8 << 20,
        pace: Pace::RateHz(1000.0),
        subscribers: 3,
        messages: 500,
        warm_up: 10,
        payload: Payload::Filled,
        ..s.job()
    };
    match link(&job, &s.peers) {
        Ok(a) if a.torn > 0 && a.invalid.iter().any(|r| r.contains("payload mismatch")) => {
            Vec::new()
        }
        other => vec![format!("no torn payload is shown: {other:?}")],
    }
}

/// The scenarios' assumptions about systems match the systems' own descriptions.
#[test]
fn peers_can_do_what_scenarios_count_on() {
    let _alone = ALONE.lock();
    let noted: Value = serde_json::from_str(include_str!("capabilities.json")).unwrap();
    let named = |list: &Value, name: &Value| {
        list.as_array().unwrap().iter().find(|x| x["name"] == *name).cloned()
    };
    let mut differ = Vec::new();
    for s in subjects() {
        let (peer, variant) = s.system.split_once('/').unwrap();
        let Some(capabilities) =
            named(&noted, &peer.into()).and_then(|p| named(&p["variants"], &variant.into()))
        else {
            differ.push(format!("{}: it is missing", s.system));
            continue;
        };
        let about = serde_json::to_value(&s.about).unwrap();
        let said = capabilities
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, value)| about[key.as_str()] != **value);
        differ.extend(said.map(|(key, value)| {
            format!("{}: {key} is noted as {value}, and it says {}", s.system, about[key.as_str()])
        }));
    }
    assert!(
        differ.is_empty(),
        "tests/capabilities.json is older than the peers:\n{}",
        differ.join("\n")
    );
}

/// Cases run one after the other, so that peers do not share daemons or CPUs.
#[test]
fn every_variant_of_every_peer_keeps_the_protocol() {
    let _alone = ALONE.lock();
    adopt_orphans();
    // All checks run, whatever failed before.
    let mut failed = check("ping-pong", |s| {
        let mut jobs = Vec::new();
        for (reach, wait, size) in shapes(s, &s.waits(false)) {
            let plain = Job { reach, wait, size, ..s.job() };
            let filled = |take| Job { payload: Payload::Filled, take, ..plain.clone() };
            jobs.extend([filled(Take::Borrow), filled(Take::Copy), plain.clone()]);
        }
        s.faults(jobs)
    });
    failed.extend(check("open loop, one to two", |s| {
        let mut waits = s.waits(true);
        let mut subscribers = 2;
        if waits.is_empty() || s.about.max_subscribers < 2 {
            (waits, subscribers) = (s.waits(false), 1);
        }
        let payload = Payload::Filled;
        let pace = Pace::RateHz(50.0);
        s.faults(shapes(s, &waits).map(|(reach, wait, size)| Job {
            reach,
            wait,
            size,
            payload,
            pace,
            subscribers,
            ..s.job()
        }))
    }));
    failed.extend(check("losses", loses));
    failed.extend(check("slow reader", falls_behind));
    failed.extend(check("stalled", stalled));
    failed.extend(check("own tool", own_tool));
    failed.extend(check("torn payloads", tears));
    failed.extend(check("interrupted", |s| {
        ended_early(s, "interrupted", |interrupted, _| interrupted.store(true, Ordering::Relaxed))
    }));
    failed.extend(check("killed ends", |s| {
        ended_early(s, "ended too early (signal: 9", |_, ends| {
            ends.iter().for_each(|end| kill(*end));
        })
    }));
    assert!(LOOKED.load(Ordering::Relaxed) > 0, "PEERS_TEST_CHECK names none of the checks");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Reaches, ways of waiting and sizes of a peer, in all combinations.
fn shapes(s: &Subject, waits: &[Wait]) -> impl Iterator<Item = (Reach, Wait, usize)> {
    let mut shapes = Vec::new();
    for reach in s.reaches() {
        for wait in waits {
            shapes.extend(s.sizes().map(|size| (reach, *wait, size)));
        }
    }
    shapes.into_iter()
}

fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Runs a job, and calls `poll` repeatedly until the job has ended.
fn while_it_runs(
    s: &Subject,
    job: &Job,
    mut poll: impl FnMut(&AtomicBool),
) -> Result<Account, String> {
    let interrupted = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let run =
            scope.spawn(|| trial(&Trial::new(Kind::Link, job.clone()), &s.peers, &interrupted));
        while !run.is_finished() {
            poll(&interrupted);
            std::thread::sleep(Duration::from_millis(100));
        }
        run.join().unwrap()
    })
}

/// Ends a link of this peer while it runs, with `end`, and returns the faults of the result.
fn ended_early(s: &Subject, says: &str, end: impl Fn(&AtomicBool, &[i32])) -> Vec<String> {
    let job = Job {
        reach: s.reach(),
        wait: s.waits(false)[0],
        size: 64 << 10,
        pace: Pace::RateHz(20.0),
        messages: 100_000,
        warm_up: 0,
        ..s.job()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    let (mut ended, mut late) = (false, false);
    let result = while_it_runs(s, &job, |interrupted| {
        if !ended && !s.ends().is_empty() {
            // Usually the link is connected after this time. Nothing may remain, whenever the link
            // ends.
            std::thread::sleep(Duration::from_millis(1500));
            let ends = s.ends();
            if !ends.is_empty() {
                end(interrupted, &ends);
                ended = true;
            }
        }
        if Instant::now() > deadline {
            late = true;
            interrupted.store(true, Ordering::Relaxed);
        }
    });
    let mut faults = Vec::new();
    if late {
        faults.push("it did not end within 60 s".to_owned());
    }
    match result {
        Err(failure) if failure.contains(says) => {}
        other => faults.push(format!("it ended otherwise: {other:?}")),
    }
    if !ended {
        faults.push("its processes were never seen".to_owned());
    }
    faults
}
