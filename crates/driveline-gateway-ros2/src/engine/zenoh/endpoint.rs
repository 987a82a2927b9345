// SPDX-License-Identifier: Apache-2.0
//! Publishers and subscriptions.

use super::{Announced, OwnIds, Session, text};
use crate::engine::endpoint::Endpoint;
use crate::engine::lock;
use crate::engine::waiting::Signal;
use crate::names::RosNode;
use crate::qos::{DurabilityKind, ReaderClass};
use crate::rmw_zenoh::{Attachment, Kind, TokenEndpoint, TokenQos, topic_key};
use bytes::Bytes;
use driveline_types::{Durability, Qos, Reliability, TopicName};
use std::any::Any;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::sample::{Locality, Sample};
use zenoh_ext::{
    AdvancedPublisher, AdvancedPublisherBuilderExt, AdvancedSubscriberBuilderExt, CacheConfig, HistoryConfig, MissDetectionConfig,
    RecoveryConfig,
};

/// After the last sample, so that it is missed if it was lost.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// How long history may take.
const HISTORY_WITHIN: Duration = Duration::from_secs(10);

/// What a publisher is created with.
pub(in crate::engine) struct WriterConfig<'a> {
    pub(in crate::engine) topic: &'a TopicName,
    pub(in crate::engine) type_name: &'a str,
    pub(in crate::engine) hash: &'a str,
    pub(in crate::engine) qos: TokenQos,
    pub(in crate::engine) node: &'a RosNode,
}

/// Publishes samples of one topic.
pub(in crate::engine) struct Writer {
    publisher: AdvancedPublisher<'static>,
    sequence: AtomicI64,
    /// Zenoh keeps samples for those who come late.
    keeps: bool,
    announced: Announced,
}

impl Session {
    pub(in crate::engine) fn writer(&self, config: &WriterConfig<'_>) -> Result<Writer, String> {
        let WriterConfig { topic, type_name, hash, qos, node } = config;
        let reliable = qos.endpoint.reliability == Reliability::Reliable;
        let keeps = qos.endpoint.durability >= DurabilityKind::TransientLocal;
        let declare = || {
            let key = topic_key(self.domain, topic.as_str(), type_name, hash);
            let congestion = if reliable { CongestionControl::Block } else { CongestionControl::Drop };
            let publisher = self.session.declare_publisher(key).congestion_control(congestion).allowed_destination(Locality::Remote);
            if !keeps {
                return publisher.advanced().wait().map_err(text);
            }
            // Numbered in any case: by their times alone, several publishers of one session would be taken for one.
            let heartbeat = MissDetectionConfig::default();
            let heartbeat = if reliable { heartbeat.sporadic_heartbeat(HEARTBEAT) } else { heartbeat };
            let depth = qos.depth.clamp(1, Qos::MAX_DEPTH) as usize;
            let cache = CacheConfig::default().max_samples(depth);
            publisher.cache(cache).sample_miss_detection(heartbeat).publisher_detection().wait().map_err(text)
        };
        let endpoint = TokenEndpoint { topic: format!("/{topic}"), type_name: (*type_name).into(), hash: (*hash).into(), qos: *qos };
        let (publisher, announced) = self.announce(node, Kind::Publisher, endpoint, declare)?;
        Ok(Writer { publisher, sequence: AtomicI64::new(0), keeps, announced })
    }

    /// Subscribes where `of` publishes, with QoS of `class`.
    pub(in crate::engine) fn reader(
        &self,
        of: &Endpoint,
        class: ReaderClass,
        node: &RosNode,
        inbox: &Arc<Inbox>,
    ) -> Result<Reader, String> {
        let declare = || {
            let key = topic_key(self.domain, of.topic.as_str(), &of.type_name, &of.hash);
            let (inbox, own) = (inbox.clone(), self.own_ids.clone());
            let subscriber = self.session.declare_subscriber(key).allowed_origin(Locality::Remote);
            let subscriber = subscriber.callback(move |sample| inbox.sample(class, &own, &sample));
            if class.durability == Durability::Volatile {
                return subscriber.wait().map(|s| Box::new(s) as Box<dyn Any + Send + Sync>).map_err(text);
            }
            // As many as anybody may keep: with fewer, zenoh-ext gives up on those that came in another order.
            let history = HistoryConfig::default().detect_late_publishers().max_samples(Qos::MAX_DEPTH as usize);
            let mut subscriber = subscriber.history(history).subscriber_detection().query_timeout(HISTORY_WITHIN);
            if class.reliability == Reliability::Reliable {
                subscriber = subscriber.recovery(RecoveryConfig::default().heartbeat());
            }
            subscriber.wait().map(|s| Box::new(s) as Box<dyn Any + Send + Sync>).map_err(text)
        };
        let qos = TokenQos { endpoint: class.requests(), keep_all: true, ..TokenQos::default() };
        let endpoint = TokenEndpoint { topic: format!("/{}", of.topic), type_name: of.type_name.clone(), hash: of.hash.clone(), qos };
        let (subscriber, announced) = self.announce(node, Kind::Subscription, endpoint, declare)?;
        Ok(Reader { _subscriber: subscriber, _announced: announced })
    }
}

