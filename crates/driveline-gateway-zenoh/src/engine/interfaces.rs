// SPDX-License-Identifier: Apache-2.0
//! Compares the network interfaces named in a configuration with the interfaces that Zenoh has
//! read. Zenoh reads the interfaces of the host only once in a process.

use super::GatewayError;
use driveline_gateway::interfaces::{Interface, interfaces};
use driveline_gateway::network::NetworkSpec;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::OnceLock;

/// Interfaces that existed when Zenoh was first used in this process.
static SEEN: OnceLock<Vec<Interface>> = OnceLock::new();

/// Notes the interfaces of the host. Call it right before Zenoh is first used.
pub(super) fn note_seen_interfaces() {
    SEEN.get_or_init(interfaces);
}

/// Named interfaces, and true for those whose addresses other hosts are to find: by discovery, or
/// because the gateway listens on all addresses of the interface.
fn named(spec: &NetworkSpec) -> impl Iterator<Item = (&str, bool)> {
    spec.interface.as_deref().map(|name| (name, true)).into_iter().chain(spec.listen_interfaces())
}

/// Named interfaces with their numbers in the kernel; a recreated interface has a new number, a
/// missing one none.
pub(super) fn numbers(spec: &NetworkSpec) -> BTreeMap<String, u32> {
    let names: Vec<&str> = named(spec).map(|(name, _)| name).collect();
    let there = if names.is_empty() { Vec::new() } else { interfaces() };
    there
        .into_iter()
        .filter(|i| names.contains(&i.name.as_str()))
        .map(|i| (i.name, i.index))
        .collect()
}

/// Returns an error if this host lacks an interface or an address now that it may have later. Call
/// it before Zenoh is used.
pub(super) fn lacking(spec: &NetworkSpec) -> Option<GatewayError> {
    let there = interfaces();
    let lacks = |name: &str, to_be_found: bool| match there.iter().find(|i| i.name == name) {
        None => Some("is not there"),
        Some(_) if !to_be_found => None,
        Some(i) if !i.is_up => Some("is down"),
        Some(i) if !i.is_running => Some("has no carrier"),
        Some(i) if addresses(i).is_empty() => Some("has no IPv4 address"),
        Some(_) => None,
    };
    // If the gateway listens on all addresses of an interface, it announces these addresses to
    // other hosts.
    let lacking =
        named(spec).find_map(|(name, to_be_found)| Some((name, lacks(name, to_be_found)?)));
    let lacking = lacking.map(|(name, why)| GatewayError::Interface { name: name.to_owned(), why });
    lacking.or_else(|| {
        spec.missing_addresses().first().map(|(_, address)| GatewayError::Address(*address))
    })
}

/// Returns the addresses of the interface on which Zenoh looks for hosts, as Zenoh has read them.
pub(super) fn scouting_addresses(spec: &NetworkSpec) -> Vec<Ipv4Addr> {
    let seen =
        SEEN.get().and_then(|seen| seen.iter().find(|i| Some(&i.name) == spec.interface.as_ref()));
    seen.map(addresses).unwrap_or_default()
}

/// Returns the reason why Zenoh cannot be used any more in this process: a named interface has lost
/// all addresses that Zenoh has read, and has new ones.
pub(super) fn changed(spec: &NetworkSpec) -> Option<String> {
    let seen = SEEN.get()?;
    let there = interfaces();
    named(spec).filter(|(_, to_be_found)| *to_be_found).find_map(|(name, _)| {
        let of = |all: &[Interface]| {
            all.iter().find(|i| i.name == name).map(addresses).unwrap_or_default()
        };
        let (before, now) = (of(seen), of(&there));
        is_another(&before, &now).then(|| {
            format!(
                "the network interface {name} has other addresses now ({}, before: {}), which \
                 Zenoh does not see in a running program: no others are found there. `driveline \
                 run` starts \
                 its gateways again by itself; restart a gateway that was started by hand",
                list(&now),
                list(&before)
            )
        })
    })
}

/// Returns true if no address remains and there are new ones.
fn is_another(before: &[Ipv4Addr], now: &[Ipv4Addr]) -> bool {
    !now.is_empty() && !before.iter().any(|address| now.contains(address))
}

fn addresses(interface: &Interface) -> Vec<Ipv4Addr> {
    interface.ipv4().collect()
}

fn list(addresses: &[Ipv4Addr]) -> String {
    let all: Vec<String> = addresses.iter().map(Ipv4Addr::to_string).collect();
    if all.is_empty() { "none".into() } else { all.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_interface_must_exist() {
        let lacks =
            |network: &str| lacking(&serde_json::from_str(network).unwrap()).map(|e| e.to_string());
        for good in [
            "{}",
            r#"{"interface": "lo"}"#,
            r#"{"listen": ["tcp/127.0.0.1:0#iface=lo"],
                "connect": ["tcp/192.0.2.1:7450#iface=nosuch"]}"#,
        ] {
            assert_eq!(lacks(good), None);
        }
        for bad in [
            r#"{"interface": "nosuch"}"#,
            r#"{"listen": ["tcp/127.0.0.1:0#dscp=1;iface=nosuch"]}"#,
            r#"{"listen": ["tcp/0.0.0.0:0#iface=nosuch"], "insecure": true}"#,
        ] {
            assert!(
                lacks(bad).is_some_and(|why| why.starts_with(
                    "the network interface nosuch is \
                 not there"
                )),
                "{bad}"
            );
        }
    }

    #[test]
    fn addresses_count_as_changed_only_if_all_are_new() {
        let [a, b] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
        assert!(is_another(&[a], &[b]) && is_another(&[], &[a]));
        for now in [&[a, b][..], &[a], &[]] {
            assert!(!is_another(&[a], now), "{now:?}");
        }
    }
}
