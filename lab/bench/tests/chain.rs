// SPDX-License-Identifier: Apache-2.0
//! Chains of real work over real middleware, with few messages: checks their function, not their
//! speed. `make peers-test` runs it on the peers and works that `make peers` built. A *work* is a
//! shared library with the algorithm of a stage (`docs/protocols/chain.md`). Missing works and
//! peers that cannot carry a chain are reported as skipped.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

#[path = "../../../tools/skipped.rs"]
mod skipped;

use driveline_bench::chain::{ChainJob, EdgeSpec, StageSpec};
use driveline_bench::deployment::Deployment;
use driveline_bench::harness::{Reach, Reliability, Wait};
use driveline_bench::observations::{Observations, Quantity};
use driveline_bench::peers::{State, Variant, WaitKind};
use driveline_bench::{Program, Runner, peers};
use serde_json::{Value, json};
use skipped::skipped;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

fn directory() -> PathBuf {
    let named = std::env::var_os("DRIVELINE_PEERS").map(PathBuf::from);
    named.unwrap_or_else(|| {
        panic!("DRIVELINE_PEERS must name the directory of peers: run `make peers-test`")
    })
}

/// Returns true if a work was built, which needs `library`; prints a note if not.
fn has_work(name: &str, library: &str) -> bool {
    let works = directory().join("works");
    let there = works.join(format!("{name}.so")).is_file();
    if !there {
        let remedy =
            format!("`make peers` installs {library} and builds it, or says what is missing");
        skipped(&format!("the work {name}"), &format!("it is not in {}", works.display()), &remedy);
    }
    there
}

/// Returns a stage as a user would declare it.
fn stage(
    name: &str,
    inputs: &[&str],
    output: Option<&str>,
    work: &str,
    parameters: Value,
) -> StageSpec {
    let inputs = inputs.iter().map(|i| (*i).into()).collect();
    let parameters = parameters.as_object().unwrap().clone();
    StageSpec {
        name: name.into(),
        inputs,
        output: output.map(Into::into),
        work: work.into(),
        parameters,
        cpu: None,
    }
}

fn chain(stages: Vec<StageSpec>, edges: &[(&str, &str, usize)], messages: u64) -> ChainJob {
    ChainJob {
        stages,
        edges: edges
            .iter()
            .map(|(t, system, size)| {
                ((*t).into(), EdgeSpec { system: system.parse().unwrap(), size: *size })
            })
            .collect(),
        reach: Reach::Host,
        rate_hz: Some(20.0),
        warm_up: 3,
        messages,
        wait: Wait::Block,
        // Reliable, so that all messages arrive on a busy machine as well.
        reliability: Reliability::Reliable,
        depth: 16,
        priority: 0,
    }
}

fn run(job: &ChainJob) -> anyhow::Result<Observations> {
    let found = peers::discover(Some(&directory())).unwrap();
    let selection = peers::select(&found, &job.peers_needed()).unwrap();
    let program = Program { path: PathBuf::new(), args: Vec::new() };
    let interrupted = AtomicBool::new(false);
    let runner =
        Runner { program: &program, peers: &selection, interrupted: &interrupted, gateway: None };
    let dir = tempfile::tempdir().unwrap();
    runner.run_chain(job, Deployment::Bare, dir.path())
}

/// Runs a chain whose account must close. A system that does not prevent torn samples may report
/// damaged messages, but no other error: a delayed reader gets a mixture of two samples.
fn closed(job: &ChainJob) -> Observations {
    let mut o = run(job).unwrap_or_else(|e| panic!("{e:#}"));
    if job.edges.values().any(|edge| edge.system.to_string().starts_with("as_published/sim")) {
        o.invalid.retain(|reason| !reason.ends_with("were damaged"));
    }
    assert_eq!(o.invalid, Vec::<String>::new());
    assert_eq!(o.counters["sent"], job.messages, "{:?}", o.counters);
    o
}

fn count(o: &Observations, subject: &str, quantity: Quantity) -> usize {
    o.series
        .iter()
        .find(|s| s.subject == subject && s.quantity == quantity)
        .map_or(0, |s| s.points.len())
}

