// SPDX-License-Identifier: Apache-2.0
//! Fault laboratory: runs an unmodified graph, causes faults in a seeded order, and checks the
//! reactions.
//!
//! A [`plan`] lists faults and their order. [`campaign`] starts `driveline run`, causes the faults
//! one after the other, and follows the run over its control socket. [`gaps`] measures the longest
//! silence of topics, and [`census`] counts resources of processes. From the answers of the graph,
//! the census and the run's own `summary.json`, [`verdict`] decides which invariants hold.
//! [`report`] makes JSON and text of the result and the gaps.
//!
//! Not here: the command line, and the fault point of `driveline-host` (crate `driveline-runtime`,
//! `host/injected_faults.rs`).

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
