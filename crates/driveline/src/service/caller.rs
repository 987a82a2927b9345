// SPDX-License-Identifier: Apache-2.0
//! Calls whose outcome comes as a callback of an executor.

use super::error::CallError;
use super::requester::Requester;
use super::{ClientStats, RawClient, ServiceCallback};
use crate::error::{ExecutorError, LoanError};
use crate::executor::{Attention, CallbackHandle, CallbackOptions, Executor};
use crate::raw::{Parcel, PublisherEvents, RawLoan, RawSample};
use crate::trigger::Trigger;
use driveline_shm::Kicker;
use driveline_types::MonotonicNs;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

type Outcome = Result<RawSample, CallError>;
type Then = Box<dyn FnOnce(Outcome) + Send>;

/// Calls the one server of a service without waiting: the outcome of each call arrives in a
/// callback of the executor that the client was added to, triggered by the response, the time-out
/// or the end of the server. Clones are the same client; any thread, callbacks included.
#[derive(Clone)]
pub struct RawCaller(Arc<Shared>);

struct Shared {
    requester: Mutex<Requester<Then>>,
    /// Events that report the end of a server, without the requester's lock.
    events: PublisherEvents,
    kicker: Kicker,
    /// Called when servers appear or end.
    watcher: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Shared {
    fn requester(&self) -> MutexGuard<'_, Requester<Then>> {
        self.requester.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Attention for Shared {
    fn is_due(&self, now: MonotonicNs) -> bool {
        let mut stirred = false;
        while self.events.poll().is_some() {
            stirred = true;
        }
        if let Some(watcher) = self.watcher.get().filter(|_| stirred) {
            watcher();
        }
        let mut requester = self.requester();
        if requester.pending() == 0 {
            return false;
        }
        // Lost calls are marked now, and given up after the responses were checked once more.
        requester.doom(stirred);
        requester.deadline().is_some_and(|d| d <= now)
    }

    /// In a reentrant group, another thread must not give the call up before this response is
    /// handled.
    fn has_taken(&self, sample: &RawSample) {
        self.requester().has_taken(sample);
    }

    fn deadline(&self) -> Option<MonotonicNs> {
        self.requester().deadline()
    }
}

impl Executor {
    /// Adds a client to the executor, which runs the closures for the outcomes of its calls. Call
    /// it before the start.
    ///
    /// # Errors
    /// [`ExecutorError`] if the executor runs already, or the kernel refuses a resource for
    /// waiting.
    pub fn add_raw_client(
        &self,
        client: RawClient,
        o: ServiceCallback,
    ) -> Result<(RawCaller, CallbackHandle), ExecutorError> {
        let (requester, responses) = client.into_ends();
        let kicker = self.kicker();
        requester.kick_on_event(&kicker);
        let events = requester.publisher().events();
        let shared = Arc::new(Shared {
            requester: Mutex::new(requester),
            events,
            kicker,
            watcher: OnceLock::new(),
        });
        let options = CallbackOptions {
            name: o.name,
            group: o.group,
            trigger: Trigger::any(),
            inputs: vec![("responses".into(), responses)],
        };
        let inside = Inside(shared.clone());
        let handle =
            self.add_attentive(options, Some(shared.clone()), move |invocation| match invocation
                .sample(0)
            {
                Some(sample) => {
                    let ended = inside.0.requester().accept(sample.clone());
                    // Not under the lock: `then` may make another call.
                    if let Some((_, then, outcome)) = ended {
                        then(outcome);
                    }
                }
                None => inside.0.give_up_the_lost(),
            })?;
        Ok((RawCaller(shared), handle))
    }
}

/// The executor's handle. After it is dropped, no outcome is delivered.
struct Inside(Arc<Shared>);

impl Drop for Inside {
    fn drop(&mut self) {
        // The closures for outcomes may own the caller, and may run any code when they are dropped.
        let calls = self.0.requester().close();
        drop(calls);
    }
}

impl Shared {
    /// Gives up the calls that are lost now; later losses are handled by their own callback.
    fn give_up_the_lost(&self) {
        let now = MonotonicNs::now();
        loop {
            let lost = self.requester().lost(now);
            let Some((_, then, error)) = lost else { return };
            then(Err(error));
        }
    }
}

impl RawCaller {
    /// Memory for a request of `len` bytes (plain and bytes), whose content is unspecified.
    ///
    /// # Errors
    /// [`CallError::Loan`] if it is longer than `max_request`, or loans are out.
    pub fn loan(&self, len: usize) -> Result<RawLoan, CallError> {
        self.loan_for(len).map_err(|source| CallError::Loan { service: self.service(), source })
    }

    pub(super) fn loan_for(&self, len: usize) -> Result<RawLoan, LoanError> {
        self.0.requester().loan(len)
    }

    pub(super) fn service(&self) -> String {
        self.0.requester().service()
    }

    /// Sends a loan. `then` is called once, on a thread of the executor: with the response, or with
    /// the error that ended the call, at the latest the time-out. If the executor stops first,
    /// `then` is not called, and is dropped with the executor. In a callback, the request inherits
    /// the origins of the samples that the callback has consumed. Never waits for the server;
    /// allocates.
    ///
    /// # Errors
    /// [`CallError`] if the request could not be sent: `then` is not called.
    pub fn call_then(
        &self,
        request: RawLoan,
        timeout: Duration,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), CallError> {
        self.send(Parcel::Loan(request), timeout, Box::new(then))
    }

    /// As [`Self::call_then`], with a copy of `request` (bytes).
    ///
    /// # Errors
    /// As [`Self::loan`] and [`Self::call_then`].
    pub fn call_bytes_then(
        &self,
        request: &[u8],
        timeout: Duration,
        then: impl FnOnce(Outcome) + Send + 'static,
    ) -> Result<(), CallError> {
        let mut loan = self.loan(request.len())?;
        loan.payload_mut().copy_from_slice(request);
        self.call_then(loan, timeout, then)
    }

    pub(super) fn send(
        &self,
        request: Parcel,
        timeout: Duration,
        then: Then,
    ) -> Result<(), CallError> {
        let sent = {
            let mut requester = self.0.requester();
            requester.look_at_events();
            let server = requester.ready()?;
            requester.send(server, request, timeout, then)?
        };
        drop(sent);
        // The executor must see the new time-out, which may be the nearest.
        self.0.kicker.kick();
        Ok(())
    }

    /// Returns true if there is exactly one server now.
    #[must_use]
    pub fn has_server(&self) -> bool {
        self.0.requester().has_server()
    }

    /// Returns the node of the server that a call would go to now.
    ///
    /// # Errors
    /// Reason why there is none: [`CallError::NoServer`], [`CallError::Mismatch`] or
    /// [`CallError::SeveralServers`].
    pub fn server(&self) -> Result<String, CallError> {
        self.0.requester().server()
    }

    /// Calls `changed` when servers may have appeared or ended, on a thread of the executor. It
    /// should notify another thread and return; that thread then calls [`Self::server`]. Only the
    /// first call has an effect.
    pub fn watch_servers(&self, changed: impl Fn() + Send + Sync + 'static) {
        let _ = self.0.watcher.set(Box::new(changed));
        self.0.kicker.kick();
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.0.requester().stats()
    }
}
