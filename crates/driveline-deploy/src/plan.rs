// SPDX-License-Identifier: Apache-2.0
//! Computes the settings of each container of a resolved graph. Nothing is started here.

use crate::arguments::{Container, cpu_list};
use crate::ulimits;
use crate::{
    ACCOUNT_IN_CONTAINER, COMPONENTS_IN_IMAGE, DEFAULT_USER, DOMAIN_IN_CONTAINER, HOST_IN_IMAGE,
    label,
};
use driveline_graph::model::SchedulingClass;
use driveline_graph::{COMPONENT_PATH, Cpus, Mount, ResolvedGraph, ResolvedModule};
use driveline_runtime::domain;
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Name of the socket by which the single container sees that the launcher lives. It is next to the
/// directories of the modules, whose names do not begin with a dot.
pub(crate) const LAUNCHER_SOCKET: &str = ".launcher";

/// Environment variables of the launcher that are passed to its modules.
const PASSED_ON: [&str; 3] = ["DRIVELINE_LOG", "RUST_BACKTRACE", "TZ"];
/// Directories of the system. A path in them is not mounted when only a parameter names it.
const SYSTEM: [&str; 10] =
    ["/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/root", "/run", "/sys", "/usr"];

/// Assignment of modules to containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All modules in one container, each in its own process.
    One,
    /// Each module in its own container.
    Each,
}

/// Plan for the containers of a graph.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Assignment of modules to containers.
    pub mode: Mode,
    /// Name of the graph.
    pub graph: String,
    /// The graph's file, absolute.
    pub file: PathBuf,
    /// Assignments `component.parameter=value`.
    pub set: Vec<String>,
    /// Maximum time for a module to stop.
    pub stop_within: Duration,
    /// True if the launcher is not root. Its engine then counts as rootless: it runs as the same
    /// user.
    pub rootless: bool,
    /// User of modules for which the graph names none.
    pub default_user: u32,
    /// Modules, in the order of the graph.
    pub modules: Vec<PlannedModule>,
}

/// Plan for one module.
#[derive(Clone, Debug)]
pub struct PlannedModule {
    /// Name.
    pub name: String,
    /// User id.
    pub user: u32,
    /// The image that the graph names; `None` if one is created from `libraries`.
    pub image: Option<String>,
    /// Component libraries.
    pub libraries: Vec<PathBuf>,
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Graph files and parameter files, paths under `mounts`, and files that parameters name.
    pub mounts: Vec<Mount>,
    /// CPUs.
    pub cpus: Option<Cpus>,
    /// Memory limit in bytes.
    pub memory: Option<u64>,
    /// Devices.
    pub devices: Vec<String>,
    /// True if an executor requests a real-time class.
    pub real_time: bool,
}

/// Resources that the containers of one run share.
#[derive(Clone, Debug)]
pub struct Shared {
    /// The run's id.
    pub id: String,
    /// The run's directory.
    pub directory: PathBuf,
    /// The directory of the domain.
    pub domain: PathBuf,
    /// Directory of the sockets on which modules send their accounts (their records).
    pub accounts: PathBuf,
    /// Seccomp profile.
    pub seccomp: Option<PathBuf>,
}

impl Plan {
    /// Returns the plan for a graph whose libraries were found. Looks for the files that parameters
    /// name.
    #[must_use]
    pub fn new(graph: &ResolvedGraph, mode: Mode, set: &[String], stop_within: Duration) -> Self {
        let own = rustix::process::geteuid().as_raw();
        let default_user = if own == 0 { DEFAULT_USER } else { own };
        let plan = Self::for_user(graph, mode, set, stop_within, default_user);
        Self { rootless: own != 0, ..plan }
    }

    /// As [`Plan::new`], with this user if the graph names none, and an engine that runs as root.
    pub(crate) fn for_user(
        graph: &ResolvedGraph,
        mode: Mode,
        set: &[String],
        stop_within: Duration,
        default_user: u32,
    ) -> Self {
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let files: Vec<PathBuf> = graph.files.iter().map(absolute).collect();
        let module = |m: &ResolvedModule| planned(m, &files, default_user);
        Self {
            mode,
            graph: graph.name.clone(),
            file: absolute(&graph.file),
            set: set.to_owned(),
            stop_within,
            rootless: false,
            default_user,
            modules: graph.modules.iter().map(module).collect(),
        }
    }

    /// Returns the module of a name.
    #[must_use]
    pub fn module(&self, name: &str) -> Option<&PlannedModule> {
        self.modules.iter().find(|m| m.name == name)
    }

    /// Returns the user of each module.
    #[must_use]
    pub fn users(&self) -> BTreeMap<String, u32> {
        self.modules.iter().map(|m| (m.name.clone(), m.user)).collect()
    }

