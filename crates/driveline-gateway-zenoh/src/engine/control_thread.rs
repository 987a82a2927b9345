// SPDX-License-Identifier: Apache-2.0
//! Control thread: decides which tokens, offers, routes and remote publishers exist. A *token* is a
//! liveliness token of Zenoh: other hosts see when it appears and when it goes.

use super::answers::Answers;
use super::certificates::Certificates;
use super::control::{Control, KIND, topic_report};
use super::error::GatewayError;
use super::events::{Event, Inbox};
use super::gateway_state::GatewayState;
use super::incoming::Incoming;
use super::outgoing::{Inboxes, Lists, Outgoing};
use super::peer_discovery::DiscoveryQueries;
use super::reconnect::{self, Reconnect};
use super::remote_publisher::Receiving;
use super::time::Questions;
use super::{interfaces, session, socket_file};
use crate::peer_discovery::PeerDiscovery;
use crate::probing::SILENT_AFTER;
use crate::window::bytes_in_flight;
use crate::wire::{Ack, HostId, Keys, Parsed, Time};
use driveline_gateway::network::{CarriedTopic, GatewayConfig, NetworkSpec};
use driveline_gateway::{NetworkReport, Report, TopicReport, zenoh_says};
use driveline_shm::{WaitBackend, WaitSet};
use driveline_types::{EndpointId, MonotonicNs, TopicName};
use driveline_zenoh::sockets::look_for_others;
use driveline_zenoh::{InFlight, Opened};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::sample::{Locality, Sample, SampleKind};

/// Time without any other host after which this is logged. Hosts start together, and this one may
/// be the first. Also the time from the arrival of a host until its topics are compared with those
/// of this host.
const ALONE_AFTER: Duration = Duration::from_secs(5);

/// Period at which named interfaces are checked.
const INTERFACES_EVERY: Duration = Duration::from_secs(1);

pub(super) struct ControlThread {
    /// Dropped first: other hosts learn of the end before the segments go.
    common: GatewayState,
    set: WaitSet,
    outgoing: Outgoing,
    incoming: Incoming,
    receiving: Arc<Receiving>,
    reconnect: Reconnect,
    /// `None` if Zenoh does not connect to hosts that others report, or a Zenoh file sets the `id`
    /// of the session.
    peer_discovery: Option<DiscoveryQueries>,
    control: Arc<Control>,
    /// Fixed part of its reports.
    about: Report,
    started: MonotonicNs,
    /// Time to log that no other host was reached yet.
    alone_at: Option<MonotonicNs>,
    /// Network configuration of this host.
    network: NetworkSpec,
    certificates: Option<Certificates>,
    /// Named interfaces at the opening of the session, and time of the next check.
    interfaces: BTreeMap<String, u32>,
    interfaces_at: Option<MonotonicNs>,
    /// Maximum number of simultaneous neighbours since the session was opened.
    most_neighbours: usize,
    /// Time to compare the topics of a new host with the topics received here that no host sends.
    compare_at: Option<MonotonicNs>,
    /// Another host has arrived meanwhile.
    compare_again: bool,
    /// Topics that no other host sent at the time of a comparison, each with a similar name that a
    /// host sent then. Each is logged once.
    similar: BTreeMap<TopicName, TopicName>,
    topics: Vec<CarriedTopic>,
    _token: LivelinessToken,
}

