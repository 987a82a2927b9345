// SPDX-License-Identifier: Apache-2.0
//! When inlets of writers that have gone end.

use super::endpoint::Handle;
use super::feed::MOST_KEPT;
use std::collections::HashSet;

/// Whose inlets may be let go of, of writers that have gone: those of whom nothing waits any more.
#[derive(Default)]
pub(super) struct Leaving {
    /// Rounds of the feed, each of which took something, since it was looked.
    rounds: u64,
    /// Who had gone then.
    before: HashSet<Handle>,
}

impl Leaving {
    /// Something was taken: whether so much was that whatever waited before is through.
    pub(super) fn took(&mut self) -> bool {
        self.rounds += 1;
        self.rounds >= MOST_KEPT
    }

    /// Of those that have gone, who may be let go of. `is_empty`: nothing waits.
    pub(super) fn part(&mut self, gone: HashSet<Handle>, is_empty: bool) -> HashSet<Handle> {
        self.rounds = 0;
        let before = std::mem::take(&mut self.before);
        if is_empty {
            return gone;
        }
        let (now, later) = gone.into_iter().partition(|handle| before.contains(handle));
        self.before = later;
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inlets_of_writers_that_have_gone_end_also_while_others_never_stop() {
        let (gone, mut leaving) = (HashSet::from([1, 2]), Leaving::default());
        let looks = |leaving: &mut Leaving| (1..=MOST_KEPT).map(|_| leaving.took()).filter(|looks| *looks).count();
        assert_eq!(looks(&mut leaving), 1);
        assert!(leaving.part(HashSet::from([1]), false).is_empty(), "samples of it may wait behind those of others");
        assert_eq!(looks(&mut leaving), 1);
        assert_eq!(leaving.part(gone.clone(), false), HashSet::from([1]));
        assert_eq!(leaving.part(gone.clone(), true), gone, "nothing waits");
        assert!(leaving.part(gone, false).is_empty(), "who comes and goes again is not mistaken for who was there before");
    }
}
