// SPDX-License-Identifier: Apache-2.0
//! Network interfaces of this computer, for checks of configurations that name some, and for
//! gateways that are bound to them.

use pnet_datalink::NetworkInterface;
use std::net::{IpAddr, Ipv4Addr};

/// State of an interface in the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Its name, such as `eth0`.
    pub name: String,
    /// Number in the kernel; a recreated interface has a new one.
    pub index: u32,
    /// True if it is switched on.
    pub is_up: bool,
    /// True if it has a carrier.
    pub is_running: bool,
    /// Addresses, in the order of the kernel.
    pub addresses: Vec<IpAddr>,
}

impl Interface {
    /// Returns its IPv4 addresses.
    pub fn ipv4(&self) -> impl Iterator<Item = Ipv4Addr> {
        self.addresses
            .iter()
            .filter_map(|ip| if let IpAddr::V4(address) = ip { Some(*address) } else { None })
    }
}

/// Returns all interfaces; none if the kernel does not report them. Allocates, and makes system
/// calls.
#[must_use]
pub fn interfaces() -> Vec<Interface> {
    let of = |i: NetworkInterface| Interface {
        is_up: i.is_up(),
        is_running: i.is_running(),
        addresses: i.ips.iter().map(|network| network.ip()).collect(),
        name: i.name,
        index: i.index,
    };
    pnet_datalink::interfaces().into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_is_there_with_its_address() {
        let there = interfaces();
        let loopback = there.iter().find(|i| i.name == "lo").unwrap();
        assert!(
            loopback.index > 0 && loopback.ipv4().all(|address| address.is_loopback()),
            "{loopback:?}"
        );
        let all = std::fs::read_dir("/sys/class/net")
            .unwrap()
            .filter(|e| e.as_ref().unwrap().path().is_dir())
            .count();
        assert!(there.len() >= all, "those without addresses are in it, too: {there:?}");
    }
}
