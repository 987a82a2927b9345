// SPDX-License-Identifier: Apache-2.0
//! Joins the records of the ends of a run, and checks that they account for every sample.
//!
//! For every subscriber, scheduled = sent + not sent and sent = received + missed. Otherwise the
//! run is invalid, and the account has the reason. The receiving end counts received samples, the
//! sending end counts sent ones, and the stamps of both are matched sample by sample, so an error
//! in any of them shows. The ends' reports are not trusted: counts must fit their stamps, and
//! stamps must be in the order of events.
//!
//! A link also carries samples that are not scheduled: a first sample as soon as the ends are
//! connected (in a closed loop the *greeting* of the answering end), and the *end mark* as the last
//! one. *Counted* samples are the scheduled ones after the warm-up. See
//! `docs/protocols/harness.md`.

mod results;

pub(crate) use results::LostRounds;
pub use results::{Account, Sample};

use crate::harness::{End, Job, Pace, Payload, ReceivedRow, Role, SentRow, read_rows};
use crate::metric::Metric;
use anyhow::{Context, Result};
use driveline::types::MonotonicNs;
use std::collections::BTreeMap;

/// Accounts for the ends of a run, whose first process was started at `since_ns` on
/// `CLOCK_MONOTONIC`.
pub(crate) fn account(job: &Job, ends: &[End], since_ns: u64) -> Result<Account> {
    let mut a = Account {
        unset: ends.iter().flat_map(|e| e.unset.iter().cloned()).collect(),
        ..Account::default()
    };
    a.unset.sort();
    a.unset.dedup();
    a.verified = total(ends.iter().map(|e| e.verified));
    a.torn = total(ends.iter().map(|e| e.mismatched.max(e.mismatches.len() as u64)));
    for end in ends {
        a.invalid.extend(
            end.mismatches
                .iter()
                .map(|m| format!("payload mismatch at subscriber {}: {m}", end.index)),
        );
        if end.mismatches.is_empty() && end.mismatched > 0 {
            a.invalid.push(format!(
                "payload mismatch at subscriber {}: {} payloads, without descriptions",
                end.index, end.mismatched
            ));
        }
    }
    let end_of = |role: Role| {
        ends.iter()
            .find(|e| e.role == role)
            .with_context(|| format!("no {role:?} reported its results"))
    };
    match job.role {
        Role::Memcpy | Role::SameThread => alone(job, end_of(job.role)?, &mut a)?,
        _ if job.pace == Pace::PingPong => {
            closed(job, end_of(Role::Ping)?, end_of(Role::Echo)?, &mut a)?
        }
        _ => {
            let mut receivers: Vec<&End> =
                ends.iter().filter(|e| e.role == Role::Subscriber).collect();
            receivers.sort_by_key(|e| e.index);
            open(job, end_of(Role::Publisher)?, &receivers, &mut a)?;
        }
    }
    let early = a
        .stamps
        .iter()
        .filter(|s| s.stamps().into_iter().any(|ns| ns > 0 && ns < since_ns))
        .count();
    refuse_stamps(
        "the ends",
        early,
        "were sent before the first process of the run was started",
        &mut a,
    );
    Ok(a)
}

/// Returns the sum of counts from other processes; it saturates.
fn total(counts: impl Iterator<Item = u64>) -> u64 {
    counts.fold(0, u64::saturating_add)
}

/// Maximum number of rows of an end, with a margin for middleware that repeats samples.
fn rows_at_most(job: &Job) -> usize {
    (job.warm_up + job.messages).saturating_mul(2) as usize + 1000
}

fn sent_rows(job: &Job, end: &End) -> Result<Vec<SentRow>> {
    let path = end.sent_file.as_ref().context("the sending end wrote no stamps")?;
    read_rows(path, rows_at_most(job)).with_context(|| format!("cannot read {}", path.display()))
}

fn received_rows(job: &Job, end: &End) -> Result<Vec<ReceivedRow>> {
    let path = end.received_file.as_ref().context("a receiving end wrote no stamps")?;
    read_rows(path, rows_at_most(job)).with_context(|| format!("cannot read {}", path.display()))
}

/// Checks that every published sample was received or reported missed. Both ends count
/// independently; their counts include the first sample and the end mark.
fn check_balance(who: &str, published: u64, end: &End, a: &mut Account) {
    let accounted = end.received.saturating_add(end.missed);
    if accounted != published {
        let (r, m) = (end.received, end.missed);
        let what = if accounted < published {
            format!("{} are lost and in no count", published - accounted)
        } else {
            format!("{} too many", accounted - published)
        };
        a.invalid.push(format!(
            "{who}: {published} samples were published, {r} received and {m} reported lost: {what}"
        ));
    }
}

