// SPDX-License-Identifier: Apache-2.0
//! A gateway: the modules of this crate without threads, combined as in `engine`.
//!
//! Checked all the time:
//! - The error bound of a clock includes the truth, and so does that of a sample's transit time.
//! - The published numbers of a publisher only grow, and the newest one = received + lost + samples
//!   written before the first one that was sent to this host.
//! - Samples that an acknowledgement of a reliable topic covers have arrived.
//! - The last number of an ended publisher is the publisher's own.
//! - In-flight limits hold. Exactly the known publishers have remote publishers.

use super::route::{Route, Standing};
use super::{Clock, Record, Source, TOPICS};
use crate::arrival::{Arrivals, localized};
use crate::clock::{ASK_EVERY, ClockEstimate, Exchange};
use crate::directory::{Directory, Fate, Question, RemotePublishers};
use crate::neighbours::{Made, Neighbours, Standing as Start};
use crate::offering::Offering;
use crate::peer_discovery::{Attempt, PeerDiscovery};
use crate::probing::{ASK_OTHERS_EVERY, Probing};
use crate::receive_window::{Entry, Queued, ReceiveWindow};
use crate::window::MAX_IN_FLIGHT;
use crate::wire::{Ack, HostId, KnownHosts, List, Offer, Outcome, SampleHead, Time};
use driveline_types::{EndpointId, MonotonicNs, Qos, Reliability, Schema, TopicName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

// As in `engine`.
const KEPT_PARKED: Duration = Duration::from_secs(60);
const CHECK_AGAIN: Duration = Duration::from_millis(100);
// time: on the clocks of the world, as all below
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
// time: likewise
const TIME_WITHIN: Duration = Duration::from_secs(2);
// time: likewise
const LIST_WITHIN: Duration = Duration::from_secs(5);
const REPORT_AGAIN: Duration = Duration::from_millis(20);
const MAX_MEETING: usize = 32;
pub(super) const DEPTH: u64 = 16;
pub(super) const LEN: usize = 300;

/// Messages over a connection.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// All announcements of a gateway to another one: the topics that it sends and requests. Newer
    /// ones replace older ones.
    Tokens {
        version: u64,
        sends: Vec<usize>,
        wants: Vec<usize>,
        me: HostId,
    },
    AskTime {
        sent: MonotonicNs,
    },
    Time {
        sent: MonotonicNs,
        time: Vec<u8>,
    },
    AskList {
        question: Question,
        sent: MonotonicNs,
    },
    List {
        question: Question,
        sent: MonotonicNs,
        bytes: Vec<u8>,
    },
    Changed {
        topic: usize,
        change: u64,
    },
    AskMet,
    Met {
        bytes: Vec<u8>,
    },
    Sample {
        to: HostId,
        from: HostId,
        topic: usize,
        head: Vec<u8>,
    },
    Ack {
        to: HostId,
        from: HostId,
        topic: usize,
        ack: Vec<u8>,
    },
}

/// Actions that a gateway requests from the world.
pub(super) enum Out {
    Send(HostId, Message),
    /// Try to connect to the gateway with this number.
    Connect(u64, String),
    TokensChanged,
    PollAgain,
    /// This gateway ends. Its successor starts with these names of silent hosts.
    StartAnew(BTreeSet<String>),
}

/// State of the world outside the gateway, to check the gateway against.
pub(super) struct Reader<'a> {
    pub(super) time: u64,
    /// Clock of each host.
    pub(super) clocks: &'a [Clock],
    pub(super) sources: &'a BTreeMap<EndpointId, Source>,
    pub(super) records: &'a mut BTreeMap<(usize, EndpointId), Record>,
}

/// Local publisher of a publisher on another host.
struct RemotePublisher {
    from: HostId,
    clock: Arc<Mutex<ClockEstimate>>,
    arrivals: Arrivals,
    fate: Fate,
    received: u64,
    newest: u64,
}

#[derive(Default)]
struct Here(BTreeMap<EndpointId, RemotePublisher>);

