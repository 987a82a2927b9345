// SPDX-License-Identifier: Apache-2.0
//! Tests of the longest wait in an age, and of counts on edges whose publisher or reader stopped.

use super::*;

/// Graph: camera → detector (slow) → tracker → fusion. The camera triggers the tracker, so the
/// detector's result waits for the tracker's next image.
#[test]
fn the_longest_wait_is_found_where_it_is_and_not_where_it_is_noticed() {
    let read =
        |name: &str, t: &str| InputFacts { name: name.into(), topic: topic(t), triggers: false };
    let mut tracker = stage("tracker", &[("image", "image")], &["tracks"]);
    tracker.inputs.push(read("boxes", "boxes"));
    let mut fusion = stage("fusion", &[("tracks", "tracks")], &["scene"]);
    fusion.inputs.push(read("boxes", "boxes"));
    let stages = vec![
        stage("camera", &[], &["image"]),
        stage("detector", &[("image", "image")], &["boxes"]),
        tracker,
        fusion,
    ];
    let mut run = Collector::new(RunFacts { stages, ..RunFacts::default() });
    let mut boxes: Option<SampleHeader> = None;
    for i in 0..10u64 {
        let at = |ms: u64| (i * 40 + ms) * MS;
        let add = |run: &mut Collector, stage, start, end, inputs: &[StageInput<'_>]| {
            run.add(&StageRecord {
                stage,
                start: MonotonicNs(at(start)),
                end: MonotonicNs(at(end)),
                inputs,
                ..StageRecord::default()
            });
        };
        let image = published("image", i + 1, &[], at(0), at(0));
        // The first boxes come at 4 ms; the tracker's first call is before that.
        if boxes.is_none() {
            // A call without boxes does not count in the means of the boxes' ages and waits.
            add(
                &mut run,
                "tracker",
                1,
                2,
                &[input("image", "image", Arrival::Triggered, &image, 0)],
            );
        }
        if let Some(old) = &boxes {
            let inputs = [
                input("image", "image", Arrival::Triggered, &image, 0),
                input("boxes", "boxes", Arrival::Read, old, 0),
            ];
            add(&mut run, "tracker", 1, 2, &inputs);
            let tracks = published(
                "tracks",
                i,
                &[(&image, Arrival::Triggered), (old, Arrival::Read)],
                at(1),
                at(2),
            );
            let inputs = [
                input("tracks", "tracks", Arrival::Triggered, &tracks, 0),
                input("boxes", "boxes", Arrival::Read, old, 0),
            ];
            add(&mut run, "fusion", 3, 3, &inputs);
        }
        add(&mut run, "detector", 1, 4, &[input("image", "image", Arrival::Triggered, &image, 0)]);
        boxes = Some(published("boxes", i + 1, &[(&image, Arrival::Triggered)], at(1), at(4)));
    }
    let s = run.summary();
    let end = &s.end_to_end[0];
    assert_eq!(
        (end.stage.as_str(), end.age_us.p50, end.newest_age_us.p50),
        ("fusion", 43_000.0, 3_000.0)
    );
    let wait = end.longest_wait.as_ref().unwrap();
    assert_eq!(
        (wait.stage.as_str(), wait.input.as_str(), wait.mean_us),
        ("tracker", "boxes", 37_000.0)
    );
    assert_eq!(wait.triggered_by, ["image"]);
    assert_eq!((wait.calls, wait.of_calls), (9, 10));
    let text = "On average, 37.0 ms of the 43.0 ms that image is old at fusion are waiting, not \
                work (86 %): in 9 of 10 calls of tracker the oldest data came by tracker.boxes, \
                where it had waited 37.0 ms on average for tracker to be triggered by the next \
                image; the newest data is 3.00 ms old on average.";
    assert_eq!(s.waits().collect::<Vec<_>>(), [text]);
    assert!(
        s.along_the_way.iter().all(|e| e.longest_wait.is_some() == (e.stage == "tracker")),
        "the detector's age is work"
    );
    assert!(
        crate::report::render(&run, &s).find(text).is_some_and(|at| at < 30_000),
        "it stands before the figures"
    );
}

