// SPDX-License-Identifier: Apache-2.0

use super::*;
use crate::clock::ASK_EVERY;

fn ms(ms: u64) -> MonotonicNs {
    MonotonicNs(ms * 1_000_000)
}

fn host(name: &str, number: u64) -> HostId {
    HostId::new(name, number).unwrap()
}

/// Present hosts, and the time.
struct Time {
    probing: Probing,
    now: MonotonicNs,
}

impl Time {
    fn new(tried: BTreeSet<String>) -> Self {
        Self { probing: Probing::new(tried), now: ms(0) }
    }

    /// Asks hosts that arrived at `since`, for this duration; the hosts in `answer` answer.
    fn passes(
        &mut self,
        there: &[&HostId],
        since: MonotonicNs,
        time: Duration,
        answer: &[&HostId],
    ) {
        let end = self.now + time;
        while self.now < end {
            let (due, next) =
                self.probing.due(there.iter().map(|id| (*id, since, ASK_EVERY)), self.now);
            due.iter().filter(|id| answer.contains(id)).for_each(|id| self.probing.answered(id));
            self.now = next.unwrap().min(end);
        }
    }

    fn silent(&self) -> Option<&HostId> {
        self.probing.silent(self.now)
    }
}

// time: on the clock of `Time`, a number that the tests advance
const SHORT: Duration = Duration::from_millis(19_900);
// time: as above
const LONG: Duration = Duration::from_millis(20_100);

#[test]
fn the_first_requests_are_fast_and_again_after_a_return() {
    let (mut probing, id) = (Probing::default(), host("roof", 1));
    let mut at = Vec::new();
    for now in 0..2_000 {
        let (due, next) = probing.due([(&id, ms(0), ASK_EVERY)].into_iter(), ms(now));
        assert!(next.unwrap() > ms(now));
        at.extend(due.iter().map(|_| now));
    }
    assert_eq!(at, [0, 50, 100, 150, 200, 700, 1_200, 1_700]);
    let reconnect = |probing: &mut Probing, now| {
        probing.due([(&id, ms(1_900), ASK_EVERY)].into_iter(), ms(now)).0.len()
    };
    assert_eq!(
        (
            reconnect(&mut probing, 2_000),
            reconnect(&mut probing, 2_049),
            reconnect(&mut probing, 2_050)
        ),
        (1, 0, 1)
    );
    assert_eq!(probing.due(std::iter::empty(), ms(2_051)), (Vec::new(), None));
}

#[test]
fn a_host_that_starts_to_send_is_asked_at_once() {
    let (mut probing, id) = (Probing::default(), host("roof", 1));
    let mut ask = |now, every| probing.due([(&id, ms(0), every)].into_iter(), ms(now));
    for now in [0, 50, 100, 150] {
        assert_eq!(ask(now, ASK_OTHERS_EVERY).0.len(), 1);
    }
    assert_eq!(ask(200, ASK_OTHERS_EVERY), (vec![id.clone()], Some(ms(2_200))));
    assert_eq!(ask(900, ASK_EVERY), (vec![id.clone()], Some(ms(1_400))));
    assert_eq!(ask(1_400, ASK_OTHERS_EVERY), (vec![id.clone()], Some(ms(3_400))));
}

#[test]
fn the_gateway_restarts_for_a_host_until_that_did_not_help() {
    let (id, other) = (host("roof", 1), host("trunk", 1));
    let mut first = Time::new(BTreeSet::new());
    first.passes(&[&id], ms(0), SHORT, &[]);
    assert_eq!(first.silent(), None);
    first.probing.answered(&other);
    first.probing.answered(&id);
    first.passes(&[&id], ms(0), SHORT, &[]);
    assert_eq!(first.silent(), None);
    first.passes(&[&id], ms(0), LONG - SHORT, &[]);
    assert_eq!(first.silent(), None, "the first unanswered request was sent after the answer");
    first.passes(&[&id], ms(0), Duration::from_millis(500), &[]);
    assert_eq!(first.silent(), Some(&id));

    let mut anew = Time::new(first.probing.tried(first.now));
    // The other host has received no answer either, and has restarted.
    let reconnect = host("roof", 2);
    for id in [&id, &reconnect] {
        anew.passes(&[id], ms(0), 2 * LONG, &[]);
        assert_eq!(anew.silent(), None, "the gateway has restarted for it already");
    }
    anew.passes(&[&reconnect], ms(0), LONG, &[&reconnect]);
    anew.passes(&[&reconnect], ms(0), SHORT, &[]);
    assert_eq!(anew.silent(), None);
    anew.passes(&[&reconnect], ms(0), Duration::from_secs(1), &[]);
    assert_eq!(anew.silent(), Some(&reconnect), "it has answered since");
    let _ = anew.probing.due(std::iter::empty(), anew.now);
    assert_eq!(anew.silent(), None, "it is gone");
    anew.passes(&[&reconnect], ms(1), SHORT, &[]);
    assert_eq!(anew.silent(), None);
    anew.passes(&[&reconnect], ms(1), LONG - SHORT, &[]);
    assert_eq!(anew.silent(), Some(&reconnect), "its answer counts even after it was gone");
    anew.passes(&[&other], ms(1), LONG, &[]);
    assert_eq!(anew.silent(), Some(&other));
    assert_eq!(anew.probing.tried(anew.now), ["trunk".to_owned()].into());
}

#[test]
fn a_gateway_that_was_stopped_itself_blames_no_host() {
    let id = host("roof", 1);
    let mut time = Time::new(BTreeSet::new());
    time.passes(&[&id], ms(0), Duration::from_secs(1), &[&id]);
    time.passes(&[&id], ms(0), Duration::from_secs(1), &[]);
    time.now = time.now + Duration::from_secs(60);
    time.passes(&[&id], ms(0), Duration::from_secs(1), &[]);
    assert_eq!(time.silent(), None);
}

#[test]
fn a_departed_gateway_that_zenoh_still_reports_causes_no_restart() {
    let (before, after) = (host("roof", 1), host("roof", 2));
    let mut time = Time::new(BTreeSet::new());
    time.passes(&[&before, &after], ms(0), 2 * LONG, &[&after]);
    assert_eq!(time.silent(), None);
    time.passes(&[&before, &after], ms(0), LONG + Duration::from_millis(500), &[]);
    assert_eq!(time.silent(), Some(&before), "neither answers");
}

#[test]
fn the_gateway_restarts_once_for_all_silent_hosts() {
    let [roof, trunk, late, fine] = ["roof", "trunk", "late", "fine"].map(|name| host(name, 1));
    let mut time = Time::new(BTreeSet::new());
    time.passes(&[&roof, &trunk, &fine], ms(0), SHORT, &[&fine]);
    time.passes(&[&roof, &trunk, &late, &fine], ms(0), LONG - SHORT, &[&fine]);
    assert!(time.silent().is_some());
    let tried = time.probing.tried(time.now);
    assert_eq!(tried, ["roof", "trunk"].map(String::from).into());
}

#[test]
fn hosts_with_ever_new_names_cause_a_limited_number_of_restarts() {
    let id = host("roof", 1);
    for (tried, silent) in [(MAX_HOSTS - 1, Some(&id)), (MAX_HOSTS, None)] {
        let mut time = Time::new((0..tried).map(|n| n.to_string()).collect());
        time.passes(&[&id], ms(0), LONG, &[]);
        assert_eq!(time.silent(), silent);
    }
}
