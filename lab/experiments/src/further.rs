// SPDX-License-Identifier: Apache-2.0
//! Tables after the table of latencies, the same in all outputs.

use crate::analysis::{
    CaseResult, Criterion, ExperimentResult, Figure, Measure, Ratio, columns, compared_columns,
    ratio_columns,
};
use crate::latencies::Value;
use crate::rows::{Row, Rows};
use crate::table::{controls, floors_and_doubles, percentile, quantity};
use driveline_bench::Metric;
use driveline_bench::deployment::{ENGINE_CPU, ENGINE_MEMORY};
use driveline_bench::observations::Quantity;
use driveline_bench::stats::Percentiles;
use driveline_terminal::figures::{bytes, digits, duration_ns};

/// Returns transport and schedule-relative latency of an open loop. `None` for a stream that is
/// compared by goodput, because its samples may be due faster than the link can carry them.
pub(crate) fn open_loop(c: &CaseResult) -> Option<(&Figure, &Figure)> {
    let of = |m| {
        c.figures
            .get(&m)
            .filter(|f| f.percentiles.n > 0 && c.case.figure != Metric::BetweenArrivals)
    };
    of(Metric::Transport).zip(of(Metric::ScheduleRelative))
}

/// Returns latencies of links with a rate, from publishing and from the due time. Both are of the
/// same samples, at all subscribers.
pub(crate) fn since_due(e: &ExperimentResult) -> Rows {
    let all = || {
        e.cells()
            .into_iter()
            .flat_map(|cell| e.in_cell(cell))
            .filter_map(|c| Some((c, open_loop(c)?)))
    };
    let ranks: Vec<Measure> =
        columns(all().flat_map(|(_, (sent, due))| [&sent.percentiles, &due.percentiles]))
            .into_iter()
            .filter(|c| matches!(c, Measure::P50 | Measure::P95 | Measure::P99))
            .collect();
    let heads = |of: &str| ranks.iter().map(|c| format!("{of}, {}", c.label())).collect::<Vec<_>>();
    let head = [vec!["n".to_owned()], heads("transport"), heads("since due")].concat();
    let row = |(c, (sent, due)): (&CaseResult, (&Figure, &Figure))| {
        let rendered =
            |f: &Figure| ranks.iter().map(|c| percentile(c.of(&f.percentiles))).collect::<Vec<_>>();
        let cells = [vec![due.percentiles.n.to_string()], rendered(sent), rendered(due)].concat();
        Row { cell: c.case.cell.clone(), name: c.name(), cells }
    };
    Rows::new(
        "from when samples were due",
        &head.iter().map(String::as_str).collect::<Vec<_>>(),
        all().map(row).collect(),
    )
}

/// Returns the times between two arrivals for streams. Streams are compared by goodput; the tail of
/// these times shows stalls.
pub(crate) fn between_arrivals(e: &ExperimentResult) -> Rows {
    let streams = || {
        let all = e
            .cells()
            .into_iter()
            .flat_map(|cell| e.in_cell(cell))
            .filter(|c| c.criterion() == Criterion::Goodput);
        all.filter_map(|c| c.headline().map(|(_, f)| (c, &f.percentiles)))
    };
    let mut ranks = columns(streams().map(|(_, p)| p));
    ranks.extend((!ranks.contains(&Measure::Greatest)).then_some(Measure::Greatest));
    let row = |(c, p): (&CaseResult, &Percentiles)| {
        let cells =
            std::iter::once(p.n.to_string()).chain(ranks.iter().map(|rank| percentile(rank.of(p))));
        Row { cell: c.case.cell.clone(), name: c.name(), cells: cells.collect() }
    };
    let head: Vec<&str> =
        std::iter::once("n").chain(ranks.iter().map(|rank| rank.label())).collect();
    Rows::new("between arrivals", &head, streams().map(row).collect())
}

/// Returns chains with Driveline on some edges, compared with the same chains without.
pub(crate) fn own_edges(e: &ExperimentResult) -> Rows {
    let all: Vec<_> = e.measured().filter_map(|c| to_without(e, c).map(|r| (c, r))).collect();
    let ranks = ratio_columns(all.iter().map(|(_, r)| *r));
    let heads = ranks.iter().map(|rank| format!("ratio, {}", rank.label()));
    let head: Vec<String> = ["all its own, p50", "some Driveline's, p50"]
        .into_iter()
        .map(str::to_owned)
        .chain(heads)
        .collect();
    let p50 = |c: &CaseResult| {
        c.headline().map_or_else(String::new, |(_, f)| percentile(f.percentiles.p50))
    };
    let row = |(c, r): (&CaseResult, &Ratio)| {
        let without = e.cases.iter().find(|other| other.case.id == r.to);
        let mut cells = vec![without.map_or_else(String::new, p50), p50(c)];
        cells.extend(ranks.iter().map(|rank| Value::ratio(rank.ratio(r)).text()));
        Row { cell: String::new(), name: format!("{} · {}", c.case.cell, c.name()), cells }
    };
    Rows::new(
        "some edges Driveline's, compared with all its own",
        &head.iter().map(String::as_str).collect::<Vec<_>>(),
        all.into_iter().map(row).collect(),
    )
}

