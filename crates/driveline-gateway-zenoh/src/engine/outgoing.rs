// SPDX-License-Identifier: Apache-2.0
//! Sending side: local publishers offered to other hosts, and the hosts that request them.

use super::error::GatewayError;
use super::gateway_state::GatewayState;
use super::lock;
use super::route::{Ending, Route, RouteInbox, RouteParts, access};
use crate::clock::ClockEstimate;
use crate::offering::Offering;
use crate::wire::{HostId, Offer, Parsed, QosMark};
use driveline_gateway::network::CarriedTopic;
use driveline_gateway::{PublisherReport, Refusal, RouteReport, zenoh_says};
use driveline_shm::{
    MatchedPublisher, OwnProcess, SchemaRequest, Subscription, SubscriptionConfig,
    SubscriptionEvent, WaitSet,
};
use driveline_types::{EndpointId, MonotonicNs, TopicName};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;

/// Maximum number of routes, each with a thread. An ended route counts until its thread has ended.
const MAX_ROUTES: usize = 256;
/// Maximum number of routes that could not be made and are retried.
const MAX_FAILED: usize = 1024;
/// Maximum number of pairs of publisher and host for which the first sample is remembered. For
/// further pairs, the list does not announce the first sample.
const MAX_FIRSTS: usize = 4096;
/// Time for which an unwanted route is kept.
const KEPT_PARKED: Duration = Duration::from_secs(60);
/// First pause before a failed route is tried again; it doubles.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(60);

/// Period at which departed publishers that are still on offer are checked.
const CHECK_AGAIN: Duration = Duration::from_millis(100);

/// A topic that this host sends.
struct SentTopic {
    config: CarriedTopic,
    /// Reports publishers; takes no samples.
    scout: Subscription,
    /// Publishers announced to others.
    offering: Offering,
    /// Reasons why existing publishers are not offered.
    refusals: Box<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Token that announces the topic; `None` before the announcement.
    _token: Option<LivelinessToken>,
}

impl SentTopic {
    /// Updates the list to the present publishers, with departed ones whose last samples are still
    /// on routes. Events only trigger this comparison, because some may have been dropped. Returns
    /// true if the list has changed.
    fn compare(&mut self, common: &GatewayState, owed: impl Fn(EndpointId) -> bool) -> bool {
        let offer = |MatchedPublisher { publisher, node, schema, qos, max_payload }| {
            Some((publisher, Offer { node, schema: schema?, qos, max_payload }))
        };
        let there = self.scout.publishers().into_iter().filter_map(offer).collect();
        let compared = self.offering.compare(there, MonotonicNs::now(), owed);
        for why in compared.left_out {
            common.log(format!(
                "topic '{}': a publisher is not offered to other hosts: {why}",
                self.config.topic
            ));
        }
        compared.changed
    }

    fn reports(&self) -> Vec<PublisherReport> {
        let of = |(id, offer): (&EndpointId, &Offer)| PublisherReport {
            node: offer.node.to_string(),
            publisher: id.to_string(),
            schema: offer.schema.name.to_string(),
            qos: offer.qos.clone(),
            max_payload: offer.max_payload,
        };
        self.offering.publishers().map(of).collect()
    }
}

/// A requested route that could not be made.
struct Failed {
    mark: QosMark,
    clock: Arc<Mutex<ClockEstimate>>,
    reason: String,
    at: MonotonicNs,
    /// `None`: it is also tried as soon as the thread of another route has ended.
    pause: Option<Duration>,
}

/// Reason why a route cannot be added.
enum NoRoom {
    /// There is no space until the configuration or the load changes.
    Now(String),
    /// There is no space until the thread of another route has ended.
    Yet(String),
}

/// Receiving host, offer of the publishers, and topic.
type RouteKey = (HostId, QosMark, TopicName);

/// Routes by the key of their acknowledgements, for Zenoh's thread.
pub(super) type Inboxes = Arc<RwLock<HashMap<RouteKey, Arc<RouteInbox>>>>;
/// Lists that others request, for Zenoh's thread.
pub(super) type Lists = Arc<RwLock<Listed>>;

