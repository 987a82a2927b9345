// SPDX-License-Identifier: Apache-2.0
//! Consistency check of a run's account with its case: reports are computed from its numbers, and
//! an archive may come from any source.

use super::check::{MAX_LINKS, MAX_MESSAGES, count};
use super::{Case, Run};
use anyhow::{Context, Result, ensure};
use driveline_bench::Account;

/// Maximum number of samples of a link whose rows are read, with warm-up and repetitions.
const MAX_SENT: u64 = 4 * MAX_MESSAGES;
/// Maximum duration of a run: a year, in seconds.
const LONGEST_S: f64 = 366.0 * 86_400.0;

/// Refuses impossible accounts. For an invalid run, only the disturbance, the duration and the
/// number of accounts are checked: its ends may have written anything.
pub(super) fn check(case: &Case, run: &Run) -> Result<()> {
    let share = |what: &str, x: f64| -> Result<()> {
        // A share can be above 1, because the counts of ticks are not read at the same instant.
        ensure!((0.0..=2.0).contains(&x), "{x} is not a valid share of the machine ({what})");
        Ok(())
    };
    share("used by other processes", run.disturbance.other_processes)?;
    share("stolen", run.disturbance.stolen)?;
    ensure!(
        (0.0..=LONGEST_S).contains(&run.seconds),
        "{} s is not a possible duration of a run",
        run.seconds
    );
    // Checks the number of accounts for an invalid run too, because they are printed.
    count("accounts", run.accounts.len() as u64, MAX_LINKS)?;
    if !run.is_valid() {
        return Ok(());
    }
    let (accounts, links) = (run.accounts.len(), case.links.len());
    ensure!(accounts == links, "it has accounts of {accounts} links, and the case has {links}");
    for (index, (account, link)) in run.accounts.iter().zip(&case.links).enumerate() {
        check_account(account, link.subscribers)
            .with_context(|| format!("link {index}, '{}'", link.topic))?;
    }
    Ok(())
}

fn check_account(a: &Account, subscribers: usize) -> Result<()> {
    count("samples scheduled", a.scheduled, MAX_MESSAGES)?;
    count("samples sent", a.sent, MAX_SENT)?;
    ensure!(
        a.torn == 0,
        "{} payloads were torn, and no reason says that the run does not count",
        a.torn
    );
    let (receivers, missers) = (a.received.len(), a.missed.len());
    ensure!(
        receivers == missers,
        "{receivers} subscribers received and {missers} missed something"
    );
    ensure!(
        receivers <= subscribers,
        "it reports {receivers} subscribers, and the link has {subscribers}"
    );
    for (subscriber, (received, missed)) in a.received.iter().zip(&a.missed).enumerate() {
        ensure!(
            received.checked_add(*missed) == Some(a.sent),
            "subscriber {subscriber}: {} samples were sent, {received} received and {missed} \
             missed",
            a.sent
        );
    }
    let measured = [
        ("publisher_cpu_ns_per_sample", a.publisher_cpu_ns_per_sample),
        ("subscriber_cpu_ns_per_sample", a.subscriber_cpu_ns_per_sample),
        ("wake_calls_per_publish", a.wake_calls_per_publish),
        ("idle_wakeups_per_s", a.idle_wakeups_per_s),
    ];
    for (what, x) in measured {
        // The values are quotients of 64-bit counts, so none exceeds `u64::MAX`.
        let x = x.unwrap_or(0.0);
        ensure!((0.0..=u64::MAX as f64).contains(&x), "`{what}` cannot be {x}");
    }
    Ok(())
}
