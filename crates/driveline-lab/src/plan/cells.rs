// SPDX-License-Identifier: Apache-2.0
//! Every combination of a scenario's cases and of what varies: what one system does at a time.

use super::{messages, too_small, workload};
use crate::archive::{Link, Workload};
use crate::scenario::{CaseSpec, ChainSpec, CpusSpec, RunSpec, Scenario, StageSpec, Vary};
use anyhow::{Context, Result, ensure};
use driveline_bench::chain::{self as bench_chain, ChainJob};
use driveline_bench::harness::{Pace, Reach, Reliability, System, Wait};
use driveline_bench::machine::memory;
use driveline_bench::{Beside, Favour, Placement, Quota, bytes, memory_needed};
use driveline_runtime::graph::ByteSize;
use std::time::Duration;

/// One combination, before it is said who does it.
pub(super) struct Cell {
    /// Unique within the scenario.
    pub(super) name: String,
    /// The scenario's case.
    pub(super) case: String,
    pub(super) links: Vec<Link>,
    pub(super) beside: Beside,
    pub(super) workload: Option<Workload>,
    /// With nobody on its edges but Driveline on those that are always its own.
    pub(super) chain: Option<ChainJob>,
    /// Topics whose carrier is measured.
    pub(super) open_edges: Vec<String>,
    pub(super) systems: Option<Vec<String>>,
}

impl Cell {
    /// Why nobody can do it on this machine.
    pub(super) fn refused(&self, placement: &Placement) -> Option<String> {
        let single = self.links.len() == 1 && self.beside.hogs == 0 && self.beside.quota_percent.is_none() && self.beside.favour.is_none();
        let needed: u64 = self.links.iter().map(|l| memory_needed(&l.job(&System::Driveline))).sum();
        if let Some(available) = memory("MemAvailable:").filter(|available| needed >= *available) {
            return Some(format!("it needs about {} MiB of memory, and {} MiB are available", needed >> 20, available >> 20));
        }
        if let Some(Err(e)) = self.beside.quota_percent.map(Quota::new) {
            return Some(format!("{e:#}"));
        }
        self.links.iter().find_map(|l| {
            if l.pace == Pace::PingPong && l.subscribers > 1 {
                return Some("a ping-pong has one subscriber: give a rate_hz".into());
            }
            if !single && (l.pace == Pace::PingPong || l.reach == Reach::Process) {
                return Some("several links, load, limits and preference go with processes and a rate_hz".into());
            }
            let here = Placement { publisher_cpu: l.publisher_cpu, subscriber_cpus: l.subscriber_cpus.clone(), ..placement.clone() };
            too_small(l).or_else(|| here.check_spinning(l.wait, l.pace, l.subscribers * self.links.len()).err().map(|e| e.to_string()))
        })
    }
}

/// All cells, in the order of the file.
pub(super) fn cells(scenario: &Scenario, run: &RunSpec, placement: &Placement) -> Result<Vec<Cell>> {
    let mut cells = Vec::new();
    for (name, case) in &scenario.cases {
        if run.cases.as_ref().is_some_and(|chosen| !chosen.contains(name)) {
            continue;
        }
        let case = case.over(&scenario.link);
        // What varies are links and chains; a workload's parameters are its own.
        let vary = if case.workload.is_some() { &Vary::default() } else { &scenario.vary };
        for (combination, case) in combinations(vary, case) {
            let mut parts = Vec::new();
            if scenario.cases.len() > 1 || combination.is_empty() {
                parts.push(name.clone());
            }
            parts.extend(combination);
            let cell_name = parts.join(" · ");
            let watch_every = scenario.watch_every_ms.map(Duration::from_millis);
            let mut cell = cell(cell_name, name, &case, scenario.chain.is_none(), run, placement, watch_every)
                .with_context(|| format!("case {name}"))?;
            if let Some(spec) = &scenario.chain {
                cell.chain = Some(chain(spec, &case, run).with_context(|| format!("case {name}"))?);
                cell.open_edges = spec.edges.keys().filter(|t| !case.driveline_edges.contains(t)).cloned().collect();
            }
            cells.push(cell);
        }
    }
    Ok(cells)
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
    let last_cpu = placement.usable_cpus.last().copied();
    let favour = case.favour.as_ref().map(|f| Favour {
        subscriber: f.subscriber.unwrap_or_else(|| links.iter().map(|l| l.subscribers).max().unwrap_or(1) - 1),
        priority: f.priority,
        exclusive_cpu: last_cpu.filter(|_| f.exclusive_cpu),
    });
    let beside = Beside { hogs: case.hogs.unwrap_or(0), quota_percent: case.quota_percent, favour, watch_every: watch };
    let workload = case.workload.as_ref().map(|w| workload(w, run));
    let systems = case.systems.clone();
    Ok(Cell { name, case: case_name.to_owned(), links, beside, workload, chain: None, open_edges: Vec::new(), systems })
}

