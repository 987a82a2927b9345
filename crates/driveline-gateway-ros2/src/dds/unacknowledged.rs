// SPDX-License-Identifier: Apache-2.0
//! Counts samples that a keep-last writer replaces although a reliable reader should have
//! acknowledged them by then.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Maximum time until a reader acknowledges after it has received all samples. Readers of
/// CycloneDDS collect acknowledgements for 10 ms.
const DUE: Duration = Duration::from_millis(20);

/// Written sample.
pub(super) trait Written {
    /// Returns true while it is in the writer's history: a reader has not acknowledged it yet.
    fn is_in_history(&self) -> bool;
}

/// Newest samples of a writer, oldest first; at most as many as its history keeps.
#[derive(Debug)]
pub(super) struct Unacknowledged<T> {
    depth: usize,
    samples: VecDeque<T>,
    /// Time of the last acknowledgement, or of the last moment when none was outstanding.
    acknowledged: Option<Instant>,
    /// Samples replaced since then, which may have been received.
    replaced: u64,
}

impl<T: Written> Unacknowledged<T> {
    pub(super) fn new(depth: u32) -> Self {
        Self {
            depth: depth.max(1) as usize,
            samples: VecDeque::new(),
            acknowledged: None,
            replaced: 0,
        }
    }

    /// Releases acknowledged samples. If the history is still full, also releases the oldest
    /// sample, which the next sample replaces. Returns the number of samples known to be replaced
    /// without acknowledgement since the last call. The caller writes the next sample right
    /// afterwards.
    pub(super) fn make_room(&mut self, now: Instant) -> u64 {
        let before = self.samples.len();
        // Readers acknowledge samples in order.
        while self.samples.front().is_some_and(|sample| !sample.is_in_history()) {
            self.samples.pop_front();
        }
        if self.samples.is_empty() || self.samples.len() < before {
            // A reader that acknowledges a sample has all earlier ones, or knows that they are
            // gone.
            (self.acknowledged, self.replaced) = (Some(now), 0);
        }
        if self.samples.len() >= self.depth {
            self.samples.pop_front();
            self.replaced += 1;
        }
        let overdue =
            self.acknowledged.is_some_and(|acknowledged| now.duration_since(acknowledged) >= DUE);
        if overdue { std::mem::take(&mut self.replaced) } else { 0 }
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

    /// Sample with a number; samples up to the number in the cell are acknowledged.
    struct Numbered(u32, Rc<Cell<u32>>);

    impl Written for Numbered {
        fn is_in_history(&self) -> bool {
            self.0 > self.1.get()
        }
    }

    struct Writer {
        acknowledged: Rc<Cell<u32>>,
        unacknowledged: Unacknowledged<Numbered>,
        written: u32,
        now: Instant,
    }

    impl Writer {
        fn new(depth: u32) -> Self {
            Self {
                acknowledged: Rc::default(),
                unacknowledged: Unacknowledged::new(depth),
                written: 0,
                now: Instant::now(),
            }
        }

        /// Writes `count` samples, one each `period`. Returns the number of replaced samples.
        fn write(&mut self, count: u32, period: Duration) -> u64 {
            let one = |_| {
                self.now += period;
                self.written += 1;
                let replaced = self.unacknowledged.make_room(self.now);
                self.unacknowledged.push(Numbered(self.written, self.acknowledged.clone()));
                replaced
            };
            (0..count).map(one).sum()
        }
    }

    #[test]
    fn a_reader_that_acknowledges_nothing_has_all_but_the_last_few_replaced() {
        let mut writer = Writer::new(3);
        assert_eq!(writer.write(3, DUE), 0, "as many as the history keeps");
        assert_eq!(writer.write(2, DUE), 2);
        writer.acknowledged.set(4);
        assert_eq!(writer.write(2, DUE), 0, "5 alone is not acknowledged");
        assert_eq!(writer.write(2, DUE), 2, "5 and 6 are replaced");
        writer.acknowledged.set(9);
        assert_eq!(writer.write(3, DUE), 0);
    }

    #[test]
    fn early_replacements_count_if_no_acknowledgement_comes() {
        let (period, mut writer) = (DUE / 20, Writer::new(4));
        // At a high rate, acknowledgements of a working reader arrive after samples were replaced.
        for _ in 0..10 {
            assert_eq!(writer.write(10, period), 0);
            writer.acknowledged.set(writer.written);
        }
        assert_eq!(writer.write(20, period), 0, "it acknowledged at the first of these, 19 ms ago");
        assert_eq!(writer.write(1, period), 17, "all but the last four: none is forgotten");
        assert_eq!(writer.write(100, period), 100);
    }
}
