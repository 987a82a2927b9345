// SPDX-License-Identifier: Apache-2.0
//! Activity of a component: its callbacks, timers and publishers together
//! (`docs/protocols/modes.md`).
//!
//! Three atomic variables describe the activity: callbacks read `runs` before each call, publishers
//! read `publishes`, and `active` is the result of the last transition. The transition's call
//! writes all three; it runs on the executor under the group's rule. Only a request to deactivate
//! clears `runs` at once: from then on no thread chooses a further call. Calls that are already
//! being made or chosen end before `on_deactivate` is called.

use super::entry::Entry;
use crate::executor::Invocation;
use crate::raw::RawPublisher;
use driveline_shm::{DeadlineMeter, Kicker};
use driveline_types::MonotonicNs;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

/// A request that a component changes its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRequest {
    /// Requested activity.
    pub active: bool,
    /// Number that the outcome contains as well.
    pub number: u64,
}

/// Outcome of a [`StateRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateOutcome {
    /// The request.
    pub request: StateRequest,
    /// Duration of the transition's call; zero if the component was in the state already.
    pub took: Duration,
    /// Reason of a failure. After a failure the component is inactive, whether it failed to become
    /// active or inactive.
    pub error: Option<String>,
}

/// Makes the transitions of a component. Both functions are called on a thread of the executor;
/// [`Self::change`] never at the same time as a callback of the component.
pub trait StateChange: Send + Sync {
    /// Activates (`true`) or deactivates the component. It may publish. Not called if the component
    /// is in that state already.
    ///
    /// # Errors
    /// A text for people.
    fn change(&self, invocation: &Invocation<'_>, active: bool) -> Result<(), String>;

    /// Reports the outcome of a request. Must not block.
    fn done(&self, outcome: StateOutcome);
}

/// Activity of a component. Clones share it; any thread.
#[derive(Clone)]
pub struct Lifecycle {
    shared: Arc<Shared>,
}

struct Shared {
    runs: AtomicBool,
    publishes: Arc<AtomicBool>,
    active: AtomicBool,
    /// Calls of followers that are being made or chosen.
    running: AtomicUsize,
    /// A request waits.
    due: AtomicBool,
    /// A thread makes a transition. In a reentrant group, another thread could begin the next one.
    changing: AtomicBool,
    waiting: Mutex<Option<StateRequest>>,
    followers: Mutex<Followers>,
    kicker: OnceLock<Kicker>,
}

#[derive(Default)]
struct Followers {
    entries: Vec<Weak<Entry>>,
    deadlines: Vec<Arc<DeadlineMeter>>,
}

impl fmt::Debug for Lifecycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lifecycle").field("active", &self.is_active()).finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lifecycle {
    /// Creates the lifecycle of an inactive component.
    #[must_use]
    pub fn inactive() -> Self {
        let shared = Shared {
            runs: AtomicBool::new(false),
            publishes: Arc::new(AtomicBool::new(false)),
            active: AtomicBool::new(false),
            running: AtomicUsize::new(0),
            due: AtomicBool::new(false),
            changing: AtomicBool::new(false),
            waiting: Mutex::default(),
            followers: Mutex::default(),
            kicker: OnceLock::new(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns true if the component is active. One atomic load.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.shared.active.load(Ordering::Acquire)
    }

    /// Requests a change of the component's state, to be made after its running calls. It replaces
    /// a request that still waits, which then has no outcome. The outcome goes to
    /// [`StateChange::done`]. Locks briefly, does not wait for the change.
    pub fn request(&self, request: StateRequest) {
        let mut waiting = lock(&self.shared.waiting);
        *waiting = Some(request);
        if !request.active {
            // SeqCst: see `enter`.
            self.shared.runs.store(false, Ordering::SeqCst);
        }
        self.shared.due.store(true, Ordering::SeqCst);
        drop(waiting);
        self.kick();
    }

    pub(super) fn kick(&self) {
        if let Some(kicker) = self.shared.kicker.get() {
            kicker.kick();
        }
    }

    pub(super) fn set_kicker(&self, kicker: Kicker) {
        let _ = self.shared.kicker.set(kicker);
    }

    pub(super) fn add_follower(&self, entry: &Arc<Entry>) {
        lock(&self.shared.followers).entries.push(Arc::downgrade(entry));
    }

    /// Returns true if a call may begin; then [`Self::leave`] must follow.
    pub(super) fn enter(&self) -> bool {
        // Each side writes its word and then reads the other side's word. All threads see these
        // accesses in one order, so either the transition sees this call in `running`, or this call
        // sees that `runs` is cleared.
        self.shared.running.fetch_add(1, Ordering::SeqCst);
        let runs = self.shared.runs.load(Ordering::SeqCst);
        if !runs {
            self.leave();
        }
        runs
    }

    /// Ends what [`Self::enter`] began: the call has ended, or none was due.
    pub(super) fn leave(&self) {
        let last = self.shared.running.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.shared.due.load(Ordering::SeqCst) {
            self.kick();
        }
    }

    pub(super) fn runs(&self) -> bool {
        self.shared.runs.load(Ordering::Acquire)
    }

    /// Returns true if a transition can be made now.
    pub(super) fn is_due(&self) -> bool {
        self.shared.due.load(Ordering::SeqCst)
            && self.shared.running.load(Ordering::SeqCst) == 0
            && !self.shared.changing.load(Ordering::SeqCst)
    }

    /// Makes the transition that was requested last, unless another thread makes one.
    pub(super) fn carry_out(&self, invocation: &Invocation<'_>, change: &dyn StateChange) {
        let shared = &*self.shared;
        if shared.changing.swap(true, Ordering::SeqCst) {
            return;
        }
        let _changing = Changing(self);
        // A call may have begun since `is_due`, after another thread's transition. Its end wakes a
        // thread for this request.
        if shared.running.load(Ordering::SeqCst) > 0 {
            return;
        }
        let request = {
            let mut waiting = lock(&shared.waiting);
            shared.due.store(false, Ordering::SeqCst);
            waiting.take()
        };
        let Some(request) = request else { return };
        let before = self.is_active();
        let began = MonotonicNs::now();
        let mut error = None;
        if request.active && !before {
            shared.publishes.store(true, Ordering::Release);
            error = change.change(invocation, true).err();
            if error.is_none() {
                shared.active.store(true, Ordering::Release);
            } else {
                self.silence();
            }
        } else if !request.active && before {
            error = change.change(invocation, false).err();
            shared.active.store(false, Ordering::Release);
            self.silence();
        }
        if error.is_some() {
            invocation.fail();
        }
        self.resume();
        let took =
            if before == request.active { Duration::ZERO } else { MonotonicNs::now().since(began) };
        change.done(StateOutcome { request, took, error });
    }

    /// Stops the publishers of the component.
    fn silence(&self) {
        self.shared.publishes.store(false, Ordering::Release);
        let now = MonotonicNs::now();
        lock(&self.shared.followers).deadlines.iter().for_each(|d| d.end(now));
    }

    /// Allows callbacks again, if the component is active and no request to deactivate waits.
    fn resume(&self) {
        let waiting = lock(&self.shared.waiting);
        let stops = waiting.is_some_and(|r| !r.active);
        if !self.is_active() || stops || self.runs() {
            return;
        }
        let now = MonotonicNs::now();
        let followers = lock(&self.shared.followers).entries.clone();
        followers.iter().filter_map(Weak::upgrade).for_each(|entry| entry.resume(now));
        self.shared.runs.store(true, Ordering::SeqCst);
        drop(waiting);
        self.kick();
    }
}

/// A transition that is being made. Its end also wakes a thread for a request that came meanwhile.
struct Changing<'a>(&'a Lifecycle);

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        self.0.shared.changing.store(false, Ordering::SeqCst);
        if self.0.shared.due.load(Ordering::SeqCst) {
            self.0.kick();
        }
    }
}

impl RawPublisher {
    /// Publishes only while a component is active, and during its transitions
    /// ([`StateChange::change`]). Its deadline is not counted while the component is inactive.
    pub fn follow(&mut self, lifecycle: &Lifecycle) {
        lock(&lifecycle.shared.followers).deadlines.extend(self.deadline_meter());
        self.publish_while(lifecycle.shared.publishes.clone());
    }
}

#[cfg(test)]
mod tests;
