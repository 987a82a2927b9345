// SPDX-License-Identifier: Apache-2.0
//! Every installed peer, each of its variants, through the harness protocol with few messages: what it does, never how
//! fast. `make peers-test` runs it on the peers that `make peers` built; `make test-gateways ONLY=peers` a part of it.
//!
//! Parts: `PEERS_TEST_ONLY` names a peer or variant, `PEERS_TEST_CHECK` one of the checks, and with `PEERS_TEST_USUAL` variants for tuning are
//! left out, whose small datagrams are lost on a machine that does other things as well, and ROS 1 over UDP, whose ends often do not find each
//! other there: roscpp asks for a datagram connection once.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use serde_json::Value;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const BENCH: &str = env!("CARGO_BIN_EXE_driveline-bench");

/// A variant of an installed peer, and what it says it can do.
struct Subject {
    system: String,
    about: Value,
}

fn subjects() -> Vec<Subject> {
    assert!(std::env::var_os("DRIVELINE_PEERS").is_some(), "DRIVELINE_PEERS must name the directory of peers: run `make peers-test`");
    let out = Command::new(BENCH).args(["peers", "--json"]).output().unwrap();
    let peers: Value = serde_json::from_slice(&out.stdout).unwrap();
    let mut subjects = Vec::new();
    for peer in peers.as_array().unwrap() {
        assert_eq!(peer["state"]["broken"], Value::Null, "{peer}");
        let name = peer["name"].as_str().unwrap();
        for about in peer["state"]["installed"]["description"]["variants"].as_array().unwrap_or(&Vec::new()) {
            subjects.push(Subject { system: format!("{name}/{}", about["name"].as_str().unwrap()), about: about.clone() });
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

    /// A small payload and a large one.
    fn sizes(&self) -> String {
        format!("64,{}", self.about["max_size"].as_u64().unwrap().min(1 << 20))
    }

    fn waits(&self, open: bool) -> String {
        // Two spinning readers and a sender need more CPUs than a small machine has.
        let kinds = [("block", "block"), ("spin", "spin"), ("spin_then_block", "spin:20")];
        let words: Vec<_> =
            kinds.into_iter().filter(|(kind, _)| self.has("waits", kind) && !(open && *kind == "spin")).map(|(_, word)| word).collect();
        words.join(",")
    }

    fn command(&self, args: &str) -> Command {
        let mut command = Command::new(BENCH);
        command.env(MARK, std::process::id().to_string());
        command.arg("link").args(args.split_whitespace()).args(["--peers", &self.system, "--extra", "none", "--json", "--rounds", "1"]);
        if !self.has("reliability", "best_effort") {
            command.arg("--reliable");
        }
        command
    }

    /// Runs cases and returns what is wrong with those of this peer.
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
                // What the hypervisor takes is not the peer's fault.
                let own = |reason: &&Value| !reason.to_string().contains("hypervisor");
                let reasons =
                    run["invalid"].as_array().map(|i| i.iter().filter(own).map(ToString::to_string).collect::<Vec<_>>().join("; "));
                match (&run["failure"], reasons) {
                    (Value::String(failure), _) => faults.push(format!("{}: {failure}", case["id"])),
                    (_, Some(reasons)) if !reasons.is_empty() => faults.push(format!("{}: {reasons}", case["id"])),
                    _ => {
                        let received: u64 = run["received"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).sum();
                        if received == 0 {
                            faults.push(format!("{}: nothing was received", case["id"]));
                        }
                        let lost = &run["lost_rounds"];
                        // It must have said so beforehand.
                        if !lost.is_null() && !args.contains("--lose-every") && !self.about["note"].to_string().contains("loses") {
                            faults.push(format!("{}: lost {lost}", case["id"]));
                        }
                    }
                }
            }
        }
        if cases != expected_cases {
            faults.push(format!("{args}: {cases} cases were measured instead of {expected_cases}: {}", m["left_out"]));
        }
        faults
    }
}

/// How the names of a middleware's files in shared memory begin or end.
const TRACES: [(&str, &[&str]); 5] = [
    ("driveline", &["driveline-"]),
    ("fastdds", &["fast", "sem.fast"]),
    ("iceoryx", &["iceoryx_mgmt", "iox"]),
    ("iceoryx2", &["drv", "iox2_"]),
    ("zenoh", &[".zenoh"]),
];

/// In the environment of everything that this run starts, its own number. Others may measure at the same time.
const MARK: &str = "DRIVELINE_PEERS_TEST";

/// Files of this user in shared memory that a peer, or the benchmark, may have made.
fn files(name: &str) -> BTreeSet<PathBuf> {
    let ours = |file: &str| {
        let own = TRACES.iter().filter(|(peer, _)| [name, "driveline"].contains(peer)).flat_map(|(_, parts)| *parts);
        own.into_iter().any(|part| file.starts_with(part) || file.ends_with(part))
    };
    let uid = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    entries.filter(|e| ours(&e.file_name().to_string_lossy()) && e.metadata().is_ok_and(|m| m.uid() == uid)).map(|e| e.path()).collect()
}

