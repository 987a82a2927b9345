// SPDX-License-Identifier: Apache-2.0
//! Plan of faults, with their order and pauses. The same request with the same seed gives the same
//! plan.

use crate::faults::FaultKind;
use driveline_bench::stats::Random;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::Duration;

/// A fault to be caused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Planned {
    /// Kind.
    pub kind: FaultKind,
    /// Module; none for faults of the whole run.
    pub module: Option<String>,
    /// Pause before it, after the graph has answered the previous fault.
    pub pause: Duration,
    /// Time for which a process stays stopped.
    pub stopped: Duration,
}

/// Requested faults and targets.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Kinds and their modules.
    pub faults: Vec<(FaultKind, Option<String>)>,
    /// Number of faults of each entry in `faults`.
    pub times: usize,
    /// Seed.
    pub seed: u64,
    /// Shortest and longest pause.
    pub pause: (Duration, Duration),
    /// Shortest and longest time for which a process stays stopped.
    pub stopped: (Duration, Duration),
}

/// Returns all faults, in a random order that the seed determines.
#[must_use]
pub fn plan(wanted: &Wanted) -> Vec<Planned> {
    let mut random = Random::new(wanted.seed);
    let of_each = |(kind, module): &(FaultKind, Option<String>)| {
        std::iter::repeat_n((*kind, module.clone()), wanted.times)
    };
    let mut all: Vec<_> = wanted.faults.iter().flat_map(of_each).collect();
    random.shuffle(&mut all);
    let mut between = |(least, most): (Duration, Duration)| {
        let span = usize::try_from(most.saturating_sub(least).as_micros()).unwrap_or(usize::MAX);
        least + Duration::from_micros(random.below(span.saturating_add(1)) as u64)
    };
    all.into_iter()
        .map(|(kind, module)| Planned {
            kind,
            module,
            pause: between(wanted.pause),
            stopped: between(wanted.stopped),
        })
        .collect()
}

/// Restarts of a module, counted so that the laboratory alone does not exceed the graph's limit.
#[derive(Clone, Debug, Default)]
pub struct Restarts(VecDeque<Duration>);

impl Restarts {
    /// Adds a restart that ended at this time.
    pub fn add(&mut self, at: Duration) {
        self.0.push_back(at);
    }

    /// Returns the time until one more restart stays within the limit of `max` in `window`.
    #[must_use]
    pub fn wait(&mut self, now: Duration, max: usize, window: Duration) -> Duration {
        while self.0.front().is_some_and(|at| now.saturating_sub(*at) > window) {
            self.0.pop_front();
        }
        let Some(surplus) = self.0.len().checked_sub(max.max(1)) else { return Duration::ZERO };
        let until = self.0.get(surplus).map_or(now, |at| *at + window);
        until.saturating_sub(now) + Duration::from_millis(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn wanted(seed: u64) -> Wanted {
        Wanted {
            faults: vec![
                (FaultKind::Kill, Some("lane".into())),
                (FaultKind::Stop, Some("detector".into())),
                (FaultKind::Launcher, None),
            ],
            times: 20,
            seed,
            pause: (S, 3 * S),
            stopped: (S, S),
        }
    }

    #[test]
    fn a_seed_fixes_the_plan_and_another_gives_another() {
        assert_eq!(plan(&wanted(1)), plan(&wanted(1)));
        assert_ne!(plan(&wanted(1)), plan(&wanted(2)));
    }

    #[test]
    fn each_fault_is_planned_as_often_as_it_is_asked_for_with_pauses_in_their_bounds() {
        let all = plan(&wanted(7));
        for (kind, module) in wanted(7).faults {
            let those = all.iter().filter(|p| p.kind == kind && p.module == module);
            assert_eq!(those.count(), 20, "{kind}");
        }
        assert!(all.iter().all(|p| (S..=3 * S).contains(&p.pause) && p.stopped == S));
    }

    #[test]
    fn the_laboratory_waits_until_a_restart_is_within_the_limit() {
        let mut restarts = Restarts::default();
        for at in [1, 2, 3] {
            assert_eq!(restarts.wait(at * S, 3, 60 * S), Duration::ZERO);
            restarts.add(at * S);
        }
        // The first restart leaves the window at 61 s.
        let wait = restarts.wait(11 * S, 3, 60 * S);
        assert!(wait > 50 * S && wait < 51 * S, "{wait:?}");
        assert_eq!(restarts.wait(62 * S, 3, 60 * S), Duration::ZERO);
        assert_eq!(restarts.wait(62 * S, usize::MAX, 60 * S), Duration::ZERO);
    }
}
