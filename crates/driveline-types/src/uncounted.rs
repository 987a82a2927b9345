// SPDX-License-Identifier: Apache-2.0
//! Reasons why the samples of a publisher on another host cannot all be counted.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Reason why the number of samples that a publisher of another host, or of ROS 2, published after
/// the newest one here is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Uncounted {
    /// Its host is unreachable and may return.
    OutOfReach,
    /// Its host did not return, or returned without it.
    HostGone,
    /// It has ended, and its last number was not announced.
    NotAnnounced,
    /// The gateway here has no place for more publishers, and gave this one's place to another.
    GaveWay,
    /// The gateway here has ended, and no other one carries its samples.
    GatewayGone,
    /// A reason of a later release.
    #[serde(other)]
    Other,
}

impl Uncounted {
    const ALL: [Self; 6] = [
        Self::OutOfReach,
        Self::HostGone,
        Self::NotAnnounced,
        Self::GaveWay,
        Self::GatewayGone,
        Self::Other,
    ];

    /// Number of the reason in shared memory and in the C interface, from 1.
    #[must_use]
    pub fn code(self) -> u8 {
        (1..).zip(Self::ALL).find(|(_, reason)| *reason == self).map_or(0, |(code, _)| code)
    }

    /// The reason with this number. Numbers of later releases are [`Self::Other`]; 0 is none.
    #[must_use]
    pub fn of_code(code: u8) -> Option<Self> {
        let at = usize::from(code.checked_sub(1)?);
        Some(Self::ALL.get(at).copied().unwrap_or(Self::Other))
    }
}

impl fmt::Display for Uncounted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutOfReach => "its host is out of reach",
            Self::HostGone => "its host did not come back, or came back without it",
            Self::NotAnnounced => "it ended, and its last number was not announced",
            Self::GaveWay => "the gateway here gave its place to another publisher",
            Self::GatewayGone => "the gateway here has ended",
            Self::Other => "a reason of a later release",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_numbers_from_1_and_unknown_numbers_are_a_reason() {
        for (code, reason) in (1..).zip(Uncounted::ALL) {
            assert_eq!((reason.code(), Uncounted::of_code(code)), (code, Some(reason)));
        }
        assert_eq!(
            (Uncounted::of_code(0), Uncounted::of_code(200)),
            (None, Some(Uncounted::Other))
        );
        let later: Uncounted = serde_json::from_str("\"moved_to_the_moon\"").unwrap();
        assert_eq!(later, Uncounted::Other);
    }
}
