// SPDX-License-Identifier: Apache-2.0
//! For build scripts of programs that say which commit they were built from; included by path,
//! since no crate is for these programs alone.

use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sources of programs, below the root of the repository.
const SOURCES: [&str; 6] = ["Cargo.lock", "Cargo.toml", "crates", "lab", "proto", "sdk"];

/// Puts the commit into the program that is built, as `DRIVELINE_COMMIT`.
#[allow(dead_code, reason = "a test has the rest")]
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
    // Without locks it leaves the index as it is: else looking at it would be a change.
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

/// Returns true if this is a repository, and not only a directory of another.
fn is_repository(root: &Path) -> bool {
    let top = git(root, &["rev-parse", "--show-toplevel"]);
    top.and_then(|top| Path::new(&top).canonicalize().ok())
        .is_some_and(|top| root.canonicalize().is_ok_and(|root| root == top))
}

/// The commit. `-dirty-` and eight digits, others for other changes: there are some beyond it in
/// what programs are built from. `-debug`: that was not looked at, as each change would have
/// programs compiled anew, and unoptimised ones are not measured. `None`: this is no
/// repository.
pub(crate) fn of(root: &Path, optimised: bool) -> Option<String> {
    let commit =
        is_repository(root).then(|| git(root, &["describe", "--always", "--abbrev=10"]))??;
    if !optimised {
        return Some(commit + "-debug");
    }
    Some(changes(root)?.map_or_else(|| commit.clone(), |digits| format!("{commit}-dirty-{digits}")))
}

/// Digits of what was changed beyond the commit, the same in all programs that are built from the
/// same. `None` in it: nothing was.
fn changes(root: &Path) -> Option<Option<String>> {
    let of_sources = |args: &[&str]| git_bytes(root, &[args, &["--"], &SOURCES[..]].concat());
    let known =
        of_sources(&["diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv"])?;
    // Files that git does not know are compiled, too.
    let others = of_sources(&["ls-files", "--others", "--exclude-standard", "-z"])?;
    if known.is_empty() && others.is_empty() {
        return Some(None);
    }
    // Each with its length, so that what one ends with is not taken for the next.
    let mut hasher = DefaultHasher::new();
    let mut add = |bytes: &[u8]| {
        hasher.write_usize(bytes.len());
        hasher.write(bytes);
    };
    add(&known);
    for path in others.split(|b| *b == 0).filter(|path| !path.is_empty()) {
        add(path);
        // One that has gone meanwhile, or is none that can be read, is not compiled.
        add(&std::fs::read(root.join(String::from_utf8_lossy(path).as_ref())).unwrap_or_default());
    }
    Some(Some(format!("{:08x}", hasher.finish() as u32)))
}

/// Files whose change makes another commit. All of it exists: a missing path would mean "at every
/// build".
pub(crate) fn watched(root: &Path, optimised: bool) -> Vec<PathBuf> {
    let own = root.join("tools/commit.rs");
    let mut paths = vec![own];
    if is_repository(root) {
        let of_git = |name: &str| {
            git(root, &["rev-parse", "--git-path", name])
                .map(|path| root.join(path))
                .filter(|path| path.is_file())
        };
        // In a worktree of its own, too. Where no log is kept, a commit changes the index, which so
        // does much else.
        paths.extend(of_git("logs/HEAD").or_else(|| of_git("index")));
        if optimised {
            paths.extend(SOURCES.map(|source| root.join(source)));
        }
    }
    paths.retain(|path| path.exists());
    paths
}
