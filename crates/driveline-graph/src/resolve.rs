// SPDX-License-Identifier: Apache-2.0
//! Resolves the files of a graph into a [`ResolvedGraph`]: modules, components, ports, parameters,
//! triggers.
//!
//! The module `topology` checks all ends of a topic together.

mod ports;

use super::deployment;
use super::diagnostic::{Diagnostic, Diagnostics, Place, suggest};
use super::files::{Assignment, Files, Part};
use super::library::{Describe, DescribeError, Environment, NotFound, default_library_dirs, find};
use super::model::{ComponentSpec, ExecutorSpec, GroupSpec, ModuleSpec};
use super::modes;
use super::resolved::{ResolvedComponent, ResolvedExecutor, ResolvedGraph, ResolvedModule};
use super::section::{self, GraphTopics, Registered, Section};
use super::standby;
use super::topology::{self, End, EndKind};
use super::{health_topic, reaction, real_time, supervision};
use crate::descriptor::ComponentClass;
use driveline::{Reach, SchedulingClass};
use driveline_shm::domain::DIRECTORY_VARIABLE;
use driveline_types::NodeName;
use indexmap::IndexMap;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Executor of the components that name none.
const MAIN: &str = "main";

/// Returns true if a module gets the executor `main` although the graph does not declare it.
pub(super) fn adds_main_executor(spec: &ModuleSpec) -> bool {
    !spec.executors.contains_key(MAIN)
        && spec.components.values().any(|c| c.executor.as_deref().unwrap_or(MAIN) == MAIN)
}

/// Options for loading a graph.
pub struct LoadOptions<'a> {
    /// Lists the classes of libraries.
    pub describe: &'a dyn Describe,
    /// Assignments `component.parameter=value` that win over all files.
    pub set: Vec<String>,
    /// Modules whose libraries are read; the libraries of others may be missing on this machine.
    /// Default: all.
    pub modules: Option<Vec<String>>,
    /// Directories in which libraries are searched after the directory of the file that names them.
    pub library_dirs: Vec<PathBuf>,
    /// Sections of gateways. Default: none is known.
    pub registered: Registered,
}

impl<'a> LoadOptions<'a> {
    /// Creates options for all modules, with libraries from the default places and no assignments.
    #[must_use]
    pub fn new(describe: &'a dyn Describe) -> Self {
        Self {
            describe,
            set: Vec::new(),
            modules: None,
            library_dirs: default_library_dirs(),
            registered: Registered::default(),
        }
    }
}

/// Result of loading a graph file.
#[derive(Debug)]
pub struct Loaded {
    /// The graph, unless there are errors.
    pub graph: Option<ResolvedGraph>,
    /// All findings.
    pub diagnostics: Diagnostics,
    /// True if only some parts could be read. Each of them was checked by itself; connections
    /// between them were not checked.
    pub is_partial: bool,
}

/// Reads, checks and resolves a graph file. Blocks while [`LoadOptions::describe`] lists the
/// classes of libraries.
#[must_use]
pub fn load(path: &Path, options: &LoadOptions<'_>) -> Loaded {
    let mut files = Files::read(path, options.registered.clone());
    // Parts that could not be read must not be reported as missing from the graph. So if there are
    // such parts, each of the others is checked only by itself.
    let is_whole = files.found.errors() == 0;
    let is_too_large = files.is_too_large();
    for argument in &options.set {
        files.set(argument);
    }
    let mut is_partial = false;
    let graph = match Resolver::new(&mut files, options) {
        _ if is_too_large => None,
        resolver if is_whole => Some(resolver.run(path)),
        resolver => {
            is_partial = resolver.each_by_itself();
            None
        }
    };
    files.found.sort();
    let graph = graph.filter(|_| files.found.errors() == 0);
    Loaded { graph, diagnostics: files.found, is_partial }
}

