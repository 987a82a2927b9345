// SPDX-License-Identifier: Apache-2.0
//! Joins the records of the stages of a chain, and checks that they account for every message.
//!
//! Stages count received and missed messages by the sequence numbers of each edge. The rows of a
//! stage list the same messages by their origin, the number of the source's sample. Counts and rows
//! are compared, so a mistake in either shows.

use super::shape::{COOL_DOWN, Shape};
use super::{OUTPUT_RATE_MHZ, StageAccount};
use crate::harness::{End, read_bounded};
use crate::observations::{Observations, Point, Quantity};
use anyhow::{Context, Result, ensure};
use driveline::types::MonotonicNs;
use std::collections::BTreeMap;
use std::path::Path;

/// Stamps of one message at one stage, in nanoseconds on `CLOCK_MONOTONIC`; 0 for missing ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct StageRow {
    /// Number of the source's sample.
    pub(crate) origin: u64,
    /// Time at which the source published that sample.
    pub(crate) source: u64,
    /// Time at which the triggering message was published.
    pub(crate) published: u64,
    /// Time at which the stage had the triggering message in hand.
    pub(crate) in_hand: u64,
    /// Time at which all inputs were in hand.
    pub(crate) work_start: u64,
    pub(crate) work_end: u64,
    /// Time just before the output was published; 0 if nothing was published.
    pub(crate) before_publish: u64,
    pub(crate) returned: u64,
}

impl StageRow {
    fn from_words(
        [origin, source, published, in_hand, work_start, work_end, before_publish, returned]: [u64;
            8],
    ) -> Self {
        Self { origin, source, published, in_hand, work_start, work_end, before_publish, returned }
    }

    /// Returns the stamps that were taken.
    fn stamps(&self) -> impl Iterator<Item = u64> {
        let all = [
            self.source,
            self.published,
            self.in_hand,
            self.work_start,
            self.work_end,
            self.before_publish,
            self.returned,
        ];
        all.into_iter().filter(|ns| *ns > 0)
    }

    /// Returns the time at which the stage finished the message.
    fn end(&self) -> u64 {
        if self.before_publish > 0 { self.before_publish } else { self.work_end }
    }
}

/// Report of a stage.
#[derive(Clone, Debug)]
pub(crate) struct StageReport {
    pub(crate) end: End,
    pub(crate) stage: StageAccount,
    pub(crate) rows: Vec<StageRow>,
}

impl StageReport {
    pub(crate) fn read(mut end: End, most: usize) -> Result<Self> {
        let stage = end.stage.take().context("it reported nothing about its stage")?;
        let rows = read_rows(&stage.rows_file, most)?;
        Ok(Self { end, stage, rows })
    }

    fn not_sent(&self) -> u64 {
        self.end.not_sent.values().fold(0, |sum, n| sum.saturating_add(*n))
    }
}

fn read_rows(path: &Path, most: usize) -> Result<Vec<StageRow>> {
    let bytes = read_bounded(path, most.saturating_mul(64))
        .with_context(|| format!("cannot read {}", path.display()))?;
    let (words, rest) = bytes.as_chunks::<8>();
    let (rows, odd) = words.as_chunks::<8>();
    ensure!(
        rest.is_empty() && odd.is_empty(),
        "{}: {} bytes are no whole number of rows",
        path.display(),
        bytes.len()
    );
    Ok(rows.iter().map(|row| StageRow::from_words(row.map(u64::from_le_bytes))).collect())
}

