// SPDX-License-Identifier: Apache-2.0
//! The sending end inside the process.

use super::topic::{Recipient, Writer};
use super::{AlignedBytes, Body, LocalEnd, LocalObject, LocalSample, LocalTopic, Peer};
use crate::error::LoanError;
use crate::raw::reliable_timeout;
use crossbeam_queue::ArrayQueue;
use driveline_types::{Durability, MonotonicNs, SampleHeader};
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A buffer that only its holder sees; dropped unpublished, it goes back to the pool.
pub(crate) struct LocalLoan {
    sample: Option<Arc<LocalSample>>,
    home: Arc<ArrayQueue<Arc<LocalSample>>>,
    pub(crate) publisher: u64,
}

impl LocalLoan {
    pub(crate) fn payload(&self) -> &[u8] {
        self.sample.as_ref().and_then(|s| s.payload()).unwrap_or_default()
    }

    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        // The holder of a loan is the sample's only owner, so `get_mut` succeeds.
        match self.sample.as_mut().and_then(Arc::get_mut).map(|s| &mut s.body) {
            Some(Body::Bytes { buffer, len }) => {
                let len = *len;
                buffer.as_bytes_mut().get_mut(..len).unwrap_or_default()
            }
            _ => &mut [],
        }
    }

    pub(crate) fn shrink(&mut self, to: usize) {
        if let Some(Body::Bytes { len, .. }) =
            self.sample.as_mut().and_then(Arc::get_mut).map(|s| &mut s.body)
        {
            *len = to.min(*len);
        }
    }
}

impl Drop for LocalLoan {
    fn drop(&mut self) {
        if let Some(sample) = self.sample.take() {
            // Cannot fail: `home` has room for every loan.
            let _ = self.home.push(sample);
        }
    }
}

pub(crate) struct LocalPublisher {
    topic: Arc<LocalTopic>,
    pub(crate) end: Arc<LocalEnd>,
    readers: Vec<Recipient>,
    seen_generation: u64,
    pool: Vec<Arc<LocalSample>>,
    returned: Arc<ArrayQueue<Arc<LocalSample>>>,
    capacity: usize,
    out: usize,
    loans: u32,
    pub(crate) next_sequence: u64,
}

impl LocalPublisher {
    /// Reserves the buffers for its loans, its history and the existing readers.
    pub(crate) fn new(topic: Arc<LocalTopic>, end: Arc<LocalEnd>, loans: u32) -> Self {
        topic.add_writer(Writer { end: end.clone(), retained: VecDeque::new() });
        let mut publisher = Self {
            topic,
            end,
            readers: Vec::new(),
            seen_generation: 0,
            pool: Vec::new(),
            returned: Arc::new(ArrayQueue::new(loans as usize + 1)),
            capacity: 0,
            out: 0,
            loans,
            next_sequence: 1,
        };
        publisher.refresh();
        if publisher.end.buffer_len > 0 {
            while publisher.pool.len() < publisher.capacity {
                publisher.pool.push(publisher.fresh());
            }
        }
        publisher
    }

    /// Bytes that [`Self::new`] reserves.
    pub(crate) fn memory_for(topic: &LocalTopic, end: &LocalEnd, loans: u32) -> u64 {
        let held: usize = topic.readers_of(end).iter().map(|r| r.reader.keeps).sum();
        (loans as usize + kept(end) + held + 1) as u64 * end.buffer_len as u64
    }

    fn fresh(&self) -> Arc<LocalSample> {
        self.sample_in(AlignedBytes::zeroed(self.end.buffer_len))
    }

    fn sample_in(&self, buffer: AlignedBytes) -> Arc<LocalSample> {
        Arc::new(LocalSample {
            header: SampleHeader::default(),
            publisher: self.end.id,
            strength: self.end.qos.strength.unwrap_or(0),
            body: Body::Bytes { buffer, len: 0 },
        })
    }

    pub(crate) fn matched(&mut self) -> usize {
        self.refresh();
        self.readers.len()
    }

    /// Returns the readers that are matched now.
    pub(crate) fn peers(&self) -> Vec<Peer> {
        self.topic.reading_peers(&self.end)
    }

    /// Reads the list of readers again if it changed, and grows the pool for all samples that they
    /// may keep.
    fn refresh(&mut self) {
        let generation = self.topic.generation();
        if generation == self.seen_generation {
            return;
        }
        self.seen_generation = generation;
        self.readers = self.topic.readers_of(&self.end);
        let held: usize = self.readers.iter().map(|r| r.reader.keeps).sum();
        let wanted = self.loans as usize + self.kept() + held + 1;
        self.capacity = self.capacity.max(wanted);
        for buffer in self.end.take_spare() {
            if self.pool.len() + self.out < self.capacity {
                self.pool.push(self.sample_in(buffer));
            }
        }
    }

    fn kept(&self) -> usize {
        kept(&self.end)
    }

