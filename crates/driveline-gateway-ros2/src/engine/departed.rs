// SPDX-License-Identifier: Apache-2.0
//! How far publishers had come that are gone: what they number is counted on if they come back.

use super::endpoint::Handle;
use std::collections::{HashMap, VecDeque};

/// Publishers that are kept in mind; the one that went first is forgotten first.
const MAX_KEPT: usize = 4096;

/// The number of the last sample that came, of each.
#[derive(Debug, Default)]
pub(super) struct Departed {
    last: HashMap<Handle, i64>,
    /// Oldest first.
    order: VecDeque<Handle>,
}

impl Departed {
    /// A publisher has gone.
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

    /// A sample of it has come nonetheless, and was counted.
    pub(super) fn heard(&mut self, publisher: Handle, number: i64) {
        if let Some(last) = self.last.get_mut(&publisher) {
            *last = number.max(*last);
        }
    }

    /// It is back.
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
    fn who_went_first_is_forgotten_first_and_nobody_is_kept_twice() {
        let mut departed = Departed::default();
        (0..MAX_KEPT as u128).for_each(|p| departed.remember(p, 7));
        departed.remember(0, 9);
        assert_eq!((departed.take(0), departed.take(0)), (Some(9), None));
        departed.remember(0, 1);
        departed.heard(0, 5);
        departed.heard(0, 3);
        // The oldest is 1 now.
        departed.remember(u128::MAX, 2);
        assert_eq!(
            (departed.take(1), departed.take(2), departed.take(0)),
            (None, Some(7), Some(5))
        );
        departed.heard(u128::MAX - 1, 1);
        assert_eq!(departed.take(u128::MAX - 1), None, "who never was there is not kept");
        assert_eq!(departed.last.len(), departed.order.len());
    }
}
