// SPDX-License-Identifier: Apache-2.0
//! Counts samples of publishers on other hosts that did not reach this host:
//! `docs/protocols/shm.md`, Counts from afar.
//!
//! The gateway's publisher writes the count into its segment, so that losses count even if no
//! sample follows. The gateway to ROS 2, and gateways of earlier releases, report it only with each
//! sample.

use crate::afar_count::{AfarCount, AfarState};
use crate::inlet::{Edge, has_unread};
use crate::limits::MAX_KNOWN_AFAR;
use crate::protocol::reader;
use crate::protocol::sleep::Sleeper as _;
use driveline_types::{SampleHeader, Uncounted};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A publisher of another host whose edges have ended.
#[derive(Clone, Copy, Debug)]
struct Known {
    publisher: u64,
    /// Number of the newest sample that was received or counted, in the publisher's own numbering.
    furthest: Option<u64>,
    uncounted: Option<Uncounted>,
}

/// Publishers of other hosts whose edges have ended, with their reading positions and whether all
/// of their samples are counted. The oldest are forgotten.
#[derive(Debug)]
pub(crate) struct KnownAfar {
    list: VecDeque<Known>,
    /// Number of publishers whose count stays unknown (forgotten ones, and ones that no gateway has
    /// named), and the reason of the last one.
    uncounted: (u64, Option<Uncounted>),
}

impl Default for KnownAfar {
    fn default() -> Self {
        Self { list: VecDeque::with_capacity(MAX_KNOWN_AFAR), uncounted: (0, None) }
    }
}

impl KnownAfar {
    pub(crate) fn furthest(&self, publisher: u64) -> Option<u64> {
        self.list.iter().find(|k| k.publisher == publisher)?.furthest
    }

    fn stays_unknown(&mut self, why: Option<Uncounted>) {
        if why.is_some() {
            self.uncounted = (self.uncounted.0.saturating_add(1), why);
        }
    }

    /// Handles the end of an edge. Returns true if an older publisher was forgotten to make room.
    pub(crate) fn settle(&mut self, e: &Edge) -> bool {
        let next = (reader::newest(&e.segment).0 + 1).max(e.next());
        let uncounted = e.uncounted(|p| self.furthest(p));
        let Some((publisher, furthest)) = e.counted_afar(next, |p| self.furthest(p)) else {
            if let Some(publisher) = e.afar_publisher().filter(|_| uncounted.is_some()) {
                return self.note(Known { publisher, furthest: None, uncounted });
            }
            self.stays_unknown(uncounted);
            return false;
        };
        self.note(Known { publisher, furthest: Some(furthest), uncounted })
    }

    fn note(&mut self, new: Known) -> bool {
        let at = self.list.iter().position(|k| k.publisher == new.publisher);
        let before = at.and_then(|at| self.list.remove(at)).and_then(|k| k.furthest);
        let oldest = if self.list.len() == MAX_KNOWN_AFAR { self.list.pop_front() } else { None };
        self.stays_unknown(oldest.and_then(|oldest| oldest.uncounted));
        self.list.push_back(Known { furthest: new.furthest.max(before), ..new });
        oldest.is_some()
    }

    /// Number of publishers whose number of published samples is unknown, and the reason for one of
    /// them. Of several edges of a publisher, the newest one decides.
    pub(crate) fn uncounted(&self, edges: &[Arc<Edge>]) -> (u64, Option<Uncounted>) {
        let (mut count, mut why) = self.uncounted;
        let mut add = |of: Option<Uncounted>| {
            if of.is_some() {
                (count, why) = (count + 1, of);
            }
        };
        let newer = |at: usize, publisher: u64| {
            edges.iter().skip(at).any(|e| e.afar_publisher() == Some(publisher))
        };
        self.list
            .iter()
            .filter(|k| k.uncounted.is_some() && !newer(0, k.publisher))
            .for_each(|k| add(k.uncounted));
        for (at, e) in edges.iter().enumerate() {
            let uncounted =
                e.uncounted(|p| furthest_elsewhere(e, &edges[..at], p, self.furthest(p)));
            add(uncounted.filter(|_| e.afar_publisher().is_none_or(|p| !newer(at + 1, p))));
        }
        (count, why)
    }
}

impl Edge {
    /// Returns the publisher of another host, and its own number of the last sample before `next`.
    /// The result assumes that all samples before `next` were received or counted as missed.
    fn read_afar(&self, next: u64) -> Option<(u64, u64)> {
        let (publisher, lost) = (
            self.progress.afar.load(Relaxed),
            self.progress.lost_before.load(Relaxed).saturating_sub(1),
        );
        (publisher != 0).then(|| (publisher, lost.saturating_add(next.saturating_sub(1))))
    }

