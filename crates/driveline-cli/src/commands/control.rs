// SPDX-License-Identifier: Apache-2.0
//! `driveline status`, `stop` and `health`: print the answers of a run on its control socket
//! (`docs/protocols/control.md`).

use super::domains::{DomainPlace, hint_at_users};
use super::survey::print_table;
use super::without_launcher;
use crate::arguments::{Health, Stop, WhichRun};
use crate::exit;
use crate::text::{count, cut};
use driveline_runtime::launch::control::{
    AskError, ProcessKind, ProcessState, ProcessStatus, RunSocket, RunStatus, Verb, find,
};
use driveline_shm::domain;
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use serde_json::json;
use std::time::{Duration, Instant};

/// Time for a run to respond.
pub(super) const ASK: Duration = Duration::from_secs(2);
/// Minimum time for a run to respond, if a command's own time is nearly over.
const ASK_AT_LEAST: Duration = Duration::from_millis(500);
/// Pause between two requests of a command that waits.
pub(super) const AGAIN: Duration = Duration::from_millis(100);
/// Number of digits shown of a run's id. They identify the run unless another run's id begins with
/// them.
const SHORT_ID: usize = 8;
/// Minimum number of digits that are read as an id.
const FEWEST_DIGITS: usize = 4;
/// Number of columns to which names and other texts of a run are cut.
pub(super) const NAME: usize = 80;
pub(super) const LINE: usize = 800;

/// Reason why no run was selected.
pub(super) enum Missing {
    /// No run exists, none has that name, or it has just ended or does not respond; another attempt
    /// may find one.
    None(String),
    /// Several runs exist.
    Several(String, Vec<RunStatus>),
    /// The domain or the run cannot be asked.
    Failed(String),
}

impl Missing {
    pub(super) fn print(self, screen: &Screen) -> u8 {
        match self {
            Self::None(text) | Self::Failed(text) => screen.error(text),
            Self::Several(text, runs) => {
                print_runs(&runs, screen);
                screen.error(text);
            }
        }
        exit::FAILED
    }
}

/// The selected run.
pub(super) struct Found {
    pub(super) socket: RunSocket,
    pub(super) run: RunStatus,
    /// Warnings about other runs that do not respond.
    warnings: Vec<String>,
}

impl Found {
    pub(super) fn warn(&self, screen: &Screen) {
        self.warnings
            .iter()
            .for_each(|warning| screen.print_error(&format!("warning: {warning}\n")));
    }
}

pub(crate) fn status(which: &WhichRun, screen: &Screen) -> u8 {
    match select(which, ASK) {
        Ok(found) => {
            found.warn(screen);
            print_run(&found.run, screen);
            exit::DONE
        }
        Err(missing) => missing.print(screen),
    }
}

pub(crate) fn stop(arguments: &Stop, screen: &Screen) -> u8 {
    let began = Instant::now();
    let found = match select(&arguments.which, ASK) {
        Ok(found) => found,
        Err(missing) => return missing.print(screen),
    };
    found.warn(screen);
    let Found { socket, run, .. } = found;
    match socket.ask(Verb::Stop, ASK) {
        Ok(_) | Err(AskError::Gone) => {}
        Err(e) => {
            screen.error(format!("{} cannot be stopped: {e}", called(&run)));
            return exit::FAILED;
        }
    }
    let mut reason = String::new();
    loop {
        let left = arguments.timeout.saturating_sub(began.elapsed());
        match socket.ask(Verb::Health, ASK.min(left)) {
            Err(AskError::Gone) => break,
            Ok(run) => reason = run.reason.unwrap_or_default(),
            // The run is suspended; or its modules have ended and it writes its report.
            Err(e @ AskError::Silent { .. }) if left > ASK => reason = e.to_string(),
            Err(AskError::Silent { .. }) => {}
            Err(e) => {
                screen.error(format!("it is unknown whether {} has ended: {e}", called(&run)));
                return exit::FAILED;
            }
        }
        if left.is_zero() {
            let why =
                if reason.is_empty() { String::new() } else { format!(": {}", cut(&reason, LINE)) };
            screen.error(format!(
                "{} has not ended within {} s{why}; a second `driveline stop` kills what has not \
                 stopped",
                called(&run),
                arguments.timeout.as_secs_f64()
            ));
            return exit::FAILED;
        }
        std::thread::sleep(AGAIN.min(left));
    }
    if screen.json {
        let after_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        screen.print_json(
            &json!({ "graph": run.graph, "id": run.id, "ended": true, "after_ms": after_ms }),
        );
    } else {
        screen.print(&format!("{} has ended\n", called(&run)));
    }
    exit::DONE
}

