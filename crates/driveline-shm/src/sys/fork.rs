// SPDX-License-Identifier: Apache-2.0
//! Detection of forked children, and closing of descriptors in them.
//!
//! A page with `MADV_WIPEONFORK` holds a number that handles compare (one load); in a child it
//! reads zero, for every kind of fork. Descriptors are listed, and a `pthread_atfork` handler
//! closes them in the child, so that peers detect the parent's death although the child lives.
//! Mappings, which the child does not inherit, are listed as well and replaced by zeros: references
//! into samples from before the fork can be read without harm.
#![allow(unsafe_code, reason = "C calls about fork and descriptors")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};

static PAGE: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();
/// Copied by fork, unlike the page. So the child's next number differs from all numbers of its
/// parent before the fork.
static GENERATION: AtomicU32 = AtomicU32::new(0);

fn page() -> Option<&'static AtomicU32> {
    *PAGE.get_or_init(|| {
        use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
        let len = rustix::param::page_size();
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches nothing that
        // exists.
        let p = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }
        .ok()?;
        // SAFETY: advice on exactly that mapping; only a child would see its content change.
        unsafe { madvise(p, len, Advice::LinuxWipeOnFork) }.ok()?;
        // SAFETY: registering a handler that only uses async-signal-safe calls and atomics (see
        // `in_child`).
        let _ = unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        // SAFETY: page-aligned, zeroed, never unmapped, accessed only as this atomic.
        Some(unsafe { &*p.cast::<AtomicU32>() })
    })
}

/// The process in which an object was created.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Birthplace {
    page: &'static AtomicU32,
    generation: u32,
}

impl Birthplace {
    /// Returns the mark of this process.
    pub(crate) fn here() -> io::Result<Self> {
        let page = page().ok_or_else(|| {
            io::Error::other(
                "cannot make a page with MADV_WIPEONFORK (Linux 4.14 or newer is needed)",
            )
        })?;
        let seen = page.load(Relaxed);
        if seen != 0 {
            return Ok(Self { page, generation: seen });
        }
        let fresh = GENERATION.fetch_add(1, Relaxed).wrapping_add(1).max(1);
        // Two threads may run this at once; the first number stays.
        let generation =
            page.compare_exchange(0, fresh, Relaxed, Relaxed).map_or_else(|other| other, |_| fresh);
        Ok(Self { page, generation })
    }

    /// Returns true in the process that created it. One load.
    #[inline]
    pub(crate) fn is_here(self) -> bool {
        self.page.load(Relaxed) == self.generation
    }
}

const LISTED: usize = 16 * 1024;
/// Descriptor + 1, or 0. Descriptors beyond the capacity are not closed in a child (which then
/// delays the notice of a death, nothing else).
static DESCRIPTORS: [AtomicI32; LISTED] = [const { AtomicI32::new(0) }; LISTED];
static HINT: AtomicUsize = AtomicUsize::new(0);

/// Address and length of a mapping. Address 0: unused; 1: being written.
struct Listed {
    start: AtomicUsize,
    len: AtomicUsize,
}

/// Mappings beyond the capacity are absent in a child: a read through a reference into one ends the
/// child (SIGSEGV).
static MAPPINGS: [Listed; LISTED] =
    [const { Listed { start: AtomicUsize::new(0), len: AtomicUsize::new(0) } }; LISTED];
static MAPPING_HINT: AtomicUsize = AtomicUsize::new(0);

/// Entry of a mapping in the list; in a forked child, zeros replace the mapping. Drop it before the
/// mapping is removed.
#[derive(Debug)]
pub(crate) struct ZerosInChild {
    entry: usize,
}

impl ZerosInChild {
    /// Lists a mapping with `MADV_DONTFORK`.
    pub(crate) fn instead_of(start: usize, len: usize) -> Self {
        let first = MAPPING_HINT.fetch_add(1, Relaxed);
        let entry = (0..LISTED)
            .map(|i| first.wrapping_add(i) % LISTED)
            .find(|&i| MAPPINGS[i].start.compare_exchange(0, 1, Relaxed, Relaxed).is_ok())
            .unwrap_or(LISTED);
        if let Some(listed) = MAPPINGS.get(entry) {
            listed.len.store(len, Relaxed);
            // Release pairs with the Acquire in a child that was made by another thread.
            listed.start.store(start, Release);
        }
        Self { entry }
    }
}

impl Drop for ZerosInChild {
    fn drop(&mut self) {
        if let Some(listed) = MAPPINGS.get(self.entry) {
            listed.start.store(0, Relaxed);
        }
    }
}

