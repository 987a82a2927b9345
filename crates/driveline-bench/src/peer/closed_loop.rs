// SPDX-License-Identifier: Apache-2.0
//! Closed loop: ping, pong, and half of the time between. One stamp at each end of the round trip, because a stamp
//! costs more than a tenth of a spinning hand-over.

use super::link::{Received, Receiver, Sender};
use super::open_loop::MATCH_TIMEOUT;
use super::payload::Source;
use super::recorder::{Recorder, Verdict, cpu_ns, now};
use crate::harness::{End, Job, Payload, ReceivedRow, SentRow, Take};
use anyhow::{Result, anyhow, ensure};

/// One end of a ping-pong: what it holds beside its two links.
struct Side<'a, S, R> {
    job: &'a Job,
    sender: &'a mut S,
    receiver: &'a mut R,
    source: Option<Source>,
    buffer: Vec<u8>,
    verdict: Verdict,
    end: End,
    next: u64,
}

/// What became of one received sample.
struct Arrived {
    in_hand: u64,
    copied: u64,
}

impl<'a, S: Sender, R: Receiver> Side<'a, S, R> {
    fn new(job: &'a Job, sender: &'a mut S, receiver: &'a mut R, first_sequence: u64) -> Result<Self> {
        let source = (job.payload == Payload::Filled).then(|| Source::new(job.size)).transpose()?;
        let buffer = vec![1u8; if job.take == Take::Copy { job.size } else { 0 }];
        Ok(Self { job, sender, receiver, source, buffer, verdict: Verdict::default(), end: End::new(job.role, 0), next: first_sequence })
    }

    fn prepare(&mut self) {
        if let Some(source) = &mut self.source {
            source.prepare(self.next);
        }
    }

    #[inline]
    fn send(&mut self) -> Result<(u64, u64)> {
        let mut loan = self.sender.loan(self.job.size).map_err(|e| anyhow!(e))?;
        let mut before_publish = 0;
        if let Some(source) = &self.source {
            source.fill(S::payload(&mut loan));
            before_publish = now();
        }
        let sequence = self.sender.publish(loan).map_err(|e| anyhow!(e))?;
        ensure!(sequence == self.next, "sequence {sequence} instead of {}", self.next);
        self.next += 1;
        self.end.published += 1;
        Ok((sequence, before_publish))
    }

    #[inline]
    fn await_sample(&mut self) -> Result<R::Sample> {
        loop {
            self.receiver.wait()?;
            if let Some(sample) = self.receiver.take()? {
                self.end.received += 1;
                self.end.missed += sample.missed();
                return Ok(sample);
            }
        }
    }

    /// Copies the payload if that belongs to taking it. The stamps before and after only exist where the payload is
    /// handled.
    #[inline]
    fn copy(&mut self, sample: &R::Sample) -> Arrived {
        match self.buffer.get_mut(..sample.size()).filter(|t| !t.is_empty()) {
            Some(target) => {
                let in_hand = now();
                sample.copy_to(target);
                Arrived { in_hand, copied: now() }
            }
            None => Arrived { in_hand: if self.source.is_some() { now() } else { 0 }, copied: 0 },
        }
    }

    fn verify(&mut self, sample: &R::Sample, copied: bool) {
        if self.source.is_some() {
            let bytes = if copied { self.buffer.get(..sample.size()).unwrap_or_default() } else { sample.payload() };
            self.verdict.check(bytes, sample.sequence());
        }
    }

    /// Where payloads are handled, waiting for the other end's verification would be counted too: then nothing is said.
    fn count_cpu(&mut self, since: u64) {
        if self.source.is_none() {
            self.end.cpu_ns = cpu_ns(self.job) - since;
            self.end.cpu_samples = self.job.messages;
        }
    }

    fn finish(mut self, sent: &Recorder<SentRow>, received: &Recorder<ReceivedRow>, name: &str) -> Result<End> {
        self.end.verified = self.verdict.verified;
        self.end.mismatched = self.verdict.mismatched;
        self.end.mismatches = self.verdict.into_mismatches();
        self.end.sent_file = Some(sent.write(self.job, &format!("{name}-sent"), 0)?);
        self.end.received_file = Some(received.write(self.job, &format!("{name}-received"), 0)?);
        Ok(self.end)
    }
}

