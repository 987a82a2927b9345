// SPDX-License-Identifier: Apache-2.0
//! Description that a peer prints.

use crate::harness::{Job, Pace, Reach, Reliability, System, Wait};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Description that a peer prints about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// Version of [`crate::harness::PROTOCOL`] that it uses.
    pub protocol: u32,
    /// Name in jobs: lower case, no slash.
    pub name: String,
    /// Readable name.
    pub title: String,
    /// Version of the middleware.
    pub version: String,
    /// Its variants.
    pub variants: Vec<Variant>,
}

/// One way of a peer to carry samples.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Name in jobs.
    pub name: String,
    /// Readable name.
    pub title: String,
    /// Possible places of its ends.
    pub reach: Vec<Reach>,
    /// Supported wait modes of readers.
    pub waits: Vec<WaitKind>,
    /// Offered kinds of reliability.
    pub reliability: Vec<Reliability>,
    /// `true` if samples are written and read in place; otherwise the middleware copies them.
    pub loans: bool,
    /// Minimum size in bytes.
    pub min_size: usize,
    /// Maximum size in bytes.
    pub max_size: usize,
    /// Maximum number of subscribers.
    pub max_subscribers: usize,
    /// `true` if it needs a [`crate::harness::Role::Keeper`].
    #[serde(default)]
    pub keeper: bool,
    /// Information that readers of its figures need.
    #[serde(default)]
    pub note: String,
    /// Its configuration, with reasons.
    pub settings: Vec<Setting>,
    /// `true` if it only varies the settings of another variant. It is then measured only if it is
    /// named.
    #[serde(default)]
    pub tuning: bool,
    /// `true` if it differs from the varied variant only in ping-pongs. At a rate, it is the same
    /// variant under another name.
    #[serde(default)]
    pub usual_at_a_rate: bool,
    /// The middleware's own latency tool, which runs in the role [`crate::harness::Role::OwnTool`];
    /// empty if there is none.
    #[serde(default)]
    pub own_tool: String,
    /// Wait mode of the readers of that tool.
    #[serde(default)]
    pub own_tool_wait: WaitKind,
    /// Sizes in bytes that the tool can measure; empty: any.
    #[serde(default)]
    pub own_tool_sizes: Vec<usize>,
    /// Reliability of the links with which the tool can be compared; empty: any. Some tools stop at
    /// a loss.
    #[serde(default)]
    pub own_tool_reliability: Vec<Reliability>,
    /// `true` if its ends must share `/dev/shm`, `/tmp` or a PID namespace.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_pod: bool,
    /// Workloads that it runs.
    #[serde(default)]
    pub workloads: Vec<RunsWorkload>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// A workload that a variant runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsWorkload {
    /// Name of the workload.
    pub name: String,
    /// Permitted values of parameters that are restricted.
    #[serde(default)]
    pub only: BTreeMap<String, Vec<String>>,
    /// Reason for the restrictions.
    #[serde(default)]
    pub why: String,
    /// Reason why this build does not run it, and the remedy; empty if it does.
    #[serde(default)]
    pub missing: String,
}

impl RunsWorkload {
    /// Returns the reason why the variant does not run the workload with these parameters, or
    /// `None` if it does. The parameters must be complete.
    #[must_use]
    pub fn refuses(&self, parameters: &Value) -> Option<String> {
        if !self.missing.is_empty() {
            return Some(self.missing.clone());
        }
        let (parameter, _) = self.only.iter().find(|(parameter, values)| {
            let asked = parameters.get(parameter.as_str()).and_then(Value::as_str);
            asked.is_some_and(|asked| values.iter().all(|v| v != asked))
        })?;
        let asked = parameters.get(parameter)?;
        Some(format!("cannot have the {parameter} {}: {}", asked.as_str()?, self.why))
    }
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Its name in the middleware.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Reason, and the source of the recommendation.
    pub why: String,
}

