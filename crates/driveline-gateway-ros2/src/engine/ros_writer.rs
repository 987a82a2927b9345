// SPDX-License-Identifier: Apache-2.0
//! Writer towards ROS 2 over one middleware. Over DDS it never delays its caller: it keeps the last
//! few samples, as rclcpp does. Over rmw_zenoh, writing waits for a full link: on a thread of its
//! own if `apart` is set, otherwise on the caller's thread.

use super::endpoint::{Profile, Writing};
use super::waiting::Waiting;
use super::{FEWER, lock};
use crate::discovery_info::Gid;
use crate::names::RosNode;
use crate::qos::EndpointQos;
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
    /// Number of samples that the writer keeps, for reliable readers that have not acknowledged
    /// them and for late joiners.
    pub(super) depth: u32,
    pub(super) lifespan: Option<Duration>,
    /// True if a full link must delay only this writer.
    pub(super) apart: bool,
    /// Local publisher; `None`: the samples come from the other profile.
    pub(super) publisher: Option<NodeName>,
    /// Offer of that publisher.
    pub(super) offered: Option<Qos>,
    /// Remark, if that publisher offers less QoS than this writer offers in ROS 2.
    pub(super) weaker: Option<String>,
    /// Node in the ROS graph.
    pub(super) node: RosNode,
}

/// Outcome of a written sample.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    /// Number of earlier samples that were replaced and may be lost: over DDS, if an
    /// acknowledgement was overdue; over rmw_zenoh, if no link had space for them yet.
    pub(super) replaced: u64,
    /// Number of earlier samples that were not written, and reason for the last of them.
    pub(super) failed: u64,
    pub(super) why: String,
}

/// See the module.
pub(super) trait RosWriter: Send + Sync {
    /// Writes a sample from parts whose lengths add up to a multiple of 4. `slot`: buffer that
    /// contains some of the parts, if the writer may hold it for a while. `source_timestamp`: on
    /// the wall clock, in nanoseconds; DDS uses the time of the call. With rmw_zenoh the call waits
    /// for a full link, unless the writer has a thread of its own.
    fn write(
        &self,
        parts: &[&[u8]],
        slot: Option<&Bytes>,
        source_timestamp: i64,
    ) -> Result<Written, String>;
}

/// List of the gateway's writers, and the control thread, which sees them appear and go.
#[derive(Clone, Copy)]
pub(super) struct WriterList<'a> {
    pub(super) writings: &'a Arc<Mutex<Vec<Writing>>>,
    pub(super) control_thread: &'a Arc<Waiting>,
}

impl WriterList<'_> {
    /// Returns true if the gateway can have another writer.
    pub(super) fn has_room(self) -> bool {
        lock(self.writings).len() < MAX_WRITERS
    }

    /// Adds a writer. `hash`: over Zenoh, the hash in its keys.
    pub(super) fn add(self, profile: Profile, gid: Gid, hash: String, offer: Offer<'_>) -> Listed {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (number, crossing) = (NEXT.fetch_add(1, Ordering::Relaxed), offer.crossing);
        lock(self.writings).push(Writing {
            number,
            profile,
            gid,
            topic: offer.topic.clone(),
            type_name: crossing.ros.dds(),
            hash,
            type_hash: crossing.hash,
            ros_type: crossing.ros.to_string(),
            converted: crossing.kind.is_some(),
            publisher: offer.publisher,
            offered: offer.offered,
            weaker: offer.weaker,
            node: offer.node,
            qos: offer.qos,
        });
        self.control_thread.wake();
        let (writings, control_thread) = (self.writings.clone(), self.control_thread.clone());
        Listed { writings, number, control_thread }
    }
}

/// Entry of a writer in the list, until it is dropped.
pub(super) struct Listed {
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
