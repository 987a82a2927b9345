// SPDX-License-Identifier: Apache-2.0
//! Probability of differences by chance.

use driveline_bench::stats::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Accepted probability of finding a difference, over all comparisons together, if there is none.
pub const SIGNIFICANCE: f64 = 0.05;

/// Returns true if a corrected probability by chance is small enough for a real difference.
pub(super) fn is_real(p: Option<f64>) -> bool {
    p.is_some_and(|p| p < SIGNIFICANCE)
}

/// Returns true if B is really larger, false if it is really smaller, and `None` if the difference
/// is not real. `same` is the value of `change` when nothing has changed: 1 for a ratio, 0 for a
/// difference.
pub(super) fn holm_verdict(change: Option<&Interval>, p: Option<f64>, same: f64) -> Option<bool> {
    let i = change.filter(|_| is_real(p))?;
    (i.low > same || i.high < same).then_some(i.low > same)
}

/// Two-sided probability of Welch's t test; `None` with fewer than two values on a side.
pub(super) fn welch(a: &[f64], b: &[f64]) -> Option<f64> {
    welch_at_least(a, b, (0.0, 0.0))
}

/// Does the same as [`welch`], but with at least the variances `least` for the means of the two
/// sides.
pub(super) fn welch_at_least(a: &[f64], b: &[f64], least: (f64, f64)) -> Option<f64> {
    let moments = |x: &[f64]| {
        let n = x.len() as f64;
        let mean = x.iter().sum::<f64>() / n;
        (n, mean, x.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0))
    };
    if a.len() < 2 || b.len() < 2 {
        return None;
    }
    let ((n, mean, variance), (m, other, its)) = (moments(a), moments(b));
    let (va, vb) = ((variance / n).max(least.0), (its / m).max(least.1));
    let error = va + vb;
    if error == 0.0 {
        // The rounds of each side do not vary: the sides are equal, or certainly different.
        return Some(if mean == other { 1.0 } else { 0.0 });
    }
    let t = (mean - other) / error.sqrt();
    let freedom = error.powi(2) / (va.powi(2) / (n - 1.0) + vb.powi(2) / (m - 1.0));
    let distribution = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some((2.0 * distribution.cdf(-t.abs())).min(1.0))
}

/// Returns Holm's step-down correction of each probability. `None` stays `None` and does not count
/// as a test.
pub(super) fn holm(chances: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut order: Vec<(usize, f64)> =
        chances.iter().enumerate().filter_map(|(i, p)| p.map(|p| (i, p))).collect();
    order.sort_by(|x, y| x.1.total_cmp(&y.1));
    let tests = order.len();
    let mut corrected = vec![None; chances.len()];
    let mut least: f64 = 0.0;
    for (place, (i, p)) in order.into_iter().enumerate() {
        least = least.max((p * (tests - place) as f64).min(1.0));
        if let Some(c) = corrected.get_mut(i) {
            *c = Some(least);
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn welch_says_what_tables_say() {
        // Student's data on sleep (1908): extra hours with two drugs. R's t.test returns p =
        // 0.07939414.
        let one = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let other = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        assert!((welch(&one, &other).unwrap() - 0.079_394_14).abs() < 1e-7);
        assert_eq!(welch(&[1.0, 1.0], &[1.0, 1.0]), Some(1.0));
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), Some(0.0));
        assert_eq!(welch(&[1.0], &[2.0, 2.0]), None);
    }

    #[test]
    fn a_difference_where_there_is_none_is_as_rare_as_promised() {
        // Families of 16 comparisons of five rounds each; rounds vary by a few percent, equally in
        // both.
        let mut random = driveline_bench::stats::Random::new(11);
        let mut uniform = || (random.below(1 << 30) as f64 + 0.5) / f64::from(1 << 30);
        let mut rounds = || -> Vec<f64> {
            (0..5)
                .map(|_| {
                    0.03 * (-2.0 * uniform().ln()).sqrt()
                        * (std::f64::consts::TAU * uniform()).cos()
                })
                .collect()
        };
        let mut wrong = 0;
        for _ in 0..1000 {
            let chances: Vec<_> = (0..16).map(|_| welch(&rounds(), &rounds())).collect();
            wrong += u32::from(holm(&chances).into_iter().flatten().any(|p| p < SIGNIFICANCE));
        }
        assert!((20..=70).contains(&wrong), "{wrong} of 1000 families");
    }

    #[test]
    fn holm_corrects_step_by_step() {
        // R's p.adjust(c(0.01, 0.04, 0.03), "holm") returns the same values.
        let corrected = holm(&[Some(0.01), None, Some(0.04), Some(0.03)]);
        let close = |x: Option<f64>, y: f64| (x.unwrap() - y).abs() < 1e-12;
        assert!(
            close(corrected[0], 0.03)
                && close(corrected[2], 0.06)
                && close(corrected[3], 0.06)
                && corrected[1].is_none()
        );
    }
}
