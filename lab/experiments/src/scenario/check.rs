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
mod tests {
    use super::*;
    use driveline_graph::parse_document;
    use std::path::Path;

    fn parse(text: &str) -> Result<Scenario, String> {
        parse_document(Path::new("mine.yaml"), text.to_owned())
            .map_err(LoadError::from)
            .and_then(|d| check(d, None))
            .map_err(|e| e.to_string())
    }

    const HEAD: &str = "scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n";

    #[test]
    fn the_scenario_on_the_page_for_people_can_be_measured() {
        let page = include_str!("../../../../docs/lab.md");
        let mut snippets =
            page.split("```yaml\n").skip(1).map(|rest| rest.split_once("```").unwrap().0);
        assert_eq!(parse(snippets.next().unwrap()).unwrap().cases.len(), 2);
        // The second snippet on the page has no head.
        let several = parse(&format!("{HEAD}{}", snippets.next().unwrap())).unwrap();
        assert_eq!(several.cases.values().next().unwrap().links.len(), 3);
        assert!(snippets.next().is_none());
    }

    #[test]
    fn unused_keys_are_refused() {
        let chain = "chain: {stages: {a: {output: x, work: bytes}, b: {inputs: [x], work: copy}}, \
             edges: {x: 1 MiB}}\n";
        for (rest, says) in [
            (format!("{chain}cases: {{a: {{hogs: 4}}}}\n"), "a chain does not use `hogs`"),
            (
                format!("{chain}link: {{payload: filled}}\ncases: {{a: {{}}}}\n"),
                "a chain does not use `payload`",
            ),
            (
                format!("{chain}cases: {{a: {{}}}}\nvary: {{size: [1 KiB]}}\n"),
                "a chain does not use `size`",
            ),
            (
                format!("{chain}cases: {{a: {{}}}}\npaper: {{vary: {{subscribers: [2]}}}}\n"),
                "a chain does not use `subscribers`",
            ),
            (
                format!("{chain}cases: {{a: {{}}}}\nwatch_every_ms: 100\n"),
                "a chain does not use `watch_every_ms`",
            ),
            (
                "cases: {a: {workload: {name: refsys}, quota_percent: 20}}\n".into(),
                "which has no `quota_percent`",
            ),
            (
                format!("{chain}link: {{driveline_edges: [x]}}\ncases: {{a: {{}}}}\n"),
                "`driveline_edges` goes into `cases.NAME`",
            ),
            (format!("{chain}cases: {{a: {{}}}}\nrun: {{seconds: 5}}\n"), "uses `seconds`"),
        ] {
            let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(text.contains(says) && text.contains("mine.yaml:"), "{rest}: {text}");
        }
        for (case, run, says) in [
            ("{measure: at_rest, size: 64, rate_hz: 10}", "", "which does not use `rate_hz`"),
            ("{measure: start_up, size: 64, reach: host}", "", "which does not use `reach`"),
            ("{measure: same_thread, size: 64, wait: spin}", "", "a case without `measure`"),
            ("{measure: at_rest, links: {x: {size: 64}}}", "", "which does not use `links`"),
            ("{measure: same_thread, size: 64, reach: network}", "", "use process or host"),
            ("{measure: start_up, workload: {name: refsys}}", "", "which has no `measure`"),
            ("{links: {x: {size: 64, measure: at_rest}}}", "", "`measure` belongs to the case"),
            ("{measure: rest, size: 64}", "", "cannot be `rest`"),
            ("{measure: at_rest}", "", "'a' has no `size`"),
            ("{measure: start_up, size: 64}", "run: {seconds: 5}\n", "uses `seconds`"),
            ("{measure: same_thread, size: 64}", "run: {seconds: 5}\n", "uses `seconds`"),
            ("{measure: start_up, size: 64}", "run: {messages: 5}\n", "uses `messages`"),
            ("{measure: at_rest, size: 64}", "run: {warm_up: 5}\n", "uses `warm_up`"),
            ("{measure: at_rest, size: 64}", "figure: transport\n", "have their own figures"),
            ("{measure: start_up, size: 64}", "own_tools: true\n", "no case is one"),
            (
                "{measure: start_up, size: 64}",
                "link: {measure: at_rest}\n",
                "goes into `cases.NAME`",
            ),
        ] {
            let text = parse(&format!("{HEAD}cases: {{a: {case}}}\n{run}")).unwrap_err();
            assert!(text.contains(says) && text.contains("mine.yaml:"), "{case} {run}: {text}");
        }
        // Cases with `measure` use the size of `link`; its rate and wait mode do not apply to them.
        parse(&format!(
            "{HEAD}link: {{size: 64, rate_hz: 10, wait: spin}}\ncases: {{a: {{measure: at_rest}}, \
             b: {{measure: same_thread, reach: process}}, c: {{}}}}\nrun: {{seconds: 2, warm_up: \
             5}}\n"
        ))
        .unwrap();
        // Common settings of links do not apply to the workloads next to them.
        parse(&format!(
            "{HEAD}link: {{hogs: 1}}\ncases: {{a: {{workload: {{name: refsys}}}}, b: \
             {{size: 64, rate_hz: 10}}}}\n"
        ))
        .unwrap();
        parse(&format!(
            "{HEAD}{chain}link: {{rate_hz: 10}}\ncases: {{a: {{depth: 2}}}}\nvary: \
             {{reliability: [reliable]}}\n"
        ))
        .unwrap();
    }

