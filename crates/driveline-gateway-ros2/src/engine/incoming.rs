// SPDX-License-Identifier: Apache-2.0
//! Topics from ROS 2 through one [`Profile`] (DDS or rmw_zenoh): which writers are read, and which
//! are refused.

use super::draining::Draining;
use super::endpoint::{Endpoint, Handle, Profile, definitions_differ};
use super::feed::longest;
use super::gateway_state::GatewayState;
use super::receiver::{Known, Open, Shared};
use super::remote_publisher::{Across, MOST_LATE, RemotePublisher};
use super::ros_writer::{Offer, OpenError};
use super::sequence_memory::SequenceMemory;
use super::{FEWER, PANICKED, lock};
use crate::names::{RosNode, inlet_node, ros_name_of};
use crate::qos::{ReaderClass, of_writer};
use crate::types::Crossing;
use driveline_gateway::ros2::Rule;
use driveline_gateway::{Refusal, Ros2Publisher, Ros2TopicReport};
use driveline_shm::CreatePublisherError;
use driveline_types::{Durability, Qos, TopicName};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

const MAX_TOPICS: usize = 256;
const MAX_REMOTE_PUBLISHERS: usize = 512;
const MAX_REMOTE_PUBLISHERS_OF_TOPIC: usize = 64;
const MAX_REFUSED: usize = 16_384;
/// Maximum number of bytes that a remote publisher of a volatile writer keeps, if it keeps more
/// than one sample.
const INLET_BYTES: u64 = 32 << 20;
/// Maximum number of bytes that a writer of the other profile keeps, if it keeps more than a few
/// samples.
const ACROSS_BYTES: u64 = 64 << 20;

struct IncomingTopic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IncomingTopic {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.feed.wake();
        // With the lock held, the thread either has not checked `stop` yet, or already waits for
        // `more`. So it does not miss the notification.
        let waiting = lock(&self.shared.writers);
        self.shared.more.notify_all();
        drop(waiting);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All topics from ROS 2 through one profile.
pub(super) struct Incoming {
    profile: Profile,
    topics: BTreeMap<TopicName, IncomingTopic>,
    /// Topics of writers with a remote publisher.
    writers: HashMap<Handle, TopicName>,
    /// Writers without a remote publisher. Their topic may not exist yet.
    refused: HashMap<Handle, RefusedWriter>,
    /// Remote publishers of departed writers. They count against the limits until they are dropped.
    draining: HashMap<Handle, (TopicName, Weak<RemotePublisher>)>,
    /// True if a remote publisher or a topic has ended since the last attempt for waiting writers.
    freed: bool,
    /// Writers whose samples are published here, but for lack of space do not pass to the other
    /// profile; oldest first.
    short: Vec<(Handle, Newcomer)>,
    /// Number of writers refused so far.
    count: u64,
    /// Departed writers that may come back.
    sequence_memory: Arc<Mutex<SequenceMemory>>,
}

/// A refused writer.
struct RefusedWriter {
    topic: TopicName,
    /// Reason under which its samples are counted.
    counted: &'static str,
    node: String,
    why: Why,
    /// Position in the queue, and the data for a new attempt. Only for writers refused for lack of
    /// space.
    waits: Option<(u64, Newcomer)>,
}

/// A discovered writer, and its node if known.
struct Newcomer {
    endpoint: Box<Endpoint>,
    node: Option<RosNode>,
}

impl Newcomer {
    fn new(endpoint: &Endpoint, node: Option<&RosNode>) -> Self {
        Self { endpoint: Box::new(endpoint.clone()), node: node.cloned() }
    }
}

/// Reason why a writer is refused.
#[derive(Debug)]
struct Why {
    /// Text for the log and reports.
    text: String,
    kind: Kind,
}

/// Duration of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// While the writer and the rule do not change.
    Lasting,
    /// The writer offers less than the rule requests. The gateway has a reader with that request,
    /// so DDS notifies the writer's node.
    Asked,
    /// Until another writer or topic has gone.
    NoRoom,
}

