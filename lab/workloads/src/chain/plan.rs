// SPDX-License-Identifier: Apache-2.0
//! Graph file of a run: the chain among its background, for a seed.

use super::component::{END_CLASS, PERIODIC_CLASS, SOURCE_CLASS, STAGE_CLASS};
use super::table::{CHAIN, END, MODULES, SOURCE, SOURCE_BYTES, SOURCE_PERIOD, SOURCE_TOPIC, When};
use super::{Chain, Deployment};
use crate::record::Random;
use crate::work::Crunch;
use anyhow::Result;
use driveline::{ParameterValue, Reach};
use driveline_graph::model::{
    ComponentSpec, ExecutorSpec, GraphFile, GroupSpec, InputSpec, ModuleSpec, OutputSpec,
    TopicSpec, TriggerSpec,
};
use driveline_graph::{ByteSize, Milliseconds};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// Maximum relative difference between a timer's period and its nominal one: timers of different
/// nodes drift.
const UNSYNCHRONISED: f64 = 0.005;
/// Maximum time of one call of a background callback, so that the load comes from the rate and not
/// from a single node.
const LONGEST_WORK: Duration = Duration::from_millis(10);

/// One component.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) module: &'static str,
    class: &'static str,
    /// Nominal rate of its callback.
    pub(super) rate_hz: f64,
    pub(super) period: Option<Duration>,
    pub(super) input: Option<String>,
    pub(super) output: String,
    pub(super) bytes: u32,
    pub(super) work: Duration,
}

/// The whole system.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) nodes: Vec<Node>,
}

impl Plan {
    pub(super) fn new(with: &Chain, seed: u64) -> Self {
        let mut random = Random::new(seed, "timers");
        let mut nodes = chain(&mut random);
        let budget = with.load * with.cpus() as f64 - load(&nodes);
        nodes.extend(background(
            with.background_nodes,
            budget.max(0.0),
            &mut Random::new(seed, "background"),
        ));
        Self { nodes }
    }

    /// Returns the chain, and the other nodes. They have no topics in common.
    pub(super) fn parted(&self) -> (Self, Self) {
        let (chain, others) = self.nodes.split_at(self.nodes.len().min(1 + CHAIN.len()));
        (Self { nodes: chain.to_vec() }, Self { nodes: others.to_vec() })
    }

    /// Returns the number of CPUs that it uses.
    pub(super) fn load(&self) -> f64 {
        load(&self.nodes)
    }

    /// Returns the graph file. `library` is any file: the components are compiled into the program
    /// that runs the modules.
    pub(super) fn graph(
        &self,
        with: &Chain,
        unit: Crunch,
        library: &Path,
        account: &Path,
    ) -> GraphFile {
        let module_of: BTreeMap<&str, &str> =
            self.nodes.iter().map(|n| (n.output.as_str(), n.module)).collect();
        let process = |module: &'static str| match with.deployment {
            Deployment::SingleProcess => "all",
            Deployment::ProcessPerModule => module,
        };
        let mut graph: GraphFile = GraphFile {
            driveline: 1,
            name: Some("chain".into()),
            domain: None,
            domain_group: None,
            on_launcher_lost: None,
            include: Vec::new(),
            params_files: Vec::new(),
            topics: Default::default(),
            modules: Default::default(),
            modes: Default::default(),
            initial_mode: None,
            health_topic: None,
        };
        for n in &self.nodes {
            let crosses = |other: &&Node| {
                other.input.as_deref() == Some(&n.output)
                    && process(other.module) != process(n.module)
            };
            let reach = if self.nodes.iter().find(crosses).is_some() {
                Reach::Host
            } else {
                Reach::Process
            };
            let topic = TopicSpec {
                reach,
                max_payload: Some(ByteSize(n.bytes.into())),
                external: true,
                ..TopicSpec::default()
            };
            graph.topics.insert(n.output.clone(), topic);
        }
        for (module, _) in MODULES {
            let spec = graph.modules.entry(process(module).to_owned()).or_default();
            spec.executors.insert(
                module.to_owned(),
                ExecutorSpec { threads: with.threads, ..ExecutorSpec::default() },
            );
            for n in self.nodes.iter().filter(|n| n.module == module) {
                debug_assert!(n.input.as_deref().is_none_or(|i| module_of.contains_key(i)));
                spec.components.insert(n.name.clone(), n.component(unit, library, account));
            }
        }
        graph.modules.retain(|_, m: &mut ModuleSpec| !m.components.is_empty());
        graph
    }
}

