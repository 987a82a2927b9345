// SPDX-License-Identifier: Apache-2.0
use super::*;
use driveline_types::{Durability, Qos, Reliability, Schema};

#[path = "directory_fates.rs"]
mod fates;
#[path = "directory_world.rs"]
mod world;

const MS: u64 = 1_000_000;

fn at(ms: u64) -> MonotonicNs {
    MonotonicNs(1_000_000 * MS + ms * MS)
}

fn host(name: &str, start: u64) -> HostId {
    HostId::new(name, start).unwrap()
}

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

fn offer(qos: Qos) -> Offer {
    Offer {
        node: "n".parse().unwrap(),
        schema: Arc::new(Schema::bytes("b", "raw", "")),
        qos,
        max_payload: 8,
    }
}

fn list(name: &str, change: u64, publishers: &[u128]) -> List {
    let publishers = publishers.iter().map(|id| (EndpointId(*id), offer(Qos::default()))).collect();
    List { topic: topic(name), change, publishers, ended: Vec::new() }
}

/// Open remote publishers, with their owners.
#[derive(Default)]
struct Open {
    remote_publishers: BTreeMap<EndpointId, HostId>,
    /// True if no remote publisher can be opened.
    full: bool,
    logged: Vec<String>,
    /// Reported state of each remote publisher, closed ones included.
    fates: BTreeMap<EndpointId, Fate>,
    busy: bool,
}

impl RemotePublishers for Open {
    type RemotePublisher = (EndpointId, TopicName);

    fn open(
        &mut self,
        from: &HostId,
        _: &Arc<Mutex<ClockEstimate>>,
        id: EndpointId,
        topic: &TopicName,
        _: &Offer,
    ) -> Result<Self::RemotePublisher, String> {
        if self.full {
            return Err("no memory".into());
        }
        assert!(
            self.remote_publishers.insert(id, from.clone()).is_none(),
            "{id} has a remote publisher already"
        );
        Ok((id, topic.clone()))
    }

    fn goes_on(
        &mut self,
        (id, _): &Self::RemotePublisher,
        from: &HostId,
        _: &Arc<Mutex<ClockEstimate>>,
    ) {
        let before = self.remote_publishers.insert(*id, from.clone());
        assert!(
            before.is_some_and(|b| b.name() == from.name() && b != *from),
            "{id} continues at another host"
        );
    }

    fn fate(&mut self, (id, _): &Self::RemotePublisher, fate: Fate) -> bool {
        assert!(self.remote_publishers.contains_key(id), "{id} has no remote publisher");
        self.fates.insert(*id, fate);
        !self.busy
    }

    fn close(&mut self, id: EndpointId, _: Self::RemotePublisher) {
        assert!(self.remote_publishers.remove(&id).is_some(), "{id} has no remote publisher");
    }

    fn log(&mut self, line: String) {
        self.logged.push(line);
    }
}

/// A receiving gateway.
struct Side {
    directory: Directory<(EndpointId, TopicName)>,
    open: Open,
}

impl Side {
    fn new() -> Self {
        Self {
            directory: Directory::new([topic("t"), topic("u")], host("me", 1)),
            open: Open::default(),
        }
    }

    /// Returns a side on which these hosts have arrived with their topics, and were asked for the
    /// time.
    fn with(hosts: &[&HostId]) -> Self {
        let mut side = Self::new();
        hosts.iter().for_each(|h| side.comes(h, at(0)));
        side
    }

    fn comes(&mut self, host: &HostId, now: MonotonicNs) {
        self.directory.host_is(host, true, now).unwrap();
        for name in ["t", "u"] {
            self.directory.topic_is(host, &topic(name), true, now).unwrap();
        }
        self.directory.counted(host, 0, now, now);
    }

    fn goes(&mut self, host: &HostId, now: MonotonicNs) {
        self.directory.host_is(host, false, now).unwrap();
    }

