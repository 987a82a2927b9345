// SPDX-License-Identifier: Apache-2.0
//! Waits for data of many subscriptions, a deadline, and a kick at the same time.

use crate::error::WaitSetError;
use crate::inlet::{Edge, Inlet, has_unread};
use crate::kick::{KickWord, Kicker};
use crate::protocol::sleep;
use crate::queue::lock;
use crate::subscription::Subscription;
use crate::sys::fork::Birthplace;
use crate::sys::futex::{self, MAX_WORDS, Scope, WaitList, Word};
use crate::wait_threads::WaitThreads;
use driveline_types::MonotonicNs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Rounds of spinning between two reads of the clock: about a microsecond.
const ROUNDS_PER_CLOCK: u32 = 64;

/// Mechanism by which a wait set sleeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitBackend {
    /// The best mechanism of this kernel.
    #[default]
    Auto,
    /// `futex_waitv` (Linux 5.16 and newer), on the waiting thread itself for up to 127 publishers;
    /// beyond that, one helper thread for each 126.
    FutexWaitv,
    /// One helper thread per publisher. Works on every kernel, but costs two wake-ups: of the
    /// helper and of the waiting thread.
    Threads,
}

impl WaitBackend {
    /// Name of the mechanism that [`WaitBackend::Auto`] uses in this process, for reports:
    /// `futex_waitv` or `helper threads`. The first call makes one system call.
    #[must_use]
    pub fn available() -> &'static str {
        if futex::have_waitv() { "futex_waitv" } else { "helper threads" }
    }
}

/// Reason why a wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// An attached subscription that is not muted has an unread sample.
    Data,
    /// A kick, or a new event or publisher of an attached subscription.
    Kicked,
    /// The deadline has passed.
    TimedOut,
}

/// One attached subscription.
struct Entry {
    inlet: Arc<Inlet>,
    generation: u64,
    edges: Vec<Arc<Edge>>,
    muted: Arc<AtomicBool>,
}

impl Entry {
    fn is_muted(&self) -> bool {
        self.muted.load(Relaxed)
    }
}

/// Waits on one thread for any number of subscriptions. After an optional time of spinning,
/// sleeps in the kernel.
///
/// One thread may wait at a time. Waiting does not allocate, except after publishers have joined or
/// left.
pub struct WaitSet {
    entries: Vec<Entry>,
    kick: Arc<KickWord>,
    backend: WaitBackend,
    birthplace: Birthplace,
    expected: Vec<u32>,
    list: WaitList,
    wait_threads: Option<WaitThreads>,
    /// The entries have changed since the wait threads were made.
    wait_threads_stale: bool,
    mutes_changed: bool,
}

impl std::fmt::Debug for WaitSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WaitSet")
            .field("attached", &self.entries.len())
            .field("backend", &self.backend)
            .finish_non_exhaustive()
    }
}

impl WaitSet {
    /// An empty wait set.
    ///
    /// # Errors
    /// [`WaitSetError::NoFutexWaitv`] if `FutexWaitv` is asked for and this kernel does not have
    /// it; [`WaitSetError::Page`] if the kernel refuses a page of memory.
    pub fn new(backend: WaitBackend) -> Result<Self, WaitSetError> {
        let backend = match (backend, futex::have_waitv()) {
            (WaitBackend::Threads, _) | (WaitBackend::Auto, false) => WaitBackend::Threads,
            (WaitBackend::FutexWaitv, false) => return Err(WaitSetError::NoFutexWaitv),
            (WaitBackend::Auto | WaitBackend::FutexWaitv, true) => WaitBackend::FutexWaitv,
        };
        Ok(Self {
            entries: Vec::new(),
            kick: Arc::new(KickWord::default()),
            backend,
            birthplace: Birthplace::here().map_err(WaitSetError::Page)?,
            expected: Vec::new(),
            list: WaitList::with_room_for(MAX_WORDS),
            wait_threads: None,
            wait_threads_stale: false,
            mutes_changed: false,
        })
    }

