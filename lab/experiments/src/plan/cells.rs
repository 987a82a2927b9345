// SPDX-License-Identifier: Apache-2.0
//! Cells: every combination of a scenario's cases and varied values. Each system runs each cell,
//! one system at a time.

use super::environment::parameters;
use super::{MAX_CASES, messages, too_small, workload};
use crate::archive::{Link, LinkMeasure, Workload};
use crate::scenario::{
    CaseSpec, ChainSpec, CpusSpec, DeploymentSpec, Figure, MeasureSpec, ReachSpec, RunSpec,
    Scenario, StageSpec, Vary, WorkloadSpec,
};
use crate::words::spaced;
use anyhow::{Context, Result, ensure};
use driveline_analyze::meminfo;
use driveline_bench::cable::{CableSpec, cable_refused};
use driveline_bench::chain::{self as bench_chain, ChainJob};
use driveline_bench::deployment::{Deployment, deployment_refused};
use driveline_bench::harness::{Pace, Reach, Reliability, System, Wait};
use driveline_bench::{Beside, Favour, Placement, Quota};
use driveline_graph::ByteSize;
use driveline_workloads::workloads;
use std::time::Duration;

/// Maximum number of processes of a run: each needs memory and a place in the tables of the kernel.
const MAX_PROCESSES: usize = 1024;

/// One combination, without its system.
pub(super) struct Cell {
    /// Unique within the scenario.
    pub(super) name: String,
    /// The scenario's case.
    pub(super) case: String,
    pub(super) links: Vec<Link>,
    /// Measurement of the cell's only link, in place of samples.
    pub(super) measure: Option<LinkMeasure>,
    pub(super) beside: Beside,
    pub(super) workload: Option<Workload>,
    /// The chain with Driveline on all edges. The plan of each system puts this system on the open
    /// edges.
    pub(super) chain: Option<ChainJob>,
    /// Topics of the chain that the measured system carries. Driveline carries its other topics.
    pub(super) open_edges: Vec<String>,
    pub(super) systems: Option<Vec<String>>,
    pub(super) figure: Option<Figure>,
    /// True if the case or the scenario names the figure.
    pub(super) figure_is_named: bool,
}

impl Cell {
    /// Returns the reason why no system can run this cell on this machine.
    pub(super) fn refused(&self, placement: &Placement) -> Option<String> {
        let single = self.links.len() == 1
            && self.beside.hogs == 0
            && self.beside.quota_percent.is_none()
            && self.beside.favour.is_none();
        let needed: u64 =
            self.links.iter().map(|l| l.job(&System::Driveline).memory_needed()).sum();
        if let Some(available) = meminfo("MemAvailable").filter(|available| needed >= *available) {
            return Some(format!(
                "it needs about {} MiB of memory, and {} MiB are available",
                needed >> 20,
                available >> 20
            ));
        }
        if let Some(Err(e)) = self.beside.quota_percent.map(Quota::new) {
            return Some(format!("{e:#}"));
        }
        if let Some(reason) = self.beside.cable.and_then(cable_refused) {
            return Some(reason);
        }
        if let Some(reason) = deployment_refused(self.beside.deployment) {
            return Some(reason);
        }
        let processes: usize = self
            .links
            .iter()
            .filter(|l| l.reach != Reach::Process)
            .map(|l| l.subscribers + 1)
            .sum();
        if processes > MAX_PROCESSES {
            return Some(format!(
                "it needs {processes} processes at the same time, and {MAX_PROCESSES} are the \
                 most: take fewer links or subscribers"
            ));
        }
        self.links.iter().find_map(|l| {
            if l.pace == Pace::PingPong && l.subscribers > 1 {
                return Some("a ping-pong has one subscriber: give a rate_hz".into());
            }
            if !single && (l.pace == Pace::PingPong || l.reach == Reach::Process) {
                return Some(
                    "several links, `hogs`, `quota_percent` and `favour` need a `rate_hz`, and \
                     `reach: host` or `network`"
                        .into(),
                );
            }
            let here = Placement {
                publisher_cpu: l.publisher_cpu,
                subscriber_cpus: l.subscriber_cpus.clone(),
                ..placement.clone()
            };
            too_small(l).or_else(|| {
                here.check_spinning(l.wait, l.pace, l.subscribers * self.links.len())
                    .err()
                    .map(|e| e.to_string())
            })
        })
    }
}

