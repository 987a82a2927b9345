// SPDX-License-Identifier: Apache-2.0
//! Joins what the ends of a run noted, and checks that nothing is left over.
//!
//! scheduled = sent + not sent, and sent = received + missed, for every subscriber; else the run is invalid and says
//! why. What is received is counted by the receiving end, what is sent by the sending end, and the stamps of both are
//! matched sample by sample, so a mistake in any of them shows.

use crate::harness::{End, Job, OwnTool, Pace, Payload, ReceivedRow, Role, SentRow, read_rows};
use crate::metric::Metric;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One run, accounted for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// Why the run is not valid; empty if it is.
    pub invalid: Vec<String>,
    /// Samples that counted and were due.
    pub scheduled: u64,
    /// Of those: published.
    pub sent: u64,
    /// Due, warm-up included, but not published, by reason.
    pub not_sent: BTreeMap<String, u64>,
    /// Of the sent ones: received, per subscriber.
    pub received: Vec<u64>,
    /// Of the sent ones: replaced by newer ones before they were read, per subscriber.
    pub missed: Vec<u64>,
    /// Payloads verified, over all subscribers, warm-up included.
    pub verified: u64,
    /// Payloads that did not verify, over all subscribers.
    pub torn: u64,
    /// Processor time of the sending end per counted sample, in nanoseconds.
    pub publisher_cpu_ns_per_sample: Option<f64>,
    /// Processor time of a receiving end per counted sample, in nanoseconds; the mean of all.
    pub subscriber_cpu_ns_per_sample: Option<f64>,
    /// System calls for waking per counted sample.
    pub wake_calls_per_publish: Option<f64>,
    /// From the start of the publisher's process to the first sample received, in nanoseconds; the last of the
    /// subscribers counts.
    pub start_up_ns: Option<u64>,
    /// Times per second that a blocked reader at rest was scheduled.
    pub idle_wakeups_per_s: Option<f64>,
    /// What the machine refused.
    pub unset: Vec<String>,
    /// What the middleware's own latency tool said, if that is what ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub own_tool: Option<OwnTool>,
    /// Samples of each figure.
    #[serde(skip)]
    pub samples: BTreeMap<Metric, Vec<u64>>,
    /// Stamps of every counted sample, for each subscriber.
    #[serde(skip)]
    pub stamps: Vec<Sample>,
}

/// What became of one counted sample at one subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// Which subscriber.
    pub subscriber: usize,
    /// Stamps of the sending end.
    pub sent: SentRow,
    /// Stamps of the receiving end; nothing if it did not receive it. In a ping-pong: of the answer.
    pub received: Option<ReceivedRow>,
    /// [`Metric::Transport`]; 0 if it was not received. In a ping-pong the other end's filling is taken out of it, so it does
    /// not follow from these stamps alone.
    pub transport_ns: u64,
    /// [`Metric::FillAndTransport`]; 0 if it was not received, or not filled.
    pub fill_and_transport_ns: u64,
}

impl Account {
    /// Adds a figure if there is any sample of it.
    pub(crate) fn put(&mut self, metric: Metric, samples: Vec<u64>) {
        if !samples.is_empty() {
            self.samples.entry(metric).or_default().extend(samples);
        }
    }
}

/// Accounts for the ends of a run.
pub(crate) fn account(job: &Job, ends: &[End]) -> Result<Account> {
    let mut a = Account { unset: ends.iter().flat_map(|e| e.unset.iter().cloned()).collect(), ..Account::default() };
    a.unset.sort();
    a.unset.dedup();
    a.verified = ends.iter().map(|e| e.verified).sum();
    a.torn = ends.iter().map(|e| e.mismatched.max(e.mismatches.len() as u64)).sum();
    for end in ends {
        a.invalid.extend(end.mismatches.iter().map(|m| format!("payload mismatch at subscriber {}: {m}", end.index)));
    }
    let end_of = |role: Role| ends.iter().find(|e| e.role == role).with_context(|| format!("no {role:?} told what it did"));
    match job.role {
        Role::Memcpy | Role::SameThread => alone(job, end_of(job.role)?, &mut a)?,
        _ if job.pace == Pace::PingPong => closed(job, end_of(Role::Ping)?, end_of(Role::Echo)?, &mut a)?,
        _ => {
            let receivers: Vec<&End> = ends.iter().filter(|e| e.role == Role::Subscriber).collect();
            open(job, end_of(Role::Publisher)?, &receivers, &mut a)?;
        }
    }
    Ok(a)
}

fn sent_rows(end: &End) -> Result<Vec<SentRow>> {
    let path = end.sent_file.as_ref().context("the sending end wrote no stamps")?;
    read_rows(path).with_context(|| format!("cannot read {}", path.display()))
}

