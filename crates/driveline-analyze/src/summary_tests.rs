// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{InputFacts, RunFacts, StageFacts, StageInput, StageRecord};
use driveline_runtime::account::{Call, CallPlace, CallbackAccount, InputCounters, Record};
use driveline_types::header::Arrival;
use driveline_types::{Lineage, MonotonicNs, SampleHeader, TopicName};
use proptest::prelude::*;

#[path = "summary_edges_tests.rs"]
mod edges;

const MS: u64 = 1_000_000;

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

fn stage(name: &str, inputs: &[(&str, &str)], outputs: &[&str]) -> StageFacts {
    StageFacts {
        name: name.into(),
        inputs: inputs
            .iter()
            .enumerate()
            .map(|(i, (port, t))| InputFacts {
                name: (*port).into(),
                topic: topic(t),
                triggers: i == 0,
            })
            .collect(),
        outputs: outputs.iter().map(|t| topic(t)).collect(),
    }
}

/// camera → lane → fusion, with the camera's image read by fusion as well.
fn facts() -> RunFacts {
    RunFacts {
        graph: "g".into(),
        speed_kmh: Some(36.0),
        started_unix_s: Some(1_700_000_000),
        stages: vec![
            stage("camera", &[], &["image"]),
            stage("lane", &[("image", "image")], &["lanes"]),
            stage("fusion", &[("lanes", "lanes"), ("image", "image")], &["scene"]),
        ],
        ..RunFacts::default()
    }
}

/// Header of a sample published on `topic` at `at`, by a callback that began at `start` with
/// `inputs`.
fn published(
    name: &str,
    sequence: u64,
    inputs: &[(&SampleHeader, Arrival)],
    start: u64,
    at: u64,
) -> SampleHeader {
    let mut lineage = Lineage::start(MonotonicNs(start));
    for (header, arrival) in inputs {
        lineage.inherit(header, *arrival);
    }
    let mut header =
        SampleHeader { sequence, publish_time: MonotonicNs(at), ..SampleHeader::default() };
    lineage.stamp(&mut header, topic(name).id(), Some(MonotonicNs(start)), 1);
    header
}

/// Returns the header as a gateway republishes it at `now` on another host. By the clocks of the
/// two hosts, the sample was in transit for `transit` nanoseconds, which may be negative.
fn arrived(mut h: SampleHeader, transit: i64, now: u64) -> SampleHeader {
    let back = MonotonicNs(now).signed_since(h.publish_time) - transit;
    for o in h.origins.as_mut_slice() {
        o.source_oldest = MonotonicNs(o.source_oldest.0.wrapping_add_signed(back));
        o.source_newest = MonotonicNs(o.source_newest.0.wrapping_add_signed(back));
        o.communication_ns = o.communication_ns.wrapping_add(transit);
    }
    SampleHeader { publish_time: MonotonicNs(now), clock_error_ns: 100_000, ..h }
}

fn input<'a>(
    name: &'a str,
    of: &str,
    arrival: Arrival,
    header: &'a SampleHeader,
    missed: u64,
) -> StageInput<'a> {
    StageInput { input: name, topic: topic(of).id(), arrival, header, missed, fresh: true }
}

/// One frame through the chain. Times in milliseconds after `t`: image published at 2, lane runs
/// 3–8, fusion 10–11.
fn frame(run: &mut Collector, t: u64, sequence: u64, missed: u64) {
    let at = |ms: u64| t + ms * MS;
    let add = |run: &mut Collector, stage, start, end, inputs: &[StageInput<'_>]| {
        run.add(&StageRecord {
            stage,
            start: MonotonicNs(at(start)),
            end: MonotonicNs(at(end)),
            inputs,
            ..StageRecord::default()
        });
    };
    let image = published("image", sequence, &[], at(0), at(2));
    add(run, "camera", 0, 2, &[]);
    add(run, "lane", 3, 8, &[input("image", "image", Arrival::Triggered, &image, missed)]);
    let lanes = published("lanes", sequence, &[(&image, Arrival::Triggered)], at(3), at(8));
    let both = [
        input("lanes", "lanes", Arrival::Triggered, &lanes, 0),
        input("image", "image", Arrival::Read, &image, 0),
    ];
    add(run, "fusion", 10, 11, &both);
}

