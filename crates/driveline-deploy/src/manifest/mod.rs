// SPDX-License-Identifier: Apache-2.0
//! A graph as files for orchestrators: compose, Kubernetes, and Quadlet units of systemd.
//!
//! All three print the same [`Service`]s: one that prepares the shared directory, the collector
//! (`driveline run --attach`), and one for each module. Nothing is started here.

mod compose;
mod kubernetes;
mod quadlet;
#[cfg(test)]
mod tests;

pub use compose::compose;
pub use kubernetes::{Workload, kubernetes, kubernetes_notes};
pub use quadlet::{Unit, quadlet};

use crate::plan::{Plan, PlannedModule, plain};
use crate::{
    ACCOUNT_IN_CONTAINER, CLI_IN_IMAGE, COMPONENTS_IN_IMAGE, DEFAULT_USER, DOMAIN_IN_CONTAINER,
    Mode,
};
use driveline_graph::RestartPolicy;
use driveline_graph::{COMPONENT_PATH, Cpus, Mount, ResolvedGraph, ResolvedModule};
use driveline_runtime::domain;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Directory of the graph's files in containers.
const GRAPH_IN_CONTAINER: &str = "/etc/driveline/graph";
/// The shared directory in the containers of the collector and of the preparing service.
const SHARED_IN_CONTAINER: &str = "/run/driveline";
/// Reports in the collector's container.
const REPORT_IN_CONTAINER: &str = "/var/lib/driveline/report";
/// Time for a module's container to end: its first process, `driveline-host contain`, kills the
/// module 10 s after SIGTERM.
const MODULE_STOPS_WITHIN: Duration = Duration::from_secs(15);
/// Time for the collector to stop all modules and to write the report.
const COLLECTOR_STOPS_WITHIN: Duration = Duration::from_secs(60);
/// Maximum length of the name of a Kubernetes object.
const MAX_NAME: usize = 63;
/// Maximum number of restarts of the collector within [`COLLECTOR_WINDOW`].
const COLLECTOR_RESTARTS: u32 = 5;
/// Time in which restarts of the collector are counted.
const COLLECTOR_WINDOW: Duration = Duration::from_secs(60);

/// Options of the manifests of a graph.
#[derive(Clone, Debug, Default)]
pub struct ManifestOptions {
    /// Registry and path before the name of each image; by default `localhost/driveline/GRAPH`.
    pub registry: Option<String>,
    /// Tag of the images; by default `latest`.
    pub tag: Option<String>,
    /// Directory that all containers share; by default below `/dev/shm`.
    pub directory: Option<PathBuf>,
    /// Directory of the host for reports; by default below `/var/lib/driveline`.
    pub reports: Option<PathBuf>,
    /// Seccomp profile, by its name in the orchestrator; by default the engine's own.
    pub seccomp: Option<String>,
}

/// A graph cannot be written as a manifest.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// A file of the graph cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// Two modules have the same name in the orchestrator's notation.
    #[error("modules '{one}' and '{other}' would both be called '{name}': rename one of them")]
    SameName {
        /// A module.
        one: String,
        /// Another one.
        other: String,
        /// The name.
        name: String,
    },
    /// A name is too long.
    #[error(
        "'{name}' has {length} characters, and orchestrators take {MAX_NAME} at most: shorten \
         `name:` of the graph, or the name of the module",
        length = name.len()
    )]
    LongName {
        /// The name.
        name: String,
    },
    /// A module has the name of a service.
    #[error("module '{name}' has the name of a service that the manifest adds: rename the module")]
    ServiceName {
        /// The name.
        name: String,
    },
    /// A value has a character that a unit of systemd cannot contain.
    #[error("a unit of systemd cannot contain a line break or control character: `{line}`")]
    Control {
        /// The line, escaped.
        line: String,
    },
    /// The graph has no modules.
    #[error("the graph has no modules: there is nothing to deploy")]
    Empty,
}

/// Purpose of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Creates the shared directory, sets the owner of each part, and ends.
    Prepare,
    /// Runs the graph once, with the modules that the other services start, and writes the report.
    Collector,
    /// Runs one module.
    Module,
}

/// Rules for the restart of a service after its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restart {
    /// Kinds of ends after which it is restarted.
    pub policy: RestartPolicy,
    /// Pause before the first restart.
    pub backoff: Duration,
    /// Maximum number of restarts within `window`; `None` for no limit.
    pub max: Option<u32>,
    /// Time in which restarts are counted.
    pub window: Duration,
}

