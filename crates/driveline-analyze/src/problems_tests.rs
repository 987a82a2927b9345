// SPDX-License-Identifier: Apache-2.0
use super::*;
use crate::{Ended, RunFacts, report};
use driveline_runtime::account::{CallbackCounters, HeldEnd, InputCounters, Record};
use driveline_runtime::launch::CutOff;
use driveline_types::{MonotonicNs, TopicName};

fn topic(name: &str) -> TopicName {
    name.parse().unwrap()
}

fn stage(name: &str, inputs: &[(&str, bool)], outputs: &[&str]) -> StageFacts {
    let input = |(name, triggers): &(&str, bool)| InputFacts {
        name: (*name).into(),
        topic: topic(name),
        triggers: *triggers,
    };
    StageFacts {
        name: name.into(),
        inputs: inputs.iter().map(input).collect(),
        outputs: outputs.iter().map(|t| topic(t)).collect(),
    }
}

fn ended(reason: &'static str) -> Option<Ended> {
    Some(Ended {
        reason,
        ok: true,
        module: None,
        exit_code: None,
        signal: None,
        text: "as asked".into(),
        help: None,
    })
}

/// camera → lane → fusion; fusion also reads `map`, which comes from outside.
fn run(reason: &'static str) -> Collector {
    Collector::new(RunFacts {
        ended: ended(reason),
        external: vec![topic("map")],
        stages: vec![
            stage("camera", &[], &["image"]),
            stage("lane", &[("image", true)], &["lanes"]),
            stage("fusion", &[("lanes", true), ("map", false)], &["scene"]),
        ],
        ..RunFacts::default()
    })
}

fn called(run: &mut Collector, stage: &str) {
    let stats = CallbackCounters { invocations: 1, ..Default::default() };
    run.take("m", &Record::Counters { component: stage.into(), stats });
}

fn input(run: &mut Collector, stage: &str, name: &str, stats: InputCounters) {
    run.take(
        "m",
        &Record::Input {
            component: stage.into(),
            input: name.into(),
            topic: topic(name).id(),
            stats,
        },
    );
}

fn published(run: &mut Collector, stage: &str, name: &str, published: u64) {
    run.take(
        "m",
        &Record::Output {
            component: stage.into(),
            output: name.into(),
            topic: topic(name).id(),
            published,
            deadlines_missed: 0,
            newest_ns: 0,
            blocked: Default::default(),
        },
    );
}

fn whats(run: &Collector) -> Vec<String> {
    of(run).into_iter().map(|f| f.what).collect()
}

fn held(end: Option<HeldEnd>) -> Record {
    let record = Record::Held {
        component: "lane".into(),
        input: "image".into(),
        topic: "image".into(),
        held: 2,
        triggers: true,
        end,
    };
    serde_json::from_slice(&serde_json::to_vec(&record).unwrap()).unwrap()
}

