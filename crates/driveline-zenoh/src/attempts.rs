// SPDX-License-Identifier: Apache-2.0
//! Attempts to connect to hosts. Zenoh itself makes attempts only to endpoints under `connect`, and
//! one attempt to each host that another host reports (gossip).

use crate::OwnRuntime;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use zenoh::config::{Locator, ZenohId};
use zenoh::internal::runtime::{Runtime, ZRuntime};

/// Maximum number of attempts in progress: as many as a gateway may have connections.
const MAX_ATTEMPTS: usize = 64;

/// Attempts in progress, at most one for each key of type `K`. Each attempt is a task of Zenoh's
/// runtime. The task uses the call by which Zenoh connects to reported hosts. This call makes no
/// second connection to a host. It returns at the latest when the time-out for opening a connection
/// has passed for each address in turn, or when the runtime ends.
///
/// The result of the call is not reliable. When Zenoh reports that a connection has ended, the
/// connection is still in Zenoh's list for a moment: the call may find it there, and then does
/// nothing. If the other host still lists the old connection, it closes the new one together with
/// the old one. Only connection events are reliable. Zenoh reports them in order: it reports a
/// new connection to a host when the previous one to that host is no longer listed.
pub struct Attempts<K> {
    runtime: Runtime,
    /// Each attempt is in progress while its task holds the `Arc`.
    running: Mutex<BTreeMap<K, Arc<()>>>,
}

impl<K: Ord> Attempts<K> {
    /// Creates an empty set of attempts, for the session that runs in this runtime.
    #[must_use]
    pub fn new(runtime: &OwnRuntime) -> Self {
        Self { runtime: runtime.0.clone(), running: Mutex::default() }
    }

    /// Starts an attempt to connect to the session with this identity, which listens at one of
    /// these addresses. Does nothing if an attempt with this `key` is in progress, or if 64
    /// attempts are in progress. Does not block. Ignores addresses that are not locators of Zenoh.
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

    /// Returns true while an attempt with this `key` is in progress.
    #[must_use]
    pub fn go_on(&self, key: &K) -> bool {
        self.running().contains_key(key)
    }

    /// Returns the number of attempts in progress.
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