impl RemotePublishers for Here {
    type RemotePublisher = EndpointId;

    fn open(
        &mut self,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        _: &TopicName,
        _: &Offer,
    ) -> Result<EndpointId, String> {
        let remote_publisher = RemotePublisher {
            from: from.clone(),
            clock: clock.clone(),
            arrivals: Arrivals::default(),
            fate: Fate::There,
            received: 0,
            newest: 0,
        };
        assert!(
            self.0.insert(id, remote_publisher).is_none(),
            "a second remote publisher of {id:?}"
        );
        Ok(id)
    }

    fn goes_on(&mut self, id: &EndpointId, from: &HostId, clock: &Arc<Mutex<ClockEstimate>>) {
        let remote_publisher = self.0.get_mut(id).expect("a remote publisher");
        (remote_publisher.from, remote_publisher.clock) = (from.clone(), clock.clone());
    }

    fn fate(&mut self, id: &EndpointId, fate: Fate) -> bool {
        self.0.get_mut(id).expect("a remote publisher").fate = fate;
        true
    }

    fn close(&mut self, id: EndpointId, _: EndpointId) {
        assert!(self.0.remove(&id).is_some());
    }

    fn log(&mut self, _: String) {}
}

struct Lane {
    from: HostId,
    receive_window: ReceiveWindow<(HostId, SampleHead, MonotonicNs)>,
}

pub(super) struct Gateway {
    me: HostId,
    host: usize,
    directory: Directory<EndpointId>,
    here: Here,
    probing: Probing,
    peer_discovery: PeerDiscovery,
    neighbours: Neighbours,
    offerings: Vec<Offering>,
    changes: u64,
    lists: Vec<Vec<u8>>,
    /// Publishers have come or gone since the last comparison.
    compares: bool,
    routes: BTreeMap<(HostId, usize), Route>,
    firsts: BTreeMap<(EndpointId, HostId), u64>,
    wants: BTreeSet<(HostId, usize)>,
    lanes: BTreeMap<String, Lane>,
    /// Announcements of each connected gateway, with their version.
    said: BTreeMap<u64, (u64, HostId, Vec<usize>, Vec<usize>)>,
    unknown_reported: MonotonicNs,
    /// Last answer of each host.
    counted: BTreeMap<HostId, u64>,
    next: Option<MonotonicNs>,
}

/// Number of a host, from its name.
fn host_number(id: &HostId) -> usize {
    id.name()[1..].parse().unwrap()
}

fn topic(n: usize) -> TopicName {
    TOPICS[n].parse().unwrap()
}

fn number_of(name: &TopicName) -> usize {
    TOPICS.iter().position(|topic| *topic == name.as_str()).unwrap()
}

fn is_reliable(topic: usize) -> bool {
    topic == 1
}

fn offer(topic: usize) -> Offer {
    let reliability =
        if is_reliable(topic) { Reliability::Reliable } else { Reliability::BestEffort };
    Offer {
        node: "n".parse().unwrap(),
        schema: Arc::new(Schema::bytes("test", "raw", "")),
        qos: Qos { depth: DEPTH as u32, reliability, ..Qos::default() },
        max_payload: 1_000,
    }
}

impl Gateway {
    pub(super) fn new(
        me: HostId,
        host: usize,
        listens: &[String],
        connects: &[String],
        tried: BTreeSet<String>,
    ) -> Self {
        let topics = || (0..TOPICS.len()).map(topic);
        let offerings: Vec<_> = topics().map(Offering::new).collect();
        let lists = offerings.iter().map(|o| o.encoded(0, |_| BTreeMap::new()).unwrap()).collect();
        Self {
            host,
            directory: Directory::new(topics(), me.clone()),
            here: Here::default(),
            probing: Probing::new(tried),
            peer_discovery: PeerDiscovery::new(me.clone(), listens, connects),
            neighbours: Neighbours::new(me.incarnation()),
            offerings,
            changes: 0,
            lists,
            compares: true,
            routes: BTreeMap::new(),
            firsts: BTreeMap::new(),
            wants: BTreeSet::new(),
            lanes: BTreeMap::new(),
            said: BTreeMap::new(),
            unknown_reported: MonotonicNs(0),
            counted: BTreeMap::new(),
            next: None,
            me,
        }
    }

