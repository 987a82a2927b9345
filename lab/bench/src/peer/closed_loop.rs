// SPDX-License-Identifier: Apache-2.0
//! Closed loop: ping, pong, and half of the round trip. If payloads are neither filled nor copied,
//! stamps are taken only at the beginning and at the end of the round trip, because a stamp costs
//! more than a tenth of a spinning hand-over. A lost message is counted, and the next round begins.

use super::link::{Received, Receiver, Sender};
use super::open_loop::MATCH_TIMEOUT;
use super::payload::{Source, is_marked, mark};
use super::recorder::{Recorder, Verdict, cpu_ns, now};
use crate::harness::{End, Job, Payload, ReceivedRow, SentRow, Take};
use anyhow::{Context, Result, anyhow, ensure};
use std::time::Duration;

/// Maximum wait of the answering end for its first question, and of the asking end for the
/// greeting; it includes the start of the other process.
const FIRST_QUESTION: Duration = Duration::from_secs(60);
/// Maximum wait for a later question: longer than the asking end waits for an answer.
const NEXT_QUESTION: Duration = Duration::from_secs(25);
/// Total time that the asking end waits without an answer, in all rounds, before it stops.
const PATIENCE: Duration = Duration::from_secs(15);

/// One end of a ping-pong: its state in addition to its two links.
struct Side<'a, S, R> {
    job: &'a Job,
    sender: &'a mut S,
    receiver: &'a mut R,
    source: Option<Source>,
    buffer: Vec<u8>,
    verdict: Verdict,
    end: End,
    next: u64,
    /// Questions or answers that arrived, including samples that are dropped on purpose.
    arrivals: u64,
}

/// Stamps of a received sample; 0 for those that were not taken.
struct Arrived {
    in_hand: u64,
    copied: u64,
}

impl<'a, S: Sender, R: Receiver> Side<'a, S, R> {
    fn new(
        job: &'a Job,
        sender: &'a mut S,
        receiver: &'a mut R,
        first_sequence: u64,
    ) -> Result<Self> {
        let source = (job.payload == Payload::Filled).then(|| Source::new(job.size)).transpose()?;
        let buffer = vec![1u8; if job.take == Take::Copy { job.size } else { 0 }];
        Ok(Self {
            job,
            sender,
            receiver,
            source,
            buffer,
            verdict: Verdict::default(),
            end: End::new(job.role, 0),
            next: first_sequence,
            arrivals: 0,
        })
    }

    fn prepare(&mut self, number: u64) {
        if let Some(source) = &mut self.source {
            source.prepare(number);
        }
    }

    /// Returns memory that holds the payload with this number, and the stamp after filling. The
    /// stamp is 0 if the payload was not filled.
    #[inline]
    fn fill(&mut self, number: u64) -> Result<(S::Loan, u64), String> {
        let mut loan = self.sender.loan(self.job.size)?;
        let Some(source) = &self.source else {
            mark(S::payload(&mut loan), number);
            return Ok((loan, 0));
        };
        source.fill(S::payload(&mut loan));
        Ok((loan, now()))
    }

    /// Sends the next question and returns its number and its stamp before publishing. The inner
    /// `Err` is the reason why it was not sent, which is counted.
    #[inline]
    fn ask(&mut self) -> Result<Result<(u64, u64), String>> {
        let (sequence, before_publish) = match self
            .fill(self.next)
            .and_then(|(loan, before_publish)| Ok((self.sender.publish(loan)?, before_publish)))
        {
            Ok(sent) => sent,
            Err(reason) => return Ok(Err(reason)),
        };
        ensure!(sequence == self.next, "sequence {sequence} instead of {}", self.next);
        self.next += 1;
        self.end.published += 1;
        Ok(Ok((sequence, before_publish)))
    }

    /// Sends an answer and returns its own number and its stamp before publishing.
    #[inline]
    fn answer(&mut self, question: u64) -> Result<(u64, u64), String> {
        let (loan, before_publish) = self.fill(question + 1)?;
        let sequence = self.sender.answer(loan, question)?;
        self.end.published += 1;
        Ok((sequence, before_publish))
    }

    /// Returns the next sample, or `None` if no sample comes until `deadline`. `left` is the time
    /// from now to `deadline`, or slightly more.
    #[inline]
    fn next_sample(&mut self, deadline: u64, mut left: Duration) -> Result<Option<R::Sample>> {
        loop {
            self.receiver.wait(Some(left))?;
            if let Some(sample) = self.receiver.take()? {
                return Ok(Some(sample));
            }
            left = until(deadline);
            if left.is_zero() {
                return Ok(None);
            }
        }
    }

    /// Returns true if this sample is to be dropped on purpose.
    #[inline]
    fn loses(&mut self) -> bool {
        self.arrivals += 1;
        self.job.lose_every > 0 && self.arrivals.is_multiple_of(self.job.lose_every)
    }

