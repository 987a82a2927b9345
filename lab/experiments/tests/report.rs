// SPDX-License-Identifier: Apache-2.0
//! The report in a real browser, light and dark, wide and narrow.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod browser;
mod fixture;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use browser::{is_readable, open};
use driveline_bench::harness::{Payload, System};
use driveline_bench::observations::Observations;
use driveline_bench::stats::Random;
use driveline_lab::archive::{Archive, Case, Role};
use driveline_lab::{ReportArgs, report};
use fixture::{
    case, experiment, floors, latencies, link, manifest, observed, own_tool, peer, run, tool_run,
    watched, workload_case,
};
use std::path::Path;

/// Makes an archive with a bit of everything: peers, kinds of payloads, sizes, several subscribers,
/// observed processes, a workload, failures.
fn archive(directory: &Path) -> Archive {
    let systems =
        || [System::Driveline, peer("fastdds/shm"), peer("cyclonedds/udp"), peer("iceoryx2/ipc")];
    let mut cases = Vec::new();
    for (cell, size, subscribers, payload) in [
        ("64 B · untouched", 64, 1, Payload::Untouched),
        ("64 B · filled", 64, 1, Payload::Filled),
        ("1 MiB · untouched", 1 << 20, 1, Payload::Untouched),
        ("1 MiB · filled", 1 << 20, 1, Payload::Filled),
        ("to four", 1 << 20, 4, Payload::Untouched),
    ] {
        for system in systems() {
            cases.push(case(system, cell, cases.len(), vec![link(size, subscribers, payload)]));
        }
    }
    cases.extend(floors(cases.len()));
    // The first two peers of the first cell have their own latency tools; `add` sets the results of
    // the tools.
    cases.extend([own_tool(&cases[1], cases.len()), own_tool(&cases[2], cases.len() + 1)]);
    for c in cases.iter_mut().filter(|c| c.system == System::Driveline) {
        c.comparisons = vec![driveline_bench::Comparison {
            metric: c.figure,
            to: "floor".into(),
            of: c.figure,
        }];
    }
    let mut links = experiment("X1", 5, cases);
    links.scenario.published = driveline_lab::scenario::load("S1").unwrap().published;
    links.scenario.published[0].size = None;
    let graphs = experiment(
        "refsys",
        5,
        vec![workload_case(System::Driveline, 0), workload_case(peer("fastdds/shm"), 1)],
    );
    let mut archive = Archive::create(directory, manifest(vec![links, graphs], 1)).unwrap();
    let mut random = Random::new(5);
    for e in &archive.manifest.experiments {
        for c in &e.cases {
            for round in 0..e.rounds {
                add(&archive, &e.scenario.id, c, round, &mut random);
            }
        }
    }
    archive.finish("2020-01-01T00:10:00Z".into()).unwrap();
    archive
}

fn add(archive: &Archive, experiment: &str, c: &Case, round: u64, random: &mut Random) {
    if c.role == Role::OwnTool {
        // The tool of one peer reports half of the latency measured here, the other tool nearly the
        // same latency.
        let run =
            tool_run(round, if c.system.to_string() == "fastdds/shm" { 24_000 } else { 150_000 });
        return archive.add(experiment, c, &run, &Observations::default()).unwrap();
    }
    let median = match c.system.to_string().as_str() {
        "driveline" => 12_000.0,
        "futex" => 9_000.0,
        "fastdds/shm" => 48_000.0,
        "cyclonedds/udp" => 160_000.0 + c.links.first().map_or(0, |l| l.size) as f64,
        _ => 21_000.0,
    };
    // Some rows have enough samples for p99.9, so the table of latencies has its maximum width.
    let samples = if c.cell.starts_with("1 MiB") { 620 } else { 100 };
    let mut values = latencies(random, samples, median, 0.05);
    // One sample of one peer is more than a period late.
    if c.system.to_string() == "cyclonedds/udp" {
        values[50] = 25_000_000;
    }
    let mut run = run(c, round, &values);
    let observations = if c.links.is_empty() {
        let o = observed(random, if c.system == System::Driveline { 1.0 } else { 2.0 });
        run.counters = o.counters.clone();
        o
    } else if c.cell == "to four" {
        watched()
    } else {
        Observations::default()
    };
    if c.system.to_string() == "iceoryx2/ipc" && round == 0 {
        run.failure = Some("the publisher said: </script><b>no</b>".into());
        run.accounts.clear();
    }
    archive.add(experiment, c, &run, &observations).unwrap();
}

