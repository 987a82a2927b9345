// SPDX-License-Identifier: Apache-2.0
//! Copies of payloads that are measured as a baseline.

use super::Take;
use serde::{Deserialize, Serialize};

/// Least size of which a copy says something of memory, and not of the clock around it.
pub const MEMCPY_FROM: usize = 64 << 10;

/// Kind of memcpy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MemcpyKind {
    /// From private memory into the same shared bytes again and again.
    IntoShared,
    /// From private memory into shared slots in turn, as a publisher fills them.
    IntoSharedSlots,
    /// From shared slots in turn into private memory, as a reader copies them.
    FromSharedSlots,
}

impl MemcpyKind {
    /// Returns the copying end for this way of taking payloads: a reader that copies, or else the
    /// writer.
    #[must_use]
    pub fn of(take: Take) -> Self {
        match take {
            Take::Copy => Self::FromSharedSlots,
            Take::Borrow => Self::IntoSharedSlots,
        }
    }

    /// In words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::IntoShared => "into one shared slot",
            Self::IntoSharedSlots => "into shared slots in turn",
            Self::FromSharedSlots => "from shared slots in turn",
        }
    }
}

/// All of them, in the order of [`index`](super::Job::index).
pub(crate) const MEMCPY_KINDS: [MemcpyKind; 3] =
    [MemcpyKind::IntoShared, MemcpyKind::IntoSharedSlots, MemcpyKind::FromSharedSlots];
