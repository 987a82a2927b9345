// SPDX-License-Identifier: Apache-2.0
//! One topic to one other host: a thread that takes the next sample when enough samples in flight
//! have arrived.

use super::counters::RouteCounters;
use super::lock;
use super::outgoing::{Firsts, LeftOut};
use super::time::Questions;
use crate::clock::{ClockEstimate, Exchange};
use crate::window::{Overdue, Place, Window};
use crate::wire::{Ack, HostId, Keys, Outcome, Parsed, QosMark, SampleHead};
use bytes::Bytes;
use driveline_gateway::Notices;
use driveline_gateway::network::CarriedTopic;
use driveline_shm::{
    Access, CreateSubscriptionError, Kicker, OwnProcess, Participant, Sample, SchemaRequest,
    Subscription, SubscriptionConfig, SubscriptionEvent, WaitBackend, WaitSet,
};
use driveline_types::{Durability, EndpointId, MonotonicNs, NodeName, Qos};
use driveline_zenoh::InFlight;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::Duration;
use zenoh::bytes::ZBytes;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;
use zenoh::{Session, Wait};

/// Samples up to this length are sent before the batches of longer samples of other routes. Samples
/// of one route stay in order: see [`Window::goes_with_long`].
const SMALL_BYTES: usize = 8 * 1024;
/// Maximum number of acknowledgements in the queue of the route's thread: more than two for each
/// sample that can be in flight. Beyond it, the oldest is dropped and counted in
/// `impossible_acknowledgements`.
const MAX_WAITING_ACKS: usize = 128;
/// If another part of the gateway has requested the time of the other host's clock within this
/// time, that request counts as this route's nudge (a small message behind the samples in flight,
/// see [`Window::nudge_at`]).
const NUDGED_LATELY: Duration = Duration::from_millis(2);
/// Pause after the host transport could not give the next sample, so that a lasting failure costs
/// no CPU time.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(20);

/// Time for which samples of a publisher without a remote publisher on the other host are repeated,
/// while other samples of the route wait. After that each such sample is dropped at once, until a
/// remote publisher exists. A best-effort, volatile route repeats no samples.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of publishers for which the route remembers whether they have a remote publisher.
/// Before a further one, the route forgets the state of all, and finds it out again.
const MAX_STANDING: usize = 256;

/// Messages to a route's thread.
pub(super) struct RouteInbox {
    acks: Mutex<VecDeque<(Ack, MonotonicNs)>>,
    kicker: Kicker,
    stop: AtomicBool,
    /// The other host does not request the topic at present.
    parked: AtomicBool,
    /// Number of times that the other host stopped requesting the topic. An interruption between
    /// two checks of the thread counts, too.
    partings: AtomicU64,
    /// Publishers with samples in flight, or departed ones whose samples are still to be taken.
    owed: Mutex<Vec<EndpointId>>,
    pub(super) counters: RouteCounters,
    /// Reasons why existing publishers are not read.
    pub(super) refusals: Box<dyn Fn() -> Vec<String> + Send + Sync>,
}

impl RouteInbox {
    /// Handles an acknowledgement that arrived at `now`.
    pub(super) fn acknowledged(&self, ack: Ack, now: MonotonicNs) {
        let mut acks = lock(&self.acks);
        if acks.len() == MAX_WAITING_ACKS {
            acks.pop_front();
            self.counters.acknowledged_in_excess();
        }
        acks.push_back((ack, now));
        drop(acks);
        self.kicker.kick();
    }

    /// Returns true if this publisher's last samples are still in flight or still to be taken.
    pub(super) fn owes(&self, publisher: EndpointId) -> bool {
        lock(&self.owed).contains(&publisher)
    }

    pub(super) fn park(&self, parked: bool) {
        self.parked.store(parked, Ordering::Release);
        if parked {
            self.partings.fetch_add(1, Ordering::Release);
        }
        self.kicker.kick();
    }
}

/// Handle of a route. Dropping it ends the thread after its current hand-over to Zenoh.
pub(super) struct Route {
    pub(super) inbox: Arc<RouteInbox>,
    pub(super) mark: QosMark,
    /// Time since which the other host has not requested the topic.
    pub(super) parked_since: Option<MonotonicNs>,
    life: Weak<()>,
    thread: Option<JoinHandle<()>>,
}

