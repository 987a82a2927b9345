// SPDX-License-Identifier: Apache-2.0
//! Receiving side: hosts, their clocks, their publishers, and the topics requested from them.

use super::admission::{Foreign, TurnedAway};
use super::events::Event;
use super::gateway_state::GatewayState;
use super::lock;
use super::remote_publisher::{Receiving, RemotePublisher};
use crate::clock::{ASK_EVERY, ClockEstimate};
use crate::directory::{
    Directory, Fate, Host, NotReceived, Publisher, Question, RemotePublishers, TooManyHosts,
};
use crate::neighbours::Standing;
use crate::probing::{ASK_OTHERS_EVERY, Probing};
use crate::wire::{HostId, List, MAX_LIST_LEN, Offer, Parsed, QosMark};
use driveline_gateway::network::CarriedTopic;
use driveline_gateway::{
    HostReport, Refusal, RemotePublisherReport, RemotePublisherState, zenoh_says,
};
use driveline_types::{EndpointId, MonotonicNs, TopicName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::ConsolidationMode;

/// Time-out of a request for a list.
pub(super) const LIST_WITHIN: Duration = Duration::from_secs(5);
/// Parameter of a list request that names the sender.
pub(super) const ASKED_BY: &str = "by";
/// Time after which hosts with the same name are logged. It is longer than a lease (10 s with
/// routers that use Zenoh's defaults), for which Zenoh may still report the token of a departed
/// gateway.
const NAMESAKES_AFTER: Duration = Duration::from_secs(15);

/// Host, offer of its publishers, and topic.
type WantKey = (HostId, QosMark, TopicName);

fn want_key(p: &Publisher<Arc<RemotePublisher>>) -> WantKey {
    (p.host.clone(), QosMark::of(&p.remote_publisher.offer.qos), p.topic.clone())
}

/// See the module.
pub(super) struct Incoming {
    topics: BTreeMap<TopicName, CarriedTopic>,
    directory: Directory<Arc<RemotePublisher>>,
    probing: Probing,
    /// The gateway carries topics.
    carries: bool,
    wants: BTreeMap<WantKey, (QosMark, LivelinessToken)>,
    receiving: Arc<Receiving>,
    /// Refused publishers, as passed to `receiving`.
    refused: BTreeSet<EndpointId>,
    turned_away: TurnedAway,
    foreign: Foreign,
    /// Names that several hosts have, with the time of the discovery.
    namesakes: BTreeMap<String, MonotonicNs>,
}

/// Makes remote publishers for the directory.
struct Making<'a> {
    common: &'a GatewayState,
    topics: &'a BTreeMap<TopicName, CarriedTopic>,
    receiving: &'a Arc<Receiving>,
}

impl RemotePublishers for Making<'_> {
    type RemotePublisher = Arc<RemotePublisher>;

    fn open(
        &mut self,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        topic: &TopicName,
        offer: &Offer,
    ) -> Result<Arc<RemotePublisher>, String> {
        let topic = self.topics.get(topic).ok_or("its topic is not received here")?;
        let remote_publisher = RemotePublisher::open(
            self.common,
            topic,
            from,
            clock.clone(),
            (id, offer.clone()),
            self.receiving,
        )
        .map_err(|e| e.to_string())?;
        self.receiving.add(id, remote_publisher.clone());
        Ok(remote_publisher)
    }

    fn goes_on(
        &mut self,
        remote_publisher: &Arc<RemotePublisher>,
        from: &HostId,
        clock: &Arc<Mutex<ClockEstimate>>,
    ) {
        remote_publisher.comes_from(from, clock.clone(), self.receiving);
    }

    fn fate(&mut self, remote_publisher: &Arc<RemotePublisher>, fate: Fate) -> bool {
        remote_publisher.is(fate)
    }

    fn close(&mut self, id: EndpointId, _: Arc<RemotePublisher>) {
        self.receiving.remove(id);
    }

    fn log(&mut self, line: String) {
        self.common.log(line);
    }
}