    /// Returns the request for topic `t` that is due now.
    fn asks(&mut self, now: MonotonicNs) -> Option<Question> {
        self.directory.questions(now).0.into_iter().find(|q| q.topic == topic("t"))
    }

    fn answers(&mut self, question: &Question, list: &List, now: MonotonicNs) {
        self.directory.listed(question, list, now, &mut self.open);
    }

    /// Requests the list from the host, and handles this answer.
    #[track_caller]
    fn lists(&mut self, host: &HostId, list: &List, now: MonotonicNs) {
        let asked = self.directory.questions(now).0;
        let question =
            asked.iter().find(|q| q.host == *host && q.topic == list.topic).expect("a question");
        self.answers(question, list, now);
    }

    fn forgets(&mut self, now: MonotonicNs) {
        self.directory.forget(now, &mut self.open);
    }

    fn remote_publishers(&self) -> Vec<u128> {
        self.open.remote_publishers.keys().map(|id| id.0).collect()
    }

    fn there(&self) -> Vec<u128> {
        self.directory
            .publishers()
            .iter()
            .filter(|(_, p)| p.is_there())
            .map(|(id, _)| id.0)
            .collect()
    }

    fn reasons(&self) -> Vec<String> {
        self.directory
            .not_received()
            .into_iter()
            .filter(|n| *n.topic == topic("t"))
            .map(|n| n.reason)
            .collect()
    }
}

#[test]
fn how_often_and_how_long_a_host_was_gone_is_known() {
    let (mut side, a) = (Side::new(), host("a", 1));
    for (alive, ms, outages, outage_ms) in [
        (true, 50, 0, 0),
        (false, 100, 0, 0),
        (true, 350, 1, 250),
        (true, 360, 1, 250),
        (false, 400, 1, 250),
        (true, 1000, 2, 850),
    ] {
        side.directory.host_is(&a, alive, at(ms)).unwrap();
        let known = &side.directory.hosts()[&a];
        assert_eq!(
            (known.outages, known.outage),
            (outages, Duration::from_millis(outage_ms)),
            "at {ms} ms"
        );
    }
}

#[test]
fn a_host_is_gone_since_it_last_answered() {
    let (mut side, a) = (Side::new(), host("a", 1));
    let gone = |side: &Side| {
        (side.directory.hosts()[&a].since(), side.directory.hosts()[&a].outage.as_millis())
    };
    side.directory.host_is(&a, true, at(0)).unwrap();
    for (asked, answered) in [(500, 501), (1_500, 1_502), (1_000, 1_503)] {
        side.directory.counted(&a, 0, at(asked), at(answered));
    }
    assert_eq!(gone(&side), (at(0), 0), "it is present since its arrival");
    // The lease has ended.
    side.goes(&a, at(3_600));
    side.directory.counted(&a, 0, at(2_000), at(3_700));
    assert_eq!(gone(&side), (at(1_500), 0));
    side.directory.host_is(&a, true, at(7_500)).unwrap();
    assert_eq!(gone(&side), (at(7_500), 6_000));
    // The host departs again before it was asked. An answer from before the outage does not count,
    // even if it arrives only now.
    side.directory.counted(&a, 0, at(3_500), at(7_501));
    side.goes(&a, at(7_600));
    side.directory.host_is(&a, true, at(7_700)).unwrap();
    assert_eq!(gone(&side), (at(7_700), 6_100));
    // This process was stopped for 11 s, and receives both reports at once.
    side.directory.counted(&a, 0, at(9_000), at(9_001));
    side.goes(&a, at(20_000));
    side.directory.host_is(&a, true, at(20_000)).unwrap();
    assert_eq!(gone(&side), (at(20_000), 17_100));
}

