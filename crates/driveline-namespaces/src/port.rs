// SPDX-License-Identifier: Apache-2.0
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;

use anyhow::Context;
use rustix::net::{AddressFamily, SocketType, bind, getsockname, socket, sockopt};

/// TCP port of 127.0.0.1 that is reserved until this value is dropped, even if nothing listens on
/// it. Without a reservation, another program can take a free port before the test uses it.
///
/// A socket is bound to the port and does not listen, so that connections are refused. A program
/// can listen on the port, any number of times in sequence, if it sets `SO_REUSEADDR`: listeners of
/// the standard library and of Zenoh do.
#[derive(Debug)]
pub struct Port {
    _kept: OwnedFd,
    number: u16,
}

impl Port {
    /// # Errors
    /// If no port or no file descriptor is free.
    pub fn new() -> anyhow::Result<Self> {
        let kept = socket(AddressFamily::INET, SocketType::STREAM, None)
            .context("cannot open a socket for a port")?;
        sockopt::set_socket_reuseaddr(&kept, true)
            .context("cannot share the reserved port with other sockets")?;
        bind(&kept, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))
            .context("no port of 127.0.0.1 is free")?;
        let number = SocketAddr::try_from(getsockname(&kept)?)?.port();
        Ok(Self { _kept: kept, number })
    }

    /// Returns its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Returns its address in Zenoh's form.
    pub fn endpoint(&self) -> String {
        format!("tcp/127.0.0.1:{}", self.number)
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn it_is_kept_and_can_be_listened_on_again() {
        let port = Port::new().unwrap();
        let at = (Ipv4Addr::LOCALHOST, port.number());
        for _ in 0..2 {
            assert_eq!(TcpStream::connect(at).unwrap_err().kind(), ErrorKind::ConnectionRefused);
            let listener = TcpListener::bind(at).unwrap();
            TcpStream::connect(at).unwrap();
            assert!(listener.accept().is_ok());
        }
        let other = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        assert_eq!(bind(&other, &SocketAddr::from(at)).unwrap_err(), rustix::io::Errno::ADDRINUSE);
    }
}
