// SPDX-License-Identifier: Apache-2.0
//! Checks that every part of a scenario is meaningful and consistent with the others, beyond the
//! file's format.

use super::LoadError;
use super::effect::without_effect;
use super::unused_keys::{
    OF_LINKS, OF_MEASURES, OF_WORKLOADS, unused, unused_by_chain, unused_by_links, unused_of_runs,
};
use super::{CaseSpec, MeasureSpec, ReachSpec, Scenario, WorkloadSpec};
use driveline_bench::child::unreadable;
use driveline_bench::harness::Wait;
use driveline_bench::peers::{Peer, misnamed};
use driveline_graph::{Diagnostics, Document, suggest};
use driveline_types::TopicName;
use driveline_workloads::workloads;
use serde_json::{Map, Value};

/// The names of Driveline among systems.
pub(crate) const OWN_SYSTEMS: [&str; 1] = ["driveline"];

/// Mistakes of a scenario, as they are found.
struct Mistakes<'a> {
    document: &'a Document<Scenario>,
    found: Diagnostics,
}

impl Mistakes<'_> {
    /// Adds a mistake about a part that should not exist, or is incomplete.
    fn wrong(&mut self, path: &[&str], message: String, help: &str) {
        self.found.merge(self.document.mistake(
            path,
            message,
            (!help.is_empty()).then(|| help.to_owned()),
        ));
    }

    /// Adds a mistake about an invalid value.
    fn bad(&mut self, path: &[&str], message: String, help: &str) {
        self.found.merge(self.document.bad_value(
            path,
            message,
            (!help.is_empty()).then(|| help.to_owned()),
        ));
    }
}

/// Checks a scenario. With peers, also checks that its systems are Driveline or among them.
///
/// # Errors
/// The mistakes of all cases and parts. Each reports only its first mistake of each kind.
pub(super) fn check(
    document: Document<Scenario>,
    peers: Option<&[Peer]>,
) -> Result<Scenario, LoadError> {
    let mut mistakes = Mistakes { document: &document, found: Diagnostics::default() };
    check_head(&mut mistakes);
    if let Some(peers) = peers {
        check_systems(&mut mistakes, peers);
    }
    check_runs(&mut mistakes);
    document.value.cases.iter().for_each(|(name, case)| check_case(&mut mistakes, name, case));
    check_whole(&mut mistakes);
    let found = mistakes.found;
    if found.is_empty() { Ok(document.value) } else { Err(found.into()) }
}

/// Checks the scenario's id and its number of cases, and that no text has invisible characters.
fn check_head(mistakes: &mut Mistakes<'_>) {
    let s = &mistakes.document.value;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if s.id.is_empty() || s.id.len() > 40 || !s.id.chars().all(plain) {
        mistakes.bad(
            &["id"],
            format!("'{}' is no id", s.id),
            "use letters, digits and dashes, at most 40",
        );
    }
    if let Some(text) = serde_json::to_value(s).ok().as_ref().and_then(unreadable) {
        mistakes.wrong(
            &[],
            format!("'{text}' has control characters or invisible ones"),
            "they would move the reader's cursor, or hide what it is: leave them out",
        );
    }
    if s.cases.is_empty() {
        mistakes.wrong(
            &["cases"],
            "there is nothing to measure".into(),
            "add a case, for example `camera: {size: 1 MiB, rate_hz: 30}`",
        );
    }
    if s.cases.len() > 64 {
        mistakes.wrong(
            &["cases"],
            format!("there are {} cases; at most 64 are possible", s.cases.len()),
            "make several scenarios",
        );
    }
}

