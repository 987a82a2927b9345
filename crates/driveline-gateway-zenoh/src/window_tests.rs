// SPDX-License-Identifier: Apache-2.0
use super::*;
use proptest::prelude::*;

const S: u64 = 1_000_000_000;
const FULL: usize = 62_500;

fn ack(number: u64) -> Ack {
    Ack { number, ..Ack::default() }
}

/// Answer of a receiver that accepts several samples in order, to a sample sent at `sent`.
fn answer(outcome: Outcome, number: u64, sent: u64) -> Ack {
    Ack { outcome, accepts: 32, number, sent: MonotonicNs(sent), ..Ack::default() }
}

fn best_effort() -> Window {
    Window::new(false, FULL, 0)
}

/// Reliable window with a receiver that accepts several samples, and `sent` samples in flight.
fn reliable(sent: usize) -> Window {
    let mut w = Window::new(true, FULL, 0);
    w.send(1, true, MonotonicNs(0));
    assert!(w.acknowledged(&answer(Outcome::Published, 1, 0), MonotonicNs(0)));
    for n in 0..sent {
        assert!(w.has_room(), "{n}");
        assert_eq!(
            w.send(100, false, MonotonicNs(0)),
            Place { number: n as u64 + 2, place: n as u16 + 1 }
        );
    }
    w
}

