// SPDX-License-Identifier: Apache-2.0
//! Model of both ends of a route and of faults between them: a window, messages in flight, a
//! receive window, and remote publishers that come and go.

use super::*;
use crate::arrival::Arrivals;
use crate::receive_window::{Entry, Queued, ReceiveWindow};
use proptest::prelude::*;

const FULL: usize = 62_500;
const PUBLISHERS: usize = 3;

/// Sample: its publisher, and its number among that publisher's samples.
#[derive(Clone, Copy, Debug, PartialEq)]
struct What {
    publisher: usize,
    written: u64,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    number: u64,
    place: u16,
    len: usize,
    sent: MonotonicNs,
    what: What,
}

#[derive(Clone, Debug)]
enum Step {
    /// A publisher has published; the sample is sent when the window permits.
    Publish(usize, usize),
    /// The first sample in flight arrives.
    Deliver,
    /// The first acknowledgement in flight arrives.
    Acknowledge,
    /// The connection breaks: this number of samples in flight arrive, the others are lost. The
    /// same holds for acknowledgements.
    Break(usize, usize),
    /// A sample arrives twice, or late over another path.
    Reconnect(usize),
    /// One sample is lost, as if a receiver without space dropped it.
    Lose(usize),
    /// One acknowledgement is lost, as with congestion control `drop`.
    LoseAcknowledgement(usize),
    /// Readers release a sample, and the next one is published.
    Read,
    /// The remote publisher of a publisher is created or removed.
    RemotePublisher(usize, bool),
    /// The topic becomes unwanted and wanted again.
    Part,
    /// The receiver forgets the state of the route.
    Forget,
    Wait(u64),
}

/// Release of the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Receiver {
    Ours,
    /// Receiver of a release before places: it accepts every sample, and counts earlier samples as
    /// arrived.
    Old,
}

struct World {
    receiver: Receiver,
    window: Window,
    now: MonotonicNs,
    waiting: VecDeque<(usize, usize)>,
    written: [u64; PUBLISHERS],
    /// Samples kept until they have arrived, by number.
    held: VecDeque<(u64, usize, What)>,
    /// Publishers with a remote publisher, as the sender knows them.
    stands: [bool; PUBLISHERS],
    way: VecDeque<Sample>,
    back: VecDeque<Ack>,
    receive_window: ReceiveWindow<Sample>,
    remote_publishers: [bool; PUBLISHERS],
    arrivals: [Arrivals; PUBLISHERS],
    forgot: bool,
    published: Vec<What>,
    sent: Vec<What>,
    refused: Vec<What>,
}

