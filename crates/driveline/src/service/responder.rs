// SPDX-License-Identifier: Apache-2.0
//! The one answer to one request.

use super::clients::{ClientEnd, Clients, count};
use super::error::AnswerError;
use super::tally::Fate;
use crate::error::LoanError;
use crate::local::LocalObject;
use crate::raw::{Parcel, RawLoan};
use crate::scope;
use driveline_types::header::Arrival;
use driveline_types::service::{Answer, Outcome};
use driveline_types::{Lineage, MonotonicNs, SampleHeader};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    /// The request whose callback runs on this thread: address of the [`ClientEnd`], and number of
    /// the request.
    static SERVING: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Answers one request, immediately or later, from any thread. If it is dropped unused, the client
/// gets the error that there is no answer.
///
/// Publishing an answer does not wait. It inherits the origins of the request. If another callback
/// answers later, the answer also inherits the origins of the samples that this callback has
/// consumed.
#[must_use = "if it is dropped, the client gets no answer"]
pub struct RawResponder {
    clients: Arc<Clients>,
    end: Arc<ClientEnd>,
    number: u64,
    /// Header of the request, with the origins that the answer inherits.
    header: Box<SampleHeader>,
    taken: MonotonicNs,
    done: bool,
}

/// Marks that the callback of a request runs on this thread. Callbacks nest if one runs another
/// executor.
pub(super) struct Serving((usize, u64));

impl Drop for Serving {
    fn drop(&mut self) {
        SERVING.set(self.0);
    }
}

impl RawResponder {
    pub(super) fn new(clients: Arc<Clients>, end: Arc<ClientEnd>, request: &SampleHeader) -> Self {
        Self {
            clients,
            end,
            number: request.sequence,
            header: Box::new(*request),
            taken: MonotonicNs::now(),
            done: false,
        }
    }

    fn key(&self) -> (usize, u64) {
        (Arc::as_ptr(&self.end).addr(), self.number)
    }

    /// Marks that the callback for this request begins.
    pub(super) fn serve(&self) -> Serving {
        Serving(SERVING.replace(self.key()))
    }

    /// The client's node, as it calls itself.
    #[must_use]
    pub fn client(&self) -> &str {
        &self.end.node
    }

    /// The request's number among the client's.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns true if the client is known to have gone, so that an answer is useless. One atomic
    /// load.
    #[must_use]
    pub fn client_is_gone(&self) -> bool {
        self.end.is_gone()
    }

    /// Loans memory for a response of `len` bytes (plain and bytes), to be written in place; its
    /// content is unspecified.
    ///
    /// # Errors
    /// [`AnswerError::Loan`] if it is longer than `max_response`, or if all loans for this client
    /// are out: one more than its `pending`.
    pub fn loan(&self, len: usize) -> Result<RawLoan, AnswerError> {
        self.loan_for(len).map_err(|source| AnswerError::Loan {
            service: self.clients.service.to_string(),
            source,
        })
    }

    pub(super) fn loan_for(&self, len: usize) -> Result<RawLoan, LoanError> {
        self.end.loan(len)
    }

    /// Answers with a loan of this responder.
    ///
    /// # Errors
    /// [`AnswerError`]; the client, unless it has gone, is notified that there is no answer, with
    /// the reason.
    pub fn send(self, response: RawLoan) -> Result<(), AnswerError> {
        self.send_parcel(Parcel::Loan(response))
    }

    /// Answers with a copy of `response` (bytes).
    ///
    /// # Errors
    /// [`AnswerError`]; the client, unless it has gone, is notified that there is no answer, with
    /// the reason.
    pub fn send_bytes(self, response: &[u8]) -> Result<(), AnswerError> {
        match self.loan_for(response.len()) {
            Ok(mut loan) => {
                loan.payload_mut().copy_from_slice(response);
                self.send(loan)
            }
            Err(source) => Err(self.fail(source)),
        }
    }

