// SPDX-License-Identifier: Apache-2.0
//! A publisher that publishes continuously on its own thread, a subscription on the same host, and
//! the samples that arrive on the other host. Because of the thread, the commands by which a test
//! changes the network delay neither the publisher nor that subscription.

use super::readings::{Heard, TOPIC};
use super::stopwatch::{Stopwatch, Took, measures, print_measured, this_thread, waited_of, within};
use super::{Carried, Host, Rig, eventually, publisher_options, subscription_options};
use driveline::types::{MonotonicNs, Qos};
use driveline::{RawPublisher, RawSubscription, WaitMode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::SeqCst};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Settings of the published samples.
#[derive(Clone)]
pub(crate) struct Speech {
    pub(crate) qos: Qos,
    /// Length of each sample, in bytes.
    pub(crate) len: usize,
    /// Time between two samples.
    pub(crate) pause: Duration,
}

impl Speech {
    pub(crate) fn small(qos: &Qos) -> Self {
        Self { qos: qos.clone(), len: 16, pause: Duration::from_millis(5) }
    }

    pub(crate) fn topics(&self) -> Vec<Carried<'static>> {
        vec![Carried::from_a(TOPIC, self.len as u64)]
    }
}

/// Maximum time from the repair of a link, or the restart of a gateway, to the first heard sample.
// time: judged where `make measure` runs the test
pub(crate) const RECOVERY: Duration = Duration::from_secs(2);
/// Time after which samples must still arrive: the first ones may have come from the history.
const GOES_ON: Duration = Duration::from_millis(500);
/// Allowance for publishing beyond the topic's `max_blocking_ms`, and for a sample to a
/// subscription on the publisher's host: less than any wait for the network.
pub(crate) const LOCAL: Duration = Duration::from_millis(200);
/// Addition to the longest pause between two samples. A machine that sleeps makes it longer.
const PAUSE: Duration = Duration::from_secs(2);

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Number of the last sample.
    said: AtomicU64,
    speaker: AtomicU32,
    longest_publish_us: AtomicU64,
    longest_way_us: AtomicU64,
    longest_gap_us: AtomicU64,
}

/// See the module.
pub(crate) struct Talk {
    pub(crate) subscription: RawSubscription,
    pub(crate) heard: Heard,
    speech: Speech,
    shared: Arc<Shared>,
    speaks: Option<JoinHandle<RawPublisher>>,
    listens: Option<JoinHandle<()>>,
    /// A publisher that publishes nothing any more, but still exists.
    _publisher: Option<RawPublisher>,
}

/// Time of a repair, and the last sample before it.
pub(crate) struct Since {
    watch: Stopwatch,
    said: u64,
}

impl Talk {
    /// Starts when all endpoints are matched from end to end.
    pub(crate) fn new(from: &Host, to: &Host, speech: &Speech) -> Self {
        // The subscription on the same host, and two of the gateway: one watches, one sends.
        Self::when_matched_by(3, from, to, speech)
    }

    /// Starts when all endpoints on the publisher's host are matched.
    pub(crate) fn without_subscription(from: &Host, to: &Host, speech: &Speech) -> Self {
        Self::when_matched_by(2, from, to, speech)
    }

    fn when_matched_by(matched: usize, from: &Host, to: &Host, speech: &Speech) -> Self {
        let Speech { qos, len, pause } = speech.clone();
        let mut publisher =
            from.node.bytes_publisher(TOPIC, "raw", publisher_options(&qos, len)).unwrap();
        let beside =
            from.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
        let subscription =
            to.node.bytes_subscription(TOPIC, "raw", subscription_options(&qos)).unwrap();
        eventually("matched", || publisher.matched() == matched);
        let shared = Arc::new(Shared::default());
        let (of_speaker, of_listener) = (shared.clone(), shared.clone());
        let speaks = std::thread::spawn(move || speak(publisher, len, pause, &of_speaker));
        let listens = std::thread::spawn(move || listen(beside, &of_listener));
        let (speech, heard) = (speech.clone(), Heard::default());
        Self {
            subscription,
            heard,
            speech,
            shared,
            speaks: Some(speaks),
            listens: Some(listens),
            _publisher: None,
        }
    }

    /// Reads all available samples.
    pub(crate) fn read(&mut self) {
        self.heard.read_raw(&mut self.subscription, self.speech.len);
    }