/// Returns the ratio of a chain with Driveline on some of its edges to the same chain without.
fn to_without<'a>(e: &'a ExperimentResult, case: &'a CaseResult) -> Option<&'a Ratio> {
    // Ratios to the same case outside of containers are not meant.
    let others = |c: &CaseResult| {
        let edges = c.case.chain.iter().flat_map(|chain| chain.edges.values());
        edges.filter(|edge| edge.system != c.case.system).count()
    };
    let (of, _) = case.headline()?;
    case.ratios.iter().find(|r| {
        let other = e.cases.iter().find(|other| other.case.id == r.to);
        r.of == of && others(case) > 0 && other.is_some_and(|other| others(other) == 0)
    })
}

/// Returns the floors of the machine and the cases that are measured twice, and how much the two
/// measurements of the same one differ.
pub(crate) fn floors(e: &ExperimentResult) -> Rows {
    let floors = || floors_and_doubles(e);
    let ranks = compared_columns(floors(), floors().filter_map(CaseResult::latencies));
    let again = ratio_columns(controls(e).map(|(_, r)| r));
    let head: Vec<String> = std::iter::once("n".to_owned())
        .chain(ranks.iter().map(|rank| rank.label().to_owned()))
        .chain(again.iter().map(|rank| format!("A/A control, {}", rank.label())))
        .collect();
    let row = |c: &CaseResult| {
        let cells = match c.headline() {
            None => vec![c.without_figures()],
            Some((_, figure)) => {
                let control = controls(e).find(|(_, r)| r.to == c.case.id).map(|(_, r)| r);
                let values = ranks.iter().map(|rank| Value::measure(c, *rank).text());
                let ratios = again
                    .iter()
                    .map(|rank| Value::ratio(control.and_then(|r| rank.ratio(r))).text());
                std::iter::once(figure.percentiles.n.to_string())
                    .chain(values)
                    .chain(ratios)
                    .collect()
            }
        };
        let name = format!("{} · {}", c.case.system_title, c.case.cell);
        Row { cell: String::new(), name, cells }
    };
    let about = if floors().any(CaseResult::is_driveline) {
        "floors, and what is measured twice"
    } else {
        "floor: no middleware"
    };
    Rows::new(
        about,
        &head.iter().map(String::as_str).collect::<Vec<_>>(),
        floors().map(row).collect(),
    )
}

/// Returns the latency of each channel of workloads that fuse: from publishing its sample to the
/// call.
pub(crate) fn channels(e: &ExperimentResult) -> Rows {
    let of_channel = |c: &CaseResult, subject: &str, quantity: Quantity| {
        c.case.workload.is_some()
            && quantity == Quantity::Latency
            && subject.starts_with("channel ")
    };
    let all = || {
        let cases = e.cells().into_iter().flat_map(|cell| e.in_cell(cell));
        cases.flat_map(move |c| {
            let channels = c.observed.iter().filter(move |o| of_channel(c, &o.subject, o.quantity));
            channels.map(move |o| (c, o.subject.as_str(), &o.figure.percentiles))
        })
    };
    let ranks = columns(all().map(|(_, _, p)| p));
    let row = |(c, subject, p): (&CaseResult, &str, &Percentiles)| {
        let cells =
            std::iter::once(p.n.to_string()).chain(ranks.iter().map(|rank| percentile(rank.of(p))));
        Row {
            cell: c.case.cell.clone(),
            name: format!("{} · {subject}", c.name()),
            cells: cells.collect(),
        }
    };
    let head: Vec<&str> =
        std::iter::once("n").chain(ranks.iter().map(|rank| rank.label())).collect();
    Rows::new("latency of channels", &head, all().map(row).collect())
}

/// Returns mean idle, communication and computation of each subject that has them.
pub(crate) fn parts(c: &CaseResult) -> Vec<(&str, [Option<f64>; 3])> {
    let mut subjects: Vec<&str> = Vec::new();
    for o in &c.observed {
        if !subjects.contains(&o.subject.as_str()) {
            subjects.push(&o.subject);
        }
    }
    let mean = |subject: &str, q| {
        c.observed
            .iter()
            .find(|o| o.subject == subject && o.quantity == q)
            .and_then(|o| o.figure.percentiles.mean)
    };
    let of = |subject| {
        [Quantity::Idle, Quantity::Communication, Quantity::Computation].map(|q| mean(subject, q))
    };
    subjects
        .into_iter()
        .map(|subject| (subject, of(subject)))
        .filter(|(_, parts)| parts.iter().any(Option::is_some))
        .collect()
}

