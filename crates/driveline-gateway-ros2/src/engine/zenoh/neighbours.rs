// SPDX-License-Identifier: Apache-2.0
//! Nodes that the session is connected to, and those to reconnect to:
//! `docs/protocols/ros2-zenoh.md` §9. No thread, no network, no clock.
//!
//! Zenoh reconnects to endpoints under `connect`, and connects once to nodes that a router reports.
//! If only the connection to such a node ends, the router does not report it again, and the node
//! does not reconnect by itself. So the gateway reconnects to the same address, which has worked
//! before.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};
use zenoh::config::ZenohId;

/// Maximum number of nodes to reconnect to: the maximum number of connections.
pub(super) const MAX_LOST: usize = 64;
/// Time after which the gateway stops reconnecting to a node. A limit is needed because the end of
/// a node is not reported.
pub(super) const TRIED_FOR: Duration = Duration::from_secs(60);
/// Pause before each attempt, including the first one, as for endpoints under `connect`. After a
/// connection has failed, each topic that waited on it makes Zenoh close it once more. Zenoh finds
/// the connection by the node's id, so without the pause a late topic would close the new
/// connection.
pub(super) const AGAIN_EVERY: Duration = Duration::from_millis(200);
/// Pause between attempts to a node that has been gone for at least [`LATER_AFTER`].
const LATER_EVERY: Duration = Duration::from_secs(1);
const LATER_AFTER: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Neighbour {
    /// Address that this session has connected to.
    at: String,
    /// Time since which there is no connection.
    lost: Option<Instant>,
    /// Earliest time of the next attempt.
    next: Instant,
}

/// Neighbours of this session.
#[derive(Debug, Default)]
pub(super) struct Neighbours {
    all: BTreeMap<ZenohId, Neighbour>,
    routers: BTreeSet<ZenohId>,
    /// Time of the last connection to a router. If a node was lost before this time, attempts to
    /// reach it are counted from this time: the fault that ended the router's connection also ended
    /// the node's.
    router_came: Option<Instant>,
}

impl Neighbours {
    /// Notes a connection that this session has made to a node.
    pub(super) fn connected(&mut self, id: ZenohId, at: &str, now: Instant) {
        let neighbour = self.all.entry(id).or_insert_with(|| Neighbour {
            at: String::new(),
            lost: None,
            next: now,
        });
        (neighbour.at, neighbour.lost) = (at.to_owned(), None);
    }

    /// Notes a connection, made by either end.
    pub(super) fn is_connected(&mut self, id: ZenohId) {
        if let Some(neighbour) = self.all.get_mut(&id) {
            neighbour.lost = None;
        }
    }

    /// Notes that no connection to a node remains.
    pub(super) fn lost(&mut self, id: ZenohId, now: Instant) {
        if self.routers.remove(&id) {
            // Zenoh reconnects to routers itself.
            self.all.remove(&id);
        }
        if let Some(neighbour) = self.all.get_mut(&id) {
            neighbour.lost.get_or_insert(now);
            neighbour.next = now + AGAIN_EVERY;
        }
        let all_lost = || self.all.iter().filter_map(|(id, n)| Some((n.lost?, *id)));
        if all_lost().count() > MAX_LOST
            && let Some((_, longest)) = all_lost().min()
        {
            self.all.remove(&longest);
        }
    }

    /// Notes a connection to a router.
    pub(super) fn router(&mut self, id: ZenohId, now: Instant) {
        self.routers.insert(id);
        self.router_came = Some(now);
    }