/// Repeats the samples that are due. Returns their numbers and places.
fn resend(w: &mut Window, now: MonotonicNs) -> Vec<(u64, u16)> {
    let next = || match w.overdue(now) {
        Overdue::Rewind { number } => {
            let place = w.send_again(now);
            assert_eq!(place.number, number);
            Some((number, place.place))
        }
        _ => None,
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn the_window_is_five_milliseconds_of_the_link_within_bounds() {
    assert_eq!([1, 100, 1000, 400_000].map(bytes_in_flight), [32_768, 62_500, 625_000, 1 << 20]);
}

#[test]
fn a_sample_with_a_long_hand_over_is_not_given_up() {
    let mut w = best_effort();
    let Place { number, .. } = w.send(4 << 20, false, MonotonicNs(0));
    w.handed_over(number, MonotonicNs(60 * S));
    assert_eq!(w.overdue(MonotonicNs(61 * S)), Overdue::Nothing);
    assert_eq!(w.overdue(MonotonicNs(66 * S + S / 2)), Overdue::GivenUp, "2 s and 4.2 s later");
    // A hand-over that ends when its sample is no longer in flight changes nothing.
    w.handed_over(number, MonotonicNs(70 * S));
    assert_eq!(w.deadline(), None);
}

/// Returns the milliseconds since `from` at which nudges are sent until something happens.
fn nudges(w: &mut Window, from: MonotonicNs) -> Vec<u128> {
    let next = || w.nudge_at().inspect(|at| w.nudged(*at)).map(|at| at.since(from).as_millis());
    std::iter::from_fn(next).collect()
}

#[test]
fn no_nudge_precedes_the_earliest_acknowledgement_and_late_threads_do_not_catch_up() {
    let mut w = best_effort();
    w.takes(Duration::from_millis(10));
    let Place { number, .. } = w.send(1, false, MonotonicNs(0));
    w.handed_over(number, MonotonicNs(S));
    assert_eq!(w.nudge_at(), Some(MonotonicNs(S + 12_500_000)));
    // The thread had no processor for a second.
    w.nudged(MonotonicNs(2 * S));
    assert_eq!(w.nudge_at(), Some(MonotonicNs(2 * S + 25_000_000)));
}

#[test]
fn nudges_follow_samples_in_flight_until_tcp_detects_a_loss() {
    for mut w in [best_effort(), Window::new(true, FULL, 0)] {
        assert_eq!(w.nudge_at(), None, "nothing is in flight");
        let Place { number, .. } = w.send(4 << 20, false, MonotonicNs(0));
        let (handed_over, acknowledged) = (MonotonicNs(S), MonotonicNs(2 * S));
        w.handed_over(number, handed_over);
        assert_eq!(nudges(&mut w, handed_over), [4, 12, 28, 60, 124, 252]);
        assert!(w.acknowledged(&answer(Outcome::Published, number, 0), acknowledged));
        assert_eq!(w.nudge_at(), None, "it has arrived");
        // Two in flight: the acknowledgement of the first shows that the path is not quiet.
        for _ in 0..2 {
            let Place { number, .. } = w.send(1, false, acknowledged);
            w.handed_over(number, acknowledged);
        }
        assert_eq!(nudges(&mut w, acknowledged).len(), 6);
        assert!(w.acknowledged(&answer(Outcome::Published, number + 1, 0), MonotonicNs(3 * S)));
        assert_eq!(nudges(&mut w, MonotonicNs(3 * S)).len(), 6);
        assert!(
            !w.acknowledged(&answer(Outcome::Published, number + 1, 0), MonotonicNs(4 * S)),
            "a second acknowledgement changes nothing"
        );
        assert_eq!(w.nudge_at(), None);
    }
}

#[test]
fn one_large_sample_is_in_flight_and_the_next_goes_when_it_has_arrived() {
    let mut w = best_effort();
    assert!(w.has_room());
    assert_eq!(w.send(4 << 20, false, MonotonicNs(0)), Place { number: 1, place: 0 });
    assert!(!w.has_room());
    assert!(!w.acknowledged(&ack(2), MonotonicNs(0)), "never sent");
    assert!(!w.has_room());
    assert!(w.acknowledged(&ack(1), MonotonicNs(0)));
    assert!(w.has_room());
    assert!(!w.acknowledged(&ack(1), MonotonicNs(0)), "twice");
    assert_eq!(
        w.counters(),
        WindowCounters {
            sent: 1,
            sent_bytes: 4 << 20,
            delivered: 1,
            nonsense: 1,
            ..WindowCounters::default()
        }
    );
}

#[test]
fn small_samples_need_not_wait_for_each_other_up_to_a_bound() {
    let mut w = best_effort();
    for n in 1..=32 {
        assert!(w.has_room(), "{n}");
        assert_eq!(w.send(100, false, MonotonicNs(0)), Place { number: n, place: 0 });
    }
    assert!(!w.has_room());
    assert_eq!(w.oldest(), Some(1));
    assert!(w.acknowledged(&ack(7), MonotonicNs(0)), "and all before it");
    assert_eq!((w.in_flight(), w.oldest(), w.has_room()), (25, Some(8), true));
    assert!(w.acknowledged(&ack(32), MonotonicNs(0)));
    assert_eq!(w.oldest(), None);
    for reliable_too in [false, true] {
        let mut w = if reliable_too { reliable(0) } else { best_effort() };
        w.send(FULL - 1, false, MonotonicNs(0));
        assert!(w.has_room() && w.may_be_followed(FULL - 1) && !w.may_be_followed(FULL));
        w.send(1, false, MonotonicNs(0));
        assert!(!w.has_room());
    }
}

#[test]
fn a_sample_without_acknowledgement_is_given_up_after_a_time_for_its_length() {
    let mut w = best_effort();
    w.send(1_000_000, false, MonotonicNs(S));
    assert_eq!(w.deadline(), Some(MonotonicNs(4 * S)));
    assert_eq!(w.overdue(MonotonicNs(4 * S - 1)), Overdue::Nothing);
    assert_eq!(w.overdue(MonotonicNs(4 * S)), Overdue::GivenUp);
    assert!(w.has_room());
    assert!(!w.acknowledged(&ack(1), MonotonicNs(4 * S)), "too late");
    assert_eq!(
        w.counters(),
        WindowCounters {
            sent: 1,
            sent_bytes: 1_000_000,
            unacknowledged: 1,
            ..WindowCounters::default()
        }
    );
}

#[test]
fn a_receiver_without_a_window_gets_one_reliable_sample_at_a_time() {
    let mut w = Window::new(true, FULL, 0);
    for n in 1..4 {
        assert!(w.has_room());
        assert_eq!(w.send(1, false, MonotonicNs(0)), Place { number: n, place: 1 });
        assert!(!w.has_room());
        assert!(w.acknowledged(&ack(n), MonotonicNs(0)));
    }
    let mut w = reliable(2);
    assert!(
        w.acknowledged(&Ack { accepts: 3, ..answer(Outcome::Published, 2, 0) }, MonotonicNs(0))
    );
    w.send(1, false, MonotonicNs(0));
    w.send(1, false, MonotonicNs(0));
    assert!(!w.has_room(), "three are in flight");
    assert_eq!(reliable(32).in_flight(), 32);
}

#[test]
fn a_reliable_sample_is_sent_until_it_has_arrived() {
    let mut w = Window::new(true, FULL, 0);
    assert_eq!(w.send(1, false, MonotonicNs(0)).number, 1);
    let late = w.deadline().unwrap();
    assert_eq!(resend(&mut w, late), [(1, 1)]);
    assert_eq!(w.overdue(late), Overdue::Nothing);
    w.parted(late);
    assert_eq!(resend(&mut w, late), [(1, 1)], "as soon as the other host is back");
    assert!(w.acknowledged(&Ack { outcome: Outcome::Expired, ..ack(1) }, late));
    assert!(w.has_room());
    assert_eq!(
        w.counters(),
        WindowCounters {
            sent: 1,
            sent_bytes: 1,
            sent_again: 2,
            refused: 1,
            ..WindowCounters::default()
        }
    );
}

#[test]
fn samples_after_a_lost_one_are_sent_again_with_it() {
    let mut w = reliable(4);
    let now = MonotonicNs(S);
    // 2 has arrived, 3 has not.
    assert!(w.gap(&answer(Outcome::Gap, 2, 0), now));
    assert!(!w.has_room(), "no new sample before the lost one has arrived");
    assert_eq!(resend(&mut w, now), [(3, 1), (4, 2), (5, 3)]);
    assert!(!w.has_room(), "nor before one of them is acknowledged");
    assert!(!w.gap(&answer(Outcome::Gap, 2, 0), now), "it answers the first sending");
    assert_eq!(resend(&mut w, now), []);
    // If sending again has not helped, samples are sent again after a pause.
    w.gap(&answer(Outcome::Gap, 2, S), now);
    assert_eq!((resend(&mut w, now), w.deadline()), (vec![], Some(now + NOT_YET_FIRST)));
    assert!(w.acknowledged(&answer(Outcome::Published, 4, 0), now));
    assert_eq!(resend(&mut w, now + NOT_YET_FIRST), [(5, 1)]);
    assert!(w.acknowledged(&answer(Outcome::Published, 5, 0), now));
    assert!(w.has_room());
    assert_eq!((w.counters().delivered, w.counters().sent_again), (5, 4));
}

#[test]
fn samples_behind_others_have_their_time_out_from_their_turn() {
    let mut w = reliable(3);
    let later = MonotonicNs(2 * S - 1);
    assert!(w.acknowledged(&answer(Outcome::Published, 2, 0), later));
    assert_eq!(w.overdue(MonotonicNs(3 * S)), Overdue::Nothing);
    assert_eq!(resend(&mut w, MonotonicNs(4 * S + S / 1000)), [(3, 1), (4, 2)]);
}

#[test]
fn a_sample_without_remote_publisher_is_repeated_after_pauses_and_none_follows_it() {
    for reliable in [true, false] {
        let mut w = Window::new(reliable, FULL, 0);
        if !reliable {
            w.send(1, false, MonotonicNs(S));
        }
        let number = w.send(1, true, MonotonicNs(S)).number;
        assert!(!w.has_room(), "it is alone");
        let mut now = MonotonicNs(S);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            assert!(w.not_yet(&answer(Outcome::NotYet, number, now.0), now));
            assert_eq!((w.in_flight(), w.has_room(), w.overdue(now)), (1, false, Overdue::Nothing));
            let due = w.deadline().unwrap();
            pauses.push(due.since(now).as_millis());
            now = due;
            assert_eq!(resend(&mut w, now), [(number, u16::from(reliable))]);
        }
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1000, 1000]);
        assert!(w.acknowledged(&ack(number), now) && w.has_room());
        assert!(!w.not_yet(&ack(number), now), "it is no longer in flight");
        let c = w.counters();
        assert_eq!((c.delivered, c.sent_again, c.refused), (number, 9, 0));
    }
    let mut w = best_effort();
    w.send(1, false, MonotonicNs(S));
    assert!(
        !w.not_yet(&ack(1), MonotonicNs(S)),
        "something may have followed it, and it is not kept"
    );
    assert!(!w.not_yet(&ack(0), MonotonicNs(S)) && !w.not_yet(&ack(u64::MAX), MonotonicNs(S)));
}

