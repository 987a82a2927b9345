// SPDX-License-Identifier: Apache-2.0
//! Whether every part of a scenario makes sense, and goes with the others; what the file's format alone does not say.

use super::LoadError;
use super::effect::without_effect;
use super::heed::{OF_LINKS, OF_WORKLOADS, unheeded, unheeded_by_chain, unheeded_by_links, unheeded_of_runs};
use super::{CaseSpec, ReachSpec, Scenario, WorkloadSpec};
use driveline_bench::child::unreadable;
use driveline_bench::harness::Wait;
use driveline_bench::peers::{Peer, misnamed};
use driveline_runtime::graph::{Document, suggest};
use driveline_types::TopicName;
use driveline_workloads::workloads;
use serde_json::{Map, Value};

/// The names of Driveline among systems.
pub(crate) const OWN_SYSTEMS: [&str; 1] = ["driveline"];

/// Whether the systems are Driveline or among these peers.
pub(super) fn check_systems(document: &Document<Scenario>, peers: &[Peer]) -> Result<(), LoadError> {
    let s = &document.value;
    let runs = [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)];
    let of_runs = runs.into_iter().filter_map(|(part, run)| Some((vec![part, "systems"], run.systems.as_ref()?)));
    let of_cases = s.cases.iter().filter_map(|(name, case)| Some((vec!["cases", name, "systems"], case.systems.as_ref()?)));
    let of_link = s.link.systems.iter().map(|systems| (vec!["link", "systems"], systems));
    for (path, systems) in std::iter::once((vec!["systems"], &s.systems)).chain(of_link).chain(of_runs).chain(of_cases) {
        for (i, name) in systems.iter().enumerate() {
            if let Some((message, help)) = misnamed(peers, name, &OWN_SYSTEMS) {
                let place = i.to_string();
                return Err(document.bad_value(&[path.as_slice(), &[&place]].concat(), message, Some(help)).into());
            }
        }
    }
    Ok(())
}

