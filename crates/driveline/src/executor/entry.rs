// SPDX-License-Identifier: Apache-2.0
//! One callback or timer in an executor.

use super::attention::Attention;
use super::events::{EventSender, Inbox};
use super::group::CallbackGroup;
use super::lifecycle::Lifecycle;
use super::record::{CallbackRecord, InputRecord, Observer};
use super::statistics::{CallbackStats, InputStats, PendingWork, TimerTick};
use crate::event::{EndpointEvent, EventLines, Severity};
use crate::raw::{Counts, DeadlineCounter, RawSample};
use crate::scope;
use crate::trigger::{
    Fresh, InputPort, InputStall, Polled, Samples, Skips, Trigger, TriggerState, count, is_stale,
};
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, TopicId, TopicName};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// Period at which the samples of an inactive component are taken, if one of its inputs is reliable
/// and does not wake the executor: the publishers of this input would wait.
pub(super) const DRAIN_AGAIN: Duration = Duration::from_millis(20);
/// No deadline.
const NEVER: u64 = u64::MAX;

/// Arguments of a callback. Lives for one call, on one thread.
pub struct Invocation<'a> {
    entry: &'a Entry,
    samples: &'a [Option<RawSample>],
    trigger: Option<usize>,
    fresh: Fresh,
    start: MonotonicNs,
    tick: Option<TimerTick>,
    failed: Cell<bool>,
    read: RefCell<SmallVec<[(usize, RawSample, bool); 6]>>,
}

impl Invocation<'_> {
    /// Name of the callback.
    #[must_use]
    pub fn callback(&self) -> &str {
        &self.entry.name
    }

    /// Returns the start of the call.
    #[must_use]
    pub fn start(&self) -> MonotonicNs {
        self.start
    }

    /// Index of the input that triggered the call, if one did.
    #[must_use]
    pub fn trigger(&self) -> Option<usize> {
        self.trigger
    }

    /// The tick, if a timer made the call.
    #[must_use]
    pub fn tick(&self) -> Option<TimerTick> {
        self.tick
    }

    /// The sample that the trigger chose for an input.
    #[must_use]
    pub fn sample(&self, input: usize) -> Option<&RawSample> {
        self.samples.get(input).and_then(Option::as_ref)
    }

    /// Returns the sample that the trigger chose, or else the newest sample of an input, read now.
    /// An earlier call may have received it as well. Exception: under the trigger `any`, a sample
    /// that started a call belongs to that call alone; hold it if it is needed later. `None` in
    /// three cases: there is no such sample; it is older than the trigger's `max_age` (counted as
    /// stale); or the callback holds too many samples to read it (counted as `held_limit`).
    #[must_use]
    pub fn read(&self, input: usize) -> Option<RawSample> {
        if let Some(chosen) = self.sample(input) {
            return Some(chosen.clone());
        }
        if let Some((_, sample, _)) = self.read.borrow().iter().find(|(i, _, _)| *i == input) {
            return Some(sample.clone());
        }
        let (newest, fresh) = {
            let mut state = self.entry.state();
            let port = state.ports.get_mut(input)?;
            let fresh = port.refresh(&self.entry.skips);
            let newest = port.newest.clone();
            self.entry.note_stalls(&state.ports);
            (newest, fresh)
        };
        let newest = newest.filter(|s| {
            let stale = is_stale(s, self.entry.max_age);
            if stale {
                count(&self.entry.skips.stale);
            }
            !stale
        });
        if let Some(sample) = &newest {
            scope::read(sample.header());
            self.read.borrow_mut().push((input, sample.clone(), fresh));
        }
        newest
    }

    /// Marks the call as failed: counted, and visible in its record.
    pub fn fail(&self) {
        self.failed.set(true);
    }
}

pub(super) struct State {
    pub(super) ports: Vec<InputPort>,
    trigger: TriggerState,
    timer: Option<Clock>,
}

struct Clock {
    period: Duration,
    /// Time from the start to the first tick.
    first: Duration,
    next: MonotonicNs,
    ended: bool,
    drain: Drain,
    /// Number of calls that had produced data for the timer ([`Entry::fed`]) at its last tick.
    fed: u64,
}

