// SPDX-License-Identifier: Apache-2.0
//! When another host is asked for the time, and what it means when it never answers.
//!
//! Reasons: `docs/protocols/network.md`, sections 6 and 7.

use crate::clock::ASK_EVERY;
use crate::directory::MAX_HOSTS;
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
}

impl Host {
    fn is_silent(&self) -> bool {
        self.unanswered > SILENT_AFTER
    }
}

/// The questions for the time to all hosts.
#[derive(Debug, Default)]
pub struct Probing {
    hosts: BTreeMap<HostId, Host>,
    /// Names of hosts for which the gateway has been started anew, and that have answered nothing since: that did not help. Names, because whoever gets no answer
    /// from this one starts anew as well, and is another host then: two that cannot ask each other would go on so for ever.
    tried: BTreeSet<String>,
}

impl Probing {
    /// `tried`: what [`tried`](Self::tried) of the one before gave.
    #[must_use]
    pub fn new(tried: BTreeSet<String>) -> Self {
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
            let known = before.get(id).copied().filter(|h| h.since == since);
            let mut host = known.unwrap_or(Host { since, asked: 0, next: now, unanswered: 0 });
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
            host.unanswered = 0;
        }
        self.tried.remove(id.name());
    }

    /// A host that is there and answers nothing, and for which the gateway was not started anew in vain. None if another start of the same host may answer: then
    /// somebody goes on telling of one that has gone.
    #[must_use]
    pub fn silent(&self) -> Option<&HostId> {
        let all_silent = |name: &str| self.hosts.iter().filter(|(id, _)| id.name() == name).all(|(_, h)| h.is_silent());
        let silent = |(id, h): &(&HostId, &Host)| h.is_silent() && !self.tried.contains(id.name()) && all_silent(id.name());
        // Whoever makes up names has the gateway start anew so often, and no more.
        self.hosts.iter().find(silent).map(|(id, _)| id).filter(|_| self.tried.len() < MAX_HOSTS)
    }

    /// What the next [`Probing`] begins with, when the gateway is started anew for this host.
    #[must_use]
    pub fn tried(mut self, silent: &HostId) -> BTreeSet<String> {
        self.tried.insert(silent.name().to_owned());
        self.tried
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> MonotonicNs {
        MonotonicNs(ms * 1_000_000)
    }

    fn host(name: &str, number: u64) -> HostId {
        HostId::new(name, number).unwrap()
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
        let (mut probing, id) = (Probing::default(), host("roof", 1));
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
        let (id, other, mut now) = (host("roof", 1), host("trunk", 1), ms(0));
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

        let mut anew = Probing::new(probing.tried(&id));
        // That one has heard nothing either, and has started anew.
        let again = host("roof", 2);
        for id in [&id, &again] {
            ask(&mut anew, id, ms(0), 2 * SILENT_AFTER, &mut now);
            assert_eq!(anew.silent(), None, "it did not help");
        }
        anew.answered(&again);
        ask(&mut anew, &again, ms(0), SILENT_AFTER, &mut now);
        assert_eq!(anew.silent(), None);
        ask(&mut anew, &again, ms(0), 1, &mut now);
        assert_eq!(anew.silent(), Some(&again), "it did");
        let _ = anew.due(std::iter::empty(), now);
        assert_eq!(anew.silent(), None, "it is gone");
        // It is back, and has answered nothing since.
        ask(&mut anew, &again, ms(1), SILENT_AFTER, &mut now);
        assert_eq!(anew.silent(), None);
        ask(&mut anew, &again, ms(1), 1, &mut now);
        assert_eq!(anew.silent(), Some(&again), "that it helped is not forgotten when it goes");
        ask(&mut anew, &other, ms(1), SILENT_AFTER + 1, &mut now);
        assert_eq!(anew.silent(), Some(&other));
        assert_eq!(anew.tried(&other), ["trunk".to_owned()].into());
    }

    #[test]
    fn one_that_is_still_told_of_while_its_successor_answers_is_no_reason() {
        let (before, after, mut now) = (host("roof", 1), host("roof", 2), ms(0));
        let mut probing = Probing::default();
        let mut ask_both = |probing: &mut Probing| {
            let (due, next) = probing.due([(&before, ms(0)), (&after, ms(0))].into_iter(), now);
            assert_eq!(due.len(), 2);
            now = next.unwrap();
        };
        for _ in 0..2 * SILENT_AFTER {
            ask_both(&mut probing);
            probing.answered(&after);
            assert_eq!(probing.silent(), None);
        }
        for _ in 0..SILENT_AFTER {
            ask_both(&mut probing);
            assert_eq!(probing.silent(), None);
        }
        ask_both(&mut probing);
        assert_eq!(probing.silent(), Some(&before), "neither answers");
    }

    #[test]
    fn hosts_of_ever_new_names_do_not_go_on_for_ever() {
        let (id, mut now) = (host("roof", 1), ms(0));
        for (tried, silent) in [(MAX_HOSTS - 1, Some(&id)), (MAX_HOSTS, None)] {
            let mut probing = Probing::new((0..tried).map(|n| n.to_string()).collect());
            ask(&mut probing, &id, ms(0), SILENT_AFTER + 1, &mut now);
            assert_eq!(probing.silent(), silent);
        }
    }
}
