// SPDX-License-Identifier: Apache-2.0
//! Directory of files that the containers of a run share with each other and with the launcher
//! (`docs/protocols/deployment.md`).

use driveline_runtime::launch::Placement;
use driveline_types::EndpointId;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeMap;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

/// Parent directory of the directories of runs.
pub(crate) const PARENT: &str = "/dev/shm";
/// Prefix of their names.
pub(crate) const PREFIX: &str = "driveline-run-";
/// File that a running launcher keeps locked.
const LOCK: &str = "launcher";
/// Maximum length of the path of a socket, in bytes.
const MOST_OF_SOCKET: usize = 107;

/// The directory of a run. It is removed on drop, unless it is that of
/// [`attached`](RunDirectory::attached). `driveline deploy clean` removes the directory of a killed
/// launcher.
#[derive(Debug)]
pub struct RunDirectory {
    id: String,
    path: PathBuf,
    /// True if it is kept after the run.
    stays: bool,
    _lock: File,
}

impl RunDirectory {
    /// Creates the directory below `/dev/shm`. It contains a directory for each module with the
    /// socket on which the module sends its account (its records) to the launcher. `users` has the
    /// user of each module.
    ///
    /// # Errors
    /// If a file or directory cannot be created, or its owner cannot be changed.
    pub fn new(users: &BTreeMap<String, u32>) -> io::Result<Self> {
        let id = EndpointId::random()?.to_string();
        let path = Path::new(PARENT).join(format!("{PREFIX}{id}"));
        Self::make(id, path, users)
    }

    /// Returns the directory in which modules started by other programs find their launcher.
    /// Creates its missing parts; it is kept after the run.
    ///
    /// # Errors
    /// If a file or directory cannot be created, if another launcher uses the directory, if other
    /// users could replace its files, or if its path is too long for sockets.
    pub fn attached(path: &Path, modules: &[&str]) -> io::Result<Self> {
        let named = |path: &Path, e: io::Error| {
            io::Error::new(e.kind(), format!("cannot prepare {}: {e}", path.display()))
        };
        let accounts = path.join("accounts");
        let longest =
            modules.iter().map(|m| Placement::socket(&accounts, m).as_os_str().len()).max();
        if let Some(longest) = longest.filter(|bytes| *bytes > MOST_OF_SOCKET) {
            let text = format!(
                "{} is too long: its longest path of a socket has {longest} bytes, and the system \
                 permits {MOST_OF_SOCKET}; use a directory such as /dev/shm/pilot",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let id = EndpointId::random()?.to_string();
        std::fs::create_dir_all(path).map_err(|e| named(path, e))?;
        trusted(path)?;
        let lock = match lock_again(&path.join(LOCK)) {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                let text = format!(
                    "another launcher uses {}: stop it, or use another directory",
                    path.display()
                );
                return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
            }
            lock => lock.map_err(|e| named(path, e))?,
        };
        let directory = Self { id, path: path.to_owned(), stays: true, _lock: lock };
        let accounts = directory.accounts();
        let mut wanted = vec![directory.domain(), accounts.clone()];
        wanted.extend(modules.iter().map(|m| accounts.join(m)));
        for path in wanted {
            match private(&path) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => trusted(&path)?,
                made => made.map_err(|e| named(&path, e))?,
            }
        }
        Ok(directory)
    }

    /// Creates the missing parts of the directory in which a collector finds modules that an
    /// orchestrator starts, and sets owner and mode of each part. `collector` is the user of the
    /// collector, `users` those of the modules. Needs root. Removes nothing, and can be repeated.
    ///
    /// # Errors
    /// If a file or directory cannot be created, or its owner cannot be changed.
    pub fn prepare(path: &Path, collector: u32, users: &BTreeMap<String, u32>) -> io::Result<()> {
        let owned = |path: &Path, user: u32, group: u32, mode: u32| {
            given(path, user, group, mode).map_err(|e| {
                io::Error::new(e.kind(), format!("cannot prepare {}: {e}", path.display()))
            })
        };
        owned(path, collector, collector, 0o700)?;
        let one = users.values().all(|u| *u == collector);
        let domain_mode = if one { 0o700 } else { 0o1777 };
        owned(&path.join("domain"), collector, collector, domain_mode)?;
        let accounts = path.join("accounts");
        owned(&accounts, collector, collector, 0o711)?;
        for (module, user) in users {
            // The collector creates the socket in this directory. The socket inherits the
            // directory's group, and by it the module has access.
            let mode = if *user == collector { 0o700 } else { 0o2750 };
            owned(&accounts.join(module), collector, *user, mode)?;
        }
        Ok(())
    }

