// SPDX-License-Identifier: Apache-2.0
//! Limits log lines to a readable number, because other hosts can cause any number of them.

use std::time::{Duration, Instant};

/// Period in which lines are counted.
const WINDOW: Duration = Duration::from_secs(60);

/// Limit of shown lines a minute.
#[derive(Debug)]
pub struct LineLimit {
    most: u32,
    /// Beginning of the period; `None` before the first line.
    since: Option<Instant>,
    lines: u32,
    /// Number of lines not shown, and the time to report this number.
    withheld: u64,
    tell_at: Option<Instant>,
}

/// Decision on a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineVerdict {
    /// It is shown.
    Shown,
    /// It is shown. Further lines of this minute are not.
    Last,
    /// It is counted and not shown.
    Withheld,
}

impl LineLimit {
    /// Creates a limit of `most` lines a minute.
    #[must_use]
    pub const fn new(most: u32) -> Self {
        Self { most, since: None, lines: 0, withheld: 0, tell_at: None }
    }

    /// Decides on a line at this time.
    pub fn line(&mut self, now: Instant) -> LineVerdict {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines = self.lines.saturating_add(1);
        if self.lines <= self.most {
            return if self.lines == self.most { LineVerdict::Last } else { LineVerdict::Shown };
        }
        self.withheld = self.withheld.saturating_add(1);
        self.tell_at.get_or_insert(now + WINDOW);
        LineVerdict::Withheld
    }

    /// Returns the number of lines withheld since the last result, one minute after the first of
    /// them. Returns `None` before that time, and if no line was withheld.
    pub fn withheld(&mut self, now: Instant) -> Option<u64> {
        self.tell_at.take_if(|at| now >= *at).map(|_| std::mem::take(&mut self.withheld))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_many_lines_are_shown_and_the_rest_is_counted_once() {
        const MOST: u32 = 16;
        let (mut limit, start) = (LineLimit::new(MOST), Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        for _ in 1..MOST {
            assert_eq!(limit.line(start), LineVerdict::Shown);
        }
        assert_eq!((limit.line(start), limit.withheld(at(3600))), (LineVerdict::Last, None));
        for _ in 0..1000 {
            assert_eq!(limit.line(at(30)), LineVerdict::Withheld);
        }
        assert_eq!(limit.line(at(60)), LineVerdict::Shown);
        assert_eq!(limit.withheld(at(89)), None, "there may be more");
        for _ in 0..MOST {
            limit.line(at(89));
        }
        // The number is due a minute after the first withheld line, even if lines keep coming.
        assert_eq!((limit.withheld(at(90)), limit.withheld(at(3600))), (Some(1001), None));
        assert_eq!(limit.line(at(120)), LineVerdict::Shown);
    }
}
