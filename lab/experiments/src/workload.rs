// SPDX-License-Identifier: Apache-2.0
//! Runs a workload in a process of its own, and reads its observations.

use crate::archive::{Case, Workload};
use anyhow::{Context, Result, bail};
use driveline_bench::Runner;
use driveline_bench::child::{Started, readable};
use driveline_bench::harness::System;
use driveline_bench::observations::Observations;
use driveline_workloads::{PROTOCOL, WORKLOAD_COMMAND, WorkloadEvent, WorkloadJob, WorkloadPeer};
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Time for starting, stopping and writing results, in addition to the workload's own time.
const REST: Duration = Duration::from_secs(90);
/// Period at which an interruption is polled.
const LOOK: Duration = Duration::from_millis(500);
/// Maximum length of a workload's output.
const SAID: u64 = 16 << 20;
/// Length of the error output that is shown, in bytes.
const SHOWN: usize = 4096;

/// Returns the program that runs a workload with this system; `None` if it is the running program
/// itself.
fn peer(runner: &Runner<'_>, system: &System) -> Result<Option<WorkloadPeer>> {
    if *system == System::Driveline {
        return Ok(None);
    }
    let missing = || format!("there is no program that runs workloads with {system}");
    let program = runner.peers.program(system).with_context(missing)?.to_owned();
    let keeper = runner.peers.variant(system).with_context(missing)?.keeper;
    Ok(Some(WorkloadPeer { program, system: system.clone(), keeper }))
}

pub(crate) fn run(
    runner: &Runner<'_>,
    workload: &Workload,
    case: &Case,
    seed: u64,
    cpus: &[usize],
    dir: &Path,
) -> Result<Observations> {
    let job = WorkloadJob {
        protocol: PROTOCOL,
        workload: workload.name.clone(),
        parameters: workload.parameters.clone(),
        domain_dir: dir.join("domain"),
        raw_dir: dir.to_owned(),
        warm_up_ms: workload.warm_up_ms,
        duration_ms: workload.duration_ms,
        seed,
        cpus: cpus.to_vec(),
        peer: peer(runner, &case.system)?,
        deployment: case.beside.deployment,
    };
    std::fs::create_dir_all(&job.domain_dir)
        .with_context(|| format!("cannot make {}", job.domain_dir.display()))?;
    let mut command = Command::new(&runner.program.path);
    command
        .arg(WORKLOAD_COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let mut started = Started::new(&mut command)
        .with_context(|| format!("cannot start {}", runner.program.path.display()))?;
    let (input, out, _) = started.pipes();
    let mut input = input.context("the workload has no input")?;
    let out = out.context("the workload has no output")?;
    // Writing fails only if the workload's process has ended. Reading its output then gives a
    // better error.
    let _ = writeln!(input, "{}", serde_json::to_string(&job)?);
    let (sender, receiver) = channel();
    let listener = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = sender.send(out.take(SAID).read_to_string(&mut text).map(|_| text));
    });
    let longest = Duration::from_millis(workload.warm_up_ms + workload.duration_ms) + REST;
    let deadline = Instant::now() + longest;
    let text = loop {
        match receiver.recv_timeout(LOOK) {
            Ok(text) => break text.context("the output of the workload cannot be read")?,
            Err(_) if runner.interrupted.load(Relaxed) => bail!("interrupted"),
            Err(_) if Instant::now() > deadline => {
                bail!("the workload '{}' did not end within {longest:?}", workload.name)
            }
            Err(_) => {}
        }
    };
    let _ = listener.join();
    let event =
        text.lines().rev().find_map(|line| serde_json::from_str::<WorkloadEvent>(line).ok());
    match event {
        Some(WorkloadEvent::Done { observations }) => observations.read(),
        Some(WorkloadEvent::Failed { error }) => {
            bail!("the workload '{}' failed: {}", workload.name, readable(error.as_bytes(), SHOWN))
        }
        None => {
            let status = started.end().map_or_else(|e| e.to_string(), |s| s.to_string());
            bail!("the workload '{}' ended without a result ({status})", workload.name)
        }
    }
}
