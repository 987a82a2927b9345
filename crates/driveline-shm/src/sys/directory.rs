// SPDX-License-Identifier: Apache-2.0
//! The domain directory: opened once, checked, and used only through its descriptor.

use super::fork::GuardedFd;
use super::peer::User;
use crate::domain;
use crate::error::OpenError;
use crate::limits::MAX_DIRECTORY_ENTRIES;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdir, open, renameat, statat, statx, unlinkat,
};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// An open domain directory.
#[derive(Debug)]
pub(crate) struct Directory {
    fd: GuardedFd,
    path: PathBuf,
    shared: bool,
}

/// A stamp that changes when entries are added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Stamp(i64, u32, u32);

impl Directory {
    /// Opens or creates the configured directory, or the one that [`domain::directory`] returns
    /// without a name. This user's own directories are checked more strictly than directories
    /// shared by several users.
    pub(crate) fn open(configured: Option<&Path>) -> Result<Self, OpenError> {
        let path =
            configured.map_or_else(|| domain::directory(None), |path| Ok(path.to_owned()))?;
        Self::checked(&path, Self::make_and_open_at)
    }

    /// Opens this user's own directory, and makes it if it is missing.
    pub(crate) fn open_own(path: &Path) -> Result<GuardedFd, OpenError> {
        Self::make_and_open_at(path, Some(rustix::process::geteuid().as_raw()))
            .map(|directory| directory.fd)
    }

    /// Opens the directory of a domain that a group shares, and makes it if it is missing.
    pub(crate) fn make_for_group(path: &Path, group: u32) -> Result<Self, OpenError> {
        const MODE: u32 = 0o1770;
        let fail = |action, source: io::Error| OpenError::Directory {
            action,
            path: path.to_owned(),
            source,
        };
        if !path.exists() {
            create_for_group(path, group, MODE).map_err(|e| fail("create", e))?;
        }
        let directory = Self::open_at(path, None).map_err(|e| match e {
            OpenError::Directory { source, .. }
                if source.kind() == io::ErrorKind::PermissionDenied =>
            {
                fail("open", not_a_member(group))
            }
            e => e,
        })?;
        let stat = fstat(&directory.fd).map_err(|e| fail("examine", e.into()))?;
        let mode = stat.st_mode & 0o7777;
        if (stat.st_gid, mode) != (group, MODE) {
            return Err(OpenError::Unsafe {
                path: path.to_owned(),
                reason: format!(
                    "it has group {} and mode {mode:04o} instead of {group} and {MODE:04o}",
                    stat.st_gid
                ),
                remedy: "its owner and root can remove it; choose another `domain:` until then",
            });
        }
        Ok(directory)
    }

    /// As [`Directory::open`], but creates nothing; `None` if there is no directory.
    pub(crate) fn open_for_looking(path: &Path) -> Result<Option<Self>, OpenError> {
        match Self::checked(path, Self::open_at) {
            Ok(directory) => Ok(Some(directory)),
            Err(OpenError::Directory { source, .. })
                if source.kind() == io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(e) => Err(e),
        }
    }

    /// Opens a directory with `open`, with stricter checks for this user's own.
    fn checked(
        path: &Path,
        open: fn(&Path, Option<u32>) -> Result<Self, OpenError>,
    ) -> Result<Self, OpenError> {
        let parent = domain::own_parent();
        if path.parent() != Some(&parent) {
            return open(path, None);
        }
        let user = User::own();
        if matches!(user, User::Nameless(_)) {
            return Err(OpenError::Unsafe {
                path: parent,
                reason: format!("this process runs as {user}, so that it could belong to any user"),
                remedy: "run as a user that the user namespace maps, or choose a directory with \
                     DRIVELINE_DOMAIN_DIR",
            });
        }
        // Every user may create names in /dev/shm, so check first that the parent is this user's
        // own.
        open(&parent, Some(user.uid()))?;
        open(path, Some(user.uid()))
    }

