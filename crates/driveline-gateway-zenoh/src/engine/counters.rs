// SPDX-License-Identifier: Apache-2.0
//! Counters of samples for each route, readable from any thread.

use crate::window::WindowCounters;
use driveline_gateway::RouteFigures;
use driveline_shm::TransportStats;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of a route, written by its thread; `excess_acknowledgements` by Zenoh's thread.
#[derive(Debug, Default)]
pub(super) struct RouteCounters {
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    in_flight: AtomicU64,
    sent_again: AtomicU64,
    delivered: AtomicU64,
    superseded: AtomicU64,
    expired: AtomicU64,
    unacknowledged: AtomicU64,
    refused: AtomicU64,
    not_sent: AtomicU64,
    remote: AtomicU64,
    decimated: AtomicU64,
    impossible_acknowledgements: AtomicU64,
    /// Acknowledgements dropped because too many were pending.
    excess_acknowledgements: AtomicU64,
}

impl RouteCounters {
    pub(super) fn store(&self, window: &WindowCounters, subscription: &TransportStats) {
        for (to, value) in [
            (&self.sent, window.sent),
            (&self.sent_bytes, window.sent_bytes),
            (&self.in_flight, window.in_flight),
            (&self.sent_again, window.sent_again),
            (&self.delivered, window.delivered),
            (&self.unacknowledged, window.unacknowledged),
            (&self.refused, window.refused),
            (&self.impossible_acknowledgements, window.nonsense),
            (&self.superseded, subscription.missed),
            (&self.expired, subscription.expired),
        ] {
            to.store(value, Relaxed);
        }
    }

    pub(super) fn acknowledged_in_excess(&self) {
        self.excess_acknowledgements.fetch_add(1, Relaxed);
    }

    pub(super) fn not_sent(&self) {
        self.not_sent.fetch_add(1, Relaxed);
    }

    pub(super) fn remote(&self) {
        self.remote.fetch_add(1, Relaxed);
    }

    pub(super) fn decimated(&self) {
        self.decimated.fetch_add(1, Relaxed);
    }

    pub(super) fn figures(&self) -> RouteFigures {
        let read = |a: &AtomicU64| a.load(Relaxed);
        RouteFigures {
            sent: read(&self.sent),
            sent_bytes: read(&self.sent_bytes),
            in_flight: read(&self.in_flight),
            sent_again: read(&self.sent_again),
            delivered: read(&self.delivered),
            superseded: read(&self.superseded),
            expired: read(&self.expired),
            unacknowledged: read(&self.unacknowledged),
            refused: read(&self.refused),
            not_sent: read(&self.not_sent),
            remote: read(&self.remote),
            decimated: read(&self.decimated),
            impossible_acknowledgements: read(&self.impossible_acknowledgements)
                + read(&self.excess_acknowledgements),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgements_of_samples_never_sent_are_reported_and_are_no_drops() {
        let counters = RouteCounters::default();
        counters.acknowledged_in_excess();
        counters.store(
            &WindowCounters { nonsense: 3, ..WindowCounters::default() },
            &TransportStats::default(),
        );
        let figures = counters.figures();
        assert_eq!((figures.impossible_acknowledgements, figures.drops()), (4, Vec::new()));
    }
}
