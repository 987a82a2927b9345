// SPDX-License-Identifier: Apache-2.0
//! Unused keys of a scenario. Silently ignoring them would measure something else.

use super::{CaseSpec, MeasureSpec, RunSpec, Scenario, Vary};
use serde::Serialize;
use serde_json::{Map, Value};

/// Keys of a case that apply to a chain.
const OF_CHAINS: [&str; 10] = [
    "rate_hz",
    "reach",
    "cpus",
    "wait",
    "reliability",
    "depth",
    "priority",
    "deployment",
    "driveline_edges",
    "systems",
];
/// Keys that each of several links can set for itself.
pub(super) const OF_LINKS: [&str; 13] = [
    "size",
    "rate_hz",
    "subscribers",
    "copies",
    "reach",
    "wait",
    "take",
    "payload",
    "reliability",
    "depth",
    "processing_us",
    "priority",
    "cpus",
];
/// Keys of a case with `measure`. A case that measures `same_thread` also has `reach`.
pub(super) const OF_MEASURES: [&str; 5] = ["measure", "size", "priority", "cpus", "systems"];
/// Keys that a case with a workload can set for itself.
pub(super) const OF_WORKLOADS: [&str; 3] = ["workload", "deployment", "systems"];

/// Returns the keys that a part of a scenario sets.
fn said(part: &impl Serialize) -> Vec<String> {
    let says = |v: &Value| {
        !(v.is_null()
            || v.as_array().is_some_and(Vec::is_empty)
            || v.as_object().is_some_and(Map::is_empty))
    };
    let Ok(Value::Object(part)) = serde_json::to_value(part) else { return Vec::new() };
    part.into_iter().filter(|(_, value)| says(value)).map(|(name, _)| name).collect()
}

/// Returns the first key of a part that is not used.
pub(super) fn unused(part: &impl Serialize, used: &[&str]) -> Option<String> {
    said(part).into_iter().find(|name| !used.contains(&name.as_str()))
}

/// Returns the place of a key that a chain does not use.
pub(super) fn unused_by_chain(s: &Scenario) -> Option<Vec<String>> {
    let at = |path: &[&str], found: Option<String>| {
        found.map(|name| path.iter().map(|p| (*p).to_owned()).chain([name]).collect())
    };
    let cases =
        s.cases.iter().find_map(|(name, case)| at(&["cases", name], unused(case, &OF_CHAINS)));
    let runs = || [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)].into_iter();
    at(&["link"], unused(&s.link, &OF_CHAINS))
        .or(cases)
        .or_else(|| at(&["vary"], unused(&s.vary, &OF_CHAINS)))
        .or_else(|| {
            runs().find_map(|(part, run)| at(&[part, "vary"], unused(&run.vary, &OF_CHAINS)))
        })
        .or_else(|| s.watch_every_ms.map(|_| vec!["watch_every_ms".to_owned()]))
}

/// Unused key: its place, the reason, and the remedy.
pub(super) struct UnusedKey {
    pub(super) path: Vec<String>,
    pub(super) message: String,
    pub(super) help: String,
}

impl UnusedKey {
    pub(super) fn at(path: &[&str], message: String, help: String) -> Self {
        Self { path: path.iter().map(|p| (*p).to_owned()).collect(), message, help }
    }
}

/// Part of the file for one extent, with its name.
pub(super) struct Part<'a> {
    name: &'static str,
    own: &'a RunSpec,
    whole: RunSpec,
    pub(super) vary: Vary,
}

