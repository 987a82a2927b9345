// SPDX-License-Identifier: Apache-2.0
//! The plots of a report. Their size does not grow with the length of the run.

use super::chart::{Axis, Chart, MAX_SERIES, Row, legend, stacked_rows};
use super::scale::{Scale, duration, grouped, percent, significant};
use crate::collector::{Collector, StageSeries};
use crate::escape::escape;
use crate::quantiles::{Rank, us};
use crate::series::{Growth, Series};
use crate::summary::{EndToEnd, Split, Summary};
use driveline_types::MonotonicNs;
use std::fmt::Write;

/// Maximum number of stages with a histogram of their own.
const MAX_HISTOGRAMS: usize = 12;
/// Number of points of a curve, or of intervals in a timeline: more could not be distinguished.
const RESOLUTION: usize = 300;
const BINS_PER_DECADE: f64 = 12.0;
/// Bars of ages are cut off at so many times the greatest median.
const MOST_TIMES_MEDIAN: f64 = 10.0;

const PARTS: [(&str, &str); 3] = [
    ("communication", "communication"),
    ("computation", "computation"),
    ("idle", "waiting (idle)"),
];

/// Draws the parts of the data's age at the end of each stage, with percentiles for sinks.
pub(super) fn age_split(summary: &Summary) -> Option<String> {
    let row = |e: &EndToEnd, what: &str, split: &Split, emphasised: bool| Row {
        label: format!("{} → {}{what}", e.origin, e.stage),
        emphasised,
        parts: vec![
            ("communication", split.communication_us),
            ("computation", split.computation_us),
            ("idle", split.idle_us),
        ],
        end: format!(
            "{}, {} communication",
            duration(split.total_us()),
            percent(split.communication_us, split.total_us())
        ),
    };
    let mut rows: Vec<Row> =
        summary.along_the_way.iter().map(|e| row(e, ", mean", &e.mean, false)).collect();
    for e in &summary.end_to_end {
        rows.push(row(e, ", mean", &e.mean, true));
        rows.push(row(e, ", p50", &e.p50, true));
        rows.push(row(e, ", p99", &e.p99, true));
    }
    if rows.is_empty() {
        return None;
    }
    // A p99 of seconds must not hide a median of milliseconds.
    let middle = summary.end_to_end.iter().map(|e| e.p50.total_us()).fold(0.0, f64::max);
    let most = if middle > 0.0 { MOST_TIMES_MEDIAN * middle } else { f64::INFINITY };
    let key = legend(PARTS.iter().map(|&(class, name)| (class.to_owned(), name)));
    let hint = |class: &str, length: f64| format!("{class}: {}", duration(length));
    Some(
        key + &stacked_rows(
            &rows,
            most,
            hint,
            "Age of the sensor data, split into communication, computation and idle",
        ),
    )
}

/// Draws transmission and processing of each stage, side by side on one logarithmic axis.
pub(super) fn histograms(run: &Collector) -> Option<String> {
    let stages: Vec<_> =
        run.stages_in_order().into_iter().filter(|(_, s)| !s.processing.is_empty()).collect();
    let scale = Scale::log_around(stages.iter().flat_map(|(_, s)| values(s)));
    let Scale::Log { min, max } = scale else { return None };
    if stages.is_empty() {
        return None;
    }
    let bins = ((max / min).log10() * BINS_PER_DECADE).ceil() as usize;
    let edge = |i: usize| min * (max / min).powf(i as f64 / bins as f64);
    let count = |series: &Series| {
        let mut counts = vec![0u64; bins];
        let mut n = 0;
        for (ns, samples) in series.weighted() {
            counts[((scale.place(us(ns)) * bins as f64) as usize).min(bins - 1)] += samples;
            n += samples;
        }
        (counts, n.max(1) as f64)
    };
    let mut out = legend(
        [("communication".to_owned(), "transmission"), ("computation".to_owned(), "processing")]
            .into_iter(),
    );
    out.push_str(r#"<div class="multiples">"#);
    for (name, stage) in stages.iter().take(MAX_HISTOGRAMS) {
        let series = [
            ("communication", "transmission", count(&stage.transmission)),
            ("computation", "processing", count(&stage.processing)),
        ];
        let highest = series
            .iter()
            .flat_map(|(_, _, (counts, n))| counts.iter().map(move |&c| c as f64 / n))
            .fold(0.0, f64::max);
        let y = Axis {
            scale: Scale::from_zero(highest * 100.0),
            title: "share, %",
            label: significant,
        };
        let mut chart =
            Chart::new(480.0, 210.0, Axis { scale, title: "duration", label: duration }, y);
        for (class, what, (counts, n)) in &series {
            for (i, &c) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
                let share = c as f64 / n * 100.0;
                let hint = format!(
                    "{what} {}–{}: {c} of {n} ({} %)",
                    duration(edge(i)),
                    duration(edge(i + 1)),
                    significant(share)
                );
                chart.bar(class, edge(i), edge(i + 1), share, &hint);
            }
        }
        let picture = chart.finish(&format!("Histogram of transmission and processing of {name}"));
        let _ = write!(out, "<figure><figcaption>{}</figcaption>{picture}</figure>", escape(name));
    }
    out.push_str("</div>");
    if stages.len() > MAX_HISTOGRAMS {
        let _ = write!(
            out,
            "<p class=note>The first {MAX_HISTOGRAMS} of {} components are shown.</p>",
            stages.len()
        );
    }
    Some(out)
}

