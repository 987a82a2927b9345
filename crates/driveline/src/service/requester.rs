// SPDX-License-Identifier: Apache-2.0
//! The sending side of a client: finds the server, sends requests, and decides how calls end.

use super::error::CallError;
use super::objects::refusal_of;
use super::pending::{Call, Loss, Pending};
use super::tally::{Fate, ServiceEnd, Tally};
use super::{ClientOptions, ClientStats, pins_for};
use crate::context::Node;
use crate::error::{EndpointError, LoanError, PublishError, ReadError};
use crate::event::{EndpointEvent, Severity};
use crate::options::{PublisherOptions, SubscriptionOptions};
use crate::raw::{
    DisplacedValues, MatchedReader, Matches, Parcel, Progress, RawLoan, RawPublisher, RawSample,
    RawSubscription,
};
use driveline_shm::Kicker;
use driveline_types::service::{Answer, Outcome, ShortId};
use driveline_types::{Durability, MonotonicNs, Qos, Reliability, Schema, ServiceName};
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of requests of one client that a server holds at once.
pub(super) const MAX_REQUESTS_HELD: u32 = 8;

/// Sending side of a client. `T`: handler of a call's outcome.
pub(super) struct Requester<T> {
    service: ServiceName,
    publisher: RawPublisher,
    pending: Pending<Sent<T>>,
    stats: ClientStats,
    tally: Arc<Tally>,
    /// Reason why the last server could not be matched, while none is matched.
    mismatch: Option<String>,
    /// View of the publishers of the response topic, that is, of the server.
    responses: Matches,
    /// Reason why responses cannot arrive, although requests may have been sent.
    deaf: Option<String>,
    /// Outcomes are not delivered any more.
    closed: bool,
}

/// State of a sent request.
struct Sent<T> {
    written: u64,
    progress: Progress,
    then: T,
}

/// Server that a request can be sent to.
pub(super) struct Server {
    pub(super) id: ShortId,
    progress: Progress,
}

impl<T> Requester<T> {
    /// Creates both ends of a client.
    pub(super) fn new(
        node: &Node,
        service: &ServiceName,
        request: Schema,
        response: Schema,
        o: &ClientOptions,
    ) -> Result<(Self, RawSubscription), EndpointError> {
        let requests = PublisherOptions {
            reach: o.reach,
            // Publishing never waits: a request that would displace an unread one is not sent.
            qos: Qos {
                depth: o.pending,
                reliability: Reliability::Reliable,
                max_blocking_ms: 0,
                ..Qos::default()
            },
            max_payload: o.max_request,
            loans: 2,
            pins: pins_for(MAX_REQUESTS_HELD, &o.access),
            access: o.access.clone(),
        };
        let publisher = RawPublisher::new(
            node.context(),
            node.node_name(),
            service.requests()?,
            request,
            requests,
        )?;
        let responses = SubscriptionOptions {
            reach: o.reach,
            qos: Qos { depth: o.pending, durability: Durability::TransientLocal, ..Qos::default() },
            max_held: o.pending,
            access: o.access.clone(),
        };
        let topic = service.responses(publisher.short_id())?;
        let responses =
            RawSubscription::new(node.context(), node.node_name(), topic, response, responses)?;
        let requester = Self {
            service: service.clone(),
            publisher,
            pending: Pending::new(o.pending as usize),
            stats: ClientStats::default(),
            tally: node.tallies().of(service, ServiceEnd::Client),
            mismatch: None,
            responses: responses.matches(),
            deaf: None,
            closed: false,
        };
        Ok((requester, responses))
    }

    /// Converts the requester to another type of outcome handlers. Drops the calls in flight.
    pub(super) fn without_calls<U>(self) -> Requester<U> {
        let Self { service, publisher, pending, stats, tally, mismatch, responses, deaf, closed } =
            self;
        Requester {
            service,
            publisher,
            pending: Pending::new(pending.limit()),
            stats,
            tally,
            mismatch,
            responses,
            deaf,
            closed,
        }
    }

