// SPDX-License-Identifier: Apache-2.0
//! Lock that permits one gateway of a kind for a domain on a host.

use super::program::FROM_RUN;
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Reason why a gateway may not serve a domain.
#[derive(Debug, Error)]
pub enum OnlyOneError {
    /// Another gateway serves the domain.
    #[error("a gateway '{kind}' serves the domain in {} already (process {pid}); end {}, or use \
         another domain", path.display(), who(pid, *run))]
    Second {
        /// Kind of gateway.
        kind: String,
        /// Directory of the domain.
        path: PathBuf,
        /// Process id of the other gateway in its own PID namespace; `?` if it is unknown.
        pid: String,
        /// Process that started the other gateway and would restart it, if there is one.
        run: Option<u32>,
    },
    /// The lock file cannot be opened, locked or written, or was removed at each attempt.
    #[error("cannot use {}: {source}", path.display())]
    System {
        /// Lock file.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
}

fn who(pid: &str, run: Option<u32>) -> String {
    run.map_or_else(
        || format!("it with `kill {pid}`"),
        |run| format!("the `driveline run` that started it (`kill {run}`)"),
    )
}

/// Number of attempts to take the lock when its previous owner has just removed its file.
const TRIES: u32 = 100;
/// Maximum number of a process's open files that are checked.
const MOST_FILES: usize = 1 << 16;

/// While this value exists, no other gateway of the kind serves the domain on this host. The kernel
/// releases the lock when the process dies. The file is removed with this value; if the process is
/// killed, it stays for the next gateway.
#[derive(Debug)]
pub struct OnlyOne {
    file: File,
    path: PathBuf,
}

impl OnlyOne {
    /// Takes the lock `gateway-<kind>.lock` of the domain's directory. Does not wait.
    ///
    /// # Errors
    /// [`OnlyOneError::Second`] if another process, or another gateway of this one, has it;
    /// [`OnlyOneError::System`] if the file cannot be used.
    pub fn new(domain_dir: &Path, kind: &str) -> Result<Self, OnlyOneError> {
        let path = domain_dir.join(format!("gateway-{kind}.lock"));
        let failed = |source| OnlyOneError::System { path: path.clone(), source };
        for _ in 0..TRIES {
            let mut file = open(&path).map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let mut pid = String::new();
                    // The owner of the lock may just be writing.
                    let _ = Read::by_ref(&mut file).take(16).read_to_string(&mut pid);
                    let pid = pid
                        .trim()
                        .parse::<u32>()
                        .map_or_else(|_| "?".into(), |pid| pid.to_string());
                    let run = holder(domain_dir, kind).and_then(run_of);
                    return Err(OnlyOneError::Second {
                        kind: kind.to_owned(),
                        path: domain_dir.to_owned(),
                        pid,
                        run,
                    });
                }
                Err(e) => return Err(failed(e.into())),
            }
            // Between opening and locking, the previous owner may have removed the file: a lock on
            // a file without a name excludes no other process.
            if !is_at(&file, &path) {
                continue;
            }
            file.set_len(0).map_err(failed)?;
            file.write_all(std::process::id().to_string().as_bytes()).map_err(failed)?;
            return Ok(Self { file, path });
        }
        Err(failed(io::Error::other(format!(
            "it was removed {TRIES} times while it was locked; try again"
        ))))
    }
}