    pub(super) fn id(&self) -> &HostId {
        &self.me
    }

    pub(super) fn start(&self) -> u64 {
        self.me.incarnation()
    }

    pub(super) fn next_poll(&self) -> Option<MonotonicNs> {
        let routes = self.routes.values().filter(|route| route.parked_since.is_none());
        routes.filter_map(|route| route.window.deadline()).chain(self.next).min()
    }

    /// Returns true if the control thread has something to do.
    pub(super) fn is_due(&self, now: MonotonicNs) -> bool {
        self.next.is_some_and(|next| next <= now)
    }

    /// Returns the announcements of this gateway to the gateway with the start number `to`.
    pub(super) fn tokens(&self, to: u64, version: u64) -> Message {
        let wants = self.wants.iter().filter(|(of, _)| of.incarnation() == to);
        Message::Tokens {
            version,
            sends: (0..TOPICS.len()).collect(),
            wants: wants.map(|(_, topic)| *topic).collect(),
            me: self.me.clone(),
        }
    }

    pub(super) fn publishers_changed(
        &mut self,
        host: usize,
        sources: &BTreeMap<EndpointId, Source>,
    ) {
        self.compares = true;
        for ((to, topic), route) in &mut self.routes {
            route.matches(host, *topic, to, sources, &mut self.firsts);
        }
    }

    pub(super) fn source_ended(&mut self, topic: usize, id: EndpointId, last: u64) {
        self.offerings[topic].ended(id, last);
    }

    pub(super) fn connected(
        &mut self,
        start: u64,
        by_me: bool,
        at: Option<String>,
        now: MonotonicNs,
    ) {
        match (by_me, at) {
            (true, Some(at)) => self.neighbours.connected(start, Made::Here(at), now),
            (true, None) => self.neighbours.is_connected(start),
            (false, _) => self.neighbours.connected(start, Made::There, now),
        }
    }

    /// Handles the end of a connection, and of the announcements that came over it. `called`: the
    /// other end made the connection.
    pub(super) fn disconnected(&mut self, start: u64, called: bool, now: MonotonicNs) {
        if called {
            self.neighbours.call_ended(start, now);
        }
        self.neighbours.lost(start, now);
        if let Some((_, of, sends, wants)) = self.said.remove(&start) {
            self.counted.remove(&of);
            wants.into_iter().for_each(|topic| self.unwanted(&of, topic, now));
            for topic_sent in sends {
                self.directory.topic_is(&of, &topic(topic_sent), false, now).unwrap();
            }
            self.directory.host_is(&of, false, now).unwrap();
        }
    }

    fn said(
        &mut self,
        (start, version): (u64, u64),
        (of, sends, wants): (HostId, Vec<usize>, Vec<usize>),
        now: MonotonicNs,
        sources: &BTreeMap<EndpointId, Source>,
    ) {
        if self.said.get(&start).is_some_and(|(known, ..)| *known >= version) {
            return;
        }
        let before = self.said.insert(start, (version, of.clone(), sends.clone(), wants.clone()));
        let wanted = before.as_ref().map(|(.., wants)| wants.clone()).unwrap_or_default();
        if before.is_none() {
            self.directory.host_is(&of, true, now).unwrap();
            for sent in sends {
                self.directory.topic_is(&of, &topic(sent), true, now).unwrap();
            }
        }
        for topic in wants.iter().filter(|t| !wanted.contains(t)) {
            self.wanted(&of, *topic, now, sources);
        }
        for topic in wanted.into_iter().filter(|t| !wants.contains(t)) {
            self.unwanted(&of, topic, now);
        }
    }

