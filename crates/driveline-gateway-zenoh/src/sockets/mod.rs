// SPDX-License-Identifier: Apache-2.0
//! What the gateway's program does with sockets of Zenoh's, which hands out none: it looks at what the process has open. When a connection breaks whose other end does not answer is
//! here, and in `scout` when others are looked for.
//!
//! Before Zenoh closes one it waits until nobody waits for room in it any more, and over TLS for room for what that keeps back, for as long as the kernel goes on trying: a quarter of an
//! hour, or for ever where the other end stands still. An error of the socket wakes all of them, and Zenoh has no setting for that.
#![allow(unsafe_code, reason = "the border to the kernel's table of descriptors; tools/check_source.py knows this directory")]

mod scout;

pub use scout::look_for_others;

use rustix::net::sockopt::set_tcp_user_timeout;
use std::fs::{read_dir, read_link};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::Duration;

/// How often the program looks: before the first connection that was made since can be given up.
const EVERY: Duration = Duration::from_millis(500);

/// More the kernel does not take.
const MOST_MS: u32 = i32::MAX as u32;

/// What this process has open.
const OPEN: &str = "/proc/self/fd";

/// Has the kernel break all TCP connections of this process when what was sent is not acknowledged, or finds no room, for `limit`, in milliseconds; those that come later included, as
/// long as the process lives. For programs all of whose sockets that may be done to. In a thread of its own.
///
/// # Errors
/// If `/proc` cannot be read, or there is no room for a thread.
pub fn break_unanswered(limit: Duration) -> io::Result<()> {
    look(limit)?;
    let again = move || loop {
        std::thread::sleep(EVERY);
        // It could be read before; what fails now succeeds the next time.
        let _ = look(limit);
    };
    std::thread::Builder::new().name("dl-sockets".into()).spawn(again).map(drop)
}

/// Does that to the sockets that there are now.
fn look(limit: Duration) -> io::Result<()> {
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(MOST_MS).min(MOST_MS);
    // One that is not of TCP refuses, and of one that was given the number of another meanwhile the same is wanted.
    for number in sockets()? {
        let _ = set_tcp_user_timeout(borrowed(number), limit_ms);
    }
    Ok(())
}

/// The numbers of the sockets that this process has open.
fn sockets() -> io::Result<impl Iterator<Item = RawFd>> {
    Ok(read_dir(OPEN)?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        read_link(&path).ok()?.to_str()?.starts_with("socket:").then_some(number)
    }))
}

/// What had this number just now, for one call that does not close it and may find another file there, or none.
fn borrowed(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the number is of a descriptor that was open just now, so it is not -1. Another thread may close it meanwhile, and the number may be given to another file. The only uses are
    // calls that leave it to the kernel to look the number up, read no memory but their own, and do not close it: of one that is closed they fail, and who calls says why another file
    // does no harm. Nobody keeps it.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::tcp_user_timeout;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    fn connections_have_the_limit_whenever_they_were_made() {
        const LIMIT: Duration = Duration::from_secs(2);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let before = connect();
        look(Duration::MAX).unwrap();
        assert_eq!(tcp_user_timeout(&before).unwrap(), MOST_MS);
        break_unanswered(LIMIT).unwrap();
        assert_eq!(tcp_user_timeout(&before).unwrap(), 2_000);
        let later = connect();
        let end = Instant::now() + Duration::from_secs(60);
        while tcp_user_timeout(&later).unwrap() != 2_000 {
            assert!(Instant::now() < end, "a later one has no limit");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
