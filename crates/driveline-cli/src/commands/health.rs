// SPDX-License-Identifier: Apache-2.0
//! Tables of `driveline health`: components, executors and ends of topics.

use super::control::{LINE, NAME, span};
use super::survey::print_table;
use crate::text::cut;
use driveline_runtime::launch::control::{
    ComponentHealth, ExecutorHealth, Fault, RunStatus, TopicEnd,
};
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align::{Left, Right};

fn head(words: &[&str]) -> Vec<String> {
    words.iter().map(|w| (*w).to_owned()).collect()
}

/// Prints the health of components, executors and ends of topics; nothing if no module reports it,
/// as in runs of older releases.
pub(super) fn print(run: &RunStatus, screen: &Screen) {
    let modules: Vec<_> =
        run.processes.iter().filter_map(|p| Some((p, p.health.as_ref()?))).collect();
    if modules.is_empty() {
        return;
    }
    let columns = ["COMPONENT", "STATE", "FOR", "EXECUTOR", "CALLS", "FAILED"];
    let mut rows = vec![head(&columns)];
    rows.extend(modules.iter().flat_map(|(_, m)| &m.components).map(component));
    print_table(&[Left, Left, Right, Left, Right, Right], &rows, screen);

    let mut rows = vec![head(&["EXECUTOR", "STATE", "FOR", "THREADS"])];
    for (p, m) in &modules {
        rows.extend(m.executors.iter().map(|e| executor(&p.name, e)));
    }
    print_table(&[Left, Left, Right, Right], &rows, screen);

    let columns = ["TOPIC", "END", "STATE", "FOR", "SAMPLES", "RATE", "DECLARED", "MISSED", "LATE"];
    let mut rows = Vec::new();
    for c in modules.iter().flat_map(|(_, m)| &m.components) {
        let name = cut(&c.name, NAME);
        rows.extend(c.outputs.iter().map(|e| end(&format!("{name} publishes"), e)));
        rows.extend(c.inputs.iter().map(|e| end(&format!("{name} reads"), e)));
    }
    if !rows.is_empty() {
        rows.sort();
        rows.insert(0, head(&columns));
        let align = [Left, Left, Left, Right, Right, Right, Left, Right, Right];
        print_table(&align, &rows, screen);
    }
    for (p, m) in &modules {
        for e in &m.executors {
            e.schedules.iter().filter(|line| line.contains("refused")).for_each(|line| {
                let (module, line) = (cut(&p.name, NAME), cut(line, LINE));
                screen.print(&format!("module '{module}': {line}\n"));
            });
        }
        for c in &m.components {
            let name = cut(&c.name, NAME);
            // The module's last fault is printed already.
            let text = |fault: &Option<Fault>| fault.as_ref().map(|f| f.text.clone());
            if text(&c.last_fault) != text(&p.last_fault) {
                print_fault(&format!("'{name}'"), c.last_fault.as_ref(), screen);
            }
            for e in c.inputs.iter().chain(&c.outputs) {
                let port = cut(&e.port, NAME);
                print_fault(&format!("port '{port}' of '{name}'"), e.last_fault.as_ref(), screen);
            }
        }
    }
}

fn print_fault(of: &str, fault: Option<&Fault>, screen: &Screen) {
    if let Some(fault) = fault {
        let (ago, text) = (span(fault.ago_ms), cut(&fault.text, LINE));
        screen.print(&format!("last fault of {of}, {ago} ago: {text}\n"));
    }
}

fn component(c: &ComponentHealth) -> Vec<String> {
    vec![
        cut(&c.name, NAME),
        cut(&c.state.to_string(), NAME),
        span(c.since_ms),
        cut(&c.executor, NAME),
        c.calls.to_string(),
        c.failed.to_string(),
    ]
}

fn executor(module: &str, e: &ExecutorHealth) -> Vec<String> {
    let busy = if e.busy.is_some() { ", busy" } else { "" };
    vec![
        format!("{} of {}", cut(&e.name, NAME), cut(module, NAME)),
        cut(&format!("{}{busy}", e.state), NAME),
        span(e.since_ms),
        e.threads.to_string(),
    ]
}

fn end(name: &str, e: &TopicEnd) -> Vec<String> {
    let declared = match (e.min_hz, e.max_hz) {
        (None, None) => "-".to_owned(),
        (Some(min), None) => format!("{min} Hz or more"),
        (None, Some(max)) => format!("{max} Hz or less"),
        (Some(min), Some(max)) => format!("{min} to {max} Hz"),
    };
    vec![
        cut(&e.topic, NAME),
        name.to_owned(),
        cut(&e.state.to_string(), NAME),
        span(e.since_ms),
        e.samples.to_string(),
        format!("{:.1} Hz", e.rate_hz),
        declared,
        e.missed.to_string(),
        e.deadlines_missed.to_string(),
    ]
}
