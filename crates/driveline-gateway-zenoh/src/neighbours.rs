// SPDX-License-Identifier: Apache-2.0
//! Hosts that this one is connected to, and those to reconnect to:
//! `docs/protocols/network-faults.md`. No thread, no network, no clock.
//!
//! Zenoh reconnects to endpoints under `connect`. It also connects to hosts that multicast or a
//! third host reports. If two hosts met in this way and lose only their own connection, no host
//! reports them again. So the host that made the connection reconnects, to the same address. Both
//! hosts may have connected, because each was reported to the other at once. Then only one of them
//! reconnects: Zenoh keeps both of two simultaneous connections.

use driveline_types::MonotonicNs;
use std::collections::BTreeMap;
use std::time::Duration;

/// Maximum number of hosts to reconnect to: as many as there may be connections.
pub const MAX_LOST: usize = 64;
/// Pause between two attempts, the same as for endpoints under `connect`. An attempt has its own
/// time-out.
pub const AGAIN_EVERY: Duration = Duration::from_millis(200);
/// Time after which this host stops reconnecting to a gateway that never announced itself in this
/// domain. It may belong to another domain, and this host would not notice its restart.
pub const STRANGER_FOR: Duration = Duration::from_secs(60);

/// Time during which only the host that made the connection reconnects, and only to the last
/// address. An attempt to a reported address would delay the attempt to the last one, and two
/// simultaneous attempts make two connections.
const SOUGHT_FOR: Duration = Duration::from_secs(30);
/// If a connection that the other host made ends this soon, the other host has dropped it, because
/// it had another connection at that moment. Such a host is not expected to reconnect.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// State of the gateway on the other side of a lost connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A host of this domain, or a former one.
    Host,
    /// A former host that has restarted: another start of the same host exists.
    Replaced,
    /// A gateway that never announced itself in this domain, or that was forgotten since.
    Stranger,
}

/// Host that has made a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// This host, to this address.
    Here(String),
    /// The other host, which knows an address of this one.
    There,
}

#[derive(Debug, Default)]
struct Neighbour {
    /// Address that this host has connected to.
    at: Option<String>,
    /// Time at which the other host connected to this one.
    calls: Option<MonotonicNs>,
    /// Time since which the connection is lost and this host is to reconnect.
    lost: Option<MonotonicNs>,
    /// Time since which the connection is lost and the other host is to reconnect.
    awaited: Option<MonotonicNs>,
    /// Earliest time of the next attempt. A new connection that ends soon does not change it.
    next: MonotonicNs,
}

/// Neighbours of this host, by start number: a random number that each start of a gateway draws.
#[derive(Debug)]
pub struct Neighbours {
    me: u64,
    all: BTreeMap<u64, Neighbour>,
}

impl Neighbours {
    /// Creates an empty table. `me`: start number of this gateway.
    pub fn new(me: u64) -> Self {
        Self { me, all: BTreeMap::new() }
    }

    /// Notes a new connection, and the host that made it.
    pub fn connected(&mut self, start: u64, made: Made, now: MonotonicNs) {
        let neighbour = self.all.entry(start).or_default();
        match made {
            Made::Here(at) => neighbour.at = Some(at),
            Made::There => neighbour.calls = Some(now),
        }
        (neighbour.lost, neighbour.awaited) = (None, None);
    }

    /// Returns true if the connection was lost so recently that one of the two hosts still
    /// reconnects to the last address, not to a reported one.
    pub fn is_sought(&self, start: u64, now: MonotonicNs) -> bool {
        self.all
            .get(&start)
            .and_then(|n| n.lost.or(n.awaited))
            .is_some_and(|since| now.since(since) < SOUGHT_FOR)
    }

    /// Notes that a connection exists, made by either host.
    pub fn is_connected(&mut self, start: u64) {
        if let Some(neighbour) = self.all.get_mut(&start) {
            (neighbour.lost, neighbour.awaited) = (None, None);
        }
    }