#[test]
fn a_known_chain_gives_the_known_figures() {
    let mut run = Collector::new(facts());
    for i in 0..10 {
        frame(&mut run, i * 20 * MS, 3 * i + 1, if i == 0 { 0 } else { 2 });
    }
    let s = run.summary();
    assert_eq!(s.frames_published, 28);
    assert_eq!(s.missed_by_triggers, 18);
    let lane = &s.stages[1];
    assert_eq!((lane.stage.as_str(), lane.runs, lane.transmission_us.n), ("lane", 10, 10));
    assert_eq!((lane.transmission_us.p50, lane.processing_us.p99), (1000.0, 5000.0));
    assert_eq!(lane.transmission_to_processing, Some(Ratio { of_p50: 0.2, of_mean: 0.2 }));
    assert!(lane.transmission_us.p99_n_too_small);
    // A camera is triggered by time: there is nothing to transmit, and no ratio is made up.
    assert_eq!((s.stages[0].transmission_us.n, s.stages[0].transmission_to_processing), (0, None));

    let [end] = s.end_to_end.as_slice() else { panic!("one sink, one source: {:?}", s.end_to_end) };
    assert_eq!(
        (end.stage.as_str(), end.origin.as_str(), end.age_us.p50),
        ("fusion", "image", 11_000.0)
    );
    assert_eq!(end.p50, Split { communication_us: 3000.0, computation_us: 8000.0, idle_us: 0.0 });
    assert_eq!(
        end.reaction_distance,
        Some(ReactionDistance { speed_kmh: 36.0, p50_m: 0.11, p99_m: 0.11, max_m: 0.11 })
    );
    assert_eq!(s.along_the_way.len(), 1);
    let subscriptions: Vec<_> = s
        .subscriptions
        .iter()
        .map(|s| (s.stage.as_str(), s.input.as_str(), s.received, s.missed))
        .collect();
    assert_eq!(
        subscriptions,
        [("lane", "image", 10, 18), ("fusion", "image", 10, 0), ("fusion", "lanes", 10, 0)]
    );
    assert_eq!(s.started.as_deref(), Some("2023-11-14T22:13:20Z"));
}

#[test]
fn a_run_without_a_callback_lasts_as_long_as_its_modules_ran() {
    let mut run = Collector::new(RunFacts { ran_s: Some(7.5), ..facts() });
    assert_eq!(run.summary().duration_s, 7.5);
    frame(&mut run, 0, 1, 0);
    assert_eq!(run.summary().duration_s, 0.011, "the times of callbacks have precedence");
}

#[test]
fn work_not_done_is_distinguished_from_superseded_samples() {
    let mut run = Collector::new(facts());
    for (stage, input, of, received, missed) in [
        ("lane", "image", "image", 90, 10),
        ("fusion", "lanes", "lanes", 88, 2),
        ("fusion", "image", "image", 60, 40),
        ("x", "y", "z", 0, 1),
    ] {
        run.set_subscription(
            stage,
            input,
            topic(of).id(),
            InputCounters { received, missed, ..Default::default() },
        );
    }
    let s = run.summary();
    // An input that is not in the graph counts as a trigger, the worse case of the two.
    assert_eq!((s.missed_by_triggers, s.superseded), (13, 40));
    let told: Vec<_> = s
        .subscriptions
        .iter()
        .map(|s| (s.input.as_str(), s.triggers, s.received, s.missed))
        .collect();
    assert_eq!(
        told,
        [
            ("image", true, 90, 10),
            ("image", false, 60, 40),
            ("lanes", true, 88, 2),
            ("y", true, 0, 1)
        ]
    );
}

