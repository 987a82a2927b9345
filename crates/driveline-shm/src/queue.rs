// SPDX-License-Identifier: Apache-2.0
//! Queues of events for `poll_event`. Most events come from the control thread.

use crate::kick::Kicker;
use crate::limits::MAX_EVENTS;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Locks. If another thread panicked while it held the lock, the content is used as it is: no data
/// under these locks is ever half changed.
pub(crate) fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], without waiting: `None` while another thread holds the lock. For threads that may
/// have a higher priority than the others.
pub(crate) fn try_lock<T>(m: &Mutex<T>) -> Option<MutexGuard<'_, T>> {
    match m.try_lock() {
        Ok(guard) => Some(guard),
        Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// A bounded queue. If it is full, a new event displaces the oldest one.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    waiting: Mutex<(VecDeque<T>, u64)>,
    any: AtomicBool,
    kicker: Mutex<Option<Kicker>>,
}

impl<T> EventQueue<T> {
    pub(crate) fn new() -> Self {
        Self {
            waiting: Mutex::new((VecDeque::new(), 0)),
            any: AtomicBool::new(false),
            kicker: Mutex::new(None),
        }
    }

    pub(crate) fn push(&self, event: T) {
        let mut waiting = lock(&self.waiting);
        if waiting.0.len() >= MAX_EVENTS {
            waiting.0.pop_front();
            waiting.1 += 1;
        }
        waiting.0.push_back(event);
        self.any.store(true, Relaxed);
        drop(waiting);
        if let Some(kicker) = &*lock(&self.kicker) {
            kicker.kick();
        }
    }

    /// Sets the wait set that each event kicks from now on.
    pub(crate) fn set_kicker(&self, kicker: Kicker) {
        *lock(&self.kicker) = Some(kicker);
    }

    /// Returns the oldest event, or `dropped(n)` if n events were dropped before it. Does not wait:
    /// returns `None` while another thread adds an event.
    pub(crate) fn pop(&self, dropped: impl FnOnce(u64) -> T) -> Option<T> {
        if !self.any.load(Relaxed) {
            return None;
        }
        let mut waiting = try_lock(&self.waiting)?;
        if waiting.1 > 0 {
            return Some(dropped(std::mem::take(&mut waiting.1)));
        }
        let event = waiting.0.pop_front();
        if waiting.0.is_empty() {
            self.any.store(false, Relaxed);
        }
        event
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_out_is_counted() {
        let q = EventQueue::new();
        for i in 0..MAX_EVENTS + 3 {
            q.push(i);
        }
        assert_eq!(q.pop(|n| 1_000_000 + n as usize), Some(1_000_003));
        let rest: Vec<_> = std::iter::from_fn(|| q.pop(|_| unreachable!())).collect();
        assert_eq!(rest, (3..MAX_EVENTS + 3).collect::<Vec<_>>());
    }

    /// The thread that adds events has a lower priority than a real-time reader.
    #[test]
    fn a_reader_does_not_wait_for_the_thread_that_adds_an_event() {
        let queue = EventQueue::new();
        queue.push(1);
        let adding = lock(&queue.waiting);
        assert_eq!(queue.pop(|_| 0), None);
        drop(adding);
        assert_eq!(queue.pop(|_| 0), Some(1));
    }
}