/// Draws the share of transmissions of at most a given duration, one curve for each stage.
pub(super) fn transmission_ecdf(run: &Collector) -> Option<String> {
    let mut stages: Vec<(&str, Vec<(i64, u64)>)> = run
        .stages_in_order()
        .into_iter()
        .filter(|(_, s)| !s.transmission.is_empty())
        .map(|(name, s)| (name, s.transmission.weighted()))
        .collect();
    if stages.is_empty() {
        return None;
    }
    // Readers look for the slowest tails.
    stages.sort_by_key(|(_, s)| {
        let n = s.iter().map(|(_, count)| count).sum();
        std::cmp::Reverse(Rank::P99.index(n).and_then(|rank| value_at(s, rank)))
    });
    let total = stages.len();
    stages.truncate(MAX_SERIES);
    let scale =
        Scale::log_around(stages.iter().flat_map(|(_, s)| [us(s[0].0), us(s[s.len() - 1].0)]));
    let y = Axis {
        scale: Scale::exactly(0.0, 100.0),
        title: "share of samples, %",
        label: significant,
    };
    let mut chart =
        Chart::new(980.0, 300.0, Axis { scale, title: "transmission at most", label: duration }, y);
    for (series, (_, samples)) in stages.iter().enumerate() {
        let n: u64 = samples.iter().map(|(_, count)| count).sum();
        let steps = (RESOLUTION as u64).min(n);
        let points = (0..=steps).filter_map(|i| {
            let rank = if i == 0 { 0 } else { (i * n).div_ceil(steps) };
            let value = value_at(samples, rank.max(1) - 1)?;
            Some((us(value), rank as f64 / n as f64 * 100.0))
        });
        chart.steps(series, points);
    }
    let picture = chart.finish("Cumulative distribution of transmission for each component");
    let key = legend(stages.iter().enumerate().map(|(i, (name, _))| (format!("s{i}"), *name)));
    let note = if total > MAX_SERIES {
        format!(
            "<p class=note>The {MAX_SERIES} components with the slowest tails of {total} are \
             shown.</p>"
        )
    } else {
        String::new()
    };
    Some(key + &picture + &note)
}

/// Draws the age at the sinks over the run: lowest and highest value of each interval.
pub(super) fn age_timeline(run: &Collector) -> Option<String> {
    let start = run.first?;
    let mut series: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (name, stage) in run.stages_in_order().into_iter().filter(|(name, _)| run.is_sink(name)) {
        for (&origin, ages) in &stage.ages {
            let span = |&(at, least, most): &(MonotonicNs, i64, i64)| {
                [(seconds(start, at), us(least)), (seconds(start, at), us(most))]
            };
            let mut points: Vec<_> = ages.over_time.points().iter().flat_map(span).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            series.push((format!("{} → {name}", run.topic_name(origin)), points));
        }
    }
    series.truncate(MAX_SERIES);
    let values = || series.iter().flat_map(|(_, p)| p.iter().map(|p| p.1));
    let (lowest, highest) = (values().fold(0.0, f64::min), values().fold(0.0, f64::max));
    if lowest == highest {
        return None;
    }
    let span = run.last.since(start).as_secs_f64();
    let y = Axis {
        scale: Scale::around_zero(lowest / 1e3, highest / 1e3),
        title: "age, ms",
        label: significant,
    };
    let mut chart = Chart::new(
        980.0,
        280.0,
        Axis {
            scale: Scale::exactly(0.0, span),
            title: "time since the start, s",
            label: significant,
        },
        y,
    );
    for (i, (_, points)) in series.iter().enumerate() {
        let stretches = stretches(points, span);
        // In each interval, the line goes from the lowest to the highest value. So it shows the
        // range of the values, and the number of its points does not grow with the run.
        chart.line(i, stretches.iter().flat_map(|s| [(s.at, s.least / 1e3), (s.at, s.most / 1e3)]));
    }
    if let [(name, points)] = series.as_slice() {
        for s in stretches(points, span) {
            let half = span / RESOLUTION as f64 / 2.0;
            let hint = format!(
                "{name}, at {} s: {} to {}",
                significant(s.at),
                duration(s.least),
                duration(s.most)
            );
            chart.hover(s.at - half, s.at + half, &hint);
        }
    }
    let key =
        legend(series.iter().enumerate().map(|(i, (name, _))| (format!("s{i}"), name.as_str())));
    Some(key + &chart.finish("Age of the sensor data at the sinks over time"))
}

