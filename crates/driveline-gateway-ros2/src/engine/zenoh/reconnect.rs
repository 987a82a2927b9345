// SPDX-License-Identifier: Apache-2.0
//! Reconnects to nodes that were found through a router. [`super::neighbours`] decides to which
//! nodes and when; [`driveline_zenoh::Attempts`] connects.

use super::lock;
use super::neighbours::Neighbours;
use crate::engine::waiting::Waiting;
use driveline_zenoh::{Attempts, Ends, InFlight, MadeBy, Opened};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use zenoh::Wait;
use zenoh::config::{WhatAmI, ZenohId};
use zenoh::sample::SampleKind;

/// See the module.
pub(super) struct Reconnect {
    neighbours: Arc<Mutex<Neighbours>>,
    attempts: Attempts<ZenohId>,
}

impl Reconnect {
    /// Watches the connections of a session that was just opened. `under_way`: messages being
    /// passed to these connections. Wakes `waiting` when a connection ends.
    pub(super) fn new(
        opened: &Opened,
        connects: &[String],
        under_way: InFlight<()>,
        waiting: Arc<Waiting>,
    ) -> zenoh::Result<Self> {
        let neighbours = Arc::<Mutex<Neighbours>>::default();
        let info = opened.session.info();
        let (known, ends) = (neighbours.clone(), Ends::new(&opened.runtime, connects));
        let links = info.link_events_listener().history(true).callback(move |event| {
            if event.kind() == SampleKind::Delete {
                return under_way.end(event.link(), None);
            }
            let (id, mut known) = (*event.link().zid(), lock(&known));
            match ends.made_by(event.link()) {
                MadeBy::Told(at) => known.connected(id, &at, Instant::now()),
                // The address of a node that has made the connection is unknown. Zenoh itself
                // reconnects to endpoints under `connect`.
                MadeBy::OtherEnd | MadeBy::Configuration => known.is_connected(id),
            }
        });
        links.background().wait()?;
        let known = neighbours.clone();
        let transports = info.transport_events_listener().history(true).callback(move |event| {
            let (transport, mut known) = (event.transport(), lock(&known));
            match (event.kind(), transport.whatami()) {
                (SampleKind::Put, WhatAmI::Router) => {
                    known.router(*transport.zid(), Instant::now())
                }
                (SampleKind::Put, _) => return,
                (SampleKind::Delete, _) => known.lost(*transport.zid(), Instant::now()),
            }
            drop(known);
            waiting.wake();
        });
        transports.background().wait()?;
        Ok(Self { neighbours, attempts: Attempts::new(&opened.runtime) })
    }

    /// Makes the attempts that are due. Does not block. Returns the time of the next check.
    pub(super) fn poll(&self, now: Instant) -> Option<Instant> {
        let (due, next) = lock(&self.neighbours).due(now);
        for (id, at) in due {
            self.attempts.begin(id, id, &[at]);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::super::neighbours::AGAIN_EVERY;
    use super::*;
    use crate::engine::rig::eventually;
    use crate::engine::waiting::Signal;
    use driveline_namespaces::Port;
    use zenoh::Config;

    /// Opens a session that listens at these endpoints and connects to no node.
    fn session(id: &str, listens: &[&str]) -> Opened {
        let mut config = Config::default();
        let (id, listens) = (format!("'{id}'"), serde_json::json!(listens).to_string());
        for (key, value) in [
            ("id", id.as_str()),
            ("listen/endpoints", &listens),
            ("scouting/multicast/enabled", "false"),
        ] {
            config.insert_json5(key, value).unwrap();
        }
        Opened::new(config).unwrap()
    }

    #[test]
    fn a_node_that_was_connected_to_and_is_back_is_connected_to_again() {
        let port = Port::new().unwrap();
        let (at, node) = (port.endpoint(), "def");
        let own = session("abc", &[]);
        let reconnect = Reconnect::new(
            &own,
            &[],
            InFlight::default(),
            Arc::new(Waiting::Signal(Signal::default())),
        )
        .unwrap();
        let is_connected = || own.session.info().peers_zid().wait().count() == 1;
        let there = session(node, &[&at]);
        eventually("connected", || {
            let id = node.parse().unwrap();
            reconnect.attempts.begin(id, id, std::slice::from_ref(&at));
            eventually("tried", || reconnect.attempts.count() == 0);
            is_connected()
        });
        eventually("nothing to be done", || reconnect.poll(Instant::now()).is_none());
        drop(there);
        eventually("lost", || !is_connected() && reconnect.poll(Instant::now()).is_some());
        // time: longer than between two attempts; a slow machine makes fewer
        std::thread::sleep(2 * AGAIN_EVERY);
        assert!(reconnect.poll(Instant::now()).is_some(), "attempts continue");
        let there = session(node, &[&at]);
        eventually("connected again, and that is all", || reconnect.poll(Instant::now()).is_none());
        assert!(is_connected());
        drop(there);
    }
}