    pub(super) fn service(&self) -> String {
        self.service.to_string()
    }

    pub(super) fn stats(&self) -> ClientStats {
        self.stats
    }

    pub(super) fn kick_on_event(&self, kicker: &Kicker) {
        self.publisher.kick_on_event(kicker);
        self.responses.kick_on_change(kicker);
    }

    pub(super) fn loan(&mut self, len: usize) -> Result<RawLoan, LoanError> {
        self.publisher.loan(len)
    }

    /// Logs events of the publisher, and remembers why there is no server.
    pub(super) fn look_at_events(&mut self) {
        while let Some(event) = self.publisher.poll_event() {
            match &event {
                EndpointEvent::Refused { text } => self.mismatch = Some(text.clone()),
                EndpointEvent::Matched { .. } => self.mismatch = None,
                _ => {}
            }
            log(self.service.as_str(), &event);
        }
    }

    /// Returns true if there is exactly one server.
    pub(super) fn has_server(&mut self) -> bool {
        self.publisher.readers().len() == 1
    }

    /// The node of the one server.
    pub(super) fn server(&mut self) -> Result<String, CallError> {
        self.look_at_events();
        self.reader().map(|reader| reader.node)
    }

    /// The one server.
    fn reader(&mut self) -> Result<MatchedReader, CallError> {
        let mut readers = self.publisher.readers();
        let service = || self.service.to_string();
        let Some(reader) = readers.pop() else {
            return Err(match &self.mismatch {
                Some(reason) => CallError::Mismatch {
                    service: service(),
                    reason: reason.clone(),
                    was_taken: false,
                },
                None => CallError::NoServer { service: service() },
            });
        };
        if readers.is_empty() {
            return Ok(reader);
        }
        let mut servers: Vec<_> =
            readers.into_iter().map(|r| r.node).chain([reader.node]).collect();
        servers.sort();
        Err(CallError::SeveralServers { service: service(), servers })
    }

    /// Begins a call. Returns the one server, if a request can be sent to it now.
    pub(super) fn ready(&mut self) -> Result<Server, CallError> {
        self.tally.begun();
        self.reachable().inspect_err(|_| self.tally.ended(Fate::NotSent, 1))
    }

    /// Counts a begun call as not sent.
    pub(super) fn unmade(&self) {
        self.tally.ended(Fate::NotSent, 1);
    }

    fn reachable(&mut self) -> Result<Server, CallError> {
        if self.closed {
            return Err(CallError::ExecutorGone { service: self.service() });
        }
        let reader = self.reader()?;
        let service = || self.service.to_string();
        if self.pending.is_full() {
            return Err(CallError::Busy { service: service(), limit: self.pending.limit() });
        }
        if !reader.has_room {
            return Err(CallError::QueueFull { service: service(), server: reader.node });
        }
        Ok(Server { id: reader.id, progress: reader.progress })
    }

    /// Publishes a request. Drop the returned replaced values outside of locks.
    pub(super) fn send(
        &mut self,
        to: Server,
        parcel: Parcel,
        timeout: Duration,
        then: T,
    ) -> Result<(u64, DisplacedValues), CallError> {
        let sent = MonotonicNs::now();
        let published = self.publisher.publish_for_service(parcel, to.id.0);
        let displaced = self.publisher.take_displaced();
        let number = published.map_err(|source: PublishError| {
            self.unmade();
            CallError::Publish { service: self.service(), source }
        })?;
        let then = Sent { written: self.publisher.written(), progress: to.progress, then };
        self.pending.add(Call::new(number, to.id, sent, timeout, then));
        self.stats.requests += 1;
        Ok((number, displaced))
    }