/// Returns all cells, in the order of the file.
pub(super) fn cells(
    scenario: &Scenario,
    run: &RunSpec,
    placement: &Placement,
) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (name, case) in &scenario.cases {
        if run.cases.as_ref().is_some_and(|chosen| !chosen.contains(name)) {
            continue;
        }
        let case = match case.measure {
            Some(measure) => of_measure(case, measure, &scenario.link),
            None => case.over(&scenario.link),
        };
        let vary = &match (&case.workload, case.measure) {
            (Some(w), _) => of_workload(&scenario.vary, w),
            (None, Some(_)) => Vary {
                size: scenario.vary.size.clone(),
                priority: scenario.vary.priority.clone(),
                ..Vary::default()
            },
            (None, None) => scenario.vary.clone(),
        };
        let more = vary.combinations();
        ensure!(
            cells.len().saturating_add(more) <= MAX_CASES,
            "case {name} comes to {more} combinations; all cases to more than {MAX_CASES}: let \
             less vary"
        );
        for (combination, mut case) in combinations(vary, case) {
            if let Some(workload) = &mut case.workload {
                vary_workload(workload, vary, case.size, case.rate_hz)
                    .with_context(|| format!("case {name}"))?;
            }
            let mut parts = Vec::new();
            if scenario.cases.len() > 1 || combination.is_empty() {
                parts.push(name.clone());
            }
            parts.extend(combination);
            let cell_name = parts.join(" · ");
            let watch_every = scenario.watch_every_ms.map(Duration::from_millis);
            let mut cell =
                cell(cell_name, name, &case, scenario.chain.is_none(), run, placement, watch_every)
                    .with_context(|| format!("case {name}"))?;
            cell.figure_is_named = cell.figure.or(scenario.figure).is_some();
            if let Some(spec) = &scenario.chain {
                cell.chain = Some(
                    chain(spec, &case, run, placement).with_context(|| format!("case {name}"))?,
                );
                cell.open_edges = spec
                    .edges
                    .keys()
                    .filter(|t| !case.driveline_edges.contains(t))
                    .cloned()
                    .collect();
            }
            cells.push(cell);
        }
    }
    Ok(cells)
}

/// Returns a case with `measure`, and with the values under `link` that such a case uses.
fn of_measure(case: &CaseSpec, measure: MeasureSpec, link: &CaseSpec) -> CaseSpec {
    CaseSpec {
        measure: Some(measure),
        size: case.size.or(link.size),
        priority: case.priority.or(link.priority),
        cpus: case.cpus.or(link.cpus),
        systems: case.systems.clone().or_else(|| link.systems.clone()),
        reach: case.reach,
        // The first sample ends the start-up; later samples have no figure.
        rate_hz: (measure == MeasureSpec::StartUp).then_some(1000.0),
        ..CaseSpec::default()
    }
}

/// Parameter of workloads that corresponds to the size of links.
const SIZE_OF_WORKLOAD: &str = "payload_bytes";
const RATE_OF_WORKLOAD: &str = "rate_hz";

/// Returns the varied values for which a workload has a parameter that its case leaves open. Other
/// varied values are only about links.
fn of_workload(vary: &Vary, workload: &WorkloadSpec) -> Vary {
    let known = workloads().into_iter().find(|w| w.name == workload.name);
    let open = |parameter| {
        known.as_ref().is_some_and(|w| w.defaults.get(parameter).is_some())
            && !workload.parameters.contains_key(parameter)
    };
    let mut used = Vary::default();
    if open(SIZE_OF_WORKLOAD) {
        used.size.clone_from(&vary.size);
    }
    if open(RATE_OF_WORKLOAD) {
        used.rate_hz.clone_from(&vary.rate_hz);
    }
    used
}

/// Gives a workload the values of the varied dimensions.
fn vary_workload(
    workload: &mut WorkloadSpec,
    vary: &Vary,
    size: Option<ByteSize>,
    rate_hz: Option<f64>,
) -> Result<()> {
    if let Some(size) = size.filter(|_| !vary.size.is_empty()) {
        workload.parameters.insert(SIZE_OF_WORKLOAD.into(), size.0.into());
    }
    if let Some(rate_hz) = rate_hz.filter(|_| !vary.rate_hz.is_empty()) {
        workload.parameters.insert(RATE_OF_WORKLOAD.into(), rate_hz.into());
    }
    // The check of the file did not include the varied values.
    driveline_workloads::check(
        &workload.name,
        &serde_json::Value::Object(workload.parameters.clone()),
    )
}

