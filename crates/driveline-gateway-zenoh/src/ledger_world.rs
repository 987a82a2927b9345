// SPDX-License-Identifier: Apache-2.0
//! Checks over a modelled network that no loss is silent: published after the match = received +
//! missed + superseded + expired + corrupt + refused + lost on the way + not read, or the count is
//! reported as unknown. This holds whatever the network, publishers and gateways do.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

use crate::arrival::{Arrivals, localized};
use crate::clock::{ClockEstimate, Offset};
use crate::directory::{Directory, Fate, Question, RemotePublishers};
use crate::offering::Offering;
use crate::wire::{HostId, List, Offer, SampleHead};
use driveline::{
    Context, ContextOptions, RawSubscription, Reach, SubscriptionOptions, SubscriptionStats,
};
use driveline_shm::{Participant, ParticipantConfig, Publisher, PublisherConfig};
use driveline_types::{
    EndpointId, MonotonicNs, Qos, SampleHeader, Schema, TopicName, VirtualClock,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time-out; only a failure takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const DEPTH: u32 = 4;
/// Maximum number of publishers of a schedule, past ones included.
const MOST: usize = 6;

fn topic() -> TopicName {
    "t".parse().unwrap()
}

fn schema() -> Schema {
    Schema::bytes("test", "raw", "")
}

fn qos() -> Qos {
    Qos { depth: DEPTH, ..Qos::default() }
}

fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = MonotonicNs::real_now() + PATIENCE;
    while !condition() {
        assert!(MonotonicNs::real_now() < end, "not {what} within {PATIENCE:?}");
        std::thread::yield_now();
    }
}

#[derive(Clone, Debug)]
enum Step {
    Start,
    Publish(usize),
    /// The route takes the next sample of a publisher, or the newest.
    Send(usize, bool),
    /// A message in flight arrives, and perhaps once more.
    Deliver(usize, bool),
    Lose(usize),
    /// A publisher ends or dies; the gateway of its host may not notice.
    End(usize, bool),
    Link(bool),
    RestartSender,
    RestartReceiver,
    Take,
    Latest,
    Wait(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let p = 0..MOST;
    let step = prop_oneof![
        1 => Just(Step::Start),
        14 => p.clone().prop_map(Step::Publish),
        14 => (p.clone(), any::<bool>()).prop_map(|(p, newest)| Step::Send(p, newest)),
        20 => (any::<usize>(), prop::bool::weighted(0.2))
            .prop_map(|(i, reconnect)| Step::Deliver(i, reconnect)),
        4 => any::<usize>().prop_map(Step::Lose),
        2 => (p, prop::bool::weighted(0.9)).prop_map(|(p, heard)| Step::End(p, heard)),
        2 => any::<bool>().prop_map(Step::Link),
        1 => Just(Step::RestartSender),
        1 => Just(Step::RestartReceiver),
        4 => Just(Step::Take),
        2 => Just(Step::Latest),
        6 => prop_oneof![8 => 1u64..600, 1 => 1_000u64..70_000].prop_map(Step::Wait),
    ];
    prop::collection::vec(step, 1..120)
}

/// Publisher on the sending host.
#[derive(Debug)]
struct Source {
    written: u64,
    alive: bool,
    /// Number of samples before the first one sent to the receiving host, once that host knows it.
    base: Option<u64>,
}

#[derive(Clone)]
enum Flight {
    Sample { from: HostId, to: HostId, head: Vec<u8> },
    Changed(HostId, u64),
    Answer(Question, Vec<u8>),
}

/// Gateway of the sending host.
struct Sender {
    me: HostId,
    offering: Offering,
    changes: u64,
    /// By publisher: first sample of the route's match, and the next sample.
    routes: BTreeMap<EndpointId, (u64, u64)>,
    firsts: BTreeMap<(EndpointId, HostId), u64>,
}

/// Segments of the receiving gateway.
struct Here {
    participant: Participant,
    remote_publishers: BTreeMap<EndpointId, (Publisher, Arrivals, Fate)>,
}

impl RemotePublishers for Here {
    type RemotePublisher = EndpointId;

