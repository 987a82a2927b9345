// SPDX-License-Identifier: Apache-2.0
//! Keys for limits of a module (resources, duration of calls, rates), and for the reactions to
//! violations.

use super::diagnostic::{Diagnostic, suggest};
use super::files::{Files, Part};
use super::model::OnLauncherLost;
use super::model::{
    ComponentSpec, ExecutorSpec, InputSpec, LimitsSpec, ModuleSpec, OutputSpec, RateSpec, Reaction,
};
use super::modes::refuses_reactions;
use super::resolve::adds_main_executor;
use super::resolved::{ResolvedBudget, ResolvedRate, ResolvedWatch};
use super::units::Milliseconds;
use std::time::Duration;

/// Default time after which a running call is reported as hanging.
pub const HANG: Duration = Duration::from_secs(3);

/// Threads that every module has, in addition to those of its executors: main, account, watch. A
/// module with topics at host reach has one more.
const THREADS_OF_RUNTIME: u32 = 3;

/// Smallest memory limit of a module, in bytes; less is a number whose unit was forgotten.
const SMALLEST_MEMORY: u64 = 64 << 10;

pub(super) fn watch(spec: &ModuleSpec) -> ResolvedWatch {
    let declared = spec.hang_ms.is_some() || spec.on_hang.is_some();
    let time = spec.hang_ms.and_then(Milliseconds::duration).unwrap_or(HANG);
    ResolvedWatch {
        hang: declared.then(|| (time, spec.on_hang.clone().unwrap_or_default())),
        limits: spec.limits,
        on_limit: spec.on_limit.clone().unwrap_or_default(),
    }
}

pub(super) fn budget(module: &ModuleSpec, spec: &ComponentSpec) -> Option<ResolvedBudget> {
    let time = spec.budget_ms.and_then(Milliseconds::duration)?;
    let reaction = spec.on_overrun.as_ref().or(module.on_overrun.as_ref());
    Some(ResolvedBudget { time, reaction: reaction.cloned().unwrap_or_default() })
}

pub(super) fn on_deadline(module: &ModuleSpec, input: &InputSpec) -> Option<Reaction> {
    let own = if let InputSpec::Detailed(d) = input { d.on_deadline.as_ref() } else { None };
    own.or(module.on_deadline.as_ref()).cloned()
}

pub(super) fn rate(module: &ModuleSpec, output: &OutputSpec) -> Option<ResolvedRate> {
    let OutputSpec::Detailed(d) = output else { return None };
    let RateSpec { min, max } = d.rate_hz?;
    let reaction = d.on_rate.as_ref().or(module.on_rate.as_ref());
    Some(ResolvedRate { min, max, reaction: reaction.cloned().unwrap_or_default() })
}