    /// Returns program and arguments of a module's first process.
    #[must_use]
    pub fn command(&self, module: &PlannedModule, account: &str) -> Vec<String> {
        let mut command: Vec<String> = [
            HOST_IN_IMAGE,
            "contain",
            "--module",
            &module.name,
            "--graph",
            &self.file.display().to_string(),
            "--account-socket",
            &format!("{account}/socket"),
            "--default-user",
            &self.default_user.to_string(),
            "--stop-within-ms",
            &self.stop_within.as_millis().to_string(),
        ]
        .map(str::to_owned)
        .into();
        for assignment in &self.set {
            command.extend(["--set".to_owned(), assignment.clone()]);
        }
        command
    }

    /// Returns the container of a module. `number` counts the starts of all modules in the run.
    #[must_use]
    pub fn container(
        &self,
        module: &PlannedModule,
        image: &str,
        shared: &Shared,
        number: u32,
    ) -> Container {
        let mut mounts = vec![
            Mount {
                source: shared.domain.clone(),
                target: DOMAIN_IN_CONTAINER.into(),
                writable: true,
            },
            Mount {
                source: shared.accounts.join(&module.name),
                target: ACCOUNT_IN_CONTAINER.into(),
                writable: false,
            },
        ];
        mounts.extend(module.mounts.iter().cloned());
        let mut labels = self.labels(shared);
        labels.insert(label::MODULE.to_owned(), module.name.clone());
        Container {
            name: name(shared, &module.name, number),
            hostname: hostname(&module.name),
            image: image.to_owned(),
            user: module.user,
            command: self.command(module, ACCOUNT_IN_CONTAINER),
            environment: environment(module),
            mounts,
            cpus: module.cpus.clone(),
            memory: module.memory,
            devices: module.devices.clone(),
            groups: groups(&module.devices),
            labels,
            seccomp: shared.seccomp.clone(),
            real_time: module.real_time,
            keep_user: self.rootless,
            ulimits: ulimits(),
        }
    }

    /// Returns the single container of all modules; they are started in it one by one.
    #[must_use]
    pub fn one_container(&self, image: &str, shared: &Shared, number: u32) -> Container {
        let mut mounts = vec![
            Mount {
                source: shared.domain.clone(),
                target: DOMAIN_IN_CONTAINER.into(),
                writable: true,
            },
            Mount {
                source: shared.accounts.clone(),
                target: ACCOUNT_IN_CONTAINER.into(),
                writable: false,
            },
        ];
        for mount in self.modules.iter().flat_map(|m| &m.mounts) {
            if !mounts.iter().any(|m| m.target == mount.target) {
                mounts.push(mount.clone());
            }
        }
        let devices: Vec<String> = self.modules.iter().flat_map(|m| m.devices.clone()).collect();
        Container {
            name: name(shared, "all", number),
            hostname: "driveline".to_owned(),
            image: image.to_owned(),
            user: self.modules.first().map_or(DEFAULT_USER, |m| m.user),
            command: [
                HOST_IN_IMAGE,
                "hold",
                "--launcher-socket",
                &format!("{ACCOUNT_IN_CONTAINER}/{LAUNCHER_SOCKET}"),
            ]
            .map(str::to_owned)
            .into(),
            environment: BTreeMap::new(),
            mounts,
            cpus: together(&self.modules),
            memory: self.modules.iter().map(|m| m.memory).sum(),
            groups: groups(&devices),
            devices,
            labels: self.labels(shared),
            seccomp: shared.seccomp.clone(),
            real_time: self.modules.iter().any(|m| m.real_time),
            keep_user: self.rootless,
            ulimits: ulimits(),
        }
    }

