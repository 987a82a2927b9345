// SPDX-License-Identifier: Apache-2.0
//! Headline table of an experiment: every system in every cell, with loan-only and filled payloads
//! next to each other.

use super::experiment::{count, few, small};
use super::html::{Table, escape, sentence};
use super::views;
use crate::analysis::{
    CaseResult, Compared, Criterion, ExperimentResult, Measure, Standing, total,
};
use crate::chain;
use crate::latencies::{Column, Extent, Latencies, Nowhere, Value, nowhere};
use crate::table::{about_goodput, bounds, few_rounds, ratio};
use crate::words::{cell_without, spaced};
use driveline_bench::Metric;
use driveline_bench::harness::Take;
use driveline_bench::stats::Interval;
use driveline_graph::ByteSize;
use driveline_terminal::figures::duration_ns;
use driveline_workloads::deliveries::ALL;

/// Renders the table. Figures of loan-only and of filled payloads are next to each other, where
/// both were measured.
pub(super) fn headline(e: &ExperimentResult) -> String {
    let mut groups: Vec<String> = Vec::new();
    for cell in e.cells() {
        let group = without_handling(cell);
        if !groups.contains(&group) {
            groups.push(group);
        }
    }
    // Workloads share a column with filled links if all links are filled, so that compared figures
    // are in one column.
    let mut of_links =
        e.measured().filter(|c| c.case.handling().is_some()).map(views::is_filled).peekable();
    let beside_filled = of_links.peek().is_some() && of_links.all(|filled| filled);
    let is_filled =
        |c: &CaseResult| views::is_filled(c) || (beside_filled && c.case.workload.is_some());
    let filled = e.measured().any(is_filled);
    let plain = e.measured().any(|c| !is_filled(c));
    let kinds: Vec<bool> = [(false, plain), (true, filled)]
        .into_iter()
        .filter(|(_, there)| *there)
        .map(|(kind, _)| kind)
        .collect();
    let links = e.measured().any(|c| !c.case.links.is_empty());
    let deliveries = e.measured().any(CaseResult::has_deliveries);
    let of = Latencies::of(e, Extent::Cases);
    let only = |is_wanted: &dyn Fn(Column) -> bool| -> Vec<Column> {
        of.columns.iter().copied().filter(|column| is_wanted(*column)).collect()
    };
    let each = only(&|column| matches!(column, Column::Measure(_) | Column::Ratio(_)));
    let costs = only(&|column| match column {
        Column::Copy(_) | Column::Problem(_) => true,
        Column::Cpu => links,
        _ => false,
    });
    let width = 1 + kinds.len() * each.len() + costs.len();
    // A workload in the column of filled payloads fills its payloads, too. How much of them is read
    // depends on its graph.
    let with_workloads = beside_filled && e.measured().any(|c| c.case.workload.is_some());
    let copied =
        e.measured().any(|c| !is_filled(c) && c.case.links.iter().any(|l| l.take == Take::Copy));
    let over: String = kinds
        .iter()
        .map(|filled| {
            let title = match (filled, links) {
                (true, _) if with_workloads => "filled",
                (true, _) => "filled and read",
                (false, true) if copied => "payload untouched",
                (false, true) => "loan-only: payload untouched",
                (false, false) => "latency of the whole",
            };
            format!("<th scope=colgroup colspan={} class=kind>{title}</th>", each.len())
        })
        .collect();
    let heads = |columns: &[Column]| -> String {
        columns.iter().map(|c| format!("<th scope=col>{}</th>", of.label(*c))).collect()
    };
    let (per_kind, per_cost) = (heads(&each), heads(&costs));
    let costs_over = if costs.is_empty() {
        String::new()
    } else {
        format!("<th scope=colgroup colspan={} class=kind>cost and losses</th>", costs.len())
    };
    let head = format!(
        "<tr><th rowspan=2 scope=col>system</th>{over}{costs_over}</tr><tr>{}{per_cost}</tr>",
        per_kind.repeat(kinds.len())
    );
    let mut table = Table::with_head("", &head, true).of_many_columns();
    for group in &groups {
        let members: Vec<&CaseResult> =
            e.measured().filter(|c| without_handling(&c.case.cell) == *group).collect();
        let mut systems: Vec<&CaseResult> = Vec::new();
        for c in &members {
            if systems.iter().all(|s| s.case.system != c.case.system) {
                systems.push(c);
            }
        }
        table.group(&format!("{group}{}", conditions(group, &members)), width);
        for system in systems {
            let own: Vec<&&CaseResult> =
                members.iter().filter(|c| c.case.system == system.case.system).collect();
            let mut cells = Vec::new();
            for kind in &kinds {
                let case = own.iter().find(|c| is_filled(c) == *kind);
                match case.filter(|c| c.headline().is_some()) {
                    Some(c) => {
                        cells.extend(each.iter().map(|column| written(&of.value(c, *column))));
                    }
                    None => {
                        let why = match case {
                            Some(c) if c.is_invalid() => {
                                format!("<span class=bad>{}</span>", c.without_figures())
                            }
                            Some(c) => c.without_figures(),
                            None => String::new(),
                        };
                        cells.push(why);
                        cells.extend((1..each.len()).map(|_| String::new()));
                    }
                }
            }
            cells.extend(costs.iter().map(|column| {
                let values: Vec<Value> = own.iter().map(|c| of.value(c, *column)).collect();
                cost(*column, &values)
            }));
            let doubts: Vec<&str> = own.iter().filter_map(|c| c.doubt()).collect();
            let doubt =
                ["invalid", "not confirmed"].into_iter().find(|doubt| doubts.contains(doubt));
            let doubt =
                doubt.map_or_else(String::new, |doubt| format!(" <span class=bad>{doubt}</span>"));
            table.row(
                &format!("{}{doubt}{}", escape(&system.name()), title_beyond_name(system)),
                &cells,
            );
        }
    }
    let explained = |c: &CaseResult| {
        c.headline().map(|(of, _)| match c.criterion() {
            Criterion::Goodput => about_goodput(),
            Criterion::Latency => explained(&of),
        })
    };
    let figures: Vec<String> = e.measured().filter_map(explained).fold(Vec::new(), |mut all, l| {
        if !all.contains(&l) {
            all.push(l);
        }
        all
    });
    let has_times = of.has(|c| matches!(c, Column::Measure(m) if m != Measure::Goodput));
    let title = match (of.has_goodput(), has_times) {
        (true, false) => "Goodput",
        (true, true) => "Latency and goodput",
        (false, _) => "Latency",
    };
    format!(
        "<h3>{title}</h3>{}<p class=legend>{}{}{}{}{}{}{}</p>\n",
        table.finish(),
        if figures.is_empty() {
            String::new()
        } else {
            format!("Figures are of {}.", sentence(&figures.join("; ")))
        },
        chain::end_to_end(e).iter().map(|line| format!(" {}", sentence(line))).collect::<String>(),
        of.too_few().map_or_else(String::new, |line| format!(" {line}.")),
        match (of.has_ratios(), of.is_to_floor) {
            (false, _) => "",
            (true, false) =>
                " Ratios with 95 % interval by rounds; coloured where the interval excludes 1 (of \
                 goodput, what counts as equal) and rests on five rounds or more.",
            (true, true) => {
                " ÷ floor: compared with a bare word that is passed on without middleware, which \
                 is listed among the floors; with 95 % interval by rounds."
            }
        },
        if of.has_copies() {
            " ÷ memcpy: of payloads that are filled or copied, compared with one copy of as many \
             bytes on this machine, which is listed among the floors."
        } else {
            ""
        },
        if deliveries { nothing_went_wrong(&nowhere(e)) } else { String::new() },
        match (links, kinds.len()) {
            (false, _) => String::new(),
            (true, n) => format!(
                " CPU per message: processor time of all ends together, in a ping-pong of a whole \
                 round (two messages){}; a middleware's own daemon or gateway is not in it.",
                if n > 1 { ", loan-only / filled and read" } else { "" }
            ),
        }
    )
}

