// SPDX-License-Identifier: Apache-2.0
//! Resolves the name of a domain to its directory. All names are resolved here: a graph with
//! `domain: NAME` and a program that joins NAME are in the same domain.

use crate::error::OpenError;
use crate::sys::directory::Directory;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Environment variable that names a directory and thereby overrides every domain name.
pub const DIRECTORY_VARIABLE: &str = "DRIVELINE_DOMAIN_DIR";
/// Environment variable with the name of the domain for programs that name none.
pub const NAME_VARIABLE: &str = "DRIVELINE_DOMAIN";
/// Name of the domain if neither the program nor the environment names one.
pub const DEFAULT: &str = "default";

/// Directory in which each user has a directory for domains.
const ALL_USERS: &str = "/dev/shm";
const PREFIX: &str = "driveline-";

const MAX_NAME_LEN: usize = 64;
/// Maximum number of domains, and of other users, that are listed.
const MAX_DOMAINS: usize = 256;

/// Returns the directory of a domain: the value of `DRIVELINE_DOMAIN_DIR` if set, else
/// `/dev/shm/driveline-<uid>/<name>`. Without a name, the value of `DRIVELINE_DOMAIN` is used, or
/// else `default`. Touches no file.
///
/// # Errors
/// [`OpenError::Name`] for names that [`check_name`] refuses.
pub fn directory(name: Option<&str>) -> Result<PathBuf, OpenError> {
    if let Some(dir) = std::env::var_os(DIRECTORY_VARIABLE).filter(|v| !v.is_empty()) {
        return Ok(dir.into());
    }
    name.map_or_else(|| below(&default_name()), below)
}

/// Returns the name of the domain for programs and graphs that name none: the value of
/// `DRIVELINE_DOMAIN`, or else `default`. Not checked.
#[must_use]
pub fn default_name() -> String {
    let name = std::env::var_os(NAME_VARIABLE).filter(|v| !v.is_empty());
    name.map_or_else(|| DEFAULT.to_owned(), |name| name.to_string_lossy().into_owned())
}

/// As [`directory`], and ensures that this user can join there: creates the directory if it is
/// missing, and checks it.
///
/// # Errors
/// [`OpenError`] as joining would give.
pub fn prepare(name: Option<&str>) -> Result<PathBuf, OpenError> {
    let path = directory(name)?;
    Directory::open(Some(&path))?;
    Ok(path)
}

/// As [`prepare`], for a domain that the members of `group` share, if given. `DRIVELINE_DOMAIN_DIR`
/// overrides the group.
///
/// # Errors
/// [`OpenError`] as joining would give, or if this user is not a member of the group.
pub fn prepare_for(name: &str, group: Option<u32>) -> Result<PathBuf, OpenError> {
    let named = std::env::var_os(DIRECTORY_VARIABLE).is_some_and(|v| !v.is_empty());
    let Some(group) = group.filter(|_| !named) else { return prepare(Some(name)) };
    check_name(name)?;
    let path = std::path::Path::new(ALL_USERS).join(format!("{PREFIX}group-{group}-{name}"));
    Directory::make_for_group(&path, group)?;
    Ok(path)
}

/// As [`directory`], for observers: creates nothing, but checks the directory as for joining.
/// `None`: there is no such directory.
///
/// # Errors
/// [`OpenError`], for example if another user has created this user's directory.
pub fn existing(name: Option<&str>) -> Result<Option<PathBuf>, OpenError> {
    let path = directory(name)?;
    Ok(Directory::open_for_looking(&path)?.map(|_| path))
}

/// Returns the domains of this user with their directories, sorted by name; they may be unused.
/// Domains of groups ([`prepare_for`]) are not included. Empty also if the parent is not a
/// directory of this user.
#[must_use]
pub fn all() -> Vec<(String, PathBuf)> {
    let parent = own_parent();
    let mut domains = Vec::new();
    for entry in std::fs::read_dir(&parent).into_iter().flatten().flatten().take(MAX_DOMAINS) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Ok(path) = below(&name)
            && matches!(Directory::open_for_looking(&path), Ok(Some(_)))
        {
            domains.push((name, path));
        }
    }
    domains.sort();
    domains
}

/// Returns other users that have domains on this host, which this user cannot see. Reads one
/// directory.
#[must_use]
pub fn other_users() -> Vec<u32> {
    let own = rustix::process::geteuid().as_raw();
    let mut users = Vec::new();
    for entry in std::fs::read_dir(ALL_USERS).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let user = name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.parse().ok());
        let Some(user) = user.filter(|user| *user != own) else { continue };
        // The number in the name does not prove that the directory belongs to that user.
        let is_theirs = |m: std::fs::Metadata| m.is_dir() && m.uid() == user;
        if std::fs::symlink_metadata(entry.path()).is_ok_and(is_theirs) && users.len() < MAX_DOMAINS
        {
            users.push(user);
        }
    }
    users.sort_unstable();
    users
}

/// Directory that contains this user's domains.
pub(crate) fn own_parent() -> PathBuf {
    let own = rustix::process::geteuid().as_raw();
    std::path::Path::new(ALL_USERS).join(format!("{PREFIX}{own}"))
}

/// Checks the name of a domain, regardless of the environment.
///
/// # Errors
/// [`OpenError::Name`] for impossible names.
pub fn check_name(name: &str) -> Result<(), OpenError> {
    let fits = (1..=MAX_NAME_LEN).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    if fits { Ok(()) } else { Err(OpenError::Name { name: name.chars().take(80).collect() }) }
}

fn below(name: &str) -> Result<PathBuf, OpenError> {
    check_name(name).map(|()| own_parent().join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_the_users_directory() {
        for bad in ["", "..", "a/b", ".x", "a b", &"x".repeat(65)] {
            assert!(below(bad).unwrap_err().to_string().contains("letters, digits"), "{bad}");
        }
        assert_eq!(below("comp-2_b").unwrap(), own_parent().join("comp-2_b"));
    }
}
