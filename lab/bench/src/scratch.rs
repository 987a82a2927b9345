// SPDX-License-Identifier: Apache-2.0
//! Directories of domains and stamps during a measurement, and removal of the leftovers of killed
//! measurements.

use crate::shared_memory::remove_left;
use anyhow::{Context, Result};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "driveline-bench-";
/// Name of the file that the owner of a directory keeps locked.
const CLAIM: &str = "claim";

/// A directory for measurements, on a file system in memory if the machine has one. Dropping it
/// removes it.
#[derive(Debug)]
pub struct Scratch {
    // Declared before the lock, so that it is dropped first: any other measurement may remove an
    // unlocked directory.
    directory: TempDir,
    _claim: File,
}

impl Scratch {
    /// Makes a directory, and removes those whose owners were killed.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn new() -> Result<Self> {
        let shm = Path::new("/dev/shm");
        let place = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
        sweep(&place);
        Self::within(&place)
            .with_context(|| format!("cannot make a directory in {}", place.display()))
    }

    fn within(place: &Path) -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)?;
        // The file is locked before it gets its final name, so that no `sweep` finds it unlocked.
        let part = directory.path().join("claim.part");
        let claim = File::create_new(&part)?;
        claim.lock()?;
        fs::rename(part, directory.path().join(CLAIM))?;
        Ok(Self { directory, _claim: claim })
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// A directory for one run. Dropping it, after the end of the run's processes, removes it and the
/// files of killed processes in shared memory.
#[derive(Debug)]
pub struct RunDirectory(TempDir);

impl RunDirectory {
    /// Makes a directory within that of all runs.
    ///
    /// # Errors
    /// The error of the file system.
    pub fn within(directory: &Path) -> Result<Self> {
        Ok(Self(
            tempfile::Builder::new()
                .prefix("run")
                .tempdir_in(directory)
                .context("cannot make a directory for a run")?,
        ))
    }

    /// Returns the path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        remove_left(self.0.path());
    }
}

/// Removes directories of this user whose lock is free. A directory without a lock file belongs to
/// a process that does not lock it, or will be locked soon. Directories that cannot be removed
/// stay.
fn sweep(place: &Path) {
    let uid = rustix::process::geteuid().as_raw();
    let own = |path: &Path| path.symlink_metadata().is_ok_and(|m| m.is_dir() && m.uid() == uid);
    let entries = fs::read_dir(place).into_iter().flatten().flatten();
    let ours = entries
        .filter(|e| e.file_name().to_string_lossy().starts_with(PREFIX))
        .map(|e| e.path())
        .filter(|p| own(p));
    for directory in ours.collect::<Vec<PathBuf>>() {
        let claim = directory.join(CLAIM);
        if !claim.symlink_metadata().is_ok_and(|m| m.is_file()) {
            continue;
        }
        // The lock is held until the directory is removed, so that two processes do not remove it
        // at once.
        if let Ok(file) = File::open(&claim)
            && file.try_lock().is_ok()
            // If files in shared memory remain, the directory stays: it has their lists, and the
            // next sweep tries again.
            && remove_left(&directory)
        {
            let _ = fs::remove_dir_all(&directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_killed_left_is_removed_and_nothing_else() {
        let place = tempfile::tempdir().unwrap();
        let held = Scratch::within(place.path()).unwrap();
        let stale = Scratch::within(place.path()).unwrap();
        let (left, claim) = (stale.directory.keep(), stale._claim);
        fs::create_dir_all(left.join("domain/x")).unwrap();
        let (without, other) =
            (place.path().join("driveline-bench-x"), place.path().join("driveline-7"));
        for directory in [&without, &other] {
            fs::create_dir(directory).unwrap();
        }
        fs::write(other.join(CLAIM), "").unwrap();
        // The sweep keeps the directory while its owner lives.
        sweep(place.path());
        assert!(left.is_dir());
        drop(claim);
        // A child that another test is starting may hold the lock until it runs its program.
        let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while left.is_dir() && std::time::Instant::now() < end {
            sweep(place.path());
        }
        assert_eq!(
            [held.path(), &left, &without, &other].map(Path::is_dir),
            [true, false, true, true]
        );
        let path = held.path().to_owned();
        drop(held);
        assert!(!path.exists());
    }
}
