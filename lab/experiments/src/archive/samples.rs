// SPDX-License-Identifier: Apache-2.0
//! Raw stamps of links as an Arrow file, and the figures that follow from them.

use super::columns::{self, Column, numbers};
use super::{Case, Role, Run};
use anyhow::{Result, bail, ensure};
use arrow_array::Array;
use driveline_bench::harness::{Pace, Payload, ReceivedRow, SentRow};
use driveline_bench::{Account, Metric, Sample};
use std::collections::BTreeMap;
use std::path::Path;

/// Sample of one of the links of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSample {
    /// Link of the case.
    pub link: usize,
    /// The sample, with its delivery to one subscriber.
    pub sample: Sample,
}

/// Columns with the stamps, in nanoseconds on `CLOCK_MONOTONIC`. A missing value is a stamp that
/// was not taken.
const SENT: [&str; 4] =
    ["scheduled_ns", "before_fill_ns", "before_publish_ns", "publish_returned_ns"];
const RECEIVED: [&str; 4] = ["woken_ns", "in_hand_ns", "copied_ns", "read_ns"];

pub(super) fn write(path: &Path, accounts: &[Account]) -> Result<()> {
    let rows = || {
        accounts.iter().enumerate().flat_map(|(link, a)| a.stamps.iter().map(move |s| (link, s)))
    };
    let some = |n: u64| (n > 0).then_some(n);
    let sent =
        |s: &Sample| [s.sent.scheduled, s.sent.before_fill, s.sent.before_publish, s.sent.returned];
    let received =
        |s: &Sample| s.received.map_or([0; 4], |r| [r.woken, r.in_hand, r.copied, r.read]);
    let mut columns = vec![
        Column::numbers("link", rows().map(|(link, _)| Some(link as u64))),
        Column::numbers("subscriber", rows().map(|(_, s)| Some(s.subscriber as u64))),
        Column::numbers("sequence", rows().map(|(_, s)| Some(s.sent.sequence))),
        Column::numbers("received", rows().map(|(_, s)| Some(u64::from(s.received.is_some())))),
    ];
    for (i, name) in SENT.into_iter().enumerate() {
        columns.push(Column::numbers(
            name,
            rows().map(|(_, s)| sent(s).get(i).copied().and_then(some)),
        ));
    }
    for (i, name) in RECEIVED.into_iter().enumerate() {
        columns.push(Column::numbers(
            name,
            rows().map(|(_, s)| received(s).get(i).copied().and_then(some)),
        ));
    }
    let got = |s: &Sample, ns: u64| s.received.is_some().then_some(ns);
    columns.push(Column::numbers("transport_ns", rows().map(|(_, s)| got(s, s.transport_ns))));
    columns.push(Column::numbers(
        "fill_and_transport_ns",
        rows().map(|(_, s)| some(s.fill_and_transport_ns)),
    ));
    columns::write(path, columns)
}

pub(super) fn read(path: &Path) -> Result<Vec<LinkSample>> {
    let mut samples = Vec::new();
    for batch in columns::read(path)? {
        let column = |name: &str| numbers(&batch, name);
        let [link, subscriber, sequence, received] =
            [column("link")?, column("subscriber")?, column("sequence")?, column("received")?];
        let sent: Vec<_> = SENT.into_iter().map(column).collect::<Result<_>>()?;
        let heard: Vec<_> = RECEIVED.into_iter().map(column).collect::<Result<_>>()?;
        let [transport, fill_and_transport] =
            [column("transport_ns")?, column("fill_and_transport_ns")?];
        for row in 0..batch.num_rows() {
            let of = |c: &arrow_array::UInt64Array| if c.is_valid(row) { c.value(row) } else { 0 };
            let nth = |columns: &[&arrow_array::UInt64Array], i: usize| {
                columns.get(i).map_or(0, |c| of(c))
            };
            let sequence = of(sequence);
            let heard = ReceivedRow {
                sequence,
                woken: nth(&heard, 0),
                in_hand: nth(&heard, 1),
                copied: nth(&heard, 2),
                read: nth(&heard, 3),
            };
            let sent = SentRow {
                sequence,
                scheduled: nth(&sent, 0),
                before_fill: nth(&sent, 1),
                before_publish: nth(&sent, 2),
                returned: nth(&sent, 3),
            };
            samples.push(LinkSample {
                link: of(link) as usize,
                sample: Sample {
                    subscriber: of(subscriber) as usize,
                    sent,
                    received: (of(received) > 0).then_some(heard),
                    transport_ns: of(transport),
                    fill_and_transport_ns: of(fill_and_transport),
                },
            });
        }
    }
    Ok(samples)
}

