// SPDX-License-Identifier: Apache-2.0
//! The receiving side: hosts, their clocks, their publishers, and what of them is wanted here.

use super::conductor::{Common, News};
use super::inlet::{Inlet, Receiving};
use super::lock;
use crate::clock::{ClockEstimate, Exchange};
use crate::wire::{HostId, MAX_OFFER_LEN, Offer, Parsed, QosMark};
use driveline_runtime::gateway::{HostReport, InletReport, InletState, Refusal};
use driveline_runtime::network::CarriedTopic;
use driveline_types::{EndpointId, MonotonicNs, TopicName};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::{CongestionControl, Priority};

const MAX_HOSTS: usize = 64;
const MAX_PUBLISHERS: usize = 1024;
const MAX_PUBLISHERS_OF_TOPIC: usize = 64;
const QUERY_WITHIN: Duration = Duration::from_secs(2);
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(60);
/// When a refused offer is asked for again; then less and less often.
const REFUSED_FIRST: Duration = Duration::from_secs(5);
/// The first questions for the time come fast, so that there is an estimate when the first sample comes.
const QUICK_PROBES: u32 = 5;
const QUICK_PROBE: Duration = Duration::from_millis(50);
const PROBE: Duration = Duration::from_secs(1);
/// A publisher whose token goes while its host stays is gone; the host's token may be a little later.
const TOKENS_AGREE: Duration = Duration::from_secs(1);
/// How long what a host has published here waits for the host to come back.
const HOST_MAY_RETURN: Duration = Duration::from_secs(60);

struct Host {
    alive: bool,
    clock: Arc<Mutex<ClockEstimate>>,
    probes: u32,
    next_probe: MonotonicNs,
    /// When it last came or went.
    changed: MonotonicNs,
}

enum Stage {
    /// To be asked for its offer.
    Ask {
        at: MonotonicNs,
        pause: Duration,
    },
    Open(Arc<Inlet>),
}

struct RemotePublisher {
    host: HostId,
    schema: [u8; 32],
    qos: QosMark,
    topic: TopicName,
    stage: Stage,
    gone_since: Option<MonotonicNs>,
    /// Why its last offer was not taken, and how often none was.
    refused: Option<(String, u32)>,
}

impl RemotePublisher {
    fn want(&self) -> WantKey {
        (self.host.clone(), self.qos, self.topic.clone())
    }
}

/// Of which host, publishers with which offer, of which topic.
type WantKey = (HostId, QosMark, TopicName);

/// See the module.
pub(super) struct Incoming {
    topics: BTreeMap<TopicName, CarriedTopic>,
    hosts: BTreeMap<HostId, Host>,
    publishers: BTreeMap<u128, RemotePublisher>,
    wants: BTreeMap<WantKey, (QosMark, LivelinessToken)>,
    receiving: Arc<Receiving>,
    /// Publishers that have no place, and why; as many as there are places.
    left_out: BTreeMap<u128, (Token, String)>,
    /// Something has gone since these were looked at.
    room: bool,
}

impl Incoming {
    pub(super) fn new(topics: &[CarriedTopic], receiving: Arc<Receiving>) -> Self {
        let topics = topics.iter().filter(|t| t.receive).map(|t| (t.topic.clone(), t.clone())).collect();
        Self {
            topics,
            hosts: BTreeMap::new(),
            publishers: BTreeMap::new(),
            wants: BTreeMap::new(),
            receiving,
            left_out: BTreeMap::new(),
            room: false,
        }
    }

    fn host(&mut self, id: &HostId, now: MonotonicNs) -> Option<&mut Host> {
        if !self.hosts.contains_key(id) && self.hosts.len() >= MAX_HOSTS {
            // One that may yet return gives way to one that is there: its gateway's next start is another.
            let of_use = |h: &HostId| self.publishers.values().any(|p| p.host == *h);
            let gone = self.hosts.iter().filter(|(h, state)| !state.alive && !of_use(h));
            let longest = gone.min_by_key(|(_, state)| state.changed).map(|(h, _)| h.clone())?;
            self.hosts.remove(&longest);
        }
        let new = || Host { alive: false, clock: Arc::default(), probes: 0, next_probe: now, changed: now };
        Some(self.hosts.entry(id.clone()).or_insert_with(new))
    }

