// SPDX-License-Identifier: Apache-2.0
//! `driveline deploy`, and what `run` and `validate` share with it.

use super::{deployed, describer};
use crate::arguments::{Deploy, DeployBuild, Deployment, Validate};
use crate::exit;
use driveline_deploy::clean::{Cleaned, clean};
use driveline_deploy::{Engine, EngineError, EngineKind, Mode, Plan, check, seccomp};
use driveline_runtime::graph::{Diagnostic, LoadOptions, Loaded, ResolvedGraph, load};
use driveline_runtime::launch::find_host;
use driveline_terminal::screen::Screen;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

/// How long a module may take to end before its process gives it up: the launcher's grace and a
/// second.
pub(super) const ENDS_WITHIN: Duration = Duration::from_secs(6);

pub(super) fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

pub(super) fn mode(deploy: Deploy) -> Mode {
    match deploy {
        Deploy::Container => Mode::One,
        Deploy::Containers => Mode::Each,
    }
}

pub(crate) fn deploy(command: &Deployment, screen: &Screen) -> u8 {
    let done = match command {
        Deployment::Build(build) => built(build, screen),
        Deployment::Seccomp { engine } => print_seccomp(engine.as_deref(), screen),
        Deployment::Clean { engine } => cleaned(engine.as_deref(), screen),
    };
    done.unwrap_or_else(|text| {
        screen.error(text);
        exit::FAILED
    })
}

/// What keeps a graph from being deployed on this machine.
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
        // The profile is a file, whether the engine answers or not.
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
        // Without an engine there are no containers, but there may be directories.
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

fn built(arguments: &DeployBuild, screen: &Screen) -> Result<u8, String> {
    let describer = describer();
    let modules = Some(arguments.modules.clone()).filter(|m| !m.is_empty());
    let options = LoadOptions { modules: modules.clone(), ..LoadOptions::new(&describer) };
    let Loaded { graph, diagnostics } = load(&arguments.graph, &options);
    screen.print_error(&diagnostics.render(screen.errors()));
    let Some(mut graph) = graph else { return Ok(exit::GRAPH) };
    graph.modules.retain(|m| {
        modules.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == m.name.as_str()))
    });
    let host: PathBuf = find_host().map_err(|e| e.to_string())?;
    let engine = Engine::find(arguments.engine.as_deref()).map_err(|e| e.to_string())?;
    let plan = Plan::new(&graph, Mode::Each, &[], ENDS_WITHIN);
    let images = deployed::images(&engine, &plan, &host, screen)?;
    let mut told = Vec::new();
    for (module, (name, facts)) in &images {
        let digest = facts.digest.clone().unwrap_or_else(|| format!("sha256:{}", facts.id));
        let pushed = arguments
            .push
            .as_deref()
            .map(|registry| push(&engine, registry, module, name, arguments.insecure));
        let pushed = pushed.transpose()?;
        if screen.json {
            told.push(
                json!({ "module": module, "image": name, "digest": digest, "pushed": pushed }),
            );
        } else {
            let pushed = pushed.map_or_else(String::new, |p| format!("  pushed as {p}"));
            screen.print(&format!("{module}  {name}  {digest}{pushed}\n"));
        }
    }
    if screen.json {
        screen.print_json(&told);
    }
    Ok(exit::DONE)
}

/// Pushes an image into a registry, and returns its name there.
fn push(
    engine: &Engine,
    registry: &str,
    module: &str,
    image: &str,
    insecure: bool,
) -> Result<String, String> {
    let name = format!("{}/{}:latest", registry.trim_end_matches('/'), module.to_lowercase());
    engine.ask(&["tag", image, &name]).map_err(|e| e.to_string())?;
    let mut arguments = vec!["push"];
    if insecure && engine.kind() == EngineKind::Podman {
        arguments.push("--tls-verify=false");
    }
    arguments.push(&name);
    engine.ask(&arguments).map_err(|e| e.to_string())?;
    Ok(name)
}
