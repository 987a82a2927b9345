// SPDX-License-Identifier: Apache-2.0
//! Decides when a route may pass another sample to Zenoh: `docs/protocols/network.md`, section 5.
//! No thread, no clock: times are arguments.

use crate::wire::{Ack, Outcome};
use driveline_types::MonotonicNs;
use std::collections::VecDeque;
use std::time::Duration;

/// Maximum number of samples in flight.
pub const MAX_IN_FLIGHT: usize = 32;
/// Size of the window, as the time in which the link carries it. With a full window, no further
/// sample is sent. A sample as long as the window or longer may follow others in flight, but no
/// other sample is sent until it is acknowledged. The kernel buffers about as much; more would only
/// wait in Zenoh.
const WINDOW_US: u64 = 5_000;
/// Bounds of the window. Before a slow link, at least one batch of Zenoh and the kernel's send
/// buffer are queued, so a smaller window would gain nothing. The upper bound limits memory.
const WINDOW_BYTES: [usize; 2] = [32 * 1024, 1 << 20];
/// Upper bound of the window in bytes: a sender sends a further sample, of any length, only while
/// fewer bytes are in flight.
pub const MAX_WINDOW_BYTES: usize = WINDOW_BYTES[1];
/// Time-out of an acknowledgement, from the end of the hand-over of the sample to Zenoh. On a slow
/// link, the hand-over takes as long as the transmission. For a reliable sample, the time-out
/// begins at the acknowledgement of the sample before it, if that is later.
const ACK_WITHIN: Duration = Duration::from_secs(2);
/// Addition to the time-out for each byte in flight.
const ACK_WITHIN_PER_BYTE: Duration = Duration::from_micros(1);

/// First pause before a sample is sent again that the receiver does not accept yet. The pause
/// doubles.
const NOT_YET_FIRST: Duration = Duration::from_millis(10);
/// Maximum pause before a sample is sent again.
const NOT_YET_LONGEST: Duration = Duration::from_secs(1);

/// Time from the last hand-over or acknowledgement to the first nudge, a small message that follows
/// the samples in flight. If 1.25 times the round trip is longer, that is the time. The pauses
/// between nudges double.
const NUDGE_FIRST: Duration = Duration::from_millis(4);
/// Maximum number of nudges. Their pauses add up to at least a quarter of a second, in which TCP
/// detects a loss by itself.
const MAX_NUDGES: u32 = 6;

/// A sample that was handed to Zenoh and not acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Flying {
    number: u64,
    len: usize,
    until: MonotonicNs,
    /// True if the sample is long, or was sent behind a long one.
    with_long: bool,
}

/// Counters of a route's samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowCounters {
    /// Samples handed to Zenoh, without repetitions.
    pub sent: u64,
    /// Payload bytes of these samples.
    pub sent_bytes: u64,
    /// Samples in flight now.
    pub in_flight: u64,
    /// Samples handed to Zenoh again.
    pub sent_again: u64,
    /// Samples acknowledged as published at the receiver, and samples with an unknown outcome,
    /// because only the acknowledgement of a later sample came. Best-effort samples among these may
    /// have been dropped on the way; only the receiver counts such a loss.
    pub delivered: u64,
    /// Samples that the receiver acknowledged as dropped. Also samples without a remote publisher
    /// there, if the route does not wait for one, or has waited for too long.
    pub refused: u64,
    /// Samples given up because no acknowledgement came.
    pub unacknowledged: u64,
    /// Acknowledgements of samples that were never sent.
    pub nonsense: u64,
}

/// Returns the size of the window in bytes on a link of this bandwidth in Mbit/s: a further sample
/// is sent only while fewer bytes are in flight.
#[must_use]
pub fn bytes_in_flight(mbit: u32) -> usize {
    let [least, most] = WINDOW_BYTES;
    usize::try_from(u64::from(mbit) * WINDOW_US / 8).unwrap_or(most).clamp(least, most)
}

/// Samples of one route in flight. Reliable ones are contiguous: each stays until it is
/// acknowledged or refused.
#[derive(Debug)]
pub struct Window {
    /// True if each sample is sent until it has arrived, in order.
    reliable: bool,
    /// Number of bytes in flight at which no further sample is sent.
    full_at: usize,
    /// Maximum number of samples in flight. For a reliable route, the receiver sets it.
    most: usize,
    flying: VecDeque<Flying>,
    bytes: usize,
    last: u64,
    /// True if no sample follows the last one before its acknowledgement, because the receiver may
    /// not have a remote publisher for it yet.
    alone: bool,
    rewind: Option<Rewind>,
    /// Time of the last rewind. Answers to samples sent before it cause no other rewind.
    went_back: MonotonicNs,
    /// Number of rewinds since the last acknowledgement.
    stuck: u32,
    /// Minimum round-trip time.
    round_trip: Duration,
    nudge: Nudge,
    counters: WindowCounters,
}