    /// Notes the end of a connection that the other host made.
    pub fn call_ended(&mut self, start: u64, now: MonotonicNs) {
        if let Some(neighbour) = self.all.get_mut(&start) {
            neighbour.calls.take_if(|since| now.since(*since) < REFUSED_WITHIN);
        }
    }

    /// Notes that no connection to a host remains.
    pub fn lost(&mut self, start: u64, now: MonotonicNs) {
        match self.all.get_mut(&start) {
            // If both hosts know each other's address, the host with the lower number reconnects.
            Some(n) if n.at.is_some() && (n.calls.is_none() || self.me < start) => {
                n.lost = Some(now)
            }
            Some(n) if n.calls.is_some() => {
                *n = Neighbour { awaited: Some(now), ..Neighbour::default() }
            }
            _ => drop(self.all.remove(&start)),
        }
        self.forget_longest(|n| n.lost);
        self.forget_longest(|n| n.awaited);
    }

    /// Forgets the neighbour that was lost first if there are too many in one state.
    fn forget_longest(&mut self, since: impl Fn(&Neighbour) -> Option<MonotonicNs>) {
        let all = || self.all.iter().filter_map(|(start, n)| Some((since(n)?, *start)));
        if all().count() > MAX_LOST
            && let Some((_, longest)) = all().min()
        {
            self.all.remove(&longest);
        }
    }

