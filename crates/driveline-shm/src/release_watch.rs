// SPDX-License-Identifier: Apache-2.0
//! Wakes an executor when a held sample is released, if a take failed before because too many
//! samples were held.
//!
//! As in the gate of a callback group (crate `driveline`, `executor/gate.rs`), each side writes one
//! word and then reads the other's. The consumer announces that it is starved and checks again; the
//! releasing thread frees a place and checks for a starved consumer. A full fence between the two
//! steps on both sides ensures that at least one sees the other. Readers without a kicker pay one
//! load.

use crate::kick::Kicker;
use crate::queue::lock;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};

/// Wakes a starved consumer; see the module. One consumer, any number of threads that release
/// samples.
#[derive(Debug, Default)]
pub struct ReleaseWatch {
    watched: AtomicBool,
    starved: AtomicBool,
    kicker: Mutex<Option<Kicker>>,
}

impl ReleaseWatch {
    /// Sets the wait set to kick from now on. Call it before the first sample is taken.
    pub fn set_kicker(&self, kicker: Kicker) {
        *lock(&self.kicker) = Some(kicker);
        self.watched.store(true, Relaxed);
    }

    /// Notes that the consumer found no room. Returns true if it must check once more; if there is
    /// still no room then, a kick will come.
    #[must_use]
    pub fn starve(&self) -> bool {
        if !self.watched.load(Relaxed) {
            return false;
        }
        self.starved.store(true, Relaxed);
        // Pairs with the fence in `given_back`.
        fence(SeqCst);
        true
    }

    /// Notes that a sample was released. Call it after the freed room is visible.
    #[inline]
    pub fn given_back(&self) {
        if self.watched.load(Relaxed) {
            self.notify();
        }
    }

    #[inline(never)]
    fn notify(&self) {
        // Pairs with the fence in `starve`.
        fence(SeqCst);
        if self.starved.load(Relaxed)
            && self.starved.swap(false, Relaxed)
            && let Some(kicker) = &*lock(&self.kicker)
        {
            kicker.kick();
        }
    }
}
