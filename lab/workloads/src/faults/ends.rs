// SPDX-License-Identifier: Apache-2.0
//! The writing process and the reading process.

use super::payload::{Stamp, fill, verify};
use crate::orders::{Assignment, Order, Said, Superior, say, wait_matched};
use crate::record::{Random, Recorder, Window};
use anyhow::{Context, Result, anyhow};
use driveline::types::MonotonicNs;
use driveline::{PublisherOptions, RawSubscription, Reach, SubscriptionOptions, WaitMode};
use driveline_bench::observations::{Observations, Quantity};
use serde::{Deserialize, Serialize};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

const ENCODING: &str = "faults";
/// Topic with the faults, and topic without.
pub(super) const TOPICS: [&str; 2] = ["frames", "beside"];
/// Samples that a reader may hold at once.
pub(super) const HELD: u32 = 1;
/// After the order to end, a reader continues until no sample has come for this time.
const DRAINED: Duration = Duration::from_millis(100);
/// Position of the newest sample's number in a segment; see `docs/protocols/shm.md`.
const NEWEST: std::ops::Range<usize> = 64..72;

/// A writer and its samples.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FaultWriter {
    pub(super) topic: String,
    pub(super) epoch: u64,
    pub(super) payload_bytes: usize,
    pub(super) period_ns: u64,
    /// Maximum number of samples that all readers together hold. The writer reserves memory for
    /// each of them, which is part of its recovery time.
    pub(super) pins: u32,
    /// Number of readers for which the writer waits before it is ready.
    pub(super) wait_for: usize,
}

/// A reader of both topics.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FaultReader {
    /// Name in the observations.
    pub(super) subject: String,
    pub(super) period_ns: u64,
}

impl FaultWriter {
    pub(crate) fn run(&self, job: &Assignment, superior: &Superior) -> Result<Observations> {
        let node = job.node()?;
        let options = PublisherOptions {
            reach: Reach::Host,
            max_payload: self.payload_bytes,
            pins: self.pins,
            ..Default::default()
        };
        let mut publisher = node.bytes_publisher(&self.topic, ENCODING, options)?;
        wait_matched("the writer", self.wait_for, Duration::from_secs(20), || publisher.matched())?;
        superior.ready()?;
        let mut random = Random::new(job.seed, &self.topic);
        let (mut epoch, mut number) = (self.epoch, 0);
        let mut next = MonotonicNs::now().0;
        loop {
            number += 1;
            let mut loan = publisher.loan(self.payload_bytes)?;
            fill(loan.payload_mut(), Stamp { epoch, number });
            publisher.publish(loan)?;
            next = (next + self.period_ns).max(MonotonicNs::now().0);
            let pause = Duration::from_nanos(next.saturating_sub(MonotonicNs::now().0));
            match superior.order(pause) {
                None => {}
                Some(Order::Scribble { epoch: new }) => {
                    epoch = new;
                    scribble(&mut random, new % 2 == 0)?;
                    say(&Said::Scribbled { epoch, time_ns: MonotonicNs::now().0 });
                }
                Some(_) => break,
            }
        }
        let mut o = Observations::default();
        o.counters.insert(format!("{} sent", self.topic), number);
        Ok(o)
    }
}

/// Fills this process's segment with random bytes, as a stray pointer would; the word at [`NEWEST`]
/// only if `the_newest_too`. Writes through `/proc/self/mem`.
fn scribble(random: &mut Random, the_newest_too: bool) -> Result<()> {
    let maps = std::fs::read_to_string("/proc/self/maps").context("cannot find the segment")?;
    let segment = |line: &str| {
        let mut words = line.split_whitespace();
        let (range, rights) = (words.next()?, words.next()?);
        (rights.starts_with("rw")
            && rights.ends_with('s')
            && line.contains("memfd:driveline-segment"))
        .then_some(())?;
        let (start, end) = range.split_once('-')?;
        Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
    };
    let (start, end) = maps
        .lines()
        .filter_map(segment)
        .next()
        .ok_or_else(|| anyhow!("this process has no segment"))?;
    let memory = std::fs::OpenOptions::new()
        .write(true)
        .open("/proc/self/mem")
        .context("cannot write to the segment")?;
    let nonsense: Vec<u8> =
        (0..(end - start) / 8).flat_map(|_| random.next().to_le_bytes()).collect();
    let write = |span: std::ops::Range<usize>| {
        let bytes = nonsense.get(span.clone()).unwrap_or_default();
        memory.write_all_at(bytes, start + span.start as u64).context("cannot write to the segment")
    };
    write(0..NEWEST.start)?;
    write(NEWEST.end..nonsense.len())?;
    if the_newest_too {
        write(NEWEST)?;
    }
    Ok(())
}

