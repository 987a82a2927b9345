// SPDX-License-Identifier: Apache-2.0
//! Handles a process that ends, cannot start, or does not become ready: restarts it, lets the
//! module stay down, or ends the run.

use super::super::child::Child;
use super::super::death::{Death, When, help, how_it_ended, was_asked_to_end};
use super::super::gateway::is_gateway;
use super::super::supervisor::{DownReason, Input};
use super::super::{Down, End, Event};
use super::program::{Program, feeders};
use super::{Launcher, Phase, Process};
use crate::account::Record;
use crate::host;
use driveline_graph::{OnExhausted, RestartPolicy};
use rustix::process::Signal;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::time::Instant;

impl Launcher<'_> {
    /// Handles a process that the system did not start.
    pub(super) fn not_started(&mut self, process: usize, source: &io::Error) {
        let how = match self.processes[process].program {
            _ if self.only_listens(process) => format!("cannot connect to this command: {source}"),
            Program::Gateway(gateway) => {
                format!("could not be started with {}: {source}", gateway.program.display())
            }
            Program::Module(_) => {
                format!("could not be started with {}: {source}", self.options.host.display())
            }
        };
        let death = Death {
            module: self.name(process),
            pid: 0,
            how,
            exit_code: None,
            signal: None,
            when: self.when(),
            cause: None,
            help: None,
        };
        self.sink.event(&Event::Ended { death: death.clone(), expected: false });
        self.processes[process].past.failed(death.to_string());
        self.processes[process].death = Some(death);
    }

    pub(super) fn not_ready(&mut self, process: usize) {
        let within = match self.processes[process].program {
            Program::Module(module) => module.ready_within,
            Program::Gateway(_) => None,
        };
        let within_ms = u64::try_from(within.unwrap_or(self.options.ready_within).as_millis())
            .unwrap_or(u64::MAX);
        let module = self.name(process);
        let p = &mut self.processes[process];
        let call = p.child.as_ref().and_then(Child::busy_call).cloned();
        let doing = call.as_ref().map(|call| format!("it was in {call}"));
        self.sink.event(&Event::NotReady { module: module.clone(), within_ms, call });
        p.late = Some(Death {
            module,
            pid: p.child.as_ref().map_or(0, Child::pid),
            how: format!("was not ready within {} s", within_ms as f64 / 1e3),
            exit_code: None,
            signal: None,
            when: When::Starting,
            cause: doing,
            help: None,
        });
    }

    pub(super) fn stays_down(&mut self, process: usize, why: DownReason, others_go_on: bool) {
        let module = self.name(process);
        let p = &self.processes[process];
        // The process was ended on request, because another one restarted (`restart_with`), and
        // the run ended before it was started again.
        if why == DownReason::RunStops && p.death.is_none() {
            return;
        }
        let why = match (why, p.program) {
            (DownReason::Exhausted, Program::Module(m)) => {
                let times = match m.restart.max.unwrap_or(0) {
                    1 => "once".to_owned(),
                    n => format!("{n} times"),
                };
                let window = m.restart.window.as_secs();
                format!("it was restarted {times} within {window} s (`restart: max`)")
            }
            (DownReason::Dependency(other), _) => {
                format!("it depends on '{}', which is down", self.processes[other].program.name())
            }
            (DownReason::RunStops, _) => "the run ended before it was ready again".to_owned(),
            (_, Program::Module(m)) if m.restart.policy != RestartPolicy::Never => {
                "it ended by itself (`restart: policy`)".to_owned()
            }
            _ => "the graph does not restart it (`restart:`)".to_owned(),
        };
        self.processes[process].past.stays_down(&why);
        self.remove_leftovers();
        let runs = matches!(self.phase, Phase::Running | Phase::Settling);
        if others_go_on && (runs || self.continues_without(process)) {
            self.sink.event(&Event::Down { module: module.clone(), why: why.clone() });
            self.service_manager.status(&format!("running without module '{module}': {why}"));
        }
        if self.is_running() {
            self.react_to_down(process, &why);
        }
        self.down.push(Down { module, death: self.processes[process].death.clone(), why });
    }

    pub(super) fn continues_without(&self, process: usize) -> bool {
        let Program::Module(module) = self.processes[process].program else { return false };
        module.restart.on_exhausted == Some(OnExhausted::ContinueWithout)
    }

    /// Ends the run because `process` stays down.
    pub(super) fn end_because_of(&mut self, process: usize) {
        if matches!(self.end, Some(End::Died(_) | End::NotReady { .. })) {
            return;
        }
        // A module that was never started has no end of its own: the end of the module that it
        // depends on is the cause.
        let death = self.processes[process]
            .death
            .clone()
            .or_else(|| self.down.iter().find_map(|d| d.death.clone()));
        if let Some(death) = death.filter(|_| !self.processes[process].is_alive()) {
            self.end = Some(End::Died(death));
            return;
        }
        let doing = |p: &Process<'_>| match p.child.as_ref().and_then(Child::busy_call) {
            Some(call) => format!("{} ({call})", p.program.name()),
            None => p.program.name().to_owned(),
        };
        let late =
            |p: &&Process<'_>| p.child.as_ref().is_some_and(|c| c.ended.is_none() && !c.ready);
        self.end = Some(End::NotReady {
            modules: self.processes.iter().filter(late).map(doing).collect(),
        });
    }

    pub(super) fn death(&mut self, process: usize, records: &mut Vec<Record>) -> io::Result<()> {
        let Some(child) = &mut self.processes[process].child else { return Ok(()) };
        let Some(status) = child.reap(self.sink, records)? else { return Ok(()) };
        let when = self.when();
        // Its last records may still wait in the socket.
        for record in records.drain(..) {
            self.record(process, record);
        }
        self.changes_lost(process);
        let stopping = matches!(self.phase, Phase::Stopping { .. });
        let with_the_run =
            matches!((self.phase, &self.end), (Phase::Stopping { .. }, Some(End::Interrupted)));
        let Some(c) = &mut self.processes[process].child else { return Ok(()) };
        // The process has ended itself, because a component did not return within the process's own
        // time-out, or because it was asked twice to stop. The launcher's time-out usually ends
        // first (`STOP_BEHIND`); not if the process was asked to stop by others before.
        let gave_up = c.end_requested && status.code() == Some(i32::from(host::exit::STUCK));
        c.killed |= gave_up;
        if gave_up && stopping && !self.killed.contains(&c.module) {
            self.killed.push(c.module.clone());
        }
        let killed = c.killed && (gave_up || status.signal() == Some(Signal::KILL.as_raw()));
        // A module whose end was requested still fails if it ends in an unexpected way. The signal
        // itself ends it only before it has installed its handlers. A program that ends all
        // processes of a run at once, such as systemd, has requested its end as well.
        let expected = killed
            || (c.end_requested || with_the_run) && (status.success() || was_asked_to_end(status));
        let set: String = self
            .options
            .set
            .iter()
            .map(|s| format!(" --set '{}'", s.replace('\'', "'\\''")))
            .collect();
        let (host, file) = (self.options.host.display(), self.graph.file.display());
        let feeders: String = feeders(self.graph, &c.module)
            .into_iter()
            .map(|module| format!(" --module {module}"))
            .collect();
        let mut gdb = format!("gdb --args {host} run --graph {file} --module {}{set}", c.module);
        if !feeders.is_empty() {
            gdb += &format!(
                "; what it reads comes from `driveline run {file}{feeders}{set}`, in another shell"
            );
        }
        let from_outside = c.cause_from_outside();
        let how = if let Some(hung) = &c.hung {
            hung.clone()
        } else if killed {
            "was killed because it did not stop".to_owned()
        } else if expected && was_asked_to_end(status) {
            "was asked to end while it was still starting".to_owned()
        } else if from_outside.is_some() && status.signal() == Some(Signal::KILL.as_raw()) {
            // Its container reports the cause, which the signal alone does not show.
            "was killed by SIGKILL".to_owned()
        } else {
            how_it_ended(status)
        };
        let death = Death {
            module: c.module.clone(),
            pid: c.pid(),
            how,
            exit_code: status.code(),
            signal: status.signal(),
            when,
            // A killed process has a cause only if the launcher no longer waits for its end
            // (`is_lost`): it is unknown whether the signal has reached it.
            cause: if killed {
                from_outside.filter(|_| c.is_lost())
            } else {
                from_outside
                    .or_else(|| c.words.cause(status, c.end_requested, is_gateway(&c.module)))
            },
            help: help(status, c.pid(), &gdb),
        };
        let p = &mut self.processes[process];
        let faulty = p.watching.faulty && !stopping;
        let shown = match p.late.as_ref().filter(|_| faulty) {
            Some(late) => Death { how: late.how.clone(), ..death.clone() },
            None => death.clone(),
        };
        p.ended_at = Some(Instant::now());
        p.death = p.late.take().or_else(|| (!expected).then(|| death.clone()));
        if let Some(death) = &p.death {
            p.past.failed(death.to_string());
        }
        self.sink.event(&Event::Ended { death: shown, expected: expected && !faulty });
        // The first cause counts, but a crash at the end matters more than the request to end.
        if stopping && !expected && !matches!(self.end, Some(End::Died(_) | End::NotReady { .. })) {
            self.end = Some(End::Died(death));
        }
        if !stopping {
            self.forget_lost_matches(process);
        }
        let _ = self.switch(super::super::modes::Input::ModuleEnded(process));
        self.step(Input::Ended { process, ok: status.success() });
        Ok(())
    }
}
