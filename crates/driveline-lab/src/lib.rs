// SPDX-License-Identifier: Apache-2.0
//! The evaluation lab: experiments as files, measured interleaved, kept as raw samples, told in reports.
//!
//! A [`scenario`] says what is asked; [`plan`] turns it into cases on this machine; [`run()`] measures them in random order,
//! round by round, into an [`archive`], from which everything that people see is computed.
//!
//! Not here: how a link is measured and what stamps mean (crate `driveline-bench`), and the command line around it.

pub mod analysis;
pub mod archive;
mod beside;
mod chain;
pub mod compare;
pub mod csv;
mod gateway;
mod left_out;
mod list;
mod markdown;
pub mod plan;
mod progress;
mod publish;
mod published;
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
pub use publish::{ReportArgs, report};
pub use run::{RunArgs, run};
