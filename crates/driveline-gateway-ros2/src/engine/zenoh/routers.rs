// SPDX-License-Identifier: Apache-2.0
//! Presence of routers. Without a router, nodes on rmw_zenoh do not find each other. Zenoh retries
//! a missing router silently, so only this reports it.

use std::time::{Duration, Instant};

/// Time after which a missing router is logged. All processes start together, and the gateway may
/// be the first.
const MISSED_AFTER: Duration = Duration::from_secs(3);
/// Pause between checks.
const CHECK_EVERY: Duration = Duration::from_secs(1);

/// Observed routers.
pub(super) struct Routers {
    next: Instant,
    away_since: Instant,
    /// True if there was a router.
    met: bool,
    reported: bool,
}

impl Routers {
    pub(super) fn new(now: Instant) -> Self {
        Self { next: now, away_since: now, met: false, reported: false }
    }

    /// Returns true if a router is missing and this was logged.
    pub(super) fn is_missing(&self) -> bool {
        self.reported
    }

    /// Returns the line to log, if there is one. `connects`: configured routers; empty if others
    /// connect to the gateway. `neighbours`: returns the number of routers and peers, called once a
    /// second.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        connects: &[String],
        neighbours: impl FnOnce() -> (usize, usize),
    ) -> Option<String> {
        if connects.is_empty() || now < self.next {
            return None;
        }
        self.next = now + CHECK_EVERY;
        let (routers, peers) = neighbours();
        // If there never was a router, nodes may have connected without one, by their own
        // addresses.
        if routers > 0 || (peers > 0 && !self.met) {
            self.met |= routers > 0;
            self.away_since = now;
            return std::mem::take(&mut self.reported)
                .then(|| "a Zenoh router or node is reached".to_owned());
        }
        let missed = now.saturating_duration_since(self.away_since) >= MISSED_AFTER;
        if !missed || std::mem::replace(&mut self.reported, true) {
            return None;
        }
        Some(format!(
            "no Zenoh router answers at {}: nodes on rmw_zenoh find each other, and the gateway, \
             through it; start it (`ros2 run rmw_zenoh_cpp rmw_zenohd`), \
             or name where it is under `ros2: zenoh: connect`. The gateway goes on trying",
            connects.join(", ")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_router_and_its_return_are_logged_once() {
        let start = Instant::now();
        let at = |s: u64| start + Duration::from_secs(s);
        let connects = ["tcp/localhost:7447".to_owned()];
        let mut routers = Routers::new(start);
        let mut poll = |s: u64, routers_there, peers| {
            routers.poll(at(s), &connects, || (routers_there, peers))
        };
        assert_eq!((poll(0, 0, 0), poll(2, 0, 0)), (None, None), "it may be starting");
        assert!(poll(3, 0, 0).unwrap().contains("no Zenoh router answers at tcp/localhost:7447"));
        assert_eq!(poll(60, 0, 0), None);
        assert!(poll(61, 1, 2).unwrap().contains("reached"));
        assert_eq!(
            (poll(62, 1, 2), poll(63, 0, 2), poll(64, 0, 2)),
            (None, None, None),
            "it may be restarted"
        );
        assert!(poll(66, 0, 2).is_some(), "existing connections stay, and no new node is found");
    }

    #[test]
    fn without_need_for_a_router_none_is_mentioned() {
        let start = Instant::now();
        let mut routers = Routers::new(start);
        for s in 0..100 {
            let now = start + Duration::from_secs(s);
            assert_eq!(routers.poll(now, &[], || (0, 0)), None);
            assert_eq!(
                routers.poll(now, &["tcp/10.0.0.1:7447".into()], || (0, 1)),
                None,
                "a node by its own address"
            );
        }
    }
}
