// SPDX-License-Identifier: Apache-2.0
//! Topics between two hosts, with gateways as processes and a cable between them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::{Durability, MonotonicNs, Qos, Reliability, plain_type};
use driveline::{EndpointEvent, RawSubscription, WaitMode};
use driveline_gateway::RemotePublisherState;
use rig::readings::{Heard, Reading, TOPIC, between, deep, pair, say, small};
use rig::stopwatch::{Stopwatch, Took, measures, within};
use rig::{Carried, Host, Rig, carried, eventually, publisher_options, subscription_options};
use serde_json::json;
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// A type with the same name and another field.
#[plain_type(name = "test/Reading", crate = driveline::types)]
#[derive(Debug, Default, PartialEq)]
struct OtherReading {
    number: u64,
    values: f64,
}

#[test]
fn samples_arrive_in_order_with_their_numbers_times_and_losses() {
    let rig = Rig::new(&small(), &deep());
    let (mut publisher, mut subscription) = pair(&rig, &deep());
    let (mut heard, mut last) = (Heard::default(), 0);
    // On a machine with other work some are lost, and 300 are not enough for 200 to arrive.
    eventually("200 received", || {
        last += 1;
        say(&mut publisher, last);
        // time: paces the publisher
        subscription.wait(Some(Duration::from_millis(2)), WaitMode::Block).unwrap();
        heard.read(&mut subscription);
        last >= 300 && heard.numbers.len() >= 200
    });
    heard.until(&mut subscription, last);
    assert_eq!(heard.accounted(), last, "each was received or counted");

    // Both hosts have one clock, so the error bound includes 0.
    let mut report = None;
    eventually("reported", || {
        report = rig.b.report().filter(|r| {
            r.inlets
                .iter()
                .any(|i| i.state == RemotePublisherState::Wanted && i.figures.published >= 200)
        });
        report.is_some()
    });
    let report = report.unwrap();
    let host = report.hosts.iter().find(|h| h.host.starts_with("a.")).expect("the other host");
    assert!(
        host.alive && host.offset_ns.unwrap().unsigned_abs() <= host.offset_error_ns.unwrap(),
        "{host:?}"
    );
    assert_eq!((host.clock_steps, report.damaged), (0, 0), "{report:?}");
    assert_eq!(
        (report.inlets[0].node.as_str(), report.inlets[0].figures.duplicate),
        ("a", 0),
        "{report:?}"
    );
    let mut sent = None;
    eventually("reported by the sender", || {
        sent = rig.a.report().filter(|r| !r.edges.is_empty());
        sent.is_some()
    });
    let sent = sent.unwrap();
    assert_eq!(
        (sent.edges.len(), sent.edges[0].qos.as_str(), sent.edges[0].figures.unacknowledged),
        (1, "bv", 0),
        "{sent:?}"
    );
}

#[test]
fn the_age_of_data_adds_up_on_the_other_host() {
    let rig = Rig::new(&small(), &deep());
    let (mut publisher, mut subscription) = pair(&rig, &deep());
    let mut loan = publisher.loan(0).unwrap();
    let measured = MonotonicNs(MonotonicNs::now().0 - 5_000_000);
    loan.set_source_time(measured);
    *loan.view_mut().unwrap().head_mut() = Reading { number: 1, value: 0.5 };
    publisher.publish(loan).unwrap();
    assert!(subscription.wait(Some(rig::PATIENCE), WaitMode::Block).unwrap());
    let sample = subscription.take().unwrap().unwrap();
    let (header, origin) = (sample.header(), sample.header().origins.as_slice()[0]);
    let parts =
        origin.communication_ns.wrapping_add(origin.computation_ns).wrapping_add(origin.idle_ns);
    assert_eq!(parts, origin.age_ns(header.publish_time));
    // Both hosts have one clock: a measurement time stays the same after conversion, within the
    // error.
    assert!(
        origin.source_oldest.signed_since(measured).unsigned_abs() <= header.clock_error_ns,
        "{header:?}"
    );
    assert!(origin.computation_ns >= 5_000_000);
}