    fn make_and_open_at(path: &Path, owner: Option<u32>) -> Result<Self, OpenError> {
        create(path).map_err(|source| OpenError::Directory {
            action: "create",
            path: path.to_owned(),
            source,
        })?;
        Self::open_at(path, owner)
    }

    fn open_at(path: &Path, owner: Option<u32>) -> Result<Self, OpenError> {
        let fail = |action, source: io::Error| OpenError::Directory {
            action,
            path: path.to_owned(),
            source,
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = open(path, flags, Mode::empty()).map_err(|e| fail("open", e.into()))?;
        let stat = fstat(&fd).map_err(|e| fail("examine", e.into()))?;
        let mode = stat.st_mode & 0o7777;
        let refuse = |reason: String, remedy| {
            Err(OpenError::Unsafe { path: path.to_owned(), reason, remedy })
        };
        if let Some(uid) = owner {
            if stat.st_uid != uid {
                return refuse(
                    format!("it belongs to user {} instead of {uid}", stat.st_uid),
                    "only that user and root can remove it; choose another directory with \
                     DRIVELINE_DOMAIN_DIR until then",
                );
            }
            if mode & 0o077 != 0 {
                return refuse(
                    format!("its mode is {mode:04o}, so that others can enter"),
                    "chmod it to 0700, or name a directory to share in DRIVELINE_DOMAIN_DIR",
                );
            }
        } else if mode & 0o002 != 0 && mode & 0o1000 == 0 {
            return refuse(
                format!("its mode is {mode:04o}: everybody can replace names in it"),
                "chmod it to 0700 for one user, 0770 for a group, or 1777 for everybody",
            );
        }
        let fd = GuardedFd::new(fd).map_err(|e| fail("keep", e))?;
        Ok(Self { fd, path: path.to_owned(), shared: mode & 0o077 != 0 })
    }

    /// Opens an existing directory without checks, and creates nothing.
    pub(crate) fn open_existing(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = GuardedFd::new(open(path, flags, Mode::empty())?)?;
        Ok(Self { fd, path: path.to_owned(), shared: false })
    }

    /// The path, for people.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns true if other users can enter.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared
    }

    /// Path to an entry through the open descriptor. It always fits into a socket address, and
    /// leads to this directory even if another one has taken its place.
    pub(crate) fn entry(&self, name: &str) -> String {
        format!("/proc/self/fd/{}/{name}", self.fd.as_raw_fd())
    }

    /// Returns the sockets with names of Driveline's own form, among the first
    /// [`MAX_DIRECTORY_ENTRIES`] entries of the directory.
    pub(crate) fn names(&self) -> io::Result<Names> {
        let mut names = Vec::new();
        for (read, entry) in Dir::read_from(&self.fd)?.enumerate() {
            if read == MAX_DIRECTORY_ENTRIES {
                return Ok(Names { names, cut: true });
            }
            let entry = entry?;
            // Where other users may create names, a link could lead to any socket. Some file
            // systems do not report the type.
            if !matches!(entry.file_type(), FileType::Socket | FileType::Unknown) {
                continue;
            }
            if let Some(name) = entry.file_name().to_str().ok().and_then(Name::parse) {
                names.push(name);
            }
        }
        Ok(Names { names, cut: false })
    }

