// SPDX-License-Identifier: Apache-2.0
//! Command line of `driveline-bench` as JSON, for `driveline completion`.
//!
//! Each command is an object of `name`, `about`, `arguments` and `commands`. Hidden commands are
//! for other programs and are left out.

use clap::{Arg, Command};
use driveline_lab::scenario::builtin;
use serde_json::{Value, json};

/// Returns the commands with their options, and the names of experiments and peers.
pub(crate) fn described(mut command: Command) -> Value {
    command.build();
    described_command(&command)
}

fn described_command(command: &Command) -> Value {
    // clap adds `help` automatically, here and in `driveline`.
    let is_shown = |c: &&Command| !c.is_hide_set() && c.get_name() != "help";
    let shown = command.get_subcommands().filter(is_shown);
    let name = command.get_name();
    let arguments = command.get_arguments().filter(|a| !is_of_clap(a));
    json!({
        "name": name,
        "about": command.get_about().map(ToString::to_string),
        "arguments": arguments.map(|a| described_argument(name, a)).collect::<Vec<_>>(),
        "commands": shown.map(described_command).collect::<Vec<_>>(),
    })
}

/// Returns true if clap adds an option to every command automatically.
fn is_of_clap(argument: &Arg) -> bool {
    matches!(argument.get_id().as_str(), "help" | "version")
}

fn described_argument(command: &str, argument: &Arg) -> Value {
    let id = argument.get_id().as_str();
    let own = argument.get_possible_values().into_iter().map(|v| v.get_name().to_owned());
    json!({
        "name": id,
        "long": argument.get_long(),
        "short": argument.get_short(),
        "about": argument.get_help().map(ToString::to_string),
        "takes_value": argument.get_action().takes_values(),
        "is_many": argument.get_num_args().is_some_and(|n| n.max_values() > 1)
            || matches!(argument.get_action(), clap::ArgAction::Append),
        "values": own.chain(words(command, id)).collect::<Vec<_>>(),
    })
}

/// Returns the words that a command accepts, without files and values that are checked at run time.
fn words(command: &str, argument: &str) -> Vec<String> {
    let ids = || builtin().iter().map(|b| b.id.to_owned());
    let systems = driveline_bench::peers::names();
    match (command, argument) {
        ("list", "show") => ids().collect(),
        ("run", "what") => ids().chain(["all".to_owned()]).collect(),
        ("run", "systems") => ["driveline".to_owned()].into_iter().chain(systems).collect(),
        ("peers", "names") | ("link", "peers") => systems,
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_and_words_are_described_and_hidden_commands_are_not() {
        let run = Command::new("run")
            .about("Measure")
            .arg(Arg::new("what").num_args(0..))
            .arg(Arg::new("quick").long("quick").action(clap::ArgAction::SetTrue));
        let all = Command::new("bench").subcommand(run).subcommand(Command::new("peer").hide(true));
        let said = described(all);
        assert_eq!(said["commands"].as_array().unwrap().len(), 1, "{said}");
        let run = &said["commands"][0];
        assert_eq!((&run["name"], &run["about"]), (&"run".into(), &"Measure".into()));
        let [what, quick] = run["arguments"].as_array().unwrap().as_slice() else {
            panic!("{run}")
        };
        let values: Vec<&str> =
            what["values"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(["S1", "refsys", "all"].iter().all(|id| values.contains(id)), "{what}");
        assert_eq!((&what["is_many"], &quick["takes_value"]), (&true.into(), &false.into()));
        assert_eq!(quick["long"], "quick");
    }
}
