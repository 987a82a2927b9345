// SPDX-License-Identifier: Apache-2.0
//! Tests the check of each invariant with a good run, and with a run that breaks only this
//! invariant.
#![allow(clippy::unwrap_used, reason = "a test may stop at a surprise")]

use super::*;
use crate::graph::ModuleFacts;
use crate::summary::{ReportedFault, Stage};

const PID: u32 = 4711;

fn graph() -> GraphFacts {
    let camera = ModuleFacts {
        components: vec!["camera".into()],
        publishes: vec!["image".into()],
        ..ModuleFacts::named("sensing")
    };
    let lane = ModuleFacts {
        components: vec!["lane".into()],
        reads: vec!["image".into()],
        ..ModuleFacts::named("perception")
    };
    GraphFacts { name: "demo".into(), modules: vec![camera, lane], ends_with_launcher: true }
}

fn caused(kind: FaultKind, answer: Answer) -> Caused {
    Caused {
        number: 1,
        kind,
        module: Some("perception".into()),
        pid: Some(PID),
        at_s: 3.0,
        answer,
        reported: None,
        ready_after_ms: None,
        first_sample_after_ms: None,
    }
}

fn edge() -> Edge {
    Edge {
        stage: "lane".into(),
        input: "image".into(),
        topic: "image".into(),
        received: 290,
        missed: 1,
        not_read: 1,
        not_connected: 8,
        ..Edge::default()
    }
}

/// Returns a run of 10 s with a camera at 30 Hz, in which the camera's reader is killed once.
fn good() -> RunFacts {
    let fault = ReportedFault {
        module: "perception".into(),
        pid: PID,
        at_s: 3.0,
        cause: "module 'perception' was killed by SIGKILL (killed from outside) while running"
            .into(),
        down: false,
        ready_after_ms: Some(110.0),
        first_sample_after_ms: Some(150.0),
    };
    let summary = RunSummary {
        duration_s: 10.0,
        faults: vec![fault],
        published: [("image".to_owned(), 300)].into(),
        subscriptions: vec![edge()],
        stages: vec![Stage { stage: "lane".into(), runs: 290, failed: 0 }],
        ..RunSummary::default()
    };
    RunFacts {
        caused: vec![caused(FaultKind::Kill, Answer::Recovered(115.0))],
        summary: Some(summary),
        ended: Some(Ok(0)),
        ..RunFacts::default()
    }
}

/// Returns the broken invariants with their counts.
fn broken(mut run: RunFacts) -> Vec<(Invariant, u64)> {
    let findings = judge(&graph(), &mut run);
    assert!(findings.iter().all(|f| (f.count == 0) == f.details.is_empty()), "{findings:?}");
    findings.iter().filter(|f| f.count > 0).map(|f| (f.invariant, f.count)).collect()
}

/// Returns the good run with a change of its summary.
fn with(change: impl FnOnce(&mut RunSummary)) -> RunFacts {
    let mut run = good();
    change(run.summary.as_mut().unwrap());
    run
}

#[test]
fn a_run_that_answers_a_kill_breaks_nothing_and_the_report_is_joined_to_the_fault() {
    let mut run = good();
    assert_eq!(judge(&graph(), &mut run).iter().map(|f| f.count).sum::<u64>(), 0);
    let fault = &run.caused[0];
    assert!(fault.reported.as_ref().unwrap().contains("SIGKILL"));
    assert_eq!((fault.ready_after_ms, fault.first_sample_after_ms), (Some(110.0), Some(150.0)));
}

#[test]
fn a_sample_that_no_count_names_is_unaccounted_and_so_is_one_that_two_name() {
    for received in [288, 292] {
        let run = with(|s| s.subscriptions[0].received = received);
        assert_eq!(broken(run), [(Invariant::Unaccounted, 2)]);
    }
    let run = with(|s| {
        s.subscriptions[0].received = 280;
        s.subscriptions[0].unknown = Some("its publisher was killed too".into());
    });
    assert_eq!(broken(run), [], "what cannot be known is no breach");
}

#[test]
fn an_input_that_is_not_connected_again_is_unaccounted_although_its_account_closes() {
    // 325 samples are explained: 309 by 2 × (5 s + 0.15 s) at 30 samples a second, and 2 × 8 by
    // `PER_END`, for the run and for the kill.
    let silent = |s: &mut RunSummary| {
        s.duration_s = 60.0;
        s.published = [("image".to_owned(), 1800)].into();
        s.subscriptions[0].received = 100;
        s.subscriptions[0].not_connected = 1698;
    };
    assert_eq!(broken(with(silent)), [(Invariant::Unaccounted, 1698 - 325)]);
    // A module that stays down explains the missing samples.
    let mut run = with(|s| {
        silent(s);
        s.faults[0] = ReportedFault {
            down: true,
            ready_after_ms: None,
            first_sample_after_ms: None,
            ..s.faults[0].clone()
        };
    });
    run.caused[0].answer = Answer::Down;
    run.ended = Some(Ok(4));
    assert_eq!(broken(run), []);
}

