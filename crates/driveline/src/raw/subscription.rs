// SPDX-License-Identifier: Apache-2.0
//! Receiving end of a topic.

use super::ownership::{Offer, Ownership};
use super::publisher::admit_memory;
use super::subscription_stats::SubscriptionStats;
use super::tally::{Contended, Counts, Inactive, Own};
use super::watch::{Notifier, Promise, subscription_event};
use super::{Matches, RawSample, Waker};
use crate::context::Context;
use crate::error::{EndpointError, ReceiveError, TakeError, WaitError};
use crate::event::EndpointEvent;
use crate::local::{HeldToken, LocalEnd, LocalReader};
use crate::options::{Reach, SubscriptionOptions, WaitMode};
use crate::scope;
use driveline_shm::{
    DeadlineReports, DeadlinesMissed, OwnProcess, SubscriptionConfig, WaitBackend, WaitSet, Wake,
};
use driveline_types::service::ShortId;
use driveline_types::{
    Durability, MonotonicNs, NodeName, PayloadKind, Reliability, Schema, TopicName,
};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of samples that one take skips because their publisher does not own the topic.
const MOST_PASSED: usize = 2048;
/// Time after which deadlines are checked again if another thread checks them now.
const DEADLINES_AGAIN: Duration = Duration::from_millis(1);
/// Silence after which a weaker publisher takes over if no deadline is requested, in milliseconds.
const NO_DEADLINE_MS: u64 = 1000;

/// Subscription of any payload kind. Use it from one thread at a time; its samples may outlive it.
///
/// Reading does not allocate, lock or make system calls, with four exceptions: after publishers
/// have joined or left; to wake a reliable publisher that waits for room; to clear the descriptor
/// of [`Self::fd`]; and to return an error.
pub struct RawSubscription {
    topic: TopicName,
    schema: Schema,
    local: Option<LocalReader>,
    host: Option<driveline_shm::Subscription>,
    /// The next sample of the host transport, kept while a sample of the local transport may be
    /// older.
    host_head: Option<driveline_shm::Sample>,
    /// True if `max_held` limits the held samples of each publisher of the host transport
    /// separately.
    held_of_each: bool,
    /// Number of samples that came out of a transport (`host_head`, or a sample of the owner) and
    /// were skipped because a newer sample was taken.
    heads_passed_over: u64,
    own_wait: Option<WaitSet>,
    notifier: Option<Notifier>,
    received: u64,
    /// True if only the newest sample is ever read.
    newest_only: bool,
    deadline_ms: Option<u32>,
    /// Total of missed deadlines, set when the count has ended.
    deadlines_end: Option<u64>,
    deadline_reports: DeadlineReports,
    /// Requested lease of publishers that assert their liveliness manually.
    lease: Option<Duration>,
    /// Publishers inside the process whose lease has run out.
    silent_writers: Vec<u64>,
    reliable: bool,
    transient_local: bool,
    inactive: Inactive,
    /// Set if only the strongest publisher is delivered.
    ownership: Option<Ownership>,
    /// True if the owner is a publisher inside the process that delivers by pointer.
    owner_is_local: bool,
    standby: u64,
    /// Counters, for threads that read them.
    counts: Counts,
    context: Context,
}

impl RawSubscription {
    pub(crate) fn new(
        context: &Context,
        node: &NodeName,
        topic: TopicName,
        schema: Schema,
        o: SubscriptionOptions,
    ) -> Result<Self, EndpointError> {
        let depth = o.qos.depth;
        Self::with_queue(context, node, topic, schema, o, depth, false)
    }

