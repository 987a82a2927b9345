// SPDX-License-Identifier: Apache-2.0
//! Lists the topics and nodes of a domain, and shows one topic.

use super::absent::{End, Runs};
use super::domains::{Other, elsewhere};
use super::survey::{ask, print_table};
use crate::arguments::{Node, Topic};
use crate::exit;
use crate::text::{count, cut};
use driveline_graph::closest;
use driveline_rosidl::{CDR_ENCODING, Catalog};
use driveline_shm::{ParticipantInfo, PublisherInfo, SubscriptionInfo};
use driveline_terminal::figures::bytes;
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use driveline_types::service::ServiceTopic;
use driveline_types::{Durability, Liveliness, PayloadKind, Qos, Reliability, Schema};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of topics in one line.
const MOST_NAMED: usize = 5;
/// Number of columns to which text that processes of other users may have chosen is cut.
const NAME: usize = 80;
const LINE: usize = 200;
/// Maximum number of lines of a type's definition, unless the whole definition is requested.
const DEFINITION: usize = 24;

pub(crate) fn topic(command: &Topic, domain: Option<&str>, screen: &Screen) -> u8 {
    let info = match command {
        Topic::Echo(echo) => return super::echo::echo(echo, domain, screen),
        Topic::Info { topic, definition } => match super::names::name_of(topic) {
            Ok(topic) => Some((topic, if *definition { usize::MAX } else { DEFINITION })),
            Err(text) => {
                screen.error(text);
                return exit::FAILED;
            }
        },
        Topic::List => None,
    };
    let (place, participants) = match ask(domain, screen) {
        Ok(found) => found,
        Err(text) => {
            screen.error(text);
            return exit::FAILED;
        }
    };
    let mut topics = topics(&participants);
    match info {
        None => {
            // Topics of services have a list of their own.
            topics.retain(|name, _| ServiceTopic::of(name).is_none());
            list_topics(&topics, screen);
            if !screen.json {
                let runs = Runs::ask(domain);
                screen.print(&one_sided(&topics, &runs));
                screen.print(&runs.lines());
                screen.print(&place.closing_here(
                    "host topic",
                    topics.len(),
                    participants.len(),
                    &elsewhere(&place, topics.is_empty()),
                ));
            }
            exit::DONE
        }
        Some((topic, lines)) => match topics.get_key_value(topic.as_str()) {
            Some((topic, ends)) => {
                topic_info(topic, ends, lines, screen);
                if !screen.json {
                    let runs = Runs::ask(domain);
                    screen.print(&one_sided(&BTreeMap::from([(*topic, ends)]), &runs));
                }
                exit::DONE
            }
            None => {
                let topic = topic.as_str();
                let runs = Runs::ask(domain);
                let mut names: BTreeSet<String> = topics.keys().map(|t| cut(t, NAME)).collect();
                let seen = names.iter().cloned().collect::<Vec<_>>().join(", ");
                names.extend(runs.topics());
                let ends = [End::Publisher, End::Subscription];
                let hint: String = elsewhere(&place, true)
                    .iter()
                    .filter(|o| o.topics.contains(topic))
                    .map(Other::hint)
                    .collect();
                let near = closest(topic, names.iter().map(String::as_str));
                let meant = near
                    .filter(|_| hint.is_empty())
                    .map_or_else(String::new, |near| format!("did you mean '{near}'? "));
                let known = if let Some(why) = ends.iter().find_map(|end| runs.why(topic, *end)) {
                    why
                } else if seen.is_empty() {
                    meant + "there are none"
                } else {
                    format!("{meant}there are: {seen}")
                };
                let what = super::services::of_service(topic, &participants).unwrap_or(known);
                screen.error(format!(
                    "no process publishes or subscribes to the host topic \
                     '{topic}' in {place} now; {what}{hint}"
                ));
                exit::FAILED
            }
        },
    }
}

