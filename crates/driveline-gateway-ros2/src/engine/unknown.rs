// SPDX-License-Identifier: Apache-2.0
//! Writers whose samples have arrived, but that discovery has not reported, and refused writers
//! that have gone.

use super::endpoint::Handle;
use std::collections::{HashSet, VecDeque};

/// Maximum number of remembered writers; over Zenoh any session may send samples of unannounced
/// publishers, under many names.
pub(super) const MAX_UNKNOWN: usize = 1024;

/// Writers whose announcement is not awaited any more. At the limit, the oldest is forgotten: its
/// next sample waits for its announcement again.
#[derive(Debug, Default)]
pub(super) struct Unknown {
    writers: HashSet<Handle>,
    /// Oldest first.
    order: VecDeque<Handle>,
}

impl Unknown {
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.writers.len()
    }

    pub(super) fn contains(&self, writer: Handle) -> bool {
        self.writers.contains(&writer)
    }

    pub(super) fn insert(&mut self, writer: Handle) {
        if self.writers.insert(writer) {
            self.order.push_back(writer);
        }
        if self.order.len() > MAX_UNKNOWN
            && let Some(oldest) = self.order.pop_front()
        {
            self.writers.remove(&oldest);
        }
    }

    /// Removes a writer that discovery has reported.
    pub(super) fn remove(&mut self, writer: Handle) {
        if self.writers.remove(&writer) {
            self.order.retain(|w| *w != writer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_of_too_many_writers_is_forgotten() {
        let mut unknown = Unknown::default();
        let most = MAX_UNKNOWN as Handle;
        (0..most).chain(0..most).for_each(|writer| unknown.insert(writer));
        assert!((0..most).all(|writer| unknown.contains(writer)), "no writer is kept twice");
        unknown.insert(most);
        assert!(!unknown.contains(0) && unknown.contains(1) && unknown.contains(most));
        unknown.remove(1);
        unknown.insert(most + 1);
        assert!(unknown.contains(2), "there was room");
        assert_eq!(unknown.writers.len(), unknown.order.len());
    }
}