/// Returns the processor time of an end per counted sample that was sent, whether it was received
/// or not. Returns `None` if the end cannot attribute its processor time, or if no counted sample
/// was sent.
fn per_sent(end: &End, sent: u64) -> Option<f64> {
    (end.cpu_samples > 0 && sent > 0).then(|| end.cpu_ns as f64 / sent as f64)
}

fn alone(job: &Job, end: &End, a: &mut Account) -> Result<()> {
    let sent: Vec<SentRow> =
        sent_rows(job, end)?.into_iter().filter(|r| r.sequence >= end.counted_from).collect();
    (a.scheduled, a.sent) = (job.messages, sent.len() as u64);
    if a.sent != job.messages {
        a.invalid.push(format!("{} of {} samples were noted", a.sent, job.messages));
    }
    if job.role == Role::Memcpy {
        a.put(
            Metric::Copy,
            sent.iter().map(|r| r.before_publish.saturating_sub(r.before_fill)).collect(),
        );
        a.stamps = sent.into_iter().map(|sent| Sample { sent, ..Sample::default() }).collect();
        return Ok(());
    }
    let received: Vec<ReceivedRow> =
        received_rows(job, end)?.into_iter().filter(|r| r.sequence >= end.counted_from).collect();
    (a.received, a.missed) = (vec![received.len() as u64], vec![0]);
    check_balance("the callback", end.published, end, a);
    a.publisher_cpu_ns_per_sample = per_sent(end, a.sent);
    // The publisher's thread runs the callback, so its processor time includes the subscriber's.
    a.subscriber_cpu_ns_per_sample = a.publisher_cpu_ns_per_sample.map(|_| 0.0);
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
    a.put(
        Metric::PublishCall,
        sent.iter().map(|s| s.returned.saturating_sub(s.before_publish)).collect(),
    );
    Ok(())
}

/// Compares the counts of the asking end with its rows and with the report of the answering end.
/// Both ends count independently.
fn check_rounds(rounds: u64, rows: [u64; 4], ping: &End, echo: &End, a: &mut Account) {
    let [asked, heard, answered, returned] = rows;
    check_balance("the answering end", ping.published, echo, a);
    let Some(unanswered) = ping.unanswered else {
        // This program reports no losses, so it must not lose anything.
        check_balance("the asking end", echo.published, ping, a);
        if [asked, heard, answered, returned] != [rounds; 4] {
            a.invalid.push(format!(
                "of {rounds} rounds, {asked} were asked, {heard} heard, \
                 {answered} answered, {returned} returned"
            ));
        }
        return;
    };
    let not_sent = ping.not_sent.values().fold(0, |all: u64, n| all.saturating_add(*n));
    if asked.saturating_add(not_sent) != rounds {
        a.invalid.push(format!("of {rounds} rounds, {asked} were asked and {not_sent} not sent"));
    }
    if returned.saturating_add(unanswered) != asked {
        a.invalid.push(format!(
            "of {asked} questions, {returned} were answered in time and {unanswered} were not"
        ));
    }
    // The asking end also publishes the end mark, and the answering end the greeting.
    if ping.published != asked + 1 || echo.published != answered + 1 {
        a.invalid.push(format!(
            "{asked} questions and {answered} answers were noted, but {} and {} samples were \
             published",
            ping.published, echo.published
        ));
    }
    if ping.received != returned.saturating_add(ping.late).saturating_add(1) {
        a.invalid.push(format!(
            "{} samples came back: a greeting, {returned} answers in time and {} late ones were \
             noted",
            ping.received, ping.late
        ));
    }
    if ping.received > echo.published || ping.late > unanswered {
        a.invalid.push(format!(
            "{} answers were sent and {} came, {} of them late, in {unanswered} unanswered rounds: \
             some came twice",
            answered,
            returned.saturating_add(ping.late),
            ping.late
        ));
    }
    let lost = LostRounds {
        questions: asked.saturating_sub(heard),
        answers: echo.published.saturating_sub(ping.received),
        unsent_answers: echo.not_sent.clone(),
        late: ping.late,
    };
    a.lost_rounds = (unanswered > 0 || lost != LostRounds::default()).then_some(lost);
}

