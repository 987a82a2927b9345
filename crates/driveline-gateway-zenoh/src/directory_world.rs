// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

/// The other computers: gateways that start and stop, publishers that come and go, and a network
/// that loses and reorders messages.
struct World {
    side: Side,
    now: MonotonicNs,
    gateways: Vec<Gateway>,
    flight: Vec<Flight>,
    /// Gateways reported as present.
    reported: BTreeSet<HostId>,
    /// Publishers by id: host, topic, and whether they live.
    publishers: BTreeMap<u128, (usize, usize, bool)>,
    starts: u64,
}

struct Gateway {
    id: HostId,
    connected: bool,
    changes: u64,
    lists: [List; 2],
}

#[derive(Clone)]
enum Flight {
    Changed(HostId, usize, u64),
    Counted(HostId, u64),
    Answer(Question, List),
}

#[derive(Clone, Debug)]
enum Op {
    Come(usize, usize),
    Go(usize),
    Restart(usize),
    Link(usize, bool),
    Tokens(usize, bool),
    Probe(usize),
    Ask,
    Deliver(usize, bool),
    Lose(usize),
    Unknown(usize, usize),
    Full(bool),
    Wait(u64),
}

const NAMES: [&str; 2] = ["a", "b"];
const TOPICS: [&str; 2] = ["t", "u"];

impl World {
    fn new() -> Self {
        let (gateways, flight, reported, publishers) =
            (Vec::new(), Vec::new(), BTreeSet::new(), BTreeMap::new());
        let mut world = Self {
            side: Side::new(),
            now: at(0),
            gateways,
            flight,
            reported,
            publishers,
            starts: 0,
        };
        for n in 0..NAMES.len() {
            let first = world.gateway(n);
            world.gateways.push(first);
        }
        world
    }

    fn gateway(&mut self, n: usize) -> Gateway {
        self.starts += 1;
        Gateway {
            id: host(NAMES[n], self.starts),
            connected: true,
            changes: 0,
            lists: TOPICS.map(|t| list(t, 0, &[])),
        }
    }

    /// The gateway checks its publishers, and announces a change.
    fn poll(&mut self, n: usize) {
        for (t, name) in TOPICS.iter().enumerate() {
            let living: Vec<u128> = self
                .publishers
                .iter()
                .filter(|(_, p)| **p == (n, t, true))
                .map(|(id, _)| *id)
                .collect();
            let gateway = &mut self.gateways[n];
            if gateway.lists[t].publishers.iter().map(|(id, _)| id.0).ne(living.iter().copied()) {
                gateway.changes += 1;
                gateway.lists[t] = list(name, gateway.changes, &living);
                if gateway.connected {
                    self.flight.push(Flight::Changed(gateway.id.clone(), t, gateway.changes));
                }
            }
        }
    }

    /// Zenoh reports how the presence of the gateways differs from its last report. States in
    /// between may be skipped, and nothing is reported twice.
    fn tokens(&mut self, n: usize, topics_first: bool) {
        let gateway = &self.gateways[n];
        let (id, there) = (gateway.id.clone(), gateway.connected);
        let of_name =
            self.reported.iter().filter(|h| h.name() == NAMES[n] && (**h != id || !there)).cloned();
        let mut events: Vec<_> = of_name.map(|h| (h, false)).collect();
        if there && !self.reported.contains(&id) {
            events.push((id, true));
        }
        for (id, there) in events {
            if there {
                self.reported.insert(id.clone())
            } else {
                self.reported.remove(&id)
            };
            let (directory, now) = (&mut self.side.directory, self.now);
            let tell_topics = |directory: &mut Directory<_>| {
                TOPICS.iter().for_each(|t| directory.topic_is(&id, &topic(t), there, now).unwrap());
            };
            if topics_first {
                tell_topics(directory);
            }
            directory.host_is(&id, there, now).unwrap();
            if !topics_first {
                tell_topics(directory);
            }
        }
    }

    fn probe(&mut self, n: usize) {
        let gateway = &self.gateways[n];
        if gateway.connected {
            self.flight.push(Flight::Counted(gateway.id.clone(), gateway.changes));
        }
    }

    fn ask(&mut self) {
        self.side.directory.forget(self.now, &mut self.side.open);
        for q in self.side.directory.questions(self.now).0 {
            let Some(gateway) = self.gateways.iter().find(|g| g.id == q.host && g.connected) else {
                continue;
            };
            let t = TOPICS.iter().position(|t| *t == q.topic.as_str()).unwrap();
            self.flight.push(Flight::Answer(q, gateway.lists[t].clone()));
        }
    }