    /// Returns the hosts to connect to now with their addresses, and the time of the next check.
    /// Forgets replaced hosts, and strangers and awaited hosts after their time.
    pub fn due(
        &mut self,
        now: MonotonicNs,
        standing: impl Fn(u64) -> Standing,
    ) -> (Vec<(u64, String)>, Option<MonotonicNs>) {
        self.all.retain(|start, neighbour| {
            if let Some(since) = neighbour.awaited {
                return now.since(since) < SOUGHT_FOR;
            }
            let Some(since) = neighbour.lost else { return true };
            match standing(*start) {
                Standing::Host => true,
                Standing::Replaced => false,
                Standing::Stranger => now.since(since) < STRANGER_FOR,
            }
        });
        let (mut due, mut soonest) = (Vec::new(), None::<MonotonicNs>);
        for (start, neighbour) in &mut self.all {
            let (Some(_), Some(at)) = (neighbour.lost, &neighbour.at) else { continue };
            if now >= neighbour.next {
                due.push((*start, at.clone()));
                neighbour.next = now + AGAIN_EVERY;
            }
            soonest = Some(soonest.map_or(neighbour.next, |s| s.min(neighbour.next)));
        }
        (due, soonest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u64 = 100;

    fn at(ms: u64) -> MonotonicNs {
        MonotonicNs(ms * 1_000_000)
    }

    fn here() -> Made {
        Made::Here("tcp/10.0.0.2:7450".into())
    }

    fn due(neighbours: &mut Neighbours, ms: u64, standing: Standing) -> Vec<u64> {
        neighbours.due(at(ms), |_| standing).0.into_iter().map(|(start, _)| start).collect()
    }

    #[test]
    fn the_end_that_had_connected_reconnects_until_there_is_a_connection() {
        let mut neighbours = Neighbours::new(ME);
        neighbours.connected(1, here(), at(0));
        neighbours.connected(2, Made::There, at(0));
        assert_eq!(neighbours.due(at(0), |_| Standing::Host), (vec![], None));
        [1, 2, 3].into_iter().for_each(|start| neighbours.lost(start, at(100)));
        assert_eq!(
            neighbours.due(at(100), |_| Standing::Host),
            (vec![(1, "tcp/10.0.0.2:7450".to_owned())], Some(at(300)))
        );
        assert_eq!(due(&mut neighbours, 299, Standing::Host), [0; 0]);
        assert_eq!(due(&mut neighbours, 3_600_000, Standing::Host), [1], "however long it is gone");
        neighbours.is_connected(1);
        assert_eq!(due(&mut neighbours, 3_700_000, Standing::Host), [0; 0]);
        neighbours.lost(1, at(3_800_000));
        assert_eq!(due(&mut neighbours, 3_800_000, Standing::Host), [1]);
        // The attempt made a connection, which has ended.
        neighbours.connected(1, here(), at(3_800_010));
        neighbours.lost(1, at(3_800_020));
        assert_eq!(
            neighbours.due(at(3_800_020), |_| Standing::Host),
            (vec![], Some(at(3_800_200)))
        );
        assert_eq!(due(&mut neighbours, 3_800_200, Standing::Host), [1]);
    }

    #[test]
    fn a_host_lost_a_moment_ago_is_sought_at_its_last_address() {
        let mut neighbours = Neighbours::new(ME);
        neighbours.connected(1, here(), at(0));
        neighbours.connected(2, Made::There, at(0));
        let sought = |neighbours: &Neighbours, ms| {
            [1, 2, 3].map(|start| neighbours.is_sought(start, at(ms)))
        };
        assert_eq!(sought(&neighbours, 0), [false; 3], "none is lost");
        [1, 2, 3].into_iter().for_each(|start| neighbours.lost(start, at(1_000)));
        assert_eq!(
            sought(&neighbours, 1_000),
            [true, true, false],
            "host 2 reconnects by itself; only other hosts know the address of host 3"
        );
        assert_eq!(due(&mut neighbours, 1_000, Standing::Host), [1]);
        assert_eq!(sought(&neighbours, 30_999), [true, true, false]);
        assert_eq!(sought(&neighbours, 31_000), [false; 3], "it may be elsewhere by now");
        assert_eq!(due(&mut neighbours, 31_000, Standing::Host), [1]);
        assert_eq!(neighbours.all.len(), 1, "hosts that are not awaited any more are forgotten");
        neighbours.is_connected(1);
        assert_eq!(sought(&neighbours, 31_000), [false; 3]);
    }

    #[test]
    fn one_of_two_hosts_that_had_connected_to_each_other_reconnects() {
        for (me, other) in [(1, 2), (2, 1)] {
            let mut neighbours = Neighbours::new(me);
            for made in [here(), Made::There] {
                neighbours.connected(other, made, at(0));
            }
            neighbours.call_ended(other, at(1_000));
            neighbours.lost(other, at(1_000));
            assert_eq!(due(&mut neighbours, 1_000, Standing::Host).len(), usize::from(me == 1));
            // A refused connection does not count.
            for made in [here(), Made::There] {
                neighbours.connected(other, made, at(2_000));
            }
            neighbours.call_ended(other, at(2_010));
            neighbours.lost(other, at(3_000));
            assert_eq!(due(&mut neighbours, 3_000, Standing::Host), [other]);
        }
    }

    #[test]
    fn hosts_that_have_or_may_have_restarted_are_not_tried() {
        let mut neighbours = Neighbours::new(ME);
        for standing in [Standing::Replaced, Standing::Stranger] {
            neighbours.connected(1, here(), at(0));
            neighbours.lost(1, at(0));
            assert_eq!(due(&mut neighbours, 0, Standing::Stranger), [1]);
            assert_eq!(due(&mut neighbours, 60_000, standing), [0; 0]);
            assert_eq!(due(&mut neighbours, 120_000, Standing::Host), [0; 0], "it is forgotten");
        }
    }

    #[test]
    fn the_number_of_reconnections_is_limited_and_the_longest_lost_gives_way() {
        let mut neighbours = Neighbours::new(ME);
        for n in 0..=MAX_LOST as u64 {
            neighbours.connected(n, here(), at(0));
        }
        for n in (0..=MAX_LOST as u64).rev() {
            neighbours.lost(n, at(1_000 - n));
        }
        assert_eq!(
            due(&mut neighbours, 2_000, Standing::Host),
            (0..MAX_LOST as u64).collect::<Vec<_>>()
        );
        for n in 1_000..=1_000 + MAX_LOST as u64 {
            neighbours.connected(n, Made::There, at(2_000));
            neighbours.lost(n, at(2_000 + n));
        }
        assert_eq!(neighbours.all.len(), 2 * MAX_LOST);
        assert!(
            neighbours.is_sought(1_000 + MAX_LOST as u64, at(4_000))
                && !neighbours.is_sought(1_000, at(4_000))
        );
    }
}