#[test]
fn a_host_is_asked_for_its_lists_after_its_answer_to_a_time_request() {
    let a = host("a", 1);
    let mut side = Side::new();
    side.directory.host_is(&a, true, at(0)).unwrap();
    side.directory.topic_is(&a, &topic("t"), true, at(0)).unwrap();
    side.directory.topic_is(&a, &topic("elsewhere"), true, at(0)).unwrap();
    assert_eq!(
        side.directory.questions(at(0)),
        (Vec::new(), None),
        "a change before the first known change number would be missed"
    );
    side.directory.counted(&a, 3, at(1), at(1));
    let (questions, next) = side.directory.questions(at(1));
    assert_eq!((questions.len(), next), (1, Some(at(501))));
    assert!(side.reasons()[0].contains("has not answered"), "{:?}", side.reasons());
    side.answers(&questions[0], &list("t", 3, &[7]), at(2));
    assert_eq!(
        (side.remote_publishers(), side.directory.questions(at(60_000))),
        (vec![7], (Vec::new(), None))
    );
    assert!(side.reasons().is_empty());
}

#[test]
fn a_question_without_an_answer_is_repeated_less_and_less_often() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    let (mut now, mut pauses) = (at(0), Vec::new());
    for _ in 0..10 {
        assert!(side.asks(now).is_some());
        let next = side.directory.questions(now).1.unwrap();
        pauses.push(next.since(now).as_millis());
        now = next;
    }
    assert_eq!(pauses, [500, 1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000, 60000]);
    // An announced change does not cause requests all the time.
    side.asks(now);
    side.directory.changed(&a, &topic("t"), 1, now);
    assert_eq!(side.asks(now), None);
    assert!(side.asks(now + UNANSWERED).is_some());
}

#[test]
fn an_announced_change_and_the_changes_missed_before_it_are_requested() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    let both = |side: &mut Side, now| side.directory.questions(now).0;
    for q in both(&mut side, at(0)) {
        let empty = List { topic: q.topic.clone(), ..list("t", 0, &[]) };
        side.answers(&q, &empty, at(0));
    }
    side.directory.changed(&a, &topic("t"), 1, at(100));
    let asked = both(&mut side, at(100));
    assert_eq!(asked.len(), 1, "only what has changed");
    // The list changes again while the answer is in flight.
    side.directory.changed(&a, &topic("t"), 2, at(101));
    side.answers(&asked[0], &list("t", 1, &[7]), at(102));
    assert_eq!(side.remote_publishers(), [7]);
    let request = side.asks(at(130)).expect("the second change");
    side.answers(&request, &list("t", 2, &[7, 8]), at(131));
    // An overtaken answer is ignored.
    side.answers(&asked[0], &list("t", 1, &[7]), at(132));
    assert_eq!((side.there(), side.asks(at(10_000))), (vec![7, 8], None));
    // Change 3 was missed, so its topic is unknown.
    side.directory.changed(&a, &topic("elsewhere"), 4, at(10_000));
    let asked = both(&mut side, at(10_000));
    assert_eq!(asked.len(), 2);
    for q in asked {
        let same = List {
            topic: q.topic.clone(),
            publishers: if q.topic == topic("t") {
                list("t", 2, &[7, 8]).publishers
            } else {
                Vec::new()
            },
            ..list("t", 2, &[])
        };
        side.answers(&q, &same, at(10_001));
    }
    assert!(both(&mut side, at(20_000)).is_empty());
    // Only the answer to the time request announced change 5.
    side.directory.counted(&a, 5, at(20_000), at(20_000));
    assert_eq!(both(&mut side, at(20_000)).len(), 2);
}

#[test]
fn an_answer_may_be_older_than_a_change_missed_since_its_request() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    let first = side.asks(at(0)).unwrap();
    side.directory.counted(&a, 5, at(1), at(1));
    side.answers(&first, &list("t", 0, &[]), at(2));
    let second = side.asks(at(30)).expect("the list may lack the 5 changes");
    side.answers(&second, &list("t", 0, &[]), at(31));
    assert_eq!(side.asks(at(10_000)), None);
    // An answer after the next request does not answer that request.
    side.directory.unknown(&a, &topic("t"), at(20_000));
    let third = side.asks(at(20_000)).unwrap();
    side.directory.counted(&a, 6, at(20_001), at(20_001));
    assert!(side.asks(at(20_500)).is_some());
    side.answers(&third, &list("t", 0, &[]), at(20_501));
    assert!(side.asks(at(21_500)).is_some(), "the request of 20.5 s was not answered");
}

