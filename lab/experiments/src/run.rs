// SPDX-License-Identifier: Apache-2.0
//! `bench run`: measures experiments into an archive, round by round, and continues after an
//! interruption.

use crate::analysis::analyse;
use crate::archive::{Archive, Case, Experiment, FORMAT, LinkMeasure, Manifest, Role, Run};
use crate::gateway::gateway;
use crate::left_out::LeftOutLines;
use crate::outputs::{PAGE, keep, summary};
use crate::plan;
use crate::progress::Progress;
use crate::scenario::{self, Extent, LoadError, Scenario};
use crate::table::minutes;
use crate::workload;
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline::types::MonotonicNs;
use driveline_bench::harness::{MemcpyKind, Reach, System};
use driveline_bench::machine::{self, Machine, Ticks};
use driveline_bench::observations::Observations;
use driveline_bench::peers::{self, Peer};
use driveline_bench::stats::Random;
use driveline_bench::{
    self as bench, Ending, Kind, LeftOut, PEER_COMMAND, Placement, Program, Runner, Trial,
    UsageError,
};
use driveline_terminal::paragraphs::{self, wrapped};
use serde_json::json;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// A day, in seconds: a longer measurement asks for confirmation first.
const LONG_S: f64 = 24.0 * 3600.0;
/// Time for which a run waits for processes that its processes leave behind, such as supervisors of
/// removed containers, which end within milliseconds.
const ORPHANS_END: Duration = Duration::from_secs(2);

const EXAMPLES: &str = "\
Examples:
  driveline bench run S1 --quick
      Driveline and a few peers; takes about a minute
  driveline bench run W1 S1 S2 --out results/monday
      three experiments with all installed peers (make peers)
  driveline bench run S2 --systems driveline,fastdds/shm --rounds 10
      only two systems; more rounds make the intervals narrower
  driveline bench list --show S2 > mine.yaml; driveline bench run ./mine.yaml
      an experiment of your own
  driveline bench run all --paper --dry-run
      prints the planned measurements and their duration
  driveline bench run --resume results/monday
      continues an interrupted measurement

Environment:
  DRIVELINE_PEERS    directory with the programs of other middleware [default:
                     `peers` next to this program, or one level up]
  DRIVELINE_GATEWAY  gateway that carries Driveline's topics between hosts, for
                     W10 [default: the installed one]
  COMP_VIDEO         video of W9 [default: a rendered one]
  COMP_MODEL         neural network of W9 [default: a plain detector]
  S7_CLOUD           point cloud of S7, a PLY file [default: a generated one]

Exit codes:
  0    success: every run is valid. With --dry-run: at least one run is planned
  1    failure, with the reason on standard error and without a report; or some
       runs are INVALID: the report lists them with the reasons
  2    the command line is wrong
  130  interrupted: the report has the results until then, and --resume
       continues

Results are meaningful on a quiet machine only. The report has the machine's other load.";

/// Measure experiments, interleaved over all systems, and write a report.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct RunArgs {
    /// Ids of experiments (`driveline bench list`), scenario files, or `all`
    #[arg(value_name = "ID|FILE|all", required_unless_present = "resume")]
    pub what: Vec<String>,
    /// Measure only Driveline and a few peers, with few samples; takes minutes
    #[arg(long, conflicts_with = "paper")]
    pub quick: bool,
    /// Use the durations and counts of the papers; takes hours to weeks. --resume continues after
    /// an interruption
    #[arg(long)]
    pub paper: bool,
    /// Measure these systems instead of the scenario's: driveline, peers, peer/variant, or all
    #[arg(long, value_delimiter = ',', value_name = "SYSTEMS")]
    pub systems: Vec<String>,
    /// Number of rounds, instead of the scenario's
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub rounds: Option<u64>,
    /// Directory for samples and report; it must be new or empty [default: bench-IDS-TIME]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Continue an interrupted measurement in this directory
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = [
            "what", "quick", "paper", "systems", "rounds", "out", "seed", "dry_run"
        ]
    )]
    pub resume: Option<PathBuf>,
    /// Seed of the random order and of the intervals [default: a new one, which is printed]
    #[arg(long, value_name = "SEED")]
    pub seed: Option<u64>,
    /// Do not ask before a measurement that takes longer than a day
    #[arg(long)]
    pub yes: bool,
    /// Only print the planned measurements and their duration
    #[arg(long)]
    pub dry_run: bool,
    /// Print a summary as JSON instead of a table; with --dry-run, the plan
    #[arg(long)]
    pub json: bool,
}