    /// Returns true if an entry is itself a socket or does not exist, rather than a link.
    pub(crate) fn leads_nowhere_else(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).map_or_else(
            |e| e == rustix::io::Errno::NOENT,
            |s| FileType::from_raw_mode(s.st_mode) == FileType::Socket,
        )
    }

    /// Returns true if an entry belongs to this process's own user or root.
    pub(crate) fn is_of_trusted(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|s| User::of(s.st_uid).is_trusted())
    }

    /// See [`Stamp`].
    pub(crate) fn stamp(&self) -> io::Result<Stamp> {
        let s = statx(
            &self.fd,
            "",
            AtFlags::EMPTY_PATH,
            rustix::fs::StatxFlags::MTIME | rustix::fs::StatxFlags::NLINK,
        )?;
        Ok(Stamp(s.stx_mtime.tv_sec, s.stx_mtime.tv_nsec, s.stx_nlink))
    }

    /// Returns true if the directory has no name any more, so that no other process can enter.
    pub(crate) fn is_removed(&self) -> bool {
        fstat(&self.fd).is_ok_and(|s| s.st_nlink == 0)
    }

    /// After the directory's removal, continues in the directory that is at its path now. A
    /// directory of this user alone is created if necessary. One for several users is not: only its
    /// owner knows the right mode.
    pub(crate) fn reopen(&self) -> Result<(), String> {
        let new = if self.shared {
            // `open` could create the directory. A check before that the path exists would not
            // prevent that: the path of a removed directory still exists for a moment after its
            // link count is 0.
            Self::open_at(&self.path, None).map_err(|e| match e {
                OpenError::Directory { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                    "it was made for several users, so make it again with its mode".into()
                }
                e => e.to_string(),
            })
        } else {
            Self::open(Some(&self.path)).map_err(|e| e.to_string())
        }?;
        if new.shared != self.shared {
            return Err("the present one is for other users than before: its mode differs".into());
        }
        self.fd.become_copy_of(&new.fd).map_err(|e| e.to_string())
    }

    /// Returns true if the entry exists.
    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Removes a name, and returns true if it is gone, even if another process was faster. In a
    /// sticky directory another user's leftover stays for that user's next participant.
    pub(crate) fn remove(&self, name: &str) -> bool {
        matches!(unlinkat(&self.fd, name, AtFlags::empty()), Ok(()) | Err(rustix::io::Errno::NOENT))
    }

    /// Sets the permission bits of an entry.
    pub(crate) fn set_mode(&self, name: &str, mode: u32) -> io::Result<()> {
        Ok(rustix::fs::chmodat(&self.fd, name, Mode::from_raw_mode(mode), AtFlags::empty())?)
    }

    /// Gives an entry its final name.
    pub(crate) fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(renameat(&self.fd, from, &self.fd, to)?)
    }
}

fn create(path: &Path) -> io::Result<()> {
    match mkdir(path, Mode::from_raw_mode(0o700)) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
        Err(rustix::io::Errno::NOENT) => {
            if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
                create(parent)?;
            }
            match mkdir(path, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
                Err(e) => Err(e.into()),
            }
        }
        Err(e) => Err(e.into()),
    }
}

/// Creates a directory with its group and mode. It is created under another name, so that it never
/// exists with a wrong mode under its own.
fn create_for_group(path: &Path, group: u32, mode: u32) -> io::Result<()> {
    let id = driveline_types::EndpointId::random()?;
    let temporary = path.with_file_name(format!(".driveline-{id}"));
    mkdir(&temporary, Mode::from_raw_mode(0o700))?;
    let gid = rustix::fs::Gid::from_raw(group);
    let made = rustix::fs::chown(&temporary, None, Some(gid))
        .and_then(|()| rustix::fs::chmod(&temporary, Mode::from_raw_mode(mode)))
        .and_then(|()| {
            let flags = rustix::fs::RenameFlags::NOREPLACE;
            rustix::fs::renameat_with(rustix::fs::CWD, &temporary, rustix::fs::CWD, path, flags)
        });
    if made.is_err() {
        let _ = std::fs::remove_dir(&temporary);
    }
    match made {
        // Another member was faster.
        Err(rustix::io::Errno::EXIST) | Ok(()) => Ok(()),
        Err(rustix::io::Errno::PERM) => Err(not_a_member(group)),
        Err(e) => Err(e.into()),
    }
}

fn not_a_member(group: u32) -> io::Error {
    io::Error::new(
        io::ErrorKind::PermissionDenied,
        format!(
            "this user is not in the group {group} of `domain_group` \
             (`usermod -aG {group} USER` adds it)"
        ),
    )
}

/// Content of a directory.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) names: Vec<Name>,
    /// There are more entries than are read.
    pub(crate) cut: bool,
}

/// Meaning of a name in the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// A publisher's listening socket; with the topic's id.
    Publisher(u64),
    /// A participant's datagram socket for hints.
    Rescan,
    /// A participant's listening socket for tools.
    Info,
    /// A socket that gets its final name soon.
    Temporary,
}

