// SPDX-License-Identifier: Apache-2.0
//! Sleeping without missing a sample, and waking only sleepers.
//!
//! The waiter announces the sequence that it waits for (`armed`), fences, and checks again. The
//! publisher publishes, fences, and reads `armed`. One of the two sees the other. The kernel
//! compares the wake word with the value that the waiter loaded before arming; the publisher
//! changes the word after it has seen the arming. So a waiter whose arming the publisher has seen
//! is either asleep and is woken, or finds the word changed and does not sleep. For other waiters
//! the word need not change.

use super::{Match, Segment, reader};
use crate::fault;
use crate::sync::Ordering::{Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicU32, AtomicU64, Mutant, fence, mutant};

/// Parts of one match that a waiter needs.
pub trait Sleeper {
    /// The publisher's segment.
    type Segment: Segment;
    /// The publisher's segment.
    fn segment(&self) -> &Self::Segment;
    /// The wake word of the match's trust group.
    fn word(&self) -> &AtomicU32;
    /// See [`Match::armed`].
    fn armed(&self) -> &AtomicU64;
    /// The first sequence that has not been read; at least 1.
    fn next(&self) -> u64;
}

/// Returns true if there is an unread sample.
#[inline]
pub fn has_unread<S: Sleeper>(sleeper: &S) -> bool {
    reader::newest(sleeper.segment()).0 >= sleeper.next()
}

/// First step: remembers the wake word and announces sleep. Then [`settle`], once for all matches
/// of the waiter.
pub fn arm<S: Sleeper>(sleeper: &S) -> u32 {
    let word = sleeper.word().load(Relaxed);
    // Before the store below. Pairs with the Release of the wake-up: a waiter that sees its word
    // sees its sample.
    fence(Acquire);
    sleeper.armed().store(sleeper.next(), Release);
    word
}

/// Second step, between arming and the second check with [`has_unread`].
pub fn settle() {
    fault::point("wait.after_arm");
    if !mutant(Mutant::NoArmFence) {
        // Pairs with the fence in Slots::publish (latest, fence, armed).
        fence(SeqCst);
    }
    fault::point("wait.before_sleep");
}

/// Last step, whether the waiter has slept or not.
pub fn disarm<S: Sleeper>(sleeper: &S) {
    fault::point("wait.after_sleep");
    sleeper.armed().store(0, Release);
}

/// The publisher's decision, after its fence, for the sample that it has just published.
#[inline]
pub fn must_wake<M: Match>(m: &M, sequence: u64) -> bool {
    // Read-only mappings permit no other ordering than Relaxed plus a fence.
    let armed = m.armed().load(Relaxed);
    if armed == 0 {
        return false;
    }
    // Pairs with the Release in `arm`.
    fence(Acquire);
    // Waking before that sequence is published would use up the one wake-up that this waiter gets
    // for it.
    if armed > sequence && !mutant(Mutant::WakeTooEarly) {
        return false;
    }
    // Relaxed: only the publishing thread uses it.
    if m.woken().load(Relaxed) == armed {
        return false;
    }
    m.woken().store(armed, Relaxed);
    true
}