    fn wanted(
        &mut self,
        by: &HostId,
        topic: usize,
        now: MonotonicNs,
        sources: &BTreeMap<EndpointId, Source>,
    ) {
        self.directory.host(by, now).unwrap();
        let new = || Route::new(is_reliable(topic), now);
        let route = self.routes.entry((by.clone(), topic)).or_insert_with(new);
        route.parked_since = None;
        route.matches(self.host, topic, by, sources, &mut self.firsts);
    }

    fn unwanted(&mut self, by: &HostId, topic: usize, now: MonotonicNs) {
        if let Some(route) = self.routes.get_mut(&(by.clone(), topic)) {
            route.parked_since = Some(now);
            route.window.parted(now);
            route.standing.clear();
            route.release_held();
        }
    }

    /// Handles a message from a gateway.
    pub(super) fn receives(
        &mut self,
        peer: u64,
        message: Message,
        now: MonotonicNs,
        reader: &mut Reader<'_>,
    ) -> Vec<Out> {
        let of = self.said.get(&peer).map(|(_, of, ..)| of.clone());
        let mut out = Vec::new();
        match message {
            Message::Tokens { version, sends, wants, me } => {
                self.said((peer, version), (me, sends, wants), now, reader.sources);
                out.extend(self.turn_routes(now, reader.sources));
                out.push(Out::PollAgain);
            }
            Message::AskTime { sent } => {
                let time = Time { received: now, answered: now, changes: self.changes };
                let time = time.encode().to_vec();
                out.extend(of.map(|of| Out::Send(of, Message::Time { sent, time })));
            }
            Message::Time { sent, time } => {
                let Some(of) = of.filter(|_| now.since(sent) <= TIME_WITHIN) else { return out };
                let Time { received, answered, changes } = Time::decode(&time).unwrap();
                if let Some(host) = self.directory.hosts().get(&of) {
                    let exchange = Exchange { sent, received, answered, returned: now };
                    assert!(host.clock.lock().unwrap().exchange(&exchange), "{exchange:?}");
                    let clock = host.clock.lock().unwrap();
                    assert_eq!(clock.steps(), 0, "no clock was set");
                    let (offset, there) = (clock.offset(now).unwrap(), host_number(&of));
                    let truth = reader.clocks[there].local(reader.time).signed_since(now);
                    // Clocks of this world have steps of 50 ns.
                    let wrong = (offset.ns - truth).unsigned_abs();
                    assert!(wrong <= offset.error_ns + 200, "{offset:?}, and it is {truth}");
                }
                self.probing.answered(&of);
                self.directory.counted(&of, changes, sent, now);
                // An answer without news must not make anything due earlier.
                let known = self.counted.insert(of, changes);
                out.extend((known != Some(changes)).then_some(Out::PollAgain));
            }
            Message::AskList { question, sent } => {
                let bytes = self.lists[number_of(&question.topic)].clone();
                out.extend(of.map(|of| Out::Send(of, Message::List { question, sent, bytes })));
            }
            Message::List { question, sent, bytes } if now.since(sent) <= LIST_WITHIN => {
                let list = List::decode(&bytes).unwrap();
                self.directory.listed(&question, &list, now, &mut self.here);
                out.push(Out::PollAgain);
            }
            Message::Changed { topic: n, change } => {
                if let Some(of) = of {
                    self.directory.changed(&of, &topic(n), change, now);
                    out.push(Out::PollAgain);
                }
            }
            Message::AskMet => {
                let bytes = self.peer_discovery.answer().encode();
                out.extend(of.map(|of| Out::Send(of, Message::Met { bytes })));
            }
            Message::Met { bytes } => {
                if let Some(of) = of {
                    let answer = KnownHosts::decode(&bytes).unwrap();
                    self.peer_discovery.answered(&of, answer, now);
                    out.push(Out::PollAgain);
                }
            }
            Message::Sample { to, from, topic, head } if to == self.me => {
                let head = SampleHead::decode(&head).unwrap();
                self.sample(&from, topic, head, now, reader, &mut out);
            }
            Message::Ack { to, from, topic, ack } if to == self.me => {
                let ack = Ack::decode(&ack).unwrap();
                self.acknowledged(&from, topic, &ack, now, reader);
                out.extend(self.turn_routes(now, reader.sources));
            }
            Message::List { .. } | Message::Sample { .. } | Message::Ack { .. } => {}
        }
        out
    }

