// SPDX-License-Identifier: Apache-2.0
//! Queue of a topic's samples for its thread, in the order of each publisher: the history that a
//! publisher keeps for late joiners precedes its new samples.
//!
//! zenoh-ext orders samples as well, but requests history twice: of all publishers, and of each. If
//! the answers overlap, it delivers the newest sample first and drops older ones as duplicates.

use crate::engine::endpoint::{Handle, handle_of};
use crate::engine::lock;
use crate::engine::waiting::Signal;
use crate::qos::ReaderClass;
use crate::rmw_zenoh::Attachment;
use driveline_types::Durability;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use zenoh::bytes::ZBytes;
use zenoh::sample::Sample;

/// Maximum time that samples of a publisher with history wait for that history, or for the
/// publisher's announcement. They wait for the announcement only while half of the queue is free of
/// waiting samples.
pub(in crate::engine) const HELD_WITHIN: Duration = Duration::from_secs(2);

/// An arrived sample.
pub(in crate::engine) struct Arrived {
    pub(in crate::engine) class: ReaderClass,
    pub(in crate::engine) attachment: Attachment,
    /// The payload; or its length, if it is longer than any sample that may wait.
    pub(in crate::engine) payload: Result<ZBytes, usize>,
    /// Number of samples of its publisher that found no space since one was taken.
    pub(in crate::engine) rejected: u64,
}

/// Maximum number of publishers with their own count of rejected samples; those of others are
/// counted for the topic only.
const MAX_REJECTED: usize = 1024;

/// Samples of a publisher whose history is not complete yet, by number.
struct Held {
    samples: BTreeMap<i64, Arrived>,
    until: Instant,
    /// Number of the awaited history, if any. If the publisher has returned, its history was
    /// requested again, and the end of the earlier history must not release these samples.
    awaits: Option<u64>,
}

#[derive(Default)]
struct Queue {
    arrived: VecDeque<Arrived>,
    held: HashMap<Handle, Held>,
    /// Number of samples in `held`.
    holds: usize,
    /// Publishers whose history is complete, or was not requested.
    complete: HashSet<Handle>,
    /// Number of histories awaited so far.
    histories: u64,
    rejected: u64,
    /// Number of rejected samples of each publisher, since one of its samples was taken.
    rejected_of: HashMap<Handle, u64>,
    malformed: u64,
}

impl Queue {
    /// Returns the held samples of a transient-local publisher if a new sample of it has to wait
    /// for its history, else `None`. Samples of an unannounced publisher wait only while there is
    /// `room`.
    fn waits(
        &mut self,
        publisher: Handle,
        class: ReaderClass,
        room: bool,
        now: Instant,
    ) -> Option<&mut Held> {
        if class.durability == Durability::Volatile || self.complete.contains(&publisher) {
            return None;
        }
        if !room && self.held.get(&publisher).is_none_or(|held| held.awaits.is_none()) {
            return None;
        }
        Some(self.held.entry(publisher).or_insert_with(|| Held {
            samples: BTreeMap::new(),
            until: now + HELD_WITHIN,
            awaits: None,
        }))
    }

    /// Passes on the held samples of a publisher, in order.
    fn release(&mut self, publisher: Handle) {
        let Some(held) = self.held.remove(&publisher) else { return };
        self.holds -= held.samples.len();
        self.arrived.extend(held.samples.into_values());
        if held.awaits.is_some() {
            self.complete.insert(publisher);
        }
    }

    fn release_late(&mut self, now: Instant) {
        let late: Vec<_> = self
            .held
            .iter()
            .filter(|(_, held)| held.until <= now)
            .map(|(publisher, _)| *publisher)
            .collect();
        late.into_iter().for_each(|publisher| self.release(publisher));
    }
}

/// Samples of a topic that wait for its thread. Thread-safe; no call blocks.
pub(in crate::engine) struct Inbox {
    queue: Mutex<Queue>,
    limit: usize,
    longest: usize,
    pub(in crate::engine) signal: Signal,
}

