// SPDX-License-Identifier: Apache-2.0
//! Reads the files of a graph: the file, its includes and its parameter files, each value with its
//! place.

use super::de;
use super::diagnostic::{Diagnostic, Diagnostics, Place, Site, Sources, Span};
use super::model::ModeSpec;
use super::model::OnLauncherLost;
use super::model::{GraphFile, ModuleSpec, TopicSpec};
use super::section::InSection;
use super::section::Registered;
use super::yaml::{self, Entries, Fault, Node, Value};
use super::{partial, shape, variables};
use driveline::Reach;
use driveline_types::TopicName;
use indexmap::IndexMap;
use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Maximum number of files of one graph, parameter files included.
const MAX_FILES: usize = 64;
/// Maximum number of bytes of all files together.
pub const MAX_BYTES: usize = 2 * yaml::MAX_FILE_BYTES;
/// Maximum numbers of components (also of modules), of connected ports, and of topics with an
/// entry, in one graph. They are far above the numbers in any vehicle, and small enough for checks
/// that compare all pairs.
const MAX_COMPONENTS: usize = 1000;
const MAX_PORTS: usize = 10_000;
const MAX_TOPICS: usize = 4000;

/// Maximum number of invalid values in one file that serde refuses and that the check against the
/// schema does not find.
const MOST_REFUSED: usize = 16;

/// Part of an entry: its key or its value.
#[derive(Clone, Copy)]
pub(super) enum Part {
    Key,
    Value,
}

/// A file that was read.
struct Document {
    file: usize,
    root: Node,
}

/// A value, with the document that contains it.
pub(super) struct In<T> {
    pub(super) document: usize,
    pub(super) spec: T,
}

/// The value of a parameter from a file or an argument.
pub(super) struct Assignment {
    pub(super) component: String,
    pub(super) parameter: String,
    pub(super) value: Node,
    /// Place of the component's name. The next two fields are the places of the parameter's name
    /// and of the value. All three are `None` for a command-line argument.
    pub(super) component_site: Option<Site>,
    pub(super) parameter_site: Option<Site>,
    pub(super) value_site: Option<Site>,
    /// The argument, as given.
    pub(super) argument: Option<String>,
}

/// All files of a graph, joined.
#[derive(Default)]
pub(super) struct Files {
    pub(super) name: Option<String>,
    pub(super) domain: Option<String>,
    pub(super) domain_group: Option<u32>,
    pub(super) on_launcher_lost: Option<In<OnLauncherLost>>,
    pub(super) health_topic: Option<In<String>>,
    /// Sections of registered gateways.
    pub(super) sections: Vec<InSection>,
    /// True if top-level keys were skipped because no gateway is registered for them.
    pub(super) has_skipped: bool,
    registered: Registered,
    schema: serde_json::Value,
    pub(super) topics: IndexMap<String, In<TopicSpec>>,
    pub(super) modules: IndexMap<String, In<ModuleSpec>>,
    pub(super) modes: IndexMap<String, In<ModeSpec>>,
    pub(super) initial_mode: Option<In<String>>,
    /// In order of growing precedence.
    pub(super) assignments: Vec<Assignment>,
    pub(super) found: Diagnostics,
    pub(super) sources: Sources,
    documents: Vec<Document>,
    /// Canonical paths of all graph files read so far, also of those in progress.
    read: Vec<PathBuf>,
    /// Number of files that were read or could not be read.
    tried: usize,
    /// Canonical paths of the files in progress, each with the place of its include.
    open: Vec<(PathBuf, Option<Place>)>,
}

/// Remedy for a file that cannot be read, without a known cause.
pub(super) const CHECK_PATH: &str = "check the path";

/// Reason why a file cannot be read, and the remedy if it differs from `CHECK_PATH`.
#[derive(Debug)]
pub struct Unreadable {
    /// Reason, as the end of a sentence.
    pub reason: String,
    /// The remedy.
    pub help: Option<String>,
}

impl From<std::io::Error> for Unreadable {
    fn from(e: std::io::Error) -> Self {
        let denied = e.kind() == std::io::ErrorKind::PermissionDenied;
        let help = "let this user read the file, and enter the directories above it (`namei -l`)";
        Self { reason: e.to_string(), help: denied.then(|| help.to_owned()) }
    }
}

impl From<String> for Unreadable {
    fn from(reason: String) -> Self {
        Self { reason, help: None }
    }
}

