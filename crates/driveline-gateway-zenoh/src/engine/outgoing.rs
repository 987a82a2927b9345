// SPDX-License-Identifier: Apache-2.0
//! The sending side: local publishers that others may have, and who wants them.

use super::conductor::Common;
use super::edge::{Edge, EdgeInbox, EdgeParts, access};
use super::error::GatewayError;
use crate::clock::ClockEstimate;
use crate::wire::{HostId, Offer, Parsed, QosMark};
use driveline_runtime::gateway::{EdgeReport, PublisherReport, Refusal};
use driveline_runtime::network::CarriedTopic;
use driveline_shm::{MatchedPublisher, OwnProcess, SchemaRequest, Subscription, SubscriptionConfig, SubscriptionEvent, WaitSet};
use driveline_types::{EndpointId, MonotonicNs, Schema, TopicName};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use zenoh::liveliness::LivelinessToken;

/// Most edges, each with a thread.
const MAX_EDGES: usize = 256;
/// How long an edge that nobody wants is kept as it is.
const KEPT_PARKED: Duration = Duration::from_secs(60);
/// When an edge that could not be made is tried again; then less and less often.
const RETRY_FIRST: Duration = Duration::from_secs(1);
const RETRY_LONGEST: Duration = Duration::from_secs(60);

/// How long a publisher that is gone stays on offer, so that its last samples can be taken, and then as long as some are on their way.
const LINGERS: Duration = Duration::from_millis(300);
const LINGERS_LONGEST: Duration = Duration::from_secs(10);
/// How often it is looked whether they are through.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A topic that is sent.
struct SentTopic {
    config: CarriedTopic,
    /// Tells of publishers; takes no samples.
    scout: Subscription,
    publishers: BTreeMap<EndpointId, Offered>,
    /// Why publishers that are there are not offered.
    refusals: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

/// A local publisher.
struct Offered {
    about: PublisherReport,
    gone_since: Option<MonotonicNs>,
    /// What others are told by; none if that is not possible, which has been told.
    _token: Option<LivelinessToken>,
}

impl SentTopic {
    /// Whether publishers are on offer that are gone.
    fn lingers(&self) -> bool {
        self.publishers.values().any(|p| p.gone_since.is_some())
    }

