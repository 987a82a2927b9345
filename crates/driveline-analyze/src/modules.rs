// SPDX-License-Identifier: Apache-2.0
//! Place of a run's modules, and the resources of their containers.

use crate::collector::RunFacts;
use driveline_runtime::account::Usage;
use serde::Serialize;

/// One module. What is not known, or does not exist without a container, is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ModuleFacts {
    /// Name.
    pub module: String,
    /// Container, by its name.
    pub container: Option<String>,
    /// Image.
    pub image: Option<String>,
    /// Digest of the image.
    pub digest: Option<String>,
    /// User id.
    pub user: Option<u32>,
    /// CPUs on which it may run, as the kernel writes them: `0-3,8`.
    pub cpus: Option<String>,
    /// Memory in use at last, in bytes, shared memory of its outputs included.
    pub memory: Option<u64>,
    /// Most memory in use at once, in bytes.
    pub memory_peak: Option<u64>,
    /// Limit on memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Time for which threads waited because the CPU quota was used up, in microseconds.
    pub throttled_us: Option<u64>,
    /// Wait mechanism of threads: `futex_waitv` or `helper threads`.
    pub waits: Option<String>,
}

impl ModuleFacts {
    /// Of a module of which nothing else is known.
    #[must_use]
    pub fn new(module: &str) -> Self {
        Self { module: module.to_owned(), ..Self::default() }
    }
}

impl RunFacts {
    /// The container of a module says what it uses.
    pub fn usage(&mut self, module: &str, usage: &Usage) {
        let Some(m) = self.modules.iter_mut().find(|m| m.module == module) else { return };
        m.memory = usage.memory_bytes.or(m.memory);
        // Restarted modules have new containers, which begin anew.
        m.memory_peak = m.memory_peak.max(usage.memory_peak_bytes);
        m.memory_limit = usage.memory_limit_bytes.or(m.memory_limit);
        m.throttled_us = m.throttled_us.max(usage.throttled_us);
        m.cpus = usage.cpus.clone().or(m.cpus.take());
    }

    /// Sets the wait mechanism of a module's threads.
    pub fn waits(&mut self, module: &str, waits: &str) {
        if let Some(m) = self.modules.iter_mut().find(|m| m.module == module) {
            m.waits = Some(waits.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_outlives_a_restart_and_strangers_are_ignored() {
        let mut facts = RunFacts { modules: vec![ModuleFacts::new("lane")], ..RunFacts::default() };
        let usage = |now, peak| Usage {
            memory_bytes: Some(now),
            memory_peak_bytes: Some(peak),
            cpus: Some("0-1".into()),
            ..Usage::default()
        };
        facts.usage("lane", &usage(5, 9));
        facts.usage("lane", &usage(3, 4));
        facts.usage("nobody", &usage(1, 100));
        facts.waits("lane", "futex_waitv");
        let lane = &facts.modules[0];
        assert_eq!((lane.memory, lane.memory_peak), (Some(3), Some(9)));
        assert_eq!(
            (lane.cpus.as_deref(), lane.waits.as_deref()),
            (Some("0-1"), Some("futex_waitv"))
        );
        assert_eq!(facts.modules.len(), 1);
    }
}