#[test]
fn a_browser_draws_every_view_in_light_and_dark_and_on_a_phone() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir.path().join("a"));
    report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    let page = archive.directory().join("report.html");
    let size = std::fs::metadata(&page).unwrap().len();
    assert!(size < 8_000_000, "the page has {size} bytes");
    let looks = [(false, 1280), (true, 1280), (false, 420)];
    for ((dark, width), rendered) in looks.into_iter().zip(open(&page, looks).into_iter().flatten())
    {
        assert!(rendered.errors.is_empty(), "{rendered:?}");
        assert!(rendered.fetched.is_empty(), "{rendered:?}");
        assert!(rendered.empty.is_empty(), "nothing is drawn in {:?}", rendered.empty);
        assert!(rendered.words_cut.is_empty(), "{width}: cut off are {:#?}", rendered.words_cut);
        assert_eq!((rendered.dark, rendered.sections), (dark, 7));
        assert!(
            rendered.page_width <= rendered.width,
            "the page is wider than the window: {} > {}",
            rendered.page_width,
            rendered.width
        );
        assert!(
            rendered.width <= f64::from(width) && rendered.scrolling.is_empty(),
            "{rendered:?}"
        );
        assert!((rendered.cut > 0 || width > 420) && rendered.cut_unseen == 0, "{rendered:?}");
        assert!(
            width == 420 || rendered.cut_across.is_empty(),
            "wider than the page: {:?}",
            rendered.cut_across
        );
        // The overview has five rows of names, an axis and a legend. A plot of curves would be
        // higher.
        assert!((150.0..400.0).contains(&rendered.overview_height), "{rendered:?}");
        // The overview and the two explorers are three plots, each drawn as at least two SVG
        // elements.
        assert!(rendered.plots >= 3 * 2, "{rendered:?}");
        for view in [
            "Percentiles | 64 B · filled",
            "Histogram | to four",
            "ECDF | 1 MiB · untouched",
            "Per subscriber | to four",
            "Ratios | to four",
            "Layers | 1 MiB · filled",
            "Deliveries | 64 B · untouched",
            "Latency over time | to four",
            "CPU over time | to four",
            "Memory over time | to four",
            "Drops over time | to four",
            "By size | filled",
            "Idle, communication, computation | reference",
            "Observed | reference",
        ] {
            assert!(
                rendered.views.iter().any(|v| v == view),
                "{view} is missing in {:#?}",
                rendered.views
            );
        }
        assert!(is_readable(&rendered), "{rendered:?}");
    }
}

#[test]
fn what_a_page_or_its_browser_complains_of_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let complaints = |name: &str, body: &str| {
        let page = dir.path().join(format!("{name}.html"));
        let text = format!(
            "<!doctype html>\n<html>\n<head>\n<title>x</title>\n</head>\n<body>\n{body}</body>\n\
             </html>\n"
        );
        std::fs::write(&page, text).unwrap();
        open(&page, [(false, 800)]).map(|[rendered]| rendered.errors)
    };
    let Some(quiet) = complaints("quiet", "<p>Nothing.</p>\n") else { return };
    assert_eq!(quiet, [] as [String; 0]);
    for (name, body, word) in [
        ("thrown", "<script>throw new Error('thrown away')</script>\n", "thrown away"),
        ("said", "<script>console.error('said aloud')</script>\n", "said aloud"),
        // The page is not notified of this error; only the browser reports it.
        ("drawn", "<svg><path d='M nowhere'/></svg>\n", "attribute d"),
    ] {
        let rendered = complaints(name, body).unwrap();
        assert!(rendered.iter().any(|e| e.contains(word)), "{rendered:?}");
    }
}

