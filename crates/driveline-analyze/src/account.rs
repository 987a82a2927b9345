// SPDX-License-Identifier: Apache-2.0
//! Data of a run besides the callbacks themselves.

use crate::backpressure::Backpressure;
use crate::deadlines::Deadlines;
use driveline_runtime::account::{CallCounters, CallEnd, CallbackCounters, HeldEnd};
use std::collections::BTreeMap;

/// Data besides the callbacks themselves.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    /// Records that never arrived, by module.
    pub(crate) lost: BTreeMap<String, LostRecords>,
    /// Counters of each component; each set replaces the one before.
    pub(crate) counters: BTreeMap<String, CallbackCounters>,
    /// The same counters from earlier processes of restarted modules.
    pub(crate) before_restart: BTreeMap<String, CallbackCounters>,
    /// Calls, by component, service and end.
    pub(crate) services: BTreeMap<(String, String, CallEnd), CallSeries>,
    /// Notes of components for readers of the figures: text by component and name.
    pub(crate) facts: BTreeMap<(String, String), String>,
    /// The first refused connections: component, port and reason. If the publisher and the
    /// subscriber of a connection are both in the run, only one of the two is listed.
    pub(crate) refused: Vec<(String, String, String)>,
    /// Deadlines that ports missed.
    pub(crate) deadlines: Deadlines,
    pub(crate) backpressure: Backpressure,
    /// Inputs whose component kept as many samples as it may hold, by component and input.
    pub(crate) kept: BTreeMap<(String, String), KeptSeries>,
    /// Unfinished calls of `on_trigger`, by component, as text: `on_trigger on sample 1 of
    /// 'camera/image'`. Only calls that were reported as long, or during which their process ended,
    /// are here.
    pub(crate) in_call: BTreeMap<String, String>,
    /// First failures, as text for people.
    pub(crate) failures: Vec<String>,
}

/// Periods in which a component held as many samples of an input as permitted, and so got no
/// others.
#[derive(Debug)]
pub(crate) struct KeptSeries {
    pub(crate) topic: String,
    pub(crate) held: u32,
    pub(crate) triggers: bool,
    pub(crate) times: u64,
    /// End of the most recent period; `None` while that period lasts.
    pub(crate) last_end: Option<HeldEnd>,
    /// True if the module's process ended during the period.
    pub(crate) until_restart: bool,
}

/// Records of a module that never arrived: of callbacks and others. A restarted process counts from
/// 0: `since` has the counts of the newest process, `before_restart` the sum of those before it.
#[derive(Debug, Default)]
pub(crate) struct LostRecords {
    before_restart: [u64; 2],
    since: [u64; 2],
}

impl LostRecords {
    pub(crate) fn set(&mut self, callbacks: u64, others: u64) {
        if callbacks < self.since[0] || others < self.since[1] {
            self.before_restart = self.total();
        }
        self.since = [callbacks, others];
    }

    fn total(&self) -> [u64; 2] {
        [0, 1].map(|kind| self.before_restart[kind].saturating_add(self.since[kind]))
    }
}

/// Counters of one end of a service. A restarted process counts from 0: `since` has the counters of
/// the newest process, `before_restart` the sum of those before it.
#[derive(Debug, Default)]
pub(crate) struct CallSeries {
    pub(crate) before_restart: CallCounters,
    pub(crate) since: CallCounters,
}

impl CallSeries {
    pub(crate) fn set(&mut self, calls: CallCounters) {
        if calls.calls < self.since.calls {
            self.before_restart = self.before_restart.and(self.since);
        }
        self.since = calls;
    }

    pub(crate) fn total(&self) -> CallCounters {
        self.before_restart.and(self.since)
    }
}

impl Accounts {
    /// Counters of a component over all its processes, if it gave any.
    pub(crate) fn counters(&self, component: &str) -> Option<CallbackCounters> {
        let parts = [self.before_restart.get(component), self.counters.get(component)];
        parts.into_iter().flatten().copied().reduce(CallbackCounters::and)
    }

    /// Adds up the counters of a component whose process has ended; the next process counts from 0.
    pub(crate) fn bank(&mut self, component: &str) {
        self.in_call.remove(component);
        for (_, kept) in self.kept.iter_mut().filter(|((of, _), _)| of == component) {
            kept.until_restart |= kept.last_end.is_none();
        }
        if let Some(counters) = self.counters.remove(component) {
            let before = self.before_restart.entry(component.to_owned()).or_default();
            *before = before.and(counters);
        }
    }

    pub(crate) fn lost(&self) -> u64 {
        self.lost.values().fold(0, |sum, lost| sum.saturating_add(lost.total()[0]))
    }

    pub(crate) fn lost_others(&self) -> u64 {
        self.lost.values().fold(0, |sum, lost| sum.saturating_add(lost.total()[1]))
    }
}
