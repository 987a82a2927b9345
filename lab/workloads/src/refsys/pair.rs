// SPDX-License-Identifier: Apache-2.0
//! Rule of the reference system's fusing nodes.

/// Keeps the newest item of each of two inputs until both exist.
#[derive(Debug)]
pub(super) struct Pair<T> {
    kept: [Option<T>; 2],
    /// Number of items that a newer item of the same input replaced before use.
    pub(super) replaced: u64,
}

impl<T> Default for Pair<T> {
    fn default() -> Self {
        Self { kept: [None, None], replaced: 0 }
    }
}

impl<T> Pair<T> {
    /// Takes an item. Returns both if this completes them, and starts again. Inputs are 0 and 1.
    pub(super) fn offer(&mut self, input: usize, item: T) -> Option<[T; 2]> {
        self.replaced += u64::from(self.kept.get_mut(input)?.replace(item).is_some());
        match std::mem::take(&mut self.kept) {
            [Some(a), Some(b)] => Some([a, b]),
            incomplete => {
                self.kept = incomplete;
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_fires_when_both_are_there_and_uses_nothing_twice() {
        let mut pair = Pair::default();
        assert_eq!(pair.offer(0, 'a'), None);
        assert_eq!(pair.offer(0, 'b'), None);
        assert_eq!(pair.offer(1, 'c'), Some(['b', 'c']));
        // Both items were used, so one new item is not enough.
        assert_eq!(pair.offer(1, 'd'), None);
        assert_eq!(pair.offer(0, 'e'), Some(['e', 'd']));
        assert_eq!(pair.offer(0, 'f'), None);
        assert_eq!(pair.replaced, 1);
        assert_eq!(pair.offer(2, 'g'), None);
    }
}
