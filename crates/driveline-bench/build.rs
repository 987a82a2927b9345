// SPDX-License-Identifier: Apache-2.0
//! Puts the commit into the program, because a figure without it proves nothing.

use std::path::Path;
use std::process::Command;

fn main() {
    let git = |args: &[&str]| {
        let out = Command::new("git").args(args).output().ok().filter(|o| o.status.success())?;
        String::from_utf8(out.stdout).ok().map(|s| s.trim().to_owned())
    };
    let commit = git(&["describe", "--always", "--dirty", "--abbrev=10"]).unwrap_or_else(|| "unknown".into());
    println!("cargo::rustc-env=DRIVELINE_COMMIT={commit}");
    println!("cargo::rerun-if-changed=build.rs");
    // Without a repository there is nothing to watch; a missing path would mean "run at every build".
    if let Some(dir) = git(&["rev-parse", "--absolute-git-dir"]) {
        let log = Path::new(&dir).join("logs/HEAD");
        if log.is_file() {
            println!("cargo::rerun-if-changed={}", log.display());
        }
    }
}