/// Remaining ticks of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drain {
    /// All ticks: the run continues.
    No,
    /// One more tick, and then only ticks with new data.
    LastTick,
    /// Only ticks with new data. `came`: number of samples that had arrived at the last tick.
    OnlyFresh { came: u64 },
}

type Callback = Box<dyn Fn(&Invocation<'_>) + Send + Sync>;

pub(super) struct Entry {
    pub(super) name: Arc<str>,
    pub(super) group: CallbackGroup,
    callback: Callback,
    attention: Option<Arc<dyn Attention>>,
    /// Events for a callback that handles them.
    inbox: Option<Arc<Inbox>>,
    /// Lifecycle of the component, for the callback that makes its transitions.
    transitions: Option<Lifecycle>,
    /// Activity of the component, if it can be inactive.
    lifecycle: OnceLock<Lifecycle>,
    /// Destination of events of its inputs.
    events: OnceLock<EventSender>,
    state: Mutex<State>,
    topics: Vec<TopicId>,
    max_age: Option<Duration>,
    input_names: Vec<String>,
    /// Counters by input. Read without the lock of `state`: a thread that reads counters may have a
    /// lower priority than the executor, which must not wait for it.
    counts: Vec<(TopicName, Counts)>,
    /// An input has a deadline or a lease.
    watches_silence: bool,
    /// An input does not wake the executor, and its publishers wait until its samples are taken.
    drains_by_time: bool,
    /// Limits of log lines about events, by input.
    event_lines: Mutex<Vec<EventLines>>,
    /// Time of the next check even without a sample, in nanoseconds.
    deadline: AtomicU64,
    /// Inputs, as bits, that wait until one of their samples is released. The release kicks.
    limited: AtomicU16,
    /// Time to report a stall of an input, in nanoseconds.
    stall_at: AtomicU64,
    /// Inputs, as bits, that do not wake the executor now.
    pub(super) muted: AtomicU16,
    /// The callback whose calls produce data for this timer, if the timer has no inputs.
    fed_by: OnceLock<Weak<Entry>>,
    skips: Skips,
    /// Calls that were claimed and have not ended.
    running: AtomicU32,
    invocations: AtomicU64,
    failed: AtomicU64,
    overruns: AtomicU64,
}

/// A due call. Its group was entered for this call.
pub(super) struct Job<'a> {
    entry: &'a Entry,
    samples: Samples,
    trigger: Option<usize>,
    fresh: Fresh,
    tick: Option<TimerTick>,
}

impl Entry {
    pub(super) fn new(
        name: &str,
        group: CallbackGroup,
        trigger: Trigger,
        mut ports: Vec<InputPort>,
        callback: Callback,
        attention: Option<Arc<dyn Attention>>,
    ) -> Result<Self, String> {
        let timer = match &trigger {
            Trigger::Timer { period, .. } => Some(Clock {
                period: *period,
                first: *period,
                next: MonotonicNs(NEVER),
                ended: false,
                drain: Drain::No,
                fed: 0,
            }),
            _ => None,
        };
        let topics = ports.iter().map(|p| p.subscription.topic().id()).collect();
        let input_names: Vec<String> = ports.iter().map(|p| p.name.clone()).collect();
        let watches_silence = ports.iter().any(|p| p.subscription.has_deadline());
        let max_age = trigger.max_age();
        let trigger = TriggerState::new(trigger, ports.len())?;
        for (i, port) in ports.iter_mut().enumerate() {
            port.triggers = trigger.wakes(i);
            if !port.triggers {
                port.subscription.read_newest_only();
            }
        }
        let counts = |p: &InputPort| (p.subscription.topic().clone(), p.subscription.counts());
        let counts = ports.iter().map(counts).collect();
        let drains_by_time = ports.iter().any(|p| !p.triggers && p.subscription.is_reliable());
        Ok(Self {
            name: name.into(),
            group,
            callback,
            attention,
            inbox: None,
            transitions: None,
            lifecycle: OnceLock::new(),
            events: OnceLock::new(),
            state: Mutex::new(State { ports, trigger, timer }),
            topics,
            max_age,
            event_lines: Mutex::new(vec![EventLines::default(); input_names.len()]),
            input_names,
            counts,
            watches_silence,
            drains_by_time,
            deadline: AtomicU64::new(NEVER),
            limited: AtomicU16::new(0),
            stall_at: AtomicU64::new(NEVER),
            muted: AtomicU16::new(0),
            fed_by: OnceLock::new(),
            skips: Skips::default(),
            running: AtomicU32::new(0),
            invocations: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            overruns: AtomicU64::new(0),
        })
    }

