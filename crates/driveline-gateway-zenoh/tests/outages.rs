// SPDX-License-Identifier: Apache-2.0
//! Links that are cut or fall silent, and gateways and whole hosts that die: no local process waits
//! for them, lost samples are counted, no sample arrives twice, and everything recovers in time.
//! Effects on other hosts: `bystanders.rs`. Each test measures, so they run one after the other.
//!
//! Tests that take minutes are ignored by default: `make measure ONLY=hosts-long`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{MonotonicNs, Qos, Reliability};
use rig::certificates::calls_over_tls;
use rig::process::{LEN, PACE, Process, Role, Word, payload, play, words};
use rig::readings::{deep, small};
use rig::stopwatch::{Stopwatch, Took, this_thread, waited_of, within, within_if};
use rig::talk::{LOCAL, RECOVERY, Speech, Talk};
use rig::{Carried, Host, Rig, alone, eventually, publisher_options, subscription_options};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Cuts the link, or repairs it. Returns false if there is no link that can be cut.
type Cut = fn(&Rig, bool) -> bool;
/// Both ends see that the link is gone, or neither end is notified.
const CUTS: [(&str, Cut); 2] = [
    ("cable pulled", |rig, cut| rig.cable.set_up(!cut)),
    ("silent", |rig, cut| rig.cable.drop_silently(cut)),
];

/// Entry for the processes that other tests of this program start.
#[test]
fn a_process_plays_its_role() {
    play();
}

#[test]
fn lateness_is_measured_again_only_if_the_machine_had_other_work() {
    let took = |ms, waited_ms| Took {
        time: Duration::from_millis(ms),
        waited: Duration::from_millis(waited_ms),
    };
    let of = |measured: &[Took]| {
        let (mut measured, mut times) = (measured.iter(), 0);
        let passes = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            within_if(true, RECOVERY, "an example that is made up", || {
                times += 1;
                *measured.next().expect("no more is measured")
            });
        }));
        (passes.is_ok(), times)
    };
    assert_eq!(of(&[took(1_900, 0)]), (true, 1));
    assert_eq!(of(&[took(2_100, 90)]), (false, 1));
    assert_eq!(of(&[took(2_400, 500)]), (true, 1));
    assert_eq!(of(&[took(9_000, 8_000), took(1_900, 0)]), (true, 2));
    assert_eq!(of(&[took(3_600, 3_000), took(3_600, 3_000)]), (false, 2));
}

/// 64 small samples are kept; the newest counts.
fn fast() -> Speech {
    Speech::small(&deep())
}

/// The publisher waits for a slow subscription, up to a limit.
fn reliable() -> Speech {
    Speech::small(&Qos { reliability: Reliability::Reliable, max_blocking_ms: 200, ..deep() })
}

/// Each sample has many packets, so that a cut is in the middle of a sample; 3 MB/s.
fn large(reliability: Reliability) -> Speech {
    let qos = Qos { depth: 4, reliability, max_blocking_ms: 200, ..Qos::default() };
    Speech { qos, len: 256 << 10, pause: Duration::from_millis(80) }
}

/// Cuts the link, once for each of these durations. Checks the losses, the recovery and its
/// duration, and that nothing waits for the link.
fn outages(speech: &Speech, cut: (&str, Cut), lengths_ms: &[u64]) {
    outages_on(&Rig::new(&speech.topics(), &speech.qos), speech, cut, lengths_ms);
}

fn outages_on(rig: &Rig, speech: &Speech, (how, cut): (&str, Cut), lengths_ms: &[u64]) {
    let mut talk = Talk::new(&rig.a, &rig.b, speech);
    talk.until_heard(20);
    for &ms in lengths_ms {
        let before = [&rig.a, &rig.b].map(out_of_reach);
        if rig.cable.hosts().is_none() {
            rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
            return;
        }
        talk.recovers(&format!("{how} for {ms} ms"), |talk| {
            cut(rig, true);
            talk.go_on_for(Duration::from_millis(ms));
            cut(rig, false);
            talk.now()
        });
        let after = [&rig.a, &rig.b].map(out_of_reach);
        let is_reported = after
            .iter()
            .zip(before)
            .all(|(after, before)| *after >= before + Duration::from_millis(ms));
        assert!(
            is_reported || ms < REPORTED_MS,
            "{how} for {ms} ms: the reported outage grew from {before:?} to {after:?}"
        );
    }
    talk.all_accounted_for();
    no_dead_routes(rig);
}

