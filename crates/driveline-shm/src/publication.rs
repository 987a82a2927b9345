// SPDX-License-Identifier: Apache-2.0
//! State shared by a publisher, its loans and the control thread.

use crate::blocking::BlockingMeter;
use crate::config::Access;
use crate::deadline::{DeadlineMeter, DeadlineReports, DeadlinesMissed};
use crate::event::PublisherEvent;
use crate::info::{MatchInfo, PublisherInfo, PublisherStats};
use crate::layout::{CURSOR_AT, PINS_AT, WAKE_LEN, armed_at};
use crate::limits::MAX_GROUPS;
use crate::protocol::{self, cursor, reader};
use crate::queue::{EventQueue, lock};
use crate::segment::Segment;
use crate::sys::descriptors::ForFirstMatch;
use crate::sys::fork::GuardedFd;
use crate::sys::futex::{self, Scope};
use crate::sys::mapping::Mapping;
use crate::sys::memfd;
use crate::sys::peer::User;
use crate::wire::Hello;
use driveline_types::{EndpointId, MonotonicNs, NodeName, Qos, Reliability, Schema, TopicName};
use std::io;
use std::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex};

/// Readers of one user. (A user that the user namespace does not map has a group for each match.)
/// They share a wake word in separate memory, because a process that can read a word can also
/// disturb its sleepers: it can move them to another word (`FUTEX_REQUEUE`). The group lives as
/// long as one of its matches.
#[derive(Debug)]
pub(crate) struct Group {
    user: User,
    number: usize,
    pub(crate) fd: GuardedFd,
    map: Mapping,
}

impl Group {
    /// Returns the user's group among the groups of the present matches, or a new one. `None`: too
    /// many groups.
    pub(crate) fn of(user: User, matches: &[Arc<PubMatch>]) -> io::Result<Option<Arc<Self>>> {
        if let Some(m) = matches.iter().find(|m| m.group.user.is_surely(user)) {
            return Ok(Some(Arc::clone(&m.group)));
        }
        let Some(number) = (0..MAX_GROUPS).find(|n| matches.iter().all(|m| m.group.number != *n))
        else {
            return Ok(None);
        };
        let (fd, map) = memfd::create("driveline-wake", WAKE_LEN)?;
        Ok(Some(Arc::new(Self { user, number, fd, map })))
    }
}

/// The publishing thread uses one bit for each group.
const _: () = assert!(MAX_GROUPS <= 64);

/// One matched subscription, as the publisher sees it.
#[derive(Debug)]
pub(crate) struct PubMatch {
    page: Mapping,
    armed_at: usize,
    pub(crate) hello: Hello,
    pub(crate) user: User,
    pub(crate) group: Arc<Group>,
    woken: AtomicU64,
    /// True if publishing waits for it.
    pub(crate) reliable: AtomicBool,
    /// Last plausible reading position: `NOT_BEGUN` until the match is complete, then its first
    /// sequence − 1. Only publishes that wait for the match (`reliable`) advance it.
    pub(crate) believed: AtomicU64,
    /// Set after a wait for it has timed out, until it has read everything. Used by the publishing
    /// thread.
    pub(crate) given_up: AtomicBool,
    /// Set when the connection has ended.
    pub(crate) gone: AtomicBool,
}

pub(crate) const NOT_BEGUN: u64 = u64::MAX;

impl PubMatch {
    pub(crate) fn new(
        page: Mapping,
        hello: Hello,
        user: User,
        group: Arc<Group>,
        reliable: bool,
    ) -> Self {
        Self {
            page,
            armed_at: armed_at(hello.armed_apart),
            hello,
            user,
            group,
            woken: AtomicU64::new(0),
            reliable: AtomicBool::new(reliable),
            believed: AtomicU64::new(NOT_BEGUN),
            given_up: AtomicBool::new(false),
            gone: AtomicBool::new(false),
        }
    }

    /// Reading position that the subscription reports.
    pub(crate) fn cursor(&self) -> &AtomicU64 {
        self.page.word(CURSOR_AT)
    }

    /// Returns true in the process that made the match.
    pub(crate) fn is_here(&self) -> bool {
        self.page.is_here()
    }

    /// Returns true once the first sample of the match is decided.
    pub(crate) fn has_begun(&self) -> bool {
        // Acquire pairs with the Release store with which the control thread begins the match.
        self.believed.load(Acquire) != NOT_BEGUN
    }

