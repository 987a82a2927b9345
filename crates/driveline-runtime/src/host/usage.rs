// SPDX-License-Identifier: Apache-2.0
//! Memory and CPU use of this process's cgroup, as version 1 or 2 reports it.

use crate::account::Usage;
use std::path::{Path, PathBuf};

/// A limit from here on means that there is none: version 1 then reports the greatest possible
/// limit, 9223372036854771712 bytes with pages of 4 KiB.
const NO_LIMIT: u64 = 1 << 60;

/// Reads the usage. Values that cannot be read are absent. Reads a few files and allocates.
pub(super) fn read() -> Usage {
    read_at(Path::new("/proc/self"), Path::new("/sys/fs/cgroup"))
}

fn read_at(process: &Path, cgroups: &Path) -> Usage {
    let membership = std::fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let places = Places { membership: &membership, cgroups };
    let status = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let cpus = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"))
        .map(|list| list.trim().to_owned());
    let number = |files: [(&str, &str); 2]| places.text(files)?.trim().parse::<u64>().ok();
    let events = places.text([("", "memory.events"), ("memory", "memory.oom_control")]);
    let cpu = places.text([("", "cpu.stat"), ("cpu", "cpu.stat")]);
    let field = |text: &Option<String>, name: &str| field(text.as_deref()?, name);
    Usage {
        memory_bytes: number([("", "memory.current"), ("memory", "memory.usage_in_bytes")]),
        memory_peak_bytes: number([("", "memory.peak"), ("memory", "memory.max_usage_in_bytes")]),
        memory_limit_bytes: number([("", "memory.max"), ("memory", "memory.limit_in_bytes")])
            .filter(|limit| *limit < NO_LIMIT),
        throttled_us: field(&cpu, "throttled_usec")
            .or_else(|| field(&cpu, "throttled_time").map(|ns| ns / 1000)),
        throttled_periods: field(&cpu, "nr_throttled"),
        oom_kills: field(&events, "oom_kill"),
        cpus,
    }
}

/// Possible places of the files of this process's cgroups.
struct Places<'a> {
    /// Text of `/proc/self/cgroup`.
    membership: &'a str,
    cgroups: &'a Path,
}

impl Places<'_> {
    /// Returns the text of the first existing file of these: (controller, or "" for version 2;
    /// name).
    fn text(&self, files: [(&str, &str); 2]) -> Option<String> {
        let read = |(controller, file)| {
            let directories = self.directories(controller).into_iter();
            directories.map(|d| d.join(file)).find_map(|path| std::fs::read_to_string(path).ok())
        };
        files.into_iter().find_map(read)
    }

    /// Returns possible directories. In a container, the cgroup is often the root of the mount,
    /// whatever its path.
    fn directories(&self, controller: &str) -> Vec<PathBuf> {
        let path = self.membership.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let (controllers, path) = (parts.next()?, parts.next()?);
            controllers.split(',').any(|c| c == controller).then_some(path)
        });
        let Some(path) = path else { return Vec::new() };
        let root = self.cgroups.join(controller);
        vec![root.join(path.trim_start_matches('/')), root]
    }
}

fn field(text: &str, name: &str) -> Option<u64> {
    let value = |line: &str| line.strip_prefix(name)?.trim().parse().ok();
    text.lines().find_map(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        dir
    }

    fn usage(files: &[(&str, &str)]) -> Usage {
        let dir = tree(files);
        read_at(&dir.path().join("proc"), &dir.path().join("cg"))
    }

    #[test]
    fn both_versions_say_the_same() {
        let status = ("proc/status", "Name:\tx\nCpus_allowed_list:\t0-1\n");
        let one = usage(&[
            status,
            ("proc/cgroup", "4:memory:/libpod/x\n2:cpu,cpuacct:/libpod/x\n0::/\n"),
            // Seen from inside, the mount's root is the container's cgroup.
            ("cg/memory/memory.usage_in_bytes", "5\n"),
            ("cg/memory/memory.max_usage_in_bytes", "9\n"),
            ("cg/memory/memory.limit_in_bytes", "100\n"),
            ("cg/memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"),
            // The directory of `cpu,cpuacct` is found as `cpu`, which is a link to it.
            ("cg/cpu/libpod/x/cpu.stat", "nr_periods 4\nnr_throttled 3\nthrottled_time 7000\n"),
        ]);
        let two = usage(&[
            status,
            ("proc/cgroup", "0::/libpod/x\n"),
            ("cg/libpod/x/memory.current", "5\n"),
            ("cg/libpod/x/memory.peak", "9\n"),
            ("cg/libpod/x/memory.max", "100\n"),
            ("cg/libpod/x/memory.events", "low 0\noom 1\noom_kill 2\n"),
            ("cg/libpod/x/cpu.stat", "usage_usec 50\nnr_throttled 3\nthrottled_usec 7\n"),
        ]);
        assert_eq!(one, two);
        assert_eq!(
            one,
            Usage {
                memory_bytes: Some(5),
                memory_peak_bytes: Some(9),
                memory_limit_bytes: Some(100),
                throttled_us: Some(7),
                throttled_periods: Some(3),
                oom_kills: Some(2),
                cpus: Some("0-1".into()),
            }
        );
    }

    #[test]
    fn no_limit_and_no_cgroup_are_absent() {
        let none = usage(&[
            ("proc/cgroup", "4:memory:/\n"),
            ("cg/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(none, Usage::default());
        assert_eq!(usage(&[("proc/cgroup", "0::/\n"), ("cg/memory.max", "max\n")]), none);
        assert_eq!(usage(&[]), none);
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(read().cpus.is_some_and(|cpus| !cpus.is_empty()));
    }
}
