// SPDX-License-Identifier: Apache-2.0
//! DDS as a transport of the gateway.

use super::feed::{DdsFeed, kept};
use super::graph::{DdsGraph, NAMED_WITHIN};
use super::{configuration, refused, service, writer};
use crate::dds::{self, withheld};
use crate::discovery_info::PARTICIPANT_USER_DATA;
use crate::engine::endpoint::{Endpoint, Profile, Writing, definitions_differ};
use crate::engine::error::GatewayError;
use crate::engine::feed::Feed;
use crate::engine::ros_writer::{Offer, RosWriter, WriterList};
use crate::engine::service::{Answers, Asking, Interface, Offered, Requests, ServiceEndpoint};
use crate::engine::transport::{Discovery, Learnt, Nodes, OwnReaders, Transport, types_differ};
use crate::names::RosNode;
use crate::qos::mismatches;
use crate::types::Crossing;
use driveline_gateway::ros2::{Release, Ros2Spec, Rule};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// See the module.
pub(in crate::engine) struct DdsTransport {
    release: Release,
    /// Maximum payload over all topics and services, in bytes: any sample may have it.
    longest: u64,
    /// True if all nodes are on this host.
    same_clock: bool,
    participant: Arc<dds::Participant>,
}

impl DdsTransport {
    /// Joins the DDS domain. Also returns the object on which a thread waits for discovery.
    /// `longest`: maximum payload, in bytes.
    pub(in crate::engine) fn open(
        spec: &Ros2Spec,
        longest: u64,
    ) -> Result<(Self, dds::Waiting), GatewayError> {
        let configuration = configuration(spec, longest);
        let participant =
            dds::Participant::open(spec.domain_id, &configuration, PARTICIPANT_USER_DATA);
        let participant = Arc::new(participant.map_err(|source| refused(spec, source))?);
        let waiting = participant.waiting()?;
        let (release, same_clock) = (spec.release, spec.interface.is_none());
        Ok((Self { release, longest, same_clock, participant }, waiting))
    }

    /// Starts discovery, which wakes `waiting`. `session`: the gateway's Zenoh id, if it uses
    /// Zenoh.
    pub(in crate::engine) fn discovery(
        &self,
        waiting: &dds::Waiting,
        session: Option<&str>,
    ) -> Result<impl Discovery + use<>, GatewayError> {
        let kept = kept(0, self.longest);
        let graph = DdsGraph::open(&self.participant, waiting, self.release, session, kept)?;
        Ok(DdsDiscovery { graph, failed: false, participant: self.participant.clone() })
    }
}

impl Transport for DdsTransport {
    fn profile(&self) -> Profile {
        Profile::Dds
    }

    fn feed(&self, rule: &Rule) -> Result<Box<dyn Feed>, String> {
        let kept = kept(rule.max_payload_bytes(), self.longest);
        Ok(Box::new(DdsFeed::new(&self.participant, self.release, kept, self.same_clock)?))
    }

    fn writer(&self, offer: Offer<'_>, list: WriterList<'_>) -> Result<Box<dyn RosWriter>, String> {
        writer::open(&self.participant, self.release, offer, list)
    }

    fn offer(
        &self,
        of: &Interface,
        node: &RosNode,
        requests: Arc<dyn Requests>,
    ) -> Result<Box<dyn Offered>, String> {
        service::offer(&self.participant, self.release, of, node, requests)
    }

    fn ask(
        &self,
        of: &Interface,
        node: &RosNode,
        server: &ServiceEndpoint,
        answers: Arc<dyn Answers>,
    ) -> Result<Arc<dyn Asking>, String> {
        service::ask(&self.participant, self.release, of, node, server, answers)
    }

    fn compares_qos(&self) -> bool {
        true
    }

    fn against(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        let mismatches = mismatches(&writing.qos, &reader.qos);
        let mismatches = mismatches.iter().map(ToString::to_string);
        mismatches.chain(types_differ(writing, reader)).collect()
    }

    fn remarks(&self, writing: &Writing, reader: &Endpoint) -> Vec<String> {
        definitions_differ(writing.type_hash, reader.announced).into_iter().collect()
    }

    /// Nodes with different definitions of one type exchange samples anyway.
    fn check_type(&self, _: &Endpoint, _: &Crossing) -> Result<(), String> {
        Ok(())
    }

    fn server_mismatch(&self, _: &Interface, _: &ServiceEndpoint) -> Option<String> {
        None
    }

    fn named_within(&self) -> Duration {
        NAMED_WITHIN
    }

    #[cfg(test)]
    fn close(&self) {
        self.participant.close();
    }
}

struct DdsDiscovery {
    graph: DdsGraph,
    /// True if the last read has failed.
    failed: bool,
    participant: Arc<dds::Participant>,
}

impl Discovery for DdsDiscovery {
    fn poll(&mut self, nodes: &mut Nodes, most: usize) -> Learnt {
        let learnt = self.graph.learn(nodes, most);
        let ((endpoints, services), taken) = self.graph.take(nodes);
        let named = !matches!(learnt, Ok(false));
        let failed = learnt.and(taken).err().map(|e| e.to_string());
        self.failed = failed.is_some();
        Learnt { endpoints, services, named, lines: withheld().into_iter().collect(), failed }
    }

    fn announce(
        &mut self,
        writings: &[Writing],
        own: &dyn Fn() -> OwnReaders,
    ) -> Result<(), String> {
        let OwnReaders { readers, services } = own();
        let participant = self.participant.gid().map_err(|e| e.to_string())?;
        self.graph.say(participant, writings, readers, services).map_err(|e| e.to_string())
    }

    fn next(&mut self) -> Option<Instant> {
        // After a failed read, the time of the graph's next check is ignored. Otherwise the read
        // would be retried without a pause.
        self.graph.next().filter(|_| !self.failed)
    }

    fn gateways(&self) -> BTreeSet<String> {
        self.graph.gateways().cloned().collect()
    }
}
