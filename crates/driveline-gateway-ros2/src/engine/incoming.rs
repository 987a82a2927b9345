// SPDX-License-Identifier: Apache-2.0
//! Topics that come from ROS 2: one thread for each, which takes samples from DDS and publishes them here.

use super::conductor::Common;
use super::counters::Counters;
use super::inlet::Inlet;
use super::lock;
use crate::dds::{DdsError, Endpoint, EndpointConfig, Entity, History, Reader, Taken, Waiting};
use crate::names::{dds_topic, inlet_node};
use crate::qos::ReaderClass;
use crate::said::{endpoint_user_data, is_gateway};
use driveline_runtime::gateway::{Refusal, Ros2Publisher, Ros2TopicReport};
use driveline_runtime::ros2::Rule;
use driveline_types::TopicName;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

const MAX_TOPICS: usize = 256;
const MAX_INLETS: usize = 512;
const MAX_INLETS_OF_TOPIC: usize = 64;
const MAX_REFUSED: usize = 16_384;
/// What readers of a topic may keep, in bytes and in samples.
const KEPT_BYTES: u64 = 128 << 20;
const KEPT: std::ops::RangeInclusive<u64> = 16..=4096;
/// How long a sample waits for the conductor to know its writer.
const KNOWN_WITHIN: Duration = Duration::from_secs(2);
/// Nobody needs to look more often than that if nothing comes.
const LOOK: Duration = Duration::from_secs(1);

enum Known {
    Open(Box<Inlet>),
    /// Not carried; counted under this.
    Refused(&'static str),
}

/// Readers of a topic, by what they ask for and by type.
type Readers = BTreeMap<(ReaderClass, String), Arc<ClassReader>>;

struct ClassReader {
    class: ReaderClass,
    reader: Reader,
    _topic: Entity,
}

/// What the thread of a topic and the conductor share.
struct Shared {
    topic: TopicName,
    waiting: Waiting,
    stop: AtomicBool,
    readers: Mutex<Readers>,
    writers: Mutex<HashMap<u64, Known>>,
    more: Condvar,
    counters: Counters,
}

struct IncomingTopic {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for IncomingTopic {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.waiting.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// All topics from ROS 2.
#[derive(Default)]
pub(super) struct Incoming {
    topics: BTreeMap<TopicName, IncomingTopic>,
    /// Topics of writers that have an inlet.
    writers: HashMap<u64, TopicName>,
    /// Writers that have none; there may be no topic yet.
    refused: HashMap<u64, RefusedWriter>,
}

/// A writer that is not taken from.
struct RefusedWriter {
    topic: TopicName,
    /// Its samples are counted under this.
    counted: &'static str,
    node: String,
    /// For people.
    why: String,
}

impl Incoming {
    /// A writer was discovered on a topic that `rule` carries. `true`: there is a new reader to tell of.
    pub(super) fn writer(
        &mut self,
        common: &Arc<Common>,
        topic: &TopicName,
        rule: &Rule,
        endpoint: &Endpoint,
        node: Option<(&str, &str)>,
    ) -> bool {
        if self.writers.contains_key(&endpoint.handle) || self.refused.contains_key(&endpoint.handle) {
            return false;
        }
        let name = node.map(|(namespace, name)| format!("{}/{name}", namespace.trim_end_matches('/'))).unwrap_or_default();
        let refused = |counted, why| RefusedWriter { topic: topic.clone(), counted, node: name.clone(), why };
        if is_gateway(&endpoint.user_data) {
            self.refuse(
                common,
                endpoint.handle,
                refused("gateway", "another gateway of Driveline writes it: it would go in circles".into()),
            );
            return false;
        }
        match self.try_writer(common, topic, rule, endpoint, node) {
            Ok(new_reader) => new_reader,
            Err(reason) => {
                common.tell(format!("topic '/{topic}' is not taken from ROS 2: {reason}"));
                self.refuse(common, endpoint.handle, refused("refused", reason));
                false
            }
        }
    }

    fn refuse(&mut self, common: &Common, handle: u64, refused: RefusedWriter) {
        if self.refused.len() >= MAX_REFUSED {
            common.tell("more publishers in ROS 2 than are looked at".into());
            return;
        }
        if let Some(t) = self.topics.get(&refused.topic) {
            t.shared.know(handle, Known::Refused(refused.counted));
        }
        self.refused.insert(handle, refused);
    }

