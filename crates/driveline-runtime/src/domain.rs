// SPDX-License-Identifier: Apache-2.0
//! The directory of the domain in which the processes of a graph find each other. The transport
//! resolves names.

use std::path::PathBuf;
use thiserror::Error;

pub use driveline_shm::domain::{DEFAULT, DIRECTORY_VARIABLE as DIRECTORY};

/// A domain's directory cannot be used.
#[derive(Debug, Error)]
#[error(transparent)]
pub struct DomainError(#[from] driveline_shm::OpenError);

/// The directory of the named domain. Touches no file.
///
/// # Errors
/// [`DomainError`] for impossible names.
pub fn directory(name: &str) -> Result<PathBuf, DomainError> {
    Ok(driveline_shm::domain::directory(Some(name))?)
}

/// As [`directory`], and ensures that this user can use it and that no other user can create files
/// there, except the members of the group that shares it.
///
/// # Errors
/// [`DomainError`].
pub fn prepare_for(name: &str, group: Option<u32>) -> Result<PathBuf, DomainError> {
    Ok(driveline_shm::domain::prepare_for(name, group)?)
}
