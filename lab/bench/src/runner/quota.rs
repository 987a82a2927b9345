// SPDX-License-Identifier: Apache-2.0
//! A limit on the processor time of a run: a control group that is made for it and removed after
//! it.

use anyhow::{Context, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Length of the period over which the limit counts, in microseconds; the kernel's default.
const PERIOD_US: u64 = 100_000;

/// Beginning of the names of groups. The id of the process that made the group and a number follow.
const PREFIX: &str = "driveline-bench-";

/// Processor time that several processes share. Dropping it removes the group; its processes must
/// have ended.
#[derive(Debug)]
pub struct Quota {
    group: PathBuf,
    /// The group itself, locked: other processes see that its maker lives.
    _claim: File,
}

/// Effect of a limit, according to the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Throttling {
    /// Periods of 100 ms in which a process of the group wanted to run.
    pub(crate) periods: u64,
    /// Periods in which the limit was reached, so that all processes had to wait for the next one.
    pub(crate) throttled: u64,
    /// Total waiting time on all CPUs, in nanoseconds.
    pub(crate) waited_ns: u64,
}

impl Throttling {
    /// Reads the text of `cpu.stat` of version 1 or 2 of control groups. Returns `None` if it has
    /// no such counts.
    fn read(text: &str) -> Option<Self> {
        let of = |name: &str| {
            text.lines()
                .find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse::<u64>().ok())
        };
        let waited_ns = of("throttled_usec")
            .map(|us| us.saturating_mul(1000))
            .or_else(|| of("throttled_time"))?;
        Some(Self { periods: of("nr_periods")?, throttled: of("nr_throttled")?, waited_ns })
    }
}

impl Quota {
    /// Makes a group with this many percent of one CPU.
    ///
    /// # Errors
    /// If this user cannot limit processor time on this machine.
    pub fn new(percent: u32) -> Result<Self> {
        let parent = Self::parent()?;
        sweep(&parent);
        static MADE: AtomicU64 = AtomicU64::new(0);
        let group =
            parent.join(format!("{PREFIX}{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed)));
        match fs::create_dir(&group) {
            // An ended process with the same id left this group, and `sweep` has not removed it. It
            // is used, whether it is empty or not.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            made => made.with_context(|| {
                format!(
                    "cannot make the control group {}: limiting processor time needs the right to",
                    group.display()
                )
            })?,
        }
        let claim = File::open(&group)
            .with_context(|| format!("cannot open the control group {}", group.display()))?;
        claim
            .lock()
            .with_context(|| format!("cannot lock the control group {}", group.display()))?;
        let quota = Self { group, _claim: claim };
        let limit_us = u64::from(percent) * PERIOD_US / 100;
        let (file, text) = if quota.group.join("cpu.max").exists() {
            ("cpu.max", format!("{limit_us} {PERIOD_US}"))
        } else {
            ("cpu.cfs_quota_us", limit_us.to_string())
        };
        write(&quota.group.join(file), &text).with_context(|| {
            format!(
                "cannot limit processor time to {percent} % by a control group; one inside \
                 another, as in a container with a limit of its own, can have no more than that"
            )
        })?;
        Ok(quota)
    }

    /// Returns the group of this process, if groups below it can limit processor time.
    fn parent() -> Result<PathBuf> {
        let own =
            fs::read_to_string("/proc/self/cgroup").context("this kernel has no control groups")?;
        for line in own.lines() {
            let mut parts = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
            let below = |mount: &str| Path::new(mount).join(path.trim_start_matches('/'));
            if controllers.split(',').any(|c| c == "cpu") {
                // In a container, the last of these directories is often the container's own group.
                // The first two do not exist then.
                for candidate in [
                    below("/sys/fs/cgroup/cpu"),
                    below("/sys/fs/cgroup/cpu,cpuacct"),
                    "/sys/fs/cgroup/cpu".into(),
                ] {
                    if candidate.join("cpu.cfs_quota_us").exists()
                        || candidate.join("cgroup.procs").exists()
                    {
                        return Ok(candidate);
                    }
                }
            } else if controllers.is_empty() {
                let group = below("/sys/fs/cgroup");
                let enabled =
                    fs::read_to_string(group.join("cgroup.subtree_control")).unwrap_or_default();
                if enabled.split_whitespace().any(|c| c == "cpu") {
                    return Ok(group);
                }
            }
        }
        bail!(
            "no control group here can limit processor time: it needs the cpu controller (version \
             1, or version 2 with it enabled below)"
        )
    }

    /// Returns the effect of the limit so far; nothing if this kernel does not count it.
    pub(crate) fn throttling(&self) -> Option<Throttling> {
        Throttling::read(&fs::read_to_string(self.group.join("cpu.stat")).ok()?)
    }

    /// Puts a process into the group, with all its threads.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(crate) fn admit(&self, pid: u32) -> Result<()> {
        write(&self.group.join("cgroup.procs"), &pid.to_string())
    }
}

/// Removes the groups of killed runs, whose locks are free. The kernel keeps groups that contain a
/// process.
fn sweep(parent: &Path) {
    for group in fs::read_dir(parent).into_iter().flatten().flatten() {
        if group.file_name().to_string_lossy().starts_with(PREFIX)
            && let Ok(claim) = File::open(group.path())
            && claim.try_lock().is_ok()
        {
            let _ = fs::remove_dir(group.path());
        }
    }
}

impl Drop for Quota {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.group);
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write '{text}' to {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_of_control_groups_report_their_limit() {
        let expected = Some(Throttling { periods: 12, throttled: 5, waited_ns: 7000 });
        assert_eq!(
            Throttling::read("nr_periods 12\nnr_throttled 5\nthrottled_time 7000\n"),
            expected
        );
        assert_eq!(
            Throttling::read(
                "usage_usec 9\nuser_usec 9\nnr_periods 12\nnr_throttled 5\nthrottled_usec \
                 7\nnr_bursts 0\n"
            ),
            expected
        );
        // Without a limit, version 2 has no such counts.
        assert_eq!(Throttling::read("usage_usec 9\nuser_usec 9\nsystem_usec 0\n"), None);
    }

    #[test]
    fn groups_of_the_killed_are_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let [held, gone, used] = ["held", "gone", "used"].map(|name| format!("{PREFIX}{name}"));
        for name in [&held, &gone, &format!("{used}/in-it"), "7"] {
            fs::create_dir_all(parent.path().join(name)).unwrap();
        }
        let claim = File::open(parent.path().join(&held)).unwrap();
        claim.lock().unwrap();
        sweep(parent.path());
        let there =
            [held.as_str(), &gone, &used, "7"].map(|name| parent.path().join(name).exists());
        assert_eq!(there, [true, false, true, true]);
    }
}