/// Next nudge, if no sample is handed over and none is acknowledged before.
#[derive(Clone, Copy, Debug, Default)]
struct Nudge {
    at: MonotonicNs,
    /// Pause before it.
    pause: Duration,
    /// Number of nudges sent.
    sent: u32,
}

/// Position of a rewind: all samples in flight are sent again, one after the other.
#[derive(Clone, Copy, Debug)]
struct Rewind {
    /// Number of the next sample to send again. All samples after it follow.
    next: u64,
    /// Earliest time to send it.
    at: MonotonicNs,
}

/// Action when an acknowledgement is overdue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// Nothing is overdue.
    Nothing,
    /// At least one sample was given up: the next one may be taken.
    GivenUp,
    /// The sample must be sent again, under its number.
    Rewind {
        /// Number of the sample.
        number: u64,
    },
}

/// Number and place that a sample in flight carries to the receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the sample on this route.
    pub number: u64,
    /// Place of a reliable sample: 1 for the oldest in flight, 2 for the next one, and so on. 0:
    /// order does not matter.
    pub place: u16,
}

impl Window {
    /// Makes a window with nothing in flight. Samples are numbered after `before`. An earlier
    /// sender of this route's key must not have used these numbers: acknowledgements do not name
    /// the sender. `full_at`: see [`bytes_in_flight`].
    #[must_use]
    pub fn new(reliable: bool, full_at: usize, before: u64) -> Self {
        Self {
            reliable,
            full_at,
            // Until the receiver accepts more.
            most: if reliable { 1 } else { MAX_IN_FLIGHT },
            flying: VecDeque::with_capacity(MAX_IN_FLIGHT),
            bytes: 0,
            last: before,
            alone: false,
            rewind: None,
            went_back: MonotonicNs(0),
            stuck: 0,
            round_trip: Duration::ZERO,
            nudge: Nudge::default(),
            counters: WindowCounters::default(),
        }
    }

    /// Returns true if samples are repeated until they have arrived.
    #[must_use]
    pub fn is_reliable(&self) -> bool {
        self.reliable
    }

    /// Returns true if further samples may follow one of this length before its acknowledgement.
    #[must_use]
    pub fn may_be_followed(&self, len: usize) -> bool {
        len < self.full_at
    }

