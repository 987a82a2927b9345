// SPDX-License-Identifier: Apache-2.0
//! What CycloneDDS says to people: lines on standard error, as many as somebody can read. Of each packet that is broken it says so, and whoever reaches its ports
//! sends as many as he likes.

use cyclors as c;
use std::ffi::c_void;
use std::io::Write;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// Lines in a [`WINDOW`].
const LINES: u32 = 16;
const WINDOW: Duration = Duration::from_secs(60);
/// Of a line, in bytes; CycloneDDS has 2 KiB.
const MAX_LINE: usize = 4096;

static LIMIT: Mutex<Limit> = Mutex::new(Limit::NEW);

/// Of a process, as CycloneDDS's log is.
#[derive(Debug)]
struct Limit {
    /// The beginning of the window; `None`: nothing was said yet.
    since: Option<Instant>,
    lines: u32,
    /// Lines that nobody has seen, and when that is told.
    withheld: u64,
    tell_at: Option<Instant>,
}

#[derive(Debug, PartialEq)]
enum Verdict {
    Shown,
    /// The last one that is.
    Last,
    Withheld,
}

impl Limit {
    const NEW: Self = Self { since: None, lines: 0, withheld: 0, tell_at: None };

    fn line(&mut self, now: Instant) -> Verdict {
        if self.since.is_none_or(|since| now.saturating_duration_since(since) >= WINDOW) {
            (self.since, self.lines) = (Some(now), 0);
        }
        self.lines = self.lines.saturating_add(1);
        match self.lines {
            ..LINES => Verdict::Shown,
            LINES => Verdict::Last,
            _ => {
                self.withheld = self.withheld.saturating_add(1);
                self.tell_at.get_or_insert(now + WINDOW);
                Verdict::Withheld
            }
        }
    }

    /// Lines that were not shown, each counted in one answer; `None`: none, or more may follow at once.
    fn withheld(&mut self, now: Instant) -> Option<u64> {
        self.tell_at.take_if(|at| now >= *at).map(|_| std::mem::take(&mut self.withheld))
    }
}

fn limit<T>(look: impl FnOnce(&mut Limit) -> T) -> T {
    look(&mut LIMIT.lock().unwrap_or_else(PoisonError::into_inner))
}

/// What people should know of lines that were not shown, at most once a minute.
pub(crate) fn withheld() -> Option<String> {
    let lines = limit(|limit| limit.withheld(Instant::now()))?;
    Some(format!(
        "CycloneDDS has said {lines} more lines, which were not shown: mostly, somebody sends to its UDP ports what is broken; the lines that were shown say what and who"
    ))
}

/// One line, without what a terminal would act upon: names in it come from the network.
fn printable(line: &[u8]) -> String {
    let line = line.get(..MAX_LINE).unwrap_or(line);
    String::from_utf8_lossy(line).trim_end().chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Whoever read standard error may be gone: what is carried does not end with it.
fn show(line: &[u8], verdict: &Verdict) {
    let more =
        if *verdict == Verdict::Last { "\nCycloneDDS: what it says in the rest of this minute is not shown, and counted" } else { "" };
    let _ = std::io::stderr().write_all(format!("CycloneDDS: {}{more}\n", printable(line)).as_bytes());
}

unsafe extern "C" fn sink(_: *mut c_void, said: *const c::dds_log_data_t) {
    // SAFETY: CycloneDDS calls it with a structure that lives, and does not change, as long as the call.
    let Some(said) = (unsafe { said.as_ref() }) else { return };
    let verdict = limit(|limit| limit.line(Instant::now()));
    // After a fatal one it ends the process: nothing else would say why.
    if said.message.is_null() || verdict == Verdict::Withheld && said.priority & c::DDS_LC_FATAL == 0 {
        return;
    }
    // SAFETY: as many bytes of a buffer of the calling thread, which nobody changes as long as the call; without the end of the line.
    show(unsafe { std::slice::from_raw_parts(said.message.cast::<u8>(), said.size) }, &verdict);
}

/// Has CycloneDDS say no more than that, in all of its domains, from now on.
pub(super) fn bound() {
    static ONCE: Once = Once::new();
    // SAFETY: the function is part of the program, has the signature that is asked for, cannot unwind (a panic in a function of C's ABI ends the process),
    // and looks at nothing of its first argument.
    ONCE.call_once(|| unsafe { c::dds_set_log_sink(Some(sink), std::ptr::null_mut()) });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_lines_the_first_are_shown_and_the_rest_is_counted_once() {
        let (mut limit, start) = (Limit::NEW, Instant::now());
        let at = |s: u64| start + Duration::from_secs(s);
        for _ in 1..LINES {
            assert_eq!(limit.line(start), Verdict::Shown);
        }
        assert_eq!((limit.line(start), limit.withheld(at(3600))), (Verdict::Last, None));
        for _ in 0..1000 {
            assert_eq!(limit.line(at(30)), Verdict::Withheld);
        }
        assert_eq!(limit.line(at(60)), Verdict::Shown);
        assert_eq!(limit.withheld(at(89)), None, "there may be more");
        (0..LINES).for_each(|_| drop(limit.line(at(89))));
        // However long it goes on.
        assert_eq!((limit.withheld(at(90)), limit.withheld(at(3600))), (Some(1001), None));
        assert_eq!(limit.line(at(120)), Verdict::Shown);
    }

    #[test]
    fn what_somebody_has_sent_does_nothing_to_a_terminal() {
        assert_eq!(printable(b"a\x1b[2Jb\nc\xff\n"), "a [2Jb c\u{fffd}");
        assert_eq!(printable(&[b'a'; 2 * MAX_LINE]).len(), MAX_LINE);
    }
}
