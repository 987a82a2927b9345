// SPDX-License-Identifier: Apache-2.0
//! State that both directions of the gateway share.

use super::events::Inbox;
use super::time::Questions;
use crate::wire::{HostId, Keys, Parsed};
use driveline_gateway::{Notices, zenoh_says};
use driveline_shm::{Kicker, Participant};
use driveline_types::NodeName;
use driveline_zenoh::{InFlight, OwnRuntime};
use std::sync::Arc;
use zenoh::liveliness::LivelinessToken;
use zenoh::{Session, Wait};

/// Session, participant and counters of a gateway, used by both directions.
pub(super) struct GatewayState {
    pub(super) session: Session,
    /// Behind the session, which runs in it.
    pub(super) _runtime: OwnRuntime,
    pub(super) participant: Participant,
    pub(super) node: NodeName,
    pub(super) keys: Keys,
    pub(super) me: HostId,
    pub(super) kicker: Kicker,
    pub(super) inbox: Arc<Inbox>,
    pub(super) notices: Arc<Notices>,
    /// Times of the last requests for hosts' clocks.
    pub(super) questions: Questions,
    /// Samples that routes are handing to Zenoh, by the start of the gateway that they go to.
    pub(super) under_way: InFlight<u64>,
    /// Bytes that a route may have in flight before its last sample.
    pub(super) window_bytes: usize,
}

impl GatewayState {
    pub(super) fn tell(&self, line: String) {
        self.notices.tell(line);
    }

    /// A token, as long as what is returned exists.
    pub(super) fn token(&self, what: &Parsed) -> Option<LivelinessToken> {
        let key = self.keys.key(what);
        match self.session.liveliness().declare_token(key.clone()).wait() {
            Ok(token) => Some(token),
            Err(e) => {
                self.tell(format!("cannot announce '{key}': {}", zenoh_says(&e)));
                None
            }
        }
    }
}

impl Drop for GatewayState {
    fn drop(&mut self) {
        // A large sample on a slow link would keep the session open for as long as that takes.
        self.under_way.give_up(&self.session);
        // Zenoh's callbacks hold the session, too; it would continue without a gateway to answer
        // for it.
        let _ = self.session.close().wait();
    }
}
