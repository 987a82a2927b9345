// SPDX-License-Identifier: Apache-2.0
//! The same sets, upon the same items, as ROS 1 `message_filters` formed from recorded sequences of
//! stamps.
//!
//! The recording and its format come from `tests/message_filters/generate.cpp`.

use super::{ApproximateOptions, ApproximateTime, ExactTime, InputCounts, Synchronizer};
use flate2::read::GzDecoder;

const RECORDING: &[u8] = include_bytes!("../../../tests/data/message_filters.txt.gz");

#[derive(Clone, Copy)]
struct Item {
    input: usize,
    stamp_ns: u64,
}

/// A set, by numbers of items: the item whose arrival delivered the set, and the items of the set.
#[derive(Debug, PartialEq)]
struct Set {
    upon: usize,
    items: Vec<usize>,
}

/// One policy with the sets that ROS formed with it.
struct Case<'a> {
    scenario: &'a str,
    policy: &'a str,
    sets: Vec<Set>,
}

/// Calls `check` with every recorded case and the items that it was fed with.
fn each_case(mut check: impl FnMut(&Case, &[Item])) -> (usize, usize) {
    let (mut scenarios, mut cases) = (0, 0);
    let mut items = Vec::new();
    let mut base_ns = 0;
    let mut case = Case { scenario: "", policy: "", sets: Vec::new() };
    let recording = std::io::read_to_string(GzDecoder::new(RECORDING)).unwrap();
    for line in recording.lines().filter(|line| !line.starts_with('#')) {
        let (word, rest) = line.split_once(' ').unwrap();
        match word {
            "scenario" => {
                scenarios += 1;
                case.scenario = rest;
                items.clear();
            }
            "items" => base_ns = rest.parse().unwrap(),
            "exact" | "approximate" => case.policy = line,
            "=" => {
                let mut numbers = rest.split(' ').map(|n| n.parse::<usize>().unwrap());
                let upon = numbers.next().unwrap();
                case.sets.push(Set { upon, items: numbers.map(|before| upon - before).collect() });
            }
            "sets" => {
                assert_eq!(
                    rest.parse(),
                    Ok(case.sets.len()),
                    "the recording is cut short in {}",
                    case.scenario
                );
                check(&case, &items);
                cases += 1;
                case.sets.clear();
            }
            input => items.push(Item {
                input: input.parse().unwrap(),
                stamp_ns: base_ns + rest.parse::<u64>().unwrap(),
            }),
        }
    }
    (scenarios, cases)
}

fn policy(description: &str) -> Box<dyn Synchronizer<usize>> {
    let words: Vec<_> = description.split(' ').collect();
    let (inputs, queue) = (words[1].parse().unwrap(), words[2].parse().unwrap());
    if words[0] == "exact" {
        return Box::new(ExactTime::new(inputs, queue).unwrap());
    }
    let options = ApproximateOptions {
        queue,
        age_penalty: words[3].parse().unwrap(),
        max_interval_ns: (words[4] != "-").then(|| words[4].parse().unwrap()),
        lower_bounds_ns: words[5..].iter().map(|bound| bound.parse().unwrap()).collect(),
    };
    Box::new(ApproximateTime::new(inputs, &options).unwrap())
}

fn replay(sync: &mut dyn Synchronizer<usize>, items: &[Item]) -> Vec<Set> {
    let mut sets = Vec::new();
    let mut buffer = Vec::with_capacity(sync.inputs() * sync.max_sets_per_add());
    let capacity = buffer.capacity();
    for (number, item) in items.iter().enumerate() {
        let added = sync.add(item.input, item.stamp_ns, number, &mut buffer).unwrap();
        assert_eq!(buffer.len(), added * sync.inputs());
        sets.extend(
            buffer.chunks_exact(sync.inputs()).map(|set| Set { upon: number, items: set.to_vec() }),
        );
        buffer.clear();
    }
    assert_eq!(buffer.capacity(), capacity, "max_sets_per_add was too low");
    sets
}

#[test]
fn sets_are_those_of_ros() {
    let mut sets = 0;
    let (scenarios, cases) = each_case(|case, items| {
        sets += case.sets.len();
        let mut sync = policy(case.policy);
        let formed = replay(&mut *sync, items);
        if let Some(at) =
            (0..formed.len().max(case.sets.len())).find(|&at| formed.get(at) != case.sets.get(at))
        {
            panic!(
                "{}, {}: set {at} is {:?}, in ROS {:?}",
                case.scenario,
                case.policy,
                formed.get(at),
                case.sets.get(at)
            );
        }
    });
    assert!(
        scenarios >= 200 && cases >= 1000 && sets >= 10_000,
        "{scenarios} scenarios, {cases} cases, {sets} sets"
    );
}

#[test]
fn every_recorded_item_is_accounted_for() {
    each_case(|case, items| {
        let mut sync = policy(case.policy);
        replay(&mut *sync, items);
        for input in 0..sync.inputs() {
            let counts = sync.counts(input).unwrap();
            let InputCounts { added, delivered, queued, .. } = counts;
            assert_eq!(added, items.iter().filter(|item| item.input == input).count() as u64);
            assert_eq!(delivered, case.sets.len() as u64);
            assert_eq!(
                added,
                delivered + counts.dropped() + queued,
                "{}, {}: {counts:?}",
                case.scenario,
                case.policy
            );
        }
    });
}

/// The recording must cover the special cases, or agreement with it proves little.
#[test]
fn the_recording_covers_what_matters() {
    let (mut several_at_once, mut overwritten, mut unmatched, mut skipped, mut back, mut nine) =
        (0, 0, 0, 0, 0, 0);
    each_case(|case, items| {
        let mut sync = policy(case.policy);
        replay(&mut *sync, items);
        several_at_once +=
            usize::from(case.sets.windows(2).any(|pair| pair[0].upon == pair[1].upon));
        let total = |count: fn(&InputCounts) -> u64| {
            (0..sync.inputs()).map(|i| count(&sync.counts(i).unwrap())).sum::<u64>()
        };
        overwritten += usize::from(total(|c| c.overwritten) > 0);
        unmatched +=
            usize::from(case.policy.starts_with("approximate") && total(|c| c.unmatched) > 0);
        skipped += usize::from(total(|c| c.skipped) > 0);
        let goes_back =
            |input| items.iter().filter(|i| i.input == input).map(|i| i.stamp_ns).is_sorted();
        back += usize::from(!(0..sync.inputs()).all(goes_back));
        nine += usize::from(sync.inputs() == 9 && !case.sets.is_empty());
    });
    for (what, cases) in [
        ("several sets upon one item", several_at_once),
        ("overwritten", overwritten),
        ("unmatched", unmatched),
        ("skipped", skipped),
        ("stamps going back", back),
        ("nine inputs", nine),
    ] {
        assert!(cases >= 20, "{what}: only {cases} cases");
    }
}