impl Why {
    fn no_room(text: String) -> Self {
        Self { text, kind: Kind::NoRoom }
    }
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self { text, kind: Kind::Lasting }
    }
}

impl From<CreatePublisherError> for Why {
    fn from(e: CreatePublisherError) -> Self {
        let of_others = matches!(
            e,
            CreatePublisherError::Memory { .. }
                | CreatePublisherError::MemoryBusy { .. }
                | CreatePublisherError::Descriptors { .. }
                | CreatePublisherError::System { .. }
        );
        Self { text: e.to_string(), kind: if of_others { Kind::NoRoom } else { Kind::Lasting } }
    }
}

impl Incoming {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            profile,
            topics: BTreeMap::new(),
            writers: HashMap::new(),
            draining: HashMap::new(),
            refused: HashMap::new(),
            freed: false,
            short: Vec::new(),
            count: 0,
            sequence_memory: Arc::default(),
        }
    }

    /// Handles a discovered writer on a topic that `rule` carries. `node`: its node, if known.
    pub(super) fn writer(
        &mut self,
        common: &Arc<GatewayState>,
        rule: &Rule,
        endpoint: &Endpoint,
        node: Option<&RosNode>,
    ) {
        if self.writers.contains_key(&endpoint.handle)
            || self.refused.contains_key(&endpoint.handle)
        {
            return;
        }
        let name = node.map(RosNode::to_string).unwrap_or_default();
        let refused = |counted, why, waits| RefusedWriter {
            topic: endpoint.topic.clone(),
            counted,
            node: name.clone(),
            why,
            waits,
        };
        if endpoint.gateway {
            let why =
                "another gateway of Driveline writes it: samples would go in circles".to_owned();
            self.refuse(common, endpoint.handle, refused("gateway", why.into(), None));
        } else if let Err(why) = self.try_writer(common, rule, endpoint, node) {
            common
                .log(format!("topic '/{}' is not taken from ROS 2: {}", endpoint.topic, why.text));
            self.count += 1;
            let waits =
                (why.kind == Kind::NoRoom).then(|| (self.count, Newcomer::new(endpoint, node)));
            self.refuse(common, endpoint.handle, refused("refused", why, waits));
        }
    }

    /// Accepts waiting writers, oldest first, after another has gone. Opens writers of the other
    /// profile for which there was no space before.
    pub(super) fn try_again(&mut self, common: &Arc<GatewayState>) {
        self.pass_again(common);
        if !std::mem::take(&mut self.freed) {
            return;
        }
        let mut waiting: Vec<_> = self
            .refused
            .iter()
            .filter_map(|(handle, r)| Some((r.waits.as_ref()?.0, *handle)))
            .collect();
        waiting.sort_unstable();
        // Topics without space: one attempt for each is enough.
        let mut full = HashSet::new();
        for (_, handle) in waiting {
            if self.writers.len() + self.draining.len() >= MAX_REMOTE_PUBLISHERS {
                return;
            }
            let Some(mut refused) = self.refused.remove(&handle) else { continue };
            let rule =
                common.spec.rule(&refused.topic, true).filter(|_| !full.contains(&refused.topic));
            if let (Some(rule), Some((_, newcomer))) = (rule, &refused.waits) {
                let topic = &refused.topic;
                match self.try_writer(common, rule, &newcomer.endpoint, newcomer.node.as_ref()) {
                    Ok(()) => {
                        let node = &refused.node;
                        common.log(format!(
                            "topic '/{topic}': samples of node '{node}' are taken from ROS 2 \
                             now, since there is space again"
                        ));
                        continue;
                    }
                    Err(why) if why.kind == Kind::NoRoom => {
                        full.insert(topic.clone());
                        refused.why = why;
                    }
                    Err(why) => {
                        common
                            .log(format!("topic '/{topic}' is not taken from ROS 2: {}", why.text));
                        (refused.why, refused.waits) = (why, None);
                    }
                }
            }
            self.refuse(common, handle, refused);
        }
    }

    fn refuse(&mut self, common: &GatewayState, handle: Handle, refused: RefusedWriter) {
        if self.refused.len() >= MAX_REFUSED {
            common.log(format!(
                "topic '/{}': {MAX_REFUSED} publishers in ROS 2 are known by {} that are not \
                 carried, which is the maximum: one more is neither listed nor retried; {FEWER}",
                refused.topic, self.profile
            ));
            return;
        }
        if let Some(t) = self.topics.get(&refused.topic) {
            t.shared.know(handle, Known::Refused(refused.counted));
        }
        self.refused.insert(handle, refused);
    }

    fn try_writer(
        &mut self,
        common: &Arc<GatewayState>,
        rule: &Rule,
        endpoint: &Endpoint,
        node: Option<&RosNode>,
    ) -> Result<(), Why> {
        let topic = &endpoint.topic;
        // An earlier remote publisher of the same writer is not counted: this attempt replaces it.
        let own = endpoint.handle;
        let draining = || {
            self.draining
                .iter()
                .filter(move |(handle, _)| **handle != own)
                .map(|(_, (topic, _))| topic)
        };
        let of_topic = self.writers.values().chain(draining()).filter(|t| *t == topic).count();
        if of_topic >= MAX_REMOTE_PUBLISHERS_OF_TOPIC {
            return Err(Why::no_room(format!(
                "{of_topic} publishers of it are read by {}, which is the maximum for a topic: \
                 end publishers that are not needed, or have them publish on several topics",
                self.profile
            )));
        }
        if self.writers.len() + draining().count() >= MAX_REMOTE_PUBLISHERS {
            let profile = self.profile;
            return Err(Why::no_room(format!(
                "this gateway reads {MAX_REMOTE_PUBLISHERS} publishers by {profile}, which is the \
                 maximum: {FEWER}"
            )));
        }
        // Checked before anything is opened or logged: waiting writers are retried each time
        // another has gone.
        self.has_room_for(topic)?;
        let crossing =
            common.types.from_ros(&endpoint.type_name, rule.form).map_err(|e| e.to_string())?;
        common.transport(self.profile)?.check_type(endpoint, &crossing)?;
        let class = ReaderClass::of_writer(&endpoint.qos, &rule.qos);
        let lacks = class.lacks(&endpoint.qos);
        if !lacks.is_empty() {
            let text = lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(self.ask(common, rule, endpoint, class, &crossing, text));
        }
        let late = late(endpoint, class, rule);
        let name = inlet_node(node, &endpoint.gid, &common.node);
        let what = (endpoint.qos, class, of_writer(&endpoint.qos, class, late));
        let mut remote_publisher =
            RemotePublisher::open(&common.participant, topic, name, crossing, what, rule)?;
        remote_publisher.remark = remark(endpoint, &remote_publisher)
            .or_else(|| keeps_less(endpoint, &remote_publisher, late));
        let shared = self.topic(common, topic, rule)?;
        remote_publisher
            .remark
            .iter()
            .for_each(|remark| common.log(format!("topic '/{topic}': {remark}")));
        if self.passes(common, topic) && !self.pass(common, rule, endpoint, &remote_publisher, node)
        {
            self.short.push((endpoint.handle, Newcomer::new(endpoint, node)));
        }
        // The reader is opened only now, because its type had to be found first. The topic's thread
        // takes a sample that arrives before `know` below, and waits for `know`.
        let read = shared.feed.read(endpoint, class, &remote_publisher.crossing);
        if let Err(e) = read.and_then(|()| shared.feed.history(endpoint, class)) {
            self.short.retain(|(short, _)| *short != endpoint.handle);
            return Err(e.into());
        }
        self.writers.insert(endpoint.handle, topic.clone());
        shared.know(endpoint.handle, Known::of(remote_publisher));
        Ok(())
    }

    /// Opens a reader of `class`, which requests more than the writer offers, so that DDS notifies
    /// the writer's node. `text` describes the difference. With rmw_zenoh no reader is opened:
    /// rmw_zenoh matches by keys alone, so such a reader would get the writer's samples.
    fn ask(
        &mut self,
        common: &Arc<GatewayState>,
        rule: &Rule,
        of: &Endpoint,
        class: ReaderClass,
        crossing: &Crossing,
        text: String,
    ) -> Why {
        if !common.transport(self.profile).is_ok_and(|t| t.compares_qos()) {
            return text.into();
        }
        let topic = self.topic(common, &of.topic, rule).map_err(|why| why.text);
        match topic.and_then(|shared| shared.feed.read(of, class, crossing)) {
            Ok(()) => Why { text, kind: Kind::Asked },
            Err(e) => format!("{text}; DDS does not notify its node: {e}").into(),
        }
    }

    /// Returns true if a topic continues to the other profile: if the gateway has that profile, and
    /// rules carry the topic in both directions.
    fn passes(&self, common: &GatewayState, topic: &TopicName) -> bool {
        common.has(self.profile.other()) && common.spec.rule(topic, false).is_some()
    }

    /// Opens a writer of the other profile for the samples of a writer. Returns false if there is
    /// no space, which was logged.
    fn pass(
        &self,
        common: &Arc<GatewayState>,
        rule: &Rule,
        endpoint: &Endpoint,
        remote_publisher: &RemotePublisher,
        node: Option<&RosNode>,
    ) -> bool {
        let (topic, profile) = (&endpoint.topic, self.profile.other());
        let offer = Offer {
            topic,
            crossing: &remote_publisher.crossing,
            qos: endpoint.qos,
            depth: across_depth(endpoint, rule),
            lifespan: None,
            apart: true,
            publisher: None,
            offered: None,
            weaker: None,
            node: ros_name_of(node, &endpoint.gid),
        };
        match common.writer(profile, offer) {
            Ok(ros_writer) => {
                let _ = remote_publisher.across.set(Across { ros_writer, longest: longest(rule) });
                true
            }
            Err(e) => {
                common.log(format!(
                    "topic '/{topic}' does not pass from {} to {profile}: {e}",
                    self.profile
                ));
                !matches!(e, OpenError::NoRoom)
            }
        }
    }

    /// Opens waiting writers of the other profile, oldest first, if there is space now.
    fn pass_again(&mut self, common: &Arc<GatewayState>) {
        for (handle, newcomer) in std::mem::take(&mut self.short) {
            let topic = &newcomer.endpoint.topic;
            let known =
                self.topics.get(topic).zip(common.spec.rule(topic, true)).and_then(|(t, rule)| {
                    let writers = lock(&t.shared.writers);
                    let Some(Known::Open(open)) = writers.known.get(&handle) else { return None };
                    Some((open.remote_publisher.clone(), rule))
                });
            let Some((remote_publisher, rule)) = known else { continue };
            if !common.writer_list().has_room()
                || !self.pass(
                    common,
                    rule,
                    &newcomer.endpoint,
                    &remote_publisher,
                    newcomer.node.as_ref(),
                )
            {
                self.short.push((handle, newcomer));
            }
        }
    }

    fn has_room_for(&self, topic: &TopicName) -> Result<(), Why> {
        if self.topics.contains_key(topic) || self.topics.len() < MAX_TOPICS {
            return Ok(());
        }
        let profile = self.profile;
        Err(Why::no_room(format!(
            "this gateway takes {MAX_TOPICS} topics from ROS 2 by {profile}, which is the maximum: \
             {FEWER}"
        )))
    }

    fn topic(
        &mut self,
        common: &Arc<GatewayState>,
        topic: &TopicName,
        rule: &Rule,
    ) -> Result<Arc<Shared>, Why> {
        if let Some(t) = self.topics.get(topic) {
            return Ok(t.shared.clone());
        }
        self.has_room_for(topic)?;
        let shared = Arc::new(Shared::new(
            topic,
            common.transport(self.profile)?.feed(rule)?,
            &self.sequence_memory,
        ));
        for (handle, refused) in self.refused.iter().filter(|(_, r)| r.topic == *topic) {
            shared.know(*handle, Known::Refused(refused.counted));
        }
        let (of_thread, common) = (shared.clone(), common.clone());
        let thread = std::thread::Builder::new()
            .name("dl-from-ros".into())
            .spawn(move || of_thread.run(&common));
        let thread = thread.map_err(|e| e.to_string())?;
        self.topics
            .insert(topic.clone(), IncomingTopic { shared: shared.clone(), thread: Some(thread) });
        Ok(shared)
    }

    /// Handles the end of a writer. Its remote publisher may exist for a while longer, and counts
    /// against the limits until then.
    pub(super) fn gone(&mut self, handle: Handle) {
        let refused = self.refused.remove(&handle).map(|r| r.topic);
        self.short.retain(|(short, _)| *short != handle);
        let taken = self.writers.remove(&handle);
        let Some(topic) = taken.or(refused) else { return };
        let draining = self.topics.get(&topic).and_then(|t| {
            t.shared.gone(handle, Draining::new(t.shared.feed.grace(), Instant::now()))
        });
        self.draining.extend(draining.map(|remote_publisher| (handle, (topic, remote_publisher))));
    }

    /// Drops topics without an open writer, except those on which a reader still asks a refused
    /// writer for more QoS ([`ask`](Self::ask)). Also drops topics whose threads cannot continue.
    pub(super) fn tidy(&mut self, common: &GatewayState) {
        let ended = self
            .topics
            .iter()
            .filter(|(_, t)| t.thread.as_ref().is_some_and(JoinHandle::is_finished));
        for topic in ended.map(|(topic, _)| topic.clone()).collect::<Vec<_>>() {
            self.give_up(common, &topic);
        }
        let asked: HashSet<_> =
            self.refused.values().filter(|r| r.why.kind == Kind::Asked).map(|r| &r.topic).collect();
        let open = |t: &IncomingTopic| {
            lock(&t.shared.writers).known.values().any(|k| matches!(k, Known::Open(_)))
        };
        let before = self.topics.len() + self.draining.len();
        self.topics.retain(|topic, t| asked.contains(topic) || open(t));
        self.draining.retain(|_, (_, remote_publisher)| remote_publisher.strong_count() > 0);
        self.freed |= self.topics.len() + self.draining.len() < before;
    }

    /// The thread of a topic has ended: its writers are refused. Later ones get another thread.
    fn give_up(&mut self, common: &GatewayState, topic: &TopicName) {
        let Some(t) = self.topics.remove(topic) else { return };
        let why = t.shared.ended.get().map_or(PANICKED, String::as_str);
        common.log(format!("topic '/{topic}' is not taken from ROS 2 any more: {why}"));
        for (handle, known) in lock(&t.shared.writers).known.drain() {
            if let Known::Open(Open { remote_publisher, .. }) = known
                && self.writers.remove(&handle).is_some()
            {
                let (node, topic, why) =
                    (remote_publisher.node.to_string(), topic.clone(), why.to_owned().into());
                self.short.retain(|(short, _)| *short != handle);
                self.freed = true;
                self.refuse(
                    common,
                    handle,
                    RefusedWriter { topic, counted: "refused", node, why, waits: None },
                );
            }
        }
    }

    /// Ids of all readers that the control thread announces, each with a node here that subscribes
    /// to its topic, or with the gateway if none does.
    pub(super) fn readers(&self) -> Vec<(RosNode, [u8; 16])> {
        let of = |shared: &Shared| {
            let (gids, mut nodes) = (shared.feed.gids(), shared.subscribers());
            if nodes.is_empty() {
                nodes.insert(RosNode::gateway());
            }
            nodes
                .into_iter()
                .flat_map(move |node| gids.clone().into_iter().map(move |gid| (node.clone(), gid)))
                .collect::<Vec<_>>()
        };
        self.topics.values().flat_map(|t| of(&t.shared)).collect()
    }

    pub(super) fn report(&self) -> Vec<Ros2TopicReport> {
        let of = |(topic, t): (&TopicName, &IncomingTopic)| {
            let publisher = |k: &Known| match k {
                Known::Open(Open { remote_publisher, .. }) => Some(Ros2Publisher {
                    node: remote_publisher.node.to_string(),
                    ros_type: remote_publisher.crossing.ros.to_string(),
                    converted: remote_publisher.crossing.kind.is_some(),
                    qos: remote_publisher.offered.to_string(),
                    profile: self.profile.to_string(),
                }),
                Known::Refused(_) => None,
            };
            let remark = |k: &Known| {
                if let Known::Open(Open { remote_publisher, .. }) = k {
                    remote_publisher.remark.clone()
                } else {
                    None
                }
            };
            let writers = lock(&t.shared.writers);
            let mut publishers: Vec<_> = writers.known.values().filter_map(publisher).collect();
            let mut remarks: Vec<_> = writers.known.values().filter_map(remark).collect();
            drop(writers);
            publishers.sort();
            remarks.sort();
            let (carried, dropped) = t.shared.counters.figures();
            let (across, replaced) = (t.shared.counters.across(), t.shared.counters.replaced());
            Ros2TopicReport {
                topic: topic.to_string(),
                publishers,
                readers: Vec::new(),
                remarks,
                carried,
                across,
                replaced,
                dropped,
            }
        };
        self.topics.iter().map(of).collect()
    }

    /// ROS 2 publishers that exist and are not read.
    pub(super) fn refusals(&self) -> impl Iterator<Item = Refusal> {
        let of = |r: &RefusedWriter| Refusal {
            topic: r.topic.to_string(),
            host: r.node.clone(),
            outgoing: false,
            subscription: false,
            reason: r.why.text.clone(),
            again_ms: None,
        };
        self.refused.values().map(of)
    }
}