/// A container of the deployment, for any orchestrator.
#[derive(Clone, Debug)]
pub struct Service {
    /// Name within the deployment.
    pub name: String,
    /// Its purpose.
    pub role: Role,
    /// Image.
    pub image: String,
    /// User and group id.
    pub user: u32,
    /// Program and arguments.
    pub command: Vec<String>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Directories and files of the host, without those of the graph.
    pub mounts: Vec<Mount>,
    /// True if it reads the graph.
    pub reads_graph: bool,
    /// CPUs.
    pub cpus: Option<Cpus>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// Devices.
    pub devices: Vec<String>,
    /// Further groups: of devices, and for the collector those of the modules.
    pub groups: Vec<u32>,
    /// The only capabilities that it keeps.
    pub capabilities: Vec<&'static str>,
    /// True if it uses the network of its host: the collector, if the graph needs gateways.
    pub network: bool,
    /// Rules for its restart.
    pub restart: Restart,
    /// Maximum time to end after SIGTERM.
    pub stops_within: Duration,
}

/// A file of the graph.
#[derive(Clone, Debug)]
pub struct GraphFile {
    /// Path on the host.
    pub source: PathBuf,
    /// Path below the directory of the graph in containers.
    pub name: String,
    /// Content.
    pub text: String,
}

/// A graph for an orchestrator.
#[derive(Clone, Debug)]
pub struct Manifest {
    /// Name of the deployment.
    pub name: String,
    /// Name of the graph in its file.
    pub graph: String,
    /// Files of the graph.
    pub files: Vec<GraphFile>,
    /// Directory that all containers share.
    pub directory: PathBuf,
    /// Seccomp profile.
    pub seccomp: Option<String>,
    /// The service that prepares, the collector, and the modules in the order of the graph.
    pub services: Vec<Service>,
    /// Notes, for people, on settings that the orchestrator does not support.
    pub notes: Vec<String>,
}

impl Manifest {
    /// Returns the manifest of a graph whose libraries were found. `carried` is true if the graph
    /// needs a gateway, to other hosts or to ROS 2. Reads the graph's files.
    ///
    /// # Errors
    /// [`ManifestError`].
    pub fn new(
        graph: &ResolvedGraph,
        set: &[String],
        stop_within: Duration,
        carried: bool,
        options: &ManifestOptions,
    ) -> Result<Self, ManifestError> {
        if graph.modules.is_empty() {
            return Err(ManifestError::Empty);
        }
        let plan = Plan::for_user(graph, Mode::Each, set, stop_within, DEFAULT_USER);
        let name = image_part(&graph.name);
        let files = graph_files(graph)?;
        let main = std::path::absolute(&graph.file).unwrap_or_else(|_| graph.file.clone());
        let main = files.iter().find(|f| f.source == main).or_else(|| files.first());
        let main = main.map_or_else(String::new, |f| f.name.clone());
        let plan = Plan { file: Path::new(GRAPH_IN_CONTAINER).join(main), ..plan };
        let directory = options.directory.clone();
        let directory =
            directory.unwrap_or_else(|| format!("/dev/shm/driveline-graph-{name}").into());
        let reports = options.reports.clone();
        let made = Made {
            images: options.registry.clone().map_or_else(|| local(&name), trimmed),
            tag: options.tag.clone().unwrap_or_else(|| "latest".to_owned()),
            reports: reports.unwrap_or_else(|| Path::new("/var/lib/driveline").join(&name)),
            plan: &plan,
            files: &files,
            directory: &directory,
        };
        let mut services = vec![made.prepare(), made.collector(carried)];
        for (module, planned) in graph.modules.iter().zip(&plan.modules) {
            services.push(made.module(module, planned));
        }
        check_names(&name, &plan)?;
        let notes = plan.modules.iter().filter_map(real_time_note).collect();
        let graph = graph.name.clone();
        let seccomp = options.seccomp.clone();
        Ok(Self { name, graph, files, directory, seccomp, services, notes })
    }
}

/// Data that all services of a manifest are created from.
struct Made<'a> {
    images: String,
    tag: String,
    reports: PathBuf,
    plan: &'a Plan,
    files: &'a [GraphFile],
    directory: &'a Path,
}

