// SPDX-License-Identifier: Apache-2.0
//! Source of the samples of one topic.

use super::dds::HEAD_BYTES;
use super::endpoint::{Endpoint, Handle, Profile, handle_of};
use super::gateway_state::GatewayState;
use super::lock;
use super::zenoh;
use crate::convert::Pieces;
use crate::dds;
use crate::discovery_info::{Gid, endpoint_user_data};
use crate::names::{RosNode, dds_topic};
use crate::qos::ReaderClass;
use crate::types::Crossing;
use ::zenoh::bytes::ZBytes;
use driveline_gateway::ros2::Rule;
use driveline_types::{Durability, TopicName};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Maximum number of bytes of samples that wait for the thread of a topic, and bounds of their
/// number.
const KEPT_BYTES: u64 = 128 << 20;
const KEPT: std::ops::RangeInclusive<u64> = 16..=MOST_KEPT;
/// Maximum number of waiting samples of a reader; over Zenoh, of a topic.
const MOST_KEPT: u64 = 4096;

/// Returns the number of samples of a topic that may wait. Zenoh's end knows the limit of its topic
/// before it stores a sample. DDS has one limit for all topics, so samples of each topic may be as
/// long as the longest of any topic.
pub(super) fn kept(profile: Profile, of_topic: u64, of_any: u64) -> u32 {
    let longest = if profile == Profile::Dds { of_topic.max(of_any) } else { of_topic };
    // At most 4096.
    (KEPT_BYTES / longest.max(1)).clamp(*KEPT.start(), *KEPT.end()) as u32
}

/// Maximum length of a sample of a topic, in bytes.
pub(super) fn longest(rule: &Rule) -> usize {
    usize::try_from(rule.max_payload_bytes().saturating_add(HEAD_BYTES)).unwrap_or(usize::MAX)
}

/// Arrived sample.
pub(super) struct Came<'a> {
    /// Writer of the sample.
    pub(super) writer: Handle,
    /// Class of the request for it.
    pub(super) class: ReaderClass,
    /// Time of writing, on its writer's wall clock, in nanoseconds.
    pub(super) source_timestamp: i64,
    /// Its number among the samples of its writer, from 1, if announced.
    pub(super) number: Option<i64>,
    /// Number of samples of this class that did not arrive, of any writer, and that no header
    /// states yet. The remote publisher that counts one takes it from here.
    pub(super) lost: &'a AtomicU64,
    /// Number of earlier samples of its writer that arrived without space for them. Its sequence
    /// number shows them as missing, too.
    pub(super) rejected: u64,
    /// The sample as it arrived; or its length, if it exceeds the limit for kept samples.
    pub(super) sample: Result<Pieces<'a>, usize>,
}

/// Maximum number of local nodes that are shown as subscriptions of a topic. For others, ROS 2 sees
/// the gateway.
const MOST_SHOWN: usize = 64;

/// QoS, type and hash of a reader.
type ReaderKey = (ReaderClass, String, String);

/// Readers of one topic.
type Readers<T> = Mutex<BTreeMap<ReaderKey, T>>;

/// See [`Feed::Dds`].
pub(super) struct DdsReader {
    class: ReaderClass,
    reader: dds::Reader,
    /// Number of losses reported by DDS so far.
    seen: AtomicU64,
    /// Number of these losses that no header states yet.
    lost: AtomicU64,
    _topic: dds::Entity,
}

pub(super) enum Feed {
    /// `kept`: number of samples of each reader.
    Dds { readers: Readers<Arc<DdsReader>>, waiting: dds::Waiting, kept: u32 },
    Zenoh {
        readers: Readers<zenoh::Reader>,
        inbox: Arc<zenoh::Inbox>,
        /// Local nodes that are shown as subscriptions of each reader.
        shown: Mutex<BTreeMap<(ReaderKey, RosNode), zenoh::Announced>>,
    },
}

/// Returns a payload without a copy. `list` is for payloads in several pieces.
pub(super) fn pieces<'a>(payload: &'a ZBytes, list: &'a mut Vec<&'a [u8]>) -> Pieces<'a> {
    let mut slices = payload.slices();
    let first = slices.next().unwrap_or_default();
    let Some(second) = slices.next() else { return first.into() };
    list.extend([first, second].into_iter().chain(slices));
    Pieces::from(list.as_slice())
}

