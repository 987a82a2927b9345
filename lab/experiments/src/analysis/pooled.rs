// SPDX-License-Identifier: Apache-2.0
//! Pooled runs of a case: from stamps and observations to its results.

use super::case::{
    CaseResult, Compared, LinkResult, Observed, Ratio, RunResult, SubscriberResult, Totals,
    headline_subject, total,
};
use super::figure::Figure;
use super::timeline::{self, Timeline};
use crate::archive::{Archive, Case, Experiment, Link, LinkSample, Role, Run, metrics};
use anyhow::Result;
use driveline_bench::harness::{Pace, System};
use driveline_bench::observations::{Observations, Quantity};
use driveline_bench::stats::{Goodput, Rank, Runs, goodput_interval, ratio_interval};
use driveline_bench::{Account, Agreement, Metric};
use driveline_workloads::deliveries;
use std::collections::BTreeMap;

/// Runs of a case, with the raw data that comparisons need.
pub(super) struct Pooled {
    case: Case,
    runs: Vec<Run>,
    metrics: BTreeMap<Metric, Runs>,
    subscribers: BTreeMap<(usize, usize), Runs>,
    observed: Vec<(String, Quantity, Runs)>,
    /// For each observed process: its processor time, and the observation time, in nanoseconds.
    cpu: BTreeMap<String, (u64, u64)>,
    timelines: Vec<Timeline>,
    links: Vec<OfLink>,
    lasts: BTreeMap<(usize, usize), u64>,
    /// Transport latencies by round, in the order of measurement. Empty unless the peer's own
    /// latency tool ran for this case.
    in_order: Vec<Vec<u64>>,
}

/// One of several links.
struct OfLink {
    /// Headline figure.
    figure: Runs,
    /// Latency from the due time of its samples; empty for a ping-pong.
    schedule_relative: Runs,
    /// Number of late samples.
    late: u64,
}

/// Samples by round; a missing or invalid round is empty.
type ByRound<K> = BTreeMap<K, Vec<Vec<u64>>>;