    /// Returns true if another sample may be taken and sent.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let open = self.stuck == 0 && self.rewind.is_none() && !self.alone;
        self.flying.is_empty() || open && self.flying.len() < self.most && self.bytes < self.full_at
    }

    /// Adds a sample that is about to be sent. `alone`: no other sample follows before the
    /// acknowledgement of this one, so that this one can be repeated.
    pub fn send(&mut self, len: usize, alone: bool, now: MonotonicNs) -> Place {
        self.last += 1;
        self.bytes += len;
        (self.alone, self.stuck, self.rewind) = (alone, 0, None);
        self.counters.sent += 1;
        self.counters.sent_bytes += len as u64;
        self.flying.push_back(Flying {
            number: self.last,
            len,
            until: self.patience(now),
            with_long: false,
        });
        self.place(self.last)
    }

    /// Takes the sample of [`Overdue::Rewind`], which is about to be sent again.
    pub fn send_again(&mut self, now: MonotonicNs) -> Place {
        let number = self.rewind.map_or(self.last, |rewind| rewind.next);
        self.counters.sent_again += 1;
        self.rewind = self
            .rewind
            .map(|rewind| Rewind { next: number + 1, ..rewind })
            .filter(|rewind| rewind.next <= self.last);
        self.handed_over(number, now);
        self.place(number)
    }

    /// Notes that a sample has been handed over: the time-out of its acknowledgement starts now.
    pub fn handed_over(&mut self, number: u64, now: MonotonicNs) {
        let until = self.patience(now);
        self.quiet_since(now);
        self.flying.iter_mut().rev().filter(|f| f.number == number).for_each(|f| f.until = until);
    }

    fn place(&self, number: u64) -> Place {
        let oldest = self.flying.front().filter(|_| self.reliable).map(|f| f.number);
        Place {
            number,
            place: oldest
                .map_or(0, |oldest| u16::try_from(number - oldest + 1).unwrap_or(u16::MAX)),
        }
    }

    /// Returns the end of a time-out that begins now. Its length depends on the bytes in flight.
    fn patience(&self, now: MonotonicNs) -> MonotonicNs {
        now + ACK_WITHIN
            + ACK_WITHIN_PER_BYTE.saturating_mul(u32::try_from(self.bytes).unwrap_or(u32::MAX))
    }

    /// Returns true if the sample must be sent with the priority of samples longer than `than`: it
    /// is longer itself, or follows one in flight that was sent with that priority. If it overtook
    /// that one, the receiver would count the overtaken sample as lost. So once a longer sample has
    /// been sent, all later samples have that priority until none of them is in flight.
    pub fn goes_with_long(&mut self, number: u64, than: usize) -> bool {
        let mut with_long = false;
        if let Some(at) = self.flying.iter().position(|f| f.number == number) {
            with_long = self.flying[at].len > than || self.flying.range(..at).any(|f| f.with_long);
            self.flying[at].with_long = with_long;
        }
        with_long
    }

    /// Handles a "not yet": the receiver has no remote publisher for this sample yet. The sample
    /// stays in flight; all samples in flight are sent again after a pause. `false`: it is not in
    /// flight, or it cannot be sent again.
    pub fn not_yet(&mut self, ack: &Ack, now: MonotonicNs) -> bool {
        let in_flight = self.flying.iter().any(|f| f.number == ack.number);
        let kept = self.reliable || self.alone && ack.number == self.last;
        if !in_flight || !kept {
            return false;
        }
        if !self.reliable {
            // The samples before it have arrived, or never will.
            self.acknowledged(
                &Ack { number: ack.number - 1, outcome: Outcome::Published, ..*ack },
                now,
            );
        }
        if self.rewind.is_none() && ack.sent >= self.went_back {
            let pause = Self::pause(self.stuck);
            self.go_back(now + pause);
        }
        true
    }

    /// Handles a refusal: the receiver has no remote publisher for this sample, and the route does
    /// not wait for one, or no longer. `true`: a sample is no longer in flight.
    pub fn refused(&mut self, ack: &Ack, now: MonotonicNs) -> bool {
        if !self.reliable {
            return self.acknowledged(ack, now);
        }
        if ack.sent < self.went_back {
            // The answer belongs to an earlier transmission: the sample was sent again since.
            return false;
        }
        if self.flying.front().is_none_or(|f| f.number != ack.number) {
            // The receiver decides on this sample after the samples before it have been published.
            self.not_yet(ack, now);
            return false;
        }
        self.settled(ack.number, ack.outcome, now);
        // The receiver accepted none of the samples after it.
        if self.rewind.is_none() {
            self.go_back(now);
            self.stuck = 0;
        }
        true
    }

    /// Handles a gap: a sample arrived before an earlier one. `ack.number` is the last sample
    /// before the gap; all samples after it are sent again: at once, or after a pause if that did
    /// not help. `true`: a sample is no longer in flight.
    pub fn gap(&mut self, ack: &Ack, now: MonotonicNs) -> bool {
        let advanced = self.acknowledged(ack, now);
        if self.reliable
            && ack.number <= self.last
            && self.rewind.is_none()
            && ack.sent >= self.went_back
        {
            let pause = self.stuck.checked_sub(1).map_or(Duration::ZERO, Self::pause);
            self.go_back(now + pause);
        }
        advanced
    }

    fn pause(stuck: u32) -> Duration {
        NOT_YET_FIRST.saturating_mul(1 << stuck.min(10)).min(NOT_YET_LONGEST)
    }

    /// Sends all samples in flight again from this time on, one after the other.
    fn go_back(&mut self, at: MonotonicNs) {
        if let Some(first) = self.flying.front() {
            self.rewind = Some(Rewind { next: first.number, at });
            self.went_back = at;
            self.stuck = self.stuck.saturating_add(1);
        }
    }

    /// Handles an acknowledgement. `true`: a sample is no longer in flight.
    pub fn acknowledged(&mut self, ack: &Ack, now: MonotonicNs) -> bool {
        if ack.number > self.last {
            self.counters.nonsense += 1;
            return false;
        }
        if self.reliable {
            self.most =
                usize::try_from(ack.accepts).unwrap_or(MAX_IN_FLIGHT).clamp(1, MAX_IN_FLIGHT);
        }
        self.settled(ack.number, ack.outcome, now)
    }

    /// Removes all samples up to this number; the last one has this outcome.
    fn settled(&mut self, number: u64, outcome: Outcome, now: MonotonicNs) -> bool {
        let before = self.flying.len();
        while let Some(first) = self.flying.front().filter(|f| f.number <= number).copied() {
            self.flying.pop_front();
            self.bytes -= first.len;
            // Skipped acknowledgements leave the outcomes of their samples unknown. Reliable ones
            // have arrived. A best-effort one may have been dropped on the way.
            if first.number == number && !matches!(outcome, Outcome::Published | Outcome::Gap) {
                self.counters.refused += 1;
            } else {
                self.counters.delivered += 1;
            }
        }
        if before == self.flying.len() {
            return false;
        }
        self.stuck = 0;
        self.quiet_since(now);
        let patience = self.patience(now);
        match self.flying.front_mut() {
            None => self.rewind = None,
            Some(first) => {
                self.rewind = self
                    .rewind
                    .map(|rewind| Rewind { next: rewind.next.max(first.number), ..rewind });
                if self.reliable {
                    // The oldest sample may have waited for the acknowledged ones.
                    first.until = first.until.max(patience);
                }
            }
        }
        true
    }

    /// Time to check [`Self::overdue`].
    #[must_use]
    pub fn deadline(&self) -> Option<MonotonicNs> {
        match self.rewind {
            Some(rewind) => Some(rewind.at),
            None if self.reliable => self.flying.front().map(|f| f.until),
            None => self.flying.iter().map(|f| f.until).min(),
        }
    }

    /// Returns the time to send a nudge after the samples in flight. The nudge lets TCP detect that
    /// the last packets before it were lost. `None`: nothing is in flight, or enough nudges were
    /// sent.
    #[must_use]
    pub fn nudge_at(&self) -> Option<MonotonicNs> {
        (!self.flying.is_empty() && self.nudge.sent < MAX_NUDGES).then_some(self.nudge.at)
    }

    /// Notes that the message of [`Self::nudge_at`] was sent.
    pub fn nudged(&mut self, now: MonotonicNs) {
        let pause = self.nudge.pause * 2;
        self.nudge = Nudge { at: now + pause, pause, sent: self.nudge.sent + 1 };
    }

    fn quiet_since(&mut self, now: MonotonicNs) {
        // A quarter more, for the processing of the answer.
        let pause = NUDGE_FIRST.max(self.round_trip * 5 / 4);
        self.nudge = Nudge { at: now + pause, pause, sent: 0 };
    }

    /// Updates the minimum round-trip time. No acknowledgement can arrive sooner.
    pub fn takes(&mut self, round_trip: Duration) {
        self.round_trip = round_trip;
    }

    /// Handles an acknowledgement that is overdue.
    pub fn overdue(&mut self, now: MonotonicNs) -> Overdue {
        if self.deadline().is_none_or(|d| now < d) {
            return Overdue::Nothing;
        }
        if self.rewind.is_none() && self.reliable {
            self.go_back(now);
        }
        if let Some(rewind) = self.rewind {
            return Overdue::Rewind { number: rewind.next };
        }
        self.give_up(|f| now >= f.until);
        Overdue::GivenUp
    }

    /// Handles the loss of the other host, or that it no longer wants the topic: no acknowledgement
    /// of samples in flight is expected any more. Reliable samples wait for its return.
    pub fn parted(&mut self, now: MonotonicNs) {
        if self.reliable {
            self.go_back(now);
        } else {
            self.give_up(|_| true);
            self.rewind = None;
        }
    }

    fn give_up(&mut self, which: impl Fn(&Flying) -> bool) {
        let before = self.flying.len();
        self.flying.retain(|f| !which(f));
        self.counters.unacknowledged += (before - self.flying.len()) as u64;
        self.bytes = self.flying.iter().map(|f| f.len).sum();
    }

    /// Number of samples in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.flying.len()
    }

    /// Number of the oldest sample in flight.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.flying.iter().map(|f| f.number).min()
    }

    /// Counters so far.
    #[must_use]
    pub fn counters(&self) -> WindowCounters {
        WindowCounters { in_flight: self.flying.len() as u64, ..self.counters }
    }
}

#[cfg(test)]
#[path = "window_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "window_model.rs"]
mod model;