#[test]
fn a_torn_sample_is_counted() {
    let run = with(|s| {
        s.subscriptions[0].corrupt = 3;
        s.subscriptions[0].received -= 3;
    });
    assert_eq!(broken(run), [(Invariant::Torn, 3)]);
}

#[test]
fn whatever_is_left_is_leaked() {
    let mut run = good();
    run.left.processes = vec![17, 18];
    run.left.files = vec!["run-1.control".into()];
    run.left.growth.descriptors = [("lane".to_owned(), 5)].into();
    run.left.growth.segments = [("lane".to_owned(), 2)].into();
    run.left.growth.files = 1;
    assert_eq!(broken(run), [(Invariant::Leaked, 2 + 1 + 5 + 2 + 1)]);
}

#[test]
fn unread_samples_of_ended_publishers_are_kept_up_to_their_bound() {
    let grown = |kills, segments| {
        let mut run = with(|s| {
            let fault = ReportedFault { module: "sensing".into(), ..s.faults[0].clone() };
            s.faults = vec![fault; kills];
        });
        let kill = Caused { module: Some("sensing".into()), ..run.caused[0].clone() };
        run.caused = vec![kill; kills];
        run.left.growth.segments = [("perception".to_owned(), segments)].into();
        broken(run)
    };
    assert_eq!(grown(2, 6), []);
    assert_eq!(grown(2, 7), [(Invariant::Leaked, 1)]);
    // An input keeps samples of 16 ended publishers at most, however many have ended.
    assert_eq!(grown(50, 48), []);
    assert_eq!(grown(50, 51), [(Invariant::Leaked, 3)]);
}

#[test]
fn a_restart_that_has_no_end_is_found_in_the_report_and_in_the_last_state() {
    let run = with(|s| s.faults[0].ready_after_ms = None);
    assert_eq!(broken(run), [(Invariant::Restarts, 1)]);
    let mut run = good();
    run.unfinished = vec!["module 'perception' is restarting".into()];
    assert_eq!(broken(run), [(Invariant::Restarts, 1)]);
}

#[test]
fn a_fault_that_is_missing_in_the_report_or_has_another_cause_is_found() {
    let run = with(|s| s.faults.clear());
    assert_eq!(broken(run), [(Invariant::Reported, 1)]);
    let run = with(|s| s.faults[0].cause = "module 'perception' exited with code 1".into());
    assert_eq!(broken(run), [(Invariant::Reported, 1)]);
}

#[test]
fn a_fault_that_nothing_caused_is_a_false_alarm() {
    let run = with(|s| s.faults.push(ReportedFault { pid: 99, ..s.faults[0].clone() }));
    assert_eq!(broken(run), [(Invariant::Unexpected, 1)]);
    // A process that was only stopped is not restarted.
    let mut run = good();
    run.caused = vec![caused(FaultKind::Stop, Answer::Resumed)];
    assert_eq!(broken(run), [(Invariant::Unexpected, 1)]);
}

#[test]
fn an_exception_is_a_failed_call_with_its_cause() {
    let run = |failed, text: &str| {
        let mut run = with(|s| {
            s.faults.clear();
            s.stages[0].failed = failed;
            s.failures = vec![text.to_owned()];
        });
        run.caused = vec![caused(FaultKind::Exception, Answer::Failed)];
        run.ended = Some(Ok(6));
        run
    };
    let text = format!("lane: panicked: {INJECTED}");
    assert_eq!(broken(run(1, &text)), []);
    assert_eq!(broken(run(0, &text)), [(Invariant::Reported, 1)]);
    assert_eq!(broken(run(1, "lane: too dark")), [(Invariant::Reported, 1)]);
    let of_another = format!("camera: panicked: {INJECTED}");
    assert_eq!(broken(run(1, &of_another)), [(Invariant::Reported, 1)]);
    let mut full = run(1, &of_another);
    if let Some(summary) = &mut full.summary {
        summary.failures = vec![of_another; driveline_analyze::MAX_FAILURES];
    }
    assert_eq!(broken(full), [], "the text of this module may be missing");
    assert_eq!(broken(run(3, &text)), [], "a component may refuse what a broken neighbour sends");
}

#[test]
fn a_fault_without_an_answer_is_named() {
    let mut run = with(|s| s.faults.clear());
    run.caused[0].answer = Answer::Missing("no call took it within 30 s".into());
    assert_eq!(broken(run), [(Invariant::Answered, 1)]);
}

#[test]
fn exit_codes_that_no_fault_explains_and_runs_that_do_not_end_are_named() {
    for ended in [Ok(5), Ok(4), Ok(101), Err("the run did not end within 90 s".to_owned())] {
        let mut run = good();
        run.ended = Some(ended.clone());
        assert_eq!(broken(run), [(Invariant::Ended, 1)], "{ended:?}");
    }
    // The run's launcher was killed, so the run has no report.
    let run = RunFacts {
        caused: vec![caused(FaultKind::Launcher, Answer::Ended(2000.0))],
        ..RunFacts::default()
    };
    assert_eq!(broken(run), []);
}