#[test]
fn samples_that_are_kept_are_a_fault_with_count_limit_and_remedy() {
    let mut run = run("finished");
    ["lane", "fusion"].iter().for_each(|s| called(&mut run, s));
    input(
        &mut run,
        "lane",
        "image",
        InputCounters { received: 2, missed: 97, not_read: 1, ..Default::default() },
    );
    assert_eq!(whats(&run), [""; 0]);
    run.take("m", &held(None));
    let summary = run.summary();
    let [problem] = summary.problems.as_slice() else { panic!("{:?}", summary.problems) };
    assert_eq!(
        (problem.kind, &*problem.stage, problem.topic.as_deref()),
        (ProblemKind::SamplesKept, "lane", Some("image"))
    );
    let text = problem.to_string();
    for part in [
        "lane was not called for topic 'image'",
        "2 of its samples",
        "max_held",
        "drop one first, or write in the graph `inputs: {",
        "until the end",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert_eq!(
        (summary.missed_by_triggers, summary.not_read_by_triggers, summary.unread_by_triggers),
        (97, 1, 0)
    );
    let page = report::render(&run, &summary);
    for part in [
        "This run did not do all of its work.",
        "lane was not called for topic",
        "1 sample that was to be worked on could still be read",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(!page.contains("Every sample that was to be worked on was worked on."));

    run.take("m", &held(Some(HeldEnd { lasted_ms: 1500, missed: 7 })));
    run.take("m", &held(None));
    run.take("m", &held(Some(HeldEnd { lasted_ms: 1300, missed: 9 })));
    let text = of(&run)[0].to_string();
    assert!(
        text.contains("topic 'image' 2 times")
            && text.contains("for 1.3 s the last time, in which 9 were missed"),
        "{text}"
    );

    run.take("m", &held(None));
    run.process_started(&["lane".to_owned()], MonotonicNs(1));
    let text = of(&run)[0].to_string();
    assert!(text.contains("got no others until its module ended and was started again"), "{text}");
}

#[test]
fn what_waits_at_the_end_keeps_the_report_from_saying_that_all_was_worked_on() {
    let mut run = run("interrupted");
    called(&mut run, "lane");
    input(
        &mut run,
        "lane",
        "image",
        InputCounters { received: 9, not_read: 3, ..Default::default() },
    );
    let summary = run.summary();
    assert_eq!(
        (summary.problems.len(), summary.not_read_by_triggers),
        (0, 3),
        "samples that are queued at Ctrl-C are no problem"
    );
    let page = report::render(&run, &summary);
    assert!(page.contains(
        "3 samples that were to be worked on could still be read at the end, and were not."
    ));
    assert!(!page.contains("Every sample that was to be worked on was worked on."));
}

#[test]
fn an_interrupted_run_that_was_not_short_names_who_was_never_called() {
    // The component `both` needs two inputs, and no sample comes on one of them.
    let with = |ran_s| {
        let mut run = run("interrupted");
        run.facts.stages.push(stage("both", &[("image", true), ("scene", true)], &[]));
        ["lane", "fusion"].iter().for_each(|s| called(&mut run, s));
        input(&mut run, "both", "image", InputCounters { received: 250, ..Default::default() });
        run.facts.ran_s = Some(ran_s);
        of(&run).iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(with(5.0), ["both was never called: nothing came on topic 'scene'"]);
    assert_eq!(with(1.0), [""; 0], "the other input may just have been slow");
}

#[test]
fn a_connection_that_never_existed_is_a_fault_with_its_reason() {
    let edge = Unconnected {
        topic: "image".into(),
        publisher: "camera".into(),
        subscription: "lane".into(),
        why: "all pins are promised; raise `pins` of the topic".into(),
        since_restart: false,
    };
    let with = |reason, published_by_camera, external: &[&str]| {
        let mut run = run(reason);
        run.facts.unconnected.push(edge.clone());
        run.facts.external.extend(external.iter().map(|t| topic(t)));
        ["lane", "fusion"].iter().for_each(|s| called(&mut run, s));
        published(&mut run, "camera", "image", published_by_camera);
        of(&run)
    };
    let problems = with("finished", 20, &[]);
    assert_eq!(
        problems[0].to_string(),
        "lane never received topic 'image' from camera: all pins are promised; raise `pins` of the \
         topic"
    );
    assert_eq!(problems.len(), 1);
    assert_eq!(with("finished", 0, &[]).len(), 1);
    assert_eq!(with("interrupted", 20, &[]).len(), 1);
    assert_eq!(with("interrupted", 0, &[]), [], "no sample could arrive before the interrupt");
    assert_eq!(with("finished", 20, &["image"]), [], "the graph marks the topic `external`");
}

#[test]
fn a_triggered_component_that_was_never_called_is_a_fault_when_the_run_has_finished() {
    let mut finished = run("finished");
    assert_eq!(whats(&finished), ["lane was never called", "fusion was never called"]);
    called(&mut finished, "lane");
    input(&mut finished, "fusion", "lanes", InputCounters { received: 3, ..Default::default() });
    assert_eq!(whats(&finished), [""; 0], "what fusion lacks comes from outside");
    input(&mut finished, "fusion", "map", InputCounters { received: 1, ..Default::default() });
    let problems = of(&finished);
    assert!(
        problems[0].why.contains("samples came, and none of them triggered it"),
        "{problems:?}"
    );
    finished.facts.ended = None;
    assert_eq!(whats(&finished), [""; 0], "samples may still come during the run");
    finished.facts.ended = ended("module_died");
    assert_eq!(whats(&finished), [""; 0], "the end of the module is the reason");
}

#[test]
fn inputs_from_outside_and_an_early_interrupt_are_no_faults() {
    // Only lane and fusion run here: nothing in this run publishes `image`.
    let mut part = run("finished");
    part.facts.stages.remove(0);
    assert_eq!(whats(&part), ["fusion was never called"]);
    part.facts.external.push(topic("lanes"));
    assert_eq!(whats(&part), [""; 0]);

    let mut interrupted = run("interrupted");
    assert_eq!(whats(&interrupted), [""; 0], "before a sample could arrive");
    input(&mut interrupted, "lane", "image", InputCounters { not_read: 1, ..Default::default() });
    assert_eq!(whats(&interrupted), [""; 0], "the first one is still queued");
    input(&mut interrupted, "lane", "image", InputCounters { received: 4, ..Default::default() });
    assert_eq!(whats(&interrupted), ["lane was never called"]);
}

#[test]
fn a_module_that_is_suspended_at_the_end_is_a_problem_however_the_run_ends() {
    for reason in ["finished", "interrupted"] {
        let mut run = run(reason);
        ["lane", "fusion"].iter().for_each(|s| called(&mut run, s));
        run.facts.suspended.push("perception".into());
        assert_eq!(whats(&run), ["'perception' was suspended when the run ended"], "{reason}");
    }
}

#[test]
fn where_a_count_cannot_be_known_the_edge_says_so_with_the_reason() {
    let cut_off = |stages: &[&str], external: &[&str]| {
        let mut run = run("interrupted");
        run.facts.external.extend(external.iter().map(|t| topic(t)));
        input(&mut run, "lane", "image", InputCounters { received: 4, ..Default::default() });
        published(&mut run, "camera", "image", 60);
        stages.iter().for_each(|s| run.cut_off(s));
        let summary = run.summary();
        let page = report::render(&run, &summary);
        let lane = summary.subscriptions.iter().find(|s| s.stage == "lane").unwrap();
        assert_eq!(page.contains("56 + unknown</td>"), lane.unknown.is_some());
        assert_eq!(
            summary
                .notes
                .iter()
                .any(|n| n.contains("'image' were not read by lane is not known (at least 56): ")),
            lane.unknown.is_some()
        );
        // Where the count is unknown, no other sentence gives a total.
        assert_eq!(page.contains("56 of 60"), lane.unread > 0 && lane.unknown.is_none());
        assert_eq!(page.contains("At least 56 samples were not read"), lane.unknown.is_some());
        assert!(!page.contains("Every sample that was to be worked on was worked on."));
        (lane.not_read, lane.unknown.clone())
    };
    assert_eq!(cut_off(&["lane"], &[]), (56, None), "the publisher has counted");
    let (not_read, why) = cut_off(&["lane", "camera"], &[]);
    assert!(
        not_read == 56
            && why
                .is_some_and(|w| w
                    .contains("the process of camera, which publishes on the topic, was killed"))
    );
    let (_, why) = cut_off(&["lane"], &["image"]);
    assert!(why.is_some_and(|w| w.contains("published from outside of the run")));
}

#[test]
fn work_that_was_cut_off_is_a_problem_and_the_reason_why_its_readers_were_not_called() {
    let mut run = run("finished");
    called(&mut run, "camera");
    published(&mut run, "camera", "image", 8);
    input(
        &mut run,
        "lane",
        "image",
        InputCounters { received: 1, not_read: 7, ..Default::default() },
    );
    let kinds = |run: &Collector| of(run).iter().map(|p| p.kind).collect::<Vec<_>>();
    assert_eq!(kinds(&run), [ProblemKind::NeverCalled; 2], "lane and fusion");
    let unread = vec![("image".to_owned(), 7)];
    run.facts_mut().cut_off =
        vec![CutOff { component: "lane".into(), running: 1, unread, silent: false }];
    assert_eq!(kinds(&run), [ProblemKind::CutOff]);
    let [problem] = of(&run).try_into().unwrap();
    assert_eq!((problem.stage.as_str(), problem.topic.as_deref()), ("lane", Some("image")));
    assert_eq!(problem.what, "lane was cut off");
    assert!(
        problem.why.starts_with(
            "component 'lane' had work left: 1 call in progress, 7 unread of topic 'image'"
        ),
        "{}",
        problem.why
    );
}
