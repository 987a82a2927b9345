// SPDX-License-Identifier: Apache-2.0
//! Runs the modules of a graph in containers: with the same graph, table, report and exit codes as
//! without containers.
//!
//! - [`Engine`]: Podman or Docker, controlled by its command line; no service of Driveline has to
//!   run first;
//! - [`Plan`]: settings of each container of a resolved graph, and the arguments of the engine;
//! - [`image`]: images from a module's libraries, without a registry and without a build;
//! - [`Containers`]: starts them for the launcher; [`RunDirectory`]: the directory that they share,
//!   removed after the run;
//! - [`manifest`]: the same graph as files for orchestrators;
//! - [`template`]: files for an image of a user's own library;
//! - [`check`]: conditions that prevent the deployment of a graph on this machine, with place and
//!   remedy;
//! - [`seccomp`]: the engine's profile, extended by a missing system call;
//! - [`clean`]: removes leftovers of dead launchers.
//!
//! The protocol between the processes: `docs/protocols/deployment.md`. Not here: the launcher
//! (`driveline-runtime`).

mod arguments;
pub mod check;
pub mod clean;
mod containers;
mod engine;
pub mod image;
pub mod manifest;
mod plan;
mod run_directory;
pub mod seccomp;
pub mod template;
mod ulimits;

pub use arguments::{Container, run_arguments};
pub use containers::{Containers, DeployedModule};
pub use engine::{Engine, EngineError, EngineKind, ImageFacts};
pub use plan::{Mode, Plan, PlannedModule, Shared};
pub use run_directory::{RunDirectory, given};
pub use ulimits::ulimits;

/// Directory of the domain in a container.
pub const DOMAIN_IN_CONTAINER: &str = "/run/driveline/domain";
/// Directory, in a container, of the socket to the launcher. The connection over which a module
/// sends its records is its *account*; see `docs/protocols/account.md`.
pub const ACCOUNT_IN_CONTAINER: &str = "/run/driveline/account";
/// The program that runs modules, in every image.
pub const HOST_IN_IMAGE: &str = "/opt/driveline/bin/driveline-host";
/// The command-line tool, in the image of the collector.
pub const CLI_IN_IMAGE: &str = "/opt/driveline/bin/driveline";
/// Directory of the component libraries in images that this crate creates.
pub const COMPONENTS_IN_IMAGE: &str = "/opt/driveline/components";
/// User of modules for which the graph names none, if the launcher is root or an orchestrator
/// starts them.
pub const DEFAULT_USER: u32 = 65_532;

/// Labels of containers.
pub mod label {
    /// The run's id.
    pub const RUN: &str = "org.driveline.run";
    /// The run's directory.
    pub const DIRECTORY: &str = "org.driveline.directory";
    /// Name of the graph.
    pub const GRAPH: &str = "org.driveline.graph";
    /// The module; absent if all modules share one container of a run. In files for compose and
    /// Quadlet: the name of the service, which may also be `prepare` or `collector`.
    pub const MODULE: &str = "org.driveline.module";
}
