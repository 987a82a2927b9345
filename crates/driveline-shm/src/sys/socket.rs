// SPDX-License-Identifier: Apache-2.0
//! Unix sockets in the domain directory. All are non-blocking and close-on-exec.

#![allow(unsafe_code, reason = "a socket option that is set by a C call")]

use super::blocking_tasks::{BlockingTasks, Foreign};
use super::directory::{Directory, Kind, Name};
use super::fork::GuardedFd;
use super::peer::{self, User};
use crate::limits::MAX_MESSAGE_LEN;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    accept_with, bind, connect, listen, recv, recvmsg, sendmsg, sendto, socket_with, sockopt,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;

/// Maximum number of descriptors in one message.
pub(crate) const MAX_FDS: usize = 2;
const FLAGS: SocketFlags = SocketFlags::CLOEXEC.union(SocketFlags::NONBLOCK);
const BACKLOG: i32 = 512;

fn address(dir: &Directory, name: &str) -> io::Result<SocketAddrUnix> {
    Ok(SocketAddrUnix::new(dir.entry(name))?)
}

fn new(kind: SocketType) -> io::Result<GuardedFd> {
    GuardedFd::new(socket_with(AddressFamily::UNIX, kind, FLAGS, None)?)
}

/// `SO_PASSRIGHTS` (Linux 6.16): permits peers to send descriptors. Without it, their attempt
/// fails.
const SO_PASSRIGHTS: libc::c_int = 83;

/// Makes a socket, or future connections to it, accept descriptors or not. Returns true if the
/// kernel supports it.
pub(crate) fn take_descriptors(socket: impl AsFd, take: bool) -> bool {
    if crate::fault::is_switched_on("passrights") {
        return false;
    }
    let value = libc::c_int::from(take);
    let len = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: `value` is valid for reading and `len` is its size.
    unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const value).cast(),
            len,
        ) == 0
    }
}

/// Creates a listening socket with its mode. It becomes visible under its final name only when it
/// listens.
pub(crate) fn listen_at(dir: &Directory, name: &Name, mode: u32) -> io::Result<GuardedFd> {
    publish_name(dir, name, mode, SocketType::SEQPACKET)
}

/// Creates a datagram socket under its name.
pub(crate) fn datagram_at(dir: &Directory, name: &Name, mode: u32) -> io::Result<GuardedFd> {
    publish_name(dir, name, mode, SocketType::DGRAM)
}

fn publish_name(
    dir: &Directory,
    name: &Name,
    mode: u32,
    kind: SocketType,
) -> io::Result<GuardedFd> {
    let socket = new(kind)?;
    if !matches!(name.kind, Kind::Publisher(_)) {
        // Only HELLO messages bring descriptors to sockets in the directory, and only publishers
        // receive HELLO. Connections inherit the setting.
        take_descriptors(&socket, false);
    }
    let temporary = Name::random(Kind::Temporary)?;
    bind(&socket, &address(dir, &temporary.text)?)?;
    crate::fault::point("socket.after_bind");
    let result = (|| {
        dir.set_mode(&temporary.text, mode)?;
        if kind == SocketType::SEQPACKET {
            listen(&socket, BACKLOG)?;
        }
        crate::fault::point("socket.before_rename");
        dir.rename(&temporary.text, &name.text)
    })();
    if let Err(e) = result {
        dir.remove(&temporary.text);
        return Err(e);
    }
    crate::fault::point("socket.after_rename");
    Ok(socket)
}

/// Reason why a connection could not be made.
#[derive(Debug)]
pub(crate) enum ConnectError {
    /// The owner of the socket is dead, or the socket does not exist.
    Dead,
    /// The owner lives but is busy: try again.
    Busy,
    /// This user has no permission.
    Denied,
    /// Anything else.
    Other(io::Error),
}

/// Connects to a listening socket without waiting. The connection accepts no descriptors yet, if
/// the kernel supports that.
pub(crate) fn dial(
    dir: &Directory,
    name: &str,
    blocking_tasks: &Arc<BlockingTasks>,
) -> Result<Foreign, ConnectError> {
    if !dir.leads_nowhere_else(name) {
        return Err(ConnectError::Other(io::Error::other(format!(
            "{name} in the domain directory is no socket: remove it"
        ))));
    }
    let socket = new(SocketType::SEQPACKET).map_err(ConnectError::Other)?;
    let clean = take_descriptors(&socket, false);
    let address = address(dir, name).map_err(ConnectError::Other)?;
    match connect(&socket, &address) {
        Ok(()) => {
            let mut connection = with_its_user(socket, blocking_tasks);
            if clean {
                connection.is_no_threat();
            }
            Ok(connection)
        }
        Err(Errno::CONNREFUSED | Errno::NOENT) => Err(ConnectError::Dead),
        Err(Errno::AGAIN | Errno::INTR) => Err(ConnectError::Busy),
        Err(Errno::ACCESS | Errno::PERM) => Err(ConnectError::Denied),
        Err(e) => Err(ConnectError::Other(e.into())),
    }
}

