// SPDX-License-Identifier: Apache-2.0
//! User at the other end of a socket, from the kernel.
#![allow(unsafe_code, reason = "a socket option that is read by a C call")]

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::OnceLock;

/// Number that the kernel shows for each user that this user namespace does not map (called a user
/// without a name here), unless `/proc` has another.
const USUAL_OVERFLOW_UID: u32 = 65_534;
/// Number of user ids: all 32-bit numbers except the last.
const ALL_USERS: u64 = u32::MAX as u64;

/// A user, as this user namespace sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum User {
    /// One certain user.
    Known(u32),
    /// Any user without a name in this user namespace: the kernel shows all of them as this number.
    /// Two such values may stand for different users, although they compare equal; see
    /// [`User::is_surely`].
    Nameless(u32),
}

impl User {
    /// User at the other end of a socket for which the kernel reports none, such as the sender of a
    /// datagram.
    pub(crate) const UNKNOWN: Self = Self::Nameless(u32::MAX);

    /// Returns the user for a number from the kernel.
    pub(crate) fn of(uid: u32) -> Self {
        if uid == overflow_uid() && !everybody_has_a_name() {
            Self::Nameless(uid)
        } else {
            Self::Known(uid)
        }
    }

    /// The user that this process runs as.
    pub(crate) fn own() -> Self {
        Self::of(rustix::process::geteuid().as_raw())
    }

    /// The number that the kernel shows.
    pub(crate) fn uid(self) -> u32 {
        match self {
            Self::Known(uid) | Self::Nameless(uid) => uid,
        }
    }

    /// Returns the remedy after an endpoint of this process has refused an endpoint of this user.
    pub(crate) fn remedy(self) -> String {
        match (self, Self::own()) {
            (Self::Known(uid), Self::Known(own)) => format!(
                "run it as user {own} or add {uid} to \
                 the topic's users"
            ),
            _ => "run both processes in one user namespace that maps their users, or open the \
                 topic to anyone"
                .into(),
        }
    }

    /// Returns true for users that have power over this process anyway: its own user, and root.
    pub(crate) fn is_trusted(self) -> bool {
        !crate::fault::is_switched_on("distrust")
            && (self.is_surely(Self::own()) || self == Self::Known(0))
    }

    /// Returns true if the two are certainly the same user.
    pub(crate) fn is_surely(self, other: Self) -> bool {
        matches!((self, other), (Self::Known(a), Self::Known(b)) if a == b)
    }
}

impl std::fmt::Display for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Known(uid) => write!(f, "user {uid}"),
            Self::Nameless(uid) => write!(
                f,
                "user {uid} (which here stands for every user that this user namespace does not \
                 map)"
            ),
        }
    }
}

fn overflow_uid() -> u32 {
    static UID: OnceLock<u32> = OnceLock::new();
    *UID.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/overflowuid").ok();
        text.and_then(|t| t.trim().parse().ok()).unwrap_or(USUAL_OVERFLOW_UID)
    })
}

fn everybody_has_a_name() -> bool {
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| names_everybody(&map))
}

/// Returns true if a map (lines of: id here, id there, count) covers every user. The kernel permits
/// no overlaps.
fn names_everybody(map: &str) -> bool {
    let counts =
        map.lines().map(|line| line.split_whitespace().nth(2).and_then(|n| n.parse::<u64>().ok()));
    counts.sum::<Option<u64>>().is_some_and(|n| n >= ALL_USERS)
}

/// The process at the other end of a connected Unix socket when it connected or listened, from the
/// kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerUser {
    /// Its effective user, as this user namespace numbers it.
    pub uid: u32,
    /// True if it is certainly this process's own user, or root.
    pub trusted: bool,
    /// Its process id, if this PID namespace has one for it. For texts only: process ids are
    /// reused.
    pub pid: Option<u32>,
}

impl PeerUser {
    /// Reads it from a connected socket. Does not block.
    ///
    /// # Errors
    /// If the descriptor is not a socket.
    pub fn of(socket: impl AsFd) -> io::Result<Self> {
        let user = user(&socket)?;
        Ok(Self { uid: user.uid(), trusted: user.is_trusted(), pid: process(&socket) })
    }
}

/// Effective user of the peer when it connected (or listened).
pub(crate) fn user(socket: impl AsFd) -> io::Result<User> {
    credentials(socket).map(|cred| User::of(cred.uid))
}

/// Process of the peer when it connected (or listened), if this process can name it. For texts
/// only: the kernel reports 0 across PID namespaces, and process ids are reused.
pub(crate) fn process(socket: impl AsFd) -> Option<u32> {
    credentials(socket).ok().and_then(|cred| u32::try_from(cred.pid).ok()).filter(|pid| *pid > 0)
}

fn credentials(socket: impl AsFd) -> io::Result<libc::ucred> {
    let mut cred = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: `cred` and `len` are valid for writing and `len` is the size of `cred`.
    let r = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut cred).cast(),
            &raw mut len,
        )
    };
    if r == 0 && len as usize == size_of::<libc::ucred>() {
        Ok(cred)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Access;

    #[test]
    fn only_a_complete_user_map_is_trusted() {
        assert!(names_everybody("         0          0 4294967295\n"));
        assert!(names_everybody("0 1 1\n1 0 1\n2 2 4294967293\n"));
        // "0 100000 65536" is the map of a usual container: it maps 65534 to one user, but this
        // number stands for all unmapped users as well.
        for partial in
            ["", "0 1000 1\n", "0 100000 65536\n", "0 0 4294967294\n", "0 0\n", "0 0 x\n"]
        {
            assert!(!names_everybody(partial), "{partial:?}");
        }
    }

    #[test]
    fn a_process_trusts_itself() {
        let (a, _b) = std::os::unix::net::UnixStream::pair().unwrap();
        let own = PeerUser { uid: User::own().uid(), trusted: true, pid: Some(std::process::id()) };
        assert_eq!(PeerUser::of(&a).unwrap(), own);
        assert!(PeerUser::of(std::fs::File::open("/dev/null").unwrap()).is_err());
    }

    #[test]
    fn the_nameless_have_no_rights_of_their_number() {
        let nobody = User::Nameless(65_534);
        assert!(!nobody.is_surely(nobody) && !nobody.is_surely(User::Known(65_534)));
        let access = Access::Users(vec![65_534]);
        assert!(
            access.permits(User::Known(65_534))
                && !access.permits(nobody)
                && !Access::OwnUser.permits(nobody)
        );
        assert!(Access::Anyone.permits(nobody));
        assert!(Access::OwnUser.permits(User::own()), "these tests run as a user with a name");
    }
}