impl Unreadable {
    /// Returns the reason for a file that contains bytes of value 0, as text in UTF-16 does and
    /// text in UTF-8 does not.
    fn with_zeros(bytes: &[u8], path: &Path) -> Self {
        let marked = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
        if !marked {
            return "it is not text; YAML files are text in UTF-8".to_owned().into();
        }
        let help = format!(
            "save it as UTF-8; `iconv -f UTF-16 -t UTF-8 {} > utf8.yaml` converts it",
            path.display()
        );
        Self { reason: "it is in UTF-16".to_owned(), help: Some(help) }
    }

    /// Remedy for a file of another encoding.
    fn encoding(reason: String, path: &Path) -> Self {
        let path = path.display();
        let help = format!(
            "save it as UTF-8; `iconv -f ISO-8859-1 -t UTF-8 {path} > utf8.yaml` converts a file \
             of Western Europe, `file {path}` guesses the encoding"
        );
        Self { reason, help: Some(help) }
    }
}

/// Reads a regular file of at most `room` bytes, and at most 4 MiB. Refuses pipes and devices: they
/// could block or never end.
///
/// # Errors
/// Why it cannot be read.
pub fn bounded_text(path: &Path, room: usize) -> Result<String, Unreadable> {
    let regular = |m: &std::fs::Metadata| {
        if m.is_dir() {
            Err("it is a directory".to_owned())
        } else if !m.is_file() {
            Err("it is not a regular file".to_owned())
        } else {
            Ok(())
        }
    };
    // Checked before the file is opened, since opening a device can have effects, and again for the
    // opened file.
    regular(&std::fs::metadata(path)?)?;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed())
        .open(path);
    let file = file?;
    regular(&file.metadata()?)?;
    let most = room.min(yaml::MAX_FILE_BYTES);
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > yaml::MAX_FILE_BYTES {
        return Err(Unreadable {
            reason: format!("it is longer than the {} bytes that are read", yaml::MAX_FILE_BYTES),
            help: Some("split it; a graph names its parts under `include:`".to_owned()),
        });
    } else if bytes.len() > most {
        return Err(format!(
            "with it, the files of the graph are longer than {MAX_BYTES} bytes together"
        )
        .into());
    }
    if bytes.contains(&0) {
        return Err(Unreadable::with_zeros(&bytes, path));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text),
        Err(e) if e.utf8_error().valid_up_to() > 0 => {
            let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()]
                .iter()
                .filter(|b| **b == b'\n')
                .count();
            Err(Unreadable::encoding(format!("line {line} is not in UTF-8"), path))
        }
        Err(_) => Err(Unreadable::encoding("line 1 is not in UTF-8".to_owned(), path)),
    }
}

impl Files {
    /// Reads a graph file and all files that belong to it. Findings are in `found`.
    pub(super) fn read(path: &Path, registered: Registered) -> Self {
        let schema = super::section::json_schema(registered.sections()).to_value();
        let mut files = Self { registered, schema, ..Self::default() };
        files.graph(path, None);
        files
    }

    /// Returns true if a gateway reads the topic by a rule
    /// ([`TopicRule`](super::section::TopicRule)), or may read it, and this process does not know
    /// the gateway's section ([`Registered::Elsewhere`]).
    pub(super) fn is_carried_elsewhere(&self, topic: &TopicName, reach: Reach) -> bool {
        let Registered::Elsewhere { carried } = &self.registered else { return false };
        match carried {
            Some(topics) => topics.iter().any(|name| name == topic.as_str()),
            None => self.has_skipped && reach != Reach::Process,
        }
    }

    /// Returns true if the graph is too large for further checks, and reports it.
    pub(super) fn is_too_large(&mut self) -> bool {
        let components = || self.modules.values().flat_map(|m| m.spec.components.values());
        let ports = components().map(|c| c.inputs.len() + c.outputs.len()).sum();
        let sizes = [
            ("modules", self.modules.len(), MAX_COMPONENTS),
            ("components", components().count(), MAX_COMPONENTS),
            ("connected ports", ports, MAX_PORTS),
            ("entries under `topics:`", self.topics.len(), MAX_TOPICS),
        ];
        let too_large: Vec<_> = sizes.into_iter().filter(|(_, n, most)| n > most).collect();
        for (what, n, most) in &too_large {
            self.error(
                Diagnostic::error(format!("the graph has {n} {what}; at most {most} are possible"))
                    .help("make several graphs of it"),
            );
        }
        !too_large.is_empty()
    }

    pub(super) fn error(&mut self, d: Diagnostic) {
        self.found.push(d);
    }

