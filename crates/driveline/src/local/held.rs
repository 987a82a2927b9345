// SPDX-License-Identifier: Apache-2.0
//! How many samples a reader holds.
//!
//! One counter per sample that may be held; 0 is free. Clones of a sample share its counter, so a reader is charged for
//! memory, not for handles. Only the subscription moves a counter from 0; any thread may move it back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) struct HeldCounters(Arc<[AtomicU32]>);

impl HeldCounters {
    pub(crate) fn new(max_held: u32) -> Self {
        Self((0..max_held).map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes a free counter, or `None` if as many samples are held as may be.
    pub(crate) fn acquire(&mut self) -> Option<HeldToken> {
        // Acquire pairs with the Release in `drop`: the former holder has finished reading.
        let index = self.0.iter().position(|c| c.load(Ordering::Acquire) == 0)?;
        self.0[index].store(1, Ordering::Relaxed);
        Some(HeldToken { counters: self.0.clone(), index })
    }

    pub(crate) fn limit(&self) -> u32 {
        self.0.len() as u32
    }
}

pub(crate) struct HeldToken {
    counters: Arc<[AtomicU32]>,
    index: usize,
}

impl Clone for HeldToken {
    fn clone(&self) -> Self {
        self.counters[self.index].fetch_add(1, Ordering::Relaxed);
        Self { counters: self.counters.clone(), index: self.index }
    }
}

impl Drop for HeldToken {
    fn drop(&mut self) {
        self.counters[self.index].fetch_sub(1, Ordering::Release);
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
