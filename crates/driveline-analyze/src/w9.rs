// SPDX-License-Identifier: Apache-2.0
//! Experiment W9: how long data is on its way, against how long it is worked on, in the perception pipeline ComP.
//!
//! After Wu et al. 2021, "Oops! It's Too Late. Your Autonomous Driving System Needs a Faster Middleware". Their stages are a
//! lane detector, a YOLO and a MOSSE tracker. With another detector the ratios say nothing about theirs, and are not given.

use crate::collector::Collector;
use crate::summary::{Ratio, StageSummary};
use serde::Serialize;

/// Component and stage of the paper.
const STAGES: [(&str, &str); 3] = [("lane", "Lane"), ("detector", "Yolo"), ("tracker", "MOSSE")];

/// The fact that ComP tells of its detector.
const DETECTOR: &str = "detector";

/// The paper's ratios, in per cent on its PC and its Jetson AGX, in the order of [`STAGES`].
const PAPER: [(&str, [(f64, f64); 3]); 3] = [
    ("ComP within a process", [(1.0, 1.0), (4.2, 3.1), (3.1, 8.7)]),
    ("ComP over shared memory", [(7.5, 4.2), (37.0, 9.9), (42.9, 31.6)]),
    ("ComP over DDS", [(117.0, 51.5), (567.0, 133.0), (733.0, 479.0)]),
];

/// W9, as far as a run can answer it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct W9 {
    /// Whether the detector is a YOLO, without which there are no figures.
    pub comparable: bool,
    /// Which detector ran, and what that means.
    pub note: String,
    /// Figures for each stage; empty if not comparable.
    pub stages: Vec<W9Stage>,
}

/// One stage.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct W9Stage {
    /// The component.
    pub stage: &'static str,
    /// What the paper calls it.
    pub paper_stage: &'static str,
    /// Transmission ÷ processing, in per cent of the medians.
    pub percent_of_p50: f64,
    /// The same of the means.
    pub percent_of_mean: f64,
    /// The paper's.
    pub paper: Vec<PaperFigure>,
}

/// Transmission ÷ processing in the paper, in per cent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PaperFigure {
    /// What carried the messages.
    pub transport: &'static str,
    /// On the paper's PC.
    pub pc_percent: f64,
    /// On its Jetson AGX.
    pub agx_percent: f64,
}

impl W9 {
    /// None if the graph is not ComP.
    pub(crate) fn of(run: &Collector, stages: &[StageSummary]) -> Option<Self> {
        let has = |name: &str| run.facts.stages.iter().any(|s| s.name == name);
        if !STAGES.iter().all(|(name, _)| has(name)) {
            return None;
        }
        let detector = run
            .accounts
            .facts
            .iter()
            .find(|((_, name), _)| name == DETECTOR)
            .map(|(_, text)| text.as_str());
        let told = detector.unwrap_or("it did not say which");
        let comparable = detector.is_some_and(is_yolo);
        if !comparable {
            let note = format!(
                "Not compared with the times that were published for this pipeline (experiment W9): theirs are of a YOLO network, and the detector here was \
                 another ({told}). `make demo MODEL=yolo.cfg`, or the parameter `detector.model`, names a network"
            );
            return Some(Self { comparable, note, stages: Vec::new() });
        }
        let stage = |(i, &(name, paper_stage)): (usize, &(&'static str, &'static str))| {
            let Ratio { of_p50, of_mean } =
                stages.iter().find(|s| s.stage == name)?.transmission_to_processing?;
            let percent = |ratio: f64| (ratio * 1e4).round() / 1e2;
            let paper = PAPER.iter().map(|&(transport, figures)| PaperFigure {
                transport,
                pc_percent: figures[i].0,
                agx_percent: figures[i].1,
            });
            Some(W9Stage {
                stage: name,
                paper_stage,
                percent_of_p50: percent(of_p50),
                percent_of_mean: percent(of_mean),
                paper: paper.collect(),
            })
        };
        let note = format!(
            "W9 with {told}; the paper's figures are of other machines: compare ratios, not times"
        );
        Some(Self {
            comparable,
            note,
            stages: STAGES.iter().enumerate().filter_map(stage).collect(),
        })
    }
}

