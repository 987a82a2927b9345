// SPDX-License-Identifier: Apache-2.0
//! Sends acknowledgements to one host, or to all hosts without remote publishers here:
//! `docs/protocols/network.md`, section 5. A thread sends them, because it may wait for space and
//! the receiving threads must not. Meanwhile, pending acknowledgements of one route are merged.

use super::worker::{Mailbox, Worker};
use crate::wire::{Ack, Outcome};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;
use zenoh::{Session, Wait};

/// Maximum number of pending acknowledgements to one host. Further ones are dropped and counted.
/// The next acknowledgement of the route, or the sender's time-out, makes up for a dropped one.
const MAX_WAITING: usize = 1024;

/// Pending acknowledgements, oldest first.
#[derive(Default)]
struct Waiting {
    queue: VecDeque<(String, Ack)>,
    dropped: Arc<AtomicU64>,
}

impl Waiting {
    /// Adds an acknowledgement. An acknowledgement covers all samples before it, so it replaces the
    /// pending one of its route if both have the outcome "published". If the queue is full, the new
    /// acknowledgement is dropped and counted.
    fn push(&mut self, key: String, ack: Ack) {
        if let Some((_, last)) = self.queue.iter_mut().rev().find(|(other, _)| *other == key)
            && (last.outcome, ack.outcome) == (Outcome::Published, Outcome::Published)
        {
            if ack.number >= last.number {
                *last = ack;
            }
        } else if self.queue.len() < MAX_WAITING {
            self.queue.push_back((key, ack));
        } else {
            self.dropped.fetch_add(1, Relaxed);
        }
    }
}

/// Handle of the thread. Dropping it ends the thread after its current hand-over to Zenoh. Pending
/// acknowledgements are not sent.
pub(super) struct Acknowledgements(Worker<Waiting>);

impl Acknowledgements {
    /// Starts the thread. `dropped` counts the acknowledgements that did not fit into the queue.
    pub(super) fn start(session: Session, dropped: Arc<AtomicU64>) -> io::Result<Arc<Self>> {
        let run = move |mailbox: &Mailbox<Waiting>| {
            while let Some((key, ack)) = mailbox.next(|waiting| waiting.queue.pop_front()) {
                put(&session, key, ack);
            }
        };
        Ok(Arc::new(Self(Worker::start(
            "dl-acks",
            Waiting { dropped, ..Waiting::default() },
            run,
        )?)))
    }

    /// Queues an acknowledgement. Does not block.
    pub(super) fn send(&self, key: String, ack: Ack) {
        self.0.put(|waiting| waiting.push(key, ack));
    }
}

/// Hands an acknowledgement to Zenoh. This fails without a connection. The other host then
/// parks the route anyway: it sends nothing until this host requests the topic again.
fn put(session: &Session, key: String, mut ack: Ack) {
    // The time in the queue is not part of the transit time.
    ack.answered = driveline_types::MonotonicNs::now();
    let put = session
        .put(key, ack.encode().to_vec())
        .congestion_control(CongestionControl::Drop)
        .priority(Priority::InteractiveHigh);
    let _ = put.express(true).allowed_destination(Locality::Remote).wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::MonotonicNs;

    fn ack(number: u64, outcome: Outcome) -> Ack {
        Ack {
            outcome,
            accepts: 32,
            number,
            sent: MonotonicNs(number),
            received: MonotonicNs(0),
            answered: MonotonicNs(0),
        }
    }

    fn left(waiting: &Waiting) -> Vec<(&str, u64, Outcome)> {
        waiting.queue.iter().map(|(key, ack)| (key.as_str(), ack.number, ack.outcome)).collect()
    }

    #[test]
    fn only_the_newest_acknowledgement_of_each_route_is_queued() {
        let mut waiting = Waiting::default();
        for (key, number) in [("a", 1), ("b", 7), ("a", 2), ("a", 4), ("a", 3), ("b", 8)] {
            waiting.push(key.into(), ack(number, Outcome::Published));
        }
        assert_eq!(left(&waiting), [("a", 4, Outcome::Published), ("b", 8, Outcome::Published)]);
        assert_eq!(waiting.queue[0].1.sent, MonotonicNs(4), "of the sample that it is for");
    }

    #[test]
    fn acknowledgements_with_another_outcome_are_all_sent_in_order() {
        let mut waiting = Waiting::default();
        let said = [
            (1, Outcome::Published),
            (2, Outcome::Expired),
            (3, Outcome::Published),
            (3, Outcome::Gap),
            (4, Outcome::NotYet),
            (4, Outcome::NotYet),
        ];
        for (number, outcome) in said {
            waiting.push("a".into(), ack(number, outcome));
        }
        assert_eq!(left(&waiting), said.map(|(number, outcome)| ("a", number, outcome)));
    }

    #[test]
    fn the_queue_is_limited_and_dropped_acknowledgements_are_counted() {
        let mut waiting = Waiting::default();
        (0..MAX_WAITING as u64)
            .for_each(|n| waiting.push(n.to_string(), ack(n, Outcome::Published)));
        waiting.push("7".into(), ack(9, Outcome::Published));
        assert_eq!(
            (waiting.queue[7].1.number, waiting.dropped.load(Relaxed)),
            (9, 0),
            "it has a place already"
        );
        waiting.push("one more".into(), ack(1, Outcome::Published));
        waiting.push("7".into(), ack(10, Outcome::Gap));
        assert_eq!(
            (waiting.queue.len(), waiting.queue[7].1.number, waiting.dropped.load(Relaxed)),
            (MAX_WAITING, 9, 2)
        );
    }
}
