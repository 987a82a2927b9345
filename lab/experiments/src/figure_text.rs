// SPDX-License-Identifier: Apache-2.0
//! Figures as text, in tables and sentences.

use driveline_terminal::figures::digits;

/// Text for a percentile with too few samples.
pub(crate) const TOO_SMALL: &str = "n too small";

/// Formats bytes per second: `117 MB/s`, smaller values in kB/s or B/s.
pub(crate) fn goodput(bytes_per_s: f64) -> String {
    let (scale, unit) = match bytes_per_s {
        b if b >= 1e6 => (1e6, "MB/s"),
        b if b >= 1e3 => (1e3, "kB/s"),
        _ => (1.0, "B/s"),
    };
    format!("{} {unit}", digits(bytes_per_s / scale))
}
