// SPDX-License-Identifier: Apache-2.0
//! A short fusion with the program of each peer that announces it. `make peers-test` runs it on the
//! peers that `make peers` built.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here is the test's result")]

use driveline_bench::deployment::Deployment;
use driveline_bench::harness::System;
use driveline_bench::observations::{Observations, Quantity, Series};
use driveline_bench::peers;
use driveline_workloads::{PROTOCOL, WORKLOAD_COMMAND, WorkloadEvent, WorkloadJob, WorkloadPeer};
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the peers that fuse. A program built without the fusion reports the reason.
fn fusing() -> Vec<WorkloadPeer> {
    let directory = peers::directory().unwrap_or_else(|| panic!("run `make peers-test`"));
    let found = peers::discover(Some(&directory)).unwrap();
    let all = peers::select(&found, &["all".to_owned()]).unwrap();
    let fuses = |(system, variant): (System, &peers::Variant)| {
        let runs = variant.workload("fusion")?;
        assert_eq!(runs.missing, "", "{system}");
        let program = all.program(&system).unwrap().to_owned();
        Some(WorkloadPeer { program, system, keeper: variant.keeper })
    };
    all.systems().filter_map(fuses).collect()
}

fn run(peer: &WorkloadPeer, duration_ms: u64) -> Observations {
    let dir = tempfile::tempdir().unwrap();
    let parameters = json!({
        "trigger": "approximate", "periods_ms": [50, 20, 10, 10], "payload_bytes": 100_000,
    });
    let job = WorkloadJob {
        protocol: PROTOCOL,
        workload: "fusion".into(),
        parameters,
        domain_dir: dir.path().join("domain"),
        raw_dir: dir.path().to_owned(),
        warm_up_ms: 100,
        duration_ms,
        seed: 7,
        cpus: vec![],
        peer: Some(peer.clone()),
        deployment: Deployment::Bare,
    };
    std::fs::create_dir(&job.domain_dir).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_driveline-workloads"))
        .arg(WORKLOAD_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // Kept open until the run has ended: a run takes a closed input as the end of its parent.
    let mut input = child.stdin.take().unwrap();
    writeln!(input, "{}", serde_json::to_string(&job).unwrap()).unwrap();
    let out = child.wait_with_output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    match serde_json::from_str(&text).unwrap() {
        WorkloadEvent::Done { observations } => observations.read().unwrap(),
        WorkloadEvent::Failed { error } => panic!("{}: {error}", peer.system),
    }
}

fn series<'a>(o: &'a Observations, subject: &str, quantity: Quantity) -> &'a Series {
    o.series
        .iter()
        .find(|s| s.subject == subject && s.quantity == quantity && !s.points.is_empty())
        .unwrap_or_else(|| panic!("no {quantity:?} of {subject}"))
}

#[test]
fn peers_fuse_and_tell_what_driveline_tells() {
    let peers = fusing();
    assert!(!peers.is_empty(), "no peer fuses: run `make peers-test`");
    for peer in peers {
        // A slow machine gets more time.
        let runs = [700, 4200, 25_200].into_iter().map(|ms| run(&peer, ms));
        let o = runs
            .filter(|o| o.counters["fused"] > 0 && o.counters["messages sent"] > 0)
            .find(|o| o.series.iter().any(|s| s.subject == "publisher 3"))
            .unwrap_or_else(|| panic!("{} fused nothing", peer.system));
        assert!(o.invalid.is_empty(), "{:?}", o.invalid);
        let [received, drops, sent] =
            ["samples received", "drops", "messages sent"].map(|c| o.counters[c]);
        assert_eq!(
            sent + o.counters["messages scheduled but not sent"],
            o.counters["messages scheduled"]
        );
        // At the borders of the measured time, a few samples may count on either side.
        assert!(received > 0 && received + drops <= sent + 40, "{:?}", o.counters);
        series(&o, "fusion", Quantity::Cpu);
        series(&o, "publisher 3", Quantity::ResidentMemory);
        let ages = series(&o, "fusion", Quantity::Age);
        let latencies = series(&o, "fusion", Quantity::Latency);
        let channels: Vec<_> =
            (0..4).map(|i| series(&o, &format!("channel {i}"), Quantity::Latency)).collect();
        for (n, (age, latency)) in ages.points.iter().zip(&latencies.points).enumerate() {
            let of_call = || channels.iter().map(|c| c.points[n].value);
            assert_eq!(of_call().min(), Some(latency.value));
            assert_eq!(of_call().max(), Some(age.value));
        }
        assert!(channels.iter().all(|c| c.points.len() == ages.points.len()));
    }
}
