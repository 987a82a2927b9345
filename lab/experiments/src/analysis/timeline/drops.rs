// SPDX-License-Identifier: Apache-2.0
//! Times of lost and unsent samples, derived from the stamps of sent samples and the schedule.

use super::{Timeline, seconds};
use crate::archive::{Case, LinkSample, Run};
use crate::chain_path::source_of;
use driveline_bench::harness::Pace;
use driveline_bench::observations::{Observations, Quantity};
use std::collections::BTreeSet;

/// Maximum number of stretches of a run; fewer if it has fewer samples.
const STRETCHES: f64 = 60.0;

/// Stretches of a run, in nanoseconds.
struct Stretches {
    from: u64,
    length: f64,
    counts: Vec<f64>,
}

impl Stretches {
    fn new(from: u64, to: u64, samples: f64) -> Self {
        let n = samples.clamp(1.0, STRETCHES).floor();
        Self {
            from,
            length: (to.saturating_sub(from) as f64 / n).max(1.0),
            counts: vec![0.0; n as usize],
        }
    }

    /// Returns the stretch of a time; the last one for later times.
    fn at(&self, ns: u64) -> usize {
        ((ns.saturating_sub(self.from) as f64 / self.length) as usize)
            .min(self.counts.len().saturating_sub(1))
    }

    fn add(&mut self, ns: u64, n: f64) {
        let at = self.at(ns);
        if let Some(count) = self.counts.get_mut(at) {
            *count += n;
        }
    }

    /// Adds `n` samples: the first was due one period after `ns`, each other one a period after the
    /// previous one.
    fn add_after(&mut self, ns: u64, period_ns: f64, n: u64) {
        let mut left = n;
        let (first, end) = (self.at(ns), self.counts.len());
        for at in first..end {
            // `due` is the number of samples due by the end of this stretch; the last stretch gets
            // all remaining samples.
            let until = (self.from as f64 + (at + 1) as f64 * self.length - ns as f64) / period_ns;
            let due = if at + 1 == end { n } else { (until.max(0.0) as u64).min(n) };
            let here = due.saturating_sub(n - left);
            left -= here;
            if let Some(count) = self.counts.get_mut(at) {
                *count += here as f64;
            }
            if left == 0 {
                break;
            }
        }
    }

    fn timeline(self, subject: String) -> Timeline {
        let middle = |(i, n): (usize, f64)| {
            (
                seconds(
                    self.from.saturating_add(((i as f64 + 0.5) * self.length) as u64),
                    self.from,
                ),
                n,
            )
        };
        Timeline {
            subject,
            quantity: Quantity::Drops,
            points: self.counts.iter().copied().enumerate().map(middle).collect(),
        }
    }
}

/// Returns the losses of all links with a rate together, and the unsent samples if there were any.
/// Unsent samples leave a gap between the due times of sent ones. The length of a gap at the end of
/// the run follows from the account.
pub(super) fn of_links(case: &Case, run: &Run, samples: &[LinkSample]) -> Vec<Timeline> {
    if case.is_copy() {
        return Vec::new();
    }
    let period = |link: usize| match case.links.get(link).map(|l| l.pace) {
        Some(Pace::RateHz(hz)) if hz > 0.0 => Some(1e9 / hz),
        _ => None,
    };
    let open: Vec<&LinkSample> = samples
        .iter()
        .filter(|s| period(s.link).is_some() && s.sample.sent.scheduled > 0)
        .collect();
    let due = || open.iter().map(|s| s.sample.sent.scheduled);
    let Some(from) = due().min() else { return Vec::new() };
    // Each gap: its start, the period and the number of unsent samples.
    let mut gaps: Vec<(u64, f64, u64)> = Vec::new();
    let mut to = due().max().unwrap_or(from);
    let mut most = 1.0_f64;
    for (link, account) in run.accounts.iter().enumerate() {
        let Some(period) = period(link) else { continue };
        let mut sent: Vec<u64> = open
            .iter()
            .filter(|s| s.link == link && s.sample.subscriber == 0)
            .map(|s| s.sample.sent.scheduled)
            .collect();
        sent.sort_unstable();
        let mut rest = account.scheduled.saturating_sub(account.sent);
        for pair in sent.windows(2) {
            let [before, after] = pair else { continue };
            let missing =
                (((after - before) as f64 / period).round() as u64).saturating_sub(1).min(rest);
            if missing > 0 {
                gaps.push((*before, period, missing));
                rest -= missing;
            }
        }
        if let Some(last) = sent.last().filter(|_| rest > 0) {
            gaps.push((*last, period, rest));
            to = to.max(last.saturating_add((rest as f64 * period) as u64));
        }
        most = most.max(account.scheduled as f64);
    }
    let mut lost = Stretches::new(from, to, most);
    open.iter()
        .filter(|s| s.sample.received.is_none())
        .for_each(|s| lost.add(s.sample.sent.scheduled, 1.0));
    let mut all = vec![lost.timeline("lost".into())];
    if !gaps.is_empty() {
        let mut not_sent = Stretches::new(from, to, most);
        gaps.into_iter().for_each(|(after, period, n)| not_sent.add_after(after, period, n));
        all.push(not_sent.timeline("not sent".into()));
    }
    all
}

/// Returns for each sink of a chain with a rate: the samples of the source that never reached this
/// sink. The times of unsent samples are unknown.
pub(super) fn of_chain(case: &Case, observations: &Observations) -> Vec<Timeline> {
    let Some(chain) = case.chain.as_ref().filter(|chain| chain.rate_hz.is_some()) else {
        return Vec::new();
    };
    let times = |subject: &str, quantity| {
        let series =
            observations.series.iter().filter(|s| s.subject == subject && s.quantity == quantity);
        series.flat_map(|s| &s.points).map(|p| p.time_ns).collect::<BTreeSet<u64>>()
    };
    let sinks: Vec<_> = chain.stages.iter().filter(|s| s.output.is_none()).collect();
    let mut all = Vec::new();
    for sink in &sinks {
        let at = |what: &str| {
            if sinks.len() == 1 { what.to_owned() } else { format!("{what} at {}", sink.name) }
        };
        // All points of a sample have its publish time at the source.
        let sent = source_of(&chain.stages, sink)
            .map(|source| times(source, Quantity::Computation))
            .unwrap_or_default();
        let (Some(from), Some(to)) = (sent.first(), sent.last()) else { continue };
        let mut lost = Stretches::new(*from, *to, sent.len() as f64);
        sent.difference(&times(&at("end to end"), Quantity::Latency))
            .for_each(|ns| lost.add(*ns, 1.0));
        all.push(lost.timeline(at("lost")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_stands_in_an_archive_is_counted_once(
            from: u64, to: u64, samples in 0.0..1e12f64, ns: u64, period in 1e-9..1e19f64, n: u64
        ) {
            let mut s = Stretches::new(from, to, samples);
            s.add(ns, 1.0);
            s.add_after(ns, period, n);
            let all: f64 = s.counts.iter().sum();
            prop_assert!((all - (n as f64 + 1.0)).abs() <= 1e-9 * all, "{all}");
            prop_assert!(s.timeline("lost".into()).points.windows(2).all(|w| w[0].0 <= w[1].0));
        }
    }

    #[test]
    fn samples_in_a_gap_are_counted_when_they_were_due() {
        // Ten stretches of 10 ns; due every 5 ns after 20 ns: at 25, 30, 35, 40, 45.
        let mut s = Stretches::new(0, 100, 10.0);
        s.add_after(20, 5.0, 5);
        assert_eq!(s.counts, [0.0, 0.0, 2.0, 2.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