fn put<K: Ord>(
    into: &mut ByRound<K>,
    key: K,
    rounds: usize,
    round: u64,
    values: impl IntoIterator<Item = u64>,
) {
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
        // Keeps subjects in the order of the stages of a chain, not in alphabetical order.
        let mut keys: Vec<(String, Quantity)> = Vec::new();
        let (mut by_link, mut due_by_link) = (ByRound::<usize>::new(), ByRound::<usize>::new());
        let mut cpu = BTreeMap::<String, (u64, u64)>::new();
        let (mut timelines, mut late, mut lasts) =
            (Vec::new(), vec![0; case.links.len()], BTreeMap::new());
        for run in runs.iter().filter(|r| r.is_valid()) {
            let samples = archive.samples(id, case, run)?;
            for (metric, values) in metrics(case, &samples) {
                put(&mut by_metric, metric, rounds, run.round, values);
            }
            let once = run.accounts.iter().flat_map(|a| &a.once).filter(|_| case.measure.is_some());
            for (metric, value) in once {
                put(&mut by_metric, *metric, rounds, run.round, [*value]);
            }
            for LinkSample { link, sample } in &samples {
                if sample.received.is_some() {
                    put(
                        &mut by_subscriber,
                        (*link, sample.subscriber),
                        rounds,
                        run.round,
                        [sample.transport_ns],
                    );
                }
            }
            count_last(case, &samples, &mut lasts);
            for (link, late) in late.iter_mut().enumerate() {
                let of_link: Vec<LinkSample> =
                    samples.iter().filter(|s| s.link == link).copied().collect();
                *late += of_link.iter().filter(|s| is_late(case, s)).count() as u64;
                // For a single link, the case has the same figures.
                let mut of_link =
                    if case.links.len() > 1 { metrics(case, &of_link) } else { BTreeMap::new() };
                let due = of_link.get(&Metric::ScheduleRelative).cloned().unwrap_or_default();
                put(&mut due_by_link, link, rounds, run.round, due);
                put(
                    &mut by_link,
                    link,
                    rounds,
                    run.round,
                    of_link.remove(&case.headline_metric()).unwrap_or_default(),
                );
            }
            let observations: Observations = archive.observations(id, case, run.round)?;
            for series in &observations.series {
                let key = (series.subject.clone(), series.quantity);
                if !keys.contains(&key) {
                    keys.push(key.clone());
                }
                // Leaves out the processor time of the first point: it has no previous point, so
                // the period in which this time was used is unknown.
                if let (Quantity::Cpu, [first, rest @ .., last]) =
                    (series.quantity, series.points.as_slice())
                {
                    let (used, during) = cpu.entry(series.subject.clone()).or_default();
                    *used = total(rest.iter().chain([last]).map(|p| p.value).chain([*used]));
                    *during = total([*during, last.time_ns.saturating_sub(first.time_ns)]);
                }
                put(&mut by_series, key, rounds, run.round, series.points.iter().map(|p| p.value));
            }
            if timelines.is_empty() {
                timelines = timeline::timelines(case, run, &samples, &observations);
            }
        }
        let observed = keys
            .into_iter()
            .filter_map(|key| by_series.remove(&key).map(|runs| (key.0, key.1, Runs::new(runs))));
        // A single subscriber has nothing to compare with. A case with several subscribers lists
        // them, even if only one of them received samples.
        if case.links.iter().map(|l| l.subscribers).sum::<usize>() < 2 {
            by_subscriber.clear();
        }
        let beside_tool = e.cases.iter().any(|tool| is_own_tool(tool, case));
        let in_order =
            by_metric.get(&Metric::Transport).filter(|_| beside_tool).cloned().unwrap_or_default();
        let of_link = |(link, late)| OfLink {
            figure: Runs::new(by_link.remove(&link).unwrap_or_default()),
            schedule_relative: Runs::new(due_by_link.remove(&link).unwrap_or_default()),
            late,
        };
        Ok(Self {
            case: case.clone(),
            runs,
            in_order,
            metrics: by_metric.into_iter().map(|(m, r)| (m, Runs::new(r))).collect(),
            subscribers: by_subscriber.into_iter().map(|(s, r)| (s, Runs::new(r))).collect(),
            observed: observed.collect(),
            cpu,
            timelines,
            links: late.into_iter().enumerate().map(of_link).collect(),
            lasts,
        })
    }

    /// Returns the headline figure, with its name.
    fn headline(&self) -> Option<(Compared, &Runs)> {
        if self.case.is_at_rest() {
            return None;
        }
        let metric = self.case.headline_metric();
        if let Some(runs) = self.metrics.get(&metric) {
            return Some((Compared::Metric(metric), runs));
        }
        let subject =
            headline_subject(self.observed.iter().map(|(s, q, _)| (s.as_str(), *q)))?.to_owned();
        let (_, _, runs) =
            self.observed.iter().find(|(s, q, _)| *s == subject && *q == Quantity::Latency)?;
        Some((Compared::Latency(subject), runs))
    }

    /// Returns the goodput of a stream.
    fn goodput(&self) -> Option<Goodput<'_>> {
        goodput(&self.case, self.metrics.get(&Metric::BetweenArrivals)?)
    }

    /// Computes the result. `all`: the cases of the experiment, including this one.
    pub(super) fn result(&self, all: &[Self], seed: u64) -> CaseResult {
        let case = &self.case;
        let subscriber = |(&(link, subscriber), runs): (&(usize, usize), &Runs)| {
            let topic = case
                .links
                .get(link)
                .filter(|_| case.links.len() > 1)
                .map_or_else(String::new, |l| format!("{} · ", l.topic));
            let all: u64 = self.lasts.iter().filter(|((l, _), _)| *l == link).map(|(_, n)| n).sum();
            let last = self.lasts.get(&(link, subscriber)).copied().unwrap_or(0);
            let last_share = (all > 0).then(|| last as f64 / all as f64);
            SubscriberResult {
                name: format!("{topic}subscriber {subscriber}"),
                transport: Figure::of(runs),
                last_share,
            }
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
            unset: r
                .unset
                .iter()
                .chain(r.accounts.iter().flat_map(|a| &a.unset))
                .cloned()
                .collect(),
        };
        let observed = |(subject, quantity, runs): &(String, Quantity, Runs)| {
            let cpu = self
                .cpu
                .get(subject)
                .filter(|(_, during)| *quantity == Quantity::Cpu && *during > 0);
            let cpus = cpu.map(|(used, during)| *used as f64 / *during as f64);
            Observed {
                subject: subject.clone(),
                quantity: *quantity,
                figure: Figure::of(runs),
                cpus,
            }
        };
        let own_tool = self.agreement(all, seed);
        let link = |(index, (link, of)): (usize, (&Link, &OfLink))| LinkResult {
            topic: link.topic.clone(),
            figure: Figure::of(&of.figure),
            schedule_relative: (of.schedule_relative.samples() > 0)
                .then(|| Figure::of(&of.schedule_relative)),
            totals: Totals { late: of.late, ..self.totals(|a| a.get(index).into_iter()) },
        };
        let several =
            case.links.iter().zip(&self.links).enumerate().filter(|_| case.links.len() > 1);
        let late = self.links.iter().map(|of| of.late).sum();
        let totals = totals_of(case, &counters, || Totals { late, ..self.totals(|a| a.iter()) });
        let several_subscriptions = subscriptions(&counters) > 1;
        let of_workload = self.observed.iter().filter(|(s, q, _)| {
            several_subscriptions && *q == Quantity::Latency && s != deliveries::ALL
        });
        let of_workload = of_workload.map(|(s, _, runs)| SubscriberResult {
            name: s.clone(),
            transport: Figure::of(runs),
            last_share: None,
        });
        CaseResult {
            by_link: several.map(link).collect(),
            figures: self.metrics.iter().map(|(m, r)| (*m, Figure::of(r))).collect(),
            subscribers: self
                .subscribers
                .iter()
                .map(subscriber)
                .chain(of_workload)
                .filter(|s| s.transport.percentiles.n > 0)
                .collect(),
            totals,
            goodput_bytes_per_s: self.goodput().and_then(|g| g.bytes_per_s()),
            ratios: if own_tool.as_ref().is_some_and(Agreement::contradicts) {
                Vec::new()
            } else {
                self.ratios(all, seed)
            },
            own_tool,
            contradicted_variants: self.contradicted_variants(all, seed),
            observed: self.observed.iter().map(observed).collect(),
            counters,
            runs: self.runs.iter().map(run).collect(),
            timelines: self.timelines.clone(),
            case: case.clone(),
        }
    }

    /// Returns the ratios of the figures that the plan compares, and the ratio of the headline
    /// figures if the plan compares other figures.
    fn ratios(&self, all: &[Self], seed: u64) -> Vec<Ratio> {
        let mut ratios = Vec::new();
        for c in &self.case.comparisons {
            let Some(other) = all.iter().find(|p| p.case.id == c.to) else { continue };
            let mut add = |of: Compared, pair: Option<(&Runs, &Runs)>| {
                let Some((own, theirs)) = pair else { return };
                let between = of == Compared::Metric(Metric::BetweenArrivals);
                let mut r = Ratio {
                    of,
                    to: c.to.clone(),
                    to_role: other.case.role,
                    to_system: other.case.system.clone(),
                    goodput: None,
                    p50: None,
                    p95: None,
                    p99: None,
                    p999: None,
                };
                match [self, other].map(|p| p.goodput().filter(|_| between)) {
                    [Some(own), Some(theirs)] => r.goodput = goodput_interval(own, theirs, seed),
                    [None, None] => {
                        let at = |rank| ratio_interval(own, theirs, rank, seed);
                        [r.p50, r.p95, r.p99, r.p999] =
                            [Rank::P50, Rank::P95, Rank::P99, Rank::P999].map(at);
                    }
                    // A floor has no payload, and therefore no goodput.
                    _ => return,
                }
                ratios.push(r);
            };
            add(
                Compared::Metric(c.metric),
                self.metrics.get(&c.metric).zip(other.metrics.get(&c.of)),
            );
            if let (Some((of, own)), Some((theirs, runs))) = (self.headline(), other.headline())
                && of == theirs
                && of != Compared::Metric(c.metric)
            {
                add(of, Some((own, runs)));
            }
        }
        ratios
    }

    /// Returns the agreement with the latency tool that ran for this row.
    fn agreement(&self, all: &[Self], seed: u64) -> Option<Agreement> {
        let tool = all.iter().find(|p| is_own_tool(&p.case, &self.case))?;
        let runs = tool.runs.iter().filter(|r| r.is_valid());
        let said: Vec<_> = runs
            .flat_map(|r| {
                r.accounts.iter().filter_map(move |a| Some((r.round, a.own_tool.clone()?)))
            })
            .collect();
        Agreement::of(&self.in_order, &said, seed)
    }

    /// Returns the variants with other settings of this system in the same cell whose figures their
    /// latency tool contradicts.
    fn contradicted_variants(&self, all: &[Self], seed: u64) -> Vec<System> {
        let varies = |p: &&Self| {
            p.case.role == Role::Measured
                && p.case.cell == self.case.cell
                && p.case.system.varies(&self.case.system)
        };
        let contradicted = |p: &&Self| p.agreement(all, seed).is_some_and(|a| a.contradicts());
        let own = all.iter().filter(|_| self.case.role == Role::Measured);
        own.filter(varies).filter(contradicted).map(|p| p.case.system.clone()).collect()
    }

    /// Returns the totals of the chosen accounts of its runs.
    fn totals<'a, I: Iterator<Item = &'a Account>>(
        &'a self,
        chosen: impl Fn(&'a [Account]) -> I,
    ) -> Totals {
        totals(&self.runs, chosen)
    }
}

