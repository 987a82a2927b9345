// SPDX-License-Identifier: Apache-2.0
//! `driveline-gateway-zenoh`: carries the topics of one domain between this host and others.

use driveline_gateway_zenoh::engine::Gateway;
use std::process::ExitCode;

/// Variable with the filter for Zenoh's log lines, for problems of the network.
const LOG: &str = "DRIVELINE_GATEWAY_LOG";

fn main() -> ExitCode {
    if let Ok(filter) = std::env::var(LOG) {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
    driveline_gateway::serve::<Gateway>("driveline-gateway-zenoh")
}
