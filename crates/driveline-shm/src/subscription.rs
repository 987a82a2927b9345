// SPDX-License-Identifier: Apache-2.0
//! Reading end of a topic.
#![allow(unsafe_code, reason = "an entry of the held_samples is written while it is free")]

use crate::deadline::{DeadlineReports, DeadlinesMissed, InProcessPublisher};
use crate::error::TakeError;
use crate::event::{RefusalCode, SubscriptionEvent};
use crate::fairness::{Candidate, Passed, Turn};
use crate::info::{MatchedPublisher, TransportStats};
use crate::inlet::{Edge, Inlet, has_unread};
use crate::kick::Kicker;
use crate::limits::{MAX_FAILED_CHECKSUMS, MAX_SKIPS};
use crate::participant::Endpoint;
use crate::protocol::Segment as _;
use crate::protocol::pack::unpack;
use crate::protocol::reader::{self, Borrow, Want};
use crate::publication::add;
use crate::sample::{Copied, Sample};
use crate::sys::fork::Birthplace;
use driveline_types::{EndpointId, MonotonicNs};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::{Arc, Weak};
use twox_hash::XxHash3_64;

/// Reads samples of one topic from all matched publishers.
///
/// It can be moved between threads; use it from one at a time. Taking makes no system call, except
/// to wake a reliable publisher that waits for it; it takes no lock and does not allocate, except
/// once after publishers have joined or left.
pub struct Subscription {
    pub(crate) inlet: Arc<Inlet>,
    edges: Vec<Arc<Edge>>,
    held: Held,
    turn: Turn,
    generation: u64,
    deadline_reports: DeadlineReports,
    birthplace: Birthplace,
    /// Keeps the control thread running; notifies it when the subscription is dropped.
    _endpoint: Endpoint,
}

impl std::fmt::Debug for Subscription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("topic", &self.inlet.topic)
            .field("id", &self.inlet.id)
            .finish_non_exhaustive()
    }
}

/// Number of held samples, for the limit. Used by the consuming thread only.
#[derive(Default)]
struct Held {
    /// Upper bound of the number of held samples. A count makes it exact.
    at_most: u32,
    /// Publishers that left the list while one of their samples was held.
    departed: Vec<Weak<Edge>>,
    /// Number of held samples of the same topic that came from inside the process, not through this
    /// subscription.
    elsewhere: u32,
}

fn held_of(edge: &Edge) -> u32 {
    edge.cells().iter().filter(|c| c.load(Relaxed) != 0).count() as u32
}

impl Held {
    /// Notes publishers that are in `old` and not in `new`, if a sample of them is held. So the
    /// list is never longer than the number of held samples.
    fn depart(&mut self, old: &[Arc<Edge>], new: &[Arc<Edge>]) {
        self.departed.retain(|edge| edge.upgrade().is_some_and(|e| held_of(&e) != 0));
        let left = old.iter().filter(|o| !new.iter().any(|n| Arc::ptr_eq(o, n)));
        let held = left.filter(|o| held_of(o) != 0).map(Arc::downgrade);
        self.departed.extend(held);
    }

    fn count(&mut self, edges: &[Arc<Edge>]) -> u32 {
        let mut sum = edges.iter().map(|e| held_of(e)).sum::<u32>();
        self.departed.retain(|edge| {
            let held = edge.upgrade().map_or(0, |e| held_of(&e));
            sum = sum.saturating_add(held);
            held != 0
        });
        self.at_most = sum;
        sum
    }
}

enum Attempt {
    Taken(Sample),
    /// The publisher has no sample, or was too fast. Others may have one.
    Nothing,
    /// A sample was skipped, for example an expired one; there may be more.
    Skipped,
    /// A sample was skipped after its payload was read, for a wrong checksum.
    FailedChecksum,
}

impl Subscription {
    pub(crate) fn new(inlet: Arc<Inlet>, birthplace: Birthplace, endpoint: Endpoint) -> Self {
        let deadline_reports = DeadlineReports::default();
        Self {
            inlet,
            edges: Vec::new(),
            held: Held::default(),
            turn: Turn::default(),
            generation: u64::MAX,
            deadline_reports,
            birthplace,
            _endpoint: endpoint,
        }
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> EndpointId {
        self.inlet.id
    }

    /// The oldest unread sample over all matched publishers, by publish time. It stays valid while
    /// it is held.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take_next(&mut self) -> Result<Option<Sample>, TakeError> {
        self.take(Want::Next, None)
    }

