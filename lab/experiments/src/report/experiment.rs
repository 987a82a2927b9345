// SPDX-License-Identifier: Apache-2.0
//! Section of one experiment: answer, tables, plots.

use super::headline::written;
use super::html::{Table, escape, json, sentence};
use super::look::Looks;
use super::views;
use crate::analysis::{
    CaseResult, Compared, Criterion, ExperimentResult, LinkResult, Measure, Totals, columns, total,
};
use crate::figure_text::TOO_SMALL;
use crate::further;
use crate::latencies::{Problem, Value};
use crate::literature::{Literature, TO_KNOW};
use crate::rows::Rows;
use crate::table::{
    bounds, counter, floors_and_doubles, has_sum, label, not_confirmed, quantity, ratio,
};
use driveline_bench::stats::Interval;
use driveline_bench::{LeftOut, Metric, Verdict};
use driveline_terminal::figures::{digits, duration_ns};
use std::fmt::Write as _;

/// Speeds of a car, in km/h, for the distance driven during a latency.
const SPEEDS_KMH: [f64; 2] = [64.0, 112.0];

/// `shared`: parts that several experiments leave out, which the page shows once.
pub(super) fn experiment(e: &ExperimentResult, looks: &Looks, shared: &[LeftOut]) -> String {
    let mut out = format!(
        "<p class=question>{}</p><p class=source>{}</p><div class=answer>{}</div>\n",
        escape(&e.question),
        escape(&e.source),
        e.answer.lines().map(answer_line).collect::<String>()
    );
    out.push_str(&super::headline::headline(e));
    plots(&mut out, e, looks);
    out.push_str(&own_edges(e));
    out.push_str(&super::chain::transmission(e));
    out.push_str(&once_per_run(e));
    out.push_str(&key_figures(e));
    out.push_str(&workloads(e));
    out.push_str(&layers(e));
    out.push_str(&links(e));
    out.push_str(&subscribers(e));
    out.push_str(&since_due(e));
    out.push_str(&between_arrivals(e));
    out.push_str(&road(e));
    out.push_str(&published(e));
    out.push_str(&accounts(e));
    out.push_str(&control(e));
    out.push_str(&own_tools(e));
    out.push_str(&invalid(e));
    out.push_str(&left_out_of(e, shared));
    if !e.notes.is_empty() {
        let items: String = e.notes.iter().map(|n| format!("<li>{}</li>", sentence(n))).collect();
        let _ = write!(out, "<h3>To know</h3><ul>{items}</ul>");
    }
    out
}

/// Formats a line; an indented one belongs to the line above.
fn answer_line(line: &str) -> String {
    let class = if line.starts_with(' ') { " class=part" } else { "" };
    format!("<p{class}>{}</p>", sentence(line.trim_start()))
}

pub(super) fn small(text: &str) -> String {
    format!("<small>{}</small>", escape(text))
}

/// Marks too few samples.
pub(super) fn few() -> String {
    format!("<span class=few>{TOO_SMALL}</span>")
}

pub(super) fn cell_of(p: Option<u64>) -> String {
    p.map_or_else(few, |ns| escape(&duration_ns(ns as f64)))
}

/// Formats a ratio with its interval, or a note that there are too few samples.
pub(super) fn ratio_of(i: Option<&Interval>) -> String {
    i.map_or_else(few, |i| format!("{}× {}", ratio(i.estimate), small(&bounds(i))))
}

pub(super) fn count(n: u64) -> String {
    if n == 0 { "0".into() } else { format!("<span class=bad>{n}</span>") }
}

/// Formats torn payloads; unknown if they were not verified.
fn torn(t: &Totals) -> String {
    written(&Value::Problems(Problem::Torn.count(t)))
}