/// Whether somebody who lives uses it, who is then not of this run: nobody of it lives any more.
fn is_used(path: &Path) -> bool {
    if path.is_dir() {
        let claim = std::fs::File::open(path.join("claim"));
        return claim.is_ok_and(|file| file.try_lock().is_err());
    }
    let name = path.to_string_lossy().into_owned();
    let uses = |process: PathBuf| {
        let mapped = std::fs::read_to_string(process.join("maps")).is_ok_and(|maps| maps.contains(&name));
        let mut open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        mapped || open.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| uses(process.path()))
}

/// What this run has left: files that are new and nobody's, and processes that it has started.
fn left_behind(name: &str, before: &BTreeSet<PathBuf>) -> Vec<String> {
    let mark = format!("{MARK}={}", std::process::id());
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let new = files(name)
            .difference(before)
            .filter(|path| path.exists() && !is_used(path))
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>();
        let marked =
            |process: &Path| std::fs::read(process.join("environ")).is_ok_and(|e| e.split(|b| *b == 0).any(|v| v == mark.as_bytes()));
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|e| e.path()).filter(|p| marked(p));
        let running = processes.map(|p| format!("process {}", std::fs::read_to_string(p.join("comm")).unwrap_or_default().trim()));
        let all: Vec<String> = new.into_iter().chain(running).collect();
        // What is just ending may take a moment.
        if all.is_empty() || Instant::now() > deadline {
            return all;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many checks were made.
static LOOKED: AtomicUsize = AtomicUsize::new(0);

/// Looks at every peer in one way, and returns what is wrong.
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
        faults.extend(left_behind(name, &before).into_iter().map(|what| format!("{what} is left behind")));
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

/// A reader that processes for longer than samples are apart: with a depth of 1 they are replaced, the account closes, and
/// what it reads last is the newest. What the kernel queues replaces nothing: there, everything is read, late.
fn falls_behind(s: &Subject) -> Vec<String> {
    let stamps = tempfile::NamedTempFile::new().unwrap();
    let mut faults = Vec::new();
    for reach in s.reaches() {
        let wait = s.waits(true);
        let wait = if wait.is_empty() { "spin" } else { wait.split(',').next().unwrap() };
        let args = format!("--reach {reach} --size 64 --wait {wait} --rate 200 --processing-us 20000 --messages 40 --warm-up 5");
        let out = s.command(&args).arg("--raw").arg(stamps.path()).output().unwrap();
        let Ok(m) = serde_json::from_slice::<Value>(&out.stdout) else {
            return vec![format!("{args}: {}", String::from_utf8_lossy(&out.stderr))];
        };
        faults.extend(s.faults_in(&m, &args, 1));
        if !faults.is_empty() {
            return faults;
        }
        let case = m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system).unwrap();
        let run = &case["runs"][0];
        let (missed, received) = (run["missed"][0].as_u64().unwrap(), run["received"][0].as_u64().unwrap());
        if s.system.starts_with("baseline/") {
            if (missed, received) != (0, 40) {
                faults.push(format!("{args}: {received} received and {missed} missed, though nothing is replaced"));
            }
        } else if missed == 0 {
            faults.push(format!("{args}: no sample is replaced: {run}"));
        }
        let text = std::fs::read_to_string(stamps.path()).unwrap();
        let id = format!("\"{}\",", case["id"].as_str().unwrap());
        let last = text.lines().rfind(|line| line.starts_with(&id)).unwrap();
        // The last field but two is when it was in hand; without that it was not received.
        if last.rsplit(',').nth(2) == Some("") {
            faults.push(format!("{args}: the newest sample is not the last one read: {last}"));
        }
        let cpu = run["subscriber_cpu_ns_per_sample"].as_f64();
        if cpu.is_some_and(|ns| ns < 19e6) {
            faults.push(format!("{args}: a sample cost {cpu:?} ns of processor time instead of 20 ms"));
        }
    }
    faults
}

/// The twentieth question and the twentieth answer that arrive are thrown away; both ends go on, and both losses are told.
fn loses(s: &Subject) -> Vec<String> {
    let mut faults = Vec::new();
    let waits = s.waits(false);
    for reach in s.reaches() {
        let args = format!("--reach {reach} --size 64 --wait {waits} --payload untouched,filled --messages 20 --warm-up 5 --lose-every 20");
        let out = s.command(&args).output().unwrap();
        let m: Value = serde_json::from_slice(&out.stdout).unwrap();
        faults.extend(s.faults_in(&m, &args, 2 * waits.split(',').count()));
        for case in m["cases"].as_array().unwrap().iter().filter(|c| c["system"] == *s.system) {
            let lost = &case["runs"][0]["lost_rounds"];
            let at_least_one = |what: &str| lost[what].as_u64().is_some_and(|n| n >= 1);
            if !at_least_one("questions") || !at_least_one("answers") {
                faults.push(format!("{}: what was lost is not told: {lost}", case["id"]));
            }
        }
    }
    faults
}

