// SPDX-License-Identifier: Apache-2.0
//! Options of Zenoh's sockets. Zenoh exposes none, so this module reads the open descriptors of the
//! process. It makes the kernel break connections whose other end does not answer, and ends
//! connections that Zenoh has given up. `scout` repeats discovery by multicast.
//!
//! Before Zenoh closes a connection, it waits until no thread waits for space in it. Over TLS, it
//! also waits until there is space for buffered data. Meanwhile the kernel keeps trying: for a
//! quarter of an hour, or forever if the other host is stopped. Zenoh has no setting that limits
//! this. An error of the socket wakes all these threads, whatever its cause: the kernel breaks the
//! connection because no acknowledgement came, or `shut` ends it after Zenoh has heard nothing for
//! a lease, or the other host closes it.
#![allow(
    unsafe_code,
    reason = "the border to the kernel's table of descriptors; tools/check_source.py knows this \
         directory"
)]

mod scout;

pub use scout::look_for_others;

use rustix::io::fcntl_dupfd_cloexec;
use rustix::net::sockopt::{set_socket_linger, set_tcp_user_timeout};
use rustix::net::{Shutdown, SocketAddrAny, getpeername, getsockname, shutdown};
use std::fs::{read_dir, read_link};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::time::Duration;
use zenoh::session::Link;

/// Period of checks: short enough that a new connection gets its limit before it can fail.
const EVERY: Duration = Duration::from_millis(500);

/// Maximum limit that the kernel accepts.
const MOST_MS: u32 = i32::MAX as u32;

/// Directory of this process's open descriptors.
const OPEN: &str = "/proc/self/fd";

/// Makes the kernel break all TCP connections of this process when sent data is not acknowledged,
/// or finds no space, for `limit`, rounded down to milliseconds. Includes later connections, for
/// the life of the process. Only for programs in which all sockets may be treated so. Runs in its
/// own thread.
///
/// # Errors
/// If `/proc` cannot be read, or a thread cannot be started.
pub fn break_unanswered(limit: Duration) -> io::Result<()> {
    set_limits(limit)?;
    let again = move || loop {
        std::thread::sleep(EVERY);
        // `/proc` could be read before. The next check repairs a failure now.
        let _ = set_limits(limit);
    };
    std::thread::Builder::new().name("dl-sockets".into()).spawn(again).map(drop)
}

/// Sets the limit for the present sockets.
fn set_limits(limit: Duration) -> io::Result<()> {
    let limit_ms = u32::try_from(limit.as_millis()).unwrap_or(MOST_MS).min(MOST_MS);
    // Sockets that are not TCP refuse the option. If the descriptor's number was given to another
    // socket meanwhile, that socket needs the limit too.
    for number in sockets()? {
        let _ = set_tcp_user_timeout(borrowed(number), limit_ms);
    }
    Ok(())
}

/// Ends a TCP connection of this process: threads that read, write or wait for space in it
/// continue, and closing it does not wait (Zenoh would wait up to 10 s for acknowledgements).
/// Returns true for a TCP connection, ended already or not. For any other connection, does nothing
/// and returns false.
pub(crate) fn shut(link: &Link) -> bool {
    let (Some(here), Some(there)) = (address(link.src().as_str()), address(link.dst().as_str()))
    else {
        return false;
    };
    // Without /proc, Zenoh's own behaviour applies.
    let _ = shut_between(here, there);
    true
}

fn shut_between(here: Address, there: Address) -> io::Result<()> {
    let end = |found: SocketAddrAny| {
        SocketAddr::try_from(found).ok().map(|found| (found.ip().to_canonical(), found.port()))
    };
    let is_it = |socket: BorrowedFd<'_>| {
        let (own, other) = (
            getsockname(socket).ok().and_then(end),
            getpeername(socket).ok().flatten().and_then(end),
        );
        (own, other) == (Some(here), Some(there))
    };
    for number in sockets()?.filter(|number| is_it(borrowed(*number))) {
        // A duplicate descriptor keeps this socket: the original number may be closed meanwhile and
        // be given to another socket.
        let Ok(socket) = fcntl_dupfd_cloexec(borrowed(number), 0) else { continue };
        if is_it(socket.as_fd()) {
            let _ = set_socket_linger(&socket, None);
            let _ = shutdown(&socket, Shutdown::Both);
        }
    }
    Ok(())
}

type Address = (IpAddr, u16);

