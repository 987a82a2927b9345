// SPDX-License-Identifier: Apache-2.0
//! Topics that come from ROS 2 by one profile: one thread for each, which takes samples, publishes them here, and passes them on to the other profile.

use super::conductor::Common;
use super::counters::Counters;
use super::departed::Departed;
use super::endpoint::{Endpoint, Handle, Profile};
use super::feed::{Came, Feed, longest};
use super::inlet::{Across, Inlet, MOST_LATE, Numbers};
use super::leaving::Leaving;
use super::outlet::{Offer, Outlet};
use super::{PANICKED, lock};
use crate::names::{RosNode, inlet_node, ros_name_of};
use crate::qos::{ReaderClass, of_writer};
use crate::rmw_zenoh::NO_HASH;
use crate::types::Crossing;
use driveline_runtime::gateway::{Refusal, Ros2Publisher, Ros2TopicReport};
use driveline_runtime::ros2::Rule;
use driveline_types::{Durability, TopicName};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MAX_TOPICS: usize = 256;
const MAX_INLETS: usize = 512;
const MAX_INLETS_OF_TOPIC: usize = 64;
const MAX_REFUSED: usize = 16_384;
/// How long a sample waits for the conductor to know its writer …
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// … and that again only after so many times as long: over Zenoh anybody may send what no publisher has announced.
const PAUSES: u32 = 30;
/// How long a sample that passes to DDS waits for reliable readers: as long as one that passes to Zenoh waits for links.
const ACROSS_WITHIN: Duration = Duration::from_secs(2);
/// Nobody needs to look more often than that if nothing comes.
const LOOK: Duration = Duration::from_secs(1);

enum Known {
    Open(Open),
    /// Not carried; counted under this.
    Refused(&'static str),
}

/// A writer that is taken from.
struct Open {
    /// The topic's thread has it too while it publishes, and may wait for readers then: nobody else does.
    inlet: Arc<Inlet>,
    numbers: Numbers,
    /// The writer is gone; its inlet ends when everything was taken.
    gone: bool,
}

impl Known {
    fn of(inlet: Inlet) -> Self {
        Self::Open(Open { inlet: Arc::new(inlet), numbers: Numbers::default(), gone: false })
    }
}

/// How long samples of unknown writers, all together, may still hold up a topic's thread.
struct Patience {
    left: Duration,
    since: Instant,
}

impl Patience {
    fn new(now: Instant) -> Self {
        Self { left: KNOWN_WITHIN, since: now }
    }

    fn left(&mut self, now: Instant) -> Duration {
        self.left = (self.left + now.saturating_duration_since(self.since) / PAUSES).min(KNOWN_WITHIN);
        self.since = now;
        self.left
    }

    /// Somebody has waited until `now`, since it was asked last.
    fn spent(&mut self, now: Instant) {
        self.left = self.left.saturating_sub(now.saturating_duration_since(self.since));
        self.since = now;
    }
}

/// What the thread of a topic and the conductor share.
struct Shared {
    topic: TopicName,
    feed: Feed,
    stop: AtomicBool,
    writers: Mutex<HashMap<Handle, Known>>,
    more: Condvar,
    counters: Counters,
    departed: Arc<Mutex<Departed>>,
    /// Why the thread has ended by itself.
    ended: OnceLock<String>,
}

struct IncomingTopic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IncomingTopic {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.feed.wake();
        // With the lock: it is either before its look at `stop`, or waits already.
        let waiting = lock(&self.shared.writers);
        self.shared.more.notify_all();
        drop(waiting);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All topics from ROS 2 that come by one profile.
pub(super) struct Incoming {
    profile: Profile,
    topics: BTreeMap<TopicName, IncomingTopic>,
    /// Topics of writers that have an inlet.
    writers: HashMap<Handle, TopicName>,
    /// Writers that have none; there may be no topic yet.
    refused: HashMap<Handle, RefusedWriter>,
    /// Writers that are gone, and may come back.
    departed: Arc<Mutex<Departed>>,
}

/// A writer that is not taken from.
struct RefusedWriter {
    topic: TopicName,
    /// Its samples are counted under this.
    counted: &'static str,
    node: String,
    why: Why,
}

/// Why a writer is not taken from.
struct Why {
    /// For people.
    text: String,
    /// It offers less than the rule asks for, and there is a reader that asks for it: so DDS tells the writer's node.
    asked: bool,
}

impl From<String> for Why {
    fn from(text: String) -> Self {
        Self { text, asked: false }
    }
}

impl Incoming {
    pub(super) fn new(profile: Profile) -> Self {
        Self { profile, topics: BTreeMap::new(), writers: HashMap::new(), refused: HashMap::new(), departed: Arc::default() }
    }

