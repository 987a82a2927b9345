// SPDX-License-Identifier: Apache-2.0
//! The thread that decides what exists.

use super::error::GatewayError;
use super::incoming::Incoming;
use super::inlet::Outside;
use super::outgoing::OutgoingTopic;
use super::{KIND, lock, session};
use crate::dds::{self, Discovery, Endpoint, EndpointConfig, Entity, Found, History, Reader, Waiting, Writer};
use crate::names::{dds_topic, ros_node, topic_of_dds};
use crate::qos::{EndpointQos, mismatches};
use crate::said::{GRAPH_TOPIC, GRAPH_TYPE, Gid, NodeEndpoints, PARTICIPANT_USER_DATA, ParticipantInfo, endpoint_user_data, is_gateway};
use crate::types::Types;
use driveline_runtime::gateway::{Notices, OnlyOne, Refusal, Report, ReportDesk, Ros2Report, Ros2TopicReport};
use driveline_runtime::ros2::{LocalTopic, Ros2GatewayConfig, Ros2Spec};
use driveline_shm::{Participant, ParticipantConfig};
use driveline_types::{EndpointId, MonotonicNs, NodeName, Qos, Reliability, limits::DEFAULT_PINS};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MAX_TOPICS: usize = 256;
/// Endpoints of others that are kept in mind.
const MAX_ENDPOINTS: usize = 16_384;
/// Nobody needs to look more often than that if nothing comes.
const LOOK: Duration = Duration::from_secs(1);
/// Refusals that a report names.
const MAX_REFUSALS: usize = 1024;

/// A writer towards ROS 2.
#[derive(Clone, Debug)]
pub(super) struct Writing {
    pub(super) publisher: EndpointId,
    pub(super) gid: Gid,
    pub(super) topic: String,
    pub(super) dds_name: String,
    pub(super) dds_type: String,
    pub(super) ros_type: String,
    pub(super) converted: bool,
    pub(super) node: NodeName,
    pub(super) qos: EndpointQos,
}

/// What all parts need.
pub(super) struct Common {
    pub(super) participant: Participant,
    pub(super) spec: Ros2Spec,
    pub(super) types: Types,
    pub(super) node: NodeName,
    pub(super) outside: Outside,
    pub(super) writings: Mutex<Vec<Writing>>,
    /// Local publishers that cannot go there, and why.
    pub(super) refusals: Mutex<HashMap<EndpointId, Refusal>>,
    notices: Notices,
    waiting: Waiting,
    /// Behind everything that is part of it.
    pub(super) dds: dds::Participant,
}

impl Common {
    /// For people.
    pub(super) fn tell(&self, line: String) {
        self.notices.tell(line);
    }

    /// Has the conductor look.
    pub(super) fn wake(&self) {
        self.waiting.wake();
    }
}

/// What the gateway's owner can ask of the conductor.
pub(super) struct Control {
    stop: AtomicBool,
    desk: ReportDesk,
    common: Arc<Common>,
}

impl Control {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.common.wake();
    }

    /// The report, or the one before if the conductor is busy.
    pub(super) fn report(&self) -> Report {
        self.desk.ask(|| self.common.wake())
    }

    pub(super) fn take_notices(&self) -> Vec<String> {
        self.common.notices.take()
    }
}

pub(super) struct Conductor {
    incoming: Incoming,
    outgoing: Vec<OutgoingTopic>,
    /// Readers of others on topics of ROS 2.
    readers: HashMap<u64, Endpoint>,
    /// Nodes of others, by the ids of their endpoints.
    nodes: HashMap<Gid, (String, String)>,
    participants: BTreeMap<Gid, Vec<Gid>>,
    told: HashSet<(Gid, Gid)>,
    said: Option<ParticipantInfo>,
    found_writers: Discovery,
    found_readers: Discovery,
    graph_reader: Reader,
    graph_writer: Writer,
    _graph: Entity,
    control: Arc<Control>,
    common: Arc<Common>,
    started: MonotonicNs,
    _only: OnlyOne,
}

