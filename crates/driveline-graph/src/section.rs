// SPDX-License-Identifier: Apache-2.0
//! Sections of graph files that gateways own: keys next to `topics` and `modules`.
//!
//! This crate contains none of them. A gateway registers its [`Section`], and a program that checks
//! whole graphs passes the sections to [`load`](crate::load) and [`json_schema`]. `driveline-host`
//! passes none and skips their keys: the launcher that starts it has checked them.

use super::de;
pub use super::de::Refused;
use super::diagnostic::{Diagnostic, Place};
use super::files::{Files, Part};
use super::model::{GraphFile, TopicSpec};
use super::resolved::ResolvedTopic;
use super::yaml::{Node, Value};
use driveline_types::TopicName;
use schemars::{Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;

/// A key of graph files that a gateway owns.
pub trait Section: Debug + Send + Sync {
    /// Returns the key.
    fn key(&self) -> &'static str;
    /// Returns the name of the gateway's process in a run. No module may have it.
    fn process(&self) -> &'static str;
    /// Returns the purpose for which the gateway runs without modules, as the end of a sentence.
    fn runs_alone_for(&self) -> &'static str;
    /// Returns the schema of the value, with its description.
    fn schema(&self, generator: &mut SchemaGenerator) -> Schema;
    /// Reads the value.
    ///
    /// # Errors
    /// The first part that is refused, with its place.
    fn read(&self, value: &SectionValue<'_>) -> Result<Arc<dyn SectionSpec>, Refused>;
    /// Returns a finding if the graph needs the key and lacks it.
    fn missing(&self, _topics: &BTreeMap<TopicName, ResolvedTopic>) -> Option<Diagnostic> {
        None
    }
}

/// The value of a [`Section`] in a graph.
pub trait SectionSpec: Any + Debug + Send + Sync + erased_serde::Serialize {
    /// Returns the rules by which the gateway exchanges topics of this host.
    fn rules(&self) -> Vec<TopicRule> {
        Vec::new()
    }
    /// Returns the name of the other side of the rules, for texts, such as `ROS 2`.
    fn peer(&self) -> &'static str {
        ""
    }
    /// Returns true if this value shows that the graph runs by itself, even without modules, and is
    /// not only included by others.
    fn takes_part(&self) -> bool;
    /// Returns true if the gateway is started although no topic reaches other hosts.
    fn runs_alone(&self) -> bool;
    /// Checks the value and returns it with paths relative to the working directory. `graph` is
    /// `None` if parts of the graph could not be read.
    fn check(
        &self,
        at: &mut SectionCheck<'_>,
        graph: Option<&GraphTopics<'_>>,
    ) -> Arc<dyn SectionSpec>;
}

erased_serde::serialize_trait_object!(SectionSpec);

/// Rule of a section: the topics that it covers, and the directions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRule {
    /// Pattern: `/a/b`; `*` stands for one part, `**` at the end for all following parts.
    pub pattern: String,
    /// True if samples come into this graph.
    pub inward: bool,
    /// True if samples leave this graph.
    pub outward: bool,
}

impl TopicRule {
    /// Returns true if a topic is covered in a direction.
    #[must_use]
    pub fn covers(&self, topic: &TopicName, inward: bool) -> bool {
        (if inward { self.inward } else { self.outward }) && covers(&self.pattern, topic.as_str())
    }

    /// Returns the topic, if the pattern is the name of one.
    #[must_use]
    pub fn single(&self) -> Option<TopicName> {
        single(&self.pattern)
    }
}

/// Returns true if a pattern covers a name. The name has no leading `/`.
#[must_use]
pub fn covers(pattern: &str, name: &str) -> bool {
    let mut tokens = name.split('/');
    let mut pattern = pattern.strip_prefix('/').unwrap_or_default().split('/');
    loop {
        match (pattern.next(), tokens.next()) {
            (None, None) | (Some("**"), Some(_)) => return true,
            (Some("*"), Some(_)) => {}
            (Some(p), Some(t)) if p == t => {}
            _ => return false,
        }
    }
}

/// Returns the topic, if a pattern is the name of one.
#[must_use]
pub fn single(pattern: &str) -> Option<TopicName> {
    (!pattern.contains('*')).then(|| pattern.strip_prefix('/')?.parse().ok()).flatten()
}

