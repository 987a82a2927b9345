// SPDX-License-Identifier: Apache-2.0
//! Keys of a module that say when it starts and whether it is started again.

use super::diagnostic::{Diagnostic, suggest};
use super::files::{Files, Part};
use super::model::ModuleSpec;
use super::resolved::{ResolvedModule, ResolvedRestart};
use super::units::Milliseconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Restart of a module after its process has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestartSpec {
    /// Cases in which it is started again. Default: `on_failure` if `backoff_ms`, `max` or
    /// `window_s` is given, else `never`.
    pub policy: Option<RestartPolicy>,
    /// Pause before the first restart, in milliseconds. It doubles with each failure in a row, up
    /// to 30 s, and is the first again after the module was ready for 1 s. Default: 100.
    #[schemars(range(max = 30_000))]
    pub backoff_ms: Option<u32>,
    /// Number of restarts within `window_s`; a module that fails once more stays down. Default: 5.
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<u32>,
    /// Seconds in which `max` restarts are counted. Default: 60.
    #[schemars(range(min = 1, max = 86_400))]
    pub window_s: Option<u32>,
    /// Reaction when the module stays down. Default: the other modules continue, but a failed start
    /// ends the run.
    pub on_exhausted: Option<OnExhausted>,
}

impl RestartSpec {
    /// A limit of restarts without `policy` asks for restarts.
    fn policy(&self) -> RestartPolicy {
        let limits = [self.backoff_ms, self.max, self.window_s];
        let asks = limits.iter().any(Option::is_some);
        let otherwise = if asks { RestartPolicy::OnFailure } else { RestartPolicy::Never };
        self.policy.unwrap_or(otherwise)
    }
}

/// Cases in which a module is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// It stays down.
    #[default]
    Never,
    /// After a signal, an exit code other than 0, a failed start, or a start that took too long.
    OnFailure,
    /// After every end that the launcher did not ask for.
    Always,
}

/// Reaction to a module that stays down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The run ends.
    Stop,
    /// The other modules go on, also if the graph does not run yet.
    ContinueWithout,
    /// The other modules go on, in this mode.
    Mode(String),
}

/// Reaction of a run's modules when their launcher is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLauncherLost {
    /// Each of them ends by itself, within 6 s.
    #[default]
    Stop,
    /// Each of them enters this mode by itself, and goes on.
    Mode(String),
}

pub(super) fn restart(spec: &ModuleSpec) -> ResolvedRestart {
    let spec = spec.restart.clone().unwrap_or_default();
    ResolvedRestart {
        policy: spec.policy(),
        backoff: Duration::from_millis(u64::from(spec.backoff_ms.unwrap_or(100))),
        max: Some(spec.max.unwrap_or(5)),
        window: Duration::from_secs(u64::from(spec.window_s.unwrap_or(60))),
        on_exhausted: spec.on_exhausted,
    }
}

pub(super) fn ready_within(spec: &ModuleSpec) -> Option<Duration> {
    spec.ready_within_ms.and_then(Milliseconds::duration)
}

/// Reports references to modules that do not exist, modules that name themselves, and circles of
/// `depends_on`.
pub(super) fn check(
    files: &mut Files,
    specs: &[(String, usize, ModuleSpec)],
    modules: &[ResolvedModule],
) {
    for (name, document, spec) in specs {
        for (key, others) in
            [("depends_on", &spec.depends_on), ("restart_with", &spec.restart_with)]
        {
            for other in others {
                let (message, help) = if other == name {
                    (
                        format!("the module `{name}` names itself"),
                        "remove it from the list".to_owned(),
                    )
                } else if specs.iter().any(|(n, ..)| n == other) {
                    continue;
                } else {
                    let names = specs.iter().map(|(n, ..)| n.as_str()).filter(|n| n != name);
                    (format!("there is no module `{other}`"), suggest(other, "modules", names))
                };
                let place = files.place(*document, &["modules", name, key], Part::Value);
                files.error(Diagnostic::error(message).at(place).help(help));
            }
        }
    }
    let depends: BTreeMap<&str, &[String]> =
        modules.iter().map(|m| (m.name.as_str(), m.depends_on.as_slice())).collect();
    let Some(circle) = circle(&depends) else { return };
    let Some((name, document, _)) = specs.iter().find(|(n, ..)| *n == circle[0]) else { return };
    let place = files.place(*document, &["modules", name, "depends_on"], Part::Key);
    let message =
        format!("modules wait for each other and would never start: {}", circle.join(" → "));
    files
        .error(Diagnostic::error(message).at(place).help("remove one `depends_on` of this circle"));
}

/// A circle of dependencies with its first module at both ends, if there is one.
fn circle(depends: &BTreeMap<&str, &[String]>) -> Option<Vec<String>> {
    let mut done = std::collections::BTreeSet::new();
    for start in depends.keys() {
        // Depth first; the path holds each module with the number of its dependencies that were
        // followed.
        let mut path = vec![(*start, 0)];
        while let Some((module, followed)) = path.last_mut() {
            let next = depends.get(*module).and_then(|d| d.get(*followed));
            *followed += 1;
            match next {
                // Reported by itself.
                Some(next) if next == *module => {}
                Some(next) if path.iter().any(|(m, _)| m == next) => {
                    let at = path.iter().position(|(m, _)| m == next)?;
                    return Some(
                        path[at..]
                            .iter()
                            .map(|(m, _)| (*m).to_owned())
                            .chain([next.clone()])
                            .collect(),
                    );
                }
                Some(next) if !done.contains(next.as_str()) => path.push((next, 0)),
                Some(_) => {}
                None => {
                    done.insert(path.pop()?.0);
                }
            }
        }
    }
    None
}