    pub(crate) fn go_on_for(&mut self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.read();
            // time: a link is away for a while, which the caller gives
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Continues until `more` more samples have arrived.
    #[track_caller]
    pub(crate) fn until_heard(&mut self, more: usize) {
        let until = self.heard.numbers.len() + more;
        eventually("received again", || {
            self.read();
            self.heard.numbers.len() >= until
        });
    }

    /// Returns the present moment, from which on the connection must recover.
    pub(crate) fn now(&self) -> Since {
        Since { watch: Stopwatch::start(), said: self.shared.said.load(SeqCst) }
    }

    /// Asserts that after the moment that `outage` returns, the first sample published arrives in
    /// time. If the machine had other work, there may be a second outage.
    #[track_caller]
    pub(crate) fn recovers(&mut self, what: &str, mut outage: impl FnMut(&mut Self) -> Since) {
        within(RECOVERY, what, || {
            let since = outage(self);
            self.took_to_recover(&since, what)
        });
    }

    /// As [`recovers`](Self::recovers), for an outage that cannot be repeated, and that may still
    /// be undetected.
    #[track_caller]
    pub(crate) fn recovers_within(&mut self, promised: Duration, since: &Since, what: &str) {
        let took = self.took_to_recover(since, what);
        print_measured(what, took, promised);
        assert!(
            !measures() || took.is_within(promised),
            "{what}: received again after {took:?}, and {promised:?} are promised"
        );
    }

    /// Continues until a sample published since then is heard, and others after it: the first ones
    /// may have come from the history.
    #[track_caller]
    pub(crate) fn took_to_recover(&mut self, since: &Since, what: &str) -> Took {
        eventually("received again", || {
            self.read();
            self.heard.numbers.last() > Some(&since.said)
        });
        let took = since.watch.read();
        self.go_on_for(GOES_ON);
        let said = self.shared.said.load(SeqCst);
        eventually("received after that", || {
            self.read();
            self.heard.numbers.last() > Some(&said)
        });
        let later = since.watch.read();
        println!(
            "{what}: received again after {took:?}, and later ones after {later:?}; {} missed",
            self.heard.missed
        );
        let time = later.time.saturating_sub(GOES_ON + 2 * self.speech.pause);
        let later = Took { time, waited: later.waited.min(time) };
        if later.time > took.time { later } else { took }
    }

    /// Kills the gateway of one side and starts it again.
    #[track_caller]
    pub(crate) fn restart(&mut self, rig: &mut Rig, side: usize) {
        let what =
            ["sending gateway killed and started", "receiving gateway killed and started"][side];
        self.recovers(what, |talk| talk.kill_and_start(rig, side));
    }

    fn kill_and_start(&mut self, rig: &mut Rig, side: usize) -> Since {
        if side == 0 {
            rig.a.kill_gateway()
        } else {
            rig.b.kill_gateway()
        }
        if side == 1 {
            // The new gateway creates a new publisher there, and samples published meanwhile count
            // as missed before its first sample.
            let subscription = &mut self.subscription;
            eventually("the old publisher is gone", || subscription.matched() == 0);
        }
        // Reads the samples that the killed gateway has published.
        self.read();
        let since = self.now();
        rig.start(side);
        since
    }

    /// Ends. Asserts that each sample after the first received one has arrived or is counted, and
    /// that nothing on the publisher's host waited for the network.
    #[track_caller]
    pub(crate) fn all_accounted_for(&mut self) {
        self.stop();
        let (last, shared) = (self.shared.said.load(SeqCst), self.shared.clone());
        eventually(&format!("received {last}"), || {
            self.read();
            self.heard.numbers.last() == Some(&last)
        });
        let heard = &self.heard;
        assert_eq!(
            heard.accounted(),
            last,
            "each was received or counted: {} missed",
            heard.missed
        );
        let us = |us: &AtomicU64| Duration::from_micros(us.load(SeqCst));
        let (publish, way, gap) = (
            us(&shared.longest_publish_us),
            us(&shared.longest_way_us),
            us(&shared.longest_gap_us),
        );
        println!(
            "longest publish {publish:?}; to the local subscription {way:?}, its longest pause \
             {gap:?}"
        );
        let reliable = self.speech.qos.reliability == driveline::Reliability::Reliable;
        let may_block = Duration::from_millis(if reliable {
            self.speech.qos.max_blocking_ms.into()
        } else {
            0
        });
        if !measures() {
            return;
        }
        assert!(publish <= may_block + LOCAL, "publishing took {publish:?}");
        // A sample's publish time is from before the wait.
        assert!(way <= may_block + LOCAL, "the local subscription got a sample after {way:?}");
        assert!(
            gap <= may_block + PAUSE + self.speech.pause,
            "the local subscription got no sample for {gap:?}"
        );
    }

    fn stop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        self._publisher = self.speaks.take().map(|thread| thread.join().unwrap());
        self.listens.take().into_iter().for_each(|thread| thread.join().unwrap());
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        self.shared.stop.store(true, SeqCst);
        // Their panic has been printed already.
        let _ = self.speaks.take().map(JoinHandle::join);
        let _ = self.listens.take().map(JoinHandle::join);
    }
}

fn speak(
    mut publisher: RawPublisher,
    len: usize,
    pause: Duration,
    shared: &Shared,
) -> RawPublisher {
    let own = this_thread();
    shared.speaker.store(own, SeqCst);
    let mut next = Instant::now();
    while !shared.stop.load(SeqCst) {
        let mut loan = publisher.loan(len).unwrap();
        let number = shared.said.load(SeqCst) + 1;
        loan.payload_mut().fill(number as u8);
        let (waited, began) = (waited_of(&[own]), Instant::now());
        assert_eq!(publisher.publish(loan).unwrap(), number);
        let took = began.elapsed().saturating_sub(waited_of(&[own]).saturating_sub(waited));
        shared.said.store(number, SeqCst);
        shared.longest_publish_us.fetch_max(took.as_micros() as u64, SeqCst);
        next = (next + pause).max(Instant::now());
        // time: paces the publisher
        std::thread::sleep(next - Instant::now());
    }
    publisher
}

fn listen(mut subscription: RawSubscription, shared: &Shared) {
    let own = this_thread();
    let both_waited = || waited_of(&[own, shared.speaker.load(SeqCst)]);
    let (mut last, mut waited): (Option<Instant>, _) = (None, both_waited());
    while !shared.stop.load(SeqCst) {
        // time: interval at which it checks whether to stop
        if !subscription.wait(Some(Duration::from_millis(20)), WaitMode::Block).unwrap() {
            continue;
        }
        let now = Instant::now();
        let machine = both_waited().saturating_sub(waited);
        waited += machine;
        while let Some(sample) = subscription.take().unwrap() {
            let way =
                MonotonicNs::now().since(sample.header().publish_time).saturating_sub(machine);
            shared.longest_way_us.fetch_max(way.as_micros() as u64, SeqCst);
        }
        if let Some(last) = last.replace(now) {
            shared
                .longest_gap_us
                .fetch_max((now - last).saturating_sub(machine).as_micros() as u64, SeqCst);
        }
    }
}