fn load(nodes: &[Node]) -> f64 {
    nodes.iter().map(|n| n.rate_hz * n.work.as_secs_f64()).sum()
}

impl Node {
    fn component(&self, unit: Crunch, library: &Path, account: &Path) -> ComponentSpec {
        let work = unit.for_duration(self.work);
        let integer = |n: u64| ParameterValue::Integer(i64::try_from(n).unwrap_or(i64::MAX));
        let mut parameters =
            vec![("bytes", integer(self.bytes.into())), ("limit", integer(work.limit.into()))];
        parameters.push(("times", integer(work.times.into())));
        let period = self.period.map_or(0, |p| p.as_nanos() as u64);
        let mut trigger = None;
        match self.class {
            SOURCE_CLASS => parameters.push(("period_ns", integer(period))),
            END_CLASS => {
                parameters.push(("account", ParameterValue::Text(account.display().to_string())))
            }
            _ => {
                trigger = self.period.map(|p| TriggerSpec::Timer {
                    period_ms: Milliseconds(p.as_secs_f64() * 1e3),
                    max_age_ms: None,
                })
            }
        }
        ComponentSpec {
            library: library.to_owned(),
            class: self.class.into(),
            executor: Some(self.module.to_owned()),
            callback_group: GroupSpec::MutuallyExclusive,
            parameters: parameters.into_iter().map(|(n, v)| (n.to_owned(), v)).collect(),
            inputs: self
                .input
                .iter()
                .map(|i| ("in".to_owned(), InputSpec::Topic(i.clone())))
                .collect(),
            outputs: [("out".to_owned(), OutputSpec::Topic(self.output.clone()))]
                .into_iter()
                .collect(),
            trigger,
            budget_ms: None,
            on_overrun: None,
        }
    }
}

fn unsynchronised(period: Duration, random: &mut Random) -> Duration {
    period.mul_f64(1.0 + UNSYNCHRONISED * (2.0 * random.share() - 1.0))
}

fn chain(random: &mut Random) -> Vec<Node> {
    let mut rate_hz = 1.0 / SOURCE_PERIOD.as_secs_f64();
    let mut nodes = vec![Node {
        name: SOURCE.into(),
        module: "sensing",
        class: SOURCE_CLASS,
        rate_hz,
        period: Some(unsynchronised(SOURCE_PERIOD, random)),
        input: None,
        output: SOURCE_TOPIC.into(),
        bytes: SOURCE_BYTES,
        work: Duration::ZERO,
    }];
    let mut input = SOURCE_TOPIC;
    for c in CHAIN {
        let nominal = match c.when {
            When::Message(_) => None,
            When::Timer(ms) => Some(Duration::from_millis(ms.into())),
        };
        if let Some(period) = nominal {
            rate_hz = 1.0 / period.as_secs_f64();
        }
        nodes.push(Node {
            name: c.component.into(),
            module: c.module,
            class: if c.component == END { END_CLASS } else { STAGE_CLASS },
            rate_hz,
            period: nominal.map(|p| unsynchronised(p, random)),
            input: Some(input.into()),
            output: c.output.into(),
            bytes: c.bytes,
            work: Duration::from_micros(c.work_us.into()),
        });
        input = c.output;
    }
    nodes
}

/// Returns the number of background nodes of each module, in the published proportion.
pub(super) fn shares(count: u32) -> [u32; MODULES.len()] {
    let own = |module: &str| {
        let nodes: std::collections::BTreeSet<_> =
            CHAIN.iter().filter(|c| c.module == module).map(|c| c.node).collect();
        nodes.len() as u32 + u32::from(module == "sensing")
    };
    let free = MODULES.map(|(module, nodes)| nodes - own(module));
    let all: u32 = free.iter().sum();
    let mut shares = free.map(|n| n * count / all);
    // The modules that lost most by rounding get the remaining nodes.
    let mut order: Vec<usize> = (0..shares.len()).collect();
    order.sort_by_key(|&i| std::cmp::Reverse(free[i] * count % all));
    for &i in order.iter().take((count - shares.iter().sum::<u32>()) as usize) {
        shares[i] += 1;
    }
    shares
}

