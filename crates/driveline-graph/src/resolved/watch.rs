// SPDX-License-Identifier: Apache-2.0
//! Declarations of a graph that a module must keep, such as the longest time of a call, the rate of
//! an output, and limits on resources.

use crate::model::{LimitsSpec, Reaction};
use serde::Serialize;
use std::time::Duration;

/// Declarations that a module must keep.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResolvedWatch {
    /// Time after which a call hangs, and the reaction, if the graph declares either.
    pub hang: Option<(Duration, Reaction)>,
    /// Resources that the process may use.
    pub limits: LimitsSpec,
    /// Reaction when it uses more.
    pub on_limit: Reaction,
}

/// Longest time of a call, and the reaction to longer ones.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedBudget {
    /// Longest time.
    pub time: Duration,
    /// Reaction beyond.
    pub reaction: Reaction,
}

/// Rate of an output, and the reaction outside of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResolvedRate {
    /// Minimum number of samples each second.
    pub min: Option<f64>,
    /// Maximum number of samples each second.
    pub max: Option<f64>,
    /// Reaction outside of the rate.
    pub reaction: Reaction,
}
