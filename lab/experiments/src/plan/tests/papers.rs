// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::scenario::DeploymentSpec;

#[test]
fn missing_peers_are_listed_everywhere_and_graphs_run_without_peers() {
    let mut graphs = BTreeSet::new();
    for b in builtin() {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let e = planned(b.id, extent);
            let missing: Vec<_> = e.left_out.iter().filter(|l| l.what == "ecal").collect();
            assert_eq!(
                missing,
                [&LeftOut::new("ecal", "not installed: buy it")],
                "{} {extent:?}",
                b.id
            );
            let of_graphs: BTreeSet<_> =
                e.cases.iter().filter(|c| c.workload.is_some()).map(|c| c.cell.as_str()).collect();
            let others: Vec<_> =
                e.left_out.iter().filter(|l| l.what == "other middleware").collect();
            assert!(
                others.iter().all(|l| l.reason.contains("is a graph of Driveline")
                    && l.reason.contains("`chain`")),
                "{others:?}"
            );
            // ROS 1 runs the workload of W6.
            let alone = if b.id == "W6" { BTreeSet::new() } else { of_graphs };
            assert_eq!(
                others.iter().flat_map(|l| &l.cells).map(String::as_str).collect::<BTreeSet<_>>(),
                alone,
                "{} {extent:?}",
                b.id
            );
            // Two hosts need root: without it, no case remains.
            if !e.cases.is_empty() && e.cases.iter().all(|c| c.workload.is_some()) {
                graphs.insert(b.id);
            }
        }
    }
    assert_eq!(graphs, BTreeSet::from(["W6", "B3", "K3", "refsys"]));
    // A request for Driveline alone gets no list of other systems.
    let mut s = scenario::load("S1").unwrap();
    s.systems = vec!["driveline".into()];
    let alone = plan(&s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    assert!(alone.left_out.is_empty(), "{:?}", alone.left_out);
}

#[test]
fn a_workload_is_measured_on_the_peers_that_announce_it() {
    let planned = |systems: &[&str], peer: Peer| {
        let mut s = scenario::load("W6").unwrap();
        if !systems.is_empty() {
            s.systems = systems.iter().map(|&name| name.into()).collect();
        }
        let mut found = peers();
        let place = found.iter().position(|p| p.name == peer.name).unwrap();
        found[place] = peer;
        plan(&s, Extent::Default, &found, &Placement::automatic(vec![0, 1])).unwrap()
    };
    let of = |e: &Experiment, system: &str| -> Vec<String> {
        let measured = e.cases.iter().filter(|c| c.role == Role::Measured);
        measured.filter(|c| c.system.to_string() == system).map(|c| c.cell.clone()).collect()
    };
    let left = |e: &Experiment, what: &str| -> Vec<(String, Vec<String>)> {
        let left = e.left_out.iter().filter(|l| l.what == what);
        left.map(|l| (l.reason.clone(), l.cells.clone())).collect()
    };
    let kinds = ["equal periods", "fastest first", "slowest first"];
    let cells = |trigger: &str| kinds.map(|kind| format!("{kind}, {trigger}")).to_vec();

    let e = planned(&[], ros1(""));
    assert_eq!(of(&e, "driveline").len(), 6);
    assert_eq!(of(&e, "ros1/tcp"), cells("approximate"));
    let reason = "cannot have the trigger first_channel: it goes by times";
    assert_eq!(left(&e, "ros1/tcp"), [(reason.to_owned(), cells("first channel"))]);
    let fused = e.cases.iter().filter(|c| c.system.to_string() == "ros1/tcp");
    for c in fused {
        let to: Vec<_> = c.comparisons.iter().map(|x| x.to.clone()).collect();
        assert_eq!(to, [format!("{} · driveline", c.cell)]);
    }
    // With a program built without the workload, the report says how to build it.
    let e = planned(&[], ros1("install it, then make peers"));
    assert_eq!(
        left(&e, "ros1/tcp"),
        [("install it, then make peers".to_owned(), of(&e, "driveline"))]
    );
    // Without a program, the report says how to add it, and Driveline is measured.
    let none = State::NotInstalled { how_to_add: "make peers".into() };
    let e = planned(&[], Peer { state: none, ..ros1("") });
    assert_eq!(left(&e, "ros1"), [("not installed: make peers".to_owned(), Vec::new())]);
    assert_eq!((of(&e, "driveline").len(), of(&e, "ros1/tcp").len()), (6, 0));
    // Without Driveline. ROS 1's variant `udp` does not run the workload.
    let e = planned(&["ros1"], ros1(""));
    assert_eq!((of(&e, "driveline").len(), of(&e, "ros1/tcp").len()), (0, 3));
    assert!(e.cases.iter().all(|c| c.comparisons.is_empty()));
    assert_eq!(left(&e, "ros1/udp")[0].0, "does not run the workload fusion");
    // No selected system but Driveline runs the workload.
    let e = planned(&["driveline", "zenoh"], ros1(""));
    assert!(left(&e, "other middleware")[0].0.contains("is a graph of Driveline"));
}

