// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::scenario::{self, ReachSpec, builtin};
use driveline_bench::harness::Reliability;
use driveline_bench::peers::{Description, RunsWorkload, State, Variant, WaitKind};
use std::collections::{BTreeMap, BTreeSet};

/// Built-in experiments: their systems and questions.
mod papers;
/// Participants of `--quick`.
mod quick;
#[path = "../../../../tools/skipped.rs"]
mod skipped;

/// A peer with all capabilities, with the names in scenarios.
fn peer(name: &str, variants: &[&str]) -> Peer {
    let variant = |name: &&str| Variant {
        name: (*name).to_owned(),
        title: format!("as {name}"),
        tuning: ["_500", "_1500", "_nagle", "_history", "_listener"]
            .iter()
            .any(|end| name.ends_with(end)),
        usual_at_a_rate: name.ends_with("_listener"),
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
    Peer {
        name: name.into(),
        title: name.into(),
        state: State::Installed { program: format!("/{name}").into(), description },
    }
}

fn sample_variant() -> Variant {
    let json = r#"{"name":"a","title":"a","reach":[],"waits":[],"reliability":[],"loans":true,
        "min_size":0,"max_size":1,"max_subscribers":1,"settings":[]}"#;
    serde_json::from_str(json).unwrap()
}

fn peers() -> Vec<Peer> {
    vec![
        peer("cyclonedds", &["udp", "udp_default", "udp_1500", "udp_500"]),
        peer("iceoryx2", &["ipc"]),
        peer("iceoryx", &["shm", "shm_history"]),
        peer(
            "fastdds",
            &["udp", "shm", "data_sharing", "udp_1500", "udp_500", "udp_listener", "shm_listener"],
        ),
        ros1(""),
        peer("baseline", &["tcp", "tcp_nagle", "udp", "udp_1500", "udp_500"]),
        peer("as_published", &["sim", "sim_code", "fastcycle"]),
        peer("zenoh", &["tcp", "shm", "shm_implicit"]),
        peer("driveline_cpp", &["sdk"]),
        Peer {
            name: "ecal".into(),
            title: "eCAL".into(),
            state: State::NotInstalled { how_to_add: "buy it".into() },
        },
    ]
}

/// Returns ROS 1, which runs the workload that fuses samples unless something is missing.
fn ros1(missing: &str) -> Peer {
    let mut ros1 = peer("ros1", &["tcp", "tcp_nagle", "udp", "udp_500", "intra"]);
    let State::Installed { description, .. } = &mut ros1.state else { panic!("it is there") };
    description.variants[0].workloads = vec![RunsWorkload {
        name: "fusion".into(),
        only: BTreeMap::from([("trigger".into(), vec!["approximate".into()])]),
        why: "it goes by times".into(),
        missing: missing.into(),
    }];
    ros1
}

fn planned(id: &str, extent: Extent) -> Experiment {
    let placement = Placement::automatic(vec![0, 1]);
    plan(&scenario::load(id).unwrap(), extent, &peers(), &placement)
        .unwrap_or_else(|e| panic!("{id}: {e:#}"))
}

#[test]
fn every_built_in_experiment_can_be_planned_to_every_extent() {
    for b in builtin() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let e = planned(b.id, extent);
            // Two hosts need root and a gateway; without them, the reason is reported instead.
            let explained =
                e.scenario.link.reach == Some(ReachSpec::Network) && !e.left_out.is_empty();
            assert!(
                explained || e.cases.iter().any(|c| c.system == System::Driveline),
                "{}: Driveline is missing",
                b.id
            );
            let ids: BTreeSet<_> = e.cases.iter().map(|c| &c.id).collect();
            let directories: BTreeSet<_> = e.cases.iter().map(|c| &c.directory).collect();
            assert_eq!((ids.len(), directories.len()), (e.cases.len(), e.cases.len()), "{}", b.id);
            for c in &e.cases {
                assert!(
                    c.comparisons.iter().all(|x| ids.contains(&x.to) && x.to != c.id),
                    "{}: {}",
                    b.id,
                    c.id
                );
                assert_eq!(
                    c.links.is_empty(),
                    c.workload.is_some() || c.chain.is_some(),
                    "{}: {}",
                    b.id,
                    c.id
                );
            }
            selection(std::slice::from_ref(&e), &peers()).unwrap();
        }
    }
}

