// SPDX-License-Identifier: Apache-2.0
//! Trial: the unit of a measurement.

use crate::cable::CableSpec;
use crate::deployment::Deployment;
use crate::harness::{Job, MemcpyKind};
use serde::Serialize;
use std::time::Duration;

/// One run of a case.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Kind of the trial.
    pub kind: Kind,
    /// Common part of the jobs of its processes, without their roles.
    pub job: Job,
    /// Cable between its ends, if they are on two hosts.
    pub cable: Option<CableSpec>,
    /// Deployment of its ends.
    pub deployment: Deployment,
}

impl Trial {
    /// Makes a trial on one host.
    #[must_use]
    pub fn new(kind: Kind, job: Job) -> Self {
        Self { kind, job, cable: None, deployment: Deployment::Bare }
    }

    /// Makes a trial that copies the payloads of this link: see [`Job::memcpy`].
    #[must_use]
    pub fn memcpy(link: &Job, kind: MemcpyKind) -> Self {
        Self::new(Kind::Memcpy(kind), link.memcpy(kind))
    }

    /// Returns the trial over this cable.
    #[must_use]
    pub fn over(self, cable: Option<CableSpec>) -> Self {
        Self { cable, ..self }
    }

    /// Returns the trial with this deployment of its ends.
    #[must_use]
    pub fn deployed(self, deployment: Deployment) -> Self {
        Self { deployment, ..self }
    }
}

/// Kind of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A link of Driveline, or of a peer.
    Link,
    /// A link of the same shape that hands over only a shared word.
    Floor,
    /// Publish and callback on one thread.
    SameThread,
    /// Memory bandwidth.
    Memcpy(MemcpyKind),
    /// A link at rest, which is observed for this time.
    AtRest(Duration),
    /// Process start to first sample.
    StartUp,
    /// The latency tool of a peer's middleware, to be compared with a [`Self::Link`] of the same
    /// job.
    OwnTool,
}
