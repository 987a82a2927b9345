// SPDX-License-Identifier: Apache-2.0
//! Properties of the machine, and its other load. A measured figure means nothing without both.

use anyhow::{Context, Result};
use driveline::types::MonotonicNs;
use driveline_analyze::{MachineFacts, meminfo};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};
use std::fs;
use std::ops::Sub;

/// The machine as examined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Processor model.
    pub cpu: String,
    /// CPUs that this process may use.
    pub usable_cpus: Vec<usize>,
    /// CPUs that are online.
    pub online_cpus: String,
    /// `true` if this is a virtual machine.
    pub virtual_machine: bool,
    /// Kernel release and version.
    pub kernel: String,
    /// `true` if the kernel is a real-time one (PREEMPT_RT).
    pub real_time_kernel: bool,
    /// The kernel's clock source. On x86, any other than `tsc` makes stamps expensive.
    pub clock_source: String,
    /// Cost of one stamp, in nanoseconds: the median of many.
    pub clock_cost_ns: u64,
    /// Frequency governor of the first CPU, or "not visible".
    pub governor: String,
    /// The kernel's driver of idle states, or "not visible".
    pub idle_states: String,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Congestion control of the kernel's TCP, which determines the amount of data in flight. New
    /// network namespaces inherit it. Empty in archives of older releases.
    #[serde(default)]
    pub tcp_congestion_control: String,
    /// CPU limit of the control group, or "none".
    pub cgroup_cpu_limit: String,
    /// Load average over a minute before the measurement.
    pub load_before: Option<f64>,
    /// Settings that could not be made, or could not be read.
    pub not_set: Vec<String>,
}

impl Machine {
    /// Examines the machine.
    #[must_use]
    pub fn examine(usable_cpus: &[usize]) -> Self {
        let facts = MachineFacts::here();
        // In archives, an unknown governor is called "not visible".
        let governor = Some(facts.governor).filter(|g| g != "unknown");
        let idle = read("/sys/devices/system/cpu/cpuidle/current_driver");
        let mut not_set = Vec::new();
        if governor.is_none() {
            not_set.push(
                "the frequency governor is not visible, so frequencies may change during \
                 the measurement"
                    .to_owned(),
            );
        }
        let scheduling = rustix::process::getrlimit(rustix::process::Resource::Rtprio);
        // Checks the capability, not the user: in a container root may lack it, and elsewhere other
        // users may have it.
        let may_all = rustix::thread::capabilities(None)
            .is_ok_and(|c| c.effective.contains(CapabilitySet::SYS_NICE));
        if scheduling.current == Some(0) && !may_all {
            not_set.push("real-time scheduling is not allowed to this user".to_owned());
        }
        if !std::path::Path::new("/sys/bus/event_source/devices/cpu").exists() {
            not_set.push(
                "the processor's performance counters are not visible, so misses and \
                 cycles are not reported"
                    .to_owned(),
            );
        }
        Self {
            cpu: facts.cpu,
            usable_cpus: usable_cpus.to_vec(),
            online_cpus: read("/sys/devices/system/cpu/online").unwrap_or_else(|| "unknown".into()),
            virtual_machine: facts.platform == "virtual machine",
            real_time_kernel: read("/sys/kernel/realtime").as_deref() == Some("1")
                || facts.kernel.contains("PREEMPT_RT"),
            kernel: facts.kernel,
            clock_source: facts.clock_source,
            clock_cost_ns: clock_cost_ns(),
            governor: governor.unwrap_or_else(|| "not visible".into()),
            idle_states: idle.unwrap_or_else(|| "not visible".into()),
            memory_bytes: meminfo("MemTotal").unwrap_or(0),
            tcp_congestion_control: read("/proc/sys/net/ipv4/tcp_congestion_control")
                .unwrap_or_else(|| "not visible".into()),
            cgroup_cpu_limit: cgroup_cpu_limit(),
            load_before: read("/proc/loadavg").and_then(|l| l.split(' ').next()?.parse().ok()),
            not_set,
        }
    }
}

/// CPUs that this process may run on.
///
/// # Errors
/// The error of the kernel.
pub fn usable_cpus() -> Result<Vec<usize>> {
    let set = rustix::thread::sched_getaffinity(None)
        .context("cannot find out which CPUs may be used")?;
    Ok((0..rustix::thread::CpuSet::MAX_CPU).filter(|&c| set.is_set(c)).collect())
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|s| s.trim().to_owned())
}

fn clock_cost_ns() -> u64 {
    const STAMPS: u64 = 1000;
    let mut costs: Vec<u64> = (0..51)
        .map(|_| {
            let start = MonotonicNs::now();
            for _ in 0..STAMPS {
                std::hint::black_box(MonotonicNs::now());
            }
            MonotonicNs::now().since(start).as_nanos() as u64 / STAMPS
        })
        .collect();
    costs.sort_unstable();
    costs.get(costs.len() / 2).copied().unwrap_or(0)
}

fn cgroup_cpu_limit() -> String {
    let groups = read("/proc/self/cgroup").unwrap_or_default();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        if controllers.is_empty() {
            if let Some(max) =
                read(&format!("/sys/fs/cgroup{path}/cpu.max")).filter(|m| !m.starts_with("max"))
            {
                return format!("{max} (quota and period in µs)");
            }
        } else if controllers.split(',').any(|c| c == "cpu")
            && let Some(quota) =
                read(&format!("/sys/fs/cgroup/cpu{path}/cpu.cfs_quota_us")).filter(|q| q != "-1")
        {
            return format!("{quota} µs quota");
        }
    }
    "none".into()
}