/// Makes nodes of three kinds: some have no input and publish at their own times, some relay each
/// message of their input, and some read their input and publish at their own times.
fn background(count: u32, budget: f64, random: &mut Random) -> Vec<Node> {
    const PERIODS_MS: [u64; 6] = [20, 50, 100, 100, 200, 500];
    let mut nodes: Vec<Node> = Vec::new();
    for ((module, _), share) in MODULES.into_iter().zip(shares(count)) {
        let first = nodes.len();
        for k in 0..share {
            let period = || {
                Duration::from_millis(PERIODS_MS[(k as usize + module.len()) % PERIODS_MS.len()])
            };
            let own = &nodes[first..];
            // The input mostly comes from a node of the same module, sometimes from any earlier
            // node.
            let from = if own.is_empty() || random.share() < 0.2 { nodes.as_slice() } else { own };
            let source =
                from.get((random.share() * from.len() as f64) as usize).filter(|_| k % 3 != 0);
            let nominal = if source.is_none() || k % 4 == 1 { Some(period()) } else { None };
            let rate_hz = nominal
                .map_or_else(|| source.map_or(1.0, |s| s.rate_hz), |p| 1.0 / p.as_secs_f64());
            nodes.push(Node {
                name: format!("background_{module}_{k}"),
                module,
                class: if source.is_some() { STAGE_CLASS } else { PERIODIC_CLASS },
                rate_hz,
                period: nominal.map(|p| unsynchronised(p, random)),
                input: source.map(|s| s.output.clone()),
                output: format!("background/{module}/{k}"),
                // From 1 to 128 kB; each doubling is equally likely.
                bytes: (1000.0 * 2f64.powf(7.0 * random.share())) as u32,
                // At this point, the work is only a weight; it is scaled below.
                work: Duration::from_secs_f64(0.5 + random.share()),
            });
        }
    }
    let weight = load(&nodes);
    for n in &mut nodes {
        n.work = n.work.mul_f64(budget / weight).min(LONGEST_WORK);
    }
    nodes
}

/// Returns the graph as a file: JSON is valid YAML. Unset keys are left out.
pub(crate) fn text(graph: &GraphFile) -> Result<String> {
    fn without_nulls(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.retain(|_, v| !v.is_null());
                map.values_mut().for_each(without_nulls);
            }
            Value::Array(list) => list.iter_mut().for_each(without_nulls),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(graph)?;
    without_nulls(&mut value);
    Ok(serde_json::to_string_pretty(&value)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn background_nodes_are_shared_out_as_published() {
        // 191 published nodes minus the 14 nodes of the chain and the lidar.
        assert_eq!(shares(176).iter().sum::<u32>(), 176);
        let with_own: Vec<u32> = MODULES
            .iter()
            .zip(shares(176))
            .map(|((m, _), s)| {
                let own: BTreeSet<_> =
                    CHAIN.iter().filter(|c| c.module == *m).map(|c| c.node).collect();
                s + own.len() as u32 + u32::from(*m == "sensing")
            })
            .collect();
        assert_eq!(with_own, MODULES.map(|(_, n)| n));
        for n in [0, 1, 7, 100, 500] {
            assert_eq!(shares(n).iter().sum::<u32>(), n);
        }
    }

    #[test]
    fn the_plan_is_the_seeds_and_has_the_load_that_was_asked_for() {
        let with = Chain { load: 0.5, ..Chain::default() };
        let plan = |seed| Plan::new(&with, seed);
        let names = |p: &Plan| {
            p.nodes
                .iter()
                .map(|n| format!("{} {:?} {}", n.name, n.input, n.bytes))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&plan(1)), names(&plan(1)));
        assert_ne!(names(&plan(1)), names(&plan(2)));
        for seed in 0..20 {
            let p = plan(seed);
            assert_eq!(p.nodes.len(), 18 + 176);
            let outputs: BTreeSet<_> = p.nodes.iter().map(|n| n.output.as_str()).collect();
            assert_eq!(outputs.len(), p.nodes.len());
            assert!(p.nodes.iter().filter_map(|n| n.input.as_deref()).all(|i| outputs.contains(i)));
            let asked = 0.5 * with.cpus() as f64;
            // The load differs only if the chain alone needs more, or if the work of background
            // nodes was limited.
            assert!(
                (p.load() - asked).abs() < 0.05 * asked || with.cpus() > 4 || asked < 0.6,
                "{} {asked}",
                p.load()
            );
        }
    }
}
