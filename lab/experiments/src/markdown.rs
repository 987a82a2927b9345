// SPDX-License-Identifier: Apache-2.0
//! The summary of an analysis as Markdown, to be published: for each experiment the table of
//! latencies as on the terminal, the answers, further tables, published figures, results of the
//! middleware's own tools, runs that do not count, parts left out, work of a chain's stages, and
//! the scenario's notes.

use crate::analysis::{Analysis, CaseResult, Criterion, ExperimentResult, remark};
use crate::archive::{Experiment, Manifest, Role};
use crate::chain::{self, TRANSMISSION};
use crate::further;
use crate::latencies::{Column, Extent, Latencies, RatioTo, Value};
use crate::literature::{self, Literature};
use crate::rows::Rows;
use crate::scenario::AnswerSpec;
use crate::table::{
    about_goodput, date, few_rounds, is_driveline_again, not_confirmed, ratio, remarks,
};
use driveline_bench::harness::Pace;
use driveline_bench::{Agreement, Metric};
use driveline_terminal::figures::microseconds;
use driveline_terminal::table::Columns;
use std::fmt::Write as _;

/// Text for too few samples, or an unknown value.
const NOTHING: &str = "–";

/// Returns the summary.
#[must_use]
pub(crate) fn summary(m: &Manifest, a: &Analysis) -> String {
    let mut text = String::new();
    for (e, planned) in a.experiments.iter().zip(&m.experiments) {
        experiment(&mut text, m, e, planned);
    }
    for line in remarks(m, a, None) {
        let _ = writeln!(text, "{line}\n");
    }
    text.truncate(text.trim_end().len());
    text + "\n"
}

fn experiment(text: &mut String, m: &Manifest, e: &ExperimentResult, planned: &Experiment) {
    let rounds = if planned.rounds == 1 {
        "1 round".to_owned()
    } else {
        format!("{} rounds", planned.rounds)
    };
    let _ = writeln!(text, "### {} · {}\n", e.id, escaped(&e.title));
    let _ = writeln!(
        text,
        "Times without a unit are microseconds; {rounds}; commit {}, begun {}; {}. Ratios have 95 \
         % intervals over rounds; {NOTHING} stands where there are too few samples.\n",
        escaped(&m.commit),
        escaped(&date(&m.started_at)),
        code(&m.command.join(" ").replace('\n', " "))
    );
    let of = Latencies::of(e, Extent::Floors);
    let table = table(e, &of);
    if table.is_empty() {
        let _ =
            writeln!(text, "{}\n", e.answer.lines().map(escaped).collect::<Vec<_>>().join("\n"));
    } else {
        let _ = writeln!(text, "{}", table.markdown());
        if let Some(line) = of.too_few() {
            let _ = writeln!(text, "{line}\n");
        }
        if e.measured().any(|c| c.criterion() == Criterion::Goodput) {
            let _ = writeln!(text, "{}.\n", about_goodput());
        }
    }
    for line in chain::end_to_end(e) {
        let _ = writeln!(text, "{}\n", escaped(&line));
    }
    transmission(text, e);
    answers(text, e, planned.scenario.answer);
    key_figures(text, e);
    layers(text, e);
    let start_up = further::start_up(e);
    rows(text, &start_up);
    if !start_up.is_empty() {
        let _ = writeln!(text, "{}\n", further::START_UP);
    }
    rows(text, &further::at_rest(e));
    rows(text, &further::since_due(e));
    rows(text, &further::between_arrivals(e));
    fairness(text, e);
    published(text, e);
    own_tools(text, e);
    invalid(text, e);
    left_out(text, e);
    let works = chain::works(e)
        .into_iter()
        .map(|(stage, what)| format!("{}: {}", escaped(stage), escaped(&what)));
    list(text, "What the stages do", &works.collect::<Vec<_>>());
    list(text, "Notes", &e.notes.iter().map(|n| escaped(n)).collect::<Vec<_>>());
}

/// Writes a list under a line; nothing if it is empty.
fn list(text: &mut String, about: &str, items: &[String]) {
    if !items.is_empty() {
        let _ = writeln!(text, "{about}:\n");
        for item in items {
            let _ = writeln!(text, "- {item}");
        }
        text.push('\n');
    }
}

/// Writes the answer to the question, system by system.
fn answers(text: &mut String, e: &ExperimentResult, about: Option<AnswerSpec>) {
    // The answer on fairness is a table of its own, with all cells.
    if about == Some(AnswerSpec::Fairness) {
        return;
    }
    for answer in crate::analysis::answers(e, about) {
        list(
            text,
            &escaped(&answer.about),
            &answer.systems.iter().map(|s| escaped(s)).collect::<Vec<_>>(),
        );
    }
    let remark = remark(e, about);
    if !remark.is_empty() {
        let _ = writeln!(text, "{}\n", escaped(&remark));
    }
}