/// Graph: camera → b → c → d, each at fixed times. The data waits 3, 3 and 5 ms.
#[test]
fn a_wait_is_compared_with_each_earlier_one_and_not_with_their_sum() {
    let reads = |name: &str, from: &str| {
        let mut stage = stage(name, &[], &[name]);
        let (name, topic) = ("in".into(), topic(from));
        stage.inputs.push(InputFacts { name, topic, triggers: false });
        stage
    };
    let stages = vec![
        stage("camera", &[], &["camera"]),
        reads("b", "camera"),
        reads("c", "b"),
        reads("d", "c"),
    ];
    let mut run = Collector::new(RunFacts { stages, ..RunFacts::default() });
    for i in 0..10u64 {
        let at = |ms: u64| (i * 40 + ms) * MS;
        let mut header = published("camera", i + 1, &[], at(0), at(0));
        for (stage, from, start) in [("b", "camera", 3), ("c", "b", 6), ("d", "c", 11)] {
            run.add(&StageRecord {
                stage,
                start: MonotonicNs(at(start)),
                end: MonotonicNs(at(start)),
                inputs: &[input("in", from, Arrival::Read, &header, 0)],
                ..StageRecord::default()
            });
            header = published(stage, i + 1, &[(&header, Arrival::Read)], at(start), at(start));
        }
    }
    let s = run.summary();
    let wait = s.end_to_end[0].longest_wait.as_ref().unwrap();
    assert_eq!((wait.stage.as_str(), wait.mean_us), ("d", 5_000.0));
}

#[test]
fn where_work_or_transport_dominates_no_wait_is_reported() {
    let mut run = Collector::new(facts());
    for i in 0..10 {
        frame(&mut run, i * 20 * MS, i + 1, 0);
    }
    assert!(run.summary().end_to_end.iter().all(|e| e.longest_wait.is_none()));
}

/// Returns a run of the graph camera → lane, with the number of samples that the camera published
/// and the counters of lane. If `ended` is true, the run has ended.
fn two_ends(published: u64, counters: InputCounters, ended: bool) -> Collector {
    let topic: TopicName = "image".parse().unwrap();
    let input = InputFacts { name: "image".into(), topic: topic.clone(), triggers: true };
    let stage = |name: &str, inputs: Vec<InputFacts>, outputs: Vec<TopicName>| StageFacts {
        name: name.into(),
        inputs,
        outputs,
    };
    let end = Ended {
        reason: "interrupted",
        ok: true,
        module: None,
        exit_code: None,
        signal: None,
        text: "as asked".into(),
        help: None,
    };
    let mut run = Collector::new(RunFacts {
        ended: ended.then_some(end),
        stages: vec![
            stage("camera", vec![], vec![topic.clone()]),
            stage("lane", vec![input], vec![]),
        ],
        ..RunFacts::default()
    });
    run.set_published("camera", "image", topic.id(), published);
    run.set_subscription("lane", "image", topic.id(), counters);
    run
}

#[test]
fn what_was_published_after_a_reader_had_stopped_is_a_count_of_its_own() {
    let counters = InputCounters { received: 90, missed: 4, not_read: 1, ..Default::default() };
    for published in [95, 100] {
        let summary = two_ends(published, counters, true).summary();
        let [lane] = summary.subscriptions.as_slice() else { panic!("{summary:?}") };
        assert_eq!(
            (lane.not_connected, lane.unread, lane.unknown.clone()),
            (published - 95, 0, None)
        );
        assert_eq!(lane.checked, published == 95, "`not_connected` is only a difference");
        let noted = summary.notes.iter().any(|n| n.contains("): 5 of 'image' by lane. They"));
        assert_eq!(noted, published == 100, "{:?}", summary.notes);
    }
    let running = two_ends(100, counters, false).summary();
    assert_eq!(running.subscriptions[0].not_connected, 0, "the last counters may be old");
    let mut killed = two_ends(100, counters, true);
    killed.cut_off("lane");
    let killed = killed.summary();
    assert_eq!((killed.subscriptions[0].not_connected, killed.subscriptions[0].unread), (0, 5));
}

