// SPDX-License-Identifier: Apache-2.0
//! The loop of an executor's threads.
//!
//! Leadership is a flag under one small mutex, together with the counts of idle threads and of
//! wake-ups on their way to them. A thread that finds no work becomes the leader, or sleeps if
//! there is a leader. A leader clears the flag when its wait ends. If it then finds work, it wakes
//! one sleeping thread, if any, before it runs the callback. So whenever a thread is idle there is
//! a leader, a thread that looks for work, or a wake-up on its way to a thread that will lead.

use super::current::{self, ExecutorId};
use super::entry::Entry;
use super::fairness::{Rotation, Turns};
use super::record::Observer;
use crate::error::ExecutorError;
use driveline_shm::{Kicker, PublishingCall, WaitBackend, WaitSet, Wake};
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Minimum time between two polls of endpoint events (matches, refusals).
const EVENT_INTERVAL: Duration = Duration::from_millis(100);

/// Pause between two checks of a stopping thread that waits for the end of running calls.
const READS_AGAIN: Duration = Duration::from_millis(1);

pub(super) struct Shared {
    id: ExecutorId,
    entries: OnceLock<Entries>,
    waiting_entries: Mutex<Vec<Arc<Entry>>>,
    wait_set: Mutex<WaitSet>,
    kicker: Kicker,
    followers: Mutex<Followers>,
    wake_follower: Condvar,
    observer: OnceLock<Arc<dyn Observer>>,
    stopping: AtomicBool,
    /// A kick came within [`EVENT_INTERVAL`] after the last poll of events: events may be pending.
    events_wait: AtomicBool,
    /// A callback of this executor called `stop`. Set before `stopping`.
    stopped_by_a_call: AtomicBool,
    threads: usize,
    spin: Duration,
    events_at: AtomicU64,
}

/// All entries of the executor. The list is closed when the executor starts. Entries of a group are
/// next to each other.
struct Entries {
    all: Vec<Arc<Entry>>,
    rotation: Rotation,
}

impl Entries {
    /// Groups keep the order in which their first entries were added.
    fn new(added: Vec<Arc<Entry>>) -> Self {
        let mut members: Vec<Vec<Arc<Entry>>> = Vec::new();
        for entry in added {
            match members.iter_mut().find(|m| m[0].group.excludes(&entry.group)) {
                Some(group) => group.push(entry),
                None => members.push(vec![entry]),
            }
        }
        let mut first = 0;
        let turns = |m: &Vec<Arc<Entry>>| {
            let range = first..first + m.len();
            first = range.end;
            Turns::new(m[0].group.gate(), range)
        };
        let rotation = Rotation::new(members.iter().map(turns).collect());
        Self { all: members.into_iter().flatten().collect(), rotation }
    }
}

/// Threads in the leader/followers pattern: the leader waits for the events of all entries. When it
/// finds a callback to run, one of the sleeping threads becomes the leader.
#[derive(Default)]
struct Followers {
    /// True while a thread leads.
    led: bool,
    /// Number of sleeping threads, including those to which a wake-up is on its way.
    idle: usize,
    /// Number of wake-ups that no thread has taken yet.
    called: usize,
}

impl Shared {
    pub(super) fn new(threads: usize, spin: Duration) -> std::io::Result<Self> {
        let wait_set = WaitSet::new(WaitBackend::Auto).map_err(std::io::Error::other)?;
        Ok(Self {
            id: ExecutorId::fresh(),
            entries: OnceLock::new(),
            waiting_entries: Mutex::default(),
            kicker: wait_set.kicker(),
            wait_set: Mutex::new(wait_set),
            followers: Mutex::default(),
            wake_follower: Condvar::new(),
            observer: OnceLock::new(),
            stopping: AtomicBool::new(false),
            events_wait: AtomicBool::new(false),
            stopped_by_a_call: AtomicBool::new(false),
            threads,
            spin,
            events_at: AtomicU64::new(0),
        })
    }

