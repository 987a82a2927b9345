// SPDX-License-Identifier: Apache-2.0
//! What stands under `ros2:`, checked against the graph.

use super::diagnostic::Diagnostic;
use super::files::{Files, Part};
use super::resolved::ResolvedTopic;
use crate::ros2::{Direction, Ros2Spec, Rule};
use driveline::Reach;
use driveline_types::TopicName;
use std::collections::BTreeMap;
use std::path::Path;

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
        if let Some((message, help)) = of_rule(rule, topics) {
            let place = files.place(document, &["ros2", "topics", &i.to_string()], Part::Value);
            files.error(Diagnostic::warning(format!("entry {} of `topics`: {message}", i + 1)).at(place).help(help));
        }
    }
    let spec = spec.relative_to(place.file.parent().unwrap_or(Path::new("")));
    for path in &spec.types {
        if !["msg", "srv"].iter().any(|kind| path.join(kind).is_dir()) {
            let d = Diagnostic::error(format!("{} is no directory of a package with definitions", path.display()));
            let d = d.at(files.place(document, &["ros2", "types"], Part::Value));
            files.error(
                d.help("name the directory that has msg/, such as /opt/ros/jazzy/share/tf2_msgs; paths are relative to the graph file"),
            );
        }
    }
    for (i, rule) in spec.services.iter().enumerate().filter(|(i, _)| !wrong.contains(&("services", *i))) {
        if !rule.is_defined_in(&spec.types) {
            let place = files.place(document, &["ros2", "services", &i.to_string()], Part::Value);
            let d = Diagnostic::error(format!("entry {} of `services`: no directory under `types` defines {}", i + 1, rule.ros_type));
            let package = rule.ros_type.split('/').next().unwrap_or_default();
            files.error(d.at(place).help(format!("add its package, such as /opt/ros/jazzy/share/{package}, to `types`")));
        }
    }
    Some(spec)
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