impl Inbox {
    /// Makes an inbox for at most `limit` samples of at most `longest` bytes.
    pub(in crate::engine) fn new(limit: usize, longest: usize) -> Self {
        Self { queue: Mutex::default(), limit, longest, signal: Signal::default() }
    }

    pub(in crate::engine) fn limit(&self) -> usize {
        self.limit
    }

    /// Queues a sample. Called on Zenoh's thread. Samples for which `passes_over` returns true are
    /// ignored.
    pub(super) fn sample(
        &self,
        class: ReaderClass,
        passes_over: impl FnOnce(&Attachment) -> bool,
        sample: &Sample,
    ) {
        let bytes =
            sample.attachment().filter(|a| a.len() == Attachment::LEN).map(ZBytes::to_bytes);
        let Some(attachment) = bytes.and_then(|bytes| Attachment::decode(&bytes).ok()) else {
            lock(&self.queue).malformed += 1;
            return self.signal.raise();
        };
        if passes_over(&attachment) {
            return;
        }
        // Zenoh has one limit for all topics, so the limit of this topic is checked here.
        let payload = Some(sample.payload())
            .filter(|p| p.len() <= self.longest)
            .cloned()
            .ok_or(sample.payload().len());
        self.put(Arrived { class, attachment, payload, rejected: 0 }, Instant::now());
    }

    fn put(&self, arrived: Arrived, now: Instant) {
        let (publisher, number) = (handle_of(&arrived.attachment.gid), arrived.attachment.sequence);
        let mut queue = lock(&self.queue);
        if queue.arrived.len() + queue.holds >= self.limit {
            queue.rejected += 1;
            if queue.rejected_of.len() < MAX_REJECTED || queue.rejected_of.contains_key(&publisher)
            {
                *queue.rejected_of.entry(publisher).or_default() += 1;
            }
            drop(queue);
            return self.signal.raise();
        }
        let room = queue.holds < self.limit / 2;
        if let Some(held) = queue.waits(publisher, arrived.class, room, now) {
            // It may arrive twice: as history and live.
            let is_new = held.samples.insert(number, arrived).is_none();
            queue.holds += usize::from(is_new);
        } else {
            queue.arrived.push_back(arrived);
        }
        drop(queue);
        self.signal.raise();
    }

    /// Makes the samples of a publisher wait for its history, until the result is dropped, at most
    /// for [`HELD_WITHIN`].
    pub(super) fn awaits(self: &Arc<Self>, publisher: Handle, now: Instant) -> Awaited {
        let mut queue = lock(&self.queue);
        queue.histories += 1;
        queue.complete.remove(&publisher);
        let (history, until) = (queue.histories, now + HELD_WITHIN);
        let held = queue.held.entry(publisher).or_insert_with(|| Held {
            samples: BTreeMap::new(),
            until,
            awaits: None,
        });
        (held.until, held.awaits) = (until, Some(history));
        Awaited { inbox: self.clone(), publisher, history }
    }

    /// Stops holding a publisher's samples back for its history, because the publisher is refused
    /// or gone.
    pub(in crate::engine) fn waits_no_more(&self, publisher: Handle) {
        let mut queue = lock(&self.queue);
        queue.release(publisher);
        queue.complete.insert(publisher);
        drop(queue);
        self.signal.raise();
    }

    /// Handles the end of a publisher. If the publisher returns, its samples wait for its history
    /// again.
    pub(in crate::engine) fn parted(&self, publisher: Handle) {
        let mut queue = lock(&self.queue);
        queue.release(publisher);
        queue.complete.remove(&publisher);
        queue.rejected_of.remove(&publisher);
        drop(queue);
        self.signal.raise();
    }

    pub(in crate::engine) fn take(&self) -> Option<Arrived> {
        self.take_at(Instant::now())
    }

