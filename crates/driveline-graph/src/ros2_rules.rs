// SPDX-License-Identifier: Apache-2.0
//! What stands under `ros2:`, checked against the graph.

use super::diagnostic::{Diagnostic, Place, Span};
use super::files::{Files, In, MAX_BYTES, Part, bounded_text};
use super::model::TopicSpec;
use super::resolved::ResolvedTopic;
use super::topology::{End, EndKind};
use crate::ros2::{CONVERTED, Definitions, Direction, Form, Ros2Spec, Rule};
use driveline::Reach;
use driveline_rosidl::{DefinitionError, Namespace, TypeName};
use driveline_types::TopicName;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Checks what is exchanged with ROS 2, and resolves it. Of topics that are `misspelt`, that is told already.
pub(super) fn check(
    files: &mut Files,
    topics: &BTreeMap<TopicName, ResolvedTopic>,
    misspelt: &BTreeSet<TopicName>,
    ends: &[End],
) -> Option<Ros2Spec> {
    let (document, spec) = files.ros2.as_ref().map(|r| (r.document, r.spec.clone()))?;
    let wrong = wrong(&spec);
    let place = files.place(document, &["ros2"], Part::Key);
    if spec.topics.is_empty() && spec.services.is_empty() {
        let d = Diagnostic::warning("`ros2:` has no rules, so nothing is exchanged with ROS 2")
            .at(place.clone());
        files.error(d.help("add `topics: [{topic: /camera/image, direction: to_ros}]`"));
    }
    let of = |publishes: bool| {
        ends.iter()
            .filter(|e| (e.kind == EndKind::Publisher) == publishes)
            .map(|e| &e.topic)
            .collect()
    };
    let uses = Uses { spec: &spec, topics, misspelt, published: of(true), read: of(false) };
    for (i, rule) in
        spec.topics.iter().enumerate().filter(|(i, _)| !wrong.contains(&("topics", *i)))
    {
        // Without modules, publishers are outside of the graph, and a rule that names their topic says all that is needed, as does a pattern where the graph
        // has no topics.
        let of_others =
            files.modules.is_empty() && (rule.single().is_some() || files.topics.is_empty());
        if let Some((message, help)) = uses.remark(rule).filter(|_| !of_others) {
            let place = files.place(document, &["ros2", "topics", &i.to_string()], Part::Value);
            files.error(
                Diagnostic::warning(format!("entry {} of `topics`: {message}", i + 1))
                    .at(place)
                    .help(help),
            );
        }
    }
    by_itself(files)
}

/// Entries with mistakes: their list, and their number in it.
fn wrong(spec: &Ros2Spec) -> Vec<(&'static str, usize)> {
    spec.mistakes().iter().filter_map(|m| Some((m.key, m.index?))).collect()
}

