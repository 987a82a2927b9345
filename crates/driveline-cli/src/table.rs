// SPDX-License-Identifier: Apache-2.0
//! Tables of text, and figures with their units.

/// Which way a column is aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Align {
    Left,
    Right,
}

/// Lines of a table whose columns are as wide as they must be. The first row is the head.
pub(crate) fn lines(align: &[Align], rows: &[Vec<String>]) -> Vec<String> {
    let width = |column: usize| rows.iter().filter_map(|r| r.get(column)).map(|c| c.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..align.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let mut text = String::new();
        for (i, ((cell, width), align)) in row.iter().zip(&widths).zip(align).enumerate() {
            let pad = " ".repeat(width - cell.chars().count());
            text += if i == 0 { "" } else { "  " };
            text += &match align {
                Align::Left => format!("{cell}{pad}"),
                Align::Right => format!("{pad}{cell}"),
            };
        }
        text.trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

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
    fn columns_line_up() {
        let rows = [["stage", "runs"], ["lane µ", "7"], ["x", "1234"]].map(|r| r.map(str::to_owned).to_vec());
        assert_eq!(lines(&[Align::Left, Align::Right], &rows), ["stage   runs", "lane µ     7", "x       1234"]);
    }

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
