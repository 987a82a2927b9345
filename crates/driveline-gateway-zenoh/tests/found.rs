// SPDX-License-Identifier: Apache-2.0
//! Hosts that are not configured for each other: they learn of each other through a third host, or
//! by multicast on an interface. Their connections have the same guarantees as connections to hosts
//! under `connect`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use rig::certificates::Fleet;
use rig::net::{AT_SWITCH, Net};
use rig::readings::{TOPIC, deep};
use rig::stopwatch::{measures, within};
use rig::talk::{RECOVERY, Since, Speech, Talk};
use rig::{Cable, Host, Rig, alone, carried, eventually};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Buffer size that the gateway sets for a connection at the default of 100 Mbit/s, sent and
/// received, in bytes. The kernel doubles it.
const BUFFERS: [u32; 2] = [32 * 1024, 208 * 1024];

/// Returns the kernel's buffer limits of each connection of a host to other gateways, sent and
/// received.
fn buffers(net: &Net, host: usize) -> Vec<[u32; 2]> {
    let mut words = net.on(host);
    words.extend(
        ["ss", "-tmnHO", "state", "established", "( sport = :7450 or dport = :7450 )"]
            .map(String::from),
    );
    let output = Command::new(&words[0]).args(&words[1..]).output().expect("ss");
    let text = String::from_utf8(output.stdout).expect("what ss says");
    let figure = |line: &str, key: &str| {
        let (_, figures) = line.split_once("skmem:(").expect("what is kept");
        figures.split(',').find_map(|f| f.strip_prefix(key)?.parse().ok()).expect("a figure")
    };
    text.lines().map(|line| ["tb", "rb"].map(|key| figure(line, key))).collect()
}

/// Waits until three hosts have one connection for each pair. A second one may be open until it is
/// refused; a second one that stays is a mistake.
#[track_caller]
fn one_for_each_pair(net: &Net) {
    eventually("one connection for each pair", || (0..3).all(|host| buffers(net, host).len() == 2));
}

/// Creates hosts that a switch connects. `network` makes the network configuration of a host from
/// its name and the addresses of all hosts. No host is started.
fn at_switch(
    names: &[&str],
    directory: &Path,
    network: &dyn Fn(&str, &[String]) -> Value,
) -> Option<(Vec<Host>, Net)> {
    let mut net = Net::new(names.len() + 1)?;
    let endpoints = net.switch(names.len());
    let topics = [carried(TOPIC, true, true, 64, &deep())];
    let host = |(n, name): (usize, &&str)| {
        Host::new(directory, name, net.on(n), &network(name, &endpoints), &topics)
    };
    Some((names.iter().enumerate().map(host).collect(), net))
}

/// Starts hosts that a switch connects. `network` makes the network configuration of a host from
/// its name and the addresses of all hosts. Returns when each host has met all others.
fn met(
    names: &[&str],
    directory: &Path,
    network: &dyn Fn(&str, &[String]) -> Value,
) -> Option<(Vec<Host>, Net)> {
    let (mut hosts, net) = at_switch(names, directory, network)?;
    hosts.iter_mut().for_each(Host::start);
    eventually("met", || hosts.iter().all(|host| others(host) == names.len() - 1));
    Some((hosts, net))
}

/// Returns the number of other hosts that a host reaches.
fn others(host: &Host) -> usize {
    host.report().map_or(0, |r| r.hosts.iter().filter(|h| h.alive).count())
}

/// Checks that the kernel keeps the configured buffer size for every connection of every host.
#[track_caller]
fn all_bounded(net: &Net, hosts: usize) {
    for host in 0..hosts {
        let kept = buffers(net, host);
        println!("host {host} keeps, sent and received: {kept:?}");
        assert!(kept.len() >= hosts - 1, "host {host} has too few connections: {kept:?}");
        assert!(
            kept.iter().all(|k| *k == BUFFERS.map(|bytes| 2 * bytes)),
            "host {host} keeps of its connections: {kept:?}"
        );
    }
}

/// Starts three hosts, of which two connect to the first one and do not know each other. Returns
/// when each has met all others.
fn through_a(directory: &Path, over_tls: bool) -> Option<(Vec<Host>, Net)> {
    met(&["a", "b", "c"], directory, &knows_a(Fleet::new(directory, over_tls)))
}

/// Configuration of a host in a fleet where two hosts connect to the first one.
fn knows_a(fleet: Fleet<'_>) -> impl Fn(&str, &[String]) -> Value {
    move |name, endpoints| {
        let own = ["a", "b", "c"].iter().position(|other| *other == name).unwrap();
        let connect: Vec<String> =
            endpoints.iter().take(1.min(own)).map(|first| fleet.endpoint(first)).collect();
        fleet.network(
            name,
            json!({
                "host": name, "listen": [fleet.endpoint(&endpoints[own])], "connect": connect,
            }),
        )
    }
}

