// SPDX-License-Identifier: Apache-2.0
//! Progress of a measurement: a bar on a terminal, else lines as runs start, one in ten seconds at
//! most.

use crate::archive::{Archive, Case};
use crate::plan;
use crate::table::minutes;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::io::{IsTerminal, Write as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Shortest interval between two lines without a terminal.
const LINES: Duration = Duration::from_secs(10);

/// Width of the bar, in characters.
const BAR: usize = 30;

/// Progress on standard error. It counts the expected time of runs, so that long and short cases
/// advance it in proportion.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    printed: Option<Instant>,
    /// Shared with the bar, which draws itself every second.
    state: Arc<Mutex<State>>,
}

/// Known times of a measurement.
#[derive(Clone, Copy)]
struct State {
    runs: u64,
    made: u64,
    /// Expected times of all runs made before, of the missing runs, and of the runs made since.
    before_s: f64,
    expected_s: f64,
    done_s: f64,
    began: Instant,
    /// The current run: its expected time and its start. `pace` is the real time of the runs before
    /// it divided by their expected time.
    run_s: f64,
    run_began: Instant,
    pace: f64,
}

impl Progress {
    /// Shows the progress over the missing runs of an archive.
    pub(crate) fn new(archive: &Archive) -> Self {
        let mut state = State::new(Instant::now());
        for e in &archive.manifest.experiments {
            for case in &e.cases {
                let there = (0..e.rounds)
                    .filter(|round| archive.has(&e.scenario.id, case, *round))
                    .count() as u64;
                let each = plan::expected_seconds(case);
                state.before_s += each * there as f64;
                state.expected_s += each * e.rounds.saturating_sub(there) as f64;
                state.runs += e.rounds;
                state.made += there;
            }
        }
        let state = Arc::new(Mutex::new(state));
        Self {
            bar: std::io::stderr().is_terminal().then(|| bar(Arc::clone(&state))),
            printed: None,
            state,
        }
    }

    /// Reports the start of a run.
    pub(crate) fn begins(&mut self, experiment: &str, round: u64, rounds: u64, case: &Case) {
        let what = format!("{experiment} · round {} of {rounds} · {}", round + 1, case.id);
        let now = Instant::now();
        let state = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.begins(now, plan::expected_seconds(case));
            *state
        };
        match &self.bar {
            Some(bar) => bar.set_message(what),
            None if is_due(&mut self.printed, now) => {
                // A closed standard error does not end the measurement.
                let _ = writeln!(std::io::stderr(), "{}", state.line(now, &what));
            }
            None => {}
        }
    }

    /// Reports the end of a run.
    pub(crate) fn made(&mut self) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).made();
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns true for the first line, and then at most once every [`LINES`].
fn is_due(printed: &mut Option<Instant>, now: Instant) -> bool {
    let due = printed.is_none_or(|printed| now.saturating_duration_since(printed) >= LINES);
    if due {
        *printed = Some(now);
    }
    due
}

impl State {
    fn new(now: Instant) -> Self {
        Self {
            runs: 0,
            made: 0,
            before_s: 0.0,
            expected_s: 0.0,
            done_s: 0.0,
            began: now,
            run_s: 0.0,
            run_began: now,
            pace: 1.0,
        }
    }

    fn begins(&mut self, now: Instant, run_s: f64) {
        if self.done_s > 0.0 {
            // During the run, the pace stays as it was at its start.
            self.pace = now.saturating_duration_since(self.began).as_secs_f64() / self.done_s;
        }
        (self.run_s, self.run_began) = (run_s, now);
    }

    fn made(&mut self) {
        self.made += 1;
        self.done_s += self.run_s;
        self.run_s = 0.0;
    }

    /// Returns the expected time of the completed part of the run. It is at most the expected time
    /// of the whole run, even if the run takes longer.
    fn of_run_s(&self, now: Instant) -> f64 {
        let passed_s = now.saturating_duration_since(self.run_began).as_secs_f64();
        if self.pace > 0.0 { (passed_s / self.pace).min(self.run_s) } else { self.run_s }
    }

