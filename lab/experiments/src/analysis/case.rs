// SPDX-License-Identifier: Apache-2.0
//! One case: its figures and its comparisons.

use super::criterion::Criterion;
use super::figure::Figure;
use super::measure::Measure;
use super::timeline::Timeline;
use crate::archive::{Case, Link, Role};
use driveline_bench::harness::{Pace, Reach, System};
use driveline_bench::machine::Disturbance;
use driveline_bench::observations::Quantity;
use driveline_bench::stats::{Interval, Percentiles};
use driveline_bench::{Agreement, Metric};
use driveline_workloads::deliveries;
use serde::Serialize;
use std::collections::BTreeMap;

/// Results of a case.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// For links: distributions over all links and subscribers, in nanoseconds.
    pub figures: BTreeMap<Metric, Figure>,
    /// For cases with several links: each of them.
    pub by_link: Vec<LinkResult>,
    /// Transport latency of each subscriber that received a sample. Empty unless all links together
    /// have several subscribers, or a workload has several subscriptions. For workloads, it is the
    /// time from publishing to the callback.
    pub subscribers: Vec<SubscriberResult>,
    /// Sums of the accounts (counts of samples) of all valid runs, for links and for workloads that
    /// count deliveries.
    pub totals: Totals,
    /// For a stream: payload that each subscriber gets per second. It does not count lost samples,
    /// because they lengthen the time until the next arrival.
    pub goodput_bytes_per_s: Option<f64>,
    /// Ratios to the cases with which the plan compares this one: Driveline, the floors, the same
    /// chain without Driveline on some edges, the same case outside of containers, the usual
    /// settings of a variant; for a control, the equal case. Empty for a row that the peer's own
    /// latency tool contradicts.
    pub ratios: Vec<Ratio>,
    /// Agreement with the peer's own latency tool, if it ran for the same link. If they
    /// differ, the row is invalid.
    pub own_tool: Option<Agreement>,
    /// Variants of this system in the same cell, with other settings, whose figures the peer's own
    /// latency tool contradicts. If there are any, this row counts as not confirmed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contradicted_variants: Vec<System>,
    /// For workloads, chains and observed links: distributions of the observations.
    pub observed: Vec<Observed>,
    /// Counters, one value for each valid run.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// Each run.
    pub runs: Vec<RunResult>,
    /// Quantities over the time of one run, such as latency, losses, processor time and memory.
    #[serde(skip)]
    pub timelines: Vec<Timeline>,
}

/// One of several links.
#[derive(Clone, Debug, Serialize)]
pub struct LinkResult {
    /// Its topic.
    pub topic: String,
    /// Distribution of its headline figure.
    pub figure: Figure,
    /// Latency from the due time of its samples, if the link has a rate.
    pub schedule_relative: Option<Figure>,
    /// Its accounts of all valid runs together.
    pub totals: Totals,
}

/// One subscriber.
#[derive(Clone, Debug, Serialize)]
pub struct SubscriberResult {
    /// `subscriber 3`, with several links `radar · subscriber 0`, in a workload `subscription 3`.
    pub name: String,
    /// Its transport latency.
    pub transport: Figure,
    /// Share of samples that reached this subscriber last, among the samples that all subscribers
    /// of its link received.
    pub last_share: Option<f64>,
}

/// Accounts of all valid runs, all links and all subscribers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Samples that were due, without the warm-up.
    pub scheduled: u64,
    /// Scheduled samples that were published.
    pub sent: u64,
    /// Samples that were due and not published, by reason. Of links, it includes the warm-up.
    pub not_sent: BTreeMap<String, u64>,
    /// Scheduled deliveries: scheduled samples times subscribers.
    pub due: u64,
    /// Deliveries of samples that were sent: sent samples times subscribers.
    pub deliveries: u64,
    /// Deliveries that were received.
    pub received: u64,
    /// Deliveries received later than one period after the due time; of a workload, later than its
    /// deadline. Only an open loop has late deliveries. A stream that is compared by goodput has
    /// none.
    pub late: u64,
    /// Deliveries of sent samples that were lost, or replaced by newer samples before they were
    /// read.
    pub missed: u64,
    /// Payloads that did not verify, also in invalid runs.
    pub torn: u64,
    /// Payloads verified, warm-up included.
    pub verified: u64,
    /// Processor time of all ends of a link, in nanoseconds per sent sample, received or not. In a
    /// ping-pong it covers a whole round trip, with the answer. It does not include a daemon of the
    /// middleware.
    pub cpu_ns_per_sample: Option<f64>,
    /// Part of `cpu_ns_per_sample` that the sending end used.
    pub publisher_cpu_ns_per_sample: Option<f64>,
    /// System calls for waking per sample.
    pub wake_calls_per_publish: Option<f64>,
    /// For a link at rest: times per second that the threads of the blocked subscriber were
    /// scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_wakeups_per_s: Option<f64>,
}