    /// Returns the place of the entry at `path` in a document, or of the longest existing part of
    /// the path. Items of a list have their index, from 0.
    pub(super) fn site(&self, document: usize, path: &[&str], part: Part) -> Site {
        let Some(doc) = self.documents.get(document) else {
            return Site { file: usize::MAX, span: Span::default() };
        };
        let mut node = &doc.root;
        let mut span = node.span;
        for (i, key) in path.iter().enumerate() {
            if let Value::List(items) = &node.value {
                let Some(item) = key.parse().ok().and_then(|n: usize| items.get(n)) else { break };
                (node, span) = (item, item.span);
                continue;
            }
            let Some(entry) = node.entry(key) else { break };
            let value_has_place = entry.value.value != Value::Null;
            span = if i + 1 == path.len() && matches!(part, Part::Value) && value_has_place {
                entry.value.span
            } else {
                entry.key_span
            };
            node = &entry.value;
        }
        Site { file: doc.file, span }
    }

    /// Returns the directory of a document's file, to which paths in the file are relative.
    pub(super) fn directory_of(&self, document: usize) -> PathBuf {
        let file = self.documents.get(document).and_then(|d| self.sources.path(d.file));
        file.and_then(Path::parent).map(Path::to_owned).unwrap_or_default()
    }

    pub(super) fn place(&self, document: usize, path: &[&str], part: Part) -> Place {
        self.sources.place(self.site(document, path, part))
    }

    fn text(&mut self, path: &Path, from: Option<&Place>) -> Option<(usize, String)> {
        let room = MAX_BYTES.saturating_sub(self.sources.bytes());
        self.tried += 1;
        let fault = if self.tried > MAX_FILES {
            Err(Unreadable {
                reason: format!("a graph can have at most {MAX_FILES} files"),
                help: Some("put the content of several files into one".to_owned()),
            })
        } else {
            bounded_text(path, room)
        };
        match fault {
            Ok(text) => Some((self.sources.add(path.to_owned(), text.clone()), text)),
            Err(Unreadable { reason, help }) => {
                let d = Diagnostic::error(format!("cannot read {}: {reason}", path.display()));
                let d = match (from, help) {
                    (Some(place), Some(help)) => d.at(place.clone()).help(help),
                    (Some(place), None) => d
                        .at(place.clone())
                        .help("paths are relative to the file in which they stand"),
                    (None, help) => d.help(help.unwrap_or_else(|| CHECK_PATH.to_owned())),
                };
                self.error(d);
                None
            }
        }
    }

    fn faults(&mut self, file: usize, faults: Vec<Fault>) {
        for f in faults {
            let mut d = Diagnostic::error(f.message)
                .at(self.sources.place(Site { file, span: f.span }))
                .maybe_help(f.help);
            if let Some((span, message)) = f.other {
                d = d.related(message, self.sources.place(Site { file, span }));
            }
            self.error(d);
        }
    }

    fn graph(&mut self, path: &Path, from: Option<Place>) {
        // A file that does not exist has no canonical path. It is reported when it is read.
        let canonical = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        if let Some(at) = self.open.iter().position(|(p, _)| *p == canonical) {
            let chain = self.open[at..]
                .iter()
                .map(|(p, _)| p.file_name().unwrap_or_default().to_string_lossy().into_owned());
            let chain = chain
                .chain([path.file_name().unwrap_or_default().to_string_lossy().into_owned()])
                .collect::<Vec<_>>()
                .join(" → ");
            let mut d = Diagnostic::error(format!("these files include each other: {chain}"))
                .help("remove one of the includes");
            if let Some(place) = from {
                d = d.at(place);
            }
            return self.error(d);
        }
        if self.read.contains(&canonical) {
            return;
        }
        self.read.push(canonical.clone());
        let Some((file, text)) = self.text(path, from.as_ref()) else { return };
        let (root, faults) = yaml::parse(&text);
        self.faults(file, faults);
        let Some(mut root) = root else { return };
        if let Some(f) = shape::another_kind(&root, &self.schema, path) {
            let d = Diagnostic::error(f.message)
                .at(self.sources.place(Site { file, span: f.span }))
                .maybe_help(f.help);
            return self.error(d);
        }
        let faults = variables::expand(&mut root, &|name| std::env::var(name).ok());
        let mistakes = faults.iter().map(|f| f.span).collect();
        self.faults(file, faults);
        let document = self.documents.len();
        let spec = self.without_mistakes(file, document, &root, mistakes);
        self.documents.push(Document { file, root });
        let Some((spec, sections)) = spec else { return };

        let directory = path.parent().unwrap_or(Path::new(""));
        self.open.push((canonical, from));
        for (i, include) in spec.include.iter().enumerate() {
            if self.tried > MAX_FILES {
                break;
            }
            let place = self.item_place(document, "include", i);
            self.graph(&directory.join(include), Some(place));
        }
        self.open.pop();
        self.join(document, &spec, sections);
        for (i, params) in spec.params_files.iter().enumerate() {
            if self.tried > MAX_FILES {
                break;
            }
            let place = self.item_place(document, "params_files", i);
            self.params(&directory.join(params), &place);
        }
    }

