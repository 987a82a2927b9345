// SPDX-License-Identifier: Apache-2.0
//! Resources of the processes of a run: descriptors, segments, memory, files of the domain.

use driveline_runtime::launch::control::RunStatus;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Name of the launcher in a census.
pub const LAUNCHER: &str = "(launcher)";
/// Maximum number of processes of this machine that are read.
const MAX_PROCESSES: usize = 65_536;

/// Resources of one process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Kept {
    /// Its process id.
    pub pid: u32,
    /// Open descriptors.
    pub descriptors: u64,
    /// Open descriptors by kind: `socket`, `pipe`, `anon_inode:[pidfd]`, or the path of a file.
    pub kinds: BTreeMap<String, u64>,
    /// Shared-memory files that it has mapped.
    pub segments: u64,
    /// Resident anonymous memory, in KiB.
    pub anonymous_kib: u64,
}

/// Resources of all processes of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Census {
    /// By module; the launcher is [`LAUNCHER`].
    pub processes: BTreeMap<String, Kept>,
    /// Entries of the domain's directory.
    pub files: u64,
}

impl Census {
    /// Counts now. A process that ends meanwhile is left out.
    #[must_use]
    pub fn of(run: &RunStatus, domain: &Path) -> Self {
        let modules = run.processes.iter().filter_map(|p| Some((p.name.clone(), p.pid?)));
        let all = modules.chain([(LAUNCHER.to_owned(), run.pid)]);
        Self {
            processes: all.filter_map(|(name, pid)| Some((name, Kept::of(pid)?))).collect(),
            files: entries(domain).len() as u64,
        }
    }

    /// Returns the growth since an earlier census: descriptors and segments by process, and files.
    #[must_use]
    pub fn beyond(&self, before: &Self) -> Growth {
        let mut growth =
            Growth { files: self.files.saturating_sub(before.files), ..Growth::default() };
        for (name, kept) in &self.processes {
            let Some(old) = before.processes.get(name) else { continue };
            let more = |now: u64, then: u64| (now > then).then(|| now - then);
            if let Some(n) = more(kept.descriptors, old.descriptors) {
                growth.descriptors.insert(name.clone(), n);
            }
            if let Some(n) = more(kept.segments, old.segments) {
                growth.segments.insert(name.clone(), n);
            }
        }
        growth
    }
}

/// Growth of a run's resources since before its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Growth {
    /// Descriptors, by process.
    pub descriptors: BTreeMap<String, u64>,
    /// Segments, by process.
    pub segments: BTreeMap<String, u64>,
    /// Entries of the domain's directory.
    pub files: u64,
}

impl Growth {
    /// Returns true if nothing has grown.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.descriptors.is_empty() && self.segments.is_empty() && self.files == 0
    }
}

impl Kept {
    fn of(pid: u32) -> Option<Self> {
        let proc = Path::new("/proc").join(pid.to_string());
        let maps = std::fs::read_to_string(proc.join("maps")).ok()?;
        let status = std::fs::read_to_string(proc.join("status")).ok()?;
        let anonymous = status.lines().find_map(|l| l.strip_prefix("RssAnon:"));
        let kib = anonymous.and_then(|text| text.split_whitespace().next()?.parse().ok());
        let mut kinds = BTreeMap::new();
        for fd in std::fs::read_dir(proc.join("fd")).ok()?.filter_map(Result::ok) {
            let kind = std::fs::read_link(fd.path()).map_or_else(|_| "?".to_owned(), kind);
            *kinds.entry(kind).or_default() += 1;
        }
        Some(Self {
            pid,
            descriptors: kinds.values().sum(),
            kinds,
            segments: segments(&maps),
            anonymous_kib: kib.unwrap_or_default(),
        })
    }
}

/// Returns the kind of a descriptor from its link in `/proc`, such as `socket:[123]`.
fn kind(link: PathBuf) -> String {
    let link = link.to_string_lossy();
    match link.split_once(":[") {
        Some((kind @ ("socket" | "pipe"), _)) => kind.to_owned(),
        _ => link.into_owned(),
    }
}

/// Returns the number of memory files in the maps of a process. A file with several mappings counts
/// once.
fn segments(maps: &str) -> u64 {
    let inode = |line: &str| line.split_whitespace().nth(4).map(str::to_owned);
    let files: BTreeSet<String> =
        maps.lines().filter(|l| l.contains("/memfd:")).filter_map(inode).collect();
    files.len() as u64
}

/// Returns the names in a directory; none if it does not exist.
#[must_use]
pub fn entries(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    entries.map(|e| e.file_name().to_string_lossy().into_owned()).collect()
}

/// Returns the processes whose environment has this assignment. For the assignment of a domain's
/// directory, these are the run's processes, including those that remain after its end.
#[must_use]
pub fn processes_with(assignment: &OsStr) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let pids = entries.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let ours = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|b| *b == 0).any(|word| word == assignment.as_bytes())
    };
    pids.take(MAX_PROCESSES).filter(ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn census(descriptors: u64, segments: u64, files: u64) -> Census {
        let kept = Kept { pid: 1, descriptors, segments, anonymous_kib: 1, ..Kept::default() };
        Census { processes: [("lane".to_owned(), kept)].into(), files }
    }

    #[test]
    fn growth_is_named_by_process_and_less_is_no_growth() {
        let before = census(20, 4, 3);
        assert!(census(20, 3, 3).beyond(&before).is_none());
        let growth = census(22, 5, 4).beyond(&before);
        assert_eq!((growth.descriptors["lane"], growth.segments["lane"], growth.files), (2, 1, 1));
        // A process that did not exist before has nothing to compare with.
        assert!(
            Census { files: 3, ..census(20, 4, 3) }
                .beyond(&Census { files: 3, ..Census::default() })
                .is_none()
        );
    }

    #[test]
    fn a_memory_file_that_is_mapped_twice_is_one_segment() {
        let maps = "7f00-7f01 rw-s 00000000 00:01 77 /memfd:a (deleted)\n\
                    7f01-7f02 r--s 00001000 00:01 77 /memfd:a (deleted)\n\
                    7f02-7f03 r--s 00000000 00:01 78 /memfd:a (deleted)\n\
                    7f03-7f04 r--p 00000000 00:01 79 /usr/lib/libc.so\n";
        assert_eq!(segments(maps), 2);
    }

    #[test]
    fn this_process_is_counted_and_found_by_its_environment() {
        let own = Kept::of(std::process::id()).unwrap();
        assert!(own.descriptors >= 3 && own.anonymous_kib > 0);
        assert_eq!(kind("socket:[77]".into()), "socket");
        assert_eq!(kind("anon_inode:[pidfd]".into()), "anon_inode:[pidfd]");
        let path = format!("PATH={}", std::env::var("PATH").unwrap());
        assert!(processes_with(OsStr::new(&path)).contains(&std::process::id()));
    }
}