/// What a middleware brings for measuring its latency runs and says something; whether it agrees is a matter of speed.
fn own_tool(s: &Subject) -> Vec<String> {
    if s.about["own_tool"] == "" {
        return Vec::new();
    }
    let out = s.command("--size 1k --wait block --messages 20 --own-tools").output().unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    let case = m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system && c["kind"] == "own_tool").unwrap();
    let said = &case["runs"][0]["own_tool"];
    let positive = |field: &str| said[field].as_u64().is_some_and(|n| n > 0);
    if said["name"] == s.about["own_tool"] && positive("p50_ns") && positive("n") {
        Vec::new()
    } else {
        vec![format!("{}", case["runs"][0])]
    }
}

/// SIM's protocol tears if the writer comes round twice while a reader copies: large payloads, faster than they can be
/// copied, to three readers on two CPUs. If none tore, the harness would be blind.
fn tears(s: &Subject) -> Vec<String> {
    if !s.system.starts_with("as_published/sim") {
        return Vec::new();
    }
    let args = "--size 8M --wait block --rate 1000 --subscribers 3 --messages 500 --warm-up 10 --payload filled";
    let out = s.command(args).output().unwrap();
    let m: Value = serde_json::from_slice(&out.stdout).unwrap();
    let case = m["cases"].as_array().unwrap().iter().find(|c| c["system"] == *s.system).unwrap();
    let run = &case["runs"][0];
    let shown = run["invalid"].to_string().contains("payload mismatch");
    if run["torn"].as_u64().is_some_and(|n| n > 0) && shown { Vec::new() } else { vec![format!("no torn payload is shown: {run}")] }
}

/// Cases follow one another, so that peers do not take each other's daemons or CPUs.
#[test]
fn every_variant_of_every_peer_keeps_the_protocol() {
    // All of them, whatever is wrong before.
    let mut failed = check("ping-pong", |s| {
        let mut faults = Vec::new();
        for reach in s.reaches() {
            let waits = s.waits(false);
            let n = waits.split(',').count();
            let args = format!("--reach {reach} --size {} --wait {waits} --messages 20 --warm-up 5", s.sizes());
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
                let args = format!("--reach {reach} --size {} --wait {} --rate 50", s.sizes(), s.waits(false));
                faults.extend(s.faults(&format!("{args} --messages 20 --warm-up 5 --payload filled"), 2));
                continue;
            }
            let args = format!("--reach {reach} --size {} --wait {waits} --rate 50 --subscribers 2 --messages 20 --warm-up 5", s.sizes());
            faults.extend(s.faults(&format!("{args} --payload filled"), 2 * waits.split(',').count()));
        }
        faults
    }));
    failed.extend(check("losses", loses));
    failed.extend(check("slow reader", falls_behind));
    failed.extend(check("own tool", own_tool));
    failed.extend(check("torn payloads", tears));
    failed.extend(check("interrupted", |s| ended_early(s, |bench, _| signal(bench.id(), rustix::process::Signal::INT), 130)));
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

/// The benchmark's processes.
fn children(bench: u32) -> Vec<u32> {
    let list = std::fs::read_to_string(format!("/proc/{bench}/task/{bench}/children")).unwrap_or_default();
    list.split_whitespace().map(|p| p.parse().unwrap()).collect()
}

/// Whether a process measures Driveline or a floor. One that was forked but has not become a program yet does not.
fn is_own(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("bench-peer"))
}

/// Ends a link of this peer while it runs, in whatever way, and says what is wrong with the end.
fn ended_early(s: &Subject, end: impl Fn(&Child, &[u32]), status: i32) -> Vec<String> {
    let reach = s.reaches().next().unwrap();
    let wait = s.waits(false);
    let wait = wait.split(',').next().unwrap();
    let mut bench = s
        .command(&format!("--reach {reach} --size 64k --wait {wait} --rate 20 --messages 100000 --warm-up 0 --seed 1"))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // The order of the cases is the seed's; all but this peer's are ended at once.
    let deadline = Instant::now() + Duration::from_secs(60);
    let file = s.system.split('/').next().unwrap();
    let mut ended = false;
    while bench.try_wait().unwrap().is_none() && Instant::now() < deadline {
        let started = children(bench.id());
        let runs = |pid: &u32| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|p| p.file_name().is_some_and(|n| n == file));
        if started.iter().any(runs) {
            if !ended {
                // Long enough for the link to be up, most of the time; whenever it comes, nothing may be left.
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
        Some(code) if code.code() != Some(status) => faults.push(format!("the benchmark ended with {code} instead of {status}")),
        Some(_) => {}
    }
    if !ended {
        faults.push("its processes were never seen".to_owned());
    }
    faults
}
