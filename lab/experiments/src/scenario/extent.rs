// SPDX-License-Identifier: Apache-2.0
//! Extent of a measurement: the changes of a scenario by `quick:` and `paper:`.

use super::{RunSpec, Vary};
use serde::{Deserialize, Serialize};

/// Extent of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// Driveline and a few peers, in minutes.
    Quick,
    /// The scenario without the changes by `quick:` and `paper:`.
    Default,
    /// The durations and counts of the paper.
    Paper,
}

impl RunSpec {
    /// Returns these settings with the changes of another one.
    #[must_use]
    pub fn changed(&self, by: &Self) -> Self {
        let (messages, seconds) = if by.messages.is_some() || by.seconds.is_some() {
            (by.messages, by.seconds)
        } else {
            (self.messages, self.seconds)
        };
        Self {
            rounds: by.rounds.or(self.rounds),
            messages,
            seconds,
            warm_up: by.warm_up.or(self.warm_up),
            systems: by.systems.clone().or_else(|| self.systems.clone()),
            cases: by.cases.clone().or_else(|| self.cases.clone()),
            vary: self.vary.changed(&by.vary),
        }
    }
}

impl Vary {
    /// Returns these lists; the non-empty lists of another one replace them.
    #[must_use]
    pub fn changed(&self, by: &Self) -> Self {
        fn list<T: Clone>(own: &[T], by: &[T]) -> Vec<T> {
            if by.is_empty() { own.to_vec() } else { by.to_vec() }
        }
        Self {
            size: list(&self.size, &by.size),
            rate_hz: list(&self.rate_hz, &by.rate_hz),
            subscribers: list(&self.subscribers, &by.subscribers),
            copies: list(&self.copies, &by.copies),
            reach: list(&self.reach, &by.reach),
            wait: list(&self.wait, &by.wait),
            take: list(&self.take, &by.take),
            payload: list(&self.payload, &by.payload),
            reliability: list(&self.reliability, &by.reliability),
            depth: list(&self.depth, &by.depth),
            processing_us: list(&self.processing_us, &by.processing_us),
            priority: list(&self.priority, &by.priority),
            hogs: list(&self.hogs, &by.hogs),
            quota_percent: list(&self.quota_percent, &by.quota_percent),
            cable_mbit: list(&self.cable_mbit, &by.cable_mbit),
            loss_percent: list(&self.loss_percent, &by.loss_percent),
            delay_ms: list(&self.delay_ms, &by.delay_ms),
            deployment: list(&self.deployment, &by.deployment),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_extent_changes_what_it_names_and_nothing_else() {
        let run = RunSpec { rounds: Some(5), messages: Some(10), ..RunSpec::default() };
        let quick = run.changed(&RunSpec { seconds: Some(2.0), ..RunSpec::default() });
        assert_eq!((quick.rounds, quick.messages, quick.seconds), (Some(5), None, Some(2.0)));
        assert_eq!(run.changed(&RunSpec::default()), run);
    }
}
