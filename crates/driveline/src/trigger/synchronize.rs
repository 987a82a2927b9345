// SPDX-License-Identifier: Apache-2.0
//! Sets of items that belong together in source time, out of several inputs.
//!
//! Two policies, with the behaviour of the policies of the same name in ROS `message_filters`, set
//! by set:
//!
//! - [`ExactTime`]: one item of every input, all with the same stamp;
//! - [`ApproximateTime`]: one item of every input, the tightest sets that can be had without using
//!   an item twice.
//!
//! This is plain data handling: no thread, no clock, no I/O. A caller feeds items with their stamps
//! and gets the sets back. What happens in between depends on the stamps and on the order of the
//! calls only, so a recording gives the same sets every time. A synchronizer is `Send` when its
//! items are; it has no lock of its own.
//!
//! **Bounded.** Per input at most `queue` items wait. When one more comes, the oldest is dropped
//! and counted. All memory is allocated by `new`; afterwards only the caller's buffer can grow, and
//! a buffer with room for `max_sets_per_add() * inputs()` items never does. Items wait inside: an
//! item that holds a shared-memory slot holds it until it is delivered or dropped, so up to
//! `inputs * queue` slots.
//!
//! **Accounted for.** For every input, `added` is always the sum of the other numbers in
//! [`InputCounts`].
//!
//! ```
//! use driveline::synchronize::{ExactTime, Synchronizer};
//!
//! let mut sync = ExactTime::new(2, 4)?; // image and depth image; at most 4 stamps wait
//! let mut sets = Vec::with_capacity(sync.max_sets_per_add() * sync.inputs());
//! assert_eq!(sync.add(0, 1_000, "image", &mut sets)?, 0);
//! assert_eq!(sync.add(1, 1_000, "depth", &mut sets)?, 1);
//! for set in sets.chunks_exact(sync.inputs()) {
//!     assert_eq!(set, ["image", "depth"]); // in input order
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod approximate;
mod exact;
#[cfg(test)]
mod golden_tests;
#[cfg(test)]
mod property_tests;

pub use approximate::{ApproximateOptions, ApproximateTime, DEFAULT_AGE_PENALTY};
pub use exact::ExactTime;

use std::fmt;

/// Maximum number of inputs of one synchronizer.
pub const MAX_INPUTS: usize = 64;

/// Longest queue per input.
pub const MAX_QUEUE: usize = 65_536;

/// Collects items of several inputs into sets of one item of each.
pub trait Synchronizer<T> {
    /// Number of inputs, which is the number of items of a set. Inputs are numbered from 0.
    fn inputs(&self) -> usize;

    /// Maximum number of sets that a single [`add`](Self::add) can complete, to size its buffer.
    fn max_sets_per_add(&self) -> usize;

    /// Takes the next item of `input` and appends the sets that this completes to `sets`, oldest
    /// first: each set is [`inputs()`](Self::inputs) consecutive items in input order. Returns the
    /// number of sets.
    ///
    /// `stamp_ns` is the item's source time in nanoseconds, of any one clock that all inputs share.
    /// An input's stamps should not decrease. Each policy documents what happens if they do; at
    /// worst, sets come in another order, are wider than necessary, or are missing.
    ///
    /// Never blocks. Allocates only if `sets` lacks room. Items that are dropped are dropped during
    /// this call.
    ///
    /// # Errors
    /// [`NoSuchInput`] if `input >= inputs()`; the item is dropped, uncounted, and nothing else
    /// changes.
    fn add(
        &mut self,
        input: usize,
        stamp_ns: u64,
        item: T,
        sets: &mut Vec<T>,
    ) -> Result<usize, NoSuchInput>;

    /// Drops everything that waits, counted as [`cleared`](InputCounts::cleared), and forgets every
    /// stamp seen: the next item may have any stamp. For jumps back in time (a recording that
    /// starts over). Keeps the other counts.
    fn clear(&mut self);

    /// Returns the counts of the items of `input` so far; `None` if there is no such input.
    fn counts(&self, input: usize) -> Option<InputCounts>;
}

