// SPDX-License-Identifier: Apache-2.0
//! Simulated pairs of hosts, in which time is a number.

use super::*;
use proptest::prelude::*;

const MS: i64 = 1_000_000;
const S: i64 = 1_000 * MS;

/// Clock of the other host, as a function of this host's: initial offset, drift, and a step at some
/// time.
#[derive(Clone, Copy, Debug)]
struct Other {
    offset_ns: i64,
    drift_ppm: i64,
    step_at: i64,
    step_ns: i64,
}

impl Other {
    fn offset(&self, t: i64) -> i64 {
        self.offset_ns
            + (i128::from(t) * i128::from(self.drift_ppm) / 1_000_000) as i64
            + if t >= self.step_at { self.step_ns } else { 0 }
    }

    fn show(&self, t: i64) -> MonotonicNs {
        MonotonicNs((t + self.offset(t)) as u64)
    }
}

fn here(t: i64) -> MonotonicNs {
    MonotonicNs(t as u64)
}

/// Pseudo-random numbers, the same in every run.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: i64) -> i64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as i64) % n.max(1)
    }
}

/// Simulates ten minutes with exchanges at the normal period, and checks each 50 ms. Returns the
/// share of checks at which the true offset was within the bound, in tenths of a per cent; the
/// greatest bound after the tenth second; and the estimate.
fn simulate(
    other: Other,
    mut delays: impl FnMut(&mut Draw) -> (i64, i64),
) -> (u64, u64, ClockEstimate) {
    let mut draw = Draw(7);
    let mut clock = ClockEstimate::default();
    let (mut within, mut looks, mut worst) = (0, 0, 0);
    let start = 100 * S;
    let mut next = start;
    let mut t = start;
    while t < start + 600 * S {
        if t >= next {
            let (there, back) = delays(&mut draw);
            let thinking = draw.below(MS / 2);
            let arrived = t + there;
            let returned = arrived + thinking + back;
            let e = Exchange {
                sent: here(t),
                received: other.show(arrived),
                answered: other.show(arrived + thinking),
                returned: here(returned),
            };
            assert!(clock.exchange(&e) || (t..returned).contains(&other.step_at), "{e:?}");
            t = returned;
            next += ASK_EVERY.as_nanos() as i64;
        }
        let offset = clock.offset(here(t)).expect("there was an exchange");
        let wrong = (offset.ns - other.offset(t)).unsigned_abs();
        looks += 1;
        within += u64::from(wrong <= offset.error_ns);
        if t > start + 10 * S && t < other.step_at {
            worst = worst.max(offset.error_ns);
        }
        t += 50 * MS;
    }
    (within * 1000 / looks, worst, clock)
}

/// Delays of a fast network with some jitter and sometimes a queue in one direction.
fn lan(draw: &mut Draw) -> (i64, i64) {
    let queue = if draw.below(10) == 0 { draw.below(20 * MS) } else { 0 };
    (80_000 + draw.below(60_000) + queue, 80_000 + draw.below(60_000))
}

const NEVER: i64 = i64::MAX;

#[test]
fn the_truth_lies_within_the_bound_whatever_the_offset_and_the_drift() {
    for offset_ns in [0, 3 * S, -3 * S] {
        for drift_ppm in [0, 50, -50] {
            let (within, worst, clock) =
                simulate(Other { offset_ns, drift_ppm, step_at: NEVER, step_ns: 0 }, lan);
            assert_eq!(within, 1000, "{offset_ns} {drift_ppm}");
            assert!(
                worst < 500_000,
                "a bound of {worst} ns says little where a round trip takes 0.3 ms"
            );
            assert_eq!((clock.steps(), clock.nonsense()), (0, 0));
        }
    }
}

#[test]
fn the_bound_covers_an_asymmetric_path_and_is_half_of_it() {
    let (within, worst, _) =
        simulate(Other { offset_ns: 3 * S, drift_ppm: 50, step_at: NEVER, step_ns: 0 }, |_| {
            (40 * MS, 100_000)
        });
    assert_eq!(within, 1000);
    // Half of the round trip, plus the drift between two exchanges.
    assert!((20 * MS as u64..21 * MS as u64).contains(&worst), "{worst}");
}