    /// Returns true in the process that made the wait set. In a forked child it cannot be used.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.birthplace.is_here()
    }

    /// Mechanism of this wait set; resolves `Auto`.
    #[must_use]
    pub fn backend(&self) -> WaitBackend {
        self.backend
    }

    /// Adds a subscription; adding it twice changes nothing.
    ///
    /// # Errors
    /// If it is attached to another wait set, or in a forked child.
    pub fn attach(&mut self, sub: &Subscription) -> Result<(), WaitSetError> {
        if !self.birthplace.is_here() {
            return Err(WaitSetError::Forked);
        }
        let mut kick = lock(&sub.inlet.kick);
        match &*kick {
            Some(k) if Arc::ptr_eq(k, &self.kick) => return Ok(()),
            // Without other references it is the word of a wait set that has been dropped.
            Some(k) if Arc::strong_count(k) > 1 => {
                return Err(WaitSetError::AttachedElsewhere { topic: sub.inlet.topic.to_string() });
            }
            _ => *kick = Some(Arc::clone(&self.kick)),
        }
        drop(kick);
        let entry = Entry {
            inlet: Arc::clone(&sub.inlet),
            generation: u64::MAX,
            edges: Vec::new(),
            muted: Arc::new(AtomicBool::new(false)),
        };
        self.entries.push(entry);
        Ok(())
    }

    /// Removes a subscription.
    pub fn detach(&mut self, sub: &Subscription) {
        if !self.birthplace.is_here() {
            return;
        }
        let before = self.entries.len();
        self.entries.retain(|e| !Arc::ptr_eq(&e.inlet, &sub.inlet));
        if self.entries.len() != before {
            *lock(&sub.inlet.kick) = None;
            self.wait_threads_stale = true;
        }
    }

    /// Mutes or unmutes a subscription. Samples of a muted one do not end a wait; its events do.
    /// Use it for a subscription that cannot be served at the moment.
    pub fn set_muted(&mut self, sub: &Subscription, muted: bool) {
        if let Some(e) = self.entries.iter().find(|e| Arc::ptr_eq(&e.inlet, &sub.inlet))
            && e.muted.swap(muted, Relaxed) != muted
        {
            self.mutes_changed = true;
        }
    }

    /// Returns a handle that ends a wait from another thread.
    #[must_use]
    pub fn kicker(&self) -> Kicker {
        Kicker(Arc::clone(&self.kick))
    }

    /// Waits until there is data or a kick, or `deadline` has passed. Spins for the time `spin`
    /// (`Duration::MAX`: never blocks), then sleeps in the kernel. A kick comes before data. In a
    /// forked child it returns `Kicked` at once.
    pub fn wait(&mut self, deadline: Option<MonotonicNs>, spin: Duration) -> Wake {
        if !self.birthplace.is_here() {
            return Wake::Kicked;
        }
        let for_ever = spin == Duration::MAX;
        let mut spin_until = (!for_ever && !spin.is_zero()).then(|| MonotonicNs::real_now() + spin);
        let mut round: u32 = 0;
        loop {
            self.refresh();
            loop {
                if self.kick.take() {
                    return Wake::Kicked;
                }
                if self.any_unread() {
                    return Wake::Data;
                }
                // While it spins, the clock is read only every [`ROUNDS_PER_CLOCK`] rounds, because
                // that costs more than a check for data.
                round = round.wrapping_add(1);
                let spins = for_ever || spin_until.is_some();
                let look_at_clock = round.is_multiple_of(ROUNDS_PER_CLOCK) || !spins;
                if look_at_clock && (deadline.is_some() || spin_until.is_some()) {
                    let now = MonotonicNs::real_now();
                    if deadline.is_some_and(|d| now >= d) {
                        return Wake::TimedOut;
                    }
                    if spin_until.is_some_and(|u| now >= u) {
                        spin_until = None;
                    }
                }
                if !for_ever && spin_until.is_none() {
                    break;
                }
                if self.is_stale() {
                    self.refresh();
                }
                std::hint::spin_loop();
            }
            self.sleep(deadline);
        }
    }

    fn is_stale(&self) -> bool {
        self.entries.iter().any(|e| e.generation != e.inlet.generation())
    }

    /// Copies changed lists of publishers.
    fn refresh(&mut self) {
        let mut closed = false;
        for e in &mut self.entries {
            let generation = e.inlet.generation();
            if generation != e.generation {
                e.edges = e.inlet.edges();
                e.generation = generation;
                self.wait_threads_stale = true;
            }
            closed |= e.inlet.closed.load(Relaxed);
        }
        if closed {
            self.entries.retain(|e| !e.inlet.closed.load(Relaxed));
            self.wait_threads_stale = true;
        }
    }

    #[inline]
    fn any_unread(&self) -> bool {
        self.entries.iter().any(|e| !e.is_muted() && e.edges.iter().any(|edge| has_unread(edge)))
    }

    fn sleep(&mut self, deadline: Option<MonotonicNs>) {
        let words: usize = self.entries.iter().map(|e| e.edges.len()).sum();
        let direct = words == 0 || (self.backend == WaitBackend::FutexWaitv && words < MAX_WORDS);
        if direct {
            // Ends the helper threads from a time when the set had more publishers: they must not
            // continue to sleep for these.
            self.wait_threads = None;
            self.sleep_here(deadline);
        } else {
            self.sleep_with_wait_threads(deadline);
        }
    }

    fn sleep_here(&mut self, deadline: Option<MonotonicNs>) {
        if !self.kick.begin() {
            return;
        }
        self.expected.clear();
        for edge in sleepers(&self.entries) {
            self.expected.push(sleep::arm(edge));
        }
        sleep::settle();
        if !sleepers(&self.entries).any(has_unread) && !self.is_stale() {
            if self.expected.is_empty() {
                self.kick.sleep(deadline);
            } else {
                use crate::protocol::sleep::Sleeper as _;
                let words = sleepers(&self.entries).zip(&self.expected).map(|(edge, expected)| {
                    Word { word: edge.word(), scope: Scope::Shared, expected: *expected }
                });
                self.list.wait_any(std::iter::once(self.kick.word()).chain(words), deadline);
            }
        }
        for edge in sleepers(&self.entries) {
            sleep::disarm(edge);
        }
        self.kick.end();
    }

    fn sleep_with_wait_threads(&mut self, deadline: Option<MonotonicNs>) {
        if self.wait_threads_stale || self.wait_threads.is_none() {
            self.wait_threads = None;
            let per_thread = if self.backend == WaitBackend::Threads { 1 } else { MAX_WORDS - 2 };
            let edges = self
                .entries
                .iter()
                .flat_map(|e| e.edges.iter().map(|edge| (Arc::clone(edge), Arc::clone(&e.muted))));
            self.wait_threads =
                Some(WaitThreads::new(edges.collect(), per_thread, &self.kick, self.birthplace));
            self.wait_threads_stale = false;
        }
        if !self.kick.begin() {
            return;
        }
        if let Some(wait_threads) = &mut self.wait_threads {
            wait_threads.go(std::mem::take(&mut self.mutes_changed));
        }
        // The helper threads check for data themselves after arming. A change of publishers comes
        // with a kick.
        self.kick.sleep(deadline);
        self.kick.end();
    }
}

/// Publishers to sleep on, always in the same order.
fn sleepers(entries: &[Entry]) -> impl Iterator<Item = &Edge> {
    entries.iter().filter(|e| !e.is_muted()).flat_map(|e| e.edges.iter().map(|edge| &**edge))
}

impl Drop for WaitSet {
    fn drop(&mut self) {
        if !self.birthplace.is_here() {
            // Another thread of the parent may have held one of these locks when the child was
            // made.
            return;
        }
        for e in &self.entries {
            *lock(&e.inlet.kick) = None;
        }
    }
}
