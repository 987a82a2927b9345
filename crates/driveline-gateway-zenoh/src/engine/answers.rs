// SPDX-License-Identifier: Apache-2.0
//! Lists of publishers on their way to whoever has asked for them: `docs/protocols/network.md`, section 5. They are sent by a thread of their own: one that is longer than
//! two of Zenoh's batches waits for room, and over TLS it is the thread that receives which makes some.

use super::outgoing::Lists;
use super::worker::{Mailbox, Worker};
use crate::wire::{Keys, Parsed};
use driveline_runtime::gateway::Notices;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, PoisonError};
use zenoh::Wait;
use zenoh::bytes::ZBytes;
use zenoh::query::Query;

/// Most questions that wait: as many as there are if each of 64 hosts asks for 64 topics at once. Whoever is not answered asks again.
const MAX_WAITING: usize = 4096;
/// Most bytes of a question: its key, which may have 512, and parameters, which ours have none of. Longer ones are not answered.
const MAX_QUESTION_LEN: usize = 1024;

/// Questions that wait for the thread, the oldest first.
struct Waiting<Q> {
    queue: VecDeque<Q>,
    /// One was turned away since nothing waited.
    full: bool,
}

/// A question for which there is no room.
struct TurnedAway<Q> {
    question: Q,
    /// The first one.
    first: bool,
}

impl<Q> Waiting<Q> {
    fn new() -> Self {
        Self { queue: VecDeque::new(), full: false }
    }

    /// Gives it back where there is no room.
    fn push(&mut self, question: Q) -> Option<TurnedAway<Q>> {
        if self.queue.len() >= MAX_WAITING {
            return Some(TurnedAway { question, first: !std::mem::replace(&mut self.full, true) });
        }
        self.queue.push_back(question);
        None
    }

    fn next(&mut self) -> Option<Q> {
        let next = self.queue.pop_front();
        self.full &= next.is_some();
        next
    }
}

/// The handle. Dropping it ends the thread, after the list that it is just handing to Zenoh; who still waits is not answered.
pub(super) struct Answers {
    worker: Worker<Waiting<Query>>,
    notices: Arc<Notices>,
}

impl Answers {
    pub(super) fn start(keys: Keys, lists: Lists, notices: Arc<Notices>) -> io::Result<Self> {
        let run = move |mailbox: &Mailbox<Waiting<Query>>| {
            while let Some(query) = mailbox.next(Waiting::next) {
                answer(&keys, &lists, &query);
            }
        };
        Ok(Self { worker: Worker::start("dl-lists", Waiting::new(), run)?, notices })
    }

    /// Has a question answered. On Zenoh's thread, and waits for nothing. It ends no question here unless there are too many: that is said to the other host, behind the
    /// list that the thread may just be waiting with.
    pub(super) fn answer(&self, mut query: Query) {
        // Questions have neither; what strangers write there shall not wait here.
        query.payload_mut().into_iter().for_each(|payload| *payload = ZBytes::new());
        query.attachment_mut().into_iter().for_each(|attachment| *attachment = ZBytes::new());
        if query.key_expr().as_str().len() + query.parameters().as_str().len() > MAX_QUESTION_LEN {
            return;
        }
        if let Some(TurnedAway { question, first }) = self.worker.put(|waiting| waiting.push(query)) {
            if first {
                self.notices.tell(format!("more than {MAX_WAITING} questions for lists of publishers wait: further ones are turned away, and other hosts repeat them"));
            }
            // Here, where nothing is locked.
            drop(question);
        }
    }
}

/// Hands the list that is asked for to Zenoh, as it is now. Who asks for anything else learns that there is no answer when the question is dropped.
fn answer(keys: &Keys, lists: &Lists, query: &Query) {
    let Some(Parsed::Topic { topic, .. }) = keys.parse(query.key_expr().as_str()) else { return };
    let list = lists.read().unwrap_or_else(PoisonError::into_inner).of_topic.get(&topic).cloned();
    if let Some(list) = list {
        // Who asked has a time-out.
        let _ = query.reply(query.key_expr().clone(), list).wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_questions_wait_in_order_and_it_is_told_once_that_there_are_more() {
        let mut waiting = Waiting::new();
        assert!((0..MAX_WAITING).all(|n| waiting.push(n).is_none()));
        let turned_away = |waiting: &mut Waiting<usize>, n| waiting.push(n).map(|t| (t.question, t.first));
        assert_eq!([turned_away(&mut waiting, 7), turned_away(&mut waiting, 8)], [Some((7, true)), Some((8, false))]);
        assert_eq!(waiting.next(), Some(0));
        assert!(waiting.push(9).is_none());
        assert_eq!(turned_away(&mut waiting, 10), Some((10, false)), "there were never few of them");
        let rest: Vec<_> = std::iter::from_fn(|| waiting.next()).collect();
        assert_eq!(rest, (1..MAX_WAITING).chain([9]).collect::<Vec<_>>());
        assert!((0..MAX_WAITING).all(|n| waiting.push(n).is_none()));
        assert_eq!(turned_away(&mut waiting, 11), Some((11, true)));
    }
}
