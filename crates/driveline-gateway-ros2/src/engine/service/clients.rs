// SPDX-License-Identifier: Apache-2.0
//! ROS 2 clients known from discovery. Detects clients that left before their response.

use crate::discovery_info::Gid;
use crate::engine::lock;
use std::collections::HashSet;
use std::sync::Mutex;

/// Ids of present clients, updated by the control thread.
#[derive(Default)]
pub(super) struct Present(Mutex<HashSet<Gid>>);

/// Presence of a client when its request arrived. If discovery did not know the client, its
/// departure cannot be detected.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    client: Gid,
    seen: bool,
}

impl Present {
    pub(super) fn set(&self, clients: HashSet<Gid>) {
        *lock(&self.0) = clients;
    }

    pub(super) fn see(&self, client: Gid) -> Seen {
        Seen { client, seen: lock(&self.0).contains(&client) }
    }

    /// Returns true if the client was present and has left.
    pub(super) fn has_gone(&self, client: Seen) -> bool {
        client.seen && !lock(&self.0).contains(&client.client)
    }
}
