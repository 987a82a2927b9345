// SPDX-License-Identifier: Apache-2.0
//! Shows the traffic of this host's gateways.

mod down;
mod explain;
mod format;
mod presence;
mod ros2;
mod ros2_services;

use super::domains::DomainPlace;
use super::services::servers;
use super::survey::print_table;
use crate::arguments::Gateway;
use crate::exit;
use crate::process;
use crate::text::{count, cut};
use driveline_gateway::{Answer, HostReport, Report, RouteReport, ask};
use driveline_terminal::figures::bytes;
use driveline_terminal::screen::Screen;
use driveline_terminal::table::Align;
use driveline_terminal::version::{COMMIT, VERSION};
use format::{NAME, REASON, Rate, clock, dropped, hint, inlet_state, seconds, short};
use presence::Presence;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Time-out of a request to a gateway.
const ASK: Duration = Duration::from_secs(3);
/// Duration over which rates are measured.
const MEASURED: Duration = Duration::from_secs(1);
/// Maximum number of topics named in an error.
const MOST_NAMED: usize = 20;
pub(crate) fn gateway(command: &Gateway, domain: Option<&str>, screen: &Screen) -> u8 {
    let Gateway::List { topic, explain } = command;
    match list(topic.as_deref(), *explain, domain, screen) {
        Ok(true) => exit::DONE,
        Ok(false) => exit::FAILED,
        Err(text) => {
            screen.error(text);
            exit::FAILED
        }
    }
}

/// Returns true if all gateways have answered.
fn list(
    topic: Option<&str>,
    explained: bool,
    domain: Option<&str>,
    screen: &Screen,
) -> Result<bool, String> {
    let place = DomainPlace::of(domain)?;
    let directory = driveline_shm::domain::existing(domain).map_err(|e| e.to_string())?;
    let question = || match &directory {
        Some(directory) => {
            ask(directory, ASK).map_err(|e| format!("cannot read {}: {e}", directory.display()))
        }
        None => Ok(Vec::new()),
    };
    let before = question()?;
    let alive = before.iter().any(|a| matches!(a, Answer::Report(_)));
    let now = if alive {
        std::thread::sleep(MEASURED);
        question()?
    } else {
        before.clone()
    };
    let earlier = |report: &Report| {
        let same = |a: &Answer| match a {
            Answer::Report(r) if r.host == report.host && r.gateway == report.gateway => {
                Some(Report::clone(r))
            }
            _ => None,
        };
        // Without an earlier report, the rate of a gateway is not known: it is shown as 0.
        before.iter().find_map(same).unwrap_or_else(|| report.clone())
    };
    if let Some(wanted) = topic {
        known(wanted, &now, &place)?;
    }
    let wanted = topic.map(|t| t.strip_prefix('/').unwrap_or(t));
    let now = now.into_iter().map(|answer| match answer {
        Answer::Report(report) => Answer::Report(Box::new(only(*report, wanted))),
        other => other,
    });
    let now: Vec<Answer> = now.collect();
    if screen.json {
        let told = |answer: &Answer| match answer {
            Answer::Report(report) => as_json(report, &earlier(report)),
            Answer::Dead { kind } => json!({ "gateway": kind, "state": "dead" }),
            Answer::Silent { kind, pid, reason } => {
                let state =
                    if pid.is_some_and(process::is_stopped) { "suspended" } else { "silent" };
                json!({ "gateway": kind, "state": state, "pid": pid, "reason": reason })
            }
        };
        screen.print_json(&now.iter().map(told).collect::<Vec<_>>());
        return Ok(down::report(&now, &place, screen));
    }
    let expected = |a: &Answer| match a {
        Answer::Report(r) => {
            r.ros2.iter().flat_map(|ros2| &ros2.services).any(ros2_services::none_there)
        }
        _ => false,
    };
    let here = if explained && now.iter().any(expected) {
        servers(&super::survey::ask(domain, screen)?.1)
    } else {
        BTreeMap::new()
    };
    for report in now.iter().filter_map(reported) {
        let before = earlier(report);
        match &report.ros2 {
            Some(ros2) => ros2::show(report, ros2, &before, explained, screen),
            None => show(report, &before, explained, screen),
        }
        if explained {
            screen.print(&match &report.ros2 {
                Some(ros2) => ros2::explained(report, ros2, &before, &here),
                None => explain::topics(report, &before),
            });
        }
    }
    if now.is_empty() {
        screen.print(&format!(
            "no gateway in {place}: `driveline run` starts one to other hosts for a graph whose \
             topics have `reach: network`, and one to ROS 2 for \
             a graph that has rules under `ros2:`\n"
        ));
    }
    Ok(down::report(&now, &place, screen))
}

