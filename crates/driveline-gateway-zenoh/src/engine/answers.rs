// SPDX-License-Identifier: Apache-2.0
//! Answers to requests for lists of publishers: `docs/protocols/network.md`, section 5. Separate
//! threads send the answers: a list longer than two of Zenoh's batches waits for space, and over
//! TLS only the receiving thread frees that space.
//!
//! Zenoh has one time-out for all messages, up to a minute for long samples on slow links. So each
//! host is answered by one thread at a time, and requests that the host has given up meanwhile are
//! dropped. A slow host delays only itself.

use super::incoming::{ASKED_BY, LIST_WITHIN};
use super::outgoing::Lists;
use super::worker::{Mailbox, Worker};
use crate::wire::{HostId, Keys, Parsed};
use driveline_gateway::Notices;
use driveline_types::MonotonicNs;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::query::Query;

/// Number of hosts that are answered at a time.
const THREADS: usize = 4;
/// Maximum number of pending requests: 64 hosts with 64 topics each. A dropped request is repeated
/// by its sender.
const MAX_WAITING: usize = 4096;
/// Maximum length of a request in bytes: its key, which may have 512, and parameters, which name
/// the sender. Longer requests are not answered.
const MAX_QUESTION_LEN: usize = 1024;

/// A request for a list.
struct Question<Q> {
    /// Requesting host. `None`: an older gateway or an unknown sender; the threads treat all of
    /// these as one.
    by: Option<HostId>,
    /// Key of the list.
    key: String,
    came: MonotonicNs,
    query: Q,
}

/// Pending requests, oldest first.
struct Waiting<Q> {
    queue: VecDeque<Question<Q>>,
    /// Hosts being answered.
    answered: Vec<Option<HostId>>,
    /// A request was rejected since the queue was last empty.
    full: bool,
}

/// A request that does not fit into the queue.
struct TurnedAway<Q> {
    query: Q,
    /// True for the first one since the queue was last empty.
    first: bool,
}

/// Next step of a thread.
struct Turn<Q> {
    by: Option<HostId>,
    /// Request to answer. `None`: its sender has given up.
    answer: Option<Q>,
    /// Requests to end without an answer: they were repeated, or their sender has given up. The
    /// thread ends them, because that may wait for space, too.
    end: Vec<Q>,
}

impl<Q> Waiting<Q> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), answered: Vec::new(), full: false }
    }

    /// Queues a request. Returns it if the queue is full.
    fn push(&mut self, question: Question<Q>) -> Option<TurnedAway<Q>> {
        if self.queue.len() >= MAX_WAITING {
            return Some(TurnedAway {
                query: question.query,
                first: !std::mem::replace(&mut self.full, true),
            });
        }
        self.queue.push_back(question);
        None
    }

    /// Returns the next request: the oldest one of a host that is not being answered. If that host
    /// has repeated the request, only the newest repetition is answered.
    fn next(&mut self, now: MonotonicNs) -> Option<Turn<Q>> {
        self.full &= !self.queue.is_empty();
        let at = self.queue.iter().position(|q| !self.answered.contains(&q.by))?;
        let Question { by, key, came, query } = self.queue.remove(at)?;
        let (mut newest, mut end) = ((came, query), Vec::new());
        // Requests without a sender may be of different hosts.
        if by.is_some() {
            let (same, others) = std::mem::take(&mut self.queue)
                .into_iter()
                .partition(|q| q.by == by && q.key == key);
            self.queue = others;
            for question in same {
                let older = std::mem::replace(&mut newest, (question.came, question.query));
                end.push(older.1);
            }
        }
        self.answered.push(by.clone());
        let (came, query) = newest;
        if now.since(came) < LIST_WITHIN {
            return Some(Turn { by, answer: Some(query), end });
        }
        end.push(query);
        Some(Turn { by, answer: None, end })
    }

    /// Notes that a host is no longer being answered.
    fn done(&mut self, by: &Option<HostId>) {
        if let Some(at) = self.answered.iter().position(|answered| answered == by) {
            self.answered.swap_remove(at);
        }
    }
}

/// Body of each thread, until the handle is dropped.
fn serve<Q>(mailbox: &Mailbox<Waiting<Q>>, answer: impl Fn(Q)) {
    while let Some(Turn { by, answer: query, end }) =
        mailbox.next(|waiting| waiting.next(MonotonicNs::now()))
    {
        query.into_iter().for_each(&answer);
        drop(end);
        // Wakes no other thread for the next request: this thread itself checks for it next.
        mailbox.with(|waiting| waiting.done(&by));
    }
}

/// Handle of the threads. Dropping it ends each thread after its current list. Pending requests are
/// not answered.
pub(super) struct Answers {
    worker: Worker<Waiting<Query>>,
    notices: Arc<Notices>,
}

impl Answers {
    pub(super) fn start(keys: Keys, lists: Lists, notices: Arc<Notices>) -> io::Result<Self> {
        let run = move |mailbox: &Mailbox<Waiting<Query>>| {
            serve(mailbox, |query| answer(&keys, &lists, &query))
        };
        Ok(Self {
            worker: Worker::start_several(THREADS, "dl-lists", Waiting::new(), run)?,
            notices,
        })
    }

    /// Queues a request. Called on Zenoh's thread. Does not block, except if there are too many
    /// requests or this one is too long. Then it ends this request itself, and that waits behind a
    /// list that another thread may be sending to the same host.
    pub(super) fn answer(&self, mut query: Query) {
        // Requests need no payload and no attachment. Data of unknown senders must not stay in the
        // queue.
        query.payload_mut().into_iter().for_each(|payload| *payload = ZBytes::new());
        query.attachment_mut().into_iter().for_each(|attachment| *attachment = ZBytes::new());
        let key = query.key_expr().as_str().to_owned();
        if key.len() + query.parameters().as_str().len() > MAX_QUESTION_LEN {
            return;
        }
        let by = query.parameters().get(ASKED_BY).and_then(|by| by.parse().ok());
        let question = Question { by, key, came: MonotonicNs::now(), query };
        if let Some(TurnedAway { query, first }) = self.worker.put(|waiting| waiting.push(question))
        {
            if first {
                self.notices.log(format!(
                    "more than {MAX_WAITING} requests for lists of publishers \
                     are pending: further ones are rejected, and other hosts repeat them"
                ));
            }
            // Dropped here, where no lock is held.
            drop(query);
        }
    }
}

/// Hands the current list to Zenoh. A request for anything else ends without an answer when it is
/// dropped.
fn answer(keys: &Keys, lists: &Lists, query: &Query) {
    let Some(Parsed::Topic { topic, .. }) = keys.parse(query.key_expr().as_str()) else { return };
    let list = lists.read().unwrap_or_else(PoisonError::into_inner).of_topic.get(&topic).cloned();
    if let Some(list) = list {
        // The sender of the request has a time-out.
        let _ = query.reply(query.key_expr().clone(), list).wait();
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