/// Returns true if the stamps of filling exist and are in order. A missing stamp is 0, and an
/// interval from it would be far too long.
fn filling_in_order(s: &SentRow) -> bool {
    s.before_fill > 0 && s.before_fill <= s.before_publish
}

/// Returns true if the stamps of a sample at its receiver exist and are in order. A sample that was
/// not copied or not read has no stamp for that step.
fn arrival_in_order(r: &ReceivedRow) -> bool {
    let in_hand = r.in_hand.max(r.copied);
    r.in_hand > 0 && (r.copied == 0 || r.copied >= r.in_hand) && (r.read == 0 || r.read >= in_hand)
}

/// A round of a closed loop: question and answer, each at both ends.
struct Round {
    asked: SentRow,
    /// Nothing if the question was lost.
    heard: Option<(ReceivedRow, SentRow)>,
    /// Nothing if no answer came in time.
    returned: Option<ReceivedRow>,
}

/// Joins the rows of both ends by their numbers; returns nothing if some do not match.
fn join_rounds(
    asked: Vec<SentRow>,
    heard: Vec<ReceivedRow>,
    answered: Vec<SentRow>,
    returned: Vec<ReceivedRow>,
) -> Option<Vec<Round>> {
    if heard.len() != answered.len() {
        return None;
    }
    let mut heard = heard.into_iter().zip(answered).peekable();
    let mut returned = returned.into_iter().peekable();
    let rounds = asked
        .into_iter()
        .map(|asked| {
            let heard = heard.next_if(|(question, _)| question.sequence == asked.sequence);
            // An answer that was not sent has the number 0.
            let answer = heard.map_or(0, |(_, answer)| answer.sequence);
            let returned = returned.next_if(|r| answer > 0 && r.sequence == answer);
            Round { asked, heard, returned }
        })
        .collect();
    (heard.peek().is_none() && returned.peek().is_none()).then_some(rounds)
}

fn closed(job: &Job, ping: &End, echo: &End, a: &mut Account) -> Result<()> {
    a.scheduled = job.messages;
    a.not_sent = ping.not_sent.clone();
    let (asked, heard, answered, returned) = (
        sent_rows(job, ping)?,
        received_rows(job, echo)?,
        sent_rows(job, echo)?,
        received_rows(job, ping)?,
    );
    let answers_sent = answered.iter().filter(|r| r.sequence > 0).count();
    let rows = [asked.len(), heard.len(), answers_sent, returned.len()].map(|n| n as u64);
    check_rounds(job.warm_up + job.messages, rows, ping, echo, a);
    check_verified(job, (heard.len() + returned.len()) as u64, a);
    // Questions are numbered from 1 on.
    let counted_from = if ping.unanswered.is_some() { ping.counted_from } else { job.warm_up + 1 };
    let Some(mut rounds) = join_rounds(asked, heard, answered, returned) else {
        a.invalid.push("the stamps of both ends do not belong together".into());
        return Ok(());
    };
    rounds.retain(|r| r.asked.sequence >= counted_from);
    a.sent = rounds.len() as u64;
    let complete = rounds.iter().filter(|r| r.returned.is_some()).count() as u64;
    (a.received, a.missed) = (vec![complete], vec![a.sent - complete]);
    let fill = |s: &SentRow| {
        s.before_publish.saturating_sub(if s.before_publish > 0 { s.before_fill } else { 0 })
    };
    let filled = job.payload == Payload::Filled;
    let now = MonotonicNs::now().0;
    let in_order = |r: &Round| {
        let begun = r.asked.before_fill > 0 && r.asked.before_fill <= now;
        let sent = |s: &SentRow| {
            if filled { filling_in_order(s) } else { s.before_publish == 0 || filling_in_order(s) }
        };
        // The answering end takes no stamps of a question whose payload it does not handle.
        let heard = |question: &ReceivedRow| {
            question.in_hand.max(question.copied) == 0 || arrival_in_order(question)
        };
        if !begun || !sent(&r.asked) || r.heard.is_some_and(|(question, _)| !heard(&question)) {
            return false;
        }
        let Some((returned, (_, answer))) = r.returned.zip(r.heard) else { return true };
        let end = returned.in_hand.max(returned.copied);
        sent(&answer)
            && arrival_in_order(&returned)
            && r.asked.before_fill.saturating_add(fill(&r.asked)).saturating_add(fill(&answer))
                <= end
            && end.max(returned.read) <= now
    };
    let wrong = rounds.iter().filter(|r| !in_order(r)).count();
    refuse_stamps(
        "the asking end",
        wrong,
        "lack stamps, ended before they began, or have not happened yet",
        a,
    );
    let stamps = |r: &Round| {
        let Some((returned, (_, answer))) = r.returned.zip(r.heard) else {
            return Sample { sent: r.asked, ..Sample::default() };
        };
        let trip = returned.in_hand.max(returned.copied).saturating_sub(r.asked.before_fill);
        Sample {
            subscriber: 0,
            sent: r.asked,
            received: Some(returned),
            transport_ns: trip.saturating_sub(fill(&r.asked).saturating_add(fill(&answer))) / 2,
            fill_and_transport_ns: if filled { trip / 2 } else { 0 },
        }
    };
    a.stamps = rounds.iter().map(stamps).collect();
    let answered = || a.stamps.iter().filter(|s| s.received.is_some());
    let returned = || a.stamps.iter().filter_map(|s| s.received);
    let mut figures =
        vec![(Metric::Transport, answered().map(|s| s.transport_ns).collect::<Vec<_>>())];
    if filled {
        figures.push((
            Metric::FillAndTransport,
            answered().map(|s| s.fill_and_transport_ns).collect(),
        ));
        figures.push((Metric::Fill, rounds.iter().map(|r| fill(&r.asked)).collect()));
        figures.push((
            Metric::Read,
            returned().map(|r| r.read.saturating_sub(r.in_hand.max(r.copied))).collect(),
        ));
    }
    let heard = rounds.iter().filter_map(|r| r.heard.map(|(question, _)| question));
    let copied = returned().chain(heard).filter(|r| r.copied > 0);
    figures.push((Metric::Copy, copied.map(|r| r.copied.saturating_sub(r.in_hand)).collect()));
    for (metric, samples) in figures {
        a.put(metric, samples);
    }
    a.publisher_cpu_ns_per_sample = per_sent(ping, a.sent);
    a.subscriber_cpu_ns_per_sample = per_sent(echo, a.sent);
    a.wake_calls_per_publish =
        ping.wake_calls.filter(|_| a.sent > 0).map(|w| w as f64 / a.sent as f64);
    Ok(())
}