#[test]
fn samples_unread_by_a_killed_process_are_reported() {
    let mut run = Collector::new(facts());
    run.set_published("camera", "image", topic("image").id(), 200);
    run.set_subscription(
        "lane",
        "image",
        topic("image").id(),
        InputCounters { received: 4, missed: 1, ..Default::default() },
    );
    assert_eq!(run.summary().unread_by_triggers, 0, "a running component may still read them");
    run.cut_off("lane");
    run.cut_off("fusion");
    run.cut_off("nobody");
    let s = run.summary();
    let told: Vec<_> = s
        .subscriptions
        .iter()
        .map(|s| (s.stage.as_str(), s.input.as_str(), s.received, s.missed, s.unread))
        .collect();
    assert_eq!(
        told,
        [
            ("lane", "image", 4, 1, 195),
            ("fusion", "image", 0, 0, 200),
            ("fusion", "lanes", 0, 0, 0)
        ]
    );
    // Unread samples of an input that does not trigger are no missing work.
    assert_eq!((s.unread_by_triggers, s.missed_by_triggers), (195, 1));
    let [note, of_lane] = s.notes.as_slice() else { panic!("{:?}", s.notes) };
    assert!(
        note.starts_with(
            "195 of 200 samples of 'image' were not read by lane: its process was killed"
        ),
        "{note}"
    );
    // The counters of lane do not include the samples that it published in its last second.
    assert!(
        of_lane.starts_with(
            "How many samples of 'lanes' were not read by fusion is not known: the process of lane"
        ),
        "{of_lane}"
    );
}

#[test]
fn counters_of_the_transport_have_the_last_word() {
    let mut run = Collector::new(facts());
    frame(&mut run, 0, 1, 0);
    run.set_published("camera", "image", topic("image").id(), 50);
    run.set_subscription(
        "lane",
        "image",
        topic("image").id(),
        InputCounters { received: 40, missed: 10, ..Default::default() },
    );
    let s = run.summary();
    assert_eq!(s.frames_published, 50);
    assert_eq!((s.subscriptions[0].received, s.subscriptions[0].missed), (40, 10));
}

/// Adds a call of `lane` with an image that was published at `at` milliseconds; `missed` images
/// were missed before it.
fn hears(run: &mut Collector, at: u64, sequence: u64, missed: u64) {
    let image = published("image", sequence, &[], at * MS, at * MS);
    let (start, end) = (MonotonicNs((at + 1) * MS), MonotonicNs((at + 2) * MS));
    let inputs = [input("image", "image", Arrival::Triggered, &image, missed)];
    run.add(&StageRecord { stage: "lane", start, end, inputs: &inputs, ..StageRecord::default() });
}

#[test]
fn published_is_what_publishers_count_also_unread_and_after_a_restart() {
    let mut run = Collector::new(facts());
    // No sample was read; a camera without inputs is a source anyway.
    for published in [20, 50] {
        run.set_published("camera", "image", topic("image").id(), published);
    }
    run.set_published("fusion", "scene", topic("scene").id(), 7);
    let s = run.summary();
    assert_eq!((s.frames_published, s.published["image"], s.published["scene"]), (50, 50, 7));
    for published in [3, 4] {
        run.set_published("camera", "image", topic("image").id(), published);
    }
    run.set_published("camera", "second_image", topic("image").id(), 100);
    assert_eq!(run.summary().frames_published, 154);
    // The sequence number of a received sample may be higher than the last reported counter.
    hears(&mut run, 1, 160, 0);
    assert_eq!(run.summary().frames_published, 160);
}

#[test]
fn a_late_reader_counts_no_earlier_samples_of_an_external_publisher() {
    let mut run = Collector::new(RunFacts {
        stages: vec![stage("lane", &[("image", "image")], &["lanes"])],
        ..RunFacts::default()
    });
    for (sequence, missed) in [(340, 0), (341, 0), (345, 3)] {
        hears(&mut run, sequence, sequence, missed);
    }
    let s = run.summary();
    let x = &s.subscriptions[0];
    assert_eq!((s.published["image"], x.received, x.missed), (6, 3, 3));
}

