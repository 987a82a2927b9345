// SPDX-License-Identifier: Apache-2.0
//! Manifest of an archive: planned measurements, machine and program; and the account of each run.

use crate::scenario::{Extent, Scenario};
use driveline_bench::chain::ChainJob;
use driveline_bench::harness::{
    self, Job, PROTOCOL, Pace, Payload, Reach, Reliability, System, Take, Wait,
};
use driveline_bench::machine::{Disturbance, Machine};
use driveline_bench::peers::Description;
use driveline_bench::{Account, Beside, Comparison, LeftOut, Metric, Placement};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Manifest of a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`super::FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Commit of the program.
    pub commit: String,
    /// True if it was compiled with optimisation; figures without optimisation have no meaning.
    pub optimised: bool,
    /// Commit of the gateway that carried Driveline's topics between hosts. `None` if nothing was
    /// measured between hosts, or if the release that measured did not record the commit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The command.
    pub command: Vec<String>,
    /// Start time, as RFC 3339 in UTC.
    pub started_at: String,
    /// End time of the last run; none while runs are missing.
    pub finished_at: Option<String>,
    /// Extent of the measurement.
    pub extent: Extent,
    /// Seed of all orders and intervals.
    pub seed: u64,
    /// Rule for invalid runs, declared in advance.
    pub validity_rule: String,
    /// The machine.
    pub machine: Machine,
    /// CPUs of the ends.
    pub placement: Placement,
    /// Peers that take part, with their settings.
    pub peers: Vec<Description>,
    /// Experiments in the order of measurement.
    pub experiments: Vec<Experiment>,
}

/// A scenario with its plan for this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Experiment {
    /// Scenario as used, with the changes of the extent.
    pub scenario: Scenario,
    /// Number of runs of each case.
    pub rounds: u64,
    /// Cases that run in every round.
    pub cases: Vec<Case>,
    /// Requested parts that are not measured.
    pub left_out: Vec<LeftOut>,
}

/// One case, which runs in every round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// Unique within the experiment, and readable.
    pub id: String,
    /// Directory below `runs/<experiment>`.
    pub directory: String,
    /// Role in the experiment.
    pub role: Role,
    /// `driveline`, `futex`, `fastdds/shm` …
    pub system: System,
    /// Readable name of the system: `Fast DDS, shared memory`.
    pub system_title: String,
    /// Name of the common properties of all compared systems: `camera · 1→10 · block`. Cases of the
    /// same cell are listed together.
    pub cell: String,
    /// Name of its case in the scenario.
    pub scenario_case: String,
    /// Headline figure.
    pub figure: Metric,
    /// True if the scenario names the figure, which is then used for filled payloads as well.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub figure_is_named: bool,
    /// Links of the case, if any.
    pub links: Vec<Link>,
    /// Measurement of the case's only link, in place of samples that pass between two ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measure: Option<LinkMeasure>,
    /// Conditions in addition to the links.
    pub beside: Beside,
    /// Name and parameters of the workload, if it has one.
    pub workload: Option<Workload>,
    /// Processing chain, if it has one.
    pub chain: Option<ChainJob>,
    /// Comparisons; `to` is the id of a case of the same experiment.
    pub comparisons: Vec<Comparison>,
}

/// Measurement of a link in place of samples that pass between two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LinkMeasure {
    /// Processor time of both ends while nothing is published.
    AtRest {
        /// Observation time.
        duration_ms: u64,
    },
    /// Time until the first sample: of a publisher that starts while a subscriber waits, and of a
    /// subscriber that starts while a sample waits.
    StartUp,
    /// Publish and callback on one thread.
    SameThread,
}

/// Role of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// A middleware under test.
    Measured,
    /// A limit of the machine itself.
    Floor,
    /// A second measurement of the same floor, or of Driveline in a cell without a floor. It shows
    /// how much two equal cases differ.
    Control,
    /// A peer's own latency tool, next to the row of the same system and cell.
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
    /// Threads of one process, processes of one host, or processes of two hosts.
    pub reach: Reach,
    /// Wait mode of readers.
    pub wait: Wait,
    /// Access to the payload: in place, or copied.
    pub take: Take,
    /// Payload filled and read, or neither.
    pub payload: Payload,
    /// Reliability QoS.
    pub reliability: Reliability,
    /// History depth.
    pub depth: u32,
    /// Busy work after each sample.
    pub processing_us: u64,
    /// Real-time priority; 0: time sharing.
    pub priority: u8,
    /// CPU of the publisher; none: the kernel decides.
    pub publisher_cpu: Option<usize>,
    /// CPUs of the subscribers, in turn; none: the kernel decides.
    pub subscriber_cpus: Vec<usize>,
    /// Number of samples that count.
    pub messages: u64,
    /// Number of samples before the counted ones.
    pub warm_up: u64,
}

impl Case {
    /// Returns the treatment of the payloads if it is the same for all links: `None` for mixtures,
    /// workloads and chains.
    #[must_use]
    pub fn handling(&self) -> Option<Payload> {
        let first = self.links.first()?.payload;
        self.links.iter().all(|l| l.payload == first).then_some(first)
    }

    /// Returns the headline figure. For filled payloads, this is `fill_and_transport`, because the
    /// speed of the middleware's memory matters there. If the scenario names the
    /// figure, returns the named one.
    #[must_use]
    pub(crate) fn headline_metric(&self) -> Metric {
        match (self.figure, self.handling()) {
            (Metric::Transport, Some(Payload::Filled)) if !self.figure_is_named => {
                Metric::FillAndTransport
            }
            (figure, _) => figure,
        }
    }

    /// Returns the payload size of a stream, which is compared by its goodput. Returns `None` for
    /// several links, which have no single size, and for a floor, which has no payload: they are
    /// compared by times.
    #[must_use]
    pub(crate) fn stream_size(&self) -> Option<usize> {
        match self.links.as_slice() {
            [link] if link.size > 0 && self.headline_metric() == Metric::BetweenArrivals => {
                Some(link.size)
            }
            _ => None,
        }
    }

    /// Returns true if the case's link is measured at rest. Such a case has no headline figure.
    #[must_use]
    pub(crate) fn is_at_rest(&self) -> bool {
        matches!(self.measure, Some(LinkMeasure::AtRest { .. }))
    }

    /// Returns true if samples of its links are counted.
    #[must_use]
    pub(crate) fn has_samples(&self) -> bool {
        !self.links.is_empty() && matches!(self.measure, None | Some(LinkMeasure::SameThread))
    }

    /// Returns true for a floor that is one copy of a payload, not a bare word.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.system == System::Memcpy
    }

    /// Returns the reach of its first link, or of its chain; none for a workload.
    #[must_use]
    pub fn reach(&self) -> Option<Reach> {
        self.links.first().map(|l| l.reach).or_else(|| self.chain.as_ref().map(|c| c.reach))
    }
}

impl Link {
    /// Returns the common properties of a chain's edges.
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

    /// Returns the job of its ends, without roles and directories.
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
            // The runner sets the time-out. `lose_every: 0`: no end drops samples deliberately.
            answer_timeout_ms: 0,
            lose_every: 0,
            raw_dir: PathBuf::new(),
        }
    }
}

/// A graph that runs and is observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Workload {
    /// Name.
    pub name: String,
    /// Parameters.
    pub parameters: serde_json::Value,
    /// Observation time.
    pub duration_ms: u64,
    /// Time before the observation.
    pub warm_up_ms: u64,
}

/// Account of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Round.
    pub round: u64,
    /// Place in the round's order.
    pub place: usize,
    /// Start time, in nanoseconds on `CLOCK_MONOTONIC`.
    pub started_ns: u64,
    /// Duration, including the start of processes, in seconds.
    pub seconds: f64,
    /// Other activity of the machine in that time.
    pub disturbance: Disturbance,
    /// Reason why there is no account, if there is none.
    pub failure: Option<String>,
    /// Reasons why the run is invalid; empty if there are none. Reasons that concern one link are
    /// in the link's account.
    pub invalid: Vec<String>,
    /// Account of each link.
    pub accounts: Vec<Account>,
    /// Counters of a workload, a chain or a container engine.
    pub counters: BTreeMap<String, u64>,
    /// Settings that the machine refused.
    pub unset: Vec<String>,
}

impl Run {
    /// Returns true if its samples count.
    #[must_use]
    pub fn is_valid(&self) -> bool {
        self.failure.is_none()
            && self.invalid.is_empty()
            && self.accounts.iter().all(|a| a.invalid.is_empty())
    }

    /// Returns the reasons why it is invalid.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let links = self.accounts.iter().flat_map(|a| &a.invalid);
        self.failure.iter().chain(&self.invalid).chain(links).map(String::as_str)
    }
}