    /// The half of the cursor that changes. A waiting publisher sleeps on it.
    pub(crate) fn cursor_futex(&self) -> &AtomicU32 {
        self.page.half_word(CURSOR_AT + if cfg!(target_endian = "little") { 0 } else { 4 })
    }
}

impl protocol::Match for PubMatch {
    #[inline]
    fn pins(&self) -> &[AtomicU32] {
        self.page.half_words(PINS_AT, self.hello.pins as usize)
    }
    #[inline]
    fn armed(&self) -> &AtomicU64 {
        self.page.word(self.armed_at)
    }
    #[inline]
    fn woken(&self) -> &AtomicU64 {
        &self.woken
    }
    #[inline]
    fn group(&self) -> usize {
        self.group.number
    }
    #[inline]
    fn position(&self, newest: u64) -> u64 {
        // Acquire pairs with the Release store with which the control thread begins the match.
        let begun = self.believed.load(Acquire);
        if begun == NOT_BEGUN {
            return 0;
        }
        let cursor = cursor::position(self.cursor());
        // A position beyond the newest sample is invalid. It is ignored, so it neither helps its
        // sender nor harms others.
        if cursor > newest { begun } else { begun.max(cursor) }
    }
}

/// Counters. Those of the publishing thread are plain stores of a sum; the others belong to the
/// control thread.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) wake_calls: AtomicU64,
    pub(crate) cursor_lies: AtomicU64,
    pub(crate) refused_type: AtomicU64,
    pub(crate) refused_qos: AtomicU64,
    pub(crate) refused_access: AtomicU64,
    pub(crate) refused_pins: AtomicU64,
    pub(crate) refused_other: AtomicU64,
    pub(crate) matched: AtomicU64,
}

/// Adds to a counter that only one thread writes: no locked instruction.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(n), Relaxed);
}

/// Shared state of a publisher; see the module.
#[derive(Debug)]
pub(crate) struct Publication {
    pub(crate) id: EndpointId,
    pub(crate) topic: TopicName,
    pub(crate) node: NodeName,
    pub(crate) schema: Schema,
    pub(crate) qos: Qos,
    pub(crate) access: Access,
    pub(crate) max_payload: usize,
    pub(crate) loans: u32,
    pub(crate) pins: u32,
    pub(crate) segment: Segment,
    pub(crate) segment_fd: GuardedFd,
    /// One bit per slot whose loan was dropped without being published.
    pub(crate) returned: Box<[AtomicU64]>,
    /// Sequence that was last published in each slot, for tools.
    pub(crate) slot_sequences: Box<[AtomicU64]>,
    pub(crate) counters: Counters,
    pub(crate) events: EventQueue<PublisherEvent>,
    /// Counter of the waits for reliable subscriptions.
    pub(crate) blocking: Arc<BlockingMeter>,
    /// Counter of missed deadlines, if the publisher offers a deadline.
    pub(crate) deadline: Option<Arc<DeadlineMeter>>,
    pub(crate) deadline_reports: Mutex<DeadlineReports>,
    /// Time of the last publish, on `CLOCK_MONOTONIC`; 0 before the first.
    pub(crate) last_publish_ns: AtomicU64,
    /// Number of samples that were passed by pointer inside the process, and not written into the
    /// segment.
    pub(crate) passed_by: AtomicU64,
    /// Changes when a publisher that waits for reliable subscriptions must check again.
    pub(crate) kick: AtomicU32,
    /// Maximum number of sleepers that one wake-up call reaches: at least as many as there can be
    /// matches.
    pub(crate) wake_limit: u32,
    /// Descriptors reserved while no subscription is matched.
    pub(crate) first_match: ForFirstMatch,
}

impl Publication {
    /// Permission bits of its socket in the domain directory.
    pub(crate) fn socket_mode(&self) -> u32 {
        if self.access == Access::OwnUser { 0o600 } else { 0o666 }
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.qos.reliability == Reliability::Reliable
    }