/// Checks what stands there without the topics' ends, and resolves it.
pub(super) fn by_itself(files: &mut Files) -> Option<Ros2Spec> {
    let (document, spec) = files.ros2.as_ref().map(|r| (r.document, r.spec.clone()))?;
    for m in spec.mistakes() {
        let index = m.index.map(|i| i.to_string());
        let path: Vec<&str> = ["ros2", m.key].into_iter().chain(index.as_deref()).collect();
        let place = files.place(document, &path, Part::Value);
        let number = m.index.map_or(String::new(), |i| format!("entry {} of `{}`: ", i + 1, m.key));
        files.error(Diagnostic::error(format!("{number}{}", m.message)).at(place).help(m.help));
    }
    let wrong = wrong(&spec);
    let place = files.place(document, &["ros2"], Part::Key);
    let base = place.file.parent().unwrap_or(Path::new("")).to_owned();
    let spec = spec.relative_to(&base);
    let definitions = Definitions::read(&spec.types, &base);
    for (i, e) in definitions.unusable() {
        let message = if e.place.line == 0 {
            format!("{} {}", e.place, e.problem)
        } else {
            format!("{}: {}", e.place, e.problem)
        };
        let d = Diagnostic::error(message).at(files.place(
            document,
            &["ros2", "types", &i.to_string()],
            Part::Value,
        ));
        let paths =
            if spec.types[i].is_dir() { "" } else { "; paths are relative to the graph file" };
        files.error(d.help(format!("{}{paths}", e.remedy)));
    }
    for left in definitions.left_out(&spec.topics) {
        let d = Diagnostic::warning(format!(
            "{} of what comes from ROS 2: {}",
            left.what(),
            left.error.problem
        ));
        let d = d.at(files.place(
            document,
            &["ros2", "types", &left.directory.to_string()],
            Part::Value,
        ));
        files.error(of_definition(d, &left.error));
    }
    for (name, document, written, ros_type) in types_from_ros(files, &spec) {
        // What is defined and cannot come is told of its package.
        if let Err(e) = definitions.message(&ros_type)
            && e.missing.as_deref() == Some(&ros_type)
        {
            let d = Diagnostic::warning(format!(
                "the type `{written}` of the topic `{name}` cannot come from ROS 2: {}",
                e.problem
            ));
            files.error(
                d.at(files.place(document, &["topics", &name, "type"], Part::Value)).help(e.remedy),
            );
        }
    }
    for (i, rule) in
        spec.services.iter().enumerate().filter(|(i, _)| !wrong.contains(&("services", *i)))
    {
        let number = i.to_string();
        if let Err(e) = definitions.service(&rule.ros_type) {
            let cannot = if *e.place.file == *rule.ros_type { "" } else { " cannot pass:" };
            let message =
                format!("entry {} of `services`: {}{cannot} {}", i + 1, rule.ros_type, e.problem);
            let d = Diagnostic::error(message).at(files.place(
                document,
                &["ros2", "services", &number, "type"],
                Part::Value,
            ));
            files.error(of_definition(d, &e));
        }
        if let Some((message, help)) = rule.memory_remark() {
            let d = Diagnostic::warning(format!("entry {} of `services`: {message}", i + 1));
            files.error(
                d.at(files.place(
                    document,
                    &["ros2", "services", &number, "max_response"],
                    Part::Value,
                ))
                .help(help),
            );
        }
    }
    Some(spec)
}

/// A finding with where in a definition it has its reason, and the remedy.
fn of_definition(d: Diagnostic, e: &DefinitionError) -> Diagnostic {
    let d = d.help(e.remedy.clone());
    let file = PathBuf::from(&*e.place.file);
    if !file.is_file() {
        return d;
    }
    if e.place.line == 0 {
        return d.related("here", Place { file, span: Span::default(), source: String::new() });
    }
    let number = e.place.line as usize;
    let source = bounded_text(&file, MAX_BYTES)
        .ok()
        .and_then(|t| t.lines().nth(number.saturating_sub(1)).map(str::to_owned));
    let source = source.unwrap_or_default();
    let len = source.trim_end().chars().count();
    d.related("here", Place { file, span: Span::at(number, 1, len), source })
}

/// Types of ROS 2 that topics are declared with which come from there as they are: topic, document, what is written, and its meaning.
fn types_from_ros(files: &Files, spec: &Ros2Spec) -> Vec<(String, usize, String, TypeName)> {
    let of = |(name, topic): (&String, &In<TopicSpec>)| {
        let written = topic.spec.type_name.clone()?;
        // `package/Name` is what types of Driveline are called, too.
        let ros_type: TypeName = written
            .parse()
            .ok()
            .filter(|t: &TypeName| t.to_string() == written && t.namespace() == Namespace::Msg)?;
        let rule = spec.rule(&name.parse().ok()?, true)?;
        let converted = rule.form == Form::Converted && CONVERTED.contains(&written.as_str());
        (!converted).then(|| (name.clone(), topic.document, written, ros_type))
    };
    files.topics.iter().filter_map(of).collect()
}

/// Who in the graph uses the topics that rules are about.
struct Uses<'a> {
    spec: &'a Ros2Spec,
    topics: &'a BTreeMap<TopicName, ResolvedTopic>,
    misspelt: &'a BTreeSet<TopicName>,
    published: BTreeSet<&'a TopicName>,
    read: BTreeSet<&'a TopicName>,
}