/// Topics towards ROS 2: those of the graph that a rule covers, and those that a rule names.
fn to_ros(config: &Ros2GatewayConfig) -> Vec<LocalTopic> {
    let known = config.topics.iter().filter(|t| config.ros2.rule(&t.topic, false).is_some()).cloned();
    let mut topics: Vec<LocalTopic> = known.collect();
    for rule in &config.ros2.topics {
        let Some(topic) = rule.single().filter(|t| rule.covers(t, false)) else { continue };
        if !topics.iter().any(|t| t.topic == topic) {
            let qos = Qos {
                reliability: rule.qos.reliability.unwrap_or_default(),
                durability: rule.qos.durability.unwrap_or_default(),
                depth: rule.qos.depth.unwrap_or(1),
                ..Qos::default()
            };
            topics.push(LocalTopic { topic, max_payload: rule.max_payload_bytes(), pins: DEFAULT_PINS, qos, access: Default::default() });
        }
    }
    topics
}

/// What stands between a writer of the gateway and a reader of ROS 2; empty: nothing.
fn against(writing: &Writing, reader: &Endpoint) -> Vec<String> {
    let mut reasons: Vec<_> = mismatches(&writing.qos, &reader.qos).iter().map(ToString::to_string).collect();
    if reader.type_name != writing.dds_type {
        reasons.push(format!("TYPE: the writer's is {}, the reader's {}", writing.dds_type, reader.type_name));
    }
    reasons
}