    pub(super) fn with_inbox(self, inbox: Arc<Inbox>) -> Self {
        Self { inbox: Some(inbox), ..self }
    }

    pub(super) fn with_transitions(self, of: Lifecycle) -> Self {
        Self { transitions: Some(of), ..self }
    }

    /// Makes the callback run only while the component is active. Call it before the start.
    pub(super) fn follow(self: &Arc<Self>, lifecycle: &Lifecycle) {
        if self.lifecycle.set(lifecycle.clone()).is_ok() {
            lifecycle.add_follower(self);
            self.state().ports.iter_mut().for_each(|p| p.subscription.set_inactive());
        }
    }

    fn is_inactive(&self) -> bool {
        self.lifecycle.get().is_some_and(|l| !l.runs())
    }

    /// Takes all samples that arrive while the component is inactive, and stops its timer.
    fn discard(&self) {
        if let Some(inbox) = &self.inbox {
            return inbox.clear();
        }
        let mut state = self.state();
        // A transition may have ended since. Then the samples belong to the callback.
        if !self.is_inactive() {
            return;
        }
        self.discard_locked(&mut state);
        if let Some(clock) = &mut state.timer {
            clock.next = MonotonicNs(NEVER);
        }
        self.deadline.store(NEVER, Ordering::Release);
        if self.drains_by_time {
            let at = MonotonicNs::now() + DRAIN_AGAIN;
            self.deadline.store(at.0, Ordering::Release);
        }
    }

    fn discard_locked(&self, state: &mut State) {
        let State { ports, trigger, .. } = state;
        trigger.clear();
        for port in ports.iter_mut() {
            port.subscription.set_inactive();
            port.limited = !port.discard();
        }
        self.limited.store(limited(ports), Ordering::Release);
        self.note_stalls(ports);
    }

    /// Handles the activation of the component: discards earlier samples and restarts the timer.
    pub(super) fn resume(&self, now: MonotonicNs) {
        if let Some(inbox) = &self.inbox {
            return inbox.clear();
        }
        let mut state = self.state();
        self.discard_locked(&mut state);
        state.ports.iter_mut().for_each(InputPort::resume);
        self.limited.store(0, Ordering::Release);
        self.deadline.store(NEVER, Ordering::Release);
        if let Some(clock) = state.timer.as_mut().filter(|c| !c.ended) {
            clock.next = now + clock.period;
            self.deadline.store(clock.next.0, Ordering::Release);
        }
    }