    fn left_s(&self, now: Instant) -> f64 {
        (self.expected_s - self.done_s - self.of_run_s(now)).max(0.0) * self.pace
    }

    fn line(&self, now: Instant, what: &str) -> String {
        format!(
            "{} of {} runs made, about {} left · {what}",
            self.made,
            self.runs,
            minutes(self.left_s(now))
        )
    }

    /// Returns `██████░░░░░░░░  42 %, about 7 s left`; the bar also moves during a run.
    fn bar(&self, now: Instant) -> String {
        let all_s = self.before_s + self.expected_s;
        let share = if all_s > 0.0 {
            (self.before_s + self.done_s + self.of_run_s(now)) / all_s
        } else {
            0.0
        };
        let full = ((share * BAR as f64) as usize).min(BAR);
        let percent = ((share * 100.0) as u32).min(100);
        format!(
            "{}{} {percent:>3} %, about {} left",
            "█".repeat(full),
            "░".repeat(BAR - full),
            minutes(self.left_s(now))
        )
    }
}

fn bar(state: Arc<Mutex<State>>) -> ProgressBar {
    // Does not use the library's own estimate, which has no data before the first run has ended.
    let bar = ProgressBar::new(1);
    let how_far = move |_: &ProgressState, to: &mut dyn std::fmt::Write| {
        let _ =
            to.write_str(&state.lock().unwrap_or_else(PoisonError::into_inner).bar(Instant::now()));
    };
    if let Ok(style) = ProgressStyle::with_template("{how_far} · {wide_msg}") {
        bar.set_style(style.with_key("how_far", how_far));
    }
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
        let mut printed = None;
        assert_eq!(
            [0, 9, 10, 19, 20].map(|s| is_due(&mut printed, at(s))),
            [true, false, true, false, true]
        );
        let mut state = State { runs: 40, made: 8, expected_s: 64.0, ..State::new(began) };
        state.begins(at(0), 5.0);
        assert_eq!(state.line(at(0), "x"), "8 of 40 runs made, about 64 s left · x");
        // The run takes twice the expected time.
        state.made();
        state.begins(at(10), 59.0);
        assert_eq!(state.line(at(10), "y"), "9 of 40 runs made, about 2 min left · y");
        state.made();
        assert_eq!(state.line(at(60), "z"), "10 of 40 runs made, about 0 s left · z");
    }

    #[test]
    fn a_bar_says_from_the_start_how_long_it_takes_and_moves_within_a_run() {
        let began = Instant::now();
        let at = |s: u64| began + Duration::from_secs(s);
        let mut state = State { runs: 2, expected_s: 24.0, ..State::new(began) };
        let printed = |state: &State, s| {
            state.bar(at(s)).trim_start_matches(['█', '░']).trim_start().to_owned()
        };
        assert_eq!(printed(&state, 0), "0 %, about 24 s left");
        state.begins(at(0), 12.0);
        assert_eq!(printed(&state, 6), "25 %, about 18 s left");
        assert!(
            state.bar(at(6)).starts_with(&format!("{}{} ", "█".repeat(7), "░".repeat(23))),
            "{}",
            state.bar(at(6))
        );
        // A run that takes longer than expected stops the bar, and takes no time from the next one.
        assert_eq!(printed(&state, 12), printed(&state, 18));
        state.made();
        state.begins(at(18), 12.0);
        assert_eq!(printed(&state, 18), "50 %, about 18 s left");
        assert_eq!(printed(&state, 27), "75 %, about 9 s left");
        state.made();
        assert_eq!(printed(&state, 40), "100 %, about 0 s left");
        // Runs made before an interruption count.
        let resumed =
            State { runs: 4, made: 3, before_s: 30.0, expected_s: 10.0, ..State::new(began) };
        assert_eq!(printed(&resumed, 0), "75 %, about 10 s left");
    }
}
