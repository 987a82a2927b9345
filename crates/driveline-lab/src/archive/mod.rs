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
use anyhow::{Context, Result, bail, ensure};
use driveline_bench::chain::ChainJob;
use driveline_bench::child::unreadable;
use driveline_bench::harness::{self, Job, PROTOCOL, Pace, Payload, Reach, Reliability, System, Take, Wait};
use driveline_bench::machine::{Disturbance, Machine};
use driveline_bench::observations::Observations;
use driveline_bench::peers::Description;
use driveline_bench::{Account, Beside, Comparison, LeftOut, Metric, Placement};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Version of the format.
pub const FORMAT: u32 = 1;
const MANIFEST: &str = "manifest.json";
/// Of files that are not whole yet.
const PART: &str = "part";
/// Most rounds of an experiment, as scenarios and the command line say.
const MAX_ROUNDS: u64 = 1000;
/// Most samples of a link: a day at the highest rate.
const MAX_MESSAGES: u64 = 86_400_000_000;
/// Longest observation of a workload: a day, and what scenarios let it warm up.
const LONGEST_MS: u64 = 2 * 86_400_000;

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

impl Case {
    /// Where the ends of its first link, or the stages of its chain are; none of a workload.
    #[must_use]
    pub fn reach(&self) -> Option<Reach> {
        self.links.first().map(|l| l.reach).or_else(|| self.chain.as_ref().map(|c| c.reach))
    }
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
            reach: chain.reach,
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
            // The conductor says how long, and nothing is lost on purpose.
            answer_timeout_ms: 0,
            lose_every: 0,
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
    /// Locked as long as somebody measures into it.
    _claim: Option<Arc<File>>,
    /// What it says about itself.
    pub manifest: Manifest,
}

impl Archive {
    /// Makes one. The directory must not exist, or be empty.
    ///
    /// # Errors
    /// The file system's; if something is there already, or a text has control characters.
    pub fn create(directory: &Path, manifest: Manifest) -> Result<Self> {
        check_readable(&manifest)?;
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let empty = || -> Result<()> {
            let mut there = fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?.flatten();
            // A manifest that was never whole is nobody's measurement.
            ensure!(
                there.all(|entry| Path::new(&entry.file_name()) == Path::new(MANIFEST).with_extension(PART)),
                "{} is not empty: name another directory, or go on with the measurement in it with --resume",
                directory.display()
            );
            Ok(())
        };
        empty()?;
        let claim = claim(directory)?;
        // Somebody else may have been faster.
        empty()?;
        let archive = Self { directory: directory.to_owned(), _claim: Some(Arc::new(claim)), manifest };
        archive.write_manifest()?;
        Ok(archive)
    }

    /// Opens one.
    ///
    /// # Errors
    /// If it is none, of another version, or damaged.
    pub fn open(directory: &Path) -> Result<Self> {
        let path = directory.join(MANIFEST);
        let text = present(&path)
            .and_then(|_| fs::read_to_string(&path))
            .with_context(|| format!("cannot read {}: `driveline bench run` makes such a directory, and tells its name", path.display()))?;
        let format: Version = serde_json::from_str(&text).with_context(|| format!("{} is no manifest", path.display()))?;
        ensure!(
            format.format == FORMAT,
            "{} has format {}, this program reads {FORMAT}: use the version that made it",
            path.display(),
            format.format
        );
        let manifest: Manifest = serde_json::from_str(&text).with_context(|| format!("{} is damaged", path.display()))?;
        check(&manifest).with_context(|| format!("{} is damaged, or not by this program", path.display()))?;
        Ok(Self { directory: directory.to_owned(), _claim: None, manifest })
    }

    /// For whoever measures into it, so that nobody else does meanwhile; until it and its clones are dropped.
    ///
    /// # Errors
    /// If somebody does already.
    pub fn claimed(self) -> Result<Self> {
        let _claim = Some(Arc::new(claim(&self.directory)?));
        Ok(Self { _claim, ..self })
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

    /// Puts something beside the runs that is made of them; what has that name is replaced, and not followed if it is a link.
    ///
    /// # Errors
    /// The file system's.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<()> {
        write_whole(&self.directory.join(name), bytes)
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
            match present(&path).and_then(|_| fs::read(&path)) {
                Ok(text) => {
                    let run: Run = serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
                    ensure!(run.round == round, "{} is damaged: it is the account of round {}", path.display(), run.round);
                    runs.push(run);
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Err(e).with_context(|| format!("cannot read {}", path.display())),
            }
        }
        Ok(runs)
    }

