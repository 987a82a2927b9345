// SPDX-License-Identifier: Apache-2.0
//! Facts about the machine that are needed to interpret latency figures.

use serde::Serialize;
use std::fs;
use std::path::Path;

/// Machine of a run. A fact that the system does not report is "unknown", or 0 if it is a number.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MachineFacts {
    /// Processor model.
    pub cpu: String,
    /// Logical processors that this process may use.
    pub cpus: usize,
    /// Main memory in MiB.
    pub memory_mib: u64,
    /// Kernel release and version; the version shows whether the kernel is a real-time kernel.
    pub kernel: String,
    /// Frequency governor of the first processor.
    pub governor: String,
    /// Kernel clock source behind `CLOCK_MONOTONIC`.
    pub clock_source: String,
    /// "virtual machine" or "bare metal", as the processor reports it.
    pub platform: String,
}

impl Default for MachineFacts {
    fn default() -> Self {
        let unknown = || "unknown".to_owned();
        Self {
            cpu: unknown(),
            cpus: 0,
            memory_mib: 0,
            kernel: unknown(),
            governor: unknown(),
            clock_source: unknown(),
            platform: unknown(),
        }
    }
}

impl MachineFacts {
    /// Returns the facts about this machine. Reads a few small files below `/proc` and `/sys`.
    #[must_use]
    pub fn here() -> Self {
        Self::read(Path::new("/"))
    }

    fn read(root: &Path) -> Self {
        let text = |path: &str| fs::read_to_string(root.join(path)).ok();
        let line =
            |path: &str| text(path).map_or_else(|| "unknown".to_owned(), |t| t.trim().to_owned());
        let cpuinfo = text("proc/cpuinfo").unwrap_or_default();
        let value = |key: &str| {
            cpuinfo.lines().find_map(|l| {
                l.split_once(':').filter(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned())
            })
        };
        let memory = text("proc/meminfo").and_then(|t| line_of_meminfo(&t, "MemTotal"));
        let uname = rustix::system::uname();
        let platform = match value("flags") {
            Some(flags) if flags.split(' ').any(|f| f == "hypervisor") => "virtual machine",
            Some(_) => "bare metal",
            None => "unknown",
        };
        Self {
            cpu: value("model name")
                .or_else(|| value("Processor"))
                .unwrap_or_else(|| "unknown".to_owned()),
            cpus: std::thread::available_parallelism().map_or(0, usize::from),
            memory_mib: memory.unwrap_or(0) >> 20,
            kernel: format!(
                "{} {}",
                uname.release().to_string_lossy(),
                uname.version().to_string_lossy()
            ),
            governor: line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            clock_source: line("sys/devices/system/clocksource/clocksource0/current_clocksource"),
            platform: platform.to_owned(),
        }
    }
}

/// Returns a line of /proc/meminfo, such as `MemAvailable`, in bytes; `None` if it is missing.
#[must_use]
pub fn meminfo(line: &str) -> Option<u64> {
    line_of_meminfo(&fs::read_to_string("/proc/meminfo").ok()?, line)
}

fn line_of_meminfo(text: &str, line: &str) -> Option<u64> {
    let value = text.lines().find_map(|l| l.strip_prefix(line)?.strip_prefix(':'))?;
    let kib: u64 = value.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_and_what_is_missing_is_unknown() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(
            "proc/cpuinfo",
            "processor\t: 0\nmodel name\t: Fast CPU\nflags\t\t: fpu hypervisor sse\n\nmodel \
             name\t: Fast CPU\n",
        );
        put("proc/meminfo", "MemFree: 1 kB\nMemTotal:       2097152 kB\n");
        put("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n");
        let facts = MachineFacts::read(root.path());
        assert_eq!((facts.cpu.as_str(), facts.memory_mib), ("Fast CPU", 2048));
        assert_eq!(
            line_of_meminfo("MemFree: 1 kB\nMemTotal:       2097152 kB\n", "MemFree"),
            Some(1024)
        );
        assert_eq!((facts.clock_source.as_str(), facts.governor.as_str()), ("tsc", "unknown"));
        assert_eq!(facts.platform, "virtual machine");
        assert!(facts.cpus > 0);
    }

    #[test]
    fn a_machine_without_facts_is_no_error() {
        let root = tempfile::tempdir().unwrap();
        let facts = MachineFacts::read(root.path());
        assert_eq!(
            (facts.cpu.as_str(), facts.platform.as_str(), facts.memory_mib),
            ("unknown", "unknown", 0)
        );
    }
}