impl ControlThread {
    /// `tried`: names of hosts for which the gateway has been restarted.
    pub(super) fn new(
        config: GatewayConfig,
        control: Arc<Control>,
        tried: BTreeSet<String>,
    ) -> Result<Self, GatewayError> {
        let keys =
            Keys::new(&config.domain).ok_or_else(|| GatewayError::Domain(config.domain.clone()))?;
        let zenoh = session::config(&config)?;
        let certificates = config.network.tls.as_ref().map(Certificates::read).transpose()?;
        let network = NetworkReport {
            listens: session::listens(&zenoh),
            connects: session::connects(&zenoh),
            interface: config.network.interface.clone(),
            caution: session::caution(&zenoh, &config.network),
            ..NetworkReport::default()
        };
        let name = session::host_name(&config.network);
        let random = EndpointId::random()
            .map_err(|source| GatewayError::System { action: "draw a random number", source })?;
        let me = HostId::new(&name, random.0 as u64).ok_or_else(|| GatewayError::Network {
            key: "host",
            message: format!("`{name}` cannot be the name of a host"),
            help: "use 1 to 63 letters, digits, `_` and `-`".into(),
        })?;
        let participant = control.take_part(config.domain_dir.clone())?;
        participant.set_description(
            serde_json::json!({ "gateway": KIND, "host": me.to_string() }).to_string(),
        );
        let mut set = WaitSet::new(WaitBackend::Auto)?;
        let notices = control.notices();
        let inbox = Arc::new(Inbox::new(set.kicker(), notices.clone()));
        let interfaces = interfaces::numbers(&config.network);
        if let Some(lacking) = interfaces::lacking(&config.network) {
            return Err(lacking);
        }
        interfaces::note_seen_interfaces();
        let meets_through_others = session::meets_through_others(&zenoh);
        let opened = session::open(zenoh, &reconnect::identity(&me));
        let endpoints = || [&network.listens[..], &network.connects].concat();
        let opened = opened
            .map_err(|e| GatewayError::Open { endpoints: endpoints(), reason: zenoh_says(&e) })?;
        for endpoint in &network.listens {
            if let Err(why) = socket_file::admit(endpoint) {
                notices.log(format!(
                    "other users may not be able to connect to {endpoint}: its \
                     rights cannot be set ({why})"
                ));
            }
        }
        let refused = certificates.as_ref().and_then(Certificates::refused);
        network.caution.clone().into_iter().chain(refused).for_each(|caution| notices.log(caution));
        let node = "gateway".parse().map_err(|_| GatewayError::Domain(config.domain.clone()))?;
        let kicker = set.kicker();
        let window_bytes = bytes_in_flight(config.network.bandwidth_mbit());
        let wakes = set.kicker();
        let under_way = InFlight::default();
        let reconnect =
            Reconnect::new(&opened, &me, &network.connects, under_way.clone(), move || {
                wakes.kick()
            });
        let Opened { session, runtime } = opened;
        let peer_discovery = meets_through_others
            .then(|| PeerDiscovery::new(me.clone(), &runtime.listens(), &network.connects));
        let questions = Questions::default();
        let common = GatewayState {
            session,
            _runtime: runtime,
            participant,
            node,
            keys,
            me,
            kicker,
            inbox,
            notices,
            questions,
            under_way,
            window_bytes,
        };
        let reconnect = reconnect.map_err(|e| GatewayError::Declare {
            what: "events of connections".into(),
            reason: zenoh_says(&e),
        })?;
        let receiving = Receiving::new(
            common.session.clone(),
            common.keys.clone(),
            common.me.clone(),
            common.inbox.clone(),
        );
        let receiving = Arc::new(
            receiving
                .map_err(|source| GatewayError::System { action: "start a thread", source })?,
        );
        let mut outgoing = Outgoing::new(&common, &config.topics, &mut set)?;
        let incoming = Incoming::new(&config.topics, receiving.clone(), tried);
        declare(&common, &outgoing.inboxes, &outgoing.lists, &receiving)?;
        let key = common.keys.key(&Parsed::Host(common.me.clone()));
        let token = common.session.liveliness().declare_token(key.clone()).wait();
        let token =
            token.map_err(|e| GatewayError::Declare { what: key, reason: zenoh_says(&e) })?;
        outgoing.announce(&common)?;
        let peer_discovery = peer_discovery
            .map(|peer_discovery| DiscoveryQueries::start(&common, peer_discovery))
            .transpose()?;
        let about = Report {
            gateway: KIND.into(),
            pid: std::process::id(),
            domain: config.domain,
            host: common.me.to_string(),
            network,
            ..Report::default()
        };
        control.is_there(common.kicker.clone(), common.me.to_string());
        let started = MonotonicNs::now();
        let alone_at = config.network.reaches_any_host().then(|| started + ALONE_AFTER);
        Ok(Self {
            common,
            set,
            outgoing,
            incoming,
            receiving,
            reconnect,
            peer_discovery,
            control,
            about,
            started,
            alone_at,
            network: config.network,
            certificates,
            interfaces_at: (!interfaces.is_empty()).then(|| started + INTERFACES_EVERY),
            interfaces,
            most_neighbours: 0,
            compare_at: None,
            compare_again: false,
            similar: BTreeMap::new(),
            topics: config.topics,
            _token: token,
        })
    }

