// SPDX-License-Identifier: Apache-2.0
//! Sleeping on words and waking sleepers.
#![allow(unsafe_code, reason = "a wait list holds pointers into mappings")]

use driveline_types::MonotonicNs;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::{ClockId, Timespec};
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

/// Maximum number of words that `futex_waitv` takes.
pub(crate) const MAX_WORDS: usize = 128;

/// Sharing of a word between processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Only threads of this process use it.
    Private,
    /// In a shared mapping.
    Shared,
}

fn flags(scope: Scope) -> futex::Flags {
    match scope {
        Scope::Private => futex::Flags::PRIVATE,
        Scope::Shared => futex::Flags::empty(),
    }
}

fn timespec(t: MonotonicNs) -> Timespec {
    Timespec { tv_sec: (t.0 / 1_000_000_000) as i64, tv_nsec: (t.0 % 1_000_000_000) as _ }
}

/// Wakes at most `count` sleepers.
pub(crate) fn wake(word: &AtomicU32, scope: Scope, count: u32) {
    // It fails only for invalid addresses, which a reference excludes.
    let _ = futex::wake(word, flags(scope), count);
}

/// Sleeps while `word` is `expected`, until woken or until `deadline`. May return early; the caller
/// checks again.
pub(crate) fn wait(word: &AtomicU32, scope: Scope, expected: u32, deadline: Option<MonotonicNs>) {
    // FUTEX_WAIT's time-out is relative; the bitset form takes an absolute one on CLOCK_MONOTONIC.
    let at = deadline.map(timespec);
    let _ =
        futex::wait_bitset(word, flags(scope), expected, at.as_ref(), std::num::NonZeroU32::MAX);
}

/// One word for [`WaitList::wait_any`].
#[derive(Clone, Copy)]
pub(crate) struct Word<'a> {
    pub(crate) word: &'a AtomicU32,
    pub(crate) scope: Scope,
    pub(crate) expected: u32,
}

/// A reusable list of words to sleep on.
pub(crate) struct WaitList(Vec<futex::Wait>);

// SAFETY: the list holds addresses only during `wait_any`; between calls it is empty memory.
unsafe impl Send for WaitList {}

impl WaitList {
    /// Space for `words` (at most [`MAX_WORDS`]) without allocating later.
    pub(crate) fn with_room_for(words: usize) -> Self {
        Self(Vec::with_capacity(words.min(MAX_WORDS)))
    }

    /// Sleeps while every word has its expected value, until one is woken or until `deadline`. At
    /// most [`MAX_WORDS`]; needs [`have_waitv`]. May return early; the caller checks again.
    pub(crate) fn wait_any<'a>(
        &mut self,
        words: impl Iterator<Item = Word<'a>>,
        deadline: Option<MonotonicNs>,
    ) {
        self.0.clear();
        self.0.extend(words.take(MAX_WORDS).map(|w| {
            let mut f = futex::Wait::new();
            f.val = u64::from(w.expected);
            f.uaddr = futex::WaitPtr::new(std::ptr::from_ref(w.word).cast_mut().cast());
            f.flags = match w.scope {
                Scope::Private => futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE,
                Scope::Shared => futex::WaitFlags::SIZE_U32,
            };
            f
        }));
        let at = deadline.map(timespec);
        let _ = futex::waitv(&self.0, futex::WaitvFlags::empty(), at.as_ref(), ClockId::Monotonic);
        self.0.clear();
    }
}

/// Returns true if this kernel has `futex_waitv` (Linux 5.16 and newer, unless a sandbox forbids
/// it).
pub(crate) fn have_waitv() -> bool {
    static HAVE: OnceLock<bool> = OnceLock::new();
    *HAVE.get_or_init(|| {
        // An empty list is invalid where the call exists.
        matches!(
            futex::waitv(&[], futex::WaitvFlags::empty(), None, ClockId::Monotonic),
            Err(Errno::INVAL)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_wait_ends_at_its_deadline_and_at_once_if_the_word_has_changed() {
        let word = AtomicU32::new(1);
        wait(&word, Scope::Private, 2, None);
        // time: nothing wakes these, so only their deadlines end them
        wait(&word, Scope::Private, 1, Some(MonotonicNs::real_now() + Duration::from_millis(1)));
        if have_waitv() {
            let mut list = WaitList::with_room_for(2);
            let w = |expected| Word { word: &word, scope: Scope::Private, expected };
            list.wait_any([w(1), w(2)].into_iter(), None);
            list.wait_any(
                [w(1), w(1)].into_iter(),
                Some(MonotonicNs::real_now() + Duration::from_millis(1)),
            );
        }
    }
}
