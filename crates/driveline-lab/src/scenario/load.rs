// SPDX-License-Identifier: Apache-2.0
//! From a file or a built-in name to a scenario whose every part makes sense.

use super::builtin::builtin;
use super::{CaseSpec, RunSpec, Scenario};
use driveline_bench::harness::Wait;
use driveline_runtime::graph::{Colour, Diagnostics, Document, parse_document, read_document};
use std::fmt;
use std::path::Path;

/// Why a scenario cannot be used, for people: with file, line and remedy.
#[derive(Debug)]
pub struct LoadError(String);

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.trim_end())
    }
}

impl std::error::Error for LoadError {}

impl From<Diagnostics> for LoadError {
    fn from(found: Diagnostics) -> Self {
        Self(found.render(Colour::No))
    }
}

/// The scenario that a word means: a built-in one by its id, or a file by its path.
///
/// # Errors
/// If there is none, or the file has mistakes; each is explained with its line.
pub fn load(word: &str) -> Result<Scenario, LoadError> {
    if let Some(known) = builtin().iter().find(|b| b.id.eq_ignore_ascii_case(word)) {
        return check(parse_document(Path::new(&format!("{}.yaml", known.id)), known.text.to_owned())?);
    }
    let path = Path::new(word);
    let looks_like_file = word.contains(['/', '.']);
    if looks_like_file || path.exists() {
        return check(read_document(path)?);
    }
    let near = builtin().iter().map(|b| b.id).min_by_key(|id| strsim::levenshtein(&id.to_lowercase(), &word.to_lowercase()));
    let near = near.filter(|id| strsim::levenshtein(&id.to_lowercase(), &word.to_lowercase()) <= 2);
    let hint = near.map_or_else(String::new, |id| format!(" Did you mean {id}?"));
    Err(LoadError(format!("there is no experiment '{word}'.{hint} `driveline bench list` shows them; a file is named by its path")))
}

/// The JSON Schema of scenario files, for editors.
#[must_use]
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(Scenario)
}

