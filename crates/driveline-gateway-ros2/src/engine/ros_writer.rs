// SPDX-License-Identifier: Apache-2.0
//! Writer towards ROS 2 with one profile. It never delays its caller: over DDS it keeps the last
//! few samples, as rclcpp does. Over rmw_zenoh, where writing waits for a full link, it has a
//! thread that waits.

use super::backlog::{Backlog, Pushed};
use super::endpoint::{Profile, Writing};
use super::gateway_state::GatewayState;
use super::waiting::Waiting;
use super::zenoh;
use super::{FEWER, lock};
use crate::dds;
use crate::discovery_info::endpoint_user_data;
use crate::names::{RosNode, dds_topic};
use crate::qos::EndpointQos;
use crate::rmw_zenoh::{TokenQos, key_hash};
use crate::types::Crossing;
use bytes::Bytes;
use driveline_types::{NodeName, Qos, TopicName};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;

const MAX_WRITERS: usize = 512;

/// Reason why there is no writer.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    /// The limit is reached; retried when another writer has gone.
    #[error("this gateway has {MAX_WRITERS} writers towards ROS 2, which is the maximum: {FEWER}")]
    NoRoom,
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// Topic to write, with its publisher.
pub(super) struct Offer<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) crossing: &'a Crossing,
    pub(super) qos: EndpointQos,
    /// Number of samples that the writer keeps, for reliable readers without an acknowledgement and
    /// for late joiners.
    pub(super) depth: u32,
    pub(super) lifespan: Option<Duration>,
    /// True if a full link must delay only this writer.
    pub(super) apart: bool,
    /// Local publisher; `None`: the samples come from the other profile.
    pub(super) publisher: Option<NodeName>,
    /// Offer of that publisher.
    pub(super) offered: Option<Qos>,
    /// Remark, if that offer is less.
    pub(super) weaker: Option<String>,
    /// Node in the ROS graph.
    pub(super) node: RosNode,
}

/// Outcome of a written sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Number of earlier samples that were replaced before all reliable readers had acknowledged
    /// them, which was overdue, or before a link had space for them.
    pub(super) replaced: u64,
    /// Number of earlier samples that were not written, and reason for the last of them.
    pub(super) failed: u64,
    pub(super) why: String,
}

enum Writer {
    /// Dropped in this order: the writer ends before its topic.
    Dds {
        writer: dds::Writer,
        _topic: dds::Entity,
        _listed: Listed,
    },
    Zenoh {
        writer: Box<zenoh::Writer>,
        _listed: Listed,
    },
    /// Writer of rmw_zenoh, on a thread that is listed until it has ended.
    Apart(Arc<zenoh::Writer>, Backlog<zenoh::Prepared>),
}

/// Entry of a writer among those of the gateway. The control thread sees it appear and go.
struct Listed {
    writings: Arc<Mutex<Vec<Writing>>>,
    number: u64,
    control_thread: Arc<Waiting>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        lock(&self.writings).retain(|w| w.number != self.number);
        self.control_thread.wake();
    }
}

/// See the module.
pub(super) struct RosWriter {
    writer: Writer,
}

impl RosWriter {
    /// Returns true if the gateway can have another writer.
    pub(super) fn has_room(common: &GatewayState) -> bool {
        lock(&common.writings).len() < MAX_WRITERS
    }