fn received_rows(end: &End) -> Result<Vec<ReceivedRow>> {
    let path = end.received_file.as_ref().context("a receiving end wrote no stamps")?;
    read_rows(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Everything published must be received or reported missed. Both sides counted on their own, first sample and end mark
/// included.
fn check_balance(who: &str, published: u64, end: &End, a: &mut Account) {
    let accounted = end.received + end.missed;
    if accounted != published {
        let (r, m) = (end.received, end.missed);
        let what = if accounted < published {
            format!("{} are lost without a word", published - accounted)
        } else {
            format!("{} too many", accounted - published)
        };
        a.invalid.push(format!("{who}: {published} samples were published, {r} received and {m} reported missed: {what}"));
    }
}

fn per_sample(end: &End) -> Option<f64> {
    (end.cpu_samples > 0).then(|| end.cpu_ns as f64 / end.cpu_samples as f64)
}

fn alone(job: &Job, end: &End, a: &mut Account) -> Result<()> {
    let sent: Vec<SentRow> = sent_rows(end)?.into_iter().filter(|r| r.sequence >= end.counted_from).collect();
    (a.scheduled, a.sent) = (job.messages, sent.len() as u64);
    if a.sent != job.messages {
        a.invalid.push(format!("{} of {} samples were noted", a.sent, job.messages));
    }
    if job.role == Role::Memcpy {
        a.put(Metric::Copy, sent.iter().map(|r| r.before_publish.saturating_sub(r.before_fill)).collect());
        a.stamps = sent.into_iter().map(|sent| Sample { sent, ..Sample::default() }).collect();
        return Ok(());
    }
    let received: Vec<ReceivedRow> = received_rows(end)?.into_iter().filter(|r| r.sequence >= end.counted_from).collect();
    (a.received, a.missed) = (vec![received.len() as u64], vec![0]);
    check_balance("the callback", end.published, end, a);
    a.publisher_cpu_ns_per_sample = per_sample(end);
    let pairs = || sent.iter().zip(&received);
    if pairs().any(|(s, r)| s.sequence != r.sequence) || a.sent != received.len() as u64 {
        a.invalid.push("the stamps of both ends do not belong together".into());
        return Ok(());
    }
    a.stamps = pairs()
        .map(|(s, r)| Sample {
            sent: *s,
            received: Some(*r),
            transport_ns: r.in_hand.saturating_sub(s.before_publish),
            ..Sample::default()
        })
        .collect();
    a.put(Metric::Transport, a.stamps.iter().map(|s| s.transport_ns).collect());
    a.put(Metric::PublishCall, sent.iter().map(|s| s.returned.saturating_sub(s.before_publish)).collect());
    Ok(())
}

fn closed(job: &Job, ping: &End, echo: &End, a: &mut Account) -> Result<()> {
    a.scheduled = job.messages;
    check_balance("the answering end", ping.published, echo, a);
    check_balance("the asking end", echo.published, ping, a);
    let skip = job.warm_up as usize;
    let counted = |rows: Vec<SentRow>| rows.into_iter().skip(skip).collect::<Vec<_>>();
    let asked = counted(sent_rows(ping)?);
    let answered = counted(sent_rows(echo)?);
    let returned: Vec<ReceivedRow> = received_rows(ping)?.into_iter().skip(skip).collect();
    let heard: Vec<ReceivedRow> = received_rows(echo)?.into_iter().skip(skip).collect();
    a.sent = asked.len() as u64;
    (a.received, a.missed) = (vec![heard.len() as u64], vec![echo.missed]);
    let n = job.messages as usize;
    if [asked.len(), answered.len(), returned.len(), heard.len()] != [n; 4] {
        a.invalid.push(format!(
            "of {n} rounds, {} were asked, {} heard, {} answered, {} returned",
            asked.len(),
            heard.len(),
            answered.len(),
            returned.len()
        ));
        return Ok(());
    }
    if asked.iter().zip(&heard).any(|(s, r)| s.sequence != r.sequence)
        || answered.iter().zip(&returned).any(|(s, r)| s.sequence != r.sequence)
    {
        a.invalid.push("the stamps of both ends do not belong together".into());
        return Ok(());
    }
    check_verified(job, 2 * (job.warm_up + job.messages), a);
    let fill = |s: &SentRow| s.before_publish.saturating_sub(if s.before_publish > 0 { s.before_fill } else { 0 });
    let trip = |s: &SentRow, r: &ReceivedRow| r.in_hand.max(r.copied).saturating_sub(s.before_fill);
    let rounds = || asked.iter().zip(&returned).zip(&answered);
    let filled = job.payload == Payload::Filled;
    a.stamps = rounds()
        .map(|((s, r), e)| Sample {
            subscriber: 0,
            sent: *s,
            received: Some(*r),
            transport_ns: trip(s, r).saturating_sub(fill(s) + fill(e)) / 2,
            fill_and_transport_ns: if filled { trip(s, r) / 2 } else { 0 },
        })
        .collect();
    a.put(Metric::Transport, a.stamps.iter().map(|s| s.transport_ns).collect());
    if filled {
        a.put(Metric::FillAndTransport, a.stamps.iter().map(|s| s.fill_and_transport_ns).collect());
        a.put(Metric::Fill, asked.iter().map(fill).collect());
        a.put(Metric::Read, returned.iter().map(|r| r.read.saturating_sub(r.in_hand.max(r.copied))).collect());
    }
    a.put(Metric::Copy, returned.iter().chain(&heard).filter(|r| r.copied > 0).map(|r| r.copied.saturating_sub(r.in_hand)).collect());
    a.publisher_cpu_ns_per_sample = per_sample(ping);
    a.subscriber_cpu_ns_per_sample = per_sample(echo);
    a.wake_calls_per_publish = ping.wake_calls.map(|w| w as f64 / job.messages as f64);
    Ok(())
}

fn open(job: &Job, publisher: &End, receivers: &[&End], a: &mut Account) -> Result<()> {
    let total = job.warm_up + job.messages;
    let all = sent_rows(publisher)?;
    a.not_sent = publisher.not_sent.clone();
    let not_sent: u64 = a.not_sent.values().sum();
    if all.len() as u64 + not_sent != total {
        a.invalid.push(format!("{total} samples were scheduled, {} sent and {not_sent} not sent", all.len()));
    }
    // The first sample and the end mark are not scheduled.
    if all.len() as u64 + 2 != publisher.published {
        a.invalid.push(format!("{} samples were published but {} noted", publisher.published, all.len() + 2));
    }
    let sent: Vec<SentRow> = all.into_iter().filter(|r| r.sequence >= publisher.counted_from).collect();
    a.scheduled = job.messages;
    a.sent = sent.len() as u64;
    let mut last: Vec<Option<u64>> = sent.iter().map(|_| Some(0)).collect();
    for end in receivers {
        let who = format!("subscriber {}", end.index);
        check_balance(&who, publisher.published, end, a);
        let rows = received_rows(end)?;
        if rows.windows(2).any(|w| matches!(w, [x, y] if x.sequence >= y.sequence)) {
            a.invalid.push(format!("{who}: samples came twice or out of order"));
            continue;
        }
        let mut received = rows.iter().filter(|r| r.sequence >= publisher.counted_from).peekable();
        let mut got = 0;
        let mut latencies = Vec::with_capacity(sent.len());
        let mut of = BTreeMap::<Metric, Vec<u64>>::new();
        for (s, last) in sent.iter().zip(&mut last) {
            let Some(r) = received.next_if(|r| r.sequence == s.sequence) else {
                *last = None;
                a.stamps.push(Sample { subscriber: end.index, sent: *s, ..Sample::default() });
                continue;
            };
            got += 1;
            let at = r.in_hand.max(r.copied);
            let transport = at.saturating_sub(s.before_publish);
            let fill_and_transport_ns = if job.payload == Payload::Filled { at.saturating_sub(s.before_fill) } else { 0 };
            a.stamps.push(Sample { subscriber: end.index, sent: *s, received: Some(*r), transport_ns: transport, fill_and_transport_ns });
            latencies.push(transport);
            *last = last.map(|l| l.max(transport));
            of.entry(Metric::ScheduleRelative).or_default().push(at.saturating_sub(s.scheduled));
            of.entry(Metric::WakeToHand).or_default().push(r.in_hand.saturating_sub(r.woken));
            if job.payload == Payload::Filled {
                of.entry(Metric::FillAndTransport).or_default().push(fill_and_transport_ns);
            }
            if r.copied > 0 {
                of.entry(Metric::Copy).or_default().push(r.copied.saturating_sub(r.in_hand));
            }
            if r.read > 0 {
                of.entry(Metric::Read).or_default().push(r.read.saturating_sub(at));
            }
        }
        if received.peek().is_some() {
            a.invalid.push(format!("{who}: it received samples that nobody sent"));
        }
        a.received.push(got);
        a.missed.push(a.sent - got);
        a.put(Metric::Transport, latencies);
        for (metric, samples) in of {
            a.put(metric, samples);
        }
    }
    if receivers.len() != job.subscribers {
        a.invalid.push(format!("{} of {} subscribers told what they did", receivers.len(), job.subscribers));
    }
    let received_payloads = receivers.iter().map(|e| e.received.saturating_sub(1)).sum();
    check_verified(job, received_payloads, a);
    if job.subscribers > 1 {
        a.put(Metric::LastSubscriber, last.into_iter().flatten().collect());
    }
    if job.payload == Payload::Filled {
        a.put(Metric::Fill, sent.iter().map(|s| s.before_publish.saturating_sub(s.before_fill)).collect());
    }
    a.put(Metric::PublishCall, sent.iter().map(|s| s.returned.saturating_sub(s.before_publish)).collect());
    a.publisher_cpu_ns_per_sample = per_sample(publisher);
    let readers: Vec<f64> = receivers.iter().filter_map(|e| per_sample(e)).collect();
    a.subscriber_cpu_ns_per_sample = (!readers.is_empty()).then(|| readers.iter().sum::<f64>() / readers.len() as f64);
    a.wake_calls_per_publish = publisher.wake_calls.filter(|_| a.sent > 0).map(|w| w as f64 / a.sent as f64);
    Ok(())
}

/// Whether every payload that should have been verified was.
fn check_verified(job: &Job, expected: u64, a: &mut Account) {
    if job.payload == Payload::Filled && a.verified != expected {
        a.invalid.push(format!("{} payloads were verified of {expected} received", a.verified));
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