/// Everything else.
pub(super) fn check(document: Document<Scenario>) -> Result<Scenario, LoadError> {
    let s = &document.value;
    let wrong = |path: &[&str], message: String, help: &str| {
        Err(LoadError::from(document.mistake(path, message, (!help.is_empty()).then(|| help.to_owned()))))
    };
    let bad = |path: &[&str], message: String, help: &str| {
        Err(LoadError::from(document.bad_value(path, message, (!help.is_empty()).then(|| help.to_owned()))))
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if s.id.is_empty() || s.id.len() > 40 || !s.id.chars().all(plain) {
        return bad(&["id"], format!("'{}' is no id", s.id), "use letters, digits and dashes, at most 40");
    }
    if let Some(text) = serde_json::to_value(s).ok().as_ref().and_then(unreadable) {
        return wrong(&[], format!("'{text}' has control characters"), "they would move the cursor of whoever reads it: leave them out");
    }
    if s.cases.is_empty() {
        return wrong(&["cases"], "there is nothing to measure".into(), "add a case, for example `camera: {size: 1 MiB, rate_hz: 30}`");
    }
    if s.cases.len() > 64 {
        return wrong(&["cases"], format!("there are {} cases; at most 64 are possible", s.cases.len()), "make several scenarios");
    }
    for (part, run) in [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)] {
        if let Some((i, unknown)) = run.cases.iter().flatten().enumerate().find(|(_, c)| !s.cases.contains_key(*c)) {
            let help = suggest(unknown, "there are", s.cases.keys().map(String::as_str));
            return bad(&[part, "cases", &i.to_string()], format!("there is no case '{unknown}'"), &help);
        }
        if run.messages.is_some() && run.seconds.is_some() {
            return wrong(&[part, "seconds"], "a run has a number of messages or of seconds, not both".into(), "leave one of them out");
        }
        if let Some((i, message)) = bad_wait(&run.vary.wait) {
            return bad(&[part, "vary", "wait", &i.to_string()], message, "");
        }
    }
    let published = s.published.iter().enumerate().filter_map(|(i, p)| Some((i, p.case.as_ref()?)));
    if let Some((i, unknown)) = published.into_iter().find(|(_, c)| !s.cases.contains_key(*c)) {
        let help = suggest(unknown, "there are", s.cases.keys().map(String::as_str));
        let message = format!("a published figure belongs to the case '{unknown}', which there is not");
        return bad(&["published", &i.to_string(), "case"], message, &help);
    }
    if let Some((i, message)) = bad_wait(&s.vary.wait) {
        return bad(&["vary", "wait", &i.to_string()], message, "");
    }
    if let Some((_, message)) = bad_wait(s.link.wait.as_slice()) {
        return bad(&["link", "wait"], message, "");
    }
    if let Some(path) = cable_without_hosts(s) {
        let path = borrowed(&path);
        let message = format!("`{}` is about the cable between two hosts, and there is one host", path.last().copied().unwrap_or_default());
        return wrong(&path, message, "add `reach: network` beside it, or leave it out");
    }
    for (name, case) in &s.cases {
        if let Some((_, message)) = bad_wait(case.wait.as_slice()) {
            return bad(&["cases", name, "wait"], message, "");
        }
        let topics = || s.chain.iter().flat_map(|c| c.edges.keys()).map(String::as_str);
        if let Some((i, topic)) = case.driveline_edges.iter().enumerate().find(|(_, t)| topics().all(|known| known != *t)) {
            let help = suggest(topic, "topics", topics().collect::<Vec<_>>());
            return bad(&["cases", name, "driveline_edges", &i.to_string()], format!("the chain has no topic '{topic}'"), &help);
        }
        if let Some(w) = &case.workload
            && let Some(error) = bad_workload(&document, name, w)
        {
            return Err(error);
        }
        if s.chain.is_some() && (case.workload.is_some() || !case.links.is_empty()) {
            return wrong(&["cases", name], format!("the scenario is a chain, the case '{name}' something else"), "make two scenarios");
        }
        if case.workload.is_some()
            && case.links.is_empty()
            && let Some(field) = unheeded(case, &OF_WORKLOADS)
        {
            let message = format!("the case '{name}' is a workload, which has no `{field}`");
            return wrong(&["cases", name, &field], message, "a workload has its own parameters (docs/workloads.md): leave it out");
        }
        if !case.links.is_empty() && (case.workload.is_some() || case.copies.is_some()) {
            let message = format!("the case '{name}' has `links` and something else");
            return wrong(&["cases", name], message, "put `copies` into single links; a workload has none");
        }
        for (topic, link) in &case.links {
            if let Err(e) = topic.parse::<TopicName>() {
                return wrong(&["cases", name, "links", topic], format!("the link '{topic}' cannot be a topic: {e}"), "");
            }
            if let Some(key) = unheeded(link, &OF_LINKS) {
                let message = format!("`{key}` belongs to the case as a whole, and not to its link '{topic}'");
                return wrong(&["cases", name, "links", topic, &key], message, &format!("move it up, beside `links` in `cases.{name}`"));
            }
            if let Some((_, message)) = bad_wait(link.wait.as_slice()) {
                return bad(&["cases", name, "links", topic, "wait"], message, "");
            }
        }
    }
    if let Some(path) = without_size(s) {
        let path = borrowed(&path);
        let message = format!("'{}' says no size", path.last().copied().unwrap_or_default());
        return wrong(&path, message, "add for example `size: 1 MiB`, there or under `link`");
    }
    if s.chain.is_some()
        && let Some(path) = unheeded_by_chain(s)
    {
        let path = borrowed(&path);
        let message = format!("a chain does not heed `{}`", path.last().copied().unwrap_or_default());
        return wrong(&path, message, "leave it out, or measure links: a scenario without `chain`");
    }
    let stages = || s.chain.iter().flat_map(|c| &c.stages);
    if let Some((stage, spec, parameter)) =
        stages().find_map(|(name, spec)| Some((name, spec, spec.reads.keys().find(|p| !spec.environment.contains_key(*p))?)))
    {
        let message = format!("`reads` names '{parameter}', which no variable of the environment gives");
        let help = suggest(parameter, "the environment gives", spec.environment.keys().map(String::as_str));
        return wrong(&["chain", "stages", stage, "reads", parameter], message, &help);
    }
    if let Some(u) = unheeded_by_links(s).or_else(|| unheeded_of_runs(s)).or_else(|| without_effect(s)) {
        return wrong(&borrowed(&u.path), u.message, &u.help);
    }
    Ok(document.value)
}

