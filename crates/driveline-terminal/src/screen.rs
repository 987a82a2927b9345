// SPDX-License-Identifier: Apache-2.0
//! Destination of output, and its colours.

use driveline_graph::Colour;
use driveline_types::text::{plain, seen};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;
use serde::Serialize;
use std::cell::RefCell;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::time::Duration;

/// Maximum number of bytes written at once.
const PIECE: usize = 4096;
/// Period at which a blocked write checks whether to give up.
const LOOK: Duration = Duration::from_millis(100);

/// Output of the command.
pub struct Screen {
    /// Results are JSON.
    pub json: bool,
    /// Standard output is a terminal that people look at.
    pub interactive: bool,
    /// Colours of standard output: on a terminal, unless results are JSON, `NO_COLOR` is set, or
    /// `TERM` is `dumb`.
    pub colour: Colour,
    errors: Colour,
    /// Reason why standard output cannot be written any more. Work in progress is still completed:
    /// a run still writes its report.
    lost: RefCell<Option<io::Error>>,
}

impl Screen {
    /// Standard output and standard error as they are now. `json`: results are JSON.
    #[must_use]
    pub fn new(json: bool) -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let colour = |terminal: bool| if terminal && wanted { Colour::Yes } else { Colour::No };
        let interactive = std::io::stdout().is_terminal() && !json;
        Self {
            json,
            interactive,
            colour: colour(interactive),
            errors: colour(std::io::stderr().is_terminal()),
            lost: RefCell::new(None),
        }
    }

    /// Prints to standard output, unless an earlier write failed. Characters without a visible
    /// shape, which may change the direction of writing, are replaced: the text may quote names of
    /// others.
    pub fn print(&self, text: &str) {
        if self.lost.borrow().is_some() {
            return;
        }
        let mut out = io::stdout().lock();
        if let Err(e) = out.write_all(seen(text).as_bytes()).and_then(|()| out.flush()) {
            *self.lost.borrow_mut() = Some(e);
        }
    }

    /// Prints to standard output, and gives up when `over` returns true while it blocks: a full
    /// pipe, or a stopped terminal.
    pub fn print_unless(&self, text: &str, over: &dyn Fn() -> bool) {
        let mut rest = text;
        while !rest.is_empty() && self.lost.borrow().is_none() {
            if !polled(PollFlags::OUT, LOOK)
                .intersects(PollFlags::OUT | PollFlags::ERR | PollFlags::HUP)
            {
                if over() {
                    return;
                }
                continue;
            }
            // A pipe that is ready for writing accepts this many bytes without blocking.
            let at = (0..=PIECE.min(rest.len()))
                .rev()
                .find(|at| rest.is_char_boundary(*at))
                .unwrap_or(rest.len());
            self.print(&rest[..at]);
            rest = &rest[at..];
        }
    }

    /// Returns true if standard output has no reader any more, or if a write has failed. A pipe
    /// reports a missing reader before a write.
    pub fn has_no_reader(&self) -> bool {
        self.lost.borrow().is_some()
            || polled(PollFlags::empty(), Duration::ZERO)
                .intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Returns true if a write has failed because the reader of standard output has gone (`|
    /// head`).
    pub fn reader_is_gone(&self) -> bool {
        self.lost.borrow().as_ref().is_some_and(|e| e.kind() == ErrorKind::BrokenPipe)
    }

    /// Returns the reason why text was lost, other than a reader that has closed.
    pub fn loss(&self) -> Option<String> {
        self.lost
            .borrow()
            .as_ref()
            .filter(|e| e.kind() != ErrorKind::BrokenPipe)
            .map(|e| format!("cannot write to standard output: {e}"))
    }

    /// Prints to standard error. A failure cannot be reported.
    pub fn print_error(&self, text: &str) {
        let _ = io::stderr().lock().write_all(seen(text).as_bytes());
    }

    /// Prints a value to standard output as indented JSON.
    pub fn print_json(&self, value: &impl Serialize) {
        match serde_json::to_string_pretty(value) {
            Ok(text) => self.print(&(text + "\n")),
            Err(e) => self.error(format!("the result cannot be expressed in JSON: {e}")),
        }
    }

    /// Prints a value to standard output as JSON on one line.
    pub fn print_json_line(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.print(&(text + "\n")),
            Err(e) => self.error(format!("a record cannot be expressed in JSON: {e}")),
        }
    }

    /// Prints a message to standard error. Control characters except line feeds and tabs are
    /// replaced, so that files and names that it quotes cannot move the cursor.
    pub fn error(&self, message: impl Display) {
        self.print_error(&format!(
            "{} {}\n",
            paint(self.errors, "1;31", "error:"),
            plain(&message.to_string())
        ));
    }

    /// Colours of standard error.
    #[must_use]
    pub fn errors(&self) -> Colour {
        self.errors
    }

    /// Returns the text in the colour of an escape code, such as `1;31`, if standard output has
    /// colours.
    #[must_use]
    pub fn paint(&self, code: &str, text: &str) -> String {
        paint(self.colour, code, text)
    }

    /// Columns of the terminal; 100 if unknown.
    pub fn columns(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        size.map(|s| usize::from(s.ws_col)).filter(|c| *c > 0).unwrap_or(100)
    }

    /// Rows of the terminal; 24 if unknown.
    pub fn rows(&self) -> usize {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
        size.map(|s| usize::from(s.ws_row)).filter(|c| *c > 0).unwrap_or(24)
    }
}

/// Polls standard output for at most `wait`.
fn polled(events: PollFlags, wait: Duration) -> PollFlags {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, events)];
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(wait.subsec_nanos()) as _ };
    // After an interruption by a signal, standard output counts as not ready.
    if poll(&mut fds, Some(&wait)).is_ok() { fds[0].revents() } else { PollFlags::empty() }
}

fn paint(colour: Colour, code: &str, text: &str) -> String {
    match colour {
        Colour::Yes => format!("\x1b[{code}m{text}\x1b[0m"),
        Colour::No => text.to_owned(),
    }
}
