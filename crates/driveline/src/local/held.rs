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

    /// Takes a free counter. Returns `None` if the maximum number of samples is held. `elsewhere`:
    /// number of held samples of the host transport, which count as well.
    pub(crate) fn acquire(&mut self, elsewhere: u32) -> Option<HeldToken> {
        // Acquire pairs with the Release in `drop`: the former holder has finished reading.
        let free = || {
            let counters = self.0.counters.iter().enumerate();
            let mut free = counters.filter(|(_, c)| c.load(Ordering::Acquire) == 0);
            free.nth(elsewhere as usize).map(|(i, _)| i)
        };
        let index = free().or_else(|| if self.0.release_watch.starve() { free() } else { None })?;
        self.0.counters[index].store(1, Ordering::Relaxed);
        Some(HeldToken { shared: self.0.clone(), index })
    }

    /// Number of samples that are held now.
    pub(crate) fn held(&self) -> u32 {
        self.0.counters.iter().filter(|c| c.load(Ordering::Relaxed) != 0).count() as u32
    }

    pub(crate) fn limit(&self) -> u32 {
        self.0.counters.len() as u32
    }

    /// Returns the watch that wakes the waiter when a sample is released after `acquire` has
    /// failed.
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
        let a = held.acquire(0).unwrap();
        let b = a.clone();
        let c = held.acquire(0).unwrap();
        assert!(held.acquire(0).is_none());
        drop(a);
        assert!(held.acquire(0).is_none());
        drop(b);
        assert!(held.acquire(0).is_some());
        drop(c);
    }

    #[test]
    fn samples_held_elsewhere_count() {
        let mut held = HeldCounters::new(3);
        assert!(held.acquire(3).is_none());
        let _a = held.acquire(2).unwrap();
        assert!(held.acquire(2).is_none());
        let _b = held.acquire(1).unwrap();
        assert_eq!(held.held(), 2);
        assert!(held.acquire(1).is_none());
    }
}