/// Parts in a row. `slot`: what some of them may lie in, which are kept instead of copied.
pub(super) fn payload(parts: &[&[u8]], slot: Option<&Bytes>) -> Result<ZBytes, String> {
    let mut payload = ZBytes::writer();
    for part in parts.iter().filter(|part| !part.is_empty()) {
        let within = |slot: &&Bytes| {
            let (slot, part) = (slot.as_ptr_range(), part.as_ptr_range());
            slot.start <= part.start && part.end <= slot.end
        };
        match slot.filter(within) {
            Some(slot) => payload.append(slot.slice_ref(part).into()),
            None => payload.write_all(part).map_err(text)?,
        }
    }
    Ok(payload.finish())
}

impl Writer {
    pub(in crate::engine) fn gid(&self) -> crate::discovery_info::Gid {
        self.announced.gid
    }

    /// Hands a sample over, in parts of which some are in `slot`. Whether these must be copied depends on who else keeps them.
    /// `source_timestamp`: on the wall clock, in nanoseconds. Blocks as long as links have no room, within bounds.
    pub(in crate::engine) fn write(&self, parts: &[&[u8]], slot: Option<&Bytes>, source_timestamp: i64) -> Result<(), String> {
        // A cache would hold the slot for as long as it has the sample.
        let payload = payload(parts, slot.filter(|_| !self.keeps))?;
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let attachment = Attachment { sequence, source_timestamp, gid: self.announced.gid }.encode();
        self.publisher.put(payload).attachment(&attachment[..]).wait().map_err(text)
    }
}

/// A subscription, which ends with this value.
pub(in crate::engine) struct Reader {
    /// Before others see it go.
    _subscriber: Box<dyn Any + Send + Sync>,
    _announced: Announced,
}

/// A sample that has come.
pub(in crate::engine) struct Arrived {
    pub(in crate::engine) class: ReaderClass,
    pub(in crate::engine) attachment: Attachment,
    /// Or its length, if it is longer than anything that may wait.
    pub(in crate::engine) payload: Result<ZBytes, usize>,
}

#[derive(Default)]
struct Queue {
    arrived: VecDeque<Arrived>,
    rejected: u64,
    malformed: u64,
}

/// Samples of a topic that wait for its thread.
pub(in crate::engine) struct Inbox {
    queue: Mutex<Queue>,
    limit: usize,
    longest: usize,
    pub(in crate::engine) signal: Signal,
}

impl Inbox {
    /// For at most `limit` samples, of no more than `longest` bytes.
    pub(in crate::engine) fn new(limit: usize, longest: usize) -> Self {
        Self { queue: Mutex::default(), limit, longest, signal: Signal::default() }
    }

    pub(in crate::engine) fn limit(&self) -> usize {
        self.limit
    }

    /// On Zenoh's thread.
    fn sample(&self, class: ReaderClass, own: &OwnIds, sample: &Sample) {
        let attachment = sample.attachment().filter(|a| a.len() == Attachment::LEN).map(ZBytes::to_bytes);
        let attachment = attachment.and_then(|bytes| Attachment::decode(&bytes).ok());
        // History of the gateway's own caches comes back to it.
        if attachment.is_some_and(|a| lock(own).contains(&a.gid)) {
            return;
        }
        // Other topics may have longer ones, and Zenoh knows but one bound for all.
        let payload = Some(sample.payload()).filter(|p| p.len() <= self.longest).cloned().ok_or(sample.payload().len());
        let mut queue = lock(&self.queue);
        match attachment {
            None => queue.malformed += 1,
            Some(_) if queue.arrived.len() >= self.limit => queue.rejected += 1,
            Some(attachment) => queue.arrived.push_back(Arrived { class, attachment, payload }),
        }
        drop(queue);
        self.signal.raise();
    }

    pub(in crate::engine) fn take(&self) -> Option<Arrived> {
        lock(&self.queue).arrived.pop_front()
    }

    /// How many were rejected because too many had come, and how many had no readable attachment, so far.
    pub(in crate::engine) fn losses(&self) -> (u64, u64) {
        let queue = lock(&self.queue);
        (queue.rejected, queue.malformed)
    }
}
