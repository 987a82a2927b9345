// SPDX-License-Identifier: Apache-2.0
//! The command `driveline-chaos`, which `driveline chaos` starts.

mod arguments;

use arguments::Arguments;
use clap::Parser;
use driveline_chaos::campaign::{CampaignOptions, run};
use driveline_chaos::faults::{FaultKind, available};
use driveline_chaos::graph::{GraphError, GraphFacts};
use driveline_chaos::plan::{Wanted, plan};
use driveline_chaos::report::Report;
use driveline_chaos::session::SessionOptions;
use driveline_terminal::screen::Screen;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Exit codes, as `--help` lists them.
mod exit {
    pub(crate) const DONE: u8 = 0;
    pub(crate) const BROKEN: u8 = 1;
    // clap also uses this code, for a wrong command line.
    pub(crate) const REFUSED: u8 = 2;
    pub(crate) const GRAPH: u8 = 3;
    pub(crate) const INTERRUPTED: u8 = 130;
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let screen = Screen::new(arguments.json);
    ExitCode::from(chaos(&arguments, &screen))
}

fn chaos(arguments: &Arguments, screen: &Screen) -> u8 {
    let graph = match GraphFacts::load(&arguments.graph, &arguments.set) {
        Ok(graph) => graph,
        Err(GraphError::Mistakes(text)) => {
            screen.print_error(&text);
            return exit::GRAPH;
        }
        Err(GraphError::Failed(text)) => {
            screen.error(text);
            return exit::BROKEN;
        }
    };
    let faults = match faults(arguments, &graph) {
        Ok(faults) => faults,
        Err(text) => {
            screen.error(text);
            return exit::REFUSED;
        }
    };
    match campaign(arguments, &graph, faults) {
        Ok(report) => finish(arguments, &report, screen),
        Err(text) => {
            screen.error(text);
            exit::BROKEN
        }
    }
}

/// Returns the requested faults, each with its module.
fn faults(
    arguments: &Arguments,
    graph: &GraphFacts,
) -> Result<Vec<(FaultKind, Option<String>)>, String> {
    let mut faults = Vec::new();
    for (kind, names) in arguments.of_modules() {
        for name in names.iter().flat_map(|name| expand(name, graph)) {
            let module = graph.module(&name).ok_or_else(|| no_module(&name, graph))?;
            kind.check(module).map_err(|why| {
                format!("module '{name}' cannot get a {kind} fault: {why}\n{}", available(module))
            })?;
            faults.push((kind, Some(name)));
        }
    }
    let mut topics: Vec<&str> = graph
        .modules
        .iter()
        .flat_map(|m| m.publishes.iter().chain(&m.reads))
        .map(String::as_str)
        .collect();
    topics.sort_unstable();
    topics.dedup();
    if let Some(topic) = arguments.watch.iter().find(|t| !topics.contains(&t.as_str())) {
        let topics = topics.join(", ");
        return Err(format!("graph '{}' has no topic '{topic}'; it has: {topics}", graph.name));
    }
    faults.extend(arguments.directory.then_some((FaultKind::Directory, None)));
    faults.extend(arguments.suspend.then_some((FaultKind::Suspend, None)));
    faults.extend(arguments.launcher.then_some((FaultKind::Launcher, None)));
    if faults.is_empty() {
        let lines: Vec<String> = graph.modules.iter().map(available).collect();
        return Err(format!(
            "name at least one fault, e.g. `--kill MODULE`\n{}\nthe run can get: directory, \
             suspend, launcher",
            lines.join("\n")
        ));
    }
    Ok(faults)
}

fn expand(name: &str, graph: &GraphFacts) -> Vec<String> {
    match name {
        "all" => graph.modules.iter().map(|m| m.name.clone()).collect(),
        name => vec![name.to_owned()],
    }
}

fn no_module(name: &str, graph: &GraphFacts) -> String {
    let names: Vec<&str> = graph.modules.iter().map(|m| m.name.as_str()).collect();
    format!("graph '{}' has no module '{name}'; it has: {}, or `all`", graph.name, names.join(", "))
}

fn campaign(
    arguments: &Arguments,
    graph: &GraphFacts,
    faults: Vec<(FaultKind, Option<String>)>,
) -> Result<Report, String> {
    let interrupted = driveline_terminal::signals::interruption()
        .map_err(|e| format!("cannot listen for signals: {e}"))?;
    let planned = plan(&Wanted {
        faults,
        times: arguments.times as usize,
        seed: arguments.seed,
        pause: arguments.pause.bounds(),
        stopped: arguments.stopped.bounds(),
    });
    let options = CampaignOptions {
        session: SessionOptions {
            driveline: program()?,
            graph: arguments.graph.clone(),
            set: arguments.set.clone(),
            report: arguments.report.clone(),
        },
        seed: arguments.seed,
        quiet: arguments.quiet(),
        watch: arguments.watch.clone(),
        beyond_limits: arguments.beyond_limits,
    };
    run(&options, graph, &planned, &interrupted)
}

/// Prints and stores a report.
fn finish(arguments: &Arguments, report: &Report, screen: &Screen) -> u8 {
    let directory = &arguments.report;
    let text = report.text();
    let stored = store(directory, "chaos.txt", &format!("{text}\n{}", report.fault_lines()))
        .and_then(|()| {
            let json = serde_json::to_string_pretty(report).map_err(|e| e.to_string())?;
            store(directory, "chaos.json", &(json + "\n"))
        });
    if screen.json {
        screen.print_json(report);
    } else {
        screen.print(&text);
        screen.print(&format!("\nevery fault: {}\n", directory.join("chaos.txt").display()));
    }
    if let Err(text) = stored {
        screen.error(text);
        return exit::BROKEN;
    }
    match (report.ok, report.interrupted) {
        (true, true) => exit::INTERRUPTED,
        (true, false) => exit::DONE,
        (false, _) => exit::BROKEN,
    }
}

fn store(directory: &Path, name: &str, text: &str) -> Result<(), String> {
    let path = directory.join(name);
    std::fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

/// Returns the program `driveline`, next to this one or in PATH.
fn program() -> Result<PathBuf, String> {
    const NAME: &str = "driveline";
    let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = own.into_iter().chain(std::env::split_paths(&path));
    places.map(|place| place.join(NAME)).find(|program| program.is_file()).ok_or_else(|| {
        format!("{NAME} is neither next to this program nor in PATH; build it with `make build`")
    })
}
