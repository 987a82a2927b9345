// SPDX-License-Identifier: Apache-2.0
//! Sets of items with nearly equal stamps. A set is delivered when it is certain that no tighter
//! one can come.

use super::{InputCounts, NoSuchInput, OptionsError, Synchronizer, check_size};
use std::collections::VecDeque;

/// Default of [`ApproximateOptions::age_penalty`]; the value of ROS.
pub const DEFAULT_AGE_PENALTY: f64 = 0.1;

/// Options of [`ApproximateTime`]. The defaults are those of ROS, with a queue of 10.
#[derive(Clone, Debug, PartialEq)]
pub struct ApproximateOptions {
    /// Maximum number of items that wait per input, 1..=[`MAX_QUEUE`](super::MAX_QUEUE). It must
    /// span the largest delay between two inputs: at 30 Hz and 200 ms of delay, 7 or more.
    pub queue: usize,
    /// Widest set to deliver: latest minus earliest stamp, in nanoseconds. `None`: any.
    pub max_interval_ns: Option<u64>,
    /// A later set replaces an earlier one only if its earliest stamp is later by more than
    /// `1 + age_penalty` times the difference between the latest stamps of both sets. 0: the
    /// tightest set wins, however late it comes. Larger values: earlier, looser sets.
    pub age_penalty: f64,
    /// For each input, the minimum time in nanoseconds between two of its items. The caller
    /// promises to keep it; with this promise, sets are delivered earlier. Empty, or 0
    /// for an input: no promise.
    pub lower_bounds_ns: Vec<u64>,
}

impl Default for ApproximateOptions {
    fn default() -> Self {
        Self {
            queue: 10,
            max_interval_ns: None,
            age_penalty: DEFAULT_AGE_PENALTY,
            lower_bounds_ns: Vec::new(),
        }
    }
}

/// Delivers one item of every input with stamps as close together as can be had.
///
/// It needs no tolerance. Its sets have these properties (when every input's stamps increase):
///
/// - an item is in at most one set, and on no input does a later set have an older item than an
///   earlier set;
/// - between two sets in a row there is an input of which no item was left out;
/// - among the sets that could follow the previous one, the tightest is taken (see
///   [`age_penalty`](ApproximateOptions::age_penalty));
/// - the sets depend on the stamps alone, not on the delays with which the items came, as long as
///   no queue overflows and the [lower bounds](ApproximateOptions::lower_bounds_ns) hold. (The
///   delays only decide which item's arrival delivers a set.)
///
/// The search: a window with one item of every input slides from old to new by passing over its
/// earliest item each time. The first window that is not too wide becomes the candidate, and the
/// input of its latest item the *pivot*: every later set that can still replace the candidate
/// contains this latest item. Tighter windows replace the candidate, until the window would leave
/// the pivot's item, or until it is certain that no later window can be tighter. Then the candidate
/// is delivered, and the items that were passed over after it are searched again. A set therefore
/// waits for items that are later than it: normally one period of the slower inputs.
///
/// - **Full**: the input's oldest item is dropped as `overwritten` and the search starts again
///   without it. The input that lost an item cannot be the pivot until another input has the latest
///   item of a window, because the lost item might have made a better set. Items skipped for this
///   reason count as `unmatched`.
/// - **An input that never comes**: nothing is delivered; the others keep their newest `queue`
///   items.
/// - **Equal stamps** on one input are two items like any other. A tie keeps the earlier candidate.
/// - **Stamps that go back** on one input are not reordered: they can make sets wider than
///   [`max_interval_ns`](ApproximateOptions::max_interval_ns) or less tight than possible, nothing
///   worse. After a jump back in time of all inputs the items that wait would be matched with new
///   ones: call [`clear`](Synchronizer::clear) at the jump.
///
/// The sets are those of ROS 1 `message_filters::sync_policies::ApproximateTime` with the same
/// options, upon the same items; the product with `1 + age_penalty` is rounded to nanoseconds as
/// there. (ROS 2 truncates it instead. The results can differ between sets whose widths differ by
/// about 1 ns.)
///
/// Time: a step of the search takes O(inputs). Every item is passed over at most once between two
/// sets, so `add` takes O(inputs² · queue) per set and usually far less. Memory:
/// `(queue + 1) * inputs` items, allocated by [`new`](Self::new).
#[derive(Debug)]
pub struct ApproximateTime<T> {
    inputs: Box<[Input<T>]>,
    queue: usize,
    max_interval_ns: u64,
    penalty_factor: f64,
    candidate: Option<Candidate>,
    /// Cursors of the search ahead. Kept between calls only to reuse the memory.
    lookahead: Box<[usize]>,
}

