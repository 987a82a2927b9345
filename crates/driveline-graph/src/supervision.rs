// SPDX-License-Identifier: Apache-2.0
//! Keys of a module for its start and its restart.

use super::diagnostic::{Diagnostic, suggest};
use super::files::{Files, Part};
use super::model::ModuleSpec;
use super::resolved::{ResolvedModule, ResolvedRestart};
use super::units::Milliseconds;
use std::collections::BTreeMap;
use std::time::Duration;

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

/// Reports references to modules that do not exist, modules that name themselves, and cycles of
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
            for (i, other) in others.iter().enumerate() {
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
                let path = ["modules", name, key, &i.to_string()];
                let place = files.place(*document, &path, Part::Value);
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

/// Returns a cycle of dependencies, with its first module at both ends, if there is one.
fn circle(depends: &BTreeMap<&str, &[String]>) -> Option<Vec<String>> {
    let mut done = std::collections::BTreeSet::new();
    for start in depends.keys() {
        // Depth first; the path contains each module with the number of its dependencies followed
        // so far.
        let mut path = vec![(*start, 0)];
        while let Some((module, followed)) = path.last_mut() {
            let next = depends.get(*module).and_then(|d| d.get(*followed));
            *followed += 1;
            match next {
                // Reported separately.
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
