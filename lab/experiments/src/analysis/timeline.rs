// SPDX-License-Identifier: Apache-2.0
//! Changes during a run: latency, processor time, memory, drops and other observations.

mod drops;

use crate::archive::{Case, LinkSample, Run};
use driveline_bench::observations::{Observations, Quantity};

/// Maximum number of points of a timeline.
const MAX_POINTS: usize = 240;
/// Maximum number of timelines of a case: more would be unreadable.
const MAX_TIMELINES: usize = 64;

/// One quantity over the time of the first valid run.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Subject: `transport`, `lost`, `not sent`, a process, or a subject that a workload or chain
    /// observes.
    pub subject: String,
    /// Quantity.
    pub quantity: Quantity,
    /// Points of seconds since the first sample or observation and the value. The value of
    /// processor time is the number of CPUs in use; drops are the number since the point before;
    /// other values are in the quantity's unit. If there were too many points, each point is the
    /// maximum of a stretch.
    pub points: Vec<(f64, f64)>,
}

pub(super) fn timelines(
    case: &Case,
    run: &Run,
    samples: &[LinkSample],
    observations: &Observations,
) -> Vec<Timeline> {
    let mut all = drops::of_links(case, run, samples);
    all.extend(drops::of_chain(case, observations));
    all.extend(latency(samples));
    let first = observations.series.iter().flat_map(|s| s.points.first()).map(|p| p.time_ns).min();
    for s in &observations.series {
        let Some(start) = first else { break };
        let mut points = Vec::with_capacity(s.points.len());
        let mut before = None;
        for p in &s.points {
            let at = seconds(p.time_ns, start);
            match (s.quantity, before) {
                // The point is the processor time since the previous point, divided by the time
                // since then. The first point has no previous one.
                (Quantity::Cpu, Some(before)) if p.time_ns > before => {
                    points.push((at, p.value as f64 / (p.time_ns - before) as f64));
                }
                (Quantity::Cpu, _) => {}
                _ => points.push((at, p.value as f64)),
            }
            before = Some(p.time_ns);
        }
        // A single point is not a timeline.
        if points.len() > 1 {
            all.push(Timeline {
                subject: s.subject.clone(),
                quantity: s.quantity,
                points: thinned(&points),
            });
        }
    }
    // Puts observed processes and drops before observations of workloads.
    all.sort_by_key(|t| {
        !matches!(t.quantity, Quantity::Cpu | Quantity::ResidentMemory | Quantity::Drops)
    });
    all.truncate(MAX_TIMELINES);
    all
}

fn latency(samples: &[LinkSample]) -> Option<Timeline> {
    let received = || samples.iter().filter(|s| s.sample.received.is_some());
    let start = received().map(|s| s.sample.sent.before_publish).min()?;
    let at = |s: &LinkSample| {
        (seconds(s.sample.sent.before_publish, start), s.sample.transport_ns as f64)
    };
    let mut points: Vec<_> = received().map(at).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.total_cmp(&a.1)));
    // For several subscribers, keeps only the slowest delivery of each sample: a line through all
    // of them would jump at each sample.
    points.dedup_by_key(|(at, _)| *at);
    Some(Timeline {
        subject: "transport".into(),
        quantity: Quantity::Latency,
        points: thinned(&points),
    })
}

fn seconds(time_ns: u64, start_ns: u64) -> f64 {
    time_ns.saturating_sub(start_ns) as f64 / 1e9
}

/// Returns at most [`MAX_POINTS`] points: the maximum of each stretch, because peaks matter.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MAX_POINTS).max(1);
    points
        .chunks(stretch)
        .filter_map(|c| c.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_bench::Sample;
    use driveline_bench::harness::{ReceivedRow, SentRow};

    #[test]
    fn of_several_subscribers_the_last_is_on_the_line() {
        let sample = |sequence: u64, subscriber, transport_ns| LinkSample {
            link: 0,
            sample: Sample {
                subscriber,
                sent: SentRow {
                    sequence,
                    before_publish: sequence * 1_000_000_000,
                    ..SentRow::default()
                },
                received: Some(ReceivedRow { sequence, ..ReceivedRow::default() }),
                transport_ns,
                fill_and_transport_ns: 0,
            },
        };
        let all = [sample(1, 0, 5), sample(1, 1, 9), sample(2, 0, 8), sample(2, 1, 7)];
        let line = latency(&all).unwrap();
        assert_eq!(line.points, [(0.0, 9.0), (1.0, 8.0)]);
    }

    #[test]
    fn peaks_survive_thinning() {
        let points: Vec<_> =
            (0..10_000).map(|i| (f64::from(i), if i == 7777 { 5.0 } else { 1.0 })).collect();
        let few = thinned(&points);
        assert!(few.len() <= MAX_POINTS && few.contains(&(7777.0, 5.0)), "{}", few.len());
        assert_eq!(thinned(&points[..3]), points[..3]);
    }
}