pub(super) struct Resolver<'a> {
    pub(super) files: &'a mut Files,
    pub(super) options: &'a LoadOptions<'a>,
    pub(super) assignments: Vec<Assignment>,
    /// Classes of each library, by the path found and the environment. The environment may decide
    /// whether the library loads. `None`: the failure is already reported.
    libraries: HashMap<(PathBuf, Environment), Option<Vec<ComponentClass>>>,
    /// Libraries that were not found, so that each is reported once.
    missing: Vec<PathBuf>,
    /// Components seen so far: module and document.
    pub(super) components: IndexMap<String, (String, usize)>,
    ends: Vec<End>,
}

/// A component under resolution, and its place in the files.
pub(super) struct At<'a> {
    pub(super) document: usize,
    pub(super) module: &'a str,
    pub(super) component: &'a str,
}

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c == '=' || c.is_control())
}

fn environment(module: &ModuleSpec) -> Environment {
    module
        .environment
        .iter()
        .filter(|(k, _)| is_variable(k))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect()
}

impl At<'_> {
    fn path<'b>(&'b self, rest: &[&'b str]) -> Vec<&'b str> {
        ["modules", self.module, "components", self.component]
            .into_iter()
            .chain(rest.iter().copied())
            .collect()
    }
}

impl<'a> Resolver<'a> {
    fn new(files: &'a mut Files, options: &'a LoadOptions<'a>) -> Self {
        let assignments = std::mem::take(&mut files.assignments);
        Self {
            files,
            options,
            assignments,
            libraries: HashMap::new(),
            missing: Vec::new(),
            components: IndexMap::new(),
            ends: Vec::new(),
        }
    }

    fn error(&mut self, message: impl Into<String>, place: Place, help: Option<String>) {
        self.files.error(Diagnostic::error(message).at(place).maybe_help(help));
    }

    pub(super) fn place(&self, at: &At<'_>, rest: &[&str], part: Part) -> Place {
        self.files.place(at.document, &at.path(rest), part)
    }

    fn specs(&self) -> Vec<(String, usize, ModuleSpec)> {
        self.files
            .modules
            .iter()
            .map(|(name, m)| (name.clone(), m.document, m.spec.clone()))
            .collect()
    }

    /// Checks the modules and the gateways' sections of an incomplete graph, each by itself.
    /// Returns false if it has no modules.
    fn each_by_itself(mut self) -> bool {
        let specs = self.specs();
        self.component_names(&specs);
        for (name, document, spec) in &specs {
            self.module(name, *document, spec);
        }
        section::check(self.files, self.options.registered.sections(), None);
        !specs.is_empty()
    }

    fn run(mut self, path: &Path) -> ResolvedGraph {
        let specs = self.specs();
        if let Some(wanted) = &self.options.modules {
            for name in wanted.iter().filter(|w| !specs.iter().any(|(n, ..)| n == *w)) {
                let help = suggest(name, "modules", specs.iter().map(|(n, ..)| n.as_str()));
                self.files
                    .error(Diagnostic::error(format!("there is no module `{name}`")).help(help));
            }
        }
        // Parameters of unknown components can only be reported once all components are known.
        self.component_names(&specs);
        self.unknown_assignments();
        let mut modules: Vec<_> = specs
            .iter()
            .filter_map(|(name, document, spec)| self.module(name, *document, spec))
            .collect();
        self.loaded_together(&modules);
        supervision::check(self.files, &specs, &modules);
        let components: Vec<String> = self.components.keys().cloned().collect();
        let looked_at = self.options.modules.as_deref();
        let modes = modes::check(self.files, &components, &modules, looked_at);
        let names: Vec<String> = self.files.modes.keys().cloned().collect();
        reaction::check(self.files, &specs, &names);
        real_time::check(self.files, &specs);
        let on_launcher_lost = reaction::on_launcher_lost(self.files, &names);
        let (topics, misspelt) = topology::check(self.files, &self.ends);
        let health_topic = health_topic::check(self.files, &topics);
        standby::apply(self.files, &specs, &topics, &mut modules);
        let of = |publishes: bool| {
            let ends = self.ends.iter();
            ends.filter(|e| (e.kind == EndKind::Publisher) == publishes).map(|e| &e.topic).collect()
        };
        let known = self.options.registered.sections();
        let seen = GraphTopics {
            topics: &topics,
            misspelt: &misspelt,
            published: of(true),
            read: of(false),
        };
        let sections = section::check(self.files, known, Some(&seen));
        let bridge = topics.values().any(|t| t.reach == Reach::Network) || sections.run_alone();
        if specs.is_empty() && !bridge {
            let place = self.files.place(0, &["modules"], Part::Key);
            let d =
                Diagnostic::error("the graph has no modules, so there is nothing to run").at(place);
            self.files.error(d.help(format!(
                "add `modules:`; a file that others include is checked with them{}",
                alone(known)
            )));
        }
        let name =
            self.files.name.clone().unwrap_or_else(|| {
                path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
            });
        let domain = self.files.domain.clone().unwrap_or_else(driveline_shm::domain::default_name);
        let graph = ResolvedGraph {
            name,
            domain,
            domain_group: self.files.domain_group,
            file: path.to_owned(),
            files: self.files.sources.paths(),
            sections,
            on_launcher_lost,
            health_topic,
            topics,
            modules,
            modes,
        };
        topology::cycles(self.files, &graph, &self.components);
        graph
    }

