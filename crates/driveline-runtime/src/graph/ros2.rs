// SPDX-License-Identifier: Apache-2.0
//! What stands under `ros2:`, checked against the graph.

use super::diagnostic::{Diagnostic, Place, Span};
use super::files::{Files, MAX_BYTES, Part, bounded_text};
use super::resolved::ResolvedTopic;
use crate::ros2::{Definitions, Direction, Ros2Spec, Rule};
use driveline::Reach;
use driveline_rosidl::DefinitionError;
use driveline_types::TopicName;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Checks what is exchanged with ROS 2, and resolves it.
pub(super) fn check(files: &mut Files, topics: &BTreeMap<TopicName, ResolvedTopic>) -> Option<Ros2Spec> {
    let (document, spec) = files.ros2.as_ref().map(|r| (r.document, r.spec.clone()))?;
    let mistakes = spec.mistakes();
    let wrong: Vec<_> = mistakes.iter().filter_map(|m| Some((m.key, m.index?))).collect();
    for m in mistakes {
        let index = m.index.map(|i| i.to_string());
        let path: Vec<&str> = ["ros2", m.key].into_iter().chain(index.as_deref()).collect();
        let place = files.place(document, &path, Part::Value);
        let number = m.index.map_or(String::new(), |i| format!("entry {} of `{}`: ", i + 1, m.key));
        files.error(Diagnostic::error(format!("{number}{}", m.message)).at(place).help(m.help));
    }
    let place = files.place(document, &["ros2"], Part::Key);
    if spec.topics.is_empty() && spec.services.is_empty() {
        let d = Diagnostic::warning("`ros2:` has no rules, so nothing is exchanged with ROS 2").at(place.clone());
        files.error(d.help("add `topics: [{topic: /camera/image, direction: to_ros}]`"));
    }
    for (i, rule) in spec.topics.iter().enumerate().filter(|(i, _)| !wrong.contains(&("topics", *i))) {
        // Without modules, publishers are outside of the graph, and a rule that names their topic says all that is needed.
        let of_others = files.modules.is_empty() && rule.single().is_some();
        if let Some((message, help)) = of_rule(rule, topics).filter(|_| !of_others) {
            let place = files.place(document, &["ros2", "topics", &i.to_string()], Part::Value);
            files.error(Diagnostic::warning(format!("entry {} of `topics`: {message}", i + 1)).at(place).help(help));
        }
    }
    let base = place.file.parent().unwrap_or(Path::new("")).to_owned();
    let spec = spec.relative_to(&base);
    let definitions = Definitions::read(&spec.types, &base);
    for (i, e) in definitions.unusable() {
        let message = if e.place.line == 0 { format!("{} {}", e.place, e.problem) } else { format!("{}: {}", e.place, e.problem) };
        let d = Diagnostic::error(message).at(files.place(document, &["ros2", "types", &i.to_string()], Part::Value));
        let paths = if spec.types[i].is_dir() { "" } else { "; paths are relative to the graph file" };
        files.error(d.help(format!("{}{paths}", e.remedy)));
    }
    for left in definitions.left_out(&spec.topics) {
        let d = Diagnostic::warning(format!("{} of what comes from ROS 2: {}", left.what(), left.error.problem));
        let d = d.at(files.place(document, &["ros2", "types", &left.directory.to_string()], Part::Value));
        files.error(of_definition(d, &left.error));
    }
    for (i, rule) in spec.services.iter().enumerate().filter(|(i, _)| !wrong.contains(&("services", *i))) {
        let number = i.to_string();
        if let Err(e) = definitions.service(&rule.ros_type) {
            let cannot = if *e.place.file == *rule.ros_type { "" } else { " cannot pass:" };
            let message = format!("entry {} of `services`: {}{cannot} {}", i + 1, rule.ros_type, e.problem);
            let d = Diagnostic::error(message).at(files.place(document, &["ros2", "services", &number, "type"], Part::Value));
            files.error(of_definition(d, &e));
        }
        if let Some((message, help)) = rule.memory_remark() {
            let d = Diagnostic::warning(format!("entry {} of `services`: {message}", i + 1));
            files.error(d.at(files.place(document, &["ros2", "services", &number, "max_response"], Part::Value)).help(help));
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
    let source = bounded_text(&file, MAX_BYTES).ok().and_then(|t| t.lines().nth(number.saturating_sub(1)).map(str::to_owned));
    let source = source.unwrap_or_default();
    let len = source.trim_end().chars().count();
    d.related("here", Place { file, span: Span::at(number, 1, len), source })
}

/// What about a rule will surprise.
fn of_rule(rule: &Rule, topics: &BTreeMap<TopicName, ResolvedTopic>) -> Option<(String, &'static str)> {
    let covered = || topics.iter().filter(|(name, _)| rule.covers(name, rule.direction == Direction::FromRos));
    if let Some((name, _)) = covered().find(|(_, t)| t.reach == Reach::Process).filter(|_| rule.single().is_some()) {
        let help = "give it `reach: host`, or remove the rule";
        return Some((format!("the topic `{name}` does not leave its process"), help));
    }
    // What ROS 2 publishes is not known here, and who reads it may be outside of the graph.
    if rule.direction == Direction::ToRos && !covered().any(|(_, t)| t.reach != Reach::Process) {
        let help = "check its spelling (`/a/b` is the topic `a/b` of the graph), and that its topics have `reach: host`";
        return Some((format!("no topic of the graph that leaves its process is covered by `{}`", rule.topic), help));
    }
    None
}
