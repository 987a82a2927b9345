// SPDX-License-Identifier: Apache-2.0
//! State shared by a subscription, its samples, a wait set and the control thread.

use crate::afar::{self, KnownAfar};
use crate::config::{Access, OwnProcess, SchemaRequest};
use crate::deadline::{DeadlineWatch, Heard, InProcessPublisher, NewestSample};
use crate::event::{RefusalCode, SubscriptionEvent};
use crate::held_samples::HeldSamples;
use crate::info::{EdgeInfo, MatchedPublisher, SubscriptionInfo, TransportStats};
use crate::kick::KickWord;
use crate::layout::{CURSOR_AT, PAGE_LEN, PINS_AT, WAKE_LEN, armed_at};
use crate::limits::{MAX_ENDED, MAX_KNOWN_AFAR, MAX_LEFT_BYTES};
use crate::protocol::sleep::{self, Sleeper};
use crate::protocol::{Segment as _, cursor, reader};
use crate::queue::{EventQueue, lock, try_lock};
use crate::release_watch::ReleaseWatch;
use crate::segment::Segment;
use crate::sys::blocking_tasks::Foreign;
use crate::sys::descriptors::ForFirstMatch;
use crate::sys::fork::GuardedFd;
use crate::sys::futex::{self, Scope};
use crate::sys::mapping::Mapping;
use crate::sys::memfd;
use crate::wire::Accept;
use driveline_types::{
    Durability, EndpointId, MonotonicNs, NodeName, Qos, Reliability, Schema, TopicName,
};
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;

/// The subscription's page for one match.
#[derive(Debug)]
pub(crate) struct Page {
    map: Mapping,
    pins: usize,
}

impl Page {
    pub(crate) fn create(pins: usize) -> io::Result<(GuardedFd, Self)> {
        let (fd, map) = memfd::create("driveline-page", PAGE_LEN)?;
        Ok((fd, Self { map, pins }))
    }

    pub(crate) fn cells(&self) -> &[AtomicU32] {
        self.map.half_words(PINS_AT, self.pins)
    }
}

