// SPDX-License-Identifier: Apache-2.0
//! Local publishers of a topic to ROS 2, each read with the QoS that it offers.

use super::error::GatewayError;
use super::gateway_state::GatewayState;
use driveline_gateway::ros2::{LocalTopic, Rule};
use driveline_graph::model::Access as Spec;
use driveline_shm::{
    Access, Kicker, MatchedPublisher, OwnProcess, Sample, SchemaRequest, Subscription,
    SubscriptionConfig, SubscriptionEvent, TakeError, WaitSet, WaitSetError,
};
use driveline_types::{Durability, EndpointId, Qos, Reliability};

/// Has one subscription for each class (reliability and durability) of publishers, so that each
/// publisher is read with its own offer. A weaker request would lose samples that the publisher
/// keeps for it; a stronger one would not match.
pub(super) struct Sources {
    subscriptions: Vec<Subscription>,
    /// Index of the next subscription to read.
    turn: usize,
}

/// Access list of the topic, for the host transport.
fn access(spec: &Spec) -> Access {
    match spec {
        Spec::OwnUser => Access::OwnUser,
        Spec::Anyone => Access::Anyone,
        Spec::Users(users) => Access::Users(users.clone()),
    }
}

/// QoS that the gateway requests from publishers with this offer. If a rule passes on less than is
/// offered, the gateway requests only that much.
fn requested(
    local: &LocalTopic,
    rule: &Rule,
    (reliability, durability): (Reliability, Durability),
) -> Qos {
    Qos {
        // The publisher's own depth is the limit.
        depth: Qos::MAX_DEPTH,
        reliability: reliability.min(rule.qos.reliability.unwrap_or(Reliability::Reliable)),
        durability: durability.min(rule.qos.durability.unwrap_or(Durability::TransientLocal)),
        lifespan_ms: local.qos.lifespan_ms,
        ..Qos::default()
    }
}

impl Sources {
    pub(super) fn new(
        common: &GatewayState,
        local: &LocalTopic,
        rule: &Rule,
    ) -> Result<Self, GatewayError> {
        let classes = [Reliability::BestEffort, Reliability::Reliable].into_iter();
        let classes = classes
            .flat_map(|r| [Durability::Volatile, Durability::TransientLocal].map(|d| (r, d)));
        let create = |offered| {
            let mut config = SubscriptionConfig::new(
                local.topic.clone(),
                common.node.clone(),
                SchemaRequest::Any,
            );
            config.qos = requested(local, rule, offered);
            config.offering = Some(offered);
            config.max_held = 1;
            config.own_process = OwnProcess::Exclude;
            config.access = access(&local.access);
            let read = |source| GatewayError::Read { topic: local.topic.to_string(), source };
            common.participant.create_subscription(config).map_err(read)
        };
        Ok(Self { subscriptions: classes.map(create).collect::<Result<_, _>>()?, turn: 0 })
    }

    pub(super) fn attach(&self, set: &mut WaitSet) -> Result<(), WaitSetError> {
        self.subscriptions.iter().try_for_each(|subscription| set.attach(subscription))
    }

    /// Wakes the waiting thread when a sample is released.
    pub(super) fn kick_when_given_back(&self, kicker: &Kicker) {
        self.subscriptions
            .iter()
            .for_each(|subscription| subscription.kick_when_given_back(kicker.clone()));
    }

    /// Sets whether available samples wake the set.
    pub(super) fn set_muted(&self, set: &mut WaitSet, muted: bool) {
        self.subscriptions.iter().for_each(|subscription| set.set_muted(subscription, muted));
    }

    /// Takes the next sample, one class after the other. Returns an error if samples are unread,
    /// but cannot be taken, because the previous sample of their class is still held.
    pub(super) fn take_next(&mut self) -> Result<Option<Sample>, TakeError> {
        let mut held = None;
        for _ in 0..self.subscriptions.len() {
            self.turn = (self.turn + 1) % self.subscriptions.len();
            match self.subscriptions[self.turn].take_next() {
                Ok(None) => {}
                Ok(sample) => return Ok(sample),
                Err(e) => held = Some(e),
            }
        }
        held.map_or(Ok(None), Err)
    }

    /// Number of samples that were replaced before they were taken, and of samples that were too
    /// old.
    pub(super) fn losses(&self) -> (u64, u64) {
        let all = self.subscriptions.iter().map(Subscription::stats);
        all.fold((0, 0), |(missed, expired), stats| {
            (missed + stats.missed, expired + stats.expired)
        })
    }

    pub(super) fn poll_event(&mut self) -> Option<SubscriptionEvent> {
        self.subscriptions.iter_mut().find_map(Subscription::poll_event)
    }

    /// Publishers that exist and are matched.
    pub(super) fn publishers(&self) -> Vec<MatchedPublisher> {
        self.subscriptions.iter().flat_map(Subscription::publishers).collect()
    }

    /// Departed publishers with samples that were not taken yet.
    pub(super) fn unread_of_gone(&self) -> Vec<EndpointId> {
        self.subscriptions.iter().flat_map(Subscription::unread_of_gone).collect()
    }

    /// Reasons why existing publishers are not matched.
    pub(super) fn refusals(&self) -> Vec<String> {
        self.subscriptions.iter().flat_map(|subscription| subscription.refusal_source()()).collect()
    }

    #[cfg(test)]
    pub(super) fn matched(&self) -> usize {
        self.subscriptions.iter().map(Subscription::matched).sum()
    }

    #[cfg(test)]
    pub(super) fn has_unread(&self) -> bool {
        self.subscriptions.iter().any(Subscription::has_unread)
    }
}