    fn deliver(&mut self, flight: Flight) {
        let (side, now) = (&mut self.side, self.now);
        match flight {
            Flight::Changed(host, t, change) => {
                side.directory.changed(&host, &topic(TOPICS[t]), change, now)
            }
            Flight::Counted(host, changes) => side.directory.counted(&host, changes, now, now),
            Flight::Answer(q, list) => side.answers(&q, &list, now),
        }
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Come(n, t) => {
                let id = self.publishers.len() as u128 + 1;
                self.publishers.insert(id, (n, t, true));
                self.poll(n);
            }
            Op::Go(i) => {
                let known = self.publishers.len().max(1);
                if let Some(p) = self.publishers.get_mut(&((i % known) as u128 + 1)) {
                    p.2 = false;
                    let n = p.0;
                    self.poll(n);
                }
            }
            Op::Restart(n) => {
                let connected = self.gateways[n].connected;
                self.gateways[n] = Gateway { connected, ..self.gateway(n) };
                self.poll(n);
            }
            Op::Link(n, up) => self.gateways[n].connected = up,
            Op::Tokens(n, topics_first) => self.tokens(n, topics_first),
            Op::Probe(n) => self.probe(n),
            Op::Ask => self.ask(),
            Op::Deliver(i, repeat) if !self.flight.is_empty() => {
                let i = i % self.flight.len();
                let flight = if repeat { self.flight[i].clone() } else { self.flight.remove(i) };
                self.deliver(flight);
            }
            Op::Lose(i) if !self.flight.is_empty() => {
                let i = i % self.flight.len();
                self.flight.remove(i);
            }
            Op::Deliver(..) | Op::Lose(_) => {}
            Op::Unknown(n, t) => {
                let id = self.gateways[n].id.clone();
                self.side.directory.unknown(&id, &topic(TOPICS[t]), self.now);
            }
            Op::Full(full) => self.side.open.full = full,
            Op::Wait(ms) => self.now = self.now + Duration::from_millis(ms),
        }
    }

    /// Checks that a sample of any publisher, also a former one, finds its own remote publisher or
    /// none.
    fn check(&self) {
        let publishers = self.side.directory.publishers();
        let of_known = publishers.iter().map(|(id, p)| (*id, p.host.clone()));
        assert!(
            of_known.eq(self.side.open.remote_publishers.clone()),
            "exactly the known publishers have remote publishers"
        );
        for (id, p) in publishers {
            let (n, t, _) = self.publishers[&id.0];
            assert_eq!(
                (p.host.name(), p.topic.as_str(), p.remote_publisher.1.as_str()),
                (NAMES[n], TOPICS[t], TOPICS[t])
            );
        }
    }

    /// Ends all faults: connects all gateways. Then, for 150 s, probes them and requests lists.
    /// Messages are delivered in the order that `order` selects, until none is in flight.
    fn settle(&mut self, order: &[usize]) {
        self.side.open.full = false;
        for n in 0..NAMES.len() {
            self.gateways[n].connected = true;
            self.tokens(n, n == 0);
        }
        let mut order = order.iter().cycle();
        let end = self.now + Duration::from_secs(150);
        while self.now < end {
            (0..NAMES.len()).for_each(|n| self.probe(n));
            for _ in 0..10 {
                self.ask();
                while !self.flight.is_empty() {
                    let i = order.next().unwrap_or(&0) % self.flight.len();
                    let flight = self.flight.remove(i);
                    self.deliver(flight);
                }
                self.check();
                self.now = self.now + Duration::from_millis(100);
            }
        }
    }
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let (n, t) = (0..NAMES.len(), 0..TOPICS.len());
    let op = prop_oneof![
        6 => (n.clone(), t.clone()).prop_map(|(n, t)| Op::Come(n, t)),
        4 => any::<usize>().prop_map(Op::Go),
        1 => n.clone().prop_map(Op::Restart),
        2 => (n.clone(), any::<bool>()).prop_map(|(n, up)| Op::Link(n, up)),
        4 => (n.clone(), any::<bool>()).prop_map(|(n, first)| Op::Tokens(n, first)),
        4 => n.clone().prop_map(Op::Probe),
        8 => Just(Op::Ask),
        12 => (any::<usize>(), proptest::bool::weighted(0.2))
            .prop_map(|(i, repeat)| Op::Deliver(i, repeat)),
        4 => any::<usize>().prop_map(Op::Lose),
        1 => (n, t).prop_map(|(n, t)| Op::Unknown(n, t)),
        1 => any::<bool>().prop_map(Op::Full),
        4 => prop_oneof![5 => 1u64..600, 1 => 1_000u64..70_000].prop_map(Op::Wait),
    ];
    proptest::collection::vec(op, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]
    #[test]
    fn in_the_end_exactly_the_living_publishers_have_remote_publishers(
        ops in ops(),
        order in proptest::collection::vec(any::<usize>(), 1..40),
    ) {
        let mut world = World::new();
        for op in &ops {
            world.step(op);
            world.check();
        }
        world.settle(&order);
        let living: Vec<u128> =
            world.publishers.iter().filter(|(_, p)| p.2).map(|(id, _)| *id).collect();
        prop_assert_eq!(
            (world.side.remote_publishers(), world.side.there()),
            (living.clone(), living),
            "{:?}",
            world.side.reasons()
        );
        for p in world.side.directory.publishers().values() {
            prop_assert!(
                world.gateways.iter().any(|g| g.id == p.host),
                "its gateway is present"
            );
        }
        // No more requests are due.
        prop_assert_eq!(
            world.side.directory.questions(world.now + Duration::from_secs(600)).0,
            vec![]
        );
    }
}
