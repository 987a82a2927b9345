// SPDX-License-Identifier: Apache-2.0
//! A writer towards ROS 2, by one profile.

use super::conductor::Common;
use super::endpoint::{Profile, Writing};
use super::zenoh;
use super::{FEWER, lock};
use crate::dds;
use crate::discovery_info::endpoint_user_data;
use crate::names::{RosNode, dds_topic};
use crate::qos::EndpointQos;
use crate::rmw_zenoh::{TokenQos, key_hash};
use crate::types::Crossing;
use bytes::Bytes;
use driveline_types::{NodeName, Reliability, TopicName};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use thiserror::Error;

const MAX_WRITERS: usize = 512;
/// Samples that a reliable writer keeps for readers that have not acknowledged them; a writer beyond it waits.
const UNACKNOWLEDGED: u32 = 64;

/// Why there is no writer, for people.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    /// It may be tried again when another one has gone.
    #[error("this gateway has {MAX_WRITERS} writers towards ROS 2, which is the most there can be: {FEWER}")]
    NoRoom,
    #[error("{0}")]
    Refused(String),
}

impl From<String> for OpenError {
    fn from(reason: String) -> Self {
        Self::Refused(reason)
    }
}

/// What is written, and as whose.
pub(super) struct Offer<'a> {
    pub(super) topic: &'a TopicName,
    pub(super) crossing: &'a Crossing,
    pub(super) qos: EndpointQos,
    /// Samples for those who come late.
    pub(super) depth: u32,
    /// How long a sample waits for reliable readers.
    pub(super) max_blocking: Duration,
    pub(super) lifespan: Option<Duration>,
    /// Who publishes here; `None`: it passes from the other profile.
    pub(super) publisher: Option<NodeName>,
    /// In the ROS graph.
    pub(super) node: RosNode,
}

enum Writer {
    /// The writer ends before its topic.
    Dds {
        writer: dds::Writer,
        _topic: dds::Entity,
    },
    Zenoh(Box<zenoh::Writer>),
}

/// See the module. Others see it come and go.
pub(super) struct Outlet {
    writer: Writer,
    number: u64,
    common: Arc<Common>,
}

impl Outlet {
    /// Whether the gateway can have one more.
    pub(super) fn has_room(common: &Common) -> bool {
        lock(&common.writings).len() < MAX_WRITERS
    }

    pub(super) fn open(common: &Arc<Common>, profile: Profile, offer: Offer<'_>) -> Result<Self, OpenError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        if !Self::has_room(common) {
            return Err(OpenError::NoRoom);
        }
        let Offer { topic, crossing, qos, depth, .. } = offer;
        let (type_name, text) = (crossing.ros.dds(), |e: dds::DdsError| e.to_string());
        let mut hash = String::new();
        let (writer, gid) = match profile {
            Profile::Dds => {
                let config = dds::EndpointConfig {
                    qos,
                    // Where nothing shall be lost, a writer waits instead of forgetting what is not acknowledged.
                    history: match qos.reliability {
                        Reliability::Reliable => dds::History::KeepAll { limit: UNACKNOWLEDGED.max(depth), late: depth },
                        Reliability::BestEffort => dds::History::KeepLast(depth),
                    },
                    max_blocking: offer.max_blocking,
                    lifespan: offer.lifespan,
                    user_data: &endpoint_user_data(crossing.hash, common.spec.release),
                };
                let name = dds_topic(topic).ok_or_else(|| "ROS 2 does not permit its name: rename it".to_owned())?;
                let topic = common.dds()?.topic(&name, &type_name).map_err(text)?;
                let writer = common.dds()?.writer(&topic, &config).map_err(text)?;
                let gid = writer.entity.gid().map_err(text)?;
                (Writer::Dds { writer, _topic: topic }, gid)
            }
            Profile::Zenoh => {
                hash = key_hash(crossing.hash, common.spec.release).ok_or_else(|| {
                    format!("the definition of {} is not complete, so its hash is not known; name its packages under `types`", crossing.ros)
                })?;
                let qos = TokenQos { endpoint: qos, keep_all: false, depth, lifespan: offer.lifespan };
                let config = zenoh::WriterConfig { topic, type_name: &type_name, hash: &hash, qos, node: &offer.node };
                let writer = common.zenoh()?.writer(&config)?;
                let gid = writer.gid();
                (Writer::Zenoh(Box::new(writer)), gid)
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
            node: offer.node,
            qos,
        };
        lock(&common.writings).push(writing);
        common.wake();
        Ok(Self { writer, number, common: common.clone() })
    }

    /// Hands a sample over, in parts whose lengths add up to a multiple of 4. `slot`: what parts lie in that may be kept for a while.
    /// `source_timestamp`: on the wall clock, in nanoseconds; DDS takes the time of the call. May wait for readers.
    pub(super) fn write(&self, parts: &[&[u8]], slot: Option<&Bytes>, source_timestamp: i64) -> Result<(), String> {
        match &self.writer {
            Writer::Dds { writer, .. } => writer.write(parts).map_err(|e| e.to_string()),
            Writer::Zenoh(writer) => writer.write(parts, slot, source_timestamp),
        }
    }
}

impl Drop for Outlet {
    fn drop(&mut self) {
        lock(&self.common.writings).retain(|w| w.number != self.number);
        self.common.wake();
    }
}
