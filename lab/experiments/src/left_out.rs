// SPDX-License-Identifier: Apache-2.0
//! Lines of the terminal about parts that are not measured: for each experiment its own lines, and
//! common lines for parts missing in several.

use driveline_bench::LeftOut;
use driveline_bench::peers::{NOT_INSTALLED, PLACE};

/// Maximum number of missing peers that each get a line. If more are missing, they share one line.
const MOST_PEERS: usize = 2;

/// Lines for all experiments together.
pub(crate) struct LeftOutLines {
    shared: Vec<LeftOut>,
    /// Missing peers that share one line; true if `make peers` builds the peer. Empty if each
    /// missing peer has its own line.
    peers: Vec<(String, bool)>,
}

fn is_not_installed(left: &LeftOut) -> bool {
    left.reason.starts_with(NOT_INSTALLED)
}

impl LeftOutLines {
    /// Collects the parts left out, by experiment.
    pub(crate) fn of<'a>(lists: impl Iterator<Item = (&'a str, &'a [LeftOut])> + Clone) -> Self {
        let mut peers: Vec<(String, bool)> = Vec::new();
        for left in lists.clone().flat_map(|(_, list)| list).filter(|l| is_not_installed(l)) {
            if peers.iter().all(|(what, _)| *what != left.what) {
                peers.push((left.what.clone(), left.reason.contains("make peers")));
            }
        }
        if peers.len() <= MOST_PEERS {
            peers.clear();
        }
        Self { shared: LeftOut::shared(lists), peers }
    }

    fn is_counted(&self, left: &LeftOut) -> bool {
        is_not_installed(left) && self.peers.iter().any(|(what, _)| *what == left.what)
    }

    /// Returns the lines of one experiment.
    pub(crate) fn own(&self, list: &[LeftOut]) -> Vec<String> {
        lines(list.iter().filter(|l| !l.is_among(&self.shared) && !self.is_counted(l)))
    }

    /// Returns the lines for all experiments.
    pub(crate) fn together(&self) -> Vec<String> {
        let mut lines = lines(self.shared.iter().filter(|l| !self.is_counted(l)));
        if !self.peers.is_empty() {
            let names: Vec<&str> = self.peers.iter().map(|(what, _)| what.as_str()).collect();
            let built = match self.peers.iter().filter(|(_, built)| *built).count() {
                0 => String::new(),
                n if n == names.len() => "`make peers` builds them; ".to_owned(),
                n => format!("`make peers` builds {n} of them; "),
            };
            lines.push(format!(
                "{} peers that are not installed: {}. {built}`driveline bench peers NAME` says how \
                 to add one",
                names.len(),
                names.join(", ")
            ));
        }
        lines
    }

    /// Returns the text about the places of peers, if a missing peer has its own line.
    pub(crate) fn place<'a>(
        &self,
        lists: impl Iterator<Item = (&'a str, &'a [LeftOut])>,
    ) -> Option<&'static str> {
        let any =
            lists.flat_map(|(_, list)| list).any(|l| is_not_installed(l) && !self.is_counted(l));
        any.then_some(PLACE)
    }
}

/// Returns a line for each reason, with the names of all parts that are left out for this reason.
fn lines<'a>(all: impl Iterator<Item = &'a LeftOut>) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for left in all {
        let reason = left.rendered();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) => names.push(&left.what),
            None => reasons.push((reason, vec![&left.what])),
        }
    }
    reasons.iter().map(|(reason, names)| format!("{}: {reason}", names.join(", "))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_for_the_same_reason_shares_a_line() {
        let pod = |name| LeftOut::new(name, "needs a pod");
        let list = [pod("a"), LeftOut::new("b", "too slow"), pod("c")];
        let lines = LeftOutLines::of([("B1C", list.as_slice())].into_iter());
        assert_eq!(lines.own(&list), ["a, c: needs a pod", "b: too slow"]);
    }

    #[test]
    fn many_peers_that_are_missing_are_one_line_and_what_else_is_missing_has_its_own() {
        let missing = |n: usize| {
            let how =
                |i| if i == 3 { "not installed: buy it" } else { "not installed: make peers" };
            (0..n).map(move |i| LeftOut::new(format!("p{i}"), how(i)))
        };
        let other = LeftOut::new("floor", "there is none");
        let lists = |n: usize| {
            [
                ("W1", missing(n).chain([other.clone()]).collect::<Vec<_>>()),
                ("W2", missing(n).collect()),
            ]
        };
        for (n, own, together) in [
            (
                2,
                vec!["floor: there is none"],
                vec!["p0, p1: not installed: make peers (in W1; W2)"],
            ),
            (
                3,
                vec!["floor: there is none"],
                vec![
                    "3 peers that are not installed: p0, p1, p2. `make peers` builds them; \
                     `driveline bench peers NAME` says how to add one",
                ],
            ),
            (
                4,
                vec!["floor: there is none"],
                vec![
                    "4 peers that are not installed: p0, p1, p2, p3. `make peers` builds 3 of \
                     them; `driveline bench peers NAME` says how to add one",
                ],
            ),
        ] {
            let lists = lists(n);
            let all = || lists.iter().map(|(id, list)| (*id, list.as_slice()));
            let rendered = LeftOutLines::of(all());
            assert_eq!(
                (rendered.own(&lists[0].1), rendered.own(&lists[1].1)),
                (own.into_iter().map(str::to_owned).collect(), Vec::new())
            );
            assert_eq!(rendered.together(), together);
            assert_eq!(rendered.place(all()).is_some(), n == 2);
        }
    }
}