/// Systems of the two edges of a chain: a peer on both, Driveline on one, Driveline on both.
const MIXES: [(&str, &str); 3] = [
    ("cyclonedds/udp", "cyclonedds/udp"),
    ("cyclonedds/udp", "driveline"),
    ("driveline", "driveline"),
];

/// Returns every installed variant that can carry the job, with reach and reliability. The
/// machine's own pipes and sockets are left out. Their writer waits until all readers have read,
/// but a stage reads an input that does not trigger only when another message comes.
fn carriers(job: &ChainJob) -> Vec<(String, Reach, Reliability)> {
    let only = std::env::var("PEERS_TEST_ONLY").ok();
    let (mut all, mut unable, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for peer in
        peers::discover(Some(&directory())).unwrap().into_iter().filter(|p| p.name != "baseline")
    {
        let State::Installed { description, .. } = peer.state else {
            missing.push(peer.name);
            continue;
        };
        for variant in description.variants.into_iter().filter(|v| !v.tuning) {
            let system = format!("{}/{}", peer.name, variant.name);
            if only.as_ref().is_some_and(|only| *only != system && *only != peer.name) {
                continue;
            }
            let best = [Reliability::Reliable, Reliability::BestEffort]
                .into_iter()
                .find(|r| variant.reliability.contains(r));
            match (best, obstacle(&variant, job)) {
                (Some(reliability), None) => {
                    // A chain stays on its host.
                    let reaches = variant.reach.iter().filter(|reach| **reach != Reach::Network);
                    all.extend(reaches.map(|reach| (system.clone(), *reach, reliability)));
                }
                (_, why) => unable.push(format!(
                    "{system} ({})",
                    why.unwrap_or("it is neither reliable nor best effort")
                )),
            }
        }
    }
    for (what, why, remedy) in [
        (unable, "by their nature they cannot carry this chain", "nothing is to be done"),
        (
            missing,
            "they are not installed",
            "`make peers`, and `driveline bench peers` for the others",
        ),
    ] {
        if !what.is_empty() && only.is_none() {
            skipped(&what.join(", "), why, remedy);
        }
    }
    assert!(only.is_some() || !all.is_empty(), "no peer carries a chain here: run `make peers`");
    all
}

/// Returns the reason why a variant cannot carry a chain.
fn obstacle(variant: &Variant, job: &ChainJob) -> Option<&'static str> {
    if !job.edges.values().all(|e| (variant.min_size..=variant.max_size).contains(&e.size)) {
        return Some("not these sizes");
    }
    if variant.max_subscribers < 2 {
        return Some("one reader only");
    }
    (!variant.waits.contains(&WaitKind::Block)).then_some("its readers do not sleep")
}

fn relay(first: &str, second: &str) -> ChainJob {
    let stages = vec![
        stage("source", &[], Some("x"), "bytes", json!({"size": 100_000})),
        stage("relay", &["x"], Some("y"), "copy", json!({"burn_us": 500, "every": 2})),
        stage("sink", &["y", "x"], None, "copy", json!({})),
    ];
    chain(stages, &[("x", first, 100_048), ("y", second, 200_000)], 10)
}

/// Runs the relay, which passes every second message on.
fn check_relay(job: &ChainJob) {
    let o = closed(job);
    let c = &o.counters;
    let process = if job.reach == Reach::Process { "all stages" } else { "sink" };
    assert!(count(&o, process, Quantity::ResidentMemory) > 0);
    if job.reliability == Reliability::BestEffort {
        // On a busy machine, best effort may lose some messages, which are reported.
        assert_eq!(
            c["completed"]
                + c["lost: x to relay"]
                + c["lost: y to sink"]
                + c["not passed on by relay"],
            10,
            "{c:?}"
        );
        assert!(c["completed"] > 0, "{c:?}");
        return;
    }
    assert_eq!(
        (c["not passed on by relay"], c["completed"], c["relay: damaged"], c["sink: damaged"]),
        (5, 5, 0, 0),
        "{c:?}"
    );
    assert_eq!(count(&o, "end to end", Quantity::Latency), 5);
    assert_eq!(count(&o, "relay", Quantity::Communication), 10);
    assert_eq!(count(&o, "relay", Quantity::Computation), 5);
}

