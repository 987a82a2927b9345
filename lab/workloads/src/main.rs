// SPDX-License-Identifier: Apache-2.0
//! Only the workloads, for tests; users call `driveline bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    driveline_workloads::host_main().unwrap_or_else(driveline_workloads::workload_main)
}
