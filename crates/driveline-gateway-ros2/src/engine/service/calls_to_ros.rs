// SPDX-License-Identifier: Apache-2.0
//! A server in ROS 2, for clients in Driveline and in the other profile:
//! `docs/protocols/ros2-services.md`, section 5.
//!
//! Requests arrive on the thread of the service's executor, or on a thread of the other profile,
//! and are sent on the same thread, or over DDS queued there. Responses are passed on by the thread
//! on which they arrive. The control thread checks the time-outs.

use super::clients::{Present, Seen};
use super::counts::Counts;
use super::payload::{Ended, Held, bounded, busy, encapsulated, fitting};
use super::{Answers, Asking, Cdr, Handed, Interface, Parts, Reply, RequestId, Requests};
use crate::engine::lock;
use bytes::Bytes;
use driveline::AnswerError;
use driveline::service::{RawRequest, RawResponder};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Reason if no server exists.
pub(super) const NO_SERVER: &str = "no node in ROS 2 offers it";

/// Outcome of calls whose server has gone.
pub(super) const WENT_AWAY: &str = "the server in ROS 2 went away without a response";

/// Source of a call.
enum Origin {
    Here(Box<RawResponder>),
    Across { from: RequestId, client: Seen, reply: Box<dyn Reply> },
}

impl Origin {
    fn refuse(self, text: &str) {
        match self {
            Self::Here(responder) => responder.refuse(text),
            Self::Across { reply, .. } => reply.refuse(text),
        }
    }
}

struct Call {
    origin: Origin,
    end: Instant,
}

/// State of the client side, and calls in flight.
#[derive(Default)]
struct State {
    asking: Option<Arc<dyn Asking>>,
    /// Reason why calls are not possible now.
    problem: String,
    /// Number of the last call.
    number: i64,
    calls: HashMap<i64, Call>,
    /// Number of ended calls whose outcome is being delivered.
    handed_over: usize,
}

/// Calls of clients in Driveline and in the other profile, shared by the ends, the executor and the
/// control thread.
pub(super) struct CallsToRos {
    pub(super) of: Interface,
    timeout: Duration,
    pub(super) counts: Counts,
    pub(super) present: Present,
    state: Mutex<State>,
}

impl CallsToRos {
    pub(super) fn new(of: Interface, timeout: Duration, counts: Counts) -> Self {
        Self { of, timeout, counts, present: Present::default(), state: Mutex::default() }
    }

    /// Directs calls to this end from now on.
    pub(super) fn direct(&self, to: Arc<dyn Asking>) {
        let before = lock(&self.state).asking.replace(to);
        drop(before);
    }

    /// Refuses new calls with this reason; calls in flight may still be answered.
    pub(super) fn block(&self, problem: &str) {
        problem.clone_into(&mut lock(&self.state).problem);
    }

    /// Handles the loss of the server, or of the path to it. Pending callers get the error `what`,
    /// later callers get `problem`.
    pub(super) fn server_gone(&self, what: &str, problem: &str) {
        let mut state = lock(&self.state);
        let asking = state.asking.take();
        problem.clone_into(&mut state.problem);
        let calls = std::mem::take(&mut state.calls);
        drop(state);
        drop(asking);
        for call in calls.into_values() {
            self.end(call, "server_gone", &format!("{what}; it may have executed the request"));
        }
    }

    pub(super) fn under_way(&self) -> usize {
        lock(&self.state).calls.len() + self.counts.kept()
    }

    /// Returns true while the thread of an end is delivering the outcome of a call.
    pub(super) fn hands_over(&self) -> bool {
        lock(&self.state).handed_over > 0
    }

    /// Ends calls after their time-out. Returns the time of the next one.
    pub(super) fn end_overdue(&self, now: Instant) -> Option<Instant> {
        let mut state = lock(&self.state);
        let over: Vec<_> = state
            .calls
            .iter()
            .filter(|(_, call)| call.end <= now)
            .map(|(number, _)| *number)
            .collect();
        let over: Vec<_> = over.iter().filter_map(|number| state.calls.remove(number)).collect();
        let next = state.calls.values().map(|call| call.end).min();
        drop(state);
        for call in over {
            let text = format!(
                "no response of the server in ROS 2 within {} ms; it may have executed the \
                 request, or do so yet",
                self.timeout.as_millis()
            );
            self.end(call, "timed_out", &text);
        }
        next
    }

    fn end(&self, call: Call, reason: &'static str, text: &str) {
        self.counts.ended(reason, text);
        call.origin.refuse(text);
    }

    /// Handles a request of a Driveline client. Called on the executor's thread.
    pub(super) fn here(&self, request: RawRequest) {
        self.counts.call();
        let RawRequest { sample, responder } = request;
        let slot = Bytes::from_owner(Held(sample));
        self.ask(&slot, Some(&slot), Origin::Here(Box::new(responder)));
    }

    /// Sends a request, or refuses it.
    fn ask(&self, request: &[u8], slot: Option<&Bytes>, origin: Origin) {
        let fits = match fitting(request, "request", self.of.max_request) {
            Ok(fits) => fits,
            Err((reason, text)) => {
                return self.end(Call { origin, end: Instant::now() }, reason, &text);
            }
        };
        let call = Call { origin, end: Instant::now() + self.timeout };
        let (asking, number) = match self.note(call) {
            Ok(noted) => noted,
            Err((call, (reason, text))) => return self.end(call, reason, &text),
        };
        if let Err(e) = asking.ask(number, Parts { cdr: fits.parts(), slot }, self.timeout) {
            Answers::not_sent(self, number, &e);
        }
    }

