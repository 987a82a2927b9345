// SPDX-License-Identifier: Apache-2.0
use super::super::{ChainJob, EdgeSpec, InputAccount, StageSpec};
use super::*;
use crate::harness::{Reach, Reliability, Role, Wait};

fn job() -> ChainJob {
    let stage = |name: &str, inputs: &[&str], output: Option<&str>| StageSpec {
        name: name.into(),
        inputs: inputs.iter().map(|i| (*i).into()).collect(),
        output: output.map(Into::into),
        work: "copy".into(),
        parameters: serde_json::Map::new(),
        cpu: None,
    };
    let edge = EdgeSpec { system: crate::harness::System::Driveline, size: 64 };
    ChainJob {
        stages: vec![
            stage("source", &[], Some("x")),
            stage("middle", &["x"], Some("y")),
            stage("sink", &["y", "x"], None),
        ],
        edges: [("x".into(), edge.clone()), ("y".into(), edge)].into(),
        reach: Reach::Host,
        rate_hz: Some(10.0),
        warm_up: 2,
        messages: 4,
        wait: Wait::Block,
        reliability: Reliability::BestEffort,
        depth: 1,
        priority: 0,
    }
}

fn reports(
    rows: Vec<StageRow>,
    published: u64,
    inputs: &[(&str, u64, u64)],
    skipped: u64,
    no_output: u64,
) -> StageReport {
    let stage = StageAccount {
        worked: rows.len() as u64,
        inputs: inputs
            .iter()
            .map(|(t, r, m)| InputAccount {
                topic: (*t).into(),
                received: *r,
                missed: *m,
                damaged: 0,
            })
            .collect(),
        skipped,
        no_output,
        report: [("marks".to_owned(), 7)].into(),
        ..StageAccount::default()
    };
    StageReport { end: End { published, ..End::new(Role::Stage, 0) }, stage, rows }
}

/// Nine samples at intervals of 1000, the last three as cool-down. The middle stage misses the
/// fourth and has no output for the fifth. The sink skips the first sample, because its other input
/// has no message yet.
fn run() -> Vec<StageReport> {
    let source: Vec<_> = (1..=9)
        .map(|n| StageRow {
            origin: n,
            source: n * 1000 + 20,
            published: 0,
            in_hand: n * 1000,
            work_start: n * 1000 + 1,
            work_end: n * 1000 + 19,
            before_publish: n * 1000 + 20,
            returned: n * 1000 + 22,
        })
        .collect();
    let middle: Vec<_> = source
        .iter()
        .filter(|r| r.origin != 4)
        .map(|r| StageRow {
            published: r.before_publish,
            in_hand: r.before_publish + 5,
            work_start: r.before_publish + 7,
            work_end: r.before_publish + 107,
            before_publish: if r.origin == 5 { 0 } else { r.before_publish + 110 },
            returned: if r.origin == 5 { 0 } else { r.before_publish + 111 },
            ..*r
        })
        .collect();
    let sink = middle
        .iter()
        .filter(|r| r.before_publish > 0 && r.origin > 1)
        .map(|r| StageRow {
            published: r.before_publish,
            in_hand: r.before_publish + 3,
            work_start: r.before_publish + 3,
            work_end: r.before_publish + 40,
            before_publish: 0,
            returned: 0,
            ..*r
        })
        .collect();
    vec![
        reports(source, 10, &[], 0, 0),
        reports(middle, 8, &[("x", 9, 1)], 0, 1),
        reports(sink, 0, &[("y", 8, 0), ("x", 7, 3)], 1, 0),
    ]
}

fn accounted(reports: &[StageReport]) -> Observations {
    let job = job();
    account(&Shape::new(&job).unwrap(), reports, 0)
}

fn values(o: &Observations, subject: &str, quantity: Quantity) -> Vec<u64> {
    let of = |s: &&crate::observations::Series| s.subject == subject && s.quantity == quantity;
    o.series.iter().find(of).map(|s| s.points.iter().map(|p| p.value).collect()).unwrap_or_default()
}

#[test]
fn what_arrives_and_what_does_not_adds_up_without_the_warm_up() {
    let o = accounted(&run());
    assert_eq!(o.invalid, Vec::<String>::new());
    let counters: Vec<(&str, u64)> = o.counters.iter().map(|(n, c)| (n.as_str(), *c)).collect();
    // The samples 3 to 6 count. The middle stage does not receive 4 and has no output for 5.
    assert_eq!(
        counters,
        [
            ("completed", 2),
            ("lost: x to middle", 1),
            ("lost: y to sink", 0),
            ("middle: marks", 7),
            ("not passed on by middle", 1),
            ("output mHz", 333_333_333),
            ("replaced unread: x at sink", 3),
            ("sent", 4),
            ("sink: marks", 7),
            ("skipped by sink, an input had nothing yet", 1),
            ("source: marks", 7),
        ]
    );
    assert_eq!(values(&o, "source", Quantity::Computation), [19; 4]);
    assert_eq!(values(&o, "middle", Quantity::Communication), [7; 3]);
    assert_eq!(values(&o, "middle", Quantity::Computation), [103; 2]);
    assert_eq!(values(&o, "sink", Quantity::Communication), [3; 2]);
    assert_eq!(values(&o, "sink", Quantity::Computation), [37; 2]);
    // The middle stage publishes 110 after the source, and the sink finishes 40 later.
    assert_eq!(values(&o, "end to end", Quantity::Latency), [150; 2]);
    let first = o.series.iter().find(|s| s.subject == "end to end").unwrap().points[0];
    assert_eq!(first.time_ns, 3020);
}

