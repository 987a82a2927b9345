// SPDX-License-Identifier: Apache-2.0
//! Words in shared memory with one writing and one reading process: a launcher reads a module's
//! heartbeats.
//!
//! The writer creates them and passes the descriptor on; the memory is sealed, so that no other
//! process can write or shrink it. The two processes define the meaning of the words
//! (`driveline-runtime`, `heartbeats`).

use crate::sys::fork::GuardedFd;
use crate::sys::mapping::{Mapping, Mode};
use crate::sys::memfd;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of words of one writer: a megabyte.
pub const MOST_WORDS: usize = 1 << 17;
const PAGE: usize = 4096;

fn bytes(words: usize) -> io::Result<usize> {
    if words == 0 || words > MOST_WORDS {
        let text = format!("{words} words; from 1 to {MOST_WORDS} are possible");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok((words * 8).next_multiple_of(PAGE))
}

/// Words of this process, all zero at first. Any thread stores and loads without waiting.
#[derive(Debug)]
pub struct HeartbeatWords {
    fd: GuardedFd,
    map: Mapping,
    count: usize,
}

impl HeartbeatWords {
    /// Reserves `count` words. Makes system calls; using the words makes none.
    ///
    /// # Errors
    /// `InvalidInput` for 0 words, or for more than [`MOST_WORDS`]; the kernel's, if it refuses
    /// memory or a descriptor.
    pub fn new(count: usize) -> io::Result<Self> {
        let (fd, map) = memfd::create("driveline-heartbeat", bytes(count)?)?;
        Ok(Self { fd, map, count })
    }

    /// Returns the descriptor, to be passed to the reader.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Words that only this process writes. A forked child sees zeros instead.
    #[must_use]
    pub fn words(&self) -> &[AtomicU64] {
        self.map.words(0, self.count)
    }
}

/// Words of another process. Whatever it does, reading them is safe for this process.
#[derive(Debug)]
pub struct PeerHeartbeatWords {
    map: Mapping,
    count: usize,
}

impl PeerHeartbeatWords {
    /// Maps the words behind a descriptor that their writer has handed over.
    ///
    /// # Errors
    /// `InvalidInput` if `count` is 0, or greater than [`MOST_WORDS`]; `InvalidData` if it is not
    /// sealed memory of `count` words; the kernel's, if it refuses the mapping.
    pub fn open(fd: &OwnedFd, count: usize) -> io::Result<Self> {
        let len = bytes(count)?;
        memfd::check(fd, len)?;
        Ok(Self { map: Mapping::new(fd, len, Mode::ReadOnly)?, count })
    }

    /// Returns the present value of a word; 0 beyond the last one.
    #[must_use]
    pub fn load(&self, index: usize) -> u64 {
        // A read-only mapping permits only relaxed loads. They suffice: the words are independent.
        self.map.words(0, self.count).get(index).map_or(0, |word| word.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

    #[test]
    fn the_reader_sees_what_the_writer_stores_and_nothing_that_is_not_sealed() {
        let own = HeartbeatWords::new(700).unwrap();
        let peer = PeerHeartbeatWords::open(&own.fd().try_clone_to_owned().unwrap(), 700).unwrap();
        own.words()[699].store(7, Ordering::Relaxed);
        assert_eq!(
            (peer.load(699), peer.load(0), peer.load(700), peer.load(usize::MAX)),
            (7, 0, 0, 0)
        );
        let open = |fd: &OwnedFd, count| PeerHeartbeatWords::open(fd, count).unwrap_err().kind();
        assert_eq!(open(&own.fd().try_clone_to_owned().unwrap(), 7000), io::ErrorKind::InvalidData);
        let unsealed = memfd_create("driveline-test", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&unsealed, 8192).unwrap();
        assert_eq!(open(&unsealed, 700), io::ErrorKind::InvalidData);
        let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
        assert!(PeerHeartbeatWords::open(&socket.into(), 700).is_err());
        assert_eq!(HeartbeatWords::new(0).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(HeartbeatWords::new(MOST_WORDS + 1).is_err());
    }
}
