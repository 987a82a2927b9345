// SPDX-License-Identifier: Apache-2.0
//! Network interfaces of the gateway's sockets. A socket does not report that its interface was
//! replaced: `docs/protocols/ros2-dds.md`, section 5.

use driveline_gateway::interfaces::Interface;
use driveline_gateway::ros2::Ros2Spec;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Period of checks.
const EVERY: Duration = Duration::from_secs(1);

/// Interface that the sockets were bound to.
struct Bound {
    name: String,
    /// Its number in the kernel; `None`: it did not exist.
    index: Option<u32>,
    /// CycloneDDS uses the first address of an interface, and announces it. `None`: there was no
    /// address, or it is not used.
    address: Option<Ipv4Addr>,
    /// True if the interface needs an IPv4 address.
    by_address: bool,
    /// True if it has changed, which was logged.
    away: bool,
}

/// All named interfaces.
pub(super) struct Interfaces {
    bound: Vec<Bound>,
    next: Instant,
}

impl Bound {
    fn new(name: &str, by_address: bool, there: &[Interface]) -> Self {
        let interface = there.iter().find(|i| i.name == name);
        let address = interface.filter(|_| by_address).and_then(|i| i.ipv4().next());
        Self {
            name: name.to_owned(),
            index: interface.map(|i| i.index),
            address,
            by_address,
            away: false,
        }
    }

    /// Description of the problem, to follow the interface's name in a sentence.
    fn lacks(&self, interface: Option<&Interface>) -> Option<String> {
        let Some(i) = interface else { return Some("is not there any more".to_owned()) };
        if Some(i.index) != self.index {
            return Some("was replaced".to_owned());
        }
        let has = |address: &Ipv4Addr| i.ipv4().any(|there| there == *address);
        match (self.address, i.ipv4().next()) {
            (Some(was), _) if has(&was) => None,
            (Some(was), Some(is)) => Some(format!("has {is} in place of {was}")),
            (Some(was), None) => Some(format!("has its address {was} no longer")),
            (None, _) => None,
        }
    }

    /// Returns true if a gateway that starts now could use it.
    fn is_usable(&self, interface: &Interface) -> bool {
        interface.is_up
            && (interface.ipv4().next().is_some()
                || !self.by_address && !interface.addresses.is_empty())
    }

    /// Returns a line for the log; an error if the present interface needs new sockets.
    fn poll(&mut self, there: &[Interface]) -> Result<Option<String>, String> {
        let interface = there.iter().find(|i| i.name == self.name);
        let name = &self.name;
        match self.lacks(interface) {
            Some(what) if interface.is_some_and(|i| self.is_usable(i)) => Err(format!(
                "the network interface {name} {what}, and sockets stay bound to the previous one; \
                 this gateway ends, and `driveline run` starts it again. If you started it by \
                 hand, start it again yourself"
            )),
            Some(what) if !std::mem::replace(&mut self.away, true) => Ok(Some(format!(
                "the network interface {name} {what}: no node is reached by it until it is back \
                 (`ip address` lists them)"
            ))),
            None if std::mem::take(&mut self.away) => {
                Ok(Some(format!("the network interface {name} is back unchanged")))
            }
            _ => Ok(None),
        }
    }
}

impl Interfaces {
    /// Creates the list. `there`: the interfaces before the sockets were opened, so that changes
    /// since then are noticed.
    pub(super) fn new(spec: &Ros2Spec, there: &[Interface]) -> Self {
        let of_dds = spec
            .interface
            .as_deref()
            .filter(|_| spec.dds)
            .map(|name| Bound::new(name, true, there));
        let listen = spec.zenoh.iter().flat_map(|zenoh| zenoh.listen_interfaces());
        let bound =
            of_dds.into_iter().chain(listen.map(|name| Bound::new(name, false, there))).collect();
        Self { bound, next: Instant::now() + EVERY }
    }

