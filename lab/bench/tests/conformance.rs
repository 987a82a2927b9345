// SPDX-License-Identifier: Apache-2.0
//! Every installed peer, each of its variants, through the harness protocol with few messages:
//! checks the function, not the speed. `make peers-test` runs it on the peers that `make peers`
//! built; `make measure ONLY=peers` runs a part of it.
//!
//! Parts: `PEERS_TEST_ONLY` names a peer or variant, `PEERS_TEST_CHECK` one of the checks.
//! `PEERS_TEST_USUAL` leaves out tuning variants, whose small datagrams are lost on a busy machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod processes;
mod traces;

use processes::STALL;
use serde_json::Value;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use traces::{MARK, files, left_behind};

const BENCH: &str = env!("CARGO_BIN_EXE_driveline-bench-link");

/// A variant of an installed peer, and its description.
struct Subject {
    system: String,
    about: Value,
}

fn subjects() -> Vec<Subject> {
    assert!(
        std::env::var_os("DRIVELINE_PEERS").is_some(),
        "DRIVELINE_PEERS must name the directory of peers: run `make peers-test`"
    );
    let out = Command::new(BENCH).args(["peers", "--json"]).output().unwrap();
    let peers: Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut subjects = Vec::new();
    for peer in peers.as_array().unwrap() {
        assert_eq!(peer["state"]["broken"], Value::Null, "{peer}");
        let name = peer["name"].as_str().unwrap();
        for about in
            peer["state"]["installed"]["description"]["variants"].as_array().unwrap_or(&Vec::new())
        {
            subjects.push(Subject {
                system: format!("{name}/{}", about["name"].as_str().unwrap()),
                about: about.clone(),
            });
        }
    }
    assert!(!subjects.is_empty(), "no peer is installed: run `make peers`");
    if std::env::var_os("PEERS_TEST_USUAL").is_some() {
        subjects.retain(|s| s.about["tuning"] != true);
    }
    if let Ok(only) = std::env::var("PEERS_TEST_ONLY") {
        subjects.retain(|s| s.system == only || s.system.starts_with(&format!("{only}/")));
    }
    subjects
}

impl Subject {
    fn has(&self, what: &str, word: &str) -> bool {
        self.about[what].as_array().unwrap().iter().any(|v| v == word)
    }

    fn reaches(&self) -> impl Iterator<Item = &'static str> {
        ["host", "process"].into_iter().filter(|r| self.has("reach", r))
    }

    /// Returns a small payload size and a large one.
    fn sizes(&self) -> String {
        format!("64,{}", self.about["max_size"].as_u64().unwrap().min(1 << 20))
    }

    fn waits(&self, open: bool) -> String {
        // Two spinning readers and a sender need more CPUs than a small machine has.
        let kinds = [("block", "block"), ("spin", "spin"), ("spin_then_block", "spin:20")];
        let words: Vec<_> = kinds
            .into_iter()
            .filter(|(kind, _)| self.has("waits", kind) && !(open && *kind == "spin"))
            .map(|(_, word)| word)
            .collect();
        words.join(",")
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(BENCH);
        command.env(MARK, std::process::id().to_string());
        command.arg("link").args(args.split_whitespace()).args([
            "--peers",
            &self.system,
            "--extra",
            "none",
            "--json",
            "--rounds",
            "1",
        ]);
        if !self.has("reliability", "best_effort") {
            command.arg("--reliable");
        }
        command
    }

    /// Returns true if a process runs its program.
    fn is_run_by(&self, pid: u32) -> bool {
        let file = self.system.split('/').next().unwrap();
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|p| p.file_name().is_some_and(|n| n == file))
    }

    /// Runs cases and returns the faults of those of this peer.
    fn faults(&self, args: &str, expected_cases: usize) -> Vec<String> {
        let out = self.command(args).output().unwrap();
        let Ok(m) = serde_json::from_slice::<Value>(&out.stdout) else {
            return vec![format!("{args}: {}", String::from_utf8_lossy(&out.stderr))];
        };
        self.faults_in(&m, args, expected_cases)
    }

    fn faults_in(&self, m: &Value, args: &str, expected_cases: usize) -> Vec<String> {
        let mut faults = Vec::new();
        let mut cases = 0;
        for case in m["cases"].as_array().unwrap().iter().filter(|c| c["system"] == *self.system) {
            cases += 1;
            for run in case["runs"].as_array().unwrap() {
                // Processor time that the hypervisor takes is not the peer's fault.
                let own = |reason: &&Value| !reason.to_string().contains("hypervisor");
                let reasons = run["invalid"].as_array().map(|i| {
                    i.iter().filter(own).map(ToString::to_string).collect::<Vec<_>>().join("; ")
                });
                match (&run["failure"], reasons) {
                    (Value::String(failure), _) => {
                        faults.push(format!("{}: {failure}", case["id"]))
                    }
                    (_, Some(reasons)) if !reasons.is_empty() => {
                        faults.push(format!("{}: {reasons}", case["id"]))
                    }
                    _ => {
                        let received: u64 = run["received"]
                            .as_array()
                            .unwrap()
                            .iter()
                            .map(|n| n.as_u64().unwrap())
                            .sum();
                        if received == 0 {
                            faults.push(format!("{}: nothing was received", case["id"]));
                        }
                        let lost = &run["lost_rounds"];
                        // Its description must announce that.
                        if !lost.is_null()
                            && !args.contains("--lose-every")
                            && !self.about["note"].to_string().contains("loses")
                        {
                            faults.push(format!("{}: lost {lost}", case["id"]));
                        }
                    }
                }
            }
        }
        if cases != expected_cases {
            faults.push(format!(
                "{args}: {cases} cases were measured instead of {expected_cases}: {}",
                m["left_out"]
            ));
        }
        faults
    }
}