/// Returns the goodput of a stream from the times between its arrivals; nothing for cases compared
/// by times.
pub(crate) fn goodput<'a>(case: &Case, between_arrivals: &'a Runs) -> Option<Goodput<'a>> {
    Some(Goodput { between_arrivals, size: case.stream_size()? })
}

/// Returns the number of subscriptions that a workload counted; 0 if it did not count.
pub(super) fn subscriptions(counters: &BTreeMap<String, Vec<u64>>) -> u64 {
    counters.get(deliveries::SUBSCRIPTIONS).into_iter().flatten().copied().max().unwrap_or(0)
}

/// Adds up the chosen accounts of each valid run. Does not count late samples: they are counted
/// from stamps.
fn totals<'a, I: Iterator<Item = &'a Account>>(
    runs: &'a [Run],
    chosen: impl Fn(&'a [Account]) -> I,
) -> Totals {
    let mut t = Totals::default();
    let (mut cpu, mut publisher, mut wakes) = (Mean::default(), Mean::default(), Mean::default());
    let mut idle = Mean::default();
    // A run with a torn payload is invalid, but its torn payloads count.
    t.torn = total(runs.iter().flat_map(|run| chosen(&run.accounts)).map(|a| a.torn));
    for run in runs.iter().filter(|r| r.is_valid()) {
        for a in chosen(&run.accounts) {
            t.scheduled = total([t.scheduled, a.scheduled]);
            t.sent = total([t.sent, a.sent]);
            for (reason, n) in &a.not_sent {
                let all = t.not_sent.entry(reason.clone()).or_default();
                *all = total([*all, *n]);
            }
            t.received = total(a.received.iter().copied().chain([t.received]));
            t.missed = total(a.missed.iter().copied().chain([t.missed]));
            t.verified = total([t.verified, a.verified]);
            t.due = t.due.saturating_add(a.scheduled.saturating_mul(a.received.len() as u64));
            let readers = a.received.len() as f64;
            let both = a.publisher_cpu_ns_per_sample.zip(a.subscriber_cpu_ns_per_sample);
            cpu.add(both.map(|(p, s)| p + readers * s), a.sent);
            publisher.add(a.publisher_cpu_ns_per_sample, a.sent);
            wakes.add(a.wake_calls_per_publish, a.sent);
            idle.add(a.idle_wakeups_per_s, 1);
        }
    }
    t.deliveries = total([t.received, t.missed]);
    (t.cpu_ns_per_sample, t.publisher_cpu_ns_per_sample, t.wake_calls_per_publish) =
        (cpu.value(), publisher.value(), wakes.value());
    t.idle_wakeups_per_s = idle.value();
    t
}

/// Mean of values with numbers of samples as weights.
#[derive(Default)]
struct Mean {
    sum: f64,
    samples: u64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, samples: u64) {
        if let Some(value) = value {
            self.sum += value * samples as f64;
            self.samples = total([self.samples, samples]);
        }
    }

    fn value(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }
}