/// Writes the cost of transmission, compared with the work of a chain's stages.
fn transmission(text: &mut String, e: &ExperimentResult) {
    let Some(of) = chain::transmission(e) else { return };
    let mut table =
        Columns::new(&[TRANSMISSION, "system"].into_iter().chain(of.columns).collect::<Vec<_>>());
    for row in of.rows {
        table.row([row.cell.to_owned(), row.name].into_iter().chain(row.shares).collect());
    }
    let _ = writeln!(text, "{}", table.markdown());
    if let Some(missing) = of.missing {
        let _ = writeln!(text, "{}\n", escaped(missing));
    }
}

/// Writes the differences between subscribers of the same link.
fn fairness(text: &mut String, e: &ExperimentResult) {
    let head = [
        "transport of subscribers",
        "system",
        "first, p50",
        "last, p50",
        "last ÷ first",
        "most often the last",
        "for",
    ];
    let mut table = Columns::new(&head);
    for (c, f) in e.measured().filter_map(|c| Some((c, c.fairness()?))) {
        let served = if f.served < f.subscribers {
            format!(" ({} of {} served)", f.served, f.subscribers)
        } else {
            String::new()
        };
        let apart = f.last_to_first();
        let (first, last) = f.medians.unzip();
        let (share, who) = f.most_often_last.unzip();
        table.row(vec![
            format!("{}{served}", c.case.cell),
            c.name(),
            first.map_or_else(nothing, |ns| microseconds(ns as f64)),
            last.map_or_else(nothing, |ns| microseconds(ns as f64)),
            apart.map_or_else(nothing, ratio),
            who.unwrap_or_else(nothing),
            share.map_or_else(nothing, |share| format!("{:.0} %", share * 100.0)),
        ]);
    }
    if !table.is_empty() {
        let _ = writeln!(text, "{}", table.markdown());
    }
}

/// Writes key figures of graphs, resource use of processes, and parts of latencies.
fn key_figures(text: &mut String, e: &ExperimentResult) {
    let figures = further::key_figures(e);
    rows(text, &figures);
    if !figures.is_empty() {
        let _ = writeln!(text, "{}\n", further::explained(e));
    }
    rows(text, &further::split(e));
    rows(text, &further::channels(e));
}

/// Writes the parts of a sample's path, if the question is about them.
fn layers(text: &mut String, e: &ExperimentResult) {
    if e.measured().any(|c| c.case.figure == Metric::FillAndTransport) {
        rows(text, &further::layers(e));
    }
}

/// Writes a table that all outputs have; nothing if it is empty.
fn rows(text: &mut String, rows: &Rows) {
    if !rows.is_empty() {
        let _ = writeln!(text, "{}", rows.markdown());
    }
}

/// Writes published figures, with figures measured here.
fn published(text: &mut String, e: &ExperimentResult) {
    let rendered = Literature::of(e, false).rows;
    rows(text, &rendered);
    if !rendered.is_empty() {
        let _ = writeln!(text, "{}\n", literature::TO_KNOW);
    }
}

/// Writes the results of the middleware's own latency tools for the same links.
fn own_tools(text: &mut String, e: &ExperimentResult) {
    let agreements = e.cases.iter().filter_map(|c| Some((c, c.own_tool.as_ref()?)));
    let line = |(c, agreement): (&CaseResult, &Agreement)| {
        format!(
            "{}{}: {}",
            if agreement.contradicts() { "INVALID " } else { "" },
            escaped(&c.case.id),
            escaped(&agreement.to_string())
        )
    };
    let mut lines: Vec<String> = agreements.map(line).collect();
    lines.extend(not_confirmed(e).map(|line| format!("NOT CONFIRMED {}", escaped(&line))));
    list(text, "Compared with the middleware's own tools", &lines);
}

/// Writes the reasons why runs are invalid: for each case every reason once, with its rounds.
fn invalid(text: &mut String, e: &ExperimentResult) {
    let mut items = Vec::new();
    for c in &e.cases {
        let mut rendered: Vec<(String, Vec<String>)> = Vec::new();
        for r in c.runs.iter().filter(|r| !r.reasons.is_empty()) {
            let (reason, round) = (r.reasons.join("; "), (r.round + 1).to_string());
            match rendered.iter_mut().find(|(other, _)| *other == reason) {
                Some((_, rounds)) => rounds.push(round),
                None => rendered.push((reason, vec![round])),
            }
        }
        items.extend(rendered.into_iter().map(|(reason, rounds)| {
            let word = if rounds.len() == 1 { "round" } else { "rounds" };
            format!("{}, {word} {}: {}", escaped(&c.case.id), rounds.join(", "), escaped(&reason))
        }));
    }
    list(text, "Runs that do not count", &items);
}

