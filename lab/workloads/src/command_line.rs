// SPDX-License-Identifier: Apache-2.0
//! Command-line words of a program that hosts workloads.

/// Command that makes a program run a workload.
pub const WORKLOAD_COMMAND: &str = "bench-workload";

/// Word after the command that makes a program a part of a run.
pub(crate) const PART: &str = "part";

/// Word after the command that makes a program the host of a graph's module.
pub(crate) const HOST: &str = "host";
