// SPDX-License-Identifier: Apache-2.0
//! Reasons why an end of a topic is not seen: its module does not answer, for example because it is
//! suspended, restarting or down, or the topic has `reach: process`.

use crate::text::cut;
use driveline_runtime::launch::control::{
    ModuleTopic, ProcessKind, ProcessState, ProcessStatus, RunStatus, Verb, find,
};
use driveline_shm::domain;
use std::collections::BTreeSet;
use std::time::Duration;

/// Time for each run to respond.
const ASK: Duration = Duration::from_millis(500);
/// Number of columns to which names are cut.
const NAME: usize = 80;
/// Maximum number of topics or modules that a line names.
const MAX_NAMED: usize = 5;

/// Missing end of a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Publisher,
    Subscription,
}

impl End {
    fn does(self) -> &'static str {
        match self {
            Self::Publisher => "publishes it",
            Self::Subscription => "subscribes to it",
        }
    }

    fn is_of(self, topic: &ModuleTopic) -> bool {
        match self {
            Self::Publisher => topic.publishes,
            Self::Subscription => topic.subscribes,
        }
    }
}

/// The runs of a domain that respond.
pub(super) struct Runs(Vec<RunStatus>);

impl Runs {
    /// Asks the runs of the domain.
    pub(super) fn ask(domain: Option<&str>) -> Self {
        let sockets = domain::existing(domain).ok().flatten().and_then(|dir| find(&dir).ok());
        let sockets = sockets.unwrap_or_default();
        Self(sockets.iter().filter_map(|s| s.ask(Verb::Status, ASK).ok()).collect())
    }

    /// Topics of all modules, also of those without a process.
    pub(super) fn topics(&self) -> BTreeSet<String> {
        self.modules().flat_map(|m| &m.topics).map(|t| cut(&t.name, NAME)).collect()
    }

    /// Topics that are not limited to one process.
    pub(super) fn outside(&self) -> BTreeSet<String> {
        let topics = self.modules().flat_map(|m| &m.topics).filter(|t| !t.inside);
        topics.map(|t| t.name.clone()).collect()
    }

    /// Names of the runs' graphs.
    pub(super) fn graphs(&self) -> BTreeSet<String> {
        self.0.iter().map(|run| cut(&run.graph, NAME)).collect()
    }

    /// Names of the modules, for a completion script.
    pub(super) fn modules_of_graphs(&self) -> BTreeSet<String> {
        let modules = self.modules().filter(|p| p.kind == ProcessKind::Module);
        modules.map(|m| cut(&m.name, NAME)).collect()
    }

    fn modules(&self) -> impl Iterator<Item = &ProcessStatus> {
        self.0.iter().flat_map(|run| &run.processes)
    }

    /// Returns the reasons why ends of this kind are not seen on the topic: one for each module of
    /// the runs that has such an end which tools cannot see. `None` if there is no such module.
    pub(super) fn why(&self, topic: &str, end: End) -> Option<String> {
        let one = |module: &ProcessStatus| {
            let topic = module.topics.iter().find(|t| t.name == topic && end.is_of(t))?;
            let name = cut(&module.name, NAME);
            let does = end.does();
            match trouble(module) {
                Some(trouble) => Some(format!("module '{name}' {does} and {trouble}")),
                None if topic.inside => Some(format!(
                    "module '{name}' {does} with `reach: process`, which tools do not see; declare \
                     `reach: host` for the topic"
                )),
                None => None,
            }
        };
        let all: Vec<String> = self.modules().filter_map(one).take(MAX_NAMED).collect();
        (!all.is_empty()).then(|| all.join("; "))
    }

    /// Returns a line for each module that does not answer, with the topics that a list may lack
    /// because of that.
    pub(super) fn lines(&self) -> String {
        let line = |module: &ProcessStatus| {
            let outside: Vec<_> = module.topics.iter().filter(|t| !t.inside).collect();
            let trouble = trouble(module).filter(|_| !outside.is_empty())?;
            let mut names: Vec<String> = outside
                .iter()
                .take(MAX_NAMED)
                .map(|t| format!("'{}'", cut(&t.name, NAME)))
                .collect();
            if let Some(more) = outside.len().checked_sub(MAX_NAMED).filter(|more| *more > 0) {
                names.push(format!("{more} more"));
            }
            let name = cut(&module.name, NAME);
            Some(format!(
                "module '{name}' {trouble}: its ends of {} are missing here\n",
                names.join(", ")
            ))
        };
        self.modules().filter_map(line).collect()
    }
}

/// Returns the reason why a module does not answer, as the last part of a sentence; `None` if it is
/// ready.
fn trouble(module: &ProcessStatus) -> Option<String> {
    if module.suspended {
        let pid = module.pid.unwrap_or_default();
        return Some(format!("is suspended (`kill -CONT {pid}` lets it go on)"));
    }
    match &module.state {
        ProcessState::Ready => None,
        ProcessState::Down => {
            let why = module.last_fault.as_ref().map(|f| format!(" ({})", cut(&f.text, 200)));
            Some(format!("is down{}", why.unwrap_or_default()))
        }
        state => Some(format!("is {state}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_runtime::launch::control::ProcessKind;

    fn topic(name: &str, publishes: bool, inside: bool) -> ModuleTopic {
        ModuleTopic {
            name: name.into(),
            publishes,
            subscribes: !publishes,
            inside,
            external: false,
        }
    }

    fn runs(state: ProcessState, suspended: bool) -> Runs {
        let module = ProcessStatus {
            name: "sensing".into(),
            kind: ProcessKind::Module,
            pid: Some(4713),
            state,
            suspended,
            topics: vec![topic("camera/image", true, false), topic("camera/raw", true, true)],
            ..status()
        };
        let run = serde_json::json!({
            "id": "5f", "graph": "comp", "domain": "default", "pid": 1, "phase": "running",
            "since_ms": 1, "age_ms": 1, "processes": [module]
        });
        Runs(vec![serde_json::from_value(run).unwrap()])
    }

    fn status() -> ProcessStatus {
        let json = serde_json::json!({
            "name": "", "kind": "module", "state": "ready", "since_ms": 1, "restarts": 0
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn a_module_that_is_suspended_or_down_is_named_and_not_the_reach() {
        let suspended = runs(ProcessState::Ready, true);
        assert_eq!(
            suspended.why("camera/image", End::Publisher).unwrap(),
            "module 'sensing' publishes it and is suspended (`kill -CONT 4713` lets it go on)"
        );
        assert_eq!(
            suspended.lines(),
            "module 'sensing' is suspended (`kill -CONT 4713` lets it go on): its ends of \
             'camera/image' are missing here\n"
        );
        for (state, word) in [
            (ProcessState::Down, "is down"),
            (ProcessState::Restarting, "is restarting"),
            (ProcessState::Starting, "is starting"),
        ] {
            let why = runs(state, false).why("camera/image", End::Publisher).unwrap();
            assert_eq!(why, format!("module 'sensing' publishes it and {word}"));
        }
        let ready = runs(ProcessState::Ready, false);
        assert_eq!(ready.why("camera/image", End::Publisher), None);
        assert_eq!(ready.why("camera/image", End::Subscription), None);
        assert_eq!(ready.lines(), "");
    }

    #[test]
    fn a_topic_that_stays_in_its_process_is_named_with_its_module_and_the_remedy() {
        let why = runs(ProcessState::Ready, false).why("camera/raw", End::Publisher).unwrap();
        assert!(
            why.starts_with("module 'sensing' publishes it with `reach: process`")
                && why.contains("`reach: host`"),
            "{why}"
        );
    }
}