#[test]
fn plans_that_a_timer_made_before_it_had_read_anything_make_it_no_source() {
    let stages = vec![
        stage("source", &[], &["number"]),
        stage("planner", &[("in", "number")], &["plan"]),
        stage("sink", &[("in", "plan")], &[]),
    ];
    let mut run = Collector::new(RunFacts { stages, ..RunFacts::default() });
    run.set_published("source", "out", topic("number").id(), 60);
    run.set_published("planner", "plan", topic("plan").id(), 120);
    let number = published("number", 1, &[], MS, 2 * MS);
    for (at, inherits) in [(10, false), (20, true), (30, true)] {
        let from: &[(&SampleHeader, Arrival)] =
            if inherits { &[(&number, Arrival::Read)] } else { &[] };
        let plan = published("plan", at, from, at * MS, at * MS);
        let (start, end) = (MonotonicNs((at + 1) * MS), MonotonicNs((at + 2) * MS));
        let read = input("in", "plan", Arrival::Triggered, &plan, 0);
        run.add(&StageRecord {
            stage: "sink",
            start,
            end,
            inputs: &[read],
            ..StageRecord::default()
        });
    }
    assert_eq!(run.summary().frames_published, 60);
    // A camera with an input for its settings; no settings ever come.
    let mut run = Collector::new(RunFacts {
        stages: vec![stage("camera", &[("in", "exposure")], &["image"])],
        ..RunFacts::default()
    });
    run.set_published("camera", "image", topic("image").id(), 5);
    hears(&mut run, 1, 1, 0);
    assert_eq!(run.summary().frames_published, 5);
}

#[test]
fn components_never_called_are_reported_with_their_silent_topics() {
    let mut run = Collector::new(facts());
    let waits = |run: &Collector| {
        run.never_triggered().into_iter().map(|(c, t)| format!("{c}: {t:?}")).collect::<Vec<_>>()
    };
    let before = waits(&run);
    assert!(before.iter().any(|w| w.starts_with("lane: ") && w.contains("image")), "{before:?}");
    assert!(!before.iter().any(|w| w.starts_with("camera")), "nothing triggers it: {before:?}");
    // Samples came on `lanes`, but did not trigger `fusion`.
    let of_fusion =
        |run: &Collector| waits(run).into_iter().find(|w| w.starts_with("fusion")).unwrap();
    assert!(of_fusion(&run).contains("lanes"));
    run.set_subscription(
        "fusion",
        "lanes",
        topic("lanes").id(),
        InputCounters { received: 3, missed: 0, ..Default::default() },
    );
    assert_eq!(of_fusion(&run), "fusion: []");
    hears(&mut run, 1, 1, 0);
    assert_eq!(waits(&run).len(), before.len() - 1);
}

#[test]
fn who_hangs_in_its_first_call_was_called() {
    let mut run = Collector::new(facts());
    run.set_subscription(
        "fusion",
        "lanes",
        topic("lanes").id(),
        InputCounters { received: 3, missed: 0, ..Default::default() },
    );
    let waits = |run: &Collector, name: &str| run.never_triggered().iter().any(|(c, _)| *c == name);
    assert!(waits(&run, "fusion") && run.never_returned().is_empty());
    let place = |component: &str, call| CallPlace {
        component: component.into(),
        call,
        topic: Some("lanes".into()),
        sequence: Some(1),
    };
    run.take("m", &Record::Busy { call: place("fusion", Call::OnTrigger), for_ms: 1000 });
    run.take("m", &Record::Busy { call: place("lane", Call::Timer), for_ms: 1000 });
    assert_eq!(run.never_returned(), [("fusion", "on_trigger on sample 1 of 'lanes'")]);
    assert!(!waits(&run, "fusion") && waits(&run, "lane"), "a timer is no trigger");
    // The last record of a process that is forced to end gives the same information.
    let mut run = Collector::new(facts());
    run.take(
        "m",
        &Record::Failed {
            call: Some(place("fusion", Call::OnTrigger)),
            text: "did not stop within 5s".into(),
        },
    );
    assert_eq!(run.never_returned().len(), 1);
    run.take(
        "m",
        &Record::Callback(CallbackAccount {
            component: "fusion".into(),
            ..CallbackAccount::default()
        }),
    );
    assert!(run.never_returned().is_empty(), "it has returned");
}

#[test]
fn what_a_publisher_outside_of_the_graph_publishes_after_it_was_started_again_counts() {
    let mut run = Collector::new(RunFacts {
        stages: vec![stage("lane", &[("image", "image")], &["lanes"])],
        ..RunFacts::default()
    });
    for (at, sequence, missed) in [(1, 340, 0), (2, 341, 0), (3, 1, 0), (4, 4, 2)] {
        hears(&mut run, at, sequence, missed);
    }
    assert_eq!(run.summary().published["image"], 6);
}

