// SPDX-License-Identifier: Apache-2.0
//! Network faults of a gateway: changing interfaces, and invalid packets. Each host is a network
//! namespace.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use driveline_namespaces::Namespace;
use driveline_shm::Subscription;
use driveline_types::Qos;
use rig::rmw::{Node, Router, STRING};
use rig::{Peer, Rig, eventually};
use serde_json::json;
use std::net::{Ipv4Addr, UdpSocket};

const CARD: &str = "dl9";
const HERE: Ipv4Addr = Ipv4Addr::new(10, 98, 9, 1);
const THERE: Ipv4Addr = Ipv4Addr::new(10, 98, 9, 2);

fn namespaces<const N: usize>() -> Option<[Namespace; N]> {
    let made: Result<Vec<_>, _> = (0..N).map(|_| Namespace::new()).collect();
    let remedy = "run it as root, with iproute2, nftables and ethtool, outside a sandbox";
    let skipped = |why| {
        skipped::skipped("another host", &format!("no network namespaces here ({why:#})"), remedy)
    };
    made.map_err(skipped).ok()?.try_into().ok()
}

/// Runs `run` on a host, on its own thread: a thread cannot leave a network namespace.
fn on(host: &Namespace, run: impl FnOnce() + Send) {
    let entered = || {
        host.enter().unwrap();
        run();
    };
    std::thread::scope(|threads| drop(threads.spawn(entered)));
}

/// Host of the gateway, and host of a node.
struct Hosts([Namespace; 2]);

impl Hosts {
    /// Connects the hosts by a cable.
    fn plug(&self) {
        let Self([here, there]) = self;
        here.add_veth(CARD, (there, CARD)).unwrap();
        here.add_address(CARD, HERE).unwrap();
        there.add_address(CARD, THERE).unwrap();
    }

    fn here(&self, command: &str) {
        self.0[0].run(command).unwrap();
    }

    /// Starts a node there that publishes until the result is dropped.
    fn node(&self, rig: &Rig) -> Peer {
        rig.node_on(&self.0[1].command_prefix(), CARD, "pub rt/chatter string 3 100000 10000 bv1")
    }
}

/// Starts a gateway on the host of this thread, and subscribes to its samples.
fn gateway(domain_id: u32) -> (Rig, Subscription) {
    let rules = json!([{ "topic": "/chatter", "direction": "from_ros" }]);
    let rig = Rig::with(json!({ "domain_id": domain_id, "interface": CARD, "topics": rules }), &[]);
    let subscription = rig.subscription("chatter", &Qos::default());
    (rig, subscription)
}

#[track_caller]
fn hears(subscription: &mut Subscription) {
    while subscription.take_next().unwrap().is_some() {}
    eventually("heard", || subscription.take_next().unwrap().is_some());
}

#[test]
fn a_gateway_whose_interface_was_replaced_ends_and_the_next_one_works() {
    let Some(hosts) = namespaces().map(Hosts) else { return };
    hosts.plug();
    on(&hosts.0[0], || {
        let (mut rig, mut subscription) = gateway(0);
        let node = hosts.node(&rig);
        hears(&mut subscription);
        drop(node);
        hosts.here(&format!("ip link delete {CARD}"));
        eventually("logged", || rig.logged("dl9 is not there any more"));
        assert_eq!(rig.failure(), None, "there is no interface to restart on");
        hosts.plug();
        eventually("over", || rig.failure().is_some());
        let why = rig.failure().unwrap();
        assert!(why.contains("dl9 was replaced") && why.contains("`driveline run`"), "{why}");
        rig.start();
        let _node = hosts.node(&rig);
        hears(&mut subscription);
        hosts.here(&format!("ip address delete {HERE}/24 dev {CARD}"));
        hosts.here(&format!("ip address add 10.98.9.3/24 dev {CARD}"));
        eventually("over", || rig.failure().is_some());
        let why = rig.failure().unwrap();
        assert!(why.contains("dl9 has 10.98.9.3 in place of 10.98.9.1"), "{why}");
        rig.start();
        hears(&mut subscription);
    });
}

