// SPDX-License-Identifier: Apache-2.0
//! The queue between one subscription and the publishers of its topic inside the process.
//!
//! The slots are crossbeam's. This file adds the hand-over of wake-ups and of free places:
//! - push, then kick: a waiter that armed before the push is woken, one that arms later finds the
//!   sample.
//! - a blocked reliable publisher sets `blocked`, then checks for room again; a reader pops, then
//!   checks `blocked`. Both have a full fence in between, so at least one of them sees the other.

use super::LocalSample;
use crate::raw::Waker;
use arc_swap::ArcSwapOption;
use crossbeam_queue::ArrayQueue;
use driveline_shm::BlockingMeter;
use driveline_types::MonotonicNs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

pub(crate) struct LocalQueue {
    ring: ArrayQueue<Arc<LocalSample>>,
    waker: ArcSwapOption<Waker>,
    reliable: bool,
    closed: AtomicBool,
    overwritten: AtomicU64,
    blocked: AtomicU32,
    /// Set after a publisher's wait has timed out, until the reader has read everything. Otherwise
    /// publishers would wait for a slow reader again and again.
    given_up: AtomicBool,
    room: (Mutex<()>, Condvar),
}

impl LocalQueue {
    pub(crate) fn new(depth: u32, reliable: bool) -> Self {
        Self {
            ring: ArrayQueue::new(depth.max(1) as usize),
            waker: ArcSwapOption::empty(),
            reliable,
            closed: AtomicBool::new(false),
            overwritten: AtomicU64::new(0),
            blocked: AtomicU32::new(0),
            given_up: AtomicBool::new(false),
            room: (Mutex::new(()), Condvar::new()),
        }
    }

    /// Sets the waiter to wake when a sample arrives.
    pub(crate) fn set_waker(&self, waker: Option<Waker>) {
        self.waker.store(waker.map(Arc::new));
    }

    /// Delivers a sample. `wait`: time until which a reliable publisher waits for room in the queue
    /// of a reliable subscription, and the counter of its waits. Without `wait`, or after this
    /// time, the oldest sample of a full queue is dropped. After a time-out publishers do not wait
    /// for the reader again until it has read everything. Returns the dropped sample, and true if
    /// the wait timed out.
    pub(crate) fn push(
        &self,
        sample: Arc<LocalSample>,
        wait: Option<(MonotonicNs, &BlockingMeter)>,
    ) -> (Option<Arc<LocalSample>>, bool) {
        let mut timed_out = false;
        if let (true, Some((deadline, blocking))) = (self.reliable, wait) {
            if self.ring.is_empty() {
                self.given_up.store(false, Ordering::Relaxed);
            } else if self.ring.is_full() && !self.given_up.load(Ordering::Relaxed) {
                blocking.begin(MonotonicNs::real_now());
                timed_out = !self.wait_for_room(deadline);
                if timed_out {
                    blocking.time_out();
                }
                blocking.end(MonotonicNs::real_now());
            }
        }
        let evicted = self.ring.force_push(sample);
        if evicted.is_some() {
            self.overwritten.fetch_add(1, Ordering::Relaxed);
        }
        if let Some(waker) = self.waker.load().as_ref() {
            waker.wake();
        }
        (evicted, timed_out)
    }

    /// Waits for room. Returns false if the deadline passed first.
    fn wait_for_room(&self, deadline: MonotonicNs) -> bool {
        let mut in_time = true;
        let (lock, condvar) = &self.room;
        let mut guard = lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.blocked.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence in `pop`: either this thread sees the room, or `pop` sees `blocked`.
        fence(Ordering::SeqCst);
        while self.ring.is_full() && !self.closed.load(Ordering::Acquire) {
            let left = deadline.since(MonotonicNs::real_now());
            if left.is_zero() {
                self.given_up.store(true, Ordering::Relaxed);
                in_time = false;
                break;
            }
            guard = condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.blocked.fetch_sub(1, Ordering::Relaxed);
        in_time
    }

    pub(crate) fn pop(&self) -> Option<Arc<LocalSample>> {
        let sample = self.ring.pop();
        if sample.is_some() && self.reliable {
            // Pairs with the fence in `wait_for_room`.
            fence(Ordering::SeqCst);
            if self.blocked.load(Ordering::Relaxed) > 0 {
                self.signal_room();
            }
        }
        sample
    }

    fn signal_room(&self) {
        let _guard = self.room.0.lock().unwrap_or_else(PoisonError::into_inner);
        self.room.1.notify_all();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ring.len()
    }

    pub(crate) fn is_reliable(&self) -> bool {
        self.reliable
    }

    /// Returns true if a sample fits without dropping another.
    pub(crate) fn has_room(&self) -> bool {
        !self.ring.is_full()
    }

    /// Number of samples replaced by newer ones before they were read.
    pub(crate) fn overwritten(&self) -> u64 {
        self.overwritten.load(Ordering::Relaxed)
    }

    /// Closes the queue of an ended subscription: publishers do not wait for room any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        self.signal_room();
    }
}
