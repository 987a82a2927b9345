// SPDX-License-Identifier: Apache-2.0
//! Jobs of peers' programs that run parts of a workload (`docs/protocols/harness.md`, Workloads).

use crate::job::{WorkloadJob, WorkloadPeer};
use driveline_bench::harness::{
    Job, PROTOCOL, Pace, Payload, Reach, Reliability, Role, Take, Wait,
};
use serde::Serialize;

/// Job of a part, with the further fields of its role.
#[derive(Serialize)]
pub(crate) struct Line<T> {
    #[serde(flatten)]
    pub(crate) job: Job,
    #[serde(flatten)]
    pub(crate) more: T,
}

/// Returns the common part of a job, for messages of up to `size` bytes.
pub(crate) fn part(
    peer: &WorkloadPeer,
    job: &WorkloadJob,
    role: Role,
    topic: &str,
    size: usize,
    pace: Pace,
) -> Job {
    Job {
        protocol: PROTOCOL,
        role,
        system: peer.system.clone(),
        reach: Reach::Host,
        domain_dir: job.domain_dir.clone(),
        topic: topic.to_owned(),
        size,
        wait: Wait::Block,
        take: Take::Borrow,
        payload: Payload::Untouched,
        pace,
        warm_up: 0,
        messages: 0,
        depth: 1,
        reliability: Reliability::BestEffort,
        subscribers: 1,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: Vec::new(),
        priority: 0,
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
        raw_dir: job.raw_dir.clone(),
    }
}
