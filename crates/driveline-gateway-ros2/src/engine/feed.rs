// SPDX-License-Identifier: Apache-2.0
//! Source of the samples of one topic, and what each middleware implements for it.

use super::dds::HEAD_BYTES;
use super::endpoint::{Endpoint, Handle};
use crate::convert::Pieces;
use crate::discovery_info::Gid;
use crate::names::RosNode;
use crate::qos::ReaderClass;
use crate::types::Crossing;
use driveline_gateway::ros2::Rule;
use driveline_types::TopicName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Size in bytes from which the number of samples that may wait for the thread of a topic is
/// computed; [`KEPT`] bounds that number.
const KEPT_BYTES: u64 = 128 << 20;
const KEPT: std::ops::RangeInclusive<u64> = 16..=MOST_KEPT;
/// Maximum number of waiting samples of a reader; over Zenoh, of a topic.
const MOST_KEPT: u64 = 4096;

/// Returns the number of samples of at most `longest` bytes that may wait.
pub(super) fn kept(longest: u64) -> u32 {
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
    /// Class of the reader that received it.
    pub(super) class: ReaderClass,
    /// Time of writing, on its writer's wall clock, in nanoseconds.
    pub(super) source_timestamp: i64,
    /// Its number among the samples of its writer, from 1, if announced.
    pub(super) number: Option<i64>,
    /// Number of samples of this class, from any writer, that did not arrive and that no header
    /// states yet. The remote publisher that counts a lost sample takes it from this number.
    pub(super) lost: &'a AtomicU64,
    /// Number of earlier samples of its writer that arrived but found no space. The gap in the
    /// sequence numbers includes them.
    pub(super) rejected: u64,
    /// The sample as it arrived; or its length, if it exceeds the limit for kept samples.
    pub(super) sample: Result<Pieces<'a>, usize>,
}

/// QoS, type and hash of a reader.
pub(super) type ReaderKey = (ReaderClass, String, String);

/// Readers of one topic.
pub(super) type Readers<T> = Mutex<BTreeMap<ReaderKey, T>>;

/// Source of the samples of one topic over one middleware. The thread of the topic takes samples;
/// the control thread adds readers.
pub(super) trait Feed: Send + Sync {
    /// Number of rounds of [`take`](Self::take) that are enough to take all samples that wait now.
    fn kept(&self) -> u64;

    /// Time for which samples of a departed writer may still arrive.
    fn grace(&self) -> Duration;

    /// Returns true if all samples come from this host.
    fn same_clock(&self) -> bool;

    /// Ensures that writers of this class, type and hash are read.
    fn read(&self, of: &Endpoint, class: ReaderClass, crossing: &Crossing) -> Result<(), String>;

    /// Requests the history that a writer of this class keeps for late joiners, so that it arrives
    /// before newer samples of the writer. By default, the writer sends it without a request.
    fn history(&self, _of: &Endpoint, _class: ReaderClass) -> Result<(), String> {
        Ok(())
    }

    /// Stops holding a writer's samples back for its history, because the writer is refused or
    /// gone.
    fn waits_no_more(&self, _writer: Handle) {}

    /// Notes that the remote publisher of a writer has ended, or that a writer without a remote
    /// publisher has gone.
    fn parted(&self, _writer: Handle) {}

    /// Takes at most one sample of each reader. `false`: there was none.
    fn take(&self, each: &mut dyn FnMut(&Came<'_>)) -> Result<bool, String>;

    /// Returns the number of samples that [`take`](Self::take) does not get, by reason.
    fn losses(&self) -> [(&'static str, u64); 2];

    /// Waits until a sample arrives or another thread wakes it, at most for this time.
    fn wait(&self, longest: Duration) -> Result<(), String>;

    /// Ends the running call of [`wait`](Self::wait), or the next one.
    fn wake(&self);

    /// Shows subscribing local nodes as subscriptions in the ROS graph, unless the control thread
    /// does this for all topics, with [`gids`](Self::gids).
    fn show(&self, _topic: &TopicName, _nodes: &BTreeSet<RosNode>) {}

    /// Ids of readers that the control thread announces in the ROS graph.
    fn gids(&self) -> Vec<Gid> {
        Vec::new()
    }
}
