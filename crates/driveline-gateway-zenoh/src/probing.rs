// SPDX-License-Identifier: Apache-2.0
//! When another host is asked for the time, and what it means when it never answers.
//!
//! Reasons: `docs/protocols/network.md`, sections 6 and 7.

use crate::clock::ASK_EVERY;
use crate::wire::HostId;
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The first questions come fast, so that there is an estimate when the first sample comes.
const QUICK: u32 = 5;
const QUICK_EVERY: Duration = Duration::from_millis(50);
/// So many questions without an answer, for 20 s, and the host is not just slow: who dies or stands still is gone after a lease, 2 s or, behind routers with Zenoh's own
/// settings, 10 s.
pub const SILENT_AFTER: u32 = 40;

/// Of one host.
#[derive(Clone, Copy, Debug)]
struct Host {
    /// When it came: it is asked anew then.
    since: MonotonicNs,
    asked: u32,
    next: MonotonicNs,
    /// Questions since the last answer.
    unanswered: u32,
    /// It has answered at some time.
    answered: bool,
}

/// The questions for the time to all hosts.
#[derive(Debug, Default)]
pub struct Probing {
    hosts: BTreeMap<HostId, Host>,
    /// Hosts for which the gateway has been started anew. That did not help unless they have answered since.
    tried: BTreeSet<HostId>,
}

impl Probing {
    /// `tried`: hosts for which the gateway was started anew.
    #[must_use]
    pub fn new(tried: BTreeSet<HostId>) -> Self {
        Self { hosts: BTreeMap::new(), tried }
    }

    /// The hosts that are to be asked now, of those that are there and since when, and when to look again. Who is not there is forgotten.
    pub fn due<'a>(
        &mut self,
        there: impl Iterator<Item = (&'a HostId, MonotonicNs)>,
        now: MonotonicNs,
    ) -> (Vec<HostId>, Option<MonotonicNs>) {
        let before = std::mem::take(&mut self.hosts);
        let (mut due, mut soonest) = (Vec::new(), None::<MonotonicNs>);
        for (id, since) in there {
            let known = before.get(id).copied();
            let answered = known.is_some_and(|h| h.answered);
            let mut host = known.filter(|h| h.since == since).unwrap_or(Host { since, asked: 0, next: now, unanswered: 0, answered });
            if now >= host.next {
                host.asked = host.asked.saturating_add(1);
                host.unanswered = host.unanswered.saturating_add(1);
                host.next = now + if host.asked < QUICK { QUICK_EVERY } else { ASK_EVERY };
                due.push(id.clone());
            }
            soonest = Some(soonest.map_or(host.next, |s| s.min(host.next)));
            self.hosts.insert(id.clone(), host);
        }
        (due, soonest)
    }

    /// A host has answered.
    pub fn answered(&mut self, id: &HostId) {
        if let Some(host) = self.hosts.get_mut(id) {
            (host.unanswered, host.answered) = (0, true);
        }
    }

    /// A host that is there and answers nothing, and for which the gateway was not started anew in vain.
    #[must_use]
    pub fn silent(&self) -> Option<&HostId> {
        let silent = |(id, h): &(&HostId, &Host)| h.unanswered > SILENT_AFTER && (h.answered || !self.tried.contains(id));
        self.hosts.iter().find(silent).map(|(id, _)| id)
    }

    /// What the next [`Probing`] begins with, when the gateway is started anew for this host.
    #[must_use]
    pub fn tried(self, silent: HostId) -> BTreeSet<HostId> {
        let in_vain = |id: &HostId| self.hosts.get(id).is_some_and(|h| !h.answered);
        self.tried.into_iter().filter(in_vain).chain([silent]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> MonotonicNs {
        MonotonicNs(ms * 1_000_000)
    }

    fn host(number: u64) -> HostId {
        HostId::new("roof", number).unwrap()
    }

    /// Asks one host until so many questions are out.
    fn ask(probing: &mut Probing, id: &HostId, since: MonotonicNs, questions: u32, now: &mut MonotonicNs) {
        for _ in 0..questions {
            let (due, next) = probing.due([(id, since)].into_iter(), *now);
            assert_eq!(due, std::slice::from_ref(id));
            *now = next.unwrap();
        }
    }

    #[test]
    fn the_first_questions_come_fast_and_again_when_a_host_has_come_back() {
        let (mut probing, id) = (Probing::default(), host(1));
        let mut at = Vec::new();
        for now in 0..2_000 {
            let (due, next) = probing.due([(&id, ms(0))].into_iter(), ms(now));
            assert!(next.unwrap() > ms(now));
            at.extend(due.iter().map(|_| now));
        }
        assert_eq!(at, [0, 50, 100, 150, 200, 700, 1_200, 1_700]);
        let again = |probing: &mut Probing, now| probing.due([(&id, ms(1_900))].into_iter(), ms(now)).0.len();
        assert_eq!((again(&mut probing, 2_000), again(&mut probing, 2_049), again(&mut probing, 2_050)), (1, 0, 1));
        assert_eq!(probing.due(std::iter::empty(), ms(2_051)), (Vec::new(), None));
    }

    #[test]
    fn who_answers_nothing_is_told_once() {
        let (id, other, mut now) = (host(1), host(2), ms(0));
        let mut probing = Probing::default();
        ask(&mut probing, &id, ms(0), SILENT_AFTER, &mut now);
        assert_eq!(probing.silent(), None);
        probing.answered(&other);
        probing.answered(&id);
        ask(&mut probing, &id, ms(0), SILENT_AFTER, &mut now);
        assert_eq!(probing.silent(), None);
        ask(&mut probing, &id, ms(0), 1, &mut now);
        assert_eq!(probing.silent(), Some(&id));
        assert!(now.since(ms(0)) >= Duration::from_secs(19));

        let mut anew = Probing::new(probing.tried(id.clone()));
        ask(&mut anew, &id, ms(0), 2 * SILENT_AFTER, &mut now);
        assert_eq!(anew.silent(), None, "it did not help");
        anew.answered(&id);
        ask(&mut anew, &id, ms(0), SILENT_AFTER + 1, &mut now);
        assert_eq!(anew.silent(), Some(&id), "it did");
        // It was away meanwhile.
        ask(&mut anew, &id, ms(1), 1, &mut now);
        assert_eq!(anew.silent(), None);
        ask(&mut anew, &other, ms(1), SILENT_AFTER + 1, &mut now);
        assert_eq!(anew.silent(), Some(&other));
        let _ = anew.due(std::iter::empty(), now);
        assert_eq!(anew.silent(), None, "it is gone");
        assert_eq!(anew.tried(other.clone()), [other].into(), "who is gone is not kept");
    }
}
