// SPDX-License-Identifier: Apache-2.0
//! Promises of the synchronizers, on arbitrary input.

use super::{ApproximateOptions, ApproximateTime, ExactTime, InputCounts, Synchronizer};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use std::collections::{BTreeMap, BTreeSet};

/// An item that contains its input, stamp and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Item {
    input: usize,
    stamp_ns: u64,
    number: usize,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Add { input: usize, stamp_ns: u64 },
    Clear,
}

/// Any stamps at all: mostly near each other, so that sets form, at times from the ends of the
/// range.
fn any_steps(inputs: usize) -> impl Strategy<Value = Vec<Step>> {
    let stamp = prop_oneof![
        20 => 0..60_u64, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => (u64::MAX - 60)..=u64::MAX
    ];
    let add = (0..inputs, stamp).prop_map(|(input, stamp_ns)| Step::Add { input, stamp_ns });
    prop::collection::vec(prop_oneof![60 => add, 1 => Just(Step::Clear)], 0..250)
}

/// Stamps that do not decrease on any input, in any order of arrival between the inputs.
fn orderly_items(inputs: usize) -> impl Strategy<Value = Vec<(usize, u64)>> {
    prop::collection::vec((0..inputs, 0..30_u64), 0..250).prop_map(move |steps| {
        let mut now_ns = vec![0; inputs];
        steps
            .into_iter()
            .map(|(input, step_ns)| {
                now_ns[input] += step_ns;
                (input, now_ns[input])
            })
            .collect()
    })
}

fn any_options(inputs: usize) -> impl Strategy<Value = ApproximateOptions> {
    let bounds = prop_oneof![
        Just(Vec::new()),
        prop::collection::vec(prop_oneof![4 => 0..40_u64, 1 => any::<u64>()], inputs)
    ];
    let max_interval = prop::option::of(prop_oneof![3 => 0..40_u64, 1 => any::<u64>()]);
    let age_penalty = prop_oneof![Just(0.0), Just(0.1), 0.0..4.0, Just(f64::MAX)];
    (1..12_usize, max_interval, age_penalty, bounds).prop_map(
        |(queue, max_interval_ns, age_penalty, lower_bounds_ns)| ApproximateOptions {
            queue,
            max_interval_ns,
            age_penalty,
            lower_bounds_ns,
        },
    )
}

/// Adds the items and returns the sets; checks after every step the invariants that hold for
/// arbitrary items.
fn drive(
    sync: &mut dyn Synchronizer<Item>,
    queue: usize,
    steps: impl IntoIterator<Item = Step>,
) -> Vec<Vec<Item>> {
    let inputs = sync.inputs();
    let mut buffer = Vec::with_capacity(inputs * sync.max_sets_per_add());
    let capacity = buffer.capacity();
    let mut sets: Vec<Vec<Item>> = Vec::new();
    let mut added = vec![0; inputs];
    let mut seen = BTreeSet::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Clear => sync.clear(),
            Step::Add { input, stamp_ns } => {
                added[input] += 1;
                let new = sync
                    .add(input, stamp_ns, Item { input, stamp_ns, number }, &mut buffer)
                    .unwrap();
                assert_eq!(buffer.len(), new * inputs);
            }
        }
        for set in buffer.chunks_exact(inputs) {
            assert!(
                set.iter().enumerate().all(|(input, item)| item.input == input),
                "not in input order: {set:?}"
            );
            assert!(
                set.iter().all(|item| seen.insert(item.number)),
                "an item in two sets: {set:?}"
            );
            sets.push(set.to_vec());
        }
        buffer.clear();
        assert_eq!(buffer.capacity(), capacity, "more sets than max_sets_per_add");
        for (input, &added) in added.iter().enumerate() {
            let counts = sync.counts(input).unwrap();
            assert_eq!(counts.added, added);
            assert_eq!(counts.delivered, sets.len() as u64);
            assert!(counts.queued <= queue as u64, "{counts:?}");
            assert_eq!(
                counts.added,
                counts.delivered + counts.dropped() + counts.queued,
                "{counts:?}"
            );
        }
    }
    sets
}

fn adds(items: &[(usize, u64)]) -> impl Iterator<Item = Step> {
    items.iter().map(|&(input, stamp_ns)| Step::Add { input, stamp_ns })
}