    /// Waits for the answer to the question begun at `asked`; returns nothing after the time-out.
    #[inline]
    fn await_answer(
        &mut self,
        question: u64,
        asked: u64,
        limit: Duration,
    ) -> Result<Option<R::Sample>> {
        let deadline = after(asked, limit);
        let mut left = limit;
        loop {
            let Some(sample) = self.next_sample(deadline, left)? else { return Ok(None) };
            let answered = sample.answers();
            if answered == question && !self.loses() {
                ensure!(
                    is_marked(sample.payload(), question + 1),
                    "the payload of answer {question} is torn or not ours"
                );
                self.end.received += 1;
                return Ok(Some(sample));
            }
            ensure!(
                answered <= question,
                "an answer came to question {answered}, and only {question} were asked: it is torn \
                 or not ours"
            );
            // The greeting may arrive again; neither end counts the repetition.
            if answered > 0 && answered < question {
                self.end.received += 1;
                self.end.late += 1;
            }
            left = until(deadline);
        }
    }

    /// Waits for the next question or the end mark; returns nothing after the time-out.
    #[inline]
    fn await_question(&mut self, limit: Duration) -> Result<Option<R::Sample>> {
        let deadline = after(now(), limit);
        let mut left = limit;
        loop {
            let Some(sample) = self.next_sample(deadline, left)? else { return Ok(None) };
            self.end.missed += sample.missed();
            if !sample.is_end() && self.loses() {
                self.end.missed += 1;
                left = until(deadline);
                continue;
            }
            let number = sample.sequence();
            ensure!(
                sample.is_end() || is_marked(sample.payload(), number),
                "the payload of question {number} is torn or not ours"
            );
            self.end.received += 1;
            return Ok(Some(sample));
        }
    }

    /// Copies the payload if the job counts copying as a part of receiving. The stamps are 0 if the
    /// job neither copies nor verifies payloads.
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

    /// Verifies the payload of a sample, if payloads are filled. `number`: number with which it was
    /// filled.
    fn verify(&mut self, sample: &R::Sample, number: u64, copied: bool) {
        if self.source.is_some() {
            let bytes = if copied {
                self.buffer.get(..sample.size()).unwrap_or_default()
            } else {
                sample.payload()
            };
            self.verdict.check(bytes, number);
        }
    }

    /// Records the processor time since `since`, unless payloads are verified: it would then
    /// include the wait for the other end's verification.
    fn count_cpu(&mut self, since: u64, samples: u64) {
        if self.source.is_none() && samples > 0 {
            self.end.cpu_ns = cpu_ns(self.job) - since;
            self.end.cpu_samples = samples;
        }
    }

    fn finish(
        mut self,
        sent: &Recorder<SentRow>,
        received: &Recorder<ReceivedRow>,
        name: &str,
    ) -> Result<End> {
        self.end.verified = self.verdict.verified;
        self.end.mismatched = self.verdict.mismatched;
        self.end.mismatches = self.verdict.into_mismatches();
        self.end.sent_file = Some(sent.write(self.job, &format!("{name}-sent"), 0)?);
        self.end.received_file = Some(received.write(self.job, &format!("{name}-received"), 0)?);
        Ok(self.end)
    }
}

fn after(start: u64, limit: Duration) -> u64 {
    start.saturating_add(limit.as_nanos() as u64)
}

fn until(deadline: u64) -> Duration {
    Duration::from_nanos(deadline.saturating_sub(now()))
}

/// Runs the asking end, which measures.
pub(crate) fn ping<S: Sender, R: Receiver>(
    job: &Job,
    sender: &mut S,
    receiver: &mut R,
    first_sequence: u64,
) -> Result<End> {
    ask_all(job, sender, receiver, first_sequence, PATIENCE)
}

