// SPDX-License-Identifier: Apache-2.0
//! Matching inside the process.

use super::{AlignedBytes, LocalQueue, LocalSample};
use crate::event::EndpointEvent;
use crate::raw::Promise;
use driveline_shm::{
    BlockingMeter, DeadlineMeter, DeadlineReports, DeadlinesMissed, InProcessPublisher, Kicker,
    Publishers,
};
use driveline_types::{Durability, Liveliness, MonotonicNs, Qos, Schema, TopicName};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// Maximum number of events that wait for one endpoint; the oldest are dropped.
const MAX_EVENTS: usize = 64;

/// Events that wait to be polled, and the number dropped before them.
#[derive(Default)]
struct Events {
    waiting: VecDeque<EndpointEvent>,
    lost: u64,
}

/// Promised deadline and lease of a writer. Times are in nanoseconds on `CLOCK_MONOTONIC`. The
/// publishing thread writes `alive_ns`; the thread that polls events writes `reported_loss`.
struct Promises {
    /// Promise that this end checks itself; `None` if the host transport checks it.
    watched: Option<Promise>,
    deadline: Option<Arc<DeadlineMeter>>,
    reports: Mutex<DeadlineReports>,
    alive_ns: AtomicU64,
    /// Last sign of life before the most recently reported silence.
    reported_loss: AtomicU64,
}

impl Default for Promises {
    fn default() -> Self {
        let now = MonotonicNs::now().0;
        Self {
            watched: None,
            deadline: None,
            reports: Mutex::default(),
            alive_ns: AtomicU64::new(now),
            reported_loss: AtomicU64::new(0),
        }
    }
}

/// Counter of the deadlines that the publishers of a reader miss together.
enum Requested {
    /// All publishers are in this process.
    InProcess(DeadlineMeter),
    /// The host transport counts, because it knows the publishers of other processes.
    AtHost(Publishers),
}

/// One publisher (writer) or subscription (reader), as the topic sees it.
pub(crate) struct LocalEnd {
    pub(crate) id: u64,
    pub(crate) node: String,
    pub(crate) schema: Schema,
    pub(crate) qos: Qos,
    /// Writers of bytes only: length of a payload buffer, else 0.
    pub(crate) buffer_len: usize,
    /// Writers only: promised deadline and lease, and their state.
    promises: Promises,
    /// Buffers that readers have added for this writer.
    spare: Mutex<Vec<AlignedBytes>>,
    events: Mutex<Events>,
    /// Writers only: waits for reliable readers.
    pub(super) blocking: Arc<BlockingMeter>,
    /// Writers only: last sequence published.
    pub(super) published: AtomicU64,
    /// Readers only: start of the match with each writer.
    baselines: Mutex<Vec<Baseline>>,
    /// Readers only: counts the deadlines that all matched publishers together miss, if the reader
    /// requests one.
    requested: Option<Requested>,
    /// Readers only, if they report taken samples: for each writer, the last taken sequence.
    taken: Mutex<Vec<(u64, u64)>>,
    /// Kicked when ends of the topic are created or dropped.
    kicker: Mutex<Option<Kicker>>,
}

/// A matched end, as its peer sees it.
pub(crate) struct Peer {
    pub(crate) id: u64,
    pub(crate) node: String,
    pub(crate) depth: u32,
    /// Readers only: true if the queue has room.
    pub(crate) has_room: bool,
    pub(crate) end: Arc<LocalEnd>,
}

impl LocalEnd {
    pub(crate) fn new(id: u64, node: &str, schema: Schema, qos: Qos) -> Self {
        let requested = qos.deadline_ms.map(|ms| Requested::InProcess(meter(ms)));
        Self {
            id,
            node: node.to_owned(),
            schema,
            qos,
            buffer_len: 0,
            promises: Promises::default(),
            spare: Mutex::default(),
            events: Mutex::default(),
            blocking: Arc::default(),
            published: AtomicU64::new(0),
            baselines: Mutex::default(),
            requested,
            taken: Mutex::default(),
            kicker: Mutex::default(),
        }
    }

