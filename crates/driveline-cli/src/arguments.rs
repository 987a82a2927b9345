// SPDX-License-Identifier: Apache-2.0
//! The command line.

mod deployment;

pub(crate) use deployment::{DeployBuild, DeployManifest, Deployment, WorkloadKind};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
Exit codes:
  0  done; for `run`: ended by itself or by Ctrl-C
  1  something could not be done (reason on standard error); for `bench`: or
     runs are INVALID; for `chaos`: or an invariant is broken; for
     `gateway list`: or a gateway was killed or does not answer; for
     `status`, `stop`, `health` and `mode`: or there is no such run; for
     `stop`: or it has not ended in time; for `health`: or it is not ready;
     for `mode`: or the mode was not entered
  2  the command line is wrong
  3  the graph has errors
  4  a module could not start, or ended while the graph was running
  5  the run ended, but a module had to be killed
  6  the run ended as it should, but work was not done: calls of components
     failed, a component kept so many samples that it got no others, a
     reliable input missed samples, two components of a topic were never
     connected, a component that samples trigger was never called, or a module
     was suspended (SIGSTOP) at the end.
     Not for what only comes from outside (`external: true`), nor where
     Ctrl-C came before a sample could arrive
  130  for `bench`: interrupted; what was measured until then is reported

Environment:
  DRIVELINE_HOST            the program that runs a module (default:
                            driveline-host beside this one)
  DRIVELINE_GATEWAY         the gateway to hosts (default:
                            driveline-gateway-zenoh beside this one)
  DRIVELINE_ROS2_GATEWAY    the gateway to ROS 2 (default:
                            driveline-gateway-ros2 beside this one)
  DRIVELINE_COMPONENT_PATH  further directories with component libraries,
                            separated by colons
  DRIVELINE_DOMAIN          the domain of programs and tools that name none,
                            instead of `default`; not of graphs, whose `domain:`
                            says it
  DRIVELINE_DOMAIN_DIR      the directory in which processes meet, whatever
                            domain is named
  DRIVELINE_LOG             which log lines modules write, such as `debug` or
                            `driveline=debug,warn`
  DRIVELINE_GATEWAY_LOG     which ones the gateway to hosts writes, with Zenoh's
                            (default: none)
  DRIVELINE_PEERS           for `bench`: other middleware (default: peers,
                            beside this or above)
  NO_COLOR                  no colours

Examples:
  driveline validate graph.yaml
  driveline run graph.yaml --set camera.rate_hz=10 --report out/
  driveline health --wait ready --timeout 10
  driveline stop
  driveline topic list
  driveline topic echo camera/image
  driveline gateway list --explain";

const TOPICS: &str = "\
Examples:
  driveline topic list
  driveline topic info camera/image --domain comp
  driveline topic echo detector/status --count 1";

const ECHO: &str = "\
The first line of each sample tells its sequence number and how old its data is; samples that did not get here are counted there. Nobody \
waits for this command: where samples come faster than they are read, the newest 8 of a publisher are kept, or as many as it keeps.

Plain types, protobuf messages and samples of ROS 2 are read by the definition in the topic's schema; others are shown as bytes. What is not \
in a protobuf message is not shown. A sample that cannot be read is told as an error, and the next one follows. When the last publisher ends, \
that is told on standard error, and the next one is waited for.

With --json, a line for each sample: an object of `header` and `fields`, or `error`. What is shortened is an object of `length` and `head`.

Examples:
  driveline topic echo camera/image
  driveline topic echo /detector/status --count 1 --timeout 5
      ends with 1 if nothing comes
  driveline topic echo tracks --json --full | jq '.fields.tracks | length'";

const SERVICES: &str = "\
REQUESTS: those that the server has taken since it is there.
RESPONSES (CLIENTS NOW): those to the clients that are there now.

Examples:
  driveline service list
  driveline service list --domain pilot --json | jq '.[].servers'
  driveline topic info _service/map/tile/request
      who asks and answers, and who does not, why
  driveline gateway list --explain
      the same of those that pass to and from ROS 2";

const BENCH: &str = "\
A program of its own, driveline-bench: `make lab` builds it. `driveline bench --help` lists its commands.";

const CHAOS: &str = "\
A program of its own, driveline-chaos: `make lab` builds it. `driveline chaos --help` lists its options.";

const STATUS: &str = "\
Examples:
  driveline status
  driveline status --domain comp --json | jq '.processes[].state'
  driveline status --run perception
      where several runs are in one domain

Exit code 1 if there is no such run, if it does not respond, or if there are several (then \
they are listed).";