#[test]
fn a_host_whose_lists_lack_its_announced_changes_is_asked_less_and_less_often() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    side.directory.changed(&a, &topic("t"), u64::MAX, at(0));
    let (mut now, mut asked) = (at(0), 0);
    while now < at(600_000) {
        for q in side.directory.questions(now).0 {
            asked += 1;
            let same = List { topic: q.topic.clone(), ..list("t", 1, &[]) };
            side.answers(&q, &same, now);
        }
        now = side
            .directory
            .questions(now)
            .1
            .unwrap_or(at(600_000))
            .max(now + Duration::from_millis(1));
    }
    assert!((5..40).contains(&asked), "asked {asked} times in ten minutes");
}

#[test]
fn a_sample_of_an_unknown_publisher_causes_a_list_request_once_a_second() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    side.lists(&a, &list("t", 0, &[]), at(0));
    let mut asked = 0;
    for ms in 0..5_000 {
        side.directory.unknown(&a, &topic("t"), at(ms));
        side.directory.unknown(&a, &topic("elsewhere"), at(ms));
        side.directory.unknown(&host("stranger", 1), &topic("t"), at(ms));
        if let Some(q) = side.asks(at(ms)) {
            asked += 1;
            side.answers(&q, &list("t", 0, &[]), at(ms));
        }
    }
    assert_eq!(asked, 4);
}

#[test]
fn a_host_that_was_there_is_known_until_another_start_of_it_is_there() {
    let (mut side, first, second) = (Side::new(), host("a", 1), host("a", 2));
    side.comes(&first, at(0));
    side.goes(&first, at(1_000));
    side.forgets(at(3_600_000));
    assert!(side.directory.hosts().contains_key(&first), "the summary of a run needs it");
    side.comes(&second, at(3_600_000));
    side.forgets(at(3_600_000));
    assert_eq!(side.directory.hosts().keys().collect::<Vec<_>>(), [&second]);
    // A host of which only a topic is known.
    side.directory.topic_is(&host("b", 1), &topic("t"), true, at(3_600_000)).unwrap();
    side.forgets(at(3_660_000));
    assert_eq!(side.directory.hosts().len(), 1);
}

#[test]
fn a_topic_that_no_host_sends_is_compared_with_topics_not_received_here() {
    let (a, now) = (host("a", 1), at(0));
    let names = ["camera/imag", "lidar_1/points", "map", "t", "scan/all"].map(topic);
    let mut directory = Directory::<()>::new(names, host("me", 1));
    let similar = |directory: &Directory<()>| {
        let carried = ["camera/imag", "camera/imae", "lidar_1/points", "map", "t", "scan/all"]
            .map(topic)
            .into();
        directory.similar(&carried).into_iter().map(|(a, b)| format!("{a} {b}")).collect::<Vec<_>>()
    };
    // A topic may be announced before its host. The other names are another sensor, a topic carried
    // here, and names too different or too short.
    for name in ["camera/image", "camera/imae", "lidar_2/points", "mapping", "u", "Scan/all"] {
        directory.topic_is(&a, &topic(name), true, now).unwrap();
    }
    assert!(similar(&directory).is_empty(), "the host is not there yet");
    directory.host_is(&a, true, now).unwrap();
    assert_eq!(similar(&directory), ["camera/imag camera/image", "scan/all Scan/all"]);
    directory.topic_is(&a, &topic("Scan/all"), false, now).unwrap();
    assert!(directory.is_sent_elsewhere(&topic("camera/image")));
    directory.topic_is(&a, &topic("camera/image"), false, now).unwrap();
    assert!(similar(&directory).is_empty() && !directory.is_sent_elsewhere(&topic("camera/image")));
    directory.topic_is(&a, &topic("camera/image"), true, now).unwrap();
    directory.topic_is(&a, &topic("camera/imag"), true, now).unwrap();
    assert!(directory.is_sent(&topic("camera/imag")) && similar(&directory).is_empty());
    directory.host_is(&a, false, now).unwrap();
    assert!(!directory.is_sent(&topic("camera/imag")) && similar(&directory).is_empty());
    // If a host announces too many names, only a part of them is accepted.
    (0..MAX_OTHERS * 2)
        .for_each(|n| directory.topic_is(&a, &topic(&format!("x{n}")), true, now).unwrap());
    assert_eq!(directory.hosts()[&a].others.len(), MAX_OTHERS);
}