#[test]
fn between_hosts_that_learn_of_each_other_through_a_third_the_kernel_keeps_as_little() {
    let dir = tempfile::tempdir().unwrap();
    for over_tls in [false, true] {
        let Some((_hosts, net)) = through_a(dir.path(), over_tls) else { return };
        all_bounded(&net, 3);
    }
}

/// Outages of a test: all of them where durations are judged, otherwise only the short ones. One of
/// these is longer than a lease, so that connections end.
fn lengths(all: &[Duration]) -> impl Iterator<Item = Duration> {
    let longest = if measures() { Duration::MAX } else { Duration::from_secs(6) };
    all.iter().copied().filter(move |away| *away < longest)
}

/// The third host, which stays connected to both, does not announce them to each other again.
#[test]
fn hosts_that_met_through_a_third_hear_each_other_again_after_only_their_connection_was_cut() {
    const AWAY: [Duration; 3] =
        [Duration::from_millis(300), Duration::from_secs(5), Duration::from_secs(12)];
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let speech = Speech::small(&deep());
    for over_tls in [false, true] {
        let Some((hosts, net)) = through_a(dir.path(), over_tls) else { return };
        let security = if over_tls { "with TLS" } else { "without TLS" };
        let mut talk = Talk::new(&hosts[1], &hosts[2], &speech);
        talk.until_heard(20);
        for away in lengths(&AWAY) {
            talk.recovers(
                &format!("hosts that met through a third, cut for {away:?}, {security}"),
                |talk| {
                    net.part(1, 2, true);
                    talk.go_on_for(away);
                    net.part(1, 2, false);
                    talk.now()
                },
            );
        }
        talk.all_accounted_for();
        one_for_each_pair(&net);
        let of_third = hosts[0].report().expect("a report");
        assert!(
            of_third.hosts.iter().all(|h| h.outages == 0),
            "the third host lost another one: {of_third:?}"
        );
    }
}

/// One of the two hosts also listens on networks that the others cannot reach. The third host
/// announces these addresses too, and an attempt at each takes 2 s.
#[test]
fn a_host_with_unreachable_addresses_is_heard_again_as_soon() {
    const NOWHERE: [&str; 3] = ["10.97.0.200", "10.97.0.201", "10.97.0.202"];
    const AWAY: Duration = Duration::from_secs(7);
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let speech = Speech::small(&deep());
    let network = |name: &str, endpoints: &[String]| match name {
        "a" => json!({ "host": name, "listen": [endpoints[0]] }),
        // No host can connect to this one, so it connects to the other.
        "b" => json!({ "host": name, "connect": [endpoints[0]] }),
        _ => {
            let listen: Vec<String> = NOWHERE
                .iter()
                .map(|at| format!("tcp/{at}:7450"))
                .chain([endpoints[2].clone()])
                .collect();
            json!({ "host": name, "listen": listen, "connect": [endpoints[0]] })
        }
    };
    let Some((mut hosts, net)) = at_switch(&["a", "b", "c"], dir.path(), &network) else { return };
    for at in NOWHERE {
        net.run(2, &format!("ip address add {at}/32 dev lo"));
        [0, 1].into_iter().for_each(|host| {
            net.run(
                host,
                &format!("ip neighbour replace {at} lladdr 02:00:00:00:00:01 dev {AT_SWITCH}"),
            )
        });
    }
    hosts.iter_mut().for_each(Host::start);
    eventually("met", || hosts.iter().all(|host| others(host) == 2));
    let mut talk = Talk::new(&hosts[1], &hosts[2], &speech);
    talk.until_heard(20);
    for _ in 0..if measures() { 3 } else { 1 } {
        talk.recovers("a host that a third one reports with wrong addresses", |talk| {
            net.part(1, 2, true);
            talk.go_on_for(AWAY);
            net.part(1, 2, false);
            talk.now()
        });
    }
    talk.all_accounted_for();
}

/// Starts three hosts, of which two cannot reach each other for `away`. Returns the talk between
/// these two, and the time of the repair.
fn start_parted(hosts: &mut [Host], net: &Net, away: Duration, speech: &Speech) -> (Talk, Since) {
    net.part(1, 2, true);
    hosts.iter_mut().for_each(Host::start);
    eventually("all at the first one", || others(&hosts[0]) == 2);
    let mut talk = Talk::without_subscription(&hosts[1], &hosts[2], speech);
    talk.go_on_for(away);
    assert_eq!(
        [1, 2].map(|host| others(&hosts[host])),
        [1; 2],
        "two hosts reach only the first one"
    );
    net.part(1, 2, false);
    let since = talk.now();
    (talk, since)
}

