// SPDX-License-Identifier: Apache-2.0
//! The smaller handshakes: reliable publishing, kicks, and the reader's table of held samples.

use crate::{check, must_notice};
use driveline_shm::held_samples::HeldSamples;
use driveline_shm::protocol::cursor;
use driveline_shm::protocol::kick::{Kick, WAITING};
use driveline_shm::protocol::newest_time::NewestTime;
use driveline_shm::protocol::reader::unpin;
use driveline_shm::sync::Mutant;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

/// Model of the kernel: a thread sleeps while a condition holds.
#[derive(Default)]
struct Sleep {
    lock: Mutex<()>,
    queue: Condvar,
}

impl Sleep {
    fn wait_while(&self, as_expected: impl FnOnce() -> bool) {
        let guard = self.lock.lock().unwrap();
        if as_expected() {
            drop(self.queue.wait(guard).unwrap());
        }
    }
    fn wake(&self) {
        let _guard = self.lock.lock().unwrap();
        self.queue.notify_all();
    }
}

/// A publisher waits until a subscription has read the last sample. A lost wake-up is a deadlock,
/// which loom reports.
fn reliable() {
    const LAST: u64 = 2;
    check(3, || {
        let (cursor, waiting) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU32::new(0)));
        let futex = Arc::new(Sleep::default());
        let reader = {
            let (c, w, futex) = (Arc::clone(&cursor), Arc::clone(&waiting), Arc::clone(&futex));
            thread::spawn(move || {
                for sequence in 1..=LAST {
                    if cursor::advance(&c, &w, sequence) {
                        futex.wake();
                    }
                }
            })
        };
        cursor::begin_waiting(&waiting);
        loop {
            cursor::settle();
            let seen = cursor::position(&cursor);
            if seen >= LAST {
                break;
            }
            futex.wait_while(|| cursor.load(Relaxed) == seen);
        }
        cursor::end_waiting(&waiting);
        reader.join().unwrap();
    });
}

#[test]
fn a_reliable_publisher_is_woken() {
    reliable();
}

#[test]
fn a_reliable_publisher_without_the_readers_fence() {
    must_notice(Mutant::NoCursorFence, reliable);
}

#[test]
fn a_reliable_publisher_without_its_fence() {
    must_notice(Mutant::NoWaitingFence, reliable);
}

/// Two threads kick one waiter. The waiter must return at least once after each kick, and see the
/// writes before that kick.
fn kicked() {
    check(3, || {
        let kick = Arc::new(Kick::default());
        let futex = Arc::new(Sleep::default());
        let done = [Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0))];
        let kickers: Vec<_> = done
            .iter()
            .cloned()
            .map(|done| {
                let (kick, futex) = (Arc::clone(&kick), Arc::clone(&futex));
                thread::spawn(move || {
                    done.store(1, Relaxed);
                    if kick.kick() {
                        futex.wake();
                    }
                })
            })
            .collect();
        // Only kicks end the waits. The waiter continues until it has seen both kicks.
        while done.iter().any(|d| d.load(Relaxed) == 0) {
            while !kick.take() {
                if kick.begin() {
                    futex.wait_while(|| kick.word().load(Relaxed) == WAITING);
                    kick.end();
                }
            }
        }
        for k in kickers {
            k.join().unwrap();
        }
    });
}

#[test]
fn no_kick_is_lost() {
    kicked();
}

#[test]
fn kicks_that_the_end_of_a_wait_forgets() {
    must_notice(Mutant::EndForgetsKick, kicked);
}

/// Writes before a kick are visible to the thread that takes it.
fn kick_carries() {
    check(3, || {
        let kick = Arc::new(Kick::default());
        let message = Arc::new(loom::cell::UnsafeCell::new(0));
        let kicker = {
            let (kick, message) = (Arc::clone(&kick), Shared(Arc::clone(&message)));
            thread::spawn(move || {
                message.write(1);
                let _ = kick.kick();
            })
        };
        if kick.take() {
            assert_eq!(Shared(message).read(), 1);
        }
        kicker.join().unwrap();
    });
}

/// A cell that loom checks.
struct Shared(Arc<loom::cell::UnsafeCell<u32>>);

