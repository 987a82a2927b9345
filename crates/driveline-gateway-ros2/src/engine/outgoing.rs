// SPDX-License-Identifier: Apache-2.0
//! Topics that go to ROS 2: one thread for each, which takes samples of local publishers and writes them to DDS.

use super::conductor::{Common, Writing};
use super::counters::Counters;
use super::error::GatewayError;
use super::lock;
use super::session::HEAD_BYTES;
use crate::convert::ToRos;
use crate::dds::{EndpointConfig, Entity, History, Writer};
use crate::qos::of_publisher;
use crate::said::endpoint_user_data;
use crate::types::Crossing;
use driveline_runtime::gateway::{Refusal, Ros2Publisher, Ros2TopicReport};
use driveline_runtime::graph::model::Access as Spec;
use driveline_runtime::ros2::{LocalTopic, Rule};
use driveline_shm::{
    Access, Kicker, OwnProcess, Sample, SchemaRequest, Subscription, SubscriptionConfig, SubscriptionEvent, WaitBackend, WaitSet,
};
use driveline_types::{Durability, EndpointId, Qos, Reliability};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const MAX_WRITERS: usize = 512;
/// Samples that a reliable writer keeps for readers that have not acknowledged them; a writer beyond it waits.
const UNACKNOWLEDGED: u32 = 64;
/// How long a sample waits for the news of its publisher, and how often it is asked for: it takes microseconds, or a stalled machine's while.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_micros(200);

/// A topic towards ROS 2.
pub(super) struct OutgoingTopic {
    topic: String,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
    kicker: Kicker,
    thread: Option<JoinHandle<()>>,
}

impl Drop for OutgoingTopic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.kicker.kick();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl OutgoingTopic {
    pub(super) fn start(common: &Arc<Common>, local: &LocalTopic, dds_name: String, rule: &Rule) -> Result<Self, GatewayError> {
        let mut config = SubscriptionConfig::new(local.topic.clone(), common.node.clone(), SchemaRequest::Any);
        config.qos = Qos {
            depth: local.qos.depth,
            reliability: local.qos.reliability.min(rule.qos.reliability.unwrap_or(Reliability::Reliable)),
            durability: local.qos.durability.min(rule.qos.durability.unwrap_or(Durability::TransientLocal)),
            lifespan_ms: local.qos.lifespan_ms,
            ..Qos::default()
        };
        config.max_held = 1;
        config.own_process = OwnProcess::Exclude;
        config.access = match &local.access {
            Spec::OwnUser => Access::OwnUser,
            Spec::Anyone => Access::Anyone,
            Spec::Users(users) => Access::Users(users.clone()),
        };
        let read = |source| GatewayError::Read { topic: local.topic.to_string(), source };
        let subscription = common.participant.create_subscription(config).map_err(read)?;
        let mut set = WaitSet::new(WaitBackend::Auto)?;
        set.attach(&subscription)?;
        let (counters, stop, kicker) = (Arc::<Counters>::default(), Arc::<AtomicBool>::default(), set.kicker());
        let max_len = usize::try_from(local.max_payload + HEAD_BYTES).unwrap_or(usize::MAX);
        let (common, rule) = (common.clone(), rule.clone());
        let sender = Sender {
            common,
            dds_name,
            max_len,
            rule,
            subscription,
            set,
            publishers: HashMap::new(),
            counters: counters.clone(),
            stop: stop.clone(),
        };
        let thread = std::thread::Builder::new().name("dl-to-ros".into()).spawn(move || sender.run());
        let thread = thread.map_err(|source| GatewayError::System { action: "start a thread", source })?;
        Ok(Self { topic: local.topic.to_string(), counters, stop, kicker, thread: Some(thread) })
    }

    pub(super) fn report(&self, writings: &[Writing]) -> Ros2TopicReport {
        let mine = writings.iter().filter(|w| w.topic == self.topic);
        let publisher = |w: &Writing| Ros2Publisher {
            node: w.node.to_string(),
            ros_type: w.ros_type.clone(),
            converted: w.converted,
            qos: w.qos.to_string(),
        };
        let mut publishers: Vec<_> = mine.map(publisher).collect();
        publishers.sort();
        let (carried, dropped) = self.counters.figures();
        Ros2TopicReport { topic: self.topic.clone(), publishers, readers: Vec::new(), carried, dropped }
    }
}

/// Where samples of a publisher go. The writer ends before its topic.
struct Carried {
    writer: Writer,
    _topic: Entity,
    crossing: Crossing,
}

/// A publisher that was heard of.
struct Known {
    /// `None`: it is not carried.
    carried: Option<Carried>,
    gone: bool,
}

struct Sender {
    common: Arc<Common>,
    dds_name: String,
    max_len: usize,
    rule: Rule,
    subscription: Subscription,
    set: WaitSet,
    publishers: HashMap<EndpointId, Known>,
    counters: Arc<Counters>,
    stop: Arc<AtomicBool>,
}

impl Sender {
    fn run(mut self) {
        while !self.stop.load(Ordering::Acquire) {
            self.events();
            match self.subscription.take_next() {
                Ok(Some(sample)) => self.carry(&sample),
                Ok(None) => {
                    self.forget();
                    self.set.wait(None, Duration::ZERO);
                }
                // The publisher has overtaken the attempt, which it counts.
                Err(_) => {}
            }
            let stats = self.subscription.stats();
            self.counters.set("superseded", stats.missed);
            self.counters.set("expired", stats.expired);
        }
    }

    fn tell(&self, text: &str) {
        self.common.tell(format!("topic '/{}' does not go to ROS 2: {text}", self.dds_name.trim_start_matches("rt/")));
    }