/// A link that was away for at least this long was reported as gone, whatever was in flight.
const REPORTED_MS: u64 = 15_000;

/// Returns the time for which the other host was gone, according to this one.
fn out_of_reach(host: &Host) -> Duration {
    let report = host.report().expect("a report");
    Duration::from_millis(report.hosts.iter().map(|h| h.outage_ms).sum())
}

/// Time for which the remote publishers of a host are kept for its return. This time starts a
/// little later than the cut.
const KEPT_MS: u64 = 60_000;

/// Checks that the only publisher has one route, to one host.
fn no_dead_routes(rig: &Rig) {
    let sender = rig.a.report().expect("a report");
    assert_eq!(sender.edges.iter().filter(|e| !e.parked).count(), 1, "dead routes: {sender:?}");
    let receiver = rig.b.report().expect("a report");
    assert_eq!(receiver.inlets.len(), 1, "dead inlets: {receiver:?}");
}

/// Outages that are too short to be noticed, longer than a lease, and much longer.
const SHORT_MS: [u64; 3] = [300, 3_000, 15_000];

#[test]
fn a_cable_that_is_pulled_and_plugged_in_costs_what_is_counted() {
    let _alone = alone();
    outages(&fast(), CUTS[0], &SHORT_MS);
}

#[test]
fn a_link_that_falls_silent_costs_what_is_counted() {
    let _alone = alone();
    outages(&fast(), CUTS[1], &SHORT_MS);
}

#[test]
fn an_outage_costs_a_reliable_topic_what_its_publisher_does_not_wait_for() {
    let _alone = alone();
    CUTS.into_iter().for_each(|cut| outages(&reliable(), cut, &[3_000]));
}

#[test]
fn an_outage_in_the_middle_of_large_samples_costs_what_is_counted() {
    let _alone = alone();
    for (reliability, cut) in [Reliability::BestEffort, Reliability::Reliable].into_iter().zip(CUTS)
    {
        outages(&large(reliability), cut, &[3_000]);
    }
}

/// Over TLS too, the kernel breaks a connection whose packets are not acknowledged within a lease,
/// whatever Zenoh does.
#[test]
fn over_tls_a_link_that_was_away_carries_samples_again_in_time() {
    let _alone = alone();
    for (speech, cut) in
        [(fast(), CUTS[1]), (large(Reliability::BestEffort), CUTS[1]), (reliable(), CUTS[0])]
    {
        let rig = Rig::with(&speech.topics(), &speech.qos, 0, &calls_over_tls);
        outages_on(&rig, &speech, cut, &[300, 1_500, 5_000]);
    }
}

#[test]
#[ignore = "takes minutes: make measure ONLY=hosts-long"]
fn outages_of_about_a_lease_are_over_in_time() {
    let _alone = alone();
    for cut in CUTS {
        // The two ends may disagree on whether the connection still exists.
        outages(&fast(), cut, &[1_000, 1_500, 2_000, 2_500, 3_000]);
        outages(&reliable(), cut, &[300, 1_500, 15_000]);
        for reliability in [Reliability::BestEffort, Reliability::Reliable] {
            outages(&large(reliability), cut, &[300, 1_500, 3_000]);
        }
    }
}

/// Tests both kinds of cuts at the same time, in networks of their own, because both mostly wait.
fn outages_of(ms: u64) {
    let _alone = alone();
    std::thread::scope(|scope| {
        CUTS.map(|cut| scope.spawn(move || outages(&fast(), cut, &[ms])))
            .map(|thread| thread.join().unwrap())
    });
}

#[test]
fn outages_of_a_minute_are_over_in_time() {
    outages_of(KEPT_MS);
}

#[test]
#[ignore = "takes minutes: make measure ONLY=hosts-long"]
fn outages_of_nearly_a_minute_are_over_in_time_and_keep_remote_publishers() {
    outages_of(50_000);
}

