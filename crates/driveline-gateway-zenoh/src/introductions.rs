// SPDX-License-Identifier: Apache-2.0
//! Hosts that this one does not hear of and others do: `docs/protocols/network-faults.md`, "Hosts
//! that others know". No thread, no network, no clock.
//!
//! Zenoh tells two hosts of each other once, when one of them comes to a third, and tries once. So
//! each gateway asks the hosts that it hears whom they hear and where those listen, and tries each
//! place once for each answer: one after the other, and those who tell in turn, so that one who
//! tells of many that are none leaves the others theirs.

use crate::wire::{HostId, Introduction, place};
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// How often each host is asked, at least. Up to a fifth more, which is of each gateway: two that
/// ask at the same moments would connect to each other at the same moments.
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// The pause between two attempts: whoever has others connect to a third one can have them do so as
/// often.
pub const ATTEMPT_EVERY: Duration = Duration::from_millis(125);
/// Of two that are told of each other the one with the lower number tries, and the other one as
/// seldom as this, in case only it can: of two attempts at the same moment Zenoh keeps both
/// connections.
const YIELDS_FOR: Duration = Duration::from_secs(20);
/// So long somebody was told of, and a place tried in vain, before people are told.
const TOLD_AFTER: Duration = Duration::from_secs(10);
/// Most hosts that people are told of at a time as not reached: there are no more in a domain.
const MAX_UNREACHED: usize = 64;
/// Most of them in so long; the others are told of later, if they are not reached then.
const MAX_NEWS: usize = 8;
const NEWS_EVERY: Duration = Duration::from_secs(600);
/// Places of one host that were tried, as people are told.
const MAX_TRIED: usize = 4;

/// One attempt to connect to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The host.
    pub host: HostId,
    /// Where it listens, as somebody says.
    pub at: String,
    /// It was tried in vain, and people are to know of that now: who tells of it, and the places
    /// that were tried.
    pub news: Option<(HostId, Vec<String>)>,
}

#[derive(Debug)]
struct Known {
    asked: MonotonicNs,
    listens: Vec<String>,
    /// What it told of last and is still to be tried.
    untried: VecDeque<(HostId, String)>,
    /// What of that was tried last: the next answer is gone on with after it.
    tried: Option<(HostId, String)>,
}

#[derive(Debug)]
struct Unreached {
    /// When it was told of first, and last.
    since: MonotonicNs,
    last: MonotonicNs,
    tried: BTreeSet<String>,
    is_told: bool,
}

/// See the module.
#[derive(Debug)]
pub struct Introductions {
    me: HostId,
    listens: Vec<String>,
    /// Of the endpoints that this host has, those before the slash: nobody is to have it connect in
    /// another way, over TCP where it is TLS, for example.
    protocols: BTreeSet<String>,
    /// Of each host that is here.
    known: BTreeMap<HostId, Known>,
    /// Those that are not and were told of.
    unreached: BTreeMap<HostId, Unreached>,
    every: Duration,
    /// Whose turn it was last, and when the next attempt may be made.
    turn: Option<HostId>,
    next_attempt: MonotonicNs,
    /// When people were told.
    news: VecDeque<MonotonicNs>,
}

impl Introductions {
    /// `listens`: the addresses where this host listens. `connects`: the endpoints that it is told
    /// to connect to.
    #[must_use]
    pub fn new(me: HostId, listens: &[String], connects: &[String]) -> Self {
        let protocols = listens
            .iter()
            .chain(connects)
            .filter_map(|endpoint| Some(endpoint.split_once('/')?.0.to_owned()))
            .collect();
        let listens = listens.iter().filter_map(|endpoint| place(endpoint)).collect();
        let every = ASK_EVERY + ASK_EVERY / 5_000 * (me.incarnation() % 1_000) as u32;
        let (known, unreached, news) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self {
            me,
            listens,
            protocols,
            known,
            unreached,
            every,
            turn: None,
            next_attempt: MonotonicNs(0),
            news,
        }
    }

