// SPDX-License-Identifier: Apache-2.0
//! Evaluation lab: experiments as files, measured interleaved, kept as raw samples, shown in
//! reports.
//!
//! A [`scenario`] says what is asked; [`plan`] turns it into cases on this machine; [`run()`]
//! measures them in random order, round by round, into an [`archive`], from which everything that
//! people see is computed.
//!
//! Not here: how a link is measured and what stamps mean (crate `driveline-bench`), and the command
//! line around it.

pub mod analysis;
pub mod archive;
mod chain;
mod chain_path;
pub mod compare;
pub mod csv;
mod figure_text;
mod further;
mod gateway;
mod left_out;
mod list;
mod literature;
mod markdown;
mod outputs;
pub mod plan;
mod progress;
pub mod report;
mod rows;
mod run;
pub mod scenario;
mod table;
mod terminal;
mod words;
mod workload;

pub use compare::{CompareArgs, compare};
pub use list::{list, show};
pub use outputs::{ReportArgs, report};
pub use run::{RunArgs, run};
