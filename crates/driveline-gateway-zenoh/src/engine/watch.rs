// SPDX-License-Identifier: Apache-2.0
//! Watches the subscriptions of a remote publisher on this host.

use crate::wire::QosMark;
use driveline_gateway::RemotePublisherFigures;
use driveline_shm::{Publisher, PublisherEvent};
use driveline_types::{EndpointId, Reliability};
use std::collections::HashMap;

/// See the module. Separate from publishing, which may block.
pub(super) struct Watch {
    events: Box<dyn Fn() -> Option<PublisherEvent> + Send + Sync>,
    /// Number of subscriptions.
    matched: Box<dyn Fn() -> usize + Send + Sync>,
    /// Local subscriptions with the QoS that they request.
    subscriptions: HashMap<EndpointId, QosMark>,
    /// Events were lost, so the known subscriptions may differ from the real ones.
    uncertain: bool,
    /// Counters at the last check.
    pub(super) figures: RemotePublisherFigures,
}

impl Watch {
    pub(super) fn new(publisher: &Publisher) -> Self {
        Self {
            events: Box::new(publisher.event_source()),
            matched: Box::new(publisher.matched_source()),
            subscriptions: HashMap::new(),
            uncertain: false,
            figures: RemotePublisherFigures::default(),
        }
    }

    /// Updates the known subscriptions.
    pub(super) fn poll(&mut self) {
        while let Some(event) = (self.events)() {
            match event {
                PublisherEvent::Matched { subscription, qos, .. } => {
                    self.subscriptions.insert(subscription, QosMark::of(&qos));
                }
                PublisherEvent::Unmatched { subscription, .. } => {
                    self.subscriptions.remove(&subscription);
                }
                PublisherEvent::Dropped { .. } => self.uncertain = true,
                _ => {}
            }
        }
        // Only at a count of 0 is the set known again: at any other count, unreported arrivals and
        // departures may have balanced each other.
        if self.uncertain && (self.matched)() == 0 {
            self.subscriptions.clear();
            self.uncertain = false;
        }
    }

    /// Highest requested reliability. `None`: no subscription.
    pub(super) fn reliability(&self) -> Option<Reliability> {
        let known = self.subscriptions.values().map(|m| m.reliability).max();
        known.or(self.uncertain.then_some(Reliability::BestEffort))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_shm::{
        Participant, ParticipantConfig, PublisherConfig, SchemaRequest, SubscriptionConfig,
    };
    use driveline_types::{NodeName, Schema, TopicName};
    use std::time::{Duration, Instant};

    #[test]
    fn without_subscriptions_none_listens_even_if_their_events_were_lost() {
        /// More subscriptions than fit into the queue, with two events each.
        const MANY: usize = 150;
        let dir = tempfile::tempdir().unwrap();
        let domain_dir = Some(dir.path().to_owned());
        let participant =
            Participant::open(ParticipantConfig { domain_dir, name: "test".into() }).unwrap();
        let (topic, node) = ("t".parse::<TopicName>().unwrap(), "n".parse::<NodeName>().unwrap());
        let config =
            PublisherConfig::new(topic.clone(), node.clone(), Schema::bytes("bytes", "raw", ""), 8);
        let publisher = participant.create_publisher(config).unwrap();
        let matched = |n: usize| {
            let end = Instant::now() + Duration::from_secs(60);
            while publisher.matched() != n {
                assert!(Instant::now() < end, "{} are matched", publisher.matched());
                // time: a pause between polls; only a time-out of a minute or more ends them
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let come = || {
            let config = SubscriptionConfig::new(topic.clone(), node.clone(), SchemaRequest::Any);
            let subscription = participant.create_subscription(config).unwrap();
            matched(1);
            subscription
        };
        let mut watch = Watch::new(&publisher);
        let mut listens = || {
            watch.poll();
            watch.reliability().is_some()
        };
        let first = come();
        // It is reported a little later.
        while !listens() {
            std::thread::yield_now();
        }
        drop(first);
        for _ in 0..MANY {
            matched(0);
            drop(come());
        }
        matched(0);
        let last = come();
        assert!(listens());
        drop(last);
        matched(0);
        assert!(!listens());
    }
}
