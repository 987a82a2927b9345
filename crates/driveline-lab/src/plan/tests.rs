// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::scenario::{self, builtin};
use driveline_bench::peers::{Description, State, Variant, WaitKind};
use std::collections::BTreeSet;

/// A peer that can do everything, under the names that scenarios ask for.
fn peer(name: &str, variants: &[&str]) -> Peer {
    let variant = |name: &&str| Variant {
        name: (*name).to_owned(),
        title: format!("as {name}"),
        reach: vec![Reach::Process, Reach::Host],
        waits: vec![WaitKind::Block, WaitKind::Spin],
        reliability: vec![Reliability::BestEffort, Reliability::Reliable],
        max_size: 16 << 20,
        max_subscribers: 64,
        ..sample_variant()
    };
    let description = Description {
        protocol: 1,
        name: name.into(),
        title: name.into(),
        version: "1".into(),
        variants: variants.iter().map(variant).collect(),
    };
    Peer { name: name.into(), title: name.into(), state: State::Installed { program: format!("/{name}").into(), description } }
}

fn sample_variant() -> Variant {
    let json = r#"{"name":"a","title":"a","reach":[],"waits":[],"reliability":[],"loans":true,"min_size":0,"max_size":1,"max_subscribers":1,"settings":[]}"#;
    serde_json::from_str(json).unwrap()
}

fn peers() -> Vec<Peer> {
    vec![
        peer("cyclonedds", &["udp", "udp_default", "udp_1500", "udp_500"]),
        peer("iceoryx2", &["ipc"]),
        peer("iceoryx", &["shm"]),
        peer("fastdds", &["udp", "shm", "udp_1500", "udp_500"]),
        peer("ros1", &["tcp", "tcp_nagle", "udp", "udp_500"]),
        peer("baseline", &["tcp", "tcp_nagle", "udp", "udp_1500", "udp_500"]),
        peer("as_published", &["sim", "fastcycle"]),
        peer("zenoh", &["tcp"]),
        peer("driveline_cpp", &["sdk"]),
        Peer { name: "ecal".into(), title: "eCAL".into(), state: State::NotInstalled { how_to_add: "buy it".into() } },
    ]
}

fn planned(id: &str, extent: Extent) -> Experiment {
    let placement = Placement::automatic(vec![0, 1]);
    plan(&scenario::load(id).unwrap(), extent, &peers(), &placement).unwrap_or_else(|e| panic!("{id}: {e:#}"))
}

#[test]
fn every_built_in_experiment_can_be_planned_to_every_extent() {
    for b in builtin() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let e = planned(b.id, extent);
            assert!(e.cases.iter().any(|c| c.system == System::Driveline), "{}: Driveline is missing", b.id);
            let ids: BTreeSet<_> = e.cases.iter().map(|c| &c.id).collect();
            let directories: BTreeSet<_> = e.cases.iter().map(|c| &c.directory).collect();
            assert_eq!((ids.len(), directories.len()), (e.cases.len(), e.cases.len()), "{}", b.id);
            for c in &e.cases {
                assert!(c.comparisons.iter().all(|x| ids.contains(&x.to) && x.to != c.id), "{}: {}", b.id, c.id);
                assert_eq!(c.links.is_empty(), c.workload.is_some() || c.chain.is_some(), "{}: {}", b.id, c.id);
            }
            selection(std::slice::from_ref(&e), &peers()).unwrap();
        }
    }
}

#[test]
fn a_quick_extent_takes_minutes() {
    for b in builtin() {
        let e = planned(b.id, Extent::Quick);
        let seconds: f64 = e.cases.iter().map(expected_seconds).sum::<f64>() * e.rounds as f64;
        assert!(seconds < 180.0, "{}: {seconds:.0} s", b.id);
    }
}

#[test]
fn systems_of_a_cell_do_the_same_and_have_a_floor_of_that_shape() {
    let e = planned("S1", Extent::Default);
    let to_ten: Vec<_> = e.cases.iter().filter(|c| c.cell == "1→10").collect();
    assert!(to_ten.len() > 5);
    for c in &to_ten {
        assert_eq!(c.links, to_ten[0].links);
        assert_eq!(c.figure, Metric::LastSubscriber);
        assert!(c.comparisons.iter().any(|x| x.to == "floor: futex · processes · 1→10 at 20 Hz"), "{:?}", c.comparisons);
    }
    assert_eq!(e.cases.iter().filter(|c| c.role == Role::Control).count(), 2);
    assert!(e.left_out.iter().any(|l| l.what == "ecal" && l.reason.contains("buy it")));
}

#[test]
fn what_varies_multiplies_cases_and_extents_replace_it() {
    let paper = planned("B1", Extent::Paper);
    let quick = planned("B1", Extent::Quick);
    let cells = |e: &Experiment| e.cases.iter().filter(|c| c.role == Role::Measured).map(|c| c.cell.clone()).collect::<BTreeSet<_>>().len();
    assert_eq!((cells(&paper), cells(&quick)), (28, 2));
    assert_eq!(paper.scenario.run.messages, Some(1000));
}

#[test]
fn what_this_machine_cannot_do_is_left_out_with_the_reason() {
    let e = planned("headline", Extent::Default);
    assert!(e.left_out.iter().any(|l| l.what.contains("spin") && l.reason.contains("room for")), "{:?}", e.left_out);
    assert!(e.left_out.iter().any(|l| l.reason.contains("best effort") || l.reason.contains("not installed")));
}

#[test]
fn several_links_run_side_by_side_and_have_no_floor() {
    let e = planned("S6", Extent::Quick);
    let vehicle = e.cases.iter().find(|c| c.system == System::Driveline).unwrap();
    assert_eq!(vehicle.links.len(), 8);
    assert_eq!(vehicle.links.iter().map(|l| &l.topic).collect::<BTreeSet<_>>().len(), 8);
    assert!(e.cases.iter().all(|c| c.role == Role::Measured));
}

#[test]
fn the_order_is_random_and_belongs_to_seed_round_and_experiment() {
    let e = planned("S1", Extent::Default);
    assert_eq!(order(&e, 1, 0), order(&e, 1, 0));
    assert_ne!(order(&e, 1, 0), order(&e, 1, 1));
    assert_ne!(order(&e, 1, 0), order(&e, 2, 0));
}

#[test]
fn what_does_not_fit_into_memory_is_left_out() {
    let mut s = scenario::load("W5").unwrap();
    s.vary.copies = vec![1, 256];
    s.link.size = Some(driveline_runtime::graph::ByteSize(1 << 30));
    s.cases.values_mut().for_each(|c| c.depth = Some(1024));
    let e = plan(&s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    assert!(e.cases.iter().all(|c| c.links.len() < 256));
    assert!(e.left_out.iter().any(|l| l.what.contains("256 links") && l.reason.contains("MiB of memory")), "{:?}", e.left_out);
}
