// SPDX-License-Identifier: Apache-2.0
//! Removal of files that killed processes of a run left in shared memory, by the lists that they
//! wrote in advance (`docs/protocols/harness.md`).

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Prefix of the names of the lists.
const LIST: &str = "shared-memory-";
/// Maximum number of bytes of a list that are read.
const LONGEST: u64 = 1 << 20;
/// Maximum depth of the lists in a directory of runs.
const DEEPEST: usize = 4;

/// Removes the files that the lists below `directory` name, except files in use. Returns true if
/// none of them remains.
pub(crate) fn remove_left(directory: &Path) -> bool {
    remove(directory, Path::new("/dev/shm"), Path::new("/proc"))
}

fn remove(directory: &Path, shared_memory: &Path, proc: &Path) -> bool {
    let mut groups = Vec::new();
    collect(directory, DEEPEST, &mut groups);
    let uid = rustix::process::geteuid().as_raw();
    let ours =
        |path: &PathBuf| path.symlink_metadata().is_ok_and(|m| m.is_file() && m.uid() == uid);
    let there = |group: &[String]| {
        group.iter().map(|name| shared_memory.join(name)).filter(ours).collect::<Vec<_>>()
    };
    if groups.iter().all(|group| there(group).is_empty()) {
        return true;
    }
    let mapped = mapped(proc, shared_memory);
    let mut all = true;
    for group in groups {
        // Looked up again for each group: an earlier group may have named the same file, which is
        // then removed already.
        let group = there(&group);
        // The locks are held until the whole group is removed, so that no process starts to use a
        // part.
        let locks: Vec<File> = group
            .iter()
            .filter_map(|path| File::open(path).ok().filter(|file| file.try_lock().is_ok()))
            .collect();
        if locks.len() < group.len() || group.iter().any(|path| mapped.contains(path)) {
            all = false;
            continue;
        }
        for path in &group {
            all &= fs::remove_file(path).is_ok();
        }
    }
    all
}

/// Collects the lines of the lists: each has names that are removed together, or not at all.
fn collect(directory: &Path, depth: usize, groups: &mut Vec<Vec<String>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            collect(&entry.path(), depth - 1, groups);
        } else if kind.is_file() && entry.file_name().to_string_lossy().starts_with(LIST) {
            let mut text = String::new();
            let read = File::open(entry.path())
                .and_then(|file| file.take(LONGEST).read_to_string(&mut text));
            let is_name = |name: &&str| !name.contains('/') && !["", ".", ".."].contains(name);
            let group =
                |line: &str| line.split(' ').filter(is_name).map(str::to_owned).collect::<Vec<_>>();
            groups.extend(text.lines().filter(|_| read.is_ok()).map(group));
        }
    }
}

/// Returns the files in shared memory that a process has mapped, as far as visible.
fn mapped(proc: &Path, shared_memory: &Path) -> BTreeSet<PathBuf> {
    let entries = fs::read_dir(proc).into_iter().flatten().flatten();
    let processes =
        entries.filter(|e| e.file_name().to_string_lossy().bytes().all(|b| b.is_ascii_digit()));
    let maps = processes.filter_map(|e| fs::read(e.path().join("maps")).ok());
    let place = format!("{}/", shared_memory.display());
    let file = |line: &str| line.find(&place).and_then(|at| line.get(at..)).map(PathBuf::from);
    maps.flat_map(|text| {
        String::from_utf8_lossy(&text).lines().filter_map(file).collect::<Vec<_>>()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_segments_are_removed_and_used_ones_stay_with_their_group() {
        let dir = tempfile::tempdir().unwrap();
        let [run, shm, proc] = ["run", "shm", "proc"].map(|name| dir.path().join(name));
        fs::create_dir_all(run.join("run1/domain")).unwrap();
        fs::create_dir_all(proc.join("7")).unwrap();
        fs::create_dir_all(&shm).unwrap();
        for name in ["port1", "port1_el", "port2", "port2_el", "port3", "port3_el", "other"] {
            fs::write(shm.join(name), "").unwrap();
        }
        fs::write(dir.path().join("outside"), "").unwrap();
        fs::create_dir(shm.join("directory")).unwrap();
        let list = "port1 port1_el gone\nport1_el port1\nport2 port2_el\nport3 \
             port3_el\n../outside directory .. .\n\n";
        fs::write(run.join("run1/domain/shared-memory-7"), list).unwrap();
        fs::write(run.join("run1/domain/notes"), "other").unwrap();
        let maps = format!("7f00-7f01 rw-s 0000 00:19 5    {}/port3\n", shm.display());
        fs::write(proc.join("7/maps"), &maps).unwrap();
        let held = File::open(shm.join("port2_el")).unwrap();
        held.lock_shared().unwrap();
        let there = || {
            let mut names: Vec<_> = fs::read_dir(&shm)
                .unwrap()
                .map(|e| e.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names.join(" ")
        };
        assert!(!remove(&run, &shm, &proc));
        assert_eq!(there(), "directory other port2 port2_el port3 port3_el");
        drop(held);
        fs::write(shm.join("port1"), "").unwrap();
        fs::remove_file(proc.join("7/maps")).unwrap();
        assert!(remove(&run, &shm, &proc));
        assert_eq!(there(), "directory other");
        assert!(dir.path().join("outside").exists());
    }
}
