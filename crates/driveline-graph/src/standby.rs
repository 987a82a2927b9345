// SPDX-License-Identifier: Apache-2.0
//! Hot standby: outputs of one topic with a `strength` (`docs/protocols/standby.md`).

use super::diagnostic::Diagnostic;
use super::files::{Files, Part};
use super::model::{ModuleSpec, OutputSpec};
use super::resolved::{ResolvedModule, ResolvedTopic};
use driveline::Reach;
use driveline_types::TopicName;
use std::collections::BTreeMap;

/// An output with a strength.
struct Strong<'a> {
    document: usize,
    module: &'a str,
    component: &'a str,
    port: &'a str,
    topic: &'a str,
    strength: u32,
}

fn outputs(specs: &[(String, usize, ModuleSpec)]) -> Vec<Strong<'_>> {
    let mut all = Vec::new();
    for (module, document, spec) in specs {
        for (component, c) in &spec.components {
            for (port, output) in &c.outputs {
                let OutputSpec::Detailed(d) = output else { continue };
                let Some(strength) = d.strength else { continue };
                let (document, topic) = (*document, d.topic.as_str());
                all.push(Strong { document, module, component, port, topic, strength });
            }
        }
    }
    all
}

/// Sets the strength in the QoS of the outputs and inputs of each topic with strengths, so that
/// readers select a publisher by it. Reports topics for which this is impossible.
pub(super) fn apply(
    files: &mut Files,
    specs: &[(String, usize, ModuleSpec)],
    topics: &BTreeMap<TopicName, ResolvedTopic>,
    modules: &mut [ResolvedModule],
) {
    let strong = outputs(specs);
    for (i, s) in strong.iter().enumerate() {
        let path = ["modules", s.module, "components", s.component, "outputs", s.port, "strength"];
        let place = files.place(s.document, &path, Part::Value);
        let topic = s.topic.parse::<TopicName>().ok().and_then(|name| topics.get(&name));
        let fault = match topic {
            Some(topic) if topic.reach != Reach::Host => Some((
                format!(
                    "the topic `{}` has a hot standby and does not have `reach: host`",
                    s.topic
                ),
                "write `reach: host` at the topic: readers select among publishers of one host",
            )),
            Some(topic) if topic.qos.deadline_ms.is_none() => Some((
                format!("the topic `{}` has a hot standby and no deadline", s.topic),
                "add `qos: {deadline_ms: …}` at the topic: the longest gap, and more than the \
                 periods of both publishers together",
            )),
            _ if strong[..i].iter().any(|o| o.topic == s.topic && o.strength == s.strength) => {
                Some((
                    format!("two outputs of the topic `{}` have strength {}", s.topic, s.strength),
                    "give the preferred one a greater strength",
                ))
            }
            _ => None,
        };
        if let Some((message, help)) = fault {
            files.error(Diagnostic::error(message).at(place).help(help));
        }
    }
    let is_exclusive = |topic: &TopicName| strong.iter().any(|s| s.topic == topic.as_str());
    for component in modules.iter_mut().flat_map(|m| &mut m.components) {
        for input in component.inputs.iter_mut().filter(|i| is_exclusive(&i.topic)) {
            input.qos.strength = Some(0);
        }
        let name = component.name.to_string();
        for output in component.outputs.iter_mut().filter(|o| is_exclusive(&o.topic)) {
            let own = strong.iter().find(|s| s.component == name && s.port == output.port);
            output.qos.strength = Some(own.map_or(0, |s| s.strength));
        }
    }
}
