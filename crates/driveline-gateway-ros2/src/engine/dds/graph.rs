// SPDX-License-Identifier: Apache-2.0
//! ROS graph over DDS: discovered endpoints, and announcements of participants about their nodes.
//! See section 5 of `docs/protocols/ros2-dds.md`.

use crate::dds::{self, Discovery, EndpointConfig, Entity, Found, History, Reader, Writer};
use crate::discovery_info::{
    GRAPH_TOPIC, GRAPH_TYPE, Gid, NodeEndpoints, ParticipantInfo, endpoint_user_data,
    graph_user_data, session_of,
};
use crate::engine::endpoint::{Change, Changes, Endpoint, Profile, Writing};
use crate::engine::service::{OwnEnds, ServiceChange};
use crate::engine::transport::Nodes;
use crate::names::RosNode;
use crate::qos::{DurabilityKind, EndpointQos};
use driveline_gateway::ros2::Release;
use driveline_types::Reliability;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::{Duration, Instant};

/// Maximum time to wait until a participant announces the node of a writer, or of a server whose
/// service passes to the other profile.
pub(super) const NAMED_WITHIN: Duration = Duration::from_secs(1);
/// Maximum number of such writers, and of participants known to announce nodes.
const MAX_WAITING: usize = 4096;

/// Common prefix of the ids of a participant's endpoints.
type Prefix = [u8; 12];

fn prefix(gid: &Gid) -> Prefix {
    std::array::from_fn(|n| gid[n])
}

/// Replaces the earlier announcement of a participant. `most` limits the number of endpoints of all
/// participants. Beyond it only node names are lost.
fn remember(
    nodes: &mut Nodes,
    participants: &mut BTreeMap<Gid, Vec<Gid>>,
    info: ParticipantInfo,
    most: usize,
) {
    for gid in participants.remove(&info.gid).unwrap_or_default() {
        nodes.remove(&gid);
    }
    if nodes.len() >= most || participants.len() >= most {
        // These nodes are learned again at their next announcement.
        nodes.clear();
        participants.clear();
    }
    let named = info.nodes.into_iter().flat_map(|node| {
        let name = RosNode::new(&node.namespace, &node.name);
        node.writers.into_iter().chain(node.readers).map(move |gid| (gid, name.clone()))
    });
    // One sample may name more endpoints than a network has.
    let named: Vec<_> = named.take(most.saturating_sub(nodes.len())).collect();
    participants.insert(info.gid, named.iter().map(|(gid, _)| *gid).collect());
    nodes.extend(named);
}

pub(in crate::engine) struct DdsGraph {
    found_writers: Discovery,
    found_readers: Discovery,
    reader: Reader,
    writer: Writer,
    _topic: Entity,
    release: Release,
    /// Prefix of the ids of this participant's endpoints.
    own: [u8; 12],
    participants: BTreeMap<Gid, Vec<Gid>>,
    said: Option<ParticipantInfo>,
    /// Participants that announce nodes, by their writers of the graph's topic.
    speakers: HashMap<u64, Prefix>,
    /// Gateways among them that also use Zenoh, with their Zenoh ids.
    gateways: HashMap<u64, String>,
    /// Writers of such participants that were discovered before their node was announced, with the
    /// end of their wait, in order of arrival.
    unnamed: VecDeque<(Instant, Box<Endpoint>)>,
}

