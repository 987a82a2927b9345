// SPDX-License-Identifier: Apache-2.0
//! What an archive says of itself: what was to be measured, where and how, and the account of each
//! run.

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

/// What is measured, and where.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// [`super::FORMAT`].
    pub format: u32,
    /// Version of the program.
    pub version: String,
    /// Commit that it was built from.
    pub commit: String,
    /// Whether it was compiled with optimisation; figures of one that was not say nothing.
    pub optimised: bool,
    /// Commit of the gateway that has carried Driveline's topics between hosts; none if nothing was
    /// measured there, or by a release that did not record it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
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
    /// What is the same for all systems that are compared: `camera · 1→10 · block`. Cases with the
    /// same cell belong side by side.
    pub cell: String,
    /// Name of the scenario's case that it belongs to.
    pub scenario_case: String,
    /// The figure that counts most.
    pub figure: Metric,
    /// The scenario names it: then it is that, also where payloads are filled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub figure_is_named: bool,
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
    /// The same floor once more, or Driveline in a cell that has none: how much two equal things
    /// differ.
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
    /// What is done with the payloads of its links, if the same with all: `None` for mixtures,
    /// workloads and chains.
    #[must_use]
    pub fn handling(&self) -> Option<Payload> {
        let first = self.links.first()?.payload;
        self.links.iter().all(|l| l.payload == first).then_some(first)
    }

    /// The figure that counts most, with what it takes: with filled payloads a middleware's own
    /// memory counts, so filling is part of what is compared, unless the scenario names the figure.
    #[must_use]
    pub(crate) fn headline_metric(&self) -> Metric {
        match (self.figure, self.handling()) {
            (Metric::Transport, Some(Payload::Filled)) if !self.figure_is_named => {
                Metric::FillAndTransport
            }
            (figure, _) => figure,
        }
    }

    /// Of a stream, which is compared by its goodput and not by times: the size of its payload. Of
    /// several links there is no one size, and a floor has no payload: their times are compared.
    #[must_use]
    pub(crate) fn stream_size(&self) -> Option<usize> {
        match self.links.as_slice() {
            [link] if link.size > 0 && self.headline_metric() == Metric::BetweenArrivals => {
                Some(link.size)
            }
            _ => None,
        }
    }

    /// Whether it is a floor that is one copy of a payload, not a bare word.
    #[must_use]
    pub fn is_copy(&self) -> bool {
        self.system == System::Memcpy
    }

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
            // The runner says how long, and nothing is lost on purpose.
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
        self.failure.is_none()
            && self.invalid.is_empty()
            && self.accounts.iter().all(|a| a.invalid.is_empty())
    }

    /// Why it does not count, in words.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        let links = self.accounts.iter().flat_map(|a| &a.invalid);
        self.failure.iter().chain(&self.invalid).chain(links).map(String::as_str)
    }
}
