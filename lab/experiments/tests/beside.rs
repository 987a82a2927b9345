// SPDX-License-Identifier: Apache-2.0
//! Tables after the table of latencies, on the terminal, on the page and as Markdown: spreads,
//! published figures, lateness of the sender, drops over time, missing percentiles, parts of
//! latencies.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop at a surprise")]

mod fixture;

use driveline_bench::Metric;
use driveline_bench::harness::{Pace, Payload, Reach, ReceivedRow, System, Take};
use driveline_bench::observations::{Observations, Point, Quantity};
use driveline_lab::archive::{Archive, Case, Experiment, Link, Run};
use driveline_lab::{ReportArgs, report, scenario};
use fixture::{case, chain_case, experiment, link, manifest, peer, run, workload_case};

/// Renders an experiment: on the terminal, on the page, as Markdown.
fn rendered(e: Experiment, make: impl Fn(&Case, u64) -> (Run, Observations)) -> [String; 3] {
    let dir = tempfile::tempdir().unwrap();
    let rounds = e.rounds;
    let archive = Archive::create(&dir.path().join("a"), manifest(vec![e], 1)).unwrap();
    for c in &archive.manifest.experiments[0].cases {
        for round in 0..rounds {
            let (run, observations) = make(c, round);
            archive.add("X", c, &run, &observations).unwrap();
        }
    }
    let args = |markdown| ReportArgs {
        directory: archive.directory().into(),
        out: None,
        markdown,
        json: false,
    };
    let terminal = report(&args(false)).unwrap();
    let page = std::fs::read_to_string(archive.directory().join("report.html")).unwrap();
    [terminal, page.split_once("<body>").unwrap().1.to_owned(), report(&args(true)).unwrap()]
}

fn only(run: Run) -> (Run, Observations) {
    (run, Observations::default())
}

/// Experiment F with its published figures. Latencies are 10 µs above and below 20 µs for
/// Driveline, and 10 µs above and below 200 µs for FastCycle.
fn jitter() -> [String; 3] {
    let f = scenario::load("F").unwrap();
    let mut cases = Vec::new();
    for (size, name) in [(32 << 10, "32 KiB"), (1 << 20, "1 MiB")] {
        for system in [System::Driveline, peer("as_published/fastcycle")] {
            let cell = format!("latency · {name} · process · untouched");
            let link = Link { reach: Reach::Process, ..link(size, 1, Payload::Untouched) };
            cases.push(Case {
                scenario_case: "latency".into(),
                ..case(system, &cell, cases.len(), vec![link])
            });
        }
    }
    let mut e = experiment("X", 5, cases);
    (e.scenario.answer, e.scenario.published) = (f.answer, f.published);
    rendered(e, |c, round| {
        let middle = if c.system == System::Driveline { 20_000 } else { 200_000 };
        only(run(c, round, &[middle - 10_000, middle + 10_000].repeat(50)))
    })
}

/// Driveline's gateways between hosts are separate processes, and no account has their time.
#[test]
fn processor_time_between_hosts_says_that_gateways_are_not_in_it() {
    let between = |reach| {
        let cell = if reach == Reach::Network { "hosts" } else { "processes" };
        let one = move |(i, system)| {
            let number = i + if reach == Reach::Network { 0 } else { 2 };
            case(system, cell, number, vec![Link { reach, ..link(64, 1, Payload::Untouched) }])
        };
        [System::Driveline, peer("zenoh/tcp")].into_iter().enumerate().map(one)
    };
    let cases = between(Reach::Network).chain(between(Reach::Host)).collect();
    let [terminal, page, markdown] =
        rendered(experiment("X", 1, cases), |c, round| only(run(c, round, &[20_000; 100])));
    let of = |text: &str, cell: &str, system: &str| {
        let (_, rows) = text.split_once(cell).unwrap();
        rows.split(system).nth(1).unwrap().split(['\n', '\r']).next().unwrap().to_owned()
    };
    for (cell, system, has) in [
        ("hosts", "Driveline", true),
        ("hosts", "zenoh/tcp", false),
        ("processes", "Driveline", false),
        ("processes", "zenoh/tcp", false),
    ] {
        let row = of(&terminal, &format!("{cell} (transport)"), &format!("  {system} "));
        assert!(
            row.contains("5.00 µs") && row.contains("5.00 µs + gateways") == has,
            "{cell}, {system}: {terminal}"
        );
        let row =
            markdown.lines().find(|l| l.starts_with(&format!("| {cell} | {system} |"))).unwrap();
        assert!(
            row.contains("| 5.00") && row.contains("| 5.00 + gateways |") == has,
            "{cell}, {system}: {markdown}"
        );
    }
    assert_eq!(
        (
            page.matches("<td>5.00 µs + gateways</td>").count(),
            page.matches("<td>5.00 µs</td>").count()
        ),
        (1, 3),
        "on the page"
    );
    assert_eq!(
        (terminal.matches("+ gateways").count(), markdown.matches("+ gateways").count()),
        (1, 1)
    );
}

