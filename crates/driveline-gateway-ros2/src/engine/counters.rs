// SPDX-License-Identifier: Apache-2.0
//! Counters of the samples of one topic in one direction, or of the calls of one service.

use super::lock;
use super::ros_writer::Written;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters. A topic's thread writes those of the topic, any thread those of a service. Any thread
/// reads them.
#[derive(Debug, Default)]
pub(super) struct Counters {
    carried: AtomicU64,
    across: AtomicU64,
    replaced: AtomicU64,
    drops: Mutex<BTreeMap<&'static str, u64>>,
}

impl Counters {
    pub(super) fn carried(&self) {
        self.carried.fetch_add(1, Relaxed);
    }

    /// Counts a sample that the other profile has accepted.
    pub(super) fn passed_on(&self) {
        self.across.fetch_add(1, Relaxed);
    }

    pub(super) fn across(&self) -> u64 {
        self.across.load(Relaxed)
    }

    /// Counts the results of earlier samples when a sample is written. Those that were not written
    /// are counted under `reason`. `log`: called with the cause if these are the first of `reason`.
    pub(super) fn written(&self, written: &Written, reason: &'static str, log: impl FnOnce(&str)) {
        self.replaced.fetch_add(written.replaced, Relaxed);
        if written.failed > 0 {
            let first = self.dropped(reason);
            self.add(reason, written.failed - 1);
            if first {
                log(&written.why);
            }
        }
    }

    /// Number of samples that were replaced and may be lost; see [`Written`].
    pub(super) fn replaced(&self) -> u64 {
        self.replaced.load(Relaxed)
    }

    /// Counts several drops.
    pub(super) fn add(&self, reason: &'static str, count: u64) {
        if count > 0 {
            let mut drops = lock(&self.drops);
            let so_far = drops.entry(reason).or_default();
            *so_far = so_far.saturating_add(count);
        }
    }

    /// Counts a drop; `true`: the first one for this reason.
    pub(super) fn dropped(&self, reason: &'static str) -> bool {
        let mut drops = lock(&self.drops);
        let count = drops.entry(reason).or_default();
        *count += 1;
        *count == 1
    }

    /// Sets a counter that is counted elsewhere.
    pub(super) fn set(&self, reason: &'static str, count: u64) {
        if count > 0 {
            lock(&self.drops).insert(reason, count);
        }
    }

    pub(super) fn figures(&self) -> (u64, BTreeMap<String, u64>) {
        let drops = lock(&self.drops).iter().map(|(k, v)| ((*k).to_owned(), *v)).collect();
        (self.carried.load(Relaxed), drops)
    }
}
