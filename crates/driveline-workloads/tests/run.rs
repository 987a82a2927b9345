// SPDX-License-Identifier: Apache-2.0
//! Short runs of every workload, in processes of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here is the test's result")]

use driveline_bench::observations::{Observations, Quantity, Series};
use driveline_workloads::{PROTOCOL, WORKLOAD_COMMAND, WorkloadEvent, WorkloadJob};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

/// Runs a workload and gives what it said and its directory.
fn answer(workload: &str, parameters: Value, duration_ms: u64) -> (WorkloadEvent, bool, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
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
    };
    let mut child = Command::new(env!("CARGO_BIN_EXE_driveline-workloads"))
        .arg(WORKLOAD_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    writeln!(child.stdin.as_mut().unwrap(), "{}", serde_json::to_string(&job).unwrap()).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text.lines().count(), 1, "{text}");
    (serde_json::from_str(&text).unwrap(), out.status.success(), dir)
}

fn run(workload: &str, parameters: Value, duration_ms: u64) -> Observations {
    match answer(workload, parameters, duration_ms) {
        (WorkloadEvent::Done { observations }, true, _dir) => {
            let o = observations.read().unwrap();
            assert_eq!(o.invalid, [] as [String; 0], "{:?}", o.counters);
            let names: Vec<_> = o.series.iter().map(|s| format!("{} {:?} {}", s.subject, s.quantity, s.points.len())).collect();
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
    assert!(found.points.is_sorted_by_key(|p| p.time_ns), "{quantity:?} of '{subject}' is not in the order of time");
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
    for (executor, reach) in
        [("single_threaded", "process"), ("multi_threaded", "process"), ("prioritised", "process"), ("multi_threaded", "host")]
    {
        let o = run("refsys", json!({"executor": executor, "reach": reach, "crunch_ms": 0.2, "threads": 2}), 700);
        let latency = series(&o, "hot path", Quantity::Latency);
        // Four steps of work lie on the way.
        let least = 4 * o.counters["crunch ns"] / 2;
        assert!(latency.points.iter().all(|p| p.value > least), "{executor}: {latency:?}");
        series(&o, "BehaviorPlanner", Quantity::PeriodDeviation);
        let drops: u64 = series(&o, "hot path", Quantity::Drops).points.iter().map(|p| p.value).sum();
        assert_eq!(drops, o.counters["hot path drops"]);
        for quantity in [Quantity::Cpu, Quantity::ResidentMemory, Quantity::Switches] {
            series(&o, "process", quantity);
        }
        let [sent, received] = ["sent to triggers", "received by triggers"].map(|c| o.counters[c]);
        assert!(received > 0 && received <= sent, "{:?}", o.counters);
    }
}
