// SPDX-License-Identifier: Apache-2.0
//! The command line.

mod deployment;
mod domain;

pub(crate) use deployment::{DeployBuild, DeployManifest, Deployment, WorkloadKind};
pub(crate) use domain::{Domain, WhichRun};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

const AFTER: &str = "\
Exit codes:
  0    success. For `run`: the graph ended by itself or by Ctrl-C
  1    failure, with the reason on standard error. Also:
       `bench`: runs are INVALID; `chaos`: an invariant is broken;
       `gateway list`: a gateway was killed or does not answer;
       `status`, `stop`, `health`, `mode`: there is no such run;
       `stop`: the run did not end in time; `health`: it is not ready;
       `mode`: it did not enter the mode
  2    the command line is wrong
  3    the graph has errors
  4    a module could not start, or ended while the graph was running
  5    the run ended, but a module had to be killed
  6    the run ended normally, but did not do all of its work:
       - calls of components failed
       - a component held so many samples that it received no others
       - a reliable input missed samples
       - two components of a topic were never connected, or not again after
         a restart
       - a component that samples trigger was never called
       - a module was suspended (SIGSTOP) at the end
       - work that remained at the end was cut off
       Inputs from outside (`external: true`) do not count, and neither does
       a run that Ctrl-C ended before a sample could arrive
  130  for `bench`: interrupted; results until then are reported

Environment:
  DRIVELINE_HOST            program that runs a module
                            [default: driveline-host next to this program]
  DRIVELINE_GATEWAY         gateway to other hosts [default:
                            driveline-gateway-zenoh next to this program]
  DRIVELINE_ROS2_GATEWAY    gateway to ROS 2 [default:
                            driveline-gateway-ros2 next to this program]
  DRIVELINE_COMPONENT_PATH  more directories with component libraries,
                            separated by colons
  DRIVELINE_DOMAIN          default domain of programs and tools, instead of
                            `default`. A graph names its own (`domain:`)
  DRIVELINE_DOMAIN_DIR      directory of the domain, whatever its name is
  DRIVELINE_LOG             log level or filter of modules, such as `debug` or
                            `driveline=debug,warn`
  DRIVELINE_GATEWAY_LOG     log level or filter of the gateway to other hosts,
                            including Zenoh [default: none]
  DRIVELINE_PEERS           for `bench`: directory of other middleware
                            [default: `peers` next to this program, or one
                            level up]
  NO_COLOR                  disables colours

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
The first line of each sample has its sequence number, the age of its data, and the number of \
samples missed before it. Publishers do not wait for this command. If samples arrive faster than \
they are read, the newest 8 of each publisher are kept, or fewer if the publisher keeps fewer.

Plain types, protobuf messages and ROS 2 messages are decoded with the definition in the topic's \
schema. Other samples are printed as bytes. Unset fields of a protobuf message are not printed. A \
sample that cannot be decoded is printed as an error, and the next sample follows. When the last \
publisher ends, a line on standard error says so, and the command waits for the next publisher.

With --json, each sample is a line: an object with `header` and `fields`, or `error`. A shortened \
list or string is an object with `length` and `head`.

Examples:
  driveline topic echo camera/image
  driveline topic echo /detector/status --count 1 --timeout 5
      exit code 1 if no sample arrives
  driveline topic echo tracks --json --full | jq '.fields.tracks | length'";

const SERVICES: &str = "\
Column REQUESTS: requests that the server has taken since its start.
Column RESPONSES (CLIENTS NOW): responses to the clients that exist now.

Examples:
  driveline service list
  driveline service list --domain pilot --json | jq '.[].servers'
  driveline topic info _service/map/tile/request
      its clients and servers, and refused ones with the reason
  driveline gateway list --explain
      the same for services that pass to and from ROS 2";

const BENCH: &str = "\
Starts the separate program driveline-bench, which `make lab` builds. `driveline bench --help` \
lists its commands.";

const CHAOS: &str = "\
Starts the separate program driveline-chaos, which `make lab` builds. `driveline chaos --help` \
lists its options.";

