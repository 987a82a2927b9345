// SPDX-License-Identifier: Apache-2.0
//! Deadlines and liveliness. Nothing is checked unless a QoS requests it.

use crate::deadline::{DeadlineWatch, NewestSample};
use crate::inlet::Edge;
use driveline_types::{Liveliness, MonotonicNs, Qos};
use std::sync::Arc;
use std::time::Duration;

fn ms(v: Option<u32>) -> Option<Duration> {
    v.map(|v| Duration::from_millis(u64::from(v)))
}

/// Period within which an endpoint must give a sign of life.
#[derive(Clone, Copy, Debug)]
pub(super) struct Period {
    pub(super) length: Duration,
    pub(super) ends: MonotonicNs,
}

impl Period {
    fn new(length: Option<Duration>, now: MonotonicNs) -> Option<Self> {
        length.map(|length| Self { length, ends: now + length })
    }

    /// Checks the time of the last sign of life. Returns true if a period has passed without one;
    /// then the next period begins.
    pub(super) fn missed(&mut self, last: u64, now: MonotonicNs) -> bool {
        // A sign from the future (another process wrote it) counts as one from now.
        let due = MonotonicNs(last.min(now.0)) + self.length;
        self.ends = self.ends.max(due);
        if now < self.ends {
            return false;
        }
        self.ends = now + self.length;
        true
    }
}

/// Liveliness that a publisher promises, and the number of times that it was lost.
#[derive(Debug)]
pub(super) struct PublisherWatch {
    pub(super) lease: Option<Period>,
    pub(super) lost: u64,
}

impl PublisherWatch {
    pub(super) fn new(qos: &Qos, now: MonotonicNs) -> Self {
        let lease = qos.lease_ms.filter(|_| qos.liveliness == Liveliness::ManualByTopic);
        Self { lease: Period::new(ms(lease), now), lost: 0 }
    }
}

/// Deadline and liveliness that a subscription requests of its publishers.
#[derive(Debug)]
pub(super) struct SubscriptionWatch {
    has_deadline: bool,
    pub(super) lease: Option<Duration>,
    pub(super) edges: Vec<EdgeWatch>,
}

#[derive(Debug)]
pub(super) struct EdgeWatch {
    pub(super) edge: Arc<Edge>,
    pub(super) lease: Option<Period>,
    pub(super) alive: bool,
}

impl SubscriptionWatch {
    pub(super) fn new(qos: &Qos) -> Self {
        let has_deadline = qos.deadline_ms.is_some();
        Self { has_deadline, lease: ms(qos.lease_ms), edges: Vec::new() }
    }

    pub(super) fn add(&mut self, edge: &Arc<Edge>, now: MonotonicNs) {
        // Without `manual_by_topic`, the connection proves that the process is alive: the kernel
        // closes it when the process ends.
        let lease = self.lease.filter(|_| edge.qos.liveliness == Liveliness::ManualByTopic);
        if self.has_deadline || lease.is_some() {
            self.edges.push(EdgeWatch {
                edge: Arc::clone(edge),
                lease: Period::new(lease, now),
                alive: true,
            });
        }
    }

    /// Newest sample of each publisher. Uses the control thread's own list, not that of the
    /// subscription: while the latter is locked, the reading thread does not get its changes.
    pub(super) fn newest_samples(&self) -> impl Iterator<Item = NewestSample<'_>> {
        self.edges.iter().map(|w| w.edge.newest_sample())
    }

    /// Removes a publisher whose match has ended, after a last check of the deadline.
    pub(super) fn remove(&mut self, edge: &Arc<Edge>, deadline: Option<&DeadlineWatch>) {
        if let Some(deadline) = deadline {
            deadline.end(&edge.progress.heard, self.newest_samples(), MonotonicNs::now());
        }
        self.edges.retain(|w| !Arc::ptr_eq(&w.edge, edge));
    }
}