/// Returns the reactions, each with the path of its key.
fn reactions(module: &ModuleSpec) -> Vec<(Vec<&str>, &Reaction)> {
    let w = module;
    let of_module = [
        ("on_hang", &w.on_hang),
        ("on_overrun", &w.on_overrun),
        ("on_deadline", &w.on_deadline),
        ("on_rate", &w.on_rate),
        ("on_limit", &w.on_limit),
    ];
    let mut all: Vec<_> =
        of_module.into_iter().filter_map(|(key, r)| Some((vec![key], r.as_ref()?))).collect();
    for (name, c) in &module.components {
        let path = |rest: &[&'static str]| [&["components", name.as_str()][..], rest].concat();
        all.extend(c.on_overrun.as_ref().map(|r| (path(&["on_overrun"]), r)));
        for (port, input) in &c.inputs {
            if let InputSpec::Detailed(d) = input {
                let at = || vec!["components", name, "inputs", port, "on_deadline"];
                all.extend(d.on_deadline.as_ref().map(|r| (at(), r)));
            }
        }
        for (port, output) in &c.outputs {
            if let OutputSpec::Detailed(d) = output {
                let at = || vec!["components", name, "outputs", port, "on_rate"];
                all.extend(d.on_rate.as_ref().map(|r| (at(), r)));
            }
        }
    }
    all
}

/// Threads of the executors of a module.
fn executor_threads(spec: &ModuleSpec) -> u32 {
    let declared = spec.executors.values().map(|e| e.threads).sum::<u32>();
    let main = if adds_main_executor(spec) { ExecutorSpec::default().threads } else { 0 };
    declared.saturating_add(main)
}

/// Reports reactions that lead to unknown modes or to modes that accept no reactions, reactions
/// without the limit that they belong to (except for deadlines), limits on memory and threads that
/// every such module exceeds, rates without a valid range, and inputs that may hold more than the
/// limit of their module.
pub(super) fn check(files: &mut Files, specs: &[(String, usize, ModuleSpec)], modes: &[String]) {
    for (module, document, spec) in specs {
        let refused: Vec<_> = reactions(spec)
            .into_iter()
            .filter_map(|(path, reaction)| {
                let Reaction::Mode(mode) = reaction else { return None };
                Some((path, refuses_reactions(files, mode)?))
            })
            .collect();
        let mut report = |path: &[&str], message: String, help: String| {
            let path: Vec<_> =
                ["modules", module].into_iter().chain(path.iter().copied()).collect();
            let place = files.place(*document, &path, Part::Value);
            files.error(Diagnostic::error(message).at(place).help(help));
        };
        for (path, reaction) in reactions(spec) {
            if let Some((message, help)) = unknown_mode(reaction, modes) {
                report(&[&path[..], &["mode"]].concat(), message, help);
            }
        }
        for (path, (message, help)) in refused {
            report(&[&path[..], &["mode"]].concat(), message, help);
        }
        if spec.on_limit.is_some() && spec.limits == LimitsSpec::default() {
            report(
                &["on_limit"],
                format!("`{module}` has a reaction and no `limits` that could be exceeded"),
                "add `limits: {memory: …}`, or remove `on_limit`".into(),
            );
        }
        if let Some(memory) = spec.limits.memory.filter(|m| m.0 < SMALLEST_MEMORY) {
            report(
                &["limits", "memory"],
                format!("every process needs more than `memory: {}` (bytes)", memory.0),
                match memory.0 {
                    0..1024 => format!("write the unit, such as `{} MiB`", memory.0),
                    _ => "write some MiB, such as `500 MiB`".to_owned(),
                },
            );
        }
        let needed = THREADS_OF_RUNTIME.saturating_add(executor_threads(spec));
        if let Some(threads) = spec.limits.threads.filter(|threads| *threads < needed) {
            report(
                &["limits", "threads"],
                format!("`{module}` always has {needed} threads, more than `threads: {threads}`"),
                format!(
                    "allow {needed} ({THREADS_OF_RUNTIME} of the runtime, the others of its \
                     executors) and those that its components start"
                ),
            );
        }
        if spec.on_overrun.is_some() && spec.components.values().all(|c| c.budget_ms.is_none()) {
            report(
                &["on_overrun"],
                format!("no component of `{module}` has a `budget_ms` that could be overrun"),
                "add `budget_ms` to a component, or remove `on_overrun`".into(),
            );
        }
        let has_rate =
            |output: &OutputSpec| matches!(output, OutputSpec::Detailed(d) if d.rate_hz.is_some());
        let mut outputs = spec.components.values().flat_map(|c| c.outputs.values());
        if spec.on_rate.is_some() && !outputs.any(has_rate) {
            report(
                &["on_rate"],
                format!("no output of `{module}` has a `rate_hz`"),
                "add `rate_hz: {min: …}` to an output, or remove `on_rate`".into(),
            );
        }
        for (name, c) in &spec.components {
            if c.on_overrun.is_some() && c.budget_ms.is_none() {
                report(
                    &["components", name, "on_overrun"],
                    format!("`{name}` has a reaction and no `budget_ms` that could be overrun"),
                    "add `budget_ms`, or remove `on_overrun`".into(),
                );
            }
            for (port, output) in &c.outputs {
                let OutputSpec::Detailed(d) = output else { continue };
                let path = ["components", name, "outputs", port, "rate_hz"];
                match d.rate_hz {
                    Some(RateSpec { min: None, max: None }) => report(
                        &path,
                        "`rate_hz` has neither `min` nor `max`".into(),
                        "write `rate_hz: {min: 9, max: 11}`, or one of them".into(),
                    ),
                    Some(RateSpec { min: Some(min), max: Some(max) }) if min > max => report(
                        &path,
                        format!("`min: {min}` is more than `max: {max}`"),
                        "exchange them".into(),
                    ),
                    None if d.on_rate.is_some() => report(
                        &["components", name, "outputs", port, "on_rate"],
                        format!("the output `{port}` has a reaction and no `rate_hz`"),
                        "add `rate_hz: {min: …}`, or remove `on_rate`".into(),
                    ),
                    _ => {}
                }
            }
        }
    }
}

/// Returns the reaction of the modules when the launcher is gone; reports a mode that the graph
/// does not have, or that accepts no reactions.
pub(super) fn on_launcher_lost(files: &mut Files, modes: &[String]) -> OnLauncherLost {
    let Some((document, lost)) =
        files.on_launcher_lost.as_ref().map(|l| (l.document, l.spec.clone()))
    else {
        return OnLauncherLost::default();
    };
    if let OnLauncherLost::Mode(name) = &lost
        && let Some((message, help)) = unknown_mode(&Reaction::Mode(name.clone()), modes)
            .map(|(message, help)| (message, help.replace("event`, `restart` or `", "")))
            .or_else(|| refuses_reactions(files, name))
    {
        let place = files.place(document, &["on_launcher_lost", "mode"], Part::Value);
        files.error(Diagnostic::error(message).at(place).help(help));
    }
    lost
}

/// Describes an unknown mode in a reaction, with the remedy.
pub(super) fn unknown_mode(reaction: &Reaction, modes: &[String]) -> Option<(String, String)> {
    let Reaction::Mode(name) = reaction else { return None };
    if modes.contains(name) {
        return None;
    }
    let help = match modes {
        [] => "the graph has no modes; write `event`, `restart` or `stop`".to_owned(),
        modes => suggest(name, "modes", modes.iter().map(String::as_str)),
    };
    Some((format!("there is no mode `{name}`"), help))
}
