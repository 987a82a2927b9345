// SPDX-License-Identifier: Apache-2.0
//! Control thread: decides which topics and services are carried.

use super::asking::Asking;
use super::endpoint::{Change, Endpoint, Handle, Profile, Writing};
use super::error::GatewayError;
use super::gateway_state::GatewayState;
use super::incoming::Incoming;
use super::interfaces::Interfaces;
use super::local_topics::LocalTopics;
use super::outgoing::OutgoingTopic;
use super::service::Services;
use super::sim_time::SimTime;
use super::transport::{Discovery, Nodes, OwnReaders};
use super::transports::{Opened, open};
use super::{FEWER, KIND, lock};
use crate::clock::StampClock;
use crate::discovery_info::Gid;
use crate::names::{dds_topic, misnamed};
use crate::types::Types;
use driveline_gateway::interfaces::interfaces;
use driveline_gateway::ros2::{LocalTopic, Ros2GatewayConfig, Ros2Spec};
use driveline_gateway::{Notices, OnlyOne, Report, ReportRequests, Ros2Report};
use driveline_shm::{Participant, ParticipantConfig};
use driveline_types::{EndpointId, MonotonicNs, Qos, TopicName, limits::DEFAULT_PINS};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

const MAX_TOPICS: usize = 256;
/// Maximum number of remembered endpoints of other nodes.
const MAX_ENDPOINTS: usize = 16_384;
/// Maximum number of other gateways reported.
const MAX_OTHER_GATEWAYS: usize = 16;
/// Maximum number of reported reasons for skipped types.
const MAX_LEFT_OUT: usize = 64;
/// Maximum number of reported topics whose names Driveline does not permit, and maximum length of
/// such a name in a text.
const MAX_MISNAMED: usize = 256;
const LONGEST_NAMED: usize = 256;
/// State of a subscription with a remark.
pub(super) const WITH_A_REMARK: &str = "gets samples, but not as requested";
/// Longest pause between checks without an event.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Requests of the gateway's owner to the control thread.
pub(super) struct Control {
    stop: AtomicBool,
    report_requests: ReportRequests,
    common: Arc<GatewayState>,
}

impl Control {
    pub(super) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.common.wake();
    }

    /// Returns the report. If the control thread is busy, returns its last one.
    pub(super) fn report(&self) -> Report {
        self.report_requests.ask(|| self.common.wake())
    }

    /// Writes a line to the log.
    pub(super) fn log(&self, line: String) {
        self.common.log(line);
    }

    pub(super) fn take_notices(&self) -> Vec<String> {
        self.common.notices.take()
    }

    /// Reason why the gateway cannot continue, if it cannot.
    pub(super) fn failure(&self) -> Option<String> {
        self.common.failed.get().cloned()
    }

    #[cfg(test)]
    pub(super) fn close_dds(&self) {
        self.common.transport(Profile::Dds).unwrap().close();
    }
}

pub(super) struct ControlThread {
    pub(super) services: Services,
    /// Receiving side of each profile.
    pub(super) incoming: Vec<(Profile, Incoming)>,
    /// Topics towards ROS 2. `None`: the topic is not sent; the reason was logged.
    pub(super) outgoing: BTreeMap<TopicName, Option<OutgoingTopic>>,
    /// Topics listed even without a publisher in ROS 2.
    pub(super) sought: BTreeSet<String>,
    /// Foreign readers of ROS 2 topics.
    pub(super) readers: HashMap<(Profile, Handle), Endpoint>,
    pub(super) nodes: Nodes,
    reported: HashSet<(Gid, Gid)>,
    asking: Asking,
    /// Finds topics of this host that only patterns name.
    local_topics: Option<LocalTopics>,
    /// ROS 2 topics already logged because Driveline does not permit their names.
    misnamed: HashSet<String>,
    /// True if it was logged that the limit of topics towards ROS 2 is reached.
    full_logged: bool,
    /// Zenoh sessions of other gateways that are also in the same DDS domain.
    pub(super) beside: BTreeSet<String>,
    /// Dropped before the transports.
    discoveries: Vec<(Profile, Box<dyn Discovery>)>,
    control: Arc<Control>,
    pub(super) common: Arc<GatewayState>,
    pub(super) started: MonotonicNs,
    /// Name of the domain, for texts.
    pub(super) domain: String,
    /// Types of packages that cannot be received from ROS 2, with the reasons.
    pub(super) left_out: Vec<String>,
    interfaces: Interfaces,
    _clocks: Vec<SimTime>,
    _only: OnlyOne,
}

