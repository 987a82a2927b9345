// SPDX-License-Identifier: Apache-2.0
//! Accounts of valid and invalid runs.

use super::*;
use crate::harness::{PROTOCOL, Reach, Reliability, System, Take, Wait, write_rows};
use std::path::PathBuf;

struct Bench {
    dir: tempfile::TempDir,
    job: Job,
}

/// A run with two warm-up and three counted samples; sequence 1 is the first, 7 the end mark.
fn bench(payload: Payload) -> Bench {
    let dir = tempfile::tempdir().unwrap();
    let job = Job {
        protocol: PROTOCOL,
        role: Role::Publisher,
        system: System::Driveline,
        topic: "link".into(),
        reliability: Reliability::BestEffort,
        reach: Reach::Host,
        domain_dir: PathBuf::new(),
        size: 64,
        wait: Wait::Block,
        take: Take::Borrow,
        payload,
        pace: Pace::RateHz(100.0),
        warm_up: 2,
        messages: 3,
        depth: 1,
        subscribers: 1,
        index: 0,
        publisher_cpu: None,
        subscriber_cpus: Vec::new(),
        priority: 0,
        processing_us: 0,
        answer_timeout_ms: 10_000,
        lose_every: 0,
        raw_dir: dir.path().to_owned(),
    };
    Bench { dir, job }
}

impl Bench {
    fn publisher(&self, sequences: &[u64]) -> End {
        let rows: Vec<_> = sequences
            .iter()
            .map(|&s| SentRow {
                sequence: s,
                scheduled: s * 1000,
                before_fill: s * 1000 + 10,
                before_publish: s * 1000 + 20,
                returned: s * 1000 + 50,
            })
            .collect();
        let path = self.dir.path().join("sent");
        write_rows(&path, &rows).unwrap();
        End {
            sent_file: Some(path),
            published: rows.len() as u64 + 2,
            first_sequence: 1,
            counted_from: 4,
            wake_calls: Some(3),
            ..End::new(Role::Publisher, 0)
        }
    }

    fn subscriber(&self, index: usize, sequences: &[u64], missed: u64) -> End {
        let rows: Vec<_> = sequences
            .iter()
            .map(|&s| ReceivedRow {
                sequence: s,
                woken: s * 1000 + 90,
                in_hand: s * 1000 + 120 + index as u64,
                copied: 0,
                read: 0,
            })
            .collect();
        let path = self.dir.path().join(format!("received-{index}"));
        write_rows(&path, &rows).unwrap();
        End {
            received_file: Some(path),
            received: rows.len() as u64 + 2,
            missed,
            ..End::new(Role::Subscriber, index)
        }
    }

    fn account(&self, ends: &[End]) -> Account {
        account(&self.job, ends, 0).unwrap()
    }
}

#[test]
fn a_clean_run_closes_and_only_counted_samples_have_figures() {
    let b = bench(Payload::Untouched);
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 5, 6], 0), b.publisher(&[2, 3, 4, 5, 6])]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!(
        (a.scheduled, a.sent, a.received.clone(), a.missed.clone()),
        (3, 3, vec![3], vec![0])
    );
    assert_eq!(a.samples[&Metric::Transport], [100; 3]);
    assert_eq!(a.samples[&Metric::ScheduleRelative], [120; 3]);
    assert_eq!(a.samples[&Metric::WakeToHand], [30; 3]);
    assert_eq!(a.samples[&Metric::PublishCall], [30; 3]);
    assert_eq!(a.wake_calls_per_publish, Some(1.0));
    assert!(!a.samples.contains_key(&Metric::LastSubscriber));
}

#[test]
fn a_missed_sample_is_counted_and_has_no_latency() {
    let b = bench(Payload::Untouched);
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 6], 1), b.publisher(&[2, 3, 4, 5, 6])]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!((a.sent, a.received.clone(), a.missed.clone()), (3, vec![2], vec![1]));
    assert_eq!(a.samples[&Metric::Transport].len(), 2);
    assert_eq!(a.stamps.iter().filter(|s| s.received.is_none()).count(), 1);
}

