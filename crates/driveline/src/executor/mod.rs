// SPDX-License-Identifier: Apache-2.0
//! Executors: threads that run callbacks and timers.
//!
//! One thread at a time, the leader, waits in the kernel for all events: samples of every topic,
//! the nearest timer, and kicks. A kick is a call by which code of the same process ends the wait
//! ([`Kicker`]). When the leader finds work it passes the lead to an idle thread and runs the
//! callback. An executor with one thread has no hand-over.
//!
//! An *entry* is a callback or a timer. Before a call, a thread claims it: it enters the group of
//! the entry and takes the samples. In an exclusive group, no other call can be claimed before this
//! one ends. The leader excludes entries of such a busy group from its wait, and the end of the
//! call makes the executor check them again. `fairness` decides which of several due calls is made
//! first.

mod attention;
mod current;
mod entry;
mod events;
mod fairness;
mod gate;
mod group;
mod lifecycle;
mod record;
mod schedule;
mod statistics;
mod worker;

pub(crate) use attention::Attention;
pub(crate) use current::{ExecutorId, current};
pub use entry::Invocation;
pub use events::{EventSender, PortEvent};
pub use group::{CallbackGroup, GroupKind};
pub use lifecycle::{Lifecycle, StateChange, StateOutcome, StateRequest};
pub use record::{CallbackRecord, InputRecord, Observer};
pub use schedule::{Schedule, ScheduleReport, SchedulingClass};
pub use statistics::{CallbackStats, InputStats, PendingWork, TimerTick};

use crate::error::ExecutorError;
use crate::raw::{DeadlineCounter, RawSubscription};
use crate::trigger::{InputPort, InputStall, Trigger};
use driveline_shm::Kicker;
use driveline_types::MonotonicNs;
use driveline_types::limits::MAX_EXECUTOR_THREADS;
use entry::Entry;
use std::sync::{Arc, Mutex, PoisonError, Weak, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use worker::Shared;

/// Options of an [`Executor`].
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Name; threads are called `name/0`, `name/1`, … The kernel permits 15 bytes: of longer names,
    /// the last 15 characters are used.
    pub name: String,
    /// Number of threads.
    pub threads: usize,
    /// Scheduling of each thread.
    pub schedule: Schedule,
    /// Time that a thread spins before it sleeps; zero sleeps at once.
    pub spin: Duration,
}

impl Default for ExecutorOptions {
    fn default() -> Self {
        Self {
            name: "executor".into(),
            threads: 1,
            schedule: Schedule::default(),
            spin: Duration::ZERO,
        }
    }
}

/// Options of a callback.
pub struct CallbackOptions {
    /// Name, for records, logs and tools.
    pub name: String,
    /// Group.
    pub group: CallbackGroup,
    /// Trigger of the callback.
    pub trigger: Trigger,
    /// Names and subscriptions of its inputs; the executor owns them from here on.
    pub inputs: Vec<(String, RawSubscription)>,
}

/// Options of a timer.
pub struct TimerOptions {
    /// Name, for records, logs and tools.
    pub name: String,
    /// Group.
    pub group: CallbackGroup,
    /// Time between ticks; the first comes one period after the start.
    pub period: Duration,
}

/// Handle of a callback or timer, for its counters.
#[derive(Clone)]
pub struct CallbackHandle {
    entry: Arc<Entry>,
}

impl CallbackHandle {
    /// Counters since the callback was added.
    #[must_use]
    pub fn stats(&self) -> CallbackStats {
        self.entry.stats()
    }

    /// Counters of each input. Any thread, of any priority: the executor never waits for the
    /// caller. Allocates.
    #[must_use]
    pub fn inputs(&self) -> Vec<InputStats> {
        self.entry.inputs()
    }

    /// Returns the counter of the deadlines that an input has missed; `None` if there is no such
    /// input.
    #[must_use]
    pub fn deadlines(&self, input: &str) -> Option<DeadlineCounter> {
        self.entry.deadlines(input)
    }

    /// Returns the calls in progress and the samples that wait for a call. Not counted: samples of
    /// an inactive component; samples of an input that its component has blocked for at least 0.5 s
    /// by holding as many samples as permitted; and samples that a draining timer
    /// ([`TimerEnd::drain`]) had before its last tick. Takes the lock of the callback's inputs, for
    /// which the executor waits as well; allocates. For the end of a run. Do not call it from the
    /// destructor of a published value, which may run under that lock.
    #[must_use]
    pub fn pending(&self) -> PendingWork {
        self.entry.pending()
    }

