// SPDX-License-Identifier: Apache-2.0
//! `driveline run`.

use super::deployed::{Deployed, Prepared};
use super::describer::{describer, load_options};
use super::domains::DomainPlace;
use super::hung::Hung;
use super::live::Live;
use super::other_runs;
use super::rights;
use crate::arguments::Run;
use crate::exit;
use crate::process::{self, CpuUse};
use crate::text::cut;
use driveline_analyze::{
    Collector, Ended, ModuleFacts, ProblemKind, RunFacts, Summary, write_outputs,
};
use driveline_gateway::network::GatewayConfig;
use driveline_gateway::ros2::Ros2GatewayConfig;
use driveline_graph::{LoadOptions, Loaded, ResolvedGraph, load};
use driveline_runtime::account::{Record, Usage, note_line};
use driveline_runtime::launch::control::{ClaimError, claim};
use driveline_runtime::launch::{
    self, Death, Down, End, Event, Interrupt, Interrupter, LaunchOptions, Outcome, Sink, Stream,
    When,
};
use driveline_runtime::{domain, host};
use driveline_shm::Survey;
use driveline_shm::domain::DIRECTORY_VARIABLE;
use driveline_terminal::paragraphs;
use driveline_terminal::screen::Screen;
use driveline_types::{MonotonicNs, TopicName};
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Colours of module names; dark enough on white, light enough on black.
const COLOURS: [&str; 6] = ["36", "35", "32", "33", "34", "31"];

/// Colour of lines that need attention.
const TROUBLE: &str = "1;31";

/// Maximum number of components reported as never called or not returned, and of modules reported
/// as ended.
const MOST_WAITING: usize = 8;

/// Maximum number of problems printed at the end of a run; the report has all problems.
const MAX_PROBLEMS: usize = 8;

/// Time to wait for modules that others start, for example by hand.
const ATTACHED_WITHIN: Duration = Duration::from_secs(600);

/// Explains the counts of samples that were not received.
const MISSED: &str = "missed: it should have triggered the component, but newer samples took its \
                      place; superseded: only the newest was wanted, when something else triggered";

pub(crate) fn run(arguments: &Run, screen: &Screen) -> u8 {
    match prepared(arguments, screen) {
        Ok(code) => code,
        Err(text) => {
            screen.error(text);
            exit::FAILED
        }
    }
}

