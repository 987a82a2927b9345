// SPDX-License-Identifier: Apache-2.0
//! The command `driveline`.
//! This crate contains only the parts that no other program needs, such as arguments, tables and
//! exit codes. Functions that other programs could use are in the crates on which it depends, for
//! example `driveline-runtime`.

mod arguments;
mod cloud;
mod commands;
mod decoder;
mod exit;
mod picture;
mod process;
mod text;

use arguments::{Arguments, Command};
use driveline_terminal::screen::Screen;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Arguments { json, command } = arguments::parse();
    let screen = Screen::new(json);
    let code = match command {
        Command::Bench { arguments } => commands::bench::bench(&arguments, &screen),
        Command::Chaos { arguments } => commands::bench::chaos(&arguments, &screen),
        Command::Run(run) => commands::run::run(&run, &screen),
        Command::Status(which) => commands::control::status(&which, &screen),
        Command::Mode(mode) => commands::mode::mode(&mode, &screen),
        Command::Stop(stop) => commands::control::stop(&stop, &screen),
        Command::Health(health) => commands::control::health(&health, &screen),
        Command::Validate(validate) => commands::graph::validate(&validate, &screen),
        Command::Deploy { command } => commands::deploy::deploy(&command, &screen),
        Command::Param { command } => commands::parameters::param(&command, &screen),
        Command::LogLevel(level) => commands::parameters::log_level(&level, &screen),
        Command::Doctor(doctor) => commands::doctor::doctor(&doctor, &screen),
        Command::Graph(graph) => commands::graph::show(&graph, &screen),
        Command::Describe { library } => commands::graph::describe(&library, &screen),
        Command::Schema => commands::graph::schema(&screen),
        Command::Topic { command, domain } => {
            commands::list::topic(&command, domain.domain.as_deref(), &screen)
        }
        Command::Service { command, domain } => {
            commands::services::service(&command, domain.domain.as_deref(), &screen)
        }
        Command::Node { command, domain } => {
            commands::list::node(&command, domain.domain.as_deref(), &screen)
        }
        Command::Gateway { command, domain } => {
            commands::gateway::gateway(&command, domain.domain.as_deref(), &screen)
        }
        Command::Complete(names) => commands::complete::complete(&names, &screen),
        Command::Man { directory } => commands::complete::man(&directory, &screen),
        Command::Completion { shell } => commands::complete::completion(shell, &screen),
    };
    told(ExitCode::from(code), &screen)
}

/// Returns the exit code, or [`exit::FAILED`] instead of success if output was lost.
fn told(code: ExitCode, screen: &Screen) -> ExitCode {
    match screen.loss() {
        Some(why) if code == ExitCode::SUCCESS => {
            screen.error(why);
            ExitCode::from(exit::FAILED)
        }
        _ => code,
    }
}
