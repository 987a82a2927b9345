// SPDX-License-Identifier: Apache-2.0
//! What a measurement leaves on disk, and the only thing that reports and comparisons read.
//!
//! An archive is a directory (`docs/protocols/archive.md`): `manifest.json` says what was to be measured, on which machine, by
//! which command; `runs/<experiment>/<case>/<round>.json` is the account of a run, and beside it lie its raw stamps and
//! observations as Arrow files. A run's account is written last and appears at once, so that an archive is whole at any time:
//! an interrupted measurement has fewer runs, and goes on with those that are missing.

mod columns;
mod samples;

pub use samples::{LinkSample, metrics};

use crate::scenario::{Extent, Scenario};
use anyhow::{Context, Result, ensure};
use driveline_bench::chain::ChainJob;
use driveline_bench::harness::{self, Job, PROTOCOL, Pace, Payload, Reach, Reliability, System, Take, Wait};
use driveline_bench::machine::{Disturbance, Machine};
use driveline_bench::observations::Observations;
use driveline_bench::peers::Description;
use driveline_bench::{Account, Beside, Comparison, LeftOut, Metric, Placement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Version of the format.
pub const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";

/// What is measured, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Commit that it was built from.
    pub commit: String,
    /// Whether it was compiled with optimisation; figures of one that was not say nothing.
    pub optimised: bool,
    /// The command.
    pub command: Vec<String>,
    /// When it began, as RFC 3339 in UTC.
    pub started_at: String,
    /// When the last run ended; none as long as runs are missing.
    pub finished_at: Option<String>,
    /// How much is measured.
    pub extent: Extent,
    /// Seed of all orders and intervals.
    pub seed: u64,
    /// When a run does not count, declared beforehand.
    pub validity_rule: String,
    /// The machine.
    pub machine: Machine,
    /// CPUs of the ends.
    pub placement: Placement,
    /// Peers that take part, with their settings.
    pub peers: Vec<Description>,
    /// What is measured, in this order.
    pub experiments: Vec<Experiment>,
}

/// One scenario with what it comes to on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// As it was used, the extent's changes applied.
    pub scenario: Scenario,
    /// How often each case is run.
    pub rounds: u64,
    /// What is run in every round.
    pub cases: Vec<Case>,
    /// What was asked for and is not measured.
    pub left_out: Vec<LeftOut>,
}

/// What is run again in every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique within the experiment, and readable.
    pub id: String,
    /// Its directory below `runs/<experiment>`.
    pub directory: String,
    /// What it stands for.
    pub role: Role,
    /// `driveline`, `futex`, `fastdds/shm` …
    pub system: System,
    /// The system, for people: `Fast DDS, shared memory`.
    pub system_title: String,
    /// What is the same for all systems that are compared: `camera · 1→10 · block`. Cases with the same cell belong side by side.
    pub cell: String,
    /// Name of the scenario's case that it belongs to.
    pub scenario_case: String,
    /// The figure that counts most.
    pub figure: Metric,
    /// The links, if it has links.
    pub links: Vec<Link>,
    /// What happens beside them.
    pub beside: Beside,
    /// Name and parameters of the workload, if it is one.
    pub workload: Option<Workload>,
    /// The processing chain, if it is one.
    pub chain: Option<ChainJob>,
    /// What it is compared with; `to` is the id of a case of the same experiment.
    pub comparisons: Vec<Comparison>,
}

/// What a case stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A middleware under test.
    Measured,
    /// What the machine itself can do.
    Floor,
    /// The same floor once more: how much two equal things differ.
    Control,
    /// A peer's own latency tool, beside the row of the same system and cell.
    OwnTool,
}

