// SPDX-License-Identifier: Apache-2.0
//! Samples that all readers have read are withdrawn while readers join, read, hold and leave.

use crate::{Kernel, Memory, Page, check, must_notice, publish};
use driveline_shm::protocol::cursor;
use driveline_shm::protocol::epoch::{Scans, epoch};
use driveline_shm::protocol::reader::{self, Borrow, Want};
use driveline_shm::protocol::writer::{Slots, slots_needed};
use driveline_shm::protocol::{Match, Segment};
use driveline_shm::sync::Mutant;
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// Makes a loan as the product does: withdraws read samples, then fills a slot and publishes it.
/// Returns the slot.
fn refill(g: &Memory, slots: &mut Slots, scans: &mut Scans<Vec<Arc<Page>>>) -> usize {
    slots.withdraw(g, scans);
    publish(g, slots, scans, &mut Kernel(None));
    reader::newest(g).1
}

/// Reads the next unread sample, if there is one, as the product does: moves the cursor while the
/// sample is held, and releases the sample last. With `may_lose`, an announced sample may be
/// missing.
fn read(g: &Memory, page: &Page, next: &mut u64, may_lose: bool) {
    match reader::borrow(g, &page.pins[0], Want::Next, *next, 2) {
        Borrow::Pinned { sequence, slot } => {
            cursor::store(&page.cursor, sequence);
            // SAFETY: loom checks that no thread writes it meanwhile.
            g.payload[slot].with(|p| assert_eq!(unsafe { *p }, sequence, "torn or reused"));
            reader::unpin(&page.pins[0]);
            *next = sequence + 1;
        }
        Borrow::Nothing => {}
        other => assert!(may_lose, "an unread sample was taken away: {other:?}"),
    }
}

/// One publisher and honest readers, with exactly as many slots as the protocol claims to need. Two
/// samples stay published. So with two samples in all, a missing sample was withdrawn.
fn withdraw(samples: u64, reads: usize, readers: usize, preemptions: usize) -> bool {
    let same_slot_again = Arc::new(AtomicBool::new(false));
    let again = Arc::clone(&same_slot_again);
    check(preemptions, move || {
        let n = slots_needed(2, 1, readers);
        let g = Arc::new(Memory::new(n, 2));
        let pages: Vec<_> = (0..readers).map(|_| Page::new(1)).collect();
        let (mut scans, _changes) = epoch(pages.clone());
        let mut slots = Slots::new(n as u16, 2, 1);
        slots.set_weight(0);
        let mut last = refill(&g, &mut slots, &mut scans);
        let threads: Vec<_> = pages
            .into_iter()
            .map(|page| {
                let g = Arc::clone(&g);
                thread::spawn(move || {
                    let mut next = 1;
                    for _ in 0..reads {
                        read(&g, &page, &mut next, samples > 2);
                    }
                })
            })
            .collect();
        for _ in 1..samples {
            let slot = refill(&g, &mut slots, &mut scans);
            again.fetch_or(slot == last, SeqCst);
            last = slot;
        }
        for t in threads {
            t.join().unwrap();
        }
    });
    same_slot_again.load(SeqCst)
}

fn withdraw_one() {
    withdraw(2, 2, 1, 3);
}

#[test]
fn what_one_has_read_is_filled_again_and_nothing_unread_is_lost() {
    assert!(withdraw(2, 2, 1, 3), "no slot was used for two samples in a row");
}

#[test]
fn what_two_have_read_is_filled_again_and_nothing_unread_is_lost() {
    assert!(withdraw(2, 1, 2, 2), "no slot was used for two samples in a row");
}

#[test]
fn slots_go_round_and_no_sample_is_torn() {
    assert!(withdraw(4, 3, 1, 3), "no slot was used for two samples in a row");
}

#[test]
fn an_unread_sample_is_withdrawn() {
    must_notice(Mutant::WithdrawUnread, withdraw_one);
}

/// A reader whose cursor claims that it has read samples before it reads them. It may lose samples,
/// but gets no torn one.
fn liar() {
    check(3, || {
        let n = slots_needed(1, 1, 1);
        let g = Arc::new(Memory::new(n, 1));
        let page = Page::new(1);
        let (mut scans, _changes) = epoch(vec![Arc::clone(&page)]);
        let mut slots = Slots::new(n as u16, 1, 1);
        slots.set_weight(0);
        refill(&g, &mut slots, &mut scans);
        let reader = {
            let g = Arc::clone(&g);
            thread::spawn(move || {
                cursor::store(&page.cursor, 3);
                for _ in 0..2 {
                    read(&g, &page, &mut 1, true);
                }
            })
        };
        for _ in 1..4 {
            refill(&g, &mut slots, &mut scans);
        }
        reader.join().unwrap();
    });
}

