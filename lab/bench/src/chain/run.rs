// SPDX-License-Identifier: Apache-2.0
//! Runs a chain once: starts the keepers of its systems ([`Role::Keeper`]), then the stages from
//! the sinks to the source, and collects their reports.

use super::account::{StageReport, account};
use super::shape::{COOL_DOWN, Shape};
use super::{ChainJob, DRIVELINE_PEER};
use crate::deployment::{Deployment, Ends};
use crate::harness::{Job, PROTOCOL, Pace, Payload, Reach, Role, System, Take};
use crate::observations::{Observations, Quantity};
use crate::peers::Selection;
use crate::runner::Runner;
use crate::runner::process::{Processes, Until};
use crate::runner::watch::Watch;
use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time limit for a stage to create its work (a library with an algorithm, which loads maps and
/// neural networks at that moment) and its ends. Also the time limit for a keeper to start, and to
/// finish.
const START: Duration = Duration::from_secs(60);
/// Interval between two reads of the processes' CPU time and memory.
const SAMPLING: Duration = Duration::from_millis(200);
/// Time for the last messages of a chain, in addition to twice the schedule.
const REST: Duration = Duration::from_secs(120);

/// Job of a process: one stage, or all.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(flatten)]
    job: Job,
    #[serde(skip_serializing_if = "Option::is_none")]
    stage: Option<StagePart<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    stages: Vec<StagePart<'a>>,
}

#[derive(Serialize)]
struct StagePart<'a> {
    name: &'a str,
    inputs: Vec<EdgePart<'a>>,
    output: Option<EdgePart<'a>>,
    work: PathBuf,
    parameters: &'a serde_json::Map<String, serde_json::Value>,
    cool_down: u64,
    cpu: Option<usize>,
}

#[derive(Serialize)]
struct EdgePart<'a> {
    topic: &'a str,
    system: String,
    size: usize,
    index: usize,
    readers: usize,
}

impl Runner<'_> {
    /// Runs a chain once, in an empty directory that it fills with stamps. Processes of stages are
    /// deployed as `deployment` says. Blocks until the end of the run.
    ///
    /// The peers must come from [`crate::peers::select`] for
    /// [`ChainJob::peers_needed`].
    ///
    /// # Errors
    /// If the chain's parts do not fit together, a peer or a work does not exist, or a process
    /// fails or is interrupted. A complete run that does not count has its reasons in
    /// [`Observations::invalid`] instead.
    pub fn run_chain(
        &self,
        job: &ChainJob,
        deployment: Deployment,
        directory: &Path,
    ) -> Result<Observations> {
        let shape = Shape::new(job)?;
        for needed in job.peers_needed() {
            let name = needed.split('/').next().unwrap_or_default();
            if let Some((_, reason)) = self.peers.unavailable.iter().find(|(peer, _)| peer == name)
            {
                bail!("the chain needs the peer {name}: {reason}");
            }
        }
        let domain = directory.join("domain");
        std::fs::create_dir_all(&domain)
            .with_context(|| format!("cannot make {}", domain.display()))?;
        let stages = processes_of(&shape, self.peers, directory)?;
        let mut processes = self.processes();
        let parts =
            stages.iter().flat_map(|process| process.line.stage.iter().chain(&process.line.stages));
        let works: Vec<PathBuf> = parts.map(|part| part.work.clone()).collect();
        let mut programs: Vec<&Path> = stages.iter().map(|process| process.program).collect();
        programs.extend(works.iter().map(PathBuf::as_path));
        programs.sort();
        programs.dedup();
        let of_peer = job.edges.values().any(|edge| edge.system != System::Driveline);
        processes.contain(deployment, directory, &Ends { programs: &programs, of_peer })?;
        let keepers = keep(&mut processes, &shape, self.peers, directory)?;

        // Readers start before their writers, and the source starts last.
        let mut started: Vec<(Vec<usize>, usize)> = Vec::new();
        for process in stages {
            let member = processes.start_with(
                &process.name,
                process.program,
                &serde_json::to_string(&process.line)?,
            )?;
            processes.wait(member, Until::Ready, START)?;
            started.push((process.stages, member));
        }
        let watch = Watch::start(processes.pids().split_off(keepers.len()), SAMPLING);
        for (_, member) in started.iter().rev() {
            processes.wait(*member, Until::Done, longest(job))?;
        }
        let uses = watch.stop();
        let mut engine = Observations::default();
        processes.report_engine(&mut engine);
        processes.let_go()?;
        for keeper in &keepers {
            processes.go_on(*keeper);
            processes.wait(*keeper, Until::Done, START)?;
        }
        processes.let_go()?;
        let mut reports = Vec::new();
        for (stages, member) in started {
            let ends = processes.ends_of(member);
            ensure!(
                ends.len() == stages.len(),
                "of {} stages in a process, {} reported their results",
                stages.len(),
                ends.len()
            );
            for (index, end) in stages.into_iter().zip(ends) {
                let name = &shape.stage(index)?.name;
                reports.push((
                    index,
                    StageReport::read(end, rows_at_most(job))
                        .with_context(|| format!("the stage '{name}'"))?,
                ));
            }
        }
        reports.sort_unstable_by_key(|(index, _)| *index);
        let reports: Vec<StageReport> = reports.into_iter().map(|(_, t)| t).collect();
        let mut observations = account(&shape, &reports, processes.began_ns());
        observations.counters.extend(engine.counters);
        for keeper in keepers {
            observations.unset.extend(processes.ends_of(keeper).into_iter().flat_map(|e| e.unset));
        }
        let (from, to) = window(&observations);
        for s in uses.series {
            observations.put(
                &s.subject,
                s.quantity,
                s.points.into_iter().filter(|p| (from..=to).contains(&p.time_ns)),
            );
        }
        Ok(observations)
    }
}