const STATUS: &str = "\
Examples:
  driveline status
  driveline status --domain comp --json | jq '.processes[].state'
  driveline status --run perception
      if several runs are in one domain

Exit code 1 if there is no such run, if it does not respond, or if there are several (then \
they are listed).";

const STOP: &str = "\
The modules stop in reverse order, and `driveline run` ends, as with Ctrl-C. A second `driveline \
stop`, at least half a second later, kills the modules that have not stopped.

Examples:
  driveline stop
  driveline stop --timeout 10
  driveline stop --domain comp --run perception

Exit code 0 when the run has ended, for any reason; 1 if there is no such run, or if it has not \
ended in time.";

const MODE: &str = "\
Without a name, prints the mode of the run and the time of its start, the switch in progress, and \
the last switch. With a name, switches to that mode, waits for the end of the switch, and prints \
the result. The run may refuse the switch (`latch`, `min_dwell_ms`, `switched_by`), or enter a \
fallback mode.

Examples:
  driveline mode
  driveline mode autonomous
  driveline mode manual --domain comp --run perception
  driveline mode --json | jq -r .current

Exit code 0 if the run is in the requested mode; 1, with the reason, if it is in another mode, \
refused the switch, or did not end it in time.";

const HEALTH: &str = "\
A run is ready if its graph runs, and each of its modules and gateways is ready and not \
suspended. Earlier restarts do not matter.

With --wait, the command also waits for a run that does not exist yet. It ends at once if a \
module stays down, because that module cannot become ready.

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
A component declares the parameters that can be changed while it runs, with their ranges. Changes \
of other parameters are refused; set these in the graph. A change takes effect between two calls \
of the component, which may refuse it. It is an event in the run's report, and survives a restart \
of the module.

Examples:
  driveline param list
  driveline param get lane.canny_low
  driveline param set lane.canny_low 70
  driveline param set planner.weights '[1, 2.5]'
  driveline param dump > tuned.yaml
  driveline param load tuned.yaml

Exit code 0 on success; 1, with the reason, if the run refused it.";

const LOG_LEVEL: &str = "\
The level has the syntax of DRIVELINE_LOG: `error`, `warn`, `info`, `debug`, `trace`, or a \
filter. After a restart, a module has the level of its start again.

Examples:
  driveline log-level perception debug
  driveline log-level perception driveline=debug,warn

Exit code 0 on success; 1, with the reason, if the module refused the level.";

const DOCTOR: &str = "\
Each line has a finding, and the recommended change with the reason. `note`: for information; \
`change`: improves latencies; `FAILS`: the graph does not get a resource that it requests. The \
command tries priorities and cores on a thread of its own, with the rights of its user.

Examples:
  driveline doctor
  driveline doctor graph.yaml
  driveline doctor graph.yaml --json | jq -r '.checks[].change // empty'

Exit code 0 if nothing FAILS, also with notes and changes; 1 if something FAILS; 3 if the graph \
has errors.";

/// Runs, checks and shows Driveline graphs, and inspects running ones on this host.
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