#[test]
fn a_program_outside_of_the_run_publishes_as_well() {
    let counters = InputCounters { received: 500, missed: 20, ..Default::default() };
    let summary = two_ends(200, counters, true).summary();
    assert_eq!((summary.published["image"], summary.subscriptions[0].not_connected), (520, 0));
    assert!(!summary.subscriptions[0].checked, "more was counted than publishers of the run have");
    // A restarted process may receive kept samples of a publisher a second time.
    for (transient_local, published) in [(false, 201), (true, 200)] {
        let mut run = two_ends(200, InputCounters { received: 200, ..Default::default() }, true);
        if transient_local {
            run.facts_mut().transient_local.insert(("lane".into(), "image".into()));
        }
        run.process_started(&["lane".into()], MonotonicNs::now());
        let again = InputCounters { received: 1, ..Default::default() };
        run.set_subscription("lane", "image", "image".parse::<TopicName>().unwrap().id(), again);
        let summary = run.summary();
        assert_eq!(summary.published["image"], published);
        let noted = summary.notes.iter().any(|n| n.contains("a second time"));
        assert_eq!(noted, transient_local);
    }
}

#[test]
fn an_input_on_which_nothing_came_has_an_entry_and_its_sum_closes() {
    // Ten samples were published before the match.
    let mut run = two_ends(10, InputCounters::default(), true);
    run.facts_mut().stages.push(stage("fusion", &[("image", "image")], &[]));
    run.keep_stage("fusion");
    let summary = run.summary();
    let of = |stage: &str| summary.subscriptions.iter().find(|s| s.stage == stage).unwrap();
    assert_eq!((of("lane").not_connected, of("fusion").not_connected), (10, 10));
    assert_eq!(of("fusion").topic, "image");
}

#[test]
fn counts_of_a_killed_publisher_prove_nothing() {
    let counted = InputCounters { received: 100, ..Default::default() };
    let mut run = two_ends(100, counted, true);
    assert!(run.summary().subscriptions[0].checked);
    run.cut_off("camera");
    assert!(!run.summary().subscriptions[0].checked);
}

/// The last counters of a killed process are up to a second old; its callback records are complete.
#[test]
fn the_account_of_a_killed_reader_closes_whatever_its_counters_know() {
    let image = || "image".parse::<TopicName>().unwrap().id();
    let counters = [
        InputCounters::default(),
        InputCounters { received: 4, missed: 3, ..Default::default() },
        InputCounters { received: 4, superseded: 3, not_read: 2, ..Default::default() },
        InputCounters { received: 4, missed: 1, expired: 2, not_read: 1, ..Default::default() },
        InputCounters { received: 9, missed: 12, not_read: 4, ..Default::default() },
    ];
    for counted in counters {
        for restarted in [false, true] {
            let mut run = two_ends(40, counted, true);
            // Nine samples arrive; one or two samples are missing before each of them except the
            // first.
            let mut sequence = 0;
            for n in 0..9 {
                let missed = if n == 0 { 0 } else { 1 + n % 2 };
                sequence += 1 + missed;
                hears(&mut run, n, sequence, missed);
            }
            run.cut_off("lane");
            if restarted {
                run.process_started(&["lane".into()], MonotonicNs::now());
                let now = InputCounters { received: 3, missed: 2, ..Default::default() };
                run.set_subscription("lane", "image", image(), now);
            }
            let summary = run.summary();
            let lane = summary.subscriptions.iter().find(|s| s.stage == "lane").unwrap();
            let known = 9 + 12 + if restarted { 5 } else { 0 };
            let replaced = lane.received + lane.missed + lane.expired;
            assert_eq!(
                (replaced, lane.received),
                (known, if restarted { 12 } else { 9 }),
                "{counted:?}"
            );
            assert_eq!(
                (lane.not_read, summary.published["image"]),
                (40 - known, 40),
                "{counted:?}"
            );
            assert_eq!(lane.expired, counted.expired, "{counted:?}");
        }
    }
}