#[test]
fn an_own_tool_runs_only_where_it_can_judge() {
    let tools = |extent| {
        let mut found = peers();
        let State::Installed { description, .. } = &mut found[0].state else {
            panic!("cyclonedds is there")
        };
        for variant in &mut description.variants {
            variant.own_tool = "ddsperf".into();
        }
        let e =
            plan(&scenario::load("B1").unwrap(), extent, &found, &Placement::automatic(vec![0, 1]))
                .unwrap();
        let left_out =
            e.left_out.iter().filter(|l| l.what.starts_with("own latency tool of")).count();
        (e.cases.iter().filter(|c| c.role == Role::OwnTool).count(), left_out)
    };
    // Quick has too few rounds for a verdict. By default, the tools of two variants run for 14
    // sizes, with two kinds of reliability.
    assert_eq!((tools(Extent::Quick), tools(Extent::Default)), ((0, 1), (56, 0)));
}

#[test]
fn a_tool_that_losses_stop_runs_only_with_reliable_links() {
    let mut found = peers();
    let State::Installed { description, .. } = &mut found[3].state else {
        panic!("fastdds is there")
    };
    for v in description.variants.iter_mut().filter(|v| v.name == "udp_listener") {
        (v.own_tool, v.own_tool_reliability) = ("LatencyTest".into(), vec![Reliability::Reliable]);
    }
    let e = plan(
        &scenario::load("headline").unwrap(),
        Extent::Default,
        &found,
        &Placement::automatic(vec![0, 1]),
    )
    .unwrap();
    let tools: Vec<&Case> = e.cases.iter().filter(|c| c.role == Role::OwnTool).collect();
    assert!(
        !tools.is_empty() && tools.iter().all(|c| c.links[0].reliability == Reliability::Reliable),
        "{tools:?}"
    );
    let left =
        e.left_out.iter().find(|l| l.what == "own latency tool of fastdds/udp_listener").unwrap();
    assert_eq!(left.reason, "LatencyTest cannot measure links that may lose something");
    assert_eq!(left.cells.len(), tools.len(), "{left:?}");
}

#[test]
fn a_variant_that_is_the_usual_one_at_a_rate_is_not_measured_twice_there() {
    let e = planned("headline", Extent::Default);
    let (closed, open): (Vec<&Case>, Vec<&Case>) = e
        .cases
        .iter()
        .filter(|c| c.system.to_string().ends_with("_listener"))
        .partition(|c| c.links.iter().all(|l| l.pace == Pace::PingPong));
    assert!(!closed.is_empty() && open.is_empty(), "{open:?}");
    let left: Vec<_> = e
        .left_out
        .iter()
        .filter(|l| l.reason.starts_with("at a rate it is"))
        .map(|l| (l.what.as_str(), l.cells.len()))
        .collect();
    // Four cells each: untouched and filled, with two kinds of reliability. There is no cell with
    // spinning readers, because ten of them do not fit on two CPUs.
    assert_eq!(left, [("fastdds/udp_listener", 4), ("fastdds/shm_listener", 4)]);
}

#[test]
fn what_varies_settings_is_compared_with_the_usual_ones() {
    let e = planned("W12", Extent::Default);
    let c = e.cases.iter().find(|c| c.system.to_string() == "ros1/tcp_nagle").unwrap();
    assert!(
        c.comparisons.iter().any(|x| x.to == format!("{} · ros1/tcp", c.cell)),
        "{:?}",
        c.comparisons
    );
    let usual = e
        .cases
        .iter()
        .filter(|c| ["ros1/tcp", "driveline"].contains(&c.system.to_string().as_str()));
    assert!(
        usual
            .flat_map(|c| &c.comparisons)
            .all(|x| !x.to.ends_with("ros1/tcp") && !x.to.ends_with("ros1/tcp_nagle"))
    );
}

#[test]
fn a_quick_extent_takes_minutes() {
    for b in builtin() {
        let e = planned(b.id, Extent::Quick);
        let seconds: f64 = e.cases.iter().map(expected_seconds).sum::<f64>() * e.rounds as f64;
        assert!(seconds < 180.0, "{}: {seconds:.0} s", b.id);
    }
}

/// A machine without Podman leaves containers out.
#[test]
fn links_in_containers_are_compared_with_the_same_link_bare() {
    let e = planned("B1C", Extent::Quick);
    let of = |deployment| {
        let is_it = |c: &&Case| c.role == Role::Measured && c.beside.deployment == deployment;
        e.cases.iter().filter(is_it).filter(|c| c.system == System::Driveline).collect::<Vec<_>>()
    };
    let bare = of(Deployment::Bare);
    assert_eq!(bare.len(), 1);
    for deployment in [Deployment::Container, Deployment::Containers] {
        if let Some(reason) = driveline_bench::deployment::containers_refused() {
            assert!(of(deployment).is_empty());
            assert!(e.left_out.iter().any(|l| l.reason == reason), "{:?}", e.left_out);
            continue;
        }
        let compared: Vec<_> = of(deployment)[0].comparisons.iter().map(|c| &c.to).collect();
        assert!(compared.contains(&&bare[0].id), "{compared:?}");
    }
}

