// SPDX-License-Identifier: Apache-2.0
//! Connects to a launcher that may not listen yet (`docs/protocols/deployment.md`).

use super::output;
use driveline_shm::PeerUser;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time between two attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// Time after which a missing launcher is reported once.
const REPORT_AFTER: Duration = Duration::from_secs(3);

/// Connects to the launcher's socket, and waits for it until `signals` becomes readable: then
/// returns `None`. The signal stays readable.
///
/// # Errors
/// If the path cannot be that of a socket, or another user listens there.
pub(super) fn connect(path: &Path, signals: &UnixStream) -> io::Result<Option<UnixStream>> {
    let (began, mut reported) = (Instant::now(), false);
    loop {
        match UnixStream::connect(path) {
            Ok(socket) => return checked(path, socket).map(Some),
            Err(e) if is_to_come(&e) => {
                if began.elapsed() >= REPORT_AFTER && !std::mem::replace(&mut reported, true) {
                    output::log(format_args!(
                        "waiting for the launcher at {}: {e}; it is `driveline run --attach`, or \
                         `--deploy`",
                        path.display()
                    ));
                }
            }
            Err(e) => return Err(io::Error::new(e.kind(), format!("{}: {e}", path.display()))),
        }
        if is_readable(signals, AGAIN) {
            return Ok(None);
        }
    }
}

/// Returns true if a launcher may still begin to listen.
fn is_to_come(e: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, Interrupted, NotFound, WouldBlock};
    matches!(e.kind(), NotFound | ConnectionRefused | WouldBlock | Interrupted)
}

fn is_readable(socket: &UnixStream, within: Duration) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let within = Timespec { tv_sec: 0, tv_nsec: i64::from(within.subsec_nanos()) };
    poll(&mut fds, Some(&within)).is_ok_and(|n| n > 0)
}

/// Checks that the listener may command this process: its own user, root, or the owner of the
/// directory, who could put any socket there. If this process is in another user namespace than the
/// launcher, the launcher's user has another id here, but the directory of the same user has that
/// id, too.
fn checked(path: &Path, socket: UnixStream) -> io::Result<UnixStream> {
    let peer = PeerUser::of(&socket)?;
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let owner = std::fs::metadata(directory)?.uid();
    if peer.trusted || peer.uid == owner {
        return Ok(socket);
    }
    Err(io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "user {} listens at {}, but its directory belongs to user {owner}: give the directory \
             to the launcher's user",
            peer.uid,
            path.display()
        ),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_launcher_that_comes_later_is_connected_to() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let (signals, _other_end) = UnixStream::pair().unwrap();
        let socket = std::thread::scope(|scope| {
            let waits = scope.spawn(|| connect(&path, &signals));
            let listener = UnixListener::bind(&path).unwrap();
            let (mut ours, _) = listener.accept().unwrap();
            ours.write_all(b"go").unwrap();
            waits.join().unwrap()
        });
        let mut word = [0; 2];
        socket.unwrap().unwrap().read_exact(&mut word).unwrap();
        assert_eq!(&word, b"go");
    }

    #[test]
    fn a_signal_ends_the_wait_and_is_left_to_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut signals, mut other_end) = UnixStream::pair().unwrap();
        other_end.write_all(&[15]).unwrap();
        assert!(connect(&dir.path().join("socket"), &signals).unwrap().is_none());
        let mut signal = [0];
        signals.read_exact(&mut signal).unwrap();
        assert_eq!(signal, [15]);
    }

    #[test]
    fn what_cannot_become_a_socket_is_an_error_with_the_path() {
        let dir = tempfile::tempdir().unwrap();
        let (signals, _other_end) = UnixStream::pair().unwrap();
        let path = dir.path().join("x".repeat(200));
        let text = connect(&path, &signals).unwrap_err().to_string();
        assert!(text.contains("xxx"), "{text}");
    }
}