    /// Like [`Self::new`], for publishers that keep at most `qos.depth` unread samples. At most
    /// `depth` samples of all publishers that pass pointers together can wait. `held_of_each`: if
    /// true, `max_held` limits the held samples of each publisher of the host transport separately.
    pub(crate) fn with_queue(
        context: &Context,
        node: &NodeName,
        topic: TopicName,
        schema: Schema,
        o: SubscriptionOptions,
        depth: u32,
        held_of_each: bool,
    ) -> Result<Self, EndpointError> {
        let (deadline_ms, reliable) =
            (o.qos.deadline_ms, o.qos.reliability == Reliability::Reliable);
        let ownership = o.qos.strength.map(|_| {
            let ms = o.qos.deadline_ms.map_or(NO_DEADLINE_MS, u64::from);
            Ownership::new(Duration::from_millis(ms))
        });
        // The subscription must read (and count) samples of other publishers even if the user holds
        // `max_held` samples of the owner.
        let held_of_each = held_of_each || ownership.is_some();
        let transient_local = o.qos.durability == Durability::TransientLocal;
        let lease = o.qos.lease_ms.map(|ms| Duration::from_millis(u64::from(ms)));
        let (qos, of_one) = (o.qos.clone(), o.qos.depth);
        let host = match o.reach {
            Reach::Process => None,
            Reach::Host | Reach::Network => {
                // A message that moves as a pointer inside the process must not arrive a second
                // time as bytes.
                let own_process = if schema.kind == PayloadKind::Protobuf {
                    OwnProcess::Exclude
                } else {
                    OwnProcess::Include
                };
                let mut config =
                    SubscriptionConfig::new(topic.clone(), node.clone(), schema.clone());
                config.qos = o.qos;
                config.max_held = o.max_held;
                config.held_of_each = held_of_each;
                config.own_process = own_process;
                config.access = o.access;
                let made = context.participant().create_subscription(config);
                Some(made.map_err(|source| EndpointError::Subscription {
                    topic: topic.to_string(),
                    source,
                })?)
            }
        };
        // Publishers inside the process may have either reach, so the local end always exists. It
        // costs nothing while idle. Both transports use the same id, as for publishers.
        let id = host.as_ref().map_or_else(|| context.next_id(), |h| ShortId::from(h.id()).0);
        let mut end = LocalEnd::new(id, node.as_str(), schema.clone(), qos);
        if let Some(host) = &host {
            end = end.with_deadlines_at_host(host.publishers_view());
        }
        let end = Arc::new(end);
        let local_topic = context.topic(&topic);
        let admission =
            admit_memory(&topic, local_topic.buffers_for(&end, (of_one + o.max_held) as usize))?;
        let local = LocalReader::new(local_topic, end, depth, of_one, o.max_held);
        drop(admission);
        let counts = Counts {
            local: Some((local.end.clone(), local.queue.clone())),
            host: host.as_ref().map(driveline_shm::Subscription::publishers_view),
            deadline_ms,
            tally: Arc::default(),
        };
        let local = Some(local);
        Ok(Self {
            topic,
            schema,
            local,
            host,
            host_head: None,
            held_of_each,
            heads_passed_over: 0,
            own_wait: None,
            notifier: None,
            received: 0,
            newest_only: false,
            deadline_ms,
            deadlines_end: None,
            deadline_reports: DeadlineReports::default(),
            lease,
            silent_writers: Vec::new(),
            reliable,
            transient_local,
            inactive: Inactive::default(),
            ownership,
            owner_is_local: false,
            standby: 0,
            counts,
            context: context.clone(),
        })
    }

    /// The topic's name.
    #[must_use]
    pub fn topic(&self) -> &TopicName {
        &self.topic
    }

    /// Returns the id of this subscription for the clients of a service.
    pub(crate) fn short_id(&self) -> ShortId {
        ShortId(self.local.as_ref().map_or(0, |l| l.end.id))
    }

    /// Returns a view of its publishers, for code that does not own it.
    pub(crate) fn matches(&self) -> Matches {
        let local = self.local.as_ref().map(|l| (l.topic.clone(), l.end.clone()));
        Matches::new(local, self.host.as_ref().map(driveline_shm::Subscription::publishers_view))
    }