fn prepared(arguments: &Run, screen: &Screen) -> Result<u8, String> {
    // With `--deploy`, signals are caught only after the images are built: until then, Ctrl-C ends
    // this command at once.
    let early = if arguments.deploy.is_none() { Some(signals()?) } else { None };
    let host = launch::find_host();
    let describer = describer();
    let modules = Some(arguments.modules.clone()).filter(|m| !m.is_empty());
    // Without `driveline-host`, libraries cannot be checked. This is reported once, and only if the
    // graph itself has no errors.
    let looks_into_none = arguments.no_libraries || (host.is_err() && modules.is_none());
    let looked_into = if looks_into_none { Some(Vec::new()) } else { modules.clone() };
    let options = LoadOptions {
        set: arguments.set.clone(),
        modules: looked_into,
        ..load_options(&describer)
    };
    let Loaded { graph, diagnostics } = load(&arguments.graph, &options);
    if early.as_ref().is_some_and(|(interrupt, _)| interrupt.was_asked()) {
        // The signal also ended the process that was checking a library, so findings about that
        // library are not reported.
        return Ok(ended_before_its_start(screen));
    }
    if screen.json && graph.is_none() {
        screen.print_json_line(
            &json!({ "kind": "diagnostics", "diagnostics": diagnostics.iter().collect::<Vec<_>>() })
        );
    } else {
        screen.print_error(&diagnostics.render(screen.errors()));
    }
    let Some(mut graph) = graph else { return Ok(exit::GRAPH) };
    // A run that has only gateways needs no `driveline-host`.
    let host = if graph.modules.is_empty() {
        host.unwrap_or_default()
    } else {
        host.map_err(|e| e.to_string())?
    };
    graph.modules.retain(|m| {
        modules.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == m.name.as_str()))
    });
    if let Some(directory) = &arguments.report {
        // Checked now, because after the run it would be too late.
        writable(directory)?;
    }
    let domain_name = arguments.domain.as_deref().unwrap_or(&graph.domain);
    // If modules are deployed, no signal is caught yet: building images can take long, and Ctrl-C
    // must end it.
    let deployed = match Deployed::prepare(arguments, &graph, &host, screen)? {
        Prepared::Bare => None,
        Prepared::Deployed(deployed) => Some(deployed),
        Prepared::Mistakes => return Ok(exit::GRAPH),
    };
    let domain_dir = match &deployed {
        Some(deployed) => deployed.domain(),
        None => domain::prepare_for(domain_name, graph.domain_group).map_err(|e| e.to_string())?,
    };
    // In containers, other users have access only to mounted directories.
    if deployed.is_none()
        && let Some(text) = rights::without_effect(&graph, &domain_dir)
    {
        screen.print_error(&format!("{text}\n"));
    }
    let (interrupt, interrupter) = early.map_or_else(signals, Ok)?;
    let mut gateways = Vec::new();
    if let Some(config) = GatewayConfig::of_graph(&graph, domain_name, &domain_dir) {
        let program = launch::find_gateway().map_err(|e| e.to_string())?;
        gateways.push(config.launched_by(program).map_err(|e| e.to_string())?);
    }
    if let Some(config) = Ros2GatewayConfig::of_graph(&graph, domain_name, &domain_dir) {
        let program = launch::find_ros2_gateway().map_err(|e| e.to_string())?;
        gateways.push(config.launched_by(program).map_err(|e| e.to_string())?);
    }
    let beside: Vec<_> = gateways.iter().map(|g| g.name).collect();
    let place = match &deployed {
        Some(_) => DomainPlace::Directory(domain_dir.display().to_string()),
        None if graph.domain_group.is_some() => {
            DomainPlace::Directory(domain_dir.display().to_string())
        }
        None => DomainPlace::of(Some(domain_name))?,
    };
    let names: Vec<String> = graph.modules.iter().map(|m| m.name.to_string()).collect();
    // Checked before the domain lists this run itself.
    let other_runs = other_runs::with_topics_of(&graph, &domain_dir);
    for text in &other_runs {
        screen.print_error(&format!("warning: {text}\n"));
    }
    let control = claim(&domain_dir, place.name(), &graph.name, &names).map_err(|e| match e {
        ClaimError::Os(e) => {
            format!("cannot make the control socket of the run in {}: {e}", domain_dir.display())
        }
        ClaimError::Taken(taken) => {
            let how = match taken.pid.filter(|pid| process::is_stopped(*pid)) {
                Some(pid) => format!("it is suspended: `kill -CONT {pid}` lets it go on"),
                None => format!("`driveline stop --run '{}'` ends that run", taken.graph),
            };
            format!("{taken}; {how}, or {}", another_domain(names_directory()))
        }
    })?;
    // Modules whose launcher is gone have no control socket, so `claim` does not find them.
    not_running_already(&graph, &domain_dir)?;
    // The control socket is removed after the reports are written: only then does `driveline stop`
    // return.
    let control = Some(Arc::new(control));
    let mut options = LaunchOptions {
        modules,
        gateways,
        control,
        set: arguments.set.clone(),
        placement: deployed.as_ref().map(Deployed::placement),
        ..LaunchOptions::new(host, domain_dir)
    };
    if arguments.attach.is_some() {
        options.ready_within = ATTACHED_WITHIN;
    }
    let mut show = Show::new(arguments, &graph, &beside, interrupter, screen);
    show.collector.facts_mut().notes.extend(other_runs);
    show.domain(&place);
    let outcome = launch::run(&graph, &options, &interrupt, &mut show);
    show.live.clear(screen);
    if let Some(deployed) = deployed {
        deployed.end(&mut show.collector.facts_mut().modules, screen);
    }
    match outcome {
        Ok(outcome) => show.end(arguments, &outcome),
        Err(e) => {
            let text = e.to_string();
            let ended = Ended {
                reason: "not_started",
                ok: false,
                module: None,
                exit_code: None,
                signal: None,
                text: text.clone(),
                help: None,
            };
            show.collector.facts_mut().ended = Some(ended);
            show.write(arguments)?;
            Err(text)
        }
    }
}

