// SPDX-License-Identifier: Apache-2.0
//! Deadlines and liveliness. Nothing is looked at unless a QoS asks for it.

use super::Control;
use crate::event::{PublisherEvent, SubscriptionEvent};
use crate::inlet::Edge;
use driveline_types::{Liveliness, MonotonicNs, Qos};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

fn ms(v: Option<u32>) -> Option<Duration> {
    v.map(|v| Duration::from_millis(u64::from(v)))
}

/// A period that somebody must show a sign of life in.
#[derive(Clone, Copy, Debug)]
struct Period {
    length: Duration,
    ends: MonotonicNs,
}

impl Period {
    fn new(length: Option<Duration>, now: MonotonicNs) -> Option<Self> {
        length.map(|length| Self { length, ends: now + length })
    }

    /// Looks at the time of the last sign. Whether a period has passed without one; the next one
    /// begins then.
    fn missed(&mut self, last: u64, now: MonotonicNs) -> bool {
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

/// What a publisher has promised.
#[derive(Debug)]
pub(super) struct PublisherWatch {
    lease: Option<Period>,
    lost: u64,
}

impl PublisherWatch {
    pub(super) fn new(qos: &Qos, now: MonotonicNs) -> Self {
        let lease = qos.lease_ms.filter(|_| qos.liveliness == Liveliness::ManualByTopic);
        Self { lease: Period::new(ms(lease), now), lost: 0 }
    }
}

/// What a subscription expects of its publishers.
#[derive(Debug)]
pub(super) struct SubscriptionWatch {
    deadline: Option<Duration>,
    lease: Option<Duration>,
    edges: Vec<EdgeWatch>,
}

#[derive(Debug)]
struct EdgeWatch {
    edge: Arc<Edge>,
    lease: Option<Period>,
    alive: bool,
}

impl SubscriptionWatch {
    pub(super) fn new(qos: &Qos) -> Self {
        Self { deadline: ms(qos.deadline_ms), lease: ms(qos.lease_ms), edges: Vec::new() }
    }

    pub(super) fn add(&mut self, edge: &Arc<Edge>, now: MonotonicNs) {
        // A process that is alive needs no proof beyond the kernel's: its end closes the
        // connection.
        let lease = self.lease.filter(|_| edge.qos.liveliness == Liveliness::ManualByTopic);
        if self.deadline.is_some() || lease.is_some() {
            self.edges.push(EdgeWatch {
                edge: Arc::clone(edge),
                lease: Period::new(lease, now),
                alive: true,
            });
        }
    }

    pub(super) fn remove(&mut self, edge: &Arc<Edge>) {
        edge.deadlines(MonotonicNs::now());
        if let Some(deadline) = &edge.progress.deadline {
            deadline.end();
        }
        self.edges.retain(|w| !Arc::ptr_eq(&w.edge, edge));
    }
}

impl Control {
    pub(super) fn watch_deadlines(&mut self) {
        let now = self.now;
        let mut soonest: Option<MonotonicNs> = None;
        let mut note = |at: Option<MonotonicNs>| {
            soonest = [soonest, at].into_iter().flatten().min();
        };
        for outlet in self.outlets.values_mut() {
            let (w, p) = (&mut outlet.watch, &outlet.publication);
            if let Some(period) = &mut w.lease
                && period.missed(p.segment.heartbeat().load(Relaxed), now)
            {
                w.lost += 1;
                p.events.push(PublisherEvent::LivelinessLost { total: w.lost });
            }
            note(w.lease.as_ref().map(|p| p.ends));
        }
        for state in self.inlets.values_mut() {
            for w in &mut state.watch.edges {
                let publisher = w.edge.publisher;
                if let Some(period) = &mut w.lease {
                    let missed = period.missed(w.edge.segment.heartbeat().load(Relaxed), now);
                    let fresh = now.0.saturating_sub(w.edge.segment.heartbeat().load(Relaxed))
                        < period.length.as_nanos() as u64;
                    if missed && w.alive {
                        w.alive = false;
                        state.inlet.event(SubscriptionEvent::LivelinessLost { publisher });
                    } else if !w.alive && fresh {
                        w.alive = true;
                        state.inlet.event(SubscriptionEvent::LivelinessGained { publisher });
                    }
                    if !w.alive {
                        // While it is lost, its return is noticed within a quarter of the lease.
                        period.ends = period.ends.min(now + period.length / 4);
                    }
                }
                note(w.lease.as_ref().map(|p| p.ends));
                // Here for the count: who reports it polls it.
                note(w.edge.deadlines(now).map(|(_, again)| again));
            }
        }
        if let Some(at) = soonest {
            self.wake_at(at);
        }
    }
}
