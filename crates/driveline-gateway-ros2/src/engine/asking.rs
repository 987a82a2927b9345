// SPDX-License-Identifier: Apache-2.0
//! Notifies publishers on this host that offer less than ROS 2 subscriptions request, as DDS
//! notifies a writer.

use super::endpoint::{Endpoint, Handle, Writing};
use super::gateway_state::GatewayState;
use crate::names::RosNode;
use crate::names::inlet_node;
use crate::qos::{DurabilityKind, EndpointQos, LivelinessKind, mismatches, of_publisher};
use driveline_gateway::ros2::RuleQos;
use driveline_shm::{OwnProcess, SchemaRequest, Subscription, SubscriptionConfig};
use driveline_types::{Durability, Liveliness, Qos, Reliability, TopicName};
use std::collections::HashMap;
use std::time::Duration;

/// Maximum number of [`Pair`]s whose publishers are notified; the gateway alone reports the others.
const MAX_ASKED: usize = 64;

/// A ROS 2 subscription, and a class of publishers on this host.
type Pair = (TopicName, Handle, Reliability, Durability);

/// Requests of ROS 2 subscriptions that publishers on this host do not satisfy.
#[derive(Default)]
pub(super) struct Asking {
    asked: HashMap<Pair, Option<Subscription>>,
}

/// Converts the QoS that a subscription requests to Driveline. If Driveline lacks a kind, the
/// highest one that it has is requested.
fn request(of: &EndpointQos) -> Qos {
    let ms = |time: Duration| u32::try_from(time.as_millis()).ok().map(|ms| ms.max(1));
    Qos {
        reliability: of.reliability,
        durability: if of.durability == DurabilityKind::Volatile {
            Durability::Volatile
        } else {
            Durability::TransientLocal
        },
        deadline_ms: of.deadline.and_then(ms),
        liveliness: if of.liveliness == LivelinessKind::Automatic {
            Liveliness::Automatic
        } else {
            Liveliness::ManualByTopic
        },
        lease_ms: of.lease.and_then(ms),
        ..Qos::default()
    }
}

/// Identifies the publisher behind a writer by its QoS class, if the publisher offers less than a
/// subscription requests. `None` if only a rule makes the writer offer less.
fn too_little(writing: &Writing, reader: &Endpoint) -> Option<Pair> {
    let offered = writing.offered.as_ref()?;
    let lacks = |offered: &EndpointQos| !mismatches(offered, &reader.qos).is_empty();
    let both = lacks(&writing.qos) && lacks(&of_publisher(offered, &RuleQos::default()));
    // Driveline's own rules must refuse the request too: if the publisher satisfied it, the
    // subscription below would match, and the publisher would get no event.
    let here = offered.satisfies(&request(&reader.qos), writing.topic.as_str()).is_err();
    (both && here)
        .then(|| (writing.topic.clone(), reader.handle, offered.reliability, offered.durability))
}

impl Asking {
    /// For each ROS 2 subscription that does not match publishers on this host, subscribes here
    /// with the QoS that the ROS 2 subscription requests, while both exist. The publisher refuses
    /// this subscription, and so gets an event with the reason. The subscription is an observer: it
    /// delays no publisher and takes no pins of others.
    pub(super) fn poll<'a>(
        &mut self,
        common: &GatewayState,
        pairs: impl Iterator<Item = (&'a Writing, &'a Endpoint)>,
        node: impl Fn(&Endpoint) -> Option<RosNode>,
    ) {
        let compares = |w: &Writing| common.transport(w.profile).is_ok_and(|t| t.compares_qos());
        let wanted: HashMap<Pair, &Endpoint> = pairs
            .filter(|(writing, _)| compares(writing))
            .filter_map(|(writing, reader)| Some((too_little(writing, reader)?, reader)))
            .take(MAX_ASKED)
            .collect();
        self.asked.retain(|pair, _| wanted.contains_key(pair));
        for (pair, reader) in wanted {
            if self.asked.contains_key(&pair) {
                continue;
            }
            let (topic, _, reliability, durability) = &pair;
            let name = inlet_node(node(reader).as_ref(), &reader.gid, &common.node);
            let mut config = SubscriptionConfig::new(topic.clone(), name, SchemaRequest::Any);
            config.qos = request(&reader.qos);
            config.offering = Some((*reliability, *durability));
            config.max_held = 1;
            config.observer = true;
            config.own_process = OwnProcess::Exclude;
            // If this fails, publishers are not notified. The gateway has reported the pair anyway.
            let subscription = common.participant.create_subscription(config).ok();
            self.asked.insert(pair, subscription);
        }
    }
}
