// SPDX-License-Identifier: Apache-2.0
//! Progress of a campaign: a bar on a terminal, else lines at least ten seconds apart.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Shortest interval between two lines without a terminal.
const LINES: Duration = Duration::from_secs(10);

/// Written to standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    line_at: Option<Instant>,
}

impl Progress {
    pub(crate) fn new(total: usize) -> Self {
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} faults · {elapsed} · {msg}");
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar, total, line_at: None }
    }

    /// Reports that `done` faults are over, and that `what` is next: a fault, the start of the
    /// graph or the quiet time.
    pub(crate) fn at(&mut self, done: usize, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
            return;
        }
        let due = self.line_at.is_none_or(|at| at.elapsed() >= LINES);
        if due {
            self.line_at = Some(Instant::now());
            // A closed standard error does not end the campaign.
            let _ = writeln!(std::io::stderr(), "{done} of {} faults; next: {what}", self.total);
        }
    }

    pub(crate) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
