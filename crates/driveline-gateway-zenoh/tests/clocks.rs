// SPDX-License-Identifier: Apache-2.0
//! Statements of gateways about each other's clocks, compared with the true offsets.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test may stop at a surprise"
)]

mod rig;

use driveline::types::MonotonicNs;
use driveline::{Publisher, Subscription, WaitMode};
use driveline_namespaces::Port;
use rig::readings::{Reading, TOPIC, between, deep, pair, say, small};
use rig::relay::Relay;
use rig::{Host, Rig, carried, eventually};
use serde_json::json;
use std::time::Duration;

/// Returns the other host's clock offset and its error, as soon as the error is less than a second:
/// after a slow exchange alone, the error is too large.
fn known(host: &Host) -> Option<(i64, u64)> {
    let report = host.report()?;
    let other = report.hosts.first()?;
    Some((other.offset_ns?, other.offset_error_ns?)).filter(|(_, error)| *error < 1_000_000_000)
}

#[test]
fn offsets_of_seconds_are_known_within_their_stated_error() {
    if !rig::clocks_can_be_shifted() {
        rig::skipped("clocks that differ", "no time namespaces here", rig::AS_ROOT);
        return;
    }
    for shift_s in [3, -3] {
        let rig = Rig::with_shifted_clock(&small(), &deep(), shift_s);
        let (mut publisher, mut subscription) = pair(&rig, &deep());
        // Publish time of each sample in this process's time, which is the first host's.
        let mut published = Vec::new();
        for number in 1..=50 {
            let before = MonotonicNs::now();
            say(&mut publisher, number);
            published.push((before, MonotonicNs::now()));
            // time: paces the publisher
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut reported = None;
        eventually("reported", || {
            reported = known(&rig.b);
            reported.is_some()
        });
        let (offset, error) = reported.unwrap();
        let truth = -i64::from(shift_s) * 1_000_000_000;
        assert!(
            (offset - truth).unsigned_abs() <= error,
            "{offset} is not within {error} of {truth}"
        );
        assert!(subscription.wait(Some(rig::PATIENCE), WaitMode::Block).unwrap());
        let mut seen = 0;
        while let Some(sample) = subscription.take().unwrap() {
            let remote = sample.header().remote.unwrap();
            // Arrival in that host's time, shifted back by the offset, which no process there
            // knows.
            let arrived =
                sample.header().publish_time.0 as i64 - i64::from(shift_s) * 1_000_000_000;
            let (before, after) = published[sample.view().unwrap().number as usize - 1];
            let (longest, shortest) = (arrived - before.0 as i64, arrived - after.0 as i64);
            let error = remote.offset_error_ns as i64;
            assert!(
                (shortest - error..=longest + error).contains(&remote.transit_ns),
                "it took {shortest} to {longest} ns: {remote:?}"
            );
            assert!(arrived <= MonotonicNs::now().0 as i64, "it is published in that host's time");
            seen += 1;
        }
        assert!(seen > 0, "fifty were sent");
        // The sending host knows the other clock from acknowledgements.
        let mut reported = None;
        eventually("reported by the other one", || {
            reported = known(&rig.a);
            reported.is_some()
        });
        let (offset, error) = reported.unwrap();
        assert!(
            (offset + truth).unsigned_abs() <= error,
            "{offset} is not within {error} of {}",
            -truth
        );
    }
}

#[test]
fn an_asymmetric_path_widens_the_bound_and_the_estimate_stays_within_it() {
    let at = Port::new().unwrap();
    // No exchange can distinguish half of the difference from an offset of the clocks.
    for (there, back) in
        [(Duration::from_millis(40), Duration::ZERO), (Duration::ZERO, Duration::from_millis(40))]
    {
        let relay = Relay::new(at.number(), there, back);
        let dir = tempfile::tempdir().unwrap();
        let qos = deep();
        let host = |name: &str, network: serde_json::Value, sends: bool| {
            let mut host = Host::new(
                dir.path(),
                name,
                Vec::new(),
                &network,
                &[carried(TOPIC, sends, !sends, 64, &qos)],
            );
            host.start();
            host
        };
        let a = host("a", json!({ "host": "a", "listen": [at.endpoint()] }), true);
        let b = host(
            "b",
            json!({ "host": "b", "connect": [format!("tcp/127.0.0.1:{}", relay.port)] }),
            false,
        );
        let (mut publisher, mut subscription) = between(&a, &b, &qos);
        let (mut number, mut seen) = (0, 0);
        eventually("enough was looked at", || {
            number += 1;
            say(&mut publisher, number);
            while let Some(sample) = subscription.take().unwrap() {
                let remote = sample.header().remote.unwrap();
                let least = if remote.offset_error_ns < 1_000_000_000 { 18_000_000 } else { 0 };
                assert!(
                    remote.offset_error_ns >= least,
                    "the difference of 40 ms leaves 20 ms in doubt: {remote:?}"
                );
                assert!(remote.transit_ns >= -(remote.offset_error_ns as i64), "{remote:?}");
                // The host that accepted the connection sends samples, so they take the path back.
                let (way, error) = (back.as_nanos() as i64, remote.offset_error_ns as i64);
                assert!(
                    remote.transit_ns + error >= way,
                    "it cannot have been faster than the way: {remote:?}"
                );
                seen += 1;
            }
            // The sender measures with acknowledgements, the receiver with requests.
            let both = [known(&a), known(&b)];
            for (offset, error) in both.iter().flatten() {
                // Both hosts have one clock, so the true offset is 0.
                assert!(offset.unsigned_abs() <= *error, "{offset} is not within {error} of 0");
            }
            // time: paces the publisher
            std::thread::sleep(Duration::from_millis(10));
            seen >= 100 && both.iter().all(Option::is_some)
        });
    }
}

/// Times that a sample carries, and the times that the test knows.
struct Way {
    transit_ns: i64,
    error_ns: i64,
    /// The true transit time lies between these.
    shortest_ns: i64,
    longest_ns: i64,
}

impl Way {
    fn is_within_bound(&self) -> bool {
        (self.shortest_ns - self.error_ns..=self.longest_ns + self.error_ns)
            .contains(&self.transit_ns)
    }
}

/// Publishes on the first host, and checks arrivals on the second, whose clock is ahead.
struct Ways {
    publisher: Publisher<Reading>,
    subscription: Subscription<Reading>,
    shift_ns: i64,
    published: Vec<(i64, i64)>,
    seen: Vec<Way>,
}

impl Ways {
    fn new(rig: &Rig, shift_s: i32) -> Self {
        let (publisher, subscription) = pair(rig, &deep());
        Self {
            publisher,
            subscription,
            shift_ns: i64::from(shift_s) * 1_000_000_000,
            published: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Publishes the next sample, and checks all that have arrived.
    fn say(&mut self) {
        let before = MonotonicNs::now().0 as i64;
        say(&mut self.publisher, self.published.len() as u64);
        self.published.push((before, MonotonicNs::now().0 as i64));
        while let Some(sample) = self.subscription.take().unwrap() {
            let remote = sample.header().remote.unwrap();
            let arrived = sample.header().publish_time.0 as i64 - self.shift_ns;
            let (before, after) = self.published[sample.view().unwrap().number as usize];
            self.seen.push(Way {
                transit_ns: remote.transit_ns,
                error_ns: remote.offset_error_ns as i64,
                shortest_ns: arrived - after,
                longest_ns: arrived - before,
            });
        }
    }
}

#[test]
fn offsets_over_an_asymmetric_path_are_known_within_their_stated_error() {
    const READINGS: usize = 1000;
    if !rig::clocks_can_be_shifted() {
        rig::skipped("clocks that differ", "no time namespaces here", rig::AS_ROOT);
        return;
    }
    let [short, long] = [2, 12].map(Duration::from_millis);
    for (shift_s, delays) in [(3, [short, long]), (-3, [long, short])] {
        let Some(rig) = Rig::with_delays(&small(), &deep(), shift_s, delays) else { return };
        let mut ways = Ways::new(&rig, shift_s);
        let (mut reported, mut wrong) = (0, 0);
        eventually("enough was looked at", || {
            for _ in 0..20 {
                ways.say();
                // time: paces the publisher
                std::thread::sleep(Duration::from_millis(1));
            }
            let truth = -ways.shift_ns;
            for (offset, error) in [
                known(&rig.b).map(|(o, e)| (o - truth, e)),
                known(&rig.a).map(|(o, e)| (o + truth, e)),
            ]
            .into_iter()
            .flatten()
            {
                reported += 1;
                wrong += usize::from(offset.unsigned_abs() > error);
                assert!(
                    error >= 6_900_000,
                    "the difference of 10 ms and both ways leave 7 ms in doubt: {error}"
                );
            }
            ways.seen.len() >= READINGS && reported >= 2
        });
        let outside = ways.seen.iter().filter(|way| !way.is_within_bound()).count();
        let most = ways.seen.iter().map(|way| way.error_ns).max();
        println!(
            "{shift_s} s: {outside} of {} samples and {wrong} of {reported} offsets outside of the \
             bound, at most {most:?} ns",
            ways.seen.len()
        );
        assert!(
            1000 * outside <= ways.seen.len() && wrong == 0,
            "{outside} of {}, {wrong} of {reported}",
            ways.seen.len()
        );
        let physics = delays[0].as_nanos() as i64;
        assert!(ways.seen.iter().all(|way| way.longest_ns >= physics), "faster than the way");
    }
}

/// The clock was measured over a path with a long delay in one direction only, so the estimate is
/// wrong by half of it. When the delay ends, samples seem to arrive before they were sent, until
/// the clock is measured again.
#[test]
fn a_transit_time_that_becomes_short_is_reported_as_negative() {
    let long = Duration::from_millis(40);
    // Half a second passes between two measurements. If one comes at the wrong moment, or the
    // machine stops meanwhile, nothing can be seen, and the test tries again.
    eventually("reported as negative", || {
        let Some(rig) = Rig::with_delays(&small(), &deep(), 0, [long, Duration::ZERO]) else {
            return true;
        };
        let mut ways = Ways::new(&rig, 0);
        let mut say_for = |n: usize| {
            for _ in 0..n {
                ways.say();
                // time: paces the publisher
                std::thread::sleep(Duration::from_millis(2));
            }
            ways.seen.drain(..).collect::<Vec<Way>>()
        };
        eventually("the clock is known", || {
            say_for(10).last().is_some_and(|way| way.error_ns < 1_000_000_000)
        });
        rig.cable.relay().unwrap().set_delays([Duration::ZERO; 2]);
        let seen = say_for(200);
        assert!(seen.iter().all(Way::is_within_bound));
        seen.iter().any(|way| way.transit_ns < -10_000_000)
    });
}
