// SPDX-License-Identifier: Apache-2.0
//! `bench link`: measures one link. Like the crate `driveline-lab`, it is a front end of the
//! engine, with its own planner, table and JSON, and without files. The engine does not depend on
//! it.

mod args;
mod plan;
mod report;
mod result;

pub use args::{Cpus, Extra, LinkArgs, Size};

use crate::account::Account;
use crate::machine::{self, Machine, Ticks};
use crate::peers::{self, Selection};
use crate::runner::{Program, Runner};
use crate::scratch::{RunDirectory, Scratch};
use crate::stats::{Random, Runs};
use crate::{Ending, UsageError, validity};
use anyhow::{Context, Result, anyhow, bail, ensure};
use driveline_analyze::meminfo;
use driveline_terminal::paragraphs;
use indicatif::{ProgressBar, ProgressStyle};
use plan::{Entry, Plan, placement};
use result::{FORMAT, Measurement, Outcome, Pass};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Argument with which the program must call [`crate::peer_main`].
pub const PEER_COMMAND: &str = "bench-peer";

/// Measures the requested links and prints a table or JSON. Blocks until all runs have ended.
///
/// The running program is started again with [`PEER_COMMAND`] for every measured process.
///
/// # Errors
/// If nothing can be measured: impossible options (a [`UsageError`]), too little memory, a program
/// that cannot start itself. Failed runs are part of the result instead.
pub fn run_link(args: &LinkArgs) -> Result<Ending> {
    let program = Program {
        path: std::env::current_exe().context("cannot find the running program")?,
        args: vec![PEER_COMMAND.into()],
    };
    let interrupted = driveline_terminal::signals::interruption()?;
    let measurement = measure(args, &program, &interrupted)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &measurement)?;
        writeln!(out)?;
    } else {
        write!(out, "{}", report::table(&measurement))?;
    }
    if let Some(path) = &args.raw {
        report::write_raw(path, &measurement)
            .with_context(|| format!("cannot write the stamps to {}", path.display()))?;
    }
    Ok(match (measurement.complete, measurement.cases.iter().all(Outcome::is_valid)) {
        (false, _) => Ending::Interrupted,
        (true, true) => Ending::Valid,
        (true, false) => Ending::Invalid,
    })
}

/// Show the other middleware that can be measured.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PeersArgs {
    /// Peers to describe: their configuration with the reasons, or instructions to add them
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Describe all peers
    #[arg(long)]
    pub settings: bool,
    /// Print JSON with all descriptions
    #[arg(skip)]
    pub json: bool,
}

/// Returns the peers, one line each; or the named peers with their complete descriptions; or all as
/// JSON. Blocks while they describe themselves.
///
/// # Errors
/// If the directory in the environment cannot be read, or a name is unknown.
pub fn list_peers(args: &PeersArgs) -> Result<String> {
    let mut found = peers::discover(peers::directory().as_deref())?;
    if let Some((message, help)) =
        args.names.iter().find_map(|name| peers::misnamed(&found, name, &[]))
    {
        bail!(UsageError::new(anyhow!("{message}: {help}")));
    }
    if !args.names.is_empty() && args.names.iter().all(|name| name != "all") {
        // If a variant is named, its peer is shown.
        let named =
            |p: &peers::Peer| args.names.iter().any(|name| name.split('/').next() == Some(&p.name));
        found.retain(named);
    }
    if args.json {
        return Ok(serde_json::to_string_pretty(&found)?);
    }
    let width = paragraphs::width();
    let in_full = args.settings || !args.names.is_empty();
    Ok(if in_full { peers::details(&found, width) } else { peers::table(&found, width) })
}