    /// The stamps of a run; none if it has none.
    ///
    /// # Errors
    /// If they are damaged, or not those of the run's accounts.
    pub fn samples(&self, experiment: &str, case: &Case, run: &Run) -> Result<Vec<LinkSample>> {
        let path = self.path(experiment, case, run.round, ".stamps.arrow");
        let read = || -> Result<_> {
            let samples = if present(&path)? { samples::read(&path)? } else { Vec::new() };
            samples::check(&samples, &run.accounts)?;
            Ok(samples)
        };
        read().with_context(|| format!("{} is damaged", path.display()))
    }

    /// The observations of a run; none if it has none.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn observations(&self, experiment: &str, case: &Case, round: u64) -> Result<Observations> {
        let path = self.path(experiment, case, round, ".observations.arrow");
        let read = || if present(&path)? { columns::read_observations(&path) } else { Ok(Observations::default()) };
        read().with_context(|| format!("{} is damaged", path.display()))
    }
}

/// What is shown to people must not move their cursor.
fn check_readable(m: &Manifest) -> Result<()> {
    match unreadable(&serde_json::to_value(m)?) {
        Some(text) => bail!("'{text}' has control characters"),
        None => Ok(()),
    }
}

/// What no measurement has: memory is reserved for rounds, and files are written below the names of directories.
fn check(m: &Manifest) -> Result<()> {
    let is_name = |name: &str| matches!(Path::new(name).components().collect::<Vec<_>>().as_slice(), [Component::Normal(n)] if *n == name);
    check_readable(m)?;
    let mut ids = BTreeSet::new();
    for e in &m.experiments {
        let id = &e.scenario.id;
        ensure!(is_name(id), "'{id}' is no name of an experiment");
        ensure!(ids.insert(id), "the experiment {id} is there twice");
        ensure!(e.rounds <= MAX_ROUNDS, "{id} has {} rounds; at most {MAX_ROUNDS} are possible", e.rounds);
        let (mut names, mut directories) = (BTreeSet::new(), BTreeSet::new());
        for case in &e.cases {
            ensure!(is_name(&case.directory), "{id}: '{}' is no name of a directory", case.directory);
            ensure!(
                names.insert(&case.id) && directories.insert(&case.directory),
                "{id}: the case '{}', or its directory, is there twice",
                case.id
            );
            check_case(case).with_context(|| format!("{id}: the case '{}'", case.id))?;
        }
    }
    Ok(())
}

/// Whether its numbers are within what scenarios can say; waits and memory are computed from them.
fn check_case(case: &Case) -> Result<()> {
    let rate = |hz: f64| -> Result<()> {
        ensure!((0.01..=1e6).contains(&hz), "{hz} Hz is no rate");
        Ok(())
    };
    let count = |what: &str, n: u64, most: u64| -> Result<()> {
        ensure!(n <= most, "{n} {what} are more than {most}");
        Ok(())
    };
    count("links", case.links.len() as u64, 256)?;
    count("hogs", case.beside.hogs as u64, 64)?;
    for link in &case.links {
        if let Pace::RateHz(hz) = link.pace {
            rate(hz)?;
        }
        ensure!((1..=512).contains(&link.subscribers), "{} is no number of subscribers", link.subscribers);
        count("bytes of payload", link.size as u64, 1 << 40)?;
        count("messages", link.messages, MAX_MESSAGES)?;
        count("messages before", link.warm_up, MAX_MESSAGES)?;
        count("µs of work", link.processing_us, 10_000_000)?;
    }
    if let Some(chain) = &case.chain {
        chain.rate_hz.map_or(Ok(()), rate)?;
        count("messages", chain.messages, MAX_MESSAGES)?;
        count("messages before", chain.warm_up, MAX_MESSAGES)?;
    }
    if let Some(w) = &case.workload {
        count("ms", w.duration_ms, LONGEST_MS)?;
        count("ms before", w.warm_up_ms, LONGEST_MS)?;
    }
    Ok(())
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

/// Whether a file is there. One that is no plain file is refused: reading a pipe would wait for somebody who writes.
fn present(path: &Path) -> std::io::Result<bool> {
    match fs::metadata(path) {
        Ok(m) if m.is_file() => Ok(true),
        Ok(_) => Err(std::io::Error::other("it is no plain file")),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// The right to measure into a directory.
fn claim(directory: &Path) -> Result<File> {
    let file = File::open(directory).with_context(|| format!("cannot open {}", directory.display()))?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => {
            bail!("somebody measures into {} already: wait for that, or name another directory", directory.display())
        }
        // Not every file system has locks; without, there is only the danger that somebody does it twice.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Writes a file that is either there as a whole or not at all.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let part = path.with_extension(PART);
    // Without sync, a name can outlive a power cut that its bytes do not.
    let written = || -> std::io::Result<()> {
        // Of somebody who was interrupted, or a link to somewhere else: opening it would follow that.
        match fs::remove_file(&part) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
        let mut file = fs::File::create_new(&part)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&part, path)
    };
    written()
        // Where there is no room, the half of it is in the way.
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests;