// SAFETY: loom's cells check every access.
unsafe impl Send for Shared {}

impl Shared {
    fn write(&self, value: u32) {
        // SAFETY: loom checks that no other thread accesses it.
        self.0.with_mut(|p| unsafe { *p = value });
    }
    fn read(&self) -> u32 {
        // SAFETY: loom checks that no thread writes it meanwhile.
        self.0.with(|p| unsafe { *p })
    }
}

#[test]
fn a_kick_carries_what_was_done_before_it() {
    kick_carries();
}

#[test]
fn a_relaxed_kick_carries_nothing() {
    must_notice(Mutant::RelaxedKick, kick_carries);
}

/// A helper makes the waiter check during a kick: the kick is not lost.
fn looked_and_kicked() {
    check(3, || {
        let (kick, futex) = (Arc::new(Kick::default()), Arc::new(Sleep::default()));
        let others = [Kick::look, Kick::kick].map(|tell: fn(&Kick) -> bool| {
            let (kick, futex) = (Arc::clone(&kick), Arc::clone(&futex));
            thread::spawn(move || {
                if tell(&kick) {
                    futex.wake();
                }
            })
        });
        while !kick.take() {
            if kick.begin() {
                futex.wait_while(|| kick.word().load(Relaxed) == WAITING);
                kick.end();
            }
        }
        for other in others {
            other.join().unwrap();
        }
    });
}

#[test]
fn a_look_hides_no_kick() {
    looked_and_kicked();
}

#[test]
fn looks_that_overwrite_kicks() {
    must_notice(Mutant::LookOverwrites, looked_and_kicked);
}

/// A held sample is handed to two threads; its entry is used again when both are done with it, and
/// not before.
fn held_samples() {
    check(3, || {
        let (held_samples, cell) = (Arc::new(HeldSamples::new(1)), Arc::new(AtomicU32::new(0)));
        let pin_and_open = |sequence: u64| {
            cell.store(1, Release);
            // SAFETY: this is the consuming thread, and it has seen the cell cleared with Acquire.
            unsafe { held_samples.open(0, |header| header.sequence = sequence) };
        };
        pin_and_open(1);
        held_samples.add_handle(0);
        let holders: Vec<_> = (0..2)
            .map(|_| {
                let (held_samples, cell) = (Arc::clone(&held_samples), Arc::clone(&cell));
                thread::spawn(move || {
                    // SAFETY: this thread has a handle.
                    assert_eq!(
                        unsafe { held_samples.header(0) }.sequence,
                        1,
                        "the header of another sample"
                    );
                    if held_samples.drop_handle(0) {
                        unpin(&cell);
                    }
                })
            })
            .collect();
        let reused = cell.load(Acquire) == 0;
        if reused {
            pin_and_open(2);
        }
        for h in holders {
            h.join().unwrap();
        }
        assert_eq!(cell.load(Relaxed), u32::from(reused), "given back exactly once");
    });
}

#[test]
fn an_entry_is_used_again_when_its_last_handle_is_gone() {
    held_samples();
}

#[test]
fn handles_dropped_relaxed() {
    must_notice(Mutant::RelaxedHandleDrop, held_samples);
}

#[test]
fn the_last_handle_seen_relaxed() {
    must_notice(Mutant::RelaxedLastHandle, held_samples);
}

/// The number of the newest sample comes with its time, and never goes back.
fn newest_time() {
    check(3, || {
        let newest = Arc::new(NewestTime::default());
        let publisher = {
            let newest = Arc::clone(&newest);
            thread::spawn(move || (1..=3).for_each(|number| newest.published(10 * number)))
        };
        let mut last = 0;
        for _ in 0..2 {
            let (number, time) = newest.newest();
            assert!(number >= last, "{number} after {last}");
            assert_eq!(time, 10 * number, "time of sample {number}");
            last = number;
        }
        publisher.join().unwrap();
        assert_eq!(newest.newest(), (3, 30));
    });
}

#[test]
fn the_newest_number_comes_with_its_time() {
    newest_time();
}

#[test]
fn one_place_for_all_times_is_not_enough() {
    must_notice(Mutant::OneTimeOnly, newest_time);
}