#[test]
fn everything_is_started_anew_often_enough_for_intervals() {
    for b in builtin() {
        for extent in [Extent::Default, Extent::Paper] {
            let rounds = planned(b.id, extent).rounds;
            assert!(rounds >= ENOUGH_ROUNDS as u64, "{} {extent:?}: {rounds} rounds", b.id);
        }
    }
    // The published number of samples in each case.
    let of_paper = planned("F", Extent::Paper);
    assert!(
        of_paper
            .cases
            .iter()
            .filter(|c| !c.is_copy())
            .flat_map(|c| &c.links)
            .all(|l| l.messages == 5000)
    );
}

#[test]
fn runs_of_the_second_paper_have_a_thousand_frames_after_a_hundred() {
    for id in ["S6", "S7"] {
        let e = planned(id, Extent::Paper);
        let links = e.cases.iter().flat_map(|c| &c.links).map(|l| (l.messages, l.warm_up));
        let chains =
            e.cases.iter().filter_map(|c| c.chain.as_ref()).map(|c| (c.messages, c.warm_up));
        let all: Vec<_> = links.chain(chains).collect();
        assert!(
            !all.is_empty()
                && all.iter().all(|(messages, warm_up)| *messages >= 1000 && *warm_up == 100),
            "{id}: {all:?}"
        );
    }
}

#[test]
fn the_pipeline_runs_at_the_rate_of_its_drive_and_at_the_papers() {
    let rates = |extent| -> (BTreeSet<u64>, BTreeSet<u64>) {
        let e = planned("W9", extent);
        let chains = || e.cases.iter().filter_map(|c| c.chain.as_ref());
        (
            chains().map(|c| c.rate_hz.unwrap() as u64).collect(),
            chains().map(|c| c.warm_up).collect(),
        )
    };
    assert_eq!(rates(Extent::Quick).0, BTreeSet::from([25]));
    assert_eq!(rates(Extent::Default).0, BTreeSet::from([25, 50]));
    // The first 200 frames, as in the paper.
    assert_eq!(rates(Extent::Paper), (BTreeSet::from([25, 50]), BTreeSet::from([200])));
}

#[test]
fn many_threads_are_asked_for_all_sizes_and_rates_of_one_thread() {
    let of = |e: &Experiment, case: &str| -> BTreeSet<(u64, u64)> {
        let cases =
            e.cases.iter().filter(|c| c.scenario_case == case).filter_map(|c| c.workload.as_ref());
        cases
            .map(|w| {
                (
                    w.parameters["payload_bytes"].as_u64().unwrap(),
                    w.parameters["rate_hz"].as_f64().unwrap() as u64,
                )
            })
            .collect()
    };
    let (pairs, threads) = (planned("K2", Extent::Paper), planned("K3", Extent::Paper));
    assert_eq!(of(&threads, "64 nodes, multi-threaded"), of(&pairs, "T3 64 nodes"));
    assert_eq!(of(&threads, "64 nodes, multi-threaded").len(), 10);
    assert_eq!(
        of(&planned("K3", Extent::Default), "64 nodes, multi-threaded"),
        BTreeSet::from([(65536, 10)])
    );
}