#[test]
fn a_sample_seen_again_is_received_once() {
    let mut run = Collector::new(facts());
    let image = published("image", 1, &[], 0, MS);
    for (i, fresh) in [true, false, false].into_iter().enumerate() {
        let at = MonotonicNs((2 + i as u64) * MS);
        let again = StageInput { fresh, ..input("image", "image", Arrival::Read, &image, 4) };
        run.add(&StageRecord {
            stage: "lane",
            start: at,
            end: at,
            inputs: &[again],
            ..StageRecord::default()
        });
    }
    let s = run.summary();
    assert_eq!((s.subscriptions[0].received, s.subscriptions[0].missed), (1, 4));
    assert_eq!(s.along_the_way[0].age_us.n, 3);
    assert_eq!(s.along_the_way[0].max.idle_us, 3000.0);
}

#[test]
fn joined_data_of_two_times_has_two_ages() {
    let mut run = Collector::new(facts());
    let (old, new) =
        (published("image", 1, &[], 0, MS), published("image", 2, &[], 20 * MS, 21 * MS));
    let lanes = published("lanes", 1, &[(&old, Arrival::Triggered)], 2 * MS, 5 * MS);
    let inputs = [
        input("image", "image", Arrival::Triggered, &new, 0),
        input("lanes", "lanes", Arrival::Read, &lanes, 0),
    ];
    run.add(&StageRecord {
        stage: "fusion",
        start: MonotonicNs(22 * MS),
        end: MonotonicNs(23 * MS),
        inputs: &inputs,
        ..StageRecord::default()
    });
    let end = &run.summary().end_to_end[0];
    assert_eq!((end.age_us.p50, end.newest_age_us.p50), (23_000.0, 3_000.0));
    assert_eq!(
        end.p50,
        Split { communication_us: 1000.0, computation_us: 5000.0, idle_us: 17_000.0 }
    );
}

#[test]
fn times_that_contradict_each_other_are_said_and_left_out() {
    let mut run = Collector::new(facts());
    let image = published("image", 1, &[], 0, 9 * MS);
    let early = StageRecord {
        stage: "lane",
        start: MonotonicNs(5 * MS),
        end: MonotonicNs(6 * MS),
        inputs: &[input("image", "image", Arrival::Triggered, &image, 0)],
        ..StageRecord::default()
    };
    run.add(&early);
    let s = run.summary();
    assert_eq!((s.stages[0].runs, s.stages[0].processing_us.n), (1, 0));
    assert!(s.notes.iter().any(|n| n.contains("contradict")), "{:?}", s.notes);
}

#[test]
fn what_no_clock_could_make_is_left_out_and_spoils_no_figure() {
    let mut run = Collector::new(facts());
    let seen = |ns: i64| published("image", 1, &[], MS.wrapping_sub(ns.cast_unsigned()), MS);
    let limit = 1i64 << 61;
    for age in [0, limit - 2, limit - 1, limit, -limit, -limit - 1, i64::MIN, i64::MAX] {
        let image = seen(age);
        let inputs = [input("image", "image", Arrival::Triggered, &image, 0)];
        let at = MonotonicNs(MS + 1);
        run.add(&StageRecord {
            stage: "lane",
            start: at,
            end: at,
            inputs: &inputs,
            ..StageRecord::default()
        });
    }
    // The callback ends a nanosecond after the publication.
    let (age, us) = (run.summary().along_the_way[0].age_us, |ns: i64| ns as f64 / 1e3);
    assert_eq!((age.n, age.min, age.p50, age.max), (4, us(1 - limit), us(1), us(limit)));
    assert_eq!(run.contradictions, 4);
    // The parts add up to the age only because the sum wraps around.
    let mut split = seen(6);
    split
        .origins
        .as_mut_slice()
        .iter_mut()
        .for_each(|o| (o.communication_ns, o.idle_ns) = (i64::MIN, i64::MIN));
    assert_eq!(split.origins.as_slice()[0].age_ns(split.publish_time), 6);
    run.add(&StageRecord {
        stage: "lane",
        start: MonotonicNs(MS),
        end: MonotonicNs(MS),
        inputs: &[input("image", "image", Arrival::Read, &split, 0)],
        ..StageRecord::default()
    });
    assert_eq!(run.contradictions, 5);
}