    pub(super) fn add(&self, entry: Arc<Entry>, executor: &str) -> Result<(), ExecutorError> {
        let mut waiting = lock(&self.waiting_entries);
        if self.entries.get().is_some() {
            return Err(ExecutorError::Running { name: executor.to_owned() });
        }
        let mut set = lock(&self.wait_set);
        let mut attached = Ok(());
        entry.for_each_waking(|_, port| {
            let result = port.subscription.attach(&mut set);
            port.subscription.watch_room(&set);
            if attached.is_ok() {
                attached = result;
            }
        });
        attached.map_err(|e| ExecutorError::Trigger {
            callback: entry.name.to_string(),
            reason: e.to_string(),
        })?;
        waiting.push(entry);
        Ok(())
    }

    pub(super) fn id(&self) -> ExecutorId {
        self.id
    }

    pub(super) fn kicker(&self) -> Kicker {
        self.kicker.clone()
    }

    pub(super) fn set_observer(&self, observer: Arc<dyn Observer>) {
        let _ = self.observer.set(observer);
    }

    /// Closes the list of entries and starts the timers; only the first call does anything.
    pub(super) fn begin(&self) {
        self.entries.get_or_init(|| {
            let entries = std::mem::take(&mut *lock(&self.waiting_entries));
            let now = MonotonicNs::now();
            for e in &entries {
                e.start_timer(now);
            }
            Entries::new(entries)
        });
    }

