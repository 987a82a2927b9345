// SPDX-License-Identifier: Apache-2.0
//! Container of a module, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// CPUs of a container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Cpus {
    /// CPU time each second, in CPUs, such as `1.5`: beyond it, threads wait for the next period
    /// (100 ms).
    Quota(f64),
    /// Numbers of the CPUs on which it runs, such as `[2, 3]`.
    Set(Vec<u32>),
}
