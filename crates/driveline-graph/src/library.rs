// SPDX-License-Identifier: Apache-2.0
//! Finds component libraries and lists their classes.

use crate::descriptor::ComponentClass;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Environment variables of the process that loads a library, in addition to those of this process.
pub type Environment = BTreeMap<String, String>;

/// Lists the classes of a library.
///
/// Every function `&Path -> Result<Vec<ComponentClass>, DescribeError>` implements this trait. Such
/// a function ignores the environment. It is meant for the module's own process, where the
/// environment is already in effect.
pub trait Describe {
    /// Returns the classes of the library at `path`, as a module with this environment would find
    /// them. May load the library, or start a process that loads it. Blocks until the classes are
    /// known.
    ///
    /// # Errors
    /// [`DescribeError`] if the library cannot be loaded or is not a component library.
    fn describe(
        &self,
        path: &Path,
        environment: &Environment,
    ) -> Result<Vec<ComponentClass>, DescribeError>;

    /// Checks that these libraries can be loaded into one process, in this order. The default does
    /// not check: a process that loads the libraries itself finds out when it loads them.
    ///
    /// # Errors
    /// Index, from 0, of the library that could not be loaded after those before it, and the
    /// reason.
    fn together(
        &self,
        paths: &[PathBuf],
        environment: &Environment,
    ) -> Result<(), (usize, DescribeError)> {
        let _ = (paths, environment);
        Ok(())
    }
}

impl<F: Fn(&Path) -> Result<Vec<ComponentClass>, DescribeError>> Describe for F {
    fn describe(&self, path: &Path, _: &Environment) -> Result<Vec<ComponentClass>, DescribeError> {
        self(path)
    }
}

/// Reason why a library's classes are unknown.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{reason}")]
pub struct DescribeError {
    /// Description, for people.
    pub reason: String,
    /// Remedy.
    pub help: Option<String>,
}

/// Environment variable with further directories for component libraries, separated by colons.
pub const COMPONENT_PATH: &str = "DRIVELINE_COMPONENT_PATH";

/// Directories in which libraries are searched after the directory of the graph file. First come
/// the directories of [`COMPONENT_PATH`], then `../lib/driveline` and `../lib`, relative to the
/// directory of the running executable.
#[must_use]
pub fn default_library_dirs() -> Vec<PathBuf> {
    let mut dirs: Vec<PathBuf> = Vec::new();
    if let Some(path) = std::env::var_os(COMPONENT_PATH) {
        dirs.extend(std::env::split_paths(&path).filter(|p| !p.as_os_str().is_empty()));
    }
    if let Ok(exe) = std::env::current_exe()
        && let Some(bin) = exe.parent()
    {
        dirs.push(bin.join("../lib/driveline"));
        dirs.push(bin.join("../lib"));
    }
    dirs
}

/// A library that was not found.
pub(super) struct NotFound {
    pub(super) searched: Vec<PathBuf>,
    /// Names of existing libraries.
    pub(super) present: Vec<String>,
}

/// Returns the library's path, searched in the directories in order.
pub(super) fn find(library: &Path, dirs: &[PathBuf]) -> Result<PathBuf, NotFound> {
    let candidates: Vec<PathBuf> = if library.is_absolute() {
        vec![library.to_owned()]
    } else {
        dirs.iter().map(|d| d.join(library)).collect()
    };
    if let Some(found) = candidates.iter().find(|p| p.is_file()) {
        return Ok(found.canonicalize().unwrap_or_else(|_| found.clone()));
    }
    let mut searched: Vec<PathBuf> =
        candidates.iter().filter_map(|p| p.parent().map(Path::to_owned)).collect();
    searched.dedup();
    let mut present = Vec::new();
    for dir in &searched {
        // Only some files are compared, since a directory may have a million.
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten().take(2000) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.ends_with(".so") || name.contains(".so.") {
                present.push(name);
            }
        }
    }
    present.sort();
    present.dedup();
    Err(NotFound { searched, present })
}