#[test]
fn who_lies_about_what_it_has_read_gets_no_torn_sample() {
    liar();
}

#[test]
fn a_liar_without_the_fence_before_the_pins() {
    must_notice(Mutant::NoWithdrawFence, liar);
}

#[test]
fn a_liar_with_a_relaxed_scan() {
    must_notice(Mutant::RelaxedScan, liar);
}

/// A subscription joins while samples are withdrawn. It begins after the samples that are published
/// when it enters the list, and gets all later samples.
fn join() {
    check(3, || {
        let n = slots_needed(2, 1, 1);
        let g = Arc::new(Memory::new(n, 2));
        let page = Page::new(1);
        let (mut scans, mut changes) = epoch(Vec::new());
        let mut slots = Slots::new(n as u16, 2, 1);
        slots.set_weight(0);
        let first = Arc::new(AtomicU64::new(0));
        let control = {
            let (g, page, first) = (Arc::clone(&g), Arc::clone(&page), Arc::clone(&first));
            thread::spawn(move || {
                changes.replace(vec![Arc::clone(&page)]);
                let newest = reader::newest(&*g).0;
                // The publisher does not know yet where the subscription begins: the product stores
                // the position after the answer.
                first.store(newest + 1, Release);
                changes
            })
        };
        let reader = {
            let g = Arc::clone(&g);
            thread::spawn(move || {
                let mut next = first.load(Relaxed);
                fence(Acquire);
                if next != 0 {
                    for _ in 0..2 {
                        read(&g, &page, &mut next, false);
                    }
                }
            })
        };
        for _ in 0..2 {
            refill(&g, &mut slots, &mut scans);
        }
        slots.withdraw(&*g, &mut scans);
        reader.join().unwrap();
        drop(control.join().unwrap());
    });
}

#[test]
fn who_joins_loses_nothing() {
    join();
}

#[test]
fn a_subscription_joins_while_unread_samples_are_ignored() {
    must_notice(Mutant::WithdrawUnread, join);
}

/// A match whose memory loom checks: scans read it, and it is dropped with the list.
struct Probe(Arc<UnsafeCell<()>>, Page);

// SAFETY: loom checks every access.
unsafe impl Sync for Probe {}
// SAFETY: as above.
unsafe impl Send for Probe {}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

impl Match for Probe {
    fn pins(&self) -> &[AtomicU32] {
        self.0.with(|_| self.1.pins())
    }
    fn armed(&self) -> &AtomicU64 {
        self.0.with(|_| self.1.armed())
    }
    fn woken(&self) -> &AtomicU64 {
        self.1.woken()
    }
    fn group(&self) -> usize {
        0
    }
    fn position(&self, newest: u64) -> u64 {
        self.0.with(|_| self.1.position(newest))
    }
}

/// A subscription leaves while samples are withdrawn: its match is freed when no scan uses it.
fn leave() {
    check(3, || {
        let g = Memory::new(slots_needed(1, 1, 0), 1);
        let cell = Arc::new(UnsafeCell::new(()));
        let page = Arc::into_inner(Page::new(0)).unwrap();
        let (mut scans, mut changes) = epoch(vec![Probe(Arc::clone(&cell), page)]);
        let mut slots = Slots::new(g.slots() as u16, 1, 1);
        slots.set_weight(0);
        let slot = slots.pop_free().unwrap();
        slots.publish(&g, &mut scans, &mut Nobody, slot);
        let control = thread::spawn(move || {
            changes.replace(Vec::new());
            changes
        });
        slots.withdraw(&g, &mut scans);
        let mut changes = control.join().unwrap();
        assert!(changes.reclaim(), "no scan runs, so nothing is left");
        // Both sides are dropped before the cell, as in the product.
        drop((scans, changes));
        drop(cell);
    });
}

struct Nobody;

impl<M> driveline_shm::protocol::writer::Wakers<M> for Nobody {
    fn wake(&mut self, _: &M, _: u64) {}
}

#[test]
fn who_leaves_is_freed_in_time() {
    leave();
}

#[test]
fn who_leaves_without_the_fence_before_the_list() {
    must_notice(Mutant::NoWithdrawListFence, leave);
}