/// Processor time of the whole machine so far, in clock ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ticks {
    total: u64,
    busy: u64,
    stolen: u64,
    /// Processor time of this process and of the children that it has waited for.
    ours: u64,
}

impl Ticks {
    /// Reads the kernel's counts.
    #[must_use]
    pub fn now() -> Self {
        let all = read("/proc/stat").unwrap_or_default();
        let fields: Vec<u64> = all
            .lines()
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .skip(1)
            .filter_map(|f| f.parse().ok())
            .collect();
        let at = |i: usize| fields.get(i).copied().unwrap_or(0);
        // user nice system idle iowait irq softirq steal; guest time is part of user time.
        let (idle, stolen) = (at(3) + at(4), at(7));
        let total: u64 = fields.iter().take(8).sum();
        let own = read("/proc/self/stat").unwrap_or_default();
        // The name in parentheses may contain spaces; utime is the 14th field, the 12th after it.
        let after = own.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ours =
            after.split_whitespace().skip(11).take(4).filter_map(|f| f.parse::<u64>().ok()).sum();
        Self { total, busy: total - idle - stolen, stolen, ours }
    }
}

impl Sub for Ticks {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self {
            total: self.total.saturating_sub(earlier.total),
            busy: self.busy.saturating_sub(earlier.busy),
            stolen: self.stolen.saturating_sub(earlier.stolen),
            ours: self.ours.saturating_sub(earlier.ours),
        }
    }
}

impl Ticks {
    /// Returns the shares of the machine that other processes and other guests of the host used.
    #[must_use]
    pub fn shares(self) -> Disturbance {
        let share =
            |ticks: u64| if self.total > 0 { ticks as f64 / self.total as f64 } else { 0.0 };
        Disturbance {
            other_processes: share(self.busy.saturating_sub(self.ours)),
            stolen: share(self.stolen),
            stolen_ticks: self.stolen,
        }
    }
}

/// Other activity on the machine during a run, as shares of all its CPUs (resolution: a clock tick,
/// mostly 10 ms).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Used by processes that are not part of the measurement.
    pub other_processes: f64,
    /// Taken by the hypervisor for other machines.
    pub stolen: f64,
    /// The stolen time in clock ticks: in a short run, one tick is already a large share.
    pub stolen_ticks: u64,
}

/// Resource use of a process so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessUse {
    /// Processor time of all threads.
    pub cpu_ns: u64,
    /// Processor time of the first thread.
    pub main_cpu_ns: u64,
    /// Number of times that one of its threads was scheduled.
    pub switches: u64,
}

impl ProcessUse {
    /// Returns the use of the process `pid`, over its living threads. Reads one file for each.
    ///
    /// # Errors
    /// If the process is gone, or the kernel does not report it.
    pub fn of(pid: u32) -> Result<Self> {
        let mut sum = Self { cpu_ns: 0, main_cpu_ns: 0, switches: 0 };
        let tasks = format!("/proc/{pid}/task");
        for task in fs::read_dir(&tasks).with_context(|| format!("cannot look into {tasks}"))? {
            let path = task?.path();
            let numbers = match fs::read_to_string(path.join("schedstat")) {
                Ok(numbers) => numbers,
                // The thread has ended since it was listed.
                Err(_) if !path.exists() => continue,
                Err(e) => {
                    return Err(e)
                        .context("this kernel does not report exact processor times (schedstat)");
                }
            };
            let mut numbers = numbers.split_whitespace().map(str::parse);
            if let (Some(Ok(cpu_ns)), _, Some(Ok(switches))) =
                (numbers.next(), numbers.next(), numbers.next())
            {
                let (cpu_ns, switches): (u64, u64) = (cpu_ns, switches);
                sum.cpu_ns += cpu_ns;
                sum.switches += switches;
                if path.file_name().is_some_and(|n| n.to_string_lossy() == pid.to_string()) {
                    sum.main_cpu_ns = cpu_ns;
                }
            }
        }
        Ok(sum)
    }
}

/// Returns the resident memory of a process in bytes; `None` if it has ended.
#[must_use]
pub fn resident_bytes(pid: u32) -> Option<u64> {
    let pages: u64 = fs::read_to_string(format!("/proc/{pid}/statm"))
        .ok()?
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()?;
    Some(pages * rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_is_described() {
        let cpus = usable_cpus().unwrap();
        assert!(!cpus.is_empty());
        let m = Machine::examine(&cpus);
        assert!(m.memory_bytes > 1 << 20 && m.clock_cost_ns > 0 && m.kernel.len() > 3, "{m:?}");
        assert!(!m.tcp_congestion_control.is_empty(), "{m:?}");
        // An archive from before this key existed.
        let mut old = serde_json::to_value(&m).unwrap();
        old.as_object_mut().unwrap().remove("tcp_congestion_control");
        assert_eq!(serde_json::from_value::<Machine>(old).unwrap().tcp_congestion_control, "");
    }

    #[test]
    fn own_work_is_not_called_a_disturbance() {
        let before = Ticks { total: 1000, busy: 100, stolen: 0, ours: 50 };
        let after = Ticks { total: 1200, busy: 200, stolen: 20, ours: 110 };
        assert_eq!(
            (after - before).shares(),
            Disturbance { other_processes: 0.2, stolen: 0.1, stolen_ticks: 20 }
        );
        assert_eq!((before - after).shares(), Disturbance::default());
    }

    #[test]
    fn a_process_has_used_some_time() {
        let own = ProcessUse::of(std::process::id()).unwrap();
        assert!(own.cpu_ns >= own.main_cpu_ns && own.main_cpu_ns > 0 && own.switches > 0);
    }
}