#[test]
fn large_samples_arrive_whole_and_the_newest_wins() {
    the_newest_frame_wins(|topics, qos| Some(Rig::new(topics, qos)), Duration::ZERO);
}

#[test]
fn large_samples_over_a_slow_and_long_way_arrive_whole_and_the_newest_wins() {
    let way = Duration::from_millis(10);
    the_newest_frame_wins(|topics, qos| Rig::with_delays(topics, qos, 0, [way; 2]), way);
}

fn the_newest_frame_wins(rig: impl FnOnce(&[Carried<'_>], &Qos) -> Option<Rig>, way: Duration) {
    const LEN: usize = 4 << 20;
    const MBIT: u32 = 100;
    /// Minimum number of samples published and arrived.
    const AT_LEAST: u64 = 40;
    const ARRIVE: u64 = 4;
    /// Time between two samples: that of a camera.
    const PERIOD: Duration = Duration::from_millis(20);
    /// Number of sent but unacknowledged bytes that the kernel keeps.
    const WINDOW: f64 = 65_536.0;
    let qos = Qos { checksum: true, ..Qos::default() };
    let Some(rig) = rig(&[Carried::from_a("camera", LEN as u64)], &qos) else { return };
    let limited = rig.limit(MBIT, "samples that are faster than the link");
    let mut publisher =
        rig.a.node.bytes_publisher("camera", "raw", publisher_options(&qos, LEN)).unwrap();
    let mut subscription: RawSubscription =
        rig.b.node.bytes_subscription("camera", "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    let (mut received, mut missed, mut first, mut last, mut oldest_ns) = (0, 0, 0, 0, 0);
    let mut read = || {
        oldest_ns = 0;
        while let Some(sample) = subscription.take().unwrap() {
            let (n, payload) = (sample.header().sequence, sample.payload().unwrap());
            assert!(
                payload.len() == LEN - n as usize && payload.iter().all(|b| *b == n as u8),
                "sample {n} is damaged"
            );
            assert_eq!(
                sample.missed(),
                if last == 0 { sample.missed().min(n - 1) } else { n - last - 1 }
            );
            oldest_ns = oldest_ns.max(sample.header().remote.unwrap().transit_ns);
            first = if first == 0 { n - sample.missed() } else { first };
            (received, missed, last) = (received + 1, missed + sample.missed(), n);
        }
        (received, missed, first, last, Duration::from_nanos(oldest_ns.max(0).cast_unsigned()))
    };
    // The link carries a sample in a third of a second. In a queue, forty samples would take 13 s,
    // and the last one would be as old. Over a long path, at most one window is carried in each
    // round trip.
    let by_link = LEN as f64 * 8.0 / (f64::from(MBIT) * 1e6);
    let by_window = LEN as f64 / WINDOW * 2.0 * way.as_secs_f64();
    let one = Duration::from_secs_f64(by_link.max(by_window));
    let mut all = 0;
    let mut publish = |n: u64| {
        let mut loan = publisher.loan(LEN - n as usize).unwrap();
        loan.payload_mut().fill(n as u8);
        publisher.publish(loan).unwrap();
    };
    let mut stream = || {
        let (watch, before) = (Stopwatch::start(), read().0);
        let (mut oldest, mut arrived, mut samples) =
            (Took { time: Duration::ZERO, waited: Duration::ZERO }, 0, 0);
        let mut since_the_one_before = Stopwatch::start();
        // Ages count only while the publisher runs. After its end, the last sample waits for the
        // one in flight, and no newer one replaces it.
        eventually("received while it goes on", || {
            (all, samples) = (all + 1, samples + 1);
            publish(all);
            // time: paces the publisher
            std::thread::sleep(PERIOD);
            let (received, .., age) = read();
            if received - before > arrived {
                // The sample was in flight since the previous one arrived.
                let took = Took {
                    time: age,
                    ..std::mem::replace(&mut since_the_one_before, Stopwatch::start()).read()
                };
                oldest = std::cmp::max_by_key(oldest, took, |took| {
                    took.time.saturating_sub(took.waited)
                });
            }
            arrived = received - before;
            samples >= AT_LEAST && arrived >= ARRIVE
        });
        let published = watch.read().time;
        // A best-effort sample is dropped if the link takes longer for it than its bandwidth says,
        // for example while the gateway gets no processor. Then another one is the newest.
        let lost = || {
            let report = rig.a.report()?;
            report.edges.first().map(|e| e.figures.unacknowledged + e.figures.not_sent)
        };
        let mut known = lost();
        eventually("received the newest", || {
            let now = lost();
            if now > known && read().3 < all {
                (known, all) = (now, all + 1);
                publish(all);
            }
            read().3 == all
        });
        let (received, missed, first, ..) = read();
        assert_eq!(received + missed + first - 1, all, "each was received or counted");
        // The samples that fit into this time, the sample in flight and the newest sample: no
        // sample waited in a queue.
        let (received, most) = (received - before, (published.as_secs_f64() / by_link) as u64 + 3);
        assert!(
            !(limited && measures()) || received <= most,
            "{received} of {samples} were received, {most} could be: each takes the link {by_link} \
             s, and they were published in {published:?}"
        );
        oldest
    };
    if limited {
        within(
            one * 5 / 4 + PERIOD + way,
            "the age of the oldest sample that was received",
            stream,
        );
    } else {
        stream();
    }
}

/// Returns the maximum private memory of a gateway during some work, polled every millisecond.
fn most_memory<T>(host: &Host, work: impl FnOnce() -> T) -> (u64, T) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut most = host.private_memory();
            while !done.load(SeqCst) {
                most = most.max(host.private_memory());
                // time: how often it looks at the memory meanwhile
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let result = work();
        done.store(true, SeqCst);
        (looks.join().unwrap(), result)
    })
}

#[test]
fn sending_large_samples_copies_nothing() {
    copies_nothing(&Qos::default());
}

/// Reliable samples stay in the publisher's memory.
#[test]
fn sending_large_reliable_samples_copies_nothing() {
    copies_nothing(&Qos {
        reliability: Reliability::Reliable,
        max_blocking_ms: 60_000,
        ..Qos::default()
    });
}

fn copies_nothing(qos: &Qos) {
    const LEN: usize = 8 << 20;
    let rig = Rig::new(&[Carried::from_a("camera", LEN as u64)], qos);
    // Each sample takes most of a second, so that held memory shows.
    if !rig.limit(100, "memory while a sample is on its way") {
        return;
    }
    let mut publisher =
        rig.a.node.bytes_publisher("camera", "raw", publisher_options(qos, LEN)).unwrap();
    let mut subscription =
        rig.b.node.bytes_subscription("camera", "raw", subscription_options(qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    let mut send = |len: usize| {
        let loan = publisher.loan(len).unwrap();
        let number = publisher.publish(loan).unwrap();
        eventually("received", || {
            subscription.latest().unwrap().is_some_and(|s| s.header().sequence == number)
        });
    };
    // Small samples first, until connections, threads and queues have their memory.
    (0..20).for_each(|_| send(64));
    for n in 1..=3 {
        let before = rig.a.private_memory();
        let (most, ()) = most_memory(&rig.a, || send(LEN));
        println!("sample {n} of {LEN} bytes: {before}, then up to {most} bytes");
        assert!(
            most.saturating_sub(before) < 1 << 20,
            "with sample {n} the sending gateway has grown from {before} to {most} bytes"
        );
    }
}

#[test]
fn both_directions_of_one_topic_make_no_loop() {
    let both = Carried { from_b: true, ..Carried::from_a(TOPIC, 64) };
    let rig = Rig::new(&[both], &deep());
    let hosts = [&rig.a, &rig.b];
    let mut publishers =
        hosts.map(|h| h.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap());
    let mut subscriptions = hosts
        .map(|h| h.node.subscription::<Reading>(TOPIC, subscription_options(&deep())).unwrap());
    // Each subscription matches the local publisher and the publisher of the other host.
    eventually("matched", || subscriptions.iter_mut().all(|s| s.raw().matched() == 2));
    eventually("wanted", || publishers.iter_mut().all(|p| p.raw().matched() == 3));
    for number in 1..=50 {
        publishers.iter_mut().for_each(|p| say(p, number));
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(2));
    }
    let mut heard = [(Vec::new(), Vec::new()), (Vec::new(), Vec::new())];
    eventually("the last one heard on both", || {
        for (subscription, (own, remote)) in subscriptions.iter_mut().zip(&mut heard) {
            while let Some(sample) = subscription.take().unwrap() {
                let number = sample.view().unwrap().number;
                if sample.header().remote.is_some() {
                    remote.push(number)
                } else {
                    own.push(number)
                }
            }
        }
        heard.iter().all(|(_, remote)| remote.last() == Some(&50))
    });
    for (host, (own, remote)) in hosts.iter().zip(&heard) {
        assert_eq!(*own, (1..=50).collect::<Vec<_>>());
        assert!(remote.is_sorted_by(|a, b| a < b), "{remote:?}");
        let report = host.report().expect("a report");
        // Samples from the other host are on this one, and were not sent back.
        assert!(
            report.edges.iter().all(|e| e.figures.sent <= 50)
                && report.inlets[0].figures.duplicate == 0,
            "{report:?}"
        );
    }
}

#[test]
fn reliable_and_transient_local_topics_lose_nothing() {
    let qos = Qos {
        depth: 16,
        reliability: Reliability::Reliable,
        durability: Durability::TransientLocal,
        max_blocking_ms: 10_000,
        ..Qos::default()
    };
    let rig = Rig::new(&small(), &qos);
    let mut publisher =
        rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&qos, 64)).unwrap();
    (1..=10).for_each(|n| say(&mut publisher, n));
    // A late subscription on another host gets the history.
    let mut subscription =
        rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&qos)).unwrap();
    let mut heard = Heard::default();
    heard.until(&mut subscription, 10);
    for number in 11..=400 {
        say(&mut publisher, number);
        heard.read(&mut subscription);
    }
    heard.until(&mut subscription, 400);
    assert_eq!(heard.numbers, (1..=400).collect::<Vec<_>>());
}