#[test]
fn an_unreported_sample_makes_the_run_invalid() {
    let b = bench(Payload::Untouched);
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 6], 0), b.publisher(&[2, 3, 4, 5, 6])]);
    assert_eq!(a.invalid.len(), 1, "{:?}", a.invalid);
    assert!(a.invalid[0].contains("1 are lost and in no count"), "{:?}", a.invalid);
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 5, 6], 1), b.publisher(&[2, 3, 4, 5, 6])]);
    assert!(a.invalid[0].contains("1 too many"), "{:?}", a.invalid);
}

#[test]
fn what_was_not_sent_is_a_category_of_its_own() {
    let b = bench(Payload::Untouched);
    let mut publisher = b.publisher(&[2, 3, 4, 5]);
    publisher.not_sent.insert("no loan".into(), 1);
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 5], 0), publisher.clone()]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!((a.scheduled, a.sent, a.not_sent["no loan"]), (3, 2, 1));
    publisher.not_sent.clear();
    let a = b.account(&[b.subscriber(0, &[2, 3, 4, 5], 0), publisher]);
    assert!(
        a.invalid[0].contains("5 samples were scheduled, 4 sent and 0 not sent"),
        "{:?}",
        a.invalid
    );
}

/// Five samples are due. One of them is not sent, and one subscriber misses two of the other four.
#[test]
fn processor_time_is_that_of_both_ends_for_each_sample_that_was_sent() {
    let mut b = bench(Payload::Untouched);
    (b.job.subscribers, b.job.messages) = (2, 5);
    let sent = [2, 3, 4, 5, 6, 7];
    let mut publisher = End { cpu_ns: 8_000, cpu_samples: 5, ..b.publisher(&sent) };
    publisher.not_sent.insert("no loan".into(), 1);
    let readers = [(2, vec![2, 3, 4, 5], 2), (4, sent.to_vec(), 0)];
    let mut ends: Vec<End> = readers
        .iter()
        .enumerate()
        .map(|(i, (n, rows, lost))| End {
            cpu_ns: 6_000,
            cpu_samples: *n,
            ..b.subscriber(i, rows, *lost)
        })
        .collect();
    ends.push(publisher);
    let a = b.account(&ends);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!((a.scheduled, a.sent, a.received.clone()), (5, 4, vec![2, 4]));
    // The publisher used 8 µs and each of two subscribers 6 µs for four messages: 5 µs a message,
    // although one subscriber lost two of them.
    assert_eq!(
        (a.publisher_cpu_ns_per_sample, a.subscriber_cpu_ns_per_sample),
        (Some(2_000.0), Some(1_500.0))
    );
    // Processor time that an end cannot attribute is unknown, not zero.
    ends[0].cpu_samples = 0;
    ends[1].cpu_samples = 0;
    ends[2].cpu_samples = 0;
    let a = b.account(&ends);
    assert_eq!((a.publisher_cpu_ns_per_sample, a.subscriber_cpu_ns_per_sample), (None, None));
}