fn link(topic: String, spec: &CaseSpec, run: &RunSpec, placement: &Placement) -> Result<Link> {
    let size = spec.size.context("it says no size: add for example `size: 1 MiB`")?;
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
        wait: spec.wait.as_deref().map_or(Ok(Wait::Block), str::parse).map_err(anyhow::Error::msg)?,
        take: spec.take.unwrap_or(crate::scenario::TakeSpec::Borrow).into(),
        payload: spec.payload.unwrap_or(crate::scenario::PayloadSpec::Untouched).into(),
        reliability: spec.reliability.unwrap_or(crate::scenario::ReliabilitySpec::BestEffort).into(),
        depth: spec.depth.unwrap_or(1),
        processing_us: spec.processing_us.unwrap_or(0),
        priority: spec.priority.unwrap_or(placement.priority),
        publisher_cpu,
        subscriber_cpus,
        messages: messages(run, pace),
        warm_up: run.warm_up.unwrap_or(100),
    })
}

/// The chain as far as it does not depend on who is measured.
fn chain(spec: &ChainSpec, case: &CaseSpec, run: &RunSpec) -> Result<ChainJob> {
    let stage = |(name, s): (&String, &StageSpec)| bench_chain::StageSpec {
        name: name.clone(),
        inputs: s.inputs.clone(),
        output: s.output.clone(),
        work: s.work.clone(),
        parameters: s.parameters.clone(),
        cpu: s.cpu,
    };
    let edge = |(topic, size): (&String, &ByteSize)| -> Result<_> {
        Ok((topic.clone(), bench_chain::EdgeSpec { system: System::Driveline, size: usize::try_from(size.0)? }))
    };
    // A source without a rate is as fast as it can be; how long that takes, nobody knows.
    let rate = case.rate_hz.map_or(Pace::PingPong, Pace::RateHz);
    Ok(ChainJob {
        stages: spec.stages.iter().map(stage).collect(),
        edges: spec.edges.iter().map(edge).collect::<Result<_>>()?,
        rate_hz: case.rate_hz,
        warm_up: run.warm_up.unwrap_or(10),
        messages: messages(run, rate),
        wait: case.wait.as_deref().map_or(Ok(Wait::Block), str::parse).map_err(anyhow::Error::msg)?,
        reliability: case.reliability.map_or(Reliability::BestEffort, Into::into),
        depth: case.depth.unwrap_or(1),
        priority: case.priority.unwrap_or(0),
    })
}

impl CaseSpec {
    /// This, and `base` where this says nothing.
    fn over(&self, base: &Self) -> Self {
        Self {
            size: self.size.or(base.size),
            rate_hz: self.rate_hz.or(base.rate_hz),
            subscribers: self.subscribers.or(base.subscribers),
            // Copies of the whole are not copies of a part.
            copies: self.copies.or(if self.links.is_empty() && base.links.is_empty() { base.copies } else { None }),
            reach: self.reach.or(base.reach),
            wait: self.wait.clone().or_else(|| base.wait.clone()),
            take: self.take.or(base.take),
            payload: self.payload.or(base.payload),
            reliability: self.reliability.or(base.reliability),
            depth: self.depth.or(base.depth),
            processing_us: self.processing_us.or(base.processing_us),
            priority: self.priority.or(base.priority),
            cpus: self.cpus.or(base.cpus),
            links: self.links.clone(),
            hogs: self.hogs.or(base.hogs),
            quota_percent: self.quota_percent.or(base.quota_percent),
            favour: self.favour.clone().or_else(|| base.favour.clone()),
            workload: self.workload.clone(),
            driveline_edges: self.driveline_edges.clone(),
            systems: self.systems.clone().or_else(|| base.systems.clone()),
        }
    }
}

/// The case once for each combination, with words for what varies.
fn combinations(vary: &Vary, case: CaseSpec) -> Vec<(Vec<String>, CaseSpec)> {
    let mut all = vec![(Vec::new(), case)];
    // Each dimension multiplies what is there so far; one with a single value needs no word.
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
    dimension!(size, |s: &ByteSize| bytes(s.0 as usize));
    dimension!(rate_hz, |hz: &f64| format!("{hz} Hz"));
    dimension!(subscribers, |n: &usize| format!("1→{n}"));
    dimension!(copies, |n: &usize| format!("{n} links"));
    dimension!(reach, |r: &crate::scenario::ReachSpec| word(r));
    dimension!(wait, |w: &String| w.clone());
    dimension!(take, |t: &crate::scenario::TakeSpec| word(t));
    dimension!(payload, |p: &crate::scenario::PayloadSpec| word(p));
    dimension!(reliability, |r: &crate::scenario::ReliabilitySpec| word(r));
    dimension!(depth, |d: &u32| format!("depth {d}"));
    dimension!(processing_us, |us: &u64| format!("{us} µs work"));
    dimension!(priority, |p: &u8| if *p == 0 { "time sharing".to_owned() } else { format!("FIFO {p}") });
    dimension!(hogs, |n: &usize| format!("{n} hogs"));
    dimension!(quota_percent, |p: &u32| format!("{p} % of a CPU"));
    all
}

/// As the file has it.
fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(|s| s.replace('_', " "))).unwrap_or_default()
}