/// Counters of one edge; only the consuming thread writes them.
#[derive(Debug, Default)]
pub(crate) struct EdgeCounters {
    pub(crate) received: AtomicU64,
    pub(crate) missed: AtomicU64,
    pub(crate) passed_over: AtomicU64,
    pub(crate) lost_on_the_way: AtomicU64,
    pub(crate) overruns: AtomicU64,
    pub(crate) expired: AtomicU64,
    pub(crate) corrupt_header: AtomicU64,
    pub(crate) corrupt_checksum: AtomicU64,
    pub(crate) corrupt_index: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// One matched publisher.
///
/// While it exists its connection is open, so the publisher honours its pins. Samples and waiting
/// threads keep it alive.
#[derive(Debug)]
pub(crate) struct Edge {
    pub(crate) segment: Segment,
    page: Page,
    armed_at: usize,
    /// Samples held through the cells of the page.
    pub(crate) held_samples: HeldSamples,
    wake: Arc<Mapping>,
    /// Closing it notifies the publisher that this reader is gone (end of file).
    pub(crate) socket: Arc<Foreign>,
    pub(crate) publisher: EndpointId,
    pub(crate) node: NodeName,
    pub(crate) pid: u32,
    pub(crate) qos: Qos,
    /// The publisher's type, if the subscription accepts any type.
    pub(crate) schema: Option<Arc<Schema>>,
    /// Number of samples that reading may lag behind.
    pub(crate) depth: u64,
    /// True if the publisher waits for this reader.
    reliable: bool,
    pub(crate) lifespan_ns: Option<u64>,
    pub(crate) verify_checksum: bool,
    /// First sequence of the match.
    pub(crate) first: u64,
    /// Shared with the copy that replaces this edge when its publisher ends.
    pub(crate) progress: Arc<Progress>,
    /// The publisher is gone.
    pub(crate) ended: AtomicBool,
    /// Shared by all edges of the subscription.
    pub(crate) release_watch: Arc<ReleaseWatch>,
}

/// Reading position at one publisher, and counts of its samples.
#[derive(Debug)]
pub(crate) struct Progress {
    /// First sequence that was neither read nor skipped. The consuming thread writes it.
    next: AtomicU64,
    /// Missed samples that were not reported with a sample yet. Only for the consuming thread.
    pub(crate) missed_pending: AtomicU64,
    /// Number of samples lost on the way to this host, as its gateway reported with the last taken
    /// sample, plus one. 0: no report yet. Only for the consuming thread.
    pub(crate) lost_before: AtomicU64,
    /// Id of the publisher of another host whose samples a gateway publishes here; stored with the
    /// first of them. 0: none so far. Only for the consuming thread.
    pub(crate) afar: AtomicU64,
    /// Value of [`AfarCount::missing`](crate::afar_count::AfarCount::missing) when the match began,
    /// plus one. 0: no sample at that time, or not reported.
    pub(crate) joined: AtomicU64,
    pub(crate) counters: EdgeCounters,
    /// State in the [`DeadlineWatch`] of the subscription.
    pub(crate) heard: Heard,
}

impl Progress {
    /// `newest` is the number of the publisher's newest sample.
    fn starting_at(first: u64, newest: u64) -> Self {
        Self {
            heard: Heard::new(newest),
            next: AtomicU64::new(first),
            missed_pending: AtomicU64::new(0),
            lost_before: AtomicU64::new(0),
            afar: AtomicU64::new(0),
            joined: AtomicU64::new(0),
            counters: EdgeCounters::default(),
        }
    }
}

impl Edge {
    /// Maps and checks the segment and the wake word that a publisher has sent. The samples in the
    /// segment are not checked here.
    pub(crate) fn open(
        accept: &Accept,
        fds: [Foreign; 2],
        page: Page,
        socket: Foreign,
        asked: &Inlet,
    ) -> io::Result<Self> {
        let [mut segment, mut wake] = fds;
        let segment = Segment::open(&mut segment, accept.layout)?;
        let wake = memfd::open(&mut wake, WAKE_LEN)?;
        let reliable = asked.is_reliable() && accept.qos.reliability == Reliability::Reliable;
        let newest = reader::newest(&segment).0;
        let lifespan_ms =
            [accept.qos.lifespan_ms, asked.qos.lifespan_ms].into_iter().flatten().min();
        let edge = Self {
            segment,
            held_samples: HeldSamples::new(page.pins),
            page,
            armed_at: armed_at(accept.armed_apart),
            wake: Arc::new(wake),
            socket: Arc::new(socket),
            publisher: accept.publisher,
            node: accept.node.clone(),
            pid: accept.pid,
            depth: effective_depth(&accept.qos, &asked.qos, reliable),
            qos: accept.qos.clone(),
            schema: (asked.schema == SchemaRequest::Any).then(|| Arc::new(accept.schema.clone())),
            reliable,
            lifespan_ns: lifespan_ms.map(|ms| u64::from(ms) * 1_000_000),
            verify_checksum: asked.qos.checksum,
            first: accept.first,
            progress: Arc::new(Progress::starting_at(accept.first, newest)),
            ended: AtomicBool::new(false),
            release_watch: Arc::clone(&asked.release_watch),
        };
        edge.joins_afar();
        Ok(edge)
    }

    /// Makes an edge with the same progress over a copy of the samples that can still be read.
    /// After that, the segment of an ended publisher can be unmapped. Allocates shared memory for
    /// the copy.
    pub(crate) fn left_behind(&self) -> io::Result<Self> {
        let newest = crate::protocol::reader::newest(&self.segment).0;
        let (_page, page) = Page::create(self.page.pins)?;
        Ok(Self {
            // The newest sample is copied even if it was read: it names its publisher on another
            // host.
            segment: self
                .segment
                .copy_of_newest(newest, self.unread().readable.max(1).min(newest))?,
            held_samples: HeldSamples::new(page.pins),
            page,
            armed_at: self.armed_at,
            wake: Arc::clone(&self.wake),
            socket: Arc::clone(&self.socket),
            publisher: self.publisher,
            node: self.node.clone(),
            pid: self.pid,
            depth: self.depth,
            qos: self.qos.clone(),
            schema: self.schema.clone(),
            reliable: self.reliable,
            lifespan_ns: self.lifespan_ns,
            verify_checksum: self.verify_checksum,
            first: self.first,
            progress: Arc::clone(&self.progress),
            ended: AtomicBool::new(true),
            release_watch: Arc::clone(&self.release_watch),
        })
    }

    /// Sequence and publish time of the newest sample, both unchecked.
    pub(crate) fn newest_sample(&self) -> NewestSample<'_> {
        let (sequence, slot) = reader::newest(&self.segment);
        let written = sequence != 0 && slot < self.segment.slots();
        let published = if written { self.segment.peek_publish_time(slot) } else { 0 };
        let of = &self.progress.heard;
        NewestSample { of, sequence, published: MonotonicNs(published) }
    }

