// SPDX-License-Identifier: Apache-2.0
//! Commit of the sources, for build scripts of programs that report it. Included by path: these
//! programs share no crate of their own.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of programs, below the root of the repository.
const SOURCES: [&str; 6] = ["Cargo.lock", "Cargo.toml", "crates", "lab", "proto", "sdk"];

/// Puts the commit into the program that is built, as `DRIVELINE_COMMIT`.
#[allow(dead_code, reason = "a test includes this file for its other functions")]
pub(crate) fn put() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let optimised = std::env::var("PROFILE").as_deref() == Ok("release");
    println!(
        "cargo::rustc-env=DRIVELINE_COMMIT={}",
        of(&root, optimised).unwrap_or_else(|| "unknown".into())
    );
    println!("cargo::rerun-if-changed=build.rs");
    watched(&root, optimised)
        .iter()
        .for_each(|path| println!("cargo::rerun-if-changed={}", path.display()));
}

fn git(root: &Path, args: &[&str]) -> Option<String> {
    String::from_utf8(git_bytes(root, args)?).ok().map(|s| s.trim().to_owned())
}

fn git_bytes(root: &Path, args: &[&str]) -> Option<Vec<u8>> {
    // Without locks git does not write the index. A write would count as a change of the tree.
    let out = Command::new("git")
        .arg("--no-optional-locks")
        .arg("-C")
        .arg(root)
        .args(args)
        .output()
        .ok()
        .filter(|o| o.status.success())?;
    Some(out.stdout)
}

/// Returns true if this is a repository, and not only a directory of another repository.
fn is_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.and_then(|top| Path::new(&top).canonicalize().ok())
        .is_some_and(|top| root.canonicalize().is_ok_and(|root| root == top))
}

/// Returns the commit, or `None` if this is no repository. `-dirty-` and eight digits follow if
/// sources of programs have uncommitted changes; the digits depend on the changes. `-debug` follows
/// in an unoptimised build, where changes are not checked: each change would recompile programs,
/// and unoptimised programs are not measured.
pub(crate) fn of(root: &Path, optimised: bool) -> Option<String> {
    let commit =
        is_repository(root).then(|| git(root, &["describe", "--always", "--abbrev=10"]))??;
    if !optimised {
        return Some(commit + "-debug");
    }
    Some(changes(root)?.map_or_else(|| commit.clone(), |digits| format!("{commit}-dirty-{digits}")))
}

/// Returns digits of the uncommitted changes, or `Some(None)` without changes. All programs that
/// are built from the same sources have the same digits.
fn changes(root: &Path) -> Option<Option<String>> {
    let of_sources = |args: &[&str]| git_bytes(root, &[args, &["--"], &SOURCES[..]].concat());
    let known =
        of_sources(&["diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"])?;
    // Untracked files are compiled as well.
    let others = of_sources(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    if known.is_empty() && others.is_empty() {
        return Some(None);
    }
    // Each part is hashed with its length, so that the end of one part cannot pass for the start of
    // the next.
    let mut hasher = DefaultHasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    add(&known);
    for path in others.split(|b| *b == 0).filter(|path| !path.is_empty()) {
        add(path);
        // A file that was removed meanwhile, or cannot be read, is not compiled.
        add(&std::fs::read(root.join(String::from_utf8_lossy(path).as_ref())).unwrap_or_default());
    }
    Some(Some(format!("{:08x}", hasher.finish() as u32)))
}

/// Returns the files and directories whose change may change the result of [`of`]. All of them
/// exist: cargo would run the build script at every build for a missing path.
pub(crate) fn watched(root: &Path, optimised: bool) -> Vec<PathBuf> {
    let own = root.join("tools/commit.rs");
    let mut paths = vec![own];
    if is_repository(root) {
        let of_git = |name: &str| {
            git(root, &["rev-parse", "--git-path", name])
                .map(|path| root.join(path))
                .filter(|path| path.is_file())
        };
        // This works in a worktree as well. Without a log, the index is watched: a commit changes
        // it, as do many other commands.
        paths.extend(of_git("logs/HEAD").or_else(|| of_git("index")));
        if optimised {
            paths.extend(SOURCES.map(|source| root.join(source)));
        }
    }
    paths.retain(|path| path.exists());
    paths
}