impl DdsGraph {
    /// Opens the graph. `session`: the gateway's Zenoh id, if it uses Zenoh. `kept`: maximum number
    /// of unread announcements.
    pub(in crate::engine) fn open(
        dds: &dds::Participant,
        waiting: &dds::Waiting,
        release: Release,
        session: Option<&str>,
        kept: u32,
    ) -> dds::Result<Self> {
        let (found_writers, found_readers) =
            (Discovery::of_writers(dds)?, Discovery::of_readers(dds)?);
        let topic = dds.topic(GRAPH_TOPIC, GRAPH_TYPE)?;
        let lasting = EndpointConfig {
            qos: EndpointQos {
                reliability: Reliability::Reliable,
                durability: DurabilityKind::TransientLocal,
                ..EndpointQos::default()
            },
            history: History::KeepLast(1),
            max_blocking: Duration::from_millis(100),
            lifespan: None,
            user_data: &endpoint_user_data(None, release),
        };
        let writer = dds.writer(
            &topic,
            &EndpointConfig { user_data: &graph_user_data(session), ..lasting.clone() },
        )?;
        let reader = dds.reader(
            &topic,
            &EndpointConfig { history: History::KeepAll { limit: kept, late: 1 }, ..lasting },
        )?;
        found_writers.wake(waiting)?;
        found_readers.wake(waiting)?;
        waiting.add(&reader.entity)?;
        let mut own = [0; 12];
        own.copy_from_slice(&dds.gid()?[..12]);
        Ok(Self {
            found_writers,
            found_readers,
            reader,
            writer,
            _topic: topic,
            release,
            own,
            participants: BTreeMap::new(),
            said: None,
            speakers: HashMap::new(),
            gateways: HashMap::new(),
            unnamed: VecDeque::new(),
        })
    }

    /// Reads announcements of nodes; at most `most` endpoints. Returns true if there was one.
    pub(in crate::engine) fn learn(&mut self, nodes: &mut Nodes, most: usize) -> dds::Result<bool> {
        let mut any = false;
        while let Some(sample) = self.reader.take()? {
            let Some(info) = ParticipantInfo::decode(sample.bytes()) else { continue };
            any = true;
            remember(nodes, &mut self.participants, info, most);
        }
        Ok(any)
    }

    /// Returns the changes, even if not all could be read. A writer whose participant announces
    /// nodes is reported once its node is known, or after a second: its remote publisher keeps the
    /// name that it has then.
    pub(in crate::engine) fn take(&mut self, nodes: &Nodes) -> (Changes, dds::Result<()>) {
        let now = Instant::now();
        let (mut all, mut services, mut taken) = (Vec::new(), Vec::new(), Ok(()));
        let mut next = |of: &Discovery| match of.take() {
            Ok(found) => Some(found).filter(|found| !found.is_empty()),
            Err(e) => {
                taken = Err(e);
                None
            }
        };
        while let Some(found) = next(&self.found_writers) {
            self.services(&found, true, &mut services);
            found.into_iter().for_each(|found| self.writer(found, nodes, now, &mut all));
        }
        self.unnamed.retain(|(until, endpoint)| {
            let waits = now < *until && !nodes.contains_key(&endpoint.gid);
            if !waits {
                all.push((true, Change::Here(endpoint.clone())));
            }
            waits
        });
        while let Some(found) = next(&self.found_readers) {
            self.services(&found, false, &mut services);
            all.extend(found.into_iter().filter_map(Change::of_dds).map(|change| (false, change)));
        }
        ((all, services), taken)
    }

    /// Reads changes of foreign services.
    fn services(&self, found: &[Found], writes: bool, all: &mut Vec<ServiceChange>) {
        let others =
            found.iter().filter(|f| !matches!(f, Found::Here(e) if e.gid.starts_with(&self.own)));
        all.extend(others.filter_map(|f| ServiceChange::of_dds(f, writes)));
    }

    fn writer(&mut self, found: Found, nodes: &Nodes, now: Instant, all: &mut Vec<(bool, Change)>) {
        match &found {
            Found::Here(e) if e.topic == GRAPH_TOPIC && self.speakers.len() < MAX_WAITING => {
                self.speakers.insert(e.handle, prefix(&e.gid));
                if let Some(id) = session_of(&e.user_data) {
                    self.gateways.insert(e.handle, id.to_owned());
                }
            }
            Found::Here(_) => {}
            Found::Gone(handle) => {
                self.speakers.remove(handle);
                self.gateways.remove(handle);
            }
        }
        match Change::of_dds(found) {
            Some(Change::Here(e))
                if !e.gateway
                    && self.unnamed.len() < MAX_WAITING
                    && self.will_be_named(&e.gid, nodes) =>
            {
                self.unnamed.push_back((now + NAMED_WITHIN, e));
            }
            Some(Change::Gone(handle)) => {
                self.unnamed.retain(|(_, e)| e.handle != handle);
                all.push((true, Change::Gone(handle)));
            }
            change => all.extend(change.map(|change| (true, change))),
        }
    }