#[test]
fn ages_below_zero_are_reported() {
    let mut run = Collector::new(facts());
    for transit in [-20_000, 5_000, -3_000] {
        let image = arrived(published("image", 1, &[], MS, MS), transit, MS);
        let inputs = [input("image", "image", Arrival::Triggered, &image, 0)];
        let at = MonotonicNs(MS + 1_000);
        run.add(&StageRecord {
            stage: "lane",
            start: at,
            end: at,
            inputs: &inputs,
            ..StageRecord::default()
        });
    }
    let s = run.summary();
    let of = &s.along_the_way[0];
    assert_eq!((of.age_us.n, of.age_us.min, of.age_us.p50, of.age_us.max), (3, -19.0, -2.0, 6.0));
    assert_eq!(of.p50, Split { communication_us: -2.0, computation_us: 0.0, idle_us: 0.0 });
    assert!(
        s.notes.iter().any(|n| n.starts_with(
            "In 2 callbacks, ages of data or parts of them are negative (the lowest: -0.019 ms)"
        )),
        "{:?}",
        s.notes
    );
    let report = crate::report::render(&run, &s);
    assert!(report.contains("<span class=\"end\">-5 µs, "), "{report}");
    assert_eq!(
        serde_json::to_value(&s).unwrap()["along_the_way"][0]["p50"]["communication_us"],
        -2.0
    );
}

#[test]
fn failed_calls_are_counted_and_have_no_figures() {
    let mut run = Collector::new(facts());
    let image = published("image", 1, &[], 0, MS);
    let inputs = [input("image", "image", Arrival::Triggered, &image, 0)];
    for failed in [true, false, true] {
        let call = StageRecord {
            stage: "lane",
            start: MonotonicNs(2 * MS),
            end: MonotonicNs(5 * MS),
            failed,
            ..StageRecord::default()
        };
        run.add(&StageRecord { inputs: &inputs, ..call });
    }
    let s = run.summary();
    assert_eq!((s.stages[0].runs, s.stages[0].failed), (3, 2));
    assert_eq!((s.stages[0].processing_us.n, s.stages[0].transmission_us.n), (1, 1));
    assert!(s.end_to_end.iter().chain(&s.along_the_way).all(|e| e.age_us.n == 1));
    assert_eq!(s.failed_of(), ["2 of 3 calls of lane failed"]);
}

#[test]
fn conversions_are_transmission_and_not_processing() {
    let mut run = Collector::new(facts());
    let image = published("image", 1, &[], 0, MS);
    let call = |conversion_ns, encoding_ns| StageRecord {
        stage: "lane",
        start: MonotonicNs(2 * MS),
        end: MonotonicNs(12 * MS),
        conversion_ns,
        encoding_ns,
        ..StageRecord::default()
    };
    // The encoding time counts as transmission of the receiver.
    run.add(&StageRecord {
        inputs: &[input("image", "image", Arrival::Triggered, &image, 0)],
        ..call(3 * MS, 4 * MS)
    });
    let s = run.summary();
    assert_eq!((s.stages[0].transmission_us.p50, s.stages[0].processing_us.p50), (4000.0, 3000.0));
    assert_eq!(
        s.along_the_way[0].p50,
        Split { communication_us: 8000.0, computation_us: 4000.0, idle_us: 0.0 }
    );

    // The sample was published during the call, so its transmission is at most the rest of the
    // call.
    let late = published("image", 2, &[], 10 * MS, 10 * MS);
    run.add(&StageRecord {
        inputs: &[input("image", "image", Arrival::Read, &late, 0)],
        ..call(3 * MS, 4 * MS)
    });
    let s = run.summary();
    assert_eq!((s.along_the_way[0].age_us.n, run.contradictions), (2, 0));

    run.add(&call(6 * MS, 5 * MS));
    assert_eq!(run.contradictions, 1, "longer than the call");
}