    fn sample(
        &mut self,
        from: &HostId,
        n: usize,
        head: SampleHead,
        now: MonotonicNs,
        reader: &mut Reader<'_>,
        out: &mut Vec<Out>,
    ) {
        let fate = match self.here.0.get(&head.publisher()) {
            Some(remote_publisher) if remote_publisher.from == *from => None,
            Some(remote_publisher) => {
                assert_eq!(
                    remote_publisher.from.name(),
                    from.name(),
                    "a publisher stays on its host"
                );
                Some(Outcome::NotYet)
            }
            None => {
                if now >= self.unknown_reported + REPORT_AGAIN {
                    self.unknown_reported = now;
                    self.directory.unknown(from, &topic(n), now);
                    out.push(Out::PollAgain);
                }
                Some(Outcome::NotYet)
            }
        };
        let mut answers = Vec::new();
        if is_reliable(n) {
            self.in_turn(from, head, fate, now, reader, &mut answers);
        } else {
            let outcome = fate.unwrap_or_else(|| self.take(from, &head, now, reader));
            answers.push((head.number, head.sent, outcome, now));
        }
        for (number, sent, outcome, received) in answers {
            let accepts = MAX_IN_FLIGHT as u32;
            let ack = Ack { outcome, accepts, number, sent, received, answered: now };
            let ack = ack.encode().to_vec();
            let (to, me) = (from.clone(), self.me.clone());
            out.push(Out::Send(from.clone(), Message::Ack { to, from: me, topic: n, ack }));
        }
    }

    /// As in `lane.rs`.
    fn in_turn(
        &mut self,
        from: &HostId,
        head: SampleHead,
        fate: Option<Outcome>,
        now: MonotonicNs,
        reader: &mut Reader<'_>,
        answers: &mut Vec<(u64, MonotonicNs, Outcome, MonotonicNs)>,
    ) {
        let (number, place, sent) = (head.number, head.place, head.sent);
        let known = self.lanes.get(from.name()).is_some_and(|lane| lane.from == *from);
        if let Some(outcome) = fate.filter(|_| !known) {
            answers.push((number, sent, outcome, now));
            return;
        }
        let lane = self.lanes.entry(from.name().to_owned()).or_insert_with(|| Lane {
            from: from.clone(),
            receive_window: ReceiveWindow::default(),
        });
        if lane.from != *from {
            lane.from = from.clone();
            lane.receive_window.begin_anew();
        }
        if let Entry::Reply { outcome, number, .. } =
            lane.receive_window.enter(number, place, LEN, fate, (from.clone(), head, now))
        {
            answers.push((number, sent, outcome, now));
        }
        while let Some(Queued { number, place, fate, what: (of, head, received), .. }) =
            self.lanes.get_mut(from.name()).and_then(|lane| lane.receive_window.next_in_turn())
        {
            let sent = head.sent;
            let outcome = fate.unwrap_or_else(|| self.take(&of, &head, now, reader));
            self.lanes
                .get_mut(from.name())
                .unwrap()
                .receive_window
                .finished(number, place, outcome);
            answers.push((number, sent, outcome, received));
        }
    }