    pub(super) fn send_events_to(&self, sender: EventSender) {
        let _ = self.events.set(sender);
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when silence or a stall of an input becomes an event. Checks the inputs only if one
    /// has a deadline or a lease.
    pub(super) fn silence_deadline(&self) -> Option<MonotonicNs> {
        let stall =
            Some(MonotonicNs(self.stall_at.load(Ordering::Acquire))).filter(|at| at.0 != NEVER);
        if !self.watches_silence || self.is_inactive() {
            return stall;
        }
        self.state()
            .ports
            .iter()
            .filter_map(|p| p.subscription.silence_deadline())
            .chain(stall)
            .min()
    }

    /// Notes when a stall has to be reported. Call it when samples of the inputs were asked for.
    fn note_stalls(&self, ports: &[InputPort]) {
        let at = ports.iter().filter_map(InputPort::stall_due).min();
        let at = at.map_or(NEVER, |at| at.0);
        if self.stall_at.load(Ordering::Relaxed) != at {
            self.stall_at.store(at, Ordering::Release);
        }
    }

    /// Returns the stalls of inputs to report, with their names. `early`: includes stalls that have
    /// just begun.
    pub(super) fn stalls(&self, early: bool) -> Vec<(String, InputStall)> {
        if !early && self.stall_at.load(Ordering::Acquire) == NEVER {
            return Vec::new();
        }
        let mut state = self.state();
        let mut all = Vec::new();
        for port in &mut state.ports {
            while let Some(stall) = port.report_stall(early) {
                all.push((port.name.clone(), stall));
            }
        }
        self.note_stalls(&state.ports);
        all
    }

    /// Logs events of the inputs other than samples, and passes them to the observer.
    pub(super) fn log_events(&self, observer: Option<&dyn Observer>) {
        let mut events: SmallVec<[(usize, EndpointEvent); 4]> = SmallVec::new();
        // Logging may take long. The inputs are not locked meanwhile.
        for (i, port) in self.state().ports.iter_mut().enumerate() {
            while let Some(event) = port.subscription.poll_event() {
                events.push((i, event));
            }
        }
        for (i, event) in events {
            let (callback, input) =
                (&*self.name, self.input_names.get(i).map_or("", String::as_str));
            if let Some(observer) = observer {
                observer.event(callback, input, &event);
            }
            if let Some(sender) = self.events.get() {
                sender.send(input, false, &event);
            }
            let mut lines = self.event_lines.lock().unwrap_or_else(PoisonError::into_inner);
            let Some(event) =
                lines.get_mut(i).and_then(|lines| lines.admit(event, MonotonicNs::now()))
            else {
                continue;
            };
            drop(lines);
            match event.severity() {
                Severity::Error => tracing::error!(callback, input, "{event}"),
                Severity::Warning => tracing::warn!(callback, input, "{event}"),
                Severity::Info => tracing::debug!(callback, input, "{event}"),
            }
        }
        for (input, stall) in self.stalls(false) {
            let callback = &*self.name;
            if let Some(observer) = observer {
                observer.stall(callback, &input, &stall);
            }
            match stall.end {
                None => tracing::error!(callback, input, "{stall}"),
                Some(_) => tracing::warn!(callback, input, "{stall}"),
            }
        }
    }

    /// Calls `f` for each input whose samples may start a call.
    pub(super) fn for_each_waking(&self, mut f: impl FnMut(usize, &mut InputPort)) {
        let mut state = self.state();
        let State { ports, trigger, .. } = &mut *state;
        for (i, port) in ports.iter_mut().enumerate() {
            if trigger.wakes(i) {
                f(i, port);
            }
        }
    }

    pub(super) fn start_timer(&self, now: MonotonicNs) {
        if self.is_inactive() {
            return;
        }
        if let Some(clock) = self.state().timer.as_mut().filter(|c| !c.ended) {
            clock.next = now + clock.first;
            self.deadline.store(clock.next.0, Ordering::Release);
        }
    }

    /// Sets the time of the first tick. Call it before the start.
    pub(super) fn set_first_tick(&self, after: Duration) {
        if let Some(clock) = &mut self.state().timer {
            clock.first = after;
        }
    }

    /// Moves the next tick. Later ticks follow on the grid of the period.
    pub(super) fn set_next_tick(&self, at: MonotonicNs) {
        if let Some(clock) = self.state().timer.as_mut().filter(|c| !c.ended) {
            clock.next = at;
            self.deadline.store(at.0, Ordering::Release);
        }
    }

    /// Ends the ticks; a running one is not interrupted. If it is called before the start, the
    /// timer never ticks.
    pub(super) fn end_timer(&self) {
        if let Some(clock) = &mut self.state().timer {
            (clock.ended, clock.next) = (true, MonotonicNs(NEVER));
            self.deadline.store(NEVER, Ordering::Release);
        }
    }

    /// Makes the timer tick once more, and after that only with new data: an unread sample, or a
    /// call of the callback that feeds it.
    pub(super) fn drain_timer(&self) {
        if let Some(clock) = &mut self.state().timer
            && clock.drain == Drain::No
        {
            clock.drain = Drain::LastTick;
        }
    }

    pub(super) fn end_deadlines(&self) {
        self.state().ports.iter_mut().for_each(|p| p.subscription.end_deadlines());
    }

    pub(super) fn set_fed_by(&self, other: &Arc<Entry>) {
        let _ = self.fed_by.set(Arc::downgrade(other));
    }

    /// Number of calls that produced data for this timer.
    fn fed(&self) -> u64 {
        self.fed_by
            .get()
            .and_then(Weak::upgrade)
            .map_or(0, |other| other.invocations.load(Ordering::Relaxed))
    }

    /// Returns true if a due tick is to be made.
    fn may_tick(&self, clock: &mut Clock, ports: &[InputPort]) -> bool {
        let fed = self.fed();
        let may = match clock.drain {
            Drain::No | Drain::LastTick => true,
            // A sample that a tick has left unread is not new. Its component holds as many samples
            // as permitted, or does not want it.
            Drain::OnlyFresh { came } => {
                fed != clock.fed || has_unread(ports) && samples_that_came(ports) != came
            }
        };
        if may {
            clock.fed = fed;
        }
        if may && clock.drain != Drain::No {
            clock.drain = Drain::OnlyFresh { came: samples_that_came(ports) };
        }
        may
    }

    /// Returns the calls in progress and the waiting work. Locks the inputs; allocates.
    pub(super) fn pending(&self) -> PendingWork {
        // A claim takes samples and counts its call under this lock, so either the samples or the
        // call are seen here.
        let state = self.state();
        let running = self.running.load(Ordering::Acquire);
        let State { ports, trigger, timer } = &*state;
        let none = PendingWork { running, ..PendingWork::default() };
        if self.inbox.is_some() || self.transitions.is_some() || self.is_inactive() {
            return none;
        }
        let unread = |wanted: &dyn Fn(usize, &InputPort) -> bool| -> Vec<(usize, u64)> {
            let waits = ports.iter().enumerate().filter(|(i, p)| {
                wanted(*i, p) && !p.stall.is_stall() && p.subscription.has_unread()
            });
            waits.map(|(i, p)| (i, p.subscription.stats().not_read.max(1))).collect()
        };
        if let Some(clock) = timer {
            if clock.next.0 == NEVER {
                return none;
            }
            let fresh = match clock.drain {
                Drain::No | Drain::LastTick => true,
                Drain::OnlyFresh { came } => samples_that_came(ports) != came,
            };
            let unread = unread(&|_, _| fresh);
            let tick = (!unread.is_empty() || self.fed() != clock.fed)
                .then(|| clock.next.since(MonotonicNs::now()));
            return PendingWork { tick, unread, ..none };
        }
        let mut waits = unread(&|i, _| trigger.wakes(i));
        if let (Some(sets), true) = (trigger.sets_ready(), waits.is_empty()) {
            waits.push((0, sets));
        }
        PendingWork { unread: waits, ..none }
    }

    /// Creates the job of a due call. If the call takes samples, the inputs must be locked, so that
    /// [`Self::pending`] misses no call.
    fn job(&self, samples: Samples, trigger: Option<usize>, fresh: Fresh) -> Job<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Job { entry: self, samples, trigger, fresh, tick: None }
    }

