// SPDX-License-Identifier: Apache-2.0
//! Remains of a run of peers: files in shared memory, processes.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use crate::processes;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Prefixes or suffixes of the names of a middleware's files in shared memory.
const TRACES: [(&str, &[&str]); 5] = [
    ("driveline", &["driveline-"]),
    ("fastdds", &["fast", "sem.fast"]),
    ("iceoryx", &["iceoryx_mgmt", "iox"]),
    ("iceoryx2", &["drv", "iox2_"]),
    ("zenoh", &[".zenoh"]),
];

/// Returns the files of this user in shared memory that a peer, or the benchmark, may have made.
pub(crate) fn files(name: &str) -> BTreeSet<PathBuf> {
    let ours = |file: &str| {
        let own = TRACES
            .iter()
            .filter(|(peer, _)| [name, "driveline"].contains(peer))
            .flat_map(|(_, parts)| *parts);
        own.into_iter().any(|part| file.starts_with(part) || file.ends_with(part))
    };
    let uid = rustix::process::geteuid().as_raw();
    let entries = std::fs::read_dir("/dev/shm").unwrap().flatten();
    entries
        .filter(|e| {
            ours(&e.file_name().to_string_lossy()) && e.metadata().is_ok_and(|m| m.uid() == uid)
        })
        .map(|e| e.path())
        .collect()
}

/// Returns true if a living process uses the file. That process belongs to another run, because all
/// processes of this run have ended.
fn is_used(path: &Path) -> bool {
    if path.is_dir() {
        let claim = std::fs::File::open(path.join("claim"));
        return claim.is_ok_and(|file| file.try_lock().is_err());
    }
    let name = path.to_string_lossy().into_owned();
    let uses = |process: PathBuf| {
        let mapped =
            std::fs::read_to_string(process.join("maps")).is_ok_and(|maps| maps.contains(&name));
        let mut open = std::fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        mapped || open.any(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path))
    };
    std::fs::read_dir("/proc").unwrap().flatten().any(|process| uses(process.path()))
}

/// Makes this process the parent of all descendants whose parents end, so that they are found.
pub(crate) fn adopt_orphans() {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
}

/// Returns the remains of this run: new files that no process uses, and its descendants, after
/// [`adopt_orphans`].
pub(crate) fn left_behind(name: &str, before: &BTreeSet<PathBuf>) -> Vec<String> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let new = files(name)
            .difference(before)
            .filter(|path| path.exists() && !is_used(path))
            .map(|p| p.display().to_string())
            .collect::<Vec<_>>();
        let running = processes::children(std::process::id()).into_iter().map(|pid| {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            format!("process {}", name.trim())
        });
        let all: Vec<String> = new.into_iter().chain(running).collect();
        // Processes that are just ending may take a moment.
        if all.is_empty() || Instant::now() > deadline {
            return all;
        }
        // time: a pause between polls; they end with the condition
        std::thread::sleep(Duration::from_millis(50));
    }
}
