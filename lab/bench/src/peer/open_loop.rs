// SPDX-License-Identifier: Apache-2.0
//! Open loop: the sender keeps its schedule whatever the receivers do, so that waiting never hides
//! latency (no coordinated omission).

use super::link::{Received, Receiver, Sender};
use super::payload::{Source, is_marked, mark};
use super::recorder::{Recorder, Verdict, burn, cpu_ns, now, sleep_until};
use crate::harness::{End, Job, Pace, Payload, ReceivedRow, SentRow, Take};
use anyhow::{Result, anyhow, bail, ensure};
use std::time::Duration;

/// Time in which ends must find each other.
pub(crate) const MATCH_TIMEOUT: Duration = Duration::from_secs(20);
/// Pause after the first sample, so that start-up does not disturb the measurement.
const AFTER_FIRST: Duration = Duration::from_millis(50);
/// Pause before the end mark, so that it replaces no unread sample.
const BEFORE_END: Duration = Duration::from_millis(100);
/// A sender stops after twice the time of its schedule plus this time. Its remaining samples then
/// count as not sent.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Maximum wait of a receiver for the first sample; it includes the start of the other process.
const FIRST_SAMPLE: Duration = Duration::from_secs(60);
/// Maximum wait for the end mark after the time at which the sender must have stopped.
const END_MARK_NS: u64 = 10_000_000_000;

struct Outgoing<'a, S> {
    sender: &'a mut S,
    source: Option<Source>,
    size: usize,
    expected: Option<u64>,
}

impl<S: Sender> Outgoing<'_, S> {
    /// Sends one sample; `scheduled` 0 sends at once.
    fn send(&mut self, scheduled: u64) -> Result<SentRow, String> {
        if let (Some(source), Some(expected)) = (&mut self.source, self.expected) {
            source.prepare(expected);
        }
        sleep_until(scheduled);
        let before_fill = now();
        let mut loan = self.sender.loan(self.size)?;
        let before_publish = match &self.source {
            Some(source) => {
                source.fill(S::payload(&mut loan));
                now()
            }
            None => {
                mark(S::payload(&mut loan), self.expected.unwrap_or(0));
                now()
            }
        };
        let sequence = self.sender.publish(loan)?;
        let returned = now();
        if self.expected.is_some_and(|e| e != sequence) {
            return Err(format!("sequence {sequence} instead of {:?}", self.expected));
        }
        self.expected = Some(sequence + 1);
        Ok(SentRow { sequence, scheduled, before_fill, before_publish, returned })
    }
}

/// Runs the sending end from start to finish.
pub(crate) fn publish<S: Sender>(job: &Job, sender: &mut S, first_sequence: u64) -> Result<End> {
    let Pace::RateHz(hz) = job.pace else { bail!("an open loop needs a rate") };
    let mut end = End::new(job.role, 0);
    let mut sent = Recorder::<SentRow>::for_job(job);
    let source = (job.payload == Payload::Filled).then(|| Source::new(job.size)).transpose()?;
    sender.wait_matched(job.subscribers, MATCH_TIMEOUT)?;
    // The first sample is sent as soon as all receivers are connected: it ends the start-up time.
    let mut out = Outgoing { sender, source, size: job.size, expected: Some(first_sequence) };
    let first = out.send(0).map_err(|e| anyhow!("the first sample could not be published: {e}"))?;
    end.first_sequence = first.sequence;
    end.published = 1;
    std::thread::sleep(AFTER_FIRST);

    let total = job.warm_up + job.messages;
    let start = now() + 1_000_000;
    let due = |i: u64| start + (i as f64 * 1e9 / hz) as u64;
    let give_up = start + 2 * (due(total) - start) + PATIENCE_NS;
    let (mut cpu, mut wakes) = (cpu_ns(job), out.sender.wake_calls());
    for i in 0..total {
        if i == job.warm_up {
            (cpu, wakes) = (cpu_ns(job), out.sender.wake_calls());
            end.counted_from = out.expected.unwrap_or(0);
        }
        if now() > give_up {
            *end.not_sent
                .entry("the sender fell behind its schedule for too long".into())
                .or_default() += total - i;
            break;
        }
        match out.send(due(i)) {
            Ok(row) => {
                end.published += 1;
                end.cpu_samples += u64::from(i >= job.warm_up);
                sent.push(row);
            }
            Err(reason) => *end.not_sent.entry(reason).or_default() += 1,
        }
    }
    end.cpu_ns = if end.cpu_samples > 0 { cpu_ns(job) - cpu } else { 0 };
    end.wake_calls = out.sender.wake_calls().zip(wakes).map(|(after, before)| after - before);
    // Before the end mark, readers with a processing time must have emptied their queues.
    let processing =
        Duration::from_micros(job.processing_us).saturating_mul(job.depth.saturating_add(1));
    std::thread::sleep(BEFORE_END.saturating_add(processing));
    out.sender.publish_end().map_err(|e| anyhow!("the end mark could not be published: {e}"))?;
    end.published += 1;
    end.sent_file = Some(sent.write(job, "sent", 0)?);
    Ok(end)
}

/// Runs the receiving end from start to finish.
pub(crate) fn subscribe<R: Receiver>(job: &Job, receiver: &mut R) -> Result<End> {
    hear_all(job, receiver, FIRST_SAMPLE, end_is_due)
}

