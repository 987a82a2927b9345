// SPDX-License-Identifier: Apache-2.0
//! One case: its runs pooled, and how it compares.

use super::figure::Figure;
use super::timeline::{self, Timeline};
use crate::archive::{Archive, Case, Experiment, LinkSample, Role, Run, metrics};
use anyhow::Result;
use driveline_bench::harness::{Pace, Payload, System};
use driveline_bench::machine::Disturbance;
use driveline_bench::observations::{Observations, Quantity};
use driveline_bench::stats::{Interval, Rank, Runs, ratio_interval};
use driveline_bench::{Agreement, Metric};
use serde::Serialize;
use std::collections::BTreeMap;

/// What a case says.
#[derive(Clone, Debug, Serialize)]
pub struct CaseResult {
    /// The case.
    #[serde(flatten)]
    pub case: Case,
    /// Of links: distributions over all links and subscribers, in nanoseconds.
    pub figures: BTreeMap<Metric, Figure>,
    /// Of links with several subscribers: transport of each.
    pub subscribers: Vec<SubscriberResult>,
    /// Of links: accounts of all valid runs together.
    pub totals: Totals,
    /// Compared with Driveline and with the floor.
    pub ratios: Vec<Ratio>,
    /// Of a peer beside whose row its own latency tool ran: whether both say the same. If not, the row is invalid.
    pub own_tool: Option<Agreement>,
    /// Of workloads, chains and watched links: distributions of what was observed.
    pub observed: Vec<Observed>,
    /// What was counted, in each valid run.
    pub counters: BTreeMap<String, Vec<u64>>,
    /// Each run.
    pub runs: Vec<RunResult>,
    /// Latency, processor time, memory over one run.
    #[serde(skip)]
    pub timelines: Vec<Timeline>,
}

/// One subscriber.
#[derive(Clone, Debug, Serialize)]
pub struct SubscriberResult {
    /// `subscriber 3`, or `radar · subscriber 0`.
    pub name: String,
    /// Its transport latency.
    pub transport: Figure,
    /// Of the samples that all subscribers of its link received: the share for which it took longest.
    pub last_share: Option<f64>,
}

/// Accounts of all valid runs, all links and all subscribers together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Samples that were due.
    pub scheduled: u64,
    /// Of those: published.
    pub sent: u64,
    /// Due and not published, warm-up included, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// Deliveries that were due: sent samples times subscribers.
    pub deliveries: u64,
    /// Of those: received.
    pub received: u64,
    /// Of the received: later than one period after they were due. Only an open loop has any.
    pub late: u64,
    /// Of the deliveries: lost, or replaced by newer samples before they were read.
    pub missed: u64,
    /// Payloads that did not verify.
    pub torn: u64,
    /// Payloads verified, warm-up included.
    pub verified: u64,
    /// Processor time of all ends of a link per sample sent, in nanoseconds. A daemon of the middleware is not in it.
    pub cpu_ns_per_sample: Option<f64>,
    /// Of that: the sending end.
    pub publisher_cpu_ns_per_sample: Option<f64>,
    /// System calls for waking per sample.
    pub wake_calls_per_publish: Option<f64>,
}

/// A ratio of this case to another one.
#[derive(Clone, Debug, Serialize)]
pub struct Ratio {
    /// Of which figure.
    pub of: Compared,
    /// Id of the other case.
    pub to: String,
    /// What the other case is.
    pub to_role: Role,
    /// Ratio of the medians.
    pub p50: Option<Interval>,
    /// Needs 300 samples of each.
    pub p99: Option<Interval>,
    /// Needs 3 000 samples of each.
    pub p999: Option<Interval>,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Compared {
    /// A figure of links.
    Metric(Metric),
    /// The latency of a subject.
    Latency(String),
}

impl Compared {
    /// For tables.
    #[must_use]
    pub fn label(&self) -> &str {
        match self {
            Self::Metric(m) => m.label(),
            Self::Latency(subject) => subject,
        }
    }
}

/// Distribution of what was observed.
#[derive(Clone, Debug, Serialize)]
pub struct Observed {
    /// Of what.
    pub subject: String,
    /// Which quantity, and thereby the unit.
    pub quantity: Quantity,
    /// Its values in all valid runs.
    pub figure: Figure,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunResult {
    /// Round.
    pub round: u64,
    /// Place in the round's order.
    pub place: usize,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// What else happened meanwhile.
    pub disturbance: Disturbance,
    /// Why it does not count; empty if it does.
    pub reasons: Vec<String>,
    /// What the machine refused.
    pub unset: Vec<String>,
}

/// What is done with the payloads of a case's links, if the same with all: `None` for mixtures, workloads and chains.
#[must_use]
pub fn handling(case: &Case) -> Option<Payload> {
    let first = case.links.first()?.payload;
    case.links.iter().all(|l| l.payload == first).then_some(first)
}

impl CaseResult {
    /// The distribution that counts most: the case's figure, of filled payloads with the filling, and of workloads and chains the
    /// latency of the whole. With its name.
    #[must_use]
    pub fn headline(&self) -> Option<(Compared, &Figure)> {
        let metric = headline_metric(&self.case);
        if let Some(f) = self.figures.get(&metric) {
            return Some((Compared::Metric(metric), f));
        }
        let subject = headline_subject(self.observed.iter().map(|o| (o.subject.as_str(), o.quantity)))?;
        let figure = self.observed.iter().find(|o| o.subject == subject && o.quantity == Quantity::Latency)?;
        Some((Compared::Latency(subject.to_owned()), &figure.figure))
    }

