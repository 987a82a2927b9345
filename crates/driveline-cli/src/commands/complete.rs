// SPDX-License-Identifier: Apache-2.0
//! Completion scripts, names for them (topics, domains, runs, modules and parameters), and the man
//! pages.

use super::absent::Runs;
use super::bench;
use super::describer::{describer, load_options};
use crate::arguments::{Arguments, Complete, Names};
use crate::exit;
use clap::CommandFactory;
use clap_complete::Shell;
use driveline_graph::{LoadOptions, load};
use driveline_shm::domain;
use driveline_terminal::screen::Screen;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

/// Time for the processes of a domain to answer: short, because a user waits for the completion.
const ASK: Duration = Duration::from_millis(300);

/// Prints the existing names, one a line. Prints nothing if they cannot be requested.
pub(crate) fn complete(arguments: &Complete, screen: &Screen) -> u8 {
    let (domain, graph) = (arguments.domain.as_deref(), arguments.graph.as_deref());
    let mut names = match arguments.names {
        Names::Topics => topics(domain),
        Names::Domains => domain::all().into_iter().map(|(name, _)| name).collect(),
        Names::Runs => Runs::ask(domain).graphs(),
        Names::Modules => graph.map_or_else(|| Runs::ask(domain).modules_of_graphs(), modules),
        Names::Parameters => {
            graph.map_or_else(|| super::parameters::names_of_runs(domain), parameters)
        }
    };
    // The output goes to a shell, and other users may have chosen some of the names. So only names
    // of harmless characters are printed.
    names.retain(|name| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-./=".contains(&b)));
    screen.print(&names.into_iter().map(|name| name + "\n").collect::<String>());
    exit::DONE
}

fn topics(domain: Option<&str>) -> BTreeSet<String> {
    let mut names = Runs::ask(domain).outside();
    if let Ok(Some(directory)) = domain::existing(domain)
        && let Ok(survey) = driveline_shm::survey(&directory, ASK)
    {
        for p in survey.participants {
            names.extend(p.publishers.into_iter().map(|p| p.topic));
            names.extend(p.subscriptions.into_iter().map(|s| s.topic));
        }
    }
    names
}

fn modules(graph: &Path) -> BTreeSet<String> {
    let describer = describer();
    let options = LoadOptions { modules: Some(Vec::new()), ..load_options(&describer) };
    let graph = load(graph, &options).graph;
    graph.map(|g| g.modules.iter().map(|m| m.name.to_string()).collect()).unwrap_or_default()
}

fn parameters(graph: &Path) -> BTreeSet<String> {
    let describer = describer();
    let Some(graph) = load(graph, &load_options(&describer)).graph else {
        return BTreeSet::new();
    };
    let of = |component: &driveline_graph::ResolvedComponent| {
        let name = component.name.clone();
        let parameters = component.parameters.keys().map(move |p| format!("{name}.{p}="));
        parameters.collect::<Vec<_>>()
    };
    graph.components().flat_map(|(_, c)| of(c)).collect()
}

/// Writes `driveline.1` and a page for each command.
pub(crate) fn man(directory: &Path, screen: &Screen) -> u8 {
    let command = bench::with_commands(without_hidden(&Arguments::command()));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(command, directory));
    match written {
        Ok(()) => exit::DONE,
        Err(e) => {
            screen.error(format!("cannot write man pages into {}: {e}", directory.display()));
            exit::FAILED
        }
    }
}

/// Adds code to a shell's completion script that completes names from runs and graphs.
pub(super) fn with_names(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => zsh(&script),
        _ => script,
    }
}

/// Values in a script for zsh, and the kind of names that each takes.
const ZSH_VALUES: [(&str, &str); 9] = [
    ("--domain=[", "domains"),
    ("--run=[", "runs"),
    ("--module=[", "modules"),
    ("--set=[", "parameters"),
    (":topic -- ", "topics"),
    (":mode -- ", "modes"),
    (":module -- ", "modules"),
    (":modules -- ", "modules"),
    (":parameter -- ", "parameters"),
];

/// Adapts the script for zsh, which completes each value by the function on the value's line: files
/// by default, names for values in `ZSH_VALUES`.
fn zsh(script: &str) -> String {
    let line = |line: &str| {
        // After `*::`, zsh would not complete further options.
        let line = match line.strip_prefix("'*::") {
            Some(rest) if !rest.starts_with("arguments") => &format!("'*:{rest}"),
            _ => line,
        };
        let of_names = ZSH_VALUES.iter().find(|(value, _)| line.contains(value));
        let parts = of_names.zip(line.split_once(":_default'"));
        parts.map_or_else(
            || format!("{line}\n"),
            |((_, names), (before, after))| {
                // The space before the function's name makes zsh call the function with exactly
                // this argument. Without it, zsh would insert options before the argument.
                format!("{before}: _driveline_names {names}'{after}\n")
            },
        )
    };
    let (head, rest) = script.split_once('\n').unwrap_or((script, ""));
    format!("{head}\n{ZSH}{}", rest.lines().map(line).collect::<String>())
}