/// Prints a text. A closed pipe (`| head`) is not an error.
pub(crate) fn say(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other.context("cannot write to standard output"),
    }
}

/// Scenarios to measure, with the options of the measurement.
pub(crate) struct Request {
    pub(crate) scenarios: Vec<Scenario>,
    /// Known peers, installed or not.
    pub(crate) found: Vec<Peer>,
    pub(crate) extent: Extent,
    /// True if all built-in scenarios were requested, some of which may have nothing to measure.
    pub(crate) of_all: bool,
    pub(crate) out: Option<PathBuf>,
    pub(crate) seed: Option<u64>,
    pub(crate) yes: bool,
    pub(crate) dry_run: bool,
    pub(crate) json: bool,
}

/// Measures, writes the report and prints a summary. Blocks until all runs have ended.
///
/// # Errors
/// If the measurement cannot be started, continued or stored. Failed runs are part of the result
/// instead.
pub fn run(args: &RunArgs) -> Result<Ending> {
    if let Some(directory) = &args.resume {
        return report_on(reopen(directory)?, args.json);
    }
    let found = peers::discover(peers::directory().as_deref())?;
    measure(Request {
        scenarios: scenarios(args, &found)?,
        found,
        extent: match (args.quick, args.paper) {
            (true, _) => Extent::Quick,
            (_, true) => Extent::Paper,
            _ => Extent::Default,
        },
        of_all: is_all(args),
        out: args.out.clone(),
        seed: args.seed,
        yes: args.yes,
        dry_run: args.dry_run,
        json: args.json,
    })
}

/// Measures scenarios into a new archive, or prints the plan.
pub(crate) fn measure(request: Request) -> Result<Ending> {
    let json = request.json;
    if !request.dry_run {
        return report_on(prepare(request)?, json);
    }
    let (experiments, _) = plan_all(&request)?;
    something(&experiments, request.of_all)?;
    gateway(&experiments)?;
    say(&if json {
        serde_json::to_string_pretty(&outline_json(&experiments))? + "\n"
    } else {
        outline(&experiments, paragraphs::width())
    })?;
    Ok(Ending::Valid)
}

/// Makes the runs that an archive lacks, writes its report and prints a summary.
fn report_on(archive: Archive, json: bool) -> Result<Ending> {
    let program = Program {
        path: std::env::current_exe().context("cannot find the running program")?,
        args: vec![PEER_COMMAND.into()],
    };
    // From here on, Ctrl-C ends the measurement, and the results until then are reported.
    let interrupted = driveline_terminal::signals::interruption()?;
    let archive = make_runs(archive, &program, &interrupted)?;
    // Shows the results of an interrupted measurement too.
    let page = archive.directory().join(PAGE);
    let analysis = analyse(&archive)?;
    keep(&archive, &analysis, None)?;
    if json {
        say(&(serde_json::to_string_pretty(&analysis)? + "\n"))?;
    } else {
        say(&(summary(&archive, &analysis, &page) + "\n"))?;
    }
    Ok(match (analysis.complete, analysis.is_valid()) {
        (false, _) => Ending::Interrupted,
        (true, true) => Ending::Valid,
        (true, false) => Ending::Invalid,
    })
}

/// Returns the expected duration of an experiment.
fn seconds(e: &Experiment) -> f64 {
    // Starts from 0, because `sum` of an empty list is -0.
    e.cases.iter().map(plan::expected_seconds).fold(0.0, |sum, s| sum + s) * e.rounds as f64
}