    /// Publishes a sample here.
    fn take(
        &mut self,
        from: &HostId,
        head: &SampleHead,
        now: MonotonicNs,
        reader: &mut Reader<'_>,
    ) -> Outcome {
        let id = head.publisher();
        let Some(remote_publisher) =
            self.here.0.get_mut(&id).filter(|remote_publisher| remote_publisher.from == *from)
        else {
            return Outcome::NotYet;
        };
        let Some(offset) = remote_publisher.clock.lock().unwrap().offset(now) else {
            return Outcome::NotYet;
        };
        if !remote_publisher.arrivals.is_new(head.written, head.owed) {
            return Outcome::Published;
        }
        assert!(head.written > remote_publisher.newest, "numbers only grow");
        (remote_publisher.newest, remote_publisher.received) =
            (head.written, remote_publisher.received + 1);
        assert_eq!(
            remote_publisher.received + remote_publisher.arrivals.not_here(),
            remote_publisher.newest,
            "all accounted for"
        );
        let source = &reader.sources[&id];
        let published = source.published[head.written as usize - 1];
        let header =
            localized(head, from.incarnation(), offset, remote_publisher.arrivals.not_here(), now);
        let (transit, truth) =
            (header.remote.unwrap().transit_ns, (reader.time - published) as i64);
        // Clocks drifted while it was in flight.
        let bound = offset.error_ns + truth.unsigned_abs() / 10_000 + 1_000;
        assert!((transit - truth).unsigned_abs() <= bound, "{transit} for {truth}, ± {bound}");
        reader.records.entry((self.host, id)).or_default().numbers.insert(head.written);
        Outcome::Published
    }

    fn acknowledged(
        &mut self,
        from: &HostId,
        topic: usize,
        ack: &Ack,
        now: MonotonicNs,
        reader: &Reader<'_>,
    ) {
        let Some(route) = self.routes.get_mut(&(from.clone(), topic)) else { return };
        if let Some(host) = self.directory.hosts().get(from) {
            let Ack { sent, received, answered, .. } = *ack;
            let mut clock = host.clock.lock().unwrap();
            clock.exchange(&Exchange { sent, received, answered, returned: now });
            let offset = clock.offset(now);
            offset.into_iter().for_each(|offset| {
                route.window.takes(Duration::from_nanos(offset.error_ns.saturating_mul(2)));
            });
        }
        let in_flight: Vec<SampleHead> = route.held.iter().cloned().collect();
        let publisher = in_flight.iter().find(|head| head.number == ack.number);
        let ended = match (publisher.map(SampleHead::publisher), ack.outcome) {
            (Some(publisher), Outcome::NotYet) => {
                if route.waits_for(publisher, now) && route.window.not_yet(ack, now) {
                    return;
                }
                route.window.refused(ack, now)
            }
            (_, Outcome::Gap) => route.window.gap(ack, now),
            (Some(publisher), Outcome::Published) => {
                route.standing.insert(publisher, Standing::Received);
                route.window.acknowledged(ack, now)
            }
            _ => route.window.acknowledged(ack, now),
        };
        if !ended {
            return;
        }
        route.release_held();
        let arrived = matches!(ack.outcome, Outcome::Published | Outcome::Gap);
        for head in in_flight.iter().filter(|_| is_reliable(topic) && arrived) {
            if head.number > ack.number {
                continue;
            }
            let record = reader.records.get(&(host_number(from), head.publisher()));
            assert!(
                record.is_some_and(|record| record.numbers.contains(&head.written)),
                "sample {} is acknowledged by {ack:?} and has not come",
                head.written
            );
        }
    }

    /// Lets each route send the samples that it may send now.
    pub(super) fn turn_routes(
        &mut self,
        now: MonotonicNs,
        sources: &BTreeMap<EndpointId, Source>,
    ) -> Vec<Out> {
        let mut out = Vec::new();
        for ((to, topic), route) in &mut self.routes {
            for head in route.turn(now, sources) {
                let head = SampleHead { sent: now, ..head };
                let (to, from) = (to.clone(), self.me.clone());
                let head = head.encode();
                out.push(Out::Send(to.clone(), Message::Sample { to, from, topic: *topic, head }));
            }
        }
        out
    }