    /// The clock of a host, which may not have said that it is there yet. `None`: there are too many hosts.
    pub(super) fn clock(&mut self, id: &HostId, now: MonotonicNs) -> Option<Arc<Mutex<ClockEstimate>>> {
        self.host(id, now).map(|h| h.clock.clone())
    }

    /// A gateway has come or gone.
    pub(super) fn host_token(&mut self, common: &Common, id: &HostId, alive: bool, now: MonotonicNs) {
        let others = self.hosts.iter().any(|(h, s)| s.alive && h != id && h.name() == id.name());
        let Some(host) = self.host(id, now) else {
            common.tell(format!("host '{}' is not heard: there are {MAX_HOSTS} already", id.name()));
            return;
        };
        if host.alive != alive {
            host.alive = alive;
            host.changed = now;
            self.room |= !alive;
            common.tell(format!("host '{}' {}", id.name(), if alive { "is there" } else { "is gone" }));
        }
        if alive && (others || id.name() == common.me.name()) {
            common.tell(format!("two hosts are called '{}': give each a name of its own (`network: {{host: …}}`)", id.name()));
        }
    }

    /// A publisher of another host has come or gone.
    pub(super) fn publisher_token(&mut self, common: &Common, token: &Token, alive: bool, now: MonotonicNs) {
        let Token { host, id, topic, .. } = token;
        if !self.topics.contains_key(topic) {
            return;
        }
        if !alive {
            if let Some(known) = self.publishers.get_mut(&id.0).filter(|p| p.host == *host) {
                known.gone_since = known.gone_since.or(Some(now));
            }
            if self.left_out.get(&id.0).is_some_and(|(t, _)| t.host == *host) {
                self.left_out.remove(&id.0);
            }
        } else if let Err(reason) = self.publisher_comes(token, now) {
            common.tell(format!("topic '{topic}': a publisher of host '{}' is not received: {reason}", host.name()));
            // Beyond as many, it is heard of again when it or this gateway starts again.
            if self.left_out.len() < MAX_PUBLISHERS {
                self.left_out.insert(id.0, (token.clone(), reason));
            }
        }
    }

    /// A publisher is there. Gives why there is no place for it.
    fn publisher_comes(&mut self, token: &Token, now: MonotonicNs) -> Result<(), String> {
        let Token { host, id, schema, qos, topic } = token;
        if let Some(known) = self.publishers.get_mut(&id.0) {
            if known.host == *host {
                known.gone_since = None;
                return Ok(());
            }
            if self.hosts.get(&known.host).is_some_and(|h| h.alive) {
                return Err(format!("host '{}' claims the same one", known.host.name()));
            }
            // Its host has a new gateway.
            known.host = host.clone();
            known.gone_since = None;
            let clock = self.clock(host, now);
            if let (Some(clock), Some(RemotePublisher { stage: Stage::Open(inlet), .. })) = (clock, self.publishers.get(&id.0)) {
                inlet.comes_from(host, clock);
            }
            return Ok(());
        }
        let of_topic = self.publishers.values().filter(|p| p.topic == *topic).count();
        if self.publishers.len() >= MAX_PUBLISHERS || of_topic >= MAX_PUBLISHERS_OF_TOPIC || self.clock(host, now).is_none() {
            let most =
                format!("{MAX_PUBLISHERS_OF_TOPIC} of a topic, {MAX_PUBLISHERS} in all, and those of {MAX_HOSTS} hosts can be received");
            return Err(format!("there are too many: {most}"));
        }
        let stage = Stage::Ask { at: now, pause: RETRY_FIRST };
        let (host, topic) = (host.clone(), topic.clone());
        let new = RemotePublisher { host, schema: *schema, qos: *qos, topic, stage, gone_since: None, refused: None };
        self.publishers.insert(id.0, new);
        Ok(())
    }

