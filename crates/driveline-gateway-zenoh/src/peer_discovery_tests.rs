// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

fn host(n: u64) -> HostId {
    HostId::new("car", n).unwrap()
}

fn at(s: u64) -> MonotonicNs {
    MonotonicNs(s * 1_000_000_000)
}

fn place_of(n: u64) -> Vec<String> {
    vec![format!("tcp/10.0.0.{n}:7450")]
}

fn new(n: u64) -> PeerDiscovery {
    PeerDiscovery::new(host(n), &place_of(n), &[])
}

/// `to` asks `by` for its present hosts, and makes the possible attempts. Returns the tried hosts.
fn asks(to: &mut PeerDiscovery, by: &PeerDiscovery, s: u64) -> Vec<u64> {
    to.answered(&by.me.clone(), by.answer(), at(s));
    tries(to, s).into_iter().map(|a| a.host.incarnation()).collect()
}

/// Returns all further attempts, at the highest rate, until no address remains.
fn tries(of: &mut PeerDiscovery, s: u64) -> Vec<Attempt> {
    let mut now = at(s);
    let mut all = Vec::new();
    loop {
        let (attempt, next) = of.attempt(now, |_| true);
        all.extend(attempt);
        let Some(next) = next else { return all };
        assert!(next > now && next <= now + ATTEMPT_EVERY);
        now = next;
    }
}

fn hears(hosts: impl IntoIterator<Item = (u64, Vec<String>)>) -> KnownHosts {
    KnownHosts {
        listens: vec![],
        hears: hosts.into_iter().map(|(n, listens)| (host(n), listens)).collect(),
    }
}

#[test]
fn each_host_that_is_here_is_asked_at_once_and_then_again_and_again() {
    let mut me = new(1_000);
    let (two, three) = (host(2), host(3));
    assert_eq!(me.due([].iter(), at(0)), (vec![], None));
    assert_eq!(me.due([&two].into_iter(), at(0)), (vec![two.clone()], Some(at(5))));
    assert_eq!(me.due([&two, &three].into_iter(), at(3)), (vec![three.clone()], Some(at(5))));
    assert_eq!(me.due([&two, &three].into_iter(), at(5)), (vec![two.clone()], Some(at(8))));
    assert_eq!(me.due([&three].into_iter(), at(6)), (vec![], Some(at(8))));
    assert_eq!(
        me.due([&two, &three].into_iter(), at(7)),
        (vec![two], Some(at(8))),
        "it has arrived again"
    );
    let (_, next) = new(999).due([&three].into_iter(), at(0));
    assert_eq!(next, Some(at(5) + Duration::from_millis(999)), "each has its own pause");
}

#[test]
fn two_hosts_that_a_third_hears_are_reported_until_they_are_present() {
    let (mut a, mut b, c) = (new(1), new(2), new(3));
    a.due([&host(2), &host(3)].into_iter(), at(0));
    assert_eq!(asks(&mut a, &b, 0), [0; 0]);
    b.due([&host(1)].into_iter(), at(0));
    assert_eq!(
        a.answer().hears,
        [(host(2), place_of(2))],
        "host 2 has been asked, so its addresses are known"
    );
    assert_eq!(
        asks(&mut b, &a, 0),
        [0; 0],
        "host 3 has not been asked, so its addresses are not known"
    );
    asks(&mut a, &c, 0);
    for (s, is_news) in [(1, false), (6, false), (11, true), (16, false)] {
        b.answered(&host(1), a.answer(), at(s));
        let events = is_news.then(|| (host(1), place_of(3)));
        assert_eq!(
            tries(&mut b, s),
            [Attempt { host: host(3), at: place_of(3)[0].clone(), events }],
            "after {s} s"
        );
    }
    b.due([&host(1), &host(3)].into_iter(), at(17));
    assert_eq!(asks(&mut b, &a, 17), [0; 0]);
    // Host 3 has departed for `b`, but not for `a`, which still reports it.
    b.due([&host(1)].into_iter(), at(18));
    for (s, is_news) in [(18, false), (23, false), (28, true)] {
        b.answered(&host(1), a.answer(), at(s));
        assert_eq!(tries(&mut b, s)[0].events.is_some(), is_news, "it is logged again, later");
    }
    b.due([&host(1)].into_iter(), at(60));
    b.answered(&host(1), a.answer(), at(60));
    assert_eq!(tries(&mut b, 60)[0].events, None, "it was reported last a long time ago");
    a.due([&host(2)].into_iter(), at(61));
    assert_eq!(asks(&mut b, &a, 61), [0; 0]);
}

#[test]
fn a_report_changes_no_protocol_and_names_no_own_address() {
    let mut over_tls = PeerDiscovery::new(host(1), &["tls/10.0.0.1:7450".into()], &[]);
    over_tls.due([&host(2)].into_iter(), at(0));
    let reported = hears([
        (3, place_of(3)),
        (1, place_of(1)),
        (4, vec!["tcp/10.0.0.4:7450".into(), "tls/10.0.0.4:7450".into()]),
    ]);
    over_tls.answered(&host(9), reported.clone(), at(0));
    assert_eq!(tries(&mut over_tls, 0), [], "no host was asked");
    over_tls.answered(&host(2), reported, at(0));
    assert_eq!(
        tries(&mut over_tls, 0),
        [Attempt { host: host(4), at: "tls/10.0.0.4:7450".into(), events: None }]
    );
    let listens = |at: &str| PeerDiscovery::new(host(1), &[at.into()], &[]).answer().listens;
    assert_eq!(listens("tcp/127.0.0.1:7450"), [""; 0]);
    assert_eq!(listens("tls/10.0.0.1:7450?rel=1#so_sndbuf=9"), ["tls/10.0.0.1:7450"]);
}