fn plots(out: &mut String, e: &ExperimentResult, looks: &Looks) {
    for (by, title, what) in [
        (Criterion::Latency, "Ratios at a glance", "medians"),
        (Criterion::Goodput, "Goodput at a glance", "goodput"),
    ] {
        let Some(plot) = views::overview(e, by, looks) else { continue };
        let _ = write!(
            out,
            "<h3>{title}</h3><div class=plot data-plot role=img aria-label=\"Ratios of {what} to \
             Driveline's, by cell; the numbers stand in the table above\">\
             <script type=application/json>{}</script></div><p class=legend>By {what}. {}</p>",
            json(&views::figure(&plot).to_string()),
            views::ratios_note(by)
        );
    }
    let views = views::views(e, looks);
    if views["views"].as_array().is_some_and(|v| !v.is_empty()) {
        let _ = write!(
            out,
            "<h3>Look closer</h3><div class=explorer><script type=application/json>{}</script>\
             <div role=tablist aria-label=\"Views of {}\"></div><label class=cell>cell \
             <select></select></label>\
             <p class=legend></p><div class=plot role=img aria-live=polite></div></div>",
            json(&views.to_string()),
            escape(&e.id)
        );
    }
}

/// Renders chains with Driveline on some edges, compared with the same chains without.
fn own_edges(e: &ExperimentResult) -> String {
    let table = rows(&further::own_edges(e));
    if table.is_empty() {
        return table;
    }
    format!(
        "<h3>With Driveline on some edges, and without</h3>{table}<p class=legend>The same chain: \
         in one all edges are the system's own, in the other Driveline carries the edges that the \
         case names. Below 1 the chain with Driveline takes less.</p>"
    )
}

/// Renders start-up times, and processor time of links at rest.
fn once_per_run(e: &ExperimentResult) -> String {
    let start_up = match rows(&further::start_up(e)) {
        table if table.is_empty() => table,
        table => {
            format!("<h3>Start-up</h3>{table}<p class=legend>{}</p>\n", escape(further::START_UP))
        }
    };
    let at_rest = match rows(&further::at_rest(e)) {
        table if table.is_empty() => table,
        table => format!("<h3>Links at rest</h3>{table}\n"),
    };
    start_up + &at_rest
}

/// Renders key figures of graphs, resource use of processes, and parts of latencies.
fn key_figures(e: &ExperimentResult) -> String {
    let (figures, parts) = (rows(&further::key_figures(e)), rows(&further::split(e)));
    let figures = match figures.as_str() {
        "" => figures,
        table => format!(
            "<h3>Key figures</h3>{table}<p class=legend>{}</p>\n",
            escape(&further::explained(e))
        ),
    };
    figures + &parts + &rows(&further::channels(e))
}

/// Renders the numbers of the plot of layers.
fn layers(e: &ExperimentResult) -> String {
    let table = rows(&further::layers(e));
    if table.is_empty() {
        table
    } else {
        format!(
            "<details><summary>Layer by layer</summary>{table}<p class=legend>{}</p></details>\n",
            views::LAYERS
        )
    }
}

