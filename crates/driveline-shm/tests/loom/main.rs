// SPDX-License-Identifier: Apache-2.0
//! Models of the lock-free core, and the mistakes that they must notice.
//!
//! Runs only with `RUSTFLAGS="--cfg loom" cargo test -p driveline-shm --release --test loom`. The
//! functions under test are the shipped ones. This file adds only memory for them to work on, and a
//! model of the kernel in which threads sleep.
#![cfg(loom)]
#![allow(unsafe_code, reason = "the models have cells in place of shared memory")]

mod handshakes;
mod passes;
mod withdraw;

use driveline_shm::protocol::cursor;
use driveline_shm::protocol::epoch::epoch;
use driveline_shm::protocol::reader::{self, Borrow, Want};
use driveline_shm::protocol::sleep::{self, Sleeper};
use driveline_shm::protocol::writer::{Slots, Wakers, slots_needed};
use driveline_shm::protocol::{Match, Segment};
use driveline_shm::sync::{Mutant, set_mutant};
use loom::cell::UnsafeCell;
use loom::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use loom::sync::atomic::{AtomicU32, AtomicU64, fence};
use loom::sync::{Condvar, Mutex};
use loom::thread;
use std::sync::Arc;

/// A segment whose payloads are checked for races.
struct Memory {
    latest: AtomicU64,
    ring: Vec<AtomicU64>,
    seqw: Vec<AtomicU64>,
    payload: Vec<UnsafeCell<u64>>,
}

// SAFETY: loom's cells check every access.
unsafe impl Sync for Memory {}
// SAFETY: as above.
unsafe impl Send for Memory {}

impl Memory {
    fn new(slots: usize, kept: usize) -> Self {
        let zeros = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        Self {
            latest: AtomicU64::new(0),
            ring: zeros(kept + 1),
            seqw: zeros(slots),
            payload: (0..slots).map(|_| UnsafeCell::new(0)).collect(),
        }
    }
}

impl Segment for Memory {
    fn latest(&self) -> &AtomicU64 {
        &self.latest
    }
    fn ring(&self, index: usize) -> &AtomicU64 {
        &self.ring[index]
    }
    fn seqw(&self, slot: usize) -> &AtomicU64 {
        &self.seqw[slot]
    }
    fn slots(&self) -> usize {
        self.seqw.len()
    }
    fn ring_len(&self) -> usize {
        self.ring.len()
    }
}

/// A subscription page.
struct Page {
    pins: Vec<AtomicU32>,
    armed: AtomicU64,
    woken: AtomicU64,
    cursor: AtomicU64,
}

impl Page {
    fn new(pins: usize) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self {
            pins: (0..pins).map(|_| AtomicU32::new(0)).collect(),
            armed: zero(),
            woken: zero(),
            cursor: zero(),
        })
    }
}

impl Match for Page {
    fn pins(&self) -> &[AtomicU32] {
        &self.pins
    }
    fn armed(&self) -> &AtomicU64 {
        &self.armed
    }
    fn woken(&self) -> &AtomicU64 {
        &self.woken
    }
    fn group(&self) -> usize {
        0
    }
    fn position(&self, newest: u64) -> u64 {
        cursor::position(&self.cursor).min(newest)
    }
}

/// Model of the kernel: a word to sleep on.
struct Futex {
    word: AtomicU32,
    lock: Mutex<()>,
    queue: Condvar,
}

impl Futex {
    fn new() -> Self {
        Self { word: AtomicU32::new(0), lock: Mutex::new(()), queue: Condvar::new() }
    }
    fn wait(&self, expected: u32) {
        let guard = self.lock.lock().unwrap();
        if self.word.load(Relaxed) == expected {
            drop(self.queue.wait(guard).unwrap());
        }
    }
}

/// Wakes the sleepers on a word; `None`: no thread sleeps in this model.
struct Kernel(Option<Arc<Futex>>);

impl Wakers<Arc<Page>> for Kernel {
    fn wake(&mut self, _: &Arc<Page>, sequence: u64) {
        if let Some(f) = &self.0 {
            f.word.store(sequence as u32, Release);
            let _guard = f.lock.lock().unwrap();
            f.queue.notify_all();
        }
    }
}

/// Value that must not be dropped while a model fails: the drop uses atomics, which loom no longer
/// provides then, and a second panic would end the program instead of the test.
struct Calm<T>(std::mem::ManuallyDrop<T>);

impl<T> Calm<T> {
    fn new(value: T) -> Self {
        Self(std::mem::ManuallyDrop::new(value))
    }
}

impl<T> Drop for Calm<T> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            // SAFETY: it is dropped only here.
            unsafe { std::mem::ManuallyDrop::drop(&mut self.0) };
        }
    }
}

fn check(preemptions: usize, f: impl Fn() + Sync + Send + 'static) {
    let mut b = loom::model::Builder::new();
    b.preemption_bound = Some(preemptions);
    b.check(f);
}

/// Runs a model with a mistake in the shipped code; passes if the model notices.
fn must_notice(m: Mutant, model: fn()) {
    set_mutant(Some(m));
    let noticed = std::panic::catch_unwind(model).is_err();
    set_mutant(None);
    assert!(noticed, "the model does not notice {m:?}");
}