/// Returns the pattern with misspelt parts corrected to match the topic. Returns `None` if the
/// topic differs by more than misspelt parts, or if the pattern already covers it.
#[must_use]
pub fn corrected(pattern: &str, topic: &TopicName) -> Option<String> {
    let written: Vec<&str> = pattern.strip_prefix('/')?.split('/').collect();
    let parts: Vec<&str> = topic.as_str().split('/').collect();
    if written.len() > parts.len() || (written.len() < parts.len() && written.last() != Some(&"**"))
    {
        return None;
    }
    let near = |a: &str, b: &str| strsim::damerau_levenshtein(a, b) <= (a.len() / 4).clamp(1, 2);
    let part = |(w, p)| match (w, p) {
        ("*" | "**", _) => Some(w),
        _ => near(w, p).then_some(p),
    };
    let corrected = format!(
        "/{}",
        written.into_iter().zip(parts).map(part).collect::<Option<Vec<&str>>>()?.join("/")
    );
    (corrected != pattern).then_some(corrected)
}

/// The value under a key in a file.
pub struct SectionValue<'a>(&'a Node);

impl SectionValue<'_> {
    /// Converts it to a type.
    ///
    /// # Errors
    /// The first part that is refused, with its place.
    pub fn typed<T: DeserializeOwned>(&self) -> Result<T, Refused> {
        de::typed(self.0)
    }
}

/// Place of a section in the files of a graph, for its checks.
pub struct SectionCheck<'a> {
    files: &'a mut Files,
    document: usize,
    key: &'static str,
}

impl SectionCheck<'_> {
    /// The place of the key.
    #[must_use]
    pub fn key_place(&self) -> Place {
        self.files.place(self.document, &[self.key], Part::Key)
    }

    /// The place of the value at a path below the key, or of as much of the path as exists.
    #[must_use]
    pub fn value_place(&self, path: &[&str]) -> Place {
        self.files.place(self.document, &[&[self.key], path].concat(), Part::Value)
    }

    /// Directory of the file, to which paths in it are relative.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.key_place().file.parent().unwrap_or(std::path::Path::new("")).to_owned()
    }

    /// Adds a finding.
    pub fn report(&mut self, finding: Diagnostic) {
        self.files.error(finding);
    }

    /// Entries under `topics:`, by name.
    pub fn declared_topics(&self) -> impl Iterator<Item = (&str, &TopicSpec)> {
        self.files.topics.iter().map(|(name, topic)| (name.as_str(), &topic.spec))
    }

    /// The place of the type of an entry under `topics:`.
    #[must_use]
    pub fn type_place(&self, topic: &str) -> Option<Place> {
        let document = self.files.topics.get(topic)?.document;
        Some(self.files.place(document, &["topics", topic, "type"], Part::Value))
    }

    /// Returns true if the graph has modules.
    #[must_use]
    pub fn has_modules(&self) -> bool {
        !self.files.modules.is_empty()
    }
}

/// Topics of a graph, for the checks of a section.
pub struct GraphTopics<'a> {
    /// All topics of the graph, resolved.
    pub topics: &'a BTreeMap<TopicName, ResolvedTopic>,
    /// Topics whose name is reported as misspelt.
    pub misspelt: &'a BTreeSet<TopicName>,
    /// Topics that a component publishes.
    pub published: BTreeSet<&'a TopicName>,
    /// Topics that a component reads.
    pub read: BTreeSet<&'a TopicName>,
}

/// A section of a graph under resolution.
pub(super) struct InSection {
    pub(super) key: &'static str,
    pub(super) document: usize,
    pub(super) spec: Arc<dyn SectionSpec>,
    pub(super) rules: Vec<TopicRule>,
}

impl InSection {
    /// Reads the entry of a section, if a file has one.
    pub(super) fn read(
        section: &dyn Section,
        document: usize,
        root: &Node,
    ) -> Result<Option<Self>, Refused> {
        let entry = root.entry(section.key()).filter(|e| e.value.value != Value::Null);
        let Some(entry) = entry else { return Ok(None) };
        let spec = section.read(&SectionValue(&entry.value))?;
        Ok(Some(Self { key: section.key(), document, rules: spec.rules(), spec }))
    }

    /// Returns true if a rule covers a topic in a direction.
    pub(super) fn covers(&self, topic: &TopicName, inward: bool) -> bool {
        self.rules.iter().any(|rule| rule.covers(topic, inward))
    }
}

