// SPDX-License-Identifier: Apache-2.0
//! Explains in sentences how each topic is carried, and why a topic is not carried.

use super::Presence;
use super::format::{NAME, REASON, Rate, clock, dropped, inlet_state, ms, seconds, short};
use crate::commands::list::qos;
use crate::text::{count, cut};
use driveline_gateway::{
    HostReport, RemotePublisherReport, RemotePublisherState, Report, RouteReport, TopicReport,
};
use driveline_terminal::figures::bytes;

/// Returns a paragraph for each topic.
pub(super) fn topics(report: &Report, before: &Report) -> String {
    report.topics.iter().map(|t| topic(t, report, before)).collect()
}

fn topic(t: &TopicReport, report: &Report, before: &Report) -> String {
    let ways = match (t.send, t.receive) {
        (true, true) => "goes to other hosts and comes from them",
        (true, false) => "goes to other hosts",
        (false, true) => "comes from other hosts",
        (false, false) => "is not carried: nothing on this host publishes or reads it",
    };
    let rate = t
        .max_rate_hz
        .map(|hz| format!(", at most {hz} samples/s to each"))
        .unwrap_or_default()
        + &t.every.filter(|n| *n > 1).map(|n| format!(", one sample of {n}")).unwrap_or_default();
    let mut lines = vec![format!(
        "\n{}: {ways}; samples of at most {} come in{rate}",
        cut(&t.topic, NAME),
        bytes(t.max_payload)
    )];
    for p in &t.publishers {
        lines.push(format!(
            "  published here by '{}': {}, {}, samples of at most {}",
            cut(&p.node, NAME),
            cut(&p.schema, NAME),
            qos(&p.qos),
            bytes(p.max_payload)
        ));
    }
    let edges: Vec<_> = report.edges.iter().filter(|e| e.topic == t.topic).collect();
    let inlets: Vec<_> = report.inlets.iter().filter(|i| i.topic == t.topic).collect();
    lines.extend(edges.iter().map(|e| edge(e, report, before)));
    lines.extend(inlets.iter().map(|i| inlet(i, report, before)));
    let refused: Vec<_> = report.refused.iter().filter(|r| r.topic == t.topic).collect();
    for r in &refused {
        let to = if r.host.is_empty() {
            "other hosts".to_owned()
        } else {
            format!("host '{}'", short(&r.host))
        };
        let again =
            r.again_ms.map(|ms| format!("; tried again in {}", seconds(ms))).unwrap_or_default();
        lines.push(format!(
            "  not carried {} {to}: {}{again}",
            if r.outgoing { "to" } else { "from" },
            cut(&r.reason, REASON)
        ));
    }
    let out = refused.iter().any(|r| r.outgoing);
    if report.network.kept_out.is_some() {
        lines.push("  not carried: this host is not in the network".to_owned());
        return lines.iter().map(|l| l.clone() + "\n").collect();
    }
    if t.send && edges.is_empty() && !out {
        let why = if t.publishers.is_empty() {
            "no process on this host publishes it (a publisher with process reach is seen in its \
             own process only)"
                .to_owned()
        } else {
            // A refusing host gives no reason.
            let refuses = if is_alone(report) {
                ""
            } else {
                ", or one refuses it: `driveline gateway list --explain` there says why"
            };
            format!(
                "no other host wants it: none has a subscription that matches{refuses}{}",
                others(report)
            )
        };
        lines.push(format!("  not sent: {why}"));
    }
    if t.receive
        && inlets.is_empty()
        && refused.len() == refused.iter().filter(|r| r.outgoing).count()
    {
        let similar = t.similar.as_ref().map_or(String::new(), |s| {
            format!(
                "; one sends '{}', which is not received here: is one of the two misspelt?",
                cut(s, NAME)
            )
        });
        lines.push(format!("  not received: no other host offers it{similar}{}", others(report)));
    }
    lines.iter().map(|l| l.clone() + "\n").collect()
}