fn reported(answer: &Answer) -> Option<&Report> {
    match answer {
        Answer::Report(report) => Some(report),
        Answer::Dead { .. } | Answer::Silent { .. } => None,
    }
}

/// Returns the names of the topics and services in a report.
fn names(report: &Report) -> impl Iterator<Item = &str> {
    let of_hosts =
        report.topics.iter().map(|t| &t.topic).chain(report.edges.iter().map(|e| &e.topic));
    let of_hosts = of_hosts
        .chain(report.inlets.iter().map(|i| &i.topic))
        .chain(report.refused.iter().map(|r| &r.topic));
    of_hosts.map(String::as_str).chain(report.ros2.iter().flat_map(ros2::names))
}

/// Returns an error if gateways have answered and none of them knows the name.
fn known(wanted: &str, answers: &[Answer], place: &DomainPlace) -> Result<(), String> {
    let reports: Vec<&Report> = answers.iter().filter_map(reported).collect();
    let names: BTreeSet<&str> = reports.iter().flat_map(|r| names(r)).collect();
    if reports.is_empty() || names.contains(wanted.strip_prefix('/').unwrap_or(wanted)) {
        return Ok(());
    }
    let named: Vec<_> = names.iter().take(MOST_NAMED).map(|n| cut(n, NAME)).collect();
    let more = names.len() - named.len();
    let there = match (named.is_empty(), more) {
        (true, _) => "they carry nothing".to_owned(),
        (false, 0) => format!("there are: {}", named.join(", ")),
        (false, more) => format!("there are: {} and {more} more", named.join(", ")),
    };
    Err(format!(
        "no gateway of {place} knows the topic or service '{}'; {there}",
        cut(wanted, NAME)
    ))
}

/// Returns the part of a report about one topic or service; the whole report if `topic` is `None`.
fn only(mut report: Report, topic: Option<&str>) -> Report {
    if let Some(topic) = topic {
        report.topics.retain(|t| t.topic == topic);
        report.edges.retain(|e| e.topic == topic);
        report.inlets.retain(|i| i.topic == topic);
        report.refused.retain(|r| r.topic == topic);
        if let Some(ros2) = &mut report.ros2 {
            ros2::only(ros2, topic);
        }
    }
    report
}

fn as_json(report: &Report, before: &Report) -> Value {
    let mut value = serde_json::to_value(report).unwrap_or_default();
    let rates = |rate: Rate, of: &mut Value| {
        of["samples_per_s"] = json!(rate.samples);
        of["bytes_per_s"] = json!(rate.bytes);
    };
    report
        .edges
        .iter()
        .enumerate()
        .for_each(|(n, e)| rates(Rate::of_edge(e, report, before), &mut value["edges"][n]));
    report
        .inlets
        .iter()
        .enumerate()
        .for_each(|(n, i)| rates(Rate::of_inlet(i, report, before), &mut value["inlets"][n]));
    if let Some(ros2) = &report.ros2 {
        let (to, from) = ros2::rates(ros2, report, before);
        to.iter()
            .enumerate()
            .for_each(|(n, rate)| value["ros2"]["to_ros"][n]["samples_per_s"] = json!(rate));
        from.iter()
            .enumerate()
            .for_each(|(n, rate)| value["ros2"]["from_ros"][n]["samples_per_s"] = json!(rate));
    }
    value["state"] = json!("running");
    value
}