/// Renders distributions and counters of workloads and chains.
fn workloads(e: &ExperimentResult) -> String {
    let mut out = String::new();
    let observed = || e.measured().filter(|c| c.case.links.is_empty() && !c.observed.is_empty());
    let any_p99 = observed().flat_map(|c| &c.observed).any(|o| o.figure.percentiles.p99.is_some());
    let mut head =
        vec!["what", "n", "mean", "sd", "skewness", "kurtosis", "min", "p25", "p50", "p75", "max"];
    if any_p99 {
        head.insert(head.len() - 1, "p99");
    }
    let mut table = Table::new("", &head, true);
    for c in observed() {
        table.group(&format!("{} · {}", c.case.cell, c.name()), head.len());
        for o in &c.observed {
            let p = &o.figure.percentiles;
            let v =
                |x: Option<f64>| x.map_or_else(String::new, |x| escape(&quantity(o.quantity, x)));
            let w = |x: Option<u64>| v(x.map(|x| x as f64));
            let plain = |x: Option<f64>| x.map_or_else(String::new, |x| format!("{x:.2}"));
            let shape = o.figure.shape;
            let p99 = if p.p99.is_some() { w(p.p99) } else { few() };
            let mut cells = vec![
                p.n.to_string(),
                v(p.mean),
                v(p.standard_deviation),
                plain(shape.and_then(|s| s.skewness)),
                plain(shape.and_then(|s| s.excess_kurtosis)),
                w(p.min),
                w(shape.map(|s| s.p25)),
                w(p.p50),
                w(shape.map(|s| s.p75)),
            ];
            cells.extend(Some(p99).filter(|_| any_p99));
            cells.push(w(p.max));
            table.row(&format!("{}{}", escape(&o.subject), small(label(o.quantity))), &cells);
        }
    }
    if !table.is_empty() {
        out.push_str("<h3>Distributions</h3>");
        out.push_str(&table.finish());
        out.push_str(
            "<p class=legend>Kurtosis is the excess over that of a normal distribution.</p>",
        );
    }
    let mut table = Table::new("", &["counter", "sum of valid runs", "each run"], true);
    for c in e.measured().filter(|c| !c.counters.is_empty()) {
        table.group(&format!("{} · {}", c.case.cell, c.name()), 3);
        for (what, counts) in &c.counters {
            let each: Vec<String> = counts.iter().map(|n| counter(what, *n).1).collect();
            let sum = if has_sum(what) {
                counter(what, total(counts.iter().copied())).1
            } else {
                String::new()
            };
            table.row(&escape(&counter(what, 0).0), &[sum, each.join(", ")]);
        }
    }
    if !table.is_empty() {
        let _ = write!(out, "<details><summary>Counters</summary>{}</details>", table.finish());
    }
    out
}