    /// Returns the arguments that start a module in the single container.
    #[must_use]
    pub fn exec_arguments(&self, module: &PlannedModule, container: &str) -> Vec<String> {
        let mut a: Vec<String> = ["exec", "--detach", "--user"].map(str::to_owned).into();
        a.push(format!("{0}:{0}", module.user));
        for (name, value) in environment(module) {
            a.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        a.push(container.to_owned());
        a.extend(self.command(module, &format!("{ACCOUNT_IN_CONTAINER}/{}", module.name)));
        a
    }

    fn labels(&self, shared: &Shared) -> BTreeMap<String, String> {
        [
            (label::RUN, shared.id.clone()),
            (label::DIRECTORY, shared.directory.display().to_string()),
            (label::GRAPH, self.graph.clone()),
        ]
        .map(|(k, v)| (k.to_owned(), v))
        .into()
    }
}

fn planned(module: &ResolvedModule, files: &[PathBuf], default_user: u32) -> PlannedModule {
    let deployment = &module.deployment;
    let read_only =
        |path: &PathBuf| Mount { source: path.clone(), target: path.clone(), writable: false };
    let mut mounts: Vec<Mount> = files.iter().map(read_only).collect();
    mounts.extend(deployment.mounts.iter().cloned());
    let texts = module.components.iter().flat_map(|c| c.parameters.values());
    for path in texts.filter_map(named_file) {
        // Skip paths that are mounted already, or are inside a mounted directory.
        if !mounts.iter().any(|m| path.starts_with(&m.target)) {
            mounts.push(read_only(&path));
        }
    }
    let mut libraries: Vec<PathBuf> = module.components.iter().map(|c| c.library.clone()).collect();
    libraries.sort();
    libraries.dedup();
    let is_real_time = |class| matches!(class, SchedulingClass::Fifo | SchedulingClass::RoundRobin);
    PlannedModule {
        name: module.name.to_string(),
        user: deployment.user.unwrap_or(default_user),
        image: deployment.image.clone(),
        libraries,
        environment: module.environment.clone(),
        mounts,
        cpus: deployment.cpus.clone(),
        memory: deployment.memory,
        devices: deployment.devices.clone(),
        real_time: module.executors.iter().any(|e| is_real_time(e.schedule.class)),
    }
}

/// Returns the file or directory that a parameter names, if it is an absolute path that exists, is
/// at least two levels below `/`, is not one of the system, and has no comma or colon.
fn named_file(value: &driveline::ParameterValue) -> Option<PathBuf> {
    let driveline::ParameterValue::Text(text) = value else { return None };
    let path = Path::new(text);
    let of_system = SYSTEM.iter().any(|d| path.starts_with(d));
    let deep_enough = path.components().count() > 2;
    (path.is_absolute() && deep_enough && !of_system && path.exists() && !text.contains([',', ':']))
        .then(|| path.to_owned())
}

fn environment(module: &PlannedModule) -> BTreeMap<String, String> {
    let mut all: BTreeMap<String, String> = PASSED_ON
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    if module.image.is_none() {
        all.insert(COMPONENT_PATH.to_owned(), COMPONENTS_IN_IMAGE.to_owned());
    }
    all.extend(module.environment.clone());
    all.insert(domain::DIRECTORY.to_owned(), DOMAIN_IN_CONTAINER.to_owned());
    all
}

/// Returns the groups of devices, such as `video` and `render`. Usually only their members have
/// access to the devices.
pub(crate) fn groups(devices: &[String]) -> Vec<u32> {
    let path = |device: &String| device.split(':').next().map(PathBuf::from);
    let mut groups: Vec<u32> = devices
        .iter()
        .filter(|d| d.starts_with("/dev/"))
        .filter_map(|d| std::fs::metadata(path(d)?).ok().map(|m| m.gid()))
        .filter(|gid| *gid != 0)
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

fn together(modules: &[PlannedModule]) -> Option<Cpus> {
    let mut set = Vec::new();
    for module in modules {
        match &module.cpus {
            Some(Cpus::Set(cpus)) => set.extend(cpus),
            // A module without a CPU set may run on any CPU.
            _ => return None,
        }
    }
    set.sort_unstable();
    set.dedup();
    (!set.is_empty()).then_some(Cpus::Set(set))
}

fn name(shared: &Shared, module: &str, number: u32) -> String {
    let id = shared.id.get(..8).unwrap_or(&shared.id);
    format!("driveline-{id}-{}-{number}", plain(module))
}

fn hostname(module: &str) -> String {
    plain(module).chars().take(63).collect()
}

/// Returns a name with the characters that engines allow.
pub(crate) fn plain(name: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    name.chars().map(allowed).collect()
}

impl PlannedModule {
    /// Returns its CPUs as text for people.
    #[must_use]
    pub fn cpus_text(&self) -> Option<String> {
        self.cpus.as_ref().map(|c| match c {
            Cpus::Quota(quota) => format!("{quota} CPUs"),
            Cpus::Set(set) => cpu_list(set),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_graph::descriptor::{ComponentClass, ParameterDecl};
    use driveline_graph::{Colour, LoadOptions, load};

    fn planned_graph(keys: &str, mode: Mode) -> (Plan, tempfile::TempDir) {
        let dir = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        put("libx.so", "");
        put("video.mp4", "");
        put("parameters.yaml", "");
        let video = dir.path().join("video.mp4");
        put(
            "g.yaml",
            &format!(
                "driveline: 1\nname: two\nparams_files: [parameters.yaml]\nmodules:\n  \
                 cam_era:\n{keys}    components:\n      camera: {{library: libx.so, class: X, \
                 parameters: {{source: {}}}}}\n  other:\n    components:\n      other: {{library: \
                 libx.so, class: X}}\n",
                video.display()
            ),
        );
        let describe = |_: &Path| {
            let source = ParameterDecl {
                name: "source".into(),
                default: driveline::ParameterValue::Text(String::new()),
                doc: String::new(),
                range: None,
                live: None,
            };
            let class = ComponentClass {
                name: "X".into(),
                doc: String::new(),
                parameters: vec![source],
                inputs: vec![],
                outputs: vec![],
            };
            Ok(vec![class])
        };
        let loaded = load(&dir.path().join("g.yaml"), &LoadOptions::new(&describe));
        let graph =
            loaded.graph.unwrap_or_else(|| panic!("{}", loaded.diagnostics.render(Colour::No)));
        let set = ["camera.source=x".to_owned()];
        (Plan::new(&graph, mode, &set, Duration::from_secs(6)), dir)
    }

    fn shared() -> Shared {
        Shared {
            id: "0123456789abcdef".into(),
            directory: "/dev/shm/driveline-run-x".into(),
            domain: "/dev/shm/driveline-run-x/domain".into(),
            accounts: "/dev/shm/driveline-run-x/accounts".into(),
            seccomp: None,
        }
    }

    #[test]
    fn a_module_sees_its_own_account_the_domain_the_graph_and_what_its_parameters_name() {
        let (plan, dir) = planned_graph("", Mode::Each);
        let module = plan.module("cam_era").unwrap();
        let c = plan.container(module, "localhost/x:1", &shared(), 2);
        assert_eq!(
            (c.name.as_str(), c.hostname.as_str()),
            ("driveline-01234567-cam-era-2", "cam-era")
        );
        let mounted: Vec<(PathBuf, bool)> =
            c.mounts.iter().map(|m| (m.source.clone(), m.writable)).collect();
        let at = |name: &str| (dir.path().join(name), false);
        assert_eq!(
            mounted,
            [
                (PathBuf::from("/dev/shm/driveline-run-x/domain"), true),
                (PathBuf::from("/dev/shm/driveline-run-x/accounts/cam_era"), false),
                at("g.yaml"),
                at("parameters.yaml"),
                at("video.mp4"),
            ]
        );
        assert_eq!(c.environment["DRIVELINE_DOMAIN_DIR"], "/run/driveline/domain");
        assert_eq!(c.environment["DRIVELINE_COMPONENT_PATH"], "/opt/driveline/components");
        assert_eq!(c.labels["org.driveline.module"], "cam_era");
        let command = c.command.join(" ");
        assert!(
            command.starts_with("/opt/driveline/bin/driveline-host contain --module cam_era"),
            "{command}"
        );
        assert!(command.ends_with("--stop-within-ms 6000 --set camera.source=x"), "{command}");
        let other = plan.container(plan.module("other").unwrap(), "x", &shared(), 1);
        assert!(!other.mounts.iter().any(|m| m.source.ends_with("video.mp4")));
    }

    #[test]
    fn keys_of_the_graph_win_over_what_is_default() {
        let (plan, _dir) = planned_graph(
            "    user: 1234\n    image: localhost/mine:2\n    memory: 64 MiB\n    cpus: [1]\n    \
             mounts: [maps:/maps]\n",
            Mode::Each,
        );
        let module = plan.module("cam_era").unwrap();
        let c = plan.container(module, "localhost/mine:2", &shared(), 1);
        assert_eq!((c.user, c.memory, c.cpus), (1234, Some(64 << 20), Some(Cpus::Set(vec![1]))));
        assert!(c.mounts.iter().any(|m| m.target == Path::new("/maps")));
        // Its own image sets the path of its libraries.
        assert!(!c.environment.contains_key("DRIVELINE_COMPONENT_PATH"));
    }

    #[test]
    fn one_container_has_what_all_need_and_a_module_is_started_in_it() {
        let (plan, _dir) = planned_graph("    user: 1234\n    cpus: [1]\n", Mode::One);
        let c = plan.one_container("x", &shared(), 1);
        assert_eq!(
            c.command,
            [
                "/opt/driveline/bin/driveline-host",
                "hold",
                "--launcher-socket",
                "/run/driveline/account/.launcher"
            ]
        );
        assert_eq!(c.cpus, None, "the other module may run anywhere");
        assert!(c.mounts.iter().any(|m| m.source.ends_with("video.mp4")));
        assert!(!c.labels.contains_key(label::MODULE));
        let exec = plan.exec_arguments(plan.module("cam_era").unwrap(), "c").join(" ");
        assert!(exec.starts_with("exec --detach --user 1234:1234 "), "{exec}");
        assert!(exec.contains("--account-socket /run/driveline/account/cam_era/socket"), "{exec}");
    }

    #[test]
    fn files_of_the_system_are_not_mounted_because_a_parameter_names_them() {
        let text = |t: &str| driveline::ParameterValue::Text(t.into());
        for system in ["/etc/passwd", "/proc/self", "/tmp", "relative", "/nowhere/at/all"] {
            assert_eq!(named_file(&text(system)), None, "{system}");
        }
    }
}
