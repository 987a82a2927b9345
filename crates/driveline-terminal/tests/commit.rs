// SPDX-License-Identifier: Apache-2.0
//! Tests of the commit that a program reports for its build.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

#[path = "../../../tools/commit.rs"]
mod commit;

use commit::{of, watched};
use std::path::Path;
use std::process::Command;

fn git(root: &Path, args: &str) {
    let identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"];
    let out = Command::new("git")
        .arg("-C")
        .arg(root)
        .args(identity)
        .args(args.split(' '))
        .output()
        .expect("git");
    assert!(out.status.success(), "git {args}: {}", String::from_utf8_lossy(&out.stderr));
}

fn write(root: &Path, file: &str, text: &str) {
    let path = root.join(file);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// Returns true if a build is repeated when this file changes.
fn watches(root: &Path, file: &str) -> bool {
    watched(root, true).iter().any(|path| {
        root.join(file).canonicalize().unwrap().starts_with(path.canonicalize().unwrap())
    })
}

#[test]
fn changes_beyond_the_commit_are_seen_and_looked_for_in_all_that_is_compiled() {
    let dir = tempfile::tempdir().unwrap();
    let main = dir.path().join("main");
    let sources = [
        "Cargo.toml",
        "Cargo.lock",
        "crates/a/src/lib.rs",
        "sdk/a.hpp",
        "lab/peers/a.cpp",
        "proto/a.proto",
    ];
    for file in sources.iter().chain(&["docs/a.md"]) {
        write(&main, file, "1");
    }
    git(&main, "init -q");
    git(&main, "add .");
    git(&main, "commit -q -m first");
    git(&main, "worktree add -q ../other");
    for root in [main, dir.path().join("other")] {
        let clean = of(&root, true).unwrap();
        assert!(clean.len() >= 10 && clean.bytes().all(|b| b.is_ascii_hexdigit()), "{clean}");
        assert!(sources.iter().all(|file| watches(&root, file)), "{:?}", watched(&root, true));
        // This file changes with each commit.
        assert!(
            watched(&root, true).iter().any(|p| p.ends_with("logs/HEAD")),
            "{:?}",
            watched(&root, true)
        );
        for file in sources.iter().chain(&["crates/a/src/new.rs"]) {
            let before = std::fs::read(root.join(file)).ok();
            let other = |text: &str| {
                write(&root, file, text);
                let dirty = of(&root, true).unwrap();
                let digits = dirty
                    .strip_prefix(&format!("{clean}-dirty-"))
                    .unwrap_or_else(|| panic!("{file}: {dirty}"));
                assert!(
                    digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit()),
                    "{file}: {dirty}"
                );
                dirty
            };
            assert!(other("2") == other("2") && other("2") != other("3"), "{file}");
            match before {
                Some(before) => std::fs::write(root.join(file), before).unwrap(),
                None => std::fs::remove_file(root.join(file)).unwrap(),
            }
            assert_eq!(of(&root, true).as_ref(), Some(&clean), "{file}");
        }
        write(&root, "docs/a.md", "2");
        assert_eq!(of(&root, true).as_ref(), Some(&clean), "nothing is built from that");
        assert_eq!(of(&root, false), Some(format!("{clean}-debug")));
        assert!(
            !watched(&root, false).iter().any(|p| p.ends_with("crates")),
            "each edit would compile the tools anew"
        );
    }
}

#[test]
fn without_a_repository_there_is_no_commit_and_nothing_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    write(dir.path(), "sources/Cargo.toml", "1");
    let root = dir.path().join("sources");
    assert_eq!((of(&root, true), watched(&root, true)), (None, vec![]));
    // The commit of another repository around an unpacked tree is not ours.
    write(dir.path(), "a", "1");
    git(dir.path(), "init -q");
    git(dir.path(), "add a");
    git(dir.path(), "commit -q -m other");
    assert_eq!((of(&root, true), watched(&root, true)), (None, vec![]));
}