/// Maps zeros where the parent has shared memory. If anything else is mapped there, it is not
/// replaced.
fn map_zeros(start: usize, len: usize) {
    let flags =
        libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE;
    let at = std::ptr::without_provenance_mut::<libc::c_void>(start);
    // SAFETY: mmap is a system call and nothing else. The range was left out of the child by
    // MADV_DONTFORK; whatever may lie there since is not replaced.
    let got = unsafe { libc::mmap(at, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
    if got != libc::MAP_FAILED && got != at {
        // SAFETY: kernels before 4.17 ignore the flag and may map elsewhere. The call removes only
        // this mapping, which was made just now.
        let _ = unsafe { libc::munmap(got, len) };
    }
}

extern "C" fn in_child() {
    for listed in &MAPPINGS {
        let start = listed.start.load(Acquire);
        if start > 1 {
            map_zeros(start, listed.len.load(Relaxed));
        }
    }
    for entry in &DESCRIPTORS {
        let fd = entry.swap(0, Relaxed) - 1;
        if fd >= 0 {
            // SAFETY: close is async-signal-safe; the number was listed by its owner, whose drop
            // does nothing in a child.
            let _ = unsafe { libc::close(fd) };
        }
    }
}

/// A descriptor that a forked child does not keep.
#[derive(Debug)]
pub(crate) struct GuardedFd {
    fd: RawFd,
    entry: usize,
    birthplace: Birthplace,
}

impl GuardedFd {
    /// Takes over a descriptor.
    pub(crate) fn new(fd: OwnedFd) -> io::Result<Self> {
        let birthplace = Birthplace::here()?;
        let fd = fd.into_raw_fd();
        let start = HINT.fetch_add(1, Relaxed);
        let entry = (0..LISTED)
            .map(|i| (start.wrapping_add(i)) % LISTED)
            .find(|&i| DESCRIPTORS[i].compare_exchange(0, fd + 1, Relaxed, Relaxed).is_ok())
            .unwrap_or(LISTED);
        Ok(Self { fd, entry, birthplace })
    }

    /// Replaces the file behind this descriptor by that of another, atomically; the number stays.
    pub(crate) fn become_copy_of(&self, other: &Self) -> io::Result<()> {
        // SAFETY: both are open and owned here; a concurrent user of the number sees either the old
        // or the new file.
        let done = unsafe { libc::dup3(other.fd, self.fd, libc::O_CLOEXEC) };
        if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns true in the process that owns it.
    pub(crate) fn is_here(&self) -> bool {
        self.birthplace.is_here()
    }
}

impl AsFd for GuardedFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: owned and open until drop; in a child it may be closed, and then gives EBADF like
        // any closed number (handles answer "forked" before they come here).
        unsafe { BorrowedFd::borrow_raw(self.fd) }
    }
}

impl AsRawFd for GuardedFd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd
    }
}

impl Drop for GuardedFd {
    fn drop(&mut self) {
        if !self.birthplace.is_here() {
            return;
        }
        // Off the list first: a child made in between must not close a number that belongs to
        // another file by then.
        if let Some(entry) = DESCRIPTORS.get(self.entry) {
            entry.store(0, Relaxed);
        }
        // SAFETY: taken over in `new`, closed only here.
        let _ = unsafe { libc::close(self.fd) };
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::queue::lock;
    use std::sync::Mutex;

    /// Held by tests that fork, and by tests that expect a closed descriptor to have no copies: a
    /// forked child has copies of all descriptors for a moment.
    pub(crate) static FORKS: Mutex<()> = Mutex::new(());

    #[test]
    fn a_child_knows_that_it_is_one_and_has_lost_the_descriptor() {
        let _alone = lock(&FORKS);
        let (r, w) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).unwrap();
        let (r, w) = (GuardedFd::new(r).unwrap(), w);
        let home = Birthplace::here().unwrap();
        assert!(home.is_here());
        // SAFETY: the child only loads atomics, calls async-signal-safe functions and leaves with
        // _exit.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            let closed = rustix::fs::fcntl_getfl(&r).is_err();
            let ok = !home.is_here() && closed;
            // SAFETY: ends the child without running anything of the test harness.
            unsafe { libc::_exit(if ok { 0 } else { 1 }) };
        }
        let mut status = 0;
        // SAFETY: waits for the child made above; `status` is a valid place.
        assert_eq!(unsafe { libc::waitpid(pid, &raw mut status, 0) }, pid);
        assert_eq!(status, 0);
        assert!(home.is_here());
        drop((r, w));
    }
}