/// Returns a bound that only a hang exceeds. Without a rate, half a second for each sample is more
/// than any work takes.
fn longest(job: &ChainJob) -> Duration {
    let samples = (job.warm_up + job.messages) as f64;
    REST + Duration::from_secs_f64(2.0 * samples / job.rate_hz.unwrap_or(4.0))
}

/// Maximum number of rows of a stage, with a margin for middleware that repeats messages.
fn rows_at_most(job: &ChainJob) -> usize {
    (job.warm_up + job.messages + COOL_DOWN).saturating_mul(2) as usize + 1000
}

/// Returns the time in which the measured samples were in flight.
fn window(observations: &Observations) -> (u64, u64) {
    let ends = observations
        .series
        .iter()
        .filter(|s| s.quantity == Quantity::Latency)
        .flat_map(|s| &s.points);
    ends.fold((u64::MAX, 0), |(from, to), p| {
        (from.min(p.time_ns), to.max(p.time_ns.saturating_add(p.value)))
    })
}

/// Returns the common part of the jobs of all processes of one system.
fn common(shape: &Shape<'_>, system: &System, role: Role, directory: &Path) -> Job {
    let job = shape.job;
    let edges = || job.edges.iter().filter(|(_, e)| e.system == *system);
    Job {
        protocol: PROTOCOL,
        role,
        system: system.clone(),
        reach: job.reach,
        domain_dir: directory.join("domain"),
        topic: "chain".into(),
        size: edges().map(|(_, e)| e.size).max().unwrap_or(64),
        wait: job.wait,
        take: Take::Borrow,
        payload: Payload::Filled,
        pace: job.rate_hz.map_or(Pace::PingPong, Pace::RateHz),
        warm_up: job.warm_up,
        messages: job.messages,
        depth: job.depth,
        reliability: job.reliability,
        subscribers: edges()
            .map(|(t, _)| shape.readers.get(t.as_str()).map_or(1, Vec::len))
            .max()
            .unwrap_or(1),
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: Vec::new(),
        priority: job.priority,
        raw_dir: directory.to_owned(),
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
    }
}

