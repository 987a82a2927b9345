// SPDX-License-Identifier: Apache-2.0
//! Computes figures from the records of a run.
//!
//! A [`Collector`] takes the records of all processes of a graph ([`Collector::take`]) in any
//! order. There is a record for every callback that a component ran. At any moment it gives a
//! [`Summary`] (percentiles, written as `summary.json`) and a [`report`] (one HTML file with its
//! plots in it; it needs no network and no script). A run that was cut short gives a valid summary
//! and report of what was seen.
//!
//! The laboratory also uses parts of this crate, for example [`Rank`], which defines percentiles,
//! and [`MachineFacts`], which describes the machine.
//!
//! Not here: making the records (crates `driveline` and `driveline-runtime`) and showing them live
//! (the command-line tool).
//!
//! ```
//! use driveline_analyze::{Collector, RunFacts, StageRecord};
//! use driveline_types::MonotonicNs;
//!
//! let mut collector = Collector::new(RunFacts { graph: "demo".into(), ..RunFacts::default() });
//! let (start, end) = (MonotonicNs(1_000_000), MonotonicNs(3_500_000));
//! collector.add(&StageRecord { stage: "camera", start, end, ..StageRecord::default() });
//! let summary = collector.summary();
//! assert_eq!(summary.stages[0].processing_us.p50, 2500.0);
//! ```

mod account;
mod backpressure;
mod collector;
mod deadlines;
mod escape;
mod facts;
mod faults;
mod machine;
mod modes;
mod modules;
mod output;
mod problems;
mod quantiles;
mod records;
pub mod report;
mod series;
mod summary;
mod waits;

pub use backpressure::BlockedOutput;
pub use collector::{Collector, MAX_FAILURES};
pub use deadlines::{DeadlineSummary, PortEnd};
pub use escape::{escape, sentence};
pub use facts::{Ended, InputFacts, RunFacts, StageFacts};
pub use faults::{Fault, MAX_FAULTS, MissedByFault};
pub use machine::{MachineFacts, meminfo};
pub use modes::{ComponentTransition, MAX_SWITCHES, ModeSwitch};
pub use modules::ModuleFacts;
pub use output::{OutputError, write_outputs};
pub use problems::{Problem, ProblemKind};
pub use quantiles::{Quantiles, Rank};
pub use records::{StageInput, StageRecord};
pub use series::{EXACT_SAMPLES, HISTOGRAM_ERROR_PERCENT};
pub use summary::{
    EndToEnd, Fact, Ratio, ReactionDistance, ServiceSummary, Split, StageSummary,
    SubscriptionSummary, Summary,
};
pub use waits::Wait;