    /// Sets the length of a payload buffer, for a writer whose payloads are bytes.
    pub(crate) fn with_buffers(self, buffer_len: usize) -> Self {
        Self { buffer_len, ..self }
    }

    /// Lets the host transport count the deadlines of a reader, over the publishers of all
    /// processes.
    pub(crate) fn with_deadlines_at_host(self, host: Publishers) -> Self {
        Self { requested: self.requested.map(|_| Requested::AtHost(host)), ..self }
    }

    /// Makes a writer check itself: it reports when it misses its deadline or its lease.
    pub(crate) fn watching_itself(self, topic: &TopicName) -> Self {
        let deadline_ms = self.qos.deadline_ms;
        let watched = Some(Promise {
            topic: topic.clone(),
            deadline_ms,
            max_blocking_ms: self.qos.max_blocking_ms,
        });
        let deadline = deadline_ms.map(|ms| Arc::new(meter(ms)));
        Self { promises: Promises { watched, deadline, ..self.promises }, ..self }
    }

    /// Returns the counter of a writer's waits for reliable readers.
    pub(crate) fn blocking_meter(&self) -> Arc<BlockingMeter> {
        self.blocking.clone()
    }

    /// Returns the counter of a writer's missed deadlines, if the writer offers a deadline and no
    /// other part counts them.
    pub(crate) fn deadline_meter(&self) -> Option<Arc<DeadlineMeter>> {
        self.promises.deadline.clone()
    }

    /// Readers only: deadlines missed until now, and when the next one will be; nothing if the host
    /// transport counts. Does not wait.
    pub(crate) fn deadlines(&self, now: MonotonicNs) -> (u64, Option<MonotonicNs>) {
        match &self.requested {
            Some(Requested::InProcess(meter)) => (meter.missed(now), meter.next_miss(now)),
            Some(Requested::AtHost(_)) | None => (0, None),
        }
    }

    /// Notes that a sample was published at that time.
    pub(crate) fn has_published(&self, at: MonotonicNs) {
        if let Some(deadline) = &self.promises.deadline {
            deadline.published(at);
        }
        self.promises.alive_ns.store(at.0, Ordering::Relaxed);
    }

    /// Notes a sign of life without a sample.
    pub(crate) fn is_alive(&self, at: MonotonicNs) {
        self.promises.alive_ns.store(at.0, Ordering::Relaxed);
    }

    /// Returns the time of a writer's last sign of life.
    pub(crate) fn last_alive(&self) -> MonotonicNs {
        MonotonicNs(self.promises.alive_ns.load(Ordering::Relaxed))
    }

    /// Adds an event if the lease has run out since the last check, once for each silence.
    fn look_at_lease(&self) {
        let p = &self.promises;
        let Some(lease_ms) =
            self.qos.lease_ms.filter(|_| self.qos.liveliness == Liveliness::ManualByTopic)
        else {
            return;
        };
        let since = p.alive_ns.load(Ordering::Relaxed);
        let silent = MonotonicNs::now().since(MonotonicNs(since));
        if silent > Duration::from_millis(u64::from(lease_ms))
            && p.reported_loss.swap(since, Ordering::Relaxed) != since
        {
            self.event(EndpointEvent::LivelinessLost { peer: "this publisher".into() });
        }
    }

    /// Returns the next event about deadlines that this writer has missed.
    fn missed_deadlines(&self) -> Option<EndpointEvent> {
        let p = &self.promises;
        let (promise, deadline, now) =
            (p.watched.as_ref()?, p.deadline.as_ref()?, MonotonicNs::now());
        let mut reports = p.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let DeadlinesMissed { missed, total } = reports.next(deadline.missed(now), now)?;
        Some(promise.offered(missed, total))
    }

