// SPDX-License-Identifier: Apache-2.0
//! Published figures of the built-in experiments, compared with the tables of the papers.
//!
//! `published/*.csv` repeats these tables in their own units. Each line is one cell of an
//! experiment: its labels, its figures, and the systems here that it is compared with.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

use driveline_lab::scenario::{self, Published, builtin};
use std::collections::BTreeMap;

const TABLES: [(&str, &str); 5] = [
    ("betz.csv", include_str!("published/betz.csv")),
    ("fastcycle.csv", include_str!("published/fastcycle.csv")),
    ("he_shi.csv", include_str!("published/he_shi.csv")),
    ("reference_system.csv", include_str!("published/reference_system.csv")),
    ("wu_2021.csv", include_str!("published/wu_2021.csv")),
];

/// Columns that are labels; the others are figures.
const LABELS: [&str; 9] =
    ["table", "experiment", "system", "on", "case", "reach", "size", "subscribers", "figure"];

/// Figures of one cell by quantity: microseconds, or percent of a stage.
type Figures = BTreeMap<String, f64>;

/// Cells by their labels, and the system here that each is compared with.
type Cells = BTreeMap<String, Figures>;

fn key(labels: &BTreeMap<&str, String>, next_to: &str) -> String {
    let label = |name: &str| labels.get(name).map_or("", String::as_str);
    let place: Vec<_> = ["case", "reach", "size", "subscribers", "figure"]
        .iter()
        .map(|name| format!("{name}: {}", label(name)))
        .collect();
    let [experiment, system, on] = ["experiment", "system", "on"].map(label);
    format!("{experiment}: {system} ({on}) next to '{next_to}' [{}]", place.join(", "))
}

fn insert(cells: &mut Cells, key: String, figures: Figures) {
    assert!(!figures.is_empty(), "{key}: no figure");
    let before = cells.insert(key.clone(), figures);
    assert!(before.is_none(), "{key}: twice");
}

/// Reads one table. Lines that start with `#` are comments.
fn read_table(name: &str, text: &str, cells: &mut Cells) {
    let mut lines = text.lines().filter(|l| !l.starts_with('#'));
    let columns: Vec<&str> = lines.next().unwrap().split(';').collect();
    for line in lines {
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields.len(), columns.len(), "{name}: {line}");
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(fields).collect();
        let factor = match row["unit"] {
            "us" | "percent" => 1.0,
            "us of a round trip" => 0.5,
            "ms" => 1000.0,
            other => panic!("{name}: unit '{other}'"),
        };
        let figures: Figures = row
            .iter()
            .filter(|(c, v)| {
                !LABELS.contains(c) && !["unit", "next_to"].contains(c) && !v.is_empty()
            })
            .map(|(c, v)| ((*c).to_owned(), factor * v.parse::<f64>().unwrap()))
            .collect();
        let mut labels: BTreeMap<&str, String> =
            LABELS.iter().map(|&l| (l, row[l].to_owned())).collect();
        let size = row["size"].strip_suffix(" KiB").map(|n| n.parse::<u64>().unwrap() * 1024);
        labels.insert("size", size.map_or_else(String::new, |n| n.to_string()));
        let mut systems: Vec<&str> = row["next_to"].split_whitespace().collect();
        if systems.is_empty() {
            systems.push("");
        }
        for system in systems {
            insert(cells, key(&labels, system), figures.clone());
        }
    }
}

fn cells_of_papers() -> Cells {
    let mut cells = Cells::new();
    TABLES.iter().for_each(|(name, text)| read_table(name, text, &mut cells));
    cells
}

fn figures_of_scenario(p: &Published) -> Figures {
    let mut figures: Figures =
        p.transmission_percent.iter().map(|(stage, &percent)| (stage.clone(), percent)).collect();
    let latencies = [
        ("mean", p.mean_us),
        ("deviation", p.deviation_us),
        ("p50", p.p50_us),
        ("p95", p.p95_us),
        ("p99", p.p99_us),
        ("max", p.max_us),
    ];
    figures.extend(latencies.iter().filter_map(|&(name, us)| Some((name.to_owned(), us?))));
    figures
}

fn cells_of_scenarios() -> Cells {
    let mut cells = Cells::new();
    for b in builtin() {
        for p in scenario::load(b.id).unwrap().published {
            let labels = BTreeMap::from([
                ("experiment", b.id.to_owned()),
                ("system", p.system.clone()),
                ("on", p.on.clone()),
                ("case", p.case.clone().unwrap_or_default()),
                ("reach", p.reach.map_or_else(String::new, |r| format!("{r:?}").to_lowercase())),
                ("size", p.size.map_or_else(String::new, |s| s.0.to_string())),
                ("subscribers", p.subscribers.map_or_else(String::new, |n| n.to_string())),
                ("figure", p.figure.clone().unwrap_or_default()),
            ]);
            let key = key(&labels, p.beside.as_deref().unwrap_or_default());
            insert(&mut cells, key, figures_of_scenario(&p));
        }
    }
    cells
}

/// Returns the differences, one line for each cell.
fn differences(scenarios: &Cells, papers: &Cells) -> Vec<String> {
    let mut wrong = Vec::new();
    for (key, here) in scenarios {
        let Some(there) = papers.get(key) else {
            wrong.push(format!("{key}: not in the tables of the papers"));
            continue;
        };
        let is_same = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-9 * b.abs();
        if !here.keys().eq(there.keys()) || !here.values().zip(there.values()).all(is_same) {
            wrong.push(format!("{key}: {here:?}, but the paper has {there:?}"));
        }
    }
    let missing = papers.keys().filter(|key| !scenarios.contains_key(*key));
    wrong.extend(missing.map(|key| format!("{key}: missing in the scenario")));
    wrong
}

#[test]
fn published_figures_are_those_of_the_papers() {
    let wrong = differences(&cells_of_scenarios(), &cells_of_papers());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_figure_a_wrong_pairing_and_a_missing_cell_are_found() {
    let papers = cells_of_papers();
    let mean = "S1: SIM (Orin Nano, recomputed) next to 'driveline' \
                [case: , reach: , size: , subscribers: 1, figure: transport]";

    let mut scenarios = papers.clone();
    scenarios.get_mut(mean).unwrap().insert("mean".to_owned(), 227.0);
    let found = differences(&scenarios, &papers);
    assert!(matches!(&found[..], [one] if one.contains("the paper has")), "{found:?}");

    let mut scenarios = papers.clone();
    scenarios.get_mut(mean).unwrap().remove("p95");
    assert_eq!(differences(&scenarios, &papers).len(), 1);

    // The figure is missing for one system, and is one too many for the other.
    let mut scenarios = papers.clone();
    let figures = scenarios.remove(mean).unwrap();
    scenarios.insert(mean.replace("'driveline'", "'fastdds/udp'"), figures);
    assert_eq!(differences(&scenarios, &papers).len(), 2);
}