/// Checks all sections of a graph and resolves them.
pub(super) fn check(
    files: &mut Files,
    sections: &[&'static dyn Section],
    graph: Option<&GraphTopics<'_>>,
) -> Sections {
    let mut resolved = Vec::new();
    for section in sections {
        let found = files.sections.iter().find(|s| s.key == section.key());
        let found = found.map(|s| (s.document, s.spec.clone()));
        let spec = found.map(|(document, spec)| {
            spec.check(&mut SectionCheck { files, document, key: section.key() }, graph)
        });
        if let (None, Some(graph)) = (&spec, graph)
            && let Some(finding) = section.missing(graph.topics)
        {
            files.error(finding);
        }
        resolved.push((section.key(), spec));
    }
    Sections(resolved)
}

/// Values of all registered sections, in the order of registration. A section that the graph lacks
/// is `null` in JSON.
#[derive(Clone, Debug, Default)]
pub struct Sections(Vec<(&'static str, Option<Arc<dyn SectionSpec>>)>);

impl Sections {
    /// Returns the value of the section that has the type `T`, if the graph has this section.
    #[must_use]
    pub fn get<T: SectionSpec>(&self) -> Option<&T> {
        self.0.iter().find_map(|(_, spec)| {
            let spec: &dyn Any = spec.as_deref()?;
            spec.downcast_ref()
        })
    }

    /// Returns true if a gateway is started although no topic reaches other hosts.
    pub(super) fn run_alone(&self) -> bool {
        self.0.iter().any(|(_, spec)| spec.as_ref().is_some_and(|s| s.runs_alone()))
    }
}

impl Serialize for Sections {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, spec) in &self.0 {
            map.serialize_entry(key, &spec.as_deref())?;
        }
        map.end()
    }
}

impl PartialEq for Sections {
    fn eq(&self, other: &Self) -> bool {
        let json = |sections: &Self| serde_json::to_value(sections).ok();
        json(self) == json(other)
    }
}

/// The JSON Schema of graph files with these sections, for editors.
#[must_use]
pub fn json_schema(sections: &[&dyn Section]) -> schemars::Schema {
    let mut generator = schemars::SchemaGenerator::default();
    let of_sections: Vec<_> =
        sections.iter().map(|s| (s.key(), s.schema(&mut generator))).collect();
    let mut schema = generator.into_root_schema_for::<GraphFile>();
    if let Some(properties) = schema.get_mut("properties").and_then(|p| p.as_object_mut()) {
        properties.extend(of_sections.into_iter().map(|(key, s)| (key.to_owned(), s.to_value())));
    }
    schema
}

/// Known sections of gateways in graph files.
#[derive(Clone, Debug)]
pub enum Registered {
    /// These sections. Other keys are refused.
    Known(&'static [&'static dyn Section]),
    /// No section is known: another process has checked the graph, and keys of gateways are
    /// skipped.
    Elsewhere {
        /// Topics that gateways read by rules. `None`: these topics are unknown, and if a key was
        /// skipped, a gateway may read any topic.
        carried: Option<Vec<String>>,
    },
}

impl Default for Registered {
    fn default() -> Self {
        Self::Known(&[])
    }
}

impl Registered {
    pub(super) fn sections(&self) -> &'static [&'static dyn Section] {
        match self {
            Self::Known(sections) => sections,
            Self::Elsewhere { .. } => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_cover_parts_of_names_and_slips_are_corrected() {
        for (pattern, name, is_covered) in [
            ("/camera/image", "camera/image", true),
            ("/camera/*", "camera/image", true),
            ("/camera/*", "camera/left/image", false),
            ("/camera/**", "camera/left/image", true),
            ("/camera/**", "camera", false),
            ("/other", "camera", false),
        ] {
            assert_eq!(covers(pattern, name), is_covered, "{pattern} {name}");
        }
        let topic: TopicName = "camera/image".parse().unwrap();
        assert_eq!(corrected("/camra/*", &topic).as_deref(), Some("/camera/*"));
        assert_eq!(corrected("/lidar/*", &topic), None);
        assert_eq!(corrected("/camera/*", &topic), None);
        assert_eq!(single("/camera/image"), Some(topic));
        assert_eq!(single("/camera/*"), None);
    }
}