fn open(job: &Job, publisher: &End, receivers: &[&End], a: &mut Account) -> Result<()> {
    let scheduled = job.warm_up + job.messages;
    let indices: Vec<usize> = receivers.iter().map(|e| e.index).collect();
    if receivers.len() != job.subscribers {
        a.invalid.push(format!(
            "{} of {} subscribers reported their results",
            receivers.len(),
            job.subscribers
        ));
    } else if indices.iter().enumerate().any(|(i, index)| i != *index) {
        a.invalid.push(format!(
            "the subscribers have the indices {indices:?}: each must report the index of its job"
        ));
    }
    if receivers.len() > job.subscribers {
        return Ok(());
    }
    let all = sent_rows(job, publisher)?;
    a.not_sent = publisher.not_sent.clone();
    let not_sent = total(a.not_sent.values().copied());
    if (all.len() as u64).saturating_add(not_sent) != scheduled {
        a.invalid.push(format!(
            "{scheduled} samples were scheduled, {} sent and {not_sent} not sent",
            all.len()
        ));
    }
    // The first sample and the end mark are not scheduled.
    if all.len() as u64 + 2 != publisher.published {
        a.invalid.push(format!(
            "{} samples were published but {} noted",
            publisher.published,
            all.len() + 2
        ));
    }
    let sent: Vec<SentRow> =
        all.into_iter().filter(|r| r.sequence >= publisher.counted_from).collect();
    a.scheduled = job.messages;
    a.sent = sent.len() as u64;
    if a.sent > job.messages || a.sent.saturating_add(not_sent) < job.messages {
        let from = publisher.counted_from;
        a.invalid.push(format!(
            "{} samples count, from number {from} on, and it should be {} without those not sent",
            a.sent, job.messages
        ));
    }
    let now = MonotonicNs::now().0;
    let late = sent
        .iter()
        .filter(|s| {
            let filled = job.payload == Payload::Filled;
            s.scheduled == 0
                || s.scheduled > s.before_publish
                || (filled && !filling_in_order(s))
                || (s.returned > 0 && s.returned < s.before_publish)
                || s.returned.max(s.before_publish) > now
        })
        .count();
    refuse_stamps(
        "the publisher",
        late,
        "lack stamps, were published before they were due, or have not happened yet",
        a,
    );
    let mut last: Vec<Option<u64>> = sent.iter().map(|_| Some(0)).collect();
    let mut payloads = 0u64;
    for end in receivers {
        let who = format!("subscriber {}", end.index);
        check_balance(&who, publisher.published, end, a);
        let rows = received_rows(job, end)?;
        payloads = payloads.saturating_add(payloads_received(end, rows.len() as u64));
        // The first sample and the end mark have no rows.
        if !(rows.len() as u64 + 1..=rows.len() as u64 + 2).contains(&end.received)
            && (end.received > 0 || !rows.is_empty())
        {
            a.invalid.push(format!(
                "{who}: {} samples were received but {} noted",
                end.received,
                rows.len()
            ));
        }
        if rows.windows(2).any(|w| matches!(w, [x, y] if x.sequence >= y.sequence)) {
            a.invalid.push(format!("{who}: samples came twice or out of order"));
            continue;
        }
        let mut received = rows.iter().filter(|r| r.sequence >= publisher.counted_from).peekable();
        let (mut got, mut wrong) = (0, 0);
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
            wrong += usize::from(
                r.in_hand < s.before_publish
                    || at.max(r.read) > now
                    || r.woken > r.in_hand
                    || !arrival_in_order(r),
            );
            let transport = at.saturating_sub(s.before_publish);
            let fill_and_transport_ns =
                if job.payload == Payload::Filled { at.saturating_sub(s.before_fill) } else { 0 };
            a.stamps.push(Sample {
                subscriber: end.index,
                sent: *s,
                received: Some(*r),
                transport_ns: transport,
                fill_and_transport_ns,
            });
            latencies.push(transport);
            *last = last.map(|l| l.max(transport));
            of.entry(Metric::ScheduleRelative).or_default().push(at.saturating_sub(s.scheduled));
            if r.woken > 0 {
                of.entry(Metric::WakeToHand).or_default().push(r.in_hand.saturating_sub(r.woken));
            }
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
            a.invalid.push(format!("{who}: it received samples that were never sent"));
        }
        refuse_stamps(
            &who,
            wrong,
            "lack stamps, were in hand before they were published, or have not happened yet",
            a,
        );
        a.received.push(got);
        a.missed.push(a.sent - got);
        a.put(Metric::Transport, latencies);
        for (metric, samples) in of {
            a.put(metric, samples);
        }
    }
    check_verified(job, payloads, a);
    if job.subscribers > 1 {
        a.put(Metric::LastSubscriber, last.into_iter().flatten().collect());
    }
    if job.payload == Payload::Filled {
        a.put(
            Metric::Fill,
            sent.iter().map(|s| s.before_publish.saturating_sub(s.before_fill)).collect(),
        );
    }
    a.put(
        Metric::PublishCall,
        sent.iter().map(|s| s.returned.saturating_sub(s.before_publish)).collect(),
    );
    a.publisher_cpu_ns_per_sample = per_sent(publisher, a.sent);
    let readers: Vec<f64> = receivers.iter().filter_map(|e| per_sent(e, a.sent)).collect();
    a.subscriber_cpu_ns_per_sample =
        (!readers.is_empty()).then(|| readers.iter().sum::<f64>() / readers.len() as f64);
    a.wake_calls_per_publish =
        publisher.wake_calls.filter(|_| a.sent > 0).map(|w| w as f64 / a.sent as f64);
    Ok(())
}

/// Makes the run invalid if stamps are impossible: the other figures are not trusted either.
fn refuse_stamps(who: &str, wrong: usize, what: &str, a: &mut Account) {
    if wrong > 0 {
        a.invalid.push(format!(
            "{who}: by their stamps {wrong} samples {what}: stamps are \
             nanoseconds on CLOCK_MONOTONIC, taken in place"
        ));
    }
}

/// Returns the number of payloads that a subscriber had to verify: one for each row, and that of
/// the first sample. The end mark has no payload. The number is not computed as received samples
/// minus the end mark: the end mark can be lost, or only the end mark may have arrived.
fn payloads_received(end: &End, rows: u64) -> u64 {
    let first_came = rows > 0 || end.received > 1 || end.first_sample_ns.is_some();
    rows + u64::from(first_came)
}

/// Checks that every payload was verified.
fn check_verified(job: &Job, expected: u64, a: &mut Account) {
    if job.payload == Payload::Filled && a.verified != expected {
        a.invalid.push(format!("{} payloads were verified of {expected} received", a.verified));
    }
}

#[cfg(test)]
#[path = "account_tests.rs"]
mod tests;
