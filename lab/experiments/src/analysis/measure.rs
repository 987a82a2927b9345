// SPDX-License-Identifier: Apache-2.0
//! Columns of tables: the measures of cases, and the percentiles for which some row has enough
//! samples.

use super::{CaseResult, Criterion, Ratio};
use crate::figure_text::TOO_SMALL;
use driveline_bench::stats::{Interval, Percentiles, Rank};

/// Measure of a case, in a column of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    /// Only streams are compared by it.
    Goodput,
    P50,
    P95,
    P99,
    P999,
    Greatest,
}

impl Measure {
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::P50 => "p50",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Greatest => "greatest",
        }
    }

    pub(crate) fn of(self, p: &Percentiles) -> Option<u64> {
        match self {
            Self::Goodput => None,
            Self::P50 => p.p50,
            Self::P95 => p.p95,
            Self::P99 => p.p99,
            Self::P999 => p.p999,
            Self::Greatest => p.max,
        }
    }

    pub(crate) fn ratio(self, r: &Ratio) -> Option<&Interval> {
        match self {
            Self::Goodput => r.goodput.as_ref(),
            Self::P50 => r.p50.as_ref(),
            Self::P95 => r.p95.as_ref(),
            Self::P99 => r.p99.as_ref(),
            Self::P999 => r.p999.as_ref(),
            Self::Greatest => None,
        }
    }

    /// Returns the criterion by which its systems are compared.
    pub(crate) fn criterion(self) -> Criterion {
        match self {
            Self::Goodput => Criterion::Goodput,
            Self::P50 | Self::P95 | Self::P99 | Self::P999 | Self::Greatest => Criterion::Latency,
        }
    }
}

/// Returns the columns of tables that may have streams: their goodput, and percentiles for all
/// others.
pub(crate) fn compared_columns<'a>(
    mut cases: impl Iterator<Item = &'a CaseResult>,
    times: impl IntoIterator<Item = &'a Percentiles>,
) -> Vec<Measure> {
    let goodput = cases.any(|c| c.criterion() == Criterion::Goodput).then_some(Measure::Goodput);
    let mut times = times.into_iter().peekable();
    let of_times =
        if goodput.is_some() && times.peek().is_none() { Vec::new() } else { columns(times) };
    goodput.into_iter().chain(of_times).collect()
}

/// Returns the columns for these rows. There is always a column for the median. p95 has a column if
/// a row has enough samples for it, and a row has too few for p99. p99 and p99.9 each have a column
/// if a row has enough samples for it. The greatest sample has a column if only the median is
/// shown.
pub(crate) fn columns<'a>(rows: impl IntoIterator<Item = &'a Percentiles>) -> Vec<Measure> {
    let rows: Vec<&Percentiles> = rows.into_iter().filter(|p| p.n > 0).collect();
    let any = |c: Measure| rows.iter().any(|p| c.of(p).is_some());
    let all = |c: Measure| rows.iter().all(|p| c.of(p).is_some());
    let mut columns = vec![Measure::P50];
    columns.extend(Some(Measure::P95).filter(|c| any(*c) && !all(Measure::P99)));
    columns.extend([Measure::P99, Measure::P999].into_iter().filter(|c| any(*c)));
    if columns.len() == 1 {
        columns.push(Measure::Greatest);
    }
    columns
}

/// Returns a note on the percentiles for which no row has enough samples: `p99, p99.9: n too small
/// (needs ≥ 300, ≥ 3 000)`. `None` if there are no such percentiles, or no rows.
pub(crate) fn too_few<'a>(rows: impl IntoIterator<Item = &'a Percentiles>) -> Option<String> {
    let rows: Vec<&Percentiles> = rows.into_iter().filter(|p| p.n > 0).collect();
    let all = [(Measure::P95, Rank::P95), (Measure::P99, Rank::P99), (Measure::P999, Rank::P999)];
    let (labels, needs): (Vec<&str>, Vec<String>) = all
        .into_iter()
        .filter(|(c, _)| rows.iter().all(|p| c.of(p).is_none()))
        .map(|(c, rank)| match rank.needs {
            n if n < 1000 => (c.label(), format!("≥ {n}")),
            n => (c.label(), format!("≥ {} {:03}", n / 1000, n % 1000)),
        })
        .unzip();
    let applies = !rows.is_empty() && !labels.is_empty();
    applies.then(|| format!("{}: {TOO_SMALL} (needs {})", labels.join(", "), needs.join(", ")))
}

/// Returns the columns of ratios: the deciding ones (goodput, median), and one of the tail.
pub(crate) fn ratio_columns<'a>(rows: impl IntoIterator<Item = &'a Ratio>) -> Vec<Measure> {
    let rows: Vec<&Ratio> = rows.into_iter().collect();
    let any = |c: &Measure| rows.iter().any(|r| c.ratio(r).is_some());
    let tail = [Measure::P99, Measure::P95].into_iter().find(any);
    [Measure::Goodput, Measure::P50].into_iter().filter(any).chain(tail).collect()
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
            columns(&rows).into_iter().map(Measure::label).collect::<Vec<_>>().join(" ")
        };
        for (rows, expected) in [
            (&[10, 20][..], "p50 greatest"),
            (&[10, 100], "p50 p95"),
            (&[100, 400], "p50 p95 p99"),
            (&[300, 4000], "p50 p99 p99.9"),
            // A row without samples needs no column.
            (&[0, 4000], "p50 p99 p99.9"),
            (&[], "p50 greatest"),
        ] {
            assert_eq!(labels(rows), expected, "{rows:?}");
        }
    }
}