    /// Runs until the gateway is stopped, or until it must restart because a host does not answer
    /// any more or a named interface is gone. Returns `None` if the gateway was stopped, otherwise
    /// the names for `tried`.
    pub(super) fn run(mut self) -> Option<BTreeSet<String>> {
        while !self.control.is_stopped() {
            let now = MonotonicNs::now();
            for what in self.common.inbox.take() {
                self.events(what, now);
            }
            self.outgoing.poll(&self.common);
            let next = [
                self.incoming.poll(&self.common, now),
                self.outgoing.due(&self.common, now),
                self.look_for_others(now),
                self.compare(now),
                self.reconnect.poll(now, |start| self.incoming.standing(start)),
                self.peer_discovery
                    .as_mut()
                    .and_then(|i| i.poll(&self.common, &self.reconnect, self.incoming.here(), now)),
                self.interfaces_at,
            ];
            self.control.report_requests().answer(|| self.report(now));
            if let Some(gone) = self.lost_interface(now) {
                self.common.log(format!(
                    "the network interface {gone} was removed or recreated: this gateway restarts"
                ));
                self.report(now).losses().into_iter().for_each(|line| self.common.log(line));
                return Some(self.incoming.tried(now));
            }
            if let Some(silent) = self.incoming.silent(now).cloned() {
                self.common.log(format!(
                    "host '{}' is present and has not answered for {} s: a connection is broken, \
                     and this gateway restarts",
                    silent.name(),
                    SILENT_AFTER.as_secs()
                ));
                // The counters of the successor start at 0, so the losses so far are logged now.
                self.report(now).losses().into_iter().for_each(|line| self.common.log(line));
                return Some(self.incoming.tried(now));
            }
            self.set.wait(next.into_iter().flatten().min(), Duration::ZERO);
        }
        None
    }

    /// Logs once that no host was reached. A later success is logged as for every host. Returns the
    /// time of the next check.
    fn look_for_others(&mut self, now: MonotonicNs) -> Option<MonotonicNs> {
        let at = self.alone_at.filter(|_| !self.incoming.has_met_hosts());
        self.alone_at = at.filter(|at| now < *at);
        if at.is_some() && self.alone_at.is_none() {
            self.common.log(format!(
                "no other host was reached yet, and the gateway goes on trying: {}",
                self.report(now).alone()
            ));
        }
        self.alone_at
    }

    /// Returns the name of an interface that is gone although sockets are bound to it. Such sockets
    /// stay bound to the old interface, even if a new one has the same name. Once a second, also
    /// looks for missing hosts, and checks whether Zenoh can still be used in this process.
    fn lost_interface(&mut self, now: MonotonicNs) -> Option<String> {
        self.interfaces_at.take_if(|at| now >= *at)?;
        self.interfaces_at = Some(now + INTERFACES_EVERY);
        self.search_again();
        self.control.set_failure(interfaces::changed(&self.network));
        let there = interfaces::numbers(&self.network);
        self.interfaces
            .iter()
            .find(|(name, number)| there.get(*name) != Some(number))
            .map(|(name, _)| name.clone())
    }

    /// Looks for hosts that were present and are not, however long ago. A host that does not come
    /// back is looked for until the session ends.
    fn search_again(&mut self) {
        if self.network.interface.is_none() || !self.control.has_sockets() {
            return;
        }
        let info = self.common.session.info();
        let neighbours = info.peers_zid().wait().count() + info.routers_zid().wait().count();
        self.most_neighbours = self.most_neighbours.max(neighbours);
        if neighbours < self.most_neighbours || neighbours == 0 {
            // Without /proc, which was logged at the start, Zenoh itself looks for hosts, less
            // often.
            let _ = look_for_others(&interfaces::scouting_addresses(&self.network));
        }
    }

    /// Logs topics that may be misspelt, here or there, some time after a host has arrived. Returns
    /// the time of the next check.
    fn compare(&mut self, now: MonotonicNs) -> Option<MonotonicNs> {
        if self.compare_at.take_if(|at| now >= *at).is_some() {
            let carried = self.topics.iter().map(|t| t.topic.clone()).collect();
            for (topic, similar) in self.incoming.similar(&carried) {
                if self.similar.insert(topic.clone(), similar.clone()).is_none() {
                    self.common.log(format!(
                        "no other host sends topic '{topic}' yet; '{similar}' is sent, and is not \
                         received here: is one of the two misspelt?"
                    ));
                }
            }
            self.compare_at = std::mem::take(&mut self.compare_again).then(|| now + ALONE_AFTER);
        }
        self.compare_at
    }

