// SPDX-License-Identifier: Apache-2.0
//! `bench link`: a scenario made of options, for a measurement without a file.

use crate::run::{Request, measure};
use crate::scenario::{
    self, CpusSpec, Extent, LoadError, PayloadSpec, ReachSpec, Scenario, TakeSpec,
};
use crate::words::word;
use anyhow::{Result, anyhow, bail};
use driveline_bench::harness::Wait;
use driveline_bench::peers::{self, Peer};
use driveline_bench::{Ending, MIN_SIZE, UsageError};
use driveline_types::limits::MAX_PAYLOAD;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  driveline bench link
      all sizes, blocking and spinning; half round trips and their floors
  driveline bench link --size 1M --subscribers 1,10 --rate 100 --wait block
      1 and 10 subscribers, open loop at 100 Hz
  driveline bench link --size 1M --take borrow,copy --payload untouched,filled
      costs of copying, filling and reading, compared with memcpy
  driveline bench link --reach process --size 64,1M
      inside one process, between threads
  driveline bench link --size 64,1M --wait block --peers fastdds/shm,cyclonedds
      next to other middleware (`make peers`; `driveline bench peers`)
  driveline bench link --messages 4000 --out results/now --json > now.json
      enough samples for p99.9 in every run; the summary as JSON
  driveline bench link --size 1M --print > mine.yaml
      the scenario of these options, to edit; `driveline bench run ./mine.yaml`

The directory has every stamp, and `bench report`, `bench compare` and
`bench run --resume` work on it as on that of `bench run`.

Environment:
  DRIVELINE_PEERS  directory with the programs of other middleware [default:
                   `peers` next to this program, or one level up]

Exit codes: as those of `driveline bench run`.

Results are meaningful on a quiet machine only. They include the machine's other load.";

/// Measure links described by options, and compare them with the machine's floors.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LinkArgs {
    /// Payload sizes in bytes; k, M and G are powers of 1024
    #[arg(long, value_delimiter = ',', value_name = "SIZES", value_parser = size,
        default_value = "64,1k,64k,1M,4M,8M")]
    pub size: Vec<u64>,
    /// Ends in threads of one process, in processes, or on two hosts of network namespaces
    #[arg(long, value_enum, value_delimiter = ',', default_value = "host")]
    pub reach: Vec<ReachSpec>,
    /// Numbers of subscribers; more than one needs --rate
    #[arg(long, value_delimiter = ',', value_name = "NUMBERS", default_value = "1",
        value_parser = clap::value_parser!(u64).range(1..=512))]
    pub subscribers: Vec<u64>,
    /// How readers wait: block, spin, or spin:US (spin for US microseconds, then block)
    #[arg(long, value_delimiter = ',', value_name = "WAYS", default_value = "block,spin")]
    pub wait: Vec<Wait>,
    /// Readers access the payload in place, or copy it
    #[arg(long, value_enum, value_delimiter = ',', default_value = "borrow")]
    pub take: Vec<TakeSpec>,
    /// Payload untouched, or filled before publishing and verified after receiving
    #[arg(long, value_enum, value_delimiter = ',', default_value = "untouched")]
    pub payload: Vec<PayloadSpec>,
    /// Samples per second, at absolute times (open loop) [default: ping-pong, half round trips]
    #[arg(long, value_name = "HZ", value_parser = rate)]
    pub rate: Option<f64>,
    /// Processor time in microseconds that each subscriber spends on each sample; needs --rate
    #[arg(long, value_name = "US", requires = "rate",
        value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub processing_us: Option<u64>,
    /// Other middleware measured in the same rounds: all, names of peers, or peer/variant, e.g.
    /// fastdds/shm,cyclonedds
    #[arg(long, value_delimiter = ',', value_name = "PEERS")]
    pub peers: Vec<String>,
    /// Also run the middleware's own latency tool for each blocking ping-pong of a peer. Both
    /// results must agree within 20 %; needs 5 rounds
    #[arg(long, requires = "peers", conflicts_with = "rate")]
    pub own_tools: bool,
    /// Reliable instead of best effort, for systems that offer it
    #[arg(long)]
    pub reliable: bool,
    /// Number of measured samples in each run
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub messages: u64,
    /// Number of samples before the measured ones in each run
    #[arg(long, value_name = "N", default_value_t = 200,
        value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    pub warm_up: u64,
    /// Number of complete restarts, each in a new random order
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: u64,
    /// History depth of publisher and subscriptions
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub depth: u32,
    /// CPUs of the ends: the publisher on the first and the subscribers on the others, all on one,
    /// or any
    #[arg(long, value_enum, default_value = "apart")]
    pub cpus: CpusSpec,
    /// Real-time priority (SCHED_FIFO, 1 to 99) of all measured ends; 0: no real-time priority
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u8).range(0..=99))]
    pub priority: u8,
    /// Directory for samples and report; it must be new or empty [default: bench-link-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Seed of the random order and of the intervals [default: a new one, which is printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Only print the scenario of these options, a file for `driveline bench run`
    #[arg(long, conflicts_with_all = ["dry_run", "json"])]
    pub print: bool,
    /// Only print the planned measurements and their duration
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask before a measurement that takes longer than a day
    #[arg(long)]
    pub yes: bool,
    /// Print a summary as JSON instead of a table; with --dry-run, the plan
    #[arg(long)]
    pub json: bool,
}

