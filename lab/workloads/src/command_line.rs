// SPDX-License-Identifier: Apache-2.0
//! Command-line words of a program that hosts workloads.

/// Command that makes a program run a workload.
pub const WORKLOAD_COMMAND: &str = "bench-workload";

/// Word after the command that makes a program a part of a run.
pub(crate) const PART: &str = "part";

/// Word after the command that makes a program run a module of a graph, as `driveline-host` does.
pub(crate) const HOST: &str = "host";