fn cell(
    name: String,
    case_name: &str,
    case: &CaseSpec,
    has_links: bool,
    run: &RunSpec,
    placement: &Placement,
    watch: Option<Duration>,
) -> Result<Cell> {
    let mut links = Vec::new();
    if case.workload.is_none() && has_links {
        let parts: Vec<(&str, CaseSpec)> = if case.links.is_empty() {
            vec![("link", case.clone())]
        } else {
            case.links.iter().map(|(topic, l)| (topic.as_str(), l.over(case))).collect()
        };
        for (topic, spec) in parts {
            let copies = spec.copies.unwrap_or(1);
            for copy in 0..copies {
                let topic = if copies > 1 { format!("{topic}{copy}") } else { topic.to_owned() };
                links.push(link(topic, &spec, run, placement)?);
            }
        }
        ensure!(links.len() <= 256, "{} links at the same time are more than 256", links.len());
    }
    if !case.has_samples() {
        for link in &mut links {
            (link.messages, link.warm_up) = (1, 0);
        }
    }
    let measure = case.measure.map(|measure| match measure {
        MeasureSpec::AtRest => {
            LinkMeasure::AtRest { duration_ms: (run.seconds.unwrap_or(10.0) * 1000.0) as u64 }
        }
        MeasureSpec::StartUp => LinkMeasure::StartUp,
        MeasureSpec::SameThread => LinkMeasure::SameThread,
    });
    let last_cpu = placement.usable_cpus.last().copied();
    let favour = case.favour.as_ref().map(|f| Favour {
        subscriber: f
            .subscriber
            .unwrap_or_else(|| links.iter().map(|l| l.subscribers).max().unwrap_or(1) - 1),
        priority: f.priority,
        exclusive_cpu: last_cpu.filter(|_| f.exclusive_cpu),
    });
    let between_hosts = links.iter().any(|l| l.reach == Reach::Network);
    ensure!(
        between_hosts || case.of_cable().is_none(),
        "cable_mbit, loss_percent and delay_ms are about the cable between two hosts: add `reach: \
         network`, or leave them out"
    );
    ensure!(
        links.iter().all(|l| l.reach == Reach::Network) || !between_hosts,
        "links of one case are either all within a host or all between two: give them the same \
         reach"
    );
    let cable = between_hosts.then(|| CableSpec {
        mbit: case.cable_mbit,
        loss_percent: case.loss_percent.unwrap_or(0.0),
        delay_ms: case.delay_ms.unwrap_or(0.0),
    });
    let deployment = case.deployment.map_or(Deployment::Bare, Into::into);
    match &case.workload {
        Some(workload) => driveline_workloads::check_deployment(
            &workload.name,
            &serde_json::Value::Object(workload.parameters.clone()),
            deployment,
        )?,
        None => ensure!(
            deployment.is_bare()
                || (links.iter().all(|l| l.reach == Reach::Host)
                    && matches!(case.reach, None | Some(ReachSpec::Host))
                    && case.quota_percent.is_none()),
            "containers hold the processes of links or chains within a host, without \
             `quota_percent`: add `reach: host`, or leave `deployment` out"
        ),
    }
    let beside = Beside {
        hogs: case.hogs.unwrap_or(0),
        quota_percent: case.quota_percent,
        favour,
        watch_every: watch.filter(|_| measure.is_none()),
        cable,
        deployment,
    };
    let workload = case.workload.as_ref().map(|w| workload(w, run));
    let systems = case.systems.clone();
    Ok(Cell {
        name,
        case: case_name.to_owned(),
        links,
        measure,
        beside,
        workload,
        chain: None,
        open_edges: Vec::new(),
        systems,
        figure: case.figure,
        figure_is_named: false,
    })
}

