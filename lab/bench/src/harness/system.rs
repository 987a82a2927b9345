// SPDX-License-Identifier: Apache-2.0
//! Systems that carry samples.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// System that carries the samples. In a job it is one word: `driveline`, `futex`, `spin`,
/// `memcpy`, or `name/variant` of a peer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum System {
    /// Driveline's public API.
    Driveline,
    /// A bare shared futex word, no payload: the floor of every blocking wait.
    Futex,
    /// A bare shared word that the reader spins on, no payload: the floor of every spinning wait.
    Spin,
    /// No system: a copy of the same number of bytes, the baseline of an end that writes or copies
    /// payloads.
    Memcpy,
    /// Another middleware, in a program of its own.
    Peer {
        /// Name of the peer.
        name: String,
        /// Variant of the peer.
        variant: String,
    },
}

impl System {
    /// Returns true if both are variants of one peer, and the name of this variant continues the
    /// other's: `fastdds/udp_500` varies `fastdds/udp`.
    #[must_use]
    pub fn varies(&self, usual: &Self) -> bool {
        match (self, usual) {
            (Self::Peer { name, variant }, Self::Peer { name: same, variant: of }) => {
                name == same
                    && variant.strip_prefix(of.as_str()).is_some_and(|rest| rest.starts_with('_'))
            }
            _ => false,
        }
    }
}

impl fmt::Display for System {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Driveline => f.write_str("driveline"),
            Self::Futex => f.write_str("futex"),
            Self::Spin => f.write_str("spin"),
            Self::Memcpy => f.write_str("memcpy"),
            Self::Peer { name, variant } => write!(f, "{name}/{variant}"),
        }
    }
}

impl From<System> for String {
    fn from(system: System) -> Self {
        system.to_string()
    }
}

impl TryFrom<String> for System {
    type Error = String;
    fn try_from(s: String) -> Result<Self, String> {
        s.parse()
    }
}

impl FromStr for System {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        match s {
            "driveline" => Ok(Self::Driveline),
            "futex" => Ok(Self::Futex),
            "spin" => Ok(Self::Spin),
            "memcpy" => Ok(Self::Memcpy),
            _ => match s.split_once('/') {
                Some((name, variant)) if !name.is_empty() && !variant.is_empty() => {
                    Ok(Self::Peer { name: name.to_owned(), variant: variant.to_owned() })
                }
                _ => Err(format!(
                    "'{s}' is no system: use driveline, futex, spin, memcpy, or a peer and its \
                     variant, e.g. fastdds/shm"
                )),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_one_word() {
        for word in ["driveline", "futex", "spin", "memcpy", "fastdds/shm", "a/b/c"] {
            assert_eq!(word.parse::<System>().unwrap().to_string(), word);
        }
        for bad in ["", "fastdds", "/shm", "fastdds/"] {
            assert!(bad.parse::<System>().unwrap_err().contains("e.g. fastdds/shm"), "{bad}");
        }
    }

    #[test]
    fn a_variation_has_the_name_of_what_it_varies_and_more() {
        let varies = |a: &str, b: &str| a.parse::<System>().unwrap().varies(&b.parse().unwrap());
        assert!(varies("fastdds/udp_500", "fastdds/udp"));
        for (a, b) in [
            ("fastdds/udp", "fastdds/udp"),
            ("ros1/udp_500", "fastdds/udp"),
            ("fastdds/udpx", "fastdds/udp"),
            ("driveline", "futex"),
        ] {
            assert!(!varies(a, b), "{a} {b}");
        }
    }
}