/// Fills a slot with its sequence number and publishes it. The free list is never empty: publishing
/// is wait-free.
fn publish(
    g: &Memory,
    slots: &mut Slots,
    scans: &mut driveline_shm::protocol::epoch::Scans<Vec<Arc<Page>>>,
    kernel: &mut Kernel,
) {
    let slot = slots.pop_free().expect("a free slot");
    g.payload[usize::from(slot)].with_mut(|p| {
        // SAFETY: loom checks that no other thread accesses it.
        unsafe { *p = slots.sequence() + 1 }
    });
    slots.publish(g, scans, kernel, slot);
}

/// Borrows and reads: the payload must be the sample's own.
fn read(g: &Memory, cell: &AtomicU32, want: Want, next: &mut u64, depth: u64) {
    if let Borrow::Pinned { sequence, slot } = reader::borrow(g, cell, want, *next, depth) {
        // SAFETY: loom checks that no thread writes it meanwhile.
        g.payload[slot].with(|p| assert_eq!(unsafe { *p }, sequence, "torn or reused"));
        reader::unpin(cell);
        *next = sequence + 1;
    }
}

/// One publisher, `readers` readers with one pin each, exactly as many slots as the protocol claims
/// to need.
fn exchange(
    samples: usize,
    reads: usize,
    readers: usize,
    kept: usize,
    want: Want,
    preemptions: usize,
) {
    exchange_with(usize::MAX, samples, reads, readers, kept, want, preemptions);
}

/// The same, with a given weight of a retired slot. With weight 0, a pass is made only when slots
/// run out; with the greatest weight, at each publish.
fn exchange_with(
    weight: usize,
    samples: usize,
    reads: usize,
    readers: usize,
    kept: usize,
    want: Want,
    preemptions: usize,
) {
    check(preemptions, move || {
        let n = slots_needed(kept, 1, readers);
        let g = Arc::new(Memory::new(n, kept));
        let pages: Vec<_> = (0..readers).map(|_| Page::new(1)).collect();
        let (mut scans, _changes) = epoch(pages.clone());
        let mut slots = Slots::new(n as u16, kept, 1);
        slots.set_weight(weight);
        publish(&g, &mut slots, &mut scans, &mut Kernel(None));
        let threads: Vec<_> = pages
            .into_iter()
            .map(|page| {
                let g = Arc::clone(&g);
                thread::spawn(move || {
                    let mut next = 1;
                    for _ in 0..reads {
                        read(&g, &page.pins[0], want, &mut next, kept as u64);
                        if want == Want::Latest {
                            // Read the newest again even if it has been read.
                            next = 1;
                        }
                    }
                })
            })
            .collect();
        for _ in 1..samples {
            publish(&g, &mut slots, &mut scans, &mut Kernel(None));
        }
        for t in threads {
            t.join().unwrap();
        }
    });
}

fn exchange_small() {
    exchange(5, 2, 1, 1, Want::Latest, 3);
}

fn exchange_deep() {
    exchange(6, 3, 1, 1, Want::Latest, 3);
}

#[test]
fn one_reader() {
    exchange_small();
}

#[test]
fn one_reader_deep() {
    exchange_deep();
}

#[test]
fn two_readers() {
    exchange(5, 1, 2, 1, Want::Latest, 2);
}

#[test]
fn reading_in_order() {
    exchange(5, 2, 1, 2, Want::Next, 3);
}

#[test]
fn without_the_publishers_fence() {
    must_notice(Mutant::NoWriterFence, exchange_small);
}

#[test]
fn without_the_readers_fence() {
    must_notice(Mutant::NoBorrowFence, exchange_small);
}

#[test]
fn with_relaxed_pins() {
    must_notice(Mutant::RelaxedPin, exchange_deep);
}

#[test]
fn with_a_relaxed_scan() {
    must_notice(Mutant::RelaxedScan, exchange_small);
}

#[test]
fn with_one_slot_fewer() {
    must_notice(Mutant::OneSlotFewer, exchange_small);
}

/// A subscription joins while samples are published: once it has its answer, its pins count.
fn join() {
    check(3, || {
        let n = slots_needed(1, 1, 1);
        let g = Arc::new(Memory::new(n, 1));
        let page = Page::new(1);
        let (mut scans, mut changes) = epoch(Vec::new());
        let mut slots = Slots::new(n as u16, 1, 1);
        publish(&g, &mut slots, &mut scans, &mut Kernel(None));
        let answer = Arc::new(AtomicU32::new(0));
        let control = {
            let (page, answer) = (Arc::clone(&page), Arc::clone(&answer));
            thread::spawn(move || {
                changes.replace(vec![page]);
                answer.store(1, Release);
                changes
            })
        };
        let reader = {
            let g = Arc::clone(&g);
            thread::spawn(move || {
                let answered = answer.load(Relaxed);
                fence(Acquire);
                if answered == 1 {
                    read(&g, &page.pins[0], Want::Latest, &mut 1, 1);
                }
            })
        };
        for _ in 1..5 {
            publish(&g, &mut slots, &mut scans, &mut Kernel(None));
        }
        reader.join().unwrap();
        drop(control.join().unwrap());
    });
}