#[test]
fn accounts_close_with_every_carrier_of_the_edges() {
    for (system, reach, reliability) in carriers(&relay("driveline", "driveline")) {
        eprintln!("{system}, {reach:?}, {reliability:?}");
        check_relay(&ChainJob { reach, reliability, ..relay(&system, &system) });
    }
}

/// Images trigger the stage `tracker`, but the camera starts last. The stage `detector` starts
/// before the camera, and is ready only when the tracker is connected to the detections. So the
/// tracker must connect this input while the input that triggers it has no publisher.
#[test]
fn an_input_is_connected_before_the_one_that_triggers_is_there() {
    let stages = vec![
        stage("camera", &[], Some("image"), "bytes", json!({"size": 1000})),
        stage("detector", &["image"], Some("detections"), "copy", json!({})),
        stage("tracker", &["image", "detections"], Some("tracks"), "copy", json!({})),
        stage("fusion", &["tracks", "detections"], None, "copy", json!({})),
    ];
    let job = |system: &str| {
        chain(
            stages.clone(),
            &[("image", system, 1048), ("detections", system, 2048), ("tracks", system, 4096)],
            10,
        )
    };
    for (system, reach, reliability) in carriers(&job("driveline")) {
        eprintln!("{system}, {reach:?}, {reliability:?}");
        closed(&ChainJob { reach, reliability, ..job(&system) });
    }
}

#[test]
fn every_program_can_have_driveline_on_some_edges() {
    let mut programs = Vec::new();
    for (system, reach, reliability) in carriers(&relay("driveline", "driveline")) {
        let program = (system.split('/').next().unwrap().to_owned(), reach);
        if !programs.contains(&program) {
            eprintln!("{system}, {reach:?}");
            check_relay(&ChainJob { reach, reliability, ..relay(&system, "driveline") });
            programs.push(program);
        }
    }
}

#[test]
fn driveline_carries_chains_within_a_process_and_between_processes() {
    for reach in [Reach::Process, Reach::Host] {
        check_relay(&ChainJob { reach, ..relay("driveline", "driveline") });
    }
}

/// A source that is faster than its reader: lost messages are counted, and the account closes.
#[test]
fn what_is_too_fast_is_lost_and_counted() {
    for (first, second) in [("cyclonedds/udp", "driveline"), ("driveline", "driveline")] {
        let stages = vec![
            stage("source", &[], Some("x"), "bytes", json!({"size": 1000})),
            stage("relay", &["x"], Some("y"), "copy", json!({"burn_us": 20_000})),
            stage("sink", &["y", "x"], None, "copy", json!({})),
        ];
        let job = ChainJob {
            rate_hz: Some(200.0),
            reliability: Reliability::BestEffort,
            depth: 1,
            ..chain(stages, &[("x", first, 1048), ("y", second, 1048)], 200)
        };
        let o = closed(&job);
        let c = &o.counters;
        let lost = c["lost: x to relay"] + c["lost: y to sink"];
        assert!(lost > 0 && c["relay: damaged"] == 0 && c["sink: damaged"] == 0, "{c:?}");
        assert_eq!(c["completed"] + lost + c["not passed on by relay"], 200, "{c:?}");
    }
}

#[test]
fn what_cannot_run_says_why() {
    let said = |job: &ChainJob| format!("{:#}", run(job).unwrap_err());
    let mut job = relay("driveline", "driveline");
    job.stages[1].work = "no_such_work".into();
    assert!(said(&job).contains("no_such_work.so does not exist"), "{}", said(&job));
    let mut job = relay("driveline", "driveline");
    job.stages[1].parameters.insert("brun_us".into(), json!(1));
    assert!(
        said(&job).contains("no parameter 'brun_us': known are burn_us, every"),
        "{}",
        said(&job)
    );
    let mut job = relay("driveline", "driveline");
    job.stages[0].parameters.insert("size".into(), json!(100_001));
    assert!(said(&job).contains("raise the edge's size"), "{}", said(&job));
    // This middleware works only between processes, not within one.
    let job = ChainJob { reach: Reach::Process, ..relay("cyclonedds/udp", "cyclonedds/udp") };
    assert!(said(&job).contains("does not reach threads of one process"), "{}", said(&job));
    // This file is not a library.
    let mut job = relay("driveline", "driveline");
    job.stages[1].work =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml").to_string_lossy().into_owned();
    assert!(said(&job).contains("cannot be loaded"), "{}", said(&job));
}