#[derive(Debug)]
struct Input<T> {
    /// Waiting items, oldest first. While there is a candidate, the first item belongs to it.
    items: VecDeque<Stamped<T>>,
    /// Number of `items` that the window has passed; 0 while there is no candidate.
    cursor: usize,
    /// An item was overwritten that might have made a better set.
    lost: bool,
    lower_bound_ns: u64,
    counts: InputCounts,
}

#[derive(Debug)]
struct Stamped<T> {
    stamp_ns: u64,
    item: T,
}

/// The best set so far: the first item of every input.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    start_ns: u64,
    end_ns: u64,
    pivot_ns: u64,
    penalty_factor: f64,
}

/// The extent of one item of every input.
#[derive(Clone, Copy, Debug)]
struct Window {
    start_ns: u64,
    end_ns: u64,
    /// Input of the earliest item; if several are equal, the lowest input.
    first: usize,
    /// Input of the latest item; if several are equal, the highest input.
    last: usize,
}

impl<T> Input<T> {
    fn stamp_at(&self, cursor: usize) -> Option<u64> {
        self.items.get(cursor).map(|s| s.stamp_ns)
    }

    /// Returns the stamp at `cursor`. If there is no item yet, returns the earliest stamp that the
    /// next item can have and still matter: an item earlier than the pivot's item only makes the
    /// window wider.
    fn earliest_stamp_at(&self, cursor: usize, pivot_ns: u64) -> u64 {
        self.stamp_at(cursor).unwrap_or_else(|| {
            let previous_ns = cursor.checked_sub(1).and_then(|previous| self.stamp_at(previous));
            previous_ns.map_or(pivot_ns, |ns| ns.saturating_add(self.lower_bound_ns).max(pivot_ns))
        })
    }
}

impl Candidate {
    /// Returns by how much a window that ends at `end_ns` has grown at its end, age penalty
    /// included.
    fn growth_ns(&self, end_ns: u64) -> i64 {
        scale_ns(difference_ns(end_ns, self.end_ns), self.penalty_factor)
    }

    /// Returns true if the window lost more at its start than it has grown at its end.
    fn loses_to(&self, window: Window) -> bool {
        self.growth_ns(window.end_ns) < difference_ns(window.start_ns, self.start_ns)
    }

    /// Returns true if the candidate beats every window that ends at `end_ns` or later. Such a
    /// window starts with the pivot's item at the latest, and even with that start it has grown too
    /// much at its end. For the window that starts with the pivot's item, this is the opposite of
    /// [`loses_to`](Self::loses_to).
    fn beats_all_from(&self, end_ns: u64) -> bool {
        self.growth_ns(end_ns) >= difference_ns(self.pivot_ns, self.start_ns)
    }
}

impl Window {
    fn over(stamps_ns: impl Iterator<Item = u64>) -> Option<Self> {
        stamps_ns.enumerate().fold(None, |window, (input, ns)| {
            let Some(mut w) = window else {
                return Some(Self { start_ns: ns, end_ns: ns, first: input, last: input });
            };
            if ns < w.start_ns {
                (w.start_ns, w.first) = (ns, input);
            }
            if ns >= w.end_ns {
                (w.end_ns, w.last) = (ns, input);
            }
            Some(w)
        })
    }
}

