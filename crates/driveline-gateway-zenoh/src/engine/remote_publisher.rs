// SPDX-License-Identifier: Apache-2.0
//! Publishers of other hosts, each with a segment on this host, and their arriving samples.

use super::acknowledgements::Acknowledgements;
use super::events::{Event, Inbox};
use super::gateway_state::GatewayState;
use super::lane::{Lane, LaneKey, Reply, out_of_turn};
use super::lock;
use super::watch::Watch;
use crate::arrival::{Arrivals, least_age_ns, localized};
use crate::clock::{ClockEstimate, Offset};
use crate::directory::Fate;
use crate::window::MAX_IN_FLIGHT;
use crate::wire::{
    Ack, HostId, Keys, MAX_ATTACHMENT_LEN, Offer, Outcome, Parsed, QosMark, SampleHead,
};
use driveline_gateway::RemotePublisherFigures;
use driveline_gateway::network::CarriedTopic;
use driveline_shm::{CreatePublisherError, Publisher, PublisherConfig};
use driveline_types::{EndpointId, MonotonicNs, NodeName, Qos, Reliability, Schema, TopicName};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;
use twox_hash::XxHash3_64;
use zenoh::Session;
use zenoh::bytes::ZBytes;
use zenoh::sample::Sample;

/// Memory that another host may reserve here for the history of one publisher.
const MAX_HISTORY_BYTES: u64 = 1 << 30;

/// Maximum time that a publish waits for readers, whatever the publisher offers. Segment and thread
/// stay until then, even if the publisher has departed meanwhile.
const LONGEST_WAIT_MS: u32 = 60_000;

/// Shortest pause between reports of unknown publishers to the control thread. One request for a
/// list covers all publishers of a topic on a host. Publishers that are not in this list are
/// reported with later samples.
const REPORT_AGAIN: Duration = Duration::from_millis(20);

/// Maximum number of hosts for which the number of dropped acknowledgements is remembered. Before a
/// further one, the numbers of all hosts without remote publishers here are forgotten.
const MAX_WAYS_BACK: usize = 128;

/// Local publisher of samples of a publisher on another host.
pub(super) struct RemotePublisher {
    pub(super) topic: TopicName,
    pub(super) offer: Offer,
    id: EndpointId,
    /// State of its publisher. Separate from publishing, which may wait for readers.
    fate: Mutex<Fate>,
    source: Mutex<Source>,
    publishing: Mutex<Publishing>,
    watch: Mutex<Watch>,
    /// Lane of a reliable publisher (`lane.rs`), in which publishing may wait for readers.
    lane: Option<Arc<Lane>>,
}

/// Host whose samples are accepted: the host that offers the publisher.
struct Source {
    host: HostId,
    clock: Arc<Mutex<ClockEstimate>>,
    /// Sends acknowledgements to the host. `None` if no thread could be started: then they are sent
    /// with those to unknown hosts.
    _acknowledgements: Option<Arc<Acknowledgements>>,
}

struct Publishing {
    publisher: Publisher,
    arrivals: Arrivals,
    figures: RemotePublisherFigures,
}

/// An arrived sample that is not yet in a segment.
pub(super) struct Arrived {
    pub(super) from: HostId,
    pub(super) head: SampleHead,
    pub(super) payload: ZBytes,
    received: MonotonicNs,
}

