// SPDX-License-Identifier: Apache-2.0
//! Addresses of a host, and the other hosts that it hears.

use super::HostId;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Maximum length of an answer in bytes. It fits into one of Zenoh's batches, so the answering
/// thread waits no longer for space than with the answer to a request for the time.
pub const MAX_KNOWN_HOSTS_LEN: usize = 8 * 1024;
/// Maximum number of addresses of a host, and maximum length of one in bytes.
const MAX_ADDRESSES: usize = 4;
const MAX_ADDRESS_LEN: usize = 128;

/// Addresses of a host, and the other hosts that it hears.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownHosts {
    /// Protocols and addresses on which it listens.
    pub listens: Vec<String>,
    /// Hosts that it hears, with the addresses that they report.
    pub hears: Vec<(HostId, Vec<String>)>,
}

/// Wire format. Unknown keys are ignored.
#[derive(Serialize, Deserialize)]
struct Text {
    listens: Vec<String>,
    hears: Vec<(String, Vec<String>)>,
}

impl KnownHosts {
    /// Encodes the answer. Leaves out hosts that do not fit, and addresses that are invalid, too
    /// long or too many.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = Text { listens: places(&self.listens), hears: Vec::new() };
        let bytes = |text: &Text| serde_json::to_vec(text).unwrap_or_default();
        let mut len = bytes(&text).len();
        for (host, listens) in &self.hears {
            let pair = (host.to_string(), places(listens));
            // The pair and a comma.
            len += serde_json::to_vec(&pair).map_or(MAX_KNOWN_HOSTS_LEN, |pair| pair.len() + 1);
            if len > MAX_KNOWN_HOSTS_LEN {
                break;
            }
            text.hears.push(pair);
        }
        bytes(&text)
    }

    /// Decodes untrusted bytes. `None`: not valid. Invalid host names and addresses, and those
    /// beyond the limits, are skipped.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MAX_KNOWN_HOSTS_LEN {
            return None;
        }
        let text: Text = serde_json::from_slice(bytes).ok()?;
        let hears = text
            .hears
            .iter()
            .filter_map(|(host, listens)| Some((host.parse().ok()?, places(listens))));
        Some(Self { listens: places(&text.listens), hears: hears.collect() })
    }
}

/// Returns the addresses that other hosts may reach, each once.
fn places(addresses: &[String]) -> Vec<String> {
    let mut places = Vec::new();
    for place in addresses.iter().filter_map(|address| place(address)) {
        if places.len() < MAX_ADDRESSES && !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Returns an endpoint of Zenoh's without its settings: protocol, IP address or name, and port.
/// `None` if it cannot be the address of another host, for example for loopback (others would reach
/// themselves), a link-local address (it needs an interface, and names of interfaces differ between
/// hosts), a multicast group, or a path. So a report can neither change how this host connects, nor
/// write arbitrary text into its log.
#[must_use]
pub fn place(endpoint: &str) -> Option<String> {
    let place = endpoint.split(['?', '#']).next().filter(|place| place.len() <= MAX_ADDRESS_LEN)?;
    let (protocol, address) = place.split_once('/')?;
    let is_word = |text: &str, also: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(c))
    };
    let is_reached = match address.parse::<SocketAddr>() {
        Ok(SocketAddr::V4(v4)) => {
            let ip = v4.ip();
            v4.port() > 0
                && !(ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_multicast()
                    || ip.is_broadcast()
                    || ip.octets()[0] == 0)
        }
        Ok(SocketAddr::V6(v6)) => {
            let ip = v6.ip();
            let of_link = v6.scope_id() > 0 || ip.segments()[0] & 0xffc0 == 0xfe80;
            v6.port() > 0
                && !(ip.is_loopback()
                    || ip.is_unspecified()
                    || ip.is_multicast()
                    || of_link
                    || ip.to_ipv4_mapped().is_some())
        }
        Err(_) => address.rsplit_once(':').is_some_and(|(name, port)| {
            // A host name that ends in a number would be an IP address in another notation.
            let of_people = name
                .rsplit('.')
                .next()
                .is_some_and(|last| last.starts_with(|c: char| c.is_ascii_alphabetic()));
            is_word(name, "-.")
                && of_people
                && name != "localhost"
                && !name.ends_with(".localhost")
                && port.parse::<u16>().is_ok_and(|port| port > 0)
        }),
    };
    (is_word(protocol, "-_") && is_reached).then(|| place.to_owned())
}