/// Number of checks.
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
/// samples are replaced, the account closes, and the last read sample is the newest. Queues of the
/// kernel replace nothing: there, everything is read, late.
fn falls_behind(s: &Subject) -> Vec<String> {
    let stamps = tempfile::NamedTempFile::new().unwrap();
    let mut faults = Vec::new();
    for reach in s.reaches() {
        let wait = s.waits(true);
        let wait = if wait.is_empty() { "spin" } else { wait.split(',').next().unwrap() };
        let args = format!(
            "--reach {reach} --size 64 --wait {wait} --rate 200 --processing-us 20000 --messages \
             40 --warm-up 5"
        );
        let out = s.command(&args).arg("--raw").arg(stamps.path()).output().unwrap();
        let Ok(m) = serde_json::from_slice::<Value>(&out.stdout) else {
            return vec![format!("{args}: {}", String::from_utf8_lossy(&out.stderr))];
        };
        faults.extend(s.faults_in(&m, &args, 1));
        if !faults.is_empty() {
            return faults;
        }
        let case =
            m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system).unwrap();
        let run = &case["runs"][0];
        let (missed, received) =
            (run["missed"][0].as_u64().unwrap(), run["received"][0].as_u64().unwrap());
        if s.system.starts_with("baseline/") {
            if (missed, received) != (0, 40) {
                faults.push(format!(
                    "{args}: {received} received and {missed} missed, though nothing is replaced"
                ));
            }
        } else if missed == 0 {
            faults.push(format!("{args}: no sample is replaced: {run}"));
        }
        let text = std::fs::read_to_string(stamps.path()).unwrap();
        let id = format!("\"{}\",", case["id"].as_str().unwrap());
        let last = text.lines().rfind(|line| line.starts_with(&id)).unwrap();
        // The last field but two is the stamp "in hand"; without it, the sample was not received.
        if last.rsplit(',').nth(2) == Some("") {
            faults.push(format!("{args}: the newest sample is not the last one read: {last}"));
        }
        // It is reported for each sample that was sent.
        let cpu = run["subscriber_cpu_ns_per_sample"]
            .as_f64()
            .map(|ns| ns * (received + missed) as f64 / received as f64);
        if cpu.is_some_and(|ns| ns < 19e6) {
            faults.push(format!(
                "{args}: a sample cost {cpu:?} ns of processor time instead of 20 ms"
            ));
        }
    }
    faults
}