/// Returns true if the owner of a socket file is dead, without disturbing a live one: the kernel
/// refuses a socket of another type as "wrong type" if there is an owner, and as "refused" if there
/// is none.
pub(crate) fn is_dead(dir: &Directory, name: &Name, blocking_tasks: &Arc<BlockingTasks>) -> bool {
    let kind = match name.kind {
        Kind::Rescan => SocketType::SEQPACKET,
        Kind::Publisher(_) | Kind::Info => SocketType::DGRAM,
        // Unknown type: a stream socket is neither.
        Kind::Temporary => SocketType::STREAM,
    };
    let (Ok(probe), Ok(address)) = (new(kind), address(dir, &name.text)) else { return false };
    take_descriptors(&probe, false);
    match connect(&probe, &address) {
        Ok(()) => {
            // It is not of the type in its name, and may have sent something already.
            drop(Foreign::connection(probe, User::UNKNOWN, blocking_tasks));
            false
        }
        Err(e) => e == Errno::CONNREFUSED,
    }
}

fn with_its_user(socket: GuardedFd, blocking_tasks: &Arc<BlockingTasks>) -> Foreign {
    let user = peer::user(&socket).unwrap_or(User::UNKNOWN);
    Foreign::connection(socket, user, blocking_tasks)
}

/// Sends a datagram; a full queue or a dead receiver loses it. Returns true if the receiver is
/// dead.
pub(crate) fn hint(dir: &Directory, socket: impl AsFd, name: &str, text: &[u8]) -> bool {
    match address(dir, name) {
        Ok(a) => {
            sendto(socket, text, SendFlags::DONTWAIT | SendFlags::NOSIGNAL, &a)
                == Err(Errno::CONNREFUSED)
        }
        Err(_) => false,
    }
}

/// Next connection, if there is one.
pub(crate) fn accept(
    listener: impl AsFd,
    blocking_tasks: &Arc<BlockingTasks>,
) -> io::Result<Option<Foreign>> {
    match accept_with(listener, FLAGS) {
        Ok(fd) => Ok(Some(with_its_user(GuardedFd::new(fd)?, blocking_tasks))),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(e) => Err(e.into()),
    }
}

/// Ends a listener and its connections that are not accepted yet. Call it before the listener is
/// closed.
pub(crate) fn turn_away(listener: impl AsFd, blocking_tasks: &Arc<BlockingTasks>) {
    let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
    for _ in 0..2 * BACKLOG {
        if !matches!(accept(&listener, blocking_tasks), Ok(Some(_))) {
            break;
        }
    }
}

/// Sends one message with descriptors, whole or not at all.
pub(crate) fn send(socket: impl AsFd, message: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if message.len() > 64 * 1024 {
        // Long schemas need more than the system's default buffer. The kernel grants no more than
        // the system's limit.
        let _ = sockopt::set_socket_send_buffer_size(&socket, 2 * MAX_MESSAGE_LEN);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(
        socket,
        &[IoSlice::new(message)],
        &mut control,
        SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
    )?;
    Ok(())
}

/// Data received on a socket.
#[derive(Debug)]
pub(crate) enum Received {
    /// Nothing yet.
    Nothing,
    /// The other end is closed.
    Closed,
    /// A message of this many bytes in the buffer, with these descriptors.
    Message(usize, Vec<Foreign>),
    /// A message that is too long or has too many descriptors.
    Oversized,
    /// A message whose descriptors could not be taken, because this process has too many.
    Shortage,
}

/// Receives one message into `buffer`. May block unless [`Foreign::is_harmless`]: the kernel closes
/// descriptors for which there is no room, and closing can block.
pub(crate) fn receive(socket: &Foreign, buffer: &mut [u8]) -> io::Result<Received> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut take = || {
        recvmsg(
            socket,
            &mut [IoSliceMut::new(buffer)],
            &mut control,
            RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC,
        )
    };
    // A peer that hangs up without having read everything causes this error once. Its messages
    // follow.
    let got = match take().or_else(|e| if e == Errno::CONNRESET { take() } else { Err(e) }) {
        Ok(got) => got,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Received::Nothing),
        Err(Errno::CONNRESET | Errno::PIPE) => return Ok(Received::Closed),
        Err(e) => return Err(e.into()),
    };
    // Dropped descriptors are closed.
    let mut fds = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = message {
            for fd in received {
                fds.push(socket.sent(fd)?);
            }
        }
    }
    if got.flags.contains(ReturnFlags::CTRUNC) && fds.len() < MAX_FDS {
        return Ok(Received::Shortage);
    }
    if got.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) || fds.len() > MAX_FDS {
        return Ok(Received::Oversized);
    }
    if got.bytes == 0 && fds.is_empty() {
        return Ok(Received::Closed);
    }
    Ok(Received::Message(got.bytes, fds))
}

