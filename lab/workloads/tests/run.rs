// SPDX-License-Identifier: Apache-2.0
//! Short runs of every workload, in processes of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here is the test's result")]

use driveline_bench::deployment::Deployment;
use driveline_bench::observations::{Observations, Quantity, Series};
use driveline_workloads::{PROTOCOL, WORKLOAD_COMMAND, WorkloadEvent, WorkloadJob};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Starts a run in a directory.
fn start(
    workload: &str,
    parameters: Value,
    duration_ms: u64,
    dir: &tempfile::TempDir,
) -> (Child, ChildStdin) {
    start_with(workload, parameters, duration_ms, dir, Value::Null)
}

/// Starts a run with a peer, unless it is null.
fn start_with(
    workload: &str,
    parameters: Value,
    duration_ms: u64,
    dir: &tempfile::TempDir,
    peer: Value,
) -> (Child, ChildStdin) {
    let job = WorkloadJob {
        protocol: PROTOCOL,
        workload: workload.into(),
        parameters,
        domain_dir: dir.path().join("domain"),
        raw_dir: dir.path().to_owned(),
        warm_up_ms: 100,
        duration_ms,
        seed: 7,
        cpus: vec![],
        peer: serde_json::from_value(peer).unwrap(),
        deployment: Deployment::Bare,
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_driveline-workloads"))
        .arg(WORKLOAD_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open until the run has ended: a run takes a closed input as the end of its parent.
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", serde_json::to_string(&job).unwrap()).unwrap();
    (child, input)
}

/// Runs a workload and returns its answer and its directory.
fn answer(
    workload: &str,
    parameters: Value,
    duration_ms: u64,
) -> (WorkloadEvent, bool, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let (child, _input) = start(workload, parameters, duration_ms, &dir);
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    (serde_json::from_str(&text).unwrap(), out.status.success(), dir)
}

/// Runs a workload that must have the series `needed`. A slow machine without results repeats it
/// for longer.
fn run(
    workload: &str,
    parameters: Value,
    duration_ms: u64,
    needed: &[(&str, Quantity)],
) -> Observations {
    for longer in [1, 6] {
        let o = run_for(workload, parameters.clone(), duration_ms * longer);
        let has = |(subject, quantity): &(&str, Quantity)| {
            o.series
                .iter()
                .any(|s| s.subject == *subject && s.quantity == *quantity && !s.points.is_empty())
        };
        if needed.iter().all(has) {
            return o;
        }
    }
    run_for(workload, parameters, duration_ms * 36)
}

fn run_for(workload: &str, parameters: Value, duration_ms: u64) -> Observations {
    match answer(workload, parameters, duration_ms) {
        (WorkloadEvent::Done { observations }, true, _dir) => {
            let o = observations.read().unwrap();
            assert_eq!(o.invalid, [] as [String; 0], "{:?}", o.counters);
            let names: Vec<_> = o
                .series
                .iter()
                .map(|s| format!("{} {:?} {}", s.subject, s.quantity, s.points.len()))
                .collect();
            println!("{workload}: {names:?} {:?}", o.counters);
            o
        }
        other => panic!("{other:?}"),
    }
}

fn series<'a>(o: &'a Observations, subject: &str, quantity: Quantity) -> &'a Series {
    let found = o.series.iter().find(|s| s.subject == subject && s.quantity == quantity);
    let found = found.unwrap_or_else(|| panic!("no {quantity:?} of '{subject}'"));
    assert!(!found.points.is_empty(), "{quantity:?} of '{subject}' is empty");
    assert!(
        found.points.is_sorted_by_key(|p| p.time_ns),
        "{quantity:?} of '{subject}' is not in the order of time"
    );
    found
}

#[test]
fn what_cannot_be_run_is_refused_in_words() {
    let (event, success, _dir) = answer("refsys", json!({"crunch_ms": -1}), 100);
    let WorkloadEvent::Failed { error } = event else { panic!("{event:?}") };
    assert!(!success && error.contains("crunch_ms"), "{error}");
    let (event, ..) = answer("nothing", json!({}), 100);
    assert!(matches!(event, WorkloadEvent::Failed { error } if error.contains("refsys")));
}