/// Counts, by link and subscriber, the samples that this subscriber received last of all.
fn count_last(case: &Case, samples: &[LinkSample], lasts: &mut BTreeMap<(usize, usize), u64>) {
    // For each sample: the number of receivers, and the slowest receiver's time and index.
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

/// Returns true if the subscriber had the sample more than a period after it was due. Samples of a
/// stream that is compared by goodput are never late, because they may be due faster than the link
/// can carry them.
fn is_late(case: &Case, s: &LinkSample) -> bool {
    if case.figure == Metric::BetweenArrivals {
        return false;
    }
    let Some(Pace::RateHz(hz)) = case.links.get(s.link).map(|l| l.pace) else { return false };
    let Some(r) = &s.sample.received else { return false };
    r.in_hand.max(r.copied).saturating_sub(s.sample.sent.scheduled) as f64 > 1e9 / hz
}

/// Returns the headline figure of a case by round, for comparisons of archives. `None` without
/// valid samples.
pub(crate) fn pooled_headline(
    archive: &Archive,
    e: &Experiment,
    case: &Case,
) -> Result<Option<(Compared, Runs)>> {
    let pooled = Pooled::read(archive, e, case)?;
    Ok(pooled.headline().map(|(of, runs)| (of, runs.clone())))
}

/// Costs of a run other than latencies.
pub(crate) struct RunCost {
    /// Processor time of all ends per message, in nanoseconds; known only for links.
    pub(crate) cpu_ns_per_sample: Option<f64>,
    /// Failed deliveries; `None` for a workload that does not count them, or if none were
    /// due.
    pub(crate) lost: Option<Lost>,
}

/// Failed deliveries of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lost {
    /// Failed share of the scheduled deliveries; for a chain, of its sent samples.
    pub(crate) share: f64,
    /// Number of messages, each with a delivery for every subscriber.
    pub(crate) messages: u64,
}

