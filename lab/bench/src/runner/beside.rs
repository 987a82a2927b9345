// SPDX-License-Identifier: Apache-2.0
//! Conditions of a run in addition to its links: load, limit of processor time, preference of a
//! subscriber, sampling of resource use, cable, and deployment.

use crate::cable::CableSpec;
use crate::deployment::Deployment;
use crate::harness::Job;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Additional conditions of the links of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Number of processes that burn processor time, at normal priority, on the CPUs of the
    /// subscribers.
    pub hogs: usize,
    /// Processor time that all ends share, in percent of one CPU; `None`: no limit.
    pub quota_percent: Option<u32>,
    /// Preference of one subscriber.
    pub favour: Option<Favour>,
    /// Interval at which the use of processor time and memory is sampled; `None`: never, because
    /// sampling costs processor time too.
    pub watch_every: Option<Duration>,
    /// Cable between two hosts; `None`: limited only by the processors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cable: Option<CableSpec>,
    /// Deployment of the ends.
    #[serde(default, skip_serializing_if = "Deployment::is_bare")]
    pub deployment: Deployment,
}

/// Preference of one subscriber of each link over all other processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Favour {
    /// Index of the subscriber.
    pub subscriber: usize,
    /// Its real-time priority (SCHED_FIFO); 0: time sharing.
    pub priority: u8,
    /// CPU of this subscriber. No other end and no hog is placed on it.
    pub exclusive_cpu: Option<usize>,
}

impl Beside {
    /// Returns the job of a subscriber, or of another end, with its CPU and priority.
    pub(super) fn placed(&self, job: &Job, subscriber: Option<usize>) -> Job {
        let mut job = job.clone();
        let Some(favour) = &self.favour else { return job };
        if subscriber == Some(favour.subscriber) {
            job.priority = job.priority.max(favour.priority);
            if let Some(cpu) = favour.exclusive_cpu {
                job.subscriber_cpus = vec![cpu];
            }
        } else if let Some(cpu) = favour.exclusive_cpu {
            job.subscriber_cpus.retain(|c| *c != cpu);
            if let Some(elsewhere) =
                job.subscriber_cpus.first().copied().filter(|_| job.publisher_cpu == Some(cpu))
            {
                job.publisher_cpu = Some(elsewhere);
            }
        }
        job
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::sample_job;

    #[test]
    fn an_exclusive_cpu_has_no_other_thread() {
        let job = Job { publisher_cpu: Some(0), subscriber_cpus: vec![1, 0], ..sample_job() };
        let favour = Some(Favour { subscriber: 7, priority: 80, exclusive_cpu: Some(0) });
        let beside = Beside { favour, ..Beside::default() };
        let favoured = beside.placed(&job, Some(7));
        assert_eq!((favoured.subscriber_cpus, favoured.priority), (vec![0], 80));
        let other = beside.placed(&job, Some(6));
        assert_eq!(
            (other.subscriber_cpus, other.publisher_cpu, other.priority),
            (vec![1], Some(1), 0)
        );
        assert_eq!(Beside::default().placed(&job, Some(7)), job);
    }
}