/// Lists of publishers.
#[derive(Default)]
pub(super) struct Listed {
    /// Encoded lists.
    pub(super) of_topic: HashMap<TopicName, Vec<u8>>,
    /// Number of changes of all lists.
    pub(super) changes: u64,
}

/// Publishers that are not announced. Routes do not repeat their samples, because they have no
/// receiver.
pub(super) type LeftOut = Arc<RwLock<BTreeSet<EndpointId>>>;

/// First sample of each publisher for each host. Routes note it.
#[derive(Clone, Default)]
pub(super) struct Firsts(Arc<Mutex<BTreeMap<(EndpointId, HostId), u64>>>);

impl Firsts {
    /// Notes a first sample. If several routes lead to a host, one after the other, the value of
    /// the newest route counts.
    pub(super) fn note(&self, publisher: EndpointId, host: &HostId, first: u64) {
        let (mut firsts, key) = (lock(&self.0), (publisher, host.clone()));
        if firsts.len() < MAX_FIRSTS || firsts.contains_key(&key) {
            firsts.insert(key, first);
        }
    }

    fn of(&self, publisher: EndpointId) -> BTreeMap<HostId, u64> {
        lock(&self.0)
            .iter()
            .filter(|((p, _), _)| *p == publisher)
            .map(|((_, host), first)| (host.clone(), *first))
            .collect()
    }

    fn retain(&self, keep: impl Fn(EndpointId) -> bool) {
        lock(&self.0).retain(|(publisher, _), _| keep(*publisher));
    }
}

/// See the module.
pub(super) struct Outgoing {
    topics: BTreeMap<TopicName, SentTopic>,
    routes: BTreeMap<RouteKey, Route>,
    /// Ended routes whose thread had not ended at the last check. Together with `routes`, at most
    /// `MAX_ROUTES`.
    ending: Vec<(RouteKey, Ending)>,
    /// Some of these threads have ended since.
    freed: bool,
    /// At most `MAX_FAILED`, because any host may request a topic.
    failed: BTreeMap<RouteKey, Failed>,
    pub(super) inboxes: Inboxes,
    pub(super) lists: Lists,
    left_out: LeftOut,
    firsts: Firsts,
}

impl Outgoing {
    pub(super) fn new(
        common: &GatewayState,
        topics: &[CarriedTopic],
        set: &mut WaitSet,
    ) -> Result<Self, GatewayError> {
        let mut sent = BTreeMap::new();
        let mut lists = Listed::default();
        for config in topics.iter().filter(|t| t.send) {
            let mut asked = SubscriptionConfig::new(
                config.topic.clone(),
                common.node.clone(),
                SchemaRequest::Any,
            );
            asked.max_held = 1;
            asked.own_process = OwnProcess::Exclude;
            asked.access = access(config);
            let scout = common.participant.create_subscription(asked);
            let scout = scout.map_err(|source| GatewayError::Watch {
                topic: config.topic.to_string(),
                source,
            })?;
            set.attach(&scout)?;
            set.set_muted(&scout, true);
            let refusals = Box::new(scout.refusal_source());
            let offering = Offering::new(config.topic.clone());
            let topic =
                SentTopic { config: config.clone(), scout, offering, refusals, _token: None };
            if let Ok(list) = topic.offering.encoded(0, |_| BTreeMap::new()) {
                lists.of_topic.insert(config.topic.clone(), list);
            }
            sent.insert(config.topic.clone(), topic);
        }
        let lists = Arc::new(RwLock::new(lists));
        Ok(Self {
            topics: sent,
            routes: BTreeMap::new(),
            ending: Vec::new(),
            freed: false,
            failed: BTreeMap::new(),
            inboxes: Inboxes::default(),
            lists,
            left_out: LeftOut::default(),
            firsts: Firsts::default(),
        })
    }

