// SPDX-License-Identifier: Apache-2.0
//! Schedules time requests to other hosts, and detects hosts that do not answer.
//!
//! Reasons: `docs/protocols/network.md`, section 6, and `network-faults.md`.

use crate::directory::MAX_HOSTS;
use crate::wire::HostId;
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Number of fast first requests, so that an estimate exists when the first sample arrives.
const QUICK: u32 = 5;
const QUICK_EVERY: Duration = Duration::from_millis(50);
/// Period of requests to a host that sends no topic received here.
pub const ASK_OTHERS_EVERY: Duration = Duration::from_secs(2);
/// Time without an answer after which a host counts as silent. A host that dies or stops is gone
/// after its lease: 2 s, or 10 s behind routers with Zenoh's own settings.
pub const SILENT_AFTER: Duration = Duration::from_secs(20);
/// A silent host has left more than this number of requests unanswered. The time alone proves
/// nothing: this gateway may have been stopped itself.
const SILENT_TO: u32 = 10;

/// State of one host.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// Time of its arrival. Requests start then.
    since: MonotonicNs,
    every: Duration,
    asked: u32,
    next: MonotonicNs,
    /// Number of requests since the last answer, and time of the first of them.
    unanswered: u32,
    unanswered_since: MonotonicNs,
}

impl Host {
    fn is_silent(&self, now: MonotonicNs) -> bool {
        self.unanswered > SILENT_TO && now.since(self.unanswered_since) >= SILENT_AFTER
    }
}

/// Time requests to all hosts.
#[derive(Debug, Default)]
pub struct Probing {
    hosts: BTreeMap<HostId, Host>,
    /// Names of hosts for which the gateway was restarted without success. Names are kept and not
    /// ids, because a host that gets no answer from this one restarts too, and then has another id.
    /// With ids, two hosts that cannot reach each other would restart forever.
    tried: BTreeSet<String>,
}

impl Probing {
    /// `tried`: result of [`tried`](Self::tried) of the previous instance.
    #[must_use]
    pub fn new(tried: BTreeSet<String>) -> Self {
        Self { hosts: BTreeMap::new(), tried }
    }

    /// Returns the hosts to ask now, and the time of the next check. `there`: the present hosts,
    /// each with its arrival and the period of its requests. Absent hosts are forgotten.
    pub fn due<'a>(
        &mut self,
        there: impl Iterator<Item = (&'a HostId, MonotonicNs, Duration)>,
        now: MonotonicNs,
    ) -> (Vec<HostId>, Option<MonotonicNs>) {
        let before = std::mem::take(&mut self.hosts);
        let (mut due, mut soonest) = (Vec::new(), None::<MonotonicNs>);
        for (id, since, every) in there {
            let known = before.get(id).copied().filter(|h| h.since == since);
            let mut host = known.unwrap_or(Host {
                since,
                every,
                asked: 0,
                next: now,
                unanswered: 0,
                unanswered_since: now,
            });
            if every < host.every {
                // It now sends a topic received here, so its clock is needed.
                host.next = now;
            }
            host.every = every;
            if now >= host.next {
                if host.unanswered == 0 {
                    host.unanswered_since = now;
                }
                host.asked = host.asked.saturating_add(1);
                host.unanswered = host.unanswered.saturating_add(1);
                host.next = now + if host.asked < QUICK { QUICK_EVERY } else { every };
                due.push(id.clone());
            }
            soonest = Some(soonest.map_or(host.next, |s| s.min(host.next)));
            self.hosts.insert(id.clone(), host);
        }
        (due, soonest)
    }

    /// Notes an answer of a host.
    pub fn answered(&mut self, id: &HostId) {
        if let Some(host) = self.hosts.get_mut(id) {
            host.unanswered = 0;
        }
        self.tried.remove(id.name());
    }

    /// Returns a present host that does not answer and for which the gateway was not restarted yet.
    /// A start of a host counts as silent only if all reported starts of that host are silent: one
    /// of them may be a departed gateway that Zenoh still reports.
    #[must_use]
    pub fn silent(&self, now: MonotonicNs) -> Option<&HostId> {
        // A host with invented names can cause only a limited number of restarts.
        self.all_silent(now)
            .find(|id| !self.tried.contains(id.name()))
            .filter(|_| self.tried.len() < MAX_HOSTS)
    }

    fn all_silent(&self, now: MonotonicNs) -> impl Iterator<Item = &HostId> {
        let all_starts = move |name: &str| {
            self.hosts.iter().filter(|(id, _)| id.name() == name).all(|(_, h)| h.is_silent(now))
        };
        self.hosts
            .iter()
            .filter(move |(id, h)| h.is_silent(now) && all_starts(id.name()))
            .map(|(id, _)| id)
    }

    /// Returns the state for the next [`Probing`] if the gateway restarts now. One restart counts
    /// for all silent hosts.
    #[must_use]
    pub fn tried(mut self, now: MonotonicNs) -> BTreeSet<String> {
        let silent: Vec<String> = self.all_silent(now).map(|id| id.name().to_owned()).collect();
        self.tried.extend(silent);
        self.tried
    }
}

#[cfg(test)]
#[path = "probing_tests.rs"]
mod tests;