/// Asks for confirmation of a measurement that takes longer than a day. Blocks until the answer, if
/// there is a terminal.
fn agreed(seconds: f64, yes: bool) -> Result<()> {
    if yes || seconds <= LONG_S {
        return Ok(());
    }
    let long = format!("this takes about {}", minutes(seconds));
    let remedy = "measure less (--quick, fewer experiments, --rounds), or start with --yes; after \
                  an interruption, --resume continues";
    ensure!(std::io::stdin().is_terminal() && std::io::stderr().is_terminal(), "{long}: {remedy}");
    write!(std::io::stderr(), "{long}; after an interruption, --resume continues. Start? [y/N] ")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the answer cannot be read")?;
    ensure!(
        ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()),
        "nothing was begun: {remedy}"
    );
    Ok(())
}

/// Returns the parts that each experiment leaves out.
fn left_out(experiments: &[Experiment]) -> impl Iterator<Item = (&str, &[LeftOut])> + Clone {
    experiments.iter().map(|e| (e.scenario.id.as_str(), e.left_out.as_slice()))
}

/// Returns an outline of the planned measurement as text, wrapped at `width` characters.
fn outline(experiments: &[Experiment], width: usize) -> String {
    let mut text = String::new();
    let mut total = 0.0;
    let left_out_lines = LeftOutLines::of(left_out(experiments));
    for e in experiments {
        let seconds = seconds(e);
        total += seconds;
        let _ = writeln!(
            text,
            "{}: {} cases × {} rounds, about {}",
            e.scenario.id,
            e.cases.len(),
            e.rounds,
            minutes(seconds)
        );
        for case in &e.cases {
            let _ = writeln!(text, "    {}", case.id);
        }
        for line in left_out_lines.own(&e.left_out) {
            text.push_str(&wrapped(&format!("    left out: {line}"), width));
        }
    }
    for line in left_out_lines.together() {
        text.push_str(&wrapped(&format!("left out: {line}"), width));
    }
    let _ = writeln!(text, "about {} in all", minutes(total));
    text
}

/// Returns the outline as JSON.
fn outline_json(experiments: &[Experiment]) -> serde_json::Value {
    let case = |c: &Case| {
        json!({
            "id": c.id,
            "cell": c.cell,
            "system": c.system.to_string(),
            "role": c.role,
            "expected_s": plan::expected_seconds(c),
        })
    };
    let of = |e: &Experiment| {
        json!({
            "id": e.scenario.id,
            "title": e.scenario.title,
            "rounds": e.rounds,
            "cases": e.cases.iter().map(case).collect::<Vec<_>>(),
            "left_out": e.left_out,
            "expected_s": seconds(e),
        })
    };
    json!({
        "experiments": experiments.iter().map(of).collect::<Vec<_>>(),
        "expected_s": experiments.iter().map(seconds).sum::<f64>(),
    })
}

fn is_all(args: &RunArgs) -> bool {
    args.what.iter().any(|word| word == "all")
}

/// Refuses experiments that would measure only floors: a user who names an experiment wants its
/// figures. For `all`, it is enough if one experiment has figures.
fn something(experiments: &[Experiment], of_all: bool) -> Result<()> {
    let (with, without): (Vec<&Experiment>, Vec<&Experiment>) =
        experiments.iter().partition(|e| e.cases.iter().any(|c| c.role == Role::Measured));
    if without.is_empty() || (of_all && !with.is_empty()) {
        return Ok(());
    }
    let lists = without.iter().map(|e| (e.scenario.id.as_str(), e.left_out.as_slice()));
    let left_out_lines = LeftOutLines::of(lists);
    let own = without.iter().flat_map(|e| left_out_lines.own(&e.left_out));
    let lines: String =
        own.chain(left_out_lines.together()).map(|line| format!("\n  {line}")).collect();
    let ids = |of: &[&Experiment]| {
        of.iter().map(|e| e.scenario.id.as_str()).collect::<Vec<_>>().join(" ")
    };
    bail!(
        "in {} there is nothing to measure{}{}",
        ids(&without),
        if lines.is_empty() {
            ": no system was chosen".to_owned()
        } else {
            format!("; left out:{lines}")
        },
        if with.is_empty() {
            String::new()
        } else {
            format!("\n  name only what can be measured here: driveline bench run {}", ids(&with))
        }
    )
}