/// Returns the hosts that can exchange samples with this host.
fn there(report: &Report) -> impl Iterator<Item = &HostReport> {
    report.hosts.iter().filter(|h| h.alive && h.problem.is_none())
}

fn is_alone(report: &Report) -> bool {
    there(report).next().is_none()
}

/// Lists hosts that could exchange samples with this one.
fn others(report: &Report) -> String {
    if !is_alone(report) {
        return format!(
            "; known: {}",
            there(report).map(|h| format!("'{}'", short(&h.host))).collect::<Vec<_>>().join(", ")
        );
    }
    format!("; no other host is there: {}", cut(&report.alone(), REASON))
}

fn mark(mark: &str) -> String {
    let reliability = if mark.starts_with('r') { "reliable" } else { "best effort" };
    let durability = if mark.ends_with('t') { "transient local" } else { "volatile" };
    format!("{reliability}, {durability}")
}

fn rates(rate: Rate) -> String {
    format!("{:.1} samples/s, {}/s", rate.samples, bytes(rate.bytes as u64))
}

fn mean(total: u64, samples: u64) -> String {
    total
        .checked_div(samples)
        .map_or_else(String::new, |mean| format!(" of {} on average", bytes(mean)))
}

fn gone(presence: Presence) -> &'static str {
    if presence == Presence::Restarted {
        "that host's gateway was started again, and the one of this start is gone for"
    } else {
        "that host is gone for"
    }
}

fn edge(e: &RouteReport, report: &Report, before: &Report) -> String {
    let f = &e.figures;
    let host = report.hosts.iter().find(|h| h.host == e.to);
    let presence = Presence::of(&e.to, report);
    let state = match host {
        Some(h) if !h.alive => format!("{} {}", gone(presence), seconds(h.for_ms)),
        _ if e.parked => "it has no reader there at present".to_owned(),
        _ => rates(Rate::of_edge(e, report, before)),
    };
    format!(
        "  → {} ({}): {state}; {} sent{}, {} arrived, {} on the way{}; dropped: {}",
        presence.name(&e.to),
        mark(&e.qos),
        count(f.sent, "sample"),
        mean(f.sent_bytes, f.sent),
        f.delivered,
        f.in_flight,
        if f.sent_again > 0 { format!(", {} sent again", f.sent_again) } else { String::new() },
        dropped(&f.drops()),
    )
}