    /// A writer was discovered on a topic that `rule` carries. `node`: whose it is, if that is known.
    pub(super) fn writer(&mut self, common: &Arc<Common>, rule: &Rule, endpoint: &Endpoint, node: Option<&RosNode>) {
        if self.writers.contains_key(&endpoint.handle) || self.refused.contains_key(&endpoint.handle) {
            return;
        }
        let name = node.map(RosNode::to_string).unwrap_or_default();
        let refused = |counted, why| RefusedWriter { topic: endpoint.topic.clone(), counted, node: name.clone(), why };
        if endpoint.gateway {
            let why = "another gateway of Driveline writes it: it would go in circles".to_owned();
            self.refuse(common, endpoint.handle, refused("gateway", why.into()));
        } else if let Err(why) = self.try_writer(common, rule, endpoint, node) {
            common.tell(format!("topic '/{}' is not taken from ROS 2: {}", endpoint.topic, why.text));
            self.refuse(common, endpoint.handle, refused("refused", why));
        }
    }

    fn refuse(&mut self, common: &Common, handle: Handle, refused: RefusedWriter) {
        if self.refused.len() >= MAX_REFUSED {
            common.tell("more publishers in ROS 2 than are looked at".into());
            return;
        }
        if let Some(t) = self.topics.get(&refused.topic) {
            t.shared.know(handle, Known::Refused(refused.counted));
        }
        self.refused.insert(handle, refused);
    }

    fn try_writer(&mut self, common: &Arc<Common>, rule: &Rule, endpoint: &Endpoint, node: Option<&RosNode>) -> Result<(), Why> {
        let topic = &endpoint.topic;
        let of_topic = self.writers.values().filter(|t| *t == topic).count();
        if self.writers.len() >= MAX_INLETS || of_topic >= MAX_INLETS_OF_TOPIC {
            return Err("there are too many publishers".to_owned().into());
        }
        let crossing = common.types.from_ros(&endpoint.type_name, rule.form).map_err(|e| e.to_string())?;
        agree(endpoint, &crossing)?;
        let class = ReaderClass::of_writer(&endpoint.qos, &rule.qos);
        let lacks = class.lacks(&endpoint.qos);
        if !lacks.is_empty() {
            let text = lacks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            return Err(self.ask(common, rule, endpoint, class, &crossing, text));
        }
        let kept = if class.durability == Durability::TransientLocal { endpoint.depth.unwrap_or(MOST_LATE).clamp(1, MOST_LATE) } else { 1 };
        let late = rule.qos.depth.unwrap_or(kept);
        let name = inlet_node(node, &endpoint.gid, &common.node);
        let what = (endpoint.qos, class, of_writer(&endpoint.qos, class, late));
        let mut inlet = Inlet::open(&common.participant, topic, name, crossing, what, rule).map_err(|e| e.to_string())?;
        let longest = longest(rule);
        let outlet = self.across(common, endpoint, &inlet.crossing, late, node);
        inlet.across = outlet.map(|outlet| Across { outlet, longest });
        let shared = self.topic(common, topic, rule)?;
        let crossing = inlet.crossing.clone();
        self.writers.insert(endpoint.handle, topic.clone());
        shared.know(endpoint.handle, Known::of(inlet));
        Ok(shared.feed.read(common, endpoint, class, &crossing, rule)?)
    }

