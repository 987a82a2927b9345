// SPDX-License-Identifier: Apache-2.0
//! Figures with their units, and names, as tables and lines have them.

/// Microseconds with three significant digits and a unit that fits.
pub(crate) fn duration(us: f64) -> String {
    let (value, unit) = match us {
        u if u < 1000.0 => (u, "µs"),
        u if u < 1e6 => (u / 1e3, "ms"),
        u => (u / 1e6, "s"),
    };
    let digits = if value < 10.0 {
        2
    } else if value < 100.0 {
        1
    } else {
        0
    };
    format!("{value:.digits$} {unit}")
}

/// Bytes with a binary unit.
pub(crate) fn bytes(n: u64) -> String {
    let (mut value, mut unit) = (n as f64, "B");
    for next in ["KiB", "MiB", "GiB", "TiB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if value.fract() == 0.0 { format!("{value:.0} {unit}") } else { format!("{value:.1} {unit}") }
}

/// `1 sample`, `2 samples`.
pub(crate) fn count(n: u64, what: &str) -> String {
    format!("{n} {what}{}", if n == 1 { "" } else { "s" })
}

/// Text without what could move a terminal's cursor, cut to a number of columns.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    let clean = text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c });
    let long = text.chars().count() > columns;
    let mut short: String = clean.take(if long { columns.saturating_sub(1) } else { columns }).collect();
    if long {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_unit() {
        for (us, text) in
            [(0.0, "0.00 µs"), (3.456, "3.46 µs"), (45.67, "45.7 µs"), (999.0, "999 µs"), (25_100.0, "25.1 ms"), (2e6, "2.00 s")]
        {
            assert_eq!(duration(us), text);
        }
        assert_eq!((bytes(512), bytes(2 << 20), bytes(1536)), ("512 B".into(), "2 MiB".into(), "1.5 KiB".into()));
    }

    #[test]
    fn text_from_elsewhere_cannot_move_the_cursor() {
        assert_eq!(cut("a\x1b[2Jb", 10), "a\u{fffd}[2Jb");
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