/// Plans all experiments, so that impossible cases are known before the first run.
fn plan_all(request: &Request) -> Result<(Vec<Experiment>, Placement)> {
    let placement = Placement::automatic(machine::usable_cpus()?);
    let plan = |scenario| plan::plan(scenario, request.extent, &request.found, &placement);
    let experiments = request.scenarios.iter().map(plan).collect::<Result<_>>()?;
    Ok((experiments, placement))
}

/// Returns the scenarios that a command line names, with its changes.
fn scenarios(args: &RunArgs, found: &[Peer]) -> Result<Vec<Scenario>> {
    if let Some((message, help)) =
        args.systems.iter().find_map(|name| peers::misnamed(found, name, &scenario::OWN_SYSTEMS))
    {
        bail!(UsageError::new(anyhow!("--systems: {message}: {help}")));
    }
    let mut scenarios: Vec<Scenario> = Vec::new();
    let all = || scenario::builtin().iter().map(|b| b.id.to_owned());
    let words: Vec<String> = args
        .what
        .iter()
        .flat_map(|w| if w == "all" { all().collect() } else { vec![w.clone()] })
        .collect();
    for (i, word) in words.iter().enumerate() {
        let mut scenario = scenario::load_for(word, found).map_err(LoadError::in_command_line)?;
        if let Some(at) = scenarios.iter().position(|s| s.id == scenario.id) {
            let same =
                words.iter().take(i).nth(at).is_some_and(|other| scenario::is_same(other, word));
            let id = &scenario.id;
            bail!(UsageError::new(if same {
                anyhow!("{id} is named twice: name it once")
            } else {
                anyhow!("two of the experiments are called {id}: give one of them another id")
            }));
        }
        change(&mut scenario, &args.systems, args.rounds);
        scenarios.push(scenario);
    }
    Ok(scenarios)
}

/// Applies the command line, which overrides the file.
fn change(scenario: &mut Scenario, systems: &[String], rounds: Option<u64>) {
    for run in [&mut scenario.run, &mut scenario.quick, &mut scenario.paper] {
        run.rounds = rounds.or(run.rounds);
        if !systems.is_empty() {
            run.systems = None;
        }
    }
    if !systems.is_empty() {
        scenario.systems = systems.to_vec();
        for case in scenario.cases.values_mut().chain([&mut scenario.link]) {
            case.systems = None;
        }
    }
}

/// Makes the archive of the planned measurement.
fn prepare(request: Request) -> Result<Archive> {
    let (experiments, placement) = plan_all(&request)?;
    let selection = plan::selection(&experiments, &request.found)?;
    something(&experiments, request.of_all)?;
    let gateway = gateway(&experiments)?;
    agreed(experiments.iter().map(seconds).sum(), request.yes)?;
    let seed = request.seed.unwrap_or_else(|| Random::new(MonotonicNs::now().0).next_u64() >> 32);
    let manifest = Manifest {
        format: FORMAT,
        version: bench::VERSION.into(),
        commit: bench::COMMIT.into(),
        optimised: bench::OPTIMISED,
        gateway: gateway.map(|g| g.commit),
        command: bench::command(),
        started_at: now(),
        finished_at: None,
        extent: request.extent,
        seed,
        validity_rule: bench::validity_rule(),
        machine: Machine::examine(&placement.usable_cpus),
        placement,
        peers: selection.chosen.into_iter().map(|(_, d)| d).collect(),
        experiments,
    };
    let directory = request.out.unwrap_or_else(|| {
        let ids: Vec<_> =
            manifest.experiments.iter().map(|e| e.scenario.id.to_lowercase()).collect();
        let ids = if ids.len() > 3 { format!("{}-experiments", ids.len()) } else { ids.join("-") };
        let time: String =
            manifest.started_at.chars().take(19).map(|c| if c == ':' { '-' } else { c }).collect();
        PathBuf::from(format!("bench-{ids}-{time}"))
    });
    Archive::create(&directory, manifest)
}