/// Measures the links, writes the report and prints a summary. Blocks for as long as that takes.
///
/// # Errors
/// If the options are impossible (a [`UsageError`]), or the measurement cannot be started or
/// stored. Runs that fail are part of the result instead.
pub fn link(args: &LinkArgs) -> Result<Ending> {
    let found = peers::discover(peers::directory().as_deref())?;
    let scenario = scenario_of(args, &found)?;
    if args.print {
        crate::run::say(&text(args))?;
        return Ok(Ending::Valid);
    }
    measure(Request {
        scenarios: vec![scenario],
        found,
        extent: Extent::Default,
        of_all: false,
        out: args.out.clone(),
        seed: args.seed,
        yes: args.yes,
        dry_run: args.dry_run,
        json: args.json,
    })
}

fn scenario_of(args: &LinkArgs, found: &[Peer]) -> Result<Scenario> {
    if let Some(n) = args.subscribers.iter().find(|n| **n > 1 && args.rate.is_none()) {
        bail!(UsageError::new(anyhow!(
            "a ping-pong has one subscriber: add --rate, e.g. --rate 100, to measure one to {n}"
        )));
    }
    if let Some((message, help)) =
        args.peers.iter().find_map(|name| peers::misnamed(found, name, &[]))
    {
        bail!(UsageError::new(anyhow!("--peers: {message}: {help}")));
    }
    scenario::from_text("link.yaml", text(args), found).map_err(LoadError::in_command_line)
}

/// Returns the scenario file of these options.
fn text(args: &LinkArgs) -> String {
    let mut link = Vec::new();
    if let Some(hz) = args.rate {
        link.push(format!("rate_hz: {hz}"));
    }
    if args.reliable {
        link.push("reliability: reliable".into());
    }
    link.push(format!("depth: {}", args.depth));
    if let Some(us) = args.processing_us.filter(|us| *us > 0) {
        link.push(format!("processing_us: {us}"));
    }
    if args.priority > 0 {
        link.push(format!("priority: {}", args.priority));
    }
    link.push(format!("cpus: {}", word(&args.cpus)));
    let systems = std::iter::once("driveline".to_owned()).chain(args.peers.iter().map(json));
    let (title, case) = match args.rate {
        None => ("Links in ping-pong, half round trips".into(), "ping-pong"),
        Some(hz) => (format!("Links in an open loop at {hz} Hz"), "stream"),
    };
    let mut text = format!(
        "scenario: 1\n\
         id: link\n\
         title: {title}\n\
         source: driveline bench link\n\
         question: How long does a sample take to its readers?\n\
         systems: [{}]\n\
         link: {{{}}}\n\
         cases: {{{case}: {{}}}}\n\
         vary:\n",
        list(systems),
        link.join(", "),
    );
    let mut vary = |key, values: String| {
        let _ = writeln!(text, "  {key}: [{values}]");
    };
    vary("size", list(&args.size));
    vary("subscribers", list(&args.subscribers));
    vary("reach", list(args.reach.iter().map(word)));
    vary("wait", list(args.wait.iter().map(|wait| json(wait.to_string()))));
    vary("take", list(args.take.iter().map(word)));
    vary("payload", list(args.payload.iter().map(word)));
    let _ = writeln!(
        text,
        "run: {{rounds: {}, messages: {}, warm_up: {}}}",
        args.rounds, args.messages, args.warm_up
    );
    if args.own_tools {
        text.push_str("own_tools: true\n");
    }
    text
}