    /// Stops counting missed deadlines of the inputs, for the end of a run, when sources publish
    /// nothing more. Takes the same lock as [`Self::pending`].
    pub fn end_deadlines(&self) {
        self.entry.end_deadlines();
    }

    /// Sends events of the callback's inputs to `sender` from now on; they are logged as well. Only
    /// the first call has an effect.
    pub fn send_events_to(&self, sender: EventSender) {
        self.entry.send_events_to(sender);
    }

    /// Returns the beginnings and ends of stalls that were not reported yet, with the input's name.
    /// It includes stalls of triggering inputs that began less than 0.5 s ago. Call it at the end
    /// of a run: each beginning or end is reported once, here or to the [`Observer`]. Locks and
    /// allocates as [`Self::pending`].
    #[must_use]
    pub fn unreported_stalls(&self) -> Vec<(String, InputStall)> {
        self.entry.stalls(true)
    }

    /// Runs the callback or timer only while a component is active. Samples that arrive while it is
    /// inactive are taken and counted as inactive, except for the newest sample of each
    /// transient-local input: the component gets it once it is active. Call it before the executor
    /// runs; only the first call has an effect.
    pub fn follow(&self, lifecycle: &Lifecycle) {
        self.entry.follow(lifecycle);
    }

    /// The callback's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.entry.name
    }

    /// Sets the time from the executor's start to the first tick; the default is one period. With
    /// it, timers of equal periods need not all be due at once. Later ticks follow on the grid of
    /// the period. After an activation of the component ([`Self::follow`]), the first tick comes
    /// after one period. No effect once the executor runs, or without a timer trigger.
    pub fn first_tick_after(&self, after: Duration) {
        self.entry.set_first_tick(after);
    }

    /// Moves the next tick to `at`, at once if that is past; the others follow on the grid of the
    /// period from there. Call it within a call of the timer's group. Does nothing without a timer
    /// trigger, or after the ticks have ended.
    pub fn next_tick_at(&self, at: MonotonicNs) {
        self.entry.set_next_tick(at);
    }

    /// Declares that calls of `other` produce data for this timer, which matters while it drains
    /// ([`TimerEnd::drain`]). Only the first call has an effect.
    pub fn fed_by(&self, other: &Self) {
        self.entry.set_fed_by(&other.entry);
    }

    /// Returns a handle that ends its ticks, if it has a timer trigger.
    #[must_use]
    pub fn timer_end(&self) -> TimerEnd {
        TimerEnd { entry: Arc::downgrade(&self.entry) }
    }
}

/// Ends the ticks of one timer. Does not keep its callback alive; clones are the same; any thread.
#[derive(Clone, Debug)]
pub struct TimerEnd {
    entry: Weak<Entry>,
}

impl TimerEnd {
    /// Makes one more tick, and after that only ticks with new data: an unread sample that arrived
    /// since the last tick, or a call of the callback that feeds the timer
    /// ([`CallbackHandle::fed_by`]). For the end of a run, so that timers do not repeat the last
    /// sample. Locks as [`Self::end`].
    pub fn drain(&self) {
        if let Some(entry) = self.entry.upgrade() {
            entry.drain_timer();
        }
    }

    /// Ends the ticks. A running tick is not interrupted, and may be the caller. Waits briefly for
    /// the lock of the callback's inputs.
    pub fn end(&self) {
        if let Some(entry) = self.entry.upgrade() {
            entry.end_timer();
        }
    }
}