#[test]
fn a_graph_file_gives_the_facts() {
    use driveline_graph::descriptor::{ComponentClass, Port};
    use driveline_graph::{LoadOptions, load};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("two.yaml");
    std::fs::write(directory.path().join("lib.so"), "").unwrap();
    let components = "a: { library: lib.so, class: A, outputs: { out: x/y } }\n      b: { library: \
                      lib.so, class: B, inputs: { in: x/y }, trigger: { kind: any } }";
    std::fs::write(
        &path,
        format!(
            "driveline: 1\nname: two\ntopics: {{ x/y: {{ max_payload: 1 KiB }} }}\nmodules:\n  \
             m:\n    components:\n      {components}\n"
        ),
    )
    .unwrap();
    let port = |name: &str| Port {
        name: name.into(),
        schema: driveline_types::Schema::bytes("t/T", "raw", ""),
        doc: String::new(),
    };
    let class = |name: &str, inputs, outputs| ComponentClass {
        name: name.into(),
        doc: String::new(),
        inputs,
        outputs,
        parameters: vec![],
    };
    let describe = move |_: &std::path::Path| {
        Ok(vec![class("A", vec![], vec![port("out")]), class("B", vec![port("in")], vec![])])
    };
    let loaded = load(&path, &LoadOptions::new(&describe));
    let facts =
        RunFacts::of_graph(&loaded.graph.unwrap_or_else(|| panic!("{:?}", loaded.diagnostics)));
    assert_eq!(facts.graph, "two");
    let ports: Vec<_> =
        facts.stages.iter().map(|s| (s.name.as_str(), s.inputs.len(), s.outputs.len())).collect();
    assert_eq!(ports, [("a", 0, 1), ("b", 1, 0)]);
    assert!(facts.stages[1].inputs[0].triggers);
    assert!(facts.started_unix_s.is_some_and(|s| s > 1_700_000_000));
    assert!(Collector::new(facts).is_sink("b"));
}

#[test]
fn nothing_at_all_is_a_valid_summary() {
    let s = Collector::default().summary();
    assert_eq!((s.frames_published, s.missed_by_triggers, s.duration_s), (0, 0, 0.0));
    assert!(s.stages.is_empty() && s.end_to_end.is_empty());
}

#[test]
fn a_stage_whose_output_is_not_read_is_a_sink_and_a_lone_camera_is_none() {
    let run = Collector::new(facts());
    assert!(run.is_sink("fusion"));
    assert!(!run.is_sink("lane"));
    assert!(!run.is_sink("camera"));
    assert!(!run.is_sink("unheard of"));
    assert!(Collector::default().is_sink("any"));
}