    /// Asks for what a writer does not offer, by `class`, so that its node is told by DDS; `text` says what that is. By keys alone, rmw_zenoh would have it read.
    fn ask(&mut self, common: &Arc<Common>, rule: &Rule, of: &Endpoint, class: ReaderClass, crossing: &Crossing, text: String) -> Why {
        if self.profile == Profile::Zenoh {
            return text.into();
        }
        let asked = self.topic(common, &of.topic, rule).and_then(|shared| shared.feed.read(common, of, class, crossing, rule));
        match asked {
            Ok(()) => Why { text, asked: true },
            Err(e) => format!("{text}; DDS does not tell its node: {e}").into(),
        }
    }

    /// Where samples of a writer go by the other profile: if there is one, and rules carry the topic in both directions.
    fn across(&self, common: &Arc<Common>, endpoint: &Endpoint, crossing: &Crossing, depth: u32, node: Option<&RosNode>) -> Option<Outlet> {
        let topic = &endpoint.topic;
        let profile = self.profile.other();
        common.spec.rule(topic, false).filter(|_| common.has(profile))?;
        let offer = Offer {
            topic,
            crossing,
            qos: endpoint.qos,
            depth,
            max_blocking: ACROSS_WITHIN,
            lifespan: None,
            publisher: None,
            node: ros_name_of(node, &endpoint.gid),
        };
        let refused = |reason| common.tell(format!("topic '/{topic}' does not pass from {} to {profile}: {reason}", self.profile));
        Outlet::open(common, profile, offer).map_err(refused).ok()
    }

    fn topic(&mut self, common: &Arc<Common>, topic: &TopicName, rule: &Rule) -> Result<Arc<Shared>, String> {
        if let Some(t) = self.topics.get(topic) {
            return Ok(t.shared.clone());
        }
        if self.topics.len() >= MAX_TOPICS {
            return Err(format!("there are {MAX_TOPICS} topics already"));
        }
        let shared = Arc::new(Shared::new(topic, Feed::new(common, self.profile, rule)?, &self.departed));
        for (handle, refused) in self.refused.iter().filter(|(_, r)| r.topic == *topic) {
            shared.know(*handle, Known::Refused(refused.counted));
        }
        let (of_thread, profile, common) = (shared.clone(), self.profile, common.clone());
        let thread = std::thread::Builder::new().name("dl-from-ros".into()).spawn(move || of_thread.run(&common, profile));
        let thread = thread.map_err(|e| e.to_string())?;
        self.topics.insert(topic.clone(), IncomingTopic { shared: shared.clone(), thread: Some(thread) });
        Ok(shared)
    }

    /// A writer has gone, if it was one of these.
    pub(super) fn gone(&mut self, handle: Handle) {
        let refused = self.refused.remove(&handle).map(|r| r.topic);
        let Some(topic) = self.writers.remove(&handle).or(refused) else { return };
        if let Some(t) = self.topics.get(&topic) {
            let mut writers = lock(&t.shared.writers);
            match writers.get_mut(&handle) {
                // The thread lets go of it when it has taken everything.
                Some(Known::Open(open)) => open.gone = true,
                _ => drop(writers.remove(&handle)),
            }
            drop(writers);
            t.shared.feed.wake();
        }
    }

    /// Lets go of topics that nobody publishes any more, or as it is asked for, and of those whose threads cannot go on.
    pub(super) fn tidy(&mut self, common: &Common) {
        let ended = self.topics.iter().filter(|(_, t)| t.thread.as_ref().is_some_and(JoinHandle::is_finished));
        for topic in ended.map(|(topic, _)| topic.clone()).collect::<Vec<_>>() {
            self.give_up(common, &topic);
        }
        let asked: HashSet<_> = self.refused.values().filter(|r| r.why.asked).map(|r| &r.topic).collect();
        let open = |t: &IncomingTopic| lock(&t.shared.writers).values().any(|k| matches!(k, Known::Open(_)));
        self.topics.retain(|topic, t| asked.contains(topic) || open(t));
    }