    /// Tells others of the publishers that are there now, and of those that are gone while edges owe their last samples. Events
    /// only say when to look: some may have been dropped.
    fn compare(&mut self, common: &Common, offers: &Offers, owed: impl Fn(EndpointId) -> bool) {
        let there = self.scout.publishers();
        // Not held while Zenoh is called: its own threads look for offers.
        let change = || offers.write().unwrap_or_else(PoisonError::into_inner);
        let now = MonotonicNs::now();
        self.publishers.retain(|id, offered| {
            let is_there = there.iter().any(|p| p.publisher == *id);
            let gone = if is_there { None } else { Some(*offered.gone_since.get_or_insert(now)) };
            let stays = gone.is_none_or(|since| now < since + LINGERS || (now < since + LINGERS_LONGEST && owed(*id)));
            if !stays {
                change().remove(&id.0);
            }
            stays
        });
        for MatchedPublisher { publisher, node, schema, qos, max_payload } in there {
            let Some(schema) = schema.filter(|_| !self.publishers.contains_key(&publisher)) else { continue };
            let about = PublisherReport {
                node: node.to_string(),
                publisher: publisher.to_string(),
                schema: schema.name.to_string(),
                qos: qos.clone(),
                max_payload,
            };
            let key = Parsed::Publisher {
                host: common.me.clone(),
                id: publisher,
                schema: schema.hash().0,
                qos: QosMark::of(&qos),
                topic: self.config.topic.clone(),
            };
            let offer = Offer { version: 1, topic: self.config.topic.clone(), node, schema: Schema::clone(&schema), qos, max_payload };
            let token = match offer.encode() {
                Ok(encoded) => {
                    change().insert(publisher.0, encoded);
                    common.token(&key)
                }
                Err(e) => {
                    common.tell(format!("topic '{}': a publisher cannot be offered to other hosts: {e}", offer.topic));
                    None
                }
            };
            self.publishers.insert(publisher, Offered { about, gone_since: None, _token: token });
        }
    }
}

/// An edge that is wanted and could not be made.
struct Failed {
    mark: QosMark,
    clock: Arc<Mutex<ClockEstimate>>,
    reason: String,
    at: MonotonicNs,
    pause: Duration,
}

/// To which host, of publishers with which offer, of which topic.
type EdgeKey = (HostId, QosMark, TopicName);

/// Edges by the key of their acknowledgements, for Zenoh's thread.
pub(super) type Inboxes = Arc<RwLock<HashMap<EdgeKey, Arc<EdgeInbox>>>>;
/// Offers by publisher, encoded, for Zenoh's thread.
pub(super) type Offers = Arc<RwLock<HashMap<u128, Vec<u8>>>>;

/// See the module.
pub(super) struct Outgoing {
    topics: BTreeMap<TopicName, SentTopic>,
    edges: BTreeMap<EdgeKey, Edge>,
    /// As many as there are hosts and topics, at most.
    failed: BTreeMap<EdgeKey, Failed>,
    pub(super) inboxes: Inboxes,
    pub(super) offers: Offers,
}

impl Outgoing {
    pub(super) fn new(common: &Common, topics: &[CarriedTopic], set: &mut WaitSet) -> Result<Self, GatewayError> {
        let mut sent = BTreeMap::new();
        for config in topics.iter().filter(|t| t.send) {
            let mut asked = SubscriptionConfig::new(config.topic.clone(), common.node.clone(), SchemaRequest::Any);
            asked.max_held = 1;
            asked.own_process = OwnProcess::Exclude;
            asked.access = access(config);
            let scout = common.participant.create_subscription(asked);
            let scout = scout.map_err(|source| GatewayError::Watch { topic: config.topic.to_string(), source })?;
            set.attach(&scout)?;
            set.set_muted(&scout, true);
            let refusals = Box::new(scout.refusal_source());
            let topic = SentTopic { config: config.clone(), scout, publishers: BTreeMap::new(), refusals };
            sent.insert(config.topic.clone(), topic);
        }
        Ok(Self { topics: sent, edges: BTreeMap::new(), failed: BTreeMap::new(), inboxes: Inboxes::default(), offers: Offers::default() })
    }

    /// Looks at which local publishers have come and gone.
    pub(super) fn look(&mut self, common: &Common) {
        for topic in self.topics.values_mut() {
            let mut changed = false;
            while let Some(event) = topic.scout.poll_event() {
                if let SubscriptionEvent::Refused { text, .. } = event {
                    common.tell(format!("not sent to other hosts: {text}"));
                }
                changed = true;
            }
            if changed || topic.lingers() {
                let edges = &self.edges;
                let name = &topic.config.topic.clone();
                let owed = |publisher| edges.iter().any(|((_, _, of), edge)| of == name && edge.inbox.owes(publisher));
                topic.compare(common, &self.offers, owed);
            }
        }
    }

    /// Another host wants a topic.
    pub(super) fn wanted(&mut self, common: &Common, key: EdgeKey, mark: QosMark, clock: Arc<Mutex<ClockEstimate>>) {
        let (by, offered, topic) = &key;
        let Some(config) = self.topics.get(topic).map(|t| t.config.clone()) else {
            common.tell(format!("host '{}' wants topic '{topic}', which this host does not send", by.name()));
            return;
        };
        if let Some(edge) = self.edges.get_mut(&key).filter(|e| e.mark == mark) {
            edge.parked_since = None;
            edge.inbox.park(false);
            return;
        }
        let pause = self.failed.remove(&key).filter(|f| f.mark == mark).map_or(RETRY_FIRST, |f| (f.pause * 2).min(RETRY_LONGEST));
        // One with another QoS ends first: it has pins of the publisher.
        self.end(&key);
        if self.edges.len() >= MAX_EDGES {
            let reason = format!("there are {MAX_EDGES} topics on their way to hosts already");
            self.fail(common, key, Failed { mark, clock, reason, at: MonotonicNs::now() + pause, pause });
            return;
        }
        let parts = EdgeParts {
            session: common.session.clone(),
            participant: common.participant.clone(),
            node: common.node.clone(),
            keys: common.keys.clone(),
            me: common.me.clone(),
            to: by.clone(),
            topic: config,
            offered: *offered,
            mark,
            clock: clock.clone(),
            notices: common.notices.clone(),
        };
        match Edge::start(parts) {
            Ok(edge) => {
                self.inboxes.write().unwrap_or_else(PoisonError::into_inner).insert(key.clone(), edge.inbox.clone());
                self.edges.insert(key, edge);
            }
            Err(e) => {
                let failed = Failed { mark, clock, reason: e.to_string(), at: MonotonicNs::now() + pause, pause };
                self.fail(common, key, failed);
            }
        }
    }