pub(crate) fn health(arguments: &Health, screen: &Screen) -> u8 {
    let end = arguments.wait.map(|_| Instant::now() + arguments.timeout);
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        // With `--wait`, the run is asked again until it is ready, or until a module stays down:
        // then it cannot become ready.
        let go_on = |run: &RunStatus| run.ready != Some(true) && !stays_down(run);
        let again = left.is_some_and(|left| !left.is_zero());
        let patience = left.map_or(ASK, |left| left.clamp(ASK_AT_LEAST, ASK));
        let asked = select(&arguments.which, patience).and_then(|found| {
            let run = found
                .socket
                .ask(Verb::Health, patience)
                .map_err(|e| cannot_ask(&called(&found.run), &e))?;
            Ok(Found { run, ..found })
        });
        match asked {
            Ok(found) if !(again && go_on(&found.run)) => {
                found.warn(screen);
                let waited = end.filter(|_| go_on(&found.run)).map(|_| arguments.timeout);
                return print_health(&found.run, waited, screen);
            }
            Err(missing) if !again || matches!(missing, Missing::Several(..)) => {
                return missing.print(screen);
            }
            _ => std::thread::sleep(AGAIN.min(left.unwrap_or_default())),
        }
    }
}

/// Returns true if a module has ended and will not be started again in this run.
fn stays_down(run: &RunStatus) -> bool {
    run.processes.iter().any(|p| p.state == ProcessState::Down && p.kind == ProcessKind::Module)
}

/// Prints a verdict and returns the exit code. `waited`: time that the run had to become ready.
fn print_health(run: &RunStatus, waited: Option<Duration>, screen: &Screen) -> u8 {
    print_run(run, screen);
    if !screen.json {
        super::health::print(run, screen);
    }
    if run.ready == Some(true) {
        return exit::DONE;
    }
    let within =
        waited.map_or_else(String::new, |time| format!(" within {} s", time.as_secs_f64()));
    let reason =
        run.reason.as_deref().unwrap_or("its launcher is of another version and has no verdict");
    screen.error(format!("{} is not ready{within}: {}", called(run), cut(reason, LINE)));
    exit::FAILED
}

pub(super) fn called(run: &RunStatus) -> String {
    format!("run '{}' (process {})", cut(&run.graph, NAME), run.pid)
}

fn cannot_ask(who: &str, e: &AskError) -> Missing {
    match e {
        AskError::Gone => Missing::None(format!("{who} has just ended")),
        e @ AskError::Silent { .. } => Missing::None(format!("{who}: {e}")),
        e => Missing::Failed(format!("{who}: {e}")),
    }
}

fn short(id: &str) -> &str {
    id.get(..SHORT_ID).unwrap_or(id)
}