    #[test]
    fn what_would_be_the_same_under_several_names_is_refused() {
        let car = "cases:\n  car: {links: {lidar: {size: 64, rate_hz: 10}, camera: {size: 64}}}\n  \
             one: {size: 64}\n";
        for (rest, mark, says) in [
            (
                "vary: {copies: [1, 4]}\n",
                "copies",
                "write `copies` into single links of `cases.car`",
            ),
            ("quick: {vary: {copies: [4]}}\n", "copies", "the case 'car' has `links`"),
            ("link: {copies: 4}\n", "copies", "write `copies` into single links of `cases.car`"),
            (
                "paper: {vary: {size: [1 KiB, 1 MiB]}}\n",
                "size",
                "each link of the case 'car' says its own `size`",
            ),
        ] {
            let text = parse(&format!("{HEAD}{car}{rest}")).unwrap_err();
            let (marked, text) = marked(&text);
            assert!(
                marked == mark && text.contains(says) && text.contains("mine.yaml:9"),
                "{rest}: {text}"
            );
        }
        // These keys are accepted: one case uses `rate_hz`, `hogs` is a key of whole cases, and the
        // last `run` does not include the case with links.
        for rest in [
            "vary: {rate_hz: [10, 20]}\n",
            "vary: {hogs: [0, 1]}\n",
            "run: {cases: [one]}\nvary: {copies: [1, 4]}\n",
        ] {
            parse(&format!("{HEAD}{car}{rest}")).unwrap();
        }
    }

