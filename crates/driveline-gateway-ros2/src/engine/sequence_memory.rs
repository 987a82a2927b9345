// SPDX-License-Identifier: Apache-2.0
//! Last sequence numbers of departed publishers. If a publisher returns, its lost samples are
//! counted from this number on.

use super::endpoint::Handle;
use std::collections::{HashMap, VecDeque};

/// Maximum number of remembered publishers; the publisher that departed first is forgotten first.
const MAX_KEPT: usize = 4096;

/// Number of the last arrived sample of each departed publisher.
#[derive(Debug, Default)]
pub(super) struct SequenceMemory {
    last: HashMap<Handle, i64>,
    /// Publishers in order of departure.
    order: VecDeque<Handle>,
}

impl SequenceMemory {
    /// Notes that a publisher has gone.
    pub(super) fn remember(&mut self, publisher: Handle, last: i64) {
        if self.last.insert(publisher, last).is_none() {
            self.order.push_back(publisher);
        }
        if self.order.len() > MAX_KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.last.remove(&oldest);
        }
    }

    /// Notes a late sample of a departed publisher, which was counted.
    pub(super) fn heard(&mut self, publisher: Handle, number: i64) {
        if let Some(last) = self.last.get_mut(&publisher) {
            *last = number.max(*last);
        }
    }

    /// Removes and returns the number of a publisher that has returned.
    pub(super) fn take(&mut self, publisher: Handle) -> Option<i64> {
        let last = self.last.remove(&publisher)?;
        self.order.retain(|p| *p != publisher);
        Some(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departed_writers_are_forgotten_in_order_and_kept_once() {
        let mut sequence_memory = SequenceMemory::default();
        (0..MAX_KEPT as u128).for_each(|p| sequence_memory.remember(p, 7));
        sequence_memory.remember(0, 9);
        assert_eq!((sequence_memory.take(0), sequence_memory.take(0)), (Some(9), None));
        sequence_memory.remember(0, 1);
        sequence_memory.heard(0, 5);
        sequence_memory.heard(0, 3);
        // The oldest entry is 1 now.
        sequence_memory.remember(u128::MAX, 2);
        assert_eq!(
            (sequence_memory.take(1), sequence_memory.take(2), sequence_memory.take(0)),
            (None, Some(7), Some(5))
        );
        sequence_memory.heard(u128::MAX - 1, 1);
        assert_eq!(sequence_memory.take(u128::MAX - 1), None, "unknown publishers are not kept");
        assert_eq!(sequence_memory.last.len(), sequence_memory.order.len());
    }
}