/// Returns the time at which a receiver gives up if it gets its first sample now. It is now plus
/// twice the schedule, the time to process all samples, [`PATIENCE_NS`] and [`END_MARK_NS`].
fn end_is_due(job: &Job) -> u64 {
    let samples = job.warm_up + job.messages + 1;
    let schedule_s = if let Pace::RateHz(hz) = job.pace { samples as f64 / hz } else { 0.0 };
    let processing_s = (samples + u64::from(job.depth)) as f64 * job.processing_us as f64 / 1e6;
    let within = ((2.0 * schedule_s + processing_s) * 1e9) as u64;
    now().saturating_add(within).saturating_add(PATIENCE_NS + END_MARK_NS)
}

fn hear_all<R: Receiver>(
    job: &Job,
    receiver: &mut R,
    first: Duration,
    end_is_due: fn(&Job) -> u64,
) -> Result<End> {
    let mut give_up = now().saturating_add(first.as_nanos() as u64);
    let mut end = End::new(job.role, job.index);
    let mut rows = Recorder::<ReceivedRow>::for_job(job);
    let mut verdict = Verdict::default();
    let mut buffer = vec![1u8; if job.take == Take::Copy { job.size } else { 0 }];
    let (mut counted_from, mut cpu) = (u64::MAX, 0);
    loop {
        let left = give_up.saturating_sub(now());
        ensure!(
            left > 0,
            "{} came; the sending process has ended, or its samples do not arrive",
            if end.received == 0 { "no sample" } else { "no end mark" }
        );
        receiver.wait(Some(Duration::from_nanos(left)))?;
        let woken = now();
        let Some(sample) = receiver.take()? else { continue };
        let in_hand = now();
        let sequence = sample.sequence();
        end.received += 1;
        end.missed += sample.missed();
        if sample.is_end() {
            break;
        }
        if job.payload == Payload::Untouched && !is_marked(sample.payload(), sequence) {
            bail!("the payload of sample {sequence} is torn or not ours");
        }
        let size = sample.size();
        let mut row = ReceivedRow { sequence, woken, in_hand, ..Default::default() };
        if let Some(target) = buffer.get_mut(..size).filter(|t| !t.is_empty()) {
            sample.copy_to(target);
            row.copied = now();
        }
        if job.payload == Payload::Filled && size > 0 {
            verdict.check(
                if row.copied > 0 {
                    buffer.get(..size).unwrap_or_default()
                } else {
                    sample.payload()
                },
                sequence,
            );
            row.read = now();
        }
        if end.first_sample_ns.is_none() {
            end.first_sample_ns = Some(in_hand);
            give_up = end_is_due(job);
            counted_from = sequence + 1 + job.warm_up;
            continue;
        }
        rows.push(row);
        if sequence >= counted_from {
            if end.cpu_samples == 0 {
                cpu = cpu_ns(job);
            }
            end.cpu_samples += 1;
            // A reader that has copied no longer needs the sample; a reader in place holds it.
            let held = (row.copied == 0).then_some(sample);
            burn(job.processing_us);
            drop(held);
        }
    }
    // The processor time covers the span from the first counted sample to the end mark, including
    // the pause before the end mark. The reader sleeps during that pause unless it spins.
    end.cpu_ns = if end.cpu_samples > 0 { cpu_ns(job) - cpu } else { 0 };
    end.verified = verdict.verified;
    end.mismatched = verdict.mismatched;
    end.mismatches = verdict.into_mismatches();
    end.received_file = Some(rows.write(job, "received", job.index)?);
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::{Reach, Role, sample_job};

    /// A receiver that gets these samples and then nothing.
    struct Silent(Vec<u64>);
    struct Got(u64);

    impl Receiver for Silent {
        type Sample = Got;
        fn wait_matched(&mut self, _: Duration) -> Result<()> {
            Ok(())
        }
        fn wait(&mut self, limit: Option<Duration>) -> Result<()> {
            if self.0.is_empty() {
                // Without a limit this wait would never return.
                // time: the limit that the code under test has given; nothing races it
                std::thread::sleep(limit.unwrap());
            }
            Ok(())
        }
        fn take(&mut self) -> Result<Option<Got>> {
            Ok(self.0.pop().map(Got))
        }
    }

    impl Received for Got {
        fn sequence(&self) -> u64 {
            self.0
        }
        fn missed(&self) -> u64 {
            0
        }
        fn payload(&self) -> &[u8] {
            &[]
        }
        fn is_end(&self) -> bool {
            false
        }
    }

    fn job() -> Job {
        Job {
            role: Role::Subscriber,
            reach: Reach::Host,
            take: Take::Borrow,
            payload: Payload::Filled,
            size: 64,
            processing_us: 0,
            ..sample_job()
        }
    }

    #[test]
    fn a_receiver_to_which_nothing_comes_gives_up() {
        let hear = |samples: Vec<u64>| {
            let soon = |_: &Job| now() + 1_000_000;
            let heard = hear_all(&job(), &mut Silent(samples), Duration::from_millis(1), soon);
            heard.unwrap_err().to_string()
        };
        assert!(hear(vec![]).starts_with("no sample came"));
        assert!(hear(vec![1]).starts_with("no end mark came"));
    }

    #[test]
    fn it_waits_longer_than_the_sending_end_can_take() {
        let job = Job {
            pace: Pace::RateHz(10.0),
            warm_up: 9,
            messages: 90,
            depth: 1,
            processing_us: 1_000_000,
            ..job()
        };
        let seconds = (end_is_due(&job) - now()) as f64 / 1e9;
        // Twice the schedule, all processing, and the sender's maximum delay, minus the time that
        // has passed.
        assert!((135.0 - 1.0..=20.0 + 101.0 + 15.0).contains(&seconds), "{seconds}");
    }
}