/// The twentieth question and the twentieth answer that arrive are dropped. Both ends continue, and
/// both losses are reported.
fn loses(s: &Subject) -> Vec<String> {
    let mut faults = Vec::new();
    let waits = s.waits(false);
    for reach in s.reaches() {
        let args = format!(
            "--reach {reach} --size 64 --wait {waits} --payload untouched,filled --messages 20 \
             --warm-up 5 --lose-every 20"
        );
        let out = s.command(&args).output().unwrap();
        let m: Value = serde_json::from_slice(&out.stdout).unwrap();
        faults.extend(s.faults_in(&m, &args, 2 * waits.split(',').count()));
        for case in m["cases"].as_array().unwrap().iter().filter(|c| c["system"] == *s.system) {
            let lost = &case["runs"][0]["lost_rounds"];
            let at_least_one = |what: &str| lost[what].as_u64().is_some_and(|n| n >= 1);
            if !at_least_one("questions") || !at_least_one("answers") {
                faults.push(format!("{}: losses are not reported: {lost}", case["id"]));
            }
        }
    }
    faults
}

/// Returns the times of a sample in the output of `--raw`: due, and in hand if it came.
fn due_and_in_hand(line: &str) -> (u64, Option<u64>) {
    // The name is first, and may contain commas.
    let stamps: Vec<Option<u64>> =
        line.rsplit(',').take(8).map(|stamp| stamp.parse().ok()).collect();
    (stamps[7].unwrap(), stamps[2])
}