impl FaultReader {
    pub(crate) fn run(&self, job: &Assignment, superior: &Superior) -> Result<Observations> {
        let node = job.node()?;
        let options =
            SubscriptionOptions { reach: Reach::Host, max_held: HELD, ..Default::default() };
        let mut subscriptions = Vec::new();
        for topic in TOPICS {
            subscriptions.push((topic, node.bytes_subscription(topic, ENCODING, options.clone())?));
        }
        let window = superior.ready()?;
        let ending = AtomicBool::new(false);
        let ending = &ending;
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for (topic, subscription) in subscriptions {
                let body =
                    move || self.follow(topic, subscription, window, ending, superior_says(topic));
                threads.push(
                    std::thread::Builder::new().name(topic.into()).spawn_scoped(scope, body)?,
                );
            }
            superior.wait_for_end();
            ending.store(true, Relaxed);
            let mut o = Observations::default();
            for thread in threads {
                let of_one = thread.join().map_err(|_| anyhow!("a reading thread panicked"))??;
                of_one.series.into_iter().for_each(|s| o.put(&s.subject, s.quantity, s.points));
                o.counters.extend(of_one.counters);
                o.invalid.extend(of_one.invalid);
            }
            Ok(o)
        })
    }

    fn follow(
        &self,
        topic: &str,
        mut subscription: RawSubscription,
        window: Window,
        ending: &AtomicBool,
        first: impl Fn(u64, u64),
    ) -> Result<Observations> {
        let latency = Recorder::new(1e9 / self.period_ns as f64, window.duration());
        let (mut received, mut missed, mut broken) = (0u64, 0u64, 0u64);
        let mut epoch = None;
        loop {
            let must_end = ending.load(Relaxed);
            if !subscription.wait(Some(DRAINED), WaitMode::Block)? {
                if must_end {
                    break;
                }
                continue;
            }
            let Some(sample) = subscription.take()? else { continue };
            let now = MonotonicNs::now();
            received += 1;
            missed += sample.missed();
            let publish_time = sample.header().publish_time;
            match verify(sample.payload().unwrap_or_default()) {
                None => broken += 1,
                Some(stamp) => {
                    if epoch.is_none_or(|e| e < stamp.epoch) {
                        epoch = Some(stamp.epoch);
                        first(stamp.epoch, now.0);
                    }
                    if window.contains(publish_time.0) {
                        latency.add(now, now.since(publish_time).as_nanos() as u64);
                    }
                }
            }
        }
        let mut o = Observations::default();
        let subject = if topic == TOPICS[0] {
            self.subject.clone()
        } else {
            format!("{} {topic}", self.subject)
        };
        latency.finish(&subject, Quantity::Latency, &mut o);
        let refused = subscription
            .host_stats()
            .map_or(0, |s| s.corrupt_header + s.corrupt_checksum + s.corrupt_index + s.refused);
        for (name, n) in [
            ("received", received),
            ("missed", missed),
            ("not whole", broken),
            ("refused as damaged", refused),
        ] {
            o.counters.insert(format!("{topic} {name}"), n);
        }
        Ok(o)
    }
}

/// Returns the function with which a thread reports the first sample of an epoch. It reports only
/// samples of the topic with the faults.
fn superior_says(topic: &str) -> impl Fn(u64, u64) + Send + 'static {
    let has_faults = topic == TOPICS[0];
    move |epoch, time_ns| {
        if has_faults {
            say(&Said::First { epoch, time_ns });
        }
    }
}