/// A link of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Its topic.
    pub topic: String,
    /// Bytes of payload.
    pub size: usize,
    /// Number of subscribers.
    pub subscribers: usize,
    /// Open or closed loop.
    pub pace: Pace,
    /// Threads or processes.
    pub reach: Reach,
    /// How readers wait.
    pub wait: Wait,
    /// In place, or copied.
    pub take: Take,
    /// Filled and read, or neither.
    pub payload: Payload,
    /// QoS.
    pub reliability: Reliability,
    /// QoS.
    pub depth: u32,
    /// Busy work after each sample.
    pub processing_us: u64,
    /// Real-time priority; 0: time sharing.
    pub priority: u8,
    /// CPU of the publisher; none: the kernel decides.
    pub publisher_cpu: Option<usize>,
    /// CPUs of the subscribers, in turn; none: the kernel decides.
    pub subscriber_cpus: Vec<usize>,
    /// Samples that count.
    pub messages: u64,
    /// Samples before.
    pub warm_up: u64,
}

impl Link {
    /// What every edge of a chain has to do.
    #[must_use]
    pub(crate) fn of_chain(chain: &ChainJob) -> Self {
        Self {
            topic: String::new(),
            size: 0,
            subscribers: 1,
            pace: Pace::RateHz(chain.rate_hz.unwrap_or(1000.0)),
            reach: Reach::Host,
            wait: chain.wait,
            take: Take::Borrow,
            payload: Payload::Filled,
            reliability: chain.reliability,
            depth: chain.depth,
            processing_us: 0,
            priority: chain.priority,
            publisher_cpu: None,
            subscriber_cpus: Vec::new(),
            messages: chain.messages,
            warm_up: chain.warm_up,
        }
    }

    /// The job of both its ends, up to their roles and directories.
    #[must_use]
    pub fn job(&self, system: &System) -> Job {
        Job {
            protocol: PROTOCOL,
            role: harness::Role::Publisher,
            system: system.clone(),
            reach: self.reach,
            domain_dir: PathBuf::new(),
            topic: self.topic.clone(),
            size: self.size,
            wait: self.wait,
            take: self.take,
            payload: self.payload,
            pace: self.pace,
            warm_up: self.warm_up,
            messages: self.messages,
            depth: self.depth,
            reliability: self.reliability,
            subscribers: self.subscribers,
            index: 0,
            publisher_cpu: self.publisher_cpu,
            subscriber_cpus: self.subscriber_cpus.clone(),
            priority: self.priority,
            processing_us: self.processing_us,
            raw_dir: PathBuf::new(),
        }
    }
}

/// A graph that is run and observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Which.
    pub name: String,
    /// How.
    pub parameters: serde_json::Value,
    /// For how long it is observed.
    pub duration_ms: u64,
    /// For how long it runs before.
    pub warm_up_ms: u64,
}

/// The account of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Round.
    pub round: u64,
    /// Place in the round's order.
    pub place: usize,
    /// When it began, in nanoseconds on `CLOCK_MONOTONIC`.
    pub started_ns: u64,
    /// How long it took, start of processes included, in seconds.
    pub seconds: f64,
    /// What else happened on the machine meanwhile.
    pub disturbance: Disturbance,
    /// Why there is no account, if there is none.
    pub failure: Option<String>,
    /// Why it does not count; empty if it does. What single links complain of is in their accounts.
    pub invalid: Vec<String>,
    /// One for each link.
    pub accounts: Vec<Account>,
    /// What a workload counted.
    pub counters: BTreeMap<String, u64>,
    /// What the machine refused.
    pub unset: Vec<String>,
}

impl Run {
    /// Whether its samples count.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.failure.is_none() && self.invalid.is_empty() && self.accounts.iter().all(|a| a.invalid.is_empty())
    }

    /// Why it does not count, in words.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let links = self.accounts.iter().flat_map(|a| &a.invalid);
        self.failure.iter().chain(&self.invalid).chain(links).map(String::as_str)
    }
}

/// An archive on disk.
#[derive(Clone, Debug)]
pub struct Archive {
    directory: PathBuf,
    /// What it says about itself.
    pub manifest: Manifest,
}