/// Checks that the systems are Driveline or among these peers.
fn check_systems(mistakes: &mut Mistakes<'_>, peers: &[Peer]) {
    let s = &mistakes.document.value;
    let runs = [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)];
    let of_runs = runs
        .into_iter()
        .filter_map(|(part, run)| Some((vec![part, "systems"], run.systems.as_ref()?)));
    let of_cases = s
        .cases
        .iter()
        .filter_map(|(name, case)| Some((vec!["cases", name, "systems"], case.systems.as_ref()?)));
    let of_link = s.link.systems.iter().map(|systems| (vec!["link", "systems"], systems));
    for (path, systems) in
        std::iter::once((vec!["systems"], &s.systems)).chain(of_link).chain(of_runs).chain(of_cases)
    {
        for (i, name) in systems.iter().enumerate() {
            if let Some((message, help)) = misnamed(peers, name, &OWN_SYSTEMS) {
                let place = i.to_string();
                mistakes.bad(&[path.as_slice(), &[&place]].concat(), message, &help);
            }
        }
    }
}

/// Checks values that apply to all cases, and values that name a case.
fn check_runs(mistakes: &mut Mistakes<'_>) {
    let s = &mistakes.document.value;
    let cases = || s.cases.keys().map(String::as_str);
    for (part, run) in [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)] {
        for (i, unknown) in
            run.cases.iter().flatten().enumerate().filter(|(_, c)| !s.cases.contains_key(*c))
        {
            let help = suggest(unknown, "there are", cases());
            mistakes.bad(
                &[part, "cases", &i.to_string()],
                format!("there is no case '{unknown}'"),
                &help,
            );
        }
        if run.messages.is_some() && run.seconds.is_some() {
            mistakes.wrong(
                &[part, "seconds"],
                "a run has a number of messages or of seconds, not both".into(),
                "leave one of them out",
            );
        }
        if let Some((i, message)) = bad_wait(&run.vary.wait) {
            mistakes.bad(&[part, "vary", "wait", &i.to_string()], message, "");
        }
    }
    let published = s.published.iter().enumerate().filter_map(|(i, p)| Some((i, p.case.as_ref()?)));
    for (i, unknown) in published.filter(|(_, c)| !s.cases.contains_key(*c)) {
        let help = suggest(unknown, "there are", cases());
        let message =
            format!("a published figure belongs to the case '{unknown}', which there is not");
        mistakes.bad(&["published", &i.to_string(), "case"], message, &help);
    }
    if let Some((i, message)) = bad_wait(&s.vary.wait) {
        mistakes.bad(&["vary", "wait", &i.to_string()], message, "");
    }
    if let Some((_, message)) = bad_wait(s.link.wait.as_slice()) {
        mistakes.bad(&["link", "wait"], message, "");
    }
    if let Some(path) = cable_without_hosts(s) {
        let path = borrowed(&path);
        let message = format!(
            "`{}` is about the cable between two hosts, and there is one host",
            path.last().copied().unwrap_or_default()
        );
        mistakes.wrong(&path, message, "add `reach: network` next to it, or leave it out");
    }
}

