// SPDX-License-Identifier: Apache-2.0
//! What the network does to a gateway, in a network namespace of its own.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may stop at a surprise")]

mod rig;
#[path = "../../../tools/skipped.rs"]
mod skipped;

use driveline_bench::hosts::Namespace;
use rig::{Rig, eventually};
use serde_json::json;
use std::net::UdpSocket;

fn namespaces<const N: usize>() -> Option<[Namespace; N]> {
    let made: Result<Vec<_>, _> = (0..N).map(|_| Namespace::new()).collect();
    let remedy = "run it as root, with iproute2, nftables and ethtool, outside a sandbox";
    let skipped = |why| skipped::skipped("another host", &format!("no network namespaces here ({why:#})"), remedy);
    made.map_err(skipped).ok()?.try_into().ok()
}

/// Runs it on a host: a thread cannot leave one.
fn on(host: &Namespace, run: impl FnOnce() + Send) {
    let entered = || {
        host.enter().unwrap();
        run();
    };
    std::thread::scope(|threads| drop(threads.spawn(entered)));
}

#[test]
fn packets_that_are_nothing_fill_nobodys_disk() {
    const DOMAIN: u32 = 2;
    let Some([host]) = namespaces() else { return };
    on(&host, || {
        let mut rig = Rig::new(DOMAIN, json!([{ "topic": "/chatter", "direction": "from_ros" }]), &[]);
        rig.stop();
        let said = tempfile::NamedTempFile::new().unwrap();
        let _gateway = rig.process_that_says(said.reopen().unwrap());
        // Of a DATA that ends before it has begun.
        let nothing = b"RTPS\x02\x01\x01\x10abcdefghijkl\x15\x05\x08\x00\x00\x00\x10\x00\x00\x00\x00\x00";
        let (socket, to) = (UdpSocket::bind("127.0.0.1:0").unwrap(), ("127.0.0.1", 7410 + 250 * DOMAIN as u16));
        let lines = || std::fs::read_to_string(said.path()).unwrap().lines().count();
        eventually("it says that this is nothing", || {
            socket.send_to(nothing, to).unwrap();
            lines() > 0
        });
        for _ in 0..20_000 {
            socket.send_to(nothing, to).unwrap();
        }
        eventually("it says that it says no more", || std::fs::read_to_string(said.path()).unwrap().contains("is not shown, and counted"));
        assert!(lines() <= 32, "{} lines", lines());
    });
}
