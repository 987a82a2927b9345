// SPDX-License-Identifier: Apache-2.0
//! Output of measured processes. They may be foreign programs: whatever and however much they
//! write, reading it needs bounded memory.

use crate::child::{lines, plain_json, readable};
use crate::harness::Event;
use serde::Deserialize;
use std::io::Read;
use std::sync::{Mutex, PoisonError};

/// Maximum length of the shown part of a failed process's messages, in bytes.
pub(super) const COMPLAINT: usize = 4096;

/// Maximum length of the shown part of a line that is not an event, in bytes.
const SHOWN: usize = 200;

/// Message from a process.
pub(super) enum Heard {
    Event(Event),
    /// It has closed its output.
    Gone,
}

/// Kind of an event, which is read even if the rest of the line is invalid.
#[derive(Deserialize)]
struct Name {
    event: String,
}

/// Reads events until the output ends, and reports that end last. Reports each kind of event once,
/// so that repetitions have no effect; `done` and `failed` count as one kind.
pub(super) fn events(out: impl Read, report: impl Fn(Heard)) {
    let (mut ready, mut idle, mut over) = (false, false, false);
    for line in lines(out) {
        let heard = match line {
            Ok(line) => event(&line),
            Err(e) => Some(Event::Failed { error: format!("it printed {e}, which is no event") }),
        };
        match heard {
            Some(Event::Ready) if !ready => (ready, _) = (true, report(Heard::Event(Event::Ready))),
            Some(Event::Idle) if !idle => (idle, _) = (true, report(Heard::Event(Event::Idle))),
            Some(event @ (Event::Done { .. } | Event::Failed { .. })) if !over => {
                (over, _) = (true, report(Heard::Event(event)))
            }
            _ => {}
        }
    }
    report(Heard::Gone);
}

/// Returns the event of a line if its kind is known. A known event with invalid contents is a
/// failure.
fn event(line: &str) -> Option<Event> {
    let error = match plain_json(line.as_bytes()) {
        Ok(event) => return Some(event),
        Err(e) => e,
    };
    let Ok(Name { event }) = serde_json::from_str(line) else {
        // A line without these marks belongs to the program. A line with them was meant as an
        // event, but is not valid JSON, for example because of a NaN.
        let meant = line.trim_start().starts_with('{') && line.contains("\"event\"");
        return meant.then(|| Event::Failed {
            error: format!(
                "it printed an event that is no JSON ({error}): {}",
                readable(line.as_bytes(), SHOWN)
            ),
        });
    };
    ["ready", "idle", "done", "failed"].contains(&event.as_str()).then(|| Event::Failed {
        error: format!("its event '{event}' is not what docs/protocols/harness.md says: {error}"),
    })
}

/// Keeps the last part of a process's error output.
pub(super) fn complaints(mut err: impl Read, kept: &Mutex<Vec<u8>>) {
    let mut chunk = [0; 1024];
    while let Ok(n @ 1..) = err.read(&mut chunk) {
        let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend(chunk.iter().take(n));
        let excess = kept.len().saturating_sub(COMPLAINT);
        kept.drain(..excess);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    fn heard(said: impl Read) -> Vec<String> {
        let all = RefCell::new(Vec::new());
        events(said, |h| {
            all.borrow_mut().push(match h {
                Heard::Event(Event::Failed { error }) => error,
                Heard::Event(event) => format!("{event:?}"),
                Heard::Gone => "gone".into(),
            });
        });
        all.into_inner()
    }

    #[test]
    fn what_is_no_event_is_ignored_and_what_is_repeated_too() {
        let done = r#"{"event":"done","ends":[]}"#;
        let said = format!(
            "{{\"event\":\"ready\"}}\nhello\n{{\"event\":\"new\"}}\n\
             {{\"event\":\"ready\"}}\n{done}\n{done}\n"
        );
        let said = [b"\xff\xfe\n", said.as_bytes()].concat();
        assert_eq!(heard(said.as_slice()), ["Ready", "Done { ends: [] }", "gone"]);
    }

    #[test]
    fn a_line_without_an_end_is_a_failure() {
        let said = heard(std::io::repeat(b'x').take((16 << 20) + 1));
        assert_eq!(said, ["it printed a line of more than 16 MiB, which is no event", "gone"]);
    }

    #[test]
    fn a_known_event_that_cannot_be_read_is_named() {
        let said = heard(
            &b"{\"event\":\"done\",\"ends\":[{\"role\":\"publisher\",\"published\":-1}]}\n"[..],
        );
        assert!(
            said.len() == 2
                && said[0].contains("its event 'done' is not what")
                && said[0].contains("-1"),
            "{said:?}"
        );
    }

    #[test]
    fn an_event_that_is_no_json_is_shown() {
        let said = heard(&b"{\"event\":\"done\",\"ends\":[{\"cpu_ns\":NaN}]}\n"[..]);
        assert!(
            said.len() == 2 && said[0].contains("no JSON") && said[0].contains("NaN"),
            "{said:?}"
        );
    }

    #[test]
    fn complaints_are_cut() {
        let kept = Mutex::new(Vec::new());
        complaints([b'a'; 3 * COMPLAINT].as_slice(), &kept);
        assert_eq!(kept.into_inner().unwrap().len(), COMPLAINT);
    }
}