fn signals() -> Result<(Interrupt, Interrupter), String> {
    Interrupt::on_signals().map_err(|e| format!("cannot listen for signals: {e}"))
}

/// Prints the end of a run for which Ctrl-C came while the graph was checked.
fn ended_before_its_start(screen: &Screen) -> u8 {
    let end = "ended as asked";
    if screen.json {
        screen.print_json_line(&json!({ "kind": "end", "end": end, "exit_code": exit::DONE }));
    } else {
        screen.print(&format!("{end}\n"));
    }
    exit::DONE
}

/// Creates the directory of a report and checks that files can be created in it.
fn writable(directory: &Path) -> Result<(), String> {
    let shown = directory.display();
    if std::fs::metadata(directory).is_ok_and(|m| !m.is_dir()) {
        return Err(format!(
            "--report {shown}: this is a file; name the directory into which report.html and \
             summary.json are to go"
        ));
    }
    std::fs::create_dir_all(directory)
        .map_err(|e| format!("--report {shown}: the directory cannot be made: {e}"))?;
    let rights = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
    rustix::fs::access(directory, rights)
        .map_err(|e| format!("--report {shown}: no files can be made there: {e}"))
}

/// Returns the reason why an interrupted run has ended. `read`: true if the output of this command
/// still has a reader.
fn as_asked(read: bool) -> &'static str {
    if read { "as asked" } else { "because its output has no reader any more" }
}

/// Returns how a run ended, in a form for programs. `read`: true if the output of this command
/// still has a reader.
fn ended(outcome: &Outcome, read: bool) -> Ended {
    let killed = killed(outcome).map(|text| format!("; {text}")).unwrap_or_default();
    let plain = |reason, ok, text: String| Ended {
        reason,
        ok,
        module: None,
        exit_code: None,
        signal: None,
        text: text + &killed,
        help: None,
    };
    let died = |death: &Death, text: String| Ended {
        module: Some(death.module.clone()),
        exit_code: death.exit_code,
        signal: death.signal,
        help: death.help.clone(),
        ..plain("module_died", false, text)
    };
    let down = down(outcome).map(|text| match outcome.down.iter().find_map(|d| d.death.as_ref()) {
        Some(death) => died(death, text),
        None => plain("module_died", false, text),
    });
    match (&outcome.end, down) {
        (End::Finished { .. } | End::Interrupted, Some(down)) => down,
        (end, _) => match end {
            End::Finished { component } => {
                plain("finished", outcome.killed.is_empty(), format!("'{component}' has finished"))
            }
            End::Interrupted => {
                plain("interrupted", outcome.killed.is_empty(), as_asked(read).to_owned())
            }
            End::NotReady { modules } => {
                plain("not_ready", false, format!("not ready in time: {}", modules.join(", ")))
            }
            End::Died(death) => died(death, death.to_string()),
        },
    }
}

/// Lists the modules that had to be killed; `None` if there are none.
fn killed(outcome: &Outcome) -> Option<String> {
    let killed = outcome.killed.join(", ");
    (!killed.is_empty()).then(|| format!("killed because they had not stopped: {killed}"))
}

/// Returns the last line of a run, and its error if there is one. `end`: how the run ended; if it
/// failed, this is the error.
fn last_words(
    code: u8,
    end: &str,
    outcome: &Outcome,
    undone: &str,
) -> (Option<String>, Option<String>) {
    let undone = undone.strip_prefix("; ").unwrap_or(undone);
    let killed = killed(outcome);
    let end = match &killed {
        Some(killed) => end.strip_suffix(&format!("; {killed}")).unwrap_or(end),
        None => end,
    };
    let work = |prefix: &str| match undone {
        "" => prefix.to_owned(),
        undone if prefix.is_empty() => format!("work was not done: {undone}"),
        undone => format!("{prefix}; work was not done: {undone}"),
    };
    match code {
        exit::DONE => (Some(end.to_owned()), None),
        exit::WORK_NOT_DONE => (Some(end.to_owned()), Some(work(""))),
        exit::KILLED => (Some(end.to_owned()), Some(work(&killed.unwrap_or_default()))),
        _ => {
            let all = [Some(end.to_owned()), killed].into_iter().flatten().collect::<Vec<_>>();
            (None, Some(work(&all.join("; "))))
        }
    }
}