    fn make(id: String, path: PathBuf, users: &BTreeMap<String, u32>) -> io::Result<Self> {
        let named = |path: &Path, e: io::Error| {
            io::Error::new(e.kind(), format!("cannot prepare {}: {e}", path.display()))
        };
        private(&path).map_err(|e| named(&path, e))?;
        let lock = locked(&path.join(LOCK)).map_err(|e| named(&path, e))?;
        let directory = Self { id, path, stays: false, _lock: lock };
        let domain = directory.domain();
        private(&domain).map_err(|e| named(&domain, e))?;
        let mut all: Vec<u32> = users.values().copied().collect();
        all.sort_unstable();
        all.dedup();
        match all.as_slice() {
            [one] => give(&domain, *one),
            // The directory of the run admits no other user, so other users can access the domain
            // only in containers that mount it.
            _ => std::fs::set_permissions(&domain, Permissions::from_mode(0o1777)),
        }
        .map_err(|e| named(&domain, e))?;
        let accounts = directory.accounts();
        // Modules in one container pass through it to their own directories.
        private(&accounts)
            .and_then(|()| std::fs::set_permissions(&accounts, Permissions::from_mode(0o711)))
            .map_err(|e| named(&accounts, e))?;
        for (module, user) in users {
            let own = directory.accounts().join(module);
            private(&own).and_then(|()| give(&own, *user)).map_err(|e| named(&own, e))?;
        }
        Ok(directory)
    }

    /// Returns the id of the run: random digits, never reused.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the directory of the domain.
    #[must_use]
    pub fn domain(&self) -> PathBuf {
        self.path.join("domain")
    }

