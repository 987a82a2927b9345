// SPDX-License-Identifier: Apache-2.0
//! Fairness among the subscribers of a link.

use super::CaseResult;
use super::pooled::subscriptions;

/// Differences between the subscribers of one link, or between the subscriptions of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness {
    /// Number of subscribers.
    pub subscribers: usize,
    /// Number of subscribers that received something.
    pub served: usize,
    /// Smallest and largest median of the subscribers, in nanoseconds; `None` if none is served.
    pub medians: Option<(u64, u64)>,
    /// For the subscriber that was last most often: the share of samples for which it was last,
    /// among the samples that all subscribers received, and its name.
    pub most_often_last: Option<(f64, String)>,
}

impl Fairness {
    /// Returns the ratio of the last subscriber's median to the first one's; `None` if fewer than
    /// two are served.
    #[must_use]
    pub fn last_to_first(&self) -> Option<f64> {
        let (first, last) = self.medians.filter(|(first, _)| self.served > 1 && *first > 0)?;
        Some(last as f64 / first as f64)
    }
}

impl CaseResult {
    /// Returns the fairness among the subscribers of the case's only link, or among the
    /// subscriptions of its workload, in valid runs. `None` for other cases, and without valid
    /// runs. The last subscriber is known only for links, because subscriptions of a workload may
    /// get different messages.
    #[must_use]
    pub fn fairness(&self) -> Option<Fairness> {
        let subscribers = match self.case.links.as_slice() {
            [] => usize::try_from(subscriptions(&self.counters)).ok()?,
            [link] => link.subscribers,
            _ => return None,
        };
        if subscribers < 2 || self.valid_runs() == 0 {
            return None;
        }
        let medians = || self.subscribers.iter().filter_map(|s| s.transport.percentiles.p50);
        let lasts = self.subscribers.iter().filter_map(|s| Some((s.last_share?, s.name.clone())));
        Some(Fairness {
            subscribers,
            served: self.subscribers.len(),
            medians: medians().min().zip(medians().max()),
            most_often_last: lasts.max_by(|a, b| a.0.total_cmp(&b.0)),
        })
    }
}