    /// How its headline compares with Driveline's; none for Driveline itself.
    #[must_use]
    pub fn to_driveline(&self) -> Option<&Ratio> {
        let (of, _) = self.headline()?;
        self.ratios.iter().find(|r| r.to_role == Role::Measured && r.of == of)
    }

    /// Short name of the system, as it is called on the command line; Driveline as it is written.
    #[must_use]
    pub fn name(&self) -> String {
        if self.is_driveline() { "Driveline".into() } else { self.case.system.to_string() }
    }

    /// Whether this is Driveline.
    #[must_use]
    pub fn is_driveline(&self) -> bool {
        self.case.system == System::Driveline
    }

    /// Whether its own latency tool contradicts the row.
    #[must_use]
    pub fn is_contradicted(&self) -> bool {
        self.own_tool.as_ref().is_some_and(|a| !a.agrees)
    }

    /// Runs that count.
    #[must_use]
    pub fn valid_runs(&self) -> usize {
        self.runs.iter().filter(|r| r.reasons.is_empty()).count()
    }
}

/// With filled payloads a middleware's own memory counts, so filling is part of what is compared.
fn headline_metric(case: &Case) -> Metric {
    match (case.figure, handling(case)) {
        (Metric::Transport, Some(Payload::Filled)) => Metric::FillAndTransport,
        (figure, _) => figure,
    }
}

/// The whole before its parts.
fn headline_subject<'a>(series: impl Iterator<Item = (&'a str, Quantity)> + Clone) -> Option<&'a str> {
    let latencies = || series.clone().filter(|(_, q)| *q == Quantity::Latency).map(|(s, _)| s);
    const WHOLE: [&str; 4] = ["end to end", "hot path", "chain", "all"];
    WHOLE.into_iter().find_map(|w| latencies().find(|s| s.eq_ignore_ascii_case(w))).or_else(|| latencies().next())
}

/// A case's runs, as raw as comparisons need them.
pub(super) struct Pooled {
    case: Case,
    runs: Vec<Run>,
    metrics: BTreeMap<Metric, Runs>,
    subscribers: BTreeMap<(usize, usize), Runs>,
    observed: Vec<(String, Quantity, Runs)>,
    timelines: Vec<Timeline>,
    late: u64,
    lasts: BTreeMap<(usize, usize), u64>,
}

/// Samples by round; a round that is missing or does not count is empty.
type ByRound<K> = BTreeMap<K, Vec<Vec<u64>>>;

fn put<K: Ord>(into: &mut ByRound<K>, key: K, rounds: usize, round: u64, values: impl IntoIterator<Item = u64>) {
    let places = into.entry(key).or_insert_with(|| vec![Vec::new(); rounds]);
    if let Some(place) = places.get_mut(round as usize) {
        place.extend(values);
    }
}

