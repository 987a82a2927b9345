// SPDX-License-Identifier: Apache-2.0
//! Copies of payloads, measured as a baseline.

use super::Take;
use serde::{Deserialize, Serialize};

/// Minimum size for a copy that measures memory rather than the clock.
pub const MEMCPY_FROM: usize = 64 << 10;

/// Kind of memcpy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemcpyKind {
    /// From private memory into the same shared bytes, repeatedly.
    IntoShared,
    /// From private memory into shared slots in turn, as a publisher fills them.
    IntoSharedSlots,
    /// From shared slots in turn into private memory, as a reader copies them.
    FromSharedSlots,
}

impl MemcpyKind {
    /// Returns the kind of copy for this access to payloads: the reader's copy if the reader
    /// copies, otherwise the writer's.
    #[must_use]
    pub fn of(take: Take) -> Self {
        match take {
            Take::Copy => Self::FromSharedSlots,
            Take::Borrow => Self::IntoSharedSlots,
        }
    }

    /// Returns the kind as text.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::IntoShared => "into one shared slot",
            Self::IntoSharedSlots => "into shared slots in turn",
            Self::FromSharedSlots => "from shared slots in turn",
        }
    }
}

/// All kinds, in the order of [`index`](super::Job::index).
pub const MEMCPY_KINDS: [MemcpyKind; 3] =
    [MemcpyKind::IntoShared, MemcpyKind::IntoSharedSlots, MemcpyKind::FromSharedSlots];