/// Returns the run that `which` selects, and its state.
pub(super) fn select(which: &WhichRun, patience: Duration) -> Result<Found, Missing> {
    let place = DomainPlace::of(which.domain.as_deref()).map_err(Missing::Failed)?;
    let directory =
        domain::existing(which.domain.as_deref()).map_err(|e| Missing::Failed(e.to_string()))?;
    let sockets = match &directory {
        Some(directory) => find(directory)
            .map_err(|e| Missing::Failed(format!("cannot read {}: {e}", directory.display())))?,
        None => Vec::new(),
    };
    let mut runs = Vec::new();
    let mut silent = Vec::new();
    for socket in sockets {
        match socket.ask(Verb::Status, patience) {
            Ok(run) => runs.push((socket, run)),
            Err(AskError::Gone) => {}
            Err(e) => silent.push((socket, e)),
        }
    }
    let wanted = |(socket, run): &(RunSocket, RunStatus)| {
        which.run.as_deref().is_none_or(|name| is_named(name, &run.graph, socket.id()))
    };
    let known: Vec<String> =
        runs.iter().map(|(_, run)| format!("'{}'", cut(&run.graph, NAME))).collect();
    let (mut meant, others): (Vec<_>, Vec<_>) = runs.into_iter().partition(wanted);
    match (meant.pop(), meant.is_empty(), silent.as_slice()) {
        (Some((socket, run)), true, silent) => {
            let warnings = silent
                .iter()
                .map(|(socket, e)| format!("run {}: {e}", short(socket.id())))
                .collect();
            Ok(Found { socket, run, warnings })
        }
        (Some(last), false, _) => {
            meant.push(last);
            let by = if which.run.is_some() {
                "the id of one, such as"
            } else {
                "a name or an id, such as"
            };
            let text = format!(
                "there are several runs in {place}; add `--run` with {by} `--run {}`",
                short(meant[0].0.id())
            );
            Err(Missing::Several(text, meant.into_iter().map(|(_, run)| run).collect()))
        }
        (None, _, [(socket, e)]) if others.is_empty() => {
            Err(cannot_ask(&format!("run {}", short(socket.id())), e))
        }
        (None, _, silent) => {
            let name = which
                .run
                .as_deref()
                .map_or_else(String::new, |name| format!(" '{}'", cut(name, NAME)));
            let id = which.run.as_deref().filter(|name| name.len() < FEWEST_DIGITS);
            let id = id.and_then(|digits| others.iter().find(|(s, _)| s.id().starts_with(digits)));
            let there = match (known.is_empty(), silent.len()) {
                (true, 0) => directory.as_deref().map_or_else(String::new, |directory| {
                    without_launcher::modules(directory, which.run.as_deref())
                }),
                (true, n) => format!("; {} there do not respond", count(n as u64, "run")),
                (false, _) if let Some((socket, _)) = id => {
                    format!(
                        "; write at least {FEWEST_DIGITS} digits of an id: {}",
                        short(socket.id())
                    )
                }
                (false, _) => format!("; there are: {}", known.join(", ")),
            };
            let more = there + &elsewhere(&place);
            let more = if more.is_empty() && which.run.is_none() {
                "; `driveline run GRAPH` starts one".to_owned()
            } else {
                more
            };
            let users = match place {
                DomainPlace::Named(_) => hint_at_users(&domain::other_users()),
                DomainPlace::Directory(_) => String::new(),
            };
            let users = if users.is_empty() { users } else { format!("; {}", users.trim_end()) };
            Err(Missing::None(format!("no run{name} in {place}{more}{users}")))
        }
    }
}

/// Returns true if the name selects this run: its graph's name, or the first digits of its id.
fn is_named(name: &str, graph: &str, id: &str) -> bool {
    name == graph || name.len() >= FEWEST_DIGITS && id.starts_with(name)
}

/// Lists other domains that contain a run, as the last part of a sentence.
fn elsewhere(place: &DomainPlace) -> String {
    let DomainPlace::Named(own) = place else { return String::new() };
    let others = domain::all().into_iter().filter(|(name, _)| name != own);
    let with_runs =
        others.filter(|(_, directory)| find(directory).is_ok_and(|runs| !runs.is_empty()));
    with_runs
        .map(|(name, _)| format!("; one is in domain '{name}': add `--domain {name}`"))
        .collect()
}