/// A name of Driveline's own form.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub(crate) kind: Kind,
    pub(crate) text: String,
}

impl Name {
    /// A new random name, never used before or after.
    pub(crate) fn random(kind: Kind) -> io::Result<Self> {
        let id = driveline_types::EndpointId::random()?;
        let text = match kind {
            Kind::Publisher(topic) => format!("p-{topic:016x}-{id}"),
            Kind::Rescan => format!("r-{id}"),
            Kind::Info => format!("i-{id}"),
            Kind::Temporary => format!("t-{id}"),
        };
        Ok(Self { kind, text })
    }

    /// Parses a name; `None` if it is not of Driveline's form.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let hex = |s: &str, len: usize| {
            s.len() == len && s.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let (kind, rest) = text.split_once('-')?;
        let kind = match kind {
            "p" => {
                let (topic, id) = rest.split_once('-')?;
                if !hex(topic, 16) || !hex(id, 32) {
                    return None;
                }
                return Some(Self {
                    kind: Kind::Publisher(u64::from_str_radix(topic, 16).ok()?),
                    text: text.to_owned(),
                });
            }
            "r" => Kind::Rescan,
            "i" => Kind::Info,
            "t" => Kind::Temporary,
            _ => return None,
        };
        hex(rest, 32).then(|| Self { kind, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn names_survive_a_round_trip_and_strangers_are_ignored() {
        for kind in [Kind::Publisher(0xabc), Kind::Rescan, Kind::Info, Kind::Temporary] {
            let n = Name::random(kind).unwrap();
            assert_eq!(Name::parse(&n.text), Some(n));
        }
        for bad in [
            "",
            "p-",
            "x-00",
            "r-0",
            "p-0-0",
            "r-000000000000000000000000000000zz",
            "i-00000000000000000000000000000000x",
            "../r",
        ] {
            assert_eq!(Name::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn unsafe_directories_are_refused() {
        let t = tempfile::tempdir().unwrap();
        let d = t.path().join("a/b");
        Directory::open(Some(&d)).unwrap();
        assert_eq!(std::fs::metadata(&d).unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::set_permissions(&d, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Directory::open(Some(&d)), Err(OpenError::Unsafe { .. })));
        std::fs::set_permissions(&d, std::fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(Directory::open(Some(&d)).unwrap().is_shared());
        let link = t.path().join("link");
        symlink(&d, &link).unwrap();
        assert!(matches!(Directory::open(Some(&link)), Err(OpenError::Directory { .. })));
        std::fs::write(t.path().join("file"), "").unwrap();
        assert!(Directory::open(Some(&t.path().join("file"))).is_err());
        assert!(Directory::open_at(&d, Some(12345)).is_err());
    }

    #[test]
    fn who_only_looks_makes_nothing_and_believes_nothing_unsafe() {
        let t = tempfile::tempdir().unwrap();
        let d = t.path().join("a/b");
        assert!(Directory::open_for_looking(&d).unwrap().is_none());
        assert!(!t.path().join("a").exists());
        Directory::open(Some(&d)).unwrap();
        assert!(Directory::open_for_looking(&d).unwrap().is_some());
        std::fs::set_permissions(&d, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(Directory::open_for_looking(&d), Err(OpenError::Unsafe { .. })));
    }

    #[test]
    fn a_directory_of_a_group_has_its_rights_from_the_start_and_others_are_refused() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("d");
        let group = rustix::process::getegid().as_raw();
        for _ in 0..2 {
            Directory::make_for_group(&path, group).unwrap();
        }
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o1770);
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 1, "no temporary name");
        let text = Directory::make_for_group(&path, group + 1).unwrap_err().to_string();
        assert!(text.contains(&format!("has group {group}")), "{text}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o1777)).unwrap();
        let text = Directory::make_for_group(&path, group).unwrap_err().to_string();
        assert!(text.contains("mode 1777 instead of") && text.contains("domain:"), "{text}");
    }
}