#[test]
fn the_only_sample_of_each_further_publisher_of_a_latched_topic_arrives() {
    for reliability in [Reliability::BestEffort, Reliability::Reliable] {
        let qos = Qos {
            reliability,
            durability: Durability::TransientLocal,
            max_blocking_ms: 10_000,
            ..Qos::default()
        };
        let rig = Rig::new(&small(), &qos);
        let mut subscription =
            rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&qos)).unwrap();
        let mut publishers = Vec::new();
        let mut heard = Vec::new();
        for number in 1..=20 {
            // From the second sample on, the route exists and takes the sample at once, before the
            // other host can know of its publisher.
            let mut publisher =
                rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&qos, 64)).unwrap();
            say(&mut publisher, number);
            publishers.push(publisher);
            eventually(&format!("heard {number} ({reliability:?})"), || {
                heard.extend(
                    std::iter::from_fn(|| subscription.take().unwrap())
                        .map(|s| s.view().unwrap().number),
                );
                heard.contains(&number)
            });
        }
        assert_eq!(heard, (1..=20).collect::<Vec<_>>());
        let figures = rig.a.report().expect("a report").edges[0].figures;
        assert_eq!((figures.refused, figures.unacknowledged), (0, 0), "{figures:?}");
    }
}

#[test]
fn the_last_sample_of_a_publisher_arrives_however_long_it_takes() {
    const LEN: usize = 2 << 20;
    let qos = Qos { depth: 4, reliability: Reliability::Reliable, ..Qos::default() };
    let rig = Rig::new(&[Carried::from_a("map", LEN as u64)], &qos);
    let mut publisher =
        rig.a.node.bytes_publisher("map", "raw", publisher_options(&qos, LEN)).unwrap();
    let mut subscription: RawSubscription =
        rig.b.node.bytes_subscription("map", "raw", subscription_options(&qos)).unwrap();
    eventually("matched", || publisher.matched() == 2);
    // Each sample takes most of a second: the publisher has ended long before the last one is sent.
    rig.limit(20, "a link on which the last samples take long");
    for _ in 1..=4 {
        let loan = publisher.loan(LEN).unwrap();
        publisher.publish(loan).unwrap();
    }
    drop(publisher);
    let mut numbers = Vec::new();
    eventually("all received", || {
        while let Some(sample) = subscription.take().unwrap() {
            numbers.push(sample.header().sequence);
        }
        numbers.last() == Some(&4)
    });
    assert_eq!(numbers, [1, 2, 3, 4]);
    eventually("the end of the publisher was reported", || subscription.matched() == 0);
}

