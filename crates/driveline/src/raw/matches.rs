// SPDX-License-Identifier: Apache-2.0
//! View of the publishers of a subscription. A server needs it because an executor owns its
//! subscription.

use super::RawSample;
use crate::local::{LocalEnd, LocalTopic};
use crate::options::Reach;
use driveline_shm::Kicker;
use driveline_types::service::ShortId;
use std::sync::Arc;

/// View of a subscription's publishers. Any thread.
pub(crate) struct Matches {
    local: Option<(Arc<LocalTopic>, Arc<LocalEnd>)>,
    host: Option<driveline_shm::Publishers>,
}

/// A matched publisher.
pub(crate) struct Writer {
    pub(crate) id: ShortId,
    pub(crate) node: String,
    /// Depth of its history.
    pub(crate) depth: u32,
    /// Reach over which its samples come.
    pub(crate) reach: Reach,
}

impl Matches {
    pub(super) fn new(
        local: Option<(Arc<LocalTopic>, Arc<LocalEnd>)>,
        host: Option<driveline_shm::Publishers>,
    ) -> Self {
        Self { local, host }
    }

    /// Returns a number that changes when a publisher is matched or departs. Two atomic loads.
    pub(crate) fn generation(&self) -> u64 {
        // Both numbers only grow, so each change also changes their sum.
        let local = self.local.as_ref().map_or(0, |(topic, _)| topic.generation());
        local.wrapping_add(self.host.as_ref().map_or(0, driveline_shm::Publishers::generation))
    }

    /// Kicks `kicker` when publishers inside the process are created or dropped. For publishers of
    /// other processes, the host transport ends the wait of the subscription's wait set.
    pub(crate) fn kick_on_change(&self, kicker: &Kicker) {
        if let Some((_, end)) = &self.local {
            end.kick_on_event(kicker.clone());
        }
    }

    /// Returns the matched publishers. Locks and allocates.
    pub(crate) fn writers(&self) -> Vec<Writer> {
        let local = self.local.iter().flat_map(|(topic, end)| topic.writing_peers(end));
        let inside = local.map(|p| Writer {
            id: ShortId(p.id),
            node: p.node,
            depth: p.depth,
            reach: Reach::Process,
        });
        let host = self.host.iter().flat_map(driveline_shm::Publishers::list);
        let outside = host.map(|p| Writer {
            id: p.publisher.into(),
            node: p.node.to_string(),
            depth: p.qos.depth,
            reach: Reach::Host,
        });
        inside.chain(outside).collect()
    }

    /// If no publisher is matched, returns the reason why an existing publisher cannot be matched.
    pub(crate) fn misfit(&self) -> Option<String> {
        let local = || self.local.as_ref().and_then(|(topic, end)| topic.refusal_of(end));
        let misfit = self.host.as_ref().and_then(driveline_shm::Publishers::misfit).or_else(local);
        misfit.filter(|_| self.writers().is_empty())
    }

    /// Notifies the publisher of a sample inside the process that the sample was taken. For other
    /// processes, the transport does so.
    pub(crate) fn note_taken(&self, sample: &RawSample) {
        if let (true, Some((_, end))) = (sample.is_local(), &self.local) {
            end.note_taken(sample.publisher().0, sample.header().sequence);
        }
    }
}
