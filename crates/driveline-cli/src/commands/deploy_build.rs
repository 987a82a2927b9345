// SPDX-License-Identifier: Apache-2.0
//! `driveline deploy build`.

use super::deploy_settings::{ENDS_WITHIN, images_in};
use super::deployed;
use super::describer::{describer, load_options, print_mistakes};
use crate::arguments::DeployBuild;
use crate::exit;
use driveline_deploy::manifest::{image_part, local};
use driveline_deploy::{Engine, EngineKind, Mode, Plan};
use driveline_gateway::network::GatewayConfig;
use driveline_gateway::ros2::Ros2GatewayConfig;
use driveline_graph::{LoadOptions, Loaded, ResolvedGraph, load};
use driveline_runtime::launch::{find_gateway, find_host, find_ros2_gateway};
use driveline_terminal::screen::Screen;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Name that stands for the collector among the modules.
const COLLECTOR: &str = "collector";

/// An image that exists in the engine.
struct Built {
    module: String,
    image: String,
    digest: String,
}

pub(super) fn built(arguments: &DeployBuild, screen: &Screen) -> Result<u8, String> {
    let describer = describer();
    let wanted = |name: &str| {
        arguments.modules.is_empty() || arguments.modules.iter().any(|wanted| wanted == name)
    };
    let named: Vec<String> =
        arguments.modules.iter().filter(|m| *m != COLLECTOR).cloned().collect();
    let options = LoadOptions {
        modules: Some(named).filter(|_| !arguments.modules.is_empty()),
        ..load_options(&describer)
    };
    let Loaded { graph, diagnostics, .. } = load(&arguments.graph, &options);
    let Some(mut graph) = graph else {
        print_mistakes(&diagnostics, screen);
        return Ok(exit::GRAPH);
    };
    screen.print_error(&diagnostics.render(screen.errors()));
    let host: PathBuf = find_host().map_err(|e| e.to_string())?;
    let engine = Engine::find(arguments.engine.as_deref()).map_err(|e| e.to_string())?;
    let repository = local(&graph.name);
    let mut built = Vec::new();
    if wanted(COLLECTOR) {
        built.push(collector(&engine, &graph, &host, &repository)?);
    }
    graph.modules.retain(|m| wanted(m.name.as_str()));
    let plan = Plan::new(&graph, Mode::Each, &[], ENDS_WITHIN);
    for (module, (image, facts)) in deployed::images(&engine, &plan, &host)? {
        let digest = facts.digest.clone().unwrap_or_else(|| format!("sha256:{}", facts.id));
        built.push(Built { module, image, digest });
    }
    let mut told = Vec::new();
    for Built { module, image, digest } in &built {
        let own = plan.module(module).is_some_and(|m| m.image.is_some());
        if !own {
            // Manifests refer to the image by this name.
            let name = format!("{repository}/{}:{}", image_part(module), arguments.tag);
            engine.ask(&["tag", image, &name]).map_err(|e| e.to_string())?;
        }
        let to = PushTo {
            registry: arguments.push.as_deref(),
            tag: &arguments.tag,
            insecure: arguments.insecure,
        };
        let pushed = push(&engine, &to, module, image, screen)?;
        if screen.json {
            told.push(
                json!({ "module": module, "image": image, "digest": digest, "pushed": pushed }),
            );
        } else {
            let pushed = pushed.map_or_else(String::new, |p| format!("  pushed as {p}"));
            screen.print(&format!("{module}  {image}  {digest}{pushed}\n"));
        }
    }
    if screen.json {
        screen.print_json(&told);
    }
    Ok(exit::DONE)
}

/// Returns true if the graph needs a gateway, to other hosts or to ROS 2.
pub(super) fn has_gateway(graph: &ResolvedGraph) -> bool {
    let nowhere = Path::new("/");
    GatewayConfig::of_graph(graph, &graph.domain, nowhere).is_some()
        || Ros2GatewayConfig::of_graph(graph, &graph.domain, nowhere).is_some()
}

