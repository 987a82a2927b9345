// SPDX-License-Identifier: Apache-2.0
//! Services that a gateway carries between a domain and ROS 2: as a table, and in sentences.

use super::format::{NAME, REASON, dropped, hint, node};
use crate::commands::survey::print_table;
use crate::text::{count, cut};
use driveline_gateway::{Ros2Server, Ros2ServiceReport};
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use std::collections::{BTreeMap, BTreeSet};

fn state(service: &Ros2ServiceReport) -> &'static str {
    match (service.callable, service.servers.is_empty()) {
        _ if service.left_out => "left out",
        (true, _) => "served",
        (false, true) if service.from_ros => "no server there",
        (false, true) => "not served here",
        (false, false) => "refused",
    }
}

fn by_reason(counts: &BTreeMap<String, u64>) -> Vec<(&str, u64)> {
    counts.iter().filter(|(_, n)| **n > 0).map(|(why, n)| (why.as_str(), *n)).collect()
}

fn ended(service: &Ros2ServiceReport) -> String {
    dropped(&by_reason(&service.ended))
}

/// Prints the table of services and the number of those that are not called or left out; nothing if
/// there are no services.
pub(super) fn show(services: &[Ros2ServiceReport], explained: bool, screen: &Screen) {
    if services.is_empty() {
        return;
    }
    use Align::{Left, Right};
    let head = ["SERVICE", "SERVER", "STATE", "CALLS", "ANSWERED", "IN FLIGHT", "ENDED OTHERWISE"]
        .map(str::to_owned)
        .to_vec();
    let row = |s: &Ros2ServiceReport| {
        let server = if s.from_ros { "in ROS 2" } else { "here" }.to_owned();
        let (calls, answered, under_way) =
            (s.calls.to_string(), s.answered.to_string(), s.under_way.to_string());
        vec![
            cut(&s.service, NAME),
            server,
            state(s).to_owned(),
            calls,
            answered,
            under_way,
            ended(s),
        ]
    };
    let rows: Vec<_> = std::iter::once(head).chain(services.iter().map(row)).collect();
    screen.print("\n");
    print_table(&[Left, Left, Left, Right, Right, Right, Left], &rows, screen);
    for (what, of) in [("not called", "refused"), ("left out", "left out")] {
        let services = services.iter().filter(|s| state(s) == of).count();
        if services > 0 {
            screen.print(&format!(
                "\n{what}: {}{}\n",
                count(services as u64, "service"),
                hint(explained)
            ));
        }
    }
}

/// Services whose server is in this domain, with the server's node.
pub(super) type ServedHere = BTreeMap<String, String>;

/// Returns true if a rule expects the server in ROS 2 and none is there. If this domain has a
/// server of the service, the rule probably names the wrong side.
pub(super) fn none_there(s: &Ros2ServiceReport) -> bool {
    s.from_ros && !s.callable && !s.left_out && s.servers.is_empty()
}

/// Formats the servers: a line for each called server, and a line for each reason why others are
/// not called.
fn servers(s: &Ros2ServiceReport) -> String {
    let mut text = String::new();
    let mut not_called: BTreeMap<&str, BTreeMap<(String, String), u64>> = BTreeMap::new();
    for Ros2Server { node: name, profile, problem } in &s.servers {
        let (name, profile) = (node(name), cut(profile, NAME));
        match problem {
            Some(problem) => {
                *not_called.entry(problem).or_default().entry((name, profile)).or_default() += 1
            }
            None if s.from_ros => text += &format!("  served in ROS 2 by {name}, by {profile}\n"),
            None => text += &format!("  served here by {name}, offered by {profile}\n"),
        }
    }
    for (problem, nodes) in not_called {
        let several = nodes.values().sum::<u64>() > 1;
        let each = nodes.iter().map(|((name, profile), n)| match n {
            n if *n > 1 && *name == node("?") => format!("{n} nodes without a name by {profile}"),
            _ => format!("{name} by {profile}"),
        });
        let each = cut(&each.collect::<Vec<_>>().join(", "), 4 * NAME);
        text += &format!(
            "  not called: the server{} of {each}: {}\n",
            if several { "s" } else { "" },
            cut(problem, REASON)
        );
    }
    text
}

