// SPDX-License-Identifier: Apache-2.0
//! Tables of the figures of a run, fitted to the number of columns.
//!
//! If there are enough columns, each column has a complete head. Otherwise, as on a terminal of 80
//! columns, heads are shortened and stand over groups of columns; if that is not enough, names are
//! cut.

use super::live::{COLUMN_HEADS, Line};
use crate::text::cut;
use driveline_analyze::{EndToEnd, Quantiles, ServiceSummary, StageSummary, Summary};
use driveline_runtime::account::CallEnd;
use driveline_terminal::figures::duration_us;
use driveline_terminal::table::{Align, aligned};

/// Minimum length of a cut name.
const SHORTEST_NAME: usize = 8;

/// Separates the source and the sink of a path.
const ARROW: &str = " → ";

type Row = Vec<String>;

/// Returns the lines on the components' work.
pub(super) fn stages(summary: &Summary, columns: usize) -> Vec<Line> {
    let mut wide = vec![
        "COMPONENT",
        "RUNS",
        "FAILED",
        "TRANSMISSION p50",
        "p99",
        "PROCESSING p50",
        "p99",
        "MISSED",
        "SUPERSEDED",
    ];
    let mut narrow =
        vec!["COMPONENT", "RUNS", "FAILED", "p50", "p99", "p50", "p99", "MISSED", "SUPERS."];
    let groups = [(3, 2, "TRANSMISSION"), (5, 2, "PROCESSING")];
    let mut rows: Vec<Row> = summary.stages.iter().map(|s| stage(s, summary)).collect();
    // During a run, unread samples are normal, so the column is shown only afterwards.
    if summary.ended.is_some()
        && summary.subscriptions.iter().any(|s| s.not_read > 0 || s.unknown.is_some())
    {
        wide.push("NOT READ");
        narrow.push("UNREAD");
        rows.iter_mut().zip(&summary.stages).for_each(|(row, s)| row.push(not_read(s, summary)));
    }
    table(&wide, &narrow, &groups, rows, columns)
}

/// Returns the lines on the age of the sensors' data at the sinks.
pub(super) fn ends(summary: &Summary, columns: usize) -> Vec<Line> {
    if summary.end_to_end.is_empty() {
        return Vec::new();
    }
    let speed = summary.end_to_end.iter().find_map(|e| e.reaction_distance).map(|r| r.speed_kmh);
    let way = speed.map(|s| [format!("WAY AT {s} km/h p50"), format!("AT {s} km/h")]);
    // The parts of the median follow it directly, as a sum.
    let mut wide = vec![
        "END TO END",
        "AGE p50",
        "= COMMUNICATION",
        "+ COMPUTATION",
        "+ IDLE",
        "AGE p99",
        "NEWEST p50",
    ];
    let mut narrow = vec!["END TO END", "AGE p50", "= COMM.", "+ COMP.", "+ IDLE", "p99", "NEWEST"];
    if let Some([long, short]) = &way {
        wide.push(long);
        narrow.push(short);
    }
    table(&wide, &narrow, &[], summary.end_to_end.iter().map(end_to_end).collect(), columns)
}

/// Returns the lines on the calls of services.
pub(super) fn services(summary: &Summary, columns: usize) -> Vec<Line> {
    if summary.services.is_empty() {
        return Vec::new();
    }
    let head = ["SERVICE", "CALLS", "ANSWERED", "FAILED", "TIMED OUT"];
    table(&head, &head, &[], summary.services.iter().map(service).collect(), columns)
}

/// Formats an end of a service, such as `asker calls math/add`.
pub(super) fn end_of_service(s: &ServiceSummary) -> String {
    let does = match s.end {
        CallEnd::Client => "calls",
        CallEnd::Server => "serves",
    };
    format!("{} {does} {}", s.stage, s.service)
}

fn service(s: &ServiceSummary) -> Row {
    // A server does not know which calls timed out.
    let timed_out =
        if s.end == CallEnd::Client { s.calls.timed_out.to_string() } else { "-".to_owned() };
    vec![
        end_of_service(s),
        s.calls.calls.to_string(),
        s.calls.answered.to_string(),
        s.failed().to_string(),
        timed_out,
    ]
}

