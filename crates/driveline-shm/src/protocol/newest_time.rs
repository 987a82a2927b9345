// SPDX-License-Identifier: Apache-2.0
//! Number and time of the newest sample of a publisher, for a thread of the same process. One
//! publishing thread, any number of readers.

use crate::sync::AtomicU64;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{Mutant, mutant};

/// Number of samples published, and the time of the last one.
#[derive(Debug)]
pub struct NewestTime {
    number: AtomicU64,
    /// Times of the last two samples. The time of sample `n` is at `n % 2`.
    times: [AtomicU64; 2],
}

impl Default for NewestTime {
    fn default() -> Self {
        Self { number: AtomicU64::new(0), times: [AtomicU64::new(0), AtomicU64::new(0)] }
    }
}

fn place(number: u64) -> usize {
    if mutant(Mutant::OneTimeOnly) { 0 } else { (number % 2) as usize }
}

impl NewestTime {
    /// Notes a sample. Only one thread at a time may call this.
    #[inline]
    pub fn published(&self, at: u64) {
        let number = self.number.load(Relaxed) + 1;
        // Release: a reader that sees this time also sees the number of the sample before it.
        self.times[place(number)].store(at, Release);
        self.number.store(number, Release);
    }

    /// Returns the number of samples. A later [`Self::newest`] returns at least this number.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number.load(Acquire)
    }

    /// Returns the number of the newest sample, and its time; zeros before the first. Repeats only
    /// while samples are being published.
    #[must_use]
    pub fn newest(&self) -> (u64, u64) {
        loop {
            let number = self.number.load(Acquire);
            let time = self.times[place(number)].load(Acquire);
            // The time of sample `number + 2` takes the same place, but only after the number has
            // become `number + 1`.
            if self.number.load(Acquire) == number {
                return (number, time);
            }
        }
    }
}