fn link(topic: String, spec: &CaseSpec, run: &RunSpec, placement: &Placement) -> Result<Link> {
    let size = spec.size.context("it has no `size`: add for example `size: 1 MiB`")?;
    let pace = spec.rate_hz.map_or(Pace::PingPong, Pace::RateHz);
    let first = placement.usable_cpus.first().copied();
    let (publisher_cpu, subscriber_cpus) = match spec.cpus.unwrap_or(CpusSpec::Apart) {
        CpusSpec::Apart => (placement.publisher_cpu, placement.subscriber_cpus.clone()),
        CpusSpec::One => (first, first.into_iter().collect()),
        CpusSpec::Any => (None, Vec::new()),
    };
    Ok(Link {
        topic,
        size: usize::try_from(size.0)?,
        subscribers: spec.subscribers.unwrap_or(1),
        pace,
        reach: spec.reach.map_or(Reach::Host, Into::into),
        wait: spec
            .wait
            .as_deref()
            .map_or(Ok(Wait::Block), str::parse)
            .map_err(anyhow::Error::msg)?,
        take: spec.take.unwrap_or(crate::scenario::TakeSpec::Borrow).into(),
        payload: spec.payload.unwrap_or(crate::scenario::PayloadSpec::Untouched).into(),
        reliability: spec
            .reliability
            .unwrap_or(crate::scenario::ReliabilitySpec::BestEffort)
            .into(),
        depth: spec.depth.unwrap_or(1),
        processing_us: spec.processing_us.unwrap_or(0),
        priority: spec.priority.unwrap_or(placement.priority),
        publisher_cpu,
        subscriber_cpus,
        messages: messages(run, pace),
        warm_up: run.warm_up.unwrap_or(100),
    })
}

/// Returns the chain of a cell, with Driveline on all edges.
fn chain(
    spec: &ChainSpec,
    case: &CaseSpec,
    run: &RunSpec,
    placement: &Placement,
) -> Result<ChainJob> {
    ensure!(
        case.reach != Some(ReachSpec::Network),
        "the stages of a chain are threads of one process or processes of one host: give it the \
         reach process or host"
    );
    let cpus = &placement.usable_cpus;
    let cpu_of = |index: usize| match case.cpus.unwrap_or(CpusSpec::Any) {
        CpusSpec::Apart => index.checked_rem(cpus.len()).and_then(|turn| cpus.get(turn)).copied(),
        CpusSpec::One => cpus.first().copied(),
        CpusSpec::Any => None,
    };
    let stage = |(index, (name, s)): (usize, (&String, &StageSpec))| -> Result<_> {
        Ok(bench_chain::StageSpec {
            name: name.clone(),
            inputs: s.inputs.clone(),
            output: s.output.clone(),
            work: s.work.clone(),
            parameters: parameters(s, |variable| std::env::var_os(variable))
                .with_context(|| format!("stage {name}"))?,
            cpu: s.cpu.or_else(|| cpu_of(index)),
        })
    };
    let edge = |(topic, size): (&String, &ByteSize)| -> Result<_> {
        Ok((
            topic.clone(),
            bench_chain::EdgeSpec { system: System::Driveline, size: usize::try_from(size.0)? },
        ))
    };
    // A source without a rate runs as fast as it can; its duration is unknown.
    let rate = case.rate_hz.map_or(Pace::PingPong, Pace::RateHz);
    Ok(ChainJob {
        stages: spec.stages.iter().enumerate().map(stage).collect::<Result<_>>()?,
        edges: spec.edges.iter().map(edge).collect::<Result<_>>()?,
        reach: case.reach.map_or(Reach::Host, Into::into),
        rate_hz: case.rate_hz,
        warm_up: run.warm_up.unwrap_or(10),
        messages: messages(run, rate),
        wait: case
            .wait
            .as_deref()
            .map_or(Ok(Wait::Block), str::parse)
            .map_err(anyhow::Error::msg)?,
        reliability: case.reliability.map_or(Reliability::BestEffort, Into::into),
        depth: case.depth.unwrap_or(1),
        priority: case.priority.unwrap_or(0),
    })
}