#[test]
fn peers_that_need_a_pod_are_left_out_of_separate_containers() {
    if let Some(reason) = driveline_bench::deployment::containers_refused() {
        let remedy = "`make test-containers` installs Podman";
        skipped::skipped("peers in containers of their own", &reason, remedy);
        return;
    }
    let e = planned("B1C", Extent::Default);
    let measured = |deployment| {
        let cases = e.cases.iter().filter(|c| c.role == Role::Measured);
        let cases = cases.filter(|c| c.beside.deployment == deployment);
        cases.map(|c| c.system.to_string()).collect::<BTreeSet<_>>()
    };
    let (separate, in_pod) =
        (measured(Deployment::Containers), measured(Deployment::ContainersInPod));
    let connecting = ["driveline", "cyclonedds/udp", "fastdds/udp", "zenoh/tcp"];
    assert!(connecting.iter().all(|s| separate.contains(*s)), "{separate:?}");
    let sharing = ["fastdds/shm", "fastdds/data_sharing", "zenoh/shm", "iceoryx2/ipc"];
    assert!(sharing.iter().all(|s| in_pod.contains(*s)), "{in_pod:?}");
    for system in sharing {
        assert!(!separate.contains(system));
        let left = e.left_out.iter().find(|l| l.what == system).unwrap();
        assert!(left.reason.contains("add the deployment `containers_in_pod`"), "{}", left.reason);
        assert!(left.cells.iter().all(|cell| cell.ends_with("a container each")), "{left:?}");
    }
}

#[test]
fn containers_hold_ends_of_one_host_only() {
    let mut scenario = scenario::load("B1C").unwrap();
    scenario.link.reach = Some(ReachSpec::Process);
    let e = plan(&scenario, Extent::Default, &[], &Placement::automatic(vec![0, 1]));
    let text = format!("{:#}", e.unwrap_err());
    assert!(text.contains("add `reach: host`"), "{text}");
}

/// Parts of the estimate, written out for each kind of run.
#[test]
fn what_a_run_takes_adds_up_from_its_samples_and_its_start() {
    let e = planned("B1", Extent::Default);
    let of = |system: &System| {
        e.cases.iter().find(|c| c.system == *system && c.links.len() == 1).unwrap().clone()
    };
    let with = |case: &Case, change: &dyn Fn(&mut Link)| {
        let mut case = case.clone();
        case.links.iter_mut().for_each(change);
        expected_seconds(&case)
    };
    let peer = System::Peer { name: "cyclonedds".into(), variant: "udp".into() };
    let [own, other] = [&System::Driveline, &peer].map(of);
    let rounds = |l: &mut Link| {
        (l.pace, l.messages, l.warm_up, l.size, l.payload) =
            (Pace::PingPong, 900, 100, 0, Payload::Untouched)
    };
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    // 1000 rounds, the start of a run, and two processes.
    assert!(close(with(&own, &rounds), 0.030 + 0.02 + 0.01), "{}", with(&own, &rounds));
    assert!(close(with(&other, &rounds), 0.100 + 0.2 + 0.01), "{}", with(&other, &rounds));
    // A payload costs time if it is copied or filled.
    let large = |payload| {
        move |l: &mut Link| {
            (l.messages, l.warm_up, l.size, l.payload) = (900, 100, 1_000_000, payload)
        }
    };
    assert!(close(with(&own, &large(Payload::Untouched)), with(&own, &rounds)));
    assert!(close(with(&own, &large(Payload::Filled)), with(&own, &rounds) + 0.3));
    assert!(close(with(&other, &large(Payload::Filled)), with(&other, &rounds) + 0.7));
    // An open loop: its schedule and its pauses.
    let scheduled = |l: &mut Link| {
        (l.pace, l.messages, l.warm_up, l.subscribers) = (Pace::RateHz(10.0), 19, 1, 10)
    };
    assert!(close(with(&own, &scheduled), 2.0 + 0.15 + 0.02 + 0.055), "{}", with(&own, &scheduled));
    // Between hosts gateways start first.
    let between_hosts = |l: &mut Link| l.reach = Reach::Network;
    assert!(
        close(with(&own, &between_hosts), expected_seconds(&own) + 0.18),
        "{}",
        with(&own, &between_hosts)
    );
    // The links of a run run at the same time.
    let mut twice = own.clone();
    twice.links.extend(own.links.clone());
    assert!(close(expected_seconds(&twice), expected_seconds(&own) + 0.01));
    let mut contained = own.clone();
    contained.beside.deployment = Deployment::Containers;
    assert!(close(expected_seconds(&contained), expected_seconds(&own) + 0.6));
    let tool = Case { role: Role::OwnTool, ..other };
    assert!(close(expected_seconds(&tool), 8.0));
}

