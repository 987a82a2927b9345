// SPDX-License-Identifier: Apache-2.0
//! Reconnects to hosts that were found through others. [`crate::neighbours`] decides to which hosts
//! and when; [`driveline_zenoh::Attempts`] connects.

use super::lock;
use crate::neighbours::{Made, Neighbours, Standing};
use crate::wire::HostId;
use driveline_types::MonotonicNs;
use driveline_zenoh::{Attempts, Ends, InFlight, MadeBy, Opened};
use std::sync::{Arc, Mutex};
use zenoh::Wait;
use zenoh::config::ZenohId;
use zenoh::sample::SampleKind;

/// Prefix of the identity of a gateway's session. The number of its start follows, as in its
/// tokens, so the host of a connection is known.
const MARK: &str = "d1";

/// An attempt to a host that others report begins only while fewer attempts than this are in
/// progress: half of the maximum.
const MAX_MEETING: usize = 32;

/// Returns the identity of the session of a gateway.
pub(super) fn identity(me: &HostId) -> String {
    identity_of(me.incarnation())
}

fn identity_of(start: u64) -> String {
    format!("{MARK}{start:016x}")
}

/// Returns the start number of the gateway whose session has this identity; `None` if it is not a
/// gateway of this version.
pub(super) fn start_of(identity: &str) -> Option<u64> {
    let number = identity.strip_prefix(MARK).filter(|number| number.len() == 16)?;
    u64::from_str_radix(number, 16).ok()
}

/// See the module.
pub(super) struct Reconnect {
    neighbours: Arc<Mutex<Neighbours>>,
    attempts: Attempts<u64>,
}

impl Reconnect {
    /// Watches the connections of a session that was just opened. `under_way`: messages passed to
    /// them. `wake`: triggers a check. Fails with the reason if Zenoh does not report connections.
    pub(super) fn new(
        opened: &Opened,
        me: &HostId,
        connects: &[String],
        under_way: InFlight<u64>,
        wake: impl Fn() + Send + Sync + 'static,
    ) -> zenoh::Result<Self> {
        let neighbours = Arc::new(Mutex::new(Neighbours::new(me.incarnation())));
        let info = opened.session.info();
        let of_tokens = |zid: &ZenohId| start_of(&zid.to_string());
        let (known, ends) = (neighbours.clone(), Ends::new(&opened.runtime, connects));
        let links = info.link_events_listener().history(true).callback(move |event| {
            let (start, made_by, now) =
                (of_tokens(event.link().zid()), ends.made_by(event.link()), MonotonicNs::now());
            if let Some(start) = start {
                let mut known = lock(&known);
                match (event.kind(), made_by) {
                    (SampleKind::Put, MadeBy::OtherEnd) => known.connected(start, Made::There, now),
                    (SampleKind::Put, MadeBy::Configuration) => known.is_connected(start),
                    (SampleKind::Put, MadeBy::Told(at)) => {
                        known.connected(start, Made::Here(at), now)
                    }
                    (SampleKind::Delete, MadeBy::OtherEnd) => known.call_ended(start, now),
                    (SampleKind::Delete, _) => {}
                }
            }
            // Called last: it blocks.
            if event.kind() == SampleKind::Delete {
                under_way.end(event.link(), start.as_ref());
            }
        });
        links.background().wait()?;
        let known = neighbours.clone();
        let transports = info.transport_events_listener().history(false).callback(move |event| {
            if let (SampleKind::Delete, Some(start)) =
                (event.kind(), of_tokens(event.transport().zid()))
            {
                lock(&known).lost(start, MonotonicNs::now());
                wake();
            }
        });
        transports.background().wait()?;
        Ok(Self { neighbours, attempts: Attempts::new(&opened.runtime) })
    }

    /// Makes the attempts that are due. Does not block. Returns the time of the next check.
    pub(super) fn poll(
        &self,
        now: MonotonicNs,
        standing: impl Fn(u64) -> Standing,
    ) -> Option<MonotonicNs> {
        let (due, next) = lock(&self.neighbours).due(now, standing);
        for (start, at) in due {
            self.connect(start, &[at]);
        }
        next
    }

    /// Returns true if this host may try to connect to a reported host. Three conditions: no
    /// attempt to that host is in progress; fewer than `MAX_MEETING` attempts are in progress (a
    /// host that reports wrong addresses must not block reconnecting); and the connection to that
    /// host was not just lost, because one of the two hosts then reconnects to the last address
    /// anyway.
    pub(super) fn may_meet(&self, start: u64, now: MonotonicNs) -> bool {
        self.attempts.count() < MAX_MEETING
            && !self.attempts.go_on(&start)
            && !lock(&self.neighbours).is_sought(start, now)
    }

