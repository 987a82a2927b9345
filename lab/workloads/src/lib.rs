// SPDX-License-Identifier: Apache-2.0
//! Workloads: graphs of Driveline that run and are observed.
//!
//! Each is one experiment of the literature, built on Driveline's public interface: nodes,
//! triggers, executors, and real processes where the experiment has them. The result of a run is
//! [`Observations`](driveline_bench::observations::Observations): named series and counters. Other
//! programs compute percentiles and plots.
//!
//! Each run has its own process ([`workload_main`]), so that runs do not disturb each other, and so
//! that the measuring process can end it. Modules in containers are processes of the same program,
//! under another name ([`host_main`]). [`workloads`] lists the workloads; [`check`] reports
//! errors in parameters before anything starts.
//!
//! Programs of other middleware run the parts of a workload if they announce it ([`WorkloadPeer`]):
//! the fusion, or the chain.
//!
//! Not here: repetitions, statistics.
//!
//! ```
//! use serde_json::json;
//! assert!(driveline_workloads::check("refsys", &json!({"executor": "multi_threaded"})).is_ok());
//! let misspelt = json!({"exekutor": "multi_threaded"});
//! let error = driveline_workloads::check("refsys", &misspelt).unwrap_err();
//! assert!(error.to_string().contains("exekutor"));
//! ```

mod catalogue;
mod chain;
mod children;
mod command_line;
pub mod deliveries;
mod experiment;
mod faults;
mod fusion;
mod hog;
mod job;
mod orders;
mod part;
mod peer_part;
mod protection;
mod record;
mod refsys;
mod schedule;
mod serve;
mod topology;
mod usage;
mod work;

pub use catalogue::{Workload, check, check_deployment, workloads};
pub use command_line::WORKLOAD_COMMAND;
pub use job::{PROTOCOL, WorkloadEvent, WorkloadJob, WorkloadPeer};
pub use serve::{host_main, workload_main};