/// Returns the costs of a case's valid runs: from the accounts of links, and from the counters of
/// workloads and chains.
pub(crate) fn run_costs(archive: &Archive, e: &Experiment, case: &Case) -> Result<Vec<RunCost>> {
    let runs = archive.runs(e, case)?;
    let cost = |run: &Run| {
        let counters: BTreeMap<String, Vec<u64>> =
            run.counters.iter().map(|(name, n)| (name.clone(), vec![*n])).collect();
        let t = totals_of(case, &counters, || totals(std::slice::from_ref(run), |a| a.iter()));
        let lost = t.lost(case, &counters).filter(|(_, due)| *due > 0).map(|(lost, due)| {
            let messages = if t.scheduled > 0 { t.scheduled } else { due };
            Lost { share: lost as f64 / due as f64, messages }
        });
        RunCost { cpu_ns_per_sample: t.cpu_ns_per_sample, lost }
    };
    Ok(runs.iter().filter(|run| run.is_valid()).map(cost).collect())
}

/// Returns the totals of a case: from the counts of a workload with deliveries, else from the
/// links.
fn totals_of(
    case: &Case,
    counters: &BTreeMap<String, Vec<u64>>,
    of_links: impl FnOnce() -> Totals,
) -> Totals {
    case.workload.as_ref().and_then(|_| Totals::of_workload(counters)).unwrap_or_else(of_links)
}

/// Returns the result of the peer's own latency tool for a case, if the tool ran and contradicts
/// the row.
pub(crate) fn contradiction(
    archive: &Archive,
    e: &Experiment,
    case: &Case,
) -> Result<Option<Agreement>> {
    let Some(tool) = e.cases.iter().find(|c| is_own_tool(c, case)) else { return Ok(None) };
    let agreement = Pooled::read(archive, e, case)?
        .agreement(&[Pooled::read(archive, e, tool)?], archive.manifest.seed);
    Ok(agreement.filter(Agreement::contradicts))
}

/// Returns true if one case is the latency tool that ran for the other.
fn is_own_tool(tool: &Case, row: &Case) -> bool {
    (tool.role, row.role) == (Role::OwnTool, Role::Measured)
        && (&tool.system, &tool.cell) == (&row.system, &row.cell)
}
