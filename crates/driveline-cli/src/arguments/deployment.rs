// SPDX-License-Identifier: Apache-2.0
//! `driveline deploy`.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Subcommand)]
pub(crate) enum Deployment {
    /// Build the images of a graph's modules
    #[command(after_help = "Examples:
  driveline deploy build graph.yaml
  driveline deploy build graph.yaml lane --push registry.example/pilot
  driveline deploy build graph.yaml collector
      only the image of the collector, for compose, kubernetes and quadlet")]
    Build(DeployBuild),
    /// Build the base image for your own images
    #[command(after_help = "Example:
  driveline deploy base --push registry.example/pilot")]
    Base {
        /// Container engine: podman, docker, or a path [default: the first that works]
        #[arg(long, value_name = "ENGINE")]
        engine: Option<String>,
        /// Push the image to this registry, as REGISTRY/base:TAG
        #[arg(long, value_name = "REGISTRY")]
        push: Option<String>,
        /// Tag of the image
        #[arg(long, value_name = "TAG", default_value = "latest")]
        tag: String,
        /// Accept a registry without TLS, or with an unknown certificate (podman)
        #[arg(long, requires = "push")]
        insecure: bool,
    },
    /// Write a Containerfile for a component library. Its directory must have a CMakeLists.txt
    #[command(after_help = "Example:
  driveline deploy init components/lane --library lane
  driveline deploy base
  podman build -t localhost/pilot/lane \\
      --build-context driveline=/usr/local components/lane")]
    Init {
        /// Directory of the library's sources
        directory: PathBuf,
        /// Name of the library, as in `driveline_add_components(NAME …)`
        #[arg(long, value_name = "NAME", value_parser = library_name)]
        library: String,
    },
    /// Print the graph as services for docker compose and podman-compose
    #[command(after_help = "Example:
  driveline deploy build graph.yaml
  driveline deploy compose graph.yaml > compose.yaml
  podman-compose up")]
    Compose(DeployManifest),
    /// Print the graph as objects for Kubernetes and podman kube play
    #[command(after_help = "Examples:
  driveline deploy kubernetes graph.yaml --registry registry.example/pilot \\
      | kubectl apply -f -
  driveline deploy kubernetes replay.yaml --workload jobs > replay.k8s.yaml
      for a graph with a source that ends")]
    Kubernetes {
        #[command(flatten)]
        manifest: DeployManifest,
        /// Kind of the objects that run the containers
        #[arg(long, value_name = "KIND", default_value = "deployments")]
        workload: WorkloadKind,
    },
    /// Print the graph as units for systemd, by Podman's Quadlet
    #[command(after_help = "Example:
  driveline deploy quadlet graph.yaml --output /etc/containers/systemd
  systemctl daemon-reload
  systemctl start pilot-collector
      starts all units of graph `pilot`; its end stops all of them")]
    Quadlet {
        #[command(flatten)]
        manifest: DeployManifest,
        /// Write a file for each unit into this directory, instead of printing them
        #[arg(long, value_name = "DIRECTORY")]
        output: Option<PathBuf>,
    },
    /// Create the directory that modules and collector share (orchestrators run this as root)
    Prepare {
        /// Shared directory
        directory: PathBuf,
        /// User of the collector
        #[arg(long, value_name = "UID")]
        user: u32,
        /// A module and its user (may be given several times)
        #[arg(long = "module", value_name = "NAME=UID", value_parser = module_user)]
        modules: Vec<(String, u32)>,
        /// Change the owner of this directory to the collector's user (may be given several times)
        #[arg(long, value_name = "DIRECTORY")]
        give: Vec<PathBuf>,
    },
    /// Print the engine's seccomp profile with futex_waitv
    Seccomp {
        /// Container engine: podman, docker, or a path [default: the first that works]
        #[arg(long, value_name = "ENGINE")]
        engine: Option<String>,
    },
    /// Remove containers and directories of runs whose launcher is dead
    Clean {
        /// Container engine: podman, docker, or a path [default: the first that works]
        #[arg(long, value_name = "ENGINE")]
        engine: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DeployBuild {
    /// Graph file
    pub(crate) graph: PathBuf,
    /// Modules, or `collector` [default: all]
    #[arg(value_name = "MODULE")]
    pub(crate) modules: Vec<String>,
    /// Container engine: podman, docker, or a path [default: the first that works]
    #[arg(long, value_name = "ENGINE")]
    pub(crate) engine: Option<String>,
    /// Push each image to this registry, as REGISTRY/MODULE:TAG
    #[arg(long, value_name = "REGISTRY")]
    pub(crate) push: Option<String>,
    /// Tag of the images
    #[arg(long, value_name = "TAG", default_value = "latest")]
    pub(crate) tag: String,
    /// Accept a registry without TLS, or with an unknown certificate (podman)
    #[arg(long, requires = "push")]
    pub(crate) insecure: bool,
}

/// Options shared by compose, kubernetes and quadlet.
#[derive(Debug, Args)]
pub(crate) struct DeployManifest {
    /// Graph file
    pub(crate) graph: PathBuf,
    /// Set a parameter, as for `run`
    #[arg(long, value_name = "COMPONENT.PARAMETER=VALUE")]
    pub(crate) set: Vec<String>,
    /// Registry and path of the images, as given to `deploy build --push` [default: images of this
    /// machine]
    #[arg(long, value_name = "REGISTRY")]
    pub(crate) registry: Option<String>,
    /// Tag of the images
    #[arg(long, value_name = "TAG", default_value = "latest")]
    pub(crate) tag: String,
    /// Directory of the host that all containers share; it is in memory [default:
    /// /dev/shm/driveline-graph-NAME]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) directory: Option<PathBuf>,
    /// Directory of the host for the report [default: /var/lib/driveline/NAME]
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) report: Option<PathBuf>,
    /// Name or path by which the orchestrator finds the profile of `driveline deploy seccomp`
    /// [default: the engine's own profile]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) seccomp: Option<String>,
}

/// Kubernetes object that runs the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadKind {
    /// For graphs that run until they are stopped
    Deployments,
    /// For graphs with a source that ends
    Jobs,
    /// Like jobs, for `podman kube play` before Podman 5.3
    Pods,
}

fn module_user(text: &str) -> Result<(String, u32), String> {
    let (name, user) = text.split_once('=').ok_or("write NAME=UID, such as lane=65532")?;
    // The module's name becomes a directory.
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return Err(format!("{name:?} is no name of a module"));
    }
    let user = user.parse().map_err(|_| format!("{user:?} is no user id"))?;
    Ok((name.to_owned(), user))
}

/// Checks the name of a CMake target, which becomes part of a command line.
fn library_name(text: &str) -> Result<String, String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "_-.+".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(allowed) {
        return Err("write the library's target, such as `lane`, without path or ending".into());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_a_plain_name() {
        assert!(library_name("lane_2").is_ok());
        for bad in ["", "-x", "lib/lane.so", "a b", "a;b"] {
            assert!(library_name(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_module_and_its_user_are_read() {
        assert_eq!(module_user("lane=65532"), Ok(("lane".to_owned(), 65_532)));
        for bad in ["lane", "lane=x", "../x=1", "=1", "lane=-1"] {
            assert!(module_user(bad).is_err(), "{bad}");
        }
    }
}