#[test]
#[ignore = "takes minutes: make measure ONLY=hosts-long"]
fn after_an_outage_of_more_than_a_minute_what_was_missed_is_counted() {
    let _alone = alone();
    let rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(&rig.a, &rig.b, &fast());
    talk.until_heard(20);
    if !rig.cable.drop_silently(true) {
        rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
        return;
    }
    talk.go_on_for(Duration::from_secs(70));
    eventually("forgotten", || talk.subscription.matched() == 0);
    rig.cable.drop_silently(false);
    talk.recovers_within(RECOVERY, &talk.now(), "silent for 70 s");
    talk.all_accounted_for();
}

#[test]
fn gateways_restarted_twenty_times_leave_no_dead_routes() {
    let _alone = alone();
    let mut rig = Rig::new(&small(), &deep());
    let mut talk = Talk::new(&rig.a, &rig.b, &fast());
    talk.until_heard(20);
    for n in 0..40 {
        talk.restart(&mut rig, n % 2);
    }
    no_dead_routes(&rig);
    talk.all_accounted_for();
}

#[test]
fn many_topics_are_heard_again_as_soon_as_one() {
    const LEN: usize = 4096;
    const PACE: Duration = Duration::from_millis(10);
    let _alone = alone();
    let qos = Qos { depth: 8, ..Qos::default() };
    // All of them wait for space in the same queue of a dead link.
    let names: Vec<String> = (0..20).map(|n| format!("wheel/{n}")).collect();
    let topics: Vec<_> = names.iter().map(|name| Carried::from_a(name, LEN as u64)).collect();
    let rig = Rig::new(&topics, &qos);
    let mut publishers: Vec<_> = names
        .iter()
        .map(|name| rig.a.node.bytes_publisher(name, "raw", publisher_options(&qos, LEN)).unwrap())
        .collect();
    let mut subscriptions: Vec<_> = names
        .iter()
        .map(|name| rig.b.node.bytes_subscription(name, "raw", subscription_options(&qos)).unwrap())
        .collect();
    let mut go_on = || {
        for publisher in &mut publishers {
            let loan = publisher.loan(LEN).unwrap();
            publisher.publish(loan).unwrap();
        }
        std::thread::sleep(PACE);
    };
    // Continues until a sample published since then was heard on each topic.
    let mut all_heard = |go_on: &mut dyn FnMut(), since: MonotonicNs| {
        let mut heard = vec![false; names.len()];
        eventually("heard of each topic", || {
            go_on();
            for (subscription, heard) in subscriptions.iter_mut().zip(&mut heard) {
                while let Some(sample) = subscription.take().unwrap() {
                    *heard |= sample.header().publish_time > since;
                }
            }
            heard.iter().all(|heard| *heard)
        });
    };
    all_heard(&mut go_on, MonotonicNs(0));
    // A little longer than a lease, so that the connection ends while all still wait.
    for ms in [2_200, 3_000, 2_200, 3_000] {
        if rig.cable.hosts().is_none() {
            rig::skipped("a link that is cut", "the loopback device cannot be", rig::AS_ROOT);
            return;
        }
        within(RECOVERY, &format!("{} topics, silent for {ms} ms", names.len()), || {
            rig.cable.drop_silently(true);
            let end = Instant::now() + Duration::from_millis(ms);
            while Instant::now() < end {
                go_on();
            }
            rig.cable.drop_silently(false);
            let (watch, since) = (Stopwatch::start(), MonotonicNs::now());
            all_heard(&mut go_on, since);
            watch.read()
        });
    }
}

/// Topics from the first host, and to it.
const TOPICS: [&str; 2] = ["from/a", "from/b"];

/// Checks the samples of processes that run one after the other: each sample arrives once, in
/// order, and samples missing between two of one process are counted.
fn in_order_and_counted(heard: &[Word]) {
    for pair in heard.windows(2) {
        let [before, word] = pair else { unreachable!("windows of two") };
        if word.process == before.process {
            assert!(word.number > before.number, "{word:?} after {before:?}");
            assert_eq!(word.missed, word.number - before.number - 1, "{word:?} after {before:?}");
        } else {
            assert!(
                word.process > before.process,
                "{word:?} after {before:?}: of a process that is long gone"
            );
        }
    }
}

