// SPDX-License-Identifier: Apache-2.0
//! Which percentiles stand in a table: those that any of its rows has enough samples for.

use super::Ratio;
use crate::table::TOO_SMALL;
use driveline_bench::stats::{Interval, Percentiles, Rank};

/// A column of a table of distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Column {
    P50,
    P95,
    P99,
    P999,
    Greatest,
}

impl Column {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Greatest => "greatest",
        }
    }

    pub(crate) fn of(self, p: &Percentiles) -> Option<u64> {
        match self {
            Self::P50 => p.p50,
            Self::P95 => p.p95,
            Self::P99 => p.p99,
            Self::P999 => p.p999,
            Self::Greatest => p.max,
        }
    }

    pub(crate) fn ratio(self, r: &Ratio) -> Option<&Interval> {
        match self {
            Self::P50 => r.p50.as_ref(),
            Self::P95 => r.p95.as_ref(),
            Self::P99 => r.p99.as_ref(),
            Self::P999 => r.p999.as_ref(),
            Self::Greatest => None,
        }
    }
}

/// The median; p95 where some row has too few samples for p99, p99 and p99.9 where some row has enough; the greatest sample where
/// nothing else tells of the tail.
pub(crate) fn columns<'a>(rows: impl IntoIterator<Item = &'a Percentiles>) -> Vec<Column> {
    let rows: Vec<&Percentiles> = rows.into_iter().filter(|p| p.n > 0).collect();
    let any = |c: Column| rows.iter().any(|p| c.of(p).is_some());
    let all = |c: Column| rows.iter().all(|p| c.of(p).is_some());
    let mut columns = vec![Column::P50];
    columns.extend(Some(Column::P95).filter(|c| any(*c) && !all(Column::P99)));
    columns.extend([Column::P99, Column::P999].into_iter().filter(|c| any(*c)));
    if columns.len() == 1 {
        columns.push(Column::Greatest);
    }
    columns
}

/// Of which percentiles no row tells, because none has enough samples for them: `p99, p99.9: n too small (needs ≥ 300, ≥ 3 000)`. Nothing if
/// there are none, or no rows.
pub(crate) fn too_few<'a>(rows: impl IntoIterator<Item = &'a Percentiles>) -> Option<String> {
    let rows: Vec<&Percentiles> = rows.into_iter().filter(|p| p.n > 0).collect();
    let all = [(Column::P95, Rank::P95), (Column::P99, Rank::P99), (Column::P999, Rank::P999)];
    let (labels, needs): (Vec<&str>, Vec<String>) = all
        .into_iter()
        .filter(|(c, _)| rows.iter().all(|p| c.of(p).is_none()))
        .map(|(c, rank)| match rank.needs {
            n if n < 1000 => (c.label(), format!("≥ {n}")),
            n => (c.label(), format!("≥ {} {:03}", n / 1000, n % 1000)),
        })
        .unzip();
    let told = !rows.is_empty() && !labels.is_empty();
    told.then(|| format!("{}: {TOO_SMALL} (needs {})", labels.join(", "), needs.join(", ")))
}

/// Likewise of ratios: the median and one of the tail.
pub(crate) fn ratio_columns<'a>(rows: impl IntoIterator<Item = &'a Ratio>) -> Vec<Column> {
    let rows: Vec<&Ratio> = rows.into_iter().collect();
    let any = |c: &Column| rows.iter().any(|r| c.ratio(r).is_some());
    let tail = [Column::P99, Column::P95].into_iter().find(any);
    Some(Column::P50).filter(any).into_iter().chain(tail).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_bench::stats::Runs;

    #[test]
    fn a_table_has_the_percentiles_that_mean_something_in_it() {
        let of = |n: u64| Runs::new(vec![(1..=n).collect()]).percentiles();
        let labels = |rows: &[u64]| {
            let rows: Vec<Percentiles> = rows.iter().map(|n| of(*n)).collect();
            columns(&rows).into_iter().map(Column::label).collect::<Vec<_>>().join(" ")
        };
        for (rows, expected) in [
            (&[10, 20][..], "p50 greatest"),
            (&[10, 100], "p50 p95"),
            (&[100, 400], "p50 p95 p99"),
            (&[300, 4000], "p50 p99 p99.9"),
            // Who has no sample at all asks for no column.
            (&[0, 4000], "p50 p99 p99.9"),
            (&[], "p50 greatest"),
        ] {
            assert_eq!(labels(rows), expected, "{rows:?}");
        }
    }
}