/// Lists the modules that stayed down, or were never started, until the end; `None` if there are
/// none.
fn down(outcome: &Outcome) -> Option<String> {
    let one = |d: &Down| match &d.death {
        Some(death) => death.to_string(),
        None => format!("module '{}' was not started: {}", d.module, d.why),
    };
    let all: Vec<_> = outcome.down.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Returns the number of failed calls by component, and the first reason; empty if there are none.
fn failed_calls(summary: &Summary) -> String {
    if summary.failed() == 0 {
        return String::new();
    }
    let first = summary.failures.first().map(|f| format!("; first {f}")).unwrap_or_default();
    format!("; {}{first}", summary.failed_of().join(", "))
}

/// Returns a summary of undone work other than failed calls; empty if there is none.
fn not_done(summary: &Summary) -> String {
    let mut text: String =
        summary.problems.iter().take(MAX_PROBLEMS).map(|f| format!("; {}", f.what)).collect();
    if let Some(more) = summary.problems.len().checked_sub(MAX_PROBLEMS).filter(|more| *more > 0) {
        text += &format!("; {more} more");
    }
    text
}

/// Returns the reason why a component was never called. `refused`: one of its connections was
/// refused, as a note reports; `failed`: calls of other components failed, so its input may be
/// missing; `cut_off`: work of this component, or of one upstream of it, was cut off; `inactive`:
/// samples came only while it was inactive.
fn never(
    component: &str,
    topics: &[&TopicName],
    refused: bool,
    failed: bool,
    cut_off: bool,
    inactive: bool,
) -> String {
    if inactive {
        return format!("{component} was never called: it was inactive while samples came");
    }
    if topics.is_empty() {
        return format!(
            "{component} was never called: samples came, and none of them triggered it (`trigger:` \
             and its limits in the graph file)"
        );
    }
    let topics: Vec<_> = topics.iter().map(|t| format!("'{t}'")).collect();
    let why = match (refused, failed || cut_off) {
        (true, _) => ", and a connection of its was refused",
        (false, true) if cut_off => " before the work of other components was cut off",
        (false, true) => ", and calls of other components failed",
        (false, false) => {
            "; while a run goes on, `driveline topic list` shows who publishes here, and \
             `driveline gateway list --explain` what other hosts send"
        }
    };
    format!("{component} was never called: nothing came on topic {}{why}", topics.join(" and "))
}

/// Returns an error if modules of this graph run in the domain already. Two runs of one graph would
/// publish each sample twice, without a visible reason.
fn not_running_already(graph: &ResolvedGraph, domain_dir: &Path) -> Result<(), String> {
    if !domain_dir.exists() {
        return Ok(());
    }
    let Survey { participants, silent, .. } =
        driveline_shm::survey(domain_dir, Duration::from_millis(500)).map_err(|e| e.to_string())?;
    let mut alive = Vec::new();
    for module in &graph.modules {
        let name = host::process_name(graph, module);
        // Other users may use the same name.
        let answered = participants
            .iter()
            .find(|p| p.name == name && p.of_this_user)
            .map(|p| p.pid_in_its_namespace);
        // A suspended process cannot report its user. The kernel keeps 15 bytes of a process's
        // name.
        let short: String = module.name.as_str().chars().take(15).collect();
        let stopped =
            || silent.iter().copied().find(|pid| process::name(*pid).as_deref() == Some(&short));
        alive.extend(answered.or_else(stopped).map(|pid| (module.name.to_string(), pid)));
    }
    runs_already(&alive, names_directory()).map_or(Ok(()), Err)
}

/// Returns true if the environment names the directory of the domain.
fn names_directory() -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|d| !d.is_empty())
}