    /// Returns the same for an edge whose local publisher is gone and from which no sample was
    /// taken: its newest sample names the remote publisher. `before` returns how far earlier edges
    /// have read that publisher. Samples lost since then have not been counted yet, so the result
    /// does not include them.
    fn passed_afar(&self, next: u64, before: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let passed = next.saturating_sub(self.first);
        let (publisher, lost) = self.left_from_afar().filter(|_| passed != 0)?;
        let furthest = lost.saturating_add(next.saturating_sub(1));
        Some((
            publisher,
            before(publisher)
                .map_or(furthest, |before| furthest.min(before.saturating_add(passed))),
        ))
    }

    /// Returns the same from a gateway's report on missing samples, if there is one. The number is
    /// that of the newest sample, read or unread: missing samples count as soon as the gateway
    /// reports them.
    fn said_afar(&self) -> Option<(u64, u64)> {
        let said = AfarCount::read(&self.segment).filter(|said| said.publisher != 0)?;
        self.base(&said)?;
        Some((said.publisher, said.missing.saturating_add(reader::newest(&self.segment).0)))
    }

    /// Returns true if the gateway reports `missing` in the segment, not only with each sample, and
    /// if [`base`](Self::base) is known.
    pub(crate) fn says_what_is_missing(&self) -> bool {
        self.said_afar().is_some()
    }

    /// Returns the same as [`Self::read_afar`] for an edge whose local publisher has ended.
    fn counted_afar(&self, next: u64, before: impl Fn(u64) -> Option<u64>) -> Option<(u64, u64)> {
        let goes_on = AfarCount::read(&self.segment)
            .filter(|said| before(said.publisher).is_some() && said.state == AfarState::Ended);
        let goes_on = goes_on.map(|said| {
            (said.publisher, said.missing.saturating_add(reader::newest(&self.segment).0))
        });
        self.said_afar()
            .or(goes_on)
            .or_else(|| self.read_afar(next))
            .or_else(|| self.passed_afar(next, before))
    }

    /// Remote publisher of the newest sample left by a departed local publisher, and the number of
    /// samples lost before that sample. No process writes there any more, so no pin is needed.
    fn left_from_afar(&self) -> Option<(u64, u64)> {
        let (sequence, slot) = reader::newest(&self.segment);
        let mut header = SampleHeader::default();
        let read = slot < crate::protocol::Segment::slots(&self.segment)
            && self.segment.read_header(slot, sequence, &mut header).is_ok();
        header.remote.filter(|r| read && r.publisher != 0).map(|r| (r.publisher, r.lost))
    }

    /// The publisher of another host, if a gateway has named it.
    fn afar_publisher(&self) -> Option<u64> {
        let said = AfarCount::read(&self.segment).map_or(0, |said| said.publisher);
        let said = if said == 0 { self.progress.afar.load(Relaxed) } else { said };
        (said != 0).then_some(said)
    }

    /// Returns the part of `missing` that was counted already, or never counts on this edge. It is
    /// the number of missing samples before the last taken sample. If no sample was taken, it is
    /// the number before the match; if that is unknown, the number before the first sample that
    /// counts on this host.
    fn base(&self, said: &AfarCount) -> Option<u64> {
        let progress = &self.progress;
        let taken = progress.lost_before.load(Relaxed).checked_sub(1);
        taken.or_else(|| progress.joined.load(Relaxed).checked_sub(1)).or(said.before)
    }

    /// Returns true until a sample has been taken that states the number of losses on the way to
    /// this host, even if that number is 0.
    pub(crate) fn is_new_from_afar(&self) -> bool {
        self.progress.lost_before.load(Relaxed) == 0
    }

    /// Returns the number of samples lost on the way to this host since the sample taken before,
    /// given the total. For the first sample, counting begins with the match. If the number at the
    /// match is unknown, it begins with the first sample that counts on this host; if that is
    /// unknown, too, with the first sample taken. A decreasing total is impossible and counts as no
    /// loss.
    pub(crate) fn lost_on_the_way(&self, in_all: Option<u64>) -> u64 {
        let Some(in_all) = in_all else { return 0 };
        let progress = &self.progress;
        let first = progress.lost_before.load(Relaxed) == 0;
        let base = if first {
            AfarCount::read(&self.segment).and_then(|said| self.base(&said))
        } else {
            None
        };
        let before = if first {
            base.map_or(0, |b| b.saturating_add(1))
        } else {
            progress.lost_before.load(Relaxed)
        };
        progress.lost_before.store(in_all.saturating_add(1), Relaxed);
        if before == 0 { 0 } else { in_all.saturating_add(1).saturating_sub(before) }
    }