impl<T> ApproximateTime<T> {
    /// A synchronizer of `inputs` inputs. Allocates all it will ever need.
    ///
    /// # Errors
    /// [`OptionsError`] if `inputs` is not in 1..=[`MAX_INPUTS`](super::MAX_INPUTS) or an option
    /// not in its range.
    pub fn new(inputs: usize, options: &ApproximateOptions) -> Result<Self, OptionsError> {
        check_size(inputs, options.queue)?;
        let age_penalty = options.age_penalty;
        if !(age_penalty.is_finite() && age_penalty >= 0.0) {
            return Err(OptionsError::AgePenalty { age_penalty });
        }
        let bounds = &options.lower_bounds_ns;
        if !bounds.is_empty() && bounds.len() != inputs {
            return Err(OptionsError::LowerBounds { bounds: bounds.len(), inputs });
        }
        let new_input = |input| Input {
            // One more than may wait: a new item may complete a set before the oldest is given up.
            items: VecDeque::with_capacity(options.queue + 1),
            cursor: 0,
            lost: false,
            lower_bound_ns: bounds.get(input).copied().unwrap_or(0),
            counts: InputCounts::default(),
        };
        Ok(Self {
            inputs: (0..inputs).map(new_input).collect(),
            queue: options.queue,
            max_interval_ns: options.max_interval_ns.unwrap_or(u64::MAX),
            penalty_factor: 1.0 + age_penalty,
            candidate: None,
            lookahead: vec![0; inputs].into(),
        })
    }

    /// The window at the cursors, if every input has an item there.
    fn window(&self) -> Option<Window> {
        if self.inputs.iter().any(|input| input.cursor >= input.items.len()) {
            return None;
        }
        Window::over(self.inputs.iter().filter_map(|input| input.stamp_at(input.cursor)))
    }

    /// Continues the search as far as the items reach, and delivers the sets found.
    fn search(&mut self, sets: &mut Vec<T>) -> usize {
        let mut delivered = 0;
        // The loop ends: each turn passes over or drops an item, or delivers one item of every
        // input.
        while let Some(window) = self.window() {
            for (i, input) in self.inputs.iter_mut().enumerate() {
                if i != window.last {
                    // The window ends with another input's item. The item that this input lost is
                    // older than its item in the window, and would not have made the window
                    // tighter.
                    input.lost = false;
                }
            }
            let candidate = match self.candidate {
                None => {
                    let too_wide =
                        window.end_ns.saturating_sub(window.start_ns) > self.max_interval_ns;
                    if too_wide || self.inputs[window.last].lost {
                        let input = &mut self.inputs[window.first];
                        input.items.pop_front();
                        input.counts.unmatched += 1;
                        continue;
                    }
                    self.adopt(window, window.end_ns)
                }
                Some(best) if best.loses_to(window) => self.adopt(window, best.pivot_ns),
                Some(best) => best,
            };
            self.inputs[window.first].cursor += 1;
            if candidate.beats_all_from(window.end_ns)
                || (self.window().is_none() && self.beats_all_to_come(candidate))
            {
                self.deliver(sets);
                delivered += 1;
            }
        }
        delivered
    }

    /// Makes the window the candidate, and drops what is older.
    fn adopt(&mut self, window: Window, pivot_ns: u64) -> Candidate {
        for input in &mut self.inputs {
            input.items.drain(..input.cursor);
            input.counts.skipped += input.cursor as u64;
            input.cursor = 0;
        }
        let candidate = Candidate {
            start_ns: window.start_ns,
            end_ns: window.end_ns,
            pivot_ns,
            penalty_factor: self.penalty_factor,
        };
        self.candidate = Some(candidate);
        candidate
    }

    /// Slides the window on as if every missing item had the earliest stamp that it can have.
    /// Returns true if even then no window is tighter than the candidate: then no real window will
    /// be.
    fn beats_all_to_come(&mut self, candidate: Candidate) -> bool {
        for (ahead, input) in self.lookahead.iter_mut().zip(&self.inputs) {
            *ahead = input.cursor;
        }
        loop {
            let ahead = self.inputs.iter().zip(&self.lookahead);
            let stamps_ns =
                ahead.map(|(input, &cursor)| input.earliest_stamp_at(cursor, candidate.pivot_ns));
            let Some(window) = Window::over(stamps_ns) else { return false };
            if candidate.beats_all_from(window.end_ns) {
                return true;
            }
            if candidate.loses_to(window) {
                return false;
            }
            // The loop ends: here the window starts before the pivot's item, since otherwise one of
            // the conditions would hold. So it starts with an item that has arrived, and the number
            // of these items is finite.
            self.lookahead[window.first] += 1;
        }
    }

    /// Delivers the candidate and starts again from the items after it.
    fn deliver(&mut self, sets: &mut Vec<T>) {
        self.candidate = None;
        for input in &mut self.inputs {
            input.cursor = 0;
            if let Some(stamped) = input.items.pop_front() {
                input.counts.delivered += 1;
                sets.push(stamped.item);
            }
        }
    }
}