#[test]
fn a_question_about_jitter_is_answered_with_mean_and_deviation() {
    let [terminal, page, markdown] = jitter();
    // The deviation of 500 samples, with n − 1 in the divisor, is 10.01 µs.
    let about = "Mean ± standard deviation of transport";
    let own = "Driveline 20.0 ± 10.0 µs at 32 KiB, 20.0 ± 10.0 µs at 1 MiB";
    let other = "as_published/fastcycle 200 ± 10.0 µs at 32 KiB, 200 ± 10.0 µs at 1 MiB";
    assert!(terminal.contains(&format!("{about}:\n  {own}\n  {other}\n")), "{terminal}");
    assert!(
        page.contains(&format!("<p>{about}:</p><p class=part>{own}</p><p class=part>")),
        "no answer on the page"
    );
    assert!(markdown.contains(&format!("{about}:\n\n- {own}\n")), "{markdown}");
}

#[test]
fn published_spreads_stand_next_to_measured_ones_everywhere() {
    let [terminal, page, markdown] = jitter();
    let (_, table) = page.split_once("Published, and measured here").unwrap();
    let (table, _) = table.split_once("</table>").unwrap();
    let (_, group) = table
        .split_once("<span>latency · 32 KiB · threads</span>")
        .unwrap_or_else(|| panic!("{table}"));
    let rows: Vec<&str> = group.split("class=group").next().unwrap().split("</tr>").collect();
    for (row, name, spread) in [
        (rows[1], "FastCycle (published)", "159 ± 164 µs"),
        (rows[2], "Driveline", "20.0 ± 10.0 µs"),
        (rows[3], "as_published/fastcycle", "200 ± 10.0 µs"),
        (rows[4], "ROS 2 intra (published)", "146 ± 20.0 µs"),
    ] {
        assert!(row.contains(&format!("<th scope=row>{name}</th><td>{spread}</td>")), "{row}");
    }
    let lines: Vec<&str> = terminal
        .lines()
        .skip_while(|l| l.trim() != "latency · 32 KiB · threads")
        .skip(1)
        .take(4)
        .map(str::trim)
        .collect();
    assert!(
        lines[0].starts_with("FastCycle (published)") && lines[0].contains("159 ± 164 µs"),
        "{terminal}"
    );
    assert!(
        lines[1].starts_with("Driveline ") && lines[1].contains("20.0 ± 10.0 µs"),
        "{terminal}"
    );
    assert!(
        lines[2].starts_with("as_published/fastcycle ") && lines[2].contains("10.0×"),
        "{terminal}"
    );
    // The terminal counts the figures without a counterpart; the page and Markdown list them.
    assert!(
        !lines[3].contains("ROS 2")
            && terminal.contains("58 published figures without a counterpart here"),
        "{terminal}"
    );
    assert!(
        markdown.contains("| latency · 32 KiB · threads | FastCycle (published) | 159 ± 164 µs |"),
        "{markdown}"
    );
    assert!(
        markdown
            .contains("| latency · 32 KiB · threads | ROS 2 intra (published) | 146 ± 20.0 µs |"),
        "{markdown}"
    );
    assert!(markdown.contains("| fastdds/udp was not measured |"), "{markdown}");
}

