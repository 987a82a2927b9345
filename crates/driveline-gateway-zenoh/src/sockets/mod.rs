// SPDX-License-Identifier: Apache-2.0
//! When a connection of the gateway's program breaks whose other end does not answer.
//!
//! Before Zenoh closes one it waits until nobody waits for room in it any more, and over TLS for room for what that keeps back, for as long as the kernel goes on trying: a quarter of an
//! hour, or for ever where the other end stands still. An error of the socket wakes all of them. Zenoh has no setting for that and hands out no socket, so this looks at what the process
//! has open.
#![allow(unsafe_code, reason = "the border to the kernel's table of descriptors; tools/check_source.py knows this directory")]

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
    let sockets = read_dir(OPEN)?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        read_link(&path).ok()?.to_str()?.starts_with("socket:").then_some(number)
    });
    sockets.for_each(|number| set(number, limit_ms));
    Ok(())
}

fn set(number: RawFd, limit_ms: u32) {
    // SAFETY: the number is of a descriptor that was open just now. Another thread may close it meanwhile, and the number may be given to another file: the call below leaves it to
    // the kernel to look the number up, reads no memory but its own, and does not close it. Of one that is closed it fails, and of another one of this process the same is wanted.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    // One that is not of TCP refuses.
    let _ = set_tcp_user_timeout(socket, limit_ms);
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
