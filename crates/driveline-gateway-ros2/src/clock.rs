// SPDX-License-Identifier: Apache-2.0
//! Clock of stamps: the wall clock, or the clock of a simulation (`use_sim_time`), which publishes
//! the time on the topic `/clock`.
//!
//! Driveline's times are on `CLOCK_MONOTONIC`. The last message on `/clock` gives the offset of the
//! simulation's clock. Between two messages, the gateway assumes that the simulation's clock runs
//! as fast as this host's. So a sample that crosses the gateway has at that moment the age that it
//! has on the simulation's clock.

use driveline_rosidl::cdr::{CdrError, Decoder};
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicI64, Ordering};

/// Topic of a simulation's clock.
pub const TOPIC: &str = "clock";
/// Type of the topic, as DDS calls it.
pub const TYPE: &str = "rosgraph_msgs::msg::dds_::Clock_";
/// Offset before the first message.
const NEVER: i64 = i64::MIN;
const SECOND_NS: i64 = 1_000_000_000;

/// Clock of stamps, shared by all threads of a gateway. Access neither waits nor allocates.
#[derive(Debug)]
pub enum StampClock {
    /// Wall clock of this host.
    Wall,
    /// Clock of a simulation: its offset to `CLOCK_MONOTONIC`, in nanoseconds.
    Simulation(AtomicI64),
}

impl StampClock {
    /// Creates the wall clock, or the clock of a simulation whose time is not known yet.
    #[must_use]
    pub fn new(use_sim_time: bool) -> Self {
        if use_sim_time { Self::Simulation(AtomicI64::new(NEVER)) } else { Self::Wall }
    }

    /// Returns the offset to `CLOCK_MONOTONIC` in nanoseconds, given the offset `wall_offset_ns` of
    /// the wall clock; `None` for a simulation whose time is not known yet.
    #[must_use]
    pub fn ahead_ns(&self, wall_offset_ns: i64) -> Option<i64> {
        match self {
            Self::Wall => Some(wall_offset_ns),
            // Relaxed: no other memory depends on the number.
            Self::Simulation(ahead) => Some(ahead.load(Ordering::Relaxed)).filter(|a| *a != NEVER),
        }
    }

    /// Reads a sample of `/clock`, with its encapsulation, that arrived at `arrived`. Has no effect
    /// on the wall clock.
    ///
    /// # Errors
    /// [`CdrError`]: it is not a `rosgraph_msgs/msg/Clock`; the time stays unchanged.
    pub fn hear(&self, sample: &[u8], arrived: MonotonicNs) -> Result<(), CdrError> {
        let Self::Simulation(ahead) = self else { return Ok(()) };
        let mut from = Decoder::new(sample)?;
        let (sec, nanosec): (i32, u32) = (from.number()?, from.number()?);
        // Fits: its absolute value is below 2^31 * 10^9 + 2^32. The subtraction saturates.
        let time = i64::from(sec) * SECOND_NS + i64::from(nanosec);
        ahead.store(time.saturating_sub_unsigned(arrived.0).max(NEVER + 1), Ordering::Relaxed);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_rosidl::cdr::{ByteOrder, Encoder};

    fn clock_sample(order: ByteOrder, sec: i32, nanosec: u32) -> Vec<u8> {
        let mut to = Encoder::new(order);
        to.number(sec);
        to.number(nanosec);
        to.finish()
    }

    #[test]
    fn simulated_time_is_the_last_received_one() {
        let clock = StampClock::new(true);
        assert_eq!(clock.ahead_ns(7), None);
        clock.hear(&clock_sample(ByteOrder::Little, 5, 250), MonotonicNs(1_000)).unwrap();
        assert_eq!(clock.ahead_ns(7), Some(5_000_000_000 + 250 - 1_000));
        // The simulation restarts.
        clock.hear(&clock_sample(ByteOrder::Big, 0, 0), MonotonicNs(7_000_000_000_000)).unwrap();
        assert_eq!(clock.ahead_ns(7), Some(-7_000_000_000_000));
        assert!(clock.hear(&clock_sample(ByteOrder::Little, 9, 9)[..9], MonotonicNs(1)).is_err());
        assert_eq!(clock.ahead_ns(7), Some(-7_000_000_000_000), "broken messages change nothing");
        clock.hear(&clock_sample(ByteOrder::Little, i32::MIN, 0), MonotonicNs(u64::MAX)).unwrap();
        assert_eq!(clock.ahead_ns(7), Some(NEVER + 1));
    }

    #[test]
    fn the_wall_clock_ignores_clock_messages() {
        let clock = StampClock::new(false);
        clock.hear(&clock_sample(ByteOrder::Little, 5, 0), MonotonicNs(1)).unwrap();
        assert_eq!(clock.ahead_ns(7), Some(7));
    }
}
