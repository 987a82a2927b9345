// SPDX-License-Identifier: Apache-2.0
//! Sealed anonymous memory: created here, or received and checked.

use super::blocking_tasks::Foreign;
use super::fork::GuardedFd;
use super::mapping::{Mapping, Mode};
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, fcntl_get_seals, fstat,
    memfd_create,
};
use rustix::process::{Resource, getrlimit};
use std::io;
use std::os::fd::AsFd;

/// With these seals, no process can shrink the memory (readers would get SIGBUS), grow it, punch
/// holes, write to it by descriptor, map it writable again, or remove the seals.
const SEALS: SealFlags =
    SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::FUTURE_WRITE).union(SealFlags::SEAL);

/// Creates a memfd of `len` bytes, reserved and prefaulted. It is mapped read-write here, and
/// cannot be mapped writable anywhere else.
pub(crate) fn create(name: &str, len: usize) -> io::Result<(GuardedFd, Mapping)> {
    // NOEXEC_SEAL would be right, but kernels before 6.3 refuse the flag.
    let fd = GuardedFd::new(memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?)?;
    // For a greater length the kernel sends SIGXFSZ, which ends the process.
    if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|l| *l < len as u64) {
        return Err(io::Error::other(format!(
            "{len} bytes are more than this process's limit on file size of {limit}: raise it \
             (ulimit -f)"
        )));
    }
    fallocate(&fd, FallocateFlags::empty(), 0, len as u64)?;
    let mapping = Mapping::new(&fd, len, Mode::ReadWrite)?;
    fcntl_add_seals(&fd, SEALS)?;
    Ok((fd, mapping))
}

/// Maps a peer's memfd for reading, if it is sealed, exactly `len` bytes long, and has no holes.
pub(crate) fn open(fd: &mut Foreign, len: usize) -> io::Result<Mapping> {
    check_seals(&*fd)?;
    fd.is_no_threat();
    check_size(&*fd, len)?;
    Mapping::new(&*fd, len, Mode::ReadOnly)
}

/// Refuses memory that is not sealed, has another length, or has holes.
pub(crate) fn check(fd: impl AsFd, len: usize) -> io::Result<()> {
    check_seals(&fd)?;
    check_size(&fd, len)
}

fn bad(text: String) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// Only a memfd can have these seals. So a page fault cannot block, as it could for a file whose
/// pages another process provides (FUSE). (The kernel creates tmpfs files with `F_SEAL_SEAL`, so no
/// other seal can be added to them.)
fn check_seals(fd: impl AsFd) -> io::Result<()> {
    let seals = fcntl_get_seals(fd)?;
    if seals.contains(SEALS) {
        Ok(())
    } else {
        bad(format!("the memory is not sealed (seals {:#x})", seals.bits()))
    }
}

fn check_size(fd: impl AsFd, len: usize) -> io::Result<()> {
    let stat = fstat(fd)?;
    let size = stat.st_size;
    if u64::try_from(size).ok() != Some(len as u64) {
        return bad(format!("the memory has {size} bytes instead of {len}"));
    }
    // The first reader of a hole would fill it, with memory that counts as the reader's. Holes
    // cannot appear later: the seals forbid it.
    let reserved = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
    if reserved < len as u64 {
        return bad(format!("only {reserved} of the memory's {len} bytes are reserved"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn sealed_memory_is_seen_by_readers_and_safe_from_them() {
        let (fd, own) = create("driveline-test", 8192).unwrap();
        own.word(64).store(7, Relaxed);
        let peer = open(&mut Foreign::copy_of(&fd), 8192).unwrap();
        assert_eq!(peer.word(64).load(Relaxed), 7);
        assert!(rustix::fs::ftruncate(&fd, 4096).is_err());
        assert!(rustix::fs::ftruncate(&fd, 16384).is_err());
        assert!(
            fallocate(&fd, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, 4096)
                .is_err()
        );
        assert!(rustix::io::write(&fd, b"x").is_err());
        assert!(Mapping::new(&fd, 8192, Mode::ReadWrite).is_err());
    }

    #[test]
    fn unsealed_or_wrongly_sized_memory_is_refused() {
        let fd = memfd_create("driveline-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .unwrap();
        rustix::fs::ftruncate(&fd, 4096).unwrap();
        assert!(open(&mut Foreign::copy_of(&fd), 4096).unwrap_err().to_string().contains("sealed"));
        fcntl_add_seals(&fd, SEALS).unwrap();
        assert!(
            open(&mut Foreign::copy_of(&fd), 4096)
                .unwrap_err()
                .to_string()
                .contains("only 0 of the memory's 4096 bytes are reserved")
        );
        let fd = memfd_create("driveline-test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .unwrap();
        fallocate(&fd, FallocateFlags::empty(), 0, 4096).unwrap();
        fcntl_add_seals(&fd, SEALS).unwrap();
        assert!(
            open(&mut Foreign::copy_of(&fd), 8192)
                .unwrap_err()
                .to_string()
                .contains("4096 bytes instead of 8192")
        );
        assert!(open(&mut Foreign::copy_of(&fd), 4096).is_ok());
    }
}