    pub(crate) fn stats(&self) -> PublisherStats {
        let c = &self.counters;
        let blocked = self.blocking.blocked(MonotonicNs::real_now());
        PublisherStats {
            published: self.published(),
            passed_by: self.passed_by.load(Relaxed),
            published_bytes: c.bytes.load(Relaxed),
            wake_calls: c.wake_calls.load(Relaxed),
            reliable_timeouts: blocked.timeouts,
            reliable_waits: blocked.waits,
            blocked_ns: blocked.blocked_ns,
            cursor_lies: c.cursor_lies.load(Relaxed),
            refused_type: c.refused_type.load(Relaxed),
            refused_qos: c.refused_qos.load(Relaxed),
            refused_access: c.refused_access.load(Relaxed),
            refused_pins: c.refused_pins.load(Relaxed),
            refused_other: c.refused_other.load(Relaxed),
            deadlines_missed: self.deadline.as_ref().map_or(0, |d| d.missed(MonotonicNs::now())),
            max_interval_ns: self.segment.max_interval().load(Relaxed),
            matched: c.matched.load(Relaxed),
        }
    }

    /// The oldest event that was not polled yet, or else a report of missed deadlines.
    pub(crate) fn poll_event(&self) -> Option<PublisherEvent> {
        self.events.pop(|count| PublisherEvent::Dropped { count }).or_else(|| {
            let (deadline, now) = (self.deadline.as_ref()?, MonotonicNs::now());
            let DeadlinesMissed { missed, total } =
                lock(&self.deadline_reports).next(deadline.missed(now), now)?;
            Some(PublisherEvent::DeadlineMissed { missed, total })
        })
    }

    /// Returns the number of published samples: those in the segment, and those passed by pointer.
    fn published(&self) -> u64 {
        self.sequence().saturating_add(self.passed_by.load(Relaxed))
    }

    /// Notes the time of a sample for deadline, liveliness and the longest interval.
    #[inline]
    pub(crate) fn note_published(&self, publish_time: MonotonicNs) {
        let (segment, now) = (&self.segment, publish_time.0);
        segment.heartbeat().store(now, Relaxed);
        if let Some(deadline) = &self.deadline {
            deadline.published(publish_time);
        }
        let last = self.last_publish_ns.load(Relaxed);
        self.last_publish_ns.store(now, Relaxed);
        let interval = now.saturating_sub(last);
        if last != 0 && interval > segment.max_interval().load(Relaxed) {
            segment.max_interval().store(interval, Relaxed);
        }
    }

    /// Returns the number of written samples.
    pub(crate) fn sequence(&self) -> u64 {
        reader::newest(&self.segment).0
    }

    /// Description for listings.
    pub(crate) fn info(&self, matches: &[Arc<PubMatch>]) -> PublisherInfo {
        PublisherInfo {
            id: self.id,
            topic: self.topic.to_string(),
            node: self.node.to_string(),
            schema: self.schema.clone(),
            qos: self.qos.clone(),
            max_payload: self.max_payload as u64,
            pins: self.pins,
            pins_granted: matches.iter().filter(|m| !m.hello.observer).map(|m| m.hello.pins).sum(),
            slots: self.segment.layout.slots,
            segment_len: self.segment.layout.len() as u64,
            sequence: self.published(),
            heartbeat_ns: self.segment.heartbeat().load(Relaxed),
            stats: self.stats(),
            matches: matches.iter().map(|m| self.match_info(m)).collect(),
        }
    }

    fn match_info(&self, m: &PubMatch) -> MatchInfo {
        use protocol::Match;
        let held = m.pins().iter().filter_map(|pin| {
            let slot = pin.load(Relaxed).checked_sub(1)? as usize;
            Some(self.slot_sequences.get(slot)?.load(Relaxed))
        });
        MatchInfo {
            subscription: m.hello.subscription,
            node: m.hello.node.to_string(),
            pid: m.hello.pid,
            uid: m.user.uid(),
            pins: m.hello.pins,
            observer: m.hello.observer,
            held: held.collect(),
            sleeping: m.armed().load(Relaxed) != 0,
            missed: None,
            overruns: None,
        }
    }
}

/// Wakes the sleeping subscriptions.
pub(crate) struct GroupWakers<'a> {
    pub(crate) publication: &'a Publication,
    /// Publish time of the sample that is being published.
    pub(crate) publish_time: MonotonicNs,
}

impl protocol::writer::Wakers<Arc<PubMatch>> for GroupWakers<'_> {
    #[inline]
    fn announced(&mut self) {
        self.publication.note_published(self.publish_time);
    }

    fn wake(&mut self, m: &Arc<PubMatch>, sequence: u64) {
        let word = m.group.map.half_word(0);
        // Release: a thread that reads this value sees the sample (sleep::arm).
        word.store(sequence as u32, Release);
        futex::wake(word, Scope::Shared, self.publication.wake_limit);
        add(&self.publication.counters.wake_calls, 1);
    }
}
