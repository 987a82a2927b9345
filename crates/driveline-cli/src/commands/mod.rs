// SPDX-License-Identifier: Apache-2.0
//! What each command does.

pub(crate) mod control;
pub(crate) mod deploy;
mod deployed;
mod domains;
mod echo;
mod figures;
pub(crate) mod gateway;
pub(crate) mod graph;
mod hung;
pub(crate) mod list;
mod live;
mod rights;
pub(crate) mod run;
pub(crate) mod services;

use crate::arguments::{Arguments, Bench};
use crate::exit;
use clap::CommandFactory;
use clap::builder::PossibleValuesParser;
use clap_complete::Shell;
use driveline_runtime::descriptor::ComponentClass;
use driveline_runtime::graph::{Describe, DescribeError, Environment};
use driveline_runtime::launch::{HostDescriber, ProgramNotFound, find_host};
use driveline_terminal::screen::Screen;
use driveline_types::{NameError, TopicName};
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub(crate) fn completion(shell: Shell, screen: &Screen) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut with_words(without_hidden(&Arguments::command())),
        "driveline",
        &mut script,
    );
    let script = String::from_utf8_lossy(&script);
    if screen.json {
        screen.print_json(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        screen.print(&script);
    }
    exit::DONE
}

/// The command line without what is there for other programs: completion knows no hidden commands.
fn without_hidden(command: &clap::Command) -> clap::Command {
    clap::Command::new("driveline")
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned())
}

/// The command line with the words that there are for experiments and for peers. They are for completion alone: files go, too, and
/// what is wrong is explained better by those who know what is meant.
fn with_words(command: clap::Command) -> clap::Command {
    let ids: Vec<&'static str> = driveline_lab::scenario::builtin().iter().map(|b| b.id).collect();
    let systems = driveline_bench::peers::names();
    let experiments: Vec<&'static str> = ids.iter().copied().chain(["all"]).collect();
    let words =
        |words: Vec<String>| PossibleValuesParser::new(words.into_iter().map(|w| &*w.leak()));
    let with_driveline = || ["driveline".to_owned()].into_iter().chain(systems.clone()).collect();
    command.mut_subcommand("bench", |bench| {
        bench
            .mut_subcommand("list", |list| {
                list.mut_arg("show", |arg| arg.value_parser(PossibleValuesParser::new(ids)))
            })
            .mut_subcommand("run", |run| {
                run.mut_arg("what", |arg| arg.value_parser(PossibleValuesParser::new(experiments)))
                    .mut_arg("systems", |arg| arg.value_parser(words(with_driveline())))
            })
            .mut_subcommand("peers", |peers| {
                peers.mut_arg("names", |arg| arg.value_parser(words(systems.clone())))
            })
            .mut_subcommand("link", |link| {
                link.mut_arg("peers", |arg| arg.value_parser(words(systems.clone())))
            })
    })
}

pub(crate) fn bench(command: Bench, screen: &Screen) -> ExitCode {
    let json = screen.json || matches!(&command, Bench::Run(run) if run.json);
    let outcome = match command {
        Bench::Link(mut link) => {
            link.json |= screen.json;
            driveline_bench::run_link(&link).map(driveline_bench::Ending::exit_code)
        }
        Bench::List { show: Some(id), .. } => driveline_lab::show(&id).map(|text| {
            screen.print(text);
            ExitCode::from(exit::DONE)
        }),
        Bench::List { schema: true, .. } => {
            Ok(print_json(&driveline_lab::scenario::schema(), screen))
        }
        Bench::List { .. } => driveline_lab::list(screen.json).map(|text| {
            screen.print(&text);
            ExitCode::from(exit::DONE)
        }),
        Bench::Run(mut run) => {
            run.json |= screen.json;
            driveline_lab::run(&run).map(driveline_bench::Ending::exit_code)
        }
        Bench::Report(mut report) => {
            report.json |= screen.json;
            driveline_lab::report(&report).map(|text| {
                screen.print(&text);
                ExitCode::from(exit::DONE)
            })
        }
        Bench::Compare(mut compare) => {
            compare.json |= screen.json;
            driveline_lab::compare(&compare).map(|text| {
                screen.print(&text);
                ExitCode::from(exit::DONE)
            })
        }
        Bench::Peers(mut peers) => {
            peers.json = screen.json;
            driveline_bench::list_peers(&peers).map(|text| {
                screen.print(&format!("{}\n", text.trim_end()));
                ExitCode::from(exit::DONE)
            })
        }
    };
    outcome.unwrap_or_else(|e| {
        match driveline_lab::scenario::LoadError::mistakes(&e) {
            // As `run` tells those of a graph.
            Some(found) if json => screen.print_json_line(
                &json!({ "kind": "diagnostics", "diagnostics": found.iter().collect::<Vec<_>>() }),
            ),
            _ => screen.error(format!("{e:#}")),
        }
        driveline_bench::exit_code_of(&e)
    })
}

/// A topic's or service's name as typed: ROS 2 begins names with `/`.
fn name_of(typed: &str) -> Result<TopicName, String> {
    let name = typed.strip_prefix('/').unwrap_or(typed);
    if name.starts_with('/') {
        let meant = name.trim_start_matches('/');
        let meant =
            if meant.is_empty() { String::new() } else { format!("; did you mean '{meant}'?") };
        return Err(format!(
            "'{typed}' is no name: one '/' before it is left out, and there are more{meant}"
        ));
    }
    name.parse().map_err(|e: NameError| e.to_string())
}

fn print_json(value: &impl serde::Serialize, screen: &Screen) -> ExitCode {
    screen.print(&format!("{}\n", serde_json::to_string_pretty(value).unwrap_or_default()));
    ExitCode::from(exit::DONE)
}

/// Asks the host program; where there is none, says so at the first library.
struct Describer(Result<HostDescriber, ProgramNotFound>);

fn describer() -> Describer {
    Describer(find_host().map(HostDescriber::new))
}

impl Describe for Describer {
    fn describe(
        &self,
        library: &Path,
        environment: &Environment,
    ) -> Result<Vec<ComponentClass>, DescribeError> {
        match &self.0 {
            Ok(host) => host.describe(library, environment),
            Err(e) => Err(DescribeError {
                reason: e.to_string(),
                help: Some(
                    "`driveline validate --no-libraries` checks what can be checked without".into(),
                ),
            }),
        }
    }

    fn together(
        &self,
        libraries: &[PathBuf],
        environment: &Environment,
    ) -> Result<(), (usize, DescribeError)> {
        // Where there is no host, its absence was reported at the first library.
        self.0.as_ref().map_or(Ok(()), |host| host.together(libraries, environment))
    }
}