/// Where a cable is described, although no case reaches another host.
fn cable_without_hosts(s: &Scenario) -> Option<Vec<String>> {
    let network = |c: &CaseSpec| c.reach == Some(ReachSpec::Network) || c.links.values().any(|l| l.reach == Some(ReachSpec::Network));
    let varied = [&s.vary, &s.run.vary, &s.quick.vary, &s.paper.vary];
    let all = network(&s.link) || varied.iter().any(|v| v.reach.contains(&ReachSpec::Network));
    let at = |path: &[&str]| Some(path.iter().map(|p| (*p).to_owned()).collect());
    if all {
        return None;
    }
    if let Some((name, key)) = s.cases.iter().filter(|(_, c)| !network(c)).find_map(|(name, c)| Some((name, c.of_cable()?))) {
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

/// The first of these words that is no way to wait, and why.
fn bad_wait(words: &[String]) -> Option<(usize, String)> {
    words.iter().enumerate().find_map(|(i, w)| Some((i, w.parse::<Wait>().err()?)))
}

/// What is wrong with the workload of a case.
fn bad_workload(document: &Document<Scenario>, case: &str, w: &WorkloadSpec) -> Option<LoadError> {
    let at = |place: &[&'static str]| ["cases", case, "workload"].into_iter().chain(place.iter().copied()).collect::<Vec<_>>();
    let known = workloads();
    let Some(workload) = known.iter().find(|k| k.name == w.name) else {
        let help = suggest(&w.name, "there are", known.iter().map(|k| k.name));
        return Some(document.bad_value(&at(&["name"]), format!("there is no workload '{}'", w.name), Some(help)).into());
    };
    let parameters: Vec<&str> = workload.defaults.as_object().into_iter().flat_map(|p| p.keys()).map(String::as_str).collect();
    let path = at(&["parameters"]);
    let of = |key: &'_ str| -> Vec<String> { path.iter().map(|p| (*p).to_owned()).chain([key.to_owned()]).collect() };
    if let Some(unknown) = w.parameters.keys().find(|k| !parameters.contains(&k.as_str())) {
        let help = suggest(unknown, "parameters", parameters);
        let message = format!("the workload '{}' has no parameter '{unknown}'", w.name);
        return Some(document.mistake(&borrowed(&of(unknown)), message, Some(help)).into());
    }
    let fault = |given: Map<String, Value>| driveline_workloads::check(&w.name, &Value::Object(given)).err().map(|e| format!("{e:#}"));
    // One that is wrong without the others is marked.
    let alone = |(key, value): (&String, &Value)| Some((of(key), fault(Map::from_iter([(key.clone(), value.clone())]))?));
    if let Some((path, message)) = w.parameters.iter().find_map(alone) {
        return Some(document.bad_value(&borrowed(&path), message, None).into());
    }
    fault(w.parameters.clone()).map(|message| document.mistake(&path, message, None).into())
}

fn borrowed(path: &[String]) -> Vec<&str> {
    path.iter().map(String::as_str).collect()
}

/// Where a link says no size, although nobody else says one for it.
fn without_size(s: &Scenario) -> Option<Vec<String>> {
    let varied = [&s.vary, &s.run.vary, &s.quick.vary, &s.paper.vary];
    if s.chain.is_some() || s.link.size.is_some() || varied.iter().any(|v| !v.size.is_empty()) {
        return None;
    }
    s.cases.iter().filter(|(_, c)| c.workload.is_none() && c.size.is_none()).find_map(|(name, case)| {
        let at = |path: &[&str]| Some(path.iter().map(|p| (*p).to_owned()).collect());
        match case.links.iter().find(|(_, l)| l.size.is_none()) {
            Some((topic, _)) => at(&["cases", name, "links", topic]),
            None if case.links.is_empty() => at(&["cases", name]),
            None => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_runtime::graph::parse_document;
    use std::path::Path;

    fn parse(text: &str) -> Result<Scenario, String> {
        parse_document(Path::new("mine.yaml"), text.to_owned()).map_err(LoadError::from).and_then(check).map_err(|e| e.to_string())
    }

    const HEAD: &str = "scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n";

    #[test]
    fn the_scenario_on_the_page_for_people_can_be_measured() {
        let page = include_str!("../../../../docs/lab.md");
        let mut snippets = page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
        assert_eq!(parse(snippets.next().unwrap()).unwrap().cases.len(), 2);
        // Of the second one the head is left out.
        let several = parse(&format!("{HEAD}{}", snippets.next().unwrap())).unwrap();
        assert_eq!(several.cases.values().next().unwrap().links.len(), 3);
        assert!(snippets.next().is_none());
    }

    #[test]
    fn what_would_not_be_heeded_is_refused() {
        let chain = "chain: {stages: {a: {output: x, work: bytes}, b: {inputs: [x], work: copy}}, edges: {x: 1 MiB}}\n";
        for (rest, says) in [
            (format!("{chain}cases: {{a: {{hogs: 4}}}}\n"), "a chain does not heed `hogs`"),
            (format!("{chain}link: {{payload: filled}}\ncases: {{a: {{}}}}\n"), "a chain does not heed `payload`"),
            (format!("{chain}cases: {{a: {{}}}}\nvary: {{size: [1 KiB]}}\n"), "a chain does not heed `size`"),
            (format!("{chain}cases: {{a: {{}}}}\npaper: {{vary: {{subscribers: [2]}}}}\n"), "a chain does not heed `subscribers`"),
            (format!("{chain}cases: {{a: {{}}}}\nwatch_every_ms: 100\n"), "a chain does not heed `watch_every_ms`"),
            ("cases: {a: {workload: {name: refsys}, quota_percent: 20}}\n".into(), "which has no `quota_percent`"),
            (format!("{chain}link: {{driveline_edges: [x]}}\ncases: {{a: {{}}}}\n"), "`driveline_edges` goes into `cases.NAME`"),
            (format!("{chain}cases: {{a: {{}}}}\nrun: {{seconds: 5}}\n"), "heeds `seconds`"),
        ] {
            let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(text.contains(says) && text.contains("mine.yaml:"), "{rest}: {text}");
        }
        // What links have in common is not said to the workloads beside them.
        parse(&format!("{HEAD}link: {{hogs: 1}}\ncases: {{a: {{workload: {{name: refsys}}}}, b: {{size: 64, rate_hz: 10}}}}\n")).unwrap();
        parse(&format!("{HEAD}{chain}link: {{rate_hz: 10}}\ncases: {{a: {{depth: 2}}}}\nvary: {{reliability: [reliable]}}\n")).unwrap();
    }

    #[test]
    fn what_would_be_the_same_under_several_names_is_refused() {
        let car = "cases:\n  car: {links: {lidar: {size: 64, rate_hz: 10}, camera: {size: 64}}}\n  one: {size: 64}\n";
        for (rest, mark, says) in [
            ("vary: {copies: [1, 4]}\n", "copies", "write `copies` into single links of `cases.car`"),
            ("quick: {vary: {copies: [4]}}\n", "copies", "the case 'car' has `links`"),
            ("link: {copies: 4}\n", "copies", "write `copies` into single links of `cases.car`"),
            ("paper: {vary: {size: [1 KiB, 1 MiB]}}\n", "size", "each link of the case 'car' says its own `size`"),
        ] {
            let text = parse(&format!("{HEAD}{car}{rest}")).unwrap_err();
            let (marked, text) = marked(&text);
            assert!(marked == mark && text.contains(says) && text.contains("mine.yaml:9"), "{rest}: {text}");
        }
        // One of them heeds it; what belongs to all of them is no link's; that case is not among those.
        for rest in ["vary: {rate_hz: [10, 20]}\n", "vary: {hogs: [0, 1]}\n", "run: {cases: [one]}\nvary: {copies: [1, 4]}\n"] {
            parse(&format!("{HEAD}{car}{rest}")).unwrap();
        }
    }

    #[test]
    fn how_much_is_measured_is_refused_where_no_case_can_heed_it() {
        let cases = "cases:\n  pp: {size: 64}\n  open: {size: 64, rate_hz: 10}\n  graph: {workload: {name: refsys}}\n";
        for (rest, mark, says) in [
            ("run: {cases: [pp], seconds: 5}\n", "seconds", "no case of `run` heeds `seconds`"),
            ("quick: {cases: [pp], seconds: 5}\n", "seconds", "write `messages`, or give a `rate_hz`"),
            ("paper: {cases: [graph], messages: 5}\n", "messages", "write `seconds`"),
            ("quick: {cases: [graph], warm_up: 5}\n", "warm_up", "a fifth of its `seconds`"),
        ] {
            let text = parse(&format!("{HEAD}{cases}{rest}")).unwrap_err();
            let (marked, text) = marked(&text);
            assert!(marked == mark && text.contains(says) && text.contains("mine.yaml:10"), "{rest}: {text}");
        }
        // Somebody heeds it, and the others do as it is documented.
        for rest in [
            "run: {seconds: 5, warm_up: 3}\n",
            "run: {messages: 5}\n",
            "run: {cases: [pp, graph], seconds: 5, warm_up: 3}\n",
            "run: {cases: [pp], seconds: 5}\nvary: {rate_hz: [10]}\n",
            "run: {cases: [pp], seconds: 5}\nlink: {rate_hz: 10}\n",
            "run: {seconds: 5}\nquick: {cases: [pp]}\n",
        ] {
            parse(&format!("{HEAD}{cases}{rest}")).unwrap();
        }
        parse(&format!("{HEAD}cases: {{a: {{links: {{x: {{size: 1, rate_hz: 10}}}}}}}}\nrun: {{seconds: 5}}\n")).unwrap();
    }

    #[test]
    fn mistakes_are_explained_with_their_line() {
        for (rest, line, says) in [
            ("cases: {}\n", 6, "nothing to measure"),
            ("cases: {a: {sise: 1}}\n", 6, "did you mean `size`"),
            ("cases: {a: {size: 1 XB}}\n", 6, "is not a size"),
            ("cases:\n  a: {size: 64, wait: poll}\n", 7, "use block, spin"),
            ("cases:\n  a: {size: 64}\nquick: {cases: [b]}\n", 8, "no case 'b'"),
            ("cases:\n  a: {links: {x: {size: 1, hogs: 2}}}\n", 7, "move it up"),
            ("cases:\n  a: {rate_hz: 30}\n", 7, "'a' says no size"),
            ("cases: {a: {links: {x: {size: 1}, y: {}}}}\n", 6, "'y' says no size"),
            ("cases: {a: {size: 64}}\nlink: {links: {x: {}}}\n", 7, "`links` goes into `cases.NAME`"),
            ("cases:\n  a: {size: 64}\nrun: {messages: 1, seconds: 1}\n", 8, "not both"),
            ("cases:\n  a: {size: 64, subscribers: 0}\n", 7, "subscribers"),
            ("cases: {a: {size: 64}}\nvary: {rate_hz: [0]}\n", 7, "must be between 0.01 and"),
            ("cases: {a: {size: 64}}\nvary: {rate_hz: [10, -5]}\n", 7, "must be between 0.01 and"),
            ("cases: {a: {size: 64}}\nquick: {vary: {subscribers: [0]}}\n", 7, "between 1 and 512"),
            ("cases: {a: {size: 64}}\nvary: {copies: [1000000000]}\n", 7, "between 1 and 256"),
            ("cases: {a: {size: 64}}\nvary: {subscribers: []}\n", 7, "`subscribers` is an empty list"),
            ("cases: {a: {size: 64}}\nquick: {systems: []}\n", 7, "name at least one, or remove the key"),
            ("cases: {a: {size: 64}}\nvary: {payload: [filled, fill]}\n", 7, "`payload[1]` cannot be `fill`"),
            ("cases:\n  a: {size: 64, rate: 30}\n", 7, "did you mean `rate_hz`?"),
            ("cases: {a: {size: 64}}\nvary: {hogs: [65]}\n", 7, "out of range: 65"),
            ("cases: {a: {size: 64}}\nvary: {depth: [0]}\n", 7, "between 1 and 1024"),
            ("cases: {a: {size: 64}}\nvary: {priority: [100]}\n", 7, "out of range: 100"),
            ("cases: {a: {size: 64}}\nvary: {quota_percent: [0]}\n", 7, "between 1 and 10000"),
            ("cases: {a: &a {size: 64}, b: {<<: *a}}\n", 6, "merge keys"),
            ("cases: {a: {size: 64}}\n---\nscenario: 1\n", 7, "a second document"),
            ("cases:\n  a: {links: {front camera: {size: 1}}}\n", 7, "cannot be a topic"),
            ("cases:\n  a: {size: 64, loss_percent: 1}\n", 7, "add `reach: network`"),
            ("link: {cable_mbit: 100}\ncases: {a: {size: 64}}\n", 6, "`cable_mbit` is about the cable"),
            ("cases: {a: {size: 64}}\nvary: {loss_percent: [0, 2]}\n", 7, "add `reach: network`"),
            ("cases: {a: {size: 64}}\nvary: {delay_ms: [0, 5]}\n", 7, "add `reach: network`"),
            ("cases: {a: {size: 64}}\nvary: {cable_mbit: [10, 100]}\n", 7, "`cable_mbit` is about the cable"),
            ("cases:\n  a: {size: 64, delay_ms: 5}\n", 7, "`delay_ms` is about the cable"),
            ("cases: {a: {size: 64, reach: network, delay_ms: 501}}\n", 6, "between 0 and 500"),
            ("cases: {a: {size: 64, reach: network}}\nvary: {delay_ms: [5, 501]}\n", 7, "between 0 and 500"),
            ("cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n", 7, "belongs to the case as a whole"),
        ] {
            let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(text.contains(says) && text.contains(&format!("mine.yaml:{line}")), "{rest}: {text}");
        }
        assert!(parse(&format!("{HEAD}cases: {{a: {{}}}}\n").replace("id: X", "id: a b")).unwrap_err().contains("letters, digits"));
        assert!(parse(&HEAD.replace("scenario: 1", "scenario: 2")).unwrap_err().contains("this release reads format 1"));
    }

    /// What is marked with carets, and the whole.
    fn marked(text: &str) -> (&str, &str) {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines.iter().position(|l| l.trim_start_matches([' ', '|']).starts_with('^')).unwrap_or_else(|| panic!("{text}"));
        let from = lines[at].find('^').unwrap();
        (lines[at - 1].get(from..from + lines[at].matches('^').count()).unwrap(), text)
    }

    #[test]
    fn what_is_marked_is_what_is_wrong() {
        let peers = driveline_bench::peers::discover(None).unwrap();
        for (rest, mark, says) in [
            ("systems: [driveline, drivline]\ncases: {a: {size: 64}}\n", "drivline", "did you mean `driveline`?"),
            ("quick: {systems: [fastds]}\ncases: {a: {size: 64}}\n", "fastds", "did you mean `fastdds`?"),
            ("cases: {a: {size: 64, systems: [zenho]}}\n", "zenho", "did you mean `zenoh`?"),
            ("link: {systems: [zenho]}\ncases: {a: {size: 64}}\n", "zenho", "did you mean `zenoh`?"),
            ("systems: [mine]\ncases: {a: {size: 64}}\n", "mine", "known are driveline, driveline_cpp"),
            ("cases:\n  a: {size: 64, wait: spin:5ms}\n", "spin:5ms", "without a unit: spin:5000"),
            ("cases: {a: {size: 64}}\nlink: {wait: blok}\n", "blok", "did you mean block?"),
            ("cases: {a: {size: 64}}\nvary: {wait: [block, poll]}\n", "poll", "use block, spin"),
            ("cases:\n  a: {links: {x: {size: 1, wait: spin:0}}}\n", "spin:0", "use block, spin"),
            ("cases: {a: {workload: {name: refsis}}}\n", "refsis", "did you mean `refsys`?"),
            ("cases: {a: {workload: {name: refsys, parameters: {thread: 5}}}}\n", "thread", "did you mean `threads`?"),
            ("cases: {a: {workload: {name: refsys, parameters: {threads: many}}}}\n", "many", "parameter 'threads'"),
            ("cases: {a: {size: 64}}\nvary: {subscribers: 3}\n", "3", "write a list: `subscribers: [3]`"),
            ("cases: {a: {size: 64}}\nvary: {wait: spin}\n", "spin", "write a list: `wait: [spin]`"),
            ("cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n", "delay_ms", "beside `links` in `cases.a`"),
            ("delay_ms: 5\ncases: {a: {size: 64}}\n", "delay_ms", "`delay_ms` goes into"),
            ("links: {a: {}}\ncases: {a: {size: 64}}\n", "links", "did you mean `link`? `links` goes into `cases.NAME`"),
            (
                "chain:\n  stages:\n    a: {output: x, work: bytes, environment: {map: MAP}, reads: {mop: file}}\n    b: {inputs: [x], work: copy}\n  edges: {x: 1 KiB}\ncases: {a: {}}\n",
                "mop",
                "did you mean `map`?",
            ),
            ("cases: {near: {size: 64}}\nquick: {cases: [nera]}\n", "nera", "did you mean `near`?"),
            ("cases: {near: {size: 64}}\npublished: [{system: a, case: nera}]\n", "nera", "did you mean `near`?"),
        ] {
            let document = parse_document(Path::new("mine.yaml"), format!("{HEAD}{rest}")).map_err(LoadError::from);
            let checked = document.and_then(|d| check_systems(&d, &peers).and_then(|()| check(d)));
            let text = checked.unwrap_err().to_string();
            let (marked, text) = marked(&text);
            assert!(marked == mark && text.contains(says), "{rest}: {text}");
        }
        for (head, says) in [
            (HEAD.replace("scenario: 1", "scenario: 2"), "the file has format 2"),
            (HEAD.replace("scenario: 1\n", ""), "add `scenario: 1` as the first line"),
        ] {
            let text = parse(&format!("{head}cases: {{a: {{size: 64}}}}\n")).unwrap_err();
            assert!(text.contains(says) && text.contains("mine.yaml:1"), "{text}");
        }
    }
}