    /// Answers with a value (protobuf and objects).
    ///
    /// # Errors
    /// As [`Self::send`].
    pub fn send_object(self, response: Arc<dyn LocalObject>) -> Result<(), AnswerError> {
        self.send_parcel(Parcel::Object(response))
    }

    pub(super) fn send_parcel(mut self, response: Parcel) -> Result<(), AnswerError> {
        self.done = true;
        self.end.settle();
        let service = || self.clients.service.to_string();
        if self.end.is_gone() {
            count(&self.clients.counters.undelivered);
            self.clients.tally.ended(Fate::PeerGone, 1);
            return Err(AnswerError::ClientGone {
                service: service(),
                client: self.end.node.clone(),
            });
        }
        match self.publish(response, Outcome::Answered) {
            Ok(()) => {
                count(&self.clients.counters.answered);
                self.clients.tally.ended(Fate::Answered, 1);
                Ok(())
            }
            Err(error) => {
                count(&self.clients.counters.refused);
                self.clients.tally.ended(Fate::Refused, 1);
                self.send_outcome(Outcome::Unanswered, &error.to_string());
                Err(error)
            }
        }
    }

    /// Notifies the client that there is no memory for the response.
    pub(super) fn fail(self, source: LoanError) -> AnswerError {
        let error = AnswerError::Loan { service: self.clients.service.to_string(), source };
        count(&self.clients.counters.refused);
        self.clients.tally.ended(Fate::Refused, 1);
        self.end(Outcome::Unanswered, &error.to_string());
        error
    }

    /// Refuses the request; the client gets the text, cut to 1024 bytes.
    pub fn refuse(self, text: &str) {
        count(&self.clients.counters.refused);
        self.clients.tally.ended(Fate::Refused, 1);
        self.end(Outcome::Refused, text);
    }

    /// Ends the request without a response; the caller counts it.
    pub(super) fn end(mut self, outcome: Outcome, text: &str) {
        self.done = true;
        self.end.settle();
        self.send_outcome(outcome, text);
    }

    fn publish(&self, parcel: Parcel, outcome: Outcome) -> Result<(), AnswerError> {
        let _lineage = self.continue_lineage();
        let answer = Answer { request: self.number, outcome };
        let published = self.end.publish(parcel, answer);
        published.map(drop).map_err(|source| AnswerError::Publish {
            service: self.clients.service.to_string(),
            source,
        })
    }

    /// Opens a scope with the request's lineage. If a callback runs on this thread, it has a scope
    /// already: the request's lineage is added to that one, unless it is the request's own
    /// callback.
    fn continue_lineage(&self) -> Option<scope::Scope> {
        if scope::is_open() {
            if SERVING.get() != self.key() {
                scope::read(&self.header);
            }
            return None;
        }
        let mut lineage = Lineage::start(self.taken);
        lineage.inherit(&self.header, Arrival::Triggered);
        Some(scope::enter(lineage))
    }

    fn send_outcome(&self, outcome: Outcome, text: &str) {
        if self.end.is_gone() {
            count(&self.clients.counters.undelivered);
            return;
        }
        let parcel = self.end.text(self.clients.kind(), text);
        let sent = parcel
            .map_err(|e| e.to_string())
            .and_then(|p| self.publish(p, outcome).map_err(|e| e.to_string()));
        if let Err(error) = sent {
            tracing::error!(
                service = self.clients.service.as_str(),
                client = self.end.node,
                "the client cannot be sent '{text}': {error}"
            );
        }
    }
}

impl Drop for RawResponder {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        self.done = true;
        count(&self.clients.counters.refused);
        self.clients.tally.ended(Fate::Refused, 1);
        self.end.settle();
        if std::thread::panicking() {
            self.send_outcome(Outcome::Panicked, "it panicked; the server's log has more");
        } else {
            self.send_outcome(Outcome::Unanswered, "the request was let go without an answer");
        }
    }
}