/// Counts of the items of one input since the synchronizer was made.
///
/// `added == delivered + overwritten + unmatched + skipped + cleared + queued`, at any time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InputCounts {
    /// Items given to [`Synchronizer::add`].
    pub added: u64,
    /// Items that went out in a set.
    pub delivered: u64,
    /// Items pushed out by a newer one while they waited: the queue was full, or (exact time only)
    /// the same input brought another item with the same stamp. If they are many, the queue is too
    /// short for the delay between the inputs, or an input is missing.
    pub overwritten: u64,
    /// Items that could not be in any set. Exact time: a later stamp was completed while another
    /// input still lacked this one. Approximate time: the set would be wider than the maximum
    /// interval, or could not be proven the tightest because its partner was overwritten.
    pub unmatched: u64,
    /// Approximate time only: items passed over in favour of a tighter set. Normal for the faster
    /// inputs.
    pub skipped: u64,
    /// Items dropped by [`Synchronizer::clear`].
    pub cleared: u64,
    /// Items that wait now.
    pub queued: u64,
}

impl InputCounts {
    /// All items dropped for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.overwritten + self.unmatched + self.skipped + self.cleared
    }
}

/// An item came for an input that the synchronizer does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSuchInput {
    /// Requested input.
    pub input: usize,
    /// Number of inputs.
    pub inputs: usize,
}

impl fmt::Display for NoSuchInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "synchronizer has no input {}: it was made with {} inputs, numbered from 0",
            self.input, self.inputs
        )
    }
}

impl std::error::Error for NoSuchInput {}

/// Invalid options of a synchronizer.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionsError {
    /// No input, or more than [`MAX_INPUTS`].
    Inputs {
        /// Requested value.
        inputs: usize,
    },
    /// No queue, or longer than [`MAX_QUEUE`].
    Queue {
        /// Requested value.
        queue: usize,
    },
    /// Negative, infinite or not a number.
    AgePenalty {
        /// Requested value.
        age_penalty: f64,
    },
    /// Neither empty nor one bound per input.
    LowerBounds {
        /// Number of bounds given.
        bounds: usize,
        /// Number of inputs.
        inputs: usize,
    },
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inputs { inputs } => {
                write!(f, "cannot synchronize {inputs} inputs: give 1 to {MAX_INPUTS}")
            }
            Self::Queue { queue } => {
                write!(
                    f,
                    "a queue of {queue} items per input is not possible: give 1 to {MAX_QUEUE}; 10 \
                     suits most sensors"
                )
            }
            Self::AgePenalty { age_penalty } => write!(
                f,
                "age_penalty {age_penalty} is not a finite number >= 0: give 0 for the tightest \
                 sets, {DEFAULT_AGE_PENALTY} (the default) for earlier ones"
            ),
            Self::LowerBounds { bounds, inputs } => write!(
                f,
                "{bounds} lower bounds of the interval between items for {inputs} inputs: give one \
                 per input, in nanoseconds (0 where unknown), or none at all"
            ),
        }
    }
}

impl std::error::Error for OptionsError {}

fn check_size(inputs: usize, queue: usize) -> Result<(), OptionsError> {
    if !(1..=MAX_INPUTS).contains(&inputs) {
        return Err(OptionsError::Inputs { inputs });
    }
    if !(1..=MAX_QUEUE).contains(&queue) {
        return Err(OptionsError::Queue { queue });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_refused_with_the_remedy() {
        for (inputs, queue) in
            [(0, 1), (MAX_INPUTS + 1, 1), (1, 0), (1, MAX_QUEUE + 1), (usize::MAX, usize::MAX)]
        {
            let error = ExactTime::<()>::new(inputs, queue).err().unwrap();
            assert_eq!(
                Some(&error),
                ApproximateTime::<()>::new(
                    inputs,
                    &ApproximateOptions { queue, ..Default::default() }
                )
                .err()
                .as_ref()
            );
            assert!(error.to_string().contains("give 1 to"), "{error}");
        }
        assert!(
            ExactTime::<()>::new(MAX_INPUTS, 1).is_ok()
                && ExactTime::<()>::new(1, MAX_QUEUE).is_ok()
        );
    }

    #[test]
    fn policies_are_interchangeable_behind_a_pointer() {
        let policies: [Box<dyn Synchronizer<u8> + Send>; 2] = [
            Box::new(ExactTime::new(1, 1).unwrap()),
            Box::new(ApproximateTime::new(1, &ApproximateOptions::default()).unwrap()),
        ];
        for mut policy in policies {
            let mut sets = Vec::new();
            assert_eq!(policy.add(0, 5, 7, &mut sets), Ok(1), "a single input is always complete");
            assert_eq!(sets, [7]);
            assert_eq!(policy.add(1, 5, 7, &mut sets), Err(NoSuchInput { input: 1, inputs: 1 }));
            assert_eq!(policy.counts(1), None);
            assert_eq!(
                policy.counts(0),
                Some(InputCounts { added: 1, delivered: 1, ..Default::default() })
            );
        }
    }
}
