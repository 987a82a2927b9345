// SPDX-License-Identifier: Apache-2.0
//! Libraries that a program or library needs, according to the dynamic linker.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use thiserror::Error;

/// Directory, in an image, for libraries that are not component libraries.
pub(super) const LIBRARIES: &str = "/opt/driveline/lib";

/// A library that another file needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Library {
    /// Its name for the dynamic linker; for the linker itself, its path.
    pub name: String,
    /// The file.
    pub path: PathBuf,
}

impl Library {
    /// Returns the path of the library in an image. The dynamic linker keeps its own path, because
    /// programs expect it there.
    #[must_use]
    pub fn in_image(&self) -> String {
        if self.name.starts_with('/') {
            self.name.clone()
        } else {
            format!("{}/{}", LIBRARIES, self.name)
        }
    }
}

/// The libraries that a file needs cannot be determined.
#[derive(Debug, Error)]
pub enum ClosureError {
    /// A library that the file needs is not on this machine.
    #[error("{path} needs {}, not found on this machine: install the package that has it, or add \
         its directory to LD_LIBRARY_PATH", missing.join(", "))]
    Missing {
        /// The file.
        path: PathBuf,
        /// Names of libraries.
        missing: Vec<String>,
    },
    /// The tool that lists them does not work.
    #[error("cannot list the libraries that {path} needs: `ldd`: {source}")]
    Ldd {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

/// Returns the libraries that a file needs, directly or indirectly; none for a file that is not a
/// dynamic executable. Runs `ldd`, which loads the file's libraries without running it.
///
/// # Errors
/// [`ClosureError`].
pub fn needed(path: &Path) -> Result<Vec<Library>, ClosureError> {
    let out = Command::new("ldd")
        .arg(path)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .output()
        .map_err(|source| ClosureError::Ldd { path: path.to_owned(), source })?;
    let (libraries, missing) = parse_ldd(&String::from_utf8_lossy(&out.stdout));
    if missing.is_empty() {
        return Ok(libraries);
    }
    Err(ClosureError::Missing { path: path.to_owned(), missing })
}

/// Returns the libraries, and the names of missing ones, from the output of `ldd`.
#[must_use]
pub fn parse_ldd(text: &str) -> (Vec<Library>, Vec<String>) {
    let (mut libraries, mut missing) = (Vec::new(), Vec::new());
    for line in text.lines().map(str::trim) {
        let line = line.split(" (0x").next().unwrap_or_default().trim();
        match line.split_once(" => ") {
            Some((name, "not found")) => missing.push(name.to_owned()),
            Some((name, path)) if path.starts_with('/') => {
                libraries.push(Library { name: name.to_owned(), path: path.into() });
            }
            // The linker itself. The kernel's own library has no path, because it is not a file.
            None if line.starts_with('/') => {
                libraries.push(Library { name: line.to_owned(), path: line.into() });
            }
            _ => {}
        }
    }
    (libraries, missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_read_and_missing_ones_named() {
        let text = "\tlinux-vdso.so.1 (0x00007fab15569000)\n\
            \tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007fab154c9000)\n\
            \tlibopencv_core.so.406 => not found\n\
            \t/lib64/ld-linux-x86-64.so.2 (0x00007fab1556b000)\n";
        let (libraries, missing) = parse_ldd(text);
        assert_eq!(missing, ["libopencv_core.so.406"]);
        let places: Vec<_> = libraries.iter().map(Library::in_image).collect();
        assert_eq!(places, ["/opt/driveline/lib/libgcc_s.so.1", "/lib64/ld-linux-x86-64.so.2"]);
        assert_eq!(libraries[0].path, Path::new("/lib/x86_64-linux-gnu/libgcc_s.so.1"));
        assert_eq!(parse_ldd("\tnot a dynamic executable\n"), (vec![], vec![]));
        assert_eq!(parse_ldd("\tstatically linked\n"), (vec![], vec![]));
    }

    #[test]
    fn this_program_needs_a_linker() {
        let libraries = needed(&std::env::current_exe().unwrap()).unwrap();
        assert!(libraries.iter().any(|l| l.name.contains("ld-linux")), "{libraries:?}");
        assert!(libraries.iter().all(|l| l.path.is_file()), "{libraries:?}");
    }
}
