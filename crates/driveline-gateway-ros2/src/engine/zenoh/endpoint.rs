// SPDX-License-Identifier: Apache-2.0
//! Publishers and subscriptions of Zenoh.

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

/// Time from the last sample to a heartbeat, which lets subscribers notice the loss of that sample.
const HEARTBEAT: Duration = Duration::from_millis(500);
/// Time-out of history.
const HISTORY_WITHIN: Duration = Duration::from_secs(10);

/// Reason why no more samples are sent.
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
    /// True if Zenoh keeps samples for late joiners.
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
            // Samples are always numbered. Otherwise subscribers would order them by their
            // timestamps, which name only the session: several publishers of one session would look
            // like one.
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

    /// Subscribes to the key of `of`, with the QoS of `class`.
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
            // The gateway's own caches answer the request for history, too. So samples with the
            // gateway's own ids are ignored.
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

    /// Shows a local node as a subscription until the result is dropped. The node receives the
    /// samples of the gateway's reader.
    pub(in crate::engine) fn show_reader(
        &self,
        topic: &TopicName,
        class: ReaderClass,
        of: (&str, &str),
        node: &RosNode,
    ) -> Result<Announced, String> {
        Ok(self.announce(node, Kind::Subscription, reading(topic, class, of), || Ok(()))?.1)
    }

    /// Requests the history that a publisher keeps for late joiners, so that it is in `inbox`
    /// before newer samples. Does not wait for it.
    pub(in crate::engine) fn history(
        &self,
        of: &Endpoint,
        class: ReaderClass,
        inbox: &Arc<Inbox>,
    ) -> Result<(), String> {
        let key = topic_key(self.domain, of.topic.as_str(), &of.type_name, &of.hash);
        // Key of all caches of zenoh-ext on this topic in the publisher's session. No token names
        // the cache of this publisher, so samples of other publishers may come, too.
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

/// Describes a subscription of this type and hash, as in its token.
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

/// Joins parts to a payload. `slot`: buffer of some of them, which are then held instead of copied.
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

    /// Makes a sample from parts, of which some are in `slot`, and numbers it. If it is not put
    /// afterwards, its subscriptions count it as lost. Parts in `slot` are copied if a cache would
    /// hold them. `source_timestamp`: on the wall clock, in nanoseconds.
    pub(in crate::engine) fn prepare(
        &self,
        parts: &[&[u8]],
        slot: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Prepared, String> {
        // A cache would hold the slot as long as the sample.
        let payload = payload(parts, slot.filter(|_| !self.keeps))?;
        let sequence = self.sequence.fetch_add(1, Ordering::Relaxed) + 1;
        let attachment =
            Attachment { sequence, source_timestamp, gid: self.announced.gid }.encode();
        Ok(Prepared { payload, attachment: attachment.to_vec() })
    }

    /// Writes a sample. Blocks while links have no space, within limits.
    pub(in crate::engine) fn put(&self, sample: Prepared) -> Result<(), String> {
        let put = self.publisher.put(sample.payload).attachment(sample.attachment);
        self.under_way.during((), || put.wait()).unwrap_or_else(|| Err(ENDS.into())).map_err(text)
    }
}

/// A sample that is ready to be written.
pub(in crate::engine) struct Prepared {
    payload: ZBytes,
    attachment: Vec<u8>,
}

/// A subscription, which ends when this value is dropped.
pub(in crate::engine) struct Reader {
    /// Dropped before the announcement, by which others see the subscription.
    _subscriber: Box<dyn Any + Send + Sync>,
    _announced: Announced,
}
