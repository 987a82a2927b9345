// SPDX-License-Identifier: Apache-2.0
//! Writing end of a topic: loans and publishing.

use crate::afar_count::AfarCount;
use crate::blocking::BlockingMeter;
use crate::deadline::DeadlineMeter;
use crate::error::{LoanError, PublishError};
use crate::event::PublisherEvent;
use crate::info::PublisherStats;
use crate::kick::Kicker;
use crate::layout::CACHE_LINE;
use crate::limits::{MAX_SEQUENCE, WITHDRAW_FROM};
use crate::participant::Endpoint;
use crate::protocol::epoch::Scans;
use crate::protocol::writer::Slots;
use crate::protocol::{Match as _, cursor};
use crate::publication::{GroupWakers, PubMatch, Publication, add};
use crate::sys::futex::WaitList;
use crate::{fault, loan::Loan};
use driveline_types::header::SampleHeader;
use driveline_types::{Durability, EndpointId, MonotonicNs, NodeName};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use twox_hash::XxHash3_64;

/// Publishes samples of one topic.
///
/// It can be moved between threads; use it from one at a time. Loaning and publishing make no
/// system call except to wake sleeping subscriptions, take no lock and do not allocate. Only a
/// reliable publisher waits, in the kernel and at most `max_blocking_ms`; after a time-out or an
/// invalid reading position it also locks and allocates, to queue an event. Dropping it ends its
/// matches; matched subscriptions can still read its last samples.
pub struct Publisher {
    pub(crate) shared: Arc<Publication>,
    slots: Slots,
    pub(crate) matches: Scans<Vec<Arc<PubMatch>>>,
    pub(crate) wait_list: WaitList,
    loaned: u32,
    /// The last published loan's reference to `shared`, reused by the next loan. Dropping it and
    /// cloning another would cost two locked instructions.
    spare: Option<Arc<Publication>>,
    /// Keeps the control thread running; notifies it when the publisher is dropped.
    _endpoint: Endpoint,
    _one_thread_at_a_time: PhantomData<Cell<()>>,
}

impl std::fmt::Debug for Publisher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Publisher")
            .field("topic", &self.shared.topic)
            .field("id", &self.shared.id)
            .finish_non_exhaustive()
    }
}

/// A subscription that a publisher is matched with.
#[derive(Clone, Debug)]
pub struct MatchedSubscription {
    /// Its id.
    pub subscription: EndpointId,
    /// Its node.
    pub node: NodeName,
    /// Number of the last sample that the subscription reports as read or skipped; before its first
    /// report, the number before its first sample. It counts the samples written here, so it can be
    /// lower than `header.sequence` ([`Publisher::publish_numbered`]). Reports beyond the newest
    /// sample are ignored.
    pub position: u64,
    /// Reading position at any later time.
    pub progress: Progress,
}

/// Reading position of a subscription, also after its end. Callable on any thread. Keeps 4 KiB of
/// the subscription's memory.
#[derive(Clone, Debug)]
pub struct Progress(Arc<PubMatch>);

impl Progress {
    /// Number of the last sample that it reports as read or skipped, unchecked; 0 before its first
    /// report, and in a forked child. One atomic load.
    #[must_use]
    pub fn position(&self) -> u64 {
        if self.0.is_here() { cursor::position(self.0.cursor()) } else { 0 }
    }
}

impl Publisher {
    pub(crate) fn new(
        shared: Arc<Publication>,
        slots: Slots,
        matches: Scans<Vec<Arc<PubMatch>>>,
        endpoint: Endpoint,
    ) -> Self {
        Self {
            shared,
            slots,
            matches,
            wait_list: WaitList::with_room_for(2),
            loaned: 0,
            spare: None,
            _endpoint: endpoint,
            _one_thread_at_a_time: PhantomData,
        }
    }

    /// Its identity.
    #[must_use]
    pub fn id(&self) -> EndpointId {
        self.shared.id
    }

    /// Largest payload in bytes.
    #[must_use]
    pub fn max_payload(&self) -> usize {
        self.shared.max_payload
    }

    /// Lends memory for a payload of `len` bytes. The memory still has its old content. No system
    /// call, no allocation, no waiting.
    ///
    /// # Errors
    /// See [`LoanError`].
    pub fn loan(&mut self, len: usize) -> Result<Loan, LoanError> {
        if !self.shared.segment.map.is_here() {
            return Err(LoanError::Forked);
        }
        if len > self.shared.max_payload {
            return Err(LoanError::TooLong { len, max_payload: self.shared.max_payload });
        }
        if self.loaned >= self.shared.loans {
            self.collect_returned();
        }
        if self.loaned >= self.shared.loans {
            return Err(LoanError::TooManyLoans { loans: self.shared.loans });
        }
        if self.withdraws(len) {
            self.slots.withdraw(&self.shared.segment, &mut self.matches);
        }
        let Some(slot) = self.slots.pop_free() else {
            return Err(LoanError::TooManyLoans { loans: self.shared.loans });
        };
        self.loaned += 1;
        self.shared.segment.prefetch_to_fill(usize::from(slot));
        fault::point("loan.taken");
        let publication = self.spare.take().unwrap_or_else(|| Arc::clone(&self.shared));
        Ok(Loan::new(publication, slot, len))
    }

