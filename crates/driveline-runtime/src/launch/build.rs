// SPDX-License-Identifier: Apache-2.0
//! Build information that a program of Driveline reports.

use super::describe::watch;
use std::fmt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Time for a program to report its build.
const TIME_OUT: Duration = Duration::from_secs(10);
const MAX_LEN: usize = 100;

/// Version and commit. As text: `0.1.0 (bca2aff678)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Build {
    /// Version of Driveline.
    pub version: String,
    /// Commit. `-dirty-` and eight digits identify uncommitted changes; `-debug` means that the
    /// build is not optimised.
    pub commit: String,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.version, self.commit)
    }
}

impl Build {
    /// Runs a gateway's program with `--version`. Blocks, at most some 10 s.
    ///
    /// # Errors
    /// Reason why the program reports no build, as a clause.
    pub fn of_program(program: &Path) -> Result<Self, String> {
        let child = Command::new(program)
            .arg("--version")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn();
        let seen = watch(child.map_err(|e| format!("it cannot be started: {e}"))?, TIME_OUT)?;
        let said = String::from_utf8_lossy(&seen.out);
        let understood =
            said.strip_suffix('\n').filter(|_| seen.status.success()).and_then(Self::read);
        // Releases without that option treat it as the name of a file.
        understood.ok_or_else(|| "it does not know `--version`".to_owned())
    }

    /// Parses version and commit from the output of `--version`, such as `driveline-gateway-zenoh
    /// 0.1.0 (bca2aff678)`. `None`: the line has another form.
    fn read(line: &str) -> Option<Self> {
        let (_, version, commit) = match line.split(' ').collect::<Vec<_>>()[..] {
            [name, version, commit] if line.len() <= MAX_LEN => (name, version, commit),
            _ => return None,
        };
        let commit = commit.strip_prefix('(')?.strip_suffix(')')?;
        let plain = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._+".contains(&b))
        };
        (plain(version) && plain(commit))
            .then(|| Self { version: version.into(), commit: commit.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_program_says_is_read_and_nothing_else() {
        let build = Build { version: "0.1.0".into(), commit: "v1-3-gabc-dirty".into() };
        assert_eq!(Build::read(&format!("driveline-gateway-zenoh {build}")), Some(build));
        let long = format!("a 0.1.0 ({})", "a".repeat(MAX_LEN));
        for other in [
            "",
            "a",
            "a 0.1.0",
            "a 0.1.0 abc",
            "a 0.1.0 ()",
            "a  (abc)",
            "a 0.1.0 (a b)",
            "a 0.1.0 (\x1b[2J)",
            "a 0.1.0 (abc)\n",
            &long,
        ] {
            assert_eq!(Build::read(other), None, "{other:?}");
        }
    }

    #[test]
    fn the_version_of_a_program_without_one_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let program = |name: &str, text: &str| {
            let path = dir.path().join(name);
            // Another process writes the file: a child that a parallel test starts could inherit it
            // while it is open, and a file that is open for writing cannot be executed.
            let write = ["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#];
            assert!(
                Command::new("sh").args(write).arg(&path).arg(text).status().unwrap().success()
            );
            path
        };
        let new = program("new", "echo gateway 0.1.0 '(abc)'");
        let says = Build::of_program(&new).unwrap();
        assert_eq!(says.to_string(), "0.1.0 (abc)");
        let of = |path: &Path| Build::of_program(path).unwrap_err();
        let old = program("old", "echo gateway 0.1.0 '(abc)'; exit 1");
        assert_eq!(of(&old), "it does not know `--version`");
        assert!(of(&dir.path().join("none")).contains("cannot be started"));
    }
}