/// Number of samples of a writer that its remote publisher keeps for slow and late readers: as many
/// as the writer does, if that is known and takes little memory.
fn late(endpoint: &Endpoint, class: ReaderClass, rule: &Rule) -> u32 {
    let kept = if class.durability == Durability::TransientLocal {
        endpoint.depth.unwrap_or(MOST_LATE).clamp(1, MOST_LATE)
    } else {
        let room = (INLET_BYTES / rule.max_payload_bytes().max(1)).clamp(1, MOST_LATE.into());
        endpoint.depth.unwrap_or(1).clamp(1, room as u32)
    };
    rule.qos.depth.unwrap_or(kept)
}

/// Number of samples that a writer of the other profile keeps of the samples of one writer.
fn across_depth(endpoint: &Endpoint, rule: &Rule) -> u32 {
    let most = (ACROSS_BYTES / rule.max_payload_bytes().max(1))
        .clamp(MOST_LATE.into(), Qos::MAX_DEPTH.into());
    rule.qos.depth.unwrap_or_else(|| endpoint.depth.unwrap_or(MOST_LATE).clamp(1, most as u32))
}

/// Remark on a writer over DDS whose definition differs from the known one.
fn remark(endpoint: &Endpoint, remote_publisher: &RemotePublisher) -> Option<String> {
    let differ = definitions_differ(endpoint.announced, remote_publisher.crossing.hash)?;
    let (node, ros_type) = (&remote_publisher.node, &remote_publisher.crossing.ros);
    let remedy =
        if remote_publisher.crossing.kind.is_some() { " and carry it `as: cdr`" } else { "" };
    Some(format!(
        "node '{node}' publishes {ros_type} by another definition than the known one: {differ}; \
         name its packages under `types`{remedy}"
    ))
}

/// Remark on a writer that keeps more for late joiners than its remote publisher does.
fn keeps_less(
    endpoint: &Endpoint,
    remote_publisher: &RemotePublisher,
    late: u32,
) -> Option<String> {
    let all = endpoint.depth.filter(|depth| {
        *depth > late && remote_publisher.class.durability == Durability::TransientLocal
    })?;
    let all = if all == u32::MAX { "all samples".to_owned() } else { format!("{all} samples") };
    Some(format!(
        "node '{}' keeps {all} for late joiners, and the gateway {late} of them for those here; \
         give the rule `qos: {{depth: …}}`, at most {}",
        remote_publisher.node,
        Qos::MAX_DEPTH
    ))
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