    /// Announces the topics that are sent from here. Call it when other hosts can already request
    /// the lists of publishers.
    pub(super) fn announce(&mut self, common: &GatewayState) -> Result<(), GatewayError> {
        for (topic, sent) in &mut self.topics {
            let key =
                common.keys.key(&Parsed::Topic { host: common.me.clone(), topic: topic.clone() });
            let token = common.session.liveliness().declare_token(key.clone()).wait();
            sent._token = Some(
                token.map_err(|e| GatewayError::Declare { what: key, reason: zenoh_says(&e) })?,
            );
        }
        Ok(())
    }

    /// Compares the offered publishers with the existing ones.
    pub(super) fn poll(&mut self, common: &GatewayState) {
        let mut compared = false;
        for topic in self.topics.values_mut() {
            let mut changed = false;
            while let Some(event) = topic.scout.poll_event() {
                match event {
                    SubscriptionEvent::Refused { text, .. } => {
                        common.log(format!("not sent to other hosts: {text}"))
                    }
                    SubscriptionEvent::Unmatched { publisher, last, .. } => {
                        topic.offering.ended(publisher, last)
                    }
                    _ => {}
                }
                changed = true;
            }
            if changed || topic.offering.lingers() {
                let routes = &self.routes;
                let name = &topic.config.topic.clone();
                let owed = |publisher| {
                    routes
                        .iter()
                        .any(|((_, _, of), route)| of == name && route.inbox.owes(publisher))
                };
                if topic.compare(common, owed) {
                    announce_change(common, &self.lists, &self.firsts, topic);
                }
                compared = true;
            }
        }
        if compared {
            let left_out =
                self.topics.values().flat_map(|t| t.offering.left_out().keys().copied()).collect();
            self.firsts
                .retain(|publisher| self.topics.values().any(|t| t.offering.knows(publisher)));
            *self.left_out.write().unwrap_or_else(PoisonError::into_inner) = left_out;
        }
    }

    /// Handles the request of another host for a topic.
    pub(super) fn wanted(
        &mut self,
        common: &GatewayState,
        key: RouteKey,
        mark: QosMark,
        clock: Arc<Mutex<ClockEstimate>>,
    ) {
        let (by, offered, topic) = &key;
        let Some(config) = self.topics.get(topic).map(|t| t.config.clone()) else {
            common.log(format!(
                "host '{}' wants topic '{topic}', which this host does not send",
                by.name()
            ));
            return;
        };
        if let Some(route) = self.routes.get_mut(&key).filter(|e| e.mark == mark) {
            route.parked_since = None;
            route.inbox.park(false);
            return;
        }
        let before = self.failed.remove(&key).filter(|f| f.mark == mark).and_then(|f| f.pause);
        let pause = before.map_or(RETRY_FIRST, |pause| (pause * 2).min(RETRY_LONGEST));
        // A route with another QoS ends first, because it uses pins of the publisher.
        self.end(&key);
        if let Err(lack) = self.make_room(&key, &config) {
            let (reason, pause) = match lack {
                NoRoom::Now(reason) => (reason, Some(pause)),
                NoRoom::Yet(reason) => (reason, None),
            };
            let at = MonotonicNs::now() + pause.unwrap_or(RETRY_FIRST);
            self.fail(common, key, Failed { mark, clock, reason, at, pause });
            return;
        }
        let parts = RouteParts {
            session: common.session.clone(),
            participant: common.participant.clone(),
            node: common.node.clone(),
            keys: common.keys.clone(),
            me: common.me.clone(),
            to: by.clone(),
            topic: config,
            offered: *offered,
            mark,
            window_bytes: common.window_bytes,
            clock: clock.clone(),
            questions: common.questions.clone(),
            under_way: common.under_way.clone(),
            left_out: self.left_out.clone(),
            firsts: self.firsts.clone(),
            notices: common.notices.clone(),
            control_thread: common.kicker.clone(),
        };
        let inboxes = || self.inboxes.write().unwrap_or_else(PoisonError::into_inner);
        match Route::start(parts, |inbox| drop(inboxes().insert(key.clone(), inbox.clone()))) {
            Ok(route) => drop(self.routes.insert(key, route)),
            Err(e) => {
                inboxes().remove(&key);
                let failed = Failed {
                    mark,
                    clock,
                    reason: e.to_string(),
                    at: MonotonicNs::now() + pause,
                    pause: Some(pause),
                };
                self.fail(common, key, failed);
            }
        }
    }