#[test]
fn every_published_percentile_stands_next_to_the_measured_one() {
    let mut e = experiment(
        "X",
        5,
        vec![case(System::Driveline, "1→1", 0, vec![link(34_560, 1, Payload::Untouched)])],
    );
    e.scenario.published = scenario::load("S1").unwrap().published;
    let [terminal, page, markdown] = rendered(e, |c, round| only(run(c, round, &[20_000; 100])));
    let cells = ["226 µs", "226 µs", "298 µs", "382 µs", "880 µs"];
    let own = ["20.0 µs ± 0 ns", "20.0 µs", "20.0 µs", "20.0 µs", "20.0 µs"];
    for text in [&terminal, &markdown] {
        let line = |l: &str| {
            l.split(if l.starts_with('|') { "|" } else { "  " })
                .map(|c| c.trim().to_owned())
                .filter(|c| !c.is_empty())
                .collect()
        };
        let lines: Vec<Vec<String>> = text.lines().map(line).collect();
        let has =
            |cells: &[String]| lines.iter().any(|l| l.windows(cells.len()).any(|w| w == cells));
        assert!(has(&cells.map(str::to_owned)) && has(&own.map(str::to_owned)), "{text}");
        assert!(has(&["mean ± sd", "p50", "p95", "p99", "max"].map(str::to_owned)), "{text}");
    }
    let row = |cells: &[&str]| cells.iter().map(|c| format!("<td>{c}</td>")).collect::<String>();
    assert!(page.contains(&row(&cells)) && page.contains(&row(&own)), "not on the page");
}

#[test]
fn a_late_sender_shows_where_times_count_from_the_due_time() {
    let cases: Vec<Case> = [System::Driveline, peer("fastdds/shm")]
        .into_iter()
        .enumerate()
        .map(|(i, system)| case(system, "camera", i, vec![link(64, 1, Payload::Untouched)]))
        .collect();
    // The peer's sender is 5 ms late in the second half of the run, so all later stamps are 5 ms
    // late too.
    let late = |c: &Case, round: u64| {
        let mut run = run(c, round, &[20_000; 100]);
        for s in
            run.accounts[0].stamps.iter_mut().skip(50).filter(|_| c.system != System::Driveline)
        {
            for ns in [&mut s.sent.before_fill, &mut s.sent.before_publish, &mut s.sent.returned] {
                *ns += 5_000_000;
            }
            let r = s.received.as_mut().unwrap();
            (r.woken, r.in_hand) = (r.woken + 5_000_000, r.in_hand + 5_000_000);
        }
        only(run)
    };
    let [_, page, markdown] = rendered(experiment("X", 5, cases.clone()), late);
    let row = |of: &str| {
        markdown
            .lines()
            .find(|l| l.starts_with("| camera |") && l.contains(of) && l.contains("5.03 ms"))
            .map(str::to_owned)
    };
    // A sample is published 10 µs after it is due, and received 20 µs later.
    assert_eq!(
        row("fastdds/shm").as_deref(),
        Some("| camera | fastdds/shm | 500 | 20.0 µs | 20.0 µs | 30.0 µs | 5.03 ms |"),
        "{markdown}"
    );
    assert!(
        markdown.contains("| camera | Driveline | 500 | 20.0 µs | 20.0 µs | 30.0 µs | 30.0 µs |"),
        "{markdown}"
    );
    let (_, table) = page.split_once("From when samples were due").unwrap();
    assert!(table.split("</table>").next().unwrap().contains("<td>5.03 ms</td>"), "{table}");
    assert!(page.contains("\"title\":\"Since due\""), "no view");
    // A ping-pong has no due times.
    let ping_pong = |c: Case| Case {
        links: c.links.into_iter().map(|l| Link { pace: Pace::PingPong, ..l }).collect(),
        ..c
    };
    let [_, page, markdown] =
        rendered(experiment("X", 5, cases.into_iter().map(ping_pong).collect()), late);
    assert!(
        !markdown.contains("since due")
            && !page.contains("From when samples were due")
            && !page.contains("\"Since due\""),
        "{markdown}"
    );
}

#[test]
fn each_of_several_links_reports_its_lateness_since_the_due_time() {
    let links = vec![
        link(64, 1, Payload::Untouched),
        Link { topic: "other".into(), ..link(64, 1, Payload::Untouched) },
    ];
    let [_, page, _] =
        rendered(experiment("X", 5, vec![case(System::Driveline, "car", 0, links)]), |c, round| {
            only(run(c, round, &[20_000; 100]))
        });
    let (_, table) = page.split_once("Links one by one").unwrap();
    let table = table.split("</table>").next().unwrap();
    assert!(
        table.contains("<th scope=col>p99 since due</th>") && table.contains("<td>30.0 µs</td>"),
        "{table}"
    );
}