/// The end that asks and measures.
pub(crate) fn ping<S: Sender, R: Receiver>(job: &Job, sender: &mut S, receiver: &mut R, first_sequence: u64) -> Result<End> {
    let mut sent = Recorder::<SentRow>::for_job(job);
    let mut received = Recorder::<ReceivedRow>::for_job(job);
    let mut side = Side::new(job, sender, receiver, first_sequence)?;
    side.receiver.wait_matched(MATCH_TIMEOUT)?;
    side.sender.wait_matched(1, MATCH_TIMEOUT)?;
    // The other end speaks first, once it hears: nothing can be lost to a half-made match.
    let hello = side.await_sample()?;
    side.end.first_sample_ns = Some(now());
    drop(hello);
    side.end.first_sequence = first_sequence;
    let (mut cpu, mut wakes) = (0, None);
    for i in 0..job.warm_up + job.messages {
        if i == job.warm_up {
            (cpu, wakes) = (cpu_ns(job), side.sender.wake_calls());
            side.end.counted_from = side.next;
        }
        side.prepare();
        let before_fill = now();
        let (sequence, before_publish) = side.send()?;
        let sample = side.await_sample()?;
        let arrived = side.copy(&sample);
        let end = if arrived.copied > 0 {
            arrived.copied
        } else if arrived.in_hand > 0 {
            arrived.in_hand
        } else {
            now()
        };
        side.verify(&sample, arrived.copied > 0);
        let sequence_back = sample.sequence();
        drop(sample);
        let in_hand = if arrived.in_hand > 0 { arrived.in_hand } else { end };
        let mut read = 0;
        if side.source.is_some() {
            // The other end verifies at the same time; the next round waits until it must be done.
            read = now();
            let resume = read + 2 * (read - end) + 20_000;
            while now() < resume {
                std::hint::spin_loop();
            }
        }
        sent.push(SentRow { sequence, scheduled: 0, before_fill, before_publish, returned: 0 });
        received.push(ReceivedRow { sequence: sequence_back, woken: 0, in_hand, copied: arrived.copied, read });
    }
    side.count_cpu(cpu);
    side.end.wake_calls = side.sender.wake_calls().zip(wakes).map(|(after, before)| after - before);
    side.finish(&sent, &received, "ping")
}

/// The end that answers.
pub(crate) fn echo<S: Sender, R: Receiver>(job: &Job, sender: &mut S, receiver: &mut R, first_sequence: u64) -> Result<End> {
    let mut sent = Recorder::<SentRow>::for_job(job);
    let mut received = Recorder::<ReceivedRow>::for_job(job);
    let mut side = Side::new(job, sender, receiver, first_sequence)?;
    side.receiver.wait_matched(MATCH_TIMEOUT)?;
    side.sender.wait_matched(1, MATCH_TIMEOUT)?;
    side.end.first_sequence = first_sequence;
    side.prepare();
    side.send()?;
    let mut cpu = 0;
    for i in 0..job.warm_up + job.messages {
        if i == job.warm_up {
            cpu = cpu_ns(job);
            side.end.counted_from = side.next;
        }
        side.prepare();
        let sample = side.await_sample()?;
        let arrived = side.copy(&sample);
        // Filling is the only part of the answer that is not transport, so only it is stamped.
        let before_fill = if side.source.is_some() { now() } else { 0 };
        let (sequence, before_publish) = side.send()?;
        side.verify(&sample, arrived.copied > 0);
        let received_sequence = sample.sequence();
        drop(sample);
        sent.push(SentRow { sequence, scheduled: 0, before_fill, before_publish, returned: 0 });
        received.push(ReceivedRow { sequence: received_sequence, woken: 0, in_hand: arrived.in_hand, copied: arrived.copied, read: 0 });
    }
    side.count_cpu(cpu);
    side.finish(&sent, &received, "echo")
}