    /// Gives publishers that were left out the places that are free now.
    fn admit(&mut self, now: MonotonicNs) {
        if !std::mem::take(&mut self.room) {
            return;
        }
        for (id, (token, _)) in std::mem::take(&mut self.left_out) {
            if let Err(reason) = self.publisher_comes(&token, now) {
                self.left_out.insert(id, (token, reason));
            }
        }
    }

    fn ask(common: &Common, host: &HostId, id: u128) {
        let key = common.keys.key(&Parsed::Offer { host: host.clone(), id: EndpointId(id) });
        let (inbox, from) = (common.inbox.clone(), host.clone());
        let get = common.session.get(key).timeout(QUERY_WITHIN).callback(move |reply| {
            let Ok(sample) = reply.result() else { return };
            if sample.payload().len() <= MAX_OFFER_LEN {
                inbox.push(News::Offer { from: from.clone(), id, bytes: sample.payload().to_bytes().into_owned() });
            }
        });
        if let Err(e) = get.wait() {
            common.tell(format!("cannot ask host '{}' for an offer: {e}", host.name()));
        }
    }

    /// An offer that was asked for has come.
    pub(super) fn offered(&mut self, common: &Common, from: &HostId, id: u128, bytes: &[u8], now: MonotonicNs) {
        let Some(publisher) = self.publishers.get(&id).filter(|p| p.host == *from && matches!(p.stage, Stage::Ask { .. })) else { return };
        let Some(topic) = self.topics.get(&publisher.topic).cloned() else { return };
        let checked = Offer::decode(bytes).map_err(|e| e.to_string()).and_then(|offer| {
            if offer.topic != topic.topic || offer.schema.hash().0 != publisher.schema || QosMark::of(&offer.qos) != publisher.qos {
                return Err("it is not what its token says".into());
            }
            if offer.max_payload > topic.max_payload {
                let (offered, here) = (offer.max_payload, topic.max_payload);
                return Err(format!("its samples have up to {offered} bytes, and {here} are permitted here: raise `max_payload`"));
            }
            Ok(offer)
        });
        let Some(clock) = self.clock(from, now) else { return };
        let opened = checked.and_then(|offer| Inlet::open(common, &topic, from, clock, offer, &self.receiving).map_err(|e| e.to_string()));
        let stage = match opened {
            Ok(inlet) => {
                self.receiving.add(EndpointId(id), inlet.clone());
                Ok(Stage::Open(inlet))
            }
            Err(reason) => Err(reason),
        };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        match stage {
            Ok(open) => {
                publisher.stage = open;
                publisher.refused = None;
            }
            Err(reason) => {
                let times = publisher.refused.as_ref().map_or(0, |(_, n)| *n);
                if publisher.refused.as_ref().is_none_or(|(before, _)| *before != reason) {
                    common.tell(format!("topic '{}': a publisher of host '{}' is not received: {reason}", topic.topic, from.name()));
                }
                // What was missing here (memory, a free place) may be there then.
                let again = (REFUSED_FIRST * (1 << times.min(10))).min(RETRY_LONGEST);
                publisher.stage = Stage::Ask { at: now + again, pause: RETRY_FIRST };
                publisher.refused = Some((reason, times.saturating_add(1)));
            }
        }
    }

    /// Does what is due, and gives when to look again.
    pub(super) fn look(&mut self, common: &Common, now: MonotonicNs) -> Option<MonotonicNs> {
        let forgotten = self.forget(now);
        self.admit(now);
        let asked = self.ask_all(common, now);
        let probed = self.probe(common, now);
        self.want(common, now);
        [forgotten, asked, probed].into_iter().flatten().min()
    }