/// Checks that stamps belong to the run of the account.
pub(super) fn check(samples: &[LinkSample], run: &Run) -> Result<()> {
    let accounts = &run.accounts;
    // Seconds in the account are rounded.
    let ended_ns = run.started_ns.saturating_add(((run.seconds + 0.001) * 1e9) as u64);
    let stamps = |s: &LinkSample| {
        let (sent, received) = (s.sample.sent, s.sample.received.unwrap_or_default());
        [
            sent.before_fill,
            sent.before_publish,
            sent.returned,
            received.woken,
            received.in_hand,
            received.copied,
            received.read,
        ]
    };
    // Stamps that were not taken are 0. A due time may be after the end.
    let outside = samples
        .iter()
        .flat_map(stamps)
        .find(|ns| *ns > 0 && !(run.started_ns..=ended_ns).contains(ns));
    if let Some(ns) = outside {
        bail!(
            "it has a stamp of {ns} ns, and its run went from {} to {ended_ns} ns: it is of \
             another run",
            run.started_ns
        );
    }
    // By link and subscriber: number of rows, and number of rows with a received sample.
    let mut there = BTreeMap::<(usize, usize), (u64, u64)>::new();
    for s in samples {
        let entry = there.entry((s.link, s.sample.subscriber)).or_default();
        *entry = (entry.0 + 1, entry.1 + u64::from(s.sample.received.is_some()));
    }
    for (link, account) in accounts.iter().enumerate() {
        // The floor of a memory copy has no receiver. Its samples are those of subscriber 0.
        let received = if account.received.is_empty() { &[0][..] } else { &account.received };
        for (subscriber, received) in received.iter().enumerate().filter(|_| account.sent > 0) {
            let (rows, got) = there.remove(&(link, subscriber)).unwrap_or_default();
            ensure!(
                (rows, got) == (account.sent, *received),
                "of link {link}, subscriber {subscriber}, the account has {} samples sent and \
                 {received} received, and there are {rows} and {got}",
                account.sent
            );
        }
    }
    ensure!(
        there.is_empty(),
        "it has stamps of links or subscribers that the account does not have"
    );
    Ok(())
}

/// Returns the figures of a run, over all links and subscribers of a case.
#[must_use]
pub fn metrics(case: &Case, samples: &[LinkSample]) -> BTreeMap<Metric, Vec<u64>> {
    let mut of = BTreeMap::<Metric, Vec<u64>>::new();
    let mut last = BTreeMap::<(usize, u64), (usize, u64)>::new();
    let mut arrivals = BTreeMap::<(usize, usize), Vec<u64>>::new();
    for LinkSample { link, sample } in samples {
        let Some(spec) = case.links.get(*link) else { continue };
        let closed = spec.pace == Pace::PingPong;
        let filled = spec.payload == Payload::Filled;
        let mut put = |metric, value| of.entry(metric).or_default().push(value);
        let s = &sample.sent;
        if case.is_copy() {
            put(Metric::Copy, s.before_publish.saturating_sub(s.before_fill));
            continue;
        }
        // The rows of every subscriber repeat the sender's stamps; only those of subscriber 0
        // count.
        if sample.subscriber == 0 {
            if filled && s.before_publish > 0 {
                put(Metric::Fill, s.before_publish.saturating_sub(s.before_fill));
            }
            if s.returned > 0 && case.role == Role::Measured {
                put(Metric::PublishCall, s.returned.saturating_sub(s.before_publish));
            }
        }
        let Some(r) = &sample.received else { continue };
        put(Metric::Transport, sample.transport_ns);
        if filled {
            put(Metric::FillAndTransport, sample.fill_and_transport_ns);
        }
        if r.copied > 0 {
            put(Metric::Copy, r.copied.saturating_sub(r.in_hand));
        }
        if r.read > 0 {
            put(Metric::Read, r.read.saturating_sub(r.in_hand.max(r.copied)));
        }
        if !closed {
            put(Metric::ScheduleRelative, r.in_hand.max(r.copied).saturating_sub(s.scheduled));
            put(Metric::WakeToHand, r.in_hand.saturating_sub(r.woken));
            arrivals.entry((*link, sample.subscriber)).or_default().push(r.in_hand);
            if spec.subscribers > 1 {
                let entry = last.entry((*link, s.sequence)).or_default();
                *entry = (entry.0 + 1, entry.1.max(sample.transport_ns));
            }
        }
    }
    for mut at in arrivals.into_values() {
        // Sorts by arrival, because samples are stored in the order of sending.
        at.sort_unstable();
        of.entry(Metric::BetweenArrivals)
            .or_default()
            .extend(at.windows(2).map(|pair| pair[1] - pair[0]));
    }
    // A sample that a subscriber missed has no last subscriber.
    let whole = |link: usize| case.links.get(link).map_or(0, |l| l.subscribers);
    let last: Vec<u64> = last
        .iter()
        .filter(|((link, _), (n, _))| *n == whole(*link))
        .map(|(_, (_, ns))| *ns)
        .collect();
    if !last.is_empty() {
        of.insert(Metric::LastSubscriber, last);
    }
    of
}