#[test]
fn chains_run_within_a_process_and_between_processes_where_the_case_says() {
    let e = planned("W9", Extent::Default);
    for (cell, reach) in [
        ("25 Hz · process", Reach::Process),
        ("25 Hz · host", Reach::Host),
        ("50 Hz · host", Reach::Host),
    ] {
        let chains: Vec<_> =
            e.cases.iter().filter(|c| c.cell == cell).filter_map(|c| c.chain.as_ref()).collect();
        assert!(chains.len() > 5 && chains.iter().all(|c| c.reach == reach), "{cell}");
        assert!(chains.iter().flat_map(|c| &c.stages).all(|s| s.cpu.is_none()));
    }
    let mut scenario = scenario::load("W9").unwrap();
    scenario.chain.as_mut().unwrap().stages["fusion"].cpu = Some(7);
    let cpus = |scenario: &Scenario| -> Vec<Option<usize>> {
        let e =
            plan(scenario, Extent::Default, &peers(), &Placement::automatic(vec![2, 4])).unwrap();
        e.cases[0].chain.as_ref().unwrap().stages.iter().map(|s| s.cpu).collect()
    };
    scenario.link.cpus = Some(scenario::CpusSpec::Apart);
    assert_eq!(cpus(&scenario), [Some(2), Some(4), Some(2), Some(4), Some(7)]);
    scenario.link.cpus = Some(scenario::CpusSpec::One);
    assert_eq!(cpus(&scenario), [Some(2), Some(2), Some(2), Some(2), Some(7)]);
}

#[test]
fn the_environment_gives_parameters_to_stages() {
    let dir = tempfile::tempdir().unwrap();
    let model = dir.path().join("model.cfg");
    std::fs::write(&model, "").unwrap();
    let scenario = scenario::load("W9").unwrap();
    let mut yolo = scenario.chain.unwrap().stages["yolo"].clone();
    yolo.parameters.insert("names".into(), "as in the file".into());
    let given = |variable: &str| match variable {
        "COMP_MODEL" => Some(dir.path().join(".").join("model.cfg").into_os_string()),
        "COMP_NAMES" => Some("".into()),
        _ => None,
    };
    // Paths of files are absolute, so that they are found from other directories.
    let parameters = environment::parameters(&yolo, |_| None).unwrap();
    assert_eq!(parameters, yolo.parameters);
    assert!(
        environment::parameters(&yolo, given)
            .is_ok_and(|p| p["names"] == "as in the file" && !p.contains_key("weights"))
    );
    let beside = |variable: &str| {
        (variable == "COMP_MODEL").then(|| dir.path().join("./model.cfg").into_os_string())
    };
    let whole = std::fs::canonicalize(&model).unwrap();
    assert_eq!(environment::parameters(&yolo, beside).unwrap()["model"], whole.to_str().unwrap());
}

#[test]
fn systems_of_a_cell_do_the_same_and_have_a_floor_of_that_shape() {
    let e = planned("S1", Extent::Default);
    let to_ten: Vec<_> = e.cases.iter().filter(|c| c.cell == "1→10").collect();
    assert!(to_ten.len() > 5);
    for c in &to_ten {
        assert_eq!(c.links, to_ten[0].links);
        assert_eq!(c.figure, Metric::LastSubscriber);
        assert!(
            c.comparisons.iter().any(|x| x.to == "floor: futex · processes · 1→10 at 20 Hz"),
            "{:?}",
            c.comparisons
        );
    }
    assert_eq!(e.cases.iter().filter(|c| c.role == Role::Control).count(), 2);
    assert!(e.left_out.iter().any(|l| l.what == "ecal" && l.reason.contains("buy it")));
}