/// Accounts for a run, whose first process was started at `since_ns` on `CLOCK_MONOTONIC`.
/// `reports` has an entry for each stage of the job, in its order.
pub(crate) fn account(shape: &Shape<'_>, reports: &[StageReport], since_ns: u64) -> Observations {
    let mut o = Observations::default();
    let now_ns = MonotonicNs::now().0;
    for (index, (stage, t)) in shape.job.stages.iter().zip(reports).enumerate() {
        let name = &stage.name;
        for text in &t.end.unset {
            o.unset.push(format!("{name}: {text}"));
        }
        for (reason, count) in &t.end.not_sent {
            o.counters.insert(format!("not sent by {name}: {reason}"), *count);
        }
        for (what, count) in &t.stage.report {
            o.counters.insert(format!("{name}: {what}"), *count);
        }
        check_totals(shape, reports, index, &mut o);
        check_rows(shape, reports, index, &mut o);
        if t.rows.iter().flat_map(StageRow::stamps).any(|ns| !(since_ns..=now_ns).contains(&ns)) {
            o.invalid.push(format!(
                "the stage '{name}': it has stamps from before the run was started, or that have \
                 not happened yet: they are nanoseconds on CLOCK_MONOTONIC"
            ));
        }
    }
    let counts = |r: &&StageRow| {
        r.origin > shape.job.warm_up && r.origin <= shape.job.warm_up + shape.job.messages
    };
    let sinks: Vec<&str> =
        shape.job.stages.iter().filter(|s| s.output.is_none()).map(|s| s.name.as_str()).collect();
    for &index in &shape.order {
        let (Some(stage), Some(t)) = (shape.job.stages.get(index), reports.get(index)) else {
            continue;
        };
        let rows: Vec<&StageRow> = t.rows.iter().filter(counts).collect();
        let published = rows.iter().filter(|r| r.before_publish > 0).count() as u64;
        let name = stage.name.as_str();
        let at = |r: &StageRow, value| Point { time_ns: r.source, value };
        let done = || rows.iter().filter(|r| r.before_publish > 0 || stage.output.is_none());
        o.put(
            name,
            Quantity::Computation,
            done().map(|r| at(r, r.end().saturating_sub(r.work_start))),
        );
        if stage.inputs.is_empty() {
            o.counters.insert("sent".into(), published);
            continue;
        }
        o.put(
            name,
            Quantity::Communication,
            rows.iter().map(|r| at(r, r.work_start.saturating_sub(r.published))),
        );
        o.put(name, Quantity::Latency, done().map(|r| at(r, r.end().saturating_sub(r.source))));
        let before = shape.triggered_by(stage).and_then(|w| reports.get(w));
        let given = before.map_or(0, |w| {
            w.rows.iter().filter(counts).filter(|r| r.before_publish > 0).count() as u64
        });
        let topic = stage.inputs.first().map_or("", String::as_str);
        o.counters
            .insert(format!("lost: {topic} to {name}"), given.saturating_sub(rows.len() as u64));
        if stage.output.is_some() {
            o.counters.insert(
                format!("not passed on by {name}"),
                (rows.len() as u64).saturating_sub(published),
            );
            continue;
        }
        let of_sink = |what: &str| {
            if sinks.len() == 1 { what.to_owned() } else { format!("{what} at {name}") }
        };
        o.put(
            &of_sink("end to end"),
            Quantity::Latency,
            rows.iter().map(|r| at(r, r.end().saturating_sub(r.source))),
        );
        o.counters.insert(of_sink("completed"), rows.len() as u64);
        if let (Some(first), Some(last)) = (rows.first(), rows.last())
            && last.end() > first.end()
        {
            let rate_mhz =
                (rows.len() as u128 - 1) * 1_000_000_000_000 / u128::from(last.end() - first.end());
            o.counters
                .insert(of_sink(OUTPUT_RATE_MHZ), u64::try_from(rate_mhz).unwrap_or(u64::MAX));
        }
        if rows.is_empty() {
            o.invalid.push(format!("none of the samples that count reached '{name}'"));
        }
    }
    o
}

/// Returns true if these parts add up to the total. A sum beyond 64 bits equals no total: a peer
/// may report any number.
fn adds_up(all: u64, parts: &[u64]) -> bool {
    parts.iter().try_fold(0, |sum: u64, part| sum.checked_add(*part)) == Some(all)
}