    /// Checks that the libraries of each module can be loaded together; so far each was loaded
    /// alone.
    fn loaded_together(&mut self, modules: &[ResolvedModule]) {
        for module in modules {
            let document = self
                .files
                .modules
                .iter()
                .find(|(name, _)| *name == module.name.as_str())
                .map(|(_, m)| m.document);
            let is_known = |library: &PathBuf| {
                let classes = self.libraries.get(&(library.clone(), module.environment.clone()));
                classes.is_some_and(Option::is_some)
            };
            if let Some(document) = document
                && module.components.iter().all(|c| is_known(&c.library))
            {
                self.together(document, module);
            }
        }
    }

    /// Notes the components; duplicate names are reported.
    fn component_names(&mut self, specs: &[(String, usize, ModuleSpec)]) {
        for (module, document, spec) in specs {
            for component in spec.components.keys() {
                if let Some((other_module, other)) = self.components.get(component) {
                    let d = Diagnostic::error(format!(
                        "the component `{component}` exists twice; names are unique in a graph"
                    ))
                    .at(self.files.place(
                        *document,
                        &["modules", module, "components", component],
                        Part::Key,
                    ))
                    .related(
                        "also here",
                        self.files.place(
                            *other,
                            &["modules", other_module, "components", component],
                            Part::Key,
                        ),
                    )
                    .help(format!("rename one of them, for example to `{module}_{component}`"));
                    self.files.error(d);
                } else {
                    self.components.insert(component.clone(), (module.clone(), *document));
                }
            }
        }
    }

    fn looked_at(&self, module: &str) -> bool {
        self.options.modules.as_ref().is_none_or(|wanted| wanted.iter().any(|w| w == module))
    }

