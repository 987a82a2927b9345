// SPDX-License-Identifier: Apache-2.0
//! Order and time-outs of answers.

use super::*;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

fn host(name: &str) -> Option<HostId> {
    HostId::new(name, 1)
}

fn at(ms: u64) -> MonotonicNs {
    MonotonicNs(ms * 1_000_000)
}

fn question<Q>(by: &str, key: &str, came: MonotonicNs, query: Q) -> Question<Q> {
    Question { by: host(by), key: key.into(), came, query }
}

/// Returns the next step of a thread: the request it answers, and those it drops.
fn turn(waiting: &mut Waiting<u32>, now: MonotonicNs) -> Option<(Option<u32>, Vec<u32>)> {
    waiting.next(now).map(|turn| (turn.answer, turn.end))
}

#[test]
fn requests_are_queued_in_order_and_rejections_are_logged_once() {
    let mut waiting = Waiting::new();
    let put = |waiting: &mut Waiting<usize>, n: usize| {
        waiting.push(question("a", &n.to_string(), at(0), n)).map(|t| (t.query, t.first))
    };
    let take = |waiting: &mut Waiting<usize>| {
        let turn = waiting.next(at(0))?;
        waiting.done(&turn.by);
        turn.answer
    };
    assert!((0..MAX_WAITING).all(|n| put(&mut waiting, n).is_none()));
    assert_eq!(
        [put(&mut waiting, 9_007), put(&mut waiting, 9_008)],
        [Some((9_007, true)), Some((9_008, false))]
    );
    assert_eq!(take(&mut waiting), Some(0));
    assert!(put(&mut waiting, 9_009).is_none());
    assert_eq!(put(&mut waiting, 9_010), Some((9_010, false)), "the queue was never empty");
    let rest: Vec<_> = std::iter::from_fn(|| take(&mut waiting)).collect();
    assert_eq!(rest, (1..MAX_WAITING).chain([9_009]).collect::<Vec<_>>());
    assert!((0..MAX_WAITING).all(|n| put(&mut waiting, n).is_none()));
    assert_eq!(put(&mut waiting, 9_011), Some((9_011, true)));
}

#[test]
fn a_host_being_answered_waits_and_no_other_does() {
    let mut waiting = Waiting::new();
    for (n, by) in ["a", "a", "b", "not a name", "not one either", "b"].into_iter().enumerate() {
        assert!(waiting.push(question(by, &n.to_string(), at(0), n as u32)).is_none());
    }
    let turns: Vec<_> = std::iter::from_fn(|| turn(&mut waiting, at(0))).collect();
    assert_eq!(turns, [0, 2, 3].map(|n| (Some(n), vec![])));
    waiting.done(&host("b"));
    assert_eq!(turn(&mut waiting, at(0)), Some((Some(5), vec![])));
    waiting.done(&None);
    assert_eq!(turn(&mut waiting, at(0)), Some((Some(4), vec![])));
    assert_eq!(turn(&mut waiting, at(0)), None);
    waiting.done(&host("a"));
    assert_eq!(turn(&mut waiting, at(0)), Some((Some(1), vec![])));
}

#[test]
fn a_repeated_request_is_answered_once_and_an_abandoned_one_not_at_all() {
    let mut waiting = Waiting::new();
    for (n, (by, key)) in
        [("a", "x"), ("a", "y"), ("a", "x"), ("b", "x"), ("a", "x"), ("?", "x"), ("?", "x")]
            .into_iter()
            .enumerate()
    {
        assert!(waiting.push(question(by, key, at(1_000 * n as u64), n as u32)).is_none());
    }
    let mut next = |now| {
        let turn = waiting.next(at(now))?;
        waiting.done(&turn.by);
        Some((turn.answer, turn.end))
    };
    assert_eq!(next(8_999), Some((Some(4), vec![0, 2])), "the newest was asked less than 5 s ago");
    assert_eq!(next(8_999), Some((None, vec![1])));
    assert_eq!(next(8_999), Some((None, vec![3])));
    assert_eq!(next(8_999), Some((Some(5), vec![])), "5 and 6 may be of different hosts");
    assert_eq!(next(11_000), Some((None, vec![6])));
}

/// Threads that answer numbers. At a number ending in 9, a thread blocks until the gate opens.
fn threads(gate: &Arc<(Mutex<bool>, Condvar)>) -> (Worker<Waiting<u32>>, Receiver<u32>) {
    let (done, answered) = channel();
    let gate = gate.clone();
    let run = move |mailbox: &Mailbox<Waiting<u32>>| {
        serve(mailbox, |query| {
            if query % 10 == 9 {
                let open = gate.0.lock().unwrap();
                drop(gate.1.wait_while(open, |open| !*open).unwrap());
            }
            done.send(query).unwrap();
        });
    };
    (Worker::start_several(THREADS, "test", Waiting::new(), run).unwrap(), answered)
}

#[test]
fn a_host_that_does_not_read_delays_no_other_however_much_it_requests() {
    let gate = Arc::new((Mutex::new(false), Condvar::new()));
    let (worker, answered) = threads(&gate);
    let ask = |by: &str, n: u32| {
        assert!(
            worker
                .put(|waiting| waiting.push(question(by, &n.to_string(), MonotonicNs::now(), n)))
                .is_none()
        )
    };
    (0..64).for_each(|n| ask("slow", 10 * n + 9));
    for n in 0..20 {
        ask(&format!("h{n}"), n * 10);
    }
    let mut first: Vec<u32> = (0..20)
        .map(|_| answered.recv_timeout(Duration::from_secs(60)).expect("another host is answered"))
        .collect();
    first.sort_unstable();
    assert_eq!(first, (0..20).map(|n| n * 10).collect::<Vec<_>>());
    *gate.0.lock().unwrap() = true;
    gate.1.notify_all();
    assert_eq!(answered.recv_timeout(Duration::from_secs(60)), Ok(9));
}