/// Renders every link of cases with several.
fn links(e: &ExperimentResult) -> String {
    let all = || e.measured().filter(|c| !c.by_link.is_empty());
    let ranks = columns(all().flat_map(|c| &c.by_link).map(|l| &l.figure.percentiles));
    let mut head = vec!["link", "n"];
    head.extend(ranks.iter().map(|c| c.label()));
    let due = |l: &'_ LinkResult| l.schedule_relative.as_ref().map(|f| f.percentiles);
    let of_due: Vec<_> = all().flat_map(|c| &c.by_link).filter_map(due).collect();
    let due_ranks: Vec<Measure> = columns(&of_due)
        .into_iter()
        .filter(|c| [Measure::P50, Measure::P95, Measure::P99].contains(c))
        .collect();
    let due_ranks = if of_due.is_empty() { Vec::new() } else { due_ranks };
    let due_head: Vec<String> =
        due_ranks.iter().map(|c| format!("{} since due", c.label())).collect();
    head.extend(due_head.iter().map(String::as_str));
    head.extend(["CPU per message", "late", "lost", "not sent", "torn"]);
    let mut table = Table::new("", &head, true);
    for c in all() {
        table.group(&format!("{} · {}", c.case.cell, c.name()), head.len());
        for l in &c.by_link {
            let t = &l.totals;
            let mut cells = vec![l.figure.percentiles.n.to_string()];
            cells.extend(ranks.iter().map(|column| cell_of(column.of(&l.figure.percentiles))));
            cells.extend(
                due_ranks
                    .iter()
                    .map(|column| due(l).map_or_else(String::new, |p| cell_of(column.of(&p)))),
            );
            cells.push(
                t.cpu_ns_per_sample.map_or_else(|| "–".to_owned(), |ns| escape(&duration_ns(ns))),
            );
            cells.extend([t.late, t.missed, t.all_not_sent()].map(count));
            cells.push(torn(t));
            table.row(&escape(&l.topic), &cells);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    // Unfolds the table of a few links, and folds that of many.
    let open = if all().all(|c| c.by_link.len() <= 8) { " open" } else { "" };
    format!("<details{open}><summary>Links one by one</summary>{}</details>\n", table.finish())
}

/// Renders the latency of each subscriber, and how often it was the last.
fn subscribers(e: &ExperimentResult) -> String {
    let ranks =
        columns(e.measured().flat_map(|c| &c.subscribers).map(|s| &s.transport.percentiles));
    let greatest = !ranks.contains(&Measure::Greatest);
    let mut head = vec!["subscriber", "n"];
    head.extend(ranks.iter().map(|c| c.label()));
    head.extend(Some("greatest").filter(|_| greatest).into_iter().chain(["was the last"]));
    let mut table = Table::new("", &head, true);
    for (c, fair) in e
        .measured()
        .map(|c| (c, c.fairness()))
        .filter(|(c, fair)| !c.subscribers.is_empty() || fair.is_some())
    {
        // Subscribers that received nothing have no row.
        let served = fair.filter(|f| f.served < f.subscribers);
        let served = served
            .map_or_else(String::new, |f| format!(" ({} of {} served)", f.served, f.subscribers));
        table.group(&format!("{} · {}{served}", c.case.cell, c.name()), head.len());
        for s in &c.subscribers {
            let p = &s.transport.percentiles;
            let last =
                s.last_share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
            let mut cells = vec![p.n.to_string()];
            cells.extend(ranks.iter().map(|column| cell_of(column.of(p))));
            cells.extend(Some(cell_of(p.max)).filter(|_| greatest).into_iter().chain([last]));
            table.row(&escape(&s.name), &cells);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>Subscribers one by one</summary>{}<p class=legend>Was the last: share \
         of the samples that all received for which it took longest.</p></details>\n",
        table.finish()
    )
}

/// Renders a table that all outputs have; nothing if it is empty.
fn rows(of: &Rows) -> String {
    let head: Vec<&str> =
        [of.about].into_iter().chain(of.head.iter().map(String::as_str)).collect();
    let mut table = Table::new("", &head, true);
    let mut cell = None;
    for row in &of.rows {
        if cell.replace(&row.cell) != Some(&row.cell) && !row.cell.is_empty() {
            table.group(&row.cell, head.len());
        }
        table.row(
            &escape(&row.name),
            &row.cells.iter().map(|cell| or_few(cell)).collect::<Vec<_>>(),
        );
    }
    if of.is_empty() { String::new() } else { table.finish() }
}

/// Renders the lateness of samples, for readers that expect them when they are due.
fn since_due(e: &ExperimentResult) -> String {
    let table = rows(&further::since_due(e));
    if table.is_empty() {
        return table;
    }
    format!(
        "<h3>From when samples were due</h3>{table}<p class=legend>Transport is from publish() \
         until the sample is in hand, since due from when the schedule had it published: \
         what the sender was late is in that. Of all subscribers together.</p>\n"
    )
}

/// Renders the stalls of streams.
fn between_arrivals(e: &ExperimentResult) -> String {
    let table = rows(&further::between_arrivals(e));
    if table.is_empty() {
        return table;
    }
    format!(
        "<h3>Between arrivals</h3>{table}<p class=legend>From one sample in hand to the next: a \
         stall is in the tail, and what was lost makes it longer.</p>\n"
    )
}

/// Renders latency as driven distance.
fn road(e: &ExperimentResult) -> String {
    let mut head = vec!["system".to_owned(), "latency".to_owned()];
    head.extend(SPEEDS_KMH.iter().map(|v| format!("at {v:.0} km/h")));
    let head: Vec<&str> = head.iter().map(String::as_str).collect();
    let mut table = Table::new("", &head, true);
    for cell in e.cells() {
        // A reaction does not depend on the time between two arrivals, nor on a start-up.
        let is_latency = |of: &Compared| {
            ![Metric::BetweenArrivals, Metric::StartPublisher].map(Compared::Metric).contains(of)
        };
        let latencies = |c: &'_ CaseResult| {
            c.headline().filter(|(of, _)| is_latency(of)).map(|(_, f)| f.percentiles)
        };
        let rows: Vec<_> = e.in_cell(cell).filter_map(|c| latencies(c).map(|p| (c, p))).collect();
        if rows.is_empty() {
            continue;
        }
        table.group(cell, head.len());
        for (c, p) in rows {
            let tail = [Measure::P99, Measure::P95, Measure::Greatest]
                .into_iter()
                .find_map(|c| Some((c.of(&p)?, c)));
            let Some((ns, which)) = tail.map(|(ns, c)| {
                (ns, if c == Measure::Greatest { "greatest of the few" } else { c.label() })
            }) else {
                continue;
            };
            let mut cells = vec![format!("{} {}", escape(&duration_ns(ns as f64)), small(which))];
            cells.extend(SPEEDS_KMH.iter().map(|v| escape(&distance(v / 3.6 * ns as f64 / 1e9))));
            table.row(&escape(&c.name()), &cells);
        }
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>What it means on the road</summary><p class=legend>Reaction distance: \
         how far a car drives while the sample is on its way (speed times latency). \
         Each hop of a chain adds its own.</p>{}</details>\n",
        table.finish()
    )
}

fn distance(metres: f64) -> String {
    match metres {
        m if m < 1e-3 => format!("{} µm", digits(m * 1e6)),
        m if m < 1.0 => format!("{} mm", digits(m * 1e3)),
        m => format!("{} m", digits(m)),
    }
}

/// Renders the papers' figures next to those of this machine.
fn published(e: &ExperimentResult) -> String {
    let table = rows(&Literature::of(e, false).rows);
    if table.is_empty() {
        return table;
    }
    format!("<h3>Published, and measured here</h3>{table}<p class=legend>{}</p>\n", escape(TO_KNOW))
}

/// Renders a cell that may have a note about too few samples.
fn or_few(cell: &str) -> String {
    if cell == TOO_SMALL { few() } else { escape(cell) }
}

/// Renders the accounts of all due samples.
fn accounts(e: &ExperimentResult) -> String {
    let is_watched = e.measured().any(|c| c.switches_per_sample().is_some());
    let mut head = vec![
        "case",
        "runs that count",
        "scheduled",
        "sent",
        "not sent",
        "due at readers",
        "received",
        "late",
        "lost",
        "torn",
        "wake calls",
    ];
    head.extend(Some("context switches").filter(|_| is_watched));
    let mut table = Table::new("", &head, true);
    for c in e.cases.iter().filter(|c| c.has_deliveries()) {
        let t = &c.totals;
        let reasons: Vec<String> =
            t.not_sent.iter().map(|(reason, n)| format!("{n}: {reason}")).collect();
        let mut cells = vec![
            format!("{} of {}", c.valid_runs(), c.runs.len()),
            t.scheduled.to_string(),
            t.sent.to_string(),
            if reasons.is_empty() {
                "0".into()
            } else {
                format!("<span class=bad>{}</span>", sentence(&reasons.join("; ")))
            },
            t.deliveries.to_string(),
            t.received.to_string(),
            count(t.late),
            count(t.missed),
            torn(t),
            t.wake_calls_per_publish.map_or_else(String::new, |w| format!("{w:.2}")),
        ];
        cells.extend(
            Some(c.switches_per_sample().map_or_else(String::new, digits)).filter(|_| is_watched),
        );
        table.row(&escape(&c.case.id), &cells);
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<details><summary>Accounts: scheduled = sent + not sent, sent = received + \
         lost</summary>{}<p class=legend>Late: more than one period after it was due. \
         'Not sent' includes samples of the warm-up. Wake calls: system calls per \
         publish.{}</p></details>\n",
        table.finish(),
        if is_watched {
            " Context switches: of all ends together per sample, what they do before and after the \
             samples included."
        } else {
            ""
        }
    )
}

fn control(e: &ExperimentResult) -> String {
    let table = rows(&further::floors(e));
    if table.is_empty() {
        return table;
    }
    format!(
        "<h3>Floors, and the A/A control</h3>{table}<p class=legend>A floor is what the machine \
         does without any middleware: one word from end to end, or one copy of a payload (memcpy). \
         The word is measured twice, as two systems, which shows how far from 1 two equal things \
         come here. Smaller differences between systems mean nothing.{}</p>\n",
        if floors_and_doubles(e).any(CaseResult::is_driveline) {
            " Where a cell has no floor, Driveline is measured twice instead."
        } else {
            ""
        }
    )
}

/// Renders the results of the middleware's own latency tools for the same links.
fn own_tools(e: &ExperimentResult) -> String {
    let head = ["case", "tool", "what", "it says", "here", "÷ tool", "verdict"];
    let mut table = Table::new("", &head, true);
    for (c, a) in e.cases.iter().filter_map(|c| c.own_tool.as_ref().map(|a| (c, a))) {
        let verdict = match a.verdict {
            Verdict::Differs => {
                format!("<span class=bad>{}: the row is invalid</span>", escape(&a.in_words()))
            }
            Verdict::Agrees | Verdict::NTooSmall => escape(&a.in_words()),
        };
        table.row(
            &escape(&c.case.id),
            &[
                escape(&format!("{} {}", a.tool, a.version)),
                a.averages_of.map_or_else(|| "p50".to_owned(), |n| format!("averages of {n}, p50")),
                escape(&duration_ns(a.tool_p50_ns as f64)),
                escape(&duration_ns(a.ours_p50_ns as f64)),
                ratio_of(Some(&a.ratio)),
                verdict,
            ],
        );
    }
    if table.is_empty() {
        return String::new();
    }
    format!(
        "<h3>Compared with the middleware's own tools</h3>{}<p class=legend>A row is invalid if \
         the 95 % interval of the ratio lies beyond {:.0} % off what the latency tool of the \
         middleware itself says. Where it includes that limit, n is too small to say. A tool that \
         says averages only is compared with averages of as many samples. A tool that measures in \
         its own way is compared with a variant that does so, too; if it contradicts that, the row \
         with the usual settings is not confirmed.{}</p>",
        table.finish(),
        driveline_bench::TOLERANCE * 100.0,
        not_confirmed(e)
            .map(|line| format!(" <span class=bad>Not confirmed</span> is {}.", sentence(&line)))
            .collect::<String>()
    )
}

fn invalid(e: &ExperimentResult) -> String {
    let mut table = Table::new("", &["run", "why it does not count"], false);
    for c in &e.cases {
        for r in c.runs.iter().filter(|r| !r.reasons.is_empty()) {
            table.row(
                &format!("{}, round {}", escape(&c.case.id), r.round + 1),
                &[sentence(&r.reasons.join("; "))],
            );
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        format!("<h3>Invalid runs</h3>{}", table.finish())
    }
}

fn left_out_of(e: &ExperimentResult, shared: &[LeftOut]) -> String {
    let (rendered_once, own): (Vec<&LeftOut>, Vec<&LeftOut>) =
        e.left_out.iter().partition(|l| l.is_among(shared));
    let mut out = left_out(own);
    if !rendered_once.is_empty() {
        let _ = write!(
            out,
            "<p>Parts left out of other experiments as well are listed <a \
             href=\"#{LEFT_OUT}\">once for all</a>.</p>"
        );
    }
    if out.is_empty() { out } else { format!("<h3>Left out</h3>{out}") }
}

/// Anchor of the part of the page about parts that several experiments leave out.
pub(super) const LEFT_OUT: &str = "left-out";

/// Renders the parts that are not measured, with reasons; empty if everything is.
pub(super) fn left_out<'a>(list: impl IntoIterator<Item = &'a LeftOut>) -> String {
    let mut table = Table::new("", &["what", "why, and how to add it"], false);
    let mut place = "";
    for l in list {
        table.row(&escape(&l.what), &[sentence(&l.rendered())]);
        if l.reason.contains("not installed") {
            place = driveline_bench::peers::PLACE;
        }
    }
    if table.is_empty() {
        String::new()
    } else {
        format!("{}<p class=legend>{}</p>", table.finish(), sentence(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_printed_in_usual_units() {
        // 112 km/h is 31.1 m/s.
        let at = |ns: f64| distance(112.0 / 3.6 * ns / 1e9);
        assert_eq!([4e3, 1e6, 100e6].map(at), ["124 µm", "31.1 mm", "3.11 m"]);
    }
}
