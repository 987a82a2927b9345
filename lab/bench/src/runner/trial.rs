// SPDX-License-Identifier: Apache-2.0
//! Unit of a measurement that is run once.

use crate::cable::CableSpec;
use crate::deployment::Deployment;
use crate::harness::{Job, MemcpyKind};
use serde::Serialize;

/// One thing that is run once.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// Kind of the trial.
    pub kind: Kind,
    /// The job of all its processes, up to their roles.
    pub job: Job,
    /// Cable between its ends, if they are on two hosts.
    pub cable: Option<CableSpec>,
    /// Deployment of its ends.
    pub deployment: Deployment,
}

impl Trial {
    /// On one host.
    #[must_use]
    pub fn new(kind: Kind, job: Job) -> Self {
        Self { kind, job, cable: None, deployment: Deployment::Bare }
    }

    /// Copies of the payloads of such a link: see [`Job::memcpy`].
    #[must_use]
    pub fn memcpy(link: &Job, kind: MemcpyKind) -> Self {
        Self::new(Kind::Memcpy(kind), link.memcpy(kind))
    }

    /// The same over such a cable.
    #[must_use]
    pub fn over(self, cable: Option<CableSpec>) -> Self {
        Self { cable, ..self }
    }

    /// The same with its ends elsewhere.
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
    /// The same shape of link, with nothing but a shared word.
    Floor,
    /// Publish to callback on one thread.
    SameThread,
    /// Memory bandwidth.
    Memcpy(MemcpyKind),
    /// A link at rest.
    Idle,
    /// Process start to first sample.
    StartUp,
    /// The latency tool of a peer's middleware, next to the ping-pong of the same shape.
    OwnTool,
}