#[test]
fn a_misspelling_is_in_one_place_and_short() {
    for (a, b) in [
        ("camera/image", "camera/imgae"),
        ("camera/image", "camera/imag"),
        ("camera/image", "camra/image"),
        ("tf", "TF"),
        ("lane", "lanes"),
    ] {
        assert!(nearly_same(a, b) && nearly_same(b, a), "{a} {b}");
    }
    for (a, b) in [
        ("camera/front", "camera/rear"),
        ("cam1/image", "cam2/image"),
        ("cam/image", "cam12/image"),
        ("tf", "to"),
        ("map", "mapping"),
    ] {
        assert!(!nearly_same(a, b) && !nearly_same(b, a), "{a} {b}");
    }
}

#[test]
fn after_an_outage_remote_publishers_stay_until_their_host_answers_or_a_minute_ends() {
    let a = host("a", 1);
    for answers in [true, false] {
        let mut side = Side::with(&[&a]);
        side.lists(&a, &list("t", 1, &[7, 8]), at(0));
        side.goes(&a, at(1_000));
        side.comes(&a, at(31_000));
        side.forgets(at(60_000));
        assert_eq!(
            (side.remote_publishers(), side.there()),
            (vec![7, 8], vec![]),
            "asked for and not answered"
        );
        if answers {
            side.lists(&a, &list("t", 2, &[8]), at(60_000));
            assert_eq!(side.there(), [8]);
            side.forgets(at(60_999));
            assert_eq!(side.remote_publishers(), [7, 8], "samples in flight still arrive");
            side.forgets(at(61_000));
            assert_eq!(side.remote_publishers(), [8]);
            side.forgets(at(600_000));
            assert_eq!(side.remote_publishers(), [8]);
        } else {
            side.forgets(at(60_999));
            assert_eq!(side.remote_publishers(), [7, 8]);
            side.forgets(at(61_000));
            assert!(side.remote_publishers().is_empty());
        }
    }
}

#[test]
fn a_restarted_gateway_continues_only_unchanged_publishers() {
    let (a, next, other) = (host("a", 1), host("a", 2), host("b", 1));
    let mut side = Side::with(&[&a]);
    side.lists(&a, &list("t", 1, &[7, 8]), at(0));
    // Another host claims the same publishers, and the next gateway arrives before the first is
    // known to be gone.
    side.comes(&other, at(100));
    side.comes(&next, at(100));
    side.lists(&other, &list("t", 1, &[7]), at(100));
    assert!(
        side.reasons().iter().any(|r| r.contains("lists the same publisher")),
        "{:?}",
        side.reasons()
    );
    let whose = |side: &Side, id| side.directory.publishers()[&EndpointId(id)].host.clone();
    assert_eq!(whose(&side, 7), a);
    side.goes(&a, at(200));
    side.comes(&next, at(200));
    let mut changed = list("t", 1, &[7, 8]);
    changed.publishers[1].1.max_payload = 9;
    let asked = side.directory.questions(at(1_000)).0;
    for q in asked.iter().filter(|q| q.topic == topic("t")) {
        side.answers(q, &changed, at(1_000));
    }
    // 7 continues at the new gateway of its host. 8 has changed and stays with the old gateway.
    assert_eq!((whose(&side, 7), whose(&side, 8)), (next, a));
    assert!(
        side.reasons().iter().any(|r| r.contains("another topic, type, QoS or length")),
        "{:?}",
        side.reasons()
    );
    side.forgets(at(60_200));
    assert_eq!(side.remote_publishers(), [7], "8 has ended, a minute after its gateway departed");
}