    /// Ensures that a route can be added within the limits of threads and of its publishers' pins.
    /// For the pins, routes of hosts that no longer want the topic give way: first those that have
    /// been unwanted longest.
    fn make_room(
        &mut self,
        (_, offered, topic): &RouteKey,
        config: &CarriedTopic,
    ) -> Result<(), NoRoom> {
        if self.routes.len() >= MAX_ROUTES {
            return Err(NoRoom::Now(format!(
                "there are {MAX_ROUTES} routes to other hosts already"
            )));
        }
        let of_the_same = |(_, of, name): &RouteKey| name == topic && of == offered;
        let most = config.hosts.map_or(usize::MAX, |hosts| hosts as usize);
        while self.routes.keys().filter(|key| of_the_same(key)).count() >= most {
            let parked = self
                .routes
                .iter()
                .filter(|(key, _)| of_the_same(key))
                .filter_map(|(key, route)| Some((route.parked_since?, key)));
            let Some(longest) = parked.min().map(|(_, key)| key.clone()) else {
                return Err(NoRoom::Now(format!(
                    "it is sent to {most} hosts already, and the other pins of its publishers are \
                     reserved for subscriptions on this host; set `pins:` of the topic in the \
                     graph file, one more for each further host"
                )));
            };
            self.end(&longest);
        }
        let places = self.ending.iter().map(|(key, _)| key).chain(self.routes.keys());
        if places.clone().count() >= MAX_ROUTES
            || places.filter(|key| of_the_same(key)).count() >= most
        {
            let reason = "a sample of the previous route still waits for space; the next attempt \
                 follows as soon as that sample is sent or dropped";
            return Err(NoRoom::Yet(reason.into()));
        }
        Ok(())
    }

    fn fail(&mut self, common: &GatewayState, key: RouteKey, failed: Failed) {
        if failed.pause == Some(RETRY_FIRST) {
            common.log(format!(
                "topic '{}' does not go to host '{}': {}",
                key.2,
                key.0.name(),
                failed.reason
            ));
        }
        if self.failed.len() < MAX_FAILED || self.failed.contains_key(&key) {
            self.failed.insert(key, failed);
        }
    }

    /// Handles the end of a request: the host no longer wants the topic, or cannot be heard.
    pub(super) fn unwanted(&mut self, key: RouteKey, mark: QosMark) {
        if self.failed.get(&key).is_some_and(|f| f.mark == mark) {
            self.failed.remove(&key);
        }
        if let Some(route) = self.routes.get_mut(&key).filter(|e| e.mark == mark) {
            route.parked_since = Some(MonotonicNs::now());
            route.inbox.park(true);
        }
    }

    fn end(&mut self, key: &RouteKey) {
        self.inboxes.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.ending.extend(self.routes.remove(key).map(|route| (key.clone(), route.end())));
        self.note_ended();
    }

    fn note_ended(&mut self) {
        let before = self.ending.len();
        self.ending.retain(|(_, ending)| !ending.is_over());
        self.freed |= self.ending.len() < before;
    }

