// SPDX-License-Identifier: Apache-2.0
//! The receiving end inside the process.

use super::held::{HeldCounters, HeldToken};
use super::{LocalEnd, LocalQueue, LocalSample, LocalTopic};
use driveline_shm::Kicker;
use driveline_types::MonotonicNs;
use std::sync::Arc;
use std::time::Duration;

/// Most publishers whose sequence is remembered; beyond it the one not heard from for longest is forgotten.
const MAX_PUBLISHERS: usize = 256;

/// A sample that is next in line, with how many were missed before it.
pub(crate) struct Next {
    pub(crate) sample: Arc<LocalSample>,
    pub(crate) missed: u64,
}

pub(crate) struct LocalReader {
    pub(crate) topic: Arc<LocalTopic>,
    pub(crate) end: Arc<LocalEnd>,
    pub(crate) queue: Arc<LocalQueue>,
    held: HeldCounters,
    /// (publisher, its last sequence read), the most recently heard last.
    last: Vec<(u64, u64)>,
    head: Option<Next>,
    pub(crate) expired: u64,
}

impl LocalReader {
    /// `depth` is that of its queue, for all writers together, of which one writer fills at most `of_one`.
    pub(crate) fn new(topic: Arc<LocalTopic>, end: Arc<LocalEnd>, depth: u32, of_one: u32, max_held: u32) -> Self {
        let reliable = end.qos.reliability == driveline_types::Reliability::Reliable;
        let queue = Arc::new(LocalQueue::new(depth, reliable));
        let keeps = (of_one + max_held) as usize;
        topic.bring_buffers(&end, keeps);
        topic.add_reader(end.clone(), queue.clone(), keeps);
        Self { topic, end, queue, held: HeldCounters::new(max_held), last: Vec::with_capacity(8), head: None, expired: 0 }
    }

    pub(crate) fn has_unread(&self) -> bool {
        self.head.is_some() || !self.queue.is_empty()
    }

    /// The oldest unread sample, left in place.
    pub(crate) fn peek(&mut self) -> Option<&Next> {
        while self.head.is_none() {
            let sample = self.queue.pop()?;
            self.head = self.account(sample);
        }
        self.head.as_ref()
    }

    /// Skips to the newest unread sample; what it skips counts as missed.
    pub(crate) fn skip_to_newest(&mut self) {
        let mut missed = 0;
        while let Some(n) = self.peek() {
            let skipped = n.missed + 1;
            if self.queue.is_empty() {
                break;
            }
            self.head = None;
            missed += skipped;
        }
        if let Some(head) = &mut self.head {
            head.missed += missed;
        }
    }

    /// Takes the sample that [`Self::peek`] shows. `Err` with the limit if no more may be held; nothing is lost then.
    pub(crate) fn take(&mut self) -> Result<Option<(Next, HeldToken)>, u32> {
        if self.peek().is_none() {
            return Ok(None);
        }
        let token = self.held.acquire().ok_or_else(|| self.held.limit())?;
        Ok(self.head.take().map(|n| (n, token)))
    }

    /// Kicks when a sample is given back after a take that failed for too many held ones.
    pub(crate) fn kick_when_given_back(&self, kicker: Kicker) {
        self.held.room().set_kicker(kicker);
    }

    /// Drops the sample that [`Self::peek`] shows, and says how many are lost by that.
    pub(crate) fn discard(&mut self) -> u64 {
        self.head.take().map_or(0, |n| n.missed + 1)
    }

    fn account(&mut self, sample: Arc<LocalSample>) -> Option<Next> {
        let (publisher, sequence) = (sample.publisher, sample.header.sequence);
        let before = match self.last.iter().position(|(p, _)| *p == publisher) {
            Some(i) => self.last.remove(i).1,
            None => {
                if self.last.len() == MAX_PUBLISHERS {
                    self.last.remove(0);
                }
                self.end.baseline(publisher).unwrap_or(sequence - 1)
            }
        };
        self.last.push((publisher, before.max(sequence)));
        // A sample that came as history and again as delivery.
        if sequence <= before {
            return None;
        }
        let age = MonotonicNs::now().since(sample.header.publish_time);
        if self.end.qos.lifespan_ms.is_some_and(|ms| age > Duration::from_millis(u64::from(ms))) {
            self.expired += 1;
            return None;
        }
        Some(Next { missed: sequence - before - 1, sample })
    }

    /// Writers inside the process that have to give signs of life themselves.
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