fn state(h: &HostReport) -> String {
    let before = match h.outages {
        0 => String::new(),
        n => format!(", gone {} before ({})", count(n, "time"), seconds(h.outage_ms)),
    };
    format!("{} {}{before}", if h.alive { "there for" } else { "gone for" }, seconds(h.for_ms))
}

/// Remarks on a host, one line each.
fn remarks(h: &HostReport) -> Vec<String> {
    let host = cut(&h.host, NAME);
    let problem = h
        .problem
        .as_ref()
        .map(|problem| format!("host '{host}' cannot be served: {}\n", cut(problem, REASON)));
    let dropped = (h.acknowledgements_dropped > 0).then(|| {
        format!(
            "host '{host}': {} dropped: too many waited on the way to it\n",
            count(h.acknowledgements_dropped, "acknowledgement")
        )
    });
    let impossible = (h.impossible_exchanges > 0).then(|| {
        let exchanges = count(h.impossible_exchanges, "exchange");
        format!(
            "host '{host}': {exchanges} of clock times is impossible (an answer before its \
             question) and was not used\n"
        )
    });
    problem.into_iter().chain(dropped).chain(impossible).collect()
}

/// Returns the line for a topic of which a host acknowledges samples that were never sent.
fn impossible(e: &RouteReport) -> Option<String> {
    let count = Some(e.figures.impossible_acknowledgements)
        .filter(|n| *n > 0)
        .map(|n| count(n, "acknowledgement"))?;
    let (topic, host) = (cut(&e.topic, NAME), cut(&e.to, NAME));
    Some(format!(
        "topic '{topic}': {count} by host '{host}' of samples that were never sent, which were \
         passed over\n"
    ))
}

/// Formats an endpoint. With port 0 the kernel chooses the port, and only hosts to which the
/// endpoint is reported know the port.
fn listening(endpoint: &str) -> String {
    let (address, settings) = endpoint.split_once('#').unwrap_or((endpoint, ""));
    match address.strip_suffix(":0") {
        Some(address) if settings.is_empty() => format!("{address} (any free port)"),
        Some(address) => format!("{address} (any free port, {settings})"),
        None => endpoint.to_owned(),
    }
}

/// Returns a remark if the gateway was built from other sources than this program: mistakes of the
/// gateway may be corrected in newer sources, and features may be missing in older ones.
fn of_another_build(report: &Report) -> Option<String> {
    let (version, commit) = (report.version.as_str(), report.commit.as_str());
    // Older releases do not report their commit.
    (!commit.is_empty() && (version, commit) != (VERSION, COMMIT)).then(|| {
        format!(
            "it is of version {} (commit {}), and this program of {} ({}): `make gateways` builds \
             both kinds anew; it goes on as it is until it is started again\n",
            cut(version, NAME),
            cut(commit, NAME),
            VERSION,
            COMMIT
        )
    })
}