    fn module(&mut self, name: &str, document: usize, spec: &ModuleSpec) -> Option<ResolvedModule> {
        let valid = name.parse::<NodeName>();
        if let Err(e) = &valid {
            self.error(
                format!("module {e}"),
                self.files.place(document, &["modules", name], Part::Key),
                None,
            );
        } else if self.options.registered.sections().iter().any(|s| s.process() == name) {
            let place = self.files.place(document, &["modules", name], Part::Key);
            self.error(
                format!("`{name}` is the name of a gateway's process in each run"),
                place,
                Some("give the module another name".into()),
            );
        }
        if spec.components.is_empty() {
            let place = self.files.place(document, &["modules", name], Part::Key);
            self.files.error(
                Diagnostic::warning(format!("the module `{name}` has no components")).at(place),
            );
        }
        for key in spec.environment.keys().filter(|k| !is_variable(k)) {
            let place =
                self.files.place(document, &["modules", name, "environment", key], Part::Key);
            self.error(
                format!("`{key}` cannot be the name of an environment variable"),
                place,
                None,
            );
        }
        if spec.environment.contains_key(DIRECTORY_VARIABLE) {
            let path = ["modules", name, "environment", DIRECTORY_VARIABLE];
            let message = format!(
                "`{DIRECTORY_VARIABLE}` puts the module `{name}` into a domain of its own, where \
                 no other module of the run sees it"
            );
            let help = "remove it here. In the environment of `driveline run` it applies to all \
                        modules";
            let place = self.files.place(document, &path, Part::Key);
            self.files.error(Diagnostic::warning(message).at(place).help(help));
        }
        let mut executors: Vec<ResolvedExecutor> = Vec::new();
        for (executor, e) in &spec.executors {
            self.schedule(document, name, executor, e);
            executors.push(ResolvedExecutor {
                name: executor.clone(),
                threads: e.threads,
                spin_us: e.spin_us,
                schedule: e.schedule.clone(),
            });
        }
        if adds_main_executor(spec) {
            let e = ExecutorSpec::default();
            executors.push(ResolvedExecutor {
                name: MAIN.to_owned(),
                threads: e.threads,
                spin_us: e.spin_us,
                schedule: e.schedule,
            });
        }
        let mut components = Vec::new();
        for (component, c) in &spec.components {
            let at = At { document, module: name, component };
            components.extend(self.component(&at, c, spec));
        }
        let has_deadline =
            |c: &ResolvedComponent| c.inputs.iter().any(|i| i.qos.deadline_ms.is_some());
        if spec.on_deadline.is_some()
            && components.len() == spec.components.len()
            && !components.iter().any(has_deadline)
        {
            let place = self.files.place(document, &["modules", name, "on_deadline"], Part::Value);
            self.error(
                format!("no input of `{name}` has a deadline that could be missed"),
                place,
                Some("add `qos: { deadline_ms: … }` to a topic, or remove `on_deadline`".into()),
            );
        }
        Some(ResolvedModule {
            name: valid.ok()?,
            environment: environment(spec),
            executors,
            components,
            restart: supervision::restart(spec),
            ready_within: supervision::ready_within(spec),
            depends_on: spec.depends_on.clone(),
            restart_with: spec.restart_with.clone(),
            deployment: deployment::deployment(self.files, document, name, spec),
            watch: reaction::watch(spec),
            real_time: real_time::real_time(spec),
        })
    }

    fn schedule(&mut self, document: usize, module: &str, executor: &str, e: &ExecutorSpec) {
        let real_time =
            matches!(e.schedule.class, SchedulingClass::Fifo | SchedulingClass::RoundRobin);
        let (key, message, help) = if e.schedule.priority > 99 {
            ("priority", "this priority is out of range", "it must be between 1 (low) and 99")
        } else if !(-20..=19).contains(&e.schedule.nice) {
            ("nice", "this nice value is out of range", "it must be between -20 (favoured) and 19")
        } else if real_time && e.schedule.priority == 0 {
            ("class", "a real-time class needs a priority", "add `priority:` from 1 (low) to 99")
        } else if !real_time && e.schedule.priority != 0 {
            (
                "priority",
                "only real-time classes have a priority",
                "use `class: fifo`, or `nice:` from -20 (favoured) to 19",
            )
        } else if !matches!(e.schedule.class, SchedulingClass::Other | SchedulingClass::Batch)
            && e.schedule.nice != 0
        {
            ("nice", "this class has no nice value", "use `priority:`, or `class: other`")
        } else {
            return;
        };
        let place = self.files.place(
            document,
            &["modules", module, "executors", executor, "schedule", key],
            Part::Value,
        );
        self.error(format!("executor `{executor}`: {message}"), place, Some(help.into()));
    }