/// Returns the parts of the latencies of workloads.
pub(crate) fn split(e: &ExperimentResult) -> Rows {
    let workloads = e.measured().filter(|c| c.case.workload.is_some());
    let row = |c: &CaseResult, subject: &str, parts: [Option<f64>; 3]| Row {
        cell: c.case.cell.clone(),
        name: format!("{} · {subject}", c.name()),
        cells: parts.iter().map(|ns| ns.map_or_else(String::new, duration_ns)).collect(),
    };
    let rows = workloads
        .flat_map(|c| parts(c).into_iter().map(move |(subject, parts)| row(c, subject, parts)));
    Rows::new(
        "parts of the latency, means",
        &["idle", "communication", "computation"],
        rows.collect(),
    )
}

/// Returns the measured cases that have a figure, with its distribution.
fn with_figure(
    e: &ExperimentResult,
    metric: Metric,
) -> impl Iterator<Item = (&CaseResult, &Percentiles)> {
    let cases = e.cells().into_iter().flat_map(|cell| e.in_cell(cell));
    cases.filter_map(move |c| Some((c, &c.figures.get(&metric)?.percentiles)))
}

/// Returns start-up times: each run has one of the publisher and one of the subscriber.
pub(crate) fn start_up(e: &ExperimentResult) -> Rows {
    let row = |(c, publisher): (&CaseResult, &Percentiles)| {
        let subscriber = c.figures.get(&Metric::StartSubscriber).map(|f| &f.percentiles);
        let of = |p: &Percentiles| [percentile(p.p50), percentile(p.max)];
        let mut cells = vec![publisher.n.to_string()];
        cells.extend(of(publisher));
        cells.extend(subscriber.into_iter().flat_map(of));
        Row { cell: c.case.cell.clone(), name: c.name(), cells }
    };
    let head = [
        "runs",
        "publisher, p50",
        "publisher, greatest",
        "subscriber, p50",
        "subscriber, greatest",
    ];
    Rows::new("start-up", &head, with_figure(e, Metric::StartPublisher).map(row).collect())
}

/// Returns what links use at rest: means of all runs.
pub(crate) fn at_rest(e: &ExperimentResult) -> Rows {
    let row = |(c, publisher): (&CaseResult, &Percentiles)| {
        let mean = |metric| {
            let of = c.figures.get(&metric).and_then(|f| f.percentiles.mean);
            of.map_or_else(String::new, duration_ns)
        };
        let cells = vec![
            publisher.n.to_string(),
            mean(Metric::IdlePublisherCpu),
            mean(Metric::IdleSubscriberCpu),
            mean(Metric::IdleReaderCpu),
            c.totals.idle_wakeups_per_s.map_or_else(String::new, digits),
        ];
        Row { cell: c.case.cell.clone(), name: c.name(), cells }
    };
    let head = [
        "runs",
        "publisher, CPU per s",
        "subscriber, CPU per s",
        "its blocked thread, CPU per s",
        "subscriber, wake-ups per s",
    ];
    Rows::new(
        "links at rest, means",
        &head,
        with_figure(e, Metric::IdlePublisherCpu).map(row).collect(),
    )
}

/// Explanation of [`start_up`] for readers.
pub(crate) const START_UP: &str = "Start-up: from just before the process is started until the \
     subscriber has a sample. The publisher starts while a subscriber waits, the subscriber while \
     a sample waits.";

/// Number of columns of latencies in [`key_figures`]; they are the first ones.
const LATENCIES: usize = 3;

