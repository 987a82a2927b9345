// SPDX-License-Identifier: Apache-2.0
//! The modules of a graph in containers: the same graph, table, report and exit codes as bare.
//!
//! - [`Engine`]: Podman or Docker, by its command line; nothing of Driveline has to run first;
//! - [`Plan`]: from a resolved graph to what each container gets, and to the arguments of the
//!   engine;
//! - [`image`]: images from a module's libraries, without a registry and without building anything;
//! - [`Containers`]: starts them for the launcher; [`RunDirectory`]: what they share, removed after
//!   the run;
//! - [`manifest`]: the same graph as files for orchestrators;
//! - [`template`]: files for an image of a user's own library;
//! - [`check`]: what keeps a graph from being deployed here, with place and remedy;
//! - [`seccomp`]: the engine's profile with the one system call that it lacks;
//! - [`clean`]: removes what launchers have left that are dead.
//!
//! Which process says what to which: `docs/protocols/deployment.md`. Not here: the launcher
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

pub use arguments::{Container, run_arguments};
pub use containers::{Containers, DeployedModule};
pub use engine::{Engine, EngineError, EngineKind, ImageFacts};
pub use plan::{Mode, Plan, PlannedModule, Shared};
pub use run_directory::{RunDirectory, given};

/// Directory of the domain in a container.
pub const DOMAIN_IN_CONTAINER: &str = "/run/driveline/domain";
/// Directory of the account's socket in a container.
pub const ACCOUNT_IN_CONTAINER: &str = "/run/driveline/account";
/// The program that runs modules, in every image.
pub const HOST_IN_IMAGE: &str = "/opt/driveline/bin/driveline-host";
/// The command line, in the image of the collector.
pub const CLI_IN_IMAGE: &str = "/opt/driveline/bin/driveline";
/// Component libraries in images that are made here.
pub const COMPONENTS_IN_IMAGE: &str = "/opt/driveline/components";
/// User of modules where the launcher is root and the graph names none.
pub const DEFAULT_USER: u32 = 65_532;

/// Labels of containers.
pub mod label {
    /// The run's id.
    pub const RUN: &str = "org.driveline.run";
    /// The run's directory.
    pub const DIRECTORY: &str = "org.driveline.directory";
    /// Name of the graph.
    pub const GRAPH: &str = "org.driveline.graph";
    /// The module; none where all share one container.
    pub const MODULE: &str = "org.driveline.module";
}