    /// Whom to ask now, of the hosts that are here, and when to look again. Forgets all others.
    pub fn due<'a>(
        &mut self,
        here: impl Iterator<Item = &'a HostId>,
        now: MonotonicNs,
    ) -> (Vec<HostId>, Option<MonotonicNs>) {
        let mut before = std::mem::take(&mut self.known);
        let (mut due, mut next) = (Vec::new(), None::<MonotonicNs>);
        for host in here {
            self.unreached.remove(host);
            let mut known = before.remove(host).unwrap_or_else(|| {
                due.push(host.clone());
                Known { asked: now, listens: Vec::new(), untried: VecDeque::new(), tried: None }
            });
            if now >= known.asked + self.every {
                known.asked = now;
                due.push(host.clone());
            }
            let at = known.asked + self.every;
            next = Some(next.map_or(at, |n| n.min(at)));
            self.known.insert(host.clone(), known);
        }
        let every = self.every;
        self.unreached.retain(|_, unreached| now < unreached.last + every + every);
        (due, next)
    }

    /// What this host answers when it is asked.
    #[must_use]
    pub fn answer(&self) -> Introduction {
        let hears = self.known.iter().filter(|(_, known)| !known.listens.is_empty());
        Introduction {
            listens: self.listens.clone(),
            hears: hears.map(|(host, known)| (host.clone(), known.listens.clone())).collect(),
        }
    }

    /// A host has answered: those whom it hears and this host does not are to be tried, in place of
    /// those of its answer before.
    pub fn answered(&mut self, by: &HostId, answer: Introduction, now: MonotonicNs) {
        let mut told = VecDeque::new();
        for (host, listens) in answer.hears {
            if host == self.me || self.known.contains_key(&host) {
                continue;
            }
            let of_mine = |endpoint: &str| {
                endpoint
                    .split_once('/')
                    .is_some_and(|(protocol, _)| self.protocols.contains(protocol))
            };
            told.extend(
                listens
                    .into_iter()
                    .filter(|endpoint| of_mine(endpoint))
                    .map(|at| (host.clone(), at)),
            );
        }
        let Some(known) = self.known.get_mut(by) else { return };
        known.listens = answer.listens;
        for (host, _) in &told {
            if self.unreached.len() < MAX_UNREACHED || self.unreached.contains_key(host) {
                let new =
                    || Unreached { since: now, last: now, tried: BTreeSet::new(), is_told: false };
                self.unreached.entry(host.clone()).or_insert_with(new).last = now;
            }
        }
        let others_turn = |host: &HostId| {
            let told_for = self.unreached.get(host).map(|unreached| now.since(unreached.since));
            !self.listens.is_empty()
                && host.incarnation() < self.me.incarnation()
                && !told_for.is_some_and(is_own_turn)
        };
        told.retain(|(host, _)| !others_turn(host));
        if let Some(at) = told.iter().position(|entry| Some(entry) == known.tried.as_ref()) {
            told.rotate_left((at + 1) % told.len());
        }
        known.untried = told;
    }

    /// What to try now, of those whom `is_free` permits, and when to look again: nothing is left to
    /// be tried where that is `None`.
    pub fn attempt(
        &mut self,
        now: MonotonicNs,
        is_free: impl Fn(&HostId) -> bool,
    ) -> (Option<Attempt>, Option<MonotonicNs>) {
        if now < self.next_attempt {
            let waits = self.known.values().any(|known| !known.untried.is_empty());
            return (None, waits.then_some(self.next_attempt));
        }
        let here: BTreeSet<HostId> = self.known.keys().cloned().collect();
        let after =
            here.iter().skip_while(|host| self.turn.as_ref().is_some_and(|turn| *host <= turn));
        let turns: Vec<&HostId> = after.chain(&here).take(here.len()).collect();
        let mut found = None;
        for by in turns {
            let Some(known) = self.known.get_mut(by) else { continue };
            known.untried.retain(|(host, _)| !here.contains(host));
            if let Some(entry) = known
                .untried
                .iter()
                .position(|(host, _)| is_free(host))
                .and_then(|at| known.untried.remove(at))
            {
                known.tried = Some(entry.clone());
                found = Some((by.clone(), entry));
                break;
            }
        }
        if found.is_some() {
            self.next_attempt = now + ATTEMPT_EVERY;
        }
        let waits = self.known.values().any(|known| !known.untried.is_empty());
        let attempt = found.map(|(by, (host, at))| {
            let news = self.news_of(&by, &host, &at, now);
            self.turn = Some(by);
            Attempt { host, at, news }
        });
        (attempt, waits.then_some(now + ATTEMPT_EVERY))
    }

    /// What people are to know of a host that is tried at a place now.
    fn news_of(
        &mut self,
        by: &HostId,
        host: &HostId,
        at: &str,
        now: MonotonicNs,
    ) -> Option<(HostId, Vec<String>)> {
        let unreached = self.unreached.get_mut(host)?;
        let again = unreached.tried.contains(at);
        if !again && unreached.tried.len() < MAX_TRIED {
            unreached.tried.insert(at.to_owned());
        }
        while self.news.front().is_some_and(|told| now >= *told + NEWS_EVERY) {
            self.news.pop_front();
        }
        if unreached.is_told
            || !again
            || now < unreached.since + TOLD_AFTER
            || self.news.len() >= MAX_NEWS
        {
            return None;
        }
        unreached.is_told = true;
        self.news.push_back(now);
        Some((by.clone(), unreached.tried.iter().cloned().collect()))
    }
}

/// Whether the one of two that yields tries now. It has answers from each host meanwhile.
fn is_own_turn(told_for: Duration) -> bool {
    told_for >= YIELDS_FOR
        && told_for.as_nanos() % YIELDS_FOR.as_nanos() < (ASK_EVERY + ASK_EVERY / 5).as_nanos()
}

#[cfg(test)]
#[path = "introductions_tests.rs"]
mod tests;
