// SPDX-License-Identifier: Apache-2.0
//! A run whose modules are not child processes of this program: they run in containers, or others
//! start them.

use super::deploy_settings::{ENDS_WITHIN, images_in, mode};
use crate::arguments::Run;
use driveline_analyze::ModuleFacts;
use driveline_deploy::manifest::local;
use driveline_deploy::{
    Containers, Engine, ImageFacts, Mode, Plan, RunDirectory, Shared, check, seccomp,
};
use driveline_graph::{Diagnostics, ResolvedGraph};
use driveline_runtime::launch::{Placement, Starter};
use driveline_terminal::screen::Screen;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Preparations of a run before its modules start.
pub(super) enum Prepared {
    /// None: modules are processes of this program.
    Bare,
    /// Directories, and images and an engine if modules run in containers.
    Deployed(Deployed),
    /// The graph cannot be deployed here; the errors were printed.
    Mistakes,
}

pub(super) struct Deployed {
    /// Removed when this value is dropped, unless it is the directory of `--attach`.
    directory: RunDirectory,
    containers: Option<Containers>,
}

impl Deployed {
    /// Prepares the directory and the images of the run. Blocks while it builds images that the
    /// engine does not have.
    pub(super) fn prepare(
        arguments: &Run,
        graph: &ResolvedGraph,
        host: &Path,
        screen: &Screen,
    ) -> Result<Prepared, String> {
        if let Some(path) = &arguments.attach {
            let modules: Vec<&str> = graph.modules.iter().map(|m| m.name.as_str()).collect();
            let directory =
                RunDirectory::attached(path, &modules).map_err(|e| format!("--attach: {e}"))?;
            return Ok(Prepared::Deployed(Self { directory, containers: None }));
        }
        let Some(wanted) = arguments.deploy else { return Ok(Prepared::Bare) };
        let engine = Engine::find(arguments.engine.as_deref()).map_err(|e| e.to_string())?;
        let plan = Plan::new(graph, mode(wanted), &arguments.set, ENDS_WITHIN);
        let mut mistakes = Diagnostics::default();
        check::check(graph, &plan, &engine).into_iter().for_each(|d| mistakes.push(d));
        if !mistakes.is_empty() {
            if screen.json {
                screen.print_json_line(&json!({
                    "kind": "diagnostics",
                    "diagnostics": mistakes.iter().collect::<Vec<_>>()
                }));
            } else {
                screen.print_error(&mistakes.render(screen.errors()));
            }
        }
        if mistakes.errors() > 0 {
            return Ok(Prepared::Mistakes);
        }
        let images = images(&engine, &plan, host)?;
        let directory = RunDirectory::new(&plan.users()).map_err(|e| e.to_string())?;
        let shared = Shared {
            id: directory.id().to_owned(),
            directory: directory.path().to_owned(),
            domain: directory.domain(),
            accounts: directory.accounts(),
            seccomp: seccomp_file(&engine, directory.path(), screen)?,
        };
        let containers = Some(Containers::new(engine, plan, shared, images));
        Ok(Prepared::Deployed(Self { directory, containers }))
    }

    /// Directory that all modules use as their domain.
    pub(super) fn domain(&self) -> PathBuf {
        self.directory.domain()
    }

    pub(super) fn placement(&self) -> Placement {
        let starter = self.containers.clone().map(|c| Arc::new(c) as Arc<dyn Starter>);
        Placement { accounts: self.directory.accounts(), starter }
    }

    /// Records where each module ran, and removes the remaining containers, then the directory.
    pub(super) fn end(self, modules: &mut [ModuleFacts], screen: &Screen) {
        let Some(containers) = &self.containers else { return };
        for deployed in containers.deployed() {
            let Some(m) = modules.iter_mut().find(|m| m.module == deployed.module) else {
                continue;
            };
            (m.container, m.image) = (deployed.container, Some(deployed.image));
            (m.digest, m.user) = (Some(deployed.digest), Some(deployed.user));
        }
        if let Err(e) = containers.remove() {
            screen.error(format!("{e}; `driveline deploy clean` removes the remaining parts"));
        }
    }
}

/// Builds missing images, with a progress bar on a terminal. Returns the image of each module: its
/// name, and the engine's information on it.
pub(super) fn images(
    engine: &Engine,
    plan: &Plan,
    host: &Path,
) -> Result<BTreeMap<String, (String, ImageFacts)>, String> {
    let scratch = Scratch::new()?;
    let mut made = images_in(host, scratch.0.clone());
    let repository = local(&plan.graph);
    let mut images = BTreeMap::new();
    let all: Vec<PathBuf> = plan.modules.iter().flat_map(|m| m.libraries.clone()).collect();
    let bar = ProgressBar::new(plan.modules.len() as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} images · {msg}") {
        bar.set_style(style);
    }
    for module in &plan.modules {
        bar.set_message(module.name.clone());
        let name = match &module.image {
            Some(name) => name.clone(),
            None => {
                let libraries = if plan.mode == Mode::One { &all } else { &module.libraries };
                let image =
                    made.image(libraries).map_err(|e| format!("module '{}': {e}", module.name))?;
                made.provide(engine, &image, &repository).map_err(|e| e.to_string())?
            }
        };
        let facts = engine.image(&name).map_err(|e| e.to_string())?;
        let facts = facts.ok_or_else(|| {
            format!("module '{}': {} has no image {name}", module.name, engine.kind().name())
        })?;
        images.insert(module.name.clone(), (name, facts));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(images)
}

/// Directory for files as large as images. It is removed when this value is dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, String> {
        let path = std::env::temp_dir().join(format!("driveline-images-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
            .create(&path)
            .map_err(|e| format!("cannot make {}: {e}", path.display()))?;
        Ok(Self(path))
    }
}

impl Scratch {
    pub(super) fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Writes the profile that permits `futex_waitv` as a file into the run's directory. Without it,
/// the engine's own profile applies.
fn seccomp_file(
    engine: &Engine,
    directory: &Path,
    screen: &Screen,
) -> Result<Option<PathBuf>, String> {
    let profile = match seccomp::profile(engine.kind()) {
        Ok(profile) => profile,
        Err(seccomp::SeccompError::None(_)) => return Ok(None),
        Err(e) => {
            screen.error(format!(
                "{e}; containers run with the engine's own profile, and threads \
                 may wait with helper threads"
            ));
            return Ok(None);
        }
    };
    let path = directory.join("seccomp.json");
    std::fs::write(&path, profile).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    Ok(Some(path))
}