impl<T> Synchronizer<T> for ApproximateTime<T> {
    fn inputs(&self) -> usize {
        self.inputs.len()
    }

    /// Returns the queue length: one item may make certain that the sets of all waiting items are
    /// the tightest, so that all are delivered.
    fn max_sets_per_add(&self) -> usize {
        self.queue
    }

    fn add(
        &mut self,
        input: usize,
        stamp_ns: u64,
        item: T,
        sets: &mut Vec<T>,
    ) -> Result<usize, NoSuchInput> {
        let inputs = self.inputs.len();
        let Some(to) = self.inputs.get_mut(input) else {
            return Err(NoSuchInput { input, inputs });
        };
        to.items.push_back(Stamped { stamp_ns, item });
        to.counts.added += 1;
        let mut delivered = self.search(sets);

        if self.inputs[input].items.len() > self.queue {
            // The item to be dropped belongs to the candidate, if there is one.
            let searched = self.candidate.take().is_some();
            for each in &mut self.inputs {
                each.cursor = 0;
            }
            let full = &mut self.inputs[input];
            full.items.pop_front();
            full.counts.overwritten += 1;
            full.lost = true;
            if searched {
                delivered += self.search(sets);
            }
        }
        Ok(delivered)
    }

    fn clear(&mut self) {
        self.candidate = None;
        for input in &mut self.inputs {
            input.counts.cleared += input.items.len() as u64;
            input.items.clear();
            input.cursor = 0;
            input.lost = false;
        }
    }

    fn counts(&self, input: usize) -> Option<InputCounts> {
        self.inputs
            .get(input)
            .map(|input| InputCounts { queued: input.items.len() as u64, ..input.counts })
    }
}

