// SPDX-License-Identifier: Apache-2.0
//! Removes leftovers of dead launchers: containers with Driveline's labels, and directories of
//! runs.

use crate::engine::{Engine, EngineError};
use crate::label;
use crate::run_directory::{PARENT, has_launcher, is_of_a_run};
use std::path::{Path, PathBuf};

/// Result of [`clean`].
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Names of the removed containers.
    pub containers: Vec<String>,
    /// The removed directories.
    pub directories: Vec<PathBuf>,
    /// Directories of the runs with a living launcher.
    pub living: Vec<PathBuf>,
}

/// Removes the containers of dead launchers, if there is an engine, and then their directories.
/// Blocks.
///
/// # Errors
/// [`EngineError`] if the engine refuses a command.
pub fn clean(engine: Option<&Engine>) -> Result<Cleaned, EngineError> {
    let mut cleaned = Cleaned::default();
    if let Some(engine) = engine {
        let filter = format!("label={}", label::RUN);
        let listed = engine.ask(&["ps", "--all", "--quiet", "--filter", &filter])?;
        let format =
            format!("{{{{.Name}}}}\t{{{{index .Config.Labels \"{}\"}}}}", label::DIRECTORY);
        let mut output = String::new();
        for id in listed.split_whitespace() {
            match engine.ask(&["container", "inspect", "--format", &format, id]) {
                Ok(line) => output += &line,
                // The container has ended in the meantime.
                Err(EngineError::Refused { .. }) => {}
                Err(e) => return Err(e),
            }
        }
        let listed = output;
        for name in orphans(&listed, has_launcher) {
            engine.ask(&["rm", "--force", &name])?;
            cleaned.containers.push(name);
        }
    }
    for entry in std::fs::read_dir(PARENT).into_iter().flatten().flatten() {
        let path = entry.path();
        if !is_of_a_run(&path) {
            continue;
        }
        if has_launcher(&path) {
            cleaned.living.push(path);
        } else if std::fs::remove_dir_all(&path).is_ok() {
            cleaned.directories.push(path);
        }
    }
    Ok(cleaned)
}

/// Returns the names of listed containers (`name<tab>directory` on each line) whose run has no
/// launcher.
fn orphans(listed: &str, has_launcher: impl Fn(&Path) -> bool) -> Vec<String> {
    let orphan = |line: &str| {
        let (name, directory) = line.trim_end().split_once('\t')?;
        let directory = Path::new(directory);
        // Docker shows names with a slash.
        let name = name.trim_start_matches('/');
        (is_of_a_run(directory) && !has_launcher(directory)).then(|| name.to_owned())
    };
    listed.lines().filter_map(orphan).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_containers_of_dead_launchers_are_orphans() {
        let (dead, living) = ("d".repeat(32), "a".repeat(32));
        let listed = format!(
            "/one\t/dev/shm/driveline-run-{dead}\ntwo\t/dev/shm/driveline-run-{living}\n\
             three\t/etc\nfour\t\nfive\n"
        );
        let lives = |path: &Path| path.ends_with(format!("driveline-run-{living}"));
        assert_eq!(orphans(&listed, lives), ["one"]);
    }
}