/// Samples in flight are followed by requests, so that TCP detects a loss at the end: the protocol,
/// section 5.
#[test]
fn samples_without_acknowledgement_are_followed_by_time_requests() {
    let qos = Qos { reliability: Reliability::Reliable, max_blocking_ms: 60_000, ..Qos::default() };
    let rig = Rig::new(&small(), &qos);
    let (mut publisher, mut subscription) = pair(&rig, &qos);
    let state = || {
        rig.a
            .report()
            .and_then(|r| Some((r.edges.first()?.figures.in_flight, r.hosts.first()?.exchanges)))
    };
    let mut heard = Heard::default();
    say(&mut publisher, 1);
    heard.until(&mut subscription, 1);
    // The subscription reads no further, so the second sample is not acknowledged.
    say(&mut publisher, 2);
    say(&mut publisher, 3);
    let mut before = 0;
    eventually("in flight", || {
        let (in_flight, exchanges) = state().unwrap_or_default();
        before = exchanges;
        in_flight > 0
    });
    let begin = Instant::now();
    eventually("asked far more often than every two seconds, the period without topics", || {
        state().is_some_and(|(_, exchanges)| exchanges >= before + 4 + begin.elapsed().as_secs())
    });
    assert!(state().unwrap().0 > 0, "acknowledged, although no subscription reads");
    heard.until(&mut subscription, 3);
}

