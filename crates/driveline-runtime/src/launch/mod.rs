// SPDX-License-Identifier: Apache-2.0
//! One process for each module of a graph: started, watched, stopped.
//!
//! Everything happens on the caller's thread, which sleeps in the kernel until a process writes
//! something or ends, a tool sends a request, an interrupt comes, or a step is due by time. Only
//! the messages of the health topic are published by another thread. The kernel reports deaths
//! (pidfds). Signals go only to processes that were started here.
//!
//! Each process has a process group of its own, so that Ctrl-C on a terminal reaches only the
//! launcher, which then stops the modules in reverse order: SIGTERM, and SIGKILL after a grace. A
//! second interrupt kills at once. All processes that a module has started and left in its group
//! are killed once it has ended. Modules do not outlive a launcher that is killed, unless
//! `on_launcher_lost` names a mode: they see the account's socket close, and end, if necessary
//! without a hanging component.
//!
//! A state machine without clock and processes, `supervisor.rs`, decides about restarts
//! (`docs/protocols/supervision.md`).
//!
//! Not here: the display of a run for people ([`Sink`]).

mod build;
mod child;
pub mod control;
mod death;
mod describe;
mod gateway;
mod health;
mod health_topic;
mod interrupt;
mod judge;
mod matching;
mod modes;
mod options;
mod remote;
mod run;
mod service_manager;
mod supervisor;
mod usage;

pub use build::Build;
pub use death::{Death, When};
pub use describe::{
    GATEWAY, HOST, HostDescriber, ProgramNotFound, ROS2_GATEWAY, find_gateway, find_host,
    find_ros2_gateway,
};
pub use gateway::{GATEWAY_PROCESS, GatewayOptions, ROS2_GATEWAY_PROCESS};
pub use interrupt::{Interrupt, Interrupter};
pub use matching::Unconnected;
pub use options::LaunchOptions;
pub use remote::{Placement, Started, StartedEnd, Starter};
pub use run::{LaunchError, run};

#[cfg(test)]
pub(crate) use judge::tests::module as judge_module;

use crate::account::{Call, CallPlace, Record, Usage, build_id};
use gateway::{Called, is_gateway};
use serde::Serialize;
use std::fmt;

/// Output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// Receives the events of a run, on the launcher's thread. Slow code here delays the launcher, not
/// the modules.
pub trait Sink {
    /// A process has written a line, which is passed on without its end. Lines of more than 4096
    /// bytes come in pieces; bytes that are not UTF-8 are then replaced.
    fn output(&mut self, module: &str, stream: Stream, line: &str);

    /// A process has sent a record of its account.
    fn record(&mut self, module: &str, record: Record);

    /// An event of the run itself.
    fn event(&mut self, event: &Event);

    /// The container of a module has reported its resource use.
    fn usage(&mut self, module: &str, usage: &Usage) {
        let _ = (module, usage);
    }

    /// Called about ten times a second from the start of the run to its end, for displays.
    fn tick(&mut self) {}
}