fn show(report: &Report, before: &Report, explained: bool, screen: &Screen) {
    let listed = |list: &[String]| {
        if list.is_empty() { "-".to_owned() } else { cut(&list.join(", "), 4 * NAME) }
    };
    let n = &report.network;
    let listens: Vec<String> = n.listens.iter().map(|endpoint| listening(endpoint)).collect();
    let routers = if n.routers > 0 {
        format!(" and {}", count(n.routers as u64, "router"))
    } else {
        String::new()
    };
    screen.print(&format!(
        "gateway {} (process {}): host '{}' of domain '{}', for {}\n{} {}; connects to {}; \
         connected to {}{routers}\n",
        cut(&report.gateway, NAME),
        report.pid,
        cut(&report.host, NAME),
        cut(&report.domain, NAME),
        seconds(report.up_ms),
        if n.kept_out.is_some() { "is to listen on" } else { "listens on" },
        listed(&listens),
        listed(&n.connects),
        count(n.peers as u64, "peer"),
    ));
    if let Some(line) = of_another_build(report) {
        screen.print(&line);
    }
    if let Some(caution) = &n.caution {
        screen.print(&format!("{}\n", cut(caution, REASON)));
    }
    if let Some(why) = &n.kept_out {
        screen.print(&format!(
            "this host is not in the network; the gateway tries again each second: {}\n",
            cut(why, REASON)
        ));
    }
    if report.stale {
        screen.print(
            "it did not answer within 2 s: what follows is what it said before; ask \
             again, and see what keeps it busy (`top`)\n",
        );
    }
    use Align::{Left, Right};
    let head = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    if !report.hosts.is_empty() {
        screen.print("\n");
        let row = |h: &HostReport| vec![cut(&h.host, NAME), state(h), clock(h)];
        let rows: Vec<_> = std::iter::once(head(&["HOST", "STATE", "CLOCK OFFSET"]))
            .chain(report.hosts.iter().map(row))
            .collect();
        print_table(&[Left, Left, Left], &rows, screen);
        report.hosts.iter().flat_map(remarks).for_each(|line| screen.print(&line));
    }
    if !report.topics.is_empty() {
        screen.print("\n");
        let names = ["TOPIC", "WAY", "STATE", "SAMPLES/S", "BYTES/S", "SAMPLES", "DROPPED"];
        let rows: Vec<_> = std::iter::once(head(&names))
            .chain(report.topics.iter().flat_map(|t| rows(&t.topic, report, before)))
            .collect();
        print_table(&[Left, Left, Left, Right, Right, Right, Left], &rows, screen);
    }
    report.edges.iter().filter_map(impossible).for_each(|line| screen.print(&line));
    if report.unknown > 0 || report.damaged > 0 {
        let (unknown, damaged) = (count(report.unknown, "sample"), count(report.damaged, "sample"));
        screen.print(&format!(
            "\n{unknown} had no receiver here; {damaged} could not be understood\n"
        ));
    }
    screen.print(&unexplained(report, explained));
}

/// Returns the number of refused ends, or a hint at topics that are not carried. Names `--explain`
/// unless the command has that option.
fn unexplained(report: &Report, explained: bool) -> String {
    let carried = |topic: &str| {
        report.edges.iter().any(|e| e.topic == topic)
            || report.inlets.iter().any(|i| i.topic == topic)
    };
    match report.refused.len() as u64 {
        refused @ 1.. => format!("\nnot carried: {}{}\n", count(refused, "end"), hint(explained)),
        0 if !explained && report.topics.iter().any(|t| !carried(&t.topic)) => {
            "\n`--explain` says why a topic is not carried\n".into()
        }
        0 => String::new(),
    }
}

