// SPDX-License-Identifier: Apache-2.0
//! Consistency check of a manifest: an archive may come from any source.

use super::{Case, LinkMeasure, Manifest};
use anyhow::{Context, Result, bail, ensure};
use driveline_bench::Beside;
use driveline_bench::child::unreadable;
use driveline_bench::harness::Pace;
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// Maximum number of rounds of an experiment, as for scenarios and the command line.
const MAX_ROUNDS: u64 = 1000;
/// Maximum number of samples of a link: a day at the highest rate.
pub(super) const MAX_MESSAGES: u64 = 86_400_000_000;
/// Maximum number of links of a case.
pub(super) const MAX_LINKS: u64 = 256;
/// Maximum observation time of a workload or of a link at rest, and maximum warm-up of a workload:
/// twice the maximum of `seconds` in a scenario, which is a day.
const LONGEST_MS: u64 = 2 * 86_400_000;

/// Refuses texts with control characters, which could move a reader's cursor or hide text.
pub(super) fn check_readable(m: &Manifest) -> Result<()> {
    match unreadable(&serde_json::to_value(m)?) {
        Some(text) => bail!("'{text}' has control characters or invisible ones"),
        None => Ok(()),
    }
}

/// Refuses impossible values: memory is reserved for each round, and names of directories are used
/// as paths.
pub(super) fn check(m: &Manifest) -> Result<()> {
    let is_name = |name: &str| {
        let parts: Vec<_> = Path::new(name).components().collect();
        matches!(parts.as_slice(), [Component::Normal(n)] if *n == name)
    };
    check_readable(m)?;
    let mut ids = BTreeSet::new();
    for e in &m.experiments {
        let id = &e.scenario.id;
        ensure!(is_name(id), "'{id}' is no name of an experiment");
        ensure!(ids.insert(id), "the experiment {id} occurs twice");
        ensure!(
            e.rounds <= MAX_ROUNDS,
            "{id} has {} rounds; at most {MAX_ROUNDS} are possible",
            e.rounds
        );
        let (mut names, mut directories) = (BTreeSet::new(), BTreeSet::new());
        for case in &e.cases {
            ensure!(
                is_name(&case.directory),
                "{id}: '{}' is no name of a directory",
                case.directory
            );
            ensure!(
                names.insert(&case.id) && directories.insert(&case.directory),
                "{id}: the case '{}', or its directory, occurs twice",
                case.id
            );
            check_case(case).with_context(|| format!("{id}: the case '{}'", case.id))?;
        }
    }
    Ok(())
}

/// Refuses counts above a maximum.
pub(super) fn count(what: &str, n: u64, most: u64) -> Result<()> {
    ensure!(n <= most, "{n} {what} are more than {most}");
    Ok(())
}

/// Checks that numbers are within the limits of scenarios, because waits and memory are computed
/// from these numbers.
fn check_case(case: &Case) -> Result<()> {
    let rate = |hz: f64| -> Result<()> {
        ensure!((0.01..=1e6).contains(&hz), "{hz} Hz is no rate");
        Ok(())
    };
    count("links", case.links.len() as u64, MAX_LINKS)?;
    let priority = |p: u8| count("as priority", p.into(), 99);
    check_beside(&case.beside)?;
    priority(case.beside.favour.as_ref().map_or(0, |f| f.priority))?;
    for link in &case.links {
        if let Pace::RateHz(hz) = link.pace {
            rate(hz)?;
        }
        ensure!(
            (1..=512).contains(&link.subscribers),
            "{} is no number of subscribers",
            link.subscribers
        );
        count("bytes of payload", link.size as u64, 1 << 40)?;
        count("messages", link.messages, MAX_MESSAGES)?;
        count("messages before", link.warm_up, MAX_MESSAGES)?;
        count("µs of work", link.processing_us, 10_000_000)?;
        count("samples of history", link.depth.into(), 1024)?;
        priority(link.priority)?;
    }
    if let Some(LinkMeasure::AtRest { duration_ms }) = case.measure {
        count("ms", duration_ms, LONGEST_MS)?;
    }
    if let Some(chain) = &case.chain {
        chain.rate_hz.map_or(Ok(()), rate)?;
        count("messages", chain.messages, MAX_MESSAGES)?;
        count("messages before", chain.warm_up, MAX_MESSAGES)?;
        count("samples of history", chain.depth.into(), 1024)?;
        priority(chain.priority)?;
    }
    if let Some(w) = &case.workload {
        count("ms", w.duration_ms, LONGEST_MS)?;
        count("ms before", w.warm_up_ms, LONGEST_MS)?;
    }
    Ok(())
}

/// Checks that the load next to the links is within the limits of scenarios.
fn check_beside(beside: &Beside) -> Result<()> {
    count("hogs", beside.hogs as u64, 64)?;
    count("% of one CPU", beside.quota_percent.unwrap_or(0).into(), 10_000)?;
    count(
        "ms between two looks",
        beside.watch_every.map_or(0, |every| every.as_millis()).try_into()?,
        60_000,
    )?;
    let cable = beside.cable.unwrap_or_default();
    count("Mbit/s", cable.mbit.unwrap_or(0).into(), 100_000)?;
    ensure!(
        (0.0..=100.0).contains(&cable.loss_percent),
        "{} % is no share of packets",
        cable.loss_percent
    );
    ensure!(
        (0.0..=500.0).contains(&cable.delay_ms),
        "{} ms is no delay of a cable: at most 500 are possible",
        cable.delay_ms
    );
    Ok(())
}
