// SPDX-License-Identifier: Apache-2.0
//! Started processes: their output and their end. They are not trusted to print short lines, to
//! print valid text, or to end.

use driveline::types::text::{is_plain, plain};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read, Result};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

/// Maximum length of a line that is read, in bytes.
const LINE_MAX: u64 = 16 << 20;
/// Time in which a process that has closed its output must end.
const LEAVES: Duration = Duration::from_secs(5);

/// Makes this process end with its parent process, which holds the other end of its standard input.
/// A process must call this function before it does anything else.
///
/// # Errors
/// [`ErrorKind::BrokenPipe`] if the parent has ended already, so that the input is closed. This is
/// checked because the kernel does not signal the end of a parent that ended before the request.
/// Otherwise the error of the kernel.
pub fn end_with_starter() -> Result<()> {
    // An error is ignored: not every system has this call.
    let _ = rustix::process::set_parent_process_death_signal(Some(Signal::KILL));
    let input = rustix::stdio::stdin();
    let mut asked = [PollFd::new(&input, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    rustix::event::poll(&mut asked, Some(&now))?;
    if asked.iter().any(|input| input.revents().contains(PollFlags::HUP)) {
        return Err(Error::new(
            ErrorKind::BrokenPipe,
            "the process that started this one has ended",
        ));
    }
    Ok(())
}

/// A process in a group of its own, so that the processes that it starts end with it. An
/// interruption in the terminal (Ctrl-C) does not reach this group, only the parent, which then
/// ends the process. Dropping this value kills the remaining group, and waits for the process. A
/// process that leaves the group (`setsid`) is not followed, and continues.
#[derive(Debug)]
pub struct Started {
    child: Child,
    waited_for: bool,
}

impl Started {
    /// Starts a process.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn new(command: &mut Command) -> Result<Self> {
        Ok(Self { child: command.process_group(0).spawn()?, waited_for: false })
    }

    /// Returns the ends of the pipes that the command requested and that were not taken yet.
    pub fn pipes(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>) {
        (self.child.stdin.take(), self.child.stdout.take(), self.child.stderr.take())
    }

    /// Returns its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Requests the end of the process with SIGTERM. Does not block; the process may ignore the
    /// signal.
    pub fn ask_to_end(&self) {
        if let Some(pid) = self.pid().filter(|_| !self.waited_for) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for the end of the process and returns its status. Blocks until then, at most for the
    /// given time: after that the process and its group are killed.
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it had to be killed; otherwise the error of the kernel.
    pub fn end_within(&mut self, patience: Duration) -> Result<ExitStatus> {
        let deadline = Instant::now() + patience;
        self.end_unless(|| {
            (Instant::now() >= deadline).then(|| {
                Error::new(
                    ErrorKind::TimedOut,
                    format!("it went on for {patience:?}, and was killed"),
                )
            })
        })
    }

    /// Waits for the end of the process and returns its status. Blocks until then, or until there
    /// is a reason to stop waiting, which is checked at least every 20 ms: then the process and its
    /// group are killed.
    ///
    /// # Errors
    /// The error that `reason` returns, or an error of the kernel.
    pub fn end_unless(&mut self, reason: impl Fn() -> Option<Error>) -> Result<ExitStatus> {
        let mut pause = Duration::from_millis(1);
        while !self.has_ended() {
            if let Some(reason) = reason() {
                self.kill();
                return Err(reason);
            }
            std::thread::sleep(pause);
            pause = (2 * pause).min(Duration::from_millis(20));
        }
        self.kill_group();
        self.waited_for = true;
        self.child.wait()
    }

    /// Waits for the end of a process that has closed its output and returns its status. Blocks
    /// until then, at most 5 s, as [`Self::end_within`].
    ///
    /// # Errors
    /// [`ErrorKind::TimedOut`] if it had to be killed; otherwise the error of the kernel.
    pub fn end(&mut self) -> Result<ExitStatus> {
        self.end_within(LEAVES).map_err(went_on)
    }

    /// Kills the process, and the processes that it started, with SIGKILL. Blocks until the process
    /// has ended.
    pub fn kill(&mut self) {
        self.kill_group();
        self.waited_for = true;
        let _ = self.child.wait();
    }

    /// Returns true if the process has ended. The check does not release the process id.
    pub(crate) fn has_ended(&self) -> bool {
        let how = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.waited_for
            || self.pid().is_none_or(|pid| !matches!(waitid(WaitId::Pid(pid), how), Ok(None)))
    }

    /// Kills the group, unless the process was reaped: until then, no other group can get the
    /// group's number.
    fn kill_group(&self) {
        if let Some(group) = self.pid().filter(|_| !self.waited_for) {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.waited_for {
            self.kill();
        }
    }
}

/// A line of more than 16 MiB, which was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong;

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a line of more than {} MiB", LINE_MAX >> 20)
    }
}

/// Returns the lines of a process without white space at their ends; invalid UTF-8 is replaced.
/// Blocks for each line, until the process has closed its output. Keeps at most one line.
pub fn lines(output: impl Read) -> impl Iterator<Item = std::result::Result<String, TooLong>> {
    let mut output = BufReader::new(output);
    let mut too_long = false;
    std::iter::from_fn(move || {
        if std::mem::take(&mut too_long) {
            // The end of the line may be the end of the output.
            let _ = output.skip_until(b'\n');
        }
        let mut line = Vec::new();
        let read =
            output.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).ok().filter(|n| *n > 0)?;
        if line.last() != Some(&b'\n') && read as u64 == LINE_MAX {
            // Reported at once: the process may never end the line.
            too_long = true;
            return Some(Err(TooLong));
        }
        Some(Ok(String::from_utf8_lossy(&line).trim_end().to_owned()))
    })
}