impl World {
    fn new(reliable: bool, receiver: Receiver) -> Self {
        Self {
            receiver,
            window: Window::new(reliable, FULL, 1_000),
            now: MonotonicNs(1_000_000_000),
            waiting: VecDeque::new(),
            written: [0; PUBLISHERS],
            held: VecDeque::new(),
            stands: [false; PUBLISHERS],
            way: VecDeque::new(),
            back: VecDeque::new(),
            receive_window: ReceiveWindow::default(),
            remote_publishers: [false; PUBLISHERS],
            arrivals: [Arrivals::default(); PUBLISHERS],
            forgot: false,
            published: Vec::new(),
            sent: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn put(&mut self, Place { number, place }: Place, len: usize, what: What) {
        self.now = MonotonicNs(self.now.0 + 1);
        self.way.push_back(Sample { number, place, len, sent: self.now, what });
        self.window.handed_over(number, self.now);
    }

    /// Step of the route's thread when it wakes.
    fn turn(&mut self) {
        loop {
            match self.window.overdue(self.now) {
                Overdue::Rewind { number } => {
                    let (_, len, what) =
                        *self.held.iter().find(|(n, ..)| *n == number).expect("kept");
                    let place = self.window.send_again(self.now);
                    self.put(place, len, what);
                }
                Overdue::GivenUp => {}
                Overdue::Nothing => break,
            }
        }
        while self.window.has_room() {
            let Some((publisher, len)) = self.waiting.pop_front() else { break };
            self.written[publisher] += 1;
            let what = What { publisher, written: self.written[publisher] };
            let reliable = self.window.is_reliable();
            let before = self.window.bytes;
            let place = self.window.send(len, reliable && !self.stands[publisher], self.now);
            assert!(before < FULL && self.window.in_flight() <= MAX_IN_FLIGHT);
            if reliable {
                self.held.push_back((place.number, len, what));
            }
            self.sent.push(what);
            self.put(place, len, what);
        }
    }

    fn acknowledge(&mut self) {
        let Some(ack) = self.back.pop_front() else { return };
        let of = self.held.iter().find(|(n, ..)| *n == ack.number).map(|(.., what)| *what);
        match (of, ack.outcome) {
            // In the gateway, the route decides whether it still waits for the remote publisher.
            // Here the time does: at a multiple of 7 ns, the sample is refused.
            (Some(what), Outcome::NotYet) if !self.now.0.is_multiple_of(7) => {
                self.stands[what.publisher] = false;
                assert!(self.window.not_yet(&ack, self.now));
            }
            (Some(what), Outcome::NotYet) => {
                if self.window.refused(&ack, self.now) {
                    self.refused.push(what);
                }
            }
            (_, Outcome::Gap) => drop(self.window.gap(&ack, self.now)),
            (of, _) => {
                of.into_iter().for_each(|what| self.stands[what.publisher] = true);
                self.window.acknowledged(&ack, self.now);
            }
        }
        let oldest = self.window.oldest();
        self.held.retain(|(n, ..)| oldest.is_some_and(|oldest| *n >= oldest));
        self.turn();
    }

    fn answer(&mut self, sample: &Sample, outcome: Outcome, number: u64) {
        let accepts = if self.receiver == Receiver::Old { 0 } else { MAX_IN_FLIGHT as u32 };
        self.back.push_back(Ack { outcome, accepts, number, sent: sample.sent, ..Ack::default() });
    }

    fn publish(&mut self, what: What) -> Outcome {
        if !self.remote_publishers[what.publisher] {
            return Outcome::NotYet;
        }
        if self.arrivals[what.publisher].is_new(what.written, 0) {
            self.published.push(what);
        }
        Outcome::Published
    }

    fn arrive(&mut self, sample: Sample) {
        if self.receiver == Receiver::Old {
            let outcome = self.publish(sample.what);
            return self.answer(&sample, outcome, sample.number);
        }
        let fate = (!self.remote_publishers[sample.what.publisher]).then_some(Outcome::NotYet);
        if let Entry::Reply { what, outcome, number } =
            self.receive_window.enter(sample.number, sample.place, sample.len, fate, sample)
        {
            self.answer(&what, outcome, number);
        }
    }

    fn read(&mut self) -> bool {
        let Some(Queued { number, place, what, .. }) = self.receive_window.next_in_turn() else {
            return false;
        };
        let before = self.arrivals[what.what.publisher].duplicates();
        let outcome = self.publish(what.what);
        let twice = self.arrivals[what.what.publisher].duplicates() > before;
        assert!(
            !twice || place == 0 || self.forgot,
            "the receive window has accepted a sample twice: {what:?}"
        );
        self.receive_window.finished(number, place, outcome);
        self.answer(&what, outcome, number);
        true
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Publish(publisher, len) => {
                self.waiting.push_back((publisher, len));
                self.turn();
            }
            Step::Deliver => {
                if let Some(sample) = self.way.pop_front() {
                    self.arrive(sample);
                }
            }
            Step::Acknowledge => self.acknowledge(),
            Step::Break(samples, acks) => {
                self.way.truncate(samples);
                self.back.truncate(acks);
            }
            Step::Reconnect(n) => {
                if let Some(sample) = self.way.get(n).copied() {
                    self.way.push_back(sample);
                }
            }
            Step::Lose(n) => drop(self.way.remove(n)),
            Step::LoseAcknowledgement(n) => drop(self.back.remove(n)),
            Step::Read => drop(self.read()),
            Step::RemotePublisher(publisher, there) => self.remote_publishers[publisher] = there,
            Step::Part => {
                self.window.parted(self.now);
                self.stands = [false; PUBLISHERS];
                self.turn();
            }
            Step::Forget => {
                self.receive_window.begin_anew();
                self.forgot = true;
            }
            Step::Wait(ns) => {
                self.now = MonotonicNs(self.now.0 + ns);
                self.turn();
            }
        }
    }

    /// Ends all faults: everything arrives within a bounded number of steps.
    fn settle(&mut self) {
        self.remote_publishers = [true; PUBLISHERS];
        for _ in 0..10_000 {
            if self.window.in_flight() == 0 && self.waiting.is_empty() {
                return;
            }
            if let Some(sample) = self.way.pop_front() {
                self.arrive(sample);
            } else if !self.read() && self.back.is_empty() {
                self.now = self.window.deadline().map_or(self.now, |d| d.max(self.now));
                self.turn();
            }
            while !self.back.is_empty() {
                // A time that is no multiple of 7, so that no sample is refused.
                self.now = MonotonicNs(self.now.0 / 7 * 7 + 8);
                self.acknowledge();
            }
        }
        panic!("stuck: {:?}", self.window);
    }

    /// Returns the samples that were not refused, in the order in which they were sent.
    fn owed(&self) -> Vec<What> {
        self.sent.iter().filter(|w| !self.refused.contains(w)).copied().collect()
    }

    /// The published samples that were not refused. Another copy of a refused sample may have
    /// arrived later. Our receiver publishes it in its place among the samples of all publishers;
    /// an old one has no places and keeps only the order of each publisher.
    fn got_of_owed(&self) -> Vec<What> {
        let in_order = |published: &[What]| {
            let sent = |w| self.sent.iter().position(|s| s == w);
            assert!(
                published.is_sorted_by(|a, b| sent(a) < sent(b)),
                "out of order: {published:?}"
            );
        };
        if self.receiver == Receiver::Ours {
            in_order(&self.published);
        }
        for publisher in 0..PUBLISHERS {
            let of = self.published.iter().filter(|w| w.publisher == publisher).copied();
            in_order(&of.collect::<Vec<_>>());
        }
        self.published.iter().filter(|w| !self.refused.contains(w)).copied().collect()
    }

    fn got(&self, publisher: usize) -> Vec<u64> {
        self.published.iter().filter(|w| w.publisher == publisher).map(|w| w.written).collect()
    }
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let len = prop_oneof![8 => 1usize..3000, 2 => 8_000usize..FULL, 1 => Just(4 << 20)];
    let step = prop_oneof![
        30 => (0..PUBLISHERS, len).prop_map(|(publisher, len)| Step::Publish(publisher, len)),
        30 => Just(Step::Deliver),
        30 => Just(Step::Acknowledge),
        30 => Just(Step::Read),
        2 => (0usize..40, 0usize..40).prop_map(|(samples, acks)| Step::Break(samples, acks)),
        2 => (0usize..40).prop_map(Step::Reconnect),
        2 => (0usize..10).prop_map(Step::Lose),
        3 => (0usize..10).prop_map(Step::LoseAcknowledgement),
        8 => (0..PUBLISHERS, any::<bool>())
            .prop_map(|(publisher, there)| Step::RemotePublisher(publisher, there)),
        1 => Just(Step::Part),
        1 => Just(Step::Forget),
        3 => (0u64..3_000_000_000).prop_map(Step::Wait),
    ];
    proptest::collection::vec(step, 0..400)
}

fn run(reliable: bool, receiver: Receiver, steps: Vec<Step>) -> World {
    let mut world = World::new(reliable, receiver);
    world.remote_publishers = [true, true, false];
    steps.into_iter().for_each(|step| world.step(step));
    world
}

proptest! {
    #[test]
    fn reliable_samples_arrive_once_and_in_order_whatever_happens_on_the_way(steps in steps()) {
        let mut world = run(true, Receiver::Ours, steps);
        world.settle();
        prop_assert_eq!(world.got_of_owed(), world.owed());
        prop_assert_eq!(world.window.counters().unacknowledged, 0);
    }

    #[test]
    fn a_receiver_of_an_older_release_loses_nothing_either(steps in steps()) {
        let mut world = run(true, Receiver::Old, steps);
        world.settle();
        prop_assert_eq!(world.got_of_owed(), world.owed());
    }

    #[test]
    fn best_effort_samples_arrive_at_most_once_and_never_backwards(steps in steps()) {
        let mut world = run(false, Receiver::Ours, steps);
        world.settle();
        for publisher in 0..PUBLISHERS {
            prop_assert!(world.got(publisher).is_sorted_by(|a, b| a < b));
        }
    }
}

/// The shortest case in which a receiver of an older release publishes samples of two publishers in
/// another order than they were sent: a refused sample arrives a third time, after its publisher's
/// remote publisher was created.
#[test]
fn a_late_copy_of_a_refused_sample_moves_at_a_receiver_of_an_older_release() {
    let sample = |publisher| What { publisher, written: 1 };
    for receiver in [Receiver::Old, Receiver::Ours] {
        let mut world = World::new(true, receiver);
        world.remote_publishers[0] = true;
        world.step(Step::Publish(2, 100));
        world.step(Step::Publish(0, 100));
        world.step(Step::Reconnect(0));
        world.step(Step::Deliver);
        world.now = MonotonicNs(world.now.0.next_multiple_of(7));
        world.step(Step::Acknowledge);
        assert_eq!(world.refused, [sample(2)], "refused once its time to wait is over");
        world.step(Step::Reconnect(0));
        for _ in 0..2 {
            world.step(Step::Deliver);
            world.step(Step::Read);
        }
        world.step(Step::RemotePublisher(2, true));
        world.settle();
        let late = (receiver == Receiver::Old).then(|| sample(2));
        assert_eq!(world.published, [sample(0)].into_iter().chain(late).collect::<Vec<_>>());
        assert_eq!(world.got_of_owed(), world.owed());
    }
}

/// Shows that the model can fill the window and repeats samples after faults.
#[test]
fn a_stream_over_a_connection_that_breaks_goes_on_with_many_in_flight() {
    let mut world = World::new(true, Receiver::Ours);
    world.remote_publishers = [true; PUBLISHERS];
    let mut most = 0;
    for n in 0..200 {
        world.step(Step::Publish(0, 100));
        if n % 8 == 0 {
            (0..8).for_each(|_| {
                [Step::Deliver, Step::Read, Step::Acknowledge]
                    .into_iter()
                    .for_each(|step| world.step(step))
            });
        }
        if n % 50 == 49 {
            world.step(Step::Break(1, 0));
        }
        most = most.max(world.window.in_flight());
    }
    world.settle();
    assert_eq!(world.got(0), (1..=200).collect::<Vec<_>>());
    assert_eq!(most, MAX_IN_FLIGHT);
    assert!(world.window.counters().sent_again > 30, "{:?}", world.window.counters());
}