/// Returns the sentence about columns left out because they would be zero.
fn nothing_went_wrong(nowhere: &Nowhere) -> String {
    let torn = if nowhere.not_torn_where_verified { " No verified payload was torn." } else { "" };
    match nowhere.names.as_slice() {
        [] => torn.to_owned(),
        [one] => format!(" No sample of this table was {one}.{torn}"),
        [others @ .., last] => {
            format!(" No sample of this table was {} or {last}.{torn}", others.join(", "))
        }
    }
}

/// Returns the common name of cells that differ only in the treatment of payloads.
fn without_handling(cell: &str) -> String {
    cell_without(cell, |word| matches!(word, "untouched" | "filled"))
}

/// Returns the cell for a cost or a loss of both kinds of payloads: counts are added up, other
/// values are listed.
fn cost(column: Column, values: &[Value]) -> String {
    let problems = |value: &Value| match value {
        Value::Problems(n) => *n,
        _ => None,
    };
    let unseen = |value: &Value| matches!(value, Value::Problems(None));
    match column {
        Column::Problem(_) if values.iter().any(|value| problems(value).is_some()) => {
            count(total(values.iter().filter_map(problems)))
        }
        Column::Problem(_) if values.iter().any(unseen) => "–".to_owned(),
        Column::Problem(_) => String::new(),
        // Only one kind of payload is compared with a copy.
        Column::Copy(_) => {
            values.iter().map(written).find(|text| !text.is_empty()).unwrap_or_default()
        }
        _ => values.iter().map(written).collect::<Vec<_>>().join(" /<br>"),
    }
}

