// SPDX-License-Identifier: Apache-2.0
//! Limits on the publishers that one subscription dials and matches. Publishers of another user,
//! silent or not, must not use up the share of other users.

use crate::limits::{
    MAX_ASKED, MAX_ASKED_PER_USER, MAX_FOREIGN_ASKED, MAX_FOREIGN_MATCHES, MAX_MATCHES,
    MAX_MATCHES_PER_USER,
};
use crate::sys::peer::User;

/// A publisher that a subscription has dialled.
#[derive(Clone, Copy)]
pub(super) struct Dialled {
    /// Key of the connection. Keys increase: the smallest is the oldest.
    pub(super) key: u64,
    pub(super) user: User,
    pub(super) matched: bool,
    /// The publisher has not answered for so long that this was reported.
    pub(super) silent: bool,
}

/// Decision on one more publisher.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admission {
    Free,
    /// Dial it in place of this publisher, which has been silent and is disconnected for a while.
    InsteadOf(u64),
    /// Not now: all dialled publishers may still answer.
    Later,
    /// Too many are matched.
    None,
}

/// Decides on one more publisher of `user`, given the dialled ones of the same subscription.
pub(super) fn admit(dials: &[Dialled], user: User) -> Admission {
    type Concerned<'a> = &'a dyn Fn(&&Dialled) -> bool;
    let bounds: [(Concerned<'_>, usize, usize); 3] = [
        (&|_| true, MAX_MATCHES, MAX_ASKED),
        (&|d| !d.user.is_trusted(), MAX_FOREIGN_MATCHES, MAX_FOREIGN_ASKED),
        (&|d| d.user == user, MAX_MATCHES_PER_USER, MAX_ASKED_PER_USER),
    ];
    let mut admission = Admission::Free;
    for (concerned, most_matched, most_asked) in
        bounds.into_iter().take(if user.is_trusted() { 1 } else { 3 })
    {
        let concerned = || dials.iter().filter(concerned);
        let matched = concerned().filter(|d| d.matched).count();
        if matched >= most_matched {
            return Admission::None;
        }
        // Each dialled publisher may still accept, and would then count as matched.
        if concerned().count() - matched >= most_asked.min(most_matched - matched) {
            admission = concerned()
                .filter(|d| d.silent)
                .map(|d| d.key)
                .min()
                .map_or(Admission::Later, Admission::InsteadOf);
        }
    }
    admission
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: User = User::Known(70_001);
    const OTHER: User = User::Known(70_002);

    fn dials(count: usize, user: User, matched: bool, silent: bool) -> Vec<Dialled> {
        (0..count as u64).map(|key| Dialled { key: key + 7, user, matched, silent }).collect()
    }

    #[test]
    fn one_user_leaves_room_for_others() {
        for (matched, most) in [(true, MAX_MATCHES_PER_USER), (false, MAX_ASKED_PER_USER)] {
            assert_eq!(admit(&dials(most - 1, EVIL, matched, false), EVIL), Admission::Free);
            let full = dials(most, EVIL, matched, false);
            assert_eq!(
                admit(&full, EVIL),
                if matched { Admission::None } else { Admission::Later }
            );
            assert_eq!(
                (admit(&full, OTHER), admit(&full, User::own())),
                (Admission::Free, Admission::Free)
            );
        }
    }

    #[test]
    fn those_that_are_asked_and_may_agree_count_as_matched() {
        let own = User::own();
        let all = |matched: usize, silent| {
            [dials(matched, own, true, false), dials(MAX_MATCHES - matched, own, false, silent)]
                .concat()
        };
        for matched in [0, 1, 200, MAX_MATCHES - 1] {
            assert_eq!(admit(&all(matched, false), own), Admission::Later);
            assert!(matches!(admit(&all(matched, true), own), Admission::InsteadOf(_)));
            assert_eq!(admit(&all(matched, false)[1..], own), Admission::Free);
        }
        let of_evil =
            [dials(MAX_MATCHES_PER_USER - 3, EVIL, true, false), dials(3, EVIL, false, false)]
                .concat();
        assert_eq!(
            (admit(&of_evil, EVIL), admit(&of_evil, OTHER)),
            (Admission::Later, Admission::Free)
        );
    }

    #[test]
    fn all_other_users_leave_room_for_ones_own() {
        for (matched, most) in [(true, MAX_FOREIGN_MATCHES), (false, MAX_FOREIGN_ASKED)] {
            let many = |n: usize| {
                (0..n).map(|n| Dialled {
                    user: User::Known(80_000 + n as u32),
                    ..dials(1, EVIL, matched, false)[0]
                })
            };
            let full: Vec<_> = many(most).collect();
            assert_ne!(admit(&full, EVIL), Admission::Free);
            assert_eq!(admit(&full, User::own()), Admission::Free);
        }
        assert_eq!(
            admit(&dials(MAX_MATCHES, User::own(), true, false), User::own()),
            Admission::None
        );
    }

    #[test]
    fn the_longest_silent_gives_way_first_of_its_own_user() {
        let mut all = dials(MAX_ASKED_PER_USER, EVIL, false, true);
        all.push(Dialled { key: 1, user: OTHER, matched: false, silent: true });
        assert_eq!(admit(&all, EVIL), Admission::InsteadOf(7));
        let own = dials(MAX_ASKED, User::own(), false, true);
        assert_eq!(admit(&own, User::own()), Admission::InsteadOf(7));
    }
}
