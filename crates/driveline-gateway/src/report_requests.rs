// SPDX-License-Identifier: Apache-2.0
//! Exchange between a gateway's threads and their callers: log lines, and reports on request.

use super::report::Report;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Maximum number of kept lines.
const MAX_NOTICES: usize = 256;
/// Time-out of a report.
const REPORT_WITHIN: Duration = Duration::from_secs(2);

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Queue of log lines. If it is full, a new line replaces the oldest one. Can be used from any
/// thread.
#[derive(Debug, Default)]
pub struct Notices(Mutex<VecDeque<String>>);

impl Notices {
    /// Adds a line, unless the same line is already in the queue.
    pub fn log(&self, line: String) {
        let mut lines = lock(&self.0);
        if lines.contains(&line) {
            return;
        }
        if lines.len() >= MAX_NOTICES {
            lines.pop_front();
        }
        lines.push_back(line);
    }

    /// Returns the lines since the last call; at most 256.
    #[must_use]
    pub fn take(&self) -> Vec<String> {
        lock(&self.0).drain(..).collect()
    }
}

/// Requests for reports, answered by the thread that has the data.
#[derive(Debug)]
pub struct ReportRequests {
    asked: AtomicBool,
    report: Mutex<Report>,
    answered: Condvar,
}

impl ReportRequests {
    /// Creates the requests. `first`: the report to return before the first answer.
    #[must_use]
    pub fn new(first: Report) -> Self {
        Self { asked: AtomicBool::new(false), report: Mutex::new(first), answered: Condvar::new() }
    }

    /// Sets the report while no thread answers; also answers pending requests.
    pub fn put(&self, said: Report) {
        let mut report = lock(&self.report);
        *report = said;
        // `asked` changes under the lock: a caller checks `asked` under the lock before it sleeps,
        // and would otherwise miss the change.
        self.asked.store(false, Ordering::Release);
        drop(report);
        self.answered.notify_all();
    }

    /// Returns the last report; for times when no thread answers.
    #[must_use]
    pub fn last(&self) -> Report {
        lock(&self.report).clone()
    }

    /// Requests a report; `wake` wakes the answering thread. Blocks until it has answered, at most
    /// 2 s. After that, returns the last report, marked as [`stale`](Report::stale).
    pub fn ask(&self, wake: impl FnOnce()) -> Report {
        self.ask_within(REPORT_WITHIN, wake)
    }

    fn ask_within(&self, within: Duration, wake: impl FnOnce()) -> Report {
        self.asked.store(true, Ordering::Release);
        wake();
        let report = lock(&self.report);
        let waited = self
            .answered
            .wait_timeout_while(report, within, |_| self.asked.load(Ordering::Acquire));
        let (report, ended) = waited.unwrap_or_else(PoisonError::into_inner);
        Report { stale: ended.timed_out(), ..report.clone() }
    }

    /// Creates a report, if one was requested.
    pub fn answer(&self, make: impl FnOnce() -> Report) {
        if !self.asked.load(Ordering::Acquire) {
            return;
        }
        self.put(make());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn a_line_is_kept_once_until_it_is_taken_and_the_oldest_give_way() {
        let notices = Notices::default();
        notices.log("a".into());
        notices.log("a".into());
        assert_eq!(notices.take(), ["a"]);
        (0..=MAX_NOTICES).for_each(|n| notices.log(n.to_string()));
        let taken = notices.take();
        assert_eq!((taken.len(), taken[0].as_str()), (MAX_NOTICES, "1"));
        assert!(notices.take().is_empty());
    }

    #[test]
    fn a_report_is_made_after_the_question_and_only_then() {
        let report_requests = Arc::new(ReportRequests::new(Report::default()));
        report_requests.answer(|| unreachable!("no report was requested"));
        let (wake, woken) = std::sync::mpsc::channel();
        let of_thread = report_requests.clone();
        let thread = std::thread::spawn(move || {
            for n in 1..=3 {
                woken.recv().unwrap();
                of_thread.answer(|| Report { unknown: n, ..Report::default() });
            }
        });
        for n in 1..=3 {
            let report = report_requests.ask(|| wake.send(()).unwrap());
            assert_eq!((report.unknown, report.stale), (n, false));
        }
        thread.join().unwrap();
        // No thread answers any more.
        let old = report_requests.ask_within(Duration::from_millis(1), || {});
        assert_eq!((old.unknown, old.stale), (3, true));
        // A returning thread answers that request; the next request gets the new report.
        report_requests.answer(|| Report { unknown: 4, ..Report::default() });
        let new = report_requests.ask_within(Duration::from_secs(60), || {
            report_requests.answer(|| Report { unknown: 5, ..Report::default() })
        });
        assert_eq!((new.unknown, new.stale), (5, false));
    }
}
