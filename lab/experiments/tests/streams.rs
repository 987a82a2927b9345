// SPDX-License-Identifier: Apache-2.0
//! Tests that streams are compared by goodput: more is better, a stall lowers it, and losses are
//! listed next to it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod browser;
mod fixture;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use browser::{is_readable, open};
use driveline_bench::Metric;
use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_lab::archive::{Archive, Case, Run};
use driveline_lab::compare::{CompareArgs, Verdict, archives, compare};
use driveline_lab::{ReportArgs, report};
use fixture::{case, experiment, link, manifest, peer, run};
use std::path::Path;

const MS: u64 = 1_000_000;

/// Returns a system that streams samples of this size.
fn stream(system: System, cell: &str, size: usize, number: usize) -> Case {
    let mut c = Case {
        figure: Metric::BetweenArrivals,
        ..case(system, cell, number, vec![link(size, 1, Payload::Untouched)])
    };
    c.comparisons
        .iter_mut()
        .for_each(|x| (x.metric, x.of) = (Metric::BetweenArrivals, Metric::BetweenArrivals));
    c
}

/// Returns a run with these times between arrivals, repeated; the last `lost` of 101 samples did
/// not arrive.
fn arrivals(c: &Case, round: u64, between_ns: &[u64], lost: usize) -> Run {
    let mut run = run(c, round, &[5_000; 101]);
    let a = &mut run.accounts[0];
    let mut at = a.stamps[0].received.unwrap().in_hand;
    for (sample, between) in a.stamps.iter_mut().skip(1).zip(between_ns.iter().cycle()) {
        at += between;
        let received = sample.received.as_mut().unwrap();
        (received.in_hand, received.woken) = (at, at);
    }
    a.stamps.iter_mut().rev().take(lost).for_each(|s| (s.received, s.transport_ns) = (None, 0));
    (a.received[0], a.missed[0]) = (101 - lost as u64, lost as u64);
    run
}

/// Returns a run with these goodputs: Driveline has 50 MB/s, and Zenoh has 100 MB/s with losses.
/// Fast DDS has by far the smallest median, but stalls, so it has 25 MB/s.
fn of_system(c: &Case, round: u64) -> Run {
    match c.system.to_string().as_str() {
        "fastdds/shm" => arrivals(c, round, &[[MS; 9].as_slice(), &[391 * MS]].concat(), 0),
        "zenoh/tcp" => arrivals(c, round, &[10 * MS], 10),
        _ => arrivals(c, round, &[20 * MS], 0),
    }
}

