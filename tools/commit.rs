// SPDX-License-Identifier: Apache-2.0
//! For build scripts of programs that say which commit they were built from; included by path, since no crate is for these programs alone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What programs are built from, below the root of the repository.
const SOURCES: [&str; 6] = ["Cargo.lock", "Cargo.toml", "crates", "peers", "proto", "sdk"];

/// Puts the commit into the program that is built, as `DRIVELINE_COMMIT`.
#[allow(dead_code, reason = "a test has the rest")]
pub(crate) fn put() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let optimised = std::env::var("PROFILE").as_deref() == Ok("release");
    println!("cargo::rustc-env=DRIVELINE_COMMIT={}", of(&root, optimised).unwrap_or_else(|| "unknown".into()));
    println!("cargo::rerun-if-changed=build.rs");
    watched(&root, optimised).iter().for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    // Without locks it leaves the index as it is: else looking at it would be a change.
    let out = Command::new("git").arg("--no-optional-locks").arg("-C").arg(root).args(args).output().ok().filter(|o| o.status.success())?;
    String::from_utf8(out.stdout).ok().map(|s| s.trim().to_owned())
}

/// Whether this is a repository, and not only in the directory of another.
fn is_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.and_then(|top| Path::new(&top).canonicalize().ok()).is_some_and(|top| root.canonicalize().is_ok_and(|root| root == top))
}

/// The commit. `-dirty`: there are changes beyond it in what programs are built from. `-debug`: that was not looked at, as each change would have programs compiled
/// anew, and nobody measures those that are not optimised. `None`: this is no repository.
pub(crate) fn of(root: &Path, optimised: bool) -> Option<String> {
    let commit = is_repository(root).then(|| git(root, &["describe", "--always", "--abbrev=10"]))??;
    if !optimised {
        return Some(commit + "-debug");
    }
    // Files that git does not know are compiled, too.
    let changes = git(root, &[&["status", "--porcelain", "--"], &SOURCES[..]].concat())?;
    Some(if changes.is_empty() { commit } else { commit + "-dirty" })
}

/// What makes it another one when it changes. All of it exists: a missing path would mean "at every build".
pub(crate) fn watched(root: &Path, optimised: bool) -> Vec<PathBuf> {
    let own = root.join("tools/commit.rs");
    let mut paths = vec![own];
    if is_repository(root) {
        let of_git = |name: &str| git(root, &["rev-parse", "--git-path", name]).map(|path| root.join(path)).filter(|path| path.is_file());
        // In a worktree of its own, too. Where no log is kept, a commit changes the index, which so does much else.
        paths.extend(of_git("logs/HEAD").or_else(|| of_git("index")));
        if optimised {
            paths.extend(SOURCES.map(|source| root.join(source)));
        }
    }
    paths.retain(|path| path.exists());
    paths
}
