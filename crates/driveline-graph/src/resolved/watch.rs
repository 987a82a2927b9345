// SPDX-License-Identifier: Apache-2.0
//! Declarations that a module must keep.

use crate::model::{LimitsSpec, Reaction};
use serde::Serialize;
use std::time::Duration;

/// Declarations that a module must keep.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ResolvedWatch {
    /// Time from which on a call hangs, and the reaction, where the graph declares either.
    pub hang: Option<(Duration, Reaction)>,
    /// Resources that the process may use.
    pub limits: LimitsSpec,
    /// Reaction when it uses more.
    pub on_limit: Reaction,
}

/// Longest time of a call, and what happens beyond.
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
    /// Least number of samples each second.
    pub min: Option<f64>,
    /// Greatest number of samples each second.
    pub max: Option<f64>,
    /// Reaction outside of the rate.
    pub reaction: Reaction,
}
