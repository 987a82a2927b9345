// SPDX-License-Identifier: Apache-2.0
//! Checks of the machine, from files in `/proc` and `/sys`, and of this process's limits.

use super::{Check, Verdict};
use driveline_runtime::host::memory_lock_refusal;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{CpuSet, sched_getaffinity};
use std::path::{Path, PathBuf};

/// Oldest kernel with which the transport is tested.
const OLDEST_KERNEL: (u32, u32) = (5, 10);
/// Number of descriptors that is enough for a few modules.
const DESCRIPTORS: u64 = 4096;

/// Files of the machine, below a root directory that tests replace.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn new(root: &Path) -> Self {
        Self(root.to_owned())
    }

    fn line(&self, path: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.0.join(path)).ok()?;
        Some(text.trim().to_owned())
    }

    fn exists(&self, path: &str) -> bool {
        self.0.join(path).exists()
    }
}

/// Returns all checks of the machine. `limits`: limits of this process; `release` and `version`: as
/// `uname` reports them.
pub(super) fn checks(files: &Files, release: &str, version: &str, limits: &Limits) -> Vec<Check> {
    vec![
        kernel(release),
        preemption(files, version),
        clock_source(files),
        governor(files),
        isolation(files),
        throttling(files),
        numa(files),
        container(files),
        cgroup(files),
        priorities(limits),
        locked_memory(limits),
        descriptors(limits),
    ]
}

/// Limits of a process; `None` is unlimited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) priority: Option<u64>,
    pub(super) locked: Option<u64>,
    pub(super) descriptors: Option<u64>,
    pub(super) root: bool,
}

impl Limits {
    pub(super) fn here() -> Self {
        Self {
            priority: getrlimit(Resource::Rtprio).maximum,
            // Unlimited if a module can raise the limit, or if the kernel does not apply it.
            locked: memory_lock_refusal().and(getrlimit(Resource::Memlock).maximum),
            // Modules raise the soft limit to the hard limit.
            descriptors: getrlimit(Resource::Nofile).maximum,
            root: rustix::process::geteuid().is_root(),
        }
    }
}

fn kernel(release: &str) -> Check {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let known = numbers.next().zip(numbers.next());
    let check = Check::new("kernel", release);
    match known {
        Some(known) if known < OLDEST_KERNEL => check.warn(format!(
            "older than {}.{}, the oldest supported kernel: use a newer one",
            OLDEST_KERNEL.0, OLDEST_KERNEL.1
        )),
        _ => check,
    }
}

fn preemption(files: &Files, version: &str) -> Check {
    let realtime = files.line("sys/kernel/realtime").as_deref() == Some("1");
    let model =
        ["PREEMPT_RT", "PREEMPT_DYNAMIC", "PREEMPT"].into_iter().find(|m| version.contains(m));
    // Only root can read which preemption model a dynamic kernel uses.
    let mode = files.line("sys/kernel/debug/sched/preempt");
    let check = Check::new(
        "preemption",
        match (model, mode) {
            (Some(model), Some(mode)) => format!("{model} ({mode})"),
            (Some(model), None) => model.to_owned(),
            (None, _) => "none or voluntary".to_owned(),
        },
    );
    if realtime || model == Some("PREEMPT_RT") {
        check
    } else {
        check.note(
            "no real-time kernel: single delays of milliseconds are possible; for bounds use a \
             PREEMPT_RT kernel (Debian: linux-image-rt-amd64)",
        )
    }
}

fn clock_source(files: &Files) -> Check {
    let source = files.line("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let check = Check::new("clock source", source.as_deref().unwrap_or("unknown"));
    match source.as_deref() {
        Some("hpet" | "acpi_pm" | "jiffies") => check.warn(
            "each time stamp costs a microsecond or more; look for the reason in `dmesg | grep -i \
             tsc`, and boot with `tsc=reliable` if the TSC is good",
        ),
        _ => check,
    }
}

fn governor(files: &Files) -> Check {
    match files.line("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") {
        None => Check::new("frequency governor", "none (fixed frequency, or a virtual machine)"),
        Some(governor) if governor == "performance" => Check::new("frequency governor", governor),
        Some(governor) => Check::new("frequency governor", governor).warn(
            "cores change their frequency, and latencies with it: `sudo cpupower frequency-set -g \
             performance`",
        ),
    }
}

fn isolation(files: &Files) -> Check {
    let list = |path: &str| files.line(path).filter(|cores| !cores.is_empty() && cores != "(null)");
    let isolated = list("sys/devices/system/cpu/isolated");
    let tickless = list("sys/devices/system/cpu/nohz_full");
    let found = match (&isolated, &tickless) {
        (None, None) => "none".to_owned(),
        (Some(cores), None) => cores.clone(),
        (cores, Some(tickless)) => {
            format!("{}; without a tick: {tickless}", cores.as_deref().unwrap_or("none"))
        }
    };
    let check = Check::new("isolated cores", found);
    if isolated.is_some() {
        return check;
    }
    check.note(
        "other processes run on the same cores as the graph; to reserve cores for it, boot with \
         `isolcpus=` and name them in `schedule: cpus:`",
    )
}

/// Returns the CPUs on which the kernel runs only processes that request them.
pub(super) fn isolated_cores(files: &Files) -> Vec<usize> {
    numbers(&files.line("sys/devices/system/cpu/isolated").unwrap_or_default())
}

/// Returns the numbers of a list of the kernel, such as `0-3,8`; at most 4096.
fn numbers(list: &str) -> Vec<usize> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    };
    list.split(',').filter_map(range).flatten().take(4096).collect()
}

