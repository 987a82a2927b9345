// SPDX-License-Identifier: Apache-2.0
//! Whole protocol between three to five hosts in virtual time, over a modelled network and with
//! modelled processes: directories, lists, routes, clocks, probes, meeting through a third host,
//! and reconnecting.
//!
//! One seed is ten simulated minutes with at least twenty faults: partitions, lost and late
//! messages, crashes, restarts, stopped processes, and connections that look intact and carry
//! nothing. Then no fault happens for [`SETTLES`], and all hosts must hear each other again.
//! [`gateway`] has the conditions that must hold all the time.
//!
//! A failing seed is printed. `DRIVELINE_SEED=N` replays it, `DRIVELINE_SEEDS=N` runs that many.
//!
//! Real code: every module of this crate outside of `engine`, the wire format included. Modelled:
//! the thin layer that `engine` is between these modules and Zenoh (`gateway.rs`, `route.rs`), and
//! Zenoh's connections and tokens (`network.rs`). Not covered: routers, multicast, TLS, nudges,
//! rates, durability, and Zenoh itself; real processes test these in `tests/`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod faults;
mod gateway;
mod network;
mod route;

use crate::wire::HostId;
use driveline_types::{EndpointId, MonotonicNs};
use faults::Fault;
use gateway::{Gateway, Message, Out};
use network::Network;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;
/// Simulated time of a seed.
const LASTS: u64 = 600 * S;
/// Time at the end of a seed without faults. The longest pauses of the protocol are a minute.
const SETTLES: u64 = 150 * S;
/// Minimum number of faults of a seed.
const FAULTS: usize = 20;
/// Number of seeds in gating tests; `make measure` runs more.
const SEEDS: u64 = 24;
/// One topic is best effort, the other reliable.
const TOPICS: [&str; 2] = ["fast", "sure"];
/// Maximum offset of the clocks. They drift by up to 50 ppm.
const OFFSET: u64 = 100 * S;

/// Pseudo-random numbers (xorshift64*), the same in every run.
pub(super) struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        Self((seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 16) % n.max(1)
    }

    fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A host's clock.
#[derive(Clone, Copy)]
pub(super) struct Clock {
    offset: u64,
    drift_ppm: i64,
}

impl Clock {
    fn local(self, time: u64) -> MonotonicNs {
        let drift = time as i64 / 1_000_000 * self.drift_ppm;
        MonotonicNs((time + self.offset).wrapping_add_signed(drift))
    }

    /// Returns the first moment at which the clock shows this time, or a little later.
    fn time_of(self, local: MonotonicNs) -> u64 {
        let about = local.0.saturating_sub(self.offset);
        let drift = about as i64 / 1_000_000 * self.drift_ppm;
        about.saturating_add_signed(-drift) + 20_000
    }
}

/// A publisher.
pub(super) struct Source {
    host: usize,
    topic: usize,
    alive: bool,
    /// Clock of its host.
    clock: Clock,
    /// Publish time of each sample; number 1 is the first.
    published: Vec<u64>,
    period: u64,
}

impl Source {
    fn written(&self) -> u64 {
        self.published.len() as u64
    }
}

/// A computer.
struct Computer {
    name: String,
    clock: Clock,
    /// `None`: it is down.
    gateway: Option<Gateway>,
    /// Set while its gateway is stopped: the events that arrived meanwhile.
    stalled: Option<Vec<Event>>,
    /// Time of the next planned check.
    look_at: u64,
}

#[derive(Clone)]
enum Event {
    Publish(EndpointId),
    /// A gateway does the work that is due.
    Look(usize),
    Arrives {
        connection: u64,
        to: usize,
        message: Message,
    },
    /// Checks one end of a connection. It ends if the other end was not heard for a lease.
    Lease {
        connection: u64,
        end: usize,
    },
    /// One end learns that the other has closed the connection.
    Closed {
        connection: u64,
        end: usize,
    },
    /// An attempt to connect ends.
    Attempted {
        from: usize,
        to: usize,
        start: Option<u64>,
        at: Option<String>,
    },
    /// A start of a gateway retries its `connect` endpoints.
    Configured(usize, u64),
    Fault(usize),
    /// A fault ends.
    Over(usize),
}

/// Samples of one publisher received by one host.
#[derive(Default)]
pub(super) struct Record {
    numbers: BTreeSet<u64>,
}

