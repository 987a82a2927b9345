// SPDX-License-Identifier: Apache-2.0
//! Finds hosts that others reach and this one does not: `docs/protocols/network-faults.md`, "Hosts
//! that others know". No thread, no network, no clock.
//!
//! When host A connects to host B, Zenoh once reports A to the hosts that are already connected to
//! B, and reports these hosts to A. Each of them tries to connect once; if that fails, Zenoh does
//! not try again. So each gateway also asks the hosts that it hears: which hosts do they hear, and
//! at which addresses? The gateway tries each address once per answer, one after the other. The
//! answering hosts take turns, so that a host with many wrong addresses does not delay the others.

use crate::wire::{HostId, KnownHosts, place};
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Shortest period of requests to each host. Each gateway adds up to a fifth: two gateways with
/// equal periods would connect to each other simultaneously.
pub const ASK_EVERY: Duration = Duration::from_secs(5);
/// Pause between two attempts, which also limits attempts that one host can cause at a third one.
pub const ATTEMPT_EVERY: Duration = Duration::from_millis(125);
/// If two hosts are reported to each other, the host with the lower start number tries first. The
/// other host tries after this time, in case only it can connect. Zenoh would keep both
/// connections of two simultaneous attempts.
const YIELDS_FOR: Duration = Duration::from_secs(20);
/// A host is logged as not reached if it is reported, and attempts fail, for this long.
const LOGGED_AFTER: Duration = Duration::from_secs(10);
/// Maximum number of remembered hosts that are reported and not reached: a domain has no more.
const MAX_UNREACHED: usize = 64;
/// Maximum number of log lines within `LOGGED_EVERY`. Further hosts are logged later, if they are
/// still not reached.
const MAX_LOGGED: usize = 8;
const LOGGED_EVERY: Duration = Duration::from_secs(600);
/// Maximum number of tried addresses of one host in a log line.
const MAX_TRIED: usize = 4;

/// One attempt to connect to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// The host.
    pub host: HostId,
    /// Reported address.
    pub at: String,
    /// Reporting host and tried addresses, if earlier attempts failed and this is to be logged now.
    pub events: Option<(HostId, Vec<String>)>,
}

#[derive(Debug)]
struct Known {
    asked: MonotonicNs,
    listens: Vec<String>,
    /// Reported addresses still to be tried.
    untried: VecDeque<(HostId, String)>,
    /// Last tried address. The next answer continues after it.
    tried: Option<(HostId, String)>,
}

#[derive(Debug)]
struct Unreached {
    /// Times of the first and of the last report.
    since: MonotonicNs,
    last: MonotonicNs,
    tried: BTreeSet<String>,
    is_logged: bool,
}

/// See the module.
#[derive(Debug)]
pub struct PeerDiscovery {
    me: HostId,
    listens: Vec<String>,
    /// Protocols of this host's endpoints. A report must not change the protocol, for example from
    /// TLS to TCP.
    protocols: BTreeSet<String>,
    /// State of each present host.
    known: BTreeMap<HostId, Known>,
    /// Reported hosts that are not reached.
    unreached: BTreeMap<HostId, Unreached>,
    every: Duration,
    /// Host that had the last turn, and time of the next attempt.
    turn: Option<HostId>,
    next_attempt: MonotonicNs,
    /// Times of log lines.
    events: VecDeque<MonotonicNs>,
}

impl PeerDiscovery {
    /// `listens`: addresses on which this host listens. `connects`: its configured endpoints.
    #[must_use]
    pub fn new(me: HostId, listens: &[String], connects: &[String]) -> Self {
        let protocols = listens
            .iter()
            .chain(connects)
            .filter_map(|endpoint| Some(endpoint.split_once('/')?.0.to_owned()))
            .collect();
        let listens = listens.iter().filter_map(|endpoint| place(endpoint)).collect();
        let every = ASK_EVERY + ASK_EVERY / 5_000 * (me.incarnation() % 1_000) as u32;
        let (known, unreached, events) = (BTreeMap::new(), BTreeMap::new(), VecDeque::new());
        Self {
            me,
            listens,
            protocols,
            known,
            unreached,
            every,
            turn: None,
            next_attempt: MonotonicNs(0),
            events,
        }
    }