fn ask_all<S: Sender, R: Receiver>(
    job: &Job,
    sender: &mut S,
    receiver: &mut R,
    first_sequence: u64,
    patience: Duration,
) -> Result<End> {
    let mut sent = Recorder::<SentRow>::for_job(job);
    let mut received = Recorder::<ReceivedRow>::for_job(job);
    let mut side = Side::new(job, sender, receiver, first_sequence)?;
    side.receiver.wait_matched(MATCH_TIMEOUT)?;
    side.sender.wait_matched(1, MATCH_TIMEOUT)?;
    // The answering end sends a greeting as soon as it can receive. Before that, a question could
    // be lost: a publisher may have matched a subscription that has not matched the publisher yet.
    let greeting = side
        .next_sample(after(now(), FIRST_QUESTION), FIRST_QUESTION)?
        .context("the answering end did not greet: it has ended, or its samples do not arrive")?;
    side.end.received = 1;
    side.end.first_sample_ns = Some(now());
    drop(greeting);
    side.end.first_sequence = first_sequence;
    side.end.unanswered = Some(0);
    let timeout = Duration::from_millis(job.answer_timeout_ms);
    let mut in_vain = Duration::ZERO;
    let (mut cpu, mut wakes) = (0, None);
    let rounds = job.warm_up + job.messages;
    for i in 0..rounds {
        if i == job.warm_up {
            (cpu, wakes) = (cpu_ns(job), side.sender.wake_calls());
            side.end.counted_from = side.next;
        }
        side.prepare(side.next);
        let before_fill = now();
        let (sequence, before_publish) = match side.ask()? {
            Ok(asked) => asked,
            Err(reason) => {
                *side.end.not_sent.entry(reason).or_default() += 1;
                continue;
            }
        };
        let question = SentRow { sequence, scheduled: 0, before_fill, before_publish, returned: 0 };
        let Some(sample) = side.await_answer(sequence, before_fill, timeout)? else {
            sent.push(question);
            *side.end.unanswered.get_or_insert_default() += 1;
            in_vain = in_vain.saturating_add(timeout);
            if in_vain > patience && i + 1 < rounds {
                *side.end.not_sent.entry("too many answers did not come".into()).or_default() +=
                    rounds - i - 1;
                break;
            }
            continue;
        };
        let arrived = side.copy(&sample);
        let end = if arrived.copied > 0 {
            arrived.copied
        } else if arrived.in_hand > 0 {
            arrived.in_hand
        } else {
            now()
        };
        side.verify(&sample, sequence + 1, arrived.copied > 0);
        let sequence_back = sample.sequence();
        drop(sample);
        let in_hand = if arrived.in_hand > 0 { arrived.in_hand } else { end };
        let mut read = 0;
        if side.source.is_some() {
            // The other end verifies at the same time. The next round waits until it must have
            // finished.
            read = now();
            let resume = read + 2 * (read - end) + 20_000;
            while now() < resume {
                std::hint::spin_loop();
            }
        }
        sent.push(question);
        received.push(ReceivedRow {
            sequence: sequence_back,
            woken: 0,
            in_hand,
            copied: arrived.copied,
            read,
        });
    }
    side.count_cpu(cpu, job.messages);
    side.end.wake_calls = side.sender.wake_calls().zip(wakes).map(|(after, before)| after - before);
    side.sender.publish_end().map_err(|e| anyhow!("the end mark could not be published: {e}"))?;
    side.end.published += 1;
    side.finish(&sent, &received, "ping")
}

/// Runs the answering end.
pub(crate) fn echo<S: Sender, R: Receiver>(
    job: &Job,
    sender: &mut S,
    receiver: &mut R,
    first_sequence: u64,
) -> Result<End> {
    let mut sent = Recorder::<SentRow>::for_job(job);
    let mut received = Recorder::<ReceivedRow>::for_job(job);
    let mut side = Side::new(job, sender, receiver, first_sequence)?;
    side.receiver.wait_matched(MATCH_TIMEOUT)?;
    side.sender.wait_matched(1, MATCH_TIMEOUT)?;
    side.end.first_sequence = first_sequence;
    // The greeting, with the number before that of the first answer.
    side.prepare(first_sequence);
    side.answer(0).map_err(|e| anyhow!("the greeting could not be published: {e}"))?;
    let (mut cpu, mut answered, mut limit) = (0, 0, FIRST_QUESTION);
    loop {
        if answered == job.warm_up {
            cpu = cpu_ns(job);
            side.end.counted_from = side.next;
        }
        let expected = side.next;
        side.prepare(expected + 1);
        // If the asking end does not finish, the results so far show that.
        let Some(sample) = side.await_question(limit)? else { break };
        if sample.is_end() {
            break;
        }
        limit = NEXT_QUESTION;
        let question = sample.sequence();
        side.next = question + 1;
        let arrived = side.copy(&sample);
        // Only filling is stamped: it is the only part of the answer that is not transport.
        let before_fill = if side.source.is_some() { now() } else { 0 };
        if question != expected {
            side.prepare(question + 1);
        }
        let (sequence, before_publish) = match side.answer(question) {
            Ok(sent) => sent,
            Err(reason) => {
                *side.end.not_sent.entry(reason).or_default() += 1;
                (0, 0)
            }
        };
        side.verify(&sample, question, arrived.copied > 0);
        drop(sample);
        sent.push(SentRow { sequence, scheduled: 0, before_fill, before_publish, returned: 0 });
        received.push(ReceivedRow {
            sequence: question,
            woken: 0,
            in_hand: arrived.in_hand,
            copied: arrived.copied,
            read: 0,
        });
        answered += 1;
    }
    side.count_cpu(cpu, answered.saturating_sub(job.warm_up));
    side.finish(&sent, &received, "echo")
}

#[cfg(test)]
#[path = "closed_loop_tests.rs"]
mod tests;
