// SPDX-License-Identifier: Apache-2.0
//! Sets of items with equal stamps.

use super::{InputCounts, NoSuchInput, OptionsError, Synchronizer, check_size};

/// Delivers one item of every input when all have the same stamp, to the nanosecond.
///
/// At most `queue` different stamps wait to be completed.
///
/// - **Completed**: the set goes out with the item that completes it. Whatever waits with an older
///   stamp is dropped as `unmatched`: sets leave in the order of their stamps as long as every
///   input's stamps increase.
/// - **Full**: the oldest stamp that waits is dropped with its items, as `overwritten`. That can be
///   the item just added.
/// - **Same input, same stamp**: the later item replaces the earlier one, which is `overwritten`.
/// - **Late or backwards stamps** are taken like any other and may still be completed, after a set
///   that is newer. After a jump back in time (a recording starts over) items from before the jump,
///   with later stamps, fill the queue. New items are dropped on arrival until their stamps catch
///   up: call [`clear`](Synchronizer::clear) at the jump.
/// - **An input that never comes**: nothing is delivered; the others keep their newest `queue`
///   stamps.
///
/// The sets are those of ROS `message_filters::sync_policies::ExactTime` with the same queue size
/// (but a queue of 0, unlimited there, is refused).
///
/// Time: `add` takes O(log queue) comparisons and moves O(queue) entries of a few words where
/// stamps come out of order or leave; O(inputs) per set. Memory: `(queue + 1) * inputs` items,
/// allocated by [`new`](Self::new).
#[derive(Debug)]
pub struct ExactTime<T> {
    inputs: usize,
    queue: usize,
    /// The first `waiting` rows are in use, by increasing stamp; the others are empty and spare.
    rows: Box<[Row<T>]>,
    waiting: usize,
    counts: Box<[InputCounts]>,
}

/// The items of one stamp.
#[derive(Debug)]
struct Row<T> {
    stamp_ns: u64,
    filled: usize,
    items: Box<[Option<T>]>,
}

/// Reason why a row leaves without being delivered.
#[derive(Clone, Copy)]
enum Reason {
    Overwritten,
    Unmatched,
    Cleared,
}

impl<T> ExactTime<T> {
    /// A synchronizer of `inputs` inputs in which at most `queue` stamps wait. Allocates all it
    /// will ever need.
    ///
    /// # Errors
    /// [`OptionsError`] if `inputs` is not in 1..=[`MAX_INPUTS`](super::MAX_INPUTS) or `queue` not
    /// in 1..=[`MAX_QUEUE`](super::MAX_QUEUE).
    pub fn new(inputs: usize, queue: usize) -> Result<Self, OptionsError> {
        check_size(inputs, queue)?;
        let empty_row = || Row {
            stamp_ns: 0,
            filled: 0,
            items: std::iter::repeat_with(|| None).take(inputs).collect(),
        };
        Ok(Self {
            inputs,
            queue,
            // One spare row: a new stamp is entered before it is decided which stamp is dropped.
            rows: std::iter::repeat_with(empty_row).take(queue + 1).collect(),
            waiting: 0,
            counts: vec![InputCounts::default(); inputs].into(),
        })
    }

    /// Returns the index of a stamp's row. If the stamp is new, moves a spare row to its place.
    fn row_of(&mut self, stamp_ns: u64) -> usize {
        let row = self.rows[..self.waiting].partition_point(|r| r.stamp_ns < stamp_ns);
        if row == self.waiting || self.rows[row].stamp_ns != stamp_ns {
            self.rows[row..=self.waiting].rotate_right(1);
            self.rows[row].stamp_ns = stamp_ns;
            self.waiting += 1;
        }
        row
    }

    fn deliver(&mut self, row: usize, sets: &mut Vec<T>) {
        for (item, counts) in self.rows[row].items.iter_mut().zip(&mut self.counts) {
            counts.delivered += u64::from(item.is_some());
            sets.extend(item.take());
        }
        self.rows[row].filled = 0;
    }

    /// Empties the `number` oldest rows and makes them spare.
    fn retire(&mut self, number: usize, reason: Reason) {
        for row in &mut self.rows[..number] {
            for (item, counts) in row.items.iter_mut().zip(&mut self.counts) {
                if item.take().is_some() {
                    match reason {
                        Reason::Overwritten => counts.overwritten += 1,
                        Reason::Unmatched => counts.unmatched += 1,
                        Reason::Cleared => counts.cleared += 1,
                    }
                }
            }
            row.filled = 0;
        }
        self.rows[..self.waiting].rotate_left(number);
        self.waiting -= number;
    }
}

impl<T> Synchronizer<T> for ExactTime<T> {
    fn inputs(&self) -> usize {
        self.inputs
    }

    /// 1: a set is completed by its last item.
    fn max_sets_per_add(&self) -> usize {
        1
    }

    fn add(
        &mut self,
        input: usize,
        stamp_ns: u64,
        item: T,
        sets: &mut Vec<T>,
    ) -> Result<usize, NoSuchInput> {
        let Some(counts) = self.counts.get_mut(input) else {
            return Err(NoSuchInput { input, inputs: self.inputs });
        };
        counts.added += 1;

        let row = self.row_of(stamp_ns);
        if self.rows[row].items[input].replace(item).is_some() {
            self.counts[input].overwritten += 1;
        } else {
            self.rows[row].filled += 1;
        }

        if self.rows[row].filled == self.inputs {
            self.deliver(row, sets);
            self.retire(row + 1, Reason::Unmatched);
            return Ok(1);
        }
        if self.waiting > self.queue {
            self.retire(1, Reason::Overwritten);
        }
        Ok(0)
    }

    fn clear(&mut self) {
        self.retire(self.waiting, Reason::Cleared);
    }

