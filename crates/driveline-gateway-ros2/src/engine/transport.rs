// SPDX-License-Identifier: Apache-2.0
//! Interface of one middleware, DDS or rmw_zenoh, for the rest of the gateway.

use super::endpoint::{Change, Endpoint, Profile, Writing};
use super::feed::Feed;
use super::ros_writer::{Offer, RosWriter, WriterList};
use super::service::{
    Answers, Asking, Interface, Offered, OwnEnds, Requests, ServiceChange, ServiceEndpoint,
};
use crate::discovery_info::Gid;
use crate::names::RosNode;
use crate::types::Crossing;
use driveline_gateway::NetworkReport;
use driveline_gateway::ros2::Rule;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One middleware. Threads of topics and services share it. Feeds, writers and ends of services are
/// dropped before it.
pub(super) trait Transport: Send + Sync {
    /// Profile of its nodes.
    fn profile(&self) -> Profile;

    /// Opens the feed of a topic under `rule`.
    fn feed(&self, rule: &Rule) -> Result<Box<dyn Feed>, String>;

    /// Opens a writer and adds it to `list`.
    fn writer(&self, offer: Offer<'_>, list: WriterList<'_>) -> Result<Box<dyn RosWriter>, String>;

    /// Offers a service to nodes of ROS 2, under the name of a node.
    fn offer(
        &self,
        of: &Interface,
        node: &RosNode,
        requests: Arc<dyn Requests>,
    ) -> Result<Box<dyn Offered>, String>;

    /// Calls a server in ROS 2, under the name of a node.
    fn ask(
        &self,
        of: &Interface,
        node: &RosNode,
        server: &ServiceEndpoint,
        answers: Arc<dyn Answers>,
    ) -> Result<Arc<dyn Asking>, String>;

    /// Returns true if the middleware compares QoS: it does not match a writer with a reader that
    /// requests more, and notifies the writer's node.
    fn compares_qos(&self) -> bool;

    /// Reasons why a writer of the gateway and a reader of ROS 2 on the same topic do not match;
    /// empty if they do.
    fn against(&self, writing: &Writing, reader: &Endpoint) -> Vec<String>;

    /// Remarks for a reader of ROS 2 that gets samples of a writer of the gateway; empty if there
    /// are none.
    fn remarks(&self, writing: &Writing, reader: &Endpoint) -> Vec<String>;

    /// Checks that a writer's type is the one of the known definition, if the middleware refuses
    /// others.
    fn check_type(&self, writer: &Endpoint, crossing: &Crossing) -> Result<(), String>;

    /// Returns the difference if a server has another definition of its type than the known one,
    /// and the middleware refuses others.
    fn server_mismatch(&self, of: &Interface, server: &ServiceEndpoint) -> Option<String>;

    /// Time after the discovery of an endpoint in which its node may still become known.
    fn named_within(&self) -> Duration;

    /// Gives up samples in flight, unless they are sent soon. Called before the end of the gateway.
    fn give_up(&self) {}

    /// State of its network connections, if it has any to report.
    fn network(&self) -> Option<Network> {
        None
    }

    /// Makes every later call fail.
    #[cfg(test)]
    fn close(&self) {}
}

/// See [`Transport::network`].
pub(super) struct Network {
    pub(super) report: NetworkReport,
    /// Number of unreadable tokens so far.
    pub(super) malformed_tokens: u64,
}

/// Nodes of other participants, by the ids of their endpoints.
pub(super) type Nodes = HashMap<Gid, RosNode>;

/// Discovery of one middleware, for the control thread.
pub(super) trait Discovery: Send {
    /// Returns the changes since the last call, and updates `nodes`, which get at most `most`
    /// endpoints.
    fn poll(&mut self, nodes: &mut Nodes, most: usize) -> Learnt;

    /// Announces the gateway's nodes and endpoints if they have changed. Does nothing if the
    /// middleware announces each endpoint when it is opened.
    fn announce(
        &mut self,
        _writings: &[Writing],
        _own: &dyn Fn() -> OwnReaders,
    ) -> Result<(), String> {
        Ok(())
    }

    /// Does work that is due without an event, and returns the time of the next call.
    fn next(&mut self) -> Option<Instant>;

    /// Zenoh sessions of other gateways that this middleware reaches.
    fn gateways(&self) -> BTreeSet<String>;
}

/// Changes that a discovery reports.
#[derive(Default)]
pub(super) struct Learnt {
    /// Endpoints of topics; `true`: a writer.
    pub(super) endpoints: Vec<(bool, Change)>,
    /// Servers and clients of services.
    pub(super) services: Vec<ServiceChange>,
    /// True if nodes of earlier endpoints may have become known.
    pub(super) named: bool,
    /// Lines for the log.
    pub(super) lines: Vec<String>,
    /// Reason why not all changes could be read.
    pub(super) failed: Option<String>,
}

/// Endpoints of the gateway other than its writers.
pub(super) struct OwnReaders {
    /// Readers of topics, each with its node.
    pub(super) readers: Vec<(RosNode, Gid)>,
    /// Ends of services.
    pub(super) services: Vec<OwnEnds>,
}

/// Returns the difference if a reader has another type than a writer, or another hash of it.
pub(super) fn types_differ(writing: &Writing, reader: &Endpoint) -> Option<String> {
    if reader.type_name != writing.type_name {
        return Some(format!(
            "TYPE: the writer's is {}, the reader's {}",
            writing.type_name, reader.type_name
        ));
    }
    (reader.hash != writing.hash).then(|| {
        format!(
            "TYPE HASH: the writer's is {}, the reader's {}; have both use one definition, and say \
             its release under `ros2:`",
            writing.hash, reader.hash
        )
    })
}