/// Returns the CPUs that this process may use.
pub(super) fn own_cores() -> Vec<usize> {
    let set = sched_getaffinity(None);
    set.map(|set| (0..CpuSet::MAX_CPU).filter(|c| set.is_set(*c)).collect()).unwrap_or_default()
}

fn throttling(files: &Files) -> Check {
    let number = |path: &str| files.line(path).and_then(|text| text.parse::<i64>().ok());
    let runtime = number("proc/sys/kernel/sched_rt_runtime_us");
    let period = number("proc/sys/kernel/sched_rt_period_us");
    match runtime.zip(period) {
        Some((runtime, _)) if runtime < 0 => Check::new("real-time share", "unlimited").note(
            "a real-time thread that does not sleep stops its core for good; `sysctl \
             kernel.sched_rt_runtime_us=950000` leaves 5 % to others",
        ),
        Some((runtime, period)) if period > 0 => {
            Check::new("real-time share", format!("{} %", runtime * 100 / period))
        }
        _ => Check::new("real-time share", "unknown"),
    }
}

fn numa(files: &Files) -> Check {
    let nodes = files.line("sys/devices/system/node/online").unwrap_or_else(|| "0".into());
    match numbers(&nodes).len() {
        0 | 1 => Check::new("NUMA nodes", "1"),
        n => Check::new("NUMA nodes", format!("{n} ({nodes})"))
            .note("keep the modules of one chain on the cores of one node (`schedule: cpus:`)"),
    }
}

fn container(files: &Files) -> Check {
    let environ = files.line("proc/1/environ").unwrap_or_default();
    let named = environ.split('\0').find_map(|v| v.strip_prefix("container="));
    let kind = match named {
        Some(name) => Some(name.to_owned()),
        None if files.exists(".dockerenv") => Some("docker".into()),
        None if files.exists("run/.containerenv") => Some("podman".into()),
        None => None,
    };
    match kind {
        None => Check::new("container", "none found"),
        Some(kind) => Check::new("container", kind).note(
            "modules in several containers need a common domain directory; if their users \
             differ, topics need `access` for the other user; real-time priorities need \
             `--cap-add SYS_NICE` or `--ulimit rtprio=99`",
        ),
    }
}

/// Checks the strictest limits of the control groups that contain this process.
fn cgroup(files: &Files) -> Check {
    let membership = files.line("proc/self/cgroup").unwrap_or_default();
    let Some(path) = membership.lines().find_map(|l| l.strip_prefix("0::")) else {
        return Check::new("control group", "version 1 or unknown");
    };
    let root = Path::new("sys/fs/cgroup");
    let own = root.join(path.trim_start_matches('/'));
    let (mut quota, mut memory) = (None, None);
    // Inside a container, the path possibly does not exist below the container's mount of
    // /sys/fs/cgroup. The root of that mount always exists.
    for directory in own.ancestors().chain([root]).take_while(|d| d.starts_with(root)) {
        let line = |name: &str| files.line(&directory.join(name).to_string_lossy());
        if let Some((used, period)) = line("cpu.max").and_then(|text| {
            let (used, period) = text.split_once(' ')?;
            Some((used.parse::<f64>().ok()?, period.parse::<f64>().ok()?))
        }) {
            let cores = used / period.max(1.0);
            quota = Some(quota.map_or(cores, |q: f64| q.min(cores)));
        }
        if let Some(bytes) = line("memory.max").and_then(|text| text.parse::<u64>().ok()) {
            memory = Some(memory.map_or(bytes, |m: u64| m.min(bytes)));
        }
    }
    let mut limits: Vec<String> = quota.iter().map(|cores| format!("{cores} cores")).collect();
    limits.extend(memory.map(|bytes| format!("{} MiB of memory", bytes >> 20)));
    let found = if limits.is_empty() { "no limits".to_owned() } else { limits.join(", ") };
    let check = Check::new("control group", found);
    match quota {
        Some(_) => check.warn(
            "a process group that has used its share of the period stands still until the next \
             one: delays of up to 100 ms; remove the CPU quota (`CPUQuota=`, `--cpus`) and give it \
             cores instead (`AllowedCPUs=`, `--cpuset-cpus`)",
        ),
        None => check,
    }
}