/// All processes of one host die at once, and so does the state of its kernel. No end is announced.
/// After some time the host starts again.
fn switched_off_and_on(side: usize) {
    let topics = [
        Carried::from_a(TOPICS[0], LEN as u64),
        Carried { from_a: false, from_b: true, ..Carried::from_a(TOPICS[1], LEN as u64) },
    ];
    let mut rig = Rig::new(&topics, &deep());
    let start = |rig: &mut Rig, process: u64| {
        let (publishes, hears) = (TOPICS[side].to_owned(), TOPICS[1 - side].to_owned());
        let domain_dir = rig.host(side).domain_dir().to_owned();
        Process::start(&Role { domain_dir, publishes, hears, qos: deep(), process })
    };
    let stays = rig.host(1 - side).node.clone();
    let mut publisher =
        stays.bytes_publisher(TOPICS[1 - side], "raw", publisher_options(&deep(), LEN)).unwrap();
    let mut subscription =
        stays.bytes_subscription(TOPICS[side], "raw", subscription_options(&deep())).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Ends with the test, also if it panics.
        let _end = OnDrop(&stop);
        let speaks = scope.spawn(|| {
            let (own, mut longest) = (this_thread(), Duration::ZERO);
            for number in 1.. {
                let mut loan = publisher.loan(LEN).unwrap();
                loan.payload_mut().copy_from_slice(&payload(0, number));
                let (waited, began) = (waited_of(&[own]), Instant::now());
                publisher.publish(loan).unwrap();
                longest = longest
                    .max(began.elapsed().saturating_sub(waited_of(&[own]).saturating_sub(waited)));
                if stop.load(SeqCst) {
                    break;
                }
                std::thread::sleep(PACE);
            }
            longest
        });
        let mut process = Some(start(&mut rig, 1));
        let (mut here, mut there): (Vec<Word>, Vec<Word>) = (Vec::new(), Vec::new());
        // Waits for samples in both directions, of the process with this number.
        let mut both = |process: Option<&Process>, of: u64, more: usize, there: &mut Vec<Word>| {
            let mut here_of = 0;
            eventually("heard on both hosts", || {
                let new = words(&mut subscription);
                here_of += new.iter().filter(|w| w.process == of).count();
                here.extend(new);
                there.extend(process.map(Process::heard).unwrap_or_default());
                here_of >= more && there.len() >= more
            });
        };
        both(process.as_ref(), 1, 20, &mut there);
        let mut of = 1;
        for off_ms in [300, 3_000] {
            within(
                RECOVERY,
                &format!("host {} off for {off_ms} ms, both directions", ["a", "b"][side]),
                || {
                    of += 1;
                    in_order_and_counted(&there);
                    if !rig.switch_off(side, process.take().expect("a process")) {
                        rig::skipped(
                            "a host that is gone without a farewell",
                            "without network namespaces the kernel says it",
                            rig::AS_ROOT,
                        );
                    }
                    std::thread::sleep(Duration::from_millis(off_ms));
                    // Reads the samples that arrived before the host was switched off.
                    both(None, of, 0, &mut there);
                    there.clear();
                    let since = Stopwatch::start();
                    rig.switch_on(side);
                    process = Some(start(&mut rig, of));
                    both(process.as_ref(), of, 1, &mut there);
                    since.read()
                },
            );
            both(process.as_ref(), of, 50, &mut there);
        }
        in_order_and_counted(&there);
        in_order_and_counted(&here);
        stop.store(true, SeqCst);
        let longest = speaks.join().unwrap();
        assert!(longest <= LOCAL, "publishing took {longest:?} on the host that stayed");
        let report = rig.host(1 - side).report().expect("a report");
        assert_eq!(report.edges.iter().filter(|e| !e.parked).count(), 1, "dead routes: {report:?}");
        assert!(report.inlets.iter().all(|i| i.figures.duplicate == 0), "{report:?}");
    });
}

struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

#[test]
fn a_host_that_is_switched_off_and_on_takes_part_again_in_time() {
    let _alone = alone();
    switched_off_and_on(0);
    switched_off_and_on(1);
}