impl Feed {
    pub(super) fn new(
        common: &GatewayState,
        profile: Profile,
        rule: &Rule,
    ) -> Result<Self, String> {
        let kept = kept(profile, rule.max_payload_bytes(), common.longest);
        match profile {
            Profile::Dds => {
                let waiting = common.dds()?.waiting().map_err(|e| e.to_string())?;
                Ok(Self::Dds { readers: Readers::default(), waiting, kept })
            }
            Profile::Zenoh => {
                let inbox = Arc::new(zenoh::Inbox::new(kept as usize, longest(rule)));
                Ok(Self::Zenoh { readers: Readers::default(), inbox, shown: Mutex::default() })
            }
        }
    }

    /// Number of rounds of [`take`](Self::take) in which all samples that wait now are taken.
    pub(super) fn kept(&self) -> u64 {
        match self {
            Self::Dds { kept, .. } => (*kept).into(),
            Self::Zenoh { inbox, .. } => inbox.limit() as u64,
        }
    }

    /// Ensures that writers of this class, type and hash are read.
    pub(super) fn read(
        &self,
        common: &GatewayState,
        of: &Endpoint,
        class: ReaderClass,
        crossing: &Crossing,
    ) -> Result<(), String> {
        let key = (class, of.type_name.clone(), of.hash.clone());
        match self {
            Self::Dds { readers, waiting, kept } => {
                let mut readers = lock(readers);
                if readers.contains_key(&key) {
                    return Ok(());
                }
                let (dds, text) = (common.dds()?, |e: dds::DdsError| e.to_string());
                let name = dds_topic(&of.topic).unwrap_or_default();
                let topic = dds.topic(&name, &of.type_name).map_err(text)?;
                let config = dds::EndpointConfig {
                    qos: class.requests(),
                    history: dds::History::KeepAll { limit: *kept, late: 1 },
                    max_blocking: Duration::ZERO,
                    lifespan: None,
                    user_data: &endpoint_user_data(crossing.hash, common.spec.release),
                };
                let reader = dds.reader(&topic, &config).map_err(text)?;
                waiting.add(&reader.entity).map_err(text)?;
                readers.insert(
                    key,
                    Arc::new(DdsReader {
                        class,
                        reader,
                        seen: AtomicU64::new(0),
                        lost: AtomicU64::new(0),
                        _topic: topic,
                    }),
                );
                drop(readers);
                waiting.wake();
            }
            Self::Zenoh { readers, inbox, .. } => {
                if let Entry::Vacant(none) = lock(readers).entry(key) {
                    none.insert(common.zenoh()?.reader(of, class, &RosNode::gateway(), inbox)?);
                }
            }
        }
        Ok(())
    }

    /// Requests the history that a writer of this class keeps for late joiners, so that it arrives
    /// before newer samples of the writer.
    pub(super) fn history(
        &self,
        common: &GatewayState,
        of: &Endpoint,
        class: ReaderClass,
    ) -> Result<(), String> {
        match self {
            Self::Zenoh { inbox, .. } if class.durability != Durability::Volatile => {
                common.zenoh()?.history(of, class, inbox)
            }
            // Over DDS, the writer sends it without a request.
            _ => Ok(()),
        }
    }

    /// Ends the wait of a writer's samples for its history: the writer is refused, or gone.
    pub(super) fn waits_no_more(&self, writer: Handle) {
        if let Self::Zenoh { inbox, .. } = self {
            inbox.waits_no_more(writer);
        }
    }

    /// Notes that the remote publisher of a writer has ended, or that a writer without one has
    /// gone.
    pub(super) fn parted(&self, writer: Handle) {
        if let Self::Zenoh { inbox, .. } = self {
            inbox.parted(writer);
        }
    }

