// SPDX-License-Identifier: Apache-2.0
//! Traffic of a gateway between a domain and ROS 2: as a table, and in sentences.

use super::format::{NAME, REASON, dropped, hint, node, seconds};
use super::ros2_services as services;
use crate::commands::survey::print_table;
use crate::text::{count, cut};
use driveline_gateway::{Refusal, Report, Ros2Publisher, Ros2Report, Ros2TopicReport};
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use std::collections::BTreeSet;

/// A topic with its direction: `true` if its samples go to ROS 2.
type Way<'a> = (bool, &'a Ros2TopicReport);

fn ways(report: &Ros2Report) -> impl Iterator<Item = Way<'_>> {
    report.to_ros.iter().map(|t| (true, t)).chain(report.from_ros.iter().map(|t| (false, t)))
}

/// Reduces a report to the topic and the service of this name.
pub(super) fn only(report: &mut Ros2Report, topic: &str) {
    report.to_ros.retain(|t| t.topic == topic);
    report.from_ros.retain(|t| t.topic == topic);
    report.services.retain(|s| s.service == topic);
}

/// Returns the names of all topics and services of a report.
pub(super) fn names(report: &Ros2Report) -> impl Iterator<Item = &str> {
    ways(report)
        .map(|(_, t)| t.topic.as_str())
        .chain(report.services.iter().map(|s| s.service.as_str()))
}

/// Returns samples per second.
fn rate((out, topic): Way<'_>, now: &Report, before: &Report) -> f64 {
    let same = |t: &&Ros2TopicReport| t.topic == topic.topic;
    let old = before
        .ros2
        .as_ref()
        .and_then(|r| if out { &r.to_ros } else { &r.from_ros }.iter().find(same))
        .map_or(0, |t| t.carried);
    topic.carried.saturating_sub(old) as f64 * 1e9
        / now.at_ns.saturating_sub(before.at_ns).max(1) as f64
}

/// Returns the rates of all topics, in the order of the report.
pub(super) fn rates(report: &Ros2Report, now: &Report, before: &Report) -> (Vec<f64>, Vec<f64>) {
    let of = |out, topics: &[Ros2TopicReport]| {
        topics.iter().map(|t| rate((out, t), now, before)).collect()
    };
    (of(true, &report.to_ros), of(false, &report.from_ros))
}

fn refused<'a>(report: &'a Report, (out, topic): Way<'_>) -> Vec<&'a Refusal> {
    report.refused.iter().filter(|r| r.outgoing == out && r.topic == topic.topic).collect()
}

