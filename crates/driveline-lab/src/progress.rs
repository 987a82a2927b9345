// SPDX-License-Identifier: Apache-2.0
//! How far a measurement is: a bar on a terminal, elsewhere a line now and then.

use crate::archive::{Archive, Case};
use crate::plan;
use crate::table::minutes;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two lines where there is no terminal.
const LINES: Duration = Duration::from_secs(10);

/// Told on standard error. Counts expected time, so that long and short cases move it alike.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    lines: Lines,
}

/// When which line is due.
struct Lines {
    runs: u64,
    made: u64,
    /// Expected of all runs that are missing at the beginning, and of those that were made since.
    expected_s: f64,
    done_s: f64,
    began: Instant,
    told: Option<Instant>,
}

impl Progress {
    /// Of what is missing in an archive.
    pub(crate) fn new(archive: &Archive) -> Self {
        let (mut total, mut missing, mut runs, mut made) = (0.0, 0.0, 0, 0);
        for e in &archive.manifest.experiments {
            for case in &e.cases {
                let there = (0..e.rounds).filter(|round| archive.has(&e.scenario.id, case, *round)).count() as u64;
                let each = plan::expected_seconds(case);
                total += each * e.rounds as f64;
                missing += each * e.rounds.saturating_sub(there) as f64;
                (runs, made) = (runs + e.rounds, made + there);
            }
        }
        let lines = Lines { runs, made, expected_s: missing, done_s: 0.0, began: Instant::now(), told: None };
        Self { bar: std::io::stderr().is_terminal().then(|| bar(total, total - missing)), lines }
    }

    /// A run begins.
    pub(crate) fn begins(&mut self, experiment: &str, round: u64, rounds: u64, case: &Case) {
        let what = format!("{experiment} · round {} of {rounds} · {}", round + 1, case.id);
        match &self.bar {
            Some(bar) => bar.set_message(what),
            None => {
                if let Some(line) = self.lines.due(Instant::now(), &what) {
                    // Who reads it may have gone: that ends no measurement.
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
        }
    }

    /// A run has ended.
    pub(crate) fn made(&mut self, case: &Case) {
        let seconds = plan::expected_seconds(case);
        self.lines.made += 1;
        self.lines.done_s += seconds;
        if let Some(bar) = &self.bar {
            bar.inc((seconds * 1000.0) as u64);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Lines {
    /// The first one at once, then one every [`LINES`].
    fn due(&mut self, now: Instant, what: &str) -> Option<String> {
        if self.told.is_some_and(|told| now.saturating_duration_since(told) < LINES) {
            return None;
        }
        self.told = Some(now);
        let left = self.expected_s - self.done_s;
        // As much slower, or faster, as it was until now.
        let pace = if self.done_s > 0.0 { now.saturating_duration_since(self.began).as_secs_f64() / self.done_s } else { 1.0 };
        Some(format!("{} of {} runs made, about {} left · {what}", self.made, self.runs, minutes(left.max(0.0) * pace)))
    }
}

fn bar(total_s: f64, done_s: f64) -> ProgressBar {
    let bar = ProgressBar::new((total_s * 1000.0) as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {percent:>3} %, {eta} left · {wide_msg}") {
        bar.set_style(style);
    }
    bar.set_position((done_s * 1000.0) as u64);
    bar.reset_eta();
    bar.enable_steady_tick(Duration::from_secs(1));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_comes_at_once_and_then_every_ten_seconds_with_the_time_that_is_left() {
        let began = Instant::now();
        let at = |s: u64| began + Duration::from_secs(s);
        let mut lines = Lines { runs: 40, made: 8, expected_s: 64.0, done_s: 0.0, began, told: None };
        assert_eq!(lines.due(at(0), "x").unwrap(), "8 of 40 runs made, about 64 s left · x");
        assert_eq!(lines.due(at(9), "x"), None);
        // Twice as slow as expected.
        (lines.made, lines.done_s) = (12, 5.0);
        assert_eq!(lines.due(at(10), "y").unwrap(), "12 of 40 runs made, about 2 min left · y");
        assert_eq!(lines.due(at(19), "y"), None);
        (lines.made, lines.done_s) = (40, 64.0);
        assert_eq!(lines.due(at(60), "z").unwrap(), "40 of 40 runs made, about 0 s left · z");
    }
}