#[test]
fn the_last_of_several_subscribers_counts_where_all_received() {
    let mut b = bench(Payload::Untouched);
    b.job.subscribers = 2;
    let a = b.account(&[
        b.subscriber(0, &[2, 3, 4, 5, 6], 0),
        b.subscriber(1, &[2, 3, 4, 6], 1),
        b.publisher(&[2, 3, 4, 5, 6]),
    ]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!(a.samples[&Metric::LastSubscriber], [101; 2]);
    assert_eq!((a.received.clone(), a.missed.clone()), (vec![3, 2], vec![0, 1]));
}

#[test]
fn strangers_repetitions_and_absentees_are_invalid() {
    let mut b = bench(Payload::Untouched);
    let invalid = |b: &Bench, rows: &[u64]| {
        b.account(&[b.subscriber(0, rows, 0), b.publisher(&[2, 3, 4, 5, 6])]).invalid.join("; ")
    };
    assert!(invalid(&b, &[2, 3, 4, 5, 9]).contains("never sent"));
    assert!(invalid(&b, &[2, 3, 4, 4, 5]).contains("twice or out of order"));
    b.job.subscribers = 2;
    assert!(invalid(&b, &[2, 3, 4, 5, 6]).contains("1 of 2 subscribers"));
}

#[test]
fn damaged_and_unverified_payloads_are_invalid() {
    let b = bench(Payload::Filled);
    let mut subscriber = b.subscriber(0, &[2, 3, 4, 5, 6], 0);
    subscriber.verified = 6;
    let publisher = b.publisher(&[2, 3, 4, 5, 6]);
    let a = b.account(&[subscriber.clone(), publisher.clone()]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!((a.samples[&Metric::Fill][0], a.samples[&Metric::FillAndTransport][0]), (10, 110));
    subscriber.mismatches = vec!["sample 4: torn".into()];
    subscriber.verified = 5;
    let invalid = b.account(&[subscriber, publisher]).invalid;
    assert!(
        invalid.iter().any(|i| i.contains("sample 4: torn"))
            && invalid.iter().any(|i| i.contains("5 payloads were verified of 6")),
        "{invalid:?}"
    );
}

#[test]
fn whatever_is_lost_at_the_end_as_many_payloads_are_verified_as_came() {
    let b = bench(Payload::Filled);
    let sent = [2, 3, 4, 5, 6];
    let account = |rows: &[u64], received: u64, missed: u64, verified: u64, first_sample_ns| {
        let subscriber =
            End { received, verified, first_sample_ns, ..b.subscriber(0, rows, missed) };
        b.account(&[subscriber, b.publisher(&sent)])
    };
    let closes = |rows: &[u64], received, missed, verified, first: Option<u64>| {
        let a = account(rows, received, missed, verified, first);
        assert_eq!(a.invalid, Vec::<String>::new(), "{rows:?}");
        assert_eq!(a.received[0] + a.missed[0], a.sent, "{rows:?}");
    };
    // Seven samples are published, including the first one and the end mark. Received are: all; all
    // but the end mark; all but the last counted sample and the end mark.
    closes(&sent, 7, 0, 6, Some(1));
    closes(&sent, 6, 1, 6, Some(1));
    closes(&[2, 3, 4, 5], 5, 2, 5, None);
    // Received are: the first sample alone, the end mark alone, both, nothing.
    closes(&[], 1, 6, 1, Some(1));
    closes(&[], 1, 6, 0, None);
    closes(&[], 2, 5, 1, None);
    closes(&[], 0, 7, 0, None);
    let too_few = account(&sent, 6, 1, 5, Some(1)).invalid;
    assert_eq!(too_few, ["5 payloads were verified of 6 received"]);
    // The end mark is lost and not counted as missed: this is the only error.
    let silent = account(&sent, 6, 0, 6, Some(1)).invalid;
    assert!(
        matches!(silent.as_slice(), [only] if only.contains("1 are lost and in no count")),
        "{silent:?}"
    );
}

#[test]
fn half_the_round_trip_leaves_out_what_both_ends_spent_on_filling() {
    let mut b = bench(Payload::Filled);
    b.job.pace = Pace::PingPong;
    let file = |name: &str, rows: Vec<u8>| {
        let path = b.dir.path().join(name);
        std::fs::write(&path, rows).unwrap();
        Some(path)
    };
    let words = |rows: Vec<[u64; 5]>| {
        rows.into_iter().flatten().flat_map(u64::to_le_bytes).collect::<Vec<u8>>()
    };
    // Filling takes 30 ns at the asking end and 50 ns at the answering end, the round trip 200 ns.
    let asked = words((1..=5).map(|s| [s, 0, s * 1000, s * 1000 + 30, 0]).collect());
    let returned = words((1..=5).map(|s| [s + 1, 0, s * 1000 + 200, 0, s * 1000 + 260]).collect());
    let answered = words((1..=5).map(|s| [s + 1, 0, s * 1000 + 100, s * 1000 + 150, 0]).collect());
    let heard = words((1..=5).map(|s| [s, 0, s * 1000 + 90, 0, 0]).collect());
    let ping = End {
        sent_file: file("a", asked),
        received_file: file("r", returned),
        published: 5,
        received: 6,
        verified: 5,
        ..End::new(Role::Ping, 0)
    };
    let mut echo = End {
        sent_file: file("e", answered),
        received_file: file("h", heard),
        published: 6,
        received: 5,
        verified: 5,
        ..End::new(Role::Echo, 0)
    };
    let a = b.account(&[ping.clone(), echo.clone()]);
    assert_eq!(a.invalid, Vec::<String>::new());
    assert_eq!(a.samples[&Metric::Transport], [60; 3]);
    assert_eq!(a.samples[&Metric::FillAndTransport], [100; 3]);
    assert_eq!(a.samples[&Metric::Read], [60; 3]);
    // A program that reports no losses must not have any: a missing answer is a loss.
    let lost = b.account(&[End { received: 5, ..ping.clone() }, echo.clone()]);
    assert!(
        lost.invalid[0].contains("the asking end") && lost.lost_rounds.is_none(),
        "{:?}",
        lost.invalid
    );
    echo.received = 4;
    assert!(b.account(&[ping, echo]).invalid[0].contains("the answering end"));
}

/// A false report: changes to the subscriber's stamps, and to the reports of both ends.
type Lie = (fn(&mut Vec<ReceivedRow>), fn(&mut End, &mut End));

#[test]
fn an_end_with_a_false_report_is_invalid() {
    let lies: [(&str, Lie); 9] = [
        ("too many", (|_| {}, |s, _| (s.received, s.missed) = (u64::MAX, 8))),
        ("subscriber 0: 7 samples were received but 4 noted", (|rows| rows.truncate(4), |_, _| {})),
        ("1 samples count, from number 6", (|_| {}, |_, p| p.counted_from = 6)),
        ("5 samples count, from number 0", (|_| {}, |_, p| p.counted_from = 0)),
        ("0 samples count, from number 99", (|_| {}, |_, p| p.counted_from = 99)),
        ("have the indices [7]", (|_| {}, |s, _| s.index = 7)),
        (
            "5 sent and 18446744073709551615 not sent",
            (|_| {}, |_, p| p.not_sent = [("a".into(), u64::MAX), ("b".into(), 1)].into()),
        ),
        (
            "subscriber 0: by their stamps 3 samples lack stamps",
            (|rows| rows.iter_mut().for_each(|r| r.in_hand = 0), |_, _| {}),
        ),
        (
            "were in hand before they were published, or have not",
            (|rows| rows.iter_mut().for_each(|r| r.in_hand = u64::MAX), |_, _| {}),
        ),
    ];
    for (says, (stamps, counts)) in lies {
        let b = bench(Payload::Untouched);
        let (mut subscriber, mut publisher) =
            (b.subscriber(0, &[2, 3, 4, 5, 6], 0), b.publisher(&[2, 3, 4, 5, 6]));
        let path = subscriber.received_file.clone().unwrap();
        let mut rows = read_rows(&path, 5).unwrap();
        stamps(&mut rows);
        write_rows(&path, &rows).unwrap();
        counts(&mut subscriber, &mut publisher);
        let invalid = b.account(&[subscriber, publisher]).invalid.join("; ");
        assert!(invalid.contains(says), "{says}: {invalid}");
    }
    // Stamps out of order make a ping-pong invalid, too.
    let mut b = bench(Payload::Untouched);
    b.job.pace = Pace::PingPong;
    let file = |name: &str, at: u64| {
        let path = b.dir.path().join(name);
        let row =
            |s| SentRow { sequence: s, scheduled: 0, before_fill: s * at, ..SentRow::default() };
        write_rows(&path, &(1..=5).map(row).collect::<Vec<_>>()).unwrap();
        Some(path)
    };
    // These rows have `before_fill` in the word of `in_hand`.
    let ping = End {
        sent_file: file("a", 1000),
        received_file: file("r", 900),
        published: 5,
        received: 6,
        ..End::new(Role::Ping, 0)
    };
    let echo = End {
        sent_file: file("e", 0),
        received_file: file("h", 0),
        published: 6,
        received: 5,
        ..End::new(Role::Echo, 0)
    };
    let invalid = b.account(&[ping, echo]).invalid.join("; ");
    assert!(invalid.contains("ended before they began"), "{invalid}");
}

mod foreign {
    use super::*;
    use crate::harness::{Event, Row};
    use proptest::prelude::*;

    /// Counts that correct ends report, and arbitrary counts.
    fn count() -> impl Strategy<Value = u64> {
        prop_oneof![8 => 0u64..10, 1 => any::<u64>()]
    }

    fn counts() -> impl Strategy<Value = [u64; 11]> {
        prop::array::uniform11(count())
    }

    /// Rows whose numbers go up by one, mostly, and whose stamps are anything from plausible to
    /// absurd.
    fn rows() -> impl Strategy<Value = Option<Vec<[u64; 5]>>> {
        let row = prop::array::uniform5(prop_oneof![6 => 0u64..2_000, 1 => any::<u64>()]);
        let numbered =
            (prop::collection::vec(row.clone(), 0..8), 0u64..4).prop_map(|(mut rows, first)| {
                for (row, number) in rows.iter_mut().zip(first..) {
                    row[0] = number;
                }
                rows
            });
        let unordered = prop::collection::vec(row, 0..8);
        prop_oneof![1 => Just(None), 6 => numbered.prop_map(Some), 2 => unordered.prop_map(Some)]
    }

    fn role() -> impl Strategy<Value = Role> {
        prop::sample::select(vec![
            Role::Publisher,
            Role::Subscriber,
            Role::Ping,
            Role::Echo,
            Role::SameThread,
            Role::Memcpy,
        ])
    }

    type DescribedEnd =
        (Role, usize, [u64; 11], Option<Vec<[u64; 5]>>, Option<Vec<[u64; 5]>>, Option<u64>);

    fn end() -> impl Strategy<Value = DescribedEnd> {
        (role(), 0usize..3, counts(), rows(), rows(), prop::option::of(count()))
    }

    /// A report as a line, the form in which another process sends it.
    fn heard(
        dir: &std::path::Path,
        number: usize,
        (role, index, c, sent, received, unanswered): DescribedEnd,
    ) -> End {
        let file = |name: &str, rows: Option<Vec<[u64; 5]>>| {
            let path = dir.join(format!("{name}-{number}"));
            rows.map(|rows| {
                write_rows(&path, &rows.into_iter().map(SentRow::from_words).collect::<Vec<_>>())
                    .unwrap();
                path
            })
        };
        let line = serde_json::json!({"event": "done", "ends": [{
            "role": role, "index": index,
            "sent_file": file("sent", sent), "received_file": file("received", received),
            "published": c[0], "first_sequence": c[1], "counted_from": c[2],
            "not_sent": {"no memory": c[3]}, "received": c[4], "missed": c[5],
            "unanswered": unanswered, "late": c[6], "verified": c[7], "mismatched": c[8],
            "cpu_ns": c[9], "cpu_samples": c[10], "wake_calls": c[9],
            "first_sample_ns": c[10], "of another version": [null],
        }]});
        match serde_json::from_str(&line.to_string()).unwrap() {
            Event::Done { mut ends } => ends.remove(0),
            other => panic!("{other:?}"),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

        /// Whatever processes report, the result is an account or a reason, and a valid account
        /// closes.
        #[test]
        fn a_valid_account_closes_whatever_ends_report(
            described in prop::collection::vec(end(), 0..5),
            closed: bool,
            filled: bool,
            subscribers in 1usize..3,
            shape in prop::sample::select(vec![Role::Publisher, Role::SameThread, Role::Memcpy])
        ) {
            let b = bench(if filled { Payload::Filled } else { Payload::Untouched });
            let pace = if closed { Pace::PingPong } else { Pace::RateHz(100.0) };
            let subscribers = if closed { 1 } else { subscribers };
            let job = Job { role: shape, pace, subscribers, ..b.job.clone() };
            let read = |(i, t)| heard(b.dir.path(), i, t);
            let ends: Vec<End> = described.into_iter().enumerate().map(read).collect();
            let Ok(a) = account(&job, &ends, 0) else { return Ok(()) };
            prop_assert!(a.stamps.len() <= 2 * rows_at_most(&job) * 5);
            if !a.invalid.is_empty() {
                return Ok(());
            }
            prop_assert_eq!(a.scheduled, job.messages);
            prop_assert!(a.sent <= job.messages && a.torn == 0);
            let not_sent = a.not_sent.values().fold(0, |all: u64, n| all.saturating_add(*n));
            prop_assert!(a.sent.saturating_add(not_sent) >= a.scheduled, "{a:?}");
            if shape != Role::Memcpy {
                for (received, missed) in a.received.iter().zip(&a.missed) {
                    prop_assert_eq!(received + missed, a.sent);
                }
                let transport = a.samples.get(&Metric::Transport).map_or(0, Vec::len) as u64;
                prop_assert_eq!(transport, a.received.iter().sum::<u64>());
            }
            if shape == Role::Publisher && !closed {
                prop_assert_eq!(a.received.len(), job.subscribers);
            }
        }
    }
}

#[test]
fn a_stamp_that_is_missing_or_out_of_order_makes_the_run_invalid_and_no_figure() {
    let b = bench(Payload::Filled);
    let sent = [2, 3, 4, 5, 6];
    let refused = |subscriber: End, publisher: End| b.account(&[subscriber, publisher]).invalid;
    let publisher = |change: fn(&mut SentRow)| {
        let end = b.publisher(&sent);
        let path = end.sent_file.clone().unwrap();
        let mut rows: Vec<SentRow> = read_rows(&path, 100).unwrap();
        rows.iter_mut().for_each(change);
        write_rows(&path, &rows).unwrap();
        end
    };
    let changes: [fn(&mut SentRow); 3] =
        [|s| s.before_fill = 0, |s| s.before_fill = s.before_publish + 1, |s| s.scheduled = 0];
    for change in changes {
        let invalid = refused(b.subscriber(0, &sent, 0), publisher(change));
        assert!(invalid.iter().any(|i| i.contains("lack stamps")), "{invalid:?}");
    }
    let subscriber = |change: fn(&mut ReceivedRow)| {
        let end = b.subscriber(0, &sent, 0);
        let path = end.received_file.clone().unwrap();
        let mut rows: Vec<ReceivedRow> = read_rows(&path, 100).unwrap();
        rows.iter_mut().for_each(change);
        write_rows(&path, &rows).unwrap();
        end
    };
    let changes: [fn(&mut ReceivedRow); 3] =
        [|r| r.woken = r.in_hand + 1, |r| r.copied = r.in_hand - 1, |r| r.read = 1];
    for change in changes {
        let invalid = refused(subscriber(change), b.publisher(&sent));
        assert!(invalid.iter().any(|i| i.contains("lack stamps")), "{invalid:?}");
    }
}

#[test]
fn a_stamp_from_before_the_run_makes_it_invalid() {
    let b = bench(Payload::Untouched);
    let sent = [2, 3, 4, 5, 6];
    let invalid = |since_ns| {
        account(&b.job, &[b.subscriber(0, &sent, 0), b.publisher(&sent)], since_ns)
            .unwrap()
            .invalid
            .join("; ")
    };
    // The first counted sample was due at 4000.
    assert_eq!(invalid(4000), "");
    assert!(
        invalid(4001)
            .contains("1 samples were sent before the first process of the run was started"),
        "{}",
        invalid(4001)
    );
}
