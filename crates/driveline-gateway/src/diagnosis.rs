// SPDX-License-Identifier: Apache-2.0
//! Report as text for people: reasons why no host is reached, and losses.

use super::report::{NetworkReport, RemotePublisherFigures, Report, RouteFigures};
use crate::endpoint;
use std::collections::BTreeMap;

/// Further possible causes with TLS; Zenoh writes them to its log only.
const ABOUT_TLS: &str = " Over TLS: has the `authority` of each signed the `certificate` of the \
     other, are both certificates valid now, and does the listener's have the \
address or name that stands in `connect` (`openssl x509 -in FILE -noout -text`, `Subject \
     Alternative Name`)? `DRIVELINE_GATEWAY_LOG=zenoh_link_tls=debug,zenoh_transport=debug` \
makes the gateways log more";

/// If another host departed less than this time before the end of this one, both count as ended
/// together, and the departure is not reported. This host notices within 2 s that a host sends
/// nothing any more.
const TOGETHER_MS: u64 = 5_000;

/// Maximum number of lines of [`Report::losses`] after its heading. Further lines are only counted.
const MOST_LOSSES: usize = 32;

impl Report {
    /// Returns the reason why no other host is reached, as far as this host can know.
    #[must_use]
    pub fn alone(&self) -> String {
        let NetworkReport { connects, listens, peers, routers, kept_out, .. } = &self.network;
        if let Some(why) = kept_out {
            return format!(
                "this host is not in the network; the gateway tries again each second: {why}"
            );
        }
        let is_tls = |endpoints: &[String]| endpoints.iter().any(|e| e.starts_with("tls/"));
        match (connects.as_slice(), peers.saturating_add(*routers)) {
            (connects @ [_, ..], 0) => {
                let name = connects.iter().find_map(|e| endpoint::name(e));
                let known = name
                    .map(|n| format!(", is the name known (`getent hosts {n}`)"))
                    .unwrap_or_default();
                let at = connects.join(", ");
                let tls = if is_tls(connects) { ABOUT_TLS } else { "" };
                format!(
                    "no gateway answers at {at}, or it refuses this host; does a gateway run \
                     there{known}, and does a firewall let it through?{tls}"
                )
            }
            ([], 0) => match &self.network.interface {
                Some(name) => format!(
                    "no gateway answers the multicast at interface {name}, or it refuses this \
                     host; does a gateway run there, and does a firewall let it through?{}",
                    if is_tls(listens) { ABOUT_TLS } else { "" }
                ),
                None if is_tls(listens) => format!("no host has connected yet.{ABOUT_TLS}"),
                None => "no host has connected yet".to_owned(),
            },
            (_, n) => {
                let neighbours = if n == 1 { "neighbour" } else { "neighbours" };
                let tls = if is_tls(connects) || is_tls(listens) {
                    "; where rules give rights to certificates, does one name this host's \
                     certificate and that domain?"
                } else {
                    ""
                };
                format!(
                    "of {n} {neighbours} none serves domain '{}': hosts exchange topics where \
                     `domain` is the same{tls}",
                    self.domain
                )
            }
        }
    }

    /// Returns the summary of a run: outages of the network, absent hosts, and losses between hosts
    /// since this gateway was started. Losses of sent samples have one line for each host and
    /// topic, those of received samples one for each publisher. Samples that `every` skips are no
    /// losses, nor are samples that came over the network and are therefore not sent on. All starts
    /// of another host's gateway count as one host here.
    #[must_use]
    pub fn losses(&self) -> Vec<String> {
        if let Some(why) = &self.network.kept_out {
            return vec![format!("this host is not in the network: {why}")];
        }
        let name = |host: &str| host.rsplit_once('.').map_or(host, |(name, _)| name).to_owned();
        let mut of_host = BTreeMap::<_, (u64, u64, Option<u64>)>::new();
        for h in &self.hosts {
            let gone = (!h.alive).then_some(h.for_ms);
            let (outages, ms, gone_for) = of_host.entry(name(&h.host)).or_insert((0, 0, gone));
            (*outages, *ms) = (outages.saturating_add(h.outages), ms.saturating_add(h.outage_ms));
            *gone_for = gone_for.zip(gone).map(|(one, other)| one.min(other));
        }
        let seconds = |ms: u64| format!("{:.1} s", ms as f64 / 1e3);
        let outages = of_host.iter().flat_map(|(host, (outages, ms, gone_for))| {
            let times = if *outages == 1 { "once".to_owned() } else { format!("{outages} times") };
            let was = (*outages > 0).then(|| {
                format!("host '{host}' was out of reach {times}, for {} in all", seconds(*ms))
            });
            let is = gone_for
                .filter(|ms| *ms >= TOGETHER_MS)
                .map(|ms| format!("host '{host}' has been gone for {}", seconds(ms)));
            was.into_iter().chain(is)
        });
        let mut of_edge = BTreeMap::<_, (u64, BTreeMap<_, u64>)>::new();
        for e in &self.edges {
            let (delivered, lost) = of_edge.entry((e.topic.as_str(), name(&e.to))).or_default();
            *delivered = delivered.saturating_add(e.figures.delivered);
            for (reason, n) in (RouteFigures { decimated: 0, remote: 0, ..e.figures }.drops()) {
                let sum = lost.entry(reason).or_default();
                *sum = sum.saturating_add(n);
            }
        }
        let sent = of_edge.iter().filter(|(_, (_, lost))| !lost.is_empty()).map(
            |((topic, host), (delivered, lost))| {
                let n = lost.values().fold(0u64, |sum, n| sum.saturating_add(*n));
                let lost: Vec<_> = lost.iter().map(|(reason, n)| (*reason, *n)).collect();
                format!(
                    "'{topic}' to host '{host}': {delivered} arrived there, {n} did not ({})",
                    reasons(&lost)
                )
            },
        );
        let received = self.inlets.iter().filter(|i| i.figures.lost > 0).map(|i| {
            let RemotePublisherFigures { published, lost, expired, damaged, no_room, .. } =
                i.figures;
            let here = RemotePublisherFigures {
                expired,
                damaged,
                no_room,
                ..RemotePublisherFigures::default()
            }
            .drops();
            let why = if here.is_empty() {
                String::new()
            } else {
                format!(" (of these, dropped on arrival: {})", reasons(&here))
            };
            format!(
                "'{}' from host '{}': {published} arrived, {lost} did not{why}",
                i.topic,
                name(&i.from)
            )
        });
        let looked = self.network.interface.is_some() || !self.network.connects.is_empty();
        let nobody = (looked && self.hosts.is_empty())
            .then(|| format!("no other host was reached: {}", self.alone()));
        let mut lines: Vec<String> =
            nobody.into_iter().chain(outages).chain(sent).chain(received).collect();
        let more = lines.len().saturating_sub(MOST_LOSSES);
        if more > 0 {
            lines.truncate(MOST_LOSSES);
            lines.push(format!("and {more} more"));
        }
        if !lines.is_empty() {
            lines.insert(
                0,
                format!("since this host took part in the network, {} s ago:", self.up_ms / 1000),
            );
        }
        lines
    }
}

