// SPDX-License-Identifier: Apache-2.0
//! Words on the command line of a program that holds workloads.

/// The word on the command line that makes a program a run.
pub const WORKLOAD_COMMAND: &str = "bench-workload";

/// The word behind the command that makes a program a part of a run.
pub(crate) const PART: &str = "part";

/// Command that makes the program a host of a graph's module.
pub(crate) const HOST: &str = "host";