#[test]
fn links_of_the_first_paper_are_reliable_as_there() {
    for id in ["W1", "W2", "W3", "W4", "W5", "W7", "W8", "W11", "W12", "W13", "W14"] {
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let e = planned(id, extent);
            let of = |c: &Case| c.links.first().map(|l| l.reliability);
            // A workload has its own topics.
            let is_link = |c: &&Case| c.system == System::Driveline && !c.links.is_empty();
            let own = || e.cases.iter().filter(is_link);
            let is = |c: &str, r| own().any(|case| case.scenario_case == c && of(case) == Some(r));
            // Cases that a paper does not have may be measured as well.
            for case in
                own().map(|c| c.scenario_case.as_str()).filter(|c| !c.contains("best effort"))
            {
                let quick = extent == Extent::Quick && is(case, Reliability::BestEffort);
                assert!(is(case, Reliability::Reliable) || quick, "{id} {extent:?}: {case}");
            }
        }
    }
}

#[test]
fn transports_within_a_process_stand_among_those_of_the_first_paper() {
    // Within a process, like ROS 1's nodelets.
    let mut inside = peer("inside", &["intra"]);
    let State::Installed { description, .. } = &mut inside.state else { panic!() };
    description.variants[0].reach = vec![Reach::Process];
    description.variants[0].reliability = vec![Reliability::BestEffort];
    let e = plan(
        &scenario::load("W1").unwrap(),
        Extent::Default,
        &[inside],
        &Placement::automatic(vec![0, 1]),
    )
    .unwrap();
    let cases: BTreeSet<_> = e
        .cases
        .iter()
        .filter(|c| c.system.to_string() == "inside/intra")
        .map(|c| (c.scenario_case.as_str(), c.links[0].reach))
        .collect();
    let expected =
        ["imu", "camera", "lidar-light", "lidar-heavy", "radar"].map(|c| (c, Reach::Process));
    assert_eq!(cases, BTreeSet::from(expected));
}

#[test]
fn each_preference_has_a_case_without_it() {
    for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
        let e = planned("W7", extent);
        assert_eq!(e.scenario.answer, Some(scenario::AnswerSpec::Preferred));
        let preferring: Vec<_> = e.cases.iter().filter(|c| c.beside.favour.is_some()).collect();
        assert!(!preferring.is_empty());
        for c in preferring {
            let without_favour = driveline_bench::Beside { favour: None, ..c.beside.clone() };
            assert!(
                e.cases
                    .iter()
                    .any(|o| (&o.system, &o.links, &o.beside)
                        == (&c.system, &c.links, &without_favour)),
                "{extent:?}: {}",
                c.id
            );
        }
    }
}

#[test]
fn what_sleeping_costs_is_watched_where_periods_vary() {
    let e = planned("W11", Extent::Default);
    assert!(
        e.cases.iter().filter(|c| c.role == Role::Measured).all(|c| c.beside.watch_every.is_some())
    );
}

#[test]
fn all_topologies_have_all_sizes_and_rates() {
    let sizes = [32, 64 << 10, 512 << 10, 1 << 20, 2 << 20];
    let e = planned("K2", Extent::Paper);
    for topology in ["T1", "T2", "T3"] {
        let of = |c: &&Case| {
            c.system == System::Driveline && c.scenario_case.starts_with(&format!("{topology} 8"))
        };
        let mut seen = BTreeSet::new();
        for c in e.cases.iter().filter(of) {
            let (size, hz) = match (&c.workload, c.links.first()) {
                (Some(w), _) => (
                    w.parameters["payload_bytes"].as_u64().unwrap() as usize,
                    w.parameters["rate_hz"].as_f64().unwrap(),
                ),
                (_, Some(Link { size, pace: Pace::RateHz(hz), payload: Payload::Filled, .. })) => {
                    (*size, *hz)
                }
                other => panic!("{other:?}"),
            };
            seen.insert((size, hz as u64));
        }
        let expected: BTreeSet<_> = sizes.into_iter().flat_map(|s| [(s, 10), (s, 100)]).collect();
        assert_eq!(seen, expected, "{topology}");
    }
    assert!(e.cases.iter().any(|c| c.id == "T3 64 nodes · 2 MiB · 100 Hz · driveline"));
}