/// Builds the image of the collector: this program, and the gateways that it starts. If the graph
/// has gateways, the image also contains the graph's libraries, because gateways need the types of
/// topics.
fn collector(
    engine: &Engine,
    graph: &ResolvedGraph,
    host: &Path,
    repository: &str,
) -> Result<Built, String> {
    let own = std::env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let mut programs = vec![own];
    let nowhere = Path::new("/");
    if GatewayConfig::of_graph(graph, &graph.domain, nowhere).is_some() {
        programs.push(find_gateway().map_err(|e| e.to_string())?);
    }
    if Ros2GatewayConfig::of_graph(graph, &graph.domain, nowhere).is_some() {
        programs.push(find_ros2_gateway().map_err(|e| e.to_string())?);
    }
    let plan = Plan::new(graph, Mode::Each, &[], ENDS_WITHIN);
    let mut libraries: Vec<PathBuf> = Vec::new();
    if programs.len() > 1 {
        libraries = plan.modules.iter().flat_map(|m| m.libraries.clone()).collect();
    }
    let scratch = deployed::Scratch::new()?;
    let mut images = images_in(host, scratch.path());
    let image = images.collector(&programs, &libraries).map_err(|e| e.to_string())?;
    let name = images.provide(engine, &image, repository).map_err(|e| e.to_string())?;
    let facts = engine.image(&name).map_err(|e| e.to_string())?;
    let digest = facts.and_then(|f| f.digest).unwrap_or_else(|| format!("sha256:{}", image.id()));
    Ok(Built { module: COLLECTOR.to_owned(), image: name, digest })
}

/// Destination of pushed images.
pub(super) struct PushTo<'a> {
    /// `None`: images are not pushed.
    pub(super) registry: Option<&'a str>,
    pub(super) tag: &'a str,
    /// The registry may have no TLS, or an unknown certificate.
    pub(super) insecure: bool,
}

/// Builds the base image of all others: `driveline-host` and `libdriveline.so`, without components.
pub(super) fn base(engine: Option<&str>, to: &PushTo<'_>, screen: &Screen) -> Result<u8, String> {
    let host = find_host().map_err(|e| e.to_string())?;
    let engine = Engine::find(engine).map_err(|e| e.to_string())?;
    let scratch = deployed::Scratch::new()?;
    let mut made = images_in(&host, scratch.path());
    let image = made.image(&[]).map_err(|e| e.to_string())?;
    let name = format!("localhost/driveline/base:{}", to.tag);
    let loaded =
        made.provide(&engine, &image, "localhost/driveline/base").map_err(|e| e.to_string())?;
    engine.ask(&["tag", &loaded, &name]).map_err(|e| e.to_string())?;
    let facts = engine.image(&name).map_err(|e| e.to_string())?;
    let digest = facts.and_then(|f| f.digest).unwrap_or_else(|| format!("sha256:{}", image.id()));
    let pushed = push(&engine, to, "base", &name, screen)?;
    if screen.json {
        screen.print_json(&json!({ "image": name, "digest": digest, "pushed": pushed }));
    } else {
        let pushed = pushed.map_or_else(String::new, |p| format!("  pushed as {p}"));
        screen.print(&format!("{name}  {digest}{pushed}\n"));
    }
    Ok(exit::DONE)
}

/// Pushes an image to the registry, if one is set, and returns its name there. There is no time
/// limit: a large image over a slow network takes long.
fn push(
    engine: &Engine,
    to: &PushTo<'_>,
    module: &str,
    image: &str,
    screen: &Screen,
) -> Result<Option<String>, String> {
    let Some(registry) = to.registry else { return Ok(None) };
    if registry.trim_matches('/').is_empty() {
        return Err("--push: the name of the registry is empty".to_owned());
    }
    let name = format!("{}/{}:{}", registry.trim_end_matches('/'), image_part(module), to.tag);
    engine.ask(&["tag", image, &name]).map_err(|e| e.to_string())?;
    let mut arguments = vec!["push"];
    if to.insecure && engine.kind() == EngineKind::Podman {
        arguments.push("--tls-verify=false");
    }
    arguments.push(&name);
    // A push waits as long as the registry lets it wait.
    if !screen.json {
        screen.print_error(&format!("{module}: pushing {name} (Ctrl-C ends this)\n"));
    }
    engine.ask(&arguments).map_err(|e| e.to_string())?;
    Ok(Some(name))
}