    pub(crate) fn cells(&self) -> &[AtomicU32] {
        self.page.cells()
    }

    pub(crate) fn page_is_here(&self) -> bool {
        self.page.map.is_here()
    }

    /// Notes that all samples up to `sequence` were read or given up.
    pub(crate) fn advance(&self, sequence: u64) {
        // Release: a waiting thread that sees the value also sees that the reading is done. Nothing
        // else depends on it.
        self.progress.next.store(sequence + 1, Release);
        let cursor = self.page.map.word(CURSOR_AT);
        if !self.reliable {
            cursor::store(cursor, sequence);
        } else {
            let wake = cursor::advance(cursor, self.segment.waiting(), sequence);
            if wake {
                let low = CURSOR_AT + if cfg!(target_endian = "little") { 0 } else { 4 };
                futex::wake(self.page.map.half_word(low), Scope::Shared, 1);
            }
        }
    }

    /// Counts the unread samples now. Callable on any thread.
    pub(crate) fn unread(&self) -> Unread {
        let next = self.next();
        let unread = (crate::protocol::reader::newest(&self.segment).0 + 1).saturating_sub(next);
        let readable = unread.min(self.depth);
        Unread { replaced: unread - readable, readable }
    }

    pub(crate) fn info(&self) -> EdgeInfo {
        EdgeInfo {
            publisher: self.publisher,
            node: self.node.to_string(),
            pid: self.pid,
            received: self.progress.counters.received.load(Relaxed),
            missed: self
                .progress
                .counters
                .missed
                .load(Relaxed)
                .saturating_add(self.unread().replaced),
            overruns: self.progress.counters.overruns.load(Relaxed),
        }
    }
}

/// Number of newest samples that a reader may still take. A reliable reader uses all that the
/// publisher keeps for it.
pub(crate) fn effective_depth(offered: &Qos, requested: &Qos, reliable: bool) -> u64 {
    u64::from(if reliable { offered.depth } else { offered.depth.min(requested.depth) }.max(1))
}

/// First sequence for a match that begins when `newest` is the publisher's newest.
pub(crate) fn first_sequence(newest: u64, offered: &Qos, requested: &Qos, reliable: bool) -> u64 {
    if offered.durability == Durability::TransientLocal
        && requested.durability == Durability::TransientLocal
    {
        (newest + 1).saturating_sub(effective_depth(offered, requested, reliable)).max(1)
    } else {
        newest + 1
    }
}

impl Sleeper for Edge {
    type Segment = Segment;
    #[inline]
    fn segment(&self) -> &Segment {
        &self.segment
    }
    #[inline]
    fn word(&self) -> &AtomicU32 {
        self.wake.half_word(0)
    }
    #[inline]
    fn armed(&self) -> &AtomicU64 {
        self.page.map.word(self.armed_at)
    }
    #[inline]
    fn next(&self) -> u64 {
        // Acquire pairs with the Release in `advance`, where a waiter runs on another thread than
        // the consumer.
        self.progress.next.load(Acquire)
    }
}

/// Shared state of a subscription; see the module.
#[derive(Debug)]
pub(crate) struct Inlet {
    pub(crate) id: EndpointId,
    pub(crate) topic: TopicName,
    pub(crate) node: NodeName,
    pub(crate) schema: SchemaRequest,
    pub(crate) qos: Qos,
    pub(crate) max_held: u32,
    pub(crate) held_of_each: bool,
    pub(crate) observer: bool,
    pub(crate) own_process: OwnProcess,
    pub(crate) access: Access,
    pub(crate) offering: Option<(Reliability, Durability)>,
    /// Number that changes when `edges` changes.
    generation: AtomicU64,
    edges: Mutex<Vec<Arc<Edge>>>,
    /// Kick word of the wait set that this subscription is attached to.
    pub(crate) kick: Mutex<Option<Arc<KickWord>>>,
    pub(crate) release_watch: Arc<ReleaseWatch>,
    pub(crate) events: EventQueue<SubscriptionEvent>,
    /// Reasons why publishers are not matched, by socket name; for tools.
    pub(crate) refusals: Mutex<BTreeMap<String, (RefusalCode, String)>>,
    pub(crate) matched: AtomicU64,
    /// Counter of missed deadlines, if a deadline is requested.
    pub(crate) deadline: Option<DeadlineWatch>,
    /// Sums over ended edges that are no longer in `edges`.
    gone: Mutex<TransportStats>,
    /// Publishers of other hosts whose edges have ended. Locked when edges are removed, when
    /// counters are read, and at the first sample of a remote publisher on an edge.
    afar: Mutex<KnownAfar>,
    /// True if it was reported that the oldest of them are forgotten.
    forgets_afar: AtomicBool,
    /// The subscription was dropped.
    pub(crate) closed: AtomicBool,
    /// Descriptors reserved while no publisher is matched. Changed together with the list of edges.
    first_match: ForFirstMatch,
}

