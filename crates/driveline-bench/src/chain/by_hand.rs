// SPDX-License-Identifier: Apache-2.0
//! A chain from a file, once, as text: for trying works out.

use super::ChainJob;
use crate::conduct::{Conductor, Program};
use crate::observations::Observations;
use crate::peers;
use crate::stats::{Rank, Runs};
use anyhow::{Context, Result};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Runs the chain of a JSON file, and gives what came of it as text, and whether the run is valid. Blocks until it is over.
///
/// # Errors
/// As [`Conductor::run_chain`]; if the file is no chain.
pub fn run_file(file: &Path) -> Result<(String, bool)> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let job: ChainJob = serde_json::from_str(&text).with_context(|| format!("{} is no chain", file.display()))?;
    let found = peers::discover(peers::directory().as_deref())?;
    let selection = peers::select(&found, &job.peers_needed())?;
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone())?;
    }
    // No process of a chain runs in a program of ours.
    let program = Program { path: PathBuf::new(), args: Vec::new() };
    let conductor = Conductor { program: &program, peers: &selection, interrupted: &interrupted, idle: Duration::ZERO, gateway: None };
    let directory = tempfile::tempdir().context("cannot make a directory for stamps")?;
    let observations = conductor.run_chain(&job, directory.path())?;
    let is_valid = observations.invalid.is_empty();
    Ok((table(observations), is_valid))
}

fn table(o: Observations) -> String {
    let mut text = String::new();
    for reason in &o.invalid {
        let _ = writeln!(text, "INVALID: {reason}");
    }
    for s in o.series {
        let (unit, scale) = match s.quantity.unit() {
            "ns" => ("ms", 1e6),
            "byte" => ("MB", 1e6),
            _ => ("", 1.0),
        };
        let values: Vec<u64> = s.points.iter().map(|p| p.value).collect();
        let count = values.len();
        let runs = Runs::new(vec![values]);
        let at = |rank| runs.at(rank).map_or_else(|| "-".to_owned(), |v| format!("{:.3}", v as f64 / scale));
        let (p50, p95) = (at(Rank::P50), at(Rank::P95));
        let _ =
            writeln!(text, "{:<16} {:<16} {count:>6}  p50 {p50:>10} {unit}  p95 {p95:>10} {unit}", s.subject, format!("{:?}", s.quantity));
    }
    for (name, count) in &o.counters {
        let _ = writeln!(text, "{name} = {count}");
    }
    for what in &o.unset {
        let _ = writeln!(text, "not set: {what}");
    }
    text
}