#[test]
fn the_reference_system_runs_on_every_executor_and_its_account_closes() {
    for (executor, reach) in [
        ("single_threaded", "process"),
        ("multi_threaded", "process"),
        ("prioritised", "process"),
        ("multi_threaded", "host"),
    ] {
        let needed =
            [("hot path", Quantity::Latency), ("BehaviorPlanner", Quantity::PeriodDeviation)];
        let o = run(
            "refsys",
            json!({"executor": executor, "reach": reach, "crunch_ms": 0.2, "threads": 2}),
            700,
            &needed,
        );
        let latency = series(&o, "hot path", Quantity::Latency);
        // The path has four steps of work, whose duration changes on a busy machine.
        let least = o.counters["crunch ns"] / 2;
        assert!(latency.points.iter().all(|p| p.value > least), "{executor}: {latency:?}");
        series(&o, "BehaviorPlanner", Quantity::PeriodDeviation);
        let drops: u64 =
            series(&o, "hot path", Quantity::Drops).points.iter().map(|p| p.value).sum();
        assert_eq!(drops, o.counters["hot path drops"]);
        for quantity in [Quantity::Cpu, Quantity::ResidentMemory, Quantity::Switches] {
            series(&o, "process", quantity);
        }
        let [sent, received, replaced] = ACCOUNT.map(|c| o.counters[c]);
        assert!(received > 0 && received + replaced <= sent, "{:?}", o.counters);
        // At most one unread sample on each edge; between processes there may be more, see below.
        assert!(reach == "host" || sent <= received + replaced + EDGES, "{:?}", o.counters);
    }
}

const ACCOUNT: [&str; 3] = ["sent to triggers", "received by triggers", "replaced before triggers"];
/// Number of edges of the reference system, without the planner's.
const EDGES: u64 = 23;

#[test]
fn what_the_reference_system_replaces_between_processes_is_what_its_subscriptions_missed() {
    // 2.85 CPUs of work for one thread, with a margin: a machine may be faster during the run than
    // during the calibration.
    let parameters = json!({"executor": "single_threaded", "reach": "host", "crunch_ms": 15.0});
    // A replacement is noticed when the next sample is taken. So a short run on a busy machine may
    // know of none, and those at the end of a run are unknown. A machine that stands still at that
    // moment has more of them.
    let closes = |longer: u64| {
        let o = run_for("refsys", parameters.clone(), 700 * longer);
        let [sent, received, replaced] = ACCOUNT.map(|c| o.counters[c]);
        replaced > 0 && sent <= received + replaced + EDGES
    };
    assert!([1_u64, 1, 1, 6, 36].into_iter().any(closes), "see the counters of each run above");
}

#[test]
fn faults_are_survived_without_a_torn_sample() {
    for fault in ["writer_killed", "reader_killed", "region_corrupted"] {
        let needed = ["reader 0", "reader 0 beside", "reader 0 beside during faults"]
            .map(|subject| (subject, Quantity::Latency));
        let o = run(
            "faults",
            json!({"fault": fault, "times": 2, "payload_bytes": 10_000, "period_ms": 5}),
            1200,
            &needed,
        );
        let faults = o.counters["faults"];
        assert!(faults >= 1);
        let recovering = if fault == "reader_killed" { 1 } else { 2 };
        assert_eq!(
            (o.counters["recovered"], o.counters["not recovered"]),
            (recovering * faults, 0),
            "{fault}: {:?}",
            o.counters
        );
        assert_eq!(o.counters["torn samples"], 0);
        assert_eq!(series(&o, "reader 1", Quantity::Recovery).points.len() as u64, faults);
        series(&o, "reader 0", Quantity::Latency);
        series(&o, "reader 0 beside", Quantity::Latency);
        series(&o, "reader 0 beside during faults", Quantity::Latency);
    }
}