impl Inlet {
    pub(crate) fn new(
        id: EndpointId,
        config: crate::config::SubscriptionConfig,
        first_match: ForFirstMatch,
    ) -> Self {
        let length = |ms: u32| Duration::from_millis(u64::from(ms));
        Self {
            id,
            deadline: config.qos.deadline_ms.map(|ms| DeadlineWatch::new(length(ms))),
            topic: config.topic,
            node: config.node,
            schema: config.schema,
            qos: config.qos,
            max_held: config.max_held,
            held_of_each: config.held_of_each,
            observer: config.observer,
            own_process: config.own_process,
            access: config.access,
            offering: config.offering,
            generation: AtomicU64::new(0),
            edges: Mutex::new(Vec::new()),
            kick: Mutex::new(None),
            release_watch: Arc::default(),
            events: EventQueue::new(),
            refusals: Mutex::new(BTreeMap::new()),
            matched: AtomicU64::new(0),
            gone: Mutex::new(TransportStats::default()),
            afar: Mutex::default(),
            forgets_afar: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            first_match,
        }
    }

    /// Returns true if reliable publishers wait for it. They never wait for tools.
    pub(crate) fn is_reliable(&self) -> bool {
        self.qos.reliability == Reliability::Reliable && !self.observer
    }

    #[inline]
    pub(crate) fn generation(&self) -> u64 {
        // Acquire pairs with the Release in `change`; the mutex orders the list itself.
        self.generation.load(Acquire)
    }

    pub(crate) fn edges(&self) -> Vec<Arc<Edge>> {
        lock(&self.edges).clone()
    }