fn priorities(limits: &Limits) -> Check {
    match limits.priority {
        _ if limits.root => Check::new("real-time priorities", "all (root)"),
        None => Check::new("real-time priorities", "all"),
        Some(0) => Check::new("real-time priorities", "none").note(
            "needed for `schedule: {class: fifo}`: `USER - rtprio 98` in /etc/security/limits.conf \
             and a new login, or LimitRTPRIO= of a systemd unit",
        ),
        Some(most) => Check::new("real-time priorities", format!("1 to {most}")),
    }
}

fn locked_memory(limits: &Limits) -> Check {
    match limits.locked {
        None => Check::new("locked memory", "unlimited"),
        Some(bytes) => Check::new("locked memory", format!("{} KiB", bytes >> 10)).note(
            "needed for `lock_memory`: `USER - memlock unlimited` in /etc/security/limits.conf and \
             a new login, or LimitMEMLOCK=infinity of a systemd unit",
        ),
    }
}

fn descriptors(limits: &Limits) -> Check {
    match limits.descriptors {
        None => Check::new("descriptors", "unlimited"),
        Some(most) if most < DESCRIPTORS => {
            Check::new("descriptors", most.to_string()).warn(format!(
                "a large graph needs more: raise the hard limit to {DESCRIPTORS} or more \
                 (`ulimit -Hn`, LimitNOFILE= of a systemd unit)"
            ))
        }
        Some(most) => Check::new("descriptors", most.to_string()),
    }
}

/// Returns the worst verdict.
pub(super) fn worst(checks: &[Check]) -> Verdict {
    checks.iter().map(|c| c.verdict).max().unwrap_or(Verdict::Good)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: Limits =
        Limits { priority: Some(98), locked: None, descriptors: Some(1 << 20), root: false };

    fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    fn found(checks: &[Check], name: &str) -> (String, Verdict) {
        let check = checks.iter().find(|c| c.name == name).unwrap();
        (check.found.clone(), check.verdict)
    }

    #[test]
    fn a_machine_for_real_time_has_nothing_to_change() {
        let root = machine(&[
            ("sys/kernel/realtime", "1\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/isolated", "2-3\n"),
            ("sys/devices/system/cpu/nohz_full", "3\n"),
            ("sys/devices/system/node/online", "0\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "950000\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/self/cgroup", "0::/user.slice\n"),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
        ]);
        let checks = checks(&Files::new(root.path()), "6.12.1-rt", "#1 SMP PREEMPT_RT x", &GOOD);
        assert_eq!(worst(&checks), Verdict::Good, "{checks:?}");
        assert_eq!(found(&checks, "isolated cores").0, "2-3; without a tick: 3");
        assert_eq!(found(&checks, "real-time share").0, "95 %");
        assert_eq!(found(&checks, "control group").0, "no limits");
        assert_eq!(isolated_cores(&Files::new(root.path())), [2, 3]);
    }

    #[test]
    fn what_is_to_be_changed_comes_with_its_remedy() {
        let root = machine(&[
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
            ("sys/devices/system/node/online", "0-1\n"),
            ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
            ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
            ("proc/self/cgroup", "0::/a/b\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/b/memory.max", "1073741824\n"),
            (".dockerenv", ""),
        ]);
        let limits = Limits {
            priority: Some(0),
            locked: Some(65_536),
            descriptors: Some(1024),
            root: false,
        };
        let checks = checks(&Files::new(root.path()), "4.19.0", "#1 SMP", &limits);
        for (name, is, verdict) in [
            ("kernel", "4.19.0", Verdict::Warning),
            ("preemption", "none or voluntary", Verdict::Note),
            ("clock source", "hpet", Verdict::Warning),
            ("frequency governor", "powersave", Verdict::Warning),
            ("isolated cores", "none", Verdict::Note),
            ("real-time share", "unlimited", Verdict::Note),
            ("NUMA nodes", "2 (0-1)", Verdict::Note),
            ("container", "docker", Verdict::Note),
            ("control group", "1.5 cores, 1024 MiB of memory", Verdict::Warning),
            ("real-time priorities", "none", Verdict::Note),
            ("locked memory", "64 KiB", Verdict::Note),
            ("descriptors", "1024", Verdict::Warning),
        ] {
            assert_eq!(found(&checks, name), (is.to_owned(), verdict), "{name}");
        }
        assert!(checks.iter().all(|c| c.verdict == Verdict::Good || c.change.is_some()));
    }

    #[test]
    fn a_machine_that_reports_nothing_is_no_error() {
        let root = machine(&[]);
        let checks = checks(&Files::new(root.path()), "", "", &GOOD);
        assert!(worst(&checks) <= Verdict::Note, "{checks:?}");
    }
}
