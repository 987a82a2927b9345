// SPDX-License-Identifier: Apache-2.0
//! Answers to requests for lists of publishers: `docs/protocols/network.md`, section 5. Separate
//! threads send them. A list longer than two of Zenoh's batches waits for space, and over TLS the
//! receiving thread is the one that frees it.
//!
//! Zenoh has one time-out for all messages, up to a minute for long samples on slow links. So one
//! thread at a time answers a host, and requests that the host has given up meanwhile are dropped:
//! a slow host delays only itself.

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

/// Hosts that are answered at a time.
const THREADS: usize = 4;
/// Maximum number of pending requests: 64 hosts with 64 topics each. A dropped request is repeated
/// by its sender.
const MAX_WAITING: usize = 4096;
/// Most bytes of a question: its key, which may have 512, and parameters, which say who asks.
/// Longer ones are not answered.
const MAX_QUESTION_LEN: usize = 1024;

/// A question for a list.
struct Question<Q> {
    /// Requesting host. `None`: an older gateway or an unknown sender; the threads treat all of
    /// these as one.
    by: Option<HostId>,
    /// For which list.
    key: String,
    came: MonotonicNs,
    query: Q,
}

/// Questions that wait for a thread, the oldest first.
struct Waiting<Q> {
    queue: VecDeque<Question<Q>>,
    /// Hosts being answered.
    answered: Vec<Option<HostId>>,
    /// One was turned away since nothing waited.
    full: bool,
}

/// A question for which there is no room.
struct TurnedAway<Q> {
    query: Q,
    /// The first one.
    first: bool,
}

/// Next step of a thread.
struct Turn<Q> {
    by: Option<HostId>,
    /// To be answered, if its asker still waits for that.
    answer: Option<Q>,
    /// To be ended without an answer: the same was asked again, or its asker has given up. Here, as
    /// that may wait for room as well.
    end: Vec<Q>,
}

impl<Q> Waiting<Q> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), answered: Vec::new(), full: false }
    }

    /// Gives it back where there is no room.
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

    /// Returns the oldest request of a host that is not being answered, with all equal requests of
    /// that host.
    fn next(&mut self, now: MonotonicNs) -> Option<Turn<Q>> {
        self.full &= !self.queue.is_empty();
        let at = self.queue.iter().position(|q| !self.answered.contains(&q.by))?;
        let Question { by, key, came, query } = self.queue.remove(at)?;
        let (mut newest, mut end) = ((came, query), Vec::new());
        // Of those who do not say who they are each may be another.
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

    /// He may be answered again.
    fn done(&mut self, by: &Option<HostId>) {
        if let Some(at) = self.answered.iter().position(|answered| answered == by) {
            self.answered.swap_remove(at);
        }
    }
}

/// Body of each thread, until the handle is dropped.
fn serve<Q>(mailbox: &Mailbox<Waiting<Q>>, answer: impl Fn(Q)) {
    // Another request may be ready now; this thread checks next, so it wakes no other.
    while let Some(Turn { by, answer: query, end }) =
        mailbox.next(|waiting| waiting.next(MonotonicNs::now()))
    {
        query.into_iter().for_each(&answer);
        drop(end);
        mailbox.with(|waiting| waiting.done(&by));
    }
}

/// The handle. Dropping it ends the threads, after the list that each is just handing to Zenoh; who
/// still waits is not answered.
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

    /// Has a question answered. On Zenoh's thread, and waits for nothing. It ends no question here
    /// unless there are too many: that is said to the other host, behind the list that a thread may
    /// just be waiting with.
    pub(super) fn answer(&self, mut query: Query) {
        // Questions have neither; what strangers write there shall not wait here.
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
                self.notices.tell(format!("more than {MAX_WAITING} questions for lists of publishers wait: further ones are turned away, and other hosts repeat them"));
            }
            // Here, where nothing is locked.
            drop(query);
        }
    }
}

/// Hands the list that is asked for to Zenoh, as it is now. Who asks for anything else learns that
/// there is no answer when the question is dropped.
fn answer(keys: &Keys, lists: &Lists, query: &Query) {
    let Some(Parsed::Topic { topic, .. }) = keys.parse(query.key_expr().as_str()) else { return };
    let list = lists.read().unwrap_or_else(PoisonError::into_inner).of_topic.get(&topic).cloned();
    if let Some(list) = list {
        // Who asked has a time-out.
        let _ = query.reply(query.key_expr().clone(), list).wait();
    }
}

#[cfg(test)]
#[path = "answers_tests.rs"]
mod tests;
