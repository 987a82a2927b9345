// SPDX-License-Identifier: Apache-2.0
//! Handles of loans and samples are used again, so that the data path does not allocate them.
//!
//! A thread keeps one empty handle of each kind for itself, which costs no atomic operation.
//! Further handles, and handles that move between threads, pass through a queue.

use crossbeam_queue::ArrayQueue;
use std::cell::Cell;
use std::sync::OnceLock;
use std::thread::LocalKey;

/// Number of empty handles of one kind that are kept in addition to those of threads; more are
/// freed.
const KEPT: usize = 256;

/// A handle that can be empty.
pub(crate) trait Handle: Default + Send + 'static {
    /// Content of a handle.
    type Value;
    /// Returns the place of the value.
    fn value(&mut self) -> &mut Option<Self::Value>;
    /// The calling thread's empty handle.
    fn spare() -> &'static LocalKey<Spare<Self>>;
}

/// An empty handle, or none.
pub(crate) type Spare<H> = Cell<Option<Box<H>>>;

/// Empty handles of one kind. Lock-free; any thread.
pub(crate) struct Recycler<H: 'static>(OnceLock<ArrayQueue<Box<H>>>);

impl<H: Handle> Recycler<H> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    fn queue(&self) -> &ArrayQueue<Box<H>> {
        self.0.get_or_init(|| ArrayQueue::new(KEPT))
    }

    /// A handle that holds `value`.
    pub(crate) fn fill(&self, value: H::Value) -> Box<H> {
        // While a thread ends, it no longer has a spare handle.
        let spare = H::spare().try_with(Cell::take).ok().flatten();
        let mut handle = spare.or_else(|| self.queue().pop()).unwrap_or_default();
        *handle.value() = Some(value);
        handle
    }

    /// Takes the value out and keeps the handle.
    pub(crate) fn empty(&self, mut handle: Box<H>) -> Option<H::Value> {
        let value = handle.value().take();
        match &value {
            Some(_) => self.keep(handle),
            None => abandon(handle),
        }
        value
    }

    /// Drops the value where it lies and keeps the handle.
    pub(crate) fn clear(&self, mut handle: Box<H>) {
        if handle.value().is_none() {
            return abandon(handle);
        }
        *handle.value() = None;
        self.keep(handle);
    }

    fn keep(&self, handle: Box<H>) {
        let mut handle = Some(handle);
        let _ = H::spare().try_with(|spare| {
            let before = spare.take();
            spare.set(before.or_else(|| handle.take()));
        });
        if let Some(handle) = handle {
            drop(self.queue().push(handle));
        }
    }
}

/// Leaks a handle that is already empty. The caller returned it twice, against the contract, so the
/// recycler or a second holder already owns its box. With two owners of one box, two handles would
/// be the same. So this one is neither freed nor kept again.
fn abandon<H>(handle: Box<H>) {
    std::mem::forget(handle);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Test(Option<Arc<u8>>);

    thread_local! {
        static SPARE: Spare<Test> = const { Cell::new(None) };
    }

    impl Handle for Test {
        type Value = Arc<u8>;
        fn value(&mut self) -> &mut Option<Arc<u8>> {
            &mut self.0
        }
        fn spare() -> &'static LocalKey<Spare<Self>> {
            &SPARE
        }
    }

    static RECYCLER: Recycler<Test> = Recycler::new();

    #[test]
    fn a_handle_is_used_again_and_its_value_is_not_kept() {
        let value = Arc::new(7);
        let first = RECYCLER.fill(value.clone());
        let address = &raw const *first;
        drop(RECYCLER.empty(first));
        assert_eq!(Arc::strong_count(&value), 1);
        let second = RECYCLER.fill(value.clone());
        assert_eq!(&raw const *second, address);
        RECYCLER.clear(second);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn a_handle_that_is_given_back_twice_is_kept_once() {
        static TWICE: Recycler<Test> = Recycler::new();
        let mut value = TWICE.fill(Arc::new(7));
        let again: *mut Test = &raw mut *value;
        TWICE.clear(value);
        // SAFETY: this breaks the contract of the C ABI, and the library must survive it. The box
        // is alive, because it is in the pool.
        #[allow(unsafe_code, reason = "the test does what the contract forbids")]
        let second = unsafe { Box::from_raw(again) };
        TWICE.clear(second);
        let (a, b) = (TWICE.fill(Arc::new(1)), TWICE.fill(Arc::new(2)));
        assert_ne!(&raw const *a, &raw const *b);
    }

    #[test]
    fn handles_that_other_threads_empty_come_back_too() {
        static OWN: Recycler<Test> = Recycler::new();
        let value = Arc::new(7);
        let handles: Vec<_> = (0..3).map(|_| OWN.fill(value.clone())).collect();
        let addresses: Vec<_> = handles.iter().map(|h| std::ptr::from_ref(&**h) as usize).collect();
        std::thread::spawn(move || handles.into_iter().for_each(|h| OWN.clear(h))).join().unwrap();
        // The thread kept one handle as its spare; this handle was freed with the thread.
        let again: Vec<_> = (0..2).map(|_| OWN.fill(value.clone())).collect();
        assert!(
            again.iter().all(|h| addresses[1..].contains(&(std::ptr::from_ref(&**h) as usize)))
        );
        assert_eq!(Arc::strong_count(&value), 3);
    }
}
