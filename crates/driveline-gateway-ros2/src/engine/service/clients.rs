// SPDX-License-Identifier: Apache-2.0
//! Clients in ROS 2, as far as discovery tells of them: who has gone before the answer came.

use crate::discovery_info::Gid;
use crate::engine::lock;
use std::collections::HashSet;
use std::sync::Mutex;

/// Written by the conductor.
#[derive(Default)]
pub(super) struct Present(Mutex<HashSet<Gid>>);

/// Whether a client was seen when its request came: of others it is not known whether they have
/// gone.
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

    /// Whether it was there, and is not any more.
    pub(super) fn has_gone(&self, client: Seen) -> bool {
        client.seen && !lock(&self.0).contains(&client.client)
    }
}
