// SPDX-License-Identifier: Apache-2.0
//! Measures links and processing chains of Driveline and of other middleware, beside the machine's own limits.
//!
//! The engine: a [`Conductor`] runs a link, several at a time, or a [`chain`] in fresh processes that speak [`harness`]; the
//! ends only note stamps, from which an [`Account`] is made and checked afterwards. [`peers`] finds other middleware, [`stats`]
//! has exact percentiles, and intervals over rounds. Experiments, archives and reports over it are the crate `driveline-lab`'s.
//!
//! Beside it, for one link at a time, `bench link`: a [`Plan`] of links with their floors (a bare futex, a spinning word,
//! memcpy), run in rounds and printed as a table or as JSON. Method and figures: `docs/benchmarks.md`.
//!
//! Not here: plots, scenario files, workloads (graphs that are run and observed).
//!
//! ```
//! use driveline_bench::stats::{Rank, Runs};
//! let runs = Runs::new(vec![vec![30, 10, 20], vec![40]]);
//! assert_eq!(runs.at(Rank::P50), Some(20));
//! assert_eq!(runs.percentiles().p99, None); // too few samples to say
//! ```

mod account;
mod args;
pub mod chain;
pub mod child;
mod conduct;
pub mod harness;
mod interruption;
mod left_out;
mod link;
pub mod machine;
mod metric;
pub mod observations;
mod own_tool;
mod peer;
pub mod peers;
mod plan;
mod report;
mod result;
mod scratch;
pub mod stats;

pub use account::{Account, Sample};
pub use args::{Cpus, Extra, LinkArgs, Size};
pub use conduct::{Beside, CableSpec, Conductor, Ensemble, Favour, Program, Quota, cable_refused};
pub use interruption::interruption;
pub use left_out::LeftOut;
pub use link::{PEER_COMMAND, list_peers, run_link};
pub use metric::Metric;
pub use own_tool::{Agreement, Concord, TOLERANCE};
pub use peer::{MIN_FILLED, MemcpyKind};
pub use peer::{Middleware, Received, Receiver, RunStage, Sender, peer_main, peer_program, peer_program_with_stages, sleep_until};
pub use plan::{Case, Comparison, Kind, Placement, Plan, bytes, floor_of, has_own_tool, memory_needed};
pub use result::{Ending, MAX_OTHERS, Measurement, Outcome, Ratio, Run, command, taken_away, validity_rule};
pub use scratch::Scratch;

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that it was built from; `-dirty` means that there were changes beyond it.
pub const COMMIT: &str = env!("DRIVELINE_COMMIT");
/// Whether it was compiled with optimisation; figures of one that was not say nothing.
pub const OPTIMISED: bool = !cfg!(debug_assertions);
