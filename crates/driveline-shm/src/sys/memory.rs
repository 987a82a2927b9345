// SPDX-License-Identifier: Apache-2.0
//! Memory that may still be reserved, and the place of the limit.
//!
//! The kernel answers a reservation beyond the limit of a memory cgroup with SIGKILL, not with an
//! error, so the limits are read first.

use std::fs;
use std::path::{Path, PathBuf};

/// The tightest of the limits on memory that apply to this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AvailableMemory {
    /// Number of bytes that may still be reserved.
    pub bytes: u64,
    /// The limit itself, in bytes.
    pub total: u64,
    /// Place of the limit, for people.
    pub limit: String,
}

/// Reads MemAvailable, the memory cgroup of this process, and all above it. Unreadable files do not
/// limit. Allocates and reads files.
#[must_use]
pub fn available_memory() -> AvailableMemory {
    if let Some((bytes, total)) = crate::fault::memory() {
        return AvailableMemory { bytes, total, limit: "the test's".into() };
    }
    read(Path::new("/proc"), Path::new("/sys/fs/cgroup"))
}

fn read(proc: &Path, cgroups: &Path) -> AvailableMemory {
    let mut best = AvailableMemory { bytes: u64::MAX, total: u64::MAX, limit: "none known".into() };
    let mut tighter = |bytes: u64, total: u64, limit: String| {
        if bytes < best.bytes {
            best = AvailableMemory { bytes, total, limit };
        }
    };
    if let Ok(text) = fs::read_to_string(proc.join("meminfo"))
        && let Some(kib) = field(&text, "MemAvailable:")
    {
        let total = field(&text, "MemTotal:").unwrap_or(kib);
        tighter(
            kib.saturating_mul(1024),
            total.saturating_mul(1024),
            "the machine's memory (MemAvailable in /proc/meminfo)".into(),
        );
    }
    let membership = fs::read_to_string(proc.join("self/cgroup")).unwrap_or_default();
    for line in membership.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (root, limit_name, usage_name) = if controllers.is_empty() {
            (cgroups.to_owned(), "memory.max", "memory.current")
        } else if controllers.split(',').any(|c| c == "memory") {
            (cgroups.join("memory"), "memory.limit_in_bytes", "memory.usage_in_bytes")
        } else {
            continue;
        };
        // Inside a container the path is often not below the mount. The root of the mount is read
        // in any case.
        let mut dir: PathBuf = root.join(path.trim_start_matches('/'));
        loop {
            let number = |name: &str| {
                fs::read_to_string(dir.join(name)).ok().and_then(|t| t.trim().parse::<u64>().ok())
            };
            if let (Some(limit), Some(used)) = (number(limit_name), number(usage_name)) {
                // The kernel drops clean file pages before it kills a process.
                let cache = fs::read_to_string(dir.join("memory.stat"))
                    .ok()
                    .and_then(|t| field(&t, "inactive_file"))
                    .unwrap_or(0);
                tighter(
                    limit.saturating_sub(used.saturating_sub(cache)),
                    limit,
                    format!("the memory cgroup {}", dir.join(limit_name).display()),
                );
            }
            if dir == root || !dir.pop() || !dir.starts_with(&root) {
                break;
            }
        }
    }
    best
}

fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_is_named() {
        let t = tempfile::tempdir().unwrap();
        let put = |p: &str, text: &str| {
            let p = t.path().join(p);
            fs::create_dir_all(p.parent().unwrap()).unwrap();
            fs::write(p, text).unwrap();
        };
        put("proc/meminfo", "MemTotal: 100 kB\nMemAvailable:   64 kB\n");
        put("proc/self/cgroup", "4:memory:/a/b\n0::/c\n");
        let read = || read(&t.path().join("proc"), &t.path().join("cg"));
        assert_eq!((read().bytes, read().total), (65536, 102_400));
        put("cg/memory/a/memory.limit_in_bytes", "50000\n");
        put("cg/memory/a/memory.usage_in_bytes", "20000\n");
        put("cg/memory/a/memory.stat", "inactive_file 5000\n");
        assert_eq!((read().bytes, read().total), (35000, 50000));
        assert!(read().limit.ends_with("cg/memory/a/memory.limit_in_bytes"), "{}", read().limit);
        put("cg/c/memory.max", "max\n");
        assert_eq!(read().bytes, 35000);
        put("cg/c/memory.max", "10\n");
        put("cg/c/memory.current", "20\n");
        assert_eq!(read().bytes, 0);
    }

    #[test]
    fn this_machine_has_some() {
        assert!(available_memory().bytes > 0);
    }
}