    fn fail(&mut self, common: &Common, key: EdgeKey, failed: Failed) {
        if failed.pause == RETRY_FIRST {
            common.tell(format!("topic '{}' does not go to host '{}': {}", key.2, key.0.name(), failed.reason));
        }
        self.failed.insert(key, failed);
    }

    /// Another host wants a topic no longer, or cannot be heard.
    pub(super) fn unwanted(&mut self, key: EdgeKey, mark: QosMark) {
        if self.failed.get(&key).is_some_and(|f| f.mark == mark) {
            self.failed.remove(&key);
        }
        if let Some(edge) = self.edges.get_mut(&key).filter(|e| e.mark == mark) {
            edge.parked_since = Some(MonotonicNs::now());
            edge.inbox.park(true);
        }
    }

    fn end(&mut self, key: &EdgeKey) {
        self.inboxes.write().unwrap_or_else(PoisonError::into_inner).remove(key);
        self.edges.remove(key);
    }

    /// Lets go of edges that nobody has wanted for long, and tries again what could not be made. Gives when to look again.
    pub(super) fn due(&mut self, common: &Common, now: MonotonicNs) -> Option<MonotonicNs> {
        let over: Vec<_> =
            self.edges.iter().filter(|(_, e)| e.parked_since.is_some_and(|t| now >= t + KEPT_PARKED)).map(|(k, _)| k.clone()).collect();
        over.iter().for_each(|key| self.end(key));
        let again: Vec<_> = self.failed.iter().filter(|(_, f)| now >= f.at).map(|(k, f)| (k.clone(), f.mark, f.clock.clone())).collect();
        for (key, mark, clock) in again {
            self.wanted(common, key, mark, clock);
        }
        let parked = self.edges.values().filter_map(|e| e.parked_since).map(|t| t + KEPT_PARKED);
        let lingering = self.topics.values().any(SentTopic::lingers).then_some(now + LOOK_AGAIN);
        parked.chain(self.failed.values().map(|f| f.at)).chain(lingering).min()
    }

    /// Publishers of this host that others are told of.
    pub(super) fn publishers(&self, topic: &TopicName) -> Vec<PublisherReport> {
        self.topics.get(topic).into_iter().flat_map(|t| t.publishers.values()).map(|p| p.about.clone()).collect()
    }

    pub(super) fn report(&self) -> Vec<EdgeReport> {
        let of = |((to, offered, topic), edge): (&EdgeKey, &Edge)| EdgeReport {
            topic: topic.to_string(),
            to: to.to_string(),
            offered: offered.to_string(),
            qos: edge.mark.to_string(),
            parked: edge.parked_since.is_some(),
            figures: edge.inbox.counters.figures(),
        };
        self.edges.iter().map(of).collect()
    }

    /// What does not go to other hosts.
    pub(super) fn refusals(&self, now: MonotonicNs) -> Vec<Refusal> {
        let refusal = |topic: &TopicName, host: &str, reason: String, again: Option<MonotonicNs>| Refusal {
            topic: topic.to_string(),
            host: host.to_owned(),
            outgoing: true,
            subscription: false,
            reason,
            again_ms: again.map(|at| at.since(now).as_millis() as u64),
        };
        let unread = self.topics.iter().flat_map(|(name, t)| (t.refusals)().into_iter().map(|why| refusal(name, "", why, None)));
        let of_edges = self.edges.iter().flat_map(|((to, _, topic), e)| {
            (e.inbox.refusals)().into_iter().map(move |why| refusal(topic, &to.to_string(), why, None)).collect::<Vec<_>>()
        });
        let failed = self.failed.iter().map(|((to, _, topic), f)| refusal(topic, &to.to_string(), f.reason.clone(), Some(f.at)));
        unread.chain(of_edges).chain(failed).collect()
    }
}