impl Drop for OnlyOne {
    fn drop(&mut self) {
        // While the file here is the locked one, no other process removes or replaces it.
        if is_at(&self.file, &self.path) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Opens or creates the file. A link, which another user may have put into a shared directory, is
/// not followed, so that its target is not written.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags)
        .open(path)
}

/// Returns the process of the gateway that serves a domain. The lock's file has the gateway's pid
/// in its own PID namespace, which may be a container's. So this pid is returned only if the
/// process that has it here has the file open.
pub(super) fn holder(domain_dir: &Path, kind: &str) -> Option<u32> {
    let path = domain_dir.join(format!("gateway-{kind}.lock"));
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    Read::by_ref(&mut &file).take(16).read_to_string(&mut text).ok()?;
    let pid = text.trim().parse::<u32>().ok().filter(|pid| *pid > 0)?;
    let lock = file.metadata().ok()?;
    let open =
        std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.take(MOST_FILES).filter_map(Result::ok);
    open.filter_map(|fd| std::fs::metadata(fd.path()).ok()).any(|m| same(&m, &lock)).then_some(pid)
}

/// Returns the process that started this gateway, if it is a run.
fn run_of(pid: u32) -> Option<u32> {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    arguments.split(|b| *b == 0).find(|a| *a == FROM_RUN.as_bytes())?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
    // A process whose parent has ended belongs to process 1, which is not a run. Neither is 0, a
    // process outside of this container.
    (parent > 1).then_some(parent)
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Returns true if the path names this file.
fn is_at(file: &File, path: &Path) -> bool {
    matches!((file.metadata(), std::fs::symlink_metadata(path)), (Ok(a), Ok(b)) if same(&a, &b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn a_second_gateway_is_refused_until_the_first_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = OnlyOne::new(dir.path(), "test").unwrap();
        let error = OnlyOne::new(dir.path(), "test").unwrap_err().to_string();
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        assert!(error.contains(&format!("`kill {}`", std::process::id())), "{error}");
        let _other = OnlyOne::new(dir.path(), "other").unwrap();
        drop(first);
        // Content left by a killed gateway is not read as part of the new number.
        std::fs::write(dir.path().join("gateway-test.lock"), "4294967295 and more").unwrap();
        let _second = OnlyOne::new(dir.path(), "test").unwrap();
        assert_eq!(
            std::fs::read_to_string(dir.path().join("gateway-test.lock")).unwrap(),
            std::process::id().to_string()
        );
    }

    #[test]
    fn the_refusal_names_the_run_that_started_the_gateway() {
        let dir = tempfile::tempdir().unwrap();
        let first = OnlyOne::new(dir.path(), "test").unwrap();
        let (mut ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        // This process has the lock's file open, and has the argument that a run passes to its
        // gateways. It ends when `ours` is dropped.
        let mut gateway = std::process::Command::new("sh")
            .args(["-c", "echo; read x <&1", "gateway", "--account-stdin"])
            .stdin(first.file.try_clone().unwrap())
            .stdout(std::os::fd::OwnedFd::from(theirs))
            .spawn()
            .unwrap();
        // After the first byte of output, `/proc/PID/cmdline` has the arguments above.
        ours.read_exact(&mut [0]).unwrap();
        std::fs::write(dir.path().join("gateway-test.lock"), gateway.id().to_string()).unwrap();
        let error = OnlyOne::new(dir.path(), "test").unwrap_err().to_string();
        drop(ours);
        gateway.wait().unwrap();
        let (gateway, run) = (gateway.id(), std::process::id());
        assert!(error.contains(&format!("(process {gateway})")), "{error}");
        assert!(
            error.contains(&format!("`driveline run` that started it (`kill {run}`)")),
            "it would be started again: {error}"
        );
    }

    #[test]
    fn the_owner_of_the_lock_is_known_only_in_its_own_namespace() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(holder(dir.path(), "test"), None, "there was never a gateway");
        let _only = OnlyOne::new(dir.path(), "test").unwrap();
        assert_eq!(holder(dir.path(), "test"), Some(std::process::id()));
        // A process id of another container or of a dead gateway: on this host, another process has
        // this id.
        for other in [
            std::os::unix::process::parent_id().to_string(),
            "4294967295".into(),
            "0".into(),
            "-1".into(),
            String::new(),
        ] {
            std::fs::write(dir.path().join("gateway-test.lock"), &other).unwrap();
            assert_eq!(holder(dir.path(), "test"), None, "{other}");
        }
    }

    #[test]
    fn a_gateway_removes_its_own_lock_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("gateway-test.lock");
        drop(OnlyOne::new(dir.path(), "test").unwrap());
        assert!(!path.exists());
        let first = OnlyOne::new(dir.path(), "test").unwrap();
        OnlyOne::new(dir.path(), "test").unwrap_err();
        assert!(path.exists(), "one that was refused has removed the file of the other");
        // A user has removed the file, and another gateway has started meanwhile.
        std::fs::remove_file(&path).unwrap();
        let _second = OnlyOne::new(dir.path(), "test").unwrap();
        drop(first);
        assert!(path.exists());
        OnlyOne::new(dir.path(), "test").unwrap_err();
    }

    #[test]
    fn many_short_gateways_never_hold_the_lock_together() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, served) = (AtomicU32::new(0), AtomicU32::new(0));
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for _ in 0..2000 {
                        let Ok(_only) = OnlyOne::new(dir.path(), "test") else { continue };
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two gateways have the lock");
                        served.fetch_add(1, SeqCst);
                        std::thread::yield_now();
                        inside.fetch_sub(1, SeqCst);
                    }
                });
            }
        });
        assert!(served.load(SeqCst) > 0);
        assert!(!dir.path().join("gateway-test.lock").exists());
    }

    #[test]
    fn a_link_in_place_of_the_lock_file_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let precious = dir.path().join("precious");
        std::fs::write(&precious, "precious").unwrap();
        std::os::unix::fs::symlink(&precious, dir.path().join("gateway-test.lock")).unwrap();
        OnlyOne::new(dir.path(), "test").unwrap_err();
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }

    #[test]
    fn a_directory_without_permission_is_named() {
        let error = OnlyOne::new(Path::new("/nonexistent"), "test").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/gateway-test.lock"), "{error}");
    }
}