/// Returns the lines of a plot of drops over time, by name: the number in each stretch.
fn drops(page: &str) -> Vec<(String, Vec<f64>)> {
    let explorers = page
        .split("<script type=application/json>")
        .skip(1)
        .map(|s| s.split("</script>").next().unwrap());
    let views: Vec<serde_json::Value> =
        explorers.map(|s| serde_json::from_str(&s.replace("\\u003c", "<")).unwrap()).collect();
    let all =
        views.iter().filter_map(|v| v["views"].as_array()).flatten().filter(|v| v["id"] == "drops");
    let traces = all
        .flat_map(|v| v["plots"].as_array().unwrap())
        .flat_map(|p| p["plot"]["data"].as_array().unwrap());
    let numbers = |t: &serde_json::Value| {
        t["y"].as_array().unwrap().iter().map(|y| y.as_f64().unwrap()).collect()
    };
    traces.map(|t| (t["name"].as_str().unwrap().to_owned(), numbers(t))).collect()
}

#[test]
fn drops_of_a_link_are_reported_over_time() {
    let cases = vec![
        case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)]),
        case(peer("fastdds/shm"), "cell", 1, vec![link(64, 1, Payload::Untouched)]),
    ];
    let make = |dropping: bool| {
        move |c: &Case, round: u64| {
            let mut run = run(c, round, &[20_000; 100]);
            if dropping && c.system != System::Driveline {
                let a = &mut run.accounts[0];
                // Five samples in a row are lost. Three in a row and the last two are never sent.
                a.stamps[20..25].iter_mut().for_each(|s| (s.received, s.transport_ns) = (None, 0));
                a.stamps.truncate(98);
                a.stamps.drain(70..73);
                (a.sent, a.received[0], a.missed[0]) = (95, 90, 5);
                a.not_sent.insert("no memory".into(), 5);
            }
            only(run)
        }
    };
    let [_, page, _] = rendered(experiment("X", 2, cases.clone()), make(true));
    let lines = drops(&page);
    let line = |name: &str| {
        lines
            .iter()
            .find(|(n, _)| n == name)
            .unwrap_or_else(|| panic!("no {name} in {lines:?}"))
            .1
            .clone()
    };
    let lost = line("fastdds/shm · lost");
    // Each lost sample is in one stretch of the run. The lost samples are at about a fifth of the
    // run.
    assert_eq!(lost.iter().sum::<f64>(), 5.0);
    let at =
        |values: &[f64]| values.iter().position(|n| *n > 0.0).unwrap() as f64 / values.len() as f64;
    assert!((0.15..0.25).contains(&at(&lost)), "{lost:?}");
    let not_sent = line("fastdds/shm · not sent");
    assert_eq!((not_sent.iter().sum::<f64>(), not_sent.last()), (5.0, Some(&2.0)), "{not_sent:?}");
    assert!((0.65..0.75).contains(&at(&not_sent)), "{not_sent:?}");
    // The line of another system stays at zero; without any drops, there is no such plot.
    assert_eq!(line("Driveline · lost").iter().sum::<f64>(), 0.0);
    let [_, page, _] = rendered(experiment("X", 2, cases), make(false));
    assert_eq!(drops(&page), []);
}

#[test]
fn drops_of_a_chain_are_reported_over_time() {
    let cases = vec![chain_case(System::Driveline, "every edge", 0, false)];
    let [_, page, _] = rendered(experiment("X", 1, cases), |c, round| {
        let mut o = Observations::default();
        let points = |come: fn(&u64) -> bool| {
            (0..100u64)
                .filter(come)
                .map(|i| Point { time_ns: 1_000_000_000 + i * 100_000_000, value: 1000 })
                .collect::<Vec<_>>()
        };
        o.put("video", Quantity::Computation, points(|_| true));
        o.put("detector", Quantity::Communication, points(|i| *i != 50));
        o.put("end to end", Quantity::Latency, points(|i| *i != 50));
        (run(c, round, &[]), o)
    });
    let lines = drops(&page);
    let [(name, values)] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((name.as_str(), values.iter().sum::<f64>()), ("Driveline · lost", 1.0));
    let at = values.iter().position(|n| *n > 0.0).unwrap() as f64 / values.len() as f64;
    assert!((0.45..0.55).contains(&at), "{values:?}");
}

