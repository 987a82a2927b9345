// SPDX-License-Identifier: Apache-2.0
//! Lists of publishers on their way to whoever has asked for them: `docs/protocols/network.md`,
//! section 5. They are sent by threads of their own: one that is longer than two of Zenoh's batches
//! waits for room, and over TLS it is the thread that receives which makes some.
//!
//! How long it waits is Zenoh's setting for all messages, up to a minute where samples are long and
//! links are slow. So a host is answered by one thread at a time, and what it has asked meanwhile
//! and has given up on is not answered any more: it holds up itself.

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
/// Most questions that wait: as many as there are if each of 64 hosts asks for 64 topics at once.
/// Whoever is not answered asks again.
const MAX_WAITING: usize = 4096;
/// Most bytes of a question: its key, which may have 512, and parameters, which say who asks.
/// Longer ones are not answered.
const MAX_QUESTION_LEN: usize = 1024;

/// A question for a list.
struct Question<Q> {
    /// Who asks. `None`: a gateway that does not say so, or somebody else; all of these are one to
    /// the threads.
    by: Option<HostId>,
    /// For which list.
    key: String,
    came: MonotonicNs,
    query: Q,
}

/// Questions that wait for a thread, the oldest first.
struct Waiting<Q> {
    queue: VecDeque<Question<Q>>,
    /// Who is being answered.
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

/// What a thread does next.
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

    /// The oldest question of somebody who is not just being answered, and all that ask the same
    /// for him.
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

/// What each thread does, until the handle is dropped.
fn serve<Q>(mailbox: &Mailbox<Waiting<Q>>, answer: impl Fn(Q)) {
    // Whoever else waits may be answered now; this thread looks next, so it wakes no other.
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