const ZSH: &str = r#"
_driveline_names() {
    local tool=${_comp_command1:-driveline} word= graph= domain= i
    local -a ask names after
    for ((i = 1; i < CURRENT; i++)); do
        word=${(Q)words[i]}
        case $word in
            (*.yaml|*.yml) graph=$word ;;
            (--domain) domain=${(Q)words[i+1]} ;;
            (--domain=*) domain=${word#*=} ;;
        esac
    done
    case $1 in
        (domains) ask=(complete domains) ;;
        (modes) ask=(mode --names) ;;
        (*) ask=(complete $1) ;;
    esac
    [[ $1 == (modules|parameters) && -n $graph ]] && ask+=(--graph $graph)
    [[ $1 != domains && -n $domain ]] && ask+=(--domain $domain)
    names=(${(f)"$($tool $ask 2>/dev/null)"})
    # COMPONENT.PARAMETER= goes on with the value.
    [[ ${names[1]} == *= ]] && after=(-S '')
    (( ${#names} )) && compadd $after -a names
}
"#;

const BASH: &str = r#"
_driveline_with_names() {
    _driveline "$@"
    local tool="${COMP_WORDS[0]}" current="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}"
    local words=() graph=() in=() i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case "${COMP_WORDS[i]}" in
            *.yaml|*.yml) graph=(--graph "${COMP_WORDS[i]}") ;;
            --domain) in=(--domain "${COMP_WORDS[i+1]}") ;;
        esac
    done
    [[ "${current}" == -* ]] && return
    case "${before}" in
        --domain) words=(complete domains) ;;
        --run) words=(complete runs "${in[@]}") ;;
        --module|log-level) words=(complete modules "${graph[@]}" "${in[@]}") ;;
        --set) words=(complete parameters "${graph[@]}"); compopt -o nospace 2>/dev/null ;;
        get|set) [[ "${COMP_WORDS[1]}" == param ]] && words=(complete parameters "${in[@]}") ;;
        mode) [[ ${COMP_CWORD} -eq 2 ]] && words=(mode --names) ;;
        info|echo) [[ "${COMP_WORDS[1]}" == topic ]] && words=(complete topics "${in[@]}") ;;
    esac
    [[ ${#words[@]} -gt 0 ]] || return
    COMPREPLY=( $(compgen -W "$("${tool}" "${words[@]}" 2>/dev/null)" -- "${current}") )
}
complete -F _driveline_with_names -o bashdefault -o default driveline
"#;

const FISH: &str = r#"
function __driveline_graph; string match -r '.*\.ya?ml$' -- (commandline -opc) | tail -n 1; end
function __driveline_names
    set -l words (commandline -opc)
    set -l domain (string replace -f -r '^--domain=' '' -- $words)
    set -l at (contains -i -- --domain $words)
    and set domain $words[(math $at + 1)]
    test -n "$domain[-1]"; and set domain --domain $domain[-1]
    driveline complete $argv $domain 2>/dev/null
end
complete -c driveline -n "__fish_seen_subcommand_from mode" -f -a "(driveline mode --names 2>/dev/null)"
complete -c driveline -n "__fish_seen_subcommand_from info echo" -f -a "(__driveline_names topics)"
complete -c driveline -n "__fish_seen_subcommand_from log-level" -f -a "(__driveline_names modules)"
complete -c driveline -n "__fish_seen_subcommand_from get set" -f -a "(__driveline_names parameters)"
complete -c driveline -l domain -x -a "(driveline complete domains 2>/dev/null)"
complete -c driveline -l run -x -a "(__driveline_names runs)"
complete -c driveline -n "__fish_seen_subcommand_from run" -l module -x -a "(driveline complete modules --graph (__driveline_graph) 2>/dev/null)"
complete -c driveline -n "__fish_seen_subcommand_from run validate" -l set -x -a "(driveline complete parameters --graph (__driveline_graph) 2>/dev/null)"
"#;

pub(crate) fn completion(shell: Shell, screen: &Screen) -> u8 {
    let mut script = Vec::new();
    clap_complete::generate(
        shell,
        &mut bench::with_commands(without_hidden(&Arguments::command())),
        "driveline",
        &mut script,
    );
    let script = with_names(shell, String::from_utf8_lossy(&script).into_owned());
    if screen.json {
        screen.print_json(&json!({ "shell": shell.to_string(), "script": script }));
    } else {
        screen.print(&script);
    }
    exit::DONE
}

/// Returns the command line without hidden commands, which are for other programs: neither
/// completion nor man pages show them.
fn without_hidden(command: &clap::Command) -> clap::Command {
    let text = |text: Option<&clap::builder::StyledStr>| text.cloned().unwrap_or_default();
    clap::Command::new("driveline")
        .about(text(command.get_about()))
        .after_help(text(command.get_after_help()))
        .version(env!("CARGO_PKG_VERSION"))
        .args(command.get_arguments().cloned())
        .subcommands(command.get_subcommands().filter(|c| !c.is_hide_set()).cloned())
}
