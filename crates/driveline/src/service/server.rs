// SPDX-License-Identifier: Apache-2.0
//! The server's end of a service.

use super::clients::Clients;
use super::serving::Running;
use super::{
    RawResponder, ServiceCallback, ServiceError, ServiceOptions, ServiceStats, check_service,
};
use crate::context::{Node, Offer};
use crate::error::{ExecutorError, TakeError, WaitError};
use crate::event::EndpointEvent;
use crate::executor::{Attention, CallbackHandle, CallbackOptions, Executor};
use crate::options::{SubscriptionOptions, WaitMode};
use crate::raw::{RawSample, RawSubscription};
use crate::trigger::Trigger;
use driveline_types::{MonotonicNs, Qos, Reliability, Schema, ServiceName};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Maximum number of requests that one take skips: requests for another server, of departed
/// clients, or refused for lack of room.
const MAX_PASSED_OVER: usize = 1024;

/// Offers a service, of any payload kind. Use it from one thread at a time, or add it to an
/// executor. Requests and responders may outlive it. When it is dropped, its clients are notified.
pub struct RawService {
    requests: RawSubscription,
    clients: Arc<Clients>,
    offer: Offer,
}

/// Answers that clients cannot read yet, because they are not matched with the publisher of their
/// responses. This is possible at host reach, for the first answers to a client. If the server ends
/// before the match, these clients lose their answer; matched clients can read it after the
/// server's end, too. The view also works after the server was added to an executor, and does not
/// keep the server alive. Any thread.
#[derive(Clone)]
pub struct Outbox(Weak<Clients>);

impl Outbox {
    /// Returns true if no answer waits for a match. Departed clients do not count. Always true once
    /// the server is gone. Locks and allocates.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        !self.0.upgrade().is_some_and(|clients| clients.owes())
    }
}

/// A request and its responder.
pub struct RawRequest {
    /// The request, read where the client wrote it.
    pub sample: RawSample,
    /// Responder of the request.
    pub responder: RawResponder,
}

impl Node {
    /// Offers a service of any payload kind.
    ///
    /// # Errors
    /// [`ServiceError`], for example if the process offers it already, or the name or an option is
    /// not possible.
    pub fn raw_service(
        &self,
        service: &str,
        request: Schema,
        response: Schema,
        o: ServiceOptions,
    ) -> Result<RawService, ServiceError> {
        let name: ServiceName = service.parse().map_err(crate::error::EndpointError::from)?;
        check_service(service, [&request, &response], &o)?;
        let Some(offer) = self.context().offer(&name) else {
            return Err(ServiceError::Offered { service: service.to_owned() });
        };
        let requests = SubscriptionOptions {
            reach: o.reach,
            qos: Qos { depth: o.max_pending, reliability: Reliability::Reliable, ..Qos::default() },
            max_held: o.max_held,
            access: o.access.clone(),
        };
        let depth = (o.max_clients * o.max_pending).min(Qos::MAX_DEPTH);
        let topic = name.requests().map_err(crate::error::EndpointError::from)?;
        let requests = RawSubscription::with_queue(
            self.context(),
            self.node_name(),
            topic,
            request,
            requests,
            depth,
            true,
        )?;
        let clients = Arc::new(Clients::new(
            self,
            name,
            requests.short_id(),
            response,
            o,
            requests.matches(),
        ));
        Ok(RawService { requests, clients, offer })
    }
}

impl RawService {
    /// The service's name.
    #[must_use]
    pub fn service(&self) -> &ServiceName {
        &self.clients.service
    }

    /// Takes the oldest request, or returns `None`. Samples that the calling callback publishes
    /// later inherit its origins. Allocates; the first request of a client reserves the memory for
    /// its responses, which takes milliseconds for megabytes.
    ///
    /// # Errors
    /// [`TakeError`] if too many requests of a client are held; the request stays.
    pub fn take(&mut self) -> Result<Option<RawRequest>, TakeError> {
        for _ in 0..MAX_PASSED_OVER {
            let Some(sample) = self.requests.take()? else { break };
            if let Some(request) = self.clients.accept(sample) {
                return Ok(Some(request));
            }
        }
        // No request, or only skipped ones: there is time to release departed clients.
        self.clients.is_due(MonotonicNs::now());
        Ok(None)
    }

    /// Waits until a sample that may be a request arrives (`true`) or the time-out has passed
    /// (`false`). Without a time-out, it waits for ever.
    ///
    /// # Errors
    /// [`WaitError`] if the kernel refuses a resource for waiting.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool, WaitError> {
        self.requests.wait(timeout, WaitMode::Block)
    }

    /// Returns the next event of the request topic: a client was matched, departed, or does not
    /// match.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.requests.poll_event()
    }

    /// Number of clients that are matched now.
    #[must_use]
    pub fn clients(&self) -> usize {
        self.requests.matched()
    }

    /// Returns a view of answers that clients cannot read yet.
    #[must_use]
    pub fn outbox(&self) -> Outbox {
        Outbox(Arc::downgrade(&self.clients))
    }

    /// Counters since creation.
    #[must_use]
    pub fn stats(&self) -> ServiceStats {
        self.clients.stats()
    }
}

impl Executor {
    /// Adds a service to the executor, which calls `answer` with each request, oldest first. Call
    /// it before the start.
    ///
    /// # Errors
    /// [`ExecutorError`] if the executor runs already, or the kernel refuses a resource for
    /// waiting.
    pub fn add_raw_service(
        &self,
        service: RawService,
        o: ServiceCallback,
        answer: impl Fn(RawRequest) + Send + Sync + 'static,
    ) -> Result<CallbackHandle, ExecutorError> {
        let RawService { requests, clients, offer } = service;
        let running = Running::register(clients.id, self.id());
        clients.kick_on_change(&self.kicker());
        let options = CallbackOptions {
            name: o.name,
            group: o.group,
            trigger: Trigger::any(),
            inputs: vec![("requests".into(), requests)],
        };
        let attention: Arc<dyn Attention> = clients.clone();
        self.add_attentive(options, Some(attention), move |invocation| {
            // Kept as long as the callback exists.
            let _ = (&offer, &running);
            if let Some(request) = invocation.sample(0).and_then(|s| clients.accept(s.clone())) {
                let _serving = request.responder.serve();
                answer(request);
            }
        })
    }
}
