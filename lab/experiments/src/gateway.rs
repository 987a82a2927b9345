// SPDX-License-Identifier: Apache-2.0
//! The gateway that carries Driveline's topics in measurements between hosts. It is a separate
//! program, built separately.

use crate::archive::Experiment;
use anyhow::{Result, bail};
use driveline_bench::harness::{Reach, System};
use driveline_bench::{COMMIT, VERSION};
use driveline_runtime::launch::{Build, GATEWAY, find_gateway};
use std::path::PathBuf;

/// Commit that a build outside of a repository reports. Two such builds may differ.
const UNKNOWN: &str = "unknown";

/// Gateway that was built from the same sources as this program.
pub(crate) struct Gateway {
    pub(crate) program: PathBuf,
    /// Its commit.
    pub(crate) commit: String,
}

/// Returns the gateway if one takes part in the measurement. Blocks, at most some 10 s.
///
/// # Errors
/// If there is no gateway. If the gateway was built from other sources than this program, or one of
/// the two has no commit: the gateway's figures would be reported as figures of this commit.
pub(crate) fn gateway(experiments: &[Experiment]) -> Result<Option<Gateway>> {
    let mut cases = experiments.iter().flat_map(|e| &e.cases);
    if !cases
        .any(|c| c.system == System::Driveline && c.links.iter().any(|l| l.reach == Reach::Network))
    {
        return Ok(None);
    }
    let own = Build { version: VERSION.into(), commit: COMMIT.into() };
    checked(find_gateway()?, &own).map(Some)
}

fn checked(program: PathBuf, own: &Build) -> Result<Gateway> {
    let remedy = format!(
        "build it anew with `make gateways`, or name another one in {GATEWAY}; this program is \
         {own}"
    );
    match Build::of_program(&program) {
        Ok(its) if its.commit == UNKNOWN => bail!(
            "it is not known what the gateway {} and this program were built from: build both in a \
             clone of the repository",
            program.display()
        ),
        Ok(its) if its == *own => Ok(Gateway { program, commit: its.commit }),
        Ok(its) => bail!(
            "the gateway {} is {its}, so what it carries says nothing of this commit: {remedy}",
            program.display()
        ),
        Err(why) => bail!(
            "the gateway {} does not say what it was built from ({why}): {remedy}",
            program.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Writes a script, in another process. If this process opened the file, a child of a parallel
    /// test could inherit it, and a file that is open for writing cannot be started.
    fn script(path: &Path, text: &str) {
        let write = ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#];
        assert!(Command::new("sh").args(write).arg(path).arg(text).status().unwrap().success());
    }

    #[test]
    fn a_gateway_of_another_commit_is_not_measured() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("gateway");
        let own = Build { version: "0.1.0".into(), commit: "abc".into() };
        let says = |text: &str| {
            script(&program, text);
            checked(program.clone(), &own)
        };
        assert_eq!(says("echo gateway 0.1.0 '(abc)'").unwrap().commit, "abc");
        for (other, expected) in [
            ("echo gateway 0.1.0 '(abd)'", "is 0.1.0 (abd)"),
            ("echo gateway 0.2.0 '(abc)'", "is 0.2.0 (abc)"),
            ("echo gateway 0.1.0 '(abc-dirty-01234567)'", "is 0.1.0 (abc-dirty-01234567)"),
            ("echo 'error: cannot read --version' >&2; exit 1", "does not say"),
        ] {
            let text = says(other).err().expect("it is another one").to_string();
            assert!(
                text.contains(expected)
                    && text.contains("make gateways")
                    && text.contains(&program.display().to_string()),
                "{text}"
            );
        }
    }

    #[test]
    fn two_builds_of_unknown_commits_are_not_the_same() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("gateway");
        script(&program, "echo gateway 0.1.0 '(unknown)'");
        let own = Build { version: "0.1.0".into(), commit: UNKNOWN.into() };
        let text = checked(program, &own).err().expect("they may be anything").to_string();
        assert!(text.contains("not known") && text.contains("clone"), "{text}");
    }
}