pub(super) struct World {
    random: Random,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: HashMap<u64, Event>,
    planned: u64,
    computers: Vec<Computer>,
    /// Clock of each computer.
    clocks: Vec<Clock>,
    network: Network,
    sources: BTreeMap<EndpointId, Source>,
    /// By receiving host and publisher.
    records: BTreeMap<(usize, EndpointId), Record>,
    faults: Vec<Fault>,
    /// Hosts under `connect` of each host.
    connects: Vec<Vec<usize>>,
    /// Hash of all events, to check that a seed always gives the same run.
    trace: u64,
    /// Counts of events that a seed must cause.
    happened: BTreeMap<&'static str, u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // The work grows with the square of the number of hosts.
        let hosts = if random.chance(60) { 3 } else { random.between(4, 6) as usize };
        let computers: Vec<_> = (0..hosts)
            .map(|n| Computer {
                name: format!("h{n}"),
                clock: Clock {
                    offset: random.between(S, OFFSET),
                    drift_ppm: random.between(0, 101) as i64 - 50,
                },
                gateway: None,
                stalled: None,
                look_at: u64::MAX,
            })
            .collect();
        // Under `connect`, each host names the first one, and in some seeds all hosts before it.
        let all_named = random.chance(30);
        let connects = (0..hosts)
            .map(|n| if all_named { (0..n).collect() } else { (0..n.min(1)).collect() })
            .collect();
        let network = Network::new(hosts, &mut random);
        let faults = faults::schedule(hosts, &mut random);
        let mut world = Self {
            random,
            now: 0,
            events: BinaryHeap::new(),
            waiting: HashMap::new(),
            planned: 0,
            clocks: computers.iter().map(|computer| computer.clock).collect(),
            computers,
            network,
            sources: BTreeMap::new(),
            records: BTreeMap::new(),
            faults,
            connects,
            trace: 0,
            happened: BTreeMap::new(),
        };
        for host in 0..hosts {
            world.start(host, BTreeSet::new());
            for topic in 0..TOPICS.len() {
                if world.random.chance(80) {
                    world.new_source(host, topic);
                }
            }
        }
        for n in 0..world.faults.len() {
            let at = world.faults[n].begins;
            world.plan(at, Event::Fault(n));
        }
        world
    }

    fn note(&mut self, what: &'static str) {
        *self.happened.entry(what).or_default() += 1;
    }

    fn plan(&mut self, at: u64, event: Event) {
        self.planned += 1;
        self.events.push(Reverse((at, self.planned)));
        self.waiting.insert(self.planned, event);
    }

    fn local(&self, host: usize) -> MonotonicNs {
        self.computers[host].clock.local(self.now)
    }

    fn new_source(&mut self, host: usize, topic: usize) {
        let id = EndpointId(self.sources.len() as u128 + 1);
        let period = self.random.between(300, 3_000) * MS;
        let clock = self.computers[host].clock;
        let source = Source { host, topic, alive: true, clock, published: Vec::new(), period };
        self.sources.insert(id, source);
        let at = self.now + self.random.below(period);
        self.plan(at, Event::Publish(id));
        self.publishers_changed(host);
    }

    fn publishers_changed(&mut self, host: usize) {
        let sources = &self.sources;
        if let Some(gateway) = &mut self.computers[host].gateway {
            gateway.publishers_changed(host, sources);
        }
        self.poll(host);
    }

    fn end_source(&mut self, id: EndpointId, heard: bool) {
        let source = self.sources.get_mut(&id).expect("a publisher");
        source.alive = false;
        let (host, topic, last) = (source.host, source.topic, source.written());
        if let Some(gateway) = self.computers[host].gateway.as_mut().filter(|_| heard) {
            gateway.source_ended(topic, id, last);
        }
        self.publishers_changed(host);
    }

    /// Starts a gateway. `tried`: result of its predecessor, if that restarted.
    fn start(&mut self, host: usize, tried: BTreeSet<String>) {
        let start = self.random.next();
        let me = HostId::new(&self.computers[host].name, start).expect("a name");
        let listens = [network::address(host)];
        let connects: Vec<_> = self.connects[host].iter().map(|n| network::address(*n)).collect();
        let mut gateway = Gateway::new(me, host, &listens, &connects, tried);
        gateway.publishers_changed(host, &self.sources);
        self.computers[host].gateway = Some(gateway);
        self.plan(self.now, Event::Configured(host, start));
        self.poll(host);
    }

    /// A gateway dies, and the kernel closes its connections.
    fn crash(&mut self, host: usize) {
        self.computers[host].gateway = None;
        self.computers[host].stalled = None;
        for (connection, end) in self.network.all_of(host) {
            self.network.close(connection, end);
            self.notify_other_end(connection, end);
        }
        self.network.attempts.retain(|(from, _), _| *from != host);
    }

    fn notify_other_end(&mut self, connection: u64, end: usize) {
        if let Some(delay) = self.network.delay(connection, &mut self.random) {
            self.plan(self.now + delay, Event::Closed { connection, end: 1 - end });
        } else {
            self.watch_lease(connection, 1 - end);
        }
    }

    /// Checks later whether an end has not heard the other one for a lease.
    fn watch_lease(&mut self, connection: u64, end: usize) {
        let lease = self.random.between(2_000, 2_700) * MS;
        self.plan(self.now + lease, Event::Lease { connection, end });
    }

    /// Returns true if no message arrives from the other end, not even a keep-alive.
    fn is_unheard(&self, connection: u64, end: usize) -> bool {
        let Some(c) = self.network.connections.get(&connection) else { return true };
        let other = &self.computers[c.ends[1 - end]];
        let runs = other.gateway.as_ref().is_some_and(|g| g.start() == c.starts[1 - end]);
        self.network.is_cut(c.ends) || !runs || other.stalled.is_some() || !c.open[1 - end]
    }

    /// Ends a connection at one end: the other end has closed it, or was not heard for a lease.
    fn ended(&mut self, connection: u64, end: usize) {
        let Some(c) = self.network.connections.get(&connection).filter(|c| c.open[end]) else {
            return;
        };
        let (host, start, called) = (c.ends[end], c.starts[1 - end], c.made_by != end);
        self.network.close(connection, end);
        let now = self.local(host);
        if let Some(gateway) = &mut self.computers[host].gateway {
            gateway.disconnected(start, called, now);
        }
        self.notify_other_end(connection, end);
        self.poll(host);
    }

    /// Starts an attempt to connect, unless one is in progress.
    fn attempt(&mut self, from: usize, to: usize, start: Option<u64>, at: Option<String>) {
        if self.network.attempts.contains_key(&(from, to)) || self.network.has_end(from, to) {
            return;
        }
        self.network.attempts.insert((from, to), start);
        let takes = if self.network.is_cut([from, to]) {
            2 * S
        } else {
            2 * self.network.link_delay([from, to], &mut self.random)
        };
        self.plan(self.now + takes, Event::Attempted { from, to, start, at });
    }

    fn attempted(&mut self, from: usize, to: usize, start: Option<u64>, at: Option<String>) {
        self.network.attempts.remove(&(from, to));
        let starts = [from, to].map(|n| {
            let computer = &self.computers[n];
            computer.gateway.as_ref().filter(|_| computer.stalled.is_none()).map(Gateway::start)
        });
        let [Some(own), Some(other)] = starts else { return };
        let is_it = start.is_none_or(|start| start == other);
        let either_has = self.network.has_end(from, to) || self.network.has_end(to, from);
        if !is_it || self.network.is_cut([from, to]) || either_has {
            return;
        }
        let connection = self.network.connect([from, to], [own, other]);
        self.note(match (&at, start) {
            (Some(_), _) => "connected again, or through a third host",
            (None, _) => "connected by configuration",
        });
        for (end, host, start) in [(0, from, other), (1, to, own)] {
            let now = self.local(host);
            let gateway = self.computers[host].gateway.as_mut().expect("it runs");
            gateway.connected(start, end == 0, at.clone(), now);
            self.send_tokens(connection, end);
        }
    }

    fn send_tokens(&mut self, connection: u64, end: usize) {
        let Some(c) = self.network.connections.get_mut(&connection) else { return };
        c.tokens[end] += 1;
        let (version, host, to) = (c.tokens[end], c.ends[end], c.starts[1 - end]);
        let Some(gateway) = &self.computers[host].gateway else { return };
        let message = gateway.tokens(to, version);
        self.put(connection, end, message);
    }

    /// Hands a message to the network.
    fn put(&mut self, connection: u64, end: usize, message: Message) {
        let Some(c) = self.network.connections.get(&connection) else { return };
        let (to, is_token) = (c.ends[1 - end], matches!(message, Message::Tokens { .. }));
        let loses = c.broken || self.network.loses(c.ends, &mut self.random);
        if loses && !is_token {
            self.note("a message was lost");
            return;
        }
        let times = if !is_token && self.random.chance(1) { 2 } else { 1 };
        for _ in 0..times {
            // While the link is cut, TCP tries again; see `arrives`.
            let delay = self.network.delay(connection, &mut self.random).unwrap_or(20 * MS);
            let event = Event::Arrives { connection, to, message: message.clone() };
            self.plan(self.now + delay, event);
        }
    }

    fn arrives(&mut self, connection: u64, to: usize, message: Message) {
        let Some(c) = self.network.connections.get_mut(&connection) else { return };
        let end = usize::from(c.ends[1] == to);
        if !c.open[end] {
            return;
        }
        let ends = c.ends;
        if self.network.is_cut(ends) {
            self.network.hold(connection, to, message);
            self.note("held by TCP while a link was cut");
            return;
        }
        let peer = self.network.connections[&connection].starts[1 - end];
        let now = self.local(to);
        let clocks = &self.clocks;
        let Some(gateway) = &mut self.computers[to].gateway else { return };
        let mut reader = gateway::Reader {
            time: self.now,
            clocks,
            sources: &self.sources,
            records: &mut self.records,
        };
        let out = gateway.receives(peer, message, now, &mut reader);
        self.send(to, out);
    }

    /// Executes the requests of a gateway.
    fn send(&mut self, host: usize, out: Vec<Out>) {
        for out in out {
            match out {
                Out::Send(to, message) => {
                    if let Some((connection, end)) = self.network.to_start(host, to.incarnation()) {
                        self.put(connection, end, message);
                    }
                }
                Out::Connect(start, at) => {
                    let to = network::host_at(&at);
                    self.attempt(host, to, Some(start), Some(at));
                }
                Out::TokensChanged => {
                    for (connection, end) in self.network.all_of(host) {
                        self.send_tokens(connection, end);
                    }
                }
                Out::PollAgain => self.poll(host),
                Out::StartAnew(tried) => {
                    self.note("restarted for a silent host");
                    self.crash(host);
                    self.start(host, tried);
                    return;
                }
            }
        }
        self.plan_poll(host);
    }

    /// Does the work that is due at a host: of its control thread, or of the threads of its
    /// routes alone.
    fn wakes(&mut self, host: usize) {
        let now = self.local(host);
        let Some(gateway) = &mut self.computers[host].gateway else { return };
        if gateway.is_due(now) {
            self.poll(host);
        } else {
            let out = gateway.turn_routes(now, &self.sources);
            self.send(host, out);
        }
    }

    /// A gateway does the work that is due.
    fn poll(&mut self, host: usize) {
        if self.computers[host].stalled.is_some() {
            return;
        }
        let now = self.local(host);
        let meeting = self.network.meeting(host);
        let Some(gateway) = &mut self.computers[host].gateway else { return };
        let out = gateway.poll(now, &meeting, &self.sources);
        self.send(host, out);
    }

    fn plan_poll(&mut self, host: usize) {
        let computer = &mut self.computers[host];
        let Some(next) = computer.gateway.as_ref().and_then(Gateway::next_poll) else { return };
        let at = computer.clock.time_of(next).max(self.now + 20_000);
        if at < computer.look_at || computer.look_at <= self.now {
            computer.look_at = at;
            self.plan(at, Event::Look(host));
        }
    }

    fn publish(&mut self, id: EndpointId) {
        let now = self.now;
        let Some(source) = self.sources.get_mut(&id).filter(|s| s.alive) else { return };
        source.published.push(now);
        let (host, period) = (source.host, source.period);
        // Sometimes a burst.
        let pause = if self.random.chance(5) { MS } else { period };
        self.plan(now + pause, Event::Publish(id));
        if self.computers[host].stalled.is_none() {
            let local = self.local(host);
            if let Some(gateway) = &mut self.computers[host].gateway {
                let out = gateway.turn_routes(local, &self.sources);
                self.send(host, out);
            }
        }
    }

    /// Returns the host of an event. The event waits while that host is stopped.
    fn host_of(&self, event: &Event) -> Option<usize> {
        match event {
            Event::Arrives { to, .. } => Some(*to),
            Event::Closed { connection, end } | Event::Lease { connection, end } => {
                self.network.connections.get(connection).map(|c| c.ends[*end])
            }
            _ => None,
        }
    }

    fn happens(&mut self, event: Event) {
        if let Some(host) = self.host_of(&event)
            && let Some(waiting) = &mut self.computers[host].stalled
        {
            waiting.push(event);
            return;
        }
        match event {
            Event::Publish(id) => self.publish(id),
            Event::Look(host) => {
                self.computers[host].look_at = u64::MAX;
                self.wakes(host);
            }
            Event::Arrives { connection, to, message } => self.arrives(connection, to, message),
            Event::Lease { connection, end } => {
                if self.network.connections.get(&connection).is_some_and(|c| c.open[end])
                    && self.is_unheard(connection, end)
                {
                    self.note("a lease was over");
                    self.ended(connection, end);
                }
            }
            Event::Closed { connection, end } => self.ended(connection, end),
            Event::Attempted { from, to, start, at } => self.attempted(from, to, start, at),
            Event::Configured(host, start) => {
                let computer = &self.computers[host];
                if computer.gateway.as_ref().is_some_and(|g| g.start() == start) {
                    if computer.stalled.is_none() {
                        for to in self.connects[host].clone() {
                            self.attempt(host, to, None, None);
                        }
                    }
                    self.plan(self.now + 200 * MS, Event::Configured(host, start));
                }
            }
            Event::Fault(n) => faults::begin(self, n),
            Event::Over(n) => faults::end(self, n),
        }
    }

    fn run(&mut self) {
        while let Some(Reverse((at, number))) = self.events.pop() {
            if at > LASTS {
                break;
            }
            self.now = at;
            let event = self.waiting.remove(&number).expect("planned");
            self.trace = self.trace.rotate_left(5) ^ at ^ number;
            self.happens(event);
        }
        self.now = LASTS;
    }

    /// Checks that all hosts hear each other, know exactly the living publishers of the others, and
    /// have received their samples.
    fn check_settled(&self) {
        for (host, computer) in self.computers.iter().enumerate() {
            let gateway = computer.gateway.as_ref().expect("it runs");
            let others: BTreeSet<HostId> = self
                .computers
                .iter()
                .filter(|c| c.name != computer.name)
                .map(|c| c.gateway.as_ref().expect("it runs").id().clone())
                .collect();
            gateway.check_settled(host, &others, &self.sources, self.now, &self.records);
        }
    }
}