    /// The schema that the subscription expects.
    #[must_use]
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The newest unread sample, or `None`; older unread ones count as missed. Samples that the
    /// calling callback publishes later inherit its origins.
    ///
    /// # Errors
    /// [`TakeError`] if too many samples are held; the sample stays unread.
    pub fn latest(&mut self) -> Result<Option<RawSample>, TakeError> {
        let sample = self.next_sample(Order::Newest)?;
        if let Some(s) = &sample {
            scope::read(s.header());
        }
        Ok(sample)
    }

    /// The oldest unread sample, or `None`. Samples that the calling callback publishes later
    /// inherit its origins.
    ///
    /// # Errors
    /// [`TakeError`] if too many samples are held; the sample stays unread.
    pub fn take(&mut self) -> Result<Option<RawSample>, TakeError> {
        let sample = self.next_sample(Order::Oldest)?;
        if let Some(s) = &sample {
            scope::read(s.header());
        }
        Ok(sample)
    }

    /// Like [`Self::take`] and [`Self::latest`], for the executor, which does the lineage itself.
    pub(crate) fn next_sample(&mut self, order: Order) -> Result<Option<RawSample>, TakeError> {
        self.counts.tally.begin();
        let taken =
            if self.ownership.is_some() { self.pick_of_owner(order) } else { self.pick(order) };
        if matches!(taken, Ok(Some(_))) {
            self.received += 1;
        }
        self.publish_counts();
        if let Some(notifier) = &mut self.notifier {
            let more = self.host_head.is_some()
                || self.local.as_ref().is_some_and(LocalReader::has_unread)
                || self.host.as_ref().is_some_and(driveline_shm::Subscription::has_unread);
            if !more {
                notifier.rearm();
            }
        }
        taken
    }

    /// Publishes counters that only this thread knows, for other threads.
    #[inline]
    fn publish_counts(&self) {
        self.counts.tally.end(&self.own());
    }

    #[inline]
    fn own(&self) -> Own {
        Own {
            received: self.received,
            heads_passed_over: self.heads_passed_over,
            standby: self.standby,
            has_host_head: self.host_head.is_some(),
            newest_only: self.newest_only,
            inactive: self.inactive,
            deadlines_end: self.deadlines_end,
            local: self.local.as_ref().map(LocalReader::own).unwrap_or_default(),
        }
    }

