// SPDX-License-Identifier: Apache-2.0
//! Comparison of a peer's row with the latency tool of its middleware. A *row* is here a row of the
//! report's table: the ping-pong of one variant with one size.

use crate::harness::OwnTool;
use crate::stats::{ENOUGH_ROUNDS, Interval, Rank, Runs, ratio_interval};
use driveline_terminal::figures::microseconds;
use serde::Serialize;
use std::fmt;

/// Permitted difference between row and tool, as a share of the tool's result.
pub const TOLERANCE: f64 = 0.2;

/// Result of the comparison of a row and its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Row and tool differ by at most [`TOLERANCE`]: the whole interval of their ratio is within
    /// it.
    Agrees,
    /// Row and tool differ by more than [`TOLERANCE`]: the whole interval lies beyond it. The row
    /// is invalid.
    Differs,
    /// The interval includes the limit, or there are too few rounds: agreement and difference are
    /// both possible, and the row counts.
    NTooSmall,
}

/// A peer's row and the middleware's own tool, from the rounds in which both are valid.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The tool.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// Median of the tool in nanoseconds, one way; with several runs, the median of their medians.
    /// For a tool that prints only averages, the median of the averages.
    pub tool_p50_ns: u64,
    /// 99th percentile of the tool, computed in the same way, if the tool prints it.
    pub tool_p99_ns: Option<u64>,
    /// Number of the tool's round trips in all runs.
    pub tool_n: u64,
    /// Median of the row in nanoseconds. For a tool that prints only averages, the median of
    /// averages over as many consecutive samples of the row.
    pub ours_p50_ns: u64,
    /// Number of round trips of each average; `None`: medians of single round trips are compared.
    pub averages_of: Option<u64>,
    /// Median of the row ÷ median of the tool, with its 95 % interval over rounds.
    pub ratio: Interval,
    /// Result of the comparison.
    #[serde(rename = "concord")]
    pub verdict: Verdict,
}

impl Agreement {
    /// Compares a row with the results of the tool. The samples of round `i` are `ours[i]`, in the
    /// order of measurement; `said` has the tool's result by round. Returns nothing without a round
    /// in which both have results.
    #[must_use]
    pub fn of(ours: &[Vec<u64>], said: &[(u64, OwnTool)], seed: u64) -> Option<Self> {
        let (_, first) = said.first()?;
        let ours = Runs::new(match first.averages_of {
            Some(samples) => ours.iter().map(|round| averages(round, samples)).collect(),
            None => ours.to_vec(),
        });
        let mut medians = vec![Vec::new(); ours.count()];
        for (round, tool) in said {
            if let Some(place) =
                usize::try_from(*round).ok().and_then(|round| medians.get_mut(round))
            {
                place.push(tool.p50_ns);
            }
        }
        let theirs = Runs::new(medians);
        let ratio = ratio_interval(&ours, &theirs, Rank::P50, seed)?;
        Some(Self {
            tool: first.name.clone(),
            version: first.version.clone(),
            tool_p50_ns: theirs.at(Rank::P50)?,
            tool_p99_ns: Runs::new(vec![said.iter().filter_map(|(_, t)| t.p99_ns).collect()])
                .at(Rank::P50),
            tool_n: said.iter().fold(0, |sum, (_, t)| sum.saturating_add(t.n)),
            ours_p50_ns: ours.at(Rank::P50)?,
            averages_of: first.averages_of,
            verdict: verdict_of(&ratio),
            ratio,
        })
    }

    /// Returns true if the row is invalid.
    #[must_use]
    pub fn contradicts(&self) -> bool {
        self.verdict == Verdict::Differs
    }

    /// Returns the result as text.
    #[must_use]
    pub fn in_words(&self) -> String {
        let percent = TOLERANCE * 100.0;
        match self.verdict {
            Verdict::Agrees => format!("agrees within {percent:.0} %"),
            Verdict::Differs => format!("differs by more than {percent:.0} %"),
            Verdict::NTooSmall if self.ratio.rounds < ENOUGH_ROUNDS => {
                format!(
                    "n too small: it takes {ENOUGH_ROUNDS} rounds to say whether they agree, and \
                     there are {}",
                    self.ratio.rounds
                )
            }
            Verdict::NTooSmall => format!(
                "n too small to say whether they agree within {percent:.0} %: take more messages \
                 or rounds"
            ),
        }
    }
}

/// Returns averages of `each` consecutive samples, or of all if there are fewer. A disturbance of
/// one sample changes only one average, and so hardly the median of the averages.
fn averages(samples: &[u64], each: u64) -> Vec<u64> {
    let each = usize::try_from(each).unwrap_or(usize::MAX).clamp(1, samples.len().max(1));
    let average = |part: &[u64]| {
        (part.iter().map(|x| u128::from(*x)).sum::<u128>() / part.len() as u128) as u64
    };
    samples.chunks_exact(each).map(average).collect()
}