#[test]
fn publishers_of_a_departed_host_go_to_no_host_of_another_name() {
    let (a, b) = (host("a", 1), host("b", 1));
    let mut side = Side::with(&[&a, &b]);
    side.lists(&a, &list("t", 1, &[7]), at(0));
    side.goes(&a, at(1_000));
    side.lists(&b, &list("t", 1, &[7]), at(1_000));
    assert!(
        side.reasons().iter().any(|r| r.contains("belonged to host 'a.")),
        "{:?}",
        side.reasons()
    );
    assert_eq!((side.remote_publishers(), side.there()), (vec![7], vec![]));
    side.forgets(at(61_000));
    side.lists(&b, &list("t", 1, &[7]), at(61_000));
    assert_eq!((side.there(), side.open.remote_publishers[&EndpointId(7)].clone()), (vec![7], b));
}

#[test]
fn places_are_counted_once_and_departed_publishers_give_way_weakest_promise_first() {
    let (a, b) = (host("a", 1), host("b", 1));
    let mut side = Side::with(&[&a, &b]);
    let ids: Vec<u128> = (1..=MAX_PUBLISHERS_OF_TOPIC as u128).collect();
    let mut full = list("t", 1, &ids);
    full.publishers[0].1.qos.reliability = Reliability::Reliable;
    full.publishers[1].1.qos.durability = Durability::TransientLocal;
    side.lists(&a, &full, at(0));
    side.lists(&b, &list("t", 1, &[100]), at(500));
    let reasons = side.reasons();
    assert!(reasons.len() == 1 && reasons[0].contains("too many"), "{reasons:?}");
    assert_eq!(side.directory.refused(), BTreeSet::from([EndpointId(100)]));
    // The first host departs and returns: its publishers are the same.
    side.goes(&a, at(1_000));
    side.comes(&a, at(1_100));
    side.lists(&a, &full, at(1_200));
    assert_eq!((side.there().len(), side.open.remote_publishers.len()), (64, 64));
    // It departs again and stays away. Present hosts take as many of its places as they need.
    side.goes(&a, at(2_000));
    side.lists(&b, &list("t", 2, &(100..162).collect::<Vec<_>>()), at(2_100));
    assert_eq!((side.there().len(), side.open.remote_publishers.len()), (62, 64));
    assert!(side.remote_publishers().starts_with(&[1, 2]), "they promise more than the others");
    side.directory.changed(&b, &topic("t"), 3, at(2_200));
    side.lists(&b, &list("t", 3, &(100..163).collect::<Vec<_>>()), at(2_200));
    assert!(
        side.remote_publishers().starts_with(&[2]),
        "what is kept for late subscriptions goes last"
    );
    assert!(side.open.logged.iter().any(|l| l.contains("gave way")), "{:?}", side.open.logged);
    side.comes(&a, at(3_000));
    side.lists(&a, &full, at(3_000));
    assert_eq!(
        (side.there().len(), side.directory.refused().len()),
        (64, 63),
        "no present host gives way"
    );
}

#[test]
fn a_refused_publisher_is_retried_and_at_once_when_another_has_gone() {
    let (a, b) = (host("a", 1), host("b", 1));
    let mut side = Side::with(&[&a, &b]);
    side.lists(&b, &list("t", 1, &[1]), at(0));
    side.open.full = true;
    side.lists(&a, &list("t", 1, &[7]), at(500));
    assert_eq!((side.reasons(), side.asks(at(5_499))), (vec!["no memory".to_owned()], None));
    let request = side.asks(at(5_500)).unwrap();
    side.answers(&request, &list("t", 1, &[7]), at(5_500));
    assert_eq!(
        (side.open.logged.len(), side.asks(at(15_499))),
        (1, None),
        "reported once, and with longer pauses"
    );
    side.open.full = false;
    side.directory.changed(&b, &topic("t"), 2, at(6_000));
    side.lists(&b, &list("t", 2, &[]), at(6_000));
    side.forgets(at(7_000));
    side.lists(&a, &list("t", 1, &[7]), at(7_000));
    assert_eq!((side.remote_publishers(), side.reasons()), (vec![7], vec![]));
}