    fn counts(&self, input: usize) -> Option<InputCounts> {
        let queued = self.rows[..self.waiting]
            .iter()
            .filter(|row| row.items.get(input).is_some_and(Option::is_some))
            .count();
        self.counts.get(input).map(|counts| InputCounts { queued: queued as u64, ..*counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Adds `(input, stamp)` pairs and returns the stamps of the sets, in order.
    fn stamps_of_sets(sync: &mut ExactTime<u64>, items: &[(usize, u64)]) -> Vec<u64> {
        let mut sets = Vec::new();
        for &(input, stamp) in items {
            sync.add(input, stamp, stamp, &mut sets).unwrap();
        }
        sets.chunks_exact(sync.inputs()).map(|set| set[0]).collect()
    }

    fn counts(sync: &ExactTime<u64>, input: usize) -> InputCounts {
        sync.counts(input).unwrap()
    }

    #[test]
    fn items_come_in_input_order_whatever_order_they_were_added_in() {
        let mut sync = ExactTime::new(3, 1).unwrap();
        let mut sets = Vec::new();
        assert_eq!(sync.add(2, 9, 'c', &mut sets), Ok(0));
        assert_eq!(sync.add(0, 9, 'a', &mut sets), Ok(0));
        assert_eq!(sync.add(1, 9, 'b', &mut sets), Ok(1));
        assert_eq!(sets, ['a', 'b', 'c']);
    }

    #[test]
    fn sets_are_appended_to_what_the_buffer_holds() {
        let mut sync = ExactTime::new(1, 1).unwrap();
        let mut sets = vec!['x'];
        sync.add(0, 1, 'a', &mut sets).unwrap();
        assert_eq!(sets, ['x', 'a']);
    }

    #[test]
    fn one_nanosecond_apart_is_not_exact() {
        let mut sync = ExactTime::new(2, 4).unwrap();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 10), (1, 11)]), [0u64; 0]);
    }

    #[test]
    fn a_completed_set_drops_what_is_older_and_keeps_what_is_newer() {
        let mut sync = ExactTime::new(2, 4).unwrap();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 10), (0, 20), (0, 30), (1, 20)]), [20]);
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 3, delivered: 1, unmatched: 1, queued: 1, ..Default::default() }
        );
        assert_eq!(stamps_of_sets(&mut sync, &[(1, 30)]), [30]);
    }

    #[test]
    fn an_older_stamp_after_a_newer_set_can_still_be_completed() {
        let mut sync = ExactTime::new(2, 4).unwrap();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 20), (1, 20), (0, 10), (1, 10)]), [20, 10]);
    }

    #[test]
    fn a_queue_of_one_keeps_the_newest_stamp() {
        let mut sync = ExactTime::new(2, 1).unwrap();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 10), (0, 20), (1, 10), (1, 20)]), [20]);
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 2, delivered: 1, overwritten: 1, ..Default::default() }
        );
        assert_eq!(
            counts(&sync, 1),
            InputCounts { added: 2, delivered: 1, overwritten: 1, ..Default::default() }
        );
    }

    #[test]
    fn an_input_that_never_comes_holds_no_more_than_the_queue() {
        let mut sync = ExactTime::new(2, 3).unwrap();
        let items: Vec<_> = (0..1000).map(|stamp| (0, stamp)).collect();
        assert_eq!(stamps_of_sets(&mut sync, &items), [0u64; 0]);
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 1000, overwritten: 997, queued: 3, ..Default::default() }
        );
        assert_eq!(counts(&sync, 1), InputCounts::default());
        assert_eq!(
            stamps_of_sets(&mut sync, &[(1, 998), (1, 997)]),
            [998],
            "997 waited too, and gave way to 998"
        );
    }

    #[test]
    fn an_item_with_the_same_stamp_replaces_the_earlier_one() {
        let mut sync = ExactTime::new(2, 2).unwrap();
        let mut sets = Vec::new();
        for (input, item) in [(0, "first"), (0, "second"), (1, "partner")] {
            sync.add(input, 5, item, &mut sets).unwrap();
        }
        assert_eq!(sets, ["second", "partner"]);
        assert_eq!(
            sync.counts(0),
            Some(InputCounts { added: 2, delivered: 1, overwritten: 1, ..Default::default() })
        );
    }

    #[test]
    fn after_a_jump_back_in_time_clear_makes_room() {
        let mut sync = ExactTime::new(2, 2).unwrap();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 1000), (0, 2000)]), [0u64; 0]);
        assert_eq!(
            stamps_of_sets(&mut sync, &[(0, 1), (1, 1)]),
            [0u64; 0],
            "the old future fills the queue"
        );
        sync.clear();
        assert_eq!(stamps_of_sets(&mut sync, &[(0, 1), (1, 1)]), [1]);
        assert_eq!(
            counts(&sync, 0),
            InputCounts {
                added: 4,
                delivered: 1,
                overwritten: 1,
                cleared: 2,
                ..Default::default()
            }
        );
    }

    #[test]
    fn extreme_stamps_are_ordinary() {
        let mut sync = ExactTime::new(2, 2).unwrap();
        assert_eq!(
            stamps_of_sets(&mut sync, &[(0, u64::MAX), (0, 0), (1, 0), (1, u64::MAX)]),
            [0, u64::MAX]
        );
    }

    #[test]
    fn waiting_items_are_dropped_with_the_synchronizer() {
        let item = std::rc::Rc::new(());
        let mut sync = ExactTime::new(2, 2).unwrap();
        sync.add(0, 1, item.clone(), &mut Vec::new()).unwrap();
        assert_eq!(std::rc::Rc::strong_count(&item), 2);
        drop(sync);
        assert_eq!(std::rc::Rc::strong_count(&item), 1);
    }
}
