// SPDX-License-Identifier: Apache-2.0
//! From a domain's name to the directory in which its processes meet.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Environment variable that names a directory and thereby overrides every domain name.
pub const DIRECTORY: &str = "DRIVELINE_DOMAIN_DIR";

/// Name of the domain of those who name none.
pub const DEFAULT: &str = "default";

/// A domain's directory cannot be used.
#[derive(Debug, Error)]
pub enum DomainError {
    /// The name would lead out of the user's directory.
    #[error("the domain name {name:?} is not possible: use letters, digits, '_' and '-'")]
    Name {
        /// As given.
        name: String,
    },
    /// The system refused.
    #[error("cannot create {}: {source}; choose another directory with {DIRECTORY}", path.display())]
    Create {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Somebody else could put things there.
    #[error("{} is not private: it {reason}; remove it, or choose another directory with {DIRECTORY}", path.display())]
    NotPrivate {
        /// The directory.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The directory of the named domain: that in [`DIRECTORY`] if set, else `/dev/shm/driveline-<uid>/<name>`.
///
/// # Errors
/// [`DomainError::Name`] for names that are not a single part of a path.
pub fn directory(name: &str) -> Result<PathBuf, DomainError> {
    match std::env::var_os(DIRECTORY).filter(|d| !d.is_empty()) {
        Some(dir) => Ok(dir.into()),
        None => Ok(own_parent().join(checked(name)?)),
    }
}

/// As [`directory`], and makes sure that it can be created there by this user and nobody else.
///
/// # Errors
/// [`DomainError`].
pub fn prepare(name: &str) -> Result<PathBuf, DomainError> {
    let path = directory(name)?;
    let parent = own_parent();
    if path.starts_with(&parent) {
        private(&parent)?;
    }
    Ok(path)
}

fn own_parent() -> PathBuf {
    PathBuf::from(format!("/dev/shm/driveline-{}", rustix::process::geteuid().as_raw()))
}

fn checked(name: &str) -> Result<&str, DomainError> {
    let fits = (1..=64).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if fits { Ok(name) } else { Err(DomainError::Name { name: name.chars().take(80).collect() }) }
}

/// `/dev/shm` is open to everybody, so a directory that is there already may be somebody else's trap.
fn private(path: &Path) -> Result<(), DomainError> {
    let create = |source| DomainError::Create { path: path.to_owned(), source };
    match std::fs::DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(create(e)),
        _ => {}
    }
    let meta = std::fs::symlink_metadata(path).map_err(create)?;
    let uid = rustix::process::geteuid().as_raw();
    let reason = if !meta.is_dir() {
        "is not a directory".to_owned()
    } else if meta.uid() != uid {
        format!("belongs to user {} instead of {uid}", meta.uid())
    } else if meta.mode() & 0o077 != 0 {
        format!("has mode {:04o}, so that others can enter", meta.mode() & 0o7777)
    } else {
        return Ok(());
    };
    Err(DomainError::NotPrivate { path: path.to_owned(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn names_cannot_leave_the_users_directory() {
        for bad in ["", "..", "a/b", ".x", "a b", &"x".repeat(65)] {
            assert!(checked(bad).is_err(), "{bad}");
        }
        assert_eq!(checked("comp-2_b").unwrap(), "comp-2_b");
    }

    #[test]
    fn what_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let fresh = dir.path().join("fresh");
        private(&fresh).unwrap();
        private(&fresh).unwrap();
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert!(private(&fresh).unwrap_err().to_string().contains("0755"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(private(&link).unwrap_err().to_string().contains("not a directory"));
        assert!(private(&dir.path().join("none/x")).unwrap_err().to_string().contains("cannot create"));
    }
}