impl RemotePublisher {
    pub(super) fn open(
        common: &GatewayState,
        topic: &CarriedTopic,
        host: &HostId,
        clock: Arc<Mutex<ClockEstimate>>,
        (id, offer): (EndpointId, Offer),
        receiving: &Arc<Receiving>,
    ) -> Result<Arc<Self>, RemotePublisherError> {
        if offer.max_payload > topic.max_payload {
            return Err(RemotePublisherError::TooLong {
                offered: offer.max_payload,
                permitted: topic.max_payload,
            });
        }
        let needed = u64::from(offer.qos.depth).saturating_mul(offer.max_payload);
        if needed > MAX_HISTORY_BYTES {
            return Err(RemotePublisherError::TooMuch {
                depth: offer.qos.depth,
                max_payload: offer.max_payload,
                needed,
            });
        }
        // The node's name contains the other host's name, if there is space.
        let node = format!("{}/{}", host.name(), offer.node)
            .parse::<NodeName>()
            .unwrap_or_else(|_| offer.node.clone());
        let max_payload = usize::try_from(offer.max_payload).unwrap_or(usize::MAX);
        let mut config = PublisherConfig::new(
            topic.topic.clone(),
            node,
            Schema::clone(&offer.schema),
            max_payload,
        );
        config.qos = bounded(&offer.qos);
        config.pins = topic.pins;
        config.loans = 1;
        config.access = super::route::access(topic);
        let publisher = common.participant.create_publisher(config)?;
        publisher.count_afar(&Arrivals::default().count(id, Fate::There));
        publisher.kick_on_event(common.kicker.clone());
        let watch = Watch::new(&publisher);
        let reliable = offer.qos.reliability == Reliability::Reliable;
        let lane = if reliable {
            Some(receiving.lane(host, QosMark::of(&offer.qos), &topic.topic)?)
        } else {
            None
        };
        Ok(Arc::new(Self {
            topic: topic.topic.clone(),
            offer,
            id,
            fate: Mutex::new(Fate::There),
            source: Mutex::new(Source {
                host: host.clone(),
                clock,
                _acknowledgements: Some(receiving.acknowledgements(host)?),
            }),
            publishing: Mutex::new(Publishing {
                publisher,
                arrivals: Arrivals::default(),
                figures: RemotePublisherFigures::default(),
            }),
            watch: Mutex::new(watch),
            lane,
        }))
    }

    /// Updates the known local subscriptions.
    pub(super) fn poll(&self) {
        lock(&self.watch).poll();
    }

    /// Returns the QoS to request from its publisher; `None` if there is no subscription. The first
    /// subscription makes the gateway request the history for late joiners, even if that
    /// subscription does not request it: later, the history could not be put before newer samples.
    pub(super) fn wanted(&self) -> Option<QosMark> {
        let reliability = lock(&self.watch).reliability()?;
        Some(QosMark { reliability, durability: self.offer.qos.durability })
    }

    /// Notes that the publisher's host has a new gateway.
    pub(super) fn comes_from(
        &self,
        host: &HostId,
        clock: Arc<Mutex<ClockEstimate>>,
        receiving: &Receiving,
    ) {
        *lock(&self.source) = Source {
            host: host.clone(),
            clock,
            _acknowledgements: receiving.acknowledgements(host).ok(),
        };
    }

    /// Notes the state of its publisher and reports it to readers. `false`: a sample is just being
    /// published, and the report must be repeated.
    pub(super) fn is(&self, fate: Fate) -> bool {
        *lock(&self.fate) = fate;
        let free = self.publishing.try_lock().ok();
        free.inspect(|publishing| self.count(publishing)).is_some()
    }

    /// Publishes the number of samples that are missing here.
    fn count(&self, of: &Publishing) {
        of.publisher.count_afar(&of.arrivals.count(self.id, *lock(&self.fate)));
    }

    /// Returns the counters. While a sample is being published, returns the last known ones.
    pub(super) fn figures(&self) -> RemotePublisherFigures {
        let mut watch = lock(&self.watch);
        if let Ok(publishing) = self.publishing.try_lock() {
            let arrivals = &publishing.arrivals;
            watch.figures = RemotePublisherFigures {
                lost: arrivals.lost(),
                duplicate: arrivals.duplicates(),
                ..publishing.figures
            };
        }
        watch.figures
    }

    /// Returns the clock of the host `from` if its samples are accepted, otherwise their outcome.
    fn clock_of(&self, from: &HostId) -> Result<Arc<Mutex<ClockEstimate>>, Outcome> {
        let source = lock(&self.source);
        let Source { host, clock, .. } = &*source;
        if host.name() != from.name() {
            return Err(Outcome::Unknown);
        }
        // If only the start number differs, the host has a new gateway whose list has not arrived
        // yet.
        if host == from { Ok(clock.clone()) } else { Err(Outcome::NotYet) }
    }