impl Incoming {
    /// `tried`: names of hosts for which the gateway has been restarted.
    pub(super) fn new(
        carried: &[CarriedTopic],
        receiving: Arc<Receiving>,
        tried: BTreeSet<String>,
    ) -> Self {
        let topics: BTreeMap<_, _> =
            carried.iter().filter(|t| t.receive).map(|t| (t.topic.clone(), t.clone())).collect();
        Self {
            directory: Directory::new(topics.keys().cloned(), receiving.me.clone()),
            topics,
            probing: Probing::new(tried),
            carries: !carried.is_empty(),
            wants: BTreeMap::new(),
            receiving,
            refused: BTreeSet::new(),
            turned_away: TurnedAway::default(),
            foreign: Foreign::default(),
            namesakes: BTreeMap::new(),
        }
    }

    /// Returns the clock of a host, which may not have announced itself yet. `None`: there are too
    /// many hosts.
    pub(super) fn clock(
        &mut self,
        common: &GatewayState,
        id: &HostId,
        now: MonotonicNs,
    ) -> Option<Arc<Mutex<ClockEstimate>>> {
        let clock = self.directory.host(id, now).map(|h| h.clock.clone());
        clock.map_err(|TooManyHosts| self.turn_away(common, id)).ok()
    }

    fn turn_away(&mut self, common: &GatewayState, id: &HostId) {
        self.turned_away.add(id).into_iter().for_each(|line| common.log(line));
    }

    /// Returns true if another host of this version is known, or one of another version is present.
    pub(super) fn has_met_hosts(&self) -> bool {
        !self.directory.hosts().is_empty() || !self.foreign.is_empty()
    }

    /// See [`Directory::similar`].
    pub(super) fn similar(&self, carried: &BTreeSet<TopicName>) -> BTreeMap<TopicName, TopicName> {
        self.directory.similar(carried)
    }

    /// Returns true if another host sends this topic and it is not received here.
    pub(super) fn is_sent_elsewhere(&self, topic: &TopicName) -> bool {
        self.directory.is_sent_elsewhere(topic)
    }

    /// Returns true if another host sends this topic and it is received here.
    pub(super) fn is_sent(&self, topic: &TopicName) -> bool {
        self.directory.is_sent(topic)
    }

    /// Notes the arrival or departure of a gateway.
    pub(super) fn host_token(
        &mut self,
        common: &GatewayState,
        id: &HostId,
        alive: bool,
        now: MonotonicNs,
    ) {
        if !alive {
            self.turned_away.remove(id);
            if !self.directory.hosts().contains_key(id) {
                return;
            }
        }
        let others =
            self.directory.hosts().iter().any(|(h, s)| s.alive && h != id && h.name() == id.name());
        match self.directory.host_is(id, alive, now) {
            Ok(true) => {
                self.turned_away.remove(id);
                common.log(format!(
                    "host '{}' {}",
                    id.name(),
                    if alive { "is there" } else { "is gone" }
                ));
            }
            Ok(false) => {}
            Err(TooManyHosts) => self.turn_away(common, id),
        }
        if alive && (others || id.name() == common.me.name()) {
            self.namesakes.entry(id.name().to_owned()).or_insert(now);
        }
    }

    /// Logs hosts with the same name, unless one of them is the remaining token of a gateway that
    /// was restarted.
    fn log_namesakes(&mut self, common: &GatewayState, now: MonotonicNs) -> Option<MonotonicNs> {
        let (hosts, mut next) = (self.directory.hosts(), None::<MonotonicNs>);
        self.namesakes.retain(|name, since| {
            let others = hosts.iter().filter(|(id, h)| h.alive && id.name() == name).count();
            let all = others + usize::from(name == common.me.name());
            let due = *since + NAMESAKES_AFTER;
            if all > 1 && now >= due {
                common.log(format!(
                    "two hosts are called '{name}': give each a name of its own \
                     (`network: {{host: …}}`)"
                ));
            } else if all > 1 {
                next = Some(next.map_or(due, |n| n.min(due)));
            }
            all > 1 && now < due
        });
        next
    }

