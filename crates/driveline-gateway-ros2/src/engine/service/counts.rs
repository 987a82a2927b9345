// SPDX-License-Identifier: Apache-2.0
//! Counters of the calls of one service.

use crate::engine::counters::Counters;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Counters of a service, written and read by any thread.
pub(super) struct Counts {
    /// Writes a line to the log.
    log: Box<dyn Fn(String) + Send + Sync>,
    service: String,
    calls: AtomicU64,
    ends: Counters,
    /// Number of responses that an end keeps for clients that cannot read yet.
    kept: AtomicUsize,
    /// Messages that belong to no call.
    strays: Counters,
}

/// Figures of a service. While nothing changes in between, calls = answered + in flight + ended.
pub(super) struct Figures {
    pub(super) calls: u64,
    pub(super) answered: u64,
    /// Calls that ended otherwise, by name.
    pub(super) ended: BTreeMap<String, u64>,
    pub(super) strays: BTreeMap<String, u64>,
}

impl Counts {
    pub(super) fn new(log: impl Fn(String) + Send + Sync + 'static, service: String) -> Self {
        let (calls, kept) = (AtomicU64::new(0), AtomicUsize::new(0));
        Self {
            log: Box::new(log),
            service,
            calls,
            ends: Counters::default(),
            kept,
            strays: Counters::default(),
        }
    }

    /// Counts an arrived request.
    pub(super) fn call(&self) {
        self.calls.fetch_add(1, Relaxed);
    }

    pub(super) fn answered(&self) {
        self.ends.carried();
    }

    /// Notes that a response waits for its client. The call stays in flight until it is settled.
    pub(super) fn keep(&self) {
        self.kept.fetch_add(1, Relaxed);
    }

    pub(super) fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }

    /// Notes the outcome of a kept response, or the reason why it was dropped.
    pub(super) fn settled(&self, outcome: Result<(), (&'static str, &str)>) {
        self.kept.fetch_sub(1, Relaxed);
        match outcome {
            Ok(()) => self.answered(),
            Err((reason, text)) => self.ended(reason, text),
        }
    }

    /// Counts a call that ended without its answer. The first of each kind is logged.
    pub(super) fn ended(&self, reason: &'static str, text: &str) {
        if self.ends.dropped(reason) {
            self.say(reason, text);
        }
    }

    /// Counts a message that belongs to no call. The first of each kind is logged.
    pub(super) fn stray(&self, reason: &'static str, text: &str) {
        if self.strays.dropped(reason) {
            self.say(reason, text);
        }
    }

    fn say(&self, reason: &str, text: &str) {
        (self.log)(format!("service '/{}': {reason}: {text}", self.service));
    }

    pub(super) fn figures(&self) -> Figures {
        let (answered, ends) = self.ends.figures();
        Figures {
            calls: self.calls.load(Relaxed),
            answered,
            ended: ends,
            strays: self.strays.figures().1,
        }
    }
}