/// Checks one case, and its links.
fn check_case(mistakes: &mut Mistakes<'_>, name: &str, case: &CaseSpec) {
    let s = &mistakes.document.value;
    if let Some((_, message)) = bad_wait(case.wait.as_slice()) {
        mistakes.bad(&["cases", name, "wait"], message, "");
    }
    let topics = || s.chain.iter().flat_map(|c| c.edges.keys()).map(String::as_str);
    if let Some((i, topic)) =
        case.driveline_edges.iter().enumerate().find(|(_, t)| topics().all(|known| known != *t))
    {
        let help = suggest(topic, "topics", topics().collect::<Vec<_>>());
        mistakes.bad(
            &["cases", name, "driveline_edges", &i.to_string()],
            format!("the chain has no topic '{topic}'"),
            &help,
        );
    }
    if let Some(w) = &case.workload {
        check_workload(mistakes, name, w);
    }
    if s.chain.is_some() && (case.workload.is_some() || !case.links.is_empty()) {
        mistakes.wrong(
            &["cases", name],
            format!("the scenario is a chain, the case '{name}' something else"),
            "make two scenarios",
        );
        return;
    }
    if case.workload.is_some()
        && case.links.is_empty()
        && let Some(field) = unused(case, &OF_WORKLOADS)
    {
        let message = format!("the case '{name}' is a workload, which has no `{field}`");
        mistakes.wrong(
            &["cases", name, &field],
            message,
            "a workload has its own parameters (docs/workloads.md): leave it out",
        );
    }
    if let Some(measure) = case.measure.filter(|_| case.workload.is_none()) {
        let mut used = OF_MEASURES.to_vec();
        used.extend((measure == MeasureSpec::SameThread).then_some("reach"));
        if let Some(key) = unused(case, &used) {
            let message = format!("the case '{name}' has `measure`, which does not use `{key}`");
            mistakes.wrong(
                &["cases", name, &key],
                message,
                "leave it out, or measure samples: a case without `measure`",
            );
        } else if case.reach == Some(ReachSpec::Network) {
            let message = "one thread does not reach another host".to_owned();
            mistakes.bad(&["cases", name, "reach"], message, "use process or host");
        }
        return;
    }
    if !case.links.is_empty() && (case.workload.is_some() || case.copies.is_some()) {
        let message = format!("the case '{name}' has `links` and something else");
        mistakes.wrong(
            &["cases", name],
            message,
            "put `copies` into single links; a workload has none",
        );
    }
    for (topic, link) in &case.links {
        if let Err(e) = topic.parse::<TopicName>() {
            mistakes.wrong(
                &["cases", name, "links", topic],
                format!("the link '{topic}' cannot be a topic: {e}"),
                "",
            );
        }
        if let Some(key) = unused(link, &OF_LINKS) {
            let message =
                format!("`{key}` belongs to the case as a whole, and not to its link '{topic}'");
            mistakes.wrong(
                &["cases", name, "links", topic, &key],
                message,
                &format!("move it up, next to `links` in `cases.{name}`"),
            );
        }
        if let Some((_, message)) = bad_wait(link.wait.as_slice()) {
            mistakes.bad(&["cases", name, "links", topic, "wait"], message, "");
        }
    }
}

/// Checks combinations of parts.
fn check_whole(mistakes: &mut Mistakes<'_>) {
    let s = &mistakes.document.value;
    if let Some(path) = without_size(s) {
        let path = borrowed(&path);
        let message = format!("'{}' has no `size`", path.last().copied().unwrap_or_default());
        mistakes.wrong(&path, message, "add for example `size: 1 MiB`, there or under `link`");
    }
    if s.chain.is_some()
        && let Some(path) = unused_by_chain(s)
    {
        let path = borrowed(&path);
        let message =
            format!("a chain does not use `{}`", path.last().copied().unwrap_or_default());
        mistakes.wrong(
            &path,
            message,
            "leave it out, or measure links: a scenario without `chain`",
        );
    }
    for (stage, spec) in s.chain.iter().flat_map(|c| &c.stages) {
        for parameter in spec.reads.keys().filter(|p| !spec.environment.contains_key(*p)) {
            let message =
                format!("`reads` names '{parameter}', which no variable of the environment gives");
            let help = suggest(
                parameter,
                "the environment gives",
                spec.environment.keys().map(String::as_str),
            );
            mistakes.wrong(&["chain", "stages", stage, "reads", parameter], message, &help);
        }
    }
    // If a part names an unknown case, it is not known which keys the case uses.
    let are_known = [&s.run, &s.quick, &s.paper]
        .into_iter()
        .flat_map(|run| run.cases.iter().flatten())
        .all(|c| s.cases.contains_key(c));
    let of_parts = if are_known { [unused_of_runs(s), without_effect(s)] } else { [None, None] };
    for u in unused_by_links(s).into_iter().chain(of_parts.into_iter().flatten()) {
        mistakes.wrong(&borrowed(&u.path), u.message, &u.help);
    }
}

