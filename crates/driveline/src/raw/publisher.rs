// SPDX-License-Identifier: Apache-2.0
//! The sending end.

use super::events::{EventSources, PublisherEvents};
use crate::context::Context;
use crate::conversion;
use crate::error::{EndpointError, LoanError, PublishError};
use crate::event::EndpointEvent;
use crate::local::{Displaced, LocalEnd, LocalLoan, LocalObject, LocalPublisher, OwnHandle};
use crate::options::{PublisherOptions, Reach};
use crate::scope;
use driveline_shm::{
    Blocked, BlockingMeter, DeadlineMeter, Kicker, MemoryAdmission, MemoryRefusal, PublisherConfig,
};
use driveline_types::service::ShortId;
use driveline_types::{
    Durability, MonotonicNs, NodeName, PayloadKind, SampleHeader, Schema, TopicId, TopicName,
    wall_offset_ns,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Validity of one reading of the wall clock's offset, which costs two clock readings.
const WALL_OFFSET_VALID_NS: u64 = 100_000_000;

/// Below this size, checking the limits costs more than the allocation.
const NOT_WORTH_CHECKING: u64 = 1 << 16;

/// Publisher of any payload kind. One thread at a time; dropping it notifies its subscriptions.
///
/// After creation, [`Self::loan`] and [`Self::publish`] neither allocate nor lock nor make system
/// calls, except to wake sleeping readers (and, within `max_blocking_ms`, to wait for reliable
/// readers). At process reach there are two more exceptions: the first call after subscriptions
/// came or went locks and allocates, and each publish on a transient-local topic locks. Errors
/// allocate at every reach.
pub struct RawPublisher {
    topic: TopicName,
    topic_id: TopicId,
    kind: PayloadKind,
    id: u64,
    local: Option<LocalPublisher>,
    host: Option<driveline_shm::Publisher>,
    /// Late subscriptions outside get the last samples, so these are serialised even without a
    /// reader.
    keeps_history: bool,
    /// Header of the sample that is being published: kept, because filling it in place is cheaper
    /// than making one.
    header: SampleHeader,
    /// Time at which the header's wall-clock offset was read.
    wall_read: MonotonicNs,
    stats: PublisherStats,
    published: PublishedCounter,
    /// Activity of the component, if it can be inactive.
    active: Option<Arc<AtomicBool>>,
    _deadline_end: DeadlineEnd,
    events: Arc<EventSources>,
    max_payload: usize,
    depth: u64,
    displaced: Displaced,
    context: Context,
}

/// Payload of a request or an answer of a service: bytes or a value.
pub enum Parcel {
    /// Bytes, in memory of the publisher.
    Loan(RawLoan),
    /// A value that moves as a pointer inside the process.
    Object(Arc<dyn LocalObject>),
}

/// A matched subscription, as a client sees its server.
pub(crate) struct MatchedReader {
    pub(crate) id: ShortId,
    pub(crate) node: String,
    /// True if one more sample displaces no unread one.
    pub(crate) has_room: bool,
    pub(crate) progress: Progress,
}

/// Reading position of a matched subscription, also after its end.
pub(crate) enum Progress {
    /// Position of a reader inside the process, as a sequence number.
    Inside { reader: Arc<LocalEnd>, writer: u64 },
    /// Position of a reader outside, among the written samples.
    Outside(driveline_shm::Progress),
}

impl Progress {
    /// Returns true if the subscription has taken a sample. `number`: the sample's sequence number.
    /// `written`: number of samples written for readers outside, up to this sample.
    pub(crate) fn has_reached(&self, number: u64, written: u64) -> bool {
        match self {
            Self::Inside { reader, writer } => reader.taken_of(*writer) >= number,
            Self::Outside(progress) => progress.position() >= written,
        }
    }
}

/// Counters of a publisher since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublisherStats {
    /// Samples published.
    pub published: u64,
    /// Samples that newer ones replaced before they were read, over all subscriptions to which this
    /// publisher passes pointers.
    pub overwritten: u64,
    /// Values that were serialised for readers outside.
    pub serialised: u64,
    /// Periods of the offered deadline in which nothing was published.
    pub deadlines_missed: u64,
}