/// Thread of a route whose handle was dropped. It may be handing a sample to Zenoh, and wait for
/// space.
pub(super) struct Ending(Weak<()>);

impl Ending {
    /// Returns true if the thread has ended and released its pins.
    pub(super) fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Dropped after everything else of a thread; notifies the control thread.
struct Life {
    alive: Option<Arc<()>>,
    control_thread: Kicker,
}

impl Drop for Life {
    fn drop(&mut self) {
        drop(self.alive.take());
        self.control_thread.kick();
    }
}

/// A pinned slot as an owner of bytes.
struct Pinned(Sample);

impl AsRef<[u8]> for Pinned {
    fn as_ref(&self) -> &[u8] {
        self.0.payload()
    }
}

/// Parts of a route.
pub(super) struct RouteParts {
    pub(super) session: Session,
    pub(super) participant: Participant,
    pub(super) node: NodeName,
    pub(super) keys: Keys,
    pub(super) me: HostId,
    pub(super) to: HostId,
    pub(super) topic: CarriedTopic,
    /// Only publishers with exactly this offer are read.
    pub(super) offered: QosMark,
    /// QoS with which they are read.
    pub(super) mark: QosMark,
    /// Size of the window: a further sample is sent only while fewer bytes are in flight.
    pub(super) window_bytes: usize,
    pub(super) clock: Arc<Mutex<ClockEstimate>>,
    pub(super) questions: Questions,
    pub(super) under_way: InFlight<u64>,
    pub(super) left_out: LeftOut,
    pub(super) firsts: Firsts,
    pub(super) notices: Arc<Notices>,
    /// Notified when the thread has ended.
    pub(super) control_thread: Kicker,
}

/// Access list of the topic, for the host transport.
pub(super) fn access(topic: &CarriedTopic) -> Access {
    use driveline_graph::model::Access as Spec;
    match &topic.access {
        Spec::OwnUser => Access::OwnUser,
        Spec::Anyone => Access::Anyone,
        Spec::Users(users) => Access::Users(users.clone()),
    }
}

/// Reason why a route could not be started.
#[derive(Debug, thiserror::Error)]
pub(super) enum RouteError {
    #[error("{0}")]
    Subscription(#[from] CreateSubscriptionError),
    #[error("{0}")]
    Wait(#[from] driveline_shm::WaitSetError),
    #[error("cannot start a thread: {0}")]
    Thread(#[from] std::io::Error),
}

impl Route {
    /// Starts the thread. Calls `enter` just before: the first acknowledgement may arrive while
    /// this function runs.
    pub(super) fn start(
        parts: RouteParts,
        enter: impl FnOnce(&Arc<RouteInbox>),
    ) -> Result<Self, RouteError> {
        let mark = parts.mark;
        let mut config = SubscriptionConfig::new(
            parts.topic.topic.clone(),
            parts.node.clone(),
            SchemaRequest::Any,
        );
        config.qos = Qos {
            depth: parts.topic.qos.depth,
            lifespan_ms: parts.topic.qos.lifespan_ms,
            reliability: mark.reliability,
            durability: mark.durability,
            ..Qos::default()
        };
        config.max_held = 1;
        config.offering = Some((parts.offered.reliability, parts.offered.durability));
        config.own_process = OwnProcess::Exclude;
        config.access = access(&parts.topic);
        let subscription = parts.participant.create_subscription(config)?;
        let mut set = WaitSet::new(WaitBackend::Auto)?;
        set.attach(&subscription)?;
        let inbox = Arc::new(RouteInbox {
            acks: Mutex::default(),
            kicker: set.kicker(),
            stop: AtomicBool::new(false),
            parked: AtomicBool::new(false),
            partings: AtomicU64::new(0),
            owed: Mutex::default(),
            counters: RouteCounters::default(),
            refusals: Box::new(subscription.refusal_source()),
        });
        subscription.kick_when_given_back(set.kicker());
        let (to, from, topic) = (parts.to.clone(), parts.me.clone(), parts.topic.topic.clone());
        let clock_key = parts.keys.key(&Parsed::Clock(parts.to.clone()));
        let sample_key =
            parts.keys.key(&Parsed::Sample { to, from, offered: parts.offered, topic });
        let reliable = mark.reliability == driveline_types::Reliability::Reliable;
        let period = parts
            .topic
            .max_rate_hz
            .filter(|hz| *hz > 0.0)
            .map(|hz| Duration::from_secs_f64((1.0 / hz).min(86_400.0)));
        let alive = Arc::new(());
        let life = Arc::downgrade(&alive);
        let sender = Sender {
            session: parts.session,
            key: sample_key,
            inbox: inbox.clone(),
            clock: parts.clock,
            clock_key,
            questions: parts.questions,
            under_way: parts.under_way,
            to: parts.to,
            left_out: parts.left_out,
            firsts: parts.firsts,
            notices: parts.notices,
            subscription,
            set,
            // The numbers start after all those of an earlier route with this key: no route sends a
            // sample each nanosecond.
            window: Window::new(reliable, parts.window_bytes, MonotonicNs::now().0),
            latched: mark.durability == Durability::TransientLocal,
            standing: BTreeMap::new(),
            held: VecDeque::new(),
            period,
            newest: period.is_some() && !reliable && mark.durability == Durability::Volatile,
            every: u64::from(parts.topic.every.unwrap_or(1).max(1)),
            next_take: MonotonicNs(0),
            senders: Vec::new(),
            _life: Life { alive: Some(alive), control_thread: parts.control_thread },
        };
        enter(&inbox);
        let thread =
            std::thread::Builder::new().name("dl-edge".into()).spawn(move || sender.run())?;
        Ok(Self { inbox, mark, parked_since: None, life, thread: Some(thread) })
    }

    /// Ends the route without waiting for its thread.
    pub(super) fn end(self) -> Ending {
        Ending(self.life.clone())
    }
}

impl Drop for Route {
    fn drop(&mut self) {
        self.inbox.stop.store(true, Ordering::Release);
        self.inbox.kicker.kick();
        // The thread ends by itself. Waiting for it would block the control thread if the link
        // hangs.
        drop(self.thread.take());
    }
}

/// State of the remote publisher that stands for a publisher of this host on the other host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// It exists.
    Received,
    /// It does not exist yet. The route waits for it until this time.
    Awaited(MonotonicNs),
}

struct Sender {
    session: Session,
    key: String,
    inbox: Arc<RouteInbox>,
    clock: Arc<Mutex<ClockEstimate>>,
    clock_key: String,
    questions: Questions,
    under_way: InFlight<u64>,
    /// Receiving gateway.
    to: HostId,
    left_out: LeftOut,
    firsts: Firsts,
    notices: Arc<Notices>,
    subscription: Subscription,
    set: WaitSet,
    window: Window,
    /// True if late subscriptions get earlier samples. Then even a best-effort route sends the
    /// first sample of a publisher again if the other host has no remote publisher for it yet.
    latched: bool,
    standing: BTreeMap<EndpointId, Standing>,
    /// Samples in flight that may have to be sent again. The last one is pinned if it is long or
    /// must be alone in flight; the others are copied.
    held: VecDeque<(Bytes, SampleHead)>,
    period: Option<Duration>,
    /// True on a best-effort volatile route with a rate limit: the newest sample is sent, whatever
    /// the depth. Otherwise the oldest unread sample is sent.
    newest: bool,
    /// Only samples whose number is a multiple of this are sent.
    every: u64,
    next_take: MonotonicNs,
    /// Publishers of the samples in flight, each with the number of its last one.
    senders: Vec<(EndpointId, u64)>,
    /// The last field, which is dropped last.
    _life: Life,
}

impl Sender {
    fn run(mut self) {
        let mut parted = 0;
        while !self.inbox.stop.load(Ordering::Acquire) {
            self.acknowledgements();
            while let Some(event) = self.subscription.poll_event() {
                match event {
                    SubscriptionEvent::Refused { text, .. } => {
                        self.notices.log(format!("not sent to another host: {text}"))
                    }
                    SubscriptionEvent::Matched { publisher, first, .. } => {
                        self.firsts.note(publisher, &self.to, first)
                    }
                    _ => {}
                }
            }
            let partings = self.inbox.partings.load(Ordering::Acquire);
            let parked = self.inbox.parked.load(Ordering::Acquire);
            if partings != parted {
                parted = partings;
                self.window.parted(MonotonicNs::now());
                self.standing.clear();
                self.release_held();
            }
            let now = MonotonicNs::now();
            let may_take =
                !parked && self.due(now) && self.window.has_room() && now >= self.next_take;
            let sent = may_take && self.take();
            self.inbox.counters.store(&self.window.counters(), &self.subscription.stats());
            if !sent {
                if !parked {
                    self.nudge(now);
                }
                self.publish_owed(parked);
                let deadline = if parked { None } else { self.next_poll(now) };
                self.set.set_muted(&self.subscription, !may_take);
                self.set.wait(deadline, Duration::ZERO);
            }
        }
    }

    /// Updates `owed`, the list of publishers that still have samples for the other host. The list
    /// is empty while the other host requests nothing.
    fn publish_owed(&mut self, parked: bool) {
        let oldest = self.window.oldest();
        self.senders.retain(|(_, last)| oldest.is_some_and(|oldest| *last >= oldest));
        let mut owed = lock(&self.inbox.owed);
        owed.clear();
        if !parked {
            owed.extend(self.senders.iter().map(|(publisher, _)| *publisher));
            owed.extend(self.subscription.unread_of_gone());
        }
    }

    /// Time of the next action without an event.
    fn next_poll(&self, now: MonotonicNs) -> Option<MonotonicNs> {
        let rate = (self.next_take > now && self.window.has_room()).then_some(self.next_take);
        self.window.deadline().into_iter().chain(self.window.nudge_at()).chain(rate).min()
    }

    /// Sends a small request after the samples in flight, if the route has been quiet for long. Its
    /// answer follows their acknowledgement.
    fn nudge(&mut self, now: MonotonicNs) {
        if self.window.nudge_at().is_some_and(|at| now >= at) {
            self.window.nudged(now);
            self.questions.ask(
                &self.session,
                &self.clock_key,
                &self.clock,
                NUDGED_LATELY,
                |_, _| {},
            );
        }
    }

    fn acknowledgements(&mut self) {
        let waiting = std::mem::take(&mut *lock(&self.inbox.acks));
        for (ack, returned) in waiting {
            let exchange = Exchange {
                sent: ack.sent,
                received: ack.received,
                answered: ack.answered,
                returned,
            };
            let offset = {
                let mut clock = lock(&self.clock);
                clock.exchange(&exchange);
                clock.offset(returned)
            };
            // The error of the offset is half of the minimum round-trip time.
            offset.into_iter().for_each(|offset| {
                self.window.takes(Duration::from_nanos(offset.error_ns.saturating_mul(2)))
            });
            let publisher = self
                .held
                .iter()
                .find(|(_, head)| head.number == ack.number)
                .map(|(_, head)| head.publisher());
            let ended = match (publisher, ack.outcome) {
                (Some(publisher), Outcome::NotYet) => {
                    if self.waits_for(publisher, returned) && self.window.not_yet(&ack, returned) {
                        continue;
                    }
                    self.window.refused(&ack, returned)
                }
                (_, Outcome::Gap) => self.window.gap(&ack, returned),
                (Some(publisher), Outcome::Published | Outcome::Expired | Outcome::Damaged) => {
                    self.stands(publisher, Standing::Received);
                    self.window.acknowledged(&ack, returned)
                }
                _ => self.window.acknowledged(&ack, returned),
            };
            if ended {
                self.release_held();
            }
        }
    }

    /// Releases samples that are no longer in flight: they are not repeated.
    fn release_held(&mut self) {
        let oldest = self.window.oldest();
        self.held.retain(|(_, head)| oldest.is_some_and(|oldest| head.number >= oldest));
    }

    fn stands(&mut self, publisher: EndpointId, standing: Standing) {
        if self.standing.len() >= MAX_STANDING && !self.standing.contains_key(&publisher) {
            self.standing.clear();
        }
        self.standing.insert(publisher, standing);
    }

    /// Returns true if the route still waits for the remote publisher of this publisher.
    fn waits_for(&mut self, publisher: EndpointId, now: MonotonicNs) -> bool {
        if self.left_out.read().unwrap_or_else(PoisonError::into_inner).contains(&publisher) {
            return false;
        }
        if let Some(Standing::Awaited(until)) = self.standing.get(&publisher) {
            return now < *until;
        }
        self.stands(publisher, Standing::Awaited(now + PATIENCE));
        true
    }

    /// Gives up or repeats samples without an acknowledgement. `true`: new samples may be taken.
    fn due(&mut self, now: MonotonicNs) -> bool {
        match self.window.overdue(now) {
            Overdue::Nothing => true,
            Overdue::GivenUp => {
                self.release_held();
                true
            }
            Overdue::Rewind { number } => {
                let Some((bytes, head)) =
                    self.held.iter().find(|(_, head)| head.number == number).cloned()
                else {
                    return true;
                };
                let Place { place, .. } = self.window.send_again(now);
                self.put(bytes, SampleHead { sent_again: true, place, ..head });
                false
            }
        }
    }

    /// Takes the next sample and hands it to Zenoh. `false`: there is none.
    fn take(&mut self) -> bool {
        let taken = if self.newest {
            self.subscription.take_latest()
        } else {
            self.subscription.take_next()
        };
        let sample = match taken {
            Ok(Some(sample)) => sample,
            Ok(None) => return false,
            Err(_) => {
                // Zenoh still has the previous sample. Its release wakes the subscription.
                self.set.set_muted(&self.subscription, true);
                self.set.wait(Some(MonotonicNs::now() + PAUSE_AFTER_FAILURE), Duration::ZERO);
                return true;
            }
        };
        if sample.header().remote.is_some() {
            self.inbox.counters.remote();
            return true;
        }
        if !sample.written().is_multiple_of(self.every) {
            self.inbox.counters.decimated();
            return true;
        }
        let now = MonotonicNs::now();
        if let Some(period) = self.period {
            // Samples are taken on a fixed grid, one each period, as long as they keep up with it.
            self.next_take = (self.next_take + period).max(now + period / 2);
        }
        let len = sample.payload().len();
        let reliable = self.window.is_reliable();
        // The first sample of each publisher shows whether a remote publisher exists there.
        let alone = (self.latched || reliable)
            && self.standing.get(&sample.publisher()) != Some(&Standing::Received);
        let Place { number, place } = self.window.send(len, alone, now);
        let head = SampleHead {
            sent_again: false,
            place,
            number,
            publisher: sample.publisher().0,
            written: sample.written(),
            owed: u32::try_from(sample.written().saturating_sub(sample.first()))
                .unwrap_or(u32::MAX),
            sent: now,
            header: *sample.header(),
        };
        match self.senders.iter_mut().find(|(publisher, _)| *publisher == sample.publisher()) {
            Some((_, last)) => *last = head.number,
            None => self.senders.push((sample.publisher(), head.number)),
        }
        // Updated before the hand-over, because that may take long: if Zenoh has no space, as long
        // as the link needs for the sample.
        self.publish_owed(false);
        // A sample is copied if others follow it before its acknowledgement. The publisher grants
        // each route one pin, and the next sample needs it.
        let copied = reliable && !alone && self.window.may_be_followed(len);
        let bytes = if copied {
            Bytes::copy_from_slice(sample.payload())
        } else {
            Bytes::from_owner(Pinned(sample))
        };
        if alone || reliable {
            self.held.push_back((bytes.clone(), head.clone()));
        }
        self.put(bytes, head);
        true
    }

    /// Hands a sample to Zenoh. Blocks until Zenoh has space for all of it or has dropped it.
    fn put(&mut self, bytes: Bytes, head: SampleHead) {
        let with_long = self.window.goes_with_long(head.number, SMALL_BYTES);
        let priority = if with_long { Priority::Data } else { Priority::InteractiveHigh };
        let head = SampleHead { sent: MonotonicNs::now(), ..head };
        let put = self.session.put(self.key.as_str(), ZBytes::from(bytes));
        let put = put
            .attachment(head.encode())
            .congestion_control(CongestionControl::Drop)
            .priority(priority);
        let put = put.express(true).allowed_destination(Locality::Remote);
        // `None`: the session is being closed, and the sample was not handed over. It does not
        // count as `not_sent`, because this thread is about to end, too.
        if self
            .under_way
            .during(self.to.incarnation(), || put.wait())
            .is_some_and(|put| put.is_err())
        {
            self.inbox.counters.not_sent();
        }
        self.window.handed_over(head.number, MonotonicNs::now());
    }
}