/// Receives one datagram; `None` if there is none. Where the socket takes descriptors, the kernel
/// closes them here, and may block.
pub(crate) fn receive_hint(socket: impl AsFd, buffer: &mut [u8]) -> Option<usize> {
    recv(socket, buffer, RecvFlags::DONTWAIT).ok().map(|(n, _)| n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_and_descriptors_arrive_and_dead_owners_are_detected() {
        let _alone = crate::queue::lock(&crate::sys::fork::tests::FORKS);
        let t = tempfile::tempdir().unwrap();
        let dir = Directory::open(Some(t.path())).unwrap();
        let blocking_tasks = &BlockingTasks::new().unwrap();
        for kind in [Kind::Publisher(7), Kind::Info] {
            let name = Name::random(kind).unwrap();
            let listener = listen_at(&dir, &name, 0o600).unwrap();
            assert!(!is_dead(&dir, &name, blocking_tasks));
            assert!(
                accept(&listener, blocking_tasks).unwrap().is_none(),
                "the probe must leave no connection"
            );
            let a = dial(&dir, &name.text, blocking_tasks).unwrap();
            let b = accept(&listener, blocking_tasks).unwrap().unwrap();
            assert_eq!(b.user(), User::own());
            if kind == Kind::Info && take_descriptors(&listener, false) {
                let refused = send(&a, b"hi", &[listener.as_fd()]).unwrap_err();
                assert_eq!(
                    refused.kind(),
                    io::ErrorKind::PermissionDenied,
                    "tools have no descriptors to send"
                );
                take_descriptors(&b, true);
            }
            send(&a, b"hi", &[listener.as_fd()]).unwrap();
            let mut buffer = [0; 16];
            let Received::Message(2, fds) = receive(&b, &mut buffer).unwrap() else { panic!() };
            assert_eq!((&buffer[..2], fds.len()), (b"hi".as_slice(), 1));
            drop(fds);
            assert!(matches!(receive(&b, &mut buffer).unwrap(), Received::Nothing));
            send(&a, &[0; 17], &[]).unwrap();
            assert!(matches!(receive(&b, &mut buffer).unwrap(), Received::Oversized));
            drop(a);
            assert!(matches!(receive(&b, &mut buffer).unwrap(), Received::Closed));
            let a = dial(&dir, &name.text, blocking_tasks).unwrap();
            let b = accept(&listener, blocking_tasks).unwrap().unwrap();
            send(&a, b"unread", &[]).unwrap();
            send(&b, b"last word", &[]).unwrap();
            drop(b);
            assert!(
                matches!(receive(&a, &mut buffer).unwrap(), Received::Message(9, _)),
                "a refusal is received although the request was not"
            );
            assert!(matches!(receive(&a, &mut buffer).unwrap(), Received::Closed));
            drop(listener);
            assert!(is_dead(&dir, &name, blocking_tasks));
            assert!(matches!(dial(&dir, &name.text, blocking_tasks), Err(ConnectError::Dead)));
        }
        let name = Name::random(Kind::Rescan).unwrap();
        let socket = datagram_at(&dir, &name, 0o600).unwrap();
        assert!(!is_dead(&dir, &name, blocking_tasks));
        assert!(!hint(&dir, &socket, &name.text, b"look"));
        let mut buffer = [0; 16];
        assert_eq!(receive_hint(&socket, &mut buffer), Some(4));
        drop(socket);
        assert!(is_dead(&dir, &name, blocking_tasks));
    }
}
