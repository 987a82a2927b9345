// SPDX-License-Identifier: Apache-2.0
//! The one clock that durations are measured with.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// A point in time on `CLOCK_MONOTONIC`, in nanoseconds.
///
/// Comparable between the processes of one host (containers included, as long as they share a time namespace) and
/// unaffected by steps of the wall clock. Reading it is a vDSO call: no system call, no allocation, any thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MonotonicNs(pub u64);

impl MonotonicNs {
    /// The present.
    #[must_use]
    pub fn now() -> Self {
        Self(nanoseconds(ClockId::Monotonic))
    }

    /// `self - earlier`, or zero if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Nanoseconds, signed: times that data from other hosts has may lie before this host's clock began, and are negative then.
    #[must_use]
    pub const fn signed(self) -> i64 {
        self.0.cast_signed()
    }

    /// `self - earlier` in nanoseconds; negative if `earlier` is later. Nothing is clamped, so a broken clock shows.
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

/// `CLOCK_REALTIME - CLOCK_MONOTONIC` of this host now, in nanoseconds.
///
/// Added to a [`MonotonicNs`] it gives Unix time. Publishers put it into every sample so that records can be aligned
/// with the rest of the world; nothing inside Driveline decides by it.
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
    fn sums_saturate_instead_of_wrapping() {
        assert_eq!(MonotonicNs(u64::MAX) + Duration::from_secs(1), MonotonicNs(u64::MAX));
        assert_eq!(MonotonicNs(5).since(MonotonicNs(9)), Duration::ZERO);
    }
}