impl Totals {
    /// Returns the totals of a workload that counts deliveries; `None` for other workloads.
    pub(super) fn of_workload(counters: &BTreeMap<String, Vec<u64>>) -> Option<Self> {
        let sum = |name| counters.get(name).map(|runs| total(runs.iter().copied()));
        let (due, late) = (sum(deliveries::SCHEDULED)?, sum(deliveries::LATE)?);
        let not_sent = sum(deliveries::MESSAGES_NOT_SENT).filter(|n| *n > 0);
        Some(Self {
            scheduled: sum(deliveries::MESSAGES_SCHEDULED)?,
            sent: sum(deliveries::MESSAGES_SENT)?,
            not_sent: not_sent
                .map(|n| ("its publisher was too late to send it".to_owned(), n))
                .into_iter()
                .collect(),
            due,
            deliveries: sum(deliveries::DUE)?,
            received: total([sum(deliveries::IN_TIME)?, late]),
            late,
            missed: sum(deliveries::LOST)?,
            ..Self::default()
        })
    }

    /// Returns true if these totals count each delivery of the case.
    fn report_deliveries(&self, case: &Case) -> bool {
        case.has_samples() || self.due > 0
    }

    /// Returns the number of failed deliveries, and of scheduled ones. A chain has no deliveries:
    /// for a chain with one sink, returns the samples that did not reach it, and the sent samples.
    /// `None` without any counts.
    pub(super) fn lost(
        &self,
        case: &Case,
        counters: &BTreeMap<String, Vec<u64>>,
    ) -> Option<(u64, u64)> {
        let sum = |name| counters.get(name).map(|runs| total(runs.iter().copied()));
        let (came, due) = if self.report_deliveries(case) {
            (self.received, self.due)
        } else {
            (sum("completed")?, sum("sent")?)
        };
        Some((due.saturating_sub(came), due))
    }

    /// Returns the number of due samples that were not published, for all reasons together.
    #[must_use]
    pub fn all_not_sent(&self) -> u64 {
        total(self.not_sent.values().copied())
    }

    /// Returns the shares of all scheduled deliveries: in time, late, lost, not sent. Zeros if
    /// there were none.
    #[must_use]
    pub fn shares(&self) -> [f64; 4] {
        if self.due == 0 {
            return [0.0; 4];
        }
        let not_sent = self.due.saturating_sub(self.deliveries);
        [self.received.saturating_sub(self.late), self.late, self.missed, not_sent]
            .map(|n| n as f64 / self.due as f64)
    }
}

/// Ratio of this case to another one.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Compared figure.
    pub of: Compared,
    /// Id of the other case.
    pub to: String,
    /// Role of the other case.
    pub to_role: Role,
    /// System of the other case.
    pub to_system: System,
    /// For streams, in place of percentiles: ratio of the goodputs. More than 1: this case carries
    /// more.
    pub goodput: Option<Interval>,
    /// Ratio of the medians. More than 1: this case takes longer.
    pub p50: Option<Interval>,
    /// Ratio of the 95th percentiles; needs 60 samples of each case.
    pub p95: Option<Interval>,
    /// Ratio of the 99th percentiles; needs 300 samples of each case.
    pub p99: Option<Interval>,
    /// Ratio of the 99.9th percentiles; needs 3 000 samples of each case.
    pub p999: Option<Interval>,
}

/// Subject of a comparison.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// A figure of links.
    Metric(Metric),
    /// The latency of a subject.
    Latency(String),
}

impl Compared {
    /// Returns the label for tables.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Metric(m) => m.label(),
            Self::Latency(subject) => subject,
        }
    }
}

/// Distribution of an observed quantity.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// Observed subject.
    pub subject: String,
    /// Quantity, which determines the unit.
    pub quantity: Quantity,
    /// Its values in all valid runs.
    pub figure: Figure,
    /// For processor time: processors in use, over all valid runs.
    pub cpus: Option<f64>,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Round.
    pub round: u64,
    /// Place in the round's order.
    pub place: usize,
    /// Duration, in seconds.
    pub seconds: f64,
    /// Other load on the machine during the run.
    pub disturbance: Disturbance,
    /// Reasons why the run is invalid; empty if it is valid.
    pub reasons: Vec<String>,
    /// Settings that the machine refused.
    pub unset: Vec<String>,
}

impl Ratio {
    /// Returns the value that decides a comparison: the goodput of streams, else the median.
    pub(crate) fn deciding(&self) -> Option<(Criterion, Interval)> {
        [(Criterion::Goodput, self.goodput), (Criterion::Latency, self.p50)]
            .into_iter()
            .find_map(|(by, i)| Some((by, i?)))
    }