/// The chain of a vehicle that localizes itself in a generated street.
fn localization(first: &str, second: &str) -> ChainJob {
    let stages = vec![
        stage("lidar", &[], Some("scan"), "scan_source", json!({})),
        stage("preprocessing", &["scan"], Some("points"), "preprocess", json!({"leaf_m": 0.6})),
        stage("localization", &["points"], Some("located"), "ndt", json!({})),
        stage("perception", &["located"], Some("obstacles"), "perception", json!({})),
        stage("planning", &["obstacles"], None, "planner", json!({})),
    ];
    let edges = [
        ("scan", first, 2_000_000),
        ("points", second, 1_000_000),
        ("located", second, 1_000_000),
        ("obstacles", first, 20_000),
    ];
    ChainJob { rate_hz: Some(5.0), ..chain(stages, &edges, 6) }
}

#[test]
fn a_vehicle_finds_itself_and_decides() {
    if !has_work("ndt", "PCL") {
        return;
    }
    for (first, second) in MIXES.into_iter().take(3) {
        eprintln!("{first}, {second}");
        let o = closed(&localization(first, second));
        let c = &o.counters;
        assert_eq!(
            (c["completed"], c["localization: not_converged"], c["planning: decisions"]),
            (6, 0, 12),
            "{c:?}"
        );
        // The vehicle drives some centimetres; a match without effect would have that error.
        assert!(c["localization: pose_error_mm"] < 30, "{c:?}");
        assert!(c["perception: obstacles_mean"] > 5, "{c:?}");
        assert_eq!(count(&o, "end to end", Quantity::Latency), 6);
    }
}

#[test]
fn a_match_that_fails_shows_in_the_pose_error() {
    if !has_work("ndt", "PCL") {
        return;
    }
    let mut job = localization("driveline", "driveline");
    // At a distance of 20 m, the match fails.
    job.stages[0].parameters =
        json!({"travel_y_m": -20.0, "period": 4}).as_object().unwrap().clone();
    let o = closed(&job);
    assert!(o.counters["localization: pose_error_mm"] > 1000, "{:?}", o.counters);
}

/// A yard with walls around it and posts in it, as seen by a scanner in its middle; some of its
/// beams do not return.
fn write_yard(path: &Path) -> u64 {
    let mut points = Vec::new();
    let steps =
        |from: f32, to: f32| (0..).map(move |i| from + 0.2 * i as f32).take_while(move |x| *x < to);
    for x in steps(-8.0, 8.0) {
        points.extend(steps(-12.0, 12.0).map(|y| [x, y, -1.8]));
        // One of the walls is bent, so that both sides of the yard differ.
        points.extend(
            steps(-1.8, 2.0).flat_map(|z| [[x, -12.0, z], [x, 12.0 - 0.3 * x.max(0.0), z]]),
        );
    }
    for y in steps(-12.0, 12.0) {
        points.extend(steps(-1.8, 2.0).flat_map(|z| [[-8.0, y, z], [8.0, y, z]]));
    }
    for (x, y) in [(-3.0, 4.0), (2.0, 7.0), (4.0, -6.0), (-5.0, -2.0)] {
        points.extend(steps(-1.8, 1.0).flat_map(|z| [[x, y, z], [x + 0.1, y, z], [x, y + 0.1, z]]));
    }
    let seen = points.len() as u64;
    points.extend([[0.0, 0.0, 0.0], [f32::NAN, 1.0, 1.0]]);
    let head = format!(
        "ply\nformat binary_little_endian 1.0\nelement vertex {}\nproperty float x\nproperty float \
         y\nproperty float z\nend_header\n",
        points.len()
    );
    let bytes = points.iter().flatten().flat_map(|v: &f32| v.to_le_bytes());
    std::fs::write(path, head.into_bytes().into_iter().chain(bytes).collect::<Vec<u8>>()).unwrap();
    seen
}

