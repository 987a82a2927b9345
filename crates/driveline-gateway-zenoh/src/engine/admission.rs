// SPDX-License-Identifier: Apache-2.0
//! Hosts that exist but from which this gateway accepts nothing: hosts beyond the limit, which wait
//! for a place, and hosts that speak another version of the protocol.

use crate::directory::MAX_HOSTS;
use crate::wire::{HostId, VERSION};
use driveline_gateway::HostReport;
use driveline_types::MonotonicNs;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Maximum number of hosts that wait for a place.
const MAX_WAITING: usize = 64;
/// Pause before further hosts are asked whether they exist. The hosts that were asked may take the
/// free places meanwhile.
const ASK_NEXT: Duration = Duration::from_secs(1);

/// Hosts that found no place among [`MAX_HOSTS`].
#[derive(Default)]
pub(super) struct TurnedAway {
    waiting: BTreeSet<HostId>,
    /// Earliest time of the next request.
    reconnect: Option<MonotonicNs>,
}

impl TurnedAway {
    /// Adds a host without a place. Returns the line to log.
    pub(super) fn add(&mut self, host: &HostId) -> Option<String> {
        let name = host.name();
        if self.waiting.len() >= MAX_WAITING && !self.waiting.contains(host) {
            return Some(format!(
                "host '{name}' is not heard: there are {MAX_HOSTS} hosts already, and \
                 {MAX_WAITING} wait for a place; reduce the number of hosts and restart this \
                 gateway"
            ));
        }
        self.waiting
            .insert(host.clone())
            .then(|| format!("host '{name}' is not heard: {}", no_place()))
    }

    /// Removes a host that has got a place or has departed.
    pub(super) fn remove(&mut self, host: &HostId) {
        self.waiting.remove(host);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns the hosts to ask now whether they still exist, and the time of the next check.
    /// `places`: number of free places. `has_its_own`: true for a host that returns to a place of
    /// its own.
    pub(super) fn take(
        &mut self,
        places: usize,
        has_its_own: impl Fn(&HostId) -> bool,
        now: MonotonicNs,
    ) -> (Vec<HostId>, Option<MonotonicNs>) {
        let (own, others): (Vec<&HostId>, Vec<_>) =
            self.waiting.iter().partition(|host| has_its_own(host));
        let others = others.into_iter().take(places.saturating_sub(own.len()));
        let asked: Vec<HostId> = own.iter().copied().chain(others).cloned().collect();
        if asked.is_empty() {
            return (asked, None);
        }
        if self.reconnect.is_some_and(|reconnect| now < reconnect) {
            return (Vec::new(), self.reconnect);
        }
        asked.iter().for_each(|host| self.remove(host));
        self.reconnect = Some(now + ASK_NEXT);
        (asked, self.reconnect.filter(|_| !self.waiting.is_empty()))
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = HostReport> {
        self.waiting.iter().map(|host| report(host, no_place()))
    }
}

/// Gateways that speak another version of the protocol.
#[derive(Default)]
pub(super) struct Foreign(BTreeMap<HostId, u16>);

impl Foreign {
    /// Notes that a gateway of another version has arrived or departed. Returns the line to log.
    pub(super) fn is(&mut self, id: HostId, version: u16, alive: bool) -> Option<String> {
        if !alive {
            self.0.remove(&id);
            return None;
        }
        let text =
            format!("nothing is carried to or from host '{}': {}", id.name(), foreign(version));
        if self.0.len() >= MAX_HOSTS && !self.0.contains_key(&id) {
            return Some(format!(
                "{text}; reports do not list it, because they list {MAX_HOSTS} such hosts already"
            ));
        }
        self.0.insert(id, version);
        Some(text)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn reports(&self) -> impl Iterator<Item = HostReport> {
        self.0.iter().map(|(id, version)| report(id, foreign(*version)))
    }
}

fn report(host: &HostId, problem: String) -> HostReport {
    HostReport {
        host: host.to_string(),
        alive: true,
        problem: Some(problem),
        ..HostReport::default()
    }
}

fn no_place() -> String {
    format!("there are {MAX_HOSTS} hosts already; it will be heard when one of them departs")
}

/// Reason why no topic is exchanged with a gateway of another version.
fn foreign(version: u16) -> String {
    format!(
        "it speaks version {version} of the network protocol, and this gateway version {VERSION}: \
         install the same release of Driveline on both"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: usize) -> HostId {
        HostId::new("car", n as u64).unwrap()
    }

    fn at(ms: u64) -> MonotonicNs {
        MonotonicNs(ms * 1_000_000)
    }

    #[test]
    fn a_gateway_of_another_release_beyond_the_bound_is_logged() {
        let mut foreign = Foreign::default();
        let logged: Vec<_> =
            (0..=MAX_HOSTS).map(|n| foreign.is(host(n), 1, true).expect("it is logged")).collect();
        assert!(logged[0].contains("same release") && !logged[0].contains("64"), "{}", logged[0]);
        assert!(
            logged[MAX_HOSTS].contains("same release") && logged[MAX_HOSTS].contains("64"),
            "{}",
            logged[MAX_HOSTS]
        );
        assert_eq!(foreign.reports().count(), MAX_HOSTS);
        assert_eq!(foreign.is(host(3), 1, false), None);
        assert_eq!(foreign.reports().count(), MAX_HOSTS - 1);
    }

    #[test]
    fn a_host_without_a_place_is_logged_once_and_asked_when_there_are_places() {
        let mut away = TurnedAway::default();
        assert!(away.add(&host(1)).is_some_and(|t| t.contains("64 hosts already")));
        assert_eq!(away.add(&host(1)), None);
        assert!((2..6).all(|n| away.add(&host(n)).is_some()));
        away.remove(&host(2));
        let nobody = |_: &HostId| false;
        assert_eq!(away.take(0, nobody, at(0)), (vec![], None));
        assert_eq!(away.take(2, nobody, at(0)), (vec![host(1), host(3)], Some(at(1000))));
        assert_eq!(
            away.take(2, nobody, at(999)),
            (vec![], Some(at(1000))),
            "hosts that were asked may still take the places"
        );
        assert_eq!(away.take(9, nobody, at(1000)), (vec![host(4), host(5)], None));
        assert_eq!(away.take(9, nobody, at(5000)), (vec![], None));
    }

    #[test]
    fn a_host_with_a_place_of_its_own_is_asked_first_and_takes_no_other_place() {
        let mut away = TurnedAway::default();
        (0..4).for_each(|n| assert!(away.add(&host(n)).is_some()));
        let own = |h: &HostId| *h == host(2);
        assert_eq!(away.take(0, own, at(0)), (vec![host(2)], Some(at(1000))));
        assert_eq!(away.take(0, own, at(1000)), (vec![], None));
        assert!(away.add(&host(2)).is_some());
        assert_eq!(away.take(3, own, at(2000)), (vec![host(2), host(0), host(1)], Some(at(3000))));
    }

    #[test]
    fn hosts_beyond_the_waiting_places_are_logged() {
        let mut away = TurnedAway::default();
        assert!(
            (0..MAX_WAITING).all(|n| away.add(&host(n)).is_some_and(|t| t.contains("departs")))
        );
        assert!(away.add(&host(MAX_WAITING)).is_some_and(|t| t.contains("restart this gateway")));
        assert_eq!((away.add(&host(7)), away.reports().count()), (None, MAX_WAITING));
    }
}
