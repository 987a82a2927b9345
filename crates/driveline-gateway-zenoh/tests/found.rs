// SPDX-License-Identifier: Apache-2.0
//! Hosts that nobody has named to each other: they learn of each other through a third one, or by multicast on an interface. What holds of connections to hosts under `connect`
//! holds of theirs as well.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at a surprise")]

mod rig;

use rig::certificates::{authority, certificate, tls};
use rig::net::{AT_SWITCH, Net};
use rig::readings::{TOPIC, deep};
use rig::talk::{Speech, Talk};
use rig::{Cable, Host, Rig, alone, carried, eventually};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// What the kernel is told to keep of a connection at the default of 100 Mbit/s, sent and received, in bytes. It doubles that.
const BUFFERS: [u32; 2] = [32 * 1024, 208 * 1024];

/// Of each connection between gateways that a host has, what the kernel keeps at most, sent and received.
fn buffers(net: &Net, host: usize) -> Vec<[u32; 2]> {
    let mut words = net.on(host);
    words.extend(["ss", "-tmnHO", "state", "established", "( sport = :7450 or dport = :7450 )"].map(String::from));
    let output = Command::new(&words[0]).args(&words[1..]).output().expect("ss");
    let text = String::from_utf8(output.stdout).expect("what ss says");
    let figure = |line: &str, key: &str| {
        let (_, figures) = line.split_once("skmem:(").expect("what is kept");
        figures.split(',').find_map(|f| f.strip_prefix(key)?.parse().ok()).expect("a figure")
    };
    text.lines().map(|line| ["tb", "rb"].map(|key| figure(line, key))).collect()
}

/// Hosts that a switch connects, which take part in the network as `network` says, given the address of each; each has met all others.
fn met(names: &[&str], directory: &Path, network: &dyn Fn(&str, &[String]) -> Value) -> Option<(Vec<Host>, Net)> {
    let mut net = Net::new(names.len() + 1)?;
    let endpoints = net.switch(names.len());
    let topics = [carried(TOPIC, true, true, 64, &deep())];
    let start = |(n, name): (usize, &&str)| {
        let mut host = Host::new(directory, name, net.on(n), &network(name, &endpoints), &topics);
        host.start();
        host
    };
    let hosts: Vec<Host> = names.iter().enumerate().map(start).collect();
    let others = |host: &Host| host.report().map_or(0, |r| r.hosts.iter().filter(|h| h.alive).count());
    eventually("met", || hosts.iter().all(|host| others(host) == names.len() - 1));
    Some((hosts, net))
}

/// That of each connection of each host the kernel keeps as much as it is told to.
#[track_caller]
fn all_bounded(net: &Net, hosts: usize) {
    for host in 0..hosts {
        let kept = buffers(net, host);
        println!("host {host} keeps, sent and received: {kept:?}");
        assert!(kept.len() >= hosts - 1, "host {host} has too few connections: {kept:?}");
        assert!(kept.iter().all(|k| *k == BUFFERS.map(|bytes| 2 * bytes)), "host {host} keeps of its connections: {kept:?}");
    }
}

/// Three hosts, of which two connect to the first one and know nothing else of each other.
fn through_a(directory: &Path, over_tls: bool) -> Option<(Vec<Host>, Net)> {
    authority(directory, "fleet");
    met(&["a", "b", "c"], directory, &|name, endpoints| {
        let of = |n: usize| if over_tls { endpoints[n].replace("tcp/", "tls/") } else { endpoints[n].clone() };
        let own = ["a", "b", "c"].iter().position(|other| *other == name).unwrap();
        let connect: Vec<String> = if own == 0 { Vec::new() } else { vec![of(0)] };
        let mut network = json!({ "host": name, "listen": [of(own)], "connect": connect });
        if over_tls {
            certificate(directory, name, "fleet");
            network["tls"] = tls(directory, name);
        }
        network
    })
}

#[test]
fn between_hosts_that_learn_of_each_other_through_a_third_the_kernel_keeps_as_little() {
    let dir = tempfile::tempdir().unwrap();
    for over_tls in [false, true] {
        let Some((_hosts, net)) = through_a(dir.path(), over_tls) else { return };
        all_bounded(&net, 3);
    }
}

/// The third one, which neither has left, does not tell them of each other again.
#[test]
fn hosts_that_met_through_a_third_hear_each_other_again_when_nothing_but_their_own_connection_was_cut() {
    const AWAY: [Duration; 3] = [Duration::from_millis(300), Duration::from_secs(5), Duration::from_secs(12)];
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let speech = Speech::small(&deep());
    for over_tls in [false, true] {
        let Some((hosts, net)) = through_a(dir.path(), over_tls) else { return };
        let mut talk = Talk::new(&hosts[1], &hosts[2], &speech);
        talk.until_heard(20);
        for away in AWAY {
            talk.recovers(&format!("hosts that met through a third, cut for {away:?}, TLS: {over_tls}"), |talk| {
                net.part(1, 2, true);
                talk.go_on_for(away);
                net.part(1, 2, false);
                talk.now()
            });
        }
        talk.all_accounted_for();
        assert_eq!([0, 1, 2].map(|host| buffers(&net, host).len()), [2; 3], "one connection for each pair");
        let of_third = hosts[0].report().expect("a report");
        assert!(of_third.hosts.iter().all(|h| h.outages == 0), "the third one lost somebody: {of_third:?}");
    }
}

/// Nothing but multicast tells them of each other.
#[test]
fn hosts_that_know_each_other_by_multicast_alone_hear_each_other_again_in_time() {
    const AWAY: Duration = Duration::from_secs(3);
    let _alone = alone();
    let speech = Speech::small(&deep());
    let rig = Rig::with(&speech.topics(), &speech.qos, 0, &|_, _| ["a", "b"].map(|name| json!({ "host": name, "interface": "dl0" })));
    if rig.cable.hosts().is_none() {
        rig::skipped("hosts that find each other", "the loopback device has no multicast", rig::AS_ROOT);
        return;
    }
    let mut talk = Talk::new(&rig.a, &rig.b, &speech);
    talk.until_heard(20);
    // Longer each time: Zenoh itself looks for others less and less often.
    for times in 1..=3 {
        for (how, cut) in [("silent", Cable::drop_silently as fn(&Cable, bool) -> bool), ("cable pulled", |cable, cut| cable.set_up(!cut))]
        {
            talk.recovers(&format!("hosts that found each other by multicast, {how} for {:?}", AWAY * times), |talk| {
                cut(&rig.cable, true);
                talk.go_on_for(AWAY * times);
                cut(&rig.cable, false);
                talk.now()
            });
        }
    }
    talk.all_accounted_for();
}

#[test]
fn what_an_endpoint_says_of_its_buffers_is_so() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_hosts, net)) = met(&["a", "b"], dir.path(), &|name, endpoints| match name {
        "a" => json!({ "host": name, "listen": [endpoints[0]] }),
        _ => json!({ "host": name, "connect": [format!("{}#so_sndbuf=40000;so_rcvbuf=50000", endpoints[0])] }),
    }) else {
        return;
    };
    assert_eq!([0, 1].map(|host| buffers(&net, host)), [[BUFFERS.map(|bytes| 2 * bytes)], [[80_000, 100_000]]]);
}

#[test]
fn between_hosts_that_find_each_other_by_multicast_the_kernel_keeps_as_little() {
    let dir = tempfile::tempdir().unwrap();
    let Some((_hosts, net)) = met(&["a", "b"], dir.path(), &|name, _| json!({ "host": name, "interface": AT_SWITCH })) else { return };
    all_bounded(&net, 2);
}