    /// Notes the arrival or departure of a gateway of another version of the protocol.
    pub(super) fn foreign_token(
        &mut self,
        common: &GatewayState,
        id: HostId,
        version: u16,
        alive: bool,
    ) {
        self.foreign.is(id, version, alive).into_iter().for_each(|line| common.log(line));
    }

    /// Notes that a host sends a topic, or no longer does.
    pub(super) fn topic_token(
        &mut self,
        common: &GatewayState,
        host: &HostId,
        topic: &TopicName,
        alive: bool,
        now: MonotonicNs,
    ) {
        if self.directory.topic_is(host, topic, alive, now).is_err() {
            self.turn_away(common, host);
        }
    }

    /// Handles the announcement that a host has changed a list.
    pub(super) fn changed(
        &mut self,
        host: &HostId,
        topic: &TopicName,
        change: u64,
        now: MonotonicNs,
    ) {
        self.directory.changed(host, topic, change, now);
    }

    /// Handles the answer to a request for the time, which has the number of changes of the host's
    /// lists.
    pub(super) fn counted(
        &mut self,
        host: &HostId,
        changes: u64,
        asked: MonotonicNs,
        now: MonotonicNs,
    ) {
        self.probing.answered(host);
        self.directory.counted(host, changes, asked, now);
    }

    /// Handles a sample of an unknown publisher.
    pub(super) fn unknown(&mut self, host: &HostId, topic: &TopicName, now: MonotonicNs) {
        self.directory.unknown(host, topic, now);
    }

    /// Handles the answer to a list request.
    pub(super) fn listed(
        &mut self,
        common: &GatewayState,
        question: &Question,
        bytes: &[u8],
        now: MonotonicNs,
    ) {
        let making = &mut Making { common, topics: &self.topics, receiving: &self.receiving };
        match List::decode(bytes) {
            Ok(list) => self.directory.listed(question, &list, now, making),
            Err(e) => self.directory.unusable(question, e.to_string(), making),
        }
    }

    /// Present hosts.
    pub(super) fn here(&self) -> impl Iterator<Item = &HostId> {
        self.directory.hosts().iter().filter_map(|(id, host)| host.alive.then_some(id))
    }

    /// Returns the state of a gateway, given the number of its start.
    pub(super) fn standing(&self, start: u64) -> Standing {
        let hosts = self.directory.hosts();
        let Some((id, _)) = hosts.iter().find(|(id, _)| id.incarnation() == start) else {
            return Standing::Stranger;
        };
        let replaced =
            hosts.iter().any(|(other, h)| h.alive && other != id && other.name() == id.name());
        if replaced { Standing::Replaced } else { Standing::Host }
    }

    /// Does the work that is due. Returns the time of the next check.
    pub(super) fn poll(&mut self, common: &GatewayState, now: MonotonicNs) -> Option<MonotonicNs> {
        let making = &mut Making { common, topics: &self.topics, receiving: &self.receiving };
        let forgotten = self.directory.forget(now, making);
        let places = self.give_places(common, now);
        let (questions, asked) = self.directory.questions(now);
        questions.into_iter().for_each(|question| ask(common, question));
        let refused = self.directory.refused();
        if refused != self.refused {
            self.receiving.refuse(refused.clone());
            self.refused = refused;
        }
        let probed = self.probe(common, now);
        self.want(common, now);
        let namesakes = self.log_namesakes(common, now);
        [forgotten, places, asked, probed, namesakes].into_iter().flatten().min()
    }

    /// Once a place is free, asks hosts that wait for one whether they still exist.
    fn give_places(&mut self, common: &GatewayState, now: MonotonicNs) -> Option<MonotonicNs> {
        if self.turned_away.is_empty() {
            return None;
        }
        let directory = &self.directory;
        let (asked, next) = self.turned_away.take(
            directory.places(),
            |host| directory.has_place_of_its_own(host),
            now,
        );
        asked.iter().for_each(|host| ask_if_present(common, host));
        next
    }