/// Writes the parts that are not measured, with reason and remedy; parts with the same reason share
/// a line.
fn left_out(text: &mut String, e: &ExperimentResult) {
    let mut rendered: Vec<(String, Vec<&str>)> = Vec::new();
    for l in &e.left_out {
        match rendered.iter_mut().find(|(reason, _)| *reason == l.rendered()) {
            Some((_, what)) => what.push(&l.what),
            None => rendered.push((l.rendered(), vec![&l.what])),
        }
    }
    let items: Vec<String> = rendered
        .iter()
        .map(|(reason, what)| format!("{}: {}", escaped(&what.join(", ")), escaped(reason)))
        .collect();
    list(text, "Left out", &items);
}

/// Returns the rows of the table of latencies under their head.
fn table(e: &ExperimentResult, of: &Latencies) -> Columns {
    let mut labels: Vec<String> = e.measured().filter_map(CaseResult::compared_label).collect();
    labels.dedup();
    // The column of goodput has its own label.
    let label = labels.first().filter(|_| labels.len() == 1 && !of.has_goodput());
    let mut head = vec![label.cloned().unwrap_or_default(), "system".into()];
    head.extend(of.columns.iter().map(|column| match column {
        Column::Cpu => cpu_label(e).to_owned(),
        column => of.label(*column),
    }));
    let mut table = Columns::new(&head.iter().map(String::as_str).collect::<Vec<_>>());
    for c in of.rows() {
        let measured = c.case.role == Role::Measured;
        let place = match c.compared_label() {
            _ if is_driveline_again(c) => format!("{}, again (A/A)", c.case.cell),
            _ if c.case.role == Role::Control => format!("floor, {}, again (A/A)", c.case.cell),
            _ if !measured => format!("floor, {}", c.case.cell),
            Some(of) if labels.len() > 1 => format!("{} ({of})", c.case.cell),
            _ => c.case.cell.clone(),
        };
        let mut row = vec![place, c.name_with_doubt()];
        row.extend(of.columns.iter().map(|column| written(&of.value(c, *column))));
        table.row(row);
    }
    table
}

/// Returns the text of a value; times are in microseconds.
fn written(value: &Value) -> String {
    match value {
        Value::Empty => String::new(),
        Value::Text(text) | Value::Without(text) => text.clone(),
        Value::Time(ns) => ns.map_or_else(nothing, microseconds),
        Value::Ratio(ratio) => interval(ratio),
        Value::Itself => "1".to_owned(),
        Value::Cpu(ns, without) => {
            ns.map_or_else(nothing, |ns| format!("{}{without}", microseconds(ns)))
        }
        Value::Problems(n) => n.map_or_else(nothing, |n| n.to_string()),
    }
}

/// Returns the text escaped for Markdown and on one line, because a second line could begin a
/// heading.
fn escaped(text: &str) -> String {
    let on_one_line = |c: char| if c == '\n' { ' ' } else { c };
    text.chars()
        .map(on_one_line)
        .flat_map(|c| "\\`*_[<&".contains(c).then_some('\\').into_iter().chain([c]))
        .collect()
}

/// Returns the text as code, between more backticks than it has in a row.
fn code(text: &str) -> String {
    let longest = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    if longest == 0 { format!("`{text}`") } else { format!("{fence} {text} {fence}") }
}

fn nothing() -> String {
    NOTHING.to_owned()
}

/// Returns `1.19 (1.06–1.53)`, and its divisor if it is not that of the column.
fn interval(r: &RatioTo) -> String {
    let to = r.other.map_or_else(String::new, |other| format!(" ÷ {other}"));
    r.interval.map_or_else(nothing, |i| {
        let bounds = if i.rounds == 1 {
            String::new()
        } else {
            format!(" ({}–{})", ratio(i.low), ratio(i.high))
        };
        format!("{}{bounds}{}{to}", ratio(i.estimate), few_rounds(i))
    })
}

/// Returns the label of processor time. In a ping-pong, the time is that of a whole round trip.
fn cpu_label(e: &ExperimentResult) -> &'static str {
    let links = || e.measured().filter(|c| c.case.measure.is_none()).flat_map(|c| &c.case.links);
    let is_ping_pong = |l: &crate::archive::Link| l.pace == Pace::PingPong;
    match (links().any(is_ping_pong), links().all(is_ping_pong)) {
        (false, _) => "CPU per message",
        (true, true) => "CPU per round",
        _ => "CPU per message, or round of a ping-pong",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_are_no_markdown() {
        assert_eq!(escaped("a `b` <i>\n# c"), "a \\`b\\` \\<i> # c");
        assert_eq!([code("run S1"), code("run `x`")], ["`run S1`", "`` run `x` ``"]);
    }
}