impl Pooled {
    pub(super) fn read(archive: &Archive, e: &Experiment, case: &Case) -> Result<Self> {
        let id = &e.scenario.id;
        let runs = archive.runs(e, case)?;
        let rounds = e.rounds as usize;
        let (mut by_metric, mut by_subscriber) = (ByRound::new(), ByRound::new());
        let mut by_series = ByRound::<(String, Quantity)>::new();
        let (mut timelines, mut late, mut lasts) = (Vec::new(), 0, BTreeMap::new());
        for run in runs.iter().filter(|r| r.is_valid()) {
            let samples = archive.samples(id, case, run.round)?;
            for (metric, values) in metrics(case, &samples) {
                put(&mut by_metric, metric, rounds, run.round, values);
            }
            for LinkSample { link, sample } in &samples {
                if sample.received.is_some() {
                    put(&mut by_subscriber, (*link, sample.subscriber), rounds, run.round, [sample.transport_ns]);
                }
            }
            count_last(case, &samples, &mut lasts);
            late += samples.iter().filter(|s| is_late(case, s)).count() as u64;
            let observations: Observations = archive.observations(id, case, run.round)?;
            for series in &observations.series {
                let key = (series.subject.clone(), series.quantity);
                put(&mut by_series, key, rounds, run.round, series.points.iter().map(|p| p.value));
            }
            if timelines.is_empty() {
                timelines = timeline::timelines(&samples, &observations);
            }
        }
        // With one subscriber there is nothing beside which it could stand.
        if by_subscriber.len() < 2 {
            by_subscriber.clear();
        }
        Ok(Self {
            case: case.clone(),
            runs,
            metrics: by_metric.into_iter().map(|(m, r)| (m, Runs::new(r))).collect(),
            subscribers: by_subscriber.into_iter().map(|(s, r)| (s, Runs::new(r))).collect(),
            observed: by_series.into_iter().map(|((s, q), r)| (s, q, Runs::new(r))).collect(),
            timelines,
            late,
            lasts,
        })
    }

    /// What counts most, with its name.
    fn headline(&self) -> Option<(Compared, &Runs)> {
        let metric = headline_metric(&self.case);
        if let Some(runs) = self.metrics.get(&metric) {
            return Some((Compared::Metric(metric), runs));
        }
        let subject = headline_subject(self.observed.iter().map(|(s, q, _)| (s.as_str(), *q)))?.to_owned();
        let (_, _, runs) = self.observed.iter().find(|(s, q, _)| *s == subject && *q == Quantity::Latency)?;
        Some((Compared::Latency(subject), runs))
    }

    /// `all` are the cases of the experiment, this one included.
    pub(super) fn result(&self, all: &[Self], seed: u64) -> CaseResult {
        let case = &self.case;
        let subscriber = |(&(link, subscriber), runs): (&(usize, usize), &Runs)| {
            let topic = case.links.get(link).filter(|_| case.links.len() > 1).map_or_else(String::new, |l| format!("{} · ", l.topic));
            let all: u64 = self.lasts.iter().filter(|((l, _), _)| *l == link).map(|(_, n)| n).sum();
            let last = self.lasts.get(&(link, subscriber)).copied().unwrap_or(0);
            let last_share = (all > 0).then(|| last as f64 / all as f64);
            SubscriberResult { name: format!("{topic}subscriber {subscriber}"), transport: Figure::of(runs), last_share }
        };
        let mut counters = BTreeMap::<String, Vec<u64>>::new();
        for run in self.runs.iter().filter(|r| r.is_valid()) {
            for (name, count) in &run.counters {
                counters.entry(name.clone()).or_default().push(*count);
            }
        }
        let run = |r: &Run| RunResult {
            round: r.round,
            place: r.place,
            seconds: r.seconds,
            disturbance: r.disturbance,
            reasons: r.reasons().map(str::to_owned).collect(),
            unset: r.unset.iter().chain(r.accounts.iter().flat_map(|a| &a.unset)).cloned().collect(),
        };
        CaseResult {
            figures: self.metrics.iter().map(|(m, r)| (*m, Figure::of(r))).collect(),
            subscribers: self.subscribers.iter().map(subscriber).collect(),
            totals: self.totals(),
            ratios: self.ratios(all, seed),
            own_tool: self.agreement(all),
            observed: self.observed.iter().map(|(s, q, r)| Observed { subject: s.clone(), quantity: *q, figure: Figure::of(r) }).collect(),
            counters,
            runs: self.runs.iter().map(run).collect(),
            timelines: self.timelines.clone(),
            case: case.clone(),
        }
    }

