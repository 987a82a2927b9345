// SPDX-License-Identifier: Apache-2.0
//! Admits one process of a user at a time to check the available memory and to reserve some. Two
//! processes that check at once would both find enough, and the kernel kills a process that exceeds
//! its cgroup.
//!
//! The lock is a `flock` on the user's own directory in /dev/shm. The kernel releases it when its
//! holder ends, so no clean-up is needed; a wait for it is bounded. `docs/protocols/shm.md`,
//! Memory.

use super::directory::Directory;
use super::fork::GuardedFd;
use super::memory::{self, AvailableMemory};
use crate::domain;
use crate::error::MemoryRefusal;
use crate::fault;
use driveline_types::MonotonicNs;
use rustix::fs::{FlockOperation, flock, fstat, stat};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Smaller requests do not take the lock: they use the margin that larger ones leave free, which is
/// at least this much.
const WITHOUT_LOCK: u64 = 1 << 20;
/// Longest wait for another process's reservation.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause between two attempts. The kernel has no wait for a lock with a time limit.
const PAUSE: Duration = Duration::from_millis(1);
/// Bounds of the margin, which is a sixteenth of the tightest limit; smaller requests leave less
/// free ([`margin`]). The margin is for page tables, stacks and heaps.
const MARGIN: std::ops::RangeInclusive<u64> = 4 << 20..=64 << 20;

/// The right to reserve the admitted memory. Usually it holds the lock: then other processes of
/// this user wait up to 10 s with requests of 1 MiB or more. It holds no lock for less than 1 MiB,
/// if the lock could not be taken in time, or if the directory cannot be locked.
#[derive(Debug)]
#[must_use = "another process may reserve the memory as soon as this is dropped"]
pub struct MemoryAdmission {
    _lock: Option<Lock>,
    needed: u64,
}

impl Drop for MemoryAdmission {
    fn drop(&mut self) {
        fault::record_memory(self.needed);
    }
}

/// Admits `needed` bytes that the caller is about to reserve, if the margin stays free. Drop the
/// result after reserving them. Blocks up to 10 s while other processes of this user reserve
/// memory; reads files and allocates. Any thread.
///
/// # Errors
/// [`MemoryRefusal`] if too little memory is available, or if another process does not end its
/// reservation and the request exceeds half of the available memory.
pub fn admit_memory(needed: u64) -> Result<MemoryAdmission, MemoryRefusal> {
    admit_within(needed, PATIENCE)
}

/// As [`admit_memory`], without waiting: for threads that other threads wait for.
pub(crate) fn admit_at_once(needed: u64) -> Result<MemoryAdmission, MemoryRefusal> {
    admit_within(needed, Duration::ZERO)
}

fn admit_within(needed: u64, patience: Duration) -> Result<MemoryAdmission, MemoryRefusal> {
    let lock = if needed < WITHOUT_LOCK { Taken::Needless } else { take_lock(&place(), patience) };
    fault::point("memory.after_lock");
    let memory = memory::available_memory();
    let available = memory.bytes.saturating_sub(margin(needed, memory.total));
    if needed > available {
        return Err(MemoryRefusal::Short { needed, available, limit: limit_text(&memory, needed) });
    }
    let lock = match lock {
        Taken::Needless => None,
        Taken::Lock(lock) => Some(lock),
        // The amount that the other process still reserves is unknown. Half is left to it.
        Taken::Busy { .. } if needed <= available / 2 => None,
        Taken::Busy { holder, waited } => {
            return Err(MemoryRefusal::Busy { holder, waited, available });
        }
    };
    fault::point("memory.after_check");
    Ok(MemoryAdmission { _lock: lock, needed })
}

/// Memory that stays free; more for larger requests.
fn margin(needed: u64, total: u64) -> u64 {
    (total / 16).clamp(*MARGIN.start(), *MARGIN.end()).min(needed.max(WITHOUT_LOCK))
}

fn limit_text(memory: &AvailableMemory, needed: u64) -> String {
    format!(
        "{}, of which {} MiB are kept free",
        memory.limit,
        margin(needed, memory.total).div_ceil(1 << 20)
    )
}

/// Returns the directory that is locked.
fn place() -> PathBuf {
    fault::memory_double().map_or_else(domain::own_parent, Path::to_owned)
}

enum Taken {
    /// The request is small, or this user has no directory that can be locked: no lock is taken.
    Needless,
    Lock(Lock),
    Busy {
        holder: Option<u32>,
        waited: Duration,
    },
}

