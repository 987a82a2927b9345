// SPDX-License-Identifier: Apache-2.0
//! A graph as text and as a picture.

mod layout;
mod svg;

pub(crate) use svg::svg;

use crate::text::count;
use driveline_gateway::ros2::{Direction, Ros2Spec, ServedBy};
use driveline_graph::model::GroupSpec;
use driveline_graph::{ResolvedComponent, ResolvedGraph, ResolvedTrigger};
use driveline_terminal::figures::bytes;
use driveline_terminal::screen::Screen;
use driveline_types::TopicName;

/// The graph as an indented list.
pub(crate) fn text(graph: &ResolvedGraph, screen: &Screen) -> String {
    let mut out = format!("{} (domain {})\n", screen.paint("1", &graph.name), graph.domain);
    for module in &graph.modules {
        out += &format!(
            "\n{} {}\n",
            screen.paint("1;34", "module"),
            screen.paint("1", module.name.as_str())
        );
        for e in &module.executors {
            let s = &e.schedule;
            let mut facts = vec![count(u64::from(e.threads), "thread")];
            facts.extend(
                (s.priority > 0)
                    .then(|| format!("{:?} priority {}", s.class, s.priority).to_lowercase()),
            );
            facts.extend((s.nice != 0).then(|| format!("nice {}", s.nice)));
            facts.extend((!s.cpus.is_empty()).then(|| format!("CPUs {:?}", s.cpus)));
            facts.extend((e.spin_us > 0).then(|| format!("spins {} µs", e.spin_us)));
            out += &format!("  executor {}: {}\n", e.name, facts.join(", "));
        }
        for c in &module.components {
            let reentrant =
                if c.callback_group == GroupSpec::Reentrant { ", reentrant" } else { "" };
            out += &format!(
                "  {} {} of {} on {}; {}{reentrant}\n",
                screen.paint("1", c.name.as_str()),
                c.class,
                c.library.display(),
                c.executor,
                trigger(c)
            );
            for i in &c.inputs {
                out += &format!("    ← {}: {}\n", i.port, topic(graph, &i.topic));
            }
            for o in &c.outputs {
                out += &format!("    → {}: {}\n", o.port, topic(graph, &o.topic));
            }
        }
    }
    let rules = graph.sections.get::<Ros2Spec>().filter(|r| r.has_rules());
    out += &rules.map(|r| ros2(r, screen)).unwrap_or_default();
    out
}

/// Draws the traffic between Driveline and ROS 2, with its directions.
fn ros2(spec: &Ros2Spec, screen: &Screen) -> String {
    let profiles = [spec.dds.then_some("DDS"), spec.zenoh.is_some().then_some("rmw_zenoh")];
    let profiles: Vec<_> = profiles.into_iter().flatten().collect();
    let mut out = format!(
        "\n{} on {}, ROS_DOMAIN_ID {}\n",
        screen.paint("1;34", "ROS 2"),
        profiles.join(" and "),
        spec.domain_id
    );
    for rule in &spec.topics {
        let arrow = match rule.direction {
            Direction::FromRos => "→",
            Direction::ToRos => "←",
            Direction::Both => "↔",
        };
        let limit = match rule.direction {
            Direction::ToRos => String::new(),
            Direction::FromRos | Direction::Both => {
                format!(" (at most {})", bytes(rule.max_payload_bytes()))
            }
        };
        out += &format!("  {} {arrow} topics here{limit}\n", screen.paint("1", &rule.topic));
    }
    for rule in &spec.services {
        let server = match rule.server {
            ServedBy::Driveline => "server here, clients in ROS 2",
            ServedBy::Ros => "server in ROS 2, clients here",
        };
        out += &format!("  {} ({}): {server}\n", screen.paint("1", &rule.service), rule.ros_type);
    }
    out
}

fn topic(graph: &ResolvedGraph, name: &TopicName) -> String {
    let Some(t) = graph.topics.get(name) else { return name.to_string() };
    let mut facts = vec![reach(t.reach).to_owned()];
    facts.extend((t.max_payload > 0).then(|| format!("at most {}", bytes(t.max_payload))));
    facts.extend(t.external.then(|| "external".to_owned()));
    format!("{name} ({})", facts.join(", "))
}

fn reach(reach: driveline_graph::model::Reach) -> &'static str {
    use driveline_graph::model::Reach;
    match reach {
        Reach::Process => "process",
        Reach::Host => "host",
        Reach::Network => "network",
    }
}

/// Short description of a component's trigger.
fn trigger(c: &ResolvedComponent) -> String {
    match &c.trigger {
        ResolvedTrigger::Own => "own timers".into(),
        ResolvedTrigger::Any { on, .. } if on.len() == c.inputs.len() => "on any input".into(),
        ResolvedTrigger::Any { on, .. } => {
            let names: Vec<_> =
                on.iter().filter_map(|i| c.inputs.get(*i)).map(|i| i.port.as_str()).collect();
            format!("on {}", names.join(", "))
        }
        ResolvedTrigger::Timer { period, .. } => format!("every {period:?}"),
        ResolvedTrigger::AllLatest { on, .. } => {
            format!("on {}, all latest", c.inputs.get(*on).map_or("?", |i| i.port.as_str()))
        }
        ResolvedTrigger::Exact { .. } => "exact time".into(),
        ResolvedTrigger::Approximate { .. } => "approximate time".into(),
    }
}
