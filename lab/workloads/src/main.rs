// SPDX-License-Identifier: Apache-2.0
//! Only the workloads, for tests; users call `driveline bench`.

use std::process::ExitCode;

fn main() -> ExitCode {
    driveline_workloads::workload_main()
}
