// SPDX-License-Identifier: Apache-2.0
//! Runs the modules in containers, as `driveline run --deploy` does. Images have only this program
//! and the libraries that it needs.

use anyhow::{Context, Result};
use driveline_bench::deployment::SupervisorUse;
use driveline_deploy::image::Images;
use driveline_deploy::{Containers, Engine, Mode, Plan, RunDirectory, Shared, seccomp};
use driveline_graph::ResolvedGraph;
use driveline_graph::model::GraphFile;
use driveline_runtime::launch::{Placement, Starter};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Maximum time for a module to end, as for `driveline run --deploy`.
const ENDS_WITHIN: Duration = Duration::from_secs(6);
/// Repository of the image.
const REPOSITORY: &str = "localhost/driveline/workload";

/// The containers of a run. Dropping it removes them.
pub(super) struct Deployed {
    containers: Containers,
    /// Removed last.
    directory: RunDirectory,
    /// Graph file, which is in the command line of each module.
    file: PathBuf,
}

/// Makes files visible in the containers of all modules: `read_only`, and `written`, which is
/// created for the user of the modules.
pub(super) fn mount(graph: &mut GraphFile, read_only: &Path, written: &Path) -> Result<()> {
    std::fs::write(written, "")
        .and_then(|()| std::fs::set_permissions(written, Permissions::from_mode(0o666)))
        .with_context(|| format!("cannot make {}", written.display()))?;
    for module in graph.modules.values_mut() {
        module.mounts = vec![read_only.display().to_string(), format!("{}:rw", written.display())];
    }
    Ok(())
}

impl Deployed {
    /// Makes the image, unless the engine has it, and the directory of the run. `scratch` receives
    /// files of the size of the image. Blocks.
    pub(super) fn new(graph: &ResolvedGraph, mode: Mode, scratch: &Path) -> Result<Self> {
        let engine = Engine::find(None)?;
        let plan = Plan::new(graph, mode, &[], ENDS_WITHIN);
        let program = std::env::current_exe().context("cannot find the running program")?;
        let layers = scratch.join("image");
        std::fs::create_dir(&layers)
            .with_context(|| format!("cannot make {}", layers.display()))?;
        let mut made = Images::new(program, env!("CARGO_PKG_VERSION"), layers.clone());
        let image = made.image(&[])?;
        let name = made.provide(&engine, &image, REPOSITORY)?;
        let _ = std::fs::remove_dir_all(layers);
        let facts = engine.image(&name)?.context("the engine has lost the image")?;
        let images = plan.modules.iter().map(|m| (m.name.clone(), (name.clone(), facts.clone())));
        let images = images.collect();
        let directory =
            RunDirectory::new(&plan.users()).context("cannot make the directory of the run")?;
        let profile = seccomp::profile(engine.kind()).ok();
        let profile = profile
            .map(|text| {
                let path = directory.path().join("seccomp.json");
                std::fs::write(&path, text).map(|()| path)
            })
            .transpose()?;
        let shared = Shared {
            id: directory.id().to_owned(),
            directory: directory.path().to_owned(),
            domain: directory.domain(),
            accounts: directory.accounts(),
            seccomp: profile,
        };
        let file = plan.file.clone();
        let containers = Containers::new(engine, plan, shared, images);
        Ok(Self { containers, directory, file })
    }

    /// Directory of the domain.
    pub(super) fn domain(&self) -> PathBuf {
        self.directory.domain()
    }

    pub(super) fn placement(&self) -> Placement {
        let starter: Arc<dyn Starter> = Arc::new(self.containers.clone());
        Placement { accounts: self.directory.accounts(), starter: Some(starter) }
    }

    /// Returns module and process id of each running module.
    pub(super) fn processes(&self) -> Vec<(String, u32)> {
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        pids.filter_map(|pid: u32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            Some((module_of(&line, &self.file)?, pid))
        })
        .collect()
    }

    /// Starts to measure the processor time and memory of the supervisors of the running
    /// containers.
    pub(super) fn supervisors(&self) -> SupervisorUse {
        let deployed = self.containers.deployed();
        let names: Vec<String> = deployed.into_iter().filter_map(|m| m.container).collect();
        SupervisorUse::of(&names)
    }
}

/// Returns the module that a process with this command line runs, if it is one of this graph.
fn module_of(line: &[u8], file: &Path) -> Option<String> {
    let line = String::from_utf8_lossy(line);
    let words: Vec<&str> = line.split_terminator('\0').collect();
    let after = |option| words.iter().skip_while(|word| **word != option).nth(1).copied();
    let is_module = words.get(1) == Some(&"run") && after("--graph").map(Path::new) == Some(file);
    is_module.then(|| after("--module").map(str::to_owned))?
}

impl Drop for Deployed {
    fn drop(&mut self) {
        let _ = self.containers.remove();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_found_by_their_command_lines() {
        let of = |words: &str| module_of(words.replace(' ', "\0").as_bytes(), Path::new("/g.yaml"));
        let line = "driveline:map run --module map --graph /g.yaml --account-socket /a ";
        assert_eq!(of(line).as_deref(), Some("map"));
        // Not counted are the first process of a container, and a module of another run.
        assert_eq!(
            of("/opt/driveline/bin/driveline-host contain --module map --graph /g.yaml "),
            None
        );
        assert_eq!(of("driveline:map run --module map --graph /other.yaml "), None);
        assert_eq!(of("cat /g.yaml "), None);
    }
}
