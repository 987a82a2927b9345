// SPDX-License-Identifier: Apache-2.0
//! The callbacks of the chain with the program of each peer that announces it. `make peers-test`
//! runs it on the peers that `make peers` built.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what goes wrong here is the test's result")]

use driveline_bench::deployment::Deployment;
use driveline_bench::harness::System;
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_bench::peers;
use driveline_workloads::{PROTOCOL, WORKLOAD_COMMAND, WorkloadEvent, WorkloadJob, WorkloadPeer};
use serde_json::json;
use std::io::Write;
use std::process::{Command, Stdio};

/// Returns the peers that run the chain.
fn running() -> Vec<WorkloadPeer> {
    let directory = peers::directory().unwrap_or_else(|| panic!("run `make peers-test`"));
    let found = peers::discover(Some(&directory)).unwrap();
    let all = peers::select(&found, &["all".to_owned()]).unwrap();
    let runs = |(system, variant): (System, &peers::Variant)| {
        variant.workload("chain")?;
        let program = all.program(&system).unwrap().to_owned();
        Some(WorkloadPeer { program, system, keeper: variant.keeper })
    };
    all.systems().filter_map(runs).collect()
}

fn run(peer: &WorkloadPeer, duration_ms: u64) -> Observations {
    let dir = tempfile::tempdir().unwrap();
    let job = WorkloadJob {
        protocol: PROTOCOL,
        workload: "chain".into(),
        parameters: json!({
            "deployment": "process_per_module", "background_nodes": 8, "load": 0.3,
        }),
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

#[test]
fn the_parts_of_each_age_add_up_with_every_peer() {
    let peers = running();
    assert!(!peers.is_empty(), "no peer runs the chain: run `make peers-test`");
    for peer in peers {
        // A slow machine gets more time.
        let o = [1500, 9000, 54_000]
            .into_iter()
            .map(|ms| run(&peer, ms))
            .find(|o| o.counters["instances"] > 0)
            .unwrap_or_else(|| panic!("{}: no scan reached the end", peer.system));
        assert!(o.invalid.is_empty(), "{:?}", o.invalid);
        let points = |quantity| -> &[Point] {
            let is_it = |s: &&driveline_bench::observations::Series| {
                s.subject == "chain" && s.quantity == quantity
            };
            &o.series.iter().find(is_it).unwrap().points
        };
        let parts = [Quantity::Idle, Quantity::Communication, Quantity::Computation].map(points);
        let latencies = points(Quantity::Latency);
        assert_eq!(latencies.len() as u64, o.counters["instances"]);
        for (n, latency) in latencies.iter().enumerate() {
            let of_part = parts.iter().map(|part| part[n]);
            assert!(of_part.clone().all(|p| p.time_ns == latency.time_ns && p.value > 0));
            assert_eq!(of_part.map(|p| p.value).sum::<u64>(), latency.value);
        }
        // Modules of the chain, and of Driveline's other nodes.
        let is_watched = |name: &str| {
            o.series.iter().any(|s| s.subject == name && s.quantity == Quantity::ResidentMemory)
        };
        assert!(is_watched(&format!("planning ({})", peer.system)) && is_watched("planning"));
        for subject in ["all modules ready", "first command"] {
            let is_it = |s: &driveline_bench::observations::Series| {
                s.subject == subject && s.quantity == Quantity::StartUp
            };
            assert!(o.series.iter().any(is_it), "{subject}");
        }
    }
}
