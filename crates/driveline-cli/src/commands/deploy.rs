// SPDX-License-Identifier: Apache-2.0
//! `driveline deploy`, and what `run` and `validate` share with it.

use super::deploy_build::{PushTo, base, built};
use super::deploy_settings::{ENDS_WITHIN, mode};
use super::manifests;
use crate::arguments::{Deploy, Deployment, Validate};
use crate::exit;
use driveline_deploy::clean::{Cleaned, clean};

use driveline_deploy::{Engine, EngineError, EngineKind, Plan, check, seccomp, template};
use driveline_graph::{Diagnostic, ResolvedGraph};
use driveline_terminal::screen::Screen;

use serde_json::json;
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::Path;

pub(crate) fn deploy(command: &Deployment, screen: &Screen) -> u8 {
    let done = match command {
        Deployment::Build(build) => built(build, screen),
        Deployment::Base { engine, push, tag, insecure } => {
            let to = PushTo { registry: push.as_deref(), tag, insecure: *insecure };
            base(engine.as_deref(), &to, screen)
        }
        Deployment::Init { directory, library } => init(directory, library, screen),
        Deployment::Compose(manifest) => manifests::compose(manifest, screen),
        Deployment::Kubernetes { manifest, workload } => {
            manifests::kubernetes(manifest, *workload, screen)
        }
        Deployment::Quadlet { manifest, output } => {
            manifests::quadlet(manifest, output.as_deref(), screen)
        }
        Deployment::Prepare { directory, user, modules, give } => {
            manifests::prepare(directory, *user, modules, give)
        }
        Deployment::Seccomp { engine } => print_seccomp(engine.as_deref(), screen),
        Deployment::Clean { engine } => cleaned(engine.as_deref(), screen),
    };
    done.unwrap_or_else(|text| {
        screen.error(text);
        exit::FAILED
    })
}

/// Returns the errors that prevent a deployment on this machine, and warnings about it.
pub(super) fn mistakes(
    graph: &ResolvedGraph,
    deploy: Deploy,
    arguments: &Validate,
) -> Vec<Diagnostic> {
    let plan = Plan::new(graph, mode(deploy), &arguments.set, ENDS_WITHIN);
    match Engine::find(arguments.engine.as_deref()) {
        Ok(engine) => check::check(graph, &plan, &engine),
        Err(e) => vec![Diagnostic::error(e.to_string())],
    }
}

fn print_seccomp(engine: Option<&str>, screen: &Screen) -> Result<u8, String> {
    let kind = match engine {
        // Podman's profile is printed even if the engine does not answer.
        Some("podman") => EngineKind::Podman,
        named => Engine::find(named).map_err(|e| e.to_string())?.kind(),
    };
    let profile = seccomp::profile(kind).map_err(|e| e.to_string())?;
    screen.print(&format!("{profile}\n"));
    Ok(exit::DONE)
}

fn cleaned(engine: Option<&str>, screen: &Screen) -> Result<u8, String> {
    let engine = match Engine::find(engine) {
        Ok(engine) => Some(engine),
        // Without an engine no containers can exist, but directories can.
        Err(EngineError::None) => None,
        Err(e) => return Err(e.to_string()),
    };
    let Cleaned { containers, directories, living } =
        clean(engine.as_ref()).map_err(|e| e.to_string())?;
    if screen.json {
        screen.print_json(
            &json!({ "containers": containers, "directories": directories, "living": living }),
        );
        return Ok(exit::DONE);
    }
    for container in &containers {
        screen.print(&format!("removed container {container}\n"));
    }
    for directory in &directories {
        screen.print(&format!("removed {}\n", directory.display()));
    }
    for directory in &living {
        screen.print(&format!("left: a launcher runs in {}\n", directory.display()));
    }
    if containers.is_empty() && directories.is_empty() {
        screen.print("nothing to remove\n");
    }
    Ok(exit::DONE)
}

/// Writes the files of an image into the directory of a component library.
fn init(directory: &Path, library: &str, screen: &Screen) -> Result<u8, String> {
    for (name, text) in template::files(library) {
        let path = directory.join(name);
        // The user may have edited an existing file.
        let mut file = File::create_new(&path).map_err(|e| {
            let remedy = match e.kind() {
                ErrorKind::AlreadyExists => "; remove it to have it written anew",
                ErrorKind::NotFound => "; DIRECTORY is that of the library's sources",
                _ => "",
            };
            format!("cannot write {}: {e}{remedy}", path.display())
        })?;
        file.write_all(text.as_bytes())
            .map_err(|e| format!("cannot write {}: {e}", path.display()))?;
        screen.print(&format!("{}\n", path.display()));
    }
    Ok(exit::DONE)
}
