// SPDX-License-Identifier: Apache-2.0
//! rmw_zenoh as a transport of the gateway.

use super::feed::ZenohFeed;
use super::{Session, service, writer};
use crate::engine::backlog::BacklogThreads;
use crate::engine::endpoint::{Change, Endpoint, Profile, Writing};
use crate::engine::error::GatewayError;
use crate::engine::feed::Feed;
use crate::engine::ros_writer::{Offer, RosWriter, WriterList};
use crate::engine::service::{Answers, Asking, Interface, Offered, Requests, ServiceEndpoint};
use crate::engine::transport::{Discovery, Learnt, Network, Nodes, Transport, types_differ};
use crate::engine::waiting::Waiting;
use crate::names::RosNode;
use crate::qos::mismatches;
use crate::rmw_zenoh::{NO_HASH, key_hash};
use crate::types::Crossing;
use driveline_gateway::ros2::{Release, Ros2Spec, Ros2ZenohSpec, Rule};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub(in crate::engine) struct ZenohTransport {
    /// Threads of writers. Dropped before the session that they use.
    backlogs: BacklogThreads,
    release: Release,
    session: Arc<Session>,
}

impl ZenohTransport {
    /// Opens a session. `longest`: maximum payload, in bytes. Routers and nodes are found later,
    /// and wake `waiting`.
    pub(in crate::engine) fn open(
        zenoh: &Ros2ZenohSpec,
        spec: &Ros2Spec,
        longest: u64,
        waiting: &Arc<Waiting>,
    ) -> Result<Self, GatewayError> {
        let session = Session::open(zenoh, spec.domain_id, longest, waiting.clone())?;
        let (backlogs, session) = (BacklogThreads::default(), Arc::new(session));
        Ok(Self { backlogs, release: spec.release, session })
    }

    pub(in crate::engine) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Transport for ZenohTransport {
    fn profile(&self) -> Profile {
        Profile::Zenoh
    }

    fn feed(&self, rule: &Rule) -> Result<Box<dyn Feed>, String> {
        Ok(Box::new(ZenohFeed::new(&self.session, rule)))
    }

    fn writer(&self, offer: Offer<'_>, list: WriterList<'_>) -> Result<Box<dyn RosWriter>, String> {
        writer::open(&self.session, &self.backlogs, self.release, offer, list)
    }

    fn offer(
        &self,
        of: &Interface,
        node: &RosNode,
        requests: Arc<dyn Requests>,
    ) -> Result<Box<dyn Offered>, String> {
        service::offer(&self.session, self.release, of, node, requests)
    }

    /// The key alone selects the server: every session that offers the service.
    fn ask(
        &self,
        of: &Interface,
        node: &RosNode,
        _: &ServiceEndpoint,
        answers: Arc<dyn Answers>,
    ) -> Result<Arc<dyn Asking>, String> {
        service::ask(&self.session, self.release, of, node, answers)
    }

    /// rmw_zenoh matches by keys alone.
    fn compares_qos(&self) -> bool {
        false
    }

    fn against(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        types_differ(writing, reader).into_iter().collect()
    }

    fn remarks(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        mismatches(&writing.qos, &reader.qos).iter().map(ToString::to_string).collect()
    }

    fn check_type(&self, writer: &Endpoint, crossing: &Crossing) -> Result<(), String> {
        let Some(ours) = crossing.hash.filter(|_| writer.hash != NO_HASH) else { return Ok(()) };
        if writer.hash == ours.to_string() {
            return Ok(());
        }
        Err(format!(
            "its type {} has the hash {}, and the known definition {ours}: they are of different \
             releases; name the publisher's packages under `types` and, if the type is converted, \
             carry it `as: cdr`",
            crossing.ros, writer.hash
        ))
    }

    fn server_mismatch(&self, of: &Interface, server: &ServiceEndpoint) -> Option<String> {
        let ours = key_hash(of.hash, self.release).unwrap_or_default();
        (server.hash != ours).then(|| {
            let release = if self.release == Release::Humble { "humble" } else { "jazzy" };
            format!(
                "has the type hash {}, and the known definition {ours}: have both use one \
                 definition, and set the node's release under `ros2:` (now `release: {release}`)",
                server.hash
            )
        })
    }

    /// The token of an endpoint already names its node.
    fn named_within(&self) -> Duration {
        Duration::ZERO
    }

    fn give_up(&self) {
        self.session.give_up();
    }

    fn network(&self) -> Option<Network> {
        let (report, malformed_tokens) = (self.session.report(), self.session.malformed());
        Some(Network { report, malformed_tokens })
    }
}

/// Discovery by tokens.
pub(in crate::engine) struct ZenohDiscovery(Arc<Session>);

impl ZenohDiscovery {
    pub(in crate::engine) fn new(session: &Arc<Session>) -> Self {
        Self(session.clone())
    }
}

impl Discovery for ZenohDiscovery {
    fn poll(&mut self, nodes: &mut Nodes, most: usize) -> Learnt {
        let (endpoints, services) = self.0.take();
        for (_, change) in &endpoints {
            match change {
                Change::Here(endpoint) => {
                    if let Some(node) = endpoint.node.clone().filter(|_| nodes.len() < most) {
                        nodes.insert(endpoint.gid, node);
                    }
                }
                Change::Gone(handle) => drop(nodes.remove(&handle.to_le_bytes())),
                Change::Misnamed(_) => {}
            }
        }
        Learnt { endpoints, services, lines: self.0.troubles(), ..Learnt::default() }
    }

    fn next(&mut self) -> Option<Instant> {
        self.0.connect_again()
    }

    fn gateways(&self) -> BTreeSet<String> {
        self.0.gateways()
    }
}
