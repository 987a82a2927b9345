// SPDX-License-Identifier: Apache-2.0
//! `driveline deploy compose|kubernetes|quadlet`, and the command that their containers run first.

use super::deploy_build::has_gateway;
use super::deploy_settings::ENDS_WITHIN;
use super::describer::{describer, load_options, print_mistakes};
use crate::arguments::{DeployManifest, WorkloadKind};
use crate::exit;
use driveline_deploy::manifest::{self, Manifest, ManifestOptions, Workload, kubernetes_notes};
use driveline_deploy::{RunDirectory, given};
use driveline_graph::{LoadOptions, Loaded, load};
use driveline_terminal::screen::Screen;
use std::path::{Path, PathBuf};

pub(super) fn compose(arguments: &DeployManifest, screen: &Screen) -> Result<u8, String> {
    let Some(manifest) = manifest_of(arguments, screen)? else { return Ok(exit::GRAPH) };
    screen.print(&manifest::compose(&manifest));
    Ok(exit::DONE)
}

pub(super) fn kubernetes(
    arguments: &DeployManifest,
    workload: WorkloadKind,
    screen: &Screen,
) -> Result<u8, String> {
    let Some(manifest) = manifest_of(arguments, screen)? else { return Ok(exit::GRAPH) };
    let workload = match workload {
        WorkloadKind::Deployments => Workload::Deployment,
        WorkloadKind::Jobs => Workload::Job,
        WorkloadKind::Pods => Workload::Pod,
    };
    screen.print(&manifest::kubernetes(&manifest, workload));
    kubernetes_notes(&manifest).iter().for_each(|n| screen.print_error(&format!("note: {n}\n")));
    Ok(exit::DONE)
}

pub(super) fn quadlet(
    arguments: &DeployManifest,
    output: Option<&Path>,
    screen: &Screen,
) -> Result<u8, String> {
    let Some(manifest) = manifest_of(arguments, screen)? else { return Ok(exit::GRAPH) };
    let units = manifest::quadlet(&manifest).map_err(|e| e.to_string())?;
    if let Some(directory) = output {
        std::fs::create_dir_all(directory)
            .map_err(|e| format!("cannot create {}: {e}", directory.display()))?;
    }
    for unit in units {
        match output {
            None => screen.print(&format!("# {}\n{}\n", unit.name, unit.text)),
            Some(directory) => {
                let path = directory.join(&unit.name);
                std::fs::write(&path, &unit.text)
                    .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
                screen.print(&format!("{}\n", path.display()));
            }
        }
    }
    Ok(exit::DONE)
}

/// Creates the shared directory, and changes the owner of the directories in `give`.
pub(super) fn prepare(
    directory: &Path,
    user: u32,
    modules: &[(String, u32)],
    give: &[PathBuf],
) -> Result<u8, String> {
    let users = modules.iter().cloned().collect();
    RunDirectory::prepare(directory, user, &users).map_err(|e| {
        format!(
            "{e}; this command needs root, with CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER and \
             CAP_FSETID"
        )
    })?;
    for path in give {
        given(path, user, user, 0o755)
            .map_err(|e| format!("cannot give {} to user {user}: {e}", path.display()))?;
    }
    Ok(exit::DONE)
}

/// Returns `None` if the graph has mistakes, which were printed.
fn manifest_of(arguments: &DeployManifest, screen: &Screen) -> Result<Option<Manifest>, String> {
    let describer = describer();
    let options = LoadOptions { set: arguments.set.clone(), ..load_options(&describer) };
    let Loaded { graph, diagnostics, .. } = load(&arguments.graph, &options);
    let Some(graph) = graph else {
        print_mistakes(&diagnostics, screen);
        return Ok(None);
    };
    screen.print_error(&diagnostics.render(screen.errors()));
    let options = ManifestOptions {
        registry: arguments.registry.clone(),
        tag: Some(arguments.tag.clone()),
        directory: arguments.directory.as_deref().map(absolute).transpose()?,
        reports: arguments.report.as_deref().map(absolute).transpose()?,
        seccomp: arguments.seccomp.clone(),
    };
    let manifest =
        Manifest::new(&graph, &arguments.set, ENDS_WITHIN, has_gateway(&graph), &options)
            .map_err(|e| e.to_string())?;
    manifest.notes.iter().for_each(|n| screen.print_error(&format!("note: {n}\n")));
    Ok(Some(manifest))
}

fn absolute(path: &Path) -> Result<PathBuf, String> {
    std::path::absolute(path).map_err(|e| format!("{}: {e}", path.display()))
}