/// Describes how to run a graph in another domain.
fn another_domain(directory: bool) -> String {
    if directory {
        format!("set another directory in {DIRECTORY_VARIABLE}")
    } else {
        "use another domain: --domain NAME".to_owned()
    }
}

/// Returns the reason why a run cannot begin while modules of an earlier one live.
fn runs_already(alive: &[(String, u32)], directory: bool) -> Option<String> {
    let pids: Vec<u32> = alive.iter().map(|(_, pid)| *pid).collect();
    let (how, another) = (process::how_to_end(&pids), another_domain(directory));
    Some(match alive {
        [] => return None,
        [(module, pid)] => {
            format!(
                "module '{module}' of this graph runs already (process {pid}); {how}, or {another}"
            )
        }
        several => {
            let all: Vec<_> =
                several.iter().map(|(module, pid)| format!("'{module}' (process {pid})")).collect();
            format!("modules of this graph run already: {}; {how}, or {another}", all.join(", "))
        }
    })
}

/// Prints the output of a run, and collects its figures.
struct Show<'a> {
    screen: &'a Screen,
    /// Modules, for colours and the width of the prefix.
    modules: Vec<String>,
    width: usize,
    collector: Collector,
    live: Live,
    hung: Hung,
    cpu: CpuUse,
    /// Time at which all modules were running.
    running: Option<Instant>,
    interrupter: Interrupter,
}

impl<'a> Show<'a> {
    /// `beside`: names of the gateways.
    fn new(
        arguments: &Run,
        graph: &ResolvedGraph,
        beside: &[&str],
        interrupter: Interrupter,
        screen: &'a Screen,
    ) -> Self {
        let modules: Vec<String> = graph.modules.iter().map(|m| m.name.to_string()).collect();
        let names = modules.iter().map(String::as_str).chain(beside.iter().copied());
        let width = names.map(str::len).max().unwrap_or(0).clamp("driveline".len(), 20);
        let collector = Collector::new(RunFacts {
            speed_kmh: arguments.speed_kmh,
            ..RunFacts::of_graph(graph)
        });
        let table = screen.interactive && !arguments.plain;
        let every = if table { 1 } else { arguments.interval };
        let live = Live::new(table, Duration::from_secs(u64::from(every)));
        Self {
            screen,
            modules,
            width,
            collector,
            live,
            hung: Hung::new(graph),
            cpu: CpuUse::default(),
            running: None,
            interrupter,
        }
    }

    /// Prints the domain, which observers of the run must use.
    fn domain(&mut self, place: &DomainPlace) {
        if self.screen.json {
            return self.screen.print_json_line(
                &json!({ "kind": "domain", "text": place.to_string(), "look_on": place.look_on() }),
            );
        }
        self.say(&format!("{place}; its topics: {}", place.look_on()));
    }

    /// A run that has only gateways has no figures; `driveline gateway list` shows theirs.
    fn has_figures(&self) -> bool {
        !self.modules.is_empty()
    }

    fn prefixed(&self, module: &str, line: &str) -> String {
        let name = format!("{:<width$}", cut(module, self.width), width = self.width);
        let colour = self
            .modules
            .iter()
            .position(|m| m == module)
            .map_or("1", |i| COLOURS[i % COLOURS.len()]);
        // On a terminal, lines may have their own colours; a file must not.
        let line: String = line
            .chars()
            .filter(|c| !c.is_control() || *c == '\t' || (*c == '\x1b' && self.screen.interactive))
            .collect();
        format!("{} {line}\n", self.screen.paint(colour, &format!("{name} |")))
    }

    /// Prints a line of the launcher itself, with the time in UTC as components log it. All these
    /// lines go to standard output, in order.
    fn say(&mut self, text: &str) {
        let now = jiff::Timestamp::now().strftime("%H:%M:%S%.3fZ");
        let line = self.prefixed("driveline", &format!("{now} {text}"));
        self.print(Stream::Out, &line);
    }