impl Made<'_> {
    fn image(&self, name: &str) -> String {
        format!("{}/{}:{}", self.images, image_part(name), self.tag)
    }

    /// Returns the common user of all modules if there is one, else [`DEFAULT_USER`].
    fn collector_user(&self) -> u32 {
        let first = self.plan.modules.first().map_or(DEFAULT_USER, |m| m.user);
        let same = self.plan.modules.iter().all(|m| m.user == first);
        if same { first } else { DEFAULT_USER }
    }

    /// Returns the mounts of the shared directory and of the directory for reports, at the paths
    /// that the commands of `prepare` and `collector` name.
    fn shared(&self) -> Vec<Mount> {
        let mount = |source: &Path, target: &str| Mount {
            source: source.to_owned(),
            target: target.into(),
            writable: true,
        };
        vec![mount(self.directory, SHARED_IN_CONTAINER), mount(&self.reports, REPORT_IN_CONTAINER)]
    }

    fn prepare(&self) -> Service {
        let user = self.collector_user().to_string();
        let mut command: Vec<String> =
            [CLI_IN_IMAGE, "deploy", "prepare", SHARED_IN_CONTAINER, "--user", &user]
                .map(str::to_owned)
                .into();
        command.extend(["--give".to_owned(), REPORT_IN_CONTAINER.to_owned()]);
        for module in &self.plan.modules {
            command.extend(["--module".to_owned(), format!("{}={}", module.name, module.user)]);
        }
        Service {
            name: "prepare".to_owned(),
            role: Role::Prepare,
            image: self.image("collector"),
            user: 0,
            command,
            environment: BTreeMap::new(),
            mounts: self.shared(),
            reads_graph: false,
            cpus: None,
            memory: None,
            devices: Vec::new(),
            groups: Vec::new(),
            // To change the owner of directories to users that are not root, and to access them in
            // the next run.
            capabilities: vec!["CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID"],
            network: false,
            restart: Restart::never(),
            stops_within: MODULE_STOPS_WITHIN,
        }
    }

    fn collector(&self, carried: bool) -> Service {
        let mut command: Vec<String> = [
            CLI_IN_IMAGE,
            "run",
            &self.plan.file.display().to_string(),
            "--attach",
            SHARED_IN_CONTAINER,
            "--report",
            REPORT_IN_CONTAINER,
        ]
        .map(str::to_owned)
        .into();
        if !carried {
            // Only for gateways does the collector need the types of topics, which component
            // libraries contain.
            command.push("--no-libraries".to_owned());
        }
        for assignment in &self.plan.set {
            command.extend(["--set".to_owned(), assignment.clone()]);
        }
        let user = self.collector_user();
        // The groups of modules with other users grant the collector access to their sockets.
        let mut groups: Vec<u32> =
            self.plan.modules.iter().map(|m| m.user).filter(|u| *u != user).collect();
        groups.sort_unstable();
        groups.dedup();
        let mut mounts = self.shared();
        // Parameters that name files are checked when the graph is loaded, so the collector needs
        // these files too.
        for mount in self.plan.modules.iter().flat_map(|m| self.other_mounts(m)) {
            if !mount.writable && !mounts.iter().any(|m| m.target == mount.target) {
                mounts.push(mount);
            }
        }
        Service {
            name: "collector".to_owned(),
            role: Role::Collector,
            image: self.image("collector"),
            user,
            command,
            environment: [
                (COMPONENT_PATH.to_owned(), COMPONENTS_IN_IMAGE.to_owned()),
                (domain::DIRECTORY.to_owned(), DOMAIN_IN_CONTAINER.to_owned()),
            ]
            .into(),
            mounts,
            reads_graph: true,
            cpus: None,
            memory: None,
            devices: Vec::new(),
            groups,
            capabilities: Vec::new(),
            network: carried,
            restart: Restart {
                policy: RestartPolicy::OnFailure,
                backoff: Duration::from_secs(1),
                max: Some(COLLECTOR_RESTARTS),
                window: COLLECTOR_WINDOW,
            },
            stops_within: COLLECTOR_STOPS_WITHIN,
        }
    }

    fn module(&self, module: &ResolvedModule, planned: &PlannedModule) -> Service {
        let mut mounts = vec![
            Mount {
                source: self.directory.join("domain"),
                target: DOMAIN_IN_CONTAINER.into(),
                writable: true,
            },
            Mount {
                source: self.directory.join("accounts").join(&planned.name),
                target: ACCOUNT_IN_CONTAINER.into(),
                writable: false,
            },
        ];
        mounts.extend(self.other_mounts(planned));
        let mut environment = planned.environment.clone();
        if planned.image.is_none() {
            let path = COMPONENTS_IN_IMAGE.to_owned();
            environment.entry(COMPONENT_PATH.to_owned()).or_insert(path);
        }
        environment.insert(domain::DIRECTORY.to_owned(), DOMAIN_IN_CONTAINER.to_owned());
        Service {
            name: image_part(&planned.name),
            role: Role::Module,
            image: planned.image.clone().unwrap_or_else(|| self.image(&planned.name)),
            user: planned.user,
            command: self.plan.command(planned, ACCOUNT_IN_CONTAINER),
            environment,
            mounts,
            reads_graph: true,
            cpus: planned.cpus.clone(),
            memory: planned.memory,
            devices: planned.devices.clone(),
            groups: crate::plan::groups(&planned.devices),
            capabilities: if planned.real_time { vec!["SYS_NICE"] } else { Vec::new() },
            network: false,
            restart: Restart::of(module),
            stops_within: MODULE_STOPS_WITHIN,
        }
    }

    /// Returns the mounts of a module without the graph's files, which are the same for all
    /// services.
    fn other_mounts(&self, module: &PlannedModule) -> Vec<Mount> {
        let is_of_graph = |m: &Mount| self.files.iter().any(|f| f.source == m.source);
        module.mounts.iter().filter(|m| !is_of_graph(m)).cloned().collect()
    }
}

