// SPDX-License-Identifier: Apache-2.0
//! A tool that sends requests to a run.

use super::{Fixture, PATIENCE, Seen};
use driveline_runtime::launch::Outcome;
use driveline_runtime::launch::control::{
    Ask, AskError, ControlSocket, ProcessStatus, RunStatus, Verb, find,
};
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Sends requests to the only run of a domain.
pub struct Tool {
    pub domain: PathBuf,
}

impl Tool {
    pub fn ask(&self, ask: impl Into<Ask>) -> Result<RunStatus, AskError> {
        let found = find(&self.domain).unwrap();
        found.first().map_or(Err(AskError::Gone), |run| run.ask(ask, PATIENCE))
    }

    /// Sends the request until the response is as wanted.
    pub fn until(&self, verb: Verb, wanted: impl Fn(&RunStatus) -> bool) -> RunStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            let run = self.ask(verb).unwrap();
            if wanted(&run) {
                return run;
            }
            assert!(Instant::now() < end, "{run:?}");
            std::thread::yield_now();
        }
    }

    /// Requests the stop repeatedly until the run has ended. Half a second after the first request,
    /// the next one counts as a second request, which kills the modules that have not ended yet.
    pub fn stop(&self) {
        while self.ask(Verb::Stop).is_ok() {}
    }

    /// Requests the stop once, and waits until the run has ended in order.
    pub fn end(&self) {
        self.ask(Verb::Stop).unwrap();
        while self.ask(Verb::Status).is_ok() {}
    }

    pub fn signal(&self, module: &str, signal: Signal) {
        let run = self.ask(Verb::Status).unwrap();
        kill_process(
            Pid::from_raw(process(&run, module).pid.unwrap().cast_signed()).unwrap(),
            signal,
        )
        .unwrap();
    }
}

pub fn process<'a>(run: &'a RunStatus, name: &str) -> &'a ProcessStatus {
    run.processes.iter().find(|p| p.name == name).unwrap()
}

pub fn is_ready(run: &RunStatus) -> bool {
    run.ready == Some(true)
}

/// Runs a graph, calls `with` while it runs, and then stops it.
pub fn while_running(text: &str, with: impl FnOnce(&Tool)) -> (Seen, Outcome) {
    let mut f = Fixture::new(text);
    let domain = f.dir.path().join("domain");
    std::fs::create_dir(&domain).unwrap();
    f.options.control = Some(Arc::new(ControlSocket::new(&domain, "test", &f.graph.name).unwrap()));
    f.options.grace = PATIENCE;
    let tool = Tool { domain: domain.clone() };
    let ended = std::thread::scope(|scope| {
        let f = &mut f;
        let launcher = scope.spawn(move || {
            let mut seen = Seen::default();
            let outcome = f.run(&mut seen);
            f.options.control = None;
            (seen, outcome)
        });
        let asked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| with(&tool)));
        tool.stop();
        let ended = launcher.join().unwrap();
        asked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        ended
    });
    // Sockets of killed modules are removed by the next process of the domain.
    let left = std::fs::read_dir(&domain).unwrap().map(|e| e.unwrap().file_name());
    let runs: Vec<_> = left.filter(|name| name.to_string_lossy().starts_with("run-")).collect();
    assert!(runs.is_empty(), "{runs:?} stay behind");
    ended
}