/// Draws the number of missed samples over time, for the inputs that missed any.
pub(super) fn missed_timeline(run: &Collector) -> Option<String> {
    let start = run.first?;
    let mut inputs: Vec<(String, &Growth)> = Vec::new();
    for (name, stage) in run.stages_in_order() {
        for (input, series) in stage.inputs.iter().filter(|(_, s)| s.misses.last().is_some()) {
            let superseded = if run.triggers(name, input) { "" } else { " (superseded)" };
            inputs.push((format!("{name}.{input}{superseded}"), &series.misses));
        }
    }
    inputs.sort_by_key(|(_, misses)| std::cmp::Reverse(misses.last().map(|m| m.1)));
    let total = inputs.len();
    inputs.truncate(MAX_SERIES);
    let (_, most) = inputs.first()?.1.last()?;
    let span = run.last.since(start).as_secs_f64();
    let y = Axis { scale: Scale::from_zero(most as f64), title: "missed so far", label: grouped };
    let mut chart = Chart::new(
        980.0,
        220.0,
        Axis {
            scale: Scale::exactly(0.0, span),
            title: "time since the start, s",
            label: significant,
        },
        y,
    );
    for (i, (_, misses)) in inputs.iter().enumerate() {
        let every = misses.points().len().div_ceil(RESOLUTION);
        let last = misses.last().map_or(0, |m| m.1);
        let points = misses
            .points()
            .iter()
            .step_by(every.max(1))
            .map(|&(at, count)| (seconds(start, at), count as f64));
        chart.steps(i, std::iter::once((0.0, 0.0)).chain(points).chain([(span, last as f64)]));
    }
    let key =
        legend(inputs.iter().enumerate().map(|(i, (name, _))| (format!("s{i}"), name.as_str())));
    let note = if total > MAX_SERIES {
        format!("<p class=note>The {MAX_SERIES} inputs that missed most of {total} are shown.</p>")
    } else {
        String::new()
    };
    Some(key + &chart.finish("Missed samples over time") + &note)
}

fn values(stage: &StageSeries) -> impl Iterator<Item = f64> {
    let both = [&stage.transmission, &stage.processing];
    both.into_iter().flat_map(Series::weighted).map(|(ns, _)| us(ns))
}

/// Returns the value of the sample at a rank, counted from 0, from values in rising order with
/// their counts.
fn value_at(samples: &[(i64, u64)], rank: u64) -> Option<i64> {
    let mut below = 0;
    let found = samples.iter().find(|(_, count)| {
        below += count;
        rank < below
    });
    found.map(|(value, _)| *value)
}

fn seconds(start: MonotonicNs, at: MonotonicNs) -> f64 {
    at.since(start).as_secs_f64()
}

struct Stretch {
    at: f64,
    least: f64,
    most: f64,
}

/// Returns the lowest and highest value in each of [`RESOLUTION`] equal intervals that contains a
/// point. `points` are sorted by time.
fn stretches(points: &[(f64, f64)], span: f64) -> Vec<Stretch> {
    let width = (span / RESOLUTION as f64).max(f64::MIN_POSITIVE);
    let mut out: Vec<Stretch> = Vec::new();
    let mut current = usize::MAX;
    for &(at, value) in points {
        let index = (at / width) as usize;
        match out.last_mut() {
            Some(s) if index == current => {
                s.least = s.least.min(value);
                s.most = s.most.max(value);
            }
            _ => out.push(Stretch { at, least: value, most: value }),
        }
        current = index;
    }
    out
}