/// Runs callbacks and timers on threads of its own, or on the caller's. Dropping it stops it.
pub struct Executor {
    options: ExecutorOptions,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Executor {
    /// Creates an executor; nothing runs until [`Self::start`].
    ///
    /// # Errors
    /// [`ExecutorError`] for an impossible number of threads, or if the kernel refuses a resource
    /// for waiting.
    pub fn new(options: ExecutorOptions) -> Result<Self, ExecutorError> {
        if options.threads == 0 || options.threads > MAX_EXECUTOR_THREADS {
            return Err(ExecutorError::Threads { name: options.name, threads: options.threads });
        }
        let shared = Shared::new(options.threads, options.spin)
            .map_err(|source| ExecutorError::Os { name: options.name.clone(), source })?;
        Ok(Self { options, shared: Arc::new(shared), threads: Mutex::default() })
    }

    /// A new group of callbacks.
    #[must_use]
    pub fn group(&self, kind: GroupKind) -> CallbackGroup {
        CallbackGroup::new(kind)
    }

    /// Adds a callback. In a reentrant group it is called from several threads at once.
    ///
    /// # Errors
    /// [`ExecutorError`] if the trigger does not fit the inputs or the executor runs already.
    pub fn add_callback(
        &self,
        o: CallbackOptions,
        callback: impl Fn(&Invocation<'_>) + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        self.add_attentive(o, None, callback)
    }

    /// Like [`Self::add_callback`]; the callback is also called, without samples, when its
    /// [`Attention`] is due.
    pub(crate) fn add_attentive(
        &self,
        o: CallbackOptions,
        attention: Option<Arc<dyn Attention>>,
        callback: impl Fn(&Invocation<'_>) + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        let ports = o
            .inputs
            .into_iter()
            .map(|(name, subscription)| InputPort::new(name, subscription))
            .collect();
        let made = Entry::new(&o.name, o.group, o.trigger, ports, Box::new(callback), attention);
        let entry =
            Arc::new(made.map_err(|reason| ExecutorError::Trigger { callback: o.name, reason })?);
        self.shared.add(entry.clone(), &self.options.name)?;
        Ok(CallbackHandle { entry })
    }

    /// Adds a callback that is called with events of inputs and outputs: one event in each call,
    /// the oldest first. [`CallbackHandle::send_events_to`] sends it the events of a callback's
    /// inputs. Its calls have their own counters and are not passed to the observer.
    ///
    /// # Errors
    /// As [`Self::add_callback`].
    pub fn add_event_callback(
        &self,
        name: &str,
        group: CallbackGroup,
        callback: impl Fn(&Invocation<'_>, &PortEvent) + Send + Sync + 'static,
    ) -> Result<(CallbackHandle, EventSender), ExecutorError> {
        let inbox = Arc::new(events::Inbox::default());
        let sender = EventSender { inbox: inbox.clone(), kicker: self.kicker() };
        let own = inbox.clone();
        let call = move |invocation: &Invocation<'_>| {
            if let Some(event) = own.pop() {
                callback(invocation, &event);
            }
        };
        let made = Entry::new(name, group, Trigger::any(), Vec::new(), Box::new(call), None)
            .map(|e| e.with_inbox(inbox));
        let entry = Arc::new(
            made.map_err(|reason| ExecutorError::Trigger { callback: name.to_owned(), reason })?,
        );
        self.shared.add(entry.clone(), &self.options.name)?;
        Ok((CallbackHandle { entry }, sender))
    }

    /// Adds the call that makes the transitions of a component. Callbacks that
    /// [follow](CallbackHandle::follow) the lifecycle run while the component is active. Its calls
    /// are not passed to the observer.
    ///
    /// # Errors
    /// As [`Self::add_callback`].
    pub fn add_lifecycle(
        &self,
        name: &str,
        group: CallbackGroup,
        lifecycle: &Lifecycle,
        change: impl StateChange + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        lifecycle.set_kicker(self.kicker());
        let own = lifecycle.clone();
        let call = move |invocation: &Invocation<'_>| own.carry_out(invocation, &change);
        let made = Entry::new(name, group, Trigger::any(), Vec::new(), Box::new(call), None)
            .map(|e| e.with_transitions(lifecycle.clone()));
        let entry = Arc::new(
            made.map_err(|reason| ExecutorError::Trigger { callback: name.to_owned(), reason })?,
        );
        self.shared.add(entry.clone(), &self.options.name)?;
        Ok(CallbackHandle { entry })
    }

    /// Adds a timer.
    ///
    /// # Errors
    /// As [`Self::add_callback`].
    pub fn add_timer(
        &self,
        o: TimerOptions,
        callback: impl Fn(&TimerTick) + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        let options = CallbackOptions {
            name: o.name,
            group: o.group,
            trigger: Trigger::Timer { period: o.period, max_age: None },
            inputs: Vec::new(),
        };
        self.add_callback(options, move |invocation| {
            if let Some(tick) = invocation.tick() {
                callback(&tick);
            }
        })
    }

    /// Returns a handle that makes the executor check again, for code that changes the result of an
    /// [`Attention`].
    pub(crate) fn kicker(&self) -> Kicker {
        self.shared.kicker()
    }

    pub(crate) fn id(&self) -> ExecutorId {
        self.shared.id()
    }

    /// Sets the receiver of a record of every call. Call it before the start; only the first call
    /// has an effect.
    pub fn set_observer(&self, observer: Arc<dyn Observer>) {
        self.shared.set_observer(observer);
    }

    /// Starts the threads and reports the schedules that they got. A second start does nothing.
    ///
    /// # Errors
    /// [`ExecutorError::Os`] if the kernel refuses a thread, [`ExecutorError::Stopped`] after
    /// [`Self::stop`].
    pub fn start(&self) -> Result<Vec<ScheduleReport>, ExecutorError> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        if !threads.is_empty() {
            return Ok(Vec::new());
        }
        if self.shared.is_stopping() {
            return Err(ExecutorError::Stopped { name: self.options.name.clone() });
        }
        self.shared.begin();
        let (reports, received) = mpsc::channel();
        for i in 0..self.options.threads {
            let (shared, schedule, reports) =
                (self.shared.clone(), self.options.schedule.clone(), reports.clone());
            let name: String = format!("{}/{i}", self.options.name);
            let short = name.chars().rev().take(15).collect::<Vec<_>>().into_iter().rev().collect();
            let spawned = std::thread::Builder::new().name(short).spawn(move || {
                let _ = reports.send(schedule.apply_to_this_thread(&name));
                shared.work();
            });
            threads.push(
                spawned.map_err(|source| ExecutorError::Os {
                    name: self.options.name.clone(),
                    source,
                })?,
            );
        }
        drop(reports);
        let mut reports: Vec<_> = received.iter().take(self.options.threads).collect();
        reports.sort_by(|a, b| a.thread.cmp(&b.thread));
        for report in reports.iter().filter(|r| !r.refused.is_empty()) {
            tracing::warn!("{report}");
        }
        Ok(reports)
    }

    /// Closes the list of callbacks and starts the timers, as [`Self::start`], the first
    /// [`Self::run_next`] and the first [`Self::run_ready`] do. For programs that make the calls
    /// themselves.
    pub fn begin(&self) {
        self.shared.begin();
    }

    /// Makes one due call on the calling thread; returns false if none is due or the executor was
    /// stopped. Does not wait.
    pub fn run_next(&self) -> bool {
        self.shared.begin();
        !self.shared.is_stopping() && self.shared.run_one(|| {})
    }

    /// Returns the time of the next event that needs no sample, for example the next tick of a
    /// timer or the next missed deadline of an input. `None`: never.
    #[must_use]
    pub fn next_deadline(&self) -> Option<MonotonicNs> {
        self.shared.next_deadline()
    }

    /// Polls events of the inputs, if the next poll is due, as threads of the executor do after
    /// each wait.
    pub fn poll_events(&self) {
        self.shared.look_at_events(false);
    }

    /// Makes due calls on the calling thread until none is due, and returns their number: at most
    /// 64 times the number of callbacks and timers. Does not wait.
    ///
    /// For programs with a loop of their own, and for tests. The first call starts the timers.
    pub fn run_ready(&self) -> usize {
        self.shared.begin();
        self.shared.run_ready()
    }

    /// Stops permanently: running calls finish, no new call begins, and threads are joined.
    /// Exception: as long as running calls have not finished and a call of the process waits in a
    /// publish for reliable readers, callbacks with samples are still called, but no timers. Called
    /// from within a callback, it does not join the callback's own thread, which ends after the
    /// call.
    pub fn stop(&self) {
        self.shared.stop();
        // Taken out first, so that no thread is joined under the lock: if a callback on such a
        // thread calls `stop` as well, it would wait for the lock for ever.
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads.into_iter().filter(|t| t.thread().id() != std::thread::current().id())
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod drain_tests;
#[cfg(test)]
mod stall_tests;
#[cfg(test)]
mod tests;
