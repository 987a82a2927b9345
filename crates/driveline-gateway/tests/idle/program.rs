// SPDX-License-Identifier: Apache-2.0
//! Gateway that carries nothing, for tests of the parts that all gateways share.

use driveline_gateway::Gateway;
use std::process::ExitCode;

struct Idle;

impl Gateway for Idle {
    type Config = serde_json::Value;
    type Error = String;
    const COMMIT: &'static str = "test";
    const ABOUT: &'static str = "";

    fn start(_: Self::Config) -> Result<Self, String> {
        Ok(Self)
    }

    fn greeting(&self) -> String {
        "carries nothing".into()
    }

    fn take_notices(&self) -> Vec<String> {
        Vec::new()
    }
}

fn main() -> ExitCode {
    driveline_gateway::serve::<Idle>("idle-gateway")
}
