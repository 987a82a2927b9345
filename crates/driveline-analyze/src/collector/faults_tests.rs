// SPDX-License-Identifier: Apache-2.0
//! Cost of a fault, from the records of the components.

use super::*;
use crate::{InputFacts, RunFacts, StageFacts, StageInput, StageRecord};
use driveline_runtime::account::{InputCounters, Record};
use driveline_types::header::Arrival;
use driveline_types::{SampleHeader, TopicName};

fn topic(name: &str) -> TopicName {
    name.parse().expect("a name")
}

fn run() -> Collector {
    let input = |name: &str| InputFacts { name: "in".into(), topic: topic(name), triggers: true };
    let stage = |name: &str, inputs: Vec<InputFacts>, output: &str| StageFacts {
        name: name.into(),
        inputs,
        outputs: vec![topic(output)],
    };
    let stages = vec![
        stage("camera", vec![], "image"),
        stage("lane", vec![input("image")], "lanes"),
        stage("plan", vec![input("lanes")], "plan"),
    ];
    Collector::new(RunFacts { stages, ..RunFacts::default() })
}

/// One call of a stage at a time in milliseconds, on sample `sequence`.
fn call(run: &mut Collector, stage: &str, on: &str, sequence: u64, at_ms: u64) {
    let ms = |ms: u64| MonotonicNs(ms * 1_000_000);
    let header = SampleHeader { sequence, publish_time: ms(at_ms), ..SampleHeader::default() };
    let input = StageInput {
        input: "in",
        topic: topic(on).id(),
        arrival: Arrival::Triggered,
        header: &header,
        missed: 0,
        fresh: true,
    };
    run.add(&StageRecord {
        stage,
        start: ms(at_ms),
        end: ms(at_ms + 1),
        inputs: &[input],
        ..StageRecord::default()
    });
}