    /// Returns the time of the next check without a sample.
    pub(super) fn deadline(&self) -> Option<MonotonicNs> {
        let timer =
            Some(MonotonicNs(self.deadline.load(Ordering::Acquire))).filter(|d| d.0 != NEVER);
        timer.into_iter().chain(self.attention.as_ref().and_then(|a| a.deadline())).min()
    }

    /// Inputs, as bits, that cannot be served before one of their samples is released.
    pub(super) fn limited_inputs(&self) -> u16 {
        self.limited.load(Ordering::Acquire)
    }

    /// Returns true if a call runs or was claimed.
    pub(super) fn is_running(&self) -> bool {
        self.running.load(Ordering::Acquire) > 0
    }

    /// Claims a due call. The group must be entered. Blocks at most while another thread holds the
    /// lock of the inputs.
    pub(super) fn claim(&self, now: impl Fn() -> MonotonicNs) -> Option<Job<'_>> {
        if let Some(transitions) = &self.transitions {
            return transitions.is_due().then(|| self.job(Samples::new(), None, 0));
        }
        let Some(lifecycle) = self.lifecycle.get() else { return self.claim_active(now) };
        if !lifecycle.enter() {
            self.discard();
            return None;
        }
        let job = self.claim_active(now);
        if job.is_none() {
            lifecycle.leave();
        }
        job
    }

    fn claim_active(&self, now: impl Fn() -> MonotonicNs) -> Option<Job<'_>> {
        if let Some(inbox) = &self.inbox {
            return inbox.is_due().then(|| self.job(Samples::new(), None, 0));
        }
        // Not `try_lock`: the thread that has the lock may have consumed the wake-up for a sample
        // that arrived after that thread's check. If this thread gave up, too, the sample would
        // wait for another wake-up.
        let mut state = self.state();
        let State { ports, trigger, timer } = &mut *state;
        if let Some(clock) = timer {
            let now = now();
            if now < clock.next {
                return None;
            }
            let period = u64::try_from(clock.period.as_nanos()).unwrap_or(u64::MAX).max(1);
            let overruns = (now.0 - clock.next.0) / period;
            let scheduled = MonotonicNs(clock.next.0 + overruns * period);
            clock.next = scheduled + clock.period;
            self.deadline.store(clock.next.0, Ordering::Release);
            if !self.may_tick(clock, ports) {
                return None;
            }
            self.overruns.fetch_add(overruns, Ordering::Relaxed);
            let samples = ports.iter().map(|_| None).collect();
            let tick = Some(TimerTick { scheduled, overruns });
            return Some(Job { tick, ..self.job(samples, None, 0) });
        }
        let mut polled = trigger.poll(ports, &self.skips);
        if !matches!(polled, Polled::Run { .. })
            && self.attention.as_ref().is_some_and(|a| a.is_due(now()))
        {
            // Checked again: samples that arrived before the deadline go first.
            polled = trigger.poll(ports, &self.skips);
            if !matches!(polled, Polled::Run { .. }) {
                let samples = ports.iter().map(|_| None).collect();
                return Some(self.job(samples, None, 0));
            }
        }
        self.note_stalls(ports);
        let limited = limited(ports);
        if limited & !self.limited.load(Ordering::Relaxed) != 0 {
            self.skips.held_limit.fetch_add(1, Ordering::Relaxed);
        }
        self.limited.store(limited, Ordering::Release);
        if let (Polled::Run { samples, .. }, Some(attention)) = (&polled, &self.attention) {
            samples.iter().flatten().for_each(|s| attention.has_taken(s));
        }
        match polled {
            Polled::Run { samples, trigger, fresh } => Some(self.job(samples, trigger, fresh)),
            Polled::Nothing | Polled::HeldLimit => None,
        }
    }

    pub(super) fn stats(&self) -> CallbackStats {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        CallbackStats {
            invocations: get(&self.invocations),
            failed: get(&self.failed),
            skipped_missing: get(&self.skips.missing),
            skipped_stale: get(&self.skips.stale),
            unsynchronised: get(&self.skips.unsynchronised),
            held_limit: get(&self.skips.held_limit),
            take_errors: get(&self.skips.take_errors),
            overruns: get(&self.overruns),
        }
    }
}