/// The receiving end is stopped repeatedly. Samples that are due meanwhile must be reported at
/// least as late as the stop made them, whichever program keeps the schedule, and whichever takes
/// the stamps.
fn stalled(s: &Subject) -> Vec<String> {
    const PERIOD: Duration = Duration::from_millis(10);
    let ns = |d: Duration| d.as_nanos() as u64;
    let (reach, wait) = (s.reaches().next().unwrap(), s.waits(true));
    let wait = if wait.is_empty() { "spin" } else { wait.split(',').next().unwrap() };
    let (stamps, said) =
        (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
    // Room for all samples that are due in two stalls.
    let args = format!(
        "--reach {reach} --size 64 --wait {wait} --rate 100 --depth 64 --messages 400 --warm-up 5 \
         --seed 1"
    );
    let mut bench = s
        .command(&args)
        .arg("--raw")
        .arg(stamps.path())
        .stdout(said.reopen().unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(120);
    let mut stalls = Vec::new();
    while bench.try_wait().unwrap().is_none() {
        if Instant::now() > deadline {
            signal(bench.id(), rustix::process::Signal::INT);
            bench.wait().unwrap();
            return vec!["it did not end within 120 s".to_owned()];
        }
        let started = processes::children(bench.id());
        let ends: Vec<i32> =
            started.iter().copied().filter(|pid| s.is_run_by(*pid as u32)).collect();
        // The keeper was started first, then the receiving end; within a process there is only one
        // process.
        let ends = ends.get(usize::from(s.about["keeper"] == true)..).unwrap_or_default();
        if ends.len() == if reach == "process" { 1 } else { 2 } {
            stalls.extend(processes::stall(ends[0], || Instant::now() > deadline));
        }
        started
            .iter()
            .filter(|pid| is_own(**pid as u32))
            .for_each(|own| signal(*own as u32, rustix::process::Signal::KILL));
        std::thread::sleep(Duration::from_millis(100));
    }
    let m: Value = serde_json::from_reader(said.reopen().unwrap()).unwrap();
    let mut faults = s.faults_in(&m, &args, 1);
    if !faults.is_empty() {
        return faults;
    }
    let case = m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system).unwrap();
    let (run, id) = (&case["runs"][0], format!("\"{}\",", case["id"].as_str().unwrap()));
    let text = std::fs::read_to_string(stamps.path()).unwrap();
    let samples: Vec<_> =
        text.lines().filter(|line| line.starts_with(&id)).map(due_and_in_hand).collect();
    let (first, last) =
        (samples.iter().map(|s| s.0).min().unwrap(), samples.iter().map(|s| s.0).max().unwrap());
    stalls.retain(|s| s.from > first && s.to < last);
    if stalls.is_empty() {
        return vec![format!("{args}: it never stood still while samples were due")];
    }
    let (mut longest, mut gone) = (0, 0);
    for stall in &stalls {
        let due: Vec<_> = samples.iter().filter(|s| s.0 > stall.from && s.0 < stall.to).collect();
        if (due.len() as u64) < ns(STALL) / ns(PERIOD) - 2 {
            faults.push(format!("{args}: only {} samples were due in {stall:?}", due.len()));
        }
        if let Some(early) = due.iter().find(|s| s.1.is_some_and(|at| at < stall.to)) {
            faults.push(format!(
                "{args}: {early:?} was received while no reader could take it, in {stall:?}"
            ));
        }
        gone += due.iter().filter(|s| s.1.is_none()).count() as u64;
        longest = longest.max(due.iter().find(|s| s.1.is_some()).map_or(0, |s| stall.to - s.0));
    }
    // Two buffers, whatever the depth of the job.
    let replaces = s.system.starts_with("as_published/sim");
    if gone > 0 && !replaces || gone > run["missed"][0].as_u64().unwrap() {
        faults.push(format!("{args}: {gone} of what was due meanwhile did not come: {run}"));
    }
    if !replaces && longest < ns(STALL) - 2 * ns(PERIOD) {
        faults.push(format!(
            "{args}: what was due at the beginning of {stalls:?} came {longest} ns late at least"
        ));
    }
    let reported = &run["figures"]["schedule_relative"];
    if reported["n"] != run["received"][0]
        || reported["max"].as_u64().is_none_or(|max| max < longest.max(1))
    {
        faults.push(format!(
            "{args}: a sample was at least {longest} ns late, and this is reported: {reported}"
        ));
    }
    faults
}

/// A middleware's own latency tool runs and has a result. Its agreement depends on speed and is not
/// checked.
fn own_tool(s: &Subject) -> Vec<String> {
    if s.about["own_tool"] == "" {
        return Vec::new();
    }
    let reliable =
        if s.has("own_tool_reliability", "reliable") && s.has("reliability", "best_effort") {
            " --reliable"
        } else {
            ""
        };
    let out = s
        .command(&format!("--size 1k --wait block --messages 20 --own-tools{reliable}"))
        .output()
        .unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    let case = m["cases"]
        .as_array()
        .unwrap()
        .iter()
        .find(|c| c["system"] == *s.system && c["kind"] == "own_tool")
        .unwrap();
    let said = &case["runs"][0]["own_tool"];
    let positive = |field: &str| said[field].as_u64().is_some_and(|n| n > 0);
    if said["name"] == s.about["own_tool"] && positive("p50_ns") && positive("n") {
        Vec::new()
    } else {
        vec![format!("{}", case["runs"][0])]
    }
}

/// SIM's protocol tears if the writer publishes twice while a reader copies: large payloads, faster
/// than they can be copied, to three readers on two CPUs. If none tore, the harness would not
/// detect torn samples.
fn tears(s: &Subject) -> Vec<String> {
    if !s.system.starts_with("as_published/sim") {
        return Vec::new();
    }
    let args = "--size 8M --wait block --rate 1000 --subscribers 3 --messages 500 --warm-up 10 \
         --payload filled";
    let out = s.command(args).output().unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    let case = m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system).unwrap();
    let run = &case["runs"][0];
    let shown = run["invalid"].to_string().contains("payload mismatch");
    if run["torn"].as_u64().is_some_and(|n| n > 0) && shown {
        Vec::new()
    } else {
        vec![format!("no torn payload is shown: {run}")]
    }
}