    /// Does the work that is due, as the gateway's control thread does.
    pub(super) fn poll(
        &mut self,
        now: MonotonicNs,
        attempts: &[u64],
        sources: &BTreeMap<EndpointId, Source>,
    ) -> Vec<Out> {
        let mut out = Vec::new();
        self.compare(now, sources, &mut out);
        let mut next = vec![self.directory.forget(now, &mut self.here)];
        let (questions, asked) = self.directory.questions(now);
        for question in questions {
            let ask = Message::AskList { question: question.clone(), sent: now };
            out.push(Out::Send(question.host, ask));
        }
        next.extend([asked, self.probe(now, &mut out)]);
        if self.want(now) {
            out.push(Out::TokensChanged);
        }
        self.routes.retain(|_, e| e.parked_since.is_none_or(|since| now < since + KEPT_PARKED));
        next.extend(self.routes.values().map(|e| e.parked_since.map(|since| since + KEPT_PARKED)));
        let lingers = self.offerings.iter().any(Offering::lingers);
        next.push(lingers.then_some(now + CHECK_AGAIN));
        next.extend(self.meet(now, attempts, &mut out));
        out.extend(self.turn_routes(now, sources));
        self.next = next.into_iter().flatten().min();
        self.check(sources);
        if self.probing.silent(now).is_some() {
            out = vec![Out::StartAnew(std::mem::take(&mut self.probing).tried(now))];
        }
        out
    }

    fn compare(
        &mut self,
        now: MonotonicNs,
        sources: &BTreeMap<EndpointId, Source>,
        out: &mut Vec<Out>,
    ) {
        for n in 0..TOPICS.len() {
            if !self.compares && !self.offerings[n].lingers() {
                continue;
            }
            let of_here =
                sources.iter().filter(|(_, s)| s.alive && s.host == self.host && s.topic == n);
            let there = of_here.map(|(id, _)| (*id, offer(n))).collect();
            let routes: Vec<_> = self.routes.iter().filter(|((_, t), _)| *t == n).collect();
            let owed = |id| routes.iter().any(|(_, route)| route.owes(id, sources));
            if !self.offerings[n].compare(there, now, owed).changed {
                continue;
            }
            self.changes += 1;
            let firsts = &self.firsts;
            let first = |id| {
                let of = firsts.iter().filter(|((publisher, _), _)| *publisher == id);
                of.map(|((_, to), first)| (to.clone(), *first)).collect()
            };
            self.lists[n] = self.offerings[n].encoded(self.changes, first).unwrap();
            for (_, of, ..) in self.said.values() {
                let message = Message::Changed { topic: n, change: self.changes };
                out.push(Out::Send(of.clone(), message));
            }
        }
        if std::mem::take(&mut self.compares) {
            let offerings = &self.offerings;
            self.firsts.retain(|(id, _), _| offerings.iter().any(|offering| offering.knows(*id)));
        }
    }

    fn probe(&mut self, now: MonotonicNs, out: &mut Vec<Out>) -> Option<MonotonicNs> {
        let there = self.directory.hosts().iter().filter(|(_, h)| h.alive).map(|(id, h)| {
            let every = if h.sends_something() { ASK_EVERY } else { ASK_OTHERS_EVERY };
            (id, h.changed, every)
        });
        let (due, next) = self.probing.due(there, now);
        out.extend(due.into_iter().map(|id| Out::Send(id, Message::AskTime { sent: now })));
        next
    }

    /// Requests all topics of other hosts. Returns true if the requests have changed.
    fn want(&mut self, now: MonotonicNs) -> bool {
        let hosts = self.directory.hosts();
        let measured = |id: &HostId| {
            hosts.get(id).is_some_and(|h| h.alive && h.clock.lock().unwrap().offset(now).is_some())
        };
        let there = self.directory.publishers().values().filter(|p| p.is_there());
        let wants: BTreeSet<_> = there
            .filter(|p| measured(&p.host))
            .map(|p| (p.host.clone(), number_of(&p.topic)))
            .collect();
        let changed = wants != self.wants;
        self.wants = wants;
        changed
    }

