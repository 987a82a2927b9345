// SPDX-License-Identifier: Apache-2.0
//! Shape of a chain: writers and readers of each topic, and the order of the stages.

use super::{ChainJob, DRIVELINE_PEER, DRIVELINE_VARIANT, StageSpec};
use crate::harness::System;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeMap;

/// Samples of the source after the measured ones. On an edge that keeps the newest sample, later
/// samples must replace measured ones, as in the middle of a drive; otherwise only the end mark
/// would replace the last ones.
pub(crate) const COOL_DOWN: u64 = 3;
/// Bytes of a message's head.
pub(crate) const HEAD: usize = 48;

/// A chain whose parts fit together.
pub(crate) struct Shape<'a> {
    pub(crate) job: &'a ChainJob,
    /// Indices of the stages in order of the data: the source first, writers before their readers.
    pub(crate) order: Vec<usize>,
    /// The writer of each topic.
    pub(crate) writers: BTreeMap<&'a str, usize>,
    /// The readers of each topic, in the order of stages.
    pub(crate) readers: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Shape<'a> {
    pub(crate) fn new(job: &'a ChainJob) -> Result<Self> {
        let (mut writers, mut readers) = (BTreeMap::new(), BTreeMap::<&str, Vec<usize>>::new());
        for (index, stage) in job.stages.iter().enumerate() {
            let name = &stage.name;
            let is_name = |n: &str| {
                !n.is_empty()
                    && n.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            };
            ensure!(
                is_name(name),
                "the stage '{name}' needs a name of lower-case letters, digits and '_'"
            );
            ensure!(
                job.stages.iter().filter(|s| s.name == *name).count() == 1,
                "two stages are called '{name}'"
            );
            ensure!(
                stage.output.is_some() || !stage.inputs.is_empty(),
                "the stage '{name}' has neither inputs nor an output"
            );
            for (i, topic) in stage.inputs.iter().enumerate() {
                ensure!(
                    !stage.inputs.iter().skip(i + 1).any(|t| t == topic),
                    "the stage '{name}' has the input '{topic}' twice"
                );
                readers.entry(topic.as_str()).or_default().push(index);
            }
            if let Some(topic) = &stage.output
                && writers.insert(topic.as_str(), index).is_some()
            {
                bail!(
                    "the topic '{topic}' has two writers, '{name}' and another one: give each \
                     stage a topic of its own"
                );
            }
        }
        for (topic, edge) in &job.edges {
            ensure!(writers.contains_key(topic.as_str()), "no stage writes the topic '{topic}'");
            ensure!(readers.contains_key(topic.as_str()), "no stage reads the topic '{topic}'");
            ensure!(
                edge.size > HEAD,
                "messages of the topic '{topic}' have {} bytes: they must be longer than the \
                 {HEAD} bytes of a message's head",
                edge.size
            );
        }
        for topic in writers.keys().chain(readers.keys()) {
            ensure!(
                job.edges.contains_key(*topic),
                "no edge names the system that carries the topic '{topic}': add it to the edges"
            );
        }
        let sources = job.stages.iter().filter(|s| s.inputs.is_empty()).count();
        ensure!(
            sources == 1,
            "a chain has one source, a stage without inputs; this one has {sources}"
        );
        ensure!(
            job.rate_hz.is_none_or(|hz| hz > 0.0 && hz.is_finite()),
            "the rate must be above 0 Hz"
        );
        ensure!(job.messages > 0, "the number of messages is 0: raise it");
        let mut shape = Self { job, order: Vec::new(), writers, readers };
        shape.order = shape.sorted()?;
        Ok(shape)
    }

    pub(crate) fn stage(&self, index: usize) -> Result<&'a StageSpec> {
        self.job.stages.get(index).context("there is no such stage")
    }

    /// Returns the writer of the topic that triggers a stage; a source has no trigger.
    pub(crate) fn triggered_by(&self, stage: &StageSpec) -> Option<usize> {
        self.writers.get(stage.inputs.first()?.as_str()).copied()
    }

    fn sorted(&self) -> Result<Vec<usize>> {
        let mut order: Vec<usize> = Vec::new();
        while order.len() < self.job.stages.len() {
            let before = order.len();
            for (index, stage) in self.job.stages.iter().enumerate() {
                let comes_after =
                    |t: &String| self.writers.get(t.as_str()).is_some_and(|w| order.contains(w));
                if !order.contains(&index) && stage.inputs.iter().all(comes_after) {
                    order.push(index);
                }
            }
            if order.len() == before {
                let left: Vec<_> = self
                    .job
                    .stages
                    .iter()
                    .enumerate()
                    .filter(|(i, _)| !order.contains(i))
                    .map(|(_, s)| s.name.as_str())
                    .collect();
                bail!("these stages wait for each other in a circle: {}", left.join(", "));
            }
        }
        Ok(order)
    }

    /// Returns the systems of a stage's edges.
    fn systems_of(&self, stage: &'a StageSpec) -> impl Iterator<Item = &'a System> {
        stage
            .inputs
            .iter()
            .chain(&stage.output)
            .filter_map(|t| self.job.edges.get(t))
            .map(|e| &e.system)
    }

    /// Returns the system whose program runs a stage. A stage with only Driveline's edges runs in
    /// the same program as the other stages, so that the edges are the only difference.
    pub(crate) fn program_of(&self, stage: &'a StageSpec) -> Result<System> {
        let mut own = self.systems_of(stage).filter(|s| **s != System::Driveline);
        let first = own.next();
        if let (Some(a), Some(b)) = (first, own.find(|s| Some(*s) != first)) {
            bail!(
                "the stage '{}' has edges of {a} and of {b}: besides those of driveline, it can \
                 have edges of one system",
                stage.name
            );
        }
        if let Some(system @ (System::Futex | System::Spin | System::Memcpy)) = first {
            bail!("the stage '{}' has an edge of {system}, which carries no payload", stage.name);
        }
        let others =
            || self.job.edges.values().map(|e| &e.system).find(|s| **s != System::Driveline);
        Ok(first.or_else(others).cloned().unwrap_or_else(|| System::Peer {
            name: DRIVELINE_PEER.into(),
            variant: DRIVELINE_VARIANT.into(),
        }))
    }

    /// Returns the system whose program runs all stages, as threads of one process.
    pub(crate) fn common_program(&self) -> Result<System> {
        let mut systems =
            self.job.stages.iter().map(|s| self.program_of(s)).collect::<Result<Vec<_>>>()?;
        systems.dedup();
        match systems.as_slice() {
            [system] => Ok(system.clone()),
            _ => bail!(
                "in one process all edges are carried by the same system, or by driveline; this \
                 chain has those of {}",
                systems.iter().map(System::to_string).collect::<Vec<_>>().join(", ")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::EdgeSpec;
    use super::*;
    use crate::harness::{Reach, Reliability, Wait};

    fn job(stages: &[(&str, &[&str], Option<&str>)], systems: &[(&str, &str)]) -> ChainJob {
        let stage = |(name, inputs, output): &(&str, &[&str], Option<&str>)| StageSpec {
            name: (*name).into(),
            inputs: inputs.iter().map(|i| (*i).into()).collect(),
            output: output.map(Into::into),
            work: "copy".into(),
            parameters: serde_json::Map::new(),
            cpu: None,
        };
        ChainJob {
            stages: stages.iter().map(stage).collect(),
            edges: systems
                .iter()
                .map(|(t, s)| ((*t).into(), EdgeSpec { system: s.parse().unwrap(), size: 100 }))
                .collect(),
            reach: Reach::Host,
            rate_hz: Some(10.0),
            warm_up: 0,
            messages: 1,
            wait: Wait::Block,
            reliability: Reliability::BestEffort,
            depth: 1,
            priority: 0,
        }
    }

    #[test]
    fn writers_come_before_readers_whatever_the_order_of_the_stages() {
        let j = job(
            &[("c", &["y", "x"], None), ("b", &["x"], Some("y")), ("a", &[], Some("x"))],
            &[("x", "p/v"), ("y", "driveline")],
        );
        let shape = Shape::new(&j).unwrap();
        assert_eq!(shape.order, [2, 1, 0]);
        assert_eq!(shape.triggered_by(&j.stages[0]), Some(1));
        assert_eq!(shape.readers["x"], [0, 1]);
        for stage in &j.stages {
            assert_eq!(shape.program_of(stage).unwrap().to_string(), "p/v");
        }
        assert_eq!(j.peers_needed(), ["driveline_cpp/sdk", "p/v"]);
    }

    #[test]
    fn threads_of_one_process_run_in_one_program() {
        let stages: [(&str, &[&str], Option<&str>); 4] = [
            ("a", &[], Some("x")),
            ("b", &["x"], Some("y")),
            ("c", &["y"], Some("z")),
            ("d", &["z"], None),
        ];
        let of = |systems: &[(&str, &str)]| {
            let j = job(&stages, systems);
            Shape::new(&j).unwrap().common_program().map(|s| s.to_string())
        };
        assert_eq!(of(&[("x", "p/v"), ("y", "driveline"), ("z", "p/v")]).unwrap(), "p/v");
        assert_eq!(
            of(&[("x", "driveline"), ("y", "driveline"), ("z", "driveline")]).unwrap(),
            "driveline_cpp/sdk"
        );
        let two = of(&[("x", "p/v"), ("y", "driveline"), ("z", "q/v")]).unwrap_err().to_string();
        assert!(two.contains("those of p/v, q/v"), "{two}");
    }

    #[test]
    fn what_does_not_fit_together_is_explained() {
        let wrong = |stages: &[(&str, &[&str], Option<&str>)], systems: &[(&str, &str)]| {
            let j = job(stages, systems);
            match Shape::new(&j) {
                Err(e) => e.to_string(),
                Ok(s) => s.program_of(&j.stages[0]).unwrap_err().to_string(),
            }
        };
        let x = [("x", "driveline")];
        for (text, said) in [
            (wrong(&[("a", &[], Some("x"))], &x), "no stage reads"),
            (wrong(&[("a", &["x"], None)], &x), "no stage writes"),
            (wrong(&[("a", &[], Some("x")), ("b", &["x"], None)], &[]), "no edge names"),
            (wrong(&[("a", &[], Some("x")), ("a", &["x"], None)], &x), "two stages"),
            (wrong(&[("a", &[], Some("x")), ("b", &["x"], Some("x"))], &x), "two writers"),
            (wrong(&[("A", &[], Some("x")), ("b", &["x"], None)], &x), "lower-case"),
            (
                wrong(
                    &[("b", &["y"], Some("x")), ("c", &["x"], Some("y"))],
                    &[("x", "driveline"), ("y", "driveline")],
                ),
                "one source",
            ),
            (
                wrong(
                    &[
                        ("a", &[], Some("z")),
                        ("b", &["y", "z"], Some("x")),
                        ("c", &["x"], Some("y")),
                    ],
                    &[("x", "p/v"), ("y", "p/v"), ("z", "p/v")],
                ),
                "in a circle: b, c",
            ),
            (
                wrong(
                    &[("b", &["x"], Some("y")), ("a", &[], Some("x")), ("c", &["y"], None)],
                    &[("x", "p/v"), ("y", "q/v")],
                ),
                "edges of one system",
            ),
            (wrong(&[("b", &["x"], None), ("a", &[], Some("x"))], &[("x", "futex")]), "no payload"),
        ] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }
}
