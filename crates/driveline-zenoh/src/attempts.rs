// SPDX-License-Identifier: Apache-2.0
//! Attempts to connect, which Zenoh makes for what stands under `connect`, and once for whoever it
//! is told of.

use crate::OwnRuntime;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use zenoh::config::{Locator, ZenohId};
use zenoh::internal::runtime::{Runtime, ZRuntime};

/// Most that go on at a time: as many as there may be connections.
const MAX_ATTEMPTS: usize = 64;

/// Attempts to connect that go on, at most one for each `K`. Each is a task among Zenoh's own, and
/// the same call by which Zenoh connects to whoever it is told of: it makes no second connection,
/// and ends after the time-out for opening one, or with the runtime.
///
/// What the call returns says nothing. Zenoh tells that a connection has ended while it still lists
/// it, so the call may find it there and do nothing; and the other end may list it still, in which
/// case the new connection ends with the old one. That there is a connection is known from news of
/// it alone, which Zenoh tells in order: of the next one when the one before is listed no longer.
pub struct Attempts<K> {
    runtime: Runtime,
    /// Each goes on as long as its task holds it.
    running: Mutex<BTreeMap<K, Arc<()>>>,
}

impl<K: Ord> Attempts<K> {
    /// None so far, of the session that runs in this.
    #[must_use]
    pub fn new(runtime: &OwnRuntime) -> Self {
        Self { runtime: runtime.0.clone(), running: Mutex::default() }
    }

    /// Begins one to connect to the session with this identity, which listens at one of these
    /// addresses, unless one of the same `key` goes on, or 64 do. Waits for nothing. What is no
    /// locator of Zenoh's is passed over.
    pub fn begin(&self, key: K, id: ZenohId, at: &[String]) {
        let mut running = self.running();
        let places: Vec<Locator> = at.iter().filter_map(|at| at.parse().ok()).collect();
        if places.is_empty() || running.contains_key(&key) || running.len() >= MAX_ATTEMPTS {
            return;
        }
        let attempt = Arc::new(());
        running.insert(key, attempt.clone());
        let runtime = self.runtime.clone();
        ZRuntime::Net.spawn(async move {
            let _attempt = attempt;
            let end = runtime.get_cancellation_token();
            end.run_until_cancelled(runtime.connect_peer(&id.into(), &places)).await;
        });
    }

    /// Whether one of this `key` does.
    #[must_use]
    pub fn go_on(&self, key: &K) -> bool {
        self.running().contains_key(key)
    }

    /// How many go on.
    #[must_use]
    pub fn count(&self) -> usize {
        self.running().len()
    }

    fn running(&self) -> impl std::ops::DerefMut<Target = BTreeMap<K, Arc<()>>> + '_ {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain(|_, attempt| Arc::strong_count(attempt) > 1);
        running
    }
}