#[test]
fn a_sample_without_its_remote_publisher_waits_with_all_samples_after_it() {
    let mut w = reliable(3);
    let now = MonotonicNs(S);
    assert!(w.not_yet(&answer(Outcome::NotYet, 3, 0), now));
    assert_eq!(w.in_flight(), 3, "the one before it has not ended yet");
    assert!(!w.refused(&answer(Outcome::NotYet, 3, S), now), "it is not its turn");
    assert!(w.acknowledged(&answer(Outcome::Published, 2, 0), now));
    let due = w.deadline().unwrap();
    assert_eq!(resend(&mut w, due), [(3, 1), (4, 2)]);
    assert!(!w.refused(&answer(Outcome::NotYet, 3, 0), due), "it answers the first sending");
    assert!(w.refused(&answer(Outcome::NotYet, 3, due.0), due));
    assert_eq!(resend(&mut w, due), [(4, 1)], "at once: no sample after it was accepted");
    assert!(w.acknowledged(&answer(Outcome::Published, 4, 0), due) && w.has_room());
    assert_eq!((w.counters().refused, w.counters().delivered), (1, 3));
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize, bool),
    NotYet(u64, bool),
    Gap(u64),
    Ack(u64, u32),
    Wait(u64),
    Part,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (prop_oneof![1usize..5000, Just(4 << 20)], any::<bool>())
            .prop_map(|(len, alone)| Step::Send(len, alone)),
        4 => (0u64..60, 0u32..40).prop_map(|(number, accepts)| Step::Ack(number, accepts)),
        2 => (0u64..60, any::<bool>()).prop_map(|(number, refused)| Step::NotYet(number, refused)),
        1 => (0u64..60).prop_map(Step::Gap),
        1 => (0..8 * S).prop_map(Step::Wait),
        1 => Just(Step::Part),
    ];
    proptest::collection::vec(step, 0..300)
}