pub(crate) fn node(command: &Node, domain: Option<&str>, screen: &Screen) -> u8 {
    let Node::List = command;
    match ask(domain, screen) {
        Ok((place, participants)) => {
            let nodes = list_nodes(&participants, screen);
            if !screen.json {
                screen.print(&place.closing_here(
                    "node",
                    nodes,
                    participants.len(),
                    &elsewhere(&place, nodes == 0),
                ));
            }
            exit::DONE
        }
        Err(text) => {
            screen.error(text);
            exit::FAILED
        }
    }
}

#[derive(Default)]
struct Ends<'a> {
    publishers: Vec<(&'a ParticipantInfo, &'a PublisherInfo)>,
    subscriptions: Vec<(&'a ParticipantInfo, &'a SubscriptionInfo)>,
}

impl Ends<'_> {
    fn type_name(&self) -> String {
        let offered = self.publishers.iter().map(|(_, p)| &p.schema);
        let expected = self.subscriptions.iter().filter_map(|(_, s)| s.schema.as_ref());
        let names: BTreeSet<String> = offered.chain(expected).map(|s| cut(&s.name, NAME)).collect();
        names.into_iter().collect::<Vec<_>>().join(" | ")
    }

    fn published(&self) -> u64 {
        self.publishers.iter().fold(0, |all, (_, p)| all.saturating_add(p.stats.published))
    }

    fn missed(&self) -> u64 {
        self.subscriptions.iter().fold(0, |all, (_, s)| all.saturating_add(s.stats.missed))
    }
}

fn topics(participants: &[ParticipantInfo]) -> BTreeMap<&str, Ends<'_>> {
    let mut topics: BTreeMap<&str, Ends<'_>> = BTreeMap::new();
    for participant in participants {
        for p in &participant.publishers {
            topics.entry(&p.topic).or_default().publishers.push((participant, p));
        }
        for s in participant.subscriptions.iter().filter(|s| !is_spare(participant, s)) {
            topics.entry(&s.topic).or_default().subscriptions.push((participant, s));
        }
    }
    topics
}

/// Returns true if lists leave out this subscription of a tool. A tool may subscribe once for each
/// kind of publisher; unmatched subscriptions then have no meaning, except the first if none is
/// matched.
fn is_spare(participant: &ParticipantInfo, s: &SubscriptionInfo) -> bool {
    let mut others = participant.subscriptions.iter().filter(|o| o.observer && o.topic == s.topic);
    s.observer && s.matches.is_empty() && others.any(|o| !o.matches.is_empty() || o.id < s.id)
}

fn list_topics(topics: &BTreeMap<&str, Ends<'_>>, screen: &Screen) {
    if screen.json {
        let entry = |(name, e): (&&str, &Ends<'_>)| {
            json!({
                "topic": name, "type": e.type_name(), "publishers": e.publishers.len(),
                "subscriptions": e.subscriptions.len(),
                "published": e.published(), "missed": e.missed(),
            })
        };
        return screen.print_json(&topics.iter().map(entry).collect::<Vec<_>>());
    }
    if topics.is_empty() {
        return;
    }
    let head = ["TOPIC", "TYPE", "PUBLISHERS", "SUBSCRIPTIONS", "PUBLISHED", "MISSED"]
        .map(str::to_owned)
        .to_vec();
    let row = |(name, e): (&&str, &Ends<'_>)| {
        let n = |n: usize| n.to_string();
        vec![
            cut(name, NAME),
            e.type_name(),
            n(e.publishers.len()),
            n(e.subscriptions.len()),
            e.published().to_string(),
            e.missed().to_string(),
        ]
    };
    use Align::{Left, Right};
    let rows: Vec<_> = std::iter::once(head).chain(topics.iter().map(row)).collect();
    print_table(&[Left, Left, Right, Right, Right, Right], &rows, screen);
}