/// Every count and every stamp matters: a wrong one makes the run invalid, with the stage's name.
#[test]
fn nothing_can_be_wrong_without_being_said() {
    type Damage = fn(&mut [StageReport]);
    let damages: [(Damage, &str, &str); 16] = [
        (|t| t[1].stage.inputs[0].received += 1, "middle", "were published"),
        (|t| t[1].stage.inputs[0].missed -= 1, "middle", "were published"),
        (|t| t[2].stage.inputs[1].missed -= 1, "sink", "'x'"),
        (|t| t[2].stage.skipped = 0, "sink", "skipped"),
        (|t| t[1].stage.no_output = 0, "middle", "gave nothing"),
        (|t| t[2].rows.truncate(2), "sink", "noted"),
        (|t| t[2].rows[1].origin = 4, "sink", "never published"),
        (|t| t[1].rows[1].published += 1, "middle", "never published"),
        (|t| t[1].rows[1].source += 1, "middle", "never published"),
        (|t| t[1].rows.swap(0, 1), "middle", "out of order"),
        (|t| t[1].rows[1].work_start = 1, "middle", "back in time"),
        (|t| t[1].stage.inputs[0].damaged = 1, "middle", "damaged"),
        // A peer may report any number, and their sums need more than 64 bits.
        (|t| t[1].stage.inputs[0].missed = u64::MAX, "middle", "were published"),
        (|t| t[2].stage.skipped = u64::MAX, "sink", "skipped"),
        (|t| t[1].stage.no_output = u64::MAX, "middle", "gave nothing"),
        (|t| _ = t[1].end.not_sent.insert("late".into(), u64::MAX), "middle", "noted"),
    ];
    for (number, (damage, stage, said)) in damages.into_iter().enumerate() {
        let mut t = run();
        damage(&mut t);
        let invalid = accounted(&t).invalid.join("; ");
        assert!(
            invalid.contains(&format!("'{stage}'")) && invalid.contains(said),
            "damage {number}: {invalid}"
        );
    }
}

#[test]
fn a_chain_that_gets_nothing_through_is_invalid() {
    let mut t = run();
    t[2].rows.truncate(1);
    assert!(
        accounted(&t).invalid.iter().any(|i| i.contains("none of the samples")),
        "{:?}",
        accounted(&t).invalid
    );
}

#[test]
fn a_source_that_gives_up_is_accounted_for() {
    let mut t = run();
    // The source did not make the last five samples.
    t[0].rows.truncate(4);
    t[0].end.published = 5;
    t[0].end.not_sent.insert("late".into(), 5);
    t[1].rows.truncate(3);
    (t[1].stage.worked, t[1].stage.no_output, t[1].end.published) = (3, 0, 4);
    (t[1].stage.inputs[0].received, t[1].stage.inputs[0].missed) = (4, 1);
    t[2].rows.truncate(2);
    t[2].stage.worked = 2;
    t[2].stage.inputs[0].received = 4;
    (t[2].stage.inputs[1].received, t[2].stage.inputs[1].missed) = (4, 1);
    let o = accounted(&t);
    assert_eq!(o.invalid, Vec::<String>::new());
    assert_eq!(
        (o.counters["sent"], o.counters["completed"], o.counters["not sent by source: late"]),
        (2, 1, 5)
    );
}

#[test]
fn rows_come_whole_from_their_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.stage");
    let words: Vec<u8> = (1..=16u64).flat_map(u64::to_le_bytes).collect();
    std::fs::write(&path, &words).unwrap();
    let rows = read_rows(&path, 2).unwrap();
    assert_eq!((rows.len(), rows[1].origin, rows[1].returned), (2, 9, 16));
    std::fs::write(&path, &words[..72]).unwrap();
    assert!(read_rows(&path, 2).unwrap_err().to_string().contains("72 bytes"));
}

#[test]
fn a_stamp_from_before_the_run_or_from_the_future_makes_it_invalid() {
    let job = job();
    let invalid = |reports: &[StageReport], since_ns| {
        account(&Shape::new(&job).unwrap(), reports, since_ns).invalid.join("; ")
    };
    let first = run().iter().flat_map(|t| &t.rows).flat_map(StageRow::stamps).min().unwrap();
    assert_eq!(invalid(&run(), first), "");
    assert!(
        invalid(&run(), first + 1).contains("stamps from before the run"),
        "{}",
        invalid(&run(), first + 1)
    );
    let mut reports = run();
    reports.iter_mut().flat_map(|t| &mut t.rows).for_each(|r| r.returned = u64::MAX);
    assert!(
        invalid(&reports, first).contains("have not happened yet"),
        "{}",
        invalid(&reports, first)
    );
}