impl CaseSpec {
    /// Returns the first key of this case that describes the cable between two hosts.
    pub(crate) fn of_cable(&self) -> Option<&'static str> {
        let keys = [
            ("cable_mbit", self.cable_mbit.is_some()),
            ("loss_percent", self.loss_percent.is_some()),
            ("delay_ms", self.delay_ms.is_some()),
        ];
        keys.into_iter().find_map(|(key, said)| said.then_some(key))
    }

    /// Returns these settings; unset ones are taken from `base`, except `measure`, `links`,
    /// `workload` and `driveline_edges`, which only a case itself sets.
    fn over(&self, base: &Self) -> Self {
        Self {
            size: self.size.or(base.size),
            rate_hz: self.rate_hz.or(base.rate_hz),
            subscribers: self.subscribers.or(base.subscribers),
            // `copies` of a case with several links does not apply to its single links.
            copies: self.copies.or(if self.links.is_empty() && base.links.is_empty() {
                base.copies
            } else {
                None
            }),
            reach: self.reach.or(base.reach),
            wait: self.wait.clone().or_else(|| base.wait.clone()),
            take: self.take.or(base.take),
            payload: self.payload.or(base.payload),
            reliability: self.reliability.or(base.reliability),
            depth: self.depth.or(base.depth),
            processing_us: self.processing_us.or(base.processing_us),
            priority: self.priority.or(base.priority),
            cpus: self.cpus.or(base.cpus),
            measure: self.measure,
            links: self.links.clone(),
            hogs: self.hogs.or(base.hogs),
            quota_percent: self.quota_percent.or(base.quota_percent),
            cable_mbit: self.cable_mbit.or(base.cable_mbit),
            loss_percent: self.loss_percent.or(base.loss_percent),
            delay_ms: self.delay_ms.or(base.delay_ms),
            deployment: self.deployment.or(base.deployment),
            favour: self.favour.clone().or_else(|| base.favour.clone()),
            workload: self.workload.clone(),
            driveline_edges: self.driveline_edges.clone(),
            systems: self.systems.clone().or_else(|| base.systems.clone()),
            figure: self.figure.or(base.figure),
        }
    }
}

impl Vary {
    /// Returns the number of combinations.
    fn combinations(&self) -> usize {
        let lists = [
            self.size.len(),
            self.rate_hz.len(),
            self.subscribers.len(),
            self.copies.len(),
            self.reach.len(),
            self.wait.len(),
            self.take.len(),
            self.payload.len(),
            self.reliability.len(),
            self.depth.len(),
            self.processing_us.len(),
            self.priority.len(),
            self.hogs.len(),
            self.quota_percent.len(),
            self.cable_mbit.len(),
            self.loss_percent.len(),
            self.delay_ms.len(),
            self.deployment.len(),
        ];
        lists.into_iter().fold(1, |all, n| all.saturating_mul(n.max(1)))
    }
}

/// Returns the case once for each combination, with the words for the varied values.
fn combinations(vary: &Vary, case: CaseSpec) -> Vec<(Vec<String>, CaseSpec)> {
    let mut all = vec![(Vec::new(), case)];
    // Each dimension multiplies the existing cells. A dimension with a single value adds no word to
    // their names.
    macro_rules! dimension {
        ($field:ident, $word:expr) => {
            if !vary.$field.is_empty() {
                let word = $word;
                all = all
                    .into_iter()
                    .flat_map(|(words, case)| {
                        vary.$field.iter().map(move |value| {
                            let mut words: Vec<String> = words.clone();
                            if vary.$field.len() > 1 {
                                words.push(word(value));
                            }
                            (words, CaseSpec { $field: Some(value.clone()), ..case.clone() })
                        })
                    })
                    .collect();
            }
        };
    }
    dimension!(size, ByteSize::to_string);
    dimension!(rate_hz, |hz: &f64| format!("{hz} Hz"));
    dimension!(subscribers, |n: &usize| format!("1→{n}"));
    dimension!(copies, |n: &usize| format!("{n} links"));
    dimension!(reach, |r: &crate::scenario::ReachSpec| spaced(r));
    dimension!(wait, |w: &String| w.clone());
    dimension!(take, |t: &crate::scenario::TakeSpec| spaced(t));
    dimension!(payload, |p: &crate::scenario::PayloadSpec| spaced(p));
    dimension!(reliability, |r: &crate::scenario::ReliabilitySpec| spaced(r));
    dimension!(depth, |d: &u32| format!("depth {d}"));
    dimension!(processing_us, |us: &u64| format!("{us} µs work"));
    dimension!(priority, |p: &u8| if *p == 0 {
        "time sharing".to_owned()
    } else {
        format!("FIFO {p}")
    });
    dimension!(hogs, |n: &usize| format!("{n} hogs"));
    dimension!(quota_percent, |p: &u32| format!("{p} % of a CPU"));
    dimension!(cable_mbit, |m: &u32| format!("{m} Mbit/s"));
    dimension!(loss_percent, |p: &f64| format!("{p} % lost"));
    dimension!(delay_ms, |ms: &f64| format!("{ms} ms each way"));
    dimension!(deployment, |d: &DeploymentSpec| d.label().to_owned());
    all
}
