// SPDX-License-Identifier: Apache-2.0
//! Outcomes of calls and answers. The texts are for an engineer next to the car.

use crate::error::{LoanError, PublishError, ReadError};
use driveline_types::service::Outcome;
use std::time::Duration;
use thiserror::Error;

/// A call brought no response.
#[derive(Debug, Error)]
pub enum CallError {
    /// No server offers the service at this reach yet.
    #[error(
        "service '{service}': there is no server (yet); start the process that offers it, check \
         that both have the same domain and reach, and wait with wait_for_server()"
    )]
    NoServer {
        /// The service.
        service: String,
    },
    /// A server exists, but cannot be matched, for example because of another type or missing
    /// rights.
    #[error("service '{service}': its server does not match this client: {reason}; the request was \
         {}", taken(*was_taken))]
    Mismatch {
        /// The service.
        service: String,
        /// Text of the transport, with both types and their hashes where these differ.
        reason: String,
        /// True if the server had taken the request, and so may have executed it. This happens if
        /// only the response topic cannot be matched, for example because of the response's type.
        was_taken: bool,
    },
    /// The server is ambiguous: the request was not sent.
    #[error(
        "service '{service}': {} nodes offer it ({}), but a service has one server: stop the \
         others or rename their service",
        servers.len(),
        servers.join(", ")
    )]
    SeveralServers {
        /// The service.
        service: String,
        /// Their nodes.
        servers: Vec<String>,
    },
    /// The client has its maximum number of calls in flight.
    #[error(
        "service '{service}': {limit} calls are in flight, which is this client's limit; wait for \
         an outcome, or raise `pending`"
    )]
    Busy {
        /// The service.
        service: String,
        /// The client's limit.
        limit: usize,
    },
    /// The server has not taken earlier requests, and the new request would replace one of them.
    /// The new request was not sent.
    #[error(
        "service '{service}': the server '{server}' has not taken earlier requests yet, and its \
         queue is full; call less often, or check why the server is slow"
    )]
    QueueFull {
        /// The service.
        service: String,
        /// The server's node.
        server: String,
    },
    /// No response within the time-out.
    #[error("service '{service}': no response after {} ms; the request was \
         {}", after.as_millis(), taken(*was_taken))]
    TimedOut {
        /// The service.
        service: String,
        /// Time waited.
        after: Duration,
        /// True if the server had taken the request: then it may still be executed.
        was_taken: bool,
    },
    /// The server ended or died before it answered.
    #[error("service '{service}': the server went away without a response; the request was \
         {}", taken(*was_taken))]
    ServerGone {
        /// The service.
        service: String,
        /// True if the server had taken the request: then it may have executed the request. Also
        /// `false` if this is not known any more.
        was_taken: bool,
    },
    /// The server refused the request, or ended it without a response.
    #[error("service '{service}': {}: {text}", what(*outcome))]
    Refused {
        /// The service.
        service: String,
        /// Kind of refusal, or reason why there is no response.
        outcome: Outcome,
        /// The server's text.
        text: String,
    },
    /// The call would wait for a server that cannot run meanwhile.
    #[error(
        "service '{service}': its server runs on the executor whose callback calls it, and would \
         wait for this callback to end; use call_then(), or give \
         the server an executor of its own"
    )]
    WouldDeadlock {
        /// The service.
        service: String,
    },
    /// The executor that would receive the outcome has ended.
    #[error(
        "service '{service}': the executor that this client was added to is gone, so the outcome \
         could not be delivered"
    )]
    ExecutorGone {
        /// The service.
        service: String,
    },
    /// There is no memory for the request, or it is longer than `max_request`.
    #[error(
        "service '{service}': no memory for the request (its greatest length is the client's \
         max_request): {source}"
    )]
    Loan {
        /// The service.
        service: String,
        /// Error of the transport.
        source: LoanError,
    },
    /// The request could not be published.
    #[error("service '{service}': {source}")]
    Publish {
        /// The service.
        service: String,
        /// Error of the transport.
        source: PublishError,
    },
    /// The response could not be read.
    #[error("service '{service}': {source}")]
    Read {
        /// The service.
        service: String,
        /// Error of the transport or the type.
        source: ReadError,
    },
}

fn taken(was: bool) -> &'static str {
    if was { "taken, and may have been executed" } else { "not taken" }
}

fn what(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Unanswered => "the server gave no answer",
        Outcome::Panicked => "the server's callback failed",
        Outcome::NoRoom => "the server has no room",
        Outcome::Answered | Outcome::Refused | Outcome::Other(_) => "the server refused",
    }
}

/// Answering failed.
#[derive(Debug, Error)]
pub enum AnswerError {
    /// The client has ended.
    #[error("service '{service}': the client '{client}' has gone; this answer has no receiver")]
    ClientGone {
        /// The service.
        service: String,
        /// The client's node.
        client: String,
    },
    /// There is no memory for the response, or it is longer than `max_response`.
    #[error(
        "service '{service}': no memory for the response (its greatest length is the service's \
         max_response): {source}"
    )]
    Loan {
        /// The service.
        service: String,
        /// Error of the transport.
        source: LoanError,
    },
    /// The response could not be published.
    #[error("service '{service}': {source}")]
    Publish {
        /// The service.
        service: String,
        /// Error of the transport.
        source: PublishError,
    },
}

/// Refusal by a server; the client gets the text, cut to 1024 bytes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Refusal(pub String);

impl Refusal {
    /// A refusal with a text.
    #[must_use]
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}