    /// Returns the nodes to connect to now with their addresses, and the time of the next check.
    pub(super) fn due(&mut self, now: Instant) -> (Vec<(ZenohId, String)>, Option<Instant>) {
        let came = self.router_came;
        let tried_since = |lost: Instant| came.map_or(lost, |came| came.max(lost));
        let is_over = |lost: Instant| now.saturating_duration_since(tried_since(lost)) >= TRIED_FOR;
        // While the router is away, the path to all nodes may be down.
        let router_away = came.is_some() && self.routers.is_empty();
        self.all.retain(|_, neighbour| router_away || !neighbour.lost.is_some_and(is_over));
        let (mut due, mut soonest) = (Vec::new(), None::<Instant>);
        for (id, neighbour) in &mut self.all {
            let Some(lost) = neighbour.lost.filter(|lost| !is_over(*lost)) else { continue };
            if now >= neighbour.next {
                due.push((*id, neighbour.at.clone()));
                let late = now.saturating_duration_since(tried_since(lost)) >= LATER_AFTER;
                neighbour.next = now + if late { LATER_EVERY } else { AGAIN_EVERY };
            }
            soonest = Some(soonest.map_or(neighbour.next, |s| s.min(neighbour.next)));
        }
        (due, soonest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: &str = "tcp/10.0.0.2:7450";

    fn id(number: usize) -> ZenohId {
        format!("{:x}", number + 1).parse().unwrap()
    }

    fn due(neighbours: &mut Neighbours, now: Instant) -> Vec<ZenohId> {
        neighbours.due(now).0.into_iter().map(|(id, _)| id).collect()
    }

    #[test]
    fn a_lost_node_is_tried_until_there_is_a_connection() {
        let (mut neighbours, start) = (Neighbours::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        neighbours.connected(id(1), AT, at(0));
        neighbours.is_connected(id(2));
        assert_eq!(neighbours.due(at(0)), (vec![], None));
        [1, 2, 3].into_iter().for_each(|n| neighbours.lost(id(n), at(100)));
        assert_eq!(neighbours.due(at(299)), (vec![], Some(at(300))));
        assert_eq!(neighbours.due(at(300)), (vec![(id(1), AT.to_owned())], Some(at(500))));
        neighbours.lost(id(1), at(450));
        assert_eq!(neighbours.due(at(500)), (vec![], Some(at(650))), "reported once more");
        assert_eq!(due(&mut neighbours, at(650)), [id(1)]);
        // Either end may make the connection.
        neighbours.is_connected(id(1));
        assert_eq!(neighbours.due(at(9_000)), (vec![], None));
        neighbours.lost(id(1), at(10_000));
        assert_eq!(due(&mut neighbours, at(10_200)), [id(1)]);
        // The attempt made a connection, which ended at once.
        neighbours.connected(id(1), AT, at(10_210));
        neighbours.lost(id(1), at(10_220));
        assert_eq!(neighbours.due(at(10_220)), (vec![], Some(at(10_420))));
        assert_eq!(due(&mut neighbours, at(10_420)), [id(1)]);
    }

    #[test]
    fn a_node_that_does_not_return_is_tried_more_rarely_and_is_forgotten() {
        let (mut neighbours, start) = (Neighbours::default(), Instant::now());
        neighbours.connected(id(1), AT, start);
        neighbours.lost(id(1), start);
        let (mut now, mut attempts) = (start, 0);
        while let (due, Some(next)) = neighbours.due(now) {
            attempts += due.len();
            now = next;
        }
        assert_eq!((now - start, attempts), (TRIED_FOR, 49 + 50));
        neighbours.router(id(9), now);
        assert_eq!(neighbours.due(now), (vec![], None));
    }

    #[test]
    fn routers_are_not_tried_and_nodes_are_tried_again_when_the_router_returns() {
        let (mut neighbours, start) = (Neighbours::default(), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        neighbours.router(id(9), start);
        [1, 9].into_iter().for_each(|n| neighbours.connected(id(n), AT, start));
        [1, 9].into_iter().for_each(|n| neighbours.lost(id(n), at(0)));
        assert_eq!(due(&mut neighbours, at(1)), [id(1)]);
        assert_eq!(neighbours.due(at(60)), (vec![], None), "attempts end after `TRIED_FOR`");
        neighbours.router(id(8), at(3_600));
        assert_eq!(
            neighbours.due(at(3_600)),
            (vec![(id(1), AT.to_owned())], Some(at(3_600) + AGAIN_EVERY))
        );
        assert_eq!(neighbours.due(at(3_660)), (vec![], None));
        neighbours.router(id(9), at(3_700));
        assert_eq!(
            neighbours.due(at(3_700)),
            (vec![], None),
            "it was forgotten, because a router was connected"
        );
    }

    #[test]
    fn the_number_of_reconnections_is_limited_and_the_longest_lost_gives_way() {
        let (mut neighbours, start) = (Neighbours::default(), Instant::now());
        (0..=MAX_LOST).for_each(|n| neighbours.connected(id(n), AT, start));
        (0..=MAX_LOST)
            .rev()
            .for_each(|n| neighbours.lost(id(n), start + Duration::from_millis(1_000 - n as u64)));
        let mut left = due(&mut neighbours, start + Duration::from_secs(2));
        left.sort();
        let mut expected: Vec<_> = (0..MAX_LOST).map(id).collect();
        expected.sort();
        assert_eq!(left, expected);
    }
}
