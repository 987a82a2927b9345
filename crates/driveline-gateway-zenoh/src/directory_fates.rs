// SPDX-License-Identifier: Apache-2.0
//! Reports to remote publishers about the ends of their publishers.

use super::*;
use crate::wire::Ended;

const ONE: EndpointId = EndpointId(7);
const UNKNOWN: fn(Uncounted) -> Option<Fate> = |why| Some(Fate::Unknown(why));

/// Other host, with one publisher that is received here.
struct There {
    side: Side,
    a: HostId,
    change: u64,
    now: u64,
}

impl There {
    fn new() -> Self {
        let (mut side, a) = (Side::new(), host("a", 1));
        side.comes(&a, at(0));
        let mut there = Self { side, a, change: 0, now: 0 };
        there.lists(&[7], Vec::new());
        assert_eq!(there.fate(), None, "nothing has changed since its creation");
        there
    }

    fn lists(&mut self, publishers: &[u128], ended: Vec<Ended>) {
        self.change += 1;
        self.now += 1_000;
        let list = List { ended, ..list("t", self.change, publishers) };
        self.side.directory.changed(&self.a, &topic("t"), self.change, at(self.now));
        self.side.lists(&self.a.clone(), &list, at(self.now));
    }

    fn host_is(&mut self, alive: bool) {
        self.side.directory.host_is(&self.a, alive, at(self.now)).unwrap();
        if alive {
            self.side.directory.counted(&self.a, self.change, at(self.now), at(self.now));
        }
    }

    fn fate(&mut self) -> Option<Fate> {
        self.side.directory.forget(at(self.now), &mut self.side.open);
        self.side.open.fates.get(&ONE).copied()
    }

    fn fate_after(&mut self, ms: u64) -> Option<Fate> {
        self.now += ms;
        self.fate()
    }
}

fn ended(last: Option<u64>, first: &[(HostId, u64)]) -> Vec<Ended> {
    vec![Ended { id: ONE, last, first: first.iter().cloned().collect() }]
}

#[test]
fn remote_publishers_learn_last_and_first_numbers_of_their_publishers() {
    let mut there = There::new();
    there.lists(&[], ended(Some(9), &[(host("me", 1), 4), (host("b", 1), 2)]));
    let known = Some(Fate::Ended { last: 9, first: Some(4) });
    assert_eq!((there.fate(), there.side.remote_publishers()), (known, vec![7]));
    assert_eq!((there.fate_after(1_000), there.side.remote_publishers()), (known, vec![]));
}

#[test]
fn without_an_announcement_the_count_is_unknown_until_it_comes() {
    for silent in [Vec::new(), ended(None, &[])] {
        let mut there = There::new();
        there.lists(&[], silent);
        assert_eq!(there.fate(), UNKNOWN(Uncounted::NotAnnounced));
        there.now -= 500;
        there.lists(&[], ended(Some(9), &[]));
        assert_eq!(there.side.open.fates.get(&ONE).copied(), UNKNOWN(Uncounted::NotAnnounced));
        there.now -= 900;
        assert_eq!(there.fate(), Some(Fate::Ended { last: 9, first: None }));
    }
}

#[test]
fn a_host_out_of_reach_leaves_counts_unknown_until_it_is_back() {
    let mut there = There::new();
    there.host_is(false);
    assert_eq!(there.fate(), UNKNOWN(Uncounted::OutOfReach));
    there.host_is(true);
    there.lists(&[7], Vec::new());
    assert_eq!(there.fate(), Some(Fate::There));
    // Its publisher ends while the host is away.
    there.host_is(false);
    assert_eq!(there.fate(), UNKNOWN(Uncounted::OutOfReach));
    there.host_is(true);
    there.lists(&[], ended(Some(9), &[]));
    assert_eq!(there.fate(), Some(Fate::Ended { last: 9, first: None }));
}

#[test]
fn a_host_that_does_not_come_back_leaves_counts_unknown() {
    let mut there = There::new();
    there.host_is(false);
    assert_eq!(
        (there.fate_after(59_999), there.side.remote_publishers()),
        (UNKNOWN(Uncounted::OutOfReach), vec![7])
    );
    assert_eq!(
        (there.fate_after(1), there.side.remote_publishers()),
        (UNKNOWN(Uncounted::HostGone), vec![])
    );
}

#[test]
fn a_busy_remote_publisher_is_notified_again() {
    let mut there = There::new();
    there.side.open.busy = true;
    there.host_is(false);
    let next = there.side.directory.forget(at(there.now), &mut there.side.open);
    assert_eq!(next, Some(at(there.now + 20)));
    there.side.open.fates.clear();
    there.side.open.busy = false;
    assert_eq!(there.fate_after(20), UNKNOWN(Uncounted::OutOfReach));
    there.side.open.fates.clear();
    assert_eq!(there.fate(), None, "a state is reported only once");
}