    fn print(&mut self, stream: Stream, text: &str) {
        self.live.clear(self.screen);
        match stream {
            Stream::Out => self.screen.print(text),
            Stream::Err => self.screen.print_error(text),
        }
    }

    fn print_wrapped(&self, text: &str, columns: usize) {
        self.screen.print(&paragraphs::wrapped(text, columns));
    }

    fn end(mut self, arguments: &Run, outcome: &Outcome) -> Result<u8, String> {
        let read = !self.screen.reader_is_gone();
        let ended = ended(outcome, read);
        let (text, mut code) = match &outcome.end {
            End::Finished { component } => {
                (format!("ended: '{component}' has finished"), exit::DONE)
            }
            End::Interrupted => (format!("ended {}", as_asked(read)), exit::DONE),
            End::Died(_) | End::NotReady { .. } => {
                (format!("failed: {}", ended.text), exit::MODULE)
            }
        };
        let text = match down(outcome).filter(|_| code == exit::DONE) {
            Some(down) => {
                code = exit::MODULE;
                if !self.screen.json {
                    self.screen.print(&format!("{text}\n"));
                }
                format!("failed: {down}")
            }
            None => text,
        };
        if code == exit::DONE && !outcome.killed.is_empty() {
            code = exit::KILLED;
        }
        let help = ended.help.clone();
        self.collector.facts_mut().ended = Some(ended);
        if outcome.unreadable > 0 {
            self.collector
                .facts_mut()
                .notes
                .push(format!("{} records of the modules could not be read.", outcome.unreadable));
        }
        if let Some(why) = self.screen.loss() {
            self.collector
                .facts_mut()
                .notes
                .push(format!("What the run printed is not complete: {why}."));
        }
        for module in &outcome.killed {
            self.cut_off(module);
        }
        // If the end of the run ends a module, no event reports that it stays down.
        outcome.down.iter().for_each(|down| self.collector.stays_down(&down.module));
        let facts = self.collector.facts_mut();
        facts.suspended.clone_from(&outcome.suspended);
        facts.cut_off.clone_from(&outcome.cut_off);
        facts.unconnected.clone_from(&outcome.unconnected);
        let summary = self.collector.summary();
        let undone = failed_calls(&summary) + &not_done(&summary);
        if code == exit::DONE && (summary.failed() > 0 || !summary.problems.is_empty()) {
            code = exit::WORK_NOT_DONE;
        }
        // A run that has not begun has no figures, and a table of zeros would look like figures.
        let any =
            self.has_figures() && (summary.stages.iter().any(|s| s.runs > 0) || code == exit::DONE);
        if self.screen.json {
            let json = serde_json::to_value(&summary).map_err(|e| e.to_string())?;
            self.screen.print_json_line(&json!({
                "kind": "end", "end": format!("{text}{undone}"), "exit_code": code,
                "killed": outcome.killed, "summary": json
            }));
        } else if any {
            let columns = if self.screen.interactive { self.screen.columns() } else { usize::MAX };
            let figures = Live::table(&summary, None, columns);
            self.screen.print(&format!(
                "\n{}",
                figures.iter().map(|l| l.painted(self.screen) + "\n").collect::<String>()
            ));
            let settings = summary.modules.iter().flat_map(ModuleFacts::setting_lines);
            settings.for_each(|line| self.print_wrapped(&line, columns));
            // Components that were never called have lines of their own, even if this is no
            // problem.
            let problems = summary.problems.iter().filter(|f| f.kind != ProblemKind::NeverCalled);
            problems
                .take(MAX_PROBLEMS)
                .for_each(|problem| self.print_wrapped(&problem.to_string(), columns));
            // If a module died, this is why components were not called, so they are not listed.
            let waited = if matches!(outcome.end, End::Finished { .. } | End::Interrupted) {
                self.collector.never_triggered()
            } else {
                Vec::new()
            };
            for (component, inside) in self.collector.never_returned().iter().take(MOST_WAITING) {
                self.print_wrapped(
                    &format!("{component} did not return from its first call, {inside}"),
                    columns,
                );
            }
            for (component, topics) in waited.iter().take(MOST_WAITING) {
                self.print_wrapped(
                    &never(
                        component,
                        topics,
                        self.collector.was_refused(component),
                        summary.failed() > 0,
                        self.collector.lacks_what_was_cut_off(component),
                        self.collector.was_inactive(component),
                    ),
                    columns,
                );
            }
            if let Some(more) = waited.len().checked_sub(MOST_WAITING).filter(|more| *more > 0) {
                self.print_wrapped(&format!("{more} more were never called"), columns);
            }
            if summary.missed_by_triggers > 0 || summary.superseded > 0 {
                self.print_wrapped(MISSED, columns);
            }
            for fault in summary.faults.iter().take(MOST_WAITING) {
                self.print_wrapped(&fault.line(), columns);
            }
            if let Some(more) =
                summary.faults.len().checked_sub(MOST_WAITING).filter(|more| *more > 0)
            {
                self.print_wrapped(
                    &format!("{more} more modules ended; the report lists them"),
                    columns,
                );
            }
            if let Some(text) = summary.uncalled() {
                self.print_wrapped(&text, columns);
            }
            let lines = [
                summary.failed_with_events(),
                summary.missed_deadlines(),
                summary.blocked_in_publish(),
                summary.overruns(),
            ];
            lines.iter().flatten().for_each(|text| self.print_wrapped(text, columns));
        }
        if !self.screen.json {
            let columns = if self.screen.interactive { self.screen.columns() } else { usize::MAX };
            summary.notes.iter().for_each(|note| self.print_wrapped(note, columns));
        }
        // A report that cannot be written must not hide the end of the run.
        let unwritten = self.write(arguments).err();
        let (end, error) = last_words(code, &text, outcome, &undone);
        if let Some(end) = end.filter(|_| !self.screen.json) {
            self.screen.print(&format!("{end}\n"));
        }
        if let Some(error) = error {
            self.screen.error(error);
        }
        if let Some(help) = help.filter(|_| !self.screen.json) {
            self.screen.print_error(&format!("help: {help}\n"));
        }
        match unwritten {
            Some(why) => {
                self.screen.error(why);
                Ok(if code == exit::DONE { exit::FAILED } else { code })
            }
            None => Ok(code),
        }
    }

