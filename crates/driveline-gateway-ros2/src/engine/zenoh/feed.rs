// SPDX-License-Identifier: Apache-2.0
//! Samples of one topic over Zenoh.

use super::endpoint::Reader;
use super::inbox::Inbox;
use super::{Announced, Session};
use crate::convert::Pieces;
use crate::engine::endpoint::{Endpoint, Handle, handle_of};
use crate::engine::feed::{Came, Feed, ReaderKey, Readers, kept, longest};
use crate::engine::lock;
use crate::names::RosNode;
use crate::qos::ReaderClass;
use crate::types::Crossing;
use driveline_gateway::ros2::Rule;
use driveline_types::{Durability, TopicName};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::bytes::ZBytes;

/// Time for which samples may still arrive over Zenoh after the message that their publisher has
/// gone. That message has a higher priority on links and overtakes the samples.
pub(in crate::engine) const GRACE: Duration = Duration::from_secs(1);

/// Maximum number of local nodes that are shown as subscriptions of a topic. For others, ROS 2 sees
/// the gateway.
const MOST_SHOWN: usize = 64;

/// See the module.
pub(in crate::engine) struct ZenohFeed {
    readers: Readers<Reader>,
    inbox: Arc<Inbox>,
    /// Local nodes that are shown as subscriptions of each reader.
    shown: Mutex<BTreeMap<(ReaderKey, RosNode), Announced>>,
    session: Arc<Session>,
}

/// Returns a payload without a copy. `list` is for payloads in several pieces.
pub(in crate::engine) fn pieces<'a>(
    payload: &'a ZBytes,
    list: &'a mut Vec<&'a [u8]>,
) -> Pieces<'a> {
    let mut slices = payload.slices();
    let first = slices.next().unwrap_or_default();
    let Some(second) = slices.next() else { return first.into() };
    list.extend([first, second].into_iter().chain(slices));
    Pieces::from(list.as_slice())
}

impl ZenohFeed {
    /// Makes a feed without readers. Payloads longer than the rule permits are not stored.
    pub(in crate::engine) fn new(session: &Arc<Session>, rule: &Rule) -> Self {
        let kept = kept(rule.max_payload_bytes());
        let inbox = Arc::new(Inbox::new(kept as usize, longest(rule)));
        let (readers, shown, session) = (Readers::default(), Mutex::default(), session.clone());
        Self { readers, inbox, shown, session }
    }
}

impl Feed for ZenohFeed {
    fn kept(&self) -> u64 {
        self.inbox.limit() as u64
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    /// A router may lead to any host.
    fn same_clock(&self) -> bool {
        false
    }

    fn read(&self, of: &Endpoint, class: ReaderClass, _: &Crossing) -> Result<(), String> {
        let key = (class, of.type_name.clone(), of.hash.clone());
        if let Entry::Vacant(none) = lock(&self.readers).entry(key) {
            none.insert(self.session.reader(of, class, &RosNode::gateway(), &self.inbox)?);
        }
        Ok(())
    }

    fn history(&self, of: &Endpoint, class: ReaderClass) -> Result<(), String> {
        if class.durability == Durability::Volatile {
            return Ok(());
        }
        self.session.history(of, class, &self.inbox)
    }

    fn waits_no_more(&self, writer: Handle) {
        self.inbox.waits_no_more(writer);
    }

    fn parted(&self, writer: Handle) {
        self.inbox.parted(writer);
    }

    fn take(&self, each: &mut dyn FnMut(&Came<'_>)) -> Result<bool, String> {
        let Some(arrived) = self.inbox.take() else { return Ok(false) };
        let mut list = Vec::new();
        let sample =
            arrived.payload.as_ref().map(|payload| pieces(payload, &mut list)).map_err(|len| *len);
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

    /// Losses in transit are not included: the sequence numbers of later samples show them.
    fn losses(&self) -> [(&'static str, u64); 2] {
        let (rejected, malformed) = self.inbox.losses();
        [("rejected", rejected), ("attachment", malformed)]
    }

    fn wait(&self, longest: Duration) -> Result<(), String> {
        self.inbox.signal.wait(longest);
        Ok(())
    }

    fn wake(&self) {
        self.inbox.signal.raise();
    }

    fn show(&self, topic: &TopicName, nodes: &BTreeSet<RosNode>) {
        let readers = lock(&self.readers);
        let mut shown = lock(&self.shown);
        shown.retain(|(key, node), _| readers.contains_key(key) && nodes.contains(node));
        for key in readers.keys() {
            for node in nodes.iter().take(MOST_SHOWN) {
                let Entry::Vacant(none) = shown.entry((key.clone(), node.clone())) else {
                    continue;
                };
                let (class, type_name, hash) = key;
                // If Zenoh refuses it, samples still pass, and it is retried.
                if let Ok(announced) =
                    self.session.show_reader(topic, *class, (type_name, hash), node)
                {
                    none.insert(announced);
                }
            }
        }
    }
}
