// SPDX-License-Identifier: Apache-2.0
//! The workloads alone, for tests; people use `driveline bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    driveline_workloads::workload_main()
}