    /// Lets go of publishers and hosts that are gone for good.
    fn forget(&mut self, now: MonotonicNs) -> Option<MonotonicNs> {
        let mut next: Option<MonotonicNs> = None;
        let mut later = |at: MonotonicNs| next = Some(next.map_or(at, |n| n.min(at)));
        let before = self.publishers.len();
        let hosts = &self.hosts;
        let receiving = &self.receiving;
        self.publishers.retain(|id, p| {
            let Some(gone) = p.gone_since else { return true };
            let until = match hosts.get(&p.host).filter(|h| h.alive) {
                // A host that is back says so before it says what it has.
                Some(host) => gone.max(host.changed) + TOKENS_AGREE,
                None => gone + HOST_MAY_RETURN,
            };
            if now < until {
                later(until);
                return true;
            }
            receiving.remove(EndpointId(*id));
            false
        });
        if self.publishers.len() < before {
            self.room = true;
            // Whatever was refused may have been refused for want of what is free now.
            for p in self.publishers.values_mut().filter(|p| p.refused.is_some()) {
                if let Stage::Ask { at, .. } = &mut p.stage {
                    *at = (*at).min(now + RETRY_FIRST);
                }
            }
        }
        let publishers = &self.publishers;
        self.hosts.retain(|id, h| {
            let of_use = h.alive || publishers.values().any(|p| p.host == *id);
            let until = h.changed + HOST_MAY_RETURN;
            if !of_use && now < until {
                later(until);
            }
            of_use || now < until
        });
        next
    }

    fn ask_all(&mut self, common: &Common, now: MonotonicNs) -> Option<MonotonicNs> {
        let mut next: Option<MonotonicNs> = None;
        for (id, p) in &mut self.publishers {
            let Stage::Ask { at, pause } = &mut p.stage else { continue };
            if p.gone_since.is_some() {
                continue;
            }
            if now >= *at {
                Self::ask(common, &p.host, *id);
                // If no answer comes.
                *at = now + QUERY_WITHIN + *pause;
                *pause = (*pause * 2).min(RETRY_LONGEST);
            }
            next = Some(next.map_or(*at, |n| n.min(*at)));
        }
        next
    }

    /// Asks the hosts that something is received from for the time.
    fn probe(&mut self, common: &Common, now: MonotonicNs) -> Option<MonotonicNs> {
        let mut next: Option<MonotonicNs> = None;
        for (id, host) in self.hosts.iter_mut().filter(|(_, h)| h.alive) {
            if !self.publishers.values().any(|p| p.host == *id && matches!(p.stage, Stage::Open(_))) {
                continue;
            }
            if now >= host.next_probe {
                host.probes = host.probes.saturating_add(1);
                host.next_probe = now + if host.probes < QUICK_PROBES { QUICK_PROBE } else { PROBE };
                ask_for_time(common, id, host.clock.clone());
            }
            next = Some(next.map_or(host.next_probe, |n| n.min(host.next_probe)));
        }
        next
    }

    /// Says what of other hosts is wanted here.
    fn want(&mut self, common: &Common, now: MonotonicNs) {
        let mut wanted: BTreeMap<WantKey, QosMark> = BTreeMap::new();
        for p in self.publishers.values().filter(|p| p.gone_since.is_none()) {
            let Stage::Open(inlet) = &p.stage else { continue };
            inlet.look();
            let measured = self.hosts.get(&p.host).is_some_and(|h| h.alive && lock(&h.clock).offset(now).is_some());
            let Some(mark) = inlet.wanted().filter(|_| measured) else { continue };
            let all = wanted.entry(p.want()).or_insert(mark);
            all.reliability = all.reliability.max(mark.reliability);
        }
        for (key, mark) in &wanted {
            if self.wants.get(key).is_some_and(|(m, _)| m == mark) {
                continue;
            }
            let (of, offered, topic) = key.clone();
            let token = Parsed::Want { host: common.me.clone(), of, offered, qos: *mark, topic };
            if let Some(token) = common.token(&token) {
                // The one before goes after this one has come: the edge changes, and does not end.
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
                for_ms: now.since(h.changed).as_millis() as u64,
                offset_ns: offset.map(|o| o.ns),
                offset_error_ns: offset.map(|o| o.error_ns),
                exchanges: clock.exchanges(),
                clock_steps: clock.steps(),
            }
        };
        self.hosts.iter().map(of).collect()
    }