/// Opens an archive to continue it. Checks that the program and the machine are still the same.
fn reopen(directory: &Path) -> Result<Archive> {
    let archive = Archive::open(directory)?.claimed()?;
    let m = &archive.manifest;
    ensure!(
        m.finished_at.is_none(),
        "the measurement in {} is complete: there is nothing to go on with; `driveline bench \
         report` shows it once more",
        directory.display()
    );
    ensure!(
        m.commit == bench::COMMIT && m.version == bench::VERSION,
        "the measurement in {} was begun by driveline {} ({}), this is {} ({}): go on with that \
         one, or measure anew",
        directory.display(),
        m.version,
        m.commit,
        bench::VERSION,
        bench::COMMIT
    );
    let here = Machine::examine(&machine::usable_cpus()?);
    let same = here.cpu == m.machine.cpu
        && here.usable_cpus == m.machine.usable_cpus
        && here.kernel == m.machine.kernel;
    ensure!(
        same,
        "the measurement in {} was begun on another machine, or another kernel: measure anew",
        directory.display()
    );
    Ok(archive)
}

fn now() -> String {
    jiff::Timestamp::now().to_string()
}

/// Makes the runs that an archive lacks, until it is complete or interrupted.
fn make_runs(mut archive: Archive, program: &Program, interrupted: &AtomicBool) -> Result<Archive> {
    let found = peers::discover(peers::directory().as_deref())?;
    let selection = plan::selection(&archive.manifest.experiments, &found)?;
    if let Some((what, reason)) = selection.unavailable.first() {
        bail!("{what} took part until now and is no longer installed: {reason}");
    }
    for d in &archive.manifest.peers {
        let now = selection
            .chosen
            .iter()
            .find(|(_, n)| n.name == d.name)
            .map(|(_, n)| n.version.as_str());
        ensure!(
            now == Some(d.version.as_str()),
            "{} was measured in version {}, and the installed version is {}: measure anew",
            d.title,
            d.version,
            now.unwrap_or("unknown")
        );
    }
    let gateway = gateway(&archive.manifest.experiments)?.map(|g| g.program);
    let runner = Runner { program, peers: &selection, interrupted, gateway };
    let scratch = bench::Scratch::new()?;
    bench::adopt_orphans().context("cannot count the processor time of containers")?;
    let mut progress = Progress::new(&archive);
    for e in &archive.manifest.experiments {
        let id = &e.scenario.id;
        for round in 0..e.rounds {
            for (place, index) in
                plan::order(e, archive.manifest.seed, round).into_iter().enumerate()
            {
                let Some(case) = e.cases.get(index) else { continue };
                if archive.has(id, case, round) {
                    continue;
                }
                progress.begins(id, round, e.rounds, case);
                let (run, observations) =
                    one_run(&runner, &archive, case, round, place, scratch.path())?;
                if interrupted.load(Relaxed) {
                    // An interrupted run has no result.
                    drop(progress);
                    return Ok(archive);
                }
                archive.add(id, case, &run, &observations)?;
                progress.made();
            }
        }
    }
    drop(progress);
    archive.finish(now())?;
    Ok(archive)
}

