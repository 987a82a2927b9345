// SPDX-License-Identifier: Apache-2.0
//! Axes, which map values to positions and have round ticks, and the formatting of numbers.

use driveline_terminal::figures::{digits, in_unit};

/// Maps values to the unit interval.
#[derive(Clone, Copy, Debug)]
pub(super) enum Scale {
    Linear {
        min: f64,
        max: f64,
    },
    /// Logarithmic; both bounds are positive.
    Log {
        min: f64,
        max: f64,
    },
}

impl Scale {
    /// Returns a scale from zero to a round number at or above `max`.
    pub(super) fn from_zero(max: f64) -> Self {
        let max = if max > 0.0 && max.is_finite() { max } else { 1.0 };
        let step = round_step(max / 4.0);
        Self::Linear { min: 0.0, max: (max / step).ceil() * step }
    }

    /// Returns a scale that contains `min` and `max`, from zero or a round number below it to a
    /// round number above it.
    pub(super) fn around_zero(min: f64, max: f64) -> Self {
        let (min, max) = (
            if min.is_finite() { min.min(0.0) } else { 0.0 },
            if max.is_finite() { max.max(0.0) } else { 0.0 },
        );
        let step = round_step((max - min) / 4.0);
        if max > min {
            Self::Linear { min: (min / step).floor() * step, max: (max / step).ceil() * step }
        } else {
            Self::from_zero(max)
        }
    }

    /// Returns a scale with exactly this range; for time, which ends with the run.
    pub(super) fn exactly(min: f64, max: f64) -> Self {
        Self::Linear { min, max: if max > min { max } else { min + 1.0 } }
    }

    /// Returns a logarithmic scale over at least one decade that contains `values`; values up to
    /// zero are skipped.
    pub(super) fn log_around(values: impl Iterator<Item = f64>) -> Self {
        let (min, max) = values
            .filter(|v| *v > 0.0 && v.is_finite())
            .fold((f64::MAX, 0.0f64), |(a, b), v| (a.min(v), b.max(v)));
        if min > max {
            return Self::Log { min: 1.0, max: 10.0 };
        }
        // Bounds at 1, 2 or 5 times a power of ten leave less empty room than whole decades.
        let (min, max) = (nice_below(min), nice_above(max * 1.0001));
        Self::Log { min, max: max.max(min * 10.0) }
    }

    /// Returns the position of `value`: 0 at the lower bound, 1 at the upper one, clamped to them.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { min, max } => (value - min) / (max - min),
            Self::Log { min, max } => (value.max(min) / min).ln() / (max / min).ln(),
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Returns the values that get a line and a label.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear { min, max } => {
                let step = round_step((max - min) / 7.0);
                let first = (min / step).ceil();
                (0..12)
                    .map(|i| (first + f64::from(i)) * step)
                    .take_while(|&t| t <= max + step * 1e-6)
                    .collect()
            }
            Self::Log { min, max } => {
                let decades = (max / min).log10();
                let within = if decades > 2.5 { &[1.0][..] } else { &[1.0, 2.0, 5.0][..] };
                let start = min.log10().floor() as i32;
                (start..start + 22)
                    .flat_map(|e| within.iter().map(move |m| m * 10f64.powi(e)))
                    .filter(|&t| t >= min * 0.9999 && t <= max * 1.0001)
                    .collect()
            }
        }
    }
}

/// Returns 1, 2 or 5 times a power of ten, at or above `rough`.
fn round_step(rough: f64) -> f64 {
    if rough > 0.0 && rough.is_finite() { nice_above(rough) } else { 1.0 }
}

fn nice_above(value: f64) -> f64 {
    let base = 10f64.powf(value.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|m| m * base)
        .find(|&c| c >= value * 0.9999)
        .unwrap_or(base * 10.0)
}

fn nice_below(value: f64) -> f64 {
    let base = 10f64.powf(value.log10().floor());
    [5.0, 2.0, 1.0].into_iter().map(|m| m * base).find(|&c| c <= value * 1.0001).unwrap_or(base)
}

/// Formats a duration with its unit and three significant digits. It is shorter than the form of
/// `driveline_terminal::figures::duration_us`, because axes and sentences need no alignment.
pub(super) fn duration(us: f64) -> String {
    let (value, unit) = in_unit(us);
    format!("{} {unit}", significant(value))
}

/// Formats a number like [`digits`], without zeros at the end of its fraction, and with thin spaces
/// between thousands.
pub(super) fn significant(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        v if v < 99.95 => trim(digits(value)),
        _ => grouped(value),
    }
}

/// Returns a part as a percentage of a whole: `0 %` if the whole is 0, and `– %` if it is negative.
pub(super) fn percent(part: f64, whole: f64) -> String {
    match whole {
        w if w > 0.0 => format!("{} %", significant(part / whole * 100.0)),
        w if w < 0.0 => "– %".to_owned(),
        _ => "0 %".to_owned(),
    }
}

/// Formats a whole number with thin spaces between thousands.
pub(super) fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut out = String::from(if value <= -0.5 { "−" } else { "" });
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

fn trim(text: String) -> String {
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!(duration(0.0), "0 µs");
        assert_eq!(duration(41.26), "41.3 µs");
        assert_eq!(duration(21_034.0), "21 ms");
        assert_eq!(duration(2_500_000.0), "2.5 s");
        assert_eq!(grouped(1_234_567.2), "1\u{202f}234\u{202f}567");
        assert_eq!(grouped(-1234.0), "−1\u{202f}234");
        assert_eq!(grouped(999.0), "999");
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(Scale::from_zero(47.0).ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0]);
        assert_eq!(
            Scale::Log { min: 10.0, max: 1000.0 }.ticks(),
            [10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0]
        );
    }

    proptest! {
        #[test]
        fn every_scale_is_usable(a in -1e3f64..1e12, b in 1e-3f64..1e12) {
            for scale in [
                Scale::from_zero(a),
                Scale::around_zero(-b, a),
                Scale::around_zero(a - b, a),
                Scale::log_around([a, b].into_iter()),
                Scale::exactly(0.0, a),
            ] {
                let ticks = scale.ticks();
                prop_assert!((2..=25).contains(&ticks.len()), "{scale:?} {ticks:?}");
                prop_assert!(ticks.windows(2).all(|w| w[0] < w[1]));
                prop_assert!(ticks.iter().all(|&t| (0.0..=1.0).contains(&scale.place(t))));
            }
            let around = Scale::log_around([b].into_iter());
            prop_assert!(around.place(b) >= 0.0 && around.place(b / 1e3) <= around.place(b));
        }

        #[test]
        fn any_number_can_be_written(v in any::<f64>()) {
            prop_assert!(!duration(v).is_empty());
            prop_assert!(!grouped(v).is_empty());
        }
    }
}