    fn open(
        &mut self,
        _: &HostId,
        _: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        topic: &TopicName,
        o: &Offer,
    ) -> Result<EndpointId, String> {
        let mut config =
            PublisherConfig::new(topic.clone(), o.node.clone(), Schema::clone(&o.schema), 8);
        config.qos = o.qos.clone();
        let publisher = self.participant.create_publisher(config).map_err(|e| e.to_string())?;
        publisher.count_afar(&Arrivals::default().count(id, Fate::There));
        until("matched", || publisher.matched() == 1);
        self.remote_publishers.insert(id, (publisher, Arrivals::default(), Fate::There));
        Ok(id)
    }

    fn goes_on(&mut self, _: &EndpointId, _: &HostId, _: &Arc<Mutex<ClockEstimate>>) {}

    fn fate(&mut self, id: &EndpointId, new: Fate) -> bool {
        let (publisher, arrivals, fate) =
            self.remote_publishers.get_mut(id).expect("a remote publisher");
        *fate = new;
        publisher.count_afar(&arrivals.count(*id, new));
        true
    }

    fn close(&mut self, id: EndpointId, _: EndpointId) {
        assert!(self.remote_publishers.remove(&id).is_some());
    }

    fn log(&mut self, _: String) {}
}

/// Gateway of the receiving host.
struct Receiver {
    me: HostId,
    directory: Directory<EndpointId>,
    here: Here,
}

struct World {
    clock: VirtualClock,
    starts: u64,
    sources: BTreeMap<EndpointId, Source>,
    /// Newest sample of each publisher known to the receiving gateways.
    known: BTreeMap<EndpointId, u64>,
    /// Publishers whose last number was received.
    ended: BTreeSet<EndpointId>,
    sender: Sender,
    receiver: Receiver,
    flight: Vec<Flight>,
    up: bool,
    down_since: MonotonicNs,
    subscription: RawSubscription,
    dir: tempfile::TempDir,
}

fn host(name: &str, start: u64) -> HostId {
    HostId::new(name, start).unwrap()
}

fn total(s: &SubscriptionStats) -> u64 {
    s.received
        + s.missed
        + s.superseded
        + s.expired
        + s.corrupt
        + s.refused
        + s.lost_on_the_way
        + s.not_read
}

impl Sender {
    fn new(start: u64) -> Self {
        let (me, offering) = (host("a", start), Offering::new(topic()));
        Self { me, offering, changes: 0, routes: BTreeMap::new(), firsts: BTreeMap::new() }
    }

    fn list(&self) -> Vec<u8> {
        let first = |id| {
            self.firsts
                .iter()
                .filter(|((p, _), _)| *p == id)
                .map(|((_, to), first)| (to.clone(), *first))
                .collect()
        };
        self.offering.encoded(self.changes, first).unwrap()
    }
}

impl Receiver {
    fn new(start: u64, dir: &tempfile::TempDir) -> Self {
        let domain_dir = Some(dir.path().join("domain"));
        let participant =
            Participant::open(ParticipantConfig { domain_dir, name: "gateway".into() }).unwrap();
        let me = host("b", start);
        let here = Here { participant, remote_publishers: BTreeMap::new() };
        Self { directory: Directory::new([topic()], me.clone()), me, here }
    }
}

impl World {
    fn new(clock: VirtualClock) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options =
            ContextOptions { name: "reader".into(), domain_dir: Some(dir.path().join("domain")) };
        let node = Context::new(options).unwrap().node("reader").unwrap();
        let options =
            SubscriptionOptions { reach: Reach::Network, qos: qos(), ..Default::default() };
        let subscription = node.raw_subscription("t", schema(), options).unwrap();
        let (sender, receiver) = (Sender::new(1), Receiver::new(2, &dir));
        let (sources, known, ended, flight, down_since) =
            (BTreeMap::new(), BTreeMap::new(), BTreeSet::new(), Vec::new(), MonotonicNs::now());
        let mut world = Self {
            clock,
            starts: 2,
            sources,
            known,
            ended,
            sender,
            receiver,
            flight,
            up: true,
            down_since,
            subscription,
            dir,
        };
        world.tokens(true);
        world
    }

    /// Zenoh reports the sending gateway.
    fn tokens(&mut self, there: bool) {
        let now = MonotonicNs::now();
        let directory = &mut self.receiver.directory;
        directory.topic_is(&self.sender.me, &topic(), there, now).unwrap();
        directory.host_is(&self.sender.me, there, now).unwrap();
    }

