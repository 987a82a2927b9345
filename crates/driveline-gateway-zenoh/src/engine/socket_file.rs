// SPDX-License-Identifier: Apache-2.0
//! Access to a socket that this host listens on: users who may enter its restricted directory may
//! connect. Zenoh leaves this to the umask, which usually permits only its own user.

use rustix::fs::{FileType, Mode, OFlags, fstat, open, openat};
use std::fs::{Permissions, set_permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Prefix of such an endpoint.
const PROTOCOL: &str = "unixsock-stream/";
/// Mode bit of a directory that all users may enter.
const ALL_ENTER: u32 = 0o001;
/// Mode bits of a socket that all users may connect to.
const ALL_CONNECT: u32 = 0o666;

/// Permits connections to all users who may enter the directory of the socket. Sockets in a
/// directory that all users may enter, and other endpoints, are not changed.
pub(super) fn admit(endpoint: &str) -> io::Result<()> {
    let Some(path) = endpoint.strip_prefix(PROTOCOL).map(Path::new) else { return Ok(()) };
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else { return Ok(()) };
    // Uses descriptors, because a user with write access may replace the file meanwhile.
    let directory =
        open(directory, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    if fstat(&directory)?.st_mode & ALL_ENTER != 0 {
        return Ok(());
    }
    let socket =
        openat(&directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let about = fstat(&socket)?;
    let own = about.st_uid == rustix::process::geteuid().as_raw()
        && FileType::from_raw_mode(about.st_mode) == FileType::Socket;
    if own {
        set_permissions(
            format!("/proc/self/fd/{}", socket.as_raw_fd()),
            Permissions::from_mode(ALL_CONNECT),
        )
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    #[test]
    fn only_an_own_socket_in_a_directory_that_not_all_may_enter_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str| dir.path().join(name);
        let mode = |name: &str| std::fs::metadata(file(name)).unwrap().permissions().mode() & 0o777;
        let admit = |name: &str| admit(&format!("{PROTOCOL}{}", file(name).display()));
        let _listeners = ["socket", "elsewhere"].map(|name| {
            let listener = UnixListener::bind(file(name)).unwrap();
            set_permissions(file(name), Permissions::from_mode(0o700)).unwrap();
            listener
        });
        std::fs::write(file("file"), "").unwrap();
        set_permissions(file("file"), Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(file("elsewhere"), file("link")).unwrap();
        for (of_directory, of_socket) in [(0o755, 0o700), (0o701, 0o700), (0o750, 0o666)] {
            set_permissions(dir.path(), Permissions::from_mode(of_directory)).unwrap();
            ["socket", "file", "link"].into_iter().for_each(|name| admit(name).unwrap());
            assert_eq!(
                ["socket", "file", "elsewhere"].map(mode),
                [of_socket, 0o600, 0o700],
                "{of_directory:o}"
            );
        }
        assert!(admit("nobody").is_err());
        super::admit("tcp/127.0.0.1:0").unwrap();
    }
}