    /// Takes at most one sample of each reader. `false`: there was none.
    pub(super) fn take(&self, mut each: impl FnMut(&Came<'_>)) -> Result<bool, String> {
        match self {
            Self::Dds { readers, .. } => {
                let readers: Vec<_> = lock(readers).values().cloned().collect();
                let mut any = false;
                for r in &readers {
                    let losses = r.reader.losses();
                    let Some(sample) = r.reader.take().map_err(|e| e.to_string())? else {
                        continue;
                    };
                    any = true;
                    let losses = u64::from(losses.0) + u64::from(losses.1);
                    // DDS does not report the writer of a lost sample. One remote publisher counts
                    // the losses, so none is counted twice.
                    r.lost.fetch_add(
                        losses.saturating_sub(r.seen.swap(losses, Ordering::Relaxed)),
                        Ordering::Relaxed,
                    );
                    each(&Came {
                        writer: sample.writer.into(),
                        class: r.class,
                        source_timestamp: sample.source_timestamp,
                        number: None,
                        lost: &r.lost,
                        rejected: 0,
                        sample: Ok(sample.bytes().into()),
                    });
                }
                Ok(any)
            }
            Self::Zenoh { inbox, .. } => {
                let Some(arrived) = inbox.take() else { return Ok(false) };
                let mut list = Vec::new();
                let sample = arrived
                    .payload
                    .as_ref()
                    .map(|payload| pieces(payload, &mut list))
                    .map_err(|len| *len);
                let attachment = &arrived.attachment;
                each(&Came {
                    writer: handle_of(&attachment.gid),
                    class: arrived.class,
                    source_timestamp: attachment.source_timestamp,
                    number: Some(attachment.sequence),
                    // Each loss shows in the sequence numbers of its publisher.
                    lost: &AtomicU64::new(0),
                    rejected: arrived.rejected,
                    sample,
                });
                Ok(true)
            }
        }
    }

    /// Returns the number of samples that did not arrive, by reason. Over Zenoh, later samples show
    /// losses in transit.
    pub(super) fn losses(&self) -> [(&'static str, u64); 2] {
        match self {
            Self::Dds { readers, .. } => {
                let (mut lost, mut rejected) = (0, 0);
                for r in lock(readers).values() {
                    let losses = r.reader.losses();
                    lost += u64::from(losses.0);
                    rejected += u64::from(losses.1);
                }
                [("lost", lost), ("rejected", rejected)]
            }
            Self::Zenoh { inbox, .. } => {
                let (rejected, malformed) = inbox.losses();
                [("rejected", rejected), ("attachment", malformed)]
            }
        }
    }

    /// Waits until a sample arrives or another thread wakes it, at most for this time.
    pub(super) fn wait(&self, longest: Duration) -> Result<(), String> {
        match self {
            Self::Dds { waiting, .. } => waiting.wait(longest).map_err(|e| e.to_string()),
            Self::Zenoh { inbox, .. } => {
                inbox.signal.wait(longest);
                Ok(())
            }
        }
    }

    pub(super) fn wake(&self) {
        match self {
            Self::Dds { waiting, .. } => waiting.wake(),
            Self::Zenoh { inbox, .. } => inbox.signal.raise(),
        }
    }

    /// Shows subscribing local nodes as subscriptions in the ROS graph. Over DDS, the control
    /// thread does this for all topics.
    pub(super) fn show(&self, common: &GatewayState, topic: &TopicName, nodes: &BTreeSet<RosNode>) {
        let (Self::Zenoh { readers, shown, .. }, Ok(session)) = (self, common.zenoh()) else {
            return;
        };
        let readers = lock(readers);
        let mut shown = lock(shown);
        shown.retain(|(key, node), _| readers.contains_key(key) && nodes.contains(node));
        for key in readers.keys() {
            for node in nodes.iter().take(MOST_SHOWN) {
                let Entry::Vacant(none) = shown.entry((key.clone(), node.clone())) else {
                    continue;
                };
                let (class, type_name, hash) = key;
                // If Zenoh refuses it, samples still pass, and it is retried.
                if let Ok(announced) = session.show_reader(topic, *class, (type_name, hash), node) {
                    none.insert(announced);
                }
            }
        }
    }

    /// Ids of readers in DDS.
    pub(super) fn dds_readers(&self) -> Vec<Gid> {
        match self {
            Self::Dds { readers, .. } => {
                lock(readers).values().filter_map(|r| r.reader.entity.gid().ok()).collect()
            }
            Self::Zenoh { .. } => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_samples_are_bounded_in_bytes_for_every_topic() {
        const MIB: u64 = 1 << 20;
        for (of_topic, of_any, over_dds, over_zenoh) in [
            (64, 64, 4096, 4096),
            (64, 4 * MIB, 32, 4096),
            (4 * MIB, 4 * MIB, 32, 32),
            (64, 64 * MIB, 16, 4096),
            (0, 0, 4096, 4096),
        ] {
            assert_eq!(kept(Profile::Dds, of_topic, of_any), over_dds, "{of_topic} {of_any}");
            assert_eq!(kept(Profile::Zenoh, of_topic, of_any), over_zenoh, "{of_topic} {of_any}");
        }
    }
}
