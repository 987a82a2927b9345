// SPDX-License-Identifier: Apache-2.0
//! Evaluation lab: experiments as files, measured interleaved, stored as raw samples, shown in
//! reports.
//!
//! A [`scenario`] has the question; [`plan`] turns it into cases on this machine; [`run()`]
//! measures them in random order, round by round, into an [`archive`]. All outputs are computed
//! from the archive.
//!
//! Not here: measuring of links and the meaning of stamps (crate `driveline-bench`), and the outer
//! command line.

pub mod analysis;
pub mod archive;
mod chain;
mod chain_path;
pub mod compare;
pub mod csv;
mod figure_text;
mod further;
mod gateway;
mod latencies;
mod left_out;
mod link;
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
pub use link::{LinkArgs, link};
pub use list::{list, show};
pub use outputs::{ReportArgs, report};
pub use run::{RunArgs, run};