    /// Returns the list, unless another thread changes it now.
    pub(crate) fn try_edges(&self) -> Option<Vec<Arc<Edge>>> {
        match self.edges.try_lock() {
            Ok(edges) => Some(edges.clone()),
            Err(TryLockError::Poisoned(edges)) => Some(edges.into_inner().clone()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Changes the list of edges and the number of matched publishers, on the control thread, and
    /// wakes the waiting thread.
    pub(crate) fn change(&self, f: impl FnOnce(&mut Vec<Arc<Edge>>)) {
        let live = self.change_locked(lock(&self.edges), f);
        // Stored after the unlock: a thread that sees the number gets the list without waiting.
        self.matched.store(live as u64, Release);
        self.notify();
    }

    /// Changes the list of edges, and returns the number of matched publishers.
    fn change_locked(
        &self,
        mut edges: MutexGuard<'_, Vec<Arc<Edge>>>,
        f: impl FnOnce(&mut Vec<Arc<Edge>>),
    ) -> usize {
        f(&mut edges);
        self.generation.fetch_add(1, Release);
        let live = edges.iter().filter(|e| !e.ended.load(Relaxed)).count();
        // Descriptors are reserved again before the connections of ended publishers are closed.
        self.first_match.keep_if(live == 0);
        live
    }

    /// Replaces the edge of an ended publisher by a copy of its unread samples, so that its segment
    /// can be unmapped as soon as no sample of it is held. Without memory for the copy the segment
    /// stays. Then drops the oldest ended publishers, with their unread samples, beyond
    /// [`MAX_ENDED`] publishers or [`MAX_LEFT_BYTES`]; the newest always stays.
    pub(crate) fn keep_unread_of_ended(&self, ended: &Arc<Edge>) {
        let copy = ended.left_behind().ok().map(Arc::new);
        self.change(|edges| {
            // The copy goes to the end of the list: ended edges are in the order in which they
            // ended.
            if let Some(at) = edges.iter().position(|e| Arc::ptr_eq(e, ended)) {
                let original = edges.remove(at);
                edges.push(copy.unwrap_or(original));
            }
            let (mut count, mut bytes) = (0, 0);
            for at in (0..edges.len()).rev() {
                let e = &edges[at];
                if !e.ended.load(Relaxed) {
                    continue;
                }
                bytes += e.segment.layout.len();
                count += 1;
                if count > MAX_ENDED || (count > 1 && bytes > MAX_LEFT_BYTES) {
                    self.settle(e);
                    edges.remove(at);
                }
            }
        });
    }

    /// Drops edges of ended publishers for which `keep` returns false.
    pub(crate) fn forget_ended(&self, mut keep: impl FnMut(&Edge) -> bool) {
        // The reading thread may have a higher priority than the thread that has the list, so it
        // does not wait.
        let Some(edges) = try_lock(&self.edges) else { return };
        // Only ended edges are removed, so the number of matched publishers stays.
        self.change_locked(edges, |edges| self.retain(edges, &mut keep));
        self.notify();
    }

    fn retain(&self, edges: &mut Vec<Arc<Edge>>, keep: &mut dyn FnMut(&Edge) -> bool) {
        edges.retain(|e| {
            let stays = !e.ended.load(Relaxed) || keep(e);
            if !stays {
                self.settle(e);
            }
            stays
        });
    }

    fn settle(&self, e: &Edge) {
        let mut gone = lock(&self.gone);
        let mut afar = lock(&self.afar);
        add_edge(&mut gone, e, |publisher| afar.furthest(publisher));
        // The unread samples of this edge can no longer be read.
        gone.missed = gone.missed.saturating_add(std::mem::take(&mut gone.not_read));
        drop(gone);
        let forgot = afar.settle(e);
        drop(afar);
        if forgot {
            self.report_forgotten();
        }
    }

    /// Losses of forgotten publishers cannot be counted any more. Reported once.
    fn report_forgotten(&self) {
        if !self.forgets_afar.swap(true, Relaxed) {
            let text = format!(
                "topic '{}': more than {MAX_KNOWN_AFAR} publishers of other hosts have ended; if \
                 the oldest of them come back, samples lost in between are not counted",
                self.topic
            );
            self.events.push(SubscriptionEvent::Refused { code: RefusalCode::Limit, text });
        }
    }

    /// Counts the missing samples of a remote publisher before the first sample that arrived
    /// through `new`. `number` is the number of this sample on its host. Returns two counts:
    /// samples lost on the way, and unread samples of ended edges, which are skipped and count as
    /// missed. `None`: no sample of the publisher was read before, through any gateway.
    pub(crate) fn missing_from_afar(
        &self,
        new: &Edge,
        edges: &[Arc<Edge>],
        publisher: u64,
        number: u64,
    ) -> Option<(u64, u64)> {
        new.progress.afar.store(publisher, Relaxed);
        let known = lock(&self.afar).furthest(publisher);
        let before = edges
            .iter()
            .position(|e| std::ptr::eq(&**e, new))
            .filter(|_| new.says_what_is_missing());
        let furthest = afar::furthest_elsewhere(
            new,
            before.map_or(edges, |at| &edges[..at]),
            publisher,
            known,
        )?;
        let left = afar::pass_over_left(new, edges, publisher, number);
        Some((number.saturating_sub(furthest).saturating_sub(1), left))
    }

    /// Ends a wait so that the executor checks events and edges.
    pub(crate) fn notify(&self) {
        if let Some(kick) = &*lock(&self.kick) {
            kick.kick();
        }
    }

    pub(crate) fn event(&self, event: SubscriptionEvent) {
        self.events.push(event);
        self.notify();
    }

    pub(crate) fn stats(&self) -> TransportStats {
        // Locks in the same order as the code that moves an edge from `edges` to `gone`.
        let edges = lock(&self.edges);
        let mut sum = lock(&self.gone).clone();
        let known = lock(&self.afar);
        for (at, e) in edges.iter().enumerate() {
            // Only earlier edges: the samples of a later edge say nothing about losses between an
            // earlier edge and this one.
            add_edge(&mut sum, e, |p| {
                afar::furthest_elsewhere(e, &edges[..at], p, known.furthest(p))
            });
        }
        (sum.uncounted, sum.uncounted_reason) = known.uncounted(&edges);
        drop(known);
        sum.deadlines_missed = self
            .deadline
            .as_ref()
            .map_or(0, |watch| watch.look(newest_samples(&edges), MonotonicNs::now()).0);
        drop(edges);
        sum.matched = self.matched.load(Acquire);
        sum
    }

    /// Returns the number of missed deadlines, and the time of the next possible one; `None`
    /// without a deadline. Locks.
    pub(crate) fn deadlines(&self, now: MonotonicNs) -> Option<(u64, MonotonicNs)> {
        let watch = self.deadline.as_ref()?;
        let edges = lock(&self.edges);
        Some(watch.look(newest_samples(&edges), now))
    }

    /// Like [`Self::deadlines`] without blocking: `None` if another thread holds one of its locks.
    pub(crate) fn try_deadlines(&self, now: MonotonicNs) -> Option<Option<(u64, MonotonicNs)>> {
        let Some(watch) = self.deadline.as_ref() else { return Some(None) };
        let edges = try_lock(&self.edges)?;
        watch.try_look(newest_samples(&edges), now).map(Some)
    }

    /// Notes that a publisher in this process has matched, whose samples do not pass through shared
    /// memory. Locks.
    pub(crate) fn add_in_process(&self, publisher: Arc<InProcessPublisher>) {
        if let Some(watch) = &self.deadline {
            watch.add_in_process(publisher);
        }
    }

    /// Notes that it has ended. Locks.
    pub(crate) fn end_in_process(&self, publisher: &Arc<InProcessPublisher>, now: MonotonicNs) {
        if let Some(watch) = &self.deadline {
            let edges = lock(&self.edges);
            watch.end_in_process(publisher, newest_samples(&edges), now);
        }
    }

    /// Publishers that are matched and alive.
    pub(crate) fn publishers(&self) -> Vec<MatchedPublisher> {
        let of = |e: &Arc<Edge>| MatchedPublisher {
            publisher: e.publisher,
            node: e.node.clone(),
            schema: e.schema.clone(),
            qos: e.qos.clone(),
            max_payload: e.segment.layout.max_payload,
        };
        lock(&self.edges).iter().filter(|e| !e.ended.load(Relaxed)).map(of).collect()
    }

    pub(crate) fn info(&self) -> SubscriptionInfo {
        SubscriptionInfo {
            id: self.id,
            topic: self.topic.to_string(),
            node: self.node.to_string(),
            schema: match &self.schema {
                SchemaRequest::Exact(s) => Some(s.clone()),
                SchemaRequest::Any => None,
            },
            qos: self.qos.clone(),
            max_held: self.max_held,
            observer: self.observer,
            stats: self.stats(),
            matches: lock(&self.edges)
                .iter()
                .filter(|e| !e.ended.load(Relaxed))
                .map(|e| e.info())
                .collect(),
            refusals: lock(&self.refusals).values().map(|(_, text)| text.clone()).collect(),
        }
    }
}

/// Adds an edge to a sum. `elsewhere`: number up to which earlier edges have counted the samples of
/// a publisher of another host.
fn add_edge(sum: &mut TransportStats, e: &Edge, elsewhere: impl FnOnce(u64) -> Option<u64>) {
    let c = &e.progress.counters;
    for (total, part) in [
        (&mut sum.received, &c.received),
        (&mut sum.missed, &c.missed),
        (&mut sum.passed_over, &c.passed_over),
        (&mut sum.lost_on_the_way, &c.lost_on_the_way),
        (&mut sum.overruns, &c.overruns),
        (&mut sum.expired, &c.expired),
        (&mut sum.corrupt_header, &c.corrupt_header),
        (&mut sum.corrupt_checksum, &c.corrupt_checksum),
        (&mut sum.corrupt_index, &c.corrupt_index),
        (&mut sum.refused, &c.refused),
    ] {
        *total = total.saturating_add(part.load(Relaxed));
    }
    let unread = e.unread();
    sum.missed = sum.missed.saturating_add(unread.replaced);
    sum.not_read = sum.not_read.saturating_add(unread.readable);
    sum.lost_on_the_way = sum.lost_on_the_way.saturating_add(e.lost_after(elsewhere));
}

fn newest_samples(edges: &[Arc<Edge>]) -> impl Iterator<Item = NewestSample<'_>> {
    edges.iter().map(|e| e.newest_sample())
}

/// Samples of one publisher that the consuming thread has neither taken nor skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unread {
    /// Samples that the history no longer covers.
    pub(crate) replaced: u64,
    /// Samples that can be taken now.
    pub(crate) readable: u64,
}

/// Returns true if an edge has unread samples.
#[inline]
pub(crate) fn has_unread(e: &Edge) -> bool {
    sleep::has_unread(e)
}