    /// Returns the buffers that readers have added since the last call.
    pub(super) fn take_spare(&self) -> Vec<AlignedBytes> {
        std::mem::take(&mut *self.spare.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn event(&self, event: EndpointEvent) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        if events.waiting.len() == MAX_EVENTS {
            events.waiting.pop_front();
            events.lost += 1;
        }
        events.waiting.push_back(event);
    }

    /// Kicks: there are events, or the topic has changed.
    fn kick(&self) {
        if let Some(kicker) = &*self.kicker.lock().unwrap_or_else(PoisonError::into_inner) {
            kicker.kick();
        }
    }

    /// Kicks `kicker` after each change of the topic's ends from now on, when their events can be
    /// polled.
    pub(crate) fn kick_on_event(&self, kicker: Kicker) {
        *self.kicker.lock().unwrap_or_else(PoisonError::into_inner) = Some(kicker);
    }

    /// Notes that a reader has taken a sample, for its writer. Nothing is kept for departed
    /// writers. Locks.
    pub(crate) fn note_taken(&self, writer: u64, sequence: u64) {
        // Locked until the note is made, so that code that forgets the writer finds the note.
        let baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        if !baselines.iter().any(|b| b.writer == writer && !b.gone) {
            return;
        }
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match taken.iter_mut().find(|(w, _)| *w == writer) {
            Some((_, last)) => *last = sequence.max(*last),
            None => taken.push((writer, sequence)),
        }
    }

    /// Returns the last sequence of a writer that this reader has taken; 0 if none.
    pub(crate) fn taken_of(&self, writer: u64) -> u64 {
        let taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.iter().find(|(w, _)| *w == writer).map_or(0, |(_, sequence)| *sequence)
    }

    /// Returns [`Baseline::before`] of a writer. Also for a departed writer, while its samples may
    /// wait.
    pub(super) fn baseline(&self, writer: u64) -> Option<u64> {
        let baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        baselines.iter().find(|b| b.writer == writer).map(|b| b.before)
    }

    /// Returns true if a writer is matched and present.
    pub(super) fn has_writer(&self, writer: u64) -> bool {
        let baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        baselines.iter().any(|b| b.writer == writer && !b.gone)
    }

    /// Returns the last sequence of a writer that publishing does not deliver to this reader, and
    /// [`Baseline::samples`].
    fn match_with(&self, writer: u64) -> (u64, Arc<InProcessPublisher>) {
        let baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
        baselines
            .iter()
            .find(|b| b.writer == writer)
            .map(|b| (b.history_until, b.samples.clone()))
            .unwrap_or_default()
    }

    fn set_baseline(&self, writer: u64, before: u64, history_until: u64) {
        let samples = Arc::<InProcessPublisher>::default();
        if let Some(Requested::AtHost(host)) = &self.requested {
            host.add_in_process(samples.clone());
        }
        let baseline = Baseline { writer, before, history_until, samples, gone: false };
        self.baselines.lock().unwrap_or_else(PoisonError::into_inner).push(baseline);
    }

    /// Forgets a departed writer. `published`: its last sequence.
    fn forget(&self, writer: u64, published: u64) {
        {
            let mut baselines = self.baselines.lock().unwrap_or_else(PoisonError::into_inner);
            for b in baselines.iter_mut().filter(|b| b.writer == writer && !b.gone) {
                b.gone = true;
                if let Some(Requested::AtHost(host)) = &self.requested {
                    host.end_in_process(&b.samples, MonotonicNs::now());
                }
            }
            // A writer that has published nothing since the match has no waiting samples.
            baselines.retain(|b| b.writer != writer || published > b.before);
            if let Some(Requested::InProcess(meter)) = &self.requested
                && !baselines.iter().any(|b| !b.gone && b.samples.has_published())
            {
                meter.end(MonotonicNs::now());
            }
            if baselines.iter().filter(|b| b.gone).count() > MAX_GONE_WRITERS
                && let Some(oldest) = baselines.iter().position(|b| b.gone)
            {
                baselines.remove(oldest);
            }
        }
        self.taken.lock().unwrap_or_else(PoisonError::into_inner).retain(|(w, _)| *w != writer);
    }

    pub(crate) fn poll_event(&self) -> Option<EndpointEvent> {
        if self.promises.watched.is_some() {
            self.look_at_lease();
        }
        self.next_event().or_else(|| self.missed_deadlines())
    }

    /// Returns the oldest event. Does not wait: returns `None` while another thread adds one, since
    /// that thread may have a lower priority.
    fn next_event(&self) -> Option<EndpointEvent> {
        let mut events = match self.events.try_lock() {
            Ok(events) => events,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        match std::mem::take(&mut events.lost) {
            0 => events.waiting.pop_front(),
            count => Some(EndpointEvent::EventsLost { count }),
        }
    }
}

/// Maximum number of departed writers whose [`Baseline`] a reader keeps. Each is needed while
/// samples of this writer wait: at most one for each sample in the queue, plus the taken sample.
/// Baselines of writers without waiting samples count as well, so with more writers that come and
/// go, the baseline of a writer with waiting samples can be forgotten.
const MAX_GONE_WRITERS: usize = Qos::MAX_DEPTH as usize + 1;

/// Start of a reader's match with one writer.
struct Baseline {
    writer: u64,
    /// Sequence before the first one that the reader can get. If the first sample that it gets has
    /// the sequence `before + 3`, it has missed two.
    before: u64,
    /// Last sequence that publishing does not deliver to the reader: the sample is from before the
    /// match, or the reader received it with the history.
    history_until: u64,
    /// Samples since the match, for a reader that requests a deadline.
    samples: Arc<InProcessPublisher>,
    gone: bool,
}

pub(super) struct Reader {
    pub(super) end: Arc<LocalEnd>,
    pub(super) queue: Arc<LocalQueue>,
    /// Number of samples of one writer that it may keep, in its queue and held.
    pub(super) keeps: usize,
}

/// A reader, as one of its writers needs it for delivery.
pub(super) struct Recipient {
    pub(super) reader: Arc<Reader>,
    /// Last sequence that publishing does not deliver to the reader.
    pub(super) history_until: u64,
    samples: Arc<InProcessPublisher>,
}

impl Recipient {
    /// Notes that a sample was published at that time.
    pub(super) fn hears(&self, at: MonotonicNs) {
        let Some(requested) = &self.reader.end.requested else { return };
        self.samples.published(at);
        if let Requested::InProcess(meter) = requested {
            meter.published(at);
        }
    }
}

fn meter(deadline_ms: u32) -> DeadlineMeter {
    DeadlineMeter::new(Duration::from_millis(u64::from(deadline_ms)))
}

pub(super) struct Writer {
    pub(super) end: Arc<LocalEnd>,
    /// The last samples, for transient-local subscriptions; oldest first.
    pub(super) retained: VecDeque<Arc<LocalSample>>,
}

#[derive(Default)]
struct Ends {
    readers: Vec<Arc<Reader>>,
    writers: Vec<Writer>,
}

/// One topic of this process.
pub(crate) struct LocalTopic {
    pub(crate) name: TopicName,
    ends: Mutex<Ends>,
    generation: AtomicU64,
}

impl LocalTopic {
    pub(crate) fn new(name: TopicName) -> Self {
        Self { name, ends: Mutex::default(), generation: AtomicU64::new(1) }
    }

    fn ends(&self) -> MutexGuard<'_, Ends> {
        self.ends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a number that changes when an end is created or dropped.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Returns the readers that match a writer.
    pub(super) fn readers_of(&self, writer: &LocalEnd) -> Vec<Recipient> {
        let ends = self.ends();
        let matching = ends.readers.iter().filter(|r| self.verdict(writer, &r.end).is_ok());
        let recipient = |reader: &Arc<Reader>| {
            let (history_until, samples) = reader.end.match_with(writer.id);
            Recipient { reader: reader.clone(), history_until, samples }
        };
        matching.map(recipient).collect()
    }

    /// Returns the writers of a reader that have manual liveliness.
    pub(crate) fn manual_writers_of(&self, reader: &LocalEnd) -> Vec<Arc<LocalEnd>> {
        let ends = self.ends();
        let manual =
            ends.writers.iter().filter(|w| w.end.qos.liveliness == Liveliness::ManualByTopic);
        manual.filter(|w| self.verdict(&w.end, reader).is_ok()).map(|w| w.end.clone()).collect()
    }

    pub(crate) fn writers_matching(&self, reader: &LocalEnd) -> usize {
        self.ends().writers.iter().filter(|w| self.verdict(&w.end, reader).is_ok()).count()
    }

    /// Readers that match a writer, as it sees them. Allocates.
    pub(crate) fn reading_peers(&self, writer: &LocalEnd) -> Vec<Peer> {
        let of = |r: Arc<Reader>| Peer {
            id: r.end.id,
            node: r.end.node.clone(),
            depth: r.end.qos.depth,
            has_room: r.queue.has_room(),
            end: r.end.clone(),
        };
        self.readers_of(writer).into_iter().map(|r| of(r.reader)).collect()
    }

    /// Writers that match a reader. Allocates.
    pub(crate) fn writing_peers(&self, reader: &LocalEnd) -> Vec<Peer> {
        let ends = self.ends();
        let matching = ends.writers.iter().filter(|w| self.verdict(&w.end, reader).is_ok());
        let of = |w: &Writer| Peer {
            id: w.end.id,
            node: w.end.node.clone(),
            depth: w.end.qos.depth,
            has_room: true,
            end: w.end.clone(),
        };
        matching.map(of).collect()
    }

    /// Returns the reason why a writer does not match a reader, if there is such a writer.
    pub(crate) fn refusal_of(&self, reader: &LocalEnd) -> Option<String> {
        self.ends().writers.iter().find_map(|w| self.verdict(&w.end, reader).err())
    }

    /// Completes a change of the topic's readers and writers, and kicks all of them. The lock is
    /// still held, so a kicked thread sees the complete change.
    fn changed(&self, ends: MutexGuard<'_, Ends>) {
        self.generation.fetch_add(1, Ordering::Release);
        ends.readers.iter().for_each(|r| r.end.kick());
        ends.writers.iter().for_each(|w| w.end.kick());
    }

    fn verdict(&self, writer: &LocalEnd, reader: &LocalEnd) -> Result<(), String> {
        let topic = self.name.as_str();
        Schema::check(topic, &writer.schema, &reader.schema).map_err(|e| e.to_string())?;
        writer.qos.satisfies(&reader.qos, topic).map_err(|e| e.to_string())
    }

    /// Reports the result of a match to both ends.
    fn announce(&self, writer: &LocalEnd, reader: &LocalEnd) -> bool {
        match self.verdict(writer, reader) {
            Ok(()) => {
                writer.event(EndpointEvent::Matched { peer: reader.node.clone() });
                reader.event(EndpointEvent::Matched { peer: writer.node.clone() });
                true
            }
            Err(text) => {
                tracing::error!(publisher = writer.node, subscription = reader.node, "{text}");
                writer.event(EndpointEvent::Refused { text: text.clone() });
                reader.event(EndpointEvent::Refused { text });
                false
            }
        }
    }

    pub(super) fn add_writer(&self, writer: Writer) {
        let mut ends = self.ends();
        for r in &ends.readers {
            if self.announce(&writer.end, &r.end) {
                r.end.set_baseline(writer.end.id, 0, 0);
            }
        }
        ends.writers.push(writer);
        self.changed(ends);
    }

    /// Keeps a sample for later transient-local readers, at most `depth`, and returns the sample
    /// that it replaces. Called before delivery: a reader that joins in between gets the sample
    /// from the history or by delivery. If it gets both, it drops the second by its sequence
    /// number.
    pub(super) fn retain(
        &self,
        writer: &LocalEnd,
        sample: &Arc<LocalSample>,
        depth: usize,
    ) -> Option<Arc<LocalSample>> {
        let mut ends = self.ends();
        let w = ends.writers.iter_mut().find(|w| w.end.id == writer.id)?;
        let evicted = if w.retained.len() >= depth { w.retained.pop_front() } else { None };
        w.retained.push_back(sample.clone());
        evicted
    }

    /// Payload memory that a new reader's samples will take, in bytes, over all its writers.
    pub(crate) fn buffers_for(&self, reader: &LocalEnd, samples: usize) -> u64 {
        self.ends()
            .writers
            .iter()
            .filter(|w| self.verdict(&w.end, reader).is_ok())
            .map(|w| (w.end.buffer_len * samples) as u64)
            .sum()
    }

    /// Gives each writer as many buffers as the new reader can keep from it, so that no writer has
    /// to allocate for the reader. Not under the topic's lock: clearing the memory takes time.
    pub(crate) fn bring_buffers(&self, reader: &LocalEnd, samples: usize) {
        let writers: Vec<Arc<LocalEnd>> = self
            .ends()
            .writers
            .iter()
            .filter(|w| self.verdict(&w.end, reader).is_ok())
            .map(|w| w.end.clone())
            .collect();
        for writer in writers.iter().filter(|w| w.buffer_len > 0) {
            let buffers: Vec<AlignedBytes> =
                (0..samples).map(|_| AlignedBytes::zeroed(writer.buffer_len)).collect();
            writer.spare.lock().unwrap_or_else(PoisonError::into_inner).extend(buffers);
        }
    }

    pub(crate) fn add_reader(&self, end: Arc<LocalEnd>, queue: Arc<LocalQueue>, keeps: usize) {
        let mut ends = self.ends();
        let mut history: Vec<Arc<LocalSample>> = Vec::new();
        for w in &ends.writers {
            if !self.announce(&w.end, &end) {
                continue;
            }
            let mut before = w.end.published.load(Ordering::Acquire);
            let mut history_until = before;
            if end.qos.durability == Durability::TransientLocal {
                let late = w.retained.len().saturating_sub(end.qos.depth.max(1) as usize);
                let kept = w.retained.iter().skip(late);
                if let (Some(first), Some(last)) = (kept.clone().next(), w.retained.back()) {
                    // A sample that is being published and is not retained yet is delivered as any
                    // other.
                    (before, history_until) = (first.header.sequence - 1, last.header.sequence);
                } else if w.end.qos.durability == Durability::TransientLocal {
                    // The writer's first sample may be counted in `published` before it is
                    // retained. It is delivered as any other, too.
                    (before, history_until) = (0, 0);
                }
                history.extend(kept.cloned());
            }
            end.set_baseline(w.end.id, before, history_until);
        }
        history.sort_by_key(|s| s.header.publish_time);
        // Samples that do not fit are dropped and counted like any other.
        for sample in &history {
            queue.push(sample.clone(), None);
        }
        ends.readers.push(Arc::new(Reader { end, queue, keeps }));
        self.changed(ends);
        // Dropped here, not under the lock: the last handle of a value runs its destructor, which
        // may want the lock.
        drop(history);
    }

    pub(super) fn remove_writer(&self, writer: &LocalEnd) {
        let mut ends = self.ends();
        let gone: Vec<Writer> = ends.writers.extract_if(.., |w| w.end.id == writer.id).collect();
        for r in ends.readers.iter().filter(|r| self.verdict(writer, &r.end).is_ok()) {
            r.end.event(EndpointEvent::Unmatched { peer: writer.node.clone() });
            r.end.forget(writer.id, writer.published.load(Ordering::Acquire));
        }
        self.changed(ends);
        // Dropped with its retained samples, whose destructors may want the lock.
        drop(gone);
    }

    pub(crate) fn remove_reader(&self, reader: &LocalEnd) {
        let mut ends = self.ends();
        let gone: Vec<Arc<Reader>> =
            ends.readers.extract_if(.., |r| r.end.id == reader.id).collect();
        for w in ends.writers.iter().filter(|w| self.verdict(&w.end, reader).is_ok()) {
            w.end.event(EndpointEvent::Unmatched { peer: reader.node.clone() });
        }
        self.changed(ends);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_waits_for_no_thread_that_adds_an_event_or_a_writer() {
        let qos = Qos { deadline_ms: Some(10), ..Qos::default() };
        let end = LocalEnd::new(1, "n", Schema::bytes("a", "b", "c"), qos);
        end.event(EndpointEvent::Matched { peer: "x".into() });
        let adding = (end.events.lock(), end.baselines.lock());
        assert_eq!(end.poll_event(), None);
        assert_eq!(end.deadlines(MonotonicNs::now()), (0, None));
        drop(adding);
        assert_eq!(end.poll_event(), Some(EndpointEvent::Matched { peer: "x".into() }));
    }
}