    fn component(
        &mut self,
        at: &At<'_>,
        spec: &ComponentSpec,
        module: &ModuleSpec,
    ) -> Option<ResolvedComponent> {
        let name = at.component.parse::<NodeName>();
        if let Err(e) = &name {
            self.error(format!("component {e}"), self.place(at, &[], Part::Key), None);
        }
        let executor = spec.executor.clone().unwrap_or_else(|| MAIN.to_owned());
        let threads = match module.executors.get(&executor) {
            Some(e) => e.threads,
            None if executor == MAIN => 1,
            None => {
                let names = module.executors.keys().map(String::as_str).chain([MAIN]);
                let help = suggest(&executor, "executors", names);
                let message = format!("the module `{}` has no executor `{executor}`", at.module);
                self.error(message, self.place(at, &["executor"], Part::Value), Some(help));
                1
            }
        };
        let (library, class) = self.class(at, spec, &environment(module));
        let outputs = self.outputs(at, spec, class.as_ref(), module);
        let concurrency = if spec.callback_group == GroupSpec::Reentrant { threads } else { 1 };
        let inputs = self.inputs(at, spec, class.as_ref(), concurrency, module);
        let ports: Vec<&str> = inputs.iter().map(|i| i.port.as_str()).collect();
        let trigger = self.trigger(at, spec.trigger.as_ref(), &ports);
        let parameters = self.parameters(at, spec, class.as_ref());
        let live = class.as_ref().map(super::parameters::live).unwrap_or_default();
        let ranges = class.as_ref().map(super::parameters::ranges).unwrap_or_default();
        Some(ResolvedComponent {
            live,
            ranges,
            name: name.ok()?,
            library,
            class: spec.class.clone(),
            executor,
            callback_group: spec.callback_group,
            parameters,
            inputs,
            outputs,
            trigger,
            budget: reaction::budget(module, spec),
        })
    }

    fn class(
        &mut self,
        at: &At<'_>,
        spec: &ComponentSpec,
        environment: &Environment,
    ) -> (PathBuf, Option<ComponentClass>) {
        if !self.looked_at(at.module) {
            return (spec.library.clone(), None);
        }
        let place = self.place(at, &["library"], Part::Value);
        let mut dirs = vec![place.file.parent().map_or_else(PathBuf::new, Path::to_owned)];
        dirs.extend(self.options.library_dirs.iter().cloned());
        let library = match find(&spec.library, &dirs) {
            Ok(path) => path,
            Err(NotFound { searched, present }) => {
                if !self.missing.contains(&spec.library) {
                    self.missing.push(spec.library.clone());
                    let wanted =
                        spec.library.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    let near =
                        super::diagnostic::closest(&wanted, present.iter().map(String::as_str));
                    let list = searched.iter().map(|p| {
                        if p.as_os_str().is_empty() { ".".into() } else { p.display().to_string() }
                    });
                    let list = list.collect::<Vec<_>>().join(", ");
                    let help = match near {
                        Some(near) => format!(
                            "did you mean `{}`? (searched: {list})",
                            spec.library.with_file_name(near).display()
                        ),
                        None => format!(
                            "searched: {list}; build it, or add its directory to \
                             DRIVELINE_COMPONENT_PATH"
                        ),
                    };
                    self.error(
                        format!("the library `{}` does not exist", spec.library.display()),
                        place,
                        Some(help),
                    );
                }
                return (spec.library.clone(), None);
            }
        };
        let key = (library, environment.clone());
        if !self.libraries.contains_key(&key) {
            let classes = match self.options.describe.describe(&key.0, environment) {
                Ok(classes) => Some(classes),
                Err(DescribeError { reason, help }) => {
                    self.error(
                        format!(
                            "the library `{}` cannot be used: {reason}",
                            spec.library.display()
                        ),
                        place,
                        help,
                    );
                    None
                }
            };
            self.libraries.insert(key.clone(), classes);
        }
        let Some(Some(classes)) = self.libraries.get(&key) else { return (key.0, None) };
        let class = classes.iter().find(|c| c.name == spec.class).cloned();
        if class.is_none() {
            let help =
                suggest(&spec.class, "classes in it", classes.iter().map(|c| c.name.as_str()));
            let message = format!(
                "the library `{}` has no component class `{}`",
                spec.library.display(),
                spec.class
            );
            self.error(message, self.place(at, &["class"], Part::Value), Some(help));
        }
        (key.0, class)
    }
}

/// Lists the purposes for which gateways run without modules, as the end of a sentence.
fn alone(sections: &[&dyn Section]) -> String {
    if sections.is_empty() {
        return String::new();
    }
    let each: Vec<&str> = sections.iter().rev().map(|s| s.runs_alone_for()).collect();
    format!("; gateways alone run {}", each.join(", "))
}