    pub(super) fn inlets_report(&self) -> Vec<InletReport> {
        let of = |(id, p): (&u128, &RemotePublisher)| {
            let Stage::Open(inlet) = &p.stage else { return None };
            Some(InletReport {
                topic: p.topic.to_string(),
                from: inlet.host().to_string(),
                node: inlet.offer.node.to_string(),
                publisher: EndpointId(*id).to_string(),
                schema: inlet.offer.schema.name.to_string(),
                qos: inlet.offer.qos.clone(),
                max_payload: inlet.offer.max_payload,
                state: self.state(p, inlet),
                figures: inlet.figures(),
            })
        };
        self.publishers.iter().filter_map(of).collect()
    }

    fn state(&self, p: &RemotePublisher, inlet: &Inlet) -> InletState {
        if self.hosts.get(&p.host).is_none_or(|h| !h.alive) {
            InletState::HostGone
        } else if p.gone_since.is_some() {
            InletState::PublisherGone
        } else if inlet.wanted().is_none() {
            InletState::NobodySubscribes
        } else if self.wants.contains_key(&p.want()) {
            InletState::Wanted
        } else {
            InletState::ClockUnknown
        }
    }

    /// What does not come from other hosts.
    pub(super) fn refusals(&self, now: MonotonicNs) -> Vec<Refusal> {
        let refusal = |topic: &TopicName, host: &HostId, reason: String, again_ms: Option<u64>| Refusal {
            topic: topic.to_string(),
            host: host.to_string(),
            outgoing: false,
            subscription: false,
            reason,
            again_ms,
        };
        let of_publisher = |p: &RemotePublisher| {
            let Stage::Ask { at, .. } = p.stage else { return None };
            let reason = match &p.refused {
                Some((reason, _)) => reason.clone(),
                None if p.gone_since.is_some() => return None,
                None => "it was asked for its offer and has not answered yet".to_owned(),
            };
            Some(refusal(&p.topic, &p.host, reason, Some(at.since(now).as_millis() as u64)))
        };
        let left_out = self.left_out.values().map(|(token, reason)| refusal(&token.topic, &token.host, reason.clone(), None));
        self.publishers.values().filter_map(of_publisher).chain(left_out).collect()
    }
}

/// What a publisher's token says.
#[derive(Clone)]
pub(super) struct Token {
    pub(super) host: HostId,
    pub(super) id: EndpointId,
    pub(super) schema: [u8; 32],
    pub(super) qos: QosMark,
    pub(super) topic: TopicName,
}

fn ask_for_time(common: &Common, host: &HostId, clock: Arc<Mutex<ClockEstimate>>) {
    let key = common.keys.key(&Parsed::Clock(host.clone()));
    let kicker = common.kicker.clone();
    let sent = MonotonicNs::now();
    let get = common.session.get(key).timeout(QUERY_WITHIN).congestion_control(CongestionControl::Drop).priority(Priority::RealTime);
    let asked = get.express(true).callback(move |reply| {
        let returned = MonotonicNs::now();
        let Ok(sample) = reply.result() else { return };
        let bytes = sample.payload().to_bytes();
        let Some((received, answered)) = times(&bytes) else { return };
        let mut clock = lock(&clock);
        clock.exchange(&Exchange { sent, received, answered, returned });
        if clock.exchanges() == 1 {
            // Now its samples can be wanted.
            kicker.kick();
        }
    });
    // It is asked again in a second.
    let _ = asked.wait();
}

/// The answer to a question for the time.
fn times(bytes: &[u8]) -> Option<(MonotonicNs, MonotonicNs)> {
    let (received, answered) = bytes.split_at_checked(8)?;
    let time = |b: &[u8]| b.try_into().ok().map(|b| MonotonicNs(u64::from_le_bytes(b)));
    Some((time(received)?, time(answered)?))
}