    /// Returns lines for the log, if a check is due; an error if the gateway cannot continue.
    pub(super) fn poll(
        &mut self,
        now: Instant,
        there: impl FnOnce() -> Vec<Interface>,
    ) -> Result<Vec<String>, String> {
        if self.bound.is_empty() || now < self.next {
            return Ok(Vec::new());
        }
        self.next = now + EVERY;
        let there = there();
        let looked: Result<Vec<_>, _> =
            self.bound.iter_mut().map(|bound| bound.poll(&there)).collect();
        Ok(looked?.into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: bool = true;
    const DOWN: bool = false;

    fn card(index: u32, is_up: bool, addresses: &[&str]) -> Vec<Interface> {
        let addresses = addresses.iter().map(|a| a.parse().unwrap()).collect();
        vec![Interface { name: "eth0".into(), index, is_up, is_running: is_up, addresses }]
    }

    /// Log lines about an interface that had the number 3 and two addresses, over several checks.
    fn said(looks: &[Vec<Interface>]) -> Vec<Result<Option<String>, String>> {
        let mut bound =
            Bound::new("eth0", true, &card(3, UP, &["fe80::1", "10.0.0.1", "10.0.0.2"]));
        looks.iter().map(|there| bound.poll(there)).collect()
    }

    #[test]
    fn changes_of_other_addresses_have_no_effect() {
        let same = [
            card(3, UP, &["10.0.0.1"]),
            card(3, UP, &["10.9.9.9", "10.0.0.1"]),
            // Its sockets work again when the interface is switched on.
            card(3, DOWN, &["10.0.0.1"]),
        ];
        assert_eq!(said(&same), [Ok(None), Ok(None), Ok(None)]);
    }

    #[test]
    fn a_missing_interface_and_its_return_are_logged_once() {
        let reported = said(&[
            vec![],
            vec![],
            card(3, UP, &["10.0.0.1"]),
            card(3, UP, &["fe80::1"]),
            card(3, UP, &["10.0.0.1"]),
        ]);
        let reported: Vec<_> = reported.into_iter().map(Result::unwrap).collect();
        let starts =
            |n: usize, with: &str| reported[n].as_ref().is_some_and(|line| line.starts_with(with));
        assert!(
            starts(0, "the network interface eth0 is not there any more: ")
                && reported[1].is_none(),
            "{reported:?}"
        );
        assert!(starts(2, "the network interface eth0 is back unchanged"), "{reported:?}");
        assert!(
            starts(3, "the network interface eth0 has its address 10.0.0.1 no longer: "),
            "{reported:?}"
        );
        assert!(starts(4, "the network interface eth0 is back"), "{reported:?}");
    }

    #[test]
    fn the_gateway_ends_only_when_the_new_interface_can_be_used() {
        // Without an address, or switched off, the next gateway could not start.
        let anew = said(&[
            card(4, DOWN, &["10.0.0.1"]),
            card(4, UP, &["fe80::1"]),
            card(4, UP, &["10.0.0.1"]),
        ]);
        assert!(
            anew[0].is_ok()
                && anew[1] == Ok(None)
                && anew[2].as_ref().unwrap_err().contains("eth0 was replaced"),
            "{anew:?}"
        );
        let other = said(&[card(3, UP, &["10.0.0.7", "10.0.0.2"])]);
        assert!(
            other[0].as_ref().unwrap_err().contains("eth0 has 10.0.0.7 in place of 10.0.0.1"),
            "{other:?}"
        );
        // The interface appeared before the sockets were opened, and after the list was made.
        assert!(Bound::new("eth0", true, &[]).poll(&card(3, UP, &["10.0.0.1"])).is_err());
    }

    #[test]
    fn interfaces_to_listen_on_count_unless_their_profile_is_off() {
        let named = |ros2: serde_json::Value| {
            let interfaces = Interfaces::new(&serde_json::from_value(ros2).unwrap(), &[]);
            interfaces.bound.into_iter().map(|bound| bound.name).collect::<Vec<_>>()
        };
        assert!(named(serde_json::json!({})).is_empty());
        assert_eq!(named(serde_json::json!({ "interface": "eth0" })), ["eth0"]);
        let zenoh = serde_json::json!({
            "listen": ["tcp/10.0.0.1:7447#iface=eth1", "tcp/localhost:0"],
            "connect": ["tcp/10.0.0.9:7447#iface=eth2"],
        });
        assert_eq!(
            named(serde_json::json!({ "dds": false, "interface": "eth0", "zenoh": zenoh })),
            ["eth1"]
        );
    }
}