/// Returns the key figures of graphs, and the resource use of processes of watched links and of a
/// container engine.
pub(crate) fn key_figures(e: &ExperimentResult) -> Rows {
    let row = |c: &CaseResult| {
        let of =
            |q| c.observed.iter().filter(move |o| o.quantity == q && o.figure.percentiles.n > 0);
        let latency =
            c.headline().filter(|_| c.case.workload.is_some()).map(|(_, f)| &f.percentiles);
        let period = of(Quantity::PeriodDeviation)
            .max_by_key(|o| o.figure.percentiles.p50)
            .map(|o| &o.figure.percentiles);
        let rendered = |q: Quantity, x: Option<f64>| x.map_or_else(String::new, |x| quantity(q, x));
        let sum = |all: Vec<f64>| (!all.is_empty()).then(|| all.iter().sum::<f64>());
        let drops = of(Quantity::Drops).filter_map(|o| {
            o.figure.percentiles.mean.map(|mean| (mean * o.figure.percentiles.n as f64).round())
        });
        let memory = of(Quantity::ResidentMemory)
            .filter_map(|o| o.figure.percentiles.p50.map(|bytes| bytes as f64));
        let cells = vec![
            latency.and_then(|p| p.mean).map_or_else(String::new, duration_ns),
            latency.map_or_else(String::new, |p| percentile(p.p50)),
            latency.map_or_else(String::new, |p| percentile(p.p99)),
            rendered(
                Quantity::Drops,
                sum(drops.collect()).or_else(|| counted(c, "drops").map(|n| n.sum)),
            ),
            rendered(Quantity::PeriodDeviation, period.and_then(|p| p.p50.map(|ns| ns as f64))),
            rendered(Quantity::PeriodDeviation, period.and_then(|p| p.standard_deviation)),
            sum(of(Quantity::Cpu).filter_map(|o| o.cpus).collect())
                .map_or_else(String::new, digits),
            rendered(Quantity::ResidentMemory, sum(memory.collect())),
            counted(c, ENGINE_CPU).map_or_else(String::new, |n| duration_ns(n.mean)),
            counted(c, ENGINE_MEMORY).map_or_else(String::new, |n| bytes(n.greatest)),
        ];
        Row { cell: c.case.cell.clone(), name: c.name(), cells }
    };
    // Omits rows that have only latencies: these are in the table above.
    let says = |r: &Row| r.cells.iter().skip(LATENCIES).any(|c| !c.is_empty());
    let rows =
        e.cells().into_iter().flat_map(|cell| e.in_cell(cell)).map(row).filter(says).collect();
    let head = [
        "latency, mean",
        "latency, p50",
        "latency, p99",
        "drops",
        "off the period, p50",
        "off the period, sd",
        "CPUs in use",
        "resident memory",
        "container engine: processor time",
        "container engine: peak memory",
    ];
    Rows::new("key figures", &head, rows)
}

/// Counter over all valid runs.
struct Counted {
    sum: f64,
    mean: f64,
    greatest: u64,
}

/// Returns a counter of a case that has it.
fn counted(c: &CaseResult, name: &str) -> Option<Counted> {
    let runs = c.counters.get(name)?;
    let (sum, greatest) = (runs.iter().map(|n| *n as f64).sum::<f64>(), *runs.iter().max()?);
    Some(Counted { sum, mean: sum / runs.len() as f64, greatest })
}

/// Returns the explanation of [`key_figures`] for readers.
pub(crate) fn explained(e: &ExperimentResult) -> String {
    let has_engine = e.measured().any(|c| c.counters.contains_key(ENGINE_CPU));
    format!("{KEY_FIGURES}{}", if has_engine { ENGINE } else { "" })
}

/// Explanation of the use of a container engine.
const ENGINE: &str = " Container engine: its clients and the supervisors of the containers, which \
     are not part of the other figures. Processor time: while the ends run, mean of all valid \
     runs. Peak memory: sum over these processes, greatest of all valid runs.";

/// Explanation of all other key figures.
const KEY_FIGURES: &str = "Drops are of all valid runs together; processors in use and \
     resident memory (median) of all processes together, shared memory in each of them.";

/// Returns medians of the parts of a sample's path, in nanoseconds; parts without a figure are 0.
pub(crate) fn layers_of(c: &CaseResult) -> [(&'static str, f64); 6] {
    let p50 = |m: Metric| c.figures.get(&m).and_then(|f| f.percentiles.p50).unwrap_or(0) as f64;
    let transport = p50(Metric::Transport);
    let [wake, copy] = [p50(Metric::WakeToHand), p50(Metric::Copy)];
    // A call of publish() may return after the sample has arrived.
    let call = p50(Metric::PublishCall).min((transport - wake - copy).max(0.0));
    let way = (transport - wake - copy - call).max(0.0);
    [
        ("fill", p50(Metric::Fill)),
        ("publish call", call),
        ("on its way", way),
        ("wake to hand", wake),
        ("copy", copy),
        ("read", p50(Metric::Read)),
    ]
}

/// Returns the parts for every system in every cell.
pub(crate) fn layers(e: &ExperimentResult) -> Rows {
    let measured = e.cells().into_iter().flat_map(|cell| e.in_cell(cell));
    let row = |c: &CaseResult| Row {
        cell: c.case.cell.clone(),
        name: c.name(),
        cells: layers_of(c)
            .iter()
            .map(|(_, ns)| if *ns > 0.0 { duration_ns(*ns) } else { String::new() })
            .collect(),
    };
    let rows = measured.filter(|c| c.figures.contains_key(&Metric::Transport)).map(row).collect();
    Rows::new(
        "layers, medians",
        &["fill", "publish call", "on its way", "wake to hand", "copy", "read"],
        rows,
    )
}