const STOP: &str = "\
The modules stop in reverse order, as with Ctrl-C; `driveline run` ends as it does then. A second `driveline stop`, half a second later or \
more, kills what has not stopped.

Examples:
  driveline stop
  driveline stop --timeout 10
  driveline stop --domain comp --run perception

Exit code 0 once the run has ended, however it ended; 1 if there is no such run, or if it has not ended in time.";

const MODE: &str = "\
Without a name: the mode of the run, since when, the switch in flight and the last one. With a name: switches to it, waits until the switch \
has ended, and prints how. The run may refuse (`latch`, `min_dwell_ms`, `switched_by`), or enter a fallback.

Examples:
  driveline mode
  driveline mode autonomous
  driveline mode manual --domain comp --run perception
  driveline mode --json | jq -r .current

Exit code 0 if the run is in the mode; 1 if it is in another one, has refused, or has not ended the switch in time, with the reason.";

const HEALTH: &str = "\
A run is ready when its graph runs and each of its modules and gateways is ready and not suspended. Restarts that are over do not matter.

With --wait, a run that does not exist yet is waited for as well. A module that stays down ends the wait at once: it cannot become ready.

Examples:
  driveline health
  driveline health --wait ready --timeout 10 && echo driving
  driveline health --json | jq -r '.processes[] | select(.ready | not).reason'

Exit code 0 if the run is ready; 1 if not, with names and reasons on standard error.";

const DEPLOY: &str = "\
Examples:
  driveline run graph.yaml --deploy containers
  driveline validate graph.yaml --deploy containers
  driveline deploy build graph.yaml
  driveline deploy compose graph.yaml > compose.yaml
  driveline deploy clean";

const PARAM: &str = "\
A component declares which of its parameters can be changed while it runs, and in which range. The others are refused: set them in the graph. \
A change is made between two calls of the component, which may refuse it; it is an event of the run, and survives a restart of the module.

Examples:
  driveline param list
  driveline param get lane.canny_low
  driveline param set lane.canny_low 70
  driveline param set planner.weights '[1, 2.5]'
  driveline param dump > tuned.yaml
  driveline param load tuned.yaml

Exit code 0 if it was done; 1 if the run has refused it, with the reason.";

const LOG_LEVEL: &str = "\
The level is that of DRIVELINE_LOG: `error`, `warn`, `info`, `debug`, `trace`, or a filter. A restarted module begins with its old one.

Examples:
  driveline log-level perception debug
  driveline log-level perception driveline=debug,warn

Exit code 0 if it was done; 1 if the module has refused it, with the reason.";

const DOCTOR: &str = "\
Each line says what was found, and what to change and why. `note`: worth knowing; `change`: latencies get better; `FAILS`: the graph does \
not get what it asks for. Priorities and cores are tried on a thread of this command, with the rights of its user.

Examples:
  driveline doctor
  driveline doctor graph.yaml
  driveline doctor graph.yaml --json | jq -r '.checks[].change // empty'

Exit code 0, also with notes and changes; 1 if something FAILS; 3 if the graph has errors.";