    fn events(&mut self, what: Event, now: MonotonicNs) {
        match what {
            Event::List { question, bytes } => {
                self.incoming.listed(&self.common, &question, &bytes, now)
            }
            Event::Counted { host, changes, asked } => {
                self.incoming.counted(&host, changes, asked, now)
            }
            Event::Met { host, bytes } => {
                if let Some(peer_discovery) = &mut self.peer_discovery {
                    peer_discovery.answered(&host, &bytes, now);
                }
            }
            Event::Unknown { from, topic } => self.incoming.unknown(&from, &topic, now),
            Event::Changed { host, topic, change } => {
                self.incoming.changed(&host, &topic, change, now)
            }
            Event::Foreign { host, version, alive } => {
                self.incoming.foreign_token(&self.common, host, version, alive)
            }
            Event::Token { what, alive } => self.token(what, alive, now),
        }
    }

    fn token(&mut self, what: Parsed, alive: bool, now: MonotonicNs) {
        match what {
            Parsed::Host(host) => {
                self.incoming.host_token(&self.common, &host, alive, now);
                if alive {
                    // The host announces its topics next.
                    self.compare_again = self.compare_at.is_some();
                    self.compare_at.get_or_insert(now + ALONE_AFTER);
                }
            }
            Parsed::Topic { host, topic } => {
                self.incoming.topic_token(&self.common, &host, &topic, alive, now)
            }
            Parsed::Want { host, offered, qos, topic, .. } if alive => {
                if let Some(clock) = self.incoming.clock(&self.common, &host, now) {
                    self.outgoing.wanted(&self.common, (host, offered, topic), qos, clock);
                }
            }
            Parsed::Want { host, offered, qos, topic, .. } => {
                self.outgoing.unwanted((host, offered, topic), qos)
            }
            // These keys are not tokens.
            Parsed::Clock(_) | Parsed::Met(_) | Parsed::Sample { .. } | Parsed::Ack { .. } => {}
        }
    }

    fn report(&self, now: MonotonicNs) -> Report {
        let session = self.common.session.info();
        let network = NetworkReport {
            peers: session.peers_zid().wait().count(),
            routers: session.routers_zid().wait().count(),
            // This warning also appears if a certificate has expired since the start.
            caution: self
                .certificates
                .as_ref()
                .and_then(Certificates::refused)
                .or_else(|| self.about.network.caution.clone()),
            ..self.about.network.clone()
        };
        let mut refused = self.outgoing.refusals(now);
        refused.extend(self.incoming.refusals(now));
        Report {
            at_ns: now.0,
            up_ms: now.since(self.started).as_millis() as u64,
            network,
            hosts: self.incoming.hosts_report(now),
            topics: self.topics(),
            edges: self.outgoing.report(),
            inlets: self.incoming.inlets_report(),
            refused,
            unknown: self.receiving.unknown.load(Ordering::Relaxed),
            damaged: self.receiving.damaged.load(Ordering::Relaxed),
            ..self.about.clone()
        }
    }

    fn topics(&self) -> Vec<TopicReport> {
        let holds = |t: &CarriedTopic, s: &TopicName| {
            !self.incoming.is_sent(&t.topic) && self.incoming.is_sent_elsewhere(s)
        };
        let similar = |t: &CarriedTopic| self.similar.get(&t.topic).filter(|s| holds(t, s));
        let of = |t: &CarriedTopic| {
            topic_report(t, self.outgoing.publishers(&t.topic), similar(t).map(ToString::to_string))
        };
        self.topics.iter().map(of).collect()
    }
}