impl Restart {
    fn never() -> Self {
        Self {
            policy: RestartPolicy::Never,
            backoff: Duration::ZERO,
            max: None,
            window: Duration::ZERO,
        }
    }

    fn of(module: &ResolvedModule) -> Self {
        let r = &module.restart;
        Self { policy: r.policy, backoff: r.backoff, max: r.max, window: r.window }
    }
}

/// Returns the name of an image in the engine of this machine.
#[must_use]
pub fn local(name: &str) -> String {
    format!("localhost/driveline/{}", image_part(name))
}

/// Returns a name as part of the name of an image or object: lower case, digits, and single
/// hyphens.
#[must_use]
pub fn image_part(name: &str) -> String {
    let name = plain(name);
    let parts: Vec<&str> = name.split('-').filter(|p| !p.is_empty()).collect();
    if parts.is_empty() { "graph".to_owned() } else { parts.join("-") }
}

fn trimmed(registry: String) -> String {
    registry.trim_end_matches('/').to_owned()
}

/// Returns the graph's files, named by their paths below their common directory.
fn graph_files(graph: &ResolvedGraph) -> Result<Vec<GraphFile>, ManifestError> {
    let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
    let mut sources: Vec<PathBuf> = graph.files.iter().map(absolute).collect();
    let main = absolute(&graph.file);
    if !sources.contains(&main) {
        sources.insert(0, main);
    }
    let mut common = sources.first().and_then(|p| p.parent()).unwrap_or(Path::new("/"));
    while !sources.iter().all(|p| p.starts_with(common)) {
        common = common.parent().unwrap_or(Path::new("/"));
    }
    let read = |source: &PathBuf| {
        let text = std::fs::read_to_string(source)
            .map_err(|e| ManifestError::Read { path: source.clone(), source: e })?;
        let name = source.strip_prefix(common).unwrap_or(source).display().to_string();
        Ok(GraphFile { source: source.clone(), name, text })
    };
    sources.iter().map(read).collect()
}

fn check_names(graph: &str, plan: &Plan) -> Result<(), ManifestError> {
    let mut seen = BTreeMap::from([("prepare".to_owned(), ""), ("collector".to_owned(), "")]);
    for module in &plan.modules {
        let name = image_part(&module.name);
        let long = format!("{graph}-{name}");
        if long.len() > MAX_NAME {
            return Err(ManifestError::LongName { name: long });
        }
        if let Some(one) = seen.insert(name.clone(), &module.name) {
            if one.is_empty() {
                return Err(ManifestError::ServiceName { name: module.name.clone() });
            }
            let (one, other) = (one.to_owned(), module.name.clone());
            return Err(ManifestError::SameName { one, other, name });
        }
    }
    Ok(())
}

fn real_time_note(module: &PlannedModule) -> Option<String> {
    module.real_time.then(|| {
        format!(
            "module '{}' asks for real-time scheduling: Podman gives the capability SYS_NICE to a \
             user that is not root; Docker and Kubernetes do not, and the report says so",
            module.name
        )
    })
}

/// Returns a duration in seconds, rounded up.
fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + u64::from(duration.subsec_nanos() > 0)
}