    fn take_at(&self, now: Instant) -> Option<Arrived> {
        let mut queue = lock(&self.queue);
        if !queue.held.is_empty() {
            queue.release_late(now);
        }
        let mut arrived = queue.arrived.pop_front()?;
        if !queue.rejected_of.is_empty() {
            arrived.rejected =
                queue.rejected_of.remove(&handle_of(&arrived.attachment.gid)).unwrap_or(0);
        }
        Some(arrived)
    }

    /// Number of samples rejected for lack of space, and of those without a readable attachment.
    pub(in crate::engine) fn losses(&self) -> (u64, u64) {
        let queue = lock(&self.queue);
        (queue.rejected, queue.malformed)
    }
}

/// History of a publisher. It is complete when this value is dropped.
pub(super) struct Awaited {
    inbox: Arc<Inbox>,
    publisher: Handle,
    history: u64,
}

impl Awaited {
    /// Queues a sample of the history, which may be of another publisher. Called on Zenoh's thread.
    pub(super) fn sample(&self, class: ReaderClass, sample: &Sample) {
        self.inbox.sample(class, |attachment| handle_of(&attachment.gid) != self.publisher, sample);
    }
}

impl Drop for Awaited {
    fn drop(&mut self) {
        let mut queue = lock(&self.inbox.queue);
        if queue.held.get(&self.publisher).is_some_and(|held| held.awaits == Some(self.history)) {
            queue.release(self.publisher);
        }
        drop(queue);
        self.inbox.signal.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_types::Reliability;

    const LASTING: ReaderClass =
        ReaderClass::new(Reliability::Reliable, Durability::TransientLocal);
    const VOLATILE: ReaderClass = ReaderClass::new(Reliability::Reliable, Durability::Volatile);

    fn came(inbox: &Inbox, class: ReaderClass, publisher: u8, number: i64, now: Instant) {
        let attachment = Attachment { sequence: number, source_timestamp: 0, gid: [publisher; 16] };
        inbox.put(
            Arrived { class, attachment, payload: Ok(ZBytes::from([publisher])), rejected: 0 },
            now,
        );
    }

    fn taken(inbox: &Inbox, now: Instant) -> Vec<(u8, i64)> {
        std::iter::from_fn(|| inbox.take_at(now))
            .map(|a| (a.attachment.gid[0], a.attachment.sequence))
            .collect()
    }

    #[test]
    fn history_goes_before_newer_samples_and_no_other_publisher_waits() {
        let (inbox, now) = (Arc::new(Inbox::new(100, 100)), Instant::now());
        came(&inbox, LASTING, 1, 3, now);
        let history = inbox.awaits(handle_of(&[1; 16]), now);
        came(&inbox, VOLATILE, 2, 7, now);
        [4, 2, 3].into_iter().for_each(|number| came(&inbox, LASTING, 1, number, now));
        assert_eq!(taken(&inbox, now), [(2, 7)]);
        drop(history);
        assert_eq!(taken(&inbox, now), [(1, 2), (1, 3), (1, 4)]);
        came(&inbox, LASTING, 1, 5, now);
        assert_eq!(taken(&inbox, now), [(1, 5)]);
    }

    #[test]
    fn a_returning_publisher_has_a_new_history_and_its_old_one_ends_nothing() {
        let (inbox, now, publisher) =
            (Arc::new(Inbox::new(100, 100)), Instant::now(), handle_of(&[1; 16]));
        let first = inbox.awaits(publisher, now);
        let second = inbox.awaits(publisher, now);
        came(&inbox, LASTING, 1, 2, now);
        drop(first);
        assert!(taken(&inbox, now).is_empty());
        came(&inbox, LASTING, 1, 1, now);
        drop(second);
        assert_eq!(taken(&inbox, now), [(1, 1), (1, 2)]);
        inbox.parted(publisher);
        came(&inbox, LASTING, 1, 4, now);
        assert!(taken(&inbox, now).is_empty());
        let third = inbox.awaits(publisher, now);
        came(&inbox, LASTING, 1, 3, now);
        drop(third);
        assert_eq!(taken(&inbox, now), [(1, 3), (1, 4)]);
    }

    #[test]
    fn the_wait_for_a_history_or_an_announcement_is_limited() {
        let (inbox, now, late) = (
            Arc::new(Inbox::new(100, 100)),
            Instant::now(),
            // time: passed to the inbox; no test waits for it
            Instant::now() + HELD_WITHIN + Duration::from_secs(1),
        );
        let history = inbox.awaits(handle_of(&[1; 16]), now);
        came(&inbox, LASTING, 1, 5, now);
        came(&inbox, LASTING, 2, 1, now);
        assert!(taken(&inbox, now).is_empty());
        let mut all = taken(&inbox, late);
        all.sort_unstable();
        assert_eq!(all, [(1, 5), (2, 1)]);
        came(&inbox, LASTING, 1, 6, late);
        came(&inbox, LASTING, 2, 2, late);
        assert_eq!(taken(&inbox, late), [(1, 6)], "no history of the other one was requested");
        drop(history);
        assert!(taken(&inbox, late).is_empty());
    }

    #[test]
    fn refused_and_unknown_publishers_take_no_space_from_others() {
        let (inbox, now) = (Arc::new(Inbox::new(10, 100)), Instant::now());
        (1..=7).for_each(|number| came(&inbox, LASTING, 1, number, now));
        assert_eq!(
            taken(&inbox, now),
            [(1, 6), (1, 7)],
            "half of the space is reserved for announced publishers"
        );
        let history = inbox.awaits(handle_of(&[2; 16]), now);
        came(&inbox, LASTING, 2, 1, now);
        assert!(taken(&inbox, now).is_empty());
        inbox.waits_no_more(handle_of(&[1; 16]));
        came(&inbox, LASTING, 1, 8, now);
        assert_eq!(taken(&inbox, now), [(1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (1, 8)]);
        inbox.parted(handle_of(&[2; 16]));
        assert_eq!(taken(&inbox, now), [(2, 1)]);
        drop(history);
        let queue = lock(&inbox.queue);
        assert_eq!(
            (queue.held.len(), queue.holds, queue.complete.len()),
            (0, 0, 1),
            "only publishers that wait for nothing are remembered"
        );
    }

    #[test]
    fn samples_without_space_are_reported_once_with_their_publisher() {
        let (inbox, now) = (Arc::new(Inbox::new(2, 100)), Instant::now());
        (1..=5).for_each(|number| came(&inbox, VOLATILE, 1, number, now));
        (1..=2).for_each(|number| came(&inbox, VOLATILE, 2, number, now));
        let take =
            || inbox.take_at(now).map(|a| (a.attachment.gid[0], a.attachment.sequence, a.rejected));
        assert_eq!([take(), take(), take()], [Some((1, 1, 3)), Some((1, 2, 0)), None]);
        came(&inbox, VOLATILE, 2, 3, now);
        assert_eq!((take(), inbox.losses()), (Some((2, 3, 2)), (5, 0)));
    }

    #[test]
    fn held_samples_count_against_the_limit() {
        let (inbox, now) = (Arc::new(Inbox::new(3, 100)), Instant::now());
        let history = inbox.awaits(handle_of(&[1; 16]), now);
        (1..=5).for_each(|number| came(&inbox, LASTING, 1, number, now));
        came(&inbox, VOLATILE, 2, 1, now);
        assert_eq!(inbox.losses(), (3, 0));
        drop(history);
        assert_eq!(taken(&inbox, now), [(1, 1), (1, 2), (1, 3)]);
        came(&inbox, VOLATILE, 2, 2, now);
        assert_eq!((taken(&inbox, now), inbox.losses()), (vec![(2, 2)], (3, 0)));
    }
}