/// Checks the counts of a stage, against each other and against those of its writers.
fn check_totals(shape: &Shape<'_>, reports: &[StageReport], index: usize, o: &mut Observations) {
    let (Some(stage), Some(t)) = (shape.job.stages.get(index), reports.get(index)) else { return };
    let name = &stage.name;
    let mut wrong = |text: String| o.invalid.push(format!("the stage '{name}': {text}"));
    if !adds_up(t.stage.worked, &[t.rows.len() as u64, missing_rows(t)]) {
        wrong(format!("{} messages were worked on but {} noted", t.stage.worked, t.rows.len()));
    }
    if t.stage.inputs.len() != stage.inputs.len() {
        wrong(format!("it has {} inputs but reports {}", stage.inputs.len(), t.stage.inputs.len()));
        return;
    }
    let unpublished = t.stage.no_output.saturating_add(t.not_sent());
    if stage.output.is_some()
        && !adds_up(t.end.published, &[t.stage.worked.saturating_sub(unpublished), 1])
    {
        wrong(format!(
            "{} messages were worked on, {} gave nothing and {} were not sent, but {} were \
             published, end mark included",
            t.stage.worked,
            t.stage.no_output,
            t.not_sent(),
            t.end.published
        ));
    }
    for (topic, input) in stage.inputs.iter().zip(&t.stage.inputs) {
        let published = shape
            .writers
            .get(topic.as_str())
            .and_then(|w| reports.get(*w))
            .map_or(0, |w| w.end.published);
        let (r, m) = (input.received, input.missed);
        if !adds_up(published, &[r, m]) {
            wrong(format!(
                "of '{topic}' {published} messages were published, {r} received and {m} lost"
            ));
        }
        if input.damaged > 0 {
            wrong(format!("{} messages of '{topic}' were damaged", input.damaged));
        }
    }
    let total = shape.job.warm_up + shape.job.messages + COOL_DOWN;
    match t.stage.inputs.first() {
        Some(first)
            if !adds_up(first.received, &[t.stage.worked, t.stage.skipped, first.damaged, 1]) =>
        {
            wrong(format!(
                "{} messages came with the end mark, {} were worked on, {} skipped and {} damaged",
                first.received, t.stage.worked, t.stage.skipped, first.damaged
            ))
        }
        None if t.stage.worked != total => wrong(format!(
            "{total} samples were due and {} made or counted as not sent",
            t.stage.worked
        )),
        _ => {}
    }
    if t.stage.skipped > 0 {
        o.counters.insert(format!("skipped by {name}, an input had nothing yet"), t.stage.skipped);
    }
    for input in t.stage.inputs.iter().skip(1) {
        o.counters.insert(format!("replaced unread: {} at {name}", input.topic), input.missed);
    }
}

/// Returns the number of messages that a stage counts as not sent and that have no row. Only a
/// source that gave up has such messages: those that it did not make.
fn missing_rows(t: &StageReport) -> u64 {
    let noted = t.rows.iter().filter(|r| r.before_publish == 0).count() as u64;
    t.not_sent().saturating_sub(noted.saturating_sub(t.stage.no_output))
}

/// Checks that a stage worked only on messages that its predecessor published, once and in order.
fn check_rows(shape: &Shape<'_>, reports: &[StageReport], index: usize, o: &mut Observations) {
    let (Some(stage), Some(t)) = (shape.job.stages.get(index), reports.get(index)) else { return };
    let mut wrong = |text: &str| o.invalid.push(format!("the stage '{}': {text}", stage.name));
    if t.rows.windows(2).any(|w| matches!(w, [x, y] if x.origin >= y.origin)) {
        wrong("messages came twice or out of order");
    }
    let Some(writer) = shape.triggered_by(stage).and_then(|w| reports.get(w)) else { return };
    let given: BTreeMap<u64, &StageRow> =
        writer.rows.iter().filter(|r| r.before_publish > 0).map(|r| (r.origin, r)).collect();
    let fits = |r: &StageRow| {
        given
            .get(&r.origin)
            .is_some_and(|g| g.before_publish == r.published && g.source == r.source)
    };
    if !t.rows.iter().all(fits) {
        wrong(
            "it processed samples that were never published, or its time stamps differ from those \
             of the stage before it",
        );
    }
    if t.rows
        .iter()
        .any(|r| r.in_hand < r.published || r.work_start < r.in_hand || r.work_end < r.work_start)
    {
        wrong("its stamps go back in time");
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
