// SPDX-License-Identifier: Apache-2.0
//! Description of a process's end: the kernel's status, and the process's last records.

use super::gateway::Called;
use crate::account::CallPlace;
use crate::host::exit;
use serde::Serialize;
use signal_hook::consts as s;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// Phase of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// Not all modules were ready.
    Starting,
    /// The graph ran.
    Running,
    /// The modules were being stopped.
    Stopping,
}

/// The end of a process of a run. Displays as a clause for people, without the help.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Death {
    /// Module, or the gateway's process.
    pub module: String,
    /// Process id; 0 if it is unknown.
    pub pid: u32,
    /// Kind of end, for people: the status from the kernel, or the launcher's reason to end it.
    pub how: String,
    /// Exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// Number of the signal that ended it.
    pub signal: Option<i32>,
    /// Phase of the run.
    pub when: When,
    /// Reason, for people: from the process itself, from its container, or concluded from its end.
    pub cause: Option<String>,
    /// Next step for finding the cause.
    pub help: Option<String>,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let when = match self.when {
            When::Starting => "while starting",
            When::Running => "while running",
            When::Stopping => "while stopping",
        };
        write!(f, "{} {} {when}", Called(&self.module), self.how)?;
        self.cause.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

/// Last records of a process before its end.
#[derive(Clone, Debug, Default)]
pub(super) struct LastWords {
    /// True if it has begun its account.
    pub(super) greeted: bool,
    /// Reason of its end, and the call if it was in one.
    pub(super) failed: Option<(Option<CallPlace>, String)>,
    /// True if a signal requested its end.
    pub(super) asked: bool,
    /// A fatal signal and the call that it came in.
    pub(super) crash: Option<(i32, Option<CallPlace>)>,
}

impl LastWords {
    pub(super) fn cause(
        &self,
        status: ExitStatus,
        end_requested: bool,
        gateway: bool,
    ) -> Option<String> {
        match (&self.failed, &self.crash) {
            // After the report of the crash, the signal's previous handler runs, for example Rust's
            // own handler of stack overflows. It may abort, so SIGABRT may end the process.
            (_, Some((signal, call)))
                if [Some(*signal), Some(s::SIGABRT)].contains(&status.signal()) =>
            {
                Some(match call {
                    Some(call) => format!("in {call}"),
                    None => "in a thread that runs no callback".to_owned(),
                })
            }
            (Some((Some(call), text)), _) => Some(format!("it {text}, with {call}")),
            (Some((None, text)), _) => Some(text.clone()),
            (None, _) if status.code().is_some() && !end_requested && self.asked => Some(
                "another process sent it SIGTERM or SIGINT; Ctrl-C or a signal to `driveline run` \
                 ends the whole run"
                    .to_owned(),
            ),
            (None, _)
                if status.code() == Some(i32::from(exit::USAGE)) && !self.greeted && !gateway =>
            {
                Some(
                    "it does not understand its arguments: the program that runs modules \
                     (driveline-host, or DRIVELINE_HOST) is of another build than this command"
                        .to_owned(),
                )
            }
            (None, _) if status.code().is_some() && !end_requested && gateway => Some(
                "it did not say why; its last output may show the reason, unless the program is no \
                 gateway of Driveline"
                    .to_owned(),
            ),
            (None, _) if status.code().is_some() && !end_requested => Some(
                "it did not say why; a component or a library called exit()"
                    .to_owned(),
            ),
            _ => None,
        }
    }
}

/// Returns true if SIGTERM, SIGINT or SIGHUP has ended the process, which had no handler yet. A
/// Ctrl-C or the end of a terminal also reaches a process that is not in its own group yet.
pub(super) fn was_asked_to_end(status: ExitStatus) -> bool {
    status.signal().is_some_and(|signal| [s::SIGTERM, s::SIGINT, s::SIGHUP].contains(&signal))
}

/// Returns the status for people: `exited with code 3`, `was killed by SIGSEGV (invalid memory
/// access)`.
pub(super) fn how_it_ended(status: ExitStatus) -> String {
    let dump = if status.core_dumped() { ", core dumped" } else { "" };
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with code {code}"),
        (None, Some(signal)) => {
            let (name, meaning) = match signal {
                s::SIGSEGV => ("SIGSEGV", "invalid memory access"),
                s::SIGABRT => ("SIGABRT", "abort, for example an uncaught exception"),
                s::SIGBUS => ("SIGBUS", "invalid memory access, or a file or /dev/shm is full"),
                s::SIGFPE => ("SIGFPE", "arithmetic error"),
                s::SIGILL => ("SIGILL", "invalid instruction"),
                s::SIGKILL => {
                    ("SIGKILL", "killed from outside, perhaps for lack of memory: see dmesg")
                }
                s::SIGTERM => ("SIGTERM", "terminated from outside"),
                s::SIGINT => ("SIGINT", "interrupted"),
                s::SIGTRAP => ("SIGTRAP", "trap"),
                s::SIGXCPU => {
                    ("SIGXCPU", "CPU limit, for example of real-time threads that never sleep")
                }
                _ => return format!("was killed by signal {signal}{dump}"),
            };
            format!("was killed by {name} ({meaning}{dump})")
        }
        (None, None) => format!("ended with status {status}"),
    }
}