/// Formats a time for users.
pub(super) fn span(ms: u64) -> String {
    let s = ms / 1000;
    match s {
        0..10 => format!("{:.1} s", ms as f64 / 1e3),
        10..60 => format!("{s} s"),
        60..3600 => format!("{} min {} s", s / 60, s % 60),
        _ => format!("{} h {} min", s / 3600, s / 60 % 60),
    }
}

fn print_runs(runs: &[RunStatus], screen: &Screen) {
    if screen.json {
        return screen.print_json(&runs);
    }
    let head = ["RUN", "ID", "PROCESS", "PHASE", "FOR", "MODULES"].map(str::to_owned).to_vec();
    let row = |run: &RunStatus| {
        let modules: Vec<_> = run.processes.iter().map(|p| p.name.as_str()).collect();
        vec![
            cut(&run.graph, NAME),
            short(&run.id).to_owned(),
            run.pid.to_string(),
            cut(&run.phase.to_string(), NAME),
            span(run.since_ms),
            cut(&modules.join(", "), NAME),
        ]
    };
    use Align::{Left, Right};
    let rows: Vec<_> = std::iter::once(head).chain(runs.iter().map(row)).collect();
    print_table(&[Left, Left, Right, Left, Right, Left], &rows, screen);
}

fn state(p: &ProcessStatus) -> String {
    let suspended = if p.suspended { ", suspended" } else { "" };
    cut(&format!("{}{suspended}", p.state), NAME)
}

fn print_run(run: &RunStatus, screen: &Screen) {
    if screen.json {
        return screen.print_json(run);
    }
    let verdict = match run.ready {
        Some(true) => ", ready",
        Some(false) => ", not ready",
        None => "",
    };
    let (phase, domain) = (cut(&run.phase.to_string(), NAME), cut(&run.domain, NAME));
    screen.print(&format!(
        "{} in domain '{domain}': {phase} for {}{verdict}\n",
        called(run),
        span(run.since_ms)
    ));
    let head =
        ["MODULE", "STATE", "FOR", "PROCESS", "RESTARTS", "COMPONENTS"].map(str::to_owned).to_vec();
    let row = |p: &ProcessStatus| {
        let components = match p.kind {
            ProcessKind::Gateway => "(gateway)".to_owned(),
            _ => cut(&p.components.join(", "), NAME),
        };
        let pid = p.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        vec![
            cut(&p.name, NAME),
            state(p),
            span(p.since_ms),
            pid,
            p.restarts.to_string(),
            components,
        ]
    };
    use Align::{Left, Right};
    let rows: Vec<_> = std::iter::once(head).chain(run.processes.iter().map(row)).collect();
    print_table(&[Left, Left, Right, Right, Right, Left], &rows, screen);
    for line in run.mode.iter().flat_map(super::mode::lines) {
        screen.print(&format!("{line}\n"));
    }
    for p in &run.processes {
        let name = cut(&p.name, NAME);
        if let Some(call) = &p.busy {
            let long = if p.state == ProcessState::Ready { " for more than 3 s" } else { "" };
            screen.print(&format!("'{name}' is busy: {}{long}\n", cut(call, LINE)));
        }
        if let Some(fault) = &p.last_fault {
            screen.print(&format!(
                "last fault of '{name}', {} ago: {}\n",
                span(fault.ago_ms),
                cut(&fault.text, LINE)
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short() {
        let spans = [0, 1250, 9999, 10_000, 59_999, 61_000, 7_500_000].map(span);
        assert_eq!(spans, ["0.0 s", "1.2 s", "10.0 s", "10 s", "59 s", "1 min 1 s", "2 h 5 min"]);
    }

    #[test]
    fn a_run_is_named_by_its_graph_or_by_digits() {
        assert!(is_named("comp", "comp", "3fa9c1d2") && is_named("3fa9", "comp", "3fa9c1d2"));
        assert!(
            !is_named("3fa", "comp", "3fa9c1d2")
                && !is_named("com", "comp", "3fa9c1d2")
                && !is_named("", "comp", "3fa9c1d2")
        );
    }
}
