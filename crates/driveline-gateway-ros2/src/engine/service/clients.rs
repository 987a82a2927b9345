// SPDX-License-Identifier: Apache-2.0
//! ROS 2 clients known from discovery, to detect clients that went away before their response.

use crate::discovery_info::Gid;
use crate::engine::lock;
use std::collections::HashSet;
use std::sync::Mutex;

/// Written by the control thread.
#[derive(Default)]
pub(super) struct Present(Mutex<HashSet<Gid>>);

/// Presence of a client when its request arrived. For unknown clients, it cannot be known whether
/// they have gone.
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

    /// Returns true if it was present, and is not any more.
    pub(super) fn has_gone(&self, client: Seen) -> bool {
        client.seen && !lock(&self.0).contains(&client.client)
    }
}