/// Returns the first `most` lines, and a line with the number of the others.
fn at_most(most: usize, lines: impl ExactSizeIterator<Item = String>) -> Vec<String> {
    let more = lines.len().saturating_sub(most);
    lines
        .take(most)
        .chain((more > 0).then(|| format!("and {more} more, which are not named here")))
        .collect()
}

/// Returns the topics towards ROS 2: topics of the graph for which there is a rule, and topics that
/// a rule names.
fn to_ros(config: &Ros2GatewayConfig) -> Vec<LocalTopic> {
    let known =
        config.topics.iter().filter(|t| config.ros2.rule(&t.topic, false).is_some()).cloned();
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
            topics.push(LocalTopic {
                topic,
                max_payload: rule.max_payload_bytes(),
                pins: DEFAULT_PINS,
                qos,
                access: Default::default(),
            });
        }
    }
    topics
}

/// Sends a topic to ROS 2, as its rule says. Returns `None` if that is impossible, which was
/// logged.
fn goes_out(
    common: &Arc<GatewayState>,
    local: &LocalTopic,
) -> Result<Option<OutgoingTopic>, GatewayError> {
    let Some(rule) = common.spec.rule(&local.topic, false) else { return Ok(None) };
    if dds_topic(&local.topic).is_none() {
        common.log(format!(
            "topic '{}' does not go to ROS 2, which does not permit its name: rename it",
            local.topic
        ));
        return Ok(None);
    }
    OutgoingTopic::start(common, local, rule).map(Some)
}

/// Returns the topics to search in ROS 2: topics of the graph for which there is a rule, and topics
/// that a rule names.
fn from_ros(config: &Ros2GatewayConfig) -> BTreeSet<String> {
    let covered = config
        .topics
        .iter()
        .map(|t| &t.topic)
        .filter(|t| config.ros2.rule(t, true).is_some())
        .cloned();
    let named =
        config.ros2.topics.iter().filter_map(|rule| rule.single().filter(|t| rule.covers(t, true)));
    covered.chain(named).map(|t| t.to_string()).collect()
}

/// Pairs of a writer here and a reader in ROS 2 on the same topic and profile.
pub(super) fn pairs<'a>(
    writings: &'a [Writing],
    readers: &'a HashMap<(Profile, Handle), Endpoint>,
) -> impl Iterator<Item = (&'a Writing, &'a Endpoint)> {
    writings.iter().flat_map(move |w| {
        readers
            .values()
            .filter(move |r| r.profile == w.profile && r.topic == w.topic)
            .map(move |r| (w, r))
    })
}

impl ControlThread {
    pub(super) fn new(config: Ros2GatewayConfig) -> Result<Self, GatewayError> {
        Self::over(config, open)
    }