#[test]
fn who_carries_a_whole_vehicle_is_watched() {
    assert_eq!(
        scenario::load("S6").unwrap().watch_every_ms,
        scenario::load("S4").unwrap().watch_every_ms
    );
}

#[test]
fn percentiles_without_enough_samples_are_named() {
    let one = || vec![case(System::Driveline, "cell", 0, vec![link(64, 1, Payload::Untouched)])];
    let rendered = |rounds: u64, n: usize| {
        rendered(experiment("X", rounds, one()), move |c, round| {
            only(run(c, round, &vec![20_000; n]))
        })
    };
    for (n, line) in [
        (10, "p95, p99, p99.9: n too small (needs ≥ 60, ≥ 300, ≥ 3 000)"),
        (100, "p99, p99.9: n too small (needs ≥ 300, ≥ 3 000)"),
        (400, "p99.9: n too small (needs ≥ 3 000)"),
    ] {
        for text in rendered(1, n) {
            assert_eq!(text.matches(line).count(), 1, "{n} samples, {line}: {text}");
            assert_eq!(text.matches("n too small (needs").count(), 1, "{text}");
        }
    }
    for text in rendered(1, 3000) {
        assert!(!text.contains("n too small (needs"), "{text}");
    }
}

/// Renders a workload whose path has parts, with observations of its processes.
fn reference() -> [String; 3] {
    rendered(experiment("X", 2, vec![workload_case(System::Driveline, 0)]), |c, round| {
        let mut o = Observations::default();
        let mut put = |subject: &str, quantity, value: u64| {
            o.put(
                subject,
                quantity,
                (0..151).map(|i| Point { time_ns: 1_000_000_000 + i * 100_000_000, value }),
            );
        };
        for (quantity, ns) in [
            (Quantity::Latency, 90_000_000),
            (Quantity::Idle, 40_000_000),
            (Quantity::Communication, 1_000_000),
            (Quantity::Computation, 49_000_000),
        ] {
            put("hot path", quantity, ns);
        }
        put("planner", Quantity::PeriodDeviation, 2_000_000);
        put("hot path", Quantity::Drops, 1);
        // Two processes that use half a processor and one and a half.
        put("front", Quantity::Cpu, 50_000_000);
        put("rear", Quantity::Cpu, 150_000_000);
        put("front", Quantity::ResidentMemory, 10 << 20);
        put("rear", Quantity::ResidentMemory, 20 << 20);
        (run(c, round, &[]), o)
    })
}

#[test]
fn idle_communication_and_computation_stand_in_every_rendering() {
    let [terminal, _, markdown] = reference();
    let line = terminal
        .lines()
        .find(|l| l.contains("Driveline · hot path"))
        .unwrap_or_else(|| panic!("{terminal}"));
    let cells: Vec<&str> = line.split("  ").map(str::trim).filter(|c| !c.is_empty()).collect();
    assert_eq!(cells, ["Driveline · hot path", "40.0 ms", "1.00 ms", "49.0 ms"], "{terminal}");
    assert!(
        markdown.contains("| reference | Driveline · hot path | 40.0 ms | 1.00 ms | 49.0 ms |"),
        "{markdown}"
    );
}

