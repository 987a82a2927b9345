// SPDX-License-Identifier: Apache-2.0
//! Samples of reliable publishers of another host, one after the other: which is taken, and a thread that publishes it, which may wait for readers.

use super::inlet::{Arrived, Inlet, Receiving};
use super::lock;
use crate::intake::{Entry, Intake, Queued};
use crate::wire::{HostId, Outcome, QosMark};
use driveline_types::TopicName;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError, Weak};

/// Of which host's name, publishers with which offer, of which topic.
pub(super) type LaneKey = (String, QosMark, TopicName);

/// What an acknowledgement says.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) number: u64,
}

/// The handle. Dropping it ends the thread, after what that is just publishing.
pub(super) struct Lane {
    shared: Arc<Shared>,
}

struct Shared {
    offered: QosMark,
    topic: TopicName,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Whose samples these are; another incarnation counts from elsewhere.
    from: Option<HostId>,
    /// Each with the inlet that publishes it; none where its fate is known.
    intake: Intake<(Arrived, Weak<Inlet>)>,
    stop: bool,
}

/// What is said of a sample that will not be published, where nothing is known of those before it: a final answer would say that these have arrived, too.
pub(super) fn out_of_turn(outcome: Outcome, place: u16) -> Outcome {
    if place > 1 { Outcome::NotYet } else { outcome }
}

impl State {
    /// Takes a sample into the queue, or gives what is to be said of it; neither, if that will be said or it will come again.
    fn enter(&mut self, sample: Arrived, due: Result<Weak<Inlet>, Outcome>) -> Option<(Arrived, Reply)> {
        let (number, place, len) = (sample.head.number, sample.head.place, sample.payload.len());
        if self.from.as_ref() != Some(&sample.from) {
            if let Err(outcome) = due {
                return Some((sample, Reply { outcome: out_of_turn(outcome, place), number }));
            }
            self.from = Some(sample.from.clone());
            self.intake.begin_anew();
        }
        let (fate, inlet) = due.map_or_else(|outcome| (Some(outcome), Weak::new()), |inlet| (None, inlet));
        match self.intake.enter(number, place, len, fate, (sample, inlet)) {
            Entry::Queued | Entry::Silent => None,
            Entry::Reply { what: (sample, _), outcome, number } => Some((sample, Reply { outcome, number })),
        }
    }
}

impl Lane {
    pub(super) fn start(receiving: &Arc<Receiving>, offered: QosMark, topic: TopicName) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared { offered, topic, state: Mutex::default(), changed: Condvar::new() });
        let (of_thread, receiving) = (shared.clone(), Arc::downgrade(receiving));
        std::thread::Builder::new().name("dl-inlet".into()).spawn(move || of_thread.run(&receiving))?;
        Ok(Arc::new(Self { shared }))
    }

    /// A sample has come. On Zenoh's thread.
    pub(super) fn arrives(&self, receiving: &Receiving, sample: Arrived, due: Result<Weak<Inlet>, Outcome>) {
        let Shared { offered, topic, state, changed } = &*self.shared;
        let reply = lock(state).enter(sample, due);
        match reply {
            Some((sample, reply)) => receiving.answer(&sample, *offered, topic.clone(), reply),
            None => changed.notify_one(),
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        lock(&self.shared.state).stop = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn next(&self) -> Option<Queued<(Arrived, Weak<Inlet>)>> {
        let mut state = lock(&self.state);
        while !state.stop {
            if let Some(next) = state.intake.next_in_turn() {
                return Some(next);
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn run(&self, receiving: &Weak<Receiving>) {
        while let (Some(Queued { number, place, fate, what: (sample, inlet), .. }), Some(receiving)) = (self.next(), receiving.upgrade()) {
            // An inlet that is gone may come back, or its publisher be refused, when the sample comes again.
            let outcome = fate.unwrap_or_else(|| inlet.upgrade().map_or(Outcome::NotYet, |inlet| inlet.take(&sample)));
            let mut state = lock(&self.state);
            if state.from.as_ref() == Some(&sample.from) {
                state.intake.finished(number, place, outcome);
            }
            drop(state);
            receiving.answer(&sample, self.offered, self.topic.clone(), Reply { outcome, number });
        }
    }
}