impl Archive {
    /// Makes one. The directory must not exist, or be empty.
    ///
    /// # Errors
    /// The file system's; if something is there already.
    pub fn create(directory: &Path, manifest: Manifest) -> Result<Self> {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let mut there = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?;
        ensure!(
            there.next().is_none(),
            "{} is not empty: name another directory, or go on with the measurement in it with --resume",
            directory.display()
        );
        let archive = Self { directory: directory.to_owned(), manifest };
        archive.write_manifest()?;
        Ok(archive)
    }

    /// Opens one.
    ///
    /// # Errors
    /// If it is none, of another version, or damaged.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        let text = fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}: `driveline bench run` makes such a directory, and tells its name", path.display()))?;
        let format: Version = serde_json::from_str(&text).with_context(|| format!("{} is no manifest", path.display()))?;
        ensure!(
            format.format == FORMAT,
            "{} has format {}, this program reads {FORMAT}: use the version that made it",
            path.display(),
            format.format
        );
        let manifest = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Self { directory: directory.to_owned(), manifest })
    }

    /// Where it is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Says that everything is measured.
    ///
    /// # Errors
    /// The file system's.
    pub fn finish(&mut self, at: String) -> Result<()> {
        self.manifest.finished_at = Some(at);
        self.write_manifest()
    }

    fn write_manifest(&self) -> Result<()> {
        write_whole(&self.directory.join(MANIFEST), &serde_json::to_vec_pretty(&self.manifest)?)
    }

    fn path(&self, experiment: &str, case: &Case, round: u64, what: &str) -> PathBuf {
        self.directory.join("runs").join(experiment).join(&case.directory).join(format!("{round}{what}"))
    }

    /// Adds a run, with what was measured link by link (`run.accounts` has as many, in the same order) and observed.
    ///
    /// # Errors
    /// The file system's.
    pub fn add(&self, experiment: &str, case: &Case, run: &Run, observations: &Observations) -> Result<()> {
        let account = self.path(experiment, case, run.round, ".json");
        if let Some(parent) = account.parent() {
            fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        }
        if run.accounts.iter().any(|a| !a.stamps.is_empty()) {
            let stamps = self.path(experiment, case, run.round, ".stamps.arrow");
            samples::write(&stamps, &run.accounts).with_context(|| format!("cannot write {}", stamps.display()))?;
        }
        if !observations.series.is_empty() {
            let path = self.path(experiment, case, run.round, ".observations.arrow");
            columns::write_observations(&path, observations).with_context(|| format!("cannot write {}", path.display()))?;
        }
        write_whole(&account, &serde_json::to_vec_pretty(run)?)
    }

    /// Whether a run is there.
    #[must_use]
    pub fn has(&self, experiment: &str, case: &Case, round: u64) -> bool {
        self.path(experiment, case, round, ".json").exists()
    }

    /// The runs of a case, by round.
    ///
    /// # Errors
    /// If one is damaged.
    pub fn runs(&self, experiment: &Experiment, case: &Case) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for round in 0..experiment.rounds {
            let path = self.path(&experiment.scenario.id, case, round, ".json");
            match fs::read(&path) {
                Ok(text) => runs.push(serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
            }
        }
        Ok(runs)
    }

    /// The stamps of a run; none if it has none.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn samples(&self, experiment: &str, case: &Case, round: u64) -> Result<Vec<LinkSample>> {
        let path = self.path(experiment, case, round, ".stamps.arrow");
        if !path.exists() {
            return Ok(Vec::new());
        }
        samples::read(&path).with_context(|| format!("{} is damaged", path.display()))
    }

    /// The observations of a run; none if it has none.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn observations(&self, experiment: &str, case: &Case, round: u64) -> Result<Observations> {
        let path = self.path(experiment, case, round, ".observations.arrow");
        if !path.exists() {
            return Ok(Observations::default());
        }
        columns::read_observations(&path).with_context(|| format!("{} is damaged", path.display()))
    }
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Writes a file that is either there as a whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension("part");
    fs::write(&part, bytes).and_then(|()| fs::rename(&part, path)).with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
