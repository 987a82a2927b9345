// SPDX-License-Identifier: Apache-2.0
//! Any number of hosts with cables between some of them: network namespaces, each cable a network of its own.

use super::{ip, misdirect, on, remove};
use std::sync::atomic::{AtomicU32, Ordering};

/// Hosts by number.
pub(crate) struct Net {
    names: Vec<String>,
    cables: u8,
}

/// A cable between two hosts.
#[derive(Clone, Copy)]
pub(crate) struct Wire {
    ends: [usize; 2],
    number: u8,
}

impl Net {
    /// `None`, and it is said: there are no network namespaces here.
    pub(crate) fn new(hosts: usize) -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let n = NUMBER.fetch_add(1, Ordering::Relaxed);
        let names: Vec<String> = (0..hosts).map(|h| format!("dn{}-{n}-{h}", std::process::id())).collect();
        let net = Self { names, cables: 0 };
        for name in &net.names {
            if let Err(why) = ip(&format!("netns add {name}")) {
                super::skipped("several hosts", &format!("no network namespaces here ({why})"), super::AS_ROOT);
                return None;
            }
            ip(&format!("-n {name} link set lo up")).expect("the loopback device");
        }
        Some(net)
    }

    /// Puts a cable between two hosts.
    pub(crate) fn wire(&mut self, a: usize, b: usize) -> Wire {
        self.cables += 1;
        let wire = Wire { ends: [a, b], number: self.cables };
        let card = wire.card();
        let [a, b] = wire.ends.map(|h| &self.names[h]);
        ip(&format!("-n {a} link add {card} type veth peer name {card} netns {b}")).expect("a cable");
        for (end, name) in [a, b].into_iter().enumerate() {
            ip(&format!("-n {name} address add {}/24 dev {card}", wire.address(end))).expect("an address");
        }
        self.set_up(wire, true);
        wire
    }

    /// Plugs the first `hosts` hosts into the last one, which is a switch; where each of them listens.
    pub(crate) fn switch(&mut self, hosts: usize) -> Vec<String> {
        let Some((switch, others)) = self.names.split_last() else { return Vec::new() };
        ip(&format!("-n {switch} link add dlsw type bridge")).expect("a bridge");
        ip(&format!("-n {switch} link set dlsw up")).expect("the bridge");
        let plug = |(h, name): (usize, &String)| {
            ip(&format!("-n {name} link add dls type veth peer name dls{h} netns {switch}")).expect("a cable");
            ip(&format!("-n {switch} link set dls{h} master dlsw up")).expect("a port");
            ip(&format!("-n {name} address add 10.97.0.{}/24 dev dls", h + 1)).expect("an address");
            ip(&format!("-n {name} link set dls up")).expect("the link");
            format!("tcp/10.97.0.{}:7450", h + 1)
        };
        others.iter().take(hosts).enumerate().map(plug).collect()
    }

    /// Pulls a cable, or plugs it in.
    pub(crate) fn set_up(&self, wire: Wire, up: bool) {
        for host in wire.ends {
            ip(&format!("-n {} link set {} {}", self.names[host], wire.card(), if up { "up" } else { "down" })).expect("the link");
        }
    }

    /// Loses all packets of a cable without telling anybody, or no longer.
    pub(crate) fn drop_silently(&self, wire: Wire, dropping: bool) {
        let (card, [a, b]) = (wire.card(), wire.ends.map(|h| self.names[h].as_str()));
        misdirect(a, &card, &wire.address(1), (b, &card), dropping);
        misdirect(b, &card, &wire.address(0), (a, &card), dropping);
    }

    /// What stands before a program that runs on a host.
    pub(crate) fn on(&self, host: usize) -> Vec<String> {
        on(&self.names[host])
    }
}

impl Wire {
    fn card(self) -> String {
        format!("dl{}", self.number)
    }

    fn address(self, end: usize) -> String {
        format!("10.98.{}.{}", self.number, end + 1)
    }

    /// Where the host at one end listens.
    pub(crate) fn endpoint(self, end: usize) -> String {
        format!("tcp/{}:7450", self.address(end))
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        remove(&self.names);
    }
}