    /// The thread of a topic has ended: its writers are refused. Those that come later get another one.
    fn give_up(&mut self, common: &Common, topic: &TopicName) {
        let Some(t) = self.topics.remove(topic) else { return };
        let why = t.shared.ended.get().map_or(PANICKED, String::as_str);
        common.tell(format!("topic '/{topic}' is not taken from ROS 2 any more: {why}"));
        for (handle, known) in lock(&t.shared.writers).drain() {
            if let Known::Open(Open { inlet, .. }) = known
                && self.writers.remove(&handle).is_some()
            {
                let node = inlet.node.to_string();
                self.refuse(common, handle, RefusedWriter { topic: topic.clone(), counted: "refused", node, why: why.to_owned().into() });
            }
        }
    }

    /// Ids of all readers in DDS.
    pub(super) fn dds_readers(&self) -> Vec<[u8; 16]> {
        self.topics.values().flat_map(|t| t.shared.feed.dds_readers()).collect()
    }

    pub(super) fn report(&self) -> Vec<Ros2TopicReport> {
        let of = |(topic, t): (&TopicName, &IncomingTopic)| {
            let publisher = |k: &Known| match k {
                Known::Open(Open { inlet, .. }) => Some(Ros2Publisher {
                    node: inlet.node.to_string(),
                    ros_type: inlet.crossing.ros.to_string(),
                    converted: inlet.crossing.kind.is_some(),
                    qos: inlet.offered.to_string(),
                    profile: self.profile.to_string(),
                }),
                Known::Refused(_) => None,
            };
            let mut publishers: Vec<_> = lock(&t.shared.writers).values().filter_map(publisher).collect();
            publishers.sort();
            let (carried, dropped) = t.shared.counters.figures();
            let across = t.shared.counters.across();
            Ros2TopicReport { topic: topic.to_string(), publishers, readers: Vec::new(), carried, across, dropped }
        };
        self.topics.iter().map(of).collect()
    }

    /// Publishers of ROS 2 that are there and not taken from.
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

/// Whether a writer's type is the one of which the definition is at hand.
fn agree(endpoint: &Endpoint, crossing: &Crossing) -> Result<(), String> {
    let Some(ours) = crossing.hash.filter(|_| endpoint.profile == Profile::Zenoh && endpoint.hash != NO_HASH) else { return Ok(()) };
    if endpoint.hash == ours.to_string() {
        return Ok(());
    }
    Err(format!(
        "its type {} has the hash {}, and the definition at hand {ours}: they are of different releases; name the publisher's packages under `types` and, if the type is converted, carry it `as: cdr`",
        crossing.ros, endpoint.hash
    ))
}

impl Shared {
    fn new(topic: &TopicName, feed: Feed, departed: &Arc<Mutex<Departed>>) -> Self {
        let (topic, departed) = (topic.clone(), departed.clone());
        let (stop, writers, more, counters) = (AtomicBool::new(false), Mutex::default(), Condvar::new(), Counters::default());
        Self { topic, feed, stop, writers, more, counters, departed, ended: OnceLock::new() }
    }

    fn know(&self, handle: Handle, mut known: Known) {
        let mut writers = lock(&self.writers);
        self.let_go(handle, writers.get(&handle));
        if let Known::Open(open) = &mut known {
            open.numbers = Numbers::after(lock(&self.departed).take(handle));
        }
        let before = writers.insert(handle, known);
        drop(writers);
        self.more.notify_all();
        // Outside of the lock: what is written to the other profile may take a while to end.
        drop(before);
    }

    /// Keeps in mind how far a writer has come whose inlet ends.
    fn let_go(&self, handle: Handle, known: Option<&Known>) {
        if let Some(Known::Open(open)) = known
            && let Some(last) = open.numbers.furthest()
        {
            lock(&self.departed).remember(handle, last);
        }
    }