    /// The newest unread sample over all matched publishers; the unread ones before it count as
    /// missed. It stays valid while it is held.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn take_latest(&mut self) -> Result<Option<Sample>, TakeError> {
        self.take(Want::Latest, None)
    }

    /// Like [`take_next`](Self::take_next), but copies into the caller's memory: one memcpy, and no
    /// sample is held afterwards.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn copy_next(&mut self, into: &mut [u8]) -> Result<Option<Copied>, TakeError> {
        self.copy(Want::Next, into)
    }

    /// Like [`take_latest`](Self::take_latest), but copies into the caller's memory: one memcpy,
    /// and no sample is held afterwards.
    ///
    /// # Errors
    /// See [`TakeError`].
    pub fn copy_latest(&mut self, into: &mut [u8]) -> Result<Option<Copied>, TakeError> {
        self.copy(Want::Latest, into)
    }

    fn copy(&mut self, want: Want, into: &mut [u8]) -> Result<Option<Copied>, TakeError> {
        let Some(sample) = self.take(want, Some(into.len()))? else { return Ok(None) };
        let payload = sample.payload();
        if let Some(target) = into.get_mut(..payload.len()) {
            target.copy_from_slice(payload);
        }
        crate::fault::point("copy.after_copy");
        Ok(Some(Copied {
            header: *sample.header(),
            missed: sample.missed(),
            publisher: sample.publisher(),
        }))
    }

    fn take(&mut self, want: Want, max_len: Option<usize>) -> Result<Option<Sample>, TakeError> {
        if !self.birthplace.is_here() {
            return Err(TakeError::Forked);
        }
        self.refresh();
        let mut passed = Passed::default();
        let mut failed_checksums = 0;
        for _ in 0..MAX_SKIPS {
            let Some(index) = self.choose(want, &passed) else {
                self.forget_drained();
                return Ok(None);
            };
            if !self.may_hold_another() {
                return Err(TakeError::AllHeld { max_held: self.inlet.max_held });
            }
            match self.attempt(&self.edges[index], want, max_len)? {
                Attempt::Taken(sample) => {
                    self.held.at_most = self.held.at_most.saturating_add(1);
                    if want == Want::Latest && self.edges.len() > 1 {
                        self.skip_older(index, sample.header().publish_time);
                    }
                    return Ok(Some(sample));
                }
                Attempt::Nothing => passed.add(index),
                Attempt::Skipped => {}
                Attempt::FailedChecksum => {
                    failed_checksums += 1;
                    if failed_checksums == MAX_FAILED_CHECKSUMS {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns true if fewer than `max_held` samples are held, of all publishers together. The
    /// exact count is made only when the upper bound `at_most`, which grows with each take, reaches
    /// the limit. With `held_of_each`, always returns true: the limit is then the number of the
    /// subscription's pin cells at each publisher.
    fn may_hold_another(&mut self) -> bool {
        if self.inlet.held_of_each {
            return true;
        }
        let room = self.inlet.max_held.saturating_sub(self.held.elsewhere);
        self.held.at_most < room
            || self.held.count(&self.edges) < room
            || self.inlet.release_watch.starve() && self.held.count(&self.edges) < room
    }

    /// Number of samples that are held now. A few atomic loads for each publisher.
    #[must_use]
    pub fn held(&mut self) -> u32 {
        if self.held.at_most == 0 { 0 } else { self.held.count(&self.edges) }
    }

    /// Sets the number of held samples of the same topic that came from inside the process, not
    /// through this subscription. They count towards `max_held`.
    pub fn set_held_elsewhere(&mut self, held: u32) {
        self.held.elsewhere = held;
    }

    /// Makes the next release of a sample kick the wait set, as after a take that failed with
    /// [`TakeError::AllHeld`].
    pub fn kick_at_next_release(&self) {
        let _ = self.inlet.release_watch.starve();
    }

    /// Returns the edge to read from next.
    fn choose(&mut self, want: Want, passed: &Passed) -> Option<usize> {
        let edges = &self.edges;
        if let [only] = edges.as_slice() {
            return (has_unread(only) && !passed.contains(0)).then_some(0);
        }
        let candidate = |i: usize| {
            let e = edges.get(i).filter(|e| has_unread(e))?;
            Some(Candidate { claimed_ns: peek_time(e, want), depth: e.depth })
        };
        self.turn.choose(want, passed, edges.len(), candidate, || MonotonicNs::now().0)
    }

    fn attempt(
        &self,
        edge: &Arc<Edge>,
        want: Want,
        max_len: Option<usize>,
    ) -> Result<Attempt, TakeError> {
        use crate::protocol::sleep::Sleeper as _;
        let counters = &edge.progress.counters;
        // Only this thread pins, so a free cell stays free until it is used; unpinning threads only
        // free more. Acquire pairs with the Release of the unpin: the previous user of the cell's
        // entry in the table has finished.
        let free = || edge.cells().iter().position(|c| c.load(Acquire) == 0);
        let Some(cell) =
            free().or_else(|| if self.inlet.release_watch.starve() { free() } else { None })
        else {
            return Err(TakeError::AllHeld { max_held: self.inlet.max_held });
        };
        let next = edge.next();
        // Does not count sample `to`: the code that calls this counts it under its reason. Samples
        // before it that were not read count as missed.
        let skip = |to: u64| {
            let passed = to.saturating_sub(next);
            add(&counters.missed, passed);
            add(&counters.passed_over, readable_before(edge, want, passed));
            add(&edge.progress.missed_pending, passed.saturating_add(1));
            edge.advance(to);
        };
        let (sequence, slot) =
            match reader::borrow(&edge.segment, &edge.cells()[cell], want, next, edge.depth) {
                Borrow::Nothing => return Ok(Attempt::Nothing),
                Borrow::Overrun => {
                    add(&counters.overruns, 1);
                    return Ok(Attempt::Nothing);
                }
                Borrow::Vanished { sequence } | Borrow::BadSlot { sequence } => {
                    add(&counters.corrupt_index, 1);
                    skip(sequence);
                    return Ok(Attempt::Skipped);
                }
                Borrow::Pinned { sequence, slot } => (sequence, slot),
            };
        // SAFETY: this is the consuming thread; the cell was seen cleared with Acquire above and is
        // pinned now.
        let read = unsafe {
            edge.held_samples.open(cell, |header| edge.segment.read_header(slot, sequence, header))
        };
        // From here on the sample's drop unpins.
        let mut sample = Sample::pinned(Arc::clone(edge), cell, slot, sequence);
        let too_long = sample.header().payload_len > edge.segment.layout.max_payload;
        if read.is_err() || too_long {
            add(if read.is_err() { &counters.corrupt_header } else { &counters.refused }, 1);
            drop(sample);
            skip(sequence);
            return Ok(Attempt::Skipped);
        }
        sample.set_len(sample.header().payload_len as usize);
        if let Some(lifespan) = edge.lifespan_ns
            && MonotonicNs::now().0.saturating_sub(sample.header().publish_time.0) > lifespan
        {
            add(&counters.expired, 1);
            drop(sample);
            skip(sequence);
            return Ok(Attempt::Skipped);
        }
        if edge.verify_checksum {
            // A matched publisher has promised checksums. A missing one is detected without reading
            // the payload.
            let dropped = match sample.header().checksum {
                None => Some((&counters.refused, Attempt::Skipped)),
                Some(sum) => {
                    let wrong = sum != XxHash3_64::oneshot(sample.payload());
                    wrong.then_some((&counters.corrupt_checksum, Attempt::FailedChecksum))
                }
            };
            if let Some((counter, attempt)) = dropped {
                add(counter, 1);
                drop(sample);
                skip(sequence);
                return Ok(attempt);
            }
        }
        let needed = sample.payload().len();
        if let Some(len) = max_len.filter(|len| *len < needed) {
            return Err(TakeError::BufferTooShort { needed, len });
        }
        let passed = sequence - next;
        let pending = edge.progress.missed_pending.load(Relaxed);
        let remote = sample.header().remote;
        // Samples of the same remote publisher may have been read before, through another gateway
        // process.
        let again = remote.filter(|r| r.publisher != 0 && edge.is_new_from_afar()).and_then(|r| {
            let (missing, left) = self.inlet.missing_from_afar(
                edge,
                &self.edges,
                r.publisher,
                r.lost.saturating_add(sequence),
            )?;
            Some((missing.saturating_sub(passed).saturating_sub(pending), left))
        });
        let since_the_match = edge.lost_on_the_way(remote.map(|r| r.lost));
        let (lost, left) = again.unwrap_or((since_the_match, 0));
        if lost != 0 {
            add(&counters.lost_on_the_way, lost);
        }
        if passed != 0 || pending != 0 {
            add(&counters.missed, passed);
            add(&counters.passed_over, readable_before(edge, want, passed));
            edge.progress.missed_pending.store(0, Relaxed);
        }
        sample.set_missed(pending.saturating_add(passed).saturating_add(lost).saturating_add(left));
        add(&counters.received, 1);
        edge.advance(sequence);
        Ok(Attempt::Taken(sample))
    }

    /// Counts the unread samples of each other publisher as missed, if even the newest of them is
    /// not newer than the sample that was taken from edge number `taken`.
    fn skip_older(&self, taken: usize, published: MonotonicNs) {
        use crate::protocol::sleep::Sleeper as _;
        if published > MonotonicNs::now() {
            // A time in the future does not show that other samples are older.
            return;
        }
        for (i, e) in self.edges.iter().enumerate() {
            let (newest, _) = reader::newest(&e.segment);
            if i != taken && newest >= e.next() && peek_time(e, Want::Latest) <= published.0 {
                let passed = newest + 1 - e.next();
                add(&e.progress.counters.missed, passed);
                add(&e.progress.counters.passed_over, passed.min(e.depth));
                add(&e.progress.missed_pending, passed);
                e.advance(newest);
            }
        }
    }

    /// Gives back a sample that the caller has skipped in favour of a newer one. The next sample of
    /// its publisher reports it as missed. The counters still count it as received.
    pub fn pass_over(&mut self, sample: Sample) {
        add(&sample.edge().progress.missed_pending, sample.missed().saturating_add(1));
    }

    /// Copies the present list of publishers if it has changed. Never blocks: while the control
    /// thread changes the list, the old one is used, and the next call checks again.
    fn refresh(&mut self) {
        let generation = self.inlet.generation();
        if generation != self.generation
            && let Some(edges) = self.inlet.try_edges()
        {
            self.held.depart(&self.edges, &edges);
            self.edges = edges;
            self.generation = generation;
        }
    }

    /// Drops edges of ended publishers that are read to the end.
    fn forget_drained(&mut self) {
        if self.edges.iter().any(|e| e.ended.load(Relaxed) && !has_unread(e)) {
            self.inlet.forget_ended(has_unread);
            self.refresh();
        }
    }

    /// Returns true if a sample can be taken. Costs a few atomic loads; right after a change of
    /// publishers, also a copy of their list.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        if !self.birthplace.is_here() {
            return false;
        }
        let changed =
            if self.inlet.generation() == self.generation { None } else { self.inlet.try_edges() };
        changed.as_ref().unwrap_or(&self.edges).iter().any(|e| has_unread(e))
    }

    /// Sets the kicker. Once a take has failed with [`TakeError::AllHeld`], the release of a held
    /// sample kicks it. Call this before the first take.
    pub fn kick_when_given_back(&self, kicker: Kicker) {
        self.inlet.release_watch.set_kicker(kicker);
    }

    /// Publishers matched now.
    #[must_use]
    pub fn matched(&self) -> usize {
        self.inlet.matched.load(Acquire) as usize
    }

    /// Returns true if a matched publisher is selected by `wanted`.
    #[must_use]
    pub fn has_publisher(&self, wanted: impl Fn(EndpointId) -> bool) -> bool {
        self.edges.iter().any(|e| !e.ended.load(Relaxed) && wanted(e.publisher))
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        if self.birthplace.is_here() { self.inlet.stats() } else { TransportStats::default() }
    }

    /// The oldest event that was not polled yet.
    pub fn poll_event(&mut self) -> Option<SubscriptionEvent> {
        if !self.birthplace.is_here() {
            return None;
        }
        self.inlet.events.pop(|count| SubscriptionEvent::Dropped { count }).or_else(|| {
            let now = MonotonicNs::now();
            let (total, _) = self.inlet.deadlines(now)?;
            let DeadlinesMissed { missed, total } = self.deadline_reports.next(total, now)?;
            Some(SubscriptionEvent::DeadlineMissed { missed, total })
        })
    }

    /// Returns the number of missed deadlines, and the time of the next possible one; `None`
    /// without a deadline. Holds a lock while it checks the publishers.
    #[must_use]
    pub fn deadlines(&self, now: MonotonicNs) -> Option<(u64, MonotonicNs)> {
        self.inlet.deadlines(now).filter(|_| self.birthplace.is_here())
    }

    /// Returns all matched publishers that are alive, even if events about them were dropped. Locks
    /// and allocates.
    #[must_use]
    pub fn publishers(&self) -> Vec<MatchedPublisher> {
        if self.birthplace.is_here() { self.inlet.publishers() } else { Vec::new() }
    }

    /// The same, for code that does not own the subscription.
    #[must_use]
    pub fn publishers_view(&self) -> Publishers {
        Publishers { inlet: Arc::clone(&self.inlet), birthplace: self.birthplace }
    }

    /// Ended publishers with unread samples. Locks and allocates.
    #[must_use]
    pub fn unread_of_gone(&self) -> Vec<EndpointId> {
        if !self.birthplace.is_here() {
            return Vec::new();
        }
        // Uses the present list: the copy in `self` may be from before the last change.
        self.inlet
            .edges()
            .iter()
            .filter(|e| e.ended.load(Relaxed) && has_unread(e))
            .map(|e| e.publisher)
            .collect()
    }

    /// Returns a function that returns, on any thread, the reasons why existing publishers are not
    /// matched: one text each. Locks and allocates.
    pub fn refusal_source(&self) -> impl Fn() -> Vec<String> + Send + Sync + 'static + use<> {
        let (inlet, birthplace) = (Arc::clone(&self.inlet), self.birthplace);
        move || {
            if birthplace.is_here() {
                crate::queue::lock(&inlet.refusals).values().map(|(_, text)| text.clone()).collect()
            } else {
                Vec::new()
            }
        }
    }
}

/// Publishers that a subscription is matched with, and its counters, for code that does not own it.
/// Callable on any thread.
#[derive(Clone, Debug)]
pub struct Publishers {
    inlet: Arc<Inlet>,
    birthplace: Birthplace,
}

impl Publishers {
    /// Counters of the subscription so far. Locks.
    #[must_use]
    pub fn stats(&self) -> TransportStats {
        if self.birthplace.is_here() { self.inlet.stats() } else { TransportStats::default() }
    }

    /// Returns the number of missed deadlines, and the time of the next possible one; `None`
    /// without a deadline. Holds a lock while it checks the publishers.
    #[must_use]
    pub fn deadlines(&self, now: MonotonicNs) -> Option<(u64, MonotonicNs)> {
        self.inlet.deadlines(now).filter(|_| self.birthplace.is_here())
    }

    /// Like [`Self::deadlines`] without blocking: `None` if another thread holds one of its locks.
    #[must_use]
    pub fn try_deadlines(&self, now: MonotonicNs) -> Option<Option<(u64, MonotonicNs)>> {
        if self.birthplace.is_here() { self.inlet.try_deadlines(now) } else { Some(None) }
    }

    /// Notes that a publisher in this process has matched, whose samples do not pass through shared
    /// memory: they meet the subscription's deadline as well. Locks and allocates.
    pub fn add_in_process(&self, publisher: Arc<InProcessPublisher>) {
        if self.birthplace.is_here() {
            self.inlet.add_in_process(publisher);
        }
    }

    /// Notes that this publisher has ended. Holds a lock while it checks the other publishers.
    pub fn end_in_process(&self, publisher: &Arc<InProcessPublisher>, now: MonotonicNs) {
        if self.birthplace.is_here() {
            self.inlet.end_in_process(publisher, now);
        }
    }

    /// All matched publishers that are alive. Locks and allocates.
    #[must_use]
    pub fn list(&self) -> Vec<MatchedPublisher> {
        if self.birthplace.is_here() { self.inlet.publishers() } else { Vec::new() }
    }

    /// Reason why an existing publisher can never be matched, if there is one: its type or its QoS.
    /// Other refusals do not count, such as temporary ones or those of users without rights. Locks.
    #[must_use]
    pub fn misfit(&self) -> Option<String> {
        if !self.birthplace.is_here() {
            return None;
        }
        let refusals = crate::queue::lock(&self.inlet.refusals);
        let misfit = refusals
            .values()
            .find(|(code, _)| matches!(code, RefusalCode::Type | RefusalCode::Qos));
        misfit.map(|(_, text)| text.clone())
    }

    /// A number that changes whenever publishers come or go. One atomic load.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.inlet.generation()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.inlet.closed.store(true, Relaxed);
    }
}

/// Returns how many of the `passed` samples could still be read. They precede the taken sample.
fn readable_before(edge: &Edge, want: Want, passed: u64) -> u64 {
    if want == Want::Latest { passed.min(edge.depth - 1) } else { 0 }
}

/// Unchecked publish time of the next sample of an edge, good enough to choose by.
fn peek_time(e: &Edge, want: Want) -> u64 {
    use crate::protocol::sleep::Sleeper as _;
    let (newest, newest_slot) = reader::newest(&e.segment);
    let slot = match want {
        Want::Latest => newest_slot,
        Want::Next => {
            let target = e.next().max((newest + 1).saturating_sub(e.depth));
            let word =
                e.segment.ring((target % e.segment.ring_len() as u64) as usize).load(Relaxed);
            unpack(word).1
        }
    };
    if slot < e.segment.slots() { e.segment.peek_publish_time(slot) } else { 0 }
}