    /// Asks present hosts for the time and for the number of changes of their lists. A host that
    /// sends no topic received here is asked less often, only to find out whether it can be
    /// reached.
    fn probe(&mut self, common: &GatewayState, now: MonotonicNs) -> Option<MonotonicNs> {
        let hosts = self.directory.hosts();
        let every = |h: &Host| if h.sends_something() { ASK_EVERY } else { ASK_OTHERS_EVERY };
        // A gateway that carries no topics asks no host: it may be a router, and a restart because
        // of a silent host would affect all hosts that it serves.
        let there = hosts
            .iter()
            .filter(|(_, h)| h.alive && self.carries)
            .map(|(id, h)| (id, h.changed, every(h)));
        let (due, next) = self.probing.due(there, now);
        for (id, host) in due.iter().filter_map(|id| hosts.get_key_value(id)) {
            ask_for_time(common, id, &host.clock);
        }
        next
    }

    /// Returns a present host that does not answer: its connection is broken, and Zenoh has not
    /// noticed.
    pub(super) fn silent(&self, now: MonotonicNs) -> Option<&HostId> {
        self.probing.silent(now)
    }

    /// State for the successor if the gateway restarts now.
    pub(super) fn tried(&mut self, now: MonotonicNs) -> BTreeSet<String> {
        std::mem::take(&mut self.probing).tried(now)
    }

    /// Announces the topics that this host requests from others.
    fn want(&mut self, common: &GatewayState, now: MonotonicNs) {
        let mut wanted: BTreeMap<WantKey, QosMark> = BTreeMap::new();
        for p in self.directory.publishers().values().filter(|p| p.is_there()) {
            let remote_publisher = &p.remote_publisher;
            remote_publisher.poll();
            let measured = self
                .directory
                .hosts()
                .get(&p.host)
                .is_some_and(|h| h.alive && lock(&h.clock).offset(now).is_some());
            let Some(mark) = remote_publisher.wanted().filter(|_| measured) else { continue };
            let all = wanted.entry(want_key(p)).or_insert(mark);
            all.reliability = all.reliability.max(mark.reliability);
        }
        for (key, mark) in &wanted {
            if self.wants.get(key).is_some_and(|(m, _)| m == mark) {
                continue;
            }
            let (of, offered, topic) = key.clone();
            let token = Parsed::Want { host: common.me.clone(), of, offered, qos: *mark, topic };
            if let Some(token) = common.token(&token) {
                // The old token is dropped after the new one exists: the route changes, and does
                // not end.
                self.wants.insert(key.clone(), (*mark, token));
            }
        }
        self.wants.retain(|key, _| wanted.contains_key(key));
    }

    pub(super) fn hosts_report(&self, now: MonotonicNs) -> Vec<HostReport> {
        let of = |(id, h): (&HostId, &Host)| {
            let clock = lock(&h.clock);
            let offset = clock.offset(now);
            HostReport {
                host: id.to_string(),
                alive: h.alive,
                for_ms: now.since(h.since()).as_millis() as u64,
                outages: h.outages,
                outage_ms: h.outage.as_millis() as u64,
                offset_ns: offset.map(|o| o.ns),
                offset_error_ns: offset.map(|o| o.error_ns),
                exchanges: clock.exchanges(),
                clock_steps: clock.steps(),
                impossible_exchanges: clock.nonsense(),
                acknowledgements_dropped: self.receiving.acknowledgements_dropped(id),
                problem: None,
            }
        };
        self.directory
            .hosts()
            .iter()
            .map(of)
            .chain(self.turned_away.reports())
            .chain(self.foreign.reports())
            .collect()
    }

    pub(super) fn inlets_report(&self) -> Vec<RemotePublisherReport> {
        let of = |(id, p): (&EndpointId, &Publisher<Arc<RemotePublisher>>)| RemotePublisherReport {
            topic: p.topic.to_string(),
            from: p.host.to_string(),
            node: p.remote_publisher.offer.node.to_string(),
            publisher: id.to_string(),
            schema: p.remote_publisher.offer.schema.name.to_string(),
            qos: p.remote_publisher.offer.qos.clone(),
            max_payload: p.remote_publisher.offer.max_payload,
            state: self.state(p),
            figures: p.remote_publisher.figures(),
        };
        self.directory.publishers().iter().map(of).collect()
    }

