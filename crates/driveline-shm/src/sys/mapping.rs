// SPDX-License-Identifier: Apache-2.0
//! Mapped shared memory, accessed only through atomics and checked byte ranges.
#![allow(unsafe_code, reason = "this is where memory is mapped")]

use super::fork::{Birthplace, ZerosInChild};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};
use std::io;
use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const PAGE: usize = 4096;
/// For fewer bytes, a thread costs more than it saves.
const BYTES_PER_POPULATING_THREAD: usize = 8 << 20;
/// More threads do not help: clearing memory is limited by its bandwidth.
const MAX_POPULATING_THREADS: usize = 4;

/// Access of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// For objects of this process only.
    ReadWrite,
    /// For objects of a peer.
    ReadOnly,
}

/// A mapped memfd, prefaulted, zeros in forked children, unmapped on drop.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
    mode: Mode,
    birthplace: Birthplace,
    zeros_in_child: Option<ZerosInChild>,
}

// SAFETY: the memory is shared between processes anyway; it is reached through atomics, or through
// byte ranges whose exclusive use is argued for where they are made.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps the first `len` bytes of a memfd. No process may shrink it while it is mapped: it is
    /// sealed, or about to be by its only owner, or used only by benchmarks ([`crate::floor`]).
    pub(crate) fn new(fd: impl AsFd, len: usize, mode: Mode) -> io::Result<Self> {
        let birthplace = Birthplace::here()?;
        let prot = match mode {
            Mode::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
            Mode::ReadOnly => ProtFlags::READ,
        };
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let p = unsafe { mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, fd, 0) }?;
        let start = NonNull::new(p.cast::<u8>())
            .ok_or_else(|| io::Error::other("mapped at address zero"))?;
        let mut mapping = Self { start, len, mode, birthplace, zeros_in_child: None };
        // SAFETY: advice on exactly this mapping.
        unsafe { madvise(p, len, Advice::LinuxDontFork) }?;
        mapping.zeros_in_child = Some(ZerosInChild::instead_of(start.addr().get(), len));
        mapping.populate()?;
        Ok(mapping)
    }

    /// Makes every page present, so that no later access faults. Clearing fresh pages is most of
    /// the time to create a large segment, so several threads share it.
    fn populate(&self) -> io::Result<()> {
        let threads = (self.len / BYTES_PER_POPULATING_THREAD).clamp(1, MAX_POPULATING_THREADS);
        let share = self.len.div_ceil(threads).next_multiple_of(PAGE);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads)
                .map(|i| {
                    std::thread::Builder::new()
                        .spawn_scoped(scope, move || self.populate_range(i * share, share))
                })
                .collect();
            let mut done = self.populate_range(0, share);
            for (i, other) in (1..threads).zip(others) {
                let part = match other {
                    Ok(thread) => thread.join().unwrap_or_else(|_| {
                        Err(io::Error::other("a thread that prefaults memory has died"))
                    }),
                    Err(_) => self.populate_range(i * share, share),
                };
                done = done.and(part);
            }
            done
        })
    }

    fn populate_range(&self, start: usize, len: usize) -> io::Result<()> {
        let end = self.len.min(start.saturating_add(len));
        if start >= end {
            return Ok(());
        }
        let advice = match self.mode {
            Mode::ReadWrite => Advice::LinuxPopulateWrite,
            Mode::ReadOnly => Advice::LinuxPopulateRead,
        };
        // SAFETY: advice on a part of this mapping.
        match unsafe { madvise(self.at(start, end - start, PAGE).cast(), end - start, advice) } {
            Err(rustix::io::Errno::INVAL) => {
                // Kernels before 5.14 do not know the advice: touch each page.
                for page in (start..end).step_by(PAGE) {
                    let word = self.word(page);
                    let _ = if self.mode == Mode::ReadWrite {
                        word.fetch_or(0, Relaxed)
                    } else {
                        word.load(Relaxed)
                    };
                }
                Ok(())
            }
            // The case in which a page fault would raise a signal.
            Err(rustix::io::Errno::FAULT) => Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "the kernel has no memory to back the segment",
            )),
            other => Ok(other?),
        }
    }

    /// Returns true in the process that made the mapping; in others there are zeros at its address.
    #[inline]
    pub(crate) fn is_here(&self) -> bool {
        self.birthplace.is_here()
    }

    #[inline]
    fn at(&self, offset: usize, len: usize, align: usize) -> *mut u8 {
        // Layouts are validated when they are received. This check turns a mistake into a panic
        // instead of a stray access.
        assert!(
            offset.is_multiple_of(align) && offset <= self.len && len <= self.len - offset,
            "outside of the mapping"
        );
        // SAFETY: within the mapping, by the line above.
        unsafe { self.start.as_ptr().add(offset) }
    }

    /// The 64-bit word at an offset. If the mapping is read-only, only Relaxed loads are allowed.
    #[inline]
    pub(crate) fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: in bounds and aligned (see `at`), mapped as long as `self`; every process
        // accesses it atomically.
        unsafe { &*self.at(offset, 8, 8).cast::<AtomicU64>() }
    }

    /// `count` consecutive 64-bit words.
    #[inline]
    pub(crate) fn words(&self, offset: usize, count: usize) -> &[AtomicU64] {
        // SAFETY: as for `word`; the product cannot overflow because it is checked against the
        // length.
        unsafe {
            std::slice::from_raw_parts(
                self.at(offset, count.saturating_mul(8), 8).cast::<AtomicU64>(),
                count,
            )
        }
    }

    /// `count` consecutive 32-bit words.
    #[inline]
    pub(crate) fn half_words(&self, offset: usize, count: usize) -> &[AtomicU32] {
        // SAFETY: as for `words`.
        unsafe {
            std::slice::from_raw_parts(
                self.at(offset, count.saturating_mul(4), 4).cast::<AtomicU32>(),
                count,
            )
        }
    }

    /// The 32-bit word at an offset.
    #[inline]
    pub(crate) fn half_word(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: as for `word`.
        unsafe { &*self.at(offset, 4, 4).cast::<AtomicU32>() }
    }

    /// Bytes for reading.
    ///
    /// # Safety
    /// The range must not be written by an honest process while the result lives: for example, it
    /// is a slot that is pinned and validated, or loaned to the caller. (A hostile publisher can
    /// change bytes all the same; the types that are read from them are valid for any bits.)
    #[inline]
    pub(crate) unsafe fn bytes(&self, offset: usize, len: usize) -> &[u8] {
        // SAFETY: in bounds and mapped as long as `self`; stability is the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at(offset, len, 1), len) }
    }

    /// Bytes for writing.
    ///
    /// # Safety
    /// The mapping must be read-write, and the caller the only one in any process that accesses the
    /// range while the result lives; for example, the range is a slot that is loaned to it.
    #[inline]
    #[allow(clippy::mut_from_ref, reason = "exclusive use of the range is the caller's promise")]
    pub(crate) unsafe fn bytes_mut(&self, offset: usize, len: usize) -> &mut [u8] {
        assert!(self.mode == Mode::ReadWrite, "writing through a read-only mapping");
        // SAFETY: in bounds and mapped as long as `self`; exclusiveness is the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(self.at(offset, len, 1), len) }
    }

    /// Prefetches the cache line at `offset` for writing. Readers that have the line lose it now,
    /// so the first store does not wait for that.
    #[inline]
    pub(crate) fn prefetch_to_write(&self, offset: usize) {
        // The pointer is not dereferenced, so it need not be checked.
        let p = self.start.as_ptr().wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as for `prefetch`; processors without the instruction execute it as a no-op. The
        // intrinsic becomes an ordinary prefetch unless the whole program is compiled for newer
        // processors.
        unsafe {
            std::arch::asm!(
                "prefetchw [{}]", in(reg) p, options(nostack, preserves_flags, readonly)
            );
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }

    /// Prefetches the cache line at `offset`.
    #[inline]
    pub(crate) fn prefetch(&self, offset: usize) {
        // The pointer is not dereferenced, so it need not be checked.
        let p = self.start.as_ptr().wrapping_add(offset);
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a prefetch reads nothing architecturally and cannot fault; SSE is part of x86_64.
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(p.cast::<i8>());
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = p;
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if self.birthplace.is_here() {
            // Before the memory is unmapped: a child must not map zeros where something else is
            // mapped by then.
            self.zeros_in_child = None;
            // SAFETY: mapped in `new` with this length, unmapped only here; nothing borrowed from
            // `self` is left.
            let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
        }
    }
}
