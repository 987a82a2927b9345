// SPDX-License-Identifier: Apache-2.0
//! Makes Zenoh search for other hosts by multicast once more. Zenoh does so after 1, 2 and 4 s and
//! then every 8 s, and has no setting for that. But Zenoh accepts every answer that arrives at the
//! socket from which it asks. So it is enough to send the same question from that socket.

use super::{borrowed, sockets};
use rustix::fd::OwnedFd;
use rustix::net::{SendFlags, SocketAddrV4, SocketType, getpeername, getsockname, sendto, sockopt};
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, RawFd};

/// Multicast address of Zenoh's peers by default.
const ASKED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(224, 0, 0, 224), 7446);
/// *Scout* message of Zenoh's protocol 9 to routers, peers and clients: the question of Zenoh 1.
const QUESTION: [u8; 3] = [0x01, 0x09, 0b111];

/// Sends the question from each socket from which Zenoh asks on one of these addresses of this
/// host. Returns the number of these sockets. Only for programs in which all sockets belong to the
/// program itself or to Zenoh.
///
/// # Errors
/// `/proc` cannot be read. A question that cannot be sent, as on a link that is down, is not an
/// error.
pub fn look_for_others(from: &[Ipv4Addr]) -> io::Result<usize> {
    let mut asked = 0;
    for socket in sockets()?.filter_map(|number| asks_by(number, from)) {
        // Fails while the link is down. The caller repeats the search.
        let _ = sendto(&socket, &QUESTION, SendFlags::DONTWAIT, &ASKED);
        asked += 1;
    }
    Ok(asked)
}

/// Returns a duplicate of this socket if Zenoh asks from it: no other UDP socket has a multicast
/// interface and no peer. The duplicate is checked and used, because the number may be given to
/// another file at any time. Only datagram sockets are duplicated: the thread that closes the last
/// descriptor of a connection waits in `close` for acknowledgements, up to 10 s by Zenoh's setting.
fn asks_by(number: RawFd, from: &[Ipv4Addr]) -> Option<OwnedFd> {
    is_of_datagrams(borrowed(number)).then_some(())?;
    let socket = rustix::io::fcntl_dupfd_cloexec(borrowed(number), 0).ok()?;
    let is_udp =
        is_of_datagrams(&socket) && SocketAddrV4::try_from(getsockname(&socket).ok()?).is_ok();
    (is_udp
        && from.contains(&sockopt::ip_multicast_if(&socket).ok()?)
        && getpeername(&socket).is_err())
    .then_some(socket)
}

fn is_of_datagrams(socket: impl AsFd) -> bool {
    sockopt::socket_type(socket).is_ok_and(|kind| kind == SocketType::DGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;

    #[test]
    fn only_the_socket_from_which_zenoh_asks_is_used() {
        // Address that no other test uses.
        const OWN: Ipv4Addr = Ipv4Addr::new(127, 4, 5, 6);
        let bound = || UdpSocket::bind("0.0.0.0:0").unwrap();
        let asks = bound();
        sockopt::set_ip_multicast_if(&asks, &OWN).unwrap();
        let (_other, connected) = (bound(), bound());
        sockopt::set_ip_multicast_if(&connected, &OWN).unwrap();
        connected.connect((OWN, asks.local_addr().unwrap().port())).unwrap();
        assert_eq!(look_for_others(&[OWN]).unwrap(), 1);
        assert_eq!(look_for_others(&[Ipv4Addr::new(127, 4, 5, 7)]).unwrap(), 0);
    }
}