    /// Notes a module whose process was killed or ended unexpectedly. Before all modules were
    /// running, there were no samples to read.
    fn cut_off(&mut self, module: &str) {
        if self.running.is_some() {
            self.hung
                .components(module)
                .iter()
                .for_each(|component| self.collector.cut_off(component));
        }
    }

    /// Writes the files of the run, if requested.
    fn write(&self, arguments: &Run) -> Result<(), String> {
        let Some(directory) = &arguments.report else { return Ok(()) };
        let page = write_outputs(&self.collector, directory).map_err(|e| e.to_string())?;
        if !self.screen.json {
            let summary = directory.join("summary.json");
            self.screen.print(&format!(
                "\nreport:  {}\nfigures: {}\n",
                page.display(),
                summary.display()
            ));
        }
        Ok(())
    }

    fn fact(&mut self, component: &str, name: &str, text: &str) {
        if !self.screen.json {
            self.say(&note_line(component, name, text));
        }
    }
}

impl Sink for Show<'_> {
    fn output(&mut self, module: &str, stream: Stream, line: &str) {
        if self.screen.json {
            let stream = if stream == Stream::Out { "stdout" } else { "stderr" };
            return self.screen.print_json_line(
                &json!({ "kind": "output", "module": module, "stream": stream, "line": line }),
            );
        }
        let text = self.prefixed(module, line);
        self.print(stream, &text);
    }

    fn record(&mut self, module: &str, record: Record) {
        if let Record::Started { waits, settings, .. } = &record {
            if let Some(waits) = waits {
                self.collector.facts_mut().waits(module, waits);
            }
            self.collector.facts_mut().settings(module, settings);
        }
        if let Record::Fact { component, name, text } = &record {
            self.fact(component, name, text);
        }
        self.hung.record(&record);
        self.collector.take(module, &record);
    }

    fn usage(&mut self, module: &str, usage: &Usage) {
        self.collector.facts_mut().usage(module, usage);
    }

    fn event(&mut self, event: &Event) {
        match event {
            Event::Running { .. } => self.running = Some(Instant::now()),
            Event::Spawned { module, pid } => {
                self.cpu.started(module, *pid);
                self.collector.process_started(self.hung.components(module), MonotonicNs::now())
            }
            Event::Placed { module, .. } => {
                self.collector.process_started(self.hung.components(module), MonotonicNs::now())
            }
            Event::Ended { death, expected: false } => {
                self.cut_off(&death.module);
                if death.when != When::Stopping {
                    let components = self.hung.components(&death.module);
                    self.collector.fault(
                        &death.module,
                        components,
                        death.pid,
                        death.to_string(),
                        MonotonicNs::now(),
                    );
                }
            }
            // The launcher ended this process, so its end is not a separate fault.
            Event::NotReady { module, within_ms, call } => {
                let doing = call.as_ref().map_or_else(String::new, |c| format!(": it was in {c}"));
                let cause = format!(
                    "module '{module}' was not ready within {} s{doing}",
                    *within_ms as f64 / 1e3
                );
                let components = self.hung.components(module);
                self.collector.fault(module, components, 0, cause, MonotonicNs::now());
            }
            Event::Recovered { module, after_ms, .. } => {
                self.collector.recovered(module, *after_ms as f64)
            }
            Event::Down { module, .. } => self.collector.stays_down(module),
            Event::OtherGraph { .. } => {
                self.collector.facts_mut().notes.push(event.to_string());
            }
            Event::Fault { module, text, reaction } => {
                self.collector.breach(module, text, reaction);
            }
            Event::Stopping => {
                self.collector.facts_mut().ran_s =
                    self.running.map(|since| since.elapsed().as_secs_f64())
            }
            _ => {}
        }
        self.collector.mode_event(event, MonotonicNs::now());
        self.hung.event(event);
        if self.screen.json {
            return self.screen.print_json_line(
                &json!({ "kind": "event", "what": event, "text": event.to_string() }),
            );
        }
        let bad = matches!(
            event,
            Event::Unmatched { .. }
                | Event::OtherBuild { .. }
                | Event::OtherGraph { .. }
                | Event::Refused { .. }
                | Event::Busy { .. }
                | Event::Waiting { .. }
                | Event::Suspended { .. }
                | Event::NotSuspended
                | Event::CutOff { .. }
                | Event::Killed { .. }
                | Event::NotReady { .. }
                | Event::Fault { .. }
                | Event::Down { .. }
                | Event::Ended { expected: false, .. }
        );
        let text = event.to_string();
        self.say(&if bad { self.screen.paint(TROUBLE, &text) } else { text });
    }

    fn tick(&mut self) {
        if self.screen.reader_is_gone() {
            self.interrupter.hang_up();
        }
        if self.running.is_some() && self.has_figures() && !self.screen.json {
            let cpu = &mut self.cpu;
            self.live.tick(&self.collector, &self.hung, &mut || cpu.line(), self.screen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::runs_already;

    #[test]
    fn every_module_of_an_earlier_run_is_named() {
        assert_eq!(runs_already(&[], false), None);
        let pid = std::process::id();
        let text = runs_already(&[("lane".into(), pid)], false).unwrap();
        let one = format!("module 'lane' of this graph runs already (process {pid}); ");
        assert!(
            text.starts_with(&one) && text.ends_with("use another domain: --domain NAME"),
            "{text}"
        );
        let text = runs_already(&[("lane".into(), pid), ("track".into(), 2)], true).unwrap();
        let all = format!(
            "run already: 'lane' (process {pid}), 'track' (process 2); they are not supervised \
             any more: end them with `kill {pid} 2`, or `kill -KILL {pid} 2` if"
        );
        assert!(text.contains(&all) && text.contains("DRIVELINE_DOMAIN_DIR"), "{text}");
    }
}
