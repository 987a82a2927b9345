// SPDX-License-Identifier: Apache-2.0
//! Causes the planned faults one after the other, and waits after each until the graph has
//! answered, for example by a restart.

use crate::census::{self, Census};
use crate::faults::FaultKind;
use crate::gaps::{Gaps, Observer};
use crate::graph::GraphFacts;
use crate::plan::{Planned, Restarts};
use crate::progress::Progress;
use crate::report::{Parts, Report, Run};
use crate::session::{POLL, Session, SessionOptions, end_of};
use crate::summary::RunSummary;
use crate::verdict::{Answer, Caused, Finding, Left, RunFacts, judge};
use driveline_analyze::MAX_FAULTS;
use driveline_runtime::launch::control::{ProcessState, ProcessStatus, RunPhase, RunStatus};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time for a graph to start, for a module to work again, and for the run to respond.
const RECOVERS_WITHIN: Duration = Duration::from_secs(120);
/// Time in which a call must take an injected fault.
const TAKEN_WITHIN: Duration = Duration::from_secs(30);
/// Time for a run to end in order.
const ENDS_WITHIN: Duration = Duration::from_secs(90);
/// Time in which the processes of a run must end after the end of their launcher, or, if the graph
/// lets them continue without it, after SIGTERM. A later end is a breach.
const LAUNCHER_LOST: Duration = Duration::from_secs(6);
/// Time for counters, which modules send once a second, and for the record of a call to arrive.
const COUNTED: Duration = Duration::from_millis(1200);
/// Time for the observer to connect before the faults. After the last fault: time for restarts to
/// end, and for descriptors and segments of dead peers to be closed.
const SETTLES_WITHIN: Duration = Duration::from_secs(60);

/// Inputs of a campaign.
#[derive(Clone, Debug)]
pub struct CampaignOptions {
    /// Program, graph and assignments. Its `report` is the directory of the whole campaign.
    pub session: SessionOptions,
    /// Seed, for the report.
    pub seed: u64,
    /// Time before the first fault of each run.
    pub quiet: Duration,
    /// Topics whose gaps are measured. If empty, all topics that modules publish, except those with
    /// process reach.
    pub watch: Vec<String>,
    /// Cause faults beyond the graph's limit of restarts.
    pub beyond_limits: bool,
}

/// A campaign in progress.
struct Campaign<'a> {
    options: &'a CampaignOptions,
    graph: &'a GraphFacts,
    interrupted: &'a AtomicBool,
    progress: Progress,
    done: usize,
    parts: Parts,
    began: Instant,
}

/// Causes the planned faults. Blocks until each is answered or its time-out has passed, or until an
/// interruption. If a fault ends a run that should go on, the rest of this run's faults is left
/// out.
///
/// # Errors
/// If a run cannot be started or observed, or ends before its first fault, with the reason.
pub fn run(
    options: &CampaignOptions,
    graph: &GraphFacts,
    planned: &[Planned],
    interrupted: &AtomicBool,
) -> Result<Report, String> {
    let mut campaign = Campaign {
        options,
        graph,
        interrupted,
        progress: Progress::new(planned.len()),
        done: 0,
        parts: Parts { graph: graph.name.clone(), seed: options.seed, ..Parts::default() },
        began: Instant::now(),
    };
    for (number, part) in split(planned).into_iter().enumerate() {
        if campaign.is_interrupted() {
            break;
        }
        campaign.session(number + 1, part)?;
    }
    campaign.progress.end();
    campaign.parts.interrupted = campaign.is_interrupted();
    campaign.parts.duration_s = campaign.began.elapsed().as_secs_f64();
    Ok(Report::of(campaign.parts))
}

/// Splits the faults into runs: a killed launcher ends a run, and the report of a run has a bounded
/// number of faults.
fn split(planned: &[Planned]) -> Vec<&[Planned]> {
    let parts = planned.split_inclusive(|p| p.kind == FaultKind::Launcher);
    parts.flat_map(|part| part.chunks(MAX_FAULTS)).collect()
}

