// SPDX-License-Identifier: Apache-2.0
//! Requests another host's time, to measure its clock. Such a request also serves as a *nudge*, a
//! small message behind the samples in flight: `docs/protocols/network.md`, sections 5 and 6.

use super::lock;
use crate::clock::{ClockEstimate, Exchange};
use crate::wire::Time;
use driveline_types::MonotonicNs;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zenoh::qos::{CongestionControl, Priority};
use zenoh::query::ConsolidationMode;
use zenoh::{Session, Wait};

/// Time-out of a request for the time.
const WITHIN: Duration = Duration::from_secs(2);

/// Limit of remembered hosts. Before a further one is added, all requests that are older than
/// [`REMEMBERED`] are forgotten.
const HOSTS: usize = 64;
/// Minimum time for which a request is remembered: longer than any pause.
const REMEMBERED: Duration = Duration::from_secs(1);

/// Times of the last request to each host, shared by all clones.
#[derive(Clone, Default)]
pub(super) struct Questions(Arc<Mutex<BTreeMap<String, MonotonicNs>>>);

impl Questions {
    /// Requests the time of the host that answers under `key`, unless that was done within the last
    /// `pause`. The answer updates the clock, and then calls `then` with the time of the request
    /// and the number of changes of its lists, on a thread of Zenoh's.
    pub(super) fn ask(
        &self,
        session: &Session,
        key: &str,
        clock: &Arc<Mutex<ClockEstimate>>,
        pause: Duration,
        then: impl Fn(MonotonicNs, u64) + Send + Sync + 'static,
    ) {
        let now = MonotonicNs::now();
        if self.is_due(key, now, pause) {
            ask(session, key, clock, now, then);
        }
    }

    /// Notes a request to a host. Returns `false` if the last request is less than `pause` ago, so
    /// that none is needed. Always returns `true` if `pause` is zero.
    fn is_due(&self, key: &str, now: MonotonicNs, pause: Duration) -> bool {
        let mut hosts = lock(&self.0);
        let asked = hosts.get(key).copied();
        // Another thread may have read its clock later and arrived here earlier.
        let due = pause.is_zero() || asked.is_none_or(|asked| now >= asked + pause);
        if due {
            if asked.is_none() && hosts.len() >= HOSTS {
                hosts.retain(|_, asked| now < *asked + REMEMBERED);
            }
            hosts.insert(key.to_owned(), asked.map_or(now, |asked| asked.max(now)));
        }
        due
    }
}

fn ask(
    session: &Session,
    key: &str,
    clock: &Arc<Mutex<ClockEstimate>>,
    sent: MonotonicNs,
    then: impl Fn(MonotonicNs, u64) + Send + Sync + 'static,
) {
    let clock = clock.clone();
    let get = session
        .get(key)
        .timeout(WITHIN)
        .congestion_control(CongestionControl::Drop)
        .priority(Priority::RealTime);
    // Not `express`: each request would then fill one of two batches, and its sender would wait for
    // space if a host does not read. Each reply is handled on arrival: with consolidation,
    // Zenoh would store replies, also those of hosts that were not asked.
    let asked = get.consolidation(ConsolidationMode::None).callback(move |reply| {
        let returned = MonotonicNs::now();
        let Ok(sample) = reply.result() else { return };
        let Some(Time { received, answered, changes }) = Time::decode(&sample.payload().to_bytes())
        else {
            return;
        };
        lock(&clock).exchange(&Exchange { sent, received, answered, returned });
        then(sent, changes);
    });
    // A failed request is repeated soon.
    let _ = asked.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recent_request_saves_another_one_unless_there_is_no_pause() {
        let pause = Duration::from_millis(2);
        let questions = Questions::default();
        let is_due = |ns, pause| questions.is_due("clock/trunk", MonotonicNs(ns), pause);
        assert!(is_due(1_000_500, pause));
        assert!(!is_due(3_000_499, pause));
        // The thread that read its clock first arrives second.
        assert!(is_due(1_000_000, Duration::ZERO));
        assert!(!is_due(3_000_499, pause));
        assert!(
            questions.is_due("clock/roof", MonotonicNs(3_000_499), pause),
            "each host has its own requests"
        );
        assert!(is_due(3_000_500, pause));
    }

    #[test]
    fn hosts_that_have_gone_are_forgotten() {
        let questions = Questions::default();
        for second in 0..10 * HOSTS as u64 {
            assert!(questions.is_due(
                &format!("clock/{second}"),
                MonotonicNs(second * 1_000_000_000),
                Duration::from_millis(2)
            ));
            assert!(lock(&questions.0).len() <= HOSTS);
        }
    }
}