#[test]
fn a_late_subscription_after_a_volatile_one_gets_the_history() {
    let kept = Qos { depth: 16, durability: Durability::TransientLocal, ..Qos::default() };
    let rig = Rig::new(&small(), &kept);
    let mut publisher =
        rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&kept, 64)).unwrap();
    (1..=10).for_each(|n| say(&mut publisher, n));
    let mut first =
        rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&deep())).unwrap();
    eventually("received by the first", || first.take().unwrap().is_some());
    say(&mut publisher, 11);
    let mut late = rig.b.node.subscription::<Reading>(TOPIC, subscription_options(&kept)).unwrap();
    let mut heard = Heard::default();
    heard.until(&mut late, 11);
    assert_eq!(heard.numbers, (1..=11).collect::<Vec<_>>());
}

#[test]
fn publishers_of_one_topic_with_different_qos_are_each_carried_as_they_are() {
    let reliable = Qos { reliability: Reliability::Reliable, max_blocking_ms: 10_000, ..deep() };
    let rig = Rig::new(&small(), &reliable);
    let new =
        |qos: &Qos| rig.a.node.publisher::<Reading>(TOPIC, publisher_options(qos, 64)).unwrap();
    let (mut sure, mut quick) = (new(&reliable), new(&deep()));
    let subscribe =
        |qos: &Qos| rig.b.node.subscription::<Reading>(TOPIC, subscription_options(qos)).unwrap();
    // One subscription requests reliability; the other accepts any policy.
    let (mut strict, mut all) = (subscribe(&reliable), subscribe(&deep()));
    eventually("matched", || strict.raw().matched() == 1 && all.raw().matched() == 2);
    let edges = || {
        let report = rig.a.report().expect("a report");
        let mut edges: Vec<_> =
            report.edges.iter().map(|e| (e.offered.clone(), e.qos.clone())).collect();
        edges.sort_unstable();
        let each_delivers = report.edges.iter().all(|e| e.figures.delivered > 0);
        (edges, report.refused, each_delivers)
    };
    let each_as_it_is =
        (["bv", "rv"].map(|mark| (mark.to_owned(), mark.to_owned())).to_vec(), Vec::new(), true);
    // If the subscription that accepts any policy was discovered first, another route follows when
    // the other subscription is discovered.
    eventually("wanted", || {
        say(&mut sure, 0);
        say(&mut quick, 0);
        edges() == each_as_it_is
    });
    for n in 1..=50 {
        say(&mut sure, n);
        say(&mut quick, 1_000 + n);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(2));
    }
    let (mut of_strict, mut of_all) = (Vec::new(), Vec::new());
    eventually("received", || {
        for (s, numbers) in [(&mut strict, &mut of_strict), (&mut all, &mut of_all)] {
            while let Some(sample) = s.take().unwrap() {
                numbers.push(sample.view().unwrap().number);
            }
            numbers.retain(|n| *n > 0);
        }
        of_strict.last() == Some(&50) && of_all.contains(&50) && of_all.contains(&1_050)
    });
    assert_eq!(of_strict, (1..=50).collect::<Vec<_>>());
    of_all.sort_unstable();
    assert!(of_all.is_sorted_by(|a, b| a < b), "something came twice: {of_all:?}");
    assert_eq!(edges(), each_as_it_is);
}