impl Part<'_> {
    pub(super) fn of(s: &Scenario) -> [Part<'_>; 3] {
        [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)].map(|(name, own)| {
            let whole = if name == "run" { own.clone() } else { s.run.changed(own) };
            let vary = s.vary.changed(&whole.vary);
            Part { name, own, whole, vary }
        })
    }

    /// Returns the cases of this part, by name.
    pub(super) fn cases<'s>(
        &self,
        s: &'s Scenario,
    ) -> impl Iterator<Item = (&'s String, &'s CaseSpec)> {
        s.cases.iter().filter(|(name, _)| {
            self.whole.cases.as_ref().is_none_or(|chosen| chosen.contains(name))
        })
    }

    /// Returns the place where this key varies.
    fn place<'k>(&self, s: &Scenario, key: &'k str) -> Vec<&'k str> {
        let says = |vary: &Vary| said(vary).iter().any(|k| k == key);
        match () {
            () if says(&self.own.vary) => vec![self.name, "vary", key],
            () if says(&s.run.vary) => vec!["run", "vary", key],
            () => vec!["vary", key],
        }
    }
}

/// Finds keys that apply to a case with several `links`, but that none of its links would use. The
/// case would then have equal cells under several names.
pub(super) fn unused_by_links(s: &Scenario) -> Option<UnusedKey> {
    for part in Part::of(s) {
        for (name, case) in part.cases(s).filter(|(_, case)| !case.links.is_empty()) {
            let copies = || {
                format!("write `copies` into single links of `cases.{name}`, or make two scenarios")
            };
            if s.link.copies.is_some() {
                let message = format!(
                    "the case '{name}' has `links`, which do not use `copies` of all together"
                );
                return Some(UnusedKey::at(&["link", "copies"], message, copies()));
            }
            for key in said(&part.vary) {
                if key == "copies" {
                    let message = format!(
                        "the case '{name}' has `links`, which do not use `copies` of all together"
                    );
                    return Some(UnusedKey::at(&part.place(s, &key), message, copies()));
                }
                if OF_LINKS.contains(&key.as_str())
                    && case.links.values().all(|link| said(link).contains(&key))
                {
                    let message = format!(
                        "each link of the case '{name}' says its own `{key}`, so that it does not \
                         vary there"
                    );
                    let help = format!(
                        "remove `{key}` from links of `cases.{name}`, or make two scenarios"
                    );
                    return Some(UnusedKey::at(&part.place(s, &key), message, help));
                }
            }
        }
    }
    None
}

/// Finds keys of `run`, `quick` or `paper` that no case of this part can use.
pub(super) fn unused_of_runs(s: &Scenario) -> Option<UnusedKey> {
    for part in Part::of(s) {
        let links = || part.cases(s).any(|(_, c)| c.workload.is_none() && c.has_samples());
        let has_rate =
            |c: &CaseSpec| c.rate_hz.is_some() || c.links.values().any(|l| l.rate_hz.is_some());
        let rate = s.link.rate_hz.is_some() || !part.vary.rate_hz.is_empty();
        let lasts = |c: &CaseSpec| match c.measure {
            Some(measure) => measure == MeasureSpec::AtRest,
            None => c.workload.is_some() || rate || has_rate(c),
        };
        let name = part.name;
        if part.own.seconds.is_some() && !part.cases(s).any(|(_, c)| lasts(c)) {
            let message =
                format!("no case of `{name}` uses `seconds`: without a rate, messages are counted");
            return Some(UnusedKey::at(
                &[name, "seconds"],
                message,
                "write `messages`, or give a `rate_hz`".into(),
            ));
        }
        if part.own.messages.is_some() && !links() {
            let message = format!(
                "no case of `{name}` uses `messages`: workloads and links at rest are observed for \
                 some time, and a start-up is one sample"
            );
            return Some(UnusedKey::at(&[name, "messages"], message, "write `seconds`".into()));
        }
        if part.own.warm_up.is_some() && !links() {
            let message = format!(
                "no case of `{name}` uses `warm_up`, which is a number of samples: a workload, a \
                 link at rest and a start-up have none"
            );
            return Some(UnusedKey::at(
                &[name, "warm_up"],
                message,
                "leave it out: a workload warms up for a fifth of its `seconds`, 2 s at most"
                    .into(),
            ));
        }
    }
    None
}