    /// Lets go of inlets whose writers have gone, as soon as everything of them was taken.
    fn part(&self, leaving: &mut Leaving, is_empty: bool) {
        let mut writers = lock(&self.writers);
        let gone = writers.iter().filter(|(_, known)| matches!(known, Known::Open(open) if open.gone)).map(|(handle, _)| *handle);
        let mut ended = Vec::new();
        for handle in leaving.part(gone.collect(), is_empty) {
            let known = writers.remove(&handle);
            self.let_go(handle, known.as_ref());
            ended.extend(known);
        }
        drop(writers);
        // Outside of the lock, as above.
        drop(ended);
    }

    fn run(&self, common: &Common, profile: Profile) {
        let mut patience = Patience::new(Instant::now());
        let mut leaving = Leaving::default();
        while !self.stop.load(Ordering::Acquire) {
            let taken = self.feed.take(|came| self.sample(common, profile, came, &mut patience));
            self.feed.losses().into_iter().for_each(|(reason, count)| self.counters.set(reason, count));
            let waited = match taken {
                Ok(true) => {
                    if leaving.took() {
                        self.part(&mut leaving, false);
                    }
                    continue;
                }
                Ok(false) => {
                    self.part(&mut leaving, true);
                    self.feed.wait(LOOK)
                }
                Err(e) => {
                    common.tell(format!("topic '/{}': {e}", self.topic));
                    self.feed.wait(LOOK)
                }
            };
            if let Err(e) = waited {
                let _ = self.ended.set(e);
                return common.wake();
            }
        }
    }

    fn sample(&self, common: &Common, profile: Profile, sample: &Came<'_>, patience: &mut Patience) {
        let mut writers = lock(&self.writers);
        if !writers.contains_key(&sample.writer) {
            // It was matched before the conductor has heard of it.
            common.wake();
            let longest = patience.left(Instant::now());
            let unknown = |w: &mut HashMap<Handle, Known>| !w.contains_key(&sample.writer) && !self.stop.load(Ordering::Acquire);
            writers = self.more.wait_timeout_while(writers, longest, unknown).unwrap_or_else(PoisonError::into_inner).0;
            patience.spent(Instant::now());
        }
        let dropped = |reason, text: &str, node: &str| {
            if self.counters.dropped(reason) {
                common.tell(format!("topic '/{}': a sample of node '{node}' is dropped ({reason}): {text}", self.topic));
            }
        };
        let reason = match writers.get_mut(&sample.writer) {
            Some(Known::Open(open)) if open.inlet.class != sample.class => "other_class",
            Some(Known::Open(open)) => match open.numbers.gap(sample.number) {
                None => "duplicate",
                Some(gap) => {
                    let (inlet, gaps) = (open.inlet.clone(), open.numbers.gaps());
                    // Others may look at the topic while this waits for readers, here and then by the other profile.
                    drop(writers);
                    self.counters.add("lost", gap);
                    match inlet.take(sample, gaps, common.outside(profile)) {
                        Ok(()) => self.counters.carried(),
                        Err(e) => {
                            dropped(e.reason, &e.text, inlet.node.as_str());
                            if e.broken {
                                return;
                            }
                        }
                    }
                    match inlet.across.as_ref().and_then(|across| across.pass_on(sample)) {
                        None => {}
                        Some(Ok(())) => self.counters.passed_on(),
                        Some(Err(text)) => dropped("not_passed_on", &text, inlet.node.as_str()),
                    }
                    return;
                }
            },
            Some(Known::Refused(reason)) => reason,
            None => {
                // The next one does not wait; if the conductor comes to know of the writer, it says so.
                if writers.len() < MAX_REFUSED {
                    writers.insert(sample.writer, Known::Refused("unknown"));
                }
                "unknown"
            }
        };
        if let Some(number) = sample.number {
            // It is counted here: it is not missing as well if its writer comes back.
            lock(&self.departed).heard(sample.writer, number);
        }
        self.counters.dropped(reason);
    }
}

#[cfg(test)]
#[path = "incoming_tests.rs"]
mod tests;