    /// Makes the control thread of a gateway. `open` opens the transports; its `u64` is the
    /// maximum payload in bytes.
    pub(super) fn over(
        config: Ros2GatewayConfig,
        open: impl FnOnce(&Ros2Spec, u64) -> Result<Opened, GatewayError>,
    ) -> Result<Self, GatewayError> {
        let spec = config.ros2.clone();
        let (topics, sought) = (to_ros(&config), from_ros(&config));
        if topics.len() > MAX_TOPICS {
            let message = format!("{} topics towards ROS 2 are too many", topics.len());
            return Err(GatewayError::Config {
                key: "topics",
                message,
                help: format!("at most {MAX_TOPICS} are possible"),
            });
        }
        let types = Types::new(&spec.types)?;
        let left_out =
            at_most(MAX_LEFT_OUT, types.left_out(&spec.topics).iter().map(ToString::to_string));
        // If the gateway was started by hand, the configuration may not name the domain.
        let domain = Some(config.domain)
            .filter(|d| !d.is_empty())
            .unwrap_or_else(|| config.domain_dir.display().to_string());
        let participant = Participant::open(ParticipantConfig {
            domain_dir: Some(config.domain_dir.clone()),
            name: "gateway-ros2".into(),
        })?;
        let only = OnlyOne::new(participant.domain_dir(), KIND)?;
        participant.set_description(serde_json::json!({ "gateway": KIND }).to_string());
        let random = EndpointId::random()
            .map_err(|source| GatewayError::System { action: "draw a random number", source })?;
        let from_rules = spec.topics.iter().map(driveline_gateway::ros2::Rule::max_payload_bytes);
        let of_services = spec.services.iter().flat_map(|s| [s.max_request.0, s.max_response.0]);
        let longest = topics
            .iter()
            .map(|t| t.max_payload)
            .chain(from_rules)
            .chain(of_services)
            .max()
            .unwrap_or(0);
        let interfaces = Interfaces::new(&spec, &interfaces());
        let Opened { transports, discoveries, waiting } = open(&spec, longest)?;
        let node = "gateway_ros2".parse().map_err(|_| GatewayError::Config {
            key: "topics",
            message: "a name".into(),
            help: String::new(),
        })?;
        let (writings, refusals, notices, failed) =
            (Arc::default(), Mutex::default(), Notices::default(), OnceLock::new());
        let mark = random.0 as u64;
        let clock = StampClock::new(spec.use_sim_time);
        let common = Arc::new(GatewayState {
            participant,
            spec,
            longest,
            types,
            node,
            clock,
            mark,
            writings,
            refusals,
            notices,
            failed,
            waiting,
            transports,
        });
        left_out.iter().for_each(|line| common.log(line.clone()));
        let profiles = common.profiles().filter(|_| common.spec.use_sim_time);
        let clocks =
            profiles.map(|profile| SimTime::start(&common, profile)).collect::<Result<_, _>>()?;
        let mut outgoing = BTreeMap::new();
        for local in topics {
            let started = goes_out(&common, &local)?;
            outgoing.insert(local.topic, started);
        }
        let local_topics =
            LocalTopics::start(&common.spec, common.participant.domain_dir(), &common.waiting);
        let local_topics = local_topics
            .map_err(|source| GatewayError::System { action: "start a thread", source })?;
        let first = Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            domain: domain.clone(),
            ros2: Some(Ros2Report { domain_id: common.spec.domain_id, ..Ros2Report::default() }),
            ..Report::default()
        };
        let control = Arc::new(Control {
            stop: AtomicBool::new(false),
            report_requests: ReportRequests::new(first),
            common: common.clone(),
        });
        Ok(Self {
            services: Services::start(&common)?,
            incoming: common.profiles().map(|profile| (profile, Incoming::new(profile))).collect(),
            outgoing,
            sought,
            readers: HashMap::new(),
            nodes: Nodes::new(),
            reported: HashSet::new(),
            asking: Asking::default(),
            local_topics,
            misnamed: HashSet::new(),
            full_logged: false,
            beside: BTreeSet::new(),
            discoveries,
            control,
            common,
            started: MonotonicNs::now(),
            domain,
            left_out,
            interfaces,
            _clocks: clocks,
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
            let longest = self.poll();
            if let Err(e) = self.common.waiting.wait(longest) {
                self.common.fail(e.to_string());
                break;
            }
        }
        // Waits a short time for threads that are sending; then their samples are lost.
        self.common.transports.iter().for_each(|transport| transport.give_up());
    }