    /// Returns the number of lost samples not yet counted with a sample. `elsewhere` returns how
    /// far earlier edges have counted the publisher's samples, in its own numbers.
    pub(crate) fn lost_after(&self, elsewhere: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let Some(said) = AfarCount::read(&self.segment) else { return 0 };
        let lost = self.base(&said).map_or(0, |base| said.missing.saturating_sub(base));
        if !self.is_new_from_afar() || said.publisher == 0 {
            return lost;
        }
        // If `elsewhere` has a number, another gateway carried the samples before this edge.
        let newest = reader::newest(&self.segment).0;
        let here = (newest + 1).saturating_sub(self.first);
        elsewhere(said.publisher).map_or(lost, |f| {
            said.missing.saturating_add(newest).saturating_sub(f).saturating_sub(here)
        })
    }

    /// Reason why the number of samples published on the other host is unknown.
    /// `elsewhere`: as in [`Self::lost_after`].
    pub(crate) fn uncounted(
        &self,
        elsewhere: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<Uncounted> {
        let ended = self.ended.load(Relaxed);
        let said = AfarCount::read(&self.segment);
        match said.map(|said| said.state) {
            Some(AfarState::Unknown(why)) => Some(why),
            Some(AfarState::Ended) => {
                // False if no sample of the publisher arrived and the number to expect is unknown.
                let begun = said.is_some_and(|said| {
                    self.base(&said).is_some() || elsewhere(said.publisher).is_some()
                });
                (!begun).then_some(Uncounted::NotAnnounced)
            }
            Some(AfarState::There) => ended.then_some(Uncounted::GatewayGone),
            None => (ended && !self.is_new_from_afar()).then_some(Uncounted::NotAnnounced),
        }
    }

    /// Notes the number of missing samples of its publisher on another host when the match begins.
    pub(crate) fn joins_afar(&self) {
        if let Some(said) = AfarCount::read(&self.segment).filter(|said| said.before.is_some()) {
            self.progress.joined.store(said.missing.saturating_add(1), Relaxed);
        }
    }
}

/// Returns the number up to which the samples of a remote publisher were received or counted by
/// edges other than `new`. `known` is this number for edges that are no longer listed.
pub(crate) fn furthest_elsewhere(
    new: &Edge,
    edges: &[Arc<Edge>],
    publisher: u64,
    known: Option<u64>,
) -> Option<u64> {
    let mut furthest = known;
    for e in edges.iter().filter(|e| !std::ptr::eq(&***e, new)) {
        let of = if e.ended.load(Relaxed) {
            e.counted_afar(e.next(), |p| furthest.filter(|_| p == publisher))
        } else {
            // Another gateway still carries the samples, or has ended unnoticed. The unread samples
            // of `e` will be received or counted through `e`.
            e.said_afar().or_else(|| {
                e.read_afar(reader::newest(&e.segment).0.saturating_add(1).max(e.next()))
            })
        };
        furthest = furthest.max(of.filter(|(p, _)| *p == publisher).map(|(_, f)| f));
    }
    furthest
}

/// Skips the publisher's unread samples on each ended edge, other than `new`, whose newest sample
/// has a number below `number`. Returns the number of skipped samples on edges whose gateway
/// reports `missing` in the segment: these samples count as missed. The others count as lost on the
/// way.
pub(crate) fn pass_over_left(new: &Edge, edges: &[Arc<Edge>], publisher: u64, number: u64) -> u64 {
    let mut passed = 0;
    let left = edges
        .iter()
        .filter(|e| !std::ptr::eq(&***e, new) && e.ended.load(Relaxed) && has_unread(e));
    for e in left {
        let newest = reader::newest(&e.segment).0;
        // An edge whose newest sample is not below `number` will still be read.
        if !e
            .left_from_afar()
            .is_some_and(|(p, lost)| p == publisher && lost.saturating_add(newest) < number)
        {
            continue;
        }
        if AfarCount::read(&e.segment).is_some_and(|said| said.publisher == publisher) {
            let unread = (newest + 1).saturating_sub(e.next());
            crate::publication::add(&e.progress.counters.missed, unread);
            passed += unread;
        }
        e.advance(newest);
    }
    passed
}