    fn state(&self, p: &Publisher<Arc<RemotePublisher>>) -> RemotePublisherState {
        if self.directory.hosts().get(&p.host).is_none_or(|h| !h.alive) {
            RemotePublisherState::HostGone
        } else if !p.is_there() {
            RemotePublisherState::PublisherGone
        } else if p.remote_publisher.wanted().is_none() {
            RemotePublisherState::NobodySubscribes
        } else if self.wants.contains_key(&want_key(p)) {
            RemotePublisherState::Wanted
        } else {
            RemotePublisherState::ClockUnknown
        }
    }

    /// Reports configured topics that other hosts send but that do not arrive here, with reasons.
    pub(super) fn refusals(&self, now: MonotonicNs) -> Vec<Refusal> {
        let refusal = |n: NotReceived<'_>| Refusal {
            topic: n.topic.to_string(),
            host: n.host.to_string(),
            outgoing: false,
            subscription: false,
            reason: n.reason,
            again_ms: n.retry_at.map(|at| at.since(now).as_millis() as u64),
        };
        self.directory.not_received().into_iter().map(refusal).collect()
    }
}

/// Asks a host without a place whether it exists, which topics it sends, and which it requests.
fn ask_if_present(common: &GatewayState, host: &HostId) {
    for key in [
        common.keys.key(&Parsed::Host(host.clone())),
        common.keys.addressed("pub", host),
        common.keys.addressed("want", host),
    ] {
        let (inbox, keys, me) = (common.inbox.clone(), common.keys.clone(), common.me.clone());
        let asked =
            common.session.liveliness().get(key).timeout(LIST_WITHIN).callback(move |reply| {
                let Ok(sample) = reply.result() else { return };
                Event::of_token(&keys, &me, sample.key_expr().as_str(), true)
                    .into_iter()
                    .for_each(|events| inbox.push(events));
            });
        if let Err(e) = asked.wait() {
            common.log(format!(
                "cannot ask whether host '{}' is there: {}",
                host.name(),
                zenoh_says(&e)
            ));
        }
    }
}

/// Requests a list from a host.
fn ask(common: &GatewayState, question: Question) {
    let key = common
        .keys
        .key(&Parsed::Topic { host: question.host.clone(), topic: question.topic.clone() });
    let selector = format!("{key}?{ASKED_BY}={}", common.me);
    let name = question.host.name().to_owned();
    let inbox = common.inbox.clone();
    // Sent after small samples, because a list may be long; and before large ones, which may leave
    // no space for anything after them.
    let get = common
        .session
        .get(selector)
        .timeout(LIST_WITHIN)
        .congestion_control(CongestionControl::Drop)
        .priority(Priority::DataHigh);
    // Each reply is handled on arrival. With consolidation, Zenoh would store replies until the
    // request ends, also those of hosts that were not asked.
    let get = get.consolidation(ConsolidationMode::None).callback(move |reply| {
        let Ok(sample) = reply.result() else { return };
        if sample.payload().len() <= MAX_LIST_LEN {
            inbox.push(Event::List {
                question: question.clone(),
                bytes: sample.payload().to_bytes().into_owned(),
            });
        }
    });
    if let Err(e) = get.wait() {
        common.log(format!("cannot ask host '{name}' for its publishers: {}", zenoh_says(&e)));
    }
}

fn ask_for_time(common: &GatewayState, host: &HostId, clock: &Arc<Mutex<ClockEstimate>>) {
    let key = common.keys.key(&Parsed::Clock(host.clone()));
    let (inbox, host) = (common.inbox.clone(), host.clone());
    // Called with the answer. From then on, samples of the host may be requested.
    let counted =
        move |asked, changes| inbox.push(Event::Counted { host: host.clone(), changes, asked });
    common.questions.ask(&common.session, &key, clock, Duration::ZERO, counted);
}