#[test]
fn a_floor_has_the_place_and_pace_of_whatever_is_compared_with_it() {
    let alike = |l: &Link| {
        (
            l.subscribers,
            l.pace,
            l.reach,
            l.priority,
            l.publisher_cpu,
            l.subscriber_cpus.clone(),
            l.messages,
            l.warm_up,
        )
    };
    let copied =
        |l: &Link| (l.size, l.pace, l.priority, l.publisher_cpu, l.subscriber_cpus.clone());
    let mut places = scenario::load("S1").unwrap();
    for (name, cpus) in [("one", scenario::CpusSpec::One), ("any", scenario::CpusSpec::Any)] {
        let case = scenario::CaseSpec { cpus: Some(cpus), ..places.cases["lidar"].clone() };
        places.cases.insert(name.into(), case);
    }
    let plan = |s: &Scenario| {
        plan(s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap()
    };
    let mut compared = 0;
    for e in
        builtin().iter().map(|b| scenario::load(b.id).unwrap()).chain([places]).map(|s| plan(&s))
    {
        let id = &e.scenario.id;
        for case in e.cases.iter().filter(|c| c.role == Role::Measured) {
            let floors = e
                .cases
                .iter()
                .filter(|f| f.role == Role::Floor && case.comparisons.iter().any(|x| x.to == f.id));
            for floor in floors {
                let (its, of) = (&floor.links[0], &case.links[0]);
                if floor.is_copy() {
                    assert_eq!(copied(its), copied(of), "{id}: {} and {}", case.id, floor.id);
                } else {
                    assert_eq!(alike(its), alike(of), "{id}: {} and {}", case.id, floor.id);
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 100, "{compared}");
}

/// Returns the floors that copy: their ids, and their comparisons in the cases of Driveline.
fn copies(e: &Experiment) -> (BTreeSet<&str>, Vec<(&str, &Comparison)>) {
    let is_copy = |id: &str| e.cases.iter().any(|c| c.id == id && c.is_copy());
    let floors = e.cases.iter().filter(|c| c.is_copy());
    let own = e.cases.iter().filter(|c| c.role == Role::Measured && c.system == System::Driveline);
    let compared = own.flat_map(|c| {
        c.comparisons.iter().filter(|x| is_copy(&x.to)).map(|x| (c.cell.as_str(), x))
    });
    (floors.map(|c| c.id.as_str()).collect(), compared.collect())
}

#[test]
fn a_copy_of_each_size_stands_among_the_floors() {
    // For any number of subscribers, the floor makes one copy for each sample, and there is only
    // one such floor.
    let e = planned("S1", Extent::Default);
    let (floors, compared) = copies(&e);
    assert_eq!(
        floors,
        BTreeSet::from(["floor: memcpy into shared slots in turn · 34560 B · at 20 Hz"])
    );
    // The scans of S1 are neither written nor copied.
    assert!(compared.is_empty(), "{compared:?}");
    let mut ten = scenario::load("S1").unwrap();
    (ten.vary.subscribers, ten.run.messages) = (vec![10], Some(1000));
    let ten = plan(&ten, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    let case = ten.cases.iter().find(|c| c.is_copy()).unwrap();
    assert_eq!((case.role, case.figure), (Role::Floor, Metric::Copy));
    assert_eq!(
        case.links.iter().map(|l| (l.subscribers, l.messages, l.warm_up)).collect::<Vec<_>>(),
        [(1, 300, 30)]
    );
    assert!(
        e.cases.iter().all(|c| c.role != Role::Control || !c.is_copy()),
        "the same copy once more takes time for nothing"
    );
    // Several links at the same time have no floors at all.
    assert!(copies(&planned("S6", Extent::Quick)).0.is_empty());
}

#[test]
fn what_writes_or_copies_payloads_is_compared_with_one_copy() {
    let sizes = |payload: scenario::PayloadSpec,
                 take: scenario::TakeSpec,
                 rate_hz: Option<f64>,
                 figure: Option<scenario::Figure>| {
        let mut s = scenario::load("S1").unwrap();
        s.vary = scenario::Vary {
            size: [1 << 10, 64 << 10, 1 << 20].map(driveline_graph::ByteSize).to_vec(),
            ..Default::default()
        };
        s.cases.retain(|name, _| name == "lidar");
        for link in s.cases.values_mut().chain([&mut s.link]) {
            (link.payload, link.take, link.rate_hz, link.subscribers, link.figure) =
                (Some(payload), Some(take), rate_hz, Some(1), figure);
        }
        plan(&s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap()
    };
    let rendered = |e: &Experiment| {
        let (floors, compared) = copies(e);
        // There is a floor for every size, even if nothing is compared with it.
        assert_eq!(floors.len(), 3, "{floors:?}");
        let peers = e
            .cases
            .iter()
            .filter(|c| matches!(c.system, System::Peer { .. }))
            .map(|c| c.comparisons.len())
            .collect::<BTreeSet<_>>();
        let own = if compared.is_empty() { BTreeSet::from([2]) } else { BTreeSet::from([2, 3]) };
        assert_eq!(
            peers, own,
            "peers are compared with Driveline, the word, and where it has one the copy"
        );
        compared
            .iter()
            .map(|(cell, x)| format!("{cell}: {} ÷ {} of {}", x.metric.label(), x.of.label(), x.to))
            .collect::<Vec<_>>()
    };
    use scenario::{PayloadSpec::*, TakeSpec::*};
    let filled = rendered(&sizes(Filled, Borrow, None, None));
    assert_eq!(
        filled,
        ["64 KiB", "1 MiB"].map(|size| format!(
            "{size}: fill + transport ÷ copy of floor: memcpy into shared slots in turn · {size} · \
             one after the other"
        ))
    );
    let copied = rendered(&sizes(Untouched, Copy, Some(20.0), None));
    assert_eq!(
        copied,
        ["64 KiB", "1 MiB"].map(|size| format!(
            "{size}: transport ÷ copy of floor: memcpy from shared slots in turn · {size} · \
             at 20 Hz"
        ))
    );
    assert!(rendered(&sizes(Untouched, Borrow, None, None)).is_empty());
    // The time between two arrivals does not include a copy.
    assert!(
        rendered(&sizes(Filled, Borrow, Some(20.0), Some(scenario::Figure::BetweenArrivals)))
            .is_empty()
    );
}

#[test]
fn what_varies_multiplies_cases_and_extents_replace_it() {
    let paper = planned("B1", Extent::Paper);
    let quick = planned("B1", Extent::Quick);
    let cells = |e: &Experiment| {
        e.cases
            .iter()
            .filter(|c| c.role == Role::Measured)
            .map(|c| c.cell.clone())
            .collect::<BTreeSet<_>>()
            .len()
    };
    assert_eq!((cells(&paper), cells(&quick)), (28, 2));
    assert_eq!(paper.scenario.run.messages, Some(1000));
}

#[test]
fn what_this_machine_cannot_do_is_left_out_with_the_reason() {
    let mut found = peers();
    let mut sleepy = peer("sleepy", &["one"]);
    let State::Installed { description, .. } = &mut sleepy.state else { panic!() };
    description.variants[0].waits = vec![WaitKind::Block];
    description.variants[0].reliability = vec![Reliability::Reliable];
    found.push(sleepy);
    let headline = scenario::load("headline").unwrap();
    let e = plan(&headline, Extent::Default, &found, &Placement::automatic(vec![0, 1])).unwrap();
    assert!(
        e.left_out.iter().any(|l| l.what.contains("spin") && l.reason.contains("room for")),
        "{:?}",
        e.left_out
    );
    // The peer leaves out the cells for which it lacks a single capability, and takes part in all
    // others.
    let cells_of = |reason: &str| {
        let left = e
            .left_out
            .iter()
            .find(|l| l.what == "sleepy/one" && l.reason == reason)
            .unwrap_or_else(|| panic!("{:?}", e.left_out));
        left.cells.iter().map(String::as_str).collect::<BTreeSet<_>>()
    };
    let (spins, may_lose) =
        (cells_of("readers cannot wait as 'spin'"), cells_of("is not best effort"));
    assert!(
        spins.iter().all(|c| c.contains("spin"))
            && may_lose.iter().all(|c| c.contains("best effort")),
        "{spins:?} {may_lose:?}"
    );
    let does: BTreeSet<_> = e
        .cases
        .iter()
        .filter(|c| c.system.to_string() == "sleepy/one")
        .map(|c| c.cell.as_str())
        .collect();
    let all: BTreeSet<_> =
        e.cases.iter().filter(|c| c.role == Role::Measured).map(|c| c.cell.as_str()).collect();
    assert_eq!(&(&spins | &may_lose) | &does, all);
    assert!(
        !does.is_empty() && does.iter().all(|c| !spins.contains(c) && !may_lose.contains(c)),
        "{does:?}"
    );
    assert!(
        e.left_out.contains(&LeftOut::new("ecal", "not installed: buy it")),
        "{:?}",
        e.left_out
    );
    // Parts left out are shown as text, not as debug output.
    assert!(
        e.left_out
            .iter()
            .all(|l| !l.rendered().contains("Some(") && !l.rendered().contains("None")),
        "{:?}",
        e.left_out
    );
}

#[test]
fn a_system_without_a_capability_is_listed_once_with_all_its_cells() {
    let mut never_spins = peer("sleepy", &["one"]);
    let State::Installed { description, .. } = &mut never_spins.state else { panic!() };
    description.variants[0].reliability = vec![Reliability::Reliable];
    let mut s = scenario::load("W5").unwrap();
    (s.systems, s.vary.copies) = (vec!["driveline".into(), "sleepy".into()], vec![1, 2, 3, 4, 5]);
    let e = plan(&s, Extent::Default, &[never_spins], &Placement::automatic(vec![0, 1])).unwrap();
    let of: Vec<_> = e.left_out.iter().filter(|l| l.what == "sleepy/one").collect();
    assert_eq!(of.len(), 1, "{:?}", e.left_out);
    assert_eq!(of[0].cells.len(), 5);
    assert!(
        of[0]
            .rendered()
            .starts_with("is not best effort (in 1 links · best effort; 2 links · best effort; "),
        "{}",
        of[0].rendered()
    );
    assert!(of[0].rendered().ends_with("; and 1 more)"), "{}", of[0].rendered());
    // Several links have no floor, which is reported as well.
    let floor: Vec<_> = e.left_out.iter().filter(|l| l.what == "floor").collect();
    assert!(
        floor.len() == 1 && floor[0].cells.len() == 8 && floor[0].reason.contains("one link alone"),
        "{floor:?}"
    );
}

#[test]
fn links_next_to_hogs_have_no_floor() {
    let e = planned("W7", Extent::Quick);
    let floor: Vec<_> = e.left_out.iter().filter(|l| l.what == "floor").collect();
    assert_eq!(floor.len(), 1, "{:?}", e.left_out);
    assert!(
        floor[0].reason.contains("next to hogs")
            && floor[0].cells == ["four hogs", "four hogs, priority"],
        "{floor:?}"
    );
    assert!(e.cases.iter().any(|c| c.role == Role::Floor));
}

#[test]
fn a_chain_with_some_edges_of_drivelines_is_compared_with_the_same_without() {
    let e = planned("S7", Extent::Default);
    let to = |id: &str| {
        let case = e.cases.iter().find(|c| c.id == id).unwrap_or_else(|| panic!("no {id}"));
        case.comparisons.iter().map(|c| c.to.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(
        to("localization's edges are Driveline's · fastdds/data_sharing"),
        ["every edge · fastdds/data_sharing"]
    );
    assert_eq!(to("every edge · fastdds/data_sharing"), ["every edge · driveline"]);
    assert!(to("every edge · driveline").is_empty());
}

#[test]
fn several_links_run_side_by_side_and_have_no_floor() {
    let e = planned("S6", Extent::Quick);
    let vehicle = e.cases.iter().find(|c| c.system == System::Driveline).unwrap();
    assert_eq!(vehicle.links.len(), 8);
    assert_eq!(vehicle.links.iter().map(|l| &l.topic).collect::<BTreeSet<_>>().len(), 8);
    assert!(e.cases.iter().all(|c| c.role != Role::Floor));
}

#[test]
fn what_has_no_floor_is_measured_twice_by_driveline() {
    let placement = Placement::automatic(vec![0, 1]);
    for b in builtin() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let e = planned(b.id, extent);
            for own in
                e.cases.iter().filter(|c| c.role == Role::Measured && c.system == System::Driveline)
            {
                let has_floor = own.comparisons.iter().any(|x| x.to.starts_with("floor: "));
                let controls: Vec<_> = e
                    .cases
                    .iter()
                    .filter(|c| {
                        c.role == Role::Control && c.comparisons.iter().any(|x| x.to == own.id)
                    })
                    .collect();
                assert_eq!(
                    controls.len(),
                    // A link at rest has no headline figure to compare.
                    usize::from(!has_floor && !own.is_at_rest()),
                    "{} {extent:?}: {}",
                    b.id,
                    own.id
                );
                for control in controls {
                    // The control is the same case, except for its name, directory, role and
                    // comparisons.
                    let same = Case {
                        id: own.id.clone(),
                        directory: own.directory.clone(),
                        role: own.role,
                        comparisons: own.comparisons.clone(),
                        ..control.clone()
                    };
                    assert_eq!(same, *own);
                }
            }
            // Floors are measured twice as before, other systems are not.
            let others =
                e.cases.iter().filter(|c| c.role == Role::Control && c.system != System::Driveline);
            assert!(
                others.into_iter().all(|c| c.comparisons[0].to.starts_with("floor: ")),
                "{} {extent:?}",
                b.id
            );
        }
    }
    // Systems that are not requested are not measured.
    let mut s = scenario::load("S6").unwrap();
    s.systems = vec!["fastdds/shm".into()];
    let e = plan(&s, Extent::Default, &peers(), &placement).unwrap();
    assert!(
        !e.cases.is_empty()
            && e.cases.iter().all(|c| c.role == Role::Measured && c.system != System::Driveline)
    );
}

#[test]
fn a_link_that_is_not_measured_by_samples_uses_only_its_own_keys() {
    let yaml = "scenario: 1\nid: mine\ntitle: t\nsource: s\nquestion: q\nlink: {size: 64, rate_hz: \
                10, subscribers: 3, hogs: 1}\ncases: {a: {measure: at_rest}, b: {measure: \
                start_up}, c: {measure: same_thread, reach: process}}\nvary: {size: [64, 1 KiB], \
                wait: [block, spin]}\nrun: {seconds: 2, warm_up: 5}\nwatch_every_ms: 100\n";
    let s = scenario::from_text("mine.yaml", yaml.into(), &peers()).unwrap();
    let e = plan(&s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    let measured: Vec<&Case> = e.cases.iter().filter(|c| c.role == Role::Measured).collect();
    let each = |of: &dyn Fn(&Case) -> String| measured.iter().map(|c| of(c)).collect::<Vec<_>>();
    assert_eq!(
        each(&|c| c.id.clone()),
        ["a", "b", "c"]
            .map(|case| [64, 1024].map(|size| {
                format!("{case} · {} · driveline", driveline_graph::ByteSize(size))
            }))
            .concat()
    );
    let shape = |c: &Case| {
        let l = &c.links[0];
        format!("{} to {}, {}", l.messages, l.subscribers, l.wait)
    };
    assert_eq!(
        each(&shape),
        ["1 to 1, block"; 4].into_iter().chain(["1000 to 1, block"; 2]).collect::<Vec<_>>()
    );
    assert!(measured.iter().all(|c| c.beside == Beside::default() && c.links.len() == 1));
    let [a, b, c] =
        ["a", "b", "c"].map(|case| measured.iter().find(|c| c.scenario_case == case).unwrap());
    assert_eq!(a.measure, Some(LinkMeasure::AtRest { duration_ms: 2000 }));
    assert_eq!((b.measure, b.figure), (Some(LinkMeasure::StartUp), Metric::StartPublisher));
    assert_eq!((c.measure, c.links[0].reach), (Some(LinkMeasure::SameThread), Reach::Process));
    assert!(expected_seconds(a) > 2.0 && e.cases.iter().all(|c| c.role != Role::Floor));
    let others: Vec<_> =
        e.left_out.iter().filter(|l| l.what == "links of other middleware").collect();
    assert!(others.len() == 1 && others[0].cells.len() == 6, "{others:?}");
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
    s.link.size = Some(driveline_graph::ByteSize(1 << 30));
    s.cases.values_mut().for_each(|c| c.depth = Some(1024));
    let e = plan(&s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    assert!(e.cases.iter().all(|c| c.links.len() < 256));
    assert!(
        e.left_out
            .iter()
            .any(|l| l.what.contains("256 links") && l.reason.contains("MiB of memory")),
        "{:?}",
        e.left_out
    );
}

#[test]
fn what_would_not_end_is_refused_before_it_begins() {
    let placement = Placement::automatic(vec![0, 1]);
    let mut s = scenario::load("S1").unwrap();
    s.vary.size = (1..=200).map(driveline_graph::ByteSize).collect();
    s.vary.depth = (1..=1000).collect();
    s.vary.processing_us = (1..=1000).collect();
    s.vary.subscribers = (1..=512).collect();
    let text = format!("{:#}", plan(&s, Extent::Default, &peers(), &placement).unwrap_err());
    assert!(text.contains("combinations") && text.contains("let less vary"), "{text}");
    let mut s = scenario::load("S1").unwrap();
    s.vary = scenario::Vary {
        size: vec![driveline_graph::ByteSize(64)],
        rate_hz: vec![10.0],
        ..Default::default()
    };
    (s.vary.copies, s.vary.subscribers) = (vec![256], vec![512]);
    let e = plan(&s, Extent::Default, &peers(), &placement).unwrap();
    assert!(
        e.cases.is_empty() && e.left_out.iter().any(|l| l.reason.contains("131328 processes")),
        "{:?}",
        e.left_out
    );
}