fn verdict_of(ratio: &Interval) -> Verdict {
    let (least, most) = (1.0 - TOLERANCE, 1.0 + TOLERANCE);
    match ratio {
        r if r.rounds < ENOUGH_ROUNDS => Verdict::NTooSmall,
        r if r.low >= least && r.high <= most => Verdict::Agrees,
        r if r.high < least || r.low > most => Verdict::Differs,
        _ => Verdict::NTooSmall,
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "own tool {}: {} µs{}, ours {} µs, {}: {}",
            self.tool,
            microseconds(self.tool_p50_ns as f64),
            self.averages_of.map_or_else(String::new, |n| format!(" (averages of {n})")),
            microseconds(self.ours_p50_ns as f64),
            self.ratio,
            self.in_words()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(p50_ns: &[u64]) -> Vec<(u64, OwnTool)> {
        let tool = |p50_ns| OwnTool {
            name: "ddsperf".into(),
            version: "1".into(),
            p50_ns,
            p99_ns: Some(2 * p50_ns),
            mean_ns: None,
            n: 10,
            averages_of: None,
        };
        p50_ns.iter().enumerate().map(|(round, ns)| (round as u64, tool(*ns))).collect()
    }

    fn of(ours: &[u64], tool: &[u64]) -> Option<Agreement> {
        Agreement::of(&ours.iter().map(|ns| vec![*ns]).collect::<Vec<_>>(), &said(tool), 1)
    }

    #[test]
    fn a_fifth_is_the_limit_both_ways() {
        let verdict = |ours| of(&[ours; 5], &[50_000; 5]).unwrap().verdict;
        use Verdict::{Agrees, Differs};
        assert_eq!(
            [39_999, 40_000, 50_000, 60_000, 60_001].map(verdict),
            [Differs, Agrees, Agrees, Agrees, Differs]
        );
        assert_eq!(of(&[1], &[]), None);
        assert_eq!(of(&[1], &[0]), None);
        // Row and tool have results, but not in the same round.
        assert_eq!(Agreement::of(&[vec![], vec![7]], &said(&[7]), 1), None);
    }

    #[test]
    fn nothing_is_said_of_few_rounds_or_where_the_interval_includes_the_limit() {
        let few = of(&[90_000; 4], &[50_000; 4]).unwrap();
        assert_eq!((few.verdict, few.contradicts()), (Verdict::NTooSmall, false));
        assert!(
            few.to_string()
                .ends_with("it takes 5 rounds to say whether they agree, and there are 4"),
            "{few}"
        );
        // Rounds on both sides of the limit, most of them within it.
        let wide = of(&[50_000, 52_000, 55_000, 66_000, 70_000], &[50_000; 5]).unwrap();
        assert_eq!(wide.verdict, Verdict::NTooSmall, "{wide}");
        assert!(
            wide.to_string()
                .ends_with("whether they agree within 20 %: take more messages or rounds"),
            "{wide}"
        );
        // Far beyond the limit in all rounds.
        assert!(
            of(&[90_000, 95_000, 99_000, 120_000, 150_000], &[50_000; 5]).unwrap().contradicts()
        );
    }

    #[test]
    fn a_tool_that_says_averages_is_compared_with_averages() {
        // One sample in ten takes ten times as long: the median is 1 µs, and every average of ten
        // is 1.9 µs. One average is disturbed.
        let mut round = [1000, 1000, 1000, 1000, 10_000, 1000, 1000, 1000, 1000, 1000].repeat(3);
        round[0] = 5_000_000;
        let averaged = OwnTool { averages_of: Some(10), p50_ns: 1900, ..said(&[0])[0].1.clone() };
        let tool: Vec<_> = (0..5).map(|i| (i, averaged.clone())).collect();
        let a = Agreement::of(&vec![round.clone(); 5], &tool, 1).unwrap();
        assert_eq!(
            (a.ours_p50_ns, a.averages_of, a.verdict),
            (1900, Some(10), Verdict::Agrees),
            "{a}"
        );
        assert!(
            a.to_string()
                .starts_with("own tool ddsperf: 1.90 µs (averages of 10), ours 1.90 µs, 1.00"),
            "{a}"
        );
        // The median of single samples differs from the median of averages.
        let single: Vec<_> =
            tool.iter().map(|(i, t)| (*i, OwnTool { averages_of: None, ..t.clone() })).collect();
        assert!(Agreement::of(&vec![round; 5], &single, 1).unwrap().contradicts());
        // Remaining samples belong to no average. If there are fewer samples than one average
        // needs, all are averaged.
        assert_eq!(
            (
                averages(&[1, 3, 5, 7, 100], 2),
                averages(&[1, 3], 10),
                averages(&[], 10),
                averages(&[4], 0)
            ),
            (vec![2, 6], vec![2], vec![], vec![4])
        );
    }

    #[test]
    fn of_several_runs_the_median_counts_and_people_read_it() {
        let a = of(&[50_300; 5], &[52_100; 5]).unwrap();
        assert_eq!((a.tool_p50_ns, a.tool_p99_ns, a.tool_n), (52_100, Some(104_200), 50));
        assert_eq!(
            a.to_string(),
            "own tool ddsperf: 52.1 µs, ours 50.3 µs, 0.97 (0.97–0.97): agrees within 20 %"
        );
        let b = Agreement { verdict: Verdict::Differs, ..a };
        assert!(b.to_string().ends_with("differs by more than 20 %"));
        assert_eq!(of(&[1; 3], &[90_000, 52_100, 10_000]).unwrap().tool_p50_ns, 52_100);
    }
}
