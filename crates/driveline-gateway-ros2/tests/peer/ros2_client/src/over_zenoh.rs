// SPDX-License-Identifier: Apache-2.0
//! Node over Zenoh, as rmw_zenoh has it.

use super::service::{Of, Service};
use super::{Endpoint, Message, Result};
use ros2_client::zenoh::{Client, Context, ContextOptions, Node, Publisher, Server, Subscription};
use ros2_client::{NodeName, NodeOptions, RmwRequestId, ServiceError};

pub(super) struct Zenoh {
    context: Context,
    node: Node,
}

impl Zenoh {
    pub(super) fn new(domain: u16, name: NodeName) -> Result<Self> {
        let context = Context::with_options(ContextOptions::new().domain_id(domain))?;
        let node = context.new_node(name, NodeOptions::new().enable_rosout(false))?;
        Ok(Self { context, node })
    }
}

impl super::Node for Zenoh {
    type Publisher<M: Message> = Publisher<M>;
    type Subscription<M: Message> = Subscription<M>;
    type Server<S: Service> = Server<S::Request, S::Response>;
    type Client<S: Service> = Client<S::Request, S::Response>;

    fn publisher<M: Message>(&mut self, of: &Endpoint) -> Result<Publisher<M>> {
        let topic = self.node.create_topic(&of.topic, of.of.clone(), &of.qos);
        Ok(self.node.create_publisher(&topic, None)?)
    }

    fn subscription<M: Message>(&mut self, of: &Endpoint) -> Result<Subscription<M>> {
        let topic = self.node.create_topic(&of.topic, of.of.clone(), &of.qos);
        Ok(self.node.create_subscription(&topic, None)?)
    }

    fn matched<M: Message>(&self, publisher: &Publisher<M>) -> bool {
        publisher.get_subscription_count(&self.node) > 0
    }

    fn publish<M: Message>(&self, publisher: &Publisher<M>, message: M) -> Result<()> {
        publisher.publish(message).map_err(|e| e.to_string().into())
    }

    fn take<M: Message>(&self, subscription: &Subscription<M>) -> Result<Option<M>> {
        Ok(subscription.try_take()?.map(|(message, _)| message))
    }

    fn nodes(&self) -> Vec<(String, String)> {
        let own = self.node.fully_qualified_name();
        let others = self.context.node_names().into_iter().filter(|name| *name != own);
        others
            .filter_map(|name| {
                name.rsplit_once('/').map(|(space, base)| {
                    (if space.is_empty() { "/" } else { space }.to_owned(), base.to_owned())
                })
            })
            .collect()
    }

    fn server<S: Service>(&mut self, of: &Of) -> Result<Self::Server<S>> {
        Ok(self.node.create_server(&of.name, &of.ty)?)
    }

    fn client<S: Service>(&mut self, of: &Of) -> Result<Self::Client<S>> {
        Ok(self.node.create_client(&of.name, &of.ty)?)
    }

    fn request<S: Service>(
        &self,
        server: &Self::Server<S>,
    ) -> Result<Option<(RmwRequestId, S::Request)>> {
        Ok(server.try_receive_request()?)
    }

    fn respond<S: Service>(
        &self,
        server: &Self::Server<S>,
        id: RmwRequestId,
        response: S::Response,
    ) -> Result<()> {
        Ok(server.send_response(id, response)?)
    }

    fn call<S: Service>(
        &self,
        client: &Self::Client<S>,
        request: S::Request,
    ) -> Result<Option<S::Response>> {
        match client.call(request) {
            Ok(response) => Ok(Some(response)),
            Err(ServiceError::NoReply) => Ok(None),
            Err(e) => Err(e.into()),
        }
    }
}