#[test]
fn the_page_says_what_a_sceptic_asks() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir.path().join("a"));
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    let (_, body) = page.split_once("<body>").unwrap();
    for what in [
        "Driveline has the least median latency in all 5 cells",
        "loan-only: payload untouched",
        "filled and read",
        // Both experiments leave this part out: it is listed once, and each experiment has a link
        // to it.
        "<section id=\"left-out\"><h2>Left out</h2>",
        "<th scope=row>ecal</th><td>not installed: apt install &lt;ecal&gt; (in X1; refsys)</td>",
        "the publisher said: &lt;/script&gt;&lt;b&gt;no&lt;/b&gt;",
        "not installed: apt install &lt;ecal&gt;",
        "SCHED_FIFO was refused",
        "A/A control",
        "A run counts unless it says why not.",
        "X &lt;&amp;&gt; &quot;quoted&quot;",
        "64 km/h",
        "Published, and measured here",
        "hot path drops",
        "random order",
        "differs by more than 20 %: the row is invalid",
        "theirperf 1",
    ] {
        assert!(body.contains(what), "the page lacks '{what}'");
    }
    assert!(!body.contains("<b>no</b>"));
    assert_eq!(body.matches("apt install &lt;ecal&gt;").count(), 1);
    assert_eq!(
        body.matches("<a href=\"#left-out\">").count(),
        3,
        "from the contents and from each experiment"
    );
    // Driveline's row shows no ratio to itself, and no table has a row of empty heads.
    let own = body.split("<th scope=row>Driveline").nth(1).unwrap().split("</tr>").next().unwrap();
    assert!(own.contains("<td></td>") && !own.contains("<td>1</td>"), "{own}");
    assert!(
        !body.contains("<td>1.00×</td></tr>"),
        "a published figure compared with Driveline itself"
    );
    assert!(!body.contains("<th scope=col></th><th scope=col></th>"), "an empty head");
    for what in [
        "iceoryx2/ipc",
        "INVALID  64 B · untouched · iceoryx2/ipc in round 1",
        "fastdds/shm (INVALID)",
        "A/A control",
        "floor: no middleware",
        "bare futex · floor",
        "planner, deviation from the period",
        "counted in each run, reference · Driveline:\n    hot path drops 2",
    ] {
        assert!(text.contains(what), "the summary lacks '{what}':\n{text}");
    }
    let rendered: Vec<_> = text.lines().filter(|line| line.starts_with("left out  ")).collect();
    assert_eq!(rendered, ["left out  ecal: not installed: apt install <ecal> (in X1; refsys)"]);
}

#[test]
fn what_own_tools_say_is_published_with_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir.path().join("a"));
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: true,
        json: false,
    })
    .unwrap();
    let (_, list) = text.split_once("Compared with the middleware's own tools:\n\n").unwrap();
    let items: Vec<&str> = list.lines().take_while(|l| !l.is_empty()).collect();
    let expected = [
        (
            "- INVALID 64 B · untouched · fastdds/shm: own tool theirperf: 24.0 µs, ours 4",
            ": differs by more than 20 %",
        ),
        (
            "- 64 B · untouched · cyclonedds/udp: own tool theirperf: 150 µs, ours 1",
            ": agrees within 20 %",
        ),
    ];
    assert_eq!(items.len(), expected.len(), "{items:?}");
    for (item, (begins, ends)) in items.iter().zip(expected) {
        assert!(item.starts_with(begins) && item.ends_with(ends), "{item}");
    }
    // An experiment without latency tools has no list of their results.
    assert_eq!(text.matches("own tools").count(), 1, "{text}");
}

