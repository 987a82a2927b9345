// SPDX-License-Identifier: Apache-2.0
//! Restart of modules, as written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Restart of a module after its process has ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RestartSpec {
    /// Cases in which it is started again. Default: `on_failure` if `backoff_ms`, `max` or
    /// `window_s` is given, else `never`.
    pub policy: Option<RestartPolicy>,
    /// Pause before the first restart, in milliseconds. It doubles with each restart in a row, up
    /// to 30 s, and is the first again after the module was ready for 1 s. Default: 100.
    #[schemars(range(max = 30_000))]
    pub backoff_ms: Option<u32>,
    /// Number of restarts within `window_s`; a module that fails once more stays down. Default: 5.
    #[schemars(range(min = 1, max = 1000))]
    pub max: Option<u32>,
    /// Seconds in which `max` restarts are counted. Default: 60.
    #[schemars(range(min = 1, max = 86_400))]
    pub window_s: Option<u32>,
    /// Reaction when the module stays down. Default: the other modules continue, but a failed start
    /// ends the run.
    pub on_exhausted: Option<OnExhausted>,
}

impl RestartSpec {
    /// Returns the policy. Limits of restarts without `policy` imply restarts.
    pub(crate) fn policy(&self) -> RestartPolicy {
        let limits = [self.backoff_ms, self.max, self.window_s];
        let asks = limits.iter().any(Option::is_some);
        let otherwise = if asks { RestartPolicy::OnFailure } else { RestartPolicy::Never };
        self.policy.unwrap_or(otherwise)
    }
}

/// Cases in which a module is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RestartPolicy {
    /// It stays down.
    #[default]
    Never,
    /// After a signal, an exit code other than 0, a failed start, or a start that took too long.
    OnFailure,
    /// After every end that the launcher did not request.
    Always,
}

/// Reaction to a module that stays down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnExhausted {
    /// The run ends.
    Stop,
    /// The other modules go on, also if the graph does not run yet.
    ContinueWithout,
    /// The other modules go on, in this mode. If the graph does not run yet, the run ends.
    Mode(String),
}

/// Reaction of a run's modules when their launcher is gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLauncherLost {
    /// Each of them ends by itself, within 6 s.
    #[default]
    Stop,
    /// Each of them enters this mode by itself, and goes on.
    Mode(String),
}
