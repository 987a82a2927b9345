// SPDX-License-Identifier: Apache-2.0
//! Waiting of threads: the control thread for discovery and wake-ups, a topic's thread for samples
//! over Zenoh.

use super::lock;
use crate::dds;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Blocks a thread until another one signals.
#[derive(Debug, Default)]
pub(super) struct Signal {
    raised: Mutex<bool>,
    more: Condvar,
}

impl Signal {
    pub(super) fn raise(&self) {
        *lock(&self.raised) = true;
        self.more.notify_all();
    }

    /// Waits, at most for this time.
    pub(super) fn wait(&self, longest: Duration) {
        let raised = self.more.wait_timeout_while(lock(&self.raised), longest, |raised| !*raised);
        *raised.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// Wait of the control thread: on DDS discovery if that is used, and for wake-ups.
pub(super) enum Waiting {
    Dds(dds::Waiting),
    Signal(Signal),
}

impl Waiting {
    pub(super) fn wake(&self) {
        match self {
            Self::Dds(waiting) => waiting.wake(),
            Self::Signal(signal) => signal.raise(),
        }
    }

    /// Waits, at most for this time.
    pub(super) fn wait(&self, longest: Duration) -> dds::Result<()> {
        match self {
            Self::Dds(waiting) => waiting.wait(longest),
            Self::Signal(signal) => {
                signal.wait(longest);
                Ok(())
            }
        }
    }
}
