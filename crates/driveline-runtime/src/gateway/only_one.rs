// SPDX-License-Identifier: Apache-2.0
//! One gateway of a kind for a domain on a host.

use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a gateway may not serve a domain.
#[derive(Debug, Error)]
pub enum OnlyOneError {
    /// Another one is there.
    #[error("a gateway '{kind}' serves the domain in {} already (process {pid}); end it with `kill {pid}`, or use another domain", path.display())]
    Second {
        /// What kind of gateway.
        kind: String,
        /// The domain's directory.
        path: PathBuf,
        /// The other one's process, or `?`.
        pid: String,
    },
    /// The directory does not let it.
    #[error("cannot use {}: {source}", path.display())]
    System {
        /// The file that is locked.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// As long as this exists, no other gateway of the kind serves the domain on this host. The kernel lets go of it when the process dies;
/// the file stays.
#[derive(Debug)]
pub struct OnlyOne(#[allow(dead_code, reason = "held, not read")] File);

impl OnlyOne {
    /// Takes the lock `gateway-<kind>.lock` of the domain's directory. Does not wait.
    ///
    /// # Errors
    /// [`OnlyOneError::Second`] if another process, or another gateway of this one, has it.
    pub fn new(domain_dir: &Path, kind: &str) -> Result<Self, OnlyOneError> {
        let path = domain_dir.join(format!("gateway-{kind}.lock"));
        let failed = |source| OnlyOneError::System { path: path.clone(), source };
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(failed)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let mut pid = String::new();
                // Whoever holds the lock may just be writing.
                let _ = Read::by_ref(&mut file).take(16).read_to_string(&mut pid);
                let pid = pid.trim().parse::<u32>().map_or_else(|_| "?".into(), |pid| pid.to_string());
                return Err(OnlyOneError::Second { kind: kind.to_owned(), path: domain_dir.to_owned(), pid });
            }
            Err(e) => return Err(failed(e.into())),
        }
        file.set_len(0).map_err(failed)?;
        file.write_all(std::process::id().to_string().as_bytes()).map_err(failed)?;
        Ok(Self(file))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_one_is_told_who_is_there_and_takes_over_when_it_has_gone() {
        let dir = tempfile::tempdir().unwrap();
        let first = OnlyOne::new(dir.path(), "test").unwrap();
        let error = OnlyOne::new(dir.path(), "test").unwrap_err().to_string();
        assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
        let _other = OnlyOne::new(dir.path(), "other").unwrap();
        drop(first);
        // What a longer-lived one has left is not read as part of the new one's number.
        std::fs::write(dir.path().join("gateway-test.lock"), "4294967295 and more").unwrap();
        let _second = OnlyOne::new(dir.path(), "test").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("gateway-test.lock")).unwrap(), std::process::id().to_string());
    }

    #[test]
    fn a_directory_that_does_not_let_it_is_named() {
        let error = OnlyOne::new(Path::new("/nonexistent"), "test").unwrap_err().to_string();
        assert!(error.contains("/nonexistent/gateway-test.lock"), "{error}");
    }
}