    /// Returns true if a loan first withdraws samples that all subscriptions have read. A
    /// transient-local publisher keeps its last samples for late subscriptions, even if others have
    /// read them.
    #[inline]
    fn withdraws(&self, len: usize) -> bool {
        len >= WITHDRAW_FROM && self.shared.qos.durability == Durability::Volatile
    }

    fn collect_returned(&mut self) {
        for (i, bits) in self.shared.returned.iter().enumerate() {
            if bits.load(Relaxed) == 0 {
                continue;
            }
            // Acquire pairs with the Release of the drop: writing into the slot has ended.
            let mut left = bits.swap(0, Acquire);
            while left != 0 {
                let slot = i * 64 + left.trailing_zeros() as usize;
                left &= left - 1;
                self.slots.push_free(slot as u16);
                self.loaned -= 1;
            }
        }
    }

    /// Publishes a loan and returns its sequence number.
    ///
    /// Sets sequence, payload length and checksum in `header`, and the present time if its publish
    /// time is zero.
    ///
    /// Best effort: bounded by the number of pins, never waits. Reliable: waits up to
    /// `max_blocking_ms` for reliable subscriptions that have not read the sample which falls out
    /// of the history. Then it publishes anyway, and does not wait for such a subscription again
    /// until that subscription has read everything.
    ///
    /// # Errors
    /// See [`PublishError`]. The loan is returned to its publisher.
    pub fn publish(&mut self, loan: Loan, header: &mut SampleHeader) -> Result<u64, PublishError> {
        header.sequence = self.next_sequence();
        self.publish_numbered(loan, header)
    }

    /// Like [`publish`](Self::publish), for a publisher that does not write all its samples here:
    /// readers see the sequence in `header`, which is at least the number of samples written.
    /// Readers still count only written samples as missed: a gap in the sequences of `header` adds
    /// nothing to that count.
    ///
    /// # Errors
    /// See [`PublishError`]. The loan is returned to its publisher.
    pub fn publish_numbered(
        &mut self,
        loan: Loan,
        header: &mut SampleHeader,
    ) -> Result<u64, PublishError> {
        self.publish_until(loan, header, None)
    }

    /// Like [`publish_numbered`](Self::publish_numbered), for a publish that has already waited
    /// elsewhere: a wait for reliable subscriptions also ends at `latest`.
    ///
    /// # Errors
    /// See [`PublishError`]. The loan is returned to its publisher.
    pub fn publish_until(
        &mut self,
        loan: Loan,
        header: &mut SampleHeader,
        latest: Option<MonotonicNs>,
    ) -> Result<u64, PublishError> {
        if !self.shared.segment.map.is_here() {
            return Err(PublishError::Forked);
        }
        if !loan.is_of(&self.shared) {
            return Err(PublishError::ForeignLoan);
        }
        let sequence = self.slots.sequence() + 1;
        if sequence > MAX_SEQUENCE {
            return Err(PublishError::SequenceExhausted);
        }
        if header.publish_time.0 == 0 {
            header.publish_time = MonotonicNs::now();
        }
        if self.shared.is_reliable() {
            // The publish time stays: a wait is part of the transit time.
            self.wait_for_reliable(sequence, latest);
        }
        let publish_time = header.publish_time;
        header.payload_len = loan.len() as u64;
        header.checksum = self.shared.qos.checksum.then(|| XxHash3_64::oneshot(loan.payload()));
        // A publisher that withdraws samples frees slots before the next loan, so publishing needs
        // no pass for that.
        self.slots.set_weight(if self.withdraws(loan.len()) {
            0
        } else {
            loan.len().max(CACHE_LINE)
        });
        let (slot, publication) = loan.into_parts();
        self.spare = Some(publication);
        self.loaned -= 1;
        let shared = &*self.shared;
        shared.segment.write_header(usize::from(slot), sequence, header);
        if let Some(s) = shared.slot_sequences.get(usize::from(slot)) {
            s.store(sequence, Relaxed);
        }
        self.slots.publish(
            &shared.segment,
            &mut self.matches,
            &mut GroupWakers { publication: shared, publish_time },
            slot,
        );
        add(&shared.counters.bytes, header.payload_len);
        Ok(header.sequence)
    }

    /// Sequence number that the next sample will get.
    #[must_use]
    pub fn next_sequence(&self) -> u64 {
        self.slots.sequence() + 1
    }

    /// Subscriptions matched now.
    #[must_use]
    pub fn matched(&self) -> usize {
        self.shared.counters.matched.load(Relaxed) as usize
    }