fn inlet(i: &RemotePublisherReport, report: &Report, before: &Report) -> String {
    let f = &i.figures;
    let host = report.hosts.iter().find(|h| h.host == i.from);
    let presence = Presence::of(&i.from, report);
    let state = match host {
        Some(h) if !h.alive => format!("{} {}", gone(presence), seconds(h.for_ms)),
        _ if i.state == RemotePublisherState::Wanted => rates(Rate::of_inlet(i, report, before)),
        _ => inlet_state(i.state).to_owned(),
    };
    let transit = match host.and_then(|h| h.offset_error_ns) {
        Some(error) if f.published > 0 => {
            format!(
                "; the newest took {} ± {}",
                ms(f.transit_ns),
                ms(i64::try_from(error).unwrap_or(i64::MAX))
            )
        }
        _ => String::new(),
    };
    let clock = host.map(|h| format!("; its clock: {}", clock(h))).unwrap_or_default();
    format!(
        "  ← {}, published there by '{}' ({}, {}, samples of at most {}): {state}; {} \
         received{}{transit}; dropped: {}{clock}",
        presence.name(&i.from),
        cut(&i.node, NAME),
        cut(&i.schema, NAME),
        qos(&i.qos),
        bytes(i.max_payload),
        count(f.published, "sample"),
        mean(f.published_bytes, f.published),
        dropped(&f.drops()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use driveline_gateway::{
        NetworkReport, PublisherReport, Refusal, RemotePublisherFigures, RouteFigures,
    };
    use driveline_types::Qos;

    fn topic_report(send: bool, receive: bool, publishers: Vec<PublisherReport>) -> TopicReport {
        TopicReport {
            topic: "camera".into(),
            send,
            receive,
            max_payload: 1 << 20,
            max_rate_hz: None,
            every: None,
            publishers,
            similar: None,
        }
    }

    fn publisher() -> PublisherReport {
        let qos = Qos::default();
        PublisherReport {
            node: "eye".into(),
            publisher: "1".into(),
            schema: "Image".into(),
            qos,
            max_payload: 4096,
        }
    }

    fn host(alive: bool) -> HostReport {
        let (offset_ns, offset_error_ns) = (Some(-3_000_000), Some(50_000));
        HostReport {
            host: "trunk.01".into(),
            alive,
            for_ms: 7_000,
            outages: 0,
            outage_ms: 0,
            offset_ns,
            offset_error_ns,
            exchanges: 3,
            clock_steps: 0,
            impossible_exchanges: 0,
            acknowledgements_dropped: 0,
            problem: None,
        }
    }

    fn report(topic: TopicReport) -> Report {
        Report {
            domain: "d".into(),
            at_ns: 2_000_000_000,
            topics: vec![topic],
            ..Report::default()
        }
    }

    #[track_caller]
    fn says(report: &Report, before: &Report, expected: &[&str]) {
        let text = topics(report, before);
        for e in expected {
            assert!(text.contains(e), "`{e}` is not in\n{text}");
        }
    }

    #[test]
    fn what_is_not_carried_has_its_reason() {
        let nobody = report(topic_report(true, true, Vec::new()));
        let before = Report::default();
        says(
            &nobody,
            &before,
            &[
                "not sent: no process on this host publishes it",
                "not received: no other host offers it; no other host is there: no host has \
                 connected",
            ],
        );
        let unwanted = report(topic_report(true, false, vec![publisher()]));
        says(
            &unwanted,
            &before,
            &[
                "published here by 'eye': Image, best effort",
                "no other host wants it",
                "no other host is there",
            ],
        );
        let alone = NetworkReport {
            connects: vec!["tcp/10.0.0.1:7450".into()],
            ..NetworkReport::default()
        };
        says(
            &Report { network: alone, ..unwanted.clone() },
            &before,
            &["no gateway answers at tcp/10.0.0.1:7450, or it refuses this host"],
        );
        let named = NetworkReport {
            connects: vec!["tcp/roof:7450".into(), "tcp/[::1]:7450".into()],
            ..NetworkReport::default()
        };
        says(
            &Report { network: named, ..unwanted.clone() },
            &before,
            &["no gateway answers at tcp/roof:7450, tcp/[::1]:7450, or it refuses this host; \
                 does a gateway run there, is the name known (`getent hosts roof`), and"],
        );
        let searched = NetworkReport { interface: Some("eth0".into()), ..NetworkReport::default() };
        says(
            &Report { network: searched, ..unwanted.clone() },
            &before,
            &["no other host is there: no gateway answers the multicast at interface eth0, or it \
                 refuses this host; does"],
        );
        let elsewhere = NetworkReport { peers: 1, ..NetworkReport::default() };
        says(
            &Report { network: elsewhere, ..unwanted.clone() },
            &before,
            &["of 1 neighbour none serves domain 'd': hosts exchange topics where `domain` is \
                 the same"],
        );
        says(
            &Report { hosts: vec![host(true)], ..unwanted.clone() },
            &before,
            &["none has a subscription that matches, or one refuses it: `driveline gateway list \
                 --explain` there says why; known: 'trunk'"],
        );
        let misspelt =
            TopicReport { similar: Some("camara".into()), ..topic_report(false, true, Vec::new()) };
        says(
            &Report { hosts: vec![host(true)], ..report(misspelt) },
            &before,
            &["no other host offers it; one sends 'camara', which is not received here: is one \
                 of the two misspelt?; known: 'trunk'"],
        );
        let out = NetworkReport { kept_out: Some("no address".into()), ..NetworkReport::default() };
        says(
            &Report { network: out, ..unwanted.clone() },
            &before,
            &["  not carried: this host is not in the network\n"],
        );
        let tls = NetworkReport {
            connects: vec!["tls/10.0.0.1:7450".into()],
            ..NetworkReport::default()
        };
        says(
            &Report { network: tls.clone(), ..unwanted.clone() },
            &before,
            &["let it through? Over TLS: has the `authority`"],
        );
        let rights = NetworkReport { peers: 1, ..tls };
        says(
            &Report { network: rights, ..unwanted.clone() },
            &before,
            &["`domain` is the same; where rules give rights to certificates"],
        );
        let refused = Refusal {
            topic: "camera".into(),
            host: "trunk.01".into(),
            outgoing: false,
            subscription: false,
            reason: "too long".into(),
            again_ms: Some(4_200),
        };
        let refused =
            Report { refused: vec![refused], ..report(topic_report(false, true, Vec::new())) };
        says(&refused, &before, &["not carried from host 'trunk': too long; tried again in 4 s"]);
        assert!(!topics(&refused, &before).contains("no other host offers"));
    }

    #[test]
    fn what_is_carried_has_rates_sizes_drops_and_the_clock() {
        let figures = RouteFigures {
            sent: 30,
            sent_bytes: 30 << 10,
            delivered: 29,
            in_flight: 1,
            superseded: 4,
            ..RouteFigures::default()
        };
        let edge = RouteReport {
            topic: "camera".into(),
            to: "trunk.01".into(),
            offered: "rt".into(),
            qos: "rt".into(),
            parked: false,
            figures,
        };
        let earlier = RouteReport {
            figures: RouteFigures { sent: 10, sent_bytes: 10 << 10, ..figures },
            ..edge.clone()
        };
        let before = Report { at_ns: 1_000_000_000, edges: vec![earlier], ..Report::default() };
        let mut now = Report {
            hosts: vec![host(true)],
            edges: vec![edge],
            ..report(topic_report(true, true, vec![publisher()]))
        };
        let inlet = RemotePublisherReport {
            topic: "camera".into(),
            from: "trunk.01".into(),
            node: "ear".into(),
            publisher: "2".into(),
            schema: "Image".into(),
            qos: Qos::default(),
            max_payload: 4096,
            state: RemotePublisherState::Wanted,
            figures: RemotePublisherFigures {
                published: 5,
                published_bytes: 10,
                lost: 2,
                transit_ns: -1_000,
                ..RemotePublisherFigures::default()
            },
        };
        now.inlets.push(inlet);
        says(
            &now,
            &before,
            &[
                "→ trunk (reliable, transient local): 20.0 samples/s, 20 KiB/s; 30 samples sent of \
                 1 KiB on average, 29 arrived, 1 on the way; dropped: superseded 4",
                "← trunk, published there by 'ear'",
                "the newest took -0.001 ms ± 0.050 ms; dropped: lost 2; its clock: -3.000 ms ± \
                 0.050 ms",
            ],
        );
        // The other host dies.
        now.hosts[0].alive = false;
        now.edges[0].parked = true;
        now.inlets[0].state = RemotePublisherState::HostGone;
        says(&now, &before, &["→ trunk (reliable, transient local): that host is gone for 7 s"]);
        assert_eq!(topics(&now, &before).matches("that host is gone for 7 s").count(), 2);
        // The other host is present again.
        now.hosts.push(HostReport { host: "trunk.02".into(), ..host(true) });
        let again =
            "that host's gateway was started again, and the one of this start is gone for 7 s";
        says(
            &now,
            &before,
            &["→ trunk.01 (reliable, transient local): ", "← trunk.01, published there by 'ear'"],
        );
        assert_eq!(topics(&now, &before).matches(again).count(), 2);
    }
}
