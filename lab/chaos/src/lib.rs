// SPDX-License-Identifier: Apache-2.0
//! Fault laboratory: runs an unmodified graph, breaks it by seed, and checks how it answers.
//!
//! A [`plan`] says which faults are caused in which order. [`campaign`] starts `driveline run`,
//! causes them one after the other, and follows the run by its control socket; [`gaps`] measures
//! the longest silence of topics, [`census`] counts what processes keep. From these and the run's
//! own `summary.json`, [`verdict`] says which invariants hold, and [`report`] writes it down.
//!
//! Not here: the command line, and the fault point of the host (`driveline-runtime`, module `host`).

pub mod campaign;
pub mod census;
pub mod faults;
pub mod gaps;
pub mod graph;
pub mod plan;
mod progress;
pub mod report;
pub mod session;
pub mod summary;
pub mod verdict;