/// Returns the place of a key about the cable that has no effect: a key of a case within one host,
/// or a key for all cases if no case reaches another host.
fn cable_without_hosts(s: &Scenario) -> Option<Vec<String>> {
    let network = |c: &CaseSpec| {
        c.reach == Some(ReachSpec::Network)
            || c.links.values().any(|l| l.reach == Some(ReachSpec::Network))
    };
    let varied = [&s.vary, &s.run.vary, &s.quick.vary, &s.paper.vary];
    let all = network(&s.link) || varied.iter().any(|v| v.reach.contains(&ReachSpec::Network));
    let at = |path: &[&str]| Some(path.iter().map(|p| (*p).to_owned()).collect());
    if all {
        return None;
    }
    if let Some((name, key)) = s
        .cases
        .iter()
        .filter(|(_, c)| !network(c))
        .find_map(|(name, c)| Some((name, c.of_cable()?)))
    {
        return at(&["cases", name, key]);
    }
    if s.cases.values().any(network) {
        return None;
    }
    if let Some(key) = s.link.of_cable() {
        return at(&["link", key]);
    }
    let varied = [
        ("cable_mbit", s.vary.cable_mbit.is_empty()),
        ("loss_percent", s.vary.loss_percent.is_empty()),
        ("delay_ms", s.vary.delay_ms.is_empty()),
    ];
    varied.into_iter().find(|(_, is_empty)| !is_empty).and_then(|(key, _)| at(&["vary", key]))
}

/// Returns the first of these words that is not a wait mode, and the reason.
fn bad_wait(words: &[String]) -> Option<(usize, String)> {
    words.iter().enumerate().find_map(|(i, w)| Some((i, w.parse::<Wait>().err()?)))
}

/// Checks the workload of a case.
fn check_workload(mistakes: &mut Mistakes<'_>, case: &str, w: &WorkloadSpec) {
    let known = workloads();
    let Some(workload) = known.iter().find(|k| k.name == w.name) else {
        let help = suggest(&w.name, "there are", known.iter().map(|k| k.name));
        return mistakes.bad(
            &["cases", case, "workload", "name"],
            format!("there is no workload '{}'", w.name),
            &help,
        );
    };
    let parameters: Vec<&str> = workload
        .defaults
        .as_object()
        .into_iter()
        .flat_map(|p| p.keys())
        .map(String::as_str)
        .collect();
    let path = ["cases", case, "workload", "parameters"];
    let fault = |given: Map<String, Value>| {
        driveline_workloads::check(&w.name, &Value::Object(given)).err().map(|e| format!("{e:#}"))
    };
    let mut is_known_and_right = true;
    for (key, value) in &w.parameters {
        let of = [path.as_slice(), &[key]].concat();
        if !parameters.contains(&key.as_str()) {
            let message = format!("the workload '{}' has no parameter '{key}'", w.name);
            mistakes.wrong(&of, message, &suggest(key, "parameters", parameters.clone()));
        } else if let Some(message) = fault(Map::from_iter([(key.clone(), value.clone())])) {
            // A parameter that is invalid by itself is marked.
            mistakes.bad(&of, message, "");
        } else {
            continue;
        }
        is_known_and_right = false;
    }
    if let Some(message) = fault(w.parameters.clone()).filter(|_| is_known_and_right) {
        mistakes.wrong(&path, message, "");
    }
}

fn borrowed(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Returns the place of a link without a size, if no other part gives one.
fn without_size(s: &Scenario) -> Option<Vec<String>> {
    let varied = [&s.vary, &s.run.vary, &s.quick.vary, &s.paper.vary];
    if s.chain.is_some() || s.link.size.is_some() || varied.iter().any(|v| !v.size.is_empty()) {
        return None;
    }
    s.cases.iter().filter(|(_, c)| c.workload.is_none() && c.size.is_none()).find_map(
        |(name, case)| {
            let at = |path: &[&str]| Some(path.iter().map(|p| (*p).to_owned()).collect());
            match case.links.iter().find(|(_, l)| l.size.is_none()) {
                Some((topic, _)) => at(&["cases", name, "links", topic]),
                None if case.links.is_empty() => at(&["cases", name]),
                None => None,
            }
        },
    )
}

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;