    fn try_writer(
        &mut self,
        common: &Arc<Common>,
        topic: &TopicName,
        rule: &Rule,
        endpoint: &Endpoint,
        node: Option<(&str, &str)>,
    ) -> Result<bool, String> {
        let of_topic = self.writers.values().filter(|t| *t == topic).count();
        if self.writers.len() >= MAX_INLETS || of_topic >= MAX_INLETS_OF_TOPIC {
            return Err("there are too many publishers".into());
        }
        let crossing = common.types.from_ros(&endpoint.type_name, rule.form).map_err(|e| e.to_string())?;
        let class = ReaderClass::of_writer(&endpoint.qos, &rule.qos)
            .map_err(|found| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        let node = inlet_node(node, &endpoint.gid, &common.node);
        let hash = crossing.hash;
        let inlet = Inlet::open(&common.participant, topic, node, crossing, (endpoint.qos, class), rule).map_err(|e| e.to_string())?;
        let shared = self.topic(common, topic)?;
        self.writers.insert(endpoint.handle, topic.clone());
        shared.know(endpoint.handle, Known::Open(Box::new(inlet)));
        shared.read(common, class, &endpoint.type_name, rule, &endpoint_user_data(hash, common.spec.release)).map_err(|e| e.to_string())
    }

    fn topic(&mut self, common: &Arc<Common>, topic: &TopicName) -> Result<Arc<Shared>, String> {
        if let Some(t) = self.topics.get(topic) {
            return Ok(t.shared.clone());
        }
        if self.topics.len() >= MAX_TOPICS {
            return Err(format!("there are {MAX_TOPICS} topics already"));
        }
        let shared = Arc::new(Shared {
            topic: topic.clone(),
            waiting: common.dds.waiting().map_err(|e| e.to_string())?,
            stop: AtomicBool::new(false),
            readers: Mutex::default(),
            writers: Mutex::default(),
            more: Condvar::new(),
            counters: Counters::default(),
        });
        for (handle, refused) in self.refused.iter().filter(|(_, r)| r.topic == *topic) {
            shared.know(*handle, Known::Refused(refused.counted));
        }
        let (of_thread, common) = (shared.clone(), common.clone());
        let thread =
            std::thread::Builder::new().name("dl-from-ros".into()).spawn(move || of_thread.run(&common)).map_err(|e| e.to_string())?;
        self.topics.insert(topic.clone(), IncomingTopic { shared: shared.clone(), thread: Some(thread) });
        Ok(shared)
    }

    /// A writer has gone, if it was one of these.
    pub(super) fn gone(&mut self, handle: u64) {
        let refused = self.refused.remove(&handle).map(|r| r.topic);
        let Some(topic) = self.writers.remove(&handle).or(refused) else { return };
        if let Some(t) = self.topics.get(&topic) {
            let mut writers = lock(&t.shared.writers);
            match writers.get_mut(&handle) {
                // The thread lets go of it when it has taken everything.
                Some(Known::Open(inlet)) => inlet.gone = true,
                _ => drop(writers.remove(&handle)),
            }
            drop(writers);
            t.shared.waiting.wake();
        }
    }

    /// Lets go of topics that nobody publishes any more. `true`: some were.
    pub(super) fn tidy(&mut self) -> bool {
        let before = self.topics.len();
        self.topics.retain(|_, t| lock(&t.shared.writers).values().any(|k| matches!(k, Known::Open(_))));
        self.topics.len() != before
    }

    /// Ids of all readers.
    pub(super) fn readers(&self) -> Vec<[u8; 16]> {
        let of = |t: &IncomingTopic| lock(&t.shared.readers).values().filter_map(|r| r.reader.entity.gid().ok()).collect::<Vec<_>>();
        self.topics.values().flat_map(of).collect()
    }

    pub(super) fn report(&self) -> Vec<Ros2TopicReport> {
        let of = |(topic, t): (&TopicName, &IncomingTopic)| {
            let publisher = |k: &Known| match k {
                Known::Open(inlet) => Some(Ros2Publisher {
                    node: inlet.node.to_string(),
                    ros_type: inlet.crossing.ros.to_string(),
                    converted: inlet.crossing.kind.is_some(),
                    qos: inlet.offered.to_string(),
                }),
                Known::Refused(_) => None,
            };
            let mut publishers: Vec<_> = lock(&t.shared.writers).values().filter_map(publisher).collect();
            publishers.sort();
            let (carried, dropped) = t.shared.counters.figures();
            Ros2TopicReport { topic: topic.to_string(), publishers, readers: Vec::new(), carried, dropped }
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
            reason: r.why.clone(),
            again_ms: None,
        };
        self.refused.values().map(of)
    }
}

impl Shared {
    fn know(&self, handle: u64, known: Known) {
        lock(&self.writers).insert(handle, known);
        self.more.notify_all();
    }

