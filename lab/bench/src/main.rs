// SPDX-License-Identifier: Apache-2.0
//! A measured process, for the tests of the engine.

use std::process::ExitCode;

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some(driveline_bench::PEER_COMMAND) {
        return driveline_bench::peer_main();
    }
    eprintln!("error: for tests only; measure with `driveline bench`");
    ExitCode::from(2)
}
