// SPDX-License-Identifier: Apache-2.0
//! The clock for all durations.
//!
//! [`MonotonicNs::now`] is used for all decisions: ages, deadlines, lifespans, leases, timers. A
//! [`VirtualClock`] replaces it on the threads that enter it. [`MonotonicNs::real_now`] is the
//! kernel's clock, for time-outs of waits in the kernel.

use rustix::time::{ClockId, clock_gettime};
use std::cell::RefCell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// A point in time on `CLOCK_MONOTONIC`, in nanoseconds.
///
/// Comparable between the processes of one host (containers included, as long as they share a time
/// namespace) and unaffected by steps of the wall clock. Reading it is a vDSO call: no system call,
/// no allocation, any thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MonotonicNs(pub u64);

impl MonotonicNs {
    /// Returns the present time of the [`VirtualClock`] that the calling thread has entered, else
    /// [`Self::real_now`].
    #[must_use]
    #[inline]
    pub fn now() -> Self {
        // Relaxed: a thread sees its own entries, and those of other threads do not matter to it.
        if ENTERED.load(Ordering::Relaxed) != 0
            && let Some(clock) = VirtualClock::current()
        {
            return clock.now();
        }
        Self::real_now()
    }

    /// The kernel's `CLOCK_MONOTONIC`, whatever clock the thread has entered.
    #[must_use]
    pub fn real_now() -> Self {
        Self(nanoseconds(ClockId::Monotonic))
    }

    /// `self - earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Returns signed nanoseconds: times of data from other hosts may lie before this host's clock
    /// began, and are negative then.
    #[must_use]
    pub const fn signed(self) -> i64 {
        self.0.cast_signed()
    }

    /// `self - earlier` in nanoseconds; negative if `earlier` is later. Nothing is clamped, so a
    /// broken clock shows.
    #[must_use]
    pub fn signed_since(self, earlier: Self) -> i64 {
        self.0.wrapping_sub(earlier.0) as i64
    }
}

impl std::ops::Add<Duration> for MonotonicNs {
    type Output = Self;
    fn add(self, d: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(d.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Number of [`Entered`] guards in this process, so that threads without a virtual clock do not
/// look for one.
static ENTERED: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static CURRENT: RefCell<Option<VirtualClock>> = const { RefCell::new(None) };
}

/// A clock that stands still until it is advanced, for tests. Clones are the same clock. Any
/// thread.
#[derive(Clone, Debug)]
pub struct VirtualClock {
    ns: Arc<AtomicU64>,
}

impl VirtualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn starting_at(start: MonotonicNs) -> Self {
        Self { ns: Arc::new(AtomicU64::new(start.0)) }
    }

    /// The time it shows.
    #[must_use]
    pub fn now(&self) -> MonotonicNs {
        MonotonicNs(self.ns.load(Ordering::Acquire))
    }

    /// Moves the time forward.
    pub fn advance(&self, by: Duration) {
        self.ns.fetch_add(u64::try_from(by.as_nanos()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    /// Makes it the clock of the calling thread until the guard is dropped; then the previous clock
    /// applies again.
    pub fn enter(&self) -> Entered {
        ENTERED.fetch_add(1, Ordering::Relaxed);
        Entered { before: CURRENT.replace(Some(self.clone())), not_send: PhantomData }
    }

    /// The clock that the calling thread has entered. If this thread starts helper threads, they
    /// must enter this clock, too, or else they use the kernel's clock.
    #[must_use]
    pub fn current() -> Option<Self> {
        // A thread that is ending has no clock of its own.
        CURRENT.try_with(|c| c.borrow().clone()).ok().flatten()
    }
}

/// While it exists, its thread uses the [`VirtualClock`] that created it. Drop guards in the
/// reverse order of their creation.
#[must_use = "the clock is left when this is dropped"]
pub struct Entered {
    before: Option<VirtualClock>,
    not_send: PhantomData<*const ()>,
}

impl Drop for Entered {
    fn drop(&mut self) {
        let before = self.before.take();
        let _ = CURRENT.try_with(|c| c.replace(before));
        ENTERED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// `CLOCK_REALTIME - CLOCK_MONOTONIC` of this host now, in nanoseconds.
///
/// Added to a [`MonotonicNs`] it gives Unix time. Publishers put it into every sample so that
/// recordings can be aligned with data of other systems. Driveline itself makes no decision by it.
#[must_use]
pub fn wall_offset_ns() -> i64 {
    let monotonic = nanoseconds(ClockId::Monotonic);
    nanoseconds(ClockId::Realtime).wrapping_sub(monotonic) as i64
}

fn nanoseconds(clock: ClockId) -> u64 {
    let t = clock_gettime(clock);
    (t.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn monotonic_time_never_goes_back() {
        let a = MonotonicNs::now();
        let b = MonotonicNs::now();
        assert!(b >= a);
        assert!(a.signed_since(b) <= 0);
    }

    #[test]
    fn a_virtual_clock_counts_on_the_thread_that_entered_it_alone() {
        let clock = VirtualClock::starting_at(MonotonicNs(7));
        let real = MonotonicNs::real_now();
        {
            let _entered = clock.enter();
            clock.advance(Duration::from_nanos(3));
            assert_eq!(MonotonicNs::now(), MonotonicNs(10));
            assert!(MonotonicNs::real_now() >= real);
            std::thread::scope(|s| {
                let other = s.spawn(MonotonicNs::now).join().unwrap();
                assert!(other >= real, "another thread has the kernel's clock");
            });
            {
                let _inner = VirtualClock::starting_at(MonotonicNs(90)).enter();
                assert_eq!(MonotonicNs::now(), MonotonicNs(90));
            }
            assert_eq!(MonotonicNs::now(), MonotonicNs(10));
        }
        assert!(MonotonicNs::now() >= real);
    }

    #[test]
    fn sums_saturate_instead_of_wrapping() {
        assert_eq!(MonotonicNs(u64::MAX) + Duration::from_secs(1), MonotonicNs(u64::MAX));
        assert_eq!(MonotonicNs(5).since(MonotonicNs(9)), Duration::ZERO);
    }
}