/// Returns a word as a JSON string, which YAML reads as well.
fn json(word: impl Serialize) -> String {
    serde_json::to_string(&word).unwrap_or_default()
}

/// Returns distinct values in their order: a value that is given twice is one cell.
fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> String {
    let mut all: Vec<String> = Vec::new();
    for value in values {
        let value = value.to_string();
        if !all.contains(&value) {
            all.push(value);
        }
    }
    all.join(", ")
}

fn rate(s: &str) -> Result<f64, String> {
    match s.parse::<f64>() {
        Ok(hz) if (0.01..=1e6).contains(&hz) => Ok(hz),
        _ => Err(format!(
            "'{s}' is not a rate: write samples per second between 0.01 and 1000000, e.g. 20"
        )),
    }
}

fn size(s: &str) -> Result<u64, String> {
    let bad = || {
        format!(
            "'{s}' is not a size: write bytes, or a number with k, M or G (1k = 1024), e.g. \
             64,1k,4M"
        )
    };
    // Scenario files write sizes as `4MiB`.
    let short = s.strip_suffix("iB").unwrap_or(s);
    let (digits, factor) = match short.char_indices().last() {
        Some((i, 'k' | 'K')) => (&short[..i], 1u64 << 10),
        Some((i, 'm' | 'M')) => (&short[..i], 1 << 20),
        Some((i, 'g' | 'G')) => (&short[..i], 1 << 30),
        _ => (s, 1),
    };
    let size = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor))
        .filter(|&n| n <= MAX_PAYLOAD as u64)
        .ok_or_else(bad)?;
    if size < MIN_SIZE as u64 {
        return Err(format!("a payload has at least {MIN_SIZE} bytes here; {s} is too small"));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::{Experiment, Role};
    use crate::plan::plan;
    use crate::scenario::ReliabilitySpec;
    use clap::Parser;
    use driveline_bench::Placement;
    use driveline_graph::ByteSize;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        link: LinkArgs,
    }

    fn parsed(line: &str) -> Result<LinkArgs, clap::Error> {
        Ok(Cli::try_parse_from(std::iter::once("x").chain(line.split_whitespace()))?.link)
    }

    /// Returns known peers, none of which is installed.
    fn known() -> Vec<Peer> {
        peers::discover(None).unwrap()
    }

    fn scenario(line: &str) -> Scenario {
        scenario_of(&parsed(line).unwrap(), &known()).unwrap_or_else(|e| panic!("{line}: {e:#}"))
    }

    fn planned(line: &str) -> Experiment {
        let placement = Placement::automatic(vec![0, 1]);
        plan(&scenario(line), Extent::Default, &[], &placement).unwrap()
    }

    #[test]
    fn sizes_have_binary_suffixes_and_bad_ones_an_example() {
        for (text, bytes) in [
            ("64", 64),
            ("1k", 1024),
            ("1K", 1024),
            ("4M", 4 << 20),
            ("4MiB", 4 << 20),
            ("1KiB", 1024),
            ("1G", 1 << 30),
        ] {
            assert_eq!(size(text), Ok(bytes));
        }
        for bad in ["", "k", "1.5k", "-1", "1kB", "iB", "64iB", "9999999G"] {
            assert!(size(bad).unwrap_err().contains("64,1k,4M"), "{bad}");
        }
        assert!(size("1").unwrap_err().contains("at least 2"));
    }

    #[test]
    fn every_option_is_a_key_of_the_scenario() {
        let s = scenario(
            "--size 64,1M --reach process,host --subscribers 1,3 --wait block,spin:50 --take \
             borrow,copy --payload untouched,filled --rate 0.5 --processing-us 7 --reliable \
             --messages 20 --warm-up 0 --rounds 3 --depth 4 --cpus any --priority 60",
        );
        assert_eq!(s.systems, ["driveline"]);
        assert_eq!(s.vary.size, [ByteSize(64), ByteSize(1 << 20)]);
        assert_eq!(s.vary.reach, [ReachSpec::Process, ReachSpec::Host]);
        assert_eq!(s.vary.subscribers, [1, 3]);
        assert_eq!(s.vary.wait, ["block", "spin:50"]);
        assert_eq!(s.vary.take, [TakeSpec::Borrow, TakeSpec::Copy]);
        assert_eq!(s.vary.payload, [PayloadSpec::Untouched, PayloadSpec::Filled]);
        let link = &s.link;
        assert_eq!((link.rate_hz, link.processing_us), (Some(0.5), Some(7)));
        assert_eq!(link.reliability, Some(ReliabilitySpec::Reliable));
        assert_eq!((link.depth, link.priority), (Some(4), Some(60)));
        assert_eq!(link.cpus, Some(CpusSpec::Any));
        assert_eq!((s.run.rounds, s.run.messages, s.run.warm_up), (Some(3), Some(20), Some(0)));
        assert!(!s.own_tools);
        // Options may name known peers that are not installed.
        let s = scenario("--peers fastdds,cyclonedds --own-tools");
        assert_eq!(s.systems, ["driveline", "fastdds", "cyclonedds"]);
        assert!(s.own_tools);
    }

    #[test]
    fn every_comparison_names_a_case_and_a_link_has_its_floor_with_a_control() {
        for line in [
            "",
            "--reach process,host --rate 100 --subscribers 1,3 --wait block,spin:50 --size 64,1M",
            "--take borrow,copy --payload untouched,filled --size 64,1k,1M",
            "--size 64,64",
        ] {
            let e = planned(line);
            let ids: Vec<_> = e.cases.iter().map(|c| c.id.as_str()).collect();
            let mut unique = ids.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(unique.len(), ids.len(), "{ids:?}");
            for c in e.cases.iter().flat_map(|c| &c.comparisons) {
                assert!(ids.contains(&c.to.as_str()), "{line}: {c:?} not in {ids:?}");
            }
        }
        let e = planned("--size 64 --wait block --rate 20 --subscribers 10");
        let ids: Vec<_> = e.cases.iter().map(|c| (c.role, c.id.as_str())).collect();
        assert_eq!(
            ids,
            [
                (Role::Floor, "floor: futex · processes · 1→10 at 20 Hz"),
                (Role::Control, "floor: futex · processes · 1→10 at 20 Hz · again (A/A)"),
                (Role::Floor, "floor: memcpy into shared slots in turn · 64 B · at 20 Hz"),
                (Role::Measured, "stream · driveline"),
            ]
        );
    }

    #[test]
    fn impossible_options_are_refused_with_a_remedy() {
        for (line, says) in [
            ("--processing-us 5", "--rate"),
            ("--own-tools", "--peers"),
            ("--own-tools --peers fastdds --rate 10", "cannot be used with"),
            ("--size big", "e.g. 64,1k,4M"),
            ("--wait poll", "spin:US"),
            ("--rate 0", "e.g. 20"),
            ("--subscribers 0", "1..=512"),
            ("--print --json", "cannot be used with"),
        ] {
            let error = parsed(line).unwrap_err();
            assert!(error.exit_code() == 2 && error.to_string().contains(says), "{line}: {error}");
        }
        for (line, says) in [
            ("--subscribers 2", "add --rate, e.g. --rate 100, to measure one to 2"),
            ("--peers fastds", "did you mean `fastdds`?"),
        ] {
            let error = scenario_of(&parsed(line).unwrap(), &known()).unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(says), "{error}");
        }
        // Cells that cannot have a setting are left out, with the reason. The setting stays in
        // other cells.
        let e = planned("--size 16,64 --payload untouched,filled --wait block");
        let reasons: Vec<_> = e.left_out.iter().map(|l| l.reason.as_str()).collect();
        assert!(
            matches!(reasons.as_slice(), [one] if one.contains("at least 32 bytes")),
            "{reasons:?}"
        );
        let e = planned("--size 64 --subscribers 1,2 --rate 10 --wait spin");
        assert!(e.left_out.iter().any(|l| l.reason.contains("room for 1")), "{:?}", e.left_out);
    }
}