/// A kind of [`Wait`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    /// Sleeps in the kernel.
    #[default]
    Block,
    /// Never sleeps.
    Spin,
    /// Spins for a while, then sleeps.
    SpinThenBlock,
}

impl From<Wait> for WaitKind {
    fn from(wait: Wait) -> Self {
        match wait {
            Wait::Block => Self::Block,
            Wait::Spin => Self::Spin,
            Wait::SpinThenBlock(_) => Self::SpinThenBlock,
        }
    }
}

impl Variant {
    /// Returns true if the own tool of this variant measures the same link as the job.
    #[must_use]
    pub fn has_own_tool_for(&self, job: &Job) -> bool {
        let fits = self.own_tool_sizes.is_empty() || self.own_tool_sizes.contains(&job.size);
        let fits = fits
            && (self.own_tool_reliability.is_empty()
                || self.own_tool_reliability.contains(&job.reliability));
        !self.own_tool.is_empty()
            && job.may_have_own_tool()
            && fits
            && self.own_tool_wait == WaitKind::from(job.wait)
    }

    /// Returns the entry of a workload, if it has one.
    #[must_use]
    pub fn workload(&self, name: &str) -> Option<&RunsWorkload> {
        self.workloads.iter().find(|w| w.name == name)
    }

    /// Returns the reason why it cannot do a job; nothing if it can.
    #[must_use]
    pub fn refuses(&self, job: &Job) -> Option<String> {
        let kind = WaitKind::from(job.wait);
        if !self.reach.contains(&job.reach) {
            let where_to = match job.reach {
                Reach::Process => "threads of one process",
                Reach::Host => "processes",
                Reach::Network => "other hosts",
            };
            return Some(format!("does not reach {where_to}"));
        }
        if !self.waits.contains(&kind) {
            return Some(format!("readers cannot wait as '{}'", job.wait));
        }
        if !self.reliability.contains(&job.reliability) {
            let what =
                if job.reliability == Reliability::Reliable { "reliable" } else { "best effort" };
            return Some(format!("is not {what}"));
        }
        if job.size < self.min_size || job.size > self.max_size {
            return Some(format!(
                "carries {} to {} bytes, not {}",
                self.min_size, self.max_size, job.size
            ));
        }
        if job.subscribers > self.max_subscribers {
            return Some(format!(
                "has at most {} subscribers, not {}",
                self.max_subscribers, job.subscribers
            ));
        }
        if job.pace == Pace::PingPong && job.subscribers != 1 {
            return Some("a ping-pong has one subscriber".into());
        }
        None
    }
}

/// Returns true if a text is a valid name of a peer or variant, which is part of ids, files and
/// `PEER/VARIANT`.
fn is_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    (1..=40).contains(&name.len()) && name.chars().all(plain)
}

impl Description {
    /// Returns the error in a description, if there is one.
    pub(super) fn mistake(&self) -> Option<String> {
        let own =
            [System::Driveline, System::Futex, System::Spin, System::Memcpy].map(|s| s.to_string());
        if !is_name(&self.name) || own.contains(&self.name) {
            return Some(format!(
                "a peer cannot be called '{}': use lower-case letters, digits, `_` and `-`, and no \
                 name of this program's own",
                self.name
            ));
        }
        let twice =
            |v: &&Variant| self.variants.iter().filter(|other| other.name == v.name).count() > 1;
        if let Some(v) = self.variants.iter().find(|v| !is_name(&v.name)) {
            return Some(format!(
                "a variant cannot be called '{}': use lower-case letters, digits, `_` and `-`",
                v.name
            ));
        }
        if let Some(v) = self.variants.iter().find(twice) {
            return Some(format!("there are two variants '{}'", v.name));
        }
        if let Some(v) =
            self.variants.iter().find(|v| v.min_size > v.max_size || v.reach.is_empty())
        {
            return Some(format!(
                "the variant '{}' carries nothing: `reach` names none, or `min_size` is above \
                 `max_size`",
                v.name
            ));
        }
        None
    }
}