    /// Returns true if this is the ratio to a floor that makes one copy of a payload:
    /// [`Case::is_copy`].
    fn is_to_copy(&self) -> bool {
        self.to_system == System::Memcpy
    }
}

impl CaseResult {
    /// Returns true if the case was run, but none of its runs is valid.
    pub(crate) fn is_invalid(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(|r| !r.reasons.is_empty())
    }

    /// Returns true if gateways carry the samples of the case. The figures do not include the
    /// gateways' processor time.
    pub(crate) fn has_gateways(&self) -> bool {
        self.is_driveline() && self.case.links.iter().any(|l| l.reach == Reach::Network)
    }

    /// Returns the reason why there are no figures.
    pub(crate) fn without_figures(&self) -> String {
        match (self.runs.is_empty(), self.is_invalid(), self.totals.torn) {
            (true, ..) => "not run yet".into(),
            (false, true, 0) => "no valid run".into(),
            (false, true, torn) => format!("no valid run: {torn} payloads torn"),
            (false, false, _) if self.case.is_at_rest() => "see the links at rest".into(),
            (false, false, _) => "too little arrived".into(),
        }
    }

    /// Returns the headline distribution with its name: the case's figure, with filling if payloads
    /// are filled; for workloads and chains, the latency of the whole.
    #[must_use]
    pub fn headline(&self) -> Option<(Compared, &Figure)> {
        if self.case.is_at_rest() {
            return None;
        }
        let metric = self.case.headline_metric();
        if let Some(f) = self.figures.get(&metric) {
            return Some((Compared::Metric(metric), f));
        }
        let subject =
            headline_subject(self.observed.iter().map(|o| (o.subject.as_str(), o.quantity)))?;
        let figure = self
            .observed
            .iter()
            .find(|o| o.subject == subject && o.quantity == Quantity::Latency)?;
        Some((Compared::Latency(subject.to_owned()), &figure.figure))
    }

    /// Returns the criterion of its comparisons.
    pub(crate) fn criterion(&self) -> Criterion {
        if self.case.stream_size().is_some() { Criterion::Goodput } else { Criterion::Latency }
    }

    /// Returns the distribution of times by which the case is compared; `None` for a stream, which
    /// is compared by its goodput.
    pub(crate) fn latencies(&self) -> Option<&Percentiles> {
        let times = self
            .headline()
            .filter(|_| self.criterion() == Criterion::Latency)
            .map(|(_, f)| &f.percentiles);
        times.filter(|p| p.n > 0)
    }

    /// Returns the label of the criterion for tables.
    pub(crate) fn compared_label(&self) -> Option<String> {
        let (of, _) = self.headline()?;
        Some(match self.criterion() {
            Criterion::Goodput => Measure::Goodput.label().to_owned(),
            Criterion::Latency => of.label().to_owned(),
        })
    }

    /// Returns the number of failed deliveries in valid runs (lost, replaced unread, or never
    /// sent), and of scheduled ones. For a chain with one sink: the samples that did not reach it,
    /// and the sent samples. `None` without any counts.
    #[must_use]
    pub fn lost(&self) -> Option<(u64, u64)> {
        self.totals.lost(&self.case, &self.counters)
    }

    /// Returns true if its totals count each delivery: links, and workloads with such counts.
    #[must_use]
    pub fn has_deliveries(&self) -> bool {
        self.totals.report_deliveries(&self.case)
    }

    /// Returns communication and computation of a stage, in nanoseconds.
    #[must_use]
    pub fn transmission(&self, stage: &str) -> Option<(&Figure, &Figure)> {
        let of = |q| {
            self.observed.iter().find(|o| o.subject == stage && o.quantity == q).map(|o| &o.figure)
        };
        of(Quantity::Communication).zip(of(Quantity::Computation))
    }

    /// Returns each counter with its range over all valid runs: `hot path drops 12–13`.
    #[must_use]
    pub fn counted(&self) -> Vec<String> {
        let range =
            |(name, runs): (&String, &Vec<u64>)| match (runs.iter().min(), runs.iter().max()) {
                (Some(low), Some(high)) if low < high => Some(format!("{name} {low}–{high}")),
                (Some(low), _) => Some(format!("{name} {low}")),
                _ => None,
            };
        self.counters.iter().filter_map(range).collect()
    }

    /// Returns the ratio of its headline to Driveline's; `None` for Driveline itself.
    #[must_use]
    pub fn to_driveline(&self) -> Option<&Ratio> {
        let (of, _) = self.headline()?;
        self.ratios
            .iter()
            .find(|r| r.to_role == Role::Measured && r.to_system == System::Driveline && r.of == of)
    }

    /// Returns the ratio of its headline to its floor, a shared word without a payload; `None`
    /// without a floor.
    #[must_use]
    pub fn to_floor(&self) -> Option<&Ratio> {
        let (of, _) = self.headline()?;
        self.ratios.iter().find(|r| r.to_role == Role::Floor && !r.is_to_copy() && r.of == of)
    }