/// Runs, checks and shows Driveline graphs, and lists what runs on this host.
#[derive(Debug, Parser)]
#[command(name = "driveline", version, after_help = AFTER, max_term_width = 110)]
pub(crate) struct Arguments {
    /// Print JSON instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a graph: one process for each module, until a component finishes or Ctrl-C
    #[command(after_help = "Examples:
  driveline run graph.yaml
  driveline run graph.yaml --module perception --module planning
  driveline run graph.yaml --set lane.canny_low=40
  driveline run graph.yaml --report out/demo --speed-kmh 130
  driveline run graph.yaml --deploy containers
      each module in a container of its own, with podman or docker

Ctrl-C, or `driveline stop`, stops the modules in reverse order; a second one
kills them.")]
    Run(Run),
    /// State of a run: its modules, since when, restarts, faults
    #[command(after_help = STATUS)]
    Status(WhichRun),
    /// Show the mode of a run, or switch to one
    #[command(after_help = MODE)]
    Mode(Mode),
    /// Stop a run in good order and wait until it has ended
    #[command(after_help = STOP)]
    Stop(Stop),
    /// Report whether a run is ready, for people, scripts and probes
    #[command(after_help = HEALTH)]
    Health(Health),
    /// Explain every mistake in graph files
    #[command(after_help = "Examples:
  driveline validate graph.yaml
  driveline validate graphs/*.yaml              # the worst one's exit code
  driveline validate graph.yaml --no-libraries  # where none is built
  driveline validate graph.yaml --json | jq '.[].diagnostics[].message'")]
    Validate(Validate),
    /// Parameters of a run: read them, change them while it goes on
    #[command(after_help = PARAM)]
    Param {
        #[command(subcommand)]
        command: Param,
    },
    /// Change which log lines a module of a run writes
    #[command(after_help = LOG_LEVEL)]
    LogLevel(LogLevel),
    /// Images and containers of graphs
    #[command(after_help = DEPLOY)]
    Deploy {
        #[command(subcommand)]
        command: Deployment,
    },
    /// Check this machine, and whether it has what a graph asks for: memory, priorities, cores
    #[command(after_help = DOCTOR)]
    Doctor(Doctor),
    /// Show a graph as text or as a picture
    #[command(after_help = "Examples:
  driveline graph graph.yaml
  driveline graph graph.yaml --svg graph.svg
  driveline graph graph.yaml --json")]
    Graph(Graph),
    /// List the component classes in a library
    #[command(after_help = "Example:\n  driveline describe build/lib/libcomp_lane.so")]
    Describe {
        /// Shared library
        library: PathBuf,
    },
    /// Print the JSON Schema of graph files
    #[command(after_help = "Example, for completion and checks in editors:
  driveline schema > graph.schema.json
  # first line of a graph: # yaml-language-server: $schema=graph.schema.json")]
    Schema,
    /// Host topics of what runs now
    #[command(after_help = TOPICS)]
    Topic {
        #[command(subcommand)]
        command: Topic,
        #[command(flatten)]
        domain: Domain,
    },
    /// Services of what runs now
    #[command(after_help = SERVICES)]
    Service {
        #[command(subcommand)]
        command: Service,
        #[command(flatten)]
        domain: Domain,
    },
    /// Nodes of what runs now
    #[command(after_help = "Example:\n  driveline node list --json")]
    Node {
        #[command(subcommand)]
        command: Node,
        #[command(flatten)]
        domain: Domain,
    },
    /// Data that goes to other hosts and comes from them now
    #[command(
        after_help = "Exit code 1 if a gateway was killed or does not answer: standard error says which, and what to do.

Examples:
  driveline gateway list
  driveline gateway list --explain
      also how each topic is carried, and why another one is not
  driveline gateway list camera/image --domain comp
  driveline gateway list --json | jq '.[].refused'"
    )]
    Gateway {
        #[command(subcommand)]
        command: Gateway,
        #[command(flatten)]
        domain: Domain,
    },
    /// Measure what this machine gives
    #[command(disable_help_flag = true, after_help = BENCH)]
    Bench {
        /// Command of `driveline-bench`, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Break a running graph, and check how it answers
    #[command(disable_help_flag = true, after_help = CHAOS)]
    Chaos {
        /// Arguments of `driveline-chaos`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Print a completion script for a shell
    #[command(
        after_help = "Example:\n  driveline completion bash > /etc/bash_completion.d/driveline\n\nWith --json, an object of `shell` and `script`."
    )]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print names for a completion script, one a line
    #[command(hide = true)]
    Complete(Complete),
    /// Write the man pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// Names
    pub(crate) names: Names,
    /// Graph file with modules and parameters
    #[arg(long)]
    pub(crate) graph: Option<PathBuf>,
    /// Domain of topics and runs
    #[arg(long)]
    pub(crate) domain: Option<String>,
}

/// Names that a completion script asks for.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Names {
    Topics,
    Domains,
    Runs,
    Modules,
    Parameters,
}

#[derive(Debug, Args)]
pub(crate) struct Domain {
    /// Domain, as the graph names it [default: default]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) domain: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WhichRun {
    /// Domain of the run, as the graph names it [default: default]
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Which run, where there are several: the name of its graph, or 4 or more digits of its id
    #[arg(long, value_name = "NAME")]
    pub(crate) run: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Param {
    /// All parameters with their values, and which can be changed
    List {
        #[command(flatten)]
        which: WhichRun,
    },
    /// Value of a parameter
    Get {
        /// Parameter, as COMPONENT.PARAMETER
        #[arg(value_parser = parameter)]
        parameter: (String, String),
        #[command(flatten)]
        which: WhichRun,
    },
    /// Change a parameter
    Set {
        /// Parameter, as COMPONENT.PARAMETER
        #[arg(value_parser = parameter)]
        parameter: (String, String),
        /// New value, written as in a graph
        #[arg(allow_hyphen_values = true)]
        value: String,
        #[command(flatten)]
        which: WhichRun,
    },
    /// Print all values as a parameter file
    Dump {
        #[command(flatten)]
        which: WhichRun,
    },
    /// Change all parameters that a parameter file has otherwise
    Load {
        /// Parameter file: `component: {parameter: value}`
        file: PathBuf,
        #[command(flatten)]
        which: WhichRun,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LogLevel {
    /// Module
    pub(crate) module: String,
    /// Level or filter, as for DRIVELINE_LOG
    pub(crate) level: String,
    #[command(flatten)]
    pub(crate) which: WhichRun,
}

fn parameter(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('.').filter(|(c, p)| !c.is_empty() && !p.is_empty());
    parts
        .map(|(c, p)| (c.to_owned(), p.to_owned()))
        .ok_or_else(|| "write COMPONENT.PARAMETER, such as lane.canny_low".to_owned())
}

#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// Graph file
    pub(crate) graph: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Mode {
    /// The mode to switch to
    pub(crate) mode: Option<String>,
    #[command(flatten)]
    pub(crate) which: WhichRun,
    /// Print the names of the run's modes, one a line
    #[arg(long, conflicts_with = "mode")]
    pub(crate) names: bool,
    /// Seconds to wait for the end of the switch
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = seconds, requires = "mode")]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) which: WhichRun,
    /// Seconds to wait for the end
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) which: WhichRun,
    /// Wait until the run is ready, instead of one look
    #[arg(long, value_name = "STATE")]
    pub(crate) wait: Option<WaitFor>,
    /// Seconds to wait
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60", value_parser = seconds, requires = "wait")]
    pub(crate) timeout: Duration,
}

/// State to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// All modules of the run are ready
    Ready,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// All topics with their type, ends and counters
    List,
    /// Everything about one topic: type, QoS, publishers, subscriptions, refusals
    Info {
        /// Topic
        topic: String,
        /// The definition of its type whole, however long
        #[arg(long)]
        definition: bool,
    },
    /// Print the samples of a topic as they come, in the manner of `ros2 topic echo`, until Ctrl-C
    #[command(after_help = ECHO)]
    Echo(Echo),
}

#[derive(Debug, Args)]
pub(crate) struct Echo {
    /// Topic; a `/` before it is left out
    pub(crate) topic: String,
    /// End after so many samples
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = samples)]
    pub(crate) count: Option<u64>,
    /// End with an error if no sample comes for so long
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print long lists and strings whole
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// All services with their types, server, clients and counters
    #[command(after_help = SERVICES)]
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// All nodes with their process and topics
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Gateway {
    /// Gateways of this host, what they are connected to, and topics with rates over one second,
    /// totals and drops
    List {
        /// Only this topic
        topic: Option<String>,
        /// Way each topic is carried, and why another one is not
        #[arg(long)]
        explain: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Graph file
    pub(crate) graph: PathBuf,
    /// Run only this module (may be given several times)
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Set a parameter (may be given several times)
    #[arg(long, value_name = "COMPONENT.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// Domain, instead of the graph's
    #[arg(long, value_name = "NAME")]
    pub(crate) domain: Option<String>,
    /// Run the modules in one container together, or in a container each
    #[arg(long, value_name = "WHERE")]
    pub(crate) deploy: Option<Deploy>,
    /// Container engine: podman, docker, or a path [default: the first that works]
    #[arg(long, value_name = "ENGINE", requires = "deploy")]
    pub(crate) engine: Option<String>,
    /// Start no module: modules that others start find this run in this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["deploy", "domain"])]
    pub(crate) attach: Option<PathBuf>,
    /// Look into no library: each module checks its own (with --attach)
    #[arg(long, requires = "attach")]
    pub(crate) no_libraries: bool,
    /// Write report.html and summary.json into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) report: Option<PathBuf>,
    /// Speed of the vehicle, for the distance that it goes until the end of the chain
    #[arg(long, value_name = "KM/H", allow_negative_numbers = true, value_parser = speed)]
    pub(crate) speed_kmh: Option<f64>,
    /// Seconds between two lines of figures where there is no terminal; 0 for none
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 5)]
    pub(crate) interval: u32,
    /// No live table, also on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Place of the modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deploy {
    /// All in one container, a process each
    Container,
    /// A container for each module
    Containers,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Graph files
    #[arg(required = true, value_name = "GRAPH")]
    pub(crate) graphs: Vec<PathBuf>,
    /// Look only into the libraries of this module (may be given several times)
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Look into no library: classes, ports and parameters are not checked
    #[arg(long, conflicts_with = "modules")]
    pub(crate) no_libraries: bool,
    /// Set a parameter, as for `run`
    #[arg(long, value_name = "COMPONENT.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// Check also that it can run in containers on this machine
    #[arg(long, value_name = "WHERE")]
    pub(crate) deploy: Option<Deploy>,
    /// Container engine, as for `run`
    #[arg(long, value_name = "ENGINE", requires = "deploy")]
    pub(crate) engine: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Graph {
    /// Graph file; the libraries that it names need not exist
    pub(crate) graph: PathBuf,
    /// Write a picture to this file
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub(crate) svg: Option<PathBuf>,
}

/// The command line, as typed. What is wrong with it ends the program.
pub(crate) fn parse() -> Arguments {
    let words: Vec<OsString> = std::env::args_os().collect();
    Arguments::try_parse_from(&words).unwrap_or_else(|e| with_subcommands(e, &words).exit())
}

/// Adds the existing subcommands to an error about an unknown one, and the missing subcommand to an
/// error about an option.
fn with_subcommands(mut e: clap::Error, words: &[OsString]) -> clap::Error {
    if !matches!(e.kind(), ErrorKind::InvalidSubcommand | ErrorKind::UnknownArgument) {
        return e;
    }
    let root = Arguments::command();
    let (mut command, mut path) = (&root, root.get_name().to_owned());
    for word in words.iter().skip(1).filter_map(|w| w.to_str()) {
        if let Some(next) = command.find_subcommand(word) {
            command = next;
            path += &format!(" {word}");
        }
    }
    if e.kind() == ErrorKind::UnknownArgument {
        let option = e.get(ContextKind::InvalidArg).map(ToString::to_string).unwrap_or_default();
        let takes = |c: &&clap::Command| {
            c.get_arguments()
                .filter_map(clap::Arg::get_long)
                .any(|long| option == format!("--{long}"))
        };
        if let Some(of) = command.get_subcommands().find(takes) {
            let tip = format!("`{path} {}` takes `{option}`", of.get_name());
            e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        }
        return e;
    }
    let names: Vec<&str> = command
        .get_subcommands()
        .filter(|c| !c.is_hide_set())
        .map(clap::Command::get_name)
        .collect();
    if !names.is_empty() {
        let tip = format!("`{path}` has: {}", names.join(", "));
        // In place of the tip to write `--` before it.
        e.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    e
}

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(v) if v.is_finite() && (0.0..=1000.0).contains(&v) => Ok(v),
        _ => Err("write a speed between 0 and 1000".into()),
    }
}

fn samples(text: &str) -> Result<u64, String> {
    text.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(|| {
        "write how many samples, 1 or more; without --count it goes on until Ctrl-C".into()
    })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.001..=1e9).contains(s));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "write seconds, such as 5 or 0.5".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    /// Hand-formatted help must fit a terminal of 80 columns; only sentences are wrapped.
    #[test]
    fn what_is_laid_out_in_helps_fits_a_terminal() {
        fn look(command: &clap::Command, wide: &mut Vec<String>) {
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            wide.extend(
                after
                    .lines()
                    .filter(|l| l.starts_with("  ") && l.chars().count() > 80)
                    .map(str::to_owned),
            );
            command.get_subcommands().for_each(|c| look(c, wide));
        }
        let mut wide = Vec::new();
        look(&Arguments::command(), &mut wide);
        assert_eq!(wide, Vec::<String>::new());
    }

    #[test]
    fn a_subcommand_that_does_not_exist_is_told_with_those_that_do() {
        let told = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            with_subcommands(Arguments::try_parse_from(&words).unwrap_err(), &words).to_string()
        };
        for line in [
            "driveline topic hz",
            "driveline topic pub a",
            "driveline --json topic lst",
            "driveline topic --domain d hz",
        ] {
            assert!(
                told(line).contains("`driveline topic` has: list, info, echo"),
                "{}",
                told(line)
            );
            assert!(!told(line).contains("--'"), "{}", told(line));
        }
        let all = told("driveline topics list");
        assert!(
            all.contains("`driveline` has: run, status, mode, stop, health, validate, param")
                && !all.contains("peer"),
            "{all}"
        );
        let left_out = told("driveline gateway --explain");
        assert!(left_out.contains("`driveline gateway list` takes `--explain`"), "{left_out}");
        for (line, says) in [
            ("driveline topic echo a --count -1", "write how many samples"),
            ("driveline topic echo a --timeout -1", "write seconds"),
        ] {
            assert!(told(line).contains(says) && !told(line).contains("tip:"), "{}", told(line));
        }
    }

    #[test]
    fn speeds_are_sensible() {
        assert_eq!(speed("130"), Ok(130.0));
        for bad in ["", "-1", "NaN", "inf", "1e9", "fast"] {
            assert!(speed(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn times_are_sensible() {
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for bad in ["", "0", "-1", "NaN", "inf", "1e12", "5s"] {
            assert!(seconds(bad).is_err(), "{bad}");
        }
    }
}
