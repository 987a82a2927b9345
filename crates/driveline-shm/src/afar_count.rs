// SPDX-License-Identifier: Apache-2.0
//! Report on a publisher of another host and on its missing samples. The local gateway writes it
//! into the segment of its own publisher (`docs/protocols/shm.md`, Counts from afar).

use crate::limits::MAX_SEQUENCE;
use crate::segment::Segment;
use driveline_types::Uncounted;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::fence;

const STATE_BITS: u32 = 16;
const THERE: u16 = 1;
const ENDED: u16 = 2;

/// State of a publisher of another host, as known to the local gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfarState {
    /// The publisher exists. The number of samples published after its newest sample here is not
    /// known yet.
    #[default]
    There,
    /// The publisher has ended, and its last number is known.
    Ended,
    /// The number of samples published after the newest one here is unknown.
    Unknown(Uncounted),
}

impl AfarState {
    fn code(self) -> u16 {
        match self {
            Self::There => THERE,
            Self::Ended => ENDED,
            Self::Unknown(why) => u16::from(why.code()) + ENDED,
        }
    }

    fn of_code(code: u16) -> Option<Self> {
        match code {
            0 => None,
            THERE => Some(Self::There),
            ENDED => Some(Self::Ended),
            // A reason of a later release is read as `Uncounted::Other`. Reasons are at most 255; a
            // greater number comes only from a broken gateway.
            more => Some(Self::Unknown(
                u8::try_from(more - ENDED)
                    .ok()
                    .and_then(Uncounted::of_code)
                    .unwrap_or(Uncounted::Other),
            )),
        }
    }
}

/// Gateway's report on the publisher whose samples it publishes here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AfarCount {
    /// The publisher, as in [`driveline_types::Remote`].
    pub publisher: u64,
    /// Number of the publisher's last sample before the first one that counts here. `None`: this
    /// number is unknown, and no sample of the publisher has arrived.
    pub before: Option<u64>,
    /// Number of missing samples: the publisher is known to have written them, and the gateway has
    /// not published them here.
    pub missing: u64,
    /// State of the publisher.
    pub state: AfarState,
}

impl AfarCount {
    /// Writes the report into the segment of the gateway's publisher, at the times that
    /// [`Publisher::count_afar`](crate::Publisher::count_afar) describes.
    pub(crate) fn write(&self, segment: &Segment) {
        segment.afar_publisher().store(self.publisher, Relaxed);
        segment.afar_before().store(self.before.map_or(0, |b| b.saturating_add(1)), Relaxed);
        // Release: a reader that sees this count sees the values that it refers to.
        segment.afar_count().store(
            (self.missing.min(MAX_SEQUENCE) << STATE_BITS) | u64::from(self.state.code()),
            Release,
        );
    }

    /// Reads the report of a publisher. `None`: the publisher belongs to no gateway, to the gateway
    /// to ROS 2, or to a gateway of an earlier release.
    pub(crate) fn read(segment: &Segment) -> Option<Self> {
        let word = segment.afar_count().load(Relaxed);
        let state = AfarState::of_code(u16::try_from(word & 0xffff).unwrap_or(0))?;
        fence(Acquire);
        let publisher = segment.afar_publisher().load(Relaxed);
        Some(Self {
            publisher,
            before: segment.afar_before().load(Relaxed).checked_sub(1),
            missing: word >> STATE_BITS,
            state,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_a_later_release_is_another_reason() {
        for state in [AfarState::There, AfarState::Ended, AfarState::Unknown(Uncounted::GaveWay)] {
            assert_eq!(AfarState::of_code(state.code()), Some(state));
        }
        for code in [ENDED + 100, ENDED + 255, ENDED + 256, u16::MAX] {
            assert_eq!(AfarState::of_code(code), Some(AfarState::Unknown(Uncounted::Other)));
        }
    }
}
