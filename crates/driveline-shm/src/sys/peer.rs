// SPDX-License-Identifier: Apache-2.0
//! Who is at the other end of a socket, as the kernel says.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// Effective user of the peer when it connected (or listened), as this user namespace sees it; 65534 if it has no name
/// here. The process id that the kernel also tells is 0 across PID namespaces and identifies nobody: not used.
pub(crate) fn user(socket: impl AsFd) -> io::Result<u32> {
    let mut cred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `cred` and `len` are valid for writing and `len` is the size of `cred`.
    let r =
        unsafe { libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, (&raw mut cred).cast(), &raw mut len) };
    if r == 0 && len as usize == size_of::<libc::ucred>() { Ok(cred.uid) } else { Err(io::Error::last_os_error()) }
}