#[test]
fn a_host_that_reports_many_leaves_other_reports_their_turn() {
    let mut me = new(1);
    // Only the last of the reporting hosts is honest.
    let reporters: Vec<HostId> = (2..=64).map(host).collect();
    me.due(reporters.iter(), at(0));
    for (n, reporter) in reporters.iter().enumerate() {
        let lies = (0..100).map(|m| (1_000 + 100 * n as u64 + m, place_of(m)));
        me.answered(
            reporter,
            if n + 1 == reporters.len() { hears([(70, place_of(70))]) } else { hears(lies) },
            at(0),
        );
    }
    let (mut now, mut count) = (at(0), 0);
    loop {
        let (attempt, next) = me.attempt(now, |_| true);
        count += u64::from(attempt.is_some());
        if attempt.is_some_and(|a| a.host == host(70)) {
            break;
        }
        now = next.unwrap();
    }
    assert_eq!(
        (count, now),
        (63, at(0) + ATTEMPT_EVERY * 62),
        "each has one turn before any has two"
    );
}

#[test]
fn delayed_attempts_are_made_later_and_answers_continue_where_the_last_ended() {
    let mut me = new(1);
    me.due([host(2)].iter(), at(0));
    let reported = || hears([(3, place_of(3)), (4, place_of(4)), (5, place_of(5))]);
    me.answered(&host(2), reported(), at(0));
    let tried = |me: &mut PeerDiscovery, ms: u64, busy: Option<u64>| {
        let now = MonotonicNs(ms * 1_000_000);
        let (attempt, next) = me.attempt(now, |host| Some(host.incarnation()) != busy);
        (attempt.map(|a| a.host.incarnation()), next.map(|next| next.since(now).as_millis()))
    };
    assert_eq!(tried(&mut me, 0, Some(3)), (Some(4), Some(125)));
    assert_eq!(tried(&mut me, 100, None), (None, Some(25)));
    assert_eq!(tried(&mut me, 125, None), (Some(3), Some(125)));
    // The last of them has had no turn when it is reported again.
    me.answered(&host(2), reported(), at(1));
    for (ms, whom, next) in [(1_000, 4, Some(125)), (1_125, 5, Some(125)), (1_250, 3, None)] {
        assert_eq!(tried(&mut me, ms, None), (Some(whom), next));
    }
    assert_eq!(tried(&mut me, 2_000, None), (None, None));
}

#[test]
fn one_of_two_hosts_reported_to_each_other_tries_and_the_other_sometimes() {
    let tries_at = |me: &mut PeerDiscovery, of: u64| {
        me.due([host(1)].iter(), at(0));
        let mut tried = Vec::new();
        for s in (0..70).step_by(5) {
            me.answered(&host(1), hears([(of, place_of(of))]), at(s));
            tried.extend(tries(me, s).iter().map(|_| s));
        }
        tried
    };
    assert_eq!(tries_at(&mut new(5), 6), (0..70).step_by(5).collect::<Vec<_>>());
    assert_eq!(tries_at(&mut new(6), 5), [20, 25, 40, 45, 60, 65]);
    let nobody_reaches_me = &mut PeerDiscovery::new(host(6), &[], &place_of(1));
    assert_eq!(tries_at(nobody_reaches_me, 5), (0..70).step_by(5).collect::<Vec<_>>());
}

#[test]
fn few_hosts_are_logged_at_a_time_and_the_rest_later() {
    let mut me = new(1);
    me.due([host(2)].iter(), at(0));
    let mut reported = |s: u64| {
        me.answered(&host(2), hears((10..40).map(|n| (n, place_of(n)))), at(s));
        tries(&mut me, s).iter().filter(|a| a.events.is_some()).count()
    };
    assert_eq!([0, 5, 10, 15].map(&mut reported), [0, 0, MAX_LOGGED, 0]);
    assert_eq!([300, 600, 615, 620, 1_230].map(reported), [0, 0, MAX_LOGGED, 0, MAX_LOGGED]);
}

proptest! {
    #[test]
    fn memory_is_bounded_whatever_is_reported(
        reported in prop::collection::vec((0..4_u64, 0..2_000_u64), 0..3_000),
    ) {
        let mut me = PeerDiscovery::new(host(5_000), &[], &place_of(1));
        let here: Vec<HostId> = (0..4).map(host).collect();
        me.due(here.iter(), at(0));
        for (by, of) in reported {
            me.answered(&host(by), hears([(of, place_of(of % 250))]), at(0));
        }
        prop_assert!(me.unreached.len() <= MAX_UNREACHED && me.known.len() == 4);
        prop_assert!(me.unreached.keys().all(|id| !here.contains(id)));
        prop_assert!(me.known.values().all(|known| known.untried.len() <= 1));
    }
}
