// SPDX-License-Identifier: Apache-2.0
//! Whether a peer's row says the same as the latency tool that its middleware brings.

use crate::harness::OwnTool;
use crate::report::microseconds;
use serde::Serialize;
use std::fmt;

/// How far the medians may differ, as a share of what the tool says.
pub const TOLERANCE: f64 = 0.2;

/// A peer's row beside the middleware's own tool.
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
    /// The row's median ÷ the tool's.
    pub ratio: f64,
    /// Whether they differ by no more than [`TOLERANCE`]. If not, the row is invalid.
    pub agrees: bool,
}

impl Agreement {
    /// Compares a row's median with what the tool said in its runs; nothing if it did not run.
    #[must_use]
    pub fn of(ours_p50_ns: u64, said: &[OwnTool]) -> Option<Self> {
        let tool_p50_ns = median(said.iter().map(|t| t.p50_ns).collect()).filter(|ns| *ns > 0)?;
        let ratio = ours_p50_ns as f64 / tool_p50_ns as f64;
        let first = said.first()?;
        Some(Self {
            tool: first.name.clone(),
            version: first.version.clone(),
            tool_p50_ns,
            tool_p99_ns: median(said.iter().filter_map(|t| t.p99_ns).collect()),
            tool_n: said.iter().map(|t| t.n).sum(),
            ours_p50_ns,
            ratio,
            agrees: (ratio - 1.0).abs() <= TOLERANCE,
        })
    }
}

/// The lower one of two in the middle.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len().checked_sub(1)? / 2).copied()
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.agrees { "agrees within" } else { "differs by more than" };
        write!(
            f,
            "own tool {}: {} µs, ours {} µs, {:.2}: {verdict} {:.0} %",
            self.tool,
            microseconds(self.tool_p50_ns as f64),
            microseconds(self.ours_p50_ns as f64),
            self.ratio,
            TOLERANCE * 100.0
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(p50_ns: u64, p99_ns: Option<u64>) -> OwnTool {
        OwnTool { name: "ddsperf".into(), version: "1".into(), p50_ns, p99_ns, mean_ns: None, n: 10 }
    }

    #[test]
    fn a_fifth_is_the_limit_both_ways() {
        let agrees = |ours| Agreement::of(ours, &[said(50_000, None)]).unwrap().agrees;
        assert_eq!([39_999, 40_000, 50_000, 60_000, 60_001].map(agrees), [false, true, true, true, false]);
        assert_eq!(Agreement::of(1, &[]), None);
        assert_eq!(Agreement::of(1, &[said(0, None)]), None);
    }

    #[test]
    fn of_several_runs_the_median_counts_and_people_read_it() {
        let a = Agreement::of(50_300, &[said(90_000, Some(300_000)), said(52_100, None), said(10_000, Some(200_000))]).unwrap();
        assert_eq!((a.tool_p50_ns, a.tool_p99_ns, a.tool_n), (52_100, Some(200_000), 30));
        assert_eq!(a.to_string(), "own tool ddsperf: 52.1 µs, ours 50.3 µs, 0.97: agrees within 20 %");
        let b = Agreement { agrees: false, ..a };
        assert!(b.to_string().ends_with("differs by more than 20 %"));
    }
}
