// SPDX-License-Identifier: Apache-2.0
//! A value that one thread scans without waiting while another thread replaces it.
//!
//! The scanning thread makes `scans` odd, fences, loads the pointer, and makes `scans` even again
//! when done. The changing thread stores the new pointer, fences, and reads `scans`. Even: no scan
//! can have the old pointer. Odd: one may have it, until `scans` changes. Neither thread waits; a
//! value that cannot be freed yet is checked again later.
#![allow(unsafe_code, reason = "a value behind a pointer, freed when no scan can have it")]

use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use crate::sync::{AtomicPtr, AtomicU64, Mutant, fence, mutant};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

struct Inner<T> {
    current: AtomicPtr<T>,
    scans: AtomicU64,
    /// Replaced values with the number of the scan that may still use them. Only the changing side
    /// accesses it.
    old: Mutex<Vec<(NonNull<T>, u64)>>,
}

// SAFETY: the pointers are owned boxes; T is shared with the scanning thread by reference and
// dropped on whichever thread comes last, so it must be both Send and Sync.
unsafe impl<T: Send + Sync> Send for Inner<T> {}
// SAFETY: as above; all mutation goes through atomics and the mutex.
unsafe impl<T: Send + Sync> Sync for Inner<T> {}

impl<T> Drop for Inner<T> {
    fn drop(&mut self) {
        let old = self.old.get_mut().unwrap_or_else(PoisonError::into_inner);
        let current = NonNull::new(self.current.load(Relaxed));
        for p in old.drain(..).map(|(p, _)| p).chain(current) {
            // SAFETY: each pointer came from Box::into_raw and is in exactly one of the two places;
            // both sides are gone, so no scan runs.
            drop(unsafe { Box::from_raw(p.as_ptr()) });
        }
    }
}

/// Scanning side; one thread at a time.
pub struct Scans<T>(Arc<Inner<T>>);

/// Changing side; one thread at a time.
pub struct Changes<T>(Arc<Inner<T>>);

/// Returns the scanning and the changing side of a value.
pub fn epoch<T: Send + Sync>(value: T) -> (Scans<T>, Changes<T>) {
    let inner = Arc::new(Inner {
        current: AtomicPtr::new(Box::into_raw(Box::new(value))),
        scans: AtomicU64::new(0),
        old: Mutex::new(Vec::new()),
    });
    (Scans(Arc::clone(&inner)), Changes(inner))
}

/// A running scan.
pub struct Scan<'a, T>(&'a Inner<T>);

impl<T> Scans<T> {
    /// Begins a scan. The caller must pass a SeqCst fence before [`Scan::load`].
    pub fn enter(&mut self) -> Scan<'_, T> {
        let scans = self.0.scans.load(Relaxed);
        // The caller's fence orders this store before the load of the pointer. Release: a thread
        // that sees this number (`reclaim`) regards the earlier scans as ended, so it must see
        // their effects.
        let order = if mutant(Mutant::RelaxedScanBegin) { Relaxed } else { Release };
        self.0.scans.store(scans.wrapping_add(1), order);
        Scan(&self.0)
    }
}

impl<'a, T> Scan<'a, T> {
    /// Present value, valid until the scan ends.
    pub fn load(&self) -> &T {
        // Acquire pairs with the Release of `replace`: the new value's content.
        let p = self.0.current.load(Acquire);
        // SAFETY: never null. `replace` frees a value only after it has seen, behind a fence, that
        // no scan which can have loaded it is running; this scan is running and its fence (see
        // `enter`) came before this load.
        unsafe { &*p }
    }
}

impl<T> Drop for Scan<'_, T> {
    fn drop(&mut self) {
        let scans = self.0.scans.load(Relaxed);
        // Release pairs with the Acquire in `reclaim`: all use of the value is over.
        let order = if mutant(Mutant::RelaxedScanEnd) { Relaxed } else { Release };
        self.0.scans.store(scans.wrapping_add(1), order);
    }
}

impl<T> Changes<T> {
    /// Present value.
    pub fn get(&self) -> &T {
        // SAFETY: only this side replaces and frees; it is borrowed for as long as the reference
        // lives.
        unsafe { &*self.0.current.load(Relaxed) }
    }

    /// Replaces the value. Later scans see the new one. Returns true if no value is left to
    /// [`reclaim`](Self::reclaim).
    pub fn replace(&mut self, value: T) -> bool {
        let old = self.0.current.swap(Box::into_raw(Box::new(value)), AcqRel);
        // Pairs with the scanning side's fence between `scans` odd and the load of the pointer.
        fence(SeqCst);
        let scans = self.0.scans.load(Acquire);
        if let Some(old) = NonNull::new(old) {
            self.0.old.lock().unwrap_or_else(PoisonError::into_inner).push((old, scans));
        }
        self.reclaim()
    }

    /// Frees replaced values that no scan can use. Returns true if none is left. Never waits.
    pub fn reclaim(&mut self) -> bool {
        // Acquire pairs with the Release at the end of a scan.
        let order = if mutant(Mutant::RelaxedReclaim) { Relaxed } else { Acquire };
        let scans = self.0.scans.load(order);
        let mut old = self.0.old.lock().unwrap_or_else(PoisonError::into_inner);
        old.retain(|&(p, at)| {
            let running = at % 2 == 1 && at == scans;
            if mutant(Mutant::FreeListAtOnce) && running {
                // SAFETY: for the model, which must notice: the value is dropped, its memory stays.
                unsafe { p.drop_in_place() };
                return false;
            }
            // A mutant that breaks the scan's fence must not also have the model itself read freed
            // memory.
            let in_use = running || mutant(Mutant::ListBeforeFence);
            if !in_use {
                // SAFETY: it came from Box::into_raw, is listed once, and no scan uses it: none was
                // running behind the fence in `replace` (even), or that one has ended since
                // (another number).
                drop(unsafe { Box::from_raw(p.as_ptr()) });
            }
            in_use
        });
        old.is_empty()
    }
}