/// Counters of one publisher: published samples, missed deadlines, and waits. Outlives the
/// publisher; clones share the counters; any thread may read them.
#[derive(Clone, Debug, Default)]
pub struct PublishedCounter {
    samples: Arc<AtomicU64>,
    /// Publish time of the newest sample, in nanoseconds; 0 before the first.
    newest_ns: Arc<AtomicU64>,
    deadline: Option<Arc<DeadlineMeter>>,
    /// Waits for readers that get pointers, and for readers of the shared memory.
    blocking: [Option<Arc<BlockingMeter>>; 2],
}

impl PublishedCounter {
    /// Returns the number of samples published so far. One atomic load.
    #[must_use]
    pub fn get(&self) -> u64 {
        // Relaxed: no other memory depends on the number.
        self.samples.load(Ordering::Relaxed)
    }

    /// Periods of the offered deadline in which nothing was published, from the first sample until
    /// now or the publisher's end. Neither locks nor allocates.
    #[must_use]
    pub fn deadlines_missed(&self) -> u64 {
        self.deadline.as_ref().map_or(0, |d| d.missed(MonotonicNs::now()))
    }

    /// Stops counting missed deadlines, for the end of a run.
    pub fn end_deadlines(&self) {
        if let Some(deadline) = &self.deadline {
            deadline.close(MonotonicNs::now());
        }
    }

    /// Returns the publish time of the newest sample. One atomic load.
    #[must_use]
    pub fn newest(&self) -> Option<MonotonicNs> {
        Some(MonotonicNs(self.newest_ns.load(Ordering::Relaxed))).filter(|at| at.0 != 0)
    }

    /// Returns number and duration of the publisher's waits for reliable readers. Neither locks nor
    /// allocates.
    #[must_use]
    pub fn blocked(&self) -> Blocked {
        let now = MonotonicNs::real_now();
        let meters = self.blocking.iter().flatten();
        meters.fold(Blocked::default(), |sum, meter| sum.and(meter.blocked(now)))
    }

    fn count(&self, at: MonotonicNs) {
        self.newest_ns.store(at.0, Ordering::Relaxed);
        // Only the publisher writes, so the addition need not be atomic.
        self.samples.store(self.get() + 1, Ordering::Relaxed);
    }
}

/// Ends the count of missed deadlines when the publisher is dropped.
struct DeadlineEnd(Option<Arc<DeadlineMeter>>);

impl Drop for DeadlineEnd {
    fn drop(&mut self) {
        if let Some(deadline) = &self.0 {
            deadline.end(MonotonicNs::now());
        }
    }
}

/// Values replaced by newer ones. Dropping it may run their destructors.
pub struct DisplacedValues(#[allow(dead_code, reason = "held to be dropped")] Displaced);

/// Memory for one payload that only the holder can see, until it is published. Dropping it returns
/// the memory.
pub struct RawLoan {
    place: Place,
    source_time: Option<MonotonicNs>,
}

enum Place {
    Host(driveline_shm::Loan),
    Local(LocalLoan),
}

/// Checks that memory for samples inside the process is available. Reserving touches the memory,
/// and touching more than exists would end the process. Keep the result until the memory is
/// reserved.
pub(super) fn admit_memory(
    topic: &TopicName,
    needed: u64,
) -> Result<Option<MemoryAdmission>, EndpointError> {
    if needed < NOT_WORTH_CHECKING {
        return Ok(None);
    }
    let topic = topic.to_string();
    driveline_shm::admit_memory(needed).map(Some).map_err(|refusal| match refusal {
        MemoryRefusal::Short { needed, available, limit } => {
            EndpointError::Memory { topic, needed, available, limit }
        }
        refusal @ MemoryRefusal::Busy { .. } => EndpointError::MemoryBusy { topic, refusal },
    })
}

impl RawLoan {
    /// The payload; its initial content is unspecified (an earlier sample's).
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        match &self.place {
            Place::Host(l) => l.payload(),
            Place::Local(l) => l.payload(),
        }
    }

    /// The payload, to be written.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            Place::Host(l) => l.payload_mut(),
            Place::Local(l) => l.payload_mut(),
        }
    }

    /// Makes the payload shorter; a longer length changes nothing.
    pub fn shrink(&mut self, len: usize) {
        match &mut self.place {
            Place::Host(l) => l.shrink(len),
            Place::Local(l) => l.shrink(len),
        }
    }

    /// Sets the time of measurement. Effective only at a source: samples that descend from others
    /// inherit their times.
    pub fn set_source_time(&mut self, time: MonotonicNs) {
        self.source_time = Some(time);
    }
}