/// Returns the rows of one topic: one for each route to or from another host and for each refusal,
/// or one row that reports that there are none.
fn rows(topic: &str, report: &Report, before: &Report) -> Vec<Vec<String>> {
    let row =
        |way: String, state: &str, rate: Option<Rate>, samples: u64, drops: &[(&str, u64)]| {
            let figure = |f: fn(Rate) -> String| rate.map_or_else(|| "-".to_owned(), f);
            let (per_s, bytes_per_s) =
                (figure(|r| format!("{:.1}", r.samples)), figure(|r| bytes(r.bytes as u64)));
            vec![
                cut(topic, NAME),
                way,
                state.to_owned(),
                per_s,
                bytes_per_s,
                samples.to_string(),
                dropped(drops),
            ]
        };
    let mut rows = Vec::new();
    for e in report.edges.iter().filter(|e| e.topic == topic) {
        let host = Presence::of(&e.to, report);
        let state = host.or(if e.parked { "not wanted any more" } else { "carried" });
        let rate = Some(Rate::of_edge(e, report, before));
        rows.push(row(
            format!("→ {}", host.name(&e.to)),
            state,
            rate,
            e.figures.sent,
            &e.figures.drops(),
        ));
    }
    for i in report.inlets.iter().filter(|i| i.topic == topic) {
        let host = Presence::of(&i.from, report);
        let (state, rate) =
            (host.or(inlet_state(i.state)), Some(Rate::of_inlet(i, report, before)));
        rows.push(row(
            format!("← {}", host.name(&i.from)),
            state,
            rate,
            i.figures.published,
            &i.figures.drops(),
        ));
    }
    for r in report.refused.iter().filter(|r| r.topic == topic) {
        let to = if r.host.is_empty() { "others".to_owned() } else { short(&r.host) };
        rows.push(row(
            format!("{} {to}", if r.outgoing { "→" } else { "←" }),
            "refused",
            None,
            0,
            &[],
        ));
    }
    if rows.is_empty() {
        rows.push(row("-".into(), "not carried", None, 0, &[]));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_gateway::{
        NetworkReport, RemotePublisherFigures, RemotePublisherReport, RemotePublisherState,
        Ros2Report, Ros2ServiceReport, Ros2TopicReport, RouteFigures, TopicReport,
    };

    #[test]
    fn figures_and_words_of_a_hostile_report_do_no_harm() {
        let network = NetworkReport { peers: usize::MAX, routers: 1, ..NetworkReport::default() };
        let (max_rate_hz, every, publishers) = (None, None, Vec::new());
        let topics = vec![TopicReport {
            topic: "camera".into(),
            send: true,
            receive: true,
            max_payload: 1,
            max_rate_hz,
            every,
            publishers,
            similar: None,
        }];
        let report = Report { unknown: u64::MAX, damaged: 1, network, topics, ..Report::default() };
        show(&report, &Report::default(), false, &Screen::new(false));
        assert_eq!(unexplained(&report, false), "\n`--explain` says why a topic is not carried\n");
        assert_eq!(unexplained(&report, true), "", "the reasons are printed already");
        assert!(explain::topics(&report, &Report::default()).contains("neighbours none serves"));
        assert_eq!(dropped(&[("\x1b[2J", 1)]), "\u{fffd}[2J 1");
    }

    #[test]
    fn no_port_0_is_shown_to_people() {
        let shown = ["tcp/[::1]:0", "tcp/10.0.0.1:10", "unixsock-stream//run/x"].map(listening);
        assert_eq!(
            shown,
            ["tcp/[::1] (any free port)", "tcp/10.0.0.1:10", "unixsock-stream//run/x"]
        );
    }

    #[test]
    fn of_a_host_that_drops_acknowledgements_it_is_said() {
        let host = |acknowledgements_dropped| HostReport {
            host: "trunk.01".into(),
            acknowledgements_dropped,
            ..HostReport::default()
        };
        assert_eq!(remarks(&host(0)), [""; 0]);
        assert_eq!(
            remarks(&host(3)),
            ["host 'trunk.01': 3 acknowledgements dropped: too many waited on the way to it\n"]
        );
        let both = HostReport { problem: Some("of another version".into()), ..host(1) };
        assert!(matches!(
            remarks(&both).as_slice(),
            [problem, dropped] if problem.contains("cannot be served") && dropped.contains("1 ack")
        ));
    }

    #[test]
    fn what_cannot_be_is_said_of_the_host_that_says_it() {
        let host = |impossible_exchanges| HostReport {
            host: "trunk.01".into(),
            impossible_exchanges,
            ..HostReport::default()
        };
        assert_eq!(remarks(&host(0)), [""; 0]);
        let said = "host 'trunk.01': 1 exchange of clock times is impossible (an answer before its \
             question) and was not used\n";
        assert_eq!(remarks(&host(1)), [said]);
        let edge = |impossible_acknowledgements| RouteReport {
            topic: "lanes".into(),
            to: "trunk.01".into(),
            offered: "rv".into(),
            qos: "rv".into(),
            parked: false,
            figures: RouteFigures { impossible_acknowledgements, ..RouteFigures::default() },
        };
        assert_eq!(impossible(&edge(0)), None);
        let said = "topic 'lanes': 2 acknowledgements by host 'trunk.01' of samples that were \
             never sent, which were passed over\n";
        assert_eq!(impossible(&edge(2)).as_deref(), Some(said));
    }

    #[test]
    fn routes_of_a_departed_host_are_marked_and_starts_are_distinguished() {
        let host =
            |host: &str, alive| HostReport { host: host.into(), alive, ..HostReport::default() };
        let edge = |to: &str, parked| RouteReport {
            topic: "lanes".into(),
            to: to.into(),
            offered: "rv".into(),
            qos: "rv".into(),
            parked,
            figures: RouteFigures::default(),
        };
        let inlet = |from: &str, state| RemotePublisherReport {
            topic: "lanes".into(),
            from: from.into(),
            node: "n".into(),
            publisher: "1".into(),
            schema: "Lanes".into(),
            qos: driveline_types::Qos::default(),
            max_payload: 1,
            state,
            figures: RemotePublisherFigures::default(),
        };
        let ways = |report: &Report| -> Vec<_> {
            let rows = rows("lanes", report, &Report::default()).into_iter();
            rows.map(|row| format!("{}: {}", row[1], row[2])).collect()
        };
        // The cable to the host `roof` is cut.
        let edges = vec![edge("roof.01", true), edge("trunk.01", true), edge("bonnet.01", false)];
        let inlets = vec![
            inlet("roof.01", RemotePublisherState::HostGone),
            inlet("trunk.01", RemotePublisherState::Wanted),
        ];
        let hosts = vec![host("roof.01", false), host("trunk.01", true)];
        let mut report = Report { hosts, edges, inlets, ..Report::default() };
        let gone = [
            "→ roof: host is gone",
            "→ trunk: not wanted any more",
            "→ bonnet: carried",
            "← roof: host is gone",
            "← trunk: carried",
        ];
        assert_eq!(ways(&report), gone);
        // The gateway of the host `roof` was started again.
        report.hosts.push(host("roof.02", true));
        report.edges = vec![edge("roof.01", true), edge("roof.02", false)];
        report.inlets = vec![
            inlet("roof.01", RemotePublisherState::HostGone),
            inlet("roof.02", RemotePublisherState::Wanted),
        ];
        let again = [
            "→ roof.01: restarted since",
            "→ roof: carried",
            "← roof.01: restarted since",
            "← roof: carried",
        ];
        assert_eq!(ways(&report), again);
    }

    #[test]
    fn a_name_that_no_gateway_knows_is_an_error_with_those_that_they_know() {
        let place = DomainPlace::Named("pilot".into());
        let topic =
            |name: &str| Ros2TopicReport { topic: name.into(), ..Ros2TopicReport::default() };
        let service =
            Ros2ServiceReport { service: "map/tile".into(), ..Ros2ServiceReport::default() };
        let ros2 = Ros2Report {
            from_ros: vec![topic("tf")],
            to_ros: vec![topic("camera")],
            services: vec![service],
            ..Ros2Report::default()
        };
        let answers = [
            Answer::Report(Box::new(Report { ros2: Some(ros2), ..Report::default() })),
            Answer::Dead { kind: "zenoh".into() },
        ];
        for name in ["tf", "/tf", "camera", "map/tile"] {
            assert_eq!(known(name, &answers, &place), Ok(()), "{name}");
        }
        let told = known("tff", &answers, &place).unwrap_err();
        assert_eq!(
            told,
            "no gateway of domain 'pilot' knows the topic or service 'tff'; there are: camera, \
             map/tile, tf"
        );
        assert_eq!(
            known("tf", &answers[1..], &place),
            Ok(()),
            "the knowledge of a dead gateway is lost"
        );
        let idle = [Answer::Report(Box::default())];
        assert!(known("tf", &idle, &place).unwrap_err().ends_with("they carry nothing"));
    }
}
