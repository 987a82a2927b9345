// SPDX-License-Identifier: Apache-2.0
//! Publishers and subscriptions.

use super::inbox::Inbox;
use super::{Announced, Session, text};
use crate::engine::endpoint::Endpoint;
use crate::engine::lock;
use crate::names::RosNode;
use crate::qos::{DurabilityKind, ReaderClass};
use crate::rmw_zenoh::{Attachment, Kind, TokenEndpoint, TokenQos, topic_key};
use bytes::Bytes;
use driveline_types::{Durability, Qos, Reliability, TopicName};
use driveline_zenoh::InFlight;
use std::any::Any;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::qos::CongestionControl;
use zenoh::query::{ConsolidationMode, QueryTarget, Reply, ReplyKeyExpr};
use zenoh::sample::Locality;
use zenoh_ext::{
    AdvancedPublisher, AdvancedPublisherBuilderExt, AdvancedSubscriberBuilderExt, CacheConfig,
    MissDetectionConfig, RecoveryConfig,
};

/// After the last sample, so that it is missed if it was lost.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Time-out of history.
const HISTORY_WITHIN: Duration = Duration::from_secs(10);

/// Reason why a sample is not sent any more.
const ENDS: &str = "the gateway ends";

/// Configuration of a publisher.
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
    under_way: InFlight<()>,
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
            let congestion =
                if reliable { CongestionControl::Block } else { CongestionControl::Drop };
            let publisher = self
                .session
                .declare_publisher(key)
                .congestion_control(congestion)
                .allowed_destination(Locality::Remote);
            if !keeps {
                return publisher.advanced().wait().map_err(text);
            }
            // Numbered in any case: by their times alone, several publishers of one session would
            // be taken for one.
            let heartbeat = MissDetectionConfig::default();
            let heartbeat =
                if reliable { heartbeat.sporadic_heartbeat(HEARTBEAT) } else { heartbeat };
            let depth = qos.depth.clamp(1, Qos::MAX_DEPTH) as usize;
            let cache = CacheConfig::default().max_samples(depth);
            publisher
                .cache(cache)
                .sample_miss_detection(heartbeat)
                .publisher_detection()
                .wait()
                .map_err(text)
        };
        let endpoint = TokenEndpoint {
            topic: format!("/{topic}"),
            type_name: (*type_name).into(),
            hash: (*hash).into(),
            qos: *qos,
        };
        let (publisher, announced) = self.announce(node, Kind::Publisher, endpoint, declare)?;
        Ok(Writer {
            publisher,
            under_way: self.under_way.clone(),
            sequence: AtomicI64::new(0),
            keeps,
            announced,
        })
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
            // History of the gateway's own caches comes back to it.
            let subscriber = subscriber.callback(move |sample| {
                inbox.sample(class, |a| lock(&own).contains(&a.gid), &sample)
            });
            if class.durability == Durability::Volatile {
                return subscriber
                    .wait()
                    .map(|s| Box::new(s) as Box<dyn Any + Send + Sync>)
                    .map_err(text);
            }
            let mut subscriber = subscriber.subscriber_detection().query_timeout(HISTORY_WITHIN);
            if class.reliability == Reliability::Reliable {
                subscriber = subscriber.recovery(RecoveryConfig::default().heartbeat());
            }
            subscriber.wait().map(|s| Box::new(s) as Box<dyn Any + Send + Sync>).map_err(text)
        };
        let endpoint = reading(&of.topic, class, (&of.type_name, &of.hash));
        let (subscriber, announced) = self.announce(node, Kind::Subscription, endpoint, declare)?;
        Ok(Reader { _subscriber: subscriber, _announced: announced })
    }

    /// Shows a node here that subscribes to what a reader of the gateway brings, as long as what
    /// this returns lasts.
    pub(in crate::engine) fn show_reader(
        &self,
        topic: &TopicName,
        class: ReaderClass,
        of: (&str, &str),
        node: &RosNode,
    ) -> Result<Announced, String> {
        Ok(self.announce(node, Kind::Subscription, reading(topic, class, of), || Ok(()))?.1)
    }

    /// Has what a publisher keeps for those who come late come to `inbox`, before anything else of
    /// it. Does not wait for it.
    pub(in crate::engine) fn history(
        &self,
        of: &Endpoint,
        class: ReaderClass,
        inbox: &Arc<Inbox>,
    ) -> Result<(), String> {
        let key = topic_key(self.domain, of.topic.as_str(), &of.type_name, &of.hash);
        // Where zenoh-ext's caches of its session answer; which of them is this one's, no token
        // says.
        let caches = format!("{key}/@adv/pub/{}/**?_max={}", of.session, Qos::MAX_DEPTH);
        let kept = self
            .session
            .get(caches)
            .consolidation(ConsolidationMode::None)
            .accept_replies(ReplyKeyExpr::Any);
        let kept = kept
            .target(QueryTarget::All)
            .allowed_destination(Locality::Remote)
            .timeout(HISTORY_WITHIN);
        let awaited = inbox.awaits(of.handle, Instant::now());
        let each = move |reply: Reply| {
            if let Ok(sample) = reply.into_result() {
                awaited.sample(class, &sample);
            }
        };
        kept.callback(each).wait().map_err(text)
    }
}

/// A subscription of this type and hash, as its token says it.
fn reading(
    topic: &TopicName,
    class: ReaderClass,
    (type_name, hash): (&str, &str),
) -> TokenEndpoint {
    let qos = TokenQos { endpoint: class.requests(), keep_all: true, ..TokenQos::default() };
    TokenEndpoint {
        topic: format!("/{topic}"),
        type_name: type_name.into(),
        hash: hash.into(),
        qos,
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

    /// Puts a sample together from parts of which some are in `slot`, and numbers it: a sample that
    /// is not put afterwards is one that its subscriptions know to be lost. Whether the parts in
    /// `slot` must be copied depends on who else keeps them. `source_timestamp`: on the wall clock,
    /// in nanoseconds.
    pub(in crate::engine) fn prepare(
        &self,
        parts: &[&[u8]],
        slot: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Prepared, String> {
        // A cache would hold the slot for as long as it has the sample.
        let payload = payload(parts, slot.filter(|_| !self.keeps))?;
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let attachment =
            Attachment { sequence, source_timestamp, gid: self.announced.gid }.encode();
        Ok(Prepared { payload, attachment: attachment.to_vec() })
    }

    /// Hands a sample over. Blocks as long as links have no room, within bounds.
    pub(in crate::engine) fn put(&self, sample: Prepared) -> Result<(), String> {
        let put = self.publisher.put(sample.payload).attachment(sample.attachment);
        self.under_way.during((), || put.wait()).unwrap_or_else(|| Err(ENDS.into())).map_err(text)
    }
}

/// A sample that can be put.
pub(in crate::engine) struct Prepared {
    payload: ZBytes,
    attachment: Vec<u8>,
}

/// A subscription, which ends with this value.
pub(in crate::engine) struct Reader {
    /// Before others see it go.
    _subscriber: Box<dyn Any + Send + Sync>,
    _announced: Announced,
}