impl Campaign<'_> {
    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }

    /// Sleeps, but not beyond an interruption.
    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.is_interrupted() {
            std::thread::sleep(end.saturating_duration_since(Instant::now()).min(POLL * 5));
        }
    }

    fn session(&mut self, number: usize, planned: &[Planned]) -> Result<(), String> {
        let report = self.options.session.report.join(format!("run-{number}"));
        let options = SessionOptions { report: report.clone(), ..self.options.session.clone() };
        self.progress.at(self.done, "start of the graph");
        let mut running = Running::start(&options, self.graph)?;
        for (module, ms) in &running.cold_starts {
            let longest = self.parts.cold_starts.entry(module.clone()).or_default();
            *longest = longest.max(*ms);
        }
        let run = running.state()?;
        let observer = Observer::start(running.session.domain(), &self.topics(&run))?;
        // The resources are counted after the observer has connected, so that its connections do
        // not count as growth.
        let end = Instant::now() + SETTLES_WITHIN;
        while !observer.is_matched() && !self.is_interrupted() && Instant::now() < end {
            std::thread::sleep(POLL);
        }
        let quiet = Instant::now();
        self.progress.at(self.done, "quiet time");
        self.pause(self.options.quiet.max(COUNTED));
        let quiet_s = quiet.elapsed().as_secs_f64();
        let run = running.state()?;
        let before = running.session.census(&run);
        observer.faults_begin();
        let mut facts = RunFacts::default();
        for planned in planned {
            let Some(caused) = self.fault(&mut running, planned) else { break };
            let broken = matches!(&caused.answer, Answer::Missing(_)) && running.is_over();
            facts.caused.push(caused);
            self.done += 1;
            if broken {
                break;
            }
        }
        let lost =
            facts.caused.iter().any(|c| matches!(c.answer, Answer::Ended(_) | Answer::GoesOn));
        let unbroken = facts.caused.is_empty();
        let after =
            if lost || unbroken { before.clone() } else { running.settle(&before, &mut facts) };
        merge_gaps(&mut self.parts.gaps, observer.end());
        facts.left.growth = after.beyond(&before);
        let ended = running.end(&mut facts, lost);
        facts.summary = summary_of(&report);
        if facts.summary.is_none() && !lost {
            let text = format!("no readable summary.json in {}", report.display());
            facts.ended = Some(Err(text));
        }
        let findings = judge(self.graph, &mut facts);
        merge_findings(&mut self.parts.findings, findings);
        self.parts.faults.append(&mut facts.caused);
        self.parts.runs.push(Run {
            directory: report.display().to_string(),
            duration_s: running.began.elapsed().as_secs_f64(),
            quiet_s,
            ended,
            before,
            after,
        });
        Ok(())
    }

    /// Topics to observe.
    fn topics(&self, run: &RunStatus) -> Vec<String> {
        if !self.options.watch.is_empty() {
            return self.options.watch.clone();
        }
        let topics = run.processes.iter().flat_map(|p| &p.topics);
        let mut names: Vec<String> =
            topics.filter(|t| t.publishes && !t.inside).map(|t| t.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Causes a fault after its pause. `None` after an interruption.
    fn fault(&mut self, running: &mut Running<'_>, planned: &Planned) -> Option<Caused> {
        let module = planned.module.as_deref();
        let of = module.map_or(String::new(), |m| format!(" of '{m}'"));
        self.progress.at(self.done, &format!("{}{of}", planned.kind));
        self.pause(planned.pause);
        if let Some(facts) = module.and_then(|m| self.graph.module(m))
            && planned.kind.ends_process()
            && !self.options.beyond_limits
        {
            let restarts = running.restarts.entry(facts.name.clone()).or_default();
            let wait = restarts.wait(running.began.elapsed(), facts.max, facts.window);
            if !wait.is_zero() {
                let text = format!("{}{of}, when its restarts are within the limit", planned.kind);
                self.progress.at(self.done, &text);
                self.pause(wait);
            }
        }
        if self.is_interrupted() {
            return None;
        }
        let at_s = running.began.elapsed().as_secs_f64();
        let mut pid = None;
        let answer = running.cause(planned, &mut pid).unwrap_or_else(Answer::Missing);
        Some(Caused {
            number: self.done + 1,
            kind: planned.kind,
            module: planned.module.clone(),
            pid,
            at_s,
            answer,
            reported: None,
            ready_after_ms: None,
            first_sample_after_ms: None,
        })
    }
}

/// A run, with the state that the campaign keeps of it.
struct Running<'a> {
    session: Session,
    graph: &'a GraphFacts,
    began: Instant,
    /// Time from the start of each module's first process until it was ready, in milliseconds.
    cold_starts: BTreeMap<String, f64>,
    restarts: BTreeMap<String, Restarts>,
}