    fn entries(&self) -> &[Arc<Entry>] {
        self.entries.get().map_or(&[], |e| e.all.as_slice())
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn stop(&self) {
        let by_a_call = current::current() == Some(self.id);
        self.stopped_by_a_call.fetch_or(by_a_call, Ordering::Release);
        self.stopping.store(true, Ordering::Release);
        // After the stop, callbacks are still called while a publisher waits for its readers (see
        // `work`). Timers must not produce new samples then.
        self.entries().iter().for_each(|e| e.end_timer());
        self.kicker.kick();
        let _followers = lock(&self.followers);
        self.wake_follower.notify_all();
    }

    /// Makes the first due call found, in the order of [`Rotation`].
    pub(super) fn run_one(&self, before_call: impl FnOnce()) -> bool {
        let Some(entries) = self.entries.get() else { return false };
        let now = MonotonicNs::now();
        // Not only after a wait: an executor that always has work never waits.
        if self.claim_event_poll(now) {
            self.poll_all_events();
        }
        let job = entries.rotation.search(|turns, part| {
            let turn = turns.enter()?;
            // With several threads, the clock is read again: a timer may have become due while
            // another thread was in the group.
            let now = || if self.threads > 1 { MonotonicNs::now() } else { now };
            match turn.first_due(part, |i| entries.all[i].claim(now)) {
                Ok(job) => Some(job),
                Err(kick) => {
                    if kick {
                        self.kicker.kick();
                    }
                    None
                }
            }
        });
        let Some(job) = job else { return false };
        before_call();
        let _current = current::enter(self.id);
        let _publishing = PublishingCall::begin();
        if job.run(self.observer.get().map(Arc::as_ref)) {
            self.kicker.kick();
        }
        true
    }

    pub(super) fn run_ready(&self) -> usize {
        // Bounded: a callback that feeds itself must not keep the caller for ever.
        let limit = self.entries().len().saturating_mul(64).max(1);
        (0..limit).take_while(|_| !self.is_stopping() && self.run_one(|| {})).count()
    }

    pub(super) fn work(&self) {
        while !self.is_stopping() {
            if self.run_one(|| self.hand_over()) {
                continue;
            }
            if self.take_the_lead() && !self.lead() {
                return;
            }
        }
        // A running call may wait in a publish for readers that only this thread calls. But if a
        // call stopped the executor, that call waits for the end of this thread: waiting for the
        // call would be a deadlock.
        while !self.stopped_by_a_call.load(Ordering::Acquire)
            && self.entries().iter().any(|e| e.is_running())
        {
            if !driveline_shm::a_publisher_waits() || !self.run_one(|| {}) {
                std::thread::sleep(READS_AGAIN);
            }
        }
    }

    /// Returns the time of the next event that needs no sample.
    pub(super) fn next_deadline(&self) -> Option<MonotonicNs> {
        let due = |e: &Arc<Entry>| e.deadline().into_iter().chain(e.silence_deadline()).min();
        self.entries().iter().filter_map(due).min()
    }

    /// Wakes an idle thread to lead while this one runs a callback.
    fn hand_over(&self) {
        if self.threads == 1 {
            return;
        }
        let mut followers = lock(&self.followers);
        if !followers.led && followers.idle > followers.called {
            followers.called += 1;
            self.wake_follower.notify_one();
        }
    }

    /// Becomes the leader and returns true, or sleeps until woken and returns false.
    fn take_the_lead(&self) -> bool {
        if self.threads == 1 {
            return true;
        }
        let mut followers = lock(&self.followers);
        if !followers.led {
            followers.led = true;
            return true;
        }
        followers.idle += 1;
        while followers.called == 0 && !self.stopping.load(Ordering::Acquire) {
            followers = self.wake_follower.wait(followers).unwrap_or_else(PoisonError::into_inner);
        }
        followers.called = followers.called.saturating_sub(1);
        followers.idle -= 1;
        false
    }

    /// Waits for work. Returns false in a forked child, in which the executor does not work.
    fn lead(&self) -> bool {
        let mut set = lock(&self.wait_set);
        let mut deadline: Option<MonotonicNs> = None;
        for entry in self.entries() {
            let busy = entry.group.pass_over();
            // Mutes all inputs of a busy group, else only inputs that cannot be served.
            let mute = if busy { u16::MAX } else { entry.limited_inputs() };
            if mute != entry.muted.load(Ordering::Relaxed) {
                entry.muted.store(mute, Ordering::Relaxed);
                entry.for_each_waking(|i, port| {
                    port.subscription.mute(&mut set, mute >> i & 1 == 1);
                });
            }
            let due = if busy { None } else { entry.deadline() };
            for d in due.into_iter().chain(entry.silence_deadline()) {
                deadline = Some(deadline.map_or(d, |have| have.min(d)));
            }
        }
        if self.events_wait.load(Ordering::Relaxed) {
            let again = MonotonicNs(self.events_at.load(Ordering::Relaxed)) + EVENT_INTERVAL;
            deadline = Some(deadline.map_or(again, |have| have.min(again)));
        }
        let (is_here, mut kicked) = (set.is_here(), false);
        if !is_here {
            // This is a forked child that has returned from the callback in which it was forked.
            // The executor does not work in it.
            self.stopping.store(true, Ordering::Release);
        } else if !self.stopping.load(Ordering::Acquire) {
            kicked = set.wait(deadline, self.spin) == Wake::Kicked;
        }
        drop(set);
        if self.threads > 1 {
            lock(&self.followers).led = false;
        }
        self.look_at_events(kicked);
        is_here
    }

    /// Polls events after a wait: of all entries if [`EVENT_INTERVAL`] has passed, else only of
    /// entries whose `silence_deadline` has passed. `kicked`: true if a kick ended the wait. New
    /// events of inputs that wake the executor cause a kick, except those that `silence_deadline`
    /// announces.
    pub(super) fn look_at_events(&self, kicked: bool) {
        let now = MonotonicNs::now();
        let polls = self.claim_event_poll(now);
        if polls {
            self.events_wait.store(false, Ordering::Relaxed);
            self.poll_all_events();
            return;
        }
        if kicked {
            self.events_wait.store(true, Ordering::Relaxed);
        }
        for entry in self.entries() {
            if entry.silence_deadline().is_some_and(|d| d <= now) {
                entry.log_events(self.observer.get().map(Arc::as_ref));
            }
        }
    }

    /// Returns `true` to one thread per [`EVENT_INTERVAL`].
    fn claim_event_poll(&self, now: MonotonicNs) -> bool {
        let last = self.events_at.load(Ordering::Relaxed);
        // Relaxed: it only matters that one thread wins. The locks of the entries order what this
        // thread then reads.
        now.since(MonotonicNs(last)) >= EVENT_INTERVAL
            && self
                .events_at
                .compare_exchange(last, now.0, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok()
    }

    fn poll_all_events(&self) {
        for entry in self.entries() {
            entry.log_events(self.observer.get().map(Arc::as_ref));
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