#[test]
fn a_vehicle_finds_itself_in_a_cloud_that_is_given() {
    if !has_work("ndt", "PCL") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let cloud = dir.path().join("a yard.ply");
    let seen = write_yard(&cloud);
    let given = |path: &Path| {
        let mut job = localization("driveline", "driveline");
        for stage in
            job.stages.iter_mut().filter(|s| ["lidar", "localization"].contains(&s.name.as_str()))
        {
            stage.parameters.insert("cloud".into(), json!(path));
        }
        job
    };
    let o = closed(&given(&cloud));
    let c = &o.counters;
    assert_eq!(
        (
            c["lidar: points"],
            c["completed"],
            c["localization: not_converged"],
            c["planning: decisions"]
        ),
        (seen, 6, 0, 12),
        "{c:?}"
    );
    assert!(c["localization: pose_error_mm"] < 30, "{c:?}");
    // Without the parameter `cloud`, the map is the generated street, which needs no file. The
    // scans of the yard do not fit it, so the error is another one.
    let mut elsewhere = given(&cloud);
    elsewhere.stages.iter_mut().find(|s| s.name == "localization").unwrap().parameters.clear();
    assert_ne!(
        closed(&elsewhere).counters["localization: pose_error_mm"],
        c["localization: pose_error_mm"]
    );
    // A file that is not a cloud is reported as such.
    for (text, says) in [
        ("no street", "is no PLY file"),
        ("ply\nformat ascii 1.0\nend_header\n", "is not binary and little-endian"),
    ] {
        let wrong = dir.path().join("wrong.ply");
        std::fs::write(&wrong, text).unwrap();
        let said = format!("{:#}", run(&given(&wrong)).unwrap_err());
        assert!(said.contains(says) && said.contains("wrong.ply"), "{said}");
    }
    let said = format!("{:#}", run(&given(&dir.path().join("none.ply"))).unwrap_err());
    assert!(said.contains("none.ply") && said.contains("cannot be opened"), "{said}");
}

#[test]
fn a_vision_node_finds_every_tag() {
    if !has_work("apriltag", "AprilTag") {
        return;
    }
    for system in ["cyclonedds/udp", "driveline"] {
        for channels in [1, 3] {
            let stages = vec![
                stage(
                    "camera",
                    &[],
                    Some("frames"),
                    "tag_source",
                    json!({"channels": channels, "frames": 4}),
                ),
                stage("vision", &["frames"], None, "apriltag", json!({})),
            ];
            let o = closed(&chain(stages, &[("frames", system, 1_000_000)], 6));
            let c = &o.counters;
            assert_eq!(
                (c["vision: tags_shown"], c["vision: tags_found"], c["vision: tags_wrong"]),
                (48, 48, 0),
                "{c:?}"
            );
        }
    }
}

#[test]
fn perception_of_a_drive_runs_over_whatever_carries_it() {
    if !has_work("comp_yolo", "OpenCV") {
        return;
    }
    let reliable = Reliability::Reliable;
    for (system, reach, reliability) in [
        ("cyclonedds/udp", Reach::Host, reliable),
        ("driveline", Reach::Host, reliable),
        ("driveline", Reach::Process, reliable),
        ("iceoryx2/ipc", Reach::Host, Reliability::BestEffort),
    ] {
        eprintln!("{system}, {reach:?}");
        let stages = vec![
            stage("camera", &[], Some("image"), "comp_camera", json!({})),
            stage("lane", &["image"], Some("lanes"), "comp_lane", json!({})),
            stage("yolo", &["image"], Some("detections"), "comp_yolo", json!({})),
            stage("mosse", &["image", "detections"], Some("tracks"), "comp_mosse", json!({})),
            stage("fusion", &["tracks", "lanes", "detections"], None, "comp_fusion", json!({})),
        ];
        let edges = [
            ("image", system, 1_600_000),
            ("lanes", system, 65_536),
            ("detections", system, 8_192),
            ("tracks", system, 8_192),
        ];
        let o = closed(&ChainJob {
            reach,
            reliability,
            rate_hz: Some(5.0),
            ..chain(stages, &edges, 8)
        });
        let c = &o.counters;
        assert!(
            c["lane: lines_found"] >= c["lane: frames"]
                && c["yolo: vehicles_found"] > 0
                && c["mosse: started"] > 0,
            "{c:?}"
        );
        // The first frames may come before the first detections.
        assert!(c["completed"] >= 4 && c["fusion: objects"] > 0, "{c:?}");
        assert_eq!((c["yolo: network"], c["lane: frames"]), (0, 14), "{c:?}");
    }
}
