// SPDX-License-Identifier: Apache-2.0
//! Command line.

use clap::Parser;
use driveline_chaos::faults::FaultKind;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

const AFTER: &str = "\
Runs the graph like `driveline run`, in a domain of its own; the graph file is not changed. \
Faults follow one after the other: each waits until the graph has recovered from the previous \
one. A module is not restarted more often than its graph permits: the command waits until the \
module's restarts are within `restart: max` and `window_s` again.

Checks at the end:
  - every sample is in a counter of every input, and no sample is torn
  - no process, file, descriptor or segment remains
  - every announced restart has ended
  - the report of the run has every fault with its cause, and no other fault
  - the run ends normally

Exit codes:
    0  all invariants hold
    1  an invariant is broken, or the graph could not be run
    2  the command line is wrong, or names a fault that the graph cannot get
    3  the graph has errors
  130  interrupted; all invariants held until then

Examples:
  driveline chaos graph.yaml --kill detector --times 50 --seed 1
  driveline chaos graph.yaml --kill all --stop all --exception lane --times 10
  driveline chaos graph.yaml --launcher --times 3
      kills the launcher of three runs
  driveline chaos graph.yaml --kill lane --times 6 --beyond-limits
      tests the graph with a module that stays down
  driveline chaos graph.yaml
      prints the possible faults of each module";

/// Inject faults into a running graph, and check its invariants
#[derive(Debug, Parser)]
#[command(name = "driveline-chaos", bin_name = "driveline chaos", version, after_help = AFTER)]
pub(crate) struct Arguments {
    /// Graph file
    pub(crate) graph: PathBuf,
    /// Kill a module's process (SIGKILL); `all`: every module (may be given several times)
    #[arg(long, value_name = "MODULE")]
    kill: Vec<String>,
    /// Suspend a module's process for a while (SIGSTOP, SIGCONT)
    #[arg(long, value_name = "MODULE")]
    stop: Vec<String>,
    /// Make a call of a module's component hang; needs `on_hang: restart`
    #[arg(long, value_name = "MODULE")]
    hang: Vec<String>,
    /// Make a call of a module's component fail with an exception
    #[arg(long, value_name = "MODULE")]
    exception: Vec<String>,
    /// Allocate more memory than `limits: memory`; needs `on_limit: restart`
    #[arg(long, value_name = "MODULE")]
    memory: Vec<String>,
    /// Open more descriptors than `limits: descriptors`; needs `on_limit: restart`
    #[arg(long, value_name = "MODULE")]
    descriptors: Vec<String>,
    /// Remove the directory of the domain
    #[arg(long)]
    pub(crate) directory: bool,
    /// Suspend all processes of the run for a while, like a suspended machine
    #[arg(long)]
    pub(crate) suspend: bool,
    /// Kill the launcher. Each time, the run ends and a new one starts
    #[arg(long)]
    pub(crate) launcher: bool,
    /// Number of faults of each kind and module
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) times: u32,
    /// Seed of the order and the pauses
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Pause between a recovery and the next fault, in seconds: MIN..MAX
    #[arg(long, default_value = "1.2..2", value_name = "SECONDS")]
    pub(crate) pause: Span,
    /// Time for which `--stop` and `--suspend` suspend processes, in seconds: MIN..MAX
    #[arg(long, default_value = "0.1..1", value_name = "SECONDS")]
    pub(crate) stopped: Span,
    /// Time before the first fault of a run, to measure gaps without faults
    #[arg(long, default_value = "5", value_name = "SECONDS")]
    quiet: Seconds,
    /// Measure the longest gap of this topic [default: all topics] (may be given several times)
    #[arg(long, value_name = "TOPIC")]
    pub(crate) watch: Vec<String>,
    /// Do not wait until restarts are within `restart: max` and `window_s`
    #[arg(long)]
    pub(crate) beyond_limits: bool,
    /// Set a parameter, as for `driveline run`
    #[arg(long, value_name = "COMPONENT.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// Directory for chaos.txt, chaos.json, and the output and report of each run
    #[arg(long, default_value = "out/chaos", value_name = "DIRECTORY")]
    pub(crate) report: PathBuf,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

impl Arguments {
    /// Requested faults of modules, by kind.
    pub(crate) fn of_modules(&self) -> [(FaultKind, &[String]); 6] {
        let names =
            [&self.kill, &self.stop, &self.hang, &self.exception, &self.memory, &self.descriptors];
        let mut names = names.into_iter();
        FaultKind::OF_MODULES.map(|kind| (kind, names.next().map_or(&[][..], Vec::as_slice)))
    }

    pub(crate) fn quiet(&self) -> Duration {
        self.quiet.0
    }
}

/// Time in seconds, at most a day.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seconds(Duration);

impl FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("'{text}' is no time in seconds from 0 to 86400");
        let seconds: f64 = text.parse().map_err(|_| refused())?;
        if !(0.0..=86_400.0).contains(&seconds) {
            return Err(refused());
        }
        Ok(Self(Duration::from_secs_f64(seconds)))
    }
}

/// Shortest and longest time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span(Duration, Duration);

impl Span {
    pub(crate) fn bounds(self) -> (Duration, Duration) {
        (self.0, self.1)
    }
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (least, most) = text.split_once("..").unwrap_or((text, text));
        let (least, most) = (Seconds::from_str(least)?.0, Seconds::from_str(most)?.0);
        if least > most {
            return Err(format!("'{text}': the first time must not be longer than the second"));
        }
        Ok(Self(least, most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn times_are_read_and_wrong_ones_are_refused() {
        let (ms, s) = (Duration::from_millis, Duration::from_secs);
        assert_eq!("0.5..1.5".parse(), Ok(Span(ms(500), ms(1500))));
        assert_eq!("2".parse(), Ok(Span(s(2), s(2))));
        for text in ["", "x", "3..1", "-1", "1..90000", "nan"] {
            assert!(Span::from_str(text).is_err(), "{text}");
        }
    }

    #[test]
    fn each_option_is_a_kind_of_its_own() {
        let words = ["chaos", "g.yaml", "--kill", "a", "--memory", "b", "--memory", "c"];
        let arguments = Arguments::try_parse_from(words).unwrap();
        let asked: Vec<_> =
            arguments.of_modules().into_iter().filter(|(_, names)| !names.is_empty()).collect();
        assert_eq!(asked.len(), 2);
        assert_eq!((asked[0].0, asked[0].1.len()), (FaultKind::Kill, 1));
        assert_eq!((asked[1].0, asked[1].1.len()), (FaultKind::Memory, 2));
    }
}
