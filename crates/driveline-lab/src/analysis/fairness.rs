// SPDX-License-Identifier: Apache-2.0
//! Whether the subscribers of a link are served alike.

use super::CaseResult;

/// Of one link with several subscribers: how far apart they are.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness {
    /// How many there are.
    pub subscribers: usize,
    /// Of those: received something.
    pub served: usize,
    /// The least median of any of them, in nanoseconds.
    pub first_p50: u64,
    /// The greatest one.
    pub last_p50: u64,
    /// Of the samples that all of them received: the share for which the same one took longest, and which one that is.
    pub most_often_last: Option<(f64, String)>,
}

impl CaseResult {
    /// How alike the subscribers of its one link are served; nothing of other cases, and where nobody got anything.
    #[must_use]
    pub fn fairness(&self) -> Option<Fairness> {
        let [link] = self.case.links.as_slice() else { return None };
        let medians = || self.subscribers.iter().filter_map(|s| s.transport.percentiles.p50);
        let (first_p50, last_p50) = medians().min().zip(medians().max()).filter(|_| link.subscribers > 1)?;
        let lasts = self.subscribers.iter().filter_map(|s| Some((s.last_share?, s.name.clone())));
        Some(Fairness {
            subscribers: link.subscribers,
            served: self.subscribers.len(),
            first_p50,
            last_p50,
            most_often_last: lasts.max_by(|a, b| a.0.total_cmp(&b.0)),
        })
    }
}