    #[test]
    fn lengths_of_runs_are_refused_where_no_case_can_use_them() {
        let cases = "cases:\n  pp: {size: 64}\n  open: {size: 64, rate_hz: 10}\n  graph: \
             {workload: {name: refsys}}\n";
        for (rest, mark, says) in [
            ("run: {cases: [pp], seconds: 5}\n", "seconds", "no case of `run` uses `seconds`"),
            (
                "quick: {cases: [pp], seconds: 5}\n",
                "seconds",
                "write `messages`, or give a `rate_hz`",
            ),
            ("paper: {cases: [graph], messages: 5}\n", "messages", "write `seconds`"),
            ("quick: {cases: [graph], warm_up: 5}\n", "warm_up", "a fifth of its `seconds`"),
        ] {
            let text = parse(&format!("{HEAD}{cases}{rest}")).unwrap_err();
            let (marked, text) = marked(&text);
            assert!(
                marked == mark && text.contains(says) && text.contains("mine.yaml:10"),
                "{rest}: {text}"
            );
        }
        // These keys are accepted: at least one case uses each, and the other cases behave as
        // documented.
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
        parse(&format!(
            "{HEAD}cases: {{a: {{links: {{x: {{size: 1, rate_hz: 10}}}}}}}}\nrun: {{seconds: 5}}\n"
        ))
        .unwrap();
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
            ("cases:\n  a: {rate_hz: 30}\n", 7, "'a' has no `size`"),
            ("cases: {a: {links: {x: {size: 1}, y: {}}}}\n", 6, "'y' has no `size`"),
            (
                "cases: {a: {size: 64}}\nlink: {links: {x: {}}}\n",
                7,
                "`links` goes into `cases.NAME`",
            ),
            ("cases:\n  a: {size: 64}\nrun: {messages: 1, seconds: 1}\n", 8, "not both"),
            ("cases:\n  a: {size: 64, subscribers: 0}\n", 7, "subscribers"),
            ("cases: {a: {size: 64}}\nvary: {rate_hz: [0]}\n", 7, "must be between 0.01 and"),
            ("cases: {a: {size: 64}}\nvary: {rate_hz: [10, -5]}\n", 7, "must be between 0.01 and"),
            ("cases: {a: {size: 64}}\nquick: {vary: {subscribers: [0]}}\n", 7, "between 1 and 512"),
            ("cases: {a: {size: 64}}\nvary: {copies: [1000000000]}\n", 7, "between 1 and 256"),
            (
                "cases: {a: {size: 64}}\nvary: {subscribers: []}\n",
                7,
                "`subscribers` is an empty list",
            ),
            (
                "cases: {a: {size: 64}}\nquick: {systems: []}\n",
                7,
                "name at least one, or remove the key",
            ),
            (
                "cases: {a: {size: 64}}\nvary: {payload: [filled, fill]}\n",
                7,
                "`payload[1]` cannot be `fill`",
            ),
            ("cases:\n  a: {size: 64, rate: 30}\n", 7, "did you mean `rate_hz`?"),
            ("cases: {a: {size: 64}}\nvary: {hogs: [65]}\n", 7, "out of range: 65"),
            ("cases: {a: {size: 64}}\nvary: {depth: [0]}\n", 7, "between 1 and 1024"),
            ("cases: {a: {size: 64}}\nvary: {priority: [100]}\n", 7, "out of range: 100"),
            ("cases: {a: {size: 64}}\nvary: {quota_percent: [0]}\n", 7, "between 1 and 10000"),
            ("cases: {a: &a {size: 64}, b: {<<: *a}}\n", 6, "merge keys"),
            ("cases: {a: {size: 64}}\n---\nscenario: 1\n", 7, "a second document"),
            ("cases:\n  a: {links: {front camera: {size: 1}}}\n", 7, "cannot be a topic"),
            ("cases:\n  a: {size: 64, loss_percent: 1}\n", 7, "add `reach: network`"),
            (
                "link: {cable_mbit: 100}\ncases: {a: {size: 64}}\n",
                6,
                "`cable_mbit` is about the cable",
            ),
            ("cases: {a: {size: 64}}\nvary: {loss_percent: [0, 2]}\n", 7, "add `reach: network`"),
            ("cases: {a: {size: 64}}\nvary: {delay_ms: [0, 5]}\n", 7, "add `reach: network`"),
            (
                "cases: {a: {size: 64}}\nvary: {cable_mbit: [10, 100]}\n",
                7,
                "`cable_mbit` is about the cable",
            ),
            ("cases:\n  a: {size: 64, delay_ms: 5}\n", 7, "`delay_ms` is about the cable"),
            ("cases: {a: {size: 64, reach: network, delay_ms: 501}}\n", 6, "between 0 and 500"),
            (
                "cases: {a: {size: 64, reach: network}}\nvary: {delay_ms: [5, 501]}\n",
                7,
                "between 0 and 500",
            ),
            (
                "cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n",
                7,
                "belongs to the case as a whole",
            ),
        ] {
            let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(
                text.contains(says) && text.contains(&format!("mine.yaml:{line}")),
                "{rest}: {text}"
            );
        }
        let text = parse(&format!(
            "{HEAD}cases: {{a: {{size: 64}}}}\nvary: {{rate_hz: [1e-300, 1e300]}}\n"
        ))
        .unwrap_err();
        assert!(
            text.contains("out of range: 1e-300\n") && text.contains("out of range: 1e300\n"),
            "{text}"
        );
        assert!(
            parse(&format!("{HEAD}cases: {{a: {{}}}}\n").replace("id: X", "id: a b"))
                .unwrap_err()
                .contains("letters, digits")
        );
        assert!(
            parse(&HEAD.replace("scenario: 1", "scenario: 2"))
                .unwrap_err()
                .contains("this release reads format 1")
        );
    }

    #[test]
    fn all_mistakes_of_a_file_are_reported_at_once_in_the_order_of_its_lines() {
        let peers = driveline_bench::peers::discover(None).unwrap();
        let text = HEAD.replace("id: X", "id: a b")
            + "systems: [drivline]
cases:
  a: {size: 64, wait: poll}
  b: {links: {x: {size: 1, hogs: 2}, y: {}}}
  c: {workload: {name: refsys, parameters: {thread: 5, threads: many}}, hogs: 1}
quick: {cases: [d], messages: 1, seconds: 1}
";
        let document = parse_document(Path::new("mine.yaml"), text).unwrap();
        let LoadError::File(found) = check(document, Some(&peers)).unwrap_err() else {
            panic!("it is a file")
        };
        let rendered: Vec<(u32, &str)> = found
            .iter()
            .map(|d| (d.place.as_ref().unwrap().span.line, d.message.as_str()))
            .collect();
        let expected = [
            (2, "'a b' is no id"),
            (6, "'drivline'"),
            (8, "'poll'"),
            (9, "`hogs` belongs to the case as a whole"),
            (9, "'y' has no `size`"),
            (10, "no parameter 'thread'"),
            (10, "parameter 'threads'"),
            (10, "which has no `hogs`"),
            (11, "there is no case 'd'"),
            (11, "not both"),
        ];
        assert_eq!(rendered.len(), expected.len(), "{rendered:#?}");
        for ((line, said), (at, says)) in rendered.iter().zip(expected) {
            assert!(*line == at && said.contains(says), "{at}: {says} in {rendered:#?}");
        }
        let text = parse(&format!(
            "{HEAD}cases: {{a: {{size: 64, wait: poll}}}}\nrun: {{seconds: 5}}\nanswer: fairness\n"
        ))
        .unwrap_err();
        for rendered in
            ["'poll'", "no case of `run` uses `seconds`", "`fairness` is about several subscribers"]
        {
            assert!(text.contains(rendered), "{rendered}: {text}");
        }
    }

    /// Returns the marked part of the text, and the whole.
    fn marked(text: &str) -> (&str, &str) {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines
            .iter()
            .position(|l| l.trim_start_matches([' ', '|']).starts_with('^'))
            .unwrap_or_else(|| panic!("{text}"));
        let from = lines[at].find('^').unwrap();
        (lines[at - 1].get(from..from + lines[at].matches('^').count()).unwrap(), text)
    }

    #[test]
    fn what_is_marked_is_what_is_wrong() {
        let peers = driveline_bench::peers::discover(None).unwrap();
        for (rest, mark, says) in [
            (
                "systems: [driveline, drivline]\ncases: {a: {size: 64}}\n",
                "drivline",
                "did you mean `driveline`?",
            ),
            (
                "quick: {systems: [fastds]}\ncases: {a: {size: 64}}\n",
                "fastds",
                "did you mean `fastdds`?",
            ),
            ("cases: {a: {size: 64, systems: [zenho]}}\n", "zenho", "did you mean `zenoh`?"),
            (
                "link: {systems: [zenho]}\ncases: {a: {size: 64}}\n",
                "zenho",
                "did you mean `zenoh`?",
            ),
            (
                "systems: [mine]\ncases: {a: {size: 64}}\n",
                "mine",
                "known are driveline, driveline_cpp",
            ),
            ("cases:\n  a: {size: 64, wait: spin:5ms}\n", "spin:5ms", "without a unit: spin:5000"),
            ("cases: {a: {size: 64}}\nlink: {wait: blok}\n", "blok", "did you mean block?"),
            ("cases: {a: {size: 64}}\nvary: {wait: [block, poll]}\n", "poll", "use block, spin"),
            ("cases:\n  a: {links: {x: {size: 1, wait: spin:0}}}\n", "spin:0", "use block, spin"),
            ("cases: {a: {workload: {name: refsis}}}\n", "refsis", "did you mean `refsys`?"),
            (
                "cases: {a: {workload: {name: refsys, parameters: {thread: 5}}}}\n",
                "thread",
                "did you mean `threads`?",
            ),
            (
                "cases: {a: {workload: {name: refsys, parameters: {threads: many}}}}\n",
                "many",
                "parameter 'threads'",
            ),
            (
                "cases: {a: {size: 64}}\nvary: {subscribers: 3}\n",
                "3",
                "write a list: `subscribers: [3]`",
            ),
            (
                "cases: {a: {size: 64}}\nvary: {wait: spin}\n",
                "spin",
                "write a list: `wait: [spin]`",
            ),
            (
                "cases:\n  a: {links: {b: {size: 1, delay_ms: 5}}}\n",
                "delay_ms",
                "next to `links` in `cases.a`",
            ),
            ("delay_ms: 5\ncases: {a: {size: 64}}\n", "delay_ms", "`delay_ms` goes into"),
            (
                "links: {a: {}}\ncases: {a: {size: 64}}\n",
                "links",
                "did you mean `link`? `links` goes into `cases.NAME`",
            ),
            (
                "chain:\n  stages:\n    a: {output: x, work: bytes, environment: {map: MAP}, \
                 reads: {mop: file}}\n    b: {inputs: [x], work: copy}\n  edges: {x: 1 \
                 KiB}\ncases: {a: {}}\n",
                "mop",
                "did you mean `map`?",
            ),
            ("cases: {near: {size: 64}}\nquick: {cases: [nera]}\n", "nera", "did you mean `near`?"),
            (
                "cases: {near: {size: 64}}\npublished: [{system: a, case: nera}]\n",
                "nera",
                "did you mean `near`?",
            ),
        ] {
            let document = parse_document(Path::new("mine.yaml"), format!("{HEAD}{rest}"))
                .map_err(LoadError::from);
            let checked = document.and_then(|d| check(d, Some(&peers)));
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
