// SPDX-License-Identifier: Apache-2.0
//! Copies of a test program take turns: they would meet in its DDS domains.

use std::io::{ErrorKind, Read};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::OnceLock;
use std::time::Duration;

/// Time-out of the turn of another copy. Only a copy that hangs reaches it.
const TURN: Duration = Duration::from_secs(1800);

/// Waits until no other copy of this program uses its DDS domains, which then belong to this
/// process until it ends.
///
/// The lock is a listening socket in the abstract namespace. The kernel removes it with its
/// process, and each network namespace has its own, as it has its own DDS domains.
pub(crate) fn take(program: &str) {
    static TAKEN: OnceLock<UnixListener> = OnceLock::new();
    let name = format!("driveline-dds-domains-of-{program}");
    let address = SocketAddr::from_abstract_name(name).unwrap();
    TAKEN.get_or_init(|| {
        loop {
            match UnixListener::bind_addr(&address) {
                Ok(taken) => return taken,
                Err(e) => assert_eq!(e.kind(), ErrorKind::AddrInUse, "{e}"),
            }
            // The end of the other copy closes the connection, which it never accepts.
            let Ok(mut other) = UnixStream::connect_addr(&address) else { continue };
            other.set_read_timeout(Some(TURN)).unwrap();
            let end = other.read(&mut [0]).map_err(|e| e.kind());
            assert_ne!(end, Err(ErrorKind::WouldBlock), "another copy of {program} hangs");
        }
    });
}