    /// Reconnects to lost hosts, and connects to reported ones.
    fn meet(
        &mut self,
        now: MonotonicNs,
        attempts: &[u64],
        out: &mut Vec<Out>,
    ) -> [Option<MonotonicNs>; 3] {
        let hosts = self.directory.hosts();
        let standing = |start: u64| {
            let Some((id, _)) = hosts.iter().find(|(id, _)| id.incarnation() == start) else {
                return Start::Stranger;
            };
            let mut others = hosts.iter().filter(|(other, h)| h.alive && *other != id);
            if others.any(|(other, _)| other.name() == id.name()) {
                Start::Replaced
            } else {
                Start::Host
            }
        };
        let (due, reconnect) = self.neighbours.due(now, standing);
        out.extend(due.into_iter().map(|(start, at)| Out::Connect(start, at)));
        let here = hosts.iter().filter_map(|(id, host)| host.alive.then_some(id));
        let (due, ask) = self.peer_discovery.due(here, now);
        out.extend(due.into_iter().map(|host| Out::Send(host, Message::AskMet)));
        let neighbours = &self.neighbours;
        let is_free = |host: &HostId| {
            attempts.len() < MAX_MEETING
                && !attempts.contains(&host.incarnation())
                && !neighbours.is_sought(host.incarnation(), now)
        };
        let (attempt, next) = self.peer_discovery.attempt(now, is_free);
        out.extend(attempt.map(|Attempt { host, at, .. }| Out::Connect(host.incarnation(), at)));
        [reconnect, ask, next]
    }

    /// Adds the counts of its routes.
    pub(super) fn happened(&self, all: &mut BTreeMap<&'static str, u64>) {
        for counters in self.routes.values().map(|route| route.window.counters()) {
            *all.entry("sent again").or_default() += counters.sent_again;
            *all.entry("delivered").or_default() += counters.delivered;
        }
    }

    fn check(&self, sources: &BTreeMap<EndpointId, Source>) {
        let known = self.directory.publishers().iter().map(|(id, p)| (*id, &p.host));
        assert!(
            known.eq(self
                .here
                .0
                .iter()
                .map(|(id, remote_publisher)| (*id, &remote_publisher.from))),
            "exactly the known publishers have remote publishers"
        );
        for (id, remote_publisher) in &self.here.0 {
            if let Fate::Ended { last, first } = remote_publisher.fate {
                let written = sources[id].written();
                assert_eq!(last, written, "the last number is the publisher's own");
                assert!(first.is_none_or(|first| first <= written + 1));
            }
        }
        for route in self.routes.values() {
            assert!(route.window.in_flight() <= MAX_IN_FLIGHT && route.held.len() <= MAX_IN_FLIGHT);
        }
    }

    /// Checks the state after a long time without faults.
    pub(super) fn check_settled(
        &self,
        host: usize,
        others: &BTreeSet<HostId>,
        sources: &BTreeMap<EndpointId, Source>,
        now: u64,
        records: &BTreeMap<(usize, EndpointId), Record>,
    ) {
        let hosts = self.directory.hosts().iter().filter(|(_, h)| h.alive);
        let heard: BTreeSet<HostId> = hosts.map(|(id, _)| id.clone()).collect();
        assert_eq!(heard, *others, "{} hears all others", self.me);
        let living: BTreeSet<EndpointId> =
            sources.iter().filter(|(_, s)| s.alive && s.host != host).map(|(id, _)| *id).collect();
        let there = self.directory.publishers().iter().filter(|(_, p)| p.is_there());
        let there: BTreeSet<EndpointId> = there.map(|(id, _)| *id).collect();
        assert_eq!(there, living, "{} knows all publishers", self.me);
        for (id, source) in sources.iter().filter(|(_, s)| s.alive && s.host != host) {
            // Samples of the last second may be in flight.
            let due = source.published.partition_point(|at| at + super::S < now) as u64;
            let empty = Record::default();
            let numbers = &records.get(&(host, *id)).unwrap_or(&empty).numbers;
            assert!(due == 0 || numbers.last() >= Some(&due), "{}: {id:?} up to {due}", self.me);
            if is_reliable(source.topic) {
                let last = due.saturating_sub(20).max(1)..=due;
                assert!(
                    last.into_iter().all(|n| n == 0 || numbers.contains(&n)),
                    "one of the last samples of {id:?} is missing"
                );
            }
        }
    }
}