    /// What the plan compares, and what counts most if that is another figure.
    fn ratios(&self, all: &[Self], seed: u64) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for c in &self.case.comparisons {
            let Some(other) = all.iter().find(|p| p.case.id == c.to) else { continue };
            let mut add = |of: Compared, pair: Option<(&Runs, &Runs)>| {
                let Some((own, theirs)) = pair else { return };
                let at = |rank| ratio_interval(own, theirs, rank, seed);
                let (p50, p99, p999) = (at(Rank::P50), at(Rank::P99), at(Rank::P999));
                ratios.push(Ratio { of, to: c.to.clone(), to_role: other.case.role, p50, p99, p999 });
            };
            add(Compared::Metric(c.metric), self.metrics.get(&c.metric).zip(other.metrics.get(&c.of)));
            if let (Some((of, own)), Some((theirs, runs))) = (self.headline(), other.headline())
                && of == theirs
                && of != Compared::Metric(c.metric)
            {
                add(of, Some((own, runs)));
            }
        }
        ratios
    }

    /// Whether the latency tool that ran beside this row says the same.
    fn agreement(&self, all: &[Self]) -> Option<Agreement> {
        if self.case.role != Role::Measured {
            return None;
        }
        let beside = |p: &&Self| p.case.role == Role::OwnTool && (&p.case.system, &p.case.cell) == (&self.case.system, &self.case.cell);
        let tool = all.iter().find(beside)?;
        let runs = tool.runs.iter().filter(|r| r.is_valid());
        let said: Vec<_> = runs.flat_map(|r| &r.accounts).filter_map(|a| a.own_tool.clone()).collect();
        Agreement::of(self.metrics.get(&Metric::Transport)?.at(Rank::P50)?, &said)
    }

    fn totals(&self) -> Totals {
        let mut t = Totals { late: self.late, ..Totals::default() };
        let (mut cpu, mut publisher, mut wakes) = (Mean::default(), Mean::default(), Mean::default());
        for run in self.runs.iter().filter(|r| r.is_valid()) {
            for a in &run.accounts {
                t.scheduled += a.scheduled;
                t.sent += a.sent;
                for (reason, n) in &a.not_sent {
                    *t.not_sent.entry(reason.clone()).or_default() += n;
                }
                t.received += a.received.iter().sum::<u64>();
                t.missed += a.missed.iter().sum::<u64>();
                t.torn += a.torn;
                t.verified += a.verified;
                let readers = a.received.len() as f64;
                let both = a.publisher_cpu_ns_per_sample.zip(a.subscriber_cpu_ns_per_sample);
                cpu.add(both.map(|(p, s)| p + readers * s), a.sent);
                publisher.add(a.publisher_cpu_ns_per_sample, a.sent);
                wakes.add(a.wake_calls_per_publish, a.sent);
            }
        }
        t.deliveries = t.received + t.missed;
        (t.cpu_ns_per_sample, t.publisher_cpu_ns_per_sample, t.wake_calls_per_publish) = (cpu.value(), publisher.value(), wakes.value());
        t
    }
}

/// A mean of values that stand for so many samples each.
#[derive(Default)]
struct Mean {
    sum: f64,
    samples: u64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, samples: u64) {
        if let Some(value) = value {
            self.sum += value * samples as f64;
            self.samples += samples;
        }
    }

    fn value(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }
}

/// Counts, by link and subscriber, for how many samples it was the last of all.
fn count_last(case: &Case, samples: &[LinkSample], lasts: &mut BTreeMap<(usize, usize), u64>) {
    // How many received it, and who took longest: how long, and which one.
    let mut of = BTreeMap::<(usize, u64), (usize, (u64, usize))>::new();
    for LinkSample { link, sample } in samples.iter().filter(|s| s.sample.received.is_some()) {
        let entry = of.entry((*link, sample.sent.sequence)).or_default();
        *entry = (entry.0 + 1, entry.1.max((sample.transport_ns, sample.subscriber)));
    }
    for ((link, _), (received, (_, subscriber))) in of {
        if case.links.get(link).is_some_and(|l| l.subscribers > 1 && l.subscribers == received) {
            *lasts.entry((link, subscriber)).or_default() += 1;
        }
    }
}

/// In hand more than a period after it was due.
fn is_late(case: &Case, s: &LinkSample) -> bool {
    let Some(Pace::RateHz(hz)) = case.links.get(s.link).map(|l| l.pace) else { return false };
    let Some(r) = &s.sample.received else { return false };
    r.in_hand.max(r.copied).saturating_sub(s.sample.sent.scheduled) as f64 > 1e9 / hz
}

/// What counts most of a case, by round, for comparisons between archives. `None` without valid samples.
pub(crate) fn pooled_headline(archive: &Archive, e: &Experiment, case: &Case) -> Result<Option<(Compared, Runs)>> {
    let pooled = Pooled::read(archive, e, case)?;
    Ok(pooled.headline().map(|(of, runs)| (of, runs.clone())))
}
