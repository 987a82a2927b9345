// SPDX-License-Identifier: Apache-2.0
//! What became of the calls of one service.

use crate::engine::counters::Counters;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Written by whichever thread brings something, read by any.
pub(super) struct Counts {
    /// For people.
    tell: Box<dyn Fn(String) + Send + Sync>,
    service: String,
    calls: AtomicU64,
    ends: Counters,
}

/// Calls, answered ones, ends of others by name.
pub(super) type Figures = (u64, u64, BTreeMap<String, u64>);

impl Counts {
    pub(super) fn new(tell: impl Fn(String) + Send + Sync + 'static, service: String) -> Self {
        Self { tell: Box::new(tell), service, calls: AtomicU64::new(0), ends: Counters::default() }
    }

    /// A request has come.
    pub(super) fn call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(super) fn answered(&self) {
        self.ends.carried();
    }

    /// A call ended without its answer, or something came that belongs to none. The first of each kind is told.
    pub(super) fn ended(&self, reason: &'static str, text: &str) {
        if self.ends.dropped(reason) {
            (self.tell)(format!("service '/{}': {reason}: {text}", self.service));
        }
    }

    pub(super) fn figures(&self) -> Figures {
        let (answered, ends) = self.ends.figures();
        (self.calls.load(Relaxed), answered, ends)
    }
}