    /// Copies a sample into a slot and publishes it. On a reliable topic, this may wait for
    /// readers.
    pub(super) fn take(&self, sample: &Arrived) -> Outcome {
        let clock = match self.clock_of(&sample.from) {
            Ok(clock) => clock,
            Err(outcome) => return outcome,
        };
        let mut publishing = lock(&self.publishing);
        let now = MonotonicNs::now();
        // No sample is requested before the clock was measured.
        let Some(offset) = lock(&clock).offset(now) else { return Outcome::NotYet };
        if !publishing.arrivals.is_new(sample.head.written, sample.head.owed) {
            return Outcome::Published;
        }
        let outcome = self.publish(&mut publishing, sample, offset, now);
        if outcome != Outcome::Published {
            publishing.arrivals.dropped();
            self.count(&publishing);
        }
        outcome
    }

    fn publish(
        &self,
        to: &mut Publishing,
        sample: &Arrived,
        offset: Offset,
        now: MonotonicNs,
    ) -> Outcome {
        let Arrived { head, payload, .. } = sample;
        if self
            .offer
            .qos
            .lifespan_ms
            .is_some_and(|ms| least_age_ns(head, offset, now) > u64::from(ms) * 1_000_000)
        {
            to.figures.expired += 1;
            return Outcome::Expired;
        }
        if payload.len() > to.publisher.max_payload() {
            to.figures.damaged += 1;
            return Outcome::Damaged;
        }
        let Ok(mut loan) = to.publisher.loan(payload.len()) else {
            to.figures.no_room += 1;
            return Outcome::Damaged;
        };
        let target = loan.payload_mut();
        let mut filled = 0;
        for slice in payload.slices() {
            let Some(part) = target.get_mut(filled..filled + slice.len()) else { break };
            part.copy_from_slice(slice);
            filled += slice.len();
        }
        // Without this check, the local publisher would give a checksum to a sample that lacks the
        // promised one.
        let verified = match head.header.checksum {
            None => !self.offer.qos.checksum,
            Some(sum) => sum == XxHash3_64::oneshot(loan.payload()),
        };
        if filled != loan.payload().len() || !verified {
            to.figures.damaged += 1;
            return Outcome::Damaged;
        }
        let mut header = localized(
            head,
            sample.from.incarnation(),
            offset,
            to.arrivals.not_here(),
            MonotonicNs::now(),
        );
        to.figures.transit_ns = header.remote.map_or(0, |r| r.transit_ns);
        self.count(to);
        if to.publisher.publish_numbered(loan, &mut header).is_err() {
            to.figures.no_room += 1;
            return Outcome::Damaged;
        }
        to.figures.published += 1;
        to.figures.published_bytes += payload.len() as u64;
        Outcome::Published
    }
}

impl Drop for RemotePublisher {
    /// Reports the counts once more: a sample may have been waiting for readers when the state was
    /// reported.
    fn drop(&mut self) {
        let publishing = lock(&self.publishing);
        self.count(&publishing);
    }
}

/// Offer of a remote publisher, within the limits of this host.
fn bounded(offered: &Qos) -> Qos {
    Qos { max_blocking_ms: offered.max_blocking_ms.min(LONGEST_WAIT_MS), ..offered.clone() }
}

/// Reason why a remote publisher is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemotePublisherError {
    #[error("{0}")]
    Publisher(#[from] CreatePublisherError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error(
        "its samples have up to {offered} bytes, and {permitted} are permitted here: raise \
         `max_payload`"
    )]
    TooLong { offered: u64, permitted: u64 },
    #[error(
        "its history of {depth} samples of up to {max_payload} bytes needs {needed} bytes here, \
         and {MAX_HISTORY_BYTES} are permitted: lower its `depth` or `max_payload`"
    )]
    TooMuch { depth: u32, max_payload: u64, needed: u64 },
}

/// All remote publishers of this gateway, and the handling of their samples.
pub(super) struct Receiving {
    pub(super) session: Session,
    pub(super) keys: Keys,
    pub(super) me: HostId,
    known: RwLock<Known>,
    /// Lanes, each while it has remote publishers.
    lanes: Mutex<HashMap<LaneKey, Weak<Lane>>>,
    acknowledgements: Mutex<BTreeMap<HostId, ReturnPath>>,
    /// Sends acknowledgements to hosts without remote publishers, so that no thread of Zenoh waits
    /// for space. `unknown` counts their samples, so dropped acknowledgements need no counter.
    to_strangers: Arc<Acknowledgements>,
    /// Queue for reports of unknown publishers.
    inbox: Arc<Inbox>,
    /// Time of the last report.
    reported_at: AtomicU64,
    /// Number of samples without a receiver: no remote publisher takes them, or they are addressed
    /// to another host.
    pub(super) unknown: AtomicU64,
    /// Number of samples whose key or attachment cannot be read.
    pub(super) damaged: AtomicU64,
}