fn measure(args: &LinkArgs, program: &Program, interrupted: &AtomicBool) -> Result<Measurement> {
    let usable = machine::usable_cpus()?;
    let placement = placement(args, usable.clone()).map_err(UsageError::new)?;
    let selection = select_peers(args)?;
    let plan = Plan::new(args, &placement, &selection).map_err(UsageError::new)?;
    for entry in &plan.entries {
        check_memory(entry, args.rounds, meminfo("MemAvailable"))?;
    }
    let machine = Machine::examine(&usable);
    let seed = match args.seed {
        Some(seed) => seed,
        None => Random::new(driveline::types::MonotonicNs::now().0).next_u64() >> 32,
    };
    let directory = Scratch::new()?;
    let runner = Runner {
        program,
        peers: &selection,
        interrupted,
        idle: Duration::from_secs(args.idle_seconds),
        gateway: None,
    };
    let progress = progress(plan.entries.len() as u64 * args.rounds);
    let mut runs: Vec<Vec<Pass>> = plan.entries.iter().map(|_| Vec::new()).collect();
    let (start, mut complete) = (Ticks::now(), true);
    'rounds: for round in 0..args.rounds {
        for (place, index) in plan.order(seed, round).into_iter().enumerate() {
            let (Some(entry), Some(runs)) = (plan.entries.get(index), runs.get_mut(index)) else {
                continue;
            };
            progress.set_message(entry.id.clone());
            let mut run = one_run(&runner, entry, round, place, directory.path())?;
            if interrupted.load(Relaxed) {
                // An interrupted run has no result.
                complete = false;
                break 'rounds;
            }
            // Only the raw file needs them, and they take most of the memory.
            if let Some(a) = run.account.as_mut().filter(|_| args.raw.is_none()) {
                a.stamps = Vec::new();
            }
            runs.push(run);
            progress.inc(1);
        }
    }
    progress.finish_and_clear();
    Ok(Measurement {
        format: FORMAT,
        version: crate::VERSION,
        commit: crate::COMMIT,
        optimised: crate::OPTIMISED,
        command: crate::command(),
        seed,
        rounds: args.rounds,
        validity_rule: validity::validity_rule(),
        machine,
        placement,
        complete,
        disturbance: (Ticks::now() - start).shares(),
        peers: selection.chosen.iter().map(|(_, d)| d.clone()).collect(),
        left_out: plan.left_out,
        cases: result::outcomes(&plan.entries, runs, args.rounds, seed),
    })
}

/// Searches for peers only if some were requested.
fn select_peers(args: &LinkArgs) -> Result<Selection> {
    if args.peers.is_empty() {
        return Ok(Selection::default());
    }
    let found = peers::discover(peers::directory().as_deref())?;
    Ok(peers::select(&found, &args.peers).map_err(UsageError::new)?)
}

fn one_run(
    runner: &Runner<'_>,
    entry: &Entry,
    round: u64,
    place: usize,
    directory: &Path,
) -> Result<Pass> {
    let dir = RunDirectory::within(directory)?;
    let (clock, ticks) = (Instant::now(), Ticks::now());
    let outcome = runner.run(&entry.trial(), dir.path());
    let disturbance = (Ticks::now() - ticks).shares();
    let (mut account, failure) = match outcome {
        Ok(mut ensemble) => (ensemble.accounts.pop(), None),
        Err(e) => (None, Some(format!("{e:#}"))),
    };
    if let (Some(account), Some(reason)) = (account.as_mut(), validity::taken_away(&disturbance)) {
        account.invalid.push(reason);
    }
    let one = |a: &Account| {
        a.samples.iter().map(|(m, s)| (*m, Runs::new(vec![s.clone()]).percentiles())).collect()
    };
    let figures = account.as_ref().map(one).unwrap_or_default();
    Ok(Pass {
        round,
        place,
        seconds: clock.elapsed().as_secs_f64(),
        disturbance,
        account,
        failure,
        figures,
    })
}

/// Refuses a measurement that does not fit into memory before anything starts: a process that is
/// killed for memory reports nothing.
fn check_memory(entry: &Entry, rounds: u64, available: Option<u64>) -> Result<()> {
    let job = &entry.job;
    let kept = job.messages * (8 * 6 + 96) * job.subscribers as u64 * rounds;
    let needed = job.memory_needed() + kept;
    let Some(available) = available else { return Ok(()) };
    ensure!(
        needed < available,
        "'{}' needs about {} MiB of memory, and {} MiB are available: take a smaller --size, fewer \
         --messages or --rounds, or fewer --subscribers",
        entry.id,
        needed >> 20,
        available >> 20
    );
    Ok(())
}

fn progress(runs: u64) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(runs);
    if let Ok(style) = ProgressStyle::with_template(
        "{bar:30} {percent:>3} %, {eta} left · {pos} of {len} runs made · {wide_msg}",
    ) {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        link: LinkArgs,
    }

    #[test]
    fn what_does_not_fit_is_refused_with_numbers() {
        let args =
            Cli::parse_from(["x", "--size", "1G", "--extra", "none", "--wait", "block"]).link;
        let plan = Plan::new(&args, &placement(&args, vec![0, 1]).unwrap(), &Selection::default())
            .unwrap();
        let link = plan.entries.iter().find(|c| c.kind == crate::Kind::Link).unwrap();
        let text = check_memory(link, 5, Some(4 << 30)).unwrap_err().to_string();
        assert!(
            text.contains("MiB of memory, and 4096 MiB are available") && text.contains("--size"),
            "{text}"
        );
        assert!(check_memory(link, 5, Some(64 << 30)).is_ok());
        assert!(check_memory(link, 5, None).is_ok());
    }
}
