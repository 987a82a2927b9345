// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;

fn ack(number: u64) -> Ack {
    Ack { number, ..Ack::default() }
}

#[test]
fn one_large_sample_is_in_flight_and_the_next_goes_when_it_has_arrived() {
    let mut w = Window::new(false, 0);
    assert!(w.has_room());
    assert_eq!(w.send(4 << 20, false, MonotonicNs(0)), 1);
    assert!(!w.has_room());
    assert!(!w.acknowledged(&ack(2)), "never sent");
    assert!(!w.has_room());
    assert!(w.acknowledged(&ack(1)));
    assert!(w.has_room());
    assert!(!w.acknowledged(&ack(1)), "twice");
    assert_eq!(w.counters(), WindowCounters { sent: 1, sent_bytes: 4 << 20, delivered: 1, nonsense: 1, ..WindowCounters::default() });
}

#[test]
fn small_samples_need_not_wait_for_each_other_up_to_a_bound() {
    let mut w = Window::new(false, 0);
    for n in 1..=32 {
        assert!(w.has_room(), "{n}");
        assert_eq!(w.send(100, false, MonotonicNs(0)), n);
    }
    assert!(!w.has_room());
    assert_eq!(w.oldest(), Some(1));
    assert!(w.acknowledged(&ack(7)), "and all before it");
    assert_eq!((w.in_flight(), w.oldest(), w.has_room()), (25, Some(8), true));
    assert!(w.acknowledged(&ack(32)));
    assert_eq!(w.oldest(), None);
    let mut w = Window::new(false, 0);
    w.send(FULL_AT_BYTES - 1, false, MonotonicNs(0));
    assert!(w.has_room());
    w.send(1, false, MonotonicNs(0));
    assert!(!w.has_room());
}

#[test]
fn what_is_not_acknowledged_is_given_up_after_a_time_for_its_length() {
    let mut w = Window::new(false, 0);
    w.send(1_000_000, false, MonotonicNs(S));
    assert_eq!(w.deadline(), Some(MonotonicNs(4 * S)));
    assert_eq!(w.overdue(MonotonicNs(4 * S - 1)), Overdue::Nothing);
    assert_eq!(w.overdue(MonotonicNs(4 * S)), Overdue::GivenUp);
    assert!(w.has_room());
    assert!(!w.acknowledged(&ack(1)), "too late");
    assert_eq!(w.counters(), WindowCounters { sent: 1, sent_bytes: 1_000_000, unacknowledged: 1, ..WindowCounters::default() });
}

#[test]
fn a_reliable_sample_is_sent_until_it_has_arrived() {
    let mut w = Window::new(true, 0);
    assert_eq!(w.send(1, false, MonotonicNs(0)), 1);
    assert!(!w.has_room(), "one at a time");
    let late = w.deadline().unwrap();
    assert_eq!(w.overdue(late), Overdue::Again { number: 1 });
    w.send_again(1, late);
    assert_eq!(w.overdue(late), Overdue::Nothing);
    w.parted();
    assert_eq!(w.overdue(late), Overdue::Again { number: 1 }, "as soon as the other host is back");
    w.send_again(1, late);
    assert!(w.acknowledged(&Ack { outcome: Outcome::Expired, ..ack(1) }));
    assert!(w.has_room());
    assert_eq!(w.counters(), WindowCounters { sent: 1, sent_bytes: 1, sent_again: 2, refused: 1, ..WindowCounters::default() });
}

#[test]
fn what_has_no_inlet_yet_is_sent_again_after_pauses_and_nothing_follows_it() {
    for reliable in [true, false] {
        let mut w = Window::new(reliable, 0);
        if !reliable {
            w.send(1, false, MonotonicNs(S));
        }
        let number = w.send(1, true, MonotonicNs(S));
        assert!(!w.has_room(), "it is alone");
        let mut now = MonotonicNs(S);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(w.not_yet(number, now));
            assert_eq!((w.in_flight(), w.has_room(), w.overdue(now)), (1, false, Overdue::Nothing));
            let due = w.deadline().unwrap();
            pauses.push(due.since(now).as_millis());
            now = due;
            assert_eq!(w.overdue(now), Overdue::Again { number });
            w.send_again(1, now);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(w.acknowledged(&ack(number)) && w.has_room());
        assert!(!w.not_yet(number, now), "it is there");
        let c = w.counters();
        assert_eq!((c.delivered, c.sent_again, c.refused), (number, 9, 0));
    }
    let mut w = Window::new(false, 0);
    w.send(1, false, MonotonicNs(S));
    assert!(!w.not_yet(1, MonotonicNs(S)), "something may have followed it, and it is not kept");
    assert!(!w.not_yet(0, MonotonicNs(S)) && !w.not_yet(u64::MAX, MonotonicNs(S)));
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, bool),
    NotYet(u64),
    Ack(u64),
    Wait(u64),
    Part,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (prop_oneof![1usize..5000, Just(4 << 20)], any::<bool>()).prop_map(|(len, alone)| Step::Send(len, alone)),
        4 => (0u64..60).prop_map(Step::Ack),
        2 => (0u64..60).prop_map(Step::NotYet),
        1 => (0..8 * S).prop_map(Step::Wait),
        1 => Just(Step::Part),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    /// Whatever comes in whatever order: the bounds hold, every sample ends in one way, and an edge never stops for good.
    #[test]
    fn the_window_keeps_its_promises(reliable: bool, steps in steps()) {
        let mut w = Window::new(reliable, 0);
        let mut now = MonotonicNs(S);
        let mut last_len = 0;
        let mut is_kept = false;
        for step in steps {
            match step {
                Step::Send(len, alone) if w.has_room() => {
                    prop_assert!(w.bytes < FULL_AT_BYTES && w.in_flight() < MAX_IN_FLIGHT);
                    last_len = len;
                    is_kept = reliable || alone;
                    prop_assert_eq!(w.send(len, alone, now), w.counters().sent);
                }
                Step::NotYet(number) => {
                    if w.not_yet(number, now) {
                        prop_assert!(is_kept && number == w.counters().sent && w.in_flight() == 1);
                    }
                }
                Step::Send(..) => prop_assert!(w.deadline().is_some(), "closed, and nothing will open it"),
                Step::Ack(number) => { w.acknowledged(&ack(number)); }
                Step::Wait(ns) => {
                    now = MonotonicNs(now.0 + ns);
                    match w.overdue(now) {
                        Overdue::Again { number } => {
                            prop_assert!(is_kept && number == w.counters().sent && w.in_flight() == 1);
                            w.send_again(last_len, now);
                        }
                        _ => prop_assert!(w.deadline().is_none_or(|d| d > now)),
                    }
                }
                Step::Part => w.parted(),
            }
            let c = w.counters();
            prop_assert_eq!(c.sent, c.delivered + c.refused + c.unacknowledged + w.in_flight() as u64);
            prop_assert_eq!(w.bytes, w.flying.iter().map(|f| f.len).sum::<usize>());
            let most = if reliable { 1 } else { MAX_IN_FLIGHT };
            prop_assert!(w.in_flight() <= most);
            prop_assert!(!reliable || c.unacknowledged == 0);
        }
    }
}
