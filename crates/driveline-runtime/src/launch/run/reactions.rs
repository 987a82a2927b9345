// SPDX-License-Identifier: Apache-2.0
//! Reactions of a run to a module that violates a limit of the graph.

use super::super::child::Child;
use super::super::death::Death;
use super::super::judge::Conditions;
use super::super::modes::ModeControl;
use super::super::supervisor::{Input, State};
use super::super::usage::{self, Usage};
use super::super::{End, Event};
use super::{Launcher, Phase, Program};
use crate::account::Record;
use driveline_graph::Reaction;
use std::time::Instant;

/// Reaction, and its reason.
struct Fault {
    text: String,
    reaction: Reaction,
    /// True if a call hangs: a request to end would have no effect.
    hangs: bool,
}

impl<'a> Launcher<'a> {
    /// Checks the heartbeats and the usage of all modules.
    pub(super) fn look_at_modules(&mut self, now: Instant) {
        if matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        for process in 0..self.processes.len() {
            for fault in self.faults_of(process, now) {
                self.react(process, fault);
            }
        }
    }

    fn faults_of(&mut self, process: usize, now: Instant) -> Vec<Fault> {
        let runs = matches!(self.phase, Phase::Running | Phase::Settling);
        let time = now.saturating_duration_since(self.began);
        let ready = matches!(self.supervisor.state(process), State::Ready { .. });
        let p = &mut self.processes[process];
        let (Program::Module(module), Some(child)) =
            (p.program, p.child.as_mut().filter(|c| c.ended.is_none() && !c.end_requested))
        else {
            return Vec::new();
        };
        let event = |text| Fault { text, reaction: Reaction::Event, hangs: false };
        let mut faults: Vec<Fault> =
            p.watching.take(module, child).err().map(event).into_iter().collect();
        let (mode, asked_at) = self.modes.as_ref().and_then(ModeControl::in_force).unzip();
        let on = Conditions {
            suspended: child.suspended,
            ending: !matches!(self.phase, Phase::Running),
            mode,
            asked_at: asked_at.unwrap_or_default(),
            runs,
            stood_still: false,
        };
        if let Some((beats, judge)) = p.watching.beats.as_mut().filter(|_| runs && ready)
            && let Some(seen) = beats.read()
        {
            let modes = self.modes.as_ref();
            judge.note_inactive(|component| modes.is_some_and(|m| m.is_inactive(component)));
            for found in judge.look(time, &seen, on) {
                let (text, hangs) = (found.what.to_string(), found.what.hangs());
                p.observed.fault(found.what.component(), &text, now);
                faults.push(Fault { text, hangs, reaction: found.reaction });
            }
        }
        let limits = &module.watch.limits;
        let limited =
            limits.memory.is_some() || limits.threads.is_some() || limits.descriptors.is_some();
        if limited && p.watching.next_usage.is_none_or(|at| now >= at) {
            p.watching.next_usage = Some(now + usage::EVERY);
            let used = Usage::of(child.pid(), limits);
            let reaction = &module.watch.on_limit;
            let exceeding = p.watching.reported.due(time, &used, limits, reaction, on);
            let fault = |(text, reaction)| Fault { text, reaction, hangs: false };
            faults.extend(exceeding.into_iter().map(fault));
        }
        faults
    }

    /// Handles a record that shows that a module has reached its limit on held samples.
    pub(super) fn holds_too_much(&mut self, process: usize, record: &Record) {
        let Record::Held { component, input, topic, held, end: None, .. } = record else { return };
        let Program::Module(module) = self.processes[process].program else { return };
        if module.watch.limits.max_held.is_none() || matches!(self.phase, Phase::Stopping { .. }) {
            return;
        }
        let text = format!(
            "component '{component}' keeps {held} samples of topic '{topic}', as many as its input \
             '{input}' may hold, and gets no more (`limits: max_held`)"
        );
        let reaction = module.watch.on_limit.clone();
        self.react(process, Fault { text, reaction, hangs: false });
    }

    fn react(&mut self, process: usize, fault: Fault) {
        let Fault { text, reaction, hangs } = fault;
        let state = self.supervisor.state(process);
        if !matches!(state, State::Starting { .. } | State::Ready { .. }) {
            // Another fault has ended it already.
            return;
        }
        let module = self.name(process);
        self.sink.event(&Event::Fault {
            module: module.clone(),
            text: text.clone(),
            reaction: reaction.to_string(),
        });
        let (when, p) = (self.when(), &mut self.processes[process]);
        p.past.failed(text.clone());
        let how = match reaction {
            Reaction::Stop => format!("stopped the run, as the graph declares: {text}"),
            _ => format!("was ended because of a fault: {text}"),
        };
        let death = Death {
            module,
            pid: p.child.as_ref().map_or(0, Child::pid),
            how,
            exit_code: None,
            signal: None,
            when,
            cause: None,
            help: None,
        };
        match reaction {
            Reaction::Event => {}
            Reaction::Mode(mode) => {
                self.enter_mode(&mode, format!("a fault of module '{}': {text}", death.module));
            }
            Reaction::Restart => {
                p.late = Some(death);
                p.watching.faulty = true;
                if hangs {
                    self.kill(process, "hangs");
                }
                self.step(Input::Faulty { process, killed: hangs });
            }
            Reaction::Stop => {
                if !matches!(self.end, Some(End::Died(_))) {
                    self.end = Some(End::Died(death));
                }
                self.stop();
            }
        }
    }
}