/// Closing the directory releases the lock. A child made by `fork` has it closed.
#[derive(Debug)]
struct Lock(#[allow(dead_code, reason = "held to be closed")] GuardedFd);

fn take_lock(place: &Path, patience: Duration) -> Taken {
    /// The last wait was without success: each later request makes one attempt only, until one
    /// succeeds.
    static IN_VAIN: AtomicBool = AtomicBool::new(false);
    let begun = MonotonicNs::real_now();
    let patience = match patience {
        _ if fault::is_switched_on("patient") => Duration::MAX,
        _ if IN_VAIN.load(Relaxed) || fault::is_switched_on("impatient") => Duration::ZERO,
        patience => patience,
    };
    loop {
        let Ok(directory) = Directory::open_own(place) else { return Taken::Needless };
        match flock(directory.as_fd(), FlockOperation::NonBlockingLockExclusive) {
            Ok(()) if is_at(&directory, place) => {
                IN_VAIN.store(false, Relaxed);
                return Taken::Lock(Lock(directory));
            }
            // `Ok`: the directory was removed meanwhile, and other processes lock its successor.
            Ok(()) | Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => {}
            // A file system without locks.
            Err(_) => return Taken::Needless,
        }
        let waited = MonotonicNs::real_now().since(begun);
        if waited >= patience {
            if !patience.is_zero() {
                IN_VAIN.store(true, Relaxed);
            }
            return Taken::Busy { holder: holder_of(&directory), waited };
        }
        drop(directory);
        std::thread::sleep(PAUSE);
    }
}

fn is_at(directory: &GuardedFd, place: &Path) -> bool {
    match (fstat(directory), stat(place)) {
        (Ok(a), Ok(b)) => (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino),
        // Removed: the next process that locks creates it again.
        _ => false,
    }
}

/// Returns the process that holds a lock on a directory, from `/proc/locks`. For texts only.
fn holder_of(directory: &GuardedFd) -> Option<u32> {
    let s = fstat(directory).ok()?;
    let (major, minor) = (rustix::fs::major(s.st_dev), rustix::fs::minor(s.st_dev));
    holder_in(
        &std::fs::read_to_string("/proc/locks").ok()?,
        &format!("{major:02x}:{minor:02x}:{}", s.st_ino),
    )
}

/// Lines are `NUMBER: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE …`.
fn holder_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, _, pid, of, ..] = fields[..] else { return None };
        (of == file).then(|| pid.parse().ok()).flatten().filter(|pid| *pid > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_the_limit_and_spares_small_requests() {
        const MIB: u64 = 1 << 20;
        assert_eq!(margin(60 * MIB, 150 * MIB), 150 * MIB / 16);
        assert_eq!(margin(60 * MIB, 32 * MIB), 4 * MIB);
        assert_eq!(margin(1000 * MIB, 64 << 30), 64 * MIB);
        assert_eq!(margin(100, 64 << 30), MIB);
        assert_eq!(margin(3 * MIB, 64 << 30), 3 * MIB);
    }

    #[test]
    fn the_lock_excludes_ends_with_its_holder_and_names_it() {
        let _alone = crate::queue::lock(&crate::sys::fork::tests::FORKS);
        let t = tempfile::tempdir().unwrap();
        std::fs::set_permissions(t.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700))
            .unwrap();
        let Taken::Lock(lock) = take_lock(t.path(), Duration::ZERO) else { panic!("it is free") };
        let Taken::Busy { holder, .. } = take_lock(t.path(), Duration::ZERO) else {
            panic!("it is taken")
        };
        assert_eq!(holder, Some(std::process::id()));
        drop(lock);
        let Taken::Lock(lock) = take_lock(t.path(), Duration::ZERO) else {
            panic!("it is free again")
        };
        // Another directory at the same path has another lock.
        std::fs::remove_dir(t.path()).unwrap();
        let Taken::Lock(_) = take_lock(t.path(), Duration::ZERO) else {
            panic!("it is made again")
        };
        drop(lock);
        std::fs::set_permissions(t.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .unwrap();
        assert!(
            matches!(take_lock(t.path(), Duration::ZERO), Taken::Needless),
            "strangers could hold it"
        );
    }

    #[test]
    fn holders_are_found_in_the_kernels_list() {
        let locks = "1: POSIX  ADVISORY  WRITE 77 00:1a:5 0 EOF\n2: FLOCK  ADVISORY  WRITE 4711 \
             00:1a:5 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 5 00:1a:6 0 EOF\n";
        assert_eq!(holder_in(locks, "00:1a:5"), Some(4711));
        assert_eq!(holder_in(locks, "00:1a:7"), None);
        assert_eq!(holder_in("1: FLOCK ADVISORY WRITE 0 00:1a:5 0 EOF", "00:1a:5"), None);
    }

    #[test]
    fn refusals_say_how_much_and_what_to_do() {
        let busy =
            MemoryRefusal::Busy { holder: Some(4711), waited: PATIENCE, available: 90 << 20 };
        assert_eq!(
            busy.to_string(),
            "process 4711 has been reserving memory for 10 s, and more than half of the 90 MiB \
             that are available are needed here: is it stopped? Continue or end it, and try again"
        );
    }
}
