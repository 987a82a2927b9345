// SPDX-License-Identifier: Apache-2.0
//! Section `ros2:`, checked against the graph.

use crate::ros2::{CONVERTED, Definitions, Direction, Form, PROCESS, Ros2Spec, Rule};
use driveline::Reach;
use driveline_graph::resolved::ResolvedTopic;
use driveline_graph::section::{
    GraphTopics, Refused, Section, SectionCheck, SectionSpec, SectionValue, TopicRule, corrected,
};
use driveline_graph::{Diagnostic, MAX_BYTES, Place, Span, bounded_text};
use driveline_rosidl::{DefinitionError, Namespace, TypeName};
use driveline_types::TopicName;
use schemars::{Schema, SchemaGenerator};
use std::path::PathBuf;
use std::sync::Arc;

/// The key `ros2`.
#[derive(Debug)]
pub(crate) struct Ros2Section;

impl Section for Ros2Section {
    fn key(&self) -> &'static str {
        "ros2"
    }

    fn process(&self) -> &'static str {
        PROCESS
    }

    fn runs_alone_for(&self) -> &'static str {
        "for rules under `ros2:`"
    }

    fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        let about = "Which topics are exchanged with ROS 2 nodes, over DDS and by rmw_zenoh.";
        super::optional::<Ros2Spec>(generator, about)
    }

    fn read(&self, value: &SectionValue<'_>) -> Result<Arc<dyn SectionSpec>, Refused> {
        Ok(Arc::new(value.typed::<Ros2Spec>()?))
    }
}

impl SectionSpec for Ros2Spec {
    fn rules(&self) -> Vec<TopicRule> {
        let of = |rule: &Rule| TopicRule {
            pattern: rule.topic.clone(),
            inward: rule.direction != Direction::ToRos,
            outward: rule.direction != Direction::FromRos,
        };
        self.topics.iter().map(of).collect()
    }

    fn peer(&self) -> &'static str {
        "ROS 2"
    }

    fn takes_part(&self) -> bool {
        self.has_rules()
    }

    fn runs_alone(&self) -> bool {
        self.has_rules()
    }

    fn check(
        &self,
        at: &mut SectionCheck<'_>,
        graph: Option<&GraphTopics<'_>>,
    ) -> Arc<dyn SectionSpec> {
        if let Some(graph) = graph {
            remarks(self, at, graph);
        }
        Arc::new(by_itself(self, at))
    }
}

/// Reports rules with surprising effects. Misspelt topics are reported elsewhere.
fn remarks(spec: &Ros2Spec, at: &mut SectionCheck<'_>, graph: &GraphTopics<'_>) {
    let wrong = wrong(spec);
    if spec.topics.is_empty() && spec.services.is_empty() {
        let d = Diagnostic::warning("`ros2:` has no rules, so nothing is exchanged with ROS 2")
            .at(at.key_place());
        at.report(d.help("add `topics: [{topic: /camera/image, direction: to_ros}]`"));
    }
    let uses = Uses { spec, graph };
    let has_topics = at.declared_topics().next().is_some();
    for (i, rule) in
        spec.topics.iter().enumerate().filter(|(i, _)| !wrong.contains(&("topics", *i)))
    {
        // Without modules, publishers are outside of the graph. Then a rule that names their topic
        // needs no remark, nor does a pattern if the graph has no topics.
        let of_others = !at.has_modules() && (rule.single().is_some() || !has_topics);
        if let Some((message, help)) = uses.remark(rule).filter(|_| !of_others) {
            let place = at.value_place(&["topics", &i.to_string()]);
            at.report(
                Diagnostic::warning(format!("entry {} of `topics`: {message}", i + 1))
                    .at(place)
                    .help(help),
            );
        }
    }
}

/// Returns the entries with mistakes: their list, and their index in it.
fn wrong(spec: &Ros2Spec) -> Vec<(&'static str, usize)> {
    spec.mistakes().iter().filter_map(|m| Some((m.key, m.index?))).collect()
}

/// Checks and resolves the section without the publishers and subscriptions of topics.
fn by_itself(spec: &Ros2Spec, at: &mut SectionCheck<'_>) -> Ros2Spec {
    for m in spec.mistakes() {
        let index = m.index.map(|i| i.to_string());
        let path: Vec<&str> = [m.key].into_iter().chain(index.as_deref()).collect();
        let place = at.value_place(&path);
        let number = m.index.map_or(String::new(), |i| format!("entry {} of `{}`: ", i + 1, m.key));
        at.report(Diagnostic::error(format!("{number}{}", m.message)).at(place).help(m.help));
    }
    let wrong = wrong(spec);
    let base = at.directory();
    let spec = spec.clone().relative_to(&base);
    let definitions = Definitions::read(&spec.types, &base);
    for (i, e) in definitions.unusable() {
        let message = if e.place.line == 0 {
            format!("{} {}", e.place, e.problem)
        } else {
            format!("{}: {}", e.place, e.problem)
        };
        let d = Diagnostic::error(message).at(at.value_place(&["types", &i.to_string()]));
        let paths =
            if spec.types[i].is_dir() { "" } else { "; paths are relative to the graph file" };
        at.report(d.help(format!("{}{paths}", e.remedy)));
    }
    for left in definitions.left_out(&spec.topics) {
        let d = Diagnostic::warning(format!(
            "{} for topics from ROS 2: {}",
            left.what(),
            left.error.problem
        ));
        let d = d.at(at.value_place(&["types", &left.directory.to_string()]));
        at.report(of_definition(d, &left.error));
    }
    for (name, written, ros_type) in types_from_ros(at, &spec) {
        // An existing but unusable definition is reported for its package.
        if let Err(e) = definitions.message(&ros_type)
            && e.missing.as_deref() == Some(&ros_type)
        {
            let d = Diagnostic::warning(format!(
                "the type `{written}` of the topic `{name}` cannot come from ROS 2: {}",
                e.problem
            ));
            let d = match at.type_place(&name) {
                Some(place) => d.at(place),
                None => d,
            };
            at.report(d.help(e.remedy));
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
            let d = Diagnostic::error(message).at(at.value_place(&["services", &number, "type"]));
            at.report(of_definition(d, &e));
        }
        if let Some((message, help)) = rule.memory_remark() {
            let d = Diagnostic::warning(format!("entry {} of `services`: {message}", i + 1));
            at.report(d.at(at.value_place(&["services", &number, "max_response"])).help(help));
        }
    }
    spec
}