#[test]
fn samples_skipped_on_purpose_are_counted_on_both_ends() {
    let qos = deep();
    let topic = Carried { every: Some(5), ..Carried::from_a(TOPIC, 64) };
    let rig = Rig::new(&[topic], &qos);
    let (mut publisher, mut subscription) = pair(&rig, &qos);
    let mut heard = Heard::default();
    for number in 1..=100 {
        say(&mut publisher, number);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(2));
        heard.read(&mut subscription);
    }
    heard.until(&mut subscription, 100);
    assert!(heard.numbers.iter().all(|n| n % 5 == 0), "{:?}", heard.numbers);
    assert_eq!(heard.accounted(), 100, "each was received or counted");
    let mut figures = None;
    eventually("counted", || {
        figures = rig.a.report().and_then(|r| Some(r.edges.first()?.figures));
        figures.is_some_and(|f| f.decimated + f.superseded + f.delivered == 100)
    });
    assert!(figures.is_some_and(|f| f.decimated > f.delivered), "{figures:?}");
}

#[test]
fn another_type_on_the_other_host_is_refused_with_the_difference() {
    let rig = Rig::new(&small(), &deep());
    let _publisher =
        rig.a.node.publisher::<Reading>(TOPIC, publisher_options(&deep(), 64)).unwrap();
    let mut subscription =
        rig.b.node.subscription::<OtherReading>(TOPIC, subscription_options(&deep())).unwrap();
    let mut text = String::new();
    eventually("refused", || {
        if let Some(EndpointEvent::Refused { text: t }) = subscription.raw().poll_event() {
            text = t;
        }
        !text.is_empty()
    });
    assert!(text.contains("value"), "{text}");
}