/// Event of a run. Displays as a line for people. In events of a process, `module` can also be the
/// name of a gateway's process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A process was started.
    Spawned {
        /// Module.
        module: String,
        /// Process id.
        pid: u32,
    },
    /// A module is started elsewhere, or by others.
    Placed {
        /// Module.
        module: String,
        /// Place, for people.
        place: String,
    },
    /// The program that runs modules is of another build than the launcher.
    OtherBuild {
        /// Module.
        module: String,
        /// The program.
        program: String,
        /// Its build; empty if it is of an earlier release, which does not report it.
        build: String,
    },
    /// The module was started by others, with another graph or `--set` than the launcher's.
    OtherGraph {
        /// Module.
        module: String,
    },
    /// A process that connected to a module's socket was refused. The module is not affected.
    Refused {
        /// Module.
        module: String,
        /// Reason, for people.
        reason: String,
    },
    /// Two ends of a host topic were not matched; the graph runs without this connection.
    Unmatched {
        /// Topic, both ends and the reason, for people.
        edge: String,
    },
    /// Two ends of a host topic were matched after the start.
    Matched {
        /// Topic.
        topic: String,
        /// Component that publishes.
        publisher: String,
        /// Component that subscribes.
        subscription: String,
    },
    /// All modules are ready and got the command to start, except those that stay down.
    Running {
        /// Modules that stay down.
        down: Vec<String>,
    },
    /// A component has done its work; pending data is still processed.
    Finished {
        /// Module.
        module: String,
        /// Component.
        component: String,
    },
    /// Work that descends from the component that has finished made no progress, and is cut off.
    CutOff {
        /// Work that was cut off.
        work: CutOff,
    },
    /// The modules are stopped from here on.
    Stopping,
    /// A call of a component takes long; reported again when it has taken twice as long.
    Busy {
        /// Module.
        module: String,
        /// The call.
        call: CallPlace,
        /// Duration so far, in seconds.
        for_s: u64,
        /// Phase of the run: at the start and at the end, the whole run waits for the call.
        when: When,
    },
    /// A module is not ready and does not report what it does.
    Waiting {
        /// Module.
        module: String,
        /// Its process.
        pid: u32,
        /// Duration so far, in seconds.
        for_s: u64,
    },
    /// A process was suspended by SIGSTOP: it does nothing, and has not ended.
    Suspended {
        /// Module.
        module: String,
        /// Its process.
        pid: u32,
    },
    /// The module continues after a suspension.
    Continued {
        /// Module.
        module: String,
    },
    /// A suspension of the launcher was requested (Ctrl-Z) and refused: the modules would continue
    /// without it.
    NotSuspended,
    /// A process has ended.
    Ended {
        /// Cause and status of the end.
        #[serde(flatten)]
        death: Death,
        /// True if its end was requested, for another reason than an [`Event::Fault`].
        expected: bool,
    },
    /// A process is started again: it has ended, or ends because a process of its `restart_with`
    /// is restarted.
    Restarts {
        /// Module.
        module: String,
        /// Pause until then, in milliseconds.
        after_ms: u64,
    },
    /// A restarted module is ready, and works again.
    Recovered {
        /// Module.
        module: String,
        /// Its new process.
        pid: u32,
        /// Time since the end of the old one, in milliseconds.
        after_ms: u64,
    },
    /// A module was not ready in time; its process is ended.
    NotReady {
        /// Module.
        module: String,
        /// The time that it had, in milliseconds.
        within_ms: u64,
        /// The call that it was in, if it reported one.
        call: Option<CallPlace>,
    },
    /// A module has ended and is not started again; the others continue.
    Down {
        /// Module.
        module: String,
        /// Reason, for people.
        why: String,
    },
    /// A switch to a mode was requested and began.
    ModeRequested {
        /// The mode before; none at the start.
        from: Option<String>,
        /// The mode.
        mode: String,
        /// Source of the request, for people.
        cause: String,
    },
    /// A switch to a mode was requested and refused.
    ModeRefused {
        /// The mode.
        mode: String,
        /// Source of the request, for people.
        cause: String,
        /// Reason, for people.
        why: String,
    },
    /// A mode could not be entered.
    ModeFailed {
        /// The mode.
        mode: String,
        /// Reason, for people.
        why: String,
        /// The mode that is tried next, or entered again. `None`: there is no other one, so the
        /// mode is entered without the components that failed.
        next: Option<String>,
    },
    /// A mode was entered: its components are active.
    ModeEntered {
        /// The mode before the switch; none at the start.
        from: Option<String>,
        /// The mode.
        mode: String,
        /// Source of the request, for people.
        cause: String,
        /// Time since the request, in milliseconds.
        after_ms: u64,
        /// Its components that are not active.
        without: Vec<String>,
    },
    /// A component has become active or inactive, or failed to.
    Transition {
        /// Component.
        component: String,
        /// The state that was requested.
        active: bool,
        /// Duration of its call, in milliseconds.
        took_ms: u64,
        /// Reason of the failure.
        error: Option<String>,
    },
    /// A module violates a limit of the graph: a call hangs or takes too long, a rate is out of
    /// range, a deadline is missed, or its process uses too much.
    Fault {
        /// Module.
        module: String,
        /// The exceeded limit, with the figure and the key, for people.
        text: String,
        /// Reaction: `event`, `restart`, `stop`, or a mode.
        reaction: String,
    },
    /// A change of a parameter during the run was made or refused.
    ParameterChanged {
        /// Component.
        component: String,
        /// Parameter.
        name: String,
        /// New value, as JSON or plain text.
        value: String,
        /// Mode that sets it; `None` for a command.
        mode: Option<String>,
        /// Reason why it was not changed.
        error: Option<String>,
    },
    /// A process was killed, because a time-out passed, a call hangs, or the user did not wait.
    Killed {
        /// Module.
        module: String,
        /// Reason, for people.
        why: String,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Spawned { module, pid } => {
                write!(f, "{} started as process {pid}", Called(module))
            }
            Self::Placed { module, place } => write!(f, "{} {place}", Called(module)),
            Self::OtherBuild { module, program, build } => {
                let build = if build.is_empty() { "an earlier release" } else { build };
                write!(
                    f,
                    "warning: {}: its program {program} is of another build ({build}) than this \
                     command ({}); use both of one installation, or correct DRIVELINE_HOST",
                    Called(module),
                    build_id()
                )
            }
            Self::OtherGraph { module } => write!(
                f,
                "warning: {}: its graph, parameter files or `--set` differ from those of this \
                 command; start both with the same",
                Called(module)
            ),
            Self::Refused { module, reason } => {
                write!(f, "warning: {}: refused a process at its socket: {reason}", Called(module))
            }
            Self::Unmatched { edge } => write!(f, "warning: {edge}"),
            Self::Matched { topic, publisher, subscription } => {
                write!(f, "topic '{topic}': '{subscription}' receives from '{publisher}' now")
            }
            Self::Running { down } if down.is_empty() => {
                f.write_str("all modules are ready; running")
            }
            Self::Running { down } => {
                let names: Vec<_> = down.iter().map(|module| format!("'{module}'")).collect();
                let stay = if down.len() == 1 { "stays" } else { "stay" };
                write!(f, "running without {}, which {stay} down", names.join(", "))
            }
            Self::Finished { module, component } => {
                write!(f, "component '{component}' in module '{module}' has finished; the run ends")
            }
            Self::CutOff { work } => write!(f, "{work}; it is cut off"),
            Self::Stopping => f.write_str("stopping"),
            Self::Busy { module, call, for_s, when } => {
                if *when != When::Running {
                    write!(f, "waiting for {}: ", Called(module))?;
                }
                match call.call {
                    Call::Load => {
                        write!(f, "library {} has been loading for {for_s} s", call.component)
                    }
                    _ => write!(
                        f,
                        "component '{}' has been in {} for {for_s} s",
                        call.component,
                        call.inside()
                    ),
                }
            }
            Self::Waiting { module, pid: 0, for_s } => {
                write!(f, "waiting for {} for {for_s} s: it has not connected", Called(module))
            }
            Self::Waiting { module, pid, for_s } => {
                write!(
                    f,
                    "waiting for {} for {for_s} s: process {pid} says nothing",
                    Called(module)
                )
            }
            Self::Suspended { module, pid } => {
                write!(
                    f,
                    "{} is suspended and does nothing; `kill -CONT {pid}` lets it go on",
                    Called(module)
                )
            }
            Self::Continued { module } => write!(f, "{} goes on", Called(module)),
            Self::NotSuspended => f.write_str(
                "a run cannot be suspended: the modules would go on without a reader; Ctrl-C ends \
                 it",
            ),
            Self::Ended { death, expected: true } => {
                write!(f, "{} has ended ({})", Called(&death.module), death.how)
            }
            Self::Ended { death, expected: false } => death.fmt(f),
            Self::Restarts { module, after_ms: 0 } => {
                write!(f, "{} is started again", Called(module))
            }
            Self::Restarts { module, after_ms } => {
                write!(f, "{} is started again in {} s", Called(module), *after_ms as f64 / 1e3)?;
                if is_gateway(module) {
                    f.write_str("; until then nothing that it carries comes or goes")
                } else {
                    Ok(())
                }
            }
            Self::Recovered { module, pid, after_ms } => {
                write!(
                    f,
                    "{} works again as process {pid}, {after_ms} ms after its end",
                    Called(module)
                )
            }
            Self::NotReady { module, within_ms, call } => {
                write!(
                    f,
                    "{} was not ready within {} s (`ready_within_ms`)",
                    Called(module),
                    *within_ms as f64 / 1e3
                )?;
                call.as_ref().map_or(Ok(()), |call| write!(f, ": it was in {call}"))
            }
            Self::ParameterChanged { component, name, value, mode, error } => {
                match error {
                    None => write!(f, "parameter {component}.{name} is {value} now")?,
                    Some(error) => write!(f, "parameter {component}.{name} stays: {error}")?,
                }
                mode.as_ref().map_or(Ok(()), |mode| write!(f, " (mode '{mode}')"))
            }
            Self::Fault { module, text, reaction } => {
                write!(f, "{}: {text}", Called(module))?;
                match reaction.as_str() {
                    "event" => Ok(()),
                    "restart" => f.write_str("; it is started again"),
                    "stop" => f.write_str("; the run ends"),
                    other => write!(f, "; {other} is requested"),
                }
            }
            Self::Down { module, why } => {
                write!(f, "{} stays down: {why}; the others go on", Called(module))
            }
            Self::ModeRequested { mode, cause, .. } => {
                write!(f, "mode '{mode}' is requested by {cause}")
            }
            Self::ModeRefused { mode, cause, why } => {
                write!(f, "mode '{mode}', requested by {cause}, is refused: {why}")
            }
            Self::ModeFailed { mode, why, next } => {
                match next {
                    Some(next) => {
                        write!(f, "mode '{mode}' is not entered: {why}; next is mode '{next}'")
                    }
                    // There is no other mode.
                    None => write!(f, "mode '{mode}' is incomplete: {why}"),
                }
            }
            Self::ModeEntered { from, mode, cause, after_ms, without } => {
                if from.as_ref() == Some(mode) {
                    write!(f, "mode '{mode}' stays, {after_ms} ms after the request")?;
                } else {
                    write!(f, "mode '{mode}' entered {after_ms} ms after the request by {cause}")?;
                }
                if without.is_empty() {
                    return Ok(());
                }
                let names: Vec<_> = without.iter().map(|c| format!("'{c}'")).collect();
                write!(f, "; without {}: not ready", names.join(", "))
            }
            Self::Transition { component, active, took_ms, error } => {
                let state = if *active { "active" } else { "inactive" };
                match error {
                    None => write!(f, "component '{component}' is {state} (took {took_ms} ms)"),
                    Some(e) => write!(f, "component '{component}' failed to become {state}: {e}"),
                }
            }
            Self::Killed { module, why } => write!(f, "{} {why}: killed", Called(module)),
        }
    }
}

