// SPDX-License-Identifier: Apache-2.0
//! Tests that memory does not grow and that percentiles stay right.

use super::*;
use proptest::prelude::*;

/// A value between 50 µs and 51 ms, by a fixed pseudo-random sequence.
fn value(i: u64) -> i64 {
    let mixed = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    50_000 + ((mixed >> 40) as i64) * 3
}

fn age(i: u64) -> AgeSample {
    let (communication_ns, computation_ns) = (value(i), value(i + 1_000_000_007));
    let end = MonotonicNs(i * 33_000_000);
    AgeSample { end, communication_ns, computation_ns, idle_ns: 7, newest_ns: communication_ns }
}

/// Returns true if a percentile is right within the error that the histogram promises.
fn close(found_us: f64, true_us: f64) -> bool {
    (found_us - true_us).abs() <= true_us.abs() * HISTOGRAM_ERROR_PERCENT / 100.0 + 1e-3
}

#[test]
fn percentiles_are_exact_until_there_are_too_many_samples_and_then_close() {
    let (mut series, mut all) = (Series::default(), Vec::new());
    for i in 0..EXACT_SAMPLES as u64 {
        series.push(value(i));
        all.push(value(i));
    }
    assert_eq!(series.quantiles(), Quantiles::of_ns(&mut all.clone()));
    assert!(!series.quantiles().histogram);
    for i in 0..3 * EXACT_SAMPLES as u64 {
        series.push(value(i) / 2);
        all.push(value(i) / 2);
    }
    let (found, exact) = (series.quantiles(), Quantiles::of_ns(&mut all));
    assert!(found.histogram);
    assert_eq!(
        (found.n, found.min, found.max, found.mean),
        (exact.n, exact.min, exact.max, exact.mean)
    );
    for (found, exact) in [(found.p50, exact.p50), (found.p95, exact.p95), (found.p99, exact.p99)] {
        assert!(close(found, exact), "{found} is not {exact}");
    }
}

#[test]
fn memory_is_constant_however_many_samples_come() {
    let (mut series, mut ages, mut growth) =
        (Series::default(), Ages::default(), Growth::default());
    let mut push = |from: u64, to: u64| {
        for i in from..to {
            series.push(value(i));
            ages.push(age(i));
            growth.push(MonotonicNs(i), i);
        }
        let parts: usize = ages.parts.iter().map(Series::kept).sum();
        let kept = [
            series.kept(),
            ages.raw.capacity() + ages.buckets.len() + parts,
            ages.over_time.points.capacity(),
            growth.points.capacity(),
        ];
        (kept, growth.last())
    };
    let n = EXACT_SAMPLES as u64;
    // The values span ten octaves.
    let octaves = 11 << BITS;
    let most = [octaves, 6 * octaves, 2 * POINTS, 2 * POINTS];
    for (from, to) in [(0, 2 * n), (2 * n, 5 * n)] {
        let (kept, last) = push(from, to);
        for (kept, most) in kept.into_iter().zip(most) {
            assert!(kept <= most, "{kept} values, more than {most}, after {to} samples");
        }
        assert_eq!(last, Some((MonotonicNs(to - 1), to - 1)));
    }
}

#[test]
fn the_parts_of_an_age_add_up_to_it_at_every_rank() {
    let ranks = [Rank::P50, Rank::P95, Rank::P99];
    let (mut ages, mut all) = (Ages::default(), Vec::new());
    for i in 0..2 * EXACT_SAMPLES as u64 {
        ages.push(age(i));
        all.push(age(i));
        if i == 999 {
            all.sort_by_key(AgeSample::age_ns);
            let exact = ranks.map(|rank| AgeParts::from(rank.of(&all).unwrap()));
            assert_eq!((ages.splits(ranks), ages.is_exact()), (exact, true));
        }
    }
    assert!(!ages.is_exact());
    let figures = ages.quantiles(AgePart::Age);
    let sum = |p: AgeParts| us(p.communication_ns + p.computation_ns + p.idle_ns);
    let at = ages.splits(ranks).map(sum);
    for (parts, whole) in at.into_iter().zip([figures.p50, figures.p95, figures.p99]) {
        assert!((parts - whole).abs() <= 0.003, "{parts} is not {whole}");
    }
    assert_eq!(sum(ages.max()), figures.max);
    let mean = |part| ages.quantiles(part).mean;
    let whole = mean(AgePart::Communication) + mean(AgePart::Computation) + mean(AgePart::Idle);
    assert!((whole - figures.mean).abs() <= 0.003);
    assert_eq!(mean(AgePart::Newest), mean(AgePart::Communication));
}

#[test]
fn curves_keep_their_extremes_and_their_end() {
    let (mut spans, mut growth) = (Spans::default(), Growth::default());
    for i in 0..100_000u64 {
        spans.push(MonotonicNs(i), if i == 77_777 { 9 } else { 1 });
        growth.push(MonotonicNs(i), i * 2);
    }
    assert_eq!(spans.points().iter().map(|p| p.2).max(), Some(9));
    assert!(spans.points().is_sorted_by_key(|p| p.0) && spans.points()[0].0 == MonotonicNs(0));
    assert!(growth.points().is_sorted() && growth.points().len() > POINTS / 4);
    assert_eq!(growth.last(), Some((MonotonicNs(99_999), 199_998)));
}

proptest! {
    #[test]
    fn a_bucket_is_narrow_and_buckets_are_in_the_order_of_their_values(
        a in any::<i64>(),
        b in any::<i64>(),
    ) {
        prop_assert_eq!(
            a.cmp(&b) as i8 * (bucket(a) != bucket(b)) as i8,
            bucket(a).cmp(&bucket(b)) as i8
        );
        if bucket(a) == bucket(b) {
            prop_assert!(a.abs_diff(b) <= a.unsigned_abs() / 1024 + 1, "{a} and {b}");
        }
    }

    #[test]
    fn neighbours_share_a_bucket_only_if_they_are_close(
        a in 0i64..i64::MAX / 2,
        by in 1i64..1 << 40,
    ) {
        if bucket(a) == bucket(a + by) {
            prop_assert!(by <= a / 1024 + 1, "{a} and {by}");
        }
    }
}

#[test]
fn the_summary_says_which_percentiles_are_of_histograms() {
    let mut run = crate::Collector::default();
    for i in 0..=EXACT_SAMPLES as u64 {
        let (start, end) = (MonotonicNs(i * 1_000), MonotonicNs(i * 1_000 + 500));
        run.add(&crate::StageRecord { stage: "lane", start, end, ..Default::default() });
    }
    let (start, end) = (MonotonicNs(0), MonotonicNs(500));
    run.add(&crate::StageRecord { stage: "other", start, end, ..Default::default() });
    let summary = run.summary();
    let of = |name: &str| summary.stages.iter().find(|s| s.stage == name).unwrap().processing_us;
    assert!(of("lane").histogram && !of("other").histogram);
    assert_eq!((of("lane").n, of("lane").p50), (EXACT_SAMPLES + 1, 0.5));
    let note = "Percentiles of lane are from histograms, at most 0.1 % off";
    assert!(summary.notes.iter().any(|n| n.starts_with(note)), "{:?}", summary.notes);
}