/// Returns the mode of a gateway's socket in a directory of this mode and group, and whether the
/// gateway of another user in that group can connect.
fn lets_in(mode: u32, group: u32, expected: bool) -> (u32, bool) {
    let dir = tempfile::tempdir().unwrap();
    let set_mode = |path: &Path, mode: u32| {
        std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap()
    };
    set_mode(dir.path(), 0o755);
    let shared = dir.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    chown(&shared, None, Some(group)).unwrap();
    set_mode(&shared, mode);
    let socket = shared.join("gateway");
    let endpoint = format!("unixsock-stream/{}", socket.display());
    let topic = carried(TOPIC, true, true, 64, &Qos::default());
    let mut host = Host::new(
        dir.path(),
        "a",
        Vec::new(),
        &json!({ "host": "a", "listen": [endpoint] }),
        std::slice::from_ref(&topic),
    );
    host.start();
    eventually("it listens", || host.report().is_some_and(|r| !r.network.listens.is_empty()));
    // The other gateway has its files in directories of its own.
    let (home, program) = (dir.path().join("b"), dir.path().join("gateway"));
    std::fs::create_dir(&home).unwrap();
    // Another process copies it: if this one did, a process that another test starts meanwhile
    // would have the file open for writing as well, and it could not be executed.
    if std::fs::hard_link(rig::GATEWAY, &program).is_err() {
        assert!(Command::new("cp").arg(rig::GATEWAY).arg(&program).status().unwrap().success());
    }
    let network = json!({ "host": "b", "connect": [endpoint] });
    let config = json!({
        "domain": "test", "domain_dir": home.join("domain"), "network": network, "topics": [topic],
    });
    std::fs::write(home.join("config.json"), config.to_string()).unwrap();
    chown(&home, Some(OTHER), Some(OTHER)).unwrap();
    let user = [format!("--reuid={OTHER}"), format!("--regid={OTHER}"), "--clear-groups".into()];
    let mut other = Command::new("setpriv");
    other
        .args(user)
        .arg(&program)
        .arg(home.join("config.json"))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    let mut other = other.spawn().unwrap();
    let is_in = || host.report().is_some_and(|r| r.network.peers == 1);
    let runs = || home.join("domain").join("gateway-zenoh.status").exists();
    eventually("it tries, each 0.2 s", || is_in() || runs());
    if expected {
        eventually("it is in", is_in);
    } else {
        // time: several attempts; a slow machine makes fewer
        std::thread::sleep(Duration::from_secs(2));
    }
    let is_in = is_in();
    other.kill().unwrap();
    other.wait().unwrap();
    (std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, is_in)
}

/// User that is neither root nor the user that runs these tests.
const OTHER: u32 = 60_017;

#[test]
fn users_who_may_enter_the_restricted_directory_of_a_socket_connect() {
    if !rustix::process::geteuid().is_root() {
        return rig::skipped(
            "a socket between two users",
            "only root can be several",
            "run it as root",
        );
    }
    assert_eq!(lets_in(0o750, OTHER, true), (0o666, true), "its group may enter");
    assert!(!lets_in(0o750, 0, false).1, "the other user may not enter");
    let (mode, is_in) = lets_in(0o755, OTHER, false);
    assert!(!is_in && mode & 0o002 == 0, "all may enter: {mode:o}");
}

#[test]
fn sides_that_share_only_a_directory_connect_through_a_socket_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let qos = Qos { depth: 128, reliability: Reliability::Reliable, ..Qos::default() };
    let socket = format!("unixsock-stream/{}", dir.path().join("gateway").display());
    let host = |name: &str, key: &str, sends: bool| {
        let network = json!({ "host": name, key: [socket] });
        let mut host = Host::new(
            dir.path(),
            name,
            rig::without_network(),
            &network,
            &[carried(TOPIC, sends, !sends, 64, &qos)],
        );
        host.start();
        host
    };
    let mut a = host("a", "listen", true);
    let b = host("b", "connect", false);
    let (mut publisher, mut subscription) = between(&a, &b, &qos);
    let mut heard = Heard::default();
    (1..=100).for_each(|number| say(&mut publisher, number));
    heard.until(&mut subscription, 100);
    assert_eq!(heard.missed, 0);
    let report = a.report().expect("a report");
    assert_eq!(
        report.network.listens,
        [socket.as_str()],
        "the report names the socket that connects them"
    );
    // A socket that a dead gateway has left is no obstacle.
    a.kill_gateway();
    a.start();
    let mut number = 100;
    eventually("carried again", || {
        number += 1;
        say(&mut publisher, number);
        heard.read(&mut subscription);
        // time: paces the publisher
        std::thread::sleep(Duration::from_millis(20));
        heard.numbers.last() > Some(&100)
    });
}