/// Registers callbacks at Zenoh for samples, acknowledgements, requests and tokens. They end with
/// the session.
fn declare(
    common: &GatewayState,
    inboxes: &Inboxes,
    lists: &Lists,
    receiving: &Arc<Receiving>,
) -> Result<(), GatewayError> {
    let (session, keys, me) = (&common.session, &common.keys, &common.me);
    let failed = |what: &str| {
        let what = what.to_owned();
        move |e: zenoh::Error| GatewayError::Declare { what, reason: zenoh_says(&e) }
    };

    let receiving = receiving.clone();
    let key = keys.addressed("s", me);
    let samples = session.declare_subscriber(key.clone()).allowed_origin(Locality::Remote);
    samples
        .callback(move |sample| receiving.sample(&sample))
        .background()
        .wait()
        .map_err(failed(&key))?;

    let (acks_keys, inboxes) = (keys.clone(), inboxes.clone());
    let key = keys.addressed("a", me);
    let acks = session.declare_subscriber(key.clone()).allowed_origin(Locality::Remote);
    acks.callback(move |sample| acknowledged(&acks_keys, &inboxes, &sample))
        .background()
        .wait()
        .map_err(failed(&key))?;

    let answers = Answers::start(keys.clone(), lists.clone(), common.notices.clone());
    let answers =
        answers.map_err(|source| GatewayError::System { action: "start a thread", source })?;
    let key = keys.addressed("pub", me);
    let lists_asked = session.declare_queryable(key.clone());
    lists_asked
        .callback(move |query| answers.answer(query))
        .background()
        .wait()
        .map_err(failed(&key))?;

    let key = keys.key(&Parsed::Clock(me.clone()));
    let lists = lists.clone();
    let answer = move |query: zenoh::query::Query| {
        let received = MonotonicNs::now();
        let changes = lists.read().unwrap_or_else(PoisonError::into_inner).changes;
        let time = Time { received, answered: MonotonicNs::now(), changes };
        // Answered on this thread: the time until another thread ran would count as transit time.
        // The answer is short, and does not wait behind lists, which have another priority.
        let _ = query.reply(query.key_expr().clone(), time.encode().to_vec()).wait();
    };
    session
        .declare_queryable(key.clone())
        .callback(answer)
        .background()
        .wait()
        .map_err(failed(&key))?;

    let key = keys.tokens("pub");
    let (inbox, change_keys) = (common.inbox.clone(), keys.clone());
    let changes = session.declare_subscriber(key.clone()).allowed_origin(Locality::Remote);
    let heard = move |sample: Sample| {
        if sample.payload().len() == size_of::<u64>()
            && let Some(change) = Event::of_change(
                &change_keys,
                sample.key_expr().as_str(),
                &sample.payload().to_bytes(),
            )
        {
            inbox.push(change);
        }
    };
    changes.callback(heard).background().wait().map_err(failed(&key))?;

    // Gateways of this version have a subscriber of their own. A host whose access list permits
    // only that subscriber refuses the one for all versions.
    let others = (keys.hosts_of_all_versions(), true);
    for (key, of_other_versions) in [
        (keys.tokens("host"), false),
        others,
        (keys.tokens("pub"), false),
        (keys.tokens("want"), false),
    ] {
        let (inbox, keys, me) = (common.inbox.clone(), keys.clone(), me.clone());
        let heard = move |sample: Sample| {
            let (key, alive) = (sample.key_expr().as_str(), sample.kind() == SampleKind::Put);
            let events = Event::of_token(&keys, &me, key, alive)
                .filter(|n| matches!(n, Event::Foreign { .. }) == of_other_versions);
            events.into_iter().for_each(|events| inbox.push(events));
        };
        let tokens = session.liveliness().declare_subscriber(key.clone()).history(true);
        tokens.callback(heard).background().wait().map_err(failed(&key))?;
    }
    Ok(())
}

/// Passes an acknowledgement to its route. Called on Zenoh's thread.
fn acknowledged(keys: &Keys, inboxes: &Inboxes, sample: &Sample) {
    let now = MonotonicNs::now();
    let Some(Parsed::Ack { from, offered, topic, .. }) = keys.parse(sample.key_expr().as_str())
    else {
        return;
    };
    let bytes = sample.payload().to_bytes();
    let Ok(ack) = Ack::decode(&bytes) else { return };
    let inbox = inboxes
        .read()
        .unwrap_or_else(PoisonError::into_inner)
        .get(&(from, offered, topic))
        .cloned();
    if let Some(inbox) = inbox {
        inbox.acknowledged(ack, now);
    }
}

#[cfg(test)]
#[path = "control_thread_tests.rs"]
mod tests;
