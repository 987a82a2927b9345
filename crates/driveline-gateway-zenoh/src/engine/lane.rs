// SPDX-License-Identifier: Apache-2.0
//! Orders the samples of reliable publishers of another host. A thread publishes them, because
//! publishing may wait for readers.

use super::remote_publisher::{Arrived, Receiving, RemotePublisher};
use super::worker::{Mailbox, Worker};
use crate::receive_window::{Entry, Queued, ReceiveWindow};
use crate::wire::{HostId, Outcome, QosMark};
use driveline_types::TopicName;
use std::io;
use std::sync::{Arc, Weak};

/// Name of the host, offer of its publishers, and topic.
pub(super) type LaneKey = (String, QosMark, TopicName);

/// Content of an acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct Reply {
    pub(super) outcome: Outcome,
    pub(super) number: u64,
}

/// Handle of the thread. Dropping it ends the thread after the sample that it is publishing.
pub(super) struct Lane {
    offered: QosMark,
    topic: TopicName,
    worker: Worker<Waiting>,
}

/// Queue of the thread.
#[derive(Default)]
struct Waiting {
    /// Sending host. After a restart, the host numbers its samples differently.
    from: Option<HostId>,
    /// Samples, each with its remote publisher. The outcome of a sample without a remote publisher
    /// is known.
    receive_window: ReceiveWindow<(Arrived, Weak<RemotePublisher>)>,
}

/// Returns the outcome to send for a sample that will not be published. It is "not yet" if the
/// state of earlier samples is unknown: a final outcome would acknowledge those samples, too.
pub(super) fn out_of_turn(outcome: Outcome, place: u16) -> Outcome {
    if place > 1 { Outcome::NotYet } else { outcome }
}

impl Waiting {
    /// Queues a sample, or returns its acknowledgement to send now. Returns `None` also if the
    /// sample is being processed already, or if the queue is full: then its sender repeats it.
    fn enter(
        &mut self,
        sample: Arrived,
        due: Result<Weak<RemotePublisher>, Outcome>,
    ) -> Option<(Arrived, Reply)> {
        let (number, place, len) = (sample.head.number, sample.head.place, sample.payload.len());
        if self.from.as_ref() != Some(&sample.from) {
            if let Err(outcome) = due {
                return Some((sample, Reply { outcome: out_of_turn(outcome, place), number }));
            }
            self.from = Some(sample.from.clone());
            self.receive_window.begin_anew();
        }
        let (fate, remote_publisher) = due.map_or_else(
            |outcome| (Some(outcome), Weak::new()),
            |remote_publisher| (None, remote_publisher),
        );
        match self.receive_window.enter(number, place, len, fate, (sample, remote_publisher)) {
            Entry::Queued | Entry::Silent => None,
            Entry::Reply { what: (sample, _), outcome, number } => {
                Some((sample, Reply { outcome, number }))
            }
        }
    }
}

impl Lane {
    pub(super) fn start(
        receiving: &Arc<Receiving>,
        offered: QosMark,
        topic: TopicName,
    ) -> io::Result<Arc<Self>> {
        let (receiving, of_thread) = (Arc::downgrade(receiving), topic.clone());
        let run =
            move |mailbox: &Mailbox<Waiting>| publish(mailbox, &receiving, offered, &of_thread);
        Ok(Arc::new(Self {
            offered,
            topic,
            worker: Worker::start("dl-inlet", Waiting::default(), run)?,
        }))
    }

    /// Handles an arrived sample. Called on Zenoh's thread.
    pub(super) fn arrives(
        &self,
        receiving: &Receiving,
        sample: Arrived,
        due: Result<Weak<RemotePublisher>, Outcome>,
    ) {
        if let Some((sample, reply)) = self.worker.put(|waiting| waiting.enter(sample, due)) {
            receiving.acknowledge(&sample, self.offered, self.topic.clone(), reply);
        }
    }
}

/// Publishes queued samples until the handle is dropped.
fn publish(
    mailbox: &Mailbox<Waiting>,
    receiving: &Weak<Receiving>,
    offered: QosMark,
    topic: &TopicName,
) {
    let next = || {
        Some((mailbox.next(|waiting| waiting.receive_window.next_in_turn())?, receiving.upgrade()?))
    };
    while let Some((
        Queued { number, place, fate, what: (sample, remote_publisher), .. },
        receiving,
    )) = next()
    {
        // Without its remote publisher, the sample is to be repeated. Until then the remote
        // publisher may come back, or its publisher may be refused.
        let outcome = fate.unwrap_or_else(|| {
            remote_publisher
                .upgrade()
                .map_or(Outcome::NotYet, |remote_publisher| remote_publisher.take(&sample))
        });
        mailbox.with(|waiting| {
            if waiting.from.as_ref() == Some(&sample.from) {
                waiting.receive_window.finished(number, place, outcome);
            }
        });
        receiving.acknowledge(&sample, offered, topic.clone(), Reply { outcome, number });
    }
}
