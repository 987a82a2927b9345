// SPDX-License-Identifier: Apache-2.0
//! The receiving end inside the process.

use super::held::{HeldCounters, HeldToken};
use super::{LocalEnd, LocalQueue, LocalSample, LocalTopic};
use driveline_shm::Kicker;
use driveline_types::MonotonicNs;
use std::sync::Arc;
use std::time::Duration;

/// Maximum number of publishers whose sequence is remembered. Beyond this number, departed
/// publishers are forgotten, the longest silent first. Matched publishers are never forgotten.
const MAX_PUBLISHERS: usize = 256;

/// Reading position at one publisher.
struct Progress {
    publisher: u64,
    /// Last sequence that came out of the queue.
    popped: u64,
    /// Sequence of the last sample that the reader got, or else of the last sample before the
    /// match.
    returned: u64,
}

/// Counters of samples that publishers inside the process delivered. Delivered samples = taken
/// samples + the sum of these counters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LocalLedger {
    /// Samples replaced by newer ones in the queue.
    pub(crate) overwritten: u64,
    /// Unread samples that were skipped because a newer sample was taken.
    pub(crate) passed_over: u64,
    pub(crate) expired: u64,
    /// Samples that can be read now.
    pub(crate) not_read: u64,
}

/// Counts that only the reading thread knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnLocal {
    /// A sample is out of the queue and not read yet.
    pub(crate) has_head: bool,
    pub(crate) head_overwritten: u64,
    pub(crate) passed_over: u64,
    pub(crate) expired: u64,
}

impl OwnLocal {
    /// Counters until now, including changes that no read has noticed yet.
    pub(crate) fn ledger(&self, queue: &LocalQueue) -> LocalLedger {
        let replaced = self.has_head && is_replaced(queue);
        LocalLedger {
            overwritten: queue.overwritten() + self.head_overwritten + u64::from(replaced),
            passed_over: self.passed_over,
            expired: self.expired,
            not_read: queue.len() as u64 + u64::from(self.has_head && !replaced),
        }
    }
}

/// Returns true if the head counts as replaced, because the queue holds as many newer samples as
/// the depth allows. In a reliable queue the head is never replaced: publishers wait for room.
fn is_replaced(queue: &LocalQueue) -> bool {
    !queue.is_reliable() && !queue.has_room()
}

pub(crate) struct LocalReader {
    pub(crate) topic: Arc<LocalTopic>,
    pub(crate) end: Arc<LocalEnd>,
    pub(crate) queue: Arc<LocalQueue>,
    held: HeldCounters,
    /// False until the first sample is held.
    holds: bool,
    /// Reading positions by publisher, the most recently active last.
    progress: Vec<Progress>,
    /// Oldest unread sample, taken out of the queue. It counts towards the depth.
    head: Option<Arc<LocalSample>>,
    head_overwritten: u64,
    passed_over: u64,
    expired: u64,
}

impl LocalReader {
    /// `depth`: depth of the queue, for all writers together. `of_one`: maximum number of places
    /// that one writer fills.
    pub(crate) fn new(
        topic: Arc<LocalTopic>,
        end: Arc<LocalEnd>,
        depth: u32,
        of_one: u32,
        max_held: u32,
    ) -> Self {
        let reliable = end.qos.reliability == driveline_types::Reliability::Reliable;
        let queue = Arc::new(LocalQueue::new(depth, reliable));
        let keeps = (of_one + max_held) as usize;
        topic.bring_buffers(&end, keeps);
        topic.add_reader(end.clone(), queue.clone(), keeps);
        let held = HeldCounters::new(max_held);
        let progress = Vec::with_capacity(8);
        Self {
            topic,
            end,
            queue,
            held,
            holds: false,
            progress,
            head: None,
            head_overwritten: 0,
            passed_over: 0,
            expired: 0,
        }
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.head.is_some() || !self.queue.is_empty()
    }

    /// The oldest unread sample, left in place.
    pub(crate) fn peek(&mut self) -> Option<&Arc<LocalSample>> {
        if self.head_is_replaced() {
            self.head = None;
            self.head_overwritten += 1;
        }
        while self.head.is_none() {
            let sample = self.queue.pop()?;
            self.head = self.admit(sample);
        }
        self.head.as_ref()
    }

    fn head_is_replaced(&self) -> bool {
        self.head.is_some() && is_replaced(&self.queue)
    }