/// Returns the steps from a crash to the line of code. `gdb` is a command that runs the module in a
/// debugger.
pub(super) fn help(status: ExitStatus, pid: u32, gdb: &str) -> Option<String> {
    let signal = status.signal()?;
    if ![s::SIGSEGV, s::SIGABRT, s::SIGBUS, s::SIGFPE, s::SIGILL, s::SIGSYS, s::SIGTRAP]
        .contains(&signal)
    {
        return None;
    }
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    Some(core_help(pattern.trim(), status.core_dumped(), pid, gdb))
}

fn core_help(pattern: &str, dumped: bool, pid: u32, gdb: &str) -> String {
    let core = match (dumped, pattern.strip_prefix('|')) {
        (true, Some(program)) if program.contains("systemd-coredump") => {
            format!("`coredumpctl debug {pid}` shows where it was")
        }
        (true, Some(program)) => {
            format!("the core went to {}", program.split(' ').next().unwrap_or_default())
        }
        (true, None) => format!(
            "the core file has the name {pattern:?} (see `man 5 core`) in the directory of this run"
        ),
        (false, _) => {
            "no core file was written; `ulimit -c unlimited` in this shell allows it".to_owned()
        }
    };
    format!("{core}; in a debugger the module runs with: {gdb}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::account::Call;

    #[test]
    fn ends_are_described_in_words() {
        assert_eq!(how_it_ended(ExitStatus::from_raw(3 << 8)), "exited with code 3");
        assert_eq!(
            how_it_ended(ExitStatus::from_raw(11)),
            "was killed by SIGSEGV (invalid memory access)"
        );
        assert_eq!(
            how_it_ended(ExitStatus::from_raw(6 | 0x80)),
            "was killed by SIGABRT (abort, for example an uncaught exception, core dumped)"
        );
        assert_eq!(how_it_ended(ExitStatus::from_raw(40)), "was killed by signal 40");
    }

    #[test]
    fn the_cause_is_what_the_process_said() {
        let place = CallPlace {
            component: "bad".into(),
            call: Call::OnTrigger,
            topic: Some("image".into()),
            sequence: Some(30),
        };
        let code = ExitStatus::from_raw(1 << 8);
        let said = LastWords {
            failed: Some((None, "component 'bad' cannot start: no".into())),
            ..LastWords::default()
        };
        assert_eq!(said.cause(code, false, false).unwrap(), "component 'bad' cannot start: no");
        let said = LastWords { crash: Some((11, Some(place))), ..LastWords::default() };
        assert_eq!(
            said.cause(ExitStatus::from_raw(11), false, false).unwrap(),
            "in component 'bad' in on_trigger on sample 30 of 'image'"
        );
        assert_eq!(
            said.cause(ExitStatus::from_raw(9), false, false),
            None,
            "SIGKILL ended it, not the reported signal"
        );
        assert!(LastWords::default().cause(code, false, false).unwrap().contains("exit()"));
        let asked = LastWords { asked: true, ..LastWords::default() };
        assert!(asked.cause(ExitStatus::from_raw(0), false, false).unwrap().contains("SIGTERM"));
        assert_eq!(
            asked.cause(ExitStatus::from_raw(0), true, false),
            None,
            "an end that the launcher requested needs no cause"
        );
        let gateway = LastWords::default().cause(code, false, true).unwrap();
        assert!(
            gateway.starts_with("it did not say why") && !gateway.contains("component"),
            "{gateway}"
        );
        assert_eq!(LastWords::default().cause(ExitStatus::from_raw(0), true, false), None);
    }

    #[test]
    fn the_way_to_a_backtrace_depends_on_the_machine() {
        for (pattern, dumped, text) in [
            ("|/usr/lib/systemd/systemd-coredump %P", true, "`coredumpctl debug 7`"),
            ("|/usr/share/apport/apport -p%p", true, "went to /usr/share/apport/apport;"),
            ("core.%p", true, "\"core.%p\""),
            ("core", false, "ulimit -c unlimited"),
        ] {
            let help = core_help(pattern, dumped, 7, "gdb x");
            assert!(help.contains(text) && help.ends_with("gdb x"), "{help}");
        }
    }
}