    /// Returns the ratio of its headline to one copy of its payload, if its time includes writing
    /// or copying the payload.
    #[must_use]
    pub fn to_memcpy(&self) -> Option<&Ratio> {
        let (of, _) = self.headline()?;
        self.ratios.iter().find(|r| r.is_to_copy() && r.of == of)
    }

    /// Returns how often the processes of all ends of watched links are scheduled for each due
    /// sample. Approximate: it includes the time before the first sample and after the last one.
    #[must_use]
    pub fn switches_per_sample(&self) -> Option<f64> {
        let every = self.case.beside.watch_every?.as_secs_f64();
        let rate = |l: &Link| if let Pace::RateHz(hz) = l.pace { Some(hz) } else { None };
        let samples: f64 = self.case.links.iter().map(rate).sum::<Option<f64>>()? * every;
        let means: Vec<f64> = self
            .observed
            .iter()
            .filter(|o| o.quantity == Quantity::Switches)
            .filter_map(|o| o.figure.percentiles.mean)
            .collect();
        (!means.is_empty() && samples > 0.0).then(|| means.iter().sum::<f64>() / samples)
    }

    /// Returns the ratio of its headline to the headline of the variant whose settings it varies.
    #[must_use]
    pub fn to_usual(&self) -> Option<&Ratio> {
        let (of, _) = self.headline()?;
        self.ratios.iter().find(|r| {
            r.to_role == Role::Measured && self.case.system.varies(&r.to_system) && r.of == of
        })
    }

    /// Returns the mean transmission as a share of the mean processing of a stage, in percent.
    #[must_use]
    pub fn transmission_percent(&self, stage: &str) -> Option<f64> {
        let (communication, computation) = self.transmission(stage)?;
        let (a, b) = communication
            .percentiles
            .mean
            .zip(computation.percentiles.mean)
            .filter(|(_, b)| *b > 0.0)?;
        Some(100.0 * a / b)
    }

    /// Returns the short name of the system, as on the command line; Driveline with its usual
    /// spelling.
    #[must_use]
    pub fn name(&self) -> String {
        if self.is_driveline() { "Driveline".into() } else { self.case.system.to_string() }
    }

    /// Returns true if this is Driveline.
    #[must_use]
    pub fn is_driveline(&self) -> bool {
        self.case.system == System::Driveline
    }

    /// Returns true if the peer's own latency tool contradicts the row.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        self.own_tool.as_ref().is_some_and(Agreement::contradicts)
    }

    /// Returns the caveat of a row that the peer's latency tool contradicts, or of which it
    /// contradicts a variant; `None` for other rows.
    #[must_use]
    pub fn doubt(&self) -> Option<&'static str> {
        match (self.is_contradicted(), self.contradicted_variants.is_empty()) {
            (true, _) => Some("invalid"),
            (false, false) => Some("not confirmed"),
            (false, true) => None,
        }
    }

    /// Returns its short name with its caveat.
    pub(crate) fn name_with_doubt(&self) -> String {
        let doubt =
            self.doubt().map_or_else(String::new, |doubt| format!(" ({})", doubt.to_uppercase()));
        format!("{}{doubt}", self.name())
    }

    /// Returns the number of valid runs.
    #[must_use]
    pub fn valid_runs(&self) -> usize {
        self.runs.iter().filter(|r| r.reasons.is_empty()).count()
    }
}

/// Returns the subject whose latency covers the whole, not a part. If several subjects qualify,
/// returns the same one each time.
pub(super) fn headline_subject<'a>(
    series: impl Iterator<Item = (&'a str, Quantity)> + Clone,
) -> Option<&'a str> {
    let latencies = || series.clone().filter(|(_, q)| *q == Quantity::Latency).map(|(s, _)| s);
    const WHOLE: [&str; 5] = ["end to end", "hot path", "chain", "fusion", "all"];
    WHOLE
        .into_iter()
        .find_map(|w| latencies().find(|s| s.eq_ignore_ascii_case(w)))
        .or_else(|| latencies().min())
}

/// Returns the saturating sum of counts, which may come from other programs.
pub(crate) fn total(counts: impl IntoIterator<Item = u64>) -> u64 {
    counts.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fusion_is_compared_by_the_whole_and_not_by_its_first_channel() {
        let subjects = ["channel 0", "channel 1", "fusion"].map(|s| (s, Quantity::Latency));
        assert_eq!(headline_subject(subjects.into_iter()), Some("fusion"));
        assert_eq!(headline_subject(subjects[..2].iter().copied()), Some("channel 0"));
        assert_eq!(headline_subject([("fusion", Quantity::Age)].into_iter()), None);
    }
}