impl<'a> Running<'a> {
    /// Starts the graph and waits until it is ready.
    fn start(options: &SessionOptions, graph: &'a GraphFacts) -> Result<Self, String> {
        let mut running = Self {
            session: Session::start(options)?,
            graph,
            began: Instant::now(),
            cold_starts: BTreeMap::new(),
            restarts: BTreeMap::new(),
        };
        let mut started: BTreeMap<String, u64> = BTreeMap::new();
        let end = Instant::now() + RECOVERS_WITHIN;
        loop {
            let run = running.session.status()?;
            for (run, process) in run.iter().flat_map(|r| r.processes.iter().map(move |p| (r, p))) {
                let since = run.age_ms.saturating_sub(process.since_ms);
                match process.state {
                    ProcessState::Starting => {
                        started.insert(process.name.clone(), since);
                    }
                    ProcessState::Ready => {
                        if let Some(start) = started.get(&process.name) {
                            let ms = since.saturating_sub(*start) as f64;
                            running.cold_starts.entry(process.name.clone()).or_insert(ms);
                        }
                    }
                    _ => {}
                }
            }
            if run.is_some_and(|r| r.ready == Some(true)) {
                return Ok(running);
            }
            if Instant::now() >= end {
                return Err(format!(
                    "the graph is not ready within {} s:\n{}",
                    RECOVERS_WITHIN.as_secs(),
                    running.session.last_lines()
                ));
            }
            std::thread::sleep(POLL / 5);
        }
    }

    /// Returns the state of the run; waits until it responds.
    fn state(&mut self) -> Result<RunStatus, String> {
        self.until(RECOVERS_WITHIN, "the run does not respond", Some)
    }

    /// Polls until `answer` returns a value. Fails with `otherwise` after a time-out, and at once
    /// if the run has ended.
    fn until<T>(
        &mut self,
        within: Duration,
        otherwise: &str,
        mut answer: impl FnMut(RunStatus) -> Option<T>,
    ) -> Result<T, String> {
        let end = Instant::now() + within;
        loop {
            if let Some(found) = self.session.status()?.and_then(&mut answer) {
                return Ok(found);
            }
            if Instant::now() >= end {
                return Err(format!("{otherwise} within {} s", within.as_secs()));
            }
            std::thread::sleep(POLL);
        }
    }

    fn is_over(&mut self) -> bool {
        self.session.ended().is_ok_and(|ended| ended.is_some())
    }

    /// Causes a fault and waits for the answer. The error is the reason why the fault could not be
    /// caused, or why the answer is missing or wrong.
    fn cause(&mut self, planned: &Planned, pid: &mut Option<u32>) -> Result<Answer, String> {
        match (planned.kind, planned.module.as_deref()) {
            (FaultKind::Launcher, _) => {
                *pid = Some(self.session.launcher());
                self.kill_launcher()
            }
            (FaultKind::Directory, _) => self.lose_directory(),
            (FaultKind::Suspend, _) => self.suspend(planned.stopped),
            (kind, Some(module)) => {
                let before = self.ready(module)?;
                *pid = before.pid;
                self.fault_of_module(kind, module, planned.stopped, &before)
            }
            (kind, None) => Err(format!("a {kind} fault needs a module")),
        }
    }

    /// Returns a module once it works, with its process.
    fn ready(&mut self, module: &str) -> Result<ProcessStatus, String> {
        let process = self.until(RECOVERS_WITHIN, "module is not ready", |run| {
            let process = run.processes.into_iter().find(|p| p.name == module)?;
            matches!(process.state, ProcessState::Ready | ProcessState::Down).then_some(process)
        })?;
        match process.state {
            ProcessState::Down => Err(format!(
                "module '{module}' is down: its restarts exceed the limit of the graph (`restart: \
                 max`)"
            )),
            _ => Ok(process),
        }
    }