    /// Somebody on this host publishes what cannot go there.
    fn refuse(&self, publisher: EndpointId, node: &str, reason: String) {
        self.tell(&reason);
        let topic = self.subscription_topic();
        let refusal = Refusal { topic, host: node.to_owned(), outgoing: true, subscription: false, reason, again_ms: None };
        lock(&self.common.refusals).insert(publisher, refusal);
    }

    fn events(&mut self) {
        while let Some(event) = self.subscription.poll_event() {
            match event {
                SubscriptionEvent::Matched { publisher, node, schema, qos, .. } => {
                    let opened =
                        self.common.types.to_ros(&schema).map_err(|e| e.to_string()).and_then(|c| self.open(publisher, &node, c, &qos));
                    let carried = opened.map_err(|reason| self.refuse(publisher, &node, reason)).ok();
                    self.publishers.insert(publisher, Known { carried, gone: false });
                }
                SubscriptionEvent::Unmatched { publisher, .. } => {
                    if let Some(known) = self.publishers.get_mut(&publisher) {
                        known.gone = true;
                    }
                }
                SubscriptionEvent::Refused { text, .. } => self.tell(&text),
                SubscriptionEvent::Dropped { count } => self.tell(&format!("{count} changes were not noticed; restart the gateway")),
                _ => {}
            }
        }
    }

    fn open(&self, publisher: EndpointId, node: &str, crossing: Crossing, qos: &Qos) -> Result<Carried, String> {
        let node = node.parse().map_err(|e| format!("{e}"))?;
        let text = |e: crate::dds::DdsError| e.to_string();
        let dds = &self.common.dds;
        if lock(&self.common.writings).len() >= MAX_WRITERS {
            return Err(format!("there are {MAX_WRITERS} publishers already"));
        }
        let offered = of_publisher(qos, &self.rule.qos);
        let late = self.rule.qos.depth.unwrap_or(qos.depth);
        let config = EndpointConfig {
            qos: offered,
            // Where nothing shall be lost, a writer waits instead of forgetting what is not acknowledged.
            history: match offered.reliability {
                Reliability::Reliable => History::KeepAll { limit: UNACKNOWLEDGED.max(late), late },
                Reliability::BestEffort => History::KeepLast(late),
            },
            max_blocking: Duration::from_millis(qos.max_blocking_ms.into()),
            lifespan: qos.lifespan_ms.map(|ms| Duration::from_millis(ms.into())),
            user_data: &endpoint_user_data(crossing.hash, self.common.spec.release),
        };
        let topic = dds.topic(&self.dds_name, &crossing.ros.dds()).map_err(text)?;
        let writer = dds.writer(&topic, &config).map_err(text)?;
        let writing = Writing {
            publisher,
            gid: writer.entity.gid().map_err(text)?,
            topic: self.subscription_topic(),
            dds_name: self.dds_name.clone(),
            dds_type: crossing.ros.dds(),
            ros_type: crossing.ros.to_string(),
            converted: crossing.kind.is_some(),
            node,
            qos: offered,
        };
        lock(&self.common.writings).push(writing);
        self.common.wake();
        Ok(Carried { writer, _topic: topic, crossing })
    }

    fn subscription_topic(&self) -> String {
        self.dds_name.trim_start_matches("rt/").to_owned()
    }

    /// Ends writers of publishers that are gone, once there is nothing left of them.
    fn forget(&mut self) {
        let before = self.publishers.len();
        let (writings, refusals) = (&self.common.writings, &self.common.refusals);
        self.publishers.retain(|publisher, known| {
            if known.gone {
                lock(writings).retain(|w| w.publisher != *publisher);
                lock(refusals).remove(publisher);
            }
            !known.gone
        });
        if self.publishers.len() != before {
            self.common.wake();
        }
    }

    /// Hears of a publisher whose sample is here already: the news of it comes a moment after the first samples can be taken.
    fn meet(&mut self, publisher: EndpointId) {
        let end = Instant::now() + KNOWN_WITHIN;
        loop {
            self.events();
            if self.publishers.contains_key(&publisher) || self.stop.load(Ordering::Acquire) {
                return;
            }
            if Instant::now() > end {
                // Its next sample does not wait.
                self.publishers.insert(publisher, Known { carried: None, gone: false });
                return;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    fn carry(&mut self, sample: &Sample) {
        let header = sample.header();
        if header.remote.is_some() {
            self.counters.dropped("remote");
            return;
        }
        if !self.publishers.contains_key(&sample.publisher()) {
            self.meet(sample.publisher());
        }
        let Some(carried) = self.publishers.get(&sample.publisher()).and_then(|known| known.carried.as_ref()) else {
            self.counters.dropped("refused");
            return;
        };
        let converted = match carried.crossing.kind {
            Some(kind) => ToRos::new(kind, sample.payload(), header.wall_offset_ns, self.max_len),
            None => ToRos::of_cdr(sample.payload(), self.max_len),
        };
        let converted = match converted {
            Ok(converted) => converted,
            Err(e) => {
                if self.counters.dropped(e.name()) {
                    self.tell(&format!("a sample is dropped ({}): {e}", e.name()));
                }
                return;
            }
        };
        match carried.writer.write(&converted.parts()) {
            Ok(()) => self.counters.carried(),
            Err(e) => {
                if self.counters.dropped("not_written") {
                    self.tell(&format!("a sample is dropped (not_written): {e}"));
                }
            }
        }
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        let publishers = &self.publishers;
        lock(&self.common.writings).retain(|w| !publishers.contains_key(&w.publisher));
        lock(&self.common.refusals).retain(|publisher, _| !publishers.contains_key(publisher));
    }
}