    /// Removes the mistakes from a file and returns the rest. Reports the mistakes, except those in
    /// `mistakes`, which are already reported. Returns `None` if no part remains that could be
    /// checked alone.
    fn without_mistakes(
        &mut self,
        file: usize,
        document: usize,
        root: &Node,
        mut mistakes: Vec<Span>,
    ) -> Option<(GraphFile, Vec<InSection>)> {
        let known;
        let root = if matches!(self.registered, Registered::Elsewhere { .. }) {
            known = self.without_other_keys(root);
            &known
        } else {
            root
        };
        let told = mistakes.len();
        for f in shape::check(root, &self.schema) {
            let d = Diagnostic::error(f.message)
                .at(self.sources.place(Site { file, span: f.span }))
                .maybe_help(f.help);
            self.error(d);
            mistakes.push(f.span);
        }
        if mistakes.len() >= Diagnostics::MOST {
            return None;
        }
        let by_schema = mistakes.len() > told;
        // serde reports only the first part that it refuses: this part is removed before the next
        // attempt.
        for _ in 0..MOST_REFUSED {
            let part =
                if mistakes.is_empty() { root.clone() } else { partial::part(root, &mistakes)? };
            let e = match self.typed(document, &part) {
                Ok(spec) => return Some(spec),
                // A mistake remains that the check against the schema has already reported. It is
                // in a value that an alias (`*name`) repeats: the copy has the place of the
                // original, so only the original was removed.
                Err(_) if by_schema => return None,
                Err(e) => e,
            };
            let span = e.span.unwrap_or_default();
            if mistakes.contains(&span) {
                break;
            }
            let d = Diagnostic::error(e.message).at(self.sources.place(Site { file, span }));
            self.error(d);
            mistakes.push(span);
        }
        None
    }

    /// Returns a file without top-level keys that belong to gateways.
    fn without_other_keys(&mut self, root: &Node) -> Node {
        let Value::Map(entries) = &root.value else { return root.clone() };
        let is_known = |key: &String| !self.schema["properties"][key.as_str()].is_null();
        let known: Entries = entries
            .iter()
            .filter(|(key, _)| is_known(key))
            .map(|(k, e)| (k.clone(), e.clone()))
            .collect();
        self.has_skipped |= known.len() < entries.len();
        Node { span: root.span, value: Value::Map(known) }
    }

    /// Converts a file to types; the gateways convert their sections.
    fn typed(
        &self,
        document: usize,
        root: &Node,
    ) -> Result<(GraphFile, Vec<InSection>), de::Refused> {
        let mut rest = root.clone();
        let mut sections = Vec::new();
        for section in self.registered.sections() {
            sections.extend(InSection::read(*section, document, root)?);
            if let Value::Map(entries) = &mut rest.value {
                entries.shift_remove(section.key());
            }
        }
        Ok((de::typed(&rest)?, sections))
    }

    fn item_place(&self, document: usize, key: &str, index: usize) -> Place {
        let doc = &self.documents[document];
        let node = doc.root.entry(key).map(|e| &e.value);
        let span = match node.map(|n| &n.value) {
            Some(Value::List(items)) => items.get(index).map(|n| n.span),
            _ => node.map(|n| n.span),
        };
        self.sources.place(Site { file: doc.file, span: span.unwrap_or_default() })
    }