fn check(document: Document<Scenario>) -> Result<Scenario, LoadError> {
    let s = &document.value;
    let wrong = |path: &[&str], message: String, help: &str| {
        Err(LoadError::from(document.mistake(path, message, (!help.is_empty()).then(|| help.to_owned()))))
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    if s.id.is_empty() || s.id.len() > 40 || !s.id.chars().all(plain) {
        return wrong(&["id"], format!("'{}' is no id", s.id), "use letters, digits and dashes, at most 40");
    }
    if s.cases.is_empty() {
        return wrong(&["cases"], "there is nothing to measure".into(), "add a case, for example `camera: {size: 1 MiB, rate_hz: 30}`");
    }
    if s.cases.len() > 64 {
        return wrong(&["cases"], format!("there are {} cases; at most 64 are possible", s.cases.len()), "make several scenarios");
    }
    for (part, run) in [("run", &s.run), ("quick", &s.quick), ("paper", &s.paper)] {
        if let Some(unknown) = run.cases.iter().flatten().find(|c| !s.cases.contains_key(*c)) {
            let names: Vec<_> = s.cases.keys().map(String::as_str).collect();
            return wrong(&[part, "cases"], format!("there is no case '{unknown}'"), &format!("there are {}", names.join(", ")));
        }
        if run.messages.is_some() && run.seconds.is_some() {
            return wrong(&[part, "seconds"], "a run has a number of messages or of seconds, not both".into(), "leave one of them out");
        }
        if let Some(message) = bad_wait(&run.vary.wait) {
            return wrong(&[part, "vary", "wait"], message, "");
        }
    }
    if let Some(unknown) = s.published.iter().filter_map(|p| p.case.as_ref()).find(|c| !s.cases.contains_key(*c)) {
        return wrong(&["published"], format!("a published figure belongs to the case '{unknown}', which there is not"), "");
    }
    if let Some(message) = bad_wait(&s.vary.wait) {
        return wrong(&["vary", "wait"], message, "");
    }
    if let Some(message) = bad_case(&s.link, true) {
        return wrong(&["link"], message, "");
    }
    for (name, case) in &s.cases {
        if let Some(message) = bad_case(case, false) {
            return wrong(&["cases", name], message, "");
        }
        if let Some(topic) = case.driveline_edges.iter().find(|t| !s.chain.as_ref().is_some_and(|c| c.edges.contains_key(*t))) {
            return wrong(&["cases", name, "driveline_edges"], format!("the chain has no topic '{topic}'"), "");
        }
        if let Some(w) = &case.workload
            && let Err(e) = driveline_workloads::check(&w.name, &serde_json::Value::Object(w.parameters.clone()))
        {
            return wrong(&["cases", name, "workload"], format!("{e:#}"), "");
        }
        if s.chain.is_some() && (case.workload.is_some() || !case.links.is_empty()) {
            return wrong(&["cases", name], format!("the scenario is a chain, the case '{name}' something else"), "make two scenarios");
        }
        if !case.links.is_empty() && (case.workload.is_some() || case.copies.is_some()) {
            let message = format!("the case '{name}' has `links` and something else");
            return wrong(&["cases", name], message, "put `copies` into single links; a workload has none");
        }
        for (topic, link) in &case.links {
            let whole = link.hogs.is_some() || link.quota_percent.is_some() || link.favour.is_some() || link.systems.is_some();
            if whole || !link.links.is_empty() || link.workload.is_some() {
                let message = format!("the link '{topic}' says something that belongs to the case as a whole");
                return wrong(&["cases", name, "links", topic], message, "move it one level up");
            }
            if let Some(message) = bad_case(link, false) {
                return wrong(&["cases", name, "links", topic], message, "");
            }
        }
    }
    Ok(document.value)
}

/// What is wrong with the values of a case, which its schema cannot say.
fn bad_case(case: &CaseSpec, common: bool) -> Option<String> {
    if common && (!case.links.is_empty() || case.workload.is_some()) {
        return Some("`links` and `workload` belong to cases".into());
    }
    bad_wait(case.wait.as_slice())
}

fn bad_wait(words: &[String]) -> Option<String> {
    words.iter().find_map(|w| w.parse::<Wait>().err())
}

impl RunSpec {
    /// With the changes that another one makes.
    #[must_use]
    pub fn changed(&self, by: &Self) -> Self {
        let (messages, seconds) =
            if by.messages.is_some() || by.seconds.is_some() { (by.messages, by.seconds) } else { (self.messages, self.seconds) };
        Self {
            rounds: by.rounds.or(self.rounds),
            messages,
            seconds,
            warm_up: by.warm_up.or(self.warm_up),
            systems: by.systems.clone().or_else(|| self.systems.clone()),
            cases: by.cases.clone().or_else(|| self.cases.clone()),
            vary: self.vary.changed(&by.vary),
        }
    }
}

impl super::Vary {
    /// With the lists that another one has.
    #[must_use]
    pub fn changed(&self, by: &Self) -> Self {
        fn list<T: Clone>(own: &[T], by: &[T]) -> Vec<T> {
            if by.is_empty() { own.to_vec() } else { by.to_vec() }
        }
        Self {
            size: list(&self.size, &by.size),
            rate_hz: list(&self.rate_hz, &by.rate_hz),
            subscribers: list(&self.subscribers, &by.subscribers),
            copies: list(&self.copies, &by.copies),
            reach: list(&self.reach, &by.reach),
            wait: list(&self.wait, &by.wait),
            take: list(&self.take, &by.take),
            payload: list(&self.payload, &by.payload),
            reliability: list(&self.reliability, &by.reliability),
            depth: list(&self.depth, &by.depth),
            processing_us: list(&self.processing_us, &by.processing_us),
            priority: list(&self.priority, &by.priority),
            hogs: list(&self.hogs, &by.hogs),
            quota_percent: list(&self.quota_percent, &by.quota_percent),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Scenario, String> {
        parse_document(Path::new("mine.yaml"), text.to_owned()).map_err(LoadError::from).and_then(check).map_err(|e| e.to_string())
    }

    const HEAD: &str = "scenario: 1\nid: X\ntitle: t\nsource: s\nquestion: q\n";

    #[test]
    fn every_built_in_scenario_loads_under_its_id() {
        for b in builtin() {
            assert_eq!(load(b.id).unwrap_or_else(|e| panic!("{e}")).id, b.id);
        }
    }

    #[test]
    fn mistakes_are_explained_with_their_line() {
        for (rest, line, says) in [
            ("cases: {}\n", 6, "nothing to measure"),
            ("cases: {a: {sise: 1}}\n", 6, "did you mean `size`"),
            ("cases: {a: {size: 1 XB}}\n", 6, "is not a size"),
            ("cases:\n  a: {size: 64, wait: poll}\n", 7, "use block, spin"),
            ("cases:\n  a: {size: 64}\nquick: {cases: [b]}\n", 8, "no case 'b'"),
            ("cases:\n  a: {links: {x: {size: 1, hogs: 2}}}\n", 7, "one level up"),
            ("cases:\n  a: {size: 64}\nrun: {messages: 1, seconds: 1}\n", 8, "not both"),
            ("cases:\n  a: {size: 64, subscribers: 0}\n", 7, "subscribers"),
        ] {
            let text = parse(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(text.contains(says) && text.contains(&format!("mine.yaml:{line}")), "{rest}: {text}");
        }
        assert!(parse(&format!("{HEAD}cases: {{a: {{}}}}\n").replace("id: X", "id: a b")).unwrap_err().contains("letters, digits"));
    }

    #[test]
    fn a_word_that_is_nothing_is_answered_with_what_there_is() {
        assert!(load("refsis").unwrap_err().to_string().contains("Did you mean refsys"));
        assert!(load("no/such.yaml").unwrap_err().to_string().contains("no/such.yaml"));
        assert_eq!(load("s1").unwrap().id, "S1");
    }

    #[test]
    fn an_extent_changes_what_it_names_and_nothing_else() {
        let s = parse(&format!("{HEAD}cases: {{a: {{size: 64}}}}\nrun: {{rounds: 5, messages: 10}}\nquick: {{seconds: 2}}\n")).unwrap();
        let quick = s.run.changed(&s.quick);
        assert_eq!((quick.rounds, quick.messages, quick.seconds), (Some(5), None, Some(2.0)));
        assert_eq!(s.run.changed(&s.paper), s.run);
    }
}
