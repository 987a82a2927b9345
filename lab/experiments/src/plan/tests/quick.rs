// SPDX-License-Identifier: Apache-2.0
//! `--quick` compares Driveline with two or three others, with the capabilities of the real peers,
//! not of mock peers.

use super::*;

/// Capabilities of the peers of `make peers`; `make peers-test` compares them with the peers'
/// own.
const CAPABILITIES: &str = include_str!("../../../../bench/tests/capabilities.json");

/// Cells of `--quick` in which Driveline is compared with no other system, or only one: experiment,
/// beginning of the cell, reason. docs/lab.md names them.
const FEW: &[(&str, &str, &str)] = &[
    ("W6", "equal periods, first channel", "ROS 1 fuses by time only"),
    ("W6", "slowest first, approximate", "of the peers ROS 1 alone fuses"),
    ("B3", "", "of the peers Cyclone DDS alone runs its callbacks"),
    ("K3", "", "a graph of Driveline"),
    ("refsys", "", "a graph of Driveline"),
    ("K2", "T3 ", "a graph of Driveline"),
    ("S5", "writer killed", "a graph of Driveline"),
    ("S5", "reader killed", "a graph of Driveline"),
    ("S5", "region corrupted", "a graph of Driveline"),
    ("W7", "graph, ", "a graph of Driveline"),
    ("basics", "", "only Driveline's links are measured at rest, at start-up, on one thread"),
    ("B1C", "a container each", "iceoryx needs a pod"),
];

fn real_peers() -> Vec<Peer> {
    let known: Vec<serde_json::Value> = serde_json::from_str(CAPABILITIES).unwrap();
    let variant = |v: &serde_json::Value| {
        let mut whole = serde_json::to_value(sample_variant()).unwrap();
        whole.as_object_mut().unwrap().extend(v.as_object().unwrap().clone());
        serde_json::from_value::<Variant>(whole).unwrap()
    };
    let peer = |p: &serde_json::Value| {
        let name = p["name"].as_str().unwrap().to_owned();
        let variants = p["variants"].as_array().unwrap().iter().map(variant).collect();
        let description = Description {
            protocol: 1,
            name: name.clone(),
            title: name.clone(),
            version: "1".into(),
            variants,
        };
        Peer {
            title: name.clone(),
            state: State::Installed { program: format!("/{name}").into(), description },
            name,
        }
    };
    known.iter().map(peer).collect()
}

#[test]
fn every_quick_cell_that_compares_has_driveline_and_two_or_three_others() {
    let mut used = BTreeSet::new();
    let mut wrong = Vec::new();
    for b in builtin() {
        let placement = Placement::automatic(vec![0, 1]);
        let e =
            plan(&scenario::load(b.id).unwrap(), Extent::Quick, &real_peers(), &placement).unwrap();
        // Between hosts Driveline needs gateways, which need not be built here.
        let no_gateway = e.left_out.iter().any(|l| l.what == "driveline between hosts");
        let cells: BTreeSet<_> =
            e.cases.iter().filter(|c| c.role == Role::Measured).map(|c| c.cell.as_str()).collect();
        for cell in cells {
            let of_cell = || e.cases.iter().filter(|c| c.role == Role::Measured && c.cell == cell);
            let on_some_edge = |c: &Case| {
                c.chain
                    .iter()
                    .flat_map(|chain| chain.edges.values())
                    .any(|edge| edge.system == System::Driveline)
            };
            let own =
                no_gateway || of_cell().any(|c| c.system == System::Driveline || on_some_edge(c));
            // Variants of one peer count as one middleware. Bare sockets do not count: they are a
            // floor.
            let others: BTreeSet<_> = of_cell()
                .filter_map(|c| {
                    if let System::Peer { name, .. } = &c.system {
                        Some(name.as_str())
                    } else {
                        None
                    }
                })
                .filter(|name| *name != "baseline")
                .collect();
            let few = FEW.iter().find(|(id, begin, _)| *id == b.id && cell.starts_with(begin));
            used.extend(few.filter(|_| others.len() < 2));
            if !own || (!(2..=3).contains(&others.len()) && few.is_none()) {
                wrong.push(format!("{} · {cell}: {others:?}", b.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Where there is no Podman, there are no cells in containers.
    let no_containers = driveline_bench::deployment::containers_refused().is_some();
    let few = FEW.iter().filter(|(id, ..)| *id != "B1C" || !no_containers);
    assert_eq!(used, few.collect(), "each entry of FEW must be needed");
}

#[test]
fn quick_cells_of_a_paper_have_the_systems_that_it_measured() {
    // The paper measures its own protocol, Fast DDS with zero copy, and Zenoh.
    let sim = ["as_published/sim", "driveline", "fastdds/data_sharing", "zenoh/shm"];
    for id in ["S1", "S2"] {
        let placement = Placement::automatic(vec![0, 1]);
        let scenario = scenario::load(id).unwrap();
        let e = plan(&scenario, Extent::Quick, &real_peers(), &placement).unwrap();
        let mut cells: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for c in e.cases.iter().filter(|c| c.role == Role::Measured) {
            cells.entry(&c.cell).or_default().insert(c.system.to_string());
        }
        // There is a cell with one reader and a cell with ten.
        assert_eq!(cells.len(), 2, "{id}: {cells:?}");
        for (cell, systems) in cells {
            assert_eq!(systems, sim.map(str::to_owned).into(), "{id} · {cell}");
        }
    }
}
