// SPDX-License-Identifier: Apache-2.0
//! Calls that wait for their response.

use super::error::CallError;
use super::requester::{Requester, log};
use super::{ClientOptions, ClientStats, check_client, serving};
use crate::context::Node;
use crate::error::{EndpointError, LoanError, ReadError};
use crate::local::LocalObject;
use crate::raw::{Order, Parcel, RawLoan, RawSample, RawSubscription};
use crate::scope;
use driveline_shm::{WaitBackend, WaitSet};
use driveline_types::{MonotonicNs, Schema, ServiceName};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of responses checked before deadlines are checked again: more than can be
/// pending.
const LOOKED_THROUGH: usize = 256;

/// Client that waits for the response of the one server of a service, of any payload kind. One
/// thread at a time; responses outlive it.
///
/// A call allocates, makes system calls, and waits, at most for its time-out: it is for threads
/// that may wait. In a callback it occupies the executor's thread; [`RawCaller`](super::RawCaller)
/// does not.
pub struct RawClient {
    service: ServiceName,
    requester: Requester<()>,
    responses: RawSubscription,
    wait: WaitSet,
}

impl Node {
    /// A client of any payload kind. Reserves the memory for its requests.
    ///
    /// # Errors
    /// [`EndpointError`], for example if the name or an option is not possible, or memory is short.
    pub fn raw_client(
        &self,
        service: &str,
        request: Schema,
        response: Schema,
        options: ClientOptions,
    ) -> Result<RawClient, EndpointError> {
        let name: ServiceName = service.parse()?;
        check_client(service, [&request, &response], &options)?;
        RawClient::new(self, name, request, response, &options)
    }
}

impl RawClient {
    fn new(
        node: &Node,
        service: ServiceName,
        request: Schema,
        response: Schema,
        o: &ClientOptions,
    ) -> Result<Self, EndpointError> {
        let (requester, mut responses) = Requester::new(node, &service, request, response, o)?;
        let os = |e: String| EndpointError::Os {
            topic: service.to_string(),
            source: std::io::Error::other(e),
        };
        let mut wait = WaitSet::new(WaitBackend::Auto).map_err(|e| os(e.to_string()))?;
        responses.attach(&mut wait).map_err(|e| os(e.to_string()))?;
        requester.kick_on_event(&wait.kicker());
        Ok(Self { service, requester, responses, wait })
    }

    /// The service's name.
    #[must_use]
    pub fn service(&self) -> &ServiceName {
        &self.service
    }

    /// Waits until exactly one server exists (`true`) or the time-out has passed (`false`).
    pub fn wait_for_server(&mut self, timeout: Duration) -> bool {
        let deadline = after(timeout);
        loop {
            self.look_at_events();
            if self.requester.has_server() {
                return true;
            }
            if MonotonicNs::now() >= deadline {
                return false;
            }
            self.wait.wait(Some(deadline), Duration::ZERO);
        }
    }

    /// Memory for a request of `len` bytes (plain and bytes), whose content is unspecified.
    ///
    /// # Errors
    /// [`CallError::Loan`] if it is longer than `max_request`, or loans are out.
    pub fn loan(&mut self, len: usize) -> Result<RawLoan, CallError> {
        self.loan_for(len)
            .map_err(|source| CallError::Loan { service: self.service.to_string(), source })
    }

    pub(super) fn loan_for(&mut self, len: usize) -> Result<RawLoan, LoanError> {
        self.requester.loan(len)
    }

    /// Sends a loan and waits for the response, at most `timeout`. Samples that the calling
    /// callback publishes later inherit the origins of the response.
    ///
    /// # Errors
    /// [`CallError`]. The request may have been executed after `Refused`, after `Read`, and after
    /// an error whose `was_taken` is true (`TimedOut`, `ServerGone`, `Mismatch`).
    pub fn call(&mut self, request: RawLoan, timeout: Duration) -> Result<RawSample, CallError> {
        self.call_with(Parcel::Loan(request), timeout)
    }

    /// As [`Self::call`], with a copy of `request` (bytes).
    ///
    /// # Errors
    /// As [`Self::loan`] and [`Self::call`].
    pub fn call_bytes(
        &mut self,
        request: &[u8],
        timeout: Duration,
    ) -> Result<RawSample, CallError> {
        let mut loan = self.loan(request.len())?;
        loan.payload_mut().copy_from_slice(request);
        self.call(loan, timeout)
    }

    /// As [`Self::call`], for values (protobuf and objects).
    ///
    /// # Errors
    /// As [`Self::call`].
    pub fn call_object(
        &mut self,
        request: Arc<dyn LocalObject>,
        timeout: Duration,
    ) -> Result<RawSample, CallError> {
        self.call_with(Parcel::Object(request), timeout)
    }

    pub(super) fn call_with(
        &mut self,
        request: Parcel,
        timeout: Duration,
    ) -> Result<RawSample, CallError> {
        self.look_at_events();
        // Late responses to earlier calls are counted, and make room.
        for _ in 0..LOOKED_THROUGH {
            let Ok(Some(sample)) = self.responses.next_sample(Order::Oldest) else { break };
            self.requester.accept(sample);
        }
        let server = self.requester.ready()?;
        if serving::is_ours(server.id) {
            self.requester.unmade();
            return Err(CallError::WouldDeadlock { service: self.service.to_string() });
        }
        let (number, displaced) = self.requester.send(server, request, timeout, ())?;
        drop(displaced);
        loop {
            if let Some(outcome) = self.take(number) {
                return outcome;
            }
            self.look_at_events();
            if self.requester.doom(true) {
                // Responses that the server published before its end have arrived by now.
                if let Some(outcome) = self.take(number) {
                    return outcome;
                }
            }
            if let Some((_, (), error)) = self.requester.lost(MonotonicNs::now()) {
                return Err(error);
            }
            self.wait.wait(self.requester.deadline(), Duration::ZERO);
        }
    }

    fn look_at_events(&mut self) {
        self.requester.look_at_events();
        while let Some(event) = self.responses.poll_event() {
            log(self.service.as_str(), &event);
        }
    }

    /// Searches for the response to a request, among a limited number of samples, so that a flood
    /// of the topic does not delay the call beyond its time-out. An outcome ends the call.
    fn take(&mut self, number: u64) -> Option<Result<RawSample, CallError>> {
        for _ in 0..LOOKED_THROUGH {
            let sample = match self.responses.next_sample(Order::Oldest) {
                Ok(sample) => sample?,
                Err(e) => return Some(Err(self.requester.give_up(number, ReadError::Take(e)))),
            };
            if let Some((answered, (), outcome)) = self.requester.accept(sample)
                && answered == number
            {
                if let Ok(sample) = &outcome {
                    scope::read(sample.header());
                }
                return Some(outcome);
            }
        }
        None
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> ClientStats {
        self.requester.stats()
    }

    /// Returns both ends, for an executor; no call is in flight.
    pub(super) fn into_ends<T>(self) -> (Requester<T>, RawSubscription) {
        let Self { requester, responses, .. } = self;
        (requester.without_calls(), responses)
    }
}

/// Returns the time at which a time-out passes. A time-out beyond the range of the clock never
/// passes.
fn after(timeout: Duration) -> MonotonicNs {
    MonotonicNs(
        MonotonicNs::now().0.saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX)),
    )
}
