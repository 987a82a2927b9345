// SPDX-License-Identifier: Apache-2.0
//! Samples that a reader holds.
//!
//! One counter per sample that may be held; 0 is free. Clones of a sample share its counter, so a
//! reader is charged for memory, not for handles. Only the subscription moves a counter from 0; any
//! thread may move it back.

use driveline_shm::ReleaseWatch;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

#[derive(Default)]
struct Shared {
    counters: Box<[AtomicU32]>,
    release_watch: ReleaseWatch,
}

pub(crate) struct HeldCounters(Arc<Shared>);

impl HeldCounters {
    pub(crate) fn new(max_held: u32) -> Self {
        Self(Arc::new(Shared {
            counters: (0..max_held).map(|_| AtomicU32::new(0)).collect(),
            release_watch: ReleaseWatch::default(),
        }))
    }

    /// Takes a free counter, or `None` if as many samples are held as may be.
    pub(crate) fn acquire(&mut self) -> Option<HeldToken> {
        // Acquire pairs with the Release in `drop`: the former holder has finished reading.
        let free = || self.0.counters.iter().position(|c| c.load(Ordering::Acquire) == 0);
        let index = free().or_else(|| if self.0.release_watch.starve() { free() } else { None })?;
        self.0.counters[index].store(1, Ordering::Relaxed);
        Some(HeldToken { shared: self.0.clone(), index })
    }

    pub(crate) fn limit(&self) -> u32 {
        self.0.counters.len() as u32
    }

    /// Wakes the waiter after `acquire` has failed and a sample is released.
    pub(crate) fn release_watch(&self) -> &ReleaseWatch {
        &self.0.release_watch
    }
}

pub(crate) struct HeldToken {
    shared: Arc<Shared>,
    index: usize,
}

impl Clone for HeldToken {
    fn clone(&self) -> Self {
        self.shared.counters[self.index].fetch_add(1, Ordering::Relaxed);
        Self { shared: self.shared.clone(), index: self.index }
    }
}

impl Drop for HeldToken {
    fn drop(&mut self) {
        if self.shared.counters[self.index].fetch_sub(1, Ordering::Release) == 1 {
            self.shared.release_watch.given_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_count_once_and_the_last_one_frees() {
        let mut held = HeldCounters::new(2);
        let a = held.acquire().unwrap();
        let b = a.clone();
        let c = held.acquire().unwrap();
        assert!(held.acquire().is_none());
        drop(a);
        assert!(held.acquire().is_none());
        drop(b);
        assert!(held.acquire().is_some());
        drop(c);
    }
}