impl RawPublisher {
    pub(crate) fn new(
        context: &Context,
        node: &NodeName,
        topic: TopicName,
        schema: Schema,
        o: PublisherOptions,
    ) -> Result<Self, EndpointError> {
        let kind = schema.kind;
        let max_payload = o.max_payload;
        let keeps_history = o.qos.durability == Durability::TransientLocal;
        let (deadline_ms, max_blocking_ms) = (o.qos.deadline_ms, o.qos.max_blocking_ms);
        let host = match o.reach {
            Reach::Process => None,
            Reach::Host | Reach::Network => {
                let mut config = PublisherConfig::new(
                    topic.clone(),
                    node.clone(),
                    schema.clone(),
                    o.max_payload,
                );
                config.qos = o.qos.clone();
                config.loans = o.loans;
                config.pins = o.pins;
                config.access = o.access;
                let made = context.participant().create_publisher(config);
                Some(made.map_err(|source| EndpointError::Publisher {
                    topic: topic.to_string(),
                    source,
                })?)
            }
        };
        // One id for both transports: a service identifies this publisher by it, whichever
        // transport a request used.
        let id = host.as_ref().map_or_else(|| context.next_id(), |h| ShortId::from(h.id()).0);
        let by_pointer = o.reach == Reach::Process || kind == PayloadKind::Protobuf;
        let local = if by_pointer {
            let end = LocalEnd::new(id, node.as_str(), schema, o.qos.clone());
            let has_buffers = matches!(kind, PayloadKind::Plain | PayloadKind::Bytes);
            let end = if has_buffers { end.with_buffers(max_payload) } else { end };
            // At host reach, the host transport checks deadline and lease.
            let end =
                Arc::new(if o.reach == Reach::Process { end.watching_itself(&topic) } else { end });
            let local_topic = context.topic(&topic);
            let _admission =
                admit_memory(&topic, LocalPublisher::memory_for(&local_topic, &end, o.loans))?;
            Some(LocalPublisher::new(local_topic, end, o.loans))
        } else {
            None
        };
        let header = SampleHeader::stamped_now();
        let deadline = host.as_ref().map_or_else(
            || local.as_ref()?.end.deadline_meter(),
            driveline_shm::Publisher::deadline_meter,
        );
        let ends = local.as_ref().map(|l| l.end.clone());
        let sources = host.as_ref().map(driveline_shm::Publisher::event_source);
        let promise = super::watch::Promise { topic: topic.clone(), deadline_ms, max_blocking_ms };
        let blocking = [
            local.as_ref().map(|l| l.end.blocking_meter()),
            host.as_ref().map(driveline_shm::Publisher::blocking_meter),
        ];
        let sources = sources.map(|s| {
            Box::new(move || s().map(|e| super::watch::publisher_event(e, &promise))) as Box<_>
        });
        Ok(Self {
            topic_id: topic.id(),
            topic,
            kind,
            id,
            local,
            host,
            keeps_history,
            wall_read: header.publish_time,
            header,
            stats: PublisherStats::default(),
            published: PublishedCounter {
                deadline: deadline.clone(),
                blocking,
                ..PublishedCounter::default()
            },
            active: None,
            _deadline_end: DeadlineEnd(deadline),
            events: EventSources::new(ends, sources),
            max_payload,
            depth: u64::from(o.qos.depth),
            displaced: Displaced::default(),
            context: context.clone(),
        })
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Longest payload in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.max_payload
    }

    /// Memory for a payload of `len` bytes (plain and bytes).
    ///
    /// # Errors
    /// [`LoanError`] if the payload is too long or too many loans are out. No sample is lost.
    pub fn loan(&mut self, len: usize) -> Result<RawLoan, LoanError> {
        let place = match (self.kind, &mut self.host, &mut self.local) {
            (PayloadKind::Protobuf | PayloadKind::Object, _, _) => {
                return Err(LoanError::NotBytes { topic: self.topic.to_string(), kind: self.kind });
            }
            (_, Some(host), _) => Place::Host(
                host.loan(len)
                    .map_err(|source| LoanError::Host { topic: self.topic.to_string(), source })?,
            ),
            (_, None, Some(local)) => Place::Local(local.loan(len)?),
            (_, None, None) => {
                return Err(LoanError::NotBytes { topic: self.topic.to_string(), kind: self.kind });
            }
        };
        Ok(RawLoan { place, source_time: None })
    }