#[test]
fn all_topologies_have_the_same_figure() {
    let e = planned("K2", Extent::Default);
    let links: Vec<_> =
        e.cases.iter().filter(|c| c.role == Role::Measured && !c.links.is_empty()).collect();
    assert!(
        links.iter().any(|c| c.links[0].subscribers > 1) && links.iter().any(|c| c.links.len() > 1)
    );
    // The figure of T3 is from publishing to the callbacks of all subscriptions. Like the figure of
    // links, it excludes filling.
    assert!(
        links
            .iter()
            .all(|c| c.handling() == Some(Payload::Filled)
                && c.headline_metric() == Metric::Transport)
    );
    // If no scenario names the figure, filling counts.
    let mut unnamed = scenario::load("W2").unwrap();
    unnamed.figure = None;
    let e = plan(&unnamed, Extent::Default, &peers(), &Placement::automatic(vec![0, 1])).unwrap();
    let link = e.cases.iter().find(|c| c.role == Role::Measured).unwrap();
    assert_eq!((link.figure_is_named, link.headline_metric()), (false, Metric::FillAndTransport));
}

#[test]
fn a_workload_uses_varied_values_that_its_case_leaves_open() {
    let mut s = scenario::load("K3").unwrap();
    s.vary = scenario::Vary {
        size: vec![driveline_graph::ByteSize(64), driveline_graph::ByteSize(128)],
        ..Default::default()
    };
    let planned = |s: &scenario::Scenario| {
        plan(s, Extent::Default, &peers(), &Placement::automatic(vec![0, 1]))
    };
    let size =
        |c: &Case| c.workload.as_ref().unwrap().parameters["payload_bytes"].as_u64().unwrap();
    let sizes = |s: &scenario::Scenario| {
        planned(s).unwrap().cases.iter().map(size).collect::<BTreeSet<_>>()
    };
    assert_eq!(sizes(&s), BTreeSet::from([64, 128]));
    let mut own = s.clone();
    own.cases.values_mut().for_each(|c| {
        drop(c.workload.as_mut().unwrap().parameters.insert("payload_bytes".into(), 65536.into()))
    });
    // The case sets its own size, which is not varied.
    assert_eq!(sizes(&own), BTreeSet::from([65536]));
    s.vary.size = vec![driveline_graph::ByteSize(1 << 40)];
    let text = format!("{:#}", planned(&s).unwrap_err());
    assert!(
        text.contains("case 8 nodes, single-threaded") && text.contains("payload_bytes"),
        "{text}"
    );
}

#[test]
fn systems_that_may_tear_are_checked_for_torn_reads() {
    for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
        let e = planned("S5", extent);
        let who: Vec<_> = e
            .cases
            .iter()
            .filter(|c| c.cell == "torn reads")
            .map(|c| c.system.to_string())
            .collect();
        for expected in
            ["driveline", "as_published/sim", "as_published/sim_code", "fastdds/data_sharing"]
        {
            assert!(who.iter().any(|w| w == expected), "{expected}: {who:?}");
        }
        assert!(
            extent == Extent::Quick || who.iter().any(|w| w == "zenoh/shm"),
            "zenoh/shm is checked except in --quick: {who:?}"
        );
    }
}

#[test]
fn each_system_carries_a_chain_or_the_notes_give_the_reason() {
    for id in ["W9", "S7", "B2"] {
        let e = planned(id, Extent::Default);
        let notes = e.scenario.notes.join(" ");
        for p in peers() {
            let State::Installed { description, .. } = &p.state else { continue };
            for v in description.variants.iter().filter(|v| !v.tuning) {
                let system = format!("{}/{}", p.name, v.name);
                let carries = e.cases.iter().any(|c| c.system.to_string() == system);
                let noted = notes.contains(&system)
                    || notes.contains(&format!("(peer {})", p.name))
                    || notes.contains(&format!("({})", p.name));
                assert!(carries || noted, "{id}: {system}");
            }
        }
    }
}

