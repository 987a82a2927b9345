// SPDX-License-Identifier: Apache-2.0
//! Place of a run's modules, and the resources of their containers.

use crate::facts::RunFacts;
use driveline_runtime::account::{SettingAccount, Usage};
use serde::Serialize;

/// One module. Facts that are unknown, or do not exist without a container, are `None`.
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
    /// Newest memory use, in bytes, shared memory of its outputs included.
    pub memory: Option<u64>,
    /// Maximum memory use, in bytes.
    pub memory_peak: Option<u64>,
    /// Limit on memory, in bytes.
    pub memory_limit: Option<u64>,
    /// Time for which threads waited because the CPU quota was used up, in microseconds. If the
    /// module was restarted, it had several containers: the longest time in one of them.
    pub throttled_us: Option<u64>,
    /// Wait mechanism of threads: `futex_waitv` or `helper threads`.
    pub waits: Option<String>,
    /// Settings requested from the kernel, and their results.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<SettingAccount>,
}

impl ModuleFacts {
    /// Returns the settings requested from the kernel: one line each, for people.
    pub fn setting_lines(&self) -> impl Iterator<Item = String> {
        self.settings.iter().map(|s| {
            let refused = s.refused.as_ref().map(|r| format!("; refused: {r}"));
            let (name, in_force) = (&s.setting, &s.in_force);
            format!("{}: {name}: {in_force}{}", self.module, refused.unwrap_or_default())
        })
    }

    /// Returns the facts of a module of which only the name is known.
    #[must_use]
    pub fn new(module: &str) -> Self {
        Self { module: module.to_owned(), ..Self::default() }
    }
}

impl RunFacts {
    /// Sets the resource use of a module's container.
    pub fn usage(&mut self, module: &str, usage: &Usage) {
        let Some(m) = self.modules.iter_mut().find(|m| m.module == module) else { return };
        m.memory = usage.memory_bytes.or(m.memory);
        // Restarted modules have new containers, whose figures begin at 0.
        m.memory_peak = m.memory_peak.max(usage.memory_peak_bytes);
        m.memory_limit = usage.memory_limit_bytes.or(m.memory_limit);
        m.throttled_us = m.throttled_us.max(usage.throttled_us);
        m.cpus = usage.cpus.clone().or(m.cpus.take());
    }

    /// Sets the kernel settings of a module's newest process, and their results.
    pub fn settings(&mut self, module: &str, settings: &[SettingAccount]) {
        if let Some(m) = self.modules.iter_mut().find(|m| m.module == module) {
            m.settings = settings.to_vec();
        }
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
        let asked = |setting: &str, refused: Option<&str>| SettingAccount {
            setting: setting.into(),
            in_force: "x".into(),
            refused: refused.map(str::to_owned),
        };
        facts.settings("lane", &[asked("numa", None)]);
        facts.settings("lane", &[asked("numa", Some("no")), asked("lock_memory", None)]);
        let lane = &facts.modules[0];
        assert_eq!((lane.memory, lane.memory_peak), (Some(3), Some(9)));
        assert_eq!(
            (lane.cpus.as_deref(), lane.waits.as_deref()),
            (Some("0-1"), Some("futex_waitv"))
        );
        assert_eq!(facts.modules.len(), 1);
        let lines: Vec<_> = lane.setting_lines().collect();
        assert_eq!(lines, ["lane: numa: x; refused: no", "lane: lock_memory: x"]);
    }
}
