// SPDX-License-Identifier: Apache-2.0
//! What each command does.

mod absent;
pub(crate) mod bench;
pub(crate) mod complete;
pub(crate) mod control;
pub(crate) mod deploy;
mod deploy_build;
mod deployed;
pub(crate) mod doctor;
mod domains;
mod echo;
mod figures;
pub(crate) mod gateway;
pub(crate) mod graph;
mod health;
mod hung;
pub(crate) mod list;
mod live;
mod manifests;
pub(crate) mod mode;
pub(crate) mod parameters;
mod recent;
mod rights;
pub(crate) mod run;
pub(crate) mod services;

use crate::arguments::Arguments;
use crate::exit;
use clap::CommandFactory;
use clap_complete::Shell;
use driveline_runtime::descriptor::ComponentClass;
use driveline_runtime::graph::{Describe, DescribeError, Environment};
use driveline_runtime::launch::{HostDescriber, ProgramNotFound, find_host};
use driveline_terminal::screen::Screen;
use driveline_types::{NameError, TopicName};
use serde_json::json;
use std::path::{Path, PathBuf};

pub(crate) fn completion(shell: Shell, screen: &Screen) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut bench::with_commands(without_hidden(&Arguments::command())),
        "driveline",
        &mut script,
    );
    let script = complete::with_names(shell, String::from_utf8_lossy(&script).into_owned());
    if screen.json {
        screen.print_json(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        screen.print(&script);
    }
    exit::DONE
}

/// The command line without what is there for other programs: neither completion nor man pages have
/// hidden commands.
fn without_hidden(command: &clap::Command) -> clap::Command {
    let text = |text: Option<&clap::builder::StyledStr>| text.cloned().unwrap_or_default();
    clap::Command::new("driveline")
        .about(text(command.get_about()))
        .after_help(text(command.get_after_help()))
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned())
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