#[test]
fn the_environment_gives_a_street_to_works_that_need_it() {
    let scenario = scenario::load("S7").unwrap();
    let stages = scenario.chain.unwrap().stages;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().canonicalize().unwrap().join("a street.ply");
    std::fs::write(&file, "").unwrap();
    let street = |variable: &str| (variable == "S7_CLOUD").then(|| file.clone().into_os_string());
    for (name, stage) in &stages {
        let given = environment::parameters(stage, street).unwrap();
        let is_source_or_map = ["lidar", "localization"].contains(&name.as_str());
        assert_eq!(
            given.get("cloud").and_then(|c| c.as_str()),
            is_source_or_map.then_some(file.to_str().unwrap()),
            "{name}"
        );
        assert!(!environment::parameters(stage, |_| None).unwrap().contains_key("cloud"), "{name}");
    }
}

#[test]
fn published_figures_are_compared_with_existing_systems() {
    let known: Vec<String> = peers()
        .iter()
        .filter_map(|p| match &p.state {
            State::Installed { description, .. } => Some((&p.name, description)),
            State::NotInstalled { .. } | State::Broken { .. } => None,
        })
        .flat_map(|(name, d)| d.variants.iter().map(move |v| format!("{name}/{}", v.name)))
        .collect();
    for b in builtin() {
        for p in scenario::load(b.id).unwrap().published {
            let Some(system) = p.beside else { continue };
            assert!(system == "driveline" || known.contains(&system), "{}: {system}", b.id);
            // The peers' DDS runs without rclcpp. A row that compares it with a system of ROS 2
            // says so.
            let through_rclcpp = p.system.contains("ROS 2") && system != "driveline";
            assert!(!through_rclcpp || p.here.is_some(), "{}: {}", b.id, p.system);
        }
    }
}

/// A published system, and the systems here that a reader may compare with it.
struct Pairing {
    experiments: &'static [&'static str],
    /// Beginning of its name in the scenarios.
    system: &'static str,
    /// Counterparts, the best one first; empty if neither this system nor a similar one runs here.
    peers: &'static [&'static str],
    /// Beginning of the text that describes how a counterpart other than Driveline differs.
    here: Option<&'static str>,
}

/// Without rclcpp, executor and conversion, a faster row says nothing about the middleware.
const BARE_DDS: Option<&str> = Some("bare DDS, without rclcpp");
/// The published protocol polls for new samples, the implementation here waits on a futex.
const BLOCKS: Option<&str> = Some("blocks here, polls there");

/// Driveline is a counterpart of two kinds of published systems: of a paper's own system, by whose
/// figures the report divides the paper's other figures (SIM, FastCycle), and of systems that run a
/// workload of the same shape.
#[rustfmt::skip]
const PAIRINGS: &[Pairing] = &[
    // Cyber RT and rclcpp are not installed.
    Pairing { experiments: &["W9"], system: "Cyber RT ", peers: &[], here: None },
    Pairing { experiments: &["F"], system: "CyberRT", peers: &[], here: None },
    Pairing { experiments: &["F"], system: "ROS 2 intra", peers: &[], here: None },
    // The published system is zero-copy, so its counterparts here never use sockets.
    Pairing {
        experiments: &["S1", "S2"], system: "Fast DDS, zero-copy, through ROS 2",
        peers: &["fastdds/data_sharing", "fastdds/shm"], here: BARE_DDS,
    },
    Pairing {
        experiments: &["S7"], system: "Autoware, Fast DDS zero-copy, through ROS 2",
        peers: &["fastdds/data_sharing", "fastdds/shm"], here: BARE_DDS,
    },
    Pairing {
        experiments: &["S1", "S2"], system: "Zenoh, through ROS 2",
        peers: &["zenoh/shm", "zenoh/shm_implicit"], here: Some("bare Zenoh, without rclcpp"),
    },
    Pairing {
        experiments: &["S1", "S2", "S3"], system: "SIM",
        peers: &["as_published/sim", "driveline"], here: BLOCKS,
    },
    // The authors add up costs of single links: no run of Driveline is the same.
    Pairing {
        experiments: &["S7"], system: "SIM on all edges, projected by the authors",
        peers: &["as_published/sim"], here: BLOCKS,
    },
    // The authors measured with ddsperf without tuning, so the published figures are without rclcpp
    // too.
    Pairing {
        experiments: &["B1", "B1C"], system: "Cyclone DDS",
        peers: &["cyclonedds/udp_default"], here: None,
    },
    Pairing {
        experiments: &["B2", "B2C"], system: "ROS 2 with Cyclone DDS",
        peers: &["cyclonedds/udp_default"], here: BARE_DDS,
    },
    Pairing {
        experiments: &["B3"], system: "Autoware on ROS 2",
        peers: &["driveline", "cyclonedds/udp_default"], here: BARE_DDS,
    },
    Pairing {
        experiments: &["F"], system: "FastCycle",
        peers: &["as_published/fastcycle", "driveline"], here: None,
    },
    Pairing { experiments: &["F"], system: "ROS 1 intra", peers: &["ros1/intra"], here: None },
    // The default of roscpp, and its option without Nagle's algorithm.
    Pairing {
        experiments: &["F"], system: "ROS 1 inter", peers: &["ros1/tcp_nagle", "ros1/tcp"],
        here: None,
    },
    // The authors describe this DDS as sockets, and name Fast DDS.
    Pairing {
        experiments: &["F"], system: "ROS 2 inter", peers: &["fastdds/udp"], here: BARE_DDS,
    },
    // Executors of the reference system, on the same graph.
    Pairing { experiments: &["refsys"], system: "ROS 2 ", peers: &["driveline"], here: None },
];