/// Returns hints at ends that cannot be seen from here, for topics that lack publishers or
/// subscriptions: a line for each topic if a run knows the reason, and one line for all others.
fn one_sided<'a, E: std::borrow::Borrow<Ends<'a>>>(
    topics: &BTreeMap<&str, E>,
    runs: &Runs,
) -> String {
    let lacks = |end: End, e: &Ends<'_>| match end {
        End::Publisher => e.publishers.is_empty(),
        End::Subscription => e.subscriptions.is_empty(),
    };
    // If a run knows the reason, that reason is printed instead.
    let known = |end: End| -> String {
        let one = |(name, e): (&&str, &E)| {
            let why = runs.why(name, end).filter(|_| lacks(end, e.borrow()))?;
            Some(format!("'{}': {why}\n", cut(name, NAME)))
        };
        topics.iter().filter_map(one).take(MOST_NAMED).collect()
    };
    let names = |end: End| -> String {
        let all: Vec<String> = topics
            .iter()
            .filter(|(n, e)| lacks(end, (*e).borrow()) && runs.why(n, end).is_none())
            .map(|(n, _)| format!("'{}'", cut(n, NAME)))
            .collect();
        let more = all.len().saturating_sub(MOST_NAMED);
        all.into_iter().take(MOST_NAMED).collect::<Vec<_>>().join(", ")
            + &if more > 0 { format!(" and {more} more") } else { String::new() }
    };
    let line = |names: String, what: &str| match names.as_str() {
        "" => String::new(),
        names => format!(
            "no process {what} {names} here, unless with `reach: process`, which other processes \
             cannot see\n"
        ),
    };
    known(End::Publisher)
        + &known(End::Subscription)
        + &line(names(End::Publisher), "publishes")
        + &line(names(End::Subscription), "listens to")
}