/// Returns the texts of terminal, Markdown and page about cases in five rounds.
fn rendered(dir: &Path, cases: Vec<Case>) -> [String; 3] {
    let archive =
        Archive::create(&dir.join("a"), manifest(vec![experiment("X", 5, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..5 {
            let run = if c.figure == Metric::BetweenArrivals {
                of_system(c, round)
            } else {
                run(c, round, &[20_000; 100])
            };
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
    }
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let (terminal, markdown) = (report(&args(false)).unwrap(), report(&args(true)).unwrap());
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    [terminal, markdown, page.split_once("<body>").unwrap().1.to_owned()]
}

fn three(cell: &str, size: usize, from: usize) -> Vec<Case> {
    let systems = [System::Driveline, peer("fastdds/shm"), peer("zenoh/tcp")];
    systems
        .into_iter()
        .enumerate()
        .map(|(i, system)| stream(system, cell, size, from + i))
        .collect()
}

#[test]
fn the_system_with_more_throughput_is_ahead_whatever_the_medians_are() {
    let dir = tempfile::tempdir().unwrap();
    let [terminal, markdown, page] = rendered(dir.path(), three("stream", 1_000_000, 0));
    let answer = "\
Driveline does not have the greatest goodput.
Furthest ahead of it is zenoh/tcp: 2.00 times Driveline's goodput (95 % 2.00 to 2.00); not \
         arrived: 9.90 % of its samples, none of Driveline's.
Not arrived, which goodput does not show: 50 of 505 by zenoh/tcp (stream).

";
    assert!(terminal.contains(answer), "{terminal}");
    let cells = |first: &str| {
        let all = terminal
            .lines()
            .map(|l| l.split("  ").map(str::trim).filter(|w| !w.is_empty()).collect::<Vec<_>>());
        all.filter(|l| l.first() == Some(&first)).collect::<Vec<_>>()
    };
    assert_eq!(
        cells("n")[0],
        ["n", "goodput", "goodput ÷ Driveline", "CPU/message", "lost"],
        "{terminal}"
    );
    assert_eq!(
        cells("fastdds/shm")[0][1..],
        ["500", "25.0 MB/s", "0.50 [0.50, 0.50]", "5.00 µs", "0"],
        "{terminal}"
    );
    assert_eq!(
        cells("zenoh/tcp")[0][1..],
        ["450", "100 MB/s", "2.00 [2.00, 2.00]", "5.00 µs", "50"],
        "{terminal}"
    );
    // Stalls are in a table below.
    assert_eq!(cells("fastdds/shm")[1][1..], ["500", "1.00 ms", "391 ms", "391 ms"], "{terminal}");
    let table = "\
| | system | n | goodput | goodput ÷ Driveline | CPU per message | lost | runs that count |
|---|---|---|---|---|---|---|---|
| stream | Driveline | 500 | 50.0 MB/s | 1 | 5.00 | 0 | 5 of 5 |
| stream | fastdds/shm | 500 | 25.0 MB/s | 0.50 (0.50–0.50) | 5.00 | 0 | 5 of 5 |
| stream | zenoh/tcp | 450 | 100 MB/s | 2.00 (2.00–2.00) | 5.00 | 50 | 5 of 5 |
";
    assert!(markdown.contains(table), "{markdown}");
    for text in [&terminal, &markdown, &page] {
        assert!(text.contains("Greater is better") && text.contains("between arrivals"), "{text}");
        assert!(!text.contains("p50 ÷"), "{text}");
    }
    assert!(page.contains("<h3>Goodput</h3>") && page.contains("<h3>Between arrivals</h3>"));
    assert!(
        page.contains("<span class=slower>0.50×</span>")
            && page.contains("<span class=faster>2.00×</span>")
    );
    let csv = std::fs::read_to_string(dir.path().join("a/results.csv")).unwrap();
    assert!(csv.lines().any(|l| l.starts_with("X,stream · zenoh/tcp,")
        && l.ends_with(",100000000")
        && l.contains(",goodput,all,bytes/s,")));
    let summary: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(dir.path().join("a/summary.json")).unwrap())
            .unwrap();
    let zenoh = &summary["experiments"][0]["cases"][2];
    assert_eq!(zenoh["goodput_bytes_per_s"], 1e8);
    assert_eq!(
        (&zenoh["ratios"][0]["goodput"]["estimate"], &zenoh["ratios"][0]["p50"]),
        (&2.0.into(), &serde_json::Value::Null)
    );
}

#[test]
fn streams_and_latencies_are_not_mixed_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut cases =
        [three("stream · 1 MiB", 1 << 20, 0), three("stream · 2 MiB", 2 << 20, 3)].concat();
    for (i, system) in [System::Driveline, peer("zenoh/tcp")].into_iter().enumerate() {
        cases.push(case(system, "1 MiB", 6 + i, vec![link(1 << 20, 1, Payload::Untouched)]));
    }
    let [terminal, markdown, page] = rendered(dir.path(), cases);
    let answer = "\
It is unclear whether Driveline has the least median latency.
Closest to it comes zenoh/tcp (1 MiB): 1.00 times its median (95 % 1.00 to 1.00), which shows no \
         difference.
Driveline has the greatest goodput in none of 2 cells.
Furthest ahead of it is zenoh/tcp (stream · 1 MiB): 2.00 times Driveline's goodput (95 % 2.00 to \
         2.00); not arrived: 9.90 % of its samples, none of Driveline's.
Ahead of it also: zenoh/tcp (stream · 2 MiB; not arrived: 9.90 % of its samples, none of \
         Driveline's).
Not arrived, which neither percentiles nor goodput show: 50 of 505 by zenoh/tcp (stream · 1 MiB), \
         50 of 505 by zenoh/tcp (stream · 2 MiB).
";
    assert!(terminal.contains(answer), "{terminal}");
    // Streams have no values in the columns of latencies, and latencies none in the column of
    // goodput.
    for row in [
        "| stream · 2 MiB (goodput) | zenoh/tcp | 450 | 210 MB/s | | | 2.00 (2.00–2.00) | | | 5.00 \
         | 50 | 5 of 5 |",
        "| stream · 2 MiB (goodput) | Driveline | 500 | 105 MB/s | | | 1 | | | 5.00 | 0 | 5 of 5 |",
        "| 1 MiB (transport) | Driveline | 500 | | 20.0 | 20.0 | | 1 | 1 | 5.00 | 0 | 5 of 5 |",
    ] {
        assert!(markdown.contains(row), "{row}\n{markdown}");
    }
    assert!(
        page.contains("<h3>Latency and goodput</h3>")
            && page.contains("Ratios at a glance")
            && page.contains("Goodput at a glance")
    );
    let looks = [(false, 1280), (true, 1280), (false, 420)];
    for ((dark, width), rendered) in
        looks.into_iter().zip(open(&dir.path().join("a/report.html"), looks).into_iter().flatten())
    {
        assert_eq!(
            (&rendered.errors, &rendered.fetched, &rendered.empty, rendered.dark),
            (&vec![], &vec![], &vec![], dark),
            "{rendered:?}"
        );
        assert!(
            rendered.page_width <= rendered.width
                && rendered.scrolling.is_empty()
                && is_readable(&rendered),
            "{rendered:?}"
        );
        assert!(
            width == 420 || rendered.cut_across.is_empty(),
            "wider than the page: {:?}",
            rendered.cut_across
        );
        for view in [
            "Percentiles | stream · 1 MiB",
            "Deliveries | stream · 2 MiB",
            "Goodput by size | stream",
        ] {
            assert!(
                rendered.views.iter().any(|v| v == view),
                "{view} is missing in {:#?}",
                rendered.views
            );
        }
        assert!(!rendered.views.iter().any(|v| v.starts_with("By size")), "{:#?}", rendered.views);
    }
}

/// Makes an archive of Driveline and Zenoh. Both keep the rate of their sender to parts per million
/// in all rounds, unless `zenoh_ns` sets a larger difference.
fn paced(directory: &Path, zenoh_ns: u64) -> Archive {
    let cases = vec![
        stream(System::Driveline, "paced", 1_000_000, 0),
        stream(peer("zenoh/tcp"), "paced", 1_000_000, 1),
    ];
    let archive = Archive::create(directory, manifest(vec![experiment("X", 5, cases)], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        let between_ns = if c.system == System::Driveline { 20 * MS } else { zenoh_ns };
        (0..5).for_each(|round| {
            archive
                .add("X", c, &arrivals(c, round, &[between_ns], 0), &Observations::default())
                .unwrap()
        });
    }
    archive
}

#[test]
fn goodputs_that_differ_by_parts_per_million_are_equal_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    for (name, zenoh_ns, answer, class, verdict) in [
        (
            "near",
            20 * MS - 40,
            "which shows no difference of more than 0.5 %",
            "unsure",
            Verdict::NoDifferenceShown,
        ),
        (
            "further",
            20 * MS - 200_000,
            "Furthest ahead of it is zenoh/tcp: 1.01 times Driveline's goodput",
            "faster",
            Verdict::Faster,
        ),
    ] {
        let (a, b) = (
            paced(&dir.path().join(format!("{name} a")), 20 * MS),
            paced(&dir.path().join(name), zenoh_ns),
        );
        let args = |markdown| ReportArgs {
            directory: b.directory().into(),
            out: None,
            markdown,
            json: false,
        };
        let (terminal, markdown) = (report(&args(false)).unwrap(), report(&args(true)).unwrap());
        let page = std::fs::read_to_string(b.directory().join("report.html")).unwrap();
        for text in [&terminal, &markdown, &page] {
            assert!(text.contains("more than 0.5 % from 1"), "{text}");
        }
        assert!(terminal.contains(answer), "{terminal}");
        assert!(page.contains(&format!("<span class={class}>1.0")), "{name}");
        let rendered = archives(&a, &b).unwrap();
        let of = |system: &str| {
            rendered.rows.iter().find(|r| r.system == system && r.rank == "goodput").unwrap()
        };
        assert!(
            of("zenoh/tcp").ratio.unwrap().low > 1.0 && of("zenoh/tcp").p_corrected.unwrap() < 0.05
        );
        assert_eq!(
            (of("zenoh/tcp").verdict, of("driveline").verdict),
            (verdict, Verdict::NoDifferenceShown)
        );
        assert!(
            rendered.method.contains("less than 0.5 % apart count as equal")
                && rendered.method.contains("no goodput"),
            "{}",
            rendered.method
        );
    }
}

#[test]
fn a_stream_that_stalls_is_slower_than_before_although_its_median_is_less() {
    let dir = tempfile::tempdir().unwrap();
    let archive = |name: &str, between_ns: &[u64]| {
        let cases = vec![stream(System::Driveline, "stream", 1_000_000, 0)];
        let archive =
            Archive::create(&dir.path().join(name), manifest(vec![experiment("X", 5, cases)], 1))
                .unwrap();
        let c = &archive.manifest.experiments[0].cases[0];
        (0..5).for_each(|round| {
            archive
                .add("X", c, &arrivals(c, round, between_ns, 0), &Observations::default())
                .unwrap()
        });
        archive
    };
    let (steady, stalls) = (archive("a", &[20 * MS]), archive("b", &[MS, MS, MS, 157 * MS]));
    for (a, b, ratio, verdict) in
        [(&steady, &stalls, 0.5, Verdict::Slower), (&stalls, &steady, 2.0, Verdict::Faster)]
    {
        let rows = archives(a, b).unwrap().rows;
        assert_eq!(rows.iter().map(|r| r.rank).collect::<Vec<_>>(), ["goodput", "p99"]);
        assert_eq!(
            (rows[0].ratio.unwrap().estimate, rows[0].verdict, rows[0].a_ns),
            (ratio, verdict, None)
        );
        assert_eq!(rows[0].a_bytes_per_s.unwrap() / rows[0].b_bytes_per_s.unwrap(), 1.0 / ratio);
        assert_eq!(rows[1].verdict, verdict, "p99 of {ratio}");
    }
    let text =
        compare(&CompareArgs { a: dir.path().join("a"), b: dir.path().join("b"), json: false })
            .unwrap();
    let row: Vec<&str> = text
        .lines()
        .find(|l| l.trim_start().starts_with("driveline goodput"))
        .unwrap()
        .split("  ")
        .map(str::trim)
        .collect();
    let row: Vec<&str> = row.into_iter().filter(|w| !w.is_empty()).collect();
    assert_eq!(
        row,
        ["driveline goodput", "50.0 MB/s", "25.0 MB/s", "0.50 [0.50, 0.50]", "0.000", "SLOWER"],
        "{text}"
    );
}
