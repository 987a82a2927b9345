// SPDX-License-Identifier: Apache-2.0
//! Handles of loans and samples are used again, so that the data path does not allocate them.

use crossbeam_queue::ArrayQueue;
use std::sync::OnceLock;

/// How many empty handles of one kind are kept; more are freed.
const KEPT: usize = 256;

/// A handle that can be empty.
pub(crate) trait Handle: Default + Send + 'static {
    /// What it holds.
    type Value;
    /// The value's place.
    fn value(&mut self) -> &mut Option<Self::Value>;
}

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
        let mut handle = self.queue().pop().unwrap_or_default();
        *handle.value() = Some(value);
        handle
    }

    /// Takes the value out and keeps the handle.
    pub(crate) fn empty(&self, mut handle: Box<H>) -> Option<H::Value> {
        let value = handle.value().take();
        drop(self.queue().push(handle));
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Default)]
    struct Test(Option<Arc<u8>>);

    impl Handle for Test {
        type Value = Arc<u8>;
        fn value(&mut self) -> &mut Option<Arc<u8>> {
            &mut self.0
        }
    }

    #[test]
    fn a_handle_is_used_again_and_its_value_is_not_kept() {
        static RECYCLER: Recycler<Test> = Recycler::new();
        let value = Arc::new(7);
        let first = RECYCLER.fill(value.clone());
        let address = &raw const *first;
        drop(RECYCLER.empty(first));
        assert_eq!(Arc::strong_count(&value), 1);
        assert_eq!(&raw const *RECYCLER.fill(value), address);
    }
}
