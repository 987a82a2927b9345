// SPDX-License-Identifier: Apache-2.0
//! The topic on which the launcher publishes the health of the run.

use super::diagnostic::{Diagnostic, suggest};
use super::files::{Files, Part};
use super::resolved::ResolvedTopic;
use driveline::Reach;
use driveline_types::TopicName;
use std::collections::BTreeMap;

/// Returns the topic that `health_topic` names. Reports an error if the graph does not declare this
/// topic in a way in which the launcher can publish it.
pub(super) fn check(
    files: &mut Files,
    topics: &BTreeMap<TopicName, ResolvedTopic>,
) -> Option<TopicName> {
    let (document, name) = files.health_topic.as_ref().map(|h| (h.document, h.spec.clone()))?;
    let found = topics.iter().find(|(topic, _)| topic.as_str() == name);
    let wanted = format!("declare `topics: {{{name}: {{reach: host, external: true}}}}`");
    let (message, help) = match found {
        Some((topic, spec)) if spec.external && spec.reach != Reach::Process => {
            return Some(topic.clone());
        }
        Some(_) => {
            let text = format!("`{name}` is no topic that the launcher can publish");
            (text, format!("{wanted}: the launcher is a process outside of the modules"))
        }
        None if files.topics.contains_key(&name) => {
            (format!("`{name}` is no topic that the launcher can publish"), wanted)
        }
        None => {
            let near = suggest(&name, "topics", topics.keys().map(TopicName::as_str));
            (format!("there is no topic `{name}`"), format!("{wanted}; {near}"))
        }
    };
    let place = files.place(document, &["health_topic"], Part::Value);
    files.error(Diagnostic::error(message).at(place).help(help));
    None
}

#[cfg(test)]
mod tests {
    use crate::fixture::{finds, graph, sound};

    const TOPIC: &str = "  run/health: { reach: host, external: true }\n";

    fn with(topic: &str, key: &str) -> String {
        crate::fixture::SOUND.replacen("topics:\n", &format!("{key}topics:\n{topic}"), 1)
    }

    #[test]
    fn a_declared_topic_is_the_launchers_although_no_component_uses_it() {
        let g = sound(graph(&with(TOPIC, "health_topic: run/health\n")));
        assert_eq!(g.health_topic.as_ref().map(|t| t.as_str()), Some("run/health"));
        assert!(g.topics.keys().any(|t| t.as_str() == "run/health"));
        assert_eq!(sound(graph(crate::fixture::SOUND)).health_topic, None);
    }

    #[test]
    fn other_topics_are_refused_with_the_remedy() {
        let key = "health_topic: run/health\n";
        finds(&graph(&with("", key)), &[(4, "there is no topic `run/health`", "external: true")]);
        finds(
            &graph(&with("  run/health: { reach: host }\n", key)),
            &[
                (4, "`run/health` is no topic that the launcher can publish", "external: true"),
                (6, "no component uses the topic", "remove it"),
            ],
        );
    }
}