#[test]
fn a_step_is_noticed_at_the_next_exchange() {
    for step_ns in [3 * S, -3 * S, 10 * MS, -10 * MS] {
        // A step just before an exchange, just after one, and in the middle between two.
        for after in [S - MS, S / 2 - MS, 10 * MS, 100_000] {
            let other =
                Other { offset_ns: 3 * S, drift_ppm: -50, step_at: 400 * S + after, step_ns };
            let (within, _, clock) = simulate(other, lan);
            // At worst the bound is wrong for half a second of ten minutes.
            assert!(within >= 999, "{step_ns} {after}: {within}");
            assert!(clock.steps() + clock.nonsense() >= 1, "{step_ns} {after}");
        }
    }
}

#[test]
fn one_lucky_exchange_counts_among_many_slow_ones() {
    let mut clock = ClockEstimate::default();
    let exchange = |t: i64, there: i64, back: i64| Exchange {
        sent: here(t),
        received: here(t + there + 5 * S),
        answered: here(t + there + 5 * S),
        returned: here(t + there + back),
    };
    assert!(clock.exchange(&exchange(S, 100_000, 100_000)));
    for i in 0..50 {
        assert!(clock.exchange(&exchange(2 * S + i * 20 * MS, 900 * MS, MS)));
    }
    let offset = clock.offset(here(4 * S)).unwrap();
    assert!((offset.ns - 5 * S).abs() < 500_000 && offset.error_ns < 500_000, "{offset:?}");
    assert_eq!(offset.to_local(here(9 * S + offset.ns)), here(9 * S));
}

#[test]
fn nothing_is_known_before_the_first_exchange_and_impossible_ones_change_nothing() {
    let mut clock = ClockEstimate::default();
    assert_eq!(clock.offset(here(S)), None);
    let e = Exchange { sent: here(10), received: here(20), answered: here(30), returned: here(60) };
    assert!(!clock.exchange(&Exchange { returned: here(9), ..e }));
    assert!(!clock.exchange(&Exchange { answered: here(19), ..e }));
    assert!(
        !clock.exchange(&Exchange { answered: here(20 * S as u64 as i64), ..e }),
        "the other host claims to have taken longer than the whole exchange"
    );
    assert_eq!((clock.offset(here(S)), clock.nonsense()), (None, 3));
    assert!(clock.exchange(&e));
    assert!(clock.offset(here(60)).is_some());
}

proptest! {
    /// Honest clocks are never found wrong, whatever the delays and the order in which exchanges
    /// complete.
    #[test]
    fn the_truth_is_never_excluded(
        offset in -5 * S..5 * S,
        drift_ppm in -100i64..=100,
        delays in proptest::collection::vec((0..2 * S, 0..2 * S, 0..S), 1..40),
    ) {
        let other = Other { offset_ns: offset, drift_ppm, step_at: NEVER, step_ns: 0 };
        let mut clock = ClockEstimate::default();
        let mut t = 100 * S;
        for (i, (there, back, thinking)) in delays.iter().enumerate() {
            let (arrived, returned) = (t + there, t + there + thinking + back);
            let answered = other.show(arrived + thinking);
            let e = Exchange {
                sent: here(t),
                received: other.show(arrived),
                answered,
                returned: here(returned),
            };
            prop_assert!(clock.exchange(&e));
            // Some exchanges overlap with the next.
            t = if i % 3 == 0 { t + there / 2 } else { returned + back };
            let at = t.max(returned);
            let known = clock.offset(here(at)).unwrap();
            prop_assert!(
                (known.ns - other.offset(at)).unsigned_abs() <= known.error_ns + 1,
                "{known:?} {}",
                other.offset(at)
            );
        }
        prop_assert_eq!(clock.steps(), 0);
    }

    /// Any numbers of another host give an estimate, without an overflow.
    #[test]
    fn any_numbers_give_an_estimate(
        times in proptest::collection::vec(any::<[u64; 4]>(), 1..20),
        now: u64,
    ) {
        let mut clock = ClockEstimate::default();
        for [a, b, c, d] in times {
            clock.exchange(&Exchange {
                sent: MonotonicNs(a),
                received: MonotonicNs(b),
                answered: MonotonicNs(c),
                returned: MonotonicNs(d),
            });
            if let Some(offset) = clock.offset(MonotonicNs(now)) {
                let _ = offset.to_local(MonotonicNs(now));
            }
        }
    }
}