    /// Returns the directory that contains the sockets of the accounts.
    #[must_use]
    pub fn accounts(&self) -> PathBuf {
        self.path.join("accounts")
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if !self.stays {
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

/// Returns whether a launcher holds the lock of a directory. A directory without a lock file
/// belongs to no launcher.
pub(crate) fn has_launcher(directory: &Path) -> bool {
    let Ok(file) = File::open(directory.join(LOCK)) else { return false };
    matches!(
        flock(&file, FlockOperation::NonBlockingLockShared),
        Err(rustix::io::Errno::WOULDBLOCK)
    )
}

/// Returns true if a path is the directory of a run.
pub(crate) fn is_of_a_run(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    path.parent() == Some(Path::new(PARENT))
        && name.strip_prefix(PREFIX).is_some_and(|id| {
            id.len() == 32 && id.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        })
}

/// Sets owner and mode of a directory, which is created if it does not exist.
///
/// # Errors
/// If the system refuses one of these, or the path is not a directory.
pub fn given(path: &Path, user: u32, group: u32, mode: u32) -> io::Result<()> {
    std::fs::create_dir_all(path)?;
    if !path.symlink_metadata()?.is_dir() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is no directory"));
    }
    std::os::unix::fs::lchown(path, Some(user), Some(group))?;
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Refuses a directory in which another user could replace files: its owner can, and without the
/// sticky bit all users with write access can.
fn trusted(path: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(path)
        .map_err(|e| io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
    let own = rustix::process::geteuid().as_raw();
    let refused = if !found.is_dir() {
        "is no directory, or a link".to_owned()
    } else if found.uid() != own && found.uid() != 0 {
        format!("belongs to user {}, who could replace its files", found.uid())
    } else if found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0 {
        "may be written by other users, who could replace its files".to_owned()
    } else {
        return Ok(());
    };
    let text = format!("{} {refused}: use another directory", path.display());
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn private(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)
}

fn locked(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn lock_again(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create(true).truncate(false).mode(0o600).open(path)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}

fn give(path: &Path, user: u32) -> io::Result<()> {
    if user == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    chown(path, Some(user), Some(user))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;
    use std::time::{Duration, Instant};

    fn made(users: &[(&str, u32)], dir: &Path) -> RunDirectory {
        let users = users.iter().map(|(m, u)| ((*m).to_owned(), *u)).collect();
        RunDirectory::make("0".repeat(32), dir.join("run"), &users).unwrap()
    }

    /// As [`RunDirectory::attached`], once no process holds the lock of a directory that was
    /// dropped: a process that another test forks has a copy of the lock until it executes its
    /// program.
    fn attached_again(path: &Path) -> io::Result<RunDirectory> {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            match RunDirectory::attached(path, &["lane"]) {
                Err(e) if e.kind() == io::ErrorKind::AddrInUse && Instant::now() < end => {
                    std::thread::yield_now();
                }
                attached => return attached,
            }
        }
    }

    #[test]
    fn a_run_has_a_private_directory_and_a_launcher_until_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let own = rustix::process::geteuid().as_raw();
        let run = made(&[("lane", own)], dir.path());
        let mode = |path: &Path| std::fs::metadata(path).unwrap().mode() & 0o7777;
        assert_eq!(mode(run.path()), 0o700);
        assert_eq!(mode(&run.domain()), 0o700);
        assert_eq!(mode(&run.accounts().join("lane")), 0o700);
        assert!(has_launcher(run.path()));
        let path = run.path().to_owned();
        drop(run);
        assert!(!path.exists() && !has_launcher(&path));
    }

    #[test]
    fn a_directory_that_others_share_stays_and_has_one_launcher_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared");
        let run = RunDirectory::attached(&path, &["lane"]).unwrap();
        assert!(run.accounts().join("lane").is_dir() && run.domain().is_dir());
        let text = RunDirectory::attached(&path, &["lane"]).unwrap_err().to_string();
        assert!(text.contains("another launcher"), "{text}");
        drop(run);
        assert!(path.join("accounts/lane").is_dir());
        attached_again(&path).unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        let text = RunDirectory::attached(&path, &["lane"]).unwrap_err().to_string();
        assert!(text.contains("other users") && text.contains("another directory"), "{text}");
        std::fs::set_permissions(&path, Permissions::from_mode(0o700)).unwrap();
        std::fs::remove_dir(path.join("domain")).unwrap();
        std::os::unix::fs::symlink("/etc", path.join("domain")).unwrap();
        let text = attached_again(&path).unwrap_err().to_string();
        assert!(text.contains("domain is no directory, or a link"), "{text}");
        let deep = path.join("x".repeat(100));
        let text = RunDirectory::attached(&deep, &["lane"]).unwrap_err().to_string();
        assert!(text.contains("too long") && text.contains("permits 107"), "{text}");
        assert!(!deep.exists());
    }

    #[test]
    fn modules_of_several_users_share_the_domain_and_nothing_else() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change the owner of directories.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let run = made(&[("lane", 1001), ("camera", 1002)], dir.path());
        let meta = |path: PathBuf| std::fs::metadata(path).unwrap();
        assert_eq!(meta(run.domain()).mode() & 0o7777, 0o1777);
        let lane = meta(run.accounts().join("lane"));
        assert_eq!((lane.mode() & 0o7777, lane.uid()), (0o700, 1001));
        assert_eq!(meta(run.path().to_owned()).mode() & 0o7777, 0o700);
    }

    #[test]
    fn a_collector_and_each_module_reach_what_is_theirs_and_no_more() {
        if !rustix::process::geteuid().is_root() {
            // Only root can change the owner of directories.
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("shared");
        let users = |lane| [("lane".to_owned(), lane), ("camera".to_owned(), 1002)].into();
        let state = |path: PathBuf| {
            let m = std::fs::metadata(path).unwrap();
            (m.uid(), m.gid(), m.mode() & 0o7777)
        };
        RunDirectory::prepare(&path, 1002, &users(1002)).unwrap();
        assert_eq!(state(path.join("domain")), (1002, 1002, 0o700));
        assert_eq!(state(path.join("accounts/lane")), (1002, 1002, 0o700));
        // Again, with another user: existing files remain and get the new owner.
        std::fs::write(path.join("domain/file"), "").unwrap();
        RunDirectory::prepare(&path, 1002, &users(1001)).unwrap();
        assert!(path.join("domain/file").exists());
        assert_eq!(state(path.clone()), (1002, 1002, 0o700));
        assert_eq!(state(path.join("domain")), (1002, 1002, 0o1777));
        assert_eq!(state(path.join("accounts/lane")), (1002, 1001, 0o2750));
        assert_eq!(state(path.join("accounts/camera")), (1002, 1002, 0o700));
    }

    #[test]
    fn only_directories_of_runs_look_like_one() {
        let id = "0123456789abcdef0123456789abcdef";
        assert!(is_of_a_run(Path::new(&format!("/dev/shm/driveline-run-{id}"))));
        for bad in [
            format!("/dev/shm/driveline-run-{id}0"),
            format!("/dev/shm/x/driveline-run-{id}"),
            format!("/tmp/driveline-run-{id}"),
            "/dev/shm/driveline-run-../../etc".into(),
            "/dev/shm/driveline-0".into(),
        ] {
            assert!(!is_of_a_run(Path::new(&bad)), "{bad}");
        }
    }
}