    /// Returns the present hosts to ask now, and the time of the next check. Forgets all other
    /// hosts.
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

    /// Returns this host's answer if another host asks which hosts this one hears.
    #[must_use]
    pub fn answer(&self) -> KnownHosts {
        let hears = self.known.iter().filter(|(_, known)| !known.listens.is_empty());
        KnownHosts {
            listens: self.listens.clone(),
            hears: hears.map(|(host, known)| (host.clone(), known.listens.clone())).collect(),
        }
    }

    /// Handles an answer of the host `by`. The hosts in it that this host does not hear replace
    /// those of the previous answer of `by`.
    pub fn answered(&mut self, by: &HostId, answer: KnownHosts, now: MonotonicNs) {
        let mut reported = VecDeque::new();
        for (host, listens) in answer.hears {
            if host == self.me || self.known.contains_key(&host) {
                continue;
            }
            let of_mine = |endpoint: &str| {
                endpoint
                    .split_once('/')
                    .is_some_and(|(protocol, _)| self.protocols.contains(protocol))
            };
            reported.extend(
                listens
                    .into_iter()
                    .filter(|endpoint| of_mine(endpoint))
                    .map(|at| (host.clone(), at)),
            );
        }
        let Some(known) = self.known.get_mut(by) else { return };
        known.listens = answer.listens;
        for (host, _) in &reported {
            if self.unreached.len() < MAX_UNREACHED || self.unreached.contains_key(host) {
                let new = || Unreached {
                    since: now,
                    last: now,
                    tried: BTreeSet::new(),
                    is_logged: false,
                };
                self.unreached.entry(host.clone()).or_insert_with(new).last = now;
            }
        }
        let others_turn = |host: &HostId| {
            let reported_for = self.unreached.get(host).map(|unreached| now.since(unreached.since));
            !self.listens.is_empty()
                && host.incarnation() < self.me.incarnation()
                && !reported_for.is_some_and(is_own_turn)
        };
        reported.retain(|(host, _)| !others_turn(host));
        if let Some(at) = reported.iter().position(|entry| Some(entry) == known.tried.as_ref()) {
            reported.rotate_left((at + 1) % reported.len());
        }
        known.untried = reported;
    }

    /// Returns the address to try now, if there is one, of a host that `is_free` permits. Also
    /// returns the time of the next check; `None` if no address remains to be tried.
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
            let events = self.log_line_of(&by, &host, &at, now);
            self.turn = Some(by);
            Attempt { host, at, events }
        });
        (attempt, waits.then_some(now + ATTEMPT_EVERY))
    }

    /// Returns the data of the log line for a host that is being tried.
    fn log_line_of(
        &mut self,
        by: &HostId,
        host: &HostId,
        at: &str,
        now: MonotonicNs,
    ) -> Option<(HostId, Vec<String>)> {
        let unreached = self.unreached.get_mut(host)?;
        let repeated = unreached.tried.contains(at);
        if !repeated && unreached.tried.len() < MAX_TRIED {
            unreached.tried.insert(at.to_owned());
        }
        while self.events.front().is_some_and(|reported| now >= *reported + LOGGED_EVERY) {
            self.events.pop_front();
        }
        if unreached.is_logged
            || !repeated
            || now < unreached.since + LOGGED_AFTER
            || self.events.len() >= MAX_LOGGED
        {
            return None;
        }
        unreached.is_logged = true;
        self.events.push_back(now);
        Some((by.clone(), unreached.tried.iter().cloned().collect()))
    }
}

/// Returns true if the host that yields to the other one may try now. It may try at the start of
/// each period of [`YIELDS_FOR`] except the first, for long enough that each host answers once.
fn is_own_turn(reported_for: Duration) -> bool {
    reported_for >= YIELDS_FOR
        && reported_for.as_nanos() % YIELDS_FOR.as_nanos() < (ASK_EVERY + ASK_EVERY / 5).as_nanos()
}

#[cfg(test)]
#[path = "peer_discovery_tests.rs"]
mod tests;
