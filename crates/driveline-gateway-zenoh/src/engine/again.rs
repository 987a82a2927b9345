// SPDX-License-Identifier: Apache-2.0
//! Connects again to hosts that were found through others: see [`crate::neighbours`]. Each attempt is a task among Zenoh's own, and the same call by which Zenoh connects to whoever it is
//! told of: it makes no second connection, and ends after the time-out for opening one.

use super::lock;
use super::session::Opened;
use crate::neighbours::{Made, Neighbours, Standing};
use crate::wire::HostId;
use driveline_shm::Kicker;
use driveline_types::MonotonicNs;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use zenoh::Wait;
use zenoh::config::{Locator, ZenohId};
use zenoh::internal::runtime::{Runtime, ZRuntime};
use zenoh::sample::SampleKind;

/// What the identity of a gateway's session begins with. The number of its start follows, which its tokens have, too: so it is known of which host a connection was.
const MARK: &str = "d1";

/// The identity of the session of a gateway.
pub(super) fn identity(me: &HostId) -> String {
    format!("{MARK}{:016x}", me.incarnation())
}

/// The number of the start of the gateway whose session has this identity, if one of this version's has.
fn start_of(identity: &str) -> Option<u64> {
    let number = identity.strip_prefix(MARK).filter(|number| number.len() == 16)?;
    u64::from_str_radix(number, 16).ok()
}

/// One attempt to connect, which is going on as long as its task holds it.
#[derive(Default)]
struct Attempt {
    connected: AtomicBool,
}

/// See the module.
pub(super) struct Again {
    runtime: Runtime,
    neighbours: Arc<Mutex<Neighbours>>,
    attempts: BTreeMap<u64, Arc<Attempt>>,
}

impl Again {
    /// Begins to watch the connections of a session that was opened just now. `None`, and why: Zenoh does not tell of them.
    pub(super) fn new(opened: &Opened, me: &HostId, connects: &[String], kicker: Kicker) -> zenoh::Result<Self> {
        let neighbours = Arc::new(Mutex::new(Neighbours::new(me.incarnation())));
        let (runtime, info) = (opened.runtime.clone(), opened.session.info());
        let own: Vec<String> = runtime.get_locators().iter().map(|locator| locator.as_str().to_owned()).collect();
        let of_tokens = |zid: &ZenohId| start_of(&zid.to_string());
        let configured: Vec<String> = connects.iter().map(|endpoint| place(endpoint).to_owned()).collect();
        let known = neighbours.clone();
        let links = info.link_events_listener().history(true).callback(move |event| {
            let link = event.link();
            let Some(start) = of_tokens(link.zid()) else { return };
            let (at, accepted, now) = (place(link.dst().as_str()), is_accepted(link.src().as_str(), &own), MonotonicNs::now());
            let mut known = lock(&known);
            match event.kind() {
                SampleKind::Put if accepted => known.connected(start, Made::There, now),
                // Zenoh sees to those.
                SampleKind::Put if configured.iter().any(|c| c == at) => known.is_connected(start),
                SampleKind::Put => known.connected(start, Made::Here(at.to_owned()), now),
                SampleKind::Delete if accepted => known.call_ended(start, now),
                SampleKind::Delete => {}
            }
        });
        links.background().wait()?;
        let known = neighbours.clone();
        let transports = info.transport_events_listener().history(false).callback(move |event| {
            if let (SampleKind::Delete, Some(start)) = (event.kind(), of_tokens(event.transport().zid())) {
                lock(&known).lost(start, MonotonicNs::now());
                kicker.kick();
            }
        });
        transports.background().wait()?;
        Ok(Self { runtime, neighbours, attempts: BTreeMap::new() })
    }

    /// Tries what is to be tried. Waits for nothing. Gives when to look again.
    pub(super) fn look(&mut self, now: MonotonicNs, standing: impl Fn(u64) -> Standing) -> Option<MonotonicNs> {
        let mut neighbours = lock(&self.neighbours);
        self.attempts.retain(|start, attempt| {
            if attempt.connected.load(Ordering::Acquire) {
                neighbours.is_connected(*start);
            }
            Arc::strong_count(attempt) > 1
        });
        let (due, next) = neighbours.due(now, standing);
        drop(neighbours);
        for (start, at) in due {
            if !self.attempts.contains_key(&start) {
                self.attempts.extend(self.try_once(start, &at).map(|attempt| (start, attempt)));
            }
        }
        next
    }

    fn try_once(&self, start: u64, at: &str) -> Option<Arc<Attempt>> {
        let (zid, at): (ZenohId, Locator) = (format!("{MARK}{start:016x}").parse().ok()?, at.parse().ok()?);
        let attempt = Arc::new(Attempt::default());
        let (of_task, runtime) = (attempt.clone(), self.runtime.clone());
        ZRuntime::Net.spawn(async move {
            let end = runtime.get_cancellation_token();
            let (zid, places) = (zid.into(), [at]);
            let connected = end.run_until_cancelled(runtime.connect_peer(&zid, &places)).await;
            // Pairs with the Acquire in `look`; nothing else hangs on it.
            of_task.connected.store(connected == Some(true), Ordering::Release);
        });
        Some(attempt)
    }
}

/// A protocol and an address, without metadata and settings.
fn place(endpoint: &str) -> &str {
    endpoint.split(['?', '#']).next().unwrap_or(endpoint)
}

/// Whether a connection was made by the other end: here it has the port, or the path, where this host listens.
fn is_accepted(here: &str, listens: &[String]) -> bool {
    let port = |endpoint: &str| {
        let (protocol, address) = place(endpoint).split_once('/').unwrap_or_default();
        (protocol.to_owned(), address.rsplit_once(':').map_or(address, |(_, port)| port).to_owned())
    };
    listens.iter().any(|listens| port(listens) == port(here))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_identity_of_a_session_says_which_start_of_a_gateway_it_is_of() {
        for number in [0, 1, 0xffff_0000_1234_5678, u64::MAX] {
            let identity = identity(&HostId::new("car", number).unwrap());
            let zid: ZenohId = identity.parse().unwrap();
            assert_eq!(start_of(&zid.to_string()), Some(number), "{zid}");
        }
        for other in ["", "d1", "d11", "5c0e8ad9b2a7e3f15c0e8ad9b2a7e3f1", "d1zzzzzzzzzzzzzzzz", "d100000000000000011"] {
            assert_eq!(start_of(other), None, "{other}");
        }
    }

    #[test]
    fn what_the_other_end_has_made_has_the_port_where_this_host_listens() {
        let listens = ["tcp/10.0.0.1:7450".to_owned(), "tls/[::1]:7451".into(), "unixsock-stream//run/car".into()];
        for accepted in ["tcp/10.0.0.9:7450", "tls/[fe80::1]:7451?rel=1", "unixsock-stream//run/car"] {
            assert!(is_accepted(accepted, &listens), "{accepted}");
        }
        for made in ["tcp/10.0.0.1:41234", "tcp/10.0.0.1:7451", "udp/10.0.0.1:7450", "unixsock-stream//run/other"] {
            assert!(!is_accepted(made, &listens), "{made}");
        }
    }
}