/// The scenarios' assumptions about systems match the systems' own descriptions.
#[test]
fn peers_can_do_what_scenarios_count_on() {
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
        let said = capabilities
            .as_object()
            .unwrap()
            .iter()
            .filter(|(key, value)| s.about[key.as_str()] != **value);
        differ.extend(said.map(|(key, value)| {
            format!(
                "{}: {key} is noted as {value}, and it says {}",
                s.system,
                s.about[key.as_str()]
            )
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
    // All checks run, whatever failed before.
    let mut failed = check("ping-pong", |s| {
        let mut faults = Vec::new();
        for reach in s.reaches() {
            let waits = s.waits(false);
            let n = waits.split(',').count();
            let args = format!(
                "--reach {reach} --size {} --wait {waits} --messages 20 --warm-up 5",
                s.sizes()
            );
            faults.extend(s.faults(&args, 2 * n));
            faults.extend(s.faults(&format!("{args} --payload filled --take borrow,copy"), 4 * n));
        }
        faults
    });
    failed.extend(check("open loop, one to two", |s| {
        let mut faults = Vec::new();
        for reach in s.reaches() {
            let waits = s.waits(true);
            if waits.is_empty() || s.about["max_subscribers"].as_u64().unwrap() < 2 {
                let args = format!(
                    "--reach {reach} --size {} --wait {} --rate \
                     50",
                    s.sizes(),
                    s.waits(false)
                );
                faults.extend(s.faults(
                    &format!(
                        "{args} --messages 20 --warm-up 5 --payload \
                     filled"
                    ),
                    2,
                ));
                continue;
            }
            let args = format!(
                "--reach {reach} --size {} --wait {waits} --rate 50 --subscribers 2 \
                 --messages 20 --warm-up 5",
                s.sizes()
            );
            faults.extend(s.faults(
                &format!(
                    "{args} --payload \
                 filled"
                ),
                2 * waits.split(',').count(),
            ));
        }
        faults
    }));
    failed.extend(check("losses", loses));
    failed.extend(check("slow reader", falls_behind));
    failed.extend(check("stalled", stalled));
    failed.extend(check("own tool", own_tool));
    failed.extend(check("torn payloads", tears));
    failed.extend(check("interrupted", |s| {
        ended_early(s, |bench, _| signal(bench.id(), rustix::process::Signal::INT), 130)
    }));
    failed.extend(check("killed ends", |s| {
        ended_early(
            s,
            |_, ends| {
                for end in ends {
                    signal(*end, rustix::process::Signal::KILL);
                }
            },
            1,
        )
    }));
    assert!(LOOKED.load(Ordering::Relaxed) > 0, "PEERS_TEST_CHECK names none of the checks");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

fn signal(pid: u32, signal: rustix::process::Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Returns the benchmark's processes.
fn children(bench: u32) -> Vec<u32> {
    let list =
        std::fs::read_to_string(format!("/proc/{bench}/task/{bench}/children")).unwrap_or_default();
    list.split_whitespace().map(|p| p.parse().unwrap()).collect()
}

/// Returns true if a process measures Driveline or a baseline. A forked process that has not
/// started its program yet does not count.
fn is_own(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| line.contains("bench-peer"))
}

/// Ends a link of this peer while it runs, with `end`, and returns the faults of the result.
fn ended_early(s: &Subject, end: impl Fn(&Child, &[u32]), status: i32) -> Vec<String> {
    let reach = s.reaches().next().unwrap();
    let wait = s.waits(false);
    let wait = wait.split(',').next().unwrap();
    let mut bench = s
        .command(&format!(
            "--reach {reach} --size 64k --wait {wait} --rate 20 --messages 100000 \
             --warm-up 0 --seed 1"
        ))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The seed determines the order of the cases; all but this peer's are ended at once.
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut ended = false;
    while bench.try_wait().unwrap().is_none() && Instant::now() < deadline {
        let started = children(bench.id());
        let runs = |pid: &u32| s.is_run_by(*pid);
        if started.iter().any(runs) {
            if !ended {
                // Usually long enough for the link to be connected. Whenever it ends, nothing may
                // remain.
                std::thread::sleep(Duration::from_millis(1500));
                let mut ends: Vec<u32> = children(bench.id()).into_iter().filter(runs).collect();
                ends.sort_unstable();
                // The keeper was started first.
                let ends = ends.get(usize::from(s.about["keeper"] == true)..).unwrap_or_default();
                if !ends.is_empty() {
                    end(&bench, ends);
                    ended = true;
                }
            }
        } else {
            for own in started.into_iter().filter(|pid| is_own(*pid)) {
                signal(own, rustix::process::Signal::KILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut faults = Vec::new();
    match bench.try_wait().unwrap() {
        None => {
            faults.push("it did not end within 60 s".to_owned());
            signal(bench.id(), rustix::process::Signal::INT);
            let _ = bench.wait();
        }
        Some(code) if code.code() != Some(status) => {
            faults.push(format!("the benchmark ended with {code} instead of {status}"))
        }
        Some(_) => {}
    }
    if !ended {
        faults.push("its processes were never seen".to_owned());
    }
    faults
}