#[test]
fn a_module_that_was_ready_again_after_its_fault_is_not_down_for_it() {
    let mut run = run();
    let fault = |run: &mut Collector| {
        run.fault("perception", &["lane".to_owned()], 42, "it was killed".into(), MonotonicNs(1))
    };
    fault(&mut run);
    run.recovered("perception", 80.0);
    run.stays_down("perception");
    assert!(!run.summary().faults[0].down);
    fault(&mut run);
    run.stays_down("perception");
    assert_eq!(run.summary().faults.iter().map(|f| f.down).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn a_fault_has_its_time_its_recovery_and_its_cost_at_each_input() {
    let mut run = run();
    let lane = ["lane".to_owned()];
    call(&mut run, "lane", "image", 7, 100);
    call(&mut run, "plan", "lanes", 7, 102);
    run.fault(
        "perception",
        &lane,
        42,
        "module 'perception' was killed by SIGKILL".into(),
        MonotonicNs(200_000_000),
    );
    run.process_started(&lane, MonotonicNs(270_000_000));
    run.recovered("perception", 80.0);
    // This sample was published before the module's end and read after it.
    call(&mut run, "plan", "lanes", 8, 199);
    assert_eq!(run.summary().faults[0].first_sample_after_ms, None);
    call(&mut run, "lane", "image", 12, 300);
    call(&mut run, "plan", "lanes", 1, 302);
    call(&mut run, "lane", "image", 20, 310);
    let faults = run.summary().faults;
    let missed = MissedByFault {
        stage: "lane".into(),
        input: "in".into(),
        topic: "image".into(),
        samples: Some(4),
    };
    assert_eq!(
        (faults[0].ready_after_ms, faults[0].first_sample_after_ms, &faults[0].missed),
        (Some(80.0), Some(102.0), &vec![missed])
    );
    let line = "module 'perception' was killed by SIGKILL at 0.1 s; ready again after 80 ms, first \
                sample after 102 ms; not received meanwhile: 4 of 'image' by lane";
    assert_eq!(faults[0].line(), line);
}

#[test]
fn the_first_sample_is_unknown_if_another_module_publishes_the_topic() {
    let output = |name: &str| StageFacts {
        name: name.into(),
        inputs: Vec::new(),
        outputs: vec![topic("scan")],
    };
    let input = InputFacts { name: "in".into(), topic: topic("scan"), triggers: true };
    let plan = StageFacts { name: "plan".into(), inputs: vec![input], outputs: Vec::new() };
    let stages = vec![output("left"), output("right"), plan];
    let mut run = Collector::new(RunFacts { stages, ..RunFacts::default() });
    let at = MonotonicNs(200_000_000);
    run.fault("a", &["left".to_owned()], 42, "ended".into(), at);
    run.fault("both", &["left".to_owned(), "right".to_owned()], 43, "ended".into(), at);
    call(&mut run, "plan", "scan", 5, 210);
    let first: Vec<_> = run.summary().faults.iter().map(|f| f.first_sample_after_ms).collect();
    assert_eq!(first, [None, Some(10.0)]);
}

#[test]
fn a_publisher_that_began_anew_leaves_the_cost_unknown() {
    let mut run = run();
    call(&mut run, "lane", "image", 7, 100);
    run.fault("perception", &["lane".to_owned()], 42, "ended".into(), MonotonicNs(200_000_000));
    call(&mut run, "lane", "image", 3, 300);
    call(&mut run, "lane", "image", 9, 310);
    assert_eq!(run.summary().faults[0].missed[0].samples, None);
}

#[test]
fn counters_of_a_restarted_process_count_on_top() {
    let mut run = run();
    let counters = |received, missed| Record::Input {
        component: "lane".into(),
        input: "in".into(),
        topic: topic("image").id(),
        stats: InputCounters { received, missed, ..InputCounters::default() },
    };
    let published = |published| Record::Output {
        component: "lane".into(),
        output: "out".into(),
        topic: topic("lanes").id(),
        published,
        deadlines_missed: 0,
        newest_ns: 0,
        blocked: Default::default(),
    };
    let lane = ["lane".to_owned()];
    run.process_started(&lane, MonotonicNs(1));
    run.take("perception", &counters(10, 2));
    run.take("perception", &published(9));
    // This call's sequence number is newer than the last counters, which come once a second.
    call(&mut run, "plan", "lanes", 12, 100);
    run.process_started(&lane, MonotonicNs(200_000_000));
    call(&mut run, "plan", "lanes", 13, 150);
    run.take("perception", &counters(30, 1));
    run.take("perception", &published(5));
    call(&mut run, "plan", "lanes", 6, 250);
    let summary = run.summary();
    let lane = summary.subscriptions.iter().find(|s| s.stage == "lane").expect("it counted");
    assert_eq!((lane.received, lane.missed, summary.published["lanes"]), (40, 3, 12 + 6));
}

#[test]
fn faults_beyond_the_limit_are_counted() {
    let mut run = run();
    for _ in 0..MAX_FAULTS + 2 {
        run.fault("perception", &["lane".to_owned()], 42, "ended".into(), MonotonicNs(1));
    }
    let summary = run.summary();
    assert_eq!(summary.faults.len(), MAX_FAULTS);
    assert!(
        summary.notes.iter().any(|n| n.starts_with("2 more faults are not listed")),
        "{:?}",
        summary.notes
    );
}

/// A process that ends within its first second has given no counters.
#[test]
fn a_process_that_gave_no_counters_is_counted_by_what_callbacks_saw() {
    let mut run = run();
    let (camera, lane) = (["camera".to_owned()], ["lane".to_owned()]);
    let published = |published| Record::Output {
        component: "camera".into(),
        output: "out".into(),
        topic: topic("image").id(),
        published,
        deadlines_missed: 0,
        newest_ns: 0,
        blocked: Default::default(),
    };
    let received = |received| Record::Input {
        component: "lane".into(),
        input: "in".into(),
        topic: topic("image").id(),
        stats: InputCounters { received, ..InputCounters::default() },
    };
    for sequence in 1..=7 {
        call(&mut run, "lane", "image", sequence, 10 * sequence);
    }
    run.process_started(&camera, MonotonicNs(75_000_000));
    run.process_started(&lane, MonotonicNs(75_000_000));
    for sequence in 1..=3 {
        call(&mut run, "lane", "image", sequence, 100 + 10 * sequence);
    }
    let counts = |run: &Collector| {
        let summary = run.summary();
        let lane = summary.subscriptions.iter().find(|s| s.stage == "lane").expect("it counted");
        (summary.published["image"], lane.received)
    };
    assert_eq!(counts(&run), (10, 10));
    run.take("sensing", &published(5));
    run.take("perception", &received(5));
    assert_eq!(counts(&run), (12, 12));
}

#[test]
fn a_restart_together_with_another_module_is_not_the_recovery_of_an_older_fault() {
    let mut run = run();
    run.fault("perception", &["lane".to_owned()], 42, "ended".into(), MonotonicNs(1));
    run.recovered("perception", 20.0);
    run.recovered("perception", 500.0);
    assert_eq!(run.summary().faults[0].ready_after_ms, Some(20.0));
}

#[test]
fn what_modules_did_not_keep_to_is_in_the_notes_and_bounded() {
    let mut run = Collector::default();
    for i in 0..MAX_BREACHES + 5 {
        run.breach("one", &format!("has {i} threads (`limits: threads: 4`)"), "event");
    }
    let notes = run.summary().notes;
    assert_eq!(
        notes[0],
        "At 0.0 s, module 'one': has 0 threads (`limits: threads: 4`); reaction: event."
    );
    assert_eq!(notes.len(), MAX_BREACHES + 1);
    assert!(notes[MAX_BREACHES].starts_with("5 more events"), "{notes:?}");
}