impl Conductor {
    pub(super) fn new(config: Ros2GatewayConfig) -> Result<Self, GatewayError> {
        let spec = config.ros2.clone();
        if let Some(m) = spec.mistakes().into_iter().next() {
            return Err(GatewayError::Config { key: m.key, message: m.message, help: m.help });
        }
        let topics = to_ros(&config);
        if topics.len() > MAX_TOPICS {
            let message = format!("{} topics towards ROS 2 are too many", topics.len());
            return Err(GatewayError::Config { key: "topics", message, help: format!("at most {MAX_TOPICS} are possible") });
        }
        let types = Types::new(&spec.types)?;
        let participant =
            Participant::open(ParticipantConfig { domain_dir: Some(config.domain_dir.clone()), name: "gateway-ros2".into() })?;
        let only = OnlyOne::new(participant.domain_dir(), KIND)?;
        participant.set_description(serde_json::json!({ "gateway": KIND }).to_string());
        let random = EndpointId::random().map_err(|source| GatewayError::System { action: "draw a random number", source })?;
        let from_rules = spec.topics.iter().map(driveline_runtime::ros2::Rule::max_payload_bytes);
        let longest = topics.iter().map(|t| t.max_payload).chain(from_rules).max().unwrap_or(0);
        let dds = dds::Participant::open(spec.domain_id, &session::configuration(&spec, longest), PARTICIPANT_USER_DATA);
        let dds = dds.map_err(|source| session::refused(&spec, source))?;
        let waiting = dds.waiting()?;
        let (found_writers, found_readers) = (Discovery::of_writers(&dds)?, Discovery::of_readers(&dds)?);
        let graph = dds.topic(GRAPH_TOPIC, GRAPH_TYPE)?;
        let lasting = EndpointConfig {
            qos: EndpointQos {
                reliability: Reliability::Reliable,
                durability: crate::qos::DurabilityKind::TransientLocal,
                ..EndpointQos::default()
            },
            history: History::KeepLast(1),
            max_blocking: Duration::from_millis(100),
            lifespan: None,
            user_data: &endpoint_user_data(None, spec.release),
        };
        let graph_writer = dds.writer(&graph, &lasting)?;
        let graph_reader = dds.reader(&graph, &EndpointConfig { history: History::KeepAll { limit: 4096, late: 1 }, ..lasting })?;
        found_writers.wake(&waiting)?;
        found_readers.wake(&waiting)?;
        waiting.add(&graph_reader.entity)?;
        let node =
            "gateway_ros2".parse().map_err(|_| GatewayError::Config { key: "topics", message: "a name".into(), help: String::new() })?;
        let outside = Outside { mark: random.0 as u64, same_clock: spec.interface.is_none() };
        let (writings, refusals, notices) = (Mutex::default(), Mutex::default(), Notices::default());
        let common = Arc::new(Common { participant, spec, types, node, outside, writings, refusals, notices, waiting, dds });
        let mut outgoing = Vec::new();
        for local in topics {
            let Some(rule) = common.spec.rule(&local.topic, false) else { continue };
            match dds_topic(&local.topic) {
                Some(name) => outgoing.push(OutgoingTopic::start(&common, &local, name, rule)?),
                None => common.tell(format!("topic '{}' does not go to ROS 2, which does not permit its name: rename it", local.topic)),
            }
        }
        let first = Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            ros2: Some(Ros2Report { domain_id: common.spec.domain_id, ..Ros2Report::default() }),
            ..Report::default()
        };
        let control = Arc::new(Control { stop: AtomicBool::new(false), desk: ReportDesk::new(first), common: common.clone() });
        Ok(Self {
            incoming: Incoming::default(),
            outgoing,
            readers: HashMap::new(),
            nodes: HashMap::new(),
            participants: BTreeMap::new(),
            told: HashSet::new(),
            said: None,
            found_writers,
            found_readers,
            graph_reader,
            graph_writer,
            _graph: graph,
            control,
            common,
            started: MonotonicNs::now(),
            _only: only,
        })
    }

    pub(super) fn control(&self) -> Arc<Control> {
        self.control.clone()
    }

    pub(super) fn domain_dir(&self) -> PathBuf {
        self.common.participant.domain_dir().to_owned()
    }

    pub(super) fn run(mut self) {
        while !self.control.stop.load(Ordering::Acquire) {
            if let Err(e) = self.look() {
                self.common.tell(e.to_string());
            }
            if let Err(e) = self.common.waiting.wait(LOOK) {
                self.common.tell(e.to_string());
                return;
            }
        }
    }

    fn look(&mut self) -> dds::Result<()> {
        self.graph()?;
        loop {
            let found = self.found_writers.take()?;
            if found.is_empty() {
                break;
            }
            found.into_iter().for_each(|f| self.writer(f));
        }
        loop {
            let found = self.found_readers.take()?;
            if found.is_empty() {
                break;
            }
            found.into_iter().for_each(|f| self.reader(f));
        }
        self.incoming.tidy();
        let writings = lock(&self.common.writings).clone();
        self.compare(&writings);
        self.say(&writings)?;
        self.control.desk.answer(|| self.report(&writings));
        Ok(())
    }

    fn report(&self, writings: &[Writing]) -> Report {
        let spec = &self.common.spec;
        let mut to_ros: Vec<_> = self.outgoing.iter().map(|t| t.report(writings)).collect();
        for topic in &mut to_ros {
            let of_topic = |r: &&Endpoint| topic_of_dds(&r.topic).is_some_and(|t| t.as_str() == topic.topic);
            let mine: Vec<_> = writings.iter().filter(|w| w.topic == topic.topic).collect();
            let matches = |r: &&Endpoint| mine.iter().any(|w| against(w, r).is_empty());
            topic.readers = self.readers.values().filter(of_topic).filter(matches).map(|r| self.node_of(&r.gid)).collect();
            topic.readers.sort();
        }
        let mut from_ros = self.incoming.report();
        // What was asked for by name, and nobody publishes.
        for topic in spec.topics.iter().filter_map(|rule| rule.single().filter(|t| rule.covers(t, true))) {
            if !from_ros.iter().any(|t| t.topic == topic.as_str()) {
                from_ros.push(Ros2TopicReport { topic: topic.to_string(), ..Ros2TopicReport::default() });
            }
        }
        let unmatched = self.unmatched(writings).map(|(w, r, reasons)| Refusal {
            topic: w.topic.clone(),
            host: self.node_of(&r.gid),
            outgoing: true,
            subscription: true,
            reason: reasons.join("; "),
            again_ms: None,
        });
        let here: Vec<_> = lock(&self.common.refusals).values().cloned().collect();
        let mut refused: Vec<_> = here.into_iter().chain(unmatched).chain(self.incoming.refusals()).take(MAX_REFUSALS).collect();
        refused.sort_by(|a, b| (&a.topic, &a.host, &a.reason).cmp(&(&b.topic, &b.host, &b.reason)));
        let now = MonotonicNs::now();
        let nodes: HashSet<_> = self.nodes.values().collect();
        Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            host: format!("{:016x}", self.common.outside.mark),
            at_ns: now.0,
            up_ms: now.since(self.started).as_millis() as u64,
            refused,
            ros2: Some(Ros2Report { domain_id: spec.domain_id, interface: spec.interface.clone(), nodes: nodes.len(), to_ros, from_ros }),
            ..Report::default()
        }
    }

    /// The node that an endpoint of others belongs to, as ROS 2 writes it.
    fn node_of(&self, gid: &Gid) -> String {
        self.nodes.get(gid).map_or_else(|| "?".to_owned(), |(namespace, name)| format!("{}/{name}", namespace.trim_end_matches('/')))
    }

    /// Readers of ROS 2 that get nothing of a writer here, and why.
    fn unmatched<'a>(&'a self, writings: &'a [Writing]) -> impl Iterator<Item = (&'a Writing, &'a Endpoint, Vec<String>)> {
        let pairs = writings.iter().flat_map(|w| self.readers.values().filter(|r| r.topic == w.dds_name).map(move |r| (w, r)));
        pairs.map(|(w, r)| (w, r, against(w, r))).filter(|(_, _, reasons)| !reasons.is_empty())
    }

    /// What others say about their nodes.
    fn graph(&mut self) -> dds::Result<()> {
        while let Some(sample) = self.graph_reader.take()? {
            let Some(info) = ParticipantInfo::decode(sample.bytes()) else { continue };
            for gid in self.participants.remove(&info.gid).unwrap_or_default() {
                self.nodes.remove(&gid);
            }
            if self.nodes.len() >= MAX_ENDPOINTS || self.participants.len() >= MAX_ENDPOINTS {
                // Only names are lost. What is there is learned again as it changes.
                self.nodes.clear();
                self.participants.clear();
            }
            let mut of_participant = Vec::new();
            for node in info.nodes {
                for gid in node.writers.into_iter().chain(node.readers) {
                    self.nodes.insert(gid, (node.namespace.clone(), node.name.clone()));
                    of_participant.push(gid);
                }
            }
            self.participants.insert(info.gid, of_participant);
        }
        Ok(())
    }

    fn writer(&mut self, found: Found) {
        let endpoint = match found {
            Found::Gone(handle) => return self.incoming.gone(handle),
            Found::Here(endpoint) => endpoint,
        };
        let Some(topic) = topic_of_dds(&endpoint.topic) else { return };
        let own = lock(&self.common.writings).iter().any(|w| w.gid == endpoint.gid);
        let Some(rule) = self.common.spec.rule(&topic, true).filter(|_| !own).cloned() else { return };
        let node = self.nodes.get(&endpoint.gid).map(|(namespace, name)| (namespace.as_str(), name.as_str()));
        self.incoming.writer(&self.common, &topic, &rule, &endpoint, node);
    }

    fn reader(&mut self, found: Found) {
        match found {
            Found::Gone(handle) => drop(self.readers.remove(&handle)),
            Found::Here(endpoint) if is_gateway(&endpoint.user_data) || topic_of_dds(&endpoint.topic).is_none() => {}
            Found::Here(endpoint) if self.readers.len() < MAX_ENDPOINTS => drop(self.readers.insert(endpoint.handle, endpoint)),
            Found::Here(_) => self.common.tell("more subscriptions in ROS 2 than are looked at: mismatches are not told".into()),
        }
    }

    /// Tells of readers that do not match.
    fn compare(&mut self, writings: &[Writing]) {
        if self.told.len() > MAX_ENDPOINTS {
            self.told.clear();
        }
        for writing in writings {
            for reader in self.readers.values().filter(|r| r.topic == writing.dds_name) {
                let pair = (writing.gid, reader.gid);
                if self.told.contains(&pair) {
                    continue;
                }
                let reasons = against(writing, reader);
                if !reasons.is_empty() {
                    self.told.insert(pair);
                    self.common.tell(format!("topic '/{}': a ROS 2 subscription gets nothing: {}", writing.topic, reasons.join("; ")));
                }
            }
        }
    }

    /// Says what there is, if that has changed.
    fn say(&mut self, writings: &[Writing]) -> dds::Result<()> {
        let mut nodes = BTreeMap::<(String, String), Vec<Gid>>::new();
        for w in writings {
            nodes.entry(ros_node(&w.node)).or_default().push(w.gid);
        }
        let own = NodeEndpoints { namespace: "/".into(), name: "driveline".into(), readers: self.incoming.readers(), writers: Vec::new() };
        let of = |((namespace, name), writers)| NodeEndpoints { namespace, name, readers: Vec::new(), writers };
        let info = ParticipantInfo { gid: self.common.dds.gid()?, nodes: std::iter::once(own).chain(nodes.into_iter().map(of)).collect() };
        if self.said.as_ref() != Some(&info) {
            let mut sample = info.encode(self.common.spec.release).unwrap_or_default();
            let padding = sample.len().wrapping_neg() & 3;
            sample.resize(sample.len() + padding, 0);
            self.graph_writer.write(&[&sample])?;
            self.said = Some(info);
        }
        Ok(())
    }
}
