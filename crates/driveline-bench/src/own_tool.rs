// SPDX-License-Identifier: Apache-2.0
//! Whether a peer's row says the same as the latency tool that its middleware brings.

use crate::harness::OwnTool;
use crate::stats::{ENOUGH_ROUNDS, Interval, Rank, Runs, ratio_interval};
use crate::text::{interval, microseconds};
use serde::Serialize;
use std::fmt;

/// How far the medians may differ, as a share of what the tool says.
pub const TOLERANCE: f64 = 0.2;

/// What follows from a row and its tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Concord {
    /// The medians differ by no more than [`TOLERANCE`]: the whole interval of their ratio says so.
    Agrees,
    /// They differ by more: the whole interval lies beyond it. The row is invalid.
    Differs,
    /// The interval includes the limit, or rests on too few rounds: neither is shown, and the row counts.
    NTooSmall,
}

/// A peer's row beside the middleware's own tool, from those rounds in which both count.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The tool.
    pub tool: String,
    /// Its version.
    pub version: String,
    /// Its median in nanoseconds, one way; of several runs, their median.
    pub tool_p50_ns: u64,
    /// Its 99th percentile likewise, if it says one.
    pub tool_p99_ns: Option<u64>,
    /// Its round trips, of all runs.
    pub tool_n: u64,
    /// Median of the row in nanoseconds.
    pub ours_p50_ns: u64,
    /// The row's median ÷ the tool's, with its 95 % interval by rounds.
    pub ratio: Interval,
    /// What follows.
    pub concord: Concord,
}

impl Agreement {
    /// Compares a row, run `i` of which was measured in round `i`, with what the tool said in which round; nothing if there is no
    /// round in which both have something to say.
    #[must_use]
    pub fn of(ours: &Runs, said: &[(u64, OwnTool)], seed: u64) -> Option<Self> {
        let mut medians = vec![Vec::new(); ours.count()];
        for (round, tool) in said {
            if let Some(place) = usize::try_from(*round).ok().and_then(|round| medians.get_mut(round)) {
                place.push(tool.p50_ns);
            }
        }
        let theirs = Runs::new(medians);
        let ratio = ratio_interval(ours, &theirs, Rank::P50, seed)?;
        let (_, first) = said.first()?;
        Some(Self {
            tool: first.name.clone(),
            version: first.version.clone(),
            tool_p50_ns: theirs.at(Rank::P50)?,
            tool_p99_ns: Runs::new(vec![said.iter().filter_map(|(_, t)| t.p99_ns).collect()]).at(Rank::P50),
            tool_n: said.iter().fold(0, |sum, (_, t)| sum.saturating_add(t.n)),
            ours_p50_ns: ours.at(Rank::P50)?,
            concord: concord(&ratio),
            ratio,
        })
    }

    /// Whether the row is invalid.
    #[must_use]
    pub fn contradicts(&self) -> bool {
        self.concord == Concord::Differs
    }

    /// What follows, in words.
    #[must_use]
    pub fn verdict(&self) -> String {
        let percent = TOLERANCE * 100.0;
        match self.concord {
            Concord::Agrees => format!("agrees within {percent:.0} %"),
            Concord::Differs => format!("differs by more than {percent:.0} %"),
            Concord::NTooSmall if self.ratio.rounds < ENOUGH_ROUNDS => {
                format!("n too small: it takes {ENOUGH_ROUNDS} rounds to say whether they agree, and there are {}", self.ratio.rounds)
            }
            Concord::NTooSmall => format!("n too small to say whether they agree within {percent:.0} %: take more messages or rounds"),
        }
    }
}

fn concord(ratio: &Interval) -> Concord {
    let (least, most) = (1.0 - TOLERANCE, 1.0 + TOLERANCE);
    match ratio {
        r if r.rounds < ENOUGH_ROUNDS => Concord::NTooSmall,
        r if r.low >= least && r.high <= most => Concord::Agrees,
        r if r.high < least || r.low > most => Concord::Differs,
        _ => Concord::NTooSmall,
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "own tool {}: {} µs, ours {} µs, {}: {}",
            self.tool,
            microseconds(self.tool_p50_ns as f64),
            microseconds(self.ours_p50_ns as f64),
            interval(Some(self.ratio)),
            self.verdict()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(p50_ns: &[u64]) -> Vec<(u64, OwnTool)> {
        let tool = |p50_ns| OwnTool { name: "ddsperf".into(), version: "1".into(), p50_ns, p99_ns: Some(2 * p50_ns), mean_ns: None, n: 10 };
        p50_ns.iter().enumerate().map(|(round, ns)| (round as u64, tool(*ns))).collect()
    }

    fn of(ours: &[u64], tool: &[u64]) -> Option<Agreement> {
        Agreement::of(&Runs::new(ours.iter().map(|ns| vec![*ns]).collect()), &said(tool), 1)
    }

    #[test]
    fn a_fifth_is_the_limit_both_ways() {
        let concord = |ours| of(&[ours; 5], &[50_000; 5]).unwrap().concord;
        use Concord::{Agrees, Differs};
        assert_eq!([39_999, 40_000, 50_000, 60_000, 60_001].map(concord), [Differs, Agrees, Agrees, Agrees, Differs]);
        assert_eq!(of(&[1], &[]), None);
        assert_eq!(of(&[1], &[0]), None);
        // Not in the same round.
        assert_eq!(Agreement::of(&Runs::new(vec![vec![], vec![7]]), &said(&[7]), 1), None);
    }

    #[test]
    fn nothing_is_said_of_few_rounds_or_where_the_interval_includes_the_limit() {
        let few = of(&[90_000; 4], &[50_000; 4]).unwrap();
        assert_eq!((few.concord, few.contradicts()), (Concord::NTooSmall, false));
        assert!(few.to_string().ends_with("it takes 5 rounds to say whether they agree, and there are 4"), "{few}");
        // Rounds on both sides of the limit, and most of them within.
        let wide = of(&[50_000, 52_000, 55_000, 66_000, 70_000], &[50_000; 5]).unwrap();
        assert_eq!(wide.concord, Concord::NTooSmall, "{wide}");
        assert!(wide.to_string().ends_with("whether they agree within 20 %: take more messages or rounds"), "{wide}");
        // Far beyond it, whatever the rounds say.
        assert!(of(&[90_000, 95_000, 99_000, 120_000, 150_000], &[50_000; 5]).unwrap().contradicts());
    }

    #[test]
    fn of_several_runs_the_median_counts_and_people_read_it() {
        let a = of(&[50_300; 5], &[52_100; 5]).unwrap();
        assert_eq!((a.tool_p50_ns, a.tool_p99_ns, a.tool_n), (52_100, Some(104_200), 50));
        assert_eq!(a.to_string(), "own tool ddsperf: 52.1 µs, ours 50.3 µs, 0.97 (0.97–0.97): agrees within 20 %");
        let b = Agreement { concord: Concord::Differs, ..a };
        assert!(b.to_string().ends_with("differs by more than 20 %"));
        assert_eq!(of(&[1; 3], &[90_000, 52_100, 10_000]).unwrap().tool_p50_ns, 52_100);
    }
}