    /// Handles pending events and returns the time until the next check without an event. Refusals
    /// of a middleware are logged, and do not stop the rest.
    fn poll(&mut self) -> Duration {
        let (lines, mut failures) = self.learn();
        let of_interfaces =
            self.interfaces.poll(Instant::now(), interfaces).unwrap_or_else(|why| {
                self.common.fail(why);
                Vec::new()
            });
        lines.into_iter().chain(of_interfaces).for_each(|line| self.common.log(line));
        self.check_other_profile();
        self.find_local_topics();
        for (_, incoming) in &mut self.incoming {
            incoming.tidy(&self.common);
            incoming.try_again(&self.common);
        }
        if self.common.writer_list().has_room() {
            self.outgoing.values().flatten().for_each(OutgoingTopic::room);
        }
        let writings = lock(&self.common.writings).clone();
        self.compare(&writings);
        let nodes = &self.nodes;
        self.asking.poll(&self.common, pairs(&writings, &self.readers), |reader| {
            nodes.get(&reader.gid).cloned()
        });
        let due = self.services.poll(&self.nodes);
        failures.extend(self.announce(&writings));
        self.control.report_requests.answer(|| self.report(&writings));
        failures.into_iter().for_each(|e| self.common.log(e));
        let next = self.discoveries.iter_mut().filter_map(|(_, discovery)| discovery.next());
        let next = next.chain(due).min();
        next.map_or(CHECK_EVERY, |at| at.saturating_duration_since(Instant::now()).min(CHECK_EVERY))
    }