proptest! {
    /// In any order of events the limits hold, every sample has exactly one outcome, and a route
    /// never stops for good.
    #[test]
    fn the_window_keeps_its_promises(reliable: bool, steps in steps()) {
        let mut w = Window::new(reliable, FULL, 0);
        let mut now = MonotonicNs(S);
        let mut is_kept = false;
        for step in steps {
            match step {
                Step::Send(len, alone) if w.has_room() => {
                    prop_assert!(w.bytes < FULL && w.in_flight() < MAX_IN_FLIGHT);
                    is_kept = reliable || alone;
                    let place = w.send(len, alone, now);
                    prop_assert_eq!(place.number, w.counters().sent);
                    prop_assert_eq!(
                        usize::from(place.place),
                        if reliable { w.in_flight() } else { 0 }
                    );
                }
                Step::Send(..) => prop_assert!(
                    w.deadline().is_some(),
                    "closed, and nothing will open it"
                ),
                Step::NotYet(number, refused) => {
                    let answer = answer(Outcome::NotYet, number, now.0);
                    if refused {
                        w.refused(&answer, now);
                    } else if w.not_yet(&answer, now) {
                        prop_assert!(
                            is_kept
                                && (reliable || number == w.counters().sent && w.in_flight() == 1)
                        );
                    }
                }
                Step::Gap(number) => {
                    w.gap(&answer(Outcome::Gap, number, now.0), now);
                }
                Step::Ack(number, accepts) => {
                    w.acknowledged(&Ack { accepts, ..ack(number) }, now);
                }
                Step::Wait(ns) => {
                    now = MonotonicNs(now.0 + ns);
                    let mut sent = 0;
                    while let Overdue::Rewind { number } = w.overdue(now) {
                        prop_assert!(
                            is_kept
                                && w.oldest().is_some_and(|oldest| oldest <= number)
                                && number <= w.counters().sent
                        );
                        w.send_again(now);
                        sent += 1;
                        prop_assert!(sent <= MAX_IN_FLIGHT, "each once");
                    }
                    prop_assert!(w.deadline().is_none_or(|d| d > now));
                }
                Step::Part => w.parted(now),
            }
            let c = w.counters();
            prop_assert_eq!(
                c.sent,
                c.delivered + c.refused + c.unacknowledged + w.in_flight() as u64
            );
            prop_assert_eq!(w.bytes, w.flying.iter().map(|f| f.len).sum::<usize>());
            prop_assert!(w.in_flight() <= MAX_IN_FLIGHT);
            prop_assert!(!reliable || c.unacknowledged == 0);
            prop_assert!(
                !reliable
                    || w.flying
                        .iter()
                        .zip(w.flying.iter().skip(1))
                        .all(|(a, b)| a.number + 1 == b.number)
            );
        }
    }
}

#[test]
fn no_sample_overtakes_one_sent_after_a_longer_one() {
    let mut w = best_effort();
    let long = |w: &mut Window, len| {
        let number = w.send(len, false, MonotonicNs(0)).number;
        w.goes_with_long(number, 8_000)
    };
    assert_eq!([100, 8_000, 8_001, 100].map(|len| long(&mut w, len)), [false, false, true, true]);
    assert!(w.acknowledged(&ack(3), MonotonicNs(0)));
    assert!(long(&mut w, 100), "the one before may still wait behind what others have sent");
    assert!(w.acknowledged(&ack(5), MonotonicNs(0)));
    assert!(!long(&mut w, 100), "nothing is before it");
    // For a repeated sample, only samples that are in flight before it now count.
    let mut w = reliable(0);
    assert_eq!([8_001, 100].map(|len| long(&mut w, len)), [true, true]);
    assert!(w.gap(&answer(Outcome::Gap, 2, 0), MonotonicNs(5)));
    assert_eq!(resend(&mut w, MonotonicNs(5)), [(3, 1)]);
    assert!(!w.goes_with_long(3, 8_000));
}