#[test]
fn a_gateway_continues_if_its_interface_returns_unchanged() {
    let Some(hosts) = namespaces().map(Hosts) else { return };
    hosts.plug();
    on(&hosts.0[0], || {
        let (rig, mut subscription) = gateway(1);
        let _node = hosts.node(&rig);
        hears(&mut subscription);
        hosts.here(&format!("ip link set {CARD} down"));
        hosts.here(&format!("ip link set {CARD} up"));
        hears(&mut subscription);
        hosts.here(&format!("ip address delete {HERE}/24 dev {CARD}"));
        eventually("logged", || rig.logged("dl9 has its address 10.98.9.1 no longer"));
        hosts.here(&format!("ip address add {HERE}/24 dev {CARD}"));
        eventually("logged", || rig.logged("dl9 is back unchanged"));
        hears(&mut subscription);
        assert_eq!(rig.failure(), None);
    });
}

/// No other test here may use Zenoh: its threads belong to the process, and stay in the network
/// namespace of the first test.
#[test]
fn zenoh_connections_are_renewed_and_a_gateway_that_listens_on_a_replaced_interface_ends() {
    let Some(hosts) = namespaces().map(Hosts) else { return };
    hosts.plug();
    on(&hosts.0[1], || {
        let router = Router::at(&format!("tcp/{THERE}:7447"));
        let node = Node::at(&format!("tcp/{THERE}:0"), &router, 3, "talker");
        let mut talker = node.publisher("/chatter", STRING, "bv1");
        let start = |zenoh: serde_json::Value| {
            let rules = json!([{ "topic": "/chatter", "direction": "from_ros" }]);
            let mut rig = Rig::with(
                json!({ "domain_id": 3, "dds": false, "zenoh": zenoh, "topics": rules }),
                &[],
            );
            rig.stop();
            let gateway = rig.process_on(&hosts.0[0].command_prefix());
            (rig.subscription("chatter", &Qos::default()), rig, gateway)
        };
        let mut hears = |subscription: &mut Subscription| {
            while subscription.take_next().unwrap().is_some() {}
            eventually("heard", || {
                talker.publish(&rig::rmw::string("hello"));
                subscription.take_next().unwrap().is_some()
            });
        };
        let anew = || {
            hosts.here(&format!("ip link delete {CARD}"));
            hosts.plug();
        };
        let (mut connects, _rig, _gateway) = start(json!({ "connect": [router.endpoint()] }));
        hears(&mut connects);
        anew();
        hears(&mut connects);
        let listen = json!([format!("tcp/[::]:0#iface={CARD}")]);
        let (mut listens, _rig, mut gateway) =
            start(json!({ "connect": [router.endpoint()], "listen": listen, "insecure": true }));
        hears(&mut listens);
        anew();
        eventually("over", || gateway.has_ended());
    });
}

#[test]
fn invalid_packets_do_not_fill_the_disk() {
    const DOMAIN: u32 = 2;
    let Some([host]) = namespaces() else { return };
    on(&host, || {
        let mut rig =
            Rig::new(DOMAIN, json!([{ "topic": "/chatter", "direction": "from_ros" }]), &[]);
        rig.stop();
        let said = tempfile::NamedTempFile::new().unwrap();
        let _gateway = rig.process_that_says(said.reopen().unwrap());
        // A DATA submessage that ends before its content.
        let nothing =
            b"RTPS\x02\x01\x01\x10abcdefghijkl\x15\x05\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00";
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        // The gateway has the first of these ports, unless a program just started by another test
        // briefly holds a socket inherited from this process.
        let send = || {
            for port in
                [10, 12, 14, 16].map(|of_participant| 7400 + 250 * DOMAIN as u16 + of_participant)
            {
                // Without a listener, the next call fails.
                let _ = socket.send_to(nothing, ("127.0.0.1", port));
            }
        };
        let lines = || std::fs::read_to_string(said.path()).unwrap().lines().count();
        eventually("it says that this is nothing", || {
            send();
            lines() > 0
        });
        (0..20_000).for_each(|_| send());
        eventually("it says that it says no more", || {
            std::fs::read_to_string(said.path()).unwrap().contains("are counted and not shown")
        });
        assert!(lines() <= 32, "{} lines", lines());
    });
}