    /// Adds a call in flight, if that is possible now.
    fn note(&self, call: Call) -> Result<(Arc<dyn Asking>, i64), (Call, Ended)> {
        let mut state = lock(&self.state);
        let asking = match state.asking.clone() {
            Some(asking) if state.problem.is_empty() => asking,
            _ => {
                let text =
                    format!("the service cannot be called in ROS 2 at present: {}", state.problem);
                return Err((call, ("no_server", text)));
            }
        };
        if state.calls.len() >= self.of.pending as usize {
            return Err((call, ("busy", busy(self.of.pending))));
        }
        state.number += 1;
        let number = state.number;
        state.calls.insert(number, call);
        Ok((asking, number))
    }

    fn answer_here(&self, responder: RawResponder, response: Cdr<'_>) {
        let mut loan = match responder.loan(response.len()) {
            Ok(loan) => loan,
            Err(e) => {
                let text = e.to_string();
                self.counts.ended(
                    if responder.client_is_gone() { "client_gone" } else { "not_sent" },
                    &text,
                );
                return responder.refuse(&text);
            }
        };
        response.copy_to(loan.payload_mut());
        if let Err((reason, text)) = encapsulated(loan.payload(), "response") {
            self.counts.ended(reason, &text);
            return responder.refuse(&text);
        }
        match responder.send(loan) {
            Ok(()) => self.counts.answered(),
            Err(e @ AnswerError::ClientGone { .. }) => {
                self.counts.ended("client_gone", &e.to_string())
            }
            Err(e) => self.counts.ended("not_sent", &e.to_string()),
        }
    }

    fn answer_across(&self, client: Seen, reply: Box<dyn Reply>, response: Cdr<'_>) {
        let [head, body] = response.0;
        let whole = if body.is_empty() { Bytes::new() } else { [head, body].concat().into() };
        let fits = match fitting(
            if body.is_empty() { head } else { &whole },
            "response",
            self.of.max_response,
        ) {
            Ok(fits) => fits,
            Err((reason, text)) => {
                self.counts.ended(reason, &text);
                return reply.refuse(&text);
            }
        };
        let gone = self.present.has_gone(client);
        match reply.answer(Parts { cdr: fits.parts(), slot: None }) {
            Ok(Handed::Kept) => {}
            _ if gone => self
                .counts
                .ended("client_gone", "the client in ROS 2 has gone before its answer came"),
            Ok(Handed::Over) => self.counts.answered(),
            Err((reason, text)) => self.counts.ended(reason, &text),
        }
    }

    /// Ends a call with `ends`; `false` if it is not in flight.
    fn take(&self, call: i64, ends: impl FnOnce(Call)) -> bool {
        let mut state = lock(&self.state);
        let Some(call) = state.calls.remove(&call) else { return false };
        state.handed_over += 1;
        drop(state);
        ends(call);
        lock(&self.state).handed_over -= 1;
        true
    }

    fn hand_over(&self, call: Call, response: Cdr<'_>) {
        if let Err((reason, text)) = bounded(response.len(), "response", self.of.max_response) {
            return self.end(call, reason, &text);
        }
        match call.origin {
            Origin::Here(responder) => self.answer_here(*responder, response),
            Origin::Across { client, reply, .. } => self.answer_across(client, reply, response),
        }
    }
}

impl Answers for CallsToRos {
    fn answered(&self, call: i64, response: Cdr<'_>) {
        if !self.take(call, |call| self.hand_over(call, response)) {
            self.counts.stray("late", "a response came when its call was over, or came twice");
        }
    }

    fn failed(&self, call: i64, text: &str) {
        let ends = |call| {
            self.end(
                call,
                "server_gone",
                &format!("the server in ROS 2: {text}; it may have executed the request"),
            )
        };
        // Zenoh reports the end of every query, also after its call has ended.
        let _ = self.take(call, ends);
    }

    fn not_sent(&self, call: i64, text: &str) {
        let _ = self.take(call, |call| {
            self.end(call, "not_sent", &format!("the request could not be sent: {text}"))
        });
    }

    fn stray(&self, reason: &'static str, text: &str) {
        self.counts.stray(reason, text);
    }
}

/// Requests of the other profile.
impl Requests for CallsToRos {
    fn request(&self, from: RequestId, request: Cdr<'_>, reply: Box<dyn Reply>) {
        self.counts.call();
        let mut state = lock(&self.state);
        let again = state.calls.values_mut().find_map(|call| match &mut call.origin {
            Origin::Across { from: asked, reply, .. } if *asked == from => Some(reply),
            _ => None,
        });
        let (mut newest, known) = (Some(reply), again.is_some());
        // The older request of the same client gets no response.
        let older =
            again.and_then(|before| newest.take().map(|reply| std::mem::replace(before, reply)));
        drop(state);
        drop(older);
        if known {
            return self.counts.ended(
                "duplicate",
                "a client has repeated a request that is in flight: it is not executed twice",
            );
        }
        let Some(reply) = newest else { return };
        let origin = Origin::Across { from, client: self.present.see(from.client), reply };
        let [head, body] = request.0;
        match body {
            [] => self.ask(head, None, origin),
            body => self.ask(&[head, body].concat(), None, origin),
        }
    }

    fn dropped(&self, reason: &'static str, text: &str) {
        self.counts.call();
        self.counts.ended(reason, text);
    }

    fn stray(&self, reason: &'static str, text: &str) {
        self.counts.stray(reason, text);
    }

    fn keep(&self) {
        self.counts.keep();
    }

    fn settled(&self, outcome: Result<(), (&'static str, &str)>) {
        self.counts.settled(outcome);
    }
}

#[cfg(test)]
#[path = "calls_to_ros_tests.rs"]
mod tests;
