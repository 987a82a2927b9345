// SPDX-License-Identifier: Apache-2.0
//! Keys of tokens, queries, samples and acknowledgements, and the names of hosts in these keys.

use super::VERSION;
use driveline_gateway::network::{is_domain_name, is_host_name};
use driveline_types::{Durability, Qos, Reliability, TopicName};
use std::fmt;
use std::str::FromStr;

/// Maximum length of a parsed key, in bytes.
const MAX_KEY_LEN: usize = 512;
/// Prefix of the keys of all versions.
const ROOT: &str = "driveline";

/// A start of a gateway: the name of its host and a random number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId {
    name: String,
    incarnation: u64,
}

impl HostId {
    /// Creates an id; `None` if the name is not 1 to 63 letters, digits, '_' and '-'.
    #[must_use]
    pub fn new(name: &str, incarnation: u64) -> Option<Self> {
        is_host_name(name).then(|| Self { name: name.to_owned(), incarnation })
    }

    /// The host's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of this start; each start has a new one.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.incarnation
    }
}

impl fmt::Display for HostId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:016x}", self.name, self.incarnation)
    }
}

impl FromStr for HostId {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, number) = text.split_once('.').ok_or(())?;
        Self::new(name, u64::from_str_radix(plain_hex(number, 16).ok_or(())?, 16).map_err(drop)?)
            .ok_or(())
    }
}

/// Accepts exactly this number of lower-case hexadecimal digits, so that each number has one text.
pub(super) fn plain_hex(text: &str, digits: usize) -> Option<&str> {
    (text.len() == digits && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        .then_some(text)
}

/// QoS that decides how a topic is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QosMark {
    /// Reliable: samples within the publisher's history must not be lost.
    pub reliability: Reliability,
    /// Transient local: late subscriptions get earlier samples.
    pub durability: Durability,
}

impl QosMark {
    /// Returns the mark of a publisher's offer or a subscription's request.
    #[must_use]
    pub fn of(qos: &Qos) -> Self {
        Self { reliability: qos.reliability, durability: qos.durability }
    }
}

impl fmt::Display for QosMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.reliability == Reliability::Reliable { "r" } else { "b" })?;
        f.write_str(if self.durability == Durability::TransientLocal { "t" } else { "v" })
    }
}

impl FromStr for QosMark {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (reliability, durability) = match text {
            "bv" => (Reliability::BestEffort, Durability::Volatile),
            "bt" => (Reliability::BestEffort, Durability::TransientLocal),
            "rv" => (Reliability::Reliable, Durability::Volatile),
            "rt" => (Reliability::Reliable, Durability::TransientLocal),
            _ => return Err(()),
        };
        Ok(Self { reliability, durability })
    }
}

/// A parsed key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parsed {
    /// Token: a gateway exists.
    Host(HostId),
    /// Token: a host sends a topic. Query: list its publishers of the topic. Put: this list has
    /// changed.
    Topic {
        /// The host.
        host: HostId,
        /// Topic.
        topic: TopicName,
    },
    /// Token: a host requests a topic of another host.
    Want {
        /// Requesting host.
        host: HostId,
        /// Publishing host.
        of: HostId,
        /// Offer that the publishers must have exactly.
        offered: QosMark,
        /// QoS requested from them.
        qos: QosMark,
        /// Topic.
        topic: TopicName,
    },
    /// Query: time of a host.
    Clock(HostId),
    /// Query: addresses of a host, and the hosts that it hears.
    Met(HostId),
    /// A sample.
    Sample {
        /// Receiving host.
        to: HostId,
        /// Sending host.
        from: HostId,
        /// Offer of its publisher.
        offered: QosMark,
        /// Topic.
        topic: TopicName,
    },
    /// An acknowledgement of a sample.
    Ack {
        /// Host that receives the acknowledgement.
        to: HostId,
        /// Host that received the sample.
        from: HostId,
        /// Offer of the sample's publisher.
        offered: QosMark,
        /// Topic.
        topic: TopicName,
    },
}

/// Writes and parses the keys of one domain.
#[derive(Clone, Debug)]
pub struct Keys {
    domain: String,
    prefix: String,
}

