// SPDX-License-Identifier: Apache-2.0
//! Lower bounds of the machine, for benchmarks: bare shared words and bare shared bytes, without a
//! protocol.
//!
//! The cost of the transport is meaningful only next to the cost of the machine: a futex or a
//! spinning hand-over between two processes, and a memcpy into shared memory. Both need a shared
//! mapping, and mappings live in this crate. The transport does not use this module.
#![allow(unsafe_code, reason = "bare words and bytes of a mapping")]

use crate::sys::mapping::{Mapping, Mode};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate, fstat, memfd_create};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU32;

/// Words of a [`SharedWords`].
pub const WORDS: usize = 8;
/// Bytes from one word to the next: two cache lines, because processors fetch lines in pairs.
const STRIDE: usize = 128;
const PAGE_LEN: usize = 4096;

/// A few 32-bit words in memory that several processes map, each in a cache line of its own.
///
/// Any thread of any process that has it may load, store and sleep on any word, always atomically.
/// Creating and opening make system calls; loads and stores make none.
#[derive(Debug)]
pub struct SharedWords {
    fd: OwnedFd,
    map: Mapping,
}

impl SharedWords {
    /// Creates words, all zero.
    ///
    /// # Errors
    /// The kernel's, if it refuses a page of memory or a descriptor.
    pub fn create() -> io::Result<Self> {
        let fd = memfd_create("driveline-floor", MemfdFlags::CLOEXEC)?;
        fallocate(&fd, FallocateFlags::empty(), 0, PAGE_LEN as u64)?;
        let map = Mapping::new(&fd, PAGE_LEN, Mode::ReadWrite)?;
        Ok(Self { fd, map })
    }

    /// Opens the words that another process of the same benchmark has created, by their descriptor.
    ///
    /// # Errors
    /// `InvalidData` if the descriptor does not refer to such words; the kernel's error, if it
    /// refuses the mapping.
    pub fn open(fd: OwnedFd) -> io::Result<Self> {
        let len = fstat(&fd)?.st_size;
        if len != PAGE_LEN as i64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("the descriptor has {len} bytes instead of the {PAGE_LEN} of shared words"),
            ));
        }
        let map = Mapping::new(&fd, PAGE_LEN, Mode::ReadWrite)?;
        Ok(Self { fd, map })
    }

    /// Returns the descriptor, to be passed to another process.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// One word.
    ///
    /// # Panics
    /// If `index` is not less than [`WORDS`].
    #[must_use]
    pub fn word(&self, index: usize) -> &AtomicU32 {
        assert!(index < WORDS, "there are {WORDS} words");
        self.map.half_word(index * STRIDE)
    }
}

/// Bytes in a mapping of the same kind as that of samples, reserved and prefaulted. No other
/// process has them.
#[derive(Debug)]
pub struct SharedBytes {
    map: Mapping,
    len: usize,
}

impl SharedBytes {
    /// Creates bytes, all zero. `len` must not be 0.
    ///
    /// # Errors
    /// The kernel's, if it refuses the memory.
    pub fn create(len: usize) -> io::Result<Self> {
        let fd = memfd_create("driveline-floor", MemfdFlags::CLOEXEC)?;
        fallocate(&fd, FallocateFlags::empty(), 0, len as u64)?;
        // The descriptor is closed at the end of this function, so this memory cannot be mapped
        // again.
        let map = Mapping::new(&fd, len, Mode::ReadWrite)?;
        Ok(Self { map, len })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: this value owns the only mapping of the memory (`create` closed the only
        // descriptor), and writing needs `&mut self`, so the bytes do not change while they are
        // borrowed.
        unsafe { self.map.bytes(0, self.len) }
    }

    /// The bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`, and `&mut self` excludes every other borrow; the mapping is
        // read-write.
        unsafe { self.map.bytes_mut(0, self.len) }
    }
}

const _: () = assert!(WORDS * STRIDE <= PAGE_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn words_are_shared_through_the_descriptor_and_apart_from_each_other() {
        let own = SharedWords::create().unwrap();
        let peer = SharedWords::open(own.fd().try_clone_to_owned().unwrap()).unwrap();
        for i in 0..WORDS {
            own.word(i).store(i as u32 + 1, Relaxed);
        }
        for i in 0..WORDS {
            assert_eq!(peer.word(i).load(Relaxed), i as u32 + 1);
        }
    }

    #[test]
    fn a_descriptor_of_something_else_is_refused() {
        let fd = memfd_create("driveline-test", MemfdFlags::CLOEXEC).unwrap();
        assert!(
            SharedWords::open(fd).unwrap_err().to_string().contains("0 bytes instead of the 4096")
        );
    }

    #[test]
    fn bytes_keep_what_is_written() {
        let mut b = SharedBytes::create(10_000).unwrap();
        assert!(b.bytes().iter().all(|&x| x == 0));
        b.bytes_mut().fill(7);
        assert_eq!(b.bytes().len(), 10_000);
        assert!(b.bytes().iter().all(|&x| x == 7));
        assert!(SharedBytes::create(0).is_err());
    }
}
