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

/// Session, participant and further state of a gateway, used by both directions.
pub(super) struct GatewayState {
    pub(super) session: Session,
    /// Dropped after the session, which runs in it.
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
    /// Samples that routes are handing to Zenoh, by the start number of the receiving gateway.
    pub(super) under_way: InFlight<u64>,
    /// Size of a route's window: a further sample is sent only while fewer bytes are in flight.
    pub(super) window_bytes: usize,
}

impl GatewayState {
    pub(super) fn log(&self, line: String) {
        self.notices.log(line);
    }

    /// Declares a token. It exists until the result is dropped.
    pub(super) fn token(&self, what: &Parsed) -> Option<LivelinessToken> {
        let key = self.keys.key(what);
        match self.session.liveliness().declare_token(key.clone()).wait() {
            Ok(token) => Some(token),
            Err(e) => {
                self.log(format!("cannot announce '{key}': {}", zenoh_says(&e)));
                None
            }
        }
    }
}

impl Drop for GatewayState {
    fn drop(&mut self) {
        // A large sample on a slow link would keep the session open until it is sent.
        self.under_way.give_up(&self.session);
        // Zenoh's callbacks hold the session, too. Without this, it would stay open without a
        // gateway.
        let _ = self.session.close().wait();
    }
}