#[test]
fn channels_of_other_processes_are_fused_by_either_trigger() {
    for (trigger, periods) in
        [("first_channel", [10, 20, 50, 100]), ("approximate", [50, 20, 10, 10])]
    {
        let needed = [("fusion", Quantity::Latency), ("publisher 3", Quantity::Cpu)];
        let o = run(
            "fusion",
            json!({"trigger": trigger, "periods_ms": periods, "payload_bytes": 100_000}),
            700,
            &needed,
        );
        let [fused, received, drops, sent] =
            ["fused", "samples received", "drops", "messages sent"].map(|c| o.counters[c]);
        assert!(fused > 0 && received > 0, "{:?}", o.counters);
        assert_eq!(
            sent + o.counters["messages scheduled but not sent"],
            o.counters["messages scheduled"]
        );
        // At the borders of the measured time, a few samples may count on either side.
        assert!(received + drops <= sent + 40, "{:?}", o.counters);
        series(&o, "fusion", Quantity::Latency);
        series(&o, "publisher 3", Quantity::Cpu);
        let ages = series(&o, "fusion", Quantity::Age);
        let latencies = series(&o, "fusion", Quantity::Latency);
        assert_eq!(ages.points.len(), latencies.points.len());
        assert!(
            ages.points
                .iter()
                .zip(&latencies.points)
                .all(|(age, latency)| age.value >= latency.value),
            "the oldest input is younger than the newest"
        );
        // Each channel has a series of its own. The latency of a call is that of its newest sample,
        // and no sample is older than the age of the call.
        let channels: Vec<_> =
            (0..4).map(|i| series(&o, &format!("channel {i}"), Quantity::Latency)).collect();
        for (n, (age, latency)) in ages.points.iter().zip(&latencies.points).enumerate() {
            let of_call = || channels.iter().map(|c| c.points[n].value);
            assert_eq!(of_call().min(), Some(latency.value));
            assert!(of_call().max() <= Some(age.value));
        }
    }
}

/// A peer that implements docs/protocols/harness.md without fusing.
const PEER: &str = r#"#!/bin/sh
read -r job
echo "$job" >> "${0%/*}/jobs"
echo '{"event":"ready"}'
read -r order
echo "$order" >> "${0%/*}/orders"
case "$job" in
*'"role":"keeper"'*) echo '{"event":"done","ends":[]}' ;;
*)
    observations='{"series":[],"counters":{"fused":1}}'
    end='{"role":"fusion","unset":["a CPU"],"observations":'"$observations}"
    echo '{"event":"done","ends":['"$end]}"
    ;;
esac
"#;