/// Inputs, as bits, for which the component holds as many samples as permitted.
fn limited(ports: &[InputPort]) -> u16 {
    ports.iter().enumerate().fold(0, |bits, (i, p)| bits | u16::from(p.limited) << i)
}

fn has_unread(ports: &[InputPort]) -> bool {
    ports.iter().any(|p| p.subscription.has_unread())
}

/// Number of samples that have arrived at the inputs so far, whether read or not.
fn samples_that_came(ports: &[InputPort]) -> u64 {
    ports.iter().fold(0, |sum, p| sum.wrapping_add(p.subscription.stats().came()))
}

impl Entry {
    pub(super) fn inputs(&self) -> Vec<InputStats> {
        let stats = |(input, (topic, counts)): (&String, &(TopicName, Counts))| InputStats {
            input: input.clone(),
            topic: topic.clone(),
            stats: counts.read(),
        };
        self.input_names.iter().zip(&self.counts).map(stats).collect()
    }

    pub(super) fn deadlines(&self, input: &str) -> Option<DeadlineCounter> {
        let at = self.input_names.iter().position(|name| name == input)?;
        self.counts.get(at).map(|(_, counts)| DeadlineCounter::new(counts.clone()))
    }
}

impl Job<'_> {
    /// Makes the call and leaves the group. A panic is caught, counted and logged. Returns true if
    /// the waiting thread has excluded the group from its wait and must be kicked.
    #[must_use]
    pub(super) fn run(self, observer: Option<&dyn Observer>) -> bool {
        let entry = self.entry;
        let start = MonotonicNs::now();
        let mut lineage = Lineage::start(start);
        // The sample of the trigger comes first: published samples inherit its trace id and source
        // time.
        if let Some(sample) =
            self.trigger.and_then(|t| self.samples.get(t)).and_then(Option::as_ref)
        {
            lineage.inherit(sample.header(), Arrival::Triggered);
        }
        for (i, sample) in self.samples.iter().enumerate() {
            if let (Some(sample), true) = (sample, Some(i) != self.trigger) {
                lineage.inherit(sample.header(), Arrival::Read);
            }
        }
        let invocation = Invocation {
            entry,
            samples: &self.samples,
            trigger: self.trigger,
            fresh: self.fresh,
            start,
            tick: self.tick,
            failed: Cell::new(false),
            read: RefCell::default(),
        };
        let (outcome, conversions) = {
            let scope = scope::enter(lineage);
            (catch_unwind(AssertUnwindSafe(|| (entry.callback)(&invocation))), scope.conversions())
        };
        let panicked = outcome.is_err();
        // The panic's payload may come from foreign code, and its destructor may panic again.
        std::mem::forget(outcome);
        if panicked {
            let trigger = invocation.trigger.and_then(|t| invocation.sample(t));
            let sequence = trigger.map(|s| s.header().sequence);
            tracing::error!(
                callback = &*entry.name,
                ?sequence,
                "the callback panicked; it stays in service"
            );
        }
        let failed = panicked || invocation.failed.get();
        entry.invocations.fetch_add(1, Ordering::Relaxed);
        entry.failed.fetch_add(u64::from(failed), Ordering::Relaxed);
        let is_call = entry.inbox.is_none() && entry.transitions.is_none();
        if let Some(observer) = observer.filter(|_| is_call) {
            invocation.observe(observer, conversions, failed);
        }
        drop(invocation);
        drop(self.samples);
        if let Some(lifecycle) = entry.lifecycle.get() {
            lifecycle.leave();
        }
        // Done last: once the call no longer counts as running, its published samples are readable,
        // and its record was made.
        entry.running.fetch_sub(1, Ordering::Release);
        entry.group.leave()
    }
}

impl Invocation<'_> {
    fn observe(&self, observer: &dyn Observer, conversions: crate::Conversions, failed: bool) {
        let end = MonotonicNs::now();
        let read = self.read.borrow();
        let chosen = self
            .samples
            .iter()
            .enumerate()
            .filter_map(|(i, s)| s.as_ref().map(|s| (i, s, self.fresh >> i & 1 == 1)));
        let later = read.iter().map(|(i, s, fresh)| (*i, s, *fresh));
        let inputs: SmallVec<[_; 6]> = chosen
            .chain(later)
            .filter_map(|(i, s, fresh)| {
                let arrival =
                    if Some(i) == self.trigger { Arrival::Triggered } else { Arrival::Read };
                Some(InputRecord {
                    input: self.entry.input_names.get(i)?,
                    topic: *self.entry.topics.get(i)?,
                    arrival,
                    header: s.header(),
                    missed: s.missed(),
                    fresh,
                })
            })
            .collect();
        observer.callback(&CallbackRecord {
            callback: &self.entry.name,
            start: self.start,
            end,
            conversions,
            inputs: &inputs,
            failed,
        });
    }
}
