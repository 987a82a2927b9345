// SPDX-License-Identifier: Apache-2.0
//! Counters of the calls of a node, by service: for code that reports on the node without having
//! created its ends.
//!
//! The clients of one service are counted together, and their counts stay when they are dropped. So
//! there is one tally for each end (client or server) and name of a service, and at most
//! [`MAX_TALLIES`].

use driveline_types::ServiceName;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of tallies of a node. Calls of further services are not in
/// [`Node::calls`](crate::Node::calls).
const MAX_TALLIES: usize = 256;

/// End of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ServiceEnd {
    /// Sends requests.
    Client,
    /// Answers requests.
    Server,
}

/// Calls of one service that one node has made, or received, since the node was created. Each call
/// is in `calls` and in one of the other counts, or in `calls` alone while it is in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceCalls {
    /// The service.
    pub service: ServiceName,
    /// End that the node has.
    pub end: ServiceEnd,
    /// Calls made, or requests taken.
    pub calls: u64,
    /// Calls with a response.
    pub answered: u64,
    /// Calls that the server ended without a response: refused by its callback or for lack of room,
    /// dropped unanswered, panicked in the callback, or with a response that could not be sent.
    pub refused: u64,
    /// Calls that timed out. Only clients count them.
    pub timed_out: u64,
    /// Calls whose other end had ended or could not be reached. At clients also calls given up
    /// because their response could not be taken, or because their executor was dropped.
    pub peer_gone: u64,
    /// Calls for which no request was sent, for example since there was no server or no room. Only
    /// clients count them.
    pub not_sent: u64,
}

/// Result of a call.
#[derive(Clone, Copy)]
pub(super) enum Fate {
    Answered,
    Refused,
    TimedOut,
    PeerGone,
    NotSent,
}

/// The counts of one service at one end. All `Relaxed`: no other memory depends on a count.
#[derive(Default)]
pub(crate) struct Tally {
    calls: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    peer_gone: AtomicU64,
    not_sent: AtomicU64,
}

impl Tally {
    pub(super) fn begun(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn ended(&self, fate: Fate, calls: u64) {
        let counter = match fate {
            Fate::Answered => &self.answered,
            Fate::Refused => &self.refused,
            Fate::TimedOut => &self.timed_out,
            Fate::PeerGone => &self.peer_gone,
            Fate::NotSent => &self.not_sent,
        };
        counter.fetch_add(calls, Ordering::Relaxed);
    }
}

type ByEnd = BTreeMap<(ServiceName, ServiceEnd), Arc<Tally>>;

/// The tallies of a node. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Tallies(Arc<Mutex<ByEnd>>);

impl Tallies {
    /// Returns the tally of an end. Beyond [`MAX_TALLIES`], returns a tally that is not reported.
    pub(crate) fn of(&self, service: &ServiceName, end: ServiceEnd) -> Arc<Tally> {
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (service.clone(), end);
        if tallies.len() >= MAX_TALLIES && !tallies.contains_key(&key) {
            tracing::warn!(
                service = service.as_str(),
                "the node has more than {MAX_TALLIES} services: the calls of this one are in no \
                 figures; split the node"
            );
            return Arc::default();
        }
        tallies.entry(key).or_default().clone()
    }

    pub(crate) fn read(&self) -> Vec<ServiceCalls> {
        let tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let read = |((service, end), t): (&(ServiceName, ServiceEnd), &Arc<Tally>)| ServiceCalls {
            service: service.clone(),
            end: *end,
            calls: get(&t.calls),
            answered: get(&t.answered),
            refused: get(&t.refused),
            timed_out: get(&t.timed_out),
            peer_gone: get(&t.peer_gone),
            not_sent: get(&t.not_sent),
        };
        tallies.iter().map(read).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_one_name_count_together_and_names_are_bounded() {
        let tallies = Tallies::default();
        let name = |n: usize| -> ServiceName { format!("s{n}").parse().unwrap() };
        for fate in [Fate::Answered, Fate::TimedOut] {
            let tally = tallies.of(&name(0), ServiceEnd::Client);
            tally.begun();
            tally.ended(fate, 1);
        }
        (1..2 * MAX_TALLIES).for_each(|n| tallies.of(&name(n), ServiceEnd::Server).begun());
        let calls = tallies.read();
        assert_eq!(
            (calls.len(), calls[0].calls, calls[0].answered, calls[0].timed_out),
            (MAX_TALLIES, 2, 1, 1)
        );
    }
}