    /// Returns the matched subscriptions, except observers, with their reading positions. All
    /// samples published from now on count for them. No lock, no system call; allocates.
    #[must_use]
    pub fn subscriptions(&mut self) -> Vec<MatchedSubscription> {
        if !self.shared.segment.map.is_here() {
            return Vec::new();
        }
        let newest = self.slots.sequence();
        let scan = self.matches.enter();
        // The fence that epoch::Scans::enter requires before the list is loaded.
        cursor::settle();
        let begun = scan
            .load()
            .iter()
            .filter(|m| !m.hello.observer && !m.gone.load(Relaxed) && m.has_begun());
        let of = |m: &Arc<PubMatch>| MatchedSubscription {
            subscription: m.hello.subscription,
            node: m.hello.node.clone(),
            position: m.position(newest),
            progress: Progress(Arc::clone(m)),
        };
        begun.map(of).collect()
    }

    /// Counters so far.
    #[must_use]
    pub fn stats(&self) -> PublisherStats {
        if self.shared.segment.map.is_here() {
            self.shared.stats()
        } else {
            PublisherStats::default()
        }
    }

    /// The oldest event that was not polled yet.
    pub fn poll_event(&mut self) -> Option<PublisherEvent> {
        if !self.shared.segment.map.is_here() {
            return None;
        }
        self.shared.poll_event()
    }

    /// Makes each new event kick `kicker`, for example when a subscription has joined or left.
    /// Missed deadlines do not kick: [`Self::poll_event`] detects them itself.
    pub fn kick_on_event(&self, kicker: Kicker) {
        self.shared.events.set_kicker(kicker);
    }

    /// Like [`Self::poll_event`], for code that does not own the publisher. Each event goes to one
    /// of the two. Returns nothing after the publisher has ended.
    pub fn event_source(
        &self,
    ) -> impl Fn() -> Option<PublisherEvent> + Send + Sync + 'static + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            let shared = shared.upgrade().filter(|s| s.segment.map.is_here())?;
            shared.poll_event()
        }
    }

    /// Counter of the missed deadlines, if the publisher offers a deadline. Outlives the publisher.
    #[must_use]
    pub fn deadline_meter(&self) -> Option<Arc<DeadlineMeter>> {
        self.shared.deadline.clone()
    }

    /// Counter of the waits for reliable subscriptions. Outlives the publisher.
    #[must_use]
    pub fn blocking_meter(&self) -> Arc<BlockingMeter> {
        self.shared.blocking.clone()
    }

    /// Like [`Self::matched`], for code that does not own the publisher. Correct even if events of
    /// [`Self::event_source`] were dropped. 0 after the publisher has ended.
    pub fn matched_source(&self) -> impl Fn() -> usize + Send + Sync + 'static + use<> {
        let shared = Arc::downgrade(&self.shared);
        move || {
            shared
                .upgrade()
                .filter(|s| s.segment.map.is_here())
                .map_or(0, |s| s.counters.matched.load(Relaxed) as usize)
        }
    }

    /// Notes that a sample was passed by pointer inside the process and not written into the
    /// segment. It counts for deadline and liveliness, and as published.
    pub fn has_passed_by(&mut self, publish_time: MonotonicNs) {
        if self.shared.segment.map.is_here() {
            // Relaxed: only a figure for people.
            add(&self.shared.passed_by, 1);
            self.shared.note_published(publish_time);
        }
    }

    /// Reports how many samples of a publisher of another host are missing here, for a gateway that
    /// publishes that publisher's samples. Call it when this publisher has been created, just
    /// before each sample is published, and when the state of the other publisher changes. Before a
    /// sample, the count treats that sample as arrived, and includes the gap before it. Each
    /// subscription counts the difference since its match. Three stores.
    pub fn count_afar(&self, count: &AfarCount) {
        if self.shared.segment.map.is_here() {
            count.write(&self.shared.segment);
        }
    }

    /// Asserts liveliness without publishing, for `manual_by_topic`.
    pub fn assert_liveliness(&mut self) {
        if self.shared.segment.map.is_here() {
            self.shared.segment.heartbeat().store(MonotonicNs::now().0, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Participant, ParticipantConfig, PublisherConfig};

    #[test]
    fn a_publisher_whose_numbers_are_used_up_says_so_and_publishes_nothing() {
        let t = tempfile::tempdir().unwrap();
        let participant = Participant::open(ParticipantConfig {
            domain_dir: Some(t.path().into()),
            name: "old".into(),
        })
        .unwrap();
        let schema = driveline_types::Schema::bytes("a", "b", "c");
        let mut p = participant
            .create_publisher(PublisherConfig::new(
                "t".parse().unwrap(),
                "n".parse().unwrap(),
                schema,
                8,
            ))
            .unwrap();
        p.slots.go_on_after(MAX_SEQUENCE - 1);
        let mut say =
            || p.loan(1).map(|loan| p.publish(loan, &mut SampleHeader::stamped_now())).unwrap();
        assert_eq!(say(), Ok(MAX_SEQUENCE));
        let refused = say().unwrap_err();
        assert!(
            refused == PublishError::SequenceExhausted
                && refused.to_string().contains("create the publisher anew")
        );
    }
}