fn width_ns(set: &[Item]) -> u64 {
    let stamps = || set.iter().map(|item| item.stamp_ns);
    stamps().max().unwrap() - stamps().min().unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(7),
        ..Default::default()
    })]

    #[test]
    fn exact_time_accounts_for_every_item_of_any_input(
        (inputs, steps) in (1..6_usize).prop_flat_map(|inputs| (Just(inputs), any_steps(inputs))),
        queue in 1..8_usize,
    ) {
        let mut sync = ExactTime::new(inputs, queue).unwrap();
        for set in drive(&mut sync, queue, steps) {
            prop_assert_eq!(width_ns(&set), 0);
        }
    }

    #[test]
    fn approximate_time_accounts_for_every_item_of_any_input(
        (inputs, steps, options) in (1..6_usize).prop_flat_map(
            |inputs| (Just(inputs), any_steps(inputs), any_options(inputs))
        ),
    ) {
        let mut sync = ApproximateTime::new(inputs, &options).unwrap();
        drive(&mut sync, options.queue, steps);
    }

    #[test]
    fn exact_time_with_room_for_all_finds_every_common_stamp(
        (inputs, mut items) in (1..5_usize).prop_flat_map(
            |inputs| (Just(inputs), prop::collection::vec((0..inputs, 0..25_u64), 0..120))
        ),
    ) {
        items.sort_by_key(|&(_, stamp_ns)| stamp_ns);
        let mut by_stamp: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
        for &(input, stamp_ns) in &items {
            by_stamp.entry(stamp_ns).or_default().insert(input);
        }
        let mut seen = BTreeSet::new();
        items.retain(|&item| seen.insert(item));
        let common: Vec<u64> = by_stamp
            .into_iter()
            .filter(|(_, found)| found.len() == inputs)
            .map(|(stamp_ns, _)| stamp_ns)
            .collect();
        let mut sync = ExactTime::new(inputs, 200).unwrap();
        let sets = drive(&mut sync, 200, adds(&items));
        prop_assert_eq!(sets.iter().map(|set| set[0].stamp_ns).collect::<Vec<_>>(), common);
    }

    #[test]
    fn approximate_sets_of_orderly_input_do_not_cross_and_keep_the_maximum_interval(
        (inputs, items, options) in (1..6_usize).prop_flat_map(
            |inputs| (Just(inputs), orderly_items(inputs), any_options(inputs))
        ),
    ) {
        let mut sync = ApproximateTime::new(inputs, &options).unwrap();
        let sets = drive(&mut sync, options.queue, adds(&items));
        for set in &sets {
            prop_assert!(width_ns(set) <= options.max_interval_ns.unwrap_or(u64::MAX), "{set:?}");
        }
        for pair in sets.windows(2) {
            for (earlier, later) in pair[0].iter().zip(&pair[1]) {
                prop_assert!(
                    earlier.number < later.number && earlier.stamp_ns <= later.stamp_ns,
                    "{pair:?}"
                );
            }
        }
    }

    #[test]
    fn approximate_sets_in_a_row_leave_nothing_out_on_some_input(
        (inputs, items) in (1..6_usize).prop_flat_map(
            |inputs| (Just(inputs), orderly_items(inputs))
        ),
        age_penalty in prop_oneof![Just(0.0), 0.0..2.0],
    ) {
        let options = ApproximateOptions { queue: 300, age_penalty, ..Default::default() };
        let sets = drive(
            &mut ApproximateTime::new(inputs, &options).unwrap(),
            options.queue,
            adds(&items),
        );
        for pair in sets.windows(2) {
            let contiguous = pair[0].iter().zip(&pair[1]).any(|(earlier, later)| {
                let between = earlier.number + 1..later.number;
                !items[between].iter().any(|&(input, _)| input == earlier.input)
            });
            prop_assert!(contiguous, "{pair:?}");
        }
    }

    #[test]
    fn approximate_sets_depend_on_stamps_and_not_on_delays(
        (inputs, items) in (1..5_usize).prop_flat_map(
            |inputs| (Just(inputs), orderly_items(inputs))
        ),
        age_penalty in prop_oneof![Just(0.0), Just(0.1), 0.0..2.0],
    ) {
        let options = ApproximateOptions { queue: 300, age_penalty, ..Default::default() };
        // Equal stamps far in the future: they decide all sets of earlier items.
        let last: Vec<_> = (0..inputs).map(|input| (input, 1_000_000)).collect();
        let stamps = |items: &[(usize, u64)]| -> Vec<Vec<u64>> {
            let mut sync = ApproximateTime::new(inputs, &options).unwrap();
            let sets = drive(&mut sync, options.queue, adds(items).chain(adds(&last)));
            sets.iter().map(|set| set.iter().map(|item| item.stamp_ns).collect()).collect()
        };
        let mut by_time = items.clone();
        by_time.sort_by_key(|&(_, stamp_ns)| stamp_ns);
        let mut one_input_after_the_other = items.clone();
        one_input_after_the_other.sort_by_key(|&(input, _)| input);
        let expected = stamps(&items);
        prop_assert_eq!(stamps(&by_time), &expected[..]);
        prop_assert_eq!(stamps(&one_input_after_the_other), &expected[..]);
    }

    #[test]
    fn approximate_time_is_exact_on_equal_stamps(
        (inputs, steps) in (2..6_usize).prop_flat_map(
            |inputs| (Just(inputs), prop::collection::vec(1..50_u64, 1..40))
        ),
    ) {
        let mut sync = ApproximateTime::new(inputs, &ApproximateOptions::default()).unwrap();
        let mut now_ns = 0;
        let mut items = Vec::new();
        for step_ns in steps {
            now_ns += step_ns;
            items.extend((0..inputs).map(|input| (input, now_ns)));
        }
        let sets = drive(&mut sync, 10, adds(&items));
        prop_assert_eq!(
            sets.len() * inputs,
            items.len(),
            "delivered at once, with nothing left \
             over"
        );
        prop_assert!(sets.iter().all(|set| width_ns(set) == 0));
        prop_assert_eq!(sync.counts(0).map(|c: InputCounts| c.dropped()), Some(0));
    }
}