    /// Skips to the newest unread sample. Skipped samples never count as expired, whatever their
    /// age.
    pub(crate) fn skip_to_newest(&mut self) {
        while !self.queue.is_empty() {
            if self.head_is_replaced() {
                self.head = None;
                self.head_overwritten += 1;
            }
            self.pass_over();
            let Some(sample) = self.queue.pop() else { break };
            self.head = if self.queue.is_empty() {
                self.admit(sample)
            } else {
                self.is_new(&sample).then_some(sample)
            };
        }
    }

    /// Reserves the right to hold one more sample. `elsewhere`: number of held samples of the host
    /// transport. `Err` with the limit if no more may be held; nothing is lost then.
    pub(crate) fn acquire(&mut self, elsewhere: u32) -> Result<HeldToken, u32> {
        self.holds |= elsewhere < self.held.limit();
        self.held.acquire(elsewhere).ok_or_else(|| self.held.limit())
    }

    /// Number of samples that are held now. No atomic load before the first sample is held.
    pub(crate) fn held(&self) -> u32 {
        if self.holds { self.held.held() } else { 0 }
    }

    /// Makes the next released sample kick the wait set, as after a failed [`Self::acquire`].
    pub(crate) fn kick_at_next_release(&self) {
        let _ = self.held.release_watch().starve();
    }

    /// Takes the sample that [`Self::peek`] shows. Returns it with the number of its publisher's
    /// samples that were missed since the last one taken.
    pub(crate) fn take(&mut self) -> Option<(Arc<LocalSample>, u64)> {
        self.peek()?;
        let sample = self.head.take()?;
        let sequence = sample.header.sequence;
        let before = self.progress.iter_mut().find(|p| p.publisher == sample.publisher);
        let before = before.map_or(sequence, |p| std::mem::replace(&mut p.returned, sequence));
        Some((sample, sequence.saturating_sub(before).saturating_sub(1)))
    }

    /// Sets the kicker. It is kicked when a sample is released after a take that failed because too
    /// many samples were held.
    pub(crate) fn kick_when_given_back(&self, kicker: Kicker) {
        self.held.release_watch().set_kicker(kicker);
    }

    /// Drops the sample that [`Self::peek`] shows in favour of a newer one.
    pub(crate) fn pass_over(&mut self) {
        if self.head.take().is_some() {
            self.passed_over += 1;
        }
    }

    /// State used only by the reading thread.
    #[inline]
    pub(crate) fn own(&self) -> OwnLocal {
        OwnLocal {
            has_head: self.head.is_some(),
            head_overwritten: self.head_overwritten,
            passed_over: self.passed_over,
            expired: self.expired,
        }
    }

    /// Notes that a sample came out of the queue. Returns false if the same sample has already come
    /// out before.
    fn is_new(&mut self, sample: &LocalSample) -> bool {
        let (publisher, sequence) = (sample.publisher, sample.header.sequence);
        let mut progress = match self.progress.iter().position(|p| p.publisher == publisher) {
            Some(i) => self.progress.remove(i),
            None => {
                if self.progress.len() >= MAX_PUBLISHERS
                    && let Some(gone) =
                        self.progress.iter().position(|p| !self.end.has_writer(p.publisher))
                {
                    self.progress.remove(gone);
                }
                let before = self.end.baseline(publisher).unwrap_or(sequence - 1);
                Progress { publisher, popped: before, returned: before }
            }
        };
        let new = sequence > progress.popped;
        progress.popped = progress.popped.max(sequence);
        self.progress.push(progress);
        new
    }

    fn admit(&mut self, sample: Arc<LocalSample>) -> Option<Arc<LocalSample>> {
        if !self.is_new(&sample) {
            return None;
        }
        let age = MonotonicNs::now().since(sample.header.publish_time);
        if self.end.qos.lifespan_ms.is_some_and(|ms| age > Duration::from_millis(u64::from(ms))) {
            self.expired += 1;
            return None;
        }
        Some(sample)
    }

    /// Returns the matched writers inside the process with manual liveliness.
    pub(crate) fn manual_writers(&self) -> Vec<Arc<LocalEnd>> {
        self.topic.manual_writers_of(&self.end)
    }

    pub(crate) fn matched(&self) -> usize {
        self.topic.writers_matching(&self.end)
    }
}

impl Drop for LocalReader {
    fn drop(&mut self) {
        self.topic.remove_reader(&self.end);
        self.queue.close();
    }
}