/// Returns the beginning of a message, at most `most` bytes, as [`plain`] text.
#[must_use]
pub fn readable(said: &[u8], most: usize) -> String {
    let text = String::from_utf8_lossy(said.get(..most).unwrap_or(said));
    plain(text.trim())
}

/// Reads a value from foreign JSON, whose texts and names may be printed: they become [`plain`].
///
/// # Errors
/// If the JSON has no such value, with line and column.
pub fn plain_json<T: DeserializeOwned>(json: &[u8]) -> serde_json::Result<T> {
    let read = serde_json::from_slice(json)?;
    let mut value = serde_json::from_slice(json)?;
    if unreadable(&value).is_none() {
        return Ok(read);
    }
    make_plain(&mut value);
    serde_json::from_value(value)
}

fn make_plain(value: &mut Value) {
    match value {
        Value::String(text) => *text = plain(text),
        Value::Array(parts) => parts.iter_mut().for_each(make_plain),
        Value::Object(parts) => {
            let named = std::mem::take(parts).into_iter().map(|(name, mut part)| {
                make_plain(&mut part);
                (plain(&name), part)
            });
            *parts = named.collect();
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the first text or name in a value that is not [`plain`]: at most 200 bytes of it, made
/// plain.
#[must_use]
pub fn unreadable(value: &Value) -> Option<String> {
    let of_text = |text: &str| (!is_plain(text)).then(|| readable(text.as_bytes(), 200));
    match value {
        Value::String(text) => of_text(text),
        Value::Array(parts) => parts.iter().find_map(unreadable),
        Value::Object(parts) => {
            parts.iter().find_map(|(name, part)| of_text(name).or_else(|| unreadable(part)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// Waits for the end of a process that has closed its output and shares its group with others, and
/// returns its status. Blocks until then, at most 5 s, then kills it.
///
/// # Errors
/// [`ErrorKind::TimedOut`] if it had to be killed; otherwise the error of the kernel.
pub fn end_of(child: &mut Child) -> Result<ExitStatus> {
    let deadline = Instant::now() + LEAVES;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill()?;
    child.wait()?;
    Err(went_on(Error::from(ErrorKind::TimedOut)))
}

fn went_on(error: Error) -> Error {
    match error.kind() {
        kind @ ErrorKind::TimedOut => Error::new(
            kind,
            format!("it closed its output, went on for {LEAVES:?}, and was killed"),
        ),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Stdio;

    #[test]
    fn neither_length_nor_encoding_of_a_line_ends_the_listening() {
        let mut said = b"one\r\n\xff\n".to_vec();
        said.resize(said.len() + LINE_MAX as usize + 7, b'x');
        said.extend(b"\n\nlast");
        let line = |text: &str| Ok(text.to_owned());
        assert_eq!(
            lines(said.as_slice()).collect::<Vec<_>>(),
            [line("one"), line("\u{fffd}"), Err(TooLong), line(""), line("last")]
        );
        let endless = std::io::repeat(b'x').take(LINE_MAX + 1);
        assert_eq!(lines(endless).collect::<Vec<_>>(), [Err(TooLong)]);
    }

    #[test]
    fn who_closes_the_output_and_goes_on_is_not_waited_for() {
        let command = |script: &str| {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", script]).stdout(Stdio::piped());
            command
        };
        let stays = "exec >&-; exec sleep 600";
        let says = |error: Error| {
            assert!(
                error.kind() == ErrorKind::TimedOut && error.to_string().contains("was killed"),
                "{error}"
            )
        };
        let mut child = command(stays).spawn().unwrap();
        assert_eq!(lines(child.stdout.take().unwrap()).count(), 0);
        says(end_of(&mut child).unwrap_err());
        assert_eq!(end_of(&mut command("exit 3").spawn().unwrap()).unwrap().code(), Some(3));
        let mut started = Started::new(&mut command(stays)).unwrap();
        assert_eq!(lines(started.pipes().1.unwrap()).count(), 0);
        says(started.end_within(Duration::from_millis(10)).unwrap_err());
        assert_eq!(Started::new(&mut command("exit 3")).unwrap().end().unwrap().code(), Some(3));
    }

    /// The pipe is open while one of the processes lives.
    #[test]
    fn what_a_process_leaves_behind_ends_with_it() {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo $!"]).stdout(Stdio::piped());
        let mut started = Started::new(&mut command).unwrap();
        let mut said = lines(started.pipes().1.unwrap());
        assert!(said.next().unwrap().unwrap().parse::<u32>().is_ok());
        assert!(started.end().unwrap().success());
        assert_eq!(said.next(), None);

        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 600 & echo; wait"]).stdout(Stdio::piped());
        let mut started = Started::new(&mut command).unwrap();
        let mut said = lines(started.pipes().1.unwrap());
        assert!(said.next().is_some());
        drop(started);
        assert_eq!(said.next(), None);
    }

    #[test]
    fn what_is_shown_cannot_write_over_the_screen() {
        assert_eq!(readable(b"\x1b[2Jgone\tx\ny \n", 100), "\u{fffd}[2Jgone\tx\ny");
        assert_eq!(readable(b"abcdef", 3), "abc");
        assert_eq!(unreadable(&serde_json::json!({"a": [1, "two\nlines", null], "b": true})), None);
        assert_eq!(unreadable(&serde_json::json!({"a": ["\u{1b}[2J"]})).unwrap(), "\u{fffd}[2J");
        assert_eq!(
            unreadable(&serde_json::json!("driveline\u{200b}, \u{202e}1 µs")).unwrap(),
            "driveline\u{fffd}, \u{fffd}1 µs"
        );
        assert_eq!(unreadable(&serde_json::json!({"a\u{7}": 1})).unwrap(), "a\u{fffd}");
        let said = plain_json::<Value>(
            br#"{"a\u0007": ["\u001b[2J", "two\nlines"], "n": 18446744073709551615}"#,
        )
        .unwrap();
        assert_eq!(
            said,
            serde_json::json!({"a\u{fffd}": ["\u{fffd}[2J", "two\nlines"], "n": u64::MAX})
        );
        assert!(plain_json::<u8>(b"\n[").unwrap_err().to_string().contains("line 2"));
    }
}