    /// Notes that a response was taken and will be accepted: its call cannot be lost any more.
    pub(super) fn has_taken(&mut self, sample: &RawSample) {
        if let Some(word) = sample.header().service {
            self.pending.save(Answer::decode(word).request);
        }
    }

    /// Returns the call that a response ends, and its outcome. `None` if the response is late or
    /// invalid, which is counted.
    pub(super) fn accept(
        &mut self,
        sample: RawSample,
    ) -> Option<(u64, T, Result<RawSample, CallError>)> {
        let Some(word) = sample.header().service else {
            self.stats.stray += 1;
            return None;
        };
        let answer = Answer::decode(word);
        let Some(call) = self.pending.answered(answer.request) else {
            self.stats.late += 1;
            return None;
        };
        let result = if answer.outcome == Outcome::Answered {
            self.stats.answered += 1;
            self.tally.ended(Fate::Answered, 1);
            Ok(sample)
        } else {
            self.stats.refused += 1;
            self.tally.ended(Fate::Refused, 1);
            Err(CallError::Refused {
                service: self.service(),
                outcome: answer.outcome,
                text: refusal_of(&sample),
            })
        };
        Some((call.number, call.then.then, result))
    }

    /// Marks the calls whose server has ended, or whose response cannot arrive. Returns true if
    /// there are any. `stirred`: true if servers may have ended since the last call; if false, this
    /// is not checked. Check the responses before calling [`Self::lost`].
    pub(super) fn doom(&mut self, stirred: bool) -> bool {
        self.deaf = self.responses.misfit();
        if self.deaf.is_some() {
            return self.pending.doom(|_| false);
        }
        if !stirred {
            return false;
        }
        let there: Vec<ShortId> = self.publisher.readers().into_iter().map(|r| r.id).collect();
        self.pending.doom(|id| there.contains(&id))
    }

    /// Ends the client. Returns its calls in flight, to be dropped outside of locks.
    pub(super) fn close(&mut self) -> Vec<impl Sized + use<T>> {
        self.closed = true;
        self.stats.abandoned += self.pending.len() as u64;
        self.tally.ended(Fate::PeerGone, self.pending.len() as u64);
        self.pending.clear()
    }

    /// Returns the next call that ends without a response.
    pub(super) fn lost(&mut self, now: MonotonicNs) -> Option<(u64, T, CallError)> {
        let (call, loss) = self.pending.lost(now)?;
        let was_taken = call.then.progress.has_reached(call.number, call.then.written);
        let service = self.service();
        let error = match loss {
            Loss::TimedOut => {
                self.stats.timed_out += 1;
                self.tally.ended(Fate::TimedOut, 1);
                CallError::TimedOut { service, after: now.since(call.sent), was_taken }
            }
            Loss::ServerGone => {
                self.stats.server_gone += 1;
                self.tally.ended(Fate::PeerGone, 1);
                match &self.deaf {
                    Some(reason) => {
                        CallError::Mismatch { service, reason: reason.clone(), was_taken }
                    }
                    None => CallError::ServerGone { service, was_taken },
                }
            }
        };
        Some((call.number, call.then.then, error))
    }

    /// Gives up a call whose response cannot be read.
    pub(super) fn give_up(&mut self, number: u64, source: ReadError) -> CallError {
        if self.pending.answered(number).is_some() {
            self.stats.abandoned += 1;
            self.tally.ended(Fate::PeerGone, 1);
        }
        CallError::Read { service: self.service(), source }
    }

    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    pub(super) fn deadline(&self) -> Option<MonotonicNs> {
        self.pending.deadline()
    }

    pub(super) fn publisher(&self) -> &RawPublisher {
        &self.publisher
    }
}

pub(super) fn log(service: &str, event: &EndpointEvent) {
    match event.severity() {
        Severity::Error => tracing::error!(service, "{event}"),
        Severity::Warning => tracing::warn!(service, "{event}"),
        Severity::Info => tracing::debug!(service, "{event}"),
    }
}
