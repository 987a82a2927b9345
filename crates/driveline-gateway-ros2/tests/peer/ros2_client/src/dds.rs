// SPDX-License-Identifier: Apache-2.0
//! Over DDS: RustDDS.

use super::{Endpoint, Message, Result};
use ros2_client::dds::rustdds::DomainParticipantBuilder;
use ros2_client::dds::{Context, Node, NodeEvent, Publisher, Subscription};
use ros2_client::{NodeName, NodeOptions};
use std::net::Ipv4Addr;

pub(super) struct Dds {
    node: Node,
    events: Box<dyn Fn() -> Option<NodeEvent>>,
}

impl Dds {
    /// On the loopback device alone, as the gateway without an interface.
    pub(super) fn new(domain: u16, name: NodeName) -> Result<Self> {
        let participant = DomainParticipantBuilder::new(domain).with_only_networks([Ipv4Addr::LOCALHOST]).build()?;
        let context = Context::from_domain_participant(participant)?;
        let mut node = context.new_node(name, NodeOptions::new().enable_rosout(false))?;
        let spinner = node.spinner()?;
        std::thread::spawn(move || smol::block_on(spinner.spin()));
        let events = node.status_receiver().ok_or("its node tells of no events")?;
        Ok(Self { node, events: Box::new(move || events.try_recv().ok()) })
    }
}

impl super::Node for Dds {
    type Publisher<M: Message> = Publisher<M>;
    type Subscription<M: Message> = Subscription<M>;

    fn publisher<M: Message>(&mut self, of: &Endpoint) -> Result<Publisher<M>> {
        let topic = self.node.create_topic(&of.topic, of.of.clone(), &of.qos)?;
        Ok(self.node.create_publisher(&topic, Some(of.qos.clone()))?)
    }

    fn subscription<M: Message>(&mut self, of: &Endpoint) -> Result<Subscription<M>> {
        let topic = self.node.create_topic(&of.topic, of.of.clone(), &of.qos)?;
        Ok(self.node.create_subscription(&topic, Some(of.qos.clone()))?)
    }

    fn matched<M: Message>(&self, publisher: &Publisher<M>) -> bool {
        publisher.get_subscription_count(&self.node) > 0
    }

    fn publish<M: Message>(&self, publisher: &Publisher<M>, message: M) -> Result<()> {
        publisher.publish(message).map_err(|e| e.to_string().into())
    }

    fn take<M: Message>(&self, subscription: &Subscription<M>) -> Result<Option<M>> {
        Ok(subscription.take()?.map(|(message, _)| message))
    }

    fn nodes(&self) -> Vec<(String, String)> {
        let said = std::iter::from_fn(&self.events).filter_map(|event| match event {
            NodeEvent::ParticipantEntities(info) => Some(info),
            _ => None,
        });
        said.flat_map(|info| info.nodes().iter().map(|n| (n.namespace().to_owned(), n.name().to_owned())).collect::<Vec<_>>()).collect()
    }
}
