// SPDX-License-Identifier: Apache-2.0
//! How threads wait: the conductor for discovery and for whoever wakes it, a topic's thread for
//! samples that come over Zenoh.

use super::lock;
use crate::dds;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Lets a thread wait until somebody says so.
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

    /// Waits, at most for so long.
    pub(super) fn wait(&self, longest: Duration) {
        let raised = self.more.wait_timeout_while(lock(&self.raised), longest, |raised| !*raised);
        *raised.unwrap_or_else(PoisonError::into_inner).0 = false;
    }
}

/// What the conductor waits with: for news of DDS if it takes part there, and for whoever wakes it.
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

    /// Waits, at most for so long.
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