    fn join(&mut self, document: usize, spec: &GraphFile, sections: Vec<InSection>) {
        // Included files are joined before the file that includes them, so the name in the
        // including file takes precedence.
        self.name = spec.name.clone().or(self.name.take());
        self.domain = spec.domain.clone().or(self.domain.take());
        self.domain_group = spec.domain_group.or(self.domain_group);
        if let Some(lost) = spec.on_launcher_lost.clone() {
            self.on_launcher_lost = Some(In { document, spec: lost });
        }
        if let Some(topic) = spec.health_topic.clone() {
            self.health_topic = Some(In { document, spec: topic });
        }
        for section in sections {
            self.sections.retain(|other| other.key != section.key);
            self.sections.push(section);
        }
        self.join_modes(document, spec);
        for (name, spec) in &spec.topics {
            match self.topics.get(name).map(|t| t.document) {
                Some(other) => self.twice("topic", name, &["topics", name], document, other),
                None => drop(self.topics.insert(name.clone(), In { document, spec: spec.clone() })),
            }
        }
        for (name, spec) in &spec.modules {
            match self.modules.get(name).map(|m| m.document) {
                Some(other) => self.twice("module", name, &["modules", name], document, other),
                None => {
                    drop(self.modules.insert(name.clone(), In { document, spec: spec.clone() }))
                }
            }
        }
    }

    fn join_modes(&mut self, document: usize, spec: &GraphFile) {
        if let Some(initial) = spec.initial_mode.clone() {
            self.initial_mode = Some(In { document, spec: initial });
        }
        for (name, spec) in &spec.modes {
            match self.modes.get(name).map(|m| m.document) {
                Some(other) => self.twice("mode", name, &["modes", name], document, other),
                None => drop(self.modes.insert(name.clone(), In { document, spec: spec.clone() })),
            }
        }
    }

    fn twice(&mut self, what: &str, name: &str, path: &[&str], document: usize, other: usize) {
        let d = Diagnostic::error(format!("the {what} `{name}` is defined in two files"))
            .at(self.place(document, path, Part::Key))
            .related("also defined here", self.place(other, path, Part::Key))
            .help("keep one of them; parameters that differ belong into `params_files:`");
        self.error(d);
    }

    fn params(&mut self, path: &Path, from: &Place) {
        let Some((file, text)) = self.text(path, Some(from)) else { return };
        let (root, faults) = yaml::parse(&text);
        self.faults(file, faults);
        let Some(root) = root else { return };
        const SHAPE: &str =
            "a parameter file reads `component:`, and indented below it `parameter: value`";
        if !matches!(root.value, Value::Map(_)) {
            let d = Diagnostic::error(format!("this is {}", root.describe()))
                .at(self.sources.place(Site { file, span: root.span }))
                .help(SHAPE);
            return self.error(d);
        }
        for (name, component) in root.entries() {
            let site = |span| Some(Site { file, span });
            if !matches!(component.value.value, Value::Map(_) | Value::Null) {
                let place = self.sources.place(Site { file, span: component.value.span });
                let d = Diagnostic::error(format!(
                    "`{}` needs parameters, and this is {}",
                    yaml::shorten(name),
                    component.value.describe()
                ))
                .at(place);
                self.error(d.help(SHAPE));
            }
            for (parameter, p) in component.value.entries() {
                self.assignments.push(Assignment {
                    component: name.clone(),
                    parameter: parameter.clone(),
                    value: p.value.clone(),
                    component_site: site(component.key_span),
                    parameter_site: site(p.key_span),
                    value_site: site(if p.value.value == Value::Null {
                        p.key_span
                    } else {
                        p.value.span
                    }),
                    argument: None,
                });
            }
        }
    }

    /// Adds `component.parameter=value` from the command line.
    pub(super) fn set(&mut self, argument: &str) {
        let shown = yaml::shorten(argument);
        let parts = argument.split_once('=').and_then(|(path, value)| {
            path.trim().split_once('.').map(|(c, p)| (c.trim(), p.trim(), value.trim()))
        });
        let Some((component, parameter, text)) =
            parts.filter(|(c, p, _)| !c.is_empty() && !p.is_empty())
        else {
            let d = Diagnostic::error(format!("`--set {shown}` is not an assignment"))
                .help("write `--set component.parameter=value`");
            return self.error(d);
        };
        // Parsed like a value in a file, so that `50`, `true` and `[1, 2]` have the same meaning in
        // `--set` and in files. If it cannot be parsed, or the parameter is text, it is text.
        let value = match yaml::parse(&format!("- {text}")) {
            (Some(Node { value: Value::List(mut items), .. }), faults)
                if faults.is_empty() && items.len() == 1 =>
            {
                items.pop().map(|n| n.value)
            }
            _ => None,
        };
        let value = match value {
            Some(Value::Null) | None => Value::Text(text.to_owned()),
            Some(value) => value,
        };
        self.assignments.push(Assignment {
            component: component.to_owned(),
            parameter: parameter.to_owned(),
            value: Node { span: Span::default(), value },
            component_site: None,
            parameter_site: None,
            value_site: None,
            argument: Some(argument.to_owned()),
        });
    }
}
