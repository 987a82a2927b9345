// SPDX-License-Identifier: Apache-2.0
//! CPUs of the ends of links.

use crate::harness::{Pace, Wait};
use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

/// CPUs of this process, and their assignment to the ends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// CPUs that may be used.
    pub usable_cpus: Vec<usize>,
    /// CPU of the publishers; `None`: the kernel decides.
    pub publisher_cpu: Option<usize>,
    /// CPUs of the subscribers, assigned in turn; if empty, the kernel decides.
    pub subscriber_cpus: Vec<usize>,
    /// Real-time priority (SCHED_FIFO) of all ends; 0 is time sharing.
    pub priority: u8,
}

impl Placement {
    /// Assigns the first CPU to publishers. Subscribers get the other CPUs in turn, and the first
    /// one last.
    #[must_use]
    pub fn automatic(usable_cpus: Vec<usize>) -> Self {
        let publisher_cpu = usable_cpus.first().copied();
        let subscriber_cpus = usable_cpus.iter().copied().skip(1).chain(publisher_cpu).collect();
        Self { usable_cpus, publisher_cpu, subscriber_cpus, priority: 0 }
    }

    /// Refuses spinning ends that would share a CPU: they would measure the scheduler's time slice.
    ///
    /// # Errors
    /// If there are too few CPUs; the message has their number.
    pub fn check_spinning(&self, wait: Wait, pace: Pace, subscribers: usize) -> Result<()> {
        if wait != Wait::Spin {
            return Ok(());
        }
        let mut places = self.subscriber_cpus.clone();
        places.sort_unstable();
        places.dedup();
        places.retain(|c| Some(*c) != self.publisher_cpu);
        let room = if self.subscriber_cpus.is_empty() {
            self.usable_cpus.len().saturating_sub(1)
        } else {
            places.len()
        };
        let who = if pace == Pace::PingPong {
            "the publisher spins on another"
        } else {
            "the publisher needs another"
        };
        let readers = if subscribers == 1 {
            "a spinning reader needs a CPU of its own".into()
        } else {
            format!("{subscribers} spinning readers need as many CPUs of their own")
        };
        let list =
            |cpus: &[usize]| cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        ensure!(
            subscribers <= room,
            "{readers}, and {who}; there is room for {room} (usable CPUs: {}; of the publisher: \
             {}; of subscribers: {})",
            list(&self.usable_cpus),
            self.publisher_cpu.map_or_else(|| "any".to_owned(), |cpu| cpu.to_string()),
            if self.subscriber_cpus.is_empty() {
                "any".to_owned()
            } else {
                list(&self.subscriber_cpus)
            },
        );
        Ok(())
    }
}
