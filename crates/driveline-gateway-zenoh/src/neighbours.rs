// SPDX-License-Identifier: Apache-2.0
//! Which hosts this one is connected to, and whom it connects to again: `docs/protocols/network.md`, section 7. No thread, no network, no clock.
//!
//! Zenoh connects again to what stands under `connect`, and to whoever it is told of: by multicast, or by a third host, which tells when one comes there. When the connection between two
//! ends that have met so and neither leaves the third one, nobody tells them again. So the end that had connected connects again, to where it had: that place is known to be right. Where
//! both had, as each was told of the other at once, one of them does: of two connections that are made at once Zenoh keeps both.

use driveline_types::MonotonicNs;
use std::collections::BTreeMap;
use std::time::Duration;

/// Most that are connected to again: as many as there may be connections.
pub const MAX_LOST: usize = 64;
/// The pause between two attempts, as for what stands under `connect`. An attempt ends by itself.
pub const AGAIN_EVERY: Duration = Duration::from_millis(200);
/// For how long that is tried of one that never said that it is a host of this domain: it may be of another, and nobody here learns that it was started again.
pub const STRANGER_FOR: Duration = Duration::from_secs(60);

/// One that ends so soon was refused by whoever had made it, because there was another at that moment: it does not know where this host is.
const REFUSED_WITHIN: Duration = Duration::from_secs(1);

/// What is known of a gateway that a connection has ended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is, or was, a host of this domain.
    Host,
    /// It was one, and another start of the same host is there.
    Replaced,
    /// It has not said that it is.
    Stranger,
}

/// Who has made a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    /// This host, to there.
    Here(String),
    /// The other one, which knows where this one is.
    There,
}

#[derive(Debug, Default)]
struct Neighbour {
    /// Where this host has connected to.
    at: Option<String>,
    /// Since when the other one has connected here.
    calls: Option<MonotonicNs>,
    /// Since when there is no connection, and when to try again.
    lost: Option<(MonotonicNs, MonotonicNs)>,
}

/// See the module. Each is named by the number of its gateway's start.
#[derive(Debug)]
pub struct Neighbours {
    me: u64,
    all: BTreeMap<u64, Neighbour>,
}

impl Neighbours {
    /// `me`: the number of this gateway's start.
    pub fn new(me: u64) -> Self {
        Self { me, all: BTreeMap::new() }
    }

    /// A connection was made.
    pub fn connected(&mut self, start: u64, made: Made, now: MonotonicNs) {
        let neighbour = self.all.entry(start).or_default();
        match made {
            Made::Here(at) => neighbour.at = Some(at),
            Made::There => neighbour.calls = Some(now),
        }
        neighbour.lost = None;
    }

    /// There is a connection, whoever made it.
    pub fn is_connected(&mut self, start: u64) {
        if let Some(neighbour) = self.all.get_mut(&start) {
            neighbour.lost = None;
        }
    }

    /// One of its connections that the other one has made has ended.
    pub fn call_ended(&mut self, start: u64, now: MonotonicNs) {
        if let Some(neighbour) = self.all.get_mut(&start) {
            neighbour.calls.take_if(|since| now.since(*since) < REFUSED_WITHIN);
        }
    }

    /// There is none any more.
    pub fn lost(&mut self, start: u64, now: MonotonicNs) {
        match self.all.get_mut(&start) {
            // Of two that know where the other is, the one with the lower number.
            Some(n) if n.at.is_some() && (n.calls.is_none() || self.me < start) => n.lost = Some((now, now)),
            _ => drop(self.all.remove(&start)),
        }
        let all_lost = || self.all.iter().filter_map(|(start, n)| Some((n.lost?.0, *start)));
        if all_lost().count() > MAX_LOST
            && let Some((_, longest)) = all_lost().min()
        {
            self.all.remove(&longest);
        }
    }

    /// Whom to connect to now, and where; and when to look again. Who was replaced is forgotten.
    pub fn due(&mut self, now: MonotonicNs, standing: impl Fn(u64) -> Standing) -> (Vec<(u64, String)>, Option<MonotonicNs>) {
        self.all.retain(|start, neighbour| {
            let Some((since, _)) = neighbour.lost else { return true };
            match standing(*start) {
                Standing::Host => true,
                Standing::Replaced => false,
                Standing::Stranger => now.since(since) < STRANGER_FOR,
            }
        });
        let (mut due, mut soonest) = (Vec::new(), None::<MonotonicNs>);
        for (start, neighbour) in &mut self.all {
            let (Some((_, next)), Some(at)) = (&mut neighbour.lost, &neighbour.at) else { continue };
            if now >= *next {
                due.push((*start, at.clone()));
                *next = now + AGAIN_EVERY;
            }
            soonest = Some(soonest.map_or(*next, |s| s.min(*next)));
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
    fn the_end_that_had_connected_connects_again_until_there_is_a_connection() {
        let mut neighbours = Neighbours::new(ME);
        neighbours.connected(1, here(), at(0));
        neighbours.connected(2, Made::There, at(0));
        assert_eq!(neighbours.due(at(0), |_| Standing::Host), (vec![], None));
        [1, 2, 3].into_iter().for_each(|start| neighbours.lost(start, at(100)));
        assert_eq!(neighbours.due(at(100), |_| Standing::Host), (vec![(1, "tcp/10.0.0.2:7450".to_owned())], Some(at(300))));
        assert_eq!(due(&mut neighbours, 299, Standing::Host), [0; 0]);
        assert_eq!(due(&mut neighbours, 3_600_000, Standing::Host), [1], "however long it is gone");
        neighbours.is_connected(1);
        assert_eq!(due(&mut neighbours, 3_700_000, Standing::Host), [0; 0]);
        neighbours.lost(1, at(3_800_000));
        assert_eq!(due(&mut neighbours, 3_800_000, Standing::Host), [1]);
    }

    #[test]
    fn of_two_that_had_connected_to_each_other_one_connects_again() {
        for (me, other) in [(1, 2), (2, 1)] {
            let mut neighbours = Neighbours::new(me);
            for made in [here(), Made::There] {
                neighbours.connected(other, made, at(0));
            }
            neighbours.call_ended(other, at(1_000));
            neighbours.lost(other, at(1_000));
            assert_eq!(due(&mut neighbours, 1_000, Standing::Host).len(), usize::from(me == 1));
            // One that was refused is none.
            for made in [here(), Made::There] {
                neighbours.connected(other, made, at(2_000));
            }
            neighbours.call_ended(other, at(2_010));
            neighbours.lost(other, at(3_000));
            assert_eq!(due(&mut neighbours, 3_000, Standing::Host), [other]);
        }
    }

    #[test]
    fn one_that_was_started_again_and_one_that_may_have_been_are_left_alone() {
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
    fn so_many_are_connected_to_again_and_the_longest_lost_gives_way() {
        let mut neighbours = Neighbours::new(ME);
        for n in 0..=MAX_LOST as u64 {
            neighbours.connected(n, here(), at(0));
        }
        for n in (0..=MAX_LOST as u64).rev() {
            neighbours.lost(n, at(1_000 - n));
        }
        assert_eq!(due(&mut neighbours, 2_000, Standing::Host), (0..MAX_LOST as u64).collect::<Vec<_>>());
    }
}