Ctrl-C or `driveline stop` stops the modules in reverse order. A second one
kills them.")]
    Run(Run),
    /// Show the state of a run: its modules, with times of start, restarts and faults
    #[command(after_help = STATUS)]
    Status(WhichRun),
    /// Show the mode of a run, or switch to one
    #[command(after_help = MODE)]
    Mode(Mode),
    /// Stop a run gracefully and wait until it has ended
    #[command(after_help = STOP)]
    Stop(Stop),
    /// Report whether a run is ready, for people, scripts and probes
    #[command(after_help = HEALTH)]
    Health(Health),
    /// Explain every mistake in graph files
    #[command(after_help = "Examples:
  driveline validate graph.yaml
  driveline validate graphs/*.yaml              # exit code of the worst graph
  driveline validate graph.yaml --no-libraries  # if no library is built
  driveline validate graph.yaml --json | jq '.[].diagnostics[].message'")]
    Validate(Validate),
    /// Read the parameters of a run, and change them while it runs
    #[command(after_help = PARAM)]
    Param {
        #[command(subcommand)]
        command: Param,
    },
    /// Change the log level of a running module
    #[command(after_help = LOG_LEVEL)]
    LogLevel(LogLevel),
    /// Build images of graphs, and print files for container orchestrators
    #[command(after_help = DEPLOY)]
    Deploy {
        #[command(subcommand)]
        command: Deployment,
    },
    /// Check this machine for real-time use, and for the memory, priorities and cores of a graph
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
    /// Inspect the topics of running processes on this host
    #[command(after_help = TOPICS)]
    Topic {
        #[command(subcommand)]
        command: Topic,
        #[command(flatten)]
        domain: Domain,
    },
    /// Inspect the services of running processes on this host
    #[command(after_help = SERVICES)]
    Service {
        #[command(subcommand)]
        command: Service,
        #[command(flatten)]
        domain: Domain,
    },
    /// Inspect the nodes of running processes on this host
    #[command(after_help = "Example:\n  driveline node list --json")]
    Node {
        #[command(subcommand)]
        command: Node,
        #[command(flatten)]
        domain: Domain,
    },
    /// Inspect the gateways of this host: data to and from other hosts and ROS 2
    #[command(after_help = "Exit code 1 if a gateway was killed or does not answer. \
Standard error names the gateway and the remedy.

Examples:
  driveline gateway list
  driveline gateway list --explain
      adds the route of each topic, and the reason why a topic is not carried
  driveline gateway list camera/image --domain comp
  driveline gateway list --json | jq '.[].refused'")]
    Gateway {
        #[command(subcommand)]
        command: Gateway,
        #[command(flatten)]
        domain: Domain,
    },
    /// Measure latencies and throughput on this machine
    #[command(disable_help_flag = true, after_help = BENCH)]
    Bench {
        /// Command of `driveline-bench`, and its arguments
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Inject faults into a running graph, and check its invariants
    #[command(disable_help_flag = true, after_help = CHAOS)]
    Chaos {
        /// Arguments of `driveline-chaos`
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
        arguments: Vec<OsString>,
    },
    /// Print a completion script for a shell
    #[command(after_help = "Example:
  driveline completion bash > /etc/bash_completion.d/driveline

With --json, prints an object with `shell` and `script`.")]
    Completion {
        /// The shell
        shell: Shell,
    },
    /// Print names for a completion script, one per line
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

#[derive(Debug, Subcommand)]
pub(crate) enum Param {
    /// List all parameters: their values, and whether they can be changed
    List {
        #[command(flatten)]
        which: WhichRun,
    },
    /// Print the value of a parameter
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
        /// New value, with the syntax of a graph
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
    /// Change all parameters that differ from a parameter file
    Load {
        /// Parameter file: `component: {parameter: value}`
        file: PathBuf,
        #[command(flatten)]
        which: WhichRun,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LogLevel {
    /// Name of the module
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
    /// Print the names of the run's modes, one per line
    #[arg(long, conflicts_with = "mode")]
    pub(crate) names: bool,
    /// Seconds to wait for the end of the switch
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60",
        value_parser = seconds, requires = "mode"
    )]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Stop {
    #[command(flatten)]
    pub(crate) which: WhichRun,
    /// Seconds to wait for the end
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60",
        value_parser = seconds
    )]
    pub(crate) timeout: Duration,
}

#[derive(Debug, Args)]
pub(crate) struct Health {
    #[command(flatten)]
    pub(crate) which: WhichRun,
    /// Wait until the run has this state, instead of checking once
    #[arg(long, value_name = "STATE")]
    pub(crate) wait: Option<WaitFor>,
    /// Seconds to wait
    #[arg(
        long, value_name = "SECONDS", allow_negative_numbers = true, default_value = "60",
        value_parser = seconds, requires = "wait"
    )]
    pub(crate) timeout: Duration,
}

/// State to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WaitFor {
    /// All modules and gateways of the run are ready, and none is suspended
    Ready,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Topic {
    /// List all topics with their types, endpoints and counters
    List,
    /// Show one topic: type, QoS, publishers, subscriptions, refusals
    Info {
        /// Topic
        topic: String,
        /// Print the whole definition of its type
        #[arg(long)]
        definition: bool,
    },
    /// Print the samples of a topic as they arrive, like `ros2 topic echo`, until Ctrl-C
    #[command(after_help = ECHO)]
    Echo(Echo),
}

#[derive(Debug, Args)]
pub(crate) struct Echo {
    /// Topic; a leading `/` is ignored
    pub(crate) topic: String,
    /// End after so many samples
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = samples)]
    pub(crate) count: Option<u64>,
    /// End with an error if no sample arrives within this time
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Print long lists and strings in full
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// List all services with their types, servers, clients and counters
    #[command(after_help = SERVICES)]
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Node {
    /// List all nodes with their processes and topics
    List,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Gateway {
    /// List the gateways of this host and their connections, and the carried topics with rates over
    /// one second, totals and drops
    List {
        /// Only this topic
        topic: Option<String>,
        /// Print the route of each topic, and the reason why a topic is not carried
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
    /// Run the modules in one container, or each in a container of its own
    #[arg(long, value_name = "WHERE")]
    pub(crate) deploy: Option<Deploy>,
    /// Container engine: podman, docker, or a path [default: the first that works]
    #[arg(long, value_name = "ENGINE", requires = "deploy")]
    pub(crate) engine: Option<String>,
    /// Start no module. Modules started elsewhere find this run in this directory
    #[arg(long, value_name = "DIRECTORY", conflicts_with_all = ["deploy", "domain"])]
    pub(crate) attach: Option<PathBuf>,
    /// Load no library here. Each module checks its own libraries (with --attach)
    #[arg(long, requires = "attach")]
    pub(crate) no_libraries: bool,
    /// Write report.html and summary.json into this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) report: Option<PathBuf>,
    /// Speed of the vehicle, to report the distance driven during the latency of the chain
    #[arg(long, value_name = "KM/H", allow_negative_numbers = true, value_parser = speed)]
    pub(crate) speed_kmh: Option<f64>,
    /// Seconds between two lines of figures without a terminal; 0 for none
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true, default_value_t = 5)]
    pub(crate) interval: u32,
    /// Print no live table on a terminal
    #[arg(long)]
    pub(crate) plain: bool,
}

/// Place of the modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deploy {
    /// One container for all modules, with a process each
    Container,
    /// One container for each module
    Containers,
}

#[derive(Debug, Args)]
pub(crate) struct Validate {
    /// Graph files
    #[arg(required = true, value_name = "GRAPH")]
    pub(crate) graphs: Vec<PathBuf>,
    /// Check only the libraries of this module (may be given several times)
    #[arg(long = "module", value_name = "NAME")]
    pub(crate) modules: Vec<String>,
    /// Load no library. Classes, ports and parameters are not checked
    #[arg(long, conflicts_with = "modules")]
    pub(crate) no_libraries: bool,
    /// Set a parameter, as for `run`
    #[arg(long, value_name = "COMPONENT.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// Also check that the graph can run in containers on this machine
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

/// Parses the command line. Ends the program if the command line has an error.
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
        // Replaces clap's tip to write `--` before the argument.
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
        "write a number of samples, 1 or more; without --count, the command runs until Ctrl-C"
            .into()
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
    fn an_unknown_subcommand_is_reported_with_the_existing_ones() {
        let report = |line: &str| {
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
                report(line).contains("`driveline topic` has: list, info, echo"),
                "{}",
                report(line)
            );
            assert!(!report(line).contains("--'"), "{}", report(line));
        }
        let all = report("driveline topics list");
        assert!(
            all.contains("`driveline` has: run, status, mode, stop, health, validate, param")
                && !all.contains("peer"),
            "{all}"
        );
        let left_out = report("driveline gateway --explain");
        assert!(left_out.contains("`driveline gateway list` takes `--explain`"), "{left_out}");
        for (line, says) in [
            ("driveline topic echo a --count -1", "write a number of samples"),
            ("driveline topic echo a --timeout -1", "write seconds"),
        ] {
            assert!(
                report(line).contains(says) && !report(line).contains("tip:"),
                "{}",
                report(line)
            );
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