/// Zenoh tries once when the third host announces them. The gateways ask it every 5 to 6 s for the
/// hosts that it hears, and an attempt takes up to 2 s.
#[test]
fn hosts_that_a_third_reported_while_they_were_parted_meet_afterwards() {
    const AWAY: Duration = Duration::from_secs(4);
    const MEET: Duration = Duration::from_secs(10);
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let speech = Speech::small(&deep());
    let Some((mut hosts, net)) =
        at_switch(&["a", "b", "c"], dir.path(), &knows_a(Fleet::new(dir.path(), true)))
    else {
        return;
    };
    let (mut talk, since) = start_parted(&mut hosts, &net, AWAY, &speech);
    talk.recovers_within(MEET, &since, "hosts that were parted when a third one reported them");
    net.part(1, 2, true);
    hosts[2].kill_gateway();
    hosts[2].start();
    eventually("at the first one anew", || others(&hosts[0]) == 2 && others(&hosts[2]) == 1);
    talk.go_on_for(AWAY);
    net.part(1, 2, false);
    let since = talk.now();
    talk.recovers_within(MEET, &since, "the same, with one restarted while they were parted");
    one_for_each_pair(&net);
}

/// Configuration in which each host connects to the hosts before it; the first one connects to
/// none.
fn one_names_the_other(name: &str, endpoints: &[String]) -> Value {
    let own = ["a", "b", "c"].iter().position(|other| *other == name).unwrap();
    json!({ "host": name, "listen": [endpoints[own]], "connect": endpoints[..own] })
}

/// The third host announces them to each other once, and Zenoh tries once.
#[test]
fn hosts_hear_each_other_if_one_names_the_other_whatever_was_down_at_the_start() {
    const AWAY: [Duration; 2] = [Duration::from_secs(3), Duration::from_secs(12)];
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let speech = Speech::small(&deep());
    for away in lengths(&AWAY) {
        let at_switch = || at_switch(&["a", "b", "c"], dir.path(), &one_names_the_other);
        let Some(switch) = at_switch() else { return };
        let (mut switch, mut parted) = (Some(switch), None);
        let what =
            format!("hosts of which one names the other, parted for {away:?} from the start");
        within(RECOVERY, &what, || {
            parted = None;
            let (mut hosts, net) = switch.take().or_else(&at_switch).expect("as there was one");
            let (mut talk, since) = start_parted(&mut hosts, &net, away, &speech);
            let took = talk.took_to_recover(&since, &what);
            parted = Some((hosts, net, talk));
            took
        });
        let (_hosts, net, mut talk) = parted.expect("measured");
        talk.recovers("the same, cut later", |talk| {
            net.part(1, 2, true);
            talk.go_on_for(AWAY[0]);
            net.part(1, 2, false);
            talk.now()
        });
        talk.all_accounted_for();
    }
}

/// The two hosts are announced to each other only by multicast.
#[test]
fn hosts_that_know_each_other_by_multicast_alone_hear_each_other_again_in_time() {
    const AWAY: Duration = Duration::from_secs(3);
    let _alone = alone();
    let speech = Speech::small(&deep());
    let rig = Rig::with(&speech.topics(), &speech.qos, 0, &|_, _| {
        ["a", "b"].map(|name| json!({ "host": name, "interface": "dl0" }))
    });
    if rig.cable.hosts().is_none() {
        rig::skipped(
            "hosts that find each other",
            "the loopback device has no multicast",
            rig::AS_ROOT,
        );
        return;
    }
    let mut talk = Talk::new(&rig.a, &rig.b, &speech);
    talk.until_heard(20);
    // The outages become longer, because Zenoh itself looks for others less and less often.
    for times in 1..=if measures() { 3 } else { 1 } {
        for (how, cut) in [
            ("silent", Cable::drop_silently as fn(&Cable, bool) -> bool),
            ("cable pulled", |cable, cut| cable.set_up(!cut)),
        ] {
            talk.recovers(
                &format!("hosts that found each other by multicast, {how} for {:?}", AWAY * times),
                |talk| {
                    cut(&rig.cable, true);
                    talk.go_on_for(AWAY * times);
                    cut(&rig.cable, false);
                    talk.now()
                },
            );
        }
    }
    talk.all_accounted_for();
}

#[test]
fn buffer_sizes_of_an_endpoint_take_effect() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_hosts, net)) = met(&["a", "b"], dir.path(), &|name, endpoints| match name {
        "a" => json!({ "host": name, "listen": [endpoints[0]] }),
        _ => {
            json!({
                "host": name,
                "connect": [format!("{}#so_sndbuf=40000;so_rcvbuf=50000", endpoints[0])],
            })
        }
    }) else {
        return;
    };
    assert_eq!(
        [0, 1].map(|host| buffers(&net, host)),
        [[BUFFERS.map(|bytes| 2 * bytes)], [[80_000, 100_000]]]
    );
}

#[test]
fn between_hosts_that_find_each_other_by_multicast_the_kernel_keeps_as_little() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_hosts, net)) =
        met(&["a", "b"], dir.path(), &|name, _| json!({ "host": name, "interface": AT_SWITCH }))
    else {
        return;
    };
    all_bounded(&net, 2);
}