/// Returns the address of a TCP locator of Zenoh.
fn address(locator: &str) -> Option<Address> {
    let (protocol, rest) = locator.split_once('/')?;
    let address: SocketAddr = rest.split(['?', '#']).next()?.parse().ok()?;
    matches!(protocol, "tcp" | "tls").then(|| (address.ip().to_canonical(), address.port()))
}

/// Returns the descriptors of the open sockets of this process.
fn sockets() -> io::Result<impl Iterator<Item = RawFd>> {
    Ok(read_dir(OPEN)?.filter_map(|entry| {
        let path = entry.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        read_link(&path).ok()?.to_str()?.starts_with("socket:").then_some(number)
    }))
}

/// Borrows the file that had this descriptor number just now. Only for calls that do not close the
/// file and that may find another file under the number, or none.
fn borrowed(number: RawFd) -> BorrowedFd<'static> {
    // SAFETY: the number is of a descriptor that was open just now, so it is not -1. Another thread
    // may close it meanwhile, and the number may be given to another file. The only uses are calls
    // that let the kernel look up the number, read no memory but their own, and do not close it. On
    // a closed descriptor they fail, and each caller argues why another file does no harm. The
    // value is not stored.
    unsafe { BorrowedFd::borrow_raw(number) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::sockopt::{socket_linger, tcp_user_timeout};
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    #[test]
    fn shutting_a_socket_wakes_its_waiting_threads_and_ends_no_other_socket() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || {
            (
                TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
                listener.accept().unwrap().0,
            )
        };
        let ((mut full, stands_still), (mut beside, mut heard)) = (connect(), connect());
        let locator = |address: SocketAddr| format!("tls/{address}?rel=1");
        let (here, there) =
            (locator(full.local_addr().unwrap()), locator(full.peer_addr().unwrap()));
        let kept = full.try_clone().unwrap();
        // The linger time that Zenoh sets.
        set_socket_linger(&kept, Some(Duration::from_secs(10))).unwrap();
        let writer = std::thread::spawn(move || {
            loop {
                full.write_all(&[0; 1 << 16])?;
            }
        });
        // Fills the socket with data that the other side does not read.
        let mut queued = 0;
        loop {
            // time: a full socket takes no more for a while; a slow machine finds it full later
            std::thread::sleep(Duration::from_millis(20));
            let now = rustix::io::ioctl_fionread(&stands_still).unwrap();
            if now == std::mem::replace(&mut queued, now) && now > 0 {
                break;
            }
        }
        assert!(!writer.is_finished());
        shut_between(address(&here).unwrap(), address(&there).unwrap()).unwrap();
        let why: io::Result<()> = writer.join().unwrap();
        assert_eq!(
            why.unwrap_err().kind(),
            io::ErrorKind::BrokenPipe,
            "the writer continues because its socket was shut"
        );
        assert_eq!(
            socket_linger(&kept).unwrap(),
            None,
            "closing it would wait for unacknowledged data"
        );
        beside.write_all(b"on").unwrap();
        let mut two = [0; 2];
        heard.read_exact(&mut two).unwrap();
        assert_eq!(&two, b"on");
    }

    #[test]
    fn addresses_are_those_of_connections_over_tcp() {
        let of = |ip: &str, port| Some((ip.parse().unwrap(), port));
        assert_eq!(address("tcp/10.0.0.1:7450"), of("10.0.0.1", 7450));
        assert_eq!(address("tls/[::ffff:10.0.0.1]:7450?rel=1"), of("10.0.0.1", 7450));
        assert_eq!(address("tcp/[fe80::1%2]:80#iface=eth0"), of("fe80::1", 80));
        for other in ["udp/10.0.0.1:7450", "unixsock-stream//run/car", "tcp/car:7450", "tcp", ""] {
            assert_eq!(address(other), None, "{other}");
        }
    }

    #[test]
    fn connections_have_the_limit_whenever_they_were_made() {
        // time: passed to the kernel; the test does not wait for it. Longer than any test, because
        // the limit is for all sockets of this process, and another test fills one.
        const LIMIT: Duration = Duration::from_secs(600);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let before = connect();
        set_limits(Duration::MAX).unwrap();
        assert_eq!(tcp_user_timeout(&before).unwrap(), MOST_MS);
        break_unanswered(LIMIT).unwrap();
        assert_eq!(tcp_user_timeout(&before).unwrap(), 600_000);
        let later = connect();
        let end = Instant::now() + Duration::from_secs(60);
        while tcp_user_timeout(&later).unwrap() != 600_000 {
            assert!(Instant::now() < end, "the later connection has no limit");
            // time: a pause between polls; they end with the condition
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}