impl Uses<'_> {
    fn only_read(&self, name: &TopicName) -> bool {
        self.read.contains(name) && !self.published.contains(name)
    }

    /// What about a rule will surprise, and what to do.
    fn remark(&self, rule: &Rule) -> Option<(String, String)> {
        let covered: Vec<_> = self
            .topics
            .iter()
            .filter(|(name, _)| rule.covers(name, rule.direction == Direction::FromRos))
            .collect();
        let (misspelt, covered): (Vec<_>, Vec<_>) =
            covered.into_iter().partition(|(name, _)| self.misspelt.contains(*name));
        let (leaving, inside): (Vec<_>, Vec<_>) =
            covered.iter().partition(|(_, t)| t.reach != Reach::Process);
        // Of many topics, those between components of one process are not meant.
        let waits = |name: &TopicName| rule.direction != Direction::ToRos && self.only_read(name);
        if let Some((name, _)) =
            inside.iter().find(|(name, _)| rule.single().is_some() || waits(name))
        {
            let message = format!("the topic `{name}` does not leave its process");
            return Some((message, "give it `reach: host`, or remove the rule".into()));
        }
        if leaving.is_empty() {
            return if misspelt.is_empty() { self.covers_nothing(rule) } else { None };
        }
        let (first, _) = leaving.first()?;
        match rule.direction {
            Direction::FromRos
                if leaving.iter().all(|(name, t)| {
                    self.published.contains(name) && self.one_way(name, t, false)
                }) =>
            {
                let message = format!(
                    "a component publishes `{first}`, and the rule carries only what ROS 2 nodes publish"
                );
                let help = "write `direction: to_ros` if ROS 2 nodes read it; declare it `external: true` if they publish it, too";
                (!leaving.iter().any(|(_, t)| t.external)).then(|| (message, help.into()))
            }
            Direction::ToRos
                if leaving
                    .iter()
                    .all(|(name, t)| self.only_read(name) && self.one_way(name, t, true)) =>
            {
                let message = format!(
                    "no component publishes `{first}`, so only what programs outside of this graph publish goes to ROS 2"
                );
                Some((message, "write `direction: from_ros` if ROS 2 nodes publish it, and `both` if others do, too".into()))
            }
            _ => None,
        }
    }

    /// Whether a topic of this host is carried by no rule in this direction.
    fn one_way(&self, name: &TopicName, topic: &ResolvedTopic, from_ros: bool) -> bool {
        topic.reach == Reach::Host && self.spec.rule(name, from_ros).is_none()
    }

    /// What ROS 2 publishes is not known here, and who reads it may be outside of the graph.
    fn covers_nothing(&self, rule: &Rule) -> Option<(String, String)> {
        let to_ros = rule.direction == Direction::ToRos;
        let meant = self.topics.iter().find_map(|(name, topic)| {
            let used = if to_ros { self.published.contains(name) } else { self.only_read(name) };
            corrected(&rule.topic, name)
                .filter(|_| used && self.one_way(name, topic, !to_ros))
                .map(|pattern| (name, pattern))
        });
        match meant {
            Some((name, pattern)) => {
                let does = if to_ros { "publishes" } else { "reads" };
                let message = format!(
                    "no topic of the graph is covered by `{}`, and no rule covers `{name}`, which a component {does}",
                    rule.topic
                );
                Some((message, format!("did you mean `{pattern}`?")))
            }
            None if to_ros => {
                let help = "check its spelling (`/a/b` is the topic `a/b` of the graph), and that its topics have `reach: host`";
                Some((
                    format!(
                        "no topic of the graph that leaves its process is covered by `{}`",
                        rule.topic
                    ),
                    help.into(),
                ))
            }
            None => None,
        }
    }
}

/// The pattern with the parts corrected that the topic has with a slip; `None` if it is another one altogether, or fits.
pub(super) fn corrected(pattern: &str, topic: &TopicName) -> Option<String> {
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