    fn start(&mut self) {
        if self.sources.len() < MOST {
            let id = EndpointId(self.sources.len() as u128 + 1);
            self.sources.insert(id, Source { written: 0, alive: true, base: None });
        }
    }

    fn source(&mut self, n: usize) -> Option<(EndpointId, &mut Source)> {
        let id = EndpointId((n % self.sources.len().max(1)) as u128 + 1);
        Some((id, self.sources.get_mut(&id)?))
    }

    /// Both gateways do the work that is due.
    fn poll(&mut self) {
        let now = MonotonicNs::now();
        let offer = || Offer {
            node: "n".parse().unwrap(),
            schema: Arc::new(schema()),
            qos: qos(),
            max_payload: 8,
        };
        let there =
            self.sources.iter().filter(|(_, s)| s.alive).map(|(id, _)| (*id, offer())).collect();
        let (sources, routes) = (&self.sources, &self.sender.routes);
        let owed = |id| routes.get(&id).is_some_and(|(_, next)| *next <= sources[&id].written);
        if self.sender.offering.compare(there, now, owed).changed {
            self.sender.changes += 1;
            self.flight.push(Flight::Changed(self.sender.me.clone(), self.sender.changes));
        }
        let offering = &self.sender.offering;
        self.sender.firsts.retain(|(id, _), _| offering.knows(*id));
        self.sender.routes.retain(|id, _| offering.publishers().any(|(listed, _)| listed == id));
        if !self.up {
            self.flight.clear();
            if now >= self.down_since + Duration::from_secs(60) {
                self.sender.routes.clear();
            }
        }
        let Receiver { directory, here, .. } = &mut self.receiver;
        directory.forget(now, here);
        self.all_matched();
        for question in self.receiver.directory.questions(now).0 {
            if self.up && question.host == self.sender.me {
                self.flight.push(Flight::Answer(question, self.sender.list()));
            }
        }
        self.want();
        self.note_known();
    }

    /// Waits until all are matched. Called after each change, so that a departure and an arrival
    /// are not mistaken for each other.
    fn all_matched(&self) {
        let remote_publishers = self.receiver.here.remote_publishers.len();
        until("all matched, and no others", || self.subscription.matched() == remote_publishers);
    }

    /// Requests each publisher that has a remote publisher; a route matches it.
    fn want(&mut self) {
        let wanted = self
            .receiver
            .directory
            .publishers()
            .iter()
            .filter(|(_, p)| p.is_there() && p.host == self.sender.me);
        for (id, _) in wanted.filter(|_| self.up) {
            let source = &self.sources[id];
            if source.alive && !self.sender.routes.contains_key(id) {
                let first = source.written + 1;
                self.sender.routes.insert(*id, (first, first));
                self.sender.firsts.insert((*id, self.receiver.me.clone()), first);
            }
        }
    }

    /// Notes the first samples from announcements, as the receiving gateway reads them.
    fn note_known(&mut self) {
        for (id, (_, _, fate)) in &self.receiver.here.remote_publishers {
            let source = self.sources.get_mut(id).unwrap();
            match *fate {
                Fate::Ended { last, first } => {
                    assert_eq!(last, source.written, "the last number is the publisher's own");
                    if source.base.is_none() {
                        source.base = first.map(|first| first - 1).or((last == 0).then_some(0));
                    }
                    if source.base.is_some() {
                        self.known.insert(*id, last);
                        self.ended.insert(*id);
                    }
                }
                Fate::There | Fate::Unknown(_) => {}
            }
        }
    }

    fn send(&mut self, n: usize, newest: bool) {
        let up = self.up;
        let Some((id, source)) = self.source(n) else { return };
        let written = source.written;
        let Some((first, next)) = self.sender.routes.get_mut(&id).filter(|_| up) else { return };
        // Samples beyond its depth were replaced.
        let number = if newest {
            written
        } else {
            (*next).max((written + 1).saturating_sub(u64::from(DEPTH)))
        };
        if number < *next || number > written {
            return;
        }
        *next = number + 1;
        let header = SampleHeader {
            sequence: number,
            publish_time: MonotonicNs::now(),
            ..SampleHeader::default()
        };
        let owed = u32::try_from(number - *first).unwrap();
        let head =
            SampleHead { publisher: id.0, written: number, owed, header, ..SampleHead::default() };
        self.flight.push(Flight::Sample {
            from: self.sender.me.clone(),
            to: self.receiver.me.clone(),
            head: head.encode(),
        });
    }