fn reasons(drops: &[(&str, u64)]) -> String {
    drops.iter().map(|(reason, n)| format!("{reason} {n}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{HostReport, RemotePublisherReport, RemotePublisherState, RouteReport};
    use driveline_types::Qos;

    #[test]
    fn losses_are_outages_and_missing_samples() {
        let mut report = Report::default();
        assert_eq!(report.losses(), Vec::<String>::new());
        let host = |outages, outage_ms| HostReport {
            host: "trunk.01".into(),
            alive: true,
            outages,
            outage_ms,
            ..HostReport::default()
        };
        let edge = |figures| RouteReport {
            topic: "image".into(),
            to: "trunk.01".into(),
            offered: "bv".into(),
            qos: "bv".into(),
            parked: false,
            figures,
        };
        let inlet = |figures| RemotePublisherReport {
            topic: "lanes".into(),
            from: "trunk.01".into(),
            node: "lane".into(),
            publisher: "1".into(),
            schema: String::new(),
            qos: Qos::default(),
            max_payload: 1,
            state: RemotePublisherState::Wanted,
            figures,
        };
        report.hosts = vec![host(0, 0)];
        report.edges = vec![edge(RouteFigures {
            delivered: 10,
            decimated: 5,
            remote: 2,
            ..RouteFigures::default()
        })];
        report.inlets = vec![inlet(RemotePublisherFigures {
            published: 7,
            duplicate: 1,
            ..RemotePublisherFigures::default()
        })];
        assert_eq!(report.losses(), Vec::<String>::new(), "samples skipped by a rule are no loss");
        // Two starts of one host, and another host.
        let restarted = HostReport { host: "trunk.02".into(), ..host(2, 60_000) };
        report.up_ms = 90_100;
        let gone = |name: &str, for_ms| HostReport {
            host: name.into(),
            alive: false,
            for_ms,
            ..host(0, 0)
        };
        let roof = HostReport { outages: 1, outage_ms: 100, ..gone("roof.02", 7_500) };
        report.hosts = vec![
            host(1, 4_200),
            gone("roof.01", 80_000),
            roof,
            restarted,
            gone("trunk.03", 5_000),
            gone("cloud.01", 300),
        ];
        let before = edge(RouteFigures {
            delivered: 10,
            decimated: 5,
            superseded: 3,
            unacknowledged: 1,
            ..RouteFigures::default()
        });
        let after = edge(RouteFigures { delivered: 20, superseded: 3, ..RouteFigures::default() });
        report.edges = vec![before, RouteReport { to: "trunk.02".into(), ..after }];
        report.inlets = vec![
            inlet(RemotePublisherFigures {
                published: 7,
                lost: 2,
                ..RemotePublisherFigures::default()
            }),
            inlet(RemotePublisherFigures {
                published: 7,
                lost: 2,
                no_room: 1,
                ..RemotePublisherFigures::default()
            }),
        ];
        let expected = [
            "since this host took part in the network, 90 s ago:",
            "host 'roof' was out of reach once, for 0.1 s in all",
            "host 'roof' has been gone for 7.5 s",
            "host 'trunk' was out of reach 3 times, for 64.2 s in all",
            "'image' to host 'trunk': 30 arrived there, 7 did not (superseded 6, unacknowledged 1)",
            "'lanes' from host 'trunk': 7 arrived, 2 did not",
            "'lanes' from host 'trunk': 7 arrived, 2 did not (of these, dropped on arrival: no \
             room 1)",
        ];
        assert_eq!(report.losses(), expected);
        let network =
            NetworkReport { kept_out: Some("no address".into()), ..NetworkReport::default() };
        assert_eq!(
            Report { network, ..Report::default() }.losses()[0],
            "this host is not in the network: no address"
        );
        let network = NetworkReport {
            connects: vec!["tcp/10.0.0.1:7450".into()],
            ..NetworkReport::default()
        };
        let reported = Report { network, ..Report::default() }.losses();
        assert!(
            reported[1]
                .starts_with("no other host was reached: no gateway answers at tcp/10.0.0.1:7450"),
            "{reported:?}"
        );
        report.inlets = vec![report.inlets[0].clone(); 100];
        assert_eq!(
            (report.losses().len(), report.losses().last().map(String::as_str)),
            (MOST_LOSSES + 2, Some("and 72 more"))
        );
    }
}
