// SPDX-License-Identifier: Apache-2.0
//! `driveline bench` and `driveline chaos`: start the laboratory's own programs, `driveline-bench`
//! and `driveline-chaos`, as cargo starts its subcommands.

use crate::exit;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, Command};
use driveline_terminal::screen::Screen;
use serde::Deserialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

const BENCH: &str = "driveline-bench";
const CHAOS: &str = "driveline-chaos";

/// Replaces this process by `driveline-bench` with these arguments. Returns only if that cannot be
/// started.
pub(crate) fn bench(arguments: &[OsString], screen: &Screen) -> u8 {
    become_program(BENCH, "measures", arguments, screen)
}

/// Replaces this process by `driveline-chaos` with these arguments. Returns only if that cannot be
/// started.
pub(crate) fn chaos(arguments: &[OsString], screen: &Screen) -> u8 {
    become_program(CHAOS, "causes faults", arguments, screen)
}

fn become_program(name: &str, does: &str, arguments: &[OsString], screen: &Screen) -> u8 {
    let Some(program) = find(name) else {
        screen.error(format!(
            "{name}, which {does}, is neither next to this program nor in PATH; build it with \
             `make lab`, and for an installed Driveline run `make install` again"
        ));
        return exit::FAILED;
    };
    let json = screen.json.then_some("--json");
    let e = Process::new(&program).arg0(name).args(json).args(arguments).exec();
    screen
        .error(format!("cannot start {}: {e}; build it again with `make lab`", program.display()));
    exit::FAILED
}

/// Searches next to this program, then in the directories of PATH.
fn find(name: &str) -> Option<PathBuf> {
    let own = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
    let path = std::env::var_os("PATH").unwrap_or_default();
    find_in(name, own.into_iter().chain(std::env::split_paths(&path)))
}

fn find_in(name: &str, directories: impl Iterator<Item = PathBuf>) -> Option<PathBuf> {
    directories.map(|directory| directory.join(name)).find(|program| is_program(program))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// A command of `driveline-bench`, as `driveline-bench command-line` describes it.
#[derive(Deserialize)]
struct Described {
    name: String,
    about: Option<String>,
    arguments: Vec<DescribedArgument>,
    commands: Vec<Described>,
}

#[derive(Deserialize)]
struct DescribedArgument {
    name: String,
    long: Option<String>,
    short: Option<char>,
    about: Option<String>,
    takes_value: bool,
    is_many: bool,
    values: Vec<String>,
}

/// Adds the commands of `driveline-bench` to the command line, for completion and man pages.
/// Changes nothing if that program does not exist or its description cannot be read.
pub(crate) fn with_commands(command: Command) -> Command {
    let Some(described) = find(BENCH).and_then(|program| described(program.as_os_str())) else {
        return command;
    };
    command.mut_subcommand("bench", |_| built(described).name("bench"))
}

fn described(program: &OsStr) -> Option<Described> {
    let out = Process::new(program).arg("command-line").stdin(Stdio::null()).output().ok()?;
    serde_json::from_slice(&out.stdout).ok().filter(|_| out.status.success())
}

/// Leaks the text, because clap needs names that live as long as the program. The leak does not
/// matter: the program prints a completion script or writes man pages, and then ends.
fn kept(text: String) -> &'static str {
    text.leak()
}

fn built(described: Described) -> Command {
    let mut command = Command::new(kept(described.name)).args(
        // The whole command line has `--json` already.
        described.arguments.into_iter().filter(|a| a.name != "json").map(argument),
    );
    if let Some(about) = described.about {
        command = command.about(about);
    }
    command.subcommands(described.commands.into_iter().map(built))
}

fn argument(described: DescribedArgument) -> Arg {
    let mut argument = Arg::new(kept(described.name));
    if let Some(long) = described.long {
        argument = argument.long(kept(long));
    }
    if let Some(short) = described.short {
        argument = argument.short(short);
    }
    if let Some(about) = described.about {
        argument = argument.help(about);
    }
    argument = argument.action(match (described.takes_value, described.is_many) {
        (false, _) => ArgAction::SetTrue,
        (true, false) => ArgAction::Set,
        (true, true) => ArgAction::Append,
    });
    if described.values.is_empty() {
        return argument;
    }
    argument.value_parser(PossibleValuesParser::new(described.values.into_iter().map(kept)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_directory_with_the_program_wins_and_a_file_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| dir.path().join(name));
        for (directory, mode) in [(&a, 0o644), (&b, 0o755), (&c, 0o755)] {
            std::fs::create_dir(directory).unwrap();
            let program = directory.join(BENCH);
            std::fs::write(&program, "").unwrap();
            std::fs::set_permissions(&program, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let found =
            |directories: &[&PathBuf]| find_in(BENCH, directories.iter().map(|d| (*d).clone()));
        assert_eq!(found(&[&a, &b, &c]), Some(b.join(BENCH)));
        assert_eq!(found(&[&a]), None);
    }

    #[test]
    fn what_is_described_can_be_completed() {
        let text = r#"{"name": "driveline-bench", "about": "Measure", "arguments": [], "commands": [
            {"name": "run", "about": "Measure experiments", "commands": [], "arguments": [
                {"name": "what", "long": null, "short": null, "about": "Experiments",
                 "takes_value": true, "is_many": true, "values": ["S1"]},
                {"name": "json", "long": "json", "short": null, "about": null,
                 "takes_value": false, "is_many": false, "values": []}]}]}"#;
        let command = built(serde_json::from_str(text).unwrap());
        command.clone().debug_assert();
        let run = command.find_subcommand("run").unwrap();
        let names: Vec<&str> = run.get_arguments().map(|a| a.get_id().as_str()).collect();
        assert_eq!(names, ["what"]);
    }
}