/// By what components say of their detector.
fn is_yolo(detector: &str) -> bool {
    let text = detector.to_ascii_lowercase();
    text.contains("yolo") && !text.contains("classical") && !text.contains("synthetic")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{InputFacts, RunFacts, StageFacts, StageInput, StageRecord};
    use driveline_runtime::account::Record;
    use driveline_types::header::Arrival;
    use driveline_types::{MonotonicNs, SampleHeader, TopicName};

    /// ComP with one frame: 100 µs on the way, 10 ms of work in each stage.
    fn comp(detector: Option<&str>, stages: &[&str]) -> Collector {
        let topic: TopicName = "camera/image".parse().unwrap();
        let input = InputFacts { name: "image".into(), topic: topic.clone(), triggers: true };
        let stage = |name: &&str| StageFacts {
            name: (*name).into(),
            inputs: vec![input.clone()],
            outputs: vec![],
        };
        let mut run = Collector::new(RunFacts {
            stages: stages.iter().map(stage).collect(),
            ..RunFacts::default()
        });
        if let Some(text) = detector {
            run.take(
                "m",
                &Record::Fact {
                    component: "detector".into(),
                    name: "detector".into(),
                    text: text.into(),
                },
            );
        }
        let header = SampleHeader {
            sequence: 1,
            publish_time: MonotonicNs(1_000),
            ..SampleHeader::default()
        };
        let input = StageInput {
            input: "image",
            topic: topic.id(),
            arrival: Arrival::Triggered,
            header: &header,
            missed: 0,
            fresh: true,
        };
        for stage in stages {
            let (start, end) = (MonotonicNs(101_000), MonotonicNs(10_101_000));
            run.add(&StageRecord { stage, start, end, inputs: &[input], ..StageRecord::default() });
        }
        run
    }

    const ALL: [&str; 3] = ["lane", "detector", "tracker"];

    #[test]
    fn with_a_yolo_there_are_figures_beside_the_papers() {
        let w9 =
            comp(Some("YOLO darknet yolo-fastest-1.1-xl.cfg 640x160"), &ALL).summary().w9.unwrap();
        assert!(w9.comparable);
        let figures: Vec<_> = w9.stages.iter().map(|s| (s.paper_stage, s.percent_of_p50)).collect();
        assert_eq!(figures, [("Lane", 1.0), ("Yolo", 1.0), ("MOSSE", 1.0)]);
        assert_eq!(
            (w9.stages[1].paper[1].pc_percent, w9.stages[2].paper[2].agx_percent),
            (37.0, 479.0)
        );
    }

    #[test]
    fn without_one_it_is_said_and_nothing_is_called_w9() {
        for detector in [Some("classical (no model)"), Some("classical, not a YOLO"), None] {
            let run = comp(detector, &ALL);
            let summary = run.summary();
            let w9 = summary.w9.clone().unwrap();
            assert!(!w9.comparable && w9.stages.is_empty());
            assert!(
                w9.note.starts_with("Not compared with the times that were published")
                    && w9.note.contains("MODEL="),
                "{}",
                w9.note
            );
            assert!(w9.note.contains(detector.unwrap_or("did not say which")), "{}", w9.note);
            let page = crate::report::render(&run, &summary);
            assert!(
                page.contains(&crate::escape::sentence(&w9.note)) && !page.contains("Wu et al."),
                "{detector:?}"
            );
        }
        let run = comp(Some("YOLO"), &ALL);
        assert!(crate::report::render(&run, &run.summary()).contains("Wu et al."));
    }

    #[test]
    fn other_graphs_have_nothing_to_do_with_it() {
        assert_eq!(comp(Some("YOLO"), &["lane", "detector"]).summary().w9, None);
    }
}
