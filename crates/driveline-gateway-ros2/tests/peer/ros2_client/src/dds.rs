// SPDX-License-Identifier: Apache-2.0
//! Node over DDS (RustDDS).

use super::service::{Of, Service};
use super::{Endpoint, Message, Result, over};
use ros2_client::dds::rustdds::DomainParticipantBuilder;
use ros2_client::dds::{
    Client, Context, Node, NodeEvent, Publisher, Server, ServiceMapping, Subscription,
};
use ros2_client::qos::{QosProfile, WhenFull};
use ros2_client::{NodeName, NodeOptions, RmwRequestId};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

pub(super) struct Dds {
    node: Node,
    events: Box<dyn Fn() -> Option<NodeEvent>>,
}

impl Dds {
    /// Uses the loopback device only, as the gateway without an interface.
    pub(super) fn new(domain: u16, name: NodeName) -> Result<Self> {
        let participant = DomainParticipantBuilder::new(domain)
            .with_only_networks([Ipv4Addr::LOCALHOST])
            .build()?;
        let context = Context::from_domain_participant(participant)?;
        let mut node = context.new_node(name, NodeOptions::new().enable_rosout(false))?;
        let spinner = node.spinner()?;
        std::thread::spawn(move || smol::block_on(spinner.spin()));
        let events = node.status_receiver().ok_or("its node reports no events")?;
        Ok(Self { node, events: Box::new(move || events.try_recv().ok()) })
    }
}

/// Time that a client waits for a server, and then for its response.
// time: limit of one attempt; requests lost before all endpoints have matched are repeated
const PATIENCE: Duration = Duration::from_secs(2);

fn text(e: impl std::fmt::Debug) -> String {
    format!("{e:?}")
}

fn mapping(of: &Of) -> Result<ServiceMapping> {
    match of.mapping.as_str() {
        "cyclone" => Ok(ServiceMapping::Cyclone),
        "enhanced" => Ok(ServiceMapping::Enhanced),
        "basic" => Ok(ServiceMapping::Basic),
        _ => Err("it is cyclone, enhanced or basic".into()),
    }
}

/// Default QoS of ROS 2 services.
fn qos() -> QosProfile {
    QosProfile::subscription_default().reliability_reliable(WhenFull::Wait(Duration::from_secs(10)))
}

impl super::Node for Dds {
    type Publisher<M: Message> = Publisher<M>;
    type Subscription<M: Message> = Subscription<M>;
    type Server<S: Service> = Server<S::Request, S::Response>;
    type Client<S: Service> = Client<S::Request, S::Response>;

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
        said.flat_map(|info| {
            info.nodes()
                .iter()
                .map(|n| (n.namespace().to_owned(), n.name().to_owned()))
                .collect::<Vec<_>>()
        })
        .collect()
    }

    fn server<S: Service>(&mut self, of: &Of) -> Result<Self::Server<S>> {
        Ok(self.node.create_server(mapping(of)?, &of.name, &of.ty, qos(), qos())?)
    }

    fn client<S: Service>(&mut self, of: &Of) -> Result<Self::Client<S>> {
        Ok(self.node.create_client(mapping(of)?, &of.name, &of.ty, qos(), qos())?)
    }

    fn request<S: Service>(
        &self,
        server: &Self::Server<S>,
    ) -> Result<Option<(RmwRequestId, S::Request)>> {
        Ok(server.receive_request().map_err(text)?)
    }

    fn respond<S: Service>(
        &self,
        server: &Self::Server<S>,
        id: RmwRequestId,
        response: S::Response,
    ) -> Result<()> {
        Ok(server.send_response(id, response).map_err(text)?)
    }

    /// Only matched endpoints receive a request or a response, so a call lost before all endpoints
    /// have matched is given up.
    fn call<S: Service>(
        &self,
        client: &Self::Client<S>,
        request: S::Request,
    ) -> Result<Option<S::Response>> {
        let wait = async { client.wait_for_service(&self.node).await };
        smol::block_on(smol::future::or(wait, async {
            smol::Timer::after(PATIENCE).await;
        }));
        let id = client.send_request(request).map_err(text)?;
        let sent = Instant::now();
        while sent.elapsed() < PATIENCE && !over(Duration::from_millis(1)) {
            match client.receive_response().map_err(text)? {
                Some((of, response)) if of == id => return Ok(Some(response)),
                _ => {}
            }
        }
        Ok(None)
    }
}
