// SPDX-License-Identifier: Apache-2.0
//! Acknowledgements on their way to one host: `docs/protocols/network.md`, section 5. They are sent by a thread of their own, which may wait for room where the
//! threads that receive must not; what waits meanwhile becomes one for each edge.

use super::lock;
use crate::wire::{Ack, Outcome};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use zenoh::qos::{CongestionControl, Priority};
use zenoh::sample::Locality;
use zenoh::{Session, Wait};

/// Most acknowledgements that wait for one host; further ones are dropped, which the next one of the edge makes good for, or its sender's time-out.
const MAX_WAITING: usize = 1024;

/// Acknowledgements that wait for the thread, the oldest first.
#[derive(Default)]
struct Waiting(VecDeque<(String, Ack)>);

impl Waiting {
    /// One says that all before it have arrived, so it takes the place of the one before it of the same edge if both say nothing else. `false`: there is no room.
    fn push(&mut self, key: String, ack: Ack) -> bool {
        let is_full = self.0.len() >= MAX_WAITING;
        if let Some((_, last)) = self.0.iter_mut().rev().find(|(other, _)| *other == key)
            && (last.outcome, ack.outcome) == (Outcome::Published, Outcome::Published)
        {
            if ack.number >= last.number {
                *last = ack;
            }
            return true;
        }
        if !is_full {
            self.0.push_back((key, ack));
        }
        !is_full
    }
}

#[derive(Default)]
struct State {
    waiting: Waiting,
    stop: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

/// The handle. Dropping it ends the thread, after what that is just handing to Zenoh; what waits is not sent.
pub(super) struct Answers {
    shared: Arc<Shared>,
}

impl Answers {
    pub(super) fn start(session: Session) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        let of_thread = shared.clone();
        std::thread::Builder::new().name("dl-answers".into()).spawn(move || of_thread.run(&session))?;
        Ok(Arc::new(Self { shared }))
    }

    /// Has an acknowledgement sent. Waits for nothing.
    pub(super) fn send(&self, key: String, ack: Ack) {
        lock(&self.shared.state).waiting.push(key, ack);
        self.shared.changed.notify_one();
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn next(&self) -> Option<(String, Ack)> {
        let mut state = lock(&self.state);
        while !state.stop {
            if let Some(next) = state.waiting.0.pop_front() {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn run(&self, session: &Session) {
        while let Some((key, ack)) = self.next() {
            put(session, key, ack);
        }
    }
}

/// Hands an acknowledgement to Zenoh. What fails has no connection, and then the edge is parked.
fn put(session: &Session, key: String, mut ack: Ack) {
    // What it has waited is not of the way.
    ack.answered = driveline_types::MonotonicNs::now();
    let put = session.put(key, ack.encode().to_vec()).congestion_control(CongestionControl::Drop).priority(Priority::InteractiveHigh);
    let _ = put.express(true).allowed_destination(Locality::Remote).wait();
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::MonotonicNs;

    fn ack(number: u64, outcome: Outcome) -> Ack {
        Ack { outcome, accepts: 32, number, sent: MonotonicNs(number), received: MonotonicNs(0), answered: MonotonicNs(0) }
    }

    fn left(waiting: &Waiting) -> Vec<(&str, u64, Outcome)> {
        waiting.0.iter().map(|(key, ack)| (key.as_str(), ack.number, ack.outcome)).collect()
    }

    #[test]
    fn of_what_has_arrived_the_newest_acknowledgement_of_each_edge_waits() {
        let mut waiting = Waiting::default();
        for (key, number) in [("a", 1), ("b", 7), ("a", 2), ("a", 4), ("a", 3), ("b", 8)] {
            assert!(waiting.push(key.into(), ack(number, Outcome::Published)));
        }
        assert_eq!(left(&waiting), [("a", 4, Outcome::Published), ("b", 8, Outcome::Published)]);
        assert_eq!(waiting.0[0].1.sent, MonotonicNs(4), "of the sample that it is for");
    }

    #[test]
    fn what_says_more_than_that_is_sent_each_in_its_order() {
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
            assert!(waiting.push("a".into(), ack(number, outcome)));
        }
        assert_eq!(left(&waiting), said.map(|(number, outcome)| ("a", number, outcome)));
    }

    #[test]
    fn so_many_wait_and_no_more() {
        let mut waiting = Waiting::default();
        assert!((0..MAX_WAITING as u64).all(|n| waiting.push(n.to_string(), ack(n, Outcome::Published))));
        assert!(!waiting.push("one more".into(), ack(1, Outcome::Published)));
        assert!(waiting.push("7".into(), ack(9, Outcome::Published)), "it has a place already");
        assert_eq!((waiting.0.len(), waiting.0[7].1.number), (MAX_WAITING, 9));
    }
}
