// SPDX-License-Identifier: Apache-2.0
//! Domains, peers and liars for the process tests.

pub(crate) mod follower;
pub(crate) mod hostile;
pub(crate) mod payload;
pub(crate) mod peer;
pub(crate) mod process;
pub(crate) mod tally;

use std::time::{Duration, Instant};

pub(crate) use process::{Domain, Peer};
pub(crate) use tally::{Tally, repeat_counted, wanted};

/// Time-out of every wait, also on a machine under load. Only a failure takes that long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for a result of other processes.
#[track_caller]
pub(crate) fn eventually(what: &str, mut f: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !f() {
        assert!(Instant::now() < end, "did not come about: {what}");
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Repeats `step` for the `usual` time, or for `DRIVELINE_SOAK` seconds, and then until `enough`
/// returns `Ok`, because a slow machine needs longer. Fails with the error of `enough` if this
/// takes more than [`PATIENCE`] in addition.
#[track_caller]
pub(crate) fn repeat(
    usual: Duration,
    mut step: impl FnMut(),
    mut enough: impl FnMut() -> Result<(), String>,
) {
    let begun = Instant::now();
    let time = std::env::var("DRIVELINE_SOAK")
        .ok()
        .and_then(|s| s.parse().ok())
        .map_or(usual, Duration::from_secs);
    loop {
        step();
        // time: duration of the test; its required results are counted
        if begun.elapsed() < time {
            continue;
        }
        match enough() {
            Ok(()) => return,
            Err(missing) => assert!(begun.elapsed() < time + PATIENCE, "{missing}"),
        }
    }
}

/// Pseudo-random numbers (xorshift64*), the same in every run.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() >> 16) as usize % n.max(1)
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// Returns an unusual number, of a kind that often breaks programs.
    pub(crate) fn nasty(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX - self.below(3) as u64,
            2 => 1 << self.below(64),
            3 => (1u64 << self.below(64)).wrapping_sub(1),
            4 => self.below(16) as u64,
            _ => self.next(),
        }
    }
}
