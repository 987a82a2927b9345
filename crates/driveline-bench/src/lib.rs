// SPDX-License-Identifier: Apache-2.0
//! Measures Driveline against the machine's own limits.
//!
//! A measurement is a [`Plan`] of cases: links of Driveline, and floors of the same shape (a bare futex, a spinning word,
//! memcpy). Every round runs all cases in a new random order, each in fresh processes, so that what drifts on the machine
//! hits all alike. The ends only note stamps; percentiles, ratios with intervals and the account are computed afterwards
//! from the raw samples. Method and figures: `docs/benchmarks.md`.
//!
//! Other middleware is measured by the same engine: a program that speaks [`harness`] is a peer, and [`peers`] finds it.
//!
//! Not here: plots, the command line around it.
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
mod conduct;
pub mod harness;
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
pub mod stats;

pub use account::{Account, Sample};
pub use args::{Cpus, Extra, LinkArgs, Size};
pub use conduct::{Beside, Conductor, Ensemble, Favour, Program, Quota};
pub use link::{PEER_COMMAND, list_peers, run_link, scratch};
pub use metric::Metric;
pub use own_tool::{Agreement, TOLERANCE};
pub use peer::{MIN_FILLED, MemcpyKind};
pub use peer::{Middleware, Received, Receiver, Sender, peer_main, peer_program};
pub use plan::{Case, Comparison, Kind, LeftOut, Placement, Plan, bytes, floor_of, has_own_tool, memory_needed};
pub use result::{Ending, MAX_OTHERS, Measurement, Outcome, Ratio, Run, command, taken_away, validity_rule};

/// Version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Commit that it was built from; `-dirty` means that there were changes beyond it.
pub const COMMIT: &str = env!("DRIVELINE_COMMIT");
/// Whether it was compiled with optimisation; figures of one that was not say nothing.
pub const OPTIMISED: bool = !cfg!(debug_assertions);