#[test]
fn joining() {
    join();
}

#[test]
fn joining_with_the_list_loaded_before_the_fence() {
    must_notice(Mutant::ListBeforeFence, join);
}

/// Content of a list; dropping it must not race with a scan.
struct Probe(Arc<UnsafeCell<()>>);

// SAFETY: loom checks every access.
unsafe impl Sync for Probe {}
// SAFETY: as above.
unsafe impl Send for Probe {}

impl Drop for Probe {
    fn drop(&mut self) {
        self.0.with_mut(|_| ());
    }
}

/// A list is replaced while it is scanned: it is freed when no scan can be using it, and not
/// before.
fn reclaim() {
    check(3, || {
        let cells: Vec<_> = (0..3).map(|_| Arc::new(UnsafeCell::new(()))).collect();
        let (mut scans, mut changes) = epoch(Probe(Arc::clone(&cells[0])));
        let rest = [Probe(Arc::clone(&cells[1])), Probe(Arc::clone(&cells[2]))];
        let control = thread::spawn(move || {
            for probe in rest {
                changes.replace(probe);
            }
            changes.reclaim();
            changes
        });
        for _ in 0..2 {
            let scan = scans.enter();
            fence(loom::sync::atomic::Ordering::SeqCst);
            scan.load().0.with(|_| ());
        }
        let mut changes = control.join().unwrap();
        assert!(changes.reclaim(), "no scan runs, so nothing is left");
        // Both sides are dropped before the cells, as in the product.
        drop((scans, changes));
        drop(cells);
    });
}

#[test]
fn replaced_lists_are_freed_in_time() {
    reclaim();
}

#[test]
fn replaced_lists_freed_at_once() {
    must_notice(Mutant::FreeListAtOnce, reclaim);
}

#[test]
fn replaced_lists_with_the_end_of_a_scan_relaxed() {
    must_notice(Mutant::RelaxedScanEnd, reclaim);
}

#[test]
fn replaced_lists_with_the_begin_of_a_scan_relaxed() {
    must_notice(Mutant::RelaxedScanBegin, reclaim);
}

#[test]
fn replaced_lists_reclaimed_relaxed() {
    must_notice(Mutant::RelaxedReclaim, reclaim);
}

/// State of the waiting side.
struct Waiter {
    g: Arc<Memory>,
    page: Arc<Page>,
    futex: Arc<Futex>,
    next: std::cell::Cell<u64>,
}

impl Sleeper for Waiter {
    type Segment = Memory;
    fn segment(&self) -> &Memory {
        &self.g
    }
    fn word(&self) -> &AtomicU32 {
        &self.futex.word
    }
    fn armed(&self) -> &AtomicU64 {
        &self.page.armed
    }
    fn next(&self) -> u64 {
        self.next.get()
    }
}

/// A reader sleeps whenever there is nothing new, until it has seen the last sample. Losing a
/// wake-up is a deadlock, which loom reports.
fn wake(last: u64, readers: usize, preemptions: usize) {
    check(preemptions, move || {
        let n = slots_needed(2, 1, 0);
        let g = Arc::new(Memory::new(n, 2));
        let futex = Arc::new(Futex::new());
        let pages: Vec<_> = (0..readers).map(|_| Page::new(0)).collect();
        let mut sides = Calm::new(epoch(pages.clone()));
        let mut slots = Slots::new(n as u16, 2, 1);
        let threads: Vec<_> = pages
            .into_iter()
            .map(|page| {
                let (g, futex) = (Arc::clone(&g), Arc::clone(&futex));
                thread::spawn(move || {
                    let w = Waiter { g, page, futex, next: 1.into() };
                    while w.next.get() <= last {
                        let newest = reader::newest(&*w.g).0;
                        if newest >= w.next.get() {
                            w.next.set(newest + 1);
                            continue;
                        }
                        let expected = sleep::arm(&w);
                        sleep::settle();
                        if !sleep::has_unread(&w) {
                            w.futex.wait(expected);
                        }
                        sleep::disarm(&w);
                    }
                })
            })
            .collect();
        let mut kernel = Kernel(Some(futex));
        for _ in 0..last {
            publish(&g, &mut slots, &mut sides.0.0, &mut kernel);
        }
        for t in threads {
            t.join().unwrap();
        }
    });
}

fn wake_one() {
    wake(3, 1, 3);
}

#[test]
fn waking_one() {
    wake_one();
}

#[test]
fn waking_two() {
    wake(2, 2, 2);
}

#[test]
fn waking_without_the_publishers_fence() {
    must_notice(Mutant::NoWriterFence, wake_one);
}

#[test]
fn waking_without_the_waiters_fence() {
    must_notice(Mutant::NoArmFence, wake_one);
}

#[test]
fn waking_who_waits_for_a_later_sample() {
    must_notice(Mutant::WakeTooEarly, wake_one);
}