/// Starts the keepers of the systems, and refuses systems that cannot carry this chain.
fn keep(
    processes: &mut Processes<'_>,
    shape: &Shape<'_>,
    peers: &Selection,
    directory: &Path,
) -> Result<Vec<usize>> {
    let mut systems: Vec<&System> = shape.job.edges.values().map(|e| &e.system).collect();
    systems.sort();
    systems.dedup();
    let mut keepers = Vec::new();
    for system in systems.into_iter().filter(|s| **s != System::Driveline) {
        let variant = peers.variant(system).with_context(|| {
            format!("no selected peer carries {system}: name it in `--systems`")
        })?;
        let job = common(shape, system, Role::Keeper, directory);
        // Even without a rate, a chain is not a ping-pong.
        if let Some(reason) = variant.refuses(&Job { pace: Pace::RateHz(1.0), ..job.clone() }) {
            bail!("{system} cannot carry this chain: it {reason}");
        }
        if variant.keeper {
            let keeper = processes.start(&format!("the keeper of {system}"), &job, None)?;
            processes.wait(keeper, Until::Ready, START)?;
            keepers.push(keeper);
        }
    }
    Ok(keepers)
}

/// A process to start.
struct Process<'a> {
    name: String,
    program: &'a Path,
    line: Line<'a>,
    /// Its stages, in the order of their accounts.
    stages: Vec<usize>,
}

/// Returns the processes in the order of their start.
fn processes_of<'a>(
    shape: &Shape<'a>,
    peers: &'a Selection,
    directory: &Path,
) -> Result<Vec<Process<'a>>> {
    let order: Vec<usize> = shape.order.iter().rev().copied().collect();
    let program_of = |system: &System| {
        peers
            .program(system)
            .with_context(|| format!("no selected peer carries {system}: name it in `--systems`"))
    };
    if shape.job.reach == Reach::Process {
        let system = shape.common_program()?;
        let program = program_of(&system)?;
        let stages =
            order.iter().map(|i| stage_part(shape, peers, program, *i)).collect::<Result<_>>()?;
        let line =
            Line { job: common(shape, &system, Role::Stages, directory), stage: None, stages };
        return Ok(vec![Process { name: "all stages".into(), program, line, stages: order }]);
    }
    let one = |index: usize| {
        let stage = shape.stage(index)?;
        let system = shape.program_of(stage)?;
        let program = program_of(&system)?;
        let job =
            Job { publisher_cpu: stage.cpu, ..common(shape, &system, Role::Stage, directory) };
        let line = Line {
            job,
            stage: Some(stage_part(shape, peers, program, index)?),
            stages: Vec::new(),
        };
        Ok(Process { name: stage.name.clone(), program, line, stages: vec![index] })
    };
    order.into_iter().map(one).collect()
}

fn stage_part<'a>(
    shape: &Shape<'a>,
    peers: &Selection,
    program: &Path,
    index: usize,
) -> Result<StagePart<'a>> {
    let stage = shape.stage(index)?;
    let has_driveline = peers.chosen.iter().any(|(_, d)| d.name == DRIVELINE_PEER);
    let edge = |topic: &'a String| -> Result<EdgePart<'a>> {
        let spec = shape.job.edges.get(topic).context("an edge is missing")?;
        ensure!(
            spec.system != System::Driveline || has_driveline,
            "Driveline is to carry the topic '{topic}', but the peer {DRIVELINE_PEER} was not \
             found. Only peers that were built with Driveline can carry it: `make peers` builds \
             them"
        );
        let readers = shape.readers.get(topic.as_str()).map_or(&[][..], Vec::as_slice);
        let position = readers.iter().position(|r| *r == index).unwrap_or(0);
        Ok(EdgePart {
            topic,
            system: spec.system.to_string(),
            size: spec.size,
            index: position,
            readers: readers.len(),
        })
    };
    let work = if stage.work.contains('/') {
        PathBuf::from(&stage.work)
    } else {
        program
            .parent()
            .context("the peer's program has no directory")?
            .join("works")
            .join(format!("{}.so", stage.work))
    };
    ensure!(
        work.is_file(),
        "the work {} does not exist: `make peers` builds it if its packages are installed",
        work.display()
    );
    Ok(StagePart {
        name: &stage.name,
        inputs: stage.inputs.iter().map(edge).collect::<Result<_>>()?,
        output: stage.output.as_ref().map(edge).transpose()?,
        work,
        parameters: &stage.parameters,
        cool_down: COOL_DOWN,
        cpu: stage.cpu,
    })
}