    /// Starts an attempt to connect to the gateway with this start number, unless one is in
    /// progress.
    pub(super) fn connect(&self, start: u64, at: &[String]) {
        if let Ok(id) = identity_of(start).parse() {
            self.attempts.begin(start, id, at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::session;
    use super::*;
    use crate::neighbours::AGAIN_EVERY;
    use driveline_namespaces::Port;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
    use std::time::{Duration, Instant};
    use zenoh::Config;
    use zenoh::internal::runtime::ZRuntime;

    fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
        let end = Instant::now() + Duration::from_secs(60);
        while !condition() {
            assert!(Instant::now() < end, "not {what}");
            // time: a pause between polls; only a time-out of a minute or more ends them
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Opens a session that listens at these endpoints and connects to no host.
    fn session(me: &HostId, listens: &[&str]) -> Opened {
        let mut config = Config::default();
        for (key, value) in [
            ("listen/endpoints", serde_json::json!(listens).to_string()),
            ("scouting/multicast/enabled", "false".into()),
        ] {
            config.insert_json5(key, &value).unwrap();
        }
        session::open(config, &identity(me)).unwrap()
    }

    /// Two hosts. One connects to the other in the same way as a gateway reconnects.
    struct Pair {
        of: HostId,
        at: String,
        _port: Port,
        other: Option<Opened>,
        opened: Opened,
        reconnect: Reconnect,
        /// Number of connections that have ended.
        ended: Arc<AtomicUsize>,
        /// While set, Zenoh's callback blocks after reporting an end.
        held: Arc<AtomicBool>,
    }

    impl Pair {
        fn new() -> Self {
            let [me, of] = [1, 2].map(|number| HostId::new("car", number).unwrap());
            let port = Port::new().unwrap();
            let at = port.endpoint();
            let opened = session(&me, &[]);
            let (ended, held) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
            let (of_wake, holds) = (ended.clone(), held.clone());
            let wake = move || {
                of_wake.fetch_add(1, SeqCst);
                // Zenoh's other tasks continue meanwhile.
                ZRuntime::Application
                    .block_in_place(async { eventually("released", || !holds.load(SeqCst)) });
            };
            let reconnect = Reconnect::new(&opened, &me, &[], InFlight::default(), wake).unwrap();
            let mut pair =
                Self { of, at, _port: port, other: None, opened, reconnect, ended, held };
            pair.open_other();
            eventually("connected", || {
                pair.try_once();
                pair.is_connected()
            });
            pair
        }

        fn open_other(&mut self) {
            self.other = Some(session(&self.of, &[&self.at]));
        }

        /// Ends the connection.
        fn close_other(&mut self) {
            let ended = self.ended.load(SeqCst);
            drop(self.other.take());
            eventually("reported the end", || self.ended.load(SeqCst) > ended);
            eventually("listed no longer", || self.held.load(SeqCst) || !self.is_connected());
        }

        /// Returns true if no attempt is in progress.
        fn all_tried(&self) -> bool {
            self.reconnect.attempts.count() == 0
        }

        fn is_connected(&self) -> bool {
            self.opened.session.info().peers_zid().wait().count() == 1
        }

        fn poll(&mut self, now: MonotonicNs) -> Option<MonotonicNs> {
            self.reconnect.poll(now, |_| Standing::Host)
        }

        /// Makes one attempt and waits for its end.
        fn try_once(&mut self) {
            self.reconnect.connect(self.of.incarnation(), std::slice::from_ref(&self.at));
            eventually("tried", || self.all_tried());
        }
    }

    #[test]
    fn a_connection_that_zenoh_reports_as_ended_and_still_lists_does_not_count() {
        let mut pair = Pair::new();
        pair.held.store(true, SeqCst);
        pair.close_other();
        let now = MonotonicNs::now();
        assert_eq!(pair.poll(now), Some(now + AGAIN_EVERY));
        eventually("tried", || pair.all_tried());
        assert_eq!(pair.poll(now + AGAIN_EVERY), Some(now + 2 * AGAIN_EVERY), "attempts continue");
        pair.held.store(false, SeqCst);
        pair.open_other();
        eventually("connected again, and that is all", || pair.poll(MonotonicNs::now()).is_none());
        assert!(pair.is_connected());
    }

    #[test]
    fn a_connection_that_ends_at_once_is_made_again() {
        let mut pair = Pair::new();
        pair.close_other();
        pair.open_other();
        let mut now = MonotonicNs::now();
        eventually("connected again", || {
            if pair.all_tried() && !pair.is_connected() {
                now = now + AGAIN_EVERY;
                pair.poll(now);
            }
            pair.all_tried() && pair.is_connected()
        });
        // No check was made since.
        pair.close_other();
        assert!(pair.poll(now).is_some(), "attempts continue");
        pair.open_other();
        eventually("connected once more", || pair.poll(MonotonicNs::now()).is_none());
        assert!(pair.is_connected());
    }

    #[test]
    fn the_identity_of_a_session_contains_the_start_of_its_gateway() {
        for number in [0, 1, 0xffff_0000_1234_5678, u64::MAX] {
            let identity = identity(&HostId::new("car", number).unwrap());
            let zid: ZenohId = identity.parse().unwrap();
            assert_eq!(start_of(&zid.to_string()), Some(number), "{zid}");
        }
        for other in [
            "",
            "d1",
            "d11",
            "5c0e8ad9b2a7e3f15c0e8ad9b2a7e3f1",
            "d1zzzzzzzzzzzzzzzz",
            "d100000000000000011",
        ] {
            assert_eq!(start_of(other), None, "{other}");
        }
    }
}