impl Keys {
    /// Creates the keys of a domain; `None` if its name cannot be part of a key.
    #[must_use]
    pub fn new(domain: &str) -> Option<Self> {
        is_domain_name(domain).then(|| Self {
            domain: domain.to_owned(),
            prefix: format!("{ROOT}/{VERSION}/{domain}/"),
        })
    }

    /// Writes a key.
    #[must_use]
    pub fn key(&self, what: &Parsed) -> String {
        let p = &self.prefix;
        match what {
            Parsed::Host(host) => format!("{p}host/{host}"),
            Parsed::Topic { host, topic } => format!("{p}pub/{host}/{topic}"),
            Parsed::Want { host, of, offered, qos, topic } => {
                format!("{p}want/{host}/{of}/{offered}/{qos}/{topic}")
            }
            Parsed::Clock(host) => format!("{p}clock/{host}"),
            Parsed::Met(host) => format!("{p}met/{host}"),
            Parsed::Sample { to, from, offered, topic } => {
                format!("{p}s/{to}/{from}/{offered}/{topic}")
            }
            Parsed::Ack { to, from, offered, topic } => {
                format!("{p}a/{to}/{from}/{offered}/{topic}")
            }
        }
    }

    /// Key expression of all tokens of one kind: `host`, `pub`, or `want`.
    #[must_use]
    pub fn tokens(&self, kind: &str) -> String {
        format!("{}{kind}/**", self.prefix)
    }

    /// Key expression of all keys of one kind that name this host first: messages to it (`pub`,
    /// `s`, `a`), or its tokens (`pub`, `want`).
    #[must_use]
    pub fn addressed(&self, kind: &str, to: &HostId) -> String {
        format!("{}{kind}/{to}/**", self.prefix)
    }

    /// Key expression of the gateways of this domain, of any version of the protocol.
    #[must_use]
    pub fn hosts_of_all_versions(&self) -> String {
        format!("{ROOT}/*/{}/host/*", self.domain)
    }

    /// Returns gateway and version of a key of [`Self::hosts_of_all_versions`]. `None`: no such
    /// key, or this version.
    #[must_use]
    pub fn of_another_version(&self, key: &str) -> Option<(u16, HostId)> {
        if key.len() > MAX_KEY_LEN {
            return None;
        }
        let mut parts = key.strip_prefix(ROOT)?.strip_prefix('/')?.split('/');
        let version =
            parts.next().filter(|v| v.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
        let named = parts.next()? == self.domain && parts.next()? == "host";
        let host = parts.next()?.parse().ok()?;
        (named && version != VERSION && parts.next().is_none()).then_some((version, host))
    }

    /// Parses a key. `None`: not of this version and domain.
    #[must_use]
    pub fn parse(&self, key: &str) -> Option<Parsed> {
        if key.len() > MAX_KEY_LEN {
            return None;
        }
        let (kind, rest) = key.strip_prefix(self.prefix.as_str())?.split_once('/')?;
        let host = |text: &str| text.parse::<HostId>().ok();
        match kind {
            "host" => host(rest).map(Parsed::Host),
            "clock" => host(rest).map(Parsed::Clock),
            "met" => host(rest).map(Parsed::Met),
            "pub" => {
                let (h, topic) = rest.split_once('/')?;
                Some(Parsed::Topic { host: host(h)?, topic: topic.parse().ok()? })
            }
            "want" => {
                let mut parts = rest.splitn(5, '/');
                let (host, of) = (host(parts.next()?)?, host(parts.next()?)?);
                let (offered, qos) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                Some(Parsed::Want { host, of, offered, qos, topic: parts.next()?.parse().ok()? })
            }
            "s" | "a" => {
                let mut parts = rest.splitn(4, '/');
                let (to, from) = (host(parts.next()?)?, host(parts.next()?)?);
                let (offered, topic) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
                Some(if kind == "s" {
                    Parsed::Sample { to, from, offered, topic }
                } else {
                    Parsed::Ack { to, from, offered, topic }
                })
            }
            _ => None,
        }
    }
}