type Happened = BTreeMap<&'static str, u64>;

/// Runs a seed. Returns a hash and the counts of its events.
fn run(seed: u64) -> (u64, Happened) {
    let mut world = World::new(seed);
    world.run();
    world.check_settled();
    assert!(world.faults.len() >= FAULTS);
    let received = world.records.values().map(|record| record.numbers.len() as u64).sum();
    let mut happened = world.happened;
    happened.insert("received", received);
    happened.insert("faults", world.faults.len() as u64);
    for gateway in world.computers.iter().filter_map(|c| c.gateway.as_ref()) {
        gateway.happened(&mut happened);
    }
    (world.trace, happened)
}

/// Returns the number in an environment variable.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn hosts_hear_each_other_again_whatever_happens_to_processes_and_links() {
    if let Some(seed) = number("DRIVELINE_SEED") {
        println!("seed {seed}: {:?}", run(seed));
        return;
    }
    let seeds = number("DRIVELINE_SEEDS").unwrap_or(SEEDS);
    let threads = std::thread::available_parallelism().map_or(2, std::num::NonZero::get) as u64;
    let next = AtomicU64::new(0);
    let (failed, all) = (Mutex::new(Vec::new()), Mutex::new(Happened::new()));
    std::thread::scope(|scope| {
        let work = || {
            while let Some(seed) = Some(next.fetch_add(1, Relaxed)).filter(|seed| *seed < seeds) {
                match std::panic::catch_unwind(|| run(seed)) {
                    Ok((_, happened)) => {
                        let mut all = all.lock().unwrap();
                        happened
                            .into_iter()
                            .for_each(|(what, n)| *all.entry(what).or_default() += n);
                    }
                    Err(_) => failed.lock().unwrap().push(seed),
                }
            }
        };
        (0..threads).for_each(|_| drop(scope.spawn(work)));
    });
    let (failed, all) = (failed.into_inner().unwrap(), all.into_inner().unwrap());
    println!("{seeds} seeds: {all:#?}");
    assert!(failed.is_empty(), "seeds {failed:?} fail: DRIVELINE_SEED={} replays one", failed[0]);
    for what in [
        "restarted for a silent host",
        "connected again, or through a third host",
        "a lease was over",
        "held by TCP while a link was cut",
        "a message was lost",
        "sent again",
        "delivered",
    ] {
        assert!(all.get(what).is_some_and(|n| *n > 0), "no seed has this: {what}");
    }
}

#[test]
fn a_seed_is_the_same_each_time() {
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}
