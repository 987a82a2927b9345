// SPDX-License-Identifier: Apache-2.0
//! Output of a run: lines, live table, end and report.

use super::super::domains::DomainPlace;
use super::super::hung::Hung;
use super::super::live::Live;
use super::ending::{
    MAX_PROBLEMS, as_asked, down, ended, failed_calls, last_words, never, not_done,
};
use crate::arguments::Run;
use crate::exit;
use crate::process::CpuUse;
use crate::text::cut;
use driveline_analyze::{Collector, ModuleFacts, ProblemKind, RunFacts, write_outputs};
use driveline_graph::ResolvedGraph;
use driveline_runtime::account::{Record, Usage, note_line};
use driveline_runtime::launch::{End, Event, Interrupter, Outcome, Sink, Stream, When};
use driveline_terminal::paragraphs;
use driveline_terminal::screen::Screen;
use driveline_types::MonotonicNs;
use serde_json::json;
use std::time::{Duration, Instant};

/// Maximum number of components reported as never called or not returned, and of modules reported
/// as ended.
const MOST_WAITING: usize = 8;

/// Colours of module names; dark enough on white, light enough on black.
const COLOURS: [&str; 6] = ["36", "35", "32", "33", "34", "31"];

/// Colour of lines that need attention.
const TROUBLE: &str = "1;31";

/// Explains the counts of samples that were not received.
const MISSED: &str = "missed: it should have triggered the component, but newer samples took its \
                      place; superseded: only the newest was wanted, when something else \
                      triggered; not read: it could still be read at the end";

/// Prints the output of a run, and collects its figures.
pub(super) struct Show<'a> {
    screen: &'a Screen,
    /// Modules, for colours and the width of the prefix.
    modules: Vec<String>,
    width: usize,
    pub(super) collector: Collector,
    pub(super) live: Live,
    hung: Hung,
    cpu: CpuUse,
    /// Time at which all modules were running.
    running: Option<Instant>,
    interrupter: Interrupter,
}

impl<'a> Show<'a> {
    /// `beside`: names of the gateways.
    pub(super) fn new(
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
    pub(super) fn domain(&mut self, place: &DomainPlace) {
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

    pub(super) fn end(mut self, arguments: &Run, outcome: &Outcome) -> Result<u8, String> {
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
            let unread = || summary.subscriptions.iter().any(|s| s.not_read > 0);
            if summary.missed_by_triggers > 0 || summary.superseded > 0 || unread() {
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
    pub(super) fn write(&self, arguments: &Run) -> Result<(), String> {
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