/// `later - earlier`, negative if it is the other way round; clamped to 292 years.
fn difference_ns(later: u64, earlier: u64) -> i64 {
    let exact = i128::from(later) - i128::from(earlier);
    exact.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// `duration * factor`, computed in floating-point seconds and rounded to the nearest nanosecond:
/// as ROS 1 does it, so that comparisons come out the same to the last bit.
fn scale_ns(duration_ns: i64, factor: f64) -> i64 {
    const NS_PER_S: i64 = 1_000_000_000;
    let seconds =
        duration_ns.div_euclid(NS_PER_S) as f64 + 1e-9 * duration_ns.rem_euclid(NS_PER_S) as f64;
    let scaled = seconds * factor;
    let whole = scaled.floor();
    let fraction_ns = ((scaled - whole) * 1e9).round() as i64;
    (whole as i64).saturating_mul(NS_PER_S).saturating_add(fraction_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(inputs: usize, options: &ApproximateOptions) -> ApproximateTime<u64> {
        ApproximateTime::new(inputs, options).unwrap()
    }

    fn queue_of(queue: usize) -> ApproximateOptions {
        ApproximateOptions { queue, ..Default::default() }
    }

    /// Adds `(input, stamp)` pairs and returns the stamps of the sets, in order.
    fn sets_of<const N: usize>(
        sync: &mut ApproximateTime<u64>,
        items: &[(usize, u64)],
    ) -> Vec<[u64; N]> {
        let mut sets = Vec::new();
        for &(input, stamp) in items {
            sync.add(input, stamp, stamp, &mut sets).unwrap();
        }
        sets.chunks_exact(N).map(|set| set.try_into().unwrap()).collect()
    }

    fn counts(sync: &ApproximateTime<u64>, input: usize) -> InputCounts {
        sync.counts(input).unwrap()
    }

    #[test]
    fn a_set_waits_until_nothing_tighter_can_come() {
        let mut sync = with(2, &queue_of(10));
        assert!(
            sets_of::<2>(&mut sync, &[(0, 100), (1, 130)]).is_empty(),
            "input 0 may still bring one nearer to 130"
        );
        assert_eq!(sets_of(&mut sync, &[(0, 200)]), [[100, 130]], "it did not");
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 2, delivered: 1, queued: 1, ..Default::default() }
        );
    }

    #[test]
    fn the_nearest_item_of_the_faster_input_is_taken() {
        let mut sync = with(2, &queue_of(10));
        assert_eq!(
            sets_of(&mut sync, &[(0, 100), (0, 110), (0, 120), (0, 130), (1, 121), (0, 140)]),
            [[120, 121]]
        );
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 5, delivered: 1, skipped: 2, queued: 2, ..Default::default() }
        );
    }

    #[test]
    fn equal_stamps_need_no_waiting_and_a_tie_keeps_the_earlier_set() {
        let mut sync = with(2, &queue_of(10));
        assert_eq!(sets_of(&mut sync, &[(0, 100), (1, 100)]), [[100, 100]]);
        assert_eq!(sets_of(&mut sync, &[(0, 190), (0, 210), (1, 200), (1, 300)]), [[190, 200]]);
    }

    #[test]
    fn one_item_can_complete_several_sets() {
        let mut sync = with(3, &queue_of(10));
        // Until input 1 gets its next item, this item might make a tighter set than 0, 10, 50.
        // Items 60 and 75 wait meanwhile.
        let waiting = [(0, 0), (1, 10), (2, 50), (0, 60), (2, 75), (0, 200), (2, 200)];
        assert!(sets_of::<3>(&mut sync, &waiting).is_empty());
        assert_eq!(sets_of(&mut sync, &[(1, 110)]), [[0, 10, 50], [60, 110, 75]]);
    }

    #[test]
    fn a_lower_bound_of_the_interval_delivers_earlier() {
        let items = [(0, 100), (1, 130)];
        let bounded = ApproximateOptions { lower_bounds_ns: vec![90, 0], ..queue_of(10) };
        assert!(sets_of::<2>(&mut with(2, &queue_of(10)), &items).is_empty());
        assert_eq!(
            sets_of(&mut with(2, &bounded), &items),
            [[100, 130]],
            "input 0 brings nothing before 190"
        );
    }

    #[test]
    fn the_age_penalty_prefers_the_earlier_set() {
        let items = [(0, 100), (1, 130), (0, 155), (1, 180), (0, 300)];
        let penalty = |age_penalty| ApproximateOptions { age_penalty, ..queue_of(10) };
        assert_eq!(sets_of(&mut with(2, &penalty(0.0)), &items), [[155, 130]]);
        assert_eq!(sets_of(&mut with(2, &penalty(0.5)), &items), [[100, 130], [155, 180]]);
    }

    #[test]
    fn a_set_as_wide_as_the_maximum_interval_is_delivered_and_a_wider_one_is_not() {
        let limited = ApproximateOptions { max_interval_ns: Some(30), ..queue_of(10) };
        let mut sync = with(2, &limited);
        assert_eq!(sets_of(&mut sync, &[(0, 100), (1, 130), (0, 200)]), [[100, 130]]);
        assert!(sets_of::<2>(&mut sync, &[(1, 231), (0, 300), (1, 331), (0, 400)]).is_empty());
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 4, delivered: 1, unmatched: 2, queued: 1, ..Default::default() }
        );
        assert_eq!(
            counts(&sync, 1),
            InputCounts { added: 3, delivered: 1, unmatched: 2, ..Default::default() }
        );
    }

    #[test]
    fn a_queue_of_one_delivers_what_needs_no_waiting() {
        let mut sync = with(2, &queue_of(1));
        let items: Vec<_> = (1..100).flat_map(|k| [(0, 100 * k), (1, 100 * k)]).collect();
        assert_eq!(sets_of::<2>(&mut sync, &items).len(), 99);
    }

    #[test]
    fn a_candidate_that_loses_an_item_to_the_queue_is_given_up() {
        let mut sync = with(3, &queue_of(1));
        assert!(sets_of::<3>(&mut sync, &[(0, 1000), (1, 1005), (2, 1006), (1, 1008)]).is_empty());
        assert_eq!(
            counts(&sync, 1),
            InputCounts { added: 2, overwritten: 1, queued: 1, ..Default::default() }
        );
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 1, unmatched: 1, ..Default::default() },
            "1005 is gone, 1008 no pivot"
        );
        assert_eq!(sets_of(&mut sync, &[(0, 1009), (2, 2000)]), [[1009, 1008, 1006]]);
    }

    #[test]
    fn an_input_that_never_comes_holds_no_more_than_the_queue() {
        let mut sync = with(3, &queue_of(4));
        let capacity = sync.inputs[0].items.capacity();
        let items: Vec<_> = (0..1000).flat_map(|k| [(0, 10 * k), (1, 10 * k + 3)]).collect();
        assert!(sets_of::<3>(&mut sync, &items).is_empty());
        for input in [0, 1] {
            assert_eq!(
                counts(&sync, input),
                InputCounts { added: 1000, overwritten: 996, queued: 4, ..Default::default() }
            );
        }
        assert_eq!(counts(&sync, 2), InputCounts::default());
        assert_eq!(sync.inputs[0].items.capacity(), capacity, "allocated once");
        assert_eq!(
            sets_of(&mut sync, &[(2, 9985), (2, 9995)]),
            [[9980, 9983, 9985]],
            "and it starts when the input comes"
        );
    }

    #[test]
    fn what_was_overwritten_makes_no_second_best_set() {
        // Input 0 loses item 100, the best partner of 101. While input 0 has the latest item, it
        // cannot be the pivot.
        let mut sync = with(2, &queue_of(1));
        assert!(sets_of::<2>(&mut sync, &[(0, 100), (0, 140), (1, 101)]).is_empty());
        assert_eq!(counts(&sync, 1).unmatched, 1);
        assert_eq!(sets_of(&mut sync, &[(1, 140)]), [[140, 140]]);
    }

    #[test]
    fn stamps_that_go_back_are_survived() {
        let mut sync = with(2, &queue_of(3));
        assert_eq!(
            sets_of(&mut sync, &[(0, 1000), (0, 10), (1, 1000), (1, 10), (0, 20), (1, 20)]).first(),
            Some(&[1000, 1000])
        );
        let counts = counts(&sync, 0);
        assert_eq!(counts.added, counts.delivered + counts.dropped() + counts.queued);
    }

    #[test]
    fn after_a_jump_back_in_time_clear_forgets_what_waited() {
        let mut sync = with(2, &queue_of(3));
        assert!(sets_of::<2>(&mut sync, &[(0, 1000), (1, 1030), (0, 1010)]).is_empty());
        sync.clear();
        assert_eq!(sets_of(&mut sync, &[(0, 5), (1, 5)]), [[5, 5]]);
        assert_eq!(
            counts(&sync, 0),
            InputCounts { added: 3, delivered: 1, skipped: 1, cleared: 1, ..Default::default() }
        );
    }

    #[test]
    fn extreme_stamps_do_not_overflow() {
        let mut sync = with(
            2,
            &ApproximateOptions {
                lower_bounds_ns: vec![u64::MAX; 2],
                age_penalty: f64::MAX,
                ..queue_of(2)
            },
        );
        sets_of::<2>(
            &mut sync,
            &[(0, 0), (1, u64::MAX), (0, u64::MAX), (1, 0), (0, 1), (1, u64::MAX)],
        );
        let counts = counts(&sync, 0);
        assert_eq!(counts.added, counts.delivered + counts.dropped() + counts.queued);
    }

    #[test]
    fn impossible_options_are_refused_with_the_remedy() {
        for age_penalty in [-0.1, f64::NAN, f64::INFINITY] {
            let error = ApproximateTime::<()>::new(
                2,
                &ApproximateOptions { age_penalty, ..Default::default() },
            )
            .err()
            .unwrap();
            assert!(error.to_string().contains("0.1 (the default)"), "{error}");
        }
        let options = ApproximateOptions { lower_bounds_ns: vec![1, 2], ..Default::default() };
        let error = ApproximateTime::<()>::new(3, &options).err().unwrap();
        assert_eq!(error, OptionsError::LowerBounds { bounds: 2, inputs: 3 });
    }

    #[test]
    fn durations_are_scaled_to_the_nearest_nanosecond() {
        for (duration_ns, factor, expected_ns) in [
            (0, 1.1, 0),
            (10, 1.1, 11),
            (5, 1.5, 8),
            (-10, 1.1, -11),
            (3_000_000_001, 1.0, 3_000_000_001),
            (i64::MAX, f64::MAX, i64::MAX),
        ] {
            assert_eq!(scale_ns(duration_ns, factor), expected_ns, "{duration_ns} ns * {factor}");
        }
    }
}