#[test]
fn csv_and_summary_say_what_the_archive_says() {
    let dir = tempfile::tempdir().unwrap();
    let archive = archive(&dir.path().join("a"));
    let json = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: true,
    })
    .unwrap();
    let summary: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        summary,
        serde_json::from_str::<serde_json::Value>(
            &std::fs::read_to_string(archive.directory().join("summary.json")).unwrap()
        )
        .unwrap()
    );
    assert_eq!(
        (&summary["complete"], &summary["planned"], &summary["made"]),
        (&true.into(), &130.into(), &130.into())
    );
    // One of five rounds of one peer is invalid, in five cells.
    assert_eq!(summary["valid"], 125);
    let cases = summary["experiments"][0]["cases"].as_array().unwrap();
    let of = |id: &str| cases.iter().find(|c| c["id"] == id).unwrap_or_else(|| panic!("no {id}"));
    let dds = of("64 B · untouched · cyclonedds/udp");
    assert_eq!(
        (&dds["totals"]["late"], &dds["totals"]["sent"], &dds["totals"]["received"]),
        (&5.into(), &500.into(), &500.into())
    );
    assert_eq!(dds["figures"]["transport"]["max"], 25_000_000);
    assert_eq!(dds["totals"]["cpu_ns_per_sample"], 5_000.0);
    let four = of("to four · driveline");
    assert_eq!(
        (&four["totals"]["received"], &four["totals"]["cpu_ns_per_sample"]),
        (&2000.into(), &8_000.0.into())
    );
    // Each subscriber takes a tenth longer than the previous one, so the last one is always last.
    let last: Vec<_> = four["subscribers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["last_share"].as_f64().unwrap())
        .collect();
    assert_eq!(last, [0.0, 0.0, 0.0, 1.0]);
    assert_eq!(of("64 B · untouched · iceoryx2/ipc")["figures"]["transport"]["n"], 400);
    // Filling takes 9 µs for all systems, so the ratio of filled payloads is nearer to 1; both are
    // shown.
    let ratio = |id: &str, metric: &str| {
        let ratios = of(id)["ratios"].as_array().unwrap().clone();
        let r = ratios
            .into_iter()
            .find(|r| r["of"]["metric"] == metric)
            .unwrap_or_else(|| panic!("{id} has no ratio of {metric}"));
        r["p50"]["estimate"].as_f64().unwrap()
    };
    let [plain, filled] =
        ["transport", "fill_and_transport"].map(|m| ratio("64 B · filled · fastdds/shm", m));
    assert!((3.7..4.3).contains(&plain) && (2.5..3.0).contains(&filled), "{plain} {filled}");
    // For a workload, the latency of the whole path is compared.
    let graphs = summary["experiments"][1]["cases"].as_array().unwrap();
    let whole = &graphs[1]["ratios"][0];
    assert_eq!(
        (&whole["of"]["latency"], &whole["to"]),
        (&"hot path".into(), &"reference · driveline".into())
    );
    assert!((1.9..2.1).contains(&whole["p50"]["estimate"].as_f64().unwrap()), "{whole}");
    // One tool contradicts its row, the other does not. Rows without a tool have no verdict.
    let agrees = |id: &str| of(id)["own_tool"]["concord"].clone();
    assert_eq!(
        ["fastdds/shm", "cyclonedds/udp", "iceoryx2/ipc"]
            .map(|s| agrees(&format!("64 B · untouched · {s}"))),
        ["differs".into(), "agrees".into(), serde_json::Value::Null]
    );
    // A contradicted row has no ratios.
    let ratios = |id: &str| of(id)["ratios"].as_array().unwrap().len();
    assert_eq!(
        [ratios("64 B · untouched · fastdds/shm"), ratios("64 B · untouched · cyclonedds/udp")],
        [0, 1]
    );
    let csv = std::fs::read_to_string(archive.directory().join("results.csv")).unwrap();
    let columns = csv.lines().next().unwrap().split(',').count();
    for line in csv.lines() {
        // No cell of this archive has a comma.
        assert_eq!(line.split(',').count(), columns, "{line}");
    }
    assert!(csv.contains(
        "X1,64 B · untouched · cyclonedds/udp,measured,64 B · \
         untouched,cyclonedds/udp,late,all,count,,,,,,,,,,,,,,,5"
    ));
    let left_out = format!(
        "X1,ecal,left_out,,,left_out,not installed: apt install <ecal>,,{}",
        ",".repeat(14)
    );
    assert!(csv.lines().any(|l| l == left_out), "{csv}");
    assert!(
        csv.lines().any(|l| l.starts_with("refsys,") && l.contains(",latency,hot path,ns,2000,"))
    );
}

#[test]
fn a_measurement_that_was_interrupted_has_a_report_that_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let c = case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]);
    let archive = Archive::create(
        &dir.path().join("a"),
        manifest(vec![experiment("X", 3, vec![c.clone()])], 1),
    )
    .unwrap();
    let rendered = || {
        report(&ReportArgs {
            directory: archive.directory().into(),
            out: None,
            markdown: false,
            json: false,
        })
        .unwrap()
    };
    assert!(rendered().contains("PARTIAL: 0 of 3 runs"), "{}", rendered());
    archive.add("X", &c, &run(&c, 0, &[5_000; 100]), &Observations::default()).unwrap();
    assert!(rendered().contains("PARTIAL: 1 of 3 runs") && rendered().contains("--resume"));
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    assert!(page.contains("PARTIAL: 1 of 3 runs"));
}

#[test]
fn lost_samples_are_reported_next_to_the_medians() {
    let dir = tempfile::tempdir().unwrap();
    let link = || vec![link(1024, 1, Payload::Untouched)];
    let mut cases = vec![
        case(System::Driveline, "cell", 0, link()),
        case(peer("fastdds/shm"), "cell", 1, link()),
    ];
    // This case is planned, but none of its runs was started.
    cases.push(case(peer("zenoh/shm"), "cell", 2, link()));
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 1, cases)], 1))
            .unwrap();
    let mut random = Random::new(1);
    for (i, c) in archive.manifest.experiments[0].cases.iter().take(2).enumerate() {
        let mut run = run(c, 0, &latencies(&mut random, 100, 20_000.0, 0.0));
        if i == 0 {
            let account = &mut run.accounts[0];
            let lost = account.stamps.pop().unwrap();
            account.stamps.push(driveline_bench::Sample {
                received: None,
                transport_ns: 0,
                fill_and_transport_ns: 0,
                ..lost
            });
            account.received[0] -= 1;
            account.missed[0] += 1;
        }
        archive.add("X", c, &run, &Observations::default()).unwrap();
    }
    let text = report(&ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown: false,
        json: false,
    })
    .unwrap();
    assert!(
        text.contains("Not arrived, which no percentile shows: 1 of 100 by Driveline (cell)."),
        "{text}"
    );
    assert!(text.contains("not run yet") && !text.contains("no valid run"), "{text}");
    assert!(text.contains("2 of 3 runs were made; `driveline bench run --resume "), "{text}");
}