    fn will_be_named(&self, gid: &Gid, nodes: &Nodes) -> bool {
        !nodes.contains_key(gid) && self.speakers.values().any(|of| *of == prefix(gid))
    }

    /// Returns the Zenoh ids of gateways in this DDS domain.
    pub(in crate::engine) fn gateways(&self) -> impl Iterator<Item = &String> {
        self.gateways.values()
    }

    /// Returns the time of the next check without an event.
    pub(in crate::engine) fn next(&self) -> Option<Instant> {
        self.unnamed.front().map(|(until, _)| *until)
    }

    /// Announces the gateway's nodes and endpoints if they have changed.
    pub(in crate::engine) fn say(
        &mut self,
        participant: Gid,
        writings: &[Writing],
        readers: Vec<(RosNode, Gid)>,
        services: Vec<OwnEnds>,
    ) -> dds::Result<()> {
        let own = RosNode::gateway();
        let mut nodes: BTreeMap<_, (Vec<Gid>, Vec<Gid>)> =
            BTreeMap::from([(own.clone(), Default::default())]);
        for (node, gid) in readers {
            nodes.entry(node).or_default().0.push(gid);
        }
        for w in writings.iter().filter(|w| w.profile == Profile::Dds) {
            nodes.entry(w.node.clone()).or_default().1.push(w.gid);
        }
        for ends in services {
            let (readers, writers) = nodes.entry(ends.node).or_default();
            readers.extend(ends.readers);
            writers.extend(ends.writers);
        }
        let of =
            |(RosNode { namespace, name }, (readers, writers)): (RosNode, (Vec<Gid>, Vec<Gid>))| {
                NodeEndpoints { namespace, name, readers, writers }
            };
        let first = nodes.remove(&own).map(|ends| of((own, ends)));
        let info = ParticipantInfo {
            gid: participant,
            nodes: first.into_iter().chain(nodes.into_iter().map(of)).collect(),
        };
        if self.said.as_ref() != Some(&info) {
            let mut sample = info.encode(self.release).unwrap_or_default();
            let padding = sample.len().wrapping_neg() & 3;
            sample.resize(sample.len() + padding, 0);
            self.writer.write(&[&sample])?;
            self.said = Some(info);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gid(participant: u8, n: usize) -> Gid {
        let mut gid = [participant; 16];
        gid[8..].copy_from_slice(&n.to_le_bytes());
        gid
    }

    fn says(participant: u8, nodes: usize, of_each: usize) -> ParticipantInfo {
        let node = |n: usize| NodeEndpoints {
            namespace: "/".into(),
            name: format!("node_{n}"),
            readers: Vec::new(),
            writers: (0..of_each).map(|e| gid(participant, n * of_each + e)).collect(),
        };
        ParticipantInfo { gid: gid(participant, usize::MAX), nodes: (0..nodes).map(node).collect() }
    }

    #[test]
    fn a_participant_with_very_many_endpoints_gets_a_limited_number_of_names() {
        let (mut nodes, mut participants) = (Nodes::new(), BTreeMap::new());
        remember(&mut nodes, &mut participants, says(1, 2, 3), 100);
        assert_eq!((nodes.len(), nodes[&gid(1, 5)].name.as_str()), (6, "node_1"));
        for _ in 0..3 {
            remember(&mut nodes, &mut participants, says(2, 50, 200), 100);
            assert!(
                nodes.len() <= 100 && participants.values().map(Vec::len).sum::<usize>() <= 100,
                "{}",
                nodes.len()
            );
        }
        // Participant 2 withdraws its endpoints, so there is space again.
        remember(&mut nodes, &mut participants, says(2, 0, 0), 100);
        remember(&mut nodes, &mut participants, says(1, 2, 3), 100);
        assert_eq!(nodes.len(), 6);
    }
}
