// SPDX-License-Identifier: Apache-2.0
//! Resource limits of containers: at most those of the launcher.
//!
//! An engine of the root user sets limits of its own, which may be greater than the launcher's. The
//! kernel refuses this without `CAP_SYS_RESOURCE` (in a container, or under a service manager that
//! drops the capability), and then no container starts.

use rustix::process::{Resource, getrlimit};

/// Greatest limit on open files: the engines' own default for the root user.
const MOST_FILES: u64 = 1 << 20;
/// Greatest limit on processes and threads of a user, of all its containers together. Each
/// container has a limit of its own (`--pids-limit`).
const MOST_THREADS: u64 = 32_768;

/// Returns the launcher's hard limits, but not more than an engine's default, in the form of
/// `--ulimit`.
#[must_use]
pub fn ulimits() -> Vec<String> {
    let [files, threads] =
        [Resource::Nofile, Resource::Nproc].map(|limit| getrlimit(limit).maximum);
    at_most(files, threads)
}

/// Returns these hard limits, at most [`MOST_FILES`] and [`MOST_THREADS`]. `None`: unlimited.
fn at_most(files: Option<u64>, threads: Option<u64>) -> Vec<String> {
    let limit = |name: &str, own: Option<u64>, most: u64| {
        let limit = own.unwrap_or(most).min(most);
        format!("{name}={limit}:{limit}")
    };
    vec![limit("nofile", files, MOST_FILES), limit("nproc", threads, MOST_THREADS)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_the_launchers_and_never_greater_than_an_engines_default() {
        assert_eq!(at_most(Some(20_000), Some(4_096)), ["nofile=20000:20000", "nproc=4096:4096"]);
        assert_eq!(at_most(None, None), ["nofile=1048576:1048576", "nproc=32768:32768"]);
    }
}
