// SPDX-License-Identifier: Apache-2.0
//! Checks deadlines and liveliness when they are due.

use super::Control;
use crate::event::{PublisherEvent, SubscriptionEvent};
use driveline_types::MonotonicNs;
use std::sync::atomic::Ordering::Relaxed;

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
                        // While liveliness is lost, its return is noticed within a quarter of the
                        // lease.
                        period.ends = period.ends.min(now + period.length / 4);
                    }
                }
                note(w.lease.as_ref().map(|p| p.ends));
            }
            // This check keeps the count exact; the thread that polls events reports it. While all
            // publishers are in the subscription's own process, this thread makes no check, for
            // which it would have to wake in each period. The reading thread checks instead.
            if let Some(deadline) = &state.inlet.deadline
                && !state.watch.edges.is_empty()
            {
                let (_, again) = deadline.look(state.watch.newest_samples(), now);
                note(Some(again).filter(|again| again.0 != u64::MAX));
            }
        }
        if let Some(at) = soonest {
            self.wake_at(at);
        }
    }
}
