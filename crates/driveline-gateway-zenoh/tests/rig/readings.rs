// SPDX-License-Identifier: Apache-2.0
//! Numbered samples from one host to another, with checks of each arrived sample.

use super::{Carried, Host, Rig, eventually, publisher_options, subscription_options};
use driveline::types::SampleHeader;
use driveline::types::{Qos, plain_type};
use driveline::{Publisher, RawSubscription, Subscription};

/// Sample of the tests' topics.
#[plain_type(name = "test/Reading", crate = driveline::types)]
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Reading {
    pub(crate) number: u64,
    pub(crate) value: f64,
}

pub(crate) const TOPIC: &str = "wheel/speed";

/// A publisher on the first host and a subscription on the second, matched from end to end.
pub(crate) fn pair(rig: &Rig, qos: &Qos) -> (Publisher<Reading>, Subscription<Reading>) {
    between(&rig.a, &rig.b, qos)
}

/// Makes such a pair between any two hosts.
pub(crate) fn between(
    from: &Host,
    to: &Host,
    qos: &Qos,
) -> (Publisher<Reading>, Subscription<Reading>) {
    let mut publisher = from.node.publisher::<Reading>(TOPIC, publisher_options(qos, 64)).unwrap();
    let subscription = to.node.subscription::<Reading>(TOPIC, subscription_options(qos)).unwrap();
    // The gateway has two subscriptions: one watches, one sends.
    eventually("matched over the network", || publisher.raw().matched() == 2);
    (publisher, subscription)
}

pub(crate) fn say(publisher: &mut Publisher<Reading>, number: u64) {
    publisher.publish_copy(&Reading { number, value: number as f64 / 8.0 }, &[]).unwrap();
}

/// Numbers of the samples that have arrived, and counts of those that have not.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) numbers: Vec<u64>,
    pub(crate) missed: u64,
    /// Number of samples before the first one that was sent here.
    before: u64,
}

impl Heard {
    /// Reads all available samples, and checks each.
    pub(crate) fn read(&mut self, subscription: &mut Subscription<Reading>) {
        while let Some(sample) = subscription.take().unwrap() {
            self.note(sample.view().unwrap().number, sample.header(), sample.missed());
        }
    }

    /// Like `read`, for samples whose bytes are all the last byte of their number.
    pub(crate) fn read_raw(&mut self, subscription: &mut RawSubscription, len: usize) {
        while let Some(sample) = subscription.take().unwrap() {
            let (number, payload) = (sample.header().sequence, sample.payload().unwrap());
            let whole = payload.len() == len
                && [payload[0], payload[len / 2], payload[len - 1]] == [number as u8; 3];
            assert!(whole, "{number} is damaged");
            self.note(number, sample.header(), sample.missed());
        }
    }

    fn note(&mut self, number: u64, header: &SampleHeader, missed: u64) {
        let remote = header.remote.expect("it came over the network");
        assert_eq!(header.sequence, number, "the publisher's own numbers");
        assert!(
            self.numbers.last().is_none_or(|last| *last < number),
            "{number} after {:?}",
            self.numbers.last()
        );
        let last = self.numbers.last().copied();
        // Before the first sample, only samples that were sent here count as missed: perhaps not
        // all that were published.
        let gap = last.map_or(missed.min(number - 1), |last| number - last - 1);
        assert_eq!(missed, gap, "before {number}");
        // Both hosts have one clock here, so the reported transit time is correct within its error.
        assert!(remote.transit_ns >= -(remote.offset_error_ns as i64), "{remote:?}");
        assert_eq!(header.clock_error_ns, remote.offset_error_ns);
        if last.is_none() {
            self.before = number - 1 - missed;
        }
        self.missed += missed;
        self.numbers.push(number);
    }

    /// Number of samples, from the very first, whose outcome is known.
    pub(crate) fn accounted(&self) -> u64 {
        self.numbers.len() as u64 + self.missed + self.before
    }

    pub(crate) fn until(&mut self, subscription: &mut Subscription<Reading>, last: u64) {
        eventually(&format!("received {last}"), || {
            self.read(subscription);
            self.numbers.last() == Some(&last)
        });
    }
}

pub(crate) fn small() -> Vec<Carried<'static>> {
    vec![Carried::from_a(TOPIC, 64)]
}

pub(crate) fn deep() -> Qos {
    Qos { depth: 64, ..Qos::default() }
}