    fn fault_of_module(
        &mut self,
        kind: FaultKind,
        module: &str,
        stopped: Duration,
        before: &ProcessStatus,
    ) -> Result<Answer, String> {
        let pid = before.pid.ok_or("module has no process")?;
        let at = Instant::now();
        match kind {
            FaultKind::Kill => self.session.signal(pid, Signal::KILL),
            FaultKind::Stop => return self.stop_and_resume(module, pid, stopped, before),
            _ => {
                let facts = self.graph.module(module).ok_or("no such module")?;
                let fault = kind.injected(facts)?.ok_or("no such fault")?;
                self.session.inject(module, fault)?;
                self.taken(module)?;
            }
        }
        if kind == FaultKind::Exception {
            // The record of the call comes a moment later; killing the module before that would
            // lose it.
            std::thread::sleep(COUNTED);
            return Ok(Answer::Failed);
        }
        self.recovered(module, before.restarts, at)
    }

    fn taken(&mut self, module: &str) -> Result<(), String> {
        let end = Instant::now() + TAKEN_WITHIN;
        while !self.session.is_taken(module) {
            if Instant::now() >= end {
                self.session.withdraw(module);
                return Err(format!(
                    "no call of module '{module}' took the fault within {} s: its components have \
                     neither callbacks nor timers that run, or its `driveline-host` is of a \
                     release without fault points (docs/chaos.md)",
                    TAKEN_WITHIN.as_secs()
                ));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits until a module that ended stays down, or until it works again, together with the
    /// modules restarted with it.
    fn recovered(&mut self, module: &str, before: u64, at: Instant) -> Result<Answer, String> {
        let name = module.to_owned();
        let down = self.until(RECOVERS_WITHIN, "the module does not work again", |run| {
            let process = run.processes.iter().find(|p| p.name == name)?;
            if process.state == ProcessState::Down {
                return Some(true);
            }
            let back = process.restarts > before && run.processes.iter().all(is_settled);
            (back && run.phase == RunPhase::Running).then_some(false)
        })?;
        if down {
            return Ok(Answer::Down);
        }
        self.restarts.entry(name).or_default().add(self.began.elapsed());
        Ok(Answer::Recovered(at.elapsed().as_secs_f64() * 1e3))
    }

    fn stop_and_resume(
        &mut self,
        module: &str,
        pid: u32,
        stopped: Duration,
        before: &ProcessStatus,
    ) -> Result<Answer, String> {
        self.session.signal(pid, Signal::STOP);
        std::thread::sleep(stopped);
        self.session.signal(pid, Signal::CONT);
        let now = self.until(RECOVERS_WITHIN, "the module does not go on", |run| {
            let process = run.processes.into_iter().find(|p| p.name == module)?;
            (is_settled(&process) && !process.suspended).then_some(process)
        })?;
        if now.pid != Some(pid) || now.restarts != before.restarts {
            return Err("the module was restarted although it was only stopped".to_owned());
        }
        Ok(Answer::Resumed)
    }

    /// Suspends all processes of the run and the launcher, then resumes them. No process may be
    /// restarted because of the suspension.
    fn suspend(&mut self, stopped: Duration) -> Result<Answer, String> {
        let of = |run: &RunStatus| -> Vec<_> {
            run.processes.iter().map(|p| (p.name.clone(), p.pid, p.restarts)).collect()
        };
        let before = of(&self.state()?);
        let processes = self.session.processes();
        processes.iter().for_each(|pid| self.session.signal(*pid, Signal::STOP));
        std::thread::sleep(stopped);
        processes.iter().for_each(|pid| self.session.signal(*pid, Signal::CONT));
        let after = self.until(RECOVERS_WITHIN, "the run does not go on", |run| {
            run.processes.iter().all(|p| is_settled(p) && !p.suspended).then(|| of(&run))
        })?;
        if before != after {
            return Err(format!("suspended, and then not the same: {before:?}, now {after:?}"));
        }
        Ok(Answer::Resumed)
    }

    /// Removes the directory of the domain with its content, and creates an empty one, as an
    /// administrator would. The processes do not recreate a directory that `DRIVELINE_DOMAIN_DIR`
    /// names, because they do not know its access rights.
    fn lose_directory(&mut self) -> Result<Answer, String> {
        let domain = self.session.domain();
        let failed = |e: std::io::Error| format!("{}: {e}", domain.display());
        let at = Instant::now();
        let rights = std::fs::metadata(&domain).map_err(failed)?.permissions();
        std::fs::remove_dir_all(&domain).map_err(failed)?;
        std::fs::create_dir(&domain).map_err(failed)?;
        std::fs::set_permissions(&domain, rights).map_err(failed)?;
        self.until(RECOVERS_WITHIN, "the run is not found in its directory again", |run| {
            (run.ready == Some(true)).then_some(())
        })?;
        Ok(Answer::Rejoined(at.elapsed().as_secs_f64() * 1e3))
    }

    fn kill_launcher(&mut self) -> Result<Answer, String> {
        self.session.kill_launcher();
        let at = Instant::now();
        loop {
            if self.session.processes().is_empty() {
                return Ok(Answer::Ended(at.elapsed().as_secs_f64() * 1e3));
            }
            if at.elapsed() >= LAUNCHER_LOST {
                break;
            }
            std::thread::sleep(POLL);
        }
        if self.graph.ends_with_launcher {
            let left = self.session.processes().len();
            return Err(format!(
                "{left} processes live {} s after the launcher",
                LAUNCHER_LOST.as_secs()
            ));
        }
        let modules = self.session.processes();
        modules.iter().for_each(|pid| self.session.signal(*pid, Signal::TERM));
        Ok(Answer::GoesOn)
    }

    /// Waits until the run has settled after the last fault: restarts have ended, resources of dead
    /// peers are closed, counters have arrived. Whatever has not settled at the time-out becomes a
    /// finding.
    fn settle(&mut self, before: &Census, facts: &mut RunFacts) -> Census {
        let end = Instant::now() + SETTLES_WITHIN;
        let counted = Instant::now() + COUNTED;
        loop {
            let Ok(Some(run)) = self.session.status() else { return before.clone() };
            let census = self.session.census(&run);
            let open = run.processes.iter().filter(|p| !is_settled(p));
            facts.unfinished =
                open.map(|p| format!("module '{}' is {}", p.name, p.state)).collect();
            let still = facts.unfinished.is_empty() && census.beyond(before).is_none();
            if still && Instant::now() >= counted || Instant::now() >= end {
                return census;
            }
            std::thread::sleep(POLL * 5);
        }
    }

    /// Ends the run in order and checks for remains.
    fn end(&mut self, facts: &mut RunFacts, lost: bool) -> String {
        let ended = if lost { None } else { Some(self.session.stop(ENDS_WITHIN)) };
        let text = match &ended {
            None => "its launcher was killed".to_owned(),
            Some(Ok(status)) => end_of(*status),
            Some(Err(text)) => text.clone(),
        };
        facts.ended =
            ended.map(|ended| ended.and_then(|status| status.code().ok_or_else(|| end_of(status))));
        let end = Instant::now() + LAUNCHER_LOST;
        while !self.session.processes().is_empty() && Instant::now() < end {
            std::thread::sleep(POLL);
        }
        facts.left = Left {
            processes: self.session.processes(),
            files: census::entries(&self.session.domain()),
            growth: std::mem::take(&mut facts.left.growth),
        };
        text
    }
}

/// Returns true if a process is ready or stays down.
fn is_settled(process: &ProcessStatus) -> bool {
    matches!(process.state, ProcessState::Ready | ProcessState::Down)
}

fn summary_of(report: &std::path::Path) -> Option<RunSummary> {
    let path: PathBuf = report.join("summary.json");
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn merge_gaps(all: &mut BTreeMap<String, Gaps>, more: BTreeMap<String, Gaps>) {
    for (topic, gaps) in more {
        let into = all.entry(topic).or_default();
        for (sum, gap) in [(&mut into.quiet, gaps.quiet), (&mut into.faults, gaps.faults)] {
            sum.samples += gap.samples;
            sum.left_out += gap.left_out;
            sum.longest_ms = sum.longest_ms.max(gap.longest_ms);
            sum.at_most_ms = sum.at_most_ms.max(gap.at_most_ms);
        }
    }
}

fn merge_findings(all: &mut Vec<Finding>, more: Vec<Finding>) {
    for finding in more {
        match all.iter_mut().find(|f| f.invariant == finding.invariant) {
            Some(known) => known.merge(finding),
            None => all.push(finding),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_ends_with_a_killed_launcher_and_before_its_report_is_full() {
        let planned =
            |kind| Planned { kind, module: None, pause: Duration::ZERO, stopped: Duration::ZERO };
        let mut all = vec![planned(FaultKind::Kill), planned(FaultKind::Launcher)];
        all.resize(MAX_FAULTS + 3, planned(FaultKind::Kill));
        let lengths: Vec<usize> = split(&all).iter().map(|part| part.len()).collect();
        assert_eq!(lengths, [2, MAX_FAULTS, 1]);
    }
}