    /// Drops routes that have not been wanted for long, and retries failed ones. Returns the time
    /// of the next check.
    pub(super) fn due(&mut self, common: &GatewayState, now: MonotonicNs) -> Option<MonotonicNs> {
        let over: Vec<_> = self
            .routes
            .iter()
            .filter(|(_, e)| e.parked_since.is_some_and(|t| now >= t + KEPT_PARKED))
            .map(|(k, _)| k.clone())
            .collect();
        over.iter().for_each(|key| self.end(key));
        self.note_ended();
        let freed = std::mem::take(&mut self.freed);
        let is_due = |f: &Failed| now >= f.at || (freed && f.pause.is_none());
        let retries: Vec<_> = self
            .failed
            .iter()
            .filter(|(_, f)| is_due(f))
            .map(|(k, f)| (k.clone(), f.mark, f.clock.clone()))
            .collect();
        for (key, mark, clock) in retries {
            self.wanted(common, key, mark, clock);
        }
        let parked = self.routes.values().filter_map(|e| e.parked_since).map(|t| t + KEPT_PARKED);
        let lingering =
            self.topics.values().any(|t| t.offering.lingers()).then_some(now + CHECK_AGAIN);
        parked.chain(self.failed.values().map(|f| f.at)).chain(lingering).min()
    }

    /// Publishers of this host that are announced to others.
    pub(super) fn publishers(&self, topic: &TopicName) -> Vec<PublisherReport> {
        self.topics.get(topic).into_iter().flat_map(SentTopic::reports).collect()
    }

    pub(super) fn report(&self) -> Vec<RouteReport> {
        let of = |((to, offered, topic), route): (&RouteKey, &Route)| RouteReport {
            topic: topic.to_string(),
            to: to.to_string(),
            offered: offered.to_string(),
            qos: route.mark.to_string(),
            parked: route.parked_since.is_some(),
            figures: route.inbox.counters.figures(),
        };
        self.routes.iter().map(of).collect()
    }

    /// Reports the topics that do not go to other hosts.
    pub(super) fn refusals(&self, now: MonotonicNs) -> Vec<Refusal> {
        let refusal = |topic: &TopicName,
                       host: &str,
                       reason: String,
                       retry_at: Option<MonotonicNs>| Refusal {
            topic: topic.to_string(),
            host: host.to_owned(),
            outgoing: true,
            subscription: false,
            reason,
            again_ms: retry_at.map(|at| at.since(now).as_millis() as u64),
        };
        let unread = self.topics.iter().flat_map(|(name, t)| {
            (t.refusals)().into_iter().map(|why| refusal(name, "", why, None))
        });
        let left_out = self.topics.iter().flat_map(|(name, t)| {
            t.offering.left_out().values().map(|why| refusal(name, "", why.clone(), None))
        });
        let of_routes = self.routes.iter().flat_map(|((to, _, topic), e)| {
            (e.inbox.refusals)()
                .into_iter()
                .map(move |why| refusal(topic, &to.to_string(), why, None))
                .collect::<Vec<_>>()
        });
        let failed = self.failed.iter().map(|((to, _, topic), f)| {
            refusal(topic, &to.to_string(), f.reason.clone(), Some(f.at))
        });
        unread.chain(left_out).chain(of_routes).chain(failed).collect()
    }
}

/// Announces a change of a list, so that other hosts request it.
fn announce_change(common: &GatewayState, lists: &Lists, firsts: &Firsts, topic: &SentTopic) {
    let name = &topic.config.topic;
    // Not locked while Zenoh is called: its own threads read the lists.
    let mut listed = lists.write().unwrap_or_else(PoisonError::into_inner);
    let change = listed.changes + 1;
    match topic.offering.encoded(change, |publisher| firsts.of(publisher)) {
        Ok(list) => {
            listed.changes = change;
            listed.of_topic.insert(name.clone(), list);
        }
        // Each entry fitted when it was added.
        Err(e) => {
            return common.log(format!(
                "topic '{name}': its publishers cannot be offered to other hosts: {e}"
            ));
        }
    }
    drop(listed);
    let key = common.keys.key(&Parsed::Topic { host: common.me.clone(), topic: name.clone() });
    // A host that misses this message notices the gap at the next one, or in the answer to its time
    // request.
    let put = common
        .session
        .put(key, change.to_le_bytes().to_vec())
        .congestion_control(CongestionControl::Drop);
    // Not `express`, for the same reason as time requests (`time.rs`).
    let _ = put.priority(Priority::RealTime).allowed_destination(Locality::Remote).wait();
}