    pub(super) fn open(
        common: &Arc<GatewayState>,
        profile: Profile,
        offer: Offer<'_>,
    ) -> Result<Self, OpenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if !Self::has_room(common) {
            return Err(OpenError::NoRoom);
        }
        let Offer { topic, crossing, qos, depth, .. } = offer;
        let (type_name, text) = (crossing.ros.dds(), |e: dds::DdsError| e.to_string());
        let mut hash = String::new();
        let (made, gid) = match profile {
            Profile::Dds => {
                let config = dds::EndpointConfig {
                    qos,
                    // A writer that keeps all samples would wait for a departed reader until its
                    // lease ends, and delay all other readers.
                    history: dds::History::KeepLast(depth),
                    max_blocking: Duration::ZERO,
                    lifespan: offer.lifespan,
                    user_data: &endpoint_user_data(crossing.hash, common.spec.release),
                };
                let name = dds_topic(topic)
                    .ok_or_else(|| "ROS 2 does not permit its name: rename it".to_owned())?;
                let topic = common.dds()?.topic(&name, &type_name).map_err(text)?;
                let writer = common.dds()?.writer(&topic, &config).map_err(text)?;
                let gid = writer.entity.gid().map_err(text)?;
                (Made::Dds(writer, topic), gid)
            }
            Profile::Zenoh => {
                hash = key_hash(crossing.hash, common.spec.release).ok_or_else(|| {
                    format!(
                        "the definition of {} is not complete, so its hash is not known; name \
                         its packages under `types`",
                        crossing.ros
                    )
                })?;
                let qos =
                    TokenQos { endpoint: qos, keep_all: false, depth, lifespan: offer.lifespan };
                let config = zenoh::WriterConfig {
                    topic,
                    type_name: &type_name,
                    hash: &hash,
                    qos,
                    node: &offer.node,
                };
                let writer = common.zenoh()?.writer(&config)?;
                let gid = writer.gid();
                (Made::Zenoh(Box::new(writer)), gid)
            }
        };
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let writing = Writing {
            number,
            profile,
            gid,
            topic: topic.clone(),
            type_name,
            hash,
            type_hash: crossing.hash,
            ros_type: crossing.ros.to_string(),
            converted: crossing.kind.is_some(),
            publisher: offer.publisher,
            offered: offer.offered,
            weaker: offer.weaker,
            node: offer.node,
            qos,
        };
        lock(&common.writings).push(writing);
        common.wake();
        let listed = Listed {
            writings: common.writings.clone(),
            number,
            control_thread: common.waiting.clone(),
        };
        let writer = match made {
            Made::Dds(writer, topic) => Writer::Dds { writer, _topic: topic, _listed: listed },
            // No other sample waits behind it.
            Made::Zenoh(writer) if !offer.apart => Writer::Zenoh { writer, _listed: listed },
            Made::Zenoh(writer) => {
                let writer: Arc<zenoh::Writer> = writer.into();
                let of_thread = (writer.clone(), listed);
                let send = move |sample| of_thread.0.put(sample);
                let (backlog, thread) = Backlog::start(depth, send)
                    .map_err(|e| format!("cannot start a thread: {e}"))?;
                common.backlogs.add(thread);
                Writer::Apart(writer, backlog)
            }
        };
        Ok(Self { writer })
    }

    /// Writes a sample from parts whose lengths add up to a multiple of 4. `slot`: buffer of the
    /// parts, if it may be held for a while. `source_timestamp`: on the wall clock, in nanoseconds;
    /// DDS uses the time of the call. With rmw_zenoh it waits for a link, unless the writer has a
    /// thread of its own.
    pub(super) fn write(
        &self,
        parts: &[&[u8]],
        slot: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Written, String> {
        match &self.writer {
            Writer::Dds { writer, .. } => {
                let replaced = writer.write(parts).map_err(|e| e.to_string())?;
                Ok(Written { replaced, ..Written::default() })
            }
            Writer::Zenoh { writer, .. } => writer
                .put(writer.prepare(parts, slot, source_timestamp)?)
                .map(|()| Written::default()),
            Writer::Apart(writer, backlog) => {
                // If it were held, the slot would wait with the sample, and its publisher has few
                // slots.
                let sample = writer.prepare(parts, None, source_timestamp)?;
                let Pushed { replaced, failed, why } =
                    backlog.push(sample, parts.iter().map(|part| part.len()).sum());
                Ok(Written { replaced, failed, why })
            }
        }
    }
}

/// Writer that is not listed yet.
enum Made {
    Dds(dds::Writer, dds::Entity),
    Zenoh(Box<zenoh::Writer>),
}