fn state(report: &Report, way: Way<'_>) -> &'static str {
    let (out, topic) = way;
    match (topic.publishers.is_empty(), refused(report, way).is_empty()) {
        (true, false) => "refused",
        (true, true) if out => "no publisher here",
        (true, true) => "no publisher there",
        (false, false) if out && topic.readers.is_empty() => "does not match",
        (false, _) if out && topic.readers.is_empty() => "no reader there",
        (false, _) => "carried",
    }
}

fn drops(topic: &Ros2TopicReport) -> String {
    let drops: Vec<_> =
        topic.dropped.iter().filter(|(_, n)| **n > 0).map(|(why, n)| (why.as_str(), *n)).collect();
    dropped(&drops)
}

/// Formats the connections to nodes of ROS 2.
fn profiles(report: &Report, ros2: &Ros2Report) -> String {
    let place = ros2
        .interface
        .as_ref()
        .map_or_else(|| "this host alone".to_owned(), |i| format!("interface {}", cut(i, NAME)));
    let network = &report.network;
    let routers = count(network.routers as u64, "router");
    let zenoh = format!(
        "rmw_zenoh at {} ({routers}, {})",
        cut(&network.connects.join(", "), NAME),
        count(network.peers as u64, "peer")
    );
    // Gateways of older releases report neither, and use DDS.
    match (ros2.dds || !ros2.zenoh, ros2.zenoh) {
        (true, true) => format!("DDS on {place} and {zenoh}"),
        (_, true) => zenoh,
        (_, false) => format!("DDS on {place}"),
    }
}

/// Lists problems of ROS 2 as a whole, a line for each.
fn warnings(report: &Report, ros2: &Ros2Report) -> String {
    let mut text = String::new();
    let network = &report.network;
    if network.router_missing {
        text += &format!(
            "no Zenoh router is reached at {}: nodes on rmw_zenoh find each other, and the \
             gateway, through it; start it (`ros2 run rmw_zenoh_cpp rmw_zenohd`), \
             or name where it is under `ros2: zenoh: connect`\n",
            cut(&network.connects.join(", "), NAME)
        );
    }
    for left in &ros2.left_out {
        text += &format!("{}\n", cut(left, REASON));
    }
    if ros2.malformed_tokens > 0 {
        let tokens = count(ros2.malformed_tokens, "announcement");
        text += &format!(
            "{tokens} by rmw_zenoh could not be read, and what they are of is not seen; the \
             gateway's log has the first\n"
        );
    }
    let nobody = ros2.nodes == 0
        && ros2.to_ros.iter().all(|t| t.readers.is_empty())
        && ros2.from_ros.iter().all(|t| t.publishers.is_empty())
        && ros2
            .services
            .iter()
            .all(|s| if s.from_ros { s.servers.is_empty() } else { s.clients.is_empty() });
    if nobody && !network.router_missing {
        text += &format!(
            "no node of ROS 2 is seen: nodes need `ROS_DOMAIN_ID={}`, and those on other computers \
             the network that `interface` names under `ros2:`\n",
            ros2.domain_id
        );
    }
    for id in &ros2.beside {
        text += &format!(
            "another gateway (session {} in Zenoh) connects the same DDS domain to the same Zenoh \
             network: what both carry across comes twice; have one for both\n",
            cut(id, NAME)
        );
    }
    text
}

/// Prints the gateway, its warnings, and the tables of topics and services.
pub(super) fn show(
    report: &Report,
    ros2: &Ros2Report,
    before: &Report,
    explained: bool,
    screen: &Screen,
) {
    screen.print(&format!(
        "gateway {} (process {}) of domain '{}': ROS 2 domain {}, {}, for {}; {} of ROS 2 seen\n",
        cut(&report.gateway, NAME),
        report.pid,
        cut(&report.domain, NAME),
        ros2.domain_id,
        profiles(report, ros2),
        seconds(report.up_ms),
        count(ros2.nodes as u64, "named node"),
    ));
    screen.print(&warnings(report, ros2));
    use Align::{Left, Right};
    let mut rows = vec![
        ["TOPIC", "WAY", "STATE", "SAMPLES/S", "SAMPLES", "DROPPED"].map(str::to_owned).to_vec(),
    ];
    for way in ways(ros2) {
        let (out, topic) = way;
        rows.push(vec![
            cut(&topic.topic, NAME),
            if out { "→ ROS 2" } else { "← ROS 2" }.to_owned(),
            state(report, way).to_owned(),
            format!("{:.1}", rate(way, report, before)),
            topic.carried.to_string(),
            drops(topic),
        ]);
    }
    if rows.len() > 1 {
        screen.print("\n");
        print_table(&[Left, Left, Left, Right, Right, Left], &rows, screen);
    }
    services::show(&ros2.services, explained, screen);
    if !report.refused.is_empty() {
        screen.print(&format!(
            "\nnot carried: {}{}\n",
            count(report.refused.len() as u64, "end"),
            hint(explained)
        ));
    }
}

fn publisher(out: bool, p: &Ros2Publisher) -> String {
    let form = if p.converted { "converted" } else { "as CDR bytes, unchanged" };
    let place = if out { "here by" } else { "in ROS 2 by the node that is here called" };
    let profile = if p.profile.is_empty() { "DDS" } else { p.profile.as_str() };
    format!(
        "  published {place} '{}': {}, {form}; {} in {}\n",
        cut(&p.node, NAME),
        cut(&p.ros_type, NAME),
        p.qos,
        cut(profile, NAME)
    )
}

/// Formats the nodes, and the number of subscriptions that belong to no known node.
fn readers(topic: &Ros2TopicReport) -> String {
    let nameless = topic.readers.iter().filter(|r| *r == "?").count() as u64;
    let named: BTreeSet<_> = topic.readers.iter().filter(|r| *r != "?").cloned().collect();
    let mut all: Vec<String> = named.into_iter().collect();
    if nameless > 0 {
        let nodes = if nameless == 1 { node("?") } else { "nodes without a name".to_owned() };
        all.push(format!("{} of {nodes}", count(nameless, "subscription")));
    }
    all.join(", ")
}

/// Returns a paragraph for each topic and direction, and for each service.
pub(super) fn explained(
    report: &Report,
    ros2: &Ros2Report,
    before: &Report,
    here: &services::ServedHere,
) -> String {
    let topics = ways(ros2).map(|way| explain(report, way, before));
    topics.chain(ros2.services.iter().map(|s| services::explained(s, here))).collect()
}

fn explain(report: &Report, way: Way<'_>, before: &Report) -> String {
    let (out, topic) = way;
    let mut text = format!(
        "\n{}: {} ROS 2; {:.1} samples/s, {} {}; dropped: {}\n",
        cut(&topic.topic, NAME),
        if out { "goes to" } else { "comes from" },
        rate(way, report, before),
        count(topic.carried, "sample"),
        // The gateway does not learn whether a reader receives the samples that it writes.
        if out { "written there" } else { "arrived" },
        drops(topic),
    );
    if topic.across > 0 {
        text += &format!(
            "  {} passed from one profile of ROS 2 to the other\n",
            count(topic.across, "sample")
        );
    }
    if topic.replaced > 0 {
        text += &format!(
            "  {} replaced (keep last) while a subscription had not acknowledged them; to lose \
             fewer, raise `depth` at the publisher or in the rule's `qos`\n",
            count(topic.replaced, "sample")
        );
    }
    topic.publishers.iter().for_each(|p| text += &publisher(out, p));
    if out {
        if topic.publishers.is_empty() {
            text += "  not sent: no process on this host publishes it in a form that ROS 2 has (a \
                 publisher with process reach is seen in its own process only)\n";
        } else if topic.readers.is_empty() {
            text += "  no node in ROS 2 has a subscription that matches\n";
        } else {
            text += &format!("  read by {}\n", cut(&readers(topic), 4 * NAME));
        }
    } else if topic.publishers.is_empty() && refused(report, way).is_empty() {
        text += "  not received: no node in ROS 2 publishes it; have both the same ROS_DOMAIN_ID \
             and the same network?\n";
    }
    topic.remarks.iter().for_each(|remark| text += &format!("  {}\n", cut(remark, REASON)));
    for r in refused(report, way) {
        let who = if r.host.is_empty() { String::new() } else { format!(" {}", node(&r.host)) };
        let end = match (r.subscription, who.is_empty()) {
            (true, true) => "a subscription",
            (true, false) => "a subscription of",
            (false, true) => "a publisher",
            (false, false) => "the publisher of",
        };
        text += &format!("  not carried: {end}{who}: {}\n", cut(&r.reason, REASON));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_gateway::{Ros2Server, Ros2ServiceReport};
    use std::collections::BTreeMap;

    fn topic(name: &str, publishers: &[&str], readers: &[&str], carried: u64) -> Ros2TopicReport {
        let publisher = |p: &&str| Ros2Publisher {
            node: (*p).into(),
            ros_type: "sensor_msgs/msg/Image".into(),
            converted: true,
            qos: "reliable, volatile".into(),
            profile: String::new(),
        };
        Ros2TopicReport {
            topic: name.into(),
            publishers: publishers.iter().map(publisher).collect(),
            readers: readers.iter().map(|r| (*r).to_owned()).collect(),
            remarks: Vec::new(),
            carried,
            across: 0,
            replaced: 0,
            dropped: BTreeMap::from([("too_long".to_owned(), 2), ("lost".to_owned(), 0)]),
        }
    }

    fn report(to_ros: Vec<Ros2TopicReport>, from_ros: Vec<Ros2TopicReport>, at_ns: u64) -> Report {
        let ros2 = Ros2Report { domain_id: 7, to_ros, from_ros, ..Ros2Report::default() };
        Report { gateway: "ros2".into(), at_ns, ros2: Some(ros2), ..Report::default() }
    }

    fn text(now: &Report, before: &Report) -> String {
        explained(now, now.ros2.as_ref().unwrap(), before, &services::ServedHere::new())
    }

    #[test]
    fn what_is_carried_has_rate_type_and_readers() {
        let before =
            report(vec![topic("camera", &["eye"], &["/rviz"], 10)], Vec::new(), 1_000_000_000);
        let now = report(
            vec![topic("camera", &["eye"], &["/rviz", "?", "/rviz"], 30)],
            Vec::new(),
            3_000_000_000,
        );
        let text = text(&now, &before);
        assert_eq!(
            text,
            "\ncamera: goes to ROS 2; 10.0 samples/s, 30 samples written there; dropped: too_long \
             2\n  published here by 'eye': sensor_msgs/msg/Image, converted; \
             reliable, volatile in DDS\n  read by /rviz, 1 subscription of a node without a name\n"
        );
        assert_eq!(state(&now, (true, &now.ros2.as_ref().unwrap().to_ros[0])), "carried");
    }

    #[test]
    fn profiles_and_the_samples_between_them_are_distinguished() {
        let mut now = report(Vec::new(), vec![topic("scan", &["ros2/lidar"], &[], 5)], 2);
        let ros2 = now.ros2.as_mut().unwrap();
        ros2.from_ros[0].replaced = 3;
        (ros2.from_ros[0].across, ros2.from_ros[0].publishers[0].profile) = (4, "rmw_zenoh".into());
        (ros2.dds, ros2.zenoh) = (true, true);
        now.network.connects = vec!["tcp/localhost:7447".into()];
        now.network.routers = 1;
        let told = text(&now, &Report::default());
        assert!(
            told.contains(
                "4 samples passed from one profile of ROS 2 to the other\n  3 samples \
                 replaced (keep last) while"
            ) && told.contains("volatile in rmw_zenoh\n"),
            "{told}"
        );
        assert_eq!(
            profiles(&now, now.ros2.as_ref().unwrap()),
            "DDS on this host alone and rmw_zenoh at tcp/localhost:7447 (1 router, 0 peers)"
        );
        let before = report(Vec::new(), Vec::new(), 2);
        assert_eq!(profiles(&before, before.ros2.as_ref().unwrap()), "DDS on this host alone");
    }

    #[test]
    fn unexpected_routes_are_remarked() {
        let mut now = report(Vec::new(), vec![topic("scan", &["ros2/lidar"], &[], 5)], 2);
        now.ros2.as_mut().unwrap().from_ros[0].remarks =
            vec!["node 'ros2/lidar' publishes by another definition".into()];
        let told = text(&now, &Report::default());
        assert!(
            told.ends_with(
                "volatile in DDS\n  node 'ros2/lidar' publishes by another definition\n"
            ),
            "{told}"
        );
    }

    #[test]
    fn what_is_wrong_as_a_whole_comes_first() {
        let mut now = report(Vec::new(), Vec::new(), 2);
        let told = |now: &Report| warnings(now, now.ros2.as_ref().unwrap());
        assert!(
            told(&now).starts_with("no node of ROS 2 is seen: nodes need `ROS_DOMAIN_ID=7`"),
            "{}",
            told(&now)
        );
        now.ros2.as_mut().unwrap().nodes = 1;
        assert_eq!(told(&now), "");
        let ros2 = now.ros2.as_mut().unwrap();
        (ros2.malformed_tokens, ros2.beside) = (3, vec!["1af5".into()]);
        ros2.left_out = vec!["the message type a_msgs/msg/A is left out: A.msg:1: no".into()];
        let text = told(&now);
        assert!(
            text.starts_with(
                "the message type a_msgs/msg/A is left out: A.msg:1: no\n3 \
             announcements by rmw_zenoh"
            ),
            "{text}"
        );
        assert!(text.contains("session 1af5"), "{text}");
        now.network.connects = vec!["tcp/localhost:7447".into()];
        now.ros2.as_mut().unwrap().zenoh = true;
        assert!(
            !told(&now).contains("router"),
            "nodes are reached by their own addresses, or a router may be starting"
        );
        now.network.router_missing = true;
        assert!(
            told(&now).starts_with("no Zenoh router is reached at tcp/localhost:7447: "),
            "{}",
            told(&now)
        );
    }

    #[test]
    fn servers_and_clients_of_a_service_are_shown() {
        let mut now = report(Vec::new(), Vec::new(), 2);
        let seen = |now: &Report| {
            !warnings(now, now.ros2.as_ref().unwrap()).contains("no node of ROS 2 is seen")
        };
        let server = Ros2Server { node: "?".into(), profile: "DDS".into(), problem: None };
        for (from_ros, servers, clients, expected) in [
            (true, vec![server.clone()], vec![], true),
            (false, vec![server], vec![], false),
            (false, vec![], vec!["?".to_owned()], true),
            (true, vec![], vec![], false),
        ] {
            now.ros2.as_mut().unwrap().services = vec![Ros2ServiceReport {
                from_ros,
                servers,
                clients,
                ..Ros2ServiceReport::default()
            }];
            assert_eq!(seen(&now), expected, "{:?}", now.ros2);
        }
    }

    #[test]
    fn what_is_not_has_its_reason_in_each_direction() {
        let mut now =
            report(vec![topic("camera", &["eye"], &[], 0)], vec![topic("scan", &[], &[], 0)], 2);
        let refusal = |topic: &str, host: &str, (outgoing, subscription), reason: &str| Refusal {
            topic: topic.into(),
            host: host.into(),
            outgoing,
            subscription,
            reason: reason.into(),
            again_ms: None,
        };
        now.refused = vec![
            refusal("camera", "/rviz", (true, true), "RELIABILITY: no"),
            refusal("camera", "odd", (true, false), "no type"),
            refusal("scan", "", (false, false), "too long"),
        ];
        let text = text(&now, &Report::default());
        for expected in [
            "no node in ROS 2 has a subscription that matches\n  not carried: a subscription of \
             '/rviz': RELIABILITY: no\n",
            "not carried: the publisher of 'odd': no type",
            "scan: comes from ROS 2",
            "not carried: a publisher: too long",
        ] {
            assert!(text.contains(expected), "`{expected}` is not in\n{text}");
        }
        assert!(!text.contains("no node in ROS 2 publishes it"), "a node does: {text}");
        let ros2 = now.ros2.as_ref().unwrap();
        assert_eq!(
            (state(&now, (true, &ros2.to_ros[0])), state(&now, (false, &ros2.from_ros[0]))),
            ("does not match", "refused")
        );
        now.refused.clear();
        assert!(
            super::tests::text(&now, &Report::default())
                .contains("not received: no node in ROS 2 publishes it")
        );
    }
}