fn one_run(
    runner: &Runner<'_>,
    archive: &Archive,
    case: &Case,
    round: u64,
    place: usize,
    directory: &Path,
) -> Result<(Run, Observations)> {
    let dir = bench::RunDirectory::within(directory)?;
    let (seed, cpus) = (archive.manifest.seed, &archive.manifest.placement.usable_cpus);
    let ticks = Ticks::now();
    // The same clock for start and end, so that all events of the run are between them.
    let started = MonotonicNs::now();
    let outcome = run_case(runner, case, seed.wrapping_add(round), cpus, dir.path());
    let took_ns = MonotonicNs::now().0.saturating_sub(started.0);
    // The processor time of orphaned processes counts as this process's own once it has waited for
    // them.
    bench::wait_for_orphans(ORPHANS_END);
    let disturbance = (Ticks::now() - ticks).shares();
    let mut run = Run {
        round,
        place,
        started_ns: started.0,
        seconds: took_ns as f64 / 1e9,
        disturbance,
        failure: None,
        invalid: bench::taken_away(&disturbance).into_iter().collect(),
        accounts: Vec::new(),
        counters: std::collections::BTreeMap::new(),
        unset: Vec::new(),
    };
    let mut observations = Observations::default();
    match outcome {
        Ok(ensemble) => {
            (run.accounts, observations) = (ensemble.accounts, ensemble.observations);
            run.counters.clone_from(&observations.counters);
            run.invalid.extend(observations.invalid.iter().cloned());
            run.unset.extend(observations.unset.iter().cloned());
        }
        Err(e) => run.failure = Some(format!("{e:#}")),
    }
    Ok((run, observations))
}

fn run_case(
    runner: &Runner<'_>,
    case: &Case,
    seed: u64,
    cpus: &[usize],
    dir: &Path,
) -> Result<bench::Ensemble> {
    let observed = |observations| bench::Ensemble { accounts: Vec::new(), observations };
    if let Some(workload) = &case.workload {
        return workload::run(runner, workload, case, seed, cpus, dir).map(observed);
    }
    if let Some(chain) = &case.chain {
        return runner.run_chain(chain, case.beside.deployment, dir).map(observed);
    }
    let jobs: Vec<_> = case.links.iter().map(|l| l.job(&case.system)).collect();
    let [job] = jobs.as_slice() else { return runner.run_links(&jobs, &case.beside, dir) };
    if let Some(measure) = case.measure {
        let kind = match measure {
            LinkMeasure::AtRest { duration_ms } => Kind::AtRest(Duration::from_millis(duration_ms)),
            LinkMeasure::StartUp => Kind::StartUp,
            LinkMeasure::SameThread => Kind::SameThread,
        };
        return runner.run(&Trial::new(kind, job.clone()), dir);
    }
    if case.role == Role::OwnTool {
        return runner.run(&Trial::new(Kind::OwnTool, job.clone()), dir);
    }
    if case.is_copy() {
        return runner.run(&Trial::memcpy(job, MemcpyKind::of(job.take)), dir);
    }
    let open = job.pace != bench::harness::Pace::PingPong && job.reach != Reach::Process;
    if open && !matches!(case.system, System::Futex | System::Spin) {
        return runner.run_links(&jobs, &case.beside, dir);
    }
    let kind =
        if matches!(case.system, System::Futex | System::Spin) { Kind::Floor } else { Kind::Link };
    let trial = Trial::new(kind, job.clone()).over(case.beside.cable);
    // The deployment does not apply to a floor, which has no middleware.
    let trial = if kind == Kind::Link { trial.deployed(case.beside.deployment) } else { trial };
    runner.run(&trial, dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_beats_the_file_wherever_that_names_systems_and_rounds() {
        let mut s = scenario::load("S1").unwrap();
        let named = || Some(vec!["fastdds".to_owned()]);
        s.link.systems = named();
        s.cases[0].systems = named();
        for run in [&mut s.run, &mut s.quick, &mut s.paper] {
            run.systems = named();
        }
        let placement = Placement::automatic(vec![0, 1]);
        for extent in [Extent::Quick, Extent::Default, Extent::Paper] {
            let mut s = s.clone();
            change(&mut s, &["driveline".to_owned()], Some(7));
            let e = plan::plan(&s, extent, &[], &placement).unwrap();
            let systems: Vec<_> = e
                .cases
                .iter()
                .filter(|c| c.role == Role::Measured)
                .map(|c| c.system.to_string())
                .collect();
            assert_eq!((systems, e.rounds), (vec!["driveline".to_owned(); 2], 7), "{extent:?}");
        }
        let mut same = s.clone();
        change(&mut same, &[], None);
        assert_eq!(same, s);
    }
}