/// Adds to a finding the place of its reason in a definition, and the remedy.
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

/// Returns the topics that are declared with a ROS 2 type and pass unchanged: topic, declared type,
/// and the ROS 2 type that it stands for.
fn types_from_ros(at: &SectionCheck<'_>, spec: &Ros2Spec) -> Vec<(String, String, TypeName)> {
    let of = |(name, topic): (&str, &driveline_graph::model::TopicSpec)| {
        let written = topic.type_name.clone()?;
        // Driveline's own types can have the form `package/Name` too.
        let ros_type: TypeName = written
            .parse()
            .ok()
            .filter(|t: &TypeName| t.to_string() == written && t.namespace() == Namespace::Msg)?;
        let rule = spec.rule(&name.parse().ok()?, true)?;
        let converted = rule.form == Form::Converted && CONVERTED.contains(&written.as_str());
        (!converted).then(|| (name.to_owned(), written, ros_type))
    };
    at.declared_topics().filter_map(of).collect()
}

/// Uses of topics in the graph, for rules.
struct Uses<'a> {
    spec: &'a Ros2Spec,
    graph: &'a GraphTopics<'a>,
}

impl Uses<'_> {
    fn only_read(&self, name: &TopicName) -> bool {
        self.graph.read.contains(name) && !self.graph.published.contains(name)
    }

    /// Remark on a rule with surprising effects, with the remedy.
    fn remark(&self, rule: &Rule) -> Option<(String, String)> {
        let covered: Vec<_> = self
            .graph
            .topics
            .iter()
            .filter(|(name, _)| rule.covers(name, rule.direction == Direction::FromRos))
            .collect();
        let (misspelt, covered): (Vec<_>, Vec<_>) =
            covered.into_iter().partition(|(name, _)| self.graph.misspelt.contains(*name));
        let (leaving, inside): (Vec<_>, Vec<_>) =
            covered.iter().partition(|(_, t)| t.reach != Reach::Process);
        // Topics between components of one process are not meant by a pattern.
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
                    self.graph.published.contains(name) && self.one_way(name, t, false)
                }) =>
            {
                let message = format!(
                    "a component publishes `{first}`, and the rule carries only samples of ROS 2 \
                     nodes"
                );
                let help = "write `direction: to_ros` if ROS 2 nodes read it; declare it \
                     `external: true` if they publish it, too";
                (!leaving.iter().any(|(_, t)| t.external)).then(|| (message, help.into()))
            }
            Direction::ToRos
                if leaving
                    .iter()
                    .all(|(name, t)| self.only_read(name) && self.one_way(name, t, true)) =>
            {
                let message = format!(
                    "no component publishes `{first}`, so only samples of programs outside of this \
                     graph go to ROS 2"
                );
                Some((
                    message,
                    "write `direction: from_ros` if ROS 2 nodes publish it, and `both` \
                     if others do, too"
                        .into(),
                ))
            }
            _ => None,
        }
    }

    /// Returns true if the topic has `reach: host` and no rule carries it in this direction.
    fn one_way(&self, name: &TopicName, topic: &ResolvedTopic, from_ros: bool) -> bool {
        topic.reach == Reach::Host && self.spec.rule(name, from_ros).is_none()
    }

    /// Returns a remark on a rule that covers no topic. Publishers in ROS 2 are not known here, and
    /// readers may be outside of the graph.
    fn covers_nothing(&self, rule: &Rule) -> Option<(String, String)> {
        let to_ros = rule.direction == Direction::ToRos;
        let meant = self.graph.topics.iter().find_map(|(name, topic)| {
            let used =
                if to_ros { self.graph.published.contains(name) } else { self.only_read(name) };
            corrected(&rule.topic, name)
                .filter(|_| used && self.one_way(name, topic, !to_ros))
                .map(|pattern| (name, pattern))
        });
        match meant {
            Some((name, pattern)) => {
                let does = if to_ros { "publishes" } else { "reads" };
                let message = format!(
                    "no topic of the graph is covered by `{}`, and no rule covers `{name}`, which \
                     a component {does}",
                    rule.topic
                );
                Some((message, format!("did you mean `{pattern}`?")))
            }
            None if to_ros => {
                let help = "check its spelling (`/a/b` is the topic `a/b` of the graph), and that \
                     its topics have `reach: host`";
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

#[cfg(test)]
#[path = "ros2_section_tests.rs"]
mod tests;