proptest! {
    /// For any chain and any waits, the parts that the sink reports add up to the time from the
    /// source time to the end of the last callback.
    #[test]
    fn split_adds_up_to_age(
        hops in prop::collection::vec(
            (0u64..50, 0u64..50, 0u64..50, 0u64..50, any::<bool>()), 1..6
        ),
        late in 0u64..20,
    ) {
        let mut run = Collector::new(RunFacts::default());
        let mut now = 1_000 * MS;
        let source = now;
        now += late * MS;
        let mut header = published("image", 1, &[], source, now);
        for (i, &(wait, compute, rest, convert, triggered)) in hops.iter().enumerate() {
            let arrival = if triggered { Arrival::Triggered } else { Arrival::Read };
            let start = now + wait * MS;
            let end = start + (compute + rest) * MS;
            let name = format!("stage{i}");
            let (conversion_ns, encoding_ns) = (convert.min(compute) * MS, convert.min(rest) * MS);
            let inputs = [input("in", "image", arrival, &header, 0)];
            run.add(&StageRecord {
                stage: &name,
                start: MonotonicNs(start),
                end: MonotonicNs(end),
                conversion_ns,
                encoding_ns,
                inputs: &inputs,
                failed: false,
            });
            now = start + compute * MS;
            header = published("t", 1, &[(&header, arrival)], start, now);
            let summary = run.summary();
            let last = summary.end_to_end.iter().find(|e| e.stage == name).unwrap();
            let expected = us(end - source);
            prop_assert_eq!(last.age_us.max, expected);
            for split in [last.p50, last.p95, last.p99, last.max, last.mean] {
                prop_assert!(
                    (split.total_us() - expected).abs() < 1e-2,
                    "{:?} against {}",
                    split,
                    expected
                );
            }
        }
        prop_assert_eq!(run.contradictions, 0);
    }

    /// The same across hosts with badly synchronized clocks, so that transits seem to take a
    /// negative time; and with data older than a host's clock.
    #[test]
    fn ages_below_zero_are_figures(
        hops in prop::collection::vec(
            (-50_000i64..50_000, 0u64..50_000, 0u64..50_000, 0u64..50_000, any::<bool>()), 1..6
        ),
        valid in -50_000i64..50_000,
    ) {
        let mut run = Collector::new(RunFacts::default());
        let mut h = published("image", 1, &[], 1_000_000u64.wrapping_add_signed(-valid), 1_000_000);
        let (mut communication, mut computation, mut idle) = (0, valid, 0);
        for (i, &(transit, there, wait, compute, triggered)) in hops.iter().enumerate() {
            h = arrived(h, transit, there);
            let arrival = if triggered { Arrival::Triggered } else { Arrival::Read };
            let (start, end) = (there + wait, there + wait + compute);
            let name = format!("stage{i}");
            let inputs = [input("in", "image", arrival, &h, 0)];
            run.add(&StageRecord {
                stage: &name,
                start: MonotonicNs(start),
                end: MonotonicNs(end),
                inputs: &inputs,
                ..StageRecord::default()
            });
            h = published("t", 1, &[(&h, arrival)], start, end);
            let [wait, compute] = [wait, compute].map(u64::cast_signed);
            communication += transit + if triggered { wait } else { 0 };
            idle += if triggered { 0 } else { wait };
            computation += compute;
            let summary = run.summary();
            prop_assert_eq!(run.contradictions, 0);
            let last = summary.end_to_end.iter().find(|e| e.stage == name).unwrap();
            let age = communication + computation + idle;
            let us = |ns: i64| ns as f64 / 1e3;
            prop_assert_eq!(
                [last.age_us.p50, last.age_us.max, last.age_us.mean, last.newest_age_us.p99],
                [us(age); 4]
            );
            let split = Split {
                communication_us: us(communication),
                computation_us: us(computation),
                idle_us: us(idle),
            };
            prop_assert_eq!([last.p50, last.p95, last.p99, last.max, last.mean], [split; 5]);
            prop_assert!(!crate::report::render(&run, &summary).is_empty());
        }
    }

    /// Hostile headers, clocks and names: figures stay finite, nothing panics.
    #[test]
    fn any_record_gives_a_summary(
        words in prop::collection::vec(any::<u64>(), 64), start in any::<u64>(),
        end in any::<u64>(), triggered in any::<bool>(), missed in any::<u64>(),
        conversion_ns in any::<u64>(), encoding_ns in 0u64..3,
    ) {
        let mut w: [u64; 64] = words.try_into().unwrap();
        w[0] = 1 | (w[0] & 7) << 16;
        let header = SampleHeader::decode(&w).unwrap();
        let arrival = if triggered { Arrival::Triggered } else { Arrival::Read };
        let mut run = Collector::new(RunFacts { speed_kmh: Some(100.0), ..RunFacts::default() });
        let inputs = [
            input("<b>", "image", arrival, &header, missed),
            input("<b>", "image", arrival, &header, missed),
        ];
        let record = StageRecord {
            stage: "<script>",
            start: MonotonicNs(start),
            end: MonotonicNs(end),
            conversion_ns,
            encoding_ns,
            inputs: &inputs,
            failed: false,
        };
        run.add(&record);
        run.add(&record);
        let summary = run.summary();
        prop_assert!(summary.stages.iter().all(|s| s.processing_us.max.is_finite()));
        let believed = (1u64 << 61) as f64 / 1e3;
        let ages = summary.end_to_end.iter().flat_map(|e| [e.age_us, e.newest_age_us]);
        prop_assert!(
            ages.clone()
                .all(|q| -believed <= q.min && q.max <= believed && q.mean.abs() <= believed)
        );
        prop_assert!(!crate::report::render(&run, &summary).contains("<script>"));
    }
}