/// Runs a workload with that peer, and returns its answer and its directory.
fn run_on_peer(workload: &str, parameters: Value) -> (WorkloadEvent, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("peer");
    // Another process writes it: a program that this process holds open for writing cannot be
    // started.
    let write = ["-c", r#"printf '%s' "$1" > "$0" && chmod 755 "$0""#];
    assert!(Command::new("sh").args(write).arg(&program).arg(PEER).status().unwrap().success());
    let peer = json!({"program": program, "system": "mine/tcp", "keeper": true});
    let (child, _input) = start_with(workload, parameters, 100, &dir, peer);
    let out = child.wait_with_output().unwrap();
    (serde_json::from_slice(&out.stdout).unwrap(), dir)
}

#[test]
fn a_peer_runs_the_parts_of_a_fusion_with_the_schedules_of_the_seed() {
    let parameters = json!({"trigger": "approximate", "periods_ms": [100, 20]});
    let (answer, dir) = run_on_peer("fusion", parameters);
    let WorkloadEvent::Done { observations } = answer else { panic!("{answer:?}") };
    // The counts of all three parts are added.
    assert_eq!(observations.counters["fused"], 3);
    assert_eq!(observations.unset, ["a CPU", "a CPU", "a CPU"]);
    let lines = |file: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(dir.path().join(file)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let jobs = lines("jobs");
    let roles: Vec<_> = jobs.iter().map(|j| j["role"].as_str().unwrap()).collect();
    assert_eq!(roles[..2], ["keeper", "fusion"]);
    assert_eq!(roles[2..], ["fusion_publisher", "fusion_publisher"]);
    let fusing = &jobs[1];
    assert_eq!(fusing["topics"], json!(["channel/0", "channel/1"]));
    // The queue is as long as the slower channel requires.
    assert_eq!((&fusing["trigger"], &fusing["queue"]), (&json!("approximate"), &json!(7)));
    for job in &jobs[2..] {
        let period = if job["topic"] == "channel/0" { 100_000_000 } else { 20_000_000 };
        assert_eq!(job["period_ns"], json!(period));
        assert!(job["phase_ns"].as_u64().unwrap() < period, "{job}");
        assert_eq!(job["size"], json!(4 << 20));
    }
    let orders = lines("orders");
    let windows: Vec<_> = orders.iter().filter(|o| o["order"] == "begin").collect();
    assert_eq!(windows.len(), 3);
    assert!(windows.iter().all(|w| w["window"] == windows[0]["window"]), "{orders:?}");
    // The keeper ends last.
    assert_eq!(orders.last().unwrap()["order"], "end");
}

#[test]
fn a_peer_is_refused_a_workload_that_is_a_graph_of_driveline() {
    let (answer, _dir) = run_on_peer("refsys", json!({}));
    let WorkloadEvent::Failed { error } = answer else { panic!("{answer:?}") };
    assert_eq!(error, "the workload refsys is a graph of Driveline, which mine/tcp does not run");
}

/// Runs a topology, and checks that all counts agree. Returns the number of lost samples.
fn topology(parameters: &Value, subject: &str, fan_out: u64) -> u64 {
    let o = run(
        "topology",
        parameters.clone(),
        500,
        &[(subject, Quantity::Latency), ("publishing node 0", Quantity::Cpu)],
    );
    let of = |name: &str| o.counters[name];
    assert_eq!(
        of("messages scheduled"),
        of("messages sent") + of("messages scheduled but not sent")
    );
    assert_eq!(of("messages sent") * fan_out, of("deliveries due"));
    series(&o, subject, Quantity::Latency);
    assert_eq!(of("messages scheduled") * fan_out, of("deliveries scheduled"));
    // There is a series of all deliveries, and one of each subscription.
    let (all, each): (Vec<_>, Vec<_>) = o
        .series
        .iter()
        .filter(|s| s.quantity == Quantity::Latency)
        .partition(|s| s.subject == "all");
    assert_eq!(each.len() as u64, of("subscriptions"));
    let of_each = each.iter().map(|s| s.points.len()).sum::<usize>();
    assert_eq!(
        [series(&o, "all", Quantity::Latency).points.len(), all[0].points.len()],
        [of_each; 2]
    );
    assert_eq!(of_each as u64, of("deliveries in time") + of("deliveries late"));
    series(&o, "publishing node 0", Quantity::Cpu);
    // Lost messages are due ones that did not arrive. The subscriptions count independently, over
    // the whole run.
    let lost_before = of("deliveries due in warm-up") - of("deliveries in warm-up");
    assert_eq!(
        of("deliveries lost") + lost_before,
        of("missed by subscriptions"),
        "{:?}",
        o.counters
    );
    of("deliveries lost")
}

#[test]
fn every_message_of_a_topology_is_in_time_late_lost_or_was_not_sent() {
    for (shape, executor, subject, fan_out) in [
        ("t1", "single_threaded", "subscriber 1", 1),
        ("t2", "single_threaded", "subscriber 2", 3),
        ("t3", "single_threaded", "subscription 2", 1),
        ("t3", "multi_threaded", "subscription 2", 1),
    ] {
        let parameters = json!({
            "topology": shape, "executor": executor, "nodes": 4,
            "payload_bytes": 0, "rate_hz": 100, "threads": 2
        });
        topology(&parameters, subject, fan_out);
    }
}

#[test]
fn what_a_slow_callback_does_not_come_to_is_lost_and_missed() {
    for (shape, executor, subject, fan_out) in [
        ("t2", "single_threaded", "subscriber 0", 2),
        ("t3", "multi_threaded", "subscription 1", 1),
    ] {
        // Each callback has twice as much work as there is time.
        let parameters = json!({
            "topology": shape, "executor": executor, "nodes": 3,
            "payload_bytes": 0, "rate_hz": 200, "threads": 2, "crunch_ms": 10
        });
        let lost = topology(&parameters, subject, fan_out);
        assert!(lost > 0, "{parameters}");
    }
}

#[test]
fn the_chain_runs_in_one_process_and_in_eight_and_its_latency_is_its_parts() {
    for (deployment, processes) in [("single_process", 1), ("process_per_module", 8)] {
        let needed = [("chain", Quantity::Latency), ("first command", Quantity::StartUp)];
        let o = run("chain", json!({"deployment": deployment, "load": 0.1}), 1500, &needed);
        let of = |quantity| series(&o, "chain", quantity).points.iter().map(|p| p.value);
        let parts =
            of(Quantity::Idle).zip(of(Quantity::Communication)).zip(of(Quantity::Computation));
        for (latency, ((idle, communication), computation)) in of(Quantity::Latency).zip(parts) {
            assert_eq!(latency, idle + communication + computation, "{deployment}");
            // The computation is the work of the 17 callbacks, whatever the other load. The work
            // may be shorter if it was calibrated on a busy machine.
            assert!(
                computation > 44_000_000 / 2 && communication > 0,
                "{deployment}: {computation} {communication}"
            );
            // On its path, data waits for three timers with independent phases.
            assert!(idle > 0, "{deployment}: a scan waited for no timer");
        }
        // The timers have periods of 20, 100 and 33 ms. Over many scans, the mean wait is half of
        // their sum.
        let idle: Vec<u64> = of(Quantity::Idle).collect();
        assert!(idle.iter().sum::<u64>() / idle.len() as u64 > 1_000_000, "{deployment}: {idle:?}");
        let counters = &o.counters;
        assert!(
            counters["instances"] > 0
                && counters["scans that reached the end"] <= counters["scans"],
            "{counters:?}"
        );
        assert_eq!(counters["components"], 18 + 176);
        let memory = o.series.iter().filter(|s| s.quantity == Quantity::ResidentMemory);
        assert_eq!(memory.count(), processes);
        series(&o, "first command", Quantity::StartUp);
        series(&o, "all modules ready", Quantity::StartUp);
    }
}

#[test]
fn the_slowest_subscriber_is_measured_as_it_is_and_with_its_keys() {
    let parameters = json!({
        "subscribers": 3, "payload_bytes": 65536, "rate_hz": 100, "hogs": 1,
        "schedule": {"nice": 1, "cpus": [0]},
    });
    let needed = [
        ("without keys: slowest", Quantity::Latency),
        ("without keys: the others", Quantity::Latency),
        ("with keys: slowest", Quantity::Latency),
        ("with keys: the others", Quantity::Latency),
    ];
    let o = run("protection", parameters, 1000, &needed);
    assert!(o.counters["slowest subscriber"] < 3, "{:?}", o.counters);
    assert!(o.counters["images published, with keys"] > 0, "{:?}", o.counters);
    assert!(o.invalid.is_empty(), "{:?}", o.invalid);
}

/// Returns the living processes that a process has started.
fn children(pid: u32) -> Vec<u32> {
    let of_thread = |task: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.ok()?.path().join("children")).ok()
    };
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten();
    let listed: Vec<String> = tasks.filter_map(of_thread).collect();
    listed.iter().flat_map(|l| l.split_whitespace()).filter_map(|p| p.parse().ok()).collect()
}

#[test]
fn a_run_that_is_killed_takes_its_processes_with_it() {
    for (workload, parameters, parts) in [
        ("topology", json!({"nodes": 4}), 4),
        ("chain", json!({"deployment": "process_per_module", "load": 0.1}), 8),
        ("protection", json!({"subscribers": 2, "payload_bytes": 64, "hogs": 1}), 4),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let (mut run, _input) = start(workload, parameters, 60_000, &dir);
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let waited = |what: &str| {
            assert!(std::time::Instant::now() < patience, "{workload}: {what}");
            // time: a pause between polls; they end with the condition
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        while children(run.id()).len() < parts {
            waited("its processes did not start");
        }
        let pids = children(run.id());
        run.kill().unwrap();
        run.wait().unwrap();
        let lives = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|c| c.contains(WORKLOAD_COMMAND))
        };
        while pids.iter().any(lives) {
            waited("processes are left behind");
        }
    }
}