#[test]
fn each_channel_of_a_fusion_has_its_latency_in_every_rendering() {
    let fused = |c: &Case, round| {
        let mut o = Observations::default();
        for (subject, ns) in [("fusion", 9), ("channel 0", 1), ("channel 1", 7)] {
            let points = (0..400)
                .map(|i| Point { time_ns: 1_000_000_000 + i * 10_000_000, value: ns * 1_000_000 });
            o.put(subject, Quantity::Latency, points.clone());
            if subject == "fusion" {
                o.put(subject, Quantity::Age, points);
            }
        }
        let drops = if c.system == System::Driveline { 1 } else { 20 };
        o.counters.insert("drops".into(), drops);
        (Run { counters: o.counters.clone(), ..run(c, round, &[]) }, o)
    };
    let cases = vec![workload_case(System::Driveline, 0), workload_case(peer("ros1/tcp"), 1)];
    let [terminal, page, markdown] = rendered(experiment("X", 2, cases), fused);
    for text in [&terminal, &page] {
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        let ages = "(p50 of the slowest): reference 9.00 ms Driveline, 9.00 ms ros1/tcp.";
        assert!(words.contains(ages), "{text}");
    }
    // Drops are the sum of both rounds.
    for (name, drops) in [("Driveline", 2), ("ros1/tcp", 40)] {
        let row = format!("| {name} | 9.00 ms | 9.00 ms | 9.00 ms | {drops} |");
        assert!(markdown.contains(&row), "{row}: {markdown}");
    }
    assert!(markdown.contains("| fusion | system |"), "the head lacks the fusion: {markdown}");
    for (channel, time) in [("channel 0", "1.00 ms"), ("channel 1", "7.00 ms")] {
        let row = format!("| reference | Driveline · {channel} | 800 | {time} |");
        assert!(markdown.contains(&row), "{row}: {markdown}");
        assert!(page.contains(&format!("Driveline · {channel}")), "{channel} is not on the page");
        assert!(terminal.contains(channel), "{channel}: {terminal}");
    }
}

#[test]
fn what_a_reference_system_is_judged_by_stands_in_every_rendering() {
    let [terminal, page, markdown] = reference();
    // Two rounds of 151 points make 302. Processor time is divided by the time between points.
    let cells = ["90.0 ms", "90.0 ms", "90.0 ms", "302", "2.00 ms", "0 ns", "2.00", "30.0 MiB"];
    let expected = [&["Driveline"][..], &cells].concat();
    let line = |l: &str| {
        l.split("  ")
            .map(str::trim)
            .filter(|c| !c.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert!(terminal.lines().any(|l| line(l) == expected), "{terminal}");
    assert!(
        markdown.contains(
            "| reference | Driveline | 90.0 ms | 90.0 ms | 90.0 ms | 302 | 2.00 ms | \
             0 ns | 2.00 | 30.0 MiB |"
        ),
        "{markdown}"
    );
    assert!(page.contains("<td>30.0 MiB</td>"), "no table on the page");
}

#[test]
fn layers_have_their_numbers_where_they_are_asked_for() {
    let link = || Link { take: Take::Copy, ..link(4 << 20, 1, Payload::Filled) };
    let cases = |figure| {
        [System::Driveline, peer("iceoryx/loan")]
            .into_iter()
            .enumerate()
            .map(|(i, system)| Case { figure, ..case(system, "camera", i, vec![link()]) })
            .collect::<Vec<_>>()
    };
    let copied = |c: &Case, round: u64| {
        let mut run = run(c, round, &[120_000; 100]);
        for s in &mut run.accounts[0].stamps {
            let r = s.received.unwrap();
            // The last 70 µs of the path are the copy.
            let in_hand = s.sent.before_publish + 50_000;
            s.received = Some(ReceivedRow {
                woken: in_hand - 300,
                in_hand,
                copied: in_hand + 70_000,
                read: in_hand + 72_000,
                ..r
            });
        }
        only(run)
    };
    let [_, page, markdown] = rendered(experiment("X", 3, cases(Metric::FillAndTransport)), copied);
    let cells = "9.00 µs | 500 ns | 49.2 µs | 300 ns | 70.0 µs | 2.00 µs |";
    assert!(
        markdown.contains(&format!("| camera | Driveline | {cells}"))
            && markdown.contains(&format!("| camera | iceoryx/loan | {cells}")),
        "{markdown}"
    );
    let (_, table) = page.split_once("Layer by layer").unwrap();
    assert!(table.split("</table>").next().unwrap().contains("<td>49.2 µs</td>"), "{table}");
    // If the question is about something else, the parts are only on the page, as a plot and as
    // numbers.
    let [_, page, markdown] = rendered(experiment("X", 3, cases(Metric::Transport)), copied);
    assert!(!markdown.contains("on its way") && page.contains("Layer by layer"), "{markdown}");
}