    fn deliver(&mut self, flight: Flight) {
        let now = MonotonicNs::now();
        let Receiver { directory, here, me } = &mut self.receiver;
        match flight {
            Flight::Sample { from, to, head } => {
                let head = SampleHead::decode(&head).unwrap();
                let id = head.publisher();
                if to != *me || directory.publishers().get(&id).is_none_or(|p| p.host != from) {
                    return;
                }
                let (publisher, arrivals, fate) = here.remote_publishers.get_mut(&id).unwrap();
                if !arrivals.is_new(head.written, head.owed) {
                    return;
                }
                let source = self.sources.get_mut(&id).unwrap();
                source.base.get_or_insert(head.written - u64::from(head.owed) - 1);
                publisher.count_afar(&arrivals.count(id, *fate));
                let offset = Offset { ns: 0, error_ns: 0 };
                let mut header =
                    localized(&head, from.incarnation(), offset, arrivals.not_here(), now);
                let loan = publisher.loan(8).unwrap();
                publisher.publish_numbered(loan, &mut header).unwrap();
                let known = self.known.entry(id).or_default();
                *known = (*known).max(head.written);
            }
            Flight::Changed(host, change) => directory.changed(&host, &topic(), change, now),
            Flight::Answer(question, bytes) => {
                directory.listed(&question, &List::decode(&bytes).unwrap(), now, here)
            }
        }
        self.all_matched();
    }

    /// The sending gateway answers a time request.
    fn probe(&mut self) {
        if self.up {
            let now = MonotonicNs::now();
            self.receiver.directory.counted(&self.sender.me, self.sender.changes, now, now);
        }
    }

    fn link(&mut self, up: bool) {
        if self.up != up {
            (self.up, self.down_since) = (up, MonotonicNs::now());
            self.flight.clear();
            self.tokens(up);
        }
    }

    fn restart_sender(&mut self) {
        self.starts += 1;
        if self.up {
            self.tokens(false);
        }
        self.sender = Sender::new(self.starts);
        if self.up {
            self.tokens(true);
        }
    }

    /// The receiving gateway dies: its segments end as they are.
    fn restart_receiver(&mut self) {
        self.starts += 1;
        self.sender.routes.clear();
        self.receiver = Receiver::new(self.starts, &self.dir);
        until("the end noticed", || self.subscription.matched() == 0);
        if self.up {
            self.tokens(true);
        }
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Start => self.start(),
            Step::Publish(n) => {
                if let Some((_, source)) = self.source(n).filter(|(_, s)| s.alive) {
                    source.written += 1;
                }
            }
            Step::Send(n, newest) => self.send(n, newest),
            Step::Deliver(i, reconnect) if !self.flight.is_empty() => {
                let i = i % self.flight.len();
                let flight = if reconnect { self.flight[i].clone() } else { self.flight.remove(i) };
                self.deliver(flight);
            }
            Step::Lose(i) if !self.flight.is_empty() => {
                drop(self.flight.remove(i % self.flight.len()))
            }
            Step::Deliver(..) | Step::Lose(_) => {}
            Step::End(n, heard) => {
                if let Some((id, source)) = self.source(n).filter(|(_, s)| s.alive) {
                    source.alive = false;
                    let last = source.written;
                    if heard {
                        self.sender.offering.ended(id, last);
                    }
                }
            }
            Step::Link(up) => self.link(up),
            Step::RestartSender => self.restart_sender(),
            Step::RestartReceiver => self.restart_receiver(),
            Step::Take => drop(self.subscription.take().unwrap()),
            Step::Latest => drop(self.subscription.latest().unwrap()),
            Step::Wait(ms) => self.clock.advance(Duration::from_millis(ms)),
        }
        self.probe();
        self.poll();
    }

    fn check(&self, after: &Step) {
        let stats = self.subscription.stats();
        let known: u64 =
            self.sources.iter().filter_map(|(id, s)| Some(self.known.get(id)? - s.base?)).sum();
        assert_eq!(
            total(&stats),
            known,
            "after {after:?}: {stats:?}\n{:?} {:?}",
            self.sources,
            self.known
        );
        let remote_publishers = &self.receiver.here.remote_publishers;
        let out_of_reach = remote_publishers
            .values()
            .filter(|(_, _, fate)| matches!(fate, Fate::Unknown(_)))
            .count();
        let left = |id| !remote_publishers.contains_key(id) && !self.ended.contains(id);
        let left = self.sources.iter().filter(|(id, s)| s.base.is_some() && left(id)).count();
        assert!(
            stats.uncounted >= (out_of_reach + left) as u64,
            "after {after:?}: {stats:?}\n{:?} {:?}",
            self.sources,
            self.known
        );
    }

    /// All messages in flight arrive, and then the answers that they request.
    fn arrive(&mut self, rounds: usize, pause: Duration) {
        for _ in 0..rounds {
            self.probe();
            self.poll();
            while !self.flight.is_empty() {
                let flight = self.flight.remove(0);
                self.deliver(flight);
            }
            (0..MOST).for_each(|n| self.send(n, false));
            self.clock.advance(pause);
        }
    }

    /// Repairs the network and delivers all messages. Then each living publisher publishes one more
    /// sample, which is lost, and ends.
    fn settle(&mut self) {
        const A_WHILE: (usize, Duration) = (160, Duration::from_millis(500));
        self.link(true);
        self.arrive(A_WHILE.0, A_WHILE.1);
        let living: Vec<_> =
            self.sources.iter().filter(|(_, s)| s.alive).map(|(id, _)| *id).collect();
        for id in living {
            let n = id.0 as usize - 1;
            self.step(&Step::Publish(n));
            self.sender.routes.get_mut(&id).expect("it is wanted").1 =
                self.sources[&id].written + 1;
            self.step(&Step::End(n, true));
        }
        self.arrive(A_WHILE.0, A_WHILE.1);
    }
}