    pub(crate) fn loan(&mut self, len: usize) -> Result<LocalLoan, LoanError> {
        if len > self.end.buffer_len {
            return Err(LoanError::TooLong {
                topic: self.topic.name.to_string(),
                requested: len,
                limit: self.end.buffer_len,
            });
        }
        self.refresh();
        while let Some(sample) = self.returned.pop() {
            self.out = self.out.saturating_sub(1);
            self.pool.push(sample);
        }
        if self.out >= self.loans as usize {
            return Err(LoanError::AllOut {
                topic: self.topic.name.to_string(),
                limit: self.loans,
            });
        }
        let free = self.pool.iter_mut().position(|s| Arc::get_mut(s).is_some());
        let mut sample = match free {
            Some(i) => self.pool.swap_remove(i),
            // Happens only if a reader and this publisher were created at the same time, and
            // neither saw the other.
            None if self.pool.len() + self.out < self.capacity => self.fresh(),
            None => {
                return Err(LoanError::AllHeld {
                    topic: self.topic.name.to_string(),
                    buffers: self.capacity,
                });
            }
        };
        if let Some(Body::Bytes { len: l, .. }) = Arc::get_mut(&mut sample).map(|s| &mut s.body) {
            *l = len;
        }
        self.out += 1;
        Ok(LocalLoan { sample: Some(sample), home: self.returned.clone(), publisher: self.end.id })
    }

    pub(crate) fn publish_loan(&mut self, mut loan: LocalLoan, header: &SampleHeader) -> Delivery {
        let Some(mut sample) = loan.sample.take() else { return Delivery::default() };
        self.out = self.out.saturating_sub(1);
        if let Some(s) = Arc::get_mut(&mut sample) {
            s.header.copy_from(header);
        }
        self.pool.push(sample.clone());
        self.deliver(&sample)
    }

    pub(crate) fn publish_object(
        &mut self,
        object: Arc<dyn LocalObject>,
        header: &SampleHeader,
    ) -> Delivery {
        let sample = Arc::new(LocalSample {
            header: *header,
            publisher: self.end.id,
            strength: self.end.qos.strength.unwrap_or(0),
            body: Body::Object(object),
        });
        self.deliver(&sample)
    }

    fn deliver(&mut self, sample: &Arc<LocalSample>) -> Delivery {
        self.next_sequence += 1;
        self.end.published.store(sample.header.sequence, Ordering::Release);
        self.end.has_published(sample.header.publish_time);
        let kept = self.kept();
        let mut delivery = Delivery::default();
        if kept > 0 {
            delivery.displace(self.topic.retain(&self.end, sample, kept));
        }
        self.refresh();
        let (end, blocking_ms) = (&self.end, self.end.qos.max_blocking_ms);
        let is_reliable = end.qos.reliability == driveline_types::Reliability::Reliable;
        let wait = is_reliable.then(|| {
            let longest = std::time::Duration::from_millis(u64::from(blocking_ms));
            (MonotonicNs::real_now() + longest, &*end.blocking)
        });
        delivery.wait_until = wait.map(|(until, _)| until);
        for r in self.readers.iter().filter(|r| sample.header.sequence > r.history_until) {
            r.hears(sample.header.publish_time);
            let (evicted, timed_out) = r.reader.queue.push(sample.clone(), wait);
            if timed_out {
                let total = end.blocking.blocked(MonotonicNs::real_now()).timeouts;
                let reader = &r.reader.end.node;
                end.event(reliable_timeout(&self.topic.name, blocking_ms, reader, total));
            }
            delivery.overwritten += u64::from(evicted.is_some());
            delivery.displace(evicted);
        }
        delivery
    }
}

/// Samples that a writer keeps for later readers.
fn kept(end: &LocalEnd) -> usize {
    if end.qos.durability == Durability::TransientLocal { end.qos.depth as usize } else { 0 }
}

impl Drop for LocalPublisher {
    fn drop(&mut self) {
        self.topic.remove_writer(&self.end);
    }
}

/// Result of one publish.
#[derive(Default)]
pub(crate) struct Delivery {
    /// Number of older samples dropped for this one.
    pub(crate) overwritten: u64,
    /// End of all waits of a reliable publish, also of those for readers in other processes.
    pub(crate) wait_until: Option<MonotonicNs>,
    /// Dropped samples whose values have a destructor to run.
    pub(crate) displaced: Displaced,
}

/// Values replaced by newer ones. Dropping it may run their destructors.
pub(crate) type Displaced = SmallVec<[Arc<LocalSample>; 4]>;

impl Delivery {
    fn displace(&mut self, sample: Option<Arc<LocalSample>>) {
        self.displaced.extend(sample.filter(|s| s.object().is_some()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalReader;
    use driveline_types::{Qos, Schema};

    #[test]
    fn the_memory_that_is_admitted_is_what_is_reserved_also_for_readers_that_came_before() {
        let topic = Arc::new(LocalTopic::new("t".parse().unwrap()));
        let end = |id| LocalEnd::new(id, "n", Schema::bytes("a", "b", "c"), Qos::default());
        let _reader = LocalReader::new(topic.clone(), Arc::new(end(1)), 3, 3, 4);
        let writer = Arc::new(end(2).with_buffers(1000));
        let admitted = LocalPublisher::memory_for(&topic, &writer, 2);
        let publisher = LocalPublisher::new(topic, writer, 2);
        assert_eq!(admitted, publisher.pool.len() as u64 * 1000);
        assert_eq!(publisher.pool.len(), 2 + 1 + 3 + 4);
    }
}