fn topic_info(topic: &str, ends: &Ends<'_>, lines: usize, screen: &Screen) {
    let process = |p: &ParticipantInfo| json!({ "name": p.name, "pid": p.pid_in_its_namespace });
    if screen.json {
        let publishers: Vec<_> = ends
            .publishers
            .iter()
            .map(|(p, i)| json!({ "process": process(p), "publisher": i }))
            .collect();
        let subscriptions: Vec<_> = ends
            .subscriptions
            .iter()
            .map(|(p, i)| json!({ "process": process(p), "subscription": i }))
            .collect();
        return screen.print_json(&json!({
            "topic": topic, "type": ends.type_name(), "publishers": publishers,
            "subscriptions": subscriptions
        }));
    }
    let mut out = format!("{}\n", screen.paint("1", &cut(topic, NAME)));
    let schemas: BTreeMap<_, _> = ends
        .publishers
        .iter()
        .map(|(_, p)| &p.schema)
        .chain(ends.subscriptions.iter().filter_map(|(_, s)| s.schema.as_ref()))
        .map(|s| {
            let (kind, encoding) = (s.kind.to_string(), cut(&s.encoding, NAME));
            let encoding = if kind == encoding || encoding.is_empty() {
                String::new()
            } else {
                format!(", {encoding}")
            };
            (format!("type {} ({kind}{encoding}, hash {})", cut(&s.name, NAME), s.hash()), s)
        })
        .collect();
    for (line, s) in schemas {
        out += &format!("{line}\n{}", definition(s, lines));
    }
    for (process, p) in &ends.publishers {
        out += &format!("\n{} {}\n", screen.paint("1;32", "publisher"), who(process, &p.node));
        out += &format!("  QoS       {}\n", qos(&p.qos));
        let memory = format!(
            "{} slots of at most {}, {} reserved",
            p.slots,
            bytes(p.max_payload),
            bytes(p.segment_len)
        );
        out += &format!("  memory    {memory}; {} of {} pins granted\n", p.pins_granted, p.pins);
        let s = &p.stats;
        let inside = match s.passed_by {
            0 => String::new(),
            n => format!(
                "; {n} of them passed inside process {} only, as no other process subscribed",
                cut(&process.name, NAME)
            ),
        };
        let (n, len) = (count(s.published, "sample"), bytes(s.published_bytes));
        out += &format!(
            "  published {n} ({len} into shared memory), newest sequence {}{inside}\n",
            p.sequence
        );
        out += &reasons(
            "  refused  ",
            &[
                ("type", s.refused_type),
                ("QoS", s.refused_qos),
                ("rights", s.refused_access),
                ("pins", s.refused_pins),
                ("other", s.refused_other),
            ],
        );
        out += &reasons(
            "  trouble  ",
            &[
                ("reliable time-outs", s.reliable_timeouts),
                ("deadlines missed", s.deadlines_missed),
                ("impossible cursors", s.cursor_lies),
            ],
        );
        for m in &p.matches {
            let seen = [
                m.missed.map(|n| format!("missed {n}")),
                m.overruns.filter(|n| *n > 0).map(|n| format!("{n} overruns")),
            ];
            let seen: String = seen.into_iter().flatten().map(|s| format!(", {s}")).collect();
            out += &format!(
                "  → {} (process {}, holds {} of {}{seen})\n",
                cut(&m.node, NAME),
                m.pid,
                m.held.len(),
                m.pins
            );
        }
    }
    for (process, s) in &ends.subscriptions {
        let tool = if s.observer { ", a tool that looks on" } else { "" };
        out += &format!(
            "\n{} {}{tool}\n",
            screen.paint("1;34", "subscription"),
            who(process, &s.node)
        );
        out += &format!("  QoS       {}; holds at most {}\n", qos(&s.qos), s.max_held);
        out += &format!(
            "  received  {}, missed {}\n",
            count(s.stats.received, "sample"),
            s.stats.missed
        );
        if passes_inside(process, ends) {
            out += &format!(
                "  inside process {}: its own samples pass as pointers, and are not counted here\n",
                cut(&process.name, NAME)
            );
        }
        let st = &s.stats;
        out += &reasons(
            "  dropped  ",
            &[
                ("overtaken", st.overruns),
                ("too old", st.expired),
                ("bad header", st.corrupt_header),
                ("bad checksum", st.corrupt_checksum),
                ("bad index", st.corrupt_index),
                ("against its publisher's promise", st.refused),
                ("lost on the way here", st.lost_on_the_way),
            ],
        );
        if let Some(why) = st.uncounted_reason {
            let publishers = count(st.uncounted, "publisher");
            out += &format!("  count unknown: of {publishers} on other hosts; {why}\n");
        }
        for m in &s.matches {
            out += &format!(
                "  ← {} (process {}): received {}, missed {}\n",
                cut(&m.node, NAME),
                m.pid,
                m.received,
                m.missed
            );
        }
        for r in &s.refusals {
            out += &format!("  {} {}\n", screen.paint("1;31", "refused:"), cut(r, 400));
        }
    }
    screen.print(&out);
}

/// Returns true if a process exchanges samples of this topic inside itself, which the host
/// transport does not see.
fn passes_inside(process: &ParticipantInfo, ends: &Ends<'_>) -> bool {
    let by_pointer = |p: &PublisherInfo| p.schema.kind == PayloadKind::Protobuf;
    ends.publishers.iter().any(|(other, p)| std::ptr::eq(*other, process) && by_pointer(p))
}

/// Returns the definition of a type, in a limited number of lines.
fn definition(schema: &Schema, lines: usize) -> String {
    let mut out = String::new();
    if schema.encoding == CDR_ENCODING
        && let Ok(hash) =
            Catalog::from_schema(schema).and_then(|(name, catalog)| catalog.type_hash(&name))
    {
        out += &format!("  ROS 2 knows it by {hash}\n");
    }
    schema
        .definition
        .lines()
        .take(lines)
        .for_each(|line| out += &format!("    {}\n", cut(line, LINE)));
    let all = schema.definition.lines().count();
    if all > lines {
        out += &format!("    … ({all} lines in all: --definition prints them)\n");
    }
    out
}

