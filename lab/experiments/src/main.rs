// SPDX-License-Identifier: Apache-2.0
//! The command `driveline-bench`, which `driveline bench` starts.

use clap::{CommandFactory, Parser, Subcommand};
use driveline_bench::peers::{PeersArgs, list_peers};
use driveline_bench::{Ending, PEER_COMMAND, exit_code_of, peer_main};
use driveline_lab::scenario::{LoadError, schema};
use driveline_lab::{CompareArgs, LinkArgs, ReportArgs, RunArgs};
use driveline_terminal::screen::Screen;
use driveline_workloads::{WORKLOAD_COMMAND, host_main, workload_main};
use serde_json::json;
use std::ffi::OsString;
use std::process::ExitCode;

mod command_line;

#[derive(Debug, Parser)]
#[command(
    name = "driveline-bench",
    bin_name = "driveline bench",
    version,
    about = "Measure latencies and throughput on this machine"
)]
struct Arguments {
    /// Print results as JSON
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List the built-in experiments
    #[command(
        after_help = "Examples:\n  driveline bench list\n  driveline bench list --show S2 > \
             mine.yaml"
    )]
    List {
        /// Print the scenario file of an experiment, as a template for your own
        #[arg(long, value_name = "ID", conflicts_with = "schema")]
        show: Option<String>,
        /// Print the JSON Schema of scenario files, for editors
        #[arg(long)]
        schema: bool,
    },
    /// Measure experiments with Driveline and other middleware, interleaved
    Run(Box<RunArgs>),
    /// Write the report of a measurement again: report.html, results.csv, summary.json
    Report(ReportArgs),
    /// Show the significant differences between two measurements
    Compare(CompareArgs),
    /// Measure links described by options, and compare them with the machine's floors
    Link(Box<LinkArgs>),
    /// List other middleware: configuration of installed peers, and instructions for the others
    #[command(
        after_help = "Examples:\n  driveline bench peers\n      one line per peer\n  driveline \
             bench peers cyclonedds ros2_inter\n      configuration of an installed peer, or \
             instructions to add it"
    )]
    Peers(PeersArgs),
    /// The commands and options as JSON, for completion by `driveline`
    #[command(hide = true, name = "command-line")]
    Described,
    #[command(hide = true, name = PEER_COMMAND)]
    Peer,
    #[command(hide = true, name = WORKLOAD_COMMAND)]
    Workload {
        /// Arguments of processes that a workload starts; these processes parse them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    if let Some(code) = host_main() {
        return code;
    }
    let Arguments { json, command } = Arguments::parse();
    let screen = Screen::new(json);
    let code = match command {
        Command::Peer => return peer_main(),
        Command::Workload { .. } => return workload_main(),
        command => run(command, &screen),
    };
    match screen.loss() {
        Some(why) if code == ExitCode::SUCCESS => {
            screen.error(why);
            ExitCode::FAILURE
        }
        _ => code,
    }
}

fn run(command: Command, screen: &Screen) -> ExitCode {
    let json = screen.json || matches!(&command, Command::Run(run) if run.json);
    let printed = |text: String| {
        screen.print(&text);
        ExitCode::SUCCESS
    };
    let outcome = match command {
        Command::Link(mut link) => {
            link.json |= screen.json;
            driveline_lab::link(&link).map(Ending::exit_code)
        }
        Command::List { show: Some(id), .. } => {
            driveline_lab::show(&id).map(|text| printed(text.to_owned()))
        }
        Command::List { schema: true, .. } => {
            screen.print_json(&schema());
            Ok(ExitCode::SUCCESS)
        }
        Command::List { .. } => driveline_lab::list(screen.json).map(printed),
        Command::Run(mut run) => {
            run.json |= screen.json;
            driveline_lab::run(&run).map(Ending::exit_code)
        }
        Command::Report(mut report) => {
            report.json |= screen.json;
            driveline_lab::report(&report).map(printed)
        }
        Command::Compare(mut compare) => {
            compare.json |= screen.json;
            driveline_lab::compare(&compare).map(printed)
        }
        Command::Peers(mut peers) => {
            peers.json = screen.json;
            list_peers(&peers).map(|text| printed(format!("{}\n", text.trim_end())))
        }
        Command::Described => {
            screen.print_json(&command_line::described(Arguments::command()));
            Ok(ExitCode::SUCCESS)
        }
        Command::Peer | Command::Workload { .. } => Ok(ExitCode::FAILURE),
    };
    outcome.unwrap_or_else(|e| {
        match LoadError::mistakes(&e) {
            // Prints the mistakes in the form in which `driveline run` prints those of a graph.
            Some(found) if json => screen.print_json_line(
                &json!({ "kind": "diagnostics", "diagnostics": found.iter().collect::<Vec<_>>() }),
            ),
            _ => screen.error(format!("{e:#}")),
        }
        exit_code_of(&e)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Lines that are laid out by hand fit 80 columns, so that no terminal wraps them. Only
    /// sentences may be longer.
    #[test]
    fn what_is_laid_out_in_helps_fits_a_terminal() {
        let command = Arguments::command();
        let helps = command.get_subcommands().filter_map(clap::Command::get_after_help);
        let wide: Vec<String> = helps
            .flat_map(|help| help.to_string().lines().map(str::to_owned).collect::<Vec<_>>())
            .filter(|line| line.starts_with("  ") && line.chars().count() > 80)
            .collect();
        assert_eq!(wide, Vec::<String>::new());
    }

    #[test]
    fn what_a_measurement_can_end_with_is_in_its_help() {
        let mut command = Arguments::command();
        let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
        for code in
            ["  0    success", "  1    failure", "  2    the command line", "  130  interrupted"]
        {
            assert!(help.contains(code), "{help}");
        }
    }
}
