// SPDX-License-Identifier: Apache-2.0
//! Threads that sleep for a waiting thread, if one thread cannot sleep on all words at once.
//!
//! Each helper arms the subscriptions of its publishers and sleeps. When there is data, it disarms
//! them, has the waiting thread check, and rests until that thread resumes it. So, as without
//! helpers, a subscription is armed only while a thread sleeps on its word, or is about to.

use crate::inlet::{Edge, has_unread};
use crate::kick::KickWord;
use crate::protocol::sleep::{self, Sleeper as _};
use crate::sys::fork::Birthplace;
use crate::sys::futex::{self, Scope, WaitList, Word};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU32, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};
use std::thread::JoinHandle;
use std::time::Duration;

/// A publisher, and the flag that its subscription is muted.
type Charge = (Arc<Edge>, Arc<AtomicBool>);

struct Shared {
    charges: Vec<Charge>,
    waiter: Arc<KickWord>,
    /// Changes when the helper must check everything again.
    turn: AtomicU32,
    /// True from the helper's report of data until the waiting thread resumes it.
    rests: AtomicBool,
    stop: AtomicBool,
    stopped: AtomicBool,
}

/// All threads of a wait set. Dropping them ends the threads.
pub(crate) struct WaitThreads {
    list: Vec<(Arc<Shared>, Option<JoinHandle<()>>)>,
    birthplace: Birthplace,
}

impl WaitThreads {
    /// One thread per `per_thread` publishers.
    pub(crate) fn new(
        charges: Vec<Charge>,
        per_thread: usize,
        waiter: &Arc<KickWord>,
        birthplace: Birthplace,
    ) -> Self {
        let mut list = Vec::new();
        for chunk in charges.chunks(per_thread.max(1)) {
            let shared = Arc::new(Shared {
                charges: chunk.to_vec(),
                waiter: Arc::clone(waiter),
                turn: AtomicU32::new(0),
                rests: AtomicBool::new(false),
                stop: AtomicBool::new(false),
                stopped: AtomicBool::new(false),
            });
            let own = Arc::clone(&shared);
            let thread = std::thread::Builder::new()
                .name("driveline-wait".into())
                .spawn(move || run(&own))
                .ok();
            if thread.is_none() {
                // Without this thread, its publishers would not wake the waiter. So the waiter
                // checks repeatedly instead of sleeping. This shows as CPU use; the remedy is a
                // higher limit on threads.
                waiter.look();
            }
            list.push((shared, thread));
        }
        Self { list, birthplace }
    }

    /// Resumes resting threads before the waiter sleeps; all of them if mutes have changed.
    pub(crate) fn go(&mut self, all: bool) {
        for (shared, thread) in &self.list {
            // Acquire pairs with the Release in `run`: the helper's report came before.
            if shared.rests.swap(false, AcqRel) || all {
                shared.turn.fetch_add(1, Release);
                futex::wake(&shared.turn, Scope::Private, 1);
            }
            if thread.is_none() {
                shared.waiter.look();
            }
        }
    }
}

impl Drop for WaitThreads {
    fn drop(&mut self) {
        if !self.birthplace.is_here() {
            // A child has none of the threads: there is nothing to stop, and nothing to wait for.
            self.list.drain(..).filter_map(|(_, thread)| thread).for_each(std::mem::forget);
            return;
        }
        for (shared, _) in &self.list {
            shared.stop.store(true, Release);
            shared.turn.fetch_add(1, Release);
            futex::wake(&shared.turn, Scope::Private, 1);
        }
        for (shared, thread) in &mut self.list {
            // A helper with a single publisher sleeps only on that publisher's wake word, not on
            // `turn`, so the word is woken here. This also wakes other sleepers on it, which check
            // and sleep again. Helpers end rarely: when publishers join or leave.
            while thread.is_some() && !shared.stopped.load(Acquire) {
                if let [(edge, _)] = shared.charges.as_slice() {
                    futex::wake(edge.word(), Scope::Shared, i32::MAX as u32);
                }
                std::thread::sleep(Duration::from_micros(50));
            }
            if let Some(thread) = thread.take() {
                let _ = thread.join();
            }
        }
    }
}

fn run(shared: &Shared) {
    let mut list = WaitList::with_room_for(shared.charges.len() + 1);
    let mut expected = Vec::with_capacity(shared.charges.len());
    // Acquire pairs with the Release of `go`.
    let mut turn = shared.turn.load(Acquire);
    while !shared.stop.load(Acquire) {
        let awake = |c: &&Charge| !c.1.load(Relaxed);
        let charges: Vec<&Edge> = shared.charges.iter().filter(awake).map(|c| &*c.0).collect();
        expected.clear();
        expected.extend(charges.iter().map(|e| sleep::arm(*e)));
        sleep::settle();
        let unread = charges.iter().any(|e| has_unread(e));
        if !unread && shared.turn.load(Acquire) == turn {
            match (charges.as_slice(), expected.as_slice()) {
                ([], _) => futex::wait(&shared.turn, Scope::Private, turn, None),
                ([edge], [word]) if shared.charges.len() == 1 => {
                    futex::wait(edge.word(), Scope::Shared, *word, None)
                }
                _ => {
                    let own = Word { word: &shared.turn, scope: Scope::Private, expected: turn };
                    let words = charges.iter().zip(&expected).map(|(e, x)| Word {
                        word: e.word(),
                        scope: Scope::Shared,
                        expected: *x,
                    });
                    list.wait_any(std::iter::once(own).chain(words), None);
                }
            }
        }
        for edge in &charges {
            sleep::disarm(*edge);
        }
        if charges.iter().any(|e| has_unread(e)) {
            turn = shared.turn.load(Acquire);
            shared.rests.store(true, Release);
            shared.waiter.look();
            while shared.turn.load(Acquire) == turn && !shared.stop.load(Acquire) {
                futex::wait(&shared.turn, Scope::Private, turn, None);
            }
        }
        turn = shared.turn.load(Acquire);
    }
    shared.stopped.store(true, Release);
}