/// Returns a paragraph about a service.
pub(super) fn explained(s: &Ros2ServiceReport, here: &ServedHere) -> String {
    let (name, ros_type) = (cut(&s.service, NAME), cut(&s.ros_type, NAME));
    let place = if s.from_ros {
        "its server is in ROS 2, its clients are here"
    } else {
        "its server is here, its clients are in ROS 2"
    };
    let calls =
        format!("{}, {} answered, {} in flight", count(s.calls, "call"), s.answered, s.under_way);
    let mut text =
        format!("\n{name}: service {ros_type}; {place}; {calls}; ended otherwise: {}\n", ended(s));
    let strays = by_reason(&s.strays);
    if !strays.is_empty() {
        text += &format!("  came, and ended no call: {}\n", dropped(&strays));
    }
    text += &servers(s);
    if let Some(profile) = &s.across {
        text += &format!("  nodes on {} can call it as well\n", cut(profile, NAME));
    }
    let clients: BTreeSet<_> =
        s.clients.iter().map(|c| if c == "?" { node(c) } else { c.clone() }).collect();
    let clients: Vec<_> = clients.into_iter().collect();
    if !clients.is_empty() {
        text += &format!("  clients in ROS 2: {}\n", cut(&clients.join(", "), 4 * NAME));
    } else if !s.from_ros && s.callable {
        text += "  no node in ROS 2 calls it\n";
    }
    let told = |p: &&String| !s.servers.iter().any(|server| server.problem.as_ref() == Some(p));
    for problem in s.problems.iter().filter(told) {
        let what = match (s.left_out, s.callable) {
            (true, _) => "left out",
            (false, true) => "to be known",
            (false, false) => "not called",
        };
        text += &format!("  {what}: {}\n", cut(problem, REASON));
    }
    if none_there(s) {
        text += &match here.get(&s.service) {
            Some(by) => format!(
                "  {} serves `{name}` here: write `server: driveline` in its rule, for ROS 2 to \
                 call it\n",
                node(by)
            ),
            None => "  have both the same ROS_DOMAIN_ID and the same network?\n".to_owned(),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(from_ros: bool, problem: Option<&str>) -> Ros2ServiceReport {
        let server = Ros2Server {
            node: "/adder".into(),
            profile: "rmw_zenoh".into(),
            problem: problem.map(str::to_owned),
        };
        Ros2ServiceReport {
            service: "math/add".into(),
            ros_type: "example_interfaces/srv/AddTwoInts".into(),
            from_ros,
            callable: problem.is_none(),
            left_out: false,
            problems: problem.map(str::to_owned).into_iter().collect(),
            servers: vec![server],
            clients: vec!["/asker".into(), "?".into()],
            across: None,
            calls: 3,
            under_way: 1,
            answered: 1,
            ended: BTreeMap::from([("timed_out".to_owned(), 1), ("busy".to_owned(), 0)]),
            strays: BTreeMap::new(),
        }
    }

    #[test]
    fn what_is_wrong_with_several_servers_stands_there_once_and_nameless_ones_are_counted() {
        let mut s = service(true, Some("several servers"));
        let server = |node: &str| Ros2Server {
            node: node.into(),
            profile: "DDS".into(),
            problem: Some("several servers".into()),
        };
        s.servers = ["?", "/a", "?", "/b"].map(server).to_vec();
        let text = explained(&s, &ServedHere::new());
        assert!(
            text.contains(
                "not called: the servers of '/a' by DDS, '/b' by DDS, 2 nodes without a \
                 name by DDS: several servers\n"
            ),
            "{text}"
        );
        assert_eq!(text.matches("several servers").count(), 1, "{text}");
    }

    #[test]
    fn a_service_without_ros_2_clients_is_reported_and_reasons_have_no_control_characters() {
        let mut s = Ros2ServiceReport { clients: Vec::new(), ..service(false, None) };
        s.ended = BTreeMap::from([("\x1b[2J".to_owned(), 1)]);
        let text = explained(&s, &ServedHere::new());
        assert!(
            text.ends_with("  no node in ROS 2 calls it\n") && !text.contains('\x1b'),
            "{text}"
        );
        s.callable = false;
        assert!(!explained(&s, &ServedHere::new()).contains("no node in ROS 2 calls"));
    }

    #[test]
    fn a_service_that_is_served_has_its_server_clients_and_figures() {
        assert_eq!(
            explained(&service(false, None), &ServedHere::new()),
            "\nmath/add: service example_interfaces/srv/AddTwoInts; its server is here, its \
             clients are in ROS 2; 3 calls, 1 answered, 1 in flight; ended \
             otherwise: timed_out 1\n  served here by '/adder', offered by rmw_zenoh\n  clients in \
             ROS 2: /asker, a node without a name\n"
        );
        let mut passes = service(true, None);
        passes.across = Some("DDS".into());
        passes.strays = BTreeMap::from([("late".to_owned(), 2)]);
        let text = explained(&passes, &ServedHere::new());
        assert!(
            text.contains("otherwise: timed_out 1\n  came, and ended no call: late 2\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "served in ROS 2 by '/adder', by rmw_zenoh\n  nodes on DDS can call it as well\n"
            ),
            "{text}"
        );
        assert_eq!((state(&passes), state(&service(false, None))), ("served", "served"));
    }

    #[test]
    fn what_is_not_served_has_its_reason_once() {
        let refused = service(true, Some("its type has another hash"));
        let text = explained(&refused, &ServedHere::new());
        assert_eq!(text.matches("its type has another hash").count(), 1, "{text}");
        assert!(
            text.contains(
                "not called: the server of '/adder' by rmw_zenoh: its type has another hash\n"
            ),
            "{text}"
        );
        assert_eq!(state(&refused), "refused");
        let mut nobody = Ros2ServiceReport {
            servers: Vec::new(),
            ..service(true, Some("no node in ROS 2 offers it"))
        };
        let text = explained(&nobody, &ServedHere::new());
        assert!(
            text.contains(
                "not called: no node in ROS 2 offers it\n  have both the same ROS_DOMAIN_ID"
            ),
            "{text}"
        );
        assert_eq!(state(&nobody), "no server there");
        let text = explained(&nobody, &ServedHere::from([("math/add".into(), "adder".into())]));
        assert!(
            text.ends_with(
                "'adder' serves `math/add` here: write `server: driveline` in its \
             rule, for ROS 2 to call it\n"
            ),
            "{text}"
        );
        nobody.from_ros = false;
        assert_eq!(state(&nobody), "not served here");
        (nobody.from_ros, nobody.left_out, nobody.problems) =
            (true, true, vec!["no definition".into()]);
        let text = explained(&nobody, &ServedHere::new());
        assert!(
            text.ends_with("left out: no definition\n") && state(&nobody) == "left out",
            "{text}"
        );
    }
}