    /// Sees to it that there is a reader of this class. `true`: it is new.
    fn read(&self, common: &Common, class: ReaderClass, type_name: &str, rule: &Rule, user_data: &str) -> Result<bool, DdsError> {
        let key = (class, type_name.to_owned());
        let mut readers = lock(&self.readers);
        if readers.contains_key(&key) {
            return Ok(false);
        }
        let name = dds_topic(&self.topic).unwrap_or_default();
        let topic = common.dds.topic(&name, type_name)?;
        let kept = (KEPT_BYTES / rule.max_payload_bytes().max(1)).clamp(*KEPT.start(), *KEPT.end());
        let config = EndpointConfig {
            qos: class.requests(),
            // At most 4096.
            history: History::KeepAll { limit: kept as u32, late: 1 },
            max_blocking: Duration::ZERO,
            lifespan: None,
            user_data,
        };
        let reader = common.dds.reader(&topic, &config)?;
        self.waiting.add(&reader.entity)?;
        readers.insert(key, Arc::new(ClassReader { class, reader, _topic: topic }));
        drop(readers);
        self.waiting.wake();
        Ok(true)
    }

    fn run(&self, common: &Common) {
        while !self.stop.load(Ordering::Acquire) {
            let readers: Vec<_> = lock(&self.readers).values().cloned().collect();
            let mut any = false;
            let (mut lost, mut rejected) = (0, 0);
            for r in &readers {
                let losses = r.reader.losses();
                lost += u64::from(losses.0);
                rejected += u64::from(losses.1);
                match r.reader.take() {
                    Ok(Some(sample)) => {
                        any = true;
                        self.sample(common, r.class, &sample, u64::from(losses.0) + u64::from(losses.1));
                    }
                    Ok(None) => {}
                    Err(e) => common.tell(format!("topic '/{}': {e}", self.topic)),
                }
            }
            self.counters.set("lost", lost);
            self.counters.set("rejected", rejected);
            if !any {
                lock(&self.writers).retain(|_, k| !matches!(k, Known::Open(inlet) if inlet.gone));
                if let Err(e) = self.waiting.wait(LOOK) {
                    common.tell(format!("topic '/{}': {e}", self.topic));
                    return;
                }
            }
        }
    }

    fn sample(&self, common: &Common, class: ReaderClass, sample: &Taken, lost: u64) {
        let mut writers = lock(&self.writers);
        if !writers.contains_key(&sample.writer) {
            // DDS has matched it before the conductor has heard of it.
            common.wake();
            let unknown = |w: &mut HashMap<u64, Known>| !w.contains_key(&sample.writer) && !self.stop.load(Ordering::Acquire);
            writers = self.more.wait_timeout_while(writers, KNOWN_WITHIN, unknown).unwrap_or_else(PoisonError::into_inner).0;
        }
        let reason = match writers.get_mut(&sample.writer) {
            Some(Known::Open(inlet)) if inlet.class != class => "other_class",
            Some(Known::Open(inlet)) => match inlet.take(sample, common.outside, lost) {
                Ok(()) => return self.counters.carried(),
                Err((reason, text)) => {
                    if self.counters.dropped(reason) {
                        common.tell(format!("topic '/{}': a sample of node '{}' is dropped ({reason}): {text}", self.topic, inlet.node));
                    }
                    return;
                }
            },
            Some(Known::Refused(reason)) => reason,
            None => {
                // The next one does not wait; if the conductor comes to know of the writer, it says so.
                writers.insert(sample.writer, Known::Refused("unknown"));
                "unknown"
            }
        };
        self.counters.dropped(reason);
    }
}
