// SPDX-License-Identifier: Apache-2.0
//! Distributes a publisher's pins among users. All other users together get at most half of the
//! pins, rounded up; the rest stays for the publisher's own user and root. On a topic open to
//! anyone, one other user gets at most a quarter, rounded up. Of the two pins for tools, all other
//! users together get at most one.

use crate::config::Access;
use crate::limits::OBSERVER_PINS;
use crate::sys::peer::User;

/// Pins that a match has or wants.
#[derive(Clone, Copy)]
pub(super) struct Claim {
    pub(super) user: User,
    pub(super) pins: u32,
    pub(super) observer: bool,
}

/// Grants `claim` in addition to the granted claims, or returns the reason and the remedy.
pub(super) fn grant(
    granted: &[Claim],
    claim: Claim,
    pins: u32,
    access: &Access,
) -> Result<(), String> {
    let capacity = if claim.observer { OBSERVER_PINS } else { pins };
    let others = capacity.div_ceil(2);
    let each = if *access == Access::Anyone && !claim.observer { pins.div_ceil(4) } else { others };
    let foreign = !claim.user.is_trusted();
    let taken = |of: &dyn Fn(User) -> bool| -> u32 {
        let same = granted.iter().filter(|c| c.observer == claim.observer && of(c.user));
        same.fold(0, |sum, c| sum.saturating_add(c.pins))
    };
    let (by_all, by_others, by_user) =
        (taken(&|_| true), taken(&|u| !u.is_trusted()), taken(&|u| u == claim.user));
    let needed = claim.pins;
    let left = capacity.saturating_sub(by_all);
    if foreign
        && !claim.observer
        && (needed > others.saturating_sub(by_others) || needed > each.saturating_sub(by_user))
    {
        let least = (by_all + needed).max((by_others + needed) * 2).max(if each < others {
            (by_user + needed) * 4
        } else {
            0
        });
        return Err(format!(
            "{} needs {needed} pins and has {by_user}; of {capacity}, all users but the \
             publisher's own may have {others} (and have {by_others}), each {each}: raise the \
             topic's pins to {least}, or lower max_held of its subscriptions",
            claim.user
        ));
    }
    if claim.observer && (needed > left || foreign && needed > others.saturating_sub(by_others)) {
        return Err(format!(
            "a publisher keeps {capacity} pins for tools such as `driveline topic echo`, {others} \
             of them for tools of other users; {by_all} are taken, {by_others} of them by other \
             users, and {needed} more would be needed: end one of the others (`driveline topic \
             info` lists them)"
        ));
    }
    if needed > left {
        return Err(format!(
            "it needs {needed} pins and {left} of {capacity} are left: raise the topic's pins to \
             at least {}, or lower max_held of its subscriptions",
            by_all + needed
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVIL: User = User::Known(70_001);
    const OTHER: User = User::Known(70_002);

    /// Claims single pins for a user until a claim is refused. Returns the number of granted pins.
    fn takes(
        granted: &mut Vec<Claim>,
        user: User,
        observer: bool,
        pins: u32,
        access: &Access,
    ) -> u32 {
        let claim = Claim { user, pins: 1, observer };
        (0..)
            .take_while(|_| {
                grant(granted, claim, pins, access).map(|()| granted.push(claim)).is_ok()
            })
            .count() as u32
    }

    #[test]
    fn no_other_user_gets_all_and_own_users_get_the_rest() {
        let own = User::own();
        for (access, each, total) in
            [(Access::Anyone, 2, 4), (Access::Users(vec![70_001, 70_002]), 4, 4)]
        {
            let mut granted = Vec::new();
            assert_eq!(takes(&mut granted, EVIL, false, 8, &access), each);
            assert_eq!(takes(&mut granted, OTHER, false, 8, &access), total - each);
            assert_eq!(takes(&mut granted, User::Known(70_003), false, 8, &access), 0);
            assert_eq!(takes(&mut granted, own, false, 8, &access), 8 - total);
            assert_eq!(takes(&mut granted, EVIL, true, 8, &access), 1);
            assert_eq!(takes(&mut granted, own, true, 8, &access), 1);
        }
        assert_eq!(takes(&mut Vec::new(), own, false, 8, &Access::Anyone), 8);
        assert_eq!(takes(&mut Vec::new(), EVIL, false, 1, &Access::Anyone), 1);
    }

    #[test]
    fn what_is_advised_suffices() {
        for access in [Access::Anyone, Access::Users(vec![70_001])] {
            let granted = [
                Claim { user: EVIL, pins: 2, observer: false },
                Claim { user: OTHER, pins: 1, observer: false },
            ];
            let claim = Claim { user: EVIL, pins: 5, observer: false };
            let text = grant(&granted, claim, 8, &access).unwrap_err();
            let (_, rest) = text.split_once("pins to ").unwrap();
            let advised: u32 = rest.split(',').next().unwrap().parse().unwrap();
            assert_eq!(grant(&granted, claim, advised, &access), Ok(()), "{text}");
        }
    }
}