    /// Handles the changes that discovery reports. Returns lines for the log, and failures.
    fn learn(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut lines, mut failures) = (Vec::new(), Vec::new());
        for n in 0..self.discoveries.len() {
            let (profile, discovery) = &mut self.discoveries[n];
            let (profile, learnt) = (*profile, discovery.poll(&mut self.nodes, MAX_ENDPOINTS));
            if learnt.named {
                self.services.named();
            }
            for (writes, change) in learnt.endpoints {
                self.changed(profile, writes, change);
            }
            learnt.services.into_iter().for_each(|change| self.services.changed(profile, change));
            lines.extend(learnt.lines);
            failures.extend(learnt.failed);
        }
        (lines, failures)
    }

    /// Announces the gateway's endpoints. Returns the failures.
    fn announce(&mut self, writings: &[Writing]) -> Vec<String> {
        let (incoming, services) = (&self.incoming, &self.services);
        let own = || OwnReaders {
            readers: incoming.iter().flat_map(|(_, incoming)| incoming.readers()).collect(),
            services: services.own(),
        };
        let announced = self.discoveries.iter_mut().map(|(_, d)| d.announce(writings, &own));
        announced.filter_map(Result::err).collect()
    }

    /// Starts to send topics that only a pattern names, as soon as they are published here.
    fn find_local_topics(&mut self) {
        for topic in self.local_topics.as_ref().map(LocalTopics::take).unwrap_or_default() {
            if self.outgoing.contains_key(&topic) {
                continue;
            }
            if self.outgoing.len() >= MAX_TOPICS {
                if !std::mem::replace(&mut self.full_logged, true) {
                    self.common.log(format!(
                        "topic '{topic}' does not go to ROS 2, nor do others that come later: \
                         {MAX_TOPICS} topics do, which is the maximum; {FEWER}"
                    ));
                }
                return;
            }
            // The graph does not have this topic, so the maximum of all topics and services
            // applies. Longer samples are dropped and counted.
            let max_payload = self.common.longest;
            let local = LocalTopic {
                topic,
                max_payload,
                pins: DEFAULT_PINS,
                qos: Qos::default(),
                access: Default::default(),
            };
            let started = goes_out(&self.common, &local).unwrap_or_else(|e| {
                self.common.log(format!("topic '{}' does not go to ROS 2: {e}", local.topic));
                None
            });
            self.outgoing.insert(local.topic, started);
        }
    }

    /// Logs other gateways that connect the same DDS domain to the same Zenoh network.
    fn check_other_profile(&mut self) {
        let [(_, one), (_, other)] = self.discoveries.as_slice() else { return };
        let (one, other) = (one.gateways(), other.gateways());
        let beside: BTreeSet<_> =
            one.intersection(&other).take(MAX_OTHER_GATEWAYS).cloned().collect();
        for id in beside.difference(&self.beside) {
            self.common.log(format!(
                "another gateway (session {id} in Zenoh) takes part in this DDS domain and in this \
                 Zenoh network as well: what both carry from one to the other \
                 comes twice; have one gateway for both, or leave DDS (`dds: false`) or `zenoh:` \
                 out of one of them"
            ));
        }
        self.beside = beside;
    }

    /// Logs once a ROS 2 topic that a rule would carry but whose name Driveline does not permit.
    fn misnamed(&mut self, writes: bool, topic: &str) {
        let covered = self.common.spec.topics.iter().any(|rule| rule.covers_name(topic, writes));
        let Some(why) = misnamed(topic).filter(|_| covered && self.misnamed.len() < MAX_MISNAMED)
        else {
            return;
        };
        if self.misnamed.insert(topic.to_owned()) {
            let topic: String = topic.chars().take(LONGEST_NAMED).collect();
            self.common.log(format!("topic '/{topic}' of ROS 2 is not carried: {why}"));
        }
    }

    fn changed(&mut self, profile: Profile, writes: bool, change: Change) {
        if let Change::Misnamed(topic) = &change {
            return self.misnamed(writes, topic);
        }
        if writes { self.writer(profile, change) } else { self.reader(profile, change) }
    }

    fn writer(&mut self, profile: Profile, change: Change) {
        let Some((_, incoming)) = self.incoming.iter_mut().find(|(w, _)| *w == profile) else {
            return;
        };
        let endpoint = match change {
            Change::Gone(handle) => return incoming.gone(handle),
            Change::Misnamed(_) => return,
            Change::Here(endpoint) => endpoint,
        };
        let own = lock(&self.common.writings).iter().any(|w| w.gid == endpoint.gid);
        let Some(rule) = self.common.spec.rule(&endpoint.topic, true).filter(|_| !own).cloned()
        else {
            return;
        };
        let node = endpoint.node.as_ref().or_else(|| self.nodes.get(&endpoint.gid));
        incoming.writer(&self.common, &rule, &endpoint, node);
    }

    fn reader(&mut self, profile: Profile, change: Change) {
        match change {
            Change::Gone(handle) => drop(self.readers.remove(&(profile, handle))),
            Change::Misnamed(_) => {}
            Change::Here(endpoint) if endpoint.gateway => {}
            Change::Here(endpoint) if self.readers.len() < MAX_ENDPOINTS => {
                drop(self.readers.insert((profile, endpoint.handle), *endpoint));
            }
            Change::Here(endpoint) => self.common.log(format!(
                "topic '/{}': {MAX_ENDPOINTS} subscriptions in ROS 2 are known, which is the \
                 maximum: one more gets samples, but is not listed, and a mismatch of it is not \
                 logged",
                endpoint.topic
            )),
        }
    }

    /// Logs readers that do not match, and remarks on readers that match.
    fn compare(&mut self, writings: &[Writing]) {
        if self.reported.len() >= MAX_ENDPOINTS {
            let (writers, readers): (HashSet<Gid>, HashSet<Gid>) = (
                writings.iter().map(|w| w.gid).collect(),
                self.readers.values().map(|r| r.gid).collect(),
            );
            self.reported
                .retain(|(writer, reader)| writers.contains(writer) && readers.contains(reader));
        }
        for (writing, reader) in pairs(writings, &self.readers) {
            if self.reported.len() >= MAX_ENDPOINTS {
                // Reports list the others anyway.
                return;
            }
            if self.reported.contains(&(writing.gid, reader.gid)) {
                continue;
            }
            let reasons = self.common.against(writing, reader);
            let (verdict, reasons) = if reasons.is_empty() {
                (WITH_A_REMARK, self.common.remarks(writing, reader))
            } else {
                ("gets nothing", reasons)
            };
            if reasons.is_empty() {
                continue;
            }
            self.reported.insert((writing.gid, reader.gid));
            self.common.log(format!(
                "topic '/{}': a ROS 2 subscription {verdict}: {}",
                writing.topic,
                reasons.join("; ")
            ));
        }
    }
}

#[cfg(test)]
#[path = "control_thread_tests.rs"]
mod tests;