/// Returns the pairing of a published row: of all that fit, the one with the longest name.
fn pairing(experiment: &str, system: &str) -> Option<&'static Pairing> {
    let fits = |p: &&Pairing| p.experiments.contains(&experiment) && system.starts_with(p.system);
    PAIRINGS.iter().filter(fits).max_by_key(|p| p.system.len())
}

/// Returns the deployment of the runs that a published row stands next to.
fn deployment_here(scenario: &scenario::Scenario, row: &scenario::Published) -> DeploymentSpec {
    let of_case = || scenario.cases.get(row.case.as_ref()?)?.deployment;
    row.deployment.or_else(of_case).unwrap_or(DeploymentSpec::Bare)
}

/// Returns the deployment in the paper.
fn deployment_there(on: &str) -> DeploymentSpec {
    match on {
        _ if on.ends_with("one container") => DeploymentSpec::Container,
        _ if on.ends_with("a container each") => DeploymentSpec::Containers,
        _ => DeploymentSpec::Bare,
    }
}

#[test]
fn published_figures_stand_next_to_the_systems_that_the_papers_measured() {
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for b in builtin() {
        let scenario = scenario::load(b.id).unwrap();
        for row in &scenario.published {
            let place = format!("{}: {} ({}) next to {:?}", b.id, row.system, row.on, row.beside);
            let Some(known) = pairing(b.id, &row.system) else {
                wrong.push(format!("{place}: no pairing is known"));
                continue;
            };
            let Some(peer) = row.beside.as_deref() else { continue };
            used.insert((b.id, known.system, peer.to_owned()));
            if !known.peers.contains(&peer) {
                wrong.push(format!("{place}: only next to {:?}", known.peers));
            }
            let words = known.here.filter(|_| peer != "driveline").unwrap_or_default();
            if !row.here.as_deref().unwrap_or_default().starts_with(words) {
                wrong.push(format!("{place}: say {words:?}"));
            }
            // No scenario is for aarch64.
            if deployment_here(&scenario, row) != deployment_there(&row.on)
                || row.on.contains("aarch64")
            {
                wrong.push(format!("{place}: no run here is like that"));
            }
            if b.id == "B1" && row.reliability != Some(scenario::ReliabilitySpec::BestEffort) {
                wrong.push(format!("{place}: published best effort"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Each published system stands next to its best counterpart.
    for p in PAIRINGS {
        let Some(&best) = p.peers.first() else { continue };
        for &experiment in p.experiments {
            let is_used = used.contains(&(experiment, p.system, best.to_owned()));
            assert!(is_used, "{experiment}: {} is not next to {best}", p.system);
        }
    }
}