    /// Publishes only while `active` is true.
    pub(crate) fn publish_while(&mut self, active: Arc<AtomicBool>) {
        self.active = Some(active);
    }

    pub(crate) fn deadline_meter(&self) -> Option<Arc<DeadlineMeter>> {
        self.published.deadline.clone()
    }

    fn admit(&self) -> Result<(), PublishError> {
        match &self.active {
            Some(active) if !active.load(Ordering::Acquire) => {
                Err(PublishError::Inactive { topic: self.topic.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Publishes a loan and returns its sequence number. Blocks only if the topic is reliable, at
    /// most `max_blocking_ms`.
    ///
    /// # Errors
    /// [`PublishError`]; the loan is released.
    pub fn publish(&mut self, loan: RawLoan) -> Result<u64, PublishError> {
        self.admit()?;
        self.stamp_times();
        let Self { header, topic, topic_id, id, .. } = self;
        match (loan.place, &mut self.host, &mut self.local) {
            (Place::Host(place), Some(host), _) => {
                scope::stamp(
                    header,
                    *topic_id,
                    loan.source_time,
                    scope::fresh_trace(*id, host.next_sequence()),
                );
                host.publish(place, header)
                    .map_err(|source| PublishError::Host { topic: topic.to_string(), source })?;
            }
            (Place::Local(place), _, Some(local)) if place.publisher == *id => {
                header.sequence = local.next_sequence;
                header.payload_len = place.payload().len() as u64;
                scope::stamp(
                    header,
                    *topic_id,
                    loan.source_time,
                    scope::fresh_trace(*id, header.sequence),
                );
                self.stats.overwritten += local.publish_loan(place, header).overwritten;
            }
            _ => return Err(PublishError::ForeignLoan { topic: topic.to_string() }),
        }
        self.published.count(self.header.publish_time);
        Ok(self.header.sequence)
    }

    /// Publishes a value (protobuf and object). Readers inside the process get the pointer. If
    /// there are readers outside, or the topic is transient-local at host reach, the value is also
    /// serialised once into shared memory.
    ///
    /// # Errors
    /// [`PublishError`]. If the value could not be written for readers outside, readers inside have
    /// received it.
    ///
    /// Displaced values are kept until [`Self::take_displaced`] or the next call: their destructors
    /// may run any code, for example publish on this topic.
    pub fn publish_object(
        &mut self,
        object: Arc<dyn LocalObject>,
        source_time: Option<MonotonicNs>,
    ) -> Result<u64, PublishError> {
        if !matches!(self.kind, PayloadKind::Protobuf | PayloadKind::Object) {
            return Err(PublishError::NotObject { topic: self.topic.to_string(), kind: self.kind });
        }
        self.admit()?;
        self.stamp_times();
        let header = &mut self.header;
        let Some(local) = &mut self.local else {
            return Err(PublishError::NotObject { topic: self.topic.to_string(), kind: self.kind });
        };
        let sequence = local.next_sequence;
        header.sequence = sequence;
        // The length is known only after serialisation, which pointers do not need.
        header.payload_len = 0;
        header.checksum = None;
        scope::stamp(header, self.topic_id, source_time, scope::fresh_trace(self.id, sequence));
        let keeps_history = self.keeps_history;
        let outside = self.host.as_mut().filter(|h| h.matched() > 0 || keeps_history);
        let given = object.clone();
        // From here on, readers may drop the value before this function returns.
        let own = OwnHandle::new(object, sequence);
        let delivery = local.publish_object(given, header);
        let wait_until = delivery.wait_until;
        self.displaced = delivery.displaced;
        self.published.count(header.publish_time);
        self.stats.overwritten += delivery.overwritten;
        if let (Some(host), Some(object)) = (outside, own.get()) {
            let topic = || self.topic.to_string();
            // Encoding happens after the publish time, and so is part of the next hop's
            // communication.
            let loan = conversion::publishing(|| {
                let len = object.encoded_len().unwrap_or(0);
                let mut loan =
                    host.loan(len).map_err(|source| LoanError::Host { topic: topic(), source })?;
                object
                    .encode(loan.payload_mut())
                    .map_err(|source| PublishError::Encode { topic: topic(), source })?;
                Ok::<_, PublishError>(loan)
            })?;
            host.publish_until(loan, header, wait_until)
                .map_err(|source| PublishError::Host { topic: topic(), source })?;
            self.stats.serialised += 1;
        } else if let Some(host) = &mut self.host {
            host.has_passed_by(header.publish_time);
        }
        Ok(sequence)
    }

    /// Returns the values replaced by the one just published. Drop them outside of locks that their
    /// destructors may want.
    pub fn take_displaced(&mut self) -> DisplacedValues {
        DisplacedValues(std::mem::take(&mut self.displaced))
    }

    /// Publishes a request or an answer. `word`: value of the header's field `service`
    /// ([`SampleHeader::service`]).
    pub(crate) fn publish_for_service(
        &mut self,
        parcel: Parcel,
        word: u64,
    ) -> Result<u64, PublishError> {
        self.header.service = Some(word);
        let published = match parcel {
            Parcel::Loan(loan) => self.publish(loan),
            Parcel::Object(object) => self.publish_object(object, None),
        };
        self.header.service = None;
        published
    }

    /// Returns the id of this publisher in a service.
    pub(crate) fn short_id(&self) -> ShortId {
        ShortId(self.id)
    }

    /// Returns the subscriptions that receive the next sample. Allocates.
    pub(crate) fn readers(&mut self) -> Vec<MatchedReader> {
        let (depth, id) = (self.depth, self.id);
        let inside = self.local.iter().flat_map(LocalPublisher::peers).map(|p| MatchedReader {
            id: ShortId(p.id),
            node: p.node,
            has_room: p.has_room,
            progress: Progress::Inside { reader: p.end, writer: id },
        });
        let mut readers: Vec<_> = inside.collect();
        if let Some(host) = &mut self.host {
            let next = host.next_sequence();
            readers.extend(host.subscriptions().into_iter().map(|m| MatchedReader {
                id: m.subscription.into(),
                node: m.node.to_string(),
                has_room: m.position.saturating_add(depth) >= next,
                progress: Progress::Outside(m.progress),
            }));
        }
        readers
    }

    /// Number of samples that were written for readers outside.
    pub(crate) fn written(&self) -> u64 {
        self.host.as_ref().map_or(0, |h| h.next_sequence() - 1)
    }

    /// Kicks `kicker` from now on when ends inside the process are created or dropped, and at each
    /// event of the host transport.
    pub(crate) fn kick_on_event(&self, kicker: &Kicker) {
        if let Some(local) = &self.local {
            local.end.kick_on_event(kicker.clone());
        }
        if let Some(host) = &self.host {
            host.kick_on_event(kicker.clone());
        }
    }

    /// Sets the header's times to the present, on both clocks.
    fn stamp_times(&mut self) {
        let now = MonotonicNs::now();
        if now.0.saturating_sub(self.wall_read.0) > WALL_OFFSET_VALID_NS {
            self.wall_read = now;
            self.header.wall_offset_ns = wall_offset_ns();
        }
        self.header.publish_time = now;
    }

    /// Number of subscriptions that are matched now.
    pub fn matched(&mut self) -> usize {
        self.local.as_mut().map_or(0, LocalPublisher::matched)
            + self.host.as_ref().map_or(0, driveline_shm::Publisher::matched)
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.poll()
    }

    /// Returns a view of the events for code that does not own the publisher. The view and
    /// [`Self::poll_event`] each get every event.
    #[must_use]
    pub fn events(&self) -> PublisherEvents {
        self.events.watch()
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> PublisherStats {
        PublisherStats {
            published: self.published.get(),
            deadlines_missed: self.published.deadlines_missed(),
            ..self.stats
        }
    }

    /// Returns the counter of published samples, for other threads.
    #[must_use]
    pub fn published_counter(&self) -> PublishedCounter {
        self.published.clone()
    }

    /// Counters of the host transport, at host reach.
    #[must_use]
    pub fn host_stats(&self) -> Option<driveline_shm::PublisherStats> {
        self.host.as_ref().map(driveline_shm::Publisher::stats)
    }

    /// Asserts `manual_by_topic` liveliness. Publishing asserts it as well.
    pub fn assert_liveliness(&mut self) {
        if let Some(local) = &self.local {
            local.end.is_alive(MonotonicNs::now());
        }
        if let Some(host) = &mut self.host {
            host.assert_liveliness();
        }
    }

    /// The context that the publisher belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }
}
