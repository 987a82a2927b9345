// SPDX-License-Identifier: Apache-2.0
//! Measures links and processing chains of Driveline and of other middleware, and the machine's own
//! limits.
//!
//! The engine: a [`Runner`] runs a link, several at a time, or a [`chain`] in fresh processes that
//! speak [`harness`]; floors are a bare futex, a spinning word and memcpy. The ends only record
//! stamps. An [`Account`] is made of them and checked afterwards. [`peers`] finds other middleware,
//! [`stats`] has exact percentiles and intervals over rounds, and [`cable`] makes two hosts of
//! network namespaces. Experiments, archives and reports are in the crate `driveline-lab`.
//!
//! Method: `docs/method.md`; figures: `docs/benchmarks.md`.
//!
//! Not here: scenarios, tables, plots, workloads (graphs that are run and observed).
//!
//! ```
//! use driveline_bench::stats::{Rank, Runs};
//! let runs = Runs::new(vec![vec![30, 10, 20], vec![40]]);
//! assert_eq!(runs.at(Rank::P50), Some(20));
//! assert_eq!(runs.percentiles().p99, None); // too few samples to say
//! ```

mod account;
pub mod cable;
pub mod chain;
pub mod child;
pub mod deployment;
mod ending;
pub mod harness;
mod left_out;
pub mod machine;
mod metric;
pub mod observations;
mod orphans;
mod own_tool;
mod peer;
pub mod peers;
mod placement;
mod provenance;
mod runner;
mod scratch;
mod shared_memory;
pub mod stats;
mod validity;

pub use account::{Account, Sample};
pub use ending::{Ending, UsageError, exit_code_of};
pub use left_out::LeftOut;
pub use metric::{Comparison, Metric};
pub use orphans::{adopt_orphans, wait_for_orphans};
pub use own_tool::{Agreement, TOLERANCE, Verdict};
pub use peer::{
    MIN_FILLED, MIN_SIZE, Middleware, PEER_COMMAND, Received, Receiver, RunStage, Sender,
    peer_main, peer_program, peer_program_with_stages, sleep_until,
};
pub use placement::Placement;
pub use provenance::{COMMIT, OPTIMISED, VERSION, command};
pub use runner::{Beside, Ensemble, Favour, Kind, Program, Quota, Runner, Trial};
pub use scratch::{RunDirectory, Scratch};
pub use validity::{MAX_OTHERS, taken_away, validity_rule};