pub(super) fn table(
    wide: &[&str],
    narrow: &[&str],
    groups: &[(usize, usize, &str)],
    rows: Vec<Row>,
    columns: usize,
) -> Vec<Line> {
    let align: Vec<Align> =
        (0..wide.len()).map(|i| if i == 0 { Align::Left } else { Align::Right }).collect();
    let with = |heads: &[&str], rows: &[Row]| -> Vec<Row> {
        let heads = heads.iter().map(|h| (*h).to_owned()).collect();
        std::iter::once(heads).chain(rows.iter().cloned()).collect()
    };
    let width = |lines: &[String]| lines.iter().map(|l| l.chars().count()).max().unwrap_or(0);
    let styled = |lines: Vec<String>, heads: usize| -> Vec<Line> {
        let style = |i| if i < heads { COLUMN_HEADS } else { "" };
        lines.into_iter().enumerate().map(|(i, text)| Line { text, style: style(i) }).collect()
    };
    let text = aligned(&align, &with(wide, &rows));
    if width(&text) <= columns {
        return styled(text, 1);
    }
    let rows =
        if rows.iter().enumerate().all(|(i, r)| rows[..i].iter().all(|o| end_of(o) != end_of(r))) {
            // Each sink has one row, so its name is enough and the rest of the path is dropped.
            rows.into_iter()
                .map(|mut r| {
                    r[0] = end_of(&r).to_owned();
                    r
                })
                .collect()
        } else {
            rows
        };
    let mut rows = with(narrow, &rows);
    let surplus = width(&aligned(&align, &rows)).saturating_sub(columns);
    let longest = rows.iter().map(|r| r[0].chars().count()).max().unwrap_or(0);
    for row in &mut rows {
        row[0] = cut(&row[0], longest.saturating_sub(surplus).max(SHORTEST_NAME));
    }
    let mut text = aligned(&align, &rows);
    if groups.is_empty() {
        return styled(text, 1);
    }
    text.insert(0, over(groups, &rows));
    styled(text, 2)
}

/// Returns the name of a row without the path before its sink.
fn end_of(row: &Row) -> &str {
    row[0].split_once(ARROW).map_or(&row[0], |(_, end)| end)
}

/// Returns a line with the heads of groups of columns. Each head ends where the last column of its
/// group ends.
fn over(groups: &[(usize, usize, &str)], rows: &[Row]) -> String {
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let end =
        |column: usize| (0..=column).map(|c| width(c) + if c == 0 { 0 } else { 2 }).sum::<usize>();
    let mut line = String::new();
    for &(first, count, name) in groups {
        let room = end(first + count - 1).saturating_sub(line.chars().count());
        line += &format!("{name:>room$}");
    }
    line
}

fn stage(s: &StageSummary, summary: &Summary) -> Row {
    let lost = |triggers: bool| -> String {
        let inputs =
            summary.subscriptions.iter().filter(|i| i.stage == s.stage && i.triggers == triggers);
        inputs.map(|i| i.missed).fold(0, u64::saturating_add).to_string()
    };
    let quantiles = |q: &Quantiles| {
        if q.n == 0 {
            ["-".to_owned(), "-".to_owned()]
        } else {
            [duration_us(q.p50), duration_us(q.p99)]
        }
    };
    let [t50, t99] = quantiles(&s.transmission_us);
    let [p50, p99] = quantiles(&s.processing_us);
    vec![
        s.stage.clone(),
        s.runs.to_string(),
        s.failed.saturating_add(s.failed_events).to_string(),
        t50,
        t99,
        p50,
        p99,
        lost(true),
        lost(false),
    ]
}

fn not_read(s: &StageSummary, summary: &Summary) -> String {
    let inputs = || summary.subscriptions.iter().filter(|i| i.stage == s.stage);
    let known = inputs().map(|i| i.not_read).fold(0, u64::saturating_add);
    if inputs().any(|i| i.unknown.is_some()) { format!("{known} + ?") } else { known.to_string() }
}

fn end_to_end(e: &EndToEnd) -> Row {
    let mut row = vec![format!("{}{ARROW}{}", e.origin, e.stage), duration_us(e.age_us.p50)];
    row.extend(
        [
            e.p50.communication_us,
            e.p50.computation_us,
            e.p50.idle_us,
            e.age_us.p99,
            e.newest_age_us.p50,
        ]
        .map(duration_us),
    );
    row.extend(e.reaction_distance.map(|r| format!("{:.2} m", r.p50_m)));
    row
}