#[test]
fn what_was_not_sent_is_counted_at_every_subscriber_and_without_the_warm_up() {
    let dir = tempfile::tempdir().unwrap();
    let cases =
        vec![case(System::Driveline, "to four", 0, vec![link(1024, 4, Payload::Untouched)])];
    let archive =
        Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 1, cases)], 1))
            .unwrap();
    let c = &archive.manifest.experiments[0].cases[0];
    let mut run = run(c, 0, &[20_000; 90]);
    // Ten of a hundred samples were not sent, nor were seven of the warm-up. All other samples
    // arrived.
    run.accounts[0].scheduled = 100;
    run.accounts[0].not_sent.insert("no memory".into(), 17);
    archive.add("X", c, &run, &Observations::default()).unwrap();
    let rendered = |json| {
        report(&ReportArgs {
            directory: archive.directory().into(),
            out: None,
            markdown: false,
            json,
        })
        .unwrap()
    };
    let text = rendered(false);
    assert!(
        text.contains("Not arrived, which no percentile shows: 40 of 400 by Driveline (to four)."),
        "{text}"
    );
    let summary: serde_json::Value = serde_json::from_str(&rendered(true)).unwrap();
    let totals = &summary["experiments"][0]["cases"][0]["totals"];
    assert_eq!(
        ["scheduled", "sent", "due", "deliveries", "received"]
            .map(|key| totals[key].as_u64().unwrap()),
        [100, 90, 400, 360, 360]
    );
}

#[test]
fn cells_in_which_driveline_has_no_figure_are_counted() {
    // Returns the answer for four cells, in which the cases that `fails` selects have no valid run.
    let answers = |fails: &dyn Fn(&Case) -> bool| {
        let dir = tempfile::tempdir().unwrap();
        let mut cases = Vec::new();
        for cell in ["imu", "radar", "lidar", "camera"] {
            for system in [System::Driveline, peer("fastdds/shm"), peer("zenoh/tcp")] {
                cases.push(case(system, cell, cases.len(), vec![link(64, 1, Payload::Untouched)]));
            }
        }
        let archive =
            Archive::create(&dir.path().join("a"), manifest(vec![experiment("X", 5, cases)], 1))
                .unwrap();
        for (c, round) in archive.manifest.experiments[0]
            .cases
            .iter()
            .flat_map(|c| (0..5).map(move |round| (c, round)))
        {
            let mut run =
                run(c, round, &[if c.system == System::Driveline { 20_000 } else { 30_000 }; 100]);
            run.invalid.extend(fails(c).then(|| "it was cold".into()));
            archive.add("X", c, &run, &Observations::default()).unwrap();
        }
        let text = report(&ReportArgs {
            directory: archive.directory().into(),
            out: None,
            markdown: false,
            json: false,
        })
        .unwrap();
        text.lines()
            .filter(|l| l.contains("least median") || l.contains("no figure"))
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    let is_own = |c: &Case| c.system == System::Driveline;
    assert_eq!(answers(&|_| false), ["Driveline has the least median latency in all 4 cells."]);
    assert_eq!(
        answers(&|c| is_own(c) && c.cell == "lidar"),
        [
            "Driveline has the least median latency in 3 of the 3 cells in which it is compared.",
            "In 1 of 4 cells Driveline has no figure, and others have (lidar)."
        ]
    );
    assert_eq!(
        answers(&|c| is_own(c) && c.cell != "imu"),
        [
            "Driveline has the least median latency in the one cell in which it is compared.",
            "In 3 of 4 cells Driveline has no figure, and others have (radar; lidar; camera)."
        ]
    );
    assert_eq!(
        answers(&is_own),
        ["In 4 of 4 cells Driveline has no figure, and others have (imu; radar; lidar; and 1 \
             more)."]
    );
    // In a cell without a figure of another system, Driveline has a figure, but no comparison.
    assert_eq!(
        answers(&|c| !is_own(c) && c.cell == "lidar"),
        ["Driveline has the least median latency in 3 of the 3 cells in which it is compared."]
    );
    // In the cell `lidar`, no system has a figure.
    assert_eq!(
        answers(&|c| c.cell == "lidar"),
        ["Driveline has the least median latency in 3 of the 3 cells in which it is compared."]
    );
}
