// SPDX-License-Identifier: Apache-2.0
//! Samples that a keep-last writer replaces before all its reliable readers have acknowledged them.

use std::collections::VecDeque;

/// A sample that was written.
pub(super) trait Written {
    /// Whether the writer's history still has it: a reader has not acknowledged it yet.
    fn is_in_history(&self) -> bool;
}

/// The newest samples of a writer, the oldest first: no more than its history keeps.
#[derive(Debug)]
pub(super) struct Unacknowledged<T> {
    depth: usize,
    samples: VecDeque<T>,
}

impl<T: Written> Unacknowledged<T> {
    pub(super) fn new(depth: u32) -> Self {
        Self { depth: depth.max(1) as usize, samples: VecDeque::new() }
    }

    /// Releases what was acknowledged. Returns whether the next sample replaces one that was not.
    pub(super) fn make_room(&mut self) -> bool {
        // Readers acknowledge in the order of the samples.
        while self.samples.front().is_some_and(|sample| !sample.is_in_history()) {
            self.samples.pop_front();
        }
        let replaces = self.samples.len() >= self.depth;
        if replaces {
            self.samples.pop_front();
        }
        replaces
    }

    pub(super) fn push(&mut self, sample: T) {
        self.samples.push_back(sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Numbers up to this one are acknowledged.
    struct Numbered(u32, Rc<Cell<u32>>);

    impl Written for Numbered {
        fn is_in_history(&self) -> bool {
            self.0 > self.1.get()
        }
    }

    #[test]
    fn only_samples_that_no_reader_acknowledged_count_as_replaced() {
        let (acknowledged, mut unacknowledged) = (Rc::new(Cell::new(0)), Unacknowledged::new(3));
        let mut next = 0;
        let mut write = |count: u32| {
            let one = |_| {
                next += 1;
                let replaces = unacknowledged.make_room();
                unacknowledged.push(Numbered(next, acknowledged.clone()));
                u32::from(replaces)
            };
            (0..count).map(one).sum::<u32>()
        };
        assert_eq!(write(3), 0, "as many as the history keeps");
        assert_eq!(write(2), 2, "1 and 2 are replaced");
        acknowledged.set(4);
        assert_eq!(write(2), 0, "5 alone is not acknowledged");
        assert_eq!(write(2), 2, "5 and 6 are replaced");
        acknowledged.set(9);
        assert_eq!(write(3), 0);
    }
}