/// Returns a value as HTML, with a mark where there are too few samples.
pub(super) fn written(value: &Value) -> String {
    match value {
        Value::Empty | Value::Itself => String::new(),
        Value::Text(text) | Value::Without(text) => escape(text),
        Value::Time(ns) => ns.map_or_else(few, |ns| escape(&duration_ns(ns))),
        Value::Ratio(r) => match (r.interval, r.judged_by) {
            (None, _) => few(),
            (Some(i), Some(by)) => judged(by, i),
            (Some(i), None) => format!("{}× {}", ratio(i.estimate), interval(i)),
        },
        Value::Cpu(ns, without) => {
            ns.map_or_else(|| "–".to_owned(), |ns| escape(&format!("{}{without}", duration_ns(ns))))
        }
        Value::Problems(n) => n.map_or_else(|| "–".to_owned(), count),
    }
}

/// Returns a ratio to Driveline, coloured if the difference is certain.
fn judged(by: Criterion, i: &Interval) -> String {
    let class = match by.standing(i) {
        Standing::Slower => "slower",
        Standing::Faster => "faster",
        Standing::NotShown | Standing::TooFewRounds => "unsure",
    };
    format!("<span class={class}>{}×</span> {}", ratio(i.estimate), interval(i))
}

/// Returns the bounds, and the number of rounds if it is small: a line each, below the ratio.
fn interval(i: &Interval) -> String {
    let (all, few) = (bounds(i), few_rounds(i));
    let lines = [all.strip_suffix(few.trim_start()).unwrap_or(&all).trim_end(), few.trim_start()];
    lines.into_iter().filter(|line| !line.is_empty()).map(small).collect::<Vec<_>>().join(" ")
}

/// Returns a figure's name, with its start and end.
fn explained(of: &Compared) -> String {
    let way = match of {
        Compared::Metric(Metric::Transport) => {
            "from publish() until the sample is in hand; in a ping-pong, half of the round trip"
        }
        Compared::Metric(Metric::LastSubscriber) => {
            "from publish() until the last of several subscribers has the sample"
        }
        Compared::Metric(Metric::ScheduleRelative) => {
            "from when the sample was due until it is in hand"
        }
        Compared::Metric(Metric::FillAndTransport) => {
            "from asking for memory, filling it included, until the sample is in hand"
        }
        Compared::Metric(Metric::BetweenArrivals) => "from one sample in hand to the next",
        Compared::Latency(subject) if subject == ALL => {
            "from publish() until the callback of a subscription begins, of all of them"
        }
        Compared::Latency(subject) => return format!("latency, {subject}"),
        Compared::Metric(_) => return of.label().to_owned(),
    };
    format!("{} ({way})", of.label())
}

/// Returns the title of a peer, to be shown with its short name; nothing for Driveline.
fn title_beyond_name(c: &CaseResult) -> String {
    let title = escape(&c.case.system_title);
    if c.is_driveline() {
        String::new()
    } else {
        format!("<small class=title title=\"{title}\">{title}</small>")
    }
}

/// Returns size, rate, waiting and QoS that all links of a group have in common, except those in
/// the group's name.
fn conditions(group: &str, cases: &[&CaseResult]) -> String {
    let Some(link) = cases.first().and_then(|c| c.case.links.first()) else { return String::new() };
    if cases.first().is_some_and(|c| c.case.links.len() > 1) {
        return format!(
            " ({} links at the same time)",
            cases.first().map_or(0, |c| c.case.links.len())
        );
    }
    let pace = match link.pace {
        driveline_bench::harness::Pace::PingPong => "ping-pong".to_owned(),
        driveline_bench::harness::Pace::RateHz(hz) => format!("{hz} Hz"),
    };
    let cable = cases.first().and_then(|c| c.case.beside.cable).map_or_else(String::new, |cable| {
        let speed = cable.mbit.map_or_else(
            || "as fast as the processors".to_owned(),
            |mbit| format!("{mbit} Mbit/s"),
        );
        let lossy = if cable.loss_percent > 0.0 {
            format!(", {} % of packets lost each way", cable.loss_percent)
        } else {
            String::new()
        };
        let far = if cable.delay_ms > 0.0 {
            format!(", {} ms away", cable.delay_ms)
        } else {
            String::new()
        };
        format!("between two hosts at {speed}{far}{lossy}, ")
    });
    if cases.first().is_some_and(|c| c.case.measure.is_some()) {
        return format!(" ({})", ByteSize(link.size as u64));
    }
    let words = [
        ByteSize(link.size as u64).to_string(),
        pace,
        format!("1→{}", link.subscribers),
        format!("readers {}", link.wait),
        spaced(&link.reliability),
        format!("depth {}", link.depth),
    ];
    let others: Vec<String> = words
        .into_iter()
        .filter(|word| group.split(" · ").all(|rendered| rendered != word))
        .collect();
    format!(" ({cable}{})", others.join(", "))
}