/// Acknowledgements to one host.
#[derive(Default)]
struct ReturnPath {
    /// Exists while the host has remote publishers here.
    sender: Weak<Acknowledgements>,
    /// Number of acknowledgements that did not fit into the queue, kept across senders.
    dropped: Arc<AtomicU64>,
}

/// Publishers of other hosts, by id.
#[derive(Default)]
struct Known {
    remote_publishers: BTreeMap<EndpointId, Arc<RemotePublisher>>,
    /// Publishers that get no remote publisher at present.
    refused: BTreeSet<EndpointId>,
}

impl Receiving {
    pub(super) fn new(
        session: Session,
        keys: Keys,
        me: HostId,
        inbox: Arc<Inbox>,
    ) -> Result<Self, std::io::Error> {
        let (reported_at, unknown, damaged) =
            (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let (lanes, acknowledgements) = (Mutex::default(), Mutex::default());
        let to_strangers = Acknowledgements::start(session.clone(), Arc::default())?;
        Ok(Self {
            session,
            keys,
            me,
            known: RwLock::default(),
            lanes,
            acknowledgements,
            to_strangers,
            inbox,
            reported_at,
            unknown,
            damaged,
        })
    }

    /// Lane that publishes samples of the publishers of `host` with this offer in order.
    fn lane(
        self: &Arc<Self>,
        host: &HostId,
        offered: QosMark,
        topic: &TopicName,
    ) -> Result<Arc<Lane>, std::io::Error> {
        let mut lanes = lock(&self.lanes);
        lanes.retain(|_, lane| lane.strong_count() > 0);
        let key = (host.name().to_owned(), offered, topic.clone());
        if let Some(lane) = lanes.get(&key).and_then(Weak::upgrade) {
            return Ok(lane);
        }
        let lane = Lane::start(self, offered, topic.clone())?;
        lanes.insert(key, Arc::downgrade(&lane));
        Ok(lane)
    }

    /// Sender of acknowledgements to `host`.
    fn acknowledgements(&self, host: &HostId) -> Result<Arc<Acknowledgements>, std::io::Error> {
        let mut ways = lock(&self.acknowledgements);
        let few = ways.len() < MAX_WAYS_BACK;
        ways.retain(|_, way| {
            way.sender.strong_count() > 0 || few && way.dropped.load(Ordering::Relaxed) > 0
        });
        let way = ways.entry(host.clone()).or_default();
        if let Some(sender) = way.sender.upgrade() {
            return Ok(sender);
        }
        let new = Acknowledgements::start(self.session.clone(), way.dropped.clone())?;
        way.sender = Arc::downgrade(&new);
        Ok(new)
    }

    /// Number of acknowledgements to a host that did not fit into the queue.
    pub(super) fn acknowledgements_dropped(&self, host: &HostId) -> u64 {
        lock(&self.acknowledgements).get(host).map_or(0, |way| way.dropped.load(Ordering::Relaxed))
    }

    pub(super) fn add(&self, id: EndpointId, remote_publisher: Arc<RemotePublisher>) {
        self.known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remote_publishers
            .insert(id, remote_publisher);
    }

    pub(super) fn remove(&self, id: EndpointId) {
        let gone = self
            .known
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remote_publishers
            .remove(&id);
        // Its segment is released outside of the lock.
        drop(gone);
    }

    /// Notes the publishers that get no remote publisher at present.
    pub(super) fn refuse(&self, refused: BTreeSet<EndpointId>) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).refused = refused;
    }

    /// Handles a sample from the network.
    pub(super) fn sample(&self, sample: &Sample) {
        let received = MonotonicNs::now();
        let Some(Parsed::Sample { to, from, offered, topic }) =
            self.keys.parse(sample.key_expr().as_str())
        else {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let attachment =
            sample.attachment().filter(|a| a.len() <= MAX_ATTACHMENT_LEN).map(ZBytes::to_bytes);
        let Some(Ok(head)) = attachment.as_deref().map(SampleHead::decode) else {
            self.damaged.fetch_add(1, Ordering::Relaxed);
            return;
        };
        if to != self.me {
            self.unknown.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let remote_publisher = known.remote_publishers.get(&head.publisher()).cloned();
        let refused = known.refused.contains(&head.publisher());
        drop(known);
        let arrived = Arrived { from, head, payload: sample.payload().clone(), received };
        // A sample that cannot be published still has its turn, after those before it.
        let remote_publisher = match remote_publisher {
            Some(remote_publisher)
                if remote_publisher.topic != topic
                    || QosMark::of(&remote_publisher.offer.qos) != offered =>
            {
                Err(Outcome::Unknown)
            }
            Some(remote_publisher) => {
                remote_publisher.clock_of(&arrived.from).map(|_| remote_publisher)
            }
            None if refused => Err(Outcome::Unknown),
            None => {
                self.not_known(&arrived.from, &topic, received);
                Err(Outcome::NotYet)
            }
        };
        let lane = match &remote_publisher {
            Ok(remote_publisher) => remote_publisher.lane.clone(),
            Err(_) => self.lane_of(&arrived, offered, &topic),
        };
        if let Some(lane) = lane {
            return lane.arrives(
                self,
                arrived,
                remote_publisher.map(|remote_publisher| Arc::downgrade(&remote_publisher)),
            );
        }
        let outcome = remote_publisher.map_or_else(
            |outcome| out_of_turn(outcome, arrived.head.place),
            |remote_publisher| remote_publisher.take(&arrived),
        );
        let number = arrived.head.number;
        self.acknowledge(&arrived, offered, topic, Reply { outcome, number });
    }

    /// Lane of a sample that no remote publisher takes, if its order matters.
    fn lane_of(&self, arrived: &Arrived, offered: QosMark, topic: &TopicName) -> Option<Arc<Lane>> {
        if arrived.head.place == 0 {
            return None;
        }
        lock(&self.lanes)
            .get(&(arrived.from.name().to_owned(), offered, topic.clone()))
            .and_then(Weak::upgrade)
    }

    /// Makes the control thread request the list of the sending host, which should contain the
    /// publisher. Apart from an acknowledgement, samples of unknown publishers cause nothing else.
    fn not_known(&self, from: &HostId, topic: &TopicName, now: MonotonicNs) {
        let reported_at = self.reported_at.load(Ordering::Relaxed);
        if now.0 >= reported_at.saturating_add(REPORT_AGAIN.as_nanos() as u64)
            && self
                .reported_at
                .compare_exchange(reported_at, now.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
        {
            self.inbox.push(Event::Unknown { from: from.clone(), topic: topic.clone() });
        }
    }

    /// Acknowledges a sample.
    pub(super) fn acknowledge(
        &self,
        to: &Arrived,
        offered: QosMark,
        topic: TopicName,
        Reply { outcome, number }: Reply,
    ) {
        if matches!(outcome, Outcome::Unknown | Outcome::NotYet) {
            self.unknown.fetch_add(1, Ordering::Relaxed);
        }
        let Arrived { from, head, received, .. } = to;
        let accepts = MAX_IN_FLIGHT as u32;
        let ack = Ack {
            outcome,
            accepts,
            number,
            sent: head.sent,
            received: *received,
            answered: MonotonicNs::now(),
        };
        let key =
            self.keys.key(&Parsed::Ack { to: from.clone(), from: self.me.clone(), offered, topic });
        let sender = lock(&self.acknowledgements).get(from).and_then(|way| way.sender.upgrade());
        sender.as_ref().unwrap_or(&self.to_strangers).send(key, ack);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_other_host_makes_publishing_here_wait_for_ever() {
        let waits = |max_blocking_ms| bounded(&Qos { max_blocking_ms, depth: 3, ..Qos::default() });
        assert_eq!(
            [0, 100, 60_000, 60_001, u32::MAX].map(|ms| waits(ms).max_blocking_ms),
            [0, 100, 60_000, 60_000, 60_000]
        );
        assert_eq!(waits(7), Qos { max_blocking_ms: 7, depth: 3, ..Qos::default() });
    }
}