fn who(process: &ParticipantInfo, node: &str) -> String {
    format!(
        "{} in process {} ({})",
        cut(node, NAME),
        process.pid_in_its_namespace,
        cut(&process.name, NAME)
    )
}

/// Formats the counters that are not zero; empty if all are zero.
fn reasons(label: &str, counters: &[(&str, u64)]) -> String {
    let list: Vec<_> =
        counters.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{what} {n}")).collect();
    if list.is_empty() { String::new() } else { format!("{label} {}\n", list.join(", ")) }
}

/// Formats depth, reliability, and all policies that differ from the default.
pub(super) fn qos(q: &Qos) -> String {
    let reliability = match q.reliability {
        Reliability::BestEffort => "best effort",
        Reliability::Reliable => "reliable",
    };
    let mut parts = vec![format!("{reliability}, depth {}", q.depth)];
    if q.durability == Durability::TransientLocal {
        parts.push("transient local".into());
    }
    if q.liveliness == Liveliness::ManualByTopic {
        parts.push("manual liveliness".into());
    }
    for (name, ms) in
        [("deadline", q.deadline_ms), ("lifespan", q.lifespan_ms), ("lease", q.lease_ms)]
    {
        parts.extend(ms.map(|ms| format!("{name} {ms} ms")));
    }
    if q.checksum {
        parts.push("checksum".into());
    }
    parts.join(", ")
}

/// A node of a process, and its topics.
struct NodeEnds<'a> {
    process: &'a ParticipantInfo,
    publishes: BTreeSet<&'a str>,
    subscribes: BTreeSet<&'a str>,
}

impl<'a> NodeEnds<'a> {
    fn of(process: &'a ParticipantInfo) -> Self {
        Self { process, publishes: BTreeSet::new(), subscribes: BTreeSet::new() }
    }
}

/// Prints the nodes and returns their number.
fn list_nodes(participants: &[ParticipantInfo], screen: &Screen) -> usize {
    let mut nodes: BTreeMap<(&str, u32), NodeEnds<'_>> = BTreeMap::new();
    for process in participants {
        let pid = process.pid_in_its_namespace;
        for p in &process.publishers {
            nodes
                .entry((&p.node, pid))
                .or_insert_with(|| NodeEnds::of(process))
                .publishes
                .insert(&p.topic);
        }
        for s in &process.subscriptions {
            nodes
                .entry((&s.node, pid))
                .or_insert_with(|| NodeEnds::of(process))
                .subscribes
                .insert(&s.topic);
        }
    }
    if screen.json {
        let entry = |((node, pid), NodeEnds { process, publishes, subscribes }): (
            &(&str, u32),
            &NodeEnds<'_>,
        )| {
            // The runtime's description of a process is JSON; any other text is shown unchanged.
            let about = serde_json::from_str::<serde_json::Value>(&process.description)
                .unwrap_or_else(|_| json!(process.description));
            json!({
                "node": node, "process": process.name, "pid": pid, "publishes": publishes,
                "subscribes": subscribes, "about": about
            })
        };
        screen.print_json(&nodes.iter().map(entry).collect::<Vec<_>>());
        return nodes.len();
    }
    if nodes.is_empty() {
        return 0;
    }
    let list = |topics: &BTreeSet<&str>| {
        if topics.is_empty() {
            "-".to_owned()
        } else {
            topics.iter().map(|t| cut(t, NAME)).collect::<Vec<_>>().join(", ")
        }
    };
    let head = ["NODE", "PROCESS", "PID", "PUBLISHES", "SUBSCRIBES"].map(str::to_owned).to_vec();
    let rows = nodes.iter().map(|((node, pid), NodeEnds { process, publishes, subscribes })| {
        vec![
            cut(node, NAME),
            cut(&process.name, NAME),
            pid.to_string(),
            list(publishes),
            list(subscribes),
        ]
    });
    use Align::{Left, Right};
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    print_table(&[Left, Left, Right, Left, Left], &rows, screen);
    nodes.len()
}
