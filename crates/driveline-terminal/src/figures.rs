// SPDX-License-Identifier: Apache-2.0
//! Numbers with their units, as text that people read.

/// Formats a number with two decimals below 10, one below 100, and none above.
#[must_use]
pub fn digits(x: f64) -> String {
    match x.abs() {
        a if a < 9.995 => format!("{x:.2}"),
        a if a < 99.95 => format!("{x:.1}"),
        _ => format!("{x:.0}"),
    }
}

/// Formats nanoseconds as microseconds without the unit, for columns whose head names the unit.
#[must_use]
pub fn microseconds(ns: f64) -> String {
    digits(ns / 1e3)
}

/// Formats a duration with at most three digits (more from 1000 s on) and a fitting unit, from
/// nanoseconds up: the floors of a machine are tens of nanoseconds.
#[must_use]
pub fn duration_ns(ns: f64) -> String {
    if ns.abs() < 999.5 { format!("{ns:.0} ns") } else { duration_us(ns / 1e3) }
}

/// Formats a duration with three digits (more from 1000 s on) and a fitting unit, from microseconds
/// up: records of runs have microseconds.
#[must_use]
pub fn duration_us(us: f64) -> String {
    let (value, unit) = in_unit(us);
    format!("{} {unit}", digits(value))
}

/// Converts microseconds to µs, ms or s: the first unit in which the value has at most three digits
/// before the point, or else seconds.
#[must_use]
pub fn in_unit(us: f64) -> (f64, &'static str) {
    match us.abs() {
        a if a < 999.5 => (us, "µs"),
        a if a < 999.5e3 => (us / 1e3, "ms"),
        _ => (us / 1e6, "s"),
    }
}

/// Formats a number of bytes with a binary unit, rounded to one decimal. Sizes that must stay
/// exact, such as those in names of cases, are written by [`ByteSize`](driveline_graph::ByteSize).
#[must_use]
pub fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        let ns = [
            0.0,
            7.0,
            999.0,
            1_234.0,
            12_345.0,
            123_456.0,
            999_499.0,
            999_600.0,
            12_345_678.0,
            3.21e9,
        ]
        .map(duration_ns);
        assert_eq!(
            ns,
            [
                "0 ns", "7 ns", "999 ns", "1.23 µs", "12.3 µs", "123 µs", "999 µs", "1.00 ms",
                "12.3 ms", "3.21 s"
            ]
        );
        let us = [0.0, 3.456, 9.996, 45.67, 99.96, 999.0, 999.6, 25_100.0, 2e6].map(duration_us);
        assert_eq!(
            us,
            [
                "0.00 µs", "3.46 µs", "10.0 µs", "45.7 µs", "100 µs", "999 µs", "1.00 ms",
                "25.1 ms", "2.00 s"
            ]
        );
        assert_eq!(
            [-0.5, -20.0, -1_234.0, -3.21e6].map(duration_us),
            ["-0.50 µs", "-20.0 µs", "-1.23 ms", "-3.21 s"]
        );
        assert_eq!([-7.0, -20_000.0].map(duration_ns), ["-7 ns", "-20.0 µs"]);
        assert_eq!([512, 2 << 20, 1536].map(bytes), ["512 B", "2 MiB", "1.5 KiB"]);
    }

    #[test]
    fn microseconds_keep_three_digits() {
        assert_eq!([131.0, 31_400.0, 314_000.0].map(microseconds), ["0.13", "31.4", "314"]);
        assert_eq!(
            [9_994.0, 9_996.0, 99_940.0, 99_960.0].map(microseconds),
            ["9.99", "10.0", "99.9", "100"]
        );
    }
}
