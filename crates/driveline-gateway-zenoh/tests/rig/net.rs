// SPDX-License-Identifier: Apache-2.0
//! Any number of hosts with cables between some of them: network namespaces, where each cable is a
//! network of its own.

use super::misdirect;
use driveline_namespaces::Namespace;
use std::net::Ipv4Addr;

/// Hosts by number.
pub(crate) struct Net {
    hosts: Vec<Namespace>,
    cables: u8,
}

/// A cable between two hosts.
#[derive(Clone, Copy)]
pub(crate) struct Wire {
    ends: [usize; 2],
    number: u8,
}

impl Net {
    /// Makes the hosts. `None`, with a message: no network namespaces here.
    pub(crate) fn new(hosts: usize) -> Option<Self> {
        let made: anyhow::Result<_> = (0..hosts).map(|_| Namespace::new()).collect();
        let why = |why| {
            super::skipped(
                "several hosts",
                &format!("no network namespaces here ({why:#})"),
                super::AS_ROOT,
            )
        };
        Some(Self { hosts: made.map_err(why).ok()?, cables: 0 })
    }

    /// Puts a cable between two hosts.
    pub(crate) fn wire(&mut self, a: usize, b: usize) -> Wire {
        self.cables += 1;
        let wire = Wire { ends: [a, b], number: self.cables };
        let card = wire.card();
        let [a, b] = wire.ends.map(|h| &self.hosts[h]);
        a.add_veth(&card, (b, &card)).expect("a cable");
        for (end, host) in [a, b].into_iter().enumerate() {
            host.add_address(&card, wire.address(end)).expect("a link");
        }
        wire
    }

    /// Connects the first `hosts` hosts to the last one, which is a switch. Returns their
    /// endpoints.
    pub(crate) fn switch(&mut self, hosts: usize) -> Vec<String> {
        let Some((switch, others)) = self.hosts.split_last() else { return Vec::new() };
        switch.run("ip link add dlsw type bridge").expect("a bridge");
        switch.run("ip link set dlsw up").expect("the bridge");
        let plug = |(host, n): (&Namespace, u8)| {
            let (port, address) = (format!("dls{n}"), at_switch(n));
            host.add_veth(AT_SWITCH, (switch, &port)).expect("a cable");
            switch.run(&format!("ip link set {port} master dlsw up")).expect("a port");
            host.add_address(AT_SWITCH, address).expect("a link");
            format!("tcp/{address}:7450")
        };
        others.iter().take(hosts).zip(1..).map(plug).collect()
    }

    /// Pulls a cable, or plugs it in.
    pub(crate) fn set_up(&self, wire: Wire, up: bool) {
        for host in wire.ends {
            self.hosts[host]
                .run(&format!("ip link set {} {}", wire.card(), if up { "up" } else { "down" }))
                .expect("the link");
        }
    }

    /// Loses all packets of a cable without notice to either end, or stops losing them.
    pub(crate) fn drop_silently(&self, wire: Wire, dropping: bool) {
        let (card, [a, b]) = (wire.card(), wire.ends.map(|h| &self.hosts[h]));
        misdirect((a, &card), (b, &card), wire.address(1), dropping);
        misdirect((b, &card), (a, &card), wire.address(0), dropping);
    }

    /// Loses all packets between two hosts at the switch without notice to either, or stops losing
    /// them. Other hosts hear both.
    pub(crate) fn part(&self, a: usize, b: usize, parted: bool) {
        for (from, to) in [(a, b), (b, a)] {
            let [from, its] = [from, to].map(|h| (&self.hosts[h], AT_SWITCH));
            misdirect(from, its, at_switch(to as u8 + 1), parted);
        }
    }

    /// Limits the bandwidth of a cable in both directions, without a long queue.
    pub(crate) fn limit(&self, wire: Wire, mbit: u32) {
        wire.ends
            .iter()
            .for_each(|host| self.hosts[*host].limit_rate(&wire.card(), mbit).expect("tbf"));
    }

    /// From now on, the kernel of a host buffers up to 16 MiB of received data per connection, so
    /// that the sender notices late that no program reads it.
    pub(crate) fn keeps_what_arrives(&self, host: usize) {
        let write = || {
            self.hosts[host].enter().expect("to enter its name space");
            std::fs::write("/proc/sys/net/ipv4/tcp_rmem", "4096 16777216 16777216")
                .expect("its kernel's setting");
        };
        // A new thread, which stays in the namespace until it ends.
        std::thread::scope(|scope| scope.spawn(write).join().expect("the setting"));
    }

    /// Runs a command on a host.
    pub(crate) fn run(&self, host: usize, command: &str) {
        self.hosts[host].run(command).expect(command);
    }

    /// Returns the command prefix for a program that runs on a host.
    pub(crate) fn on(&self, host: usize) -> Vec<String> {
        self.hosts[host].command_prefix().into()
    }
}

fn address(wire: u8, end: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 98, wire, 1 + end as u8)
}

/// Name of the interface of a host to a switch.
pub(crate) const AT_SWITCH: &str = "dls";

fn at_switch(host: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 97, 0, host)
}

/// Addresses of hosts on the first wires of a net, and at a switch.
pub(crate) fn addresses_in_nets() -> impl Iterator<Item = Ipv4Addr> {
    (1..=4).flat_map(|wire| [0, 1].map(|end| address(wire, end))).chain((1..=4).map(at_switch))
}

impl Wire {
    /// Returns the name of its interfaces.
    pub(crate) fn card(self) -> String {
        format!("dl{}", self.number)
    }

    fn address(self, end: usize) -> Ipv4Addr {
        address(self.number, end)
    }

    /// Returns the endpoint at which the host at one end listens.
    pub(crate) fn endpoint(self, end: usize) -> String {
        format!("tcp/{}:7450", self.address(end))
    }
}