    /// Its counters, for threads that do not own it.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.clone()
    }

    /// Like [`Self::pick`], for the publisher that owns the topic. Samples of others are counted.
    fn pick_of_owner(&mut self, order: Order) -> Result<Option<RawSample>, TakeError> {
        let mut newest: Option<RawSample> = None;
        // Samples that arrive during the loop wait for the next take.
        for _ in 0..MOST_PASSED {
            let taken = match self.pick(Order::Oldest) {
                // `newest` may occupy the last place that may be held: drop it and try again.
                Err(_) if newest.take().is_some() => {
                    self.heads_passed_over += 1;
                    self.pick(Order::Oldest)
                }
                taken => taken,
            };
            let Some(sample) = taken? else { break };
            if !self.is_of_owner(&sample) {
                self.standby += 1;
                continue;
            }
            if order == Order::Oldest {
                return Ok(Some(sample));
            }
            self.heads_passed_over += u64::from(newest.replace(sample).is_some());
        }
        Ok(newest)
    }

    fn is_of_owner(&mut self, sample: &RawSample) -> bool {
        let Some(ownership) = &mut self.ownership else { return true };
        let header = sample.header();
        let source =
            header.origins.as_slice().first().map_or(header.publish_time, |o| o.source_newest);
        let offer = Offer {
            publisher: sample.publisher().0,
            strength: sample.strength(),
            published: header.publish_time,
            source: source.signed(),
        };
        let (owner, host) = (ownership.owner(), &self.host);
        // Not checked for an owner inside the process: publishers there usually live as long as the
        // process, and so as long as this subscription.
        let gone = || {
            let is_owner = |id| Some(ShortId::from(id).0) == owner;
            !self.owner_is_local && host.as_ref().is_some_and(|h| !h.has_publisher(is_owner))
        };
        let publisher = offer.publisher;
        let admitted = ownership.admit(offer, gone);
        if ownership.owner() == Some(publisher) {
            self.owner_is_local = sample.is_local();
        }
        admitted
    }

    #[inline]
    fn pick(&mut self, order: Order) -> Result<Option<RawSample>, TakeError> {
        if self.host.is_some() && self.host_head.is_none() {
            let taken = self.take_host(order, 0)?;
            // The order of the checks matters. If one thread publishes first inside the process and
            // then to shared memory, and the second sample is seen here, the first is seen, too.
            if !self.local.as_ref().is_some_and(LocalReader::has_unread) {
                return Ok(taken.map(RawSample::host));
            }
            self.host_head = taken;
        }
        self.pick_of_both(order)
    }

    /// Takes a sample of the host transport. `spare`: number of samples from inside the process
    /// that are not counted as held, because the caller releases them in return.
    fn take_host(
        &mut self,
        order: Order,
        spare: u32,
    ) -> Result<Option<driveline_shm::Sample>, TakeError> {
        let Some(host) = &mut self.host else { return Ok(None) };
        let local = self.local.as_ref();
        let inside = || local.map_or(0, LocalReader::held).saturating_sub(spare);
        let mut take = |held| {
            host.set_held_elsewhere(held);
            match order {
                Order::Oldest => host.take_next(),
                Order::Newest => host.take_latest(),
            }
        };
        let held = inside();
        let mut taken = take(held);
        if matches!(taken, Err(driveline_shm::TakeError::AllHeld { .. })) && held != 0 {
            // A held sample from inside the process may be released first, so its release must
            // kick, too.
            local.into_iter().for_each(LocalReader::kick_at_next_release);
            taken = take(inside());
        }
        taken.map_err(|source| TakeError::Host { topic: self.topic.to_string(), source })
    }

    /// Reserves the right to hold one more sample from inside the process. The head of the host
    /// transport is not held yet.
    fn acquire(&mut self) -> Result<HeldToken, TakeError> {
        let head = u32::from(self.host_head.is_some());
        let limit = |held| TakeError::HeldLimit { topic: self.topic.to_string(), held };
        let Some(local) = &mut self.local else { return Err(limit(0)) };
        let Some(host) = &mut self.host else { return local.acquire(0).map_err(limit) };
        let held = if self.held_of_each { 0 } else { host.held().saturating_sub(head) };
        local
            .acquire(held)
            .or_else(|refused| {
                if held == 0 {
                    return Err(refused);
                }
                host.kick_at_next_release();
                local.acquire(host.held().saturating_sub(head))
            })
            .map_err(limit)
    }

    /// Takes the next sample when samples may wait in both transports.
    #[inline(never)]
    fn pick_of_both(&mut self, order: Order) -> Result<Option<RawSample>, TakeError> {
        if self.host_head.is_none() && !self.local.as_ref().is_some_and(LocalReader::has_unread) {
            return Ok(None);
        }
        // Done first: otherwise older samples could be skipped for the newest, although it then
        // cannot be taken because too many samples are held.
        let token = self.acquire()?;
        if order == Order::Newest {
            if let Some(local) = self.local.as_mut().filter(|l| l.has_unread()) {
                local.skip_to_newest();
            }
            if let (Some(host), Some(_)) = (&mut self.host, &self.host_head)
                && host.has_unread()
            {
                // The head is released first: it may occupy the last place that may be held.
                if let Some(old) = self.host_head.take() {
                    self.heads_passed_over += 1;
                    host.pass_over(old);
                }
                self.host_head = self.take_host(Order::Newest, 1)?;
            }
        }
        // `has_unread` is cheaper than `peek`: a pop from an empty queue ends in a full fence.
        let local_time = self
            .local
            .as_mut()
            .filter(|l| l.has_unread())
            .and_then(LocalReader::peek)
            .map(|s| s.header.publish_time);
        let host_time = self.host_head.as_ref().map(|s| s.header().publish_time);
        let host_first = match (local_time, host_time) {
            (None, None) => return Ok(None),
            (Some(_), None) => false,
            (None, Some(_)) => true,
            (Some(l), Some(h)) if order == Order::Newest => {
                let host_wins = h > l;
                // The sample that lost is older than the returned one, and is skipped like any
                // other.
                if let (true, Some(local)) = (host_wins, &mut self.local) {
                    local.pass_over();
                } else if let (Some(host), Some(old)) =
                    (&mut self.host, self.host_head.take_if(|_| !host_wins))
                {
                    self.heads_passed_over += 1;
                    host.pass_over(old);
                }
                host_wins
            }
            (Some(l), Some(h)) => h < l,
        };
        if host_first {
            return Ok(self.host_head.take().map(RawSample::host));
        }
        let Some(local) = &mut self.local else { return Ok(None) };
        Ok(local.take().map(|(sample, missed)| RawSample::local(sample, missed, token)))
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.reliable
    }

    pub(crate) fn is_transient_local(&self) -> bool {
        self.transient_local
    }

    /// From now on, taken and replaced samples count as inactive.
    pub(crate) fn set_inactive(&mut self) {
        if self.inactive.since.is_none() {
            self.inactive.since = Some(self.counts.taken(&self.own()));
            self.publish_counts();
        }
    }

    /// From now on, samples count as before. `kept`: a sample that was taken in this time of
    /// inactivity is delivered after all.
    pub(crate) fn set_active(&mut self, kept: bool) {
        let taken = self.counts.taken(&self.own());
        self.inactive.end(taken);
        if kept {
            self.inactive.received = self.inactive.received.saturating_sub(1);
        }
        self.publish_counts();
    }

    /// Declares that only the newest sample is ever read. Samples that it replaces count as
    /// superseded, not as missed.
    pub(crate) fn read_newest_only(&mut self) {
        self.newest_only = true;
        self.publish_counts();
    }

    /// Returns true if a sample is unread. Only a read detects that it has expired.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        self.host_head.is_some()
            || self.local.as_ref().is_some_and(LocalReader::has_unread)
            || self.host.as_ref().is_some_and(driveline_shm::Subscription::has_unread)
    }

    /// Waits until a sample is readable, and takes the newest. `None` if the time-out passes first.
    /// A sample that has expired, or cannot be taken for another counted reason, does not end the
    /// wait. Without a time-out, it waits for ever. Samples that the calling callback publishes
    /// later inherit the sample's origins.
    ///
    /// # Errors
    /// [`ReceiveError`] as [`Self::wait`] and [`Self::latest`].
    pub fn receive(
        &mut self,
        timeout: Option<Duration>,
        mode: WaitMode,
    ) -> Result<Option<RawSample>, ReceiveError> {
        let deadline = timeout.map(|t| MonotonicNs::real_now() + t);
        loop {
            let left = deadline.map(|d| d.since(MonotonicNs::real_now()));
            if !self.wait(left, mode)? {
                return Ok(None);
            }
            if let Some(sample) = self.latest()? {
                return Ok(Some(sample));
            }
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
        }
    }

    /// Waits until a sample is unread (`true`) or the time-out has passed (`false`). Without a
    /// time-out, it waits for ever. A sample that has expired meanwhile ends the wait as well, and
    /// the next read returns `None`. [`Self::receive`] continues to wait in this case.
    ///
    /// # Errors
    /// [`WaitError`] if the kernel refuses a resource for waiting.
    pub fn wait(&mut self, timeout: Option<Duration>, mode: WaitMode) -> Result<bool, WaitError> {
        // Done before the first check: a sample that arrives in between would wake no thread.
        if self.own_wait.is_none() && self.notifier.is_none() {
            let mut set = WaitSet::new(WaitBackend::Auto)?;
            self.attach(&mut set)?;
            self.own_wait = Some(set);
        }
        // Reading the clock costs more than checking for a sample.
        if self.has_unread() {
            return Ok(true);
        }
        if timeout == Some(Duration::ZERO) {
            return Ok(false);
        }
        let deadline = timeout.map(|t| MonotonicNs::real_now() + t);
        if self.notifier.is_some() {
            return self.wait_for_fd(deadline, mode);
        }
        loop {
            let wake = self
                .own_wait
                .as_mut()
                .map_or(Wake::TimedOut, |set| set.wait(deadline, mode.spin()));
            // The set detects samples of other processes, and is kicked for samples from inside
            // this one.
            if wake == Wake::Data || self.has_unread() {
                return Ok(true);
            }
            // The clock is checked as well: frequent kicks must not extend the wait.
            if wake == Wake::TimedOut || deadline.is_some_and(|d| MonotonicNs::real_now() >= d) {
                return Ok(false);
            }
        }
    }

    /// Waits on the descriptor of [`Self::fd`], once that was requested.
    fn wait_for_fd(
        &mut self,
        deadline: Option<MonotonicNs>,
        mode: WaitMode,
    ) -> Result<bool, WaitError> {
        let spin_until = (!mode.spin().is_zero()).then(|| MonotonicNs::real_now() + mode.spin());
        loop {
            if self.has_unread() {
                return Ok(true);
            }
            let now = MonotonicNs::real_now();
            if deadline.is_some_and(|d| now >= d) {
                return Ok(false);
            }
            if spin_until.is_some_and(|u| now < u) {
                std::hint::spin_loop();
                continue;
            }
            let Some(notifier) = &mut self.notifier else { return Ok(false) };
            notifier.rearm();
            notifier.sleep(deadline.map(|d| d.since(now)))?;
        }
    }

    /// Makes a wait set wake for this subscription. For samples inside the process, only the last
    /// set counts.
    pub(crate) fn attach(&mut self, set: &mut WaitSet) -> Result<(), WaitError> {
        // A subscription can be in only one wait set. These two have one each.
        self.own_wait = None;
        self.notifier = None;
        if let Some(local) = &self.local {
            local.queue.set_waker(Some(Waker(set.kicker())));
            local.end.kick_on_event(set.kicker());
        }
        if let Some(host) = &self.host {
            set.attach(host)?;
        }
        Ok(())
    }

    /// After a take that failed because too many samples are held, the set's wait ends when one is
    /// released.
    pub(crate) fn watch_room(&self, set: &WaitSet) {
        if let Some(local) = &self.local {
            local.kick_when_given_back(set.kicker());
        }
        if let Some(host) = &self.host {
            host.kick_when_given_back(set.kicker());
        }
    }

    /// Excludes this subscription from the set's waits, or includes it again. Kicks from inside the
    /// process continue; they are harmless.
    pub(crate) fn mute(&self, set: &mut WaitSet, muted: bool) {
        if let Some(host) = &self.host {
            set.set_muted(host, muted);
        }
    }

    /// Returns a descriptor that is readable while samples may be unread, for `poll`, `epoll` and
    /// similar calls. Read samples until there is none; do not read from the descriptor. It costs
    /// one helper thread, which sleeps. The descriptor stays the same and open as long as the
    /// subscription exists.
    ///
    /// # Errors
    /// [`WaitError`] if the kernel refuses a thread or a descriptor.
    pub fn fd(&mut self) -> Result<BorrowedFd<'_>, WaitError> {
        let notifier = match self.notifier.take() {
            Some(n) => n,
            None => {
                let mut set = WaitSet::new(WaitBackend::Auto)?;
                self.attach(&mut set)?;
                Notifier::start(set, self.local.as_ref().map(|l| l.queue.clone()))?
            }
        };
        Ok(self.notifier.insert(notifier).fd())
    }

    /// Number of publishers that are matched now.
    #[must_use]
    pub fn matched(&self) -> usize {
        self.local.as_ref().map_or(0, LocalReader::matched)
            + self.host.as_ref().map_or(0, driveline_shm::Subscription::matched)
    }

    /// Returns true if silence of publishers is an event.
    pub(crate) fn has_deadline(&self) -> bool {
        self.deadline_ms.is_some() || self.lease.is_some()
    }

    /// Returns when silence of a publisher becomes an event that can be polled. Does not wait for
    /// another thread, except for the topic's lock if a lease is requested.
    pub(crate) fn silence_deadline(&self) -> Option<MonotonicNs> {
        let now = MonotonicNs::now();
        let deadline = match self.counts.try_deadlines(&self.own(), now) {
            Ok(found) => found.map(|(total, next)| self.deadline_reports.due(total, next)),
            Err(Contended) => Some(now + DEADLINES_AGAIN),
        };
        self.next_lease_look().into_iter().chain(deadline).min()
    }

    /// Ends the count of missed deadlines, at the end of a run.
    pub(crate) fn end_deadlines(&mut self) {
        let total = self.counts.deadlines(&self.own(), MonotonicNs::now());
        self.deadlines_end = total.map(|(total, _)| total);
        self.publish_counts();
    }

    fn missed_deadlines(&mut self) -> Option<EndpointEvent> {
        let now = MonotonicNs::now();
        let (total, _) = self.counts.try_deadlines(&self.own(), now).ok().flatten()?;
        let DeadlinesMissed { missed, total } = self.deadline_reports.next(total, now)?;
        Some(self.promise().requested(missed, total))
    }

    fn promise(&self) -> Promise {
        Promise { topic: self.topic.clone(), deadline_ms: self.deadline_ms, max_blocking_ms: 0 }
    }

    /// Returns the time of the next check of leases inside the process. The return of a lost
    /// publisher is detected within a quarter of the lease.
    fn next_lease_look(&self) -> Option<MonotonicNs> {
        let (lease, local) = (self.lease?, self.local.as_ref()?);
        let next = |w: &Arc<LocalEnd>| {
            if self.silent_writers.contains(&w.id) {
                MonotonicNs::now() + lease / 4
            } else {
                w.last_alive() + lease
            }
        };
        local.manual_writers().iter().map(next).min()
    }

    fn look_at_leases(&mut self) -> Option<EndpointEvent> {
        let (lease, local) = (self.lease?, self.local.as_ref()?);
        let writers = local.manual_writers();
        self.silent_writers.retain(|id| writers.iter().any(|w| w.id == *id));
        let now = MonotonicNs::now();
        for w in writers {
            let known = self.silent_writers.iter().position(|id| *id == w.id);
            match (now.since(w.last_alive()) > lease, known) {
                (true, None) => {
                    self.silent_writers.push(w.id);
                    return Some(EndpointEvent::LivelinessLost { peer: w.node.clone() });
                }
                (false, Some(i)) => {
                    self.silent_writers.swap_remove(i);
                    return Some(EndpointEvent::LivelinessGained { peer: w.node.clone() });
                }
                _ => {}
            }
        }
        None
    }

    /// The next event, if any.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        if let Some(e) = self.local.as_ref().and_then(|l| l.end.poll_event()) {
            return Some(e);
        }
        while let Some(e) = self.host.as_mut().and_then(driveline_shm::Subscription::poll_event) {
            // Missed deadlines are counted below, together with those inside the process.
            if !matches!(e, driveline_shm::SubscriptionEvent::DeadlineMissed { .. }) {
                return Some(subscription_event(e, &self.promise()));
            }
        }
        self.look_at_leases().or_else(|| self.missed_deadlines())
    }

    /// Counters since creation. At host reach it holds a lock while it copies the list of
    /// publishers.
    #[must_use]
    pub fn stats(&self) -> SubscriptionStats {
        self.counts.stats(&self.own())
    }

    /// Counters of the host transport, at host reach.
    #[must_use]
    pub fn host_stats(&self) -> Option<driveline_shm::TransportStats> {
        self.host.as_ref().map(driveline_shm::Subscription::stats)
    }

    /// The context that the subscription belongs to.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }
}

/// Order of taking unread samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Oldest,
    Newest,
}