/// Reason for the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// A component finished.
    Finished {
        /// Component.
        component: String,
    },
    /// The end was requested.
    Interrupted,
    /// A module ended unexpectedly.
    Died(Death),
    /// Modules were not ready in time.
    NotReady {
        /// These modules, and the activity of each, for people.
        modules: Vec<String>,
    },
}

/// A module that was down when the run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Down {
    /// Module.
    pub module: String,
    /// Its last end; none if it never started.
    pub death: Option<Death>,
    /// Reason why it was not started again, for people.
    pub why: String,
}

/// Work of a component that made no progress after its source had finished, and was cut off.
/// `Display` is for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CutOff {
    /// Component.
    pub component: String,
    /// Calls in progress.
    pub running: u32,
    /// Topics with unread samples, and the number of these samples.
    pub unread: Vec<(String, u64)>,
    /// True if its module did not report its work.
    pub silent: bool,
}

impl fmt::Display for CutOff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "component '{}' had work left", self.component)?;
        if self.silent {
            return f.write_str(": its module did not respond");
        }
        let mut parts = Vec::new();
        if self.running > 0 {
            let s = if self.running == 1 { "" } else { "s" };
            parts.push(format!("{} call{s} in progress", self.running));
        }
        parts.extend(self.unread.iter().map(|(topic, n)| format!("{n} unread of topic '{topic}'")));
        if parts.is_empty() { Ok(()) } else { write!(f, ": {}", parts.join(", ")) }
    }
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Reason for its end.
    pub end: End,
    /// Modules that had to be killed when the run was to end.
    pub killed: Vec<String>,
    /// Modules that had failed and were down when the run ended.
    pub down: Vec<Down>,
    /// Lines of the account that could not be read.
    pub unreadable: u64,
    /// Connections of the graph between ends of host topics that were missing when the run ended:
    /// never made, or not restored after a restart.
    pub unconnected: Vec<Unconnected>,
    /// Modules that were suspended (SIGSTOP) when the run was to end.
    pub suspended: Vec<String>,
    /// Work that was cut off after a component had finished.
    pub cut_off: Vec<CutOff>,
}