#[test]
fn unusable_answers_are_logged_and_requested_again() {
    let a = host("a", 1);
    let mut side = Side::with(&[&a]);
    side.lists(&a, &List { topic: topic("t"), ..list("u", 1, &[7]) }, at(0));
    assert_eq!(side.remote_publishers(), [7]);
    let mut bad = list("t", 2, &[7, 8]);
    bad.publishers[1].1.qos.depth = 0;
    side.directory.changed(&a, &topic("t"), 2, at(100));
    side.lists(&a, &bad, at(100));
    assert!(side.reasons().iter().any(|r| r.contains("depth")), "{:?}", side.reasons());
    assert_eq!(side.there(), [7], "the others are received");
    side.directory.changed(&a, &topic("t"), 3, at(200));
    let q = side.asks(at(200)).unwrap();
    side.answers(&q, &list("u", 3, &[]), at(200));
    assert!(
        side.reasons().iter().any(|r| r.contains("lists topic 'u' instead")),
        "{:?}",
        side.reasons()
    );
    assert_eq!(side.there(), [7]);
    assert!(side.asks(at(700)).is_some());
}

#[test]
fn one_host_too_many_is_heard_when_another_is_gone() {
    let mut side = Side::new();
    for n in 0..MAX_HOSTS as u64 {
        side.comes(&host("h", n), at(n));
    }
    let late = host("late", 1);
    assert_eq!(side.directory.host_is(&late, true, at(100)), Err(TooManyHosts));
    side.goes(&host("h", 5), at(200));
    assert_eq!(side.directory.host_is(&late, true, at(300)), Ok(true));
    assert!(!side.directory.hosts().contains_key(&host("h", 5)));
}

#[test]
fn a_restarted_host_gets_its_place_again_and_its_publishers_continue() {
    let mut side = Side::new();
    for n in 0..MAX_HOSTS as u64 {
        side.comes(&host(&format!("h{n}"), 1), at(n));
    }
    let [before, after] = [1, 2].map(|start| host("h5", start));
    let asked = side.directory.questions(at(100)).0;
    for (id, publisher) in [(&before, 7), (&host("h6", 1), 8)] {
        let question = asked.iter().find(|q| q.host == *id && q.topic == topic("t")).unwrap();
        side.answers(question, &list("t", 1, &[publisher]), at(100));
    }
    side.goes(&before, at(200));
    side.goes(&host("h6", 1), at(150));
    assert_eq!(
        side.directory.host_is(&host("late", 1), true, at(300)),
        Err(TooManyHosts),
        "remote publishers of departed hosts wait for their return"
    );
    assert!(!side.directory.has_place_of_its_own(&host("late", 1)));
    assert_eq!((side.directory.places(), side.directory.has_place_of_its_own(&after)), (0, true));
    side.comes(&after, at(300));
    assert!(!side.directory.hosts().contains_key(&before));
    side.lists(&after, &list("t", 1, &[7]), at(300));
    assert_eq!((side.remote_publishers(), side.there()), (vec![7, 8], vec![7]));
    // A publisher that the newest gateway does not list is removed after its time, although its own
    // gateway is forgotten.
    side.goes(&after, at(400));
    side.comes(&host("h5", 3), at(500));
    side.lists(&host("h5", 3), &list("t", 1, &[]), at(500));
    side.forgets(at(60_000 + 500));
    assert_eq!(side.remote_publishers(), [0; 0]);
}