fn run(steps: &[Step], begun: bool) {
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let mut w = World::new(clock);
    w.start();
    if begun {
        w.arrive(10, Duration::from_millis(20));
    }
    for step in steps {
        w.step(step);
        w.check(step);
    }
    w.settle();
    while w.subscription.take().unwrap().is_some() {}
    w.check(&Step::Take);
    let stats = w.subscription.stats();
    assert_eq!(
        (stats.not_read, w.receiver.here.remote_publishers.len()),
        (0, 0),
        "all have ended: {stats:?}"
    );
    // Each sample sent to this host is accounted for, or reported as unknown.
    let silent = w
        .sources
        .iter()
        .filter(|(id, s)| s.base.is_some() && w.known.get(id) != Some(&s.written))
        .count();
    assert!(stats.uncounted >= silent as u64, "{stats:?}, {:?} {:?}", w.sources, w.known);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 96,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn each_sample_is_accounted_for_once_or_its_count_is_unknown(
        steps in steps(),
        begun in prop::bool::weighted(0.8),
    ) {
        run(&steps, begun);
    }
}

#[test]
fn without_a_death_of_a_gateway_or_of_the_link_every_count_is_known() {
    use Step::{End, Publish, Send, Start, Take};
    let clock = VirtualClock::starting_at(MonotonicNs::real_now());
    let _entered = clock.enter();
    let mut w = World::new(clock);
    [Start, Start].iter().for_each(|step| w.step(step));
    let shortly = Duration::from_millis(20);
    w.arrive(20, shortly);
    // A lost sample, then two samples: the first is replaced before it is sent. `settle` adds one
    // lost sample of each publisher.
    for step in [Publish(0), Send(0, false)] {
        w.step(&step);
    }
    w.flight.clear();
    for step in [Publish(0), Publish(0), Send(0, true)] {
        w.step(&step);
    }
    w.arrive(20, shortly);
    assert_eq!((total(&w.subscription.stats()), w.subscription.stats().not_read), (3, 1));
    w.step(&Take);
    w.settle();
    for step in [End(0, true), End(1, true)] {
        w.step(&step);
    }
    let stats = w.subscription.stats();
    assert_eq!(
        (stats.received, stats.lost_on_the_way, total(&stats), stats.uncounted),
        (1, 4, 5, 0),
        "{stats:?}"
    );
}
